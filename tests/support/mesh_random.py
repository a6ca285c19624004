"""Random programs on a mesh of 2 x 2 devices; run as a module with a first and a last seed, it runs each of them."""

from __future__ import annotations

import random
import sys
from typing import Any

import jax
import numpy as np

import tensorlang as tl
from tensorlang.errors import ArgumentError, EvaluationError, LimitError
from tensorlang.language.grammar import Choice, Extremum, Gen, Sum, children
from tests.lowering.test_lower import assert_close
from tests.support import nests
from tests.support.mixtures import mixed_data, mixture
from tests.support.programs import random_arguments, random_function, random_sizes


def index_names(f: tl.Function) -> list[str]:
    """The names of the indices that `f` binds, and of its sizes."""
    found: dict[str, None] = {}
    stack = [f.body]
    while stack:
        e = stack.pop()
        if isinstance(e, Gen | Sum | Extremum | Choice):
            found[e.index.name] = None
        stack += children(e)
    return [*found, *(s.name for s in f.sizes)]


def random_program(seed: int, rng: random.Random) -> tuple[tl.Function, dict[str, Any]]:
    """A program, with recurrences for one seed in three, and arguments."""
    if seed % 3 == 1:
        return tl.parse(mixture(seed, depth=2)), mixed_data((3, 2, 1, 5, 4)[seed % 5], seed)
    if seed % 3 == 2:
        f = tl.parse(nests.random_nest(rng).text)
    else:
        f = random_function(rng, scalars="powers", fuel=12, chooses=seed % 4 == 1, compares=seed % 5 == 0)
    return f, random_arguments(f, rng, random_sizes(f, rng), exact=False)


def agrees_with_the_evaluator(seed: int) -> bool:
    """Whether the program of this seed has a value; asserts that it and its adjoint have the same on the mesh."""
    rng, draw = random.Random(seed), np.random.default_rng(seed)
    f, values = random_program(seed, rng)
    mesh = jax.make_mesh((2, 2), ("x", "y"))
    is_cut, value = False, None
    for g in (f, tl.adjoint(f)):
        if g is not f:
            values[g.params[-1].name] = jax.tree.map(lambda x: draw.normal(size=np.shape(x)), value)
        asked = {p.name: values[p.name] for p in g.params}
        names = [s.name for s in g.sizes] if seed % 3 == 1 else index_names(g)
        chosen = rng.sample(names, min(len(names), 3))
        sharding = {name: rng.choice(["x", "y", ("x", "y")]) for name in chosen}
        try:
            value = tl.evaluate(g, **asked)
            lowered = tl.lower(g, mesh=mesh, sharding=sharding)
        except (ArgumentError, EvaluationError, LimitError):
            return False
        try:
            assert_close(lowered(**asked), value, 1e-6)
        except ArgumentError as error:
            assert "XLA's partitioner fails" in str(error)  # as that of jaxlib 0.10.2 does at some small sizes
            return False
        except BaseException:
            print(f"seed {seed}, sharding {sharding}\n{g}", file=sys.stderr)
            raise
        is_cut |= bool(lowered.in_specs)
    return is_cut


def main(first: int, last: int) -> None:
    """Run the programs of these seeds, and print how many have a value."""
    with jax.enable_x64(True):
        print(sum(agrees_with_the_evaluator(seed) for seed in range(first, last)))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
