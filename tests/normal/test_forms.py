"""The normal forms: each pass refuses input that is not in the form before it, and a corrupted result is detected."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tensorlang as tl
from tensorlang.normal.forms import (
    Why,
    require,
    why_not_gen_outermost,
    why_not_let_lifted,
    why_not_pair_free,
    why_not_ssa,
)

Form = Callable[[tl.Function], Why]

CORRUPTED: list[tuple[Form, str, str]] = [
    (why_not_let_lifted, "f(a: R) = 1 + (let x = a * a in x)", "a let is inside an expression"),
    (why_not_let_lifted, "f(a: R) = let x = (let y = a in y * y) in x", "a let is inside an expression"),
    (why_not_pair_free, "f(a: R) = 1 + (let x = a * a in x)", "a let is inside an expression"),
    (why_not_pair_free, "f(a: R) = fst((a, a))", "a projection is not of an input"),
    (why_not_pair_free, "f(a: [n]R) = gen i:n. (a[i], a[i])", "a pair is made inside an expression"),
    (why_not_pair_free, "f(a: [n](R, R)) = 1", "the parameter a is an array of pairs"),
    (
        why_not_gen_outermost,
        "f(a: [n]R) = sum j:n. (gen i:n. a[i])[j]",
        "an access is to neither a variable nor an input",
    ),
    (why_not_gen_outermost, "f(a: [n]R) = gen i:n. [i < 2] * gen j:n. a[j]", "a gen is inside an expression"),
    (
        why_not_ssa,
        "f(a: R) = let x = a * a + a in x",
        "the right-hand side of x is none of the statements of Figure 10",
    ),
    (
        why_not_ssa,
        "f(a: [n + 1]R) = let x = gen i:n. a[i + 1] in x",
        "the right-hand side of x is none of the statements of Figure 10",
    ),
    (why_not_ssa, "f(a: R) = a * a", "an output is neither a variable nor an input"),
]


@pytest.mark.parametrize(("why", "text", "reason"), CORRUPTED)
def test_a_program_that_is_not_in_the_form_is_told_why(why: Form, text: str, reason: str) -> None:
    assert why(tl.parse(text)) == reason
    with pytest.raises(tl.NormalFormError, match=reason):
        require(why, tl.parse(text))


PASSES: list[tuple[Callable[[tl.Function], tl.Function], str]] = [
    (tl.eliminate_pairs, "f(a: R) = 1 + (let x = a * a in x)"),
    (tl.push_out_gen, "f(a: R) = 1 + (let x = a * a in x)"),
    (tl.push_out_gen, "f(a: R) = sin(fst((a, a)))"),
    (tl.to_ssa, "f(a: [n]R) = sum j:n. (gen i:n. a[i])[j]"),
    (tl.to_ssa, "f(a: R) = sin(fst((a, a)))"),
]


@pytest.mark.parametrize(("apply", "text"), PASSES)
def test_a_pass_refuses_what_is_not_in_the_form_before(apply: Callable[[tl.Function], tl.Function], text: str) -> None:
    with pytest.raises(tl.NormalFormError):
        apply(tl.parse(text))
