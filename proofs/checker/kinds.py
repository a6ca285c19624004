"""Types, scopes and bounds of a program, for all sizes from 1 on: the first check of every program.

Every name is bound where it is read, and names either a variable or an index; every read is at an index that is in
bounds wherever the read is evaluated.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from . import trees
from .facts import Facts, fresh, places
from .names import extended
from .predicates import moved, within
from .semantics import fine
from .trees import (
    Add,
    Affine,
    All,
    Apply,
    ArrayType,
    At,
    Best,
    Bracket,
    Call,
    Compare,
    Element,
    Exists,
    Expr,
    External,
    Gen,
    Holds,
    Indices,
    Integer,
    Let,
    Mul,
    Name,
    Num,
    Pair,
    PairType,
    Part,
    Pred,
    Program,
    Real,
    Recur,
    Refused,
    Rel,
    Sum,
    Test,
    Type,
    affine,
)

REAL = Real()


def flat_type(kind: Type) -> Type:
    """The type with pairs of arrays for arrays of pairs."""
    if isinstance(kind, PairType):
        return PairType(flat_type(kind.first), flat_type(kind.second))
    if isinstance(kind, ArrayType):
        return _array(kind.size, flat_type(kind.element))
    return kind


def _array(size: Affine, element: Type) -> Type:
    if isinstance(element, PairType):
        along = partial(_array, size)
        return PairType(along(element.first), along(element.second))
    return ArrayType(size, element)


def shape(kind: Type) -> tuple[tuple[Affine, ...], Type]:
    """The sizes of an array, and the type of its elements."""
    sizes = []
    while isinstance(kind, ArrayType):
        sizes.append(kind.size)
        kind = kind.element
    return tuple(sizes), kind


def type_at(kind: Type, sizes: Mapping[str, Affine]) -> Type:
    """A type of arrays and numbers with these sizes in place of its own."""
    match kind:
        case PairType(first, second):
            return PairType(type_at(first, sizes), type_at(second, sizes))
        case ArrayType(size, element):
            return ArrayType(moved(size, sizes), type_at(element, sizes))
    return kind


def sizes_at(f: External, kinds: Sequence[Type]) -> dict[str, Affine]:
    """The sizes of `f` for arguments of these types, which must fit."""
    found: dict[str, Affine] = {}
    if len(kinds) != len(f.params):
        raise Refused(f"{f.name} takes {len(f.params)} arguments, found {len(kinds)}")
    for (_, kind), given in zip(f.params, kinds, strict=True):
        for own, size in zip(shape(kind)[0], shape(given)[0], strict=False):
            if len(own.terms) == 1 and own == trees.name(str(own.terms[0][0])):
                found.setdefault(str(own.terms[0][0]), size)
    if [type_at(kind, found) for _, kind in f.params] != list(kinds):
        raise Refused(f"an argument of {f.name} has another type than its parameter")
    return found


Path = tuple[int, ...]


def leaves(kind: Type, path: Path = ()) -> list[tuple[Path, Type]]:
    """The parts of a flat type from left to right, each with the projections that lead to it."""
    if isinstance(kind, PairType):
        return [*leaves(kind.first, (*path, 0)), *leaves(kind.second, (*path, 1))]
    return [(path, kind)]


_OUT = "an array is read where it is not shown to be in bounds"


class OutOfBounds(Refused):
    """An array is read where it is not shown to be in bounds, though other parts of a conjunction may say so."""


@dataclass(frozen=True)
class Scope:
    """What is known at a place of a program: variables with types, indices with their representation, and
    predicates."""

    variables: Mapping[str, Type]
    indices: Mapping[str, Affine] = field(default_factory=dict)
    known: tuple[Pred, ...] = ()
    arrays: Mapping[str, str] = field(default_factory=dict)
    """The names, in questions, of index arrays that lets bind: each a new one, of which only the range is known."""

    def with_variable(self, x: str, kind: Type) -> Scope:
        """In the scope of a let."""
        if x in self.indices:
            raise Refused(f"{x} is an index and a variable")
        arrays = self.arrays
        if x in arrays or isinstance(shape(kind)[1], Indices):
            arrays = extended(arrays, x, fresh(f"{x} "))
        return replace(self, variables=extended(self.variables, x, kind), arrays=arrays)

    def with_index(self, i: str, size: Affine) -> Scope:
        """In the scope of a binder."""
        if i in self.variables:
            raise Refused(f"{i} is an index and a variable")
        own = trees.name(fresh())
        return replace(self, indices={**self.indices, i: own}, known=(*self.known, within(own, size)))

    def where(self, p: Pred) -> Scope:
        """Where `p` holds, too."""
        return replace(self, known=(*self.known, *fine(p)))


_RECENT: deque[tuple[Program, Kinds]] = deque(maxlen=8)


class Kinds:
    """The types of a program's lets, by the place of each in the program."""

    def __init__(self, facts: Facts, program: Program) -> None:
        self.facts = facts
        self.lets: dict[int, Type] = {}
        self.calls: dict[int, dict[str, Affine]] = {}
        """The sizes of external functions where these are called."""
        self.asked: list[list[Pred]] = []
        params = dict(program.params)
        if len(params) < len(program.params):
            raise Refused(f"{program.name} has two parameters of one name")
        self.sizes = {x for _, kind in program.params for x in _names_of(kind)}
        self.sizes |= {*program.sizes, *_ranges(program.body)}
        if self.sizes & params.keys():
            raise Refused(f"{program.name} has a parameter with the name of a size")
        self.type = self._of(program.body, Scope({x: flat_type(kind) for x, kind in params.items()}))

    @classmethod
    def of(cls, facts: Facts, program: Program) -> Kinds:
        """The types of `program`, checked once while it is compared with others."""
        for known, kinds in _RECENT:
            if known is program:
                return kinds
        made = cls(facts, program)
        _RECENT.append((program, made))
        return made

    def _of(self, e: Expr, scope: Scope) -> Type:
        self.facts.budget.spend()
        match e:
            case Num():
                return REAL
            case Integer(a):
                self._affine(a, scope)
                return REAL
            case Name(x):
                if x not in scope.variables or isinstance(scope.variables[x], Rel):
                    raise Refused(f"{x} is no variable here")
                return scope.variables[x]
            case Part(which, body):
                kind = self._of(body, scope)
                if not isinstance(kind, PairType):
                    raise Refused("a projection of what is no pair")
                return kind.second if which else kind.first
            case Pair(a, b):
                return PairType(self._of(a, scope), self._of(b, scope))
            case Add(a, b, _) | Mul(a, b):
                self._number(a, scope)
                self._number(b, scope)
                return REAL
            case Call(_, arguments):
                for a in arguments:
                    self._number(a, scope)
                return REAL
            case Apply(f, arguments):
                sizes = self.calls[id(e)] = sizes_at(f, [self._of(a, scope) for a in arguments])
                return type_at(f.kind, sizes)
            case At(body, at):
                return self._read(self._of(body, scope), self._affine(at, scope), scope)
            case Bracket(p, body):
                return self._of(body, scope.where(self._pred(p, scope)))
            case Gen(i, size, body):
                size = self._size(size, scope)
                return _array(size, self._of(body, scope.with_index(i, size)))
            case Sum(i, size, body):
                self._number(body, scope.with_index(i, self._size(size, scope)))
                return REAL
            case Best(_, which, i, size, where, body):
                size = self._size(size, scope)
                inner = scope.with_index(i, size)
                self._number(body, inner.where(self._pred(where, inner)))
                return Indices(size) if which else REAL
            case Test(_, a, b):
                self._number(a, scope)
                self._number(b, scope)
                return Indices(trees.number(2))
            case Recur(word, i, size, state, init, step):
                size = self._size(size, scope)
                kind = self.lets[id(e)] = self._of(init, scope)
                if any(shape(part)[1] != REAL for _, part in leaves(kind)):
                    raise Refused("a state that is not made of numbers")
                if self._of(step, scope.with_index(i, size).with_variable(state, kind)) != kind:
                    raise Refused("a step that makes a state of another type")
                many = size + trees.number(1) if word == "states" else size
                return kind if word == "fold" else _array(many, kind)
            case Let(x, value, body):
                kind = self.lets[id(e)] = self._of(value, scope)
                return self._of(body, scope.with_variable(x, kind))

    def _number(self, e: Expr, scope: Scope) -> None:
        if self._of(e, scope) != REAL:
            raise Refused("arithmetic with what is no number")

    def _size(self, size: Affine, scope: Scope) -> Affine:
        for atom, _ in size.terms:
            if not isinstance(atom, str) or atom in scope.indices:
                raise Refused("the size of a range is made of sizes alone")
            if atom in scope.variables:
                raise Refused(f"{atom} is a variable and a size")
        return size

    def _read(self, kind: Type, at: Affine, scope: Scope) -> Type:
        match kind:
            case PairType(first, second):
                return PairType(self._read(first, at, scope), self._read(second, at, scope))
            case ArrayType(size, element):
                if not self.facts.implies(scope.known, within(at, size)):
                    if not self.asked:
                        raise OutOfBounds(_OUT)
                    self.asked[-1].append(within(at, size))
                return element
        raise Refused("an index into what is no array")

    def _affine(self, a: Affine, scope: Scope) -> Affine:
        found: list[tuple[trees.Atom, int]] = []
        result = Affine((), a.constant)
        for atom, k in a.terms:
            if isinstance(atom, Element):
                kind = scope.variables.get(atom.array)
                if kind is None:
                    raise Refused(f"{atom.array} is no index array")
                at = tuple(self._affine(b, scope) for b in atom.at)
                for b in at:
                    kind = self._read(kind, b, scope)
                if not isinstance(kind, Indices):
                    raise Refused(f"{atom.array} is no index array of {len(at)} axes")
                own = scope.arrays.get(atom.array, atom.array)
                self.facts.arrays.setdefault(own, ((), kind.size))
                found.append((Element(own, at), k))
            elif atom in scope.indices:
                result = result + scope.indices[atom].times(k)
            elif atom in scope.variables:
                raise Refused(f"{atom} is a variable, not an index")
            elif atom not in self.sizes:
                raise Refused(f"{atom} is bound nowhere")
            else:
                found.append((atom, k))
        return result + affine(found)

    def _there(self, p: Pred, asked: Sequence[Affine]) -> Pred:
        """`p`, and that the elements it reads are in their ranges: a comparison with an element chosen among none is
        false."""
        elements = [atom for a in asked for atom, _ in a.terms if isinstance(atom, Element)]
        ranges = (within(Affine(((e, 1),)), self.facts.arrays[e.array][1]) for e in elements)
        return All((p, *(q for r in ranges for q in fine(r)))) if elements else p

    def _together(self, parts: Sequence[Pred], scope: Scope) -> list[Pred]:
        """Comparisons that are in bounds where all of them hold, whatever values elements out of bounds are given: then
        such elements never make a difference."""
        asked: list[Pred] = []
        self.asked.append(asked)
        try:
            found = [self._pred(part, scope) for part in parts]
        finally:
            self.asked.pop()
        known = scope.where(All(tuple(found))).known
        if not parts or not all(self.facts.implies(known, q) for q in asked):
            raise OutOfBounds(_OUT)
        return found

    def _pred(self, p: Pred, scope: Scope) -> Pred:
        match p:
            case Compare(equal, a):
                asked = self._affine(a, scope)
                return self._there(Compare(equal, asked), [asked])
            case Holds(relation, at):
                kind = scope.variables.get(relation)
                if not isinstance(kind, Rel) or len(kind.sizes) != len(at):
                    raise Refused(f"{relation} is no relation of {len(at)} indices")
                asked_at = tuple(self._affine(a, scope) for a in at)
                return self._there(Holds(relation, asked_at), asked_at)
            case Exists(i, size, body):
                size = self._size(size, scope)
                inner = scope.with_index(i, size)
                found = self._pred(body, inner)
                ((own, _),) = inner.indices[i].terms
                assert isinstance(own, str)
                return Exists(own, size, found)
            case All():
                done: dict[int, Pred] = {}
                waiting = sorted(enumerate(fine(p)), key=lambda pair: _depth(pair[1]))
                while waiting:
                    later = []
                    for k, part in waiting:
                        try:
                            done[k] = self._pred(part, scope)
                        except OutOfBounds:
                            later.append((k, part))
                        else:
                            scope = scope.where(done[k])
                    if len(later) == len(waiting):
                        compared = [(k, part) for k, part in later if isinstance(part, Compare | Holds)]
                        together = self._together([part for _, part in compared], scope)
                        done.update(zip((k for k, _ in compared), together, strict=True))
                        scope = scope.where(All(tuple(together)))
                        later = [(k, part) for k, part in later if k not in done]
                    waiting = later
                return All(tuple(done[k] for k in sorted(done)))
            case trees.Any(parts):
                return trees.Any(tuple(self._pred(part, scope) for part in parts))


def _depth(p: Pred) -> int:
    """How deeply `p` reads index arrays at elements of others; the other parts of a conjunction may decide whether
    these are in bounds."""
    return max((_nesting(place) for place in places(p)), default=0)


def _nesting(place: Element | Holds) -> int:
    inner = (atom for a in place.at for atom, _ in a.terms if isinstance(atom, Element))
    return isinstance(place, Element) + max(map(_nesting, inner), default=0)


def _ranges(body: Expr) -> Iterator[str]:
    """The names in the sizes of ranges."""
    for node in trees.walked(body):
        if isinstance(node, Gen | Sum | Best | Exists | Recur):
            yield from _sizes(node.size)


def _names_of(kind: Type) -> set[str]:
    """The sizes that a type names."""
    match kind:
        case ArrayType(size, element):
            return _sizes(size) | _names_of(element)
        case PairType(first, second):
            return _names_of(first) | _names_of(second)
        case Indices(size):
            return _sizes(size)
        case Rel(sizes):
            return set().union(*map(_sizes, sizes))
    return set()


def _sizes(a: Affine) -> set[str]:
    if not all(isinstance(x, str) for x, _ in a.terms):
        raise Refused("the size of a parameter is made of sizes alone")
    return {x for x, _ in a.terms if isinstance(x, str)}
