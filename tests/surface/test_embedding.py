"""The Python embedding: programs, names, sharing, calls between programs, and every message."""

# the programs here are written as users write them, lambdas and mistakes included
# ruff: noqa: PLC2401, PLC3002, PLW0108, RUF015, SIM300

from __future__ import annotations

import random
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.language.affine import Index
from tensorlang.language.function import Function
from tensorlang.language.functions import function as scalar
from tensorlang.language.grammar import Access, Bracket, Expr, Gen, Let, MakePair, Sum, Var, children
from tensorlang.language.predicates import free_atoms
from tensorlang.surface.share import share
from tests.support import pointwise
from tests.support.alike import alike
from tests.support.programs import random_arguments, random_function, random_sizes, relation_data

n, m = tl.sizes("n m")


def same(f: Function, text: str) -> None:
    """Assert that `f` is the program of `text`."""
    expected = tl.parse(text)
    assert str(f) == str(expected)
    assert alike(f, expected)


# -- programs


def test_the_loss_of_the_design_is_the_same_program_in_python_and_in_text() -> None:
    @tl.function
    def loss(x: tl.R[n + m - 1], w: tl.R[m], z: tl.R[n]):
        y = tl.gen(n, lambda i: tl.sum(m, lambda j: x[i + j] * w[j]))
        return tl.sum(n, lambda k: (y[k] - z[k]) ** 2)

    same(
        loss,
        """loss(x: [n + m - 1]R, w: [m]R, z: [n]R) =
             let y = gen i:n. sum j:m. x[i + j] * w[j] in sum k:n. (y[k] - z[k])^2""",
    )


def test_a_lambda_with_types_by_keyword_is_a_program() -> None:
    eye = tl.function(lambda x, v: tl.gen(n, lambda i: tl.gen(n, lambda j: (i == j) * x)), x=tl.R, v=tl.R[n])
    same(eye, "f(x: R, v: [n]R) = gen i:n, j:n. [i = j] * x")


def test_several_binders_come_as_a_tuple_of_sizes() -> None:
    f = tl.function(lambda x: tl.gen((n, m), lambda i, j: x[i, j]), x=tl.R[n, m])
    same(f, "f(x: [n][m]R) = gen i:n, j:m. x[i, j]")
    g = tl.function(lambda x: tl.sum((n, m), lambda i, j: x[i][j]), x=tl.R[n, m])
    same(g, "f(x: [n][m]R) = sum i:n, j:m. x[i, j]")


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (lambda x, y: x + y, "x + y"),
        (lambda x, y: x - y, "x - y"),
        (lambda x, y: 1 - x * y, "1 - x * y"),
        (lambda x, y: x / y, "x / y"),
        (lambda x, y: 1 / y + x, "1 / y + x"),
        (lambda x, y: -x + +y, "-x + y"),
        (lambda x, y: x**3 + y**1, "x^3 + y"),
        (lambda x, y: x**-2 + y**0, "1 / x^2 * 1 + 1 - 1 + 1"),
        (lambda x, y: x**0.5 * y ** Fraction(3, 2), "pow(x, 0.5) * pow(y, 3/2)"),
        (lambda x, y: 0.1 * x + Fraction(1, 3) * y, "0.1 * x + 1/3 * y"),
        (lambda x, y: np.float64(2.5) * x + np.int64(2) * y, "2.5 * x + 2 * y"),
        (lambda x, y: tl.exp(x) + tl.log(y) * tl.maximum(x, 0), "exp(x) + log(y) * max(x, 0)"),
        (lambda x, y: abs(x) + tl.call("sigmoid", y), "abs(x) + sigmoid(y)"),
        (lambda x, y: tl.let(x * y, lambda t: t + t), "let t = x * y in t + t"),
        (lambda x, y: (x, y), "(x, y)"),
        (lambda x, y: tl.fst(tl.pair(x, y)) * tl.snd((x, y)), "fst((x, y)) * snd((x, y))"),
    ],
)
def test_operators_are_those_of_the_text_syntax(body: Callable[..., Any], text: str) -> None:
    f = tl.function(body, x=tl.R, y=tl.R)
    if "1 - 1" in text:  # a negative power has no notation of its own
        assert str(f) == "f(x: R, y: R) = recip(x ^ 2) + 1"
    else:
        same(f, f"f(x: R, y: R) = {text}")


@pytest.mark.parametrize(
    ("pred", "text"),
    [
        (lambda i, j: i < j, "i < j"),
        (lambda i, j: i <= j, "i <= j"),
        (lambda i, j: i > j, "i > j"),
        (lambda i, j: i >= j + 1, "i >= j + 1"),
        (lambda i, j: i == 2 * j - 1, "i = 2*j - 1"),
        (lambda i, j: i != j, "i != j"),
        (lambda i, j: n - i > 3, "n - i > 3"),
        (lambda i, j: 3 - i == j, "3 - i = j"),
        (lambda i, j: -i + n == +j, "n - i = j"),
        (lambda i, j: (0 < i) & (i < j), "0 < i and i < j"),
        (lambda i, j: (i == 0) | (j == 0), "i = 0 or j = 0"),
        (lambda i, j: tl.exists(n, lambda k: i == 2 * k), "exists k:n. i = 2*k"),
        (lambda i, j: tl.exists((n, m), lambda k, q: i + j == k + q), "exists k:n, q:m. i + j = k + q"),
        (lambda i, j: (i < j) & True, "i < j"),
    ],
)
def test_conditions_are_those_of_the_text_syntax(pred: Callable[..., Any], text: str) -> None:
    f = tl.function(lambda x: tl.gen((n, m), lambda i, j: pred(i, j) * x[i, j]), x=tl.R[n, m])
    same(f, f"f(x: [n][m]R) = gen i:n, j:m. [{text}] * x[i, j]")


def test_a_condition_alone_is_a_number() -> None:
    f = tl.function(lambda x: tl.gen(n, lambda i: (i == 0) + x[i] - (i > 1)), x=tl.R[n])
    same(f, "f(x: [n]R) = gen i:n. [i = 0] + x[i] - [i > 1]")
    g = tl.function(lambda x: tl.gen((n, n), lambda i, j: i == j), x=tl.R[n])
    same(g, "f(x: [n]R) = gen i:n, j:n. [i = j]")


def test_a_bracket_is_over_the_whole_product_that_it_heads() -> None:
    f = tl.function(lambda x, y: tl.gen(n, lambda i: (i > 0) * y * x[i - 1] / y), x=tl.R[n], y=tl.R)
    same(f, "f(x: [n]R, y: R) = gen i:n. [i > 0] * y * x[i - 1] / y")


def test_a_data_relation_is_called_with_indices() -> None:
    f = tl.function(
        lambda r, x: tl.sum((n, m), lambda i, j: (r(i, j) & (i != j)) * x[i]), r=tl.relation(n, m), x=tl.R[n]
    )
    same(f, "f(r: rel(n, m), x: [n]R) = sum i:n, j:m. [r(i, j) and i != j] * x[i]")


def test_types_cover_pairs_and_arrays_of_them() -> None:
    f = tl.function(
        lambda p, q: tl.gen(n, lambda i: (tl.snd(p[i])[0] * q, tl.fst(p[i]))),
        p=tl.pair_type(tl.R, tl.R[3])[n],
        q=tl.R,
    )
    same(f, "f(p: [n](R, [3]R), q: R) = gen i:n. (snd(p[i])[0] * q, fst(p[i]))")
    assert repr(tl.R[n, 3]) == "[n][3]R"
    g = tl.function(lambda p: p, p=(tl.R, tl.R[n], tl.R))
    same(g, "f(p: (R, ([n]R, R))) = p")


def test_a_tuple_that_is_returned_comes_back_as_a_tuple() -> None:
    f = tl.function(lambda x: (x, x * 2, (x, x, 3)), x=tl.R)
    assert f.results == (None, None, (None, None, None))
    assert tl.evaluate(f, 2.0) == (2.0, 4.0, (2.0, 2.0, 3.0))
    assert tl.function(lambda x: (x, (x, x)), x=tl.R).results is None


def test_a_pair_unpacks_into_its_parts() -> None:
    def parts(p: Any) -> Any:
        a, b = p
        return b[0] - a

    f = tl.function(parts, p=tl.pair_type(tl.R, tl.R[2]))
    same(f, "parts(p: (R, [2]R)) = snd(p)[0] - fst(p)")


def test_annotations_that_are_strings_see_the_names_around_the_definition() -> None:
    k = tl.sizes("k")
    kind = tl.R[k]

    @tl.function
    def total(x: kind):
        return tl.sum(k, lambda i: x[i])

    same(total, "total(x: [k]R) = sum i:k. x[i]")


def test_types_given_to_the_decorator_stand_for_annotations() -> None:
    @tl.function(x=tl.R[n])
    def total(x):
        return tl.sum(n, lambda i: x[i])

    same(total, "total(x: [n]R) = sum i:n. x[i]")


def test_indices_of_the_same_name_are_never_confused() -> None:
    f = tl.function(lambda x: tl.gen(n, lambda i: (lambda outer: tl.sum(n, lambda i: x[outer] * x[i]))(i)), x=tl.R[n])
    assert tl.evaluate(f, np.array([1.0, 2.0])).tolist() == [3.0, 6.0]


def test_late_binding_is_avoided_by_defaults_as_everywhere_in_python() -> None:
    f = tl.function(lambda x: tuple(tl.sum(n, lambda i, k=k: x[i] * k) for k in (1, 2)), x=tl.R[n])
    assert tl.evaluate(f, np.ones(3)) == (3.0, 6.0)


def test_names_that_no_program_can_have_are_replaced() -> None:
    f = tl.function(lambda x: tl.gen(n, lambda λ: tl.let(x[λ], lambda let: let * 2)), x=tl.R[n])
    same(f, "f(x: [n]R) = gen i:n. let x1 = x[i] in x1 * 2")


# -- sharing


def test_a_value_used_twice_gets_a_let_and_its_python_name() -> None:
    def f(x: Any) -> Any:
        y = tl.exp(x)
        return y * y + y

    same(tl.function(f, x=tl.R), "f(x: R) = let y = exp(x) in y * y + y")


def test_a_value_made_outside_a_loop_is_computed_outside_of_it() -> None:
    def f(x: Any, a: Any) -> Any:
        c = tl.exp(a)
        return tl.gen(n, lambda i: c * x[i])

    same(
        tl.function(f, x=tl.R[n], a=tl.R),
        "f(x: [n]R, a: R) = let c = [0 < n] * exp(a) in gen i:n. c * x[i]",
    )


def test_a_value_made_inside_a_loop_stays_there() -> None:
    f = tl.function(lambda x, a: tl.gen(n, lambda i: tl.exp(a) * x[i]), x=tl.R[n], a=tl.R)
    same(f, "f(x: [n]R, a: R) = gen i:n. exp(a) * x[i]")


def test_a_shared_value_keeps_the_guard_of_its_uses() -> None:
    def f(x: Any) -> Any:
        def at(i: Any) -> Any:
            t = tl.log(x[i - 1])
            return x[i] + (i > 0) * t * t

        return tl.gen(n, at)

    program = tl.function(f, x=tl.R[n])
    same(program, "f(x: [n]R) = gen i:n. let t = [0 < i] * log(x[i - 1]) in x[i] + [0 < i] * t * t")
    assert np.allclose(tl.evaluate(program, np.array([2.0, 3.0])), [2.0, 3.0 + np.log(2.0) ** 2])


def test_the_guard_of_a_shared_value_is_the_union_over_its_uses() -> None:
    def f(x: Any) -> Any:
        def at(i: Any) -> Any:
            t = tl.exp(x[i])
            return (i < 2) * t + (i > 4) * (t * t)

        return tl.gen(n, at)

    same(
        tl.function(f, x=tl.R[n]),
        "f(x: [n]R) = gen i:n. let t = [i < 2 or i > 4] * exp(x[i]) in [i < 2] * t + [i > 4] * t * t",
    )


def test_an_unguarded_use_leaves_no_guard() -> None:
    def f(x: Any) -> Any:
        def at(i: Any) -> Any:
            t = tl.exp(x[i])
            return t + (i > 4) * t

        return tl.gen(n, at)

    same(tl.function(f, x=tl.R[n]), "f(x: [n]R) = gen i:n. let t = exp(x[i]) in t + [i > 4] * t")


def test_the_indices_between_a_let_and_its_uses_are_quantified_over() -> None:
    def f(x: Any, a: Any) -> Any:
        c = tl.log(a)
        return tl.gen((n, m), lambda i, j: (i == j) * (i > 2) * c), x

    same(
        tl.function(f, x=tl.R[n, m], a=tl.R),
        """f(x: [n][m]R, a: R) =
             let c = [4 <= m and 4 <= n] * log(a) in (gen i:n, j:m. [i = j and 2 < i] * c, x)""",
    )


def test_a_shared_value_may_hold_another() -> None:
    def f(x: Any) -> Any:
        a = tl.exp(x)
        b = a * a
        return b + b * a

    same(tl.function(f, x=tl.R), "f(x: R) = let a = exp(x) in let b = a * a in b + b * a")


def test_a_value_that_needs_a_let_variable_stays_in_its_scope() -> None:
    f = tl.function(lambda x: tl.let(x * x, lambda s: (lambda t: t * t)(tl.exp(s))), x=tl.R)
    same(f, "f(x: R) = let s = x * x in let t = exp(s) in t * t")


def test_views_are_not_named() -> None:
    def f(x: Any) -> Any:
        row = tl.gen(n, lambda j: x[0, j])
        return tl.sum(n, lambda j: row[j] * row[j])

    assert "let" not in str(tl.function(f, x=tl.R[1, n]))


def test_doubling_takes_linear_time_and_space() -> None:
    def f(x: Any) -> Any:
        e = x
        for _ in range(2000):
            e = e * e
        return e

    program = tl.function(f, x=tl.R)
    assert str(program).count("let") == 1999
    assert tl.cost(program) == 2000


def test_sharing_keeps_nested_sums_counted_together() -> None:
    def f(x: Any) -> Any:
        s = tl.sum(m, lambda j: (j > 1) * x[j])
        return tl.sum(n, lambda i: s) + s

    program = tl.function(lambda x, y: f(x), x=tl.R[m], y=tl.R[n])
    unshared = tl.parse("f(x: [m]R, y: [n]R) = (sum i:n, j:m. [j > 1] * x[j]) + sum j:m. [j > 1] * x[j]")
    for k in range(5):
        assert tl.cost(program, n=k, m=1) <= tl.cost(unshared, n=k, m=1)


@pytest.mark.parametrize("block", range(4))
def test_sharing_keeps_the_meaning_and_never_raises_the_cost(block: int) -> None:
    for seed in range(60 * block, 60 * block + 60):
        rng = random.Random(seed)
        f = random_function(rng, scalars="exact")
        body = rng.choice([f.body, MakePair(f.body, f.body), MakePair(f.body, MakePair(f.body, f.body))])
        before = Function(f.name, f.params, body)
        made_under = {e: tuple(free) for e, free in _free(body).items() if rng.random() < 0.7}
        after = Function(f.name, f.params, share(body, made_under=made_under))
        for _ in range(2):
            sizes = random_sizes(f, rng)
            values = random_arguments(f, rng, sizes)
            expected, found = (pointwise.meaning(g, sizes, values) for g in (before, after))
            assert all(np.array_equal(a, b) for a, b in zip(_flat(expected), _flat(found), strict=True)), seed
            data = relation_data(f, values)
            assert pointwise.cost(after, sizes, data) <= pointwise.cost(before, sizes, data), seed


def _flat(value: Any) -> list[Any]:
    return [leaf for part in value for leaf in _flat(part)] if isinstance(value, tuple) else [np.asarray(value)]


def _free(e: Expr) -> dict[Expr, frozenset[Index | Var]]:
    """The indices and variables that occur free in each node under `e`."""
    found: dict[Expr, frozenset[Index | Var]] = {}
    stack = [(e, False)]
    while stack:
        node, finished = stack.pop()
        if not finished:
            stack.append((node, True))
            stack += [(part, False) for part in children(node) if part not in found]
            continue
        free = frozenset[Index | Var]().union(*(found[part] for part in children(node)))
        match node:
            case Var():
                free = frozenset([node])
            case Access(_, at, _):
                free |= set(at.indices)
            case Bracket(p, _):
                free |= {a for a in free_atoms(p) if isinstance(a, Index)}
            case Gen(i, _, _) | Sum(i, _, _):
                free -= {i}
            case Let(x, value, body):
                free = found[value] | (found[body] - {x})
            case _:
                pass
        found[node] = free
    return found


# -- calls between programs


def test_a_program_called_with_terms_is_put_in_place() -> None:
    dot = tl.function(lambda a, b: tl.sum(n, lambda i: a[i] * b[i]), a=tl.R[n], b=tl.R[n])
    f = tl.function(lambda x, w: dot(x, b=tl.gen(m, lambda j: w[j] * 2)), x=tl.R[m], w=tl.R[m + 1])
    same(
        f,
        """f(x: [m]R, w: [m + 1]R) =
             let b = gen j:m. w[j] * 2 in sum i:m. x[i] * b[i]""",
    )


def test_a_program_can_be_called_on_its_own_result() -> None:
    square = tl.function(lambda x: x * x, x=tl.R)
    f = tl.function(lambda y: square(square(square(y))), y=tl.R)
    assert tl.evaluate(f, 3.0) == 3.0**8
    assert tl.cost(f) == 3


def test_sizes_are_read_off_the_types_of_the_arguments() -> None:
    a, b, c = tl.sizes("a b c")
    f = tl.function(
        lambda x, y: tl.gen(a, lambda i: x[i] * tl.sum(b, lambda j: y[j])), x=tl.R[2 * a + b], y=tl.R[a + b]
    )
    g = tl.function(lambda u, v: f(u, v), u=tl.R[3 * c + 4], v=tl.R[2 * c + 3])
    same(
        g,
        """f(u: [3*c + 4]R, v: [2*c + 3]R) =
             gen i:c + 1. u[i] * (sum j:c + 2. v[j])""",
    )


def test_relations_and_pairs_are_passed_on() -> None:
    inner = tl.function(
        lambda r, p: tl.sum((n, n), lambda i, j: (r(i, j) | (i == j)) * tl.fst(p)[i]),
        r=tl.relation(n, n),
        p=tl.pair_type(tl.R[n], tl.R),
    )
    f = tl.function(lambda s, x: inner(s, (x, 1)), s=tl.relation(m, m), x=tl.R[m])
    data = np.array([[False, True], [False, False]])
    assert tl.evaluate(f, data, np.array([1.0, 2.0])) == 4.0


def test_a_program_that_returns_a_tuple_gives_a_tuple_of_terms() -> None:
    three = tl.function(lambda x: (x, x * x, tl.exp(x)), x=tl.R)

    def use(x: Any) -> Any:
        a, b, c = three(x + 1)
        return a + b + c

    assert tl.evaluate(tl.function(use, x=tl.R), 0.0) == pytest.approx(2.0 + np.e)


def test_a_size_may_be_given_by_name() -> None:
    f = tl.function(lambda x: tl.gen(n, lambda i: x[i]), x=tl.R[n])
    g = tl.function(lambda x: f(x, n=m), x=tl.R[m])
    same(g, "f(x: [m]R) = gen i:m. x[i]")


# -- scalar functions of the user


def test_a_scalar_function_of_ones_own_is_used_and_differentiated_like_any() -> None:
    cube = tl.scalar_function(
        "cube_for_test", derivative=lambda x, y: 3 * x**2, evaluate=lambda x: x**3, source="{0} ** 3", cost=2
    )
    f = tl.function(lambda x: cube(x) + 1, x=tl.R)
    same(f, "f(x: R) = cube_for_test(x) + 1")
    x, y, t = (Var(name, f.type) for name in "xyt")
    (component,) = scalar("cube_for_test").transpose((x,), y, t)
    g = Function("g", (x, y, t), component)
    assert tl.evaluate(g, 2.0, 8.0, 1.0) == 12.0


def test_a_scalar_function_of_two_arguments_gives_two_partial_derivatives() -> None:
    tl.scalar_function(
        "first_for_test", arity=2, derivative=lambda x, y, value: (1, None), evaluate=lambda x, y: x, source="{0}"
    )
    xs, t = (Var("x", tl.R.type), Var("y", tl.R.type)), Var("t", tl.R.type)
    assert scalar("first_for_test").transpose(xs, xs[0], t) == (t, None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "exp"}, "a scalar function called exp is registered already"),
        ({"name": "no name"}, "needs a name, found 'no name'"),
        ({"derivative": lambda x, y: (x, y)}, "its derivative has 2 components"),
        ({"derivative": lambda x, y: x * x * x * x}, "may cost at most 3 for the bound of 4 to hold"),
        ({"derivative": lambda x, y: "x"}, "expected a number, a term or a tuple of them, found 'x'"),
        ({"source": "{1}"}, "is a template for 1 argument, found '{1}'"),
        ({"latex": "{"}, "is a template for 1 argument, found '{'"),
        ({"source": "jnp.exp({0}) + 1"}, "evaluate gives"),
        ({"source": "jnp.exp({0})", "derivative": lambda x, y: y + x}, "its derivative by x0 is"),
        ({"source": "jnp.exp({0})", "cost": 2}, "is said to cost 2, and its source has 1 operations"),
        ({"source": "jnp.exp({0})", "evaluate": lambda x: np.exp(x).sum()}, "evaluate gives"),
        ({"source": "jnp.exp({0})", "evaluate": lambda x: np.stack([x, x])}, "gives an array of shape (2, 64)"),
    ],
)
def test_a_scalar_function_that_breaks_the_rules_is_refused(options: dict[str, Any], message: str) -> None:
    usual = {"name": "bad_for_test", "derivative": lambda x, y: y, "evaluate": np.exp, "source": "{0}"}
    with pytest.raises(tl.TensorlangError, match=re.escape(message)) as caught:
        tl.scalar_function(**{**usual, **options})
    assert "test_embedding.py" in str(caught.value.place)


# -- errors


def define(body: Callable[..., Any], **types: Any) -> Function:
    return tl.function(body, **types)


VECTOR = {"x": tl.R[n]}
NUMBER = {"x": tl.R}


@pytest.mark.parametrize(
    ("body", "types", "error", "message", "hint"),
    [
        (lambda x: tl.gen(n, lambda i: (0 <= i < n) * x[i]), VECTOR, tl.TypeMismatch,
         "a condition is neither true nor false", "write (0 <= i) & (i < n) instead of 0 <= i < n"),
        (lambda x: tl.gen(n, lambda i: ((0 <= i) and (i < n)) * x[i]), VECTOR, tl.TypeMismatch,
         "a condition is neither true nor false", "&, | and ~ instead of and"),
        (lambda x: tl.gen(n, lambda i: (0 <= i & i < n) * x[i]), VECTOR, tl.TypeMismatch,
         "& and | combine conditions, found the index expression i", "bind tighter"),
        (lambda x: tl.gen(n, lambda i: ((i < n) & x[i]) * 1), VECTOR, tl.TypeMismatch,
         "the other side of & must be a condition, found a value of type R", "bind tighter"),
        (lambda x: tl.gen(n, lambda i: ((i == 0) == 0) * x[i]), VECTOR, tl.TypeMismatch,
         "a condition is not compared", "write (i == j) & (j == k)"),
        (lambda x: [a for a in x][0], VECTOR, tl.TypeMismatch,
         "an array can't be iterated over, found a value of type [n]R", "tl.gen(n"),
        (lambda x: float(x), NUMBER, tl.TypeMismatch, "a term has no value while", "define the program"),
        (lambda x: x if x else 0, NUMBER, tl.TypeMismatch, "a term has no value while", "define the program"),
        (lambda x: max(x, 0), NUMBER, tl.TypeMismatch, "a condition is neither true nor false", "tl.maximum"),
        (lambda x: (x == tl.pair(x, x)) * x, NUMBER, tl.TypeMismatch, "a comparison takes numbers, found a pair", None),
        (lambda x: x[x[0]], VECTOR, tl.TypeMismatch,
         "an index is made of indices, sizes, integers, + and -, found a value of type R", None),
        (lambda x: [0, 1][x[0]], VECTOR, tl.TypeMismatch, "found a value of type R", None),
        (lambda x: x[1:], VECTOR, tl.TypeMismatch, "a slice is not an index", "tl.gen(n, lambda i: x[i + 1])"),
        (lambda x: x[True], VECTOR, tl.TypeMismatch, "an index is made of indices", None),
        (lambda x: tl.gen(n, lambda i: [1, 2][i]), VECTOR, tl.TypeMismatch, "i has no value while", "x[i + 1]"),
        (lambda x: [x for _ in range(n)], VECTOR, tl.TypeMismatch, "n has no value while", "loop with tl.gen"),
        (lambda x: tl.gen(n, lambda i: x[2 // i]), VECTOR, tl.TypeMismatch, "is not divided by an index", "i // 2"),
        (lambda x: tl.gen(n, lambda i: x[i * i]), VECTOR, tl.TypeMismatch, "i * i is not affine", None),
        (lambda x: tl.gen(n, lambda i: x[i + 0.5]), VECTOR, tl.TypeMismatch, "or an integer, found 0.5", None),
        (lambda x: tl.gen(n, lambda i: tl.sum(i, lambda j: x[j])), VECTOR, tl.TypeMismatch,
         "a size is made of size names and integers, found the index i", None),
        (lambda x: tl.gen(n, lambda i, j: x[i]), VECTOR, tl.TypeMismatch,
         "gen needs a function of 1 parameter, found one of 2", None),
        (lambda x: tl.sum((n, n), lambda i: x[i]), VECTOR, tl.TypeMismatch,
         "sum needs a function of 2 parameters, found one of 1", None),
        (lambda x: tl.gen(n, x), VECTOR, tl.TypeMismatch, "found a value of type [n]R", "such as lambda i"),
        (lambda x: tl.sum(n, lambda i: x), VECTOR, tl.TypeMismatch,
         "the body of sum must be a number, found a value of type [n]R", None),
        (lambda x: tl.gen(n, lambda i: tl.exists(n, lambda k: x[k]) * 1), VECTOR, tl.TypeMismatch,
         "the body of exists must be a condition, found a value of type R", None),
        (lambda x: x + 1, VECTOR, tl.TypeMismatch, "+ takes numbers, found an array of type [n]R", "tl.gen(n"),
        (lambda x: tl.exp(x), VECTOR, tl.TypeMismatch, "an argument of exp must be a number", None),
        (lambda x: x[0], NUMBER, tl.TypeMismatch, "only an array has elements", None),
        (lambda x: tl.fst(x), NUMBER, tl.TypeMismatch, "only a pair has two parts, found a value of type R", None),
        (lambda x: [*x], NUMBER, tl.TypeMismatch, "only a pair has two parts, found a value of type R", None),
        (lambda x: tl.pair(x), NUMBER, tl.TypeMismatch, "a pair has at least two parts, found 1", None),
        (lambda x: x * float("nan"), NUMBER, tl.TypeMismatch, "a constant is a finite number, found nan", None),
        (lambda x: x * np.ones(3), NUMBER, tl.TypeMismatch, "found a Python ndarray", "make it a parameter"),
        (lambda x: np.ones(3) * x, NUMBER, tl.TypeMismatch, "found a Python ndarray", "make it a parameter"),
        (lambda x: [x, x], NUMBER, tl.TypeMismatch, "expected a number, a term or a tuple", None),
        (lambda x: x + None, NUMBER, tl.TypeMismatch, "found None", None),
        (lambda x: tl.call("foo", x), NUMBER, tl.ScalarFunctionError, "no scalar function is called foo", None),
        (lambda x: tl.maximum(x), NUMBER, tl.TypeMismatch, "max takes 2 arguments, found 1", None),
        (lambda x: x[n], VECTOR, tl.OutOfBounds, "x[n] reads", None),
        (lambda r, x: r(0) * x, {"r": tl.relation(n, m), "x": tl.R}, tl.TypeMismatch,
         "r relates 2 indices, found 1", None),
        (lambda r, x: r * x, {"r": tl.relation(n, m), "x": tl.R}, tl.TypeMismatch,
         "found the relation r, not applied to indices", None),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_where_it_is_written(
    body: Callable[..., Any], types: dict[str, Any], error: type[tl.TensorlangError], message: str, hint: str | None
) -> None:
    with pytest.raises(error, match=re.escape(message)) as caught:
        define(body, **types)
    place = caught.value.place
    assert place is not None and place.filename == __file__
    assert hint is None or hint in str(caught.value.hint)


@pytest.mark.parametrize(
    ("body", "types", "error", "message"),
    [
        (lambda x: None, NUMBER, tl.TypeMismatch, "the function returns nothing"),
        (lambda x: x, {}, tl.TypeMismatch, "the parameter x has no type"),
        (lambda x: x, {"x": tl.R, "y": tl.R}, tl.ScopeError, "a type is given for y, which is no parameter"),
        (lambda x: x, {"x": float}, tl.TypeMismatch, "the type of the parameter x must be one such as tl.R"),
        (lambda let: let, {"let": tl.R}, tl.ScopeError, "a parameter can't be called let"),
        (lambda exp: exp, {"exp": tl.R}, tl.ScopeError, "a parameter can't be called exp"),
        (lambda n: n[0], {"n": tl.R[n]}, tl.ScopeError, "n is both a parameter and a size"),
        (lambda x=1: x, NUMBER, tl.TypeMismatch, "the parameter x of a program must be a plain one"),
        (lambda *x: x[0], NUMBER, tl.TypeMismatch, "the parameter x of a program must be a plain one"),
    ],
)
def test_a_definition_that_makes_no_sense_is_refused(
    body: Callable[..., Any], types: dict[str, Any], error: type[tl.TensorlangError], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)) as caught:
        tl.function(body, **types)
    assert caught.value.place.line == body.__code__.co_firstlineno


@pytest.mark.parametrize("names", ["n let", "2n", "n exp", "  "])
def test_sizes_need_names_of_their_own(names: str) -> None:
    with pytest.raises(tl.ScopeError):
        tl.sizes(names)


def test_an_error_shows_the_line_of_the_user() -> None:
    with pytest.raises(tl.TypeMismatch) as caught:
        define(lambda x: x[0] + x, x=tl.R[n + 1])
    assert "define(lambda x: x[0] + x, x=tl.R[n + 1])" in str(caught.value)


def test_an_index_is_refused_after_its_scope_has_ended() -> None:
    def leak(x: Any) -> Any:
        kept: list[Any] = []
        tl.gen(n, lambda i: kept.append(i) or x[i])
        return x[kept[0]]

    with pytest.raises(tl.ScopeError, match="i is an index whose scope has ended"):
        define(leak, x=tl.R[n])


def test_a_value_is_refused_after_the_scope_of_its_index_has_ended() -> None:
    def leak(x: Any) -> Any:
        kept: list[Any] = []
        tl.gen(n, lambda i: kept.append(x[i]) or x[i])
        return kept[0]

    with pytest.raises(tl.ScopeError, match="i is an index whose scope has ended"):
        define(leak, x=tl.R[n])


def test_a_let_variable_is_refused_after_its_scope_has_ended() -> None:
    def leak(x: Any) -> Any:
        kept: list[Any] = []
        tl.let(x * x, lambda t: kept.append(t) or t)
        return kept[0] + 1

    with pytest.raises(tl.ScopeError, match="t is a variable whose scope has ended"):
        define(leak, x=tl.R)


def test_a_value_of_one_program_is_refused_in_another() -> None:
    def outer(x: Any) -> Any:
        return define(lambda y: y * x, y=tl.R)(x)

    with pytest.raises(tl.ScopeError, match="x is a parameter of outer and can't be used inside f"):
        define(outer, x=tl.R)


def test_a_value_is_refused_after_its_program_is_defined() -> None:
    kept: list[Any] = []
    define(lambda x: kept.append(x) or x, x=tl.R)
    with pytest.raises(tl.ScopeError, match="x is a parameter of f and can't be used outside of it"):
        kept[0] + 1


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda g, x, y: g(x, y), tl.SizeMismatch, "the argument y of f must have size n = m, found m + 1"),
        (lambda g, x, y: g(x), tl.ArgumentError, "f is not given its parameter y"),
        (lambda g, x, y: g(x, y, y), tl.ArgumentError, "f has 2 parameters, found 3 arguments"),
        (lambda g, x, y: g(x, y, z=y), tl.ArgumentError, "f has no parameter 'z'"),
        (lambda g, x, y: g(x, x=y), tl.ArgumentError, "f is given x twice"),
        (lambda g, x, y: g(x, y[0]), tl.TypeMismatch, "the argument y of f must have type [n]R, found R"),
        (lambda g, x, y: g(x, x, n=m + 1), tl.SizeMismatch, "found"),
    ],
)
def test_a_call_that_does_not_fit_is_refused(call: Any, error: type[tl.TensorlangError], message: str) -> None:
    g = tl.function(lambda x, y: tl.gen(n, lambda i: x[i] * y[i]), x=tl.R[n], y=tl.R[n])
    with pytest.raises(error, match=re.escape(message)) as caught:
        define(lambda x, y: call(g, x, y), x=tl.R[m], y=tl.R[m + 1])
    assert caught.value.place.filename == __file__


def test_a_size_that_is_no_integer_is_refused() -> None:
    half = tl.function(lambda x: tl.gen(n, lambda i: x[2 * i]), x=tl.R[2 * n])
    with pytest.raises(tl.SizeMismatch, match=re.escape("the size n of f would have to be (m) / 2")):
        define(lambda x: half(x), x=tl.R[m])
