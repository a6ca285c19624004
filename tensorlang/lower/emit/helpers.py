"""The source of the functions in `parts`, and which of the others each calls."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from tensorlang.lower.emit.library import (
    bands,
    blocks,
    correlations,
    extrema,
    loops,
    mesh,
    pieces,
    recurrences,
    relations,
    tiles,
    windows,
)

_MODULES: tuple[ModuleType, ...] = (
    extrema,
    windows,
    blocks,
    bands,
    correlations,
    loops,
    recurrences,
    pieces,
    relations,
    mesh,
    tiles,
)


_TRITON = Path(inspect.getfile(tiles)).with_name("triton.py")
"""Never imported here: newer versions of JAX warn of Triton, and will be without it."""


def _functions(source: str) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Each function's name, its source, and the names in it."""
    lines = source.splitlines()
    for f in ast.parse(source).body:
        if isinstance(f, ast.FunctionDef):
            names = frozenset(node.id for node in ast.walk(f) if isinstance(node, ast.Name))
            yield f.name, "\n".join(lines[f.lineno - 1 : f.end_lineno]), names


_SOURCES = [*map(inspect.getsource, _MODULES), _TRITON.read_text()]
_FOUND = [found for source in _SOURCES for found in _functions(source)]

HELPERS = {name: source for name, source, _ in _FOUND}
"""Their source by name."""

_CALLED = {name: names & HELPERS.keys() for name, _, names in _FOUND}


def _calls(name: str) -> tuple[str, ...]:
    """All functions that a part needs besides itself, the calls of calls too."""
    found: dict[str, None] = {}
    stack = [name]
    while stack:
        fresh = [called for called in sorted(_CALLED[stack.pop()]) if called not in found]
        found.update(dict.fromkeys(fresh))
        stack += fresh
    return tuple(found)


NEEDS = {name: _calls(name) for name in HELPERS}
"""Which of the others a helper calls."""
