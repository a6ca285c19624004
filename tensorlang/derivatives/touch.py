"""The points that a program in tensor SSA executes when each statement runs over just the points of its predicate.

This counts work that Figure 6 leaves to the compiler: a sum of one point costs nothing, but is executed. For programs
in simplified SSA and their adjoints

    touch(adjoint of S) <= 5 * touch(S) + |output|                                                               (R)

since a point of a product is executed once by the program, and in the adjoint once more as part of the program, once
for each factor's cotangent and once for each contribution to one. A statement without arithmetic is inlined into its
readers and executes nothing of its own, except that an output is written where it is not 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensorlang.costs.cost import known
from tensorlang.costs.counter import Counter
from tensorlang.costs.domains import Domain
from tensorlang.language.affine import Affine, Index
from tensorlang.language.predicates import TRUE, Predicate, conjunction
from tensorlang.normal.as_program import to_function
from tensorlang.normal.pattern import renamed
from tensorlang.normal.ssa import (
    SSA,
    Addition,
    Comparison,
    Constant,
    Contraction,
    Input,
    Map,
    Selection,
    Statement,
    factor_indices,
    inner_ranges,
    output_list,
    own_indices,
    own_ranges,
)
from tensorlang.normal.tidy import is_index_only, support


def touch(s: SSA, data: Mapping[str, Any]) -> int:
    """The points that `s` executes at the sizes and data that `data` names.

    An addition executes the points of each of its terms. Raises `ArgumentError` if a size is missing.
    """
    counter = Counter(known(to_function(s), data))
    spaces = [space for x in s.statements if not is_index_only(x) for space in _executed(x)]
    spaces += [space for x in output_list(s.outputs) if is_index_only(x) for space in _executed(x)]
    return sum(counter.points(Domain(tuple(ranges.items()), p)) for ranges, p in spaces)


def _executed(x: Statement) -> list[tuple[Mapping[Index, Affine], Predicate]]:
    """The index spaces that `x` runs over, each with its predicate."""
    match x:
        case Input():
            return [(own_ranges(x), TRUE)]
        case Constant(value, _):
            return [(own_ranges(x), TRUE)] if value else []
        case Addition(terms, _):
            return [(own_ranges(x), t.pred) for t in terms]
        case Map(p, _, _, _):
            return [(own_ranges(x), p)]
        case Contraction(p, factors, _, _):
            here = (renamed(support(y), own_indices(y), at) for y, at in zip(factors, factor_indices(x), strict=True))
            return [({**own_ranges(x), **inner_ranges(x)}, conjunction([p, *here]) if is_index_only(x) else p)]
        case Selection(_, _, guard, p, operand):
            return [(own_ranges(operand), conjunction([guard, p]))]
        case Comparison(_, _, guard, _, _):
            return [(own_ranges(x), guard)]
