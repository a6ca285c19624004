"""The statements of Figure 10, read off the expressions that a certificate's lets bind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from .predicates import moved, renamed
from .semantics import fine, names_in
from .trees import (
    TRUE,
    Add,
    Affine,
    All,
    At,
    Best,
    Bracket,
    Call,
    Compare,
    Expr,
    Gen,
    Integer,
    Mul,
    Name,
    Num,
    Part,
    Pred,
    Refused,
    Sum,
    Test,
    chooses,
    name,
)

Operand = Name | Part | Num | Integer
"""An operand of a statement: another statement, a parameter's part, a number, or an array whose numbers are index
expressions over $0, $1, .."""


@dataclass(frozen=True)
class Term:
    """sign * [pred] * operand, read at the statement's own indices."""

    sign: int
    pred: Pred
    operand: Operand


@dataclass(frozen=True)
class Map:
    """[pred] * function(operands), read at the statement's own indices."""

    pred: Pred
    function: str
    operands: tuple[Operand, ...]


@dataclass(frozen=True)
class Factor:
    """An operand and the indices at which it is read, all different."""

    operand: Operand
    at: tuple[str, ...]


@dataclass(frozen=True)
class Contraction:
    """sum of [pred] * product of the factors; no factor is read at the indices `summed`."""

    pred: Pred
    factors: tuple[Factor, ...]
    inner: Mapping[str, Affine]
    summed: tuple[str, ...]


@dataclass(frozen=True)
class Statement:
    """name = gen `own`. `body`, where `own` are indices with their sizes."""

    name: str
    own: tuple[tuple[str, Affine], ...]
    body: Expr

    @property
    def is_choice(self) -> bool:
        """Whether it defines an index array."""
        return chooses(self.body)

    @property
    def number(self) -> Fraction | None:
        """The number that all of its elements equal."""
        return self.body.value if isinstance(self.body, Num) else None

    def addition(self) -> list[Term] | None:
        """Its terms, read as a sum of statements."""
        found: list[Term] = []
        return found if self._terms(self.body, 1, (), found) else None

    def _terms(self, e: Expr, sign: int, preds: tuple[Pred, ...], found: list[Term]) -> bool:
        match e:
            case Add(a, b, s):
                return self._terms(a, sign, preds, found) and self._terms(b, sign * s, preds, found)
            case Bracket(p, body):
                return self._terms(body, sign, (*preds, p), found)
            case Mul(Num(value), body) if value == -1:
                return self._terms(body, -sign, preds, found)
        operand = self._here(e)
        if operand is not None:
            found.append(Term(sign, _conjunction(preds), operand))
        return operand is not None

    def map(self) -> Map | None:
        """Itself as a scalar function of statements."""
        preds, e = _unbracketed(self.body)
        if not isinstance(e, Call):
            return None
        operands = [self._here(a) for a in e.arguments]
        known = tuple(x for x in operands if x is not None)
        return Map(preds, e.function, known) if len(known) == len(operands) else None

    def contraction(self) -> Contraction | None:
        """Itself as a sum of products of statements, each read at different indices."""
        inner: dict[str, Affine] = {}
        e = self.body
        while isinstance(e, Sum):
            if e.index in inner:
                return None
            inner[e.index] = e.size
            e = e.body
        p, e = _unbracketed(e)
        factors: list[Factor] = []
        for part in (e.left, e.right) if isinstance(e, Mul) else (e,):
            read = _read(part)
            if read is None:
                return None
            operand, at = read
            if any(i not in inner for i in at) or len(set(at)) < len(at):
                return None
            factors.append(Factor(operand, at))
        used = [i for f in factors for i in f.at]
        if len(set(used)) < len(used):
            return None
        return Contraction(p, tuple(factors), inner, tuple(i for i in inner if i not in used))

    def element(self) -> tuple[Pred, str, tuple[Operand, ...]] | None:
        """Itself as one operation, "+", "-", "*" or a scalar function, on elements at its own indices, with its
        predicate."""
        p, e = _unbracketed(self.body)
        if isinstance(e, Call):
            made = self.map()
            return None if made is None else (made.pred, made.function, made.operands)
        terms = self.addition()
        if terms is not None and len(terms) == 2 and terms[0].sign > 0:
            first, second = terms
            where = _conjunction((first.pred,)) if first.pred == second.pred else None
            if where is not None:
                return where, "+" if second.sign > 0 else "-", (first.operand, second.operand)
        if isinstance(e, Mul):
            operands = [self._here(e.left), self._here(e.right)]
            if operands[0] is not None and operands[1] is not None:
                return p, "*", (operands[0], operands[1])
        product = self.contraction()
        if product is None or len(product.factors) != 2 or product.summed:
            return None
        where = self._diagonal(product)
        return None if where is None else (where, "*", tuple(f.operand for f in product.factors))

    def _diagonal(self, product: Contraction) -> Pred | None:
        """The predicate of a product whose factors are read at the statement's own indices, by equalities."""
        own = [i for i, _ in self.own]
        same = {i: i for i in own}
        parts = list(fine(product.pred))
        changed = True
        while changed:
            changed = False
            for part in parts:
                pair = _equated(part)
                for i, j in (pair, pair[::-1]) if pair is not None else ():
                    if i in same and j not in same and j in product.inner:
                        same[j] = same[i]
                        changed = True
        for f in product.factors:
            if f.at and [same.get(i) for i in f.at] != own:
                return None
        rest = [part for part in parts if not (names_in(part) & product.inner.keys())]
        known = [part for part in parts if names_in(part) & product.inner.keys()]
        moved = [renamed(part, {i: name(j) for i, j in same.items()}) for part in known]
        return _conjunction((*rest, *moved))

    def _here(self, e: Expr) -> Operand | None:
        """The operand that `e` reads at the statement's own indices; numbers may stand for constant arrays."""
        read = _read(e)
        if read is None:
            return None
        operand, at = read
        return (
            operand if at == tuple(i for i, _ in self.own) or (not at and isinstance(operand, Num | Integer)) else None
        )


def statement(x: str, e: Expr) -> Statement:
    """let x = e."""
    own = []
    while isinstance(e, Gen):
        own.append((e.index, e.size))
        e = e.body
    return Statement(x, tuple(own), _with_arrays(e, tuple(i for i, _ in own)))


def _with_arrays(e: Expr, bound: tuple[str, ...]) -> Expr:
    """`e` with each number that is an index expression replaced by an array, read at the indices that it needs."""
    match e:
        case Integer(value):
            needed = [i for i in bound if i in names_in(value)]
            read: Expr = Integer(moved(value, {i: name(f"${k}") for k, i in enumerate(needed)}))
            for i in needed:
                read = At(read, name(i))
            return read
        case Add() | Mul() | Test():
            return replace(e, left=_with_arrays(e.left, bound), right=_with_arrays(e.right, bound))
        case Call(f, arguments):
            return Call(f, tuple(_with_arrays(a, bound) for a in arguments))
        case Bracket(_, body):
            return replace(e, body=_with_arrays(body, bound))
        case Sum(i, _, body) | Best(_, _, i, _, _, body):
            return replace(e, body=_with_arrays(body, (*bound, i)))
    return e


def integers(e: Expr) -> tuple[Integer, tuple[Affine, ...]] | None:
    """The operand for an array of index expressions as numbers, with its sizes; None if `e` is not such an array."""
    made = statement("", e)
    read = _read(made.body)
    if read is None or not isinstance(read[0], Integer):
        return None
    return read[0], tuple(n for _, n in made.own)


def operands(x: Statement) -> list[Operand]:
    """Every statement, part of a parameter and number that `x` reads, without those that its predicates look up."""
    return [operand for operand, _ in reads(x)]


def reads(x: Statement) -> Iterator[tuple[Operand, tuple[Affine, ...]]]:
    """The operands that `x` reads, with the sizes of the indices at which it reads them."""
    stack: list[tuple[Expr, Mapping[str, Affine]]] = [(x.body, dict(x.own))]
    while stack:
        e, sizes = stack.pop()
        read = _read(e)
        if read is not None:
            operand, at = read
            if any(i not in sizes for i in at):
                raise Refused(f"{x.name} reads {operand} at an index that nothing binds")
            yield operand, tuple(sizes[i] for i in at)
            continue
        match e:
            case Add(a, b, _) | Mul(a, b) | Test(_, a, b):
                stack += [(b, sizes), (a, sizes)]
            case Call(_, arguments):
                stack += [(a, sizes) for a in reversed(arguments)]
            case Bracket(_, body):
                stack.append((body, sizes))
            case Sum(i, size, body) | Best(_, True, i, size, _, body):
                stack.append((body, {**sizes, i: size}))
            case _:
                raise Refused(f"{x.name} is no statement of Figure 10")


def _path(e: Expr) -> Operand:
    inner = e
    while isinstance(inner, Part):
        inner = inner.body
    if not isinstance(e, Num | Integer) and not isinstance(inner, Name):
        raise Refused("a projection of what is no parameter")
    return e  # type: ignore[return-value]


def _read(e: Expr) -> tuple[Operand, tuple[str, ...]] | None:
    at: list[str] = []
    while isinstance(e, At):
        match e.at:
            case Affine(((str() as i, 1),), 0):
                at.append(i)
            case _:
                return None
        e = e.body
    return (_path(e), tuple(reversed(at))) if isinstance(e, Num | Integer | Name | Part) else None


def _unbracketed(e: Expr) -> tuple[Pred, Expr]:
    preds: list[Pred] = []
    while isinstance(e, Bracket):
        preds.append(e.pred)
        e = e.body
    return _conjunction(tuple(preds)), e


def _conjunction(preds: tuple[Pred, ...]) -> Pred:
    return TRUE if not preds else preds[0] if len(preds) == 1 else All(preds)


def _equated(part: Pred) -> tuple[str, str] | None:
    """The two indices that `part` says are equal."""
    match part:
        case Compare(True, Affine(((str() as i, k), (str() as j, l)), 0)) if k + l == 0 and abs(k) == 1:
            return i, j
    return None
