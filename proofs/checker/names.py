"""The meaning of names at a place of a program, without a copy of the whole mapping for each binder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import repeat
from operator import contains
from typing import Any, TypeVar

V = TypeVar("V")


class Names(Mapping[str, V]):
    """A mapping in layers, each larger than any later one; later layers hide earlier ones."""

    def __init__(self, layers: tuple[Mapping[str, V], ...]) -> None:
        self.layers = layers

    def __getitem__(self, x: str) -> V:
        for layer in reversed(self.layers):
            if x in layer:
                return layer[x]
        raise KeyError(x)

    def __contains__(self, x: object) -> bool:
        return any(map(contains, self.layers, repeat(x)))

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(x for layer in self.layers for x in layer))

    def __len__(self) -> int:
        return len(list(iter(self)))


def extended(names: Mapping[str, Any], x: str, value: Any) -> Names[Any]:
    """`names` with one entry added or replaced; small layers are merged, so that there are few."""
    layers = list(names.layers) if isinstance(names, Names) else [names]
    last = {x: value}
    while layers and len(layers[-1]) <= len(last):
        last = {**layers.pop(), **last}
    return Names((*layers, last))
