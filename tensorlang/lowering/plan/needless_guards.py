"""Brackets that test whether there is a term, left out around sums, and around extrema that nobody reads without one.

    [exists k. p(k)] * sum j. [p(j)] * e  ->  sum j. [p(j)] * e

    let t = gen k:m. [exists j:n. y[j] = k] * max j:n where y[j] = k. x[j] in gen i:n. x[i] - t[y[i]]
    ->  let t = gen k:m. max j:n where y[j] = k. x[j] in gen i:n. x[i] - t[y[i]]

for y[i] is an element of y, so there is a j. Only ranges of indices count as known, and no brackets: what these hide
may be computed, and multiplied by 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tensorlang.language.affine import Affine, Atom, Index, atom_affine
from tensorlang.language.function import Function
from tensorlang.language.grammar import Bracket, Choice, Expr, Extremum, Gen, Sum, Var, bracket, children, gen
from tensorlang.language.lets import bindings, under
from tensorlang.language.predicates import TRUE, Exists, conjunction, conjuncts, lookups, substitute, within
from tensorlang.language.rebuilt import rewrite
from tensorlang.lowering.plan.dependence import places, variable
from tensorlang.sets.encode import needs_data
from tensorlang.sets.isl import implies, unanswered
from tensorlang.sets.solve import project

_Binders = tuple[tuple[Index, Affine], ...]
_Extrema = Mapping[Var, tuple[_Binders, Extremum]]


def without_guards_of_sums(f: Function) -> Function:
    """`f` without brackets around sums that only test whether there is a term, unless the test needs data."""
    if not any(isinstance(q, Exists) for p in f.census.conditions for q in conjuncts(p)):
        return f
    return replace(f, body=rewrite(f.body, lambda _: None, lambda _, e: _unguarded_sum(e)))


def _unguarded_sum(e: Expr) -> Expr:
    if not isinstance(e, Bracket) or not isinstance(e.body, Sum):
        return e
    asked = [q for q in conjuncts(e.pred) if isinstance(q, Exists) and not needs_data(q)]
    if not asked:
        return e
    terms, known = e.body, [q for q in conjuncts(e.pred) if q not in asked]
    inner: Expr = terms
    while isinstance(inner, Sum | Bracket):
        known += [within(atom_affine(inner.index), inner.size)] if isinstance(inner, Sum) else [inner.pred]
        inner = inner.body
    some = conjunction(known)
    return bracket(conjunction(q for q in conjuncts(e.pred) if q not in asked or not implies(some, q)), terms)


def without_needless_guards(f: Function) -> tuple[Function, frozenset[Var]]:
    """`f` without such brackets, and the arrays of extrema that are only read where there is something to compare."""
    statements, outputs = bindings(f.body)
    found = {x: made for x, e in statements if isinstance(x, Var) and (made := _guarded_extremum(e)) is not None}
    if not found:
        return f, frozenset()
    for e in (*(e for _, e in statements), outputs):
        for x in _read_elsewhere(e, found):
            del found[x]
    left = [(x, gen([*found[x][0]], found[x][1]) if isinstance(x, Var) and x in found else e) for x, e in statements]
    return replace(f, body=under(left, outputs)), frozenset(found)


def _guarded_extremum(e: Expr) -> tuple[_Binders, Extremum] | None:
    """The extremum over what data select, with the indices around it, if its brackets only test whether it is empty."""
    binders = []
    while isinstance(e, Gen):
        binders.append((e.index, e.size))
        e = e.body
    p, inner = (e.pred, e.body) if isinstance(e, Bracket) else (TRUE, e)
    if not isinstance(inner, Extremum) or not lookups(inner.pred):
        return None
    ranges = within(atom_affine(inner.index), inner.size)
    asked = unanswered((*conjuncts(p), *conjuncts(inner.pred)), ranges)
    return None if any(q in asked for q in conjuncts(p)) else (tuple(binders), inner)


def _read_elsewhere(e: Expr, extrema: _Extrema) -> set[Var]:
    """Those `extrema` of which `e` reads elements that may have nothing to compare."""
    found: set[Var] = set()
    seen: set[tuple[Expr, _Binders]] = set()
    stack: list[tuple[Expr, _Binders]] = [(e, ())]
    while stack:
        part, known = stack.pop()
        if (part, known) in seen:
            continue
        seen.add((part, known))
        x = variable(part)
        if x is not None:
            if x in extrema and not _is_of_something(*extrema[x], places(part), dict(known)):
                found.add(x)
            continue
        if isinstance(part, Gen | Sum | Extremum | Choice):
            known = (*known, (part.index, part.size))
        stack += [(child, known) for child in children(part)]
    return found


def _is_of_something(binders: _Binders, e: Extremum, at: list[Affine], ranges: Mapping[Index, Affine]) -> bool:
    """Whether there is something to compare for the element at `at` of the extrema `e`, one for each of `binders`."""
    if len(at) != len(binders):
        return False
    values: dict[Atom, Affine] = {i: a for (i, _), a in zip(binders, at, strict=True)}
    index = Index(e.index.name)
    some = substitute(e.pred, {**values, e.index: atom_affine(index)})
    return project({index: e.size.substitute(values)}, some, ranges) is TRUE
