"""Factors of a row and a summed index that come apart into one of each: exponentials, powers and differences.

exp(s * (a[i] - b[j])) is exp(s * (a[i] - c)) * exp(s * (c - b[j])) whatever c is, so that sums over j <= i of such
factors are computed in chunks (`arrays.sums.chunked`), as are those of g^(i - j) and of x[i] - x[j].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tensorlang.language.affine import Index
from tensorlang.language.grammar import Add, Call, Const, Expr, Mul, children, number
from tensorlang.lowering.plan.dependence import FreeIndices, variable
from tensorlang.lowering.plan.numbers import is_of_numbers

_ZERO = number(0)
_MOST_DIFFERENCES = 2

Side = tuple[Expr | None, Expr, Expr]
"""s, a and b of s * (a - b), where a does not depend on what is summed, nor b on the row; s is 1 if it is None."""

Free = Callable[[Expr], frozenset[Index]]


@dataclass(frozen=True)
class Pairs:
    """The factors that depend on both a row and what is summed: exp(s * (a - b)), g^(a - b) and a - b."""

    factors: tuple[Expr, ...] = ()
    exponents: tuple[Side, ...] = ()
    powers: tuple[tuple[Expr, Expr, Expr], ...] = ()
    differences: tuple[tuple[Expr, Expr], ...] = ()

    @property
    def is_exponential(self) -> bool:
        """Whether they are exp(a - b) alone."""
        return not (self.powers or self.differences) and [s for s, _, _ in self.exponents] == [None]

    @property
    def parts(self) -> tuple[Expr, ...]:
        """The sides of the factors, each of which is computed once for each row or each summed index."""
        sides = (*self.exponents, *self.powers, *self.differences)
        return tuple(e for side in sides for e in side if e is not None)

    @property
    def of_numbers(self) -> tuple[Expr, ...]:
        """The parts of powers and differences: each has one value for each row, whatever else is summed over."""
        return tuple(e for side in (*self.powers, *self.differences) for e in side)


def may_decay(e: Expr) -> bool:
    """Whether `e` is an exponential, or a power of another exponent than a number, that depends on several indices."""
    match e:
        case Call(f, (u,)) if f.name == "exp":
            return len(_free(u)) > 1
        case Call(f, (_, u)) if f.name == "power":
            return len(_free(u)) > 1
        case _:
            return False


def is_difference(e: Expr) -> bool:
    """Whether `e` is the difference of two elements of one array, at two indices."""
    if not isinstance(e, Add) or e.sign > 0 or variable(e.left) is None or variable(e.left) is not variable(e.right):
        return False
    left, right = _free(e.left), _free(e.right)
    return len(left - right) == len(right - left) == 1


def pairs_of(factors: Sequence[Expr], row: Index, summed: Index, free: Free | None = None) -> Pairs | None:
    """The `factors` that depend on both `row` and `summed`; None if one of them has another form, or if there are too
    many differences. `free` gives the indices that an expression depends on."""
    depends = _free if free is None else free
    found = [e for e in factors if {row, summed} <= depends(e)]
    exponents: list[Side] = []
    powers: list[tuple[Expr, Expr, Expr]] = []
    differences: list[tuple[Expr, Expr]] = []
    for e in found:
        match e:
            case Call(f, (u,)) if f.name == "exp":
                sides = _sides(u, row, summed, depends)
                if sides is None:
                    return None
                exponents += sides
            case Call(f, (g, u)) if f.name == "power" and depends(g).isdisjoint({row, summed}):
                sides = _sides(u, row, summed, depends) if _is_whole(u) else None
                if sides is None or len(sides) != 1:
                    return None
                s, a, b = sides[0]
                powers.append((g, a, b) if s is None else (g, _times(s, a), _times(s, b)))
            case Add(a, b, -1) if is_difference(e):
                if row in depends(a):
                    differences.append((a, b))
                else:
                    differences.append((Mul(number(-1), b), Mul(number(-1), a)))
            case _:
                return None
    if len(differences) > _MOST_DIFFERENCES:
        return None
    return Pairs(tuple(found), tuple(exponents), tuple(powers), tuple(differences))


def _free(e: Expr) -> frozenset[Index]:
    return FreeIndices().free(e, {})


def _sides(u: Expr, row: Index, summed: Index, free: Free) -> list[Side] | None:
    """`u` as a sum of s * (a - b); None if it has no such form."""
    at = free(u)
    if summed not in at:
        return [(None, u, _ZERO)]
    if row not in at:
        return [(None, _ZERO, _times(number(-1), u))]
    match u:
        case Add(x, y, sign):
            left, right = _sides(x, row, summed, free), _sides(y, row, summed, free)
            if left is None or right is None:
                return None
            return _together([*left, *(right if sign > 0 else _scaled(number(-1), right))])
        case Mul(x, y):
            for s, z in ((x, y), (y, x)):
                if free(s).isdisjoint({row, summed}):
                    inner = _sides(z, row, summed, free)
                    return None if inner is None else _scaled(s, inner)
    return None


def _scaled(s: Expr, sides: Sequence[Side]) -> list[Side]:
    if isinstance(s, Const) and abs(s.value) == 1:
        return [(None, _times(s, a), _times(s, b)) if t is None else (_times(s, t), a, b) for t, a, b in sides]
    return [(s if t is None else _times(s, t), a, b) for t, a, b in sides]


def _together(sides: Sequence[Side]) -> list[Side]:
    """The sides, with those that have no factor s added up to one."""
    plain = [side for side in sides if side[0] is None]
    if len(plain) < 2:
        return [*sides]
    a, b = plain[0][1:]
    for _, x, y in plain[1:]:
        a, b = _plus(a, x), _plus(b, y)
    return [(None, a, b), *(side for side in sides if side[0] is not None)]


def _plus(a: Expr, b: Expr) -> Expr:
    return b if a is _ZERO else a if b is _ZERO else Add(a, b, 1)


def _times(s: Expr, e: Expr) -> Expr:
    if isinstance(s, Const) and s.value == 1:
        return e
    if isinstance(s, Const) and isinstance(e, Const):
        return number(s.value * e.value)
    if isinstance(s, Const) and isinstance(e, Mul) and isinstance(e.left, Const):
        return _times(number(s.value * e.left.value), e.right)
    return Mul(s, e)


def _is_whole(u: Expr) -> bool:
    """Whether `u` is a polynomial, with integer coefficients, in the numbers that indices are."""
    stack: list[Expr] = [u]
    while stack:
        e = stack.pop()
        x = variable(e)
        if x is not None:
            if not is_of_numbers(x):
                return False
        elif isinstance(e, Const):
            if e.value.denominator != 1:
                return False
        elif isinstance(e, Add | Mul):
            stack += children(e)
        else:
            return False
    return True
