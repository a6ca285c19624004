"""A derivation as text: each step's rule, and what it rewrites to what, in the notation of Figure 14.

`<e | dX>_[p]` is an inner product; `<e | D X>_[p]` has D of the variable X on its right side, `<e | D[X]>_[p]` D of
X's definition. The cotangent that a rule makes for X is called X_bar.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf
from typing import Any

from tensorlang import shown
from tensorlang.derivatives.derivation import Derivation, InnerProduct, Side, Step, Told
from tensorlang.derivatives.ledger import Ledger
from tensorlang.language.function import Function, unused_name
from tensorlang.language.grammar import Expr, Proj, Var
from tensorlang.language.latex import expr_latex, function_latex, predicate_latex
from tensorlang.language.predicates import TRUE, Predicate
from tensorlang.language.show import (
    expr_text,
    expr_unicode,
    function_text,
    predicate_text,
    predicate_unicode,
    unicode_text,
)
from tensorlang.language.types import R, array
from tensorlang.normal.as_program import read, to_function
from tensorlang.normal.ssa import SSA, Constant, Statement, is_given, operands, output_list

_TEXT_SIDES: Mapping[Side, str] = {Side.VARIABLE: "D {0}", Side.DIFFERENTIAL: "d{0}", Side.DEFINITION: "D[{0}]"}


@dataclass(frozen=True)
class Style:
    """A way of writing the parts of a derivation; `product` and `differentials` are templates."""

    function: Callable[[Function], str]
    expr: Callable[[Expr], str]
    predicate: Callable[[Predicate], str]
    product: str = "<{0} | {1}>"
    masked: str = "<{0} | {1}>_[{2}]"
    differentials: Mapping[Side, str] = field(default_factory=lambda: _TEXT_SIDES)


STYLES = {
    "text": Style(function_text, expr_text, predicate_text),
    "unicode": Style(unicode_text, expr_unicode, predicate_unicode, "⟨{0} | {1}⟩", "⟨{0} | {1}⟩_[{2}]"),
    "latex": Style(
        function_latex,
        expr_latex,
        predicate_latex,
        r"\left\langle {0} \middle| {1} \right\rangle",
        r"\left\langle {0} \middle| {1} \right\rangle_{{\left[{2}\right]}}",
        {
            Side.VARIABLE: r"\mathbf{{D}} {0}",
            Side.DIFFERENTIAL: "d{0}",
            Side.DEFINITION: r"\mathbf{{D}}\left[{0}\right]",
        },
    ),
}
"""The styles that a derivation can be told in, by the names of the formats."""


def tell(
    derivation: Derivation, data: Mapping[str, Any] | None = None, style: Style = STYLES["text"]
) -> Iterator[Told]:
    """The steps in words, with their costs at the sizes and relations that `data` names, if any are given."""
    names = DerivationNames(derivation, style)
    ledger = Ledger(derivation, data) if data is not None else None
    for step in derivation.steps:
        yield names.told(step, ledger.step(step) if ledger and step.before else None)


def told_alone(step: Step) -> Told:
    """A step in words without its derivation; statements get made-up names."""
    zero = Constant(Fraction(0), ())
    nothing = SSA("", (), (zero,), zero)
    program = to_function(nothing)
    return DerivationNames(Derivation(program, nothing, (), (step,), nothing, program)).told(step, None)


def transcript(derivation: Derivation, data: Mapping[str, Any] | None = None, form: str = "text") -> str:
    """The program in tensor SSA, the steps, and the adjoint, in the style called `form`."""
    f, style = derivation.function, STYLES[form]
    names = DerivationNames(derivation, style)
    statements = [names.definition(x) for x in derivation.program.statements if not is_given(x)]
    outputs = ", ".join(names.of(x) for x in output_list(derivation.program.outputs))
    steps = tell(derivation, data, style)
    if form == "latex":
        rows = " \\\\\n".join(f"& {row}" for row in (*statements, rf"\text{{outputs: }} {outputs}"))
        told = " \\\\\n".join(step.latex() for step in steps)
        blocks = (style.function(f), _aligned(rows), _aligned(told), style.function(derivation.adjoint))
        return "\n\n".join(f"\\[\n{block}\n\\]" for block in blocks)
    by = ", ".join(x.name for x in derivation.wrt)
    parts = [f"The adjoint of {f.name} with respect to {by}", style.function(f), "Tensor SSA", "\n".join(statements)]
    parts += [f"outputs: {outputs}", "Derivation", "\n".join(map(str, steps))]
    parts += ["Adjoint", style.function(derivation.adjoint)]
    return "\n\n".join(parts)


def _aligned(rows: str) -> str:
    return f"\\begin{{aligned}}\n{rows}\n\\end{{aligned}}"


class DerivationNames:
    """The names of the statements of a derivation."""

    def __init__(self, derivation: Derivation, style: Style = STYLES["text"]) -> None:
        self.style = style
        self.names: dict[Statement, Expr] = {}
        self.taken = {p.name for p in derivation.program.params}
        self._number(derivation.program)
        for step in derivation.steps:
            for product in (*step.before, *step.after):
                if product.left not in self.names:
                    self._name(product.left, f"{self._plain(product.right)}_bar")
        self._number(derivation.result)

    def _number(self, s: SSA) -> None:
        for x in s.statements:
            if x in s.names and x not in self.names:
                self._name(x, s.names[x])
        for k, x in enumerate(s.statements):
            if x not in self.names:
                self._name(x, f"X{k}")

    def _name(self, x: Statement, wanted: str) -> None:
        if is_given(x) or (isinstance(x, Constant) and not x.shape):
            self.names[x] = read(x, {})
        else:
            name = unused_name(wanted, self.taken)
            self.taken.add(name)
            self.names[x] = Var(name, array(x.shape, R))

    def _plain(self, x: Statement) -> str:
        """A base for further names."""
        e = self.expr(x)
        while isinstance(e, Proj):
            e = e.body
        return e.name if isinstance(e, Var) else "X"

    def expr(self, x: Statement) -> Expr:
        """`x` as a variable, input or number."""
        if x not in self.names:
            self._name(x, f"X{len(self.names)}")
        return self.names[x]

    def of(self, x: Statement) -> str:
        """The name of `x`."""
        return self.style.expr(self.expr(x))

    def definition(self, x: Statement) -> str:
        """X = its right-hand side."""
        return f"{self.of(x)} = {self.style.expr(read(x, {y: self.expr(y) for y in operands(x)}))}"

    def product(self, product: InnerProduct) -> str:
        """<e | dX>_[p]."""
        right = self.style.differentials[product.side].format(self.of(product.right))
        left = self.of(product.left)
        if product.pred is TRUE:
            text = self.style.product.format(left, right)
        else:
            text = self.style.masked.format(left, right, self.style.predicate(product.pred))
        return f"-{text}" if product.sign < 0 else text

    def told(self, step: Step, cost: tuple[int, int] | None) -> Told:
        """`step` in words."""
        before = " + ".join(map(self.product, step.before))
        after = " + ".join(map(self.product, step.after))
        if step.before and not step.after:
            after = "0"
        if not step.before and step.subject is not None:
            before = self.definition(step.subject)
        elif not step.before:
            before = step.rule.law if self.style is not STYLES["latex"] else rf"\text{{{step.rule.name}}}"
        made = (x for x in step.made if not (is_given(x) or isinstance(x, Constant)))
        return Told(step.rule, before, tuple(map(self.definition, made)), after, cost)


@shown.lines.register(Step)
def _of_step(step: Step, limit: float = inf) -> Iterator[str]:
    yield from str(told_alone(step)).split("\n")


@shown.lines.register(Derivation)
def _of_derivation(derivation: Derivation, limit: float = inf) -> Iterator[str]:
    yield from transcript(derivation, derivation.data or None).split("\n")


shown.told.register(Derivation, tell)
