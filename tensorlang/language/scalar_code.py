"""What is known of the code of scalar functions: what their loops cost, and which of them are computed at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class Loops:
    """What a scalar function costs whose loops data end: `base`, and for each of its loops and branches, by number, an
    amount for each visit. `bounded` tells whether all loops have bounds. `count` gives the visits at numbers, the first
    arguments of the function; `labels` say what they are called, `trips(f)` of a loop and `taken(f, k)` of a branch.
    `programs` gives its program and that of its derivative as data for JSON."""

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
    `value` the first of them, written as a function `name`, `joint` all of them, written as `name`_with_derivatives,
    which `stores` values of each trip of loops or not. A further argument says where their loops run: everywhere, if it
    is not there. They may be written for what GPUs have."""

    name: str
    arity: int
    value: Any
    joint: Any
    stores: bool = False
    on_gpus: bool = False
