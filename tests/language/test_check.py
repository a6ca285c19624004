"""Bound names, accesses that stay in their arrays, and witnesses of accesses that don't."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorlang.errors import LimitError, OutOfBounds, PythonLine, ScopeError
from tensorlang.language.affine import Affine, Index, Size, atom_affine, constant
from tensorlang.language.function import Function
from tensorlang.language.grammar import (
    Access,
    Add,
    Bracket,
    Expr,
    Gen,
    Let,
    Mul,
    Sum,
    Var,
    access,
    bracket,
    gen,
    number,
    sums,
)
from tensorlang.language.predicates import (
    Predicate,
    Related,
    Relation,
    at_most,
    conjunction,
    equal,
    less,
    not_equal,
    within,
)
from tensorlang.language.types import Array, R
from tensorlang.sets.check import check
from tensorlang.sets.scopes import declared_sizes
from tensorlang.surface.parse import parse
from tests.support import pointwise
from tests.support.programs import random_function

I, J, K = (Index(name) for name in "ijk")  # noqa: E741
i, j, n, m = (atom_affine(a) for a in (I, J, Size("n"), Size("m")))
x = Var("x", Array(n, R))

FINE = [
    "f(x: [n + m - 1]R, w: [m]R) = gen i:n. sum j:m. x[i + j] * w[j]",
    "f(x: [n]R) = gen i:n. [i > 0] * x[i - 1]",
    "f(x: [n]R) = gen i:n. [0 <= i - 1 < n] * x[i - 1]",
    "f(x: [n]R) = sum i:n. x[0] + x[n - 1]",
    "f(x: [n]R) = gen i:n. gen j:n. [i = j + 1 or j = i + 2 and i > 0] * x[i - j + 2 * j - i]",
    "f(x: [n]R) = gen i:2 * n. [exists k:n. i = 2 * k] * let y = gen j:n. x[j] in y[0]",
    "f(x: [n]R) = sum i:2 * n. [exists k:n. i = 2 * k + 1] * (sum k:n. [i = 2 * k + 1] * x[k])",
    "f(x: [n]R, r: rel(n, m)) = sum i:m, j:m. [r(i, j)] * x[i]",
    "f(x: [n]R, r: rel(n, m)) = sum i:m, j:m. [r(i - 1, j) and (r(i, j) or i > j)] * x[i - 1]",
    "f(x: [n]R, r: rel(n, m)) = sum i:m. [exists j:m. r(i, j)] * x[i]",
    "f(x: [n - 3]R) = sum i:n - 3. x[n - 4 - i]",
    "f(x: [n - 3]R) = sum i:m. [i + 3 < n] * x[i]",
    "f(x: [5]R) = x[0] + x[4]",
    "f(x: [n]R) = sum i:0. x[7]",
    "f(x: [n]R) = [n > 7] * x[7]",
    "f(x: [n][m](R, [2]R)) = gen i:m. gen j:n. (fst(x[j, i]), snd(x[j, i])[1])",
    "f(x: [n]R) = let y = gen i:n. x[i] in gen i:n. [i + 1 < n] * y[i + 1]",
    "f(x: [n]R) = gen i:n. sum i:n. x[i]",
    "f(x: [n]R) = [n > 0] * (gen i:n. x[i])[0]",
    "f(x: [n]R) = gen i:n. [i != 0] * x[i - 1]",
    "f(x: [2 * n]R) = gen i:n. x[2 * i] - x[2 * i + 1]",
]


@pytest.mark.parametrize("text", FINE)
def test_an_access_that_stays_in_its_array_is_fine(text: str) -> None:
    f = parse(text)
    assert check(f) is f


MESSAGES = {
    "f(x: [n]R) = gen i:n. x[i - 1]": """<text>:1:23
  f(x: [n]R) = gen i:n. x[i - 1]
                        ^^^^^^^^
x[i - 1] reads x[-1] at i = 0, n = 1, but x has n = 1 elements
hint: a range that begins later: gen i:n - 1, with i + 1 for i
  or: a bracket hides it there: [0 <= i - 1] * x[i - 1]""",
    "f(x: [n]R, y: [m]R) = gen i:n. sum j:m. x[2 * i - j]": """<text>:1:41
  f(x: [n]R, y: [m]R) = gen i:n. sum j:m. x[2 * i - j]
                                          ^^^^^^^^^^^^
x[2*i - j] reads x[-1] at i = 0, j = 1, n = 1, m = 2, but x has n = 1 elements
hint: a bracket hides it there: [0 <= 2*i - j < n] * x[2*i - j]""",
    "f(x: [n]R) = x[0]": """<text>:1:14
  f(x: [n]R) = x[0]
               ^^^^
x[0] reads x[0] at n = 0, but x has n = 0 elements
hint: a longer array: x: [n + 1]R
  or: a bracket hides it there: [0 < n] * x[0]""",
    "f(x: [n][m]R) = sum i:n, j:m. x[i, j + 1]": """<text>:1:31
  f(x: [n][m]R) = sum i:n, j:m. x[i, j + 1]
                                ^^^^^^^^^^^
x[i, j + 1] reads x[0, 1] at i = 0, j = 0, n = 1, m = 1, but x[0] has m = 1 elements
hint: a shorter range: sum j:m - 1
  or: a longer array: x: [n][m + 1]R
  or: a bracket hides it there: [j + 1 < m] * x[i, j + 1]""",
    "f(x: [3]R) = x[3]": """<text>:1:14
  f(x: [3]R) = x[3]
               ^^^^
x[3] reads x[3], but x has 3 elements""",
    "f(x: [n](R, [1]R)) = gen i:n. snd(x[i])[n]": """<text>:1:31
  f(x: [n](R, [1]R)) = gen i:n. snd(x[i])[n]
                                ^^^^^^^^^^^^
snd(x[i])[n] reads snd(x[0])[1] at i = 0, n = 1, but snd(x[0]) has 1 element
hint: a bracket hides it there: [n < 1] * snd(x[i])[n]""",
    "f(x: [n - 3]R) = x[n - 4]": """<text>:1:18
  f(x: [n - 3]R) = x[n - 4]
                   ^^^^^^^^
x[n - 4] reads x[-1] at n = 3, but x has n - 3 = 0 elements
hint: a bracket hides it there: [0 <= n - 4] * x[n - 4]""",
    "f(x: [n]R) = gen i:n. sum i:3. x[i]": """<text>:1:32
  f(x: [n]R) = gen i:n. sum i:3. x[i]
                                 ^^^^
x[i] reads x[1] at i1 = 0, i = 1, n = 1, but x has n = 1 elements
hint: a shorter range: sum i:n
  or: a longer array: x: [n + 3]R
  or: a bracket hides it there: [i < n] * x[i]""",
    "f(x: [n]R) = gen i:n. (gen j:n. x[j])[i + 1]": """<text>:1:23
  f(x: [n]R) = gen i:n. (gen j:n. x[j])[i + 1]
                        ^^^^^^^^^^^^^^^^^^^^^^
(..)[i + 1] reads (..)[1] at i = 0, n = 1, but (..) has n = 1 elements
hint: a shorter range: gen i:n - 1
  or: a bracket hides it there: [i + 1 < n] * (..)[i + 1]""",
    "f(x: [n]R, r: rel(n, m)) = sum i:m, j:m. [r(i, j) or i = 0] * x[i]": """<text>:1:63
  f(x: [n]R, r: rel(n, m)) = sum i:m, j:m. [r(i, j) or i = 0] * x[i]
                                                                ^^^^
x[i] reads x[0] at i = 0, j = 0, n = 0, m = 1, but x has n = 0 elements
hint: where both have the same length, one size says so: x: [m]R
  or: a shorter range: sum i:n
  or: a bracket hides it there: [i < n] * x[i]""",
}


@pytest.mark.parametrize("text", MESSAGES)
def test_an_access_that_can_leave_its_array_is_an_error_with_a_witness(text: str) -> None:
    with pytest.raises(OutOfBounds) as caught:
        parse(text)
    assert str(caught.value) == MESSAGES[text]
    assert fails(unchecked(text), caught.value)


def unchecked(text: str) -> Function:
    """The program of a text, in bounds or not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tensorlang.surface.parse.check", lambda f: f)
        return parse(text)


def zeros(f: Function, sizes: dict[str, int]) -> dict[str, Any]:
    """Arguments at which every relation holds everywhere."""
    found: dict[str, Any] = {}
    values = {s: sizes[s.name] for s in f.sizes}
    for p in f.params:
        if isinstance(p, Relation):
            found[p.name] = np.ones([max(a.value(values), 0) for a in p.sizes], bool)
        else:
            found[p.name] = _zeros(p.type, values, ())
    return found


def _zeros(kind: Any, values: Any, outer: tuple[int, ...]) -> Any:
    if isinstance(kind, Array):
        return _zeros(kind.element, values, (*outer, max(kind.size.value(values), 0)))
    if kind is R:
        return np.zeros(outer)
    return _zeros(kind.first, values, outer), _zeros(kind.second, values, outer)


def fails(f: Function, error: OutOfBounds) -> bool:
    """Whether `f` does leave an array at the sizes of the error's witness; asserts that every parameter can have these
    sizes."""
    sizes = {s.name: error.witness[s.name] for s in f.sizes}
    assert all(size.value({s: sizes[s.name] for s in f.sizes}) >= 0 for size in declared_sizes(f))
    try:
        pointwise.meaning(f, sizes, zeros(f, sizes))
    except IndexError:
        return True
    return False


AFFINES = ["i", "j", "i + 1", "i - 1", "i + j", "i - j", "2*i", "2*i - j", "n - 1 - i", "j - n", "0", "n - 2", "m - j"]
CONDITIONS = [
    *(f"{a} {sign} {b}" for a in AFFINES[:10] for b in ("0", "n", "j", "m - 1") for sign in ("<", ">=", "=", "!=")),
    "0 <= i - 1 < n",
    "i = j or i > 2",
    "(i < j or j = 0) and i < m",
    "r(i, j)",
    "r(j, i) or i < j",
    "exists k:n. i = 2*k",
    "exists k:m. r(i, k) and k > j",
]
SIZES = ["n", "m", "n + 1", "n - 1", "3", "n + m - 1"]


@st.composite
def texts(draw: st.DrawFn) -> str:
    """A program with one access, in two binders and some brackets."""
    brackets = draw(st.lists(st.sampled_from(CONDITIONS), max_size=3))
    size, outer, inner = (draw(st.sampled_from(SIZES)) for _ in range(3))
    guard = "".join(f"[{p}] * " for p in brackets)
    at = draw(st.sampled_from(AFFINES))
    return f"f(x: [{size}]R, w: [n][m]R, r: rel(n, m)) = sum i:{outer}. sum j:{inner}. {guard}x[{at}]"


@settings(max_examples=150, deadline=None)
@given(texts())
def test_the_verdict_agrees_with_trying_all_small_sizes(text: str) -> None:
    f = unchecked(text)
    try:
        check(f)
    except OutOfBounds as error:
        assert fails(f, error)
        return
    for sizes in itertools.product(range(4), repeat=2):
        values = dict(zip((n.atoms[0], m.atoms[0]), sizes, strict=True))
        if all(size.value(values) >= 0 for size in declared_sizes(f)):
            assert not fails(f, OutOfBounds("", witness={a.name: k for a, k in values.items()}))


def test_random_programs_in_bounds_raise_no_alarm() -> None:
    for seed in range(150):
        check(random_function(random.Random(seed)))


def test_a_witness_names_every_index_and_size() -> None:
    with pytest.raises(OutOfBounds) as caught:
        parse("f(x: [n]R, y: [m]R) = gen i:n. sum i:m. x[i]")
    assert caught.value.witness == {"i1": 0, "i": 1, "n": 1, "m": 2}


def test_a_witness_prefers_sizes_that_are_not_zero() -> None:
    with pytest.raises(OutOfBounds) as caught:
        parse("f(x: [n]R, y: [m]R) = x[m]")
    assert caught.value.witness == {"n": 1, "m": 1}


def test_an_error_without_text_has_the_place_of_the_access() -> None:
    place = PythonLine("loss.py", 3)
    with pytest.raises(OutOfBounds) as caught:
        check(Function("f", (x,), Access(x, n, place)))
    assert caught.value.place is place


def test_one_index_bound_twice_in_a_nest_is_two() -> None:
    inner = Sum(I, n, access(x, i))
    check(Function("f", (x,), Gen(I, m - m + 3, Mul(inner, inner))))
    outside = bracket(less(i, n), Mul(inner, access(x, i)))
    check(Function("f", (x,), Gen(I, n + 3, outside)))
    with pytest.raises(OutOfBounds):
        check(Function("f", (x,), Gen(I, n, Sum(I, n + 1, access(x, i)))))
    with pytest.raises(OutOfBounds):
        check(Function("f", (x,), Gen(I, n, bracket(less(i, constant(0) + 1), Sum(I, n + 1, access(x, i))))))


def test_an_expression_shared_by_two_places_is_checked_in_both() -> None:
    e = access(x, i - 1)
    guarded = Sum(I, n, bracket(less(constant(0), i), e))
    check(Function("f", (x,), guarded))
    with pytest.raises(OutOfBounds):
        check(Function("f", (x,), Add(guarded, Sum(I, n, e), 1)))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            Var("y", R),
            "the variable y is used in f where nothing binds it\nhint: make it a parameter, or bind it with let",
        ),
        (
            access(x, i),
            "the index i is used in f where nothing binds it\nhint: bind it with gen i:n or sum i:n around this place",
        ),
        (
            Bracket(Related(Relation("r", (n,)), (n,)), number(1)),
            "the relation r is used in f where nothing binds it\nhint: make it a parameter",
        ),
        (
            Gen(I, n, Sum(J, i, number(1))),
            "the range of j must consist of sizes and integers, found i with the index i\n"
            "hint: a range over a size and a bracket for the rest, as in sum j:n. [j < i] * ...",
        ),
    ],
)
def test_what_is_not_bound_is_an_error(body: Expr, message: str) -> None:
    with pytest.raises(ScopeError) as caught:
        check(Function("f", (x,), body))
    assert str(caught.value) == message


def test_a_name_is_bound_only_inside_its_binder() -> None:
    y = Var("y", R)
    for escaping in (Add(Let(y, number(1), y), y, 1), Let(y, y, y), Mul(Sum(I, n, access(x, i)), access(x, i))):
        with pytest.raises(ScopeError):
            check(Function("f", (x,), escaping))


def test_two_parameters_need_two_names() -> None:
    with pytest.raises(ScopeError, match="f has two parameters called x"):
        check(Function("f", (x, Var("x", R)), x))


def test_an_expression_in_many_places_under_different_brackets_takes_no_time() -> None:
    e: Expr = Sum(K, n, access(x, atom_affine(K)))
    for depth in range(60):
        index = Index(f"i{depth}")
        e = Sum(index, n, Mul(e, Bracket(less(constant(0), atom_affine(index)), e)))
    check(Function("f", (x,), e))
    e = access(x, i - 1)
    for depth in range(60):
        index = Index(f"i{depth}")
        e = Sum(index, n, Mul(e, Bracket(less(constant(0), atom_affine(index)), e)))
    check(Function("f", (x,), Gen(I, n, bracket(less(constant(0), i), e))))


def test_thousands_of_different_accesses_are_checked() -> None:
    e: Expr = number(0)
    for k in range(3_000):
        a, b = Index("i"), Index("j")
        at = atom_affine(a) + atom_affine(b) + k
        guard = less(at, n)
        e = Let(Var("y", R), sums([(a, n), (b, m)], bracket(guard, access(x, at))), e)
    check(Function("f", (x, Var("w", Array(m, R))), e))


def test_a_nest_of_two_thousand_binders_and_brackets_is_checked() -> None:
    e: Expr = access(x, i)
    for depth in range(2_000):
        index = Index(f"i{depth}")
        e = Sum(index, n, Bracket(not_equal(atom_affine(index), i), e))
    check(Function("f", (x,), Gen(I, n, e)))


def test_an_error_deep_in_a_nest_has_a_witness() -> None:
    e: Expr = access(x, i - 1)
    for depth in range(2_000):
        e = Sum(Index(f"i{depth}"), n, e)
    with pytest.raises(OutOfBounds) as caught:
        check(Function("f", (x,), Gen(I, n, e)))
    assert caught.value.message == "x[i - 1] reads x[-1] at i = 0, n = 1, but x has n = 1 elements"


def test_brackets_too_involved_to_decide_are_an_error_that_says_so() -> None:
    names = [Index(f"i{k}") for k in range(12)]
    apart = [not_equal(atom_affine(a), atom_affine(b)) for a, b in itertools.combinations(names, 2)]
    ranges: list[tuple[Index, Affine]] = [(a, constant(11)) for a in names]
    body = sums(ranges, bracket(conjunction(apart), access(x, n)))
    with pytest.raises(LimitError, match="too involved to prove"):
        check(Function("f", (x,), body))


def test_a_binding_with_a_false_bracket_is_never_read() -> None:
    never: Predicate = conjunction([equal(i, constant(0)), at_most(constant(1), i)])
    check(Function("f", (x,), gen([(I, n)], bracket(never, access(x, i + 7)))))
    assert check(Function("f", (x,), gen([(I, n)], bracket(within(i + 7, n), access(x, i + 7)))))
