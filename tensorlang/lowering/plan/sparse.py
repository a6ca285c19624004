"""Which arrays are stored at the points of data relations: those that are only read where a relation holds.

let y = gen i, j. [R(i, j)] * e in sum i, j. [R(i, j)] * y[i, j] * x[j]      y has one element for each point of R
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tensorlang.language.affine import Index, atom_affine
from tensorlang.language.function import Function
from tensorlang.language.grammar import Add, Bracket, Choice, Expr, Extremum, Gen, Mul, Sum, Var, children
from tensorlang.language.lets import bindings
from tensorlang.language.predicates import Predicate, Related, Relation, conjuncts
from tensorlang.lowering.plan.dependence import places, variable
from tensorlang.recursion import Deep, call, run


def stored_at_points(f: Function, given: Collection[Relation]) -> dict[Var, Related]:
    """The variables that are zero, and never read, where one of the relations `given` fails; each with that relation.

    The relation's arguments are indices of the variable's own `gen`. An output is read everywhere.
    """
    found: dict[Var, Related] = {}
    candidates: dict[Var, tuple[Related, tuple[int, ...]]] = {}
    memo: dict[Expr, frozenset[Related]] = {}
    for x, e in bindings(f.body)[0] if given else ():
        if isinstance(x, Var):
            binders, scalar = _binders(e)
            for q in run(_support(scalar, memo)):
                at = tuple(binders.index(a.indices[0]) for a in q.arguments if a in map(atom_affine, binders))
                if q.relation in given and len(set(at)) == len(q.arguments):
                    found[x], candidates[x] = q, (q, at)
                    break
    for v in _read_elsewhere(f.body, candidates) if candidates else ():
        del found[v]
    return found


def _binders(e: Expr) -> tuple[list[Index], Expr]:
    binders = []
    while isinstance(e, Gen):
        binders.append(e.index)
        e = e.body
    return binders, e


def _related(p: Predicate) -> frozenset[Related]:
    return frozenset(q for q in conjuncts(p) if isinstance(q, Related))


def _support(e: Expr, memo: dict[Expr, frozenset[Related]]) -> Deep[frozenset[Related]]:
    """Relations that hold wherever `e` is not zero."""
    if e not in memo:
        q: frozenset[Related] = frozenset()
        match e:
            case Bracket(p, a):
                q = _related(p) | (yield from call(_support(a, memo)))
            case Sum(i, _, a):
                inner = yield from call(_support(a, memo))
                q = frozenset(r for r in inner if not any(i in b.free for b in r.arguments))
            case Add(a, b, _):
                left = yield from call(_support(a, memo))
                q = left & (yield from call(_support(b, memo)))
            case Mul(a, b):
                left = yield from call(_support(a, memo))
                q = left | (yield from call(_support(b, memo)))
            case _:
                pass
        memo[e] = q
    return memo[e]


def _read_elsewhere(e: Expr, candidates: Mapping[Var, tuple[Related, tuple[int, ...]]]) -> set[Var]:
    """The candidates that are read, in `e`, where their relation is not known to hold."""
    found: set[Var] = set()
    seen: set[tuple[Expr, frozenset[Related]]] = set()
    stack: list[tuple[Expr, frozenset[Related]]] = [(e, frozenset())]
    while stack:
        part, known = stack.pop()
        if (part, known) in seen:
            continue
        seen.add((part, known))
        v = variable(part)
        if v is not None and v in candidates:
            q, along = candidates[v]
            at = places(part)
            rank = max(along) + 1
            if len(at) < rank or Related(q.relation, tuple(at[k] for k in along)) not in known:
                found.add(v)
        if isinstance(part, Bracket | Choice | Extremum):
            known |= _related(part.pred)
        if v is None:
            stack += [(child, known) for child in children(part)]
    return found
