"""Points counted at given sizes, as in the search for counterexamples."""

from __future__ import annotations

import random

import pytest

from proofs.checker.budget import Budget, TooLarge
from proofs.checker.charges import Domain
from proofs.checker.counting import Counter
from proofs.checker.predicates import within
from proofs.checker.semantics import Semantics
from proofs.checker.trees import All, Any, Compare, Exists, Holds, Pred, affine, name, number

N, M = name("n"), name("m")


def random_domain(rng: random.Random) -> Domain:
    dims = tuple(f"$q{k}" for k in range(rng.randint(0, 3)))
    preds: list[Pred] = [within(name(x), rng.choice((N, M, N + M))) for x in dims]
    for _ in range(rng.randint(0, 3)):
        a = affine([(x, rng.choice((-2, -1, 0, 1, 2))) for x in dims], rng.randint(-2, 2)) + rng.choice((N, number(0)))
        p: Pred = Compare(rng.random() < 0.3, a)
        kind = rng.randrange(5)
        if kind == 0:
            p = Any((p, Compare(False, number(1) - (name(dims[0]) if dims else N))))
        elif kind == 1:
            p = Exists("%z", M, Compare(True, a - name("%z").times(2)))
        elif kind == 2 and dims:
            p = Holds("e", (name(dims[0]), name(dims[-1]) + number(1)))
        preds.append(p)
    return Domain(dims, tuple(preds))


@pytest.mark.parametrize("seed", range(60))
def test_points_are_counted_as_they_are_listed(seed: int) -> None:
    rng = random.Random(seed)
    d = random_domain(rng)
    sizes = {"n": rng.randint(1, 4), "m": rng.randint(1, 4)}
    full = rng.random() < 0.5
    e = {(i, j) for i in range(sizes["n"]) for j in range(sizes["m"])} if full else set()
    listed = Semantics({}, Budget(20)).points([(x, N + M) for x in d.dims], All(d.preds), {**sizes, "e": e})
    counter = Counter(sizes, Budget(20), relations={"e": (N, M)}, full=full)
    assert counter.points(d) == sum(1 for _ in listed)


def test_boxes_are_counted_at_large_sizes() -> None:
    box = Domain(("$a", "$b", "$c"), tuple(within(name(x), n) for x, n in (("$a", N), ("$b", M), ("$c", N + M))))
    assert Counter({"n": 10**6, "m": 10**5}, Budget(5)).points(box) == 10**11 * (10**6 + 10**5)
    triangle = Domain(box.dims[:2], (within(name("$a"), N), Compare(False, name("$a") - name("$b")), *box.preds[1:2]))
    assert Counter({"n": 2000, "m": 2000}, Budget(5)).points(triangle) == 2000 * 2001 // 2
    with pytest.raises(TooLarge):
        Counter({"n": 10**6, "m": 10**6}, Budget(5)).points(triangle)
