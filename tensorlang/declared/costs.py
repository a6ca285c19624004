"""Declared costs: polynomials in the sizes, and counts of the operations of XLA's code at small sizes."""

from __future__ import annotations

from math import prod

from tensorlang.costs.read import read_cost
from tensorlang.errors import AdjointError, ArgumentError, CountError, TensorlangError
from tensorlang.language.affine import Affine, Atom, Size, atom_affine
from tensorlang.language.function import Function
from tensorlang.language.grammar import Routine
from tensorlang.language.predicates import TRUE
from tensorlang.language.types import shape

_LENGTHS = (2, 5)


def declared_cost(name: str, cost: str | int, program: Function) -> tuple[tuple[int, tuple[Affine, ...]], ...]:
    """`cost`, a polynomial in the sizes of `program`, as weights and products of sizes."""
    try:
        cells = read_cost(str(cost), program).cells
    except TensorlangError as error:
        known = ", ".join(str(s) for s in program.sizes) or "none"
        raise ArgumentError(
            f"the cost of {name} can't be read: {error}", hint=f'a polynomial in its sizes ({known}): cost="n^3 + 2*n"'
        ) from None
    found: list[tuple[int, tuple[Affine, ...]]] = []
    for p, polynomial in cells:
        if p is not TRUE or any(not isinstance(x, Size) for x in polynomial.unknowns) or polynomial.denominator != 1:
            raise ArgumentError(
                f"the cost of {name} is no polynomial with whole coefficients: {cost}",
                hint="a polynomial that is at least as much",
            )
        for monomial, k in polynomial.terms.items():
            found.append((int(k), tuple(atom_affine(x) for x in monomial if isinstance(x, Size))))
    return tuple(found)


def cost_at(routine: Routine, sizes: dict[Atom, int]) -> int:
    """The declared cost of a call at these sizes."""
    return sum(weight * prod(n.value(sizes) for n in product) for weight, product in routine.cost)


def require_enough(routine: Routine, trusted: bool) -> None:
    """Raise `AdjointError` if XLA's code for a routine has more operations than declared."""
    import jax
    import numpy as np

    from tensorlang.measure.count import count

    names = dict.fromkeys(atom for p in routine.params for n in shape(p.type)[0] for atom in n.atoms)
    for length in _LENGTHS:
        sizes: dict[Atom, int] = dict.fromkeys(names, length)
        shapes = [tuple(n.value(sizes) for n in shape(p.type)[0]) for p in routine.params]
        arrays = [jax.ShapeDtypeStruct(lengths, np.float32) for lengths in shapes]  # type: ignore[no-untyped-call]
        assert routine.compute is not None
        try:
            done = count(routine.compute, *arrays)
        except CountError:
            return  # XLA calls a library there, which is not counted
        spent = done.arithmetic + done.transcendental
        if spent > cost_at(routine, sizes) and not trusted:
            at = ", ".join(f"{s}={k}" for s, k in sizes.items()) or "any arguments"
            raise AdjointError(
                f"{routine.name} is declared to cost {cost_at(routine, sizes)} at {at}, but XLA's code for it does "
                f"{spent} operations",
                hint="a higher cost, or trusted=True, which certificates name",
            )
