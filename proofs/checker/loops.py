"""Functions with loops that data end, whose programs a certificate holds: whether the derivative is that of the
program, on all paths, and what both cost. An undecided claim is assumed, by name; a claim that is false at some numbers
is refused.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from .budget import Budget, TooLarge, Undecided
from .paths import Beside, Cotangents, Primal, Slopes, spared
from .report import Finding
from .running import Beyond, results, slopes
from .scalar_code import Back, Code, If, Loop, Op, Stmt, read
from .semantics import Function, Undefined, known
from .symbols import ZERO, Number, Symbols, plus
from .trees import Call, Expr, Mul, Name, Refused

_SECONDS = 5.0
_SAMPLING = 2.0
_POINTS = 300
_SCALES = (1.0, 3.0, 0.3, 10.0)
_CLOSE = 1e-4
EVERY_PATH = "on every path"


@dataclass(frozen=True)
class Looped:
    """A function with its program and that of its derivative: `value` has one result; `derivative` has the same result
    and the partial derivatives by the parameters that are not whole numbers. `costs` are the declared costs of these
    derivatives, and `there` says which of them are declared to be anything but 0."""

    name: str
    cost: int
    value: Code
    derivative: Code
    costs: tuple[int, ...]
    there: tuple[bool, ...]

    @property
    def least(self) -> int:
        """The cost of the value with one trip of each loop."""
        return self.value.one_trip(self.value.body)

    @property
    def added(self) -> int:
        """The cost of all derivatives in addition to the value, with one trip of each loop."""
        return self.derivative.one_trip(self.derivative.body) - self.least

    @property
    def by(self) -> list[str]:
        """The parameters that have a derivative."""
        return [p for p in self.value.params if p not in self.value.whole]


def looped(name: str, cost: int, value: Any, derivative: Any, partials: Sequence[int | None]) -> Looped:
    """The function with these programs, as JSON has them, and the costs of its derivatives by its arguments. Raises
    `Refused` if they don't fit."""
    value, derivative = read(value), read(derivative)
    further = partials[len(value.params) :]  # values that a derivative is given but does not read
    if len(value.params) > len(partials) or any(cost is not None for cost in further):
        raise Refused(f"the program of {name} has {len(value.params)} arguments, not {len(partials)}")
    partials = partials[: len(value.params)]
    if any(cost is not None for p, cost in zip(value.params, partials, strict=True) if p in value.whole):
        raise Refused(f"{name} has a derivative by a whole number")
    costs = tuple(c or 0 for p, c in zip(value.params, partials, strict=True) if p not in value.whole)
    there = tuple(c is not None for p, c in zip(value.params, partials, strict=True) if p not in value.whole)
    return Looped(name, cost, value, derivative, costs, there)


@dataclass(frozen=True)
class _Claim:
    """Claims that the results of `given` are the value of `value`, for None, and its derivatives by parameters; those
    by the parameters in `nothing` are 0."""

    value: Code
    given: Code
    results: tuple[str | None, ...]
    nothing: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Answer:
    """The findings about the statements `body`: why the derivative is not decided, or None; and, in words, on which
    paths it costs at most 3 times the value, or None."""

    why: str | None
    every_path: str | None
    body: tuple[Stmt, ...]


def check_looped(f: Looped, budget: Budget) -> Answer:
    """Check a function. Raises `Refused` where its derivative or a cost differs from the declared one."""
    if f.derivative.params != f.value.params or f.derivative.whole != f.value.whole:
        raise Refused(f"the derivative of {f.name} has other parameters")
    if len(f.value.results) != 1 or len(f.derivative.results) != 1 + len(f.by) or len(f.costs) != len(f.by):
        raise Refused(f"the derivative of {f.name} has not a result for each parameter")
    if sum(f.costs) < f.added:
        told = sum(f.costs)
        raise Refused(f"the derivatives of {f.name} cost {f.added} with one trip of each loop, not {told}")
    nothing = frozenset(p for p, there in zip(f.by, f.there, strict=True) if not there)
    why, spare = _shown(_Claim(f.value, f.derivative, (None, *f.by), nothing), f.name, budget)
    return Answer(why, _words(f, spare), f.value.body)


def check_slope(f: Looped, by: int, slope: Looped, budget: Budget) -> str | None:
    """The reason why it is not decided that the program of `slope` is the derivative of `f` by a parameter, or None.
    Raises `Refused` where it is a different function."""
    p = f.value.params[by]
    if slope.value.params != f.value.params or slope.value.whole != f.value.whole:
        raise Refused(f"{slope.name} has other parameters than {f.name}")
    return _shown(_Claim(f.value, slope.value, (p,)), slope.name, budget)[0]


def _shown(claim: _Claim, name: str, budget: Budget) -> tuple[str | None, int | None]:
    """The reason why a claim is not decided, or None, and how much less it costs than 4 times the value, if that is
    known. Raises `Refused` where the claim is false."""
    why: str | None = ""
    spare: int | None = None
    for way in (_back, _forth) if _goes_back(claim.given.body) else (_forth, _back):
        try:
            why, spare = _decided(claim, way, budget.part(_SECONDS))
        except (TooLarge, Undecided, RecursionError) as error:
            budget.ask()
            why = str(error)
        if why is None:
            break
    if why is not None:
        _sampled(claim, name, budget.part(_SAMPLING))
    return why, spare


def _decided(
    claim: _Claim, way: Callable[[Primal, list[str]], list[Number]], budget: Budget
) -> tuple[str | None, int | None]:
    symbols = Symbols(budget)
    own = Primal(claim.value, symbols)
    by = [p for p in claim.results if p is not None]
    wanted = dict(zip(by, way(own, by), strict=True))
    theirs = Beside(claim.given, own)
    for p, b in zip(claim.results, theirs.results, strict=True):
        if p in claim.nothing and not symbols.is_zero(b):
            return f"that the derivative by {p} is 0", None
        if not symbols.is_zero(plus(own.result if p is None else wanted[p], b, -1)):
            return "the value" if p is None else f"the derivative by {p}", None
    return None, spared(own.costs, theirs.costs, 4)


def _forth(own: Primal, by: list[str]) -> list[Number]:
    """The derivatives, by dual numbers."""
    return [Slopes(own, p).result for p in by]


def _back(own: Primal, by: list[str]) -> list[Number]:
    """The derivatives, by the adjoint."""
    bars = Cotangents(own).bars
    return [bars.get(p, ZERO) for p in by]


def _words(f: Looped, spare: int | None) -> str | None:
    if spare is None or spare + 3 * (1 + len(f.by)) < 0:
        return None
    return EVERY_PATH if spare >= 0 else f"{EVERY_PATH}, inputs and outputs counted"


def _goes_back(block: Sequence[Stmt]) -> bool:
    """Whether it looks like an adjoint."""
    return any(
        isinstance(s, Back)
        or (isinstance(s, Op) and s.f in ("acc", "less"))
        or (isinstance(s, If) and _goes_back((*s.then, *s.otherwise)))
        or (isinstance(s, Loop) and bool(s.saves or _goes_back(s.body)))
        for s in block
    )


def _sampled(claim: _Claim, name: str, budget: Budget) -> None:
    """Compare at some numbers. Raises `Refused` where a result differs."""
    rng = random.Random(name)
    value = claim.value
    for k in range(_POINTS):
        scale, low = _SCALES[k % len(_SCALES)], (0.0, -1.0, -1.0)[k % 3]
        at = [float(rng.randint(0, 4)) if p in value.whole else rng.uniform(low, 1) * scale for p in value.params]
        try:
            own = _or_none(partial(slopes, value, at, budget))
            theirs = _or_none(partial(results, claim.given, at, budget))
        except (Undefined, ArithmeticError, ValueError, TypeError):
            continue
        except TooLarge:
            return
        if own is None or theirs is None:
            if own is not theirs:
                raise Refused(f"of {name} and its derivative one alone is beyond a bound at {at}")
            continue
        wanted = dict(zip((None, *value.params), own, strict=True))
        for p, b in zip(claim.results, theirs, strict=True):
            a, told = wanted[p], 0.0 if p in claim.nothing else b
            if math.isfinite(a) and abs(a) < 1 / _CLOSE and not abs(a - told) <= _CLOSE * (1 + abs(a)):
                raise Refused(f"the derivative of {name} is another one at {at}: {told}, not {a}")


def _or_none(numbers: Callable[[], list[float]]) -> list[float] | None:
    """The numbers, or None where a loop is beyond its bound."""
    try:
        return numbers()
    except Beyond:
        return None


@dataclass(frozen=True)
class Looping:
    """The functions of a certificate whose programs define them, with the findings and the assumptions about them."""

    told: frozenset[str]
    findings: tuple[Finding, ...]
    assumed: tuple[str, ...]


def check_loops(
    programs: Mapping[str, tuple[Any, Any]], functions: Mapping[str, Function], called: frozenset[str], budget: Budget
) -> Looping:
    """The findings about the functions with programs, each given with the program of its derivative; the program of the
    certificate calls those in `called`. Raises `Refused` for a function that is declared differently from what it
    is."""
    found, slope_of = _families(programs, functions)
    told: set[str] = set()
    findings: list[Finding] = []
    assumed: list[str] = []
    for name, f in found.items():
        answer = check_looped(f, budget)
        there = [g for g in _partials(functions[name]) if g is not None]
        # a function that the program calls may not cost less than stated; one that is differentiated has a derivative
        told |= {name, *(g for g in there if g not in called and not functions[g].components)}
        if answer.why is None:
            findings.append(Finding(f"the derivative of {name}, from its program", True, "on every path"))
        else:
            assumed.append(f"the derivative of {name}, which its program was not shown to have: {answer.why}")
        if answer.every_path is None:
            assumed.append(f"that all derivatives of {name} cost at most 3 times its value {EVERY_PATH}")
        else:
            what = f"that all derivatives of {name} cost at most 3 times its value"
            findings.append(Finding(what, True, answer.every_path))
        if len(there) > 1:
            assumed.append(f"that {', '.join(there)} share the cost of all of them as is declared")
        if any(not isinstance(s, Op) for s in answer.body):
            assumed.append(
                f"of {name} one trip of each loop, and the cheaper side of each branch, where costs are told"
            )
        if name in slope_of:
            of, k = slope_of[name]
            why = check_slope(found[of], k, f, budget)
            what = f"that {name} is the derivative of {of} by {f.value.params[k]}"
            findings += [Finding(what, True, "from their programs")] if why is None else []
            assumed += [] if why is None else [f"{what}, which their programs were not shown to have"]
            most = max(1, found[of].added)
            if f.cost > most:
                raise Refused(f"{name} costs {f.cost}, and all derivatives of {of} cost {most} beside its value")
            assumed.append(f"that {name} is given the value of {of}, and costs what is added to that")
        elif functions[name].arity > len(f.value.params):
            assumed.append(f"that {name} costs {f.cost} beside the values that it is given")
        elif f.cost != max(1, f.least):
            raise Refused(f"{name} costs {f.cost}, and its program with one trip of each loop {f.least}")
    return Looping(frozenset(told), tuple(findings), tuple(assumed))


def _families(
    programs: Mapping[str, tuple[Any, Any]], functions: Mapping[str, Function]
) -> tuple[dict[str, Looped], dict[str, tuple[str, int]]]:
    """The functions with programs, and which of them are derivatives of which others, by which argument. Raises
    `Refused` if a function is the derivative of two, or of itself, or is declared otherwise."""
    found: dict[str, Looped] = {}
    slope_of: dict[str, tuple[str, int]] = {}
    for name, (value, derivative) in programs.items():
        if known(name):
            raise Refused(f"{name} has no other program than the one that it is known by")
        partials = _partials(functions[name])
        for k, g in enumerate(partials):
            if g in slope_of or g == name:
                raise Refused(f"the derivatives of {name} are not functions of their own")
            if g is not None and functions[g].body is not None:
                raise Refused(f"{name} has a derivative that is another function")
            slope_of |= {} if g is None else {g: (name, k)}
        costs = [None if g is None else functions[g].cost for g in partials]
        found[name] = looped(name, functions[name].cost, value, derivative, costs)
    return found, slope_of


def _partials(f: Function) -> list[str | None]:
    """The functions that are the components of a derivative, None for a component that is 0."""
    return [None if e is None else _partial(f, e) for e in f.components]


def _partial(f: Function, e: Expr) -> str:
    """The function g of a derivative's component g(..) * t."""
    arguments = (*(Name(f"x{k}") for k in range(f.arity)), Name("y"))
    match e:
        case Mul(Call(g, given), Name("t")) if given == arguments and not known(g):
            return g
    raise Refused(f"expected the derivatives of {f.name}, which has a program, to be functions of their own")
