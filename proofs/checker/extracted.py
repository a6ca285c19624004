"""A derivation compared with the adjoint that is extracted from the proofs, where `make -C proofs/diff` has built that.

The program's statements are listed at given sizes, each predicate by its points, in the language of ../diff/driver.ml;
it answers with the cost and the results of the proved adjoint.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from .replay import Derivation
from .semantics import EXACT, Env, Semantics, flat
from .statements import Operand, Statement, operands
from .trees import (
    TRUE,
    Add,
    Affine,
    All,
    Best,
    Bracket,
    Call,
    Expr,
    Integer,
    Mul,
    Name,
    Num,
    Pred,
    Refused,
)

DRIVER = Path(__file__).parents[1] / "diff" / "driver"
_MOST_POINTS = 4000


class Left(Exception):
    """A case that is too large to be listed, or has no exact values."""


def agrees(
    d: Derivation,
    own: Sequence[str],
    values: Mapping[Operand, Any],
    meaning: Semantics,
    env: Env,
    cost: int,
    derived: int,
    results: Any,
) -> bool:
    """Whether the extracted adjoint was asked, and agrees: its cost is no less than `derived`, the program's cost is
    `cost`, and the results are `results`. Raises `Refused` if it disagrees."""
    if not DRIVER.exists():
        return False
    try:
        text = _Listing(d, own, values, meaning, env).case()
    except Left:
        return False
    done = subprocess.run([DRIVER], input=text, capture_output=True, text=True, check=True)
    (head, *rest) = (line.split() for line in done.stdout.splitlines())
    counts = {name: int(n) for name, n in zip(head[2::2], head[3::2], strict=True)}
    if counts["cost"] != cost:
        raise Refused(f"the program in SSA costs {cost}, by the extracted program {counts['cost']}")
    if counts["needed"] < derived:
        raise Refused(f"the derived adjoint costs {derived}, the extracted one {counts['needed']}")
    if [[Fraction(word) for word in words[1:]] for words in rest] != [flat(g) for g in results]:
        raise Refused("the results are not those of the extracted adjoint")
    return True


class _Listing:
    def __init__(
        self, d: Derivation, own: Sequence[str], values: Mapping[Operand, Any], meaning: Semantics, env: Env
    ) -> None:
        self.d = d
        self.meaning = meaning
        self.env = env
        self.values = values
        self.statements = [d.statements[x] for x in own]
        self.numbers = list(dict.fromkeys(y for x in self.statements for y in operands(x) if isinstance(y, Num)))
        self.numbers += [x for _, x in d.starts if isinstance(x, Num) and x not in self.numbers]
        names = [*values, *self.numbers, *(Name(x.name) for x in self.statements)]
        if any(isinstance(y, Integer) for x in self.statements for y in operands(x)):
            raise Left
        if any(isinstance(x, Integer) for _, x in d.starts):
            raise Left
        self.places = {x: k for k, x in enumerate(names)}
        self.functions = sorted({m.function for x in self.statements if (m := x.map()) is not None})

    def case(self) -> str:
        """The case as text."""
        leaves = list(self.values)
        written = [
            *([len(self._extents(x)), *self._extents(x), "input", k] for k, x in enumerate(leaves)),
            *([0, "constant", x.value] for x in self.numbers),
            *(list(self._statement(x)) for x in self.statements),
        ]
        words: list[Any] = ["case", "certificate", len(self.functions)]
        words += [word for f in self.functions for word in self._function(f)]
        words += [len(leaves), *(word for x in leaves for word in self._leaf(x))]
        words += [len(written), *(word for one in written for word in one)]
        words += [len(self.d.starts), *(self.places[x] for _, x in self.d.starts)]
        words += [len(self.d.starts), *(leaves.index(dy) for dy, _ in self.d.starts)]
        words += [len(self.d.ends), *(leaves.index(x) for _, x in self.d.ends)]
        return " ".join(map(str, words)) + "\n"

    def _extents(self, x: Operand) -> list[int]:
        return list(map(self._size, self.d.shapes[x]))

    def _size(self, n: Affine) -> int:
        """A size; a negative one counts as 0."""
        return max(0, self.meaning.index(n, self.env))

    def _leaf(self, x: Operand) -> list[Any]:
        extents = self._extents(x)
        return [len(extents), *extents, *flat(self.values[x])]

    def _statement(self, x: Statement) -> Iterator[Any]:
        yield from (len(x.own), *(self._size(n) for _, n in x.own))
        if x.number is not None:
            yield from ("constant", x.number)
        elif x.is_choice:
            yield from self._choice(x)
        elif (made := x.map()) is not None:
            yield from ("map", self.functions.index(made.function), len(made.operands))
            yield from (self.places[y] for y in made.operands)
            yield from self._points(x.own, made.pred)
        elif (terms := x.addition()) is not None:
            yield from ("addition", len(terms))
            for t in terms:
                yield from (t.sign, self.places[t.operand], *self._points(x.own, t.pred))
        else:
            product = x.contraction()
            if product is None:
                raise Refused(f"{x.name} is no statement of Figure 10")
            summed = [product.inner[i] for i in product.summed]
            yield from ("sum" if len(product.factors) == 1 else "product", len(summed))
            yield from map(self._size, summed)
            yield from (self.places[f.operand] for f in product.factors)
            order = [i for f in product.factors for i in f.at] + list(product.summed)
            yield from self._points((*x.own, *((i, product.inner[i]) for i in order)), product.pred)

    def _choice(self, x: Statement) -> Iterator[Any]:
        guards: list[Pred] = []
        e = x.body
        while isinstance(e, Bracket):
            guards.append(e.pred)
            e = e.body
        if not isinstance(e, Best):
            raise Left
        (operand,) = operands(x)
        yield from ("choice", self.places[operand])
        yield from self._points((*x.own, (e.index, e.size)), All((*guards, e.where)))

    def _points(self, ranges: Sequence[tuple[str, Affine]], p: Pred) -> list[int]:
        space = 1
        for _, n in ranges:
            space *= self._size(n)
        if space > _MOST_POINTS:
            raise Left
        if p == TRUE:
            return [-1]
        found = list(self.meaning.points(ranges, p, self.env))
        return [len(found), *(at[i] for at in found for i, _ in ranges)]

    def _function(self, name: str) -> Iterator[Any]:
        f = self.d.functions[name]
        yield from (f.arity, f.cost)
        yield from self._scalar(Call(name, tuple(Name(f"x{k}") for k in range(f.arity))))
        for component in f.components or (None,) * f.arity:
            yield from (0, "number", 0) if component is None else (self._cost(component), *self._scalar(component))

    def _cost(self, e: Expr) -> int:
        return self.meaning.cost(e, {})

    def _scalar(self, e: Expr) -> list[Any]:
        match e:
            case Num(value):
                return ["number", value]
            case Name(x):
                return ["value"] if x == "y" else ["cotangent"] if x == "t" else ["argument", int(x[1:])]
            case Add(a, b, sign):
                return ["add" if sign > 0 else "subtract", 2, *self._scalar(a), *self._scalar(b)]
            case Mul(a, b):
                return ["multiply", 2, *self._scalar(a), *self._scalar(b)]
            case Call(f, arguments):
                written = [self._scalar(a) for a in arguments]
                if f.startswith("pow ") and f[4:].isdigit():
                    return ["power", int(f[4:]), *written[0]]
                if f in EXACT:
                    return [f, len(written), *(word for words in written for word in words)]
        raise Left
