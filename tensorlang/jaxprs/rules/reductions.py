"""Sums, extrema and the like over axes, over windows, and cumulative."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tensorlang.jaxprs.axes import flat
from tensorlang.jaxprs.builder import Builder
from tensorlang.jaxprs.refusal import Unsupported
from tensorlang.jaxprs.rules.structure import shape_of
from tensorlang.jaxprs.rules.table import RULES, rule
from tensorlang.jaxprs.sizes import affine, is_one
from tensorlang.jaxprs.terms import divided, minus, plus, times, when, where
from tensorlang.jaxprs.values import Axes, Bool, Case, Int, Place, RealNumbers, extents, flat_place, plain
from tensorlang.language.affine import Affine, IndexArray, Lookup, atom_affine, constant
from tensorlang.language.functions import call
from tensorlang.language.grammar import Choice, Expr, Recur, Var, access, bracket, extremum, gen, number, sums
from tensorlang.language.predicates import TRUE, Predicate, at_most, conjunction, exists, less, within
from tensorlang.language.types import R, array

_WRITTEN_OUT = 16
"""Products of at most this many numbers are unrolled; others are recurrences."""


def parted(x: Any, axes: tuple[int, ...]) -> tuple[Axes, Axes]:
    """The axes of `x` that are kept and those that are reduced."""
    kept = tuple(axis for d, axis in enumerate(x.axes) if d not in axes)
    return kept, tuple(axis for d, axis in enumerate(x.axes) if d in axes)


def merged(rank: int, axes: tuple[int, ...], kept: Place, reduced: Place) -> Place:
    """The place with these indices for the axes that are kept and for those that are reduced."""
    first, second = iter(kept), iter(reduced)
    return tuple(next(second) if d in axes else next(first) for d in range(rank))


@rule("reduce_sum")
def _sum(b: Builder, eqn: Any, x: Any) -> Any:
    if isinstance(x, Int):
        raise Unsupported("a sum of integers")
    if isinstance(x, Bool) or x.infinite or x.support is not None:
        raise Unsupported("a sum of infinite numbers")
    over = tuple(eqn.params["axes"])
    kept, gone = parted(x, over)

    def body(ix: Place) -> Expr:
        return b.summed(gone, lambda s: x.at(merged(len(x.axes), over, ix, s)))

    return replace(b.state(kept, body, "total"), positive=x.positive)


def _extremum(sign: int) -> Any:
    def apply(b: Builder, eqn: Any, x: Any) -> Any:
        if isinstance(x, Int | Bool):
            raise Unsupported("an extremum of integers or conditions")
        if x.infinite or (x.support is not None and sign < 0):
            raise Unsupported("the least of numbers of which some are -inf")
        over = tuple(eqn.params["axes"])
        kept, gone = parted(x, over)

        def body(ix: Place) -> Expr:
            s, binders = b.indices(gone, "rstuvwxyz")
            place = merged(len(x.axes), over, ix, s)
            p: Predicate = TRUE if x.support is None else x.support(place)
            some = conjunction(less(constant(0), n) for _, n in binders) if p is TRUE else exists(binders, p)
            if b.holds(some):
                some = TRUE
            return bracket(some, extremum(sign, binders, p, x.at(place)))

        top = replace(b.state(kept, body, "top" if sign > 0 else "least"), is_top=True, positive=x.positive)
        if not gone:
            return top
        if not b.exact:
            b.assume("of equal numbers the first is the extremum, to which the cotangent goes")
            return top
        return replace(_shared(b, x, over, kept, gone, top, sign), is_top=True, positive=x.positive)

    return apply


def _shared(
    b: Builder, x: RealNumbers, over: tuple[int, ...], kept: Axes, gone: Axes, top: RealNumbers, sign: int
) -> RealNumbers:
    """The extremum `top` with JAX's derivative: places that attain it get equal shares of the cotangent."""
    held = b.state(kept, lambda ix: call("frozen", top.at(ix)), "held")

    def attained(ix: Place, s: Place, e: Expr) -> Expr:
        place = merged(len(x.axes), over, ix, s)
        a, t = x.at(place), held.at(ix)
        p: Predicate = TRUE if x.support is None else x.support(place)
        return when(p, where("where_ge", a, t, e) if sign > 0 else where("where_ge", t, a, e))

    def change(ix: Place, s: Place) -> Expr:
        return attained(ix, s, minus(x.at(merged(len(x.axes), over, ix, s)), held.at(ix)))

    ties = b.state(kept, lambda ix: b.summed(gone, lambda s: attained(ix, s, number(1))), "ties")
    shared = b.state(
        kept, lambda ix: plus(held.at(ix), divided(b.summed(gone, lambda s: change(ix, s)), ties.at(ix))), "top"
    )
    return replace(shared, stopped=held)


RULES["reduce_max"], RULES["reduce_min"] = _extremum(1), _extremum(-1)


def _chosen(sign: int) -> Any:
    def apply(b: Builder, eqn: Any, x: Any) -> Any:
        if not isinstance(x, RealNumbers) or x.infinite or (x.support is not None and sign < 0):
            raise Unsupported("the place of an extremum of integers, conditions or infinite numbers")
        (d,) = eqn.params["axes"]
        x = flat(b, x)
        kept, ((n,),) = parted(x, (d,))
        ix, binders = b.indices(kept)
        i = b.index(n, "r")
        place = (*ix[:d], (atom_affine(i),), *ix[d:])
        p: Predicate = TRUE if x.support is None else x.support(place)
        if p is not TRUE and not b.holds(exists([(i, n)], p)):
            raise Unsupported("the place of an extremum of which there may be none")
        chosen = IndexArray(b.name("chosen"), extents(kept), n)
        b.statements.append((chosen, gen(binders, Choice(sign, i, n, p, x.at(place)))))
        b.note(chosen.name)

        def cases(at: Place) -> list[Case]:
            return [(TRUE, atom_affine(Lookup(chosen, tuple(a for part in at for a in part))))]

        return Int(axes=kept, cases=cases)

    return apply


RULES["argmax"], RULES["argmin"] = _chosen(1), _chosen(-1)


@rule("reduce_prod")
def _prod(b: Builder, eqn: Any, x: Any) -> Any:
    x, over = flat(b, b.real(x)), tuple(eqn.params["axes"])
    kept, gone = parted(x, over)
    if len(over) > 1 or not gone[0][0].is_constant or gone[0][0].constant > _WRITTEN_OUT:
        for d in sorted(over, reverse=True):
            x = _products(b, x, d, "fold")
        return x

    def body(ix: Place) -> Expr:
        e: Expr = number(1)
        for k in range(gone[0][0].constant):
            e = times(e, x.at(merged(len(x.axes), over, ix, ((constant(k),),))))
        return e

    return b.state(kept, body, "product")


@rule("cumprod")
def _cumprod(b: Builder, eqn: Any, x: Any) -> Any:
    return _products(b, flat(b, b.real(x)), eqn.params["axis"], "scan", eqn.params["reverse"])


def _products(b: Builder, x: RealNumbers, d: int, word: str, back: bool = False) -> RealNumbers:
    """The product over the axis `d`, or the cumulative products, as states of a recurrence."""
    if x.support is not None or x.infinite:
        raise Unsupported("products of infinite numbers")
    n = x.axes[d][0]
    rest = (*x.axes[:d], *x.axes[d + 1 :])
    turned: Callable[[Affine], Affine] = lambda a: n - 1 - a if back else a
    t, (place, binders) = b.index(n, "t"), b.indices(rest)
    state = Var(b.name("product"), array(extents(rest), R))
    here = (*place[:d], (turned(atom_affine(t)),), *place[d:])
    step = gen(binders, times(access(state, *flat_place(place)), x.at(here)))
    h = b.named(Recur(word, t, n, state, gen(binders, number(1)), step), "products")
    if word == "fold":
        return RealNumbers(axes=rest, at=lambda ix: access(h, *flat_place(ix)), positive=x.positive, variable=h)

    def at(ix: Place) -> Expr:
        return access(h, turned(ix[d][0]), *flat_place((*ix[:d], *ix[d + 1 :])))

    return RealNumbers(axes=x.axes, at=at, positive=x.positive)


@rule("reduce_or", "reduce_and")
def _any(b: Builder, eqn: Any, x: Any) -> Any:
    if not isinstance(x, Bool) or x.holds is None:
        raise Unsupported("any or all of conditions on numbers")
    over, holds = tuple(eqn.params["axes"]), x.holds
    kept, gone = parted(x, over)

    def some(ix: Place) -> Predicate:
        s, binders = b.indices(gone)
        return exists(binders, holds(merged(len(x.axes), over, ix, s)))

    def every(ix: Place) -> Predicate:
        s, _ = b.indices(gone)
        if b.holds(holds(merged(len(x.axes), over, ix, s))):
            return TRUE
        raise Unsupported("all of a condition")

    return b.condition(kept, some if eqn.primitive.name == "reduce_or" else every)


@rule("cumsum")
def _cumsum(b: Builder, eqn: Any, x: Any) -> Any:
    if isinstance(x, Int):
        raise Unsupported("sums of integers")
    x = flat(b, b.real(x))
    d, back = eqn.params["axis"], eqn.params["reverse"]
    n = x.axes[d][0]
    if x.support is not None:
        raise Unsupported("sums of infinite numbers")

    def body(ix: Place) -> Expr:
        j = b.index(n, "s")
        a, k = atom_affine(j), ix[d][0]
        inside = at_most(k, a) if back else at_most(a, k)
        return sums([(j, n)], bracket(inside, x.at((*ix[:d], (a,), *ix[d + 1 :]))))

    return b.state(x.axes, body, "prefix")


def _running(sign: int) -> Any:
    def apply(b: Builder, eqn: Any, x: Any) -> Any:
        x = flat(b, b.real(x))
        if x.support is not None or x.infinite:
            raise Unsupported("extrema of infinite numbers")
        if b.exact:
            raise Unsupported("extrema up to each place, of which equal ones share the cotangent")
        b.assume("of equal numbers the first is the extremum, to which the cotangent goes")
        d, back = eqn.params["axis"], eqn.params["reverse"]
        n = x.axes[d][0]

        def body(ix: Place) -> Expr:
            j = b.index(n, "s")
            a, k = atom_affine(j), ix[d][0]
            inside = at_most(k, a) if back else at_most(a, k)
            return extremum(sign, [(j, n)], inside, x.at((*ix[:d], (a,), *ix[d + 1 :])))

        return b.state(x.axes, body, "running")

    return apply


RULES["cummax"], RULES["cummin"] = _running(1), _running(-1)


def _windows(kind: str) -> Any:
    def apply(b: Builder, eqn: Any, x: Any) -> Any:
        p = eqn.params
        x = flat(b, b.real(x))
        if any(d != 1 for d in p["base_dilation"]):
            raise Unsupported("windows with gaps between the elements")
        if x.support is not None:
            raise Unsupported("windows of infinite numbers")
        axes = plain(shape_of(eqn))

        def body(ix: Place) -> Expr:
            binders, conditions, place = [], [], []
            for k, (i,) in enumerate(ix):
                a = i * int(p["window_strides"][k]) - affine(p["padding"][k][0])
                width = affine(p["window_dimensions"][k])
                if not is_one(width):
                    t = b.index(width, "abcd"[k % 4])
                    binders.append((t, width))
                    a = a + atom_affine(t) * int(p["window_dilation"][k])
                if not b.holds(inside := within(a, x.axes[k][0])):
                    conditions.append(inside)
                place.append((a,))
            inside, e = conjunction(conditions), x.at(tuple(place))
            if kind == "sum":
                return sums(binders, when(inside, e))
            if not binders:
                return when(inside, e)
            some = exists(binders, inside)
            return bracket(TRUE if b.holds(some) else some, extremum(1 if kind == "max" else -1, binders, inside, e))

        return b.state(axes, body, "window")

    return apply


for _kind in ("sum", "max", "min"):
    RULES[f"reduce_window_{_kind}"] = _windows(_kind)
