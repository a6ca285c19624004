"""The pictures of the home page and of the benchmarks show the stored figures of a run."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from docs.catalogue import growth


def figures(of: float) -> dict[str, list[float]]:
    return {who: [of * n**k for n in (10, 100, 1000)] for k, who in enumerate(growth.WHO)}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A run of the benchmarks, kept."""
    cases = [*growth.SHOWN, "one < that is lost"]
    found = {
        "environment": {"processor": "P", "cores": 2, "load": 0.5, "packages": {"jax": "0.10"}},
        "growth": [
            {"case": case, "index": "n", "at": [10, 100, 1000], "figures": {
                who: {"operations": figures(1.0)[who], "seconds": figures(1e-6)[who]} for who in growth.WHO}}
            for case in cases
        ],
    }  # fmt: skip
    lost = found["growth"][-1]["figures"]
    lost[growth.OURS]["seconds"], lost[growth.JAX]["seconds"] = [1.0, 2.0, 3.0], [1.0, 1.0, 1.0]
    lost[growth.JAX]["operations"] = [math.nan, 0.0, 0.0]
    path = tmp_path / "scaling.json"
    path.write_text(json.dumps(found))
    monkeypatch.setattr(growth, "KEPT", tmp_path / "growth.json")
    growth.keep(path)
    return found


def drawn(page: str) -> list[ElementTree.Element]:
    """The pictures of a page, which are well-formed."""
    raw = page.split("```{raw} html\n")[1].split("\n```", maxsplit=1)[0]
    return list(ElementTree.fromstring(raw).iter("svg"))


def test_the_home_page_has_operations_and_times_of_three_programs(run: dict[str, Any]) -> None:
    page = growth.home_page()
    panels = [svg for svg in drawn(page) if svg.get("viewBox", "").startswith("0 0 250")]
    assert len(panels) == 6
    assert all(len([p for p in svg.iter("polyline")]) == 3 for svg in panels)
    assert page.count("| `n = 1,000` | 1 | 1,000,000 | 0.001 | 1,000 |") == 3


def test_losses_are_shown_as_such(run: dict[str, Any]) -> None:
    page = growth.ratios_page()
    (picture, *_) = drawn(page)
    marks = [c.get("class") for c in picture.iter("circle")]
    assert marks.count("theirs") == 1
    assert "most for one < that is lost" in page
    assert "less than 1 for 3 of 4" in page


def test_what_was_not_measured_is_said(run: dict[str, Any]) -> None:
    assert len(drawn(growth.panels_page())) == 3 + 2 * 4
    rows = growth.growth_page().splitlines()
    assert any(line.startswith("| one < that is lost") and "|  | 3 |" in line for line in rows)
