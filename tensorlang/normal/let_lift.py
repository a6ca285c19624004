"""Figure 7: lets move to the outermost level.

    Le ::= e | let x = e in Le            where e has no let

    5.1 to 5.5, 5.8   a let inside an operand, argument, pair, projection or access moves outside of it
    5.6, 5.7          gen i:n. let x = e0 in e1  ->  let x = gen i:n. e0 in gen i:n. [x := x[i]] e1     (and for sums)
    5.9               [p] * let x = e0 in e1     ->  let x = [p]*e0 in [p]*e1
    5.10              let x = (let y = e0 in e1) in e2  ->  let y = e0 in let x = e1 in e2
    5.R3              gen i:n. fold t with s = e0 . e1  ->  let r = fold t with s' = gen i:n. e0 .
                                                            gen i:n. [s := s'[i]] e1 in gen i:n. r[i]

A let moves outside of everything around it in one go: the binders and brackets around it are the scope in which its
value is wrapped, and its variable is replaced by an access at the binders' indices. Likewise, an index array bound by a
let is looked up at the binders' indices first, and the body of an extremum or choice has the binder and the condition
of that around it.

Before that, values chosen by a scalar function are put under a bracket if they may be without a derivative
(`conditional`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tensorlang.budget import limited
from tensorlang.errors import NormalFormError
from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Lookup, atom_affine
from tensorlang.language.function import Function
from tensorlang.language.grammar import (
    Access,
    Add,
    Apply,
    Bracket,
    Call,
    Choice,
    Compared,
    Const,
    Expr,
    Extremum,
    Gen,
    Integer,
    Let,
    MakePair,
    Mul,
    Proj,
    Recur,
    Sum,
    Var,
    access,
    bracket,
    gen,
    real,
)
from tensorlang.language.lets import Binding, under
from tensorlang.language.names import free_names
from tensorlang.language.predicates import Predicate, free_atoms, lookups, substitute
from tensorlang.language.rebuilt import with_atoms, with_values
from tensorlang.language.types import shape
from tensorlang.normal.conditional import with_conditions
from tensorlang.recursion import Deep, call, run
from tensorlang.sets.solve import simplify_in


@dataclass(eq=False)
class _Scope:
    """The surroundings of an expression: a binder or a bracket within a further scope."""

    parent: _Scope | None = None
    around: tuple[Index, Affine] | Predicate | None = None
    done: dict[Expr, Expr] = field(default_factory=dict)
    bound: dict[Var | IndexArray, Expr] = field(default_factory=dict)
    values: dict[Var, Expr] = field(default_factory=dict)
    arrays: dict[Atom, Affine] = field(default_factory=dict)

    def wrap(self, e: Expr) -> tuple[Expr, tuple[Index, ...]]:
        """`e` within all binders and brackets of the scope, and the indices at which to access it."""
        indices: list[Index] = []
        scope: _Scope | None = self
        while scope is not None:
            if isinstance(scope.around, tuple):
                index, size = scope.around
                e = Gen(index, size, e)
                indices.append(index)
            elif scope.around is not None:
                e = Bracket(scope.around, e)
            scope = scope.parent
        return e, tuple(reversed(indices))

    def find(self, x: Var) -> Expr:
        scope: _Scope | None = self
        while scope is not None:
            if x in scope.values:
                return scope.values[x]
            scope = scope.parent
        return x

    def looked_up(self, used: Iterable[Lookup]) -> dict[Atom, Affine]:
        """The replacements of those arrays in `used` that lets have bound."""
        found: dict[Atom, Affine] = {}
        for array in {Lookup(lookup.array, ()) for lookup in used}:
            scope: _Scope | None = self
            while scope is not None and array not in scope.arrays:
                scope = scope.parent
            if scope is not None:
                found[array] = scope.arrays[array]
        return found

    def affine(self, a: Affine) -> Affine:
        return a.substitute(self.looked_up(a.lookups)) if a.lookups else a

    def predicate(self, p: Predicate) -> Predicate:
        return substitute(p, self.looked_up(lookups(p)))


@limited
def let_lift(f: Function) -> Function:
    """`f` with its lets outermost (5.1 to 5.10); the same meaning, at no more cost.

    >>> f = tl.parse("f(x: [n]R) = sum i:n. (let y = x[i] * x[i] in y + y)")
    >>> print(tl.let_lift(f))
    f(x: [n]R) =
      let y = gen i:n. x[i] * x[i] in
      sum i:n. y[i] + y[i]
    """
    f = with_conditions(f)
    lifted: list[Binding] = []
    body = run(_lift(f.body, _Scope(), lifted))
    return replace(f, body=under(lifted, body))


def _lift(e: Expr, scope: _Scope, lifted: list[Binding]) -> Deep[Expr]:
    if e not in scope.done:
        scope.done[e] = yield from call(_rebuild(e, scope, lifted))
    return scope.done[e]


def _rebuild(e: Expr, scope: _Scope, lifted: list[Binding]) -> Deep[Expr]:
    match e:
        case Var():
            return scope.find(e)
        case Const():
            return e
        case Integer(a):
            return real(scope.affine(a))
        case Add(a, b, sign):
            return Add((yield from call(_lift(a, scope, lifted))), (yield from call(_lift(b, scope, lifted))), sign)
        case Mul(a, b):
            return Mul((yield from call(_lift(a, scope, lifted))), (yield from call(_lift(b, scope, lifted))))
        case Compared(op, a, b):
            return Compared(op, (yield from call(_lift(a, scope, lifted))), (yield from call(_lift(b, scope, lifted))))
        case MakePair(a, b):
            return MakePair((yield from call(_lift(a, scope, lifted))), (yield from call(_lift(b, scope, lifted))))
        case Call(f, arguments):
            new = []
            for argument in arguments:
                new.append((yield from call(_lift(argument, scope, lifted))))
            return Call(f, tuple(new))
        case Proj(which, a):
            return Proj(which, (yield from call(_lift(a, scope, lifted))))
        case Access(a, at, _):
            return Access((yield from call(_lift(a, scope, lifted))), scope.affine(at), None)
        case Gen(i, n, a):
            return Gen(i, n, (yield from call(_lift(a, _Scope(scope, (i, n)), lifted))))
        case Sum(i, n, a):
            return Sum(i, n, (yield from call(_lift(a, _Scope(scope, (i, n)), lifted))))
        case Extremum(sign, i, n, p, a) | Choice(sign, i, n, p, a):
            p = scope.predicate(p)
            body = yield from call(_lift(a, _Scope(_Scope(scope, (i, n)), p), lifted))
            return Extremum(sign, i, n, p, body) if isinstance(e, Extremum) else Choice(sign, i, n, p, body)
        case Bracket(p, a):
            p = scope.predicate(p)
            return Bracket(p, (yield from call(_lift(a, _Scope(scope, p), lifted))))
        case Recur():
            return (yield from call(_recurrence(e, scope, lifted)))
        case Apply():
            return (yield from call(_application(e, scope, lifted)))
        case Let(x, e0, e1):
            if scope.bound.get(x, e0) is not e0:
                scope = _Scope(scope)  # another let of the same variable: results for the first are not valid for it
            value, indices = scope.wrap((yield from call(_lift(e0, scope, lifted))))
            scope.bound[x] = e0
            places = tuple(map(atom_affine, indices))
            if isinstance(x, IndexArray):
                array = IndexArray(x.name, shape(value.type)[0], x.size)
                lifted.append((array, value))
                scope.arrays[Lookup(x, ())] = atom_affine(Lookup(array, places))
            else:
                outer = Var(x.name, value.type)
                lifted.append((outer, value))
                scope.values[x] = access(outer, *places)
            return (yield from call(_lift(e1, scope, lifted)))


def _application(e: Apply, scope: _Scope, lifted: list[Binding]) -> Deep[Expr]:
    """5.A: the values of `e` for all surrounding indices that it depends on, as the value of a let."""
    arguments: list[Expr] = []
    for argument in e.arguments:
        arguments.append((yield from call(_lift(argument, scope, lifted))))
    made: Expr = Apply(e.routine, tuple(arguments))
    read = set(free_names(made))
    indices: list[Index] = []
    outer: _Scope | None = scope
    while outer is not None:
        if isinstance(outer.around, tuple) and outer.around[0] in read:
            made = Gen(*outer.around, made)
            indices.append(outer.around[0])
            read |= set(free_names(made))
        elif outer.around is not None and not isinstance(outer.around, tuple):
            here = {i for i in free_atoms(outer.around) if isinstance(i, Index)} & read
            if here:
                hidden = ", ".join(sorted(i.name for i in here))
                raise NormalFormError(
                    f"{e.routine.name} is called where a condition on {hidden} hides it",
                    hint=f"call {e.routine.name} outside of the bracket, and hide its value",
                )
        outer = outer.parent
    x = Var(e.routine.name, made.type)
    lifted.append((x, made))
    return access(x, *(atom_affine(index) for index in reversed(indices)))


def _recurrence(e: Recur, scope: _Scope, lifted: list[Binding]) -> Deep[Expr]:
    """5.R3: the states for all surrounding indices, as the value of a let; lets in a step stay there.

    If no bracket surrounds `e`, these are only the indices that it depends on.
    """
    init = yield from call(_lift(e.init, scope, lifted))
    free = free_names(Gen(e.index, e.size, e.step))
    step = with_values(e.step, {x: scope.find(x) for x in free if isinstance(x, Var) and x is not e.state})
    arrays = scope.looked_up(Lookup(x, ()) for x in free if isinstance(x, IndexArray))
    step = with_atoms(step, arrays)
    around: list[tuple[Index, Affine] | Predicate] = []
    outer: _Scope | None = scope
    while outer is not None:
        around += [outer.around] if outer.around is not None else []
        outer = outer.parent
    if all(isinstance(part, tuple) for part in around):
        read = {*free_names(init), *free_names(step)}
        around = [part for part in around if isinstance(part, tuple) and part[0] in read]
    binders = [part for part in reversed(around) if isinstance(part, tuple)]
    places = [atom_affine(index) for index, _ in binders]
    whole = gen(binders, init)
    state = Var(e.state.name, whole.type)
    step = with_values(step, {e.state: access(state, *places)})
    ranges = {e.index: e.size, **dict(binders)}
    for part in around:
        if isinstance(part, tuple):
            init, step = Gen(*part, init), Gen(*part, step)
        else:
            init, step = Bracket(part, init), bracket(simplify_in(part, ranges), step)
    made = Recur(e.word, e.index, e.size, state, init, step)
    value = Var(e.state.name, made.type)
    lifted.append((value, made))
    if e.word == "fold" or not places:
        return access(value, *places)
    at, count = Index(e.index.name), e.size + 1 if e.word == "states" else e.size
    return Gen(at, count, access(value, atom_affine(at), *places))
