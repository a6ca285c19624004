"""Elements at chosen places, computed there.

    let t = gen i, j, l. x[i, l] - c[j, l] in  .. sum l. t[i, j, l]^2 .. t[i, k[i], l] ..
                                           ->  .. sum l. t[i, j, l]^2 .. x[i, l] - c[k[i], l] ..

The sum alone takes t's elements from where they are computed. What is read at places that data choose is gathered, from
an array in memory: for that XLA would store all of t. So few elements are rather computed again, if that is cheap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tensorlang.language.affine import Affine, Atom, Index
from tensorlang.language.function import Function
from tensorlang.language.grammar import Access, Add, Bracket, Const, Expr, Gen, Let, Mul, Var, access, children
from tensorlang.language.predicates import substitute
from tensorlang.language.rebuilt import with_children
from tensorlang.lower.profile import places, variable
from tensorlang.recursion import Deep, run

_CHEAP = 4
"""Additions and multiplications for an element that is rather computed again than gathered."""

_Made = tuple[tuple[Index, ...], Expr]
"""The indices of an array, and what its element at these is."""


def recomputed(f: Function) -> Function:
    """`f` with cheap elements that are read at chosen places computed where they are read."""
    return replace(f, body=run(_rewritten(f.body, {}, {})))


def _rewritten(e: Expr, cheap: dict[Var, _Made], memo: dict[Expr, Expr]) -> Deep[Expr]:
    if e not in memo:
        x = variable(e)
        if x is not None and x in cheap and any(a.lookups for a in places(e)):
            own, body = cheap[x]
            memo[e] = run(_at(body, dict(zip(own, places(e), strict=True)), {}))
        else:
            parts = []
            for part in children(e):
                parts.append((yield _rewritten(part, cheap, memo)))
                if isinstance(e, Let) and isinstance(e.var, Var) and len(parts) == 1:
                    made = _cheap(parts[0])
                    if made is not None:
                        cheap[e.var] = made
            memo[e] = with_children(e, parts)
    return memo[e]


def _cheap(e: Expr) -> _Made | None:
    """The element of an array of a few additions and multiplications."""
    own: list[Index] = []
    while isinstance(e, Gen):
        own.append(e.index)
        e = e.body
    operations = 0
    stack: list[Expr] = [e]
    while stack:
        part = stack.pop()
        if isinstance(part, Add | Mul):
            operations += 1
        elif variable(part) is not None or isinstance(part, Const):
            continue
        elif not isinstance(part, Bracket):
            return None
        stack += children(part)
    return (tuple(own), e) if own and 0 < operations <= _CHEAP else None


def _at(e: Expr, at: Mapping[Atom, Affine], memo: dict[Expr, Expr]) -> Deep[Expr]:
    """`e` at the places `at` of its indices."""
    if e not in memo:
        if variable(e) is not None:
            whole = e
            while isinstance(whole, Access):
                whole = whole.body
            memo[e] = access(whole, *(a.substitute(at) for a in places(e)))
        else:
            parts = []
            for part in children(e):
                parts.append((yield _at(part, at, memo)))
            memo[e] = Bracket(substitute(e.pred, at), *parts) if isinstance(e, Bracket) else with_children(e, parts)
    return memo[e]
