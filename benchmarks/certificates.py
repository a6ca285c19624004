"""`python -m benchmarks.certificates`: for how many programs the checker decides everything, and how long it takes.

The programs are those of the benchmarks, with recurrences and without, and those in the pages, lessons, notebooks and
examples: every text there that is a program with a derivative. Prints a row for each program about which something is
undecided, or for which certifying or checking takes 10 seconds of one core or more; then the numbers.
"""

from __future__ import annotations

import ast
import json
import re
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import tensorlang as tl
from benchmarks.programs import CASES
from benchmarks.through_time import PROGRAMS
from proofs.checker.budget import TooLarge
from proofs.checker.certificate import check
from proofs.checker.trees import Refused
from tensorlang.certificate import certify

_ROOT = Path(__file__).parent.parent
_LONG = 10.0
_BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _codes() -> Iterator[tuple[Path, str]]:
    """The code in pages, notebooks and examples, and programs that are files, each with its file."""
    for path in sorted([_ROOT / "README.md", *(_ROOT / "docs").rglob("*.md")]):
        yield from ((path, code) for code in _BLOCK.findall(path.read_text()))
    for path in sorted((_ROOT / "docs").rglob("*.ipynb")):
        yield from ((path, "".join(cell["source"])) for cell in json.loads(path.read_text())["cells"])
    for path in sorted((_ROOT / "examples").glob("*")):
        if path.suffix in (".py", ".tl"):
            yield path, path.read_text()


def _texts(code: str) -> Iterator[str]:
    """`code` itself, and if it is Python the strings in it."""
    yield code
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return
    yield from (e.value for e in ast.walk(tree) if isinstance(e, ast.Constant) and isinstance(e.value, str))


def written() -> list[tuple[str, tl.Function]]:
    """The programs in pages and examples, each once, with its place."""
    found: dict[str, tuple[str, tl.Function]] = {}
    for path, code in _codes():
        for text in _texts(code):
            try:
                f = tl.parse(text)
                tl.adjoint(f)
            except tl.TensorlangError:
                continue
            found.setdefault(str(f), (f"{f.name} in {path.relative_to(_ROOT)}", f))
    return list(found.values())


def main() -> None:
    """Print the rows and numbers."""
    own = [(case.name, case.function, case.wrt or None) for case in CASES]
    own += [(name, tl.parse(text), None) for text, name in {p.text: p.name for p in reversed(PROGRAMS)}.items()]
    others = [(name, f, None) for name, f in written()]
    decided = 0
    for name, f, wrt in [*own, *others]:
        times = [time.thread_time()]
        try:
            text = certify(f, wrt=wrt).to_json()
            times.append(time.thread_time())
            report = check(text)
            said = "" if report.decided else str(report).partition("\n")[0]
        except (tl.TensorlangError, Refused, TooLarge) as error:
            said = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        times.append(time.thread_time())
        spent = [b - a for a, b in pairwise(times)]
        decided += not said
        if said or max(spent) >= _LONG:
            print(f"{name}: {', '.join(f'{s:.1f} s' for s in spent)} {said}".rstrip(), flush=True)
    print(f"{len(own)} benchmark programs and {len(others)} of pages and examples, {decided} decided in every link")


if __name__ == "__main__":
    main()
