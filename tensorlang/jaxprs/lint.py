"""The linter for gradients of JAX functions that do more work than needed, counted at several sizes, by the user's
lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tensorlang.errors import ArgumentError, PythonLine, python_line
from tensorlang.jaxprs.flatten import flatten
from tensorlang.jaxprs.hidden import with_infinity
from tensorlang.jaxprs.regions import patience
from tensorlang.jaxprs.rewrite import RewritePlan, plan, rewritten
from tensorlang.jaxprs.sizes import at
from tensorlang.jaxprs.sizes import specs as shapes_of
from tensorlang.jaxprs.work import COPIES, JaxprWork, work
from tensorlang.measure.count import count
from tensorlang.shown import Shown

At = int | Mapping[str, int]
"""A number for all named sizes, or a number for each."""

SIZES = (48, 192)
"""The numbers that all named sizes take in turn."""

LARGE = (192, 1536)
"""Those that they take where a gradient is fine at `SIZES`: a window of 64 or 256 elements is narrow here only."""

FACTOR = 4
"""The factor over the derived gradient's work from which a gradient is reported even if the factor does not grow."""

GROWS = 2
"""A factor counts as growing if it is this many times larger at the larger sizes."""

CODES = {
    "TL001": "the factor between JAX's gradient and the derived one grows with the sizes",
    "TL002": "JAX's gradient does several times the work of the derived one",
}


@dataclass(frozen=True)
class Finding:
    """A gradient that does more work than it needs.

    `factors` are the ratios of JAX's operations to those of the derived gradient, at each of `sizes`; `compiled` is the
    same ratio for the code that XLA makes of both, if that was asked for. `primitive` does most of the work at the
    line.

    >>> import jax.numpy as jnp
    >>> from tensorlang.jaxprs.lint import lint
    >>> (found,) = lint(lambda x: jnp.sum(jnp.outer(x, x)), "n").findings
    >>> print(found.message.split(": ")[1], found.sizes)
    the factor between JAX's gradient and the derived one grows with the sizes (48, 192)
    """

    code: str
    name: str
    line: PythonLine | None
    primitive: str
    sizes: tuple[At, ...]
    factors: tuple[float, ...]
    operations: tuple[int, int]
    compiled: tuple[float, ...] | None = None

    @property
    def message(self) -> str:
        """The finding in one line."""
        at = ", ".join(f"{x:.3g} at {_shown(n)}" for x, n in zip(self.factors, self.sizes, strict=True))
        proof = ""
        if self.compiled is not None:
            proof = f"; compiled, {', '.join(f'{x:.3g}' for x in self.compiled)} times"
        return (
            f"{self.code} the gradient of {self.name} does {self.operations[0]:,} operations where "
            f"{self.operations[1]:,} do (times {at}{proof}), most of them in {self.primitive}: {CODES[self.code]}"
        )


def _shown(sizes: At) -> str:
    if isinstance(sizes, Mapping):
        return " and ".join(f"{name} = {n}" for name, n in sizes.items())
    return str(sizes)


@dataclass(frozen=True, repr=False)
class Report(Shown):
    """The linter's report on one function, which is fine if there are no findings.

    `unknown` are lines on what was not imported. `hints` are changes to the function that would make its derived
    gradient cheaper, and are none if it is not fine.

    >>> import jax.numpy as jnp
    >>> report = tl.testing.assert_cheap_gradient(lambda x: jnp.sum(x * x), "n")
    >>> print(str(report).split(",")[0], report.findings)
    <lambda>: fine ()
    """

    name: str
    findings: tuple[Finding, ...]
    value_work: int
    gradient_work: int
    unknown: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.findings:
            times = self.gradient_work / max(1, self.value_work)
            fine = f"{self.name}: fine, the gradient does {times:.3g} times the work of the value"
            return "\n".join([fine, *self.unknown, *(f"  hint: {hint}" for hint in self.hints)])
        parts = []
        for found in self.findings:
            where = "" if found.line is None else f"{found.line.filename}:{found.line.line}: "
            code = "" if found.line is None else f"\n  {found.line.code}"
            parts.append(f"{where}{found.message}{code}\n  instead of jax.grad: tl.jax.grad({found.name}, ..)")
        return "\n".join([*parts, *self.unknown])


def lint(
    fun: Callable[..., Any],
    *specs: Any,
    argnums: int | Sequence[int] | None = None,
    sizes: Sequence[At] | None = None,
    compiled: bool = False,
    factor: float = FACTOR,
) -> Report:
    """Compare the cost of JAX's gradient of `fun` with the derived one, at arguments as in `specs`.

    All named sizes take the values in `sizes` in turn, or those of mappings there, such as {"n": 48, "m": 10}; if none
    are given, 48 and 192, and where the gradient is fine at these, 192 and 1536, unless its code gets longer with them.
    `argnums` are the arguments that are differentiated, by default all that hold floats. If `fun` is not scalar, the
    sum of its value is. With `compiled`, findings must be confirmed by XLA's operations. A ratio that does not grow is
    a finding from `factor` on. Raises `ArgumentError` if there is nothing to differentiate, or a size has no value.
    Exceptions from `fun` are not caught.
    """
    name = getattr(fun, "__name__", "f")
    given = shapes_of(specs)
    chosen = range(len(given)) if argnums is None else (argnums,) if isinstance(argnums, int) else tuple(argnums)
    wanted = tuple(k for k in chosen if any(jnp.issubdtype(x.dtype, np.floating) for x in jax.tree.leaves(given[k])))
    if not wanted:
        raise ArgumentError(f"no argument of {name} that is differentiated holds floats", hint="argnums, or a dtype")

    def scalar(*args: Any) -> Any:
        kinds = ((x, getattr(x, "dtype", type(x))) for x in jax.tree.leaves(fun(*args)))
        floats = [x for x, kind in kinds if jnp.issubdtype(kind, np.floating)]
        if not floats:
            raise ArgumentError(f"{name} gives no floats that could be differentiated")
        return sum(map(jnp.sum, floats))

    def made(n: At) -> Made:
        return scalar, at(given, n), wanted

    report = judged(name, made, sizes or SIZES, compiled, factor)
    if report.findings:
        return report
    if sizes is None and len({_length(*made(n)) for n in SIZES}) == 1:
        sizes = LARGE
        further = judged(name, made, sizes, compiled, factor)
        if further.findings:
            return further
    return replace(report, hints=_hints(name, made, sizes or SIZES, factor))


Made = tuple[Callable[..., Any], Any, tuple[int, ...]]
"""A scalar function, the shapes of its arguments, and which of these are differentiated."""


def judged(
    name: str,
    made: Callable[[Any], Made],
    sizes: Sequence[At] = SIZES,
    compiled: bool = False,
    factor: float = FACTOR,
) -> Report:
    """The report on a function that may differ from size to size, as a layer does with its parameters; see `lint`."""
    with patience():
        return _judged(name, made, sizes, compiled, factor)


def _judged(name: str, made: Callable[[Any], Made], sizes: Sequence[At], compiled: bool, factor: float) -> Report:
    last = _taken(*made(sizes[-1]))
    unknown = tuple(
        f"  not told: {where}{r.equation.primitive.name}: {r.why}"
        for where, r in last.plan.refused
        if r.equation.primitive.name != "tensorlang"
    )
    report = Report(name, (), last.value_work, last.gradient.total, unknown)
    if not last.plan.kept:
        return report
    factors = (*(_taken(*made(n)).factor for n in sizes[:-1]), last.factor)
    grows = factors[-1] >= GROWS * factors[0] and factors[-1] >= GROWS
    if not grows and factors[-1] < factor:
        return report
    proof = None
    if compiled:
        proof = tuple(_compiled(*made(n)) for n in sizes)
        confirmed = proof[-1] >= GROWS * proof[0] and proof[-1] >= GROWS if grows else proof[-1] >= factor
        if not confirmed:
            return report
    found = _findings("TL001" if grows else "TL002", name, last, tuple(sizes), factors, proof)
    return replace(report, findings=tuple(found))


@dataclass(frozen=True)
class _Taken:
    """The work of one function at one size."""

    plan: RewritePlan
    gradient: JaxprWork
    value_work: int

    @property
    def rest(self) -> int:
        """The operations of JAX's gradient outside of the regions that are derived."""
        return max(0, self.gradient.total - self.plan.spent[0])

    @property
    def derived(self) -> int:
        """The operations of the gradient with regions derived."""
        return max(1, self.rest + self.plan.spent[1])

    @property
    def factor(self) -> float:
        """The ratio of JAX's operations to these."""
        return max(1, self.rest + self.plan.spent[0]) / self.derived


def _taken(fun: Callable[..., Any], shapes: Any, wanted: tuple[int, ...]) -> _Taken:
    closed = jax.make_jaxpr(fun)(*shapes)
    active = [k in wanted for k, x in enumerate(shapes) for _ in jax.tree.leaves(x)]
    gradient = flatten(jax.make_jaxpr(jax.grad(fun, wanted))(*shapes), lambda equation: True)
    return _Taken(plan(closed, active), work(gradient.equations, copies=True), work(closed.jaxpr.eqns).total)


def _hints(name: str, made: Callable[[Any], Made], sizes: Sequence[At], factor: float) -> tuple[str, ...]:
    """What the derived gradient would save if -inf were what hides elements."""
    found = with_infinity(*made(sizes[0])[:2])
    if found is None:
        return ()

    def infinite(n: Any) -> Made:
        fun, shapes, wanted = made(n)
        changed = with_infinity(fun, shapes)
        return (fun if changed is None else changed[0]), shapes, wanted

    told = judged(name, infinite, sizes, False, factor).findings
    if not told:
        return ()
    times = ", ".join(f"{x:.3g} at {_shown(n)}" for x, n in zip(told[0].factors, told[0].sizes, strict=True))
    gain = f"with -jnp.inf the derived gradient would do less (times {times}), but a row that is hidden whole is nan"
    return tuple(f"{hiding}: {gain}" for hiding in found[1])


def _length(fun: Callable[..., Any], shapes: Any, _: tuple[int, ...]) -> int:
    """The number of equations."""
    return len(flatten(jax.make_jaxpr(fun)(*shapes), lambda equation: True).equations)


def _compiled(fun: Callable[..., Any], shapes: Any, wanted: tuple[int, ...]) -> float:
    """The ratio of XLA's operations for JAX's gradient to those for the derived one, with copies, inputs and
    outputs."""
    theirs, ours = (
        counted.operations + counted.copied // COPIES + (counted.inputs + counted.outputs) // 4
        for counted in (count(jax.grad(f, wanted), *shapes) for f in (fun, rewritten(fun, wanted)))
    )
    return theirs / ours


def _findings(
    code: str, name: str, t: _Taken, sizes: tuple[At, ...], factors: tuple[float, ...], proof: Any
) -> list[Finding]:
    """A finding for each line that takes more of JAX's gradient than the whole derived gradient, and for the
    largest."""
    kept = {(line.filename, line.line) for r in t.plan.kept for line in r.lines}
    # what a loop does is at the lines of its body
    spent = {line: n for line, n in t.gradient.operations.items() if line in kept and n} or dict(t.gradient.operations)
    if not spent:
        return []
    # equations that JAX adds when it differentiates have no line; the others say where to look
    spent = {(file, line): n for (file, line), n in spent.items() if line} or spent
    most = max(spent, key=lambda line: spent[line])
    lines = [line for line, n in spent.items() if n > t.derived or line == most]
    found = []
    for line in sorted(lines, key=lambda line: -spent[line]):
        primitive = t.gradient.primitives[line].most_common(1)[0][0]
        place = python_line(*line)
        found.append(Finding(code, name, place, primitive, sizes, factors, (spent[line], t.derived), proof))
    return found
