"""Readable comparisons: a = 0 and a >= 0 with terms on both sides, and chains such as 0 <= i - j < m."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tensorlang.language.affine import Affine, Atom, Size, constant
from tensorlang.language.predicates import Equal, NonNegative, Predicate

Order = Callable[[Atom], tuple[bool, str]]
"""The order in which terms are written: indices before sizes, then by spelling."""


@dataclass(frozen=True, slots=True)
class Chain:
    """sides[0] operators[0] sides[1] ..., with the operators <, <=, = and !=."""

    sides: tuple[Affine, ...]
    operators: tuple[str, ...]

    def joined(self, other: Chain) -> Chain | None:
        """Both as one chain, if the last side of this one is the first side of the other; else None."""
        alike = ("=" in self.operators) == ("=" in other.operators)
        if self.sides[-1] is not other.sides[0] or not alike:
            return None
        return Chain(self.sides + other.sides[1:], self.operators + other.operators)

    def reversed(self) -> Chain:
        """The chain, an equality, read from the right."""
        return Chain(self.sides[::-1], self.operators)


def chains(parts: Sequence[Equal | NonNegative], order: Order) -> list[Chain]:
    """The conjunction of `parts` as equivalent chains, in the same order."""
    found: list[Chain] = []
    position = 0
    while position < len(parts):
        part = parts[position]
        following = parts[position + 1] if position + 1 < len(parts) else None
        position += 1
        if isinstance(part, Equal):
            new = [_equality(part.difference, order)]
        elif isinstance(following, NonNegative) and _between(part.value, following.value):
            new = _range(part.value, following.value)
            position += 1
        else:
            new = [_inequality(part.value)]
        for chain in new:
            _append(found, chain)
    return found


def unequal(first: Predicate, second: Predicate) -> Chain | None:
    """`a != b` if `first or second` is equivalent to that; else None."""
    if not (isinstance(first, NonNegative) and isinstance(second, NonNegative)):
        return None
    if first.value + second.value is not constant(-2):
        return None
    positive, negative, c = _split(first.value + 1)
    return Chain((negative + max(-c, 0), positive + max(c, 0)), ("!=",))


def _append(found: list[Chain], chain: Chain) -> None:
    last = found[-1] if found else None
    options = [chain, chain.reversed()] if chain.operators == ("=",) else [chain]
    for option in options:
        longer = last.joined(option) if last is not None else None
        if longer is not None:
            found[-1] = longer
            return
    found.append(chain)


def _equality(difference: Affine, order: Order) -> Chain:
    if difference.coefficient(min(difference.atoms, key=order)) < 0:
        difference = -difference
    positive, negative, c = _split(difference)
    return Chain((positive + max(c, 0), negative + max(-c, 0)), ("=",))


def _inequality(value: Affine) -> Chain:
    """value >= 0 with positive coefficients only, strict where that saves a constant."""
    high, low, c = _split(value)
    if c < 0 and high.terms and (low.terms or c == -1):
        return Chain((low - (c + 1), high), ("<",))
    if c > 0 and not high.terms:
        return Chain((low, constant(c + 1)), ("<",))
    return Chain((low + max(-c, 0), high + max(c, 0)), ("<=",))


def _between(low: Affine, high: Affine) -> bool:
    """Whether low >= 0 and high >= 0 bound the same combination of indices from below and from above."""
    inner = _index_part(low)
    return bool(inner.terms) and _index_part(high) is -inner


def _range(low: Affine, high: Affine) -> list[Chain]:
    """low >= 0 and high >= 0 as 0 <= low < n, or as a <= i < b, or apart, whichever is shortest."""
    whole = Chain((constant(0), low, low + high + 1), ("<=", "<"))
    inner = _index_part(low)
    bare = Chain((inner - low, inner, high + inner + 1), ("<=", "<"))
    apart = [_inequality(low), _inequality(high)]
    together = apart[0].joined(apart[1])
    # readers expect the range of an index to start at 0, even if that takes one more term
    usual = any(k > 0 for _, k in inner.terms)
    options = [(_length([whole]) - usual, [whole]), (_length(apart), apart), (_length([bare]), [bare])]
    if together is not None:
        options[1] = (_length([together]), [together])
    return min(options, key=lambda option: option[0])[1]


def _length(written: Iterable[Chain]) -> int:
    return sum(_terms(side) for chain in written for side in chain.sides)


def _terms(a: Affine) -> int:
    """The number of terms, one more if the first one has a minus."""
    leads_with_minus = bool(a.terms) and all(k < 0 for _, k in a.terms)
    return len(a.terms) + bool(a.constant or not a.terms) + leads_with_minus


def _index_part(a: Affine) -> Affine:
    return Affine(tuple((atom, k) for atom, k in a.terms if not isinstance(atom, Size)), 0)


def _split(a: Affine) -> tuple[Affine, Affine, int]:
    """b, c, k with a = b - c + k, where b and c have positive coefficients and no constants."""
    positive = Affine(tuple((atom, k) for atom, k in a.terms if k > 0), 0)
    negative = Affine(tuple((atom, -k) for atom, k in a.terms if k < 0), 0)
    return positive, negative, a.constant
