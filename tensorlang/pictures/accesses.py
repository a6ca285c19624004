"""Which elements of a parameter feed which elements of the result, as arrows."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlang.costs.cost import known
from tensorlang.errors import ArgumentError
from tensorlang.language.function import Function, differentiated
from tensorlang.language.given import require_clear, together
from tensorlang.language.points import Ints
from tensorlang.normal.as_program import to_function
from tensorlang.normal.ssa import Input
from tensorlang.pictures.canvas import BLUE, INK, ORANGE, SMALL, described, head, new_axes
from tensorlang.pictures.places import extents_of, first_places, related
from tensorlang.pictures.supports import dependence, statement_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST = 40
_LABELLED = 24


def access_map(
    f: Function,
    param: str,
    name: str | None = None,
    given: Mapping[str, Any] | None = None,
    /,
    *,
    ax: Axes | None = None,
    **data: Any,
) -> Axes:
    """Arrows from each element of the parameter `param` to the elements that need it.

    These are of the statement that a let of `f` calls `name`, by default the result; `data` are sizes, relations and
    index arrays by name, as for `tl.cost`, as keywords or in a mapping. Elements are identified by their indices, and
    stand row by row. Raises `ScopeError` for an unknown name, `ArgumentError` for missing sizes and for a parameter of
    pairs, and `LimitError` where the dependence takes too long a predicate.

    >>> f = tl.parse("f(x: [n + 1]R) = gen i:n. x[i + 1] - x[i]")
    >>> ax = tl.pictures.access_map(f, "x", n=3)
    >>> print(ax.get_label())
    The elements of x above, those of f below, and an arrow where one needs the other: 6 pairs.
    """
    require_clear(f, "access_map", given, ax=ax)
    data = together(given, data)
    (variable,) = differentiated(f, param)
    s, x = statement_of(f, name)
    read = [y for y in s.statements if isinstance(y, Input) and y.param.name == param]
    if any(y.path for y in read):
        raise ArgumentError(f"{param} is of type {variable.type}; arrows are drawn from one array")
    setting = known(to_function(s), data)
    result = name or f.name
    if not read:
        raise ArgumentError(f"{result} does not depend on {param}")
    p, ranges = dependence(s, x, read[0])
    extents = [extents_of(y.shape, setting) for y in (read[0], x)]
    above, below = (first_places(e, _MOST) for e in extents)
    pairs = related(p, ranges, below, above, setting)
    if ax is None:
        widest = max(len(above), len(below))
        ax = new_axes(min(max(3.2, 0.42 * widest + 1.2), 12), 2.4)
    _draw(ax, (param, above), (result, below), pairs)
    counts = [prod(e) for e in extents]
    note = f"{len(pairs):,} pairs"
    if [len(above), len(below)] != counts:
        note += f" among the first {len(above)} of {counts[0]:,} and {len(below)} of {counts[1]:,} elements"
    head(ax, f"{param} feeds {result}", note)
    described(
        ax, f"The elements of {param} above, those of {result} below, and an arrow where one needs the other: {note}."
    )
    return ax


def _draw(ax: Axes, source: tuple[str, Ints], target: tuple[str, Ints], pairs: Ints) -> None:
    """Draw two rows of elements of equal width, with arrows from the upper to the lower one."""
    widest = max(len(source[1]), len(target[1]), 1)
    places = []
    for (name, at), height, colour, side in ((source, 1.0, BLUE, "bottom"), (target, 0.0, ORANGE, "top")):
        across = (np.arange(len(at)) + 0.5) * widest / max(len(at), 1)
        places.append(across)
        ax.scatter(across, np.full(len(at), height), s=36, color=colour, linewidths=0, label=name, zorder=3)
        every = -(-len(at) // _LABELLED) or 1
        for k in range(0, len(at), every):
            text = ",".join(map(str, at[k]))
            ax.annotate(
                text,
                (across[k], height),
                (0, 7 if side == "bottom" else -7),
                textcoords="offset points",
                ha="center",
                va=side,
                fontsize=SMALL - 1,
                color=INK,
            )
        ax.annotate(
            name,
            (0, height),
            (-14, 0),
            textcoords="offset points",
            ha="right",
            va="center",
            color=colour,
            fontsize=11,
            annotation_clip=False,
        )
    start, end = places[0][pairs[:, 1]], places[1][pairs[:, 0]]
    gap = 0.07
    ax.quiver(
        start + gap * (end - start),
        np.full(len(pairs), 1 - gap),
        (1 - 2 * gap) * (end - start),
        np.full(len(pairs), 2 * gap - 1),
        angles="xy",
        scale_units="xy",
        scale=1,
        units="dots",
        width=1.2,
        headwidth=6,
        headlength=8,
        headaxislength=7,
        color=INK,
        alpha=0.8,
    )
    ax.set(xlim=(-0.3, widest + 0.3), ylim=(-0.35, 1.35))
    ax.set_axis_off()
