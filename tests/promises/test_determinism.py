"""Derivatives are the same from run to run: their text and source, and their values to the last bit.

That holds with any hash seed, whatever a process did before, and in several threads.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from benchmarks.programs import CASES
from benchmarks.through_time import PROGRAMS
from tests.support import ROOT

NAMES = [case.name for case in CASES]
THROUGH_TIME = [f"through time: {program.name}" for program in PROGRAMS]
FEW = NAMES[::6]

MADE = """
import json, random, sys, threading
import numpy as np
import tensorlang as tl
from benchmarks.programs import CASES, named
from benchmarks.through_time import PROGRAMS
from tests.support.programs import random_function

names, seeds, order, threads, run = json.loads(sys.argv[1])
cases = {case.name for case in CASES}
through_time = {f"through time: {program.name}": program.text for program in PROGRAMS}
made = {}

def make(name):
    if isinstance(name, int):
        f = random_function(random.Random(name))
        g = tl.adjoint(f) if f.variables else f
    elif name in through_time:
        f = tl.parse(through_time[name])
        g = tl.grad(f)
    else:
        f, g = named(name).function, named(name).derived
    lowered = tl.lower(g)
    found = [str(f), str(g), lowered.source]
    if run and name in cases:
        case = named(name)
        value = lowered(*case.arguments(case.odd))
        parts = value if isinstance(value, tuple) else (value,)
        found += [np.asarray(part).tobytes().hex() for part in parts]
    made[str(name)] = found

jobs = [*names, *seeds]
random.Random(order).shuffle(jobs)
sys.setswitchinterval(1e-5)
running = [threading.Thread(target=lambda k=k: [make(x) for x in jobs[k::threads]]) for k in range(threads)]
for thread in running:
    thread.start()
for thread in running:
    thread.join()
print(json.dumps(made))
"""


def made(names: list[str], seeds: list[int], hash_seed: int, order: int, threads: int, run: bool = False) -> Any:
    """The results of a new process for these benchmarks and for random programs, in a random order."""
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": str(ROOT)}
    asked = [sys.executable, "-c", MADE, json.dumps([names, seeds, order, threads, run])]
    done = subprocess.run(asked, capture_output=True, text=True, check=False, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found) == len(names) + len(seeds), done.stderr
    return found


def differing(first: Any, *others: Any) -> list[str]:
    return [name for name in first for other in others if other[name] != first[name]]


@pytest.mark.slow
def test_derivatives_are_the_same_in_every_process() -> None:
    first = made(FEW, list(range(8)), hash_seed=0, order=0, threads=1)
    assert not differing(first, made(FEW, list(range(8)), hash_seed=4711, order=1, threads=3))


@pytest.mark.slow
def test_derivatives_of_recurrences_are_the_same_in_every_process() -> None:
    first = made(THROUGH_TIME, [], hash_seed=0, order=0, threads=1)
    assert not differing(first, *(made(THROUGH_TIME, [], seed, order=seed, threads=seed) for seed in (1, 2, 3)))


@pytest.mark.slow
def test_derivatives_of_all_benchmarks_and_their_values_are_the_same_in_every_process() -> None:
    seeds = list(range(100, 160))
    first = made(NAMES, seeds, hash_seed=1, order=0, threads=1, run=True)
    assert not differing(first, *(made(NAMES, seeds, seed, order=seed, threads=seed, run=True) for seed in (2, 3)))
