"""Equations between index expressions, solved for some of their names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from proofs.checker.predicates import moved
from proofs.checker.semantics import names_in, names_in_atom
from proofs.checker.trees import Affine, Element

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
    """Values of unknown names that make both sides of each equation equal, and what else must be 0 for that.

    Names that no equation determines are left out, and stay in the values of others. Elements of an array are made
    equal by making their places so. None if that is impossible or not seen.
    """
    values: dict[str, Affine] = {}
    rest: list[Affine] = []
    waiting = [(a, b) for a, b in equations]
    while waiting:
        found = _first(waiting, unknown, values)
        if found is None:
            return None
        k, x, value, more = found
        del waiting[k]
        waiting += more
        if x is not None:
            values = {y: moved(a, {x: value}) for y, a in values.items()}
            values[x] = value
            waiting = [(moved(a, {x: value}), moved(b, {x: value})) for a, b in waiting]
        elif value is not None:
            if not value.terms and value.constant:
                return None
            if value.terms:
                rest.append(value)
    return values, [a for a in rest]


def _first(
    waiting: list[tuple[Affine, Affine]], unknown: Collection[str], values: Mapping[str, Affine]
) -> tuple[int, str | None, Affine, list[tuple[Affine, Affine]]] | None:
    """The place of an equation that can be dealt with, and what it determines, or makes of it."""
    for most in (0, 1, 99):
        for k, (a, b) in enumerate(waiting):
            left = a - b
            open_names = [x for x in sorted(names_in(left)) if x in unknown and x not in values]
            if not open_names:
                return k, None, left, []
            if len(open_names) <= most:
                for x in open_names:
                    value = isolated(left, x)
                    if value is not None:
                        return k, x, value, []
    for k, (a, b) in enumerate(waiting):
        for e, c in a.terms:
            for f, d in b.terms:
                if not isinstance(e, Element) or not isinstance(f, Element) or (e.array, c) != (f.array, d):
                    continue
                if any(x in unknown for x in names_in_atom(e) | names_in_atom(f)) and len(e.at) == len(f.at):
                    rest = (a - Affine(((e, c),)), b - Affine(((f, d),)))
                    return k, None, Affine(()), [*zip(e.at, f.at, strict=True), rest]
    return None
