"""Arguments by name: arrays and sizes as keywords, or in a mapping, besides options.

Values that belong together may come as a record: a NamedTuple, a dataclass or a dict whose fields are parameters. The
positional arguments are then for the other parameters, in their order.

A program's parameters and sizes may have any names, even `exact` or `ax`. Functions that take them as keywords also
take a positional mapping, whose names are never those of options: `evaluate(f, {"exact": x})`. All of them also take
`sizes={"n": 3}`, as functions do whose keywords are all options.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from typing import Any

from tensorlang.errors import ArgumentError
from tensorlang.language.function import Function


def spread(f: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """The arguments with records replaced by their fields."""
    names = {p.name for p in f.params}
    found: dict[str, Any] = {}
    others: list[Any] = []
    for value in args:
        if not _spread(value, names, found):
            others.append(value)
    named = {name: value for name, value in kwargs.items() if name in names or not _spread(value, names, found)}
    if not found:
        return args, kwargs
    left = [p.name for p in f.params if p.name not in found]
    if len(others) > len(left) and not isinstance(others[-1], Mapping):
        if isinstance(args[-1], Mapping):
            return args, kwargs  # it comes in addition to all the others
        message = f"{f.name} has {len(left)} parameters beside {', '.join(found)}, found {len(others)} arguments"
        raise ArgumentError(message, hint=f"{f.name}({', '.join(p.name for p in f.params)})")
    mapping = others.pop() if others and isinstance(others[-1], Mapping) else {}
    found = together(found, dict(zip(left, others, strict=False)))
    return (), together(together(found, mapping), named)


def _spread(value: Any, names: Set[str], found: dict[str, Any]) -> bool:
    """Whether `value` is a record whose fields are all in `names`; if so, they are added to `found`."""
    parts = record(value)
    if parts is None:
        return False
    inner: dict[str, Any] = {}
    for name, part in parts.items():
        if name in names:
            inner[name] = part
        elif not _spread(part, names, inner):
            return False
    for name in inner:
        if name in found:
            raise ArgumentError(f"{name} is given twice, in two records")
    found.update(inner)
    return True


def record(value: Any) -> dict[str, Any] | None:
    """The fields of a record by name; None for anything else."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return dict(zip(value._fields, value, strict=True))
    if is_dataclass(value) and not isinstance(value, type) and not hasattr(value, "shape"):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if (
        isinstance(value, Mapping)
        and not hasattr(value, "shape")
        and value
        and all(isinstance(name, str) for name in value)
    ):
        return dict(value)
    return None


def apart(args: Sequence[Any]) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """The arguments by position, and the mapping of others that may come last."""
    return (args[:-1], args[-1]) if args and isinstance(args[-1], Mapping) else (args, {})


def together(given: Mapping[str, Any] | None, keywords: Mapping[str, Any]) -> dict[str, Any]:
    """A mapping and keywords combined, and the mapping that the keyword `sizes` may be. Raises `ArgumentError` for a
    name in two of them, and for anything but a mapping."""
    if given is not None and not isinstance(given, Mapping):
        raise ArgumentError(f"expected what is given by name, a mapping or keywords, found {given!r}")
    inner = keywords.get("sizes")
    if isinstance(inner, Mapping) and not hasattr(inner, "shape"):
        keywords = together(inner, {name: value for name, value in keywords.items() if name != "sizes"})
    for name in keywords:
        if name in (given or {}):
            raise ArgumentError(f"{name} is given twice, in a mapping and as a keyword")
    return {**(given or {}), **keywords}


def require_clear(f: Function, what: str, given: Mapping[str, Any] | None, **options: Any) -> None:
    """Raise `ArgumentError` if an option of `what` has the name of a parameter or size of `f` that is not among
    `given`, since the keyword may mean either."""
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
