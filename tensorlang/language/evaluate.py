"""The reference evaluator: Figure 4, read at many points of the indices in scope at once.

An expression has a value at each point of the indices that are free in it. `Evaluator.at` gives these values for
a table of points, and a bracket passes on only the points at which it is true, so what it hides is never
evaluated. A variable bound by `let` is a column of the table like an index: it holds the row of the variable's value
among all the values that it has taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from tensorlang.budget import limited
from tensorlang.errors import ArgumentError, EmptyExtremum, EvaluationError, LimitError, OutOfBounds
from tensorlang.language.affine import Affine, Index, IndexArray, Size, atom_affine
from tensorlang.language.arguments import Bound, bind, from_leaves, leaf_shapes, to_leaves, unpack
from tensorlang.language.dependence import analyse
from tensorlang.language.function import Function
from tensorlang.language.given import apart, require_clear
from tensorlang.language.grammar import (
    Access,
    Add,
    Apply,
    Bracket,
    Call,
    Choice,
    Compared,
    Const,
    Expr,
    Extremum,
    Gen,
    Integer,
    Let,
    MakePair,
    Mul,
    Proj,
    Recur,
    ScalarFunction,
    Sum,
    Var,
)
from tensorlang.language.grid import (
    Setting,
    affine_at,
    columns_of,
    expand,
    holds,
    indices_of,
    looks_up,
    size_of,
)
from tensorlang.language.points import MOST_POINTS, ORIGIN, Ints, Mask, Points, Tuples
from tensorlang.language.predicates import TRUE, Predicate, Relation, conjunction, free_atoms
from tensorlang.language.show import predicate_text
from tensorlang.language.types import Type, of_indices
from tensorlang.language.values import Known, Leaf, Value, Values, find
from tensorlang.recursion import Deep, call, run

_MOST_AXES = 62
_COMPARE = {"<": np.less, "<=": np.less_equal, "=": np.equal}


@limited
def evaluate(f: Function, /, *args: Any, exact: bool = False, **kwargs: Any) -> Any:
    """The value of `f` at these arguments (Figure 4), as `f.results` says: numbers, arrays, tuples.

    Numbers are float64. With `exact`, or if any argument is an array of Python objects (fractions), they are fractions,
    and no rounding happens; then every scalar function must be known exactly. Raises `ArgumentError` for arguments that
    don't fit, or where `exact` may be a parameter of `f` (give that by position, or in a mapping that comes last:
    `evaluate(f, {"exact": x})`), `EvaluationError` for what has no exact value, `OutOfBounds` for an access outside its
    array under true brackets, `EmptyExtremum` for an extremum or a choice without a point there, `LimitError` for
    values that don't fit in memory.

    An extremum of which a value is NaN is NaN, and the choice is the first such point, as in NumPy and JAX.

    >>> f = tl.parse("f(x: [n]R) = sum i:n. x[i]^2")
    >>> tl.evaluate(f, [1, 2], exact=True)
    Fraction(5, 1)
    """
    positions, mapping = apart(args)
    by_position = {p.name: x for p, x in zip(f.params, positions, strict=False)}
    require_clear(f, "evaluate", {**by_position, **mapping}, exact=exact)
    bound = bind(f, args, kwargs)
    leaves = [leaf for v in f.variables for leaf in to_leaves(v.type, bound.values[v])]
    exact = exact or any(isinstance(leaf, np.ndarray) and leaf.dtype.kind == "O" for leaf in leaves)
    evaluator = Evaluator(f, bound, exact)
    with np.errstate(all="ignore"):  # like the generated code: 1/0 is inf, log(-1) is nan
        value = run(evaluator.at(f.body, ORIGIN))
    return unpack(from_leaves(f.type, (leaf.read()[0] for leaf in value)), f.results)


class Evaluator:
    """Evaluates the expressions of one function at given arguments, each once for each point that needs it."""

    def __init__(self, f: Function, bound: Bound, exact: bool) -> None:
        relations = {r: Tuples(data) for r, data in bound.values.items() if isinstance(r, Relation)}
        elements = {
            y: np.asarray(data, np.int64)[None] for y, data in bound.values.items() if isinstance(y, IndexArray)
        }
        self.setting = Setting(bound.sizes, relations, elements)
        self.exact = exact
        self.dtype: Any = object if exact else np.float64
        self.bound: dict[Var | IndexArray, Value] = {}
        for v in f.variables:
            arrays = [self._input(v.name, leaf) for leaf in to_leaves(v.type, bound.values[v])]
            self.bound[v] = tuple(Leaf(array[None]) for array in arrays)
        self.let: dict[Var | IndexArray, tuple[Values, ...]] = {}
        self.free, self.shared = analyse(f.body, frozenset(f.params))
        self.known: dict[Expr, Known] = {}

    def _input(self, name: str, array: Any) -> Values:
        made = np.asarray(array)
        if made.dtype.kind not in "biufO" and made.dtype.name != "bfloat16":
            raise ArgumentError(
                f"{name} must hold real numbers, found dtype {made.dtype}",
                hint="complex numbers are two parameters: x.real and x.imag" if made.dtype.kind == "c" else None,
            )
        try:
            if not self.exact:
                return made.astype(np.float64)
            result = np.empty(made.shape, object)
            result.reshape(-1)[:] = [Fraction(x) for x in made.reshape(-1).tolist()]
        except (TypeError, ValueError, OverflowError) as error:
            kind = "fractions" if self.exact else "real numbers"
            raise ArgumentError(f"{name} must hold {kind}: {error}") from None
        return result

    def at(self, e: Expr, points: Points) -> Deep[Value]:
        """The value of `e` at each of `points`."""
        if not points.count:
            return self._zero(e.type, 0)
        value: Value
        here = points.only(self.free[e])
        if e in self.shared:
            value = yield from call(self._recall(e, here))
        elif isinstance(e, Gen | Sum | Extremum | Choice | Let | Recur | Apply) and here is not points:
            once, back = here.distinct()
            value = yield from call(self._compute(e, once))
            if back is not None:
                value = tuple(leaf.take(back) for leaf in value)
        else:
            value = yield from call(self._compute(e, here))
        return value

    def _recall(self, e: Expr, here: Points) -> Deep[Value]:
        """`at` for an expression that occurs more than once: known values are not computed again."""
        value: Value
        known = self.known.get(e) or Known(here.take(np.zeros(0, np.int64)), self._zero(e.type, 0))
        rows = find(here, known.points)
        if rows is None:
            value = yield from call(self._compute(e, here))
            return value
        if (rows < 0).any():
            fresh, _ = here.take(np.flatnonzero(rows < 0)).distinct()
            value = yield from call(self._compute(e, fresh))
            known = self.known[e] = known.extended(fresh, value)
            rows = find(here, known.points)
            assert rows is not None, "more points have codes if these and those have"
        return tuple(leaf.take(rows) for leaf in known.value)

    def _compute(self, e: Expr, points: Points) -> Deep[Value]:
        value: Value
        match e:
            case Var():  # 4.1
                if e in self.bound:
                    start = np.zeros(points.count, np.int64)
                    return tuple(leaf.take(start) for leaf in self.bound[e])
                return tuple(Leaf(array, points.columns[e]) for array in self.let[e])
            case Const(c):  # 4.2
                return (Leaf(self._full(points.count, c)),)
            case Integer(at):
                return (Leaf(self._numbers(affine_at(at, points, self.setting))),)
            case Add(left, right, sign):  # 4.3
                a, b = (yield from call(self._real(left, points))), (yield from call(self._real(right, points)))
                return (Leaf(a + b if sign > 0 else a - b),)
            case Mul(left, right):  # 4.4
                a, b = (yield from call(self._real(left, points))), (yield from call(self._real(right, points)))
                return (Leaf(a * b),)
            case Call(function, arguments):  # 4.5
                values = []
                for argument in arguments:
                    values.append((yield from call(self._real(argument, points))))
                return (Leaf(self._apply(function, values)),)
            case MakePair(first, second):  # 4.6
                value = yield from call(self.at(first, points))
                return (*value, *(yield from call(self.at(second, points))))
            case Gen(index, size, body):  # 4.7
                n = size_of(size, self.setting)
                self._limit(points.count, e.type)
                inner, _ = expand(points, [(index, size)], TRUE, self.setting)
                value = yield from call(self.at(body, inner))
                return tuple(Leaf(a.reshape(points.count, n, *a.shape[1:])) for a in map(Leaf.read, value))
            case Sum():  # 4.8
                return (Leaf((yield from call(self._sum(e, points)))),)
            case Extremum():
                positions, _, terms = yield from call(self._best(e, points))
                return (Leaf(terms[positions]),)
            case Choice():
                positions, inner, _ = yield from call(self._best(e, points))
                return (Leaf(inner.columns[e.index][positions].astype(np.int64)),)
            case Compared(op, left, right):
                a, b = (yield from call(self._real(left, points))), (yield from call(self._real(right, points)))
                return (Leaf(np.asarray(_COMPARE[op](a, b)).astype(np.int64)),)
            case Let(var, bound, body):  # 4.9
                if self.free[var]:
                    value = yield from call(self.at(bound, points))
                    points = points.having(var, self._store(var, value, points.count))
                elif var not in self.bound:
                    self.bound[var] = value = yield from call(self.at(bound, ORIGIN))
                    if isinstance(var, IndexArray):
                        self.setting.arrays[var] = value[0].read()
                value = yield from call(self.at(body, points))
                return value
            case Recur():
                value = yield from call(self._recur(e, points))
                return value
            case Apply():
                value = yield from call(self._routine(e, points))
                return value
            case Proj(which, body):  # 4.10
                value = yield from call(self.at(body, points))
                k = len(leaf_shapes(e.type))
                return value[:k] if which == 0 else value[len(value) - k :]
            case Access():  # 4.11
                value = yield from call(self._access(e, points))
                return value
            case Bracket(p, body):  # 4.12
                true = holds(p, points.only(columns_of(p)), self.setting)
                value = yield from call(self.at(body, points if true.all() else points.take(true)))
                return value if true.all() else self._spread(e.type, true, value)

    def _real(self, e: Expr, points: Points) -> Deep[Values]:
        value: Value = yield from call(self.at(e, points))
        return value[0].read()

    def _sum(self, e: Sum, points: Points) -> Deep[Values]:
        """Directly nested sums, with the brackets between them, as one sum."""
        binders, p, body = nest(e)
        try:
            inner, rows = expand(points, binders, p, self.setting)
        except LimitError:
            if points.count <= 1:
                raise
            halves = np.array_split(np.arange(points.count), 2)
            first: Values = yield from call(self._sum(e, points.take(halves[0])))
            second: Values = yield from call(self._sum(e, points.take(halves[1])))
            return np.concatenate([first, second])
        terms: Values = yield from call(self._real(body, inner))
        if not self.exact:
            found = np.bincount(rows, weights=terms, minlength=points.count)
            return found.astype(np.float64, copy=False)  # of no terms they are integers
        total = self._full(points.count, Fraction(0))
        np.add.at(total, rows, terms)
        return total

    def _best(self, e: Extremum | Choice, points: Points) -> Deep[tuple[Ints, Points, Values]]:
        """The position of the first best point for each of `points`; all points of the extremum, and their values."""
        inner, rows = expand(points, [(e.index, e.size)], e.pred, self.setting)
        # the points of one row come in any order
        order = np.lexsort((inner.columns[e.index], rows))
        inner, rows = inner.take(order), rows[order]
        starts = np.searchsorted(rows, np.arange(points.count + 1))
        empty = np.flatnonzero(starts[1:] == starts[:-1])
        if len(empty):
            raise self._without_points(e, points.take(empty[:1]))
        terms: Values = yield from call(self._real(e.body, inner))
        best = (np.maximum if e.sign > 0 else np.minimum).reduceat(terms, starts[:-1])[rows]
        found = np.flatnonzero((terms == best) | (terms != terms))  # noqa: PLR0124
        return found[np.searchsorted(rows[found], np.arange(points.count))], inner, terms

    def _recur(self, e: Recur, points: Points) -> Deep[Value]:
        """The states of a recurrence; each is kept like the value of a let, in its own block of rows."""
        state: Value = yield from call(self.at(e.init, points))
        steps = max(0, size_of(e.size, self.setting))
        self._limit(points.count, e.type)
        self._limit(points.count * (steps + 1), e.state.type)
        before = self.let.get(e.state)
        start = 0 if before is None else len(before[0])
        rows = [np.empty((points.count * steps, *leaf.read().shape[1:]), leaf.array.dtype) for leaf in state]
        if before is not None:
            rows = [np.concatenate(both) for both in zip(before, rows, strict=True)]
        self.let[e.state] = tuple(rows)
        arrays: list[Value] = [state]
        for t in range(steps):
            block = start + t * points.count + np.arange(points.count)
            for whole, leaf in zip(self.let[e.state], state, strict=True):
                whole[block] = leaf.read()
            here = points.having(e.index, np.full(points.count, t, np.int64)).having(e.state, block)
            state = yield from call(self.at(e.step, here))
            arrays.append(state)
        if e.word == "fold":
            return state
        kept = {"scan": arrays[1:], "prescan": arrays[:-1], "states": arrays}[e.word]
        if not kept:
            return self._zero(e.type, points.count)
        return tuple(Leaf(np.stack([leaf.read() for leaf in leaves], axis=1)) for leaves in zip(*kept, strict=True))

    def _routine(self, e: Apply, points: Points) -> Deep[Value]:
        """The value of a routine at each point, from its body or the external function."""
        routine = e.routine
        given: list[list[Values]] = []
        for argument in e.arguments:
            value: Value = yield from call(self.at(argument, points))
            given.append([leaf.read() for leaf in value])
        if routine.body is None and self.exact:
            raise EvaluationError(f"{routine.name} has no exact value", hint="evaluate in floating point instead")
        found: list[list[Values]] = []
        for row in range(points.count):
            arguments = [parts[0][row] for parts in given]
            if routine.body is None:
                assert routine.compute is not None
                found.append([np.asarray(x, np.float64) for x in routine.compute(*arguments)])
            else:
                f = Function(routine.name, routine.params, routine.body)
                inner = Evaluator(f, bind(f, tuple(arguments), {}), self.exact)
                made: Value = yield from call(inner.at(f.body, ORIGIN))
                found.append([leaf.read()[0] for leaf in made])
        if not found:
            return self._zero(e.type, 0)
        return tuple(Leaf(np.stack(rows)) for rows in zip(*found, strict=True))

    def _without_points(self, e: Extremum | Choice, points: Points) -> EmptyExtremum:
        sizes = sorted((s for s in free_atoms(e.pred) if isinstance(s, Size)), key=lambda s: s.name)
        witness = self._witness((*(i for i in indices_of(e.pred) if i is not e.index), *e.size.sizes, *sizes), points)
        where = _at(witness)
        condition = "" if e.pred is TRUE else f" where {predicate_text(e.pred)}"
        return EmptyExtremum(
            f"{e.word} {e.index.name}:{e.size}{condition} is over no point{where}",
            hint="a bracket hides it there: [p] * e is 0, and e not evaluated, where p is false",
            witness=witness,
        )

    def _access(self, e: Access, points: Points) -> Deep[Value]:
        path = [e]
        while isinstance(path[-1].body, Access):
            path.append(path[-1].body)
        path.reverse()
        value: Value = yield from call(self.at(path[0].body, points))
        at: list[Ints] = []
        for step in path:
            found = affine_at(step.at, points, self.setting)
            if step.at.lookups:
                self._look_up(step, points)
            length = value[0].array.shape[1 + len(at)]
            outside = np.flatnonzero((found < 0) | (found >= length))
            if len(outside):
                raise self._out_of_bounds(step, int(found[outside[0]]), length, points.take(outside[:1]))
            at.append(found.astype(np.int64))
        return tuple(leaf.select(at) for leaf in value)

    def _look_up(self, e: Access, points: Points) -> None:
        """Raise `OutOfBounds` if the place of `e` looks up an element outside of an index array."""
        for lookup in reversed(e.at.lookups):  # lookups nested in others come first
            outside = np.flatnonzero(~looks_up(atom_affine(lookup), points, self.setting))
            if len(outside):
                sizes = [s for size in lookup.array.sizes for s in size.sizes]
                witness = self._witness((*atom_affine(lookup).free, *sizes), points.take(outside[:1]))
                message = f"the access [{e.at}] looks up {lookup}, which {lookup.array.name} has not{_at(witness)}"
                raise OutOfBounds(message, e.place, witness=witness)

    def _witness(self, atoms: Iterable[Index | Size], points: Points) -> dict[str, int]:
        """The values of indices and sizes at the one point of `points`."""
        return {
            a.name: int(points.columns[a][0]) if isinstance(a, Index) else self.setting.sizes[a]
            for a in dict.fromkeys(atoms)
        }

    def _out_of_bounds(self, e: Access, at: int, length: int, points: Points) -> OutOfBounds:
        witness = self._witness(e.at.free, points)
        where = _at(witness)
        base: Expr = e.body
        while isinstance(base, Access):
            base = base.body
        what = base.name if isinstance(base, Var) else "an array"
        message = f"the access [{e.at}] reads element {at} of {what}{where}, where it has {length} elements"
        return OutOfBounds(message, e.place, witness=witness)

    def _apply(self, f: ScalarFunction, arguments: list[Values]) -> Values:
        if not self.exact:
            value = np.asarray(f.evaluate(*arguments), np.float64)
            return value if value.shape == arguments[0].shape else np.broadcast_to(value, arguments[0].shape)
        if f.exact is None:
            raise EvaluationError(f"{f.name} has no exact value", hint="evaluate in floating point instead")
        try:
            return np.asarray(np.frompyfunc(f.exact, f.arity, 1)(*arguments), object)
        except (ZeroDivisionError, ValueError) as error:
            raise EvaluationError(f"{f.name} has no exact value here: {error}") from None

    def _store(self, var: Var | IndexArray, value: Value, count: int) -> Ints:
        """Keep a value of `var`, and return the row in which it is kept for each point."""
        rows = value[0].rows
        shared = rows is not None and all(leaf.rows is rows for leaf in value)
        arrays = tuple(leaf.array if shared else leaf.read() for leaf in value)
        before = self.let.get(var)
        offset = 0 if before is None else len(before[0])
        if before is not None:
            arrays = tuple(np.concatenate(both) for both in zip(before, arrays, strict=True))
        self.let[var] = arrays
        if isinstance(var, IndexArray):
            self.setting.arrays[var] = arrays[0]
        return offset + (rows if rows is not None and shared else np.arange(count))

    def _spread(self, kind: Type, true: Mask, value: Value) -> Value:
        """`value` at the points where `true`, 0 at the others."""
        result = self._zero(kind, len(true))
        for whole, part in zip(result, value, strict=True):
            whole.array[true] = part.read()
        return result

    def _full(self, count: int, value: Fraction) -> Values:
        return np.full(count, value if self.exact else float(value), self.dtype)

    def _numbers(self, values: Ints) -> Values:
        """Integers as numbers."""
        if not self.exact:
            return values.astype(np.float64)
        numbers = np.empty(len(values), object)
        numbers[:] = [Fraction(k) for k in values.tolist()]
        return numbers

    def _zero(self, kind: Type, count: int) -> Value:
        """0_T at each of `count` points."""
        self._limit(count, kind)
        zero: Any = 0 if of_indices(kind) else Fraction(0) if self.exact else 0.0
        dtype = np.int64 if of_indices(kind) else self.dtype
        return tuple(Leaf(np.full((count, *dims), zero, dtype)) for dims in self._dims(kind))

    def _dims(self, kind: Type) -> Iterator[list[int]]:
        for sizes in leaf_shapes(kind):
            yield [size_of(n, self.setting) for n in sizes]

    def _limit(self, count: int, kind: Type) -> None:
        """Raise `LimitError` if the values of type `kind` at `count` points are more than NumPy can hold."""
        for dims in self._dims(kind):
            if len(dims) > _MOST_AXES:
                raise LimitError(f"an array of {len(dims)} axes; NumPy has at most {_MOST_AXES + 2}")
            if count * math.prod(dims) > 10 * MOST_POINTS:
                raise LimitError(f"an array of shape {tuple(dims)} at {count} points is too large to evaluate")


def setting(bound: Bound) -> Setting:
    """The setting for reading indices, given the data of relations and index arrays."""
    made = Setting(bound.sizes)
    for p, data in bound.values.items():
        if isinstance(p, Relation):
            made.relations[p] = Tuples(data)
        elif isinstance(p, IndexArray):
            made.arrays[p] = np.asarray(data, np.int64)[None]
    return made


def nest(e: Expr) -> tuple[list[tuple[Index, Affine]], Predicate, Expr]:
    """The binders of the sums directly nested in `e`, the conjunction of the brackets among them, and the rest.

    sum i. [p] * sum j. [q] * e  is  sum i, j. [p and q] * e (5.24').
    """
    binders: dict[Index, Affine] = {}
    brackets: list[Predicate] = []
    while True:
        if isinstance(e, Sum) and e.index not in binders:
            binders[e.index] = e.size
            e = e.body
        elif isinstance(e, Bracket):
            brackets.append(e.pred)
            e = e.body
        else:
            return list(binders.items()), conjunction(brackets), e


def _at(witness: dict[str, int]) -> str:
    return f" at {', '.join(f'{name} = {value}' for name, value in witness.items())}" if witness else ""
