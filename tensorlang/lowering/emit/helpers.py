"""The source of the functions of the library, and what each reads."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

from tensorlang.lowering.emit.library import (
    bands,
    blocks,
    chunks,
    correlations,
    extrema,
    groups,
    loops,
    mesh,
    pieces,
    recurrences,
    relations,
    scalars,
    tiles,
    windows,
)

_MODULES: tuple[ModuleType, ...] = (
    extrema,
    windows,
    blocks,
    chunks,
    bands,
    correlations,
    loops,
    recurrences,
    pieces,
    relations,
    groups,
    mesh,
    tiles,
    scalars,
)


_FOR_GPUS = [Path(inspect.getfile(tiles)).with_name(name) for name in ("triton.py", "mosaic.py")]
"""Never imported here: newer versions of JAX warn of Triton, and will be without it; older ones have no Mosaic GPU that
can be interpreted."""


def _functions(source: str) -> Iterator[tuple[ast.FunctionDef, str]]:
    """Each function, and its source."""
    lines = source.splitlines()
    for f in ast.parse(source).body:
        if isinstance(f, ast.FunctionDef):
            first = min([f.lineno, *(part.lineno for part in f.decorator_list)])
            yield f, "\n".join(lines[first - 1 : f.end_lineno])


def _thresholds(f: ast.FunctionDef) -> Iterator[str]:
    """The names of the costs that a function goes by."""
    for node in ast.walk(f):
        match node:
            case ast.Subscript(ast.Name("COSTS"), ast.Constant(str() as name)):
                yield name


def names_read(f: ast.AST) -> frozenset[str]:
    """The names in a piece of Python."""
    return frozenset(node.id for node in ast.walk(f) if isinstance(node, ast.Name))


_SOURCES = [*map(inspect.getsource, _MODULES), *(path.read_text() for path in _FOR_GPUS)]
_FOUND = [found for source in _SOURCES for found in _functions(source)]

HELPERS = {f.name: text for f, text in _FOUND}
"""Their source by name."""

assert len(HELPERS) == len(_FOUND), "two functions of the library have the same name"

READS = {f.name: names_read(f) for f, _ in _FOUND}
"""The names that each reads: of modules, and of others of them."""

THRESHOLDS_OF = {f.name: frozenset(_thresholds(f)) for f, _ in _FOUND}
"""The names of the costs that each goes by."""


def with_called(names: Iterable[str]) -> dict[str, None]:
    """`names`, with all that the helpers among them read, directly or by way of others."""
    found = dict.fromkeys(names)
    stack = list(found)
    while stack:
        fresh = [name for name in READS.get(stack.pop(), ()) if name not in found]
        found.update(dict.fromkeys(fresh))
        stack += fresh
    return found
