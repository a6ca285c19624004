"""How costs grow with the sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import permutations

from tensorlang.costs.counting import Cell
from tensorlang.costs.pieces import known
from tensorlang.costs.polynomial import Monomial, Polynomial, affine
from tensorlang.costs.quasi import Quotient
from tensorlang.costs.shown import polynomial_text, unknown_text
from tensorlang.language.affine import Index, Size, atom_affine, constant
from tensorlang.language.predicates import TRUE, Predicate, at_most, conjunction, negation
from tensorlang.sets.isl import implies, is_empty

_LARGE = 10**9
_FACTOR = 4
"""A size counts as bounded by another if it is at most this many times as large."""
_WORDS = {1: "linear", 2: "quadratic", 3: "cubic"}


def leading(a: Polynomial) -> Polynomial:
    """The terms of `a` that no other term outgrows as all sizes grow; a quotient grows like the fraction."""
    smooth = _without_rounding(a)
    kept = _largest(smooth.terms, TRUE)
    return Polynomial({monomial: k for monomial, k in smooth.terms.items() if monomial in kept})


def order(cells: Iterable[Cell], context: Predicate) -> list[Monomial]:
    """Products of sizes and numbers of points whose sum bounds the number, up to a factor, at large sizes.

    None of them can be left out. For n*w where w <= n, and n*n elsewhere, only n*w is left, which is larger than n*n
    wherever that is needed.
    """
    needed: list[tuple[Predicate, Monomial]] = []
    for p, a in cells:
        large = _large(p, a)
        if not is_empty(large, known(context, large)):
            here = conjunction([context, p])
            needed += ((here, m) for m in _largest(_added(a), here))
    found = _largest(dict.fromkeys(m for _, m in needed), context)
    for m in sorted(found, key=lambda m: max(map(m.count, m), default=0), reverse=True):
        others = [other for other in found if other is not m]
        if all(_is_in(x, others, p) for p, x in needed):
            found = others
    return found


def outgrown(cells: Iterable[Cell], bound: Iterable[Cell], context: Predicate) -> list[Monomial]:
    """The products in the sum of `cells` that exceed, at large sizes, any multiple of the sum of `bound`."""
    bounds, found = list(bound), dict[Monomial, None]()
    for p, a in cells:
        here = conjunction([context, _large(p, a)])
        if is_empty(here, known(context, here)):
            continue
        for where, held in _regions(here, bounds, context):
            most = [m for b in held for m in _added(b)]
            found.update((m, None) for m in _largest(_added(a), where) if m and not _is_in(m, most, where))
    return list(found)


def _large(p: Predicate, a: Polynomial) -> Predicate:
    """`p` and the condition that the sizes in `a` are large."""
    sizes = [x for x in a.unknowns if isinstance(x, Size)]
    return conjunction([p, *(at_most(constant(_LARGE), atom_affine(x)) for x in sizes)])


def _added(a: Polynomial) -> list[Monomial]:
    return [m for m, k in _without_rounding(a).terms.items() if k > 0]


def _regions(
    here: Predicate, cells: Sequence[Cell], context: Predicate
) -> Iterator[tuple[Predicate, list[Polynomial]]]:
    """Parts of the region `here`, in each of which some of `cells` hold throughout and the others nowhere."""
    stack: list[tuple[Predicate, int, list[Polynomial]]] = [(here, 0, [])]
    while stack:
        where, k, held = stack.pop()
        if is_empty(where, known(context, where)):
            continue
        if k == len(cells):
            yield where, held
            continue
        q, b = cells[k]
        opposite = negation(q)
        stack += [] if opposite is None else [(conjunction([where, opposite]), k + 1, held)]
        stack.append((conjunction([where, q]), k + 1, [*held, b]))


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
    """The monomials that no other one bounds where `p` holds; the first of two that bound each other."""
    kept: list[Monomial] = []
    for m in sorted(monomials, key=len, reverse=True):
        if not _is_in(m, kept, p):
            kept = [*(other for other in kept if not _is_bounded(other, m, p)), m]
    return kept


def _is_in(small: Monomial, several: Iterable[Monomial], p: Predicate) -> bool:
    """Whether one of several products bounds `small` where `p` holds."""
    return any(_is_bounded(small, large, p) for large in several)


def _is_bounded(small: Monomial, large: Monomial, p: Predicate) -> bool:
    """Whether each factor of `small` is at most a few times a different factor of `large`, where `p` holds."""
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
            and implies(p, at_most(atom_affine(x), atom_affine(y) * _FACTOR))
            for x, y in zip(others, chosen, strict=True)
        )
        for chosen in permutations(rest, len(others))
    )
