"""Masks over time in steps: those that hide only zeros, of finite values, are left out, and no others."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import tensorlang as tl
from benchmarks.gradbench import _ODE
from tensorlang.language.predicates import Equal, conjuncts, lookups
from tensorlang.lowering.plan.needless_masks import without_needless_masks
from tensorlang.normal import normal_ssa
from tensorlang.normal.recurrences import step_ssa
from tensorlang.normal.ssa import Loop, States, predicates
from tests.support.sampling import one_in

LATE = "n <= i + t + 1"
STEP = """
f(x: [n]R, y: [n]R, z: [T]R) = {before} fold t:T with s = gen i:n. x[i].
  let a = gen i:n. [n <= i + t + 1] * s[i] * z[t] in
  gen i:n. s[i] + {term}
"""
NEEDLESS = {
    "a product": f"[{LATE}] * a[i] * y[i]",
    "one that is shifted": "[n <= i + t + 2 and i + 1 < n] * a[i + 1] * y[i]",
    "a larger part": "[n <= i + 2 * t + 1] * a[i] * a[i]",
    "a function that is 0 at 0": f"[{LATE}] * sin(a[i])",
    "a function that is finite": f"[{LATE}] * a[i] * tanh(y[i])",
    "a sum": f"[{LATE}] * (sum j:n. a[i] * y[j])",
}
NEEDED = {
    "what is not 0 there": f"a[i] + [{LATE}] * s[i] * y[i]",
    "a smaller part": "a[i] + [n <= i + t] * a[i] * y[i]",
    "the other part": "[i + t + 2 < n] * y[i] + a[i]",
    "a function that is not 0 at 0": f"[{LATE}] * cos(a[i])",
    "a quotient": f"[{LATE}] * a[i] * (1 / y[i])",
    "a quotient that is made before": f"[{LATE}] * a[i] * w[i]",
    "a logarithm": f"[{LATE}] * a[i] * log(abs(y[i]))",
}


def asked(f: tl.Function) -> int:
    """The number of conditions on time in the steps of `f`, once needless ones are left out."""
    s, _ = without_needless_masks(normal_ssa(tl.simplify(f)))
    loops: set[Loop] = {x.loop for x in s.statements if isinstance(x, States)}
    steps = [(step_ssa(loop.step), loop.step.time) for loop in loops]
    every = [(q, time) for s, time in steps for x in s.statements for p in predicates(x) for q in conjuncts(p)]
    return sum(not isinstance(q, Equal) and any(a.array is time for a in lookups(q)) for q, time in every)


def written(term: str) -> tl.Function:
    return tl.parse(STEP.format(before="let w = gen i:n. 1 / y[i] in" if "w[" in term else "", term=term))


@pytest.mark.parametrize("term", NEEDLESS.values(), ids=NEEDLESS)
def test_a_mask_that_hides_only_zeros_is_left_out(term: str) -> None:
    assert asked(written(term)) == asked(written("a[i]"))


@pytest.mark.parametrize("term", NEEDED.values(), ids=NEEDED)
def test_a_mask_that_makes_a_difference_stays(term: str) -> None:
    assert asked(written(term)) > asked(written("a[i]"))


@pytest.mark.parametrize("term", [*NEEDLESS.values(), *NEEDED.values()], ids=[*NEEDLESS, *NEEDED])
@pytest.mark.parametrize("sizes", one_in(2, [(7, 4), (0, 3), (5, 9), (1, 1), (7, 0)]))
def test_what_was_hidden_has_no_influence(term: str, sizes: tuple[int, int]) -> None:
    f, (n, T) = written(term), sizes
    rng = np.random.default_rng(n)
    x, y, z = rng.normal(size=n), rng.normal(size=n), rng.normal(size=T) / 9
    y[: max(n - T, 0)] = 0  # where all masks of the first steps are false
    with np.errstate(all="ignore"):
        wanted = tl.evaluate(f, x, y, z)
    np.testing.assert_allclose(tl.lower(f)(x, y, z), wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(tl.lower(f, strict=True)(x, y, z), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_steps_of_runge_and_kutta_backwards_ask_nothing_of_the_time() -> None:
    assert asked(tl.grad(tl.parse(_ODE), "x")) == 0
    source = tl.lower(tl.grad(tl.parse(_ODE), "x")).source
    sums = source.partition("def ode_grad_step1_window(")[2].partition("\n        return")[0]
    assert sums and "where" not in sums


STATE = "f(x: [n]R) = fold t:T with s = gen i:n. [{first}] * x[i] . gen i:n. [{mask}] * s[i] + [0 < i] * s[i - 1]"


@pytest.mark.parametrize("first, mask, needless", [
    ("i = 0", "i <= t", True),
    ("i = 0", "i <= 2 * t", True),
    ("i <= 1", "i <= t", False),  # at first the support is larger
    ("i = 0", "2 * i <= t", False),  # after a step the support is larger
])  # fmt: skip
def test_a_state_is_not_masked_where_it_is_0_at_all_times(first: str, mask: str, needless: bool) -> None:
    f = tl.parse(STATE.format(first=first, mask=mask))
    assert (asked(f) == 0) == needless
    for n, T in ((0, 2), (1, 1), (6, 0), (6, 1), (6, 2), (5, 9)):
        x = np.arange(1.0, n + 1)
        np.testing.assert_allclose(tl.lower(f)(x, T=T), tl.evaluate(f, x, T=T), rtol=1e-6)


def test_two_states_that_keep_each_other_0_are_not_masked() -> None:
    f = tl.parse("""
      f(x: [n]R) = let p = fold t:T with p = (gen i:n. [i = 0] * x[i], gen i:n. [i = 0] * x[i]).
        (gen i:n. [i <= t] * snd(p)[i] + [0 < i] * fst(p)[i - 1], gen i:n. [i <= t] * fst(p)[i] * x[i]) in
      gen i:n. fst(p)[i] + snd(p)[i]
    """)
    assert asked(f) == 0
    for n, T in ((0, 2), (1, 1), (6, 0), (6, 4)):
        x = np.arange(1.0, n + 1) / 4
        np.testing.assert_allclose(tl.lower(f)(x, T=T), tl.evaluate(f, x, T=T), rtol=1e-6)


class Writer:
    """Random steps with masks over time, shifts, products and functions."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def mask(self) -> str:
        k, c = self.random.randint(1, 2), self.random.randint(0, 3)
        return self.random.choice(
            [f"n <= i + {k} * t + {c}", f"i <= {k} * t + {c}", f"i + {c} <= t", f"t = {c} or i = t"]
        )

    def factor(self, names: list[str]) -> str:
        name = self.random.choice(names)
        plain = self.random.choice(
            ["{}[i]", "{}[i]", "[0 < i] * {}[i - 1]", "[i + 1 < n] * {}[i + 1]", "{}[n - 1 - i]"]
        )
        f = self.random.choice(["{}", "{}", "{}", "tanh({})", "sin({})", "recip(2 + cos({}))", "exp({})"])
        return f"({f.format(plain.format(name))})"

    def term(self, names: list[str]) -> str:
        factors = " * ".join(self.factor(names) for _ in range(self.random.randint(1, 2)))
        return f"[{self.mask()}] * {factors}" if self.random.random() < 0.7 else f"0.5 * {factors}"

    def text(self) -> str:
        names, lets = ["x", "y", "s"], ""
        for k in range(self.random.randint(1, 4)):
            terms = " + ".join(self.term(names) for _ in range(self.random.randint(1, 2)))
            lets += f"let a{k} = gen i:n. {terms} in "
            names.append(f"a{k}")
        return f"f(x: [n]R, y: [n]R, c: [T]R) = fold t:T with s = x. {lets} gen i:n. 0.3 * {names[-1]}[i] + c[t] * s[i]"


class Narrow(Writer):
    """Random steps of a state that is 0 in places at first, and sums over time under a mask of it."""

    def mask(self) -> str:
        c = self.random.randint(0, 2)
        return self.random.choice(["i <= t", f"i <= 2 * t + {c}", "t <= i", f"n <= i + t + {c}", f"t = {c} or i <= t"])

    def text(self) -> str:
        lets = f"let a = gen i:n. {self.term(['x', 's', 's'])} + {self.term(['y', 's'])} in "
        init = self.random.choice(["i = 0", "i = n - 1", "i <= 1", "n < i"])
        last = self.random.choice(
            [f"[{self.mask()}] * (0.3 * a[i] + c[t] * s[i])", f"0.3 * a[i] + [{self.mask()}] * s[i] * c[t]"]
        )
        scan = f"scan t:T with s = gen i:n. [{init}] * x[i]. {lets} gen i:n. {last}"
        factor = self.random.choice(["y[i]", "c[t]", "h[t, i]", "tanh(h[t, i])"])
        sums = f"gen i:n. sum t:T. [{self.mask()}] * h[t, i] * {factor}"
        return f"f(x: [n]R, y: [n]R, c: [T]R) = let h = {scan} in {sums}"


def agrees(seed: int, kind: type[Writer] = Writer) -> None:
    random = Random(seed)
    f = tl.parse(kind(random).text())
    g = tl.adjoint(f)
    n, T = random.randint(0, 6), random.randint(0, 5)
    rng = np.random.default_rng(seed)
    x, y, c, bar = (rng.normal(size=size) / 2 for size in (n, n, T, n))
    np.testing.assert_allclose(tl.lower(f)(x, y, c), tl.evaluate(f, x, y, c), rtol=1e-4, atol=1e-5, err_msg=str(f))
    wanted = tl.evaluate(g, x, y, c, bar)
    for found, each in zip(tl.lower(g)(x, y, c, bar), wanted, strict=True):
        np.testing.assert_allclose(found, each, rtol=1e-3, atol=1e-4, err_msg=str(f))


@pytest.mark.parametrize("seed", one_in(4, range(8)))
def test_random_steps_and_their_adjoints_have_the_values_of_the_evaluator(seed: int) -> None:
    agrees(seed)


@pytest.mark.parametrize("seed", one_in(2, range(2)))
def test_random_sums_over_states_and_their_adjoints_have_the_values_of_the_evaluator(seed: int) -> None:
    agrees(seed, Narrow)


@pytest.mark.slow
@pytest.mark.seeds(100, 40)
def test_many_random_sums_over_states_and_their_adjoints_have_the_values_of_the_evaluator(seed: int) -> None:
    agrees(seed, Narrow)


@pytest.mark.slow
@pytest.mark.seeds(100, 40)
def test_many_random_steps_and_their_adjoints_have_the_values_of_the_evaluator(seed: int) -> None:
    agrees(seed)
