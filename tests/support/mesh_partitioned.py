"""Programs that XLA partitions for a mesh of 4 x 2 devices; run as a module, it runs each of them.

Each line of its output is JSON: a case's name, its largest error relative to the program on one device, and the kinds
of collectives that XLA made; then random recurrences and their adjoints.
"""

from __future__ import annotations

import json
import random
from functools import partial
from typing import Any

import numpy as np

import tensorlang as tl
from tests.support.mesh_cases import Case, arrays, error
from tests.support.recurrences import recurrent

RNN = """rnn(x: [T][batch][d]R, w: [h][h]R, u: [h][d]R, y: [batch][h]R) =
  let s = fold t:T with s = (gen b:batch, i:h. 0) .
    gen b:batch, i:h. tanh((sum j:h. w[i, j] * s[b, j]) + sum k:d. u[i, k] * x[t, b, k]) in
  sum b:batch, i:h. (s[b, i] - y[b, i])^2"""
HEAT = """heat(x: [n]R, c: R) =
  fold t:T with s = x . gen i:n. s[i] + [1 <= i < n - 1] * c * (s[i - 1] - 2 * s[i] + s[i + 1])"""
PAIRED = """both(x: ([batch][T]R, [batch]R)) =
  let s = scan t:T with s = snd(x) . gen b:batch. cos(s[b]) + fst(x)[b, t] in (s, sum b:batch, t:T. s[t, b])"""
NUMBERS = "ramp(x: [n]R, k: [m]idx(n), E: rel(n, m)) = sum i:n, j:m. [E(i, j)] * real(i) * x[k[j]] * x[i]"
GREATEST = "greatest(x: [n]R, p: [n]idx(n)) = gen i:n. max k:n where p[k] = p[i]. x[k]"
R = {"T": 5, "batch": 8, "d": 3, "h": 4}
gradient = lambda f: tl.value_and_grad(f, f.params[0].name)

# without kinds where XLA may choose among several collectives
CASES = {
    "network": Case(RNN, {"b": "x"}, R, ("psum",)),
    "network's gradient": Case(RNN, {"batch": "x"}, R, ("psum",), lambda f: tl.value_and_grad(f, "w")),
    "network by examples and units": Case(RNN, {"batch": "x", "h": "y"}, R, ("all_gather", "psum"), tl.grad),
    "uneven network": Case(RNN, {"batch": ("x", "y")}, {**R, "batch": 9}, (), tl.grad),
    "one example": Case(RNN, {"batch": "x"}, {**R, "batch": 1}, (), tl.grad),
    "no example": Case(RNN, {"batch": "x"}, {**R, "batch": 0}, (), tl.grad),
    "no step": Case(RNN, {"batch": "x"}, {**R, "T": 0}, (), tl.grad),
    "heat": Case(HEAT, {"n": "x"}, {"n": 16, "T": 4}, ("ppermute",)),
    "heat's adjoint": Case(HEAT, {"n": "x"}, {"n": 16, "T": 4}, ("ppermute", "psum"), tl.adjoint),
    "pairs": Case(PAIRED, {"b": "y"}, {"T": 3, "batch": 8}, ()),
    "pairs' derivative": Case(PAIRED, {"batch": "x"}, {"T": 3, "batch": 8}, ("psum",), tl.derivative),
    "greatest of groups": Case(GREATEST, {"i": "x"}, {"n": 8}, (), tl.adjoint),
    "numbers of indices": Case(NUMBERS, {"n": "x"}, {"n": 8, "m": 3}, (), gradient),
}


def main() -> None:
    """Run every case, and random recurrences."""
    import jax

    from tensorlang.measure.collectives import sent_by

    mesh = jax.make_mesh((4, 2), ("x", "y"))
    rng = np.random.default_rng(0)
    for name, case in CASES.items():
        f = case.function
        lowered = tl.lower(f, mesh=mesh, sharding=case.sharding)
        given = arrays(f, case.sizes, rng)
        told = {"T": case.sizes["T"]} if case.text == HEAT else {}
        sent = sent_by(jax.jit(partial(lowered, **told)).lower(*given).compile().as_text(), mesh.shape)
        got = error(lowered(*given, **told), tl.lower(f)(*given, **told))
        print(json.dumps({"name": name, "error": got, "kinds": sorted({s.kind for s in sent})}), flush=True)
    for seed in range(12):
        f, given = _random(seed)
        got = error(tl.lower(f, mesh=mesh, sharding={"n": "x"})(*given), tl.lower(f)(*given))
        print(json.dumps({"name": f"seed {seed}", "error": got}), flush=True)


def _random(seed: int) -> tuple[tl.Function, list[Any]]:
    """A random recurrence, or its adjoint, with arguments."""
    made = recurrent(random.Random(seed), n=4)
    f, given = tl.parse(made.text), list(made.arguments.values())
    if seed % 2:
        value = tl.lower(f)(*given)
        f, given = tl.adjoint(f), [*given, value]
    return f, given


if __name__ == "__main__":
    main()
