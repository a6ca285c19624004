"""Interned values: equal fields give the same object, so equality and hashing cost one pointer comparison.

Sharing is therefore never lost: a tree in which `e` occurs twice is a graph with one `e`. Whichever threads make it,
there is one object, and it lasts as long as somebody holds it.
"""

from collections.abc import Callable, Hashable
from functools import wraps
from threading import RLock
from typing import Any, Generic, ParamSpec, TypeVar
from weakref import KeyedRef

from tensorlang.budget import spend

P = ParamSpec("P")
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

_lock = RLock()
"""Held while an object is entered or leaves. One thread may need it twice, for objects go at any moment."""


class Alive(Generic[K, T]):
    """Objects by their keys, as long as somebody else holds them."""

    def __init__(self) -> None:
        self.refs: dict[K, KeyedRef[K, T]] = {}
        self._lock = _lock  # which objects that go when the process ends find here

    def get(self, key: K) -> T | None:
        """The object of this key. No lock is needed: looking a key up is one step, and a reference is dead or alive."""
        known = self.refs.get(key)
        return None if known is None else known()

    def enter(self, key: K, made: T) -> T:
        """The object of this key from now on: `made`, or one that is there already."""
        with self._lock:
            found = self.get(key)
            if found is None:
                self.refs[key] = KeyedRef(made, self._forget, key)
                found = made
            return found

    def _forget(self, gone: KeyedRef[K, T]) -> None:
        with self._lock:
            if self.refs.get(gone.key) is gone:
                del self.refs[gone.key]


class Interned(type):
    """The metaclass of frozen dataclasses whose instances are interned.

    A field's type is a part of the key, else 1, 1.0 and True would collide.
    """

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> None:
        super().__init__(name, bases, namespace)
        cls._alive: Alive[Any, Any] = Alive()

    def __call__(cls, *args: Any) -> Any:
        """The instance with these fields."""
        key = args + tuple(map(type, args))
        known = cls._alive.refs.get(key)
        if known is not None and (found := known()) is not None:
            return found
        spend(1, f"values such as {cls.__name__}")
        return cls._alive.enter(key, super().__call__(*args))


def shared(make: Callable[P, T]) -> Callable[P, T]:
    """`make`, which gives one object for the same arguments, in whatever thread, as long as somebody holds it."""
    alive: Alive[Any, T] = Alive()

    @wraps(make)
    def one(*args: P.args, **kwargs: P.kwargs) -> T:
        found = alive.get(args)
        return alive.enter(args, make(*args, **kwargs)) if found is None else found

    return one
