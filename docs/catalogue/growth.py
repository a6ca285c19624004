"""How gradients grow: pictures and tables of the home page and of the benchmarks, from the output of
`python -m benchmarks`.

`python -m benchmarks scaling` counts operations in compiled code and times it; `python -m docs.catalogue
out/benchmarks/scaling.json` keeps the figures here, in `growth.json`. Pictures have the page's colours, so they are
written into it; they are left out where a page is read as a file.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from docs.catalogue.markdown import folded, table

KEPT = Path(__file__).with_name("growth.json")
OURS, PROGRAM, JAX = "tensorlang", "tensorlang, program", "jax.grad"
WHO = (OURS, PROGRAM, JAX)
SHOWN = ("dot of a diagonal's row and column", "Toeplitz matrix times vector", "band times vector, by the vector")
"""The programs on the home page."""
_NOTHING = "figures are zero or were not taken"


def keep(path: Path) -> None:
    """Keep the figures that a run of the benchmarks wrote."""
    data = json.loads(path.read_text())
    growth = [
        {
            "case": found["case"],
            "index": found["index"],
            "at": found["at"],
            "operations": {who: [_whole(n) for n in found["figures"][who]["operations"]] for who in WHO},
            "seconds": {who: [_short(n) for n in found["figures"][who]["seconds"]] for who in WHO},
        }
        for found in data["growth"]
        if found["at"]
    ]
    environment = {name: data["environment"][name] for name in ("processor", "cores", "load")}
    environment["jax"] = data["environment"]["packages"]["jax"]
    KEPT.write_text(json.dumps({"environment": environment, "growth": growth}, indent=1) + "\n")


def _whole(n: float) -> int | None:
    return None if math.isnan(n) else int(n)


def _short(n: float) -> float | None:
    return None if math.isnan(n) else float(f"{n:.3g}")


def _kept() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(KEPT.read_text())
    return found


def _under_what() -> str:
    known = _kept()["environment"]
    return (
        f"Operations are counted in what XLA compiles, with jax {known['jax']}. Times were measured on "
        f"{known['cores']} virtual cores ({known['processor']}), at a load of "
        f"{known['load']:.0f} with the benchmark's own."
    )


def exponent(at: list[int], figures: list[float | None]) -> float | None:
    """The slope of a line through the logarithms; None if there are no two figures above zero."""
    found = [(math.log(n), math.log(y)) for n, y in zip(at, figures, strict=True) if y]
    if len(found) < 2:
        return None
    x, y = (sum(values) / len(found) for values in zip(*found, strict=True))
    return sum((a - x) * (b - y) for a, b in found) / sum((a - x) ** 2 for a, _ in found)


def ratio(g: dict[str, Any], what: str) -> float | None:
    """Our figure divided by JAX's, at the largest size; None where one is missing or JAX's is zero."""
    ours, theirs = g[what][OURS][-1], g[what][JAX][-1]
    return None if ours is None or not theirs else ours / theirs


def growth_page() -> str:
    """A row for each program: operations of gradient and program at the largest size, and how they grow; times."""
    rows = []
    for g in _kept()["growth"]:
        counts = g["operations"]
        ours, program, jax = (counts[who][-1] for who in (OURS, PROGRAM, JAX))
        quotients = (ratio(g, what) for what in ("operations", "seconds"))
        rows.append(
            (
                g["case"],
                f"`{g['index']} = {g['at'][-1]:,}`",
                *(_number(n) for n in (program, ours, jax)),
                *("" if q is None else f"{q:.2g}" for q in quotients),
                *(_power(g["index"], exponent(g["at"], counts[who])) for who in (OURS, JAX)),
            )
        )
    head = (
        "Program",
        "Largest size",
        "Operations of the program",
        "Our gradient",
        "jax.grad",
        "Ours by JAX's",
        "Time, ours by JAX's",
        "Ours grows as",
        "JAX's as",
    )
    return table(head, rows) + f"\n{_under_what()}\n"


def _number(n: int | None) -> str:
    return "" if n is None else f"{n:,}"


def _power(index: str, power: float | None) -> str:
    if power is None:
        return ""
    return "not at all" if abs(power) < 0.05 else f"{index}^{power:.1f}"


# -- pictures

_WIDTH, _HEIGHT, _LEFT, _TOP, _PLOT_WIDTH, _PLOT_HEIGHT = 250, 176, 46, 40, 178, 106
_MARKS = ((JAX, "theirs"), (OURS, "ours"), (PROGRAM, "program"))
_LEGEND = {"theirs": "gradient by jax.grad", "ours": "gradient by tensorlang", "program": "the program itself"}
_WHAT = {"operations": ("operations", 1.0), "seconds": ("milliseconds", 1e3)}
"""The name of each quantity that is drawn, and the factor of its figures."""


def _html(content: str) -> str:
    return f"```{{raw}} html\n{content}\n```\n"


def _legend() -> str:
    return "".join(
        f'<span><svg viewBox="0 0 26 8" width="26" height="8"><line class="{kind}" x2="26" y1="4" y2="4"/></svg> '
        f"{name}</span>"
        for kind, name in _LEGEND.items()
    )


def home_page() -> str:
    """Pictures of operations and times over sizes, log-log, for some programs; and their figures."""
    growth = [next(g for g in _kept()["growth"] if g["case"] == name) for name in SHOWN]
    told = "; ".join(_told(g) for g in growth)
    panels = "\n".join(_panel(g, what, titled=what == "operations") for what in _WHAT for g in growth)
    picture = _html(
        f'<div class="growth" role="img" aria-label="Operations and times of compiled gradients over the size, on '
        f'logarithmic axes. {told}.">\n{panels}\n<p class="legend">{_legend()}</p>\n</div>'
    )
    rows = []
    for g in growth:
        at = f"`{g['index']} = {g['at'][-1]:,}`"
        counts = (_number(g["operations"][who][-1]) for who in (OURS, JAX))
        rows.append((g["case"], at, *counts, *(_milliseconds(g["seconds"][who][-1]) for who in (OURS, JAX))))
    head = ("Gradient of", "Size", "Operations, ours", "jax.grad", "Milliseconds, ours", "jax.grad")
    return picture + "\n" + folded("The figures at the largest sizes", table(head, rows) + f"\n{_under_what()}\n")


def _milliseconds(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{1e3 * seconds:,.0f}" if seconds >= 0.01 else f"{1e3 * seconds:.2g}"


def _told(g: dict[str, Any]) -> str:
    theirs, ours = (exponent(g["at"], g["operations"][who]) for who in (JAX, OURS))
    index, largest = g["index"], g["at"][-1]
    at = f"at {index} = {largest:,} {_number(g['operations'][JAX][-1])} and {_number(g['operations'][OURS][-1])}"
    powers = f"grow as {_power(index, theirs)} by jax.grad and {_power(index, ours) or 'nothing'} by tensorlang"
    times = " and ".join(_milliseconds(g["seconds"][who][-1]) for who in (JAX, OURS))
    return f"{_escaped(g['case'])}: operations {powers}, {at}; milliseconds there {times}"


def _panel(g: dict[str, Any], what: str, titled: bool) -> str:
    caption, unit = _WHAT[what]
    top = _TOP + 3 if titled else _TOP - 13
    height = _HEIGHT + 3 if titled else _HEIGHT - 13
    figures = {who: [None if c is None else c * unit for c in g[what][who]] for who, _ in _MARKS}
    known = [n for row in figures.values() for n in row if n]
    title = f'<text class="title" x="4" y="14">{_escaped(g["case"])}</text>' if titled else ""
    start = f'<svg viewBox="0 0 {_WIDTH} {height}" aria-hidden="true">{title}'
    if not known or g["at"][0] == g["at"][-1]:
        return f'{start}<text class="tick start" x="4" y="{top - 10}">{caption}: {_NOTHING}</text></svg>'
    low, high = math.floor(math.log10(min(known))), math.ceil(math.log10(max(known)))
    high = max(high, low + 1)
    first, last = math.log10(g["at"][0]), math.log10(g["at"][-1])
    bottom = top + _PLOT_HEIGHT

    def x(n: float) -> float:
        return _LEFT + (math.log10(n) - first) / (last - first) * _PLOT_WIDTH

    def y(n: float) -> float:
        return top + (high - math.log10(n)) / (high - low) * _PLOT_HEIGHT

    parts = [f'<path class="axis" d="M{_LEFT} {top} V{bottom} H{_LEFT + _PLOT_WIDTH}"/>']
    for power in range(low, high + 1, max(1, math.ceil((high - low) / 4))):
        label = f'10<tspan class="power" dy="-5">{power}</tspan>'
        parts.append(f'<text class="tick left" x="{_LEFT - 6}" y="{y(10.0**power) + 4:.0f}">{label}</text>')
    for n in (g["at"][0], g["at"][-1]):
        parts.append(f'<text class="tick" x="{x(n):.0f}" y="{bottom + 16}">{n:,}</text>')
    parts.append(f'<text class="tick" x="{_LEFT + _PLOT_WIDTH / 2:.0f}" y="{bottom + 16}">{g["index"]}</text>')
    parts.append(f'<text class="tick start" x="4" y="{top - 13}">{caption}</text>')
    for who, kind in _MARKS:
        points = [(x(n), y(c)) for n, c in zip(g["at"], figures[who], strict=True) if c]
        line = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        parts.append(f'<polyline class="{kind}" points="{line}"/>')
        if kind != "program":
            parts += [f'<circle class="{kind}" cx="{a:.1f}" cy="{b:.1f}" r="3"/>' for a, b in points]
    return f"{start}{''.join(parts)}</svg>"


# -- the benchmarks' pictures

_ROW, _NAMES, _SCALE, _MARGIN = 15, 250, 420, 34


def ratios_page() -> str:
    """Our gradient relative to JAX's at the largest sizes, in operations and in time: a line for each program, best
    first."""
    growth = [g for g in _kept()["growth"] if ratio(g, "operations") is not None or ratio(g, "seconds") is not None]
    growth.sort(key=lambda g: ratio(g, "seconds") or ratio(g, "operations") or 0.0)
    found = [q for g in growth for what in _WHAT if (q := ratio(g, what))]
    low, high = math.floor(math.log10(min(found))), math.ceil(math.log10(max(found)))
    bottom = _MARGIN + _ROW * len(growth)

    def x(q: float) -> float:
        return _NAMES + (math.log10(max(q, 10.0**low)) - low) / (high - low) * _SCALE

    parts = [
        f'<text class="tick" x="{x(10.0**power):.0f}" y="{_MARGIN - 16}">{_times(power)}</text>'
        f'<line class="grid{" one" if not power else ""}" x1="{x(10.0**power):.0f}" x2="{x(10.0**power):.0f}" '
        f'y1="{_MARGIN - 10}" y2="{bottom}"/>'
        for power in range(low, high + 1)
    ]
    for k, g in enumerate(growth):
        y = _MARGIN + _ROW * k + 6
        counts, times = (ratio(g, what) for what in _WHAT)
        lost = "theirs" if times is not None and times > 1 else "ours"
        parts.append(f'<text class="tick left" x="{_NAMES - 10}" y="{y + 4}">{_escaped(g["case"])}</text>')
        if counts is not None:
            parts.append(f'<circle class="{lost} hollow" cx="{x(counts):.1f}" cy="{y}" r="4"/>')
        if times is not None:
            parts.append(f'<circle class="{lost}" cx="{x(times):.1f}" cy="{y}" r="4"/>')
    timed = [q for g in growth if (q := ratio(g, "seconds")) is not None]
    worst = max(growth, key=lambda g: ratio(g, "seconds") or 0.0)
    told = (
        f"Our gradient by JAX's for {len(growth)} programs, from {min(found):.2g} to {max(found):.2g}. In time it is "
        f"less than 1 for {sum(q < 1 for q in timed)} of {len(timed)}, and most for {worst['case']}."
    )
    picture = (
        f'<div class="growth ratios" role="img" aria-label="{_escaped(told)}">\n'
        f'<svg viewBox="0 0 {_NAMES + _SCALE + 20} {bottom + 6}" aria-hidden="true">{"".join(parts)}</svg>\n'
        f'<p class="legend"><span>{_dot("ours")} time</span>'
        f"<span>{_dot('ours hollow')} operations, at the left edge none</span>"
        f"<span>{_dot('theirs')}{_dot('theirs hollow')} where ours takes more time</span></p>\n</div>"
    )
    return _html(picture) + f"\n{told} {_under_what()}\n"


def _dot(kind: str) -> str:
    return f'<svg viewBox="0 0 12 12" width="12" height="12"><circle class="{kind}" cx="6" cy="6" r="4"/></svg> '


def _times(power: int) -> str:
    return {0: "1", 1: "10", -1: "0.1"}.get(power, f'10<tspan class="power" dy="-5">{power}</tspan>')


def panels_page() -> str:
    """Two pictures for each program, log-log: operations and milliseconds over the size."""
    panels = []
    for g in _kept()["growth"]:
        both = "\n".join(_panel(g, what, titled=True) for what in _WHAT)
        panels.append(f'<div class="pair" role="img" aria-label="{_told(g)}">\n{both}\n</div>')
    joined = "\n".join(panels)
    return _html(f'<div class="growth pairs">\n<p class="legend">{_legend()}</p>\n{joined}\n</div>')


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
