"""Scalar functions whose code computes several at once: one call for all that are needed at the same arguments.

y = f(a, x) ; d = f_by_a(a, x, y)   ->   f_1 = _f_with_derivatives(a, x) ; y = f_1[0] ; d = f_1[1]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from tensorlang.language.scalar_code import Shared
from tensorlang.lowering.arrays.ir import (
    ArrayOperation,
    Assign,
    Block,
    Define,
    Elementwise,
    Item,
    Name,
    Node,
    Return,
    Statement,
    When,
)
from tensorlang.lowering.emit.nodes import OnDevice
from tensorlang.lowering.emit.scalars import definition

Key = tuple[Shared, tuple[Node, ...]]


class _Sharing:
    def __init__(self, block: Block, found: Sequence[Elementwise]) -> None:
        self.joint = {_key(n) for n in found if n.function.shared is not None and n.function.shared[1] > 0}
        self.called: dict[str, Define] = {}
        self.taken = {name for s in block.walk() if isinstance(s, Assign) for name in s.names}

    def block(self, block: Block, known: dict[Key, str]) -> Block:
        made: list[Any] = []
        for s in block.statements:
            match s:
                case Assign(names, value, unpacked):
                    value = self.node(value, known, made)
                    made.append(Assign(names, value, unpacked))
                    for key in [k for k in known if not set(names).isdisjoint(_names(k))]:
                        del known[key]
                case Return(value):
                    value = self.node(value, known, made)
                    made.append(Return(value))
                case Define(name, parameters, body):
                    made.append(Define(name, parameters, self.block(body, {})))
                case When(test, then, otherwise):
                    then, otherwise = self.block(then, dict(known)), self.block(otherwise, dict(known))
                    made.append(When(test, then, otherwise))
                case _:
                    made.append(self._other(s, known, made))
        return Block(made)

    def _other(self, s: Statement, known: dict[Key, str], made: list[Any]) -> Statement:
        """A statement of kernels: known calls stay known in a block that runs at once, and not in a loop."""
        changed: dict[str, Any] = {}
        for f in fields(s):  # type: ignore[arg-type]
            before = getattr(s, f.name)
            if isinstance(before, Block):
                changed[f.name] = self.block(before, dict(known) if isinstance(s, OnDevice) else {})
            else:
                changed[f.name] = self._part(before, known, made)
        return replace(s, **changed) if changed else s  # type: ignore[type-var]

    def node(self, node: Node, known: dict[Key, str], made: list[Any]) -> Node:
        if isinstance(node, Elementwise) and node.function.shared is not None:
            shared, place = node.function.shared
            arguments = tuple(self.node(x, known, made) for x in node.arguments[: shared.arity])
            key = _key(node)
            if key not in known:
                joint = key in self.joint
                name = f"_{shared.name}{'_with_derivatives' * joint}"
                self.called[name] = definition(shared.joint if joint else shared.value, name, shared.on_gpus)
                known[key] = self._new(shared.name)
                made.append(Assign((known[key],), ArrayOperation(name, arguments)))
            return Item(Name(known[key]), place)
        changed = {}
        for f in fields(node):  # type: ignore[arg-type]
            before = getattr(node, f.name)
            after = self._part(before, known, made)
            if after is not before:
                changed[f.name] = after
        return replace(node, **changed) if changed else node  # type: ignore[type-var]

    def _part(self, value: Any, known: dict[Key, str], made: list[Any]) -> Any:
        if isinstance(value, Node):
            return self.node(value, known, made)
        if isinstance(value, tuple):
            parts = tuple(self._part(x, known, made) for x in value)
            return value if all(a is b for a, b in zip(parts, value, strict=True)) else parts
        return value

    def _new(self, like: str) -> str:
        k = 1
        while f"{like}_{k}" in self.taken:
            k += 1
        self.taken.add(f"{like}_{k}")
        return f"{like}_{k}"


def _key(node: Elementwise) -> Key:
    assert node.function.shared is not None
    shared, _ = node.function.shared
    return shared, node.arguments[: shared.arity]


def _names(key: Key) -> set[str]:
    return {x.name for argument in key[1] for x in argument.walk() if isinstance(x, Name)}


def share(whole: Define) -> tuple[Define, dict[str, Define]]:
    """`whole` with such calls, and the functions that it calls by name."""
    block = Block([whole])
    found = [n for n in block.nodes() if isinstance(n, Elementwise) and n.function.shared is not None]
    if not found:
        return whole, {}
    sharing = _Sharing(block, found)
    return Define(whole.name, whole.parameters, sharing.block(whole.body, {})), sharing.called
