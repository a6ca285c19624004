"""The command for functions of real code: what their paths cost, in value and derivatives.

    python -m benchmarks.functions [--out FILE]

Special functions, activations, robust losses, splines, solvers and equations of state, written as their authors would
(`tests/support/real_functions.py`). For each, over random arguments of its domain: the operations of the value, how
many times that the value with all partial derivatives costs, inputs and outputs counted on both sides, at most, by dual
numbers and by the adjoint of the path, and the most trips of loops.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import click

from tensorlang.language.grammar import Var
from tensorlang.language.types import R
from tensorlang.scalars.black_box import derived, differentiable, unbounded
from tensorlang.scalars.count import run
from tensorlang.surface.loops import read
from tensorlang.surface.terms import Term
from tests.support.real_functions import FUNCTIONS

POINTS = 200


def row(function: Any, domain: tuple[tuple[float, float], ...]) -> dict[str, Any]:
    """What the paths of one function cost."""
    params = function.body.__code__.co_varnames[: function.body.__code__.co_argcount]
    code = read(function, {p: Term(Var(p, R)) for p in params}, function.bound).code
    modes = ["dual"] if unbounded(code.body) else ["dual", "reverse"]
    ways = {mode: derived(code, mode) for mode in modes}
    rng = random.Random(0)
    ends = len(differentiable(code)) + 1
    spent: list[int] = []
    ratios: dict[str, float] = dict.fromkeys(modes, 0.0)
    trips = 0
    for _ in range(POINTS):
        point = [rng.uniform(*sides) for sides in domain][: len(code.params)]
        value = run(code, point)
        spent.append(value.operations)
        trips = max(trips, value.trips)
        for mode, way in ways.items():
            ratio = (run(way, point).operations + ends) / (value.operations + ends)
            ratios[mode] = max(ratios[mode], ratio)
    return {"arguments": len(code.params), "least": min(spent), "most": max(spent), "trips": trips, **ratios}


@click.command()
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Write the rows as JSON.")
def main(out: Path | None) -> None:
    """Functions of real code: what their paths cost."""
    rows = {function.name: row(function, domain) for function, domain in FUNCTIONS}
    click.echo(f"{'':26} {'arguments':>9} {'operations':>12} {'trips':>6} {'dual':>6} {'adjoint':>8}")
    for name, found in rows.items():
        spent = f"{found['least']} to {found['most']}" if found["least"] < found["most"] else str(found["most"])
        back = f"{found['reverse']:8.2f}" if "reverse" in found else f"{'':8}"
        shown = f"{found['arguments']:>9} {spent:>12} {found['trips']:>6} {found['dual']:6.2f} {back}"
        click.echo(f"{name:26} {shown}")
    best = [min(found["dual"], found.get("reverse", found["dual"])) for found in rows.values()]
    back = [found["reverse"] for found in rows.values() if "reverse" in found]
    click.echo(
        f"{len(rows)} functions; at most {max(back):.2f} times by the adjoint, {max(best):.2f} by the better way"
    )
    if out is not None:
        out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
