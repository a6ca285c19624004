"""The linter finds the gradients of JAX functions that do more work than they need, and no others."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from click.testing import CliRunner

import tensorlang as tl
from tensorlang.cli import main
from tensorlang.jaxprs import regions
from tensorlang.jaxprs.lint import lint

pytest_plugins = ["pytester"]

MODEL = """
import jax.numpy as jnp

# lint: x: n, A: n n
def scaled(x, A):
    D = jnp.diag(x)
    return jnp.sum((D @ A) ** 2)

# lint: W: n n, x: m n
def dense(W, x):
    return jnp.sum(jnp.tanh(x @ W) ** 2)

def other(x):
    return x
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return str(path)


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main, ["lint", *arguments, "--at", "16", "64"])


def test_a_gradient_that_does_too_much_is_reported_with_its_line(model: str) -> None:
    found = run(f"{model}::scaled", "--compiled")
    assert found.exit_code == 1
    assert f"{model}:7: TL001 the gradient of scaled does" in found.output
    assert "return jnp.sum((D @ A) ** 2)" in found.output
    assert "dot_general" in found.output
    assert "tl.jax.grad(scaled, ..)" in found.output


def test_shapes_are_of_the_parameters_that_they_name(model: str) -> None:
    assert run(f"{model}::scaled", "--shapes", "A: n n, x: n").output == run(f"{model}::scaled").output
    for shapes, said in {
        "x: n, B: n n": "scaled has no parameter B",
        "A: n n": "the shape of the argument x of scaled is not known",
        "x: n, x: n": "x has two shapes",
        "x: n, A: n -2": "'n -2' is no shape: a size is negative",
    }.items():
        assert said in run(f"{model}::scaled", "--shapes", shapes).output


def test_a_function_that_fails_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("# lint: x: n\ndef f(x):\n    return x['a']\n\n# lint: x: n\ndef g(x):\n    return 'a', 1\n")
    assert f"error: {path}:3: f fails at x: n: TypeError: " in run(f"{path}::f").output
    assert "g gives no floats that could be differentiated" in run(f"{path}::g").output


def test_a_dense_model_is_fine(model: str) -> None:
    found = run(f"{model}::dense")
    assert found.exit_code == 0
    assert found.output.startswith("dense: fine, ")


def test_all_functions_that_say_their_shapes_are_looked_at(model: str) -> None:
    found = run(model, "--format", "json")
    assert found.exit_code == 1
    scaled, dense = json.loads(found.output)
    assert (scaled["function"], dense["function"]) == ("scaled", "dense")
    assert dense["fine"] and not dense["findings"]
    (finding,) = scaled["findings"]
    assert finding["line"] == 7
    assert finding["factors"][1] > 3 * finding["factors"][0] > 6


def test_machines_get_annotations_and_sarif(model: str) -> None:
    line = run(f"{model}::scaled", "--format", "github").output
    assert line.startswith(f"::warning file={model},line=7::TL001 ")
    (ran,) = json.loads(run(model, "--format", "sarif").output)["runs"]
    (result,) = ran["results"]
    assert result["ruleId"] in {rule["id"] for rule in ran["tool"]["driver"]["rules"]}
    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": 7}


def test_arguments_that_are_differentiated_can_be_named(model: str) -> None:
    assert run(f"{model}::scaled", "--wrt", "1").exit_code == 1
    assert run(f"{model}::scaled", "--wrt", "one").exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{}::other"], "shapes of other's arguments are not known"),
        (["{}::scale"], "has no function scale"),
        (["{}::other", "--shapes", "n"], "'n' is no shape of an argument"),
        (["{}::other", "--shapes", "x: n: int32"], "holds floats"),
        (["{}.nothing"], "can't read"),
    ],
)
def test_what_cannot_be_linted_is_said(model: str, arguments: list[str], message: str) -> None:
    found = run(*(a.format(model) for a in arguments))
    assert found.exit_code == 1
    assert message in found.output
    assert "Traceback" not in found.output


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of two modules, one of which imports the other by a relative name."""
    folder = tmp_path / "linted_models"
    (folder / "deep").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "deep" / "__init__.py").write_text("")
    (folder / "deep" / "layers.py").write_text(
        "from ..losses import scaled\n\n# lint: x: n\ndef twice(x):\n    return x * 2\n"
    )
    (folder / "losses.py").write_text(MODEL)
    (folder / "unmarked.py").write_text("1 / 0\n")  # this module has no shapes, so it is not imported
    for name in [name for name in sys.modules if name.split(".")[0] == "linted_models"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(tmp_path))
    return folder


@pytest.mark.parametrize("by_name", [True, False], ids=["by its name", "by its folder"])
def test_a_package_is_linted_as_a_whole(package: Path, by_name: bool) -> None:
    found = run("linted_models" if by_name else str(package))
    assert found.exit_code == 1
    assert f"{package / 'losses.py'}:7: TL001 the gradient of scaled does" in found.output
    assert "twice: fine, " in found.output
    assert "dense: fine, " in found.output
    assert found.output.endswith("3 functions: 2 fine, 1 with findings\n")


def test_a_module_is_named_as_python_does(package: Path) -> None:
    assert run("linted_models.losses::dense").output.startswith("dense: fine, ")
    missing = run("linted_models.nothing")
    assert missing.exit_code == 1
    assert "there is no module linted_models.nothing" in missing.output


def test_a_file_that_fails_is_no_traceback(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("1 / 0\n")
    found = run(f"{path}::f", "--shapes", "x: n")
    assert found.exit_code == 1
    assert "ZeroDivisionError" in found.output


def test_what_bodies_of_loops_do_counts_as_often_as_they_run() -> None:
    def f(x: Any, a: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            return jnp.tanh(jnp.sum(jnp.diag(c) @ a, 1)), None

        return jax.lax.scan(step, x, length=100)[0]

    (found,) = lint(f, "n", "n n", sizes=(16, 64)).findings
    assert found.code == "TL001" and found.factors[1] > 50
    assert found.line is not None and "diag(c)" in found.line.code


def pairs_of_neighbours(r: Any) -> Any:
    i = jnp.arange(r.shape[0])
    apart = jnp.abs(i[:, None] - i)
    near = (apart > 0) & (apart <= 3)
    return jnp.sum(jnp.where(near, jnp.tanh(r[:, None] * r), 0.0))


@pytest.mark.parametrize("decorated", [False, True])
def test_the_sizes_that_are_counted_do_not_have_to_pay_the_derivation_back(
    decorated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regions, "STEPS", 10)
    monkeypatch.setattr(regions, "FIRST_STEPS", 10)
    monkeypatch.setattr(regions, "OPERATIONS", 10**9)
    monkeypatch.setattr(regions, "OUTSIDE_PRODUCTS", 10**9)
    tl.clear_caches()
    f = tl.jax.differentiable(pairs_of_neighbours) if decorated else pairs_of_neighbours
    found = lint(f, "n").findings
    assert bool(found) is not decorated
    assert "derived: a tensor program" in str(tl.jax.explain(pairs_of_neighbours, "n"))
    assert "all of it stays JAX" in str(tl.jax.explain(pairs_of_neighbours, "192"))
    tl.clear_caches()


def test_what_could_not_be_told_is_listed() -> None:
    report = lint(lambda a: jnp.sum(jnp.linalg.cholesky(a @ a.T)), "n n", sizes=(8, 16))
    assert "cholesky: there is no rule for it" in str(report)


def test_cheap_gradients_are_asserted() -> None:
    assert not tl.testing.assert_cheap_gradient(lambda x: jnp.sum(x**2), "n").findings

    def trace(a: Any, b: Any) -> Any:
        return jnp.trace(a @ b)

    with pytest.raises(AssertionError, match=r"jnp.trace\(a @ b\)"):
        tl.testing.assert_cheap_gradient(trace, "n n", "n n")


@pytest.mark.parametrize(
    "f",
    [
        lambda w, x: jnp.sum(jax.nn.relu(x @ w) @ w),
        lambda w, x: jnp.mean(jax.nn.logsumexp(x @ w, axis=1)),
        lambda w, x: jnp.sum(jax.nn.softmax(x @ w, axis=1) ** 2),
        lambda w, x: jnp.sum((w[1:] - w[:-1]) ** 2),
    ],
)
def test_programs_that_need_what_they_do_are_fine(f: Any) -> None:
    report = lint(f, "n n", "n n", sizes=(16, 64))
    assert not report.findings, str(report)


@pytest.mark.slow
def test_functions_that_a_module_marks_are_tests(pytester: pytest.Pytester) -> None:
    marked = 'import pytest\npytestmark = pytest.mark.cheap_gradients(scaled="n, n n", dense="n n, m n")\n'
    pytester.makepyfile(marked + MODEL)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*TL001 the gradient of scaled does*"])
    result.stdout.no_fnmatch_line("*lint.py*")


ATTENTION = """
import jax
import jax.numpy as jnp

def attention(Q, K, V, hidden=-1e9, width=WIDTH, adds=False):
    i = jnp.arange(Q.shape[0])
    near = (i[:, None] >= i[None, :]) & (i[:, None] - i[None, :] < width)
    s = Q @ K.T
    s = s + jnp.where(near, 0, hidden) if adds else jnp.where(near, s, hidden)
    return jnp.sum((jax.nn.softmax(s) @ V) ** 2)
"""


def attention(width: int) -> Any:
    found: dict[str, Any] = {}
    exec(ATTENTION.replace("WIDTH", str(width)), found)
    return found["attention"]


def test_windows_that_are_wide_at_small_sizes_are_found_at_larger_ones() -> None:
    def loss(Q: Any, K: Any, V: Any) -> Any:
        return attention(64)(Q, K, V, hidden=-jnp.inf)

    found = lint(loss, "n d", "n d", "n m").findings[0]
    assert found.sizes == (192, 1536)
    assert found.factors[1] > 8 * found.factors[0]
    assert not lint(loss, "n d", "n d", "n m", sizes=(48, 192)).findings


@pytest.mark.parametrize("adds", [False, True])
def test_a_number_that_hides_elements_is_pointed_out_where_infinity_would_save_work(adds: bool) -> None:
    def loss(Q: Any, K: Any, V: Any) -> Any:
        return attention(64)(Q, K, V, adds=adds)

    report = lint(loss, "n d", "n d", "n m")
    assert not report.findings
    (hint,) = report.hints
    assert "-1e+09 hides elements here: with -jnp.inf the derived gradient would do less (times 1.14 at 192, 16" in hint
    assert f"hint: {hint}" in str(report)
    # of all elements none is saved
    assert not lint(lambda *arrays: attention(10**6)(*arrays, adds=adds), "n d", "n d", "n m").hints


def test_a_number_that_hides_nothing_is_not_pointed_out() -> None:
    report = lint(lambda x, A: jnp.sum(jnp.maximum(A @ x, -1e9)), "n", "n n")
    assert report.hints == ()
    assert not report.findings


def test_functions_whose_code_gets_longer_are_counted_at_small_sizes_alone() -> None:
    lengths: list[int] = []

    def loss(x: Any) -> Any:
        lengths.append(len(x))
        total = x[0]
        for k in range(1, len(x)):
            total = jnp.sin(total) * x[k]
        return total

    assert not lint(loss, "n").findings
    assert set(lengths) == {48, 192}


def test_what_a_loop_does_is_counted_at_the_lines_of_its_body() -> None:
    def loss(Q: Any, K: Any, V: Any) -> Any:
        i = jnp.arange(Q.shape[0])
        near = jnp.abs(i[:, None] - i[None]) < 40

        def step(c: Any, _: None) -> Any:
            return jax.nn.softmax(jnp.where(near, c @ K.T, -jnp.inf)) @ V, None

        return jnp.sum(jax.lax.scan(step, Q, None, length=3)[0])

    findings = lint(loss, "n d", "n d", "n d").findings
    assert findings
    for found in findings:
        assert found.line is not None
        assert "near, c @ K.T" in found.line.code
        assert found.operations[0] > found.operations[1]
