"""Functions of published packages, none of which was written for us, at a size that is a number.

`table` has them as expressions, by package; `pool` defines the names in these; `figures` counts and times their
gradients by `jax.grad` and by `tl.jax.grad`. `python -m benchmarks.packages` prints both for all functions.
"""

from benchmarks.packages.pool import Made, Missing, PackageFunction, functions

__all__ = ["Made", "Missing", "PackageFunction", "functions"]
