"""A derivation followed step by step: inner products after Figure 14, rewritten by the rules of Figures 15 and 16.

The derivation starts from <dY | D X> for each output X. The products that a step rewrites must be there, and its
results must be those of its rule; sets are compared by isl. At the end there is <g | dx> for each input x, where g is
the cotangent of x that the derivation states. That no rule raises the cost is a theorem; this module checks that each
step is an instance of its rule.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

from . import syntax, trees
from .points import FOR_ALL, Ranges, Sets
from .predicates import renamed
from .semantics import Function, operations
from .statements import Factor, Operand, Statement, integers, operands
from .trees import (
    TRUE,
    Add,
    Affine,
    All,
    Call,
    Exists,
    Expr,
    Gen,
    Integer,
    Mul,
    Name,
    Num,
    Pair,
    Part,
    Pred,
    Refused,
    name,
)

THEOREMS = {
    "6.17": "adjoint_cost",
    "6.19": None,
    "6.21": None,
    "6.22": None,
    "6.23": None,
    "6.25": "cost_6_25",
    "6.26": "cost_6_26",
    "6.27": "cost_6_27",
    "6.28": "cost_6_28",
    "6.29": "cost_6_29",
}
"""The rules that rewrite inner products of arrays, with the theorem in ../ that says that the rule is cheap."""


@dataclass(frozen=True)
class Product:
    """sign * <left | side right>_[where]; the side is "D", "d", or "D[]" for D of the definition."""

    sign: int
    left: Operand
    side: str
    right: Operand
    where: str | None


_PRODUCT = re.compile(r"(-?)<(.+) \| (?:(D|d) (.+)|D\[(.+)\])>(?:_\[(\w+)\])?")


def product(text: str, variables: frozenset[str], arrays: frozenset[str] = frozenset()) -> Product:
    """An inner product from its text; names other than those of variables are sizes, or index arrays."""
    match = _PRODUCT.fullmatch(text)
    if match is None:
        raise Refused(f"{text!r} is no inner product")
    minus, left, side, right, defined, where = match.groups()
    operands = (_operand(part, variables, arrays) for part in (left, right or defined))
    return Product(-1 if minus else 1, next(operands), side or "D[]", next(operands), where)


def _operand(text: str, variables: frozenset[str], arrays: frozenset[str]) -> Operand:
    e = syntax.resolved(syntax.expression(text, arrays), variables)
    found = integers(e) if isinstance(e, Gen | Integer) else None
    if found is not None:
        return found[0]
    inner = e
    while isinstance(inner, Part):
        inner = inner.body
    if not isinstance(e, Num) and not isinstance(inner, Name):
        raise Refused(f"{text!r} is no name of a statement")
    return e  # type: ignore[return-value]


def components(e: Expr) -> list[Expr]:
    """The parts of nested pairs, from left to right."""
    return [*components(e.first), *components(e.second)] if isinstance(e, Pair) else [e]


@dataclass(frozen=True)
class Derivation:
    """The statements of the program and those that steps made, predicates by name, and the starts and ends of the
    derivation."""

    statements: Mapping[str, Statement]
    shapes: Mapping[Operand, tuple[Affine, ...]]
    wheres: Mapping[str, Statement]
    functions: Mapping[str, Function]
    inputs: frozenset[Operand]
    starts: Sequence[tuple[Operand, Operand]]
    ends: Sequence[tuple[Operand, Operand]]


class Replay:
    """Follows a derivation; `decided` counts how the sets in it were compared."""

    def __init__(self, derivation: Derivation, sets: Sets) -> None:
        self.d = derivation
        self.sets = sets
        self.decided: Counter[str] = Counter()
        self.active = self._active()
        self.present: Counter[Product] = Counter()
        self.waiting: Counter[Operand] = Counter()
        """The number of inner products with each right side."""
        for dy, x in derivation.starts:
            self._add(Product(1, dy, "D", x, None), 1)
        self.reversed: set[Operand] = set()
        self.made: set[str] = set()

    def _active(self) -> set[Operand]:
        """Everything that depends on the inputs, except chosen indices."""
        found: set[Operand] = set(self.d.inputs)
        for x in self.d.statements.values():
            if not x.is_choice and any(y in found for y in operands(x)):
                found.add(Name(x.name))
        return found

    def step(self, rule: str, before: Sequence[Product], after: Sequence[Product], made: Sequence[str]) -> None:
        """Rewrite `before` to `after`. Raises `Refused` unless that is an instance of the rule."""
        if rule not in THEOREMS:
            raise Refused(f"there is no rule {rule} that rewrites inner products")
        for p, many in Counter(before).items():
            if self.present[p] < many:
                raise Refused(f"{p} is not there to be rewritten")
        for x in made:
            if x in self.made or x not in self.d.statements:
                raise Refused(f"{x} is made twice, or nowhere defined")
            self.made.add(x)
        for p in before:
            self._add(p, -1)
        if rule == "6.25":
            self._collection(before, after)
        elif len(before) != 1:
            raise Refused("the rule rewrites one inner product")
        else:
            own = [p.left for p in after]
            if made and rule not in ("6.17", "6.27", "6.28", "6.29"):
                raise Refused(f"{made[0]} is made by a rule that makes nothing")
            if rule in ("6.28", "6.29") and any(Name(x) not in own for x in made):
                raise Refused("a statement is made that no inner product has")
            self._one(rule, before[0], list(after), made)
        for p in after:
            self._add(p, 1)

    def _add(self, p: Product, many: int) -> None:
        self.present[p] += many
        self.waiting[p.right] += many
        if not self.present[p]:
            del self.present[p]

    def finish(self) -> None:
        """Check that exactly the inputs' cotangents are left."""
        expected = Counter(Product(1, g, "d", x, None) for g, x in self.d.ends if not self._is_zero(g, x))
        if self.present != expected:
            wrong = next(iter((self.present - expected) + (expected - self.present)))
            raise Refused(f"at the end there is {wrong}, which is not as the results have it")

    def _is_zero(self, g: Operand, x: Operand) -> bool:
        """Whether `g` is 0, and nothing in the derivation leads to x."""
        made = self.d.statements.get(g.name) if isinstance(g, Name) else None
        value = g.value if isinstance(g, Num) else made.number if made is not None else None
        return value == 0 and not self.waiting[x]

    # ---- the rules

    def _one(self, rule: str, p: Product, after: list[Product], made: Sequence[str]) -> None:
        x = p.right
        match rule:
            case "6.21":
                self._need(p.side == "D" and x in self.active, "D of a variable that is differentiated")
                self._need(after == [Product(p.sign, p.left, "d", x, p.where)], "the same with its differential")
            case "6.22" | "6.23":
                self._need(p.side == "D" and x not in self.active, "D of what does not depend on the inputs")
                self._need(not after, "nothing")
            case "6.19":
                self._need(p.side == "d" and p.sign > 0, "a differential, added")
                self._need(x not in self.d.inputs and x not in self.reversed, "one reversal for each statement")
                self._need(not self.waiting[x], "no other inner product with that differential")
                self.reversed.add(x)
                self._need(after == [Product(1, p.left, "D[]", x, p.where)], "the same with D of the definition")
            case "6.17":
                self._input(p, after)
            case _:
                self._need(p.side == "D[]" and p.sign > 0, "D of a definition")
                statement = self._statement(x)
                if rule == "6.26":
                    self._addition(p, statement, after)
                elif rule == "6.27":
                    self._map(p, statement, after, made)
                else:
                    self._contraction(rule, p, statement, after)

    def _collection(self, before: Sequence[Product], after: Sequence[Product]) -> None:
        self._need(len(after) == 1 and bool(before), "one inner product made of some")
        x = before[0].right
        new = after[0]
        self._need(all(p.side == "d" and p.right == x for p in before), "differentials of one variable")
        self._need(new.side == "d" and new.right == x and new.sign > 0, "the differential of the same")
        self._need(not self.waiting[x], "all inner products with that differential")
        ranges = self._ranges(x)
        terms = self._statement(new.left).addition()
        self._need(terms is not None and len(terms) == len(before), "a sum of what is collected")
        own = self._statement(new.left).own
        self._need([n for _, n in own] == [n for _, n in ranges], "a sum of the same sizes")
        rest = list(before)
        for term in terms or ():
            p = next((p for p in rest if (p.sign, p.left) == (term.sign, term.operand)), None)
            self._need(p is not None, "a sum of what is collected")
            assert p is not None
            rest.remove(p)
            self._equal(_moved(term.pred, own, ranges), self._where(p), ranges, "6.25, a term's predicate")
        union = trees.Any(tuple(self._where(p) for p in before))
        self._equal(self._where(new), union, ranges, "6.25, the union")

    def _addition(self, p: Product, x: Statement, after: list[Product]) -> None:
        ranges = self._ranges(p.right)
        terms = x.addition()
        self._need(terms is not None, "a sum of statements")
        for term in terms or ():
            where = All((_moved(term.pred, x.own, ranges), self._where(p)))
            wanted = (term.sign, p.left, "D", term.operand)
            new = next((q for q in after if (q.sign, q.left, q.side, q.right) == wanted), None)
            if new is None:
                self._need(self.sets.empty(where, ranges), "a term that is left out to have no points")
                continue
            after.remove(new)
            self._equal(self._where(new), where, ranges, "6.26, a term's predicate")
        self._need(not after, "an inner product for each term")

    def _map(self, p: Product, x: Statement, after: list[Product], made: Sequence[str]) -> None:
        ranges = self._ranges(p.right)
        found = x.map()
        self._need(found is not None, "a scalar function of statements")
        assert found is not None
        f = self._function(found.function)
        self._need(len(f.components) == f.arity, f"a derivative that is declared for {f.name}")
        where = All((_moved(found.pred, x.own, ranges), self._where(p)))
        names: dict[str, Operand] = {f"x{k}": y for k, y in enumerate(found.operands)}
        names |= {"y": p.right, "t": p.left}
        ends = set(names.values())
        spent = 0
        for component, y in zip(f.components, found.operands, strict=True):
            if component is None or y not in self.active:
                continue
            spent += operations(component, self.d.functions)
            if not after or after[0].right != y:
                self._need(self.sets.empty(where, ranges), "a component that is left out to have no points")
                continue
            new = after.pop(0)
            self._need(new.sign > 0 and new.side == "D", "a component of the derivative")
            self._equal(self._where(new), where, ranges, "6.27, a component's predicate")
            wanted = _with_names(component, names)
            self._need(self._element(new.left, ends, where, ranges) == wanted, f"{f.name}'s declared derivative")
        self._need(not after, "an inner product for each component")
        done = 0
        for m in made:
            statement = self.d.statements[m]
            if statement.number is not None:
                continue
            element = statement.element()
            self._need(element is not None, "statements that work element by element")
            assert element is not None
            pred, operation, _ = element
            done += 1 if operation in ("+", "-", "*") else self._function(operation).cost
            mask = _moved(pred, statement.own, ranges)
            self.decided[self.sets.subset(mask, where, ranges, "6.27, where a component is computed")] += 1
        self._need(done <= spent, f"no more than the {spent} operations that are declared")

    def _element(self, x: Operand, ends: set[Operand], where: Pred, ranges: Ranges) -> Expr:
        """An element of `x` in terms of elements of `ends`, wherever `where` holds."""
        if x in ends or isinstance(x, Num) or not isinstance(x, Name) or x.name not in self.d.statements:
            return x
        statement = self.d.statements[x.name]
        if statement.number is not None:
            return Num(statement.number)
        element = statement.element()
        self._need(element is not None, f"{x.name} to work element by element")
        assert element is not None
        pred, operation, inner = element
        mask = _moved(pred, statement.own, ranges)
        self.decided[self.sets.subset(where, mask, ranges, "6.27, where a component is read")] += 1
        parts = [self._element(y, ends, where, ranges) for y in inner]
        if operation in ("+", "-"):
            return Add(parts[0], parts[1], 1 if operation == "+" else -1)
        return Mul(parts[0], parts[1]) if operation == "*" else Call(operation, tuple(parts))

    def _contraction(self, rule: str, p: Product, x: Statement, after: list[Product]) -> None:
        found = x.contraction()
        self._need(found is not None and len(found.factors) == (2 if rule == "6.28" else 1), "a sum of products")
        assert found is not None
        own = tuple((f"${k}", n) for k, (_, n) in enumerate(self._ranges(p.right)))
        inner = {i: f"${len(own) + k}" for k, i in enumerate(found.inner)}
        names = {i: name(j) for i, j in inner.items()}
        names |= {i: name(j) for (i, _), (j, _) in zip(x.own, own, strict=True)}
        sizes = {**dict(own), **{inner[i]: n for i, n in found.inner.items()}}
        at_own = [Affine(((j, 1),)) for j, _ in own]
        moved_where = renamed(self._where(p), {i: a for (i, _), a in zip(self._ranges(p.right), at_own, strict=True)})
        both = All((renamed(found.pred, names), moved_where))
        ranges = tuple(sizes.items())
        for k, factor in enumerate(found.factors):
            if factor.operand not in self.active:
                continue
            if not after or after[0].right != factor.operand:
                self._need(self.sets.empty(both, ranges), "a factor that is left out to be read nowhere")
                continue
            new = after.pop(0)
            self._need(new.sign > 0 and new.side == "D", "an inner product for each factor")
            target = [inner[i] for i in factor.at]
            shadow: Pred = both
            for i, n in reversed(ranges):
                if i not in target:
                    shadow = Exists(i, n, shadow)
            here = self._ranges(factor.operand)
            shadow = renamed(shadow, {j: name(i) for j, (i, _) in zip(target, here, strict=True)})
            self._equal(self._where(new), shadow, here, f"{rule}, the projection")
            others = [f for j, f in enumerate(found.factors) if j != k]
            reads = [Factor(p.left, tuple(j for j, _ in own))]
            reads += [Factor(f.operand, tuple(inner[i] for i in f.at)) for f in others]
            summed = [inner[i] for i in found.summed]
            self._transposed(rule, new.left, target, reads, summed, both, sizes)
        self._need(not after, "an inner product for each factor")

    def _transposed(
        self,
        rule: str,
        made: Operand,
        target: list[str],
        reads: list[Factor],
        summed: list[str],
        both: Pred,
        sizes: Mapping[str, Affine],
    ) -> None:
        """Check that `made` is gen target. sum of [both] * product of `reads`, over all other indices."""
        statement = self._statement(made)
        found = statement.contraction()
        fits = found is not None and len(found.factors) == len(reads) and len(found.summed) == len(summed)
        self._need(fits and len(statement.own) == len(target), "the transposed sum")
        assert found is not None
        for order in permutations(found.factors):
            if [f.operand for f in order] == [f.operand for f in reads]:
                names = dict(zip((i for i, _ in statement.own), target, strict=True))
                for f, g in zip(order, reads, strict=True):
                    names.update(zip(f.at, g.at, strict=True))
                names.update(zip(found.summed, summed, strict=True))
                extents = {**dict(statement.own), **found.inner}
                if all(sizes[names[i]] == n for i, n in extents.items()):
                    try:
                        mask = renamed(found.pred, {i: name(j) for i, j in names.items()})
                        self._equal(mask, both, tuple(sizes.items()), f"{rule}, the points of the sum")
                        return
                    except Refused:
                        if len(reads) == 1 or reads[0].operand != reads[1].operand:
                            raise
        raise Refused("expected the transposed sum")

    def _input(self, p: Product, after: list[Product]) -> None:
        self._need(p.side == "d" and p.sign > 0 and p.right in self.d.inputs, "the differential of an input")
        self._need(len(after) == 1, "one cotangent")
        new = after[0]
        self._need((new.sign, new.side, new.right, new.where) == (1, "d", p.right, None), "the input's cotangent")
        if p.where is None:
            self._need(new.left == p.left, "the same cotangent")
            return
        ranges = self._ranges(p.right)
        if new.left == p.left:
            outside = self._support(self._statement(p.left), ranges)
            self.decided[self.sets.subset(outside, self._where(p), ranges, "6.17, where it is not 0")] += 1
            return
        statement = self._statement(new.left)
        terms = statement.addition() or []
        self._need([(t.sign, t.operand) for t in terms] == [(1, p.left)], "the cotangent, masked")
        self._equal(_moved(terms[0].pred, statement.own, ranges), self._where(p), ranges, "6.17, the mask")

    def _support(self, x: Statement, ranges: Ranges) -> Pred:
        """Where a statement may be nonzero."""
        terms = x.addition()
        if terms is not None:
            return trees.Any(tuple(_moved(t.pred, x.own, ranges) for t in terms))
        found = x.contraction()
        if found is not None:
            shadow = found.pred
            for i, n in reversed(list(found.inner.items())):
                shadow = Exists(i, n, shadow)
            return _moved(shadow, x.own, ranges)
        made = x.map()
        return TRUE if made is None else _moved(made.pred, x.own, ranges)

    # ---- what names stand for

    def _statement(self, x: Operand) -> Statement:
        if not isinstance(x, Name) or x.name not in self.d.statements:
            raise Refused(f"{x} is no statement")
        return self.d.statements[x.name]

    def _function(self, f: str) -> Function:
        if f not in self.d.functions:
            raise Refused(f"the scalar function {f} is not declared")
        return self.d.functions[f]

    def _ranges(self, x: Operand) -> Ranges:
        """Canonical indices of the elements of `x`, with their sizes."""
        if x not in self.d.shapes and not isinstance(x, Num):
            raise Refused(f"{x} is bound nowhere")
        return tuple((f"${k}", n) for k, n in enumerate(self.d.shapes.get(x, ())))

    def _where(self, p: Product) -> Pred:
        """The predicate of an inner product over the canonical indices of its right side."""
        if p.where is None:
            return TRUE
        if p.where not in self.d.wheres:
            raise Refused(f"there is no predicate {p.where}")
        found = self.d.wheres[p.where]
        if isinstance(p.right, Integer):  # an array of any sizes
            ranges: Ranges = tuple((f"${k}", n) for k, (_, n) in enumerate(found.own))
        else:
            ranges = self._ranges(p.right)
        self._need([n for _, n in found.own] == [n for _, n in ranges], f"{p.where} to be over the same sizes")
        match found.body:
            case trees.Bracket(pred, Num(value)) if value == 1:
                return _moved(pred, found.own, ranges)
        raise Refused(f"{p.where} is no predicate")

    def _equal(self, p: Pred, q: Pred, ranges: Ranges, what: str) -> None:
        self.decided[FOR_ALL if p == q else self.sets.equal(p, q, ranges, what)] += 1

    @staticmethod
    def _need(holds: bool, what: str) -> None:
        if not holds:
            raise Refused(f"expected {what}")


def _moved(p: Pred, own: Iterable[tuple[str, Any]], ranges: Ranges) -> Pred:
    return renamed(p, {i: name(j) for (i, _), (j, _) in zip(own, ranges, strict=True)})


def _with_names(e: Expr, names: Mapping[str, Operand]) -> Expr:
    match e:
        case Name(x):
            return names[x]
        case Add(a, b, sign):
            return Add(_with_names(a, names), _with_names(b, names), sign)
        case Mul(a, b):
            return Mul(_with_names(a, names), _with_names(b, names))
        case Call(f, arguments):
            return Call(f, tuple(_with_names(a, names) for a in arguments))
    return e
