"""Functions of numbers as text of the language, which `tensorlang.surface.scalar_text` reads.

    scalar root(a, x) =
      loop x_5 = x at most 60 times
      while abs(x_5 * x_5 - a) > 0.000001 * a
      do 0.5 * (x_5 + a / x_5)

An operation whose value is read once, in the same block, is written where it is read. Flags for loops that have passed
their bounds are not written: the results are nan then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tensorlang.scalars.code import ABSENT, Back, Code, If, Op, Stmt, Value, While
from tensorlang.scalars.flags import without_flags
from tensorlang.scalars.ops import COMPARISONS

_LOGIC = {"or": 0, "and": 1, "not": 2}
_LEVELS = {
    **_LOGIC,
    **dict.fromkeys(COMPARISONS, 3),
    "+": 4,
    "-": 4,
    "*": 5,
    "/": 5,
    "//": 5,
    "%": 5,
    "neg": 6,
    "pow": 7,
}
_ATOM = 8
_SPELLED = {"==": "=", "select": "where"}


def code_text(code: Code, mode: str = "auto") -> str:
    """The definition of a function of numbers."""
    plain = without_flags(code)
    params = ", ".join(f"{p}: int" if p in code.whole else p for p in code.params)
    how = "" if mode == "auto" else f" by {mode}"
    return "\n".join([f"scalar {code.name}({params}){how} =", *_Printer(plain).block(plain.body, plain.results, 1)])


class _Printer:
    def __init__(self, code: Code) -> None:
        self.reads: Counter[str] = Counter()
        self._count(code.body)
        self._read(code.results)

    def _read(self, values: Sequence[Value]) -> None:
        self.reads.update(v for v in values if isinstance(v, str))

    def _count(self, block: Sequence[Stmt]) -> None:
        for s in block:
            match s:
                case Op():
                    self._read(s.args)
                case If():
                    self._read((s.test, *s.thens, *s.otherwises))
                    self._count((*s.then, *s.otherwise))
                case While():
                    self._read((*s.inits, s.test, *s.nexts, *s.saves))
                    self._count((*s.head, *s.body))
                case Back():
                    self._read((*s.inits, *s.nexts))
                    self._count(s.body)

    def block(self, statements: Sequence[Stmt], results: Sequence[Value], indent: int) -> list[str]:
        """The lines of a block, ending with its results."""
        pad = "  " * indent
        here: set[str] = {v for v in results if isinstance(v, str)}
        for s in statements:
            here.update(v for v in _read_here(s) if isinstance(v, str))
        held: dict[str, Op] = {}
        lines: list[str] = []
        for k, s in enumerate(statements):
            if isinstance(s, Op) and self.reads[s.out] == 1 and s.out in here:
                held[s.out] = s
                continue
            if k == len(statements) - 1 and not isinstance(s, Op) and list(s.outs) == list(results):
                return [*lines, *self._compound(s, held, indent)]
            outs = s.out if isinstance(s, Op) else ", ".join(s.outs)
            if isinstance(s, Op):
                lines.append(f"{pad}let {outs} = {self._op(s, held, 0)} in")
            else:
                first, *rest = self._compound(s, held, indent + 1)
                lines += [f"{pad}let {outs} = {first.lstrip()}", *rest]
                lines[-1] += " in"
        return [*lines, f"{pad}{self._values(results, held)}"]

    def _compound(self, s: If | While | Back, held: dict[str, Op], indent: int) -> list[str]:
        pad = "  " * indent
        match s:
            case If():
                test = f"{pad}if {self._value(s.test, held, 0)} then"
                then = self.block(s.then, s.thens, indent + 1)
                return [test, *then, f"{pad}else", *self.block(s.otherwise, s.otherwises, indent + 1)]
            case While():
                firsts = zip(s.carried, s.inits, strict=True)
                starts = ", ".join(f"{c} = {self._value(v, held, 4)}" for c, v in firsts)
                at_most = "" if s.bound is None else f" at most {s.bound} times"
                head = [f"{pad}loop {starts}{at_most}"]
                for word, body in (
                    ("while", self.block(s.head, [s.test], indent + 1)),
                    ("do", self.block(s.body, s.nexts, indent + 1)),
                ):
                    head += [f"{pad}{word} {body[0].lstrip()}"] if len(body) == 1 else [f"{pad}{word}", *body]
                return head
            case Back():
                starts = ", ".join(map(_name, s.inits))
                first = f"{pad}back {', '.join(s.carried)} = {starts} do"
                return [first, *self.block(s.body, s.nexts, indent + 1)]

    def _values(self, results: Sequence[Value], held: dict[str, Op]) -> str:
        shown = [self._value(v, held, 0) for v in results]
        return shown[0] if len(shown) == 1 else f"({', '.join(shown)})"

    def _value(self, v: Value, held: dict[str, Op], level: int) -> str:
        if isinstance(v, str) and v in held:
            return self._op(held[v], held, level)
        shown = _name(v)
        return f"({shown})" if shown.startswith("-") and level > 0 else shown

    def _op(self, s: Op, held: dict[str, Op], level: int) -> str:
        own = _LEVELS.get(s.f, _ATOM)
        if s.f in ("neg", "not"):
            shown = f"{'-' if s.f == 'neg' else 'not '}{self._value(s.args[0], held, own + (s.f == 'neg'))}"
        elif s.f == "pow":
            shown = f"{self._value(s.args[0], held, _ATOM)} ^ {_name(s.args[1])}"
        elif s.f in _LEVELS:
            # comparisons can't be compared
            left = self._value(s.args[0], held, own + (s.f in COMPARISONS))
            shown = f"{left} {_SPELLED.get(s.f, s.f)} {self._value(s.args[1], held, own + 1)}"
        elif s.f == "copy":
            return self._value(s.args[0], held, level)
        else:
            shown = f"{_SPELLED.get(s.f, s.f)}({', '.join(self._value(a, held, 0) for a in s.args)})"
        return f"({shown})" if own < level else shown


def _read_here(s: Stmt) -> Sequence[Value]:
    """The values that a statement reads in its own block, not in blocks within it."""
    match s:
        case Op():
            return s.args
        case If():
            return (s.test,)
        case While() | Back():
            return s.inits


def _name(v: Value) -> str:
    if v == ABSENT:
        return "0"
    if isinstance(v, float):
        return repr(v).replace("e+", "e")
    return v if isinstance(v, str) else str(v).lower()
