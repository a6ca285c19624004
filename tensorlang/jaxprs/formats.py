"""The linter's reports for people and for machines, and the functions of a file that are to be linted."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tensorlang.errors import ArgumentError
from tensorlang.jaxprs.lint import CODES, Report
from tensorlang.language.function import did_you_mean

_COMMENT = re.compile(r"^#\s*lint:\s*(?P<shapes>.*?)\s*$\n(?:^@.*$\n)*^def\s+(?P<name>\w+)", re.MULTILINE)


def functions_in(where: str, shapes: str | None) -> list[tuple[Callable[..., Any], tuple[str, ...]]]:
    """The functions that `FILE.py::name` names, or all of FILE.py above which a comment gives shapes, and these.

    A comment is such as `# lint: x: n, A: n n`, in the line above the function. Raises `ArgumentError`.
    """
    file, _, name = where.partition("::")
    path = Path(file)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError(f"can't read {file}: {getattr(error, 'strerror', None) or 'it is no text'}") from None
    told = {found["name"]: found["shapes"] for found in _COMMENT.finditer(text)}
    module = _module(path)
    if name:
        fun = getattr(module, name, None)
        if not callable(fun):
            known = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
            raise ArgumentError(f"{file} has no function {name}", hint=did_you_mean(name, known))
        given = shapes if shapes is not None else told.get(name)
        if given is None:
            hint = f'--shapes "x: n, A: n n", or a comment above {name}: # lint: x: n, A: n n'
            raise ArgumentError(f"the shapes of {name}'s arguments are not known", hint=hint)
        return [(fun, read_shapes(given))]
    if not told:
        hint = f"name one, {file}::f, or write its shapes above it: # lint: x: n, A: n n"
        raise ArgumentError(f"no function of {file} says its shapes", hint=hint)
    return [(getattr(module, key), read_shapes(given)) for key, given in told.items()]


def read_shapes(text: str) -> tuple[str, ...]:
    """The shapes of "x: n, A: n n" in order, each as `tl.from_jax` takes it: "y: n: int32" has a dtype."""
    found = []
    for part in text.split(","):
        name, colon, shape = part.partition(":")
        if not colon or not name.strip().isidentifier():
            raise ArgumentError(
                f"{part.strip()!r} is no shape of an argument", hint='such as "x: n, A: n n, i: m: int32"'
            )
        found.append(shape.strip())
    return tuple(found)


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ArgumentError(f"{path} is no Python file", hint="FILE.py::function")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise ArgumentError(f"{path} can't be imported: {type(error).__name__}: {error}") from None
    finally:
        sys.path.remove(str(path.parent))
    return module


def as_json(reports: Iterable[Report]) -> list[dict[str, Any]]:
    """The reports as values of JSON."""
    return [
        {
            "function": r.name,
            "fine": not r.findings,
            "value": r.value_work,
            "gradient": r.gradient_work,
            "unknown": [what.strip() for what in r.unknown],
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
