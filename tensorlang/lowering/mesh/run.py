"""Programs on a mesh of devices: their source, and running it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType

from tensorlang.errors import ArgumentError
from tensorlang.language.affine import IndexArray, Size
from tensorlang.language.arguments import bind
from tensorlang.language.function import Function
from tensorlang.language.grammar import Choice
from tensorlang.language.predicates import Relation
from tensorlang.lowering.arrays.cost import cost_notes
from tensorlang.lowering.checked import check_traced
from tensorlang.lowering.emit.mesh import MeshSource, uneven
from tensorlang.lowering.emit.partitioned import PartitionedSource
from tensorlang.lowering.explain import Explained, LoweringExplanation
from tensorlang.lowering.mesh.asked import Along, asked
from tensorlang.lowering.mesh.collectives import Collectives
from tensorlang.lowering.mesh.local import Cut
from tensorlang.lowering.mesh.partition import partition
from tensorlang.lowering.mesh.plan import MeshStep, plan
from tensorlang.lowering.namespace import defined
from tensorlang.lowering.run import Form, Lowered, all_sizes, check_extrema, values_of
from tensorlang.shown import Shown
from tensorlang.simplification import simplify
from tensorlang.surface.inline import opened


def sends_choices(
    f: Function,
    mesh: jax.sharding.Mesh | jax.sharding.AbstractMesh,
    sharding: Mapping[str, str | Along],
    sizes: Mapping[str, int] | None,
) -> bool:
    """Whether devices would have to send each other indices that they choose, which a `Distributed` can't."""
    return f.census.has(Choice) and plan(f, asked(f, mesh, sharding), sizes).sends_choices


class Distributed(Shown):
    """A program as Python that runs on all devices of a mesh, by `jax.shard_map` and JAX's collectives.

    `source` is that Python: self-contained, a function of the program's parameters and of the mesh, for sizes that the
    axes of the mesh divide. Calling a `Distributed` checks the arguments and runs it compiled, at any sizes: arrays
    that can't be cut evenly are padded. Arguments may lie on the devices in any way, and are brought to where they are
    needed; those that lie as `in_specs` says are there. Results lie as `out_specs` says. What devices send each other
    is in `collectives`.

    >>> import jax
    >>> f = tl.parse("f(A: [n][m]R, x: [m]R) = gen i:n. sum j:m. A[i, j] * x[j]")
    >>> run = tl.lower(f, mesh=jax.sharding.AbstractMesh((4,), ("x",)), sharding={"m": "x"})
    >>> print(run.explain()["result"].storage, run.collectives, sep="; ")
    mapped: j along x; psum along x: 4*n bytes of result
    """

    def __init__(
        self,
        f: Function,
        mesh: jax.sharding.Mesh | jax.sharding.AbstractMesh,
        sharding: Mapping[str, str | Along],
        exact: bool = False,
        sizes: Mapping[str, int] | None = None,
        check: bool = False,
    ) -> None:
        self.function = f
        self._check = check
        self.mesh = _automatic(mesh)
        self._exact = exact
        self._plan = plan(f, asked(f, mesh, sharding), sizes)
        self._forms: dict[frozenset[Cut], _Form] = {}
        self._at: dict[tuple[tuple[Size, int], ...], _Form] = {}
        made = self._form(uneven(self._plan, None)).made
        self.source: str = made.text
        self.collectives: Collectives = made.collectives
        self.in_specs, self.out_specs = made.in_specs, made.out_specs

    def __str__(self) -> str:
        return self.source

    def explain(self, given: Mapping[str, int] | None = None, /, **by_name: int) -> LoweringExplanation:
        """How each array lies on the mesh, along which axes of it its statement's indices are mapped, what the devices
        send each other, and what each of them computes, beside the model's count for the whole program: for sizes that
        are cut evenly, or at those that are given, all or none.

        Raises `ArgumentError` if some sizes are given and others not.
        """
        sizes = all_sizes(self.function, given, by_name)
        sent = str(self.collectives).splitlines()
        return LoweringExplanation(
            "mesh", tuple(map(self._explained, self._plan.steps)), (*sent, *self._computed(sizes))
        )

    def _computed(self, sizes: Mapping[str, int]) -> list[str]:
        """What each device computes."""
        cost = self._form(uneven(self._plan, None)).made.cost
        if cost is None:
            return ["What each device computes is not known for all sizes: a sum of sizes is cut into blocks."]
        if sizes:
            cost = cost.at({s: sizes[s.name] for s in cost.function.sizes})
        first, *others = cost_notes(cost, sizes)
        return [f"On each of {self.mesh.size} devices: {first[0].lower()}{first[1:]}", *others]

    def _explained(self, step: MeshStep) -> Explained:
        name = step.statement.array.name
        mapped = ", ".join(f"{i.index} along {', '.join(axes)}" for i, axes in step.mapped.items() if axes)
        kept = f"added up over the devices along {', '.join(step.reduced)}" if step.reduced else ""
        text, lies = f"{name}, in stage {step.stage}", f"mapped: {mapped}" if mapped else "replicated"
        return Explained(name, text, lies, kept, computed="on each device its part")

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """The value of the program for these arguments.

        Raises `ArgumentError` if they don't fit, or leave an extremum without a point.
        """
        bound = bind(self.function, args, kwargs)
        for p, value in bound.values.items():
            if isinstance(p, Relation) and hasattr(value, "toarray"):
                bound.values[p] = np.asarray(value.toarray(), bool)
            if isinstance(p, IndexArray) and self._check:
                check_traced(p, value, bound.sizes)
        key = tuple(bound.sizes.items())
        if key not in self._at:
            check_extrema(self.function, bound.sizes)
            self._at[key] = self._form(uneven(self._plan, bound.sizes))
        form = self._at[key]
        run = partial(form.run, mesh=self.mesh, **{name: bound.sizes[size] for size, name in form.made.told.items()})
        return _along_none(run, self.out_specs)(*values_of(self.function, bound))

    def _form(self, cuts: frozenset[Cut]) -> _Form:
        """The program where these sizes can't be cut evenly."""
        if cuts not in self._forms:
            made = MeshSource(self._plan, cuts, self._exact)
            run = jax.jit(defined(made), static_argnames=["mesh", *made.told.values()])
            self._forms[cuts] = _Form(made, run)
        return self._forms[cuts]


class Partitioned(Lowered):
    """A program as Python that XLA partitions for a mesh: `jax.numpy` between parameters and results that are laid out.

    Programs run like this if they have recurrences, numbers of indices, or functions from outside, or choose indices
    that other devices look up. Parameters and results lie as `in_specs` and `out_specs` say; XLA decides where all else
    is computed and what is sent for it, which `tensorlang.measure.collectives.sent_by` reads from the compiled program.
    An axis that can't be cut evenly is whole on every device. Raises `ArgumentError` where that partitioner fails.

    >>> import jax
    >>> f = tl.parse("f(A: [n][n]R, x: [n]R) = fold t:k with s = x. gen i:n. sum j:n. A[i, j] * s[j]")
    >>> run = tl.lower(f, mesh=jax.sharding.AbstractMesh((4,), ("x",)), sharding={"n": "x"})
    >>> print(run.explain().notes[0])
    A lies as P('x',)
    """

    def __init__(
        self,
        f: Function,
        mesh: jax.sharding.Mesh | jax.sharding.AbstractMesh,
        sharding: Mapping[str, str | Along],
        exact: bool = False,
        sizes: Mapping[str, int] | None = None,
        check: bool = False,
        store: str = "needed",
    ) -> None:
        self.mesh = _automatic(mesh)
        whole = opened(f)
        lying = partition(whole, asked(whole, mesh, sharding))
        self._made = PartitionedSource(simplify(whole, **(sizes or {})), lying, exact, store)
        self.in_specs, self.out_specs = self._made.in_specs, self._made.out_specs
        super().__init__(f, exact, sizes, check, False, store)

    def explain(
        self,
        given: Mapping[str, int] | None = None,
        /,
        on_points: bool = False,
        **by_name: int | Mapping[str, int],
    ) -> LoweringExplanation:
        """How arrays are computed, and how parameters and results lie. Raises `ArgumentError` if sizes are given."""
        if given or by_name or on_points:
            raise ArgumentError("operations of what XLA partitions are not counted", hint="explain(), without sizes")
        lie = [f"{p.name} lies as {spec}" for p, spec in zip(self.function.params, self.in_specs, strict=True)]
        return LoweringExplanation("mesh", self._made.explained, (*lie, f"what it gives lies as {self.out_specs}"))

    def _points_or_mask(self, value: Any) -> Any:
        return value.toarray() if hasattr(value, "toarray") else value

    def _form(self, on_points: tuple[Relation, ...]) -> Form:
        if on_points not in self._forms:
            made = self._made
            run = jax.jit(defined(made), static_argnames=["mesh", *made.told.values()])
            self._forms[on_points] = Form(made, lambda *args, **told: self._laid_out(run, args, told))
        return self._forms[on_points]

    def _laid_out(self, run: Callable[..., Any], args: tuple[Any, ...], told: Mapping[str, int]) -> Any:
        try:
            return _along_none(partial(run, mesh=self.mesh, **told), self.out_specs)(*args)
        except jax.errors.JaxRuntimeError as error:
            if "spmd-partitioning" not in str(error):
                raise
            hint = "sizes that are multiples of the number of devices, or fewer indices in sharding"
            raise ArgumentError(f"XLA's partitioner fails for {self.function.name} at these sizes", hint=hint) from None


def _along_none(run: Callable[..., Any], out_specs: Any) -> Callable[..., Any]:
    """`run`, which takes arrays whose types don't say how they lie, for a mesh where types do."""
    if AxisType.Explicit in jax.sharding.get_abstract_mesh().axis_types:
        run = jax.sharding.auto_axes(run, out_sharding=out_specs)
    return run


def _automatic(mesh: jax.sharding.Mesh | jax.sharding.AbstractMesh) -> jax.sharding.Mesh | jax.sharding.AbstractMesh:
    """The same devices, as a mesh where the types of arrays don't say how they lie."""
    if isinstance(mesh, jax.sharding.AbstractMesh):
        return jax.sharding.AbstractMesh(mesh.axis_sizes, mesh.axis_names)
    return jax.sharding.Mesh(mesh.devices, mesh.axis_names)


@dataclass(frozen=True)
class _Form:
    made: MeshSource
    run: Callable[..., Any]
