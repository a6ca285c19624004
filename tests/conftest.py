"""Options of the test run."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tensorlang.memory import clear_caches

settings.register_profile(
    "default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.load_profile("default")

# the tests go by the default cost table, not by what was measured on this machine
os.environ["TENSORLANG_COSTS"] = str(Path(__file__).parent / "no-costs.json")
# and they make everything themselves: nothing is read from the user's cache, or written to it
os.environ["TENSORLANG_CACHE"] = "off"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--programs", type=int, default=2000, help="how many random programs the bulk tests run")
    parser.addoption("--update-golden", action="store_true", help="write the golden transcripts anew")
    parser.addoption("--update-notebooks", action="store_true", help="run the notebooks and write them anew")


@pytest.fixture(scope="session")
def program_count(request: pytest.FixtureRequest) -> int:
    """How many random programs a bulk test runs."""
    return int(request.config.getoption("--programs"))


@pytest.fixture
def monkeypatch() -> Iterator[pytest.MonkeyPatch]:
    """pytest's own; what is remembered from before a test breaks something is forgotten, and what the broken gave."""
    clear_caches()
    with pytest.MonkeyPatch.context() as patch:
        yield patch
    clear_caches()


_finished = itertools.count(1)


def pytest_runtest_teardown() -> None:
    """Now and then forget what JAX has compiled: a run compiles some thousands of programs, and would keep them all."""
    jax = sys.modules.get("jax")
    if next(_finished) % 50 == 0 and jax is not None:
        jax.clear_caches()
