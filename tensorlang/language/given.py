"""What is given by name: arrays and sizes as keywords, or in a mapping, beside options.

A program may call its parameters and sizes what it likes, `exact` or `ax`, too. What takes them as keywords takes a
mapping by position as well, whose names are never those of options: `evaluate(f, {"exact": x})`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tensorlang.errors import ArgumentError
from tensorlang.language.function import Function


def apart(args: Sequence[Any]) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """The arguments by position, and the mapping of others that may come last."""
    return (args[:-1], args[-1]) if args and isinstance(args[-1], Mapping) else (args, {})


def together(given: Mapping[str, Any] | None, keywords: Mapping[str, Any]) -> dict[str, Any]:
    """What a mapping and keywords give. Raises `ArgumentError` for what both do, and for what is no mapping."""
    if given is not None and not isinstance(given, Mapping):
        raise ArgumentError(f"expected what is given by name, a mapping or keywords, found {given!r}")
    for name in keywords:
        if name in (given or {}):
            raise ArgumentError(f"{name} is given twice, in a mapping and as a keyword")
    return {**(given or {}), **keywords}


def require_clear(f: Function, what: str, given: Mapping[str, Any] | None, **options: Any) -> None:
    """Raise `ArgumentError` if one of the options of `what` is called like something of `f` that is not among `given`:
    then the keyword may mean either."""
    names = {p.name for p in f.params} | {s.name for s in (*f.sizes, *f.further)}
    for name, value in options.items():
        if (
            value is not None
            and value is not False
            and name in names
            and not (isinstance(given, Mapping) and name in given)
        ):
            kind = "parameter" if any(p.name == name for p in f.params) else "size"
            raise ArgumentError(
                f"{name} is an option of {what}, and a {kind} of {f.name}",
                hint=f'give the {kind} in a mapping: {what}({f.name}, {{"{name}": ..}})',
            )
