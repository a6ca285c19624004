"""The registry of scalar functions against the table of Functions.v: arities, costs, and transposed derivatives.

`python -m proofs.diff.functions` prints where the two differ.
"""

from __future__ import annotations

import math
import subprocess
import sys
from fractions import Fraction

from proofs.diff.compare import driver
from proofs.diff.dump import scalar_words
from tensorlang.language.functions import functions, power
from tensorlang.language.grammar import Const, ScalarFunction, Var
from tensorlang.language.types import R

IRRATIONAL = {
    "slope": (Fraction("1.1283791670955126"), 2 / math.sqrt(math.pi)),
    "minus_slope": (Fraction("-1.1283791670955126"), -2 / math.sqrt(math.pi)),
    "over_slope": (Fraction("0.8862269254527579"), math.sqrt(math.pi) / 2),
    "over_log2": (Fraction("1.4426950408889634"), 1 / math.log(2)),
    "over_log10": (Fraction("0.43429448190325176"), 1 / math.log(10)),
}
"""Numbers that the registry has to these digits; Functions.v has the numbers themselves."""

Row = tuple[int, int, list[list[str | Fraction]]]
"""Arity, cost, and the components of the transposed derivative, in prefix notation."""


def _normal(words: list[object]) -> list[str | Fraction]:
    """The words with numbers as fractions, however they were written."""
    read: list[str | Fraction] = []
    for word in map(str, words):
        try:
            read.append(Fraction(word))
        except ValueError:
            read += ["number", IRRATIONAL[word][0]] if word in IRRATIONAL else [word]
    return read


def registered(f: ScalarFunction) -> Row:
    """The row of f by the registry."""
    xs, y, t = tuple(Var(f"x{k}", R) for k in range(f.arity)), Var("y", R), Var("t", R)
    components = [scalar_words(e or Const(Fraction(0)), xs, y, t, computed=False) for e in f.transpose(xs, y, t)]
    return f.arity, f.cost, [_normal(words) for words in components]


def proved() -> dict[str, Row]:
    """The rows by the extracted program, by the function's name; a power is called "power" and its exponent."""
    table: dict[str, Row] = {}
    printed = subprocess.run([driver(), "functions"], capture_output=True, text=True, check=True).stdout
    for line in printed.splitlines():
        name, arity, cost, *components = line.split(";")
        table[name] = (int(arity), int(cost), [_normal(list(words.split())) for words in components])
    return table


def differences() -> list[str]:
    """The functions on which the two differ."""
    table = proved()
    powers = {name: power(Fraction(name.removeprefix("power "))) for name in table if name.startswith("power ")}
    mine = {name: registered(f) for name, f in (functions() | powers).items()}
    assert all(abs(float(digits) - x) < 1e-15 for digits, x in IRRATIONAL.values())
    return [
        f"{name}: {mine.get(name)}, by the proofs {table.get(name)}"
        for name in sorted(mine.keys() | table.keys())
        if mine.get(name) != table.get(name)
    ]


def main() -> int:
    """Print the differences; return 1 if there are any."""
    found = differences()
    print("\n".join(found) if found else f"{len(proved())} functions are the same")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
