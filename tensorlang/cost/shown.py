"""Costs as text."""

from __future__ import annotations

import re
from fractions import Fraction

from tensorlang.cost.domains import Domain
from tensorlang.cost.quasi import Monomial, Polynomial, Quotient, Unknown
from tensorlang.cost.symbolic import CostPolynomial
from tensorlang.language.affine import Size, atom_affine
from tensorlang.language.predicates import TRUE, Predicate, Related, free_atoms, substitute
from tensorlang.language.show import predicate_text


def text(cost: CostPolynomial) -> str:
    """`cost` as text that `read_cost` reads back."""
    parts = [
        polynomial_text(a) if p is TRUE else f"[{condition_text(p)}] * ({polynomial_text(a)})" for p, a in cost.shortest
    ]
    return "\n+ ".join(parts) or "0"


def polynomial_text(a: Polynomial) -> str:
    """A quasi-polynomial over one denominator, its terms of highest degree first."""
    whole = a.denominator
    terms = sorted(a.terms.items(), key=lambda term: _rank(term[0]))
    parts = [_term(monomial, k * whole) for monomial, k in terms]
    sum_text = "".join(parts).removeprefix(" + ")
    sum_text = re.sub(r"^ - ", "-", sum_text) or "0"
    if whole == 1:
        return sum_text
    return f"({sum_text})/{whole}" if len(parts) > 1 else f"{sum_text}/{whole}"


def _rank(monomial: Monomial) -> tuple[int, list[str]]:
    return -len(monomial), sorted(unknown_text(x) for x in monomial)


def _term(monomial: Monomial, k: Fraction) -> str:
    names = sorted(unknown_text(x) for x in monomial)
    powers = [f"{name}^{names.count(name)}" if names.count(name) > 1 else name for name in dict.fromkeys(names)]
    factors = powers if abs(k) == 1 and powers else [str(abs(k)), *powers]
    return f" {'-' if k < 0 else '+'} {'*'.join(factors)}"


def unknown_text(x: Unknown) -> str:
    """A size, `floor(n/2)`, `nnz(E)`, or `points(i:n. condition)`."""
    if not isinstance(x, Domain):
        return x.name
    if isinstance(x.pred, Related):
        plain = tuple(atom_affine(i) for i, _ in x.binders)
        if x.pred.arguments == plain and x.pred.relation.sizes == tuple(size for _, size in x.binders):
            return f"nnz({x.pred.relation.name})"
    binders = ", ".join(f"{i.name}:{size}" for i, size in x.binders)
    return f"points({binders}{'. ' if binders else ''}{predicate_text(x.pred)})"


def condition_text(p: Predicate) -> str:
    """A condition on sizes and quotients."""
    quotients = [x for x in free_atoms(p) if isinstance(x, Quotient)]
    names = {f"quotient{k}": x for k, x in enumerate(quotients)}
    shown = predicate_text(substitute(p, {x: atom_affine(Size(name)) for name, x in names.items()}))
    return re.sub("|".join(names) or "(?!)", lambda found: names[found[0]].name, shown)
