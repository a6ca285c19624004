"""A search for programs whose adjoint is dear: `python -m tests.support.search --minutes 5`.

It begins with random programs, and changes the choices that made the worst of them, keeping what makes them worse. The
ratio is that of Theorem 6.35: what the adjoint costs by what the program costs, inputs and outputs counted on both
sides. Prints the worst programs as they are found and how many were tried; the exit code is 1 if one exceeds 4.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import tensorlang as tl
from tensorlang.language.function import Function
from tensorlang.normal.as_program import to_function
from tests.support.programs import random_arguments, random_function, random_sizes, relation_data
from tests.support.promises import numbers_in
from tests.support.ssa_lists import random_ssa

BOUND = 4


class Tape(random.Random):
    """Random numbers, the first of which are given; all numbers drawn are kept."""

    def __init__(self, given: Sequence[float], seed: int) -> None:
        super().__init__(seed)
        self.given = list(given)
        self.drawn: list[float] = []

    def random(self) -> float:
        """The next number; random integers are made of these, too."""
        k = len(self.drawn)
        self.drawn.append(self.given[k] if k < len(self.given) else super().random())
        return self.drawn[-1]


@dataclass(frozen=True)
class Found:
    """A program determined by some choices, and its ratio at sizes and data determined by them, too."""

    ratio: Fraction
    program: Function
    sizes: dict[str, int]
    choices: tuple[float, ...]

    def __str__(self) -> str:
        where = ", ".join(f"{name} = {n}" for name, n in self.sizes.items())
        return f"ratio {float(self.ratio):.4f} ({self.ratio}) at {where or 'no sizes'}\n{self.program}\n"


def made(given: Sequence[float], seed: int, of_statements: bool) -> Found:
    """The program of these choices; further choices are random."""
    tape = Tape(given, seed)
    f = to_function(random_ssa(tape)) if of_statements else random_function(tape, chooses=tape.random() < 0.3)
    sizes = {name: max(n, 1) for name, n in random_sizes(f, tape).items()}  # the bound holds from 1 on
    arguments = random_arguments(f, tape, sizes)
    derived = tl.adjoint(f)
    data = {**relation_data(f, arguments), **sizes}
    others = sum(numbers_in(arguments[x.name]) for x in f.variables) + numbers_in(tl.evaluate(f, **arguments))
    own, adjoint = (tl.cost(g, _known(g, data)) + others for g in (f, derived))
    return Found(Fraction(adjoint, own) if own else Fraction(0), f, sizes, tuple(tape.drawn))


def _known(f: Function, data: dict[str, object]) -> dict[str, object]:
    names = {p.name for p in f.params} | {size.name for size in f.sizes}
    return {name: value for name, value in data.items() if name in names}


def changed(choices: Sequence[float], rng: random.Random) -> list[float]:
    """The choices with a few of them redrawn, or cut off after some."""
    new = list(choices)
    if rng.random() < 0.2:
        return new[: rng.randrange(len(new) + 1)]
    for _ in range(rng.randint(1, 3)):
        if new:
            new[rng.randrange(len(new))] = rng.random()
    return new


def search(seconds: float, seed: int, keep: int = 20) -> tuple[int, list[Found]]:
    """Programs tried, and the worst of them, the worst first."""
    rng = random.Random(seed)
    pools: dict[bool, list[Found]] = {True: [], False: []}
    tried, until = 0, time.monotonic() + seconds
    worst = Fraction(0)
    while time.monotonic() < until:
        of_statements = rng.random() < 0.5
        pool = pools[of_statements]
        climbs = pool and rng.random() < 0.8
        given = changed(rng.choice(pool).choices, rng) if climbs else []
        try:
            found = made(given, rng.getrandbits(32), of_statements)
        except (tl.EvaluationError, tl.ArgumentError, tl.LimitError, IndexError):
            continue  # a value, or a count, that does not exist
        tried += 1
        pool.append(found)
        pool.sort(key=lambda one: -one.ratio)
        del pool[keep:]
        if found.ratio > worst:
            worst = found.ratio
            print(f"after {tried} programs: {found}", flush=True)
    return tried, sorted((one for pool in pools.values() for one in pool), key=lambda one: -one.ratio)


def main() -> int:
    """Search; return 1 if a program exceeds the bound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    tried, found = search(options.minutes * 60, options.seed)
    print(f"{tried} programs tried; the worst ratio is {float(found[0].ratio):.4f}")
    return int(found[0].ratio > BOUND)


if __name__ == "__main__":
    sys.exit(main())
