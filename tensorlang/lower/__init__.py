"""Lowering to `jax.numpy`: readable source, and running it."""

from tensorlang.lower.run import Lowered, lower

__all__ = ["Lowered", "lower"]
