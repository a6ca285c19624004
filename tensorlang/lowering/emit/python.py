"""Array programs as Python: expressions with few parentheses, and statements in lines of limited length."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tensorlang.errors import LimitError
from tensorlang.language.affine import Affine, Atom, render
from tensorlang.language.grammar import ScalarFunction
from tensorlang.language.templates import arguments as arguments_of
from tensorlang.language.templates import parsed
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
    Statement,
    StaticInteger,
    Subscript,
    Text,
    Transpose,
    Tuple,
    Volume,
    When,
)
from tensorlang.lowering.emit.nodes import Attribute, Conditional, Do, Everything, For, OnDevice, PythonCall, Store
from tensorlang.lowering.emit.operations import SPELLED
from tensorlang.memory import cached

OPEN, LOOSE, SUM, PRODUCT, ATOM = range(5)
"""How tightly an expression binds: a choice, a comparison, a sum, a product or sign, a name or call."""

_WIDTH = 100
_INFIX = {
    "+": (SUM, SUM, PRODUCT),
    "-": (SUM, SUM, PRODUCT),
    "*": (PRODUCT, PRODUCT, ATOM),
    "/": (PRODUCT, PRODUCT, ATOM),
    "//": (PRODUCT, ATOM, ATOM),
    "%": (PRODUCT, ATOM, ATOM),
    "&": (LOOSE, ATOM, ATOM),
    "|": (LOOSE, ATOM, ATOM),
    "and": (LOOSE, LOOSE, LOOSE),
    **dict.fromkeys(("==", "!=", ">=", "<=", ">", "<"), (LOOSE, SUM, SUM)),
}
"""How tightly each operator binds, and how tightly its left and right operands must."""


def text(node: Node) -> str:
    """An expression as Python."""
    return _written(node)[0]


def _written(node: Node) -> tuple[str, int]:
    """An expression, and how tightly it binds."""
    match node:
        case Number(value, _):
            return _number(node), ATOM if value >= 0 else PRODUCT
        case Name(name) | Part(name):
            return name, ATOM
        case StaticInteger(a):
            code = affine(a)
            return code, ATOM if _is_atom(a) else SUM
        case Volume(factor, extents):
            parts = [affine(a) if _is_atom(a) else f"({affine(a)})" for a in extents]
            every = [str(factor), *parts] if factor != 1 or not parts else parts
            return " * ".join(every), ATOM if len(every) == 1 else PRODUCT
        case Position(a, arrays):
            spelled = {atom: within(array, ATOM) for atom, array in arrays}
            return affine(a, spelled), ATOM if _is_atom(a) else SUM
        case Infix(left, op, right):
            level, before, after = _INFIX[op]
            if isinstance(left, Infix) and left.op == op:
                before = level
            return f"{within(left, before)} {op} {within(right, after)}", level
        case Negative(of):
            return f"-{within(of, ATOM)}", PRODUCT
        case Elementwise(f, arguments):
            template = _template(f)
            codes = (text(v) if bare else within(v, ATOM) for v, bare in zip(arguments, template.bare, strict=True))
            return f.source.format(*codes), template.level
        case Subscript(of, at):
            return f"{within(of, ATOM)}[{', '.join(map(text, at))}]", ATOM
        case All():
            return ":", ATOM
        case NewAxis():
            return "None", ATOM
        case Slice(start, stop, step):
            given = ["" if a is None else affine(a) for a in (start, stop)]
            return ":".join(given if step == 1 else [*given, str(step)]), ATOM
        case Length(name, axis):
            return f"{name.name}.shape[{axis}]", ATOM
        case Item(name, place):
            return f"{name.name}[{place}]", ATOM
        case Transpose(of, places):
            backwards = list(places) == list(range(len(places)))[::-1]
            how = "T" if backwards else f"transpose({', '.join(map(str, places))})"
            return f"{within(of, ATOM)}.{how}", ATOM
        case Any(of, places):
            return f"{within(of, ATOM)}.any({places[0] if len(places) == 1 else places})", ATOM
        case ArrayOperation("einsum", (EinsumSpec() as spec, a, b)) if (order := _matrix_product(spec)) is not None:
            return " @ ".join(within((a, b)[k], ATOM) + ".T" * turned for k, turned in order), PRODUCT
        case ArrayOperation(operation, arguments, keywords):
            given = [*map(text, arguments), *(f"{name}={text(v)}" for name, v in keywords)]
            return f"{SPELLED.get(operation, operation)}({', '.join(given)})", ATOM
        case Tuple(items):
            return f"({', '.join(map(text, items))}{',' * (len(items) == 1)})", ATOM
        case List(items):
            return f"[{', '.join(map(text, items))}]", ATOM
        case IntegerRange(low, high):
            ends = [high] if low.is_constant and not low.constant else [low, high]
            return f"range({', '.join(map(affine, ends))})", ATOM
        case EinsumSpec():
            return f'"{node}"', ATOM
        case Text(quoted):
            return f'"{quoted}"', ATOM
        case Lambda(parameters, body):
            return f"lambda{' ' if parameters else ''}{', '.join(parameters)}: {text(body)}", OPEN
        case Each(function, of):
            return f"[{function.name}(*cut) for cut in {text(of)}]", ATOM
        case Attribute(of, name):
            return f"{within(of, ATOM)}.{name}", ATOM
        case PythonCall(function, arguments):
            return f"{within(function, ATOM)}({', '.join(map(text, arguments))})", ATOM
        case Conditional(test, then, otherwise):
            return f"{within(then, LOOSE)} if {within(test, LOOSE)} else {within(otherwise, LOOSE)}", OPEN
        case Everything():
            return "...", ATOM
    raise AssertionError(f"no such expression: {node}")


@cached
def _matrix_product(spec: EinsumSpec) -> tuple[tuple[int, bool], tuple[int, bool]] | None:
    """The two factors of an einsum in the order in which it is their matrix product, and which are transposed.

    Either may be a vector; then none is transposed, which XLA would copy. None if it is anything else. JAX traces a
    product of matrices in a fraction of an einsum's time.
    """
    summed = {c for c in spec.terms[0] if c in spec.terms[1] and c not in spec.result}
    if len(summed) != 1 or any(len(set(term)) < len(term) or len(term) > 2 for term in spec.terms):
        return None
    (s,) = summed
    found = []
    for order in ((0, 1), (1, 0)):
        left, right = (spec.terms[k] for k in order)
        rows, columns = left.replace(s, ""), right.replace(s, "")
        if rows + columns == spec.result:
            found.append(((order[0], left != rows + s), (order[1], right != s + columns)))
    return min(found, key=lambda product: sum(turned for _, turned in product), default=None)


def within(node: Node, level: int) -> str:
    """An expression, in parentheses unless it binds as tightly as `level`."""
    code, own = _written(node)
    return code if own >= level else f"({code})"


def affine(a: Affine, spelled: Mapping[Atom, str] | None = None) -> str:
    """A static integer; `spelled` has the atoms that are not written as their names."""
    return render(a, lambda atom: spelled.get(atom) or atom.name, " * ") if spelled else _by_names(a)


@cached
def _by_names(a: Affine) -> str:
    return render(a, lambda atom: atom.name, " * ")


def _is_atom(a: Affine) -> bool:
    """Whether an affine expression is written as one name or literal."""
    return (not a.terms and a.constant >= 0) or (len(a.terms) == 1 and a.terms[0][1] == 1 and not a.constant)


def _number(node: Number) -> str:
    value = node.value
    if value.denominator == 1 and abs(value) < 2**24 and not node.real:
        return str(value.numerator)
    try:
        return repr(float(value))
    except OverflowError:
        raise LimitError("a constant of this program is too large for floating point") from None


@dataclass(frozen=True)
class _Template:
    """How tightly the source of a scalar function binds, which arguments need no parentheses, the names that it reads,
    and the function that it calls if it is one call of its arguments in order."""

    level: int
    bare: tuple[bool, ...]
    names: frozenset[str]
    called: str | None


@cached
def _template(f: ScalarFunction) -> _Template:
    own, tree = arguments_of(f), parsed(f)
    level = ATOM if isinstance(tree, ast.Call | ast.Name | ast.Attribute | ast.Subscript) else LOOSE
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Mult | ast.Div | ast.Pow):
        level = PRODUCT
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call)]
    separate = {id(argument) for call in calls for argument in call.args}
    names = [n for n in ast.walk(tree) if isinstance(n, ast.Name)]
    tight = {n.id for n in names if id(n) not in separate}
    plain = isinstance(tree, ast.Call) and [n.id if isinstance(n, ast.Name) else "" for n in tree.args] == own
    return _Template(
        level,
        tuple(name not in tight for name in own),
        frozenset(n.id for n in names).difference(own),
        ast.unparse(tree.func) if plain and isinstance(tree, ast.Call) and not tree.keywords else None,
    )


def modules_in(block: Block) -> set[str]:
    """The modules, and functions of the library, that the code of `block` uses."""
    found: set[str] = set()
    for node in block.nodes():
        match node:
            case Name(name) | Part(name):
                found.add(_root(name))
            case ArrayOperation(operation, _, _):
                found.add(_root(SPELLED.get(operation, operation)))
            case Elementwise(f, _):
                found |= _template(f).names
            case _:
                pass
    if any(isinstance(s, OnDevice) for s in block.walk()):
        found.add("pl")
    return found


def _root(name: str) -> str:
    return name.partition(".")[0]


# statements


def lines(block: Block, indent: int = 0, notes: bool = True) -> list[str]:
    """The lines of a block, indented; without comments that are still to be made unless `notes` are wanted."""
    found: list[str] = []
    stack: list[tuple[Statement | str | Block, int]] = [(block, indent - 1)]
    while stack:
        part, depth = stack.pop()
        if isinstance(part, Block):
            stack += [(inner, depth + 1) for inner in reversed(part.statements)]
            continue
        written = [part] if isinstance(part, str) else _lines(part, _WIDTH - 4 * depth, notes)
        for line in written:
            if line or (found and found[-1] and not found[-1].endswith(":")):  # one empty line, and not at first
                found.append(("    " * depth + line).rstrip())
        match part:
            case Define(_, _, body) | For(_, _, body) | OnDevice(_, body):
                stack.append((body, depth))
            case When(_, then, otherwise):
                stack += [(otherwise, depth), ("else:", depth)] if otherwise.statements else []
                stack.append((then, depth))
            case _:
                pass
    return found


def _lines(s: Statement, width: int, notes: bool) -> Sequence[str]:
    match s:
        case Assign(names, Tuple(items), True) if len(items) > 1:
            return [f"{', '.join(names)} = {', '.join(map(text, items))}"]
        case Assign(names, value, unpacked):
            alone = "," if unpacked and len(names) == 1 else ""
            return _assigned(f"{', '.join(names)}{alone} = ", value, width)
        case Store(target, value):
            return _assigned(f"{text(target)} = ", value, width)
        case Return(value):
            return _assigned("return ", value, width)
        case Do(value):
            return _assigned("", value, width)
        case Define(name, parameters, _):
            line = f"def {name}({', '.join(parameters)}):"
            return [line] if len(line) <= width else [f"def {name}(", *(f"    {x}," for x in parameters), "):"]
        case When(test, _, _):
            return [f"if {text(test)}:"]
        case For(name, count, _):
            return [f"for {name} in range({text(count)}):"]
        case OnDevice(test, _):
            return ["", f"@pl.when({text(test)})", "def _():"]
        case Note(made, about):
            if isinstance(made, str):
                return [f"# {' '.join(made.split())}"]
            return [f"# {' '.join(made(about).split())}"] if notes else []
        case Blank():
            return [""]
    raise AssertionError(f"no such statement: {s}")


def _assigned(head: str, value: Node, width: int) -> Sequence[str]:
    """`head` and a value, or if it is too long and a call or list, several lines: one for each part."""
    line = head + text(value)
    if len(line) <= width:
        return [line]
    match value:
        case ArrayOperation("einsum", (EinsumSpec() as spec, *_)) if _matrix_product(spec) is not None:
            return [line]
        case ArrayOperation(operation, arguments, keywords):
            given = [*map(text, arguments), *(f"{name}={text(v)}" for name, v in keywords)]
            return [f"{head}{SPELLED.get(operation, operation)}(", *(f"    {part}," for part in given), ")"]
        case PythonCall(function, arguments):
            return [f"{head}{within(function, ATOM)}(", *(f"    {text(v)}," for v in arguments), ")"]
        case List(items):
            return [f"{head}[", *(f"    {text(v)}," for v in items), "]"]
        case Tuple(items):
            return [f"{head}(", *(f"    {text(v)}," for v in items), ")"]
        case Elementwise(f, arguments) if (called := _template(f).called) is not None:
            return [f"{head}{called}(", *(f"    {text(v)}," for v in arguments), ")"]
        case _:
            return [line]
