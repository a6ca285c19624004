"""What an expression depends on: its free indices, and whether all that it reads has the same ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from tensorlang.errors import NormalFormError
from tensorlang.language.affine import Affine, Atom, Index, IndexArray, atom_affine, constant
from tensorlang.language.grammar import (
    Access,
    Bracket,
    Call,
    Choice,
    Compared,
    Expr,
    Extremum,
    Gen,
    MakePair,
    Mul,
    Proj,
    Sum,
    Var,
    children,
)
from tensorlang.language.predicates import (
    Equal,
    NonNegative,
    Predicate,
    Relation,
    conjunction,
    equal,
    free_atoms,
    lookups,
)
from tensorlang.recursion import Deep, call, run
from tensorlang.sets.solve import determines

Free = frozenset[Index]

Key = tuple[Var | Relation | IndexArray, tuple[int, ...]]
"""An array: a variable, or the part of one that is a pair."""
_NONE: Free = frozenset()
_KINDS = 6


@dataclass
class FreeIndices:
    """Memoised free_indices of the expressions of a statement.

    The profile of an expression is the set of its leaves' free indices, a leaf being an access, a predicate or a sum;
    beyond a few, they are merged.
    """

    found: dict[Expr, frozenset[Free]] = field(default_factory=dict)

    def leaves(self, e: Expr) -> frozenset[Free]:
        """The sets of indices on which the leaves of `e` depend."""
        return run(self._leaves(e))

    def free(self, e: Expr, env: Mapping[Atom, Affine]) -> Free:
        """The indices on which `e` depends once those in `env` are replaced by their values."""
        return through(frozenset().union(*self.leaves(e)), env)

    def is_uniform(self, e: Expr, env: Mapping[Atom, Affine]) -> bool:
        """Whether all leaves depend on the same indices, so that no axis of one is missing in another."""
        return len({through(leaf, env) for leaf in self.leaves(e)} - {_NONE}) <= 1

    def _leaves(self, e: Expr) -> Deep[frozenset[Free]]:
        if e not in self.found:
            self.found[e] = yield from call(self._compute(e))
        return self.found[e]

    def _compute(self, e: Expr) -> Deep[frozenset[Free]]:
        if isinstance(e, Access):
            return frozenset({read_indices(e)})
        if isinstance(e, Sum):
            inner = yield from call(self._leaves(e.body))
            return frozenset({frozenset().union(*inner) - {e.index}})
        if isinstance(e, Extremum | Choice):
            inner = yield from call(self._leaves(e.body))
            guards = (a for a in free_atoms(e.pred) if isinstance(a, Index))
            return frozenset({frozenset(guards).union(*inner) - {e.index}})
        found: set[Free] = set()
        if isinstance(e, Bracket):
            found.add(frozenset(a for a in free_atoms(e.pred) if isinstance(a, Index)))
        for part in children(e):
            found |= yield from call(self._leaves(part))
        return frozenset(found) if len(found) <= _KINDS else _merged(found)


def _merged(found: set[Free]) -> frozenset[Free]:
    """Two sets in place of many: their union, and the smallest of them."""
    return frozenset({frozenset().union(*found), min(found, key=len)})


def through(free: Iterable[Index], env: Mapping[Atom, Affine]) -> Free:
    """The indices that remain once those in `env` are replaced by their values."""
    return frozenset(j for i in free for j in (env[i].indices if i in env else (i,)))


def read_indices(e: Expr) -> Free:
    """The indices in the places of an access."""
    return frozenset(i for a in places(e) for i in a.indices)


def places(e: Expr) -> list[Affine]:
    """The places of an access, the outermost dimension first."""
    found: list[Affine] = []
    while True:
        kind = type(e)
        if kind is Access:
            found.append(e.at)  # type: ignore[union-attr]
        elif kind is not Proj:
            return found[::-1]
        e = e.body  # type: ignore[union-attr]


def variable(e: Expr) -> Var | None:
    """The variable that `e` is or reads."""
    while True:
        kind = type(e)
        if kind is Var:
            return e  # type: ignore[return-value]
        if kind is not Access and kind is not Proj:
            return None
        e = e.body  # type: ignore[union-attr]


def read_by(e: Expr) -> tuple[Key, tuple[Affine, ...]]:
    """The array that an access reads, and where. An array of pairs is a pair of arrays.

    Raises `NormalFormError` if `e` does not read a variable.
    """
    at: list[Affine] = []
    path: list[int] = []
    while not isinstance(e, Var):
        match e:
            case Access(a, place, _):
                at.append(place)
                e = a
            case Proj(which, a):
                path.append(which)
                e = a
            case _:
                raise NormalFormError("an access must be one of a variable or of a parameter's part")
    return (e, tuple(reversed(path))), tuple(reversed(at))


def are_apart(at: Sequence[Affine], indices: Collection[Index]) -> bool:
    """Whether no two values of `indices` give the same places, so that no element is read twice."""
    return determines(conjunction(equal(a, atom_affine(Index("at"))) for a in at), indices)


def read_both_ways(e: Expr) -> frozenset[Expr]:
    """The accesses in `e` of arrays that it reads at different last places: of x in x[i, j] + x[j, i]."""
    reads: dict[Expr | None, dict[Expr, Affine]] = {}
    for read in accesses(e):
        if len(at := places(read)) > 1:
            reads.setdefault(variable(read), {})[read] = at[-1]
    return frozenset(read for lasts in reads.values() if len(set(lasts.values())) > 1 for read in lasts)


def accesses(e: Expr) -> list[Expr]:
    """The accesses in `e` that are not within a sum."""
    found: list[Expr] = []
    seen, stack = {e}, [e]
    while stack:
        part = stack.pop()
        if isinstance(part, Access):
            found.append(part)
        elif not isinstance(part, Sum):
            fresh = [c for c in reversed(children(part)) if c not in seen]
            seen.update(fresh)
            stack += fresh
    return found


def reads(e: Expr) -> Iterator[Expr]:
    """All reads in `e` of variables and their elements."""
    seen, stack = {e}, [e]
    while stack:
        part = stack.pop()
        if variable(part) is not None:
            yield part
        else:
            fresh = [c for c in reversed(children(part)) if c not in seen]
            seen.update(fresh)
            stack += fresh


def occurring(e: Expr) -> set[Var | IndexArray]:
    """The variables and index arrays that occur in `e`."""
    found: set[Var | IndexArray] = set()
    seen: set[Expr] = {e}
    stack = [e]
    while stack:
        part = stack.pop()
        match part:
            case Var():
                found.add(part)
            case Access(_, at, _):
                found.update(x.array for x in at.lookups)
            case Bracket(p, _) | Extremum(_, _, _, p, _) | Choice(_, _, _, p, _):
                found.update(x.array for x in lookups(p))
            case _:
                pass
        fresh = [c for c in children(part) if c not in seen]
        seen.update(fresh)
        stack += fresh
    return found


def results(e: Expr) -> Iterator[Expr]:
    """The components of `e`, which may be a nest of pairs."""
    stack = [e]
    while stack:
        part = stack.pop()
        if isinstance(part, MakePair):
            stack += [part.first, part.second]
        else:
            yield part


def is_condition(e: Expr) -> bool:
    """Whether `e` is a comparison of values, for each value of some indices."""
    while isinstance(e, Gen | Bracket):
        e = e.body
    return isinstance(e, Compared)


def is_finite(e: Expr) -> bool:
    """Whether `e` has no scalar function, so that it is finite where what it reads is."""
    seen, stack = {e}, [e]
    while stack:
        part = stack.pop()
        if isinstance(part, Call):
            return False
        fresh = [c for c in children(part) if c not in seen]
        seen.update(fresh)
        stack += fresh
    return True


def is_costly(e: Expr, is_array: bool) -> bool:
    """Whether there is a sum or an extremum in `e`; or a function that is no power, if it is called for an array."""
    seen, stack = {e}, [e]
    while stack:
        part = stack.pop()
        calls = is_array and isinstance(part, Call) and part.function.exponent is None
        if calls or isinstance(part, Sum | Extremum | Choice):
            return True
        fresh = [c for c in children(part) if c not in seen]
        seen.update(fresh)
        stack += fresh
    return False


def is_number(e: Expr) -> bool:
    """Whether `e` reads nothing and has no scalar function, so that it is finite whatever the data."""
    return is_finite(e) and next(reads(e), None) is None


def factors(e: Expr, limit: int = 8) -> list[Expr]:
    """The factors of `e`, in order; a product of very many is not taken apart completely."""
    found = [e]
    k = 0
    while k < len(found):
        part = found[k]
        if isinstance(part, Mul) and len(found) < limit:
            found[k : k + 1] = [part.left, part.right]
        else:
            k += 1
    return found


def longer(a: Affine, b: Affine) -> Affine:
    """A size that is at least both where they are at least 0."""
    return a if (b - a).is_constant and (b - a).constant <= 0 else b if (b - a).is_constant else a + b


def telling(parts: Iterable[Predicate], summed: Collection[Index]) -> list[Predicate]:
    """`parts` without comparisons that follow from two others: j <= i and i <= k imply j <= k. The first to be left out
    are those whose set of indices occurs least often, and among them those of the most summed indices."""
    kept = list(dict.fromkeys(parts))
    compared = {q: frozenset(i for i in free_atoms(q) if isinstance(i, Index)) for q in kept}
    said = Counter(compared.values())
    for q in sorted(kept, key=lambda q: (said[compared[q]], -len(compared[q] & {*summed}))):
        others = [r for r in kept if r is not q and type(r) is type(q)]
        if any(_follows(q, a, b) for a, b in combinations(others, 2)):
            kept.remove(q)
    return kept


def _follows(q: Predicate, a: Predicate, b: Predicate) -> bool:
    """Whether `a` and `b` added up, or subtracted if they are equalities, imply `q`."""
    match q, a, b:
        case NonNegative(value), NonNegative(x), NonNegative(y):
            rest = value - x - y
            return rest.is_constant and rest.constant >= 0
        case Equal(value), Equal(x), Equal(y):
            return any(value - x * k - y * m == constant(0) for k in (1, -1) for m in (1, -1))
        case _:
            return False
