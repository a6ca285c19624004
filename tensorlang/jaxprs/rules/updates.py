"""Arrays with parts replaced or added to: scatter, scatter-add, dynamic_update_slice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tensorlang.jaxprs.axes import ZERO, flat
from tensorlang.jaxprs.builder import Builder
from tensorlang.jaxprs.refusal import Unsupported
from tensorlang.jaxprs.rules.places import Cases, clamped, combined, drops
from tensorlang.jaxprs.rules.table import RULES, rule
from tensorlang.jaxprs.terms import is_zero, minus, plus, times, when
from tensorlang.jaxprs.values import Int, Place, RealNumbers, plain
from tensorlang.language.affine import Affine, atom_affine, constant
from tensorlang.language.grammar import Expr, bracket, extremum, number, sums
from tensorlang.language.predicates import TRUE, Predicate, conjunction, equal, exists, less, lookups, within


@rule("dynamic_update_slice")
def _dynamic_update(b: Builder, eqn: Any, x: Any, u: Any, *starts: Any) -> Any:
    if isinstance(x, Int) or not all(isinstance(s, Int) for s in starts):
        raise Unsupported("an update of integers")
    x, u = flat(b, b.real(x)), flat(b, b.real(u))
    _finite(x, u)
    widths = [axis[0] for axis in u.axes]
    begin = combined(b, clamped(b, starts, x, widths))
    if len(begin) != 1:
        raise Unsupported("an update at a place that is moved into the array")
    ((_, start),) = begin

    def at(ix: Place) -> Expr:
        here = tuple((i - a,) for (i,), a in zip(ix, start, strict=True))
        inside = conjunction(within(a, n) for (a,), n in zip(here, widths, strict=True))
        rest = x.at(ix)
        return plus(rest if is_zero(rest) else when(b.negated(inside), rest), when(inside, u.at(here)))

    positive = x.positive and u.positive
    return b.bounded(RealNumbers(axes=x.axes, at=at, positive=positive, pieces=x.pieces + u.pieces))


def _finite(*xs: RealNumbers) -> None:
    if any(x.infinite or x.support is not None for x in xs):
        raise Unsupported("an update with infinite numbers")


class _Scatter:
    """The updates of a scatter that reach a place."""

    def __init__(self, b: Builder, eqn: Any, x: RealNumbers, starts: Int, u: RealNumbers) -> None:
        self.b, self.x, self.u = b, x, u
        self.numbers = eqn.params["dimension_numbers"]
        self.starts = starts
        self.drop = drops(eqn.params["mode"])
        self.window = list(self.numbers.update_window_dims)
        self.batched = list(self.numbers.operand_batching_dims)
        self.outer = [d for d in range(len(u.axes)) if d not in self.window]
        self.inner = [
            d for d in range(len(x.axes)) if d not in self.numbers.inserted_window_dims and d not in self.batched
        ]
        self.single = all(n.is_constant and n.constant == 1 for d in self.outer for n in u.axes[d])

    def begins(self, d: int, batch: tuple[tuple[Affine, ...], ...]) -> Cases:
        """Where the window begins on the axis d of the operand."""
        if d in self.batched:
            return [(TRUE, batch[self.numbers.scatter_indices_batching_dims[self.batched.index(d)]][0])]
        if d not in self.numbers.scatter_dims_to_operand_dims:
            return [(TRUE, ZERO)]
        k = self.numbers.scatter_dims_to_operand_dims.index(d)
        width = self.u.axes[self.window[self.inner.index(d)]][0] if d in self.inner else constant(1)
        cases = self.starts.cases((*batch, (constant(k),)))
        return self.b.placed(cases, self.x.axes[d][0] - width + 1, self.drop)

    def hits(self, ix: Place) -> list[tuple[Any, Predicate, Place]]:
        """Binders, conditions and places of the updates that reach `ix`, for each case of the windows' starts."""
        b, u = self.b, self.u
        binders = [(b.index(u.axes[d][0], "s"), u.axes[d][0]) for d in self.outer]
        at: dict[int, tuple[Affine, ...]] = {
            d: (atom_affine(i),) for d, (i, _) in zip(self.outer, binders, strict=True)
        }
        batch = tuple(at[d] for d in self.outer)
        axes = range(len(self.x.axes))
        found = []
        for p, start in combined(b, [self.begins(d, batch) for d in axes]):
            conditions, here = [p], dict(at)
            for d in axes:
                offset = ix[d][0] - start[d]
                if d in self.inner:
                    w = self.window[self.inner.index(d)]
                    if not b.holds(inside := within(offset, u.axes[w][0])):
                        conditions.append(inside)
                    here[w] = (offset,)
                else:
                    conditions.append(equal(ix[d][0], start[d]))
            found.append((binders, conjunction(conditions), tuple(here[d] for d in range(len(u.axes)))))
        return found


def _scatter(kind: str) -> Any:
    def apply(b: Builder, eqn: Any, x: Any, starts: Any, u: Any) -> Any:
        if isinstance(x, Int) or not isinstance(starts, Int):
            raise Unsupported("an update of integers")
        x, u, starts = flat(b, b.real(x)), flat(b, b.real(u)), flat(b, starts)
        _finite(x, u)
        s = _Scatter(b, eqn, x, starts, u)
        if kind == "set" and not s.single and not eqn.params["unique_indices"]:
            place, _ = b.indices(x.axes)
            if any(lookups(p) for _, p, _ in s.hits(place)):
                hint = "x.at[i].set(.., unique_indices=True) says that no place comes twice"
                raise Unsupported("places of data that may come twice, of which the last counts", hint=hint)
            if not _injective(b, s):
                raise Unsupported("places that come twice, of which the last counts")

        def at(ix: Place) -> Expr:
            hits = s.hits(ix)
            e: Expr = number(0)
            for binders, p, place in hits:
                e = plus(e, sums(binders, when(p, u.at(place))))
            rest = x.at(ix)
            if kind == "add" or is_zero(rest):
                return plus(rest, e)
            if s.single and len(hits) == 1 and not hits[0][0]:
                return plus(when(b.negated(hits[0][1]), rest), e)
            gone: Expr = number(0)
            for binders, p, _ in hits:
                gone = plus(gone, when(exists(binders, p), rest))
            return plus(minus(rest, gone), e)

        return b.state(x.axes, at, "scattered")

    return apply


def _injective(b: Builder, s: _Scatter) -> bool:
    """Whether no two updates reach the same place."""
    place, _ = b.indices(s.x.axes)
    first, second = s.hits(place), s.hits(place)
    for binders, p, _ in first:
        for others, q, _ in second:
            for (i, _), (j, _) in zip(binders, others, strict=True):
                apart = conjunction([p, q])
                a, c = atom_affine(i), atom_affine(j)
                if not b.impossible(conjunction([apart, less(a, c)])):
                    return False
    return len(first) == 1


RULES["scatter-add"], RULES["scatter"] = _scatter("add"), _scatter("set")
rule("scatter_add")(RULES["scatter-add"])


@rule("scatter-mul", "scatter_mul")
def _scatter_mul(b: Builder, eqn: Any, x: Any, starts: Any, u: Any) -> Any:
    if not isinstance(x, RealNumbers) or not isinstance(starts, Int):
        raise Unsupported("an update of integers")
    x, u, starts = flat(b, x), flat(b, b.real(u)), flat(b, starts)
    _finite(x, u)
    s = _Scatter(b, eqn, x, starts, u)
    place, _ = b.indices(x.axes)
    if not s.single or len(s.hits(place)) != 1:
        raise Unsupported("products with updates at several places")

    def at(ix: Place) -> Expr:
        ((binders, p, here),) = s.hits(ix)
        hit = exists(binders, p)
        return plus(when(b.negated(hit), x.at(ix)), times(x.at(ix), sums(binders, when(p, u.at(here)))))

    return b.state(x.axes, at, "scattered")


@rule("scatter-max", "scatter_max")
def _scatter_max(b: Builder, eqn: Any, x: Any, starts: Any, u: Any) -> Any:
    """The greatest update that reaches each place of an array of -inf; other places stay -inf."""
    if not isinstance(x, RealNumbers) or not isinstance(starts, Int) or x.infinite != -1:
        raise Unsupported("extrema of updates and an array that is not -inf")
    if b.exact:
        raise Unsupported("extrema of updates, of which equal ones share the cotangent")
    b.assume("of equal numbers the first is the extremum, to which the cotangent goes")
    u = flat(b, b.real(u))
    _finite(u)
    s = _Scatter(b, eqn, x, flat(b, starts), u)

    def one(ix: Place) -> tuple[Any, Predicate, Place]:
        hits = s.hits(ix)
        if len(hits) != 1:
            raise Unsupported("extrema at places of several cases")
        return hits[0]

    def support(ix: Place) -> Predicate:
        binders, p, _ = one(ix)
        return exists(binders, p)

    def at(ix: Place) -> Expr:
        binders, p, place = one(ix)
        return bracket(exists(binders, p), extremum(1, binders, p, u.at(place)))

    axes = plain(eqn.outvars[0].aval.shape)
    return replace(b.state(axes, at, "top"), support=support, is_top=True)
