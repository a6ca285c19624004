"""The bounds check: no access leaves its array, for all sizes, wherever the brackets around it are true.

What is left to prove of an access goes outward from it through the program. On its way it collects the ranges of
the binders and the brackets that it passes, until it is proved; most are by the time that their indices are bound.
An expression that occurs in many places is looked at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from tensorlang.errors import LimitError, OutOfBounds
from tensorlang.language.affine import Affine, Atom, Index, Size, atom_affine, constant, render
from tensorlang.language.function import Function, taken_names, unused_name
from tensorlang.language.grammar import Access, Bracket, Expr, Gen, Proj, Sum, Var, children
from tensorlang.language.predicates import (
    FALSE,
    TRUE,
    NonNegative,
    Predicate,
    at_most,
    conjunction,
    conjuncts,
    free_atoms,
    less,
    substitute,
    within,
)
from tensorlang.language.types import Array
from tensorlang.sets.isl import is_empty, obvious, sample
from tensorlang.sets.scopes import check_scopes, declared_sizes, postorder

_CONTEXTS = 100
_NAMED = 8


@dataclass(frozen=True, eq=False)
class _Claim:
    """`needs` is what is not yet proved of `access` from `conditions`, which hold around it out to some place.

    `binders` are those passed on the way, the innermost first; the indices of `open` are still to be bound.
    """

    access: Access
    at: Affine
    needs: tuple[Predicate, ...]
    conditions: tuple[Predicate, ...] = ()
    binders: tuple[tuple[Index, Affine], ...] = ()
    open: frozenset[Index] = frozenset()

    def under(self, p: Predicate) -> _Claim:
        """The claim with one more condition around it."""
        indices = _indices(p)
        claim = self._apart(indices)
        parts = tuple(q for q in conjuncts(p) if q not in claim.conditions)
        needs = tuple(q for q in claim.needs if not obvious(parts, q))
        return replace(claim, needs=needs, conditions=claim.conditions + parts, open=claim.open | indices)

    def bound(self, index: Index, size: Affine) -> _Claim:
        """The claim with one more binder around it."""
        closes = index in self.open
        claim = self.under(within(atom_affine(index), size))
        claim = replace(claim, binders=(*claim.binders, (index, size)), open=claim.open - {index})
        return claim.proved() if claim.needs and closes and not claim.open else claim

    def proved(self) -> _Claim:
        """The claim without those needs that its conditions prove, the ranges of its binders first."""
        sizes = dict(self.binders)
        needs = tuple(q for q in self.needs if not obvious((), _in_the_corner(q, sizes)))
        if not needs:
            return replace(self, needs=needs)
        near = _connected(self.conditions, needs)
        needs = tuple(q for q in needs if not is_empty(_failure(q), near))
        if needs and (every := self.surroundings()) is not near:
            needs = tuple(q for q in needs if not is_empty(_failure(q), every))
        return replace(self, needs=needs)

    def surroundings(self) -> Predicate:
        """All conditions, with 0 <= i < n replaced by n >= 1 for each index i that nothing else speaks of."""
        ranges = {p: i for i, n in self.binders for p in conjuncts(within(atom_affine(i), n))}
        needed = {i for p in (*self.needs, *self.conditions) if p not in ranges for i in _indices(p)}
        present = [less(constant(0), n) for i, n in self.binders if i not in needed]
        return conjunction([*(p for p in self.conditions if p not in ranges or ranges[p] in needed), *present])

    def _apart(self, indices: set[Index]) -> _Claim:
        """The claim with its own bound indices renamed that are among `indices`, bound further out."""
        clash: dict[Atom, Affine] = {i: atom_affine(Index(i.name)) for i, _ in self.binders if i in indices}
        if not clash:
            return self
        return replace(
            self,
            at=self.at.substitute(clash),
            needs=tuple(substitute(q, clash) for q in self.needs),
            conditions=tuple(substitute(q, clash) for q in self.conditions),
            binders=tuple((clash[i].indices[0] if i in clash else i, n) for i, n in self.binders),
        )


_Claims = _Claim | tuple["_Claims", ...]
"""Claims in nested tuples, so that joining two collections takes no time and shared ones stay shared."""


def check(f: Function) -> Function:
    """`f`, if everything in it is bound where it is used and no access can leave its array.

    Raises `ScopeError`; `OutOfBounds` with sizes and indices at which an access does leave its array, all brackets
    around it being true; `LimitError` if the brackets around an access are too involved to decide.
    """
    check_scopes(f)
    facts = tuple(
        q for size in declared_sizes(f) if (q := at_most(constant(0), size)) is not TRUE and not obvious((), q)
    )
    claims: dict[Expr, _Claims] = {}
    for e in postorder(f.body):
        below = _joined([claims[child] for child in children(e)])
        match e:
            case Access():
                claims[e] = _joined([below, *_claim(e)])
            case Gen(index, size, _) | Sum(index, size, _):
                claims[e] = _fewest(claim.bound(index, size) for claim in _each(below))
            case Bracket(p, _):
                claims[e] = () if p is FALSE else _fewest(claim.under(p) for claim in _each(below))
            case _:
                claims[e] = below
    for claim in _each(claims[f.body]):
        left = claim.under(conjunction(facts)).proved()
        if left.needs:
            raise _out_of_bounds(f, left)
    return f


def _claim(e: Access) -> Iterator[_Claim]:
    needs = tuple(q for q in conjuncts(within(e.at, _array(e).size)) if not obvious((), q))
    if needs:
        yield _Claim(e, e.at, needs, open=frozenset(e.at.indices))


def _joined(parts: list[_Claims]) -> _Claims:
    found = tuple({id(part): part for part in parts if part != ()}.values())
    return found[0] if len(found) == 1 else found


def _each(claims: _Claims) -> Iterator[_Claim]:
    """Each of `claims` once, in order."""
    seen: set[int] = set()
    stack = [claims]
    while stack:
        part = stack.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, _Claim):
            yield part
        else:
            stack += reversed(part)


def _fewest(claims: Iterable[_Claim]) -> _Claims:
    """What is left to prove of `claims`: of those with the same needs, the ones with the fewest conditions."""
    groups: dict[tuple[Predicate, ...], list[tuple[frozenset[Predicate], _Claim]]] = {}
    for claim in claims:
        if not claim.needs:
            continue
        group = groups.setdefault(claim.needs, [])
        conditions = frozenset(claim.conditions)
        if any(weaker <= conditions for weaker, _ in group):
            continue
        group[:] = [(other, c) for other, c in group if not conditions <= other]
        group.append((conditions, claim))
        if len(group) > _CONTEXTS:
            raise _undecided(claim)
    return tuple(claim for group in groups.values() for _, claim in group)


def _failure(need: Predicate) -> Predicate:
    """Where `need` does not hold."""
    return at_most(need.value, constant(-1)) if isinstance(need, NonNegative) else TRUE


def _in_the_corner(need: Predicate, sizes: Mapping[Index, Affine]) -> Predicate:
    """`need` where each index has that end of its range which makes `need` say most: it implies `need`."""
    if not isinstance(need, NonNegative):
        return need
    ends: dict[Atom, Affine] = {
        i: constant(0) if k > 0 else sizes[i] - 1 for i, k in need.value.terms if isinstance(i, Index) and i in sizes
    }
    return at_most(constant(0), need.value.substitute(ends))


def _indices(p: Predicate) -> set[Index]:
    return {a for a in free_atoms(p) if isinstance(a, Index)}


def _connected(conditions: Iterable[Predicate], needs: Iterable[Predicate]) -> Predicate:
    """Those of `conditions` that speak of sizes alone, or of indices that `needs` are about, perhaps through others."""
    mentions: dict[Index, list[Predicate]] = {}
    kept: dict[Predicate, None] = {}
    for p in conditions:
        indices = _indices(p)
        if not indices:
            kept[p] = None
        for i in indices:
            mentions.setdefault(i, []).append(p)
    stack = [i for q in needs for i in _indices(q)]
    while stack:
        for p in mentions.pop(stack.pop(), ()):
            if p not in kept:
                kept[p] = None
                stack += _indices(p)
    return conjunction(kept)


def _out_of_bounds(f: Function, claim: _Claim) -> OutOfBounds | LimitError:
    """The error that `claim` ends in: its needs fail somewhere, and its conditions go out to the whole of `f`."""
    around = claim.surroundings()
    points = [point for q in claim.needs if (point := sample(conjunction([around, _failure(q)]))) is not None]
    if not points:
        return _undecided(claim)
    point = min(points, key=lambda p: sum(k for a, k in p.items() if isinstance(a, Size)))
    atoms: list[Atom] = [*(i for i, _ in reversed(claim.binders)), *f.sizes]
    # a size that no condition mentions may have any value
    values = {a: point.get(a, 1 if isinstance(a, Size) else 0) for a in atoms}
    names = _names(f, atoms)
    size = _array(claim.access).size
    told = [a for a in atoms if len(atoms) <= _NAMED or a in claim.at.atoms or a in size.atoms]
    where = ", ".join(f"{names[a]} = {values[a]}" for a in told)

    def written(a: Affine) -> str:
        return render(a, lambda atom: names.get(atom, atom.name))

    def valued(a: Affine) -> str:
        return str(a.value(values)) if all(atom in values for atom in a.atoms) else ".."

    access = Access(claim.access.body, claim.at, None)
    count = f"{size} = {valued(size)} elements" if size.terms else f"{size} element{'s' * (size.constant != 1)}"
    return OutOfBounds(
        f"{_described(access, written)} reads {_described(access, valued)}{' at ' * bool(where)}{where}, "
        f"but {_described(access.body, valued)} has {count}",
        claim.access.place,
        _hint(claim, written),
        {names[a]: values[a] for a in atoms},
    )


def _names(f: Function, atoms: list[Atom]) -> dict[Atom, str]:
    """Names for `atoms`, no two the same; of two indices called i the inner one, which comes later, keeps its name."""
    taken = taken_names(f)
    names: dict[Atom, str] = {}
    for atom in reversed(atoms):
        names[atom] = atom.name if isinstance(atom, Size) else unused_name(atom.name, taken)
        taken.add(names[atom])
    return names


def _hint(claim: _Claim, written: Callable[[Affine], str]) -> str | None:
    size = _array(claim.access).size
    low, high = (q is not FALSE and q in claim.needs for q in (at_most(constant(0), claim.at), less(claim.at, size)))
    if not (low or high):
        return None
    guard = f"{'0 <= ' * low}{written(claim.at)}{f' < {size}' * high}"
    return f"a bracket hides it there: [{guard}] * {_described(claim.access, written)}"


def _array(e: Access) -> Array:
    assert isinstance(e.body.type, Array)
    return e.body.type


def _described(e: Expr, index: Callable[[Affine], str]) -> str:
    """`e` in short: a variable with its accesses and projections, anything else as dots."""
    around: list[Access | Proj] = []
    while isinstance(e, Access | Proj) and len(around) < _NAMED:
        around.append(e)
        e = e.body
    text = e.name if isinstance(e, Var) else "(..)"
    for node in reversed(around):
        if isinstance(node, Proj):
            text = f"{'snd' if node.which else 'fst'}({text})"
        else:
            text = f"{text[:-1]}, " if text.endswith("]") else f"{text}["
            text += f"{index(node.at)}]"
    return text


def _undecided(claim: _Claim) -> LimitError:
    shown = _described(claim.access, str)
    message = f"the brackets and binders around {shown} are too involved to prove that it stays in its array"
    return LimitError(message, claim.access.place, "simpler brackets, or fewer of them, around this access")
