"""Tensor SSA as programs of the core language: a let for each statement, with its right-hand side as an expression.

Statements and programs are printed in this way, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import inf

from tensorlang import shown
from tensorlang.language.affine import Affine, Index, IndexArray, atom_affine
from tensorlang.language.function import Function
from tensorlang.language.grammar import (
    Add,
    Apply,
    Call,
    Choice,
    Compared,
    Expr,
    Gen,
    MakePair,
    Mul,
    Proj,
    Sum,
    Var,
    access,
    bracket,
    gen,
    number,
    real,
)
from tensorlang.language.lets import under
from tensorlang.language.predicates import Predicate
from tensorlang.language.types import R, array, leaves
from tensorlang.normal.pattern import renamed
from tensorlang.normal.ssa import (
    SSA,
    Addend,
    Addition,
    Comparison,
    Constant,
    Contraction,
    Defined,
    Defining,
    Input,
    Integers,
    Map,
    Outputs,
    Result,
    Selection,
    Statement,
    States,
    factor_indices,
    inner_ranges,
    is_given,
    operands,
    output_list,
    own_indices,
)
from tensorlang.recursion import Deep, call, run


@shown.lines.register(Defined)
def _of_statement(x: Statement | Addend, limit: float = inf) -> Iterable[str]:
    return shown.lines(right_side(x), limit)


@shown.lines.register(SSA)
def _of_ssa(s: SSA, limit: float = inf) -> Iterable[str]:
    return shown.lines(to_function(opening(s, shown.MOST_LINES) if limit < inf else s), limit)


def read(x: Statement, given: Mapping[Statement, Expr]) -> Expr:
    """The right-hand side of `x` as an expression of the core language, with the `given` expressions for operands."""
    g = tuple(Index(i.name) for i in own_indices(x))
    here = tuple(map(atom_affine, g))

    def renew(p: Predicate, old: tuple[Index, ...] = (), new: tuple[Index, ...] = ()) -> Predicate:
        return renamed(p, (*own_indices(x), *old), (*g, *new))

    body: Expr
    match x:
        case Integers():
            body = element(x, here)
        case States():
            return _named_states(x)
        case Result():
            return _call(x, given)
        case Input(param, path, _):
            body = param
            for which in path:
                body = Proj(which, body)
            return body
        case Constant(value, _):
            body = number(value)
        case Addition(terms, _):
            parts = [(t.sign, renew(t.pred), _read_at(t.operand, given, here)) for t in terms]
            body = sum_of_terms(parts)
        case Map(p, f, arguments, _):
            body = bracket(renew(p), Call(f, tuple(_read_at(y, given, here) for y in arguments)))
        case Contraction(p, factors, _, _):
            old = tuple(inner_ranges(x))
            new = tuple(Index(i.name) for i in old)
            at = {i: atom_affine(j) for i, j in zip(old, new, strict=True)}
            parts_ = [
                _read_at(y, given, tuple(at[i] for i in indices))
                for y, indices in zip(factors, factor_indices(x), strict=True)
            ]
            body = bracket(renew(p, old, new), parts_[0] if len(parts_) == 1 else Mul(*parts_))
            for i, size in reversed(tuple(zip(new, inner_ranges(x).values(), strict=True))):
                body = Sum(i, size, body)
        case Selection(array, sign, guard, p, operand):
            old = own_indices(operand)[-1:]
            new = (Index(old[0].name),)
            chosen = _read_at(operand, given, (*here, atom_affine(new[0])))
            body = bracket(renew(guard), Choice(sign, new[0], array.size, renew(p, old, new), chosen))
        case Comparison(_, op, guard, left, right):
            body = bracket(renew(guard), Compared(op, _read_at(left, given, here), _read_at(right, given, here)))
    for i, size in reversed(tuple(zip(g, x.shape, strict=True))):
        body = Gen(i, size, body)
    return body


def _named_states(x: States) -> Var:
    """A variable that stands for states where the recurrence itself is not at hand."""
    return Var(f"{x.word}_{x.loop.step.states[x.place].name}", array(x.shape, R))


def _call(x: Result, given: Mapping[Statement, Expr]) -> Expr:
    """gen b. the part of r(X0[b], X1, ..) in the place of `x`; a variable if some operands are not given."""
    a = x.application
    if any(y not in given for y in a.operands):
        return Var(a.routine.name, array(x.shape, R))
    binders = [(Index(f"b{k}" if k else "b"), size) for k, size in enumerate(a.batch)]
    places = [atom_affine(index) for index, _ in binders]
    read = zip(a.operands, a.mapped, strict=True)
    call: Expr = Apply(a.routine, tuple(access(given[y], *places) if along else given[y] for y, along in read))
    for which in leaves(call.type)[x.place][0]:
        call = Proj(which, call)
    return gen(binders, call)


def _read_at(x: Statement, given: Mapping[Statement, Expr], at: tuple[Affine, ...]) -> Expr:
    return element(x, at) if isinstance(x, Integers) else access(given[x], *at)


def element(x: Integers, at: tuple[Affine, ...]) -> Expr:
    """The element of `x` at `at`."""
    return real(x.value.substitute(dict(zip(own_indices(x), at, strict=True))))


def right_side(x: Statement | Addend) -> Expr:
    """The right-hand side of `x` on its own; operands that are no inputs are called X0, X1, ..."""
    if isinstance(x, Addend):
        x = Addition((x,), x.operand.shape)
    given: dict[Statement, Expr] = {}
    for y in operands(x):
        if y not in given:
            given[y] = read(y, {}) if isinstance(y, Input) else Var(f"X{len(given)}", array(y.shape, R))
    return read(x, given)


def opening(s: SSA, most: int) -> SSA:
    """The first `most` statements of `s`, with the last of them as the output; `s` itself if it has no more."""
    if len(s.statements) <= most:
        return s
    return replace(s, statements=s.statements[:most], outputs=s.statements[most - 1], results=None)


def sum_of_terms(terms: Iterable[tuple[int, Predicate, Expr]]) -> Expr:
    """The sum of sign * [p] * e over the terms, with those of the same predicate under one bracket.

    By (4.24) it costs the points of all predicates minus those of the union of the positive ones.
    """
    groups: dict[tuple[int, Predicate], Expr] = {}
    for sign, p, e in terms:
        groups[sign, p] = Add(groups[sign, p], e, 1) if (sign, p) in groups else e
    parts = sorted(groups.items(), key=lambda group: -group[0][0])
    if not parts:
        return number(0)
    (sign, p), e = parts[0]
    total = bracket(p, e if sign > 0 else Mul(number(-1), e))
    for (sign, p), e in parts[1:]:
        total = Add(total, bracket(p, e), sign)
    return total


def to_function(s: SSA) -> Function:
    """The program as a function of the core language, a let for each statement; the same meaning and cost."""
    given: dict[Statement, Expr] = {}
    bindings: list[tuple[Var | IndexArray, Expr]] = []
    results = set(output_list(s.outputs))
    for x in s.statements:
        value = read(x, given)
        if is_given(x) and not (isinstance(x, Integers) and x in results):
            given[x] = value
            continue
        if isinstance(x, Defining):
            bindings.append((x.array, value))
            continue
        variable = Var(s.names.get(x, f"X{len(bindings)}"), array(x.shape, R))
        bindings.append((variable, value))
        given[x] = variable

    def tree(outputs: Outputs) -> Deep[Expr]:
        if isinstance(outputs, tuple):
            return MakePair((yield from call(tree(outputs[0]))), (yield from call(tree(outputs[1]))))
        return given[outputs]

    return Function(s.name, s.params, under(bindings, run(tree(s.outputs))), s.results)
