"""What generated kernels by Mosaic GPU call: tiles between memory and registers, products of matrices, pipelines."""

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu

from tensorlang.lowering.emit.library.scalars import _in_some_place
from tensorlang.lowering.emit.library.tiles import _counted, _filled, _kept


def _simulated(interpret):
    """How a kernel is interpreted: on a simulated GPU, where races are errors."""
    return mosaic_gpu.InterpretGPUParams(detect_races=True) if interpret is True else interpret


def _swizzled(shape, dtype, swizzle):
    """A tile in shared memory: a matrix in pieces of 8 rows by `swizzle` bytes, a vector element by element."""
    return mosaic_gpu.SMEM(shape, dtype, transforms=_in_pieces(dtype, swizzle))


def _in_pieces(dtype, swizzle):
    """How a matrix lies in such pieces."""
    if not swizzle:
        return ()
    tiling = mosaic_gpu.TilingTransform((8, swizzle // jnp.dtype(dtype).itemsize))
    return tiling, mosaic_gpu.SwizzleTransform(swizzle)


def _in_tiles(x, starts, lengths, order):
    """What tiles are copied of: `x` from `starts` on, filled up with zeros, its dimensions in `order`; 1 for true."""
    x = x.astype(jnp.bfloat16) if x.dtype == jnp.bool_ else x
    return _filled(x, starts, lengths).transpose(order) if x.ndim else x.reshape(1)


def _laid(x, gone=None):
    """A tile in registers as the matrix units have it, spread over 128 threads; vectors as if along one of its axes,
    where the axis `gone` was summed over."""
    layout = mosaic_gpu.Layout.WGMMA
    return mosaic_gpu.layout_cast(x, layout if gone is None else layout.reduce(gone))


def _in_registers(ref, gone=None):
    """A tile from shared memory, reals in single precision."""
    x = _laid(ref[...], gone)
    return x.astype(jnp.float32) if jnp.issubdtype(x.dtype, jnp.floating) else x


def _number(x):
    """A number from memory, a real one in single precision."""
    return x.astype(jnp.float32) if jnp.issubdtype(x.dtype, jnp.floating) else x


def _places(first, count, gone):
    """first, first + 1, .."""
    return _laid(lax.iota(jnp.int32, count), gone) + first


def _everywhere(value, shape, gone=None):
    """A tile of one number."""
    return _laid(jnp.full(shape, value, jnp.float32), gone) if shape else jnp.asarray(value, jnp.float32)


def _spread_along(value, shape, axis):
    """A tile of the same vector everywhere."""
    return lax.broadcast_in_dim(value, shape, (axis,))


def _all_or_none(condition, shape, gone=None):
    """A mask of one condition."""
    return _laid(jnp.full(shape, condition), gone)


def _fetch(pairs, arrived):
    """Copy tiles to shared memory, all at once."""
    for ref, tile in pairs:
        mosaic_gpu.copy_gmem_to_smem(ref, tile, arrived)
    mosaic_gpu.barrier_wait(arrived)


def _fetched(ref, swizzle, gone=None):
    """A tile from memory."""

    def through(tile, arrived):
        mosaic_gpu.copy_gmem_to_smem(ref, tile, arrived)
        mosaic_gpu.barrier_wait(arrived)
        return _in_registers(tile, gone)

    return pl.run_scoped(through, _swizzled(ref.shape, ref.dtype, swizzle), mosaic_gpu.Barrier())


def _put(value, tile, ref):
    """Copy a tile to memory by way of shared memory."""
    tile[...] = value.astype(tile.dtype)
    mosaic_gpu.commit_smem()
    mosaic_gpu.copy_smem_to_gmem(tile, ref)


def _by_wgmma(pairs):
    """The sum of products of matrices in shared memory, by Hopper's matrix units."""

    def summed(total):
        for x, y in pairs:
            mosaic_gpu.wgmma(total, x, y)
        return _laid(total[...])

    (x, y), *_ = pairs
    return pl.run_scoped(summed, mosaic_gpu.WGMMAAccumulatorRef((x.shape[0], y.shape[1]), jnp.float32))


def _by_tcgen05(pairs):
    """The sum of products of matrices in shared memory, by Blackwell's matrix units: 64 rows at a time in tensor
    memory, whence they come into registers as the threads hold tiles."""

    def rows(k):
        def summed(total, done):
            for count, (x, y) in enumerate(pairs):
                mosaic_gpu.tcgen05_mma(total, x.at[pl.ds(64 * k, 64)], y, accumulate=count > 0)
            mosaic_gpu.tcgen05_commit_arrive(done)
            mosaic_gpu.barrier_wait(done)
            found = _laid(mosaic_gpu.async_load_tmem(total))
            mosaic_gpu.wait_load_tmem()
            return found

        total = mosaic_gpu.TMEM((64, y.shape[1]), jnp.float32)
        return pl.run_scoped(summed, total, mosaic_gpu.Barrier(orders_tensor_core=True))

    (x, y), *_ = pairs
    found = [rows(k) for k in range(x.shape[0] // 64)]
    return found[0] if len(found) == 1 else _laid(lax.concatenate(found, 0))


def _matrix_product(a, a_turned, b, b_turned, dtype, units, swizzles):
    """The product of two matrices, summed in single precision; one that is `turned` is the transpose of what is given.

    The matrix units take bfloat16. Single precision is three of it, the further ones what the ones before leave, and
    the product is that of the six pairs which matter: what is left out is below 2^-24 of it. What is not in shared
    memory as it is multiplied goes there in pieces of these `swizzles`.
    """

    def parts_of(x, swizzle, then):
        if x.dtype == jnp.bfloat16:  # computed ones are of single precision
            return then([x])
        value = _in_registers(x)
        count = 1 if dtype == jnp.bfloat16 else 3

        def split(parts):
            rest = value
            for k in range(count):
                part = rest.astype(jnp.bfloat16)
                parts[k] = part
                rest = rest - part.astype(jnp.float32)
            return then([parts.at[k] for k in range(count)])

        return pl.run_scoped(split, _swizzled((count, *value.shape), jnp.bfloat16, swizzle))

    def multiplied(lefts, rights):
        mosaic_gpu.commit_smem()
        lefts = [x.transpose((1, 0)) if a_turned else x for x in lefts]
        rights = [x.transpose((1, 0)) if b_turned else x for x in rights]
        pairs = [(x, y) for i, x in enumerate(lefts) for j, y in enumerate(rights) if i + j < 3]
        return units(pairs[::-1])

    of_a, of_b = swizzles
    return parts_of(a, of_a, lambda lefts: parts_of(b, of_b, lambda rights: multiplied(lefts, rights)))


def _matrix_product_where(a, a_turned, b, b_turned, in_a, in_b, dtype, units, swizzles):
    """As `_matrix_product`, of what is in `in_a` and `in_b` alone, whatever the other elements are."""
    product = lambda a, b, kind=dtype: _matrix_product(a, a_turned, b, b_turned, kind, units, swizzles)
    found = product(_kept(in_a, a), _kept(in_b, b))

    def counted():
        left, right = (x if inside is not None else _in_registers(x) for x, inside in ((a, in_a), (b, in_b)))
        return _counted(product, lambda a, b: product(a, b, jnp.bfloat16), left, right, in_a, in_b)

    is_finite = abs(found) < jnp.inf
    return lax.cond(_in_some_place(jnp.logical_xor(is_finite, True)), counted, lambda: found)


def _pipelined(step, tile, count, blocks, carry, stages, *masked):
    """`carry` after `count` steps, of which the k-th takes in the tile with the number tile(k), `masked` or not.

    A block is an array, the extents of its tiles, where the tile with a number begins, and its swizzle. Those of the
    next steps are on their way to shared memory while one is taken in.
    """

    def body(at, *tiles_and_carry):
        *tiles, carry = tiles_and_carry
        carry = step(tile(at[0]), carry, *masked, *tiles)
        mosaic_gpu.commit_smem()  # all has been read before the next tiles are written over it
        return carry

    def spec(ref, extents, start, swizzle):
        shape = tuple(None if n is None else pl.Element(n) for n in extents)
        return mosaic_gpu.BlockSpec(shape, lambda k: start(tile(k)), transforms=_in_pieces(ref.dtype, swizzle))

    run = mosaic_gpu.emit_pipeline(
        body,
        grid=(count,),
        in_specs=[spec(*block) for block in blocks],
        max_concurrent_steps=stages,
        init_carry=carry,
    )
    return run(*(ref for ref, *_ in blocks))
