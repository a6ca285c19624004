"""Interned values: equal fields give the same object, so equality and hashing cost one pointer comparison.

Sharing is therefore never lost: a tree in which `e` occurs twice is a graph with one `e`.
"""

import gc
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar
from weakref import KeyedRef

P = ParamSpec("P")
T = TypeVar("T")


class Interned(type):
    """The metaclass of frozen dataclasses whose instances are interned.

    A field's type is a part of the key, else 1, 1.0 and True would collide.
    """

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> None:
        super().__init__(name, bases, namespace)
        cls._instances: dict[Any, KeyedRef[Any, Any]] = {}

    def __call__(cls, *args: Any) -> Any:
        """The instance with these fields."""
        key = (args, tuple(map(type, args)))
        known = cls._instances.get(key)
        if known is not None and (found := known()) is not None:
            return found
        made = super().__call__(*args)
        cls._instances[key] = KeyedRef(made, cls._forget, key)
        return made

    def _forget(cls, gone: KeyedRef[Any, Any]) -> None:
        if cls._instances.get(gone.key) is gone:
            del cls._instances[gone.key]


def uncollected(f: Callable[P, T]) -> Callable[P, T]:
    """`f`, while which Python's collector of cycles waits.

    Interned values are in no cycles and go with the last reference to them. To look for some again and again while
    there are more and more values takes a third of the time of a long program.
    """

    @wraps(f)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        if not gc.isenabled():
            return f(*args, **kwargs)
        gc.disable()
        try:
            return f(*args, **kwargs)
        finally:
            gc.enable()

    return run
