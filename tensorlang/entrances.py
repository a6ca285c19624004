"""The public functions as users call them: errors for wrong calls, and errors without a place, get the user's line."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from fractions import Fraction
from functools import wraps
from importlib import import_module
from types import ModuleType
from typing import Any, NoReturn

from tensorlang.errors import ArgumentError, TensorlangError, UnknownAttribute, here
from tensorlang.language.function import Function
from tensorlang.language.functions import functions
from tensorlang.surface.words import WORDS

_KINDS: dict[str, type | tuple[type, ...]] = {
    "None": type(None),
    "bool": bool,
    "int": int,
    "float": (int, float),
    "str": str,
    "Fraction": Fraction,
    "Mapping": Mapping,
    "Sequence": Sequence,
    "Function": Function,
    "Axes": type(None),  # of Matplotlib, which has its own words for anything else
}
"""The parameter types that arguments are checked against: for switches before the call, since any value would pass
for a bool; for all others only after the call has failed."""

_LATER = {"Certificate": "tensorlang.certificate"}
"""Further such types, with the modules from which they are imported when needed."""

_BINDERS = ("gen", "sum", "max", "min", "argmax", "argmin", "exists")


def guard(module: ModuleType, names: Iterable[str]) -> None:
    """Wrap the functions among the module's `names`, so that they say what is wrong with a call and where it was."""
    for name in names:
        what = getattr(module, name)
        if inspect.isfunction(what):
            setattr(module, name, entrance(what, name, module.__name__))


def entrance(f: Callable[..., Any], name: str, module: str) -> Callable[..., Any]:
    """`f`, called `name` in `module`; it raises `ArgumentError` for calls that it can't take.

    If its first parameter is a `Function`, the argument must be one. Errors that have no place get the user's line.
    """
    parameters = list(inspect.signature(f).parameters.values())
    shown = f"{module}.{name}".replace("tensorlang", "tl")
    program = parameters[0].name if parameters and parameters[0].annotation in ("Function", Function) else None

    switches = [p.name for p in parameters if _kinds_of(p) == ["bool"]]

    @wraps(f)
    def run(*args: Any, **kwargs: Any) -> Any:
        if program is not None and (args or program in kwargs):
            given = args[0] if args else kwargs[program]
            if not isinstance(given, Function):
                raise _no_program(shown, given)
        wrong = _misfit(f, args, kwargs, switches) if switches else None
        if wrong is not None:
            raise ArgumentError(f"{shown}: {wrong}", here(), _form(shown, parameters))
        try:
            return f(*args, **kwargs)
        except TensorlangError as error:
            error.at(here())
            raise
        except (TypeError, ValueError, AttributeError):
            wrong = _misfit(f, args, kwargs)
            if wrong is None:
                raise
            raise ArgumentError(f"{shown}: {wrong}", here(), _form(shown, parameters)) from None

    run.__module__, run.__qualname__ = module, name  # so that it can be pickled
    return run


def unknown(name: str, known: Iterable[str]) -> NoReturn:
    """Raise the error for a name that the package doesn't have."""
    if name.startswith("_"):
        raise AttributeError(f"module 'tensorlang' has no attribute {name!r}")
    names = list(known)
    close = [other for form in (name, name.lower()) for other in get_close_matches(form, names, n=1, cutoff=0.75)]
    hint = f"did you mean tl.{close[0]}?" if close else "help(tensorlang) and the reference have all names"
    if name in functions():
        hint = f"tl.fn.{name}(x)"
    elif name in WORDS:
        hint = WORDS[name].python
    raise UnknownAttribute(f"tensorlang has no {name}", here(), hint)


def _no_program(name: str, given: object) -> ArgumentError:
    kind = type(given).__name__
    hint = "a program is made by tl.parse of a text, or by tl.function of a Python function"
    if isinstance(given, str):
        kind, hint = "a text", f"{name}(tl.parse(..)): tl.parse makes a program of a text"
    elif isinstance(getattr(given, "function", None), Function):
        kind, hint = f"an {kind}", f"{name}(f.function): that is the program which was imported"
    elif callable(given):
        kind = "a Python function"
        hint = f"{name}(tl.function(..)): tl.function makes a program of a Python function"
    return ArgumentError(f"{name} takes a program, found {kind}", here(), hint)


def _misfit(
    f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], names: Sequence[str] | None = None
) -> str | None:
    """Why the arguments don't fit the parameters of `f`, or only those in `names`; None if they fit."""
    signature = inspect.signature(f)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as why:
        return str(why)
    program = args[0] if args else None
    own = {x.name for x in (*program.params, *program.sizes)} if isinstance(program, Function) else set()
    for name, value in bound.arguments.items():
        parameter = signature.parameters[name]
        kinds = _kinds_of(parameter) if names is None or name in names else []
        if name in own:
            continue  # later code decides whether this is the option or the program's parameter of the same name
        if kinds and not any(isinstance(value, _kind(part)) for part in kinds):
            return f"{name} must be {parameter.annotation}, found {type(value).__name__}"
    return None


def _kinds_of(parameter: inspect.Parameter) -> list[str]:
    """The types that a parameter may have; empty if one of them is unknown here, or the parameter is variadic."""
    outer = re.sub(r"\[.*?\]", "", str(parameter.annotation)).split(" | ")
    several = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    return outer if set(outer) <= _KINDS.keys() | _LATER.keys() and not several else []


def _kind(name: str) -> Any:
    return getattr(import_module(_LATER[name]), name) if name in _LATER else _KINDS[name]


def _form(name: str, parameters: list[inspect.Parameter]) -> str:
    """A hint on how to call `name`."""
    if name.removeprefix("tl.") in _BINDERS:
        condition = "i == 2 * j" if name == "tl.exists" else "x[i]"
        return f"the size comes first, then a function of the index: {name}(n, lambda i: {condition})"
    shown = []
    for p in parameters:
        stars = "*" * (1 if p.kind is p.VAR_POSITIONAL else 2 if p.kind is p.VAR_KEYWORD else 0)
        default = "" if p.default is p.empty else f"={p.default!r}"
        keyword = f"{p.name}=.." if p.kind is p.KEYWORD_ONLY and not default else f"{stars}{p.name}{default}"
        shown.append(keyword)
    return f"it is called as {name}({', '.join(shown)})"
