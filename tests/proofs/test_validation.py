"""Programs that the checker calls equal, or no more expensive, are so when evaluated and counted: on random
programs."""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from proofs.checker import samples, syntax
from proofs.checker.budget import Budget, TooLarge, Undecided
from proofs.checker.carrying import never_more
from proofs.checker.certificate import calls
from proofs.checker.charges import Charges
from proofs.checker.equal import Side, equal
from proofs.checker.facts import Facts
from proofs.checker.kinds import shape
from proofs.checker.meaning import Meaning, Place
from proofs.checker.normal import Values
from proofs.checker.points import Data, Sets
from proofs.checker.semantics import Function, Semantics, Undefined, flat, forced, known_cost
from proofs.checker.trees import Indices, Program, Refused, Rel
from tests.support.programs import random_function
from tests.support.sampling import one_in

SIZES = (1, 2, 3, 4, 5, 7)
"""Sizes from 1 on, for which decisions hold."""


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
        return never_more(low, high, facts) is not None
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
    meaning = Semantics({}, Budget(5))
    if any(n < 0 for _, kind in p.params for n in samples._extents(meaning, kind, sizes)):
        return None
    if any(meaning.index(size, sizes) < 1 for _, size in arrays.values()):
        return None
    env: dict[str, Any] = {**sizes, **Sets(Data(relations, arrays), Budget(5)).draw(sizes, rng)}
    for x, kind in p.params:
        if x not in env:
            env[x] = samples._typed(meaning, samples._drawn(meaning, kind, sizes, rng, samples.SIGNED), kind, sizes)
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
    """The number of questions answered by yes; asserts that each answer is true at all sizes that are tried."""
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


GROUPS = "p: [n]idx(n), q: [n]idx(n), x: [n]R, y: [n]R"
GREATEST = "let a = gen i:n. max k:n where p[k] = p[i]. x[k] in"
TOTAL = "let a = gen i:n. sum k:n. [p[k] = p[i]] * exp(y[k]) in"


def over_groups(rng: random.Random) -> str:
    """A sum over the group of i, of values read at j and of elements of index arrays at i or j."""
    told = rng.choice([GREATEST, TOTAL, "let a = gen i:n. y[p[i]] in", "let a = gen i:n. y[i] in"])
    tie = rng.choice(["p[j] = p[i]", "p[j] = p[i]", "q[j] = p[i]", "p[j] = p[i] and j <= i"])
    body = rng.choice(["sin(x[j] * {})", "x[j] * {}", "exp(x[j]) * recip({})", "x[j] * x[j] * {}"])
    read = rng.choice(["a[i]", "a[i]", "a[j]", "a[p[i]]"])
    return f"{told} gen i:n. sum j:n. [{tie}] * {body.format(read)}"


@pytest.mark.parametrize("seed", one_in(4, range(8)))
def test_programs_over_groups_and_their_mutants_differ_only_where_they_are_said_to(seed: int) -> None:
    f = tl.parse(f"f({GROUPS}) = {over_groups(random.Random(seed))}")
    compare(program(tl.simplify(f)), program(f), seed)
    for g in mutants(f, random.Random(seed), 6):
        compare(program(f), g, seed)
        compare(g, program(f), seed)


DIAGONALS = "f(a: [n]R, b: [n]R, x: [n]R) = let T = gen i:n, j:n. [i = j] * a[i] + [i = j + 1] * b[j] in"
ALIKE = {
    "a guard that the sum's own condition implies": (
        "f(a: [e]idx(n), x: [e]R) = gen i:n. [exists k:e. a[k] = i] * (sum j:e. [a[j] = i] * x[j])",
        "f(a: [e]idx(n), x: [e]R) = gen i:n. sum j:e. [a[j] = i] * x[j]",
    ),
    "a guard on a relation": (
        "f(E: rel(n, m), x: [m]R) = gen i:n. [exists k:m. E(i, k)] * (sum j:m. [E(i, j)] * x[j]^2)",
        "f(E: rel(n, m), x: [m]R) = gen i:n. sum j:m. [E(i, j)] * x[j]^2",
    ),
    "a guard on what is read": (
        "f(a: [e]idx(n), x: [n]R) = gen j:e. [exists k:e. a[k] = a[j]] * sin(x[a[j]])",
        "f(a: [e]idx(n), x: [n]R) = gen j:e. sin(x[a[j]])",
    ),
    "what each element shows of itself": (
        "f(p: [n]idx(m), x: [n]R) = gen i:n. [exists k:n. p[k] = p[i]] * sin(x[i])",
        "f(p: [n]idx(m), x: [n]R) = gen i:n. sin(x[i])",
    ),
    "a guard of two indices": (
        "f(E: rel(n, m), x: [n]R, y: [m]R) = sum i:n, j:m. [exists k:n, l:m. E(k, l)] * [E(i, j)] * x[i] * y[j]",
        "f(E: rel(n, m), x: [n]R, y: [m]R) = sum i:n, j:m. [E(i, j)] * x[i] * y[j]",
    ),
}
CHOICES = (
    "f(x: [n + 5]R, y: [n]R) = "
    "let a = gen k:n. [k < 5] * (max j:5 where j <= k. x[j]) in gen k:n. let c = argmax j:n where j <= k. x[j] in"
)
SAME = {
    "a function that is the branch of a comparison": (
        "f(x: [n]R) = sum i:n. where_gt(x[i], 0, sqrt(x[i]))",
        "f(x: [n]R) = sum i:n. let c = 0 < x[i] in [c = 1] * sqrt(x[i])",
    ),
    "a function of what is 0 where another condition fails": (
        "f(x: R, y: R) = let c = 1 < x in [c = 1] * where_gt([c = 1] * x, exp(x), y)",
        "f(x: R, y: R) = let c = 1 < x in [c = 1] * where_gt(x, exp(x), y)",
    ),
    "a comparison in the other order": (
        "f(x: [n]R, y: [n]R) = gen i:n. let c = x[i] >= y[i] in [c = 1] * x[i]",
        "f(x: [n]R, y: [n]R) = gen i:n. let c = y[i] <= x[i] in [c = 1] * x[i]",
    ),
    "a choice that counts from elsewhere": (
        "f(x: [n]R, y: [n]R) = gen i:n. let k = argmax j:n where i <= j < i + 3. x[j] in sum j:n. [j = k] * y[j]",
        "f(x: [n]R, y: [n]R) = gen i:n. let k = argmax d:3 where i + d < n. x[i + d] in sum j:n. [j = i + k] * y[j]",
    ),
    "the greatest by the number of its diagonal": (
        "f(x: [n]R, a: [n][n]R) = gen i:n. max j:n where i - 2 <= j <= i. a[i, j] * x[j]",
        "f(x: [n]R, a: [n][n]R) = gen i:n. max d:3 where 2 <= i + d. a[i, i - 2 + d] * x[i - 2 + d]",
    ),
    "what the other of a group says": (
        f"f({GROUPS}) = gen i:n. sum j:n. [p[j] = p[i]] * sin(x[j] + y[p[i]])",
        f"f({GROUPS}) = gen i:n. sum j:n. [p[j] = p[i]] * sin(x[j] + y[p[j]])",
    ),
    "the greatest of a group, by either": (
        f"f({GROUPS}) = {GREATEST} gen i:n. sum j:n. [p[j] = p[i]] * exp(x[j] - a[i])",
        f"f({GROUPS}) = {GREATEST} gen i:n. sum j:n. [p[j] = p[i]] * exp(x[j] - a[j])",
    ),
    "sums over a group, by either": (
        f"f({GROUPS}) = {TOTAL} gen i:n. sum j:n. [p[j] = p[i]] * sin(x[j]) * recip(a[i])^2",
        f"f({GROUPS}) = {TOTAL} gen i:n. sum j:n. [p[j] = p[i]] * sin(x[j]) * recip(a[j])^2",
    ),
    "rational functions of numbers": (
        "f(x: [n]R) = gen i:n. recip(6) * x[i] + recip(3) * x[i] + max(1, 2) * recip(2 * 2) * x[i]",
        "f(x: [n]R) = gen i:n. x[i]",
    ),
    "a number of many digits": (
        f"f(x: R) = let a = 3 in {'let a = a * a in ' * 40} x * a",
        f"f(x: R) = let a = 3 in {'let a = a * a in ' * 40} a * x",
    ),
}
APART = {
    "a branch where both are equal": (
        "f(x: [n]R, y: [n]R) = sum i:n. where_gt(x[i], y[i], exp(x[i]))",
        "f(x: [n]R, y: [n]R) = sum i:n. where_ge(x[i], y[i], exp(x[i]))",
    ),
    "a choice that counts from another place": (
        "f(x: [n]R, y: [n]R) = gen i:n. let k = argmax j:n where i <= j < i + 3. x[j] in sum j:n. [j = k] * y[j]",
        "f(x: [n]R, y: [n]R) = gen i:n. let k = argmax d:2 where i + d < n. x[i + d] in sum j:n. [j = i + k] * y[j]",
    ),
    "the first of two that are equal, from the other end": (
        "f(x: [n]R, y: [n]R) = let k = argmax j:n. x[j] in sum j:n. [j = k] * y[j]",
        "f(x: [n]R, y: [n]R) = let k = argmax j:n. x[n - 1 - j] in sum j:n. [j = n - 1 - k] * y[j]",
    ),
    "choices among more than another, which has the same condition": (
        f"{CHOICES} [c < 5] * y[k] + a[k]",
        f"{CHOICES} y[k] + a[k]",
    ),
    "the greatest of another group": (
        f"f({GROUPS}) = {GREATEST} gen i:n. sum j:n. [p[j] = p[i]] * exp(x[j] - a[q[i]])",
        f"f({GROUPS}) = {GREATEST} gen i:n. sum j:n. [p[j] = p[i]] * exp(x[j] - a[q[j]])",
    ),
    "the sum of a group, by its members": (
        f"f({GROUPS}) = gen i:n. sum j:n. [p[j] = p[i]] * sin(x[j] * y[i])",
        f"f({GROUPS}) = gen i:n. sum j:n. [p[j] = p[i]] * sin(x[j] * y[j])",
    ),
    "elements of two arrays": (
        f"f({GROUPS}) = gen i:n. sum j:n. [q[j] = p[i]] * sin(x[j] + y[p[i]])",
        f"f({GROUPS}) = gen i:n. sum j:n. [q[j] = p[i]] * sin(x[j] + y[p[j]])",
    ),
    "a power of a number": ("f(x: R) = recip(3) * x", "f(x: R) = recip(3)^2 * x"),
    "functions of a matrix of other diagonals": (
        f"{DIAGONALS} gen i:n. sum j:n. exp(T[i, j]) * T[i, j] * x[j]",
        "f(a: [n]R, b: [n]R, x: [n]R) = gen i:n. exp(a[i]) * a[i] * x[i] + [0 < i] * exp(b[i]) * b[i - 1] * x[i - 1]",
    ),
    "a guard that data decide": (
        "f(a: [e]idx(n), x: [n]R) = gen i:n. [exists k:e. a[k] = i] * x[i]",
        "f(a: [e]idx(n), x: [n]R) = gen i:n. x[i]",
    ),
    "another witness": (
        "f(E: rel(n, n), x: [n]R) = gen i:n. [exists k:n. E(k, i)] * (sum j:n. [E(i, j)] * x[j])",
        "f(E: rel(n, n), x: [n]R) = gen i:n. sum j:n. [E(i, j)] * x[j]",
    ),
    "one element": ("f(x: [n]R) = sum i:n. x[i]^2", "f(x: [n]R) = sum i:n. [i != 7] * x[i]^2"),
    "even sizes": ("f(x: [n]R) = sum i:n. x[i]", "f(x: [n]R) = sum i:n. [exists k:n. n = 2*k + 1] * x[i]"),
    "sizes from 1000 on": ("f(x: [n]R) = sum i:n. x[i]", "f(x: [n]R) = sum i:n. [i < 1000] * x[i]"),
    "a chosen index, where nothing can be chosen": (
        "f(x: [n]R) = let k = argmax i:n where 3 <= i. x[i] in sum i:n. [i <= k] * x[0]",
        "f(x: [n]R) = let k = argmax i:n where 3 <= i. x[i] in x[0] + (sum i:n. [1 <= i <= k] * x[0])",
    ),
    "a reciprocal of nothing": (
        "f(e: rel(n, n), x: [n]R) = gen i:n. (sum j:n. [e(i, j)] * x[j]) * recip(sum j:n. [e(i, j)] * x[j])",
        "f(e: rel(n, n), x: [n]R) = gen i:n. 1",
    ),
}


@pytest.mark.parametrize("texts", ALIKE.values(), ids=ALIKE)
def test_guards_that_data_imply_are_seen_through(texts: tuple[str, str]) -> None:
    guarded, plain = map(syntax.program, texts)
    assert is_equal(guarded, plain)
    assert is_no_more(guarded, plain)


@pytest.mark.parametrize("texts", SAME.values(), ids=SAME)
def test_what_is_the_same_by_meaning_is_called_equal(texts: tuple[str, str]) -> None:
    first, second = map(syntax.program, texts)
    assert is_equal(first, second)
    compare(first, second, 0)


def test_functions_of_elements_of_a_matrix_of_diagonals_are_those_of_the_diagonals() -> None:
    first = syntax.program(f"{DIAGONALS} gen i:n. sum j:n. exp(T[i, j]) * T[i, j] * x[j]")
    last = "[0 < i] * exp(b[i - 1]) * b[i - 1] * x[i - 1]"
    second = syntax.program(f"f(a: [n]R, b: [n]R, x: [n]R) = gen i:n. exp(a[i]) * a[i] * x[i] + {last}")
    assert is_equal(first, second)


@pytest.mark.parametrize("texts", APART.values(), ids=APART)
def test_what_differs_somewhere_is_not_called_equal(texts: tuple[str, str]) -> None:
    first, second = map(syntax.program, texts)
    assert not is_equal(first, second)
    assert is_equal(first, first)


def product_of(factors: list[str], step: int) -> Program:
    """The product of the factors, some in each line."""
    lines = [f"let y = y * ({' * '.join(factors[k : k + step])}) in" for k in range(0, len(factors), step)]
    return syntax.program("\n".join(["f(x: R) =", "let y = 1 in", *lines, "y"]))


LONG = [f"sin({k} * x)" for k in range(2, 102)]


def test_long_products_are_equal_however_they_are_cut_into_lines() -> None:
    assert is_equal(product_of(LONG, 1), product_of(LONG, 7))


@pytest.mark.slow
def test_long_products_that_differ_in_a_factor_are_not_equal() -> None:
    first, second = product_of(LONG, 1), product_of([*LONG[:70], "sin(x)", *LONG[71:]], 7)
    assert equal(Side(first), Side(second), (), Budget(120)) is not None  # within the time, or an error is raised
