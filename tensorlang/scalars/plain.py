"""The form of a function as lists, numbers and texts, for certificates; `proofs/checker/scalar_code.py` reads it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorlang.scalars.code import ABSENT, Back, Code, If, Op, Stmt, Value, While
from tensorlang.scalars.flags import without_flags


def plain(code: Code) -> dict[str, Any]:
    """`code` without flags for loops that have passed their bounds."""
    code = without_flags(code)
    return {
        "params": list(code.params),
        "whole": sorted(code.whole),
        "body": _block(code.body),
        "results": _values(code.results),
    }


def _value(v: Value) -> Any:
    if isinstance(v, float):
        return [repr(v)]
    return None if v == ABSENT else v


def _values(values: Sequence[Value]) -> list[Any]:
    return list(map(_value, values))


def _block(statements: Sequence[Stmt]) -> list[Any]:
    made: list[Any] = []
    for s in statements:
        match s:
            case Op(out, f, args):
                made.append(["op", out, f, _values(args)])
            case If():
                sides = _block(s.then), _block(s.otherwise)
                made.append(["if", _value(s.test), *sides, list(s.outs), _values(s.thens), _values(s.otherwises)])
            case While():
                carried = list(s.outs), list(s.carried), _values(s.inits)
                trip = _block(s.head), _value(s.test), _block(s.body), _values(s.nexts)
                made.append(["loop", s.site, *carried, *trip, s.bound, list(s.saves), list(s.stacks), s.trips])
            case Back():
                carried = list(s.outs), list(s.carried), _values(s.inits)
                stored = list(s.popped), list(s.stacks), s.trips
                made.append(["back", s.site, *carried, *stored, _block(s.body), _values(s.nexts)])
    return made
