"""Arrays that are only read at places listed by data, computed only there.

    X = gen i, j. e;   .. sum l. X[a[l], b[l]] ..   ->   X' = gen l. [i := a[l], j := b[l]] e;   .. sum l. X'[l] ..

if the list is shorter than X. It may contain a place twice, whose element is then computed twice. So this is for
generated code only: the cost model counts each place once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Lookup, atom_affine, constant, is_long, total
from tensorlang.language.predicates import (
    TRUE,
    Exists,
    NonNegative,
    Predicate,
    conjunction,
    conjuncts,
    equal,
    free_atoms,
    lookups,
    mapped,
    substitute,
    within,
)
from tensorlang.normal.contraction import contraction
from tensorlang.normal.pattern import Shape, axes, renamed, renamed_affine
from tensorlang.normal.ssa import (
    SSA,
    Addend,
    Addition,
    Comparison,
    Contraction,
    Defining,
    Map,
    Statement,
    comparison,
    inner_ranges,
    live,
    looked_up,
    operands,
    output_list,
    own_ranges,
    predicates,
)
from tensorlang.normal.tidy import addition, map_outputs, tidy, with_operands
from tensorlang.sets.solve import Ranges, in_range, simplify_in, solve
from tensorlang.simplification.scattered import term_by_term

_MOST = 4
"""The most lists of places at which one array is computed."""


@dataclass(frozen=True)
class _Places:
    """The places `at` of an array, one for each value of the canonical indices of these `sizes` that fulfils `pred`."""

    sizes: Shape
    at: tuple[Affine, ...]
    pred: Predicate

    @property
    def own(self) -> tuple[Index, ...]:
        return axes(0, len(self.sizes))


def at_listed_places(s: SSA) -> SSA:
    """`s` with arrays that are only read at listed places computed there, and scattered sums read term by term."""
    t = term_by_term(s)
    if t is not s:
        s = tidy(t)
    defined = frozenset(x.array for x in s.statements if isinstance(x, Defining))
    lists = _Lists(defined, {x.array: x for x in s.statements if isinstance(x, Comparison)})
    lists.find(s)
    if not any(a.lookups for found in lists.listed.values() for p in found for a in p.at):
        return s
    names: dict[Statement, str] = {}
    for x in s.statements:
        for p in lists.listed.get(x, [None]):
            lists.made[x, p] = y = lists.statement(x, p)
            if x in s.names:
                names.setdefault(y, s.names[x])
    outputs = map_outputs(s.outputs, {x: lists.made[x, None] for x in output_list(s.outputs)})
    return tidy(live(replace(s, statements=tuple(lists.made.values()), outputs=outputs, names=names)))


@dataclass(frozen=True)
class _Frame:
    """The indices over which a statement is computed, with their ranges; its own indices in terms of these; and the
    condition under which it is needed."""

    ranges: dict[Index, Affine]
    at: dict[Atom, Affine]
    pred: Predicate


def _frame(x: Statement, p: _Places | None) -> _Frame:
    own = own_ranges(x)
    if p is None:
        return _Frame(own, {}, TRUE)
    new = {Index(i.name): n for i, n in zip(p.own, p.sizes, strict=True)}
    old = tuple(p.own)
    at: dict[Atom, Affine] = {i: renamed_affine(a, old, tuple(new)) for i, a in zip(own, p.at, strict=True)}
    inside = [in_range(a, n, new) for a, n in zip(at.values(), own.values(), strict=True)]
    return _Frame(new, at, conjunction([renamed(p.pred, old, tuple(new)), *inside]))


_Found = tuple[_Places, tuple[Affine, ...]]
"""Places, and the values of their indices in terms of those of the statement that reads there."""


@dataclass
class _Lists:
    """The statements that are computed only at lists of places, and what was made of them. `defined` are the index
    arrays that the program computes, `compared` those defined by comparisons."""

    defined: Collection[IndexArray]
    compared: Mapping[IndexArray, Comparison]
    listed: dict[Statement, list[_Places]] = field(default_factory=dict)
    made: dict[tuple[Statement, _Places | None], Statement] = field(default_factory=dict)

    def find(self, s: SSA) -> None:
        """Find the statements that are only read at few places, going backwards from the last one."""
        read: dict[Statement, dict[_Places | None, None]] = defaultdict(dict)
        for x in output_list(s.outputs):
            read[x][None] = None
        for x in reversed(s.statements):
            found = [p for p in read[x] if p is not None and _is_shorter(p, x.shape)]
            if isinstance(x, Addition | Map | Contraction | Comparison) and 0 < len(found) == len(read[x]) <= _MOST:
                self.listed[x] = found
            for p in self.listed.get(x, [None]):
                for y, q in self._reads(x, p):
                    read[y][q] = None

    def _reads(self, x: Statement, p: _Places | None) -> Iterator[tuple[Statement, _Places | None]]:
        """The statements that `x` reads when computed at the places `p`, or everywhere if that is None; and the places
        read, or None for all."""
        match x:
            case Map() | Addition() | Comparison():
                yield from ((y, p) for y in operands(x))
            case Contraction():
                frame = _frame(x, p)
                for k, y in enumerate(x.factors):
                    yield y, self._factor(x, k, frame)[0]
            case _:
                yield from ((y, None) for y in operands(x))
        for a in (a for a in looked_up(x) if a in self.compared):
            yield from ((self.compared[a], found and found[0]) for found in self._outcomes(x, a, _frame(x, p)).values())

    def _outcomes(self, x: Statement, array: IndexArray, frame: _Frame) -> dict[Lookup, _Found | None]:
        """The elements of `array` that `x` looks up in its frame, with their places; None if these are not known."""
        match x:
            case Contraction():
                ranges = {**inner_ranges(x), **frame.ranges}
            case Map() | Addition():
                ranges = frame.ranges
            case _:
                return {Lookup(array, ()): None}
        found: dict[Lookup, _Found | None] = {}
        for q in predicates(x):
            parts = conjuncts(conjunction([substitute(q, frame.at), frame.pred]))
            for a, places in self._looked_up(array, parts, ranges):
                found[a] = places if found.get(a, places) == places else None
        return found

    def statement(self, x: Statement, p: _Places | None) -> Statement:
        """`x` at the places `p`, or all of it, reading the operands that were made."""
        if not isinstance(x, Map | Addition | Contraction) and p is None:
            return with_operands(x, {y: self.made[y, None] for y in operands(x)})
        frame = _frame(x, p)
        own = tuple(frame.ranges)
        shape = tuple(frame.ranges.values())
        values: dict[Atom, Affine] = {}
        for array in (a for a in looked_up(x) if a in self.compared):
            for a, found in self._outcomes(x, array, frame).items():
                y = None if found is None else self.made.get((self.compared[array], found[0]))
                if isinstance(y, Comparison) and found is not None:
                    values[a] = atom_affine(Lookup(y.array, found[1]))

        def moved(a: Affine) -> Affine:
            return total((values.get(atom) or elsewhere(atom), k) for atom, k in a.terms) + a.constant

        def elsewhere(atom: Atom) -> Affine:
            return atom_affine(Lookup(atom.array, tuple(map(moved, atom.at))) if isinstance(atom, Lookup) else atom)

        def under(q: Predicate) -> Predicate:
            q = mapped(substitute(q, frame.at), moved)
            return conjunction([q, frame.pred])

        def by_axes(q: Predicate) -> Predicate:
            return renamed(under(q), own, axes(0, len(own)))

        def in_place(y: Statement) -> Statement:
            if p is None or (y, p) in self.made:
                return self.made[y, p]
            at = tuple(Index("i") for _ in y.shape)
            places = (equal(atom_affine(i), a) for i, a in zip(at, frame.at.values(), strict=True))
            return contraction(shape, own, [(self.made[y, None], at)], {}, conjunction([*places, frame.pred]))

        match x:
            case Map(q, f, arguments, _):
                return Map(by_axes(q), f, tuple(map(in_place, arguments)), shape)
            case Addition(terms, _):
                return addition([Addend(t.sign, by_axes(t.pred), in_place(t.operand)) for t in terms], shape)
            case Comparison(array, op, guard, left, right):
                return comparison(op, by_axes(guard), in_place(left), in_place(right), array.name)
            case Contraction(q, factors, _, _):
                given: list[tuple[Statement, tuple[Index, ...]]] = []
                parts = [under(q)]
                for k, y in enumerate(factors):
                    there, by = self._factor(x, k, frame)
                    z = self.made.get((y, there))
                    read = tuple(map(atom_affine, x.pattern.places[k])) if z is None else by
                    at = tuple(Index("i") for _ in read)
                    parts += [equal(atom_affine(i), a) for i, a in zip(at, read, strict=True)]
                    given.append((z or self.made[y, None], at))
                return contraction(shape, own, given, inner_ranges(x), conjunction(parts))
            case _:
                raise AssertionError("only what has arithmetic, or compares, is made at places")

    def _factor(self, x: Contraction, k: int, frame: _Frame) -> _Found:
        """The places of its k-th factor that `x` reads."""
        unknown = dict(zip(x.pattern.places[k], x.factors[k].shape, strict=True))
        ranges = {**unknown, **frame.ranges, **inner_ranges(x)}
        return self._places(map(atom_affine, unknown), conjunction([substitute(x.pred, frame.at), frame.pred]), ranges)

    def _looked_up(
        self, array: IndexArray, parts: Sequence[Predicate], ranges: Ranges, beside: Sequence[Predicate] = ()
    ) -> Iterator[tuple[Lookup, _Found | None]]:
        """The elements of `array` that `parts` look up, with their places where these parts and those `beside` hold;
        None if the places are not known."""
        for q in parts:
            if isinstance(q, Exists) and q.index not in ranges:
                others = [*beside, *(r for r in parts if r is not q)]
                yield from self._looked_up(array, conjuncts(q.body), {**ranges, q.index: q.size}, others)
                continue
            for a in (a for a in lookups(q) if a.array is array):
                told = ranges.keys() >= set(atom_affine(a).indices) and not isinstance(q, Exists)
                yield a, self._places(a.at, conjunction([*beside, *parts]), ranges) if told else None

    def _places(self, at: Iterable[Affine], p: Predicate, ranges: Ranges) -> _Found:
        """The places `at` where `p` holds, over as few indices as its equalities allow, the last of `ranges`; an index
        in a window of fixed width is replaced by its offset in the window."""
        found = solve(p, ranges, {})
        places = [a.substitute(found.values) for a in at]
        by = {i: atom_affine(i) for i in dict.fromkeys(i for a in places for i in a.indices)}
        every = {i: ranges[i] for i in by}
        parts = conjuncts(found.rest)
        for i in [i for i in by if is_long(ranges[i])]:
            window = _window(i, parts, by.keys() - {i})
            if window is not None:
                first, width = window
                d = Index("d")
                inside = in_range(first + atom_affine(d), every.pop(i), every)
                change: dict[Atom, Affine] = {i: first + atom_affine(d)}
                every[d] = constant(width)
                values: dict[Atom, Affine] = dict(by.items())
                by = {j: a for j, a in by.items() if j is not i} | {d: atom_affine(i) - first.substitute(values)}
                places = [a.substitute(change) for a in places]
                parts = conjuncts(conjunction([inside, *(substitute(q, change) for q in parts)]))
        told = [q for q in parts if {i for i in free_atoms(q) if isinstance(i, Index)} <= by.keys()]
        told = [q for q in told if not isinstance(q, Exists) and not any(a.array in self.defined for a in lookups(q))]
        there = [within(b, n) for a in places for y in a.lookups for b, n in zip(y.at, y.array.sizes, strict=True)]
        old, new = tuple(by), axes(0, len(by))
        sizes = tuple(every[i] for i in old)
        pred = simplify_in(renamed(conjunction([*told, *there]), old, new), dict(zip(new, sizes, strict=True)))
        return _Places(sizes, tuple(renamed_affine(a, old, new) for a in places), pred), tuple(by.values())


def _window(i: Index, parts: Iterable[Predicate], others: Set[Index]) -> tuple[Affine, int] | None:
    """The first value of `i` in terms of the others, and the number of its values, if that is fixed."""
    bounds = [q.value for q in parts if isinstance(q, NonNegative) and i in q.value.free]
    for low in (a for a in bounds if a.coefficient(i) == 1):
        first = atom_affine(i) - low
        width = min(((low + a).constant + 1 for a in bounds if (low + a).is_constant), default=0)
        if width > 0 and i not in first.free and first.indices and set(first.indices) <= others:
            return first, width
    return None


def _is_shorter(p: _Places, shape: Shape) -> bool:
    """Whether the places are over fewer indices than an array of this shape has, not counting short ones."""
    return sum(map(is_long, p.sizes)) < sum(map(is_long, shape))
