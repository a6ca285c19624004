"""The gallery: the tasks of `examples/first_hour.py`, each with its program and the same in JAX."""

from __future__ import annotations

import inspect
import re
import runpy
from pathlib import Path
from typing import Any

from docs.catalogue.markdown import fence, folded

SCRIPT = Path(__file__).parent.parent.parent / "examples" / "first_hour.py"
_TITLE = re.compile(r"^# -- \d+\. (.*)$", re.MULTILINE)


def gallery_page() -> str:
    """A section for each task."""
    script: dict[str, Any] = runpy.run_path(str(SCRIPT))
    titles = _TITLE.findall(SCRIPT.read_text())
    parts = []
    for title, task in zip(titles, script["TASKS"].values(), strict=True):
        heading, _, more = title.partition(": ")
        parts += [f"## {heading.removeprefix('a ').capitalize()}\n"]
        if more:
            parts += [f"{more[0].upper()}{more[1:]}.\n"]
        parts += [fence(inspect.getsource(task.ours), "python")]
        parts += [folded("The same in JAX", fence(inspect.getsource(task.theirs), "python"))]
    return "\n".join(parts)
