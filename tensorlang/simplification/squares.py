"""Squares of differences in sums, multiplied out: this leaves products of matrices, and rounds differently.

    gen i, k. sum j. (x[i, j] - c[k, j])^2
        ->  gen i, k. sum j. x[i, j]^2 - 2 * x[i, j] * c[k, j] + c[k, j]^2

The distance between points far from 0 is then a small difference of large numbers: its error is relative to the largest
of the squares, not to the distance. So this is only done on request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce as fold

from tensorlang.budget import limited
from tensorlang.language.affine import Affine, Atom, Index
from tensorlang.language.function import Function, derived
from tensorlang.language.grammar import (
    Access,
    Add,
    Bracket,
    Call,
    Const,
    Expr,
    Gen,
    Let,
    Mul,
    Sum,
    Var,
    access,
    children,
)
from tensorlang.language.rebuilt import with_children
from tensorlang.recursion import Deep, call, run
from tensorlang.simplification import simplify

_MOST = 4
"""The most terms of a difference that is multiplied out."""

_Made = tuple[tuple[Index, ...], Expr]
"""The indices of an array, and its element at these."""

_Term = tuple[Fraction, tuple[Expr, ...]]
"""A number times elements of arrays."""


@limited
def expand_squares(f: Function) -> Function:
    """`f` with squares in sums multiplied out, where no element in the square depends on all of its indices.

    Distances between all points of two sets become products of matrices, which is several times as fast. But it rounds
    differently: the error of a distance is relative to the squares of the points, not to the distance. Apply it to a
    derivative, not to the program that is differentiated. A program without such squares comes back as it is,
    simplified.

    >>> f = tl.parse("f(x: [n][d]R, c: [m][d]R) = gen i:n. min k:m. sum j:d. (x[i, j] - c[k, j])^2")
    >>> print(tl.expand_squares(f))
    f(x: [n][d]R, c: [m][d]R) =
      gen i:n. min j:m. sum k:d. x[i, k] * x[i, k] - 2 * (x[i, k] * c[j, k]) + c[j, k] * c[j, k]
    """
    f = simplify(f)
    body = run(_Expanding().of(f.body, False))
    return f if body is f.body else derived(Function(f.name, f.params, body), f)


@dataclass
class _Expanding:
    """The expansion of a program; it knows the definitions of variables that are polynomials of elements."""

    given: dict[Var, _Made] = field(default_factory=dict)
    memo: dict[tuple[Expr, bool], Expr] = field(default_factory=dict)

    def of(self, e: Expr, summed: bool) -> Deep[Expr]:
        """`e` expanded; with `summed` it is a term of a sum."""
        key = e, summed
        if key not in self.memo:
            square = _squared(e) if summed else None
            made = None if square is None else self._multiplied_out(square)
            if made is None:
                if isinstance(e, Let) and isinstance(e.var, Var):
                    self._note(e.var, e.value)
                inner = isinstance(e, Sum) or (summed and isinstance(e, Bracket | Add | Mul))
                parts = []
                for part in children(e):
                    parts.append((yield from call(self.of(part, inner))))
                made = with_children(e, parts)
            self.memo[key] = made
        return self.memo[key]

    def _note(self, x: Var, e: Expr) -> None:
        own: list[Index] = []
        while isinstance(e, Gen):
            own.append(e.index)
            e = e.body
        if _terms(e, {}) is not None:
            self.given[x] = tuple(own), e

    def _multiplied_out(self, e: Expr) -> Expr | None:
        terms = _terms(e, self.given)
        if terms is None or not 1 < len(terms) <= _MOST:
            return None
        axes = [_indices(part) for _, parts in terms for part in parts]
        every = frozenset[Index]().union(*axes)
        if every in axes:
            return None
        total: Expr | None = None
        for k, (a, parts) in enumerate(terms):
            square: Expr | None = Const(a * a) if abs(a) != 1 else None
            for part in parts:
                factor = Mul(part, part)
                square = factor if square is None else Mul(square, factor)
            assert square is not None
            total = square if total is None else Add(total, square, 1)
            for b, others in terms[k + 1 :]:
                product = Mul(Const(abs(2 * a * b)), fold(Mul, (*parts, *others)))
                total = Add(total, product, 1 if a * b > 0 else -1)
        return total


def _squared(e: Expr) -> Expr | None:
    """The expression that `e` is the square of."""
    if isinstance(e, Mul) and e.left is e.right:
        return e.left
    is_power = isinstance(e, Call) and e.function.name == "pow" and e.function.exponent == 2
    return e.arguments[0] if is_power and isinstance(e, Call) else None


def _terms(e: Expr, given: Mapping[Var, _Made]) -> list[_Term] | None:
    """`e` as a sum of products of elements, with those of `given` arrays replaced by their definitions; else None."""
    found: list[_Term] = []
    stack: list[tuple[Fraction, list[Expr], list[Expr]]] = [(Fraction(1), [e], [])]
    while stack:
        number, pending, done = stack.pop()
        if not pending:
            found.append((number, tuple(done)))
            continue
        part, *rest = pending
        match part:
            case Const(value):
                stack.append((number * value, rest, done))
            case Mul(a, b):
                stack.append((number, [a, b, *rest], done))
            case Add(a, b, sign):
                stack.append((number * sign, [b, *rest], done))
                stack.append((number, [a, *rest], done))
            case Access() | Var():
                whole, at = _read(part)
                made = given.get(whole) if isinstance(whole, Var) else None
                if made is not None and len(made[0]) == len(at):
                    body = run(_at(made[1], dict(zip(made[0], at, strict=True)), {}))
                    stack.append((number, [body, *rest], done))
                else:
                    stack.append((number, rest, [*done, part]))
            case _:
                return None
        if len(stack) + len(found) > _MOST:
            return None
    return found if all(number for number, _ in found) else None


def _read(e: Expr) -> tuple[Expr, list[Affine]]:
    """The array that `e` reads, and where."""
    at: list[Affine] = []
    while isinstance(e, Access):
        at.append(e.at)
        e = e.body
    return e, at[::-1]


def _indices(e: Expr) -> frozenset[Index]:
    return frozenset(i for a in _read(e)[1] for i in a.free if isinstance(i, Index))


def _at(e: Expr, at: Mapping[Atom, Affine], memo: dict[Expr, Expr]) -> Deep[Expr]:
    """`e` at the places `at` of its indices."""
    if e not in memo:
        if isinstance(e, Access | Var):
            whole, read = _read(e)
            memo[e] = access(whole, *(a.substitute(at) for a in read))
        else:
            parts = []
            for part in children(e):
                parts.append((yield from call(_at(part, at, memo))))
            memo[e] = with_children(e, parts)
    return memo[e]
