"""The program that an importer builds: the values of its statements and parameters."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tensorlang.jaxprs.inputs import Inputs
from tensorlang.jaxprs.refusal import Unsupported
from tensorlang.jaxprs.terms import plus, when
from tensorlang.jaxprs.values import Axes, Bool, Case, Datum, Int, Place, RealNumbers, Value, index_of, plain
from tensorlang.language.affine import Affine, constant
from tensorlang.language.grammar import Expr, bracket, number, real
from tensorlang.language.predicates import FALSE, TRUE, Predicate, at_most, conjunction, equal, less, within


class Builder(Inputs):
    """A program in the making: numbers, constant arrays with known structure, and indices in their ranges."""

    def scalar(self, value: Any) -> Value:
        """A number, an index or a condition."""
        value = np.asarray(value)
        if value.dtype == np.dtype(bool):
            p = TRUE if value else FALSE
            return self.condition((), lambda ix: p)
        if jnp.issubdtype(value.dtype, np.integer):
            k = constant(int(value))
            return Int(axes=(), cases=lambda ix: [(TRUE, k)])
        if not jnp.issubdtype(value.dtype, np.floating):
            raise Unsupported(f"a number of type {value.dtype}", hint="complex numbers stay in JAX")
        x = float(value)
        if np.isinf(x) or np.isnan(x):
            return RealNumbers(axes=(), at=_no_expression, infinite=2 if np.isnan(x) else 1 if x > 0 else -1)
        return self.uniform((), Fraction(str(value)))

    def uniform(self, axes: Axes, c: Fraction) -> RealNumbers:
        """An array of numbers that are all `c`."""
        return RealNumbers(axes=axes, at=lambda ix: number(c), constant=c, positive=c >= 0)

    def constant(self, value: Any, var: Any) -> Value:
        """A constant array: uniform, affine in its places, a band or an interval, or else data."""
        if jnp.issubdtype(value.dtype, jax.dtypes.extended):
            raise Unsupported(f"a constant of type {value.dtype}", hint="random numbers stay in JAX")
        value = np.asarray(value)
        if value.ndim == 0:
            return self.scalar(value)
        axes = plain(value.shape)
        if value.size and (value == value.flat[0]).all():
            one = self.scalar(value.flat[0])
            if isinstance(one, RealNumbers):
                return RealNumbers(
                    axes=axes, at=one.at, constant=one.constant, infinite=one.infinite, positive=one.positive
                )
            if isinstance(one, Int):
                return Int(axes=axes, cases=one.cases)
            assert one.holds is not None
            return self.condition(axes, one.holds)
        if value.dtype == bool:
            return self._known_mask(value, var)
        if jnp.issubdtype(value.dtype, np.integer):
            return self._known_integers(value, var)
        if value.size and np.isin(value, [0, 1]).all():
            found = self._known_mask(value.astype(bool), None)
            if found is not None and found.holds is not None:
                holds = found.holds
                return RealNumbers(axes=axes, at=lambda ix: bracket(holds(ix), number(1)), mask=holds)
        return self.data(var)

    def _known_mask(self, mask: Any, var: Any) -> Any:
        """A constant mask: a band lo <= i - j <= hi of two axes, an interval of one, or the relation `var`."""
        axes = plain(mask.shape)
        long = [d for d in range(mask.ndim) if mask.shape[d] > 1]
        points = np.nonzero(mask)

        def between(a: Callable[[Place], Affine], lo: int, hi: int) -> Bool:
            return self.condition(
                axes, lambda ix: conjunction([at_most(constant(lo), a(ix)), at_most(a(ix), constant(hi))])
            )

        if len(long) == 2:
            d, e = long
            apart = np.arange(mask.shape[d])[:, None] - np.arange(mask.shape[e])
            here = points[d] - points[e]
            lo, hi = int(here.min()), int(here.max())
            if (((apart >= lo) & (apart <= hi)) == mask.reshape(apart.shape)).all():
                return between(lambda ix: ix[d][0] - ix[e][0], lo, hi)
        if len(long) == 1:
            (d,) = long
            lo, hi = int(points[d].min()), int(points[d].max())
            if len(points[d]) == hi - lo + 1:
                return between(lambda ix: ix[d][0], lo, hi)
        return None if var is None else self.data(var)

    def _known_integers(self, value: Any, var: Any) -> Value:
        first = int(value.flat[0]) if value.size else 0
        steps = [int(np.take(value, 1, d).flat[0]) - first if value.shape[d] > 1 else 0 for d in range(value.ndim)]
        fit = first + sum(k * np.arange(n).reshape([-1 if d == e else 1 for e in range(value.ndim)])
                          for d, (k, n) in enumerate(zip(steps, value.shape, strict=True)))  # fmt: skip
        if not value.size or not (np.broadcast_to(fit, value.shape) == value).all():
            return self.data(var)

        def cases(ix: Place) -> list[Case]:
            return [(TRUE, sum((ix[d][0] * k for d, k in enumerate(steps)), constant(first)))]

        return Int(axes=plain(value.shape), cases=cases)

    def real(self, x: Value, var: Any = None) -> RealNumbers:
        """`x` as numbers; `var` is the variable that has them, if there is one."""
        if isinstance(x, RealNumbers):
            return x
        if isinstance(x, Bool):
            if x.holds is None:
                return RealNumbers(axes=x.axes, at=lambda ix: x.choose(ix, number(1), number(0)), positive=True)
            holds = x.holds
            one = number(1)
            return RealNumbers(axes=x.axes, at=lambda ix: when(holds(ix), one), mask=holds, positive=True)
        place, _ = self.indices(x.axes)
        cases = self.possible(x.cases(place))
        if any(isinstance(a, Datum) for _, a in cases):
            if var is None or not self.available(var):
                raise Unsupported("integers of data as numbers")
            return self.numbers(var)
        if len(cases) == 1 and isinstance(a := cases[0][1], Affine) and a.is_constant:
            return self.uniform(x.axes, Fraction(a.constant))

        def at(ix: Place) -> Expr:
            e: Expr = number(0)
            for p, a in self.possible(x.cases(ix)):
                assert isinstance(a, Affine)
                e = plus(e, when(p, real(a)))
            return e

        return RealNumbers(axes=x.axes, at=at)

    def placed(
        self, cases: list[Case], size: Affine, drop: bool, assume: str | None = None
    ) -> list[tuple[Predicate, Affine]]:
        """The cases of indices from 0 to size - 1; others are left out with `drop`, else clipped to that range.

        `assume` is the assumption to note if some may be left out.
        """
        found: list[tuple[Predicate, Affine]] = []
        for p, a in self.possible(cases):
            if isinstance(a, Datum):
                # steps read where they write; with one array of places, these are known to be the same place
                in_step = drop and self._depth > 0 and (self.exact or a.var not in self.hints)
                e = self.element(a, size, drop and not in_step, assume is not None)
                inside = self.inside(a, size) if in_step else less(e, size)
                if assume is not None and (self.exact or a.var not in self.hints):
                    self.assume(assume)
                found.append((p if self.holds(inside) else conjunction([p, inside]), e))
            elif self.holds(inside := within(a, size), p):
                found.append((p, a))
            elif drop:
                found.append((conjunction([p, inside]), a))
                if assume is not None and not self.impossible(conjunction([p, self.negated(inside)])):
                    self.assume(assume)
            else:
                some = less(constant(0), size)  # an empty array is not read
                found += [
                    (conjunction([p, inside]), a),
                    (conjunction([p, less(a, constant(0)), some]), constant(0)),
                    (conjunction([p, at_most(size, a), some]), size - 1),
                ]
        return [(p, a) for p, a in found if not self.impossible(p)] if len(found) > 1 else found

    def is_index(self, x: Int) -> bool:
        """Whether `x` is a known index expression at each place."""
        place, _ = self.indices(x.axes)
        return all(index_of(a) is not None for _, a in x.cases(place))

    def same(self, a: tuple[Affine, ...], b: tuple[Affine, ...]) -> Predicate:
        """a = b, index by index."""
        return conjunction(equal(x, y) for x, y in zip(a, b, strict=True))


def _no_expression(place: Place) -> Expr:
    raise Unsupported("an infinite number, or nan, in a sum or product")
