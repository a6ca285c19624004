"""The cost table: where one way of computing overtakes another on this machine.

Generated code chooses when it is traced, by sizes and by these numbers, which it carries along as a dict `COSTS`. The
defaults were measured with jax 0.10.2 on two cores of an AMD EPYC. `tensorlang tune` measures them on the user's
machine and writes them to a file of the user's, by which all programs are lowered from then on.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tensorlang.errors import CostTableError

VARIABLE = "TENSORLANG_COSTS"
"""The environment variable that says where the table is, if not in the user's configuration directory."""

NEVER = 2**62


@dataclass(frozen=True)
class Threshold:
    """A number of units from which, or up to which, one way of computing is the best."""

    default: int
    unit: str
    meaning: str
    rounds_differently: bool = False


THRESHOLDS: dict[str, Threshold] = {
    "slice_taps": Threshold(32, "taps", "up to this many, a correlation along one axis is one sum of shifted slices"),
    "fused_terms": Threshold(49, "terms", "more are not added in one expression: XLA's fused loops fall off a cliff"),
    "sum_outputs": Threshold(6, "outputs", "up to this many, a correlation of few terms is a sum for each"),
    "sum_terms": Threshold(2**16, "terms", "a correlation with no more of them has few"),
    "conv_outputs": Threshold(12, "outputs", "up to this many, a correlation with long taps is XLA's own convolution"),
    "interleaved_terms": Threshold(8, "terms", "up to this many, sums are computed while they are interleaved"),
    "fft_taps": Threshold(512, "taps", "from there on, a correlation along one axis is done by FFTs", True),
    "fft_square": Threshold(256, "taps", "the same, where there are no more than 4 times as many outputs", True),
    "fft_taps_2d": Threshold(256, "taps", "from there on, a correlation along two axes is done by FFTs", True),
    "block_rows": Threshold(128, "rows", "the least height of a block of a triangle"),
    "blocks": Threshold(8, "blocks", "a triangle is cut into at most this many"),
    "cut_rows": Threshold(64, "rows", "the least height of a block of an array that is zero outside a triangle"),
    "cuts": Threshold(16, "blocks", "an array that is zero outside a triangle is held in at most this many"),
    "block_product": Threshold(256, "terms", "from there on, a product with a triangle is cut like one of matrices"),
    "block_product_rows": Threshold(256, "rows", "the least height of a block of a triangle in a product of matrices"),
    "block_products": Threshold(4, "blocks", "a triangle in a product of matrices is cut into at most this many"),
    "block_inner": Threshold(32, "columns", "from there on, the part of a block without a mask is computed apart"),
    "window_rows": Threshold(16, "rows", "the least height of a block of a band"),
    "band_cells": Threshold(2**14, "elements", "up to this many, an array that is zero outside a band is one mask"),
    "running_block": Threshold(32, "elements", "running sums are products with triangles of ones of this size"),
    "chunk": Threshold(64, "rows", "the least height of a chunk of sums of three factors up to where they stand"),
    "decays_in_turn": Threshold(
        8, "numbers", "up to this many kept for a row, what decays is summed a row after the other"
    ),
    "joint_sums": Threshold(2**14, "elements", "up to this many, several sums over the same range are one loop"),
    "conv_channels": Threshold(16, "channels in times out", "from there on, XLA's own convolution is the best"),
}
"""All thresholds by name. The ways that round differently are Fourier transforms."""

COSTS: dict[str, int] = {name: t.default for name, t in THRESHOLDS.items()}
"""The defaults, by which the functions in `emit/library` go where they are not a copy in generated code."""


def path() -> Path:
    """The file that holds the user's table, if there is one."""
    if given := os.environ.get(VARIABLE):
        return Path(given)
    import click  # which takes some milliseconds

    return Path(click.get_app_dir("tensorlang")) / "costs.json"


def load() -> dict[str, int]:
    """The table that holds for this user: the defaults, and what the user's file says otherwise.

    Names without a threshold come from another version, and are ignored. Raises `CostTableError` if the file can't be
    read, or holds no such table.
    """
    where = path()
    try:
        text = where.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return dict(COSTS)
    except (OSError, UnicodeDecodeError) as error:
        raise CostTableError(f"{where}: the cost table can't be read: {error}") from error
    hint = "`tensorlang tune` writes a new one; without the file the defaults hold"
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CostTableError(f"{where}: the cost table is no JSON: {error}", hint=hint) from error
    if not isinstance(found, dict):
        raise CostTableError(f"{where}: the cost table must be an object, found {type(found).__name__}", hint=hint)
    for name, value in found.items():
        if name in THRESHOLDS and (type(value) is not int or value < 0):
            raise CostTableError(f"{where}: {name} must be a whole number of {THRESHOLDS[name].unit}", hint=hint)
    return {name: found.get(name, default) for name, default in COSTS.items()}


def save(table: Mapping[str, int]) -> Path:
    """Write `table`, some or all of the thresholds, to the user's file. Gives its path.

    Raises `CostTableError` if that can't be done.
    """
    where = path()
    try:
        where.parent.mkdir(parents=True, exist_ok=True)
        where.write_text(json.dumps(dict(table), indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise CostTableError(f"{where}: the cost table can't be written: {error}") from error
    return where


def exact(table: Mapping[str, int]) -> dict[str, int]:
    """`table` without the ways that round differently from a sum of products."""
    return {name: NEVER if THRESHOLDS[name].rounds_differently else value for name, value in table.items()}


def code(table: Mapping[str, int]) -> list[str]:
    """`table` as lines of Python that define `COSTS`, with what each number means."""
    lines = ["# Where one way of computing overtakes another.", "COSTS = {"]
    for name, value in table.items():
        t = THRESHOLDS[name]
        unit, number = (t.unit, str(value)) if value < NEVER else ("never", f"2**{NEVER.bit_length() - 1}")
        lines.append(f'    "{name}": {number},  # {unit}: {t.meaning}')
    return [*lines, "}"]
