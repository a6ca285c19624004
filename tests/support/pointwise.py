"""Figures 4 to 6 read off the page, one point at a time: the slow second opinion on meaning and cost.

It shares no code with the evaluator and the counter of the package. Its sums bind one index at a time and stop as soon
as a conjunct is false, so that the index spaces of SSA programs stay within reach.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from tensorlang.language.affine import Affine, Index, IndexArray, Lookup, Size
from tensorlang.language.function import Function
from tensorlang.language.grammar import (
    Access,
    Add,
    Bracket,
    Call,
    Choice,
    Compared,
    Const,
    Expr,
    Extremum,
    Gen,
    Integer,
    Let,
    MakePair,
    Mul,
    Proj,
    Sum,
    Var,
    children,
)
from tensorlang.language.predicates import (
    And,
    Equal,
    Exists,
    NonNegative,
    Or,
    Predicate,
    Related,
    Relation,
    conjuncts,
    free_atoms,
)
from tensorlang.language.types import Array, BoundedIndex, Pair, R, Type, shape, struct_of_arrays


def meaning(f: Function, sizes: Mapping[str, int], values: Mapping[str, Any]) -> Any:
    """The value of `f`, an array of pairs as a pair of arrays; an access out of bounds is an `IndexError`.

    Any numbers with addition and multiplication will do: fractions, floats, dual numbers.
    """
    at = Point(f, sizes, values)
    for p in f.variables:
        at.values[p] = _elements(values[p.name], p.type, ())
    return _arrays(at.value(f.body), f.body.type, at)


def cost(f: Function, sizes: Mapping[str, int], relations: Mapping[str, Any]) -> int:
    """The cost of `f` at these sizes by Figure 6, given the data of relations and index arrays by name.

    A maximum or minimum costs one less than the number of its points. Where points are chosen by argmax, the values by
    which they are chosen are needed, too.
    """
    at = Point(f, sizes, relations)
    for p in f.variables:
        if p in at.choosing:
            at.values[p] = _elements(relations[p.name], p.type, ())
    return at.cost(f.body)


def chosen(f: Function, sizes: Mapping[str, int], values: Mapping[str, Any]) -> Point:
    """A point at which only the index arrays that the outermost lets of `f` bind are known, and no index is."""
    at = Point(f, sizes, values)
    for p in f.variables:
        if p in at.choosing:
            at.values[p] = _elements(values[p.name], p.type, ())
    e = f.body
    while isinstance(e, Let):
        if isinstance(e.var, IndexArray) or e.var in at.choosing:
            at.bind(e.var, e.value)
        e = e.body
    return at


class NotThere(IndexError):
    """An index array does not have the element that is looked up."""


class NoPoint(ValueError):
    """The maximum or minimum of no values."""


class Point:
    """The values of sizes, indices and variables at one point of the program's execution."""

    def __init__(self, f: Function, sizes: Mapping[str, int], data: Mapping[str, Any]) -> None:
        self.atoms: dict[Index | Size, int] = {s: sizes[s.name] for s in f.sizes}
        self.relations = {p: data[p.name] for p in f.params if isinstance(p, Relation)}
        self.arrays: dict[IndexArray, Any] = {
            p: np.asarray(data[p.name]).tolist() for p in f.params if isinstance(p, IndexArray) and p.name in data
        }
        self.values: dict[Var, Any] = {}
        self.choosing = _choosing(f.body)
        """The variables on whose values choices depend."""

    def range(self, size: Affine) -> range:
        return range(max(self.number(size), 0))

    def number(self, a: Affine) -> int:
        return a.constant + sum(
            k * (self.element(atom) if isinstance(atom, Lookup) else self.atoms[atom]) for atom, k in a.terms
        )

    def element(self, lookup: Lookup) -> int:
        value = self.arrays[lookup.array]
        for a in lookup.at:
            k = self.number(a)
            if not 0 <= k < len(value):
                raise NotThere(f"{lookup} looks up element {k} of {len(value)}")
            value = value[k]
        if value not in self.range(lookup.array.size):
            raise NotThere(f"{lookup} is {value}")
        return int(value)

    def holds(self, p: Predicate) -> bool:
        try:
            return self._holds(p)
        except NotThere:
            return False

    def _holds(self, p: Predicate) -> bool:
        match p:
            case Equal(a):
                return self.number(a) == 0
            case NonNegative(a):
                return self.number(a) >= 0
            case And(parts):
                return all(map(self.holds, parts))
            case Or(parts):
                return any(map(self.holds, parts))
            case Exists(i, n, q):
                return any(self.holds(q) for _ in self.each(i, n))
            case Related(relation, arguments):
                data = self.relations[relation]
                place = tuple(map(self.number, arguments))
                inside = all(0 <= k < extent for k, extent in zip(place, data.shape, strict=True))
                return inside and bool(data[place])

    def each(self, i: Index, size: Affine) -> Iterator[None]:
        for k in self.range(size):
            self.atoms[i] = k
            yield
        self.atoms.pop(i, None)

    def points(self, binders: list[tuple[Index, Affine]], p: Predicate) -> Iterator[None]:
        """Each choice of the indices at which `p` holds."""
        inner = [i for i, _ in binders]
        levels: list[list[Predicate]] = [[] for _ in range(len(binders) + 1)]
        for q in conjuncts(p):
            levels[max((inner.index(a) + 1 for a in free_atoms(q) if a in inner), default=0)].append(q)

        def visit(k: int) -> Iterator[None]:
            if not all(map(self.holds, levels[k])):
                return
            if k == len(binders):
                yield
                return
            for _ in self.each(*binders[k]):
                yield from visit(k + 1)

        return visit(0)

    def count(self, binders: list[tuple[Index, Affine]], p: Predicate) -> int:
        """The number of choices of the indices at which `p` holds."""
        return sum(1 for _ in self.points(binders, p))

    def value(self, e: Expr) -> Any:
        match e:
            case Var():
                return self.values[e]
            case Const(value):
                return value
            case Integer(a):
                return Fraction(self.number(a))
            case Add(a, b, sign):
                return self.value(a) + sign * self.value(b)
            case Mul(a, b):
                return self.value(a) * self.value(b)
            case Call(f, arguments):
                given = [self.value(a) for a in arguments]
                if f.exact is not None and not any(isinstance(x, float) for x in given):
                    return f.exact(*given)
                return float(f.evaluate(*map(float, given)))
            case MakePair(a, b):
                return (self.value(a), self.value(b))
            case Proj(which, a):
                return self.value(a)[which]
            case Gen(i, n, a):
                return [self.value(a) for _ in self.each(i, n)]
            case Sum():
                binders, p, body = _joined_sums(e)
                return sum((self.value(body) for _ in self.points(binders, p)), Fraction(0))
            case Extremum():
                return self.best(e)[1]
            case Choice():
                return self.best(e)[0]
            case Compared(op, a, b):
                left, right = self.value(a), self.value(b)
                return int({"<": left < right, "<=": not right < left, "=": not (left < right or right < left)}[op])
            case Access(a, place, _):
                array, k = self.value(a), self.number(place)
                if not 0 <= k < len(array):
                    raise IndexError(f"[{place}] reads element {k} of {len(array)}")
                return array[k]
            case Bracket(p, a):
                return self.value(a) if self.holds(p) else self.zero(a.type)
            case Let(x, a, b):
                self.bind(x, a)
                return self.value(b)

    def bind(self, x: Var | IndexArray, e: Expr) -> None:
        if isinstance(x, IndexArray):
            self.arrays[x] = self.value(e)
        else:
            self.values[x] = self.value(e)

    def best(self, e: Extremum | Choice) -> tuple[int, Any]:
        """The first index with the maximum or minimum, and that value."""
        found = [(self.atoms[e.index], self.value(e.body)) for _ in self.points([(e.index, e.size)], e.pred)]
        if not found:
            raise NoPoint(f"{e.word} {e.index}")
        best = found[0]
        for k, value in found[1:]:
            if value > best[1] if e.sign > 0 else value < best[1]:
                best = (k, value)
        return best

    def zero(self, kind: Type) -> Any:
        if isinstance(kind, Pair):
            return (self.zero(kind.first), self.zero(kind.second))
        if isinstance(kind, Array):
            return [self.zero(kind.element) for _ in self.range(kind.size)]
        return 0 if isinstance(kind, BoundedIndex) else Fraction(0)

    def cost(self, e: Expr) -> int:
        match e:
            case Var() | Const() | Integer():
                return 0
            case Add(a, b, sign):
                first, second = self.may_be_other_than_0(a), self.may_be_other_than_0(b)
                return self.cost(a) + self.cost(b) + int((first and second) if sign > 0 else second)
            case Mul(a, b):
                return 1 + self.cost(a) + self.cost(b)
            case Call(f, arguments):
                return f.cost + sum(map(self.cost, arguments))
            case MakePair(a, b):
                return self.cost(a) + self.cost(b)
            case Let(x, a, b):
                if isinstance(x, IndexArray) or x in self.choosing:
                    self.bind(x, a)
                return self.cost(a) + self.cost(b)
            case Compared(_, a, b):
                return 1 + self.cost(a) + self.cost(b)
            case Extremum(_, i, n, p, a) | Choice(_, i, n, p, a):
                each = [1 + self.cost(a) for _ in self.points([(i, n)], p)]
                return sum(each) - (1 if each else 0)
            case Proj(_, a) | Access(a, _, _):
                return self.cost(a)
            case Gen(i, n, a):
                return sum(self.cost(a) for _ in self.each(i, n))
            case Sum():
                binders, p, body = _joined_sums(e)
                each = [1 + self.cost(body) for _ in self.points(binders, p)]
                return sum(each) - (1 if each else 0)
            case Bracket(p, a):
                return self.cost(a) if self.holds(p) else 0

    def may_be_other_than_0(self, e: Expr) -> bool:
        """Whether the outermost brackets of `e` hold, or, if `e` is a sum without brackets, those of one of its
        terms."""
        if isinstance(e, Add):
            return self.may_be_other_than_0(e.left) or self.may_be_other_than_0(e.right)
        while isinstance(e, Bracket):
            if not self.holds(e.pred):
                return False
            e = e.body
        return True


def _choosing(root: Expr) -> set[Var]:
    """The variables that occur in choices bound by lets, or in the values of such variables."""
    found: set[Var] = set()
    stack = [let.value for let in _under([root]) if isinstance(let, Let) and isinstance(let.var, IndexArray)]
    values = {let.var: let.value for let in _under([root]) if isinstance(let, Let)}
    while stack:
        new = {x for x in _under(stack) if isinstance(x, Var)} - found
        found |= new
        stack = [values[x] for x in new if x in values]
    return found


def _under(roots: list[Expr]) -> set[Expr]:
    found: set[Expr] = set()
    stack = list(roots)
    while stack:
        e = stack.pop()
        if e not in found:
            found.add(e)
            stack += children(e)
    return found


def _split(e: Expr) -> tuple[Predicate, Expr]:
    parts: list[Predicate] = []
    while isinstance(e, Bracket):
        parts.append(e.pred)
        e = e.body
    return And(tuple(parts)), e


def _joined_sums(e: Expr) -> tuple[list[tuple[Index, Affine]], Predicate, Expr]:
    """The directly nested sums at the root of `e` with the brackets between them as one sum (5.24')."""
    binders: list[tuple[Index, Affine]] = []
    parts: list[Predicate] = []
    while True:
        p, body = _split(e)
        if isinstance(body, Sum):
            binders.append((body.index, body.size))
            parts.append(p)
            e = body.body
        else:
            return binders, And(tuple(q for part in (*parts, p) for r in conjuncts(part) for q in conjuncts(r))), body


def _elements(value: Any, kind: Type, place: tuple[int, ...]) -> Any:
    """The element at `place` of a struct of arrays, as lists of numbers and pairs."""
    return _element_of(value, struct_of_arrays(kind), kind, place)


def _element_of(value: Any, held: Type, kind: Type, place: tuple[int, ...]) -> Any:
    if isinstance(kind, Array):
        leaf = value
        while isinstance(leaf, tuple):
            leaf = leaf[0]
        return [_element_of(value, held, kind.element, (*place, k)) for k in range(leaf.shape[len(place)])]
    if isinstance(kind, Pair):
        assert isinstance(held, Pair)
        return (
            _element_of(value[0], held.first, kind.first, place),
            _element_of(value[1], held.second, kind.second, place),
        )
    return value[place] if place else value


def _arrays(value: Any, kind: Type, at: Point) -> Any:
    """The lists and pairs `value` of type `kind` as a struct of arrays."""
    return _arrays_under(value, kind, struct_of_arrays(kind), (), at)


def _arrays_under(value: Any, kind: Type, held: Type, path: tuple[int, ...], at: Point) -> Any:
    if isinstance(held, Pair):
        first = _arrays_under(value, kind, held.first, (*path, 0), at)
        return (first, _arrays_under(value, kind, held.second, (*path, 1), at))
    sizes, _ = shape(held)
    data = np.empty(tuple(len(at.range(n)) for n in sizes), dtype=object)
    for place in np.ndindex(*data.shape):
        data[place] = _leaf(value, kind, path, place)
    return data if sizes else data[()]


def _leaf(value: Any, kind: Type, path: tuple[int, ...], place: tuple[int, ...]) -> Any:
    while kind is not R:
        if isinstance(kind, Array):
            value, place, kind = value[place[0]], place[1:], kind.element
        else:
            assert isinstance(kind, Pair)
            value, path, kind = value[path[0]], path[1:], kind.second if path[0] else kind.first
    return value
