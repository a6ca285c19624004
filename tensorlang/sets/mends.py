"""Mends: changes of the program that would keep an access in its array.

A mend is proposed only if it was tried, and the bounds check proves more of the changed program. In this order:

    another size         gen i:p. x[i]            a range over a size that no parameter has was meant to be n
    other places         A[j, i]                  two indices are swapped
    from the end         x[n - i]                 counted from the end, the first is x[n - i - 1]
    one length           x: [n]R, y: [m]R         x[i] * y[i] reads arrays of the same length
    a range              gen i:n. x[i + 1]        gen i:n - 1, which may take other ranges with it
    an array             gen i:n. x[i + 1]        x: [n + 1]R
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations, islice

from tensorlang.errors import LimitError, PythonLine, TensorlangError
from tensorlang.language.affine import Affine, Atom, Index, Size, atom_affine, constant
from tensorlang.language.function import Function, sizes_of
from tensorlang.language.grammar import (
    Access,
    Bracket,
    Choice,
    Compared,
    Expr,
    Extremum,
    Gen,
    Integer,
    Let,
    Recur,
    Sum,
    Var,
    access,
    bracket,
    children,
    real,
)
from tensorlang.language.predicates import at_most, less, substitute
from tensorlang.language.rebuilt import with_children
from tensorlang.language.types import R, Type, array, shape
from tensorlang.recursion import Deep, call, run
from tensorlang.sets.claims import Claim
from tensorlang.sets.scopes import postorder

Unproved = Callable[[Function], Iterator[Claim]]
_MOST_NODES = 1000
_MOST_MENDS = 3
_MOST_RANGES = 4


def mends(f: Function, claim: Claim, unproved: Unproved) -> list[str]:
    """Alternatives, the likeliest first, with which the access of `claim` would stay in its array.

    `unproved` returns the claims about a program that can't be proved. Empty for programs that are too long to try.
    """
    assert isinstance(claim.subject, Access)
    nodes = postorder(f.body)
    if len(nodes) > _MOST_NODES:
        return []
    return list(islice(_Mending(f, nodes, claim, unproved).all(), _MOST_MENDS))


@dataclass
class _Change:
    """A change of a program: affine expressions for sizes and indices, other ranges, types and accesses."""

    atoms: dict[Atom, Affine] = field(default_factory=dict)
    ranges: dict[Index, Affine] = field(default_factory=dict)
    types: dict[Var, Type] = field(default_factory=dict)
    accesses: dict[Expr, Expr] = field(default_factory=dict)

    def applied(self, f: Function) -> Function:
        """The changed program. Index arrays and relations keep their types."""
        variables: dict[Var, Var] = {}
        for p in f.variables:
            kind = self.types.get(p) or _with_sizes(p.type, self.atoms)
            if kind is not p.type:
                variables[p] = Var(p.name, kind)
        body = run(_rebuilt(f.body, self, variables, {}))
        return replace(f, params=tuple(variables.get(p, p) if isinstance(p, Var) else p for p in f.params), body=body)


def _rebuilt(e: Expr, change: _Change, variables: dict[Var, Var], memo: dict[Expr, Expr]) -> Deep[Expr]:
    if e in memo:
        return memo[e]
    source = change.accesses.get(e, e)
    parts: list[Expr] = []
    for child in children(source):
        parts.append((yield from call(_rebuilt(child, change, variables, memo))))
        if isinstance(source, Let) and isinstance(source.var, Var) and parts[0].type is not source.var.type:
            variables[source.var] = Var(source.var.name, parts[0].type)
        if isinstance(source, Recur) and len(parts) == 1 and parts[0].type is not source.state.type:
            variables[source.state] = Var(source.state.name, parts[0].type)
    new: Expr
    match source:
        case Var():
            new = variables.get(source, source)
        case Integer(value):
            new = real(value.substitute(change.atoms))
        case Gen(i, n, _):
            new = Gen(i, change.ranges.get(i, n).substitute(change.atoms), *parts)
        case Sum(i, n, _):
            new = Sum(i, change.ranges.get(i, n).substitute(change.atoms), *parts)
        case Extremum(sign, i, n, p, _):
            n = change.ranges.get(i, n).substitute(change.atoms)
            new = Extremum(sign, i, n, substitute(p, change.atoms), *parts)
        case Access(_, at, place):
            new = Access(parts[0], at.substitute(change.atoms), place)
        case Bracket(p, _):
            new = bracket(substitute(p, change.atoms), parts[0])
        case Recur(word, i, n, state, _, _):
            n = change.ranges.get(i, n).substitute(change.atoms)
            new = Recur(word, i, n, variables.get(state, state), *parts)
        case Let(Var() as x, _, _):
            new = Let(variables.get(x, x), *parts)
        case _:
            new = with_children(source, parts)
    memo[e] = new
    return new


def _with_sizes(kind: Type, atoms: Mapping[Atom, Affine]) -> Type:
    sizes, element = shape(kind)
    return array(tuple(a.substitute(atoms) for a in sizes), element)


class _Mending:
    def __init__(self, f: Function, nodes: list[Expr], claim: Claim, unproved: Unproved) -> None:
        assert isinstance(claim.subject, Access)
        self.f = f
        self.nodes = nodes
        self.claim = claim
        self.unproved = unproved
        self.python = isinstance(claim.subject.place, PythonLine)
        self.failing = self._failures(f) or 0
        self.ranges = dict(claim.binders)
        self.top, self.places = self._chain()
        self.root: Expr = self.top
        while isinstance(self.root, Access):
            self.root = self.root.body
        self.chooses = any(isinstance(e, Choice | Compared) for e in nodes)

    def all(self) -> Iterator[str]:
        """The mends, as text."""
        if self.chooses:
            return
        for likely in (self._another_size, self._swapped, self._from_end):
            if found := list(likely()):
                yield from found
                return
        one_length = list(self._one_length())
        yield from one_length
        yield from self._another_range()
        if not one_length:
            yield from self._longer()

    def _failures(self, f: Function) -> int | None:
        """The number of claims about `f` that can't be proved, up to 50; None if that can't be decided."""
        try:
            return sum(1 for _ in islice(self.unproved(f), 50))
        except LimitError:
            return None

    def _helps(self, change: _Change) -> bool:
        """Whether more can be proved about the changed program."""
        try:
            left = self._failures(change.applied(self.f))
        except TensorlangError:  # the changed parts don't fit the others
            return False
        return left is not None and left < self.failing

    def _chain(self) -> tuple[Access, list[Affine]]:
        """The whole access that contains the claim's, and the places that it reads."""
        assert isinstance(self.claim.subject, Access)
        top = self.claim.subject
        above = {e.body: e for e in reversed(self.nodes) if isinstance(e, Access)}
        while top in above:
            top = above[top]
        places: list[Affine] = []
        e: Expr = top
        while isinstance(e, Access):
            places.insert(0, e.at)
            e = e.body
        return top, places

    def _another_size(self) -> Iterator[str]:
        """A range over a size that no parameter has."""
        declared = dict.fromkeys(s for p in self.f.params for a in sizes_of(p) for s in a.sizes)
        for index in self.claim.at.indices:
            for size in self.ranges.get(index, constant(0)).sizes:
                if size in declared:
                    continue
                fits = [d for d in declared if self._helps(_Change(atoms={size: atom_affine(d)}))]
                if fits:
                    known = " or ".join(d.name for d in fits[:3])
                    yield f"no parameter has the size {size.name}: did you mean {known}?"

    def _swapped(self) -> Iterator[str]:
        """Two places of the access the other way round."""
        for first, second in combinations(range(len(self.places)), 2):
            at = list(self.places)
            at[first], at[second] = at[second], at[first]
            new = access(self.root, *at)
            if self.top.type is new.type and self._helps(_Change(accesses={self.top: new})):
                name = self.root.name if isinstance(self.root, Var) else "(..)"
                yield f"did you mean {name}[{', '.join(map(str, at))}]?"

    def _from_end(self) -> Iterator[str]:
        """The place one lower, where an index counts down from the end."""
        if not self._is_as_written() or not any(self.claim.at.coefficient(i) < 0 for i in self.claim.at.indices):
            return
        at = [place - 1 if place is self.claim.at else place for place in self.places]
        new = access(self.root, *at)
        if isinstance(self.root, Var) and self._helps(_Change(accesses={self.top: new})):
            yield f"did you mean {self.root.name}[{', '.join(map(str, at))}]? Elements count from 0"

    def _one_length(self) -> Iterator[str]:
        """One size for the array and the range."""
        size, at = self.claim.size, self.claim.at
        if len(at.indices) != 1 or at is not atom_affine(at.indices[0]) or at.indices[0] not in self.ranges:
            return
        wanted = self.ranges[at.indices[0]]
        declared = {s for p in self.f.params for a in sizes_of(p) for s in a.sizes}
        match size.terms, wanted.terms:
            case ((Size() as mine, 1),), ((Size() as other, 1),):
                if size.constant or wanted.constant or mine is other or not {mine, other} <= declared:
                    return
                if isinstance(self.root, Var) and self._helps(_Change(atoms={mine: wanted})):
                    kind = self._written_type(_with_sizes(self.root.type, {mine: wanted}))
                    yield f"where both have the same length, one size says so: {self.root.name}: {kind}"

    def _another_range(self) -> Iterator[str]:
        """Ranges that end earlier or begin later, changed one after the other until everything is proved."""
        for index in reversed([i for i, _ in self.claim.binders if i in self.claim.at.indices and not i.written]):
            f, edits = self.f, dict[Index, tuple[str, Affine, Affine]]()
            claim: Claim | None = self.claim
            for _ in range(_MOST_RANGES):
                assert claim is not None
                found = _narrower(claim, index if claim is self.claim else None)
                if found is None:
                    break
                at, size, shift = found
                word = _word(f, at)
                if word is None:
                    break
                f = _Change({at: atom_affine(at) + shift}, {at: size}).applied(f)
                edits[at] = (word, size, edits[at][2] + shift if at in edits else shift)
                try:
                    claim = next(self.unproved(f), None)
                except LimitError:
                    break
                if claim is None or not isinstance(claim.subject, Access):
                    break
            if edits and claim is None:
                later = any(shift is not constant(0) for _, _, shift in edits.values())
                what = "a range that begins later" if later else "a shorter range"
                yield f"{what}: {' and '.join(self._edit(i, *edit) for i, edit in edits.items())}"
                return

    def _edit(self, index: Index, word: str, size: Affine, shift: Affine) -> str:
        i = index.name
        made = f"tl.{word}({size}, lambda {i}: ..)" if self.python else f"{word} {i}:{size}"
        return made if shift is constant(0) else f"{made}, with {atom_affine(index) + shift} for {i}"

    def _longer(self) -> Iterator[str]:
        """An array with more elements."""
        last = _corner(self.claim, 1)
        if not isinstance(self.root, Var) or self.root not in self.f.params or last is None:
            return
        sizes, element = shape(self.root.type)
        axis = next(k for k, at in enumerate(self.places) if at is self.claim.at) if self._is_as_written() else None
        if element is not R or axis is None:
            return
        behind = last - self.claim.size
        if not self.claim.at.indices and behind.is_constant and behind.constant < 0 and not last.is_constant:
            size, back = self.claim.size - behind.constant, behind.constant
        elif not last.is_constant:
            size, back = last + 1, 0
        elif not self.claim.size.is_constant:
            back = min(0, last.constant)
            size = self.claim.size + (last.constant + 1 if not back else -back)
        else:
            return
        kind = array((*sizes[:axis], size, *sizes[axis + 1 :]), element)
        name, shown = self.root.name, self._written_type(kind)
        if not back:
            if self._helps(_Change(types={self.root: kind})):
                yield f"a longer array: {name}: {shown}"
            return
        at = [*self.places[:axis], size + back, *self.places[axis + 1 :]]
        new = access(self.root, *at)
        if self._helps(_Change(types={self.root: kind}, accesses={self.top: new})):
            read = f"{name}[{', '.join(map(str, at))}]"
            yield f"indices count from the front: number {-back} from the end of {name}: {shown} is {read}"

    def _is_as_written(self) -> bool:
        """Whether the claim's place has the indices of the program, without renaming."""
        return any(at is self.claim.at for at in self.places)

    def _written_type(self, kind: Type) -> str:
        sizes, element = shape(kind)
        if self.python and element is R and sizes:
            return f"tl.R[{', '.join(map(str, sizes))}]"
        return str(kind)


def _narrower(claim: Claim, wanted: Index | None) -> tuple[Index, Affine, Affine] | None:
    """An index of the access, with a range and a shift that keep the access in its array."""
    ranges = dict(claim.binders)
    for index in [wanted] if wanted is not None else [i for i, _ in reversed(claim.binders)]:
        if index not in ranges or claim.at.coefficient(index) != 1:
            continue
        if less(claim.at, claim.size) in claim.needs:
            rest = _corner(claim, 1, index)
            if rest is not None and (size := claim.size - rest) is not ranges[index]:
                return index, size, constant(0)
        if at_most(constant(0), claim.at) in claim.needs:
            rest = _corner(claim, -1, index)
            if rest is not None:
                return index, ranges[index] + rest, -rest
    return None


def _corner(claim: Claim, sign: int, apart: Index | None = None) -> Affine | None:
    """The greatest (sign 1) or least (sign -1) value of the claim's place over the ranges, without the term of `apart`;
    None if it is unknown."""
    ranges = dict(claim.binders)
    ends: dict[Atom, Affine] = {}
    for atom, k in claim.at.terms:
        if atom is apart:
            ends[atom] = constant(0)
        elif isinstance(atom, Index):
            if atom not in ranges:
                return None
            ends[atom] = ranges[atom] - 1 if k * sign > 0 else constant(0)
        elif not isinstance(atom, Size):
            return None
    return claim.at.substitute(ends)


def _word(f: Function, index: Index) -> str | None:
    """The keyword of the binder of `index`."""
    for e in postorder(f.body):
        match e:
            case Gen(i, _, _) if i is index:
                return "gen"
            case Sum(i, _, _) if i is index:
                return "sum"
            case Extremum(_, i, _, _, _) | Recur(_, i, _, _, _, _) if i is index:
                return e.word
    return None
