"""Whole functions of arrays with declared adjoints: their values, derivatives, costs, certificates and refusals."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorlang as tl
from proofs.checker.certificate import check
from proofs.checker.trees import Refused
from tests.support.externals import fft, sines, solve, times
from tests.support.programs import random_arguments
from tests.support.traced import work

n, m = tl.sizes("n m")
RNG = np.random.default_rng(0)


SOLVED = tl.function(lambda A, b: tl.sum(n, lambda i: solve(A, b)[i] ** 2), A=tl.R[n, n], b=tl.R[n])
MATRIX = (RNG.normal(size=(3, 3)) + 4 * np.eye(3)).astype(np.float32)
VECTOR = RNG.normal(size=3).astype(np.float32)


def solved(A: Any, b: Any) -> Any:
    return jnp.sum(jnp.linalg.solve(A, b) ** 2)


def alike(found: Any, expected: Any) -> None:
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-4)


def refused(kind: type[Exception], part: str, made: Callable[[], Any]) -> None:
    with pytest.raises(kind) as found:
        made()
    assert part in str(found.value)


@pytest.mark.slow
def test_a_solver_is_a_part_of_programs_under_all_of_jaxs_transformations() -> None:
    f = tl.to_jax(SOLVED)
    alike(SOLVED(MATRIX, VECTOR), solved(MATRIX, VECTOR))
    alike(tl.evaluate(SOLVED, MATRIX, VECTOR), solved(MATRIX, VECTOR))
    alike(tl.grad(SOLVED)(MATRIX, VECTOR), jax.grad(solved, (0, 1))(MATRIX, VECTOR))
    alike(tl.hvp(SOLVED, "b")(MATRIX, VECTOR, VECTOR), jax.hessian(solved, 1)(MATRIX, VECTOR) @ VECTOR)
    alike(jax.jit(jax.grad(f, (0, 1)))(MATRIX, VECTOR), jax.grad(solved, (0, 1))(MATRIX, VECTOR))
    alike(jax.jvp(f, (MATRIX, VECTOR), (MATRIX, VECTOR)), jax.jvp(solved, (MATRIX, VECTOR), (MATRIX, VECTOR)))
    alike(jax.hessian(f, 1)(MATRIX, VECTOR), jax.hessian(solved, 1)(MATRIX, VECTOR))
    many = RNG.normal(size=(4, 3)).astype(np.float32)
    two = np.stack([MATRIX, MATRIX.T])
    gradients = [jax.vmap(jax.grad(g, (0, 1)), (0, None))(two, VECTOR) for g in (f, solved)]
    alike(*gradients)
    whole = jax.grad(lambda A: jnp.sum(jax.vmap(f, (None, 0))(A, many)))(MATRIX)
    alike(whole, jax.grad(lambda A: jnp.sum(jax.vmap(solved, (None, 0))(A, many)))(MATRIX))


def test_its_text_is_the_program_and_its_cost_is_as_declared() -> None:
    again = tl.parse(str(SOLVED))
    alike(tl.grad(again)(MATRIX, VECTOR), tl.grad(SOLVED)(MATRIX, VECTOR))
    read = tl.parse("f(A: [n][n]R, b: [n]R) = let x = solve(A, b) in sum i:n. x[i]^2")
    assert tl.cost(read, n=5) == 5**3 + 5**2 + 5 + 4
    assert tl.cost(tl.grad(read), n=5) <= 2 * (5**3 + 5**2) + 5**2 + 3 * 5
    assert tl.cost_polynomial(read)(n=7) == tl.cost(read, n=7)


@pytest.mark.slow
def test_a_fourier_transform_gives_a_pair() -> None:
    def spectrum(x: tl.R[n]):  # type: ignore[no-untyped-def, valid-type]
        re, im = fft(x, tl.gen(n, lambda i: 0.0))
        return tl.sum(n, lambda k: (re[k] ** 2 + im[k] ** 2) ** 2)

    f = tl.function(spectrum)

    def expected(x: Any) -> Any:
        return jnp.sum(jnp.abs(jnp.fft.fft(x)) ** 4)

    x = RNG.normal(size=(2, 7)).astype(np.float32) / 4
    alike(tl.grad(f)(x[0]), jax.grad(expected)(x[0]))
    alike(tl.hessian(f)(x[0]), jax.hessian(expected)(x[0]))
    alike(jax.vmap(jax.grad(tl.to_jax(f)))(x), jax.vmap(jax.grad(expected))(x))


RECURRENT = (
    "f(A: [n][n]R, x: [n]R) = let y = fold t:T with s = x. times(A, s) in sum i:n. y[i]^2",
    "f(A: [n][m]R, B: [m][n]R, x: [m]R) = let y = fold t:T with s = x. times(B, times(A, s)) in sum j:m. y[j]^2",
    "f(A: [n][n]R, x: [n]R, u: [T]R) = let y = scan t:T with s = x. gen i:n. sin(u[t] + times(A, s)[i]) in "
    "sum t:T, i:n. y[t, i]^2",
    "f(x: [n]R, y: [n]R) = let z = fold t:T with s = (x, y). fft(fst(s), snd(s)) in sum i:n. fst(z)[i] * snd(z)[i]",
)


@pytest.mark.parametrize("text", RECURRENT)
def test_an_adjoint_calls_once_for_each_call_of_a_step(text: str) -> None:
    f = tl.parse(text)
    g = tl.adjoint(f)
    names = ("times(", "fft(", "pulled(")
    calls = [sum(str(one).count(name) for name in names) for one in (f, g)]
    assert calls[1] == 2 * calls[0]
    for steps in (4, 40, 400):
        sizes = {size.name: 8 for size in f.sizes} | {"T": steps}
        numbers = sum(np.size(a) for a in jax.tree.leaves(random_arguments(f, random.Random(0), sizes, exact=False)))
        assert tl.cost(g, sizes) + numbers + 1 <= 4 * (tl.cost(f, sizes) + numbers + 1)
        if "fft" not in text:  # the operations of calls are not counted
            done = [_operations(h, sizes) for h in (f, g)]
            assert done[0] >= steps
            assert done[1] + numbers + 1 <= 4 * (done[0] + numbers + 1)


def _operations(f: tl.Function, sizes: dict[str, int]) -> int:
    given = random_arguments(f, random.Random(0), sizes, exact=False)
    given = {p.name: np.asarray(given[p.name], np.float32) for p in f.params}
    return work(lambda: tl.lower(f)(**given, **{size.name: sizes[size.name] for size in f.sizes})).operations


def test_calls_stand_in_steps_of_recurrences() -> None:
    T = tl.sizes("T")

    def loop(x: tl.R[n], w: tl.R[n]):  # type: ignore[no-untyped-def, valid-type]
        s = tl.fold(T, x, lambda t, s: sines(tl.gen(n, lambda i: w[i] * s[i])))
        return tl.sum(n, lambda i: s[i])

    def expected(x: Any, w: Any) -> Any:
        for _ in range(3):
            x = jnp.sin(w * x)
        return x.sum()

    f = tl.function(loop)
    alike(tl.grad(f)(VECTOR, VECTOR, T=3), jax.grad(expected, (0, 1))(VECTOR, VECTOR))
    alike(
        jax.grad(lambda x, w: tl.to_jax(f)(x, w, T=3), (0, 1))(VECTOR, VECTOR),
        jax.grad(expected, (0, 1))(VECTOR, VECTOR),
    )


def test_calls_read_lookups_relations_and_extrema_and_stand_at_indices() -> None:
    f = tl.parse(
        "f(x: [n]R, k: [n]idx(n), E: rel(n, n)) = let y = sines(gen i:n. [exists j:n. E(i, j)] * x[k[i]] + "
        "(max j:n. x[j])) in sum i:n. [2*i < n] * y[i]^2"
    )
    E, k = np.array([[0, 1, 0], [0, 0, 0], [1, 1, 1]], bool), np.array([1, 1, 0])

    def expected(x: Any) -> Any:
        inner = jnp.where(E.any(1), x[k], 0) + x.max()
        return jnp.sum(jnp.where(2 * jnp.arange(3) < 3, jnp.sin(inner) ** 2, 0))

    alike(tl.grad(f)(VECTOR, k, E), jax.grad(expected)(VECTOR))
    alike(jax.grad(tl.to_jax(f))(VECTOR, k, E), jax.grad(expected)(VECTOR))
    g = tl.parse("g(x: [n][m]R) = sum i:n, j:m. sines(x[i])[j] * sines(gen k:m. x[i, k] * x[i, k])[j]")
    for shape in ((2, 3), (0, 3), (3, 0), (1, 1)):
        x = RNG.normal(size=shape).astype(np.float32)
        alike(tl.grad(g)(x), jax.grad(lambda x: jnp.sum(jnp.sin(x) * jnp.sin(x * x)))(x))
    assert str(tl.jacobian(tl.parse("h(x: [n]R) = sines(x)"))).endswith("gen i:n, j:n. [i = j] * cos(x[i])")


@pytest.mark.slow
def test_a_program_with_a_declared_adjoint_is_differentiated_by_it() -> None:
    f = tl.parse("normal(x: [n]R) = let e = gen i:n. exp(x[i]) in let s = sum i:n. e[i] in gen i:n. e[i] / s")

    @tl.adjoint_of(f)
    def rule(x, y, y_bar):  # type: ignore[no-untyped-def]
        d = tl.sum(n, lambda i: y[i] * y_bar[i])
        return tl.gen(n, lambda i: y[i] * (y_bar[i] - d))

    loss = tl.parse("loss(x: [n]R, z: [n]R) = let p = normal(x) in sum i:n. z[i] * p[i]^2")

    def expected(x: Any, z: Any) -> Any:
        return jnp.sum(z * jax.nn.softmax(x) ** 2)

    for k in (0, 1, 3):
        x, z = VECTOR[:k], VECTOR[::-1][:k]
        alike(tl.grad(loss, "x")(x, z), jax.grad(expected)(x, z))
    alike(tl.hessian(loss, "x")(VECTOR, VECTOR), jax.hessian(expected)(VECTOR, VECTOR))
    assert "normal(x)" in str(tl.adjoint(f)), "what users write is what is called"
    assert tl.cost(loss, n=5) == tl.cost(f, n=5) + 3 * 5 - 1
    alike(jax.jacfwd(tl.to_jax(f))(VECTOR), jax.jacobian(jax.nn.softmax)(VECTOR))
    assert "jnp.exp" in tl.lower(loss).source
    assert "_called" not in tl.lower(loss).source, "a program is a part of the code, and fused with it"


def test_certificates_name_what_is_declared() -> None:
    found = tl.certify(SOLVED)
    assert any("declared adjoint of solve" in what for what in found.assumed)
    assert "that a call of solve costs what is declared" in str(found)
    refused(tl.CostBoundExceeded, "11/6", lambda: tl.certify(SOLVED, Fraction(3, 2)))


@pytest.mark.slow
def test_files_have_the_bodies_of_programs_with_declared_adjoints_and_the_checker_assumes_nothing(
    tmp_path: Path,
) -> None:
    weights = tl.parse("weights(x: [n]R) = let e = gen i:n. exp(x[i]) in let s = sum i:n. e[i] in gen i:n. e[i] / s")
    both = tl.parse("both(x: [n]R, c: R) = (gen i:n. c * x[i], sum i:n. x[i]^2)")

    @tl.adjoint_of(weights)
    def weights_rule(x, y, y_bar):  # type: ignore[no-untyped-def]
        d = tl.sum(n, lambda i: y[i] * y_bar[i])
        return tl.gen(n, lambda i: y[i] * (y_bar[i] - d))

    @tl.adjoint_of(both)
    def both_rule(x, c, y, y_bar):  # type: ignore[no-untyped-def]
        a, b = y_bar
        return tl.gen(n, lambda i: c * a[i] + 2 * x[i] * b), tl.sum(n, lambda i: a[i] * x[i])

    energy = tl.parse("energy(x: [n]R) = let p = weights(x) in sum i:n. p[i]^2")

    @tl.adjoint_of(energy)
    def energy_rule(x, y, y_bar):  # type: ignore[no-untyped-def]
        p, t = weights(x), 2 * y_bar
        return weights_rule(x, p, tl.gen(n, lambda i: t * p[i]))

    texts = [
        "f(x: [n]R) = energy(x) + sum i:n. snd(both(gen j:n. [j <= i] * x[j], x[i]))",
        "f(x: [m][n]R, z: [n]R) = fold t:m with s = z. weights(gen i:n. s[i] + x[t, i])",
        "f(x: [m][n]R, c: R) = let t = both(gen j:n. sum i:m. x[i, j], c) in let a = fst(t) in sum i:n. sin(a[i])",
        "f(x: [n]R) = max i:n. weights(x)[i]",
    ]
    again = tl.adjoint(tl.parse("f(x: [n]R, c: R) = snd(both(x, c))^2"))
    for made in [*map(tl.parse, texts), again, weights, both, energy]:
        found = tl.certify(made)
        assert any("declared adjoint" in what for what in found.assumed)
        found.save(tmp_path / "made.json")
        report = check((tmp_path / "made.json").read_text())
        assert report.decided, report
        assert not report.assumptions
        assert not report.searched
    beside = [
        "f(x: [n][m]R, y: [n]idx(m)) = sum i:n. let p = weights(gen j:m. x[i, j]) in p[y[i]]",
        "f(x: [m]R, y: [n]idx(m)) = let p = weights(gen i:n. x[y[i]]) in sum i:n. p[i] * x[y[i]]",
        "f(x: [n]R, z: [n]R) = let p = weights(x) in sum i:n. [z[i] > 0] * p[i] * p[i]",
        "f(x: [n]R) = let p = weights(gen i:n. [x[i] > 0] * x[i]) in sum i:n. p[i] * x[i]",
        "f(x: [n]R, E: rel(n, m)) = let p = weights(x) in sum i:n, j:m. [E(i, j)] * p[i] * x[i]",
    ]
    for text in beside:
        assert check(tl.certify(tl.parse(text)).to_json()).decided, text
    loss = tl.parse("f(x: [n]R) = sum i:n. weights(x)[i]^2")
    tl.certify(loss).save(tmp_path / "loss.json")
    refused(tl.CertificateError, "python -m proofs.checker", lambda: tl.Certificate.load(tmp_path / "loss.json"))


def test_a_declared_adjoint_that_is_wrong_at_sizes_that_were_not_tried_is_refused_by_the_checker() -> None:
    f = tl.parse("squares(x: [n]R) = sum i:n. x[i]^2")
    tl.adjoint_of(f)(lambda x, y, c: tl.gen(n, lambda i: 2 * c * x[i] + (i > 4) * c))
    with pytest.raises(Refused):
        check(tl.certify(f).to_json())


def test_a_wrong_adjoint_is_refused_with_a_counterexample() -> None:
    f = tl.parse("f(x: [n]R, c: R) = sum i:n. c * x[i]^2")

    def half(x, c, y, y_bar):  # type: ignore[no-untyped-def]
        return tl.gen(n, lambda i: y_bar * c * x[i]), None

    def one(x, c, y, y_bar):  # type: ignore[no-untyped-def]
        return tl.gen(n, lambda i: 2 * y_bar * c * x[i])

    def short(x, c, y_bar):  # type: ignore[no-untyped-def]
        return x, c

    def shapes(x, c, y, y_bar):  # type: ignore[no-untyped-def]
        return c, c

    refused(tl.AdjointError, "at n=3, x = [", lambda: tl.adjoint_of(f)(half))
    refused(tl.AdjointError, "gives 1 cotangents for 2 arguments", lambda: tl.adjoint_of(f)(one))
    refused(tl.AdjointError, "def rule(x, c, y, y_bar)", lambda: tl.adjoint_of(f)(short))
    refused(tl.TypeMismatch, "the cotangent of x must have its type [n]R, found R", lambda: tl.adjoint_of(f)(shapes))
    alike(tl.grad(f, "x")([1.0, 2.0], 3.0), np.array([6.0, 12.0]))

    def bent(x: tl.R[n]) -> tl.R[n]:
        return jnp.sin(x)

    made = tl.external(cost="n")(bent)

    def sine(x, y, y_bar):  # type: ignore[no-untyped-def]
        return tl.gen(n, lambda i: y[i] * y_bar[i])

    refused(tl.AdjointError, "is not its adjoint: at n=3", lambda: tl.adjoint_of(made)(sine))

    def root(x: tl.R[n]) -> tl.R[n]:
        return jnp.sqrt(x)

    roots = tl.external(cost="n")(root)

    def rooted(x, y, y_bar):  # type: ignore[no-untyped-def]
        return tl.gen(n, lambda i: y_bar[i] / (2 * y[i]))

    refused(tl.AdjointError, "could not be checked", lambda: tl.adjoint_of(roots, domain=(-2, -1))(rooted))
    tl.adjoint_of(roots, examples=lambda rng, n: (rng.uniform(1, 2, n),))(rooted)


def test_wrong_calls_and_costs_are_refused() -> None:
    def low(A: tl.R[n, m], x: tl.R[m]) -> tl.R[n]:
        return A @ x

    refused(tl.AdjointError, "XLA's code for it does 8 operations", lambda: tl.external(cost="n")(low))
    tl.external(cost="n", trusted=True)(low)
    refused(tl.ArgumentError, "no index or size is called k", lambda: tl.external(cost="5*k")(low))
    refused(tl.ArgumentError, "whole coefficients", lambda: tl.external(cost="n/2")(low))

    def other(x: tl.R[n]) -> tl.R[n]:
        return jnp.sum(x)

    refused(tl.TypeMismatch, "gives arrays of the shapes [()] at n=2", lambda: tl.external(cost="5*n")(other))
    refused(tl.TypeMismatch, "says no type of its parameter x", lambda: tl.external(cost=1)(lambda_named))
    typed = {"A": tl.R[n, m], "x": tl.R[n]}
    refused(tl.SizeMismatch, "must have size m, found n", lambda: tl.function(lambda A, x: times(A, x)[0], **typed))
    refused(tl.TypeMismatch, "missing a required argument", lambda: tl.function(lambda A, x: times(A), **typed))
    refused(tl.TypeMismatch, "takes 2 arguments", lambda: tl.parse("f(A: [n][m]R) = times(A)"))
    refused(tl.ScalarFunctionError, "did you mean times", lambda: tl.parse("f(A: [n][m]R) = tims(A)"))
    refused(tl.AdjointError, "found function", lambda: tl.adjoint_of(lambda_named))
    pair = tl.parse("f(x: [n]R, E: rel(n, n)) = sum i:n. [E(i, i)] * x[i]")
    refused(tl.TypeMismatch, "E of f is no real value", lambda: tl.adjoint_of(pair))


def lambda_named(x):  # type: ignore[no-untyped-def]
    return x


def test_what_is_not_declared_is_an_error_with_a_mend() -> None:
    f = tl.function(lambda A, x: tl.sum(n, lambda i: times(A, x)[i] ** 2), A=tl.R[n, m], x=tl.R[m])
    A = RNG.normal(size=(2, 3)).astype(np.float32)
    expected = jax.grad(lambda A, x: jnp.sum((A @ x) ** 2), (0, 1))(A, VECTOR)
    alike(tl.grad(f)(A, VECTOR), expected)
    alike(jax.grad(tl.to_jax(f), (0, 1))(A, VECTOR), expected)
    for second in (
        lambda: tl.hvp(f),
        lambda: tl.derivative(f),
        lambda: jax.hessian(tl.to_jax(f))(A, VECTOR),
        lambda: jax.jvp(tl.to_jax(f), (A, VECTOR), (A, VECTOR)),
    ):
        refused(tl.AdjointError, "@tl.adjoint_of(pulled)", second)
    refused(
        tl.NormalFormError,
        "call sines outside of the bracket",
        lambda: tl.grad(tl.parse("f(x: [n][n]R) = sum i:n. [2*i < n] * sines(x[i])[0]")),
    )
    alike(tl.lower(f, mesh=jax.make_mesh((1,), ("x",)), sharding={"n": "x"})(A, VECTOR), f(A, VECTOR))
    refused(tl.EvaluationError, "has no exact value", lambda: tl.evaluate(f, [[1]], [2], exact=True))


def test_the_functions_themselves_stay_functions_of_arrays() -> None:
    alike(solve(MATRIX, VECTOR), jnp.linalg.solve(MATRIX, VECTOR))
    assert "solve(A: [n][n]R, b: [n]R)" in repr(solve)
