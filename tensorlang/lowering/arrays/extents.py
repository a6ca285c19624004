"""Static integers for all sizes: lengths of axes, and where slices and blocks begin and end.

integer  ::=  affine  |  the greatest of integers  |  the least of integers
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tensorlang.costs.quasi import quotient
from tensorlang.language.affine import Affine, constant
from tensorlang.language.predicates import Predicate, at_most, conjunction, disjunction


@dataclass(frozen=True)
class ExtremeInteger:
    """The greatest, or the least, of several static integers."""

    is_greatest: bool
    parts: tuple[Static, ...]


Static = Affine | ExtremeInteger
ZERO, ONE = constant(0), constant(1)


def extreme(is_greatest: bool, several: Iterable[Static]) -> Static:
    """The greatest, or the least, of `several`; of those that differ by a constant only one is kept."""
    kept: list[Static] = []
    for n in several:
        for part in n.parts if isinstance(n, ExtremeInteger) and n.is_greatest == is_greatest else (n,):
            twin = next((k for k, other in enumerate(kept) if _is_near(part, other)), None)
            if twin is None:
                kept.append(part)
            elif (_above(part, kept[twin]) > 0) == is_greatest:
                kept[twin] = part
    return kept[0] if len(kept) == 1 else ExtremeInteger(is_greatest, tuple(kept))


def _is_near(a: Static, b: Static) -> bool:
    return a == b or (isinstance(a, Affine) and isinstance(b, Affine) and (a - b).is_constant)


def _above(a: Static, b: Static) -> int:
    return (a - b).constant if isinstance(a, Affine) and isinstance(b, Affine) else 0


def each(n: Static, change: Callable[[Affine], Affine], reverses: bool = False) -> Static:
    """`n` after a monotone change of its parts; one that `reverses` their order makes greatest least."""
    if isinstance(n, Affine):
        return change(n)
    return extreme(n.is_greatest != reverses, (each(part, change, reverses) for part in n.parts))


def times(n: Static, k: int) -> Static:
    """k * n."""
    return each(n, lambda a: a * k, k < 0)


def plus(a: Static, b: Static) -> Static:
    """a + b."""
    if isinstance(a, Affine) and isinstance(b, Affine):
        return a + b
    if isinstance(a, ExtremeInteger):
        return extreme(a.is_greatest, (plus(part, b) for part in a.parts))
    return plus(b, a)


def less(a: Static, b: Static) -> Static:
    """a - b."""
    return plus(a, times(b, -1))


def floored(n: Static, divisor: int) -> Static:
    """n / divisor, rounded down."""
    return each(n, lambda a: quotient(a, divisor))


def length(n: Static) -> Static:
    """n, or 0 if it is negative: how many integers there are from 0 to n - 1."""
    if isinstance(n, Affine) and not n.terms:
        return constant(max(n.constant, 0))
    if isinstance(n, Affine) and n.constant >= 0 and all(k > 0 for _, k in n.terms):
        return n
    return extreme(True, (ZERO, n))


def sliced(n: Static, start: Static, stop: Static | None, step: int) -> Static:
    """The length of an axis of length `n` from `start`, which is not negative, to `stop` in steps."""
    end = n if stop is None else extreme(False, (stop, n))
    found = plus(less(end, start), constant(step - 1))
    return length(found if step == 1 else floored(found, step))


def is_positive(n: Static) -> Predicate:
    """n > 0."""
    if isinstance(n, Affine):
        return at_most(ONE, n)
    parts = map(is_positive, n.parts)
    return disjunction(parts) if n.is_greatest else conjunction(parts)


def compared(a: Static, op: str, b: Static) -> Predicate:
    """a op b."""
    match op:
        case ">":
            return is_positive(less(a, b))
        case "<":
            return is_positive(less(b, a))
        case ">=":
            return is_positive(plus(less(a, b), ONE))
        case "<=":
            return is_positive(plus(less(b, a), ONE))
        case _:
            return conjunction([compared(a, ">=", b), compared(a, "<=", b)])
