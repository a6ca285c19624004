"""The expressions of a kernel as code for one tile: arrays over the axes on which they depend, products of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce

from tensorlang.language.affine import Index, atom_affine
from tensorlang.language.grammar import Bracket, Call, Const, Expr, Extremum, Sum
from tensorlang.language.predicates import TRUE, Predicate, conjuncts, less
from tensorlang.lowering.arrays.fold import combined, used_twice
from tensorlang.lowering.arrays.ir import Infix, Name, Negative, Node, Number
from tensorlang.lowering.arrays.values import (
    Axes,
    Value,
    aligned,
    apply,
    infix,
    integer,
    literal,
    ordered,
    times,
    where,
)
from tensorlang.lowering.emit.gpu.naming import GpuNaming
from tensorlang.lowering.emit.gpu.reads import GpuScope, Reads
from tensorlang.lowering.emit.nodes import Attribute, Conditional, For, PythonCall
from tensorlang.lowering.emit.python import text
from tensorlang.lowering.kernels.ir import Kernel, Role
from tensorlang.lowering.kernels.masks import CHOICES, said
from tensorlang.lowering.kernels.operands import expressions_of
from tensorlang.lowering.kernels.terms import multiplied, product, reduction, vanishes
from tensorlang.lowering.plan.dependence import places, variable
from tensorlang.recursion import Deep, call, run

_LONGEST = 60
IDENTITY: dict[int, Node] = {0: Number(Fraction(0)), 1: Negative(Name("jnp.inf")), -1: Name("jnp.inf")}
"""The initial values of a sum, a greatest and a least value."""


@dataclass
class Reduced:
    """A sum to be computed in a tile, or an extremum: of a product, where `pred` holds.

    `condition` is the name of the flag that says whether `pred` has to be tested.
    """

    sign: int
    indices: tuple[Index, ...]
    pred: Predicate
    factors: tuple[Expr, ...]
    condition: str = ""
    masks: tuple[Expr, ...] = ()


@dataclass(frozen=True)
class ProductPart:
    """A factor of a product, or a condition on it."""

    value: Value
    is_mask: bool = False
    condition: str = ""
    is_read: bool = False
    of_values: bool = False


class GpuValues(Reads):
    """Writes the values of one kernel; `multiplies` says whether products of matrices are among them."""

    def __init__(self, kernel: Kernel, naming: GpuNaming) -> None:
        super().__init__(kernel, naming)
        self._shared = used_twice(*expressions_of(kernel))
        self.multiplies = False

    def value(self, e: Expr, scope: GpuScope) -> Deep[Value]:
        """The value of `e`, over those axes of the tile on which it depends."""
        known = self.remembered(e, scope)
        if known is not None:
            return known
        home = self.home(self._of(e), scope)
        v: Value = yield from call(self._value(e, home))
        is_long = home is not scope or e in self._shared or len(text(v.node)) > _LONGEST
        if is_long and not isinstance(v.node, Name) and not isinstance(e, Const):
            v = self._named(v, home)
        home.memo[e] = v
        return v

    def _value(self, e: Expr, scope: GpuScope) -> Deep[Value]:
        x = variable(e)
        if x is not None:
            return self.load(x, places(e), scope)
        p = said(e)
        if p is not None:
            return self.mask(p, scope)
        if isinstance(e, Call) and e.function in CHOICES:
            m: Value = yield from call(self.value(e.arguments[0], scope))
            v = yield from call(self.value(e.arguments[1], scope))
            sign = CHOICES[e.function]
            return self._where(m, v, IDENTITY[sign] if sign else None)
        match e:
            case Bracket(p, a):
                v = yield from call(self.value(a, scope))
                return self._where(self.mask(p, scope), v)
            case Sum() | Extremum():
                r = reduction(e)
                v = yield from call(self.reduced(Reduced(r.sign, r.indices, r.pred, r.factors, masks=r.masks), scope))
                return v
        return (yield from call(combined(e, lambda part: self.value(part, scope), self._order, self._shared)))

    def _named(self, v: Value, scope: GpuScope) -> Value:
        """`v` by a name, the same one for the same code."""
        key = ("code", v.node)
        known = self.remembered(key, scope)
        if known is None:
            name = self._names.fresh_local("t")
            known = scope.memo[key] = Value(Name(name), v.axes)
            scope.block.assign(name, v.node)
        return known

    def recorded(self, v: Value) -> Value:
        """`v`, a tile. Raises `Unfit` if there can't be one over its axes."""
        return v

    # Reductions

    def reduced(self, r: Reduced, scope: GpuScope) -> Deep[Value]:
        """The sum or extremum: over vectors at once, over unrolled axes one after the other."""
        loops = [i for i in r.indices if self._axes[i].role is Role.UNROLLED]
        if not loops:
            v = yield from call(self._in_vectors(r, scope))
            return v
        inner = scope
        total = self._names.fresh_local("total")
        scope.block.assign(total, IDENTITY[r.sign])
        for i in loops:
            outer, inner = inner, inner.inner([i])
            count = self.place(self._axes[i].extent, outer).node
            outer.block.statements.append(For(self._naming.places[i], count, inner.block))
        rest = tuple(i for i in r.indices if i not in loops)
        v = yield from call(self._in_vectors(replace(r, indices=rest), inner))
        if r.sign:
            inner.block.assign(total, apply("maximum" if r.sign > 0 else "minimum", Name(total), v.node))
        else:
            inner.block.assign(total, Infix(Name(total), "+", v.node))
        return Value(Name(total), v.axes)

    def _in_vectors(self, r: Reduced, scope: GpuScope) -> Deep[Value]:
        pred, masks, factors = product(multiplied(r.factors, r.masks)) if not r.sign else (TRUE, [], list(r.factors))
        parts: list[ProductPart] = []
        for m in masks:
            parts.append(ProductPart((yield from call(self.value(m, scope))), True, of_values=True))
        for factor in factors:
            part = yield from call(self._factor(factor, scope))
            parts.append(part)
        vectors = [i for i in r.indices if not self._axes[i].is_number]
        parts += [ProductPart(self.mask(p, scope), True, r.condition) for p in conjuncts(r.pred) if p is not TRUE]
        parts += [ProductPart(self.mask(p, scope), True) for p in conjuncts(pred) if p is not TRUE]
        whole = [i for i in vectors if self._axes[i].role is Role.WHOLE and (r.sign or not vanishes(factors, i))]
        said = conjuncts(r.pred)
        whole = [i for i in whole if less(atom_affine(i), self._axes[i].extent) not in said]
        parts += [ProductPart(mask, True) for mask in self.ends(whole, scope)]
        if not r.sign:
            dotted = self._dot(vectors, parts, scope)
            if dotted is not None:
                vectors, parts = dotted
        v = self._multiplied(parts, scope, IDENTITY[r.sign] if r.sign else None)
        summed = [k for k, i in enumerate(v.axes) if self._origin(i) in vectors]
        method = {0: "sum", 1: "max", -1: "min"}[r.sign]
        for k in reversed(summed):
            along = PythonCall(Attribute(v.node, method), (integer(k),))
            v = Value(along, v.axes[:k] + v.axes[k + 1 :], v.depth + 1)
        return v

    def _factor(self, e: Expr, scope: GpuScope) -> Deep[ProductPart]:
        v = yield from call(self.value(e, scope))
        return ProductPart(v, is_read=variable(e) is not None)

    def _multiplied(self, parts: Sequence[ProductPart], scope: GpuScope, otherwise: Node | None = None) -> Value:
        """The product of factors where all masks hold, else `otherwise`, or 0."""
        v = reduce(
            lambda a, b: times(a, b, self._order), [p.value for p in parts if not p.is_mask], literal(Fraction(1))
        )
        for condition in dict.fromkeys(p.condition for p in parts if p.is_mask):
            masks = self.joined([p.value for p in parts if p.is_mask and p.condition == condition])
            if condition:
                v = ordered(v, self._order)
                v = v if isinstance(v.node, Name) else self._named(v, scope)
            chosen = self._where(masks, v, otherwise)
            if condition and chosen.axes == v.axes:
                either = Conditional(Name(condition), chosen.node, v.node)
                chosen = self._named(replace(chosen, node=either), scope)
            v = chosen
        return v

    def _where(self, mask: Value, v: Value, otherwise: Node | None = None) -> Value:
        """`v` where the mask holds, else `otherwise`, or 0."""
        return where(mask, v, self._order, otherwise)

    def _origin(self, i: Index) -> Index:
        """The axis of the kernel to which an axis of values belongs, where one may have several."""
        return i

    def tested(self, mask: Expr, scope: GpuScope) -> Value:
        """A mask that is only tested for whether it holds somewhere in a tile."""
        return run(self.value(mask, scope))

    def _dot(
        self, vectors: Sequence[Index], parts: Sequence[ProductPart], scope: GpuScope
    ) -> tuple[list[Index], list[ProductPart]] | None:
        """If the parts are a product of two matrices along one of `vectors`: the others, and parts with the product."""
        for i in vectors:
            along = [p for p in parts if i in map(self._origin, p.value.axes)]
            others = (j for j in self._order for p in along if j in p.value.axes and self._origin(j) is not i)
            sides = tuple(dict.fromkeys(others))
            if len(sides) != 2 or any(len(p.value.axes) > 2 for p in along):
                continue
            left = [p for p in along if sides[0] in p.value.axes]
            right = [p for p in along if sides[1] in p.value.axes]
            alone = [p for p in along if len(p.value.axes) == 1]
            read_only = len(left) == 1 and left[0].is_read
            (right if read_only else left).extend(alone)
            self.multiplies = True
            dot = self._named(Value(self._product(left, right, i, sides, scope), sides), scope)
            rest = [p for p in parts if p not in along]
            if any(not p.is_mask and p.value.number is None for p in rest):
                rest += self._taken(left, right, i, sides, scope)
            return [j for j in vectors if j is not i], [ProductPart(dot), *rest]
        return None

    def _taken(
        self, left: Sequence[ProductPart], right: Sequence[ProductPart], i: Index, sides: Axes, scope: GpuScope
    ) -> list[ProductPart]:
        """A mask of where something is added up: elsewhere the product is 0, whatever it is multiplied by."""
        found: list[Value] = []
        for parts, axes in ((left, (sides[0], i)), (right, (i, sides[1]))):
            masks = [p.value for p in parts if p.of_values]
            if masks:
                v = ordered(self._where(self.joined(masks, True, axes), literal(Fraction(1))), axes)
                spread = apply("broadcast_to", aligned(v, axes).node, self._naming.extents(axes))
                found.append(Value(spread, axes))
        if not found:
            return []
        first, *others = found
        rest = tuple(j for j in first.axes if j is not i)
        counted = Value(PythonCall(Attribute(first.node, "max"), (integer(first.axes.index(i)),)), rest)
        if others:
            counted = Value(apply("_product", *(v.node for v in found), Name("dtype"), Name("interpret")), sides)
        return [ProductPart(infix(counted, ">", literal(Fraction(0)), self._order), True)]

    def _product(
        self, left: Sequence[ProductPart], right: Sequence[ProductPart], i: Index, sides: Axes, scope: GpuScope
    ) -> Node:
        """The product along `i` of the matrices that are the products of these parts."""
        options = Name("dtype"), Name("interpret")
        if not any(p.of_values for p in (*left, *right)):
            a = ordered(self._multiplied(left, scope), (sides[0], i))
            b = ordered(self._multiplied(right, scope), (i, sides[1]))
            return apply("_product", a.node, b.node, *options)
        kept = [self._kept(left, (sides[0], i), scope), self._kept(right, (i, sides[1]), scope)]
        return apply("_product_where", *(m for m, _ in kept), *(inside for _, inside in kept), *options)

    def _kept(self, parts: Sequence[ProductPart], axes: Axes, scope: GpuScope) -> tuple[Node, Node]:
        """A matrix over `axes`, the product of the factors among these parts; and where it counts."""
        v = ordered(self._multiplied([p for p in parts if not p.is_mask], scope), axes)
        node = v.node if v.axes == axes else apply("broadcast_to", aligned(v, axes).node, self._naming.extents(axes))
        inside = [(aligned(p.value, axes).node, p.condition) for p in parts if p.is_mask]
        return node, apply("_every", *(Conditional(Name(c), m, Name("None")) if c else m for m, c in inside))
