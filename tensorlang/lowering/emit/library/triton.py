"""What generated kernels for GPUs call: reading and writing tiles, products of matrices, tables of visited tiles."""

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.pallas import triton as plgpu

from tensorlang.lowering.emit.library.tiles import _product_of_kept


def _tile(ref, at, mask=None):
    """The elements at `at`, reals in single precision; 0 where the mask is false."""
    at = tuple(np.int32(k) if isinstance(k, int) else k for k in at)  # JAX's interpreter takes no Python's integers
    value = plgpu.load(ref.at[at], mask=mask, other=None if mask is None else ref.dtype.type(0))
    return value.astype(jnp.float32) if jnp.issubdtype(value.dtype, jnp.floating) else value


def _store(ref, at, value, mask=None):
    """Put `value` at `at`, where the mask holds."""
    plgpu.store(ref.at[at], value.astype(ref.dtype), mask=mask)


def _product(a, b, dtype, interpret):
    """The product of two matrices, rounded to `dtype`, summed in single precision. A GPU's matrix units take single
    precision as three products of TF32, which together are as exact; the interpreter takes it as it is."""
    split = dtype == jnp.float32 and not interpret
    precision = lax.DotAlgorithmPreset.TF32_TF32_F32_X3 if split else lax.Precision.HIGHEST
    return jnp.dot(a.astype(dtype), b.astype(dtype), precision=precision, preferred_element_type=jnp.float32)


def _product_where(a, b, in_a, in_b, dtype, interpret):
    """As `_product`, of what is in `in_a` and `in_b` alone, whatever the other elements are."""
    return _product_of_kept(lambda a, b: _product(a, b, dtype, interpret), a, b, in_a, in_b)


def _rescaling(old, new):
    """exp(old - new), by which sums of exp(a - old) are multiplied when the maximum grows to `new`."""
    return jnp.where(old == new, 1.0, jnp.exp(old - new))


def _intervals(visited, whole):
    """For each row of tiles: the first visited, the first and the end of those without masks, the end of the visited.

    In a row they follow one another. Those without masks are the first run of `whole` ones.
    """
    count = visited.shape[1]
    first = visited.argmax(1)
    last = np.where(visited.any(1), count - visited[:, ::-1].argmax(1), first)
    start = np.where(whole.any(1), whole.argmax(1), first)
    others = ~whole & (np.arange(count) >= start[:, None])
    stop = np.where(others.any(1), others.argmax(1), count)
    return jnp.asarray(np.stack([first, start, stop, last], 1), jnp.int32)


def _lists(visited, whole):
    """For each row of tiles: how many are whole, how many are visited, and their numbers, in this order."""
    rank = jnp.where(visited, jnp.where(whole, 0, 1), 2)
    counts = [(visited & whole).sum(1, keepdims=True), visited.sum(1, keepdims=True)]
    return jnp.concatenate([*counts, jnp.argsort(rank, 1, stable=True)], 1).astype(jnp.int32)
