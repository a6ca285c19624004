"""Array programs run by NumPy, and what they cost: no compiler, one operation after the other.

Each operation is counted by what it takes for the arrays that it is given (`meaning_work`): additions, multiplications
and comparisons of real numbers, what a scalar function costs in the model, and one for each real number that is moved
to another place. Indices and conditions are not counted. The bytes are those of all arrays that are named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any as Anything

import numpy as np

from tensorlang.errors import NormalFormError
from tensorlang.language.affine import Affine, Atom
from tensorlang.lowering.arrays.ir import (
    All,
    Any,
    ArrayOperation,
    Assign,
    Blank,
    Block,
    Define,
    Each,
    EinsumSpec,
    Elementwise,
    Infix,
    IntegerRange,
    Item,
    Lambda,
    Length,
    List,
    Name,
    Negative,
    NewAxis,
    Node,
    Number,
    Part,
    Position,
    Return,
    Slice,
    Statement,
    StaticInteger,
    Subscript,
    Text,
    Transpose,
    Tuple,
    Volume,
    When,
)
from tensorlang.lowering.arrays.meaning import MEANING
from tensorlang.lowering.arrays.meaning_work import WORK
from tensorlang.lowering.arrays.work import is_free

Scope = dict[str, Anything]

_OPERATORS: Mapping[str, Callable[[Anything, Anything], Anything]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": np.divide,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    ">=": lambda a, b: a >= b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    "<": lambda a, b: a < b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "and": lambda a, b: a and b,
}

_NAMES: Scope = {
    "True": True,
    "False": False,
    "None": None,
    "float": np.float64,
    "bool": np.bool_,
    "jnp.int32": np.int64,
    "jnp.inf": np.inf,
    "jnp.nan": np.nan,
}


@dataclass
class OperationCount:
    """Operations on real numbers, those of each step by the last name that it assigns, and bytes of named arrays."""

    operations: int = 0
    written: int = 0
    by_step: dict[str, int] = field(default_factory=dict)


def interpret(
    program: Define, arguments: Sequence[Anything], sizes: Mapping[str, int] | None = None
) -> tuple[Anything, OperationCount]:
    """The result of `program` for these arguments, arrays or tuples of arrays, and for the `sizes` that no shape
    determines; and what that took.

    Raises `NormalFormError` for an operation of no meaning.
    """
    count = OperationCount()
    names = [name for name in program.parameters if name != "*"]
    scope: Scope = {**_NAMES, **dict(zip(names, arguments, strict=False)), **(sizes or {})}
    with np.errstate(all="ignore"):
        return _Run(count).steps(program.body, scope), count


@dataclass
class _Run:
    count: OperationCount

    def steps(self, block: Block, scope: Scope) -> Anything:
        """The result of the program, run step by step."""
        result: Anything = None
        step: list[Statement] = []
        name = ""
        for s in (*block.statements, Blank()):
            if not isinstance(s, Blank):
                step.append(s)
                name = s.names[0] if isinstance(s, Assign) else name
                continue
            before = self.count.operations
            result = self.block(Block(step), scope)
            self.count.by_step[name] = self.count.by_step.get(name, 0) + self.count.operations - before
            step = []
        return result

    def block(self, block: Block, scope: Scope) -> Anything:
        """The result of a block, which assigns in `scope`."""
        for s in block.statements:
            match s:
                case Assign(names, value, unpacked):
                    found = self.value(value, scope)
                    scope.update(zip(names, found, strict=True) if unpacked else [(names[0], found)])
                    if isinstance(found, np.ndarray) and found.ndim and not is_free(value):
                        self.count.written += found.nbytes
                case Define(name, parameters, body):
                    scope[name] = self.closure(parameters, body, scope)
                case When(test, then, otherwise):
                    self.block(then if self.value(test, scope) else otherwise, scope)
                case Return(value):
                    return self.value(value, scope)
                case _:
                    pass
        return None

    def closure(self, parameters: Sequence[str], body: Block | Node, scope: Scope) -> Callable[..., Anything]:
        """A function of the program's."""

        def call(*arguments: Anything) -> Anything:
            inner = {**scope, **dict(zip(parameters, arguments, strict=True))}
            return self.block(body, inner) if isinstance(body, Block) else self.value(body, inner)

        return call

    def value(self, node: Node, scope: Scope) -> Anything:
        """The value of an expression."""
        match node:
            case Number(value, real):
                return float(value) if real or value.denominator > 1 else int(value)
            case Name(name):
                return scope[name]
            case Part(name):
                return MEANING.get(name)
            case StaticInteger(a):
                return _integer(a, scope, {})
            case Volume(factor, extents):
                for a in extents:
                    factor = factor * _integer(a, scope, {})
                return factor
            case Position(a, arrays):
                return _integer(a, scope, {atom: self.value(array, scope) for atom, array in arrays})
            case Infix(left, op, right):
                found = _OPERATORS[op](self.value(left, scope), self.value(right, scope))
                return self.counted(found)
            case Negative(of):
                return self.counted(-np.asarray(self.value(of, scope)))
            case Elementwise(f, arguments):
                values = [np.asarray(self.value(v, scope), np.float64) for v in arguments]
                return self.counted(np.asarray(f.evaluate(*values)), f.cost)
            case Subscript(of, at):
                return np.asarray(self.value(of, scope))[tuple(self.part(p, scope) for p in at)]
            case Length(of, axis):
                return self.value(of, scope).shape[axis]
            case Item(of, place):
                return self.value(of, scope)[place]
            case Transpose(of, places):
                return np.transpose(self.value(of, scope), places)
            case Any(of, places):
                return self.value(of, scope).any(places)
            case Tuple(items) | List(items):
                return tuple(self.value(v, scope) for v in items)
            case IntegerRange(start, stop):
                return range(_integer(start, scope, {}), _integer(stop, scope, {}))
            case Text(text):
                return text
            case EinsumSpec():
                return node
            case Lambda(parameters, body):
                return self.closure(parameters, body, scope)
            case Each(function, of):
                return [scope[function.name](*x) for x in self.value(of, scope)]
            case ArrayOperation(operation, arguments, keywords):
                given = [self.value(v, scope) for v in arguments]
                named = {name: self.value(v, scope) for name, v in keywords}
                return self.applied(operation, given, named)
        raise NormalFormError(f"an array program has no meaning for {type(node).__name__}")

    def applied(self, operation: str, given: Sequence[Anything], named: Mapping[str, Anything]) -> Anything:
        """An operation of some values."""
        if operation not in MEANING:
            raise NormalFormError(f"an array program has no meaning for {operation}")
        found = MEANING[operation](*given, **named)
        if operation in WORK:
            self.count.operations += WORK[operation](*given, **named)
            return found
        return self.counted(found)

    def counted(self, found: Anything, each: int = 1) -> Anything:
        """`found`, each of whose elements takes `each` operations, if they are real numbers."""
        if isinstance(found, np.ndarray | np.floating) and found.dtype.kind == "f":
            self.count.operations += each * found.size
        return found

    def part(self, node: Node, scope: Scope) -> Anything:
        """The index of an axis."""
        match node:
            case All():
                return slice(None)
            case NewAxis():
                return None
            case Slice(start, stop, step):
                first, last = (None if a is None else _integer(a, scope, {}) for a in (start, stop))
                return slice(first, last, step)
            case _:
                return self.value(node, scope)


def _integer(a: Affine, scope: Scope, arrays: Mapping[Atom, Anything]) -> Anything:
    total: Anything = a.constant
    for atom, k in a.terms:
        total = total + k * (arrays[atom] if atom in arrays else scope[atom.name])
    return total
