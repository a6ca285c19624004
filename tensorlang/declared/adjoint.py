"""Adjoints that users declare: `tl.adjoint_of`.

@tl.adjoint_of(solve)
def solve_adjoint(A, b, y, y_bar):
    b_bar = solve(transposed(A), y_bar)
    return tl.gen((n, n), lambda i, j: -b_bar[i] * y[j]), b_bar
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from tensorlang.declared.check import check_rule
from tensorlang.declared.external import External, require_plain
from tensorlang.errors import AdjointError, TensorlangError, TypeMismatch
from tensorlang.language import routines
from tensorlang.language.function import Function, unused_name
from tensorlang.language.grammar import Apply, Routine, Var, zero
from tensorlang.language.types import Pair, Type
from tensorlang.surface.embed import function, place_of
from tensorlang.surface.parameter_types import ValueType
from tensorlang.surface.terms import Term, as_term


def adjoint_of(
    f: Function | External,
    *,
    domain: tuple[float, float] = (-2.0, 2.0),
    examples: Callable[..., tuple[Any, ...]] | None = None,
) -> Callable[[Callable[..., Any] | External | Function], Function]:
    """A decorator that declares the adjoint of `f`, an external function or a program, to be used instead of one that
    is derived: wherever `f` is called in a program from now on, and in `tl.grad(f)`.

    The rule is a function of f's arguments, its value, and the cotangent of that, which gives the cotangents of the
    arguments: one, or a tuple, with None for one that is 0. It is written as programs are, of the same types, and may
    call external functions, `f` itself among them. Its own derivatives are derived, so derivatives of derivatives are
    there, too, unless it calls an external function that has no adjoint. The total derivative is the adjoint of the
    rule, which is linear in the cotangent. The decorated name becomes the program of the rule.

    It is checked at small sizes: of a program against the adjoint that is derived, in exact arithmetic where its
    functions have exact values, else in double precision; of an external function against differences. The arguments
    are random numbers of `domain`, or what `examples(rng, **sizes)` gives. Raises `AdjointError` with a counterexample
    for a rule that is none, `TypeMismatch` for one of other shapes.

    What it costs is counted like any program, and is not bounded by 4 times the cost of `f`. Certificates name it.

    >>> n = tl.sizes("n")
    >>> f = tl.parse("total(x: [n]R) = sum i:n. x[i]^2")
    >>> @tl.adjoint_of(f)
    ... def rule(x, y, y_bar):
    ...     twice = 2 * y_bar
    ...     return tl.gen(n, lambda i: twice * x[i])
    >>> tl.grad(f)([1.0, 2.0])
    Array([2., 4.], dtype=float32)
    """

    routine, derived_from = _routine(f)

    def declare(rule: Callable[..., Any] | External | Function) -> Function:
        place = place_of(rule.body) if isinstance(rule, External) else None
        place = place if isinstance(rule, External | Function) else place_of(rule)
        try:
            program = _program(routine, rule)
            check_rule(routine, derived_from, program, domain, examples)
        except TensorlangError as error:
            raise error.at(place) from None
        known = routine
        if derived_from is not None:
            known = routines.add(routine)
            routines.make_routine(derived_from, known)
        routines.declare(known, program)
        return program

    return declare


def _routine(f: Function | External) -> tuple[Routine, Function | None]:
    """The routine that calls of `f` call, and `f` if it is a program."""
    if isinstance(f, External):
        return f.routine, None
    if not isinstance(f, Function):
        hint = "@tl.external(cost=..) makes one of a Python function of arrays"
        raise AdjointError(
            f"tl.adjoint_of takes a program or an external function, found {type(f).__name__}", hint=hint
        )
    other = next((p for p in f.params if not isinstance(p, Var)), None)
    if other is not None:
        raise TypeMismatch(
            f"the parameter {other.name} of {f.name} is no real value", hint="declared adjoints are of arrays alone"
        )
    params = f.variables
    require_plain(f.name, params, f.type)
    return Routine(f.name, params, f.type, body=f.body, results=f.results), f


def _program(routine: Routine, rule: Callable[..., Any] | External | Function) -> Function:
    """The rule as a program of the arguments, the value and its cotangent."""
    kinds: list[Type] = [*(p.type for p in routine.params), routine.kind, routine.kind]
    if isinstance(rule, Function):
        found = rule
    elif isinstance(rule, External):
        params = rule.routine.params
        found = Function(rule.routine.name, params, Apply(rule.routine, params))
    else:
        names = list(inspect.signature(rule).parameters)
        if len(names) != len(kinds):
            raise AdjointError(
                f"the adjoint of {routine.name} takes {len(kinds)} arguments, found {len(names)}: {', '.join(names)}",
                hint=f"def rule({_form(routine)}): ..",
            )
        found = function(_traced(rule, routine), **{x: ValueType(k) for x, k in zip(names, kinds, strict=True)})
    given = [p.type if isinstance(p, Var) else None for p in found.params]
    if given != kinds:
        raise TypeMismatch(
            f"the adjoint of {routine.name} must take ({', '.join(map(str, kinds))}), found "
            f"({', '.join(map(str, given))})",
            hint="f's arguments, its value, and the cotangent of that",
        )
    _require_cotangents(routine, found)
    return found


def _form(routine: Routine) -> str:
    taken = {p.name for p in routine.params}
    y = unused_name("y", taken)
    return ", ".join([*(p.name for p in routine.params), y, unused_name(f"{y}_bar", taken)])


def _traced(rule: Callable[..., Any], routine: Routine) -> Callable[..., Any]:
    """`rule`, with its results as a tuple or a single value, and zeros in place of None."""

    @functools.wraps(rule)
    def traced(*arguments: Any) -> Any:
        found = rule(*arguments)
        parts = found if isinstance(found, tuple | list) else (found,)
        if len(parts) != len(routine.params):
            raise AdjointError(
                f"the adjoint of {routine.name} gives {len(parts)} cotangents for {len(routine.params)} arguments",
                hint=f"one for each of {', '.join(p.name for p in routine.params)}; None says that it is 0",
            )
        own = arguments[: len(routine.params)]
        terms = [Term(zero(x.expr.type)) if part is None else as_term(part) for x, part in zip(own, parts, strict=True)]
        return tuple(terms) if len(terms) > 1 else terms[0]

    return traced


def _require_cotangents(routine: Routine, rule: Function) -> None:
    """Raise `TypeMismatch` unless the rule gives a value of each argument's type."""
    count = len(routine.params)
    kind = rule.type
    for k, p in enumerate(routine.params):
        last = k == count - 1
        if not last and not isinstance(kind, Pair):
            raise TypeMismatch(
                f"the adjoint of {routine.name} must give {count} cotangents, found the type {rule.type}"
            )
        part = kind if last else kind.first  # type: ignore[union-attr]
        if part is not p.type:
            raise TypeMismatch(
                f"the cotangent of {p.name} must have its type {p.type}, found {part}", hint=routine.signature
            )
        kind = kind if last else kind.second  # type: ignore[union-attr]
