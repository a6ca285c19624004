"""The package against the program that is extracted from the proofs, on random programs at random sizes.

`python -m proofs.diff.compare 5000 --first 0`. For each program that is small enough to list: its cost by Figure 6 is
the proved one; gradients and the forward derivative's values are equal, as fractions; adjoint and forward derivative
cost no more than the proved ones, dead code dropped from both adjoints (less, where the package shares what is equal,
or simplifies a derivative's expression); and the proved numbers keep (B), Theorem 6.1 and (R).
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from proofs.diff.dump import Answer, Dump, NotExact, TooLarge, answers, dump, parts
from tensorlang.derivatives.adjoint import adjoint_steps
from tensorlang.derivatives.total import total_derivative
from tensorlang.language.grammar import Var
from tensorlang.language.types import Type
from tensorlang.normal import normal_ssa
from tensorlang.normal.as_program import to_function
from tensorlang.normal.ssa import SSA
from tensorlang.simplification import simplify_ssa
from tests.support.promises import Case, random_case, random_ssa_case

HERE = Path(__file__).parent
CHUNK = 100


@dataclass(frozen=True)
class Expected:
    """The package's results for a case."""

    dumped: Dump
    cost: int
    adjoint_cost: int
    forward_cost: int
    gradients: list[Any]
    tangents: list[Any]


def driver() -> Path:
    """The extracted program, built if necessary."""
    subprocess.run(["make", "-s", "-C", str(HERE), "driver"], check=True, capture_output=True, text=True)
    return HERE / "driver"


def chosen_case(seed: int) -> Case:
    """The program of a seed: in turn a random program, one with index arrays and choices, and a list of statements."""
    rng = random.Random(seed)
    if seed % 3 == 2:
        return random_ssa_case(rng)
    return random_case(rng, scalars="exact" if seed % 2 else "powers", fuel=14, chooses=seed % 3 == 1)


def expected(seed: int) -> Expected:
    """The program of a seed, and the package's results for it. Raises `TooLarge` or `NotExact`."""
    case = chosen_case(seed)
    s = case.ssa or normal_ssa(case.f)
    if case.ssa is None and seed % 4 == 3:
        s = simplify_ssa(s)
    return of_ssa(str(seed), s, case.f.type, case)


def of_ssa(name: str, s: SSA, kind: Type, case: Case) -> Expected:
    """The program `s`, whose value has type `kind`, at the arguments of `case`."""
    by_name = {p.name: p for p in s.params if isinstance(p, Var)}
    wrt = tuple(by_name[x.name] for x in case.f.variables)
    given = {**case.values, **case.sizes}
    result, _ = adjoint_steps(s, wrt, kind)
    adjoint = to_function(result)
    cotangent = case.fresh(adjoint)
    dumped = dump(name, s, wrt, given, *cotangent.values())
    forward = to_function(total_derivative(s, wrt))
    along = (
        {d.name: case.values[x.name] for d, x in zip(forward.variables[-len(wrt) :], wrt, strict=True)} if wrt else {}
    )
    costs = [case.costs(f) for f in (to_function(s), adjoint, forward)]
    return Expected(dumped, *costs, parts(case.means(adjoint, cotangent)), parts(case.means(forward, along)))


def fractions(arrays: Iterable[Any]) -> list[list[Fraction]]:
    """The elements of each array in order."""
    return [[Fraction(a) for a in np.asarray(array, object).reshape(-1)] for array in arrays]


def objections(mine: Expected, proved: Answer) -> Iterator[str]:
    """Where the package disagrees with the proofs."""
    n = proved.counts
    if mine.cost != n["cost"]:
        yield f"the program costs {mine.cost}, by the proofs {n['cost']}"
    if mine.adjoint_cost > n["needed"]:
        yield f"the adjoint costs {mine.adjoint_cost}, by the proofs {n['needed']}"
    if mine.forward_cost > n["forward"]:
        yield f"the forward derivative costs {mine.forward_cost}, by the proofs {n['forward']}"
    if n["forward"] > n["cost"] + n["dcost"]:
        yield f"Theorem 6.1 does not hold: {n}"
    if n["adjoint"] + n["inputs"] > n["cost"] + n["dcost"] + n["output"]:
        yield f"(B) does not hold: {n}"
    if n["all_touched"] > 5 * n["touched"] + n["output"]:
        yield f"(R) does not hold: {n}"
    for what, arrays in (("gradient", mine.gradients), ("tangent", mine.tangents)):
        if fractions(arrays) != proved.arrays[what]:
            yield f"the {what}s are {fractions(arrays)}, by the proofs {proved.arrays[what]}"


def compare(seeds: range) -> tuple[Counter[str], list[str]]:
    """Compare the programs of `seeds`. Return how many there are of each kind, and the objections."""
    told: Counter[str] = Counter()
    mine: dict[str, Expected] = {}
    for seed in seeds:
        try:
            mine[str(seed)] = expected(seed)
        except (TooLarge, NotExact) as error:
            told[f"left out: {type(error).__name__}"] += 1
    text = "\n".join(e.dumped.text for e in mine.values())
    output = subprocess.run([driver()], input=text, capture_output=True, text=True, check=True).stdout
    found: list[str] = []
    seen = set()
    for answer in answers(output):
        seen.add(answer.name)
        e = mine[answer.name]
        told["compared"] += 1
        told["of the same cost"] += e.adjoint_cost == answer.counts["needed"]
        found += [f"seed {answer.name}: {objection}" for objection in objections(e, answer)]
    found += [f"seed {name}: no answer" for name in mine if name not in seen]
    return told, found


def main() -> int:
    """Compare; return 1 if there are objections."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", type=int)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    told: Counter[str] = Counter()
    found: list[str] = []
    for first in range(options.first, options.first + options.programs, CHUNK):
        more, objected = compare(range(first, min(first + CHUNK, options.first + options.programs)))
        told += more
        found += objected
        for objection in objected:
            print(objection, flush=True)
    print(", ".join(f"{count} {what}" for what, count in sorted(told.items())), f"; {len(found)} objections")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
