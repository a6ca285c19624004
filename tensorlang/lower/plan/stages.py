"""A program as stages, turns of recurrences and calls of routines, in the order in which they run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensorlang.language.affine import Affine, IndexArray
from tensorlang.language.function import Function, Parameter
from tensorlang.language.grammar import Routine, Var
from tensorlang.lower.plan.windows import Along


@dataclass(frozen=True, eq=False)
class Stage:
    """`function` computes the arrays `gives`, or the result of the whole if there are none."""

    function: Function
    gives: tuple[Var, ...]


@dataclass(frozen=True, eq=False)
class Rest:
    """What is computed of the states in a window of times: `function` gives `sums` over them and then `rows` of them.

    The time is the axis of each row that `along` tells.

    Its parameters are variables of the program, `start`, the first time of the window, and those of `windows`: each
    says of which sequence it is one.
    """

    function: Function
    start: IndexArray
    windows: Mapping[Var, Var]
    sums: tuple[Var, ...]
    rows: tuple[Var, ...]
    along: tuple[Along, ...]


@dataclass(frozen=True, eq=False)
class Turn:
    """A recurrence of `size` steps: `step` is a program of `frees`, `local`, the states, and the time.

    The states begin as `inits`. `carried` are the places of those that steps or folds read; `gives` tells which
    variable is the fold, scan, prescan or states of the state in which place. Steps read an element of each of the
    sequences `local`: that at their own time, which goes against them if `turned`. Of the states over the time only
    `stored` are read by what is not computed in windows. With `until`, a further value of the step is 1 if all states
    are kept from then on, and else 0.
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

    @property
    def reads(self) -> tuple[Var, ...]:
        """The sequences of earlier recurrences that it reads by windows."""
        own = {v for v, _, _ in self.gives}
        windows = self.rest.windows if self.rest is not None else {}
        return tuple(dict.fromkeys([*self.local, *(v for v in windows if v not in own)]))


@dataclass(frozen=True, eq=False)
class Called:
    """Calls of a `routine` on `arguments`, of which those that are `mapped` have `batch` axes more, and so has its
    value. `gives` tells which variable is the array in which place of that."""

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
