"""The energy of particles that feel their neighbours in a chain, written with a mask, as one does in JAX.

`jax.grad` of it takes all pairs; with the decorator the gradient takes those within the cutoff. `tensorlang lint
examples/potential.py` has nothing to say of it; without the decorator it has.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tensorlang as tl

CUTOFF = 8


# lint: r: n 3
@tl.jax.differentiable
def energy(r: Any) -> Any:
    i = jnp.arange(r.shape[0])
    apart = jnp.abs(i[:, None] - i)
    near = (apart > 0) & (apart <= CUTOFF)
    squared = jnp.sum((r[:, None] - r) ** 2, axis=2)
    inverse = jnp.where(near, 1 / jnp.where(near, squared, 1.0) ** 3, 0.0)
    return jnp.sum(inverse**2 - inverse)


def main() -> None:
    r = 2.0 * jnp.asarray(np.random.default_rng(0).normal(size=(2000, 3)), jnp.float32)
    forces = jax.jit(jax.grad(energy))(r)
    left = jnp.max(jnp.abs(jnp.sum(forces, 0))) / jnp.max(jnp.abs(forces))
    print(f"{float(left):.0e} of the largest force is left over")


if __name__ == "__main__":
    main()
