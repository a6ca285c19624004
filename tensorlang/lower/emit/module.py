"""The source of a whole function: its array program in Python, with the parts of the library that it calls."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cached_property

from tensorlang.errors import NormalFormError
from tensorlang.language.function import Function
from tensorlang.language.predicates import Relation
from tensorlang.lower import costs
from tensorlang.lower.arrays.check import why_not
from tensorlang.lower.arrays.ir import Apply, Block, Part
from tensorlang.lower.arrays.program import ArrayProgram
from tensorlang.lower.emit.helpers import HELPERS, NEEDS
from tensorlang.lower.emit.python import lines, text
from tensorlang.lower.emit.shared import share


class Source:
    """The generated source of `f`: its text, the function's name, and the sizes that it must be told.

    The text is that of the function's `definition`, and of the parts of the library that it calls, the `helpers`.

    The relations `sparse` come as their points: tuples of index arrays, the points' arguments, and for each of the
    further `orders` which of the points comes when. `exact` keeps to sums of products where a Fourier transform would
    be faster; so does `strict`, by which what brackets hide has no influence, whatever it is.
    """

    def __init__(
        self, f: Function, sparse: Collection[Relation] = (), exact: bool = False, strict: bool = False
    ) -> None:
        self.program = ArrayProgram(f, sparse, strict, HELPERS, lambda node: len(text(node)))
        self.name, self.told, self.orders = self.program.name, self.program.told, self.program.orders
        reason = why_not(self.program.definition, HELPERS)
        if reason is not None:
            raise NormalFormError(f"lowering made no array program: {reason}")
        self._shared, functions = share(self.program.definition)
        self._functions = list(functions.values())
        block = Block([self._shared])
        called = {n.operation if isinstance(n, Apply) else n.name for n in block.nodes() if isinstance(n, Apply | Part)}
        self.helpers = tuple(name for name in HELPERS if name in called)
        self._table = costs.exact(costs.load()) if exact or strict else costs.load()
        self.runnable_definition = "\n\n\n".join([*self._functions, "\n".join(lines(block, notes=False))])
        self.runnable = assembled([self.runnable_definition], self.helpers, self._table)

    @cached_property
    def definition(self) -> str:
        """The function alone, with the scalar functions that it calls, to be read."""
        return "\n\n\n".join([*self._functions, "\n".join(lines(Block([self._shared])))])

    @cached_property
    def text(self) -> str:
        """`runnable` with comments."""
        return assembled([self.definition], self.helpers, self._table)


def assembled(definitions: Sequence[str], called: Iterable[str], table: dict[str, int]) -> str:
    """A module of these functions, which call those helpers and are written for the costs in `table`."""
    wanted = dict.fromkeys(called)
    for helper in tuple(wanted):
        wanted.update(dict.fromkeys(NEEDS.get(helper, ())))
    helpers = [HELPERS[name].strip("\n") for name in HELPERS if name in wanted]
    text = "\n".join(["\n\n\n".join([*helpers, *definitions]), ""])
    if "COSTS[" in text:
        text = "\n".join([*costs.code(table, text), "", "", text])
    imports = ["import jax"] if "jax." in text else []
    imports += ["import jax.numpy as jnp"]
    imports += ["from jax import lax"] if "lax." in text else []
    metadata = "from jax.experimental.xla_metadata import set_xla_metadata"
    imports += [metadata] if "set_xla_metadata" in text else []
    return "\n".join([*imports, "", "", text])
