"""Hand-made tensor SSA, for which the cost bound rests on a predicate that programs from the passes seldom have."""

from __future__ import annotations

from typing import Any

import pytest

from tensorlang.costs.cost import cost
from tensorlang.derivatives import adjoint
from tensorlang.derivatives.adjoint import adjoint_steps
from tensorlang.language.affine import Size, atom_affine, constant
from tensorlang.language.grammar import Var
from tensorlang.language.predicates import TRUE, conjunction, equal
from tensorlang.language.types import R, array
from tensorlang.normal.as_program import to_function
from tensorlang.normal.pattern import axes
from tensorlang.normal.ssa import SSA, Contraction, Input

N = atom_affine(Size("n"))
N_MORE = N + 1
i, j, k = (atom_affine(a) for a in axes(0, 3))


def one_row_of_a_sum() -> SSA:
    """Y = gen g. sum i. X[i], of which only Y[0] is read: 6.29 must sum over g = 0 only."""
    x = Var("x", array((N_MORE,), R))
    leaf = Input(x, (), (N_MORE,))
    every = Contraction(TRUE, (leaf,), (), (N_MORE,))
    first = Contraction(equal(i, constant(0)), (every,), (), ())
    return SSA("row", (x,), (leaf, every, first), first)


def one_row_of_a_product() -> SSA:
    """Y = gen g. sum i1. A[g, i1] * X[i1], of which only Y[0] is read: 6.28 must multiply at g = 0 only."""
    a, x = Var("a", array((N_MORE, N_MORE), R)), Var("x", array((N_MORE,), R))
    left, right = Input(a, (), (N_MORE, N_MORE)), Input(x, (), (N_MORE,))
    i0, i1, i2, i3 = (atom_affine(index) for index in axes(0, 4))
    rows = Contraction(conjunction([equal(i0, i1), equal(i2, i3)]), (left, right), (), (N_MORE,))
    first = Contraction(equal(i, constant(0)), (rows,), (), ())
    return SSA("product", (a, x), (left, right, rows, first), first)


PROGRAMS = [one_row_of_a_sum, one_row_of_a_product]


def adjoint_cost(s: SSA, n: int) -> int:
    result, _ = adjoint_steps(s, tuple(p for p in s.params if isinstance(p, Var)), R)
    return cost(to_function(result), n=n)


@pytest.mark.parametrize("make", PROGRAMS)
@pytest.mark.parametrize("n", [1, 3, 8])
def test_the_adjoint_reads_only_what_the_program_s_result_depends_on(make: Any, n: int) -> None:
    s = make()
    assert adjoint_cost(s, n) <= 2 * (n + 1)
    assert adjoint_cost(s, n) <= 4 * cost(to_function(s), n=n) + 1


@pytest.mark.parametrize("make", PROGRAMS)
def test_without_the_inner_product_s_predicate_the_adjoint_is_dear(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(parts: Any) -> Any:
        return conjunction(list(parts)[:1])

    monkeypatch.setattr(adjoint, "conjunction", forgetful)
    assert adjoint_cost(make(), 8) >= 8 * 9
