"""The tensor SSA of Figure 10.

    S ::= let X = E in S | (X0, ..., Xk)

    E ::= a projection of a parameter                              Input
        | gen g. real(a)                                           Integers, an input that is no parameter
        | gen g. c                                                 Constant
        | gen g. ([p0]*X0[g] + [p1]*X1[g] - ...)                   Addition, of any number of terms
        | gen g. [p] * f(X0[g], ...)                               Map
        | gen g. sum i0, i1, s. [p] * X0[i0] * X1[i1]              Contraction of one or two factors
        | fold t:n with x0 = X0, x1 = X1, .. . S                   States, an input that is no parameter: one of the
                                                                   states of a Loop, or scan or prescan of it
        | gen b. r(X0[b], X1, ..)                                  Result, an input that is no parameter: a part of what
                                                                   an Application gives

All accesses are at plain indices: every shift, stride and diagonal lives in p.

A statement is identified by its right-hand side: statements are interned, so equal ones are one object (common
subexpressions need no pass), and an operand is the statement itself. Indices are named by their place
(`axis(0)`, `axis(1)`, ...): first g, then the axes of the factors in order, then s. An addition of n terms costs
the points of all its predicates minus those of the union of the positive ones: for two positive terms this is 4.24,
and for a difference the points of the subtracted term.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import MappingProxyType

from tensorlang.interning import Alive, interned
from tensorlang.language.affine import Affine, Index, IndexArray, constant
from tensorlang.language.function import Parameter, Results
from tensorlang.language.grammar import Routine, ScalarFunction, Var, with_sizes
from tensorlang.language.predicates import TRUE, Predicate, lookups
from tensorlang.language.types import R, Type, array, leaves, struct_of_arrays
from tensorlang.language.types import shape as type_shape
from tensorlang.normal.pattern import Pattern, Shape, axes
from tensorlang.shown import MOST_CHARACTERS, Shown, lines, text


class Defined(Shown):
    """A statement or a term of one; `str` is its right-hand side."""

    __slots__ = ()

    def __str__(self) -> str:
        return text(self)


@interned
class Input(Defined):
    """The part of the parameter `param` that the projections `path` lead to."""

    param: Var
    path: tuple[int, ...]
    shape: Shape


@interned
class Integers(Input):
    """gen g. real(value): read like an input, though no parameter has it."""

    value: Affine


_NO_PARAMETER = Var("real", R)


def integers(value: Affine, shape: Shape) -> Integers:
    """gen g. real(value), `value` over the indices of `shape`."""
    return Integers(_NO_PARAMETER, (), shape, value)


@interned
class LoopStep:
    """A step of a recurrence: it computes the next states from `states`, the values `frees`, and the `time`.

    Its variables are the canonical ones of `tensorlang.normal.recurrences`, so equal steps are one object. `choices`
    define the index arrays that it looks up.
    """

    states: tuple[Var, ...]
    frees: tuple[Var, ...]
    time: IndexArray
    outputs: tuple[Statement, ...]
    choices: tuple[Statement, ...]


@interned
class Loop:
    """A recurrence of `size` steps from the first states `inits`, whose steps read the values of `frees`."""

    size: Affine
    step: LoopStep
    inits: tuple[Statement, ...]
    frees: tuple[Statement, ...]

    @property
    def operands(self) -> tuple[Statement, ...]:
        """The statements that it reads."""
        return (*self.inits, *self.frees)


@interned
class States(Input):
    """The state in one `place` of a recurrence: after all steps, after each, before each, or all of these, by `word`.

    Passes treat it like an input. It depends on the operands of the loop.
    """

    loop: Loop
    place: int
    word: str


_STATES = Var("states", R)


def states(loop: Loop, place: int, word: str) -> States:
    """The "fold", "scan", "prescan" or "states" of the state in one `place` of `loop`."""
    shape = loop.inits[place].shape
    if word != "fold":
        shape = (loop.size + 1 if word == "states" else loop.size, *shape)
    return States(_STATES, (), shape, loop, place, word)


@interned
class Application:
    """gen b. routine(X0[b], X1, ..), where `batch` has the sizes of b, and `mapped` says which operands are read at
    b."""

    routine: Routine
    batch: Shape
    mapped: tuple[bool, ...]
    operands: tuple[Statement, ...]

    @property
    def type(self) -> Type:
        """The type of its value."""
        count = len(self.batch)
        kinds = [
            array(x.shape[count:] if along else x.shape, R) for x, along in zip(self.operands, self.mapped, strict=True)
        ]
        kind = with_sizes(self.routine.kind, self.routine.sizes_at(tuple(kinds)))
        return struct_of_arrays(array(self.batch, kind))


@interned
class Result(Input):
    """The array in one `place` of the result of an application.

    Passes treat it like an input. It depends on the operands of the application.
    """

    application: Application
    place: int


_RESULT = Var("result", R)


def result_of(application: Application, place: int) -> Result:
    """The array in one `place` of the result of `application`."""
    _, kind = leaves(application.type)[place]
    return Result(_RESULT, (), type_shape(kind)[0], application, place)


Whole = Loop | Application
"""Computations as a whole, which are set apart for passes that don't know them."""


def whole_of(x: Statement) -> Whole | None:
    """The recurrence or the application of which `x` is a part."""
    return x.loop if isinstance(x, States) else x.application if isinstance(x, Result) else None


def part_of(whole: Whole, place: int, word: str) -> Statement:
    """The states of a recurrence in one `place`, read as `word` says, or the result of an application there."""
    return states(whole, place, word) if isinstance(whole, Loop) else result_of(whole, place)


@interned
class Constant(Defined):
    """gen g. value."""

    value: Fraction
    shape: Shape


@interned
class Addend(Defined):
    """sign * [pred] * operand[g], a term of an addition."""

    sign: int
    pred: Predicate
    operand: Statement


@interned
class Addition(Defined):
    """gen g. the sum of its terms."""

    terms: tuple[Addend, ...]
    shape: Shape


@interned
class Map(Defined):
    """gen g. [pred] * function(arguments[g])."""

    pred: Predicate
    function: ScalarFunction
    arguments: tuple[Statement, ...]
    shape: Shape


@interned
class Contraction(Defined):
    """gen g. sum i0, i1, s. [pred] * X0[i0] * X1[i1]; `summed` holds the sizes of s."""

    pred: Predicate
    factors: tuple[Statement, ...]
    summed: Shape
    shape: Shape
    pattern: Pattern = field(init=False)

    def __post_init__(self) -> None:
        shapes = tuple(y.shape for y in self.factors)
        object.__setattr__(self, "pattern", Pattern(self.pred, shapes, self.summed, self.shape))


@interned
class Selection(Defined):
    """array = gen g. [guard] * argmax s where pred. operand[g, s] for sign 1, argmin for -1.

    It has no value of its own: other statements look up elements of `array` in their predicates, only where `guard`
    holds. The array keeps its identity when the right-hand side is rewritten.
    """

    array: IndexArray
    sign: int
    guard: Predicate
    pred: Predicate
    operand: Statement

    @property
    def shape(self) -> Shape:
        """The sizes of the array."""
        return self.array.sizes


@interned
class Comparison(Defined):
    """array = gen g. [guard] * (left[g] op right[g]).

    Like a selection, it is read through `array`, which keeps its identity when the right-hand side is rewritten.
    """

    array: IndexArray
    op: str
    guard: Predicate
    left: Statement
    right: Statement

    @property
    def shape(self) -> Shape:
        """The sizes of the array."""
        return self.array.sizes


Statement = Input | Constant | Addition | Map | Contraction | Selection | Comparison
Defining = Selection | Comparison
"""Statements that define an index array, and have no other value and no differential."""
Outputs = Statement | tuple["Outputs", "Outputs"]


_compared: Alive[tuple[str, Predicate, Statement, Statement], IndexArray] = Alive()
_selected: Alive[tuple[int, Predicate, Predicate, Statement], IndexArray] = Alive()


def selection(sign: int, guard: Predicate, pred: Predicate, operand: Statement, name: str = "k") -> Selection:
    """gen g. [guard] * argmax s where pred. operand[g, s]; equal calls return the same array.

    `guard` is over the indices of `operand` except the last, and `pred` over all of them. An array that is made for the
    first time is called `name`.
    """
    content = (sign, guard, pred, operand)
    array = _selected.get(content)
    if array is None:
        *sizes, size = operand.shape
        array = _selected.enter(content, IndexArray(name, tuple(sizes), size, partial=guard is not TRUE))
    return Selection(array, *content)


def comparison(op: str, guard: Predicate, left: Statement, right: Statement, name: str = "c") -> Comparison:
    """gen g. [guard] * (left[g] op right[g]); equal calls return the same array, called `name` the first time.

    `guard` is over the indices of `left` and `right`, which have one shape.
    """
    content = (op, guard, left, right)
    array = _compared.get(content)
    if array is None:
        made = IndexArray(name, left.shape, constant(2), partial=guard is not TRUE)
        array = _compared.enter(content, made)
    return Comparison(array, *content)


def operands(x: Statement) -> tuple[Statement, ...]:
    """The statements whose values `x` reads."""
    match x:
        case Contraction():
            return x.factors
        case Addition():
            return tuple([t.operand for t in x.terms])
        case Map():
            return x.arguments
        case Selection():
            return (x.operand,)
        case Comparison():
            return (x.left, x.right)
        case States():
            return x.loop.operands
        case Result():
            return x.application.operands
        case Input() | Constant():
            return ()


def predicates(x: Statement) -> tuple[Predicate, ...]:
    """The predicates of `x`."""
    match x:
        case Input() | Constant():
            return ()
        case Addition(terms, _):
            return tuple(t.pred for t in terms)
        case Map(p, _, _, _) | Contraction(p, _, _, _):
            return (p,)
        case Selection(_, _, guard, p, _):
            return (guard, p)
        case Comparison():
            return (x.guard,)


def looked_up(x: Statement) -> list[IndexArray]:
    """The index arrays in which `x` looks up elements."""
    if isinstance(x, Integers):
        return [lookup.array for lookup in x.value.lookups]
    return [lookup.array for p in predicates(x) for lookup in lookups(p)]


def selections(statements: Iterable[Statement]) -> dict[IndexArray, Defining]:
    """The statements that define index arrays; the first if several define the same array, as these are equivalent."""
    found: dict[IndexArray, Defining] = {}
    for x in statements:
        if isinstance(x, Defining):
            found.setdefault(x.array, x)
    return found


def needs(x: Statement, defined: Mapping[IndexArray, Defining]) -> tuple[Statement, ...]:
    """The statements that must come before `x`: its operands, and those in `defined` whose arrays it looks up."""
    if not defined:
        return operands(x)
    arrays = dict.fromkeys(looked_up(x))
    return (*operands(x), *(defined[array] for array in arrays if array in defined))


def is_given(x: Statement) -> bool:
    """Whether `x` is not computed by a statement, but an input or a state of a recurrence."""
    return isinstance(x, Input) and not isinstance(x, Result)


def own_indices(x: Statement) -> tuple[Index, ...]:
    """g: the indices of the statement's elements."""
    return axes(0, len(x.shape))


def factor_indices(x: Contraction) -> tuple[tuple[Index, ...], ...]:
    """i0, i1: the indices at which each factor is read."""
    return x.pattern.places


def summed_indices(x: Contraction) -> tuple[Index, ...]:
    """s: the further indices that are summed over."""
    return x.pattern.loops


def own_ranges(x: Statement) -> dict[Index, Affine]:
    """The ranges of g."""
    return dict(zip(own_indices(x), x.shape, strict=True))


def inner_ranges(x: Contraction) -> dict[Index, Affine]:
    """The ranges of i0, i1 and s."""
    return x.pattern.inner


@dataclass(frozen=True, eq=False, repr=False)
class SSA(Shown):
    """A program in tensor SSA: statements, each after those that it reads, and the outputs.

    `names` has the names that the program's author gave to statements.
    """

    name: str
    params: tuple[Parameter, ...]
    statements: tuple[Statement, ...]
    outputs: Outputs
    names: Mapping[Statement, str] = field(default_factory=lambda: MappingProxyType({}))
    results: Results = None

    def __str__(self) -> str:
        return text(self)

    def _text_lines(self) -> Iterable[str]:
        return lines(self, MOST_CHARACTERS)


def output_list(outputs: Outputs) -> list[Statement]:
    """The outputs from left to right."""
    found: list[Statement] = []
    stack: list[Outputs] = [outputs]
    while stack:
        part = stack.pop()
        if isinstance(part, tuple):
            stack += [part[1], part[0]]
        else:
            found.append(part)
    return found


def live(s: SSA) -> SSA:
    """`s` without statements on which no output depends, ordered so that operands come first."""
    wanted = set(output_list(s.outputs))
    defined = selections(s.statements)
    kept: dict[Statement, None] = {}
    late = False
    for x in reversed(dict.fromkeys(s.statements)):
        if x in wanted:
            before = needs(x, defined)
            late = late or any([y in kept for y in before])
            wanted.update(before)
            kept[x] = None
    is_in_order = not late and len(kept) == len(wanted)
    order = dict.fromkeys(reversed(kept)) if is_in_order else _wanted_in_order(s, defined)
    names = {x: name for x, name in s.names.items() if x in order}
    return replace(s, statements=tuple(order), names=names)


def _wanted_in_order(s: SSA, defined: Mapping[IndexArray, Defining]) -> dict[Statement, None]:
    """The statements on which outputs depend, each after those that it needs; those of `s` may be in any order."""
    wanted: set[Statement] = set()
    stack = output_list(s.outputs)
    while stack:
        x = stack.pop()
        if x not in wanted:
            wanted.add(x)
            stack += needs(x, defined)
    return in_order((x for x in (*s.statements, *output_list(s.outputs)) if x in wanted), lambda x: needs(x, defined))


def in_order(
    statements: Iterable[Statement], before: Callable[[Statement], Iterable[Statement]]
) -> dict[Statement, None]:
    """The `statements`, each after those that must be `before` it, and otherwise as they are given."""
    order: dict[Statement, None] = {}
    for start in statements:
        stack = [start] if start not in order else []
        while stack:
            x = stack[-1]
            missing = [y for y in before(x) if y not in order]
            if missing and x not in order:
                stack += reversed(missing)
            else:
                order[x] = None
                stack.pop()
    return order
