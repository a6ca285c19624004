"""The value of a scalar function, and the number of operations on its path."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensorlang.errors import LimitError
from tensorlang.scalars.code import ABSENT, Back, Code, If, Op, Stmt, Value, While
from tensorlang.scalars.ops import cost, types, value

MOST_OPERATIONS = 100_000_000
"""A function that runs longer is assumed not to end."""


@dataclass(frozen=True)
class Run:
    """The record of one path: the results, the operations, the trips of all loops, and the values stored. `visits` has,
    by number, the trips of each loop, and how often the condition of each branch held."""

    results: tuple[float, ...]
    operations: int
    trips: int
    stored: int
    visits: Mapping[int, int]


class _Absent:
    """The value of a cotangent to which nothing has contributed."""


_ABSENT = _Absent()


class _Path:
    def __init__(self, code: Code, arguments: Sequence[float]) -> None:
        self.kinds = types(code)
        self.env: dict[str, Any] = {ABSENT: _ABSENT}
        for p, a in zip(code.params, arguments, strict=True):
            self.env[p] = (int(a) if math.isfinite(a) else 0) if p in code.whole else float(a)
        self.operations = self.trips = self.stored = self.steps = 0
        self.visits: Counter[int] = Counter()

    def get(self, v: Value) -> Any:
        return self.env[v] if isinstance(v, str) else v

    def put(self, name: str, x: Any) -> None:
        self.env[name] = float(x) if self.kinds.get(name) is float and isinstance(x, int) else x

    def block(self, statements: Sequence[Stmt]) -> None:
        for s in statements:
            self.steps += 1
            if self.steps > MOST_OPERATIONS:
                raise LimitError(
                    f"more than {MOST_OPERATIONS:,} steps on one path", hint="a loop that ends, or a bound"
                )
            match s:
                case Op():
                    self._op(s)
                case If():
                    holds = self.get(s.test)
                    self.visits[s.site] += bool(holds)
                    self.block(s.then if holds else s.otherwise)
                    found = [self.get(v) for v in (s.thens if holds else s.otherwises)]
                    for out, x in zip(s.outs, found, strict=True):
                        self.put(out, x)
                case While():
                    self._while(s)
                case Back():
                    self._back(s)

    def _op(self, s: Op) -> None:
        args = [self.get(a) for a in s.args]
        if s.f in ("acc", "less"):
            total, t = args
            if t is _ABSENT:
                self.env[s.out] = total
            elif total is _ABSENT:
                self.env[s.out] = t if s.f == "acc" else -t
            else:
                self.operations += 1
                self.env[s.out] = total + t if s.f == "acc" else total - t
            return
        if s.f == "select":
            self.put(s.out, args[1] if args[0] else args[2])
        elif any(a is _ABSENT for a in args):
            self.env[s.out] = _ABSENT
        else:
            self.operations += cost(s.f, args)
            self.put(s.out, value(s.f, args))

    def _while(self, s: While) -> None:
        for c, v in zip(s.carried, [self.get(v) for v in s.inits], strict=True):
            self.put(c, v)
        stacks: list[list[Any]] = [[] for _ in s.saves]
        trips, over = 0, False
        while True:
            self.block(s.head)
            if not self.get(s.test):
                break
            if s.bound is not None and trips == s.bound:
                over = True
                break
            self.block(s.body)
            for stack, name in zip(stacks, s.saves, strict=True):
                stack.append(self.get(name))
                self.stored += 1
            for c, v in zip(s.carried, [self.get(v) for v in s.nexts], strict=True):
                self.put(c, v)
            trips += 1
        self.trips += trips
        self.visits[s.site] += trips
        for out, c in zip(s.outs, s.carried, strict=True):
            self.put(out, self.get(c))
        self.env.update(zip(s.stacks, stacks, strict=True))
        self.env[s.trips], self.env[s.over] = trips, over

    def _back(self, s: Back) -> None:
        for c, v in zip(s.carried, [self.get(v) for v in s.inits], strict=True):
            self.put(c, v)
        stacks = [self.get(stack) for stack in s.stacks]
        for t in reversed(range(self.get(s.trips))):
            self.env.update({name: stack[t] for name, stack in zip(s.popped, stacks, strict=True)})
            self.block(s.body)
            for c, v in zip(s.carried, [self.get(v) for v in s.nexts], strict=True):
                self.put(c, v)
        for out, c in zip(s.outs, s.carried, strict=True):
            self.put(out, self.get(c))


def run(code: Code, arguments: Sequence[float]) -> Run:
    """The path of `code` at these numbers. Raises `LimitError` if it does not end."""
    path = _Path(code, arguments)
    path.block(code.body)
    found = [path.get(v) for v in code.results]
    if path.get(code.over):
        found = [math.nan for _ in found]
    results = tuple(0.0 if x is _ABSENT else float(x) for x in found)
    return Run(results, path.operations, path.trips, path.stored, path.visits)


def _operation_costs(code: Code) -> Callable[[Op], int]:
    """A function that gives the cost of an operation of `code`."""
    kinds = types(code)

    def kind(v: Value) -> Any:
        of = kinds.get(v, float) if isinstance(v, str) else type(v)
        return of() if of is not float else 0.0

    def of(s: Op) -> int:
        values = [kind(a) for a in s.args]
        return cost(s.f, [values[0], s.args[1]] if s.f == "pow" else values)

    return of


Linear = Mapping[int, int]
"""A number of operations or visits, as a sum of weights times visits, by number; number 0 is for the constant 1."""


def path_cost(code: Code) -> Linear:
    """The operations on any path, in terms of the visits of its loops and branches. The first addition to a cotangent
    of a loop is counted, too."""
    operation = _operation_costs(code)
    total: Counter[int] = Counter()

    def block(statements: Sequence[Stmt], visits: Linear) -> None:
        own = 0
        for s in statements:
            match s:
                case Op():
                    own += operation(s)
                case If():
                    block(s.then, {s.site: 1})
                    block(s.otherwise, {**visits, s.site: -1})
                case While():
                    block(s.head, {**visits, s.site: 1})
                    block(s.body, {s.site: 1})
                case Back():
                    block(s.body, {s.site: 1})
        for site, k in visits.items():
            total[site] += own * k

    block(code.body, {0: 1})
    return {site: k for site, k in total.items() if k}


def shortest(code: Code, trips: int = 1) -> int:
    """The operations of a path with given numbers of trips of each loop and the cheaper side of each branch."""
    operation = _operation_costs(code)

    def block(statements: Sequence[Stmt]) -> int:
        total = 0
        for s in statements:
            match s:
                case Op():
                    total += operation(s)
                case If():
                    total += min(block(s.then), block(s.otherwise))
                case While():
                    total += (trips + 1) * block(s.head) + trips * block(s.body)
                case Back():
                    total += trips * block(s.body)
        return total

    return block(code.body)
