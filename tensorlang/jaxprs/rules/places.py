"""Reads at computed places: gather, dynamic_slice, sort."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax import lax

from tensorlang.jaxprs.axes import ZERO, flat
from tensorlang.jaxprs.builder import Builder
from tensorlang.jaxprs.refusal import Unsupported
from tensorlang.jaxprs.rules.structure import shape_of
from tensorlang.jaxprs.rules.table import rule
from tensorlang.jaxprs.sizes import affine
from tensorlang.jaxprs.terms import plus, when
from tensorlang.jaxprs.values import Bool, Case, Datum, Int, Place, RealNumbers, plain
from tensorlang.language.affine import Affine, Lookup, atom_affine, constant
from tensorlang.language.grammar import Expr, number
from tensorlang.language.predicates import FALSE, TRUE, Predicate, conjunction, disjunction

Cases = list[tuple[Predicate, Affine]]


def drops(mode: Any) -> bool:
    """Whether places out of range are left out; otherwise they are clipped."""
    return lax.GatherScatterMode.from_any(mode) == lax.GatherScatterMode.FILL_OR_DROP


def combined(b: Builder, axes: Sequence[Cases]) -> list[tuple[Predicate, tuple[Affine, ...]]]:
    """The combined cases of several axes."""
    found: list[tuple[Predicate, tuple[Affine, ...]]] = [(TRUE, ())]
    for cases in axes:
        found = [(conjunction([p, q]), (*at, a)) for p, at in found for q, a in cases]
    return [(p, at) for p, at in found if not b.impossible(p)] if len(found) > 1 else found


def read_at(b: Builder, x: Any, axes: Any, places: Callable[[Place], Sequence[Cases]]) -> Any:
    """The value whose element at a place is that of `x` at `places` of it, and 0 or false if no case of these holds."""

    def found(ix: Place) -> list[tuple[Predicate, Place]]:
        return [(p, tuple((a,) for a in at)) for p, at in combined(b, places(ix))]

    if isinstance(x, Int):

        def cases(ix: Place) -> list[Case]:
            return b.possible([(conjunction([p, q]), a) for p, at in found(ix) for q, a in x.cases(at)])

        return Int(axes=axes, cases=cases)
    if isinstance(x, Bool):
        if x.holds is None:
            raise Unsupported("places of conditions on numbers")
        holds = x.holds
        return b.condition(axes, lambda ix: disjunction(conjunction([p, holds(at)]) for p, at in found(ix)))
    if x.infinite:
        return RealNumbers(axes=axes, at=x.at, infinite=x.infinite)

    def at(ix: Place) -> Expr:
        e: Expr = number(0)
        for p, place in found(ix):
            e = plus(e, when(p, x.at(place)))
        return e

    support = None
    if x.support is not None:
        within = x.support
        support = lambda ix: disjunction(conjunction([p, within(place)]) for p, place in found(ix))
    place, _ = b.indices(axes)
    if support is not None and b.holds(support(place)):
        support = None
    pieces = x.pieces * max(1, len(found(place)))
    return b.bounded(RealNumbers(axes=axes, at=at, support=support, positive=x.positive, pieces=pieces))


@rule("gather")
def _gather(b: Builder, eqn: Any, x: Any, starts: Any) -> Any:
    p = eqn.params
    numbers, widths = p["dimension_numbers"], p["slice_sizes"]
    if not isinstance(starts, Int):
        raise Unsupported("a gather at what is no index")
    x, starts = flat(b, x), flat(b, starts)
    shape = shape_of(eqn)
    offsets = list(numbers.offset_dims)
    batched = list(numbers.operand_batching_dims)
    outer = [d for d in range(len(shape)) if d not in offsets]
    inner = [d for d in range(len(x.axes)) if d not in numbers.collapsed_slice_dims and d not in batched]
    drop = drops(p["mode"])
    filled = drop and (p["fill_value"] is None or p["fill_value"] != 0)
    note: str | None = None
    if filled:
        note = "an array is read at places that lie in it: outside it is 0 here, and nan or another number in JAX"
    elif lax.GatherScatterMode.from_any(p["mode"]) == lax.GatherScatterMode.PROMISE_IN_BOUNDS:
        note = (
            "an array is read at places that lie in it: those outside are moved into it, and JAX gives them no gradient"
        )

    def places(ix: Place) -> list[Cases]:
        batch = tuple(ix[d] for d in outer)
        found: list[Cases] = []
        for d in range(len(x.axes)):
            offset = ix[offsets[inner.index(d)]][0] if d in inner else ZERO
            if d in batched:
                found.append([(TRUE, batch[numbers.start_indices_batching_dims[batched.index(d)]][0])])
            elif d in numbers.start_index_map:
                k = numbers.start_index_map.index(d)
                last = x.axes[d][0] - affine(widths[d]) + 1
                cases = b.placed(starts.cases((*batch, (constant(k),))), last, drop, note)
                found.append([(q, a + offset) for q, a in cases])
            else:
                found.append([(TRUE, offset)])
        return found

    few = b.read_few(x, plain(shape)) if isinstance(x, RealNumbers) and _are_data(b, starts) else x
    found = read_at(b, few, plain(shape), places)
    return found if few is x else b.state(found.axes, found.at, "read")


def _are_data(b: Builder, starts: Int) -> bool:
    """Whether places come from data; for affine ones, simplification restricts what is read anyway."""
    place, _ = b.indices(starts.axes)
    return any(isinstance(a, Datum) for _, a in starts.cases(place))


def clamped(b: Builder, starts: Sequence[Any], x: Any, widths: Sequence[Affine]) -> list[Cases]:
    """The starts of slices of these widths, which JAX moves into the array."""
    return [
        [(TRUE, ZERO)] if axis[0] == n else b.placed(start.cases(()), axis[0] - n + 1, drop=False)
        for start, axis, n in zip(starts, x.axes, widths, strict=True)
    ]


@rule("dynamic_slice")
def _dynamic_slice(b: Builder, eqn: Any, x: Any, *starts: Any) -> Any:
    if not all(isinstance(s, Int) for s in starts):
        raise Unsupported("a slice at what is no index")
    x = flat(b, x)
    shape = shape_of(eqn)
    widths = [affine(n) for n in shape]
    begin = clamped(b, starts, x, widths)

    def places(ix: Place) -> list[Cases]:
        return [[(p, a + i) for p, a in cases] for cases, (i,) in zip(begin, ix, strict=True)]

    return read_at(b, x, plain(shape), places)


@rule("sort")
def _sort(b: Builder, eqn: Any, *xs: Any) -> Any:
    p = eqn.params
    if p["num_keys"] != 1 or not all(isinstance(x, RealNumbers) for x in xs):
        raise Unsupported("an order by several keys, or of integers")
    axis = p["dimension"]
    order = b.permutation(eqn.invars[0], axis)

    def place(ix: Place) -> Place:
        at = Lookup(order, tuple(a for part in ix for a in part))
        return (*ix[:axis], (atom_affine(at),), *ix[axis + 1 :])

    found = []
    for x in (flat(b, x) for x in xs):
        if x.support is not None or x.infinite:
            raise Unsupported("an order of infinite numbers")
        found.append(RealNumbers(axes=x.axes, at=lambda ix, x=x: x.at(place(ix)), positive=x.positive))  # type: ignore[misc]
    return found


def known(b: Builder, x: Any) -> int | None:
    """The number of an index or a condition, if it is known."""
    if isinstance(x, Bool):
        p = None if x.holds is None else x.holds(())
        return 1 if p is TRUE else 0 if p is FALSE else None
    cases = b.possible(x.cases(())) if isinstance(x, Int) else []
    if len(cases) == 1 and isinstance(a := cases[0][1], Affine) and a.is_constant:
        return a.constant
    return None


@rule("platform_index")
def _platform(b: Builder, eqn: Any) -> Any:
    return b.scalar(np.int32([p is None for p in eqn.params["platforms"]].index(True)))
