"""The command: runs a suite, shows its table, and writes JSON, Markdown and plots."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import click
from tqdm import tqdm

from benchmarks.case import Case
from benchmarks.limits import Machine, limit, machine
from benchmarks.measure import FAILURES, ROUNDS, Row, derive_time, measure, reason
from benchmarks.peers import OURS, PEERS, QUICK
from benchmarks.programs import CASES
from benchmarks.report import save_growth, save_rows
from benchmarks.scaling import Growth, grow
from benchmarks.statements import COUNTS, FAMILIES, growing

_SUITES = ("structured", "seeds", "dense")


@click.command()
@click.argument("suite", type=click.Choice([*_SUITES, "scaling", "all"]), default="all")
@click.option("--quick", is_flag=True, help="Only the smallest size of each program, and the most important peers.")
@click.option("--only", default="", help="Only the programs whose names contain this.")
@click.option(
    "--peer", "peers", multiple=True, type=click.Choice(list(PEERS)), help="Only these peers; may be repeated."
)
@click.option("--budget", default=4.0, show_default=True, help="Seconds of rounds for each row; 15 rounds at most.")
@click.option("--counts-only", is_flag=True, help="Scaling without times: operations and memory, on a busy machine.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("out/benchmarks"), show_default=True)
def main(
    suite: str, quick: bool, only: str, peers: tuple[str, ...], budget: float, counts_only: bool, out: Path
) -> None:
    """Time gradients beside those of others, in one process and in turns."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # else PyTorch's idle threads spin while others are timed
    out.mkdir(parents=True, exist_ok=True)
    chosen = [case for case in CASES if only in case.name]
    if not chosen:
        raise click.BadParameter(f"no program's name contains {only!r}", param_hint="--only")
    who = peers or (QUICK if quick else tuple(PEERS))
    for name in _SUITES if suite == "all" else (suite,):
        if name != "scaling" and (cases := [c for c in chosen if c.suite == name]):
            measured = machine()
            click.echo(save_rows(name, _rows(cases, who, quick, budget, measured), out, measured))
    if suite == "scaling" or (suite == "all" and not quick):
        structured = [case for case in chosen if case.suite == "structured"]
        growths = [_grown(case, None if counts_only else budget / 4) for case in _named(structured, "scaling")]
        counts = () if counts_only else COUNTS[:1] if quick else COUNTS
        programs = growing(counts)
        statements = list(tqdm(programs, desc="statements", total=len(counts) * len(FAMILIES)))
        click.echo(save_growth(growths, statements, out))


def _rows(cases: list[Case], peers: tuple[str, ...], quick: bool, budget: float, given: Machine) -> list[Row]:
    work = [(case, sizes) for case in cases for sizes in (case.sizes[:1] if quick else case.sizes)]
    found: list[Row] = []
    bar = tqdm(work, desc=cases[0].suite)
    for case, sizes in bar:
        bar.set_postfix_str(case.name)
        row = measure(case, sizes, peers, ROUNDS, budget / 4 if quick else budget)
        try:
            if sizes is case.sizes[0]:
                row.deriving = derive_time(case)
            if sizes is case.sizes[-1]:
                row.limit = limit(case, sizes, given)
        except FAILURES as error:
            row.missing.setdefault(OURS, reason(error))
        found.append(row)
    return found


def _named(cases: list[Case], what: str) -> Iterator[Case]:
    """`cases`, with a progress bar that says which it is."""
    bar = tqdm(cases, desc=what)
    for case in bar:
        bar.set_postfix_str(case.name)
        yield case


def _grown(case: Case, budget: float | None) -> Growth:
    try:
        return grow(case, budget)
    except FAILURES as error:
        return Growth(case.name, case.grows, missing={"all": reason(error)})


if __name__ == "__main__":
    main()
