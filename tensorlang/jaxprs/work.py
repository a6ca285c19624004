"""The work of a jaxpr by the user's lines: arithmetic, and the elements that are written."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np
from jax._src import source_info_util
from jax.extend import core

from tensorlang.costs.cost import cost
from tensorlang.errors import CountingError, TensorlangError
from tensorlang.jaxprs.carried import copied
from tensorlang.language.affine import Atom, Size, constant
from tensorlang.language.function import Function
from tensorlang.language.grammar import Bracket, Expr, Var, bracket
from tensorlang.language.predicates import Predicate, Relation, conjunction, conjuncts, lookups
from tensorlang.language.rebuilt import rewrite

_MOVES = (
    "broadcast_in_dim reshape squeeze iota transpose convert_element_type copy copy_p slice expand_dims "
    "stop_gradient eq ne lt le gt ge select_n pad concatenate rev and or not split stack unstack tile gather "
    "dynamic_slice clamp name dynamic_update_slice is_finite pvary optimization_barrier"
)
MOVES = frozenset(_MOVES.split())
"""Primitives that move or compare elements without arithmetic."""

FREE = MOVES | {"neg"}
"""Primitives that cost nothing extra in compiled code: a sign is part of the addition that reads it."""

PRODUCTS = frozenset(["dot_general", "conv_general_dilated"])
"""Primitives that are linear in each of two arrays and sum products."""

SORTED = 48
"""The operations that take as long as sorting, for each number and each factor of 2 in the count of numbers."""

COPIES = 4
"""The numbers copied by a step of a loop that take as long as one operation."""

_LARGEST_DATA = 1 << 24

Line = tuple[str, int]


@dataclass
class JaxprWork:
    """The operations, written elements and primitives for each line; and in total, the operations of products, the
    equivalent of copies of states in operations, and the equations."""

    operations: Counter[Line] = field(default_factory=Counter)
    written: Counter[Line] = field(default_factory=Counter)
    primitives: dict[Line, Counter[str]] = field(default_factory=dict)
    products: int = 0
    copied: int = 0
    equations: int = 0

    @property
    def total(self) -> int:
        """All operations."""
        return sum(self.operations.values())

    @property
    def outer_products(self) -> int:
        """The operations of products without a sum, which are no faster than others."""
        return sum(found[name] for found in self.primitives.values() for name in PRODUCTS) - self.products

    @property
    def elements(self) -> int:
        """All elements that are written."""
        return sum(self.written.values())


def work(equations: Iterable[Any], times: int = 1, found: JaxprWork | None = None, copies: bool = False) -> JaxprWork:
    """The work of `equations`, whose shapes are numbers, including loops and calls; with `copies`, as for a gradient by
    JAX, including copies of the states of loops.

    A loop with a data-dependent length counts once.
    """
    found = JaxprWork() if found is None else found
    scattered: set[Any] = set()
    for equation in equations:
        found.equations += 1
        inner = list(inner_jaxprs(equation))
        frame = source_info_util.user_frame(equation.source_info.traceback)
        line = (frame.file_name, frame.start_line) if frame else ("?", 0)
        if inner:
            if copies and (spent := copied(equation) * times * runs(equation) // COPIES):
                found.copied += spent
                found.operations[line] += spent
                found.primitives.setdefault(line, Counter())["copies of a loop's state"] += spent
            for part in inner:
                work(part.eqns, times * runs(equation), found, copies)
            continue
        spent = operations(equation) * times
        if equation.primitive.name in ("scatter-add", "dynamic_update_slice"):
            scattered.update(equation.outvars)
        elif equation.primitive.name in ("add", "add_any") and any(
            not isinstance(v, core.Literal) and v in scattered for v in equation.invars
        ):
            spent = 0  # XLA scatters onto the other operand instead
            scattered.update(equation.outvars)
        found.operations[line] += spent
        found.products += spent if is_sum_of_products(equation) else 0
        found.written[line] += times * _written(equation)
        found.primitives.setdefault(line, Counter())[equation.primitive.name] += spent
    return found


def _written(equation: Any) -> int:
    """The elements that `equation` writes; into an array that it is given it writes in place."""
    name = equation.primitive.name
    if name == "dynamic_update_slice":
        return _size(equation.invars[1])
    return _size(equation.invars[2]) if name.startswith("scatter") else sum(_size(v) for v in equation.outvars)


def is_sum_of_products(equation: Any) -> bool:
    """Whether `equation` sums products, of which libraries do several at a time; outer products don't count."""
    name = equation.primitive.name
    return name in PRODUCTS and not (name == "dot_general" and not equation.params["dimension_numbers"][0][0])


def runs(equation: Any) -> int:
    """The number of times that `equation` runs its body; 1 if only data determine it."""
    return equation.params["length"] if equation.primitive.name == "scan" else 1


def inner_jaxprs(equation: Any) -> Iterator[Any]:
    """The jaxprs that `equation` runs, with all branches except those for other platforms."""
    platforms = equation.params.get("branches_platforms")
    if platforms is not None:
        here = [k for k, names in enumerate(platforms) if names is None or jax.default_backend() in names]
        yield equation.params["branches"][here[0]].jaxpr
        return
    for value in equation.params.values():
        for part in value if isinstance(value, tuple | list) else (value,):
            inner = getattr(part, "jaxpr", part)
            if hasattr(inner, "eqns") and equation.primitive.name not in ("scatter-add", "scatter", "reduce"):
                yield inner


def all_equations(equations: Iterable[Any]) -> Iterator[Any]:
    """`equations`, and those in the jaxprs that they run."""
    stack = list(equations)
    while stack:
        equation = stack.pop()
        yield equation
        for part in inner_jaxprs(equation):
            stack += part.eqns


def _size(v: Any) -> int:
    return math.prod(int(n) for n in getattr(v.aval, "shape", ()))


def operations(equation: Any) -> int:
    """The arithmetic of one equation; additions and multiplications count one each."""
    name = equation.primitive.name
    out = sum(_size(v) for v in equation.outvars)
    if name == "dot_general":
        (over, _), _ = equation.params["dimension_numbers"]
        return out * (2 * math.prod(int(equation.invars[0].aval.shape[d]) for d in over) if over else 1)
    if name == "conv_general_dilated":
        kernel, spec = equation.invars[1].aval.shape, equation.params["dimension_numbers"].rhs_spec
        taps = math.prod(int(n) for d, n in enumerate(kernel) if d != spec[0])
        apart = math.prod(equation.params["lhs_dilation"] or (1,))  # zeros from dilation cost nothing in XLA's code
        groups = equation.params["batch_group_count"]  # XLA computes all pairs of groups, and keeps the matching ones
        return 2 * out * taps * groups // apart
    if name.startswith(("reduce_window", "select_and_scatter")):
        return out * math.prod(equation.params.get("window_dimensions", (1,)))
    if name.startswith(("reduce", "arg", "cum")):
        return _size(equation.invars[0])
    if name.startswith("scatter"):
        return _size(equation.invars[2])
    if name == "sort":
        length = int(equation.invars[0].aval.shape[equation.params["dimension"]])
        return SORTED * _size(equation.invars[0]) * length.bit_length()
    if name == "tensorlang":
        return _program_operations(equation, out)
    return 0 if name in FREE else out


def _program_operations(equation: Any, out: int) -> int:
    """The cost of a tensor program among the equations; if that is unknown, the number of its results."""
    sizes = {size.name: int(n) for size, n in equation.params["sizes"]}
    try:
        return program_cost(equation.params["op"].function, sizes)
    except TensorlangError:
        return out


def program_cost(f: Function, sizes: dict[str, int]) -> int:
    """The cost of a program at these sizes, if relations hold everywhere and elements of index arrays are distinct.

    Both sides of conditions on values count everywhere. Raises `CountingError` if there are too many elements.
    """
    f = _without_conditions(f)
    if all(isinstance(p, Var) for p in f.params):
        return cost(f, sizes)
    known: dict[Atom, int] = {Size(name): n for name, n in sizes.items()}
    given: dict[str, Any] = {}
    for p in f.params:
        if isinstance(p, Var):
            continue
        dims = tuple(a.value(known) for a in p.sizes)
        if math.prod(dims) > _LARGEST_DATA:
            raise CountingError(f"data of {math.prod(dims):,} elements")
        if isinstance(p, Relation):
            given[p.name] = np.ones(dims, bool)
        else:
            given[p.name] = np.arange(math.prod(dims)).reshape(dims) % max(1, p.size.value(known))
    return cost(f, {**sizes, **given})


def _without_conditions(f: Function) -> Function:
    """`f` without conditions on values, since compiled code computes both sides everywhere."""

    def asks_values(q: Predicate) -> bool:
        return any(e.array.size == constant(2) and e.array not in f.params for e in lookups(q))

    def made(_: Expr, e: Expr) -> Expr:
        if not isinstance(e, Bracket):
            return e
        return bracket(conjunction(q for q in conjuncts(e.pred) if not asks_values(q)), e.body)

    return replace(f, body=rewrite(f.body, lambda _: None, made))
