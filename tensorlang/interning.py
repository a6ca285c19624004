"""Interned values: equal fields give the same object, so equality and hashing cost one pointer comparison.

Sharing is therefore never lost: a tree in which `e` occurs twice is a graph with one `e`.
"""

from typing import Any
from weakref import WeakValueDictionary


class Interned(type):
    """The metaclass of frozen dataclasses whose instances are interned.

    A field's type is a part of the key, else 1, 1.0 and True would collide.
    """

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> None:
        super().__init__(name, bases, namespace)
        cls._instances: WeakValueDictionary[Any, Any] = WeakValueDictionary()

    def __call__(cls, *args: Any) -> Any:
        """The instance with these fields."""
        key = (args, tuple(map(type, args)))
        found = cls._instances.get(key)
        if found is None:
            found = cls._instances[key] = super().__call__(*args)
        return found
