"""A derivation as one reads it: each step's rule, what it rewrites and to what, in the notation of Figure 14.

`<e | dX>_[p]` is an inner product; `<e | D X>_[p]` has D of the variable X on its right side, `<e | D[X]>_[p]` D of
X's definition. The cotangent that a rule makes for X is called X_bar.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tensorlang.derivative.derivation import Derivation, InnerProduct, Rule, Step
from tensorlang.derivative.ledger import Ledger
from tensorlang.language.function import unused_name
from tensorlang.language.grammar import Expr, Var
from tensorlang.language.predicates import TRUE
from tensorlang.language.show import expr_text, function_text, predicate_text
from tensorlang.language.types import R, array
from tensorlang.normal.ssa import SSA, Constant, Input, Statement, operands, output_list, read


@dataclass(frozen=True)
class Told:
    """A step in words; `cost` is what it rewrites before and after, where the derivation is told with sizes."""

    rule: Rule
    before: str
    made: tuple[str, ...]
    after: str
    cost: tuple[int, int] | None = None

    def __str__(self) -> str:
        lines = [self.before] if self.before else []
        lines += [f"{'   ' if k else '-> '}let {statement} in" for k, statement in enumerate(self.made)]
        if self.after:
            lines.append(f"{'  ' if self.made else '->'} {self.after}")
        if self.cost is not None and self.before:
            lines.append(f"   cost {self.cost[0]} -> {self.cost[1]}")
        head = f"{self.rule.number} {self.rule.name}"
        return f"{head:<28}" + ("\n" + " " * 28).join(line.replace("\n", "\n" + " " * 33) for line in lines)


def tell(derivation: Derivation, data: Mapping[str, Any] | None = None) -> Iterator[Told]:
    """The steps in words, with their costs at the sizes and relations that `data` names, if any are given."""
    names = Names(derivation)
    ledger = Ledger(derivation, data) if data is not None else None
    for step in derivation.steps:
        yield names.told(step, ledger.step(step) if ledger and step.before else None)


def transcript(derivation: Derivation, data: Mapping[str, Any] | None = None) -> str:
    """The program in tensor SSA, the steps, and the adjoint."""
    f = derivation.function
    names = Names(derivation)
    by = ", ".join(x.name for x in derivation.wrt)
    parts = [f"The adjoint of {f.name} with respect to {by}", function_text(f), "Tensor SSA"]
    parts.append("\n".join(names.definition(x) for x in derivation.program.statements if not isinstance(x, Input)))
    outputs = ", ".join(names.of(x) for x in output_list(derivation.program.outputs))
    parts += [f"outputs: {outputs}", "Derivation", "\n".join(map(str, tell(derivation, data)))]
    parts += ["Adjoint", function_text(derivation.adjoint)]
    return "\n\n".join(parts)


class Names:
    """What each statement of a derivation is called."""

    def __init__(self, derivation: Derivation) -> None:
        self.names: dict[Statement, str] = {}
        self.taken = {p.name for p in derivation.program.params}
        self._number(derivation.program)
        for step in derivation.steps:
            for product in (*step.before, *step.after):
                if product.left not in self.names:
                    self._name(product.left, f"{self.of(product.right)}_bar")
        self._number(derivation.result)

    def _number(self, s: SSA) -> None:
        for x in s.statements:
            if x in s.names and x not in self.names:
                self._name(x, s.names[x])
        for k, x in enumerate(s.statements):
            if x not in self.names:
                self._name(x, f"X{k}")

    def _name(self, x: Statement, wanted: str) -> None:
        if isinstance(x, Input):
            self.names[x] = expr_text(read(x, {}))
        elif isinstance(x, Constant) and not x.shape:
            self.names[x] = str(x.value)
        else:
            self.names[x] = unused_name(wanted, self.taken)
            self.taken.add(self.names[x])

    def of(self, x: Statement) -> str:
        """The name of `x`."""
        if x not in self.names:
            self._name(x, f"X{len(self.names)}")
        return self.names[x]

    def definition(self, x: Statement) -> str:
        """X = its right-hand side."""
        given: dict[Statement, Expr] = {
            y: read(y, {}) if isinstance(y, Input) or (isinstance(y, Constant) and not y.shape) else self._variable(y)
            for y in operands(x)
        }
        return f"{self.of(x)} = {expr_text(read(x, given))}"

    def _variable(self, x: Statement) -> Var:
        return Var(self.of(x), array(x.shape, R))

    def product(self, product: InnerProduct) -> str:
        """<e | dX>_[p]."""
        right = product.side.value.replace("X", self.of(product.right))
        mask = "" if product.pred is TRUE else f"_[{predicate_text(product.pred)}]"
        return f"{'-' if product.sign < 0 else ''}<{self.of(product.left)} | {right}>{mask}"

    def told(self, step: Step, cost: tuple[int, int] | None) -> Told:
        """`step` in words."""
        before = " + ".join(map(self.product, step.before))
        after = " + ".join(map(self.product, step.after))
        if step.before and not step.after:
            after = "0"
        if not step.before:
            before = step.rule.law if step.subject is None else self.definition(step.subject)
        made = (x for x in step.made if not isinstance(x, Input | Constant))
        return Told(step.rule, before, tuple(map(self.definition, made)), after, cost)
