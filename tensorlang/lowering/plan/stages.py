"""A program as stages, turns of recurrences and calls of routines, in the order in which they run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tensorlang.language.affine import Affine, IndexArray
from tensorlang.language.function import Function, Parameter
from tensorlang.language.grammar import Routine, Var
from tensorlang.language.predicates import TRUE, Predicate
from tensorlang.lowering.plan.windows import TimeAxis


@dataclass(frozen=True, eq=False)
class Stage:
    """`function` computes the arrays `gives`, or the result of the whole if there are none; the elements of index
    arrays are numbers in it."""

    function: Function
    gives: tuple[Var | IndexArray, ...]

    @property
    def indices(self) -> frozenset[int]:
        """The places of index arrays in what it gives."""
        return frozenset(k for k, x in enumerate(self.gives) if isinstance(x, IndexArray))


@dataclass(frozen=True, eq=False)
class Rest:
    """Computations from the states in a window of times: `function` returns `sums` over them, then `rows` for each.

    `along` has the axis of each row that is the time. The parameters are variables of the program, `start`, the first
    time of the window, and the `windows`, by their sequences.
    """

    function: Function
    start: IndexArray
    windows: Mapping[Var, Var]
    sums: tuple[Var, ...]
    rows: tuple[Var, ...]
    along: tuple[TimeAxis, ...]


@dataclass(frozen=True, eq=False)
class Turn:
    """A recurrence of `size` steps: `step` is a program of `frees`, `local`, the states, and the time.

    The states begin as `inits`. `carried` are the places of states that steps or folds read; `gives` has the variables
    that are made, each with the place of a state and whether it is its fold, scan, prescan or states. Steps read the
    element of each of the sequences `local` at their own time, which runs backwards if `turned`. Only `stored` ones of
    the states over the time are read outside of windows. With `until`, the step has a further value: 1 if all states
    stay the same from then on, and else 0. It need not run unless the condition `due` holds, of which `asked` is the
    truth value as a number. Those of `gives` that are `chosen` have the elements of index arrays.
    """

    size: Affine
    step: Function
    inits: tuple[Var, ...]
    frees: tuple[Var, ...]
    others: tuple[Parameter, ...]
    carried: tuple[int, ...]
    gives: tuple[tuple[Var, int, str], ...]
    stored: frozenset[Var]
    again: frozenset[Var]
    local: tuple[Var, ...] = ()
    turned: bool = False
    rest: Rest | None = None
    until: bool = False
    chosen: Mapping[Var, IndexArray] = field(default_factory=dict)
    due: Predicate = TRUE
    asked: Var | None = None

    @property
    def reads(self) -> tuple[Var, ...]:
        """The sequences of earlier recurrences that it reads by windows."""
        own = {v for v, _, _ in self.gives}
        windows = self.rest.windows if self.rest is not None else {}
        return tuple(dict.fromkeys([*self.local, *(v for v in windows if v not in own)]))


@dataclass(frozen=True, eq=False)
class Called:
    """Calls of a `routine` on `arguments`, of which the `mapped` ones have `batch` further axes, as has the value.
    `gives` has the variables, each with the place of its array in that value."""

    routine: Routine
    arguments: tuple[Var, ...]
    batch: int
    mapped: tuple[bool, ...]
    gives: tuple[tuple[Var, int], ...]


@dataclass(frozen=True, eq=False)
class Staged:
    """A program as stages, turns and calls, in the order in which they run; the last one gives its result."""

    function: Function
    parts: tuple[Stage | Turn | Called, ...]
