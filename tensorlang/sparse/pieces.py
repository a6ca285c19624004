"""The support of an array as pieces, each a box of points with the places of its elements.

    gen i, j. [j = i]*u[i] - [j = a[i]]*v[i]   ->   u[i] at (i, i);  -v[i] at (i, a[i])

An output is split through views, which only move elements, and through additions whose terms each have fewer axes of
symbolic size than the sum. The resulting pieces have as many elements as the support has points.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from math import prod

from tensorlang.language.affine import Affine, Atom, Index, IndexArray, atom_affine, constant
from tensorlang.language.function import Function
from tensorlang.language.predicates import (
    FALSE,
    TRUE,
    NonNegative,
    Predicate,
    conjunction,
    conjuncts,
    equal,
    lookups,
    substitute,
)
from tensorlang.normal import normal_ssa
from tensorlang.normal.contraction import contraction, is_zero, only_moves
from tensorlang.normal.pattern import axes, renamed
from tensorlang.normal.ssa import (
    SSA,
    Addend,
    Addition,
    Constant,
    Contraction,
    Statement,
    factor_indices,
    inner_ranges,
    output_list,
    own_indices,
)
from tensorlang.normal.tidy import addition
from tensorlang.sets.isl import is_empty
from tensorlang.sets.solve import Ranges, in_range, ranges_predicate, simplify_in, solve
from tensorlang.simplification import simplify_ssa
from tensorlang.simplification.supports import alternatives

_MOST_DIAGONALS = 9


def structure(f: Function) -> tuple[tuple[SparsePiece, ...], ...]:
    """For each array that `f` gives, from left to right, the pieces of which it consists: elsewhere it is 0.

    Equations in the conditions determine the places, so a diagonal of a matrix is a piece with one axis. This holds for
    all sizes and data.

    >>> import tensorlang as tl
    >>> f = tl.parse("f(x: [n + 1]R) = gen i:n. (x[i + 1] - x[i])^2")
    >>> for piece in tl.structure(tl.jacobian(f))[0]:
    ...     print(piece)
    (k, k) for k:n
    (k, k + 1) for k:n
    """
    return pieces_of(simplify_ssa(normal_ssa(f)))


def pieces_of(s: SSA) -> tuple[tuple[SparsePiece, ...], ...]:
    """The pieces of each output of `s`."""
    return tuple(tuple(_pieces(x)) for x in output_list(s.outputs))


@dataclass(frozen=True)
class SparsePiece:
    """Elements of an array: at the places `at`, for each point of the box of `axes` where `pred` holds, `number` times
    the element of a statement at `read`. Elements of several pieces at the same place are added up.

    >>> f = tl.parse("f(x: [n]R, k: [m]idx(n)) = gen i:m. 3 * x[k[i]]")
    >>> ((piece,),) = tl.structure(tl.jacobian(f))
    >>> print(piece, set(piece.looked_up))
    (i, k[i]) for i:m {k}
    >>> print(piece.elements)
    gen i:m. 3
    """

    axes: Ranges
    at: tuple[Affine, ...]
    pred: Predicate
    number: Fraction
    values: Statement
    read: tuple[Affine, ...]

    def __str__(self) -> str:
        box = ", ".join(f"{i}:{n}" for i, n in self.axes.items())
        where = "" if self.pred is TRUE else f" where {self.pred}"
        return f"({', '.join(map(str, self.at))}) for {box or 'one element'}{where}"

    @property
    def looked_up(self) -> frozenset[IndexArray]:
        """The index arrays that determine the places of its elements."""
        found: set[IndexArray] = set()
        stack = [x for a in self.at for x in a.lookups] + list(lookups(self.pred))
        while stack:
            x = stack.pop()
            found.add(x.array)
            stack += (y for a in x.at for y in a.lookups)
        return frozenset(found)

    @property
    def elements(self) -> Statement:
        """The elements along the axes; 0 where there is none."""
        own = tuple(self.axes)
        at = tuple(Index(i.name) for i in own_indices(self.values))
        places = (equal(atom_affine(i), a) for i, a in zip(at, self.read, strict=True))
        shape = tuple(self.axes.values())
        factors: list[tuple[Statement, tuple[Index, ...]]] = [(self.values, at)]
        if self.number != 1:
            factors.insert(0, (Constant(self.number, ()), ()))
        return contraction(shape, own, factors, {}, conjunction([self.pred, *places]))


def _pieces(x: Statement) -> Iterator[SparsePiece]:
    own = {Index(i.name): n for i, n in zip(own_indices(x), x.shape, strict=True)}
    here = tuple(map(atom_affine, own))
    yield from _joined(list(_taken_apart(SparsePiece(own, here, TRUE, Fraction(1), x, here))))


def _shortened(p: SparsePiece) -> SparsePiece:
    """`p` with each axis restricted to the points that its condition leaves, if these are a range."""
    for i, n in p.axes.items():
        alone = [q for q in conjuncts(p.pred) if isinstance(q, NonNegative) and q.value.indices == (i,)]
        bounds = [q for q in alone if not q.value.lookups]
        starts = [atom_affine(i) - q.value for q in bounds if q.value.coefficient(i) == 1]
        stops = [q.value + atom_affine(i) + 1 for q in bounds if q.value.coefficient(i) == -1]
        if len(starts) > 1 or len(stops) > 1 or len(bounds) > len(starts) + len(stops) or not bounds:
            continue
        start, stop = (*starts, constant(0))[0], (*stops, n)[0]
        if not all(map(_is_never_negative, (start, n - stop, stop - start))):
            continue
        new = Index(i.name)
        there: dict[Atom, Affine] = {i: atom_affine(new) + start}
        left = {new if j is i else j: stop - start if j is i else m for j, m in p.axes.items()}
        at, read = (tuple(a.substitute(there) for a in those) for those in (p.at, p.read))
        pred = conjunction(substitute(q, there) for q in conjuncts(p.pred) if q not in bounds)
        return _shortened(replace(p, axes=left, at=at, pred=simplify_in(pred, left), read=read))
    return p


def _in_order(p: SparsePiece) -> SparsePiece:
    """`p` with its axes in the order in which they occur in its places."""
    places = [i for a in p.at for i in a.free if i in p.axes]
    return replace(p, axes={i: p.axes[i] for i in dict.fromkeys((*places, *p.axes)) if isinstance(i, Index)})


def _is_never_negative(a: Affine) -> bool:
    """Whether `a`, which depends on sizes alone, is at least 0, as its signs show."""
    return not a.indices and not a.lookups and a.constant >= 0 and all(k > 0 for _, k in a.terms)


def _joined(pieces: Sequence[SparsePiece]) -> Iterator[SparsePiece]:
    """The pieces, with those at the same places merged."""
    groups: dict[object, list[SparsePiece]] = {}
    for p in map(_in_order, map(_shortened, pieces)):
        numbered = axes(0, len(p.axes))
        names: dict[Atom, Affine] = {i: atom_affine(j) for i, j in zip(p.axes, numbered, strict=True)}
        at = tuple(a.substitute(names) for a in p.at)
        groups.setdefault((tuple(p.axes.values()), at, substitute(p.pred, names)), []).append(p)
    for same in groups.values():
        first = same[0]
        if len(same) == 1:
            yield first
            continue
        shape, here = tuple(first.axes.values()), tuple(map(atom_affine, first.axes))
        total = addition([Addend(1, TRUE, p.elements) for p in same], shape)
        yield replace(first, number=Fraction(1), values=total, read=here)


def _taken_apart(p: SparsePiece) -> Iterator[SparsePiece]:
    """The pieces of `p`, split through views and through additions whose terms each have fewer axes than the sum; a
    band is split diagonal by diagonal."""
    x = p.values
    if is_zero(x) or p.pred is FALSE:
        return
    if isinstance(x, Contraction) and len(x.factors) - sum(isinstance(y, Constant) for y in x.factors[:-1]) == 1:
        part = _through(p, x)
        if only_moves(x) or _rank(part) < _rank(p):
            yield from _taken_apart(part)
            return
    if isinstance(x, Addition):
        parts = list(_terms(p, x))
        if all(_rank(part) < _rank(p) for part in parts):
            yield from parts
            return
    diagonals = _diagonals(p)
    if diagonals:
        for part in diagonals:
            yield from _taken_apart(part)
    else:
        yield p


def _terms(p: SparsePiece, x: Addition) -> Iterator[SparsePiece]:
    """A piece for each term of `x` and each alternative of its condition."""
    for t in x.terms:
        for pred in _apart(conjunction([p.pred, _at(t.pred, own_indices(x), p.read)]), p.axes):
            part = replace(p, pred=pred, number=p.number * t.sign, values=t.operand)
            yield from _taken_apart(_without_determined(part, p.axes, {}))


def _apart(p: Predicate, ranges: Ranges) -> list[Predicate]:
    """Disjoint predicates whose union is `p`."""
    parts = alternatives(p)
    if len(parts) == 1:
        return [p]
    around = ranges_predicate(ranges)
    if not all(is_empty(conjunction([a, b]), around) for a, b in combinations(parts, 2)):
        return [p]
    return [q for part in parts for q in _apart(simplify_in(part, ranges), ranges) if q is not FALSE]


def _diagonals(p: SparsePiece) -> list[SparsePiece]:
    """`p` for each value of a short axis that selects the diagonal of its elements; empty if there is no such axis."""
    for i, n in p.axes.items():
        if n.is_constant and n.constant <= _MOST_DIAGONALS and any(len(a.indices) > 1 and i in a.indices for a in p.at):
            rest = {j: m for j, m in p.axes.items() if j is not i}
            found = []
            for k in range(n.constant):
                value: dict[Atom, Affine] = {i: constant(k)}
                at, read = (tuple(a.substitute(value) for a in those) for those in (p.at, p.read))
                found.append(replace(p, axes=rest, at=at, pred=simplify_in(substitute(p.pred, value), rest), read=read))
            return [part for part in found if part.pred is not FALSE]
    return []


def _rank(p: SparsePiece) -> int:
    """The number of axes of `p` with a symbolic size."""
    return sum(1 for n in p.axes.values() if not n.is_constant)


def _at(p: Predicate, own: tuple[Index, ...], at: Sequence[Affine]) -> Predicate:
    """`p` at these places of its indices."""
    return substitute(p, dict(zip(own, at, strict=True)))


def _through(p: SparsePiece, x: Contraction) -> SparsePiece:
    """`p`, a piece of the view or sum `x` of one statement, perhaps times a number, as a piece of that statement."""
    old = tuple(inner_ranges(x))
    fresh = tuple(Index(i.name) for i in old)
    inner = dict(zip(fresh, inner_ranges(x).values(), strict=True))
    pred = _at(renamed(x.pred, old, fresh), own_indices(x), p.read)
    read = tuple(atom_affine(fresh[old.index(i)]) for i in factor_indices(x)[-1])
    number = prod((y.value for y in x.factors[:-1] if isinstance(y, Constant)), start=p.number)
    made = SparsePiece(p.axes, p.at, conjunction([p.pred, pred]), number, x.factors[-1], read)
    made = _without_determined(made, p.axes, inner)  # prefer the axes of the view to those of the statement behind it
    return _without_determined(made, made.axes, {})


def _without_determined(p: SparsePiece, unknown: Ranges, known: Ranges) -> SparsePiece:
    """`p` over the axes `known` and those of the axes `unknown` that no equality determines."""
    found = solve(p.pred, unknown, known)
    values: dict[Atom, Affine] = dict(found.values)
    inside = [in_range(found.values[i], n, {**unknown, **known}) for i, n in unknown.items() if i in values]
    left = {i: n for i, n in {**known, **unknown}.items() if i not in values}
    return SparsePiece(
        left,
        tuple(a.substitute(values) for a in p.at),
        simplify_in(conjunction([substitute(found.rest, values), *inside]), left),
        p.number,
        p.values,
        tuple(a.substitute(values) for a in p.read),
    )
