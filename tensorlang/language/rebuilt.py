"""Rebuilding expressions, with replacements for variables, for atoms, or for the direct parts of a node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import is_

from tensorlang.budget import spend
from tensorlang.language.affine import Affine, Atom
from tensorlang.language.grammar import (
    Access,
    Add,
    Apply,
    Bracket,
    Call,
    Choice,
    Compared,
    Const,
    Expr,
    Extremum,
    Gen,
    Integer,
    Let,
    MakePair,
    Mul,
    Proj,
    Recur,
    Sum,
    Var,
    children,
)
from tensorlang.language.predicates import substitute


def height(e: Expr) -> int:
    """How deeply recurrences are nested in `e`."""
    found: dict[Expr, int] = {}
    stack = [(e, False)]
    while stack:
        node, ready = stack.pop()
        if ready:
            found[node] = max((found[part] for part in children(node)), default=0) + isinstance(node, Recur)
        elif node not in found:
            found[node] = 0
            stack.append((node, True))
            stack += [(part, False) for part in children(node)]
    return found[e]


def rewrite(
    e: Expr,
    given: Callable[[Expr], Expr | None],
    made: Callable[[Expr, Expr], Expr] = lambda _, new: new,
    memo: dict[Expr, Expr] | None = None,
) -> Expr:
    """`e` rebuilt bottom-up, each expression in it once.

    If `given` returns a replacement for an expression, that is used as it is. Any other expression `old` is rebuilt
    from its new parts as `new`, and replaced by `made(old, new)`. Calls with the same functions may share a `memo`.
    """
    memo = {} if memo is None else memo
    before = len(memo)
    stack: list[tuple[Expr, tuple[Expr, ...] | None]] = [(e, None)]
    while stack:
        old, parts = stack.pop()
        if parts is None:
            if old in memo:
                continue
            known = given(old)
            if known is not None:
                memo[old] = known
                continue
            parts = children(old)
            waiting = [(part, None) for part in reversed(parts) if part not in memo]
            if waiting:
                stack.append((old, parts))
                stack += waiting
                continue
        new = [memo[part] for part in parts]
        memo[old] = made(old, old if all(map(is_, new, parts)) else _with_children(old, new))
    spend(len(memo) - before, "rewriting an expression")
    return memo[e]


def with_values(e: Expr, values: Mapping[Var, Expr]) -> Expr:
    """`e` with these values in place of variables."""
    return rewrite(e, lambda old: values.get(old) if isinstance(old, Var) else None) if values else e


def with_atoms(e: Expr, values: Mapping[Atom, Affine]) -> Expr:
    """`e` with these values in place of indices, sizes and elements of index arrays; `e` binds none of these."""

    def made(_: Expr, new: Expr) -> Expr:
        match new:
            case Access(a, at, place):
                return Access(a, at.substitute(values), place)
            case Integer(a):
                return Integer(a.substitute(values))
            case Bracket(p, a):
                return Bracket(substitute(p, values), a)
            case Extremum(sign, i, n, p, a) | Choice(sign, i, n, p, a):
                return type(new)(sign, i, n, substitute(p, values), a)
            case _:
                return new

    return rewrite(e, lambda _: None, made) if values else e


def without_places(e: Expr) -> Expr:
    """`e` without the places where its accesses were written, so that equal expressions are identical."""
    return rewrite(e, lambda _: None, lambda _, new: Access(new.body, new.at, None) if isinstance(new, Access) else new)


def with_children(e: Expr, parts: Sequence[Expr]) -> Expr:
    """`e` with other expressions directly under it."""
    return e if all(map(is_, children(e), parts)) else _with_children(e, parts)


def _with_children(e: Expr, parts: Sequence[Expr]) -> Expr:
    match e:
        case Add(_, _, sign):
            left, right = parts
            return Add(left, right, sign)
        case Mul():
            return Mul(*parts)
        case MakePair():
            return MakePair(*parts)
        case Compared(op, _, _):
            return Compared(op, *parts)
        case Let(x, _, _):
            return Let(x, *parts)
        case Call(f, _):
            return Call(f, tuple(parts))
        case Apply(routine, _):
            return Apply(routine, tuple(parts))
        case Proj(which, _):
            return Proj(which, *parts)
        case Gen(i, n, _):
            return Gen(i, n, *parts)
        case Recur(word, i, n, state, _, _):
            return Recur(word, i, n, state, *parts)
        case Sum(i, n, _):
            return Sum(i, n, *parts)
        case Extremum(sign, i, n, p, _):
            return Extremum(sign, i, n, p, *parts)
        case Choice(sign, i, n, p, _):
            return Choice(sign, i, n, p, *parts)
        case Access(_, at, place):
            return Access(parts[0], at, place)
        case Bracket(p, _):
            return Bracket(p, *parts)
        case Var() | Const() | Integer():
            return e
