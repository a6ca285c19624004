"""An extremum, or a choice, in the scope in which its array is computed, and the range that its condition leaves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tensorlang.language.affine import Affine, Index, atom_affine
from tensorlang.language.grammar import Choice, Extremum
from tensorlang.language.predicates import NonNegative, Predicate, conjunction, conjuncts, substitute
from tensorlang.lowering.arrays.brackets import bound_on, bounded_index
from tensorlang.lowering.arrays.context import Context
from tensorlang.lowering.arrays.integers import ZERO, Range
from tensorlang.lowering.arrays.ir import Name, Node
from tensorlang.lowering.arrays.scope import Scope
from tensorlang.lowering.arrays.undecided import undecided_conditions
from tensorlang.sets.solve import Ranges

NAN = Name("jnp.nan")


@dataclass(frozen=True, eq=False)
class Extreme:
    """An extremum, or a choice, and the scope in which its array is computed."""

    ctx: Context
    scope: Scope
    e: Extremum | Choice
    none: Node | None
    """Its value where data leave no point; anything, if that is None."""

    @cached_property
    def left(self) -> tuple[Range, Predicate]:
        """The range that its condition leaves for its index, and the rest of the condition."""
        return _restricted(self.ctx, self.scope, self.e)


def _restricted(ctx: Context, scope: Scope, e: Extremum | Choice) -> tuple[Range, Predicate]:
    """The range that the predicate leaves for the index, and the rest of the predicate."""
    r = ctx.integers.range_of(e.index, e.size, scope.fixed)
    starts: dict[Index, list[Affine]] = {}
    stops: dict[Index, list[Affine]] = {}
    rest = []
    for q in undecided_conditions(ctx, scope, conjuncts(substitute(e.pred, scope.env))):
        bound = bounded_index(scope, {**scope.domain, e.index: r}, q)
        if bound is not None and bound[0] is e.index:
            bound_on(ctx, scope, *bound, starts, stops)
        else:
            rest.append(q)
            if (hull := _hull(scope, e.index, q)) is not None:
                bound_on(ctx, scope, e.index, hull, starts, stops)
    r = ctx.integers.restricted(e.index, r, starts.get(e.index, []), stops.get(e.index, []), scope.fixed)
    return r, conjunction(rest)


def _hull(scope: Scope, index: Index, q: Predicate) -> Affine | None:
    """The value that is not negative by `q`, a comparison of the index with axes, whatever these are; else None."""
    if not isinstance(q, NonNegative) or not scope.is_static(q.value) or not q.value.coefficient(index):
        return None
    own = atom_affine(index) * q.value.coefficient(index)
    return own + scope.bounds(q.value - own)[1]


def whole_ranges(scope: Scope) -> Ranges:
    """The axes of a scope that begin at 0, with their lengths."""
    return {i: r.stop for i, r in scope.domain.items() if r.start is ZERO}
