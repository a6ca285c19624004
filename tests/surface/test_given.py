"""Programs may give their parameters and sizes any names: arguments by name are distinguished from options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorlang as tl
from tensorlang.language.affine import Index, Size, atom_affine
from tensorlang.language.predicates import less

X = np.array([1.0, 2.0, 4.0])
INDEX = Index("i")


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


def _mesh() -> jax.sharding.Mesh:
    return jax.sharding.Mesh(np.array(jax.devices()[:1]), ("x",))


F = tl.parse("p(x: [n]R) = gen i:m, j:n. x[j]^2")
TAKES_SIZES: dict[str, Callable[..., Any]] = {
    "call": lambda *at, **by_name: np.asarray(F(X, *at, **by_name)).tolist(),
    "lower": lambda *at, **by_name: np.asarray(tl.lower(F)(X, *at, **by_name)).tolist(),
    "kernels": lambda *at, **by_name: np.asarray(tl.lower(F, "pallas-tpu")(X, *at, **by_name)).tolist(),
    "mesh": lambda *at, **by_name: np.asarray(
        tl.lower(F, mesh=_mesh(), sharding={"n": "x"})(X, *at, **by_name)
    ).tolist(),
    "collectives": lambda *at, **by_name: tl.lower(F, mesh=_mesh(), sharding={"n": "x"}).collectives.at(
        *at, n=3, **by_name
    ),
    "to_jax": lambda *at, **by_name: np.asarray(tl.to_jax(F)(X, *at, **by_name)).tolist(),
    "gradient": lambda *at, **by_name: jax.grad(lambda x: tl.to_jax(F)(x, *at, **by_name).sum())(X).tolist(),
    "jacobian": lambda *at, **by_name: tl.jacobian(F, layout="bcoo")(X, *at, **by_name).todense().tolist(),
    "evaluate": lambda *at, **by_name: tl.evaluate(F, X, *at, exact=True, **by_name).tolist(),
    "cost": lambda *at, **by_name: tl.cost(F, *at, n=3, **by_name),
    "cost_polynomial": lambda *at, **by_name: tl.cost_polynomial(F)(*at, n=3, **by_name),
    "memory_polynomial": lambda *at, **by_name: tl.memory_polynomial(F)(*at, n=3, **by_name),
    "simplify": lambda *at, **by_name: str(tl.simplify(F, *at, **by_name)),
    "explain": lambda *at, **by_name: tl.lower(F).explain(*at, n=3, **by_name)["t0"].cost,
    "derivation at": lambda *at, **by_name: dict(tl.derive(F).at(*at, n=3, **by_name).data),
    "derivation tell": lambda *at, **by_name: list(map(str, tl.derive(F).tell(*at, n=3, **by_name))),
    "support": lambda *at, **by_name: tl.pictures.support(F, None, *at, n=3, **by_name).get_label(),
    "sparsity": lambda *at, **by_name: tl.pictures.sparsity(F, "x", *at, n=3, **by_name).get_label(),
    "access_map": lambda *at, **by_name: tl.pictures.access_map(F, "x", None, *at, n=3, **by_name).get_label(),
    "cost_curves": lambda *at, **by_name: tl.pictures.cost_curves(F, "n", [2, 3], *at, **by_name).get_label(),
    "lattice": lambda *at, **by_name: tl.pictures.lattice(
        less(atom_affine(INDEX), atom_affine(Size("m"))), {INDEX: atom_affine(Size("m"))}, *at, **by_name
    ).get_label(),
}
"""Functions that take sizes by name, as functions of the size m."""


@pytest.mark.filterwarnings("ignore:there is no TPU here")
@pytest.mark.parametrize("what", TAKES_SIZES)
def test_sizes_are_keywords_or_a_mapping_by_position_or_by_name(what: str) -> None:
    if what in ("support", "sparsity", "access_map", "cost_curves", "lattice"):
        pytest.importorskip("matplotlib", reason="pictures are drawn by matplotlib").use("agg")
    take = TAKES_SIZES[what]
    assert take(m=2) == take({"m": 2}) == take(sizes={"m": 2})
    with pytest.raises(tl.ArgumentError, match="m is given twice"):
        take(m=2, sizes={"m": 2})


def test_a_parameter_or_a_size_may_be_called_sizes() -> None:
    f = tl.parse("p(sizes: [n]R) = sum i:n. sizes[i]^2")
    assert f(sizes=X) == tl.evaluate(f, sizes=X) == f({"sizes": X}) == f(sizes={"sizes": X}) == 21
    g = tl.parse("p(x: [n]R) = gen i:sizes, j:n. x[j]^2")
    assert tl.cost(g, n=3, sizes=2) == tl.cost(g, {"sizes": 2, "n": 3}) == tl.cost(g, sizes={"sizes": 2, "n": 3}) == 6


def test_functions_whose_keywords_are_options_take_sizes_in_a_mapping() -> None:
    f = tl.parse("p(A: [n][m]R, B: [m][n]R, x: [n]R) = gen i:n. sum j:m, k:n. A[i, j] * B[j, k] * x[k]")
    sizes = {"n": 3, "m": 4}
    assert tl.lower(f, sizes=sizes).source == tl.lower(tl.simplify(f, sizes=sizes)).source
    total = lambda x, y: jnp.sum(x) * jnp.sum(y)
    numbers, mappings = ([48, 192], [{"n": k, "m": k} for k in (48, 192)])
    reports = [tl.testing.assert_cheap_gradient(total, "n", "m", sizes=given) for given in (numbers, mappings)]
    assert reports[0] == reports[1]
    assert reports[0] != tl.testing.assert_cheap_gradient(total, "n", "m", sizes=[{"n": 48, "m": 7}])
    with pytest.raises(tl.ArgumentError, match="no number is given for the size m"):
        tl.testing.assert_cheap_gradient(total, "n", "m", sizes=[{"n": 3}])


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
