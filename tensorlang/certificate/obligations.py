"""The proof obligations of a derivation: that each of its steps is an instance of its rule.

That no rule raises the extended cost (Figure 17) is proved once, in `proofs/`. Whether a step is an instance of a rule
depends on the sets in it, so the questions are about integer sets. They are asked anew here, about the recorded steps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from tensorlang.derivatives.derivation import Derivation, InnerProduct, Step
from tensorlang.derivatives.total import active
from tensorlang.language.affine import Index, atom_affine
from tensorlang.language.functions import derivative_cost
from tensorlang.language.grammar import Add, Call, Expr, Mul, Var, number
from tensorlang.language.predicates import (
    TRUE,
    And,
    Exists,
    Or,
    Predicate,
    conjunction,
    disjunction,
    equal,
    exists,
    substitute,
)
from tensorlang.language.show import predicate_text
from tensorlang.language.types import R
from tensorlang.normal.pattern import axes, renamed
from tensorlang.normal.ssa import (
    Addend,
    Addition,
    Constant,
    Contraction,
    Map,
    Statement,
    factor_indices,
    inner_ranges,
    operands,
    own_indices,
    own_ranges,
    summed_indices,
)
from tensorlang.sets.isl import implies, is_empty
from tensorlang.sets.solve import Ranges, project, ranges_predicate, simplify_in

THEOREMS = {
    "6.17": "adjoint_cost",
    "6.25": "cost_6_25",
    "6.26": "cost_6_26",
    "6.27": "cost_6_27",
    "6.28": "cost_6_28",
    "6.29": "cost_6_29",
}
"""The theorems that rules do not raise the cost; the other rules only rename."""

_BOUND: list[Index] = []
"""The names of bound indices, by the number of others bound around them."""

Decided = Literal["integer sets", "the same text", "arithmetic", "structure", "open"]


@dataclass(frozen=True)
class Obligation:
    """A proof obligation of the step with number `step`: `claim` in words, and how it was `decided`.

    "integer sets": by isl, for all sizes. "the same text": both sides simplify to one predicate, or to two that isl
    finds equivalent, which holds for all data of relations and index arrays. "open": not shown.

    >>> obligation = tl.certify(tl.parse("f(x: [n]R) = sum i:n. x[i]^2")).obligations[0]
    >>> print(obligation, obligation.theorem)
    step 5, 6.29: it goes on under exactly the projection: 0 = 0 [integer sets] cost_6_29
    """

    step: int
    number: str
    claim: str
    decided: Decided

    @property
    def theorem(self) -> str:
        """The theorem in `proofs/` with this as a hypothesis."""
        return THEOREMS[self.number]

    def __str__(self) -> str:
        return f"step {self.step}, {self.number}: {self.claim} [{self.decided}]"


def obligations(derivation: Derivation) -> Iterator[Obligation]:
    """All proof obligations of a derivation, and how they were decided."""
    checker = _Checker(derivation)
    for k, step in enumerate(derivation.steps):
        for claim, decided in checker.step(step):
            yield Obligation(k, step.rule.number, claim, decided)


class _Checker:
    def __init__(self, derivation: Derivation) -> None:
        self.active = active(derivation.program, derivation.wrt)
        self.zero_outside: dict[Statement, Predicate] = {}
        self.elements: dict[Statement, Expr] = {}

    def step(self, step: Step) -> Iterator[tuple[str, Decided]]:
        match step.rule.number:
            case "6.17":
                yield from self._input(step)
            case "6.25":
                yield from self._collection(step)
            case "6.26":
                yield from self._addition(step)
            case "6.27":
                yield from self._map(step)
            case "6.28" | "6.29":
                yield from self._contraction(step)

    def _collection(self, step: Step) -> Iterator[tuple[str, Decided]]:
        (after,) = step.after
        union = disjunction(q.pred for q in step.before)
        yield self._same("the union of what is collected", after.pred, union, own_ranges(after.right))
        sums = Addition(tuple(Addend(q.sign, q.pred, q.left) for q in step.before), after.right.shape)
        yield "the new statement adds up what is collected", _structure(after.left is sums)
        self.zero_outside[after.left] = after.pred

    def _addition(self, step: Step) -> Iterator[tuple[str, Decided]]:
        ((product,), x) = step.before, _definition(step)
        assert isinstance(x, Addition)
        rest = list(step.after)
        for term in x.terms:
            where = conjunction([term.pred, product.pred])
            ranges = own_ranges(x)
            if rest and rest[0].right is term.operand and rest[0].sign == term.sign and rest[0].left is product.left:
                yield self._same("a term goes on under both predicates", rest.pop(0).pred, where, ranges)
            else:
                yield _nothing("a term that is left out has no points", where, ranges)
        yield "every term that goes on is one of the sum's", _structure(not rest)

    def _map(self, step: Step) -> Iterator[tuple[str, Decided]]:
        ((product,), x) = step.before, _definition(step)
        assert isinstance(x, Map)
        f, where = x.function, conjunction([x.pred, product.pred])
        spent, allowed = derivative_cost(f), 3 * f.cost
        claim = f"the components of {f.name} and the additions of them cost {spent}, at most 3 * {f.cost}"
        yield claim, "arithmetic" if spent <= allowed else "open"
        ends = {x, product.left, *x.arguments}
        components = f.transpose(tuple(map(self._element, x.arguments)), self._element(x), self._element(product.left))
        for after in step.after:
            yield self._same("a component goes on under both predicates", after.pred, where, own_ranges(x))
            wanted = [e for e, y in zip(components, x.arguments, strict=True) if y is after.right and e is not None]
            inner = _above(after.left, ends)
            yield (
                f"{f.name}'s derivative, element by element",
                _structure(self._elementwise(after.left, ends) in wanted),
            )
            for y in inner:
                for mask in _masks(y):
                    yield _within("the derivative is there wherever it is read", where, mask, own_ranges(x))
            self.zero_outside[after.left] = after.pred
        for made in step.made:
            for mask in _masks(made):
                yield _within("the derivative is computed only where it is read", mask, where, own_ranges(x))

    def _elementwise(self, x: Statement, ends: Collection[Statement]) -> Expr | None:
        """An element of `x` in terms of elements of `ends`; None if it isn't elementwise."""
        done: dict[Statement, Expr | None] = {}
        for y in _above(x, ends):
            done[y] = _joined(y, [done[z] if z in done else self._element(z) for z in operands(y)])
        return done[x] if x in done else self._element(x)

    def _element(self, x: Statement) -> Expr:
        """A variable for an arbitrary element of `x`; the number itself for a constant."""
        made = number(x.value) if isinstance(x, Constant) else Var("x", R)
        return self.elements.setdefault(x, made)

    def _contraction(self, step: Step) -> Iterator[tuple[str, Decided]]:
        ((product,), x) = step.before, _definition(step)
        assert isinstance(x, Contraction)
        ranges = {**own_ranges(x), **inner_ranges(x)}
        both = conjunction([x.pred, product.pred])
        rest = list(step.after)
        for k, (y, own) in enumerate(zip(x.factors, factor_indices(x), strict=True)):
            if y not in self.active:
                continue
            others = {i: n for i, n in ranges.items() if i not in own}
            target = {i: ranges[i] for i in own}
            if not rest or rest[0].right is not y:
                yield _nothing("a factor that is left out is read nowhere", both, ranges)
                continue
            after = rest.pop(0)
            new = axes(0, len(own))
            shadow = renamed(exists(others.items(), both), own, new)
            simpler = renamed(project(others, simplify_in(both, ranges), target), own, new)
            claim = "it goes on under exactly the projection"
            yield self._same(claim, after.pred, shadow, own_ranges(y), simpler)
            yield from self._transposed(x, k, product, after, both)
        yield "every product that goes on is for one of the factors", _structure(not rest)

    def _transposed(
        self, x: Contraction, k: int, product: InnerProduct, after: InnerProduct, both: Predicate
    ) -> Iterator[tuple[str, Decided]]:
        """The statement that 6.28 and 6.29 make sums over the points of p and P, and multiplies by the others."""
        made, places = after.left, factor_indices(x)
        others = [(y, at) for j, (y, at) in enumerate(zip(x.factors, places, strict=True)) if j != k]
        read = [own_indices(x), *(at for _, at in others)]
        old = (*places[k], *(i for at in read for i in at), *summed_indices(x))
        expected = (product.left, *(y for y, _ in others))
        if not isinstance(made, Contraction) or made.factors != expected or made.summed != x.summed:
            yield "the new statement is the transposed sum", "open"
            return
        mask = renamed(both, old, axes(0, len(old)))
        yield self._same("the new sum is over the points of both", made.pred, mask, own_and_inner(made))
        self.zero_outside[made] = after.pred

    def _input(self, step: Step) -> Iterator[tuple[str, Decided]]:
        ((product,), (after,)) = step.before, step.after
        masked = Addition((Addend(1, product.pred, product.left),), product.left.shape)
        if product.pred is TRUE or after.left is masked:
            yield "the cotangent is masked by its predicate", "structure"
        else:
            known = self.zero_outside.get(product.left)
            zero = known is not None and after.left is product.left
            ranges = own_ranges(product.right)
            claim = "the cotangent is 0 where its predicate is false"
            yield _within(claim, known, product.pred, ranges) if zero and known is not None else (claim, "open")

    @staticmethod
    def _same(
        claim: str, p: Predicate, q: Predicate, ranges: Ranges, simpler: Predicate | None = None
    ) -> tuple[str, Decided]:
        """Whether `p` and `q` hold at the same points of `ranges`; `simpler`, if given, should be equivalent to
        both."""
        claim = f"{claim}: {predicate_text(p)}"
        around = ranges_predicate(ranges)
        if implies(conjunction([p, around]), q) and implies(conjunction([q, around]), p):
            return claim, "integer sets"
        if any(_reads(p, r, ranges) for r in (simpler or q, q)):
            return claim, "the same text"
        alike = simpler is not None and implies(conjunction([p, around]), simpler)
        return claim, "the same text" if alike and implies(conjunction([simpler or q, around]), p) else "open"


def own_and_inner(x: Contraction) -> Ranges:
    """The ranges of all indices of `x`."""
    return {**own_ranges(x), **inner_ranges(x)}


def _above(x: Statement, ends: Collection[Statement]) -> list[Statement]:
    """`x` and the statements that it reads, down to `ends`; each after what it reads."""
    found: dict[Statement, None] = {}
    stack = [x]
    while stack:
        y = stack[-1]
        missing = [z for z in operands(y) if z not in found and z not in ends] if y not in ends else []
        if missing:
            stack += missing
            continue
        stack.pop()
        if y not in ends:
            found.setdefault(y)
    return list(found)


def _joined(x: Statement, parts: Sequence[Expr | None]) -> Expr | None:
    known = [e for e in parts if e is not None]
    if len(known) < len(parts):
        return None
    match x:
        case Constant(value, _):
            return number(value)
        case Map(_, f, _, _):
            return Call(f, tuple(known))
        case Addition((Addend(1, _, _), Addend(sign, _, _)), _):
            return Add(known[0], known[1], sign)
        case Contraction(p, factors, (), _) if len(factors) == 2:
            pairs = [(i, j) for at in factor_indices(x) for i, j in zip(at, own_indices(x), strict=False) if at]
            if all(implies(p, equal(atom_affine(i), atom_affine(j))) for i, j in pairs):
                return Mul(known[0], known[1])
    return None


def _masks(x: Statement) -> list[Predicate]:
    """The predicates, over its own indices, where `x` computes anything."""
    match x:
        case Addition(terms, _):
            return [t.pred for t in terms]
        case Map(p, _, _, _):
            return [p]
        case Contraction(p, _, _, _):
            return [project(inner_ranges(x), p, own_ranges(x))]
    return []


def _definition(step: Step) -> Statement:
    (product,) = step.before
    return product.right


def _within(claim: str, p: Predicate, q: Predicate, ranges: Ranges) -> tuple[str, Decided]:
    around = ranges_predicate(ranges)
    if implies(conjunction([p, around]), q):
        return claim, "integer sets"
    return claim, "the same text" if _reads(p, conjunction([p, q]), ranges) else "open"


def _reads(p: Predicate, q: Predicate, ranges: Ranges) -> bool:
    """Whether both simplify to one predicate, except for the names of bound indices and the order of parts."""
    first, second = simplify_in(p, ranges), simplify_in(q, ranges)
    return first is second or _form(first, 0) == _form(second, 0)


def _form(p: Predicate, depth: int) -> object:
    """The same for predicates that read the same."""
    match p:
        case Exists(index, size, body):
            while len(_BOUND) <= depth:
                _BOUND.append(Index(f"%{len(_BOUND)}"))
            return "exists", size, _form(substitute(body, {index: atom_affine(_BOUND[depth])}), depth + 1)
        case And(parts) | Or(parts):
            return type(p).__name__, frozenset(_form(part, depth) for part in parts)
    return p


def _nothing(claim: str, p: Predicate, ranges: Ranges) -> tuple[str, Decided]:
    return claim, "integer sets" if is_empty(p, ranges_predicate(ranges)) else "open"


def _structure(holds: bool) -> Decided:
    return "structure" if holds else "open"
