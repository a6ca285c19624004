"""Generated code as a function: what it sees of Python and its packages."""

from __future__ import annotations

import builtins
import os
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from jax.extend.source_info_util import register_exclusion

from tensorlang.budget import few_collections

_BUILTINS = (
    "abs",
    "all",
    "any",
    "bool",
    "enumerate",
    "float",
    "int",
    "isinstance",
    "len",
    "list",
    "max",
    "min",
    "range",
    "reversed",
    "slice",
    "sorted",
    "sum",
    "tuple",
    "zip",
)

_PACKAGES = frozenset({"jax", "numpy"})
"""The packages that generated code may import. NumPy's own methods import parts of it in the name of their caller."""
_REGISTRY = "tensorlang.language.routines"
"""Where generated code finds the functions that users have declared."""


class Generated(Protocol):
    """Python that defines a function of this name."""

    name: str

    @property
    def runnable(self) -> str:
        """The Python, perhaps without comments."""


_FILE = "<lowered "
for _path in (_FILE, f"{Path(__file__).parents[1]}{os.sep}"):
    register_exclusion(_path)  # JAX names the line that calls the code, and scans none of it for each operation's line


def defined(source: Generated) -> Any:
    """The function that `source` defines, which sees nothing but JAX and a few builtins."""
    allowed: dict[str, Any] = {name: getattr(builtins, name) for name in _BUILTINS}
    namespace: dict[str, Any] = {"__builtins__": {**allowed, "__import__": _import}, "__name__": "tensorlang.lowered"}
    exec(compile(source.runnable, f"{_FILE}{source.name}>", "exec"), namespace)
    return few_collections(namespace[source.name])  # it is called when it is traced


def _import(
    name: str,
    globals: Mapping[str, object] | None = None,
    locals: Mapping[str, object] | None = None,
    fromlist: tuple[str, ...] | None = (),
    level: int = 0,
) -> ModuleType:
    if (name.split(".", maxsplit=1)[0] not in _PACKAGES and name != _REGISTRY) or level:
        raise ImportError(f"lowered code imports JAX and NumPy alone, not {name}")
    return __import__(name, globals, locals, fromlist or (), level)
