"""Reading an array along a line: a diagonal, or one beside it."""

from __future__ import annotations

from collections.abc import Sequence

from tensorlang.language.affine import Affine
from tensorlang.lower.code import ATOM, Value
from tensorlang.lower.scope import Context, Held, Scope


def diagonal(ctx: Context, scope: Scope, array: Held, places: Sequence[Affine]) -> Value | None:
    """The elements of `array` at `places`, of which at least two move along one and the same axis; None if it isn't so.

    Such elements lie at equal distances in memory.
    """
    axes = {i for a in places for i in scope.axes(a)}
    if len(axes) != 1 or any(a.lookups for a in places):
        return None
    (i,) = axes
    code = ctx.integers.code
    starts = ", ".join(code(a.substitute({i: scope.domain[i].start})) for a in places)
    steps = ", ".join(str(a.coefficient(i)) for a in places)
    helper = ctx.helper("_line")
    return Value(f"{helper}({array.name}, ({starts}), ({steps}), {code(scope.domain[i].extent)})", (i,), ATOM, 2)
