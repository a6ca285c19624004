"""What a function of numbers calls: others that are read as it is, and those that the language knows by name."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NoReturn

_KNOWN = {"fabs": "abs", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "pow": "power"}
_KNOWN |= {"arccosh": "acosh", "arctanh": "atanh", "arctan2": "atan2", "maximum": "max", "minimum": "min"}
_KNOWN |= {"absolute": "abs", "rint": "round", "remainder": "mod", "logistic": "sigmoid"}
_MODULES = ("math", "numpy", "jax", "jaxlib", "builtins")


class ReadFunction(ABC):
    """A Python function of numbers whose definition is read."""

    name: str
    body: Callable[..., Any]
    whole: frozenset[str]
    """The parameters that are whole numbers."""

    @property
    @abstractmethod
    def tree(self) -> ast.FunctionDef:
        """Its definition, as Python reads it."""

    @abstractmethod
    def outside(self) -> dict[str, Any]:
        """The names that it reads from outside, as they are now."""

    @abstractmethod
    def refuse(self, at: ast.AST, what: str, instead: str) -> NoReturn:
        """Raise `TypeMismatch` for a part of the definition, with what to write instead."""


def home(f: Any) -> str:
    """The package that a function is of."""
    return str(getattr(f, "__module__", None) or type(f).__module__ or "").split(".")[0]


def known_name(f: Any) -> str | None:
    """What the language calls a function of math, numpy, jax.numpy or its own; None for any other."""
    name = getattr(f, "__name__", None)
    known = home(f) in (*_MODULES, "tensorlang") and isinstance(name, str)
    return _KNOWN.get(str(name), str(name)) if known else None
