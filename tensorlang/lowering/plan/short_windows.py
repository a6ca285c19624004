"""Indices that conditions confine to a few places, starting at one that other indices or data give."""

from __future__ import annotations

from collections.abc import Iterator

from tensorlang.language.affine import Affine, Index, atom_affine
from tensorlang.language.predicates import NonNegative, conjuncts, substitute
from tensorlang.normal.contraction import inner_solution
from tensorlang.normal.ssa import Contraction

WIDEST = 32
"""The widest window that counts as few places: one place takes as long as adding up several elements."""


def short_windows(x: Contraction, i: Index) -> Iterator[tuple[Affine, Affine]]:
    """The starts and widths of the windows to which conditions confine the index `i` of `x`."""
    where = substitute(x.pattern.pred, inner_solution(x).values)
    bounds = [q.value for q in conjuncts(where) if isinstance(q, NonNegative)]
    at = atom_affine(i)
    lows = [at - a for a in bounds if a.coefficient(i) == 1 and i not in (at - a).free]
    highs = [at + a for a in bounds if a.coefficient(i) == -1 and i not in (at + a).free]
    for low in lows:
        widths = [high - low + 1 for high in highs if (high - low).is_constant]
        width = min(widths, key=lambda n: n.constant, default=None)
        if width is not None and 0 < width.constant <= WIDEST:
            yield low, width
