"""Sums over groups and orders, and over groups by several index arrays: the code is right, and its work grows with
n."""

from __future__ import annotations

import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorlang as tl
from tensorlang.lowering.arrays import meaning_of_extrema as meaning
from tensorlang.lowering.emit.library import groups
from tensorlang.lowering.emit.library.groups import (
    _greater_of_both,
    _group_numbers,
    _group_numbers_of_both,
    _joined_in_order_of_groups,
    _numbered,
    _running_in_groups,
    _running_up_to,
    _sum_of_both,
)
from tensorlang.lowering.emit.library.relations import _by_place
from tests.support.growing import agrees, grows_linearly
from tests.support.programs import random_arguments
from tests.support.promises import close
from tests.support.sampling import one_in

PARAMS = "p: [n]idx(n), q: [n]idx(n), s: [n]idx(2), t: [n]idx(n), x: [n]R, y: [n]R, A: [n][3]R"

BOTH = "p[j] = p[i] and q[j] = q[i]"
MOST = "(max k:n where p[k] = p[i] and q[k] = q[i]. x[k])"
PROGRAMS = {
    "up to here": "gen i:n. sum j:n. [p[j] = p[i] and j <= i] * x[j]",
    "before": "gen i:n. sum j:n. [p[j] = p[i] and j < i] * x[j] * sin(y[j])",
    "from here on": "gen i:n. sum j:n. [p[j] = p[i] and i <= j] * x[j]",
    "after": "gen i:n. sum j:n. [p[j] = p[i] and i < j] * exp(x[j])",
    "of another group": "gen i:n. sum j:n. [p[j] = q[i] and j <= i] * x[j]",
    "two before": "gen i:n. sum j:n. [p[j] = p[i] and j + 2 <= i] * x[j]",
    "not later": "gen i:n. sum j:n. [p[j] = p[i] and t[j] <= t[i]] * exp(x[j])",
    "later": "gen i:n. sum j:n. [p[j] = p[i] and t[j] > t[i]] * exp(x[j])",
    "up to a limit": "gen i:n. sum j:n. [p[j] = p[i] and j <= t[i]] * x[j]",
    "up to a limit that is its group": "gen i:n. sum j:n. [p[j] = t[i] and j <= t[i]] * x[j]",
    "exponentials up to a limit that is its group": "gen i:n. sum j:n. [p[j] = t[i] and j <= t[i]] * exp(x[i] - y[j])",
    "five at most": "gen i:n. sum j:n. [p[j] = p[i] and i - 5 <= j <= i] * x[j]",
    "which of its group": "gen i:n. x[i] * sum j:n. [p[j] = p[i] and j < i]",
    "running means": "gen i:n. (sum j:n. [p[j] = p[i] and j <= i] * x[j]) / (sum j:n. [p[j] = p[i] and j <= i])",
    "columns": "gen a:3, i:n. sum j:n. [p[j] = p[i] and j <= i] * A[j, a] * A[i, a] * x[j]",
    "the next one's group": "gen i:n. sum j:n. [j + 1 < n and p[j + 1] = p[i] and j <= i] * x[j]",
    "pairs": "sum i:n, j:n. [p[j] = p[i] and j < i] * x[j] * y[i]",
    "partial likelihood in strata": "sum i:n. x[i] - log(sum j:n. [p[j] = p[i] and t[i] <= t[j]] * exp(x[j]))",
    "two arrays": f"gen i:n. sum j:n. [{BOTH}] * x[j]",
    "three arrays": f"gen i:n. sum j:n. [{BOTH} and s[j] = s[i]] * sin(x[j])",
    "crossed": "gen i:n. sum j:n. [p[j] = q[i] and q[j] = p[i]] * x[j]",
    "a few": "gen i:n. sum j:n. [p[j] = q[i] and s[j] = s[i]] * x[j]",
    "two arrays, up to here": f"gen i:n. sum j:n. [{BOTH} and j <= i] * x[j]",
    "two arrays, earlier": f"gen i:n. sum j:n. [{BOTH} and t[j] < t[i]] * x[j]",
    "two arrays, pairs": f"sum i:n, j:n. [{BOTH}] * x[i] * y[j]",
    "two arrays, but the first": f"gen i:n. sum j:n. [1 <= j and {BOTH}] * x[j]",
    "two arrays, greatest": f"gen i:n. {MOST}",
    "two arrays, softmax": f"gen i:n. exp(x[i] - {MOST}) / (sum j:n. [{BOTH}] * exp(x[j] - {MOST}))",
    "is it the first": "gen i:n. [exists j:n. p[j] = p[i] and j < i] * sin(x[i])",
}


TIES = {
    "of a group": "p[i] = p[j]",
    "before": "j < i",
    "of a group, up to here": "p[j] = p[i] and j <= i",
    "of two groups": "p[j] = p[i] and q[i] = q[j]",
    "of another group": "p[j] = q[i]",
}
OF_BOTH = {
    "sum": "(x[i] - y[j])",
    "sum times factors": "(exp(x[i]) + y[j]) * x[i] * y[j]",
    "difference of products": "(x[i] * y[j] - x[j] * y[i])",
    "product of sums": "(x[i] + 2 * y[j] - 1) * (A[i, 0] + 3 * x[j])",
    "elements of elements": "(A[p[i], 0] - y[j]) * x[j] * y[q[j]]",
}
PAIRS = {f"{tie}, {body}": f"[{TIES[tie]}] * {OF_BOTH[body]}" for tie in TIES for body in OF_BOTH}


def random_program(rng: random.Random) -> str:
    """Sums over some groups and an order, nested in functions of one another."""

    def one(i: str, j: str, factor: str) -> str:
        arrays = rng.sample("pqs", rng.choice([1, 1, 2, 3]))
        ties = [rng.choice([f"{a}[{j}] = {a}[{i}]", f"{a}[{i}] = {a}[{j}]"]) for a in arrays]
        if rng.random() < 0.2:
            ties[0] = f"p[{j}] = q[{i}]"
        order = rng.choice(
            ["{j} <= {i}", "{j} < {i}", "{i} <= {j}", "{i} < {j} + 3", "t[{j}] <= t[{i}]", "{j} < t[{i}]"]
        )
        if rng.random() < 0.7 or len(arrays) == 1:
            ties.append(order.format(i=i, j=j))
        rng.shuffle(ties)
        return f"sum {j}:n. [{' and '.join(ties)}] * {factor.replace('*', j)}"

    inner = one("k", "l", rng.choice(["x[*]", "sin(x[*])", "1"]))
    factor = rng.choice(["x[*]", "A[*, 1]", "exp(x[*])", "sin(a[*])", "a[*]"])
    outer = one("i", "j", factor)
    around = rng.choice(["gen i:n. {}", "sum i:n. {}", "gen i:n. x[i] * ({})", "gen i:n. tanh(a[i] + {})"])
    return f"let a = gen k:n. {inner} in {around.format(f'({outer})')}"


@pytest.mark.parametrize("name", one_in(16, PROGRAMS))
def test_what_runs_is_right(name: str) -> None:
    f = tl.parse(f"f({PARAMS}) = {PROGRAMS[name]}")
    agrees(f, 0, 1, 5, 9)


@pytest.mark.parametrize("name", one_in(4, PROGRAMS))
def test_what_runs_grows_with_n(name: str) -> None:
    grows_linearly(tl.parse(f"f({PARAMS}) = {PROGRAMS[name]}"), least=2048)


@pytest.mark.parametrize("name", one_in(10, PAIRS))
def test_sums_of_what_depends_on_both_of_a_pair_are_right_and_grow_with_n(name: str) -> None:
    for around in ("sum i:n, j:n.", "gen i:n. sum j:n."):
        f = tl.parse(f"f({PARAMS}) = {around} {PAIRS[name]}")
        agrees(f, 0, 1, 5)
        grows_linearly(f, least=2048)


@pytest.mark.parametrize("tie", TIES)
def test_gradients_of_squares_are_of_that_form_and_squares_are_when_multiplied_out(tie: str) -> None:
    f = tl.parse(f"f({PARAMS}) = sum i:n, j:n. [{TIES[tie]}] * (x[i] - x[j])^2")
    grows_linearly(tl.grad(f, "x"), derived=False, least=2048)
    grows_linearly(tl.expand_squares(f), derived=False, least=2048)
    agrees(f, 5)


@pytest.mark.parametrize("tie", TIES)
def test_in_strict_code_factors_of_empty_sums_are_not_seen(tie: str) -> None:
    f = tl.parse(f"f({PARAMS}) = gen i:n. sum j:n. [{TIES[tie]} and 0 < j] * (x[i] * y[j] - x[j] * y[i])")
    given = random_arguments(f, random.Random(0), {"n": 3}, exact=False)
    given |= {"p": np.array([0, 1, 1]), "q": np.array([2, 1, 0]), "x": np.array([np.nan, 1.0, 2.0])}
    np.testing.assert_allclose(np.asarray(tl.lower(f, strict=True)(**given)), tl.evaluate(f, **given))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(36))
def test_random_ones_are_right_and_grow_with_n(seed: int) -> None:
    rng = random.Random(seed)
    f = tl.parse(f"f({PARAMS}) = {random_program(rng)}")
    agrees(f, 0, 1, 5, rng=rng)
    grows_linearly(f, least=2048)


def test_in_strict_code_nothing_is_seen_of_other_groups() -> None:
    f = tl.parse(f"f({PARAMS}) = {PROGRAMS['up to here']}")
    given = random_arguments(f, random.Random(0), {"n": 6}, exact=False)
    given |= {"p": np.array([0, 1, 0, 1, 2, 0]), "x": np.array([1.0, np.nan, 2.0, 3.0, np.inf, 4.0])}
    wanted = [1.0, np.nan, 3.0, np.nan, np.inf, 7.0]
    np.testing.assert_allclose(np.asarray(tl.lower(f, strict=True)(**given)), wanted)


def _wanted(values: np.ndarray, at: np.ndarray, ranks: np.ndarray, asked: np.ndarray, limits: np.ndarray) -> np.ndarray:
    return np.stack([values[(at == a) & (ranks <= b)].sum(0) for a, b in zip(asked, limits, strict=True)])


_joined = jax.jit(_joined_in_order_of_groups, static_argnums=(0, 1, 5, 6))


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("dims", one_in(2, [(), (3,)]))
def test_running_sums_are_the_same_on_every_machine(strict: bool, backwards: bool, dims: tuple[int, ...]) -> None:
    rng, n = np.random.default_rng(0), 40
    values, (at, other) = rng.integers(-9, 9, (n, *dims)).astype(np.float32), rng.integers(0, 5, (2, n))
    order = np.arange(n) * (-1 if backwards else 1)
    for asked in (at, other):
        wanted = _wanted(values, at, order, asked, order - strict)
        found = _running_in_groups(values, at, at if asked is at else asked, 5, strict, backwards)
        np.testing.assert_array_equal(np.asarray(found), wanted)
        turned = [jnp.asarray(np.flip(x, 0) if backwards else x) for x in (values, at, asked)]
        given = ([turned[0]], turned[1], None if asked is at else turned[2], 5, strict)
        (sorted_first,) = _joined(_sum_of_both, (0,), *given)
        np.testing.assert_array_equal(np.asarray(sorted_first), np.flip(wanted, 0) if backwards else wanted)


@pytest.mark.parametrize("strict", one_in(2, [True, False]))
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("dims", one_in(2, [(3,), ()]))
def test_running_extrema_are_the_first_ones_on_every_machine(
    strict: bool, backwards: bool, dims: tuple[int, ...]
) -> None:
    rng, n = np.random.default_rng(0), 40
    values = rng.choice([-np.inf, -1.0, 0.0, 2.0, np.inf, np.nan], (n, *dims), p=[0.2, 0.2, 0.3, 0.2, 0.05, 0.05])
    values = values.astype(np.float32)
    mask, (at, other) = rng.random((n, *dims)) < 0.8, rng.integers(0, 5, (2, n))
    for asked in (at, other):
        given = (values, mask, at, asked, 5, strict, backwards)
        wanted = meaning._first_greatest_in_groups(*given, 0)
        np.testing.assert_array_equal(groups._first_greatest_in_groups(*given, 0), wanted)
        np.testing.assert_array_equal(groups._greatest_in_groups(*given, 7.0), meaning._greatest_in_groups(*given, 7.0))
        turned = [jnp.asarray(np.flip(x, 0) if backwards else x) for x in (at, asked)]
        numbered = [jnp.flip(x, 0) if backwards else jnp.asarray(x) for x in _numbered(values, mask)]
        order = (turned[0], None if asked is at else turned[1], 5, strict)
        _, sorted_first = _joined(_greater_of_both, (-np.inf, -1), numbered, *order)
        np.testing.assert_array_equal(np.maximum(sorted_first, 0), np.flip(wanted, 0) if backwards else wanted)
    ranks, asked, limits = rng.integers(-4, 9, n), rng.integers(0, 5, 50), rng.integers(-20, 20, 50)
    given = (values, mask, at, ranks, asked.reshape(5, 10), limits.reshape(5, 10), 5, -4, 8)
    np.testing.assert_array_equal(groups._first_greatest_up_to(*given, 2), meaning._first_greatest_up_to(*given, 2))
    np.testing.assert_array_equal(groups._greatest_up_to(*given, 7.0), meaning._greatest_up_to(*given, 7.0))


def a_greatest(rng: random.Random) -> str:
    """A maximum or minimum in a group and an order, or the adjoint's condition on where it is attained."""
    group = rng.choice(["p[k] = p[i]", "p[k] = q[i]", "p[k] = i", "p[k] = p[i] and q[k] = q[i]", ""])
    order = rng.choice(
        ["k <= i", "k < i", "i <= k", "k + 2 <= i", "t[k] <= t[i]", "t[k] > t[i]", "k <= t[i]", "q[k] < t[i]"]
    )
    where = " and ".join(filter(None, [group, order, rng.choice(["", "1 <= k"]) if group else ""]))
    value = rng.choice(["x[k]", "x[k]", "sin(x[k])", "x[k] * y[k]", "x[t[k]]"])
    most = f"[exists k:n. {where}] * ({rng.choice(['max', 'min'])} k:n where {where}. {value})"
    return rng.choice([f"gen i:n. {most}", f"gen i:n. y[i] * {most}", f"sum i:n. sin({most})"])


GREATEST = {
    "up to here": "gen i:n. max k:n where p[k] = p[i] and k <= i. x[k]",
    "columns": "gen a:3, i:n. max k:n where p[k] = p[i] and i <= k. A[k, a] * x[k]",
    "of equal ones the first": "gen i:n. max k:n where p[k] = p[i] and t[k] <= t[i]. x[k // 3]",
    "in an order": "gen i:n. min k:n where t[k] <= t[i]. x[k]",
    "none for the first": "gen i:n. [exists k:n. p[k] = p[i] and k < i] * max k:n where p[k] = p[i] and k < i. x[k]",
}


@pytest.mark.parametrize("name", one_in(3, GREATEST))
def test_greatest_values_in_groups_and_orders_are_right_and_grow_with_n(name: str) -> None:
    f = tl.parse(f"f({PARAMS}) = {GREATEST[name]}")
    agrees(f, 0, 1, 2, 7)
    grows_linearly(f, least=2048)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_random_greatest_values_are_right_and_grow_with_n(seed: int) -> None:
    rng = random.Random(seed)
    f = tl.parse(f"f({PARAMS}) = {a_greatest(rng)}")
    agrees(f, 0, 1, 2, 7, rng=rng)
    grows_linearly(f, least=4096)


def test_limits_may_be_anywhere() -> None:
    rng = np.random.default_rng(0)
    values, at, ranks = rng.integers(-9, 9, 30).astype(np.float32), rng.integers(0, 5, 30), rng.integers(-4, 9, 30)
    asked, limits = rng.integers(0, 5, 50), rng.integers(-20, 20, 50)
    found = _running_up_to(values, at, ranks, asked.reshape(5, 10), limits.reshape(5, 10), 5, -4, 8)
    np.testing.assert_array_equal(np.asarray(found).reshape(-1), _wanted(values, at, ranks, asked, limits))


@pytest.mark.parametrize("sizes", [(2, 3), (10, 10), (100_000, 70_000), (2**20, 2**20)])
def test_numbers_are_the_same_where_pairs_are(sizes: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    columns = [rng.integers(0, 7, 60) % n * (n // 7 or 1) % n for n in sizes]
    same = (columns[0][:, None] == columns[0]) & (columns[1][:, None] == columns[1])
    numbers = np.asarray(_group_numbers([jnp.asarray(x, jnp.int32) for x in columns], sizes))
    np.testing.assert_array_equal(numbers[:, None] == numbers, same)
    assert numbers.min() >= 0 and numbers.max() < 60
    own, asked = _group_numbers_of_both(
        *([jnp.asarray(x[a], jnp.int32) for x in columns] for a in (slice(20), slice(20, None))), sizes
    )
    np.testing.assert_array_equal(np.concatenate([own, asked]), numbers)


@pytest.mark.parametrize("size", [3, 1000, 2**24, 2**31 - 1])
def test_places_are_ordered_whatever_their_size(size: int) -> None:
    rng = np.random.default_rng(0)
    for count in (1, 2, 300, 40_000):
        at = rng.integers(0, size, count)
        at[count // 2 :] = at[: count - count // 2]
        order, places = _by_place(jnp.asarray(at, jnp.int32), size)
        np.testing.assert_array_equal(np.asarray(order), np.argsort(at, kind="stable"))
        np.testing.assert_array_equal(np.asarray(places), np.sort(at))


def test_gradients_are_those_of_jax() -> None:
    f = tl.parse(f"f({PARAMS}) = {PROGRAMS['partial likelihood in strata']}")
    with jax.enable_x64(True):
        given = random_arguments(f, random.Random(1), {"n": 12}, exact=False)
        p, t = given["p"], given["t"]

        def natural(x: jax.Array) -> jax.Array:
            there = (p[:, None] == p) & (t[:, None] <= t)
            return jnp.sum(x - jnp.log(jnp.sum(jnp.where(there, jnp.exp(x), 0), 1)))

        x = jnp.asarray(given["x"], float)
        assert close(tl.lower(tl.grad(f, "x"))(**given), jax.grad(natural)(x))


def test_no_table_is_far_longer_than_what_is_in_groups() -> None:
    f = tl.parse("f(x: [n]R, p: [n]idx(m)) = gen i:n. sum j:n. [p[j] = p[i] and j <= i] * x[j]")
    x = np.arange(1, 7, dtype=np.float32)
    p = np.array([0, 2**30 - 1, 0, 5, 2**30 - 1, 0], np.int32)
    run = jax.jit(lambda x, p: tl.to_jax(f)(x, p, m=2**30))
    assert run.lower(x, p).compile().memory_analysis().temp_size_in_bytes < 10_000
    np.testing.assert_allclose(run(x, p), [1, 2, 4, 4, 7, 10])
