"""How charges are carried in certificates against what is extracted of Carrying.v, at given sizes and data.

`python -m proofs.diff.carried 200 --first 0`. For certificates of random programs of the package: the steps by which
the checker shows the bound for all sizes are followed by the extracted program on the points of the pieces at small
sizes; it must find that all is carried, and count on both sides what the programs cost by the definitions.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any

from proofs.checker.budget import Budget
from proofs.checker.certificate import _Checked
from proofs.checker.charges import Domain
from proofs.checker.costs import Costs
from proofs.checker.facts import is_index
from proofs.checker.samples import drawn_env, sizes_of
from proofs.checker.semantics import Semantics, Undefined, flat, forced
from proofs.checker.transport import Ledger, Open, Step
from proofs.checker.trees import Affine, All
from proofs.diff.compare import driver
from tensorlang.certificate import certify
from tensorlang.language.function import Function
from tests.support.programs import random_function

_SIZES = (1, 2, 3)


@dataclass(frozen=True)
class Carried:
    """A program at some sizes: the text for the extracted program, and by how much low exceeds high by the
    definitions."""

    text: str
    excess: Fraction


def cases(f: Function, rng: random.Random) -> Iterator[Carried]:
    """The certificate of `f` at some sizes and data; none if indices are chosen, or the certificate is not decided."""
    held = _Checked(json.loads(certify(f).to_json()), Budget(20))
    names = sorted(sizes_of(held))
    costs = Costs(held.derivation, held.functions, Budget(20))
    counted = held.counted
    if not costs.cheap(held.program, held.adjoint, held.bound, counted):
        return
    for _ in range(3):
        sizes = {x: rng.choice(_SIZES) for x in names}
        ledger = costs.ledger(held.program, held.adjoint, held.bound, counted)
        meaning = Semantics(held.functions, Budget(20))
        env = drawn_env(held, meaning, sizes, rng, True, Budget(20))
        if env is None or set(ledger.facts.arrays) - set(dict(held.program.params)):
            continue
        try:
            yield _case(held, ledger, costs.found["bound"], meaning, env)
        except Undefined:
            continue


def _case(
    held: _Checked, ledger: Ledger, steps: list[Step | Open], meaning: Semantics, env: Mapping[str, Any]
) -> Carried:
    sides = [ledger.low, ledger.high]
    scale = lcm(*(p.weight.denominator for side in sides for p in side))
    words: list[Any] = ["carried", held.program.name]
    for side in sides:
        words.append(len(side))
        for p in side:
            assert p.domain is not None
            words += [p.weight * scale, *_points(p.domain, meaning, env)]
    words.append(len(steps))
    for step in steps:
        if isinstance(step, Open):
            many = len(ledger.low)
            ledger.follow([step])
            made = ledger.low[-1].domain if len(ledger.low) > many else None
            words += ["open", step.low, *(_points(made, meaning, env) if made is not None else (0,))]
        else:
            dims = ledger.dims[: ledger.high[step.high].dims]
            ledger.follow([step])
            words += ["carry", step.low, step.high, len(step.at)]
            words += [word for a in step.at for word in _row(a, dims, meaning, env)]
    others = sum(len(flat(forced(env[x]))) for x in held.counted)
    program, adjoint = meaning.cost(held.program.body, env), meaning.cost(held.adjoint.body, env)
    excess = (adjoint + others) * held.bound.denominator - (program + others) * held.bound.numerator
    return Carried(" ".join(map(str, words)) + "\n", Fraction(excess * scale))


def _points(d: Domain, meaning: Semantics, env: Mapping[str, Any]) -> Iterator[Any]:
    most = max([n for n in env.values() if isinstance(n, int)], default=1)
    reach = Affine((), 4 * most + 4)
    shifted = [(x, reach) for x in d.dims]
    found = [[at[x] for x in d.dims] for at in meaning.points(shifted, All(d.preds), env)]
    yield len(found)
    for point in found:
        yield from (len(point), *point)


def _row(a: Affine, dims: list[str], meaning: Semantics, env: Mapping[str, Any]) -> Iterator[Any]:
    told = dict(a.terms)
    yield len(dims)
    yield from (told.get(x, 0) for x in dims)
    rest = a - Affine(tuple((x, k) for x, k in a.terms if isinstance(x, str) and is_index(x)))
    yield meaning.index(rest, env)


def differences(seeds: range) -> tuple[int, list[str]]:
    """The number of cases, and what was wrong with them."""
    found: list[tuple[int, Carried]] = []
    for seed in seeds:
        rng = random.Random(seed)
        found += [(seed, case) for case in cases(random_function(rng, numbers=seed % 2 == 1), rng)]
    text = "".join(case.text for _, case in found)
    done = subprocess.run([driver()], input=text, capture_output=True, text=True, check=True)
    wrong = []
    for (seed, case), line in zip(found, done.stdout.splitlines(), strict=True):
        words = line.split()
        told = {key: int(n) for key, n in zip(words[2::2], words[3::2], strict=True)}
        if not told["done"]:
            wrong.append(f"{seed}: the steps do not carry all")
        if told["low"] - told["high"] != case.excess:
            wrong.append(f"{seed}: {told['low']} - {told['high']}, by the definitions {case.excess}")
    return len(found), wrong


def main(arguments: list[str]) -> int:
    """Compare certificates of random programs."""
    parser = argparse.ArgumentParser(prog="python -m proofs.diff.carried", description=__doc__)
    parser.add_argument("many", type=int)
    parser.add_argument("--first", type=int, default=0)
    asked = parser.parse_args(arguments)
    many, wrong = differences(range(asked.first, asked.first + asked.many))
    print(f"{many} cases, {len(wrong)} wrong", *wrong, sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
