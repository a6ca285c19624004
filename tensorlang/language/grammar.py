"""The core tensor language, Figure 3, with sizes, predicates and types in modules of their own.

    e ::= x | c                    Var, Const
        | real(a)                  Integer, beyond Figure 3: an affine index as a number, which costs nothing
        | e0 + e1 | e0 - e1        Add (a subtraction is one operation: an addition whose sign is -1)
        | e0 * e1                  Mul
        | f(e0, ...)               Call
        | (e0, e1)                 MakePair
        | fst e | snd e            Proj
        | gen i:n. e               Gen
        | sum i:n. e               Sum
        | max i:n where p. e       Extremum, beyond Figure 3: the greatest or least value over the points of p
        | argmax i:n where p. e    Choice: the first point that attains it, an index
        | e0 < e1 | e0 <= e1 | e0 = e1     Compared, beyond Figure 3: 1 where it holds and else 0, an index below 2
        | e[a]                     Access
        | [p] * e                  Bracket
        | let x = e0 in e1         Let
        | fold t:n with s = e0. e1 Recur, beyond Figure 3: the state after the last step; scan and prescan: that after
                                   and that before each step; states: all of them, n + 1
        | r(e0, ...)               Apply, beyond Figure 3: a whole function of arrays with an adjoint of its own

Nodes are interned: equality is identity. A node computes its type from its parts when it is made, so an
ill-typed expression does not exist; it raises `TypeMismatch` instead.

Notation of the paper that the rest of the package uses: e expression, p predicate, a affine index, i, j, k
index, n, m size, x variable, X SSA variable, dX its differential, dY a cotangent, c constant, f scalar
function, g the indices of an SSA statement's result, s the further indices that it sums over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import count
from operator import attrgetter
from typing import Any

from tensorlang.errors import Place, SizeMismatch, TypeMismatch
from tensorlang.interning import interned
from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Lookup, atom_affine, constant
from tensorlang.language.predicates import (
    TRUE,
    Predicate,
    conjunction,
    conjuncts,
    equal,
    exists,
    free_atoms,
)
from tensorlang.language.scalar_code import Loops, Shared
from tensorlang.language.types import Array, BoundedIndex, Pair, R, Type, array, of_indices, shape
from tensorlang.recursion import Deep, call, run
from tensorlang.shown import MOST_CHARACTERS, Shown, lines, text

serials = count()

INDEX_HINT = "a let names it: let k = argmax i:n. x[i] in y[k]"
"""The hint for an index where a value is wanted."""


class ExpressionNode(Shown):
    """An expression; `str` is its text."""

    __slots__ = ()

    def __str__(self) -> str:
        return text(self)

    def _text_lines(self) -> Iterable[str]:
        return lines(self, MOST_CHARACTERS)


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True, repr=False)
class Var(ExpressionNode):
    """A variable. Two are the same only if they are the same object."""

    name: str
    type: Type
    serial: int = field(default_factory=lambda: next(serials))


@interned
class Const(ExpressionNode):
    """An exact number."""

    value: Fraction
    type: Type = field(init=False)

    def __post_init__(self) -> None:
        _set_type(self, R)


@interned
class Integer(ExpressionNode):
    """real(value): an affine expression of indices and sizes as a number. It costs nothing and has no differential."""

    value: Affine
    type: Type = field(init=False)

    def __post_init__(self) -> None:
        _set_type(self, R)


@interned
class Add(ExpressionNode):
    """e0 + e1 for sign 1, e0 - e1 for sign -1."""

    left: Expr
    right: Expr
    sign: int
    type: Type = field(init=False)

    def __post_init__(self) -> None:
        what = "+" if self.sign > 0 else "-"
        _need_real(self.left, f"the left side of {what}")
        _need_real(self.right, f"the right side of {what}")
        _set_type(self, R)


@interned
class Mul(ExpressionNode):
    """e0 * e1."""

    left: Expr
    right: Expr
    type: Type = field(init=False)

    def __post_init__(self) -> None:
        _need_real(self.left, "the left side of *")
        _need_real(self.right, "the right side of *")
        _set_type(self, R)


@interned
class Call(ExpressionNode):
    """f(e0, ...)."""

    function: ScalarFunction
    arguments: tuple[Expr, ...]
    type: Type = field(init=False)

    def __post_init__(self) -> None:
        f = self.function
        if len(self.arguments) != f.arity:
            raise TypeMismatch(f"{f.name} takes {f.arity} arguments, found {len(self.arguments)}")
        for e in self.arguments:
            _need_real(e, f"an argument of {f.name}")
        _set_type(self, R)


@interned
class MakePair(ExpressionNode):
    """(e0, e1)."""

    first: Expr
    second: Expr
    type: Type = field(init=False)

    def __post_init__(self) -> None:
        for e in (self.first, self.second):
            if of_indices(e.type):
                raise TypeMismatch(f"a part of a pair must be a value, found one of type {e.type}", hint=INDEX_HINT)
        _set_type(self, Pair(self.first.type, self.second.type))


@interned
class Proj(ExpressionNode):
    """fst e for which 0, snd e for which 1."""

    which: int
    body: Expr
    type: Type = field(init=False)

    def __post_init__(self) -> None:
        kind = self.body.type
        if not isinstance(kind, Pair):
            raise TypeMismatch(f"{'snd' if self.which else 'fst'} takes a pair, found a value of type {kind}")
        _set_type(self, kind.second if self.which else kind.first)


@interned
class Gen(ExpressionNode):
    """gen index:size. body, the array of `body` at 0 <= index < size (none if size is negative)."""

    index: Index
    size: Affine
    body: Expr
    type: Type = field(init=False)

    def __post_init__(self) -> None:
        _set_type(self, Array(self.size, self.body.type))


@interned
class Sum(ExpressionNode):
    """sum index:size. body."""

    index: Index
    size: Affine
    body: Expr
    type: Type = field(init=False)

    def __post_init__(self) -> None:
        _need_real(self.body, "the body of sum")
        _set_type(self, R)


@interned
class Extremum(ExpressionNode):
    """max index:size where pred. body for sign 1, min for -1; no point of pred is an error."""

    sign: int
    index: Index
    size: Affine
    pred: Predicate
    body: Expr
    type: Type = field(init=False)

    def __post_init__(self) -> None:
        _need_real(self.body, f"the body of {self.word}")
        _set_type(self, R)

    @property
    def word(self) -> str:
        """Its keyword."""
        return "max" if self.sign > 0 else "min"


@interned
class Choice(ExpressionNode):
    """argmax index:size where pred. body for sign 1, argmin for -1: the first among equals; no point is an error.

    Under gens and brackets alone, as a let's value; under a false bracket it is 0, and never looked at.
    """

    sign: int
    index: Index
    size: Affine
    pred: Predicate
    body: Expr
    type: Type = field(init=False)

    def __post_init__(self) -> None:
        _need_real(self.body, f"the body of {self.word}")
        _set_type(self, BoundedIndex(self.size))

    @property
    def word(self) -> str:
        """Its keyword."""
        return "argmax" if self.sign > 0 else "argmin"


COMPARISONS = ("<", "<=", "=")
"""The operators of `Compared`; a > b is b < a, and a != b is the negation of a = b."""


@interned
class Compared(ExpressionNode):
    """left op right, a condition on values: 1 where it holds, else 0. It costs 1 and has no differential.

    A condition is an index below 2, so what predicates say of it, c[i] = 1 or c[i] = 0, exclude one another, and one of
    them holds. Of a nan every comparison is 0. It stands where a `Choice` may: under gens and brackets alone, as a
    let's value.
    """

    op: str
    left: Expr
    right: Expr
    type: Type = field(init=False)

    def __post_init__(self) -> None:
        assert self.op in COMPARISONS, self.op
        _need_real(self.left, f"the left side of {self.op}")
        _need_real(self.right, f"the right side of {self.op}")
        _set_type(self, BoundedIndex(constant(2)))


@interned
class Access(ExpressionNode):
    """body[at]. `place` is where it was written, for the messages of the bounds check; passes drop it."""

    body: Expr
    at: Affine
    place: Place | None
    type: Type = field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.body.type, Array):
            raise TypeMismatch(f"only an array has elements, found [{self.at}] after a value of type {self.body.type}")
        _set_type(self, self.body.type.element)


@interned
class Bracket(ExpressionNode):
    """[pred] * body: `body` where pred holds, else the zero of its type; then `body` is not evaluated."""

    pred: Predicate
    body: Expr
    type: Type = field(init=False)

    def __post_init__(self) -> None:
        _set_type(self, self.body.type)


@interned
class Let(ExpressionNode):
    """let var = value in body. An index array is bound to choices, and used in affine expressions alone."""

    var: Var | IndexArray
    value: Expr
    body: Expr
    type: Type = field(init=False)

    def __post_init__(self) -> None:
        kind = type_of(self.var)
        if isinstance(self.var, Var) and of_indices(kind):
            raise TypeMismatch(f"{self.var.name} names a value of type {kind}, which an index array is to hold")
        if kind is not self.value.type:
            raise TypeMismatch(f"{self.var.name} has type {kind}, found a value of type {self.value.type}")
        _set_type(self, self.body.type)


@interned
class Apply(ExpressionNode):
    """routine(arguments): a whole function of arrays, whose adjoint is declared and not derived."""

    routine: Routine
    arguments: tuple[Expr, ...]
    type: Type = field(init=False)

    def __post_init__(self) -> None:
        sizes = self.routine.sizes_at(tuple(e.type for e in self.arguments))
        _set_type(self, with_sizes(self.routine.kind, sizes))


RECURRENCES = ("fold", "scan", "prescan", "states")
"""The words of `Recur`: the last state, the state after each step, that before each step, and all of them."""


@interned
class Recur(ExpressionNode):
    """word index:size with state = init . step.

    The state is `init` at first, and each step at 0 <= index < size makes of it the value of `step`, in which the
    variable `state` is the state before. A "fold" is the state after all steps, a "scan" the array of the states after
    each of them, a "prescan" that of the states before, and a "states" that of the first state and all after it.
    """

    word: str
    index: Index
    size: Affine
    state: Var
    init: Expr
    step: Expr
    type: Type = field(init=False)

    def __post_init__(self) -> None:
        assert self.word in RECURRENCES, self.word
        kind = self.state.type
        if of_indices(kind):
            hint = "its state is made of numbers; what is chosen is chosen anew inside of a step"
            raise TypeMismatch(f"the state of a {self.word} must be a value, found one of type {kind}", hint=hint)
        for e, what in ((self.init, "begins as a value"), (self.step, "is made a value by a step")):
            if e.type is not kind:
                hint = "a step gives a state of the type that the first one has"
                raise TypeMismatch(
                    f"the state {self.state.name} has type {kind}, but {what} of type {e.type}", hint=hint
                )
        if self.word == "fold":
            _set_type(self, kind)
        else:
            _set_type(self, Array(self.size + 1 if self.word == "states" else self.size, kind))


Expr = (
    Var
    | Const
    | Integer
    | Add
    | Mul
    | Call
    | MakePair
    | Proj
    | Gen
    | Sum
    | Extremum
    | Choice
    | Compared
    | Access
    | Bracket
    | Let
    | Recur
    | Apply
)


@dataclass(frozen=True, eq=False)
class ScalarFunction:
    """A black-box scalar function f, known to the language by its name (section 6 of the design).

    `cost` is what one application counts (Figure 6). `transpose` gives, from the arguments, the value
    f(arguments) and a cotangent, the cotangent of each argument as an expression, None for zero; read with
    a differential in the cotangent's place, the same expressions add up to the total derivative (6.6), since
    scalars are their own transposes. `evaluate` works elementwise on float arrays, `exact` on fractions, where it
    can. `source` and `latex` are templates with {0}, {1}, ... for the arguments.
    """

    name: str
    arity: int
    cost: int
    transpose: Callable[[tuple[Expr, ...], Expr, Expr], tuple[Expr | None, ...]]
    evaluate: Callable[..., Any]
    exact: Callable[..., Fraction] | None
    source: str
    latex: str
    exponent: Fraction | None = None
    body: Expr | None = None
    """Its body as an expression of x0, x1, .., if that is known."""
    shared: tuple[Shared, int] | None = None
    """The code that computes it, and its number among the results of that code."""
    loops: Loops | None = None
    """The cost of its path, which depends on data; `cost` is that of a path with one trip of each loop."""


@dataclass(frozen=True, eq=False)
class Routine:
    """A whole function of arrays, known to the language by its name, whose adjoint is declared and not derived.

    It is a program with the value `body`, or, if that is None, external: then `compute` gives its value for arrays, and
    `cost` is what one call is declared to count, the sum of weights times products of sizes. `results` says how its
    value reads in Python. `key` is the name under which generated code finds it.
    """

    name: str
    params: tuple[Var, ...]
    kind: Type
    body: Expr | None = None
    compute: Callable[..., Any] | None = None
    cost: tuple[tuple[int, tuple[Affine, ...]], ...] = ()
    results: Any = None
    key: str = ""

    def sizes_at(self, kinds: tuple[Type, ...]) -> dict[Atom, Affine]:
        """The values of its sizes for arguments of these types. Raises `TypeMismatch` or `SizeMismatch` if they don't
        fit."""
        if len(kinds) != len(self.params):
            raise TypeMismatch(
                f"{self.name} takes {len(self.params)} arguments, found {len(kinds)}", hint=self.signature
            )
        found: dict[Atom, Affine] = {}
        pairs: list[tuple[Var, Affine, Affine]] = []
        for p, kind in zip(self.params, kinds, strict=True):
            (declared, element), (actual, other) = shape(p.type), shape(kind)
            if len(declared) != len(actual) or element is not other:
                raise TypeMismatch(
                    f"the argument {p.name} of {self.name} must have type {p.type}, found {kind}", hint=self.signature
                )
            pairs += [(p, m, n) for m, n in zip(declared, actual, strict=True)]
        for _, m, n in pairs:
            if len(m.terms) == 1 and not m.constant and m.terms[0][1] == 1:
                found.setdefault(m.terms[0][0], n)
        for p, m, n in pairs:
            expected = m.substitute(found)
            if expected is not n:
                declared_as = "" if expected is m else f"{m} = "
                raise SizeMismatch(
                    f"the argument {p.name} of {self.name} must have size {declared_as}{expected}, found {n}",
                    hint=self.signature,
                )
        return found

    @property
    def signature(self) -> str:
        """Its name with the types of its parameters."""
        return f"{self.name}({', '.join(f'{p.name}: {p.type}' for p in self.params)})"


def type_of(x: Var | IndexArray) -> Type:
    """The type of a variable or index array that a `let` binds."""
    return array(x.sizes, BoundedIndex(x.size)) if isinstance(x, IndexArray) else x.type


def with_sizes(kind: Type, sizes: Mapping[Atom, Affine]) -> Type:
    """`kind` with these sizes in place of its own."""
    match kind:
        case Array(n, element):
            return Array(n.substitute(sizes), with_sizes(element, sizes))
        case Pair(a, b):
            return Pair(with_sizes(a, sizes), with_sizes(b, sizes))
        case _:
            return kind


def number(value: int | Fraction) -> Const:
    """The constant `value`."""
    return Const(Fraction(value))


def real(a: Affine) -> Const | Integer:
    """`a` as a number."""
    return number(a.constant) if a.is_constant else Integer(a)


def bracket(p: Predicate, e: Expr) -> Expr:
    """[p] * e, without a bracket that is true, and with nested ones joined (5.24)."""
    if isinstance(e, Bracket):
        p, e = conjunction([p, e.pred]), e.body
    return e if p is TRUE else Bracket(p, e)


def access(e: Expr, *at: Affine) -> Expr:
    """e[at0, at1, ...]."""
    for a in at:
        e = Access(e, a, None)
    return e


def gen(binders: list[tuple[Index, Affine]], e: Expr) -> Expr:
    """gen i:n, j:m, ... . e"""
    for index, size in reversed(binders):
        e = Gen(index, size, e)
    return e


def sums(binders: list[tuple[Index, Affine]], e: Expr) -> Expr:
    """sum i:n, j:m, ... . e"""
    for index, size in reversed(binders):
        e = Sum(index, size, e)
    return e


def extremum(sign: int, binders: list[tuple[Index, Affine]], p: Predicate, e: Expr) -> Expr:
    """max i:n, j:m, ... where p. e for sign 1, min for -1: an `Extremum` for each index, nested.

    A conjunct of p goes to the innermost index that it mentions. An outer index ranges over the points for which inner
    ones exist, so nesting creates no empty extremum where p has a point.
    """
    indices = [index for index, _ in binders]
    levels: list[list[Predicate]] = [[] for _ in binders]
    for part in conjuncts(p):
        mentioned = free_atoms(part)
        levels[max((k for k, index in enumerate(indices) if index in mentioned), default=0)].append(part)
    below: Predicate = TRUE
    for k in reversed(range(len(binders))):
        index, size = binders[k]
        own = levels[k]
        if not free_atoms(below).isdisjoint(indices[: k + 1]):
            own = [*own, exists(binders[k + 1 :], below)]
        e = Extremum(sign, index, size, conjunction(own), e)
        below = conjunction([*levels[k], below])
    return e


def zero(kind: Type) -> Expr:
    """0_T (Figure 4)."""
    return run(_zero(kind))


def _zero(kind: Type) -> Deep[Expr]:
    sizes, element = shape(kind)
    body: Expr = number(0)
    if isinstance(element, Pair):
        first: Expr = yield from call(_zero(element.first))
        second: Expr = yield from call(_zero(element.second))
        body = MakePair(first, second)
    return gen([(Index("i"), size) for size in sizes], body)


_CHILDREN: dict[type, Callable[[Any], tuple[Expr, ...]]] = {
    **dict.fromkeys((Var, Const, Integer), lambda e: ()),
    **dict.fromkeys((Add, Mul, Compared), attrgetter("left", "right")),
    **dict.fromkeys((Access, Bracket, Gen, Sum, Proj, Extremum, Choice), lambda e: (e.body,)),
    **dict.fromkeys((Call, Apply), attrgetter("arguments")),
    MakePair: attrgetter("first", "second"),
    Let: attrgetter("value", "body"),
    Recur: attrgetter("init", "step"),
}


def children(e: Expr) -> tuple[Expr, ...]:
    """The expressions directly under `e`."""
    return _CHILDREN[type(e)](e)


def holds(array: IndexArray, *at: Affine) -> Predicate:
    """The predicate that the condition array[at] holds."""
    return equal(atom_affine(Lookup(array, at)), constant(1))


def _need_real(e: Expr, what: str) -> None:
    if e.type is not R:
        hint = INDEX_HINT if of_indices(e.type) else None
        raise TypeMismatch(f"{what} must be a number, found a value of type {e.type}", hint=hint)


def _set_type(node: Any, kind: Type) -> None:
    object.__setattr__(node, "type", kind)
