"""Declared adjoints in place of calls, and the derivatives that follow from them.

    6.A   <dY | D r(X0, ..)>_[P]  ->  let (dX0', ..) = r'(X0, .., Y, [P]*dY) in <dX0' | D X0> + ..

where r' is the rule of the routine r, a program, which is linear in dY. So D r(X0, ..; dX0, ..) is the adjoint of r'
with respect to dY: the total derivative needs no further rule. Both are mapped over the indices b of the call, and an
operand that all calls share gets the sum of their cotangents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from tensorlang.language.affine import Affine, Index, atom_affine
from tensorlang.language.function import Function, Parameter
from tensorlang.language.grammar import Expr, Let, MakePair, Routine, Var, access, gen, sums, zero
from tensorlang.language.recurrence import paired, parted
from tensorlang.language.routines import rule_of
from tensorlang.language.types import Pair, R, Type, array, leaves, shape
from tensorlang.normal import function_of, normal_ssa
from tensorlang.normal.ssa import SSA, Application, Input, Statement, output_list, result_of
from tensorlang.normal.tidy import with_operands
from tensorlang.normal.to_ssa import StatementBuilder
from tensorlang.surface.inline import inlined
from tensorlang.surface.terms import Term

adjoints: list[Callable[[SSA, tuple[Var, ...], Type], tuple[SSA, Any]]] = []
"""The function that derives adjoints; `tensorlang.derivatives.adjoint`, which imports this module, puts it here."""

_tangents: WeakKeyDictionary[Routine, Function] = WeakKeyDictionary()

Part = tuple[Statement | Type, bool]
"""An array, or the type of an array of zeros, and whether each call has its own."""


def cotangents(builder: StatementBuilder, a: Application, bars: Sequence[Statement]) -> list[Statement]:
    """6.A: the cotangents of the operands of `a`, whose value has the cotangents `bars`."""
    values: list[Part] = [(result_of(a, place), True) for place in range(len(bars))]
    call = _Calls(a)
    body = call.of(rule_of(a.routine), [*call.operands, values, [(x, True) for x in bars]])
    whole = Var("t", gen(call.binders, body).type)
    each = parted(access(whole, *call.places), len(a.operands))
    parts = [gen(call.binders, e) if along else call.total(e) for e, along in zip(each, a.mapped, strict=True)]
    return call.statements(builder, Let(whole, gen(call.binders, body), paired(parts)))


def differentials(builder: StatementBuilder, a: Application, dx: Sequence[Statement | None]) -> list[Statement]:
    """The differentials of the results of `a`, for these differentials of its operands."""
    values: list[Part] = [(result_of(a, place), True) for place in range(len(leaves(a.type)))]
    call = _Calls(a)
    count = len(call.binders)
    zeros: list[Part] = [(array(shape(kind)[0][count:], R), True) for _, kind in leaves(a.type)]
    moving: list[Part] = []
    for x, along, t in zip(a.operands, a.mapped, dx, strict=True):
        moving.append((array(x.shape[count if along else 0 :], R) if t is None else t, along))
    body = call.of(_tangent(a.routine), [*call.operands, values, zeros, moving])
    return call.statements(builder, gen(call.binders, body))


def _tangent(routine: Routine) -> Function:
    """The total derivative that a routine's rule implies: a program of the routine's arguments, its value, a cotangent
    on which the result does not depend, and the differentials of the arguments."""
    if routine not in _tangents:
        rule = rule_of(routine)
        bar = rule.params[-1]
        assert isinstance(bar, Var)
        (transposed,) = adjoints
        made, _ = transposed(normal_ssa(rule), (bar,), rule.type)
        _tangents[routine] = function_of(made)
    return _tangents[routine]


class _Calls:
    """All calls of one application, as a program of its operands and the other values that the derivative reads."""

    def __init__(self, a: Application) -> None:
        self.a = a
        self.binders: list[tuple[Index, Affine]] = [(Index(f"b{k}" if k else "b"), n) for k, n in enumerate(a.batch)]
        self.places = [atom_affine(index) for index, _ in self.binders]
        self.operands: list[list[Part]] = [[part] for part in zip(a.operands, a.mapped, strict=True)]
        self.params: list[Parameter] = []
        self.change: dict[Statement, Statement] = {}

    def of(self, f: Function, given: Sequence[Sequence[Part]]) -> Expr:
        """`f` at the indices of one call, with the `given` parts for each of its parameters."""
        values: dict[Parameter, Term] = {}
        for p, parts in zip(f.params, given, strict=True):
            assert isinstance(p, Var)
            values[p] = Term(_tree(p.type, iter([self._read(p.name, *part) for part in parts])))
        return inlined(f, values, {})

    def _read(self, name: str, x: Statement | Type, along: bool) -> Expr:
        if isinstance(x, Type):
            return zero(x)
        v = Var(name, array(x.shape, R))
        self.params.append(v)
        self.change[Input(v, (), x.shape)] = x
        return access(v, *self.places) if along else v

    def total(self, e: Expr) -> Expr:
        """The sum of the arrays `e` over all calls."""
        binders = [(Index("k"), size) for size in shape(e.type)[0]]
        return gen(binders, sums(self.binders, access(e, *(atom_affine(i) for i, _ in binders))))

    def statements(self, builder: StatementBuilder, e: Expr) -> list[Statement]:
        """Emit `e` as statements; return its outputs."""
        s = normal_ssa(Function("rule", tuple(self.params), e))
        new: dict[Statement, Statement] = {}
        for x in s.statements:
            new[x] = builder.include(self.change[x] if x in self.change else with_operands(x, new))
        return [new[x] for x in output_list(s.outputs)]


def _tree(kind: Type, parts: Iterator[Expr]) -> Expr:
    """The parts, in order, as the leaves of the pairs of `kind`."""
    if not isinstance(kind, Pair):
        return next(parts)
    first = _tree(kind.first, parts)
    return MakePair(first, _tree(kind.second, parts))
