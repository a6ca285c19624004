"""Random programs that call external functions: values, gradients and costs are right, and their certificates are
decided or say why not; certificates with a changed meaning are not decided."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable

import pytest

import tensorlang as tl
from proofs.checker.budget import TooLarge
from proofs.checker.certificate import check
from proofs.checker.trees import Refused
from tensorlang.errors import CostBoundExceeded, NormalFormError
from tensorlang.language.grammar import Apply
from tensorlang.normal import function_of
from tensorlang.pipeline import derive
from tensorlang.sets.scopes import postorder
from tests.proofs.test_forgeries import MASKS, Held, agree, masked
from tests.support.externals import energy, fft, layer, sines, times
from tests.support.programs import random_arguments, random_function, random_sizes
from tests.support.promises import Case, close, gradient_agrees_with_jax

ROUTINES = tuple(f.routine for f in (sines, times, fft, layer, energy))
HIDDEN = "is called where a condition on"
_TRIES = 8


def case_of(seed: int) -> Case | None:
    """A program with calls, and arguments; None if it has no calls, or calls hidden by conditions on values."""
    rng = random.Random(seed)
    f = random_function(
        rng, scalars="smooth", fuel=12, chooses=seed % 2 == 1, compares=seed % 3 == 2, routines=ROUTINES
    )
    if not any(isinstance(e, Apply) for e in postorder(f.body)):
        return None
    sizes = {x: max(1, n) for x, n in random_sizes(f, rng).items()}
    try:
        tl.adjoint(f)
    except NormalFormError as error:
        assert HIDDEN in str(error)
        return None
    return Case(f, sizes, random_arguments(f, rng, sizes, exact=False), rng)


def values_and_gradients_agree(case: Case) -> None:
    f = case.f
    assert str(tl.parse(str(f))) == str(f)
    assert close(tl.evaluate(f, case.values, **case.told(f)), tl.lower(f)(**case.values, **case.told(f)))
    gradient_agrees_with_jax(case)


def certified(case: Case) -> str | None:
    """Its certificate; None if at some sizes the program makes no call that its normal form makes, which nothing hides,
    so that the adjoint costs at most 4 times the normal form but not the program."""
    try:
        return tl.certify(case.f).to_json()
    except CostBoundExceeded as error:
        if not case.relations:  # otherwise its cost depends on these data
            derived = derive(case.f, None)
            assert error.sizes is not None
            assert error.costs is not None
            ssa, adjoint = (
                tl.cost(f, {x.name: error.sizes[x.name] for x in f.sizes})
                for f in (function_of(derived.program), derived.adjoint)
            )
            assert adjoint <= 4 * (ssa + error.costs[0])
        return None


def answer(text: str) -> str:
    try:
        return "decided" if check(text, seconds=30).decided else "not decided"
    except (Refused, TooLarge) as error:
        # certify says nothing about the cost where a condition on values hides a call
        return "calls are not hidden" if "the adjoint costs" in str(error) else type(error).__name__


def forged(text: str, rng: random.Random) -> str | None:
    """A certificate whose adjoint has another value somewhere; None if none was found."""
    genuine: Held = json.loads(text)
    for _ in range(_TRIES):
        changed = masked({**json.loads(text), "transports": {}}, rng, "adjoint", MASKS)
        if changed is None or len(changed["functions"]) > len(genuine["functions"]):
            continue
        if not agree(*(tl.parse(one["adjoint"]) for one in (changed, genuine))):
            return json.dumps(changed)
    return None


def tried(seeds: Iterable[int]) -> Counter[str]:
    found: Counter[str] = Counter()
    for seed in seeds:
        case = case_of(seed)
        if case is None:
            continue
        found["programs"] += 1
        values_and_gradients_agree(case)
        text = certified(case)
        if text is None:
            found["calls are not hidden"] += 1
            continue
        found[answer(text)] += 1
        false = forged(text, random.Random(seed))
        if false is None:
            continue
        assert answer(false) != "decided", (seed, json.loads(false)["adjoint"])
        found["forged"] += 1
    return found


@pytest.mark.slow
def test_random_programs_with_calls_are_right_and_their_certificates_decided() -> None:
    found = tried((0, 1, 7))
    assert found["decided"] == found["programs"] == 3
    assert found["forged"] >= 2


@pytest.mark.slow
def test_many_random_programs_with_calls() -> None:
    found = tried(range(200, 230))
    assert not found["Refused"]
    assert not found["TooLarge"]
    assert found["decided"] >= 0.85 * (found["programs"] - found["calls are not hidden"]), found
    assert found["forged"] >= 0.5 * found["decided"], found
