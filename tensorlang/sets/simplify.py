"""Predicates simplified in context, keeping their own conjuncts where possible."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from itertools import combinations
from math import prod

from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Lookup, Size, atom_affine, constant
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
    Relation,
    at_most,
    conjunction,
    conjuncts,
    disjunction,
    equal,
    exists,
    free_atoms,
    lookups,
    relations,
    substitute,
    within,
)
from tensorlang.memory import cached
from tensorlang.recursion import Deep, call, run
from tensorlang.sets.eliminate import eliminate, length, tightened
from tensorlang.sets.encode import needs_data
from tensorlang.sets.isl import forced_equalities, gist, implies, is_empty, not_implied
from tensorlang.sets.witness import asked, with_elements_known

_LARGE = 300
_MANY = 50
_FEW = 4
_DROP_ORDER = (Or, Exists, NonNegative, Equal, Related)


def simplify(p: Predicate, context: Predicate = TRUE) -> Predicate:
    """A predicate equivalent to `p` wherever `context` holds, never longer than `p`.

    FALSE if `p` is empty there, TRUE if it is implied. Conjuncts that the context and the others imply are dropped,
    inequalities that amount to equalities become such, `exists` is dropped if its index can be eliminated exactly, and
    alternatives that form one convex set are joined. The conjuncts of `p` are kept as written where possible. A large
    predicate is simplified part by part, without the disjunctions of the context.
    """
    if _is_large(conjunction([p, context])):
        context = conjunction(_plain(context))
    return _piecewise(p, context) if _is_large(conjunction([p, context])) else _simplified(p, context)


def _is_large(p: Predicate) -> bool:
    """Whether `p` has many parts, or is a union of many conjunctions."""
    stack, parts = [p], 0
    while stack and parts <= _LARGE:
        q = stack.pop()
        parts += 1
        stack += q.parts if isinstance(q, And | Or) else [q.body] if isinstance(q, Exists) else []
    return parts > _LARGE or run(_alternatives(p)) > _LARGE


def _alternatives(p: Predicate) -> Deep[int]:
    """The number of conjunctions whose union is `p`."""
    match p:
        case And(parts) | Or(parts):
            counts = []
            for part in parts:
                counts.append((yield from call(_alternatives(part))))
            return prod(counts) if isinstance(p, And) else sum(counts)
        case Exists(_, _, body):
            count: int = yield from call(_alternatives(body))
            return count
        case _:
            return 1


def _plain(p: Predicate) -> list[Predicate]:
    return [q for q in _flat(p) if not isinstance(q, Or | Exists)]


def _piecewise(p: Predicate, context: Predicate) -> Predicate:
    match p:
        case And():
            if is_empty(plain := conjunction(_plain(p)), context):
                return FALSE
            plain = _without_redundant(_plain(p), context)
            around = conjunction([context, plain])
            return conjunction([plain, *(_unless_large(q, around) for q in _flat(p) if isinstance(q, Or | Exists))])
        case Or(parts):
            return disjunction(_unless_large(q, context) for q in parts)
        case _:
            return p


def _unless_large(p: Predicate, context: Predicate) -> Predicate:
    return p if _is_large(conjunction([p, context])) else _simplified(p, context)


@cached
def _simplified(p: Predicate, context: Predicate) -> Predicate:
    return run(_simplify(p, context))


def _simplify(p: Predicate, context: Predicate) -> Deep[Predicate]:
    if is_empty(p, context):
        return FALSE
    match p:
        case Equal() | NonNegative() | Related():
            return _without_redundant([p], context)
        case And():
            rule = _simplify_and(p, context)
        case Or():
            rule = _simplify_or(p, context)
        case Exists():
            rule = _simplify_exists(p, context)
    simplified: Predicate = yield from call(rule)
    return simplified


def _simplify_and(p: And, context: Predicate) -> Deep[Predicate]:
    parts = _multiplied_out(_with_one_quotient(with_elements_known(_flat(p))), context)
    for part in parts:
        if isinstance(part, Or | Exists):
            around = conjunction([context, *(q for q in parts if q is not part)])
            if isinstance(part, Exists) and needs_data(part):
                new = _simplified(part, _concerning(part, around))
            else:
                new = yield from call(_simplify(part, _about(part, around)))
            parts = [r for q in parts for r in (conjuncts(new) if q is part else (q,))]
    return _without_redundant(parts, context)


def _with_one_quotient(parts: list[Predicate]) -> list[Predicate]:
    """`parts`, where those that say that there is a quotient of the same are one: it is the same quotient."""
    found: dict[tuple[Affine, int, Affine], Exists] = {}
    for q in (q for q in parts if isinstance(q, Exists)):
        for a, c in quotients(q):
            first = found.setdefault((a, c, q.size), q)
            if first is not q:
                body = substitute(q.body, {q.index: atom_affine(first.index)})
                both = Exists(first.index, first.size, conjunction([first.body, body]))
                return _with_one_quotient([both if r is first else r for r in parts if r is not q])
    return parts


def quotients(q: Exists) -> Iterator[tuple[Affine, int]]:
    """All a and c for which `q` says that its index is the quotient of a by c."""
    parts = conjuncts(q.body)
    for part in parts:
        c = -part.value.coefficient(q.index) if isinstance(part, NonNegative) else 0
        if isinstance(part, NonNegative) and c > 1:
            a = part.value + atom_affine(q.index) * c
            if q.index not in a.free and at_most(part.value, constant(c - 1)) in parts:
                yield a, c


def _multiplied_out(parts: list[Predicate], context: Predicate) -> list[Predicate]:
    """`parts`, where two disjunctions are one if few of their alternatives can hold together."""
    choices = [q for q in parts if isinstance(q, Or) and len(q.parts) <= _FEW and not needs_data(q)]
    for one, other in combinations(choices, 2):
        rest = [q for q in parts if q is not one and q is not other]
        around = conjunction([context, *(q for q in rest if not isinstance(q, Or | Exists))])
        most = max(len(one.parts), len(other.parts))
        both = [r for p in one.parts for q in other.parts if not is_empty(r := conjunction([p, q]), around)]
        if len(both) <= most:
            return _multiplied_out([*rest, *conjuncts(disjunction(both))], context)
    return parts


def _concerning(p: Predicate, context: Predicate) -> Predicate:
    """The conjuncts of `context` on indices of `p` and on data that `p` reads. Little else can make `p` shorter, and
    the many conditions on other data around it would make each question a new one."""
    known, data = free_atoms(p), asked(p)
    parts = [q for q in conjuncts(_about(p, context)) if asked(q) <= data]
    return conjunction(q for q in parts if asked(q) or not known.isdisjoint(free_atoms(q)))


def _about(p: Predicate, context: Predicate) -> Predicate:
    """`context` with indices that don't occur in `p` eliminated where an equality determines them."""
    known = free_atoms(p)
    equalities = [q for q in conjuncts(context) if isinstance(q, Equal)]
    while equalities:
        a = equalities.pop().difference
        looked_up = {i for x in a.lookups for at in x.at for i in at.indices}
        i = next((i for i in a.indices if i not in known | looked_up and abs(a.coefficient(i)) == 1), None)
        if i is not None:
            context = substitute(context, {i: atom_affine(i) - a * a.coefficient(i)})
            equalities = [q for q in conjuncts(context) if isinstance(q, Equal)]
    return context


def _flat(p: Predicate) -> list[Predicate]:
    """The conjuncts of `p` at any depth, once each."""
    found: dict[Predicate, None] = {}
    stack = [p]
    while stack:
        q = stack.pop()
        if isinstance(q, And):
            stack += reversed(q.parts)
        else:
            found[tightened(q)] = None
    return list(found)


def _without_redundant(parts: list[Predicate], context: Predicate) -> Predicate:
    """The conjunction of `parts`, some point of which lies in `context`, without those that the rest implies."""
    parts = list(conjuncts(conjunction(map(tightened, parts))))
    if len(parts) > _MANY:
        return conjunction(parts)
    parts = _dropped(parts, context)
    if any(isinstance(part, NonNegative) for part in parts) and forced_equalities(conjunction(parts), context):
        both = conjunction([context, *parts])
        for k, part in enumerate(parts):
            if isinstance(part, NonNegative) and implies(both, zero := equal(part.value, constant(0))):
                parts[k] = zero
        parts = _dropped(parts, context)
    return conjunction(parts)


def _dropped(parts: list[Predicate], context: Predicate) -> list[Predicate]:
    """`parts` without redundant ones. Those that are hardest to read are dropped first, and later ones before
    earlier."""
    needed = _needed(parts, context)
    own = dict.fromkeys(parts)
    asked = sorted((q for q in reversed(own) if q not in needed), key=lambda q: _DROP_ORDER.index(type(q)))
    kept = needed.union(not_implied(asked, conjunction([context, *needed])))
    return [part for part in own if part in kept]


def _needed(parts: Collection[Predicate], context: Predicate) -> set[Predicate]:
    """Equalities that obviously nothing else implies."""
    return _lone_conditions(parts, context) | _of_free_indices(parts, context)


def _lone_conditions(parts: Collection[Predicate], context: Predicate) -> set[Predicate]:
    """The conditions in `parts` on an element of an array of conditions that nothing else mentions."""
    conditions = {q: array for q in parts if (array := _condition(q)) is not None}
    if not conditions:
        return set()
    mentions = Counter(x for q in (*parts, *conjuncts(context)) for x in {lookup.array for lookup in lookups(q)})
    return {q for q, array in conditions.items() if mentions[array] == 1}


def _condition(p: Predicate) -> IndexArray | None:
    """The array of conditions in which `p` gives the value of an element; None if `p` is anything else."""
    match p:
        case Equal(Affine(((Lookup(array=array), 1),), value)) if array.size is constant(2) and value in (0, -1):
            return array
        case _:
            return None


def _of_free_indices(parts: Collection[Predicate], context: Predicate) -> set[Predicate]:
    """Equalities with an index that otherwise occurs only in its range.

    Without such an equality the index could have another value, since its range has two values or can be made larger:
    it ends at a size without an upper bound.
    """
    equalities = [q for q in parts if isinstance(q, Equal) and not q.difference.lookups]
    if not equalities:
        return set()
    ends: dict[Index, list[Affine]] = defaultdict(list)
    mentions: Counter[Atom] = Counter()
    for q in (*parts, *conjuncts(context)):
        match _range_of(q):
            case None:
                a = q.value if isinstance(q, NonNegative) else None
                mentions.update(x for x in free_atoms(q) if not (a and isinstance(x, Size) and a.coefficient(x) > 0))
                data = (*(x.array.size for x in lookups(q)), *(size for r in relations(q) for size in r.sizes))
                mentions.update(x for size in data for x in size.atoms)
            case index, Affine() as end:
                ends[index].append(end)
                mentions.update(x for x, k in end.terms if k < 0)

    def has_two(end: Affine) -> bool:
        return any(k > 0 and not mentions[x] for x, k in end.terms) or (end.is_constant and end.constant > 1)

    def is_free(i: Atom) -> bool:
        return isinstance(i, Index) and mentions[i] == 1 and i in ends and all(map(has_two, ends[i]))

    return {q for q in equalities if any(is_free(i) for i in q.difference.atoms)}


def _range_of(p: Predicate) -> tuple[Index, Affine | None] | None:
    """The index that `p` bounds: by 0 from below, with None, or from above by the end, which is given by sizes. None if
    `p` is no such bound."""
    if not isinstance(p, NonNegative) or p.value.lookups or len(p.value.indices) != 1:
        return None
    (index,) = p.value.indices
    k = p.value.coefficient(index)
    if k == -1:
        return index, p.value + atom_affine(index) + 1
    return (index, None) if k == 1 and p.value is atom_affine(index) else None


def _simplify_or(p: Or, context: Predicate) -> Deep[Predicate]:
    parts: list[Predicate] = []
    for part in p.parts:
        parts.append((yield from call(_simplify(part, context))))
    union = disjunction(parts)
    if not isinstance(union, Or) or len(union.parts) > _MANY:
        return union
    kept = list(union.parts)
    for part in reversed(union.parts):
        others = disjunction(q for q in kept if q is not part)
        if implies(conjunction([context, part]), others):
            kept.remove(part)
    union = disjunction(kept)
    if implies(context, union):
        return TRUE
    if not isinstance(union, Or):
        return union
    return _factored(min(union, disjunction(_joined(same, context) for same in _by_data(union.parts)), key=length))


def _factored(p: Predicate) -> Predicate:
    """(a and c) or (b and c)  ->  c and (a or b)."""
    if not isinstance(p, Or) or p is FALSE:
        return p
    first, *others = map(conjuncts, p.parts)
    shared = set(first).intersection(*others)
    if not shared:
        return p
    rest = disjunction(conjunction(q for q in conjuncts(part) if q not in shared) for part in p.parts)
    return conjunction([*(q for q in first if q in shared), rest])


def _by_data(parts: Iterable[Predicate]) -> list[Predicate]:
    """The alternatives grouped by the data that they read, since only those of one group can form one set."""
    found: dict[frozenset[IndexArray | Relation], list[Predicate]] = defaultdict(list)
    for q in parts:
        found[asked(q) if needs_data(q) else frozenset()].append(q)
    return [disjunction(alternatives) for alternatives in found.values()]


def _joined(union: Predicate, context: Predicate) -> Predicate:
    """The alternatives, joined where that is shorter."""
    joined = gist(union, context) if isinstance(union, Or) else None
    if joined is None:
        return union
    options = joined.parts if isinstance(joined, Or) else (joined,)
    return min(union, disjunction(_without_redundant(_flat(q), context) for q in options), key=length)


def _simplify_exists(p: Exists, context: Predicate) -> Deep[Predicate]:
    index, size, body = p.index, p.size, p.body
    if index in free_atoms(context) or index in size.atoms:
        fresh = Index(index.name)
        index, body = fresh, substitute(body, {index: atom_affine(fresh)})
    body = conjunction(with_elements_known(_flat(body), whole=True))
    body = yield from call(_simplify(body, conjunction([context, within(atom_affine(index), size)])))
    shortest = Exists(index, size, body)
    if isinstance(body, Or):
        options = []
        for part in body.parts:
            options.append((yield from call(_simplify(Exists(index, size, part), context))))
        return min(shortest, disjunction(options), key=length)
    inside = [part for part in conjuncts(body) if index in free_atoms(part)]
    outside = [part for part in conjuncts(body) if index not in free_atoms(part)]
    eliminated = eliminate(index, size, inside)
    if eliminated is not None:
        without: Predicate = yield from call(_simplify(conjunction(outside + eliminated), context))
        if length(without) <= length(p):
            return without
    bound = exists([(index, size)], conjunction(inside))
    shorter = None if needs_data(bound) else gist(bound, conjunction([context, *outside]))
    if shorter is not None and length(shorter) <= length(bound):
        bound = shorter
    return _without_redundant([*outside, *conjuncts(bound)], context)
