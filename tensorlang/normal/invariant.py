"""What is the same in all steps of a recurrence, as statements around it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tensorlang.language.affine import Affine, Atom, IndexArray, Lookup, atom_affine
from tensorlang.language.predicates import TRUE, Predicate, conjunction, substitute
from tensorlang.normal.ssa import (
    SSA,
    Contraction,
    Defining,
    Input,
    Integers,
    Result,
    Selection,
    Statement,
    States,
    comparison,
    inner_ranges,
    integers,
    looked_up,
    needs,
    own_ranges,
    selection,
    selections,
)
from tensorlang.normal.tidy import with_operands, with_predicates
from tensorlang.sets.solve import simplify_in


def invariant(
    step: SSA,
    time: IndexArray,
    given: Mapping[Statement, Statement],
    there: Predicate,
    around: Iterable[Statement] = (),
) -> dict[Statement, Statement]:
    """The statements of a `step` that depend on no more than what it is `given`, with their forms around the
    recurrence, where these are needed only if the condition `there` holds, about sizes. What the statements `around`
    choose and compare is not chosen and compared again."""
    defined = selections(step.statements)
    known = {_content(x): x for x in around if isinstance(x, Defining)}
    found = dict(given)
    arrays: dict[IndexArray, IndexArray] = {}
    for x in step.statements:
        is_whole = isinstance(x, States | Result) or (isinstance(x, Input) and not isinstance(x, Integers))
        if is_whole or time in looked_up(x) or any(y not in found for y in needs(x, defined)):
            continue
        made = _under(there, with_operands(looking_up(x, arrays), found))
        if isinstance(x, Defining) and isinstance(made, Defining):
            made = known.get(_content(made)) or _of_its_own(made)
            arrays[x.array] = made.array
        found[x] = made
    return found


def looking_up(x: Statement, new: Mapping[IndexArray, IndexArray]) -> Statement:
    """`x`, looking up elements of other arrays."""
    if new.keys().isdisjoint(looked_up(x)):
        return x
    values: dict[Atom, Affine] = {Lookup(a, ()): atom_affine(Lookup(b, ())) for a, b in new.items()}
    if isinstance(x, Integers):
        return integers(x.value.substitute(values), x.shape)
    return with_predicates(x, lambda p: substitute(p, values))


def _under(there: Predicate, x: Statement) -> Statement:
    """[there] * x, or choosing only then."""
    if there is TRUE:
        return x
    ranges = own_ranges(x) | (inner_ranges(x) if isinstance(x, Contraction) else {})
    if isinstance(x, Selection):
        return Selection(x.array, x.sign, simplify_in(conjunction([there, x.guard]), ranges), x.pred, x.operand)
    return with_predicates(x, lambda p: simplify_in(conjunction([there, p]), ranges))


def _content(x: Defining) -> tuple[object, ...]:
    """What `x` chooses or compares."""
    if isinstance(x, Selection):
        return x.sign, x.guard, x.pred, x.operand
    return x.op, x.guard, x.left, x.right


def _of_its_own(x: Defining) -> Defining:
    """`x`, defining an array that no other step has."""
    if isinstance(x, Selection):
        return selection(x.sign, x.guard, x.pred, x.operand, x.array.name)
    return comparison(x.op, x.guard, x.left, x.right, x.array.name)
