"""The SSA form of a function of numbers on values of a program: a call of a scalar function, or written out."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from tensorlang.language.grammar import Call
from tensorlang.scalars.black_box import has_loops, scalar_function
from tensorlang.scalars.code import If, Op, Stmt, Value
from tensorlang.scalars.ops import COMPARISONS
from tensorlang.surface.loops import ReadFunction
from tensorlang.surface.operations import where
from tensorlang.surface.scope import built
from tensorlang.surface.terms import Cond, apply, as_cond, as_term, term

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    **COMPARISONS,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


def as_terms(found: ReadFunction, mode: str) -> Any:
    """The results of `found` for its arguments: written out if it has no loops and no mode is asked for, else calls of
    scalar functions."""
    code, arguments = found.code, found.arguments
    if has_loops(code.body) or mode != "auto":
        made = [built(scalar_function, code, mode, k) for k in range(len(code.results))]
        results = tuple(term(Call(f, tuple(a.expr for a in arguments)), *arguments) for f in made)
    else:
        env: dict[str, Any] = dict(zip(code.params, arguments, strict=True))
        _write(code.body, env)
        results = tuple(env[v] if isinstance(v, str) else as_term(v) for v in code.results)
    return results if len(results) > 1 else results[0]


def _write(block: Sequence[Stmt], env: dict[str, Any]) -> None:
    """The statements of a block without loops, on terms."""

    def get(v: Value) -> Any:
        if isinstance(v, float) and not math.isfinite(v):  # no constant of the language is one of these
            return apply("log", as_term(-1)) if math.isnan(v) else math.copysign(1, -v) * apply("log", as_term(0))
        return env[v] if isinstance(v, str) else v

    def condition(v: Any) -> Cond:
        return v if isinstance(v, Cond) else as_cond(v, "a condition")

    for s in block:
        match s:
            case Op(out, f, args):
                a = [get(x) for x in args]
                if f in _OPERATORS:
                    env[out] = _OPERATORS[f](*a)
                elif f == "neg":
                    env[out] = -a[0]
                elif f == "not":
                    env[out] = ~condition(a[0])
                elif f in ("and", "or"):
                    p, q = map(condition, a)
                    env[out] = p & q if f == "and" else p | q
                elif f == "select":
                    env[out] = where(condition(a[0]), a[1], a[2])
                elif f == "pow":
                    env[out] = a[0] ** a[1]
                elif f == "trunc":
                    env[out] = where(as_term(a[0]) >= 0, apply("floor", a[0]), apply("ceil", a[0]))
                elif f in ("//", "%"):
                    env[out] = apply("floor", as_term(a[0]) / a[1]) if f == "//" else apply("mod", *a)
                else:
                    env[out] = apply(f, *a)
            case If():
                _write(s.then, env)
                _write(s.otherwise, env)
                p = condition(get(s.test))
                for out, x, y in zip(s.outs, map(get, s.thens), map(get, s.otherwises), strict=True):
                    both = isinstance(x, Cond | bool) and isinstance(y, Cond | bool)
                    env[out] = (p & x) | (~p & y) if both else where(p, x, y)
            case _:
                raise AssertionError("a loop is no term")
