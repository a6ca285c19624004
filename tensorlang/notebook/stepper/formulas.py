"""Costs for all sizes as data, which a page evaluates at the sizes that its reader gives.

cost        [[conditions, polynomial], ..]          the sum of the polynomials whose conditions hold
condition   ["=" or ">=", affine]                   how it compares with 0
polynomial  [denominator, [[number, atoms], ..]]    the sum of number * product of atoms, by the denominator
affine      [constant, [[atom, number], ..]]
atom        "n", or [affine, divisor]               a size; a quotient, rounded down
"""

from __future__ import annotations

import json
from typing import Any

from tensorlang.costs.polynomial import Polynomial
from tensorlang.costs.quasi import Quotient
from tensorlang.costs.symbolic import CostPolynomial
from tensorlang.language.affine import Affine, Atom, Size
from tensorlang.language.predicates import Equal, NonNegative, Predicate, conjuncts


def formula(cost: CostPolynomial) -> str | None:
    """`cost` as JSON; None if it depends on data."""
    if not all(isinstance(x, Size | Quotient) for _, a in cost.cells for x in a.unknowns):
        return None
    cells = [[_conditions(p), _polynomial(a)] for p, a in cost.cells]
    return json.dumps(_sorted(cells), separators=(",", ":"))


def _sorted(parts: list[Any]) -> list[Any]:
    """Parts whose order has no meaning, in an order that is the same in all processes."""
    return sorted(parts, key=str)


def _conditions(p: Predicate) -> list[Any]:
    found = []
    for q in conjuncts(p):
        assert isinstance(q, Equal | NonNegative), "costs have conjunctions of comparisons"
        found.append(["=", _affine(q.difference)] if isinstance(q, Equal) else [">=", _affine(q.value)])
    return _sorted(found)


def _polynomial(a: Polynomial) -> list[Any]:
    whole = a.denominator
    return [whole, _sorted([[int(k * whole), _sorted(list(map(_atom, xs)))] for xs, k in a.terms.items()])]


def _affine(a: Affine) -> list[Any]:
    return [a.constant, _sorted([[_atom(x), k] for x, k in a.terms])]


def _atom(x: Atom | Any) -> Any:
    return [_affine(x.numerator), x.divisor] if isinstance(x, Quotient) else x.name
