"""Default sizes and data at which a derivation is counted: small ones, which the view states."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice, permutations, product
from typing import Any

import numpy as np

from tensorlang.derivatives.derivation import Derivation
from tensorlang.language.affine import IndexArray, Size
from tensorlang.language.function import Function, sizes_of
from tensorlang.language.predicates import Relation

_SMALL = (5, 3, 4, 6, 2, 7, 8)
_TRIES = 5_000


@dataclass(frozen=True)
class Chosen:
    """Sizes and data by name, with a note about them for the reader."""

    data: dict[str, Any]
    words: str


def chosen(derivation: Derivation) -> Chosen:
    """The sizes and data at which `derivation` is counted: its own data, else small sizes and plain data."""
    f = derivation.function
    if derivation.data:
        return Chosen(dict(derivation.data), f"Counted at {_told(f, derivation.data)}.")
    sizes = _small_sizes(f)
    data: dict[str, Any] = {s.name: n for s, n in sizes.items()}
    said = [_told(f, data)] if data else []
    for p in f.params:
        if isinstance(p, Relation | IndexArray):
            shape = tuple(max(0, a.value(sizes)) for a in p.sizes)  # type: ignore[arg-type]
            if isinstance(p, Relation):
                data[p.name] = np.ones(shape, bool)
                said.append(f"{p.name} true everywhere")
            else:
                count = max(1, p.size.value(sizes))  # type: ignore[arg-type]
                data[p.name] = (np.arange(np.prod(shape, dtype=int)) % count).reshape(shape)
                said.append(f"{p.name} = 0, 1, 2, ..")
    if not said:
        return Chosen(data, "")
    return Chosen(data, f"Counted at {', '.join(said)}, as none were given; derivation.at(..) counts at others.")


def _told(f: Function, data: Any) -> str:
    sizes = [s.name for s in f.sizes if s.name in data]
    others = [name for name in data if name not in sizes]
    return ", ".join([*(f"{name} = {data[name]:,}" for name in sizes), *(f"the given {name}" for name in others)])


def _small_sizes(f: Function) -> dict[Size, int]:
    """Small sizes, distinct if possible, at which every axis of the parameters has an element."""
    axes = [size for p in f.params for size in sizes_of(p)]
    for sizes in islice(_candidates(f.sizes), _TRIES):
        if all(size.value(sizes) > 0 for size in axes):  # type: ignore[arg-type]
            return sizes
    return next(_candidates(f.sizes))


def _candidates(sizes: tuple[Size, ...]) -> Iterator[dict[Size, int]]:
    pool = _SMALL if len(sizes) <= len(_SMALL) else _SMALL * len(sizes)
    for values in chain(islice(permutations(pool, len(sizes)), 2_000), product(range(1, 9), repeat=len(sizes))):
        yield dict(zip(sizes, values, strict=True))
