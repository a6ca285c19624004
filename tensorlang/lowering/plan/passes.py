"""From a simplified function to its plan: the passes, in order, and the check of what they made."""

from __future__ import annotations

from collections.abc import Collection

from tensorlang.errors import NormalFormError
from tensorlang.language.affine import IndexArray
from tensorlang.language.function import Function
from tensorlang.language.grammar import Gen, Var
from tensorlang.language.lets import bindings
from tensorlang.language.predicates import Relation
from tensorlang.lowering.plan.asked_first import ask_first
from tensorlang.lowering.plan.axis_order import order_axes
from tensorlang.lowering.plan.check import why_not
from tensorlang.lowering.plan.chosen_elements import store_chosen_elements
from tensorlang.lowering.plan.compared import inline_compared
from tensorlang.lowering.plan.fuse_sums import fuse_sums
from tensorlang.lowering.plan.inline import inline, inline_matrices
from tensorlang.lowering.plan.ir import (
    AtPoints,
    Dense,
    FusedSums,
    Given,
    Plan,
    Quotients,
    RowBlocks,
    Step,
    Storage,
    StoredArray,
)
from tensorlang.lowering.plan.masks_of_zeros import without_masks_of_zeros
from tensorlang.lowering.plan.materialize import materialized
from tensorlang.lowering.plan.needless_guards import without_guards_of_sums, without_needless_guards
from tensorlang.lowering.plan.numbers import WithoutIntegers, replace_integers
from tensorlang.lowering.plan.place_guards import guard_places
from tensorlang.lowering.plan.quotients import Tables, bound_quotients, read_quotients
from tensorlang.lowering.plan.reroll import Rerolled, reroll
from tensorlang.lowering.plan.running_products import inline_running_products
from tensorlang.lowering.plan.sparse import stored_at_points
from tensorlang.lowering.plan.triangular import cut_triangles
from tensorlang.lowering.plan.unread_masks import without_unread_masks


def plan(f: Function, sparse: Collection[Relation] = (), in_step: bool = False, strict: bool = False) -> Plan:
    """The plan of `f`, simplified, where the relations `sparse` are given by their points; of a step, if `in_step`. In
    `strict` programs what brackets hide may be inf or nan."""
    numbers, tables, rerolled, inlined = _inlined(f, strict)
    inlined = store_chosen_elements(inlined if strict else without_masks_of_zeros(inlined))
    ordered = order_axes(inlined)
    fused = fuse_sums(guard_places(ordered))
    unguarded, certain = without_needless_guards(fused.function)
    unguarded = ask_first(unguarded) if in_step else unguarded
    points = stored_at_points(unguarded, sparse)
    forced, cuts = materialized(unguarded, points, in_step), cut_triangles(unguarded)

    def storage(x: Var | IndexArray) -> Storage:
        if isinstance(x, Var) and x in points:
            return AtPoints(points[x])
        return RowBlocks(cuts.arrays[x]) if isinstance(x, Var) and x in cuts.arrays else Dense()

    given = [
        *(Given(x, size) for size, x in numbers.below.items()),
        *(Given(x, size) for size, x in numbers.sizes.items()),
        *(Given(x, own) for own, x in numbers.elements.items()),
        *(Given(x, Quotients(size, c)) for (size, c), x in tables.items()),
        *(Given(x, tuple(values)) for x, values in rerolled.places.items()),
        *(Given(x, tuple(values)) for x, values in rerolled.numbers.items()),
    ]
    statements, outputs = bindings(unguarded.body)
    steps: list[Step] = []
    waiting = list(reversed(statements))
    while waiting:
        x, e = waiting.pop()
        group = fused.groups.get(x) if isinstance(x, Var) else None
        if group is None:
            steps.append(StoredArray(x, e, storage(x), x in forced, x in certain))
        else:
            values = [e, *(waiting.pop()[1] for _ in group[1:])]
            steps.append(FusedSums(tuple(group), tuple(values)))
    work = {rows: tuple(found) for rows, found in cuts.work.items()}
    made = Plan(f, tuple(given), tuple(steps), outputs, work, _notes(rerolled.function, inlined, ordered))
    reason = why_not(made)
    if reason is not None:
        raise NormalFormError(f"lowering made no plan: {reason}")
    return made


def computed_where_read(f: Function, sparse: Collection[Relation] = ()) -> frozenset[Var]:
    """The variables of `f`, simplified, that its plan has no arrays for, or arrays only at the points of relations."""
    _, _, rerolled, inlined = _inlined(f)
    left = {x for x, _ in bindings(inlined.body)[0]}
    gone = {x for x, _ in bindings(rerolled.function.body)[0] if isinstance(x, Var) and x not in left}
    return frozenset(gone | stored_at_points(f, sparse).keys())


def _inlined(f: Function, strict: bool = False) -> tuple[WithoutIntegers, Tables, Rerolled, Function]:
    """`f` with arrays for indices as numbers and for quotients, with statements of the same form rolled into one, and
    without the arrays that are computed where they are read."""
    numbers = replace_integers(without_guards_of_sums(f))
    # where quotients are still conditions on indices, one can see that these leave few values
    divided, tables = read_quotients(inline_compared(numbers.function))
    rerolled = reroll(divided)
    inlined = without_unread_masks(inline_matrices(inline_running_products(inline(rerolled.function), strict)))
    return numbers, tables, rerolled, bound_quotients(inlined, tables)


def _notes(before: Function, inlined: Function, ordered: Function) -> dict[str, str]:
    """What became of arrays that were inlined or transposed."""
    left = {x for x, _ in bindings(inlined.body)[0]}
    gone = {x.name: "inlined: computed where it is read" for x, _ in bindings(before.body)[0] if x not in left}
    lies = {x.name: e for x, e in bindings(inlined.body)[0]}
    moved = {}
    for x, e in bindings(ordered.body)[0]:
        old = lies.get(x.name)
        if old is not None and x not in left and isinstance(e, Gen) and isinstance(old, Gen):
            moved[x.name] = f"transposed: its short axis {e.index.name} comes first in memory"
    return {**gone, **moved}
