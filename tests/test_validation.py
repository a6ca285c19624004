"""What the checker calls equal, or no more expensive, is so when it is evaluated and counted: on random programs."""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from proofs.checker import samples, syntax
from proofs.checker.budget import Budget, TooLarge, Undecided
from proofs.checker.certificate import calls
from proofs.checker.charges import Charges
from proofs.checker.equal import Side, equal
from proofs.checker.facts import Facts
from proofs.checker.kinds import shape
from proofs.checker.meaning import Meaning, Place
from proofs.checker.normal import Values
from proofs.checker.points import Data, Sets
from proofs.checker.semantics import Function, Semantics, Undefined, flat, forced, known_cost
from proofs.checker.transport import never_more
from proofs.checker.trees import Indices, Program, Refused, Rel
from tests.programs import random_function

SIZES = (1, 2, 3, 4, 5, 7)
"""Sizes from 1 on: what is decided is decided for these."""


def program(f: tl.Function) -> Program:
    return syntax.program(str(f))


def is_equal(f: Program, g: Program) -> bool:
    try:
        return equal(Side(f), Side(g), (), Budget(5)) is None
    except (Refused, TooLarge):
        return False


def is_no_more(f: Program, g: Program) -> bool:
    facts = Facts(Budget(5))
    facts.declare(f.params)
    values = Values(facts)
    try:
        low, high = (Charges(Meaning(values, p), {}, low=p is g).of(p.body, Place()) for p in (f, g))
        return never_more(low, high, facts)
    except (Refused, TooLarge, Undecided):
        return False


def evaluated(p: Program, env: dict[str, Any]) -> list[float] | None:
    try:
        return [float(x) for x in flat(forced(Semantics({}, Budget(2)).value(p.body, env)))]
    except (Undefined, OverflowError, TooLarge):
        return None


def counted(p: Program, env: dict[str, Any]) -> int | None:
    functions = {f: Function(f, len(call.arguments), known_cost(f), ()) for f, call in calls(p.body)}
    try:
        return Semantics(functions, Budget(2)).cost(p.body, env)
    except (Undefined, OverflowError, TooLarge):
        return None


def drawn(p: Program, rng: random.Random, most: int) -> dict[str, Any] | None:
    """Random sizes up to `most`, and random data; None if some parameter can't have these sizes."""
    names = set().union(*(samples.names_of_type(kind) for _, kind in p.params)) | samples._free(p)
    sizes = {x: rng.randint(1, most) for x in sorted(names)}
    kinds = {x: shape(kind) for x, kind in p.params}
    relations = {x: element.sizes for x, (_, element) in kinds.items() if isinstance(element, Rel)}
    arrays = {x: (dims, element.size) for x, (dims, element) in kinds.items() if isinstance(element, Indices)}
    meaning = Semantics({})
    if any(n < 0 for _, kind in p.params for n in samples._extents(meaning, kind, sizes)):
        return None
    if any(meaning.index(size, sizes) < 1 for _, size in arrays.values()):
        return None
    env: dict[str, Any] = {**sizes, **Sets(Data(relations, arrays), Budget(5)).draw(sizes, rng)}
    for x, kind in p.params:
        if x not in env:
            env[x] = samples._typed(meaning, samples._drawn(meaning, kind, sizes, rng, True), kind, sizes)
    return env


def mutants(f: tl.Function, rng: random.Random, many: int) -> list[Program]:
    """Programs like `f` with one number, sign, comparison or name exchanged."""
    text = str(f)
    start = text.index(") =") + 3
    tokens = [m for m in re.finditer(r"<=|<|(?<![<>!])=|[-+*]|\b\d+\b|\b[ijk]\d*\b|\band\b", text[start:])]
    found = []
    for _ in range(many * 4):
        if not tokens or len(found) == many:
            break
        token = rng.choice(tokens)
        new = {"<=": "<", "<": "<=", "+": "-", "-": "+", "and": "or", "=": "<=", "*": "+"}.get(token[0])
        if new is None:
            new = str(int(token[0]) + rng.choice((1, 2))) if token[0].isdigit() else rng.choice("ijk")
        try:
            found.append(syntax.program(text[: start + token.start()] + new + text[start + token.end() :]))
        except (Refused, TooLarge):
            continue
    return found


def compare(f: Program, g: Program, seed: int) -> int:
    """How many questions were answered by yes; each must be so at all sizes that are tried."""
    same, cheap = is_equal(f, g), is_no_more(f, g)
    if not same and not cheap:
        return 0
    for n in SIZES:
        rng = random.Random(f"{seed} {n}")
        env = drawn(f, rng, n)
        if env is None:
            continue
        if same:
            mine, theirs = evaluated(f, env), evaluated(g, env)
            if mine is not None and theirs is not None:
                np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-8, err_msg=f"{env}")
        if cheap:
            mine, theirs = counted(f, env), counted(g, env)
            assert mine is None or theirs is None or mine <= theirs, env
    return same + cheap


@pytest.mark.parametrize("seed", range(10))
def test_a_program_and_its_mutants_differ_only_where_they_are_said_to(seed: int) -> None:
    rng = random.Random(seed)
    f = random_function(rng, scalars="powers", chooses=seed % 2 == 0)
    for g in mutants(f, rng, 4):
        compare(program(f), g, seed)
        compare(g, program(f), seed)


@pytest.mark.parametrize("seed", range(10))
def test_normal_forms_and_adjoints_are_equal_to_what_they_are_made_of(seed: int) -> None:
    f = random_function(random.Random(seed), scalars="powers", chooses=seed % 2 == 0)
    assert compare(program(tl.normalize(f)), program(f), seed) >= 1
