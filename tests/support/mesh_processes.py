"""One of two processes on this machine, each with 4 of the mesh's 8 devices: run as a module with the port at which
the first listens, and the number of the process."""

from __future__ import annotations

import sys
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding

import tensorlang as tl
from tests.support.mesh_cases import CASES, arrays, error

NAMES = (
    "layer's adjoint by examples and features",
    "matmul's adjoint along one axis",
    "stencil's adjoint",
    "lookups by rows",
)


def main(port: str, process: int) -> None:
    """Run the cases, and check the parts of their results that this process holds."""
    jax.distributed.initialize(f"localhost:{port}", num_processes=2, process_id=process)
    assert len(jax.devices()) == 8 and len(jax.local_devices()) == 4
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    for name in NAMES:
        case = CASES[name]
        f = case.function
        given = arrays(f, case.sizes, np.random.default_rng(0))
        want = jax.tree.leaves(tl.evaluate(f, *given))
        lowered = tl.lower(f, mesh=mesh, sharding=case.sharding)

        def lying(x: Any, spec: Any) -> jax.Array:
            return jax.make_array_from_callback(np.shape(x), NamedSharding(mesh, spec), lambda at: np.asarray(x)[at])

        got = jax.tree.leaves(lowered(*map(lying, given, lowered.in_specs)))
        for a, b in zip(got, want, strict=True):
            assert not a.is_fully_addressable
            for part in a.addressable_shards:
                assert error(part.data, np.asarray(b)[part.index]) < 1e-5, name
    print("all alike", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
