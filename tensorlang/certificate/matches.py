"""Lets with equal values in two programs, at which these can be cut to compare their parts one by one.

Such lets are guessed by evaluating both programs on random numbers. For the checker of a certificate they are hints,
and each is proved before it is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tensorlang.errors import TensorlangError
from tensorlang.language.affine import IndexArray, Size
from tensorlang.language.arguments import from_leaves
from tensorlang.language.evaluate import evaluate
from tensorlang.language.function import Function
from tensorlang.language.grammar import Expr, MakePair, Var
from tensorlang.language.lets import bindings, under
from tensorlang.language.predicates import Relation
from tensorlang.language.types import leaves, shape

_SIZES = (2, 3, 4, 5, 6)
_MOST = 400
"""The most lets of a program that is evaluated; in longer ones, lets of the same name are paired."""
_DIGITS = 9


def matches(programs: Mapping[str, Function], derivation: Function) -> dict[str, list[list[str]]]:
    """For each program, the names of its lets in order, each with that of a let of the derivation with the same
    value."""
    theirs = [x for x, _ in bindings(derivation.body)[0]]
    own = {name: [x for x, _ in bindings(f.body)[0]] for name, f in programs.items()}
    if max(map(len, (theirs, *own.values()))) <= _MOST:
        try:
            data = _data(derivation)
            known = {key: y.name for y, key in reversed(_held(derivation, theirs, data))}
            held = {name: _held(programs[name], mine, data) for name, mine in own.items()}
            return {name: [[x.name, known[key]] for x, key in found if key in known] for name, found in held.items()}
        except TensorlangError:
            pass
    return {name: _called_alike(mine, theirs) for name, mine in own.items()}


def _called_alike(mine: Sequence[Var | IndexArray], theirs: Sequence[Var | IndexArray]) -> list[list[str]]:
    """Each let with the last of the same name: x with x, x1, x2, .., and x1 with x1."""
    last = {y.name: y.name for y in theirs}
    for y in theirs:
        last[y.name.rstrip("0123456789")] = y.name
    return [[x.name, last[x.name]] for x in mine if x.name in last]


def _held(f: Function, lets: list[Var | IndexArray], data: Mapping[str, Any]) -> list[tuple[Var, object]]:
    """The value of each let, rounded."""
    variables = [x for x in lets if isinstance(x, Var)]
    if not variables:
        return []
    body: Expr = variables[-1]
    for x in reversed(variables[:-1]):
        body = MakePair(x, body)
    body = under(bindings(f.body)[0], body)
    own = {p.name for p in f.params} | {size.name for size in f.sizes}
    held = evaluate(Function(f.name, f.params, body), {x: value for x, value in data.items() if x in own})
    found: list[tuple[Var, object]] = []
    for k, x in enumerate(variables):
        last = k == len(variables) - 1
        value, held = (held, None) if last else held
        found.append((x, _key(value)))
    return found


def _key(value: Any) -> object:
    """A key that is equal for values equal up to rounding."""
    if isinstance(value, tuple):
        return tuple(map(_key, value))
    array = np.asarray(value, float)
    with np.errstate(all="ignore"):
        return array.shape, tuple(f"{x:.{_DIGITS}g}" for x in np.nan_to_num(array.ravel()) + 0.0)


def _told(f: Function) -> set[Size]:
    """The sizes that occur in the shapes of arguments."""
    found: set[Size] = set()
    for p in f.params:
        if isinstance(p, Var):
            found |= {n for _, part in leaves(p.type) for a in shape(part)[0] for n in a.sizes}
        else:
            found |= {n for a in p.sizes for n in a.sizes}
    return found


def _data(f: Function) -> dict[str, Any]:
    """Sizes and arguments of `f`, by name."""
    rng = np.random.default_rng(0)
    known: dict[Any, int] = {size: _SIZES[k % len(_SIZES)] for k, size in enumerate(f.sizes)}
    data: dict[str, Any] = {size.name: n for size, n in known.items() if size not in _told(f)}

    def dims(axes: Iterable[Any]) -> list[int]:
        return [max(0, a.value(known)) for a in axes]

    for p in f.params:
        if isinstance(p, Relation):
            data[p.name] = rng.random(dims(p.sizes)) < 0.6
        elif isinstance(p, IndexArray):
            *places, size = dims((*p.sizes, p.size))
            data[p.name] = rng.integers(max(size, 1), size=places)
        else:
            assert isinstance(p, Var)
            values = [rng.uniform(0.5, 1.5, dims(shape(part)[0])) for _, part in leaves(p.type)]
            data[p.name] = from_leaves(p.type, iter(values))
    return data
