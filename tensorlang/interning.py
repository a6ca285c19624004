"""Interned values: equal fields give the same object, so equality and hashing cost one pointer comparison.

Sharing is therefore never lost: a tree in which `e` occurs twice is a graph with one `e`. There is one object however
many threads make it, and it lives as long as somebody holds it.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, fields
from functools import wraps
from threading import RLock
from typing import Any, Generic, ParamSpec, TypeVar, dataclass_transform
from weakref import ref

from tensorlang.budget import spend

P = ParamSpec("P")
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

_lock = RLock()
"""Held while an object is entered or removed. It is reentrant, since objects may be freed while a thread holds it."""

_NUMBERS = frozenset({"int", "float", "bool", "Fraction", "object"})
"""The types of fields whose values may be equal without being the same, such as 1, 1.0 and True."""


class _Entry(ref[T]):
    """A weak reference that knows its key, so that all of them can share one callback that removes them."""

    __slots__ = ("key",)
    key: Any


class Alive(Generic[K, T]):
    """Objects by their keys, as long as somebody else holds them."""

    def __init__(self) -> None:
        self.refs: dict[K, _Entry[T]] = {}
        self._lock = _lock  # an attribute, so that it is still found by objects that are freed when the process ends
        self._gone: Callable[[Any], None] = self._forget

    def get(self, key: K) -> T | None:
        """The object of this key. No lock is needed: the lookup is atomic, and a reference is either dead or alive."""
        known = self.refs.get(key)
        return None if known is None else known()

    def enter(self, key: K, made: T) -> T:
        """The object to use for this key from now on: one already there, else `made`."""
        own = _Entry(made, self._gone)
        own.key = key
        with self._lock:
            known = self.refs.setdefault(key, own)
            if known is not own:
                found = known()
                if found is not None:
                    return found
                self.refs[key] = own
            return made

    def _forget(self, gone: _Entry[T]) -> None:
        with self._lock:
            if self.refs.get(gone.key) is gone:
                del self.refs[gone.key]


@dataclass_transform(eq_default=False, frozen_default=True, field_specifiers=(field,))
def interned(cls: type[T]) -> type[T]:
    """`cls` as a frozen dataclass whose instances are interned.

    The type of a field that may be a number is a part of the key, else 1, 1.0 and True would collide.
    """
    plain = cls.__repr__ is object.__repr__
    made = dataclass(frozen=True, eq=False, slots=True, weakref_slot=True, repr=plain)(cls)
    numbers, alive, what = _numbers(made), Alive[Any, T](), f"values such as {cls.__name__}"
    known = alive.refs.get
    fill = made.__init__
    del made.__init__  # Python would call it on objects that exist already

    def new(kind: type[T], *args: Any) -> T:
        key = (*args, *[type(args[k]) for k in numbers]) if numbers else args
        entry = known(key)
        if entry is not None and (found := entry()) is not None:
            return found
        spend(1, what)
        one = object.__new__(kind)
        fill(one, *args)
        return alive.enter(key, one)

    made.__new__ = staticmethod(new)  # type: ignore[assignment]
    return made


def _numbers(cls: Any) -> tuple[int, ...]:
    """The positions of a dataclass's fields whose values may be numbers, recognised by the names of their types."""
    given = enumerate(f.type for f in fields(cls) if f.init)
    return tuple(k for k, t in given if not isinstance(t, str) or not _NUMBERS.isdisjoint(t.split(" | ")))


def shared(make: Callable[P, T]) -> Callable[P, T]:
    """`make`, returning one object for equal arguments, in all threads, as long as somebody holds that object."""
    alive: Alive[Any, T] = Alive()

    @wraps(make)
    def one(*args: P.args, **kwargs: P.kwargs) -> T:
        found = alive.get(args)
        return alive.enter(args, make(*args, **kwargs)) if found is None else found

    return one
