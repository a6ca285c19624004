"""Options of the test run."""

from __future__ import annotations

import gc
import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tensorlang.language import routines
from tensorlang.memory import clear_caches
from tests.support import ROOT
from tests.support.sampling import in_turns, thin_out

settings.register_profile(
    "default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.load_profile("default")

# the tests go by the default cost table, not by what was measured on this machine
os.environ["TENSORLANG_COSTS"] = str(Path(__file__).parent / "no-costs.json")
# and they make everything themselves: nothing is read from the user's cache or written to it
os.environ["TENSORLANG_CACHE"] = "off"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--share", type=int, default=4, help="slow tests run one in so many of their random programs")
    parser.addoption("--cases", type=int, default=1, help="run one in so many of cases and tests that are alike")
    parser.addoption("--turn", type=int, help="whose turn it is; by default the next with each commit")
    parser.addoption("--skipped", action="store_true", help="run what the last run skipped, with what is installed now")
    parser.addoption("--update-golden", action="store_true", help="write the golden transcripts anew")
    parser.addoption("--update-notebooks", action="store_true", help="run the notebooks and write them anew")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Freeze the objects of the imports, so that garbage collection does not go through them again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, *gc.get_threshold()[1:])
        gc.enable()


_QUICK_CASES = 6
"""One in this many cases of a test that compiles is quick."""

_SKIPPED = "tensorlang/skipped"
_skipped: set[str] = set()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark as slow most cases of tests that compile; deselect the cases whose turn it is not, and with --skipped all
    that the last run did not skip."""
    thin_out(items, _QUICK_CASES)
    if (cases := config.getoption("--cases")) > 1:
        given = config.getoption("--turn")
        _choose(config, items, in_turns(items, cases, _commits() if given is None else given))
    if config.getoption("--skipped"):
        _choose(config, items, _skipped_before(config, items))


def _choose(config: pytest.Config, items: list[pytest.Item], chosen: list[pytest.Item]) -> None:
    kept = set(chosen)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = chosen


def _commits() -> int:
    """The number of commits up to this one, 0 if it is unknown."""
    try:
        counted = subprocess.run(["git", "rev-list", "--count", "HEAD"], cwd=ROOT, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return 0
    return int(counted.stdout)


def _skipped_before(config: pytest.Config, items: list[pytest.Item]) -> list[pytest.Item]:
    """The tests that the last run skipped, as whole files or single tests."""
    cache = getattr(config, "cache", None)
    before = cache.get(_SKIPPED, None) if cache else None
    if before is None:
        raise pytest.UsageError("no run of the tests before this one could skip any: run them without --skipped")
    return [item for item in items if not {item.nodeid, item.nodeid.partition("::")[0]}.isdisjoint(before)]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Record a skipped test."""
    if report.skipped and not hasattr(report, "wasxfail"):
        _skipped.add(report.nodeid)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Record a skipped file."""
    if report.skipped:
        _skipped.add(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Store what was skipped for the next run. Workers of a parallel run leave this to the first process."""
    config = session.config
    cache = getattr(config, "cache", None)  # there is none with -p no:cacheprovider
    if hasattr(config, "workerinput") or config.option.collectonly or cache is None:
        return
    cache.set(_SKIPPED, sorted(_skipped))
    if config.getoption("--skipped") and session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = pytest.ExitCode.OK


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    mark = metafunc.definition.get_closest_marker("seeds")
    if mark is not None:
        first, count = mark.args
        metafunc.parametrize("seed", range(first, first + count // metafunc.config.getoption("--share")))


@pytest.fixture(scope="session")
def share(request: pytest.FixtureRequest) -> int:
    """Slow tests run the first of their random programs, one in `share` of them; 1 runs all."""
    return int(request.config.getoption("--share"))


@pytest.fixture
def monkeypatch() -> Iterator[pytest.MonkeyPatch]:
    """pytest's own fixture, with caches cleared before a test breaks something, and after, when they hold broken
    results."""
    clear_caches()
    with pytest.MonkeyPatch.context() as patch:
        yield patch
    clear_caches()


@pytest.fixture(autouse=True)
def _names_of_routines() -> Iterator[None]:
    """Restore the names of routines that a test declares anew."""
    before = dict(routines._by_name)
    yield
    routines._by_name.update(before)


_finished = itertools.count(1)


def pytest_runtest_teardown() -> None:
    """Now and then clear JAX's caches: a run compiles some thousands of programs, and would keep them all."""
    jax = sys.modules.get("jax")
    if next(_finished) % 50 == 0 and jax is not None:
        jax.clear_caches()
