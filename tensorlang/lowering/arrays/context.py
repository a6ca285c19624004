"""The state of lowering: the arrays that there are by now, and the code of the statement that is being written."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tensorlang.language.affine import Affine, Index, IndexArray
from tensorlang.language.grammar import Expr
from tensorlang.language.predicates import Predicate, Relation
from tensorlang.lowering.arrays import ir
from tensorlang.lowering.arrays.decisions import Decisions
from tensorlang.lowering.arrays.integers import Range, StaticIntegers
from tensorlang.lowering.arrays.ir import Block, Name, Node, Tuple
from tensorlang.lowering.arrays.names import Names
from tensorlang.lowering.arrays.points import RelationPoints
from tensorlang.lowering.arrays.scope import FIELDS, Scope
from tensorlang.lowering.arrays.sums.summation import Summation
from tensorlang.lowering.arrays.values import Axes, Value, apply
from tensorlang.lowering.plan.dependence import FreeIndices, Key, read_by
from tensorlang.lowering.plan.triangular import Cut
from tensorlang.recursion import Deep

MAX_LINE = 90
MAX_DEPTH = 15


@dataclass(frozen=True)
class Held:
    """A variable, relation or index array as the generated code holds it: an array called `name` of this shape.

    With `points` it is zero except at the points of a relation, and held only there: the array's first dimension runs
    over them instead of the dimensions `along`, which are the relation's arguments. With `cut` it is a list of blocks
    of rows. `required` are conditions on its axes, and on sizes, without which it is zero.
    """

    name: str
    shape: tuple[Affine, ...]
    points: RelationPoints | None = None
    along: tuple[int, ...] = ()
    cut: Cut | None = None
    required: frozenset[Predicate] = frozenset()


@dataclass(frozen=True)
class CutBlock:
    """A block of an array that is cut, as code for the block's rows sees it: what it holds, how the index of these
    rows is called there, and where in the whole array the block starts."""

    held: Held
    cut: Cut
    row: Affine
    start: tuple[Affine, ...]

    @property
    def dimension(self) -> int:
        """Which of the array's dimensions has the rows."""
        return self.cut.dimension


@dataclass
class Context:
    """What all statements of a function share, and the code of the one that is being written.

    `value` writes the code of an expression, `contract` that of a sum; `decisions` records how, and `width` is how long
    a node is on a line. `target` is the name for the statement's value, until something is assigned to it. `sparse` are
    the relations that are given by their points, `increasing` the index arrays of one dimension whose elements strictly
    increase, `possibly_empty` those that may have elements though their range is empty: where a program chooses among
    no points, and a bracket hides that. `conditions` are those that hold comparisons of values of the program: what
    they hide has no influence, even if it is nan or inf. Those with `divisors` hold the quotients of their places.
    `parts` are the blocks of cut arrays that the code being written is given, `rows` the names of the bounds of such
    blocks by the number of rows, `open_blocks` the indices of which the code being written has a block. `joined` puts
    all of an array together, in lines `before` those of the statement. `certain` is the extremum that the statement is,
    if it is only read where it is not empty. Code that is `in_step` runs at each time of a recurrence. `shared_cases`
    remembers which conditions of sums are cases of running ones.

    In `strict` code what brackets hide has no influence, even if it is nan or inf; `multiplied` says that the sum being
    written multiplies some of it by zero instead, so that this only holds where the sum is finite. `multiplying` are
    the sums of the statement, by scope, that do.
    """

    names: Names
    integers: StaticIntegers
    value: Callable[[Expr, Scope], Deep[Value]] = field(init=False)
    contract: Callable[[Summation], Deep[Value]] = field(init=False)
    width: Callable[[Node], int] = field(init=False)
    joined: Callable[[Key], Held] = field(init=False)
    strict: bool = False
    in_step: bool = False
    multiplied: bool = False
    multiplying: set[tuple[int, Any]] = field(default_factory=set)
    before: Block = field(default_factory=Block)
    target: str | None = None
    free_indices: FreeIndices = field(default_factory=FreeIndices)
    decisions: Decisions = field(default_factory=Decisions)
    held: dict[Key, Held] = field(default_factory=dict)
    parts: dict[Key, CutBlock] = field(default_factory=dict)
    rows: dict[Affine, str] = field(default_factory=dict)
    open_blocks: set[Index] = field(default_factory=set)
    sparse: dict[Relation, RelationPoints] = field(default_factory=dict)
    increasing: set[IndexArray] = field(default_factory=set)
    possibly_empty: set[IndexArray] = field(default_factory=set)
    conditions: set[IndexArray] = field(default_factory=set)
    divisors: dict[IndexArray, int] = field(default_factory=dict)
    certain: Expr | None = None
    gather_cache: dict[tuple[str, int, Node], str] = field(default_factory=dict)
    shared_cases: dict[Any, bool] = field(default_factory=dict)
    _blocks: list[Block] = field(default_factory=list)
    _scopes: dict[Any, Scope] = field(default_factory=dict)
    _ranges: dict[tuple[int, Index, Range], str] = field(default_factory=dict)

    def scope(self, base: Scope, **changes: Any) -> Scope:
        """`base` with `changes`; the same scope, memo included, whenever it is asked for again."""
        fields = {name: changes.get(name, getattr(base, name)) for name in FIELDS}
        key = (
            tuple(fields["domain"].items()),
            tuple(fields["loops"].items()),
            frozenset(fields["env"].items()),
            frozenset(fields["masks"]),
            id(fields["block"]),
            id(fields["fixed"]),
        )
        if key not in self._scopes:
            self._scopes[key] = Scope(**fields)
        return self._scopes[key]

    def end_statement(self) -> None:
        """Forget what only concerns one statement."""
        self.before = Block()
        self.certain = None
        self.target = None  # a statement that is cut into blocks of rows has none
        self._scopes.clear()
        self._blocks.clear()
        self.free_indices = FreeIndices()
        self.gather_cache.clear()
        self.shared_cases.clear()
        self._ranges.clear()
        self.multiplying.clear()
        self.names.end_statement()
        self.integers.end_statement()

    def new_block(self) -> Block:
        """A block, kept until the statement ends so that its identity stays its own."""
        self._blocks.append(Block())
        return self._blocks[-1]

    def seen_by(self, e: Expr) -> tuple[Held, tuple[Affine, ...]]:
        """The array that an access reads, or the block of it that is given, and where. An array that is cut stays so.

        Raises `NormalFormError` if `e` does not read a variable.
        """
        key, at = read_by(e)
        part = self.parts.get(key)
        if part is None or not at or at[part.dimension] is not part.row:
            return self.held[key], at
        return part.held, tuple(a - start for a, start in zip(at, part.start, strict=True))

    def held_by(self, e: Expr) -> tuple[Held, tuple[Affine, ...]]:
        """The same, except that an array that is cut is put together.

        Raises `NormalFormError` if `e` does not read a variable.
        """
        held, at = self.seen_by(e)
        if held.cut is not None:
            key, _ = read_by(e)
            held = self.held[key] = self.joined(key)
        return held, at

    def temporary(self, v: Value, block: Block, wanted: str = "t") -> Value:
        """`v` under a name of its own."""
        name = self.names.fresh_local(wanted)
        block.assign(name, v.node)
        return Value(Name(name), v.axes, weak=v.weak)

    def short(self, v: Value, block: Block) -> Value:
        """`v`, under a name of its own if its code is so long or deep that Python or a reader would choke on it."""
        return self.temporary(v, block) if self.width(v.node) > MAX_LINE or v.depth > MAX_DEPTH else v

    def named_array(self, v: Value, block: Block, wanted: str) -> str:
        """The new name of `v`."""
        name = self.names.fresh_local(wanted)
        block.assign(name, v.node)
        return name

    def extents(self, scope: Scope, axes: Axes) -> Tuple:
        """The shape of an array with these axes."""
        return self.shape(scope.domain[i].extent for i in axes)

    def shape(self, sizes: Iterable[Affine]) -> Tuple:
        """A tuple of static integers."""
        return Tuple(self.integers.nodes(sizes))

    def points(self, index: Index, scope: Scope) -> Name:
        """The array of `index`'s values in its domain."""
        r = scope.domain[index]
        key = (id(scope.fixed), index, r)
        if key not in self._ranges:
            name = self._ranges[key] = self.names.fresh_local(index.name)
            ends = [r.stop] if r.start.is_constant and not r.start.constant else [r.start, r.stop]
            scope.fixed.assign(name, apply("arange", *self.integers.nodes(ends)))
        return Name(self._ranges[key])

    def range(self, r: Range) -> ir.IntegerRange:
        """`r` as static integers."""
        return ir.IntegerRange(self.integers.named_in(r.start), self.integers.named_in(r.stop))

    def loop_name(self, index: Index) -> str:
        """The name of a loop's variable."""
        name = self.integers.spelled[index] = self.names.fresh_local(index.name)
        return name
