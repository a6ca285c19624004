"""Sums of products of elements, under conditions, multiplied out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce as fold
from itertools import product as iterated_product

from tensorlang.language.affine import Affine, Atom, Index, Lookup, atom_affine
from tensorlang.language.grammar import Add, Bracket, Call, Const, Expr, Mul, Sum, Var, bracket, number
from tensorlang.language.predicates import TRUE, Predicate, conjunction, conjuncts, substitute
from tensorlang.language.rebuilt import rewrite, with_atoms
from tensorlang.lowering.plan.decays import is_difference, may_decay
from tensorlang.lowering.plan.dependence import FreeIndices, is_finite, places, reads, variable
from tensorlang.recursion import Deep, call, run

_MOST_TERMS, _MOST_FACTORS = 6, 9
_ONE = number(1)

Binder = tuple[Index, Affine]
Places = Mapping[Atom, Affine]


@dataclass(frozen=True)
class ProductTerm:
    """value * sum loops. [parts] * the product of the factors, each an element of a variable."""

    value: Expr
    loops: tuple[Binder, ...] = ()
    parts: tuple[Predicate, ...] = ()
    factors: tuple[Expr, ...] = ()


@dataclass(frozen=True)
class Triangle:
    """gen own. the sum of the terms, whose conditions tie two indices, while no factor has both of these."""

    own: tuple[Index, ...]
    terms: tuple[ProductTerm, ...]
    read: frozenset[Var]
    """Other triangles that it is made of."""


def multiplied_out(
    e: Expr, known: Mapping[Var, Triangle], read: set[Var], strict: bool, differences: bool = False
) -> tuple[ProductTerm, ...]:
    """`e` multiplied out, with elements of `known` arrays expanded; empty if it is no sum of products of elements, or
    too long. The `known` arrays that it reads are added to `read`. In `strict` programs no factor may decay.
    Differences of two elements of an array are kept beside factors that decay, in squares, and if `differences` are
    asked for: multiplied out they would round more."""
    found = run(_multiplied_out(e, known, read))
    decays = any(may_decay(part) for t in found for part in t.factors)
    if decays or differences or any(sum(map(is_difference, t.factors)) > 1 for t in found):
        found = tuple(map(without_answered, found))
    else:
        found = tuple(part for t in found for part in _without_differences(t))
    if decays and strict:
        return ()
    if len(found) > _MOST_TERMS or any(len(t.factors) > _MOST_FACTORS for t in found):
        return ()
    return found


def _multiplied_out(e: Expr, known: Mapping[Var, Triangle], read: set[Var]) -> Deep[tuple[ProductTerm, ...]]:
    x = variable(e)
    if x is not None and x in known:
        at = plain_places(e) or _on_diagonal(e)
        if at is None or len(at) != len(known[x].own):
            return ()
        read.add(x)
        moved: dict[Atom, Affine] = {i: atom_affine(j) for i, j in zip(known[x].own, at, strict=True)}
        return tuple(at_places(t, moved) for t in known[x].terms)
    if x is not None:
        return (ProductTerm(_ONE, factors=(e,)),)
    match e:
        case Const():
            return (ProductTerm(e),)
        case Bracket(p, a):
            inner = yield from call(_multiplied_out(a, known, read))
            return tuple(replace(t, parts=tuple(dict.fromkeys((*conjuncts(p), *t.parts)))) for t in inner)
        case Sum() if _is_vector(e, known):
            return (ProductTerm(_ONE, factors=(e,)),)
        case Sum(i, size, a):
            inner = yield from call(_multiplied_out(a, known, read))
            return tuple(replace(t, loops=((i, size), *t.loops)) for t in inner)
        case Add(Bracket(p, a), Bracket(q, b), -1) if p is q and is_difference(Add(a, b, -1)):
            return (yield from call(_multiplied_out(Bracket(p, Add(a, b, -1)), known, read)))
        case Add() if is_difference(e) and variable(e.left) not in known:
            return (ProductTerm(_ONE, factors=(e,)),)
        case Add(a, b, sign):
            left = yield from call(_multiplied_out(a, known, read))
            right = yield from call(_multiplied_out(b, known, read))
            if not left or not right:
                return ()
            return (*left, *(replace(t, value=product([number(sign), t.value])) for t in right))
        case Mul(a, b):
            left = yield from call(_multiplied_out(a, known, read))
            right = yield from call(_multiplied_out(b, known, read))
            if len(left) * len(right) > _MOST_TERMS:
                return ()
            return tuple(_times(t, u) for t in left for u in right)
        case Call(f, (a,)) if f.exponent == 2 and not _is_vector(e, known):
            inner = yield from call(_multiplied_out(a, known, read))
            if len(inner) != 1 or inner[0].loops or not any(map(is_difference, inner[0].factors)):
                return ()
            return (_times(inner[0], inner[0]),)
        case Call() if not _is_vector(e, known):
            e = _with_terms(e, known, read)
            decays = may_decay(e) and all(variable(x) not in known and single_places(x) is not None for x in reads(e))
            return (ProductTerm(_ONE, factors=(e,)),) if decays else ()
        case _:
            return (ProductTerm(_ONE, factors=(e,)),) if _is_vector(e, known) else ()


def _with_terms(e: Expr, known: Mapping[Var, Triangle], read: set[Var]) -> Expr:
    """`e` with elements of `known` arrays replaced by their terms, unless these are sums over an index."""

    def terms(part: Expr) -> Expr | None:
        x = variable(part)
        if x is None:
            return None
        at = plain_places(part) if x in known and not any(t.loops for t in known[x].terms) else None
        if at is None or len(at) != len(known[x].own):
            return part
        read.add(x)
        moved: dict[Atom, Affine] = {i: atom_affine(j) for i, j in zip(known[x].own, at, strict=True)}
        several = (at_places(t, moved) for t in known[x].terms)
        return total([bracket(conjunction(t.parts), product([t.value, *t.factors])) for t in several])

    return rewrite(e, terms)


def without_answered(t: ProductTerm) -> ProductTerm:
    """`t` without brackets, in its factors that decay, whose conditions are among its own."""

    def inside(e: Expr) -> Expr | None:
        return e.body if isinstance(e, Bracket) and {*conjuncts(e.pred)} <= {*t.parts} else None

    return replace(t, factors=tuple(rewrite(e, inside) if may_decay(e) else e for e in t.factors))


def _without_differences(t: ProductTerm) -> Iterator[ProductTerm]:
    """`t` multiplied out where factors are differences."""
    ends = [(e.left, e.right) if isinstance(e, Add) else (e,) for e in t.factors]
    for several in iterated_product(*map(enumerate, ends)):
        sign = (-1) ** sum(k for k, _ in several)
        value = t.value if sign > 0 else product([number(-1), t.value])
        yield replace(t, value=value, factors=tuple(e for _, e in several))


def _is_vector(e: Expr, known: Mapping[Var, Triangle]) -> bool:
    """Whether `e`, a sum or a function, depends on one index at most, and is to be computed once for each value."""
    finite = is_finite(e) or isinstance(e, Call)
    return finite and len(read_at(e)) <= 1 and all(variable(x) not in known for x in reads(e))


def _times(t: ProductTerm, u: ProductTerm) -> ProductTerm:
    parts = tuple(dict.fromkeys((*t.parts, *u.parts)))
    return ProductTerm(product([t.value, u.value]), (*t.loops, *u.loops), parts, (*t.factors, *u.factors))


def product(several: Sequence[Expr]) -> Expr:
    """The product of these, without ones, and with adjacent numbers multiplied."""
    kept = [e for e in several if e is not _ONE] or [_ONE]
    made = kept[0]
    for e in kept[1:]:
        made = number(made.value * e.value) if isinstance(made, Const) and isinstance(e, Const) else Mul(made, e)
    return made


def total(several: Sequence[Expr]) -> Expr:
    """The sum of these."""
    return fold(lambda a, b: Add(a, b, 1), several)


def at_places(t: ProductTerm, at: Places) -> ProductTerm:
    """`t` at these places, its loops renamed so that no two of one sum are the same."""
    fresh = {i: Index(i.name) for i, _ in t.loops}
    moved: dict[Atom, Affine] = {**at, **{i: atom_affine(j) for i, j in fresh.items()}}
    return ProductTerm(
        t.value,
        tuple((fresh[i], size) for i, size in t.loops),
        tuple(q for q in (substitute(q, moved) for q in t.parts) if q is not TRUE),
        tuple(_moved(e, moved) for e in t.factors),
    )


def _moved(e: Expr, at: Places) -> Expr:
    return with_atoms(rewrite(e, lambda _: None, _with_own_index), at)


def _with_own_index(_: Expr, e: Expr) -> Expr:
    """`e`, with an index of its own if it is a sum."""
    if not isinstance(e, Sum):
        return e
    own = Index(e.index.name)
    return Sum(own, e.size, with_atoms(e.body, {e.index: atom_affine(own)}))


def plain_places(e: Expr) -> tuple[Index, ...] | None:
    """The distinct indices at which `e` reads an element of a variable; None if it is anything else."""
    if variable(e) is None:
        return None
    at = [a.indices[0] for a in places(e) if len(a.indices) == 1 and a is atom_affine(a.indices[0])]
    return tuple(at) if len(at) == len(places(e)) == len(set(at)) else None


def single_places(e: Expr) -> tuple[Index, ...] | None:
    """The same where places may also be elements of index arrays at one index: `x[p[i], j]`."""
    if variable(e) is None:
        return None
    at = [i for a in places(e) if (i := _single(a)) is not None]
    return tuple(at) if len(at) == len(places(e)) == len(set(at)) else None


def _single(a: Affine) -> Index | None:
    """The index that `a` is, or the only one at which it reads an element."""
    match a.terms:
        case ((Lookup(at=(place,)), 1),) if a.constant == 0:
            return _single(place)
        case ((Index() as i, 1),) if a.constant == 0:
            return i
        case _:
            return None


def _on_diagonal(e: Expr) -> tuple[Index, ...] | None:
    """The one index at which `e` reads an element along all dimensions, once for each of them."""
    at = places(e)
    if len(set(at)) != 1 or len(at[0].indices) != 1 or at[0] is not atom_affine(at[0].indices[0]):
        return None
    return at[0].indices[:1] * len(at)


def read_at(e: Expr) -> frozenset[Index]:
    """The indices on which a factor depends: an element of a variable, a sum or a function."""
    if variable(e) is None:
        return FreeIndices().free(e, {})
    return frozenset(i for a in places(e) for i in a.free if isinstance(i, Index))
