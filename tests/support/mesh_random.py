"""Random programs on a mesh of 2 x 2 devices; run as a module with a first and a last seed, it runs each of them."""

from __future__ import annotations

import random
import sys

import jax

import tensorlang as tl
from tensorlang.errors import EvaluationError, LimitError
from tensorlang.language.grammar import Choice, Extremum, Gen, Sum, children
from tests.lowering.test_lower import assert_close
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


def agrees_with_the_evaluator(seed: int) -> bool:
    """Whether the program of this seed has a value; asserts that it has the same on the mesh."""
    rng = random.Random(seed)
    f = random_function(rng, scalars="powers", fuel=12)
    values = random_arguments(f, rng, random_sizes(f, rng), exact=False)
    try:
        want = tl.evaluate(f, **values)
    except EvaluationError:
        return False
    names = index_names(f)
    chosen = rng.sample(names, min(len(names), 3))
    sharding = {name: rng.choice(["x", "y", ("x", "y")]) for name in chosen}
    mesh = jax.make_mesh((2, 2), ("x", "y"))
    try:
        lowered = tl.lower(f, mesh=mesh, sharding=sharding)
    except LimitError:
        return False
    try:
        assert_close(lowered(**values), want, 1e-6)
    except BaseException:
        print(f"seed {seed}, sharding {sharding}\n{f}", file=sys.stderr)
        raise
    return bool(lowered.in_specs)


def main(first: int, last: int) -> None:
    """Run the programs of these seeds, and print how many have a value."""
    with jax.enable_x64(True):
        print(sum(agrees_with_the_evaluator(seed) for seed in range(first, last)))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
