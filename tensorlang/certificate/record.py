"""A derivation as data that another program can check: one program of lets, and steps in terms of their names.

See docs/certificates.md.
"""

from __future__ import annotations

from typing import Any

from tensorlang.certificate.obligations import THEOREMS
from tensorlang.derivatives.derivation import Derivation, InnerProduct, Side, Step
from tensorlang.derivatives.transcript import DerivationNames
from tensorlang.language.affine import Index, IndexArray
from tensorlang.language.function import Function
from tensorlang.language.grammar import Expr, MakePair, Routine, ScalarFunction, Var, bracket, gen, number
from tensorlang.language.lets import bindings, under
from tensorlang.language.names import Named, free_names
from tensorlang.language.predicates import TRUE, Predicate
from tensorlang.language.show import expr_text
from tensorlang.language.types import R, array
from tensorlang.normal.as_program import read
from tensorlang.normal.pattern import Shape, axes, renamed
from tensorlang.normal.ssa import Defining, Map, Outputs, Statement, operands
from tensorlang.recursion import Deep, call, run
from tensorlang.surface.parse import reread


class Record:
    """The lets of a derivation, `function`, and its `steps`, those that rewrite inner products."""

    def __init__(self, derivation: Derivation) -> None:
        self.derivation = derivation
        self.names = DerivationNames(derivation)
        statements = dict.fromkeys(derivation.program.statements)
        for step in derivation.steps:
            statements.update(dict.fromkeys(_kept(step)))
        statements.update(dict.fromkeys(derivation.result.statements))
        self.statements = tuple(statements)
        self.rewriting = [step for step in derivation.steps if step.before]
        self.wheres: dict[tuple[Predicate, Shape], Var] = {}
        for step in self.rewriting:
            for product in (*step.before, *step.after):
                self._where(product)
        self.function = self._as_function()
        self.text = str(self.function)
        self.spelling = self._spellings()
        self.said: dict[Statement, str] = {}

    @property
    def functions(self) -> list[ScalarFunction]:
        """The scalar functions that occur, by their names."""
        found = {x.function.name: x.function for x in self.statements if isinstance(x, Map)}
        return [found[name] for name in sorted(found)]

    def steps(self) -> list[dict[str, Any]]:
        """The steps, as JSON has them."""
        return [self._step(step) for step in self.rewriting]

    def _step(self, step: Step) -> dict[str, Any]:
        return {
            "rule": step.rule.number,
            "theorem": THEOREMS.get(step.rule.number),
            "before": [self._product(product) for product in step.before],
            "after": [self._product(product) for product in step.after],
            "made": [self._name(x) for x in _kept(step) if isinstance(self.names.expr(x), Var)],
        }

    def _product(self, product: InnerProduct) -> str:
        """<e | d X>_[where], after Figure 14."""
        where = self._where(product)
        masked = "" if where is None else f"_[{self.spelling[where]}]"
        right = _SIDES[product.side].format(self._name(product.right))
        return f"{'-' if product.sign < 0 else ''}<{self._name(product.left)} | {right}>{masked}"

    def _name(self, x: Statement) -> str:
        if x not in self.said:
            e = self.names.expr(x)
            own = {y: self.spelling[y] for y in free_names(e) if y in self.spelling}
            self.said[x] = own[e] if isinstance(e, Var) and e in own else expr_text(e, own)
        return self.said[x]

    def _where(self, product: InnerProduct) -> Var | None:
        """The variable for the predicate of `product`; None where that is true."""
        if product.pred is TRUE:
            return None
        shape = product.right.shape
        new = Var(f"where{len(self.wheres)}", array(shape, R))
        return self.wheres.setdefault((product.pred, shape), new)

    def _lets(self) -> list[tuple[Var | IndexArray, Expr]]:
        found: list[tuple[Var | IndexArray, Expr]] = []
        for x in self.statements:
            name = x.array if isinstance(x, Defining) else self.names.expr(x)
            if isinstance(name, Var | IndexArray) and name not in self.derivation.result.params:
                found.append((name, read(x, {y: self.names.expr(y) for y in operands(x)})))
        for (pred, shape), where in self.wheres.items():
            old = axes(0, len(shape))
            new = tuple(Index(i.name) for i in old)
            found.append((where, gen(list(zip(new, shape, strict=True)), bracket(renamed(pred, old, new), number(1)))))
        return found

    def _as_function(self) -> Function:
        d = self.derivation
        body: Expr = MakePair(run(self._tree(d.program.outputs)), run(self._tree(d.result.outputs)))
        body = under(self._lets(), body)
        return Function(f"{d.function.name}_derivation", d.result.params, body)

    def _tree(self, outputs: Outputs) -> Deep[Expr]:
        if isinstance(outputs, tuple):
            return MakePair((yield from call(self._tree(outputs[0]))), (yield from call(self._tree(outputs[1]))))
        return self.names.expr(outputs)

    def _spellings(self) -> dict[Named, str]:
        """The names in the text of the variables and index arrays that lets bind."""
        ours, theirs = (bindings(f.body)[0] for f in (self.function, reread(self.text)))
        return {x: y.name for (x, _), (y, _) in zip(ours, theirs, strict=False)}


_SIDES = {Side.VARIABLE: "D {0}", Side.DIFFERENTIAL: "d {0}", Side.DEFINITION: "D[{0}]"}


def _kept(step: Step) -> tuple[Statement, ...]:
    """The statements that a step makes, without sums that are in no inner product, such as empty ones."""
    if step.rule.number not in ("6.28", "6.29"):
        return tuple(step.made)
    return tuple(x for x in step.made if any(x is product.left for product in step.after))


def described(f: ScalarFunction, told: bool = True) -> dict[str, Any]:
    """A scalar function's cost and, if `told`, its derivative and its program, for JSON."""
    arguments = tuple(Var(f"x{k}", R) for k in range(f.arity))
    components = f.transpose(arguments, Var("y", R), Var("t", R)) if told else ()
    texts = [None if e is None else expr_text(e) for e in components] if told else None
    name = f.name if f.exponent is None else f"{f.name} {f.exponent}"
    found = {"name": name, "arity": f.arity, "cost": f.cost, "components": texts}
    if told and f.loops is not None:
        found |= f.loops.programs()
    return found if f.body is None else {**found, "body": expr_text(f.body)}


def described_external(r: Routine, rule: Function | None) -> dict[str, Any]:
    """An external function's types, cost and adjoint, all of which are taken on trust, for JSON."""
    cost = [[weight, [str(n) for n in sizes]] for weight, sizes in r.cost]
    return {"signature": f"{r.signature}: {r.kind}", "cost": cost, "adjoint": None if rule is None else str(rule)}
