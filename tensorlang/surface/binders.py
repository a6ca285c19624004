"""The binders of indices in Python: gen, sum, exists, max, min, argmax and argmin, each with a function of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tensorlang.language import grammar, predicates
from tensorlang.language.affine import Affine, Index, IndexArray
from tensorlang.language.grammar import Bracket, Choice, Compared, Expr, Gen, bracket
from tensorlang.language.predicates import Predicate
from tensorlang.language.types import R
from tensorlang.surface.guards import lifted, named
from tensorlang.surface.lookups import choice, chosen
from tensorlang.surface.refusals import described
from tensorlang.surface.scope import Surface, built, current, opened, refuse, together, valid_name
from tensorlang.surface.terms import Cond, Idx, Numeric, Term, as_cond, as_size, as_term, index_term, term

S = TypeVar("S", bound=Surface)
Body = Callable[..., Any]


@dataclass(frozen=True)
class _Range(Generic[S]):
    """Indices with their sizes, the condition on them, and the result of a function of them."""

    binders: list[tuple[Index, Affine]]
    where: Cond
    result: S


def gen(size: Any, body: Body) -> Any:
    """The array of body(i) for 0 <= i < size; for a tuple of sizes, of body(i, j, ..).

    Where body(i) is an index that argmax or argmin chooses, it is the index array of these. Raises `TypeMismatch` if
    `size` is not one, or `body` no function of as many indices.

    >>> n = tl.sizes("n")
    >>> print(tl.function(lambda x: tl.gen(n, lambda i: 2 * x[i]), x=tl.R[n]).body)
    gen i:n. 2 * x[i]
    """
    made = _under_indices("gen", size, body, None, lambda value: value if choice(value) is not None else as_term(value))
    if isinstance(made.result, Term):
        return term(grammar.gen(made.binders, made.result.expr), made.result)
    indices = choice(made.result)
    assert indices is not None
    return chosen(grammar.gen(made.binders, indices), made.result)


def sum(size: Any, body: Body, *, where: Body | None = None) -> Term:
    """The sum of body(i) over 0 <= i < size; for a tuple of sizes, of body(i, j, ..).

    With `where`, over those i for which the condition where(i) holds. Raises `TypeMismatch` if `size` is not one, or
    `body` no function of as many indices that gives a number.

    >>> n = tl.sizes("n")
    >>> print(tl.function(lambda x: tl.sum(n, lambda i: x[i]), x=tl.R[n]).body)
    sum i:n. x[i]
    """
    made = _over_numbers("sum", size, body, where)
    return term(grammar.sums(made.binders, bracket(made.where.pred, made.result.expr)), made.result, made.where)


def max(size: Any, body: Body, *, where: Body | None = None) -> Term:
    """The greatest body(i) for 0 <= i < size; for a tuple of sizes, body(i, j, ..).

    With `where`, over those i for which the condition where(i) holds. Without such an i it is an error, unless a
    condition hides it: (n > 0) * max(n, ..). Raises `TypeMismatch` as `sum` does. `maximum` takes two numbers.

    >>> n = tl.sizes("n")
    >>> print(tl.function(lambda x: tl.max(n, lambda i: x[i]), x=tl.R[n]).body)
    max i:n. x[i]
    """
    return _extremum(1, "max", size, body, where)


def min(size: Any, body: Body, *, where: Body | None = None) -> Term:
    """The least body(i); in everything else as `max`.

    >>> n = tl.sizes("n")
    >>> print(tl.function(lambda x: tl.min(n, lambda i: x[i]), x=tl.R[n]).body)
    min i:n. x[i]
    """
    return _extremum(-1, "min", size, body, where)


def argmax(size: Any, body: Body, *, where: Body | None = None) -> Idx:
    """The first i with the greatest body(i) for 0 <= i < size: an index, to be used like one.

    With `where`, of those i for which the condition where(i) holds. Raises `TypeMismatch` as `sum` does, and for more
    than one size.

    >>> n = tl.sizes("n")
    >>> print(tl.function(lambda x, y: y[tl.argmax(n, lambda i: x[i])], x=tl.R[n], y=tl.R[n])([1.0, 5.0], [3.0, 4.0]))
    4.0
    """
    return _choice(1, "argmax", size, body, where)


def argmin(size: Any, body: Body, *, where: Body | None = None) -> Idx:
    """The first i with the least body(i); in everything else as `argmax`.

    >>> n = tl.sizes("n")
    >>> print(tl.function(lambda x, y: y[tl.argmin(n, lambda i: x[i])], x=tl.R[n], y=tl.R[n])([1.0, 5.0], [3.0, 4.0]))
    3.0
    """
    return _choice(-1, "argmin", size, body, where)


def exists(size: Any, body: Body) -> Cond:
    """Whether body(k) holds for some 0 <= k < size; for a tuple of sizes, body(k, l, ..).

    Raises `TypeMismatch` if `size` is not one, or `body` no function of as many indices that gives a condition.

    >>> n = tl.sizes("n")
    >>> even = lambda i: tl.exists(n, lambda k: i == 2 * k)
    >>> print(tl.function(lambda x: tl.sum(n, lambda i: even(i) * x[i]), x=tl.R[n])([1.0, 2.0, 4.0]))
    5.0
    """
    made = _under_indices("exists", size, body, None, lambda value: as_cond(value, "the body of exists"))
    p = _outside("exists", made.result.pred, made.binders)
    return Cond(predicates.exists(made.binders, p), made.result.binders)


def several(value: Any) -> tuple[Any, ...]:
    """A tuple as it is, anything else in a tuple."""
    return value if isinstance(value, tuple) else (value,)


def parameter_names(body: Body, count: int, what: str, default: str) -> list[str]:
    """The names of the first `count` parameters of `body`, which must be able to take that many."""
    wanted = f"{what} needs a function of {count} parameter{'s' * (count != 1)}"
    shown = ", ".join("ijklpqrs"[:count])
    form = f"such as lambda {shown}: .."
    if not callable(body) or isinstance(body, Surface):
        refuse(f"{wanted}, found {described(body)}", form)
    try:
        parameters = list(inspect.signature(body).parameters.values())
    except ValueError:  # a builtin, whose parameters Python does not know
        refuse(f"{wanted}, found {described(body)}", form)
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        names += [default] * count
    if len(names) < count or len(needed) > count:
        found = len(needed) if needed else len(names)
        sizes = f"; sizes come as a tuple: tl.{what}((n, m), lambda i, j: ..)" * (what in ("gen", "sum", "max", "min"))
        refuse(f"{wanted}, found one of {found}", form + sizes)
    return [name if valid_name(name) else default for name in names[:count]]


def _extremum(sign: int, what: str, size: Any, body: Body, where: Body | None) -> Term:
    if isinstance(size, Numeric):
        refuse(f"{what} needs a size, found {described(size)}", f"tl.{what}imum(a, b) is the {what}imum of two numbers")
    made = _over_numbers(what, size, body, where)
    p = _outside(what, made.where.pred, made.binders)
    e = grammar.extremum(sign, made.binders, p, made.result.expr)
    return term(e, made.result, made.where)


def _choice(sign: int, what: str, size: Any, body: Body, where: Body | None) -> Idx:
    if isinstance(size, tuple):
        hint = f"one after the other: tl.{what}(n, lambda i: tl.max(m, lambda j: A[i, j])), and then j"
        refuse(f"{what} chooses one index, found {len(size)} sizes", hint)
    made = _over_numbers(what, size, body, where)
    p = _outside(what, made.where.pred, made.binders)
    ((index, n),) = made.binders
    result = chosen(built(Choice, sign, index, n, p, made.result.expr), made.result, made.where)
    assert isinstance(result, Idx)
    return result


def _outside(what: str, p: Predicate, binders: list[tuple[Index, Affine]]) -> Predicate:
    """`p`, with conditions on values under `binders` moved outside of these, where lets can define them.

    Refuses a condition that looks up an index chosen under `binders`.
    """
    definition = current.get()
    indices = {index for index, _ in binders}
    inside: dict[IndexArray, Expr] = {}
    for lookup in predicates.lookups(p):
        e = None if definition is None else definition.choices.get(lookup.array)
        if definition is None or e is None or indices.isdisjoint(definition.made_under[e]):
            continue
        if isinstance(_asked(e), Compared):
            inside[lookup.array] = e
        else:
            refuse(
                f"the condition of {what} chooses an index inside itself",
                "choose before: k = tl.gen(n, lambda i: tl.argmax(m, ..)), then k[i] is an index",
            )

    return lifted(binders, p, inside, named)


def _asked(e: Expr) -> Expr:
    while isinstance(e, Gen | Bracket):
        e = e.body
    return e


def _over_numbers(what: str, size: Any, body: Body, where: Body | None) -> _Range[Term]:
    made = _under_indices(what, size, body, where, as_term)
    if made.result.expr.type is not R:
        hint = "an element of an array, x[i]; arrays are summed one element at a time, under tl.gen"
        refuse(f"the body of {what} must be a number, found a value of type {made.result.expr.type}", hint)
    return made


def _under_indices(what: str, size: Any, body: Body, where: Body | None, convert: Callable[[Any], S]) -> _Range[S]:
    """The binders of body's parameters, and the results of `body` and `where` for them, without these binders."""
    ranges = tuple(map(as_size, several(size)))
    names = parameter_names(body, len(ranges), what, "i")
    if where is not None:
        parameter_names(where, len(ranges), f"the condition of {what}", "i")
    indices = [Index(name, size=size) for name, size in zip(names, ranges, strict=True)]
    condition = Cond(predicates.TRUE)
    with ExitStack() as stack:
        live = [stack.enter_context(opened(index, "an index")) for index in indices]
        bound = list(map(index_term, indices, live))
        if where is not None:
            condition = as_cond(where(*bound), f"the condition of {what}")
        result = convert(body(*bound))
        together(result, condition)
    return _Range(list(zip(indices, ranges, strict=True)), condition.without(live), result.without(live))
