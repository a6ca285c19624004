"""Short sums of a state's elements that steps store and read later, computed from the states over time."""

from __future__ import annotations

from random import Random

import jax
import numpy as np
import pytest

import benchmarks.through_time as benchmark
import tensorlang as tl
from tensorlang.lowering.plan.recurrences import thinner
from tensorlang.measure.count import count
from tensorlang.normal import normal_ssa
from tensorlang.normal.ssa import States
from tests.lowering.test_in_step import bytes_needed, given
from tests.support.sampling import one_in

READ = {
    "neighbours": "[0 < i] * s[i - 1] + [i + 1 < n] * s[i + 1] - 2 * s[i]",
    "what is turned around": "s[n - 1 - i] - s[i]",
    "two thirds": "2 / 3 * s[i]",
}
KEPT = {
    "the same at each place": "s[0] - 3",
    "a function": "sin(s[i])",
    "what is given": "s[i] * x[0, i]",
    "a sum over all": "sum j:n. s[j]",
    "of two states": "s[i] - r[i]",
    "what takes longer": "s[i] + 2 * s[0] + 3 * s[n - 1] + 4 * s[n - 1 - i]",
}


def program(term: str) -> tl.Function:
    """Steps that output a term and read it later, with a sum of it over time."""
    return tl.parse(f"""
      f(x: [T][n]R, p: [n]R, q: [n]R) =
        let H = states t:T with s = p, r = q, d = gen i:n. 0. let d = gen i:n. {term} in
          (gen i:n. s[i] / 2 + d[i] * d[n - 1 - i] / 8, (gen i:n. cos(r[i]) + s[i], d)) in
        let s = H[T] in
        let d = gen t:T, i:n. snd(snd(H[t + 1]))[i] in
        (gen i:n. fst(s)[i] + fst(snd(s))[i], sum t:T, i:n. d[t, i] * x[t, i])
    """)


def read_over_time(f: tl.Function) -> set[tuple[int, str]]:
    """The states of the recurrence that are read at all times, and whether before or after the step."""
    s = thinner(normal_ssa(tl.simplify(f)))
    return {(x.place, x.word) for x in s.statements if isinstance(x, States) and x.word != "fold"}


@pytest.mark.parametrize("name", one_in(2, {**READ, **KEPT}))
def test_short_sums_are_computed_of_the_states(name: str) -> None:
    f = program({**READ, **KEPT}[name])
    assert read_over_time(f) == ({(0, "prescan")} if name in READ else {(2, "scan")})
    run = tl.lower(f)
    with jax.enable_x64(True):
        for steps, n in ((0, 2), (1, 1), (1, 3), (2, 3), (5, 2), (70, 4)):
            x = given(f, {"T": steps, "n": n})
            for ours, wanted in zip(jax.tree.leaves(run(*x)), jax.tree.leaves(tl.evaluate(f, *x)), strict=True):
                np.testing.assert_allclose(ours, wanted, rtol=1e-11)


def test_what_a_later_step_or_the_result_reads_is_stored() -> None:
    f = tl.parse("""
      f(p: [n]R) = scan t:T with s = p, d = p. let d = gen i:n. s[i] - s[0] in (gen i:n. d[i] * s[i], d)
    """)
    g = tl.parse("""
      f(p: [n]R) =
        let H = scan t:T with s = p, d = p. let d = gen i:n. s[i] - s[0] in (gen i:n. d[i] * s[i], d) in
        fold t:T with b = p. gen i:n. b[i] * snd(H[t])[i]
    """)
    assert (1, "scan") in read_over_time(f) & read_over_time(g)


@pytest.mark.parametrize("name", ["heat equation", "wave equation"])
def test_gradients_of_equations_in_time_store_states_and_do_no_more(name: str) -> None:
    (p,) = (p for p in benchmark.PROGRAMS if p.name == name)
    f = tl.parse(p.text)
    g = tl.grad(f)
    assert "prescan" in {word for _, word in read_over_time(g)}
    x = benchmark.arguments(f, {"T": 200, "n": 256})
    theirs = jax.grad(p.jax, tuple(range(len(x))))
    assert bytes_needed(tl.lower(g), *x) <= bytes_needed(theirs, *x)
    assert count(tl.lower(g), *x).operations <= 0.95 * count(theirs, *x).operations


def random_program(random: Random) -> tl.Function:
    """Steps of one or two states that read a short sum of one of them later, and a number computed from the last
    states."""

    def element() -> str:
        return random.choice(
            ["s[i]", "[0 < i] * s[i - 1]", "[i + 1 < n] * s[i + 1]", "s[n - 1 - i]", "2 * s[i]", "[i = 0] * s[i]"]
        )

    d = " ".join([element(), *(f"{random.choice('+-')} {element()}" for _ in range(random.randint(1, 2)))])
    following = random.choice(
        ["s[i] + c * d[i] + x[t, i]", "cos(d[i]) + x[t, i]", "d[i] * s[i] / 4", "s[i] / 2 + [t < 3] * d[i] * c"]
    )
    step = f"let d = gen i:n. {d} in "
    if random.random() < 0.5:
        whole = f"let S = fold t:T with s = p. {step} gen i:n. {following} in sum i:n. S[i] * S[i]"
    else:
        other = random.choice(["s[i]", "d[i] * c", "r[i] + d[i]"])
        whole = (
            f"let S = fold t:T with s = p, r = p. {step} (gen i:n. {following} - r[i] / 3, gen i:n. {other}) in "
            "sum i:n. fst(S)[i] * snd(S)[i]"
        )
    return tl.parse(f"f(x: [T][n]R, p: [n]R, c: R) = {whole}")


@pytest.mark.parametrize("seed", one_in(8, range(32)))
def test_gradients_of_random_steps(seed: int) -> None:
    g = tl.grad(random_program(Random(seed)))
    run = tl.lower(g)
    with jax.enable_x64(True):
        for steps, n in ((0, 2), (1, 1), (3, 3), (5, 2)):
            x = given(g, {"T": steps, "n": n})
            for ours, wanted in zip(jax.tree.leaves(run(*x)), jax.tree.leaves(tl.evaluate(g, *x)), strict=True):
                np.testing.assert_allclose(ours, wanted, rtol=1e-9, atol=1e-9)
