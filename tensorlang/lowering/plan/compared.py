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
from tensorlang.language.grammar import Access, Add, Bracket, Choice, Const, Expr, Extremum, Gen, Mul, Proj, Sum, Var
from tensorlang.language.lets import bindings, under
from tensorlang.language.rebuilt import rewrite, with_atoms
from tensorlang.lowering.plan.dependence import places, reads, results, variable
from tensorlang.sets.scopes import postorder
from tensorlang.simplification.thin import is_thin, thin_unions

_Made = tuple[dict[Index, Affine], Expr]
"""The indices of an array and their sizes, and what its element at these is."""


def inline_compared(f: Function) -> Function:
    """`f` with arrays that only one extremum reads, comparing few of their elements, computed there."""
    given, body = bindings(f.body)
    made = {x: element for x, e in given if isinstance(x, Var) and (element := _element(e))}
    read: dict[Var, list[Expr]] = {x: [] for x in made}
    compared: set[Var] = set()
    for whole in (*(e for _, e in given), *results(body)):
        one, few = _compared(whole)
        for e in reads(whole):
            x = variable(e)
            assert x is not None
            if x in made:
                read[x].append(e)
                if e is one and (few or _has_a_band(made[x])):
                    compared.add(x)
    chosen = {x for x in compared if len(read[x]) == 1 or _may_be_repeated(made[x], read[x])}
    if not chosen:
        return f

    def computed(e: Expr) -> Expr | None:
        x = variable(e)
        if x is None or x not in chosen:
            return None
        own, value = made[x]
        at: dict[Atom, Affine] = dict(zip(own, places(e), strict=True))
        return rewrite(with_atoms(value, at), computed)

    kept = [(x, rewrite(e, computed)) for x, e in given if x not in chosen]
    return replace(f, body=under(kept, rewrite(body, computed)))


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
    return isinstance(e, Add) and any(is_thin(p, ranges) for p in found)


def _may_be_repeated(made: _Made, read: list[Expr]) -> bool:
    """Whether an element is read off other arrays, or a number, so that nothing is computed twice; or is a product of
    such elements and only read at few places except where it is compared."""
    plain = (Access, Add, Bracket, Const, Mul, Proj, Var)
    parts = postorder(made[1])
    if not all(isinstance(part, plain) for part in parts) or any(len(places(e)) < len(made[0]) for e in read):
        return False
    at = [{i for a in places(e) for i in a.free if isinstance(i, Index)} for e in read]
    return not any(isinstance(part, Mul) for part in parts) or sum(len(own) == len(made[0]) for own in at) == 1


def _compared(e: Expr) -> tuple[Expr | None, bool]:
    """The element that a statement compares, if it sums up and compares nothing else, and whether the condition leaves
    few."""
    inner = [part for part in postorder(e) if isinstance(part, Sum | Extremum | Choice)]
    if len(inner) != 1 or not isinstance(compared := inner[0], Extremum | Choice) or variable(compared.body) is None:
        return None, False
    ranges = {part.index: part.size for part in postorder(e) if isinstance(part, Gen | Extremum)}
    return compared.body, bool(thin_unions(compared.pred, ranges))
