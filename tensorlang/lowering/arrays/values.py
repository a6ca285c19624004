"""Arrays with named axes: an expression of an array program, the indices that its axes stand for, and arithmetic."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce

from tensorlang.language.affine import Affine, Index
from tensorlang.language.grammar import Expr, ScalarFunction
from tensorlang.language.types import BoundedIndex
from tensorlang.lowering.arrays.ir import (
    ALL,
    NEW,
    Any,
    ArrayOperation,
    EinsumSpec,
    Elementwise,
    Infix,
    Name,
    Negative,
    Node,
    Number,
    StaticInteger,
    Subscript,
    Transpose,
    Tuple,
)
from tensorlang.simplification.scattered import LINEAR_IN_LAST

Axes = tuple[Index, ...]

DTYPE, INT32 = Name("dtype"), Name("jnp.int32")
TRUE = Name("True")


@dataclass(frozen=True)
class Value:
    """An expression whose value is an array with these axes, in this order.

    `depth` is how deep its operations are nested; `number` is its value if it is a literal; `weak` says that no array
    of the computation's dtype is in it.
    """

    node: Node
    axes: Axes = ()
    depth: int = 0
    number: Fraction | None = None
    weak: bool = False

    def __post_init__(self) -> None:
        assert len(set(self.axes)) == len(self.axes)
        match self.node:
            case Transpose(_, places):
                assert len(places) == len(self.axes)
            case ArrayOperation("einsum", (EinsumSpec(_, result), *_), _):
                assert len(result) == len(self.axes)
            case ArrayOperation("broadcast_to", (_, Tuple(sizes)), _) | ArrayOperation("full", (Tuple(sizes), *_), _):
                assert len(sizes) == len(self.axes) or not self.axes
            case _:
                pass


def apply(operation: str, *arguments: Node, **named: Node) -> ArrayOperation:
    """operation(arguments)."""
    return ArrayOperation(operation, arguments, tuple(named.items()))


def integer(value: int) -> StaticInteger:
    """A literal integer."""
    return StaticInteger(Affine((), value))


def integers(values: Iterable[int]) -> Tuple:
    """A tuple of literal integers."""
    return Tuple(tuple(map(integer, values)))


def tuple_of(nodes: Iterable[Node]) -> Tuple:
    """A tuple."""
    return Tuple(tuple(nodes))


def product_of(nodes: Iterable[Node]) -> Node:
    """The product; 1 of nothing."""
    found = list(nodes)
    return reduce(lambda a, b: Infix(a, "*", b), found) if found else integer(1)


def dtype_of(e: Expr) -> Name:
    """The dtype of the array of `e`, a number or the place of a choice."""
    return INT32 if isinstance(e.type, BoundedIndex) else DTYPE


def cast(node: Node, dtype: Node = DTYPE) -> Node:
    """An array of that dtype."""
    return apply("asarray", node, dtype)


def literal(value: Fraction) -> Value:
    """A number."""
    return Value(Number(value), (), 0, value, True)


def aligned(v: Value, axes: Axes) -> Value:
    """`v` brought to the order of `axes`, with an axis of length 1 for each that it lacks and that isn't leading."""
    v = ordered(v, axes)
    missing = [a not in v.axes for a in axes]
    if not v.axes or not any(missing[missing.index(False) :]):
        return v
    parts = [NEW if gone else ALL for gone in missing[missing.index(False) :]]
    while parts[-1] is ALL:
        parts.pop()
    return replace(v, node=Subscript(v.node, tuple(parts)), depth=v.depth + 1)


def ordered(v: Value, axes: Axes) -> Value:
    """`v` with its axes in the order of `axes`."""
    wanted = tuple(a for a in axes if a in v.axes)
    if wanted == v.axes:
        return v
    places = tuple(v.axes.index(a) for a in wanted)
    return Value(Transpose(v.node, places), wanted, v.depth + 1, None, v.weak)


def turned(v: Value, axes: Axes) -> Value:
    """`v`, if it is a whole array, with its axes in the order of `axes` by an operation of its own."""
    w = ordered(v, axes)
    if w is v or not isinstance(v.node, Name):
        return v
    return replace(w, node=apply("_turned", v.node, integers(v.axes.index(a) for a in w.axes)))


def union(values: list[Value], order: Axes) -> Axes:
    """The axes that occur, in their common order if all agree, else in that of `order`."""
    found = {a for v in values for a in v.axes}
    for v in values:
        if len(v.axes) == len(found):
            if all(ordered(w, v.axes) is w for w in values):
                return v.axes
            break
    return tuple(a for a in order if a in found)


def infix(a: Value, op: str, b: Value, order: Axes) -> Value:
    """a op b, elementwise."""
    axes = union([a, b], order)
    left, right = aligned(a, axes), aligned(b, axes)
    return Value(Infix(left.node, op, right.node), axes, 1 + max(left.depth, right.depth), None, a.weak and b.weak)


def plus(a: Value, b: Value, sign: int, order: Axes) -> Value:
    """a + b or a - b."""
    if a.number is not None and b.number is not None:
        return literal(a.number + sign * b.number)
    if b.number is not None and b.number < 0:
        return plus(a, literal(-b.number), -sign, order)
    if b.number == 0:
        return a
    if a.number == 0:
        return b if sign > 0 else negated(b)
    return infix(a, "+" if sign > 0 else "-", b, order)


def times(a: Value, b: Value, order: Axes, operator: str = "*") -> Value:
    """a * b, or a / b."""
    if operator == "*":
        if a.number is not None and b.number is not None:
            return literal(a.number * b.number)
        if b.number is not None:
            a, b = b, a
        if a.number == 1:
            return b
        if a.number == -1:
            return negated(b)
    return infix(a, operator, b, order)


def negated(v: Value) -> Value:
    """-v."""
    return replace(v, node=Negative(v.node), depth=v.depth + 1)


def where(mask: Value, v: Value, order: Axes, otherwise: Node | None = None) -> Value:
    """`v` where `mask` holds, else 0."""
    if mask.node == TRUE:
        return v
    if v.number == 0 and otherwise is None:
        return v
    axes = union([mask, v], order)
    other = otherwise or Number(Fraction(0))
    if v.number is not None:
        # two integers would give an array of integers
        v = replace(v, node=Number(v.number, True))
        other = Number(other.value, True) if isinstance(other, Number) else other
    m, w = aligned(mask, axes), aligned(v, axes)
    return Value(apply("where", m.node, w.node, other), axes, 1 + max(m.depth, w.depth), None, v.weak)


def instead(v: Value, other: Value, where: Value, order: Axes) -> Value | None:
    """`v`, which is 0 except `where` that holds, with `other` in place of these zeros; None unless it is a selection.

    The mask of `v` itself may be weaker: what it selects can have zeros, too.
    """
    match v.node:
        case ArrayOperation("where", (_, w, Number(Fraction(numerator=0)))) if v.axes == union(
            [v, other, where], order
        ):
            node = apply("where", aligned(where, v.axes).node, w, aligned(other, v.axes).node)
            return Value(node, v.axes, 1 + max(v.depth, other.depth), None, v.weak and other.weak)
    return None


def compared(op: str, a: Value, b: Value, order: Axes) -> Value:
    """a op b, as the integers 1 and 0."""
    if a.weak and b.weak:
        a = replace(a, node=cast(a.node))
    v = infix(a, "==" if op == "=" else op, b, order)
    return replace(v, node=cast(v.node, INT32), depth=v.depth + 1, weak=False)


def chosen(mask: Value, a: Value, b: Value, order: Axes) -> Value:
    """`a` where `mask` holds, else `b`."""
    axes = union([mask, a, b], order)
    if a.weak and b.weak:  # two integers would give an array of integers
        a, b = (replace(v, node=cast(v.node)) for v in (a, b))
    m, v, w = (aligned(part, axes) for part in (mask, a, b))
    return Value(apply("where", m.node, v.node, w.node), axes, 1 + max(m.depth, v.depth, w.depth))


def some(v: Value, gone: Axes) -> Value:
    """Whether some element of `v` along the axes `gone` is true."""
    places = tuple(k for k, i in enumerate(v.axes) if i in gone)
    return replace(v, node=Any(v.node, places), axes=tuple(i for i in v.axes if i not in gone), depth=v.depth + 1)


def applied(f: ScalarFunction, arguments: list[Value], order: Axes) -> Value:
    """f(arguments)."""
    axes = union(arguments, order)
    values = [aligned(v, axes) for v in arguments]
    if all(v.weak and not v.axes for v in values):
        # Python's own numbers would raise where arrays give inf or nan
        values = [replace(v, node=cast(v.node)) for v in values]
    depth = 1 + max(v.depth for v in values)
    weak = values[-1].weak if f.name in LINEAR_IN_LAST else all(v.weak and v.axes for v in values)
    return Value(Elementwise(f, tuple(v.node for v in values)), axes, depth, None, weak)
