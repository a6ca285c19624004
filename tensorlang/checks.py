"""What `tensorlang check` finds out about a definition: its adjoint's cost at given sizes, at all sizes, compiled."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlang.certificate import Certificate
from tensorlang.costs.cost import cost_of_one_trip
from tensorlang.errors import CountError, LimitError
from tensorlang.language.affine import Affine, Atom, IndexArray
from tensorlang.language.arguments import from_leaves, size_values
from tensorlang.language.function import Function, Parameter, sizes_of
from tensorlang.language.predicates import Relation
from tensorlang.language.types import leaves, shape
from tensorlang.pipeline import Wrt, adjoint

if TYPE_CHECKING:
    from tensorlang.measure.count import Count


@dataclass(frozen=True)
class Charge:
    """The costs of a program and its adjoint at some sizes, and the number of numbers in the program's result."""

    program: int
    adjoint: int
    results: int
    sizes: dict[str, int]

    def exceeds(self, bound: float) -> bool:
        """Whether the adjoint costs more than `bound` times the program plus one for each number of the result."""
        return self.adjoint > Fraction(bound) * self.program + self.results

    def __str__(self) -> str:
        ratio = f"{self.adjoint / self.program:.2f}" if self.program else "none"
        where = ", ".join(f"{name} = {value}" for name, value in self.sizes.items())
        return f"cost {self.program}, adjoint {self.adjoint}, ratio {ratio}" + (f" at {where}" if where else "")

    def as_json(self) -> dict[str, Any]:
        """The fields that JSON shows."""
        ratio = self.adjoint / self.program if self.program else None
        return {"sizes": self.sizes, "cost": self.program, "adjoint_cost": self.adjoint, "ratio": ratio}


@dataclass(frozen=True)
class Machine:
    """A program as XLA compiles it at some sizes, beside what the cost model counts."""

    model: int
    compiled: Count

    @property
    def factor(self) -> float | None:
        """The operations of the compiled program divided by those of the model; None where the model counts none."""
        return self.compiled.operations / self.model if self.model else None

    def __str__(self) -> str:
        factor = "" if self.factor is None else f", {self.factor:.2f} x the model"
        return f"{self.compiled.operations} operations{factor}, {self.compiled.temporaries} bytes of temporaries"

    def as_json(self) -> dict[str, Any]:
        """The fields that JSON shows."""
        return {
            "operations": self.compiled.operations,
            "model": self.model,
            "factor": self.factor,
            "temporaries": self.compiled.temporaries,
        }


@dataclass(frozen=True)
class Checked:
    """What was found out about one definition; None for each check that was not asked for."""

    function: Function
    charge: Charge | None = None
    certificate: Certificate | None = None
    compiled: Mapping[str, Machine | str] | None = None
    excess: str | None = None

    def __str__(self) -> str:
        found = [] if self.charge is None else [str(self.charge)]
        if self.certificate is not None:
            most = f"at most {float(self.certificate.bound):g} times, inputs and outputs counted"
            how = "at all sizes from 1 on" if self.certificate.is_decided else "but counted at small sizes only"
            found.append(f"{most}, {how}")
        head = f"{self.function.name}: {'ok' if self.excess is None else 'too expensive'}"
        lines = [", ".join([head, *found])]
        lines += [f"  compiled {name}: {machine}" for name, machine in (self.compiled or {}).items()]
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """The fields that JSON shows."""
        found: dict[str, Any] = {"name": self.function.name, "type": str(self.function.type)}
        if self.charge is not None:
            found |= self.charge.as_json()
        if self.certificate is not None:
            found["certified"] = str(self.certificate.bound)
            found["decided"] = "all sizes" if self.certificate.is_decided else "small sizes"
        if self.compiled is not None:
            found["compiled"] = {
                name: machine if isinstance(machine, str) else machine.as_json()
                for name, machine in self.compiled.items()
            }
        if self.excess is not None:
            found["excess"] = self.excess
        return found


def charge(f: Function, derived: Function, sizes: Mapping[str, int], data: Mapping[str, Any]) -> Charge:
    """The costs of `f` and its adjoint `derived`; `sizes` may name sizes that `f` doesn't have."""
    given = {**data, **{s.name: sizes[s.name] for s in f.sizes if s.name in sizes}}
    values: dict[Atom, int] = dict(size_values(f, **given).sizes.items())
    results = sum(math.prod(max(0, n.value(values)) for n in shape(part)[0]) for _, part in leaves(f.type))
    asked = sorted(f.sizes, key=lambda s: list(sizes).index(s.name) if s.name in sizes else len(sizes))
    named = {s.name: values[s] for s in asked}
    return Charge(cost_of_one_trip(f, given), cost_of_one_trip(derived, given), results, named)


def compiled(f: Function, wrt: Wrt, sizes: Mapping[str, int], data: Mapping[str, Any]) -> dict[str, Machine | str]:
    """The program and its adjoint as XLA compiles them at these sizes, or the reason why one can't be counted."""
    from tensorlang.lowering.lower import lower
    from tensorlang.measure.count import count

    found: dict[str, Machine | str] = {}
    for name, g in (("program", f), ("adjoint", adjoint(f, wrt))):
        given = {**data, **{s.name: sizes[s.name] for s in g.sizes if s.name in sizes}}
        values: dict[Atom, int] = dict(size_values(g, **given).sizes.items())
        told = {s.name: values[s] for s in g.sizes}
        try:
            made = count(lower(g), *(_argument(p, values, data) for p in g.params), **_unread(g, told))
            found[name] = Machine(cost_of_one_trip(g, given), made)
        except (CountError, LimitError) as error:
            found[name] = f"not counted: {error.message}"
    return found


def _argument(p: Parameter, values: Mapping[Atom, int], data: Mapping[str, Any]) -> Any:
    """A value for a parameter: its shape for numbers, else its data, which are 0 for an index array without any."""
    if isinstance(p, Relation):
        return data[p.name]
    if isinstance(p, IndexArray):
        return np.asarray(data.get(p.name, np.zeros(_extents(p.sizes, values), np.int32)))
    import jax

    struct: Any = jax.ShapeDtypeStruct
    parts = [struct(_extents(shape(part)[0], values), np.float32) for _, part in leaves(p.type)]
    return from_leaves(p.type, iter(parts))


def _unread(f: Function, sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes that occur in no parameter's type."""
    told = {s.name for p in f.params for a in sizes_of(p) for s in a.sizes}
    return {name: n for name, n in sizes.items() if name not in told}


def _extents(sizes: tuple[Affine, ...], values: Mapping[Atom, int]) -> tuple[int, ...]:
    return tuple(a.value(values) for a in sizes)
