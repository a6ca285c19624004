"""Figures 15 and 16: the adjoint, by rewriting <dY | D S> into <g | dx>.

The strategy is the paper's: lets first (6.14, 6.15), then the outputs' pairs (6.16), then the statements from the
last to the first. At a statement let X = E, everything that refers to dX has been rewritten to inner products
<e_k | dX>_[P_k]; they are collected to one (6.25), the let is reversed (6.19), and the rule for E (6.26 to 6.29)
gives inner products with the differentials of what E reads. At the end there is one inner product for each input,
and its left side, masked by its predicate (6.17) and paired (6.18), is the adjoint.

The left sides need not be zero where their predicate is false, so it is never dropped before the end.

No step raises the extended cost (`ledger`), so the adjoint costs at most 4 times the program, inputs and outputs
counted (Theorem 6.35). This requires that predicates of inner products are projected exactly, that contributions are
collected under the union of their predicates, and that both p and P go into the masks of 6.26 to 6.29.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import islice

from tensorlang.derivatives.declared import adjoints, cotangents
from tensorlang.derivatives.derivation import COUNTED, DECLARED, RECURRENCE, RULES, InnerProduct, Side, Step
from tensorlang.derivatives.recurrence import backwards
from tensorlang.derivatives.recurrence_stores import late_arrays
from tensorlang.derivatives.recurrence_supports import ExternalProduct
from tensorlang.derivatives.total import active, transposed
from tensorlang.language.function import Results, unused_name
from tensorlang.language.grammar import Var
from tensorlang.language.predicates import FALSE, TRUE, Predicate, conjunction, disjunction
from tensorlang.language.types import Pair, R, Type, leaves, shape, struct_of_arrays
from tensorlang.memory import cached
from tensorlang.normal.pattern import Pattern, renamed
from tensorlang.normal.recurrences import merged
from tensorlang.normal.ssa import (
    SSA,
    Addend,
    Addition,
    Comparison,
    Constant,
    Contraction,
    Input,
    Loop,
    Map,
    Outputs,
    Result,
    Selection,
    Statement,
    States,
    live,
    output_list,
    own_ranges,
    result_of,
    selections,
    whole_of,
)
from tensorlang.normal.tidy import map_outputs
from tensorlang.normal.to_ssa import StatementBuilder
from tensorlang.recursion import Deep, call, run
from tensorlang.sets.solve import project, simplify_in


def adjoint_steps(s: SSA, wrt: tuple[Var, ...], kind: Type) -> tuple[SSA, list[Step]]:
    """D^T[S] and the steps of its derivation.

    The result is a program of the parameters of `s`, then the cotangent of its output, which has type `kind`;
    it gives the cotangents of `wrt`, more than one as pairs nested to the right.
    """
    return _Rewriting(s, wrt, kind).run()


adjoints.append(adjoint_steps)


class _Rewriting:
    def __init__(self, s: SSA, wrt: tuple[Var, ...], kind: Type) -> None:
        self.program = s
        self.wrt = wrt
        taken = {p.name for p in s.params}
        self.cotangent = Var(unused_name(f"{s.name}_bar", taken), struct_of_arrays(kind))
        self.builder = StatementBuilder({p for p in s.params if isinstance(p, Var)} | {self.cotangent})
        for x in s.statements:
            self.builder.emit(x)
        self.active = active(s, wrt)
        self.pending: dict[Statement, list[InnerProduct]] = {x: [] for x in s.statements if x in self.active}
        self.names = dict(s.names)
        self.zero_outside: dict[Statement, Predicate] = {}
        self.steps: list[Step] = []
        self.left = Counter(x.loop for x in s.statements if isinstance(x, States))
        self.stored: dict[Loop, Loop] = {}
        self.called = Counter(x.application for x in s.statements if isinstance(x, Result))

    def run(self) -> tuple[SSA, list[Step]]:
        self._lets()
        self._outputs()
        for x in reversed(self.program.statements):
            if isinstance(x, States | Result):
                self._whole(x)
                continue
            if x not in self.active or isinstance(x, Input):
                continue
            if not self.pending[x]:
                self._step("6.20", (), (), subject=x)
                continue
            product = self._collected(x)
            reversed_ = InnerProduct(product.left, x, Side.DEFINITION, product.pred)
            self._step("6.19", (product,), (reversed_,), subject=x)
            if x in self.program.names:
                self.names.setdefault(product.left, f"{self.program.names[x]}_bar")
            self._rewrite(x, reversed_)
        outputs = _nested([self._input(x) for x in self.wrt])
        results: Results = None if len(self.wrt) == 1 else (None,) * len(self.wrt)
        if self.stored:
            return self._with_stored(outputs, results), self.steps
        program = SSA(
            self.program.name + "_adjoint",
            (*self.program.params, self.cotangent),
            tuple(self.builder.statements),
            outputs,
            self.names,
            results,
        )
        return live(program), self.steps

    def through(self, products: list[InnerProduct]) -> dict[Input, InnerProduct]:
        """6.19 to 6.29 for a step of a recurrence: from inner products with its outputs to ones with its variables."""
        self._contribute(products)
        for x in reversed(self.program.statements):
            if isinstance(x, States | Result):
                self._whole(x)
            elif x in self.active and not isinstance(x, Input) and self.pending[x]:
                product = self._collected(x)
                self._rewrite(x, InnerProduct(product.left, x, Side.DEFINITION, product.pred))
        inputs = [x for x in self.pending if isinstance(x, Input) and whole_of(x) is None and self.pending[x]]
        return {x: self._collected(x) for x in inputs}

    def _whole(self, x: States | Result) -> None:
        if isinstance(x, States):
            self._states(x)
        else:
            self._result(x)

    def _result(self, x: Result) -> None:
        """6.A, once everything that refers to the results of an application has been rewritten."""
        a = x.application
        self.called[a] -= 1
        if self.called[a]:
            return
        parts = [result_of(a, place) for place in range(len(leaves(a.type)))]
        if not any(self.pending.get(y) for y in parts):
            return
        before = {y: self._collected(y) for y in parts if self.pending.get(y)}
        known = len(self.builder.statements)
        bars: list[Statement] = []
        for y in parts:
            if y not in before:
                bars.append(self.builder.emit(Constant(Fraction(0), y.shape)))
                continue
            bars.append(self._masked(before[y].left, before[y].pred))
        made = cotangents(self.builder, a, bars)
        found = zip(made, a.operands, strict=True)
        after = [InnerProduct(left, y, Side.VARIABLE) for left, y in found if y in self.active]
        self.steps.append(Step(DECLARED, tuple(before.values()), tuple(after), tuple(self._since(known)), x))
        self._contribute(after)

    def _states(self, x: States) -> None:
        """6.R1, once everything that refers to the states of a recurrence has been rewritten."""
        self.left[x.loop] -= 1
        if self.left[x.loop]:
            return
        read = [y for y in self.program.statements if isinstance(y, States) and y.loop is x.loop and y in self.active]
        found = [y for y in read if self.pending[y]]
        if not found:
            return
        before = [self._collected(y) for y in found]
        known = len(self.builder.statements)
        chosen = selections(self.program.statements)
        external = [
            ExternalProduct(y.place, y.word, q.left, q.pred).without(chosen, self._masked)
            for y, q in zip(found, before, strict=True)
        ]
        late = late_arrays(self.program.statements, x.loop)
        made = backwards(self.builder, x.loop, external, self.active, active, _through, late)
        self.stored[x.loop] = made.stored
        for product in made.products:
            self.zero_outside.setdefault(product.left, product.pred)
        rule = RECURRENCE if made.exact else COUNTED
        self.steps.append(Step(rule, tuple(before), made.products, tuple(self._since(known)), x))
        self._contribute(list(made.products))

    def _masked(self, x: Statement, p: Predicate) -> Statement:
        """[p] * x; `x` itself if it is known to be that."""
        if p is TRUE or self.zero_outside.get(x) is p:
            return x
        return self.builder.emit(Addition((Addend(1, p, x),), x.shape))

    def _with_stored(self, outputs: Outputs, results: Results) -> SSA:
        """The adjoint, in which recurrences store the values of their steps that it reads."""
        new = merged([*self.builder.statements, *output_list(outputs)], self.stored)
        names = {new[x]: name for x, name in self.names.items() if x in new}
        return live(
            SSA(
                self.program.name + "_adjoint",
                (*self.program.params, self.cotangent),
                tuple(dict.fromkeys(new.values())),
                map_outputs(outputs, new),
                names,
                results,
            )
        )

    def _step(
        self,
        number: str,
        before: Iterable[InnerProduct],
        after: Iterable[InnerProduct],
        made: Iterable[Statement] = (),
        subject: Statement | None = None,
    ) -> None:
        self.steps.append(Step(RULES[number], tuple(before), tuple(after), tuple(made), subject))

    def _lets(self) -> None:
        for x in self.program.statements:
            if not (isinstance(x, Input) or (isinstance(x, Constant) and not x.shape)):
                self._step("6.14", (), (), subject=x)
        self._step("6.15", (), ())

    def _outputs(self) -> None:
        """6.16 until there is one inner product for each output."""
        stack: list[tuple[Outputs, tuple[int, ...]]] = [(self.program.outputs, ())]
        while stack:
            output, path = stack.pop()
            if isinstance(output, tuple):
                self._step("6.16", (), ())
                stack += [(output[1], (*path, 1)), (output[0], (*path, 0))]
                continue
            dy = self.builder.emit(Input(self.cotangent, path, output.shape))
            self._contribute([InnerProduct(dy, output, Side.VARIABLE)])

    def _contribute(self, products: list[InnerProduct]) -> None:
        """6.21 to 6.24: <e | D X> is <e | dX>, or 0 if X does not depend on a differentiated parameter."""
        for product in products:
            x = product.right
            if x in self.active:
                differential = InnerProduct(product.left, x, Side.DIFFERENTIAL, product.pred, product.sign)
                self.pending[x].append(differential)
                self._step("6.21", (product,), (differential,), subject=x)
            else:
                self._step("6.23" if isinstance(x, Constant) else "6.22", (product,), (), subject=x)
                self._step("6.24", (), ())

    def _collected(self, x: Statement) -> InnerProduct:
        """6.25: all contributions to dX as one; a single one stays as it is, unless it has a negative sign."""
        products = self.pending[x]
        if len(products) == 1 and products[0].sign > 0:
            return products[0]
        known = len(self.builder.statements)
        dy = self.builder.emit(Addition(tuple(Addend(q.sign, q.pred, q.left) for q in products), x.shape))
        union = self._simplified(disjunction(q.pred for q in products), x)
        collected = InnerProduct(dy, x, Side.DIFFERENTIAL, union)
        self.zero_outside[dy] = union
        self._step("6.25", products, (collected,), self._since(known), x)
        return collected

    def _simplified(self, p: Predicate, x: Statement) -> Predicate:
        return simplify_in(p, own_ranges(x))

    def _rewrite(self, x: Statement, product: InnerProduct) -> None:
        """The rule for E in let X = E."""
        after: list[InnerProduct] = []
        known = len(self.builder.statements)
        dy, mask = product.left, product.pred
        match x:
            case Addition(terms, _):
                number = "6.26"
                for t in terms:
                    p = self._simplified(conjunction([t.pred, mask]), x)
                    if p is not FALSE:
                        after.append(InnerProduct(dy, t.operand, Side.VARIABLE, p, t.sign))
            case Map(p, _, arguments, _):
                number = "6.27"
                p = self._simplified(conjunction([p, mask]), x)
                for k, y in enumerate(arguments):
                    if y not in self.active or p is FALSE:
                        continue
                    part = transposed(self.builder, x, k, dy, p)
                    if part is not None:
                        if part not in (dy, x, *arguments) and not isinstance(part, Constant):
                            self.zero_outside[part] = p
                        after.append(InnerProduct(part, y, Side.VARIABLE, p))
            case Contraction(p, factors, _, _):
                number = "6.28" if len(factors) == 2 else "6.29"
                for k, y in enumerate(factors):
                    if y in self.active:
                        part, where = self._transposed_contraction(x, k, dy, conjunction([p, mask]))
                        if where is not FALSE:
                            self.zero_outside[part] = where
                            after.append(InnerProduct(part, y, Side.VARIABLE, where))
            case Input() | Constant() | Selection() | Comparison():
                raise AssertionError("what has no differential is not rewritten")
        self._step(number, (product,), after, self._since(known), x)
        self._contribute(after)

    def _since(self, known: int) -> list[Statement]:
        """The statements after the first `known`; one that is emitted again is listed only once."""
        # from the end: walking there from the start would make all steps together quadratic
        return list(islice(reversed(self.builder.statements), len(self.builder.statements) - known))[::-1]

    def _transposed_contraction(
        self, x: Contraction, k: int, dy: Statement, p: Predicate
    ) -> tuple[Statement, Predicate]:
        """6.28, 6.29: gen ik. sum g, .. [p]*dY[g]*X_other[..], and the predicate where it can be other than 0."""
        pattern, where = _transposed_pattern(x.pattern, k, p)
        factors = (dy, *x.factors[:k], *x.factors[k + 1 :])
        return self.builder.emit(Contraction(pattern.pred, factors, pattern.summed, pattern.shape)), where

    def _input(self, x: Var) -> Outputs:
        """6.17 and 6.18: the cotangent of a parameter, a pair for a pair."""
        parts: list[Outputs] = []
        for path, kind in leaves(x.type):
            leaf = Input(x, path, shape(kind)[0])
            if leaf not in self.active or not self.pending[leaf]:
                parts.append(self.builder.emit(Constant(Fraction(0), leaf.shape)))
                continue
            product = self._collected(leaf)
            masked, known = product.left, len(self.builder.statements)
            if product.pred is not TRUE and self.zero_outside.get(product.left) is not product.pred:
                masked = self.builder.emit(Addition((Addend(1, product.pred, product.left),), leaf.shape))
            self.names.setdefault(masked, f"{x.name}_bar")
            self._step("6.17", (product,), (InnerProduct(masked, leaf, Side.DIFFERENTIAL),), self._since(known), leaf)
            parts.append(masked)
        if len(parts) > 1:
            self._step("6.18", (), ())
        return _tree(struct_of_arrays(x.type), iter(parts))


def _through(
    s: SSA, wrt: tuple[Var, ...], products: list[InnerProduct]
) -> tuple[StatementBuilder, dict[Input, InnerProduct], dict[Loop, Loop]]:
    """The rules applied to inner products with the outputs of a step: the statements, an inner product for each
    variable, and the recurrences that store more than before."""
    inside = _Rewriting(s, wrt, R)
    for product in products:
        inside.builder.emit(product.left)
    found = inside.through(products)
    return inside.builder, found, inside.stored


@cached
def _transposed_pattern(x: Pattern, k: int, p: Predicate) -> tuple[Pattern, Predicate]:
    """The pattern of `_transposed_contraction`, for a contraction with pattern `x` under the predicate `p`."""
    ranges = {**x.outer, **x.inner}
    p = simplify_in(p, ranges)
    own = x.places[k]
    known = {i: ranges[i] for i in own}
    where = project({i: n for i, n in ranges.items() if i not in known}, p, known)
    others = [j for j in range(len(x.factors)) if j != k]
    made = Pattern(TRUE, (x.shape, *(x.factors[j] for j in others)), x.summed, x.factors[k])
    old = (*own, *x.own, *(i for j in others for i in x.places[j]), *x.loops)
    where = simplify_in(renamed(where, own, made.own), made.outer)
    return Pattern(renamed(p, old, made.indices), made.factors, made.summed, made.shape), where


def _tree(kind: Type, parts: Iterator[Outputs]) -> Outputs:
    """The parts, in order, as the leaves of the pairs of `kind`."""

    def build(kind: Type) -> Deep[Outputs]:
        if isinstance(kind, Pair):
            return (yield from call(build(kind.first))), (yield from call(build(kind.second)))
        return next(parts)

    return run(build(kind))


def _nested(parts: list[Outputs]) -> Outputs:
    result = parts[-1]
    for part in reversed(parts[:-1]):
        result = (part, result)
    return result
