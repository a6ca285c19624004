"""A program as a list of statements, each a scalar under gens, and what each reads: arrays, and where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tensorlang.language.affine import Affine, Index, IndexArray
from tensorlang.language.function import Function, Parameter
from tensorlang.language.grammar import (
    Access,
    Bracket,
    Choice,
    Expr,
    Extremum,
    Proj,
    Sum,
    Var,
    children,
)
from tensorlang.language.predicates import And, Equal, Exists, NonNegative, Or, Predicate, Related
from tensorlang.language.types import leaves, shape
from tensorlang.lowering.plan.dependence import Key, read_by
from tensorlang.lowering.plan.statements import Results, statements_of
from tensorlang.recursion import Deep, call, run


@dataclass(frozen=True, eq=False)
class IndexBinder:
    """Where an index is bound, and the size that it runs over."""

    index: Index
    size: Affine


Ranges = Mapping[Index, IndexBinder]
"""The binder of each index at some place."""


@dataclass(frozen=True)
class Read:
    """`array` is read at `at`, where `scope` has the binders of indices."""

    array: Key
    at: tuple[Affine, ...]
    scope: Ranges


@dataclass(frozen=True, eq=False)
class MeshStatement:
    """let array = gen own. scalar."""

    array: Var | IndexArray
    own: tuple[IndexBinder, ...]
    scalar: Expr

    @property
    def key(self) -> Key:
        """The array as it is read."""
        return self.array, ()

    @property
    def ranges(self) -> dict[Index, IndexBinder]:
        """Its own indices."""
        return {binder.index: binder for binder in self.own}


@dataclass(frozen=True)
class MeshProgram:
    """A function's parameters, taken apart where they are pairs; its statements; and its results, which are arrays of
    these, in pairs as the function's value is."""

    function: Function
    shapes: dict[Key, tuple[Affine, ...]]
    statements: tuple[MeshStatement, ...]
    results: Results


def program(f: Function) -> MeshProgram:
    """`f`, whose lets must be outermost, and gens outermost in each right-hand side."""
    shapes = {(p, path): sizes for p in f.params for path, sizes in parts(p)}
    found, results = statements_of(f)
    statements = (MeshStatement(x, tuple(IndexBinder(i, n) for i, n in axes), scalar) for x, axes, scalar in found)
    return MeshProgram(f, shapes, tuple(statements), results)


def parts(p: Parameter) -> list[tuple[tuple[int, ...], tuple[Affine, ...]]]:
    """The arrays that a parameter consists of: the projections that lead to each, and its shape."""
    if not isinstance(p, Var):
        return [((), p.sizes)]
    return [(path, shape(part)[0]) for path, part in leaves(p.type)]


@dataclass
class Scan:
    """The reads in a statement, and its binders: one for each node, whatever its index is called."""

    statement: MeshStatement
    reads: list[Read] = field(default_factory=list)
    binders: dict[Expr, IndexBinder] = field(default_factory=dict)
    inner: dict[tuple[int, IndexBinder], Ranges] = field(default_factory=dict)
    _seen: set[tuple[Expr, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.root: Ranges = self.statement.ranges
        run(self._visit(self.statement.scalar, self.root))

    def within(self, e: Sum | Extremum | Choice, scope: Ranges) -> Ranges:
        """The scope of the body of `e`, the same whenever it is asked for."""
        binder = self.binders.setdefault(e, IndexBinder(e.index, e.size))
        return self.inner.setdefault((id(scope), binder), {**scope, e.index: binder})

    def _visit(self, e: Expr, scope: Ranges) -> Deep[None]:
        if (e, id(scope)) in self._seen:
            return
        self._seen.add((e, id(scope)))
        match e:
            case Var() | Access() | Proj():
                array, at = read_by(e)
                self._read(array, at, scope)
                return
            case Bracket(p, _):
                self._tested(p, scope)
            case Sum():
                scope = self.within(e, scope)
            case Extremum(pred=p) | Choice(pred=p):
                scope = self.within(e, scope)
                self._tested(p, scope)
            case _:
                pass
        for child in children(e):
            yield from call(self._visit(child, scope))

    def _read(self, array: Key, at: tuple[Affine, ...], scope: Ranges) -> None:
        self.reads.append(Read(array, at, scope))
        self._looked_up(at, scope)

    def _looked_up(self, values: tuple[Affine, ...], scope: Ranges) -> None:
        self.reads += [Read((x.array, ()), x.at, scope) for a in values for x in a.lookups]

    def _tested(self, p: Predicate, scope: Ranges) -> None:
        stack: list[tuple[Predicate, Ranges]] = [(p, scope)]
        while stack:
            q, scope = stack.pop()
            match q:
                case Equal(a) | NonNegative(a):
                    self._looked_up((a,), scope)
                case Related(relation, arguments):
                    self._read((relation, ()), arguments, scope)
                case And(parts) | Or(parts):
                    stack += [(part, scope) for part in parts]
                case Exists(index, _, body):
                    stack.append((body, {i: binder for i, binder in scope.items() if i is not index}))
