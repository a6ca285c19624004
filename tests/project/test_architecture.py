"""The house: imports between the package's folders go one way only, and there are no circles between its files."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import tensorlang
from tests.support.sampling import COMPILING

ROOT = Path(tensorlang.__file__).parent
BASE = ("budget", "disk", "errors", "interning", "memory", "recursion", "shown")
FOLDERS = (
    "language",
    "scalars",
    "sets",
    "surface",
    "normal",
    "costs",
    "derivatives",
    "simplification",
    "lowering",
    "measure",
    "transforms",
)
FLOORS = (*FOLDERS, "pipeline", "declared", "sparse", "certificate", "jaxprs", "pictures", "notebook")
TOP = (
    "__init__",
    "__main__",
    "checks",
    "cli",
    "console",
    "entrances",
    "files",
    "fn",
    "jax",
    "lib",
    "passes",
    "play",
    "testing",
)

MODULES = sorted(path.relative_to(ROOT) for path in ROOT.rglob("*.py"))


def level(module: Path) -> int:
    """How high in the house a module lives: it may import from its own floor and those below."""
    place = module.with_suffix("").parts[0]
    if place in BASE:
        return 0
    return 1 + FLOORS.index(place) if place in FLOORS else 1 + len(FLOORS)


@cache
def tree(module: Path) -> ast.Module:
    return ast.parse((ROOT / module).read_text())


def imports(module: Path) -> Iterator[tuple[int, Path]]:
    """The modules of the package that `module` imports, anywhere in it, and the lines where."""
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno} imports relatively"
            base = node.module or ""
            names = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] != "tensorlang":
                continue
            target = ROOT.joinpath(*parts[1:])
            while target != ROOT and not (target.with_suffix(".py").exists() or (target / "__init__.py").exists()):
                target = target.parent
            yield node.lineno, target.relative_to(ROOT) if target != ROOT else Path("__init__")


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_imports_go_one_way_only(module: Path) -> None:
    upward = [f"line {line}: {target}" for line, target in imports(module) if level(target) > level(module)]
    assert not upward, f"{module} imports from above: {upward}"


ROOMS = ("plan", "arrays", "kernels", "mesh", "emit")
"""The rooms of lowering. Each imports only those before it, and the library, which is Python to be copied.

The code that runs generated code is above all of them.
"""


def _room(module: Path) -> int | None:
    """Which of the rooms a module is in."""
    if module.parts[0] != "lowering" or len(module.parts) < 3:
        return None
    is_above, is_below = module.stem == "run", module.parts[1:3] == ("emit", "library")
    return len(ROOMS) if is_above else -1 if is_below else ROOMS.index(module.parts[1])


@pytest.mark.parametrize("module", [m for m in MODULES if _room(m) is not None], ids=str)
def test_the_stages_of_lowering_know_nothing_of_later_ones(module: Path) -> None:
    own = _room(module)
    assert own is not None
    found = [(line, target, _room(target)) for line, target in imports(module)]
    upward = [f"line {line}: {target}" for line, target, room in found if room is not None and room > own]
    assert not upward or own < 0, f"{module} imports from a later stage: {upward}"


def test_only_emitters_write_python() -> None:
    writers = {m for m in MODULES if Path("lowering/emit/python.py") in files(m)}
    assert {m.parts[:2] for m in writers} <= {("lowering", "emit")}


def files(module: Path) -> set[Path]:
    """The files of the package that `module` imports, anywhere in it."""
    found = set()
    for _, target in imports(module):
        package = ROOT / target / "__init__.py"
        found.add(target.with_suffix(".py") if not package.exists() else package.relative_to(ROOT))
    return found - {module}


def circle(arrows: dict[Path, set[Path]]) -> list[Path]:
    """Files each of which imports the next, and the last one the first; empty if there is no such circle."""
    done: set[Path] = set()
    for start in arrows:
        path: list[Path] = []
        stack: list[tuple[Path, bool]] = [(start, False)]
        while stack:
            file, is_left = stack.pop()
            if is_left:
                done.add(path.pop())
            elif file in path:
                return [*path[path.index(file) :], file]
            elif file not in done:
                path.append(file)
                stack += [(file, True), *((other, False) for other in arrows.get(file, ()))]
    return []


def test_no_file_imports_itself_by_way_of_others() -> None:
    assert not circle({module: files(module) for module in MODULES})


def test_a_circle_is_noticed() -> None:
    a, b, c = map(Path, "abc")
    assert circle({a: {b}, b: {c}, c: {b}}) == [b, c, b]
    assert not circle({a: {b, c}, b: {c}})


def public_classes(module: Path) -> Iterator[str]:
    """The names of the classes that `module` defines for others."""
    yield from (n.name for n in tree(module).body if isinstance(n, ast.ClassDef) and not n.name.startswith("_"))


def test_the_name_of_a_public_class_is_defined_by_one_module_only() -> None:
    homes: dict[str, list[str]] = {}
    for module in MODULES:
        for name in public_classes(module):
            homes.setdefault(name, []).append(str(module))
    several = [f"{name}: {', '.join(found)}" for name, found in sorted(homes.items()) if len(found) > 1]
    assert not several, "needs a qualifier: " + "; ".join(several)


def test_every_module_has_a_place_in_the_house() -> None:
    known = {*BASE, *FLOORS, *TOP}
    assert {module.with_suffix("").parts[0] for module in MODULES} <= known
    assert {module.parts[0] for module in MODULES if len(module.parts) > 1} <= {*FOLDERS, *FLOORS, "play"}


def test_only_one_module_imports_islpy() -> None:
    found = []
    for module in MODULES:
        for node in ast.walk(tree(module)):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.split(".")[0] == "islpy" for name in names):
                found.append(str(module))
    assert found == ["sets/isl.py"]


def test_an_import_from_above_is_noticed() -> None:
    assert level(Path("language/affine.py")) < level(Path("sets/isl.py")) < level(Path("cli.py"))
    assert Path("language/affine") in {target for _, target in imports(Path("language/grammar.py"))}


GUIDED = (
    "costs",
    "declared",
    "derivatives",
    "jaxprs",
    "lowering/arrays/sums",
    "measure",
    "scalars",
    "sets",
    "sparse",
    "surface",
    "transforms",
)
"""The rooms whose guides name each of their modules."""


@pytest.mark.parametrize("room", GUIDED)
def test_a_guide_names_each_module_of_its_room_and_no_other(room: str) -> None:
    folder = ROOT / room
    guide = ast.get_docstring(tree(Path(room, "__init__.py"))) or ""
    modules = {path.stem for path in folder.iterdir() if path.suffix == ".py"} - {"__init__"}
    assert not {name for name in modules if not re.search(rf"\b{name}\b", guide)}
    assert set(re.findall(r"(?<![\w/])(\w+)\.py\b", guide)) <= modules
    assert len(guide.splitlines()) <= 50


def test_folders_of_tests_that_compile_exist() -> None:
    assert all((ROOT.parent / "tests" / name).is_dir() for name in COMPILING)
