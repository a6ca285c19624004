"""Derivations to step through, in a notebook or on a page.

    rows        the expression in mid-derivation, as rows that steps remove and add
    settings    the default sizes and data for counting
    laws        the rules in the paper's notation, and in words
    sets        the sets in a step, and small pictures of them
    formulas    costs for all sizes, as data that a page evaluates
    worked      the values of statements and inner products at small sizes
    view        the reader's view of a step, as data
    frames      the same as HTML
    folds       steps that repeat
    graph       the program as a graph, on which a step is marked
    page        all of these as a page to step through, with stepper.js and stepper.css
    widget      the same in a live notebook, where steps are made when they are viewed (needs anywidget)

There is one description of a step, `view.Frame`, and one function that makes HTML of it; pages hold all frames and
widgets ask the kernel for them.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any

from tensorlang import shown
from tensorlang.derivatives.derivation import Derivation
from tensorlang.notebook.stepper import page
from tensorlang.notebook.stepper.view import View


@shown.html.register
def _(derivation: Derivation) -> str:
    return page.notebook_html(_in_notebook(derivation))


@shown.page.register
def _(derivation: Derivation, part: range | None = None) -> str:
    return page.page(View(derivation), part)


@shown.bundle.register
def _(derivation: Derivation) -> Any:
    view = _in_notebook(derivation)
    forms = {"text/plain": repr(derivation), "text/html": page.notebook_html(view)}
    if find_spec("anywidget") is None:
        return forms
    from tensorlang.notebook.stepper.widget import Stepper

    live, metadata = Stepper(view)._repr_mimebundle_() or ({}, {})
    return {**live, **forms}, metadata


def _in_notebook(derivation: Derivation) -> View:
    """The view of a derivation; it does not import JAX if that is not in use."""
    return View(derivation, has_code="jax" in sys.modules)
