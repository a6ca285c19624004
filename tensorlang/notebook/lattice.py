"""Predicates as sets of points: their definitions, and their points at small sizes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tensorlang.language.affine import Index, Size, constant
from tensorlang.language.grid import Setting, expand
from tensorlang.language.points import ORIGIN
from tensorlang.language.predicates import Predicate, free_atoms, lookups, relations
from tensorlang.language.show import predicate_unicode
from tensorlang.notebook.html import block, escape, note

Point = tuple[int, ...]

_SIZE = 4
_WINDOWS = (6, 12)
_MOST_AXES = 4
_LISTED = 24
_CELL = 14


def set_text(p: Predicate) -> str:
    """`p` as the set of the points at which it holds."""
    names = ", ".join(i.name for i in indices_of(p))
    return f"{{ ({names}) | {predicate_unicode(p)} }}"


def indices_of(p: Predicate) -> list[Index]:
    """The indices in `p`, sorted by name."""
    return sorted((a for a in free_atoms(p) if isinstance(a, Index)), key=lambda i: (i.name, i.serial))


def picture(p: Predicate) -> str | None:
    """The points of `p` near the origin at small sizes: drawn on a line or in a plane, else listed.

    None if they depend on data, or on no index, or on too many.
    """
    indices = indices_of(p)
    if relations(p) or lookups(p) or not 0 < len(indices) <= _MOST_AXES:
        return None
    sizes = sorted((a for a in free_atoms(p) if isinstance(a, Size)), key=lambda s: s.name)
    for window in _WINDOWS:
        points = _points(p, indices, sizes, window)
        if points:
            break
    where = [f"{s.name} = {_SIZE}" for s in sizes]
    names = [i.name for i in indices]
    near = f"0 ≤ {', '.join(names)} < {window}"
    told = note(f"{len(points)} points with {near}" + (f", at {', '.join(where)}" if where else ""))
    return (lattice(names, [window] * len(names), points) if len(names) <= 2 else _listed(points)) + told


def _points(p: Predicate, indices: Sequence[Index], sizes: Sequence[Size], window: int) -> list[Point]:
    setting = Setting(dict.fromkeys(sizes, _SIZE))
    found, _ = expand(ORIGIN, [(i, constant(window)) for i in indices], p, setting)
    return sorted(zip(*(found.columns[i].tolist() for i in indices), strict=True))


def _listed(points: Sequence[Point]) -> str:
    shown = [str(point) for point in points[:_LISTED]]
    return block("p", ", ".join(shown) + (", …" if len(points) > _LISTED else ""))


def lattice(names: Sequence[str], sizes: Sequence[int], points: Iterable[Point]) -> str:
    """A small picture of points with coordinates in ranges of these sizes: the first goes down, the second across.

    A single one goes across.
    """
    seen = set(points)
    rows = range(sizes[0]) if len(names) == 2 else range(1)
    marks = []
    for i in rows:
        for j in range(sizes[-1]):
            full = ((i, j) if len(names) == 2 else (j,)) in seen
            x, y = _CELL * (j + 1.5), _CELL * (i + 1.5)
            marks.append(f'<circle cx="{x:g}" cy="{y:g}" r="{_CELL / 3 if full else _CELL / 12:.3g}"/>')
    across, down = escape(names[-1]), escape(names[0]) if len(names) == 2 else ""
    labels = (
        f'<text x="{_CELL * 1.2:g}" y="{_CELL * 0.8:g}">{across} →</text><text x="0" y="{_CELL * 1.9:g}">{down}</text>'
    )
    if down:
        labels += f'<text x="0" y="{_CELL * 2.9:g}">↓</text>'
    width, height = _CELL * (sizes[-1] + 1), _CELL * (len(rows) + 1)
    axes = f"{down} from 0 down and {across} from 0 to the right" if down else f"{across} from 0 to the right"
    return (
        f'<svg role="img" aria-label="{len(seen)} points" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" fill="currentColor" font-size="{_CELL * 0.85:g}" style="max-width: 100%">'
        f"<title>{len(seen)} points</title><desc>Discs at the points of the set, dots at the others, {axes}.</desc>"
        f"{labels}{''.join(marks)}</svg>"
    )
