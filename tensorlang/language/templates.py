"""Sources of scalar functions, `jnp.log1p({0}) * {1}`, as Python's own parser reads them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from tensorlang.language.grammar import ScalarFunction
from tensorlang.memory import cached


@cached
def parsed(f: ScalarFunction) -> ast.expr:
    """The source of `f`; its arguments are the names a0, a1, .."""
    return ast.parse(f.source.format(*arguments(f)), mode="eval").body


def arguments(f: ScalarFunction) -> list[str]:
    """The names of the arguments in `parsed`."""
    return [f"a{k}" for k in range(f.arity)]


def named(f: ScalarFunction) -> list[str]:
    """The functions and constants in the source, with their modules: `jnp.log1p`."""
    found: dict[str, None] = {}
    stack: list[ast.AST] = [parsed(f)]
    while stack:
        node = stack.pop()
        name = _dotted(node)
        if name is not None:
            found[name] = None
        else:
            stack += reversed(list(ast.iter_child_nodes(node)))
    return [name for name in found if name not in arguments(f)]


def operators(f: ScalarFunction) -> Iterator[type[ast.operator]]:
    """The kinds of its binary operators."""
    return (type(node.op) for node in ast.walk(parsed(f)) if isinstance(node, ast.BinOp))


def renamed(f: ScalarFunction, names: Mapping[str, str]) -> str:
    """The source with some functions replaced."""
    if names.keys().isdisjoint(named(f)):
        return f.source
    places = {name: f"{{{k}}}" for k, name in enumerate(arguments(f))}
    return ast.unparse(_Renaming({**names, **places}).visit(ast.parse(f.source.format(*places), mode="eval")))


class _Renaming(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def visit(self, node: ast.AST) -> ast.AST:
        """`node`, or the name that takes its place."""
        name = _dotted(node)
        return super().visit(node) if name is None or name not in self.names else ast.Name(self.names[name])


def _dotted(node: ast.AST) -> str | None:
    """`jax.nn.relu`, if `node` is a name or an attribute of one."""
    match node:
        case ast.Name(name):
            return name
        case ast.Attribute(of, name):
            module = _dotted(of)
            return None if module is None else f"{module}.{name}"
    return None
