"""Expressions built anew: other ones in the place of variables or of atoms, or directly under a node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
from tensorlang.recursion import Deep


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


def is_staged(e: Expr) -> bool:
    """Whether there is a recurrence in `e`, or a call of a routine."""
    seen: set[Expr] = set()
    stack = [e]
    while stack:
        node = stack.pop()
        if isinstance(node, Recur | Apply):
            return True
        if node not in seen:
            seen.add(node)
            stack += children(node)
    return False


def replaced(e: Expr, values: Mapping[Var, Expr], memo: dict[Expr, Expr]) -> Deep[Expr]:
    """`e` with these values in place of variables."""
    if not values:
        return e
    if e not in memo:
        if isinstance(e, Var):
            memo[e] = values.get(e, e)
        else:
            parts = []
            for part in children(e):
                parts.append((yield replaced(part, values, memo)))
            memo[e] = with_children(e, parts)
    return memo[e]


def with_atoms(e: Expr, values: Mapping[Atom, Affine], memo: dict[Expr, Expr]) -> Deep[Expr]:
    """`e` with these values in place of indices, sizes and elements of index arrays; `e` binds none of these."""
    if e not in memo:
        parts = []
        for part in children(e):
            parts.append((yield with_atoms(part, values, memo)))
        new = with_children(e, parts)
        match new:
            case Access(a, at, place):
                new = Access(a, at.substitute(values), place)
            case Integer(a):
                new = Integer(a.substitute(values))
            case Bracket(p, a):
                new = Bracket(substitute(p, values), a)
            case Extremum(sign, i, n, p, a) | Choice(sign, i, n, p, a):
                new = type(new)(sign, i, n, substitute(p, values), a)
        memo[e] = new
    return memo[e]


def without_places(e: Expr, memo: dict[Expr, Expr]) -> Deep[Expr]:
    """`e` without the places where its accesses were written, so that the same is the same wherever it is written."""
    if e not in memo:
        parts = []
        for part in children(e):
            parts.append((yield without_places(part, memo)))
        new = with_children(e, parts)
        memo[e] = Access(new.body, new.at, None) if isinstance(new, Access) else new
    return memo[e]


def with_children(e: Expr, parts: Sequence[Expr]) -> Expr:
    """`e` with other expressions directly under it."""
    if all(a is b for a, b in zip(children(e), parts, strict=True)):
        return e
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
