"""The SSA form of a function as a scalar function of the language, and its partial derivatives as further ones.

The value costs as much as a path with one trip of each loop, the unit in which such functions are counted. A partial
derivative costs what it adds to that; it takes the value as an argument, so that this is always counted as well. In
generated code, one call computes a value and its partial derivatives at the same place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import count
from typing import Any

import numpy as np

from tensorlang.errors import ScalarFunctionError
from tensorlang.language.functions import KEYWORDS, add_black_box, functions
from tensorlang.language.grammar import Call, Expr, Mul, ScalarFunction
from tensorlang.language.scalar_code import Loops, Shared
from tensorlang.scalars.adjoint import adjoint
from tensorlang.scalars.code import (
    Code,
    FreshNames,
    If,
    Stmt,
    While,
    branch_sites,
    defined,
    loop_sites,
    numbered,
    without_unused,
)
from tensorlang.scalars.count import Linear, Run, path_cost, run, shortest
from tensorlang.scalars.dual import active, dual
from tensorlang.scalars.ops import types
from tensorlang.scalars.plain import plain
from tensorlang.scalars.text import code_text


@dataclass(frozen=True)
class ScalarPlan:
    """The plan for a scalar function.

    `code` is its form, and `mode` the way to its derivatives: "inlined" without data-dependent loops, else "dual" or
    "reverse". `value` and `derivatives` are the costs of a path with one trip of each loop and the cheaper sides of
    branches; `stored` is the number of numbers that the reverse pass stores for each point, 0 for duals.
    """

    code: Code
    mode: str
    why: str
    value: int
    derivatives: int
    stored: int | None

    def count(self, *arguments: float) -> tuple[Run, Run]:
        """The path of the value at these numbers, and that of the value with all partial derivatives."""
        return run(self.code, arguments), run(self.derived, arguments)

    @cached_property
    def derived(self) -> Code:
        """The code of the value and all partial derivatives."""
        return derived(self.code, self.mode)

    def __str__(self) -> str:
        ratio = f"{(self.value + self.derivatives) / self.value:.2f} times" if self.value else "nothing"
        lines = [code_text(self.code), "", f"{self.mode}: {self.why}"]
        if self.mode != "inlined":
            code = numbered(self.code)
            labels = _labels(code, code.name)
            own, whole = (_shown(path_cost(c), labels) for c in (code, derived(code, self.mode)))
            lines.append(f"on every path: value {own}, with derivatives {whole}")
        lines.append(f"with one trip of each loop: value {self.value}, derivatives {self.derivatives} more ({ratio})")
        if self.stored:
            lines.append(f"stored for each point: {self.stored} numbers")
        if self.mode != "inlined":
            lines.append("on arrays, a loop runs as long as it runs anywhere")
        return "\n".join(lines)

    __repr__ = __str__


def has_loops(block: Sequence[Stmt]) -> bool:
    """Whether a block has a loop."""
    return any(isinstance(s, While) or (isinstance(s, If) and has_loops((*s.then, *s.otherwise))) for s in block)


def unbounded(block: Sequence[Stmt]) -> bool:
    """Whether a block has a loop without a bound."""
    for s in block:
        match s:
            case While():
                if s.bound is None or unbounded(s.body):
                    return True
            case If():
                if unbounded((*s.then, *s.otherwise)):
                    return True
            case _:
                pass
    return False


def _stored(block: Sequence[Stmt], times: int = 1) -> int:
    total = 0
    for s in block:
        match s:
            case If():
                total += _stored((*s.then, *s.otherwise), times)
            case While():
                # a save that is what an inner loop stored is counted there
                inner = {stack for x in s.body if isinstance(x, While) for stack in x.stacks}
                own = [name for name in s.saves if name not in inner]
                total += times * (s.bound or 0) * len(own) + _stored(s.body, times * (s.bound or 0))
            case _:
                pass
    return total


def differentiable(code: Code) -> tuple[str, ...]:
    """The parameters that have a derivative."""
    return tuple(p for p in code.params if p not in code.whole)


def derived(code: Code, mode: str) -> Code:
    """The code of the value and the partial derivatives of the first result, by "dual" numbers or a "reverse" pass."""
    made = adjoint if mode == "reverse" else dual
    return made(code, differentiable(code), types(code), _fresh(code))


def _fresh(code: Code) -> FreshNames:
    """Names that don't occur in `code`."""
    numbers = (name.rpartition("_")[2] for name in defined(code.body, True))
    return FreshNames(count(1 + max((int(k) for k in numbers if k.isdigit()), default=-1)))


def _stores(block: Sequence[Stmt]) -> bool:
    """Whether a block has a loop that stores something for each trip."""
    return any(
        (isinstance(s, While) and (bool(s.saves) or _stores((*s.head, *s.body))))
        or (isinstance(s, If) and _stores((*s.then, *s.otherwise)))
        for s in block
    )


def plan_of(code: Code, mode: str = "auto") -> ScalarPlan:
    """The plan for a function. Raises `ScalarFunctionError` if `mode` is "reverse" and a loop has no bound."""
    value = shortest(code)
    wrt = differentiable(code)
    by_duals = max(0, shortest(derived(code, "dual")) - value)
    if not has_loops(code.body) and mode == "auto":
        return ScalarPlan(
            code, "inlined", "no loop that data decide: it is written into the program", value, by_duals, 0
        )
    free = unbounded(code.body)
    if mode == "reverse" and free:
        raise ScalarFunctionError(
            f"{code.name} has a loop without a bound, so what its reverse pass stores has none",
            hint='tl.scalar(bound=100), or mode="dual", which stores nothing',
        )
    reverse = None if free else derived(code, "reverse")
    back = None if reverse is None else max(0, shortest(reverse) - value)
    if mode == "auto":
        mode = "dual" if len(wrt) <= 1 or back is None or by_duals <= back else "reverse"
        if mode == "reverse":
            why = f"the adjoint costs {back} more, dual numbers {by_duals}"
        elif back is None and len(wrt) > 1:
            why = "a loop has no bound, so nothing can be stored"
        else:
            why = "one pass, nothing is stored"
    else:
        why = f'mode="{mode}"'
    if mode == "reverse" and reverse is not None and back is not None:
        return ScalarPlan(code, mode, why, value, back, _stored(reverse.body))
    return ScalarPlan(code, "dual", why, value, by_duals, 0)


_known: dict[tuple[str, str, int], ScalarFunction] = {}


def scalar_function(code: Code, mode: str, place: int = 0) -> ScalarFunction:
    """The result at `place` of `code` as a scalar function of the language, the same one for the same code."""
    code = numbered(without_unused(replace(code, results=(code.results[place],))))
    key = code_text(code), mode, 0
    if key not in _known:
        _known[key] = _made(code, mode)
    return _known[key]


def _name(wanted: str) -> str:
    wanted = wanted if len(wanted) > 2 else f"scalar_{wanted}"
    name, k = wanted, 1
    while name in functions() or name in KEYWORDS:
        k += 1
        name = f"{wanted}_{k}"
    return name


def _made(code: Code, mode: str) -> ScalarFunction:
    plan, name, path = plan_of(code, mode), _name(code.name), path_cost(code)
    visits = lambda *xs: run(code, xs).visits
    bounded, labels = not unbounded(code.body), _labels(code, name)
    loops = Loops(len(code.params), path.get(0, 0), _each(path), bounded, visits, labels)
    of = _Derivatives(code, plan, mode, name, 0, loops)
    return _registered(code, name, plan.value, (of.shared, 0), loops, 0, lambda: of)


class _Derivatives:
    """The partial derivatives of `code`, the function `name`, as functions of their own.

    Each takes the value of the function that it is a derivative of as one more argument, which it does not read: so the
    value is paid for, and the derivative costs only what it adds. `name` already has `values` such arguments, and
    counts visits to the `loops` of the first function.
    """

    def __init__(self, code: Code, plan: ScalarPlan, mode: str, name: str, values: int, loops: Loops) -> None:
        self.code, self.plan, self.mode, self.name, self.values, self.loops = code, plan, mode, name, values, loops
        self.wrt, self.kinds = differentiable(code), types(code)
        self.moving = code.results[0] in active(code, self.wrt, self.kinds)
        self.joint = plan.derived
        self.shared = Shared(name, len(code.params), code, self.joint, _stores(self.joint.body))
        self.known: dict[int, ScalarFunction] = {}

    def programs(self) -> dict[str, Any]:
        """The program and that of the value with all derivatives, as data for JSON."""
        return {"program": plain(self.code), "derivative": plain(self.joint)}

    def transpose(self, xs: tuple[Expr, ...], y: Expr, t: Expr) -> list[Expr | None]:
        """The components of the derivative of y = name(xs)."""
        found: list[Expr | None] = [None] * len(xs)
        for k, x in enumerate(self.code.params):
            if self.moving and x in self.wrt and not _constant_zero(self.joint.results[1 + self.wrt.index(x)]):
                found[k] = Mul(Call(self._partial(self.wrt.index(x)), (*xs, y)), t)
        return found

    def _partial(self, k: int) -> ScalarFunction:
        if k not in self.known:
            own = dual(self.code, [self.wrt[k]], self.kinds, _fresh(self.code))
            cost, path = self._added(k, own)
            slope = without_unused(replace(own, name=f"{self.name}_by_{self.wrt[k]}", results=own.results[1:]))
            name, values = _name(slope.name), self.values + 1
            loops = replace(self.loops, base=path.get(0, 0), each=_each(path))
            later = lambda: _Derivatives(slope, plan_of(slope, self.mode), self.mode, name, values, loops)
            self.known[k] = _registered(slope, name, cost, (self.shared, 1 + k), loops, values, cache(later))
        return self.known[k]

    def _added(self, k: int, own: Code) -> tuple[int, Linear]:
        """The cost of the k-th derivative in addition to the value, with one trip of each loop and on each path: that
        of `own`, or its share of the adjoint. All together cost no less than computing them at once."""
        value, many = path_cost(self.code), len(self.wrt)
        if self.plan.mode == "reverse":
            share, rest = divmod(self.plan.derivatives, many)
            return share + (rest if k == 0 else 0), _shares(_less(path_cost(self.joint), value), many)[k]
        cost = max(0, shortest(own) - self.plan.value)
        if k == 0:  # the cheaper side of a branch may differ between them
            others = (dual(self.code, [x], self.kinds, _fresh(self.code)) for x in self.wrt[1:])
            cost = max(cost, self.plan.derivatives - sum(max(0, shortest(c) - self.plan.value) for c in others))
        return cost, _less(path_cost(own), value)


def _registered(
    code: Code,
    name: str,
    cost: int,
    shared: tuple[Shared, int],
    loops: Loops,
    values: int,
    derivatives: Callable[[], _Derivatives],
) -> ScalarFunction:
    """`code` as a function with this number of `values` as further arguments."""
    n = len(code.params)
    called = f"{shared[0].name}{'_with_derivatives' if shared[1] else ''}"
    return add_black_box(
        name,
        arity=n + values,
        cost=max(1, cost),
        transpose=lambda xs, y, t: derivatives().transpose(xs, y, t),
        evaluate=lambda *xs: _elementwise(code, 0)(*xs[:n]),
        source=_call(called, n, shared[1]),
        shared=shared,
        loops=replace(loops, programs=lambda: derivatives().programs()),
    )


def _shown(path: Linear, labels: Mapping[int, str]) -> str:
    """`7 + 9*trips(f)`."""
    terms = [f"{k}*{labels[site]}" if site else str(k) for site, k in sorted(path.items())]
    return " + ".join(terms).replace("+ -", "- ") or "0"


def _less(a: Linear, b: Linear) -> dict[int, int]:
    """a - b."""
    return {site: k for site in {**a, **b} if (k := a.get(site, 0) - b.get(site, 0))}


def _shares(a: Linear, count: int) -> list[dict[int, int]]:
    """`a` as a sum of `count` equal parts, except that the first also has the remainder."""
    parts: list[dict[int, int]] = [{} for _ in range(count)]
    for site, k in a.items():
        for j, part in enumerate(parts):
            part[site] = k // count + (k % count if j == 0 else 0)
    return parts


def _each(a: Linear) -> tuple[tuple[int, int], ...]:
    return tuple((site, k) for site, k in a.items() if site and k)


def _labels(code: Code, name: str) -> dict[int, str]:
    """The names of the visits of loops and branches."""
    loops = loop_sites(code.body)
    labels = {site: f"trips({name}{f', {k + 1}' if len(loops) > 1 else ''})" for k, site in enumerate(loops)}
    branches = branch_sites(code.body)
    return labels | {site: f"taken({name}, {k + 1})" for k, site in enumerate(branches)}


def _constant_zero(v: object) -> bool:
    return not isinstance(v, str) and v == 0.0


def _call(name: str, arity: int, k: int) -> str:
    return f"_{name}({', '.join(f'{{{j}}}' for j in range(arity))})[{k}]"


def _elementwise(code: Code, place: int) -> Any:
    def on_numbers(*xs: float) -> float:
        return run(code, xs).results[place]

    return lambda *xs: np.vectorize(on_numbers, otypes=[float])(*xs) if np.size(xs[0]) else np.zeros(np.shape(xs[0]))
