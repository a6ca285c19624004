"""The source of a function as it is run, which is kept on disk; what it was made from is made again on demand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tensorlang.language.affine import Size
from tensorlang.language.function import Function
from tensorlang.language.predicates import Relation
from tensorlang.language.recall import recall
from tensorlang.lowering import costs
from tensorlang.simplification import is_simple, simplify
from tensorlang.surface.inline import opened

if TYPE_CHECKING:
    from tensorlang.lowering.arrays.points import Order
    from tensorlang.lowering.emit.module import Source
    from tensorlang.lowering.emit.recurrences import Recurrent

Sizes = tuple[tuple[str, int], ...]


@dataclass(eq=False)
class Runnable:
    """The Python of a function without comments, its name there, the sizes that it must be told, and the orders in
    which it takes the points of relations; whether it has recurrences. See `Source`, of which `make` makes the whole.
    """

    name: str
    runnable: str
    told: dict[Size, str]
    orders: dict[Relation, tuple[Order, ...]]
    takes_masks: bool
    make: Callable[[], Source | Recurrent]

    @cached_property
    def whole(self) -> Source | Recurrent:
        """All of the source, with the array program that it was written from."""
        return self.make()

    @property
    def text(self) -> str:
        """The Python, with comments."""
        return self.whole.text


def runnable(
    f: Function, sizes: Sizes | None, sparse: tuple[Relation, ...], exact: bool, strict: bool, store: str
) -> Runnable:
    """As `source`, of `f` itself if `sizes` is None, else of `f` simplified for these sizes."""
    found: list[Source | Recurrent] = []

    def whole() -> Source | Recurrent:
        if not found:
            from tensorlang.lowering.emit.recurrences import source  # code from disk needs none of it

            g = f if sizes is None else simplify(opened(f), **dict(sizes))
            found.append(source(g, sparse, exact, strict, store))
        return found[0]

    def make() -> Runnable:
        made = whole()
        return Runnable(made.name, made.runnable, made.told, made.orders, made.takes_masks, whole)

    def read(kept: tuple[Any, ...]) -> Runnable:
        name, code, told, orders, takes_masks = kept
        return Runnable(name, code, dict(told), dict(orders), takes_masks, whole)

    table = tuple(sorted(costs.load().items()))
    return recall("source", (f, is_simple(f), sizes, sparse, exact, strict, store, table), make, _kept, read)


def _kept(made: Runnable) -> tuple[Any, ...]:
    return made.name, made.runnable, tuple(made.told.items()), tuple(made.orders.items()), made.takes_masks
