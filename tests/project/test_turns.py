"""Which slow tests one run takes."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

from tests.support.sampling import in_turns


def item(test: str, case: int | None = None, slow: bool = True) -> Any:
    """A test of a file, or a case of one."""
    marker = SimpleNamespace(get_closest_marker=lambda name: slow if slow and name == "slow" else None)
    if case is None:
        return SimpleNamespace(nodeid=test, **vars(marker))
    return SimpleNamespace(nodeid=f"{test}[{case}]", callspec=case, **vars(marker))


def test_each_slow_test_is_run_in_one_turn_and_all_else_in_each() -> None:
    for cases in (1, 2, 7):
        each = [item("file::short", slow=False), *(item("file::quick", k, slow=False) for k in range(3))]
        turns = [item(test, k) for k in range(cases) for test in ("file::first", "file::second")]
        turns += [item(f"file::alone {k}") for k in range(cases)]
        taken = [in_turns([*each, *turns], 3, turn) for turn in range(5, 8)]
        times = Counter(one.nodeid for run in taken for one in run)
        assert all(times[one.nodeid] == 3 for one in each)
        assert all(times[one.nodeid] == 1 for one in turns)
        sizes = [len(run) for run in taken]
        assert max(sizes) - min(sizes) <= 3
