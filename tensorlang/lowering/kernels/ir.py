"""Kernels, as the emitters of all targets read them.

A program for Pallas is a list of steps. Each makes arrays, which later steps read: a `Kernel`, or what is left to
`jax.numpy`, with the reason.

    kernel      = for each tile of the PARALLEL axes: for each tile of the REDUCED axes that is visited: accumulate;
                  then store the outputs
    accumulate  = acc := acc + the sum over the tile's reduced axes of [pred] * value            kind SUM
                  acc := max(acc, the maximum over the tile's reduced axes where pred of value)  kind MAX, likewise MIN
    output      = array[axes] = value

    recurrence  = states := their first values; for each time, one after the other: store the outputs of a step, which
                  read the states and the SLICES at this time; then give the states their next values

The expressions are those of the language under fewer forms: numbers, +, -, *, scalar functions, brackets, sums and
extrema over WHOLE or UNROLLED axes, and accesses. What is accessed is an array in memory, at affine places, or an
accumulator, at its axes. They are interned, so what occurs twice is one object, to be computed once.

An axis of block 1, and an UNROLLED one, is a number where it is used; the value of an expression is an array over the
other axes that occur in it. No tile value is larger than the product of two blocks and the WHOLE axes.

In a tile at the end of an axis there may be places beyond the array: emitters read zeros there. Where that would not
be harmless the predicates say that the place is in range.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from tensorlang.language.affine import Affine, Index, IndexArray
from tensorlang.language.function import Function
from tensorlang.language.grammar import Expr, Var
from tensorlang.language.predicates import TRUE, Predicate, Related
from tensorlang.language.show import expr_text, predicate_text
from tensorlang.language.types import shape


class Role(Enum):
    """What a kernel does with an axis."""

    PARALLEL = "parallel"
    """The outputs have it; each of its tiles is one of its own."""
    REDUCED = "reduced"
    """It is summed over, one tile after the other, into accumulators."""
    WHOLE = "whole"
    """It is in the values from end to end."""
    UNROLLED = "unrolled"
    """The code goes over it element by element: the taps of a convolution."""


@dataclass(frozen=True)
class TileAxis:
    """The values 0 <= index < extent, in tiles of `block` for PARALLEL and REDUCED axes; 0 for the others.

    An extent smaller than the block makes one smaller tile. Axes that are never among the last two of an array have
    block 1.
    """

    index: Index
    extent: Affine
    role: Role
    block: int = 0

    @property
    def is_tiled(self) -> bool:
        """Whether it is cut into tiles, those of one element among them."""
        return self.role in (Role.PARALLEL, Role.REDUCED)

    @property
    def is_number(self) -> bool:
        """Whether it is a number where it is used, not an axis of values."""
        return self.block == 1 or self.role is Role.UNROLLED


class Kind(Enum):
    """How an accumulator takes in a tile."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"


@dataclass(frozen=True)
class Accumulator:
    """acc[axes] = the sum, or extremum, over the REDUCED axes where `pred` holds of `value`.

    `var` is how other expressions access it: at `axes`. If `shift` is there, it is a MAX accumulator m of the same
    kernel, and `value` has the factor exp(a - m): where m grows from one tile to the next, acc is multiplied by
    exp(old m - new m). `pred` implies that of m.

    Each of `tests`, masks of the value, must hold somewhere in a tile, or nothing of the tile is computed or taken in.
    """

    var: Var
    axes: tuple[Index, ...]
    kind: Kind
    pred: Predicate
    value: Expr
    shift: Var | None = None
    tests: tuple[Expr, ...] = ()


@dataclass(frozen=True)
class Output:
    """var[axes] = value, where the value reads arrays and the accumulators when all tiles have been taken in.

    Along an UNROLLED axis, or one of block 1, it is stored one element at a time.
    """

    var: Var
    axes: tuple[Index, ...]
    value: Expr


@dataclass(frozen=True)
class Tiles:
    """Which tiles are visited, by the numbers of the tiles: index // block.

    `numbers` has for each of `axes` the index that stands for the number of its tile. A tile is visited if `some`
    holds: there is a point in it at which one of the kernel's accumulators has something to take in. It needs masks if
    `part` holds, and otherwise all predicates hold on all of it. Both are exact and free of quantifiers. Where the
    relations of `data` are among the predicates, a tile is visited only if they hold for a point of it, and needs
    masks unless they hold on all of it.
    """

    axes: tuple[TileAxis, ...]
    numbers: tuple[Index, ...]
    some: Predicate
    part: Predicate
    data: tuple[Related, ...] = ()


@dataclass(frozen=True)
class Kernel:
    """One `pallas_call`. All tiles are visited, without masks, if `tiles` is None.

    `apart` has outputs of other kernels, with the reasons why those are not made by this one. The `passes` together
    make the same outputs, and hold no rows from end to end: for rows that are too long for that, if there are any.
    Except at sizes `where` it takes no more than `jax.numpy` does, up to a factor, the steps `instead` make them.
    """

    name: str
    axes: tuple[TileAxis, ...]
    accumulators: tuple[Accumulator, ...]
    outputs: tuple[Output, ...]
    tiles: Tiles | None
    apart: tuple[tuple[str, str], ...] = ()
    passes: tuple[Kernel, ...] = ()
    where: Predicate = TRUE
    instead: tuple[Plain, ...] = ()

    def of_role(self, role: Role) -> tuple[TileAxis, ...]:
        """The axes of a role, in order."""
        return tuple(axis for axis in self.axes if axis.role is role)

    def formulas(self) -> Iterator[str]:
        """A line for each accumulator, then one for each output."""
        for acc in self.accumulators:
            guard = f"[{predicate_text(acc.pred)}] " if acc.pred is not TRUE else ""
            moved = f", scaled as {acc.shift.name} grows" if acc.shift is not None else ""
            tested = f", in tiles with {' and '.join(map(_line, acc.tests))} somewhere" if acc.tests else ""
            yield f"{_element(acc.var, acc.axes)} {_TAKES[acc.kind]} {guard}{_line(acc.value)}{moved}{tested}"
        for output in self.outputs:
            yield f"{_element(output.var, output.axes)} = {_line(output.value)}"

    def __str__(self) -> str:
        lines = [f"kernel {self.name}"]
        for role in (Role.PARALLEL, Role.REDUCED):
            axes = ", ".join(f"{a.index}:{a.extent} by {a.block}" for a in self.of_role(role))
            lines += [f"  for each tile of {axes} ({role.value})"] if axes else []
        lines += [f"  {axis.index}:{axis.extent} {axis.role.value}" for axis in self.axes if not axis.is_tiled]
        if self.instead:
            lines.append(f"  where {predicate_text(self.where)}; elsewhere by jax.numpy")
        if self.tiles is not None:
            some, part = (predicate_text(p) for p in (self.tiles.some, self.tiles.part))
            data = "".join(f" and {predicate_text(related)} at some point" for related in self.tiles.data)
            lines.append(f"  tiles visited where {some}{data}; masked where {part}")
        return "\n".join([*lines, *(f"    {line}" for line in self.formulas())])


@dataclass(frozen=True)
class TimeSlice:
    """What a step reads of `array`, as the array `var`: the part at the place `at` on an axis, which goes with
    the time or against it."""

    var: Var
    array: Var
    axis: int
    at: Affine


@dataclass(frozen=True)
class State:
    """What a step reads as `var`: `first`, and later what the step before gave as `after`."""

    var: Var
    first: Var
    after: Var


@dataclass(frozen=True)
class Recurrence:
    """`size` steps in one `pallas_call`, which has the states in fast memory.

    `step` is what a step does: a kernel without accumulators, whose axes are whole, except for one of independent
    examples. It reads the `states`, the `slices` at the `time`, the arrays `frees` by names of its own, and its earlier
    outputs. Blocks of the slices come in order, or from the last to the first if `turned`.
    """

    name: str
    size: Affine
    time: IndexArray
    step: Kernel
    states: tuple[State, ...]
    slices: tuple[TimeSlice, ...]
    frees: tuple[tuple[Var, Var], ...]
    turned: bool

    def formulas(self) -> Iterator[str]:
        """A line for each part of a step."""
        for s in self.slices:
            at = ", ".join(":" if k != s.axis else str(s.at) for k in range(len(shape(s.array.type)[0])))
            yield f"{s.var.name} is {s.array.name}[{at}]"
        yield from self.step.formulas()
        for x in self.states:
            yield f"{x.var.name}, {x.first.name} at first, becomes {x.after.name}"

    def __str__(self) -> str:
        lines = [f"kernel {self.name}"]
        for axis in self.step.of_role(Role.PARALLEL):
            lines.append(f"  for each tile of {axis.index}:{axis.extent} by {axis.block} ({axis.role.value})")
        lines.append(f"  for {self.time.name}:{self.size}, one after the other")
        lines += [f"  {axis.index}:{axis.extent} {axis.role.value}" for axis in self.step.of_role(Role.WHOLE)]
        return "\n".join([*lines, *(f"    {line}" for line in self.formulas())])


@dataclass(frozen=True)
class Plain:
    """Arrays that `jax.numpy` makes: `function` takes the arrays and relations that it reads, and gives `outputs`; the
    elements of index arrays as numbers.

    If it is `by` another function, such as `lax.scan`, it is the step of a recurrence; that function makes the outputs.
    """

    function: Function
    outputs: tuple[Var | IndexArray, ...]
    reason: str
    by: str = "jax.numpy"

    @property
    def indices(self) -> frozenset[int]:
        """The places of index arrays in what it makes."""
        return frozenset(k for k, x in enumerate(self.outputs) if isinstance(x, IndexArray))

    def __str__(self) -> str:
        made = names_of(self.outputs)
        step = "each step of " if self.by != "jax.numpy" else ""
        return f"{self.by}, since {self.reason}\n    {step}{made} = {_line(self.function.body)}"


Step = Kernel | Plain
Results = Var | tuple["Results", "Results"]


@dataclass(frozen=True)
class KernelProgram:
    """The steps of a simplified program, and the arrays that are its results.

    The arrays of a parameter that is a pair are variables of their own: `parts` has for each variable that is no step's
    output the place of its array, the parameter's name and projections.
    """

    function: Function
    parts: dict[Var, tuple[str, tuple[int, ...]]]
    steps: tuple[Step, ...]
    results: Results

    def __str__(self) -> str:
        results = ", ".join(x.name for x in leaves_of(self.results))
        return "\n\n".join([*map(str, self.steps), f"return {results}"])


def leaves_of(results: Results) -> list[Var]:
    """The variables of the results, from left to right."""
    stack, found = [results], []
    while stack:
        part = stack.pop()
        if isinstance(part, tuple):
            stack += reversed(part)
        else:
            found.append(part)
    return found


def names_of(outputs: Iterable[Var | IndexArray]) -> str:
    """What a step is called, after what it makes."""
    return ", ".join(dict.fromkeys(x.name for x in outputs))


_TAKES = {Kind.SUM: "+=", Kind.MAX: "max=", Kind.MIN: "min="}


def _element(x: Var, axes: tuple[Index, ...]) -> str:
    return f"{x.name}[{', '.join(i.name for i in axes)}]" if axes else x.name


def _line(e: Expr) -> str:
    return " ".join(expr_text(e).split())
