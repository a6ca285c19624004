"""Cells combined into few pieces, such that any sizes are in exactly one piece.

The pieces are the leaves of a decision tree over comparisons. Two branches are merged if the number on one of them is
right on the other as well: n >= 1 needs no piece of its own if the polynomial is 0 at n = 0.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import lcm, prod

from tensorlang.costs.counting import Cell, gathered
from tensorlang.costs.domains import place
from tensorlang.costs.polynomial import Polynomial, affine, number, total
from tensorlang.costs.quasi import Quotient, definitions, divisors, reduced, replaced, unrounded
from tensorlang.language.affine import Affine, Size, atom_affine, constant
from tensorlang.language.predicates import (
    FALSE,
    TRUE,
    Equal,
    NonNegative,
    Predicate,
    at_most,
    conjunction,
    conjuncts,
    disjunction,
    equal,
    less,
)
from tensorlang.sets.encode import TooHard
from tensorlang.sets.isl import forced_equalities, implies, is_empty, not_implied

_MOST_VISITS = 200
_MOST_PIECES = 24
_MOST_REMAINDERS = 400
_FEW = 12

_Open = tuple[tuple[Predicate, ...], Polynomial]
"""Comparisons, and a number that is added where they hold."""


def simplified(cells: Iterable[Cell], context: Predicate) -> tuple[Cell, ...]:
    """The cells, with conditions simplified in `context`, and those under the same condition added up."""
    found = gathered((_ordered(_simplified(p, context)), a) for p, a in cells)
    return _arranged((p, reduced(a)) for p, a in found)


def _simplified(p: Predicate, context: Predicate) -> Predicate:
    p = conjunction(unrounded(q) for q in conjuncts(p))
    around = known(context, p)
    return FALSE if is_empty(p, around) else conjunction(not_implied(conjuncts(p), around))


def known(context: Predicate, p: Predicate) -> Predicate:
    """The context and the definitions of the quotients in it and in `p`."""
    return conjunction([context, definitions(conjunction([context, p]))])


def pieces(cells: Sequence[Cell], context: Predicate) -> tuple[Cell, ...] | None:
    """The same number as cells of which at most one holds at each point of `context`; None if there are too many."""
    try:
        tree = _Planter().tree([(_comparisons(p), a) for p, a in cells], number(0), context)
    except TooHard:
        return None
    found = _arranged(_settled(p, a, context) for p, a in _leaves(tree, TRUE))
    return found if len(found) <= _MOST_PIECES else None


def are_apart(cells: Sequence[Cell], context: Predicate) -> bool:
    """Whether no two cells hold at once anywhere in `context`."""
    pairs = (conjunction([p, q]) for (p, _), (q, _) in combinations(cells, 2))
    return all(is_empty(both, known(context, both)) for both in pairs)


def are_everywhere(cells: Sequence[Cell], context: Predicate) -> bool:
    """Whether some cell holds everywhere in `context`; False if no proof is found."""
    either = disjunction(p for p, _ in cells)
    return implies(known(context, either), either)


def _arranged(cells: Iterable[Cell]) -> tuple[Cell, ...]:
    """The cells that are not 0 in a canonical order, the broadest first."""
    return tuple(sorted(((p, a) for p, a in cells if a), key=lambda cell: (*_breadth(cell[0]), _names(cell[0]))))


def _ordered(p: Predicate) -> Predicate:
    """A conjunction with its equalities first, and otherwise by name."""
    return conjunction(sorted(conjuncts(p), key=_names)) if p is not FALSE else p


def _names(p: Predicate) -> list[tuple[bool, str]]:
    parts = (q for q in conjuncts(p) if isinstance(q, Equal | NonNegative))
    return [(True, str(q.value)) if isinstance(q, NonNegative) else (False, str(q.difference)) for q in parts]


def vanishes(a: Polynomial, region: Predicate) -> bool:
    """Whether `a` is 0 in all of `region`, by its equalities, all remainders of the sizes, and all values of a size
    that has few; False if no proof is found."""
    a = _solved(a, conjunction([region, *_equalities(region, TRUE)]))
    if not a or is_empty(region, known(region, region)) or _is_zero_by_remainders(a, region):
        return True
    for x in a.unknowns:
        if isinstance(x, Size) and implies(known(region, region), less(atom_affine(x), constant(_FEW))):
            values = (equal(atom_affine(x), constant(value)) for value in range(_FEW))
            return all(vanishes(a, conjunction([region, value])) for value in values)
    return False


def _is_zero_by_remainders(a: Polynomial, region: Predicate) -> bool:
    moduli = moduli_of(a)
    if not moduli or prod(moduli.values()) > _MOST_REMAINDERS:
        return False
    for remainders in product(*map(range, moduli.values())):
        values = {x: atom_affine(x) * moduli[x] + r for x, r in zip(moduli, remainders, strict=True)}
        if rewritten(a, values) and not is_empty(_congruent(moduli, remainders), known(region, region)):
            return False
    return True


def moduli_of(*polynomials: Polynomial) -> dict[Size, int]:
    """For each size in quotients, a modulus whose remainder determines the remainders in all of them."""
    moduli: dict[Size, int] = {}
    for a in polynomials:
        for x in a.unknowns:
            if isinstance(x, Quotient):
                for size, divisor in divisors(atom_affine(x)).items():
                    moduli[size] = lcm(moduli.get(size, 1), divisor)
    return moduli


def _congruent(moduli: Mapping[Size, int], remainders: Sequence[int]) -> Predicate:
    """The condition that each size has its remainder."""
    return conjunction(
        equal(atom_affine(x), atom_affine(place(k)) * modulus + r)
        for k, ((x, modulus), r) in enumerate(zip(moduli.items(), remainders, strict=True))
    )


def _equalities(p: Predicate, context: Predicate) -> list[Predicate]:
    """The equalities that `p` implies in `context`."""
    return [equal(zero, constant(0)) for zero in forced_equalities(p, known(context, p))]


def _solved(a: Polynomial, p: Predicate) -> Polynomial:
    """`a` without sizes that the equalities of `p` determine."""
    zeros = [q.difference for q in conjuncts(p) if isinstance(q, Equal)]
    while zeros:
        zero = zeros.pop()
        sizes = [(x, k) for x, k in zero.terms if isinstance(x, Size) and abs(k) == 1]
        if sizes and not any(isinstance(x, Quotient) for x in zero.atoms):
            x, k = sizes[0]
            assert isinstance(x, Size)
            values = {x: atom_affine(x) - zero * k}
            a = rewritten(a, values)
            zeros = [replaced(other, values) for other in zeros]
    return a


def rewritten(a: Polynomial, values: Mapping[Size, Affine]) -> Polynomial:
    """`a` with sizes replaced by affine expressions, also in quotients."""
    changes = ((x, replaced(atom_affine(x), values)) for x in a.unknowns if isinstance(x, Size | Quotient))
    return a.substitute({x: affine(value) for x, value in changes})


def _settled(p: Predicate, a: Polynomial, context: Predicate) -> Cell:
    """A piece whose number is simplified by its condition: where n = 0, no n occurs in it."""
    ordered = [*reversed(conjuncts(_ordered(p))), *_equalities(p, context)]
    p = _ordered(conjunction(not_implied(ordered, known(context, p))))
    return p, reduced(_solved(a, p))


def _breadth(p: Predicate) -> tuple[int, int]:
    """A sort key that puts broad conditions first: equalities and upper bounds on sizes make a condition narrow."""
    parts = conjuncts(p)
    limits = [q for q in parts if isinstance(q, NonNegative) and all(k < 0 for _, k in q.value.terms)]
    return sum(isinstance(q, Equal) for q in parts), len(limits)


@dataclass(frozen=True)
class _Leaf:
    number: Polynomial


@dataclass(frozen=True)
class _Fork:
    question: Predicate
    yes: _Tree
    no: _Tree


_Tree = _Leaf | _Fork


def _leaves(tree: _Tree, path: Predicate) -> Iterator[Cell]:
    match tree:
        case _Leaf(a):
            yield path, a
        case _Fork(question, yes, no):
            yield from _leaves(yes, conjunction([path, question]))
            yield from _leaves(no, conjunction([path, _not(question)]))


def _comparisons(p: Predicate) -> tuple[Predicate, ...]:
    """`p` as comparisons a >= 0."""
    found: list[Predicate] = []
    for q in conjuncts(p):
        if isinstance(q, Equal):
            found += [at_most(constant(0), q.difference), at_most(q.difference, constant(0))]
        else:
            found.append(q)
    return tuple(found)


def _not(q: Predicate) -> Predicate:
    assert isinstance(q, NonNegative), "questions are comparisons a >= 0"
    return at_most(q.value, constant(-1))


class _Planter:
    """Builds trees, up to a fixed amount of work."""

    def __init__(self) -> None:
        self.visits = 0

    def tree(self, cells: list[_Open], sure: Polynomial, context: Predicate) -> _Tree:
        """The sum of `sure` and the cells that hold, within `context`. Raises `TooHard`."""
        self.visits += 1
        if self.visits > _MOST_VISITS:
            raise TooHard
        undecided: list[_Open] = []
        certain = [sure]
        for comparisons, a in cells:
            around = known(context, conjunction(comparisons))
            if is_empty(conjunction(comparisons), around):
                continue
            left = tuple(q for q in comparisons if not is_empty(_not(q), around))
            if left:
                undecided.append((left, a))
            else:
                certain.append(a)
        sure = total(certain)
        if not undecided:
            return _Leaf(sure)
        tally = Tally(q for comparisons, _ in undecided for q in comparisons)
        question = min(tally, key=lambda q: (-tally[q], _names(q)))
        if_yes, if_no = conjunction([context, question]), conjunction([context, _not(question)])
        yes, no = self.tree(undecided, sure, if_yes), self.tree(undecided, sure, if_no)
        if self.agree(yes, no, if_no):
            return yes
        if self.agree(no, yes, if_yes):
            return no
        return _Fork(question, yes, no)

    def agree(self, a: _Tree, b: _Tree, region: Predicate) -> bool:
        """Whether two trees have the same value everywhere in `region`."""
        self.visits += 1
        if self.visits > _MOST_VISITS:
            raise TooHard
        if is_empty(region, known(region, region)):
            return True
        if isinstance(a, _Leaf) and isinstance(b, _Leaf):
            return vanishes(a.number - b.number, region)
        if isinstance(a, _Leaf):
            a, b = b, a
        assert isinstance(a, _Fork)
        yes, no = conjunction([region, a.question]), conjunction([region, _not(a.question)])
        return self.agree(a.yes, b, yes) and self.agree(a.no, b, no)
