"""All benchmark programs, in one list."""

from __future__ import annotations

from benchmarks.case import Case
from benchmarks.programs import correlations, data, dense, diagonals, graphs, prefixes, seeds, supports, triangles

CASES: tuple[Case, ...] = (
    *diagonals.CASES,
    *correlations.CASES,
    *triangles.CASES,
    *data.CASES,
    *graphs.CASES,
    *prefixes.CASES,
    *supports.CASES,
    *seeds.CASES,
    *dense.CASES,
)
"""Structured programs first, then those of the other papers, then dense ones."""


def named(name: str) -> Case:
    """The case of this name. Raises `KeyError` if there is none."""
    return {case.name: case for case in CASES}[name]
