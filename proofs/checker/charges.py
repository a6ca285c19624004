"""What a program costs, by Figure 6, as numbers of points: weights on domains.

A domain is a list of indices and predicates on them. An addition, a multiplication or a scalar function is charged at
each point at which it is evaluated; a reduction is charged at each of its points, less one where it has any.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from . import trees
from .facts import Facts, fresh, has_data, is_index
from .kinds import leaves, shape
from .meaning import ONE, Meaning, Place
from .normal import Term, normal
from .predicates import renamed, within
from .semantics import Function, fine, is_bracketed, known, known_cost, names_in, nest
from .trees import (
    TRUE,
    Add,
    Affine,
    All,
    Apply,
    At,
    Best,
    Bracket,
    Call,
    Compare,
    Element,
    Exists,
    Expr,
    Gen,
    Holds,
    Integer,
    Let,
    Mul,
    Name,
    Num,
    Pair,
    Part,
    Pred,
    Recur,
    Sum,
    Test,
    Type,
    name,
    number,
)

_STEPS = 8
_MOST_TERMS = 40
_TRIED = 4


@dataclass(frozen=True)
class Domain:
    """The points of `dims` at which all of `preds` hold."""

    dims: tuple[str, ...]
    preds: tuple[Pred, ...]

    @property
    def has_data(self) -> bool:
        """Whether its points depend on data."""
        return any(map(has_data, self.preds))

    def simplified(self, facts: Facts) -> Domain | None:
        """A domain of as many points with fewer indices and shorter predicates; None if it has no points."""
        found = normal(Term(ONE, (), self.dims, self.preds))
        if found is None:
            return None
        preds = self._needed(facts, found.preds)
        for _ in range(0 if any(map(has_data, preds)) else _STEPS):  # to the coordinates with the shortest predicates
            shifted = (shift(preds, x, value) for x, value in shifts(found.binders, preds))
            others = sorted(shifted, key=_lengths)[:_TRIED]
            best = min((self._needed(facts, other) for other in others), key=_lengths, default=preds)
            if _lengths(best) >= _lengths(preds):
                break
            preds = best
        return Domain(found.binders, preds)

    def without_quotients(self, facts: Facts) -> Domain:
        """A domain of as many points without the indices that can only be quotients of others, first those that always
        are: 0 <= a - c*q < c implies q = floor(a / c), and a >= c*b implies floor(a / c) >= b. A predicate that says
        that a quotient exists gives way to an index that is the quotient, as there is no other."""
        found = normal(Term(ONE, (), self.dims, self.preds))
        if found is None:
            return self
        d = Domain(found.binders, found.preds)
        for p in d.preds:
            if isinstance(p, Exists) and _divided(p.index, fine(p.body)) is not None:
                own = fresh()
                inside = (*fine(within(name(own), p.size)), *fine(renamed(p.body, {p.index: name(own)})))
                d = Domain((*d.dims, own), (*(q for q in d.preds if q is not p), *inside))
        while ways := [way for q in reversed(d.dims) if (way := _without(q, d)) is not None]:
            always = (way for way in ways if all(facts.implies(way[0].preds, p, instances=False) for p in way[1]))
            rest, said = next(always, ways[0])
            d = replace(rest, preds=(*rest.preds, *said))
        return d

    @staticmethod
    def _needed(facts: Facts, preds: Sequence[Pred]) -> tuple[Pred, ...]:
        """`preds` without those that the others imply."""
        kept = list(preds)
        for p in sorted(preds, key=lambda p: (not isinstance(p, Exists), -_length(p))):
            many = isinstance(p, Compare) and len(p.value.terms) < 2
            if not many and facts.implies([q for q in kept if q is not p], p, instances=isinstance(p, Exists)):
                kept.remove(p)
        return tuple(kept)


def _without(q: str, d: Domain) -> tuple[Domain, list[Pred]] | None:
    """`d` without the index q and the predicates on it, and these predicates in terms of the dividend of q."""
    found = _divided(q, d.preds)
    if found is None:
        return None
    a, c = found
    window = (a - name(q).times(c), name(q).times(c) - a + number(c - 1))
    others, said = [], list[Pred]()
    for p in d.preds:
        k = next((k for x, k in p.value.terms if x == q), 0) if isinstance(p, Compare) and not p.equal else 0
        if q not in names_in(p):
            others.append(p)
        elif isinstance(p, Compare) and p.value in window:
            continue
        elif isinstance(p, Compare) and abs(k) == 1 and q not in names_in(rest := p.value - name(q).times(k)):
            b = rest.times(c) + (a if k > 0 else number(c - 1) - a)
            if not _elements(a) | _elements(rest) <= _elements(b):  # an element may be missing: then nothing holds
                return None
            said.append(Compare(False, b))
        else:
            return None
    return (Domain(tuple(x for x in d.dims if x != q), tuple(others)), said) if said else None


def _elements(a: Affine) -> set[Element]:
    return {x for x, _ in a.terms if isinstance(x, Element)}


def _divided(q: str, preds: Iterable[Pred]) -> tuple[Affine, int] | None:
    """An a without q, and a c, such that some of `preds` say 0 <= a - c*q < c: then q can only be floor(a / c)."""
    values = {p.value: None for p in preds if isinstance(p, Compare) and not p.equal}
    for value in values:
        c = next((-k for x, k in value.terms if x == q), 0)
        a = value + name(q).times(c)
        if c > 0 and number(c - 1) - value in values and q not in names_in(a):
            return a, c
    return None


def _length(p: Pred) -> int:
    """The length of a predicate: first by the number of indices and data that it compares, then by its text."""
    match p:
        case Compare(_, a):
            own = sum(isinstance(x, Element) or is_index(x) for x, _ in a.terms)
            from_1 = len(a.terms) == 1 and a.constant != 0 and a.terms[0][1] > 0
            return 10 * own + len(a.terms) + bool(a.constant) + 5 * from_1
        case Holds(_, at):
            return sum(10 * len(a.terms) + bool(a.constant) for a in at)
        case All(parts) | trees.Any(parts):
            return sum(map(_length, parts))
    return len(names_in(p))


def shifts(dims: Iterable[str], preds: Sequence[Pred]) -> Iterator[tuple[str, Affine]]:
    """Other coordinates: an index, and an expression that some inequality compares with 0, which may replace it."""
    seen = set()
    for p in preds:
        if not isinstance(p, Compare) or p.equal or has_data(p):
            continue
        for x, k in p.value.terms:
            if isinstance(x, str) and x in dims and abs(k) == 1 and (x, p.value) not in seen and p.value != name(x):
                seen.add((x, p.value))
                yield x, p.value


def shift(preds: Sequence[Pred], x: str, value: Affine) -> tuple[Pred, ...]:
    """`preds` where `value` is called x."""
    new = {x: solved(x, value)}
    return tuple(renamed(q, new) if x in names_in(q) else q for q in preds)


def solved(x: str, value: Affine) -> Affine:
    """The old x in terms of the new x, which names `value`; in `value`, x has the coefficient 1 or -1."""
    (k,) = (k for y, k in value.terms if y == x)
    return (name(x) - (value - Affine(((x, k),)))).times(k)


def _lengths(preds: Sequence[Pred]) -> int:
    return sum(map(_length, preds))


Charge = tuple[Fraction, Domain]


class Charges:
    """The charges of a program. For long sums of bracketed terms they are no less than its cost, or with `low` no
    more."""

    def __init__(self, meaning: Meaning, functions: Mapping[str, Function], low: bool) -> None:
        self.low = low
        self.meaning = meaning
        self.functions = functions
        self.found: list[Charge] = []
        self.is_exact = True

    def of(self, e: Expr, place: Place) -> list[Charge]:
        """The charges of `e`."""
        self._go(e, (), place)
        return self.found

    def _put(self, weight: int, dims: tuple[str, ...], place: Place, *preds: Pred) -> None:
        if weight:
            self.found.append((Fraction(weight), Domain(dims, (*place.known, *preds))))

    def _go(self, e: Expr, dims: tuple[str, ...], place: Place) -> None:
        self.meaning.facts.budget.spend()
        while isinstance(e, Let):
            self._go(e.value, dims, place)
            place, e = place.let(e.name, self.meaning.bound(e, e.value, place)), e.body
        match e:
            case Num() | Integer() | Name():
                return
            case Part(_, body) | At(body, _):
                self._go(body, dims, place)
            case Pair(a, b):
                self._go(a, dims, place)
                self._go(b, dims, place)
            case Add(a, b, sign):
                self._go(a, dims, place)
                self._go(b, dims, place)
                live = [self._live(b, place), *([self._live(a, place)] if sign > 0 else [])]
                self._put(1, dims, place, *live)
            case Mul(a, b) | Test(_, a, b):
                self._go(a, dims, place)
                self._go(b, dims, place)
                self._put(1, dims, place)
            case Call(f, arguments):
                for a in arguments:
                    self._go(a, dims, place)
                self._put(self.functions[f].cost if f in self.functions or not known(f) else known_cost(f), dims, place)
            case Apply(f, arguments):
                for a in arguments:
                    self._go(a, dims, place)
                for weight, product in f.cost:
                    axes = {fresh(): self.meaning.kinds.calls[id(e)][x] for x in product}
                    ranges = [q for i, n in axes.items() for q in fine(within(name(i), self.meaning.affine(n, place)))]
                    self._put(weight, (*dims, *axes), place, *ranges)
            case Bracket(p, body):
                self._go(body, dims, place.where(self.meaning.pred(p, place)))
            case Gen(i, size, body):
                own = fresh()
                self._go(body, (*dims, own), place.index(i, name(own), self.meaning.affine(size, place)))
            case Recur(_, _, _, _, init, step):
                self._go(init, dims, place)
                held = self.meaning.recurrence(e, place)
                self._go(step, (*dims, held.time), held.inside)
            case Sum():
                self._reduction(*nest(e), dims, place)
            case Best(_, _, i, size, where, body):
                self._reduction([(i, size)], where, body, dims, place)

    def _reduction(
        self, binders: Sequence[tuple[str, Affine]], p: Pred, body: Expr, dims: tuple[str, ...], place: Place
    ) -> None:
        inner, own = place, []
        for i, size in binders:
            own.append((fresh(), self.meaning.affine(size, inner)))
            inner = inner.index(i, name(own[-1][0]), own[-1][1])
        where = self.meaning.pred(p, inner)
        inside = (*dims, *(i for i, _ in own))
        self._go(body, inside, inner.where(where))
        self._put(1, inside, inner.where(where))
        some = where
        for i, size in reversed(own):
            bound = fresh("%")
            some = Exists(bound, size, renamed(some, {i: name(bound)}))
        self._put(-1, dims, place, some)

    def _live(self, e: Expr, place: Place) -> Pred:
        """Where the outermost brackets of `e` do not make it 0."""
        if not is_bracketed(e):
            return TRUE
        if isinstance(e, Add):
            if _has_many_terms(e):
                self.is_exact = False
                return trees.Any() if self.low else TRUE
            return trees.Any((self._live(e.left, place), self._live(e.right, place)))
        assert isinstance(e, Bracket)
        p = self.meaning.pred(e.pred, place)
        return All((p, self._live(e.body, place))) if isinstance(e.body, Bracket) else p


def _has_many_terms(e: Expr) -> bool:
    """Whether more than `_MOST_TERMS` terms are added up from left to right."""
    for _ in range(_MOST_TERMS):
        if not isinstance(e, Add):
            return False
        e = e.left
    return True


def numbers(kind: Type) -> Iterator[Charge]:
    """A charge of one for each number of a value of this type."""
    for _, part in leaves(kind):
        sizes, _ = shape(part)
        dims = tuple(fresh() for _ in sizes)
        yield ONE, Domain(dims, tuple(q for i, n in zip(dims, sizes, strict=True) for q in fine(within(name(i), n))))
