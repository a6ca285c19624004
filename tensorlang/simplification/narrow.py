"""Statements restricted to the elements that are read.

    C = gen i, j. sum k. A[i, k] * B[k, j];  sum i. C[i, i]
        ->  C = gen i, j. sum k. [i = j] * A[i, k] * B[k, j];  sum i. C[i, i]

The part that a reader reads of a statement is the reader's predicate projected to the statement's indices. A statement
is restricted only by conditions that hide a share of it. If they leave a thin part, with an index that the others
determine or that has a bounded number of values, only this part is stored (`compact`); the same goes for what data
relations leave, when the program is lowered. Comparisons and choices are computed only where their outcome is looked up
(`asked`). Readers of disjoint parts get statements of their own. No element is computed more often than before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from itertools import combinations

from tensorlang.language.affine import Affine, Index, IndexArray, Lookup, atom_affine
from tensorlang.language.predicates import (
    TRUE,
    Or,
    Predicate,
    conjunction,
    conjuncts,
    disjunction,
    lookups,
)
from tensorlang.memory import cached
from tensorlang.normal.pattern import Pattern, axes, renamed
from tensorlang.normal.ssa import (
    SSA,
    Addend,
    Addition,
    Comparison,
    Constant,
    Contraction,
    Defining,
    Input,
    Map,
    Selection,
    Statement,
    comparison,
    in_order,
    live,
    needs,
    operands,
    output_list,
    own_indices,
    own_ranges,
    selection,
    selections,
)
from tensorlang.normal.tidy import is_index_only, map_outputs, support
from tensorlang.sets.isl import implies, is_empty
from tensorlang.sets.solve import Ranges, project, ranges_predicate, simplify_in
from tensorlang.simplification.asked import Outcomes
from tensorlang.simplification.chosen import certainly_read, what_was_chosen
from tensorlang.simplification.compact_choices import Element, looking_up
from tensorlang.simplification.supports import common, telling
from tensorlang.simplification.thin import thin_unions

_MOST_PARTS = 8


@dataclass(frozen=True)
class _Part:
    """The part of `statement` where `pred`, over its canonical indices, holds; the readers of the part read no more."""

    statement: Statement
    pred: Predicate


Read = tuple[_Part, int]
"""A part of a statement, and the number of one of its operands."""


def narrow(s: SSA) -> SSA:
    """`s` with statements that have arithmetic restricted to what is read, if that hides a share of them."""
    arrays = selections(s.statements)
    defined = {k: x for k, x in arrays.items() if isinstance(x, Selection)}
    outcomes = Outcomes(s, arrays)
    reads: dict[Statement, dict[Read | None, Predicate]] = defaultdict(dict)
    for x in output_list(s.outputs):
        reads[x][None] = TRUE
    chosen: dict[tuple[Read | None, Statement], _Part] = {}
    parts: dict[Statement, list[_Part]] = {}
    for x in reversed(s.statements):
        if isinstance(x, Defining):
            reads[x][None] = outcomes.asked(x) if isinstance(x, Comparison | Selection) else TRUE
        demanded = reads.pop(x, {})
        groups = _groups(x, demanded, arrays.keys())
        parts[x] = []
        for pred, readers in groups:
            part = _Part(x, pred)
            parts[x].append(part)
            chosen.update(((reader, x), part) for reader in readers)
            outcomes.ask(x, pred)
            for k, (y, p) in enumerate(_reads(x, pred, defined)):
                reads[y][part, k] = p
    if all(len(found) == 1 and found[0].pred is TRUE for found in parts.values()):
        return s
    made: dict[_Part, Statement] = {}
    stored: dict[IndexArray, Element] = {}

    def before(x: Statement) -> list[Statement]:  # also outcomes that only the part of `x` looks up
        asked = (a.array for part in parts[x] for a in lookups(part.pred))
        return [*needs(x, arrays), *(arrays[array] for array in asked if array in arrays)]

    for x in in_order(s.statements, before):
        for part in parts[x]:
            given = [made[chosen[(part, k), y]] for k, y in enumerate(operands(x))]
            made[part] = y = looking_up(_restricted(part, given), stored)
            if isinstance(x, Defining) and isinstance(y, Defining) and y.array is not x.array:
                own = own_indices(x)
                stored[x.array] = Element(own, atom_affine(Lookup(y.array, tuple(map(atom_affine, own)))))
    names: dict[Statement, str] = {}
    for x, name in s.names.items():
        for part in parts[x]:
            names.setdefault(made[part], name)
    whole = {x: made[chosen[None, x]] for x in output_list(s.outputs)}
    return live(replace(s, statements=tuple(made.values()), outputs=map_outputs(s.outputs, whole), names=names))


def _groups(
    x: Statement, demanded: Mapping[Read | None, Predicate], made: Set[IndexArray]
) -> list[tuple[Predicate, list[Read | None]]]:
    """The parts of `x` that become statements of their own, each with its readers; `made` are the index arrays that
    the program itself defines."""
    if not demanded:
        return []
    whole: list[tuple[Predicate, list[Read | None]]] = [(TRUE, list(demanded))]
    if isinstance(x, Input | Constant) or any(p is TRUE for p in demanded.values()):
        return whole
    ranges = own_ranges(x)
    readers: dict[Predicate, list[Read | None]] = defaultdict(list)
    for reader, p in demanded.items():
        readers[_telling(p, ranges, made)].append(reader)
    groups = list(readers.items())
    if TRUE in readers or len(groups) > _MOST_PARTS:
        return whole
    for (p, _), (q, _) in combinations(groups, 2):
        if not is_empty(conjunction([p, q]), ranges_predicate(ranges)):
            joined = _telling(simplify_in(disjunction(readers), ranges), ranges, made)
            groups = [(joined, list(demanded))]
            break
    if is_index_only(x):
        return groups
    known = conjunction([x.guard if isinstance(x, Defining) else support(x), ranges_predicate(ranges)])
    return [(TRUE if implies(known, p) else p, r) for p, r in groups] if len(groups) == 1 else groups


def _telling(p: Predicate, ranges: Ranges, made: Set[IndexArray]) -> Predicate:
    """A condition implied by `p`, each conjunct of which hides a share of the box; true if no conjunct does."""
    if p is TRUE:
        return p
    # a choice may pick any of several elements, so a union over what is chosen does not restrict which are read
    found = conjuncts(_telling_part(p, tuple(ranges.items())))
    return conjunction(q for q in found if not isinstance(q, Or) or all(x.array not in made for x in lookups(q)))


@cached
def _telling_part(p: Predicate, binders: tuple[tuple[Index, Affine], ...]) -> Predicate:
    ranges = dict(binders)
    return conjunction([*telling(common([p]), ranges), *thin_unions(p, ranges)])


def places_read(x: Statement) -> list[tuple[Statement, Predicate]]:
    """The operands of `x`, each with the condition where it is read."""
    return _reads(x, TRUE, {})


def _reads(
    x: Statement, where: Predicate, defined: Mapping[IndexArray, Selection]
) -> list[tuple[Statement, Predicate]]:
    """The operands of `x`, each with the condition where it is read, if `x` is read where `where` holds."""
    match x:
        case Input() | Constant():
            return []
        case Addition(terms, _):
            own = own_ranges(x)
            return [(t.operand, simplify_in(conjunction([t.pred, where]), own)) for t in terms]
        case Map(p, _, arguments, _):
            both = simplify_in(conjunction([p, where]), own_ranges(x))
            return [(y, both) for y in arguments]
        case Selection(_, _, guard, p, operand):
            return [(operand, simplify_in(conjunction([guard, p, where]), own_ranges(operand)))]
        case Comparison(_, _, guard, left, right):
            guard = simplify_in(conjunction([guard, where]), own_ranges(x))
            return [(left, guard), (right, guard)]
        case Contraction():
            known = x.pattern.outer.keys() | x.pattern.inner.keys()  # but not indices bound in the predicate
            read = certainly_read(x.pred)
            seen = (a for a in read if a.array in defined and known.issuperset(atom_affine(a).indices))
            chosen = (q for a in seen for q in what_was_chosen(a, defined[a.array]))
            return list(zip(x.factors, _shadows(x.pattern, conjunction([where, *chosen])), strict=True))


@cached
def _shadows(x: Pattern, where: Predicate) -> list[Predicate]:
    """Where each factor is read, as a predicate over its own indices."""
    ranges = {**x.outer, **x.inner}
    both = conjunction([x.pred, where])
    found = []
    for shape, indices in zip(x.factors, x.places, strict=True):
        others = {i: n for i, n in ranges.items() if i not in indices}
        shadow = project(others, both, {i: ranges[i] for i in indices})
        own = axes(0, len(shape))
        found.append(simplify_in(renamed(shadow, indices, own), dict(zip(own, shape, strict=True))))
    return found


def _restricted(part: _Part, those: Iterable[Statement]) -> Statement:
    """The statement for a part, with the operands `those`."""
    x = part.statement
    given = tuple(those)
    p = TRUE if is_index_only(x) else part.pred
    match x:
        case Input() | Constant():
            return x
        case Addition(terms, shape):
            pairs = zip(terms, given, strict=True)
            return Addition(tuple(Addend(t.sign, conjunction([t.pred, p]), y) for t, y in pairs), shape)
        case Map(q, f, _, shape):
            return Map(conjunction([q, p]), f, given, shape)
        case Contraction(q, _, summed, shape):
            return Contraction(conjunction([q, p]), given, summed, shape)
        case Selection(array, sign, guard, q, _):
            if p is TRUE:
                return Selection(array, sign, guard, q, given[0])
            return selection(sign, simplify_in(conjunction([guard, p]), own_ranges(x)), q, given[0], array.name)
        case Comparison(array, op, guard, _, _):
            if p is TRUE:
                return Comparison(array, op, guard, *given)
            return comparison(op, simplify_in(conjunction([guard, p]), own_ranges(x)), given[0], given[1], array.name)
