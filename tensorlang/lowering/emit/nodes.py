"""What kernels and programs for several devices need beyond array programs: references to memory, methods, loops.

e          ::=  e.name  |  e(e, .., name=e)          attributes; calls other than operations
             |  e if e else e                        where the test is known when the code is traced
             |  ...                                  as a subscript: all axes
statement  ::=  e                                    for its effect
             |  e[part, ..] := e                     into memory
             |  for x in range(e): block             unrolled when the code is traced
             |  on device when e: block              `pl.when`
"""

from __future__ import annotations

from dataclasses import dataclass

from tensorlang.lowering.arrays.ir import Block, Node, Statement, Subscript


@dataclass(frozen=True)
class Attribute(Node):
    """of.name"""

    of: Node
    name: str


@dataclass(frozen=True)
class PythonCall(Node):
    """function(arguments)."""

    function: Node
    arguments: tuple[Node, ...]


@dataclass(frozen=True)
class Conditional(Node):
    """then if test else otherwise."""

    test: Node
    then: Node
    otherwise: Node


@dataclass(frozen=True)
class Everything(Node):
    """All axes of a reference."""


@dataclass(frozen=True)
class Do(Statement):
    """An expression, evaluated for its effect."""

    value: Node

    def expressions(self) -> tuple[Node, ...]:
        """The expression."""
        return (self.value,)


@dataclass(frozen=True)
class Store(Statement):
    """target := value, where the target is a part of a reference."""

    target: Subscript
    value: Node

    def expressions(self) -> tuple[Node, ...]:
        """Both sides."""
        return self.target, self.value


@dataclass(frozen=True, eq=False)
class For(Statement):
    """The body for each value of `name` from 0 on and below `count`."""

    name: str
    count: Node
    body: Block

    def expressions(self) -> tuple[Node, ...]:
        """The count."""
        return (self.count,)

    def blocks(self) -> tuple[Block, ...]:
        """The body."""
        return (self.body,)


@dataclass(frozen=True, eq=False)
class OnDevice(Statement):
    """The body, if the device finds that the test holds."""

    test: Node
    body: Block

    def expressions(self) -> tuple[Node, ...]:
        """The test."""
        return (self.test,)

    def blocks(self) -> tuple[Block, ...]:
        """The body."""
        return (self.body,)
