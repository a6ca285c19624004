"""Rows that are too long to be held from end to end, as statements each of which takes one pass over them.

    before    out[i, j] = .. sum j1:m. a[i, j1] ..              one kernel; j is WHOLE
    after     row[i] = sum j1:m. a[i, j1];  out[i, j] = .. row[i] ..

Inner reductions come first, and values without an axis along a row are made together with its last reductions.
Statements over the same tiles become one kernel again (`grouping`): a softmax takes two, as its sum is accumulated
along with the maximum.
"""

from __future__ import annotations

from tensorlang.language.affine import atom_affine
from tensorlang.language.grammar import Expr, Extremum, Sum, Var, access, gen
from tensorlang.language.rebuilt import rewrite
from tensorlang.language.types import R, array
from tensorlang.lowering.kernels.ir import Kernel, Role
from tensorlang.lowering.kernels.statements import StoredStatement
from tensorlang.lowering.kernels.terms import free, nodes, renamed
from tensorlang.lowering.plan.dependence import variable


def rows_apart(kernel: Kernel) -> list[StoredStatement]:
    """The statements that make the outputs of a kernel of rows, in order; none if it accumulates or unrolls."""
    held = {axis.extent: axis.index for axis in reversed(kernel.of_role(Role.WHOLE))}
    if kernel.accumulators or kernel.of_role(Role.UNROLLED) or not held:
        return []
    own = {axis.index: axis.extent for axis in kernel.of_role(Role.PARALLEL)}
    rows: dict[Expr, Expr] = {}

    def apart(_: Expr, new: Expr) -> Expr:
        if not isinstance(new, Sum | Extremum) or not free(new) <= own.keys():
            return new
        if not any(isinstance(e, Sum | Extremum) for e in nodes(new.body)):  # one name for equal reductions
            new = renamed(new, {new.index: held[new.size]})
        if new not in rows:
            axes = [i for i in own if i in free(new)]
            var = Var(f"{kernel.name}_row{len(rows) + 1}", array(tuple(own[i] for i in axes), R))
            rows[new] = access(var, *map(atom_affine, axes))
        return rows[new]

    values = [rewrite(output.value, lambda _: None, apart) for output in kernel.outputs]
    reduced = {row: e for e, row in rows.items()}
    extents = {axis.index: axis.extent for axis in kernel.axes}
    found = []
    for row, e in reduced.items():
        at = [(i, n) for i, n in own.items() if i in free(e)]
        x = variable(row)
        assert x is not None
        found.append(StoredStatement(x, tuple(at), e, gen(at, e)))
    for output, value in zip(kernel.outputs, values, strict=True):
        with_rows = value if not own.keys() >= set(output.axes) else rewrite(value, reduced.get)
        at = [(i, extents[i]) for i in output.axes]
        found.append(StoredStatement(output.var, tuple(at), with_rows, gen(at, with_rows)))
    return found
