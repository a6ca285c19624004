"""Programs may give their parameters and sizes any names: arguments by name are distinguished from options."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import tensorlang as tl

X = np.array([1.0, 2.0, 4.0])


@pytest.mark.parametrize("name", ["exact", "relations", "self", "lambda"])
def test_a_parameter_may_have_any_name(name: str) -> None:
    f = tl.parse(f"p({name}: [n]R) = sum i:n. {name}[i]^2")
    for run in (f, tl.lower(f), tl.to_jax(f), lambda *args: tl.evaluate(f, *args)):
        assert run({name: X}) == run(X) == 21
    assert tl.evaluate(f, {name: X}, exact=True) == tl.evaluate(f, X, exact=True) == 21
    np.testing.assert_array_equal(tl.grad(f)({name: X}), 2 * X)
    np.testing.assert_array_equal(jax.grad(lambda x: tl.to_jax(f)({name: x}))(X), 2 * X)


@pytest.mark.parametrize("name", ["exact", "ax", "wrt", "self"])
def test_a_size_may_have_any_name(name: str) -> None:
    f = tl.parse(f"p(x: [n]R) = gen i:{name}, j:n. x[j]^2")
    for run in (f, tl.lower(f), tl.to_jax(f), lambda *args: tl.evaluate(f, *args)):
        assert np.shape(run(X, {name: 2})) == (2, 3)
    assert tl.cost(f, {name: 2, "n": 3}) == tl.cost(f, {name: 2}, n=3) == tl.cost_polynomial(f)({name: 2, "n": 3}) == 6
    assert str(tl.simplify(f, {name: 2})) == str(tl.simplify(f))
    derivation = tl.derive(f).at({name: 2, "n": 3})
    assert derivation.data == {name: 2, "n": 3}
    assert derivation.tell({name: 2, "n": 3})
    ax = tl.pictures.support(f, None, {name: 2}, n=3)
    assert tl.pictures.sparsity(f, "x", {name: 2}, n=3, ax=ax) is ax
    assert tl.pictures.access_map(f, "x", None, {name: 2}, n=3, ax=ax) is ax
    assert tl.pictures.cost_curves(f, "n", [2, 3], {name: 2}, wrt="x", ax=ax) is ax


def test_an_option_that_may_be_a_parameter_is_an_error_that_says_how_to_give_it() -> None:
    f = tl.parse("p(exact: [n]R, relations: rel(n)) = sum i:n where relations(i). exact[i]")
    held = np.array([True, False, True])
    with pytest.raises(
        tl.ArgumentError, match=r"exact is an option of evaluate, and a parameter of p\nhint: .*mapping"
    ):
        tl.evaluate(f, relations=held, exact=X)
    assert tl.evaluate(f, {"exact": X, "relations": held}) == tl.evaluate(f, X, held) == 5
    assert tl.evaluate(f, {"exact": X, "relations": held}, exact=True) == 5
    with pytest.raises(tl.ArgumentError, match="relations is an option of cost, and a parameter of p"):
        tl.cost(f, relations=held)
    assert tl.cost(f, {"relations": held}) == 1
    g = tl.parse("p() = gen i:ax. 1")
    with pytest.raises(tl.ArgumentError, match="ax is an option of support, and a size of p"):
        tl.pictures.support(g, ax=3)


def test_what_is_no_mapping_is_an_error() -> None:
    with pytest.raises(tl.ArgumentError, match="expected what is given by name, a mapping or keywords, found 3"):
        tl.cost(tl.parse("p() = gen i:n. 1"), 3)


def test_what_is_given_twice_is_an_error() -> None:
    f = tl.parse("p(x: [n]R) = gen i:m. sum j:n. x[j]")
    for wrong in (
        lambda: f({"x": X, "m": 1}, m=1),
        lambda: tl.evaluate(f, X, {"m": 1}, m=1),
        lambda: tl.cost(f, {"m": 1}, m=1, n=2),
        lambda: tl.to_jax(f)(X, {"m": 1}, m=2),
    ):
        with pytest.raises(tl.ArgumentError, match="m is given twice, in a mapping and as a keyword"):
            wrong()
    with pytest.raises(tl.ArgumentError, match="x is given twice, by position and by name"):
        f(X, {"x": X}, m=1)
    with pytest.raises(tl.ArgumentError, match="no parameter or size called k"):
        f({"x": X, "k": 1}, m=1)


DERIVED = {
    "grad": tl.grad,
    "adjoint": tl.adjoint,
    "value and gradient": tl.value_and_grad,
    "derivative": tl.derivative,
    "jacobian": tl.jacobian,
    "hvp": tl.hvp,
    "simplified": lambda f: tl.simplify(tl.grad(f)),
    "gradient of the gradient": lambda f: tl.adjoint(tl.grad(f)),
}


@pytest.mark.parametrize("how", DERIVED)
def test_what_is_derived_takes_the_sizes_of_the_program_even_where_it_needs_them_no_more(how: str) -> None:
    f = tl.parse("p(x: [n]R) = sum i:n. x[i]^2 + sum j:m. 3")
    g = DERIVED[how](f)
    arguments = [np.ones(3) if x.type == tl.parse("p(x: [n]R) = x").type else 1.0 for x in g.variables]
    want = jax.tree.leaves(tl.evaluate(g, *arguments, m=4))
    for run in (g, tl.lower(g), tl.to_jax(g)):
        for found, wanted in zip(jax.tree.leaves(run(*arguments, m=4)), want, strict=True):
            np.testing.assert_allclose(found, wanted)
    assert tl.cost(g, n=3, m=4) >= 0
    with pytest.raises(tl.ArgumentError, match="the size m must be a whole number from 0 on, found -1"):
        g(*arguments, m=-1)
    with pytest.raises(tl.ArgumentError, match="no parameter or size called k"):
        g(*arguments, m=4, k=1)
