"""The errors of the bounds check: where an access leaves its array, or an extremum has no point, with a witness."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations

from tensorlang.errors import EmptyExtremum, LimitError, OutOfBounds, PythonLine
from tensorlang.language.affine import Affine, Atom, Index, Lookup, Size, atom_affine, constant, render
from tensorlang.language.function import Function, taken_names, unused_name
from tensorlang.language.grammar import Access, Choice, Expr, Extremum, Proj, Var
from tensorlang.language.predicates import FALSE, Predicate, at_most, conjunction, less, lookups, relations
from tensorlang.language.show import predicate_text
from tensorlang.language.types import BoundedIndex, shape
from tensorlang.sets.claims import Claim, failure
from tensorlang.sets.isl import sample

_NAMED = 8


def out_of_bounds(f: Function, claim: Claim) -> OutOfBounds | LimitError:
    """The error for an unproved `claim` that has reached the outside of `f`, with a witness if one is found."""
    point = _witness(claim, claim.surroundings())
    if point is None:
        return undecided(claim)
    told = _Told(f, claim, point)
    size = claim.size
    count = f"{size} = {told.valued(size)} elements" if size.terms else f"{size} element{'s' * (size.constant != 1)}"
    read = _as_access(claim)
    return OutOfBounds(
        f"{_described(read, told.written)} reads {_described(read, told.valued)}{told.where}, "
        f"but {_described(read.body, told.valued)} has {count}",
        read.place,
        _hint(claim, told.written),
        told.named,
    )


def empty_extremum(f: Function, claim: Claim) -> EmptyExtremum | None:
    """The error for an unproved `claim` about an extremum or a choice, with a witness for sizes of at least 1.

    None if data matter, or there is no such witness.
    """
    around = claim.surroundings()
    if any(relations(p) or lookups(p) for p in (around, *claim.needs)):
        return None
    point = _witness(claim, conjunction([around, *(at_most(constant(1), atom_affine(n)) for n in f.sizes)]))
    if point is None:
        return None
    told = _Told(f, claim, point)
    assert isinstance(claim.subject, Extremum | Choice)
    e = claim.subject
    return EmptyExtremum(
        f"{e.word} {e.index.name}:{e.size} where {predicate_text(e.pred)} is over no point{told.where}",
        None,
        "a bracket hides it there: [p] * e is 0, and e not evaluated, where p is false",
        told.named,
    )


def undecided(claim: Claim) -> LimitError:
    """The error for a claim that is too hard to prove."""
    read = _as_access(claim)
    shown = _described(read, str)
    message = f"the brackets and binders around {shown} are too involved to prove that it stays in its array"
    return LimitError(message, read.place, "simpler brackets, or fewer of them, around this access")


def _witness(claim: Claim, around: Predicate) -> dict[Atom, int] | None:
    """Values of indices, sizes and elements at which a need fails, with small sizes."""
    points = [sample(conjunction([around, failure(q)])) for q in claim.needs]
    found = [point for point in points if point is not None and _is_consistent(point)]
    return min(found, key=lambda p: sum(k for a, k in p.items() if isinstance(a, Size)), default=None)


def _is_consistent(point: Mapping[Atom, int]) -> bool:
    """Whether equal places of an array have equal elements."""
    elements = [a for a in point if isinstance(a, Lookup)]
    values: dict[Atom, int] = {i: 0 for x in elements for a in x.at for i in a.free}
    values.update(point)
    for x, y in combinations(elements, 2):
        if x.array is y.array and point[x] != point[y]:
            inner = (b for a in (*x.at, *y.at) for b in a.lookups)
            if all(b in point for b in inner) and [a.value(values) for a in x.at] == [a.value(values) for a in y.at]:
                return False
    return True


class _Told:
    """The values of a witness, and the names of indices, sizes and elements in messages."""

    def __init__(self, f: Function, claim: Claim, point: Mapping[Atom, int]) -> None:
        free: list[Atom] = [*(i for i, _ in reversed(claim.binders)), *f.sizes]
        self.names = _names(f, free)
        # a size that no condition mentions may have any value
        self.values: dict[Atom, int] = {a: point.get(a, 1 if isinstance(a, Size) else 0) for a in free}
        elements = [x for x in reversed(claim.at.lookups)]
        self.values.update((x, point.get(x, 0)) for x in elements)
        for x in elements:
            self.names[x] = x.array.name + (f"[{', '.join(map(self.written, x.at))}]" if x.at else "")
        self.named = {self.names[a]: self.values[a] for a in (*free, *elements)}
        told = [
            a
            for a in (*free, *elements)
            if not (isinstance(a, Index) and a.written)
            and (len(free) <= _NAMED or a in (*claim.at.free, *claim.at.lookups, *claim.size.atoms))
        ]
        where = ", ".join(f"{self.names[a]} = {self.values[a]}" for a in told)
        self.where = f" at {where}" if where else ""

    def written(self, a: Affine) -> str:
        """`a` as text."""
        text = render(a, lambda atom: self.names.get(atom, atom.name))
        return text[1:-1] if any(text == i.written for i in a.indices) else text

    def valued(self, a: Affine) -> str:
        """The value of `a`."""
        return str(a.value(self.values)) if all(atom in self.values for atom in a.atoms) else ".."


def _names(f: Function, atoms: list[Atom]) -> dict[Atom, str]:
    """Distinct names for `atoms`; of two indices called i the inner one, which comes later, keeps its name."""
    taken = taken_names(f)
    names: dict[Atom, str] = {}
    for atom in reversed(atoms):
        if isinstance(atom, Index) and atom.written:
            names[atom] = atom.written
            continue
        names[atom] = atom.name if isinstance(atom, Size) else unused_name(atom.name, taken)
        taken.add(names[atom])
    return names


def _hint(claim: Claim, written: Callable[[Affine], str]) -> str | None:
    ends = (at_most(constant(0), claim.at), less(claim.at, claim.size))
    low, high = (q is not FALSE and q in claim.needs for q in ends)
    if not (low or high):
        return None
    guard = f"{'0 <= ' * low}{written(claim.at)}{f' < {claim.size}' * high}"
    assert isinstance(claim.subject, Access)
    if isinstance(shape(claim.subject.type)[1], BoundedIndex):
        return f"a condition around it, or beside it, hides it there: {guard}"
    shown = f"({guard})" if isinstance(claim.subject.place, PythonLine) else f"[{guard}]"
    return f"a bracket hides it there: {shown} * {_described(_as_access(claim), written)}"


def _as_access(claim: Claim) -> Access:
    """The access that is out of bounds, with the claim's names for indices."""
    assert isinstance(claim.subject, Access)
    return Access(claim.subject.body, claim.at, claim.subject.place)


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
