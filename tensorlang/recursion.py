"""Recursion without Python's stack.

Every pass over expressions is written as an ordinary recursive function, except that it is a generator:
``child = yield visit(e.body)`` instead of ``child = visit(e.body)``. `run` keeps the calls on a list, so a
program nested a hundred thousand deep is only slow, never fatal.
"""

from collections.abc import Generator
from typing import Any, TypeVar

from tensorlang.budget import spend

T = TypeVar("T")
_PORTION = 1024
Deep = Generator[Any, Any, T]
"""The type of a recursive function's result: a generator that yields recursive calls and returns a `T`."""


def run(call: Deep[T]) -> T:
    """The result of the recursive call `call`."""
    stack: list[Deep[Any]] = [call]
    value: Any = None
    calls = 1
    while stack:
        try:
            callee = stack[-1].send(value)
        except StopIteration as stop:
            stack.pop()
            value = stop.value
        else:
            stack.append(callee)
            value = None
            calls += 1
            if calls == _PORTION:
                spend(calls, "a recursion")
                calls = 0
    spend(calls, "a recursion")
    result: T = value
    return result
