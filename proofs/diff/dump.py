"""Tensor SSA at given sizes as text, for the program that is extracted from the proofs (driver.ml).

    case      ::= ("case" | "forward") NAME list(function) list(leaf) list(statement) list(VAR) list(LEAF) list(LEAF)
                  the last three: the outputs, the leaves that hold their cotangents, those that are differentiated;
                  "forward" asks for the forward derivative, too
    function  ::= ARITY COST scalar, and for each component of its transposed derivative COST scalar
    scalar    ::= "number" Q | "argument" N | "value" | "cotangent" | "power" N scalar | NAME list(scalar)
    leaf      ::= list(SIZE), and its elements in order, each Q
    statement ::= list(SIZE), and
                  "input" LEAF | "constant" Q | "addition" list(SIGN VAR points) | "map" FUNCTION list(VAR) points
                  | "sum" list(SIZE) VAR points | "product" list(SIZE) VAR VAR points | "choice" VAR points
    points    ::= "-1" for all of them, else their number and the indices of each
    list(x)   ::= their number, and each x

Sizes and predicates are evaluated: the points of a predicate hold everything that it asks of sizes, relations, index
arrays and choices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from math import prod
from typing import Any, TypeVar

import numpy as np

from tensorlang.costs.cost import known
from tensorlang.language.affine import Affine, Index
from tensorlang.language.functions import operations
from tensorlang.language.grammar import Add, Call, Const, Expr, Mul, ScalarFunction, Var
from tensorlang.language.grid import Setting, expand, size_of
from tensorlang.language.points import ORIGIN
from tensorlang.language.predicates import TRUE, Predicate, conjunction
from tensorlang.language.types import R, leaves
from tensorlang.normal.as_program import to_function
from tensorlang.normal.ssa import (
    SSA,
    Addition,
    Constant,
    Contraction,
    Input,
    Map,
    Selection,
    Statement,
    inner_ranges,
    output_list,
    own_ranges,
)

EXACT = {"recip", "relu", "abs", "sign", "max", "min", "where_ge", "where_gt"}
"""The scalar functions besides powers that driver.ml computes exactly."""

T = TypeVar("T")
Ranges = Mapping[Index, Affine]


class TooLarge(Exception):
    """A statement has too many points to be listed."""


class NotExact(Exception):
    """A scalar function has no exact values."""


@dataclass(frozen=True)
class Dump:
    """A case as text, with the shapes of the gradients that it asks for."""

    text: str
    gradients: list[tuple[int, ...]]


def dump(name: str, s: SSA, wrt: Sequence[Var], values: Mapping[str, Any], cotangent: Any, most: int = 4000) -> Dump:
    """The program `s` at the arguments `values`, given by name (arrays of fractions; sizes too), with all leaves of
    `wrt` differentiated; `cotangent` is that of its output.

    Raises `TooLarge` if a statement has an index space of more than `most` points, and `NotExact`.
    """
    arrays = {p.name for p in s.params if isinstance(p, Var)}
    chooses = any(isinstance(x, Selection) for x in s.statements)
    data = {key: value for key, value in values.items() if chooses or key not in arrays}
    return _Writer(s, known(to_function(s), data), most).case(name, wrt, values, cotangent)


def parts(value: Any) -> list[Any]:
    """The arrays that a value of nested pairs holds, from left to right."""
    return [x for part in value for x in parts(part)] if isinstance(value, tuple) else [value]


class _Writer:
    def __init__(self, s: SSA, setting: Setting, most: int) -> None:
        self.program = s
        self.setting = setting
        self.most = most
        self.places = {x: k for k, x in enumerate(s.statements)}
        self.functions: dict[ScalarFunction, int] = {}
        for x in s.statements:
            if isinstance(x, Map):
                self.functions.setdefault(x.function, len(self.functions))

    def case(self, name: str, wrt: Sequence[Var], values: Mapping[str, Any], cotangent: Any) -> Dump:
        held: dict[tuple[Var, tuple[int, ...]], int] = {}
        arrays: list[Any] = []
        for x in self.program.params:
            if isinstance(x, Var):
                for (path, _), array in zip(leaves(x.type), parts(values[x.name]), strict=True):
                    held[x, path] = len(arrays)
                    arrays.append(array)
        wanted = [k for (x, _), k in held.items() if x in wrt]
        dys = list(range(len(arrays), len(arrays) + len(parts(cotangent))))
        gradients = [np.shape(arrays[k]) for k in wanted]
        arrays += parts(cotangent)
        words = [
            "forward",
            name,
            *listed(self.functions, function_words),
            *listed(arrays, leaf_words),
            *listed(self.program.statements, lambda x: self.statement(x, held)),
            *listed(output_list(self.program.outputs), lambda x: [self.places[x]]),
            *listed(dys, lambda k: [k]),
            *listed(wanted, lambda k: [k]),
        ]
        return Dump(" ".join(map(str, words)), gradients)

    def statement(self, x: Statement, held: Mapping[tuple[Var, tuple[int, ...]], int]) -> Iterator[Any]:
        yield from self.sizes(x.shape)
        match x:
            case Input(param, path, _):
                yield from ("input", held[param, path])
            case Constant(value, _):
                yield from ("constant", value)
            case Addition(terms, _):
                own = own_ranges(x)
                yield "addition"
                yield from listed(terms, lambda t: [t.sign, self.places[t.operand], *self.points(own, t.pred)])
            case Map(p, f, arguments, _):
                yield from ("map", self.functions[f])
                yield from listed(arguments, lambda y: [self.places[y]])
                yield from self.points(own_ranges(x), p)
            case Contraction(p, factors, summed, _):
                yield "sum" if len(factors) == 1 else "product"
                yield from self.sizes(summed)
                yield from (self.places[y] for y in factors)
                yield from self.points({**own_ranges(x), **inner_ranges(x)}, p)
            case Selection(_, _, guard, p, operand):
                yield from ("choice", self.places[operand])
                yield from self.points(own_ranges(operand), conjunction([guard, p]))

    def sizes(self, shape: Sequence[Affine]) -> list[int]:
        return [len(shape), *(size_of(a, self.setting) for a in shape)]

    def points(self, ranges: Ranges, p: Predicate) -> Iterator[int]:
        space = prod(size_of(a, self.setting) for a in ranges.values())
        if space > self.most:
            raise TooLarge(f"{space} points")
        if p is TRUE:
            yield -1
            return
        found, _ = expand(ORIGIN, list(ranges.items()), p, self.setting)
        yield found.count
        for point in zip(*(found.columns[i] for i in ranges), strict=True) if ranges else ():
            yield from map(int, point)


def function_words(f: ScalarFunction) -> Iterator[Any]:
    """A scalar function as text. Raises `NotExact`."""
    xs, y, t = tuple(Var(f"x{k}", R) for k in range(f.arity)), Var("y", R), Var("t", R)
    yield from (f.arity, f.cost)
    yield from scalar_words(Call(f, xs), xs, y, t)
    for component in f.transpose(xs, y, t):
        if component is None:
            yield from (0, "number", 0)
        else:
            yield operations(component)
            yield from scalar_words(component, xs, y, t)


def listed(items: Iterable[T], write: Callable[[T], Iterable[Any]]) -> Iterator[Any]:
    """Their number, and each."""
    items = list(items)
    yield len(items)
    for item in items:
        yield from write(item)


def leaf_words(array: Any) -> Iterator[Any]:
    """A leaf's sizes and elements."""
    yield from (np.ndim(array), *np.shape(array))
    yield from (Fraction(a) for a in np.asarray(array, object).reshape(-1))


def scalar_words(e: Expr, xs: tuple[Var, ...], y: Var, t: Var, computed: bool = True) -> list[Any]:
    """A scalar expression of the arguments `xs`, the value `y` and the cotangent `t`, in prefix notation.

    Raises `NotExact` for a function that driver.ml does not compute, if it is to be `computed`.
    """
    match e:
        case Const(value):
            return ["number", value]
        case Var():
            return ["value"] if e is y else ["cotangent"] if e is t else ["argument", xs.index(e)]
        case Add() | Mul():
            name = "multiply" if isinstance(e, Mul) else "add" if e.sign > 0 else "subtract"
            return [name, 2, *(word for a in (e.left, e.right) for word in scalar_words(a, xs, y, t, computed))]
        case Call(f, arguments):
            written = [word for a in arguments for word in scalar_words(a, xs, y, t, computed)]
            if f.exponent is not None and (f.exponent.denominator == 1 or not computed):
                return ["power", f.exponent, *written]
            if f.name in EXACT or not computed:
                return [f.name, len(arguments), *written]
            raise NotExact(f.name)
    raise NotExact(f"{type(e).__name__}")


@dataclass(frozen=True)
class Answer:
    """The answer of driver.ml for a program: costs and points by name, and the elements of its arrays in order."""

    name: str
    counts: dict[str, int]
    arrays: dict[str, list[list[Fraction]]]


def answers(output: str) -> Iterator[Answer]:
    """The answers in what driver.ml printed."""
    answer: Answer | None = None
    for line in output.splitlines():
        what, *words = line.split()
        if what in ("case", "program"):
            if answer is not None:
                yield answer
            name, *rest = words
            counts = zip(islice(rest, 0, None, 2), map(int, islice(rest, 1, None, 2)), strict=True)
            answer = Answer(name, dict(counts), {"value": [], "gradient": [], "tangent": []})
        elif answer is not None:
            answer.arrays[what].append([Fraction(word) for word in words])
    if answer is not None:
        yield answer
