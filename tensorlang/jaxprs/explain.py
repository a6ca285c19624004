"""A report on a JAX function: its regions, the parts that stay JAX and why, and the gradients' costs, line by line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from html import escape
from typing import Any

import jax

from tensorlang.errors import PythonLine
from tensorlang.jaxprs.lint import GROWS, SIZES
from tensorlang.jaxprs.refusal import line_of
from tensorlang.jaxprs.regions import Region, patience
from tensorlang.jaxprs.rewrite import RewritePlan, plan, within
from tensorlang.jaxprs.sizes import at, have_names
from tensorlang.jaxprs.sizes import specs as shapes_of
from tensorlang.shown import Shown


@dataclass(frozen=True)
class ExplainedPart:
    """One part of the function: its lines, its fate and the reason, and the operations of both gradients.

    Those of the derived gradient are 0 if JAX's was known to be as cheap without counting them. `smaller` has these
    operations at smaller sizes, if sizes have names.

    >>> import jax.numpy as jnp
    >>> (row,) = tl.jax.explain(lambda x: jnp.sum(jnp.outer(x, x)), "n").rows
    >>> print(row.what, row.why, row.counts.split(": ")[1], sep="; ")
    derived; a tensor program; it grows with the sizes)
    """

    lines: tuple[PythonLine, ...]
    what: str
    why: str
    jax_work: int = 0
    derived_work: int = 0
    smaller: tuple[int, int] = (0, 0)

    @property
    def counts(self) -> str:
        """The operations in words, with the factors between them."""
        if not self.jax_work:
            return ""
        found = f" (JAX {self.jax_work:,} operations"
        if self.derived_work:
            factor = self.jax_work / self.derived_work
            found += f", derived {self.derived_work:,}, {factor:.3g} times"
            if self.smaller[1]:
                before = self.smaller[0] / self.smaller[1]
                found += f" at {SIZES[-1]}, {before:.3g} at {SIZES[0]}"
                found += ": it grows with the sizes" if factor >= GROWS * before else ""
        return found + ")"


@dataclass(frozen=True, repr=False)
class Explanation(Shown):
    """The parts of a JAX function in order; `str` is a text, and notebooks show a table.

    `programs` are the tensor programs of the regions that are used, `assumptions` the conditions assumed for them.

    >>> import jax.numpy as jnp
    >>> explained = tl.jax.explain(lambda x: jnp.sum(jnp.outer(x, x)), "n")
    >>> [row.what for row in explained.rows], len(explained.programs), explained.assumptions
    (['derived'], 1, ())
    """

    name: str
    rows: tuple[ExplainedPart, ...]
    programs: tuple[Any, ...]
    assumptions: tuple[str, ...]

    def __str__(self) -> str:
        parts = [f"{self.name}: {self._summary()}"]
        for row in self.rows:
            parts.append(f"  {row.what}: {row.why}{row.counts}")
            parts += [f"    {line.filename}:{line.line}: {line.code}" for line in row.lines]
        parts += [f"  assumed: {what}" for what in self.assumptions]
        return "\n".join(parts)

    def _summary(self) -> str:
        n = sum(row.what == "derived" for row in self.rows)
        return "all of it stays JAX" if not n else f"{n} part{'s' if n > 1 else ''} with a derived gradient"

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in _cells(row))}</tr>" for row in self.rows)
        head = "<tr><th></th><th>lines</th><th>why</th><th>JAX's operations</th><th>derived</th></tr>"
        notes = "".join(f"<li>{escape(what)}</li>" for what in self.assumptions)
        return f"<b>{escape(self.name)}</b>: {self._summary()}<table>{head}{rows}</table><ul>{notes}</ul>"


def _cells(row: ExplainedPart) -> list[str]:
    lines = "<br>".join(escape(f"{line.line}: {line.code}") for line in row.lines)
    counts = [f"{n:,}" if n else "" for n in (row.jax_work, row.derived_work)]
    return [escape(row.what), lines, escape(row.why), *counts]


def explain(fun: Callable[..., Any], *specs: Any, argnums: int | tuple[int, ...] | None = None) -> Explanation:
    """The way in which `tl.jax.grad` differentiates `fun` at arguments as in `specs`: arrays, shapes, or texts that
    name sizes.

    Differentiated are the arguments `argnums`, by default all that hold floats. Each part is derived, or stays JAX: for
    lack of a rule, because a derivative is the user's, or because JAX's gradient is as cheap. Sizes with names are
    counted as two numbers in turn, the linter's; shown is what is done at the larger one. Raises `ArgumentError` for
    specifications that can't be read. Exceptions from `fun` are not caught.

    >>> import jax.numpy as jnp
    >>> print(str(tl.jax.explain(lambda x: jnp.sum(jnp.cumsum(x)), "n")).splitlines()[0])
    <lambda>: all of it stays JAX
    """
    name = getattr(fun, "__name__", "f")
    given = shapes_of(specs)
    chosen = range(len(given)) if argnums is None else (argnums,) if isinstance(argnums, int) else argnums
    active = [k in chosen for k, x in enumerate(given) for _ in jax.tree.leaves(x)]

    def at_shapes(shapes: Any) -> Explanation:
        return explanation(name, plan(jax.make_jaxpr(fun)(*shapes), active))

    if not have_names(given):
        return at_shapes(given)
    with patience():
        return _grown(*(at_shapes(at(given, n)) for n in SIZES))


def _grown(smaller: Explanation, larger: Explanation) -> Explanation:
    """`larger`, with the operations of `smaller` added if both have the same parts."""
    if [row.lines for row in smaller.rows] != [row.lines for row in larger.rows]:
        return larger
    pairs = zip(larger.rows, smaller.rows, strict=True)
    return replace(larger, rows=tuple(replace(row, smaller=(r.jax_work, r.derived_work)) for row, r in pairs))


def explanation(name: str, found: RewritePlan) -> Explanation:
    """The explanation of a plan."""
    rows: list[ExplainedPart] = []
    programs: list[Any] = []
    assumptions: dict[str, None] = {}

    def region(r: Region, where: str) -> None:
        if r.why is None:
            assert r.program is not None
            programs.append(r.program.function)
            assumptions.update(dict.fromkeys(r.program.assumptions))
            rows.append(ExplainedPart(r.lines, "derived", f"{where}a tensor program", r.jax_work, r.derived_work))
        elif r.flat.outputs:
            rows.append(ExplainedPart(r.lines, "JAX", where + r.why, r.jax_work, r.derived_work))

    def part(p: RewritePlan, where: str) -> None:
        for r in p.partition.regions:
            region(r, where)
        for equation, body in p.bodies:
            part(body, where + within(equation))

    part(found, "")
    for where, refused in found.refused:
        line = line_of(refused.equation)
        rows.append(
            ExplainedPart(
                () if line is None else (line,), "JAX", f"{where}{refused.equation.primitive.name}: {refused.why}"
            )
        )
    rows.sort(key=lambda row: [(line.filename, line.line) for line in row.lines[:1]])
    return Explanation(name, tuple(rows), tuple(programs), tuple(assumptions))
