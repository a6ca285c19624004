"""Aligning values of one shape whose axes have different sub-axes; reshaping."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorlang.jaxprs.builder import Builder
from tensorlang.jaxprs.refusal import Unsupported
from tensorlang.jaxprs.sizes import is_one, product
from tensorlang.jaxprs.terms import when
from tensorlang.jaxprs.values import Axes, Bool, Place, RealNumbers, Value, extents, viewed
from tensorlang.language.affine import Affine, atom_affine, constant
from tensorlang.language.grammar import Expr, gen, sums
from tensorlang.language.predicates import conjunction, equal, exists

ZERO = constant(0)


def linear(part: Sequence[Affine], sizes: Sequence[Affine]) -> Affine:
    """The index of an axis at these indices of its sub-axes. Raises `Unsupported` if it is not affine."""
    found = part[0] if part else ZERO
    for a, n in zip(part[1:], sizes[1:], strict=True):
        if n.is_constant:
            found = found * n.constant + a
        elif found.is_constant and found.constant == 0:
            found = a
        else:
            raise Unsupported(f"the index ({found})*({n}) + {a}, which is not affine")
    return found


def is_flat(x: Value) -> bool:
    """Whether every axis of `x` is one sub-axis."""
    return all(len(axis) == 1 for axis in x.axes)


def flat(b: Builder, x: Any) -> Any:
    """`x` with one sub-axis for each axis."""
    if is_flat(x):
        return x
    long = [[size for size in axis if not is_one(size)] for axis in x.axes]
    axes = tuple((product(axis),) for axis in x.axes)
    if all(len(sizes) <= 1 for sizes in long):

        def place(ix: Place) -> Place:
            return tuple(tuple(ZERO if is_one(n) else a for n in axis) for axis, (a,) in zip(x.axes, ix, strict=True))

        return viewed(x, axes, place)

    def split(ix: Place) -> tuple[list[Any], list[Any], Place]:
        """New indices for the sub-axes, the conditions that equate them with ix, and their place."""
        binders: list[Any] = []
        conditions: list[Any] = []
        found: list[tuple[Affine, ...]] = []
        for axis, (a,) in zip(x.axes, ix, strict=True):
            if len(axis) == 1:
                found.append((a,))
                continue
            new = [(b.index(n, "abcdef"[k % 6]), n) for k, n in enumerate(axis)]
            here = tuple(atom_affine(i) for i, _ in new)
            binders += new
            conditions.append(equal(a, linear(here, axis)))
            found.append(here)
        return binders, conditions, tuple(found)

    if isinstance(x, RealNumbers):

        def at(ix: Place) -> Expr:
            binders, conditions, found = split(ix)
            return sums(binders, when(conjunction(conditions), x.at(found)))

        return RealNumbers(axes=axes, at=at, constant=x.constant, infinite=x.infinite, positive=x.positive)
    if isinstance(x, Bool) and x.holds is not None:
        holds = x.holds

        def anywhere(ix: Place) -> Any:
            binders, conditions, found = split(ix)
            return exists(binders, conjunction([*conditions, holds(found)]))

        return b.condition(axes, anywhere)
    raise Unsupported("merged axes of indices or conditions")


def whole(b: Builder, x: Any) -> Expr:
    """The array `x` as one expression, its name if it has one. Raises `Unsupported` if it does not hold numbers."""
    if not isinstance(x, RealNumbers):
        raise Unsupported("a result that is no number")
    if x.infinite or x.support is not None:
        raise Unsupported("a result that is infinite")
    if x.variable is not None and is_flat(x):
        return x.variable
    x = flat(b, x)
    place, binders = b.indices(x.axes)
    return gen(binders, x.at(place))


def refactored(b: Builder, x: Any, axes: Axes) -> Any:
    """`x` with the sub-axes `axes`; those of an axis must be its own, unless it can be made flat first."""
    if x.axes == axes:
        return x
    if any(mine != wanted and len(mine) != 1 for mine, wanted in zip(x.axes, axes, strict=True)):
        x = flat(b, x)
    mine = x.axes

    def place(ix: Place) -> Place:
        return tuple(part if m == w else (linear(part, w),) for part, m, w in zip(ix, mine, axes, strict=True))

    return viewed(x, axes, place)


def common(xs: Sequence[Value]) -> Axes:
    """Axes with the sub-axes on which values of one shape agree."""
    found = list(max(xs, key=lambda x: len(extents(x.axes))).axes)
    for x in xs:
        for d, axis in enumerate(x.axes):
            if len(axis) > 1 and axis != found[d]:
                found[d] = axis if len(found[d]) == 1 else (product(axis),)
    return tuple(found)


def together(b: Builder, xs: Sequence[Any]) -> tuple[list[Any], Axes]:
    """The operands of an elementwise operation with common axes; scalars and axes of size 1 fit any."""
    arrays = [x for x in xs if x.axes]
    if not arrays:
        return list(xs), ()

    def one(axis: tuple[Affine, ...]) -> bool:
        return all(map(is_one, axis))

    rank = len(arrays[0].axes)
    wide = tuple(next((x.axes[d] for x in arrays if not one(x.axes[d])), arrays[0].axes[d]) for d in range(rank))

    def widened(x: Any) -> Any:
        spread = [one(axis) and not one(w) for axis, w in zip(x.axes, wide, strict=True)]
        if not any(spread):
            return x
        axes = tuple(w if s else axis for axis, w, s in zip(x.axes, wide, spread, strict=True))

        def place(ix: Place) -> Place:
            return tuple(
                tuple(ZERO for _ in axis) if s else part for axis, part, s in zip(x.axes, ix, spread, strict=True)
            )

        return viewed(x, axes, place)

    grown = [widened(x) if x.axes else x for x in xs]
    axes = common([x for x in grown if x.axes])
    return [refactored(b, x, axes) if x.axes else viewed(x, axes, lambda ix: ()) for x in grown], axes


def regrouped(b: Builder, x: Any, shape: Sequence[Any], targets: Sequence[Affine | None]) -> Any:
    """`x` reshaped to the sizes `targets`, in which None stands for a product of several sizes given in `shape`.

    Sub-axes are regrouped, and split where constant factors allow it. Otherwise elements are found by their numbers.
    """
    queue = [(size, k) for k, size in enumerate(extents(x.axes)) if not is_one(size)]
    parts: dict[int, list[Affine]] = {k: [] for _, k in queue}
    groups: list[list[tuple[Affine, int]]] = []
    for target, dim in zip(targets, shape, strict=True):
        group = _symbolic_group(queue, dim) if target is None else _group(queue, target)
        if group is None:
            return _by_number(b, x, targets)
        for size, k in group:
            parts[k].append(size)
        groups.append(group)
    axes = tuple(tuple(size for size, _ in group) or (constant(1),) for group in groups)

    def place(ix: Place) -> Place:
        given: dict[int, list[Affine]] = {k: [] for k in parts}
        for group, part in zip(groups, ix, strict=True):
            for (_, k), a in zip(group, part, strict=False):
                given[k].append(a)
        found, k = [], 0
        for axis in x.axes:
            here = []
            for _ in axis:
                here.append(linear(given[k], parts[k]) if k in given else ZERO)
                k += 1
            found.append(tuple(here))
        return tuple(found)

    return viewed(x, axes, place)


def _group(queue: list[tuple[Affine, int]], target: Affine) -> list[tuple[Affine, int]] | None:
    """Take the first items off `queue` until their product is `target`, splitting the last if needed; None if it
    fails."""
    group: list[tuple[Affine, int]] = []
    rest = target
    while not is_one(rest):
        if not queue:
            return None
        size, k = queue[0]
        if (left := _quotient(rest, size)) is not None:
            queue.pop(0)
            group.append((size, k))
            rest = left
        elif (left := _quotient(size, rest)) is not None:
            group.append((rest, k))
            queue[0] = (left, k)
            rest = constant(1)
        else:
            return None
    return group


def _quotient(a: Affine, b: Affine) -> Affine | None:
    """a / b, if that is affine."""
    if a == b:
        return constant(1)
    if b.is_constant and b.constant:
        divisible = all(k % b.constant == 0 for _, k in a.terms) and a.constant % b.constant == 0
        return (
            Affine(tuple((atom, k // b.constant) for atom, k in a.terms), a.constant // b.constant)
            if divisible
            else None
        )
    if a.terms and b.terms and a.terms[0][1] % b.terms[0][1] == 0:
        factor = a.terms[0][1] // b.terms[0][1]
        return constant(factor) if factor > 1 and b * factor == a else None
    return None


def _symbolic_group(queue: list[tuple[Affine, int]], dim: Any) -> list[tuple[Affine, int]] | None:
    """The same as `_group` for a product of several sizes, by JAX's own arithmetic."""
    variables = _variables(dim)
    group: list[tuple[Affine, int]] = []
    found: Any = 1
    while not (found is dim or bool(found == dim)):
        if not queue or len(group) > 8:
            return None
        size, k = queue.pop(0)
        if any(s.name not in variables for s in size.sizes):
            return None
        found = found * (size.constant + sum(c * variables[a.name] for a, c in size.terms))
        group.append((size, k))
    return group


def _variables(dim: Any) -> dict[str, Any]:
    """The symbolic dimensions of JAX in `dim`, by name."""
    from jax._src.export import shape_poly

    names = dim._get_vars() if hasattr(dim, "_get_vars") else ()
    return {name: shape_poly._DimExpr._from_var(name, dim.scope) for name in names}


def _by_number(b: Builder, x: Any, targets: Sequence[Affine | None]) -> Any:
    """`x` reshaped by finding each element by its number in row-major order."""
    sizes = [t for t in targets if t is not None]
    if len(sizes) < len(targets):
        raise Unsupported("a reshape to an axis whose size is a product of several")
    if not isinstance(x, RealNumbers):
        raise Unsupported("this reshape of indices or conditions")
    own = extents(x.axes)

    def at(ix: Place) -> Expr:
        place, binders = b.indices(x.axes, "abcdef")
        here = [a for part in place for a in part]
        return sums(binders, when(equal(linear([a for (a,) in ix], sizes), linear(here, own)), x.at(place)))

    return RealNumbers(axes=tuple((t,) for t in sizes), at=at)
