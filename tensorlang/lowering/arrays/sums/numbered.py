"""Groups by several index arrays: pairs of elements are numbered, and then there is one index array.

    gen i. sum j. [y[j] = a[i] and z[j] = b[i] and p] * e  =  gen i. sum j. [N[j] = M[i] and p] * e

where equal pairs have the same number. There are at most as many numbers as there are pairs, while a table of all
possible pairs would have an element for each value of the one and each value of the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Lookup, atom_affine
from tensorlang.language.predicates import Predicate, equal
from tensorlang.lowering.arrays.accesses import positions
from tensorlang.lowering.arrays.context import Context, Held
from tensorlang.lowering.arrays.integers import ZERO, Range
from tensorlang.lowering.arrays.ir import Tuple
from tensorlang.lowering.arrays.scope import Scope
from tensorlang.lowering.arrays.sums.groups import Group, groups
from tensorlang.lowering.arrays.sums.running_in_groups import RUNNING_IN_GROUPS
from tensorlang.lowering.arrays.sums.segment_sum import SHARED_SEGMENTS
from tensorlang.lowering.arrays.sums.strategy import Strategy, WhyNot
from tensorlang.lowering.arrays.sums.summation import Summation
from tensorlang.lowering.arrays.values import Value, apply
from tensorlang.recursion import Deep


@dataclass(frozen=True)
class Several:
    """Groups that are asked for together: by the same summed index `j`, at the same axis `i` of the result."""

    j: Index
    i: Index
    groups: tuple[Group, ...]

    def numbered(self, c: Summation, own: Affine, asked: Affine) -> tuple[Predicate, ...]:
        """The conditions of `c`, with equal numbers in place of the groups."""
        gone = [g.part for g in self.groups]
        return (equal(own, asked), *(q for q in c.parts if q not in gone))


def several(ctx: Context, c: Summation) -> Several | WhyNot:
    """The groups of `c`, if a sum, or an extremum, of them is shared by all elements that ask for the same ones."""
    together: dict[tuple[Index, Index], list[Group]] = {}
    for g in groups(c):
        axes = g.axes(c)
        if len(axes) == 1 and all(g.part is not other.part for other in together.get((g.j, axes[0]), ())):
            together.setdefault((g.j, axes[0]), []).append(g)
    for (j, i), found in together.items():
        of_all = Several(j, i, tuple(found))
        if len(found) > 1 and _is_shared(ctx, c, of_all):
            return of_all
    return WhyNot("no two conditions compare elements at one summed index with elements at one axis of the result")


def _is_shared(ctx: Context, c: Summation, found: Several) -> bool:
    own, asked = (_numbers(n, ZERO, ZERO + 1, ZERO, i) for n, i in (("own", found.j), ("asked", found.i)))
    once = replace(c, parts=found.numbered(c, own, asked))
    return any(way.applies(ctx, once) is None for way in (SHARED_SEGMENTS, RUNNING_IN_GROUPS))


def _numbers(name: str, start: Affine, extent: Affine, size: Affine, i: Index) -> Affine:
    """The number at `i`, in an index array of that name and extent."""
    return atom_affine(Lookup(IndexArray(name, (extent,), size), (atom_affine(i) - start,)))


def with_numbers(ctx: Context, c: Summation, found: Several) -> tuple[Predicate, ...]:
    """The conditions of `c` with numbers in place of the groups; these are computed outside of loops."""
    outer, inner = c.scope.domain[found.i], c.summed[found.j]
    own, asked = _columns(ctx, c, found.j, inner, [g.own for g in found.groups]), None
    at: dict[Atom, Affine] = {found.j: atom_affine(found.i)}
    same = outer == inner and all(atom_affine(g.own).substitute(at) is atom_affine(g.asked) for g in found.groups)
    if not same:
        asked = _columns(ctx, c, found.i, outer, [g.asked for g in found.groups])
    sizes = ctx.shape(_greatest(ctx, c.scope, {g.own.array.size, g.asked.array.size}) for g in found.groups)
    count = inner.extent if same else inner.extent + outer.extent
    block = c.scope.fixed
    names = [ctx.names.fresh_local("numbers") for _ in range(1 if same else 2)]
    if asked is None:
        block.assign(names[0], apply("_group_numbers", own, sizes))
    else:
        block.unpack(names, apply("_group_numbers_of_both", own, asked, sizes))
    arrays = []
    for name, r in zip(names, (inner, outer), strict=False):
        arrays.append(IndexArray(name, (r.extent,), count))
        ctx.held[arrays[-1], ()] = Held(name, (r.extent,))
    ends = [(arrays[0], found.j, inner), (arrays[-1], found.i, outer)]
    return found.numbered(c, *(atom_affine(Lookup(x, (atom_affine(i) - r.start,))) for x, i, r in ends))


def _columns(ctx: Context, c: Summation, i: Index, r: Range, elements: Sequence[Lookup]) -> Tuple:
    """The elements at all `i`."""
    scope = ctx.scope(c.scope, domain={i: r}, loops={}, env={}, masks=(), block=c.scope.fixed)
    return Tuple(tuple(positions(ctx, scope, atom_affine(x), (i,)) for x in elements))


def _greatest(ctx: Context, scope: Scope, sizes: set[Affine]) -> Affine:
    return ctx.integers.greatest("values", sorted(sizes, key=str), scope.fixed, [])


def _once(ctx: Context, c: Summation, found: Several) -> Deep[Value]:
    return ctx.contract(replace(c, parts=with_numbers(ctx, c, found)))


NUMBERED = Strategy(
    "numbered pairs",
    "gen i. sum j. [y[j] = a[i] and z[j] = b[i] and p] * e = gen i. sum j. [N[j] = M[i] and p] * e, "
    "where pairs that are the same have the same number",
    several,
    _once,
)
