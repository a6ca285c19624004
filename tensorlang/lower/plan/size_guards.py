"""The sizes without which a statement is zero anyway, so that nobody who reads it has to ask.

t = gen i:n. sum j:k. x[i, j] * y[j]                zero unless 0 < k
u = gen i:n. ([0 < k] - [0 < k] * z[i]) * t[i]      = gen i:n. (1 - z[i]) * t[i], and zero unless 0 < k
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tensorlang.language.affine import Size, constant
from tensorlang.language.grammar import (
    Access,
    Add,
    Bracket,
    Expr,
    Gen,
    MakePair,
    Mul,
    Proj,
    Sum,
    Var,
    bracket,
    children,
)
from tensorlang.language.predicates import NonNegative, Predicate, at_most, conjunction, conjuncts
from tensorlang.language.rebuilt import with_children
from tensorlang.lower.plan.dependence import is_finite
from tensorlang.recursion import Deep, call

Conditions = frozenset[Predicate]
_NONE: Conditions = frozenset()


def is_static(q: Predicate) -> bool:
    """Whether `q` is a comparison of sizes alone."""
    return isinstance(q, NonNegative) and all(isinstance(atom, Size) for atom in q.value.atoms)


@dataclass
class Required:
    """Comparisons of sizes without which expressions are zero; `read` gives those of a variable or its elements."""

    read: Callable[[Expr], Conditions]
    found: dict[Expr, Conditions] = field(default_factory=dict)
    new: dict[tuple[Expr, Conditions], Expr] = field(default_factory=dict)

    def of(self, e: Expr) -> Deep[Conditions]:
        """Those of `e`, where what it reads is finite."""
        if e not in self.found:
            self.found[e] = yield from call(self._of(e))
        return self.found[e]

    def _of(self, e: Expr) -> Deep[Conditions]:
        inner = _NONE
        match e:
            case Var() | Access() | Proj():
                return self.read(e)
            case Gen(_, _, a):
                inner = yield from call(self.of(a))
            case Sum(_, size, a):
                inner = yield from call(self.of(a))
                inner |= _static(at_most(constant(1), size))
            case Bracket(p, a):
                inner = yield from call(self.of(a))
                inner |= _static(p)
            case Mul(a, b):
                left = yield from call(self.of(a))
                inner = left | (yield from call(self.of(b)))
            case Add(a, b):
                left = yield from call(self.of(a))
                inner = left & (yield from call(self.of(b)))
            case _:
                pass
        return inner

    def drop_implied_guards(self, e: Expr, known: Conditions = _NONE) -> Deep[Expr]:
        """`e` without the guards that hide only what is zero: it is, or it is multiplied by what is, unless all of
        `known` hold."""
        key = (e, known)
        if key not in self.new:
            self.new[key] = yield from call(self._unguarded(e, known))
        return self.new[key]

    def _unguarded(self, e: Expr, known: Conditions) -> Deep[Expr]:
        match e:
            case Bracket(p, a):
                needless = _static(p)
                needless = needless & (known | (yield from call(self.of(a)))) if needless and is_finite(a) else _NONE
                p = conjunction(q for q in conjuncts(p) if q not in needless)
                inner = yield from call(self.drop_implied_guards(a, known | _static(p)))
                return bracket(p, inner)
            case Mul(a, b):
                left = yield from call(self.drop_implied_guards(a, known | (yield from call(self.of(b)))))
                # what was left out on account of the other factor must stay there
                right = yield from call(self.drop_implied_guards(b, known | (yield from call(self.of(left)))))
                return Mul(left, right)
            case Var() | Access() | Proj():
                return e
            case _:
                below = known if isinstance(e, Add | Sum | Gen | MakePair) else _NONE
                parts = []
                for part in children(e):
                    parts.append((yield from call(self.drop_implied_guards(part, below))))
                return with_children(e, parts)

    def guarded(self, e: Expr, known: Conditions = _NONE) -> Deep[Expr]:
        """`e` with guards on products that are zero without them, unless these are `known` to hold: where a factor is a
        sum over nothing, the others may be anything.

        x[i] * sum j:k. y[j]  ->  [0 < k] * x[i] * sum j:k. y[j]
        """
        key = (e, known)
        if key not in self.new:
            self.new[key] = yield from call(self._guarded(e, known))
        return self.new[key]

    def _guarded(self, e: Expr, known: Conditions) -> Deep[Expr]:
        needs = _NONE
        match e:
            case Var() | Access() | Proj():
                return e
            case Mul():
                needs = (yield from call(self.of(e))) - known
                known |= needs
            case Bracket(p, _):
                known |= _static(p)
            case Gen(_, size, _) | Sum(_, size, _):
                known |= _static(at_most(constant(1), size))
            case _:
                pass
        parts = []
        for part in children(e):
            parts.append((yield from call(self.guarded(part, known))))
        return bracket(conjunction(sorted(needs, key=str)), with_children(e, parts))


def _static(p: Predicate) -> Conditions:
    """The comparisons of sizes alone in `p`."""
    return frozenset(q for q in conjuncts(p) if is_static(q))
