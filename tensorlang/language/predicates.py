"""Predicates: the `p` of Figure 3, reduced to two comparisons, a = 0 and a >= 0."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count

from tensorlang.interning import interned, shared
from tensorlang.language.affine import Affine, Atom, Index, Lookup, atom_affine, canonical, constant
from tensorlang.memory import cached
from tensorlang.recursion import Deep, call, run
from tensorlang.shown import Shown, text

serials = count()


class Condition(Shown):
    """A predicate; `str` is its text."""

    __slots__ = ()

    def __str__(self) -> str:
        return text(self)


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True, repr=False)
class Relation(Shown):
    """A data relation R over indices of the given sizes, outside of which it is false."""

    name: str
    sizes: tuple[Affine, ...]
    serial: int = field(default_factory=lambda: next(serials))

    def __str__(self) -> str:
        return f"{self.name}: rel({', '.join(map(str, self.sizes))})"


@interned
class Equal(Condition):
    """difference = 0."""

    difference: Affine


@interned
class NonNegative(Condition):
    """value >= 0."""

    value: Affine


@interned
class Related(Condition):
    """R(a0, ...)."""

    relation: Relation
    arguments: tuple[Affine, ...]


@interned
class And(Condition):
    """Conjunction; of nothing: true."""

    parts: tuple[Predicate, ...]


@interned
class Or(Condition):
    """Disjunction; of nothing: false."""

    parts: tuple[Predicate, ...]


@interned
class Exists(Condition):
    """There is an index with 0 <= index < size such that body."""

    index: Index
    size: Affine
    body: Predicate


_Comparison = Equal | NonNegative | Related
_Nested = And | Or | Exists
Predicate = _Comparison | _Nested

TRUE = And(())
FALSE = Or(())


def equal(a: Affine, b: Affine) -> Predicate:
    """a = b."""
    difference = a - b
    if difference.is_constant:
        return FALSE if difference.constant else TRUE
    # a = b and b = a are the same predicate: the first coefficient is positive
    return Equal(difference if difference.terms[0][1] > 0 else -difference)


def at_most(a: Affine, b: Affine) -> Predicate:
    """a <= b."""
    value = b - a
    if value.is_constant:
        return TRUE if value.constant >= 0 else FALSE
    return NonNegative(value)


def less(a: Affine, b: Affine) -> Predicate:
    """a < b."""
    return at_most(a + 1, b)


def not_equal(a: Affine, b: Affine) -> Predicate:
    """a != b, which is a < b or a > b."""
    return disjunction([less(a, b), less(b, a)])


@cached
def within(a: Affine, size: Affine) -> Predicate:
    """0 <= a < size."""
    return conjunction([at_most(constant(0), a), less(a, size)])


def conjunction(parts: Iterable[Predicate]) -> Predicate:
    """p0 and p1 and ..., flattened, without repetitions and `true`."""
    flat: dict[Predicate, None] = {}
    for part in parts:
        if part is FALSE:
            return FALSE
        for p in part.parts if isinstance(part, And) else (part,):
            flat[p] = None
    return next(iter(flat)) if len(flat) == 1 else And(tuple(flat))


def disjunction(parts: Iterable[Predicate]) -> Predicate:
    """p0 or p1 or ..., flattened, without repetitions and `false`."""
    flat: dict[Predicate, None] = {}
    for part in parts:
        if part is TRUE:
            return TRUE
        for p in part.parts if isinstance(part, Or) else (part,):
            flat[p] = None
    return next(iter(flat)) if len(flat) == 1 else Or(tuple(flat))


def negation(p: Predicate) -> Predicate | None:
    """not p; None if p has a relation or an `exists` in it, whose negations are no predicates.

    The negation for an element of an index array below 2 equates it with the other value, so that conditions on values
    stay literals.
    """
    match p:
        case Equal(Affine(((Lookup(array=array), 1),), value)) if array.size is constant(2) and value in (0, -1):
            return Equal(p.difference - (2 * value + 1))
        case Equal(a):
            return not_equal(a, constant(0))
        case NonNegative(a):
            return less(a, constant(0))
        case And(parts) | Or(parts):
            opposites = [negation(part) for part in parts]
            found = [q for q in opposites if q is not None]
            if len(found) < len(opposites):
                return None
            return disjunction(found) if isinstance(p, And) else conjunction(found)
        case _:
            return None


def conjuncts(p: Predicate) -> tuple[Predicate, ...]:
    """The parts whose conjunction `p` is."""
    return p.parts if isinstance(p, And) else (p,)


def exists(binders: Iterable[tuple[Index, Affine]], p: Predicate) -> Predicate:
    """exists i:n, j:m, ... . p

    Bound indices are replaced by canonical ones for their depth, so that alpha-equivalent predicates are one object.
    """
    for index, size in reversed(tuple(binders)):
        if p is not FALSE:
            depth = _depth(p)
            bound = bound_in_predicate(index.name, depth)
            # this may be a part of a quantifier's body, with that quantifier's index free in it
            while bound is not index and bound in free_atoms(p):
                depth += 1
                bound = bound_in_predicate(index.name, depth)
            p = Exists(bound, size, substitute(p, {index: atom_affine(bound)}) if index is not bound else p)
    return p


@cached
@shared
def bound_in_predicate(name: str, depth: int) -> Index:
    """The index of this name bound by quantifiers with others nested in them to this depth."""
    return canonical(name, depth)


def _depth(p: Predicate) -> int:
    """How deep quantifiers are nested in `p`."""
    deepest = 0
    stack = [(p, 0)]
    while stack:
        q, depth = stack.pop()
        deepest = max(deepest, depth)
        if isinstance(q, And | Or):
            stack += [(part, depth) for part in q.parts]
        elif isinstance(q, Exists):
            stack.append((q.body, depth + 1))
    return deepest


def mapped(p: Predicate, change: Callable[[Affine], Affine]) -> Predicate:
    """`p` with `change` applied to the affine expressions in its comparisons and relations, not to bound indices."""
    return run(_mapped(p, change))


def _mapped(p: Predicate, change: Callable[[Affine], Affine]) -> Deep[Predicate]:
    match p:
        case Equal(a):
            return equal(change(a), constant(0))
        case NonNegative(a):
            return at_most(constant(0), change(a))
        case Related(relation, arguments):
            return Related(relation, tuple(map(change, arguments)))
        case And(parts) | Or(parts):
            new = []
            for part in parts:
                new.append((yield from call(_mapped(part, change))))
            return conjunction(new) if isinstance(p, And) else disjunction(new)
        case Exists(index, size, body):
            return Exists(index, size, (yield from call(_mapped(body, change))))


def substitute(p: Predicate, values: Mapping[Atom, Affine]) -> Predicate:
    """[i := a] p, as in `Affine.substitute`; the bound indices of `p` are renamed, so nothing is captured."""
    return _substituted(p, tuple(values.items())) if values else p


@cached
def _substituted(p: Predicate, values: tuple[tuple[Atom, Affine], ...]) -> Predicate:
    return run(_substitute(p, dict(values))) if isinstance(p, _Nested) else _in_comparison(p, dict(values))


def _in_comparison(p: _Comparison, values: Mapping[Atom, Affine]) -> Predicate:
    match p:
        case Equal(a):
            new = a.substitute(values)
            return p if new is a else equal(new, constant(0))
        case NonNegative(a):
            new = a.substitute(values)
            return p if new is a else at_most(constant(0), new)
        case Related(relation, arguments):
            return Related(relation, tuple(a.substitute(values) for a in arguments))


def _substitute(p: _Nested, values: Mapping[Atom, Affine]) -> Deep[Predicate]:
    match p:
        case And(parts) | Or(parts):
            new = []
            for part in parts:
                if isinstance(part, _Nested):
                    new.append((yield from call(_substitute(part, values))))
                else:
                    new.append(_in_comparison(part, values))
            return conjunction(new) if isinstance(p, And) else disjunction(new)
        case Exists(index, size, body):
            looked_up = (part for lookup in lookups(p) for part in (lookup, Lookup(lookup.array, ())))
            if not any(a in values for a in (*size.atoms, *free_atoms(p), *looked_up)):
                return p
            captured = any(index in value.free for value in values.values())
            bound = Index(index.name) if captured else index
            inner = {atom: value for atom, value in values.items() if atom is not index}
            if captured:
                inner[index] = atom_affine(bound)
            new_body = (
                (yield from call(_substitute(body, inner)))
                if isinstance(body, _Nested)
                else _in_comparison(body, inner)
            )
            if bound is bound_in_predicate(index.name, _depth(new_body)):  # as most are, so no renaming is needed
                return FALSE if new_body is FALSE else Exists(bound, size.substitute(values), new_body)
            return exists([(bound, size.substitute(values))], new_body)


@cached
def free_atoms(p: Predicate) -> frozenset[Atom]:
    """The indices and sizes that occur free in `p`."""
    found: set[Atom] = set()
    stack: list[tuple[Predicate, frozenset[Index]]] = [(p, frozenset())]
    while stack:
        q, bound = stack.pop()
        match q:
            case Equal(a) | NonNegative(a):
                found.update(x for x in a.free if x not in bound)
            case Related(_, arguments):
                found.update(x for a in arguments for x in a.free if x not in bound)
            case And(parts) | Or(parts):
                stack += [(part, bound) for part in parts]
            case Exists(index, size, body):
                found.update(x for x in size.free if x not in bound)
                stack.append((body, bound | {index}))
    return frozenset(found)


def related(p: Predicate) -> Iterator[Related]:
    """The parts of `p` that are data relations at places."""
    stack: list[Predicate] = [p]
    while stack:
        match stack.pop():
            case Related() as q:
                yield q
            case And(parts) | Or(parts):
                stack += parts
            case Exists(_, _, body):
                stack.append(body)
            case _:
                pass


def relations(p: Predicate) -> frozenset[Relation]:
    """The data relations that `p` mentions."""
    return frozenset(q.relation for q in related(p))


@cached
def lookups(p: Predicate) -> tuple[Lookup, ...]:
    """The elements of index arrays that `p` mentions, in order; their places may be at indices that `p` binds."""
    return tuple(dict.fromkeys(lookup for a in affines(p) for lookup in a.lookups))


def affines(p: Predicate) -> Iterator[Affine]:
    """The affine expressions in the comparisons and relations of `p`, in order."""
    stack: list[Predicate] = [p]
    while stack:
        match stack.pop():
            case Equal(a) | NonNegative(a):
                yield a
            case Related(_, arguments):
                yield from arguments
            case And(parts) | Or(parts):
                stack += reversed(parts)
            case Exists(_, _, body):
                stack.append(body)
