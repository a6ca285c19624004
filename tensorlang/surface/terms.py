"""The objects that a Python program computes with: indices, conditions, terms.

They are thin. A `Term` holds an expression, an `Idx` an affine combination of indices and sizes, a `Cond` a predicate;
Python's operators on them build new ones. Each also remembers the binders on which it depends, so that an object used
after its binder has ended, or in another function, is refused there.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from tensorlang.errors import Place, here
from tensorlang.language import functions, grammar
from tensorlang.language.affine import Affine, Index, atom_affine, constant
from tensorlang.language.grammar import (
    Access,
    Add,
    Bracket,
    Call,
    Expr,
    Integer,
    MakePair,
    Mul,
    Proj,
    bracket,
    children,
    number,
)
from tensorlang.language.predicates import (
    FALSE,
    TRUE,
    Predicate,
    Related,
    Relation,
    at_most,
    conjunction,
    disjunction,
    equal,
    less,
    not_equal,
)
from tensorlang.language.types import Array, Pair, shape
from tensorlang.language.types import R as REAL
from tensorlang.surface import foreign
from tensorlang.surface.guards import compared, holds, opposite
from tensorlang.surface.quotients import asked, quotient, remainder, said
from tensorlang.surface.refusals import (
    ConditionRefusals,
    IndexRefusals,
    TermRefusals,
    described,
    need_number,
    refuse_as_condition,
    refuse_as_index,
    refuse_as_place,
    refuse_as_size,
    refuse_as_term,
    refuse_product,
)
from tensorlang.surface.scope import NO_BINDERS, Binder, Binders, Surface, built, refuse, remember, together


class Idx(IndexRefusals, Surface):
    """An index, a size, or an affine combination of such.

    >>> n = tl.sizes("n")
    >>> print(tl.function(lambda x: tl.gen(n, lambda i: (i + 1) * x[n - 1 - i]), x=tl.R[n]))
    f(x: [n]R) = gen i:n. real(i + 1) * x[n - i - 1]
    """

    __slots__ = ("affine",)

    def __init__(self, affine: Affine, binders: Binders = NO_BINDERS) -> None:
        self.affine = affine
        self.binders = binders

    def __repr__(self) -> str:
        return str(self.affine)

    def described(self) -> str:
        """A description, for a message."""
        return f"the index expression {self}"

    def _combined(self, other: object, combine: Callable[[Affine, Affine], Affine], numbers: Callable[[], Term]) -> Any:
        """An index expression, or with a number that is no index, a number."""
        if _is_number(other):
            return numbers()
        right = as_idx(other, "the other side of an index expression")
        return Idx(combine(self.affine, right.affine), together(self, right))

    def _compared(self, other: object, compare: Callable[[Affine, Affine], Predicate], operator: str) -> Cond:
        if _is_number(other):
            return _comparison(operator, self, other)
        right = as_idx(other, "the other side of a comparison of indices")
        return Cond(asked((self.affine, right.affine), compare), together(self, right))

    def __add__(self, other: object) -> Any:
        return self._combined(other, lambda a, b: a + b, lambda: _sum(self, other, 1))

    def __radd__(self, other: object) -> Any:
        return self._combined(other, lambda a, b: b + a, lambda: _sum(other, self, 1))

    def __sub__(self, other: object) -> Any:
        return self._combined(other, lambda a, b: a - b, lambda: _sum(self, other, -1))

    def __rsub__(self, other: object) -> Any:
        return self._combined(other, lambda a, b: b - a, lambda: _sum(other, self, -1))

    def __neg__(self) -> Idx:
        return Idx(-self.affine, together(self))

    def __pos__(self) -> Idx:
        return self

    def __mul__(self, other: object) -> Any:
        return self._combined(other, _multiple, lambda: _product(self, other))

    def __rmul__(self, other: object) -> Any:
        return self._combined(other, _multiple, lambda: _product(other, self))

    def __truediv__(self, other: object) -> Term:
        return _product(self, _reciprocal(other))

    def __rtruediv__(self, other: object) -> Term:
        return _product(other, _reciprocal(self))

    def __floordiv__(self, other: object) -> Idx:
        return self._divided(other, quotient)

    def __mod__(self, other: object) -> Idx:
        return self._divided(other, remainder)

    def _divided(self, other: object, divide: Callable[[Affine, int], Affine]) -> Idx:
        if isinstance(other, numbers.Integral) and not isinstance(other, bool) and int(other) > 0:
            return Idx(built(divide, self.affine, int(other)), together(self))
        hint = "an array that is read at i * m + j has two axes, x: tl.R[n, m], read at x[i, j]"
        refuse(f"an index is divided by a positive integer, found {described(other)}", hint)

    def __pow__(self, exponent: object) -> Term:
        return as_term(self) ** exponent

    def __rpow__(self, base: object) -> Term:
        return as_term(self).__rpow__(base)

    def __abs__(self) -> Term:
        return apply("abs", self)

    def __eq__(self, other: object) -> Cond:  # type: ignore[override]
        return self._compared(other, equal, "=")

    def __ne__(self, other: object) -> Cond:  # type: ignore[override]
        return self._compared(other, not_equal, "!=")

    def __lt__(self, other: object) -> Cond:
        return self._compared(other, less, "<")

    def __le__(self, other: object) -> Cond:
        return self._compared(other, at_most, "<=")

    def __gt__(self, other: object) -> Cond:
        return self._compared(other, lambda a, b: less(b, a), ">")

    def __ge__(self, other: object) -> Cond:
        return self._compared(other, lambda a, b: at_most(b, a), ">=")

    __hash__ = object.__hash__

    def _outside(self) -> tuple[str, str]:
        return f"an array of numbers was read at the index {self}", foreign.captured(1)


class Numeric(Surface):
    """An operand of arithmetic on numbers: a term, or a condition, which means [condition] * 1."""

    __slots__ = ()

    def __add__(self, other: object) -> Term:
        return _sum(self, other, 1)

    def __radd__(self, other: object) -> Term:
        return _sum(other, self, 1)

    def __sub__(self, other: object) -> Term:
        return _sum(self, other, -1)

    def __rsub__(self, other: object) -> Term:
        return _sum(other, self, -1)

    def __mul__(self, other: object) -> Term:
        return _product(self, other)

    def __rmul__(self, other: object) -> Term:
        return _product(other, self)

    def __truediv__(self, other: object) -> Term:
        return _product(self, _reciprocal(other))

    def __rtruediv__(self, other: object) -> Term:
        return _product(other, _reciprocal(self))

    def __neg__(self) -> Term:
        need_number(as_term(self).expr.type, "-", "-x[i]")
        return _product(number_term(-1), self)

    def __pos__(self) -> Term:
        return as_term(self)

    def __pow__(self, exponent: object) -> Term:
        base = _operand(self, "**")
        value = as_number(exponent)
        if value is None:
            return apply("power", base, exponent)
        return term(built(functions.raise_to, base.expr, value), base)

    def __rpow__(self, base: object) -> Term:
        return apply("power", base, self)


class Cond(ConditionRefusals, Numeric):
    """A condition on indices and sizes, or on values. As a number it is 1 where it holds and 0 elsewhere.

    >>> n = tl.sizes("n")
    >>> print(tl.function(lambda x: tl.sum(n, lambda i: ((i > 0) & ~(i == 3)) * x[i]), x=tl.R[n]))
    f(x: [n]R) = sum i:n. [0 < i and i != 3] * x[i]
    """

    __slots__ = ("pred",)

    def __init__(self, pred: Predicate, binders: Binders = NO_BINDERS) -> None:
        self.pred = pred
        self.binders = binders

    def __str__(self) -> str:
        return str(self.pred)

    def described(self) -> str:
        """A description, for a message."""
        return "a condition"

    def __invert__(self) -> Cond:
        return Cond(opposite(self.pred, holds), self.binders)

    def __and__(self, other: object) -> Cond:
        right = as_cond(other, "the other side of &")
        return Cond(conjunction([self.pred, right.pred]), together(self, right))

    def __or__(self, other: object) -> Cond:
        right = as_cond(other, "the other side of |")
        return Cond(disjunction([self.pred, right.pred]), together(self, right))

    __rand__ = __and__
    __ror__ = __or__


class Term(TermRefusals, Numeric):
    """A value of the program: a number, an array or a pair.

    >>> n = tl.sizes("n")
    >>> print(tl.function(lambda x: tl.sum(n, lambda i: x[i] * x[i] / 2 + abs(x[i])), x=tl.R[n]))
    f(x: [n]R) = sum i:n. x[i] * x[i] / 2 + abs(x[i])
    """

    __slots__ = ("expr",)

    def __init__(self, expr: Expr, binders: Binders = NO_BINDERS) -> None:
        self.expr = expr
        self.binders = binders

    def __repr__(self) -> str:
        return f"<a term of type {self.expr.type}>"

    def described(self) -> str:
        """A description, for a message."""
        return f"a value of type {self.expr.type}"

    def __getitem__(self, at: object) -> Term:
        parts = [as_at(a) for a in (at if isinstance(at, tuple) else (at,))]
        place = here()
        e = said((a.affine for a in parts), lambda *places: self._element(places, place))
        return term(e, self, *parts)

    def _element(self, places: tuple[Affine, ...], place: Place | None) -> Expr:
        result = self.expr
        for a in places:
            if not isinstance(result.type, Array):
                axes, _ = shape(self.expr.type)
                ends = "" if len(axes) == 1 else "s"
                hint = f"the array has {len(axes)} ax{'i' if len(axes) == 1 else 'e'}s: {len(axes)} place{ends} in all"
                if not axes:
                    hint = "it is a number already: an element of an array, or a parameter x: tl.R"
                if isinstance(result.type, Pair):
                    hint = "the parts of a pair: a, b = p, or tl.fst(p) and tl.snd(p)"
                refuse(f"only an array has elements, found [{a}] after a value of type {result.type}", hint)
            result = built(Access, result, a, place)
        return result

    def __iter__(self) -> Iterator[Term]:
        kind = self.expr.type
        if isinstance(kind, Array):
            refuse(
                f"an array can't be iterated over, found a value of type {kind}",
                "write tl.gen(n, lambda i: ..) or tl.sum(n, lambda i: ..)",
            )
        return iter((part_of(self, 0), part_of(self, 1)))

    def __len__(self) -> int:
        return 2 if isinstance(self.expr.type, Pair) else super().__len__()

    def __abs__(self) -> Term:
        return apply("abs", self)

    def __eq__(self, other: object) -> Cond:  # type: ignore[override]
        return _comparison("=", self, other)

    def __ne__(self, other: object) -> Cond:  # type: ignore[override]
        return _comparison("!=", self, other)

    def __lt__(self, other: object) -> Cond:
        return _comparison("<", self, other)

    def __le__(self, other: object) -> Cond:
        return _comparison("<=", self, other)

    def __gt__(self, other: object) -> Cond:
        return _comparison(">", self, other)

    def __ge__(self, other: object) -> Cond:
        return _comparison(">=", self, other)

    __hash__ = object.__hash__

    def _attribute_hint(self, name: str) -> str | None:
        sizes, _ = shape(self.expr.type)
        if name in ("shape", "size") and sizes:
            return f"its sizes are {', '.join(map(str, sizes))}; {foreign.mend(name)}"
        return foreign.mend(name)


class Rel(Surface):
    """A data relation; called with indices it is a condition."""

    __slots__ = ("relation",)

    def __init__(self, relation: Relation, binders: Binders = NO_BINDERS) -> None:
        self.relation = relation
        self.binders = binders

    def __str__(self) -> str:
        return str(self.relation)

    def described(self) -> str:
        """A description, for a message."""
        return f"the relation {self.relation.name}, not applied to indices"

    def __call__(self, *at: object) -> Cond:
        """Whether the indices `at` are related."""
        wanted = len(self.relation.sizes)
        if len(at) != wanted:
            refuse(f"{self.relation.name} relates {wanted} indices, found {len(at)}")
        parts = [as_at(a) for a in at]
        p = asked((a.affine for a in parts), lambda *places: Related(self.relation, places))
        return Cond(p, together(self, *parts))


def term(e: Expr, *parts: Surface) -> Term:
    """The term `e` made of `parts`."""
    remember(e)
    return Term(e, together(*parts))


def number_term(value: int | Fraction) -> Term:
    """A constant."""
    return Term(number(value))


def as_number(value: object) -> Fraction | None:
    """`value` as an exact number, a float by its shortest decimal; None if it is no number."""
    if isinstance(value, bool):
        return None
    if isinstance(value, numbers.Integral):
        return Fraction(int(value))
    if isinstance(value, numbers.Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    if isinstance(value, numbers.Real):
        real = float(value)
        if not math.isfinite(real):
            refuse(f"a constant is a finite number, found {real}")
        return Fraction(repr(real))
    return None


def as_term(value: object) -> Term:
    """`value` as a value of the program: a term, a condition, a number, or a tuple of such. Else `TypeMismatch`."""
    if isinstance(value, Term):
        return value
    if isinstance(value, Idx):
        return term(said((value.affine,), grammar.real), value)
    if isinstance(value, bool | Cond):
        cond = as_cond(value, "")
        return Term(bracket(cond.pred, number(1)), cond.binders)
    if isinstance(value, tuple) and len(value) >= 2:
        result = as_term(value[-1])
        for part in reversed(value[:-1]):
            left = as_term(part)
            result = term(MakePair(left.expr, result.expr), left, result)
        return result
    found = as_number(value)
    if found is not None:
        return number_term(found)
    refuse_as_term(value)


def as_cond(value: object, what: str) -> Cond:
    """`value` as a condition. Else `TypeMismatch`."""
    if isinstance(value, Cond):
        return value
    if isinstance(value, bool):
        return Cond(TRUE if value else FALSE)
    refuse_as_condition(value, what)


def as_idx(value: object, what: str) -> Idx:
    """`value` as an affine combination of indices and sizes. Else `TypeMismatch`."""
    if isinstance(value, Idx):
        return value
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return Idx(constant(int(value)))
    refuse_as_index(value, what, _divided(value))


def as_at(value: object) -> Idx:
    """`value` as a place in the brackets of an access, or an argument of a relation. Else `TypeMismatch`."""
    if isinstance(value, slice):
        refuse("a slice is not an index", "write tl.gen(n, lambda i: x[i + 1]) for x[1:n + 1]")
    if isinstance(value, Idx) or (isinstance(value, numbers.Integral) and not isinstance(value, bool)):
        return as_idx(value, "an index")
    refuse_as_place(value, _divided(value))


def as_size(value: object) -> Affine:
    """`value` as a size: affine in size names and integers. Else `TypeMismatch`."""
    a = as_idx(value, "a size").affine
    if a.lookups or a.indices or (a.is_constant and a.constant < 0):
        refuse_as_size(a)
    return a


def apply(name: str, *arguments: object) -> Term:
    """name(arguments), for a registered scalar function. Raises `ScalarFunctionError` if there is none."""
    parts = [as_term(a) for a in arguments]
    known = functions.functions().get(name)
    if known is not None and len(parts) != known.arity:
        many = f"{known.arity} argument{'s' * (known.arity != 1)}"
        hint = f"tl.{name}({', '.join('abc'[: known.arity])})"
        refuse(f"{name} takes {many}, found {len(parts)}", hint)
    for part in parts:
        need_number(part.expr.type, f"an argument of {name}", f"tl.{name}(x[i])")
    return term(built(functions.call, name, *(a.expr for a in parts)), *parts)


def part_of(e: object, which: int) -> Term:
    """The first part of a pair for which 0, the second for 1. Raises `TypeMismatch` for anything else."""
    whole = as_term(e)
    if not isinstance(whole.expr.type, Pair):
        hint = "tl.pair(a, b) makes one; its type is tl.pair_type(tl.R, tl.R)"
        refuse(f"only a pair has two parts, found a value of type {whole.expr.type}", hint)
    return term(Proj(which, whole.expr), whole)


def index_term(index: Index, binder: Binder) -> Idx:
    """The index bound by `binder`."""
    return Idx(atom_affine(index), frozenset({binder}))


def _is_number(value: object) -> bool:
    """Whether `value` is a number that is no index."""
    is_real = isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral)
    return is_real or isinstance(value, Numeric)


def _multiple(left: Affine, right: Affine) -> Affine:
    """The product of two index expressions, one of which must be constant."""
    if left.is_constant:
        left, right = right, left
    if right.is_constant:
        return left * right.constant
    refuse_product(left, right)


def _divided(value: object) -> bool:
    """Whether `value` is a number made of indices or sizes."""
    stack = [value.expr] if isinstance(value, Term) and value.expr.type is REAL else []
    while stack:
        e = stack.pop()
        if isinstance(e, Integer):
            return True
        stack += children(e)
    return False


def _operand(value: object, sign: str) -> Term:
    """`value` as a term that is a number."""
    operand = as_term(value)
    need_number(
        operand.expr.type, sign, {"/": "x[i] / y", "-x": "-x[i]", "**": "x[i] ** 2"}.get(sign, f"x[i] {sign} y[i]")
    )
    return operand


def _comparison(operator: str, left: object, right: object) -> Cond:
    """A comparison of values: whether it holds is decided for each element when the program runs."""
    form = f"x[i] {'==' if operator == '=' else operator} y[i]"
    a, b = as_term(left), as_term(right)
    for operand in (a, b):
        need_number(operand.expr.type, "a comparison", form)
    asked, wanted = compared(operator, a.expr, b.expr)
    p = holds(asked)
    return Cond(p if wanted else opposite(p, holds), together(a, b))


def _sum(left: object, right: object, sign: int) -> Term:
    what = "+" if sign > 0 else "-"
    a, b = _operand(left, what), _operand(right, what)
    return term(built(Add, a.expr, b.expr, sign), a, b)


def _product(left: object, right: object) -> Term:
    """left * right. [p] * a * b is [p] * (a * b): a bracket at the head of a product is over all of it."""
    if isinstance(left, bool | Cond):
        p, a = as_cond(left, ""), as_term(right)
        return term(bracket(p.pred, a.expr), p, a)
    if isinstance(right, bool | Cond):
        return _product(right, left)
    a, b = _operand(left, "*"), _operand(right, "*")
    if isinstance(a.expr, Bracket):
        product = b.expr if a.expr.body is number(1) else built(Mul, a.expr.body, b.expr)
        return term(bracket(a.expr.pred, product), a, b)
    return term(built(Mul, a.expr, b.expr), a, b)


def _reciprocal(e: object) -> Term:
    below = _operand(e, "/")
    return Term(built(_recip, below.expr), together(below))


def _recip(e: Expr) -> Expr:
    return Call(functions.function("recip"), (e,))
