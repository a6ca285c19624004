"""Facts about the code of scalar functions: the cost of their loops, and which of them are computed at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class Loops:
    """The cost of a scalar function with data-dependent loops: `base`, and for each of its loops and branches, by
    number, an amount for each visit. `bounded` tells whether all loops have bounds. `count` returns the visits at
    numbers, the first arguments of the function; `labels` are their names, `trips(f)` for a loop and `taken(f, k)` for
    a branch. `programs` returns the function's program and that of its derivative, as data for JSON."""

    arity: int
    base: int
    each: tuple[tuple[int, int], ...]
    bounded: bool
    count: Callable[..., Mapping[int, int]]
    labels: Mapping[int, str]
    programs: Callable[[], Mapping[str, Any]] = dict


@dataclass(frozen=True)
class Shared:
    """Programs (`tensorlang.scalars.code`) that compute several scalar functions of the same `arity` arguments at once:
    `value` computes the first, written as a function `name`, and `joint` all of them, written as
    `name`_with_derivatives. `stores` tells whether `joint` stores values of each trip of loops. An optional further
    argument says where their loops run, by default everywhere. They may be written for GPUs."""

    name: str
    arity: int
    value: Any
    joint: Any
    stores: bool = False
    on_gpus: bool = False
