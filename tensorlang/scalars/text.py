"""Functions of numbers as text of the language.

scalar newton(a) =
  loop x_0 = 1.0 while let v_1 = x_0 * x_0 - a in abs(v_1) > 0.000001 do .. then x_0 = ..
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorlang.scalars.code import ABSENT, Back, Code, If, Op, Stmt, Value, While
from tensorlang.scalars.ops import COMPARISONS

_INFIX = {*COMPARISONS, "+", "-", "*", "/", "//", "%", "and", "or"}


def _v(x: Value) -> str:
    if x == ABSENT:
        return "0"
    return x if isinstance(x, str) else repr(x).lower()


def _vs(xs: Sequence[Value]) -> str:
    return ", ".join(map(_v, xs))


def _op(s: Op) -> str:
    a = [_v(x) for x in s.args]
    if s.f in _INFIX:
        return f"{a[0]} {s.f} {a[1]}"
    if s.f in ("neg", "not"):
        return f"-{a[0]}" if s.f == "neg" else f"not {a[0]}"
    if s.f == "select":
        return f"if {a[0]} then {a[1]} else {a[2]}"
    if s.f == "pow":
        return f"{a[0]} ^ {a[1]}"
    return f"{s.f}({', '.join(a)})"


def _lines(block: Sequence[Stmt], indent: int) -> list[str]:
    pad = "  " * indent
    found: list[str] = []
    for s in block:
        match s:
            case Op(out, _, _):
                found.append(f"{pad}{out} = {_op(s)}")
            case If():
                found.append(f"{pad}{', '.join(s.outs)} = if {_v(s.test)} then")
                found += [*_lines(s.then, indent + 1), f"{pad}  {_vs(s.thens)}", f"{pad}else"]
                found += [*_lines(s.otherwise, indent + 1), f"{pad}  {_vs(s.otherwises)}"]
            case While():
                at_most = "" if s.bound is None else f" at most {s.bound} times"
                found.append(f"{pad}{', '.join(s.outs)} = loop {', '.join(s.carried)} = {_vs(s.inits)}{at_most} while")
                found += [*_lines(s.head, indent + 1), f"{pad}  {_v(s.test)}", f"{pad}do"]
                found += [*_lines(s.body, indent + 1), f"{pad}  {_vs(s.nexts)}"]
            case Back():
                found.append(f"{pad}{', '.join(s.outs)} = back {', '.join(s.carried)} = {_vs(s.inits)} do")
                found += [*_lines(s.body, indent + 1), f"{pad}  {_vs(s.nexts)}"]
    return found


def code_text(code: Code) -> str:
    """The definition of a function of numbers."""
    params = ", ".join(f"{p}: int" if p in code.whole else p for p in code.params)
    return "\n".join([f"scalar {code.name}({params}) =", *_lines(code.body, 1), f"  {_vs(code.results)}"])
