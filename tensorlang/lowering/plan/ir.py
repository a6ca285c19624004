"""A plan: which arrays a program makes, in order, and how each lies in memory.

    plan     ::=  plan f(inputs) given* step* return e           outputs: an array, or pairs of arrays
    given    ::=  x := literal values                            these, the numbers below n, or the size n as a number
    step     ::=  x[i, .., k] storage := e : type                an array, or index array, of its own; i, .., k are its
                                                                 axes, as they lie in memory
               |  x in one pass with .. := sum i:n. y[i] : R     numbers, each the sum of an array, added up in one pass
    storage  ::=  dense                                          its axes in the order of the gens of e
               |  only at the points of R                        where the relation R, given by its points, holds
               |  in blocks of rows of i, zero unless p          each with the columns it needs

An expression e is a gen for each axis around a scalar; it reads inputs, given arrays, and those of steps before, which
`check` makes sure of. `forced` arrays are written to memory by XLA; others it may fuse with what reads them.
`certain` extrema are only read where they are not empty. `notes` tells of arrays of the program that the plan doesn't
have, or has in another order of axes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from tensorlang.language.affine import Affine, IndexArray, Size
from tensorlang.language.function import Function
from tensorlang.language.grammar import Expr, Gen, Var
from tensorlang.language.names import Named, ObjectNames
from tensorlang.language.predicates import Related, conjunction
from tensorlang.language.show import expr_text, predicate_text
from tensorlang.lowering.plan.triangular import Cut

Variable = Var | IndexArray


@dataclass(frozen=True)
class Dense:
    """All elements, in the order of the axes."""

    def __str__(self) -> str:
        return "dense"


@dataclass(frozen=True)
class AtPoints:
    """The elements at the points of a relation, one after the other; it is zero at all others."""

    relation: Related

    def __str__(self) -> str:
        return f"only at the points of {self.relation.relation.name}"


@dataclass(frozen=True)
class RowBlocks:
    """A list of blocks of rows, each with the columns that it needs; the array is zero where a limit doesn't hold."""

    cut: Cut

    def __str__(self) -> str:
        return f"in blocks of rows of {self.cut.row}, zero unless {predicate_text(conjunction(self.cut.limits))}"


Storage = Dense | AtPoints | RowBlocks
DENSE = Dense()


@dataclass(frozen=True)
class Quotients:
    """floor(k/divisor) for k:size."""

    size: Affine
    divisor: int


@dataclass(frozen=True)
class Given:
    """An array that depends on nothing but parameters: literal values, the numbers below a size, floor(k/c) for each
    such k, a size as a number, or the elements of an index array as numbers."""

    variable: Variable
    value: tuple[int | Fraction, ...] | Affine | Quotients | Size | IndexArray

    def __str__(self) -> str:
        match self.value:
            case Size():
                return f"the size {self.value} as a number"
            case IndexArray(name):
                return f"the elements of {name} as numbers"
            case Affine():
                return f"the numbers below {self.value}"
            case Quotients(size, divisor):
                return f"the numbers below {size} divided by {divisor}, rounded down"
            case values:
                return ", ".join(map(str, values))


@dataclass(frozen=True)
class StoredArray:
    """variable := value, stored in some way. `certain` marks an extremum that is only read where it is not empty."""

    variable: Variable
    value: Expr
    storage: Storage
    forced: bool = False
    certain: bool = False

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variable that it makes."""
        return (self.variable,)

    @property
    def order(self) -> str:
        """The names of the axes, in the order in which they lie in memory."""
        axes, e = [], self.value
        while isinstance(e, Gen):
            axes.append(e.index.name)
            e = e.body
        return ", ".join(axes)


@dataclass(frozen=True)
class FusedSums:
    """Numbers, each the sum of the elements of an array, added up in one pass."""

    pairs: tuple[tuple[Var, Var], ...]
    values: tuple[Expr, ...]

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables that it makes."""
        return tuple(x for x, _ in self.pairs)


Step = StoredArray | FusedSums


@dataclass(frozen=True)
class Plan:
    """The arrays of a program in order, and its outputs.

    `row_work` has, for each number of rows that arrays are cut into, the extents over which work is repeated for an
    element; `notes` has, by name, what became of arrays of the program that were inlined or transposed.
    """

    function: Function
    given: tuple[Given, ...]
    steps: tuple[Step, ...]
    outputs: Expr
    row_work: Mapping[Affine, tuple[tuple[Affine, ...], ...]] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)

    def variables(self) -> Iterator[Variable]:
        """The variables that its steps make, in order."""
        for step in self.steps:
            yield from step.variables

    def __str__(self) -> str:
        return "\n  ".join(_lines(self))


def _lines(plan: Plan) -> Iterator[str]:
    """The lines of a plan, in which no two variables have one name."""
    f, names = plan.function, ObjectNames()
    listed = [*f.sizes, *f.params, *(g.variable for g in plan.given), *plan.variables()]
    spelled: dict[Named, str] = {x: names[x] for x in listed}

    def right(e: Expr) -> str:
        return f"{' '.join(expr_text(e, spelled).split())} : {e.type}"

    yield f"plan {f.name}({', '.join(spelled[p] for p in f.params)})"
    for g in plan.given:
        yield f"{spelled[g.variable]} := {g}"
    for step in plan.steps:
        if isinstance(step, FusedSums):
            for x, e in zip(step.variables, step.values, strict=True):
                others = ", ".join(spelled[y] for y in step.variables if y is not x)
                yield f"{spelled[x]} in one pass with {others} := {right(e)}"
        else:
            axes = f"[{step.order}]" if step.order else ""
            marks = f"{', forced' if step.forced else ''}{', certain' if step.certain else ''}"
            yield f"{spelled[step.variable]}{axes} {step.storage}{marks} := {right(step.value)}"
    for name, note in plan.notes.items():
        yield f"; {name}: {note}"
    yield f"return {right(plan.outputs)}"
