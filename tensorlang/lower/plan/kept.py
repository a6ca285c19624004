"""What recurrences keep of their steps for others that go back over them, and how many numbers that is."""

from __future__ import annotations

from tensorlang.errors import ArgumentError

STORES = ("needed", "states", "sqrt", "log")


def require_store(store: str) -> None:
    """Raise `ArgumentError` if there is no such way to keep what steps give."""
    if store not in STORES:
        hint = "'needed' keeps all that is read later, the others less, and compute it again"
        raise ArgumentError(f"store is one of {', '.join(STORES)}, found {store!r}", hint=hint)
