"""Which tests are quick, and which tests one run takes."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

from tests.support.sampling import COMPILING, in_turns, thin_out


def item(test: str, case: int | None = None, slow: bool = True) -> Any:
    """A test of a file, or a case of one."""
    marker = SimpleNamespace(get_closest_marker=lambda name: slow if slow and name == "slow" else None)
    if case is None:
        return SimpleNamespace(nodeid=test, **vars(marker))
    return SimpleNamespace(nodeid=f"{test}[{case}]", callspec=case, **vars(marker))


def test_each_test_is_run_in_one_turn() -> None:
    for cases in (1, 2, 7):
        quick = [item("file::short", slow=False), *(item("file::quick", k, slow=False) for k in range(cases))]
        slow = [item(test, k) for k in range(cases) for test in ("file::first", "file::second")]
        slow += [item(f"file::alone {k}") for k in range(cases)]
        taken = [in_turns([*quick, *slow], 3, turn) for turn in range(5, 8)]
        times = Counter(one.nodeid for run in taken for one in run)
        assert times == dict.fromkeys((one.nodeid for one in (*quick, *slow)), 1)
        sizes = [len(run) for run in taken]
        assert max(sizes) - min(sizes) <= 5


def test_one_in_three_quick_cases_stays_quick_where_each_compiles() -> None:
    made: dict[str, list[Any]] = {}
    for folder in (COMPILING[0], "surface"):
        for name in ("first", "second"):
            test = f"tests/{folder}/test_of_it.py::test_{name}"
            made[test] = [SimpleNamespace(nodeid=f"{test}[{k}]", marks=[]) for k in range(7)]
        test = f"tests/{folder}/test_of_it.py::test_without_cases"
        made[test] = [SimpleNamespace(nodeid=test, marks=[])]
    items: list[Any] = [one for each in made.values() for one in each]
    for one in items:
        one.add_marker = one.marks.append
        one.get_closest_marker = lambda name, one=one: next((m for m in one.marks if m.name == name), None)
    thin_out(items, 3)
    for test, each in made.items():
        quick = [k for k, one in enumerate(each) if not one.marks]
        thinned = COMPILING[0] in test and len(each) > 1
        assert quick == ([0, 3, 6] if thinned else list(range(len(each))))
