"""Gradients of functions of published packages, by `jax.grad` and by `tl.jax.grad`, both under `jax.jit`.

    python -m benchmarks.packages [--size N] [--rounds N] [--only WORD ..] [--lint] [--save FILE.json]
    python -m benchmarks.packages --page FILE.json ..   # tables of what was saved

Needs `pip install -c constraints.txt -e '.[packages]'`; functions whose packages are not there are left out. Both
gradients are timed in turns. `--lint` runs the linter on those of which parts are derived, at a quarter of the size and
at the size, without and with a look at what XLA compiles.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from math import exp, log
from pathlib import Path
from typing import Any

from benchmarks.packages import Missing, functions
from benchmarks.packages.figures import Figures, linted, measured, warm_up


def main() -> None:
    """Measure, and print a line for each function and a summary."""
    asked = argparse.ArgumentParser(prog="python -m benchmarks.packages", description=__doc__)
    asked.add_argument("--size", type=int, default=128)
    asked.add_argument("--rounds", type=int, default=9)
    asked.add_argument("--only", nargs="*", default=[])
    asked.add_argument("--lint", action="store_true")
    asked.add_argument("--save", type=Path)
    asked.add_argument("--page", type=Path, nargs="*")
    given = asked.parse_args()
    if given.page:
        saved = {row["code"]: row for path in given.page for row in json.loads(path.read_text())["rows"]}
        print(page(list(saved.values())))
        return
    warnings.simplefilter("ignore")  # warnings of packages that are older than this JAX
    rows: list[dict[str, Any]] = []
    missing: dict[str, str] = {}
    found: list[Figures] = []
    warm_up()
    for f in functions():
        if given.only and not any(word in f.code for word in given.only):
            continue
        try:
            figures = measured(f, given.size, given.rounds)
        except Missing as why:
            missing[f.package] = str(why)
            continue
        found.append(figures)
        rows.append({"code": f.code, **asdict(figures)})
        if given.lint and figures.derived:
            sizes = (given.size // 4, given.size)
            rows[-1]["alarm"], rows[-1]["finding"] = ([x.message for x in linted(f, sizes, c).findings] for c in (0, 1))
        print(line(rows[-1]), flush=True)
        if given.save:
            given.save.write_text(json.dumps({"size": given.size, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    for why in missing.values():
        print(why)
    print(summary(rows))


def line(row: dict[str, Any]) -> str:
    """One function's figures."""
    kind = "JAX" if not row["derived"] else "regions" if row["left"] else "whole"
    counted = "" if row["operations"] is None else "{:,} -> {:,} operations, ".format(*row["operations"])
    lint = f", lint: {row['finding'] or ('refuted' if row['alarm'] else 'fine')}" if "finding" in row else ""
    return (
        f"{row['source']}: {kind}, {counted}{row['ratio']:.3g} of the time, first gradient "
        f"{row['first'][1] / row['first'][0]:.3g}, apart {row['apart']:.1g}{lint}"
    )


def summary(rows: Sequence[dict[str, Any]]) -> str:
    """A summary of all functions."""
    if not rows:
        return "no functions"
    timed = [row for row in rows if not row["same"]]
    slow = [f"{row['source']} {row['ratio']:.3g}" for row in rows if row["ratio"] > 1.1]
    lossy = [row["ratio"] for row in rows if row.get("finding")]
    refuted = [row["source"] for row in rows if row.get("alarm") and not row["finding"]]
    late = [f"{row['source']} {row['first'][1] / row['first'][0]:.3g}" for row in rows if ratio_of_first(row) > 2]
    return "\n".join(
        [
            f"{len(rows)} functions, {sum(row['derived'] > 0 for row in rows)} with parts that are derived, "
            f"{len(rows) - len(timed)} of which XLA makes the same code as for JAX's gradient",
            f"largest difference: {max(row['apart'] for row in rows):.2g} of the largest element",
            f"time by JAX's, geometric mean: {mean([row['ratio'] for row in rows]):.3g} of all, "
            f"{mean([row['ratio'] for row in timed]):.3g} where the code differs",
            f"slower than 1.1: {', '.join(slow) or 'none'}",
            f"where the linter finds a loss ({len(lossy)}): {mean(lossy):.3g}" if lossy else "the linter finds no loss",
            f"alarms that XLA's operations refute: {', '.join(refuted) or 'none'}",
            f"time to the first gradient by JAX's, geometric mean: {mean([ratio_of_first(row) for row in rows]):.3g}; "
            f"more than 2: {', '.join(late) or 'none'}",
        ]
    )


def page(rows: Sequence[dict[str, Any]]) -> str:
    """The summary, the functions with derived parts and their figures, and all functions by package."""
    lines = [summary(rows), "", "| function | derived | XLA's operations, jax.grad | derived | time | linter |"]
    lines.append("|---|---|---|---|---|---|")
    for row in rows:
        if row["derived"]:
            kind = "in parts" if row["left"] else "whole"
            theirs, ours = (f"{n:,}" for n in row["operations"]) if row["operations"] else ("", "")
            told = "" if "finding" not in row else row["finding"][0][:5] if row["finding"] else "fine"
            cells = [f"`{row['code']}`".replace(" | ", " of "), kind, theirs, ours, f"{row['ratio']:.2f}", told]
            lines.append(f"| {' | '.join(cells)} |")
    by_package: dict[str, list[str]] = {}
    for row in rows:
        package, _, name = row["source"].partition(".")
        by_package.setdefault(package, []).append(name)
    lines += ["", "| package | functions |", "|---|---|"]
    lines += [f"| {package} | {', '.join(dict.fromkeys(names))} |" for package, names in by_package.items()]
    return "\n".join(lines)


def ratio_of_first(row: dict[str, Any]) -> float:
    """The time to the first gradient divided by JAX's."""
    return row["first"][1] / row["first"][0]


def mean(found: Sequence[float]) -> float:
    """The geometric mean; 1 if there are no numbers."""
    return exp(sum(map(log, found)) / len(found)) if found else 1.0


if __name__ == "__main__":
    main()
