"""What recurrences keep of their steps for others that go back over them, and how many numbers these are.

    "needed"  all that later steps and sums read, of each step
    "states"  the carried states before each step
    "sqrt"    the carried states at the start of each window of times
    "log"     the carried states at the starts of as many windows as halving the time takes

and what is computed of the steps of one window.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tensorlang.budget import limited
from tensorlang.costs.counting import Cell
from tensorlang.costs.polynomial import Polynomial, affine, number
from tensorlang.costs.symbolic import CostPolynomial, polynomial
from tensorlang.errors import ArgumentError
from tensorlang.language.affine import Size, atom_affine
from tensorlang.language.function import Function
from tensorlang.language.grammar import Var
from tensorlang.language.predicates import TRUE
from tensorlang.language.types import R, array, shape
from tensorlang.lowering.plan.recurrences import staged
from tensorlang.lowering.plan.stages import Turn
from tensorlang.lowering.plan.windows import WINDOW
from tensorlang.simplification import simplify

STORES = ("needed", "states", "sqrt", "log")
WINDOWS, HALVES = Size("windows"), Size("halves")
"""How many windows there are, and how often their number can be halved."""


def require_store(store: str) -> None:
    """Raise `ArgumentError` if there is no such way to keep what steps give."""
    if store not in STORES:
        hint = "'needed' keeps all that is read later, the others less, and compute it again"
        raise ArgumentError(f"store is one of {', '.join(STORES)}, found {store!r}", hint=hint)


@limited
def memory_polynomial(f: Function, store: str = "needed") -> CostPolynomial:
    """The most numbers that the outermost recurrences of `f` keep of their steps if it is lowered with this `store`.

    It is a polynomial in the sizes of `f`, in `window`, the number of times in a window, about the root of the number
    of steps, or 8 for "log", in `windows`, how many of these there are, and `halves`, the binary logarithm of that.
    Results of `f` and carried states are not counted. Raises `ArgumentError` if there is no such `store`.

    >>> f = tl.parse("f(a: [T]R, x: [n]R) = let s = fold t:T with s = x. gen i:n. sin(a[t] * s[i]) in sum i:n. s[i]")
    >>> print(tl.memory_polynomial(tl.grad(f)), tl.memory_polynomial(tl.grad(f), "sqrt"), sep="; ")
    2*T*n + n*window; 3*n*window + n*windows
    """
    require_store(store)
    cells: list[Cell] = []
    for part in staged(simplify(f), store=store).parts:
        if isinstance(part, Turn):
            cells += [(TRUE, a) for a in _kept(part, store)]
    read = {size for _, a in cells for size in a.unknowns}
    further = Var("kept", array(tuple(atom_affine(n) for n in (WINDOW, WINDOWS, HALVES) if n in read), R))
    return polynomial(replace(f, params=(*f.params, further)), cells)


def _kept(turn: Turn, store: str) -> list[Polynomial]:
    """The numbers that a recurrence keeps."""
    found: list[Polynomial] = []
    again = store != "needed" and turn.again
    stored = turn.stored if again else turn.stored | turn.again
    windows = turn.rest.windows if turn.rest is not None else {}
    for v, _, word in turn.gives:
        if word == "fold":
            continue
        if v in stored:
            found.append(_count(v))
        elif v in windows or v in turn.again:
            found.append(_count(v, WINDOW))
    if again:
        times = {"states": turn.size, "sqrt": atom_affine(WINDOWS), "log": atom_affine(HALVES)}[store]
        found += [affine(times) * _count(turn.inits[k]) for k in turn.carried]
    return found


def _count(v: Var, times: Size | None = None) -> Polynomial:
    """The number of elements of `v`, or with `times` in place of its first axis."""
    axes = list(shape(v.type)[0])
    if times is not None:
        axes[0] = atom_affine(times)
    return prod(map(affine, axes), start=number(1))
