"""The values of its steps that a forward recurrence stores for the backward one, and for the sums over its steps.

It stores the values that these read, unless they can recompute them at the same cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from tensorlang.language.affine import IndexArray
from tensorlang.normal.contraction import is_determined
from tensorlang.normal.ssa import (
    Addition,
    Constant,
    Contraction,
    Defining,
    Input,
    Integers,
    Loop,
    Map,
    Statement,
    States,
    looked_up,
    needs,
    operands,
    selections,
    whole_of,
)
from tensorlang.normal.tidy import is_index_only


def frontier(
    lefts: Iterable[Statement], defined: Mapping[IndexArray, Defining], stops: Callable[[Statement], bool]
) -> list[Statement]:
    """The first statements for which `stops` is true on all paths from `lefts` to their operands; the search goes on
    through statements without arithmetic and those made of indices alone."""
    found: dict[Statement, None] = {}
    seen: set[Statement] = set()
    stack = list(lefts)
    while stack:
        x = stack.pop()
        if x in seen:
            continue
        seen.add(x)
        made = whole_of(x) is not None
        if not made and isinstance(x, Input | Constant):
            continue
        if stops(x) and not _is_of_indices(x) and not isinstance(x, Defining) and (made or not is_index_only(x)):
            found[x] = None
        else:
            stack += needs(x, defined)
    return list(found)


def not_made_again(
    loop: Loop,
    stored: Sequence[Statement],
    outputs: Sequence[Statement],
    sides: Sequence[set[Statement]],
    defined: Mapping[IndexArray, Defining],
    dependent: set[Statement],
) -> list[Statement]:
    """`stored` without the statements that can be recomputed at the same cost as in the forward steps.

    These are not needed by the program itself, are elementwise functions of values that are stored anyway or of one
    further value, and are read by only one of the `sides`. Their conditions look up only arrays that statements of that
    side which are `dependent` on cotangents look up as well.
    """
    own = ancestors(outputs, defined, set())
    before = {Input(v, (), x.shape) for v, x in zip(loop.step.states, loop.inits, strict=True)}
    found = dict.fromkeys(stored)
    known = {loop.step.time}

    def leaves(x: Statement, like: Statement) -> list[Statement] | None:
        """The further statements to store so that `x` can be recomputed elementwise; None if that is impossible."""
        if x in found or x in before or isinstance(x, Constant) or _is_of_indices(x):
            return []
        if x in outputs and x.shape == like.shape:
            return [x]
        elementwise = isinstance(x, Map | Addition) or (isinstance(x, Contraction) and is_determined(x.pattern))
        if x in own or not elementwise or not known.issuperset(looked_up(x)):
            return None
        parts = [leaves(y, like) for y in operands(x)]
        return None if None in parts else [y for part in parts for y in part or ()]

    for x in stored:
        if x in own or isinstance(x, Input) or all(x in side for side in sides):
            continue
        del found[x]
        there = (y for side in sides if x in side for y in side & dependent)
        known = {loop.step.time, *(a for y in there for a in looked_up(y))}
        more = leaves(x, x)
        if more is None or len(set(more)) > 1:
            found[x] = None
        else:
            found.update(dict.fromkeys(more))
    return list(found)


def _is_of_indices(x: Statement) -> bool:
    """Whether `x` is computed from indices and constants alone: it has no adjoint, so it may be computed twice."""
    if isinstance(x, Input | Constant):
        return isinstance(x, Integers | Constant)
    return not looked_up(x) and all(map(_is_of_indices, operands(x)))


def depending(
    statements: Sequence[Statement], on: set[Statement], defined: Mapping[IndexArray, Defining]
) -> set[Statement]:
    """The statements that depend on some of `on`, these included."""
    found = set(on)
    for x in statements:
        if any(y in found for y in needs(x, defined)):
            found.add(x)
    return found


def late_arrays(statements: Sequence[Statement], loop: Loop) -> set[IndexArray]:
    """The arrays that depend on the results of `loop` or of a later recurrence: the steps of `loop` can't read them."""
    defined = selections(statements)
    loops = list(dict.fromkeys(x.loop for x in statements if isinstance(x, States)))
    after = set(loops[loops.index(loop) :])
    given: set[Statement] = {x for x in statements if isinstance(x, States) and x.loop in after}
    late = depending(statements, given, defined)
    return {array for array, x in defined.items() if x in late}


def ancestors(xs: Iterable[Statement], defined: Mapping[IndexArray, Defining], known: set[Statement]) -> set[Statement]:
    """These statements and all from which they are computed, up to those that are `known`."""
    found: set[Statement] = set()
    stack = list(xs)
    while stack:
        x = stack.pop()
        if x not in found:
            found.add(x)
            stack += needs(x, defined) if x not in known else ()
    return found


def within(
    lefts: Iterable[Statement], defined: Mapping[IndexArray, Defining], dependent: set[Statement]
) -> set[Statement]:
    """The statements among `dependent` that `lefts` are computed from, these included."""
    found: set[Statement] = set()
    stack = [x for x in lefts if x in dependent]
    while stack:
        x = stack.pop()
        if x not in found:
            found.add(x)
            stack += [y for y in needs(x, defined) if y in dependent]
            whole = whole_of(x)
            if whole is not None:  # then all of its results are
                stack += [y for y in dependent if whole_of(y) is whole]
    return found
