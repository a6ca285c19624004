"""Conditions that a step of a recurrence asks before it computes a sum of what is zero unless they hold.

    let u = gen i:n. [t = 0] * v[i] in gen i:n. sum j:n. W[i, j] * u[j]
    ->  let u = gen i:n. [t = 0] * v[i] in gen i:n. [t = 0] * sum j:n. W[i, j] * u[j]

Outside of steps such conditions do nothing, and simplification leaves them out. In a step they say when the sum is due.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tensorlang.language.affine import Affine, Index, constant
from tensorlang.language.function import Function
from tensorlang.language.grammar import Access, Add, Bracket, Call, Expr, Gen, Mul, Proj, Sum, Var, bracket, children
from tensorlang.language.lets import bindings, under
from tensorlang.language.predicates import (
    NonNegative,
    Predicate,
    conjunction,
    conjuncts,
    free_atoms,
    lookups,
    relations,
)
from tensorlang.language.rebuilt import with_children
from tensorlang.lowering.plan.dependence import variable
from tensorlang.recursion import Deep, call, run
from tensorlang.simplification.supports import is_zero_at_zero

Asked = frozenset[Predicate]
_NONE: Asked = frozenset()


def is_of_step(q: Predicate) -> bool:
    """Whether `q` is one truth value, which is only known when a step runs, and may fail at many times."""
    if not (lookups(q) or relations(q)) or any(isinstance(x, Index) for x in free_atoms(q)):
        return False
    return not (isinstance(q, NonNegative) and _fails_seldom(q.value))


def _fails_seldom(a: Affine) -> bool:
    """Whether `a` is negative at a fixed number of values of an element only: 0 < t, or t + 1 < T, of times below T."""
    if len(a.lookups) != 1:
        return False
    (x,) = a.lookups
    return a.substitute({x: constant(0) if a.coefficient(x) > 0 else x.array.size - 1}).is_constant


def ask_first(f: Function) -> Function:
    """`f`, the program of a step, with such conditions around its sums."""
    statements, outputs = bindings(f.body)
    known: dict[Var, Asked] = {}
    made = []
    for x, e in statements:
        value, needed = run(_asked(e, known, _NONE))
        if isinstance(x, Var) and needed:
            known[x] = needed
        made.append((x, value))
    return replace(f, body=under(made, run(_asked(outputs, known, _NONE))[0])) if known else f


def _asked(e: Expr, known: Mapping[Var, Asked], outside: Asked) -> Deep[tuple[Expr, Asked]]:
    """`e`, which is read where `outside` holds, with such conditions; and those without which it is zero."""
    if isinstance(e, Var | Access | Proj):
        x = variable(e)
        return e, known.get(x, _NONE) if x is not None else _NONE
    own = frozenset(filter(is_of_step, conjuncts(e.pred))) if isinstance(e, Bracket) else _NONE
    parts, needs = [], []
    for part in children(e):
        made, needed = yield from call(_asked(part, known, outside | own))
        parts.append(made)
        needs.append(needed)
    e = with_children(e, parts)
    match e:
        case Bracket():
            return e, needs[0] | own
        case Sum():
            asked = needs[0] - outside - _explicit(e)
            return bracket(conjunction(sorted(asked, key=str)), e), needs[0]
        case Gen():
            return e, needs[0]
        case Mul():
            return e, needs[0] | needs[1]
        case Add():
            return e, needs[0] & needs[1]
        case Call(f) if len(needs) == 1 and is_zero_at_zero(f):
            return e, needs[0]
    return e, _NONE


def _explicit(e: Expr) -> Asked:
    """The conditions that a sum has at its top."""
    found: set[Predicate] = set()
    while isinstance(e, Sum | Bracket):
        if isinstance(e, Bracket):
            found.update(conjuncts(e.pred))
        e = e.body
    return frozenset(found)
