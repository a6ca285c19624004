"""Times of imports: JAX not before something is lowered or run, and next to nothing for `import tensorlang`."""

from __future__ import annotations

import ast
import builtins
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import tensorlang as tl
from tensorlang.surface import embed

ROOT = Path(tl.__file__).parent

PROGRAM = "f = tl.parse('f(x: [n]R, w: [m]R) = sum i:n. [i < m] * sin(x[i]) * w[i]')"

WITHOUT_JAX = {
    "import": "",
    "parse": PROGRAM,
    "operators": "tl.parse('f(x: [n]R) = grad x. sum i:n. x[i]^2')",
    "embed": "f = tl.function(lambda x: tl.sum(3, lambda i: x[i] * x[i]), x=tl.R[3])",
    "text": f"{PROGRAM}; str(f), repr(f), tl.unicode_text(f)",
    "passes": f"{PROGRAM}; tl.normalize(f), tl.to_ssa(f), tl.simplify(f)",
    "derivatives": f"{PROGRAM}; tl.derive(f), tl.grad(f), tl.derivative(f), tl.hvp(f), tl.jacobian(f)",
    "costs": f"{PROGRAM}; tl.cost(f, n=3, m=2), tl.cost_polynomial(f), tl.read_cost('n + 1', f)",
    "certificates": f"{PROGRAM}; tl.certify(f), tl.testing.assert_cheap_adjoint(f)",
    "evaluate": f"{PROGRAM}; tl.evaluate(f, [1.0, 2.0], [3.0])",
    "notebooks": f"{PROGRAM}; f._repr_latex_(), tl.derive(f)._repr_html_(), tl.certify(f)._repr_html_()",
    "commands": "from tensorlang.cli import main; main(['--help'], standalone_mode=False)",
}


def imported(code: str) -> set[str]:
    """The modules that a new process has imported after running `code`."""
    asked = f"import sys\nimport tensorlang as tl\n{code}\nprint('\\n' + ' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=False)
    assert not done.stderr  # nor does anything go wrong as the process ends
    return set(done.stdout.split())


@pytest.mark.parametrize("what", WITHOUT_JAX)
def test_jax_is_imported_only_to_lower_and_run(what: str) -> None:
    found = imported(WITHOUT_JAX[what])
    assert "tensorlang" in found
    assert "jax" not in found


def test_importing_and_asking_for_help_import_next_to_nothing() -> None:
    assert not imported("") & {"numpy", "islpy", "click", "sympy", "tensorlang.language", "tensorlang.notebook"}
    found = imported(WITHOUT_JAX["commands"])
    assert not found & {"numpy", "islpy", "sympy", "tensorlang.language"}


def test_programs_run_though_nothing_was_imported_for_that() -> None:
    assert "jax" in imported(f"{PROGRAM}; assert f([1.0, 2.0], [0.0]) == 0.0")


@pytest.mark.parametrize("first", ["tl.cost", "import tensorlang.costs.cost", "import tensorlang.transforms.to_jax"])
def test_functions_have_the_names_of_folders_whatever_is_imported_first(first: str) -> None:
    rest = "import tensorlang.lowering.run, tensorlang.derivatives.adjoint, tensorlang.simplification.plans"
    imported(f"{first}; {rest}; assert all(map(callable, (tl.cost, tl.lower, tl.derivative, tl.simplify)))")


def test_every_public_name_is_there_and_listed() -> None:
    names = {name for name in dir(tl) if not name.startswith("_")}
    assert set(tl._HOME) | set(tl._MODULES) == names >= set(tl.__all__)
    for name in names:
        assert isinstance(getattr(tl, name), ModuleType) == (name in tl._MODULES)
    assert tl._HOMES["surface.embed"].split() == embed.__all__
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = tl.no_such_name


def test_a_star_import_brings_all_public_names_but_those_of_builtins() -> None:
    names = {name for name in dir(tl) if not name.startswith("_")}
    assert names - set(tl.__all__) == names & set(dir(builtins)) == {"max", "min", "sum"}


def test_type_checkers_see_the_same_names_in_the_same_places() -> None:
    tree = ast.parse((ROOT / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.name: (node.module or "").removeprefix("tensorlang").removeprefix(".")
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen.pop("*") == "surface.embed"
    assert {name: home for name, home in tl._HOME.items() if home != "surface.embed"} | dict.fromkeys(
        tl._MODULES, ""
    ) == seen


def test_the_version_is_said() -> None:
    assert tl.__version__.count(".") == 2
    said = subprocess.run([sys.executable, "-m", "tensorlang", "--version"], capture_output=True, text=True, check=True)
    assert tl.__version__ in said.stdout
