"""The playground's answers about a program: its adjoint, costs, derivation, certificate, source, and a run of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import tensorlang as tl
from tensorlang import shown
from tensorlang.errors import ArgumentError, Span, TensorlangError
from tensorlang.language.affine import Atom, IndexArray, Size
from tensorlang.language.function import Function, Parameter
from tensorlang.language.grammar import Var
from tensorlang.language.predicates import Relation
from tensorlang.language.types import Pair, Type, shape

WANTED = ("adjoint", "derivation", "certificate", "source", "run")
"""The parts of an answer that can be asked for."""

SECONDS, MEMORY, MOST_NUMBERS = 10.0, 500_000_000, 4096
_SMALL = 8
_DENSITY = 0.3


def answer(question: Mapping[str, Any], value: Callable[..., Any] = Function.__call__) -> dict[str, Any]:
    """The answer to a question: a program's `text`, the parameter `wrt` or none for all, `sizes`, and what to `show`.

    Programs are run by `value`, at arguments given by name.

    An error in the program or the question becomes the answer's `error`: its message, its place, if it has one in the
    text, and its hint. A question takes at most 10 seconds and half a gigabyte.
    """
    try:
        with tl.limits(seconds=SECONDS, memory=MEMORY):
            return _answered(*_checked(question), value)
    except TensorlangError as error:
        place = error.place
        if not isinstance(place, Span):
            return {"error": {"message": error.told()}}
        where = {"line": place.line, "column": place.column, "length": place.end - place.start}
        return {"error": {"message": error.told(), **where}}
    except RecursionError:
        return {"error": {"message": "the program is nested too deep to be shown"}}


def _checked(question: Mapping[str, Any]) -> tuple[str, str | None, dict[str, int], str]:
    text, wrt, sizes, show = (question.get(name) for name in ("text", "wrt", "sizes", "show"))
    if not isinstance(text, str) or not isinstance(wrt, str | None) or not isinstance(show, str) or show not in WANTED:
        raise ArgumentError(f"a question has a text, and one of {', '.join(WANTED)} to show")
    if not isinstance(sizes, dict) or not all(isinstance(n, int) and n >= 0 for n in sizes.values()):
        raise ArgumentError("sizes are whole numbers from 0 on", hint="such as n=100")
    return text, wrt or None, {str(name): int(n) for name, n in sizes.items()}, show


def _answered(
    text: str, wrt: str | None, given: dict[str, int], show: str, value: Callable[..., Any]
) -> dict[str, Any]:
    programs = tl.parse_module(text, "program")
    if not programs:
        raise ArgumentError("there is no program yet", hint="f(x: [n]R) = sum i:n. x[i] * x[i]")
    f = list(programs.values())[-1]
    found: dict[str, Any] = {
        "name": f.name,
        "parameters": [v.name for v in f.variables],
        "sizes": [s.name for s in f.sizes],
        "program": str(f),
        "cost": _cost(f, given),
    }
    sizes = {s.name: given.get(s.name, _SMALL) for s in f.sizes}
    if show == "run":
        return {**found, **_run(f, sizes, value)}
    if not f.variables:
        return found
    adjoint = tl.adjoint(f, wrt=wrt)
    found |= {"adjoint": str(adjoint), "adjoint_cost": _cost(adjoint, given)}
    match show:
        case "derivation":
            derivation = tl.derive(f, wrt=wrt)
            is_counted = not any(isinstance(p, Relation) for p in f.params)
            found["derivation"] = shown.page(derivation.at(**sizes) if is_counted else derivation)
        case "certificate":
            found["certificate"] = str(tl.certify(f, wrt=wrt, bound=4))
        case "source":
            found["source"] = tl.lower(adjoint).source
    return found


def _cost(f: Function, given: Mapping[str, int]) -> str:
    """The cost of `f` for all sizes, and at the given sizes if it depends on nothing else."""
    polynomial = tl.cost_polynomial(f)
    names = [s.name for s in f.sizes]
    if not names or not given.keys() >= set(names) or any(isinstance(p, Relation | IndexArray) for p in f.params):
        return str(polynomial)
    at = ", ".join(f"{name} = {given[name]:,}" for name in names)
    return f"{polynomial}\n{polynomial({name: given[name] for name in names}):,} at {at}"


def _run(f: Function, sizes: dict[str, int], value: Callable[..., Any]) -> dict[str, Any]:
    """The value of `f` at random arguments, each result with its shape."""
    rng = np.random.default_rng(0)
    arguments = {p.name: _random(p, sizes, rng) for p in f.params}
    unread = {s.name: sizes[s.name] for s in f.sizes if not any(s in _named_sizes(p) for p in f.params)}
    results = [np.asarray(part) for part in _parts(value(f, **arguments, **unread))]
    return {"results": [_plain(part) for part in results], "at": ", ".join(f"{k} = {n}" for k, n in sizes.items())}


def _plain(result: Any) -> dict[str, Any]:
    if result.size > MOST_NUMBERS:
        message = f"a result has {result.size:,} numbers, and at most {MOST_NUMBERS:,} are shown"
        raise ArgumentError(message, hint="smaller sizes")
    return {"shape": list(result.shape), "values": [x if np.isfinite(x) else None for x in result.ravel().tolist()]}


def _parts(value: Any) -> list[Any]:
    return [part for one in value for part in _parts(one)] if isinstance(value, tuple) else [value]


def _named_sizes(p: Parameter) -> set[Size]:
    from tensorlang.language.function import sizes_of

    return {s for a in sizes_of(p) for s in a.sizes}


def _random(p: Parameter, sizes: Mapping[str, int], rng: np.random.Generator) -> Any:
    """An argument for the parameter `p`."""
    values: dict[Atom, int] = {Size(name): n for name, n in sizes.items()}
    match p:
        case Var():
            return _of_type(p.type, values, (), rng)
        case IndexArray():
            dims = tuple(max(0, a.value(values)) for a in p.sizes)
            return rng.integers(0, max(1, p.size.value(values)), dims)
        case Relation():
            return rng.random(tuple(max(0, a.value(values)) for a in p.sizes)) < _DENSITY


def _of_type(kind: Type, values: Mapping[Atom, int], outer: tuple[int, ...], rng: np.random.Generator) -> Any:
    axes, element = shape(kind)
    dims = (*outer, *(max(0, a.value(values)) for a in axes))
    if isinstance(element, Pair):
        return tuple(_of_type(part, values, dims, rng) for part in (element.first, element.second))
    return rng.standard_normal(dims).astype(np.float32)
