"""Products with bands stored by diagonals: sliding windows and their adjoints, as products of blocks."""

from __future__ import annotations

import random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorlang as tl
from tensorlang.lowering.arrays import meaning
from tensorlang.lowering.arrays.ir import ArrayOperation, Assign
from tensorlang.lowering.emit.library import bands
from tests.support.growing import agrees, grows_linearly
from tests.support.operations import count_of
from tests.support.sampling import one_in
from tests.support.traced import work

PLACES = [(1, 0, 5), (2, 7, -39), (33, 7, 0), (40, 90, -39), (33, 90, 5)]
"""The numbers of diagonals and rows, and the place that the first row reads first."""


@pytest.mark.parametrize("place", one_in(3, PLACES), ids=str)
def test_a_band_times_a_matrix_in_blocks_is_the_sum_over_its_diagonals(place: tuple[int, int, int]) -> None:
    count, rows, first = place
    rng = np.random.default_rng(0)
    for shared, others, transposed in ((0, 0, False), (1, 1, False), (0, 1, True), (1, 0, True)):
        lead = (2,) * shared
        p = rng.normal(size=(*lead, *(3,) * others, rows + (4 if transposed else 0), count))
        x = rng.normal(size=(*lead, rows + 4, 3))
        arguments = (p, x, first, rows, transposed, shared, others)
        with jax.enable_x64(True):
            np.testing.assert_allclose(bands._band_times(*arguments), meaning._band_times(*arguments), atol=1e-12)


@pytest.mark.parametrize("place", one_in(3, [*PLACES, (0, 3, 0)]), ids=str)
def test_a_band_of_a_product_in_blocks_has_the_elements_of_the_product(place: tuple[int, int, int]) -> None:
    count, rows, first = place
    rng = np.random.default_rng(0)
    for shared, own, others in ((0, 0, 0), (1, 0, 1), (1, 1, 0), (0, 1, 1)):
        lead = (2,) * shared
        x = rng.normal(size=(*lead, *(2,) * own, rows + 4, 3))
        y = rng.normal(size=(*lead, *(3,) * others, rows, 3))
        arguments = (x, y, first, count, shared, own, others)
        with jax.enable_x64(True):
            np.testing.assert_allclose(bands._band_of(*arguments), meaning._band_of(*arguments), atol=1e-12)


def a_program(rng: random.Random, width: int) -> str:
    """A program that has a band, written as a mask over pairs of rows: attention of some kind."""
    low = rng.choice((0, -2, 3, -width))
    seen = rng.choice((f"{low} <= i - j < {low + width}", f"{low} <= j - i < {low + width}"))
    batch = rng.choice(("", "h"))
    of = lambda x, at, many: f"{x}[{'g, ' if many and batch else ''}{at}]"
    keys, values = rng.random() < 0.6, rng.random() < 0.6
    g = "g:h, " if batch else ""
    score = f"sum a:d. {of('Q', 'i, a', True)} * {of('K', 'j, a', keys)}"
    function = rng.choice((f"exp({score})", f"0.5 * {score}", f"({score})^2", f"c[i] * (1 + {score})", score))
    shapes = lambda many, x: f"{x}: {'[h]' if many and batch else ''}[n][d]R"
    text = f"""f({shapes(True, "Q")}, {shapes(keys, "K")}, {shapes(values, "V")}, c: [n]R) =
        let p = gen {g}i:n, j:n. [{seen}] * {function} in """
    read = of("p", "i, j", True)
    further = rng.choice(("", f"let z = gen {g}i:n. 1 + (sum j:n. {read})^2 in "))
    weight = rng.choice((read, f"{read} * c[j]", f"{read} * c[i]", f"sin({read})"))
    at = rng.choice(("i, j", "j, i"))
    inner, outer = ("j", "i") if at == "i, j" else ("i", "j")
    result = f"sum {inner}:n. {weight} * {of('V', f'{inner}, a', values)}"
    divided = f"({result}) / {of('z', outer, True)}" if further else result
    return f"{text}{further}gen {g}{outer}:n, a:d. {divided}"


def arguments(f: tl.Function, sizes: dict[str, int], seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=[sizes[part[0]] for part in str(x.type).split("[")[1:]]) / 2 for x in f.variables]


def check(f: tl.Function, sizes: dict[str, int], text: str) -> None:
    given = arguments(f, sizes)
    with jax.enable_x64(True):
        wanted = tl.evaluate(f, *given)
        np.testing.assert_allclose(tl.lower(f)(*given), wanted, atol=1e-9, err_msg=text)
        bar = np.random.default_rng(1).normal(size=np.shape(wanted))
        g = tl.adjoint(f)
        for a, b in zip(
            jax.tree.leaves(tl.lower(g)(*given, bar)), jax.tree.leaves(tl.evaluate(g, *given, bar)), strict=True
        ):
            np.testing.assert_allclose(a, b, atol=1e-9, err_msg=text)


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(s, marks=pytest.mark.slow) for s in range(3, 16))])
def test_random_attention_through_windows_is_right_with_its_adjoint(seed: int) -> None:
    rng = random.Random(seed)
    text = a_program(rng, rng.choice((1, 3, 5, 40)))
    for n in (rng.choice((0, 1)), 6):
        check(tl.parse(text), {"n": n, "d": 2, "h": 2}, text)


ATTENTION = """f(Q: [n][d]R, K: [n][d]R, V: [n][d]R) =
  let s = gen i:n, j:n. [0 <= i - j < 40] * sum a:d. Q[i, a] * K[j, a] in
  let top = gen i:n. max j:n where 0 <= i - j < 40. s[i, j] in
  let p = gen i:n, j:n. [0 <= i - j < 40] * exp(s[i, j] - top[i]) in
  let z = gen i:n. sum j:n. p[i, j] in
  gen i:n, b:d. sum j:n. p[i, j] / z[i] * V[j, b]"""


def test_attention_through_a_window_is_made_of_products_of_blocks_and_their_adjoints() -> None:
    for f, count in ((tl.parse(ATTENTION), 2), (tl.adjoint(tl.parse(ATTENTION)), 5)):
        lowered = tl.lower(f)
        found = [name for step in lowered.explain().steps for name in step.strategies]
        assert found.count("band product") == count, lowered.definition
        assert "max j:40" in str(tl.simplify(f)), "the greatest is looked for in the window alone"


@pytest.mark.slow
def test_attention_through_a_window_is_that_of_the_mask() -> None:
    def masked(q: Any, k: Any, v: Any) -> Any:
        ahead = np.arange(len(q))[:, None] - np.arange(len(q))
        return jax.nn.softmax(jnp.where((ahead >= 0) & (ahead < 40), q @ k.T, -np.inf), axis=1) @ v

    f = tl.parse(ATTENTION)
    for n in (1, 130):
        given = arguments(f, {"n": n, "d": 5})
        with jax.enable_x64(True):
            wanted, back = jax.vjp(masked, *given)
            np.testing.assert_allclose(tl.lower(f)(*given), wanted, atol=1e-12)
            for a, b in zip(tl.lower(tl.adjoint(f))(*given, wanted), back(wanted), strict=True):
                np.testing.assert_allclose(a, b, atol=1e-12)


def test_elements_that_are_computed_are_linear_in_the_rows() -> None:
    f = tl.parse(ATTENTION)

    def elements(n: int) -> int:
        given = arguments(f, {"n": n, "d": 8})
        return work(tl.lower(f), *given).elements + work(tl.lower(tl.adjoint(f)), *given, given[0]).elements

    assert elements(2048) <= 4.2 * elements(512)


def test_rows_do_not_see_what_is_outside_of_their_window_in_strict_code() -> None:
    f = tl.parse("f(p: [40][n]R, V: [n][d]R) = gen i:n, b:d. sum o:40. [i + o < n] * p[o, i] * V[i + o, b]")
    p, v = np.ones((40, 90)), np.ones((90, 2))
    v[80] = np.nan
    found = np.asarray(tl.lower(f, strict=True)(p, v))
    assert np.isfinite(found[:41]).all()
    assert np.isnan(found[41:81]).all()
    assert np.isfinite(found[81:]).all()


SUM = """f(t: [2*n]R, u: [n]R, v: [n]R, b: [5][n]R, x: [n]R) =
    gen i:n. sum j:n. (t[n + i - j] + u[i] * v[j] - [-2 <= i - j <= 2] * b[i - j + 2, i]) * x[j]"""


def test_toeplitz_plus_rank_one_plus_a_band_is_no_loop_over_rows_nor_stored() -> None:
    f = tl.parse(SUM)
    rng = np.random.default_rng(0)
    for n in (1, 2, 7):
        t, u, v, b, x, y = (rng.normal(size=s) for s in (2 * n, n, n, (5, n), n, n))
        with jax.enable_x64(True):
            np.testing.assert_allclose(tl.lower(f)(t, u, v, b, x), tl.evaluate(f, t, u, v, b, x), atol=1e-9)
            g = tl.adjoint(f)
            for a, w in zip(tl.lower(g)(t, u, v, b, x, y), tl.evaluate(g, t, u, v, b, x, y), strict=True):
                np.testing.assert_allclose(a, w, atol=1e-9)
    g = tl.adjoint(f)
    n = 4096
    ones = [np.ones(s, np.float32) for s in (2 * n, n, n, (5, n), n, n)]
    assert work(tl.lower(f), *ones[:5]).elements + work(tl.lower(g), *ones).elements < 300 * n


def test_a_band_that_data_cut_is_no_product_of_blocks() -> None:
    f = tl.parse(
        "f(z: [n]R, A: [n][k]R, y: [n]idx(n)) = "
        "gen i:n, l:k. sum j:n. [j <= i + 2 and y[j] <= i <= j + 1] * z[j] * A[j, l]"
    )
    rng = np.random.default_rng(0)
    given = rng.normal(size=7), rng.normal(size=(7, 3)), rng.integers(0, 7, 7)
    with jax.enable_x64(True):
        np.testing.assert_allclose(tl.lower(f)(*given), tl.evaluate(f, *given), atol=1e-12)


def test_what_is_zero_in_a_corner_is_read_there_without_a_mask() -> None:
    lowered = tl.lower(tl.adjoint(tl.parse(ATTENTION)))
    assigned = {s.names[0]: s for s in lowered.array_program.definition.body.statements if isinstance(s, Assign)}
    read = [node for name in ("z", "t4", "t10") for node in assigned[name].value.walk()]
    masks = ("where", "_array_by_blocks", "_sum_by_blocks")
    assert not any(isinstance(node, ArrayOperation) and node.operation in masks for node in read), lowered.definition
    hidden = tl.parse("f(x: [n][3]R, y: [n][3]R) = gen i:n. sum j:3. [2 <= i + j] * x[i, j] * y[i, j]")
    given = [np.full((4, 3), 2.0), np.arange(12.0).reshape(4, 3)]
    np.testing.assert_allclose(tl.lower(hidden)(*given), tl.evaluate(hidden, *given))  # x is nonzero in its corner


@pytest.mark.parametrize("n", one_in(2, [0, 1, 2, 3, 7]))
@pytest.mark.parametrize("seen", ["-1 <= i - j <= 1", "0 <= i - j < 2", "i <= j <= i + 2", "i + 1 <= j < i + 4"])
def test_few_diagonals_that_lie_one_after_the_other_are_read_right(seen: str, n: int) -> None:
    text = f"""f(a: [n + 1][n]R, x: [n]R, y: [n + 1]R) =
      let t = gen i:n + 1, j:n. [{seen}] * sin(a[i, j]) in
      let s = gen i:n + 1, j:n. t[i, j] * t[i, j] + t[i, j] * y[i] in
      gen i:n + 1. (sum j:n. s[i, j] * x[j]) + sum j:n. t[i, j] * s[i, j]"""
    f = tl.parse(text)
    rng = np.random.default_rng(0)
    given = [rng.normal(size=(n + 1, n)), rng.normal(size=n), rng.normal(size=n + 1)]
    bar = rng.normal(size=n + 1)
    with jax.enable_x64(True):
        np.testing.assert_allclose(tl.lower(f)(*given), tl.evaluate(f, *given), atol=1e-12)
        g = tl.adjoint(f)
        for found, wanted in zip(tl.lower(g)(*given, bar), tl.evaluate(g, *given, bar), strict=True):
            np.testing.assert_allclose(found, wanted, atol=1e-12)
        mapped = jax.vmap(tl.to_jax(f))(*[np.stack([v, 2 * v]) for v in given])
        np.testing.assert_allclose(mapped[1], tl.evaluate(f, *[2 * v for v in given]), atol=1e-12)


def a_chain(rng: random.Random) -> str:
    """A program that computes bands of bands: products, transposed products, sums, and elementwise functions."""

    def element(k: int, i: str, j: str) -> str:
        return f"b{k}[{i}, {j}]" if rng.random() < 0.7 else f"b{k}[{j}, {i}]"

    lets, count = [], rng.randint(2, 3)
    for k in range(count):
        low, width = rng.randint(-2, 1), rng.randint(1, 3)
        where = f"{low} <= i - j < {low + width}"
        if k == 0:
            e = f"[{where}] * x[i] * y[j]"
        else:
            a, b = rng.randrange(k), rng.randrange(k)
            product = f"sum k:n. {element(a, 'i', 'k')} * {element(b, 'k', 'j')}"
            e = rng.choice(
                [
                    product,
                    f"({product})^2",
                    f"{element(a, 'i', 'j')} + [{where}] * sin(x[j])",
                    f"{element(a, 'i', 'j')} * {element(b, 'i', 'j')}",
                ]
            )
        lets.append(f"let b{k} = gen i:n, j:n. {e} in")
    last = element(count - 1, "i", "j")
    end = rng.choice([f"sum i:n, j:n. {last}^2 * x[j]", f"gen i:n. sum j:n. {last} * y[j]"])
    return f"f(x: [n]R, y: [n]R) = {' '.join(lets)} {end}"


@pytest.mark.parametrize("seed", one_in(18, range(36)))
def test_random_bands_of_bands_are_right_and_linear_in_the_rows(seed: int) -> None:
    f = tl.parse(a_chain(random.Random(seed)))
    agrees(f, 0, 1, 2, 7)
    grows_linearly(f)


B = "let b = gen i:n, j:n. [-1 <= i - j <= 1] * sin(x[i] + y[j]) in"
AT_DATA = {
    "rows": f"{B} gen i:n. sum j:n. b[t[i], j] * x[j]",
    "columns": f"{B} gen i:n. sum j:n. b[j, t[i]] * x[j]",
    "rows and columns": f"{B} gen i:n. sum j:n. b[t[i], s[j]] * x[j]",
    "a quadratic form": f"{B} sum i:n, j:n. b[t[i], j] * x[j] * x[i]",
    "of a product of bands": f"{B} let c = gen i:n, j:n. sum k:n. b[i, k] * b[k, j] in "
    "gen i:n. sum j:n. c[t[i], j] * x[j]",
    "of weights": "gen i:n. sum j:n. [-2 <= t[i] - j <= 2] * w[t[i] - j + 2, j] * x[j]",
}


def at_data(program: str) -> tl.Function:
    return tl.parse(f"f(t: [n]idx(n), s: [n]idx(n), x: [n]R, y: [n]R, w: [5][n]R) = {program}")


@pytest.mark.parametrize("name", one_in(3, AT_DATA))
def test_bands_are_read_at_data_rows_in_proportion_to_their_width(name: str) -> None:
    f = at_data(AT_DATA[name])
    agrees(f, 0, 1, 2, 7)
    grows_linearly(f, least=1024)


def test_a_function_of_both_in_a_window_at_data_is_computed_in_the_window_alone() -> None:
    f = at_data("gen i:n. sum j:n. [t[i] - 3 <= j <= t[i]] * sin(x[t[i]] + y[j]) * x[j]")
    agrees(f, 0, 1, 2, 7)
    grows_linearly(f, derived=False)


def a_band_at_data(rng: random.Random) -> str:
    """A band, or an array made of one, that is read in a sum at rows, columns or both given by data."""
    low, width = rng.randint(-3, 1), rng.randint(1, 4)
    where = f"{low} <= i - j < {low + width}"
    value = rng.choice(["sin(x[i] + y[j])", "x[i] * sin(y[j])", "exp(x[i] - y[j])", "(w[0, i] + x[j])"])
    lets = f"let b = gen i:n, j:n. [{where}] * {value} in"
    row, column = rng.choice(
        [("t[i]", "j"), ("i", "t[j]"), ("j", "t[i]"), ("t[j]", "i"), ("t[i]", "s[j]"), ("s[j]", "i")]
    )
    term = f"b[{row}, {column}] * {rng.choice(['x[j]', 'y[j]', 'x[j] * x[i]'])}"
    return f"{lets} {rng.choice(['gen i:n. sum j:n. ', 'sum i:n, j:n. '])}{term}"


@pytest.mark.parametrize("seed", one_in(24, range(48)))
def test_random_bands_at_data_rows_are_right_and_linear_in_the_rows(seed: int) -> None:
    f = at_data(a_band_at_data(random.Random(seed)))
    agrees(f, 0, 1, 2, 7)
    grows_linearly(f, least=1024)


TRIANGLE = "let d = gen i:n, j:n. [j <= i] * x[i] * y[j] in"
DIAGONALS = {
    "added": f"{TRIANGLE} (sum i:n. d[i, i]) + (sum i:n, j:n, k:n. d[i, j] * d[k, j] * x[k])",
    "squared": f"{TRIANGLE} (sum i:n. d[i, i]^2) + (sum i:n, j:n, k:n. d[i, j] * d[k, j] * x[k])",
    "and a triangle": "let d = gen i:n, j:n. [i = j] * x[i] + [j <= i] * y[i] * w[0, j] in "
    "sum i:n, j:n, k:n. d[i, j] * d[k, j] * x[k]",
    "and an outer product": "let d = gen i:n, j:n. x[i] * y[j] + [i = j] * y[i] in "
    "gen i:n. d[i, i] * sum j:n, k:n. d[i, j] * d[k, j] * x[k]",
    "of an outer product and a triangle": "let d = gen i:n, j:n. x[i] * y[j] + [j <= i] * y[j] in "
    "gen i:n. d[i, i] * sum j:n, k:n. d[i, j] * d[k, j] * x[k]",
    "of a group": "let d = gen i:n, j:n. [t[j] = t[i]] * x[i] * y[j] in "
    "gen i:n. d[i, i] * sum j:n, k:n. d[i, j] * d[k, j] * x[k]",
}


@pytest.mark.parametrize("name", one_in(2, DIAGONALS))
def test_diagonals_beside_triangles_of_products_are_no_arrays_of_pairs(name: str) -> None:
    f = at_data(DIAGONALS[name])
    agrees(f, 0, 1, 2, 7)
    grows_linearly(f, least=2048)


def test_a_band_under_a_condition_on_sizes_is_multiplied_where_that_holds() -> None:
    f = tl.parse("f(p: [n][3]R, x: [n][n]R) = gen i:n, c:n. sum o:3. [i + o < n and 3 <= n] * p[i, o] * x[i + o, c]")
    assert count_of(tl.lower(f), "_band_times")
    agrees(f, 0, 1, 2, 3, 7)
