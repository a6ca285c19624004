"""The Python embedding: tensor programs written as Python functions.

    n, m = sizes("n m")

    @function
    def loss(x: R[n + m - 1], w: R[m], z: R[n]):
        y = gen(n, lambda i: sum(m, lambda j: x[i + j] * w[j]))
        return sum(n, lambda k: (y[k] - z[k]) ** 2)

The Python code runs once, on the objects of `tensorlang.surface.terms`, and leaves an expression behind.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from tensorlang.errors import PythonLine, ScopeError, TensorlangError, TypeMismatch
from tensorlang.language import functions, grammar, predicates
from tensorlang.language.affine import Affine, Index, Size, atom_affine
from tensorlang.language.function import Function, Parameter, Results, call_handlers
from tensorlang.language.grammar import Let, MakePair, Var
from tensorlang.language.predicates import Relation
from tensorlang.language.types import Pair, Type, array, leaves, shape
from tensorlang.language.types import R as REAL
from tensorlang.sets.check import check
from tensorlang.surface.inline import call_on_terms
from tensorlang.surface.scalars import (
    abs,
    call,
    cos,
    cosh,
    erf,
    exp,
    log,
    logaddexp,
    maximum,
    minimum,
    recip,
    relu,
    scalar_function,
    sigmoid,
    sign,
    sin,
    sinh,
    softplus,
    sqrt,
    tan,
    tanh,
    where_ge,
    where_gt,
)
from tensorlang.surface.scope import (
    Binder,
    Definition,
    Surface,
    current,
    here,
    opened,
    python_line,
    refuse,
    together,
    user_frame,
    valid_name,
)
from tensorlang.surface.share import share
from tensorlang.surface.terms import (
    Cond,
    Idx,
    Rel,
    Term,
    as_cond,
    as_size,
    as_term,
    described,
    first,
    index_term,
    second,
    term,
)

S = TypeVar("S", bound=Surface)
fst, snd = first, second
call_handlers.insert(0, call_on_terms)  # whatever else runs functions knows arrays only


@dataclass(frozen=True)
class ValueType:
    """The type of a parameter. T[n, m] is an array of n rows of m values of type T."""

    type: Type

    def __getitem__(self, size: Any) -> ValueType:
        return ValueType(array(tuple(map(as_size, _several(size))), self.type))

    def __repr__(self) -> str:
        return str(self.type)


@dataclass(frozen=True)
class RelationType:
    """The type of a parameter that is a data relation."""

    sizes: tuple[Affine, ...]


R = ValueType(REAL)


def sizes(names: str) -> Any:
    """The sizes called `names`, separated by blanks or commas: a tuple of them, or the only one."""
    found: list[Idx] = []
    for name in names.replace(",", " ").split():
        if not valid_name(name) or name in functions.functions():
            raise ScopeError(f"a size needs a name of its own, found {name!r}", here())
        found.append(Idx(atom_affine(Size(name))))
    if not found:
        raise ScopeError("sizes needs at least one name", here(), 'such as sizes("n m")')
    return found[0] if len(found) == 1 else tuple(found)


def pair_type(*parts: Any) -> ValueType:
    """The type of pairs (T0, T1); of more parts, of pairs nested to the right."""
    if len(parts) < 2:
        refuse(f"a pair has at least two parts, found {len(parts)}")
    return ValueType(_value_type(tuple(parts), "a part of a pair"))


def relation(*over: Any) -> RelationType:
    """The type of a data relation over indices of the given sizes."""
    if not over:
        refuse("a relation is over at least one index")
    return RelationType(tuple(map(as_size, over)))


def gen(size: Any, body: Callable[..., Any]) -> Term:
    """The array of body(i) for 0 <= i < size; for a tuple of sizes, of body(i, j, ..).

    Raises `TypeMismatch` if `size` is not one, or `body` no function of as many indices.
    """
    binders, result = _under_indices(size, body, "gen", as_term)
    return term(grammar.gen(binders, result.expr), result)


def sum(size: Any, body: Callable[..., Any]) -> Term:
    """The sum of body(i) over 0 <= i < size; for a tuple of sizes, of body(i, j, ..).

    Raises `TypeMismatch` if `size` is not one, or `body` no function of as many indices that gives a number.
    """
    binders, result = _under_indices(size, body, "sum", as_term)
    if result.expr.type is not REAL:
        refuse(f"the body of sum must be a number, found a value of type {result.expr.type}")
    return term(grammar.sums(binders, result.expr), result)


def exists(size: Any, body: Callable[..., Any]) -> Cond:
    """Whether body(k) holds for some 0 <= k < size; for a tuple of sizes, body(k, l, ..).

    Raises `TypeMismatch` if `size` is not one, or `body` no function of as many indices that gives a condition.
    """
    binders, result = _under_indices(size, body, "exists", lambda value: as_cond(value, "the body of exists"))
    return Cond(predicates.exists(binders, result.pred), result.binders)


def let(value: Any, body: Callable[[Term], Any]) -> Term:
    """body(x) for a variable x that names `value`."""
    bound = as_term(value)
    (name,) = _parameter_names(body, 1, "let", "x")
    var = Var(name, bound.expr.type)
    with opened(var, "a variable") as binder:
        result = as_term(body(Term(var, frozenset({binder}))))
        free = together(result) - {binder}
    return term(Let(var, bound.expr, result.expr), bound, Term(result.expr, free))


def pair(*parts: Any) -> Term:
    """The pair (a, b); of more parts, pairs nested to the right."""
    if len(parts) < 2:
        refuse(f"a pair has at least two parts, found {len(parts)}")
    return as_term(tuple(parts))


@overload
def function(body: Callable[..., Any], /, **types: Any) -> Function: ...


@overload
def function(**types: Any) -> Callable[[Callable[..., Any]], Function]: ...


def function(body: Callable[..., Any] | None = None, /, **types: Any) -> Any:
    """The program that the Python function `body` computes: a decorator, or function(lambda x: .., x=R).

    The types of its parameters are their annotations, or given by keyword. A tuple that it returns is returned by
    the program too. Raises `TypeMismatch` for a parameter without a type, `ScopeError` for a name that a program
    can't have or for a value of another function, `OutOfBounds` for an access that can fall outside its array.
    """
    if body is None:
        return lambda given: function(given, **types)
    place = _place(body)
    params = _parameters(body, types, place)
    definition = Definition(_function_name(body, place))
    given: list[Surface] = []
    for p in params:
        binders = frozenset({Binder(p.name, "a parameter", definition)})
        given.append(Term(p, binders) if isinstance(p, Var) else Rel(p, binders))
    token = current.set(definition)
    try:
        result, results = _result(body(*given), place)
        together(result)
    finally:
        current.reset(token)
    try:
        expr = share(result.expr, definition.names, definition.made_under)
        return check(Function(definition.name, tuple(params), expr, results))
    except TensorlangError as error:
        raise error.at(place) from None


def _several(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _under_indices(
    size: Any, body: Callable[..., Any], what: str, convert: Callable[[Any], S]
) -> tuple[list[tuple[Index, Affine]], S]:
    """The binders of body's parameters, and what `body` gives for them, in terms of what is bound outside."""
    ranges = tuple(map(as_size, _several(size)))
    names = _parameter_names(body, len(ranges), what, "i")
    indices = [Index(name) for name in names]
    with ExitStack() as stack:
        live = [stack.enter_context(opened(index, "an index")) for index in indices]
        result = convert(body(*map(index_term, indices, live)))
        together(result)
    return list(zip(indices, ranges, strict=True)), _without(result, live)


def _without(result: S, binders: list[Binder]) -> S:
    if isinstance(result, Term):
        return type(result)(result.expr, result.binders - frozenset(binders))
    if isinstance(result, Cond):
        return type(result)(result.pred, result.binders - frozenset(binders))
    return result


def _parameter_names(body: Callable[..., Any], count: int, what: str, default: str) -> list[str]:
    """The names of the first `count` parameters of `body`, which must be able to take that many."""
    wanted = f"{what} needs a function of {count} parameter{'s' * (count != 1)}"
    if not callable(body):
        refuse(f"{wanted}, found {described(body)}", f"such as tl.{what}(n, lambda i: x[i])" if what != "let" else None)
    parameters = list(inspect.signature(body).parameters.values())
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        names += [default] * count
    if len(names) < count or len(needed) > count:
        refuse(f"{wanted}, found one of {len(needed) if needed else len(names)}")
    return [name if valid_name(name) else default for name in names[:count]]


def _place(body: Callable[..., Any]) -> PythonLine | None:
    code = getattr(body, "__code__", None)
    return here() if code is None else python_line(code.co_filename, code.co_firstlineno)


def _function_name(body: Callable[..., Any], place: PythonLine | None) -> str:
    name = getattr(body, "__name__", "f")
    if name == "<lambda>":
        return "f"
    if not valid_name(name):
        raise ScopeError(f"a program can't be called {name}", place)
    return name


def _parameters(body: Callable[..., Any], types: dict[str, Any], place: PythonLine | None) -> list[Parameter]:
    types = {**_annotations(body, place), **types}
    types.pop("return", None)
    made: list[Parameter] = []
    for p in inspect.signature(body).parameters.values():
        if p.kind not in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) or p.default is not p.empty:
            raise TypeMismatch(f"the parameter {p.name} of a program must be a plain one, without a default", place)
        if not valid_name(p.name) or p.name in functions.functions():
            raise ScopeError(f"a parameter can't be called {p.name}", place, "keywords and scalar functions are taken")
        if p.name not in types:
            raise TypeMismatch(
                f"the parameter {p.name} has no type", place, f"annotate it, {p.name}: tl.R[n], or pass {p.name}=tl.R"
            )
        kind = types.pop(p.name)
        if isinstance(kind, RelationType):
            made.append(Relation(p.name, kind.sizes))
        else:
            try:
                made.append(Var(p.name, _value_type(kind, f"the type of the parameter {p.name}")))
            except TypeMismatch as error:
                error.place = place
                raise
    if types:
        raise ScopeError(f"a type is given for {next(iter(types))}, which is no parameter", place)
    _refuse_sizes_as_parameters(made, place)
    return made


def _refuse_sizes_as_parameters(params: list[Parameter], place: PythonLine | None) -> None:
    named: set[str] = set()
    for p in params:
        parts = p.sizes if isinstance(p, Relation) else [a for _, part in leaves(p.type) for a in shape(part)[0]]
        named.update(s.name for a in parts for s in a.sizes)
    for p in params:
        if p.name in named:
            raise ScopeError(f"{p.name} is both a parameter and a size", place, "call one of them differently")


def _annotations(body: Callable[..., Any], place: PythonLine | None) -> dict[str, Any]:
    """The annotations of `body`, those that are strings evaluated where `body` was written."""
    frame = user_frame()
    names = {} if frame is None else dict(frame.f_locals)
    code, cells = getattr(body, "__code__", None), getattr(body, "__closure__", None)
    if code is not None and cells is not None:
        names |= {name: cell.cell_contents for name, cell in zip(code.co_freevars, cells, strict=True)}
    try:
        return inspect.get_annotations(body, locals=names, eval_str=True)
    except (NameError, SyntaxError) as error:
        raise ScopeError(f"an annotation can't be evaluated: {error}", place) from None


def _value_type(kind: Any, what: str) -> Type:
    if isinstance(kind, ValueType):
        return kind.type
    if isinstance(kind, tuple) and len(kind) >= 2:
        made = _value_type(kind[-1], what)
        for part in reversed(kind[:-1]):
            made = Pair(_value_type(part, what), made)
        return made
    refuse(f"{what} must be one such as tl.R, tl.R[n, m] or tl.pair_type(tl.R, tl.R), found {described(kind)}")


def _result(value: Any, place: PythonLine | None) -> tuple[Term, Results]:
    """What the Python function returned, and how it reads."""
    if value is None:
        raise TypeMismatch("the function returns nothing", place, "return the value of the program")
    if not isinstance(value, tuple) or len(value) < 2:
        return as_term(value), None
    parts = [_result(part, place) for part in value]
    whole, _ = parts[-1]
    for part, _ in reversed(parts[:-1]):
        whole = Term(MakePair(part.expr, whole.expr), together(part, whole))
    readings = tuple(reading for _, reading in parts)
    return whole, None if readings == (None, None) else readings


__all__ = [
    "Cond",
    "Idx",
    "R",
    "RelationType",
    "Term",
    "ValueType",
    "abs",
    "call",
    "cos",
    "cosh",
    "erf",
    "exists",
    "exp",
    "fst",
    "function",
    "gen",
    "let",
    "log",
    "logaddexp",
    "maximum",
    "minimum",
    "pair",
    "pair_type",
    "recip",
    "relation",
    "relu",
    "scalar_function",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sizes",
    "snd",
    "softplus",
    "sqrt",
    "sum",
    "tan",
    "tanh",
    "where_ge",
    "where_gt",
]
