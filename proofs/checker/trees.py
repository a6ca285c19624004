"""Programs as trees. Two trees are equal if the programs read the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from typing import Any as Anything


class Refused(Exception):
    """A certificate that does not hold; the message says what is wrong."""


@dataclass(frozen=True)
class Affine:
    """constant + the sum of coefficient * atom; `terms` are in the order of the atoms' texts."""

    terms: tuple[tuple[Atom, int], ...]
    constant: int = 0

    def __add__(self, other: Affine) -> Affine:
        if not other.terms:
            return Affine(self.terms, self.constant + other.constant)
        return affine([*self.terms, *other.terms], self.constant + other.constant)

    def times(self, k: int) -> Affine:
        """k * the expression."""
        return Affine(tuple([(atom, k * c) for atom, c in self.terms]) if k else (), k * self.constant)

    def __sub__(self, other: Affine) -> Affine:
        if not other.terms:
            return Affine(self.terms, self.constant - other.constant)
        return affine([*self.terms, *((atom, -k) for atom, k in other.terms)], self.constant - other.constant)


@dataclass(frozen=True)
class Element:
    """array[at], an element of an index array."""

    array: str
    at: tuple[Affine, ...]


Atom = str | Element
"""A name of an index or a size, or an element of an index array."""


def affine(terms: list[tuple[Atom, int]], constant: int = 0) -> Affine:
    """constant + the sum of these terms, with like terms added up."""
    if not terms:
        return Affine((), constant)
    if len(terms) == 1:
        return Affine(((terms[0][0], terms[0][1]),) if terms[0][1] else (), constant)
    found: dict[Atom, int] = {}
    for atom, k in terms:
        found[atom] = found.get(atom, 0) + k
    return Affine(tuple(sorted(((a, k) for a, k in found.items() if k), key=lambda term: str(term[0]))), constant)


def number(k: int) -> Affine:
    """An integer."""
    return Affine((), k)


def name(x: str) -> Affine:
    """An index or a size."""
    return Affine(((x, 1),))


@dataclass(frozen=True)
class Compare:
    """value = 0 if `equal`, else value >= 0."""

    equal: bool
    value: Affine


@dataclass(frozen=True)
class Holds:
    """relation(at)."""

    relation: str
    at: tuple[Affine, ...]


@dataclass(frozen=True)
class All:
    """All of the parts hold."""

    parts: tuple[Pred, ...] = ()


@dataclass(frozen=True)
class Any:
    """One of the parts holds."""

    parts: tuple[Pred, ...] = ()


@dataclass(frozen=True)
class Exists:
    """exists index:size. body"""

    index: str
    size: Affine
    body: Pred


Pred = Compare | Holds | All | Any | Exists
TRUE = All()


@dataclass(frozen=True)
class Num:
    """A number."""

    value: Fraction


@dataclass(frozen=True)
class Integer:
    """real(value), an index expression as a number."""

    value: Affine


@dataclass(frozen=True)
class Name:
    """A variable, or a parameter."""

    name: str


@dataclass(frozen=True)
class Part:
    """fst body for 0, snd body for 1."""

    which: int
    body: Expr


@dataclass(frozen=True)
class Pair:
    """(first, second)"""

    first: Expr
    second: Expr


@dataclass(frozen=True)
class Add:
    """left + right, or left - right for sign -1."""

    left: Expr
    right: Expr
    sign: int

    @cached_property
    def bracketed(self) -> bool:
        """Whether the outermost brackets of all its terms may make it 0."""
        return all(e.bracketed if isinstance(e, Add) else isinstance(e, Bracket) for e in (self.right, self.left))


@dataclass(frozen=True)
class Mul:
    """left * right"""

    left: Expr
    right: Expr


@dataclass(frozen=True)
class Call:
    """function(arguments); powers are functions of their own, "pow 2"."""

    function: str
    arguments: tuple[Expr, ...]


class External:
    """A function of arrays that is not a program: its name, the types of its parameters and of its value, and the
    declared cost of a call, the sum of weights times products of sizes. In a tree it is opaque."""

    def __init__(
        self, name: str, params: tuple[tuple[str, Type], ...], kind: Type, cost: tuple[tuple[int, tuple[str, ...]], ...]
    ) -> None:
        self.name, self.params, self.kind, self.cost = name, params, kind, cost


@dataclass(frozen=True)
class Apply:
    """external(arguments)"""

    external: External
    arguments: tuple[Expr, ...]


@dataclass(frozen=True)
class At:
    """body[at]"""

    body: Expr
    at: Affine


@dataclass(frozen=True)
class Bracket:
    """[pred] * body"""

    pred: Pred
    body: Expr


@dataclass(frozen=True)
class Gen:
    """gen index:size. body"""

    index: str
    size: Affine
    body: Expr


@dataclass(frozen=True)
class Sum:
    """sum index:size. body"""

    index: str
    size: Affine
    body: Expr


@dataclass(frozen=True)
class Best:
    """max for sign 1, min for -1, over the points of `where`; with `which` the point itself, else its value."""

    sign: int
    which: bool
    index: str
    size: Affine
    where: Pred
    body: Expr


@dataclass(frozen=True)
class Test:
    """left operator right, a comparison of numbers as an index: 1 if it is true, else 0."""

    operator: str
    left: Expr
    right: Expr


@dataclass(frozen=True)
class Recur:
    """word index:size with state = init. step; the state after the last step for "fold", after each of them for "scan",
    before each for "prescan", and all of them for "states"."""

    word: str
    index: str
    size: Affine
    state: str
    init: Expr
    step: Expr


@dataclass(frozen=True)
class Let:
    """let name = value in body"""

    name: str
    value: Expr
    body: Expr


Expr = (
    Num | Integer | Name | Part | Pair | Add | Mul | Call | Apply | At | Bracket | Gen | Sum | Best | Test | Recur | Let
)


@dataclass(frozen=True)
class Real:
    """The type R."""


@dataclass(frozen=True)
class Indices:
    """The type idx(size)."""

    size: Affine


@dataclass(frozen=True)
class Rel:
    """The type rel(sizes)."""

    sizes: tuple[Affine, ...]


@dataclass(frozen=True)
class ArrayType:
    """The type [size]element."""

    size: Affine
    element: Type


@dataclass(frozen=True)
class PairType:
    """The type (first, second)."""

    first: Type
    second: Type


Type = Real | Indices | Rel | ArrayType | PairType


@dataclass(frozen=True)
class Program:
    """name(params) = body; `sizes` are the parameters of type size."""

    name: str
    params: tuple[tuple[str, Type], ...]
    body: Expr
    sizes: tuple[str, ...] = ()


def lets(e: Expr) -> tuple[list[tuple[str, Expr]], Expr]:
    """The outermost lets of `e`, and the expression under them."""
    found = []
    while isinstance(e, Let):
        found.append((e.name, e.value))
        e = e.body
    return found, e


def needed(lets: list[tuple[str, Expr]], roots: list[Expr]) -> list[tuple[str, Expr]]:
    """Those of `lets` that `roots` depend on."""
    wanted = set().union(*map(names, roots))
    kept = []
    for x, value in reversed(lets):
        if x in wanted:
            wanted |= names(value)
            kept.append((x, value))
    return kept[::-1]


def walked(node: Anything) -> Iterator[Anything]:
    """All nodes of a tree."""
    stack = [node]
    while stack:
        node = stack.pop()
        yield node
        stack += node if isinstance(node, tuple) else [getattr(node, key) for key in _fields(node.__class__)]


@cache
def _fields(kind: type) -> tuple[str, ...]:
    return tuple(getattr(kind, "__dataclass_fields__", ()))


def names(node: Anything) -> set[str]:
    """All names in a tree, and some other words."""
    return {part for part in walked(node) if isinstance(part, str)}


def chooses(e: Expr) -> bool:
    """Whether `e` is an array of indices: chosen by argmax or argmin, or comparisons."""
    while isinstance(e, Gen | Bracket):
        e = e.body
    return isinstance(e, Test) or (isinstance(e, Best) and e.which)


def recurs(e: Expr) -> bool:
    """Whether there is a recurrence in `e`."""
    return any(isinstance(node, Recur) for node in walked(e))


def power(e: Expr, exponent: Fraction) -> Expr:
    """e ^ exponent; a negative integer is the reciprocal of a power."""
    if exponent == 0:
        return Num(Fraction(1))
    if exponent == 1:
        return e
    if exponent.denominator == 1 and exponent < 0:
        return Call("recip", (power(e, -exponent),))
    return Call(f"pow {exponent}", (e,))
