"""Places, conditions and elements of arrays as code for one tile, each computed once.

A place is a vector along its axis, or a number. An array is read at vectors that are broadcast against each other:
`A[i[:, None], j[None, :]]`. Everything is computed in the outermost enclosing block of code in which all that it
depends on is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from tensorlang.errors import NormalFormError
from tensorlang.language.affine import Affine, Index, Lookup, Size, atom_affine
from tensorlang.language.grammar import Bracket, Expr, Extremum, Sum, Var, children
from tensorlang.language.predicates import (
    TRUE,
    And,
    Equal,
    Exists,
    NonNegative,
    Or,
    Predicate,
    Related,
    conjunction,
    conjuncts,
    less,
    within,
)
from tensorlang.language.types import shape
from tensorlang.lowering.arrays.ir import ALL, NEW, Block, Name, Node, Subscript
from tensorlang.lowering.arrays.values import (
    Axes,
    Value,
    aligned,
    apply,
    infix,
    literal,
    ordered,
    plus,
    times,
    tuple_of,
    union,
)
from tensorlang.lowering.emit.conditions import joined, sides
from tensorlang.lowering.emit.gpu.naming import GpuNaming
from tensorlang.lowering.emit.nodes import Conditional
from tensorlang.lowering.kernels.ir import Kernel, Role
from tensorlang.lowering.kernels.operands import Array
from tensorlang.lowering.kernels.terms import over
from tensorlang.lowering.plan.dependence import places, variable
from tensorlang.recursion import Deep, call, run
from tensorlang.sets.isl import implies

Known = Index | Var


@dataclass
class GpuScope:
    """A block of code, in which `known` is known beside what is known around it; and what has been computed there.

    A `closed` one has been left: its values may be used, and none are added.
    """

    block: Block
    known: frozenset[Known] = frozenset()
    outer: GpuScope | None = None
    memo: dict[object, Value] = field(default_factory=dict)
    closed: bool = False

    def inner(self, known: Iterable[Known] = ()) -> GpuScope:
        """A scope for a block within this one's."""
        return GpuScope(Block(), frozenset(known), self)


class Reads:
    """Writes what the values of one kernel are made of."""

    def __init__(self, kernel: Kernel, naming: GpuNaming) -> None:
        self._axes = {axis.index: axis for axis in kernel.axes}
        self._naming = naming
        self._names = naming.names
        self._order: Axes = tuple(axis.index for axis in kernel.axes if not axis.is_number)
        self._scoped = frozenset(a.index for a in kernel.axes if a.role in (Role.REDUCED, Role.UNROLLED))
        self._accumulators = frozenset(acc.var for acc in kernel.accumulators)
        self._needs: dict[Expr, frozenset[Known]] = {}

    # Places and conditions

    def place(self, a: Affine, scope: GpuScope) -> Value:
        """The places `a`, over the axes that are vectors in it."""
        total = literal(Fraction(0))
        for atom, k in a.terms:
            match atom:
                case Index():
                    part = self._at(atom)
                case Size():
                    part = Value(self._naming.node(atom_affine(atom)))
                case Lookup(array, at):
                    part = self.load(array, at, scope)
            total = plus(total, times(literal(Fraction(abs(k))), part, self._order), 1 if k > 0 else -1, self._order)
        return plus(total, literal(Fraction(a.constant)), 1, self._order)

    def _at(self, i: Index) -> Value:
        """The places of an axis."""
        return Value(Name(self._naming.places[i]), () if self._axes[i].is_number else (i,))

    def mask(self, p: Predicate, scope: GpuScope) -> Value:
        """Where `p` holds."""
        key = ("mask", p)
        known = self.remembered(key, scope)
        if known is not None:
            return known
        home = self.home(self._of_predicate(p), scope)
        v = self._mask(p, home)
        home.memo[key] = v
        return v

    def _mask(self, p: Predicate, scope: GpuScope) -> Value:
        match p:
            case Equal() | NonNegative():
                left, operator, right = sides(p)
                return infix(self.place(left, scope), operator, self.place(right, scope), self._order)
            case Related(relation, arguments):
                return self.load(relation, arguments, scope)
            case And(parts) | Or(parts):
                return self.joined([self.mask(part, scope) for part in parts], isinstance(p, And))
            case Exists():
                raise NormalFormError("a kernel's predicates have no quantifiers")

    def joined(self, masks: Sequence[Value], every: bool = True, order: Axes = ()) -> Value:
        """Several masks as one."""
        if len(masks) == 1:
            return masks[0]
        axes = union(list(masks), order or self._order)
        return Value(joined((aligned(m, axes).node for m in masks), every), axes, 2)

    def ends(self, indices: Iterable[Index], scope: GpuScope) -> list[Value]:
        """Where the indices of vectors are in their ranges: a tile may reach beyond the end of its axis."""
        cut = [i for i in indices if not self._axes[i].is_number]
        return [self.mask(less(atom_affine(i), self._axes[i].extent), scope) for i in cut]

    # Reading

    def load(self, array: Array, at: Sequence[Affine], scope: GpuScope) -> Value:
        """The elements of an array; 0 beyond its ends."""
        key = ("load", array, tuple(at))
        known = self.remembered(key, scope)
        if known is not None:
            return known
        home = self.home(frozenset().union(*(self._of_affine(a) for a in at)), scope)
        indices = [self.place(a, home) for a in at]
        axes = tuple(dict.fromkeys(i for v in indices for i in v.axes))
        arguments: list[Node] = [self._naming.reference(array), tuple_of(spread(v, axes) for v in indices)]
        inside = self.ends(axes, home)
        extents = shape(array.type)[0] if isinstance(array, Var) else array.sizes
        doubtful = self._doubtful(at, extents)
        masks = [self.mask(p, home) for p in doubtful]
        if masks or inside:
            mask = aligned(self.joined([*masks, *inside], True, axes), axes).node
            arguments.append(mask if masks else if_ragged(mask))
        name = self._names.fresh_local(self._naming.arrays[array])
        home.block.assign(name, apply("_tile", *arguments))
        v = home.memo[key] = Value(Name(name), axes)
        return v

    def _doubtful(self, at: Sequence[Affine], extents: Sequence[Affine]) -> list[Predicate]:
        """Which of the places may be outside of the array, though the indices are in their ranges."""
        found = []
        for a, n in zip(at, extents, strict=True):
            ranges = conjunction(within(atom_affine(i), self._axes[i].extent) for i in a.indices)
            for p in conjuncts(within(a, n)):
                if p is not TRUE and not a.lookups and not implies(ranges, p):
                    found.append(p)
        return found

    # Where things are computed

    def remembered(self, key: object, scope: GpuScope) -> Value | None:
        """What was computed before under this key, here or in an enclosing scope."""
        around: GpuScope | None = scope
        while around is not None:
            if key in around.memo:
                return around.memo[key]
            around = around.outer
        return None

    def home(self, needs: frozenset[Known], scope: GpuScope) -> GpuScope:
        """The outermost open scope in which all of `needs` is known."""
        while scope.outer is not None and not scope.outer.closed and needs.isdisjoint(scope.known):
            scope = scope.outer
        return scope

    def _of(self, e: Expr) -> frozenset[Known]:
        return run(self._needed(e))

    def _needed(self, e: Expr) -> Deep[frozenset[Known]]:
        """The indices and accumulators in `e` that are known in some scopes only."""
        if e not in self._needs:
            x = variable(e)
            found: frozenset[Known] = frozenset()
            if x is not None:
                found = frozenset().union({x} & self._accumulators, *(self._of_affine(a) for a in places(e)))
            else:
                if isinstance(e, Bracket | Extremum):
                    found |= self._of_predicate(e.pred)
                for part in children(e):
                    found |= yield from call(self._needed(part))
            if isinstance(e, Sum | Extremum):
                found -= {e.index}
            self._needs[e] = found
        return self._needs[e]

    def _of_affine(self, a: Affine) -> frozenset[Known]:
        return self._scoped.intersection(a.free)

    def _of_predicate(self, p: Predicate) -> frozenset[Known]:
        return self._scoped & over(p)


def if_ragged(mask: Node) -> Node:
    """A mask that only matters where a tile may reach beyond the end of its axis."""
    return Conditional(Name("ragged"), mask, Name("None"))


def spread(v: Value, axes: Axes) -> Node:
    """Places as one of the indices of an array that is read over `axes`: a number, or an array with that many axes."""
    v = ordered(v, axes)
    if not v.axes or v.axes == axes:
        return v.node
    return Subscript(v.node, tuple(ALL if a in v.axes else NEW for a in axes))
