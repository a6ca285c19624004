"""Programs compiled ahead of time for 256 TPU chips, by the real compiler; run as a module, it compiles each of them.

Each line of its output is JSON: a program's name, the communication that its indices require, and that of the compiled
program.
"""

from __future__ import annotations

import json
from typing import Any

import jax
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding

import tensorlang as tl
from tensorlang.language.affine import Size
from tensorlang.language.types import shape
from tensorlang.measure.collectives import sent_by
from tests.support.mesh_cases import ATTENTION, LAYER, MATMUL, STENCIL, Case


def gradient(f: tl.Function) -> tl.Function:
    return tl.value_and_grad(f, "w")


CHIPS = {
    "layer by examples and features": Case(
        LAYER, {"batch": "x", "d": "y"}, {"batch": 4096, "d": 1024, "e": 512}, ("psum",) * 3, gradient
    ),
    "layer with weights in blocks": Case(
        LAYER,
        {"batch": "x", "d": "x"},
        {"batch": 4096, "d": 4096, "e": 512},
        ("all_gather", "psum_scatter", "psum"),
        gradient,
    ),
    "matmul": Case(MATMUL, {"n": "x", "m": "y"}, {"n": 4096, "m": 2048, "p": 512}, ("psum",), tl.adjoint),
    "attention": Case(
        ATTENTION,
        {"n": "x", "h": "y"},
        {"b": 2, "h": 16, "n": 2048, "d": 64},
        ("all_gather", "all_gather", "psum_scatter", "psum_scatter"),
        tl.adjoint,
    ),
    "stencil": Case(STENCIL, {"n": ("x", "y")}, {"n": 2**20}, ("ppermute",) * 4 + ("psum",), tl.adjoint),
}


def main() -> None:
    """Compile every program."""
    jax.config.update("jax_default_matmul_precision", "highest")  # else operands are sent in half precision
    chips = np.array(topologies.get_topology_desc("v5e:16x16", "tpu").devices)
    mesh = Mesh(chips.reshape(16, 16), ("x", "y"))
    for name, case in CHIPS.items():
        f = case.function
        lowered = tl.lower(f, mesh=mesh, sharding=case.sharding)
        known = {Size(size): n for size, n in case.sizes.items()}

        def lying(p: Any, spec: Any, known: dict[Size, int] = known) -> jax.ShapeDtypeStruct:
            dims = tuple(a.value(known) for a in shape(p.type)[0])
            return jax.ShapeDtypeStruct(dims, np.float32, sharding=NamedSharding(mesh, spec))

        compiled = jax.jit(lowered).lower(*map(lying, f.params, lowered.in_specs)).compile()
        required = [(s.kind, s.along, s.bytes) for s in lowered.collectives.at(**case.sizes)]
        does = [(s.kind, s.along, s.bytes) for s in sent_by(compiled.as_text(), mesh.shape)]
        print(json.dumps({"name": name, "required": required, "compiled": does}), flush=True)


if __name__ == "__main__":
    main()
