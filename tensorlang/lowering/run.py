"""Lowered programs: generated source, run under JAX."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any, Protocol

import jax
import numpy as np

from tensorlang.costs.extrema import empty_extremum
from tensorlang.errors import ArgumentError, LimitError, placed
from tensorlang.language.affine import IndexArray, Size
from tensorlang.language.arguments import Bound, bind, from_leaves, is_foreign, to_leaves
from tensorlang.language.elements import check_range
from tensorlang.language.function import Function
from tensorlang.language.given import together
from tensorlang.language.grammar import Var
from tensorlang.language.predicates import Relation
from tensorlang.language.types import Type
from tensorlang.lowering.checked import check_traced
from tensorlang.lowering.coordinates import Coordinates, points_or_mask
from tensorlang.lowering.emit.runnable import Runnable, runnable
from tensorlang.lowering.kept import Kept
from tensorlang.lowering.namespace import defined
from tensorlang.shown import GeneratedCode
from tensorlang.simplification import simplify
from tensorlang.surface.inline import opened

if TYPE_CHECKING:  # what made the code is imported when it is asked for: code that is kept on disk needs none of it
    from tensorlang.lowering.arrays.program import ArrayProgram
    from tensorlang.lowering.emit.module import Source
    from tensorlang.lowering.explain import LoweringExplanation
    from tensorlang.lowering.plan.ir import Plan


class Lowered(GeneratedCode):
    """A program as Python that uses `jax.numpy`.

    `source` is that Python: self-contained, one function named after the program that takes its parameters in order,
    reads the sizes off their shapes, and gives the results as tuples. Calling a `Lowered` checks the arguments and runs
    it compiled by `jax.jit`; under JAX's own transformations it is traced like any JAX function. Shapes and dtypes are
    checked once for all arguments that share them.

    It takes relations as boolean arrays. A relation that is given as a SciPy sparse matrix or a boolean array, is not
    itself being traced, and holds at few enough points, is passed as the list of these instead, and costs as much as
    they do: see `source_on_points`. The code is then compiled again for every number of points. The points are kept as
    long as the object that was given lives, and its data are compared at every call, so it may be written to.

    >>> print(tl.lower(tl.parse("f(x: R) = x * x"))(3.0))
    9.0
    """

    def __init__(
        self,
        f: Function,
        exact: bool = False,
        sizes: Mapping[str, int] | None = None,
        check: bool = False,
        strict: bool = False,
        store: str = "needed",
    ) -> None:
        self.function = f
        self._exact, self._check, self._strict, self._store = exact, check, strict, store
        self._sizes = tuple((sizes or {}).items())
        self._forms: dict[tuple[Relation, ...], Form] = {}
        self._plans: dict[Hashable, _Plan] = {}
        self._form(())

    def __str__(self) -> str:
        return self.source

    @cached_property
    def _simplified(self) -> Function:
        return simplify(opened(self.function), **dict(self._sizes))

    @property
    def source(self) -> str:  # type: ignore[override]
        """The Python that it runs.

        >>> lowered = tl.lower(tl.parse("f(x: [n]R) = sum i:n. x[i]"))
        >>> print(lowered.source.splitlines()[0])
        import jax.numpy as jnp
        """
        return self._form(()).made.text

    @property
    def source_on_points(self) -> str:
        """The source for relations that are given by their points: index arrays, and perhaps orders of them.

        >>> f = tl.parse("f(E: rel(n, n), x: [n]R) = gen i:n. sum j:n. [E(i, j)] * x[j]")
        >>> "E_0, E_1 = E" in tl.lower(f).source_on_points  # the rows of the points, and their columns
        True
        """
        return self._form(tuple(p for p in self.function.params if isinstance(p, Relation))).made.text

    @property
    def plan(self) -> Plan:
        """The arrays that it makes, and how each is stored.

        Raises `ArgumentError` for a program with recurrences, each part of which has its own, and for kernels.

        >>> f = tl.parse("f(x: [n]R) = (let s = gen i:n. sum j:n. [j <= i] * x[j] in gen i:n. s[i] * s[i])")
        >>> print(tl.lower(f).plan)
        plan f(x)
          s[i] dense := gen i:n. sum j:n. [j <= i] * x[j] : [n]R
          return gen i:n. s[i] * s[i] : [n]R
        """
        return self._source().program.plan

    @property
    def array_program(self) -> ArrayProgram:
        """The operations that compute them; `array_program.definition` is what `source` is written from.

        Raises what `plan` raises.

        >>> print(tl.lower(tl.parse("f(x: [n]R) = sum i:n. x[i]")).array_program)
        define f(x)
          dtype := result_type(float, x)
          x := asarray(x, dtype)
          n := length(x, 0)
        <BLANKLINE>
          ; result = sum i:n. x[i] : R
          result := sum(x)
          return result
        """
        return self._source().program

    @property
    def definition(self) -> str:
        """The function alone of `source`, without the parts of the library that it calls.

        Raises what `plan` raises.

        >>> print(tl.lower(tl.parse("f(x: [n]R) = sum i:n. x[i]")).definition)
        def f(x):
            dtype = jnp.result_type(float, x)
            x = jnp.asarray(x, dtype)
            n = x.shape[0]
        <BLANKLINE>
            # result = sum i:n. x[i] : R
            result = jnp.sum(x)
            return result
        """
        return self._source().definition

    def _source(self, on_points: tuple[Relation, ...] = ()) -> Source:
        from tensorlang.lowering.emit.module import Source
        from tensorlang.lowering.emit.recurrences import Recurrent

        made = self._form(on_points).made
        made = made.whole if isinstance(made, Runnable) else made
        if isinstance(made, Recurrent):
            hint = "source has all of them, and explain() says how each is computed"
            raise ArgumentError("each part of a program with recurrences has an array program of its own", hint=hint)
        if not isinstance(made, Source):
            raise ArgumentError(f"{type(self).__name__} has no array program of its own", hint="the target 'jax' has")
        return made

    def explain(
        self,
        given: Mapping[str, int] | None = None,
        /,
        on_points: bool = False,
        **by_name: int | Mapping[str, int],
    ) -> LoweringExplanation:
        """How each array of the program is stored and computed, what was not chosen, and why.

        It gives what each array costs, and all of them, beside the model's count: for all sizes, or at sizes given by
        name, as keywords or in a mapping. With `on_points` it is about the source for relations that are given by their
        points; their number for a relation E is the size "E.points", which a mapping can give.

        Raises `ArgumentError` if some sizes are given and others not.

        >>> lowered = tl.lower(tl.parse("f(A: [n][m]R, x: [m]R) = gen i:n. sum j:m. A[i, j] * x[j]"))
        >>> print(lowered.explain()["result"].cost, lowered.explain(n=3, m=4)["result"].cost, sep="; ")
        2*m*n operations; 24 operations
        """
        from tensorlang.lowering.arrays.cost import cost_notes, cost_of, step_cost
        from tensorlang.lowering.emit.recurrences import Recurrent
        from tensorlang.lowering.explain import Explained, LoweringExplanation

        relations = tuple(p for p in self.function.params if isinstance(p, Relation)) if on_points else ()
        sizes = all_sizes(self.function, given, by_name, relations)
        form = self._form(relations).made
        recurrent = form.whole if isinstance(form, Runnable) else form
        if isinstance(recurrent, Recurrent):
            notes = [*cost_notes(recurrent.cost, sizes), *recurrent.not_counted]
            return LoweringExplanation("jax", tuple(recurrent.explained), tuple(notes))
        made = self._source(relations)
        plan, steps = made.program.plan, made.program.explained
        notes = [f"{name} is {note}" for name, note in plan.notes.items()]
        cost = cost_of(self.function, made.program)
        steps = [replace(s, cost=step_cost(cost, s.name, sizes)) for s in steps]
        notes += cost_notes(cost, sizes)
        literals = [Explained(g.variable.name, f"{g.variable.name} = {g}", "a constant", "") for g in plan.given]
        return LoweringExplanation("jax", (*literals, *steps), tuple(notes))

    @placed
    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """The value of the program for these arguments.

        Raises `ArgumentError` if they don't fit, or leave an extremum without a point.
        """
        if not kwargs and are_arrays(args) and (direct := self._form(()).direct) is not None:
            return direct(*args)
        if list in map(type, args):  # not to look at each of its numbers
            args, kwargs = self._plain(args, kwargs)
        leaves, tree = jax.tree.flatten((args, kwargs))
        kinds = tuple(map(_kind, leaves))
        plan = self._plans.get((tree, kinds))
        if plan is None:
            if None in kinds or _has_lists((args, kwargs)):
                args, kwargs = self._plain(args, kwargs)
                return self(*args, **kwargs)
            _concrete.update(type(x) for x in leaves if isinstance(x, jax.Array) and not isinstance(x, jax.core.Tracer))
            if len(self._plans) >= _PLANS:
                self._plans.clear()
            plan = self._plans[tree, kinds] = _plan(self.function, leaves, tree)
        values = [leaves[k] if isinstance(k, int) else k for k in plan.sources]
        for k in plan.numbers:
            values[k] = np.asarray(values[k])
        for k, indices in plan.indices:
            _check_range(indices, values[k], plan.sizes)
            if self._check:
                check_traced(indices, values[k], plan.sizes)
        on_points = []
        for k, relation in plan.relations:
            values[k] = self._points_or_mask(values[k])
            if isinstance(values[k], Coordinates):
                on_points.append((k, relation))
        form = self._form(tuple(relation for _, relation in on_points))
        for k, relation in on_points:
            values[k] = values[k].given(form.made.orders[relation])
        return self._run(form, plan.tree.unflatten(values), plan.sizes)

    def _points_or_mask(self, value: Any) -> Any:
        """How a relation is given to the generated function: its points, or a boolean array."""
        made = self._form(()).made
        if isinstance(made, Runnable) and made.takes_masks:
            return value.toarray() if hasattr(value, "toarray") else value
        return points_or_mask(value)

    def _run(self, form: Form, arguments: Sequence[Any], sizes: Mapping[Size, int]) -> Any:
        """The generated function's value for arguments that fit."""
        told = {name: sizes[size] for size, name in form.made.told.items()}
        return form.run(*arguments, **told)

    def _plain(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, int]]:
        """The arguments with arrays instead of lists and of exact numbers. Raises `ArgumentError`."""
        bound = bind(self.function, args, kwargs)
        told = self._form(()).made.told
        return values_of(self.function, bound), {size.name: n for size, n in bound.sizes.items() if size in told}

    def _form(self, on_points: tuple[Relation, ...]) -> Form:
        """The program for these relations given by their points, the others as boolean arrays."""
        if on_points not in self._forms:
            made = runnable(self.function, self._sizes, on_points, self._exact, self._strict, self._store)
            run = defined(made)
            direct = None if self._check else _direct(self.function, made, run)
            self._forms[on_points] = Form(made, jax.jit(run, static_argnames=list(made.told.values())), direct)
        return self._forms[on_points]


def all_sizes(
    f: Function, given: Mapping[str, int] | None, by_name: Mapping[str, Any], on_points: Sequence[Relation] = ()
) -> Mapping[str, int]:
    """The sizes of `f` that are given: all, or none. Raises `ArgumentError`."""
    sizes = together(given, by_name)
    needed = (*(s.name for s in f.sizes), *(f"{p.name}.points" for p in on_points))
    missing = [name for name in needed if name not in sizes]
    if sizes and missing:
        raise ArgumentError(f"the cost depends on {missing[0]}", hint=f'explain({{"{missing[0]}": .., ..}})')
    return sizes


class LoweredSource(Protocol):
    """The source of a function: see `Source`."""

    name: str
    told: dict[Size, str]
    orders: dict[Relation, Any]

    @property
    def text(self) -> str:
        """The Python, with comments."""


@dataclass(frozen=True)
class Form:
    """The program for one way to give the relations: its source, the compiled function, and one that is called with
    arrays as a user has given them, by position, if only their shapes and dtypes matter."""

    made: LoweredSource
    run: Callable[..., Any]
    direct: Callable[..., Any] | None = None


def _direct(f: Function, made: LoweredSource, run: Callable[..., Any]) -> Callable[..., Any] | None:
    """`run` compiled for arrays as `f` takes them. Their shapes and dtypes are checked once, as it is traced, so that a
    call does nothing except run the code. None if elements matter, or sizes that no shape determines."""
    if made.told or not all(isinstance(p, Var) for p in f.params):
        return None

    def direct(*args: Any) -> Any:
        leaves, tree = jax.tree.flatten((args, {}))
        plan = _plan(f, leaves, tree)
        return run(*plan.tree.unflatten([leaves[k] if isinstance(k, int) else k for k in plan.sources]))

    direct.__name__ = direct.__qualname__ = made.name
    return jax.jit(direct)


def are_arrays(args: tuple[Any, ...]) -> bool:
    """Whether these are arrays of numbers, or pairs of them, none of which is traced."""
    for x in args:
        kind = type(x)
        if kind is np.ndarray:
            if x.dtype.kind not in "biuf":
                return False
        elif kind is tuple:
            if not are_arrays(x):
                return False
        elif kind not in _concrete:
            return False
    return True


_concrete: set[type] = set()
"""The types of JAX's arrays that hold data, as far as any have been met."""


@dataclass(frozen=True)
class _Plan:
    """How arguments of certain shapes and dtypes become those of the generated function.

    `sources` are the arrays in these: the places of leaves of the arguments, or constants. Of them `numbers` are not
    arrays yet, `indices` must be in their ranges, and `relations` may be passed as their points.
    """

    sources: tuple[Any, ...]
    tree: Any
    sizes: dict[Size, int]
    numbers: tuple[int, ...]
    indices: tuple[tuple[int, IndexArray], ...]
    relations: tuple[tuple[int, Relation], ...]


def _plan(f: Function, leaves: Sequence[Any], tree: Any) -> _Plan:
    """What to do with arguments of these shapes and dtypes. Raises `ArgumentError` if they don't fit, whatever they
    hold."""
    args, kwargs = tree.unflatten([_placeholder(k, x) for k, x in enumerate(leaves)])
    bound = bind(f, args, kwargs)
    check_extrema(f, bound.sizes)
    values = values_of(f, bound)
    parts, shaped = jax.tree.flatten(values)
    starts = np.cumsum([0, *(len(jax.tree.leaves(value)) for value in values)]).tolist()
    places = list(zip(starts, f.params, strict=False))
    return _Plan(
        sources=tuple(x.place if isinstance(x, _Placeholder) else x for x in parts),
        tree=shaped,
        sizes=bound.sizes,
        numbers=tuple(k for k, x in enumerate(parts) if isinstance(x, _Placeholder) and x.is_number),
        indices=tuple((k, p) for k, p in places if isinstance(p, IndexArray)),
        relations=tuple((k, p) for k, p in places if isinstance(p, Relation)),
    )


_EXACT = np.dtype(object)
_PLANS = 256
"""The most plans that are kept for a program."""


@dataclass(frozen=True)
class _Placeholder:
    """An argument without elements: the leaf of that place among all."""

    place: int
    shape: tuple[int, ...]
    dtype: Any
    is_number: bool = False

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("a placeholder has no elements")

    def __repr__(self) -> str:
        return "a number with a fraction" if self.is_number else f"an array of shape {self.shape}"


def _kind(leaf: Any) -> Hashable:
    """What the plan for an argument depends on: shape and dtype, or the value if it may be a size.

    None for an argument that must become an array first.
    """
    if isinstance(leaf, float):
        return float
    if isinstance(leaf, int):
        return type(leaf), leaf
    if is_foreign(leaf):
        return None
    try:
        return None if leaf.dtype == _EXACT else (leaf.shape, leaf.dtype)
    except AttributeError:
        return None


def _placeholder(place: int, leaf: Any) -> Any:
    if isinstance(leaf, float):
        return _Placeholder(place, (), np.dtype(float), True)
    return leaf if isinstance(leaf, int) else _Placeholder(place, leaf.shape, leaf.dtype)


def _has_lists(tree: Any) -> bool:
    is_list = lambda x: isinstance(x, list)
    return any(map(is_list, jax.tree.leaves(tree, is_list)))


def check_extrema(f: Function, sizes: dict[Size, int]) -> None:
    """Raise `ArgumentError` if an extremum has no point at these sizes."""
    try:
        wrong = empty_extremum(f, sizes)
    except LimitError:  # too many points to look at each; what data decides gives nan
        wrong = None
    if wrong is not None:
        raise ArgumentError(wrong)


def values_of(f: Function, bound: Bound) -> tuple[Any, ...]:
    """The parameters' values in order, with floating-point numbers for exact ones. Raises `ArgumentError` for other
    data."""
    return tuple(_numbers(p.name, p.type, bound.values[p]) if isinstance(p, Var) else bound.values[p] for p in f.params)


def _numbers(name: str, kind: Type, value: Any) -> Any:
    leaves = to_leaves(kind, value)
    for k, part in enumerate(leaves):
        if isinstance(part, np.ndarray) and part.dtype.kind == "O":
            if not all(isinstance(x, Real) for x in part.flat):
                raise ArgumentError(f"{name} must hold real numbers", hint="floats, integers or fractions")
            leaves[k] = part.astype(float)
        elif np.dtype(part.dtype).kind not in "biufV":
            hint = "complex numbers are two parameters: x.real and x.imag" if np.dtype(part.dtype).kind == "c" else None
            raise ArgumentError(f"{name} must hold real numbers, found the dtype {part.dtype}", hint=hint)
    return from_leaves(kind, iter(leaves))


_in_range: Kept[int] = Kept()


def _check_range(indices: IndexArray, value: Any, sizes: dict[Size, int]) -> None:
    """As `check_range`, but only once for each JAX array, since these are immutable."""
    if isinstance(value, jax.core.Tracer):
        return
    size = indices.size.value(sizes)  # type: ignore[arg-type]
    if _in_range.of(value) != size:
        check_range(indices, value, sizes)
        if isinstance(value, jax.Array):
            _in_range.keep(value, size)
