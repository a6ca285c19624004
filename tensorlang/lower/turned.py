"""Arrays of short rows, of which single columns are read, with the columns one after the other in memory.

    let y = gen i:n, a:3. x[i, a] - c[a] in  .. y[i, 0] * v[1] - y[i, 1] * v[0] ..
                ->  let y = gen a:3, i:n. x[i, a] - c[a] in  .. y[0, i] * v[1] - y[1, i] * v[0] ..

A column of an array that lies in memory row by row is read with strides: slower, and as much memory as the whole array.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from tensorlang.language.function import Function
from tensorlang.language.grammar import Expr, Gen, Let, Var, access, children, gen
from tensorlang.language.rebuilt import with_children
from tensorlang.language.types import R, array, shape
from tensorlang.lower.profile import places, reads, variable
from tensorlang.recursion import Deep, run

_SHORT = 8
"""Elements of a row that is short."""

_MANY = 2
"""Reads of single columns that are worth it."""

T = TypeVar("T")


def turned(f: Function) -> Function:
    """`f` with the last axis of arrays first, where it is short and single places of it are read."""
    whole: set[Var] = set()
    columns: Counter[Var] = Counter()
    values: dict[Var, Expr] = {}
    body = f.body
    while isinstance(body, Let):
        if isinstance(body.var, Var):
            values[body.var] = body.value
        _note(body.value, whole, columns)
        body = body.body
    _note(body, whole, columns)
    new = {
        x: Var(x.name, array(_last_first(shape(x.type)[0]), R))
        for x, value in values.items()
        if columns[x] >= _MANY and x not in whole and _has_short_rows(x, value)
    }
    return replace(f, body=run(_rewritten(f.body, new, {}))) if new else f


def _note(e: Expr, whole: set[Var], columns: Counter[Var]) -> None:
    """Add the variables that are read otherwise than element by element to `whole`, and count reads at one place."""
    for read in reads(e):
        x, at = variable(read), places(read)
        assert x is not None
        if len(at) < len(shape(x.type)[0]):
            whole.add(x)
        elif at and at[-1].is_constant:
            columns[x] += 1


def _has_short_rows(x: Var, value: Expr) -> bool:
    sizes, _ = shape(x.type)
    for _ in sizes:
        if not isinstance(value, Gen):
            return False
        value = value.body
    short = sizes[-1].is_constant and sizes[-1].constant <= _SHORT
    return short and not all(n.is_constant for n in sizes)


def _last_first(parts: Sequence[T]) -> tuple[T, ...]:
    return (parts[-1], *parts[:-1])


def _rewritten(e: Expr, new: Mapping[Var, Var], memo: dict[Expr, Expr]) -> Deep[Expr]:
    if e not in memo:
        x = variable(e)
        if x is not None:
            memo[e] = access(new[x], *_last_first(places(e))) if x in new else e
        elif isinstance(e, Let) and isinstance(e.var, Var) and e.var in new:
            binders, element = [], e.value
            for _ in shape(e.var.type)[0]:
                assert isinstance(element, Gen)
                binders.append((element.index, element.size))
                element = element.body
            inner = yield _rewritten(element, new, memo)
            body = yield _rewritten(e.body, new, memo)
            memo[e] = Let(new[e.var], gen([binders[-1], *binders[:-1]], inner), body)
        else:
            parts = []
            for part in children(e):
                parts.append((yield _rewritten(part, new, memo)))
            memo[e] = with_children(e, parts)
    return memo[e]
