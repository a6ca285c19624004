"""Whether rows have an integer point, by exact elimination. This answers most questions, and leaves fewer rows and
dimensions for isl in the others.

An equality in which a dimension has the coefficient 1 or -1 is solved for that dimension. A dimension without
equalities, whose lower or whose upper bounds all have the coefficient 1 or -1, is eliminated by pairing its bounds
(Fourier and Motzkin), which then loses nothing over the integers.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd

from tensorlang.budget import spend
from tensorlang.memory import cached
from tensorlang.sets.encode import Row

_MOST_ROWS = 60

_Sum = tuple[int, dict[int, int]]
"""A constant and the coefficients, other than 0, of dimensions."""

_Terms = tuple[tuple[int, int], ...]
"""Dimensions with coefficients; the dimensions are sorted and distinct."""


class _NoPoint(Exception):
    """A row is false."""


@cached
def has_point(rows: tuple[Row, ...]) -> bool | tuple[Row, ...]:
    """Whether some integers make all `rows` true. If elimination can't say, the remaining rows, for which the answer is
    the same, with dimensions numbered from 0."""
    try:
        zeros, bounds = _solved(rows)
        found = (zeros, bounds) if zeros else _eliminated(bounds)
    except _NoPoint:
        return False
    return found if isinstance(found, bool) else _numbered(*found)


def _numbered(zeros: list[_Sum], bounds: list[_Sum]) -> tuple[Row, ...]:
    """Equalities and inequalities as rows, with dimensions numbered in order."""
    dimensions = sorted({d for _, terms in (*zeros, *bounds) for d in terms})
    number = {d: k for k, d in enumerate(dimensions)}
    return tuple(
        (equality, value, tuple(sorted((number[d], k) for d, k in terms.items())))
        for equality, sums in ((True, zeros), (False, bounds))
        for value, terms in sums
    )


def _solved(rows: tuple[Row, ...]) -> tuple[list[_Sum], list[_Sum]]:
    """The equalities that can't be solved, as they have no coefficient 1 or -1, and the inequalities after solving the
    others."""
    zeros: list[_Sum] = []
    bounds: list[_Sum] = []
    for equality, value, terms in rows:
        coefficients: dict[int, int] = {}
        for d, k in terms:
            coefficients[d] = coefficients.get(d, 0) + k
        (zeros if equality else bounds).append((value, {d: k for d, k in coefficients.items() if k}))
    while zeros:
        found = next(((n, d) for n, (_, terms) in enumerate(zeros) for d, k in terms.items() if k in (1, -1)), None)
        if found is None:
            if any(value % gcd(*terms.values()) if terms else value for value, terms in zeros):
                raise _NoPoint
            zeros = [zero for zero in zeros if zero[1]]
            break
        n, d = found
        known, others = zeros.pop(n)
        k = others.pop(d)
        solution = (-k * known, {e: -k * c for e, c in others.items()})
        zeros = [_substituted(zero, d, solution) if d in zero[1] else zero for zero in zeros]
        bounds = [_substituted(bound, d, solution) if d in bound[1] else bound for bound in bounds]
    return zeros, bounds


def _substituted(row: _Sum, d: int, solution: _Sum) -> _Sum:
    """`row`, in which the dimension `d` occurs, with `solution` for it."""
    value, terms = row
    new = dict(terms)
    factor = new.pop(d)
    for e, k in solution[1].items():
        new[e] = new.get(e, 0) + factor * k
    return value + factor * solution[0], {e: k for e, k in new.items() if k}


def _eliminated(bounds: Iterable[_Sum]) -> bool | tuple[list[_Sum], list[_Sum]]:
    """Whether inequalities have an integer point; if that is not decided, no equalities and the inequalities left."""
    rows: dict[_Terms, int] = {}
    for constant, sums in bounds:
        _add(rows, constant, sums)
    while rows:
        spend(2 * len(rows), "integer sets")
        lower: dict[int, list[tuple[int, _Terms]]] = {}
        upper: dict[int, list[tuple[int, _Terms]]] = {}
        for terms in rows:
            for d, k in terms:
                (lower if k > 0 else upper).setdefault(d, []).append((k, terms))
        loose = lower.keys() ^ upper.keys()  # bounds on one side only can all be met
        if len(rows) > _MOST_ROWS and not loose:
            return _left(rows)
        if loose:
            rows = {terms: value for terms, value in rows.items() if not any([d in loose for d, _ in terms])}
            continue
        exact = [
            (len(lower[d]) * len(upper[d]), d)
            for d in lower
            if all([k == 1 for k, _ in lower[d]]) or all([k == -1 for k, _ in upper[d]])
        ]
        if not exact:
            return _left(rows)
        pairs, d = min(exact)
        if len(rows) + pairs > _MOST_ROWS:
            return _left(rows)
        below = [(rows[terms], dict(terms)) for _, terms in lower[d]]
        above = [(rows[terms], dict(terms)) for _, terms in upper[d]]
        rows = {terms: value for terms, value in rows.items() if all([e != d for e, _ in terms])}
        for low, a in below:
            for high, b in above:
                p, q = a[d], -b[d]
                sums = {e: q * k for e, k in a.items()}
                for e, k in b.items():
                    sums[e] = sums.get(e, 0) + p * k
                _add(rows, q * low + p * high, {e: k for e, k in sums.items() if k})
    return True


def _left(rows: dict[_Terms, int]) -> tuple[list[_Sum], list[_Sum]]:
    return [], [(value, dict(terms)) for terms, value in rows.items()]


def _add(rows: dict[_Terms, int], value: int, terms: dict[int, int]) -> None:
    """Add value + terms >= 0 in lowest terms to `rows`, which keeps the strongest row for each set of terms."""
    if not terms:
        if value < 0:
            raise _NoPoint
        return
    d = gcd(*terms.values())
    if d > 1:
        value //= d
    key = tuple(sorted((e, k // d) for e, k in terms.items()))
    known = rows.get(key)
    if known is None or value < known:
        rows[key] = value
