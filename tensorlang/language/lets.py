"""The lets around an expression, as a list, and back: `let x = a in let y = b in e` <-> ([(x, a), (y, b)], e)."""

from __future__ import annotations

from collections.abc import Iterable

from tensorlang.language.affine import IndexArray
from tensorlang.language.grammar import Expr, Let, Var

Binding = tuple[Var | IndexArray, Expr]


def bindings(e: Expr) -> tuple[list[Binding], Expr]:
    """The bindings of the outermost lets of `e`, in order, and the body under them."""
    found: list[Binding] = []
    while isinstance(e, Let):
        found.append((e.var, e.value))
        e = e.body
    return found, e


def under(found: Iterable[Binding], body: Expr) -> Expr:
    """`body` under lets that bind these, in order."""
    for x, value in reversed(list(found)):
        body = Let(x, value, body)
    return body
