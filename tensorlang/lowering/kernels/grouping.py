"""Kernels from statements: each is drafted alone, and joins a kernel before it that goes over the same tiles.

A statement joins a kernel if both have the same tiles and visit the same ones of them, and either it reads, at its own
tile, what the kernel makes, or both read something in common. Accumulators may only be read after the last tile, except
for the maximum m of elements a, in sums of exp(a - m) * .. over these. Such sums are accumulated along with m, and
multiplied by exp(old m - new m) where it grows: softmax in one pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tensorlang.errors import NormalFormError
from tensorlang.language.affine import Affine, Index, IndexArray, atom_affine, constant
from tensorlang.language.function import Function, Parameter, unused_name
from tensorlang.language.grammar import Add, Call, Const, Expr, Extremum, Sum, Var, access, bracket
from tensorlang.language.names import free_names
from tensorlang.language.predicates import TRUE, Predicate, Related, Relation, conjunction, conjuncts, less, within
from tensorlang.language.rebuilt import rewrite
from tensorlang.language.show import predicate_text
from tensorlang.language.types import Pair, R, Type, array, leaves, shape, struct_of_arrays
from tensorlang.lowering.kernels.check import why_not
from tensorlang.lowering.kernels.growth import Counted, is_worth, where_worth
from tensorlang.lowering.kernels.ir import (
    Accumulator,
    Kernel,
    KernelProgram,
    Kind,
    Output,
    Plain,
    Results,
    Role,
    Step,
    TileAxis,
    Tiles,
    leaves_of,
)
from tensorlang.lowering.kernels.loops import with_ends
from tensorlang.lowering.kernels.masks import FUNCTIONS, said
from tensorlang.lowering.kernels.passes import rows_apart
from tensorlang.lowering.kernels.roles import Length, Roles, Unfit, is_large, roles
from tensorlang.lowering.kernels.statements import ChosenPoints, Memory, StoredStatement, stored_statements
from tensorlang.lowering.kernels.targets import Tiling
from tensorlang.lowering.kernels.terms import (
    conditions,
    free,
    multiplied,
    nodes,
    over,
    paths_to,
    reads,
    reduction,
    renamed,
)
from tensorlang.lowering.kernels.tiles import tiles_of
from tensorlang.lowering.plan.dependence import places, variable
from tensorlang.lowering.plan.numbers import has_numbers
from tensorlang.recursion import Deep, call, run
from tensorlang.sets.isl import implies

_KINDS = {0: Kind.SUM, 1: Kind.MAX, -1: Kind.MIN}

Read = tuple[Var, tuple[Affine, ...]]


@dataclass
class _Group:
    """A kernel to be: statements over the same tiles."""

    axes: dict[Index, TileAxis] = field(default_factory=dict)
    accumulators: list[Accumulator] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    reads: set[Read] = field(default_factory=set)
    statements: list[StoredStatement] = field(default_factory=list)
    apart: dict[str, str] = field(default_factory=dict)
    where: Predicate = TRUE

    def tiled(self) -> list[TileAxis]:
        """The axes that are cut into tiles, in order."""
        return [axis for axis in self.axes.values() if axis.is_tiled]

    @property
    def made(self) -> dict[Var, Output]:
        """The outputs by their variables."""
        return {output.var: output for output in self.outputs}


def program(f: Function, tiling: Tiling, counted: Counted) -> KernelProgram:
    """The steps of `f`, which is simplified, for sizes of at least 1, as a target has them.

    Kernels that the target can't have, or that take more than `counted` says of the same as `jax.numpy`, are left to
    that.
    """
    if has_numbers(f):
        return _left_alone(f, "it reads numbers that indices are")
    found = stored_statements(f)
    present = conjunction(less(constant(0), atom_affine(s)) for s in f.sizes)
    steps: list[_Group | Plain] = []
    names = Canonical()
    for s in found.stored:
        if isinstance(s, ChosenPoints):
            steps.append(_plain(s, "it chooses points"))
            continue
        try:
            where = _where_worth(s, found.memory, present, tiling, counted)
            _place(s, steps, found.memory, tiling.length, names, present, where)
        except Unfit as reason:
            steps.append(_plain(s, str(reason)))
    wanted = set(leaves_of(found.results))
    reversed_steps: list[Step] = []
    for step in reversed(steps):
        made = [step] if isinstance(step, Plain) else _finished(step, wanted, present, tiling)
        for each in reversed(made):
            wanted |= _read_by(each)
        if tiling.has_passes:
            made = [_with_passes(each, found.memory, present, tiling) for each in made]
        reversed_steps += reversed(made)
    reversed_steps.reverse()
    if any(isinstance(s, ChosenPoints) for s in found.stored) and not is_worth(f, reversed_steps, counted):
        return _left_alone(f, "it chooses points")
    result = KernelProgram(f, found.parts, tuple(reversed_steps), found.results)
    wrong = why_not(result)
    if wrong is not None:
        raise NormalFormError(f"lowering made no kernels: {wrong}")
    return result


def _finished(group: _Group, wanted: set[Var], present: Predicate, tiling: Tiling) -> Sequence[Step]:
    """The kernel of `group`, or its statements if the target can't have the kernel."""
    kernel = with_ends(tiling.adapted(_kernel(group, wanted, present)))
    reason = tiling.unfit(kernel)
    if reason is not None:
        return [_plain(s, reason) for s in group.statements]
    if group.where is TRUE:
        return [kernel]
    reason = f"it takes less than in tiles, except where {predicate_text(group.where)}"
    instead = (_plain(s, reason) for s in group.statements)
    return [replace(kernel, where=group.where, instead=tuple(instead))]


def _with_passes(step: Step, memory: Memory, present: Predicate, tiling: Tiling) -> Step:
    """A kernel, with passes that make the same without holding rows, if there are any."""
    groups: list[_Group | Plain] = []
    names = Canonical()
    try:
        for s in rows_apart(step) if isinstance(step, Kernel) else ():
            _place(s, groups, memory, tiling.length, names, present, in_passes=True)
    except Unfit:
        return step
    return replace(step, passes=_passes(step, groups, present, tiling)) if isinstance(step, Kernel) else step


def _passes(kernel: Kernel, groups: Sequence[_Group | Plain], present: Predicate, tiling: Tiling) -> tuple[Kernel, ...]:
    wanted = {output.var for output in kernel.outputs}
    found: list[Kernel] = []
    for group in reversed(groups):
        assert isinstance(group, _Group)
        for step in _finished(group, wanted, present, tiling) if not wanted.isdisjoint(group.made) else ():
            if isinstance(step, Plain):
                return ()
            wanted |= _read_by(step)
            found.append(step)
    return tuple(reversed(found))


def _read_by(step: Step) -> set[Var]:
    if isinstance(step, Plain):
        return {p for p in step.function.params if isinstance(p, Var)}
    values = [acc.value for acc in step.accumulators] + [output.value for output in step.outputs]
    return {x for x, _ in reads(*values)}


def _left_alone(f: Function, reason: str) -> KernelProgram:
    """A program all of which is left to `jax.numpy`."""
    outputs = tuple(Var("_".join(["result", *map(str, path)]), kind) for path, kind in leaves(f.type))
    remaining = iter(outputs)
    return KernelProgram(f, {}, (Plain(f, outputs, reason),), run(_tree(f.type, remaining)))


def _tree(kind: Type, variables: Iterator[Var]) -> Deep[Results]:
    kind = struct_of_arrays(kind)
    if not isinstance(kind, Pair):
        return next(variables)
    first = yield from call(_tree(kind.first, variables))
    second = yield from call(_tree(kind.second, variables))
    return (first, second)


class Canonical:
    """One index for all axes of one role, place and extent, so that equal expressions over them are the same."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], Index] = {}

    def of(self, axis: TileAxis, number: int) -> Index:
        """The index of the axis with this number among those of its role, block and extent."""
        key = (axis.role, axis.block, axis.extent, number)
        if key not in self._known:
            self._known[key] = Index(unused_name(axis.index.name, {i.name for i in self._known.values()}))
        return self._known[key]


def _where_worth(s: StoredStatement, memory: Memory, present: Predicate, tiling: Tiling, counted: Counted) -> Predicate:
    """The sizes at which a kernel of `s` takes no more than `jax.numpy` does. Raises `Unfit` if there are none."""
    if _is_dense(s.body):
        return TRUE
    try:
        alone = _draft(s, roles(s, memory, tiling.length), Canonical(), _Group())
        kernel = tiling.adapted(_kernel(alone, {s.var}, present))
    except Unfit:
        return TRUE  # alone it is no kernel, perhaps with others
    if tiling.unfit(kernel) is not None:
        return TRUE
    return where_worth(kernel, _plain(s, "").function, counted)


def _is_dense(e: Expr) -> bool:
    """Whether there is no condition in `e`, no window, and no sum of what does not depend on its index: to compute all
    elements of tiles is what is asked."""
    if any(p is not TRUE for p in conditions(e)) or any(len(a.indices) > 1 for _, at in reads(e) for a in at):
        return False
    for part in nodes(e):
        if isinstance(part, Call) and part.function in FUNCTIONS:
            return False  # by a mask of values
        if isinstance(part, Sum | Extremum) and part.index not in free(part.body):
            return False
    return True


def _place(
    s: StoredStatement,
    steps: list[_Group | Plain],
    memory: Memory,
    length: Length,
    names: Canonical,
    present: Predicate,
    where: Predicate = TRUE,
    in_passes: bool = False,
) -> None:
    """Add `s`, a kernel `where` that holds, to one of those in `steps`, or as a new one at the end. Raises `Unfit`."""
    earliest = 0
    read = {*free_names(s.plain)}
    for k, step in enumerate(steps):
        made: Sequence[Parameter] = step.outputs if isinstance(step, Plain) else tuple(step.made)
        if not read.isdisjoint(made):
            earliest = k
    apart: dict[str, str] = {}
    for step in reversed(steps[earliest:]):
        if isinstance(step, _Group):
            whole = frozenset(a.extent for a in step.axes.values() if a.role is Role.WHOLE)
            try:
                draft = _draft(s, roles(s, memory, length, whole, in_passes), names, step)
                reason = _why_apart(draft, step, present) if where is step.where else "they are kernels at other sizes"
            except Unfit as unfit:
                reason = str(unfit)
            if reason is None:
                _join(draft, step)
                return
            apart[step.outputs[0].var.name] = reason
    alone = _draft(s, roles(s, memory, length, in_passes=in_passes), names, _Group())
    tiles_of(alone.tiled(), alone.accumulators, present)
    alone.apart, alone.where = apart, where
    steps.append(alone)


def _draft(s: StoredStatement, found: Roles, names: Canonical, group: _Group) -> _Group:
    """The kernel of `s` alone, where outputs of `group` are read as the values that it stores. Raises `Unfit`."""
    axes, change = renaming(s, found, names)
    heads = {renamed(head, change): None for head in found.tiled}
    body = renamed(s.body, change)
    own = tuple(change.get(i, i) for i, _ in s.axes)
    draft = _Group(axes=axes, reads=set(reads(body)), statements=[s])
    accumulated: dict[Expr, Expr] = {}
    for head in heads:
        acc = _accumulator(s.var.name, head, own, axes, group)
        acc = replace(acc, tests=_tests(acc, head, body, group))
        same = (acc.kind, acc.pred, acc.value, acc.tests)
        known = next((a for a in group.accumulators if (a.kind, a.pred, a.value, a.tests) == same), None)
        if known is None:
            draft.accumulators.append(acc)
        accumulated[head] = access((known or acc).var, *map(atom_affine, (known or acc).axes))
    value = _with(body, accumulated, group.made)
    draft.outputs.append(Output(s.var, own, value))
    return draft


def renaming(s: StoredStatement, found: Roles, names: Canonical) -> tuple[dict[Index, TileAxis], dict[Index, Index]]:
    """The axes with canonical indices, and which index became which."""
    numbers: Counter[tuple[Role, int, Affine]] = Counter()
    change: dict[Index, Index] = {}
    own = [i for i, _ in s.axes]
    bound = [i for i in found.axes if i not in own]
    for i in (*own, *bound):
        axis = found.axes[i]
        key = (axis.role, axis.block, axis.extent)
        number = numbers[key]
        if i in bound and axis.role is Role.WHOLE:
            number = _free_number(s, i, axis, change, names)
        else:
            numbers[key] += 1
        change[i] = names.of(axis, number)
    axes = {change[i]: replace(found.axes[i], index=change[i]) for i in (*own, *bound)}
    order = (Role.PARALLEL, Role.REDUCED, Role.WHOLE, Role.UNROLLED)
    return {i: a for role in order for i, a in axes.items() if a.role is role}, change


def _free_number(s: StoredStatement, i: Index, axis: TileAxis, change: Mapping[Index, Index], names: Canonical) -> int:
    """The first number of a WHOLE axis whose index is not free where `i` is bound."""
    binding = [e for e in nodes(s.body) if isinstance(e, Sum | Extremum) and e.index is i]
    inside = {j for e in binding for j in (*free(e.body), *(over(e.pred) if isinstance(e, Extremum) else ()))}
    taken = {change[j] for j in inside if j in change}
    number = 0
    while names.of(axis, number) in taken:
        number += 1
    return number


def _accumulator(
    name: str, head: Expr, own: tuple[Index, ...], axes: Mapping[Index, TileAxis], group: _Group
) -> Accumulator:
    """The accumulator of `head`, a reduction over tiles. Raises `Unfit` if it reads what `group` has not made yet."""
    assert isinstance(head, Sum | Extremum)
    r = reduction(head)
    outer = free(head)
    kept = (*(i for i in own if i in outer), *(i for i in axes if i in outer and i not in own))
    value = multiplied(r.factors, r.masks)
    tiles = [axes[i] for i in r.indices if axes[i].role is Role.REDUCED and axes[i].block > 1]
    ends = [less(atom_affine(a.index), a.extent) for a in tiles if not _vanishes(r.factors, a.index) or r.sign]
    guards = _guards(r.factors) if not r.sign else set()
    inner = [i for i in r.indices if axes[i].role is not Role.REDUCED]
    said = [p for p in conjuncts(r.pred) if p not in guards]
    around = conjunction(p for p in said if not over(p).isdisjoint(inner))
    pred = conjunction([*(p for p in said if over(p).isdisjoint(inner)), *ends])
    if inner and not r.sign:
        value = bracket(around, value)
    for i in reversed(inner):
        value = Extremum(r.sign, i, axes[i].extent, around, value) if r.sign else Sum(i, axes[i].extent, value)
        around = TRUE
    var = Var(f"{name}_{_KINDS[r.sign].value}", array(tuple(axes[i].extent for i in kept), R))
    shift = None
    for x in dict.fromkeys(x for x, _ in reads(*r.parts) if x in group.made):
        if shift is not None or not _is_shift(x, r.factors, pred, group):
            raise Unfit(f"it reads {x.name} before it is complete")
        shift = next(a.var for a in group.accumulators if _reads_alone(group.made[x], a))
    if shift is not None:
        value = _with(value, {}, group.made)
    return Accumulator(var, kept, _KINDS[r.sign], pred, value, shift)


def _tests(acc: Accumulator, head: Expr, body: Expr, group: _Group) -> tuple[Expr, ...]:
    """The masks that must hold somewhere in a tile for it to count: those of the summed terms, and those around all
    reads of the sum in `body`."""
    assert isinstance(head, Sum | Extremum)
    r = reduction(head)
    if acc.shift is not None or not is_large(r):
        return ()
    paths = paths_to(head, body)
    around = [m for m in paths[0] if all(m in path for path in paths[1:]) and not isinstance(m, bool)]
    return (*r.masks, *(m for m in around if said(m) is None and _is_known(m, acc, group)))


def _is_known(mask: Expr, acc: Accumulator, group: _Group) -> bool:
    """Whether a mask around a sum is known in each tile: it depends on no sum, and on nothing that the kernel makes."""
    late = any(isinstance(e, Sum | Extremum) or variable(e) in group.made for e in nodes(mask))
    return not late and free(mask) <= set(acc.axes)


def _vanishes(factors: Sequence[Expr], i: Index) -> bool:
    """Whether a product has only elements and constants as factors, one read at `i`: beyond the end of `i` it is 0."""
    simple = all(variable(x) is not None or isinstance(x, Const) for x in factors)
    return simple and any(a is atom_affine(i) for x in factors for a in places(x))


def _guards(factors: Sequence[Expr]) -> set[Predicate]:
    """Conditions that only keep places of several indices within arrays: a product of elements is 0 elsewhere."""
    if not all(variable(x) is not None or isinstance(x, Const) for x in factors):
        return set()
    found: set[Predicate] = set()
    for x, at in reads(*factors):
        for a, n in zip(at, shape(x.type)[0], strict=True):
            if len(a.indices) > 1:
                found.update(conjuncts(within(a, n)))
    return found


def _reads_alone(output: Output, acc: Accumulator) -> bool:
    return output.value is access(acc.var, *map(atom_affine, acc.axes))


def _is_shift(m: Var, factors: Sequence[Expr], pred: Predicate, group: _Group) -> bool:
    """Whether a product has one factor exp(a - m), and m is the maximum of a, over all points of the sum at least."""
    acc = next((a for a in group.accumulators if a.kind is Kind.MAX and _reads_alone(group.made[m], a)), None)
    with_m = [factor for factor in factors if any(x is m for x, _ in reads(factor))]
    if acc is None or len(with_m) != 1 or not isinstance(with_m[0], Call) or with_m[0].function.name != "exp":
        return False
    match with_m[0].arguments[0]:
        case Add(a, b, -1) if variable(b) is m:
            at_own = places(b) == [atom_affine(i) for i in acc.axes]
            return at_own and a is acc.value and implies(pred, acc.pred)
    return False


def _with(e: Expr, values: Mapping[Expr, Expr], made: Mapping[Var, Output]) -> Expr:
    """`e` with `values` in place of expressions, and outputs in `made` in place of reads of them at their own axes.

    Raises `Unfit` if they are read elsewhere.
    """

    def given(old: Expr) -> Expr | None:
        x = variable(old)
        if old in values or x is None:
            return values.get(old)
        if x not in made:
            return old
        if places(old) != [atom_affine(i) for i in made[x].axes]:
            raise Unfit(f"it reads {x.name} of other tiles")
        return made[x].value

    return rewrite(e, given)


def _why_apart(draft: _Group, group: _Group, present: Predicate) -> str | None:
    """Why `draft` is not one kernel with `group`; None if it visits the tiles that `group` visits, and shares something
    with it. Raises `Unfit`."""
    if draft.tiled() != group.tiled():
        return "its tiles are over other axes"
    if draft.reads.isdisjoint(group.reads | _made(group)):
        return "they read nothing at the same places"
    before = _visited(tiles_of(group.tiled(), group.accumulators, present))
    after = _visited(tiles_of(group.tiled(), [*group.accumulators, *draft.accumulators], present))
    return None if before == after else "it visits other tiles"


def _visited(tiles: Tiles | None) -> tuple[Predicate, frozenset[Related]]:
    return (TRUE, frozenset()) if tiles is None else (tiles.some, frozenset(tiles.data))


def _made(group: _Group) -> set[Read]:
    return {(output.var, tuple(map(atom_affine, output.axes))) for output in group.outputs}


def _join(draft: _Group, group: _Group) -> None:
    axes = {**group.axes, **draft.axes}
    order = (Role.PARALLEL, Role.REDUCED, Role.WHOLE, Role.UNROLLED)
    group.axes = {i: a for role in order for i, a in axes.items() if a.role is role}
    group.accumulators += draft.accumulators
    group.outputs += draft.outputs
    group.reads |= draft.reads
    group.statements += draft.statements


def _kernel(group: _Group, wanted: set[Var], present: Predicate) -> Kernel:
    """The kernel of `group`, with only those outputs that are `wanted`, and with what they need."""
    outputs = [output for output in group.outputs if output.var in wanted]
    needed = {x for x, _ in reads(*(output.value for output in outputs))}
    kept = []
    for acc in reversed(group.accumulators):
        if acc.var in needed:
            kept.append(acc)
            needed |= {x for x, _ in reads(acc.value)}
    kept.reverse()
    used = {i for acc in kept for i in (*acc.axes, *_indices(acc.value), *over(acc.pred))}
    used |= {i for output in outputs for i in (*output.axes, *_indices(output.value))}
    axes = tuple(axis for i, axis in group.axes.items() if i in used)
    name = "_".join(output.var.name for output in outputs)
    tiles = tiles_of(axes, kept, present)
    return Kernel(name, axes, tuple(kept), tuple(outputs), tiles, tuple(group.apart.items()))


def _indices(e: Expr) -> set[Index]:
    """All indices in `e`, bound ones too."""
    found = set(free(e))
    for part in nodes(e):
        if isinstance(part, Sum | Extremum):
            found.add(part.index)
        if variable(part) is not None:
            found |= {i for a in places(part) for i in a.indices}
    return found


def _plain(s: StoredStatement | ChosenPoints, reason: str) -> Plain:
    """A statement as a function of what it reads."""
    body = s.numbers if isinstance(s, ChosenPoints) else s.plain
    params: list[Parameter] = [x for x in free_names(body) if isinstance(x, Var | Relation | IndexArray)]
    return Plain(Function(s.var.name, tuple(params), body), (s.var,), reason)
