"""Statements over the points of data relations instead of over boxes.

    sum i, j. [R(i, j) and p] * e   =   sum q:count. [i = R0[q] and j = R1[q] and p] * e

The equalities do away with the summed ones of i and j; what they say of the others makes the sum one of segments.
A variable that is only read where a relation holds is held at its points.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from tensorlang.language.affine import Affine, Atom, Index, Lookup, atom_affine
from tensorlang.language.function import Function
from tensorlang.language.grammar import (
    Access,
    Add,
    Bracket,
    Choice,
    Expr,
    Extremum,
    Gen,
    Let,
    Mul,
    Proj,
    Sum,
    Var,
    children,
)
from tensorlang.language.predicates import (
    Predicate,
    Related,
    Relation,
    conjunction,
    conjuncts,
    equal,
    substitute,
)
from tensorlang.lower.arrays.integers import ZERO, Range
from tensorlang.lower.arrays.scope import Context, Held, Scope
from tensorlang.lower.arrays.sums.strategy import Strategy, WhyNot
from tensorlang.lower.arrays.sums.summation import Summation
from tensorlang.lower.emit.python import Value
from tensorlang.lower.plan.dependence import places
from tensorlang.recursion import Deep, run


def _over_points(ctx: Context, c: Summation) -> Related | WhyNot:
    if not ctx.sparse:
        return WhyNot("no relation is given by its points")
    return enumerable(ctx, c.scope, c.parts, c.summed) or WhyNot("no relation given by its points is a condition here")


def _enumerated(ctx: Context, c: Summation, q: Related) -> Deep[Value]:
    points = ctx.sparse[q.relation]
    p = Index("p")
    at = [atom_affine(Lookup(column, (atom_affine(p),))) for column in points.columns]
    parts = [equal(a, b) for a, b in zip(q.arguments, at, strict=True)]
    others = (r for r in c.parts if r is not q)
    summed = {**c.summed, p: Range(ZERO, points.count)}
    return ctx.contract(replace(c, summed=summed, parts=conjuncts(conjunction([*parts, *others]))))


ENUMERATE = Strategy(
    "points of a relation",
    "sum i, j. [R(i, j) and p] * e = sum q:count. [i = R0[q] and j = R1[q] and p] * e",
    _over_points,
    _enumerated,
)


def is_enumerable(ctx: Context, scope: Scope, p: Predicate) -> bool:
    """Whether [p] * e is best computed at the points of a relation."""
    return bool(ctx.sparse) and enumerable(ctx, scope, conjuncts(substitute(p, scope.env)), {}) is not None


def enumerable(ctx: Context, scope: Scope, parts: Sequence[Predicate], summed: Mapping[Index, Range]) -> Related | None:
    """The relation among `parts` whose points determine most axes and `summed` indices, if all that it depends on."""
    found: list[tuple[int, Related]] = []
    for q in parts:
        if isinstance(q, Related) and q.relation in ctx.sparse:
            inside = {i for a in q.arguments for i in a.indices if i in scope.domain or i in summed}
            if inside and inside == _determined(q, inside):
                found.append((len(inside), q))
    return max(found, key=lambda entry: entry[0])[1] if found else None


def _determined(q: Related, inside: set[Index]) -> set[Index]:
    """Those of the indices `inside` that the arguments' values determine one after the other."""
    known: set[Index] = set()
    for _ in q.arguments:
        for a in q.arguments:
            unknown = [i for i in a.indices if i in inside and i not in known]
            if len(unknown) == 1 and abs(a.coefficient(unknown[0])) == 1 and not a.lookups:
                known.add(unknown[0])
    return known


def on_points(
    ctx: Context, held: Held, at: Related, domain: Mapping[Index, Range]
) -> tuple[Held, dict[Index, Range], dict[Atom, Affine]]:
    """How an array is held at the points of a relation of its axes: the axes that are left, and what the others are."""
    points = ctx.sparse[at.relation]
    p = Index("p")
    env: dict[Atom, Affine] = {}
    for a, column in zip(at.arguments, points.columns, strict=True):
        env[a.atoms[0]] = atom_affine(Lookup(column, (atom_affine(p),)))
    along = tuple(list(domain).index(a.indices[0]) for a in at.arguments)
    left = {i: r for i, r in domain.items() if i not in env}
    return replace(held, points=points, along=along), {p: Range(ZERO, points.count), **left}, env


def held_on_points(f: Function, given: Collection[Relation]) -> dict[Var, Related]:
    """The variables that are zero but where one of the relations `given` holds, and read only there, with that.

    The relation's arguments are indices of the variable's own `gen`. An output is read everywhere.
    """
    found: dict[Var, Related] = {}
    candidates: dict[Var, tuple[Related, tuple[int, ...]]] = {}
    body = f.body
    memo: dict[Expr, frozenset[Related]] = {}
    while isinstance(body, Let):
        if isinstance(body.var, Var):
            binders, scalar = _binders(body.value)
            for q in run(_support(scalar, memo)):
                at = tuple(binders.index(a.indices[0]) for a in q.arguments if a in map(atom_affine, binders))
                if q.relation in given and len(set(at)) == len(q.arguments):
                    found[body.var], candidates[body.var] = q, (q, at)
                    break
        body = body.body
    for v in _read_elsewhere(f.body, candidates):
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
                q = _related(p) | (yield _support(a, memo))
            case Sum(i, _, a):
                inner = yield _support(a, memo)
                q = frozenset(r for r in inner if not any(i in b.free for b in r.arguments))
            case Add(a, b, _):
                left = yield _support(a, memo)
                q = left & (yield _support(b, memo))
            case Mul(a, b):
                left = yield _support(a, memo)
                q = left | (yield _support(b, memo))
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
        v = _variable(part)
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


def _variable(e: Expr) -> Var | None:
    """The variable that `e` is or reads."""
    while isinstance(e, Access | Proj):
        e = e.body
    return e if isinstance(e, Var) else None
