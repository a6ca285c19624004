"""Records of parameters: a NamedTuple, a dataclass or a dict of types stands for a parameter for each of its fields.

    class Params(NamedTuple):              f(p: Params, x: tl.R[n]) has the parameters w, b and x,
        w: tl.R[m, n]                      and is called with Params(w, b), x
        b: tl.R[m]

Fields may be such records again. In the Python function, p is a Params of terms.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

from tensorlang.errors import ScopeError, here


def fields(kind: Any, names: Mapping[str, Any]) -> dict[str, Any] | None:
    """The types of the fields of a record, by name; None if `kind` is none.

    `names` are those known where annotations that are strings were written. Raises `ScopeError` for an unknown one.
    """
    if isinstance(kind, dict) and all(isinstance(name, str) for name in kind):
        return dict(kind)
    if not isinstance(kind, type):
        return None
    wanted: tuple[str, ...]
    if dataclasses.is_dataclass(kind):
        wanted = tuple(f.name for f in dataclasses.fields(kind) if f.init)
    elif issubclass(kind, tuple) and hasattr(kind, "_fields"):
        wanted = kind._fields
    else:
        return None
    types = inspect.get_annotations(kind)
    return {name: _evaluated(types.get(name), kind, names) for name in wanted}


def _evaluated(annotation: Any, kind: type, names: Mapping[str, Any]) -> Any:
    """An annotation of a field of `kind`, which may be a string."""
    text = getattr(annotation, "__forward_arg__", annotation)
    if not isinstance(text, str):
        return annotation
    module = sys.modules.get(kind.__module__)
    try:
        return eval(text, dict(vars(module)) if module else {}, dict(names))
    except (NameError, SyntaxError) as error:
        hint = 'sizes are made before they are used: n = tl.sizes("n")'
        raise ScopeError(f"an annotation of {kind.__name__} can't be evaluated: {error}", here(), hint) from None


def maker(kind: Any) -> Callable[..., Any]:
    """A function that makes a record from the values of its fields, given by name."""
    return dict if isinstance(kind, dict) else kind
