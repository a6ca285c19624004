"""Where the Jacobian of a program can be other than 0."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlang.costs.cost import known
from tensorlang.errors import ArgumentError
from tensorlang.language.function import Function, differentiated
from tensorlang.language.given import require_clear, together
from tensorlang.language.show import predicate_unicode
from tensorlang.language.types import shape
from tensorlang.normal.as_program import to_function
from tensorlang.normal.ssa import own_ranges
from tensorlang.pictures.canvas import BLUE, FAINT, described, head, new_axes
from tensorlang.pictures.places import extents_of, first_places, related
from tensorlang.pictures.supports import statement_of, supports
from tensorlang.pipeline import jacobian

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST = 256


def sparsity(
    f: Function,
    wrt: str | None = None,
    given: Mapping[str, Any] | None = None,
    /,
    *,
    ax: Axes | None = None,
    **data: Any,
) -> Axes:
    """Where `tl.jacobian(f, wrt)` can be other than 0: a row for each element of the result, a column for each of the
    parameter `wrt`, both row by row; `wrt` may be left out if there is only one.

    The picture is of the support of the derived Jacobian, which holds for all sizes, at those in `data`, which may name
    relations and index arrays too, keywords or a mapping. Raises `ScopeError` for an unknown name, `ArgumentError` for
    missing sizes, for pairs, and if it is not said by what to differentiate, `LimitError` where the support takes too
    long a predicate.

    >>> f = tl.parse("f(x: [n + 1]R) = gen i:n. x[i + 1] - x[i]")
    >>> ax = tl.pictures.sparsity(f, n=3)
    >>> print(ax.get_label())
    A row for each element of f, a column for each of x: 6 of 12 elements can be other than 0.
    """
    require_clear(f, "sparsity", given, ax=ax)
    data = together(given, data)
    variables = differentiated(f, wrt)
    if len(variables) > 1:
        names = ", ".join(x.name for x in variables)
        raise ArgumentError(f"a Jacobian is by one parameter: name one of {names}")
    (variable,) = variables
    derived = jacobian(f, variable.name)
    s, x = statement_of(derived, None)
    p, ranges = supports(s)[x], own_ranges(x)
    setting = known(to_function(s), data)
    rank = len(shape(f.type)[0])
    sides = extents_of(x.shape[:rank], setting), extents_of(x.shape[rank:], setting)
    rows, columns = (first_places(side, _MOST) for side in sides)
    matrix = np.zeros((len(rows), len(columns)), np.bool_)
    at = related(p, ranges, rows, columns, setting)
    matrix[at[:, 0], at[:, 1]] = True
    if ax is None:
        scale = round(5.2 / max(*matrix.shape, 8), 2)
        ax = new_axes(max(3.2, scale * matrix.shape[1] + 1.0), max(1.8, scale * matrix.shape[0] + 1.1))
    _draw(ax, matrix)
    ax.set(xlabel=variable.name)
    ax.set_ylabel(f.name, labelpad=8)
    full = tuple(map(prod, sides))
    note = f"{len(at):,} of {matrix.size:,} elements can be other than 0"
    if matrix.shape != full:
        note += f" in the first {matrix.shape[0]} × {matrix.shape[1]} of {full[0]:,} × {full[1]:,}"
    head(ax, f"D {f.name} by {variable.name}: {predicate_unicode(p)}", note)
    described(ax, f"A row for each element of {f.name}, a column for each of {variable.name}: {note}.")
    return ax


def _draw(ax: Axes, matrix: Any) -> None:
    from matplotlib.colors import ListedColormap
    from matplotlib.ticker import MaxNLocator

    rows, columns = matrix.shape
    colours = ListedColormap(["#00000000", BLUE])
    around = (-0.5, max(columns, 1) - 0.5, max(rows, 1) - 0.5, -0.5)
    ax.imshow(matrix, cmap=colours, vmin=0, vmax=1, interpolation="nearest", aspect="equal", extent=around)
    if max(rows, columns) <= 40:
        lines: dict[str, Any] = {"color": FAINT, "linewidth": 0.4, "alpha": 0.6}
        ax.hlines(np.arange(rows + 1) - 0.5, -0.5, columns - 0.5, **lines)
        ax.vlines(np.arange(columns + 1) - 0.5, -0.5, rows - 0.5, **lines)
    ax.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    ax.yaxis.set_major_locator(MaxNLocator(8, integer=True))
