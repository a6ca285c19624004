"""What a device needs of arrays that are cut into blocks, one for each device along an axis of a mesh."""

import jax
import jax.numpy as jnp
from jax import lax

from tensorlang.lowering.emit.library.windows import _over


def _around(x, axis, dim, first, length, step, size):
    """On device d along a mesh axis, the elements d * step + first, d * step + first + 1, ... along `dim` of an array
    of `size` elements there, of which x is the block of this device; 0 outside of the array.

    What neighbours have of them, they send; where it takes more than neighbours, all blocks are put together.
    """
    devices, block = lax.axis_size(axis), x.shape[dim]
    reach = _reach(devices, block, first, length, step)
    if max(reach) > block:
        whole = lax.all_gather(x, axis, axis=dim, tiled=True)
        return _own_part(lax.slice_in_dim(whole, 0, size, axis=dim), axis, dim, first, length, step)
    left, right = reach
    parts = [x]
    if left:
        end = lax.slice_in_dim(x, block - left, block, axis=dim)
        parts.insert(0, lax.ppermute(end, axis, [(d, d + 1) for d in range(devices - 1)]))
    if right:
        start = lax.slice_in_dim(x, 0, right, axis=dim)
        parts.append(lax.ppermute(start, axis, [(d + 1, d) for d in range(devices - 1)]))
    x = jnp.concatenate(parts, dim) if len(parts) > 1 else x
    if step == block:  # the same on all devices
        x = lax.slice_in_dim(x, left + first, left + first + length, axis=dim)
    else:
        x = lax.dynamic_slice_in_dim(x, left + first + lax.axis_index(axis) * (step - block), length, dim)
    if devices * block > size:  # the last blocks are longer than what is left of the array
        at = lax.broadcasted_iota(jnp.int32, x.shape, dim) + first + lax.axis_index(axis) * step
        x = jnp.where(at < size, x, jnp.zeros((), x.dtype))
    return x


def _reach(devices, block, first, length, step):
    """How far the elements that the devices need reach out of their blocks, to the left and to the right."""
    starts = [first + d * (step - block) for d in (0, devices - 1)]
    return max(0, -min(starts)), max(0, max(starts) + length - block)


def _own_part(x, axis, dim, first, length, step):
    """The elements d * step + first, d * step + first + 1, ... of x along `dim`, on device d along a mesh axis; 0
    outside of x."""
    starts = [first + d * step for d in (0, lax.axis_size(axis) - 1)]
    low, high = min(0, *starts), max(x.shape[dim], *(start + length for start in starts))
    x = _over(x, *((low, high) if k == dim else (0, n) for k, n in enumerate(x.shape)))
    return lax.dynamic_slice_in_dim(x, first - low + lax.axis_index(axis) * step, length, dim)


def _laid_out(arrays, mesh, specs):
    """The arrays, of each of which a device has what its spec says, and all of an axis that can't be cut evenly."""

    def is_even(n, along):
        count = 1
        for axis in along if isinstance(along, tuple) else (along,):
            count *= mesh.shape[axis]
        return n > 0 and n % count == 0

    def laid_out(x, spec):
        axes = [along if along and is_even(n, along) else None for n, along in zip(x.shape, spec, strict=False)]
        return lax.with_sharding_constraint(x, jax.NamedSharding(mesh, jax.P(*axes)))

    return jax.tree.map(laid_out, arrays, specs)


def _adding_its_own(add):
    """`add` of values at places, without what XLA's partitioner adds to them to make blocks even (jaxlib 0.10.2)."""

    def made(values, *args):
        return add(jnp.where(_own(values.shape), values, jnp.zeros((), values.dtype)), *args)

    return made


def _choosing_its_own(choose):
    """The same for what `choose`s among values at places that a mask selects."""

    def made(values, mask, *args):
        return choose(values, mask & _own(values.shape), *args)

    return made


def _own(shape):
    """Where an array has elements: everywhere, but that must be computed in each block, and not known before."""
    inside = jnp.ones(shape, bool)
    for axis, n in enumerate(shape):
        length = lax.optimization_barrier(jnp.int32(n))
        inside = inside & (lax.broadcasted_iota(jnp.int32, shape, axis) < length)
    return inside
