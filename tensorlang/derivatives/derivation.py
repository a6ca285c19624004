"""Inner products (Figure 14), the rules of Figures 15 and 16, and a derivation as a value: the list of its steps.

In the middle of a derivation the expression is

    let X = E in ..            the program's statements, and those that the derivation has made
    let dX = D[E] in ..        the differentials that are not used up
    <e | dX>_[p] + ..          a sum of inner products, where <e | dX>_[p] = sum g. [p] * e[g] * dX[g]

and each step rewrites a few of these inner products. A step therefore keeps just what it changes: the inner
products before and after, and the statements that it makes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tensorlang.costs.cost import known
from tensorlang.language.function import Function
from tensorlang.language.given import together
from tensorlang.language.grammar import Var
from tensorlang.language.predicates import TRUE, Predicate
from tensorlang.normal.ssa import SSA, Statement
from tensorlang.shown import Shown, page, text, told


@dataclass(frozen=True, repr=False)
class Rule(Shown):
    """A rewriting rule: its number in the paper, its name, and its law.

    >>> rule = tl.derive(tl.parse("f(x: R) = sin(x)")).steps[2].rule
    >>> print(rule)
    6.21 variable: <e | D X>_[P]  ->  <e | dX>_[P]
    >>> rule.theorems
    ('value_6_21', 'cost_6_21')
    """

    number: str
    name: str
    law: str

    @property
    def theorems(self) -> tuple[str, ...]:
        """The theorems in proofs/ that it keeps the value and never raises the extended cost; none for recurrences and
        declared adjoints."""
        if self.number in ("6.R1", "6.A"):
            return ()
        number = self.number.replace(".", "_")
        return f"value_{number}", f"cost_{number}"

    def __str__(self) -> str:
        return f"{self.number} {self.name}: {self.law}"


def _rules(*rules: Rule) -> dict[str, Rule]:
    return {rule.number: rule for rule in rules}


RULES: Mapping[str, Rule] = _rules(
    Rule("6.14", "let", "<dY | D(let X = e0 in e1)>  ->  let X = e0 in let dX = D e0 in <dY | D e1>"),
    Rule("6.15", "order of lets", "let dX = D e0 in let X = e1 in e  ->  let X = e1 in let dX = D e0 in e"),
    Rule("6.16", "pair", "<dY | D(e0, e1)>  ->  <fst dY | D e0> + <snd dY | D e1>"),
    Rule("6.17", "projection", "<dY | D(fst x)>_[P]  ->  <([P]*dY, 0) | D x>"),
    Rule("6.18", "pairing", "<(dY0, 0) | e> + <(0, dY1) | e>  ->  <(dY0, dY1) | e>"),
    Rule("6.19", "reversal", "let dX = D e0 in <e1 | dX>_[P] + S  ->  let dX = e1 in <dX | D e0>_[P] + S"),
    Rule("6.20", "unused differential", "let dX = D e0 in S  ->  S"),
    Rule("6.21", "variable", "<e | D X>_[P]  ->  <e | dX>_[P]"),
    Rule("6.22", "inactive variable", "<e | D X>_[P]  ->  0"),
    Rule("6.23", "constant", "<e | D c>_[P]  ->  0"),
    Rule("6.24", "zero", "e + 0  ->  e"),
    Rule(
        "6.25",
        "collection",
        "<e0 | dX>_[P0] + <e1 | dX>_[P1] + ..  ->  let dY = gen g. ([P0]*e0[g] + [P1]*e1[g] + ..) in "
        "<dY | dX>_[P0 or P1 or ..]",
    ),
    Rule("6.26", "addition", "<dY | D([p0]*X0 + [p1]*X1)>_[P]  ->  <dY | D X0>_[p0 and P] + <dY | D X1>_[p1 and P]"),
    Rule(
        "6.27",
        "scalar function",
        "<dY | D([p]*f(X0, ..))>_[P]  ->  let dXk' = [p and P]*Dt_k f(X0, ..; dY) in <dXk' | D Xk>_[p and P] + ..",
    ),
    Rule(
        "6.28",
        "product",
        "<dY | D(gen g. sum i0, i1, s. [p]*X0[i0]*X1[i1])>_[P]  ->  "
        "let dX0' = gen i0. sum g, i1, s. [p and P]*dY[g]*X1[i1] in "
        "let dX1' = gen i1. sum g, i0, s. [p and P]*dY[g]*X0[i0] in "
        "<dX0' | D X0>_[exists g, i1, s. p and P] + <dX1' | D X1>_[exists g, i0, s. p and P]",
    ),
    Rule(
        "6.29",
        "sum",
        "<dY | D(gen g. sum i, s. [p]*X[i])>_[P]  ->  "
        "let dX' = gen i. sum g, s. [p and P]*dY[g] in <dX' | D X>_[exists g, s. p and P]",
    ),
)
"""The rules of Figures 15 and 16 by their numbers."""


RECURRENCE = Rule(
    "6.R1",
    "recurrence",
    "<dY | D(fold t:n with s = e0. e1)>_[P]  ->  let c = fold r:n with c = dY. Dt_s e1(n - 1 - r; c) in "
    "<c | D e0>_[Q(0)] + <sum t:n. Dt_w e1(t; c(t)) | D w>_[exists t. Q_w(t)] + ..",
)
"""The rule for recurrences, which is not in the paper; `derivative.recurrence` says what it needs."""

COUNTED = replace(RECURRENCE, name="recurrence, on all of its states: its cost is counted")
"""The same where no supports Q are proved: the adjoint is right, but its cost is known only by counting."""


DECLARED = Rule(
    "6.A",
    "declared adjoint",
    "<dY | D r(X0, ..)>_[P]  ->  let (dX0', ..) = r'(X0, .., Y, [P]*dY) in <dX0' | D X0> + ..",
)
"""The rule for calls of routines, whose adjoints r' are trusted as declared."""


class Side(Enum):
    """The kind of an inner product's right side: D of a variable X, its differential dX, or D of X's definition."""

    VARIABLE = "D X"
    DIFFERENTIAL = "dX"
    DEFINITION = "D[X]"


@dataclass(frozen=True, eq=False)
class InnerProduct:
    """sign * <left | side of X>_[pred], where X is `right`.

    The pair rules (6.16 to 6.18) are about whole outputs and inputs and have no inner products of arrays.
    """

    left: Statement
    right: Statement
    side: Side
    pred: Predicate = TRUE
    sign: int = 1


@dataclass(frozen=True, eq=False, repr=False)
class Step(Shown):
    """One application of a rule: `before` becomes `after`, under the new statements `made`.

    `str` tells the step with names of its own; `Derivation.tell` tells all of them with the same names.

    >>> step = tl.derive(tl.parse("f(x: R) = sin(x)")).steps[4]
    >>> step.rule.name, len(step.before), len(step.after), len(step.made)
    ('scalar function', 1, 1, 2)
    """

    rule: Rule
    before: tuple[InnerProduct, ...]
    after: tuple[InnerProduct, ...]
    made: tuple[Statement, ...] = ()
    subject: Statement | None = None

    def __str__(self) -> str:
        return text(self)


@dataclass(frozen=True, repr=False)
class Told(Shown):
    """A step in words; `cost` has the costs before and after of what it rewrites, if sizes are given.

    >>> told = tl.derive(tl.parse("f(x: [n]R) = sum i:n. sin(x[i])")).tell(n=3)[5]
    >>> for line in told.lines():
    ...     print(line)
    <f_bar | D[X2]>
    -> let X1_bar = gen i:n. f_bar in
       <X1_bar | D X1>
       cost 3 -> 3
    >>> r"6.29 sum" in told.latex()
    True
    """

    rule: Rule
    before: str
    made: tuple[str, ...]
    after: str
    cost: tuple[int, int] | None = None

    def lines(self) -> list[str]:
        """What is rewritten, to what, and at what cost."""
        lines = [self.before] if self.before else []
        lines += [f"{'   ' if k else '-> '}let {statement} in" for k, statement in enumerate(self.made)]
        if self.after:
            lines.append(f"{'  ' if self.made else '->'} {self.after}")
        if self.cost is not None and self.before:
            lines.append(f"   cost {self.cost[0]} -> {self.cost[1]}")
        return lines

    def __str__(self) -> str:
        head = f"{self.rule.number} {self.rule.name}"
        return f"{head:<28}" + ("\n" + " " * 28).join(line.replace("\n", "\n" + " " * 33) for line in self.lines())

    def latex(self) -> str:
        """The step as rows of an `aligned` environment, where it was told in LaTeX."""
        lets = [rf"\mathbf{{let}}\ {statement}\ \mathbf{{in}}" for statement in self.made]
        after = [*lets, self.after] if self.after else lets
        rows = [self.before, *(rf"\cong\ {line}" if k == 0 else rf"\quad {line}" for k, line in enumerate(after))]
        if self.cost is not None:
            rows.append(rf"\text{{cost }} {self.cost[0]} \to {self.cost[1]}")
        head = rf"\text{{{self.rule.number} {self.rule.name}}}"
        return " \\\\\n".join(f"{'' if k else head} & {row}" for k, row in enumerate(rows))


@dataclass(frozen=True, eq=False, repr=False)
class Derivation(Shown):
    """How the adjoint of `function` is derived.

    `program` is the SSA that the derivation starts from, `wrt` its parameters that are differentiated, `steps` are the
    applications of rules in order, `result` is the SSA that they end in, and `adjoint` the program that simplification
    makes of it. `data` has the sizes, relations and index arrays that its costs are counted at, by name, if any are
    given. In a notebook it is a view to step through.

    >>> steps = tl.derive(tl.parse("f(x: R) = sin(x)")).tell()
    >>> print(steps[0].rule)
    6.14 let: <dY | D(let X = e0 in e1)>  ->  let X = e0 in let dX = D e0 in <dY | D e1>
    """

    function: Function
    program: SSA
    wrt: tuple[Var, ...]
    steps: tuple[Step, ...]
    result: SSA
    adjoint: Function
    data: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def __str__(self) -> str:
        return text(self)

    def __repr__(self) -> str:
        by = ", ".join(x.name for x in self.wrt)
        return f"the derivation of {self.function.name}'s adjoint by {by} in {len(self.steps)} steps; print shows them"

    def at(self, given: Mapping[str, Any] | None = None, /, **data: Any) -> Derivation:
        """The same derivation with costs counted at these sizes, relations and index arrays, given by name: as
        keywords, or in a mapping.

        Raises `ArgumentError` if some are missing or don't belong to the program.

        >>> d = tl.derive(tl.parse("f(x: [n]R) = sum i:n. sin(x[i])"))
        >>> print(dict(d.at(n=3).data), d.at(n=3).tell()[5].cost)
        {'n': 3} (3, 3)
        """
        data = together(given, data)
        known(self.function, data)
        return replace(self, data=data)

    def save(self, path: str | PathLike[str], steps: range | None = None) -> None:
        """Write a page that steps through the derivation in any browser and needs nothing else.

        `steps` says which steps it has, counted from 1; without it the first 1,000.

        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     page = pathlib.Path(folder) / "f.html"
        ...     tl.derive(tl.parse("f(x: R) = sin(x)")).save(page)
        ...     page.read_text()[:15]
        '<!DOCTYPE html>'
        """
        Path(path).write_text(page(self, steps), encoding="utf-8")

    def tell(self, given: Mapping[str, Any] | None = None, /, **data: Any) -> tuple[Told, ...]:
        """The steps in words; with sizes (and relations' data) by name, as keywords or in a mapping, also what each
        costs before and after.

        Raises `ArgumentError` if some sizes are missing or don't belong to the program.

        >>> d = tl.derive(tl.parse("f(x: [n]R) = sum i:n. sin(x[i])"))
        >>> print(d.tell(n=3)[5])
        6.29 sum                    <f_bar | D[X2]>
                                    -> let X1_bar = gen i:n. f_bar in
                                       <X1_bar | D X1>
                                       cost 3 -> 3
        """
        return tuple(told(self, together(given, data) or self.data or None))
