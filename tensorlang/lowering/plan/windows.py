"""Which recurrences are computed window by window of their times, together with the sums of what their steps give.

    H = Loop(n, Step, inits, frees)
    X = gen g. sum t, .. [p] * H[t, ..] * Y[..]     ->    for each window of times: the states of H in it;
    Z = gen t, g. .. H[t, ..] * Y[t, ..]                  X += the part of the sum;  Z[window] = its elements

So the states over all times are never in memory together, nor what is computed from them, and each part of a sum is a
product of matrices. States of an earlier recurrence that H's steps read at their own time come by windows, too, and so
need not be stored: they can be recomputed from some of them (`store`).

A time tau goes with the steps, or against them if these read the states of an earlier recurrence at n - 1 - r.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Lookup, Size, atom_affine, total
from tensorlang.language.grammar import Var
from tensorlang.language.predicates import Predicate, conjunction, conjuncts, equal, lookups, mapped, substitute
from tensorlang.language.types import R, array
from tensorlang.lowering.plan.slices import sliced_step
from tensorlang.normal.contraction import contraction, inner_solution
from tensorlang.normal.pattern import axes
from tensorlang.normal.ssa import (
    Addend,
    Addition,
    Comparison,
    Constant,
    Contraction,
    Defining,
    Input,
    Integers,
    Loop,
    LoopStep,
    Map,
    Selection,
    Statement,
    comparison,
    factor_indices,
    integers,
    looked_up,
    needs,
    operands,
    own_indices,
    own_ranges,
    predicates,
    selection,
    summed_indices,
)
from tensorlang.normal.tidy import is_index_only
from tensorlang.sets.isl import implies
from tensorlang.sets.solve import ranges_predicate
from tensorlang.simplification.thin import indices_in, leaves_few

WINDOW = Size("window")
"""How many times a window has."""


@dataclass(frozen=True)
class TimeAxis:
    """An axis of a statement that is the time tau, or n - 1 - tau if `turned`."""

    axis: int
    turned: bool


@dataclass(frozen=True, eq=False)
class Sweep:
    """The part of a program that is computed along with a recurrence, window by window.

    `step` reads the sequences `local`, inputs of the program, as `slices`, at its own time. `windows` are the variables
    for windows of sequences, earlier and own ones. `sums` and `rows` are statements of the program with their form in a
    window: sums over its times, and arrays with elements for each of them. `choices` define the index arrays of a
    window.
    """

    loop: Loop
    turned: bool
    start: IndexArray
    step: LoopStep
    frees: tuple[Statement, ...]
    local: tuple[Input, ...]
    slices: tuple[Var, ...]
    windows: Mapping[Input, Var]
    sums: Mapping[Statement, Statement]
    rows: Mapping[Statement, Statement]
    along: Mapping[Statement, TimeAxis]
    inside: frozenset[Statement]
    choices: tuple[Defining, ...]

    @property
    def windows_read(self) -> frozenset[Var]:
        """The sequences that are read by windows."""
        return frozenset(x.param for x in (*self.local, *self.windows))


def found_sweep(
    loop: Loop,
    frees: tuple[Statement, ...],
    own: Sequence[Input],
    earlier: Sequence[Input],
    known: Callable[[Statement], bool],
    statements: Sequence[Statement],
    outside: Sequence[Statement],
    defined: Mapping[IndexArray, Defining],
) -> Sweep | None:
    """The sweep of a loop among the `statements` of a program that reads it as the inputs `own`; None if there is none.

    `earlier` are inputs that are states over the time of recurrences before it, and `known` says of other statements
    whether they are computed before it. The statements `outside` are read by others than statements.
    """
    given = (loop, frees, own, earlier, known, statements, outside, defined)
    first = _Windows(*given)
    found = first.found()
    if found is None or not found.local:  # the time may go either way
        other = _Windows(*given, turned=True).found()
        if other is not None and (found is None or len(other.inside) > len(found.inside)):
            return other
    return found


class _Windows:
    """The search of `found_sweep`, with the time going one way."""

    def __init__(
        self,
        loop: Loop,
        frees: tuple[Statement, ...],
        own: Sequence[Input],
        earlier: Sequence[Input],
        known: Callable[[Statement], bool],
        statements: Sequence[Statement],
        outside: Sequence[Statement],
        defined: Mapping[IndexArray, Defining],
        turned: bool = False,
    ) -> None:
        self.loop, self.frees, self.known, self.turned = loop, frees, known, turned
        self.statements = list(statements)
        self.outside, self.defined = set(outside), defined
        self.start = IndexArray("start", (), loop.size - atom_affine(WINDOW) + 1)
        self.first = atom_affine(Lookup(self.start, ()))
        self.own = [x for x in own if x.shape[0] is loop.size]
        self.earlier = [x for x in earlier if x.shape[0] is loop.size]
        self.windows: dict[Input, Var] = {}
        self.made: dict[Statement, Statement] = {}
        self.along: dict[Statement, TimeAxis] = {}
        self.asked: set[Statement] = set()

    def found(self) -> Sweep | None:
        """The sweep; None if nothing is gained by one."""
        now = sliced_step(self.loop, self.frees, self.earlier, self.turned)
        self.turned = now.turned
        self.along.update((x, TimeAxis(0, self.turned)) for x in self.own)
        self.along.update((x, TimeAxis(0, False)) for x in self.earlier)
        depending: set[Statement] = set(self.own)
        sums: list[Statement] = []
        for x in self.statements:
            if not any(y in depending for y in needs(x, self.defined)):
                # what only moves elements of earlier states is moved in windows, too
                if self._is_repeated(x) and not isinstance(x, Input | Constant) and self._are_known(x, depending):
                    place = self._place(x) if any(y in self.along for y in needs(x, self.defined)) else None
                    if isinstance(place, TimeAxis):
                        self.along[x] = place
                continue
            depending.add(x)
            if not isinstance(x, Addition | Map | Contraction | Defining) or not self._are_known(x, depending):
                continue
            place = self._place(x)
            if place is SUM:
                sums.append(x)
            elif isinstance(place, TimeAxis):
                self.along[x] = place
        rest = [x for x in self.along if not isinstance(x, Input)]
        # what is read outside of windows is wanted for all times; what only moves elements is moved by its readers, few
        # elements of many places are computed by them, and truth values are not passed on
        inside = {*rest, *sums}
        wanted = {*self.outside, *self.loop.inits, *now.frees}
        for x in reversed(self.statements):
            if x in wanted and ((self._is_repeated(x) and not self._is_turned(x)) or _is_thin(x)):
                inside.discard(x)
            if x not in inside:
                wanted.update(needs(x, self.defined))
        rows = [x for x in rest if x in wanted and x in inside]
        if not (sums or rows or now.local):
            return None
        self._ask_along({*sums, *(x for x in rest if x in inside)}, depending)
        self._windows_of(*sums, *rows)
        parts: dict[Statement, Statement] = {x: self._part(x) for x in sums}
        windows: dict[Statement, Statement] = {x: self._window(x) for x in rows}
        return Sweep(
            self.loop,
            self.turned,
            self.start,
            now.step,
            now.frees,
            now.local,
            now.slices,
            self.windows,
            parts,
            windows,
            self.along,
            frozenset(inside),
            tuple(x for x in self.made.values() if isinstance(x, Defining)),
        )

    # where the time is

    @staticmethod
    def _is_repeated(x: Statement) -> bool:
        """Whether each reader of `x` computes it anew."""
        return is_index_only(x) or isinstance(x, Defining)

    def _are_known(self, x: Statement, depending: set[Statement]) -> bool:
        """Whether all that `x` reads is in windows, or there before the recurrence."""
        return all(
            y in self.along if y in depending else y in self.along or self.known(y) for y in needs(x, self.defined)
        ) and not any(c in depending and c not in self.along for c in map(self.defined.get, looked_up(x)))

    def _place(self, x: Statement) -> TimeAxis | str | None:
        """Where the time is in `x`: an axis, or summed over."""
        if not isinstance(x, Contraction):
            places = {self.along[y] for y in operands(x) if y in self.along}
            if len(places) != 1 or any(place.axis >= len(x.shape) for place in places):
                return None
            place = places.pop()
            now = self._as_time(atom_affine(own_indices(x)[place.axis]), place)
            return place if all(time is now for time in self._times_of_choices(x, {})) else None
        solved = inner_solution(x).values
        times = []
        for y, at in zip(x.factors, factor_indices(x), strict=True):
            if y in self.along:
                place = self.along[y]
                i = at[place.axis]
                times.append(self._as_time(solved.get(i, atom_affine(i)), place))
        asked = self._times_of_choices(x, solved)
        moved = not times  # without reading states it may still read their choices
        times = times or asked[:1]
        if not times or any(time is not times[0] for time in asked):
            return None
        tau = times[0]
        if any(time is not tau for time in times):
            known = conjunction([ranges_predicate({**own_ranges(x), **x.pattern.inner}), x.pattern.pred])
            if not all(implies(known, equal(time, tau)) for time in times):
                return None
        for k, (i, size) in enumerate(own_ranges(x).items()):
            if size is self.loop.size and i in tau.indices:
                here = atom_affine(i)
                if tau is here:
                    return TimeAxis(k, False)
                return TimeAxis(k, True) if tau is size - 1 - here else None
        summed = not moved and not any(i in own_ranges(x) for i in tau.indices) and len(tau.indices) == 1
        return SUM if summed else None

    def _ask_along(self, inside: Collection[Statement], depending: set[Statement]) -> None:
        """Let outcomes that are known before the recurrence, and that those `inside` ask at their own time alone, have
        windows, too, and what moves elements under them: they are not passed on, so each window would compute all of
        them."""
        asked: dict[Statement, set[TimeAxis | None]] = {}
        for x in reversed(self.statements):
            if x not in inside:
                places = asked.get(x, set())
                place = next(iter(places)) if len(places) == 1 else None
                if place is None or not all(self.known(y) for y in needs(x, self.defined)):
                    continue
                self.along[x] = place
                if any(isinstance(y, Defining) and self.along.get(y, axis) != axis for y, axis in self._asks(x)):
                    del self.along[x]  # it looks up choices of other times
                    continue
                self.asked.add(x)
            for y, place in self._asks(x):
                is_made = self._is_repeated(y) and not isinstance(y, Input | Constant)
                if is_made and y not in self.along and y not in depending:
                    asked.setdefault(y, set()).add(place)

    def _asks(self, x: Statement) -> Iterator[tuple[Statement, TimeAxis | None]]:
        """What `x` reads and looks up, each with its axis that is read at the time at which `x` reads what has
        windows."""
        solved = inner_solution(x).values if isinstance(x, Contraction) else {}
        time = self._time_in(x, solved)
        for lookup in (a for p in predicates(x) for a in lookups(p)):
            c = self.defined.get(lookup.array)
            if c is not None:
                yield c, self._axis_at(lookup.at, lookup.array.sizes, time, solved)
        if isinstance(x, Contraction):
            for y, at in zip(x.factors, factor_indices(x), strict=True):
                yield y, self._axis_at([atom_affine(i) for i in at], y.shape, time, solved)
        else:
            yield from ((y, self.along.get(x)) for y in operands(x))

    def _time_in(self, x: Statement, solved: Mapping[Atom, Affine]) -> Affine | None:
        """The time at which `x` reads what has windows."""
        if (place := self.along.get(x)) is not None:
            return self._as_time(atom_affine(own_indices(x)[place.axis]), place)
        if isinstance(x, Contraction):
            for y, at in zip(x.factors, factor_indices(x), strict=True):
                if y in self.along:
                    i = at[self.along[y].axis]
                    return self._as_time(solved.get(i, atom_affine(i)), self.along[y])
        return next(iter(self._times_of_choices(x, solved)), None)

    def _axis_at(
        self, at: Sequence[Affine], sizes: Sequence[Affine], time: Affine | None, solved: Mapping[Atom, Affine]
    ) -> TimeAxis | None:
        """The axis that is read at this time."""
        for k, (a, size) in enumerate(zip(at, sizes, strict=True)):
            if size is self.loop.size:
                found = a.substitute(solved)
                for turned in (False, True):
                    if self._as_time(found, TimeAxis(k, turned)) is time:
                        return TimeAxis(k, turned)
        return None

    def _is_then(self, y: Statement, at: Sequence[Index], time: Affine | None, solved: Mapping[Atom, Affine]) -> bool:
        """Whether `y`, which has windows and is read at these places, is read at this time."""
        place = self.along[y]
        return self._as_time(atom_affine(at[place.axis]).substitute(solved), place) is time

    def _as_time(self, a: Affine, place: TimeAxis) -> Affine:
        """The time at `a` of the axis that goes with it, and the other way round."""
        return self.loop.size - 1 - a if place.turned else a

    def _times_of_choices(self, x: Statement, solved: Mapping[Atom, Affine]) -> list[Affine]:
        """The times at which `x` reads choices that have windows."""
        found = ((lookup, self.defined.get(lookup.array)) for p in predicates(x) for lookup in lookups(p))
        places = ((lookup, self.along.get(c)) for lookup, c in found if c is not None)
        return [self._as_time(x.at[place.axis].substitute(solved), place) for x, place in places if place is not None]

    def _is_turned(self, x: Statement) -> bool:
        """Whether `x` is the states of all times, reversed so as to go with tau."""
        return (
            isinstance(x, Contraction)
            and x in self.along
            and x.factors[0] in self.own
            and len(x.shape) == len(x.factors[0].shape)
            and not self.along[x].turned
            and self.turned
        )

    # windows

    def _windows_of(self, *xs: Statement) -> None:
        """Make the windows of `xs` and of all that they read, operands first."""
        wanted: set[Statement] = set()
        stack = list(xs)
        while stack:
            x = stack.pop()
            if x not in wanted and x not in self.own and x not in self.earlier:
                wanted.add(x)
                stack += [y for y in needs(x, self.defined) if y in self.along]
        for x in self.statements:
            if x in wanted and x in self.along:
                self._window(x)

    def _window(self, x: Statement) -> Statement:
        """The window of `x`, which goes with tau."""
        if x not in self.made:
            self.made[x] = self._made(x, self.along.get(x))
        return self.made[x]

    def _part(self, x: Statement) -> Statement:
        """The part of the sum `x` that is over the times of a window."""
        return self._made(x, None)

    def _made(self, x: Statement, place: TimeAxis | None) -> Statement:
        if isinstance(x, Input) and place is not None:
            made = Var(x.param.name, array(self._shape(x, place), R))
            self.windows[x] = made
            return Input(made, (), self._shape(x, place))
        old = own_indices(x)
        own = list(old)
        moved: dict[Atom, Affine] = {}
        if place is not None:
            own[place.axis] = Index("w")
            moved[old[place.axis]] = self._time(own[place.axis], place)
        shape = x.shape if place is None else self._shape(x, place)
        match x:
            case Contraction():
                factors = []
                here = own[place.axis] if place is not None else None
                solved = inner_solution(x).values
                time = self._time_in(x, solved)
                for y, at in zip(x.factors, factor_indices(x), strict=True):
                    if y in self.along and (x not in self.asked or self._is_then(y, at, time, solved)):
                        i = Index("v")
                        here = here or i
                        along = self.along[y]
                        moved[at[along.axis]] = self._time(i, along)
                        factors.append((self._window(y), (*at[: along.axis], i, *at[along.axis + 1 :])))
                    else:
                        factors.append((y, at))
                summed = dict(zip(summed_indices(x), x.summed, strict=True))
                assert here is not None
                where = self._with_choices(x.pattern.pred, moved, here)
                return contraction(shape, tuple(own), factors, summed, where)
            case Addition():
                assert place is not None
                terms = [
                    Addend(t.sign, self._renamed(t.pred, x, place), self._operand(t.operand, place, shape))
                    for t in x.terms
                ]
                return Addition(tuple(terms), shape)
            case Map():
                assert place is not None
                arguments = tuple(self._operand(y, place, shape) for y in x.arguments)
                return Map(self._renamed(x.pred, x, place), x.function, arguments, shape)
            case Comparison():
                assert place is not None
                left, right = (self._operand(y, place, shape) for y in (x.left, x.right))
                return comparison(x.op, self._renamed(x.guard, x, place), left, right, x.array.name)
            case Selection():
                assert place is not None
                guard, pred = (self._renamed(p, x, place) for p in (x.guard, x.pred))
                operand = self._operand(x.operand, place, (*shape, x.operand.shape[-1]))
                return selection(x.sign, guard, pred, operand, x.array.name)
            case _:
                raise AssertionError("only what has arithmetic is computed in windows")

    def _renamed(self, p: Predicate, x: Statement, place: TimeAxis) -> Predicate:
        """A predicate over the indices of `x`, one of which now counts in a window."""
        i = own_indices(x)[place.axis]
        return self._with_choices(p, {i: self._time(i, place)}, i)

    def _with_choices(self, p: Predicate, moved: Mapping[Atom, Affine], here: Index) -> Predicate:
        """`p` with these values of indices, looking up choices that have windows at `here` in the window."""
        slot = Index("v")

        def in_window(atom: Atom) -> Affine:
            if not isinstance(atom, Lookup):
                return atom_affine(atom)
            at = [change(a) for a in atom.at]
            c = self.defined.get(atom.array)
            if c is None or c not in self.along:
                return atom_affine(Lookup(atom.array, tuple(at)))
            made = self._window(c)
            assert isinstance(made, Defining)
            at[self.along[c].axis] = atom_affine(slot)
            return atom_affine(Lookup(made.array, tuple(at)))

        def change(a: Affine) -> Affine:
            return total((in_window(atom), k) for atom, k in a.terms) + a.constant

        # lookups are changed first: substitution renames the indices of quantifiers
        return substitute(mapped(p, change), {**moved, slot: atom_affine(here)}) if lookups(p) else substitute(p, moved)

    def _operand(self, y: Statement, place: TimeAxis, shape: tuple[Affine, ...]) -> Statement:
        """An operand that is read at the same place: its window, or a window cut out of it."""
        if self.along.get(y) == place:
            return self._window(y)
        if isinstance(y, Constant):
            return Constant(y.value, shape)
        old = axes(0, len(shape))
        time = self._time(old[place.axis], place)
        if isinstance(y, Integers):
            return integers(y.value.substitute({old[place.axis]: time}), shape)
        at = tuple(Index(i.name) for i in old)
        parts = [
            equal(atom_affine(j), time if k == place.axis else atom_affine(i))
            for k, (i, j) in enumerate(zip(old, at, strict=True))
        ]
        return contraction(shape, old, [(y, at)], {}, conjunction(parts))

    def _shape(self, x: Statement, place: TimeAxis) -> tuple[Affine, ...]:
        return (*x.shape[: place.axis], atom_affine(WINDOW), *x.shape[place.axis + 1 :])

    def _time(self, i: Index, place: TimeAxis) -> Affine:
        """The index of the whole array that place i of a window has."""
        return self._as_time(self.first + atom_affine(i), place)


SUM = "sum"


def _is_thin(x: Statement) -> bool:
    """Whether conditions leave few elements of an array of several axes."""
    if not isinstance(x, Contraction) or len(x.shape) < 2:
        return False
    ranges = own_ranges(x)
    known = conjuncts(substitute(x.pattern.pred, inner_solution(x).values))
    return leaves_few((q for q in known if ranges.keys() >= set(indices_in(q))), ranges, ranges)
