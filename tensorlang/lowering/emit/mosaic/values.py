"""The expressions of a kernel as code for one tile in registers, and products of matrices in shared memory.

A value has at most two axes. The threads hold it as the matrix units do (`WGMMA`), by rows; a value with one axis lies
as a sum of such a tile along the other one does. So each axis is either one of rows or one of lanes in all values of a
kernel, which is decided by `pairs`, the axes that occur together. Matrices that are multiplied may be read in any
order, since they are never in registers unless something is computed from them before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tensorlang.language.affine import Affine, Index, atom_affine
from tensorlang.language.grammar import Bracket, Call, Expr
from tensorlang.language.predicates import TRUE, Predicate, Relation, conjunction, conjuncts, substitute
from tensorlang.lowering.arrays.ir import Infix, Name, Node
from tensorlang.lowering.arrays.values import Axes, Value, apply, integer, tuple_of
from tensorlang.lowering.emit.gpu.naming import GpuNaming
from tensorlang.lowering.emit.gpu.reads import GpuScope, Known
from tensorlang.lowering.emit.gpu.values import GpuValues, ProductPart, Reduced
from tensorlang.lowering.emit.mosaic.tiles import InputTiles
from tensorlang.lowering.kernels.functions import beyond_mosaic
from tensorlang.lowering.kernels.ir import Kernel
from tensorlang.lowering.kernels.layouts import Units
from tensorlang.lowering.kernels.masks import FUNCTIONS
from tensorlang.lowering.kernels.operands import Array
from tensorlang.lowering.kernels.roles import Unfit
from tensorlang.lowering.kernels.terms import free, multiplied, over, product, renamed
from tensorlang.lowering.plan.dependence import places, variable
from tensorlang.recursion import Deep, call, run

_KNOWN = frozenset(
    {"abs", "cos", "cosh", "erf", "exp", "expm1", "log", "log1p", "log2", "logaddexp", "max", "min", "recip", "relu"}
    | {"rsqrt", "sigmoid", "sign", "sin", "sinh", "softplus", "sqrt", "tan", "tanh", "where_ge", "where_gt"}
)
"""The functions that Mosaic GPU has, beside powers of whole exponents."""


@dataclass(frozen=True)
class _Read(ProductPart):
    """A matrix that is read, and nothing more."""

    read: Expr | None = None


@dataclass(frozen=True)
class Factor:
    """A matrix that is multiplied: its axes as they are stored and as they are wanted, and its tile if it is read."""

    axes: Axes
    wanted: Axes
    tile: str = ""

    @property
    def is_turned(self) -> bool:
        """Whether it is stored as its transpose."""
        return self.axes != self.wanted


class MosaicValues(GpuValues):
    """Writes the values of one kernel; the axes `rows` are those of rows, the others those of lanes. Matrices are
    multiplied by `units`.

    Where both factors of a product are computed, the axis along which they are multiplied would have to be one of lanes
    in one factor and of rows in the other. So it may become two: a value that has an axis k of `twins` and also the
    axis twins[k] gets, in place of k, another axis of the same tiles. In shared memory they are one again.

    Raises `Unfit` for what Mosaic GPU can't express.
    """

    def __init__(
        self,
        kernel: Kernel,
        naming: GpuNaming,
        rows: frozenset[Index] | None,
        units: Units,
        twins: Mapping[Index, Index],
    ) -> None:
        super().__init__(kernel, naming)
        self._units, self._beside = units, twins
        self._twins = {i: naming.twins[i] for i in twins}
        self._origins = {twin: i for i, twin in self._twins.items()}
        self._axes |= {twin: replace(self._axes[i], index=twin) for i, twin in self._twins.items()}
        self._order += tuple(self._origins)
        self.tiles = InputTiles(kernel, naming, self._axes)
        self.computed: dict[Index, Index] = {}
        """The axes along which both factors of a product are computed, each with another axis of one factor."""
        self.pairs: set[frozenset[Index]] = set()
        self.products: list[tuple[Factor, Factor]] = []
        """The matrices that are multiplied."""
        self.fetched: list[Axes] = []
        self.begins: dict[Index, Node] = {}
        """Where the tiles of axes begin, unless at 0."""
        self._rows = rows
        if rows is not None:
            self._order = tuple(sorted(self._order, key=lambda i: i not in rows))

    @property
    def order(self) -> Axes:
        """The axes, those of rows first."""
        return self._order

    def gone(self, axes: Axes) -> tuple[Node, ...]:
        """For a vector which axis of a tile it lacks."""
        if len(axes) != 1:
            return ()
        return (integer(1 if self._rows is None or axes[0] in self._rows else 0),)

    # Reading

    def _at(self, i: Index) -> Value:
        """The places of an axis, written where they are used: Mosaic GPU finds no layout for vectors that nothing uses,
        and where there are no masks nothing uses what only these read."""
        if self._axes[i].is_number:
            return super()._at(i)
        length = Name(self._naming.lengths[i])
        return Value(apply("_places", self.begins.get(self._origin(i), integer(0)), length, *self.gone((i,))), (i,))

    def load(self, array: Array, at: Sequence[Affine], scope: GpuScope) -> Value:
        """The elements of an array, which is filled up with zeros."""
        at = tuple(at)
        key = ("load", array, at)
        known = self.remembered(key, scope)
        if known is not None:
            return known
        home = self.home(frozenset().union(*(self._of_affine(a) for a in at)), scope)
        axes = tuple(sorted(self.tiles.axes(at), key=self._order.index))
        if not axes:
            node: Node = apply("_number", self.tiles.part(array, at, ()))
        elif self.tiles.is_in_loop(at):
            self.fetched.append(axes)
            node = apply(
                "_fetched", self.tiles.part(array, at, axes), integer(self.tiles.swizzle(at, axes)), *self.gone(axes)
            )
        else:
            node = apply("_in_registers", Name(self.tiles.tile(array, at, axes).name), *self.gone(axes))
        if isinstance(array, Relation):
            node = Infix(node, ">", integer(0))
        name = self._names.fresh_local(self._naming.arrays[array])
        home.block.assign(name, node)
        v = home.memo[key] = self.recorded(Value(Name(name), axes))
        return v

    def mask(self, p: Predicate, scope: GpuScope) -> Value:
        """Where `p` holds."""
        return self.recorded(super().mask(p, scope))

    def value(self, e: Expr, scope: GpuScope) -> Deep[Value]:
        """The value of `e`, over those axes of the tile on which it depends."""
        if isinstance(e, Call):
            f = e.function
            whole = f.exponent is not None and f.exponent.denominator == 1
            lacks = beyond_mosaic(f) if f.shared is not None else None
            if lacks is not None:
                raise Unfit(f"Mosaic GPU has no {lacks}, which {f.name} takes")
            if f.shared is None and f.name not in _KNOWN and f not in FUNCTIONS and not whole:
                raise Unfit(f"Mosaic GPU has no {f.name}")
        v = yield from call(super().value(e, scope))
        return self.recorded(v)

    def recorded(self, v: Value) -> Value:
        """`v`, with a note that its axes occur together."""
        if len(v.axes) > 2:
            raise Unfit(f"it computes a tile over {', '.join(i.name for i in v.axes)}, more than two axes")
        if len(v.axes) == 2:
            self.pairs.add(frozenset(v.axes))
        return v

    # Sums and products

    def _origin(self, i: Index) -> Index:
        return self._origins.get(i, i)

    def _of_affine(self, a: Affine) -> frozenset[Known]:
        return self._scoped & {self._origin(i) for i in a.free if isinstance(i, Index)}

    def _of_predicate(self, p: Predicate) -> frozenset[Known]:
        return self._scoped & {self._origin(i) for i in over(p)}

    def _apart(self, e: Expr) -> Expr:
        """`e` with an axis replaced by its twin where `e` also has the axis that it is paired with."""
        return renamed(e, self._twins_beside(free(e)))

    def _twins_beside(self, found: frozenset[Index]) -> dict[Index, Index]:
        return {i: twin for i, twin in self._twins.items() if {i, self._beside[i]} <= found}

    def _apart_all(self, p: Predicate) -> Predicate:
        """The same for the conjuncts of a predicate."""
        twins = {q: self._twins_beside(over(q)) for q in conjuncts(p)}
        return conjunction(substitute(q, {i: atom_affine(t) for i, t in twins[q].items()}) for q in twins)

    def tested(self, mask: Expr, scope: GpuScope) -> Value:
        """A mask that is only tested for whether it holds somewhere in a tile."""
        return super().tested(self._apart(mask), scope)

    def _in_vectors(self, r: Reduced, scope: GpuScope) -> Deep[Value]:
        if self._twins and not r.sign:
            pred, masks, factors = product(multiplied(r.factors, r.masks))
            bracketed = Bracket(pred, factors[0]) if pred is not TRUE else factors[0]
            parts = [self._apart(e) for e in (bracketed, *factors[1:])]
            r = replace(r, pred=self._apart_all(r.pred), factors=tuple(parts), masks=tuple(map(self._apart, masks)))
        v = yield from call(super()._in_vectors(r, scope))
        if not v.axes and any(not self._axes[i].is_number for i in r.indices):
            raise Unfit("it sums a tile to a single number")
        return self.recorded(v)

    def _factor(self, e: Expr, scope: GpuScope) -> Deep[ProductPart]:
        x = variable(e)
        if x is not None and x in self._naming.arrays:
            axes, at = self.tiles.axes(places(e)), places(e)
            if len(axes) == 2 and not self.tiles.is_in_loop(at):
                return _Read(Value(Name("unread"), axes), is_read=True, read=e)
        part = yield from call(super()._factor(e, scope))
        return part

    def _multiplied(self, parts: Sequence[ProductPart], scope: GpuScope, otherwise: Node | None = None) -> Value:
        parts = [
            replace(p, value=run(self.value(p.read, scope))) if isinstance(p, _Read) and p.read is not None else p
            for p in parts
        ]
        axes = {i for p in parts for i in p.value.axes}
        if len(axes) > 2:
            names = ", ".join(i.name for i in self._order if i in axes)
            raise Unfit(f"it computes a tile over {names}, more than two axes")
        return self.recorded(super()._multiplied(parts, scope, otherwise))

    def _where(self, mask: Value, v: Value, otherwise: Node | None = None) -> Value:
        if v.axes and not mask.axes:  # a choice by one number is not spread over a tile by itself
            node = apply("_all_or_none", mask.node, self._naming.extents(v.axes), *self.gone(v.axes))
            mask = replace(mask, node=node, axes=v.axes)
        return super()._where(mask, v, otherwise)

    def _product(
        self, left: Sequence[ProductPart], right: Sequence[ProductPart], i: Index, sides: Axes, scope: GpuScope
    ) -> Node:
        chosen = any(p.of_values for p in (*left, *right))
        arguments: list[Node] = []
        masks: list[Node] = []
        factors: list[Factor] = []
        both = ((left, (sides[0], self._along(left, i))), (right, (self._along(right, i), sides[1])))
        for (parts, wanted), swizzle in zip(both, self._units.swizzles, strict=True):
            if any(p.is_mask for p in parts) and chosen:
                axes = tuple(sorted(wanted, key=self._order.index))
                node, mask = self._kept(parts, axes, scope)
                factor = Factor(axes, wanted)
                self.pairs.add(frozenset(axes))
            else:
                (node, factor), mask = self._matrix(parts, wanted, swizzle, scope), Name("None")
            masks.append(mask)
            factors.append(factor)
            arguments += [node, Name(str(factor.is_turned))]
        self.products.append((factors[0], factors[1]))
        if not any(f.tile for f in factors):
            self.computed[i] = sides[1]
        self.pairs.add(frozenset(sides))
        by = Name(f"_by_{self._units.value}"), tuple_of(map(integer, self._units.swizzles))
        if chosen:
            return apply("_matrix_product_where", *arguments, *masks, Name("dtype"), *by)
        return apply("_matrix_product", *arguments, Name("dtype"), *by)

    def _along(self, parts: Sequence[ProductPart], i: Index) -> Index:
        """The axis `i` as a factor has it."""
        return next(j for p in parts for j in p.value.axes if self._origin(j) is i)

    def _taken(
        self, left: Sequence[ProductPart], right: Sequence[ProductPart], i: Index, sides: Axes, scope: GpuScope
    ) -> list[ProductPart]:
        if all(any(p.of_values for p in parts) for parts in (left, right)):
            raise Unfit("values choose terms from both factors of a product that is multiplied by more")
        along = self._along(left if any(p.of_values for p in left) else right, i)
        return super()._taken(left, right, along, sides, scope)

    def _matrix(self, parts: Sequence[ProductPart], wanted: Axes, swizzle: int, scope: GpuScope) -> tuple[Node, Factor]:
        """A matrix that is multiplied: where it lies in shared memory, or if it is computed, in registers."""
        read = parts[0].read if len(parts) == 1 and isinstance(parts[0], _Read) else None
        x = variable(read) if read is not None else None
        if read is not None and x is not None:
            at, axes = tuple(places(read)), parts[0].value.axes
            if not self.tiles.is_aligned(at):
                return apply("_in_registers", Name(self.tiles.tile(x, at, axes).name)), Factor(axes, wanted)
            tile = self.tiles.tile(x, at, axes, swizzle)
            return Name(tile.name), Factor(axes, wanted, tile.name)
        v = self._multiplied(parts, scope)
        if len(v.axes) < 2:
            raise Unfit("it multiplies by a matrix that is the same along one axis")
        return v.node, Factor(v.axes, wanted)
