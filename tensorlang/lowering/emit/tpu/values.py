"""The expressions of a kernel as code over tiles in the registers of a TPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce

from tensorlang.errors import NormalFormError
from tensorlang.language.affine import Affine, Atom, Index, Lookup, atom_affine
from tensorlang.language.grammar import Access, Bracket, Expr, Extremum, Sum, Var
from tensorlang.language.predicates import (
    TRUE,
    Equal,
    NonNegative,
    Or,
    Predicate,
    Related,
    conjunction,
    conjuncts,
)
from tensorlang.lowering.arrays.fold import combined
from tensorlang.lowering.arrays.ir import ALL, Block, Infix, Name, Node, Number, Subscript
from tensorlang.lowering.arrays.values import (
    Axes,
    Value,
    aligned,
    apply,
    cast,
    infix,
    integer,
    times,
    tuple_of,
    union,
)
from tensorlang.lowering.emit.conditions import condition, joined
from tensorlang.lowering.emit.nodes import Attribute, Everything, PythonCall
from tensorlang.lowering.emit.python import text
from tensorlang.lowering.emit.tpu.grid import TpuNaming
from tensorlang.lowering.kernels.ir import Role, TileAxis
from tensorlang.lowering.kernels.masks import said
from tensorlang.lowering.kernels.operands import How, Operand
from tensorlang.lowering.kernels.terms import Reduction, over, reduction
from tensorlang.lowering.plan.dependence import places, variable
from tensorlang.recursion import Deep, call

LOWEST, HIGHEST = Number(Fraction(-3 * 10**38), True), Number(Fraction(3 * 10**38), True)
"""Numbers that are less, and greater, than any number of a program."""
_LONG = 60


@dataclass
class TpuScope:
    """A block of code, and what has been computed in it and around it."""

    block: Block
    memo: dict[object, Value] = field(default_factory=dict)
    flagged: Flagged | None = None

    def inner(self, block: Block) -> TpuScope:
        """A block inside of it."""
        return TpuScope(block, dict(self.memo), self.flagged)


@dataclass
class Flagged:
    """Where masks that only border tiles need are written: `none` has lines that set them to None, before a block with
    the scope `scope`, which runs only for such a tile. They are those of `conditions`; others may fail in any tile."""

    none: Block
    scope: TpuScope
    conditions: frozenset[Predicate]


class TpuValues:
    """Writes values. `operands` are references to the blocks that are read, `shared` the expressions that get names,
    and `wide` the arrays of float32.
    """

    def __init__(
        self,
        naming: TpuNaming,
        operands: Mapping[object, tuple[Operand, str]],
        shared: frozenset[Expr],
        wide: frozenset[Var],
    ) -> None:
        self._naming = naming
        self.axes: Mapping[Index, TileAxis] = {axis.index: axis for axis in naming.kernel.axes}
        self._lengths = {axis.index: naming.along(axis) for axis in naming.kernel.axes if not axis.is_number}
        self._operands = operands
        self._shared = shared
        self._wide = wide
        self.order: Axes = tuple(self.axes)

    def value(self, e: Expr, scope: TpuScope) -> Deep[Value]:
        """The tile of `e`, in float32."""
        if e not in scope.memo:
            v: Value = yield from call(self._value(e, scope))
            if v.depth and (e in self._shared or len(text(v.node)) > _LONG):
                v = self.named(v, scope)
            scope.memo[e] = v
        return scope.memo[e]

    def named(self, v: Value, scope: TpuScope, wanted: str = "t") -> Value:
        """`v` under a name."""
        name = self._naming.names.fresh_local(wanted)
        scope.block.assign(name, v.node)
        return Value(Name(name), v.axes, weak=v.weak)

    def _value(self, e: Expr, scope: TpuScope) -> Deep[Value]:
        p = said(e)
        if p is not None:
            return self.condition(p, self.axes_of(p), scope)
        match e:
            case Var() | Access():
                v = self.read(e)
                return v if variable(e) in self._wide or not v.axes else self.widened(v)
            case Bracket(p, a):
                v = yield from call(self.value(a, scope))
                return self.kept(p, v, scope)
            case Sum() | Extremum():
                return (yield from call(self.reduced(reduction(e), scope)))
        return (yield from call(combined(e, lambda part: self.value(part, scope), self.order, self._shared)))

    def widened(self, v: Value) -> Value:
        """`v` in float32."""
        return replace(v, node=_wide(v.node))

    def read(self, e: Expr | Related | Lookup) -> Value:
        """The elements of a block, as they are stored."""
        key: object = (variable(e), tuple(places(e))) if isinstance(e, Var | Access) else e
        found, name = self._operands[key]
        index: list[Node] = []
        for d in found.dimensions:
            if d.how is How.NUMBER:
                continue
            if d.how is How.ABSENT:
                index.append(integer(0))
            elif d.axis is None:
                index.append(self._naming.integer(d.at - d.low))
            elif len(d.at.indices) > 1 or d.length is not d.axis.extent:
                first = self._naming.integer(d.at - d.low - atom_affine(d.axis.index))
                index.append(apply("pl.ds", first, self._lengths[d.axis.index]))
            else:
                index.append(ALL)
        return Value(part_of(name, index), found.axes, 1)

    def _is_number(self, i: Index) -> bool:
        return i not in self._lengths

    def condition(self, p: Predicate, axes: Axes, scope: TpuScope) -> Value:
        """Where `p` holds, over `axes`."""
        key = ("condition", p, axes)
        if key not in scope.memo:
            parts = [self._condition(q, axes, scope) for q in conjuncts(p)]
            scope.memo[key] = Value(joined(parts, True), axes, 1)
        return scope.memo[key]

    def _condition(self, p: Predicate, axes: Axes, scope: TpuScope) -> Node:
        match p:
            case Equal() | NonNegative():
                return condition(p, lambda a: self._places(a, axes, scope))
            case Related():
                return aligned(self.read(p), axes).node
            case Or(parts):
                return joined((self.condition(q, axes, scope).node for q in parts), False)
        raise NormalFormError("a condition on elements has a quantifier")

    def _places(self, a: Affine, axes: Axes, scope: TpuScope) -> Node:
        """An affine expression as a number, or an array over all of `axes`."""
        arrays: dict[Atom, Node] = {}
        for atom in a.atoms:
            if isinstance(atom, Lookup):
                arrays[atom] = aligned(self.read(atom), axes).node
            elif isinstance(atom, Index) and not self._is_number(atom):
                arrays[atom] = self._along_axis(atom, axes, scope).node
        return self._naming.integer(a, arrays)

    def _along_axis(self, i: Index, axes: Axes, scope: TpuScope) -> Value:
        """The values of an index, as an array over all of `axes`."""
        key = ("index", i, axes)
        if key not in scope.memo:
            node: Node = apply("_index", tuple_of(self._lengths[j] for j in axes), integer(axes.index(i)))
            if i in self._naming.starts:
                node = Infix(Name(self._naming.starts[i]), "+", node)
            scope.memo[key] = self.named(Value(node), scope, i.name)
        return scope.memo[key]

    def reduced(self, r: Reduction, scope: TpuScope) -> Deep[Value]:
        """The sum or extremum of a tile over those axes of `r` that it has."""
        summed = tuple(i for i in r.indices if not self._is_number(i))
        inner = [p for p in conjuncts(r.pred) if not over(p).isdisjoint(summed)]
        outer = conjunction(p for p in conjuncts(r.pred) if over(p).isdisjoint(summed))
        if r.sign:
            v = yield from call(self.value(r.factors[0], scope))
            v = self._along("max" if r.sign > 0 else "min", self.kept(r.pred, v, scope, r.sign), summed)
            return v
        masks: list[Value] = []
        for mask in r.masks:
            masks.append((yield from call(self.value(mask, scope))))
        around = [m for m in masks if set(m.axes).isdisjoint(summed)]
        masks = [m for m in masks if m not in around]
        parts: list[TpuFactor] = yield from call(self._factors(r.factors, inner, masks, scope))
        multiplied = self.product(parts, summed)
        if multiplied is not None:
            v = multiplied
        else:
            v = reduce(lambda a, b: times(a, b, self.order), (part.number for part in parts))
            v = reduce(self._chosen, (part.inside for part in parts if part.inside is not None), v)
            v = self._along("sum", v, summed)
        v = reduce(self._chosen, around, v)
        return self.kept(outer, v, scope) if outer is not TRUE else v

    def product(self, parts: Sequence[TpuFactor], summed: Axes) -> Value | None:
        """The product of two matrices, if the factors are that."""
        if len(parts) == 2 and parts[0].meets(parts[1], summed):
            return _dot(parts[0], parts[1], summed[0], self.order)
        return None

    def _chosen(self, v: Value, mask: Value) -> Value:
        """`v` where a mask holds, which may be None, else 0."""
        axes = union([v, mask], self.order)
        return Value(apply("_kept", aligned(mask, axes).node, aligned(v, axes).node), axes, 1 + v.depth)

    def _along(self, what: str, v: Value, summed: Axes) -> Value:
        """A sum or extremum of `v` along these axes, some of which it may lack."""
        before = v.axes
        at = [integer(before.index(i)) for i in summed if i in before]
        rest = tuple(i for i in v.axes if i not in summed)
        if at:
            v = Value(apply(f"jnp.{what}", v.node, at[0] if len(at) == 1 else tuple_of(at)), rest, 1)
        for i in summed if what == "sum" else ():
            if i not in before:
                v = times(v, Value(self._lengths[i]), self.order)
        return v

    def _factors(
        self, factors: Sequence[Expr], inner: Sequence[Predicate], chosen: Sequence[Value], scope: TpuScope
    ) -> Deep[list[TpuFactor]]:
        """The factors of a sum: those whose axes another one has are multiplied with that, and masked by `inner`. Under
        masks of values, `chosen`, all masks become conditions `inside`."""
        found: list[TpuFactor] = []
        for factor in factors:
            stored = variable(factor) is not None and bool(self.read(factor).axes)
            v = self.read(factor) if stored else (yield from call(self.value(factor, scope)))
            found.append(TpuFactor(v, stored))
        for axes in [*map(self.axes_of, inner), *(m.axes for m in chosen)]:
            if not any(set(axes) <= set(part.value.axes) for part in found):
                ones = apply("jnp.ones", tuple_of(self._lengths[i] for i in axes), Name("jnp.float32"))
                found.append(TpuFactor(Value(ones, axes, 1), False))
        found = self.merged(found)
        masks: dict[int, list[Predicate]] = {}
        for p in inner:
            takers = [k for k, part in enumerate(found) if set(self.axes_of(p)) <= set(part.value.axes)]
            for k in [k for k in takers if not found[k].stored] or takers[:1]:
                masks.setdefault(k, []).append(p)
        for k, parts in masks.items():
            if chosen:
                axes = tuple(i for i in self.order if any(i in self.axes_of(p) for p in parts))
                found[k] = replace(found[k], inside=self.condition(conjunction(parts), axes, scope))
            else:
                found[k] = replace(found[k], value=self.kept(conjunction(parts), found[k].value, scope))
        for m in chosen:
            for k, part in enumerate(found):
                if set(m.axes) <= set(part.value.axes):
                    found[k] = replace(part, inside=infix(part.inside, "&", m, self.order) if part.inside else m)
                    break
        return found

    def merged(self, found: list[TpuFactor]) -> list[TpuFactor]:
        """The factors, with each whose axes are among another's multiplied with that, preferably a computed one."""
        found = sorted(found, key=lambda part: len(part.value.axes))
        k = 0
        while k < len(found):
            small = found[k]
            large = [p for p in found[k + 1 :] if set(small.value.axes) <= set(p.value.axes)]
            if large:
                into = min(large, key=lambda p: (p.stored, len(p.value.axes)))
                found[found.index(into)] = TpuFactor(times(into.number, small.number, self.order), False)
                del found[k]
            else:
                k += 1
        return found

    def axes_of(self, p: Predicate) -> Axes:
        """The axes of the values that a predicate is over."""
        return tuple(i for i in self.order if i in over(p) and not self._is_number(i))

    def kept(self, p: Predicate, v: Value, scope: TpuScope, sign: int = 0) -> Value:
        """`v` where `p` holds; elsewhere 0, or for `sign` 1 and -1 a value less or greater than any number."""
        if p is TRUE:
            return v
        otherwise = {0: [], 1: [LOWEST], -1: [HIGHEST]}[sign]
        axes = union([v, Value(Name("mask"), self.axes_of(p))], self.order)
        numbers = {i for i in over(p) if i in self.axes and self.axes[i].role is Role.UNROLLED}
        # without a mask, a number would not have the axes
        if scope.flagged is None or numbers or not v.axes or not scope.flagged.conditions.issuperset(conjuncts(p)):
            mask = self.condition(p, axes, scope).node
        else:
            mask = self._flagged_mask(p, axes, scope, scope.flagged)
        node = cast(v.node, Name("jnp.float32")) if v.number is not None else aligned(v, axes).node
        return Value(apply("_kept", mask, node, *otherwise), axes, 1 + v.depth)

    def _flagged_mask(self, p: Predicate, axes: Axes, scope: TpuScope, flagged: Flagged) -> Node:
        """The mask of `p`, which is None in tiles that need none."""
        key = ("mask", p, axes)
        if key not in scope.memo:
            name = self._naming.names.fresh_local("inside")
            flagged.none.assign(name, Name("None"))
            flagged.scope.block.assign(name, self.condition(p, axes, flagged.scope).node)
            scope.memo[key] = Value(Name(name), axes)
        return scope.memo[key].node


@dataclass(frozen=True)
class TpuFactor:
    """A factor of a sum: a tile as it is stored, in its own precision, or a computed one. It counts where `inside`
    holds, or everywhere if that is None."""

    value: Value
    stored: bool
    inside: Value | None = None

    @property
    def number(self) -> Value:
        """The factor in float32."""
        return replace(self.value, node=_wide(self.value.node)) if self.stored else self.value

    def meets(self, other: TpuFactor, summed: Axes) -> bool:
        """Whether the sum of both is a product of matrices."""
        common = [i for i in self.value.axes if i in other.value.axes]
        return common == list(summed) and len(summed) == 1 and len(self.value.axes) == len(other.value.axes) == 2


def _dot(a: TpuFactor, b: TpuFactor, summed: Index, order: Axes) -> Value:
    rest = [next(i for i in v.value.axes if i is not summed) for v in (a, b)]
    if order.index(rest[0]) > order.index(rest[1]):
        a, b, rest = b, a, rest[::-1]
    places_ = (integer(v.value.axes.index(summed)) for v in (a, b))
    if a.inside is None and b.inside is None:
        return Value(apply("_dot", a.value.node, b.value.node, *places_), tuple(rest), 1)
    masks = (aligned(v.inside, v.value.axes).node if v.inside is not None else Name("None") for v in (a, b))
    return Value(apply("_dot_of_kept", a.value.node, b.value.node, *places_, *masks), tuple(rest), 1)


def _wide(node: Node) -> Node:
    """The value in float32."""
    return PythonCall(Attribute(node, "astype"), (Name("jnp.float32"),))


def part_of(reference: str, index: Sequence[Node]) -> Subscript:
    """A part of a reference to a block."""
    return Subscript(Name(reference), tuple(index) if any(part is not ALL for part in index) else (Everything(),))
