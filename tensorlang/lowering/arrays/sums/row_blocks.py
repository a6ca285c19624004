"""Arrays that are cut into blocks of rows, and code that goes block by block with these.

    t = gen i:n, j:n. [j <= i] * e     t = [block(*cut) for cut in rows]         each over the columns that it needs
    z = gen i:n. sum j:n. [j <= i] * t[i, j]     is made of the same blocks, which it is given with the rows' bounds

Where an array is read in another way, it is put together again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tensorlang.language.affine import Affine, Atom, Index, atom_affine
from tensorlang.language.grammar import Expr
from tensorlang.language.predicates import NonNegative
from tensorlang.lowering.arrays.accesses import access
from tensorlang.lowering.arrays.brackets import bound_on
from tensorlang.lowering.arrays.context import Context, CutBlock, Held
from tensorlang.lowering.arrays.integers import ZERO, Range
from tensorlang.lowering.arrays.ir import Block, Define, Each, Name, Node
from tensorlang.lowering.arrays.scope import Scope
from tensorlang.lowering.arrays.sums.band import text
from tensorlang.lowering.arrays.sums.loop import whole
from tensorlang.lowering.arrays.values import DTYPE, Value, apply, integer, ordered
from tensorlang.lowering.plan.dependence import Key, read_by, reads
from tensorlang.lowering.plan.triangular import Cut
from tensorlang.recursion import Deep, call

Ranges = Mapping[Index, Range]
Limits = Sequence[NonNegative]


def involving(limits: Limits, i: Index) -> Limits:
    """Those of `limits` in which `i` occurs."""
    return [q for q in limits if q.value.coefficient(i)]


def narrowed(ctx: Context, within: Scope, ranges: Ranges, i: Index, limits: Limits) -> Ranges:
    """`ranges`, with those of other indices restricted to what some point of a block of `i` needs."""
    found = dict(ranges)
    for j, r in ranges.items():
        if j is not i and involving(limits, j):
            starts, stops = bounds(ctx, within, ranges, j, limits, 1)
            found[j] = ctx.integers.restricted(j, r, starts, stops, within.fixed)
    return found


def bounds(
    ctx: Context, within: Scope, ranges: Ranges, j: Index, limits: Limits, sign: int
) -> tuple[list[Affine], list[Affine]]:
    """Where `j` starts and stops so that some point of the other `ranges` is within limits, or with sign -1 so that
    all are."""
    starts: dict[Index, list[Affine]] = {}
    stops: dict[Index, list[Affine]] = {}
    for q in involving(limits, j):
        extreme: dict[Atom, Affine] = {}
        for k, r in ranges.items():
            if k is not j:
                extreme[k] = r.last if q.value.coefficient(k) * sign > 0 else r.start
        bound_on(ctx, within, j, q.value.substitute(extreme), starts, stops)
    return starts.get(j, []), stops.get(j, [])


@dataclass(frozen=True)
class Along:
    """Arrays that are cut, and that an expression reads at rows that are its own index `row`."""

    row: Index
    keys: tuple[Key, ...]

    def cuts(self, ctx: Context) -> Node:
        """The bounds of the rows, each with the blocks of all arrays."""
        arrays = [ctx.held[key] for key in self.keys]
        return apply("_along", Name(ctx.rows[_rows(arrays[0])]), *(Name(held.name) for held in arrays))


def _rows(held: Held) -> Affine:
    """The number of rows of an array that is cut."""
    assert held.cut is not None
    return held.shape[held.cut.dimension]


def along(ctx: Context, scope: Scope, ranges: Ranges, found: Iterable[Expr]) -> Along | None:
    """The arrays that are cut along one of `ranges` where they are read."""
    row: Index | None = None
    keys: dict[Key, None] = {}
    for read in found if ctx.rows else ():
        key, at = read_by(read)
        cut = ctx.held[key].cut
        if cut is None or key in ctx.parts or not at:
            continue
        for i, r in ranges.items():
            if at[cut.dimension] is atom_affine(i) and all(map(scope.is_static, (r.start, r.stop))):
                row = row or i
                if row is i:
                    keys[key] = None
    return None if row is None else Along(row, tuple(keys))


def given(ctx: Context, within: Scope, found: Along, r: Range) -> tuple[Range, Range, list[str]]:
    """Let the code in `within` read the blocks of rows, of which it needs those in the range `r`.

    Return the rows of a block, those of them that are needed, and the names that the arrays' blocks must get.
    """
    whole = Range(ZERO, _rows(ctx.held[found.keys[0]])) if found.keys else r
    part = ctx.integers.part_of(found.row, whole)
    needed = ctx.integers.restricted(found.row, r, [part.start], [part.stop], within.block) if found.keys else part
    ctx.open_blocks.add(found.row)
    names = []
    for key in found.keys:
        held = ctx.held[key]
        cut = held.cut
        assert cut is not None
        whole_ranges = {i: Range(ZERO, n) for i, n in zip(cut.axes, held.shape, strict=True)}
        ranges = narrowed(ctx, within, {**whole_ranges, cut.row: part}, cut.row, cut.limits).values()
        name = ctx.names.fresh_block(held.name)
        block = replace(held, name=name, shape=tuple(b.extent for b in ranges), cut=None)
        ctx.parts[key] = CutBlock(block, cut, atom_affine(found.row), tuple(b.start for b in ranges))
        names.append(name)
    return part, needed, names


def taken(ctx: Context, found: Along) -> None:
    """Undo `given`: the code that reads the blocks has ended."""
    ctx.open_blocks.discard(found.row)
    for key in found.keys:
        del ctx.parts[key]


def block_of(
    ctx: Context, scope: Scope, block: Block, row: Index, part: Range, names: Sequence[str], limits: Limits
) -> Name:
    """A function, defined in `scope`, of the rows `part` and of the arrays' blocks, which have these names; its body
    is `block`."""
    name = ctx.names.fresh_local("block")
    scope.block.note(f"{text(limits)}: in blocks of {row.name}, each over what it needs")
    parameters = (*ctx.integers.parameters(part.start, part.stop), *names)
    scope.block.statements.append(Define(name, parameters, block))
    return Name(name)


def in_blocks(ctx: Context, scope: Scope, e: Expr, cut: Cut) -> Deep[Node]:
    """The list of blocks of gen axes. e."""
    block = ctx.new_block()
    within = ctx.scope(scope, block=block, fixed=block)
    found = along(ctx, scope, {cut.row: scope.domain[cut.row]}, reads(e)) or Along(cut.row, ())
    part, _, names = given(ctx, within, found, scope.domain[cut.row])
    inner = ctx.scope(within, domain=narrowed(ctx, within, {**scope.domain, cut.row: part}, cut.row, cut.limits))
    v: Value = yield from call(ctx.value(e, inner))
    taken(ctx, found)
    block.give(whole(ctx, inner, ordered(v, inner.order), inner.order))
    cuts = found.cuts(ctx) if found.keys else Name(ctx.rows[scope.domain[cut.row].extent])
    return Each(block_of(ctx, scope, block, cut.row, part, names, cut.limits), cuts)


def joined(ctx: Context, key: Key) -> Held:
    """An array that is cut, put together in lines before the statement that is being written."""
    held = ctx.held[key]
    cut = held.cut
    assert cut is not None
    domain = {i: Range(ZERO, n) for i, n in zip(cut.axes, held.shape, strict=True)}
    scope, block, found = Scope(domain, {}, {}, (), ctx.before, ctx.before), ctx.new_block(), Along(cut.row, (key,))
    within = ctx.scope(scope, block=block, fixed=block)
    part, _, names = given(ctx, within, found, domain[cut.row])
    inner = ctx.scope(within, domain={**domain, cut.row: part})
    read = ctx.parts[key]
    v = access(ctx, inner, read.held, tuple(atom_affine(i) - at for i, at in zip(domain, read.start, strict=True)))
    block.give(v.node)
    taken(ctx, found)
    name = ctx.names.fresh_global(f"{held.name}_whole")
    function = block_of(ctx, scope, block, cut.row, part, names, cut.limits)
    shape, axis = ctx.extents(scope, scope.order), integer(cut.dimension)
    ctx.before.assign(name, apply("_array_by_blocks", found.cuts(ctx), function, axis, shape, DTYPE))
    return replace(held, name=name, cut=None)
