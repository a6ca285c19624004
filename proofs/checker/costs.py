"""Show that an adjoint is cheap, by the checker's own reading of what both programs cost, in two independent ways."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, Protocol

from . import trees
from .budget import Budget, TooLarge, Undecided
from .carrying import never_more
from .charges import Charge, Charges, numbers
from .facts import Facts
from .kinds import flat_type
from .meaning import Meaning, Place
from .normal import Values
from .semantics import Function
from .transport import Carried, Ledger, pieces_of
from .trees import Expr, Let, Program

COMPARED = ("bound", "program", "adjoint")
"""The comparisons: the adjoint with the bound times the program, the program in SSA with the program, and the adjoint
with the derivation's results."""


class Reading(Protocol):
    """The charges of a program: no less than it costs, or no more."""

    def __call__(self, program: Program, low: bool) -> list[Charge]:
        """The charges."""


Decide = Callable[[Facts, Reading, Sequence[Carried]], list[Carried] | None]


class Costs:
    """Compares the costs of programs that have the data of a derivation. `known` are the steps that a certificate has
    for each comparison, `found` the steps by which it was decided, `searched` the comparisons for which the known steps
    did not suffice. Where `searches` is false, a comparison without known steps is skipped."""

    def __init__(
        self,
        derivation: Program,
        functions: Mapping[str, Function],
        budget: Budget,
        known: Mapping[str, Sequence[Carried]] | None = None,
    ) -> None:
        self.derivation = derivation
        self.functions = functions
        self.budget = budget
        self.known = known or {}
        self.found: dict[str, list[Carried]] = {}
        self.searched: list[str] = []
        self.searches = True

    def plain(self) -> dict[str, list[Any]]:
        """The steps that were found, as a certificate has them."""
        return {key: [step.plain() for step in steps] for key, steps in self.found.items()}

    def cheap(self, program: Program, adjoint: Program, bound: Fraction, counted: Collection[str]) -> bool:
        """Whether it is shown that adjoint + numbers <= bound * (program + numbers), where the numbers are those in the
        parameters `counted`."""

        def decide(facts: Facts, of: Reading, known: Sequence[Carried]) -> list[Carried] | None:
            return never_more(*self._sides(program, adjoint, bound, counted, of), facts, known)

        return self._decided("bound", decide)

    def ledger(self, program: Program, adjoint: Program, bound: Fraction, counted: Collection[str]) -> Ledger:
        """What has to be carried, and where to, to show that `adjoint` is so cheap."""
        facts, of = self._reading()
        return Ledger(facts, pieces_of(*self._sides(program, adjoint, bound, counted, of), facts))

    def _sides(
        self, program: Program, adjoint: Program, bound: Fraction, counted: Collection[str], of: Reading
    ) -> tuple[list[Charge], list[Charge]]:
        held = [c for x, kind in self.derivation.params if x in counted for c in numbers(flat_type(kind))]
        low = [(weight * bound.denominator, domain) for weight, domain in (*of(adjoint, low=False), *held)]
        return low, [(weight * bound.numerator, domain) for weight, domain in (*of(program, low=True), *held)]

    def derived(self, program: Program, adjoint: Program, outputs: Sequence[Expr], results: Sequence[Expr]) -> bool:
        """Whether it is shown that the derivation's program costs no more than the program, and the adjoint no more
        than the derivation's results."""
        ssa, last = self._needed(outputs), self._needed(results)
        links = {"program": (ssa, program), "adjoint": (adjoint, last)}
        return all(
            self._decided(
                key,
                lambda facts, of, known, low=low, high=high: never_more(  # type: ignore[misc]
                    of(low, low=False), of(high, low=True), facts, known
                ),
            )
            for key, (low, high) in links.items()
        )

    def exact(
        self, program: Program, adjoint: Program, counted: Collection[str]
    ) -> tuple[list[Charge], list[Charge], list[Charge]] | None:
        """The charges of the program and the adjoint, and one for each number in the parameters `counted`; None if they
        are not exact."""
        facts = Facts(self.budget)
        facts.declare(self.derivation.params)
        values = Values(facts)
        read = []
        for one in (program, adjoint):
            charges = Charges(Meaning(values, one), self.functions, False)
            read.append(charges.of(one.body, Place()))
            if not charges.is_exact:
                return None
        held = [c for x, kind in self.derivation.params if x in counted for c in numbers(flat_type(kind))]
        return read[0], read[1], held

    def _needed(self, roots: Sequence[Expr]) -> Program:
        """The lets of the derivation that `roots` depend on, and the roots."""
        lets, _ = trees.lets(self.derivation.body)
        e = roots[-1]
        for root in reversed(roots[:-1]):
            e = trees.Pair(root, e)
        for x, value in reversed(trees.needed(lets, list(roots))):
            e = Let(x, value, e)
        return replace(self.derivation, body=e)

    def _decided(self, key: str, decide: Callable[[Facts, Reading, Sequence[Carried]], list[Carried] | None]) -> bool:
        if not self.searches and key not in self.known:
            return False
        facts, of = self._reading()
        try:
            steps = decide(facts, of, self.known.get(key, ()))
        except (Undecided, TooLarge):
            steps = None
        if steps is None:
            return False
        if not {*steps} <= {*self.known.get(key, ())}:
            self.searched.append(key)
        self.found[key] = steps
        return True

    def _reading(self) -> tuple[Facts, Reading]:
        facts = Facts(self.budget)
        facts.declare(self.derivation.params)
        values = Values(facts)

        def of(program: Program, low: bool) -> list[Charge]:
            return Charges(Meaning(values, program), self.functions, low).of(program.body, Place())

        return facts, of
