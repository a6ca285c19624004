"""Array accesses: slices, strides, constant and looped positions where each dimension follows one axis, gathers else.

An access may lie outside of its array only where a bracket hides it. What is read there is zero: an access that
isn't plainly inside is made of the array extended with zeros.
"""

from __future__ import annotations

from dataclasses import dataclass

from tensorlang.errors import LimitError
from tensorlang.language.affine import Affine, Atom, Index
from tensorlang.lower.code import ATOM, Value
from tensorlang.lower.integers import ZERO
from tensorlang.lower.scope import Context, Held, Scope

LIMIT = 2**20
"""Coefficients beyond this could leave 32-bit index arithmetic."""


@dataclass(frozen=True)
class _Dimension:
    """One dimension of an access: the positions `at`, all of `low` .. `high`, of an array of the given size."""

    at: Affine
    axis: Index | None
    low: Affine
    high: Affine
    size: Affine
    inside: bool


def access(ctx: Context, scope: Scope, array: Held, at: tuple[Affine, ...]) -> Value:
    """The elements of `array` at `at`, an array with the axes that occur there."""
    if not at:
        return Value(array.name)
    places = [a.substitute(scope.env) for a in at]
    axes = [scope.axes(a) for a in places]
    several = [i for found in axes for i in found]
    if all(len(found) <= 1 for found in axes) and len(set(several)) == len(several):
        return _window(ctx, scope, array, places)
    return _gather(ctx, scope, array, places)


def _dimension(ctx: Context, scope: Scope, at: Affine, size: Affine) -> _Dimension:
    axes = scope.axes(at)
    low, high = scope.bounds(at)
    ranges = [scope.range_of(i) for i in at.atoms]
    facts = [r.extent - 1 for r in ranges if r is not None]  # where there is no point, nothing is read
    integers = ctx.integers
    inside = integers.is_nonnegative(low, facts) and integers.is_nonnegative(size - 1 - high, facts)
    return _Dimension(at, axes[0] if axes else None, low, high, size, inside)


def _window(ctx: Context, scope: Scope, array: Held, places: list[Affine]) -> Value:
    dimensions = [_dimension(ctx, scope, a, n) for a, n in zip(places, array.shape, strict=True)]
    name, dimensions = _extended(ctx, scope, array.name, dimensions)
    windows = [d for d in dimensions if d.axis is not None]
    result = tuple(d.axis for d in windows if d.axis is not None)
    if all(scope.is_static(d.at) for d in windows):
        code, rest = _slices(ctx, scope, name, dimensions)
    else:
        code, rest = _moving(ctx, scope, name, dimensions)
    while rest and rest[-1] == ":":
        rest.pop()
    return Value(f"{code}[{', '.join(rest)}]" if rest else code, result, ATOM)


def _slices(ctx: Context, scope: Scope, name: str, dimensions: list[_Dimension]) -> tuple[str, list[str]]:
    """Basic indexing, and how what it gives must be indexed once more to turn around axes that run backwards."""
    code = ctx.integers.code
    parts, turned = [], []
    for d in dimensions:
        if d.axis is None:
            parts.append(code(d.at))
            continue
        r, step = scope.domain[d.axis], d.at.coefficient(d.axis)
        start = d.at.substitute({d.axis: r.start if step > 0 else r.last})
        stop = start + r.extent * abs(step)
        text = f"{'' if start is ZERO else code(start)}:{'' if stop is d.size else code(stop)}"
        parts.append(text + (f":{abs(step)}" if abs(step) > 1 else ""))
        turned.append("::-1" if step < 0 else ":")
    while parts and parts[-1] == ":":
        parts.pop()
    return (f"{name}[{', '.join(parts)}]" if parts else name), turned


def _moving(ctx: Context, scope: Scope, name: str, dimensions: list[_Dimension]) -> tuple[str, list[str]]:
    """A dynamic slice, since a loop moves it, and how what it gives must be indexed: constant places and strides."""
    code = ctx.integers.code
    starts, counts, rest = [], [], []
    for d in dimensions:
        if d.axis is None:
            starts.append(code(d.at))
            counts.append("1")
            rest.append("0")
            continue
        r, step = scope.domain[d.axis], d.at.coefficient(d.axis)
        starts.append(code(d.at.substitute({d.axis: r.start if step > 0 else r.last})))
        count = (r.extent - 1) * abs(step) + 1
        counts.append(code(count) if ctx.integers.is_nonnegative(count) else f"max({code(count)}, 0)")
        rest.append(":" if step == 1 else f"::{step}")
    if len(starts) == 1:
        return f"lax.dynamic_slice_in_dim({name}, {starts[0]}, {counts[0]})", rest
    return f"lax.dynamic_slice({name}, ({', '.join(starts)}), ({', '.join(counts)}))", rest


def _extended(ctx: Context, scope: Scope, name: str, dimensions: list[_Dimension]) -> tuple[str, list[_Dimension]]:
    """The array over all positions that are read, zero where it has none; made once, outside of loops."""
    if all(d.inside for d in dimensions):
        return name, dimensions
    code = ctx.integers.code
    ranges, moved = [], []
    for d in dimensions:
        if d.inside:
            ranges.append(f"(0, {code(d.size)})")
            moved.append(d)
        else:
            ranges.append(f"({code(d.low)}, {code(d.high + 1)})")
            size = d.high + 1 - d.low
            moved.append(_Dimension(d.at - d.low, d.axis, ZERO, d.high - d.low, size, True))
    call = f"{ctx.helper('_over')}({name}, {', '.join(ranges)})"
    if scope.block is scope.fixed and all(d.axis is not None for d in dimensions):
        return call, moved
    key = ("extended", id(scope.fixed), call)
    if key not in ctx.reused:
        ctx.reused[key] = ctx.temporary(Value(call), scope.fixed, f"{name}_over").code
    return ctx.reused[key], moved


def _gather(ctx: Context, scope: Scope, array: Held, places: list[Affine]) -> Value:
    axes = tuple(i for i in scope.domain if any(a.coefficient(i) for a in places))
    inside = all(_dimension(ctx, scope, a, n).inside for a, n in zip(places, array.shape, strict=True))
    at = ", ".join(positions(ctx, scope, a, axes) for a in places)
    if inside:
        return Value(f"{array.name}[{at}]", axes, ATOM, 2)
    return Value(f"{ctx.helper('_read')}({array.name}, {at})", axes, ATOM, 2)


def positions(ctx: Context, scope: Scope, a: Affine, axes: tuple[Index, ...]) -> str:
    """`a` as an array that broadcasts over `axes`. Raises `LimitError` if it could overflow."""
    if any(abs(k) > LIMIT for _, k in a.terms) or abs(a.constant) > 2**31 - 1:
        raise LimitError(f"{a} has too large a coefficient to be computed in 32 bits")
    used = scope.axes(a)
    spelled: dict[Atom, str] = {}
    for i in used:
        name = ctx.points(i, scope)
        after = len(axes) - 1 - axes.index(i)
        spelled[i] = f"{name}[{', '.join([':', *['None'] * after])}]" if after else name
    return ctx.integers.code(a, spelled)
