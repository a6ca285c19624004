"""Scalar expressions as array code over named axes."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import reduce

from tensorlang.language.grammar import (
    Access,
    Add,
    Bracket,
    Choice,
    Compared,
    Expr,
    Extremum,
    Proj,
    Sum,
    Var,
)
from tensorlang.language.predicates import FALSE, Or, Predicate, conjunction
from tensorlang.language.types import R
from tensorlang.lowering.arrays.accesses import access
from tensorlang.lowering.arrays.brackets import bracket
from tensorlang.lowering.arrays.concatenate import assembled
from tensorlang.lowering.arrays.context import Context
from tensorlang.lowering.arrays.extrema import bracketed_extremum, extremum
from tensorlang.lowering.arrays.extreme import NAN
from tensorlang.lowering.arrays.fold import combined
from tensorlang.lowering.arrays.ir import Number
from tensorlang.lowering.arrays.joins import joined
from tensorlang.lowering.arrays.masks import mask, mask_over
from tensorlang.lowering.arrays.scope import Scope
from tensorlang.lowering.arrays.sums.sparse import is_enumerable
from tensorlang.lowering.arrays.sums.strategies import contract, total
from tensorlang.lowering.arrays.sums.summation import Summation
from tensorlang.lowering.arrays.undecided import MOST_PARTS, exclude_one_another
from tensorlang.lowering.arrays.values import Axes, Value, compared, instead, plus, turned, where
from tensorlang.recursion import Deep, call


class Compiler:
    """Writes the code of expressions; `shared` are those that the statement uses more than once, `both_ways` its
    reads of arrays that it reads along several axes."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        ctx.value = self.value
        ctx.contract = lambda c: contract(ctx, c)
        self.shared: frozenset[Expr] = frozenset()
        self.both_ways: frozenset[Expr] = frozenset()

    def value(self, e: Expr, scope: Scope) -> Deep[Value]:
        """The array of `e` over those axes of `scope` on which it depends."""
        if e not in scope.memo:
            v = yield from call(self._value(e, scope))
            v = self.ctx.short(v, scope.block)
            if e in self.shared and v.depth > 0:
                v = self.ctx.temporary(v, scope.block)
            scope.memo[e] = v
        return scope.memo[e]

    def _value(self, e: Expr, scope: Scope) -> Deep[Value]:
        v: Value
        match e:
            case Var() | Proj() | Access():
                v = access(self.ctx, scope, *self.ctx.held_by(e))
                return turned(v, scope.order) if e in self.both_ways else v
            case Add(Bracket(p, a), Bracket(q, b), sign) if p is q:
                return (yield from call(self.value(Bracket(p, Add(a, b, sign)), scope)))
            case Add(a, b, sign):
                branches: Value | None = yield from call(joined(self.ctx, scope, e))
                if branches is not None:
                    return branches
                pieces: Value | None = yield from call(assembled(self.ctx, scope, e, self.shared))
                if pieces is not None:
                    return pieces
                v = yield from call(self._apart(e, scope) if self._are_apart(e, scope) else self._combined(e, scope))
            case Bracket(_, Sum()) | Sum():
                v = yield from call(total(self.ctx, scope, e))
            case Bracket(p, a):
                if (
                    isinstance(p, Or)
                    and p is not FALSE
                    and a.type is R
                    and exclude_one_another(self.ctx, scope, p.parts)
                ):
                    pieces = yield from call(assembled(self.ctx, scope, _alternatives(p.parts, a), self.shared))
                    if pieces is not None:
                        return pieces
                if is_enumerable(self.ctx, scope, p):
                    v = yield from call(contract(self.ctx, Summation(scope, {}, (p,), a)))
                elif isinstance(a, Extremum | Choice):
                    v = yield from call(bracketed_extremum(self.ctx, scope, p, a))
                else:
                    v = yield from call(bracket(self.ctx, scope, p, a))
            case Extremum() | Choice():
                v = yield from call(extremum(self.ctx, scope, e, None if e is self.ctx.certain else NAN))
            case Compared(op, a, b):
                left = yield from call(self.value(a, scope))
                right = yield from call(self.value(b, scope))
                v = compared(op, left, right, scope.order)
            case _:
                v = yield from call(self._combined(e, scope))
        return v

    def _are_apart(self, e: Add, scope: Scope) -> bool:
        """Whether the last term of a sum is zero wherever another one is not."""
        if e.sign < 0 or not isinstance(e.right, Bracket) or e.right in self.shared:
            return False
        others: list[Predicate] = []
        stack = [e.left]
        while stack:
            part = stack.pop()
            if isinstance(part, Add):
                stack += [part.left, part.right]
            elif isinstance(part, Bracket) and len(others) < MOST_PARTS:
                others.append(part.pred)
            else:
                return False
        return all(exclude_one_another(self.ctx, scope, (p, e.right.pred)) for p in others)

    def _apart(self, e: Add, scope: Scope) -> Deep[Value]:
        """The value of a sum whose last term is zero wherever another one is not: a selection, if that term is one."""
        left: Value = yield from call(self.value(e.left, scope))
        right: Value = yield from call(self._value(e.right, scope))
        assert isinstance(e.right, Bracket)
        there = mask(self.ctx, scope, e.right.pred)
        return instead(right, left, there, scope.order) or plus(left, right, 1, scope.order)

    def _combined(self, e: Expr, scope: Scope) -> Deep[Value]:
        return combined(
            e,
            lambda part: self.value(part, scope),
            scope.order,
            self.shared,
            lambda v: self._safe(v, scope),
            lambda axes: self._shown(axes, scope),
        )

    def _shown(self, axes: Axes, scope: Scope) -> Value | None:
        """Where something over `axes` is not hidden; None if that is everywhere."""
        if not scope.masks:
            return None
        return self.ctx.short(mask_over(self.ctx, scope, conjunction(scope.masks), axes), scope.block)

    def _safe(self, v: Value, scope: Scope) -> Value:
        """`v`, but 1 where it is hidden: the derivative of a hidden log(0) must be 0, not 0 * inf."""
        if not scope.masks or (v.weak and not v.axes):
            return v
        m = mask_over(self.ctx, scope, conjunction(scope.masks), v.axes)
        return self.ctx.short(where(m, v, scope.order, Number(Fraction(1))), scope.block)


def _alternatives(parts: Sequence[Predicate], e: Expr) -> Add:
    """[p or q] * e as [p]*e + [q]*e, for predicates that exclude one another."""
    first, second, *others = (Bracket(p, e) for p in parts)
    return reduce(lambda total, term: Add(total, term, 1), others, Add(first, second, 1))
