"""Calling a function on terms of another: its body is inlined, with the given sizes and parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tensorlang.errors import ArgumentError, SizeMismatch, TypeMismatch, here
from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Lookup, Size, atom_affine, total
from tensorlang.language.function import Function, Parameter, Results
from tensorlang.language.given import record, spread
from tensorlang.language.grammar import (
    Access,
    Apply,
    Bracket,
    Choice,
    Const,
    Expr,
    Extremum,
    Gen,
    Integer,
    Let,
    Proj,
    Recur,
    Routine,
    Sum,
    Var,
    children,
    real,
    type_of,
)
from tensorlang.language.lets import under
from tensorlang.language.names import free_names
from tensorlang.language.predicates import (
    And,
    Exists,
    Or,
    Predicate,
    Related,
    Relation,
    conjunction,
    disjunction,
    exists,
    substitute,
)
from tensorlang.language.rebuilt import with_children
from tensorlang.language.routines import of_program
from tensorlang.language.types import Array, BoundedIndex, Pair, Type, shape
from tensorlang.recursion import Deep, call, run
from tensorlang.surface.lookups import Indices
from tensorlang.surface.operations import first, second
from tensorlang.surface.quotients import said
from tensorlang.surface.refusals import described
from tensorlang.surface.scope import Surface, current
from tensorlang.surface.terms import Idx, Rel, Term, as_size, as_term, term


def call_on_terms(f: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """f(args, kwargs) as a term, or a tuple of terms; NotImplemented if no argument belongs to a program.

    Raises `ArgumentError` for arguments that are missing or too many, `TypeMismatch` and `SizeMismatch` for ones
    of another type than the parameter's.
    """
    if not any(map(_belongs_to_a_program, (*args, *kwargs.values()))):
        return NotImplemented
    by_position, by_name = spread(f, args, kwargs)
    given, sizes = _matched(f, tuple(by_position), dict(by_name))
    routine = of_program(f)
    if routine is not None:
        return results_of(applied(routine, [as_term(value) for value in given.values()]), f.results)
    parts = [value if isinstance(value, Surface) else as_term(value) for value in given.values()]
    at = [a for value in parts for a in _places(value)]
    e = said(at, lambda *new: inlined(f, _moved(given, iter(new)), sizes))
    return results_of(term(e, *parts), f.results)


def applied(routine: Routine, arguments: Sequence[Term]) -> Term:
    """routine(arguments). Raises `TypeMismatch` or `SizeMismatch` if they don't fit."""
    try:
        e = Apply(routine, tuple(argument.expr for argument in arguments))
    except TypeMismatch as error:
        raise error.at(here()) from None
    definition = current.get()
    if definition is not None:  # one call for each value of the binders that it depends on, wherever it is written
        own = set(free_names(e))
        depth = max((k + 1 for k, x in enumerate(definition.opened) if x in own), default=0)
        definition.made_under[e] = definition.opened[:depth]
    return term(e, *arguments)


def _places(value: Surface) -> tuple[Affine, ...]:
    """The index expressions in a given value."""
    match value:
        case Idx():
            return (value.affine,)
        case Indices():
            return value.at
        case _:
            return ()


def _moved(given: dict[Parameter, Any], new: Iterator[Affine]) -> dict[Parameter, Any]:
    """`given`, with `new` index expressions."""
    moved = dict(given)
    for p, value in given.items():
        if isinstance(value, Idx):
            moved[p] = Idx(next(new), value.binders)
        elif isinstance(value, Indices):
            moved[p] = Indices(value.array, tuple(next(new) for _ in value.at), value.binders)
    return moved


def inlined(f: Function, given: dict[Parameter, Any], sizes: dict[str, Affine]) -> Expr:
    """The body of `f`, with the values `given` for its parameters and `sizes` for its sizes."""
    equations = [_Equation(f"the size {name} of {f.name}", atom_affine(Size(name)), a) for name, a in sizes.items()]
    inlining = Inlining()
    lets: list[tuple[Var, Expr]] = []
    for p, value in given.items():
        what = f"the argument {p.name} of {f.name}"
        if isinstance(p, Relation):
            if not isinstance(value, Rel) or len(value.relation.sizes) != len(p.sizes):
                raise TypeMismatch(
                    f"{what} must be a relation over {len(p.sizes)} indices, found {described(value)}", here()
                )
            equations += [_Equation(what, a, b) for a, b in zip(p.sizes, value.relation.sizes, strict=True)]
            inlining.relations[p] = value.relation
        elif isinstance(p, IndexArray):
            equations += _index_argument(what, p, value, inlining)
        else:
            argument = as_term(value)
            equations += _equations(what, p.type, argument.expr.type)
            inlining.vars[p] = argument.expr
            if not _is_trivial(argument.expr):
                var = Var(p.name, argument.expr.type)
                lets.append((var, argument.expr))
                inlining.vars[p] = var
    inlining.atoms.update(_solved(f, equations))
    return under(lets, run(inlining.expr(f.body)))


def opened(f: Function) -> Function:
    """`f` with calls of routines that are programs replaced by their bodies."""
    if not f.census.has(Apply):
        return f
    body = run(opened_expr(f.body, {}))
    return f if body is f.body else Function(f.name, f.params, body, f.results, f.further)


def opened_expr(e: Expr, memo: dict[Expr, Expr]) -> Deep[Expr]:
    """`e` with calls of routines that are programs replaced by their bodies."""
    if e not in memo:
        parts = []
        for part in children(e):
            parts.append((yield from call(opened_expr(part, memo))))
        new = with_children(e, parts)
        if isinstance(new, Apply) and new.routine.body is not None:
            g = Function(new.routine.name, new.routine.params, new.routine.body)
            given: dict[Parameter, Any] = dict(zip(g.params, map(Term, new.arguments), strict=True))
            new = yield from call(opened_expr(inlined(g, given, {}), {}))
        memo[e] = new
    return memo[e]


def _index_argument(what: str, p: IndexArray, value: Any, inlining: Inlining) -> list[_Equation]:
    """Substitute `value` for the index array `p`: another one, a part of one, or an index if `p` has no axes."""
    wrong = TypeMismatch(f"{what} must have type {type_of(p)}, found {described(value)}", here())
    if not isinstance(value, Indices | Idx):
        raise wrong
    a = value.affine if isinstance(value, Idx) else atom_affine(Lookup(value.array, value.at))
    inlining.atoms[Lookup(p, ())] = a
    match a:
        case Affine(((Lookup() as part, 1),), 0):
            sizes = (*part.array.sizes[len(part.at) :], part.array.size)
        case _:
            sizes = ()
    if len(sizes) == len(p.sizes) + 1:
        pairs = zip((*p.sizes, p.size), sizes, strict=True)
        return [_Equation(what, declared, actual) for declared, actual in pairs]
    if sizes or p.sizes:
        raise wrong
    return []  # any index will do: the bounds check examines its uses


def _belongs_to_a_program(value: object) -> bool:
    if isinstance(value, Surface):
        return True
    if hasattr(value, "dtype"):  # an array
        return False
    parts = value if isinstance(value, tuple) else (record(value) or {}).values()
    return any(map(_belongs_to_a_program, parts))


def _matched(
    f: Function, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[dict[Parameter, Any], dict[str, Affine]]:
    """The value given for each parameter, and the sizes given by name."""
    if len(args) > len(f.params):
        raise ArgumentError(f"{f.name} has {len(f.params)} parameters, found {len(args)} arguments", here())
    given: dict[Parameter, Any] = dict(zip(f.params, args, strict=False))
    for p in f.params:
        if p.name in kwargs:
            if p in given:
                raise ArgumentError(f"{f.name} is given {p.name} twice", here())
            given[p] = kwargs.pop(p.name)
        elif p not in given:
            raise ArgumentError(f"{f.name} is not given its parameter {p.name}", here())
    sizes = {s.name: as_size(kwargs.pop(s.name)) for s in f.sizes if s.name in kwargs}
    if kwargs:
        known = ", ".join(p.name for p in f.params) or "none"
        raise ArgumentError(f"{f.name} has no parameter {next(iter(kwargs))!r}; it has {known}", here())
    return given, sizes


def _is_trivial(e: Expr) -> bool:
    """Whether writing `e` in several places is no worse than naming it."""
    while isinstance(e, Access | Proj):
        e = e.body
    return isinstance(e, Var | Const)


def results_of(whole: Term, results: Results) -> Any:
    """A term, or the tuple of terms that it reads as."""
    if results is None:
        return whole
    parts: list[Any] = []
    for part in results[:-1]:
        parts.append(results_of(first(whole), part))
        whole = second(whole)
    parts.append(results_of(whole, results[-1]))
    return tuple(parts)


@dataclass(frozen=True)
class _Equation:
    """`declared`, in sizes of the function called, must be `actual`, in sizes of the caller."""

    what: str
    declared: Affine
    actual: Affine


def _equations(what: str, declared: Type, actual: Type) -> list[_Equation]:
    found: list[_Equation] = []
    stack = [(declared, actual)]
    while stack:
        match stack.pop():
            case (Array(m, a), Array(n, b)):
                found.append(_Equation(what, m, n))
                stack.append((a, b))
            case (Pair(a0, a1), Pair(b0, b1)):
                stack += [(a1, b1), (a0, b0)]
            case (a, b) if a is not b:
                raise TypeMismatch(f"{what} must have type {declared}, found {actual}", here())
    return found


def _solved(f: Function, equations: list[_Equation]) -> dict[Atom, Affine]:
    """The value of each size of `f`, by Gaussian elimination over the integers."""
    # the sizes of caller and callee may have the same names: the callee's become unknowns of their own
    unknowns = {s: Index(s.name) for s in f.sizes}
    renamed: dict[Atom, Affine] = {s: atom_affine(i) for s, i in unknowns.items()}
    open_ = [(q, q.declared.substitute(renamed) - q.actual) for q in equations]
    pivots: list[tuple[Index, Affine]] = []
    own = set(unknowns.values())
    while True:
        candidates = [(abs(a.coefficient(i)), k, i) for k, (_, a) in enumerate(open_) for i in a.indices if i in own]
        if not candidates:
            break
        _, k, i = min(candidates, key=lambda c: c[:2])
        pivot = open_.pop(k)[1]
        pivots.append((i, pivot))
        open_ = [(q, _without(i, a, pivot)) for q, a in open_]
    values: dict[Atom, Affine] = {}
    for i, pivot in reversed(pivots):
        factor = pivot.coefficient(i)
        rest = (pivot - atom_affine(i) * factor).substitute(values)
        values[i] = _quotient(f, i, rest, -factor)
    for q, a in open_:
        if a.terms or a.constant:
            expected = q.declared.substitute(renamed).substitute(values)
            declared = "" if expected is q.declared else f"{q.declared} = "
            raise SizeMismatch(f"{q.what} must have size {declared}{expected}, found {q.actual}", here())
    for s, i in unknowns.items():
        if i not in values:
            raise ArgumentError(f"the size {s} of {f.name} can't be read off the arguments: pass {s}=..", here())
    return {s: values[i] for s, i in unknowns.items()}


def _without(i: Index, a: Affine, pivot: Affine) -> Affine:
    return a * pivot.coefficient(i) - pivot * a.coefficient(i) if a.coefficient(i) else a


def _quotient(f: Function, i: Index, a: Affine, divisor: int) -> Affine:
    if divisor < 0:
        a, divisor = -a, -divisor
    if any(k % divisor for _, k in a.terms) or a.constant % divisor:
        raise SizeMismatch(f"the size {i.name} of {f.name} would have to be ({a}) / {divisor}", here())
    return total([(atom_affine(atom), k // divisor) for atom, k in a.terms]) + a.constant // divisor


@dataclass
class Inlining:
    """A copy of an expression with sizes, variables and relations replaced, and fresh binders."""

    atoms: dict[Atom, Affine] = field(default_factory=dict)
    vars: dict[Var, Expr] = field(default_factory=dict)
    relations: dict[Relation, Relation] = field(default_factory=dict)
    lets: dict[Var | IndexArray, Var | IndexArray] = field(default_factory=dict)
    done: dict[Expr, Expr] = field(default_factory=dict)

    def expr(self, e: Expr) -> Deep[Expr]:
        """The copy of `e`."""
        if e not in self.done:
            self.done[e] = yield from call(self._copy(e))
        return self.done[e]

    def _copy(self, e: Expr) -> Deep[Expr]:
        visit = self.expr
        match e:
            case Var():
                return self.vars[e]
            case Access(a, at, place):
                return Access((yield from call(visit(a))), at.substitute(self.atoms), place)
            case Integer(value):
                return real(value.substitute(self.atoms))
            case Gen(i, size, body):
                return Gen(self._index(i), size.substitute(self.atoms), (yield from call(visit(body))))
            case Sum(i, size, body):
                return Sum(self._index(i), size.substitute(self.atoms), (yield from call(visit(body))))
            case Extremum(sign, i, size, p, body):
                own = self._index(i)
                return Extremum(
                    sign, own, size.substitute(self.atoms), self._predicate(p), (yield from call(visit(body)))
                )
            case Choice(sign, i, size, p, body):
                own = self._index(i)
                return Choice(
                    sign, own, size.substitute(self.atoms), self._predicate(p), (yield from call(visit(body)))
                )
            case Bracket(p, a):
                return Bracket(self._predicate(p), (yield from call(visit(a))))
            case Recur(word, i, size, state, init, step):
                new_init = yield from call(visit(init))
                held = self._bound(state, new_init.type)
                assert isinstance(held, Var)
                index = self._index(i)
                return Recur(word, index, size.substitute(self.atoms), held, new_init, (yield from call(visit(step))))
            case Let(x, value, body):
                new_value = yield from call(visit(value))
                return Let(self._bound(x, new_value.type), new_value, (yield from call(visit(body))))
            case _:
                parts = []
                for part in children(e):
                    parts.append((yield from call(visit(part))))
                return with_children(e, parts)

    def _bound(self, x: Var | IndexArray, kind: Type) -> Var | IndexArray:
        """The variable or index array that replaces `x`, which a let binds."""
        if x not in self.lets:
            if isinstance(x, IndexArray):
                sizes, element = shape(kind)
                assert isinstance(element, BoundedIndex)
                array = self.lets[x] = IndexArray(x.name, sizes, element.size)
                self.atoms[Lookup(x, ())] = atom_affine(Lookup(array, ()))
            else:
                self.lets[x] = self.vars[x] = Var(x.name, kind)
        return self.lets[x]

    def _predicate(self, p: Predicate) -> Predicate:
        return substitute(run(_related_by(p, self.relations)) if self.relations else p, self.atoms)

    def _index(self, i: Index) -> Index:
        if i not in self.atoms:
            self.atoms[i] = atom_affine(Index(i.name))
        return self.atoms[i].indices[0]


def _related_by(p: Predicate, relations: Mapping[Relation, Relation]) -> Deep[Predicate]:
    match p:
        case Related(relation, arguments):
            return Related(relations.get(relation, relation), arguments)
        case And(parts) | Or(parts):
            new = []
            for part in parts:
                new.append((yield from call(_related_by(part, relations))))
            return conjunction(new) if isinstance(p, And) else disjunction(new)
        case Exists(index, size, body):
            return exists([(index, size)], (yield from call(_related_by(body, relations))))
        case _:
            return p
