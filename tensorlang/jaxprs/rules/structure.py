"""Operations that move elements and cost nothing: views of values, with brackets where parts are joined."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from tensorlang.jaxprs.axes import ZERO, flat, regrouped, together
from tensorlang.jaxprs.builder import Builder
from tensorlang.jaxprs.refusal import Unsupported
from tensorlang.jaxprs.rules.table import rule
from tensorlang.jaxprs.sizes import affine
from tensorlang.jaxprs.terms import plus, when
from tensorlang.jaxprs.values import Axes, Bool, Case, Int, Place, RealNumbers, plain, viewed
from tensorlang.language.affine import Affine, atom_affine, constant
from tensorlang.language.grammar import Expr, number, sums
from tensorlang.language.predicates import TRUE, Predicate, conjunction, disjunction, equal, within


def shape_of(eqn: Any, k: int = 0) -> tuple[Any, ...]:
    """The shape of the result."""
    return tuple(eqn.outvars[k].aval.shape)


@rule("broadcast_in_dim")
def _broadcast(b: Builder, eqn: Any, x: Any, *dynamic: Any) -> Any:
    shape = shape_of(eqn)
    axes: list[tuple[Affine, ...]] = [()] * len(shape)
    kept: list[tuple[int, bool]] = []
    for k, d in enumerate(eqn.params["broadcast_dimensions"]):
        same = _same(eqn.invars[0].aval.shape[k], shape[d])
        if same:
            axes[d] = x.axes[k]
        kept.append((d, same))
    for d, size in enumerate(shape):
        axes[d] = axes[d] or (affine(size),)

    def place(ix: Place) -> Place:
        return tuple(ix[d] if same else tuple(ZERO for _ in axis) for (d, same), axis in zip(kept, x.axes, strict=True))

    return viewed(x, tuple(axes), place)


def _same(m: Any, n: Any) -> bool:
    return bool(m is n or m == n)


@rule("squeeze")
def _squeeze(b: Builder, eqn: Any, x: Any) -> Any:
    gone = {d % len(x.axes) for d in eqn.params["dimensions"]}
    axes = tuple(axis for d, axis in enumerate(x.axes) if d not in gone)

    def place(ix: Place) -> Place:
        left = iter(ix)
        return tuple(tuple(ZERO for _ in axis) if d in gone else next(left) for d, axis in enumerate(x.axes))

    return viewed(x, axes, place)


@rule("expand_dims")
def _expand(b: Builder, eqn: Any, x: Any) -> Any:
    new = set(eqn.params["dimensions"])
    old = iter(x.axes)
    axes = tuple((constant(1),) if d in new else next(old) for d in range(len(shape_of(eqn))))
    return viewed(x, axes, lambda ix: tuple(part for d, part in enumerate(ix) if d not in new))


@rule("transpose")
def _transpose(b: Builder, eqn: Any, x: Any) -> Any:
    order = eqn.params["permutation"]
    back = [order.index(d) for d in range(len(order))]
    return viewed(x, tuple(x.axes[d] for d in order), lambda ix: tuple(ix[k] for k in back))


@rule("reshape")
def _reshape(b: Builder, eqn: Any, x: Any, *dynamic: Any) -> Any:
    if eqn.params.get("dimensions") is not None:
        raise Unsupported("a reshape in another order")
    shape = shape_of(eqn)
    targets: list[Affine | None] = []
    for d in shape:
        try:
            targets.append(affine(d))
        except Unsupported:
            targets.append(None)
    if not x.axes:
        return viewed(x, tuple((constant(1),) for _ in shape), lambda ix: ())
    return regrouped(b, x, shape, targets)


@rule("slice")
def _slice(b: Builder, eqn: Any, x: Any) -> Any:
    starts = eqn.params["start_indices"]
    strides = eqn.params["strides"] or [1] * len(starts)
    whole = [k == 1 and _same(m, n) for k, m, n in zip(strides, shape_of(eqn), eqn.invars[0].aval.shape, strict=True)]
    if any(len(axis) > 1 and not all_of for axis, all_of in zip(x.axes, whole, strict=True)):
        x = flat(b, x)
    axes = tuple(axis if all_of else (affine(n),) for axis, all_of, n in zip(x.axes, whole, shape_of(eqn), strict=True))
    moves = [(all_of, int(k), affine(s)) for all_of, k, s in zip(whole, strides, starts, strict=True)]

    def place(ix: Place) -> Place:
        return tuple(part if w else (part[0] * k + s,) for part, (w, k, s) in zip(ix, moves, strict=True))

    return viewed(x, axes, place)


@rule("rev")
def _rev(b: Builder, eqn: Any, x: Any) -> Any:
    turned = set(eqn.params["dimensions"])

    def place(ix: Place) -> Place:
        return tuple(
            tuple(n - 1 - a for a, n in zip(part, axis, strict=True)) if d in turned else part
            for d, (part, axis) in enumerate(zip(ix, x.axes, strict=True))
        )

    return viewed(x, x.axes, place)


@rule("pad")
def _pad(b: Builder, eqn: Any, x: Any, filling: Any) -> Any:
    margins = eqn.params["padding_config"]
    if all(_same(lo, 0) and _same(hi, 0) and inner == 0 for lo, hi, inner in margins):
        return x
    x = flat(b, x)
    axes = plain(shape_of(eqn))

    def source(ix: Place) -> tuple[list[Any], Predicate, Place]:
        binders: list[Any] = []
        conditions, here = [], []
        for (lo, _, inner), (n,), (a,) in zip(margins, x.axes, ix, strict=True):
            if inner:
                i = b.index(n, "p")
                binders.append((i, n))
                conditions.append(equal(a, atom_affine(i) * (int(inner) + 1) + affine(lo)))
                here.append((atom_affine(i),))
            else:
                at = a - affine(lo)
                if not b.holds(inside := within(at, n)):
                    conditions.append(inside)
                here.append((at,))
        return binders, conjunction(conditions), tuple(here)

    if not isinstance(x, RealNumbers):
        if any(inner for *_, inner in margins):
            raise Unsupported("indices or conditions with gaps between them")
        return _joined(b, axes, [(lambda ix: source(ix)[1], x, lambda ix: source(ix)[2])], filling)
    fill = b.real(filling)
    if fill.infinite == -1 and x.support is None and not any(inner for *_, inner in margins):
        return RealNumbers(axes=axes, at=lambda ix: x.at(source(ix)[2]), support=lambda ix: source(ix)[1])
    if fill.infinite or x.support is not None:
        raise Unsupported("padding with an infinite number")

    def at(ix: Place) -> Expr:
        binders, inside, here = source(ix)
        e = sums(binders, when(inside, x.at(here)))
        if fill.constant == 0:
            return e
        if binders:
            raise Unsupported("gaps that are not 0")
        return plus(e, when(b.negated(inside), fill.at(())))

    return b.bounded(RealNumbers(axes=axes, at=at, pieces=x.pieces))


Part = tuple[Callable[[Place], Predicate], Any, Callable[[Place], Place]]


def _joined(b: Builder, axes: Axes, parts: list[Part], otherwise: Any = None) -> Any:
    """The value that equals each part where its condition holds; the conditions are disjoint."""
    values = [x for _, x, _ in parts]
    if all(isinstance(x, Int) for x in values):

        def cases(ix: Place) -> list[Case]:
            found: list[Case] = []
            rest: list[Predicate] = []
            for inside, x, place in parts:
                here = inside(ix)
                rest.append(here)
                if not b.impossible(here):
                    found += [(conjunction([here, p]), a) for p, a in x.cases(place(ix))]
            if otherwise is not None:
                out = b.negated(disjunction(rest))
                found += [(conjunction([out, p]), a) for p, a in otherwise.cases(())]
            return b.possible(found)

        return Int(axes=axes, cases=cases)
    if all(isinstance(x, Bool) and x.holds is not None for x in values):

        def holds(ix: Place) -> Predicate:
            found = [conjunction([inside(ix), x.holds(place(ix))]) for inside, x, place in parts]
            if otherwise is not None:
                out = b.negated(disjunction(inside(ix) for inside, _, _ in parts))
                found.append(conjunction([out, otherwise.holds(())]))
            return disjunction(found)

        return b.condition(axes, holds)
    if any(isinstance(x, Bool) for x in values):
        raise Unsupported("conditions on numbers that are put together")
    reals = [b.real(x) for x in values]

    def at(ix: Place) -> Expr:
        e: Expr = number(0)
        for (inside, _, place), x in zip(parts, reals, strict=True):
            if x.constant == 0:
                continue
            here = inside(ix)
            if not b.impossible(here):
                e = plus(e, when(TRUE if b.holds(here) else here, x.at(place(ix))))
        return e

    if any(x.infinite or x.support is not None for x in reals):
        if any(x.infinite not in (0, -1) for x in reals):
            raise Unsupported("infinite numbers that are put together with others")
        if all(x.infinite for x in reals):
            return replace(reals[0], axes=axes)
        everywhere = lambda ix: TRUE

        def support(ix: Place) -> Predicate:
            return disjunction(
                conjunction([inside(ix), (x.support or everywhere)(place(ix))])
                for (inside, _, place), x in zip(parts, reals, strict=True)
                if not x.infinite
            )

        finite = [(part, x) for part, x in zip(parts, reals, strict=True) if not x.infinite]
        inner = _joined(b, axes, [(part[0], RealNumbers(axes=x.axes, at=x.at), part[2]) for part, x in finite])
        return RealNumbers(axes=axes, at=inner.at, support=support)
    positive = all(x.positive for x in reals)
    return b.bounded(RealNumbers(axes=axes, at=at, positive=positive, pieces=sum(x.pieces for x in reals)))


@rule("concatenate")
def _concatenate(b: Builder, eqn: Any, *xs: Any) -> Any:
    d = eqn.params["dimension"]
    if len(xs) == 1:
        return xs[0]
    parts: list[Part] = []
    start = ZERO
    for x in (flat(b, x) for x in xs):
        n = x.axes[d][0]

        def inside(ix: Place, start: Affine = start, n: Affine = n) -> Predicate:
            return within(ix[d][0] - start, n)

        def place(ix: Place, start: Affine = start) -> Place:
            return (*ix[:d], (ix[d][0] - start,), *ix[d + 1 :])

        parts.append((inside, x, place))
        start = start + n
    return _joined(b, plain(shape_of(eqn)), parts)


@rule("stack")
def _stack(b: Builder, eqn: Any, *xs: Any) -> Any:
    d = eqn.params.get("axis", eqn.params.get("dimension", 0))
    values = list(xs) if all(isinstance(x, type(xs[0])) for x in xs) else [b.real(x) for x in xs]
    values, inner = together(b, values)
    parts: list[Part] = [
        (
            lambda ix, k=k: equal(ix[d][0], constant(k)),  # type: ignore[misc]
            x,
            lambda ix: (*ix[:d], *ix[d + 1 :]),
        )
        for k, x in enumerate(values)
    ]
    return _joined(b, (*inner[:d], (constant(len(xs)),), *inner[d:]), parts)


@rule("unstack")
def _unstack(b: Builder, eqn: Any, x: Any) -> Any:
    d = eqn.params.get("axis", 0)
    x = flat(b, x)
    axes = (*x.axes[:d], *x.axes[d + 1 :])
    return [
        viewed(x, axes, lambda ix, k=k: (*ix[:d], (constant(k),), *ix[d:]))  # type: ignore[misc]
        for k in range(len(eqn.outvars))
    ]


@rule("split")
def _split(b: Builder, eqn: Any, x: Any) -> Any:
    d = eqn.params["axis"]
    x = flat(b, x)
    found, start = [], ZERO
    for n in map(affine, eqn.params["sizes"]):
        axes = (*x.axes[:d], (n,), *x.axes[d + 1 :])
        found.append(
            viewed(x, axes, lambda ix, start=start: (*ix[:d], (ix[d][0] + start,), *ix[d + 1 :]))  # type: ignore[misc]
        )
        start = start + n
    return found


@rule("tile")
def _tile(b: Builder, eqn: Any, x: Any) -> Any:
    axes = tuple((affine(r), *axis) for r, axis in zip(eqn.params["reps"], x.axes, strict=True))
    return viewed(x, axes, lambda ix: tuple(part[1:] for part in ix))


@rule("iota")
def _iota(b: Builder, eqn: Any, *dynamic: Any) -> Any:
    d = eqn.params["dimension"]
    made = Int(axes=plain(shape_of(eqn)), cases=lambda ix: [(TRUE, ix[d][0])])
    return made if jnp.issubdtype(eqn.params["dtype"], np.integer) else b.real(made)


@rule("dim_as_value")
def _dim(b: Builder, eqn: Any) -> Any:
    n = affine(eqn.params["dim"])
    return Int(axes=(), cases=lambda ix: [(TRUE, n)])
