"""The dependences of the values of expressions, for the evaluator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tensorlang.language.affine import IndexArray
from tensorlang.language.function import Parameter
from tensorlang.language.grammar import (
    Access,
    Bracket,
    Choice,
    Expr,
    Extremum,
    Gen,
    Integer,
    Let,
    Recur,
    Sum,
    Var,
    children,
)
from tensorlang.language.grid import columns_of
from tensorlang.language.points import Column


def analyse(
    root: Expr, params: frozenset[Parameter]
) -> tuple[Mapping[Expr | IndexArray, frozenset[Column]], frozenset[Expr]]:
    """The columns on which the value of each expression depends, and the expressions that occur more than once.

    The columns are its free indices, variables and index arrays, except those whose own value depends on nothing.
    """
    free: dict[Expr | IndexArray, frozenset[Column]] = {p: frozenset() for p in params if isinstance(p, IndexArray)}
    shared: set[Expr] = set()
    value_of = _only_values(root)
    stack: list[tuple[Expr | IndexArray, bool]] = [(root, False)]
    while stack:
        e, ready = stack.pop()
        if isinstance(e, IndexArray) or (ready and isinstance(e, Var)):
            known = e in params or (e in value_of and not free[value_of[e]])
            free[e] = frozenset() if known else frozenset([e])
        elif ready:
            free[e] = _free(e, free)
        elif e in free:
            if children(e):
                shared.add(e)
        else:
            stack.append((e, True))
            if isinstance(e, Let):
                stack += [(e.body, False), (e.var, False), (e.value, False)]
            else:
                stack += [(child, False) for child in children(e)]
    return free, frozenset(shared)


def _only_values(root: Expr) -> dict[Var | IndexArray, Expr]:
    """The value of every variable and index array that is bound once."""
    found: dict[Var | IndexArray, Expr] = {}
    twice: set[Var | IndexArray] = set()
    seen: set[Expr] = set()
    stack = [root]
    while stack:
        e = stack.pop()
        if e in seen:
            continue
        seen.add(e)
        stack += children(e)
        if isinstance(e, Let) and found.setdefault(e.var, e.value) is not e.value:
            twice.add(e.var)
    return {var: value for var, value in found.items() if var not in twice}


def _free(e: Expr, free: Mapping[Expr | IndexArray, frozenset[Column]]) -> frozenset[Column]:
    def of(columns: Iterable[Column]) -> frozenset[Column]:
        return frozenset(c for key in columns for c in (free[key] if isinstance(key, IndexArray) else (key,)))

    match e:
        case Gen(index, _, body) | Sum(index, _, body):
            return free[body] - {index}
        case Extremum(_, index, _, p, body) | Choice(_, index, _, p, body):
            return (free[body] | of(columns_of(p))) - {index}
        case Access(body, at, _):
            return free[body] | of((*at.indices, *at.arrays))
        case Integer(value):
            return of((*value.indices, *value.arrays))
        case Bracket(p, body):
            return free[body] | of(columns_of(p))
        case Recur(_, index, _, state, init, step):
            return free[init] | (free[step] - {index, state})
        case Let(var, value, body):
            return free[value] | (free[body] - {var})
        case _:
            return frozenset().union(*(free[child] for child in children(e)))
