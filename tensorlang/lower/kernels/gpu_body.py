"""What one program of a kernel's grid does: accumulate in registers over the reduced tiles that it visits, then store.

    def kernel(A_ref, .., out_ref):
        places of the tile, and what doesn't change from one reduced tile to the next
        def step(number, carry, masked): ..     takes in one reduced tile; masks are left out unless `masked`
        loops over the tiles without masks, then over those with
        what is made of the accumulators, stored

Where a maximum m grows, sums of exp(a - m) are multiplied by exp(old m - new m).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tensorlang.language.affine import Index, atom_affine
from tensorlang.language.grammar import Expr, Extremum, Sum, Var, access
from tensorlang.language.predicates import TRUE
from tensorlang.lower.arrays.ir import Block, Written
from tensorlang.lower.arrays.values import Value, aligned
from tensorlang.lower.emit.python import ATOM, text
from tensorlang.lower.kernels.gpu_naming import Naming, listed
from tensorlang.lower.kernels.gpu_reads import Scope, spread
from tensorlang.lower.kernels.gpu_table import has_intervals
from tensorlang.lower.kernels.gpu_values import Reduced, Values
from tensorlang.lower.kernels.kernel import Accumulator, Axis, Kernel, Kind, Output, Role
from tensorlang.lower.kernels.operands import expressions_of
from tensorlang.lower.kernels.terms import reduction
from tensorlang.lower.kernels.text import written
from tensorlang.recursion import run

_SIGNS = {Kind.SUM: 0, Kind.MAX: 1, Kind.MIN: -1}


class Body:
    """The function that is each program: `written`, and whether it multiplies matrices."""

    def __init__(self, kernel: Kernel, naming: Naming) -> None:
        self._kernel = kernel
        self._naming = naming
        self._axes = {axis.index: axis for axis in kernel.axes}
        self._values = Values(self._axes, naming)
        self.written = self._write()
        self.multiplies = self._values.multiplies

    def _write(self) -> Block:
        kernel, naming, values = self._kernel, self._naming, self._values
        accumulators = kernel.accumulators
        values.announce(expressions_of(kernel), [acc.var for acc in accumulators])
        whole, scope = Block(), Scope(Block())
        names = [*naming.arrays.values(), *(["table"] if kernel.tiles else []), *naming.outputs.values()]
        whole.line(f"def kernel({', '.join(f'{name}_ref' for name in names)}):")
        whole.statements.append(scope.block)
        for k, axis in enumerate(kernel.of_role(Role.PARALLEL)):
            scope.block.line(f"{naming.numbers[axis.index]} = pl.program_id({k})")
            self._place(axis, naming.numbers[axis.index], scope)
        for axis in kernel.of_role(Role.WHOLE):
            scope.block.line(f"{naming.places[axis.index]} = lax.iota(jnp.int32, {naming.lengths[axis.index]})")
        last = scope
        if accumulators:
            step = Block()
            carried = self._step(step, scope)
            scope.block.line("")
            scope.block.statements += [*step.statements, ""]
            scope.closed = True
            self._loops(scope.block, carried)
            last = Scope(scope.block, frozenset(acc.var for acc in accumulators), scope)
            for acc, name in zip(accumulators, carried, strict=True):
                last.memo[_read(acc)] = self._held(acc, name)
        for output in kernel.outputs:
            self._store(output, last)
        return whole

    def _place(self, axis: Axis, number: str, scope: Scope) -> None:
        name = self._naming.places[axis.index]
        if axis.is_number:
            scope.block.line(f"{name} = {number}")
        else:
            length = self._naming.lengths[axis.index]
            scope.block.line(f"{name} = {number} * {length} + lax.iota(jnp.int32, {length})")

    def _held(self, acc: Accumulator, name: str) -> Value:
        return written(name, tuple(i for i in acc.axes if not self._axes[i].is_number))

    # Taking in tiles

    def _step(self, around: Block, scope: Scope) -> list[str]:
        """The function that takes in a tile; gives the names of the accumulators."""
        kernel, names = self._kernel, self._naming.names
        reduced = kernel.of_role(Role.REDUCED)
        growing = {acc.shift for acc in kernel.accumulators if acc.shift is not None}
        inner = Scope(Block(), frozenset({*(axis.index for axis in reduced), *growing}), scope)
        carried = [names.fresh_global(acc.var.name) for acc in kernel.accumulators]
        around.line(f"def step(number, carry{', masked' * (kernel.tiles is not None)}):")
        around.statements.append(inner.block)
        inner.block.line(f"{_unpacked(carried)} = carry")
        self._numbers(reduced, inner)
        scales: dict[Var, Value] = {}
        new = []
        for acc, name in zip(kernel.accumulators, carried, strict=True):
            held = self._held(acc, name)
            made = run(self._values.reduced(_taken_in(acc, self._axes, kernel.tiles is not None), inner))
            code = text(aligned(made, held.axes).node)
            if acc.kind is not Kind.SUM:
                code = f"jnp.{acc.kind.value}imum({name}, {code})"
            elif acc.shift is not None:
                code = f"{name} * {text(aligned(scales[acc.shift], held.axes).node)} + {code}"
            else:
                code = f"{name} + {code}"
            fresh = names.fresh_local(f"{name}_new")
            inner.block.line(f"{fresh} = {code}")
            new.append(fresh)
            if acc.var in growing:
                inner.memo[_read(acc)] = replace(held, node=Written(fresh, ATOM))
                scales[acc.var] = replace(held, node=Written(names.fresh_local("scale"), ATOM))
                inner.block.line(f"{text(scales[acc.var].node)} = _rescaling({name}, {fresh})")
        inner.block.line(f"return {listed(new)}")
        return carried

    def _numbers(self, reduced: tuple[Axis, ...], scope: Scope) -> None:
        """The places in the tile of this number, of which those of the last axis follow one another."""
        number = "number"
        for k, axis in enumerate(reduced):
            after = " * ".join(self._naming.count(a) for a in reduced[k + 1 :])
            if after:
                name = self._naming.numbers[axis.index]
                scope.block.line(f"{name}, number = lax.div(number, {after}), lax.rem(number, {after})")
                self._place(axis, name, scope)
            else:
                self._place(axis, number, scope)

    def _loops(self, block: Block, carried: list[str]) -> None:
        kernel, naming = self._kernel, self._naming
        block.line(f"carry = {listed([self._start(acc) for acc in kernel.accumulators])}")
        names = _unpacked(carried)
        if kernel.tiles is None:
            count = " * ".join(naming.count(axis) for axis in kernel.of_role(Role.REDUCED))
            block.line(f"{names} = lax.fori_loop(0, {count}, step, carry)")
            return
        row = ""
        for axis in kernel.tiles.axes:
            if axis.role is Role.PARALLEL:
                number = naming.numbers[axis.index]
                row = f"{f'({row})' if ' ' in row else row} * {naming.count(axis)} + {number}" if row else number
        block.line(f"row = {row or '0'}")
        if has_intervals(kernel.tiles):
            block.line("first, start, stop, last = [table_ref[row, k] for k in range(4)]")
            block.line("carry = lax.fori_loop(start, stop, lambda number, carry: step(number, carry, False), carry)")
            block.line("around = lambda k: jnp.where(first + k < start, first + k, stop - start + first + k)")
            block.line("count = (start - first) + (last - stop)")
            block.line(f"{names} = lax.fori_loop(0, count, lambda k, carry: step(around(k), carry, True), carry)")
        else:
            block.line("whole, count = table_ref[row, 0], table_ref[row, 1]")
            block.line("listed = lambda k: table_ref[row, 2 + k]")
            block.line("carry = lax.fori_loop(0, whole, lambda k, carry: step(listed(k), carry, False), carry)")
            block.line(f"{names} = lax.fori_loop(whole, count, lambda k, carry: step(listed(k), carry, True), carry)")

    def _start(self, acc: Accumulator) -> str:
        extents = self._naming.extents(self._held(acc, "").axes)
        if acc.kind is Kind.SUM:
            return f"jnp.zeros({extents}, jnp.float32)"
        return f"jnp.full({extents}, {'-' if acc.kind is Kind.MAX else ''}jnp.inf, jnp.float32)"

    def _store(self, output: Output, scope: Scope) -> None:
        values, naming = self._values, self._naming
        v = run(values.value(output.value, scope))
        axes = tuple(i for i in output.axes if not self._axes[i].is_number)
        code = text(aligned(v, axes).node)
        if v.axes != axes or v.weak:
            code = f"jnp.full({naming.extents(axes)}, {code}, jnp.float32)"
        at = [spread(values.place(atom_affine(i), scope), axes) for i in output.axes]
        ends = values.ends(axes, scope)
        mask = f", {text(aligned(values.joined(ends, '&', axes), axes).node)} if ragged else None" if ends else ""
        scope.block.line(f"_store({naming.outputs[output.var]}_ref, {listed(at)}, {code}{mask})")


def _taken_in(acc: Accumulator, axes: Mapping[Index, Axis], has_masks: bool) -> Reduced:
    """What an accumulator takes in of a tile; a sum in its value is part of its own."""
    sign = _SIGNS[acc.kind]
    over = [i for i, axis in axes.items() if axis.role is Role.REDUCED]
    factors: tuple[Expr, ...] = (acc.value,)
    if isinstance(acc.value, Sum | Extremum):
        inner = reduction(acc.value)
        if inner.sign == sign and inner.pred is TRUE:
            over += inner.indices
            factors = inner.factors
    return Reduced(sign, tuple(over), acc.pred, factors, "masked" if has_masks else "")


def _read(acc: Accumulator) -> Expr:
    return access(acc.var, *map(atom_affine, acc.axes))


def _unpacked(names: list[str]) -> str:
    return ", ".join(names) if len(names) > 1 else f"({names[0]},)"
