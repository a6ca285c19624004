"""Functions of numbers evaluated at numbers: the value of a program with its slopes, and the results of a derivative's
program."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from .budget import Budget
from .functions import derivatives
from .scalar_code import Back, Code, If, Loop, Op, Stmt, Value, called
from .semantics import Semantics, Undefined, applied

_MOST_TRIPS = 3000
_TESTS: dict[str, Callable[[Any, Any], Any]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "//": lambda a, b: a // b if b else 0,
    "%": lambda a, b: a % b if b else 0,
}


class Beyond(Undefined):
    """A loop would make more trips than its bound: the results are not numbers."""


class _Run:
    def __init__(self, code: Code, arguments: Sequence[float], by: int | None, budget: Budget) -> None:
        self.code = code
        self.budget = budget
        self.meaning = Semantics({}, budget)
        self.env: dict[str, Any] = {}
        self.slopes: dict[str, float] = {}
        for k, (p, x) in enumerate(zip(code.params, arguments, strict=True)):
            self.env[p] = int(x) if p in code.whole else float(x)
            self.slopes[p] = float(k == by)
        self.trips = 0
        self.block(code.body)

    def get(self, v: Value) -> Any:
        if isinstance(v, str):
            return self.env[v]
        return 0.0 if v is None else float(v) if isinstance(v, Fraction) else v

    def slope(self, v: Value) -> float:
        return self.slopes.get(v, 0.0) if isinstance(v, str) else 0.0

    def put(self, pairs: list[tuple[str, Value]]) -> None:
        found = [(x, self.get(v), self.slope(v)) for x, v in pairs]
        for x, value, slope in found:
            self.env[x], self.slopes[x] = value, slope

    def block(self, statements: Sequence[Stmt]) -> None:
        for s in statements:
            self.budget.spend()
            match s:
                case Op():
                    self._op(s)
                case If():
                    holds = self.get(s.test)
                    self.block(s.then if holds else s.otherwise)
                    self.put(list(zip(s.outs, s.thens if holds else s.otherwises, strict=True)))
                case Loop():
                    self._loop(s)
                case Back():
                    self._back(s)

    def _loop(self, s: Loop) -> None:
        self.put(list(zip(s.carried, s.inits, strict=True)))
        stored: list[list[Any]] = [[] for _ in s.saves]
        trips = 0
        while True:
            self.block(s.head)
            if not self.get(s.test):
                break
            self.trips += 1
            if trips == s.bound:
                raise Beyond("a loop beyond its bound")
            if self.trips > _MOST_TRIPS:
                raise Undefined("a loop that does not end")
            self.block(s.body)
            for stack, x in zip(stored, s.saves, strict=True):
                stack.append(self.get(x))
            self.put(list(zip(s.carried, s.nexts, strict=True)))
            trips += 1
        self.put(list(zip(s.outs, s.carried, strict=True)))
        self.env.update(zip(s.stacks, stored, strict=True))
        if s.trips:
            self.env[s.trips] = trips

    def _back(self, s: Back) -> None:
        self.put(list(zip(s.carried, s.inits, strict=True)))
        stacks = [self.get(x) for x in s.stacks]
        for t in reversed(range(self.get(s.trips))):
            if any(not isinstance(stack, list) or t >= len(stack) for stack in stacks):
                raise Undefined("a stack with nothing on it")
            self.env.update({x: stack[t] for x, stack in zip(s.popped, stacks, strict=True)})
            self.block(s.body)
            self.put(list(zip(s.carried, s.nexts, strict=True)))
        self.put(list(zip(s.outs, s.carried, strict=True)))

    def _op(self, s: Op) -> None:
        a = [self.get(v) for v in s.args]
        value: Any
        match s.f:
            case "+" | "acc":
                value = a[0] + a[1]
            case "-" | "less":
                value = a[0] - a[1]
            case "*":
                value = a[0] * a[1]
            case "neg":
                value = -a[0]
            case "/":
                if not a[1]:
                    raise Undefined("a division by 0")
                value = a[0] / a[1]
            case "not":
                value = not a[0]
            case "copy":
                value = a[0]
            case "select":
                value = a[1] if a[0] else a[2]
            case "trunc":
                value = int(a[0]) if math.isfinite(a[0]) else 0
            case f if f in _TESTS:
                value = _TESTS[f](*a)
            case _:
                value = applied(called(s), a[:1] if s.f == "pow" else a)
        self.env[s.out] = float(value) if self.code.kinds[s.out] == "real" else value
        self.slopes[s.out] = self._slope(s, a, value)

    def _slope(self, s: Op, a: list[Any], value: Any) -> float:
        t = [self.slope(v) for v in s.args]
        if self.code.kinds[s.out] != "real" or not any(t):
            return 0.0
        match s.f:
            case "+" | "acc":
                return t[0] + t[1]
            case "-" | "less":
                return t[0] - t[1]
            case "*":
                return float(t[0] * a[1] + a[0] * t[1])
            case "neg":
                return -t[0]
            case "/":
                return float((t[0] - value * t[1]) / a[1])
            case "copy":
                return t[0]
            case "select":
                return t[1] if a[0] else t[2]
        if s.f in ("//", "%", "trunc"):
            return 0.0
        total = 0.0
        arguments = 1 if s.f == "pow" else len(a)
        for e, slope in zip(derivatives(called(s)) or (), t, strict=False):
            if slope:
                names = {f"x{k}": a[k] for k in range(arguments)} | {"y": value, "t": slope}
                total += float(self.meaning.value(e, names))
        return total


def results(code: Code, arguments: Sequence[float], budget: Budget) -> list[float]:
    """The results of a program. Raises `Undefined` where it has none."""
    run = _Run(code, arguments, None, budget)
    return [float(run.get(v)) for v in code.results]


def slopes(code: Code, arguments: Sequence[float], budget: Budget) -> list[float]:
    """The result of a program and its derivatives by all parameters. Raises `Undefined` where it has none."""
    found: list[float] = []
    for k in range(len(code.params)):
        run = _Run(code, arguments, k, budget)
        found = [float(run.get(code.results[0])), *found[1:], run.slope(code.results[0])]
    return found
