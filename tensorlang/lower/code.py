"""Pieces of Python: a value with named axes, a block of lines, and operators with as few parentheses as needed."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction

from tensorlang.errors import LimitError
from tensorlang.language.affine import Index
from tensorlang.language.grammar import Expr, ScalarFunction
from tensorlang.language.types import Idx
from tensorlang.memory import cached

LOOSE, SUM, PRODUCT, ATOM = range(4)
"""How tightly an expression binds: a comparison, a sum, a product or sign, a name or call."""

_WIDTH = 100
_CALL = re.compile(r"(?:return |\w+ = )?[\w.]+\(")
_WORD = re.compile(r"\w+")
_NAMED = re.compile(r"(\w+) = ")

Axes = tuple[Index, ...]


@dataclass(frozen=True)
class Value:
    """An expression whose value is an array with these axes, in this order.

    `number` is its value if it is a literal; `weak` says that no array of the computation's dtype is in it.
    """

    code: str
    axes: Axes = ()
    level: int = ATOM
    depth: int = 0
    number: Fraction | None = None
    weak: bool = False

    def within(self, level: int) -> str:
        """Its code where something that binds as tightly as `level` is needed."""
        return self.code if self.level >= level else f"({self.code})"


def dtype_of(e: Expr) -> str:
    """The dtype of the array of `e`, a number or the place of a choice, as code."""
    return "jnp.int32" if isinstance(e.type, Idx) else "dtype"


@dataclass
class Block:
    """Lines of code and blocks inside of them."""

    parts: list[str | Block] = field(default_factory=list)

    def line(self, text: str) -> None:
        """Append a line."""
        self.parts.append(text)

    def give(self, prefix: str, code: str) -> None:
        """Append `prefix` and `code`, or what was last assigned to the name `code`."""
        last = self.parts[-1] if self.parts else None
        if isinstance(last, str) and code.isidentifier() and last.startswith(f"{code} = "):
            self.parts.pop()
            code = last[len(code) + 3 :]
        self.line(prefix + code)

    def without_idle(self, kept: str) -> None:
        """Leave out the lines that name something, other than `kept`, that no line reads."""
        while True:
            read = Counter(word for line in self._each() if line[:1] != "#" for word in _WORD.findall(line))
            idle = {line for line in self._each() if (m := _NAMED.match(line)) and m[1] != kept and read[m[1]] == 1}
            if not idle:
                return
            stack = [self]
            while stack:
                block = stack.pop()
                block.parts = [part for part in block.parts if not isinstance(part, str) or part not in idle]
                stack += [part for part in block.parts if isinstance(part, Block)]

    def _each(self) -> Iterator[str]:
        """All lines, in any order."""
        stack: list[str | Block] = [self]
        while stack:
            part = stack.pop()
            if isinstance(part, str):
                yield part
            else:
                stack += part.parts

    def lines(self, indent: int = 0, told: bool = True) -> list[str]:
        """All lines, indented; without comments that are still to be made unless they are to be `told`."""
        found: list[str] = []
        stack: list[tuple[str | Block, int]] = [(self, indent - 1)]
        while stack:
            part, depth = stack.pop()
            if isinstance(part, Comment) and told:
                part = f"# {part.make()}"
            if isinstance(part, str):
                found += [("    " * depth + line).rstrip() for line in _broken(part, _WIDTH - 4 * depth)]
            else:
                stack += [(inner, depth + 1) for inner in reversed(part.parts)]
        return found


@dataclass
class Comment(Block):
    """A comment whose text is made when somebody reads it."""

    make: Callable[[], str] = str


def _broken(line: str, width: int) -> list[str]:
    """A line, or if it is too long and a call, several: one for each argument."""
    head = _CALL.match(line)
    if len(line) <= width or head is None or not line.endswith(")"):
        return [line]
    arguments = [""]
    depth, quoted = 1, False
    for c in line[head.end() : -1]:
        quoted ^= c == '"'
        if not quoted:
            depth += (c in "([{") - (c in ")]}")
        if depth == 0:  # the call ends before the line does
            return [line]
        parameters = arguments[-1].startswith("lambda ") and ":" not in arguments[-1]
        if c == "," and depth == 1 and not quoted and not parameters:
            arguments.append("")
        elif arguments[-1] or c != " ":
            arguments[-1] += c
    return [head[0], *(f"    {part}," for part in arguments), ")"]


def literal(value: Fraction) -> Value:
    """A number. Raises `LimitError` if it is beyond floating point."""
    if value.denominator == 1 and abs(value) < 2**24:
        text = str(value.numerator)
    else:
        try:
            text = repr(float(value))
        except OverflowError:
            raise LimitError("a constant of this program is too large for floating point") from None
    return Value(text, (), ATOM if value >= 0 else PRODUCT, 0, value, True)


def aligned(v: Value, axes: Axes) -> Value:
    """`v` brought to the order of `axes`, with an axis of length 1 for each that it lacks and that isn't leading."""
    v = ordered(v, axes)
    missing = [a not in v.axes for a in axes]
    if not v.axes or not any(missing[missing.index(False) :]):
        return v
    parts = ["None" if gone else ":" for gone in missing[missing.index(False) :]]
    while parts[-1] == ":":
        parts.pop()
    return replace(v, code=f"{v.within(ATOM)}[{', '.join(parts)}]", level=ATOM, depth=v.depth + 1)


def ordered(v: Value, axes: Axes) -> Value:
    """`v` with its axes in the order of `axes`."""
    wanted = tuple(a for a in axes if a in v.axes)
    if wanted == v.axes:
        return v
    places = [v.axes.index(a) for a in wanted]
    turned = "T" if places == list(range(len(places)))[::-1] else f"transpose({', '.join(map(str, places))})"
    return Value(f"{v.within(ATOM)}.{turned}", wanted, ATOM, v.depth + 1, None, v.weak)


def union(values: list[Value], order: Axes) -> Axes:
    """The axes that occur, in their common order if all agree, else in that of `order`."""
    found = {a for v in values for a in v.axes}
    for v in values:
        if len(v.axes) == len(found):
            if all(ordered(w, v.axes) is w for w in values):
                return v.axes
            break
    return tuple(a for a in order if a in found)


def plus(a: Value, b: Value, sign: int, order: Axes) -> Value:
    """a + b or a - b."""
    if a.number is not None and b.number is not None:
        return literal(a.number + sign * b.number)
    if b.number is not None and b.number < 0:
        return plus(a, literal(-b.number), -sign, order)
    if b.number == 0:
        return a
    if a.number == 0:
        return b if sign > 0 else negated(b)
    axes = union([a, b], order)
    left, right = aligned(a, axes), aligned(b, axes)
    code = f"{left.within(SUM)} {'+' if sign > 0 else '-'} {right.within(PRODUCT)}"
    return Value(code, axes, SUM, 1 + max(left.depth, right.depth), None, a.weak and b.weak)


def times(a: Value, b: Value, order: Axes, operator: str = "*") -> Value:
    """a * b, or a / b."""
    if operator == "*":
        if a.number is not None and b.number is not None:
            return literal(a.number * b.number)
        if b.number is not None:
            a, b = b, a
        if a.number == 1:
            return b
        if a.number == -1:
            return negated(b)
    axes = union([a, b], order)
    left, right = aligned(a, axes), aligned(b, axes)
    code = f"{left.within(PRODUCT)} {operator} {right.within(ATOM)}"
    return Value(code, axes, PRODUCT, 1 + max(left.depth, right.depth), None, a.weak and b.weak)


def negated(v: Value) -> Value:
    """-v."""
    return replace(v, code=f"-{v.within(ATOM)}", level=PRODUCT, depth=v.depth + 1)


def where(mask: Value, v: Value, order: Axes, otherwise: str = "0") -> Value:
    """`v` where `mask` holds, else 0."""
    if mask.code == "True":
        return v
    if v.number == 0 and otherwise == "0":
        return v
    axes = union([mask, v], order)
    if v.number is not None:
        # two integers would give an array of integers
        v, otherwise = replace(v, code=repr(float(v.number))), repr(float(otherwise))
    m, w = aligned(mask, axes), aligned(v, axes)
    code = f"jnp.where({m.code}, {w.code}, {otherwise})"
    return Value(code, axes, ATOM, 1 + max(m.depth, w.depth), None, v.weak)


def compared(op: str, a: Value, b: Value, order: Axes) -> Value:
    """a op b, as the integers 1 and 0."""
    axes = union([a, b], order)
    left, right = aligned(a, axes), aligned(b, axes)
    if left.weak and right.weak:
        left = replace(left, code=f"jnp.asarray({left.code}, dtype)", level=ATOM)
    operator = "==" if op == "=" else op
    code = f"({left.within(SUM)} {operator} {right.within(SUM)}).astype(jnp.int32)"
    return Value(code, axes, ATOM, 1 + max(left.depth, right.depth))


def applied(f: ScalarFunction, arguments: list[Value], order: Axes) -> Value:
    """f(arguments), by its template."""
    axes = union(arguments, order)
    values = [aligned(v, axes) for v in arguments]
    if all(v.weak and not v.axes for v in values):
        # Python's own numbers would raise where arrays give inf or nan
        values = [replace(v, code=f"jnp.asarray({v.code}, dtype)", level=ATOM) for v in values]
    level, bare = _template(f.source, f.arity)
    code = f.source.format(*(v.code if bare[k] else v.within(ATOM) for k, v in enumerate(values)))
    depth = 1 + max(v.depth for v in values)
    return Value(code, axes, level, depth, None, all(v.weak and v.axes for v in values))


@cached
def _template(source: str, arity: int) -> tuple[int, tuple[bool, ...]]:
    """How tightly a template binds, and for each argument whether it can do without parentheses everywhere."""
    tree = ast.parse(source.format(*(f"a{k}" for k in range(arity))), mode="eval").body
    level = ATOM if isinstance(tree, ast.Call | ast.Name | ast.Attribute | ast.Subscript) else LOOSE
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Mult | ast.Div | ast.Pow):
        level = PRODUCT
    bare = []
    for k in range(arity):
        every = len(re.findall(rf"\{{{k}\}}", source))
        bare.append(every == len(re.findall(rf"(?:\(|, )\{{{k}\}}(?=[,)])", source)))
    return level, tuple(bare)
