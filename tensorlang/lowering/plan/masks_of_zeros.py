"""Masks that data give, left out where they hide nothing but zeros.

    let t = gen i. sum k. [y[k] = i] * e[k] in gen i. [exists k:n. y[k] = i] * t[i] * v[i]
        ->  let t = gen i. sum k. [y[k] = i] * e[k] in gen i. t[i] * v[i]

Evaluating such a mask for each element takes longer than multiplying zeros. The factors of zeros must be finite: inf
times 0 is not 0. The terms of a scatter need not be: an element to which none is added is 0, whatever the terms.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tensorlang.language.affine import Affine, Atom, Index, IndexArray
from tensorlang.language.census import expressions
from tensorlang.language.function import Function
from tensorlang.language.grammar import (
    Add,
    Bracket,
    Call,
    Choice,
    Const,
    Expr,
    Extremum,
    Gen,
    Mul,
    Sum,
    Var,
    bracket,
    children,
)
from tensorlang.language.lets import bindings, under
from tensorlang.language.predicates import (
    FALSE,
    TRUE,
    Equal,
    NonNegative,
    Or,
    Predicate,
    conjunction,
    conjuncts,
    disjunction,
    exists,
    free_atoms,
    lookups,
    substitute,
)
from tensorlang.language.rebuilt import rewrite
from tensorlang.lowering.plan.dependence import occurring, places, variable
from tensorlang.lowering.plan.needless_masks import TOTAL
from tensorlang.lowering.plan.unread_masks import asks_data as asks_whether
from tensorlang.recursion import Deep, call, run
from tensorlang.sets.isl import implies
from tensorlang.sets.solve import ranges_predicate
from tensorlang.simplification.scattered import LINEAR_IN_LAST
from tensorlang.simplification.supports import is_zero_at_zero

_Parts = tuple[Predicate, ...]
"""Conditions: where any of them fails, something is 0."""


def asks_data(q: Predicate) -> bool:
    """Whether `q` is evaluated on data at each place: an existence test, or a comparison of two elements."""
    lookups_in = q.value.lookups if isinstance(q, NonNegative) else ()
    return asks_whether(q) or len({x.at for x in lookups_in}) == 2


def without_masks_of_zeros(f: Function) -> Function:
    """`f` without the conditions on data that hide nothing but zeros."""
    if not any(isinstance(e, Bracket) and any(map(asks_data, conjuncts(e.pred))) for e in expressions(f.body)):
        return f
    statements, outputs = bindings(f.body)
    found = _Supports()
    made: list[tuple[Var | IndexArray, Expr]] = []
    for x, e in statements:
        shown = found.shown(e)
        made.append((x, shown))
        if isinstance(x, Var):
            found.add(x, e, shown)
        if not found.is_finite(shown):
            found.infinite.add(x)
    last = found.shown(outputs)
    same = last is outputs and all(new is old for (_, new), (_, old) in zip(made, statements, strict=True))
    return f if same else replace(f, body=under(made, last))


@dataclass
class _Supports:
    """For each array its indices and the conditions without which it is 0; and what may be infinite or nan."""

    arrays: dict[Var, tuple[tuple[Index, ...], _Parts]] = field(default_factory=dict)
    infinite: set[object] = field(default_factory=set)
    memo: dict[Expr, _Parts] = field(default_factory=dict)

    def add(self, x: Var, e: Expr, shown: Expr) -> None:
        """Remember where `x` is 0: where conditions of `e` fail if some ask data, else where those of `shown` fail."""
        own: list[Index] = []
        while isinstance(e, Gen) and isinstance(shown, Gen):
            own.append(e.index)
            e, shown = e.body, shown.body
        said = conjuncts(e.pred) if isinstance(e, Bracket) else ()
        parts = said if any(map(asks_data, said)) else self.needed(shown)
        asked = tuple(q for q in parts if lookups(q) and _indices(q) <= {*own})
        if asked:
            self.arrays[x] = tuple(own), asked

    def is_finite(self, e: Expr) -> bool:
        """Whether `e` is finite where the parameters are, step by step."""
        if not self.infinite.isdisjoint(occurring(e)):
            return False
        seen, stack = {e}, [e]
        while stack:
            part = stack.pop()
            if isinstance(part, Call) and part.function.name not in TOTAL:
                return False
            fresh = [c for c in children(part) if c not in seen]
            seen.update(fresh)
            stack += fresh
        return True

    def shown(self, e: Expr) -> Expr:
        """`e` without masks of zeros."""
        left: dict[Bracket, set[Predicate]] = {}
        start: tuple[Expr, Predicate] = (e, TRUE)
        seen, stack = {start}, [start]
        while stack:
            part, known = stack.pop()
            if isinstance(part, Bracket):
                asked = [q for q in conjuncts(part.pred) if asks_data(q)]
                if asked:
                    left[part] = left.get(part, {*asked}) & self._hidden(part, asked, known)
                known = conjunction([known, *(q for q in conjuncts(part.pred) if q not in asked)])
            elif isinstance(part, Gen | Sum | Extremum | Choice):
                known = conjunction([known, ranges_predicate({part.index: part.size})])
            fresh = [(child, known) for child in children(part) if (child, known) not in seen]
            seen.update(fresh)
            stack += fresh
        if not any(left.values()):
            return e

        def without(old: Expr, new: Expr) -> Expr:
            if not isinstance(old, Bracket) or not isinstance(new, Bracket) or not left.get(old):
                return new
            return bracket(conjunction(q for q in conjuncts(old.pred) if q not in left[old]), new.body)

        return rewrite(e, lambda _: None, without)

    def _hidden(self, e: Bracket, asked: Sequence[Predicate], known: Predicate) -> set[Predicate]:
        """The conditions in `asked` that `e` doesn't need, as its body is 0 where they fail, given what is `known`."""
        if known is FALSE:
            return set()
        needed = self.needed(e.body)
        kept = [*conjuncts(e.pred)]
        for q in asked:
            others = [other for other in kept if other is not q]
            if any(lookups(p) for p in needed) and implies(conjunction([known, *needed, *others]), q):
                kept = others
        return {*asked} - {*kept}

    def needed(self, e: Expr) -> _Parts:
        """Conditions such that `e` is 0 where any of them fails."""
        return run(self._needed(e))

    def _needed(self, e: Expr) -> Deep[_Parts]:
        if e not in self.memo:
            self.memo[e] = yield from call(self._found(e))
        return self.memo[e]

    def _found(self, e: Expr) -> Deep[_Parts]:
        x = variable(e)
        if x is not None:
            return self._read(x, places(e))
        match e:
            case Bracket(p, a):
                inner = yield from call(self._needed(a))
                return _together(inner, conjuncts(p))
            case Mul(a, b):
                left = (yield from call(self._needed(a))) if self.is_finite(b) else ()
                right = (yield from call(self._needed(b))) if self.is_finite(a) else ()
                return _together(left, right)
            case Add(a, b, _):
                return (yield from call(self._of_all((a, b))))
            case Sum(_, _, a) if not self.is_finite(a):
                return (yield from call(self._of_terms(e)))
            case Sum(i, n, a):
                inner = yield from call(self._needed(a))
                return _together((q for q in inner if i not in free_atoms(q)), _some(i, n, inner))
            case Call(f, arguments) if f.name in LINEAR_IN_LAST:
                return (yield from call(self._needed(arguments[-1])))
            case Call(f, arguments) if is_zero_at_zero(f):
                return (yield from call(self._of_all(arguments)))
            case _:
                return ()

    def _of_terms(self, e: Expr) -> Deep[_Parts]:
        """Conditions without which all terms of a sum are 0, or none is added there, even if factors are infinite:
        factors multiply only what brackets leave."""
        binders: list[tuple[Index, Affine]] = []
        while isinstance(e, Sum):
            binders.append((e.index, e.size))
            e = e.body
        parts, body = (conjuncts(e.pred), e.body) if isinstance(e, Bracket) else ((), e)
        inner = yield from call(self._needed(body))
        found = _together(inner, parts if _gives_places(parts, [i for i, _ in binders]) else ())
        for i, n in reversed(binders):
            found = _together((q for q in found if i not in free_atoms(q)), _some(i, n, found))
        return found

    def _of_all(self, several: Sequence[Expr]) -> Deep[_Parts]:
        """Conditions such that all are 0 where any of them fails: the shared ones, and a disjunction of the rest."""
        found: list[_Parts] = []
        for e in several:
            if not (isinstance(e, Const) and e.value == 0):
                found.append((yield from call(self._needed(e))))
        if not found:
            return ()
        shared = tuple(q for q in found[0] if all(q in parts for parts in found))
        own = disjunction(conjunction(q for q in parts if q not in shared) for parts in found)
        return (*shared, own) if isinstance(own, Or) and lookups(own) else shared

    def _read(self, x: object, at: Sequence[Affine]) -> _Parts:
        own, parts = self.arrays.get(x, ((), ())) if isinstance(x, Var) else ((), ())
        if len(own) > len(at):
            return ()
        values: Mapping[Atom, Affine] = dict(zip(own, at, strict=False))
        return tuple(substitute(q, values) for q in parts)


def _gives_places(parts: Iterable[Predicate], bound: Collection[Index]) -> bool:
    """Whether all conditions on the terms of a sum equate an index of the result with an element of an array: then it
    is a scatter, and each term is added only where it belongs."""

    def gives_place(q: Predicate) -> bool:
        terms = q.difference.terms if isinstance(q, Equal) and q.difference.lookups else ()
        return any(isinstance(i, Index) and i not in bound and abs(k) == 1 for i, k in terms)

    return all(map(gives_place, parts))


def _some(i: Index, size: Affine, parts: _Parts) -> _Parts:
    """That some value of `i` satisfies all conditions on it, if these depend on data."""
    about = [q for q in parts if i in free_atoms(q)]
    return (exists([(i, size)], conjunction(about)),) if any(map(lookups, about)) else ()


def _together(left: Iterable[Predicate], right: Iterable[Predicate]) -> _Parts:
    return tuple(dict.fromkeys((*left, *right)))


def _indices(p: Predicate) -> frozenset[Atom]:
    return frozenset(i for i in free_atoms(p) if isinstance(i, Index))
