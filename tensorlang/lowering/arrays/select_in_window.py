"""Elements of index arrays that are in short ranges, such as the places that a pooling chooses within its windows.

A read there is one of a few slices, and a write is, for each of a few offsets, zero except where that is the chosen
one: neither takes a gather or a scatter, and where windows overlap, nothing is sorted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

from tensorlang.language.affine import Affine, Index, Lookup, atom_affine, total
from tensorlang.lowering.arrays.accesses import positions
from tensorlang.lowering.arrays.context import Context
from tensorlang.lowering.arrays.integers import ZERO
from tensorlang.lowering.arrays.ir import Infix, List, Name, Node, Tuple, When
from tensorlang.lowering.arrays.scope import Scope
from tensorlang.lowering.arrays.sums.loop import expanded
from tensorlang.lowering.arrays.values import Axes, Value, apply, integer

_OFFSETS = 36
"""Windows of up to this many places are taken apart into their places; values for larger ones are scattered."""


@dataclass(frozen=True)
class _Window:
    """Places step * s + offset + first of an axis, where the offset is what data adds, at least 0, less than width."""

    s: Index
    step: int
    first: Affine
    offset: Affine
    width: Affine

    def node(self, ctx: Context, scope: Scope, axes: Axes, size: Affine) -> Tuple:
        """The window as the library's function takes it, for values with these axes and a result of that size."""
        node = ctx.integers.node
        offset = positions(ctx, scope, self.offset, axes)
        return Tuple((integer(self.step), node(self.first), node(size), offset, node(self.width)))


def select_in_windows(
    ctx: Context, scope: Scope, inner: Scope, at: Mapping[Index, Affine], v: Value, scattered: Callable[[], Node]
) -> Node | None:
    """The values `v`, which have the axes of `inner`, at their places `at` of the axes of `scope`; None unless each of
    these places is in a window that moves along with an axis of its own, and they vary along no other.

    Where symbolic windows turn out to be long, the result is that of `scattered`.
    """
    windows = [_window(inner, a - scope.domain[i].start) for i, a in at.items()]
    found = [w for w in windows if w is not None]
    points = tuple(w.s for w in found)
    varying = {i for a in at.values() for i in inner.axes(a)}
    if len(found) < len(windows) or sorted(map(id, points)) != sorted(map(id, varying)):
        return None
    if all(w.offset is ZERO for w in found):
        return None
    known = prod(w.width.constant for w in found if w.width.is_constant)
    if known > _OFFSETS:
        return None
    rest = tuple(i for i in v.axes if i not in points)
    values = expanded(ctx, inner, v, (*points, *rest))
    places = [w.node(ctx, inner, points, scope.domain[i].extent) for i, w in zip(at, found, strict=True)]
    node = apply("_put_in_windows", values, List(tuple(places)))
    widths = [w.width for w in found if not w.width.is_constant]
    if not widths:
        return node
    result = ctx.names.fresh_local("t")
    blocks = []
    for value in (node, scattered()):
        blocks.append(ctx.new_block())
        blocks[-1].assign(result, value)
    test = Infix(ctx.integers.volume(widths, known), "<=", integer(_OFFSETS))
    inner.block.statements.append(When(test, *blocks))
    return Name(result)


def _window(scope: Scope, a: Affine) -> _Window | None:
    """The window of places that `a` is in, if it moves along with one axis."""
    looked_up = [(atom, k) for atom, k in a.terms if isinstance(atom, Lookup)]
    offset = total((atom_affine(atom), k) for atom, k in looked_up)
    rest = a - offset
    axes = scope.axes(rest)
    if len(axes) != 1 or rest.coefficient(axes[0]) < 1 or any(k < 1 for _, k in looked_up) or not scope.is_static(rest):
        return None
    (s,) = axes
    width = total((atom.array.size - 1, k) for atom, k in looked_up if isinstance(atom, Lookup)) + 1
    return _Window(s, rest.coefficient(s), rest.substitute({s: scope.domain[s].start}), offset, width)
