"""Which tiles a kernel visits, and which of them need masks: exact answers of isl, and the code that lists them.

The points of tile t of an axis in blocks of b are the i with b t <= i < b t + b. A tile is empty if no point in it
satisfies a predicate, and full if all do: two projections of sets of integers, for all sizes at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorlang.interning import shared
from tensorlang.language.affine import Index, atom_affine, constant
from tensorlang.language.predicates import (
    FALSE,
    TRUE,
    And,
    Equal,
    Exists,
    NonNegative,
    Or,
    Predicate,
    Related,
    at_most,
    conjunction,
    conjuncts,
    disjunction,
    exists,
    less,
    lookups,
    not_equal,
)
from tensorlang.lowering.kernels.ir import Accumulator, Role, TileAxis, Tiles
from tensorlang.lowering.kernels.roles import Unfit, related
from tensorlang.lowering.kernels.terms import over
from tensorlang.sets.isl import gist
from tensorlang.sets.simplify import simplify


def tiles_of(axes: Sequence[TileAxis], accumulators: Sequence[Accumulator], present: Predicate) -> Tiles | None:
    """The tiles that have something for one of `accumulators`; None if all have, at all of their points.

    `present` is what is known of the sizes. If anything is ruled out, all reduced axes are among those of the tiles.
    Raises `Unfit` if that can't be said without quantifiers.
    """
    cut = {axis.index: axis for axis in axes if axis.is_tiled}
    data = [tuple(r for r in related(acc.pred) if _is_over(r, cut)) for acc in accumulators]
    if len({frozenset(relations) for relations in data}) > 1:
        raise Unfit("its sums are over points of different relations")
    affine = [[p for p in conjuncts(acc.pred) if p not in data[0]] for acc in accumulators]
    mentioned = {i for acc in accumulators for i in over(acc.pred) if i in cut}
    if not mentioned and not any(affine):
        return None
    chosen = tuple(a for a in axes if a.is_tiled and (a.index in mentioned or a.role is Role.REDUCED))
    chosen = chosen or tuple(cut.values())[:1]  # where only sizes decide
    numbers = tuple(_number(a.index) for a in chosen)
    some, part = [], []
    for parts in affine:
        whole = [p for p in parts if over(p) <= cut.keys() and not lookups(p) and not isinstance(p, Related)]
        some.append(_tiles(chosen, numbers, whole, conjunction(whole), present))
        rest = TRUE if len(whole) < len(parts) else negated(conjunction(whole))
        part.append(TRUE if rest is TRUE else _tiles(chosen, numbers, whole, rest, present))
    known = _in_range(chosen, numbers, present)
    return Tiles(
        chosen, numbers, simplify(disjunction(some), known), simplify(disjunction(part), known), data[0] if data else ()
    )


def _is_over(r: Related, cut: Mapping[Index, TileAxis]) -> bool:
    """Whether a relation is over tiles: each of its places is another axis that is cut into them."""
    axes = [i for i in cut if any(a is atom_affine(i) for a in r.arguments)]
    return len(axes) == len(r.arguments)


@shared
def _number(i: Index) -> Index:
    """The index that stands for the number of a tile of the axis of `i`."""
    return Index(f"{i.name}_tile", i.serial)


def _tiles(
    axes: tuple[TileAxis, ...], numbers: tuple[Index, ...], said: Sequence[Predicate], p: Predicate, present: Predicate
) -> Predicate:
    """The tiles with a point where `p` holds; an axis has points beyond its end if `said` excludes these."""
    if p is FALSE or p is TRUE:
        return p
    parts, binders = [p], []
    for axis, t in zip(axes, numbers, strict=True):
        if axis.index in over(p):
            i, first = atom_affine(axis.index), atom_affine(t) * axis.block
            parts += [at_most(first, i), less(i, first + axis.block)]
            ends = less(i, axis.extent) in said
            binders.append((axis.index, axis.extent + axis.block if ends else axis.extent))
    found = gist(exists(binders, conjunction(parts)), _in_range(axes, numbers, present))
    if found is None:
        raise Unfit("which tiles it touches takes quotients to say")
    return found


def _in_range(axes: tuple[TileAxis, ...], numbers: tuple[Index, ...], present: Predicate) -> Predicate:
    """What is known of the numbers of tiles: each has an element of the axis."""
    parts = [present]
    for axis, t in zip(axes, numbers, strict=True):
        parts += [at_most(constant(0), atom_affine(t)), less(atom_affine(t) * axis.block, axis.extent)]
    return conjunction(parts)


def negated(p: Predicate) -> Predicate:
    """Where a predicate without quantifiers and data does not hold. Raises `Unfit` for others."""
    match p:
        case NonNegative(a):
            return at_most(a, constant(-1))
        case Equal(a):
            return not_equal(a, constant(0))
        case And(parts):
            return disjunction([negated(q) for q in parts])
        case Or(parts):
            return conjunction([negated(q) for q in parts])
        case Exists() | Related():
            raise Unfit("a condition on its tiles has a quantifier, or a relation beside alternatives")
