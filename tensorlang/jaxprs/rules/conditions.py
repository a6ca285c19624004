"""Integers that are indices, comparisons, logic, and choices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from jax.extend import core

from tensorlang.jaxprs.axes import together
from tensorlang.jaxprs.builder import Builder
from tensorlang.jaxprs.origins import FEW
from tensorlang.jaxprs.refusal import Unsupported
from tensorlang.jaxprs.rules.table import RULES, rule
from tensorlang.jaxprs.terms import plus, where
from tensorlang.jaxprs.values import (
    WIDE,
    Axes,
    Bool,
    Case,
    Datum,
    Int,
    Place,
    RealNumbers,
    Where,
    flat_place,
    index_of,
    plain,
    volume,
)
from tensorlang.language.affine import Affine, Index, Lookup, atom_affine, constant
from tensorlang.language.census import expressions
from tensorlang.language.functions import call
from tensorlang.language.grammar import Access, Expr
from tensorlang.language.predicates import (
    FALSE,
    TRUE,
    Predicate,
    at_most,
    conjunction,
    disjunction,
    equal,
    less,
    lookups,
    not_equal,
    relations,
)
from tensorlang.surface.quotients import asked, quotient, remainder, remainders

_COMPARED: dict[str, Callable[[Affine, Affine], Predicate]] = {
    "eq": equal,
    "ne": not_equal,
    "lt": less,
    "le": at_most,
    "gt": lambda a, b: less(b, a),
    "ge": lambda a, b: at_most(b, a),
}


def integers(b: Builder, name: str, x: Int, y: Int) -> Int:
    """Arithmetic of indices, as long as it is affine."""
    (x, y), axes = together(b, [x, y])

    def combined(pq: Predicate, m: Affine, n: Affine) -> list[Case]:
        if name in ("add", "add_any"):
            return [(pq, m + n)]
        if name == "sub":
            return [(pq, m - n)]
        if name == "mul" and (m.is_constant or n.is_constant):
            return [(pq, m * n.constant if n.is_constant else n * m.constant)]
        if name in ("max", "min"):
            big, small = (m, n) if name == "max" else (n, m)
            return [(conjunction([pq, at_most(n, m)]), big), (conjunction([pq, less(m, n)]), small)]
        if name == "rem" and b.holds(conjunction([at_most(constant(0), m), less(m, n)]), pq):
            return [(pq, m)]
        if name == "div" and n.is_constant and n.constant > 0:
            if b.holds(conjunction([at_most(constant(0), m), less(m, n)]), pq):
                return [(pq, constant(0))]
            if all(k % n.constant == 0 for _, k in m.terms) and m.constant % n.constant == 0:
                return [(pq, Affine(tuple((a, k // n.constant) for a, k in m.terms), m.constant // n.constant))]
        raise Unsupported(f"{name} of indices, which is not affine")

    def cases(ix: Place) -> list[Case]:
        found: list[Case] = []
        for p, m in b.possible(x.cases(ix)):
            for q, n in b.possible(y.cases(ix)):
                pq = conjunction([p, q])
                known = _known(b, name, pq, m, n) if computed else None
                if known is not None:
                    found.append((pq, replace(known, var=made, at=flat_place(ix))))
                elif isinstance(m, Datum) or isinstance(n, Datum):
                    raise Unsupported(f"{name} of integers of data")
                else:
                    found += combined(pq, m, n)
        return b.possible(found)

    made = b.equation.outvars[0]
    computed = b.available(made) and axes == plain(made.aval.shape)
    return Int(axes=axes, cases=cases)


def _known(b: Builder, name: str, where: Predicate, m: Affine | Datum, n: Affine | Datum) -> Datum | None:
    """The combination of m and n, if data or quotients are among them; None if it is unknown."""
    sign = -1 if name == "sub" else 1
    first, second = index_of(m), index_of(n)
    if name in ("div", "rem"):
        if first is None or isinstance(n, Datum) or not n.is_constant or not n.constant > 0:
            return None
        if not b.holds(asked([first], lambda a: at_most(constant(0), a)), where):
            return None
        value = (quotient if name == "div" else remainder)(first, n.constant)
        return Datum(None, (), known=value) if value.free else None
    if not isinstance(m, Datum) and not isinstance(n, Datum):
        return None
    if name == "mul" and first is not None and second is not None and (first.is_constant or second.is_constant):
        value = first * second.constant if second.is_constant else second * first.constant
        return Datum(None, (), known=value)
    if name not in ("add", "add_any", "sub"):
        return None
    if first is not None and second is not None:
        return Datum(None, (), known=first + second * sign)
    datum, by = (m, second) if isinstance(m, Datum) else (n, first)
    assert isinstance(datum, Datum)
    if by is None or datum.known is not None or datum.var.aval.dtype not in WIDE:
        return None
    turned = datum.turned
    if isinstance(m, Datum):
        by = datum.by + by * sign
    else:
        by, turned = by + datum.by * sign, turned is (sign > 0)
    return Datum(None, (), moved=datum.moved or datum, by=by, turned=turned)


@rule("rem")
def _rem(b: Builder, eqn: Any, x: Any, y: Any) -> Any:
    if isinstance(x, Int) and isinstance(y, Int):
        return integers(b, "rem", x, y)
    (x, y), axes = together(b, [b.real(x), b.real(y)])
    if x.infinite or y.infinite or x.support is not None or y.support is not None:
        raise Unsupported("a remainder of infinite numbers")
    return b.state(axes, lambda ix: call("fmod", x.at(ix), y.at(ix)), "rem")


def compared(b: Builder, name: str, x: Any, y: Any, given: Sequence[Any] = ()) -> Bool:
    """A comparison of x and y, the values of the variables `given`: for indices a predicate, and for numbers a choice
    or a predicate on their ranks."""
    (x, y), axes = together(b, [x, y])
    if isinstance(x, Int) and isinstance(y, Int) and b.is_index(x) and b.is_index(y):
        return _places_compared(b, name, x, y, axes)
    if given and (ranked := _ranks_compared(b, name, x, y, axes, given)) is not None:
        return ranked
    if isinstance(x, Int) and isinstance(y, Int):
        return _places_compared(b, name, x, y, axes)
    if isinstance(x, Bool) and isinstance(y, Bool):
        return (
            logic(b, "xor" if name == "ne" else "iff", x, y)
            if name in ("eq", "ne")
            else _refuse("an order of conditions")
        )
    x, y = b.real(x), b.real(y)
    if x.infinite or y.infinite:
        return _with_infinite(b, name, x, y)
    if x.support is not None or y.support is not None:
        raise Unsupported("a comparison of numbers that are -inf under a mask")
    b.assume("no number that is compared is nan")

    def one(word: str, first: RealNumbers, second: RealNumbers, ix: Place, e: Expr) -> Expr:
        return where(word, first.at(ix), second.at(ix), e)

    def choose(ix: Place, e: Expr, otherwise: Expr) -> Expr:
        match name:
            case "gt":
                return plus(one("where_gt", x, y, ix, e), one("where_ge", y, x, ix, otherwise))
            case "ge":
                return plus(one("where_ge", x, y, ix, e), one("where_gt", y, x, ix, otherwise))
            case "lt":
                return plus(one("where_gt", y, x, ix, e), one("where_ge", x, y, ix, otherwise))
            case "le":
                return plus(one("where_ge", y, x, ix, e), one("where_gt", x, y, ix, otherwise))
        same, other = (e, otherwise) if name == "eq" else (otherwise, e)
        if x.at(ix) is y.at(ix):  # it is asked whether a number is nan
            return one("where_ge", x, y, ix, same)
        both = one("where_ge", x, y, ix, one("where_ge", y, x, ix, same))
        return plus(both, plus(one("where_gt", x, y, ix, other), one("where_gt", y, x, ix, other)))

    return Bool(axes=axes, choose=choose)


def _places_compared(b: Builder, name: str, x: Int, y: Int, axes: Axes) -> Bool:
    """A comparison of indices and integers of data: a predicate on these, else the conditions that JAX computes."""
    made = b.equation.outvars[0]
    computed = b.available(made) and axes == plain(made.aval.shape)
    place, _ = b.indices(axes)
    _indices_compared(b, name, x.cases(place), y.cases(place), is_new=True)

    def holds(ix: Place) -> Predicate:
        try:
            return _indices_compared(b, name, x.cases(ix), y.cases(ix))
        except Unsupported:
            known = b.data(made) if computed else None
            if not isinstance(known, Bool) or known.holds is None:
                raise
            return known.holds(ix)

    return b.condition(axes, holds)


def _ranks_compared(b: Builder, name: str, x: Any, y: Any, axes: Axes, given: Sequence[Any]) -> Bool | None:
    """The comparison of all pairs of elements of two arrays, by their ranks; None if it is no such comparison."""
    if len(axes) < 2 or 0 < volume(axes) <= FEW or any(isinstance(v, core.Literal) for v in given):
        return None
    along = [_axes_of(b, v) for v in (x, y)]
    if [len(axes) for axes in along] != [1, 1] or along[0] == along[1]:
        return None
    (d,), (e,) = along
    found = b.ranks((given[0], d), (given[1], e))
    if found is None:
        return None
    if isinstance(x, RealNumbers):
        b.assume("no number that is compared is nan")
    p, q = found
    return b.condition(axes, lambda ix: _COMPARED[name](atom_affine(Lookup(p, ix[d])), atom_affine(Lookup(q, ix[e]))))


def _axes_of(b: Builder, x: Any) -> tuple[int, ...]:
    """The axes on which the elements of `x`, numbers or integers of data, depend; empty if that is unknown."""
    if any(len(axis) != 1 for axis in x.axes):
        return ()
    place, _ = b.indices(x.axes)
    if isinstance(x, RealNumbers) and not x.infinite and x.support is None and x.constant is None:
        e = x.at(place)
        used = {i for found in expressions(e) if isinstance(found, Access) for i in found.at.free}
    elif isinstance(x, Int) and len(cases := x.cases(place)) == 1 and isinstance(datum := cases[0][1], Datum):
        used = {i for a in datum.at for i in a.free}
    else:
        return ()
    return tuple(k for k, (a,) in enumerate(place) if a.atoms[0] in used)


def _refuse(what: str) -> Any:
    raise Unsupported(what)


def _with_infinite(b: Builder, name: str, x: RealNumbers, y: RealNumbers) -> Bool:
    """A comparison with an infinite number or nan, assuming that values are finite."""
    b.assume("values are finite")
    if name in ("eq", "ne"):
        p = TRUE if name == "ne" else FALSE
    else:
        above = y.infinite if y.infinite else -x.infinite
        p = TRUE if (above == 1) == (name in ("lt", "le")) and abs(above) == 1 else FALSE
    return b.condition(x.axes or y.axes, lambda ix: p)


def _indices_compared(b: Builder, name: str, xs: list[Case], ys: list[Case], is_new: bool = False) -> Predicate:
    """The comparison as a predicate; with `is_new`, only if that is more useful than an array of conditions."""
    found = []
    for p, m in b.possible(xs):
        for q, n in b.possible(ys):
            first, second = index_of(m), index_of(n)
            if first is not None and second is not None:
                if is_new and name in ("eq", "ne") and len(_free(remainders([first, second]))) > 1:
                    raise Unsupported("a comparison of remainders")  # it bounds no index
                here = asked([first, second], _COMPARED[name])
            else:
                left, right = m if first is None else first, n if second is None else second
                here = _compared_with_data(b, name, left, right, is_new)
            found.append(conjunction([p, q, here]))
    return disjunction(found)


def _free(parts: Sequence[Affine]) -> set[Index]:
    return {i for a in parts for i in a.indices}


def _compared_with_data(b: Builder, name: str, m: Affine | Datum, n: Affine | Datum, is_new: bool) -> Predicate:
    if isinstance(m, Datum) and isinstance(n, Datum):
        raise Unsupported("a comparison of integers of data with each other")
    if not isinstance(m, Datum):
        name, m, n = _SWAPPED.get(name, name), n, m
    assert isinstance(m, Datum) and isinstance(n, Affine)
    if m.moved is None and name in ("eq", "ne"):
        return _COMPARED[name](b.element(m, _extent(b, n), drop=True), n)
    base = m.moved or m
    other, name = (m.by - n, _SWAPPED.get(name, name)) if m.turned else (n - m.by, name)
    if is_new and {i for a in base.at for i in a.indices}.issuperset(other.indices):
        raise Unsupported("a comparison of integers of data with others than places")
    if m.moved is not None:
        b.assume("indices and small numbers that are added to integers of data do not make them overflow")
    return _COMPARED[name](b.bound(base, _extent(b, other - other.constant), other.constant), other)


_SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}
"""The comparison of b with a that is equivalent to a comparison of a with b."""


def _extent(b: Builder, a: Affine) -> Affine:
    """A size that is an upper bound of the index `a`."""
    if a.is_constant and a.constant >= 0:
        return a + 1
    if len(a.terms) == 1 and a.terms[0][1] == 1 and a.constant == 0:
        atom = a.terms[0][0]
        size = atom.array.size if isinstance(atom, Lookup) else b.range_of(atom)
        if size is not None:
            return size
    raise Unsupported("a comparison of integers of data with others than places")


for _name in _COMPARED:
    RULES[_name] = lambda b, eqn, x, y, name=_name: compared(b, name, x, y, eqn.invars)


def logic(b: Builder, name: str, x: Bool, y: Bool) -> Bool:
    """and, or, exclusive or, and its negation."""
    (x, y), axes = together(b, [x, y])
    if x.holds is not None and y.holds is not None:
        h, k = x.holds, y.holds
        if name in ("and", "or"):
            join = conjunction if name == "and" else disjunction
            return b.condition(axes, lambda ix: join([h(ix), k(ix)]))

        def differ(ix: Place) -> Predicate:
            p, q = h(ix), k(ix)
            if name == "iff":
                return disjunction([conjunction([p, q]), conjunction([b.negated(p), b.negated(q)])])
            return disjunction([conjunction([p, b.negated(q)]), conjunction([b.negated(p), q])])

        return b.condition(axes, differ)

    def choose(ix: Place, e: Expr, f: Expr) -> Expr:
        match name:
            case "and":
                return x.choose(ix, y.choose(ix, e, f), f)
            case "or":
                return x.choose(ix, e, y.choose(ix, e, f))
            case "iff":
                return x.choose(ix, y.choose(ix, e, f), y.choose(ix, f, e))
        return x.choose(ix, y.choose(ix, f, e), y.choose(ix, e, f))

    return Bool(axes=axes, choose=choose)


def _logical(name: str) -> None:
    def apply(b: Builder, eqn: Any, x: Any, y: Any) -> Any:
        if not isinstance(x, Bool) or not isinstance(y, Bool):
            raise Unsupported(f"{name} of the bits of integers")
        return logic(b, name, x, y)

    RULES[name] = apply


for _name in ("and", "or", "xor"):
    _logical(_name)


@rule("not")
def _not(b: Builder, eqn: Any, x: Any) -> Any:
    if not isinstance(x, Bool):
        raise Unsupported("not of the bits of integers")
    if x.holds is not None:
        holds = x.holds
        return b.condition(x.axes, lambda ix: b.negated(holds(ix)))
    return Bool(axes=x.axes, choose=lambda ix, e, f: x.choose(ix, f, e))


@rule("select_n")
def _select(b: Builder, eqn: Any, which: Any, *cases: Any) -> Any:
    if isinstance(which, Int):
        return select_by_index(b, which, cases)
    if len(cases) != 2 or not isinstance(which, Bool):
        raise Unsupported("a choice by numbers")
    return select(b, which, *cases)


def select_by_index(b: Builder, which: Int, cases: Sequence[Any]) -> Any:
    """The value in the place `which`, or in the first or last one, whichever is nearest; element by element."""
    last = len(cases) - 1
    found = cases[last]
    for k in reversed(range(last)):

        def first(ix: Place, k: int = k) -> Predicate:
            places = b.placed(b.possible(which.cases(ix)), constant(last + 1), drop=False)
            return disjunction(conjunction([p, at_most(a, constant(k))]) for p, a in places)

        found = select(b, b.condition(which.axes, first), found, cases[k])
    return found


def select(b: Builder, which: Bool, no: Any, yes: Any) -> Any:
    """`yes` where `which` holds, else `no`, element by element."""
    (which, no, yes), axes = together(b, [which, no, yes])
    if which.holds is not None:
        place, _ = b.indices(axes)
        p = which.holds(place)
        if b.holds(p):
            return yes
        if b.impossible(p):
            return no
    if isinstance(yes, Int) and isinstance(no, Int):
        return _chosen_indices(b, which, yes, no)
    if isinstance(yes, Bool) and isinstance(no, Bool):
        return _chosen_conditions(b, which, yes, no)
    return _chosen_numbers(b, which, b.real(yes), b.real(no))


def _chosen_indices(b: Builder, which: Bool, yes: Int, no: Int) -> Int:
    if which.holds is None:
        raise Unsupported("indices chosen by numbers")
    holds = which.holds
    if not b.exact:
        wrapped = _wrapped(b, yes, no)
        if wrapped is not None:
            return wrapped
    place, _ = b.indices(which.axes)
    if relations(p := holds(place)) or lookups(p):
        raise Unsupported("indices chosen by data")

    def cases(ix: Place) -> list[Case]:
        p = holds(ix)
        found = [(conjunction([p, q]), a) for q, a in yes.cases(ix)]
        return b.possible(found + [(conjunction([b.negated(p), q]), a) for q, a in no.cases(ix)])

    return Int(axes=yes.axes, cases=cases)


def _wrapped(b: Builder, yes: Int, no: Int) -> Int | None:
    """The argument's integers, if negative ones count from the end; these are assumed not to occur. Else None."""
    place, _ = b.indices(no.axes)
    for x, other in ((no, yes), (yes, no)):
        found = x.cases(place)
        if len(found) == 1 and isinstance(d := found[0][1], Datum) and d.var in b.hints:
            shifted = other.cases(place)
            if len(shifted) == 1 and isinstance(o := shifted[0][1], Datum) and b.is_shift(o.var, d.var):
                b.assume(f"{b.hints[d.var]} has no negative places, which would count from the end")
                return x
    return None


def _chosen_conditions(b: Builder, which: Bool, yes: Bool, no: Bool) -> Bool:
    if which.holds is not None and yes.holds is not None and no.holds is not None:
        p, q, r = which.holds, yes.holds, no.holds
        return b.condition(
            which.axes,
            lambda ix: disjunction([conjunction([p(ix), q(ix)]), conjunction([b.negated(p(ix)), r(ix)])]),
        )
    return Bool(
        axes=which.axes,
        choose=lambda ix, e, f: which.choose(ix, yes.choose(ix, e, f), no.choose(ix, e, f)),
    )


def _chosen_numbers(b: Builder, which: Bool, yes: RealNumbers, no: RealNumbers) -> RealNumbers:
    axes = which.axes
    if 2 in (yes.infinite, no.infinite):
        b.assume("nan, which is chosen where an index is out of range, is not read")
        return yes if no.infinite == 2 else no
    holds = which.holds
    if holds is not None and (no.infinite == -1) != (yes.infinite == -1):
        kept = yes if no.infinite == -1 else no
        inside = holds if kept is yes else lambda ix: b.negated(holds(ix))
        if kept.infinite:
            raise Unsupported("a choice of infinite numbers")
        return replace(kept, support=_both(inside, kept.support), constant=None, mask=None, is_top=False)
    yes, no = (b.infinity(x.infinite, axes) if x.infinite else x for x in (yes, no))
    if yes.support is not None or no.support is not None:
        return _chosen_supported(b, which, yes, no)
    positive = yes.positive and no.positive
    if holds is not None:
        mask = holds if yes.constant == 1 and no.constant == 0 else None
        return b.bounded(
            RealNumbers(
                axes=axes,
                at=lambda ix: which.choose(ix, yes.at(ix), no.at(ix)),
                mask=mask,
                positive=positive,
                pieces=yes.pieces + no.pieces if yes.constant is None and no.constant is None else 1,
            )
        )
    made = b.state(axes, lambda ix: which.choose(ix, yes.at(ix), no.at(ix)), "where")
    return replace(made, positive=positive)


def _both(p: Where, q: Where | None) -> Where:
    return p if q is None else lambda ix: conjunction([p(ix), q(ix)])


def _chosen_supported(b: Builder, which: Bool, yes: RealNumbers, no: RealNumbers) -> RealNumbers:
    """A choice between numbers, some of which are -inf outside of a support, which chosen ones keep."""
    if which.holds is None:
        raise Unsupported("numbers that are -inf under a mask, chosen by numbers")
    holds, everywhere = which.holds, lambda ix: TRUE
    first, second = yes.support or everywhere, no.support or everywhere

    def support(ix: Place) -> Predicate:
        p = holds(ix)
        return disjunction([conjunction([p, first(ix)]), conjunction([b.negated(p), second(ix)])])

    return RealNumbers(axes=which.axes, at=lambda ix: which.choose(ix, yes.at(ix), no.at(ix)), support=support)
