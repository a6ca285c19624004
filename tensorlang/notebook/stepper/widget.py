"""A derivation in a live notebook: steps are made when they are viewed, at sizes that can be changed there."""

from __future__ import annotations

from typing import Any

import anywidget
import traitlets

from tensorlang.derivatives.derivation import Derivation
from tensorlang.errors import TensorlangError
from tensorlang.notebook.stepper.folds import folds
from tensorlang.notebook.stepper.frames import about, frame, title
from tensorlang.notebook.stepper.graph import graph_html
from tensorlang.notebook.stepper.page import CSS, SCRIPT, counted_at, label, rules_html
from tensorlang.notebook.stepper.view import View

_AT_ONCE = 60
"""The most frames of a derivation that are sent together, so that they outlive the kernel."""


class Stepper(anywidget.AnyWidget):
    """Steps through a derivation; `step` is the position: 0 is the program, and after the last step comes the adjoint.

    Costs are counted at `sizes`; setting either, in Python or in the view, updates the view.
    """

    _esm = SCRIPT
    _css = CSS

    label = traitlets.Unicode().tag(sync=True)
    note = traitlets.Unicode().tag(sync=True)
    titles = traitlets.List(traitlets.Unicode()).tag(sync=True)
    about = traitlets.List(traitlets.Unicode()).tag(sync=True)
    frames = traitlets.Dict(key_trait=traitlets.Unicode(), value_trait=traitlets.Unicode()).tag(sync=True)
    graph = traitlets.Unicode().tag(sync=True)
    rules = traitlets.Unicode().tag(sync=True)
    origins = traitlets.Dict().tag(sync=True)
    folds = traitlets.List(traitlets.List(traitlets.Int())).tag(sync=True)
    step = traitlets.Int().tag(sync=True)
    sizes = traitlets.Dict(key_trait=traitlets.Unicode(), value_trait=traitlets.Int(min=0)).tag(sync=True)
    version = traitlets.Int().tag(sync=True)

    def __init__(self, view: View) -> None:
        self._view = view
        count = len(view.derivation.steps) + 2
        super().__init__(
            label=label(view),
            note=counted_at(view),
            titles=[title(view, k) for k in range(count)],
            about=[" ".join(about(view, k)) for k in range(count)],
            graph=graph_html(view),
            rules=rules_html(view),
            origins={name: [step, list(names)] for name, (step, names) in view.origins.items()},
            folds=[list(fold) for fold in folds(view.derivation)],
            frames=self._frames(range(count) if count <= _AT_ONCE else range(1)),
            sizes=self._sizes(),
        )
        self.on_msg(self._asked)

    def _frames(self, wanted: range) -> dict[str, str]:
        return {str(k): frame(self._view, k) for k in wanted}

    def _sizes(self) -> dict[str, int]:
        data = self._view.setting.data
        return {s.name: data[s.name] for s in self._view.derivation.function.sizes if s.name in data}

    def _asked(self, _: Any, content: dict[str, Any], buffers: Any) -> None:
        """Answer the page's request for a frame; the next one is sent along."""
        k = int(content["wanted"])
        self.send({"frames": self._frames(range(k, min(k + 2, len(self.titles))))})

    @traitlets.validate("step")
    def _within(self, proposal: dict[str, Any]) -> int:
        return min(max(int(proposal["value"]), 0), max(0, len(self.titles) - 1))

    @traitlets.observe("sizes")
    def _counted_anew(self, change: dict[str, Any]) -> None:
        sizes = dict(change["new"])
        if sizes == self._sizes():
            return
        derivation: Derivation = self._view.derivation
        try:
            self._view = View(derivation.at(**{**self._view.setting.data, **sizes}))
            note = counted_at(self._view)
        except TensorlangError as error:
            note = f"Not counted at these sizes: {error}"
        with self.hold_sync():
            self.note = note
            self.frames = self._frames(range(self.step, self.step + 1))
            self.version += 1
