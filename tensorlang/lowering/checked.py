"""Checks of data that JAX is tracing: whether indices are in their ranges is known when the code runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import checkify

from tensorlang.language.affine import IndexArray, Size


def check_traced(indices: IndexArray, value: Any, sizes: Mapping[Size, int]) -> None:
    """A check by `checkify.check` that the elements of an index array that is traced are in their range.

    Elements of arrays that are not traced were checked when the arguments were matched.
    """
    if not isinstance(value, jax.core.Tracer) or value.size == 0:
        return
    size = indices.size.value(sizes)  # type: ignore[arg-type]
    elements = value.ravel()
    outside = (elements < 0) | (elements >= size)
    first = jnp.argmax(outside)
    at: dict[str, Any] = {f"at{k}": place for k, place in enumerate(jnp.unravel_index(first, value.shape))}
    where = f"[{', '.join(f'{{{name}}}' for name in at)}]" if at else ""
    checkify.check(
        ~outside.any(),
        f"{indices.name}{where} is {{found}}, expected an index into a range of size {size}",
        found=elements[first],
        **at,
    )
