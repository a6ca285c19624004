"""Arrays that are read only to be compared, with their elements computed where that happens.

    let t = gen i, j. [j < 2] * e + [i = j] * d in  gen i. max j where j < 2 or i = j. t[i, j]
                                                ->  gen i. max j where j < 2 or i = j. [j < 2] * e + [i = j] * d

where the condition, or one of the terms, leaves few values of j for each i, so that most of t would be stored for
nothing: the extrema of the terms are computed by themselves.
"""

from __future__ import annotations

from dataclasses import replace

from tensorlang.language.affine import Affine, Atom, Index
from tensorlang.language.function import Function
from tensorlang.language.grammar import Add, Bracket, Choice, Expr, Extremum, Gen, Sum, Var
from tensorlang.language.lets import bindings, under
from tensorlang.language.predicates import Or, conjuncts
from tensorlang.language.rebuilt import rewrite, with_atoms
from tensorlang.lower.plan.dependence import places, reads, results, variable
from tensorlang.sets.scopes import postorder
from tensorlang.simplify.thin import is_thin_union, leaves_few

_Made = tuple[dict[Index, Affine], Expr]
"""The indices of an array and their sizes, and what its element at these is."""


def inline_compared(f: Function) -> Function:
    """`f` with arrays that only one extremum reads, comparing few of their elements, computed there."""
    given, body = bindings(f.body)
    made = {x: one for x, e in given if isinstance(x, Var) and (one := _element(e))}
    found: dict[Var, Expr | None] = {}
    for whole in (*(e for _, e in given), *results(body)):
        compared, few = _compared(whole)
        for read in reads(whole):
            x = variable(read)
            assert x is not None
            at_once = read is compared and x in made and x not in found and (few or _has_a_band(made[x]))
            found[x] = read if at_once else None
    chosen = {read: x for x, read in found.items() if read is not None}
    if not chosen:
        return f

    def element(e: Expr) -> Expr | None:
        if e not in chosen:
            return None
        own, value = made[chosen[e]]
        at: dict[Atom, Affine] = dict(zip(own, places(e), strict=True))
        return rewrite(with_atoms(value, at), element)

    kept = [(x, rewrite(e, element)) for x, e in given if x not in chosen.values()]
    return replace(f, body=under(kept, rewrite(body, element)))


def _element(e: Expr) -> _Made | None:
    """The element of an array, unless it binds indices of its own."""
    own: dict[Index, Affine] = {}
    while isinstance(e, Gen):
        own[e.index] = e.size
        e = e.body
    return None if any(isinstance(part, Gen | Sum | Extremum | Choice) for part in postorder(e)) else (own, e)


def _has_a_band(made: _Made) -> bool:
    """Whether an element is a sum of terms one of which is there for few values of an index, given the others."""
    ranges, e = made
    found, left = [], [e]
    while left:
        part = left.pop()
        if isinstance(part, Add):
            left += [part.left, part.right]
        elif isinstance(part, Bracket):
            found.append(part.pred)
    return isinstance(e, Add) and any(leaves_few(conjuncts(p), ranges, ranges) for p in found)


def _compared(e: Expr) -> tuple[Expr | None, bool]:
    """The element that a statement compares, if it sums up and compares nothing else, and whether the condition leaves
    few."""
    inner = [part for part in postorder(e) if isinstance(part, Sum | Extremum | Choice)]
    if len(inner) != 1 or not isinstance(compared := inner[0], Extremum | Choice) or variable(compared.body) is None:
        return None, False
    ranges = {part.index: part.size for part in postorder(e) if isinstance(part, Gen | Extremum)}
    few = any(isinstance(q, Or) and is_thin_union(compared.pred, q, ranges) for q in conjuncts(compared.pred))
    return compared.body, few
