"""Which arrays are cut into blocks of rows: those that are zero outside of a triangle, or another domain that is no
box, and that are only read along with it.

    let t = gen i:n, j:n. [j < i] * e in
    let u = gen i:n, j:n. [j < i] * f(t[i, j]) in                       row by row
    gen k:n. (sum j:n. [j < k] * u[k, j]) - sum i:n. [k < i] * u[i, k]    sums along rows and along columns

A block has only the columns that some of its rows need.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tensorlang.language.affine import Affine, Atom, Index, IndexArray, atom_affine, is_long
from tensorlang.language.function import Function
from tensorlang.language.grammar import (
    Access,
    Add,
    Bracket,
    Choice,
    Expr,
    Extremum,
    Gen,
    Mul,
    Sum,
    Var,
    children,
)
from tensorlang.language.lets import bindings
from tensorlang.language.predicates import Equal, NonNegative, Predicate, conjuncts, substitute
from tensorlang.language.types import R
from tensorlang.lowering.plan.dependence import accesses, factors, places, variable
from tensorlang.recursion import Deep, call, run

Limits = frozenset[NonNegative]
_NONE: Limits = frozenset()


@dataclass(frozen=True)
class Cut:
    """How an array is cut: its indices, which of them is the row, and comparisons of that with others without which
    the array is zero."""

    axes: tuple[Index, ...]
    row: Index
    limits: tuple[NonNegative, ...]

    @property
    def dimension(self) -> int:
        """Which of the array's dimensions has the rows."""
        return self.axes.index(self.row)

    def limits_at(self, at: Iterable[Affine]) -> tuple[NonNegative, ...]:
        """The limits of an element at `at`."""
        values: dict[Atom, Affine] = dict(zip(self.axes, at, strict=True))
        found = (substitute(q, values) for q in self.limits)
        return tuple(q for q in found if isinstance(q, NonNegative))


@dataclass
class Cuts:
    """The arrays that are cut, and for each number of rows the work for an element: for each reader, the extents over
    which it is repeated."""

    arrays: dict[Var, Cut] = field(default_factory=dict)
    work: dict[Affine, dict[tuple[Affine, ...], None]] = field(default_factory=dict)

    def note(self, rows: Affine, work: Sequence[Affine]) -> None:
        """Note the work that arrays of that number of rows take for an element."""
        self.work.setdefault(rows, {})[tuple(work)] = None


def cut_triangles(f: Function) -> Cuts:
    """The arrays of `f`, simplified, that are cut."""
    statements, body = bindings(f.body)
    found = _Supports()
    for x, e in statements:
        found.see(x, e)
    if found.cuts:
        statements.append((Var("result", R), body))
    while True:
        made = Cuts(dict(found.cuts))
        wrong: set[Var] = set()
        for x, e in statements if found.cuts else ():
            wrong |= _misread(made, made.arrays.get(x) if isinstance(x, Var) else None, e)
        if not wrong:
            return made
        for x in wrong:
            del found.cuts[x]


@dataclass
class _Supports:
    """What is known of where statements are not zero: how arrays may be cut, and what an index array's elements are."""

    cuts: dict[Var, Cut] = field(default_factory=dict)
    chosen: dict[IndexArray, tuple[list[Index], Choice]] = field(default_factory=dict)
    memo: dict[Expr, Limits] = field(default_factory=dict)

    def see(self, x: Var | IndexArray, e: Expr) -> None:
        binders: dict[Index, Affine] = {}
        while isinstance(e, Gen):
            binders[e.index] = e.size
            e = e.body
        if isinstance(x, IndexArray):
            if isinstance(e, Choice):
                self.chosen[x] = (list(binders), e)
        elif e.type is R and len(binders) > 1:
            cut = _cut(binders, run(self._limits(e)))
            if cut is not None:
                self.cuts[x] = cut

    def _limits(self, e: Expr) -> Deep[Limits]:
        """Comparisons of indices that hold wherever `e` is not zero."""
        if e not in self.memo:
            found = _NONE
            match e:
                case Bracket(p, a):
                    found = self._comparisons(p) | (yield from call(self._limits(a)))
                case Sum(i, _, a):
                    inner = yield from call(self._limits(a))
                    found = frozenset(q for q in inner if not q.value.coefficient(i))
                case Add(a, b):
                    left = yield from call(self._limits(a))
                    found = left & (yield from call(self._limits(b)))
                case Mul(a, b):
                    left = yield from call(self._limits(a))
                    found = left | (yield from call(self._limits(b)))
                case Access():
                    x = variable(e)
                    if x in self.cuts and len(places(e)) == len(self.cuts[x].axes):
                        found = frozenset(self.cuts[x].limits_at(places(e)))
                case _:
                    pass
            self.memo[e] = found
        return self.memo[e]

    def _comparisons(self, p: Predicate) -> Limits:
        found = set(_of_indices(p))
        for a in (q.difference for q in conjuncts(p) if isinstance(q, Equal)):
            for lookup in a.lookups:
                c = a.coefficient(lookup)
                if lookup.array in self.chosen and abs(c) == 1:
                    # a chosen place satisfies the predicate of the choice
                    binders, choice = self.chosen[lookup.array]
                    value = (a - atom_affine(lookup) * c) * -c
                    at: dict[Atom, Affine] = dict(zip(binders, lookup.at, strict=True))
                    found |= _of_indices(substitute(choice.pred, {**at, choice.index: value}))
        return frozenset(found)


def _of_indices(p: Predicate) -> set[NonNegative]:
    """The conjuncts of `p` that compare several indices, and no data."""
    parts = (q for q in conjuncts(p) if isinstance(q, NonNegative))
    return {q for q in parts if len(q.value.indices) > 1 and not q.value.lookups}


def _cut(binders: Mapping[Index, Affine], limits: Limits) -> Cut | None:
    """How an array with these indices and limits may be cut; None if it is a band, or only cut off at corners."""
    own = [q for q in limits if all(i in binders and is_long(binders[i]) for i in q.value.indices)]
    if any(not (p.value + q.value).indices for p in own for q in own):
        return None
    row = next((i for i in binders if any(q.value.coefficient(i) for q in own)), None)
    if row is None:
        return None
    limiting = [q for q in own if q.value.coefficient(row)]
    return Cut(tuple(binders), row, tuple(sorted(limiting, key=str) if len(limiting) > 1 else limiting))


@dataclass(frozen=True, eq=False)
class _Reduced:
    """Nested sums, an extremum or a choice, taken apart: the indices, the limits, and the body."""

    indices: tuple[Index, ...]
    limits: Limits
    body: Expr
    is_sum: bool

    def goes_along(self, cut: Cut, read: Expr) -> bool:
        """Whether the blocks of a cut array hold all of it that is read here."""
        at = places(read)
        plain = {a.indices[0] for a in at if a.indices and a is atom_affine(a.indices[0])}
        if len(plain) < len(at) or (not self.is_sum and at[cut.dimension].indices[0] in self.indices):
            return False
        return self.limits.issuperset(cut.limits_at(at)) or (self.is_sum and read in factors(self.body))


def _misread(made: Cuts, own: Cut | None, e: Expr) -> set[Var]:
    """The arrays that a statement, cut itself perhaps, reads in a way that does not go along with their blocks.

    Notes in `made` how much work it is to read the others.
    """
    sizes: dict[Index, Affine] = {}
    rows: dict[_Reduced, Affine] = {}
    found: set[Var] = set()
    seen: set[tuple[Expr, _Reduced | None]] = set()
    stack: list[tuple[Expr, _Reduced | None]] = [(e, None)]
    while stack:
        item = stack.pop()
        if item in seen:
            continue
        seen.add(item)
        part, within = item
        x = variable(part)
        if x is not None:
            cut = made.arrays.get(x)
            if cut is None:
                continue
            row = places(part)[cut.dimension] if len(places(part)) == len(cut.axes) else None
            along = row is not None and (own is None or row is atom_affine(own.row))
            along = along and (own is not None if within is None else within.goes_along(cut, part))
            if row is None or not along or (within is not None and rows.setdefault(within, row) is not row):
                found.add(x)
            elif within is not None:
                here = {i for a in places(part) for i in a.indices}
                others = {i for y in accesses(within.body) for a in places(y) for i in a.indices if i not in here}
                made.note(sizes[row.indices[0]], [n for i, n in sizes.items() if i in others])
        elif isinstance(part, Sum | Extremum | Choice):
            reduced = _reduced(part, sizes)
            if own is not None and reduced.is_sum:
                limited = {i for q in reduced.limits for i in q.value.indices}
                made.note(sizes[own.row], [sizes[i] for i in reduced.indices if i not in limited])
            stack.append((reduced.body, reduced))
        else:
            if isinstance(part, Gen):
                sizes[part.index] = part.size
            stack += [(child, within) for child in children(part)]
    return found


def _reduced(e: Sum | Extremum | Choice, sizes: dict[Index, Affine]) -> _Reduced:
    sizes[e.index] = e.size
    if not isinstance(e, Sum):
        return _Reduced((e.index,), frozenset(_of_indices(e.pred)), e.body, False)
    indices: list[Index] = []
    limits: set[NonNegative] = set()
    body: Expr = e
    while isinstance(body, Sum | Bracket):
        if isinstance(body, Sum):
            indices.append(body.index)
            sizes[body.index] = body.size
        else:
            limits |= _of_indices(body.pred)
        body = body.body
    return _Reduced(tuple(indices), frozenset(limits), body, True)
