"""The costs of a program and its adjoint as a size grows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tensorlang.costs.cost import cost
from tensorlang.costs.ratio import numbers_in
from tensorlang.costs.symbolic import cost_polynomial
from tensorlang.errors import ArgumentError, CountingError
from tensorlang.language.function import Function
from tensorlang.language.given import require_clear, together
from tensorlang.pictures.canvas import BLUE, FAINT, INK, ORANGE, SMALL, cut, described, head, new_axes
from tensorlang.pipeline import Wrt, derive

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST = 200
_WIDE = 40


def cost_curves(
    f: Function,
    along: str,
    values: Iterable[int],
    given: Mapping[str, Any] | None = None,
    /,
    *,
    wrt: Wrt = None,
    ax: Axes | None = None,
    **data: Any,
) -> Axes:
    """The cost of `f` and of its adjoint, inputs and outputs counted as in Theorem 6.35, as the size `along` takes the
    given values, with the line that is 4 times the program.

    `data` are the other sizes, relations and index arrays by name, as for `tl.cost`, as keywords or in a mapping. Of
    more than 200 values evenly spread ones are taken. Axes are logarithmic where the costs span much. Raises
    `ArgumentError` for a name that is not a size, missing sizes, and no values, and `ScopeError` if `wrt` names
    anything but a real-valued parameter.

    >>> f = tl.parse("f(A: [n][m]R, x: [m]R) = gen i:n. sum j:m. A[i, j] * x[j]")
    >>> ax = tl.pictures.cost_curves(f, "n", range(1, 9), m=4)
    >>> [line.get_label() for line in ax.lines]
    ['4 × program', 'adjoint', 'program']
    """
    require_clear(f, "cost_curves", given, wrt=wrt, ax=ax)
    data = together(given, data)
    if along not in {size.name for size in f.sizes}:
        raise ArgumentError(
            f"{f.name} has no size {along}; its sizes are {', '.join(x.name for x in f.sizes) or 'none'}"
        )
    taken = sorted(set(values))
    if not taken:
        raise ArgumentError(f"the picture needs values of {along}, found none")
    taken = [taken[k * (len(taken) - 1) // (_MOST - 1)] for k in range(_MOST)] if len(taken) > _MOST else taken
    derivation = derive(f, wrt)
    held = numbers_in(f, (f.type, *(x.type for x in derivation.wrt)))
    own, derived = counted(f), counted(derivation.adjoint)
    program, adjoint = [], []
    for n in taken:
        others = held(data, **{along: n})
        program.append(own(n=n, along=along, data=data) + others)
        adjoint.append(derived(n=n, along=along, data=data) + others)
    if ax is None:
        ax = new_axes(5.6, 3.4)
    _draw(ax, along, taken, program, adjoint)
    fixed = ", ".join(f"{name} = {value}" for name, value in data.items() if isinstance(value, int))
    by = ", ".join(x.name for x in derivation.wrt)
    head(ax, f"{f.name} and its adjoint by {by}", cut("inputs and outputs counted" + (f", {fixed}" if fixed else "")))
    described(
        ax,
        f"From {along} = {taken[0]:,} to {taken[-1]:,} the program's cost goes from {program[0]:,} to {program[-1]:,}, "
        f"its adjoint's from {adjoint[0]:,} to {adjoint[-1]:,}, below 4 times the program's.",
    )
    return ax


def counted(f: Function) -> Callable[..., int]:
    """The cost of `f` as a function of the varied size: by its polynomial if there is one, else counted each time."""
    try:
        polynomial = cost_polynomial(f)
    except CountingError:
        return lambda n, along, data: cost(f, data, **{along: n})
    return lambda n, along, data: polynomial(data, **{along: n})


def _draw(ax: Axes, along: str, taken: list[int], program: list[int], adjoint: list[int]) -> None:
    marker = "o" if len(taken) <= 20 else None
    ax.plot(taken, [4 * c for c in program], color=FAINT, linestyle="--", linewidth=1.4, label="4 × program")
    ax.plot(taken, adjoint, color=ORANGE, linewidth=2, marker=marker, markersize=4, label="adjoint")
    ax.plot(taken, program, color=BLUE, linewidth=2, marker=marker, markersize=4, label="program")
    if min(program) > 0 and min(adjoint) > 0 and min(taken) > 0 and max(adjoint) > _WIDE * min(program):
        ax.set(xscale="log", yscale="log")
    ax.set(xlabel=along)
    ax.set_ylabel("cost")
    ax.legend(frameon=False, labelcolor=INK, fontsize=SMALL)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color=FAINT, alpha=0.25, linewidth=0.6)
