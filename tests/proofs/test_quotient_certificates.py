"""Certificates of programs with quotients of indices and of elements: everything is decided, and no forgery is
accepted."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from itertools import product

import pytest

import tensorlang as tl
from proofs.checker.certificate import check
from proofs.checker.trees import Refused
from tests.proofs.test_forgeries import Held, agree, certified, end_of, genuine, verdict, without_formulas
from tests.support.sampling import one_in

PROGRAMS = {
    "shared": "f(x: [2*n]R, y: [n]R) = gen i:2*n. x[i] * y[i // 2]",
    "blocks": "f(x: [4*n]R) = sum i:4*n. (x[i] - sum k:4*n. [k // 4 = i // 4] * x[k])^2",
    "shares of a block": "f(x: [4*n]R) = gen i:4*n. exp(x[i]) / sum k:4*n. [k // 4 = i // 4] * exp(x[k])",
    "even and odd": "f(x: [n]R) = sum i:n. if i % 2 = 0 then x[i]^3 else sin(x[i])",
    "taps": "f(x: [4*n + 2]R, w: [3]R) = sum i:4*n. (sum k:3. w[k] * x[(i + k) // 3])^2",
    "elements": "f(x: [n]R, p: [m]idx(n)) = sum i:m. x[p[i] // 2]^2",
    "blocks of elements": "f(x: [m]R, p: [m]idx(n)) = sum i:m. (sum k:m. [p[k] // 2 = p[i] // 2] * x[k])^2",
    "related": "f(x: [n]R, E: rel(n, n)) = gen i:n. [E(i // 2, i % 2)] * x[i]^2",
    "steps": "f(x: [n]R) = fold t:2*n with s = 0 . sin(s) + x[t // 2] * (t % 3)",
    "greatest of a block": "f(x: [4*n]R) = sum i:4*n. x[i] * max k:4*n where k // 4 = i // 4. x[k]",
}
RATIOS = ("shared", "blocks", "shares of a block", "even and odd", "taps", "steps")
"""Programs for which the supremum of the ratio of the claim's sides is known."""
FALSE = {
    "at large sizes": "[n <= 9] * ({e})",
    "at even sizes": "[exists qq:n. n = 2*qq + 1] * ({e})",
    "at one element": "({e}) + [{i} = 1] * 1/1000",
    "at the first of each block but one": "({e}) + [exists qq:n. {i} = 4*qq and 1 <= qq] * 1",
    "in the second half of each block": "[exists qq:n. 0 <= {i} - 4*qq < 2] * ({e})",
}
"""Replacements of an expression e under an index i that are false somewhere."""
COSTLY = {
    "at large sizes": "({e}) + [6 <= n] * (0 * (sum qa:n, qb:n, qc:n, qd:n, qe:n. 1))",
    "in every other place": "({e}) + 0 * (sum qa:n, qb:n, qc:n, qd:n, qe:n. [exists qq:n. qa = 2*qq and 3 <= qq] * 1)",
}
"""The same value, at a cost that is too high."""


def changed(text: str, template: str) -> Held:
    """A certificate with the last array of its gradient changed."""
    held = without_formulas(genuine(PROGRAMS[text]))
    adjoint = held["adjoint"]
    place = [*re.finditer(r"^ *(?:let \w+ = )?gen (\w+):[^.]*\.\s", adjoint, re.MULTILINE)][-1]
    start, end = place.end(), end_of(adjoint, place.end())
    held["adjoint"] = adjoint[:start] + template.format(e=adjoint[start:end], i=place[1]) + adjoint[end:]
    return held


@pytest.mark.parametrize("name", one_in(2, PROGRAMS))
def test_all_is_decided(name: str) -> None:
    assert check(certified(PROGRAMS[name])).decided


@pytest.mark.parametrize("case", one_in(6, product(PROGRAMS, FALSE)), ids=", ".join)
def test_what_is_false_somewhere_is_not_decided(case: tuple[str, str]) -> None:
    name, where = case
    held = changed(name, FALSE[where])
    gradient, false = (tl.parse(one["adjoint"]) for one in (genuine(PROGRAMS[name]), held))
    assert not agree(false, gradient)
    assert verdict(held) != "accepted"


@pytest.mark.parametrize("case", one_in(5, product(PROGRAMS, COSTLY)), ids=", ".join)
def test_what_costs_too_much_is_refused(case: tuple[str, str]) -> None:
    name, where = case
    with pytest.raises(Refused, match="the adjoint costs"):
        check(json.dumps(changed(name, COSTLY[where])), seconds=60)


@pytest.mark.parametrize("name", one_in(3, RATIOS))
def test_a_bound_below_the_largest_ratio_is_refused(name: str) -> None:
    most = Fraction(genuine(PROGRAMS[name])["supremum"]["least"])
    for bound in (most - Fraction(1, 3), most - Fraction(1, 40)):
        assert verdict(without_formulas({**genuine(PROGRAMS[name]), "bound": str(bound)})) == "Refused"
