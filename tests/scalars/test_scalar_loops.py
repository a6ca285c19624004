"""Functions of numbers with data-dependent loops: values, derivatives, and their cost on each path."""

from __future__ import annotations

import math
import random
import re
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import tensorlang as tl
from benchmarks import control
from proofs.checker.certificate import check
from tensorlang.language.grammar import Var
from tensorlang.language.types import R
from tensorlang.lowering.arrays.ir import Block
from tensorlang.lowering.emit.python import lines
from tensorlang.lowering.emit.scalars import definition
from tensorlang.scalars.black_box import derived, differentiable, unbounded
from tensorlang.scalars.code import Code, numbered
from tensorlang.scalars.count import path_cost, run
from tensorlang.surface.loops import read
from tensorlang.surface.scalar import ScalarCode
from tensorlang.surface.terms import Term
from tests.support.real_functions import FUNCTIONS, scale_of
from tests.support.scalar_functions import random_function, sigmoid

n = tl.sizes("n")
STEP = 1e-6


def code_of(function: ScalarCode, bound: int | None = None) -> Code:
    """The code of a function, all of whose parameters are values of a program."""
    params = function.body.__code__.co_varnames[: function.body.__code__.co_argcount]
    return read(function, {p: Term(Var(p, R)) for p in params}, bound).code


def agree(seed: int) -> float | None:
    """Check one random function at some points. Return the largest ratio of costs seen, None if it was refused."""
    source, body = random_function(seed)
    try:
        code = numbered(code_of(tl.scalar(body), 50))
    except tl.TypeMismatch as error:
        # the only reason is a name that has no value on some path
        assert "no value on every path" in str(error), source
        return None
    rng = random.Random(seed)
    forward, backward = derived(code, "dual"), derived(code, "reverse")
    worst = 0.0
    for _ in range(3):
        point = [*(rng.uniform(-2, 2) for _ in range(3)), rng.randint(0, 4)]
        named = dict(zip("abck", point, strict=True))
        given = [named[p] for p in code.params]
        try:
            true = float(body(*point))
        except (OverflowError, UnboundLocalError):
            continue
        if not math.isfinite(true) or abs(true) > 1e8:
            continue
        value, dual, adjoint = run(code, given), run(forward, given), run(backward, given)
        assert value.results[0] == pytest.approx(true, rel=1e-9), (source, point)
        assert dual.results == pytest.approx(adjoint.results, rel=1e-7, abs=1e-9), (source, point)
        visits = {**value.visits, 0: 1}
        spent = [sum(k * visits.get(s, 0) for s, k in path_cost(c).items()) for c in (code, forward, backward)]
        assert spent[:2] == [value.operations, dual.operations] and spent[2] >= adjoint.operations, (source, point)
        ends = len(given) + 1
        worst = max(worst, (adjoint.operations + ends) / (value.operations + ends))
        for k, p in enumerate(differentiable(code)):
            at = {**named}
            sides = []
            for sign in (1, -1):
                at[p] = named[p] + sign * STEP
                sides.append(float(body(*at.values())))
            slopes = [(sides[0] - true) / STEP, (true - sides[1]) / STEP]
            if abs(slopes[0] - slopes[1]) < 1e-3 * (1 + abs(slopes[0])) and abs(slopes[0]) < 1e4:
                assert dual.results[1 + k] == pytest.approx(sum(slopes) / 2, rel=1e-3, abs=1e-3), (source, point, p)
    assert worst <= 4, source
    return worst


def test_values_duals_adjoints_and_differences_of_random_functions_agree_at_no_more_than_4_times_the_cost() -> None:
    found = [agree(seed) for seed in range(100)]
    assert sum(x is not None for x in found) > 60


@pytest.mark.slow
def test_they_agree_for_10_000_random_functions(share: int) -> None:
    found = [agree(seed) for seed in range(10_000 // share)]
    assert sum(x is not None for x in found) > 6_000 // share
    assert max(x for x in found if x is not None) < 4


@pytest.mark.parametrize(("function", "domain"), FUNCTIONS, ids=lambda x: getattr(x, "name", None))
def test_functions_of_real_code_have_their_values_and_derivatives(function: Any, domain: Any) -> None:
    code = code_of(function, function.bound)
    plan = function.plan
    assert plan.code.params == code.params
    modes = ["dual"] if unbounded(code.body) else ["dual", "reverse"]
    for point in scale_of(function, domain):
        given = [float(x) for x in point]
        true = float(function.body(*given))
        steps = [1e-6 * max(abs(x), 1e-6) if abs(x) < 1e-2 else 1e-6 * max(1.0, abs(x)) for x in given]
        for mode in modes:
            found = run(derived(code, mode), given)
            assert found.results[0] == pytest.approx(true, rel=1e-9, abs=1e-12)
            for k in range(len(given)):
                sides = []
                for sign in (1, -1):
                    moved = list(given)
                    moved[k] += sign * steps[k]
                    sides.append(float(function.body(*moved)))
                ahead, behind = (sides[0] - true) / steps[k], (true - sides[1]) / steps[k]
                if abs(ahead - behind) <= 1e-3 * (abs(ahead) + 1e-2):  # no kink in between
                    assert found.results[1 + k] == pytest.approx((ahead + behind) / 2, rel=2e-4, abs=1e-5), mode


def test_there_are_50_of_them() -> None:
    assert len(FUNCTIONS) >= 50


# in programs


@tl.scalar(bound=60)
def newton(a: Any, x: Any) -> Any:
    """The square root of a."""
    while abs(x * x - a) > 1e-6:
        x = 0.5 * (x + a / x)
    return x


@tl.scalar
def halves(x: Any) -> Any:
    """How often x is halved until it is at most 1, and the remainder."""
    count, left = 0, x
    while left > 1:
        left /= 2
        count += 1
    return count, left


@tl.scalar
def gcd(a: int, b: int) -> Any:
    return a if b == 0 else gcd(b, a % b)


@tl.scalar
def collatz(k: int) -> Any:
    steps = 0
    while k != 1:
        k = k // 2 if k % 2 == 0 else 3 * k + 1
        steps += 1
    return steps


@tl.scalar
def power_loop(x: Any, k: int) -> Any:
    r = 1.0
    while k > 0:
        k -= 1
        r *= x
    return r


@tl.scalar(bound=3)
def short(x: Any) -> Any:
    while x > 1:
        x = x / 2
    return x


POINTS = np.array([1.5, 2.0, 9.0])


def program(f: Any) -> tl.Function:
    return tl.function(lambda x: tl.gen(n, lambda i: f(x[i])), x=tl.R[n])


def roots() -> tl.Function:
    return tl.function(lambda x, s: tl.sum(n, lambda i: newton(x[i], s) ** 3 * x[i]), x=tl.R[n], s=tl.R)


def test_gradients_of_programs_with_loops_are_those_of_the_loops() -> None:
    f = roots()
    dx, ds = tl.grad(f)(POINTS, 1.0)
    np.testing.assert_allclose(dx, 2.5 * POINTS**1.5, rtol=1e-4)
    np.testing.assert_allclose(ds, 0, atol=1e-2)
    np.testing.assert_allclose(tl.evaluate(tl.grad(f, wrt="x"), POINTS, 1.0), 2.5 * POINTS**1.5, rtol=1e-4)


def test_second_derivatives_of_loops_are_right() -> None:
    f = tl.function(lambda x: tl.sum(n, lambda i: newton(x[i], 1.0) ** 3), x=tl.R[n])
    np.testing.assert_allclose(np.diag(tl.hessian(f)(POINTS)), 0.75 / np.sqrt(POINTS), rtol=1e-2)
    np.testing.assert_allclose(tl.hvp(f)(POINTS, np.ones(3)), 0.75 / np.sqrt(POINTS), rtol=1e-2)


def test_loops_run_under_jit_vmap_and_grad_of_jax() -> None:
    import jax
    import jax.numpy as jnp

    f = roots()
    g = tl.grad(f, wrt="x")
    want = 2.5 * POINTS**1.5
    np.testing.assert_allclose(jax.jit(lambda x: g(x, 1.0))(POINTS), want, rtol=1e-4)
    both = jax.vmap(lambda x: g(x, 1.0))(jnp.stack([POINTS, POINTS + 1]))
    np.testing.assert_allclose(both, [want, 2.5 * (POINTS + 1) ** 1.5], rtol=1e-4)
    np.testing.assert_allclose(jax.grad(lambda x: tl.to_jax(f)(x, 1.0))(POINTS), want, rtol=1e-4)


def test_a_value_and_its_derivatives_are_one_loop_in_the_code() -> None:
    code = tl.lower(tl.adjoint(roots())).source
    assert code.count("_newton_with_derivatives(a, x):") <= 1
    f = tl.function(lambda x, y: tl.gen(n, lambda i: newton(x[i], y[i]) * x[i]), x=tl.R[n], y=tl.R[n])
    code = tl.lower(tl.adjoint(f)).source
    calls = [line for line in code.splitlines() if "_with_derivatives(" in line and not line.startswith("def")]
    assert len(calls) == 1


@pytest.mark.parametrize("size", [0, 1, 1001])
def test_loops_run_on_arrays_of_any_size(size: int) -> None:
    x = np.linspace(0.5, 30, size)
    np.testing.assert_allclose(program(lambda v: halves(v)[1])(x), [halves(float(v))[1] for v in x], rtol=1e-6)
    np.testing.assert_allclose(
        tl.adjoint(program(lambda v: halves(v)[1]))(x, np.ones(size)),
        [0.5 ** halves(float(v))[0] for v in x],
        rtol=1e-6,
    )


def test_results_of_one_function_are_several() -> None:
    f = program(lambda v: halves(v)[0] * halves(v)[1])
    np.testing.assert_allclose(f(POINTS), [0.75, 1.0, 4 * 9 / 16])
    np.testing.assert_allclose(tl.adjoint(f)(POINTS, np.ones(3)), [0.5, 0.5, 4 / 16])


def test_whole_numbers_loop_without_derivatives() -> None:
    f = tl.function(lambda a, b: gcd(a, b) * 1.0, a=tl.R, b=tl.R)
    assert f(12.0, 18.0) == 6
    np.testing.assert_array_equal(program(lambda v: collatz(v) * 1.0)(np.array([6.0, 27.0, 1.0])), [8, 111, 0])


def test_an_index_is_a_whole_number_of_a_loop() -> None:
    f = tl.function(lambda x: tl.gen(n, lambda i: power_loop(x[i], i)), x=tl.R[n])
    np.testing.assert_allclose(f(POINTS), POINTS ** np.arange(3), rtol=1e-6)
    np.testing.assert_allclose(tl.adjoint(f)(POINTS, np.ones(3)), [0, 1, 18], rtol=1e-6)


def test_a_loop_whose_end_is_known_is_written_into_the_program() -> None:
    f = tl.function(lambda x: tl.gen(n, lambda i: power_loop(x[i], 3)), x=tl.R[n])
    assert "power_loop" not in str(f)
    np.testing.assert_allclose(f(POINTS), POINTS**3, rtol=1e-6)


def test_terms_that_a_loop_closes_over_have_their_derivatives() -> None:
    def build(w: Any, x: Any) -> Any:
        @tl.scalar
        def decay(y: Any) -> Any:
            while y > 1:
                y = y * w
            return y

        return tl.gen(n, lambda i: decay(x[i]))

    f = tl.function(build, w=tl.R, x=tl.R[n])
    np.testing.assert_allclose(f(0.5, np.array([5.0, 0.3, 1.2])), [0.625, 0.3, 0.6], rtol=1e-6)
    dw, dx = tl.adjoint(f)(0.5, np.array([5.0, 0.3, 1.2]), np.ones(3))
    np.testing.assert_allclose(dw, 3 * 0.25 * 5 + 1.2, rtol=1e-6)
    np.testing.assert_allclose(dx, [0.125, 1, 0.5], rtol=1e-6)


def test_more_trips_than_the_bound_give_nan_in_value_and_derivative_and_an_error_under_checkify() -> None:
    import jax
    from jax.experimental import checkify

    f = program(short)
    x = np.array([4.0, 100.0])
    np.testing.assert_array_equal(f(x), [1, np.nan])
    np.testing.assert_array_equal(tl.evaluate(f, x), [1, np.nan])
    for mode in ("dual", "reverse"):
        g = tl.adjoint(program(tl.scalar(bound=3, mode=mode)(short.body)))
        np.testing.assert_array_equal(g(x, np.ones(2)), [0.25, np.nan])
    error, _ = checkify.checkify(jax.jit(f), errors=checkify.float_checks)(x)
    assert error.get() is not None


def test_the_side_of_a_condition_that_is_not_taken_does_not_loop() -> None:
    f = tl.function(lambda x: tl.gen(n, lambda i: tl.where(x[i] > 0, newton(x[i], 1.0), 2 * x[i])), x=tl.R[n])
    x = np.array([4.0, -1.0, 0.0])
    np.testing.assert_allclose(f(x), [2, -2, 0], rtol=1e-5)
    np.testing.assert_allclose(tl.adjoint(f)(x, np.ones(3)), [0.25, 2, 2], rtol=1e-3)


def test_the_plan_says_how_a_loop_is_differentiated_and_what_a_path_costs() -> None:
    assert newton.plan.mode == "reverse" and newton.plan.stored == 120
    assert tl.scalar(bound=60, mode="dual")(newton.body).plan.stored == 0
    assert "no bound" in str(tl.scalar(newton.body).plan)
    value, derivative = newton.plan.count(2.0, 1.0)
    assert value.trips == 4 and derivative.operations <= 4 * value.operations
    with pytest.raises(tl.ScalarFunctionError, match="without a bound"):
        tl.scalar(mode="reverse")(newton.body).plan  # noqa: B018


@tl.scalar(bound=50, mode="reverse")
def two_loops(x: Any, y: Any) -> Any:
    s = 0.0
    for _ in range(2):
        while x > 1:
            if x > y:
                x = x / 2 - 0.1 * y
            else:
                x = x * 0.25
                s = s + math.sin(x) * y
        x = x + 3
    return s + x


def test_costs_have_the_trips_of_loops_as_unknowns_which_data_tell() -> None:
    f = tl.function(lambda a: tl.sum(n, lambda i: newton(a[i], 1.0) * a[i]), a=tl.R[n])
    a = np.array([1.0, 2.0, 100.0])
    of_value, of_gradient = tl.cost_polynomial(f), tl.cost_polynomial(tl.grad(f))
    (trips,) = re.findall(r"trips\(i0:n. newton\w*\(a\[i0\]\)\)", str(of_value))
    assert trips in str(of_gradient)
    paths = sum(newton.plan.count(x, 1.0)[0].operations for x in a)
    assert tl.cost(f, a=a) == of_value(a=a) == paths + 3 + 2
    assert tl.cost(f, a=a[:0]) == of_value(a=a[:0]) == 0
    assert tl.read_cost(str(of_gradient), tl.grad(f)) == of_gradient
    with pytest.raises(tl.ArgumentError, match="which its arguments decide"):
        tl.cost(f, n=3)
    with pytest.raises(tl.ParseError, match="visits of the program"):
        tl.read_cost("2*trips(n)", f)
    assert "with all trips the program costs" in str(tl.lower(f).explain())


def test_costs_tell_loops_and_branches_of_all_calls_apart() -> None:
    def body(x: Any, y: Any) -> Any:
        once = tl.gen(n, lambda i: two_loops(x[i], y))
        return tl.sum(n, lambda i: once[i] * two_loops(once[i] * once[i], 1 + y))

    f = tl.function(body, x=tl.R[n], y=tl.R)
    x, y = np.array([5.0, 0.2, 40.0]), 2.0
    first = [two_loops.plan.count(v, y)[0] for v in x]
    second = [two_loops.plan.count(r.results[0] ** 2, 1 + y)[0] for r in first]
    found = tl.cost(f, x=x, y=y)
    # beside the paths: a square, a product, 1 + y and the sum
    assert found in (sum(r.operations for r in (*first, *second)) + k for k in (3 * 2 + 2 + 1, 3 * 3 + 2))
    assert tl.cost_polynomial(f)(x=x, y=y) == found
    gradient = tl.grad(f)
    assert tl.cost_polynomial(gradient)(x=x, y=y) == tl.cost(gradient, x=x, y=y) <= 4 * (found + 5)


def test_certificates_name_loops_as_assumptions_which_the_checker_decides() -> None:
    f = tl.function(lambda x: tl.sum(n, lambda i: newton(x[i], 1.0)), x=tl.R[n])
    certificate = tl.certify(f)
    assert "assuming: the derivative of newton" in str(certificate)
    report = check(certificate.to_json())
    (assumed,) = report.assumptions
    assert re.fullmatch(r"of newton\w* one trip of each loop, and the cheaper side of each branch, .*", assumed)


def refused_recursion(x: Any) -> Any:
    if x < 1:
        return x
    return 1 + refused_recursion(x / 2)


def refused_loop(x: Any) -> Any:
    total = 0.0
    for _ in range(x):
        total += 1
    return total


def refused_raise(x: Any) -> Any:
    while x > 1:
        raise ValueError
    return x


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (refused_recursion, "it calls itself, and goes on afterwards"),
        (refused_loop, "a range is of whole numbers"),
        (refused_raise, "Raise is no statement on numbers"),
    ],
)
def test_what_loops_cannot_have_is_refused_at_its_line(body: Any, message: str) -> None:
    with pytest.raises(tl.TypeMismatch, match=message) as caught:
        program(tl.scalar(body))
    assert "hint:" in str(caught.value) and "test_scalar_loops.py:" in str(caught.value)


def test_code_of_jax_is_the_value_on_every_path() -> None:
    import jax

    with jax.enable_x64(True):
        for seed in (1, 4, 6):
            _, body = random_function(seed)
            code = code_of(tl.scalar(body), 50)
            for mode in ("dual", "reverse"):
                made = derived(code, mode)
                names: dict[str, Any] = {"jnp": jax.numpy, "jax": jax, "lax": jax.lax}
                exec("\n".join(lines(Block([definition(made, "emitted")]))), names)
                rng = np.random.default_rng(seed)
                count = 5
                points = [rng.integers(0, 5, count) if p == "k" else rng.uniform(-2, 2, count) for p in code.params]
                found = jax.jit(names["emitted"])(*points)
                want = np.array([run(made, list(point)).results for point in zip(*points, strict=True)])
                np.testing.assert_allclose(np.array(found).T, want, rtol=1e-6, atol=1e-9)


# paths that come near the bound


def adversaries() -> list[Any]:
    def sigmoids(x: Any, k: int) -> Any:
        r = x
        while k > 0:
            k -= 1
            r = sigmoid(r) * x
        return r

    def tanhs(x: Any, k: int) -> Any:
        r = x
        while k > 0:
            k -= 1
            r = math.tanh(r * r * x)
        return r

    def quotients(x: Any, y: Any, k: int) -> Any:
        r = x
        while k > 0:
            k -= 1
            r = (r * y) / (x + r * r)
        return r

    return [power_loop.body, sigmoids, tanhs, quotients]


@pytest.mark.parametrize("body", adversaries(), ids=lambda f: f.__name__)
def test_adjoints_of_long_loops_come_near_to_4_times_and_never_pass_it(body: Any) -> None:
    code = code_of(tl.scalar(body), 2000)
    backward = derived(code, "reverse")
    for trips in (1, 20, 1500):
        point = [*(0.99 for _ in differentiable(code)), trips]
        ends = len(point)
        value, adjoint = run(code, point).operations + ends, run(backward, point).operations + ends
        assert adjoint <= 4 * value


def test_the_cell_of_the_mixed_mode_paper_has_the_derivatives_of_its_formula_and_the_cost_of_its_paths() -> None:
    import jax

    f = control.cells()
    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=(7, 7)).astype(np.float32) for _ in range(5)]
    states = [rng.integers(0, 2, 7).astype(np.float32) for _ in range(2)]
    value, back = jax.vjp(lambda *x: control.cells_of_jax(*x, *states), *arrays[:4])
    np.testing.assert_allclose(f(*arrays[:4], *states), value, rtol=1e-5)
    found = tl.adjoint(f, wrt=("c", "f", "i", "g"))(*arrays[:4], *states, arrays[4])
    for ours, theirs in zip(found, back(arrays[4]), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)
    assert tl.certify(f, wrt=("c", "f", "i", "g")).bound == 4


@pytest.mark.slow
def test_the_benchmark_of_control_flow_runs() -> None:
    result = CliRunner().invoke(control.main, ["--quick"])
    assert result.exit_code == 0 and "newton, reverse" in result.output


# with everything else of the language

m = tl.sizes("m")


@tl.scalar(bound=60)
def exact_root(a: Any, x: Any) -> Any:
    while abs(x * x - a) > 1e-10:
        x = 0.5 * (x + a / x)
    return x


def _with(body: Any, plain: Any, **types: Any) -> Any:
    return tl.function(body, **types), plain


V, M = tl.R[n], tl.R[n, m]
TOGETHER: dict[str, Any] = {
    "a product in a sum": _with(
        lambda a: tl.gen(n, lambda i: tl.sum(m, lambda j: exact_root(a[i, j], 1.0) * a[i, j])),
        lambda jnp, a: (jnp.sqrt(a) * a).sum(1),
        a=M,
    ),
    "a greatest element": _with(
        lambda a: tl.gen(n, lambda i: tl.max(m, lambda j: exact_root(a[i, j], 1.0))),
        lambda jnp, a: jnp.sqrt(a).max(1),
        a=M,
    ),
    "a triangle": _with(
        lambda x: tl.gen(n, lambda i: tl.sum(n, lambda j: (j < i) * exact_root(x[i] + x[j], 1.0))),
        lambda jnp, x: (jnp.tril(jnp.ones((5, 5)), -1) * jnp.sqrt(x[:, None] + x[None])).sum(1),
        x=V,
    ),
    "elements that are looked up": _with(
        lambda x, y: tl.gen(m, lambda i: exact_root(x[y[i]], 1.0)),
        lambda jnp, x, y: jnp.sqrt(x[y]),
        x=V,
        y=tl.idx(n)[m],
    ),
    "loops of loops": _with(
        lambda x: tl.gen(n, lambda i: exact_root(exact_root(x[i], 1.0), exact_root(x[i], 2.0))),
        lambda jnp, x: x**0.25,
        x=V,
    ),
    "windows": _with(
        lambda x: tl.gen(n - 1, lambda i: tl.sum(2, lambda j: exact_root(x[i + j], 1.0))),
        lambda jnp, x: jnp.sqrt(x[:-1]) + jnp.sqrt(x[1:]),
        x=V,
    ),
    "a condition on what a loop gives": _with(
        lambda x: tl.gen(n, lambda i: tl.where(exact_root(x[i], 1.0) > 2, x[i] * exact_root(x[i], 1.0), x[i])),
        lambda jnp, x: jnp.where(x > 4, x * jnp.sqrt(x), x),
        x=V,
    ),
}


@pytest.mark.parametrize("name", TOGETHER)
def test_loops_go_together_with(name: str) -> None:
    import jax
    import jax.numpy as jnp

    f, plain = TOGETHER[name]
    rng = np.random.default_rng(1)
    given = [rng.uniform(1.2, 9, (4, 5) if "[m]" in str(f.variables[0].type) else 5)]
    data = [np.array([0, 3, 1, 1])] if len(f.params) > 1 else []
    with jax.enable_x64(True):
        want = plain(jnp, *given, *data)
        bar = rng.normal(size=want.shape)
        np.testing.assert_allclose(f(*given, *data), want, rtol=1e-6)
        np.testing.assert_allclose(tl.evaluate(f, *given, *data), want, rtol=1e-6)
        slope = jax.grad(lambda x: (plain(jnp, x, *data) * bar).sum())(jnp.asarray(given[0]))
        np.testing.assert_allclose(tl.adjoint(f, wrt=f.variables[0].name)(*given, *data, bar), slope, rtol=1e-4)


def test_what_has_no_derivative_by_an_argument_has_no_addition_for_it() -> None:
    f = tl.parse(
        "scalar raised(x, k: int) = let y, i = loop y = x, i = 0 while i < k do (y * x, i + 1) in y\n"
        "g(x: R) = raised(x, 3)"
    )
    certificate = tl.certify(f)
    assert certificate.is_decided
    assert check(certificate.to_json()).decided
