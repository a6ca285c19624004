"""What was made of an object, kept while the object lives."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass
class Kept(Generic[T]):
    """What was made of objects, by their identity, as long as they are alive. Threads may share it."""

    _found: dict[int, tuple[weakref.ref[Any], T]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def of(self, value: Any) -> T | None:
        """What was made of the object `value`; None if nothing was."""
        with self._lock:
            found = self._found.get(id(value))
        return found[1] if found is not None and found[0]() is value else None

    def keep(self, value: Any, made: T) -> T:
        """Keep `made` with the object `value`, in place of what was before. Gives `made`."""
        key = id(value)
        with self._lock:
            self._found[key] = weakref.ref(value, lambda _: self._found.pop(key, None)), made
        return made
