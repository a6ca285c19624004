"""Array programs as text, in the words of their grammar."""

from __future__ import annotations

from collections.abc import Iterator

from tensorlang.language.affine import Affine
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
    Note,
    Number,
    Part,
    Position,
    Return,
    Slice,
    StaticInteger,
    Subscript,
    Text,
    Transpose,
    Tuple,
    Volume,
    When,
)


def program_lines(program: Define, depth: int = 0) -> Iterator[str]:
    """The lines of a function."""
    yield f"{'  ' * depth}define {program.name}({', '.join(program.parameters)})"
    yield from _block(program.body, depth + 1)


def _block(block: Block, depth: int) -> Iterator[str]:
    indent = "  " * depth
    for s in block.statements:
        match s:
            case Assign(names, value, _):
                yield f"{indent}{', '.join(names)} := {node_text(value)}"
            case Define():
                yield from program_lines(s, depth)
            case When(test, then, otherwise):
                yield f"{indent}when {node_text(test)}"
                yield from _block(then, depth + 1)
                yield f"{indent}else"
                yield from _block(otherwise, depth + 1)
            case Return(value):
                yield f"{indent}return {node_text(value)}"
            case Note(text, about):
                yield f"{indent}; {text if isinstance(text, str) else text(about)}"
            case Blank():
                yield ""


def node_text(node: Node) -> str:
    """An expression, with all parentheses."""
    t = node_text
    match node:
        case Number(value, _):
            return str(value)
        case Name(name) | Part(name) | Text(name):
            return name
        case EinsumSpec():
            return str(node)
        case StaticInteger(a):
            return str(a)
        case Volume(factor, extents):
            return f"volume({', '.join([str(factor), *map(str, extents)])})"
        case Position(a, arrays):
            return f"position({'; '.join([str(a), *(f'{atom.name}: {t(x)}' for atom, x in arrays)])})"
        case Infix(left, op, right):
            return f"({t(left)} {op} {t(right)})"
        case Negative(of):
            return f"-{t(of)}"
        case Elementwise(f, arguments):
            return f"{f.name}({', '.join(map(t, arguments))})"
        case Subscript(of, at):
            return f"{t(of)}[{', '.join(map(t, at))}]"
        case All():
            return "all"
        case NewAxis():
            return "new"
        case Slice(start, stop, step):
            return f"{_end(start)}:{_end(stop)}:{step}"
        case Length(of, axis):
            return f"length({t(of)}, {axis})"
        case Item(of, place):
            return f"item({t(of)}, {place})"
        case Transpose(of, places):
            return f"transpose({t(of)}, {places})"
        case Any(of, places):
            return f"any({t(of)}, {places})"
        case ArrayOperation(operation, arguments, keywords):
            given = [*map(t, arguments), *(f"{name}={t(x)}" for name, x in keywords)]
            return f"{operation}({', '.join(given)})"
        case Tuple(items):
            return f"({', '.join(map(t, items))})"
        case List(items):
            return f"[{', '.join(map(t, items))}]"
        case IntegerRange(low, high):
            return f"range({low}, {high})"
        case Lambda(parameters, body):
            return f"(function {', '.join(parameters)}: {t(body)})"
        case Each(function, of):
            return f"[{function.name}(*x) for x in {t(of)}]"
    raise AssertionError(f"no such expression: {node!r}")


def _end(a: Affine | None) -> str:
    return "" if a is None else str(a)
