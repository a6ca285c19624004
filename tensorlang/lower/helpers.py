"""The source of the functions in `parts`, and which of the others each calls."""

from __future__ import annotations

import ast
import inspect
from types import ModuleType

from tensorlang.lower.parts import blocks, correlations, extrema, loops, pieces, relations, windows

_MODULES: tuple[ModuleType, ...] = (extrema, windows, blocks, correlations, loops, pieces, relations)


def _functions(module: ModuleType) -> dict[str, str]:
    source = inspect.getsource(module)
    nodes = ast.parse(source).body
    return {f.name: ast.get_source_segment(source, f) or "" for f in nodes if isinstance(f, ast.FunctionDef)}


HELPERS = {name: source for module in _MODULES for name, source in _functions(module).items()}
"""Their source by name."""


def _calls(source: str) -> tuple[str, ...]:
    """All functions that a part needs besides itself, the calls of calls too."""
    found: dict[str, None] = {}
    stack = [source]
    while stack:
        names = [node.id for node in ast.walk(ast.parse(stack.pop())) if isinstance(node, ast.Name)]
        fresh = [name for name in names if name in HELPERS and name not in found]
        found.update(dict.fromkeys(fresh))
        stack += [HELPERS[name] for name in fresh]
    return tuple(found)


NEEDS = {name: _calls(source) for name, source in HELPERS.items()}
"""Which of the others a helper calls."""
