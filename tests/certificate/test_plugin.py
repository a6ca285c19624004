"""The pytest plugin: programs of marked modules are certified, each by a test of its own."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

MODULE = """
    import pytest
    import tensorlang as tl

    pytestmark = pytest.mark.cheap_adjoints({arguments})

    squares = tl.parse("squares(x: [n]R) = sum i:n. x[i]^2")
    product = tl.parse("product(A: [n][m]R, B: [m][k]R) = gen i:n, j:k. sum l:m. A[i, l] * B[l, j]")

    def test_something_else():
        pass
"""


def test_every_program_of_a_marked_module_is_certified(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(MODULE.format(arguments=""))
    result = pytester.runpytest_subprocess("-v", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["*::cheap_adjoint?squares? PASSED*", "*::cheap_adjoint?product? PASSED*"])


def test_a_failure_shows_costs_and_the_step_and_no_traceback(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(MODULE.format(arguments="bound=2"))
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*the adjoint of product costs * and the program *", "most of it, *6.28 product: *"])
    result.stdout.no_fnmatch_line("*certificate.py*")


def test_nothing_is_collected_without_the_marker(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(MODULE.replace("pytestmark = ", "mark = ").format(arguments=""))
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)
