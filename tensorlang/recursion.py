"""Recursion without Python's stack.

A pass over expressions that depends on where in them it is, is an ordinary recursive function, except that it is a
generator: ``child = yield from call(visit(e.body))`` instead of ``child = visit(e.body)``. `run` keeps the calls on a
list, so a program nested a hundred thousand deep is only slow, never fatal. A pass that only builds an expression anew
from its parts uses `language.rebuilt.rewrite`.
"""

from collections.abc import Generator
from typing import Any, TypeVar

from tensorlang.budget import spend

T = TypeVar("T")
_PORTION = 1024
Deep = Generator[Any, Any, T]
"""The type of a recursive function's result: a generator that yields recursive calls and returns a `T`."""


def call(step: Deep[T]) -> Deep[T]:
    """The result of the recursive call `step`, for a recursive function that awaits it with `yield from`."""
    result: T = yield step
    return result


def run(step: Deep[T]) -> T:
    """The result of the recursive call `step`."""
    stack: list[Deep[Any]] = [step]
    value: Any = None
    calls = 1
    try:
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
    finally:
        while stack:  # from the innermost on: each holds the next, and Python would free them by recursion
            stack.pop().close()
    spend(calls, "a recursion")
    result: T = value
    return result
