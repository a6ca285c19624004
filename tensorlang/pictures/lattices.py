"""Points of predicates as lattice plots: a disc where the predicate holds, a dot where it does not."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorlang.costs.cost import known
from tensorlang.errors import ArgumentError
from tensorlang.language.affine import Affine, Index, IndexArray, Size
from tensorlang.language.function import Function
from tensorlang.language.given import require_clear, together
from tensorlang.language.grid import Setting, holds
from tensorlang.language.points import Column, Ints, Points, Tuples
from tensorlang.language.predicates import Predicate, free_atoms, lookups, relations
from tensorlang.language.show import predicate_unicode
from tensorlang.normal.as_program import to_function
from tensorlang.normal.ssa import own_ranges
from tensorlang.pictures.canvas import BLUE, FAINT, INK, SMALL, described, dress, head, new_axes
from tensorlang.pictures.places import extents_of, first_places
from tensorlang.pictures.supports import statement_of, supports
from tensorlang.sets.solve import Ranges

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST = {1: (200,), 2: (48, 48)}
_SLICES = 12
_INCH = 0.24
_WIDEST = 5.2


def support(
    f: Function,
    name: str | None = None,
    given: Mapping[str, Any] | None = None,
    /,
    *,
    ax: Axes | None = None,
    **data: Any,
) -> Axes:
    """Where the statement that a let of `f` calls `name`, by default the result, can be other than 0.

    `data` are sizes, relations and index arrays by name, as for `tl.cost`, as keywords or in a mapping. One index runs
    to the right; of two, the first runs down and the second to the right; of more, the first ones have a panel for each
    of their values. Raises `ScopeError` for an unknown name, `ArgumentError` for missing sizes and for a number, which
    has no indices, and `LimitError` where the support takes too long a predicate.

    >>> f = tl.parse("f(x: [n]R) = gen i:n, j:n. [i <= j] * x[i] * x[j]")
    >>> ax = tl.pictures.support(f, n=3)
    >>> print(ax.get_label())
    Discs at the points (i, j) where i ≤ j, dots at the others: 6 of 9 points.
    """
    require_clear(f, "support", given, ax=ax)
    data = together(given, data)
    s, x = statement_of(f, name)
    return draw(supports(s)[x], own_ranges(x), known(to_function(s), data), name or f.name, ax)


def lattice(
    p: Predicate,
    ranges: Mapping[Index, Affine],
    given: Mapping[str, Any] | None = None,
    /,
    *,
    ax: Axes | None = None,
    **data: Any,
) -> Axes:
    """The points of `p` with its indices in these ranges, whose order is that of `support`.

    `data` are the sizes, relations and index arrays in `p` and `ranges` by name, keywords or a mapping. Raises
    `ArgumentError` if one is missing, or there are no indices.

    >>> from tensorlang.language.affine import Index, atom_affine, constant
    >>> from tensorlang.language.predicates import less
    >>> i, j = Index("i"), Index("j")
    >>> ax = tl.pictures.lattice(less(atom_affine(i), atom_affine(j)), {i: constant(3), j: constant(3)})
    >>> print(ax.get_label())
    Discs at the points (i, j) where i < j, dots at the others: 3 of 9 points.
    """
    data = together(given, data)
    mentioned = {a for a in free_atoms(p) if isinstance(a, Size)} | {x for n in ranges.values() for x in n.sizes}
    arrays = {lookup.array for lookup in lookups(p)}
    needed = sorted({x.name for kind in (mentioned, arrays, relations(p)) for x in kind})
    missing = [name for name in needed if name not in data]
    if missing:
        raise ArgumentError(f"the picture needs {', '.join(f'{name}=...' for name in missing)}")
    found: dict[IndexArray, Any] = {x: np.asarray(data[x.name], np.int64)[None] for x in arrays}
    sizes = {x: int(data[x.name]) for x in mentioned}
    setting = Setting(sizes, {x: Tuples(data[x.name]) for x in relations(p)}, found)
    return draw(p, ranges, setting, "", ax)


def draw(p: Predicate, ranges: Ranges, setting: Setting, name: str, ax: Axes | None) -> Axes:
    """The points of `p` in `ax`, or in new axes of a fitting size. Raises `ArgumentError` for no indices."""
    extents = extents_of(tuple(ranges.values()), setting)
    if not extents:
        raise ArgumentError(f"{name or 'this'} is a number, without indices to draw")
    outer, box = extents[:-2], extents[-2:]
    shown = tuple(map(min, box, _MOST[len(box)]))
    places = first_places(outer, _SLICES)
    truth = [_mask(p, ranges, at, shown, setting) for at in places]

    columns = min(len(places), 4) or 1
    rows = -(-len(places) // columns) or 1
    several = len(outer) > 0
    height, width = (1, *shown)[-2:]
    pitch = min(_INCH, (_WIDEST if several or len(box) == 2 else 2 * _WIDEST) / max(columns * width, height, 1))
    if ax is None:
        panel = max(1.0, pitch * width + 0.4), max(0.35, pitch * height + 0.3)
        ax = new_axes(max(columns * panel[0] + 0.8, 3.2), rows * (panel[1] + 0.5 * several) + 0.8)
    names = [i.name for i in ranges]
    for k, (at, mask) in enumerate(zip(places, truth, strict=True)):
        panel_ax = _inset(ax, k, rows, columns) if several else ax
        _points(panel_ax, mask, names[-len(box) :], 36 * pitch)
        if several:
            label = ", ".join(f"{i} = {v}" for i, v in zip(names, at, strict=False))
            panel_ax.set_title(label, loc="left", color=INK, fontsize=SMALL, pad=3)
    if several:
        ax.set_axis_off()
    count = sum(int(mask.sum()) for mask in truth)
    many = sum(mask.size for mask in truth)
    cropped = shown != box or len(places) < prod(outer)
    note = f"{count:,} of {many:,} points"
    if cropped:
        note += f", a part of {_by(extents)}: {_by(shown)}"
        note += f" of {len(places)} of {prod(outer):,} slices" if several else ""
    says = predicate_unicode(p)
    head(ax, f"{name}: {says}" if name else says, note)
    axes = ", ".join(names)
    described(ax, f"Discs at the points ({axes}) where {says}, dots at the others: {note}.")
    return ax


def _by(extents: tuple[int, ...]) -> str:
    return " × ".join(f"{n:,}" for n in extents)


def _mask(p: Predicate, ranges: Ranges, at: Ints, shown: tuple[int, ...], setting: Setting) -> NDArray[np.bool_]:
    """Whether `p` holds at each of the first points of a slice, in the shape that is shown."""
    inner = np.indices(shown, dtype=np.int64).reshape(len(shown), -1)
    count = inner.shape[1]
    columns: dict[Column, Ints] = dict(zip(ranges, [*(np.full(count, v, np.int64) for v in at), *inner], strict=True))
    return holds(p, Points(columns, count), setting).reshape(shown)


def _inset(ax: Axes, k: int, rows: int, columns: int) -> Axes:
    width, height = 1 / columns, 1 / rows
    row, column = divmod(k, columns)
    made = ax.inset_axes((column * width, 1 - (row + 1) * height, 0.86 * width, 0.78 * height))
    dress(made)
    return made


def _points(ax: Axes, mask: NDArray[np.bool_], names: list[str], across: float) -> None:
    """Draw discs, `across` typographic points wide, where `mask` is true, and dots elsewhere."""
    from matplotlib.ticker import MaxNLocator

    flat = mask if mask.ndim == 2 else mask[None]
    rows, columns = flat.shape
    for value, size, colour, label in ((False, 0.06, FAINT, "outside"), (True, 0.8, BLUE, "points")):
        at = np.argwhere(flat == value)[:, ::-1]
        ax.scatter(at[:, 0], at[:, 1], s=size * across**2, color=colour, linewidths=0, label=label)
    ax.set(xlim=(-0.6, columns - 0.4), ylim=(rows - 0.4, -0.6), aspect="equal", xlabel=names[-1])
    ax.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    if mask.ndim == 2:
        ax.set_ylabel(names[0], rotation=0, labelpad=8)
        ax.yaxis.set_major_locator(MaxNLocator(8, integer=True))
    else:
        ax.set_yticks([])
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
