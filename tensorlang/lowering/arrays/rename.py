"""Array programs under other names, so that the statements of one can stand in another."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from operator import is_
from typing import Any

from tensorlang.language.affine import Affine
from tensorlang.lowering.arrays.ir import (
    Assign,
    Block,
    Define,
    IntegerRange,
    Lambda,
    Name,
    Node,
    Note,
    Position,
    Return,
    Slice,
    Statement,
    StaticInteger,
    Tuple,
    Volume,
    When,
    named,
)


@dataclass(frozen=True)
class Inlined:
    """The `statements` of a function and what it returned, its `values`, in a block where its names are `names`."""

    statements: list[Statement]
    values: tuple[Node, ...]
    names: Mapping[str, str]


def inlined(f: Define, head: int, given: Mapping[str, str], fresh: Callable[[str], str]) -> Inlined:
    """The statements of `f` except the first `head`, for a block where those names that they read are `given`; what
    they bind gets `fresh` ones."""
    *statements, last = f.body.statements[head:]
    assert isinstance(last, Return)
    value = last.value
    end = statements[-1] if statements else None
    if isinstance(end, Assign) and isinstance(end.value, Tuple) and value == Name(end.names[0]):
        statements.pop()  # a name for results that are too long for one line
        value = end.value
    before: list[Statement] = []
    new = dict(given)
    for name in bound_in(statements):
        new[name] = fresh(name)
        if name in given:  # changed here
            before.append(Assign((new[name],), Name(given[name])))
    values = value.items if isinstance(value, Tuple) else (value,)
    made = [*before, *(renamed(s, new) for s in statements)]
    return Inlined(made, tuple(renamed_node(x, new) for x in values), new)


def bound_in(statements: Collection[Statement]) -> dict[str, None]:
    """The names bound in `statements`, those of functions and their parameters included."""
    block = Block(list(statements))
    found: dict[str, None] = {}
    for s in block.walk():
        if isinstance(s, Assign):
            found.update(dict.fromkeys(s.names))
        elif isinstance(s, Define):
            found.update(dict.fromkeys((s.name, *s.parameters)))
    for node in block.nodes():
        if isinstance(node, Lambda):
            found.update(dict.fromkeys(node.parameters))
    return found


def renamed(s: Statement, new: Mapping[str, str]) -> Statement:
    """`s` with these names replaced by `new` ones."""

    def block(b: Block) -> Block:
        return Block([renamed(inner, new) for inner in b.statements])

    match s:
        case Assign(names, value, unpacked):
            return Assign(tuple(new.get(x, x) for x in names), renamed_node(value, new), unpacked)
        case Define(name, parameters, body):
            return Define(new.get(name, name), tuple(new.get(x, x) for x in parameters), block(body))
        case When(test, then, otherwise):
            return When(renamed_node(test, new), block(then), block(otherwise))
        case Return(value):
            return Return(renamed_node(value, new))
        case Note(text, about) if about:
            return Note(text, new.get(about, about))
        case _:
            return s


def renamed_node(node: Node, new: Mapping[str, str]) -> Node:
    """`node` with these names replaced by `new` ones."""
    match node:
        case Name(name):
            return Name(new[name]) if name in new else node
        case StaticInteger(a):
            return StaticInteger(_affine(a, new))
        case Position(at, arrays):
            own = [atom for atom, _ in arrays]
            return Position(_affine(at, new, own), tuple((atom, renamed_node(x, new)) for atom, x in arrays))
        case Volume(factor, extents):
            return Volume(factor, tuple(_affine(a, new) for a in extents))
        case Slice(start, stop, step):
            return Slice(start and _affine(start, new), stop and _affine(stop, new), step)
        case IntegerRange(start, stop):
            return IntegerRange(_affine(start, new), _affine(stop, new))
        case Lambda(parameters, body):
            return Lambda(tuple(new.get(x, x) for x in parameters), renamed_node(body, new))
        case _:
            parts = node.parts()
            made = [_part(x, new) for x in parts]
            return node if all(map(is_, made, parts)) else type(node)(*made)


def _part(x: Any, new: Mapping[str, str]) -> Any:
    if isinstance(x, Node):
        return renamed_node(x, new)
    if type(x) is not tuple:
        return x
    made = [_part(y, new) for y in x]
    return x if all(map(is_, made, x)) else tuple(made)


def _affine(a: Affine, new: Mapping[str, str], but: Collection[Any] = ()) -> Affine:
    if not any([atom.name in new and atom not in but for atom, _ in a.terms]):
        return a
    terms = ((named(new[x.name]) if x not in but and x.name in new else x, k) for x, k in a.terms)
    return Affine(tuple(terms), a.constant)
