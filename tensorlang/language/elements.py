"""Checks of the elements of given index arrays: integers, each within the range that the array's type gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tensorlang.errors import ArgumentError
from tensorlang.language.affine import IndexArray, Size


def check_integers(array: IndexArray, value: Any) -> None:
    """Raise `ArgumentError` unless `value` has an integer dtype."""
    kind = getattr(value.dtype, "kind", None)
    if kind in ("i", "u"):
        return
    hint = "a mask is a relation: y: rel(n)" if kind == "b" else None
    raise ArgumentError(f"{array.name} must hold indices, which are integers, found dtype {value.dtype}", hint=hint)


def check_range(array: IndexArray, value: Any, sizes: Mapping[Size, int]) -> None:
    """Raise `ArgumentError` if an element is not from 0 to the array's size - 1.

    Nothing is checked if JAX is tracing `value`, which then has no elements yet, or if it is on devices of several
    processes, none of which has all elements. Code that reads at an element out of range then behaves like JAX, which
    clips indices.
    """
    elements = concrete(value)
    if elements is None:
        return
    size = array.size.value(sizes)  # type: ignore[arg-type]
    if elements.size == 0 or (elements.min() >= 0 and elements.max() < size):
        return
    outside = (elements < 0) | (elements >= size)
    place = tuple(int(k[0]) for k in np.nonzero(np.atleast_1d(outside)))[: elements.ndim]
    where = f"[{', '.join(map(str, place))}]" if place else ""
    wanted = f"{array.size} = {size}" if array.size.terms else str(size)
    raise ArgumentError(
        f"{array.name}{where} is {int(elements[place])}, expected an index into a range of size {wanted}",
        hint="indices count from 0" if elements[place] == size else None,
    )


def concrete(value: Any) -> np.ndarray[Any, Any] | None:
    """The elements of an array; None if JAX is tracing it, or other processes have some of its elements."""
    try:
        elements = np.asarray(value)
    except TypeError:  # which is what JAX raises for a tracer
        return None
    except RuntimeError:  # and this for an array that other processes have parts of
        return None
    return elements if elements.shape == tuple(value.shape) else None
