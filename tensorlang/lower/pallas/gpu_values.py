"""The expressions of a kernel as code for one tile, for a target where arrays in registers may have any axes.

An index is a vector of places, or a number. An array is read at vectors that are spread over each other, as the program
says it: `load(A, i[:, None], j)`. Each value is computed once, in the outermost of the blocks of code around it in
which all that it depends on is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce

from tensorlang.errors import NormalFormError
from tensorlang.language.affine import Affine, Index, Lookup, Size, atom_affine
from tensorlang.language.grammar import (
    Add,
    Bracket,
    Call,
    Const,
    Expr,
    Extremum,
    Mul,
    Sum,
    Var,
    children,
)
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
from tensorlang.lower.code import (
    ATOM,
    LOOSE,
    Axes,
    Block,
    Value,
    aligned,
    applied,
    literal,
    ordered,
    plus,
    times,
    union,
    where,
)
from tensorlang.lower.expressions import used_twice
from tensorlang.lower.pallas.gpu_naming import Naming
from tensorlang.lower.pallas.kernel import Axis, Role
from tensorlang.lower.pallas.operands import Array
from tensorlang.lower.pallas.terms import multiplied, nodes, over, product, reduction
from tensorlang.lower.profile import places, variable
from tensorlang.recursion import Deep, run
from tensorlang.sets.isl import implies

Known = Index | Var

_LONGEST = 60
_IDENTITY = {0: "0", 1: "-jnp.inf", -1: "jnp.inf"}


@dataclass
class Scope:
    """A block of code, in which `known` is known beside what is known around it; what has been computed there.

    A `closed` one has been left: its values may be used, and none are added.
    """

    block: Block
    known: frozenset[Known] = frozenset()
    outer: Scope | None = None
    memo: dict[object, Value] = field(default_factory=dict)
    closed: bool = False

    def inner(self, known: Iterable[Known] = ()) -> Scope:
        """A scope for a block within this one's."""
        return Scope(Block(), frozenset(known), self)


@dataclass
class Reduced:
    """What is to be summed in a tile, or of which an extremum is to be found: `pred` where it matters, of a product.

    `condition` is code for whether `pred` has to be looked at.
    """

    sign: int
    indices: tuple[Index, ...]
    pred: Predicate
    factors: tuple[Expr, ...]
    condition: str = ""


@dataclass(frozen=True)
class _Part:
    """A factor of a product, or a condition on it."""

    value: Value
    is_mask: bool = False
    condition: str = ""
    is_read: bool = False


class Values:
    """Writes the values of one kernel; `multiplies` says whether products of matrices are among them."""

    def __init__(self, axes: Mapping[Index, Axis], naming: Naming) -> None:
        self._axes = axes
        self._naming = naming
        self._names = naming.names
        self._order: Axes = tuple(i for i, axis in axes.items() if not axis.is_number)
        self._scoped = frozenset(i for i, a in axes.items() if a.role in (Role.REDUCED, Role.UNROLLED))
        self._shared: frozenset[Expr] = frozenset()
        self._needs: dict[Expr, frozenset[Known]] = {}
        self._accumulators: frozenset[Var] = frozenset()
        self.multiplies = False

    def announce(self, expressions: Sequence[Expr], accumulators: Iterable[Var]) -> None:
        """Say what will be written, so that what occurs twice is known, and what is known late only."""
        self._shared = frozenset().union(*map(used_twice, expressions))
        seen: set[Expr] = set()
        for e in expressions:
            again = [part for part in nodes(e) if part in seen and not isinstance(part, Const)]
            self._shared |= frozenset(again)
            seen.update(nodes(e))
        self._accumulators = frozenset(accumulators)

    # Places and conditions

    def place(self, a: Affine, scope: Scope) -> Value:
        """The places `a`, over the axes that are vectors in it."""
        total = literal(Fraction(0))
        for atom, k in a.terms:
            match atom:
                case Index():
                    part = Value(self._naming.places[atom], () if self._axes[atom].is_number else (atom,))
                case Size():
                    part = Value(self._naming.sizes[atom])
                case Lookup(array, at):
                    part = self.load(array, at, scope)
            total = plus(total, times(literal(Fraction(abs(k))), part, self._order), 1 if k > 0 else -1, self._order)
        return plus(total, literal(Fraction(a.constant)), 1, self._order)

    def mask(self, p: Predicate, scope: Scope) -> Value:
        """Where `p` holds."""
        key = ("mask", p)
        known = self._remembered(key, scope)
        if known is not None:
            return known
        home = self._home(self._of_predicate(p), scope)
        v = self._mask(p, home)
        home.memo[key] = v
        return v

    def _mask(self, p: Predicate, scope: Scope) -> Value:
        match p:
            case Equal(a) | NonNegative(a):
                left = Affine(tuple((atom, k) for atom, k in a.terms if k > 0), max(a.constant, 0))
                right = -Affine(tuple((atom, k) for atom, k in a.terms if k < 0), min(a.constant, 0))
                operator = "==" if isinstance(p, Equal) else ">="
                if operator == ">=" and right.constant == 1 and right.terms:
                    right, operator = right - 1, ">"
                x, y = self.place(left, scope), self.place(right, scope)
                if operator != "==" and not left.indices:
                    x, y, operator = y, x, operator.replace(">", "<")
                axes = union([x, y], self._order)
                return Value(f"{aligned(x, axes).code} {operator} {aligned(y, axes).code}", axes, LOOSE, 2)
            case Related(relation, arguments):
                return self.load(relation, arguments, scope)
            case And(parts) | Or(parts):
                return self.joined([self.mask(part, scope) for part in parts], "&" if isinstance(p, And) else "|")
            case Exists():
                raise NormalFormError("a kernel's predicates have no quantifiers")

    def joined(self, masks: Sequence[Value], operator: str = "&", order: Axes = ()) -> Value:
        """Several masks as one."""
        if len(masks) == 1:
            return masks[0]
        axes = union(list(masks), order or self._order)
        parts = [aligned(m, axes).within(ATOM) for m in masks]
        return Value(f" {operator} ".join(parts), axes, LOOSE, 2)

    def ends(self, indices: Iterable[Index], scope: Scope) -> list[Value]:
        """Where the indices of vectors are in their ranges: a tile may reach beyond the end of its axis."""
        cut = [i for i in indices if not self._axes[i].is_number]
        return [self.mask(less(atom_affine(i), self._axes[i].extent), scope) for i in cut]

    # Reading

    def load(self, array: Array, at: Sequence[Affine], scope: Scope) -> Value:
        """The elements of an array; 0 beyond its ends."""
        key = ("load", array, tuple(at))
        known = self._remembered(key, scope)
        if known is not None:
            return known
        home = self._home(frozenset().union(*(self._of_affine(a) for a in at)), scope)
        indices = [self.place(a, home) for a in at]
        axes = tuple(dict.fromkeys(i for v in indices for i in v.axes))
        codes = [spread(v, axes) for v in indices]
        inside = self.ends((i for i in axes), home)
        extents = shape(array.type)[0] if isinstance(array, Var) else array.sizes
        doubtful = self._doubtful(at, extents)
        masks = [self.mask(p, home) for p in doubtful]
        where_ = f"{self._naming.arrays[array]}_ref, ({', '.join(codes)}{',' * (len(codes) == 1)})"
        if masks or inside:
            mask = aligned(self.joined([*masks, *inside], "&", axes), axes).code
            where_ += f", {mask}" if masks else f", {mask} if ragged else None"
        name = self._names.passing(self._naming.arrays[array])
        home.block.line(f"{name} = _tile({where_})")
        v = home.memo[key] = Value(name, axes)
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

    # Expressions

    def value(self, e: Expr, scope: Scope) -> Deep[Value]:
        """The value of `e`, over those axes of the tile on which it depends."""
        known = self._remembered(e, scope)
        if known is not None:
            return known
        home = self._home(self._of(e), scope)
        v: Value = yield self._value(e, home)
        is_long = home is not scope or e in self._shared or len(v.code) > _LONGEST
        if is_long and not v.code.isidentifier() and not isinstance(e, Const):
            v = self._named(v, home, "t")
        home.memo[e] = v
        return v

    def _value(self, e: Expr, scope: Scope) -> Deep[Value]:
        x = variable(e)
        if x is not None:
            assert x in self._naming.arrays
            return self.load(x, places(e), scope)
        match e:
            case Const(number):
                return literal(number)
            case Add(a, b, sign):
                left = yield self.value(a, scope)
                right = yield self.value(b, scope)
                return plus(left, right, sign, self._order)
            case Mul(a, b):
                left = yield self.value(a, scope)
                right = yield self.value(b, scope)
                return times(left, right, self._order)
            case Call(f, arguments):
                values = []
                for argument in arguments:
                    values.append((yield self.value(argument, scope)))
                return applied(f, values, self._order)
            case Bracket(p, a):
                v = yield self.value(a, scope)
                return where(self.mask(p, scope), v, self._order)
            case Sum() | Extremum():
                r = reduction(e)
                v = yield self.reduced(Reduced(r.sign, r.indices, r.pred, r.factors), scope)
                return v
        raise NormalFormError(f"a kernel has no {type(e).__name__.lower()} in it")

    def _named(self, v: Value, scope: Scope, wanted: str) -> Value:
        name = self._names.passing(wanted)
        scope.block.line(f"{name} = {v.code}")
        return Value(name, v.axes)

    # Reductions

    def reduced(self, r: Reduced, scope: Scope) -> Deep[Value]:
        """The sum or extremum: over vectors at once, over unrolled axes one after the other."""
        loops = [i for i in r.indices if self._axes[i].role is Role.UNROLLED]
        if not loops:
            v = yield self._in_vectors(r, scope)
            return v
        inner = scope
        total = self._names.passing("total")
        scope.block.line(f"{total} = {_IDENTITY[r.sign]}")
        for i in loops:
            outer, inner = inner, inner.inner([i])
            outer.block.line(f"for {self._naming.places[i]} in range({self.place(self._axes[i].extent, outer).code}):")
            outer.block.parts.append(inner.block)
        rest = tuple(i for i in r.indices if i not in loops)
        v = yield self._in_vectors(replace(r, indices=rest), inner)
        if r.sign:
            inner.block.line(f"{total} = jnp.{'maximum' if r.sign > 0 else 'minimum'}({total}, {v.code})")
        else:
            inner.block.line(f"{total} += {v.code}")
        return Value(total, v.axes)

    def _in_vectors(self, r: Reduced, scope: Scope) -> Deep[Value]:
        pred, factors = product(multiplied(r.factors)) if not r.sign else (TRUE, list(r.factors))
        parts: list[_Part] = []
        for factor in factors:
            v = yield self.value(factor, scope)
            parts.append(_Part(v, is_read=variable(factor) is not None))
        vectors = [i for i in r.indices if not self._axes[i].is_number]
        parts += [_Part(self.mask(p, scope), True, r.condition) for p in conjuncts(r.pred) if p is not TRUE]
        parts += [_Part(self.mask(p, scope), True) for p in conjuncts(pred) if p is not TRUE]
        whole = [i for i in vectors if self._axes[i].role is Role.WHOLE and (r.sign or not _vanishes(factors, i))]
        said = conjuncts(r.pred)
        whole = [i for i in whole if less(atom_affine(i), self._axes[i].extent) not in said]
        parts += [_Part(mask, True) for mask in self.ends(whole, scope)]
        if not r.sign:
            dotted = self._dot(vectors, parts, scope)
            if dotted is not None:
                vectors, parts = dotted
        v = self._multiplied(parts, scope, _IDENTITY[r.sign])
        summed = [k for k, i in enumerate(v.axes) if i in vectors]
        method = {0: "sum", 1: "max", -1: "min"}[r.sign]
        for k in reversed(summed):
            v = Value(f"{v.within(ATOM)}.{method}({k})", v.axes[:k] + v.axes[k + 1 :], ATOM, v.depth + 1)
        return v

    def _multiplied(self, parts: Sequence[_Part], scope: Scope, otherwise: str = "0") -> Value:
        """The product of factors where all masks hold, else `otherwise`."""
        v = reduce(
            lambda a, b: times(a, b, self._order), [p.value for p in parts if not p.is_mask], literal(Fraction(1))
        )
        for condition in dict.fromkeys(p.condition for p in parts if p.is_mask):
            masks = self.joined([p.value for p in parts if p.is_mask and p.condition == condition], "&")
            if condition:
                v = ordered(v, self._order)
                v = v if v.code.isidentifier() else self._named(v, scope, "t")
            chosen = where(masks, v, self._order, otherwise)
            if condition and chosen.axes == v.axes:
                chosen = self._named(replace(chosen, code=f"{chosen.code} if {condition} else {v.code}"), scope, "t")
            v = chosen
        return v

    def _dot(
        self, vectors: Sequence[Index], parts: Sequence[_Part], scope: Scope
    ) -> tuple[list[Index], list[_Part]] | None:
        """If the parts are a product of two matrices along one of `vectors`: the others, and parts with the product."""
        for i in vectors:
            along = [p for p in parts if i in p.value.axes]
            sides = tuple(dict.fromkeys(j for j in self._order for p in along if j in p.value.axes and j is not i))
            if len(sides) != 2 or any(len(p.value.axes) > 2 for p in along):
                continue
            left = [p for p in along if sides[0] in p.value.axes]
            right = [p for p in along if sides[1] in p.value.axes]
            alone = [p for p in along if p.value.axes == (i,)]
            read_only = len(left) == 1 and left[0].is_read
            (right if read_only else left).extend(alone)
            a = ordered(self._multiplied(left, scope), (sides[0], i))
            b = ordered(self._multiplied(right, scope), (i, sides[1]))
            self.multiplies = True
            dot = self._named(Value(f"_product({a.code}, {b.code}, dtype, interpret)", sides), scope, "t")
            return [j for j in vectors if j is not i], [_Part(dot), *(p for p in parts if p not in along)]
        return None

    # Where things are computed

    def _remembered(self, key: object, scope: Scope) -> Value | None:
        around: Scope | None = scope
        while around is not None:
            if key in around.memo:
                return around.memo[key]
            around = around.outer
        return None

    def _home(self, needs: frozenset[Known], scope: Scope) -> Scope:
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
                    found |= yield self._needed(part)
            if isinstance(e, Sum | Extremum):
                found -= {e.index}
            self._needs[e] = found
        return self._needs[e]

    def _of_affine(self, a: Affine) -> frozenset[Known]:
        return self._scoped.intersection(a.free)

    def _of_predicate(self, p: Predicate) -> frozenset[Known]:
        return self._scoped & over(p)


def spread(v: Value, axes: Axes) -> str:
    """Places as one of the indices by which an array is read over `axes`: a number, or with as many axes."""
    v = ordered(v, axes)
    if not v.axes or v.axes == axes:
        return v.code
    return f"{v.within(ATOM)}[{', '.join(':' if a in v.axes else 'None' for a in axes)}]"


def _vanishes(factors: Sequence[Expr], i: Index) -> bool:
    """Whether the product is of elements of arrays alone, of which one is 0 where `i` is beyond its end."""
    if not all(variable(x) is not None or isinstance(x, Const) for x in factors):
        return False
    return any(i in a.indices for x in factors if variable(x) is not None for a in places(x))
