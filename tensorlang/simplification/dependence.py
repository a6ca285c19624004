"""How statements depend on their indices: through elements of index arrays, or on the index itself.

    X = gen i, j. [p[i] = p[j]] * exp(x[j] - c[p[i]])   depends on i through p[i], and on j through p[j] and j
    K = gen i. argmax s where p[s] = p[i]. x[s]         depends on i through p[i], as do statements that look K[i] up

Where the elements are equal, one index may replace the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Lookup, atom_affine, total
from tensorlang.language.predicates import Predicate, affines, equal
from tensorlang.normal.contraction import inner_solution
from tensorlang.normal.pattern import axes
from tensorlang.normal.ssa import (
    Contraction,
    Defining,
    Input,
    Integers,
    Statement,
    factor_indices,
    operands,
    own_indices,
    predicates,
)
from tensorlang.recursion import Deep, call, run

Through = frozenset[Atom]
"""Elements of index arrays at an index, or the index itself; empty for a statement that is the same at all of them."""


class Dependence:
    """How statements, and elements of the index arrays that some of them define, depend on their indices."""

    def __init__(self) -> None:
        self._defined: dict[IndexArray, Defining] = {}
        self._known: dict[tuple[Statement, int], Through] = {}

    def define(self, x: Statement) -> None:
        """Take note of `x`, which may define an array that statements after it look up."""
        if isinstance(x, Defining):
            self._defined[x.array] = x

    def is_same(self, x: Statement, i: Index, j: Index, known: Iterable[Predicate]) -> bool:
        """Whether `x` stays the same if `j` replaces its index `i`, by the `known` equalities."""
        return run(self._is_same(x, i, j, frozenset(known)))

    def atoms(self, x: Statement) -> tuple[Atom, ...]:
        """All atoms through which `x` depends on its indices, in order; elements of defined arrays are expanded."""
        found = run(self._atoms(x))
        return total((atom_affine(atom), 1) for atom in found).atoms

    def _atoms(self, x: Statement) -> Deep[set[Atom]]:
        found: set[Atom] = set()
        for k, i in enumerate(own_indices(x)):
            waiting = list((yield from call(self._through(x, k))))
            while waiting:
                atom = waiting.pop()
                if isinstance(atom, Lookup) and any(x.array in self._defined for x in atom_affine(atom).lookups):
                    waiting += yield from call(self._through_place(atom, i))
                else:
                    found.add(atom)
        return found

    def _is_same(self, x: Statement, i: Index, j: Index, known: frozenset[Predicate]) -> Deep[bool]:
        waiting = list((yield from call(self._through(x, own_indices(x).index(i)))))
        seen = set(waiting)
        while waiting:
            atom = waiting.pop()
            here = atom_affine(atom)
            if equal(here, here.substitute({i: atom_affine(j)})) in known:
                continue
            if not isinstance(atom, Lookup):
                return False
            # elements of an array are the same if its places are, or if all that it depends on there is
            further = yield from call(self._through_place(atom, i))
            waiting += further - seen
            seen |= further
        return True

    def _through_place(self, element: Lookup, i: Index) -> Deep[Through]:
        """How `element` depends on `i`: through its places, or as the statement that defines its array does on them."""
        x = self._defined.get(element.array)
        inner = axes(0, len(element.at))
        values: dict[Atom, Affine] = dict(zip(inner, element.at, strict=True))
        found: set[Atom] = set()
        for k, a in enumerate(element.at):
            if i in a.indices:
                through = (yield from call(self._through(x, k))) if x is not None else {inner[k]}
                found.update(atom for y in through for atom in _at(atom_affine(y).substitute(values), i))
        return frozenset(found)

    def _through(self, x: Statement, k: int) -> Deep[Through]:
        """How `x` depends on its own k-th index."""
        if (x, k) not in self._known:
            self._known[x, k] = yield from call(self._found(x, k))
        return self._known[x, k]

    def _found(self, x: Statement, k: int) -> Deep[Through]:
        i = own_indices(x)[k]
        found = {atom for p in predicates(x) for a in affines(p) for atom in _at(a, i)}
        match x:
            case Integers():
                found.update(_at(x.value, i))
            case Input():
                found.add(i)
            case Contraction():
                solved = inner_solution(x)
                found = {atom for a in affines(solved.rest) for atom in _at(a, i)}
                for y, places in zip(x.factors, factor_indices(x), strict=True):
                    at = [solved.values.get(j) or atom_affine(j) for j in places]
                    values: dict[Atom, Affine] = dict(zip(own_indices(y), at, strict=True))
                    for n, a in enumerate(at):
                        if i in a.indices:
                            through = yield from call(self._through(y, n))
                            found.update(atom for z in through for atom in _at(atom_affine(z).substitute(values), i))
            case _:
                for y in operands(x):
                    found.update((yield from call(self._through(y, k))))
        own = frozenset(own_indices(x))
        return frozenset(atom if own.issuperset(atom_affine(atom).indices) else i for atom in found)


def _at(a: Affine, i: Index) -> Iterator[Atom]:
    """The terms of `a` in which `i` occurs."""
    return (atom for atom in a.atoms if i in atom_affine(atom).indices)
