"""What generated kernels call, those for TPUs above all: tables of tiles, arrays filled up, work in registers."""

import jax.numpy as jnp
import numpy as np
from jax import lax


def _single(dtype):
    """The dtype that kernels store: bfloat16 if that is `dtype`, else float32."""
    return dtype if dtype == jnp.bfloat16 else jnp.float32


def _filled(x, starts, lengths):
    """The elements of `x` from `starts` on, `lengths` along each dimension; zeros where there are none."""
    ends = [start + length - n for start, length, n in zip(starts, lengths, x.shape, strict=True)]
    if not any(starts) and not any(ends):
        return x
    return lax.pad(x, jnp.zeros((), x.dtype), [(-start, end, 0) for start, end in zip(starts, ends, strict=True)])


def _steps(some, full, outer):
    """The tiles to visit, in order, as columns: their numbers, and 1 for an output's first tile + 2 for its
    last + 4 if the tile has something to add + 8 if it needs no masks. The first `outer` numbers are the output's.

    An output of no tiles has one step all the same, at which it is stored. `some` and `full` say of every tile whether
    it is visited, and whether it needs no masks.
    """
    shape = some.shape
    rows = int(np.prod(shape[:outer]))
    some, full = some.reshape(rows, -1), full.reshape(rows, -1)
    visited = some.copy()
    visited[:, 0] |= ~some.any(1)
    row, column = visited.nonzero()
    first, last = np.diff(row, prepend=-1) != 0, np.diff(row, append=-1) != 0
    flags = first + 2 * last + 4 * some[row, column] + 8 * full[row, column]
    numbers = np.unravel_index(row * some.shape[1] + column, shape)
    return np.stack([*numbers, flags]).astype(np.int32)


def _steps_of_data(some, full, outer):
    """As `_steps`, for tiles that data decide: the columns, of which the first `count` are to be visited; `count`.

    Sorting alone puts them in order, which is quick for so few, and leaves nothing to be gathered or scattered.
    """
    shape = some.shape
    columns = int(np.prod(shape[outer:]))
    some, full = some.reshape(-1, columns), full.reshape(-1, columns)
    visited = some | (~some.any(1, keepdims=True) & (np.arange(columns) == 0))
    place = np.arange(visited.size).reshape(visited.shape)
    packed = jnp.sort(jnp.where(visited, 4 * place + 2 * full + some, 4 * visited.size).reshape(-1))
    row, end = packed // 4 // columns, jnp.full(1, -1)
    first = row != jnp.concatenate([end, row[:-1]])
    last = row != jnp.concatenate([row[1:], end])
    flags = first + 2 * last + 4 * (packed % 4)
    numbers = jnp.unravel_index(jnp.minimum(packed // 4, visited.size - 1), shape)
    return jnp.stack([*numbers, flags]).astype(jnp.int32), visited.sum()


def _any_and_all(relation, blocks):
    """For each tile of these lengths whether the relation holds for some of its points, and for all."""
    for axis, block in enumerate(blocks):
        count = -(-relation.shape[axis] // block)
        padding = [(0, 0)] * relation.ndim
        padding[axis] = (0, count * block - relation.shape[axis])
        relation = jnp.pad(relation, padding)
    parts = [part for n, block in zip(relation.shape, blocks, strict=True) for part in (n // block, block)]
    inside = tuple(range(1, len(parts), 2))
    relation = relation.reshape(parts)
    return relation.any(inside), relation.all(inside)


def _index(shape, axis):
    """The places along an axis."""
    if len(shape) == 1:
        return lax.broadcasted_iota(jnp.int32, (*shape, 1), 0)[:, 0]
    return lax.broadcasted_iota(jnp.int32, shape, axis)


def _kept(mask, x, otherwise=0):
    """`x` where the mask holds; no mask: everywhere."""
    if mask is None:
        return x
    return jnp.where(mask, x, jnp.asarray(otherwise, x.dtype))


def _dot(a, b, i, j):
    """The sum of products along axis `i` of one and `j` of the other: of bfloat16 if one is, accumulated in float32."""
    half = jnp.bfloat16 in (a.dtype, b.dtype)
    kind, precision = (jnp.bfloat16, None) if half else (jnp.float32, lax.Precision.HIGHEST)
    axes = (((i,), (j,)), ((), ()))
    a, b = a.astype(kind), b.astype(kind)
    return lax.dot_general(a, b, axes, precision=precision, preferred_element_type=jnp.float32)


def _dot_of_kept(a, b, i, j, in_a, in_b):
    """As `_dot`, of what is in `in_a` and `in_b` alone, whatever the other elements are."""
    return _product_of_kept(lambda a, b: _dot(a, b, i, j), a, b, in_a, in_b)


def _every(*masks):
    """Where all masks hold, of those that are there."""
    found = None
    for mask in masks:
        found = mask if found is None else found if mask is None else found & mask
    return found


def _somewhere(mask):
    """Whether a mask holds at some place. Kernels have no `jnp.any`, but maxima."""
    return jnp.max(mask.astype(jnp.float32), initial=0) > 0


def _product_of_kept(product, a, b, in_a, in_b):
    """The product of two matrices, of what is in `in_a` and `in_b` alone, whatever the other elements are.

    Those are 0 in it, which is right if it turns out finite.
    """
    found = product(_kept(in_a, a), _kept(in_b, b))
    is_finite = abs(found) < jnp.inf
    return lax.cond(_somewhere(~is_finite), lambda: _counted(product, product, a, b, in_a, in_b), lambda: found)


def _counted(product, of_signs, a, b, in_a, in_b):
    """As `_product_of_kept`, not finite: terms that are nan, inf and -inf are counted by `of_signs`, which multiplies
    matrices of 0, 1 and -1."""
    (a0, *kinds_a), (b0, *kinds_b) = _kinds(a, in_a), _kinds(b, in_b)
    (sign_a, inf_a, nan_a, zero_a, any_a), (sign_b, inf_b, nan_b, zero_b, any_b) = kinds_a, kinds_b
    both = of_signs(sign_a * inf_a, sign_b) + of_signs(sign_a, sign_b * inf_b)
    most = of_signs(inf_a, abs(sign_b)) + of_signs(abs(sign_a), inf_b)
    none = of_signs(nan_a, any_b) + of_signs(any_a, nan_b) + of_signs(inf_a, zero_b) + of_signs(zero_a, inf_b)
    up, down = jnp.where(most + both > 0, jnp.inf, 0.0), jnp.where(most - both > 0, jnp.inf, 0.0)
    return product(a0, b0) + up - down + jnp.where(none > 0, jnp.nan, 0.0)


def _kinds(x, inside):
    """Its finite elements inside, else 0; the signs of all inside; 1 for those that are infinite, nan, 0, or any."""
    x, inside = x.astype(jnp.float32), jnp.broadcast_to(True if inside is None else inside, x.shape)
    signs = jnp.where(inside & (x > 0), 1.0, 0.0) - jnp.where(inside & (x < 0), 1.0, 0.0)
    kinds = (abs(x) == jnp.inf, jnp.isnan(x), x == 0, inside)
    finite = jnp.where(inside & (abs(x) < jnp.inf), x, 0.0)
    return finite, signs, *(jnp.where(inside & kind, 1.0, 0.0) for kind in kinds)


def _rows(n, most, width):
    """How many of `n` rows of `width` numbers in all a step takes: a multiple of 32, or 8, of up to two megabytes."""
    fitting = max(8, min(most, 2**19 // width))
    return min(n, fitting // 32 * 32 or fitting // 8 * 8)


def _steps_at_once(size, held, moving, numbers):
    """How many of `size` steps a block has, where arrays of the shapes `held` stay in fast memory, and those `moving`
    come and go for each step, the next ones while others are used; so do single `numbers`, 512 bytes each, in half a
    megabyte. 0 if not even one step fits."""
    kept, each = sum(_bytes(x) for x in held), 2 * sum(_bytes(x) for x in moving)
    return max(0, min(size, 64, 512 // max(numbers, 1), (12 * 2**20 - kept) // max(each, 1)))


def _bytes(shape):
    """How many bytes an array of single precision takes in fast memory, where rows are in registers of 8 by 128."""
    *leading, rows, lanes = shape
    return 4 * int(np.prod(leading)) * -(-rows // 8) * 8 * -(-lanes // 128) * 128
