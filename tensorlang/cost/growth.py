"""How costs grow with the sizes."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import permutations

from tensorlang.cost.counting import Cell
from tensorlang.cost.pieces import known
from tensorlang.cost.polynomial import Monomial, Polynomial, affine
from tensorlang.cost.quasi import Quotient
from tensorlang.cost.shown import polynomial_text, unknown_text
from tensorlang.language.affine import Index, Size, atom_affine, constant
from tensorlang.language.predicates import TRUE, Predicate, at_most, conjunction
from tensorlang.sets.isl import implies, is_empty

_LARGE = 10**9
_WORDS = {1: "linear", 2: "quadratic", 3: "cubic"}


def leading(a: Polynomial) -> Polynomial:
    """The terms of `a` that no other one outgrows as all sizes do; a quotient grows as the fraction does."""
    smooth = _without_rounding(a)
    kept = _largest(smooth.terms, TRUE)
    return Polynomial({monomial: k for monomial, k in smooth.terms.items() if monomial in kept})


def order(cells: Iterable[Cell], context: Predicate) -> list[Monomial]:
    """Products of sizes and numbers of points of which the sum bounds the number, up to a factor, at large sizes."""
    found: dict[Monomial, None] = {}
    for p, a in cells:
        sizes = [x for x in a.unknowns if isinstance(x, Size)]
        large = conjunction([p, *(at_most(constant(_LARGE), atom_affine(x)) for x in sizes)])
        if not is_empty(large, known(context, large)):
            added = [monomial for monomial, k in _without_rounding(a).terms.items() if k > 0]
            found.update(dict.fromkeys(_largest(added, conjunction([context, p]))))
    return _largest(found, context)


def outgrown(cells: Iterable[Cell], bound: Iterable[Cell], context: Predicate) -> list[Monomial]:
    """The products of which the sum of `cells` has more, at large sizes, than a multiple of that of `bound`."""
    bounds = [(q, [m for m, k in _without_rounding(b).terms.items() if k > 0]) for q, b in bound]
    found: dict[Monomial, None] = {}
    for p, a in cells:
        sizes = [x for x in a.unknowns if isinstance(x, Size)]
        here = conjunction([context, p, *(at_most(constant(_LARGE), atom_affine(x)) for x in sizes)])
        if is_empty(here, known(context, here)):
            continue
        most = [m for q, monomials in bounds if not is_empty(conjunction([here, q])) for m in monomials]
        added = [m for m, k in _without_rounding(a).terms.items() if k > 0]
        largest = _largest(added, here)
        found.update((m, None) for m in largest if m and not any(_is_bounded(m, other, here) for other in most))
    return list(found)


def in_terms(monomials: Iterable[Monomial]) -> str:
    """`O(m*n + n^2)`"""
    terms = [polynomial_text(Polynomial({monomial: Fraction(1)})) for monomial in monomials]
    return f"O({' + '.join(sorted(terms)) or '1'})"


def in_words(monomials: Iterable[Monomial]) -> str:
    """`linear in m, quadratic in n`"""
    degrees: dict[str, int] = {}
    for monomial in monomials:
        for x in monomial:
            name = unknown_text(x)
            degrees[name] = max(degrees.get(name, 0), monomial.count(x))
    words = (f"{_WORDS.get(k, f'of degree {k}')} in {name}" for name, k in sorted(degrees.items()))
    return ", ".join(words) or "constant"


def _without_rounding(a: Polynomial) -> Polynomial:
    while quotients := [x for x in a.unknowns if isinstance(x, Quotient)]:
        a = a.substitute({x: affine(x.numerator) * Fraction(1, x.divisor) for x in quotients})
    return a


def _largest(monomials: Iterable[Monomial], p: Predicate) -> list[Monomial]:
    """Those that where `p` holds no other one bounds; of two that bound each other, the first."""
    kept: list[Monomial] = []
    for m in sorted(monomials, key=len, reverse=True):
        if not any(_is_bounded(m, other, p) for other in kept):
            kept = [*(other for other in kept if not _is_bounded(other, m, p)), m]
    return kept


def _is_bounded(small: Monomial, large: Monomial, p: Predicate) -> bool:
    """Whether each factor of `small` is no more than one of its own in `large`."""
    rest = list(large)
    others = []
    for x in small:
        if x in rest:
            rest.remove(x)
        else:
            others.append(x)
    if len(others) > len(rest):
        return False
    return any(
        all(
            isinstance(x, Size | Index)
            and isinstance(y, Size | Index)
            and implies(p, at_most(atom_affine(x), atom_affine(y)))
            for x, y in zip(others, chosen, strict=True)
        )
        for chosen in permutations(rest, len(others))
    )
