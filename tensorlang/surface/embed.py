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
from typing import Any, overload

from tensorlang.errors import PythonLine, ScopeError, TensorlangError, TypeMismatch, here, python_line, user_frame
from tensorlang.language import functions
from tensorlang.language.affine import IndexArray, Lookup, atom_affine
from tensorlang.language.function import Function, Parameter, Results, call_handlers, did_you_mean, sizes_of
from tensorlang.language.grammar import Let, MakePair, Var
from tensorlang.language.predicates import Relation
from tensorlang.language.recurrence import straight
from tensorlang.sets.check import check
from tensorlang.surface.binders import argmax, argmin, exists, gen, max, min, parameter_names, sum
from tensorlang.surface.foreign import translated
from tensorlang.surface.inline import call_on_terms
from tensorlang.surface.lookups import Indices
from tensorlang.surface.operations import first, real, second, where
from tensorlang.surface.parameter_types import (
    IndexType,
    R,
    RelationType,
    ValueType,
    idx,
    pair_type,
    relation,
    sizes,
    value_type_of,
)
from tensorlang.surface.records import fields, maker
from tensorlang.surface.recurrences import fold, prescan, scan, states
from tensorlang.surface.refusals import described
from tensorlang.surface.scalar import scalar
from tensorlang.surface.scalars import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    call,
    cbrt,
    ceil,
    cos,
    cosh,
    digamma,
    erf,
    erfc,
    erfinv,
    exp,
    expm1,
    floor,
    lgamma,
    log,
    log1p,
    log2,
    log10,
    logaddexp,
    maximum,
    minimum,
    mod,
    power,
    recip,
    relu,
    rsqrt,
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
    Binders,
    Definition,
    Surface,
    current,
    opened,
    refuse,
    together,
    valid_name,
)
from tensorlang.surface.share import share
from tensorlang.surface.terms import Cond, Idx, Rel, Term, as_term, term

fst, snd = first, second
call_handlers.append(call_on_terms)


def let(value: Any, body: Callable[[Term], Any]) -> Term:
    """body(x) for a variable x that names `value`.

    Raises `TypeMismatch` if `body` is not a function of one parameter that gives a value.

    >>> print(tl.function(lambda x: tl.let(x * x, lambda y: y + y), x=tl.R).body)
    let y = x * x in
    y + y
    """
    bound = as_term(value)
    (name,) = parameter_names(body, 1, "let", "x")
    var = Var(name, bound.expr.type)
    with opened(var, "a variable") as binder:
        result = as_term(body(Term(var, frozenset({binder}))))
        free = together(result) - {binder}
    return term(Let(var, bound.expr, result.expr), bound, Term(result.expr, free))


def pair(*parts: Any) -> Term:
    """The pair (a, b); of more parts, pairs nested to the right.

    Raises `TypeMismatch` for fewer than two parts, or one that is not a value.

    >>> print(tl.function(lambda x: tl.pair(x, x * x), x=tl.R).body)
    (x, x * x)
    """
    if len(parts) < 2:
        refuse(f"a pair has at least two parts, found {len(parts)}", "tl.pair(a, b)")
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

    >>> n = tl.sizes("n")
    >>> @tl.function
    ... def f(x: tl.R[n]):
    ...     return tl.sum(n, lambda i: x[i] ** 2)
    >>> print(f)
    f(x: [n]R) = sum i:n. x[i] ^ 2
    """
    if body is None:
        return lambda given: function(given, **types)
    if not callable(body) or isinstance(body, Function | Surface | type):
        made = "tl.parse makes a program of a text" if isinstance(body, str) else "a function or a lambda"
        refuse(f"tl.function takes a Python function, found {described(body)}", made)
    place = place_of(body)
    definition = Definition(_function_name(body, place))
    params, given = _parameters(body, types, place, definition)
    token = current.set(definition)
    try:
        result, results = _result(body(*given), place)
        together(result)
    except (TypeError, IndexError, ValueError) as error:
        meant = translated(error, "" if place is None else place.filename)
        if meant is None:
            raise
        raise meant.at(place) from None
    finally:
        current.reset(token)
    try:
        expr = straight(share(result.expr, definition.names, definition.made_under, definition.choices))
        return check(Function(definition.name, tuple(params), expr, results))
    except TensorlangError as error:
        raise error.at(place) from None


def place_of(body: Callable[..., Any]) -> PythonLine | None:
    code = getattr(body, "__code__", None)
    return here() if code is None else python_line(code.co_filename, code.co_firstlineno)


def _function_name(body: Callable[..., Any], place: PythonLine | None) -> str:
    name = getattr(body, "__name__", "f")
    if name == "<lambda>":
        return "f"
    if not valid_name(name):
        raise ScopeError(f"a program can't be called {name}", place, f"another name for the Python function: {name}0")
    return name


def _parameters(
    body: Callable[..., Any], types: dict[str, Any], place: PythonLine | None, definition: Definition
) -> tuple[list[Parameter], list[Any]]:
    """The parameters of the program, and the arguments for `body`; a record of types becomes a record of arguments."""
    names = known_names_of(body)
    types = {**annotations_of(body, names, place), **types}
    types.pop("return", None)
    made: list[Parameter] = []

    def given(name: str, kind: Any) -> Any:
        record = fields(kind, names)
        if record is not None:
            return maker(kind)(**{field: given(field, part) for field, part in record.items()})
        p = _parameter(name, kind, place)
        if any(p.name == other.name for other in made):
            raise ScopeError(f"two parameters are called {name}", place, f"another name for one of the fields: {name}1")
        made.append(p)
        return _surface(p, frozenset({Binder(p.name, "a parameter", definition)}))

    surfaces: list[Any] = []
    for p in inspect.signature(body).parameters.values():
        if p.kind not in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) or p.default is not p.empty:
            hint = f"no default and no star: {p.name}: tl.R; constants are plain Python variables outside"
            raise TypeMismatch(
                f"the parameter {p.name} of a program must be a plain one, without a default", place, hint
            )
        if p.name not in types:
            raise TypeMismatch(
                f"the parameter {p.name} has no type", place, f"annotate it, {p.name}: tl.R[n], or pass {p.name}=tl.R"
            )
        surfaces.append(given(p.name, types.pop(p.name)))
    if types:
        meant = did_you_mean(next(iter(types)), [p.name for p in made])
        raise ScopeError(f"a type is given for {next(iter(types))}, which is no parameter", place, meant)
    _refuse_sizes_as_parameters(made, place)
    return made, surfaces


def _parameter(name: str, kind: Any, place: PythonLine | None) -> Parameter:
    """The parameter called `name`, with the type of its annotation."""
    if not valid_name(name) or name in functions.functions():
        raise ScopeError(f"a parameter can't be called {name}", place, "keywords and scalar functions are taken")
    if isinstance(kind, RelationType):
        return Relation(name, kind.sizes)
    if isinstance(kind, IndexType):
        return IndexArray(name, kind.sizes, kind.size)
    try:
        return Var(name, value_type_of(kind, f"the type of the parameter {name}"))
    except TypeMismatch as error:
        error.place = place
        error.hint = f"{name}: tl.R is a number, tl.R[n, m] an array of them, tl.idx(m)[n] indices"
        raise


def _refuse_sizes_as_parameters(params: list[Parameter], place: PythonLine | None) -> None:
    named: set[str] = set()
    for p in params:
        named.update(s.name for a in sizes_of(p) for s in a.sizes)
    for p in params:
        if p.name in named:
            raise ScopeError(f"{p.name} is both a parameter and a size", place, "call one of them differently")


def _surface(p: Parameter, binders: Binders) -> Surface:
    """The object that represents the parameter `p` in the Python function."""
    match p:
        case Var():
            return Term(p, binders)
        case Relation():
            return Rel(p, binders)
        case IndexArray() if p.sizes:
            return Indices(p, (), binders)
        case IndexArray():
            return Idx(atom_affine(Lookup(p, ())), binders)


def known_names_of(body: Callable[..., Any]) -> dict[str, Any]:
    """The values of names where `body` was written."""
    frame = user_frame()
    names = {} if frame is None else dict(frame.f_locals)
    code, cells = getattr(body, "__code__", None), getattr(body, "__closure__", None)
    if code is not None and cells is not None:
        names |= {name: cell.cell_contents for name, cell in zip(code.co_freevars, cells, strict=True)}
    return names


def annotations_of(body: Callable[..., Any], names: dict[str, Any], place: PythonLine | None) -> dict[str, Any]:
    """The annotations of `body`, those that are strings evaluated where `body` was written."""
    try:
        return inspect.get_annotations(body, locals=names, eval_str=True)
    except (NameError, SyntaxError) as error:
        hint = 'sizes are made before they are used: n = tl.sizes("n")'
        raise ScopeError(f"an annotation can't be evaluated: {error}", place, hint) from None


def _result(value: Any, place: PythonLine | None) -> tuple[Term, Results]:
    """The term that the Python function returned, and its form as Python values."""
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
    "IndexType",
    "Indices",
    "R",
    "RelationType",
    "Term",
    "ValueType",
    "acos",
    "acosh",
    "argmax",
    "argmin",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "call",
    "cbrt",
    "ceil",
    "cos",
    "cosh",
    "digamma",
    "erf",
    "erfc",
    "erfinv",
    "exists",
    "exp",
    "expm1",
    "floor",
    "fold",
    "fst",
    "function",
    "gen",
    "idx",
    "let",
    "lgamma",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "max",
    "maximum",
    "min",
    "minimum",
    "mod",
    "pair",
    "pair_type",
    "power",
    "prescan",
    "real",
    "recip",
    "relation",
    "relu",
    "rsqrt",
    "scalar",
    "scalar_function",
    "scan",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sizes",
    "snd",
    "softplus",
    "sqrt",
    "states",
    "sum",
    "tan",
    "tanh",
    "where",
    "where_ge",
    "where_gt",
]
