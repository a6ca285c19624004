"""Whether an array program is well formed, and if not, why."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection

from tensorlang.lowering.arrays.ir import (
    ArrayOperation,
    Assign,
    Block,
    Define,
    Each,
    EinsumSpec,
    Lambda,
    Name,
    Node,
    Number,
    Part,
    Return,
    StaticInteger,
    Transpose,
    When,
    names_in,
)
from tensorlang.lowering.arrays.meaning import MEANING

Scope = ChainMap[str, None]
"""The names that are assigned, those of the innermost block first."""

_KNOWN = ("True", "False", "None", "float", "bool", "dtype", "jnp.int32", "jnp.inf", "jnp.nan")


def why_not(program: Define, library: Collection[str]) -> str | None:
    """Why `program` is no array program; None if it is one.

    Each name must be assigned before it is read, in the same block or one around it; operations must be known, and
    the parts of the `library` that are given to others; an einsum must have as many terms as arrays; and a function
    must return something at its end, and nowhere else.
    """
    taken = (name.partition("=")[0] for name in program.parameters if name != "*")
    scope: Scope = ChainMap(dict.fromkeys(taken), dict.fromkeys(_KNOWN))
    if len(set(program.parameters)) < len(program.parameters):
        return f"{program.name}: two parameters have one name"
    return _block(program.body, scope, library, program.name)


def _block(block: Block, scope: Scope, library: Collection[str], where: str, returns: bool = True) -> str | None:
    """Why not; adds to `scope` what the block assigns."""
    for k, s in enumerate(block.statements):
        found: str | None = None
        match s:
            case Assign(names, value, _):
                found = _node(value, scope, library, where)
                scope.update(dict.fromkeys(names))
            case Define(name, parameters, body):
                found = _block(body, scope.new_child(dict.fromkeys(parameters)), library, name)
                scope[name] = None
            case When(test, then, otherwise):
                ways = [scope.new_child(), scope.new_child()]
                found = _node(test, scope, library, where)
                found = found or _block(then, ways[0], library, where, False)
                found = found or _block(otherwise, ways[1], library, where, False)
                scope.update(dict.fromkeys(ways[0].maps[0].keys() & ways[1].maps[0].keys()))
            case Return(value):
                found = _node(value, scope, library, where)
                if not found and (k < len(block.statements) - 1 or not returns):
                    found = f"{where}: it returns before its end"
            case _:
                pass
        if found:
            return found
    if returns and not (block.statements and isinstance(block.statements[-1], Return)):
        return f"{where}: it returns nothing"
    return None


def _node(node: Node, scope: Scope, library: Collection[str], where: str) -> str | None:
    stack: list[tuple[object, Scope]] = [(node, scope)]
    while stack:
        part, known = stack.pop()
        if type(part) is tuple:
            stack += [(inner, known) for inner in part]
        if not isinstance(part, Node):
            continue
        for name in names_in(part):
            if not _knows(known, name):
                return f"{where}: {name} is read before it is assigned"
        match part:
            case Name() | StaticInteger() | Number():
                continue
            case ArrayOperation(operation, arguments, _):
                if operation not in MEANING and operation not in library:
                    return f"{where}: no operation is called {operation}"
                match arguments:
                    case (EinsumSpec(terms), *arrays) if len(terms) != len(arrays):
                        return f"{where}: an einsum of {len(terms)} terms has {len(arrays)} arrays"
            case Part(name):
                if name not in library:
                    return f"{where}: the library has no part {name}"
            case Transpose(_, places):
                if sorted(places) != list(range(len(places))):
                    return f"{where}: the axes are transposed as {places}"
            case Each(Name(name), _):
                if not _knows(known, name):
                    return f"{where}: {name} is called before it is defined"
            case _:
                pass
        inner = known.new_child(dict.fromkeys(part.parameters)) if isinstance(part, Lambda) else known
        stack += [(value, inner) for value in part.parts()]
    return None


def _knows(scope: Scope, name: str) -> bool:
    """Whether `name` is in `scope`; `in` would look each name up twice."""
    return any([name in names for names in scope.maps])
