"""Equations between index expressions, solved for some of their names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from .predicates import moved
from .semantics import names_in, names_in_atom
from .trees import Affine, Element

Equations = Iterable[tuple[Affine, Affine]]


def names_of(places: Iterable[Affine]) -> frozenset[str]:
    """The names in some index expressions."""
    return frozenset().union(*map(names_in, places))


def isolated(value: Affine, x: str) -> Affine | None:
    """The only integer x at which `value` is 0, whatever the other names are; None if it can't be written."""
    for atom, k in value.terms:
        if atom == x:
            rest = value - Affine(((atom, k),))
            if x in names_in(rest) or rest.constant % k or any(c % k for _, c in rest.terms):
                return None
            return Affine(tuple((y, -c // k) for y, c in rest.terms), -rest.constant // k)
    return None


def solve(equations: Equations, unknown: Collection[str]) -> tuple[dict[str, Affine], list[Affine]] | None:
    """Values of unknown names that make both sides of each equation equal, and the expressions that must be 0 besides.

    Names that no equation determines are left out, and stay in the values of others. Elements of an array are made
    equal by making their places equal. None if no solution exists or is found.
    """
    values: dict[str, Affine] = {}
    rest: list[Affine] = []
    waiting = [_Waiting(a, b, unknown) for a, b in dict.fromkeys(equations) if a != b]
    while waiting:
        closed = next((k for k, e in enumerate(waiting) if not e.open), None)
        if closed is not None:
            value = waiting.pop(closed).difference
            if not value.terms and value.constant:
                return None
            if value.terms:
                rest.append(value)
            continue
        found = _determined(waiting)
        if found is not None:
            k, x, value = found
            del waiting[k]
            new = {x: value}
            values = {y: moved(a, new) for y, a in values.items()}
            values[x] = value
            put = (_put(e, new, unknown) if x in e.names else e for e in waiting)
            waiting = [e for e in put if e is not None]
            continue
        parts = next(((k, more) for k, e in enumerate(waiting) if (more := _parts(e, unknown)) is not None), None)
        if parts is None:
            return None
        k, more = parts
        del waiting[k]
        waiting += [_Waiting(a, b, unknown) for a, b in more]
    return values, rest


class _Waiting:
    """An equation a = b: its names, and the unknown ones that don't cancel out."""

    __slots__ = ("a", "b", "difference", "names", "open")

    def __init__(self, a: Affine, b: Affine, unknown: Collection[str]) -> None:
        self.a, self.b = a, b
        self.difference = a - b
        self.names = names_in(a) | names_in(b)
        self.open = sorted(x for x in names_in(self.difference) if x in unknown)


def _put(e: _Waiting, new: Mapping[str, Affine], unknown: Collection[str]) -> _Waiting | None:
    """An equation with a name's value; None if that makes both sides the same."""
    a, b = moved(e.a, new), moved(e.b, new)
    return None if a == b else _Waiting(a, b, unknown)


def _determined(waiting: Sequence[_Waiting]) -> tuple[int, str, Affine] | None:
    """The place of an equation that determines a name, preferably its only unknown one, the name, and its value."""
    for only in (True, False):
        for k, e in enumerate(waiting):
            for x in e.open if len(e.open) == 1 or not only else ():
                value = isolated(e.difference, x)
                if value is not None:
                    return k, x, value
    return None


def _parts(e: _Waiting, unknown: Collection[str]) -> list[tuple[Affine, Affine]] | None:
    """Equations between the places of two elements of one array, and between the remaining terms."""
    for left, c in e.a.terms:
        for right, d in e.b.terms:
            if not isinstance(left, Element) or not isinstance(right, Element) or (left.array, c) != (right.array, d):
                continue
            if any(x in unknown for x in names_in_atom(left) | names_in_atom(right)) and len(left.at) == len(right.at):
                beside = (e.a - Affine(((left, c),)), e.b - Affine(((right, d),)))
                return [*zip(left.at, right.at, strict=True), beside]
    return None
