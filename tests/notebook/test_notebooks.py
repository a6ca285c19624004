"""The notebooks run, without a warning, and show the outputs that are stored.

`pytest -m slow tests/notebook/test_notebooks.py --update-notebooks` runs them and writes them anew, without parts that
differ from run to run. The output of cells tagged `timing` depends on the machine; all others print the stored text.
"""

from __future__ import annotations

import copy
import importlib.util
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT

FOLDER = ROOT / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"), key=lambda path: int(path.name.split("-")[0]))
MACHINE = re.compile(r"(?<![\w.:/])/(?:home|root|tmp|work|opt|usr|var|Users|mnt)/[\w.\-]+|[A-Z]:\\\\")
WIDGET = "application/vnd.jupyter.widget-view+json"
TEXTS = ("text/plain", "text/latex", "text/markdown")
MOST_BYTES = 1_000_000

FIRST = """
import warnings
warnings.simplefilter("error")
warnings.filterwarnings("ignore", module="ipykernel")  # of what the kernel says about itself
"""


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def path(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


def _nbformat() -> Any:
    """The module nbformat, imported where it is used, as that takes some seconds."""
    return pytest.importorskip("nbformat", reason="notebooks are read by nbformat")


def read(path: Path) -> Any:
    return _nbformat().read(path, as_version=4)


def skip_unless_installed(notebook: Any) -> None:
    """Skip the test where a package that the notebook imports is missing."""
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    for name in sorted(set(re.findall(r"^(?:import|from) (\w+)", code, re.MULTILINE))):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"the notebook imports {name}, which is not installed")


def executed(notebook: Any) -> Any:
    """The notebook with the outputs of a fresh kernel, in which every warning is an error."""
    nbclient = pytest.importorskip("nbclient", reason="notebooks are run by nbclient")
    pytest.importorskip("ipykernel", reason="notebooks are run by ipykernel")
    run = copy.deepcopy(notebook)
    run.cells.insert(0, _nbformat().v4.new_code_cell(FIRST))
    client = nbclient.NotebookClient(
        run,
        timeout=600,
        kernel_name="python3",
        resources={"metadata": {"path": str(FOLDER)}},
        store_widget_state=False,
        coalesce_streams=True,
    )
    client.execute(env={**os.environ, "JAX_PLATFORMS": "cpu"})
    del run.cells[0]
    return cleaned(run)


def cleaned(notebook: Any) -> Any:
    """The notebook without parts that differ from run to run: times, versions, numbers of widgets."""
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    count = 0
    for k, cell in enumerate(notebook.cells):
        cell.id = f"cell-{k}"
        cell.metadata = {"tags": cell.metadata.tags} if cell.metadata.get("tags") else {}
        if cell.cell_type != "code":
            continue
        count += 1
        cell.execution_count = count
        for output in cell.outputs:
            if "execution_count" in output:
                output.execution_count = count
            if "data" in output and len(output.data) > 1:
                output.data.pop(WIDGET, None)
    return notebook


def shown(cell: Any) -> list[str]:
    """The texts that a cell shows, in order; text printed in pieces is joined."""
    found: list[str] = []
    printed = ""
    for output in cell.outputs:
        if output.output_type == "stream":
            printed += output.text
            continue
        found += [printed] if printed else []
        printed = ""
        found += [output.data[kind] for kind in TEXTS if kind in output.get("data", {})]
    found += [printed] if printed else []
    return ["\n".join(line.rstrip() for line in text.splitlines()) for text in found]


def differences(stored: Any, run: Any) -> list[str]:
    """Where two runs of a notebook show different texts, cells tagged `timing` left out."""
    found = []
    for k, (old, new) in enumerate(zip(stored.cells, run.cells, strict=True)):
        if old.cell_type != "code" or "timing" in old.metadata.get("tags", []):
            continue
        if shown(old) != shown(new):
            found.append(f"cell {k}:\n{old.source}\nshows\n{shown(new)}\nbut is stored with\n{shown(old)}")
    return found


@pytest.mark.slow
def test_a_notebook_shows_what_comes_out(path: Path, request: pytest.FixtureRequest) -> None:
    stored = read(path)
    skip_unless_installed(stored)
    run = executed(stored)
    if request.config.getoption("--update-notebooks"):
        _nbformat().write(run, path)
        stored = run
    assert not differences(stored, run), "\n\n".join(differences(stored, run))


def test_outputs_are_kept_and_none_is_an_error(path: Path) -> None:
    cells = [cell for cell in read(path).cells if cell.cell_type == "code"]
    outputs = [output for cell in cells for output in cell.outputs]
    assert len([cell for cell in cells if cell.outputs]) >= 3
    assert not [output for output in outputs if output.output_type == "error"]
    assert not [output for output in outputs if output.get("name") == "stderr"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))


def test_a_notebook_opens_with_what_one_will_learn(path: Path) -> None:
    first = read(path).cells[0]
    assert first.cell_type == "markdown"
    assert first.source.startswith("# ")
    assert "learn" in first.source.lower()


def test_a_notebook_names_no_place_on_a_machine(path: Path) -> None:
    for cell in read(path).cells:
        texts = [cell.source, *(shown(cell) if cell.cell_type == "code" else [])]
        for text in texts:
            assert not MACHINE.search(text), MACHINE.findall(text)


def test_a_notebook_is_small_and_holds_nothing_that_differs_from_run_to_run(path: Path) -> None:
    assert path.stat().st_size < MOST_BYTES
    stored = read(path)
    _nbformat().validate(stored)
    assert json.dumps(stored, sort_keys=True) == json.dumps(cleaned(copy.deepcopy(stored)), sort_keys=True)


def test_the_lessons_are_numbered_from_0_on() -> None:
    numbers = [int(path.name.split("-")[0]) for path in NOTEBOOKS]
    assert numbers == list(range(len(NOTEBOOKS)))


def _notebook(source: str, text: str = "", tags: tuple[str, ...] = ()) -> Any:
    cell = _nbformat().v4.new_code_cell(source)
    cell.metadata = _nbformat().from_dict({"tags": list(tags)})
    cell.outputs = [_nbformat().v4.new_output("stream", name="stdout", text=text)] if text else []
    return _nbformat().v4.new_notebook(cells=[cell])


def test_a_stale_notebook_is_noticed_unless_it_shows_timings() -> None:
    stored, run = _notebook("print(1 + 1)", "3\n"), _notebook("print(1 + 1)", "2\n")
    assert differences(stored, stored) == []
    assert len(differences(stored, run)) == 1
    assert differences(_notebook("t", "3 s", ("timing",)), _notebook("t", "2 s", ("timing",))) == []


def test_a_notebook_that_imports_what_is_missing_is_skipped() -> None:
    skip_unless_installed(_notebook("import json\nfrom re import match"))
    with pytest.raises(pytest.skip.Exception, match="imports nowhere_to_be_found"):
        skip_unless_installed(_notebook("import json\nimport nowhere_to_be_found as n"))


@pytest.mark.slow
def test_a_warning_in_a_notebook_is_an_error() -> None:
    nbclient = pytest.importorskip("nbclient", reason="notebooks are run by nbclient")
    with pytest.raises(nbclient.exceptions.CellExecutionError, match="on its way out"):
        executed(_notebook("import warnings\nwarnings.warn('this is on its way out', DeprecationWarning)"))
    assert differences(_notebook("print(1 + 1)", "2\n"), executed(_notebook("print(1 + 1)"))) == []
