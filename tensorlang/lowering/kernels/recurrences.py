"""Recurrences as kernels that go over the time with their states in fast memory, or why there are none.

    S := first; for each t: Y := e(S, x[t], A); S := n(Y)    ->    A, S in fast memory; x[t] and what is kept of Y and S
                                                                  come and go in blocks of several steps

The statements of a step are those of a kernel all of whose axes are held whole, except for one of independent examples:
an axis of all states over which nothing in a step sums, and which nothing reads at another place. It is cut into tiles.
What a step reads of a sequence at its own time is an array of its own, a `TimeSlice`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tensorlang.errors import NormalFormError
from tensorlang.language.affine import Affine, Index, IndexArray, Lookup, atom_affine
from tensorlang.language.function import Function, unused_name
from tensorlang.language.grammar import Expr, Extremum, Sum, Var, access
from tensorlang.language.predicates import Exists
from tensorlang.language.rebuilt import rewrite
from tensorlang.language.types import R, Type, array, shape
from tensorlang.lowering.kernels.check import recurrence_fault
from tensorlang.lowering.kernels.grouping import Canonical, renaming
from tensorlang.lowering.kernels.ir import Kernel, Output, Recurrence, Role, State, TileAxis, TimeSlice, leaves_of
from tensorlang.lowering.kernels.loops import with_ends
from tensorlang.lowering.kernels.roles import Roles, Unfit
from tensorlang.lowering.kernels.statements import StoredStatement, stored_statements, takes_apart
from tensorlang.lowering.kernels.targets import Tiling
from tensorlang.lowering.kernels.terms import conditions, nodes, over, reads, renamed
from tensorlang.lowering.plan.dependence import places, variable
from tensorlang.lowering.plan.numbers import has_numbers
from tensorlang.lowering.plan.stages import Turn
from tensorlang.normal.recurrences import has_recurrences


def recurrence(turn: Turn, tiling: Tiling) -> Recurrence:
    """The kernel of a recurrence, for sizes of at least 1. Raises `Unfit`."""
    if turn.until:
        raise Unfit("it may end before its last step")
    if turn.rest is not None or turn.local:
        raise Unfit("it is computed window by window, since not all of its states are kept")
    if has_recurrences(turn.step):
        raise Unfit("there is a recurrence in its steps, or a function of its own")
    if not takes_apart(turn.step):
        raise Unfit("it chooses points")
    if has_numbers(turn.step):
        raise Unfit("it reads numbers that indices are")
    made = _Drafting(turn, tiling).result()
    wrong = recurrence_fault(made)
    if wrong is not None:
        raise NormalFormError(f"lowering made no kernel of {made.name}: {wrong}")
    reason = tiling.unfit_over_time(made)
    if reason is not None:
        raise Unfit(reason)
    return made


class _Drafting:
    def __init__(self, turn: Turn, tiling: Tiling) -> None:
        self._turn, self._tiling = turn, tiling
        f = turn.step
        count = len(turn.inits)
        states, time = f.params[len(turn.frees) : -1 - len(turn.others)], f.params[-1 - len(turn.others)]
        assert len(states) == count and isinstance(time, IndexArray)
        self._time, self._now = time, Lookup(time, ())
        self._taken: set[str] = set()
        own = {p: self._named(p.name, p.type) for p in f.params if isinstance(p, Var)}
        self._variables = own
        self._own = [own[v] for v in states if isinstance(v, Var)]
        frees = zip(f.params[: len(turn.frees)], turn.frees, strict=True)
        self._arrays = {p: a for p, a in frees if isinstance(p, Var)}
        self._slices: dict[tuple[Var, int, Affine], TimeSlice] = {}
        self._renamed: dict[Var, Var] = {}

    def result(self) -> Recurrence:
        turn, f = self._turn, self._turn.step
        body = rewrite(f.body, self._read)
        rest = [p for p in f.params if not isinstance(p, Var)]
        params = (*self._variables.values(), *(s.var for s in self._slices.values()), *rest)
        found = stored_statements(Function(f.name, params, body, f.results, f.further), sums_alone=False)
        here = {name: x for x, (name, _) in found.parts.items()}  # the names are unique
        own = [here[v.name] for v in self._own]
        stored = [s for s in found.stored if isinstance(s, StoredStatement)]  # no step chooses points
        nexts = [self._next(v, x, stored) for v, x in zip(own, leaves_of(found.results), strict=True)]
        for s in stored:
            _check(s)
        step = self._kernel(stored, _examples(stored, list(zip(own, nexts, strict=True))))
        used = {x for x, _ in reads(*(o.value for o in step.outputs))}
        states = tuple(map(State, own, turn.inits, nexts))
        slices = tuple(replace(s, var=here[s.var.name]) for s in self._slices.values() if here[s.var.name] in used)
        turned = sum(s.at.coefficient(self._now) for s in slices) < 0
        frees = ((here[self._variables[p].name], a) for p, a in self._arrays.items())
        named = tuple((x, a) for x, a in frees if x in used)
        return Recurrence(turn.step.name, turn.size, self._time, step, states, slices, named, turned)

    def _named(self, like: str, kind: Type) -> Var:
        """A variable whose name is that of no other one."""
        name = unused_name(like, self._taken)
        self._taken.add(name)
        return Var(name, kind)

    def _read(self, e: Expr) -> Expr | None:
        """A read by a name of its own; at the time of a step, that of a slice."""
        x = variable(e)
        if x is None:
            return None
        at = places(e)
        along = [k for k, a in enumerate(at) if self._now in a.lookups]
        if not along:
            return access(self._variables[x], *at) if x in self._variables else e
        place = at[along[0]]
        if len(along) > 1 or place.indices or len(place.lookups) > 1 or abs(place.coefficient(self._now)) != 1:
            raise Unfit(f"{x.name} is read at {', '.join(map(str, at))}, which is not one time of each step")
        if x not in self._arrays:
            raise Unfit(f"{x.name}, which its steps make, is read at the time")
        key = (x, along[0], place)
        if key not in self._slices:
            axes = shape(x.type)[0]
            kind = array((*axes[: along[0]], *axes[along[0] + 1 :]), R)
            self._slices[key] = TimeSlice(self._named(f"{x.name}_now", kind), self._arrays[x], along[0], place)
        return access(self._slices[key].var, *(a for k, a in enumerate(at) if k != along[0]))

    def _next(self, state: Var, x: Var, stored: list[StoredStatement]) -> Var:
        """The variable of the next value of `state`, which is `x`: another name for it, or a copy if others read it or
        it is the next value of another one."""
        after = Var(f"{state.name}_next", x.type)
        made = self._renamed.get(x, x)
        for k, s in enumerate(stored):
            if s.var is made is x and all(y is not x for y, _ in reads(*(other.body for other in stored))):
                stored[k] = replace(s, var=after)
                self._renamed[x] = after
                return after
        axes = tuple((Index(f"k{k}"), n) for k, n in enumerate(shape(x.type)[0]))
        body = access(made, *(atom_affine(i) for i, _ in axes))
        stored.append(StoredStatement(after, axes, body, body))
        return after

    def _kernel(self, stored: Sequence[StoredStatement], examples: frozenset[tuple[Var, Index]]) -> Kernel:
        names = Canonical()
        axes: dict[Index, TileAxis] = {}
        outputs: list[Output] = []
        leading = _is_leading(stored, examples)
        sums = any(isinstance(e, Sum | Extremum) for s in stored for e in nodes(s.body))
        for s in stored:
            extents = dict(s.axes)
            extents.update((e.index, e.size) for e in nodes(s.body) if isinstance(e, Sum | Extremum))
            roles = Roles()
            for i, n in extents.items():
                if (s.var, i) in examples:
                    axis = TileAxis(i, n, Role.PARALLEL, 1)
                    block = 1 if leading else self._tiling.examples(axis, sums)
                    roles.axes[i] = replace(axis, block=block)
                else:
                    roles.axes[i] = TileAxis(i, n, Role.WHOLE, 0)
            own, change = renaming(s, roles, names)
            axes |= own
            outputs.append(Output(s.var, tuple(change[i] for i, _ in s.axes), renamed(s.body, change)))
        order = (Role.PARALLEL, Role.WHOLE)
        listed = tuple(a for role in order for a in axes.values() if a.role is role)
        return with_ends(self._tiling.step(Kernel(self._turn.step.name, listed, (), tuple(outputs), None)))


def _check(s: StoredStatement) -> None:
    """Raise `Unfit` for reads at places that data choose, and for conditions with quantifiers."""
    if any(a.lookups for _, at in reads(s.body) for a in at):
        raise Unfit("it reads at places that data choose")
    if any(isinstance(p, Exists) or _has_quantifier(p) for p in conditions(s.body)):
        raise Unfit("a condition has a quantifier")


def _has_quantifier(p: object) -> bool:
    return isinstance(p, Exists) or any(map(_has_quantifier, getattr(p, "parts", ())))


class _Classes:
    """Axes of arrays and indices of statements, in classes that stand for one axis each; whatever is in the class of
    `None` can't be the axis of examples."""

    def __init__(self) -> None:
        self._of: dict[object, object] = {}

    def find(self, x: object) -> object:
        """The representative of the class of `x`."""
        while x in self._of:
            x = self._of[x]
        return x

    def join(self, x: object, y: object) -> None:
        """Make the classes one."""
        x, y = self.find(x), self.find(y)
        if x != y:
            self._of[x] = y


def _examples(stored: Sequence[StoredStatement], states: Sequence[tuple[Var, Var]]) -> frozenset[tuple[Var, Index]]:
    """The indices, by their statements, of the axis of independent examples; none if there is no such axis.

    Each state has it once, and everything reads it at its own place alone.
    """
    classes = _Classes()
    for s in stored:
        for k, (i, _) in enumerate(s.axes):
            classes.join((s.var, k), (s.var, i))
        for e in nodes(s.body):
            if isinstance(e, Sum | Extremum):
                classes.join((s.var, e.index), None)
        for p in conditions(s.body):
            for i in over(p):
                classes.join((s.var, i), None)
        for x, at in reads(s.body):
            for k, a in enumerate(at):
                for i in a.indices:
                    classes.join((s.var, i), (x, k) if a is atom_affine(i) else None)
                if len(a.indices) != 1 or a is not atom_affine(a.indices[0]):
                    classes.join((x, k), None)
    for v, after in states:
        for k in range(len(shape(v.type)[0])):
            classes.join((v, k), (after, k))
    bad = classes.find(None)

    def axes(x: Var) -> Iterator[object]:
        return (classes.find((x, k)) for k in range(len(shape(x.type)[0])))

    every = dict.fromkeys(x for s in stored for x in (s.var, *(x for x, _ in reads(s.body))))
    for c in axes(states[0][0]) if states else ():
        once = all(list(axes(v)).count(c) == 1 for v, _ in states)
        if c != bad and once and all(list(axes(x)).count(c) <= 1 for x in every):
            return frozenset((s.var, i) for s in stored for i, _ in s.axes if classes.find((s.var, i)) == c)
    return frozenset()


def _is_leading(stored: Sequence[StoredStatement], examples: frozenset[tuple[Var, Index]]) -> bool:
    """Whether the axis of examples is never among the last two of an array."""
    for s in stored:
        own = {i for i, _ in s.axes if (s.var, i) in examples}
        last = [i for i, _ in s.axes[-2:]] + [i for _, at in reads(s.body) for a in at[-2:] for i in a.indices]
        if not own.isdisjoint(last):
            return False
    return bool(examples)
