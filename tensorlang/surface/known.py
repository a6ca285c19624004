"""The language's names for scalar functions of Python modules; and functions that are read from their source."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, NoReturn

from tensorlang.language.functions import functions

_KNOWN = {"fabs": "abs", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "pow": "power"}
_KNOWN |= {"arccosh": "acosh", "arctanh": "atanh", "arctan2": "atan2", "maximum": "max", "minimum": "min"}
_KNOWN |= {"absolute": "abs", "rint": "round", "remainder": "mod", "logistic": "sigmoid", "gammaln": "lgamma"}
_MODULES = ("math", "numpy", "jax", "jaxlib", "builtins")


class FromSource:
    """A scalar function whose source is read: its definition, and the names that it reads from outside."""

    name: str
    body: Callable[..., Any]
    bound: int | None
    whole: frozenset[str]
    tree: ast.FunctionDef

    def outside(self) -> dict[str, Any]:
        """The names that it reads from outside, with their current values."""
        raise NotImplementedError

    def refuse(self, node: ast.AST, message: str, hint: str) -> NoReturn:
        """Raise `TypeMismatch` at the line of `node`."""
        raise NotImplementedError


def home(f: Any) -> str:
    """The package that a function is from."""
    return str(getattr(f, "__module__", None) or type(f).__module__ or "").split(".")[0]


def known_name(f: Any) -> str | None:
    """The language's name for a function of math, numpy, jax.numpy or its own; None for any other function."""
    name = getattr(f, "__name__", None)
    known = home(f) in (*_MODULES, "tensorlang") and isinstance(name, str)
    found = _KNOWN.get(str(name), str(name)) if known else None
    return None if found in functions() and functions()[found].shared is not None else found
