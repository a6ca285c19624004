"""The package against the compiler of the proofs, on random programs of Figure 3 at random sizes.

`python -m proofs.diff.programs 1000 --first 0`. For each program that is small enough: its cost by Figure 6 is the
proved one; its value and its gradients are equal, as fractions; by the proofs as well it is well-typed and in bounds;
and the proved numbers keep the headline's bound.

    program   ::= "program" NAME list(function) list(relation) list(index array) list(parameter) list(leaf) type
                  list(item) e
                  the leaves: those of the parameters in order, then those of the output's cotangent
    item      ::= "bind" NAME e | "ask" NAME list(NAME SIZE) p ("<" | "<=" | "=") e e
                  lets, of programs with conditions on values: those are first let-lifted (Figure 7)
    relation  ::= NAME list(list(INDEX)), where it holds
    index array ::= NAME list(SIZE), and its elements in order
    parameter ::= NAME type
    type      ::= "real" | "array" SIZE type | "pair" type type
    e         ::= "var" NAME | "const" Q | "add" e e | "subtract" e e | "multiply" e e | "call" FUNCTION list(e)
                  | "pair" e e | "fst" e | "snd" e | "gen" NAME SIZE e | "sum" NAME SIZE e | "access" e a
                  | "bracket" p e | "let" NAME e e
    a         ::= "index" NAME | "number" N | "plus" a a | "times" N a | "look" NAME list(a)
    p         ::= "true" | "less" a a | "at_most" a a | "equal" a a | "related" NAME list(a) | "and" p p | "or" p p
                  | "exists" NAME SIZE p
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from math import prod
from typing import Any, assert_never

import numpy as np

from proofs.diff.compare import driver, fractions
from proofs.diff.dump import Answer, NotExact, TooLarge, answers, function_words, leaf_words, listed, parts
from tensorlang.costs.cost import known
from tensorlang.derivatives.adjoint import adjoint_steps
from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Lookup, Size
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
    Let,
    MakePair,
    Mul,
    Proj,
    ScalarFunction,
    Sum,
    Var,
)
from tensorlang.language.grid import Setting, size_of
from tensorlang.language.predicates import (
    TRUE,
    And,
    Equal,
    Exists,
    NonNegative,
    Or,
    Predicate,
    Related,
    Relation,
    conjunction,
    substitute,
)
from tensorlang.language.types import Array, BoundedIndex, Pair, Real, Type
from tensorlang.normal import let_lift, normal_ssa
from tensorlang.normal.as_program import to_function
from tensorlang.sets.scopes import postorder
from tests.support.programs import Scalars
from tests.support.promises import Case, random_case

CHUNK = 50
LONGEST = 4000
"""The most words of an expression, with shared parts written out."""
MOST_POINTS = 16
"""The most points of the binders around an expression: the compiled program's products walk through their cube."""


class NotCovered(Exception):
    """The program has an expression that is not in Figure 3."""


@dataclass(frozen=True)
class Expected:
    """The package's results for a program, and the program as text."""

    text: str
    cost: int
    value: list[Any]
    gradients: list[Any]


class _Writer:
    def __init__(self, case: Case) -> None:
        self.case = case
        self.setting: Setting = known(case.f, case.relations | case.sizes)
        self.functions: dict[ScalarFunction, int] = {}
        self.names: dict[object, str] = {}
        self.asked: dict[IndexArray, tuple[list[Index], Predicate]] = {}
        self.words = 0

    def program(self, name: str, cotangent: list[Any]) -> str:
        f = self.case.f
        items, e = self.items(f.body) if has_conditions(f) else ([], f.body)
        body = [*listed(items, lambda item: item), *self.expression(e, 1)]
        arrays = [a for x in f.variables for a in parts(self.case.values[x.name])] + cotangent
        words = [
            "program",
            name,
            *listed(self.functions, function_words),
            *listed([p for p in f.params if isinstance(p, Relation)], self.relation),
            *listed([p for p in f.params if isinstance(p, IndexArray)], self.index_array),
            *listed(f.variables, lambda x: [self.name(x), *self.type(x.type)]),
            *listed(arrays, leaf_words),
            *self.type(f.type),
            *body,
        ]
        return " ".join(map(str, words))

    def items(self, e: Expr) -> tuple[list[list[Any]], Expr]:
        """The outermost lets as items, and the expression under them."""
        found: list[list[Any]] = []
        while isinstance(e, Let):
            if isinstance(e.var, Var):
                found.append(["bind", self.name(e.var), *self.expression(e.value, 1)])
            else:
                found.append(self.question(e.var, e.value))
            e = e.body
        return found, e

    def question(self, array: IndexArray, e: Expr) -> list[Any]:
        """gen g. [p] * (a < b)."""
        binders: list[Index] = []
        sizes, guard = [], TRUE
        while isinstance(e, Gen | Bracket):
            if isinstance(e, Gen):
                binders.append(e.index)
                sizes.append(self.size(e.size))
            else:
                guard = conjunction([guard, e.pred])
            e = e.body
        if not isinstance(e, Compared):
            raise NotCovered(type(e).__name__)
        self.asked[array] = binders, guard
        at = listed(zip(binders, sizes, strict=True), lambda binder: [self.name(binder[0]), binder[1]])
        sides = self.expressions(prod(sizes), e.left, e.right)
        return ["ask", self.name(array), *at, *self.predicate(guard), e.op, *sides]

    def name(self, x: Var | Index | Relation | IndexArray) -> str:
        return self.names.setdefault(x, f"{x.name}{len(self.names)}")

    def size(self, a: Affine) -> int:
        return size_of(a, self.setting)

    def relation(self, r: Relation) -> Iterator[Any]:
        yield self.name(r)
        yield from listed(np.argwhere(self.case.values[r.name]), lambda row: listed(row, lambda k: [k]))

    def index_array(self, y: IndexArray) -> Iterator[Any]:
        elements = np.asarray(self.case.values[y.name])
        yield self.name(y)
        yield from listed(elements.shape, lambda n: [n])
        yield from elements.reshape(-1)

    def type(self, kind: Type) -> Iterator[Any]:
        match kind:
            case Real():
                yield "real"
            case Array(size, element):
                yield from ("array", self.size(size))
                yield from self.type(element)
            case Pair(first, second):
                yield "pair"
                yield from self.type(first)
                yield from self.type(second)
            case BoundedIndex():
                raise NotCovered("an index as a value")
            case _:
                assert_never(kind)

    def expression(self, e: Expr, points: int) -> Iterator[Any]:
        self.words += 1
        if self.words > LONGEST or points > MOST_POINTS:
            raise TooLarge(f"{self.words} words, {points} points")
        match e:
            case Var():
                yield from ("var", self.name(e))
            case Const(value):
                yield from ("const", value)
            case Add(a, b, sign):
                yield "add" if sign > 0 else "subtract"
                yield from self.expressions(points, a, b)
            case Mul(a, b):
                yield "multiply"
                yield from self.expressions(points, a, b)
            case Call(f, arguments):
                yield from ("call", self.functions.setdefault(f, len(self.functions)), len(arguments))
                yield from self.expressions(points, *arguments)
            case MakePair(a, b):
                yield "pair"
                yield from self.expressions(points, a, b)
            case Proj(which, body):
                yield "snd" if which else "fst"
                yield from self.expressions(points, body)
            case Gen(i, size, body) | Sum(i, size, body):
                n = self.size(size)
                yield from ("gen" if isinstance(e, Gen) else "sum", self.name(i), n)
                yield from self.expressions(points * n, body)
            case Access(body, at, _):
                yield "access"
                yield from self.expressions(points, body)
                yield from self.affine(at)
            case Bracket(p, body):
                yield "bracket"
                yield from self.predicate(p)
                yield from self.expressions(points, body)
            case Let(Var() as x, value, body):
                yield from ("let", self.name(x))
                yield from self.expressions(points, value, body)
            case Let() | Extremum() | Choice() | Compared():
                raise NotCovered(type(e).__name__)
            case _:
                assert_never(e)

    def expressions(self, points: int, *es: Expr) -> Iterator[Any]:
        for e in es:
            yield from self.expression(e, points)

    def affine(self, a: Affine) -> list[Any]:
        terms = [["times", k, *self.atom(atom)] for atom, k in a.terms]
        return reduce(lambda left, right: ["plus", *left, *right], terms, ["number", a.constant])

    def atom(self, atom: Atom) -> list[Any]:
        match atom:
            case Size():
                return ["number", self.setting.sizes[atom]]
            case Index():
                return ["index", self.name(atom)]
            case Lookup(array, at):
                return ["look", self.name(array), *listed(at, self.affine)]
        assert_never(atom)

    def predicate(self, p: Predicate) -> list[Any]:
        match p:
            case Equal(a):
                return self.all_of([*self.looked_up(a), ["equal", *self.affine(a), "number", 0]])
            case NonNegative(a):
                return self.all_of([*self.looked_up(a), ["at_most", "number", 0, *self.affine(a)]])
            case Related(relation, arguments):
                asked = ["related", self.name(relation), *listed(arguments, self.affine)]
                return self.all_of([q for a in arguments for q in self.looked_up(a)] + [asked])
            case And(parts):
                return self.all_of([self.predicate(q) for q in parts])
            case Or(parts):
                return reduce(lambda q, r: ["or", *q, *r], map(self.predicate, parts), FALSE)
            case Exists(i, size, body):
                return ["exists", self.name(i), self.size(size), *self.predicate(body)]
        assert_never(p)

    def looked_up(self, a: Affine) -> Iterator[list[Any]]:
        """The conditions under which the elements that `a` looks up exist; elsewhere a comparison is false."""
        for lookup in a.lookups:
            binders, guard = self.asked.get(lookup.array, ([], TRUE))
            if guard is not TRUE:
                yield self.predicate(substitute(guard, dict(zip(binders, lookup.at, strict=True))))
            for place, size in zip(lookup.at, lookup.array.sizes, strict=True):
                yield ["at_most", "number", 0, *self.affine(place)]
                yield ["less", *self.affine(place), "number", self.size(size)]

    @staticmethod
    def all_of(parts: list[list[Any]]) -> list[Any]:
        return reduce(lambda q, r: ["and", *q, *r], parts) if parts else ["true"]


FALSE = ["less", "number", 0, "number", 0]


def expected(seed: int) -> Expected:
    """The program of a seed, and the package's results for it. Raises `TooLarge`, `NotExact` or `NotCovered`."""
    rng = random.Random(seed)
    scalars: Scalars = "exact" if seed % 2 else "powers"
    case = random_case(rng, scalars=scalars, fuel=10, chooses=seed % 3 == 1, compares=seed % 3 == 2)
    return of_case(str(seed), case)


def of_case(name: str, case: Case) -> Expected:
    """The program of `case`, at its arguments; one with conditions on values is let-lifted first."""
    if has_conditions(case.f):
        case = replace(case, f=let_lift(case.f))
    f = case.f
    s = normal_ssa(f)
    by_name = {p.name: p for p in s.params if isinstance(p, Var)}
    result, _ = adjoint_steps(s, tuple(by_name[x.name] for x in f.variables), f.type)
    adjoint = to_function(result)
    cotangent = case.fresh(adjoint)
    text = _Writer(case).program(name, [a for value in cotangent.values() for a in parts(value)])
    return Expected(text, case.costs(f), parts(case.means(f)), parts(case.means(adjoint, cotangent)))


def has_conditions(f: Function) -> bool:
    """Whether numbers are compared in `f`."""
    return any(isinstance(e, Compared) for e in postorder(f.body))


def objections(mine: Expected, proved: Answer) -> Iterator[str]:
    """Where the package disagrees with the proofs."""
    n = proved.counts
    if not n["accepted"]:
        yield "the program is not well-typed, or not in bounds, by the proofs"
    if mine.cost != n["cost"]:
        yield f"the program costs {mine.cost}, by the proofs {n['cost']}"
    if n["compiled"] != n["cost"]:
        yield f"the compiled program costs {n['compiled']}, not {n['cost']}"
    if n["adjoint"] + n["inputs"] + n["output"] > 4 * (n["cost"] + n["inputs"] + n["output"]):
        yield f"the bound of 4 does not hold: {n}"
    for what, arrays in (("value", mine.value), ("gradient", mine.gradients)):
        if fractions(arrays) != proved.arrays[what]:
            yield f"each {what} is {fractions(arrays)}, by the proofs {proved.arrays[what]}"


def compare(seeds: range) -> tuple[Counter[str], list[str]]:
    """Compare the programs of `seeds`. Return how many there are of each kind, and the objections."""
    told: Counter[str] = Counter()
    mine: dict[str, Expected] = {}
    for seed in seeds:
        try:
            mine[str(seed)] = expected(seed)
        except (TooLarge, NotExact, NotCovered) as error:
            told[f"left out: {type(error).__name__}"] += 1
    text = "\n".join(e.text for e in mine.values())
    output = subprocess.run([driver()], input=text, capture_output=True, text=True, check=True).stdout
    found: list[str] = []
    seen = set()
    for answer in answers(output):
        seen.add(answer.name)
        told["compared"] += 1
        told["of them with conditions"] += " ask " in mine[answer.name].text
        found += [f"seed {answer.name}: {objection}" for objection in objections(mine[answer.name], answer)]
    found += [f"seed {name}: no answer" for name in mine if name not in seen]
    return told, found


def main() -> int:
    """Compare; return 1 if there are objections."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", type=int)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    told: Counter[str] = Counter()
    found: list[str] = []
    last = options.first + options.programs
    for first in range(options.first, last, CHUNK):
        more, objected = compare(range(first, min(first + CHUNK, last)))
        told += more
        found += objected
        for objection in objected:
            print(objection, flush=True)
    print(", ".join(f"{count} {what}" for what, count in sorted(told.items())), f"; {len(found)} objections")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
