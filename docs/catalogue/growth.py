"""How gradients grow: the home page's picture and the table of the benchmarks, of what `python -m benchmarks` wrote.

`python -m benchmarks scaling --counts-only` counts operations in compiled code; `python -m docs.catalogue
out/benchmarks/scaling.json` keeps them here, in `growth.json`.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from docs.catalogue.markdown import table

KEPT = Path(__file__).with_name("growth.json")
OURS, PROGRAM, JAX = "tensorlang", "tensorlang, program", "jax.grad"
SHOWN = ("dot of a diagonal's row and column", "Toeplitz matrix", "band times vector")
"""What the home page shows: the beginnings of the names of programs."""
_DIGITS = 3


def keep(path: Path) -> None:
    """Keep the counts that a run of the benchmarks wrote."""
    data = json.loads(path.read_text())
    growth = [
        {
            "case": found["case"],
            "index": found["index"],
            "at": found["at"],
            "operations": {
                who: [None if math.isnan(n) else int(n) for n in found["figures"][who]["operations"]]
                for who in (OURS, PROGRAM, JAX)
            },
        }
        for found in data["growth"]
        if found["at"]
    ]
    packages = {name: data["environment"]["packages"].get(name) for name in ("jax", "jaxlib")}
    KEPT.write_text(json.dumps({"packages": packages, "growth": growth}, indent=1) + "\n")


def _kept() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(KEPT.read_text())
    return found


def exponent(at: list[int], operations: list[int | None]) -> float | None:
    """The slope of a line through the logarithms; None if there are no two figures above zero."""
    found = [(math.log(n), math.log(y)) for n, y in zip(at, operations, strict=True) if y]
    if len(found) < 2:
        return None
    x, y = (sum(values) / len(found) for values in zip(*found, strict=True))
    return sum((a - x) * (b - y) for a, b in found) / sum((a - x) ** 2 for a, _ in found)


def growth_page() -> str:
    """A row for each program: operations of gradient and program at the largest size, and how they grow."""
    kept = _kept()
    rows = []
    for g in kept["growth"]:
        counts = g["operations"]
        ours, program, jax = (counts[who][-1] for who in (OURS, PROGRAM, JAX))
        rows.append(
            (
                g["case"],
                f"`{g['index']} = {g['at'][-1]:,}`",
                *(_number(n) for n in (program, ours, jax)),
                f"{ours / jax:.2g}" if ours is not None and jax else "",
                *(_power(g["index"], exponent(g["at"], counts[who])) for who in (OURS, JAX)),
            )
        )
    head = (
        "Program",
        "Largest size",
        "Program",
        "Our gradient",
        "jax.grad",
        "Ours by JAX's",
        "Ours grows as",
        "JAX's as",
    )
    return table(head, rows) + f"\nCounted with jax {kept['packages']['jax']}.\n"


def _number(n: int | None) -> str:
    return "" if n is None else f"{n:,}"


def _power(index: str, power: float | None) -> str:
    if power is None:
        return ""
    return "not at all" if abs(power) < 0.05 else f"{index}^{power:.1f}"


# -- the picture

_WIDTH, _HEIGHT, _LEFT, _TOP, _PLOT_WIDTH, _PLOT_HEIGHT = 250, 232, 46, 46, 178, 156
_MARKS = ((JAX, "theirs"), (OURS, "ours"), (PROGRAM, "program"))
_LEGEND = {"theirs": "gradient by jax.grad", "ours": "gradient by tensorlang", "program": "the program itself"}


def home_page() -> str:
    """Pictures of operations over sizes, log-log, for some programs; colours are those of the page."""
    growth = [next(g for g in _kept()["growth"] if g["case"].startswith(name)) for name in SHOWN]
    told = "; ".join(_told(g) for g in growth)
    legend = "".join(
        f'<span><svg viewBox="0 0 26 8" width="26" height="8"><line class="{kind}" x2="26" y1="4" y2="4"/></svg> '
        f"{name}</span>"
        for kind, name in _LEGEND.items()
    )
    return (
        f'```{{raw}} html\n<div class="growth" role="img" aria-label="Operations of compiled gradients over the size, '
        f'on logarithmic axes. {told}.">\n'
        + "\n".join(map(_panel, growth))
        + f'\n<p class="legend">{legend}</p>\n</div>\n```\n'
    )


def _told(g: dict[str, Any]) -> str:
    theirs, ours = (exponent(g["at"], g["operations"][who]) for who in (JAX, OURS))
    index, largest = g["index"], g["at"][-1]
    at = f"at {index} = {largest:,} {_number(g['operations'][JAX][-1])} and {_number(g['operations'][OURS][-1])}"
    powers = f"grow as {_power(index, theirs)} by jax.grad and {_power(index, ours) or 'nothing'} by tensorlang"
    return f"{_escaped(g['case'])}: operations {powers}, {at}"


def _panel(g: dict[str, Any]) -> str:
    left = _LEFT
    known = [n for who, _ in _MARKS for n in g["operations"][who] if n]
    low, high = math.floor(math.log10(min(known))), math.ceil(math.log10(max(known)))
    first, last = math.log10(g["at"][0]), math.log10(g["at"][-1])

    def x(n: float) -> float:
        return left + (math.log10(n) - first) / (last - first) * _PLOT_WIDTH

    def y(n: float) -> float:
        return _TOP + (high - math.log10(n)) / (high - low) * _PLOT_HEIGHT

    bottom = _TOP + _PLOT_HEIGHT
    parts = [f'<text class="title" x="4" y="14">{_escaped(g["case"])}</text>']
    parts.append(f'<path class="axis" d="M{left} {_TOP} V{bottom} H{left + _PLOT_WIDTH}"/>')
    step = max(1, (high - low) // 4)
    for power in range(low, high + 1, step):
        label = f'10<tspan class="power" dy="-5">{power}</tspan>'
        parts.append(f'<text class="tick left" x="{left - 6}" y="{y(10.0**power) + 4:.0f}">{label}</text>')
    for n in (g["at"][0], g["at"][-1]):
        parts.append(f'<text class="tick" x="{x(n):.0f}" y="{bottom + 16}">{n:,}</text>')
    parts.append(f'<text class="tick" x="{left + _PLOT_WIDTH / 2:.0f}" y="{bottom + 16}">{g["index"]}</text>')
    parts.append(f'<text class="tick start" x="4" y="{_TOP - 13}">operations</text>')
    for who, kind in _MARKS:
        points = [(x(n), y(c)) for n, c in zip(g["at"], g["operations"][who], strict=True) if c]
        line = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        parts.append(f'<polyline class="{kind}" points="{line}"/>')
        if kind != "program":
            parts += [f'<circle class="{kind}" cx="{a:.1f}" cy="{b:.1f}" r="3"/>' for a, b in points]
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" aria-hidden="true">{"".join(parts)}</svg>'


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
