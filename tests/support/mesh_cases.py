"""Programs on a mesh of 4 x 2 devices, with the communication that they need; run as a module, it runs each of them.

Each line of its output is JSON: a case's name, its largest error relative to the reference evaluator, the communication
that its indices require, and that of the compiled program.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

import tensorlang as tl
from tensorlang.language.affine import IndexArray, Size
from tensorlang.language.function import Function
from tensorlang.language.grammar import Var
from tensorlang.language.types import shape

MATMUL = "mm(a: [n][m]R, b: [m][p]R) = gen i:n, j:p. sum k:m. a[i, k] * b[k, j]"
LAYER = """layer(x: [batch][d]R, w: [d][e]R, y: [batch][e]R) =
  let h = gen b:batch, u:e. tanh(sum v:d. x[b, v] * w[v, u]) in
  sum b:batch, u:e. (h[b, u] - y[b, u])^2"""
STENCIL = "heat(x: [n]R, c: R) = gen i:n. [1 <= i < n - 1] * c * (x[i - 1] - 2 * x[i] + x[i + 1])"
CORRELATION = "conv(x: [n + m - 1]R, w: [m]R) = gen i:n. sum j:m. x[i + j] * w[j]"
ATTENTION = """attention(q: [b][h][n][d]R, k: [b][h][n][d]R, v: [b][h][n][d]R) =
  let s = gen a:b, c:h, i:n, j:n. [j <= i] * exp(sum e:d. q[a, c, i, e] * k[a, c, j, e]) in
  gen a:b, c:h, i:n, e:d. (sum j:n. [j <= i] * s[a, c, i, j] * v[a, c, j, e]) / (sum j:n. [j <= i] * s[a, c, i, j])"""
SOFTMAX = "lse(x: [n][c]R) = gen i:n. let m = max j:c. x[i, j] in log(sum j:c. exp(x[i, j] - m)) + m"
SPARSE = "spmv(x: [m]R, E: rel(n, m)) = gen i:n. sum j:m. [E(i, j)] * x[j] * x[j]"
LOOKED_UP = "nll(logp: [n][c]R, y: [n]idx(c)) = sum i:n. logp[i, y[i]]"
TRIANGLE = "tri(a: [n][n]R, x: [n]R) = gen i:n. sum j:n. [j <= i] * a[i, j] * x[j]"
DIAGONALS = "diagonals(a: [n][n]R) = sum i:n. a[i, i] * a[n - 1 - i, i]"
STRIDES = "pairs(x: [2*n]R) = gen i:n. x[2*i] * x[2*i + 1]"
TRANSPOSED = "both(x: [n][n]R, z: ([n]R, R)) = (gen i:n, j:n. x[i, j] + x[j, i], gen i:n. fst(z)[i] * snd(z))"


@dataclass(frozen=True)
class Case:
    """A program, the transformation applied to it, its mapping, and the kinds of collectives that it needs, in
    order."""

    text: str
    sharding: dict[str, str | tuple[str, ...]]
    sizes: dict[str, int]
    kinds: tuple[str, ...]
    change: Callable[[Function], Function] = field(default=lambda f: f)

    @property
    def function(self) -> Function:
        return self.change(tl.parse(self.text))


S = {"n": 8, "m": 16, "p": 4}
L = {"batch": 8, "d": 4, "e": 6}
A = {"b": 4, "h": 2, "n": 8, "d": 3}
PSUM, SCATTER, GATHER, HALO = "psum", "psum_scatter", "all_gather", "ppermute"

CASES = {
    "matmul by rows": Case(MATMUL, {"i": "x"}, S, ()),
    "matmul by what is summed": Case(MATMUL, {"k": "x"}, S, (PSUM,)),
    "matmul by both": Case(MATMUL, {"i": "x", "k": "y"}, S, (PSUM,)),
    "matmul by both along one axis": Case(MATMUL, {"i": "x", "k": "x"}, S, (GATHER,)),
    "matmul's adjoint": Case(MATMUL, {"n": "x", "m": "y"}, S, (PSUM,), tl.adjoint),
    "matmul's adjoint along one axis": Case(MATMUL, {"n": "x", "m": "x"}, S, (GATHER, SCATTER), tl.adjoint),
    "layer by examples": Case(LAYER, {"b": ("x", "y")}, L, (PSUM,)),
    "layer's gradient by examples": Case(
        LAYER, {"batch": ("x", "y")}, L, (PSUM, PSUM), lambda f: tl.value_and_grad(f, "w")
    ),
    "layer's adjoint by examples and features": Case(LAYER, {"batch": "x", "d": "y"}, L, (PSUM, PSUM), tl.adjoint),
    "layer by uneven examples": Case(LAYER, {"b": "x"}, {**L, "batch": 9}, (PSUM,)),
    "stencil": Case(STENCIL, {"i": "x"}, {"n": 16}, (HALO, HALO)),
    "stencil's adjoint": Case(STENCIL, {"n": "x"}, {"n": 16}, (HALO, HALO, PSUM, HALO, HALO), tl.adjoint),
    "uneven stencil": Case(STENCIL, {"n": "x"}, {"n": 17}, (HALO, HALO)),
    "correlation": Case(CORRELATION, {"i": "x"}, {"n": 16, "m": 5}, (HALO, HALO)),
    "correlation wider than a block": Case(CORRELATION, {"i": "x"}, {"n": 4, "m": 13}, (GATHER,)),
    "correlation's adjoint": Case(
        CORRELATION, {"n": "x"}, {"n": 16, "m": 3}, (HALO, HALO, HALO, HALO, PSUM), tl.adjoint
    ),
    "attention by batch and heads": Case(ATTENTION, {"a": "x", "c": "y"}, A, ()),
    "attention's adjoint by batch and heads": Case(ATTENTION, {"b": "x", "h": "y"}, A, (), tl.adjoint),
    "attention by queries": Case(ATTENTION, {"i": "x"}, A, ()),
    "attention's adjoint by queries and keys": Case(
        ATTENTION, {"n": "x"}, A, (GATHER, GATHER, SCATTER, SCATTER), tl.adjoint
    ),
    "softmax by rows": Case(SOFTMAX, {"i": "x"}, {"n": 8, "c": 6}, ()),
    "softmax by columns": Case(SOFTMAX, {"c": "y"}, {"n": 8, "c": 6}, (GATHER, PSUM)),
    "relation by rows": Case(SPARSE, {"i": "x"}, {"n": 8, "m": 12}, ()),
    "relation by columns": Case(SPARSE, {"j": "x"}, {"n": 8, "m": 12}, (PSUM,)),
    "relation's adjoint falls back": Case(SPARSE, {"n": "x"}, {"n": 8, "m": 12}, (GATHER, PSUM), tl.adjoint),
    "lookups by rows": Case(LOOKED_UP, {"i": "x"}, {"n": 8, "c": 4}, (PSUM,)),
    "lookups fall back": Case(LOOKED_UP, {"c": "x"}, {"n": 8, "c": 4}, (GATHER,)),
    "lookups' adjoint": Case(LOOKED_UP, {"n": "x"}, {"n": 8, "c": 4}, (), tl.adjoint),
    "triangle by rows": Case(TRIANGLE, {"i": "x"}, {"n": 8}, ()),
    "uneven triangle by both": Case(TRIANGLE, {"i": "x", "j": "y"}, {"n": 9}, (PSUM,)),
    "triangle's adjoint": Case(TRIANGLE, {"n": "x"}, {"n": 8}, (GATHER, SCATTER), tl.adjoint),
    "diagonals fall back": Case(DIAGONALS, {"n": "x"}, {"n": 8}, (GATHER,), tl.adjoint),
    "uneven diagonals": Case(DIAGONALS, {"n": "x"}, {"n": 9}, (GATHER,), tl.adjoint),
    "strides": Case(STRIDES, {"n": "x"}, {"n": 8}, ()),
    "strides' adjoint": Case(STRIDES, {"n": "x"}, {"n": 8}, (GATHER, GATHER), tl.adjoint),
    "a matrix and its transpose": Case(TRANSPOSED, {"i": "x"}, {"n": 8}, (GATHER,)),
}


def arrays(f: Function, sizes: dict[str, int], rng: np.random.Generator) -> list[Any]:
    """Arguments of these sizes, numbers of single precision."""
    known = {Size(name): n for name, n in sizes.items()}
    dims = lambda axes: tuple(a.value(known) for a in axes)
    made: list[Any] = []
    for p in f.params:
        if isinstance(p, Var):
            made.append(_numbers(p.type, dims, rng))
        elif isinstance(p, IndexArray):
            made.append(rng.integers(0, p.size.value(known), dims(p.sizes)))
        else:
            made.append(rng.random(dims(p.sizes)) < 0.3)
    return made


def _numbers(kind: Any, dims: Any, rng: np.random.Generator) -> Any:
    axes, element = shape(kind)
    if hasattr(element, "first"):
        return _numbers(element.first, dims, rng), _numbers(element.second, dims, rng)
    return rng.normal(size=dims(axes)).astype(np.float32)


def error(got: Any, want: Any) -> float:
    """The largest difference, relative to the largest element of each array."""
    import jax

    pairs = zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True)
    most = lambda x: float(np.max(np.abs(x), initial=0))
    return max(most(np.asarray(a) - b) / max(1.0, most(b)) for a, b in pairs)


def main() -> None:
    """Run every case."""
    import jax
    from jax.sharding import AxisType, NamedSharding

    from tensorlang.measure.collectives import sent_by

    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    rng = np.random.default_rng(0)

    def divides(x: Any, spec: Any) -> bool:
        """Whether an array can be cut into equal blocks."""
        axes = [(a,) if isinstance(a, str) else a or () for a in spec]
        return all(n % prod(mesh.shape[a] for a in along) == 0 for n, along in zip(np.shape(x), axes, strict=False))

    def put(x: Any, spec: Any) -> Any:
        return jax.device_put(x, NamedSharding(mesh, spec)) if divides(x, spec) else x

    for name, case in CASES.items():
        f = case.function
        lowered = tl.lower(f, mesh=mesh, sharding=case.sharding)
        given = arrays(f, case.sizes, rng)
        want = tl.evaluate(f, *given)
        given = [jax.tree.map(put, x, spec) for x, spec in zip(given, lowered.in_specs, strict=True)]
        compiled = jax.jit(lowered).lower(*given).compile()
        required = [(s.kind, s.along, s.bytes) for s in lowered.collectives.at(**case.sizes)]
        does = [(s.kind, s.along, s.bytes) for s in sent_by(compiled.as_text(), mesh.shape)]
        even = all(jax.tree.leaves(jax.tree.map(divides, want, lowered.out_specs)))
        got = error(compiled(*given), want)
        line = {"name": name, "error": got, "required": required, "compiled": does, "even": even}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
