"""Sums over what comes before a row, or after it, in chunks of rows."""

import jax.numpy as jnp
from jax import lax

from tensorlang.lowering.costs import COSTS


def _cut_into_chunks(x, axis, size, backwards):
    """x in chunks of an axis, the last of which its last element fills up; from its end if backwards."""
    x = jnp.flip(x, axis) if backwards else x
    count = -(-x.shape[axis] // size)
    edges = [(0, 0)] * x.ndim
    edges[axis] = (0, count * size - x.shape[axis])
    x = jnp.pad(x, edges, mode="edge")
    return jnp.moveaxis(x.reshape(*x.shape[:axis], count, size, *x.shape[axis + 1 :]), axis, 0)


def _joined_chunks(x, axis, n, backwards):
    """n elements of an axis from its chunks."""
    x = jnp.moveaxis(x, 0, axis)
    x = lax.slice_in_dim(x.reshape(*x.shape[:axis], -1, *x.shape[axis + 2 :]), 0, n, axis=axis)
    return jnp.flip(x, axis) if backwards else x


def _decaying_in_chunks(exponents, powers, differences, q, k, v, axis, backwards, strict, there=None):
    """The sums of exp(s * (a[i] - b[j])) * g**(a[i] - b[j]) * (a[i] - b[j]) * (q[i] . k[j]) * v[j] over j <= i, or as
    `_sum_in_chunks` has them, for all (s, a, b) of exponents, (g, a, b) of powers, a and b whole numbers, and (a, b) of
    differences.

    What comes before a chunk is kept times exp(c - b[j]), of the least c of these b[j], so that nothing overflows where
    no exponential does; rows of zeros don't count, and those of small numbers less, or others would vanish beside them.
    Of b only elements `there` count, if they are told.
    """
    like = (*exponents, *powers, *differences)[0][-1]
    *batch, n = like.shape[: axis + 1]
    q, k, v = (jnp.ones((*batch, n), like.dtype) if x is None else x for x in (q, k, v))
    columns = v.shape[axis + 1 :]
    if 0 in (*q.shape, *columns):
        return jnp.zeros((*batch, n, *columns), like.dtype)
    q, k, v = (x.reshape(*batch, n, -1) for x in (q, k, v))
    d, e = q.shape[-1], v.shape[-1]
    if there is not None:
        j = jnp.arange(n)[:, None]
        v = jnp.where((j >= there[0]) & (j < there[1]), v, 0)
    for g, a, b in powers:
        exponents = (*exponents, (jnp.log(jnp.maximum(jnp.abs(g), jnp.finfo(v.dtype).tiny)), a, b))
        odd = [(jnp.asarray(g)[..., None] < 0) & (x % 2 == 1) for x in (a, b)]
        q, k = (jnp.where(x[..., None], -y, y) for x, y in zip(odd, (q, k), strict=True))
    each = any(jnp.ndim(b) > axis + 1 or (s is not None and jnp.ndim(s) > axis) for s, _, b in exponents)
    size = COSTS["chunk"] // 4 if each else max(COSTS["chunk"], 2 * d * e // (d + e))

    def by(size):
        return lambda pairs, beside, *rows: _decays_by_chunks(
            pairs, beside, rows, axis, each, min(n, size), backwards, strict
        )

    given = exponents, differences, q, k, v
    if d * e * 2 ** len(differences) > COSTS["decays_in_turn"]:
        x = by(size)(*given)
    else:  # one row after the other is the fastest where little is kept for each, except on processors of many threads
        x = lax.platform_dependent(*given, cpu=by(1), default=by(size))
    return x.reshape(*batch, n, *columns)


def _decays_by_chunks(exponents, differences, rows, axis, each, size, backwards, strict):
    """The sums of `_decaying_in_chunks` by chunks of that size; rows are q, k and v, which has one axis of columns."""
    q, k, v = rows
    *batch, n, d = q.shape
    e = v.shape[-1]
    cut = lambda x: _cut_into_chunks(x if x.ndim > axis + 1 else x[..., None], axis, size, backwards)
    q, k, v = cut(q), cut(k), cut(v)
    above, below, turn = _exponents_of_chunks(exponents, axis, cut, (*q.shape[:-1], d if each else 1), v.dtype)
    most = jnp.finfo(v.dtype).max
    sizes = jnp.abs(k) if each else jnp.abs(k).max(-1, keepdims=True), jnp.abs(v).max(-1, keepdims=True)
    below = jnp.where((sizes[0] == 0) | (sizes[1] == 0), most, below)
    least = lax.stop_gradient(below - jnp.clip(jnp.log(sizes[0]) + jnp.log(sizes[1]), -40, 0)).min(-2, keepdims=True)
    pairs = [(cut(a), cut(b)) for a, b in differences]
    asked, given, steps = _factors_of_chunks(q, k, pairs)
    ones = jnp.tril(jnp.ones((size, size), bool), -1 if strict else 0)
    spread = lambda x: jnp.tile(x, 2 ** len(pairs)) if each else x

    def chunk(before, rows):
        (state, kept), (q, k, v, above, below, turn, least, pairs, asked, given, steps) = before, rows
        if each:
            decays = jnp.exp(jnp.where(ones[..., None], above[..., :, None, :] - below[..., None, :, :], 0))
            within = (q[..., :, None, :] * decays * k[..., None, :, :]).sum(-1)
        else:
            decays = jnp.exp(jnp.where(ones, above - jnp.swapaxes(below, -1, -2), 0))
            within = decays * jnp.einsum("...id,...jd->...ij", q, k)
        for a, b in pairs:
            within = within * (a - jnp.swapaxes(b, -1, -2))
        found = jnp.einsum("...id,...de->...ie", spread(jnp.exp(above - kept)) * asked, state)
        least = jnp.minimum(kept, least)
        state = _with_steps(jnp.swapaxes(spread(jnp.exp(least - kept)), -1, -2) * state, steps)
        added = jnp.einsum("...jd,...je->...de", spread(jnp.exp(least - below)) * given, v)
        return (state + added, least - turn), found + jnp.where(ones, within, 0) @ v

    start = jnp.zeros((*batch, d * 2 ** len(pairs), e), v.dtype), jnp.full((*batch, 1, below.shape[-1]), most)
    _, x = lax.scan(chunk, start, (q, k, v, above, below, turn, least, pairs, asked, given, steps))
    return _joined_chunks(x, axis, n, backwards)


def _exponents_of_chunks(exponents, axis, cut, shape, dtype):
    """The sums of s * a and of s * b, of that shape, both less that of the first b of a chunk; and by how much this
    is more in the chunk after it."""
    above = below = turn = jnp.zeros((), dtype)
    for s, *ends in exponents:
        scale = jnp.ones((), dtype) if s is None else jnp.asarray(s)
        scale = scale[..., None, :] if scale.ndim > axis else scale[..., None, None]
        a, b = (cut(x) for x in ends)
        first = jnp.where(jnp.isfinite(b[..., :1, :]), b[..., :1, :], 0)
        above, below = above + scale * (a - first), below + scale * (b - first)
        turn = turn + scale * (jnp.concatenate([first[1:], first[-1:]]) - first)
    turn = jnp.broadcast_to(turn, (*shape[:-2], 1, shape[-1]))
    return jnp.broadcast_to(above, shape), jnp.broadcast_to(below, shape), turn


def _factors_of_chunks(q, k, differences):
    """q and k times parts of differences, a[i] - c and 1, or 1 and c - b[j], where c is the a of the next chunk's first
    row where k is kept for it; and by how much that is more."""
    steps = []
    for a, b in differences:
        first = a[..., :1, :]
        after = jnp.concatenate([first[1:], a[-1:, ..., -1:, :]])
        q = jnp.concatenate([q * (a - first), q], -1)
        k = jnp.concatenate([k, k * (after - b)], -1)
        steps.append(after - first)
    return q, k, steps


def _with_steps(state, steps):
    """What `_factors_of_chunks` has of k, kept for a chunk, for the next one."""
    for m, step in enumerate(steps):
        parts = state.reshape(*state.shape[:-2], 2 ** (len(steps) - m - 1), 2, -1, state.shape[-1])
        one, other = parts[..., 0, :, :], parts[..., 1, :, :]
        state = jnp.stack([one, other + step[..., None] * one], -3).reshape(state.shape)
    return state


def _decaying_in_order(a, b, v, own, rank, asked, limit, groups, least, greatest):
    """The sums of exp(a[i] - b[j]) * v[j] over all j of the group asked[i] of which the rank is at most limit[i], as in
    `_running_up_to`; v is 1 if it is None.

    What comes before a chunk of what is sorted is kept times exp(c - b[j]), as in `_decaying_in_chunks`.
    """
    n, size = b.shape[0], COSTS["chunk"] // 4
    v = jnp.ones_like(b) if v is None else v
    columns = v.shape[1:]
    if 0 in (n, *a.shape, *columns):
        return jnp.zeros((*a.shape, *columns), v.dtype)
    order, start, end = _places_in_order(own, rank, asked, limit, groups, least, greatest)
    edges = (0, (n // size + 1) * size - n)
    cut = lambda x: jnp.pad(x[order], edges, mode="edge").reshape(-1, size)
    b, own = cut(b), cut(own)
    v = jnp.pad(v.reshape(n, -1)[order], (edges, (0, 0))).reshape(*b.shape, -1)
    kept = jnp.where(own[:, :, None] == own[:, -1:, None], v, 0)  # of the group that goes on
    goes_on = jnp.concatenate([jnp.ones(1, bool), own[1:, -1] == own[:-1, -1]])
    most, weight = jnp.finfo(v.dtype).max, jnp.abs(kept).max(-1)
    least = lax.stop_gradient(jnp.where(weight == 0, most, b - jnp.clip(jnp.log(weight), -40, 0)).min(-1))

    def chunk(before, rows):
        (state, above), (b, v, least, goes_on) = before, rows
        state, above = jnp.where(goes_on, state, 0), jnp.where(goes_on, above, most)
        least = jnp.minimum(above, least)
        added = jnp.exp(jnp.where((v == 0).all(-1), 0, least - b)) @ v
        return (jnp.exp(least - above) * state + added, least), before

    first = jnp.zeros(v.shape[-1], v.dtype), jnp.asarray(most, v.dtype)
    _, (state, above) = lax.scan(chunk, first, (b, kept, least, goes_on))
    at = end // size
    place = at[:, None] * size + jnp.arange(size)
    there = (place >= start[:, None]) & (place < end[:, None])
    within = jnp.where(there, jnp.exp(jnp.where(there, a[:, None] - b[at], 0)), 0)
    earlier = jnp.where(start < at * size, jnp.exp(jnp.where(start < at * size, a - above[at], 0)), 0)
    found = earlier[:, None] * state[at] + jnp.einsum("ij,ije->ie", within, v[at])
    return found.reshape(*a.shape, *columns)


def _places_in_order(own, rank, asked, limit, groups, least, greatest):
    """The order of groups and of ranks between two numbers, and where in it what is asked for starts and ends."""
    width = greatest - least + 2
    if groups * width < 2**31:
        limit = jnp.clip(limit, least - 1, greatest)
        key, end = (x * width + y - least + 1 for x, y in ((own, rank), (asked, limit)))
        order = jnp.argsort(key, stable=True)
        key = key[order]
        return order, jnp.searchsorted(key, asked * width), jnp.searchsorted(key, end, side="right")
    n, m = rank.shape[0], limit.shape[0]
    after = jnp.arange(n + m) >= n
    both = jnp.lexsort((after, jnp.concatenate([rank, limit]), jnp.concatenate([own, asked])))
    ends = jnp.zeros(n + m, jnp.int32).at[both].set(jnp.cumsum(~after[both], dtype=jnp.int32))
    order = jnp.lexsort((rank, own))
    return order, jnp.searchsorted(own[order], asked), ends[n:]


def _sum_in_chunks(q, k, v, axis, backwards, strict, selects):
    """The sums of (q[i] . k[j]) * v[j] over j <= i, or j < i if strict; over j >= i or j > i if backwards.

    That axis is i or j; those of q and k after it are multiplied out, those of v are columns, and v is 1 if it is None.
    A chunk of rows at a time: what comes before it by the sum of k[j] times v[j].
    If it selects, a row at a time, so that no element is seen by a sum that it is not of.
    """
    *batch, n = q.shape[: axis + 1]
    v = jnp.ones((*batch, n), k.dtype) if v is None else v
    columns = v.shape[axis + 1 :]
    if 0 in (*q.shape, *columns):
        return jnp.zeros((*batch, n, *columns), q.dtype)
    q, k, v = (x.reshape(*batch, n, -1) for x in (q, k, v))
    d, e = q.shape[-1], v.shape[-1]
    size = 1 if selects else min(n, max(COSTS["chunk"], 2 * d * e // (d + e)))
    q, k, v = (_cut_into_chunks(x, axis, size, backwards) for x in (q, k, v))
    ones = jnp.tril(jnp.ones((size, size), bool), -1 if strict else 0)

    def chunk(before, rows):
        q, k, v = rows
        within = jnp.where(ones, jnp.einsum("...id,...jd->...ij", q, k), 0)
        after = before + jnp.einsum("...jd,...je->...de", k, v)
        state = after if selects and not strict else before
        found = jnp.einsum("...id,...de->...ie", q, state)
        return after, found if selects else found + within @ v

    if size == n and not selects:
        x = (jnp.where(ones, jnp.einsum("...id,...jd->...ij", q[0], k[0]), 0) @ v[0])[None]
    else:
        _, x = lax.scan(chunk, jnp.zeros((*batch, d, e), q.dtype), (q, k, v))
    return _joined_chunks(x, axis, n, backwards).reshape(*batch, n, *columns)
