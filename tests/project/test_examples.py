"""Public names, the members of public classes and of what public functions return have examples, which print what
they say."""

from __future__ import annotations

import doctest
import inspect
import re
import sys
from collections.abc import Iterator
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.certificate.obligations import Obligation
from tensorlang.costs.ratio import Supremum
from tensorlang.declared.external import External
from tensorlang.derivatives.derivation import Told
from tensorlang.errors import TensorlangError
from tensorlang.jaxprs.explain import ExplainedPart
from tensorlang.jaxprs.lint import Finding, Report
from tensorlang.language import functions
from tensorlang.lowering.explain import Explained, LoweringExplanation
from tensorlang.lowering.kernels.run import Kernels
from tensorlang.lowering.mesh.collectives import Collectives, Sent
from tensorlang.lowering.mesh.run import Distributed, Partitioned
from tensorlang.measure import count
from tensorlang.sparse.layouts import Structured
from tensorlang.sparse.pieces import SparsePiece
from tensorlang.surface.scalar import ScalarCode
from tensorlang.surface.scope import Surface

MODULES = ("fn", "jax", "passes", "pictures", "testing")
RETURNED = (
    *(Collectives, Distributed, Explained, ExplainedPart, External, Finding, Kernels, LoweringExplanation, Obligation),
    *(Partitioned, Report, ScalarCode, Sent, SparsePiece, Structured, Supremum, Told),
)
"""Classes that are no public names, of values that public functions return."""


FOR_READERS = {"ScalarCode.outside", "ScalarCode.refuse"}
"""Methods for the modules that read a function's source, not for users."""


def public() -> dict[str, Any]:
    """The public functions, classes and modules, except errors, and the classes that they return."""
    found = {name: getattr(tl, name) for name in dir(tl) if not name.startswith("_")}
    found |= {f"{m}.{name}": getattr(getattr(tl, m), name) for m in MODULES for name in getattr(tl, m).__all__}
    found |= {what.__qualname__: what for what in RETURNED}
    found |= {f"measure.{what.__name__}": what for what in (count.Count, count.count, count.count_compiled)}
    return {
        name: what
        for name, what in found.items()
        if (inspect.isfunction(what) or inspect.isclass(what) or isinstance(what, ModuleType))
        and not (inspect.isclass(what) and issubclass(what, TensorlangError))
    }


def members(kind: type) -> dict[str, Any]:
    """The public methods and properties of a class, by name, except those that all objects of the embedding share: the
    reference lists neither these nor what has no docstring."""
    found: dict[str, Any] = {}
    for name in dir(kind):
        what = inspect.getattr_static(kind, name)
        what = what.func if isinstance(what, cached_property) else getattr(what, "__func__", what)
        if (
            name.startswith("_")
            or hasattr(Surface, name)
            or not (inspect.isfunction(what) or isinstance(what, property))
        ):
            continue
        found[name] = what
    return found


def documented() -> dict[str, Any]:
    """All that is public, and the members of classes."""
    found = public()
    for name, what in public().items():
        if inspect.isclass(what):
            found |= {f"{name}.{member}": own for member, own in members(what).items()}
    return found


def _examples(what: Any) -> list[doctest.Example]:
    return doctest.DocTestParser().get_examples(inspect.getdoc(what) or "")


DOCUMENTED = documented()
WITH_EXAMPLES = [name for name, what in DOCUMENTED.items() if _examples(what)]


def test_all_that_is_public_has_an_example() -> None:
    shown = set(WITH_EXAMPLES)
    for name, what in public().items():
        if inspect.isclass(what):
            text = "".join(example.source for example in _examples(what))
            shown |= {f"{name}.{member}" for member in members(what) if re.search(rf"\.{member}\b", text)}
    assert len(DOCUMENTED) > 200
    assert sorted(DOCUMENTED.keys() - shown) == sorted(FOR_READERS)


NEEDED = {"pictures": "matplotlib", "CostPolynomial.expr": "sympy"}
"""Packages without which examples are skipped, by the beginnings of names."""


@pytest.fixture
def cleared(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Draw nothing on a screen; remove the functions and pictures that an example makes when it ends."""
    monkeypatch.setenv("MPLBACKEND", "agg")
    before = set(functions.functions())
    yield
    for name in set(functions.functions()) - before:
        functions.forget(name)
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.mark.usefixtures("cleared")
@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_run(name: str) -> None:
    for beginning, package in NEEDED.items():
        if name.startswith(beginning):
            pytest.importorskip(package, reason="an example needs it")
    examples = _examples(DOCUMENTED[name])
    test = doctest.DocTest(examples, {"tl": tl, "np": np}, name, None, 0, None)
    report: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    assert not report, "".join(report)
