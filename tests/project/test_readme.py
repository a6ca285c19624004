"""The README is true: its commands are CI's, its example's output is real, and its modules exist."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import tensorlang as tl
from tensorlang.cli import main
from tests.support import ROOT
from tests.support.documents import blocks, outputs

README = (ROOT / "README.md").read_text()


def test_the_readmes_test_command_is_what_ci_runs() -> None:
    commands = [line for block in blocks(README, "sh") for line in block.splitlines()]
    tests = [line for line in commands if "tasks.py test" in line]
    assert len(tests) == 1
    assert f'step "{tests[0]}"' in (ROOT / ".ci" / "run").read_text()


@pytest.mark.parametrize(("constraints", "python"), [("constraints.txt", "3.11"), ("constraints-newest.txt", "3.13")])
def test_the_versions_that_the_readme_calls_tested_are_those_that_ci_installs(constraints: str, python: str) -> None:
    pinned = re.search(r"^jax==(\d+\.\d+)", (ROOT / constraints).read_text(), re.MULTILINE)
    assert pinned is not None
    pages = [" ".join((ROOT / page).read_text().split()) for page in ("README.md", "docs/install.md")]
    assert all(f"Python {python} with JAX {pinned[1]}" in page and constraints in page for page in pages)
    assert f"-c {constraints} " in (ROOT / ".ci" / "run").read_text()


def test_the_readmes_examples_print_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    told = [
        (example.printed, printed) for example, printed in outputs(README, "README.md") if example.printed is not None
    ]
    assert len(told) == 4
    for said, printed in told:
        assert printed == said


@pytest.mark.slow
def test_the_readmes_shell_commands_exist() -> None:
    lines = [line for block in blocks(README, "sh") for line in block.splitlines() if line.startswith("tensorlang ")]
    commands = {line.split()[1] for line in lines}
    assert commands == set(main.commands)
    for line in lines:
        arguments = line.split("#")[0].split()[1:]
        if "--inputs" not in arguments and not {"tune", "play"} & {*arguments}:
            result = CliRunner().invoke(main, [a.replace("examples/", f"{ROOT}/examples/") for a in arguments])
            assert result.exit_code == 0, result.output


def test_the_modules_that_the_readme_names_exist() -> None:
    rows = [row for row in README.splitlines() if row.startswith("| ") and "`" in row]
    assert len(rows) > 5
    for row in rows:
        folder = ""
        for name in re.findall(r"`([\w/]+\.py)`", row):
            folder = name.rpartition("/")[0] or folder
            assert (ROOT / "tensorlang" / folder / name.rpartition("/")[2]).exists(), name


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*")), ids=lambda path: path.name)
def test_the_examples_are_programs(path: Path) -> None:
    if path.suffix == ".tl":
        assert tl.parse_module(path.read_text(), source=path.name)
    elif path.suffix == ".py":
        ast.parse(path.read_text())


@pytest.mark.slow
def test_the_main_job_restores_the_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    command = [sys.executable, str(ROOT / "examples" / "deblur.py"), "--out", str(tmp_path / "deblur.png")]
    command += ["--arrays", str(tmp_path / "pictures.npz")]
    done = subprocess.run([*command, "--steps", "8"], capture_output=True, text=True, check=True, cwd=tmp_path)
    before, after = map(float, re.findall(r"error \(RMS\)\s+([\d.]+) before, ([\d.]+) after", done.stdout)[0])
    assert after < 0.8 * before
    assert (tmp_path / "deblur.png").read_bytes().startswith(b"\x89PNG")
    arguments = ["run", str(ROOT / "examples" / "deblur.tl"), "--inputs", str(tmp_path / "pictures.npz")]
    assert CliRunner().invoke(main, arguments).exit_code == 0
