"""Which of many alike cases the quick tests take."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def one_in(share: int, cases: Iterable[Any]) -> list[Any]:
    """The cases, of which one in `share`, the first among them, is quick, and the others are slow."""
    return [case if k % share == 0 else pytest.param(case, marks=pytest.mark.slow) for k, case in enumerate(cases)]
