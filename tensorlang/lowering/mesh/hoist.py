"""Sums over mapped indices as statements of their own, wherever the statement is not linear in them.

gen i:n. tanh(sum j:m. w[i, j] * x[j])   =   let t = gen i:n. sum j:m. w[i, j] * x[j] in gen i:n. tanh(t[i])

On each device such a sum is a part of the whole one. Under gens, brackets, other sums, and products with factors that
are whole, a part remains one: such a statement is added up over the devices when all of it has been computed.
"""

from __future__ import annotations

from collections.abc import Collection

from tensorlang.language.affine import Index, atom_affine
from tensorlang.language.grammar import (
    Bracket,
    Choice,
    Expr,
    Extremum,
    Mul,
    Sum,
    Var,
    access,
    bracket,
    children,
)
from tensorlang.language.names import free_names
from tensorlang.language.predicates import Predicate, conjunction, conjuncts, free_atoms
from tensorlang.language.rebuilt import with_children
from tensorlang.language.types import R, array
from tensorlang.lowering.mesh.statements import IndexBinder, MeshStatement, Ranges, Scan
from tensorlang.recursion import Deep, call, run

Guards = tuple[Predicate, ...]
Partial = tuple[Expr, bool]
"""An expression, and whether its value on a device is a part of its value."""


def hoisted(scan: Scan, mapped: Collection[IndexBinder]) -> tuple[MeshStatement, ...]:
    """The statement, after those for its sums over `mapped` indices in which its value is not linear."""
    h = _Hoist(scan, {e for e, binder in scan.binders.items() if isinstance(e, Sum) and binder in mapped})
    s = scan.statement
    scalar, _ = run(h.visit(s.scalar, scan.root, True, ()))
    return (*h.made, s if scalar is s.scalar else MeshStatement(s.array, s.own, scalar))


class _Hoist:
    def __init__(self, scan: Scan, wanted: Collection[Expr]) -> None:
        self.scan = scan
        self.wanted = wanted
        self.made: list[MeshStatement] = []
        self.memo: dict[tuple[Expr, int, bool, Guards], Partial] = {}
        self.having: dict[Expr, bool] = {}

    def has(self, e: Expr) -> Deep[bool]:
        """Whether there is a sum over a mapped index in `e`."""
        if e not in self.having:
            found = e in self.wanted
            for child in children(e):
                found |= yield from call(self.has(child))
            self.having[e] = found
        return self.having[e]

    def visit(self, e: Expr, scope: Ranges, linear: bool, guards: Guards) -> Deep[Partial]:
        """`e` without the sums that become statements. It can be a part only where all around it is `linear` in it."""
        if not (yield from call(self.has(e))):
            return e, False
        key = (e, id(scope), linear, guards)
        if key not in self.memo:
            self.memo[key] = yield from call(self._visit(e, scope, linear, guards))
        return self.memo[key]

    def _visit(self, e: Expr, scope: Ranges, linear: bool, guards: Guards) -> Deep[Partial]:
        match e:
            case Bracket(p, a):
                inner, partial = yield from call(self.visit(a, scope, linear, (*guards, *conjuncts(p))))
                return bracket(p, inner), partial
            case Sum(index, size, a):
                inner, partial = yield from call(self.visit(a, self.scan.within(e, scope), True, guards))
                made: Expr = Sum(index, size, inner)
                partial |= e in self.wanted
                return (self._statement(made, scope, guards), False) if partial and not linear else (made, partial)
            case Mul(a, b):
                linear &= not ((yield from call(self.has(a))) and (yield from call(self.has(b))))
                left, some = yield from call(self.visit(a, scope, linear, guards))
                right, others = yield from call(self.visit(b, scope, linear, guards))
                return Mul(left, right), some or others
            case Extremum(pred=p) | Choice(pred=p):
                scope, guards = self.scan.within(e, scope), (*guards, *conjuncts(p))
            case _:
                pass
        new = []
        for child in children(e):
            part, _ = yield from call(self.visit(child, scope, False, guards))
            new.append(part)
        return with_children(e, new), False

    def _statement(self, e: Expr, scope: Ranges, guards: Guards) -> Expr:
        """The element of a new statement whose value is `e`, where it is not hidden."""
        free = {i for i in free_names(e) if isinstance(i, Index)}
        hidden = [q for q in guards if not free.isdisjoint(_indices(q)) or not _indices(q)]
        for q in hidden:
            free |= _indices(q)
        own = tuple(IndexBinder(i, binder.size) for i, binder in scope.items() if i in free)
        x = Var(f"{self.scan.statement.array.name}_sum", array(tuple(b.size for b in own), R))
        self.made.append(MeshStatement(x, own, bracket(conjunction(hidden), e)))
        return access(x, *(atom_affine(b.index) for b in own))


def _indices(q: Predicate) -> set[Index]:
    return {i for i in free_atoms(q) if isinstance(i, Index)}
