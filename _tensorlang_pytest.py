"""The pytest plugin: `pytestmark = pytest.mark.cheap_adjoints(bound=4)` certifies every program of a module, and
`pytest.mark.cheap_gradients(f="n, n n")` counts JAX's gradient of its function f.

It is a module of its own so that pytest does not import tensorlang, and JAX, where nothing is marked.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest

MARKER = "cheap_adjoints(bound=4, wrt=None): certify that every tensorlang function of the module has a cheap adjoint"

GRADIENTS = (
    'cheap_gradients(f="n, n n", ..): assert that JAX\'s gradients of the functions f, .. of the module, '
    "at arguments of these shapes, do no more work than they need"
)


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", MARKER)
    config.addinivalue_line("markers", GRADIENTS)


def pytest_pycollect_makeitem(collector: pytest.Module | pytest.Class, name: str, obj: object) -> pytest.Item | None:
    """An item for a program, or a JAX function, in a marked module."""
    if isinstance(collector, pytest.Module) and callable(obj):
        mark = collector.get_closest_marker("cheap_gradients")
        if mark is not None and name in mark.kwargs:
            shapes = [shape.strip() for shape in mark.kwargs[name].split(",")]
            return CheapGradient.from_parent(collector, name=f"cheap_gradient[{name}]", fun=obj, shapes=shapes)
    package = sys.modules.get("tensorlang")
    if package is None or not isinstance(obj, package.Function) or not isinstance(collector, pytest.Module):
        return None
    mark = collector.get_closest_marker("cheap_adjoints")
    if mark is None:
        return None
    return CheapAdjoint.from_parent(collector, name=f"cheap_adjoint[{name}]", program=obj, mark=mark)


class CheapAdjoint(pytest.Item):
    """The test that the adjoint of one program is cheap."""

    def __init__(self, *, program: Any, mark: pytest.Mark, **rest: Any) -> None:
        super().__init__(**rest)
        self.program = program
        self.given = mark

    def runtest(self) -> None:
        """Certify it."""
        from tensorlang.testing import assert_cheap_adjoint

        assert_cheap_adjoint(self.program, *self.given.args, **self.given.kwargs)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """What the certificate says, without a traceback through the package."""
        return str(excinfo.value) if excinfo.errisinstance(AssertionError) else super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Any, int | None, str]:
        """The module, and which program of it."""
        return self.path, None, self.name


class CheapGradient(pytest.Item):
    """The test that JAX's gradient of one function does no more work than it needs."""

    def __init__(self, *, fun: Any, shapes: list[str], **rest: Any) -> None:
        super().__init__(**rest)
        self.fun = fun
        self.shapes = shapes

    def runtest(self) -> None:
        """Count it."""
        from tensorlang.testing import assert_cheap_gradient

        assert_cheap_gradient(self.fun, *self.shapes)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """What the linter says, without a traceback through the package."""
        return str(excinfo.value) if excinfo.errisinstance(AssertionError) else super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Any, int | None, str]:
        """The module, and which function of it."""
        return self.path, None, self.name
