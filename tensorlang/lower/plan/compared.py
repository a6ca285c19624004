"""Arrays that are read only to be compared, with their elements computed where that happens.

    let t = gen i, j. [j < 2] * e + [i = j] * d in  gen i. max j where j < 2 or i = j. t[i, j]
                                                ->  gen i. max j where j < 2 or i = j. [j < 2] * e + [i = j] * d

where the condition leaves few values of j for each i, so that most of t would be stored for nothing.
"""

from __future__ import annotations

from dataclasses import replace

from tensorlang.language.affine import Affine, Atom, Index
from tensorlang.language.function import Function
from tensorlang.language.grammar import Choice, Expr, Extremum, Gen, Sum, Var
from tensorlang.language.lets import bindings, under
from tensorlang.language.predicates import Or, conjuncts
from tensorlang.language.rebuilt import rewrite, with_atoms
from tensorlang.lower.plan.dependence import places, reads, results, variable
from tensorlang.sets.scopes import postorder
from tensorlang.simplify.thin import is_thin_union

_Made = tuple[list[Index], Expr]
"""The indices of an array, and its element at these."""


def inline_compared(f: Function) -> Function:
    """`f` with arrays that only one extremum reads, comparing few of their elements, computed there."""
    given, body = bindings(f.body)
    made = {x: one for x, e in given if isinstance(x, Var) and (one := _element(e))}
    found: dict[Var, Expr | None] = {}
    for whole in (*(e for _, e in given), *results(body)):
        compared = _compared(whole)
        for read in reads(whole):
            x = variable(read)
            assert x is not None
            found[x] = read if read is compared and x in made and x not in found else None
    at_once = {read: x for x, read in found.items() if read is not None}
    if not at_once:
        return f

    def element(e: Expr) -> Expr | None:
        if e not in at_once:
            return None
        own, value = made[at_once[e]]
        at: dict[Atom, Affine] = dict(zip(own, places(e), strict=True))
        return rewrite(with_atoms(value, at), element)

    kept = [(x, rewrite(e, element)) for x, e in given if x not in at_once.values()]
    return replace(f, body=under(kept, rewrite(body, element)))


def _element(e: Expr) -> _Made | None:
    """The element of an array, unless it binds indices of its own."""
    own: list[Index] = []
    while isinstance(e, Gen):
        own.append(e.index)
        e = e.body
    return None if any(isinstance(part, Gen | Sum | Extremum | Choice) for part in postorder(e)) else (own, e)


def _compared(e: Expr) -> Expr | None:
    """The element that a statement compares, if the condition leaves few and nothing else is reduced."""
    inner = [part for part in postorder(e) if isinstance(part, Sum | Extremum | Choice)]
    if len(inner) != 1 or not isinstance(compared := inner[0], Extremum) or variable(compared.body) is None:
        return None
    ranges = {part.index: part.size for part in postorder(e) if isinstance(part, Gen | Extremum)}
    few = any(isinstance(q, Or) and is_thin_union(compared.pred, q, ranges) for q in conjuncts(compared.pred))
    return compared.body if few else None
