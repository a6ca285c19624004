"""Statements as a device runs them: programs over blocks.

gen i:n. [i <= k] * x[i, k]   =   gen i:n_x. [i + i_start <= k] * x[i, k]

where x now is the block of x. A mapped index counts from 0 in its block, which has as many indices on every device;
where it is compared or used in a lookup, the start of the block is added, which is an index array without axes: data.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Lookup, Size, atom_affine, constant
from tensorlang.language.function import taken_names, unused_name
from tensorlang.language.grammar import (
    Access,
    Bracket,
    Choice,
    Expr,
    Extremum,
    Proj,
    Sum,
    Var,
    access,
    bracket,
    children,
    gen,
)
from tensorlang.language.predicates import (
    And,
    Equal,
    Exists,
    NonNegative,
    Or,
    Predicate,
    Related,
    Relation,
    at_most,
    conjunction,
    conjuncts,
    disjunction,
    equal,
    less,
)
from tensorlang.language.rebuilt import with_children
from tensorlang.language.types import R, array
from tensorlang.lowering.mesh.asked import Along
from tensorlang.lowering.mesh.needs import NeededRegion, Needs, needed
from tensorlang.lowering.mesh.plan import MeshPlan, MeshStep
from tensorlang.lowering.mesh.statements import MeshStatement, Ranges, Read
from tensorlang.lowering.plan.dependence import Key, factors, is_finite, read_by
from tensorlang.recursion import Deep, call, run

Cut = tuple[Along, Affine]
"""Axes of the mesh, and a size that is cut into blocks along them."""
Held = Var | Relation | IndexArray


@dataclass
class Blocks:
    """The sizes of blocks, where they start on a device, and the arrays of the programs over blocks."""

    plan: MeshPlan
    uneven: Collection[Cut]
    sizes: dict[Cut, Size] = field(default_factory=dict)
    starts: dict[Cut, IndexArray] = field(default_factory=dict)
    arrays: dict[tuple[Key, Needs], Held] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._taken = taken_names(self.plan.program.function)

    def size(self, along: Along, size: Affine) -> Affine:
        """The part of `size` that each device along these axes has."""
        if (along, size) not in self.sizes:
            stem = size.sizes[0].name if len(size.sizes) == 1 and size is atom_affine(size.sizes[0]) else "block"
            name = unused_name(f"{stem}_{'_'.join(along)}", self._taken)
            self._taken.add(name)
            self.sizes[along, size] = Size(name)
        return atom_affine(self.sizes[along, size])

    def start(self, along: Along, size: Affine) -> Affine:
        """The first index that a device has."""
        if (along, size) not in self.starts:
            block = self.size(along, size)
            name = unused_name(f"{block}_start", self._taken)
            self._taken.add(name)
            self.starts[along, size] = IndexArray(name, (), block * self.plan.asked.count(along))
        return atom_affine(Lookup(self.starts[along, size], ()))

    def shape(self, key: Key, needs: Needs) -> tuple[Affine, ...]:
        """The shape of the part of an array that is needed."""
        sizes = self.plan.shapes[key]
        return tuple(
            n if part is None else part.length(self.size(part.along, part.size))
            for n, part in zip(sizes, needs, strict=True)
        )

    def array(self, key: Key, needs: Needs) -> Held:
        """The part of an array that is needed, for programs over blocks."""
        if (key, needs) not in self.arrays:
            x, path = key
            shape = self.shape(key, needs)
            if isinstance(x, IndexArray):
                self.arrays[key, needs] = IndexArray(x.name, shape, x.size, partial=x.partial)
            elif isinstance(x, Relation):
                self.arrays[key, needs] = Relation(x.name, shape)
            else:
                name = "_".join([x.name, *map(str, path)])
                self.arrays[key, needs] = Var(name, array(shape, R))
        return self.arrays[key, needs]


@dataclass(frozen=True)
class Local:
    """A statement over blocks: its value, and the arrays that it reads."""

    value: Expr
    reads: tuple[tuple[Key, Needs], ...]
    starts: tuple[Cut, ...]


def localised(blocks: Blocks, step: MeshStep) -> Local:
    """The statement of `step` as a device computes it: its block, or its part of what is to be added up."""
    return _Localiser(blocks, step).made(step.statement)


@dataclass
class _Localiser:
    blocks: Blocks
    step: MeshStep
    reads: dict[tuple[Key, Needs], None] = field(default_factory=dict)
    starts: dict[Cut, None] = field(default_factory=dict)
    memo: dict[tuple[Expr, int], Expr] = field(default_factory=dict)

    def made(self, s: MeshStatement) -> Local:
        scalar = run(self.value(s.scalar, self.step.scan.root))
        binders = []
        for b in s.own:
            along = self.step.mapped.get(b)
            binders.append((b.index, self.blocks.size(along, b.size) if along else b.size))
        return Local(gen(binders, scalar), tuple(self.reads), tuple(self.starts))

    def value(self, e: Expr, scope: Ranges) -> Deep[Expr]:
        """`e` over blocks, where `scope` has the binders of indices."""
        key = (e, id(scope))
        if key not in self.memo:
            self.memo[key] = yield from call(self._value(e, scope))
        return self.memo[key]

    def _value(self, e: Expr, scope: Ranges) -> Deep[Expr]:
        match e:
            case Var() | Access() | Proj():
                x, at = self.read(*read_by(e), scope)
                assert isinstance(x, Var)
                return access(x, *at)
            case Bracket(p, a):
                p = conjunction(q for q in conjuncts(p) if q not in self._zero_anyway(a, scope))
                inner = yield from call(self.value(a, scope))
                return bracket(run(self.tested(p, scope)), inner)
            case Sum(index, size, a):
                within = self.step.scan.within(e, scope)
                inner = yield from call(self.value(a, within))
                along = self.step.mapped.get(within[index])
                if along is None:
                    return Sum(index, size, inner)
                if (along, size) in self.blocks.uneven:
                    inner = bracket(less(self.moved(atom_affine(index), within), size), inner)
                return Sum(index, self.blocks.size(along, size), inner)
            case Extremum(sign, index, size, p, a) | Choice(sign, index, size, p, a):
                within = self.step.scan.within(e, scope)
                inner = yield from call(self.value(a, within))
                return type(e)(sign, index, size, run(self.tested(p, within)), inner)
            case _:
                parts = []
                for child in children(e):
                    parts.append((yield from call(self.value(child, scope))))
                return with_children(e, parts)

    def read(self, array: Key, at: tuple[Affine, ...], scope: Ranges) -> tuple[Held, tuple[Affine, ...]]:
        """The array that a read reads on a device, and where."""
        needs = self.step.needs.of(array, needed(Read(array, at, scope), self.step.mapped))
        self.reads[array, needs] = None
        places = []
        for a, part in zip(at, needs, strict=True):
            places.append(self.moved(a, scope) if part is None else a - self._first(part))
        return self.blocks.array(array, needs), tuple(places)

    def _first(self, part: NeededRegion) -> Affine:
        return part.first(self.blocks.size(part.along, part.size))

    def moved(self, a: Affine, scope: Ranges) -> Affine:
        """`a` where mapped indices count in their blocks."""
        values: dict[Atom, Affine] = {}
        for atom, _ in a.terms:
            if isinstance(atom, Index):
                binder = scope.get(atom)
                along = self.step.mapped.get(binder) if binder is not None else None
                if binder is not None and along:
                    self.starts[along, binder.size] = None
                    values[atom] = atom_affine(atom) + self.blocks.start(along, binder.size)
            elif isinstance(atom, Lookup):
                x, at = self.read((atom.array, ()), atom.at, scope)
                assert isinstance(x, IndexArray)
                values[atom] = atom_affine(Lookup(x, at))
        return a.substitute(values)

    def tested(self, p: Predicate, scope: Ranges) -> Deep[Predicate]:
        """`p` where mapped indices count in their blocks."""
        match p:
            case Equal(a):
                return equal(self.moved(a, scope), constant(0))
            case NonNegative(a):
                return at_most(constant(0), self.moved(a, scope))
            case Related(relation, arguments):
                x, at = self.read((relation, ()), arguments, scope)
                assert isinstance(x, Relation)
                return Related(x, at)
            case And(parts) | Or(parts):
                new = []
                for part in parts:
                    new.append((yield from call(self.tested(part, scope))))
                return conjunction(new) if isinstance(p, And) else disjunction(new)
            case Exists(index, size, body):
                inner = {i: binder for i, binder in scope.items() if i is not index}
                return Exists(index, size, (yield from call(self.tested(body, inner))))

    def _zero_anyway(self, e: Expr, scope: Ranges) -> Mapping[Predicate, None]:
        """Conditions that only keep places of factors of `e` inside of arrays: parts of arrays are 0 outside."""
        found: dict[Predicate, None] = {}
        if not is_finite(e):
            return found
        for factor in factors(e):
            if isinstance(factor, Access):
                x, at = read_by(factor)
                needs = self.step.needs.of(x, needed(Read(x, at, scope), self.step.mapped))
                for a, part, size in zip(at, needs, self.blocks.plan.shapes[x], strict=True):
                    if part is not None:
                        found |= {at_most(constant(0), a): None, less(a, size): None}
        return found
