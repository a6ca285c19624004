"""What each step of a derivation costs before and after: Figures 6 and 17, at given sizes.

The extended cost of an expression in mid-derivation is the cost of its statements and differentials plus, for each
inner product <e | dX>_[p], the points of p. An inner product with a negative sign counts twice: it has yet to be
negated. A differential let dX = D[E] that is not used up counts as its expansion by Figure 13.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tensorlang.costs.cost import charges, known
from tensorlang.costs.counter import Counter
from tensorlang.derivatives.derivation import Derivation, InnerProduct, Side, Step
from tensorlang.derivatives.total import active
from tensorlang.language.affine import Affine, Index
from tensorlang.language.functions import operations
from tensorlang.language.grammar import Expr, Mul, Var, bracket, gen, number
from tensorlang.language.predicates import Predicate, disjunction
from tensorlang.language.types import R, array
from tensorlang.normal.as_program import read, to_function
from tensorlang.normal.ssa import (
    Addition,
    Comparison,
    Constant,
    Contraction,
    Input,
    Map,
    Selection,
    Statement,
    inner_ranges,
    operands,
    own_ranges,
)
from tensorlang.sets.solve import project


def costs(derivation: Derivation, data: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
    """For each step, the costs before and after of what it rewrites, at the sizes and relations in `data`."""
    ledger = Ledger(derivation, data)
    return (ledger.step(step) for step in derivation.steps)


class Ledger:
    """Counts statements, differentials and inner products of one derivation at given sizes."""

    def __init__(self, derivation: Derivation, data: Mapping[str, Any]) -> None:
        self.counter = Counter(known(to_function(derivation.program), data))
        self.active = active(derivation.program, derivation.wrt)
        self.counted: dict[object, int] = {}

    def step(self, step: Step) -> tuple[int, int]:
        """The cost before and after (6.30 to 6.32)."""
        before = sum(map(self.inner_product, step.before))
        after = sum(map(self.inner_product, step.after)) + sum(map(self.statement, step.made))
        if step.rule.number in ("6.19", "6.20") and step.subject is not None:
            before += self.differential(step.subject)
        return before, after

    def inner_product(self, product: InnerProduct) -> int:
        """(6.33) and (6.34); 0 for a right side that is 0, which rules 6.22 and 6.23 are about to drop."""
        if product.right not in self.active:
            return 0
        points = self.points(product.pred, own_ranges(product.right))
        spent = points if product.sign > 0 else 2 * points
        return spent + (self.differential(product.right) if product.side is Side.DEFINITION else 0)

    def statement(self, x: Statement) -> int:
        """The cost of the right-hand side of `x`."""
        if x not in self.counted:
            given: dict[Statement, Expr] = {y: Var(f"x{k}", array(y.shape, R)) for k, y in enumerate(operands(x))}
            self.counted[x] = self._count(read(x, given))
        return self.counted[x]

    def differential(self, x: Statement) -> int:
        """The cost of D[E] for let x = E, counting a subtracted term twice."""
        own = own_ranges(x)
        match x:
            case Input() | Constant() | Selection() | Comparison():
                return 0
            case Addition(terms, _):
                plus = [t.pred for t in terms if t.sign > 0 and t.operand in self.active]
                minus = [t.pred for t in terms if t.sign < 0 and t.operand in self.active]
                joined = sum(self.points(p, own) for p in plus) - self.points(disjunction(plus), own)
                return joined + 2 * sum(self.points(p, own) for p in minus)
            case Map(p, f, arguments, _):
                xs = tuple(Var(f"x{k}", R) for k in range(f.arity))
                parts = [
                    operations(e)
                    for e, y in zip(f.transpose(xs, Var("y", R), Var("t", R)), arguments, strict=True)
                    if e is not None and y in self.active
                ]
                return self.points(p, own) * (sum(parts) + max(0, len(parts) - 1))
            case Contraction(p, factors, _, _):
                times = sum(y in self.active for y in factors)
                if not times:
                    return 0
                inner = inner_ranges(x)
                total = self.points(p, {**own, **inner})
                return total * (len(factors) * times) - self.points(project(inner, p, own), own)

    def points(self, p: Predicate, ranges: Mapping[Index, Affine]) -> int:
        """The number of points of `p`."""
        key = (p, tuple(ranges.items()))
        if key not in self.counted:
            self.counted[key] = self._count(gen(list(ranges.items()), bracket(p, Mul(number(1), number(1)))))
        return self.counted[key]

    def _count(self, e: Expr) -> int:
        return sum(weight * self.counter.points(domain) for domain, weight in charges(e).items())
