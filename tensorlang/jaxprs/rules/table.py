"""The table of rules, filled by the modules of the families."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

RULES: dict[str, Callable[..., Any]] = {}


def rule(*primitives: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the rule of `primitives`."""

    def register(f: Callable[..., Any]) -> Callable[..., Any]:
        for name in primitives:
            RULES[name] = f
        return f

    return register
