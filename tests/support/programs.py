"""Random programs: well typed, in bounds by construction, and made of every construct of Figure 3.

The generator, `_Builder`, asks a `Chooser` for small integers. The chooser is either a seeded `random.Random`, for bulk
runs of thousands (`random_function`), or Hypothesis (`functions`), which shrinks: in every choice, 0 is the simplest
option.

Programs stay small: sizes are at most 4, and none has more than `DEPTH` nested binders, so even the index space of a
product in SSA form, three times as deep, can be enumerated.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
from hypothesis import strategies as st

from tensorlang.language.affine import Affine, Index, IndexArray, Lookup, Size, atom_affine, constant
from tensorlang.language.function import Function, Parameter, sizes_of
from tensorlang.language.functions import call, raise_to
from tensorlang.language.grammar import (
    Access,
    Add,
    Apply,
    Bracket,
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
    Routine,
    Sum,
    Var,
    bracket,
    children,
    holds,
    number,
    real,
    with_sizes,
)
from tensorlang.language.predicates import (
    FALSE,
    TRUE,
    Exists,
    Predicate,
    Related,
    Relation,
    at_most,
    conjunction,
    disjunction,
    equal,
    exists,
    less,
    not_equal,
    within,
)
from tensorlang.language.types import Array, Pair, R, Type, shape, struct_of_arrays

FUEL = 14
DEPTH = 3

T = TypeVar("T")
Scalars = Literal["powers", "exact", "smooth"]
"""The scalar functions of a program: only ^; also those with kinks or poles that fractions can evaluate; also smooth
ones, which only floats can evaluate, with arguments that are always in their domains."""


class Chooser(Protocol):
    """Where choices come from."""

    def below(self, n: int) -> int:
        """An integer from 0 to n - 1."""
        ...


@dataclass(frozen=True)
class _Seeded:
    rng: random.Random

    def below(self, n: int) -> int:
        return int(self.rng.random() * n)


@dataclass(frozen=True)
class _Drawn:
    draw: Callable[[st.SearchStrategy[int]], int]

    def below(self, n: int) -> int:
        return self.draw(st.integers(0, n - 1)) if n > 1 else 0


@dataclass(frozen=True)
class _Scope:
    """The names visible at a place of the program."""

    variables: tuple[Var, ...]
    arrays: tuple[IndexArray, ...] = ()
    indices: tuple[tuple[Index, Affine], ...] = ()
    facts: tuple[tuple[Affine, Affine], ...] = ()
    """Pairs (a, s) for which a bracket around this place says 0 <= a < s."""
    pool: tuple[list[Expr], ...] = field(default_factory=lambda: ([],))
    """Numbers made earlier at this place, or at places around it, to be reused as the same node."""

    def under(self, i: Index, size: Affine) -> _Scope:
        return replace(self, indices=(*self.indices, (i, size)), pool=(*self.pool, []))

    def knowing(self, a: Affine, size: Affine) -> _Scope:
        return replace(self, facts=(*self.facts, (a, size)), pool=(*self.pool, []))

    def binding(self, x: Var) -> _Scope:
        return replace(self, variables=(*self.variables, x), pool=(*self.pool, []))

    def choosing(self, k: IndexArray) -> _Scope:
        return replace(self, arrays=(*self.arrays, k), pool=(*self.pool, []))

    @property
    def depth(self) -> int:
        return len(self.indices)


_INDEX_NAMES = ("i", "j", "i", "k", "i", "n", "x", "sum", "t")
_VARIABLE_NAMES = ("y", "t", "y", "x", "i", "sin", "n")


class _Builder:
    def __init__(
        self,
        choose: Chooser,
        scalars: Scalars,
        chooses: bool,
        numbers: bool,
        compares: bool,
        routines: Sequence[Routine] = (),
    ) -> None:
        self.choose = choose
        self.scalars = scalars
        self.chooses = chooses
        self.numbers = numbers
        self.compares = compares
        self.routines = routines
        n, m = atom_affine(Size("n")), atom_affine(Size("m"))
        self.input_sizes = [n, m, constant(2), n + m - 1, n + 1, constant(3)]
        self.sizes = [n, m, constant(2), n + m - 1, n - 1, m + 1, constant(1), n - m, n * 2 - 1, constant(0)]
        self.relations: tuple[Relation, ...] = ()

    # -- choices

    def chance(self, percent: int) -> bool:
        return self.choose.below(100) >= 100 - percent

    def pick(self, options: Sequence[T]) -> T:
        return options[self.choose.below(len(options))]

    def pick_weighted(self, options: Sequence[tuple[int, T]]) -> T:
        k = self.choose.below(sum(weight for weight, _ in options))
        for weight, option in options:
            if k < weight:
                return option
            k -= weight
        raise AssertionError("the weights add up to more than k")

    def split(self, fuel: int) -> tuple[int, int]:
        left = self.choose.below(max(fuel, 1))
        return left, max(fuel - 1 - left, 0)

    def index(self) -> Index:
        return Index(self.pick(_INDEX_NAMES))

    # -- the program

    def function(self, fuel: int) -> Function:
        n, m = self.input_sizes[:2]
        kinds: list[Type] = [Array(n, R), self.pick_weighted([(5, Array(m, R)), (1, Array(m, Pair(R, R)))])]
        kinds += [self.input_type() for _ in range(self.choose.below(3))]
        variables = tuple(Var(name, kind) for name, kind in zip("xwzv", kinds, strict=False))
        if self.chance(35):
            shapes = [(n, m), (n,), (m, m), (n + 1, constant(2))]
            self.relations = (Relation("r", self.pick(shapes)),)
        arrays = self.index_arrays() if self.chooses else ()
        body = self.expr(self.output_type(), _Scope(variables, arrays), fuel)
        params: tuple[Parameter, ...] = (*variables, *self.relations, *arrays)
        return Function("f", params, body)

    def index_arrays(self) -> tuple[IndexArray, ...]:
        n, m = self.input_sizes[:2]
        shapes: list[tuple[tuple[Affine, ...], Affine]] = [((n,), m), ((m,), n), ((n,), n), ((), n), ((n, m), m)]
        chosen = [self.pick(shapes) for _ in range(self.choose.below(3))]
        return tuple(IndexArray(name, sizes, size) for name, (sizes, size) in zip("pq", chosen, strict=False))

    def input_type(self) -> Type:
        a, b = self.pick(self.input_sizes), self.pick(self.input_sizes)
        options: list[Type] = [
            R,
            Array(a, R),
            Array(a, Array(b, R)),
            Pair(R, Array(a, R)),
            Array(a, Pair(R, R)),
            Array(a, Pair(Array(b, R), R)),
            Array(a, Array(b, Pair(R, R))),
            Pair(Pair(R, R), Array(a, Array(b, R))),
        ]
        return self.pick(options)

    def output_type(self) -> Type:
        a, b = self.pick(self.sizes), self.pick(self.sizes)
        options: list[tuple[int, Type]] = [
            (4, R),
            (3, Array(a, R)),
            (2, Array(a, Array(b, R))),
            (1, Pair(R, Array(a, R))),
            (1, Array(a, Pair(R, R))),
            (1, Pair(Array(a, Pair(R, R)), R)),
        ]
        return self.pick_weighted(options)

    def let_type(self, room: int) -> Type:
        a, b = self.pick(self.sizes), self.pick(self.sizes)
        options: list[tuple[int, Type]] = [(3, R), (1, Pair(R, R))]
        if room >= 1:
            options += [(4, Array(a, R)), (2, Array(a, Pair(R, R))), (1, Pair(R, Array(a, R)))]
        if room >= 2:
            options += [(2, Array(a, Array(b, R)))]
        return self.pick_weighted(options)

    # -- expressions

    def expr(self, kind: Type, scope: _Scope, fuel: int) -> Expr:
        """An expression of type `kind`, of about `fuel` operations and binders."""
        if kind is R:
            e = self.number(scope, fuel)
            scope.pool[-1].append(e)
            return e
        options: list[tuple[int, Callable[[], Expr]]] = [(6, lambda: self.introduction(kind, scope, fuel))]
        uses = [x for x in scope.variables if x.type is kind]
        if uses:
            options.append((3, lambda: self.pick(uses)))
        rows = [x for x in scope.variables if isinstance(x.type, Array) and x.type.element is kind]
        if rows:
            options.append((3, lambda: self.read(self.pick(rows), 1, scope)))
        parts = [(x, k) for x in scope.variables for k in _projections_to(x.type, kind)]
        if parts:
            options.append((3, lambda: Proj((choice := self.pick(parts))[1], choice[0])))
        if fuel > 1:
            options += [
                (2, lambda: self.under_bracket(kind, scope, fuel - 1)),
                (2, lambda: self.let(kind, scope, fuel - 1)),
                (1, lambda: self.projection(kind, scope, fuel - 1)),
            ]
        return self.pick_weighted(options)()

    def introduction(self, kind: Type, scope: _Scope, fuel: int) -> Expr:
        if isinstance(kind, Pair):
            left, right = self.split(fuel)
            return MakePair(self.expr(kind.first, scope, left), self.expr(kind.second, scope, right))
        assert isinstance(kind, Array)
        i = self.index()
        return Gen(i, kind.size, self.expr(kind.element, scope.under(i, kind.size), fuel - 1))

    def number(self, scope: _Scope, fuel: int) -> Expr:
        options: list[tuple[int, Callable[[], Expr]]] = [(1, self.literal), (5, lambda: self.leaf(scope))]
        if self.numbers:
            options.append((4, lambda: real(self.term(scope))))
        earlier = [e for made in scope.pool for e in made]
        if earlier:
            options.append((1, lambda: self.pick(earlier)))
        if fuel > 0:
            options += [
                (3, lambda: self.binary(scope, fuel, lambda a, b: Add(a, b, 1))),
                (2, lambda: self.binary(scope, fuel, lambda a, b: Add(a, b, -1))),
                (5, lambda: self.binary(scope, fuel, Mul)),
                (2, lambda: self.application(scope, fuel - 1)),
                (4, lambda: self.under_bracket(R, scope, fuel - 1)),
            ]
        if fuel > 1:
            options += [(5, lambda: self.let(R, scope, fuel - 1)), (1, lambda: self.projection(R, scope, fuel - 1))]
            if self.compares:
                options += [(6, lambda: self.comparing(scope, fuel - 1))]
            fitting = [r for r in self.routines if scope.depth + max(_axes(x.type) for x in r.params) <= DEPTH]
            if fitting:
                options += [(24, lambda: self.calling(self.pick(fitting), scope, fuel - 1))]
            if scope.depth < DEPTH:
                options += [(6, lambda: self.summation(scope, fuel - 1)), (1, lambda: self.element(scope, fuel - 1))]
                if self.chooses:
                    options += [(3, lambda: self.extremum(scope, fuel - 1)), (2, lambda: self.choice(scope, fuel - 1))]
        return self.pick_weighted(options)()

    def literal(self) -> Const:
        values: list[int | Fraction] = [1, 2, 0, -1, Fraction(1, 2), 3, Fraction(-2, 3)]
        return number(self.pick(values))

    def binary(self, scope: _Scope, fuel: int, make: Callable[[Expr, Expr], Expr]) -> Expr:
        left, right = self.split(fuel)
        return make(self.expr(R, scope, left), self.expr(R, scope, right))

    def application(self, scope: _Scope, fuel: int) -> Expr:
        e = self.expr(R, scope, fuel)
        if self.scalars == "powers" or self.chance(25):
            return self.pick([raise_to(e, 2), Mul(number(-1), e), raise_to(e, 3)])
        if self.scalars == "exact":
            name = self.pick(["relu", "abs", "max", "min", "recip"])
            if name in ("max", "min"):
                return call(name, e, self.leaf(scope))
            return call(name, Add(number(1), raise_to(e, 2), 1) if name == "recip" else e)
        name = self.pick(
            ["sin", "exp", "tanh", "log", "sqrt", "recip", "sigmoid", "cos", "erf", "softplus", "cosh", "logaddexp"]
        )
        if name in ("log", "sqrt", "recip"):
            e = Add(number(1), raise_to(e, 2), 1)
        elif name in ("exp", "cosh"):
            e = call("sin", e)
        elif name == "logaddexp":
            return call(name, e, self.leaf(scope))
        return call(name, e)

    def summation(self, scope: _Scope, fuel: int) -> Expr:
        i, size = self.index(), self.pick(self.sizes)
        return Sum(i, size, self.expr(R, scope.under(i, size), fuel))

    def extremum(self, scope: _Scope, fuel: int) -> Expr:
        """[there is a point] * max i:n where p. e"""
        sign, i, size, p, body = self.reduction(scope, fuel)
        return Bracket(exists([(i, size)], p), Extremum(sign, i, size, p, body))

    def choice(self, scope: _Scope, fuel: int) -> Expr:
        """[there is a point] * let k = argmax i:n where p. e in e', or with one such k for each value of an index."""
        left, right = self.split(fuel)
        name = self.pick(["k", "i", "y"])
        if scope.depth + 1 < DEPTH and self.chance(30):
            j, length = self.index(), self.pick(self.sizes)
            sign, i, size, _, body = self.reduction(scope.under(j, length), left)
            k = IndexArray(name, (length,), size)
            value: Expr = Gen(j, length, Choice(sign, i, size, TRUE, body))
            guard = exists([(i, size)], TRUE)
        else:
            sign, i, size, p, body = self.reduction(scope, left)
            k = IndexArray(name, (), size)
            value = Choice(sign, i, size, p, body)
            guard = exists([(i, size)], p)
        return Bracket(guard, Let(k, value, self.expr(R, scope.choosing(k), right)))

    def comparing(self, scope: _Scope, fuel: int) -> Expr:
        """let c = e0 < e1 in [c and p] * a + [not c] * b, or one such c for each value of an index."""
        left, right = self.split(fuel)
        op, name = self.pick(["<", "<=", "<", "="]), self.pick(["c", "k", "y"])
        guard = self.predicate(scope, 1) if self.chance(30) else TRUE
        if scope.depth + 1 < DEPTH and self.chance(30):
            j, length = self.index(), self.pick(self.sizes)
            inner = scope.under(j, length)
            asked = Compared(op, self.expr(R, inner, left // 2), self.expr(R, inner, left - left // 2))
            c = IndexArray(name, (length,), constant(2))
            within_scope = scope.choosing(c)
            e = Let(c, Gen(j, length, asked), self.expr(R, within_scope, right))
            return e
        asked = Compared(op, self.expr(R, scope, left // 2), self.expr(R, scope, left - left // 2))
        c = IndexArray(name, (), constant(2))
        inner = scope.choosing(c)
        true = holds(c)
        false = equal(atom_affine(Lookup(c, ())), constant(0))
        a, b = self.expr(R, inner, right // 2), self.expr(R, inner, right - right // 2)
        p = conjunction([guard, true])
        body = self.pick(
            [
                lambda: Add(Bracket(p, a), Bracket(conjunction([guard, false]), b), 1),
                lambda: Bracket(p, a),
                lambda: Bracket(disjunction([conjunction([guard, false]), p]), Add(a, b, -1)),
                lambda: Add(a, Bracket(conjunction([guard, false]), b), -1),
            ]
        )()
        return Let(c, bracket(guard, asked), bracket(guard, body))

    def calling(self, routine: Routine, scope: _Scope, fuel: int) -> Expr:
        """let y = f(e0, e1, ..) in e, where e reads y, maybe several times."""
        n, m = self.input_sizes[:2]
        named = dict.fromkeys(s for x in routine.params for axis in shape(x.type)[0] for s in axis.sizes)
        sizes: dict[Any, Affine] = {s: self.pick([n, m, constant(2), n + 1, constant(3)]) for s in named}
        arguments = []
        for x in routine.params:
            own, fuel = self.split(fuel)
            arguments.append(self.expr(with_sizes(x.type, sizes), scope, own))
        called = Apply(routine, tuple(arguments))
        y = Var(self.pick(_VARIABLE_NAMES), called.type)
        inner = scope.binding(y)
        left, right = self.split(fuel)
        parts = [self.reach(y, inner) for _ in range(1 + self.choose.below(3))]
        e = self.expr(R, inner, left)
        for k, (part, guards) in enumerate(parts):
            e = (Mul if k % 2 else lambda a, b: Add(a, b, 1))(e, bracket(conjunction(guards), part))
        return Let(y, called, Add(e, self.expr(R, inner, right), 1) if right else e)

    def reduction(self, scope: _Scope, fuel: int) -> tuple[int, Index, Affine, Predicate, Expr]:
        i, size = self.index(), self.pick(self.sizes)
        inner = scope.under(i, size)
        p = TRUE if self.chance(50) else self.predicate(inner, 1)
        return self.pick([1, -1]), i, size, p, self.expr(R, inner, fuel)

    def let(self, kind: Type, scope: _Scope, fuel: int) -> Expr:
        room = DEPTH - scope.depth
        held = self.let_type(room)
        left, right = self.split(fuel)
        x = Var(self.pick(_VARIABLE_NAMES), held)
        value = self.expr(held, scope, left)
        return Let(x, value, self.expr(kind, scope.binding(x), right))

    def projection(self, kind: Type, scope: _Scope, fuel: int) -> Expr:
        which = self.choose.below(2)
        other = R
        pair = Pair(other, kind) if which else Pair(kind, other)
        return Proj(which, self.expr(pair, scope, fuel))

    def element(self, scope: _Scope, fuel: int) -> Expr:
        """(gen i:n. e)[a] and the like."""
        size = self.pick(self.sizes)
        at = self.affine(scope, size)
        guard = TRUE if self.is_within(at, size, scope) else within(at, size)
        e = Access(self.expr(Array(size, R), scope, fuel), at, None)
        return e if guard is TRUE else Bracket(guard, e)

    def under_bracket(self, kind: Type, scope: _Scope, fuel: int) -> Expr:
        p = self.predicate(scope, 2)
        arrays = [shape(x.type)[0][0] for x in scope.variables if isinstance(x.type, Array)]
        if arrays and self.chance(40):
            size = self.pick(arrays)
            at = self.affine(scope, size)
            inside = conjunction([within(at, size), p] if self.chance(30) else [within(at, size)])
            return Bracket(inside, self.expr(kind, scope.knowing(at, size), fuel))
        if kind is R and self.chance(15):
            return Bracket(p, number(1))
        return Bracket(p, self.expr(kind, scope, fuel))

    # -- reading variables

    def leaf(self, scope: _Scope) -> Expr:
        """A number read from a variable, under a bracket that keeps the read in bounds where it is not plainly so."""
        x = self.pick(tuple(reversed(scope.variables)))
        e, guards = self.reach(x, scope)
        p = conjunction(guards)
        if guards and self.chance(20):
            p = conjunction([p, self.predicate(scope, 1)])
        return e if p is TRUE else Bracket(p, e)

    def reach(self, e: Expr, scope: _Scope) -> tuple[Expr, list[Predicate]]:
        guards: list[Predicate] = []
        while e.type is not R:
            e = Proj(self.choose.below(2), e) if isinstance(e.type, Pair) else self.at_some_place(e, scope, guards)
        return e, guards

    def read(self, e: Expr, times: int, scope: _Scope) -> Expr:
        guards: list[Predicate] = []
        for _ in range(times):
            e = self.at_some_place(e, scope, guards)
        p = conjunction(guards)
        return e if p is TRUE else Bracket(p, e)

    def at_some_place(self, e: Expr, scope: _Scope, guards: list[Predicate]) -> Expr:
        assert isinstance(e.type, Array)
        size = e.type.size
        at = self.affine(scope, size)
        if not self.is_within(at, size, scope):
            guards.append(within(at, size))
        return Access(e, at, None)

    def is_within(self, a: Affine, size: Affine, scope: _Scope) -> bool:
        """Whether 0 <= a < size plainly holds: by a bracket, or by the ranges of the indices in a.

        At a place that is reached, 0 <= i <= n - 1 for each binder i:n around it, and every size is at least 0.
        """
        if (a, size) in scope.facts:
            return True
        ranges = dict(scope.indices)
        least = most = constant(a.constant)
        for atom, k in a.terms:
            span = ranges[atom] if isinstance(atom, Index) else atom.array.size if isinstance(atom, Lookup) else None
            last = atom_affine(atom) * k if span is None else (span - 1) * k
            first = last if span is None else constant(0)
            least, most = (least + first, most + last) if k > 0 else (least + last, most + first)
        return all(
            bound.constant >= 0 and all(isinstance(atom, Size) and k > 0 for atom, k in bound.terms)
            for bound in (least, size - 1 - most)
        )

    def affine(self, scope: _Scope, size: Affine) -> Affine:
        """An affine expression at which to access an array of `size`: a plain index, a shift, a stride, a diagonal."""
        known = [a for a, s in scope.facts if s is size]
        if known and self.chance(60):
            return self.pick(known)
        looked_up = [] if not self.chooses else self.lookups(scope, size)
        if looked_up and self.chance(50):
            return self.pick(looked_up)
        fitting = [atom_affine(i) for i, n in scope.indices if n is size]
        if fitting and self.chance(60):
            i = self.pick(fitting)
            return size - 1 - i if self.chance(20) else i
        offset = self.pick([0, 1, -1, 2, -2])
        if not scope.indices:
            return self.pick([constant(offset), size - 1, constant(0)])
        i = atom_affine(self.pick(scope.indices)[0])
        j = atom_affine(self.pick(scope.indices)[0])
        return self.pick_weighted(
            [
                (4, i + offset),
                (3, i + j),
                (3, i - j + offset),
                (2, i * 2 + offset),
                (1, i * 2 - j),
                (1, size - 1 - i),
                (1, constant(abs(offset))),
                (1, -i + offset),
                (1, i * 0 + size - 1),
            ]
        )

    def lookups(self, scope: _Scope, size: Affine | None = None, depth: int = 2) -> list[Affine]:
        """Elements of index arrays at places plainly in range; if `size` is given, those that are indices below it."""
        found: list[Affine] = []
        for array in scope.arrays:
            if size is not None and array.size is not size:
                continue
            places = [
                [atom_affine(i) for i, n in scope.indices if n is axis]
                + (self.lookups(scope, axis, depth - 1) if depth else [])
                for axis in array.sizes
            ]
            if all(places):
                found.append(atom_affine(Lookup(array, tuple(map(self.pick, places)))))
        return found

    # -- predicates

    def predicate(self, scope: _Scope, fuel: int) -> Predicate:
        options: list[tuple[int, Callable[[], Predicate]]] = [(8, lambda: self.comparison(scope))]
        if self.relations:
            options.append((6, lambda: self.related(scope)))
        if fuel:
            options += [
                (3, lambda: conjunction([self.predicate(scope, fuel - 1), self.predicate(scope, fuel - 1)])),
                (3, lambda: disjunction([self.predicate(scope, fuel - 1), self.predicate(scope, fuel - 1)])),
                (2, lambda: self.existential(scope, fuel - 1)),
                (1, lambda: TRUE if self.choose.below(2) else FALSE),
            ]
        return self.pick_weighted(options)()

    def comparison(self, scope: _Scope) -> Predicate:
        a, b = self.term(scope), self.term(scope)
        return self.pick([less, at_most, equal, not_equal])(a, b)

    def term(self, scope: _Scope) -> Affine:
        offset = self.pick([0, 1, -1, 2])
        looked_up = self.lookups(scope) if self.chooses else []
        if looked_up and self.chance(40):
            return self.pick(looked_up) + offset
        if self.numbers and self.chance(10):
            return atom_affine(Size("k")) + offset
        if not scope.indices or self.chance(20):
            return self.pick([constant(offset + 1), self.pick(self.sizes) - 1, self.pick(self.sizes)])
        i = atom_affine(self.pick(scope.indices)[0])
        j = atom_affine(self.pick(scope.indices)[0])
        return self.pick_weighted([(4, i), (2, i + offset), (2, i * 2), (1, i + j), (1, i - j), (1, j * 3 - i)])

    def related(self, scope: _Scope) -> Predicate:
        relation = self.pick(self.relations)
        return Related(relation, tuple(self.affine(scope, size) for size in relation.sizes))

    def existential(self, scope: _Scope, fuel: int) -> Predicate:
        i, size = self.index(), self.pick(self.sizes)
        return Exists(i, size, self.predicate(scope.under(i, size), fuel))


def _axes(kind: Type) -> int:
    return len(shape(kind)[0])


def _projections_to(kind: Type, part: Type) -> list[int]:
    if not isinstance(kind, Pair):
        return []
    return [k for k, side in enumerate((kind.first, kind.second)) if side is part]


def random_function(
    rng: random.Random,
    *,
    scalars: Scalars = "powers",
    fuel: int = FUEL,
    chooses: bool = False,
    numbers: bool = False,
    compares: bool = False,
    routines: Sequence[Routine] = (),
) -> Function:
    """A random program. It may have, with `chooses`, index arrays, extrema and choices; with `numbers`, indices and
    sizes as numbers, and a size that no type determines; with `compares`, conditions on values; with `routines`, calls
    of these functions of arrays."""
    return _Builder(_Seeded(rng), scalars, chooses, numbers, compares, routines).function(fuel)


@st.composite
def functions(
    draw: Any,
    *,
    scalars: Scalars = "powers",
    fuel: int = FUEL,
    chooses: bool = False,
    numbers: bool = False,
    compares: bool = False,
) -> Function:
    """Random programs that shrink; `chooses`, `numbers` and `compares` as for `random_function`."""
    return _Builder(_Drawn(draw), scalars, chooses, numbers, compares).function(fuel)


# -- arguments


def input_sizes(f: Function) -> list[Affine]:
    """The sizes in the types of `f`'s parameters; a program may assume that all of them are at least 0."""
    return [size for p in f.params for size in sizes_of(p)]


def _sizes(f: Function, choose: Chooser) -> dict[str, int]:
    options = (2, 1, 3, 0, 2, 3, 4)
    values: dict[Any, int] = {s: options[choose.below(len(options))] for s in f.sizes}
    while values and any(a.value(values) < 0 for a in input_sizes(f)):
        smallest = min(values, key=lambda s: values[s])
        values[smallest] += 1
    for p in [p for p in f.params if isinstance(p, IndexArray)] * 2:  # one size may need another to be positive
        if all(a.value(values) for a in p.sizes):
            for s in p.size.sizes:
                values[s] = max(values[s], 1)
    return {s.name: value for s, value in values.items()}


_EXACT = [[Fraction(a, b) for b in (1, 1, 2, 3)] for a in (1, 2, 0, -1, 3, -2, 1, -3)]
_FLOATS = [[float(value) * 0.5 for value in row] for row in _EXACT]


def _filled(extents: tuple[int, ...], kind: type, one: Callable[[], Any]) -> Any:
    data = np.empty(extents, kind)
    for place in np.ndindex(*extents):
        data[place] = one()
    return data


def _values(f: Function, sizes: dict[str, int], choose: Chooser, exact: bool, array: Any = _filled) -> dict[str, Any]:
    atoms: dict[Any, int] = {s: sizes[s.name] for s in f.sizes}

    table = _EXACT if exact else _FLOATS

    def one() -> Any:
        return table[choose.below(8)][choose.below(4)]

    def filled(kind: Type) -> Any:
        if isinstance(kind, Pair):
            return (filled(kind.first), filled(kind.second))
        extents = tuple(max(a.value(atoms), 0) for a in shape(kind)[0])
        return array(extents, object if exact else float, one) if extents else one()

    values: dict[str, Any] = {}
    for p in f.params:
        if isinstance(p, Relation):
            extents = tuple(max(a.value(atoms), 0) for a in p.sizes)
            values[p.name] = array(extents, bool, lambda: choose.below(2) == 1)
        elif isinstance(p, IndexArray):
            extents = tuple(a.value(atoms) for a in p.sizes)
            most = p.size.value(atoms)
            values[p.name] = array(extents, np.int64, lambda most=most: choose.below(most))
        else:
            values[p.name] = filled(struct_of_arrays(p.type))
    return values


def random_sizes(f: Function, rng: random.Random) -> dict[str, int]:
    """Sizes from 0 to 4 at which no parameter's size is negative."""
    return _sizes(f, _Seeded(rng))


def random_arguments(f: Function, rng: random.Random, sizes: dict[str, int], *, exact: bool = True) -> dict[str, Any]:
    """Arguments of `f` by name: small fractions (in arrays of objects) or floats; booleans for relations, integers for
    index arrays."""
    return _values(f, sizes, _Seeded(rng), exact)


def blank_arguments(f: Function, sizes: dict[str, int]) -> dict[str, Any]:
    """Arguments of `f` by name with zeros in all arrays, for uses that depend only on their shapes."""
    return _values(f, sizes, _Seeded(random.Random(0)), False, lambda extents, kind, one: np.zeros(extents, kind))


@st.composite
def arguments(draw: Any, f: Function, *, exact: bool = True) -> tuple[dict[str, int], dict[str, Any]]:
    """Sizes of `f` from 0 to 4, and arguments of these sizes, both by name; relations are boolean arrays."""
    choose = _Drawn(draw)
    sizes = _sizes(f, choose)
    return sizes, _values(f, sizes, choose, exact)


def relation_data(f: Function, values: dict[str, Any]) -> dict[str, Any]:
    """The arguments among `values` on which a cost depends besides the sizes: relations, index arrays, and, if the
    program chooses indices, the arrays by which it chooses."""
    if any(isinstance(e, Let) and isinstance(e.var, IndexArray) for e in _nodes(f.body)):
        return {p.name: values[p.name] for p in f.params if p.name in values}
    return {p.name: values[p.name] for p in f.params if not isinstance(p, Var)}


def _nodes(root: Expr) -> set[Expr]:
    found: set[Expr] = set()
    stack = [root]
    while stack:
        e = stack.pop()
        if e not in found:
            found.add(e)
            stack += children(e)
    return found
