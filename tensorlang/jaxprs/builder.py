"""The program that an importer builds: its names, statements, parameters, and questions about its predicates."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from tensorlang.errors import PythonLine
from tensorlang.jaxprs.origins import Origins
from tensorlang.jaxprs.refusal import Unsupported, line_of
from tensorlang.jaxprs.sizes import affine
from tensorlang.jaxprs.terms import is_zero, negated, plus, when
from tensorlang.jaxprs.values import Axes, Bool, Case, Datum, Int, Place, Real, Value, Where, index_of
from tensorlang.language import functions
from tensorlang.language.affine import Affine, Index, IndexArray, Lookup, Size, atom_affine, constant
from tensorlang.language.function import Parameter
from tensorlang.language.grammar import Expr, Var, access, bracket, gen, number, real, sums
from tensorlang.language.predicates import (
    FALSE,
    TRUE,
    Predicate,
    Related,
    Relation,
    at_most,
    conjunction,
    equal,
    free_atoms,
    less,
    lookups,
    within,
)
from tensorlang.language.types import R, array
from tensorlang.sets.isl import implies, is_empty

MOST_PIECES = 4
"""Values that are put together of more pieces get a name."""

How = Literal["given", "numbers", "mask", "unmask", "clip", "drop", "inside", "permutation", "rank"]


@dataclass(frozen=True)
class Source:
    """How the array of a parameter is made of what JAX computes for the variable `var`.

    "given": it is the array; "numbers": as floats; "mask" and "unmask": as conditions, and as their negations; "clip":
    integers, to which `shift` is added, brought into 0 .. size - 1; "drop": integers that are `size` where they are
    outside of that; "inside": 1 where they are not, else 0; "permutation": the order that sorts it along its axis
    `size`; "rank": how many elements of the arrays `among` are less than each of its own, where of each array what lies
    along one axis is meant, at the first place of the others. `promised` are integers that are assumed in range.
    """

    var: Any
    how: How
    size: Any = 0
    promised: bool = False
    among: tuple[tuple[Any, int], ...] = ()
    shift: int = 0

    @property
    def reads(self) -> tuple[Any, ...]:
        """The variables of which it is made."""
        return (self.var, *(v for v, _ in self.among))


def plain(shape: Iterable[Any]) -> Axes:
    """Axes of one sub-axis each."""
    return tuple((affine(d),) for d in shape)


def extents(axes: Axes) -> tuple[Affine, ...]:
    """The sizes of all sub-axes in order."""
    return tuple(size for axis in axes for size in axis)


def volume(axes: Axes) -> int:
    """The number of elements, 0 where sizes are no numbers."""
    sizes = extents(axes)
    return math.prod(size.constant for size in sizes) if all(size.is_constant for size in sizes) else 0


def flat_place(place: Place) -> tuple[Affine, ...]:
    """The indices of all sub-axes in order."""
    return tuple(a for part in place for a in part)


class Builder:
    """Statements and parameters of a program in the making.

    With `exact`, indices out of range, ties and the like are as in JAX; without, they are assumed not to occur.
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
        self.exact = exact
        self.available = available  # whether JAX can compute a variable before the program runs
        self.is_shift = is_shift  # whether the first variable is the second one plus something
        self.origins = origins  # of what variables are made, where all elements may be compared by their ranks
        self.signs = signs  # whether functions of signs are such comparisons
        self.shifts = shifts  # the greatest number that is added to integers of data
        self.statements: list[tuple[Var | IndexArray, Expr]] = []
        self.params: list[Parameter] = []
        self.sources: dict[str, Source] = {}
        self.hints: dict[Any, str] = {}
        self.constants: dict[Any, Any] = {}
        self.assumed: dict[str, None] = {}
        self.lines: dict[str, PythonLine | None] = {}
        self.equation: Any = None
        self.read: set[Any] = set()  # the variables that equations beside the present one read
        self._names: set[str] = set()
        self._reads: int | None = None  # how many elements are read of what is computed anew for them
        self._depth = 0  # in how many loops what is stated stands
        self._read_few: dict[Any, int] = {}  # how many are in all, of each variable
        self._ranges: dict[Index, Affine] = {}
        self._made: dict[Any, Any] = {}
        self._complements: dict[Relation, Relation] = {}

    # names and statements

    def name(self, wanted: str) -> str:
        """A new name like `wanted`."""
        wanted = re.sub(r"\W", "_", wanted, flags=re.ASCII).strip("_") or "t"
        if not wanted[0].isalpha():
            wanted = "t" + wanted
        if wanted in functions.KEYWORDS or wanted in functions.functions():
            wanted += "_"
        found, k = wanted, 0
        while found in self._names:
            k += 1
            found = f"{wanted}{k}"
        self._names.add(found)
        return found

    def index(self, size: Affine, name: str = "i") -> Index:
        """A new index from 0 to size - 1."""
        made = Index(name, size=size)
        self._ranges[made] = size
        return made

    def indices(self, axes: Axes, letters: str = "ijklabcdefgh") -> tuple[Place, list[tuple[Index, Affine]]]:
        """A place at new indices, and their ranges."""
        binders: list[tuple[Index, Affine]] = []
        place = []
        for axis in axes:
            part = []
            for size in axis:
                made = self.index(size, letters[len(binders) % len(letters)])
                binders.append((made, size))
                part.append(atom_affine(made))
            place.append(tuple(part))
        return tuple(place), binders

    def state(self, axes: Axes, body: Callable[[Place], Expr], hint: str) -> Real:
        """A statement: let x = gen .. body in .."""
        place, binders = self.indices(axes)
        e = body(place)
        x = Var(self.name(hint), array(extents(axes), R))
        self.statements.append((x, gen(binders, e)))
        self.note(x.name)
        sums = self.equation is not None and self.equation.primitive.name in ("dot_general", "reduce_sum")

        def at(place: Place) -> Expr:
            reads = self._reads
            if reads is None or not reads < volume(axes):
                return access(x, *flat_place(place))
            self._reads = None if sums else reads  # what is summed is read more often
            try:
                return body(place)
            finally:
                self._reads = reads

        return Real(axes=axes, at=at, variable=x)

    def named(self, value: Expr, hint: str) -> Var:
        """A name for `value`, which is no expression of elements."""
        x = Var(self.name(hint), value.type)
        self.statements.append((x, value))
        self.note(x.name)
        return x

    def read_few(self, x: Real, axes: Axes) -> Real:
        """`x` computed anew where it is read, if data say where and fewer elements, of these axes, than it has."""
        reads = volume(axes)
        known = self._read_few.get(x.variable, 0) + reads
        if self._depth or x.variable is None or not 0 < 2 * known <= volume(x.axes):
            return x
        self._read_few[x.variable] = known

        def at(place: Place) -> Expr:
            before, self._reads = self._reads, reads
            try:
                return x.at(place)
            finally:
                self._reads = before

        return replace(x, at=at, variable=None)

    def mark(self) -> tuple[int, dict[str, None]]:
        """What has been stated and assumed."""
        return len(self.statements), dict(self.assumed)

    def back_to(self, mark: tuple[int, dict[str, None]]) -> None:
        """Forget what has been stated and assumed since then."""
        del self.statements[mark[0] :]
        self.assumed = dict(mark[1])

    @contextmanager
    def inner(self) -> Iterator[list[tuple[Var | IndexArray, Expr]]]:
        """A context whose statements are those of a step, which is made again and again."""
        outer, self.statements = self.statements, []
        self._depth += 1
        try:
            yield self.statements
        finally:
            self.statements = outer
            self._depth -= 1

    def bounded(self, x: Real) -> Real:
        """`x`, under a name if it is made of many pieces, since expressions would grow."""
        if x.pieces <= MOST_PIECES or x.support is not None or x.infinite or x.constant is not None:
            return x
        return replace(x, at=self.state(x.axes, x.at, "joined").at, pieces=1)

    def note(self, name: str) -> None:
        """Remember the user's line of what is called `name`."""
        self.lines[name] = None if self.equation is None else line_of(self.equation)

    def assume(self, what: str) -> None:
        """Remember that the program is the user's function only where `what` holds."""
        self.assumed[what] = None

    # predicates

    def _context(self, *predicates: Predicate) -> list[Predicate]:
        atoms = {atom for p in predicates for atom in free_atoms(p)}
        ranges = [within(atom_affine(i), self._ranges[i]) for i in atoms if isinstance(i, Index) and i in self._ranges]
        return ranges + [within(atom_affine(x), x.array.size) for p in predicates for x in lookups(p)]

    def holds(self, p: Predicate, where: Predicate = TRUE) -> bool:
        """Whether p holds wherever `where` does, for all sizes."""
        return p is TRUE or implies(conjunction([where, *self._context(p, where)]), p)

    def impossible(self, p: Predicate) -> bool:
        """Whether p holds nowhere, for all sizes of at least 1, as JAX's symbolic ones are."""
        if p is FALSE or p is TRUE:
            return p is FALSE
        sizes = [at_most(constant(1), atom_affine(s)) for s in free_atoms(p) if isinstance(s, Size)]
        return is_empty(conjunction([p, *sizes, *self._context(p)]))

    def range_of(self, atom: Any) -> Affine | None:
        """The size that bounds an index."""
        return self._ranges.get(atom)

    def negated(self, p: Predicate) -> Predicate:
        """Not p."""
        found = negated(p, self.complement)
        if found is None:
            raise Unsupported("the negation of a condition with a quantifier")
        return found

    def complement(self, relation: Relation) -> Relation:
        """The relation that holds where that one does not, a parameter of its own."""
        if relation not in self._complements:
            source = self.sources[relation.name]
            made = Relation(self.name(relation.name + "_not"), relation.sizes)
            how: How = "mask" if source.how == "unmask" else "unmask"
            self.params.append(made)
            self.sources[made.name] = Source(source.var, how)
            self._complements[relation] = made
            self._complements[made] = relation
        return self._complements[relation]

    def possible(self, cases: list[Case]) -> list[Case]:
        """Those cases that occur."""
        if len(cases) > 1:
            cases = [(p, a) for p, a in cases if not self.impossible(p)]
        return [(TRUE, cases[0][1])] if len(cases) == 1 else cases

    # values

    def condition(self, axes: Axes, holds: Where) -> Bool:
        """The condition that is a predicate."""

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
            return Real(axes=(), at=_no_expression, infinite=2 if np.isnan(x) else 1 if x > 0 else -1)
        return self.uniform((), Fraction(str(value)))

    def uniform(self, axes: Axes, c: Fraction) -> Real:
        """Numbers that are all `c`."""
        return Real(axes=axes, at=lambda ix: number(c), constant=c, positive=c >= 0)

    def constant(self, value: Any, var: Any) -> Value:
        """An array that is known: uniform, affine in its places, a band or a stretch, or else data."""
        if jnp.issubdtype(value.dtype, jax.dtypes.extended):
            raise Unsupported(f"a constant of type {value.dtype}", hint="random numbers stay in JAX")
        value = np.asarray(value)
        if value.ndim == 0:
            return self.scalar(value)
        axes = plain(value.shape)
        if value.size and (value == value.flat[0]).all():
            one = self.scalar(value.flat[0])
            if isinstance(one, Real):
                return Real(axes=axes, at=one.at, constant=one.constant, infinite=one.infinite, positive=one.positive)
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
                return Real(axes=axes, at=lambda ix: bracket(holds(ix), number(1)), mask=holds)
        return self.data(var)

    def _known_mask(self, mask: Any, var: Any) -> Any:
        """A band lo <= i - j <= hi of two axes, a stretch of one, or the relation `var`."""
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

    def data(self, var: Any) -> Value:
        """What JAX computes for `var`, as a parameter. Raises `Unsupported` if it can't be had beforehand."""
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
                r = self.parameter(Relation(self.name(hint or "mask"), (constant(1),)), Source(var, "mask"))
                p = Related(r, (constant(0),))
                made = self.condition(axes, lambda ix: p)
            else:
                r = self.parameter(Relation(self.name(hint or "mask"), sizes), Source(var, "mask"))
                made = self.condition(axes, lambda ix: Related(r, flat_place(ix)))
        elif jnp.issubdtype(dtype, np.integer):
            made = Int(axes=axes, cases=lambda ix: [(TRUE, Datum(var, flat_place(ix)))])
        elif jnp.issubdtype(dtype, np.floating):
            x = self.parameter(Var(self.name(hint or "data"), array(sizes, R)), Source(var, "given"))
            made = Real(axes=axes, at=lambda ix: access(x, *flat_place(ix)), variable=x)
        else:
            raise Unsupported(f"values of type {dtype}", hint="complex numbers and keys of random numbers stay in JAX")
        self._made[var] = made
        return made

    def parameter(self, p: Any, source: Source) -> Any:
        """A new parameter."""
        self.params.append(p)
        self.sources[p.name] = source
        self.note(p.name)
        return p

    def infinity(self, sign: int, axes: Axes) -> Real:
        """An infinite number, which the language does not have, as a parameter that holds it."""
        if sign not in self._made:
            value = jnp.asarray(sign * np.inf, jnp.float32)
            var = core.Var(jax.typeof(value))
            self.constants[var] = value
            self.hints[var] = "infinity"
            self._made[sign] = self.data(var)
        one = self._made[sign]
        return Real(axes=axes, at=lambda ix: one.at(()))

    def numbers(self, var: Any) -> Real:
        """The integers or conditions that JAX computes for `var`, as floats."""
        key = (var, "numbers")
        if key not in self._made:
            axes = plain(var.aval.shape)
            wanted = self.hints.get(var, "data") + "_numbers"
            x = self.parameter(Var(self.name(wanted), array(extents(axes), R)), Source(var, "numbers"))
            self._made[key] = Real(axes=axes, at=lambda ix: access(x, *flat_place(ix)), variable=x)
        return self._made[key]

    def permutation(self, var: Any, axis: int) -> IndexArray:
        """The order that sorts what JAX computes for `var` along `axis`."""
        key = (var, "permutation", axis)
        if key not in self._made:
            if not self.available(var, True):
                raise Unsupported("an order of values that are computed here")
            sizes = extents(plain(var.aval.shape))
            made = IndexArray(self.name("order"), sizes, sizes[axis])
            self._made[key] = self.parameter(made, Source(var, "permutation", axis))
        return self._made[key]

    def ranks(self, x: tuple[Any, int], y: tuple[Any, int]) -> tuple[IndexArray, IndexArray] | None:
        """Indices that are ordered as what JAX computes for two variables along an axis each, if that can be had."""
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
                self._made[key] = self.parameter(rank, Source(v, "rank", axis, among=among))
            found: IndexArray = self._made[key]
            return found

        return made(*x), made(*y)

    def element(self, datum: Datum, size: Affine, drop: bool, promised: bool = False) -> Affine:
        """That element as an index from 0 to size - 1; with `drop`, to size, which stands for all others."""
        var = datum.var
        given = var in self.hints and not self.exact
        if given and drop:
            drop = False
        key = (var, size, "given") if given else (var, size, drop, promised)
        if key not in self._made:
            hint = self.hints.get(var, "places")
            sizes = extents(plain(var.aval.shape)) or (constant(1),)
            made = IndexArray(self.name(hint), sizes, size + 1 if drop else size)
            source = Source(var, "drop" if drop else "clip", size, promised)
            self._made[key] = self.parameter(made, source)
            if given:
                self.assume(f"{hint} is in its range, 0 .. {size} - 1")
        return atom_affine(Lookup(self._made[key], datum.at or (constant(0),)))

    def is_index(self, x: Int) -> bool:
        """Whether it is known at each place which index `x` is."""
        place, _ = self.indices(x.axes)
        return all(index_of(a) is not None for _, a in x.cases(place))

    def bound(self, datum: Datum, size: Affine, by: int) -> Affine:
        """What compares as that element does with all indices from 0 to size - 1, plus `by`."""
        if datum.var in self.hints and not self.exact:
            known = (k[1] for k in self._made if isinstance(k, tuple) and k[0] is datum.var and k[-1] == "given")
            return self.element(datum, next(known, size + 1), drop=False)
        most = max(self.shifts, abs(by))  # if it can be, one array is for all numbers that are added
        least, range_ = -most - 1, size + 2 * most + 2
        key = (datum.var, range_, least, "bound")
        if key not in self._made:
            sizes = extents(plain(datum.var.aval.shape)) or (constant(1),)
            made = IndexArray(self.name(self.hints.get(datum.var, "bounds")), sizes, range_)
            self._made[key] = self.parameter(made, Source(datum.var, "clip", range_, shift=-least))
        return atom_affine(Lookup(self._made[key], datum.at or (constant(0),))) + least

    def inside(self, datum: Datum, size: Affine) -> Predicate:
        """That the element is one of 0 to size - 1."""
        key = (datum.var, size, "inside")
        if key not in self._made:
            sizes = extents(plain(datum.var.aval.shape)) or (constant(1),)
            made = IndexArray(self.name("inside"), sizes, constant(2))
            self._made[key] = self.parameter(made, Source(datum.var, "inside", size))
        return equal(atom_affine(Lookup(self._made[key], datum.at or (constant(0),))), constant(1))

    def placed(
        self, cases: list[Case], size: Affine, drop: bool, assume: str | None = None
    ) -> list[tuple[Predicate, Affine]]:
        """Indices from 0 to size - 1 as cases: others are left out with `drop`, else brought into that range.

        Where some may be left out, `assume` is what is assumed.
        """
        found: list[tuple[Predicate, Affine]] = []
        for p, a in self.possible(cases):
            if isinstance(a, Datum):
                # steps read where they write: with one array of places that is seen to be the same place
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
                some = less(constant(0), size)  # of nothing, nothing is read
                found += [
                    (conjunction([p, inside]), a),
                    (conjunction([p, less(a, constant(0)), some]), constant(0)),
                    (conjunction([p, at_most(size, a), some]), size - 1),
                ]
        return [(p, a) for p, a in found if not self.impossible(p)] if len(found) > 1 else found

    def real(self, x: Value, var: Any = None) -> Real:
        """`x` as numbers; `var` is the variable that has them, if there is one."""
        if isinstance(x, Real):
            return x
        if isinstance(x, Bool):
            if x.holds is None:
                return Real(axes=x.axes, at=lambda ix: x.choose(ix, number(1), number(0)), positive=True)
            holds = x.holds
            one = number(1)
            return Real(axes=x.axes, at=lambda ix: when(holds(ix), one), mask=holds, positive=True)
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

        return Real(axes=x.axes, at=at)

    # axes

    def summed(self, axes: Axes, body: Callable[[Place], Expr]) -> Expr:
        """The sum of `body` over all places of these axes."""
        place, binders = self.indices(axes, "rstuvwxyz")
        return sums(binders, body(place))

    def same(self, a: tuple[Affine, ...], b: tuple[Affine, ...]) -> Predicate:
        """a = b, index by index."""
        return conjunction(equal(x, y) for x, y in zip(a, b, strict=True))


def _no_expression(place: Place) -> Expr:
    raise Unsupported("an infinite number, or nan, in a sum or product")
