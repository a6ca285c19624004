"""Simplification of tensor SSA, and reading it back as a program."""

from tensorlang.language.function import Function
from tensorlang.normal import normal_ssa
from tensorlang.normal.ssa import SSA
from tensorlang.normal.tidy import tidy
from tensorlang.simplify.assemble import assemble
from tensorlang.simplify.compact import compact
from tensorlang.simplify.factorise import factorise
from tensorlang.simplify.narrow import narrow
from tensorlang.simplify.read_back import read_back

__all__ = ["simplify", "simplify_ssa"]


def simplify(f: Function) -> Function:
    """`f` as one would write it: no copies, no idle sums, everything stored on its support; never dearer."""
    return read_back(simplify_ssa(normal_ssa(f)))


def simplify_ssa(s: SSA) -> SSA:
    """`s` without copies and zeros, and with its statements stored on their supports."""
    s = tidy(s)
    for change in (assemble, narrow, compact, factorise, assemble):
        changed = change(s)
        s = s if changed.statements == s.statements else tidy(changed)
    return s
