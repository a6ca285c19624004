"""A search for counterexamples to undecided claims: a false certificate should be refused, with sizes.

Values are compared at sizes next to the numbers that programs mention, one size large and the others small, for data
of either sign, and for data with zeros and equal numbers; costs are counted from their charges, which takes no longer
at large sizes.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product
from typing import TYPE_CHECKING

from . import trees
from .budget import Budget, TooLarge, Undecided
from .counting import Counter
from .kinds import shape
from .samples import (
    POSITIVE,
    SIGNED,
    TIED,
    Numbers,
    _fits,
    check_bound,
    check_gradient,
    drawn_env,
    drawn_slopes,
    same_values,
    told_sizes,
)
from .semantics import Semantics, Undefined, flat
from .trees import Indices, Refused

if TYPE_CHECKING:
    from .certificate import _Checked

_LARGE = (4, 5, 6, 7, 8, 9, 12, 16, 17, 24, 32, 64, 100)
_NEAR = (4, 5, 6, 7, 8, 9)
_GROWN = (1, 2, 3, 8, 40, 300, 2000)
_MOST_VECTORS = 600
_MOST_NUMBER = 5000
_SECONDS = 8.0
_EACH = 3.0
"""Seconds for one choice of sizes."""


def search(held: _Checked, values: Sequence[bool], cost: bool) -> None:
    """Look for a counterexample to the values of the program and of the adjoint, and to the cost, as far as these were
    not decided. Raises `Refused` with sizes."""
    budget = held.budget.part(_SECONDS)
    if cost:
        _count(held, budget.part(_SECONDS / 2))
        _evaluate(held, budget.part(_SECONDS / 2))
    if any(values):
        for vector in _vectors(held):
            sizes = dict(zip(held.sizes, vector, strict=True))
            for kind, numbers in enumerate((SIGNED, TIED, POSITIVE)):
                try:
                    budget.spend()
                    _compare(held, sizes, random.Random(f"{vector} {kind}"), budget.part(_EACH), numbers, values)
                except TooLarge:
                    if budget.is_over:
                        return


def _compare(
    held: _Checked,
    sizes: Mapping[str, int],
    rng: random.Random,
    budget: Budget,
    numbers: Numbers,
    links: Sequence[bool],
) -> None:
    """Compare values at these sizes."""
    if not _fits(held, sizes):
        return
    meaning = Semantics(held.functions, budget)
    env = drawn_env(held, meaning, sizes, rng, numbers, budget)
    if env is None:
        return
    if not held.has_steps:
        try:
            check_gradient(held, meaning, env, drawn_slopes(held, env, rng))
        except (Undefined, OverflowError):
            return
        except Refused as refused:
            raise Refused(f"{refused}, at {told_sizes(sizes)}") from None
        return
    try:
        both = meaning.value(held.derivation.body, env)
    except (Undefined, OverflowError):
        return
    whats = ("the program and its tensor SSA", "the derivation's results and the adjoint")
    for link, what, part, program in zip(links, whats, both, (held.program, held.adjoint), strict=True):
        if not link:
            continue
        try:
            found = flat(meaning.value(program.body, env))
        except Undefined as error:
            if program is held.program:  # where a program has no value, nothing is claimed about it
                continue
            raise Refused(f"{what} differ: one has no value, {error}, at {told_sizes(sizes)}") from None
        except OverflowError:
            continue
        try:
            same_values(flat(part), found, what)
        except Refused as refused:
            raise Refused(f"{refused}, at {told_sizes(sizes)}") from None


def _vectors(held: _Checked) -> Iterator[tuple[int, ...]]:
    """Sizes next to numbers that are mentioned, then others; each once."""
    mentioned = _mentioned(held)
    many = len(held.sizes)
    seen = set()
    for n in (*mentioned, *_LARGE):
        for others in (1, 2, 3):
            for k in range(many):
                vector = _one_large(held, k, n, others)
                if vector not in seen:
                    seen.add(vector)
                    yield vector
    for n in sorted({*mentioned, *_LARGE}):
        yield (n,) * many


def _mentioned(held: _Checked) -> list[int]:
    """Sizes next to numbers that are mentioned."""
    return sorted({n + k for n in _numbers(held) for k in (0, 1, 2) if 1 <= n + k <= _MOST_NUMBER})


def _numbers(held: _Checked) -> set[int]:
    """The integers in predicates and index expressions of the programs."""
    found: set[int] = set()
    for node in trees.walked((held.program.body, held.adjoint.body, held.derivation.body)):
        if isinstance(node, trees.Affine):
            found |= {abs(node.constant), *(abs(k) for _, k in node.terms)}
    return found


def _count(held: _Checked, budget: Budget) -> None:
    """Compare the costs by their charges at many sizes, small and large."""
    try:
        charges = held.charges(budget)
    except (Undecided, TooLarge):
        return
    if charges is None:
        return
    own, adjoint, others = charges
    arrays = {x for x, kind in held.program.params if isinstance(shape(kind)[1], Indices)}
    draws = (True, False) if held.data.relations else (True,)
    mentioned = _mentioned(held)
    near = ((n,) * len(held.sizes) for n in (*mentioned, *_LARGE))
    grown = product(_GROWN, repeat=len(held.sizes))
    for vector in (*near, *islice(sorted(grown, key=sum), _MOST_VECTORS)):
        sizes = dict(zip(held.sizes, vector, strict=True))
        if not _fits(held, sizes):
            continue
        for full in draws:
            try:
                budget.spend()
                counter = Counter(sizes, budget, arrays, held.data.relations, full)
                mine, theirs, io = (counter.total(part) for part in (own, adjoint, others))
            except TooLarge:
                if budget.is_over:
                    return
                continue
            if theirs + io > held.bound * (mine + io):
                ratio = f"the adjoint costs {theirs} and the program {mine}, with {io} inputs and outputs"
                raise Refused(f"{ratio}, which is more than {held.bound} times, at {told_sizes(sizes)}")


def _evaluate(held: _Checked, budget: Budget) -> None:
    """Compare the costs by the definitions at some sizes, with random data."""
    for n in _NEAR:
        for vector in {(n,) * len(held.sizes), *(_one_large(held, k, n, 1) for k in range(len(held.sizes)))}:
            sizes = dict(zip(held.sizes, vector, strict=True))
            try:
                budget.spend()
                part = budget.part(_EACH)
                meaning = Semantics(held.functions, part)
                env = (
                    drawn_env(held, meaning, sizes, random.Random(f"{vector}"), SIGNED, part)
                    if _fits(held, sizes)
                    else None
                )
                if env is not None:
                    check_bound(held, meaning, env)
            except (Undefined, OverflowError):
                continue
            except TooLarge:
                if budget.is_over:
                    return
            except Refused as refused:
                raise Refused(f"{refused}, at {told_sizes(sizes)}") from None


def _one_large(held: _Checked, k: int, n: int, others: int) -> tuple[int, ...]:
    return tuple(n if j == k else others for j in range(len(held.sizes)))
