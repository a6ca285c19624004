"""Extrema over computed arrays, in windows and in each other: random nests, compiled, agree with the evaluator."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import pytest

import tensorlang as tl
from tensorlang.language.function import Function
from tensorlang.language.types import R
from tests.support.nests import random_nest
from tests.support.promises import close
from tests.support.sampling import one_in

LONG = 800
"""An adjoint of more characters is not differentiated once more: deriving it can take minutes."""


@dataclass(frozen=True)
class Tried:
    """A random nest with arguments and a cotangent, and the reference evaluator's values of it and its adjoint."""

    f: Function
    adjoint: Function
    exact: bool
    arguments: dict[str, Any]
    bar: Any
    value: Any
    cotangents: tuple[Any, ...]
    rng: np.random.Generator

    @property
    def reals(self) -> dict[str, Any]:
        return {x.name: self.arguments[x.name] for x in self.f.variables}

    @property
    def others(self) -> dict[str, Any]:
        return {name: x for name, x in self.arguments.items() if name not in self.reals}


def tried(seed: int) -> Tried:
    """The nest of a seed, at sizes that are odd, even, 1, and 0 where index arrays still have possible elements."""
    rng = random.Random(seed)
    nest = random_nest(rng)
    f = tl.parse(nest.text)
    sizes = {s: rng.choice((0, 1, 2, 3, 3, 4, 5)) for s in "nm"}
    if any(r.of(sizes) == 0 for _, r in nest.arrays.values()):
        sizes = {s: max(n, 1) for s, n in sizes.items()}
    numbers = np.random.default_rng(seed)
    arguments = nest.values(numbers, sizes)
    arguments |= {s: sizes[s] for s in nest.untold(f)}
    value = tl.evaluate(f, **arguments)
    bar = numbers.integers(-2, 3, np.shape(value)).astype(float)
    adjoint = tl.adjoint(f)
    found = tl.evaluate(adjoint, **arguments, **{adjoint.variables[-1].name: bar})
    cotangents = found if len(f.variables) > 1 else (found,)
    return Tried(f, adjoint, nest.exact, arguments, bar, value, cotangents, numbers)


def compiled_value_is_as_the_evaluator_says(t: Tried) -> None:
    value = tl.lower(t.f)
    assert close(value(**t.arguments), t.value), value.source


def compiled_adjoint_is_as_the_evaluator_says(t: Tried) -> None:
    bar = {t.adjoint.variables[-1].name: t.bar}
    adjoint = tl.lower(t.adjoint)
    found = adjoint(**t.arguments, **bar)
    assert close(found if len(t.cotangents) > 1 else (found,), t.cotangents), adjoint.source


def jax_gradient_is_as_the_evaluator_says(t: Tried) -> None:
    f, others = tl.to_jax(t.f), t.others
    value, transpose = jax.vjp(lambda reals: f(**reals, **others), t.reals)
    assert close(value, t.value)
    (found,) = transpose(np.asarray(t.bar, float))
    assert close(tuple(found[x.name] for x in t.f.variables), t.cotangents)


def a_batch_is_each_of_its_members(t: Tried) -> None:
    f, others = tl.to_jax(t.f), t.others

    def value_and_cotangents(reals: dict[str, Any]) -> Any:
        value, transpose = jax.vjp(lambda reals: f(**reals, **others), reals)
        return value, transpose(np.asarray(t.bar, float))[0]

    moved = {name: np.stack([x, x[tuple(slice(None, None, -1) for _ in x.shape)]]) for name, x in t.reals.items()}
    batch = jax.vmap(value_and_cotangents)(moved)
    for k in range(2):
        alone = {name: x[k] for name, x in moved.items()}
        bar = {t.adjoint.variables[-1].name: t.bar}
        found = tl.evaluate(t.adjoint, **alone, **others, **bar)
        assert close(batch[0][k], tl.evaluate(t.f, **alone, **others))
        want = found if len(t.cotangents) > 1 else (found,)
        assert close(tuple(batch[1][x.name][k] for x in t.f.variables), want)


def second_derivatives_are_as_the_evaluator_says(t: Tried) -> None:
    if t.f.type is not R or len(str(t.adjoint)) > LONG:
        return
    rates = {name: t.rng.integers(-2, 3, x.shape).astype(float) for name, x in t.reals.items()}
    h = tl.hvp(t.f)
    named = {x.name: rates[y.name] for x, y in zip(h.variables[len(rates) :], t.f.variables, strict=True)}
    want = tl.evaluate(h, **t.arguments, **named)
    assert close(tl.lower(h)(**t.arguments, **named), want)
    f, others = tl.to_jax(t.f), t.others
    _, found = jax.jvp(jax.grad(lambda reals: f(**reals, **others)), (t.reals,), (rates,))
    assert close(tuple(found[x.name] for x in t.f.variables), want if len(rates) > 1 else (want,))


def the_adjoint_is_what_small_steps_show(t: Tried) -> None:
    """Central differences; where numbers are not integers, no two of them are equal, and kinks are further away."""
    if t.exact:
        return
    step = 1e-6
    rates = {name: t.rng.normal(size=x.shape) for name, x in t.reals.items()}
    there, back = (
        tl.evaluate(t.f, **{name: x + h * rates[name] for name, x in t.reals.items()}, **t.others)
        for h in (step, -step)
    )
    shown = np.sum(t.bar * (np.asarray(there) - np.asarray(back))) / (2 * step)
    said = sum(np.sum(c * rates[x.name]) for c, x in zip(t.cotangents, t.f.variables, strict=True))
    assert np.isclose(shown, said, rtol=1e-4, atol=1e-4)


CHECKS = (
    (1, the_adjoint_is_what_small_steps_show),
    (1, compiled_adjoint_is_as_the_evaluator_says),
    (4, compiled_value_is_as_the_evaluator_says),
    (8, jax_gradient_is_as_the_evaluator_says),
    (40, a_batch_is_each_of_its_members),
    (20, second_derivatives_are_as_the_evaluator_says),
)
"""Checks, each made for one in a number of nests."""


def check(seed: int) -> None:
    """Check the nest of a seed."""
    with jax.enable_x64(True):
        t = tried(seed)
        for k, (share, promise) in enumerate(CHECKS):
            if seed % share == k % share:
                try:
                    promise(t)
                except Exception as error:
                    error.add_note(f"{promise.__name__}: seed {seed}\n{t.f}")
                    raise


@pytest.mark.parametrize("first", one_in(4, range(0, 20, 5)))
def test_nests_of_extrema_compile_and_are_right(first: int) -> None:
    for seed in range(first, first + 5):
        check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 1200, 50))
def test_hundreds_of_nests_of_extrema_compile_and_are_right(first: int, share: int) -> None:
    for seed in range(first, first + 50 // share):
        check(seed)
