"""The program of a function that JAX traces only at numbers: programs at several sizes, and a program that fits all.

The programs have the same text except for some numbers. Each number is fitted by an affine expression in the sizes, or
the inverse of one, and the result is compared with programs at sizes that were not used for the fit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import jax

from tensorlang.errors import TensorlangError
from tensorlang.jaxprs.importer import Program
from tensorlang.jaxprs.refusal import Unsupported
from tensorlang.jaxprs.sizes import affine, at
from tensorlang.language.affine import Affine, Size, atom_affine, constant
from tensorlang.language.function import Function
from tensorlang.surface.parse import reread

PRIMES = (11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71)
"""The sizes at which functions are traced, all distinct, so that none is mistaken for another."""

_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+|/\d+)?(?!\w)")

Point = dict[str, int]


def fitted(translated: Callable[[Any], Program], given: Any) -> tuple[Function, Program, str]:
    """The function with named sizes, fitted to the programs that `translated` returns at numbers; the first of these,
    and a text saying where it was fitted. Raises `Unsupported`."""
    names = list(dict.fromkeys(s.name for x in jax.tree.leaves(given) for s in _named(x)))
    if 4 * len(names) > len(PRIMES):
        raise Unsupported(f"{len(names)} sizes with names are too many to be told apart")
    known: dict[str, Program] = {}
    refused: Unsupported | None = None
    orders = [("", names), (" > ", names[::-1]), (" < ", names)] if len(names) > 1 else [("", names)]
    for sign, order in orders:  # first for any order of the sizes, then for one order
        points = _points(order, both=not sign)
        programs = []
        for point in points:
            if str(point) not in known:
                known[str(point)] = translated(at(given, point))
            programs.append(known[str(point)])
        try:
            function = _fitted([str(p.function) for p in programs], points)
        except Unsupported as why:
            refused = refused or why
            continue
        seen = "; ".join(", ".join(f"{name} = {point[name]}" for name in names) for point in points)
        where = f" where {sign.join(names)}," if sign else ""
        return function, programs[0], f"the program has the same form at all sizes{where} as at {seen}"
    assert refused is not None
    raise refused


def form(f: Function) -> str:
    """The text of a program without its numbers, which is the same at all sizes at which a fit holds."""
    return _NUMBER.sub("#", _text(str(f)))


def _named(x: Any) -> list[Size]:
    return [s for d in getattr(x, "shape", ()) for s in affine(d).atoms if isinstance(s, Size)]


def _points(names: Sequence[str], both: bool) -> list[Point]:
    """Points with sizes increasing in the order of `names`: one point, one with each size changed, and two with all
    sizes changed, the last of them in reverse order if `both`."""
    k = len(names)
    parts = [PRIMES[j::4] for j in range(4)]
    first = {name: parts[0][j] for j, name in enumerate(names)}
    moved = [{**first, name: parts[1][j]} for j, name in enumerate(names)]
    last = parts[3][:k]
    return [first, *moved, dict(zip(names, parts[2], strict=False)),
            dict(zip(names, last[::-1] if both else last, strict=True))]  # fmt: skip


def _text(printed: str) -> str:
    return " ".join(printed.split())


def _fitted(texts: Sequence[str], points: Sequence[Point]) -> Function:
    """The program that has these texts at these points."""
    texts = [_text(text) for text in texts]
    parts = [_NUMBER.split(text) for text in texts]
    for part, point in zip(parts, points, strict=True):
        if part != parts[0]:
            here, there = (", ".join(f"{name} = {n}" for name, n in p.items()) for p in (points[0], point))
            raise Unsupported(f"the program has another form at {there} than at {here}")
    columns = zip(*(map(Fraction, _NUMBER.findall(text)) for text in texts), strict=True)
    found = parts[0][0]
    for values, before, after in zip(columns, parts[0], parts[0][1:], strict=False):
        found += _number(values, points, before, after) + after
    try:
        return reread(found)
    except TensorlangError as why:
        raise Unsupported(f"the fitted program is refused: {why.message.splitlines()[0]}") from None


def _number(values: Sequence[Fraction], points: Sequence[Point], before: str, after: str) -> str:
    """The text for numbers that are `values` at the points. Products of numbers are written with blanks, those of
    indices without."""
    if len(set(values)) == 1:
        return str(values[0])
    if all(v.denominator == 1 for v in values):
        is_number = before.endswith(("/ ", "* ")) or after.startswith((" *", " /"))
        a = _affine([int(v) for v in values], points)
        return f"real({a})" if is_number else f"({a})"
    if all(v.numerator == 1 for v in values):
        return f"1 / real({_affine([v.denominator for v in values], points)})"
    raise _no_expression(values, points)


def _affine(values: Sequence[int], points: Sequence[Point]) -> Affine:
    """The affine expression that has these values at these points."""
    first = points[0]
    found = constant(values[0])
    for name, value, point in zip(first, values[1:], points[1:], strict=False):
        slope, rest = divmod(value - values[0], point[name] - first[name])
        found = found + (atom_affine(Size(name)) - first[name]) * slope
        if rest:
            raise _no_expression(values, points)
    if any(found.value({Size(s): n for s, n in p.items()}) != v for v, p in zip(values, points, strict=True)):
        raise _no_expression(values, points)
    return found


def _no_expression(values: Sequence[Fraction | int], points: Sequence[Point]) -> Unsupported:
    told = ", ".join(f"{float(v):.7g} at {'; '.join(f'{s} = {n}' for s, n in p.items())}"
                     for v, p in list(zip(values, points, strict=True))[:3])  # fmt: skip
    return Unsupported(f"a number is {told}, which is no affine expression of the sizes")
