"""What a kernel does with each index of a statement: the tiles that it is cut into, or how it is held.

An array's last two dimensions lie in a register, the others are addressed. So an index that only ever occurs in the
others is taken one value at a time (a batch, the rows of an image), and may be added to another there. In the last two,
a place with two indices is a window: one of them is held whole, and the other is unrolled, so that for each of its
values a product of matrices is left. All else is cut into tiles, except the axes along which a computed tile is
contracted: features, which are held whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tensorlang.language.affine import Affine, Index, Lookup
from tensorlang.language.grammar import Const, Expr, Extremum, Sum, children
from tensorlang.language.predicates import TRUE, And, Exists, Or, Predicate, Related, conjuncts, lookups
from tensorlang.lowering.kernels.ir import Role, TileAxis
from tensorlang.lowering.kernels.statements import Memory, StoredStatement
from tensorlang.lowering.kernels.terms import Reduction, conditions, free, nodes, over, reads, reduction
from tensorlang.lowering.plan.dependence import variable

SHORT = 256
"""Axes of up to this many elements, if that is known, are held whole."""

Length = Callable[[TileAxis, bool], int]
"""The length of the tiles of an axis, given whether conditions rule anything out."""

Heads = tuple[Expr, ...]


class Unfit(Exception):
    """A statement can't become a kernel; the message says why."""


@dataclass(frozen=True)
class Layout:
    """How arrays lie: the indices in their last dimension, and those that are in none of the last two."""

    lanes: frozenset[Index]
    leading: frozenset[Index]
    windows: tuple[Affine, ...]
    """Places of several indices in the last two dimensions."""


@dataclass
class Roles:
    """The axes of a statement by their indices, and the reductions that go over tiles."""

    axes: dict[Index, TileAxis] = field(default_factory=dict)
    tiled: Heads = ()


def roles(
    s: StoredStatement,
    memory: Memory,
    length: Length,
    rows: frozenset[Affine] = frozenset(),
    in_passes: bool = False,
) -> Roles:
    """The roles of the indices of `s`. Lanes whose extent is one of `rows` are held whole; `in_passes`, no rows are,
    and all reductions are accumulated.

    Raises `Unfit`.
    """
    found = Roles()
    extents = dict(s.axes)
    for e in nodes(s.body):
        if isinstance(e, Sum | Extremum):
            extents[e.index] = e.size
    if not s.axes:
        raise Unfit("it is a single number")
    found.tiled, computed = (_outermost(s), frozenset[Index]()) if in_passes else _tiled(s, memory, extents)
    if _is_split(s, found.tiled):
        found.tiled = _outermost(s)
    if _is_split(s, found.tiled):
        raise Unfit("one sum goes over tiles, and another one, in it, over all of the same axis")
    _check(s, () if in_passes else found.tiled)
    layout = _layout(s)
    summed = {i for head in found.tiled for i in _reduction(head).indices}
    own = {i for i, _ in s.axes}
    unrolled = _unrolled(found.tiled, own | summed, layout)
    held = {i for e in nodes(s.body) if isinstance(e, Sum | Extremum) for i in [e.index] if i not in summed}
    row = rows | {extents[i] for i in held} if not found.tiled else frozenset()
    heads = [_reduction(head) for head in found.tiled]
    ruled_out = any(r.masks or not over(r.pred).isdisjoint(own | summed) for r in heads)
    for i, n in extents.items():
        role = Role.REDUCED if i in summed else Role.PARALLEL
        block = length(TileAxis(i, n, role), ruled_out)
        if i in unrolled:
            role, block = Role.UNROLLED if unrolled[i] else Role.WHOLE, 0
        elif i in held:
            role, block = Role.WHOLE, 0
        elif i in layout.leading:
            block = 1
        elif (i in own and ((n in row and i in layout.lanes) or (computed and i not in computed))) or (
            n.is_constant and n.constant <= SHORT
        ):
            role, block = Role.WHOLE, 0
        found.axes[i] = TileAxis(i, n, role, block)
    if len({frozenset(i for i in r.indices if found.axes[i].is_tiled) for r in heads}) > 1:
        raise Unfit("its sums go over different tiles")
    if not any(axis.role is Role.PARALLEL for axis in found.axes.values()):
        raise Unfit("none of its axes is cut into tiles")
    return found


def _check(s: StoredStatement, tiled: Heads) -> None:
    """Raise `Unfit` for reads and tiled sums at places that data choose, and for conditions with quantifiers."""
    if any(a.lookups for _, places in reads(s.body) for a in places):
        raise Unfit("it reads at places that data choose")
    if any(lookups(_reduction(head).pred) for head in tiled):
        raise Unfit("it adds up at places that data choose")
    stack = conditions(s.body)
    while stack:
        p = stack.pop()
        if isinstance(p, Exists):
            raise Unfit("a condition has a quantifier")
        stack += p.parts if isinstance(p, And | Or) else ()


def _reduction(e: Expr) -> Reduction:
    assert isinstance(e, Sum | Extremum)
    return reduction(e)


def _tiled(s: StoredStatement, memory: Memory, extents: Mapping[Index, Affine]) -> tuple[Heads, frozenset[Index]]:
    """The reductions that are accumulated tile by tile, and the indices of the tiles that are computed for them.

    They are those of computed arrays that don't fit in memory; if there are none, the outermost ones that are products
    of matrices or go along columns. Sums along rows are computed at once.
    """
    heads = _heads(s.body)
    beyond: list[Expr] = []
    computed: frozenset[Index] = frozenset()
    for head, around in heads:
        for factor in _reduction(head).parts:
            made = free(factor) if variable(factor) is None and not isinstance(factor, Const) else frozenset()
            if made and not memory.holds(extents[i] for i in made):
                computed |= made
                beyond.append(head)
                if any(outer in beyond for outer in around):
                    raise Unfit("tiles would be computed from tiles that are computed in turn")
    if beyond:
        return tuple(dict.fromkeys(beyond)), computed
    found: list[Expr] = []
    for head, around in heads:
        if not any(outer in found for outer in around) and (_is_product(head) or _is_column(head)):
            found.append(head)
    return tuple(dict.fromkeys(found)), computed


def _outermost(s: StoredStatement) -> Heads:
    return tuple(head for head, around in _heads(s.body) if not around)


def _is_split(s: StoredStatement, tiled: Heads) -> bool:
    """Whether a reduction that is computed at once shares an index with one over tiles."""
    summed = {i for head in tiled for i in _reduction(head).indices}
    rest = [head for head, _ in _heads(s.body) if head not in tiled]
    return any(not summed.isdisjoint(_reduction(head).indices) for head in rest)


def _heads(e: Expr) -> list[tuple[Expr, Heads]]:
    """The reductions in `e`, outer ones first, each with those around it."""
    found: dict[Expr, Heads] = {}
    stack: list[tuple[Expr, Heads]] = [(e, ())]
    while stack:
        part, around = stack.pop()
        if isinstance(part, Sum | Extremum):
            if part in found:
                continue
            found[part] = around
            stack += [(factor, (*around, part)) for factor in reversed(reduction(part).parts)]
        elif variable(part) is None:
            stack += [(child, around) for child in reversed(children(part))]
    return list(found.items())


def groups(r: Reduction) -> list[frozenset[Index]]:
    """The sets of indices of the factors, and of the conditions on what is summed, that are within no other one."""
    sets = [free(part) for part in r.parts]
    sets += [over(p) for p in conjuncts(r.pred) if p is not TRUE and not over(p).isdisjoint(r.indices)]
    largest: list[frozenset[Index]] = []
    for candidate in sorted(sets, key=len, reverse=True):
        if not any(candidate <= other for other in largest):
            largest.append(candidate)
    return largest


def _is_product(head: Expr) -> bool:
    return len(groups(_reduction(head))) > 1


def is_large(r: Reduction) -> bool:
    """Whether a tile of a sum is worth a test first: it is a product of matrices, or of reductions in turn."""
    summed = any(isinstance(e, Sum | Extremum) for e in nodes(*r.factors))
    return not r.sign and (summed or len(groups(r)) > 1)


def _is_column(head: Expr) -> bool:
    """Whether the reduction goes along another dimension of an array that it reads than the last one."""
    summed = set(_reduction(head).indices)
    return any(not summed.isdisjoint(a.indices) for _, places in reads(head) for a in places[:-1])


def _layout(s: StoredStatement) -> Layout:
    """How the arrays lie that `s` reads and writes."""
    lanes: set[Index] = set()
    sublanes: set[Index] = set()
    leading: set[Index] = set()
    windows: dict[Affine, None] = {}
    outer: dict[Affine, None] = {}
    arrays = patterns(s)
    for places in arrays:
        lying: list[Affine | None] = [*places, None] if is_column(places, arrays) else [*places]
        lying = [*(None,) * (2 - len(lying)), *lying]
        second, first = lying[-2:]
        lanes.update(first.indices if first is not None else ())
        sublanes.update(second.indices if second is not None else ())
        windows.update((a, None) for a in (second, first) if a is not None and len(a.indices) > 1)
        strided = [a for a in (second, first) if a is not None and any(a.coefficient(i) != 1 for i in a.indices)]
        if any(len(a.indices) == 1 for a in strided):
            raise Unfit(f"something is read at {strided[0]}, in steps")
        outer.update((a, None) for a in lying[:-2] if a is not None)
    leading = {i for a in outer for i in a.indices}
    if not sublanes:
        raise Unfit("it is of vectors alone, which XLA handles as well")
    alone = leading - lanes - sublanes
    for a in outer:
        if len(a.indices) > 1 and not alone.issuperset(a.indices):
            raise Unfit(f"something is read at {a} in one dimension, and along it in a register")
    return Layout(frozenset(lanes), frozenset(alone), tuple(windows))


def patterns(s: StoredStatement) -> list[tuple[Affine, ...]]:
    """The places at which `s` reads and writes arrays, those without dimensions left out."""
    found = [places for _, places in reads(s.body)]
    found.append(tuple(_plain(i) for i, _ in s.axes))
    found += [x.at for x in looked_up(s.body)]
    return [places for places in dict.fromkeys(found) if places]


def is_column(places: tuple[Affine, ...], arrays: Sequence[tuple[Affine, ...]]) -> bool:
    """Whether an array lies as if there were one more dimension after its last.

    So do arrays with a number for each row: their places are those of another array, without the last one.
    """
    return any(len(other) == len(places) + 1 and other[:-1] == places for other in arrays)


def _plain(i: Index) -> Affine:
    return Affine(((i, 1),), 0)


def _unrolled(heads: Heads, usable: set[Index], layout: Layout) -> dict[Index, bool]:
    """For each index of a window, whether it is unrolled (True) or held whole. Raises `Unfit`."""
    found: dict[Index, bool] = {}
    for a in layout.windows:
        if len(a.indices) != 2 or a.lookups or not usable.issuperset(a.indices):
            raise Unfit(f"something is read at {a}")
        options = [(i, j) for i, j in (a.indices, a.indices[::-1]) if a.coefficient(j) == 1]
        options = [(i, j) for i, j in options if found.get(i, True) and not found.get(j, False)]
        for i, j in options:
            if all(_is_matrix_product(_reduction(head), i, layout) for head in heads) and heads:
                found[i], found[j] = True, False
                break
        else:
            raise Unfit(f"something is read at {a}, and there is no product of matrices")
    return found


def _is_matrix_product(r: Reduction, unrolled: Index, layout: Layout) -> bool:
    """Whether `r` has two factors with rows, columns and a common summed index beside `unrolled`."""
    without = {unrolled, *layout.leading}
    sets = [g - without for g in (free(factor) for factor in r.factors)]
    if len(sets) != 2:
        return False
    left, right = sets
    return bool(left - right and right - left and left & right & set(r.indices))


def related(p: Predicate) -> list[Related]:
    """The relations that are conjuncts of `p`."""
    return [part for part in conjuncts(p) if isinstance(part, Related)]


def looked_up(*expressions: Expr) -> list[Lookup]:
    """The elements of index arrays that occur in `expressions`."""
    in_places = [x for _, places in reads(*expressions) for a in places for x in a.lookups]
    return list(dict.fromkeys([*in_places, *(x for p in conditions(*expressions) for x in lookups(p))]))
