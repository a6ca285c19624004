"""Hostile text, names and arguments: a `TensorlangError` that can be shown, and no code runs that was not asked for."""

from __future__ import annotations

import ast
import builtins
import random
import re
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tensorlang.costs.cost import cost
from tensorlang.errors import TensorlangError
from tensorlang.language.affine import Index, Size, atom_affine
from tensorlang.language.evaluate import evaluate
from tensorlang.language.function import Function
from tensorlang.language.functions import KEYWORDS
from tensorlang.language.functions import functions as scalar_functions
from tensorlang.language.grammar import Add, Gen, Let, Mul, Sum, Var, access, number
from tensorlang.language.types import Array, R
from tensorlang.lowering.lower import lower
from tensorlang.surface.parse import parse, parse_module
from tests.support.programs import random_function

DOT = "f(x: [n]R, y: [n]R) = sum i:n. x[i] * y[i]"

_watched: list[str] | None = None


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if _watched is not None and re.match(
        r"os\.(system|exec|spawn|posix_spawn|fork|remove|rename|mkdir)|subprocess\.|socket\.|shutil\.", event
    ):
        _watched.append(f"{event}{arguments}")


sys.addaudithook(_watch)


@pytest.fixture(autouse=True)
def nothing_else_runs() -> Iterator[None]:
    """Fail tests that start a process, open a socket or move files."""
    global _watched  # noqa: PLW0603
    _watched = []
    yield
    seen, _watched = _watched, None
    assert not seen


def is_read_or_refused(text: str) -> None:
    """Assert that parsing returns programs, or raises an error that can be shown."""
    try:
        parse_module(text)
    except TensorlangError as error:
        assert str(error)


WORDS = [
    *sorted(KEYWORDS),
    *"xyinf()[],:.=<>+-*/^012;@#%&|~'\"\n\x00é∑\t",
    *("!=", "<=", ">=", "--", "3.5", "sin", "pow", "max", "__import__", "1e9", "0x10", "1_000"),
]


def test_soups_of_words_are_refused_or_read() -> None:
    rng = random.Random(0)
    for _ in range(1500):
        is_read_or_refused(" ".join(rng.choices(WORDS, k=rng.randint(0, 30))))
        is_read_or_refused("f(x: [n]R) = " + " ".join(rng.choices(WORDS, k=rng.randint(0, 12))))


def test_programs_with_random_edits_are_refused_or_read() -> None:
    rng = random.Random(1)
    for seed in range(150):
        text = str(random_function(random.Random(seed)))
        for _ in range(6):
            begin = rng.randrange(len(text))
            end = min(len(text), begin + rng.choice((0, 1, 1, 2, 5)))
            is_read_or_refused(text[:begin] + rng.choice(WORDS) + text[end:])
            is_read_or_refused(text[:begin] + text[end:])
            is_read_or_refused(text[:begin])


def test_random_characters_are_refused_or_read() -> None:
    rng = random.Random(2)
    for _ in range(500):
        characters = [chr(rng.choice((rng.randrange(128), rng.randrange(0xD800), 0x202E, 0xFEFF))) for _ in range(20)]
        is_read_or_refused("".join(characters))
        is_read_or_refused("f(x: R) = x " + "".join(characters))


DEEP = 20_000


@pytest.mark.parametrize(
    "text",
    [
        "(" * DEEP,
        "f(x: R) = " + "(" * DEEP,
        "f(x: R) = " + "(" * DEEP + "x",
        "f(x: R) = " + "-" * DEEP,
        "f(x: R) = " + "let y = " * DEEP,
        "f(x: R) = " + "fst(" * DEEP,
        "f(x: R) = " + "sin(" * DEEP + ")" * DEEP,
        "f(x: R) = x" + "[0]" * DEEP,
        "f(x: R) = x" + "[" * DEEP,
        "f(x: R) = " + "[" * DEEP,
        "f(x: R) = [" + "(" * DEEP,
        "f(x: R) = [" + "exists i:1. " * DEEP,
        "f(x: R) = " + "gen i:1. " * DEEP,
        "f(x: " + "[n]" * DEEP,
        "f(x: " + "(" * DEEP,
        "f(x: " + "(R, " * DEEP,
        "f(x: [" + "n + " * DEEP,
        "-- " + "f" * DEEP,
        "f(" + "x: R, " * DEEP,
        "f(x: R) = x" + "^2" * DEEP,
        "f(x: R) = x" + " + " * DEEP,
    ],
    ids=lambda text: text[:24],
)
def test_deep_brackets_that_lead_nowhere_are_refused(text: str) -> None:
    with pytest.raises(TensorlangError) as caught:
        parse(text)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "text",
    [
        "f" * DEEP,
        f"f(x: [n]R) = x[{'9' * 400}]",
        f"f(x: [{'9' * 400}]R) = 1",
        f"f(x: R) = x ^ {'9' * 400}",
        f"f(x: R) = x ^ {'9' * 12}",
        f"f(x: R) = {'9' * 100_000}",
        f"f(x: R) = 0.{'0' * 100_000}1",
        "f(x: R) = pow(x, 1e999999999)",
        "f(x: [n]R) = sum i:n. [i * 99999999999999999999 = n] * x[i]",
    ],
    ids=lambda text: text[:32],
)
def test_huge_words_and_numbers_are_refused(text: str) -> None:
    with pytest.raises(TensorlangError):
        parse(text)


NAMES = [
    *("__import__", "eval", "exec", "open", "__builtins__", "__class__", "__name__", "_", "__"),
    *("lambda", "class", "def", "import", "None", "True", "False", "self", "del", "yield", "print", "async"),
    *("jax", "jnp", "lax", "np", "numpy", "range", "len", "float", "int", "max0", "slice", "tuple", "zip", "Exception"),
]


@pytest.mark.parametrize("name", NAMES)
def test_odd_names_are_just_names(name: str) -> None:
    x = np.array([1.0, 2.0, 3.0])
    for text, want in (
        (f"f({name}: [n]R) = sum i:n. {name}[i]", 6.0),
        (f"f(x: [{name}]R) = sum i:{name}. [i < {name} - 1] * x[i]", 3.0),
        (f"f(x: [n]R) = sum {name}:n. x[{name}] * x[n - 1 - {name}]", 10.0),
        (f"f(x: [n]R) = let {name} = gen i:n. x[i] * x[i] in [2 < n] * ({name}[0] + {name}[2])", 10.0),
        (f"{name}(x: [n]R) = sum i:n. x[i]", 6.0),
    ):
        f = parse(text)
        assert parse(str(f)).params[0].name == f.params[0].name
        assert evaluate(f, x) == want
        lowered = lower(f)
        has_only_known_names(lowered.source)
        assert float(lowered(x)) == want


def has_only_known_names(source: str) -> None:
    """Assert that generated code reads only names that it binds, JAX, and a few builtins without effects."""
    tree = ast.parse(source)
    bound = {"jax", "jnp", "lax"}
    read = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.FunctionDef(name=name):
                bound.add(name)
            case ast.Name(id=name):
                read.add(name)
            case ast.Import(names=names):
                assert {alias.name for alias in names} <= {"jax", "jax.numpy"}
                bound |= {alias.asname or alias.name for alias in names}
            case ast.ImportFrom(module=module, names=names):
                assert module == "jax"
                bound |= {alias.asname or alias.name for alias in names}
            case ast.Attribute(attr=attr):
                assert not attr.startswith("_"), attr
            case ast.Constant(value=str(text)):
                assert re.fullmatch(r"[\w ,>\-\n.:;()\[\]*+=/'^]*", text), text
    assert read <= bound | {
        "range",
        "len",
        "max",
        "min",
        "sum",
        "slice",
        "tuple",
        "zip",
        "float",
        "int",
        "abs",
        "any",
        "divmod",
    }
    assert not read & (set(dir(builtins)) - bound) & {"eval", "exec", "open", "__import__", "getattr", "globals"}


@pytest.mark.parametrize(
    "name", ["x; import os", "x\ny", "", "'", "__import__('os').system('true')", "é", "1", "a b", "\x00"]
)
def test_names_that_no_text_can_have_never_reach_the_code(name: str) -> None:
    n = atom_affine(Size("n"))
    x = Var("x", Array(n, R))
    i, y = Index(name), Var(name, Array(n, R))
    body = Let(y, Gen(i, n, Mul(access(x, atom_affine(i)), number(2))), Sum(i, n, access(y, atom_affine(i))))
    f = Function("f", (x,), Add(body, number(1), 1))
    assert str(parse(str(f))) == str(f)
    try:
        lowered = lower(f)
    except TensorlangError:
        return
    has_only_known_names(lowered.source)


@pytest.mark.parametrize("name", ["x; import os", "x)", "", "é\n", "__import__('os')"])
@pytest.mark.parametrize("place", ["function", "parameter", "size"])
def test_parameters_that_no_text_can_have_never_reach_the_code(name: str, place: str) -> None:
    n = atom_affine(Size(name if place == "size" else "n"))
    x = Var(name if place == "parameter" else "x", Array(n, R))
    i = Index("i")
    f = Function(name if place == "function" else "f", (x,), Gen(i, n, Mul(access(x, atom_affine(i)), number(2))))
    try:
        lowered = lower(f)
    except TensorlangError:
        return
    has_only_known_names(lowered.source)
    assert np.allclose(lowered(np.ones(3)), 2)


class Pretender:
    """Claims a shape, but is not an array."""

    def __init__(self, shape: Any) -> None:
        self.shape = shape


HOSTILE: list[Any] = [
    None,
    "abc",
    b"abc",
    {"a": 1},
    {1, 2, 3},
    object(),
    [[1, 2], [3]],
    [1, "two", 3],
    np.array(["a", "b", "c"]),
    np.array([object()] * 3),
    np.array([None] * 3),
    np.ones(3, dtype=complex),
    np.ones((3, 3)),
    np.float64(1),
    1.0,
    (np.ones(3), np.ones(3)),
    np.array(["2020-01-01"] * 3, dtype="datetime64[D]"),
    Pretender("abc"),
    Pretender((3,)),
    Pretender((-1,)),
    Pretender(None),
    lambda: 1,
    int,
]


@pytest.mark.parametrize("value", HOSTILE, ids=lambda v: type(v).__name__)
def test_hostile_arguments_are_refused(value: Any) -> None:
    f = parse(DOT)
    with pytest.raises(TensorlangError, match="x"):
        evaluate(f, value, np.ones(3))
    with pytest.raises(TensorlangError, match="y"):
        evaluate(f, np.ones(3), y=value)
    with pytest.raises(TensorlangError):
        lower(f)(value, np.ones(3))


@pytest.mark.parametrize("n", [-1, 2.5, "3", None, [3], True, float("nan"), 4])
def test_hostile_sizes_are_refused(n: Any) -> None:
    f = parse(DOT)
    with pytest.raises(TensorlangError):
        evaluate(f, np.ones(3), np.ones(3), n=n)
    if n != 4:
        with pytest.raises(TensorlangError):
            cost(f, n=n)


@pytest.mark.parametrize("data", ["yes", None, np.ones(3), [[True]], np.ones((9, 9), dtype=bool)])
def test_hostile_relations_are_refused(data: Any) -> None:
    f = parse("f(x: [n]R, r: rel(n, n)) = sum i:n, j:n. [r(i, j)] * x[i] * x[j]")
    with pytest.raises(TensorlangError):
        evaluate(f, np.ones(2), data)
    with pytest.raises(TensorlangError):
        cost(f, n=2, r=data)


def test_sizes_beyond_memory_are_counted_or_refused() -> None:
    n = 10**30
    assert cost(parse(DOT), n=n) == 2 * n - 1
    f = parse("f(x: [n]R, y: [n]R) = sum i:n, j:n. [2*i - 3*j < 3] * x[i] * y[j]")
    try:
        assert cost(f, n=n) > 0
    except TensorlangError as error:
        assert str(error)


def test_scalar_functions_can_not_be_called_by_another_name() -> None:
    for name in ("__import__", "eval", "print", "jnp", "sin.__class__", "exp2"):
        assert name not in scalar_functions()
        with pytest.raises(TensorlangError):
            parse(f"f(x: R) = {name}(x)")
