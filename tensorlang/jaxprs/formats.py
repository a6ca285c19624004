"""The linter's reports for people and for machines, and the functions of a file that are to be linted."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from inspect import signature
from pathlib import Path
from traceback import extract_tb
from typing import Any

from tensorlang.errors import ArgumentError
from tensorlang.jaxprs.lint import CODES, Report
from tensorlang.language.function import did_you_mean

_COMMENT = re.compile(r"^#\s*lint:\s*(?P<shapes>.*?)\s*$\n(?:^@.*$\n)*^def\s+(?P<name>\w+)", re.MULTILINE)


def functions_in(where: str, shapes: str | None) -> list[tuple[Callable[..., Any], tuple[str, ...]]]:
    """The functions that `where` names, with their arguments' shapes.

    `where` is `FILE.py::name`, with the shapes in `shapes` or a comment; or FILE.py, a folder, or the name of an
    importable module or package, for all functions in it with shapes in a comment such as `# lint: x: n, A: n n` in the
    line above. Raises `ArgumentError`.
    """
    place, _, name = where.partition("::")
    files = _files(place)
    if not name:
        found = []
        for path in files:
            told = _told(path)
            module = _module(path) if told else None
            found += [_asked(path, key, getattr(module, key), given) for key, given in told.items()]
        if not found:
            hint = f"name one, {place}::f, or write its shapes above it: # lint: x: n, A: n n"
            raise ArgumentError(f"no function of {place} says its shapes", hint=hint)
        return found
    if Path(place).is_dir():
        raise ArgumentError(f"{place} is a folder", hint="FILE.py::function, or the folder alone")
    (path,) = files[:1]
    told, module = _told(path), _module(path)
    fun = getattr(module, name, None)
    if not callable(fun):
        known = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise ArgumentError(f"{place} has no function {name}", hint=did_you_mean(name, known))
    asked = shapes if shapes is not None else told.get(name)
    if asked is None:
        hint = f'--shapes "x: n, A: n n", or a comment above {name}: # lint: x: n, A: n n'
        raise ArgumentError(f"the shapes of {name}'s arguments are not known", hint=hint)
    return [_asked(path, name, fun, asked)]


def _asked(path: Path, name: str, fun: Callable[..., Any], shapes: str) -> tuple[Callable[..., Any], tuple[str, ...]]:
    """The function, with errors placed at the user's line, and its arguments' shapes in the order of its parameters."""
    given = read_shapes(shapes)

    @wraps(fun)
    def call(*args: Any) -> Any:
        try:
            return fun(*args)
        except Exception as error:  # the user's function may raise anything
            lines = [f.lineno for f in extract_tb(error.__traceback__) if Path(f.filename).resolve() == path.resolve()]
            where = f"{path}:{lines[-1]}" if lines else str(path)
            first = (str(error).splitlines() or [""])[0]
            raise ArgumentError(f"{where}: {name} fails at {shapes}: {type(error).__name__}: {first}") from error

    return call, _in_order(name, fun, given)


def _in_order(name: str, fun: Callable[..., Any], given: Mapping[str, str]) -> tuple[str, ...]:
    """The shapes given by parameter, as a sequence for the first parameters."""
    try:
        parameters = signature(fun).parameters.values()
    except (TypeError, ValueError):
        return tuple(given.values())
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return tuple(given.values())
    known = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    for unknown in given.keys() - set(known):
        raise ArgumentError(f"{name} has no parameter {unknown}", hint=did_you_mean(unknown, known))
    first = known[: len(given)]
    for missing in first:
        if missing not in given:
            raise ArgumentError(f"the shape of the argument {missing} of {name} is not known")
    return tuple(given[key] for key in first)


def _files(place: str) -> list[Path]:
    """The Python files of a file, a folder, or an importable module or package, whose own file comes first."""
    path = Path(place)
    if path.is_dir():
        return sorted(path.rglob("*.py"))
    if path.suffix == ".py" or not all(word.isidentifier() for word in place.split(".")):
        return [path]
    try:
        spec = importlib.util.find_spec(place)
    except ImportError:
        spec = None
    if spec is None or spec.origin is None:
        raise ArgumentError(f"there is no module {place}", hint="FILE.py, a folder, or the name of a module")
    own = Path(spec.origin)
    rest = sorted(own.parent.rglob("*.py")) if spec.submodule_search_locations else []
    return [own, *(other for other in rest if other != own)]


def _told(path: Path) -> dict[str, str]:
    """The shapes in comments, by function."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError(f"can't read {path}: {getattr(error, 'strerror', None) or 'it is no text'}") from None
    return {found["name"]: found["shapes"] for found in _COMMENT.finditer(text)}


def read_shapes(text: str) -> dict[str, str]:
    """The shapes of "x: n, A: n n" by name, each as `tl.from_jax` takes it: "y: n: int32" has a dtype."""
    found: dict[str, str] = {}
    for part in text.split(","):
        name, colon, shape = part.partition(":")
        if not colon or not name.strip().isidentifier():
            raise ArgumentError(
                f"{part.strip()!r} is no shape of an argument", hint='such as "x: n, A: n n, i: m: int32"'
            )
        if name.strip() in found:
            raise ArgumentError(f"{name.strip()} has two shapes")
        found[name.strip()] = shape.strip()
    return found


def _module(path: Path) -> Any:
    """The module of a file, as a part of its package if it is in one, so that it can import its neighbours."""
    root, name = path.resolve().parent, path.stem
    while (root / "__init__.py").exists():
        root, name = root.parent, f"{root.name}.{name}"
    name = name.removesuffix(".__init__")
    packaged = "." in name or path.stem == "__init__"
    spec = None if packaged else importlib.util.spec_from_file_location(name, path)
    if spec is None and not packaged:
        raise ArgumentError(f"{path} is no Python file", hint="FILE.py::function")
    sys.path.insert(0, str(root))
    try:
        if spec is None or spec.loader is None:
            found = importlib.import_module(name)
            if Path(str(found.__file__)).resolve() != path.resolve():
                raise ImportError(f"{name} is another file, {found.__file__}")
            return found
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    except (Exception, SystemExit) as error:
        raise ArgumentError(f"{path} can't be imported: {type(error).__name__}: {error}") from None
    finally:
        sys.path.remove(str(root))


def as_text(reports: Sequence[Report]) -> str:
    """The reports in order, with a summary if there are several."""
    lines = list(map(str, reports))
    if len(reports) > 1:
        found = sum(bool(r.findings) for r in reports)
        lines.append(f"{len(reports)} functions: {len(reports) - found} fine, {found} with findings")
    return "\n".join(lines)


def as_json(reports: Iterable[Report]) -> list[dict[str, Any]]:
    """The reports as values of JSON."""
    return [
        {
            "function": r.name,
            "fine": not r.findings,
            "value": r.value_work,
            "gradient": r.gradient_work,
            "unknown": [what.strip() for what in r.unknown],
            "hints": list(r.hints),
            "findings": [
                {
                    "code": f.code,
                    "file": None if f.line is None else f.line.filename,
                    "line": None if f.line is None else f.line.line,
                    "primitive": f.primitive,
                    "sizes": list(f.sizes),
                    "factors": [round(x, 3) for x in f.factors],
                    "compiled": None if f.compiled is None else [round(x, 3) for x in f.compiled],
                    "operations": f.operations[0],
                    "derived": f.operations[1],
                    "message": f.message,
                }
                for f in r.findings
            ],
        }
        for r in reports
    ]


def as_github(reports: Iterable[Report]) -> str:
    """The findings as annotations of a GitHub workflow."""
    lines = []
    for r in reports:
        for f in r.findings:
            place = "" if f.line is None else f" file={f.line.filename},line={f.line.line}"
            lines.append(f"::warning{place}::{f.message}".replace("%", "%25"))
    return "\n".join(lines)


def as_sarif(reports: Iterable[Report]) -> dict[str, Any]:
    """The findings in the Static Analysis Results Interchange Format, version 2.1.0."""
    results = []
    for r in reports:
        for f in r.findings:
            result: dict[str, Any] = {"ruleId": f.code, "level": "warning", "message": {"text": f.message}}
            if f.line is not None:
                region = {"startLine": f.line.line}
                place = {"artifactLocation": {"uri": Path(f.line.filename).as_posix()}, "region": region}
                result["locations"] = [{"physicalLocation": place}]
            results.append(result)
    rules = [{"id": code, "shortDescription": {"text": text}} for code, text in CODES.items()]
    tool = {"driver": {"name": "tensorlang lint", "rules": rules}}
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return {"$schema": schema, "version": "2.1.0", "runs": [{"tool": tool, "results": results}]}
