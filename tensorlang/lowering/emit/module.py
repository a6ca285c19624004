"""The source of a whole function: its array program in Python, with the parts of the library that it calls."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from functools import cached_property

from tensorlang.budget import limits
from tensorlang.errors import LimitError, NormalFormError
from tensorlang.language.function import Function
from tensorlang.language.predicates import Or, Relation, conjuncts, relations
from tensorlang.lowering import costs
from tensorlang.lowering.arrays.check import why_not
from tensorlang.lowering.arrays.cost import ArrayCost, cost_of, grows_more_slowly
from tensorlang.lowering.arrays.ir import Block, Define
from tensorlang.lowering.arrays.program import ArrayProgram
from tensorlang.lowering.emit.helpers import HELPERS, THRESHOLDS_OF, with_called
from tensorlang.lowering.emit.python import lines, modules_in, text
from tensorlang.lowering.emit.shared import share
from tensorlang.simplification import STEPS_OF_A_FORM, other_forms


class WrittenFunction:
    """An array program in Python, with the scalar functions that it calls. It reads the `helpers`, and may read what is
    `known` beyond those.

    Raises `NormalFormError` if `program` is no array program.
    """

    def __init__(self, program: Define, known: Iterable[str] = ()) -> None:
        reason = why_not(program, {*HELPERS, *known})
        if reason is not None:
            raise NormalFormError(f"lowering made no array program: {reason}")
        shared, functions = share(program)
        self._functions = ["\n".join(lines(Block([f]))) for f in functions.values()]
        self._block = Block([shared])
        self.helpers = tuple(modules_in(Block([shared, *functions.values()])))

    @cached_property
    def runnable(self) -> str:
        """The Python without comments."""
        return self._with(False)

    @cached_property
    def text(self) -> str:
        """The Python with comments."""
        return self._with(True)

    def _with(self, notes: bool) -> str:
        return "\n\n\n".join([*self._functions, "\n".join(lines(self._block, notes=notes))])


class Source:
    """The generated source of `f`, its `function`: its text, the function's name, and the sizes that it must be told.

    The text is that of the function's `definition`, and of the parts of the library that it calls, which are among the
    names that it reads, `helpers`.

    The relations `sparse` come as their points: tuples of index arrays, one for each argument, and for each of the
    further `orders` one with the places of the points in it. `exact` keeps to sums of products where a Fourier
    transform would be faster; so does `strict`, by which what brackets hide has no influence, whatever it is. A program
    that is `in_step` runs at each time of a recurrence. Of its results those at the places `indices` are index arrays;
    in it, they are `called` so.
    """

    takes_masks = False

    def __init__(
        self,
        f: Function,
        sparse: Collection[Relation] = (),
        exact: bool = False,
        strict: bool = False,
        in_step: bool = False,
        indices: frozenset[int] = frozenset(),
        called: Sequence[str] = (),
    ) -> None:
        self.function = f
        self.program = ArrayProgram(f, sparse, strict, HELPERS, lambda node: len(text(node)), in_step, indices, called)
        self.name, self.told, self.orders = self.program.name, self.program.told, self.program.orders
        self._table = costs.exact(costs.load()) if exact or strict else costs.load()

    @cached_property
    def _written(self) -> WrittenFunction:
        return WrittenFunction(self.program.definition)

    @property
    def helpers(self) -> tuple[str, ...]:
        """The parts of the library, and modules, that it reads."""
        return self._written.helpers

    @property
    def runnable_definition(self) -> str:
        """The function alone, with the scalar functions that it calls, without comments."""
        return self._written.runnable

    @property
    def definition(self) -> str:
        """The same, to be read."""
        return self._written.text

    @cached_property
    def runnable(self) -> str:
        """A module with the function, and all that it calls, without comments."""
        return assembled([self.runnable_definition], self.helpers, self._table)

    @cached_property
    def cost(self) -> ArrayCost:
        """What it takes for all sizes, beside the model's count."""
        return cost_of(self.function, self.program)

    @cached_property
    def text(self) -> str:
        """`runnable` with comments."""
        return self.text_with(())

    def text_with(self, definitions: Sequence[str], names: Iterable[str] = ()) -> str:
        """The text with further functions, which read the helpers and modules `names`."""
        return assembled([self.definition, *definitions], [*self.helpers, *names], self._table)


def source_of(
    f: Function,
    sparse: Collection[Relation] = (),
    exact: bool = False,
    strict: bool = False,
    in_step: bool = False,
    indices: frozenset[int] = frozenset(),
    called: Sequence[str] = (),
) -> Source:
    """The source of `f`, as `Source` has it; or of another form of `f` whose costs grow more slowly, or that has the
    points of a relation apart from alternatives to them."""
    if sparse:  # what such a program does is not counted
        with suppress(LimitError), limits(steps=STEPS_OF_A_FORM):
            f = next(other_forms(f), f) if _has_alternatives_to(f, sparse) else f
        return Source(f, sparse, exact, strict, in_step, indices, called)
    made = Source(f, sparse, exact, strict, in_step, indices, called)
    for form in other_forms(f):
        try:
            with limits(steps=STEPS_OF_A_FORM):
                other = Source(form, sparse, exact, strict, in_step, indices, called)
        except LimitError:
            continue
        if grows_more_slowly(cost_of(f, other.program), cost_of(f, made.program)):
            made = other
    return made


def _has_alternatives_to(f: Function, sparse: Collection[Relation]) -> bool:
    """Whether a condition in `f` is that a relation holds, or something else."""
    choices = (q for p in f.census.conditions for q in conjuncts(p) if isinstance(q, Or))
    return any(not set(relations(q)).isdisjoint(sparse) for q in choices)


def best_form(f: Function) -> Function:
    """`f`, which is simplified, or the other form of it that code is made of."""
    return f if next(other_forms(f), None) is None else source_of(f).function


IMPORTS = {
    "jax": "import jax",
    "jnp": "import jax.numpy as jnp",
    "np": "import numpy as np",
    "lax": "from jax import lax",
    "pl": "from jax.experimental import pallas as pl",
    "pltpu": "from jax.experimental.pallas import tpu as pltpu",
    "plgpu": "from jax.experimental.pallas import triton as plgpu",
    "mosaic_gpu": "from jax.experimental.pallas import mosaic_gpu",
    "set_xla_metadata": "from jax.experimental.xla_metadata import set_xla_metadata",
}
"""The import of each module that generated code may read, by its name there."""


def assembled(definitions: Sequence[str], names: Iterable[str], table: dict[str, int]) -> str:
    """A module of functions, which read the helpers and modules `names`, for the costs in `table`."""
    known = with_called(["jnp", *names])
    helpers = [HELPERS[name].strip("\n") for name in HELPERS if name in known]
    text = "\n\n\n".join([*helpers, *definitions])
    if "COSTS" in known:
        read = frozenset().union(*(THRESHOLDS_OF.get(name, ()) for name in known))
        text = "\n".join([*costs.code({name: n for name, n in table.items() if name in read}), "", "", text])
    imports = [line for name, line in IMPORTS.items() if name in known]
    return "\n".join([*imports, "", "", text, ""])
