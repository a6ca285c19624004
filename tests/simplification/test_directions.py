"""Derivatives taken direction by direction, as in forward mode, become as cheap as the adjoint by simplification."""

from __future__ import annotations

import pytest

import tensorlang as tl
from benchmarks.ablation import PROGRAMS, directions, stages
from benchmarks.programs.seeds import CASES
from tests.support.sampling import one_in

CHOSEN = {case.name: case for case in CASES if case.name in PROGRAMS}


@pytest.mark.parametrize("name", one_in(3, sorted(CHOSEN)))
def test_passes_turn_directions_into_what_costs_as_much_as_the_adjoint(name: str) -> None:
    case = CHOSEN[name]
    f, wrt = case.function, case.wrt or tuple(p.name for p in case.function.params)
    costs = [tl.cost_polynomial(g)(n=1000) for _, g in stages(directions(f, wrt))]
    assert costs == sorted(costs, reverse=True)
    reverse = tl.grad if case.is_scalar else tl.jacobian
    assert costs[-1] <= 1.5 * tl.cost_polynomial(reverse(f, wrt))(n=1000) + 1
