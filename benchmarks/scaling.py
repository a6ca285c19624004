"""How time, operations and memory grow with the size: program and derivative, ours and JAX's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np

import tensorlang as tl
from benchmarks.case import Case, Sizes, dense
from benchmarks.measure import FAILURES, ROUNDS, measure, reason
from benchmarks.peers import JAX, JAX_PROGRAM, OURS, PROGRAM
from benchmarks.reference import gradient
from tensorlang.measure.count import Count, count

POINTS = 4
WHO = (OURS, PROGRAM, JAX, JAX_PROGRAM)
WHAT = ("seconds", "operations", "traffic")


@dataclass
class Growth:
    """A case at growing sizes: for each of `WHO`, its seconds, operations and traffic at each size."""

    case: str
    index: str
    at: list[int] = field(default_factory=list)
    figures: dict[str, dict[str, list[float]]] = field(
        default_factory=lambda: {who: {what: [] for what in WHAT} for who in WHO}
    )
    missing: dict[str, str] = field(default_factory=dict)

    def exponent(self, who: str, what: str) -> float | None:
        """The slope of a line through the logarithms of the figures; None if there are no figures, or some are zero."""
        found = [(n, y) for n, y in zip(self.at, self.figures[who][what], strict=True) if y > 0]
        if len(found) < 2:
            return None
        x, y = np.log(np.array(found, float)).T
        return float(np.polyfit(x, y, 1)[0])


def ladder(case: Case) -> list[dict[str, int]]:
    """Sizes from a case's smallest to its largest in which one size alone grows, by equal factors."""
    if case.grows not in case.sizes[0]:
        return []
    low, high = case.sizes[0][case.grows], case.sizes[-1][case.grows]
    steps = [low * (high / low) ** (k / (POINTS - 1)) for k in range(POINTS)]
    return [{**case.sizes[0], case.grows: round(n)} for n in steps]


def counted(case: Case, sizes: Sizes) -> dict[str, Count]:
    """The operations of the compiled programs, counted in their HLO, for those in which they can be."""
    shapes = case.shapes(sizes)
    given = shapes[:-1] if case.takes_cotangent else shapes
    natural = lambda *args: case.program(jnp, *args)
    wide, derived = [abstract(a) for a in given], [abstract(a) for a in shapes]
    ways: Mapping[str, tuple[Any, Sequence[Any]]] = {
        OURS: (tl.lower(case.derived), shapes),
        PROGRAM: (tl.lower(case.function), given),
        JAX: (gradient(case), derived),
        JAX_PROGRAM: (natural, wide),
    }
    return {who: count(fn, *arguments) for who, (fn, arguments) in ways.items()}


def abstract(argument: Any) -> Any:
    """A sparse relation as a dense array; shapes as they are."""
    return dense(argument)


def grow(case: Case, budget: float | None) -> Growth:
    """The growth of a case. Anything that fails at a size is left out there and reported. Without a budget nothing is
    timed."""
    growth = Growth(case.name, case.grows)
    for sizes in ladder(case):
        try:
            counts = counted(case, sizes)
        except FAILURES as error:
            growth.missing[f"count at {case.grows} = {sizes[case.grows]}"] = reason(error)
            counts = {}
        row = measure(case, sizes, WHO if budget else (), ROUNDS, budget or 0)
        growth.missing.update({f"{who} at {sizes[case.grows]}": why for who, why in row.missing.items()})
        growth.at.append(sizes[case.grows])
        for who in WHO:
            here = growth.figures[who]
            here["seconds"].append(row.timed[who].median if who in row.timed else math.nan)
            here["operations"].append(counts[who].operations if who in counts else math.nan)
            here["traffic"].append(counts[who].traffic if who in counts else math.nan)
    return growth
