"""Interned values: equal fields give the same object, so equality and hashing cost one pointer comparison.

Sharing is therefore never lost: a tree in which `e` occurs twice is a graph with one `e`. Whichever threads make it,
there is one object, and it lasts as long as somebody holds it.
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
"""Held while an object is entered or leaves. One thread may need it twice, for objects go at any moment."""

_NUMBERS = frozenset({"int", "float", "bool", "Fraction", "object"})
"""The types of fields whose values may be equal and yet not the same, as 1, 1.0 and True are."""


class _Entry(ref[T]):
    """A reference that knows under which key it is kept: all of them share one function that forgets them."""

    __slots__ = ("key",)
    key: Any


class Alive(Generic[K, T]):
    """Objects by their keys, as long as somebody else holds them."""

    def __init__(self) -> None:
        self.refs: dict[K, _Entry[T]] = {}
        self._lock = _lock  # which objects that go when the process ends find here
        self._gone: Callable[[Any], None] = self._forget

    def get(self, key: K) -> T | None:
        """The object of this key. No lock is needed: looking a key up is one step, and a reference is dead or alive."""
        known = self.refs.get(key)
        return None if known is None else known()

    def enter(self, key: K, made: T) -> T:
        """The object of this key from now on: `made`, or one that is there already."""
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
    del made.__init__  # which Python would call of what is there already

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
    """The places of a dataclass's fields whose values may be numbers; their types are known by their names."""
    given = enumerate(f.type for f in fields(cls) if f.init)
    return tuple(k for k, t in given if not isinstance(t, str) or not _NUMBERS.isdisjoint(t.split(" | ")))


def shared(make: Callable[P, T]) -> Callable[P, T]:
    """`make`, which gives one object for the same arguments, in whatever thread, as long as somebody holds it."""
    alive: Alive[Any, T] = Alive()

    @wraps(make)
    def one(*args: P.args, **kwargs: P.kwargs) -> T:
        found = alive.get(args)
        return alive.enter(args, make(*args, **kwargs)) if found is None else found

    return one
