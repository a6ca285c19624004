"""The examples in public docstrings run and print what they say."""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.errors import TensorlangError
from tensorlang.language import functions


def documented() -> dict[str, Any]:
    """The public functions, classes and modules, except errors."""
    found = {name: getattr(tl, name) for name in dir(tl) if not name.startswith("_")}
    found |= {f"{m}.{name}": getattr(getattr(tl, m), name) for m in ("fn", "passes") for name in getattr(tl, m).__all__}
    return {
        name: what
        for name, what in found.items()
        if (inspect.isfunction(what) or inspect.isclass(what) or isinstance(what, ModuleType))
        and not (inspect.isclass(what) and issubclass(what, TensorlangError))
    }


WITHOUT = {
    "Cond": "terms are made by calculating with others",
    "Idx": "terms are made by calculating with others",
    "IndexType": "see `idx`",
    "Indices": "see `idx`",
    "RelationType": "see `relation`",
    "Term": "terms are made by calculating with others",
    "ValueType": "see `R`",
    "Rule": "see `Derivation`",
    "Step": "see `Derivation`",
    "jax": "docs/howto/jax.md",
    "lib": "docs/library.md",
    "pictures": "docs/tutorial.md",
    "testing": "docs/howto/ci.md",
}
"""Names that are shown elsewhere, in examples that run, too."""


@pytest.fixture
def registered() -> Iterator[None]:
    """Remove the functions that an example registers when it ends."""
    before = set(functions.functions())
    yield
    for name in set(functions.functions()) - before:
        functions.forget(name)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("name", documented())
def test_examples_run(name: str) -> None:
    what = documented()[name]
    examples = doctest.DocTestParser().get_examples(what.__doc__ or "", name)
    assert bool(examples) != (name in WITHOUT), f"{name} has {len(examples)} examples"
    test = doctest.DocTest(examples, {"tl": tl, "np": np}, name, None, 0, what.__doc__)
    report: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    assert not report, "".join(report)
