"""The bounds check: no access leaves its array, for all sizes, wherever the brackets around it are true.

The claim that an access is within its array moves outward from the access through the program. On its way it collects
the ranges of the binders and the brackets that it passes, until it is proved; most claims are by the time that their
indices are bound. An expression that occurs in many places is visited once. An element of an index array is in the
range that the array's type gives, and a chosen element fulfils the condition of its choice; the places of lookups are
proved like those of accesses. An extremum needs a point wherever its own range and all others are not empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tensorlang.errors import OutOfBounds, TensorlangError, alternatives
from tensorlang.language.affine import Affine, Atom, IndexArray, Lookup, atom_affine, constant
from tensorlang.language.function import Function
from tensorlang.language.grammar import (
    Access,
    Bracket,
    Choice,
    Expr,
    Extremum,
    Gen,
    Integer,
    Let,
    Recur,
    Sum,
    Var,
    access,
    children,
    type_of,
)
from tensorlang.language.predicates import (
    FALSE,
    TRUE,
    And,
    Equal,
    Exists,
    NonNegative,
    Or,
    Predicate,
    at_most,
    conjunction,
    conjuncts,
    less,
    lookups,
    substitute,
    within,
)
from tensorlang.language.types import Array
from tensorlang.sets.claims import Claim, indices_of
from tensorlang.sets.counterexample import empty_extremum, out_of_bounds, undecided
from tensorlang.sets.isl import obvious
from tensorlang.sets.mends import mends
from tensorlang.sets.scopes import check_scopes, declared_sizes, postorder
from tensorlang.sets.solve import project, simplify_in

_CONTEXTS = 100

_Claims = Claim | tuple["_Claims", ...]
"""Claims in nested tuples, so that joining two collections takes no time and shared ones stay shared."""


def check(f: Function) -> Function:
    """`f`, if everything in it is bound where it is used, no access can leave its array and no extremum can be empty.

    Raises `ScopeError`; `OutOfBounds` with sizes and indices at which an access does leave its array, all brackets
    around it being true; `EmptyExtremum` likewise where an extremum or a choice has no point, though no range is empty
    and no data is involved; `LimitError` if the brackets around an access are too involved to decide.
    """
    check_scopes(f)
    for claim in unproved(f):
        if isinstance(claim.subject, Recur):
            raise _negative(claim.subject)
        if not isinstance(claim.subject, Access):
            error: TensorlangError | None = empty_extremum(f, claim)
        else:
            error = out_of_bounds(f, claim)
            if isinstance(error, OutOfBounds):
                error.hint = alternatives([*mends(f, claim, unproved), *filter(None, [error.hint])])
        if error is not None:
            raise error
    return f


def _negative(e: Recur) -> OutOfBounds:
    shown = f"{e.word} {e.index.name}:{e.size}"
    hint = f"a bracket hides it there: [{constant(0)} <= {e.size}] * {shown} ..; or sizes of parameters that say so"
    return OutOfBounds(f"{shown} has {e.size} steps, which can be a negative number", hint=hint)


def unproved(f: Function) -> Iterator[Claim]:
    """The claims about `f` that can't be proved. Raises `LimitError` if there are too many to decide."""
    facts = tuple(
        q for size in declared_sizes(f) if (q := at_most(constant(0), size)) is not TRUE and not obvious((), q)
    )
    claims: dict[Expr, _Claims] = {}
    for e in postorder(f.body):
        claims[e] = _claims(e, [claims[child] for child in children(e)])
    for claim in _each(claims[f.body]):
        left = claim.under(conjunction(facts)).proved()
        if left.needs:
            yield left


def _claims(e: Expr, parts: list[_Claims]) -> _Claims:
    """The claims in `e` that are left to prove outside of it, given those of its children."""
    below = _joined(parts)
    match e:
        case Access():
            return _joined([below, *_in_bounds(e), *(claim for x in e.at.lookups for claim in _looked_up(x))])
        case Integer(value):
            return _joined([*(claim for x in value.lookups for claim in _looked_up(x))])
        case Gen(index, size, _) | Sum(index, size, _):
            return _fewest(claim.bound(index, size) for claim in _each(below))
        case Extremum(_, index, size, p, _) | Choice(_, index, size, p, _):
            inside = [*(claim.under(p) for claim in _each(below)), *_looked_up_in(p)]
            return _joined([_fewest(claim.bound(index, size) for claim in inside), *_has_a_point(e)])
        case Bracket(p, _):
            if p is FALSE:
                return ()
            return _joined([_fewest(claim.under(p) for claim in _each(below)), *_looked_up_in(p)])
        case Recur(_, index, size, _, _, _):
            each = _fewest(claim.bound(index, size) for claim in _each(parts[1]))
            return _joined([parts[0], each, *_has_steps(e)])
        case Let(IndexArray() as array, value, _) if parts[1] != ():
            return _joined([parts[0], _fewest(_where_chosen(claim, array, value) for claim in _each(parts[1]))])
        case _:
            return below


def _in_bounds(e: Access) -> Iterator[Claim]:
    assert isinstance(e.body.type, Array)
    size = e.body.type.size
    needs = tuple(q for q in conjuncts(within(e.at, size)) if not obvious((), q))
    if needs:
        yield Claim(e, e.at, size, needs, open=frozenset(e.at.indices))


def _looked_up(lookup: Lookup) -> Iterator[Claim]:
    """Claims that the place of a lookup is within its index array."""
    for k in range(len(lookup.at)):
        read = access(Var(lookup.array.name, type_of(lookup.array)), *lookup.at[: k + 1])
        assert isinstance(read, Access)
        yield from _in_bounds(read)


def _looked_up_in(p: Predicate) -> list[Claim]:
    return [claim for _, claim in _within(p)] if lookups(p) else []


def _within(p: Predicate) -> Iterator[tuple[Lookup, Claim]]:
    """The lookups in `p`, with claims that their places exist where their comparisons and the conjuncts beside these
    hold.

    A comparison that looks up a place outside of the array is false, so this does no harm where no element in the
    array's range would make it true; nor do several comparisons, where no element would make all of them true.
    """
    match p:
        case And(parts):
            for part in parts:
                for lookup, claim in _within(part):
                    others = (q for q in parts if q is not part)
                    yield lookup, claim.under(conjunction(others))
        case Or(parts):
            for part in parts:
                yield from _within(part)
        case Exists(index, size, body):
            for lookup, claim in _within(body):
                yield lookup, claim.bound(index, size)
        case _:
            for lookup in lookups(p):
                for claim in _looked_up(lookup):
                    yield lookup, claim.under(p)


def _has_a_point(e: Extremum | Choice) -> Iterator[Claim]:
    """The claim that the condition of an extremum holds somewhere, if its range is not empty."""
    if e.pred is not TRUE:
        some = simplify_in(project({e.index: e.size}, e.pred, {}), {})
        needs = tuple(q for q in conjuncts(some) if q is FALSE or isinstance(q, Equal | NonNegative))
        indices = frozenset(i for q in needs for i in indices_of(q))
        yield Claim(e, e.size, e.size, needs, open=indices).under(less(constant(0), e.size))


def _has_steps(e: Recur) -> Iterator[Claim]:
    """The claim that the number of steps is not negative."""
    p = at_most(constant(0), e.size)
    if p is not TRUE and not obvious((), p):
        yield Claim(e, e.size, e.size, (p,), open=frozenset())


def _where_chosen(claim: Claim, array: IndexArray, value: Expr) -> Claim:
    """`claim`, given that elements of `array`, which a let binds to `value`, fulfil the condition of their choice."""
    for lookup in claim.lookups():
        if lookup.array is array:
            at: dict[Atom, Affine] = {}
            guards: list[Predicate] = []
            body = value
            while isinstance(body, Gen | Bracket):
                if isinstance(body, Gen):
                    at[body.index] = lookup.at[len(at)]
                else:
                    guards.append(substitute(body.pred, at))
                body = body.body
            if isinstance(body, Choice) and len(at) == len(lookup.at):
                at[body.index] = atom_affine(lookup)
                claim = claim.chosen(conjunction(guards), substitute(body.pred, at))
    return claim


def _joined(parts: list[_Claims]) -> _Claims:
    found = tuple({id(part): part for part in parts if part != ()}.values())
    return found[0] if len(found) == 1 else found


def _each(claims: _Claims) -> Iterator[Claim]:
    """Each of `claims` once, in order."""
    seen: set[int] = set()
    stack = [claims]
    while stack:
        part = stack.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, Claim):
            yield part
        else:
            stack += reversed(part)


def _fewest(claims: Iterable[Claim]) -> _Claims:
    """The `claims` that are not yet proved; among those with the same needs, only the ones with minimal conditions."""
    groups: dict[tuple[bool, tuple[Predicate, ...]], list[tuple[frozenset[Predicate], Claim]]] = {}
    for claim in claims:
        if not claim.needs:
            continue
        is_access = isinstance(claim.subject, Access)
        group = groups.setdefault((is_access, claim.needs), [])
        conditions = frozenset(claim.conditions)
        if any(weaker <= conditions for weaker, _ in group):
            continue
        group[:] = [(other, c) for other, c in group if not conditions <= other]
        group.append((conditions, claim))
        if len(group) > _CONTEXTS and is_access:
            raise undecided(claim)
    return tuple(claim for group in groups.values() for _, claim in group)
