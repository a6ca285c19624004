"""Where statements can be other than 0, and on which elements of an input they depend.

Both are predicates, composed statement by statement, and so hold for all sizes. With S the support, and D the elements
x[t] on which a statement depends,

    Z = gen g. sum i, j, s. [p] * X[i] * Y[j]
    S(Z)[g]    = exists i, j, s. p and S(X)[i] and S(Y)[j]
    D(Z)[g, t] = exists i, j, s. p and (D(X)[i, t] and S(Y)[j] or S(X)[i] and D(Y)[j, t])

Only the brackets count: cancellation between terms is not noticed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tensorlang.errors import ArgumentError, LimitError, ScopeError
from tensorlang.language.affine import Index, atom_affine
from tensorlang.language.function import Function
from tensorlang.language.predicates import (
    FALSE,
    TRUE,
    And,
    Exists,
    Or,
    Predicate,
    conjunction,
    disjunction,
    equal,
)
from tensorlang.normal import normal_ssa
from tensorlang.normal.pattern import renamed
from tensorlang.normal.ssa import (
    SSA,
    Addition,
    Comparison,
    Constant,
    Contraction,
    Input,
    Map,
    Selection,
    Statement,
    factor_indices,
    inner_ranges,
    live,
    output_list,
    own_indices,
    own_ranges,
)
from tensorlang.normal.tidy import tidy
from tensorlang.sets.solve import Ranges, project, simplify_in

_MOST_STATEMENTS = 2_000
_MOST_PARTS = 400
_SHORT = 24

Places = Mapping[Statement, Predicate]


def statement_of(f: Function, name: str | None) -> tuple[SSA, Statement]:
    """The statement that a let of `f` calls `name`, or the result for None, with the statements that it needs.

    Raises `ScopeError` if there is none, `ArgumentError` if the result is a pair, `LimitError` if there are too many.
    """
    s = normal_ssa(f)
    by_name = {called: x for x, called in s.names.items()}
    known = ", ".join(by_name) or "none"
    found: Statement
    if name is None:
        if isinstance(s.outputs, tuple):
            raise ArgumentError(f"{f.name} gives a pair; a picture is of one array", hint=f"name one of {known}")
        found = s.outputs
    elif name in by_name:
        found = by_name[name]
    else:
        raise ScopeError(f"{f.name} has no statement called {name!r}; it has {known}")
    needed = live(replace(s, outputs=found))
    many = len(needed.statements)
    if many > _MOST_STATEMENTS:
        raise LimitError(f"the support is composed of at most {_MOST_STATEMENTS} statements, found {many}")
    needed = tidy(needed)
    return needed, output_list(needed.outputs)[0]


def supports(s: SSA) -> Places:
    """Where each statement can be other than 0, over its own indices.

    Raises `LimitError` if the predicates get too long.
    """
    found: dict[Statement, Predicate] = {}
    for x in s.statements:
        match x:
            case Input() | Selection() | Comparison():
                where: Predicate = TRUE
            case Constant(value, _):
                where = TRUE if value else FALSE
            case Addition(terms, _):
                where = disjunction(conjunction([t.pred, found[t.operand]]) for t in terms)
            case Map(p, _, _, _):
                where = p
            case Contraction(p, factors, _, _):
                both = conjunction([p, *(_at(found, x, k) for k in range(len(factors)))])
                where = project(inner_ranges(x), both, own_ranges(x))
        found[x] = _settled(where, own_ranges(x))
    return found


def dependence(s: SSA, of: Statement, on: Input) -> tuple[Predicate, Ranges]:
    """The pairs of an element of `of`, at its own indices, and an element of `on`, at further ones, that it depends on.

    Also returns the ranges of all these indices in order. Raises `LimitError` if the predicates get too long.
    """
    nonzero = supports(s)
    further = {Index("t"): size for size in on.shape}
    found: dict[Statement, Predicate] = {}
    for x in s.statements:
        ranges = {**own_ranges(x), **further}
        where: Predicate = FALSE
        match x:
            case Input():
                if x is on:
                    pairs = zip(own_indices(x), further, strict=True)
                    where = conjunction(equal(atom_affine(i), atom_affine(t)) for i, t in pairs)
            case Addition(terms, _):
                where = disjunction(conjunction([t.pred, found[t.operand]]) for t in terms)
            case Map(p, _, arguments, _):
                where = conjunction([p, disjunction(found[y] for y in arguments)])
            case Contraction(p, factors, _, _):
                parts = []
                for k in range(len(factors)):
                    others = (_at(nonzero, x, other) for other in range(len(factors)) if other != k)
                    parts.append(conjunction([p, _at(found, x, k), *others]))
                where = project(inner_ranges(x), disjunction(parts), ranges)
        found[x] = _settled(where, ranges)
    return found[of], {**own_ranges(of), **further}


def _at(found: Places, x: Contraction, k: int) -> Predicate:
    """The predicate found for factor `k`, at the places where `x` reads it."""
    factor = x.factors[k]
    return renamed(found[factor], own_indices(factor), factor_indices(x)[k])


def _settled(p: Predicate, ranges: Ranges) -> Predicate:
    """`p`, simplified if that is quick; long predicates are only evaluated point by point."""
    stack, parts = [p], 0
    while stack:
        q = stack.pop()
        parts += 1
        if parts > _MOST_PARTS:
            raise LimitError(f"the support takes a predicate of more than {_MOST_PARTS} parts")
        stack += q.parts if isinstance(q, And | Or) else [q.body] if isinstance(q, Exists) else []
    return simplify_in(p, ranges) if parts <= _SHORT else p
