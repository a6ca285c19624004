"""Conditions on values within predicates: their names there, and where they matter.

    [i > 0 and x[i - 1] > 0] * e     ->  let c = [i > 0] * (0 < x[i - 1]) in [i > 0 and c = 1] * e
    max i:n where x[i] > 0. e        ->  let c = gen i:n. 0 < x[i] in max i:n where c[i] = 1. e

A condition is hidden where the others beside it decide the whole predicate without it, so it may read elements that
only exist if those hold. `share` makes the lets: a condition that occurs twice is evaluated once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Lookup, atom_affine, constant
from tensorlang.language.grammar import Bracket, Compared, Expr, bracket, gen, number
from tensorlang.language.grammar import holds as holds_at
from tensorlang.language.predicates import (
    TRUE,
    And,
    Or,
    Predicate,
    conjunction,
    disjunction,
    lookups,
    negation,
    substitute,
)
from tensorlang.language.rebuilt import without_places
from tensorlang.language.types import shape
from tensorlang.surface.quotients import negated
from tensorlang.surface.scope import current, refuse, remember

Test = Callable[[Expr], IndexArray]
"""A function that returns the index array for a condition, to be defined by a let."""


def named(e: Expr) -> IndexArray:
    """The index array for the condition `e`, the same one for each occurrence of it."""
    definition = current.get()
    if definition is None:
        refuse("a condition on values is asked while a program is written", "define the program with tl.function")
    key = without_places(e)
    remember(e)
    if key not in definition.conditions:
        sizes, _ = shape(e.type)
        made = IndexArray(definition.names.get(e) or "c" + str(len(definition.conditions) or ""), sizes, constant(2))
        definition.conditions[key] = made
        definition.choices[made] = e
    return definition.conditions[key]


def holds(e: Expr) -> Predicate:
    """The predicate that the condition `e` on values holds."""
    return holds_at(named(e))


def compared(operator: str, left: Expr, right: Expr) -> tuple[Compared, bool]:
    """The `Compared` for left operator right, and whether it must hold or fail."""
    match operator:
        case ">" | ">=":
            return Compared(operator.replace(">", "<"), right, left), True
        case "!=":
            return Compared("=", left, right), False
        case _:
            return Compared(operator, left, right), True


def is_condition(array: IndexArray) -> bool:
    """Whether the elements of `array` can be read as conditions: 1 for one that holds, else 0."""
    return array.size is constant(2)


def guard(p: Predicate, array: IndexArray, sayable: Callable[[Predicate], bool]) -> Predicate:
    """Where the value of `p` may depend on elements of `array`, in terms of the `sayable` parts of `p`."""
    if not isinstance(p, And | Or) or not any(lookup.array is array for lookup in lookups(p)):
        return TRUE
    found = []
    for part in p.parts:
        if any(lookup.array is array for lookup in lookups(part)):
            others = [q for q in p.parts if q is not part and sayable(q)]
            open_ = others if isinstance(p, And) else [q for q in map(negation, others) if q is not None]
            found.append(conjunction([*open_, guard(part, array, sayable)]))
    return disjunction(found)


def opposite(p: Predicate, holds: Callable[[Expr], Predicate]) -> Predicate:
    """not p. Parts without a negation, relations and `exists`, become conditions on values, for which `holds` is
    called."""
    match p:
        case And(parts):
            return disjunction([opposite(part, holds) for part in parts])
        case Or(parts):
            return conjunction([opposite(part, holds) for part in parts])
        case _:
            found = negated(p)
            return holds(Compared("<", Bracket(p, number(1)), number(1))) if found is None else found


def lifted(
    binders: Sequence[tuple[Index, Affine]], p: Predicate, inside: Mapping[IndexArray, Expr], test: Test
) -> Predicate:
    """`p`, with the conditions `inside` the binders replaced by arrays over `binders`, which are defined outside."""
    places = tuple(atom_affine(index) for index, _ in binders)
    moved: dict[Atom, Affine] = {}
    for array in dict.fromkeys(lookup.array for lookup in lookups(p)):
        if array in inside:
            where = guard(p, array, lambda q: not any(lookup.array in inside for lookup in lookups(q)))
            made = test(gen(list(binders), bracket(where, inside[array])))
            moved[Lookup(array, ())] = atom_affine(Lookup(made, places))
    return substitute(p, moved)
