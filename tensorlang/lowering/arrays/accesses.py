"""Array accesses: slices, strides, constant and looped positions where each dimension follows one axis, else gathers.

An element of an index array of a short range is one of a few positions: what is read is selected from the values there.

An access may lie outside of its array only where a bracket hides it. What is read there is zero: an access that
isn't plainly inside is made of the array extended with zeros.
"""

from __future__ import annotations

from dataclasses import dataclass

from tensorlang.errors import LimitError
from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Lookup, atom_affine, constant
from tensorlang.lowering.arrays.context import Context, Held
from tensorlang.lowering.arrays.integers import ZERO, Range
from tensorlang.lowering.arrays.ir import ALL, NEW, Name, Node, Slice, Subscript, Tuple
from tensorlang.lowering.arrays.points import RelationPoints
from tensorlang.lowering.arrays.scope import Scope
from tensorlang.lowering.arrays.sums.diagonal import diagonal
from tensorlang.lowering.arrays.values import TRUE, Value, aligned, apply, integer

LIMIT = 2**20
"""Coefficients beyond this could leave 32-bit index arithmetic."""

NONE, REVERSED = Name("None"), Slice(step=-1)

EVERY = apply("slice", NONE)
"""All places of an axis, among places that are arrays."""

_SHORT = 8
"""Ranges of up to this many indices are short: one index of the range is tried after the other."""


@dataclass(frozen=True)
class _Dimension:
    """One dimension of an access: the positions `at`, all of `low` .. `high`, of an array of the given size."""

    at: Affine
    axis: Index | None
    low: Affine
    high: Affine
    size: Affine
    inside: bool


def access(ctx: Context, scope: Scope, array: Held, at: tuple[Affine, ...]) -> Value:
    """The elements of `array` at `at`, an array with the axes that occur there."""
    if not at:
        return Value(Name(array.name))
    places = [a.substitute(scope.env) for a in at]
    if array.points is not None:
        return _on_points(ctx, scope, array, array.points, places)
    return _at(ctx, scope, array, places)


def _at(ctx: Context, scope: Scope, array: Held, places: list[Affine]) -> Value:
    axes = [scope.axes(a) for a in places]
    several = [i for found in axes for i in found]
    plain = not any(a.lookups for a in places)
    if plain and all(len(found) <= 1 for found in axes) and len(set(several)) == len(several):
        return _window(ctx, scope, array, places)
    choice = _short_choice(scope, places)
    return _gather(ctx, scope, array, places) if choice is None else _selected(ctx, scope, array, places, choice)


def _short_choice(scope: Scope, places: list[Affine]) -> Lookup | None:
    """An element of an index array of a short range that varies along all axes that `places` have."""
    axes = {i for a in places for i in scope.axes(a)}
    for lookup in (lookup for a in places for lookup in a.lookups):
        size = lookup.array.size
        if size.is_constant and 0 < size.constant <= _SHORT and axes <= set(scope.axes(atom_affine(lookup))):
            return lookup
    return None


def _selected(ctx: Context, scope: Scope, array: Held, places: list[Affine], choice: Lookup) -> Value:
    """The elements of `array` at `places`, selected from those at each value that `choice` can have."""
    which = access(ctx, scope, ctx.held[choice.array, ()], choice.at)
    values = []
    for k in range(choice.array.size.constant):
        v = _at(ctx, scope, array, [a.substitute({choice: constant(k)}) for a in places])
        w = aligned(v, which.axes)
        full = len(v.axes) == len(which.axes)
        values.append(w.node if full else apply("broadcast_to", w.node, ctx.extents(scope, which.axes)))
    if len(values) == 1:
        return Value(values[0], which.axes, 2)
    return Value(apply("select", which.node, *values), which.axes, which.depth + 3)


def _dimension(ctx: Context, scope: Scope, at: Affine, size: Affine) -> _Dimension:
    axes = scope.axes(at)
    low, high = scope.bounds(at)
    ranges = [scope.range_of(i) for i in at.atoms]
    facts = [r.extent - 1 for r in ranges if r is not None]  # where there is no point, nothing is read
    integers = ctx.integers
    inside = integers.is_nonnegative(low, facts) and integers.is_nonnegative(size - 1 - high, facts)
    return _Dimension(at, axes[0] if axes else None, low, high, size, inside)


def _window(ctx: Context, scope: Scope, array: Held, places: list[Affine]) -> Value:
    dimensions = [_dimension(ctx, scope, a, n) for a, n in zip(places, array.shape, strict=True)]
    source, dimensions = _extended(ctx, scope, *_taken(ctx, Name(array.name), dimensions))
    windows = [d for d in dimensions if d.axis is not None]
    result = tuple(d.axis for d in windows if d.axis is not None)
    if all(scope.is_static(d.at) for d in windows):
        found, rest = _slices(ctx, scope, source, dimensions)
    else:
        found, rest = _moving(ctx, scope, source, dimensions)
    return Value(_subscript(found, rest), result)


def _subscript(of: Node, at: list[Node]) -> Node:
    """of[at], without what takes all of the last axes."""
    while at and at[-1] is ALL:
        at.pop()
    return Subscript(of, tuple(at)) if at else of


def _taken(ctx: Context, source: Node, dimensions: list[_Dimension]) -> tuple[Node, list[_Dimension]]:
    """`source` read at the dimensions with one place, if zeros are to be put around it: that takes fewer of these."""
    single = [d.axis is None and d.inside for d in dimensions]
    if not any(single) or all(d.inside for d in dimensions):
        return source, dimensions
    parts: list[Node] = [ctx.integers.node(d.at) if one else ALL for d, one in zip(dimensions, single, strict=True)]
    return _subscript(source, parts), [d for d, one in zip(dimensions, single, strict=True) if not one]


def _slices(ctx: Context, scope: Scope, source: Node, dimensions: list[_Dimension]) -> tuple[Node, list[Node]]:
    """Basic indexing, and a further indexing of its result that flips the axes that run backwards."""
    parts: list[Node] = []
    turned: list[Node] = []
    for d in dimensions:
        if d.axis is None:
            parts.append(ctx.integers.node(d.at))
            continue
        r, step = scope.domain[d.axis], d.at.coefficient(d.axis)
        start = d.at.substitute({d.axis: r.start if step > 0 else r.last})
        stop = start + r.extent * abs(step)
        first = None if start is ZERO else ctx.integers.named_in(start)
        last = None if stop is d.size else ctx.integers.named_in(stop)
        every = first is None and last is None and abs(step) == 1
        parts.append(ALL if every else Slice(first, last, abs(step)))
        turned.append(REVERSED if step < 0 else ALL)
    return _subscript(source, parts), turned


def _moving(ctx: Context, scope: Scope, source: Node, dimensions: list[_Dimension]) -> tuple[Node, list[Node]]:
    """A dynamic slice, since a loop moves it, and a further indexing of its result: constant places and strides."""
    node = ctx.integers.node
    starts: list[Node] = []
    counts: list[Node] = []
    rest: list[Node] = []
    for d in dimensions:
        if d.axis is None:
            starts.append(node(d.at))
            counts.append(integer(1))
            rest.append(integer(0))
            continue
        r, step = scope.domain[d.axis], d.at.coefficient(d.axis)
        starts.append(node(d.at.substitute({d.axis: r.start if step > 0 else r.last})))
        count = (r.extent - 1) * abs(step) + 1
        proper = ctx.integers.is_nonnegative(count)
        counts.append(node(count) if proper else apply("greatest", node(count), integer(0)))
        rest.append(ALL if step == 1 else Slice(step=step))
    if len(starts) == 1:
        return apply("dynamic_slice_in_dim", source, starts[0], counts[0]), rest
    return apply("dynamic_slice", source, Tuple(tuple(starts)), Tuple(tuple(counts))), rest


def _extended(ctx: Context, scope: Scope, source: Node, dimensions: list[_Dimension]) -> tuple[Node, list[_Dimension]]:
    """The array extended by zeros to all positions that are read; made once, outside of loops, unless `source` is
    itself a part that is read there."""
    if all(d.inside for d in dimensions):
        return source, dimensions
    ranges, moved = [], []
    for d in dimensions:
        if d.inside:
            ranges.append(ctx.shape((ZERO, d.size)))
            moved.append(d)
        else:
            ranges.append(ctx.shape((d.low, d.high + 1)))
            size = d.high + 1 - d.low
            moved.append(_Dimension(d.at - d.low, d.axis, ZERO, d.high - d.low, size, True))
    call = apply("_over", source, *ranges)
    if not isinstance(source, Name) or (scope.block is scope.fixed and all(d.axis is not None for d in dimensions)):
        return call, moved
    key = ("extended", id(scope.fixed), call)
    if key not in ctx.gather_cache:
        ctx.gather_cache[key] = ctx.named_array(Value(call), scope.fixed, f"{source.name}_over")
    return Name(ctx.gather_cache[key]), moved


def _gather(ctx: Context, scope: Scope, array: Held, places: list[Affine]) -> Value:
    """The elements at positions that are arrays; without a test for each element where all are known to be inside."""
    dimensions = [_dimension(ctx, scope, a, n) for a, n in zip(places, array.shape, strict=True)]
    inside = all(d.inside for d in dimensions)
    line = None if inside else diagonal(ctx, scope, array, places)
    if line is not None:
        return line
    looked_up = any(a.lookups for a in places)
    whole = [k for k, d in enumerate(dimensions) if looked_up and _is_whole(scope, d, places)]
    indexed = [k for k in range(len(places)) if k not in whole]
    axes = tuple(i for i in scope.domain if any(i in places[k].free for k in indexed))
    at: list[Node] = [EVERY if k in whole else positions(ctx, scope, a, axes) for k, a in enumerate(places)]
    while at and len(at) - 1 in whole:
        at.pop()
    if indexed == list(range(indexed[0], indexed[-1] + 1)):
        order = [scope.axes(places[k])[0] for k in whole if k < indexed[0]]
        order += [*axes, *(scope.axes(places[k])[0] for k in whole if k > indexed[0])]
    else:  # NumPy puts what the indices give in front then
        order = [*axes, *(scope.axes(places[k])[0] for k in whole)]
    if inside and not looked_up:
        return Value(Subscript(Name(array.name), tuple(at)), axes, 2)
    return Value(apply("_take" if inside else "_read", Name(array.name), *at), tuple(order), 2)


def _is_whole(scope: Scope, d: _Dimension, places: list[Affine]) -> bool:
    """Whether a dimension is read from end to end along an axis of its own."""
    i = d.axis
    if i is None or d.at is not atom_affine(i) or sum(i in a.free for a in places) > 1:
        return False
    return scope.domain[i] == Range(ZERO, d.size)


def _on_points(ctx: Context, scope: Scope, array: Held, points: RelationPoints, places: list[Affine]) -> Value:
    """The elements of an array that is held at the points of a relation alone."""
    at = [places[k] for k in array.along]
    place = points.matched(at)
    if place is None:
        place = _searched(ctx, scope, points, at)
    others = [k for k in range(len(places)) if k not in array.along]
    held = Held(array.name, (points.count, *(array.shape[k] for k in others)))
    return access(ctx, scope, held, (place, *(places[k] for k in others)))


def _searched(ctx: Context, scope: Scope, points: RelationPoints, at: list[Affine]) -> Affine:
    """The number of the point `at`, found by bisection; anything where there is no such point."""
    axes = tuple(i for i in scope.domain if any(i in a.free for a in at))
    place = apply("_found", points.columns_node(), *(positions(ctx, scope, a, axes) for a in at))
    found = IndexArray("at", tuple(scope.domain[i].extent for i in axes), points.count)
    ctx.held[found, ()] = Held(ctx.named_array(Value(place), scope.block, "at"), found.sizes)
    return atom_affine(Lookup(found, tuple(atom_affine(i) - scope.domain[i].start for i in axes)))


def holds(ctx: Context, scope: Scope, points: RelationPoints, arguments: tuple[Affine, ...]) -> Value:
    """Where a relation that is given by its points holds, found by bisection."""
    at = [a.substitute(scope.env) for a in arguments]
    if points.matched(at) is not None:
        return Value(TRUE)
    axes = tuple(i for i in scope.domain if any(i in a.free for a in at))
    return Value(apply("_holds", points.columns_node(), *(positions(ctx, scope, a, axes) for a in at)), axes, 2)


def positions(ctx: Context, scope: Scope, a: Affine, axes: tuple[Index, ...]) -> Node:
    """`a` as an array that broadcasts over `axes`. Raises `LimitError` if it could overflow."""
    if any(abs(k) > LIMIT for _, k in a.terms) or abs(a.constant) > 2**31 - 1:
        raise LimitError(f"{a} has too large a coefficient to be computed in 32 bits")
    arrays: dict[Atom, Node] = {}
    for atom in a.atoms:
        if isinstance(atom, Lookup):
            arrays[atom] = aligned(access(ctx, scope, ctx.held[atom.array, ()], atom.at), axes).node
        elif isinstance(atom, Index) and atom in scope.domain:
            array = ctx.points(atom, scope)
            after = len(axes) - 1 - axes.index(atom)
            arrays[atom] = Subscript(array, (ALL, *(NEW,) * after)) if after else array
    return ctx.integers.position(a, arrays)
