"""The parameters of a program in the making, and how each is made from values that JAX computes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from tensorlang.jaxprs.origins import Origins
from tensorlang.jaxprs.refusal import Unsupported
from tensorlang.jaxprs.sizes import affine
from tensorlang.jaxprs.statements import Statements
from tensorlang.jaxprs.terms import is_zero, negated, plus, when
from tensorlang.jaxprs.values import (
    Axes,
    Bool,
    Datum,
    Int,
    Place,
    RealNumbers,
    Value,
    Where,
    extents,
    flat_place,
    plain,
)
from tensorlang.language.affine import Affine, IndexArray, Lookup, atom_affine, constant
from tensorlang.language.function import Parameter
from tensorlang.language.grammar import Expr, Var, access
from tensorlang.language.predicates import TRUE, Predicate, Related, Relation, equal
from tensorlang.language.types import R, array

How = Literal["given", "numbers", "mask", "unmask", "clip", "drop", "inside", "permutation", "rank"]


@dataclass(frozen=True)
class ParameterSource:
    """How the array of a parameter is made from the value that JAX computes for the variable `var`.

    "given": the value itself; "numbers": as floats; "mask" and "unmask": as conditions, and as their negations; "clip":
    integers, with `shift` added, clipped to 0 .. size - 1; "drop": integers, with `size` for those out of this range;
    "inside": 1 for integers in it, else 0; "permutation": the order that sorts the value along its axis `size`; "rank":
    for each element, the number of elements in the arrays `among` that are less; of each array only the elements along
    one axis count, at the first place of the others. `promised` integers are assumed to be in range.
    """

    var: Any
    how: How
    size: Any = 0
    promised: bool = False
    among: tuple[tuple[Any, int], ...] = ()
    shift: int = 0

    @property
    def reads(self) -> tuple[Any, ...]:
        """The variables that it reads."""
        return (self.var, *(v for v, _ in self.among))


class Inputs(Statements):
    """Parameters: arrays, conditions and integers that are given, or that JAX computes before the program runs.

    With `exact`, indices out of range, ties and the like are treated as in JAX; otherwise they are assumed not to
    occur.
    """

    def __init__(
        self,
        exact: bool,
        available: Callable[..., bool],
        is_shift: Callable[[Any, Any], bool] = lambda x, y: False,
        origins: Origins | None = None,
        signs: bool = False,
        shifts: int = 0,
    ) -> None:
        super().__init__()
        self.exact = exact
        self.available = available  # whether JAX can compute a variable before the program runs
        self.is_shift = is_shift  # whether the first variable is the second one plus a number
        self.origins = origins  # the origins of variables, if pairs may be compared by ranks
        self.signs = signs  # whether functions of signs become such comparisons
        self.shifts = shifts  # the largest number that is added to integers of data
        self.params: list[Parameter] = []
        self.sources: dict[str, ParameterSource] = {}
        self.hints: dict[Any, str] = {}
        self.constants: dict[Any, Any] = {}
        self._made: dict[Any, Any] = {}
        self._complements: dict[Relation, Relation] = {}

    def parameter(self, p: Any, source: ParameterSource) -> Any:
        """A new parameter."""
        self.params.append(p)
        self.sources[p.name] = source
        self.note(p.name)
        return p

    def data(self, var: Any) -> Value:
        """The value of `var` as a parameter. Raises `Unsupported` if JAX can't compute it beforehand."""
        if var in self._made:
            return self._made[var]
        if not self.available(var):
            raise Unsupported("a value that depends on others that are computed here")
        axes = plain(var.aval.shape)
        sizes = extents(axes)
        dtype = var.aval.dtype
        hint = self.hints.get(var)
        made: Value
        if dtype == np.dtype(bool):
            if not sizes:
                r = self.parameter(Relation(self.name(hint or "mask"), (constant(1),)), ParameterSource(var, "mask"))
                p = Related(r, (constant(0),))
                made = self.condition(axes, lambda ix: p)
            else:
                r = self.parameter(Relation(self.name(hint or "mask"), sizes), ParameterSource(var, "mask"))
                made = self.condition(axes, lambda ix: Related(r, flat_place(ix)))
        elif jnp.issubdtype(dtype, np.integer):
            made = Int(axes=axes, cases=lambda ix: [(TRUE, Datum(var, flat_place(ix)))])
        elif jnp.issubdtype(dtype, np.floating):
            x = self.parameter(Var(self.name(hint or "data"), array(sizes, R)), ParameterSource(var, "given"))
            made = RealNumbers(axes=axes, at=lambda ix: access(x, *flat_place(ix)), variable=x)
        else:
            raise Unsupported(f"values of type {dtype}", hint="complex numbers and keys of random numbers stay in JAX")
        self._made[var] = made
        return made

    def infinity(self, sign: int, axes: Axes) -> RealNumbers:
        """An infinite number, which the language does not have, as a parameter that holds it."""
        if sign not in self._made:
            value = jnp.asarray(sign * np.inf, jnp.float32)
            var = core.Var(jax.typeof(value))
            self.constants[var] = value
            self.hints[var] = "infinity"
            self._made[sign] = self.data(var)
        one = self._made[sign]
        return RealNumbers(axes=axes, at=lambda ix: one.at(()))

    def numbers(self, var: Any) -> RealNumbers:
        """The integers or conditions of `var`, computed by JAX, as floats."""
        key = (var, "numbers")
        if key not in self._made:
            axes = plain(var.aval.shape)
            wanted = self.hints.get(var, "data") + "_numbers"
            x = self.parameter(Var(self.name(wanted), array(extents(axes), R)), ParameterSource(var, "numbers"))
            self._made[key] = RealNumbers(axes=axes, at=lambda ix: access(x, *flat_place(ix)), variable=x)
        return self._made[key]

    # conditions

    def condition(self, axes: Axes, holds: Where) -> Bool:
        """The condition given by a predicate."""

        def choose(place: Place, a: Expr, b: Expr) -> Expr:
            p = holds(place)
            if is_zero(b):
                return when(p, a)
            if self.holds(p):
                return a
            if self.impossible(p):
                return b
            return plus(when(p, a), when(self.negated(p), b))

        return Bool(axes=axes, choose=choose, holds=holds)

    def negated(self, p: Predicate) -> Predicate:
        """Not p."""
        found = negated(p, self.complement)
        if found is None:
            raise Unsupported("the negation of a condition with a quantifier")
        return found

    def complement(self, relation: Relation) -> Relation:
        """The complement of a relation, as a further parameter."""
        if relation not in self._complements:
            source = self.sources[relation.name]
            made = Relation(self.name(relation.name + "_not"), relation.sizes)
            how: How = "mask" if source.how == "unmask" else "unmask"
            self.params.append(made)
            self.sources[made.name] = ParameterSource(source.var, how)
            self._complements[relation] = made
            self._complements[made] = relation
        return self._complements[relation]

    # integers

    def element(self, datum: Datum, size: Affine, drop: bool, promised: bool = False) -> Affine:
        """An element of data as an index from 0 to size - 1; with `drop`, `size` stands for all other values."""
        var = datum.var
        given = var in self.hints and not self.exact
        if given and drop:
            drop = False
        key = (var, size, "given") if given else (var, size, drop, promised)
        if key not in self._made:
            hint = self.hints.get(var, "places")
            sizes = extents(plain(var.aval.shape)) or (constant(1),)
            made = IndexArray(self.name(hint), sizes, size + 1 if drop else size)
            source = ParameterSource(var, "drop" if drop else "clip", size, promised)
            self._made[key] = self.parameter(made, source)
            if given:
                self.assume(f"{hint} is in its range, 0 .. {size} - 1")
        return atom_affine(Lookup(self._made[key], datum.at or (constant(0),)))

    def bound(self, datum: Datum, size: Affine, by: int) -> Affine:
        """A value that compares like an element of data with each index from 0 to size - 1 plus `by`."""
        if datum.var in self.hints and not self.exact:
            known = (k[1] for k in self._made if isinstance(k, tuple) and k[0] is datum.var and k[-1] == "given")
            return self.element(datum, next(known, size + 1), drop=False)
        most = max(self.shifts, abs(by))  # where possible, one array serves for all numbers that are added
        least, range_ = -most - 1, size + 2 * most + 2
        key = (datum.var, range_, least, "bound")
        if key not in self._made:
            sizes = extents(plain(datum.var.aval.shape)) or (constant(1),)
            made = IndexArray(self.name(self.hints.get(datum.var, "bounds")), sizes, range_)
            self._made[key] = self.parameter(made, ParameterSource(datum.var, "clip", range_, shift=-least))
        return atom_affine(Lookup(self._made[key], datum.at or (constant(0),))) + least

    def inside(self, datum: Datum, size: Affine) -> Predicate:
        """The predicate that an element of data is from 0 to size - 1."""
        key = (datum.var, size, "inside")
        if key not in self._made:
            sizes = extents(plain(datum.var.aval.shape)) or (constant(1),)
            made = IndexArray(self.name("inside"), sizes, constant(2))
            self._made[key] = self.parameter(made, ParameterSource(datum.var, "inside", size))
        return equal(atom_affine(Lookup(self._made[key], datum.at or (constant(0),))), constant(1))

    def permutation(self, var: Any, axis: int) -> IndexArray:
        """The order that sorts the value of `var`, computed by JAX, along `axis`."""
        key = (var, "permutation", axis)
        if key not in self._made:
            if not self.available(var, True):
                raise Unsupported("an order of values that are computed here")
            sizes = extents(plain(var.aval.shape))
            made = IndexArray(self.name("order"), sizes, sizes[axis])
            self._made[key] = self.parameter(made, ParameterSource(var, "permutation", axis))
        return self._made[key]

    def ranks(self, x: tuple[Any, int], y: tuple[Any, int]) -> tuple[IndexArray, IndexArray] | None:
        """Ranks for the values of two variables, each along an axis, in their common order; None if JAX can't compute
        these beforehand."""
        if self.origins is None:
            return None
        x, y = self.origins.repeated(*x), self.origins.repeated(*y)
        if not (self.available(x[0], True) and self.available(y[0], True)):
            return None
        among = (x,) if x == y else (x, y)
        size = sum((affine(v.aval.shape[axis]) for v, axis in among), constant(0))

        def made(v: Any, axis: int) -> IndexArray:
            key = (v, axis, "rank", among)
            if key not in self._made:
                rank = IndexArray(self.name("rank"), (affine(v.aval.shape[axis]),), size)
                self._made[key] = self.parameter(rank, ParameterSource(v, "rank", axis, among=among))
            found: IndexArray = self._made[key]
            return found

        return made(*x), made(*y)
