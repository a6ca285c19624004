"""Results as JSON, as tables in Markdown, and as plots."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.limits import Machine
from benchmarks.measure import Row
from benchmarks.peers import BY_HAND, JAX, JAX_PROGRAM, OURS, PROGRAM
from benchmarks.scaling import WHAT, WHO, Growth
from benchmarks.statements import Growing

_PACKAGES = ("tensorlang", "jax", "jaxlib", "numpy", "scipy", "torch", "tensorflow", "pytensor", "halide", "tensorgrad")
WRONG = 1e-3
_WORTH = 1e-3  # seconds below which the gradient's time is overhead rather than work


def environment() -> dict[str, Any]:
    """The machine and the versions that figures belong to."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "packages": found,
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def geometric_mean(values: Iterable[float]) -> float:
    """The geometric mean; nan if there are no values."""
    logs = [math.log(v) for v in values]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def fastest(row: Row) -> float | None:
    """Our time divided by that of the fastest peer that agrees with us."""
    rivals = [name for name, t in row.timed.items() if name != OURS and t.differs is not None and t.differs <= WRONG]
    found = [row.ratio(OURS, name) for name in rivals]
    return max((r for r in found if r is not None), default=None)


def save_rows(suite: str, rows: Sequence[Row], to: Path, machine: Machine) -> str:
    """Write `suite`.json, .md and .png; return the Markdown."""
    text = f"{_table(suite, rows)}\nThe limit is that of {machine}.\n"
    data = {"environment": environment(), "rows": [asdict(row) for row in rows]}
    (to / f"{suite}.json").write_text(json.dumps(data, indent=1))
    (to / f"{suite}.md").write_text(text)
    _plot_ratios(rows, to / f"{suite}.png")
    return text


def _table(suite: str, rows: Sequence[Row]) -> str:
    peers = [name for name in dict.fromkeys(n for row in rows for n in row.timed) if name not in (OURS, PROGRAM)]
    head = [
        "program",
        "sizes",
        "ours, ms",
        *[f"ours / {p}" for p in peers],
        "ours / limit",
        "gradient / program",
        "derive, s",
    ]
    lines = [f"# {suite}", "", _row(head), _row(["---"] * len(head))]
    for row in rows:
        ours = f"{row.timed[OURS].median * 1e3:.4g}" if OURS in row.timed else "failed"
        cells = [_cell(row, p) for p in peers]
        deriving = "" if row.deriving is None else f"{row.deriving:.2f}"
        sizes = " ".join(f"{k}={v}" for k, v in row.sizes.items())
        least = row.timed[OURS].median / row.limit if OURS in row.timed and row.limit else None
        lines.append(_row([row.case, sizes, ours, *cells, _number(least), _number(row.ratio(OURS, PROGRAM)), deriving]))
    lines += ["", *_summary(rows, peers), "", *_remarks(rows)]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _cell(row: Row, peer: str) -> str:
    if peer not in row.timed:
        return ""
    differs = row.timed[peer].differs
    return _number(row.ratio(OURS, peer)) + (" (differs)" if differs is not None and not differs <= WRONG else "")


def _summary(rows: Sequence[Row], peers: Sequence[str]) -> list[str]:
    lines = []
    for peer in peers:
        found = [(r, row) for row in rows if (r := row.ratio(OURS, peer)) is not None]
        if found:
            worst, where = max(found, key=lambda pair: pair[0])
            place = f"{where.case}, {' '.join(f'{k}={v}' for k, v in where.sizes.items())}"
            mean = geometric_mean(r for r, _ in found)
            lines.append(f"- against {peer}: geometric mean {mean:.3g}, worst {worst:.3g} ({place}), {len(found)} rows")
    best = [r for row in rows if (r := fastest(row)) is not None]
    if best:
        lines.append(f"- against the fastest of them: geometric mean {geometric_mean(best):.3g}, worst {max(best):.3g}")
    slow = [
        (r, row.case)
        for row in rows
        if (r := row.ratio(OURS, PROGRAM)) is not None and row.timed[PROGRAM].median > _WORTH
    ]
    if slow:
        lines.append(f"- gradient / program above 1 ms: at most {max(slow)[0]:.3g} ({max(slow)[1]})")
    return lines


def _remarks(rows: Sequence[Row]) -> list[str]:
    lines = []
    for row in rows:
        sizes = " ".join(f"{k}={v}" for k, v in row.sizes.items())
        lines += [f"- {row.case}, {sizes}: no figure for {who}: {why}" for who, why in row.missing.items()]
    return list(dict.fromkeys(line for line in lines if "isn't installed" not in line)) + sorted(
        {f"- {why}" for row in rows for why in row.missing.values() if "isn't installed" in why}
    )


def save_growth(growths: Sequence[Growth], statements: Sequence[Growing], to: Path) -> str:
    """Write scaling.json and .md, and a plot for each case; return the Markdown."""
    head = ["program", "", *[f"{who}: {what}" for what in WHAT for who in WHO]]
    lines = ["# Scaling", "", "Exponents: figures grow as the size to this power.", "", _row(head)]
    lines.append(_row(["---"] * len(head)))
    for g in growths:
        span = f"{g.index} = {g.at[0]} to {g.at[-1]}" if g.at else ""
        lines.append(_row([g.case, span, *[_number(g.exponent(who, what)) for what in WHAT for who in WHO]]))
        _plot_growth(g, to / f"scaling-{_slug(g.case)}.png")
    lines += ["", *[f"- {g.case}: {what}: {why}" for g in growths for what, why in g.missing.items()], ""]
    if statements:
        lines += ["", _row(["family", "statements", "parsing, s", "deriving, s", "generating, s"]), _row(["---"] * 5)]
    for s in statements:
        times = [f"{t:.2f}" for t in (s.parsing, s.deriving, s.generating)]
        lines.append(_row([s.family, str(s.statements), *times]))
    text = "\n".join(lines) + "\n"
    data = {
        "environment": environment(),
        "growth": [asdict(g) for g in growths],
        "statements": [asdict(s) for s in statements],
    }
    (to / "scaling.json").write_text(json.dumps(data, indent=1))
    (to / "scaling.md").write_text(text)
    return text


def _slug(name: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in name).split()).lower()


def _figure(width: float, height: float, panels: int = 1) -> tuple[Any, Any]:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot.subplots(1, panels, figsize=(width, height), layout="constrained", squeeze=False)


def _plot_ratios(rows: Sequence[Row], path: Path) -> None:
    """Our time divided by that of JAX's gradient and of the one written by hand, row by row."""
    figure, axes = _figure(9, 1 + 0.16 * len(rows))
    ax = axes[0, 0]
    labels = [f"{row.case} {' '.join(f'{k}={v}' for k, v in row.sizes.items())}" for row in rows]
    for who, mark in ((JAX, "o"), (BY_HAND, "x")):
        found = [(r, k) for k, row in enumerate(rows) if (r := row.ratio(OURS, who)) is not None]
        ax.scatter([r for r, _ in found], [k for _, k in found], marker=mark, label=f"ours / {who}", s=12)
    ax.axvline(1, color="gray", linewidth=0.8)
    ax.set(xscale="log", xlabel="ratio of times", ylim=(len(rows), -1))
    ax.set_yticks(range(len(rows)), labels, fontsize=5)
    ax.legend()
    figure.savefig(path, dpi=120)
    _close(figure)


_STYLES = {OURS: ("C0", "-"), PROGRAM: ("C0", ":"), JAX: ("C1", "-"), JAX_PROGRAM: ("C1", ":")}


def _plot_growth(growth: Growth, path: Path) -> None:
    """Seconds, operations and bytes against the size, where there are figures."""
    shown = [what for what in WHAT if any(y > 0 for who in WHO for y in growth.figures[who][what])]
    figure, axes = _figure(1 + 3.7 * len(shown), 3.5, max(len(shown), 1))
    for ax, what in zip(axes[0], shown, strict=False):
        for who in WHO:
            found, exponent = growth.figures[who][what], growth.exponent(who, what)
            label = f"{who}: none" if exponent is None else f"{who}: {growth.index}^{exponent:.2f}"
            color, line = _STYLES[who]
            ax.plot(growth.at, found, color=color, linestyle=line, marker="o", markersize=3, label=label)
        ax.set(xscale="log", yscale="log", xlabel=growth.index, title="bytes" if what == "traffic" else what)
        ax.set_xticks(growth.at, [str(n) for n in growth.at], fontsize=7)
        ax.minorticks_off()
        ax.legend(fontsize=7)
    figure.suptitle(growth.case)
    figure.savefig(path, dpi=100)
    _close(figure)


def _close(figure: Any) -> None:
    from matplotlib import pyplot

    pyplot.close(figure)
