"""A program whose sizes are numbers, as in those from JAX, does no more than the same with symbols as sizes."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping

import jax
import numpy as np
import pytest

import tensorlang as tl
from benchmarks.programs import CASES
from benchmarks.through_time import PROGRAMS
from tensorlang.language.predicates import Relation
from tests.lowering import test_band_products, test_decays, test_groups, test_updates
from tests.support.alternatives import random_alternatives
from tests.support.listed import random_listed
from tests.support.masked import masked_function
from tests.support.programs import blank_arguments, random_arguments
from tests.support.sampling import one_in
from tests.support.traced import Work, work
from tests.support.windows import random_windows

LONG = 1500

RANDOM: dict[str, Callable[[random.Random], tl.Function]] = {
    "windows": random_windows,
    "alternatives": random_alternatives,
    "listed": random_listed,
    "masked": masked_function,
    "groups": lambda rng: tl.parse(f"f({test_groups.PARAMS}) = {test_groups.random_program(rng)}"),
    "updates": lambda rng: tl.parse(test_updates.random_text(rng)),
    "decays": lambda rng: tl.parse(test_decays.random_program(rng.randrange(100))),
    "bands": lambda rng: tl.parse(test_band_products.a_program(rng, 4)),
    "bands of bands": lambda rng: tl.parse(test_band_products.a_chain(rng)),
}

NOT_PROVED = {("windows", 1), ("windows", 23)}
"""Kinds and seeds of adjoints whose text is not proved to be in bounds, although it is."""


MORE = {("alternatives", 11): 6}
"""How many times the work is done with numbers, where it is more than twice: blocks, whose last one numbers cut off."""


def with_numbers(f: tl.Function, sizes: Mapping[str, int]) -> tl.Function:
    """`f`, read from its text with these numbers for its sizes."""
    text = str(f)
    for name, n in sizes.items():
        text = re.sub(rf"(?<![\w.']){name}(?![\w('\[])", str(n), text)
    return tl.parse(text)


def does(f: tl.Function, sizes: dict[str, int]) -> Work:
    given = blank_arguments(f, sizes)
    return work(tl.to_jax(f), *(given[p.name] for p in f.params))


def do_no_more(f: tl.Function, sizes: dict[str, int], factor: int = 2) -> None:
    """Assert that with numbers the work is at most twice as much, or another factor: elements cut off at the ends of
    axes may be computed."""
    symbols, numbers = does(with_numbers(f, {}), sizes), does(with_numbers(f, sizes), {})
    assert numbers.operations <= factor * symbols.operations + 20 * LONG, f"{symbols} {numbers}\n{f}"
    assert numbers.elements <= factor * symbols.elements + 20 * LONG, f"{symbols} {numbers}\n{f}"


@pytest.mark.parametrize("seed", one_in(24, range(48)))
@pytest.mark.parametrize("kind", RANDOM)
def test_random_programs_do_no_more_with_numbers(kind: str, seed: int) -> None:
    f = RANDOM[kind](random.Random(seed))
    short = {"T": 200, "d": 4, "h": 2}
    sizes = {s.name: short.get(s.name, LONG) for s in f.sizes}
    factor = MORE.get((kind, seed), 2)
    do_no_more(f, sizes, factor)
    if (kind, seed) not in NOT_PROVED:
        do_no_more(tl.adjoint(f), sizes, factor)


@pytest.mark.parametrize("seed", one_in(24, range(24)))
@pytest.mark.parametrize("kind", RANDOM)
def test_random_programs_mean_the_same_with_numbers(kind: str, seed: int) -> None:
    f = RANDOM[kind](random.Random(seed))
    short = {"T": 6, "d": 3, "e": 2, "h": 2}
    with jax.enable_x64(True):
        for n in (1, 6, 150):
            sizes = {s.name: short.get(s.name, n) for s in f.sizes}
            numbers = with_numbers(f, sizes)
            for ours, symbols in ((numbers, f), (tl.adjoint(numbers), tl.adjoint(f))):
                given = random_arguments(symbols, random.Random(seed), sizes, exact=False)
                if kind == "decays":  # times are in order
                    times = test_decays.arguments(symbols, n, seed)
                    given = {p.name: x for p, x in zip(symbols.params, times, strict=True)}
                wanted = jax.tree.leaves(tl.lower(symbols)(**given))
                found = jax.tree.leaves(tl.lower(ours)(**given))
                for x, y in zip(map(np.asarray, found), map(np.asarray, wanted), strict=True):
                    there = ~np.isnan(y)  # the maximum of no elements has no value
                    np.testing.assert_allclose(x[there], y[there], 1e-7, 1e-9, err_msg=f"n = {n}\n{ours}")


@pytest.mark.parametrize("name", one_in(8, [c.name for c in PROGRAMS]))
def test_recurrences_do_no_more_with_numbers(name: str) -> None:
    c = next(c for c in PROGRAMS if c.name == name)
    f = tl.parse(c.text)
    do_no_more(tl.value_and_grad(f), {**c.sizes, "T": c.lengths[-1]})


# the cases of a thousand elements repeat those of three hundred, and take minutes
@pytest.mark.parametrize("name", one_in(24, [c.name for c in CASES if not c.name.startswith("1000 ")]))
def test_registered_programs_do_no_more_with_numbers(name: str) -> None:
    c = next(c for c in CASES if c.name == name)
    if not any(isinstance(p, Relation) for p in c.function.params):
        sizes = dict(c.sizes[-1])
        do_no_more(c.function, sizes)
        do_no_more(c.derived, sizes)
