"""Kernels as Pallas code for TPUs.

The grid goes over the tiles of PARALLEL axes, then over those of REDUCED ones, in order; where tiles are ruled out it
goes over a table of those that are visited, which is fetched before (`PrefetchScalarGridSpec`) and read by the index
maps. Blocks are fetched ahead by Pallas. What is accumulated stays in VMEM, in float32, until an output's last tile.
Arrays are filled up with zeros to whole tiles; of the results, what is beyond their ends is not written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tensorlang.language.affine import Affine, Atom, Index, Size, atom_affine, constant, render
from tensorlang.language.comparisons import chains
from tensorlang.language.grammar import Const, Expr, Sum, Var, access, children
from tensorlang.language.predicates import (
    TRUE,
    And,
    Equal,
    NonNegative,
    Or,
    Predicate,
    Related,
    conjunction,
    conjuncts,
)
from tensorlang.language.show import expr_text
from tensorlang.language.types import shape
from tensorlang.lower.code import SUM, Block, Value, aligned, ordered, times
from tensorlang.lower.names import Names
from tensorlang.lower.pallas.kernel import Accumulator, Axis, Kernel, Kind, Output, Role
from tensorlang.lower.pallas.operands import (
    Array,
    Dimension,
    How,
    Operand,
    expressions_of,
    lookups_of,
    operand,
    relations_of,
)
from tensorlang.lower.pallas.terms import Reduction, conditions, over, reads, reduction
from tensorlang.lower.pallas.tpu_values import Flagged, Scope, Values
from tensorlang.lower.profile import variable
from tensorlang.recursion import run

RESERVED = frozenset({"np", "pl", "pltpu", "interpret", "step", "steps", "masked", "kernel", "take_in", "flags"})
_LONGEST = 100
_START = {Kind.SUM: "0.0", Kind.MAX: "-3e38", Kind.MIN: "3e38"}


class TpuKernel:
    """The function that runs one kernel: `code` defines it under `name`, for `arrays`, the sizes and the dtype.

    Outputs in `narrow` are of the program's dtype, the others float32.
    """

    def __init__(
        self, kernel: Kernel, arrays: Mapping[Array, str], sizes: Mapping[Size, str], name: str, narrow: frozenset[Var]
    ) -> None:
        self.name = name
        self._kernel = kernel
        self._narrow = narrow
        self._named = arrays
        self._sizes = sizes
        names = self._names = Names(frozenset({*RESERVED, *arrays.values(), *sizes.values(), name}))
        self._block = {a.index: names.lasting(f"{a.index.name}_block") for a in kernel.axes if a.block > 1}
        self._count = {a.index: names.lasting(f"{a.index.name}_tiles") for a in kernel.axes if a.is_tiled}
        self._tile = {a.index: names.lasting(f"{a.index.name}_tile") for a in kernel.axes if a.is_tiled}
        self._start = {i: names.lasting(f"{i.name}_first") for i in self._block}
        self._place = {a.index: names.lasting(a.index.name) for a in kernel.axes if a.is_number}
        tiles = kernel.tiles
        listed = tiles is not None and (tiles.some is not TRUE or bool(tiles.data))
        self._listed = tiles.axes if tiles is not None and listed else ()
        self._grid = [a for a in kernel.axes if a.is_tiled and a not in self._listed]
        self._inputs = self._all_inputs()
        self.arrays = tuple(dict.fromkeys(found.array for found, _ in self._inputs.values()))
        if tiles is not None:
            self.arrays = tuple(dict.fromkeys([*self.arrays, *(r.relation for r in tiles.data)]))
        plain = [(o.var, tuple(map(atom_affine, o.axes))) for o in kernel.outputs]
        self._outputs = [(operand(kernel, var, at), names.lasting(f"{var.name}_ref")) for var, at in plain]
        self._scratch = {acc.var: (self._kept(acc), names.lasting(f"{acc.var.name}_ref")) for acc in kernel.accumulators}
        self.code = "\n".join(self._written().lines())

    def _all_inputs(self) -> dict[object, tuple[Operand, str]]:
        """What is read, by what `Values.read` asks for."""
        own = {acc.var for acc in self._kernel.accumulators}
        found: dict[object, Operand] = {}
        for x, at in reads(*expressions_of(self._kernel)):
            if x not in own:
                found[x, at] = operand(self._kernel, x, at)
        for lookup in lookups_of(self._kernel):
            found[lookup] = operand(self._kernel, lookup.array, lookup.at)
        for related in relations_of(self._kernel):
            known = operand(self._kernel, related.relation, related.arguments)
            if known.axes:
                found[related] = known
        return {key: (x, self._names.lasting(f"{self._named[x.array]}_ref")) for key, x in found.items()}

    def _kept(self, acc: Accumulator) -> Operand:
        """How an accumulator lies: a vector as arrays of rows have the axis."""
        axes = [a for a in self._kernel.axes if a.index in acc.axes]
        zero, one = constant(0), constant(1)
        outer = [a for a in axes if a.role is Role.UNROLLED]
        inner = [next(a for a in axes if a.index is i) for i in acc.axes]
        inner = [a for a in inner if not a.is_number]
        found = [Dimension(How.WHOLE, atom_affine(a.index), zero, a.extent) for a in outer]
        found += [Dimension(How.WHOLE, atom_affine(a.index), zero, a.extent, a) for a in inner]
        if len(inner) == 1:
            place = len(found) if self._is_sublane(inner[0].index) else len(found) - 1
            found.insert(place, Dimension(How.ABSENT, zero, zero, one))
        return Operand(acc.var, tuple(found))

    def _is_sublane(self, i: Index) -> bool:
        return any(
            x.dimensions[-2].axis is not None and x.dimensions[-2].axis.index is i for x, _ in self._inputs.values()
        )

    # The code.

    def _written(self) -> Block:
        block = Block()
        sizes = list(self._sizes.values())
        arguments = [self._named[x] for x in self.arrays] + sizes + ["dtype", "interpret"]
        block.line(f"def {self.name}({', '.join(arguments)}):")
        body = Block()
        block.parts.append(body)
        self._explained(body)
        for axis in self._kernel.axes:
            if axis.block > 1:
                body.line(f"{self._block[axis.index]} = {self._length_of_block(axis)}")
        for axis in self._kernel.axes:
            if axis.block > 1:
                extent, b = self._integer(axis.extent, tight=True), self._block[axis.index]
                body.line(f"{self._count[axis.index]} = -(-{extent} // {b})")
        if self._listed:
            self._table(body)
        body.line("")
        self._kernel_function(body)
        body.line("")
        self._call(body)
        return block

    def _explained(self, body: Block) -> None:
        lines = []
        for x in (*self._kernel.accumulators, *self._kernel.outputs):
            at = ", ".join(i.name for i in x.axes)
            sign = {Kind.SUM: "+=", Kind.MAX: "max=", Kind.MIN: "min="}[x.kind] if isinstance(x, Accumulator) else "="
            text = f"{x.var.name}[{at}] {sign} {' '.join(expr_text(x.value).split())}"
            lines.append(text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "...")
        body.line(f'"""{lines[0]}' + ('"""' if len(lines) == 1 else ""))
        for line in lines[1:]:
            body.line(line)
        if len(lines) > 1:
            body.line('"""')

    def _length_of_block(self, axis: Axis) -> str:
        """The extent, or the block if that is less; where whole rows are in registers, not too many of them."""
        extent = self._integer(axis.extent)
        held = [a for a in self._kernel.axes if a.role is Role.WHOLE]
        if self._kernel.accumulators or not held or not self._is_sublane(axis.index):
            return f"min({axis.block}, {extent})"
        arrays = len(self._inputs) + len(self._outputs)
        width = " * ".join(f"({self._integer(a.extent)})" if len(a.extent.terms) > 1 else self._integer(a.extent) for a in held)
        return f"_rows({extent}, {axis.block}, {arrays} * {width})"

    def _table(self, body: Block) -> None:
        """The table of the tiles that are visited."""
        tiles = self._kernel.tiles
        assert tiles is not None
        counts = [self._count_of(a) for a in tiles.axes]
        names = [self._tile[a.index] for a in tiles.axes]
        body.line(f"tiles = ({', '.join(counts)}{',' * (len(counts) == 1)})")
        body.line(f"{', '.join(names)}{',' * (len(names) == 1)} = np.indices(tiles)")
        numbers: dict[Atom, str] = dict(zip(tiles.numbers, names, strict=True))
        body.line(f"some = np.broadcast_to({self._scalar(tiles.some, numbers)}, tiles)")
        body.line(f"full = ~np.broadcast_to({self._scalar(tiles.part, numbers)}, tiles)")
        outer = sum(a.role is Role.PARALLEL for a in tiles.axes)
        for related in tiles.data:
            blocks = [self._block.get(a.indices[0], "1") for a in related.arguments]
            axes = tuple(a.indices[0] for a in related.arguments)
            name = self._named[related.relation]
            call = f"_any_and_all({name}, ({', '.join(blocks)}{',' * (len(blocks) == 1)}))"
            body.line(f"{name}_some, {name}_full = {call}")
            order = tuple(a.index for a in tiles.axes)
            for word in ("some", "full"):
                part = aligned(Value(f"{name}_{word}", axes), order)
                body.line(f"{word} = {word} & {part.code}")
        if tiles.data:
            body.line(f"steps, count = _steps_of_data(some, full, {outer})")
        else:
            body.line(f"steps = _steps(some, full, {outer})")

    def _count_of(self, axis: Axis) -> str:
        return self._count[axis.index] if axis.block > 1 else self._integer(axis.extent)

    def _kernel_function(self, body: Block) -> None:
        refs = [name for _, name in (*self._inputs.values(), *self._outputs, *self._scratch.values())]
        body.line(f"def kernel({', '.join([*(['steps'] if self._listed else []), *refs])}):")
        inner = Block()
        body.parts.append(inner)
        axes = {axis.index: axis for axis in self._kernel.axes}
        codes: dict[Atom, str] = {**self._sizes, **self._place}
        lengths = {i: self._block[i] if i in self._block else self._integer(a.extent) for i, a in axes.items() if not a.is_number}
        operands = {**self._inputs}
        for acc in self._kernel.accumulators:
            operands[acc.var, tuple(map(atom_affine, acc.axes))] = self._scratch[acc.var]
        writer = Values(self._names, axes, codes, self._start, lengths, operands, _shared(self._kernel))
        self._numbers(inner)
        if not self._kernel.accumulators:
            for out in self._kernel.outputs:
                self._store(out, writer, Scope(inner), inner)
            return
        conditions = self._conditions()
        self._when(inner, conditions["first"], self._cleared())
        self._take_in(inner, writer, conditions)
        stored = Block()
        scope = Scope(stored)
        for out in self._kernel.outputs:
            self._store(out, writer, scope, stored)
        inner.line("")
        self._when(inner, conditions["last"], stored)

    def _numbers(self, inner: Block) -> None:
        """The numbers of the tiles, and where they start."""
        used = _used(self._kernel)
        for axis in self._kernel.axes:
            if not axis.is_tiled or axis.index not in used:
                continue
            code = self._tile_code(axis, [f"pl.program_id({k})" for k in range(len(self._grid) + 1)], "steps")
            if axis.is_number:
                inner.line(f"{self._place[axis.index]} = {code}")
            else:
                inner.line(f"{self._start[axis.index]} = {code} * {self._block[axis.index]}")

    def _tile_code(self, axis: Axis, grid: list[str], steps: str) -> str:
        """The number of an axis' tile, from the numbers of the grid."""
        if axis in self._listed:
            return f"{steps}[{self._listed.index(axis)}, {grid[self._step]}]"
        return grid[self._grid_order.index(axis)]

    @property
    def _grid_order(self) -> list[Axis | None]:
        """The axes of the grid; None for the table's."""
        outer: list[Axis | None] = [a for a in self._grid if a.role is Role.PARALLEL]
        inner: list[Axis | None] = [a for a in self._grid if a.role is Role.REDUCED]
        return [*outer, *([None] if self._listed else []), *inner]

    @property
    def _step(self) -> int:
        return self._grid_order.index(None)

    def _conditions(self) -> dict[str, str]:
        """When an output's first and last tile is, and a tile without masks and with them; "" is always, "no" never."""
        tiles = self._kernel.tiles
        if self._listed:
            flags = f"steps[{len(self._listed)}, pl.program_id({self._step})]"
            part = tiles is not None and tiles.part is not TRUE
            return {
                "first": f"{flags} & 1 != 0",
                "last": f"{flags} & 2 != 0",
                "full": f"{flags} & 12 == 12" if part or (tiles is not None and tiles.data) else "no",
                "border": f"{flags} & 12 == 4",
            }
        ids = {a.index: f"pl.program_id({self._grid_order.index(a)})" for a in self._grid}
        reduced = [a for a in self._grid if a.role is Role.REDUCED]
        first = [f"({ids[a.index]} == 0)" for a in reduced]
        last = [f"({ids[a.index]} == {self._count_of(a)} - 1)" for a in reduced]
        found = {"first": " & ".join(first), "last": " & ".join(last), "full": "", "border": "no"}
        if tiles is not None:
            numbers: dict[Atom, str] = {t: ids[a.index] for a, t in zip(tiles.axes, tiles.numbers, strict=True)}
            found["border"] = self._scalar(tiles.part, numbers)
            found["full"] = f"jnp.logical_not({found['border']})" if tiles.part is not TRUE else "no"
            found["border"] = "" if tiles.part is TRUE else found["border"]
        return found

    def _when(self, block: Block, condition: str, body: Block) -> None:
        if condition:
            block.line(f"@pl.when({condition})")
            block.line("def _():")
            block.parts.append(body)
        else:
            block.parts += body.parts
        block.line("")

    def _cleared(self) -> Block:
        block = Block()
        for acc in self._kernel.accumulators:
            _, ref = self._scratch[acc.var]
            block.line(f"{ref}[...] = jnp.full({ref}.shape, {_START[acc.kind]}, jnp.float32)")
        return block

    def _take_in(self, inner: Block, writer: Values, conditions: Mapping[str, str]) -> None:
        """What is done for each tile, without masks and with them."""
        inner.line("def take_in(masked):")
        block, none, flagged = Block(), Block(), Block()
        scope = Scope(Block(), {}, Flagged(none, Scope(flagged)))
        for acc in self._kernel.accumulators:
            self._accumulate(acc, writer, scope)
        block.parts += none.parts
        if flagged.parts:
            block.line("if masked:")
            block.parts.append(flagged)
        block.parts += scope.block.parts
        inner.parts.append(block)
        inner.line("")
        for name, flag in (("full", False), ("border", True)):
            if conditions[name] == "":
                inner.line(f"take_in({flag})")
            elif conditions[name] != "no":
                inner.line(f"pl.when({conditions[name]})(lambda: take_in({flag}))")

    def _accumulate(self, acc: Accumulator, writer: Values, scope: Scope) -> None:
        axes = {axis.index: axis for axis in self._kernel.axes}
        tiles = [(a.index, a.extent) for a in self._kernel.of_role(Role.REDUCED) if not a.is_number]
        value, loops = acc.value, [axes[i] for i in acc.axes if axes[i].role is Role.UNROLLED]
        while isinstance(value, Sum) and axes[value.index].role is Role.UNROLLED:
            loops.append(axes[value.index])
            value = value.body
        pred = conjunction(p for p in conjuncts(acc.pred) if not isinstance(p, Related) or writer.axes_of(p))
        if acc.kind is Kind.SUM:
            inner = reduction(value) if isinstance(value, Sum) else reduction(Sum(Index("_"), constant(1), value))
            joined = isinstance(value, Sum) and not tiles
            factors = inner.factors if joined or not isinstance(value, Sum) else (value,)
            pred = conjunction([pred, inner.pred]) if joined or not isinstance(value, Sum) else pred
            r = Reduction(0, (*tiles, *(inner.binders if joined else ())), pred, factors)
        else:
            r = Reduction(1 if acc.kind is Kind.MAX else -1, tuple(tiles), pred, (value,))
        block, within = scope.block, scope
        for axis in loops:
            block.line(f"for {self._place[axis.index]} in range({self._integer(axis.extent)}):")
            inside = Block()
            block.parts.append(inside)
            block, within = inside, within.inner(inside)
        v = ordered(run(writer.reduced(r, within)), self._scratch[acc.var][0].axes)
        here = access(acc.var, *map(atom_affine, acc.axes))
        old = writer.read(here)
        target, fitted = self._fitted(acc, old, v)
        if acc.kind is Kind.SUM and acc.shift is None:
            block.line(f"{target} += {fitted}")
        elif acc.kind is Kind.SUM:
            scale = within.memo["scale", acc.shift]
            _, fitted = self._fitted(acc, old, _sum(times(old, scale, writer.order), v))
            block.line(f"{target} = {fitted}")
        else:
            name = acc.var.name
            before = writer.named(old, within, f"{name}_before")
            word = "maximum" if acc.kind is Kind.MAX else "minimum"
            now = writer.named(Value(f"jnp.{word}({before.code}, {v.code})", old.axes), within, f"{name}_now")
            block.line(f"{target} = {self._fitted(acc, old, now)[1]}")
            if any(other.shift is acc.var for other in self._kernel.accumulators):
                scale = Value(f"jnp.exp({before.code} - {now.code})", old.axes)
                within.memo["scale", acc.var] = writer.named(scale, within, f"{name}_scale")
                within.memo[here] = now

    def _fitted(self, acc: Accumulator, old: Value, v: Value) -> tuple[str, str]:
        """The place of an accumulator, and a value as it is written there."""
        found, ref = self._scratch[acc.var]
        return _target(found, ref, self._place), _spread(found, aligned(v, old.axes))

    def _store(self, out: Output, writer: Values, scope: Scope, block: Block) -> None:
        axes = {axis.index: axis for axis in self._kernel.axes}
        found, ref = self._outputs[[o.var for o in self._kernel.outputs].index(out.var)]
        for axis in [axes[i] for i in out.axes if axes[i].role is Role.UNROLLED]:
            block.line(f"for {self._place[axis.index]} in range({self._integer(axis.extent)}):")
            inside = Block()
            block.parts.append(inside)
            block, scope = inside, scope.inner(inside)
        v = ordered(run(writer.value(out.value, scope)), found.axes)
        code = _spread(found, aligned(v, found.axes))
        if v.axes != found.axes:
            lengths = [self._length(d) for d in found.dimensions if d.how is not How.NUMBER]
            code = f"jnp.broadcast_to({code}, ({', '.join(lengths)}))"
        block.line(f"{_target(found, ref, self._place)} = {code}.astype({ref}.dtype)")

    # The call.

    def _call(self, body: Block) -> None:
        grid = ["count" if a is None else self._count_of(a) for a in self._grid_order]
        tiles = self._kernel.tiles
        if self._listed and not (tiles is not None and tiles.data):
            grid[self._step] = "steps.shape[1]"
        parallel = [a is not None and a.role is Role.PARALLEL for a in self._grid_order]
        meaning = ", ".join(f'"{"parallel" if p else "arbitrary"}"' for p in parallel)
        comma = "," * (len(grid) == 1)
        specs = {
            "grid": f"({', '.join(grid)}{comma})",
            "in_specs": _listing([self._spec(x) for x, _ in self._inputs.values()]),
            "out_specs": _listing([self._spec(x) for x, _ in self._outputs]),
            "scratch_shapes": _listing([self._memory(x) for x, _ in self._scratch.values()]),
        }
        body.line("return pl.pallas_call(")
        arguments = Block()
        arguments.line("kernel,")
        shapes = [f"jax.ShapeDtypeStruct({self._shape(x)}, {self._dtype(x)})" for x, _ in self._outputs]
        arguments.line(f"out_shape={_listing(shapes)},")
        if self._listed:
            arguments.line("grid_spec=pltpu.PrefetchScalarGridSpec(")
            inner = Block()
            arguments.parts.append(inner)
            inner.line("num_scalar_prefetch=1,")
        else:
            inner = arguments
        for name, code in specs.items():
            inner.line(f"{name}={code},")
        if self._listed:
            arguments.line("),")
        arguments.line(f"compiler_params=pltpu.CompilerParams(dimension_semantics=({meaning}{comma})),")
        arguments.line("interpret=interpret,")
        body.parts.append(arguments)
        given = [self._given(x) for x, _ in self._inputs.values()]
        body.line(f")({', '.join([*(['jnp.asarray(steps)'] if self._listed else []), *given])})")

    def _spec(self, x: Operand) -> str:
        if all(d.how is How.ABSENT for d in x.dimensions):
            return "pl.BlockSpec(memory_space=pltpu.SMEM)"
        grid = [self._tile[a.index] if a is not None else "step" for a in self._grid_order]
        block, at = [], []
        for d in x.dimensions:
            block.append("None" if d.how is How.NUMBER else self._length(d))
            if d.how is How.TILE and d.axis is not None:
                at.append(self._tile_code(d.axis, grid, "steps"))
            elif d.how is How.NUMBER:
                tiles = {a.index: self._tile_code(a, grid, "steps") for a in self._kernel.axes if a.is_tiled}
                codes: dict[Atom, str] = {**self._sizes, **tiles}
                at.append(render(d.at - d.low, lambda atom: codes[atom], " * "))
            else:
                at.append("0")
        parameters = ", ".join([*grid, *(["steps"] if self._listed else [])])
        return f"pl.BlockSpec(({', '.join(block)}), lambda {parameters}: ({', '.join(at)}))"

    def _length(self, d: Dimension) -> str:
        if d.axis is not None and d.axis.index in self._block:
            return self._block[d.axis.index]
        return self._integer(d.length)

    def _memory(self, x: Operand) -> str:
        return f"pltpu.VMEM(({', '.join(self._length(d) for d in x.dimensions)}), jnp.float32)"

    def _shape(self, x: Operand) -> str:
        return f"({', '.join(self._integer(d.length) for d in x.dimensions)})"

    def _dtype(self, x: Operand) -> str:
        return "dtype" if x.array in self._narrow else "jnp.float32"

    def _given(self, x: Operand) -> str:
        """An array with the dimensions that it lacks, filled up to whole tiles."""
        name = self._named[x.array]
        if any(d.how is How.ABSENT for d in x.dimensions):
            name += f"[{', '.join('None' if d.how is How.ABSENT else ':' for d in x.dimensions)}]"
        declared = iter(shape(x.array.type)[0] if isinstance(x.array, Var) else x.array.sizes)
        sizes = [constant(1) if d.how is How.ABSENT else next(declared) for d in x.dimensions]
        tiled = [d.how is How.TILE for d in x.dimensions]
        exact = all(d.low is constant(0) and d.length is n for d, n in zip(x.dimensions, sizes, strict=True))
        if exact and not any(tiled):
            return name
        lengths = []
        for d in x.dimensions:
            if d.how is How.TILE and d.axis is not None and d.axis.block > 1:
                lengths.append(f"{self._count[d.axis.index]} * {self._block[d.axis.index]}")
            else:
                lengths.append(self._integer(d.length))
        starts = ", ".join(self._integer(d.low) for d in x.dimensions)
        return f"_filled({name}, ({starts}), ({', '.join(lengths)}))"

    def _integer(self, a: Affine, tight: bool = False) -> str:
        code = render(a, lambda atom: self._sizes[atom] if isinstance(atom, Size) else atom.name, " * ")
        return f"({code})" if tight and len(a.terms) + bool(a.constant) > 1 else code

    def _scalar(self, p: Predicate, numbers: Mapping[Atom, str]) -> str:
        """A condition on numbers of tiles and sizes."""
        match p:
            case And(parts):
                return " & ".join(f"({self._scalar(q, numbers)})" for q in parts) or "True"
            case Or(parts):
                return " | ".join(f"({self._scalar(q, numbers)})" for q in parts) or "False"
            case Equal() | NonNegative():
                (chain,) = chains([p], lambda atom: (isinstance(atom, Size), atom.name))
                codes: dict[Atom, str] = {**self._sizes, **numbers}
                left, right = (render(a, lambda atom: codes[atom], " * ") for a in chain.sides)
                return f"{left} {'==' if chain.operators[0] == '=' else chain.operators[0]} {right}"
        raise AssertionError("tiles are listed by conditions without quantifiers and data")

def _sum(a: Value, b: Value) -> Value:
    return Value(f"{a.code} + {aligned(b, a.axes).code}", a.axes, SUM)


def _target(x: Operand, ref: str, loops: Mapping[Index, str]) -> str:
    """The part of a block that is written at once."""
    index = []
    for d in x.dimensions:
        if d.how is How.NUMBER:
            continue
        unrolled = [loops[i] for i in d.at.indices if i in loops]
        index.append(unrolled[0] if unrolled and d.axis is None else ":")
    return f"{ref}[{'...' if all(part == ':' for part in index) else ', '.join(index)}]"


def _spread(x: Operand, v: Value) -> str:
    """A vector as the row or column as which it is written."""
    dimensions = [d for d in x.dimensions if d.axis is not None or d.how is How.ABSENT]
    if not any(d.how is How.ABSENT for d in dimensions):
        return v.code if v.code.isidentifier() else f"({v.code})" if v.level < 3 else v.code
    index = ", ".join("None" if d.how is How.ABSENT else ":" for d in dimensions)
    return f"{v.code}[{index}]" if v.level == 3 else f"({v.code})[{index}]"


def _listing(codes: list[str]) -> str:
    return f"[{', '.join(codes)}]"


def _shared(kernel: Kernel) -> frozenset[Expr]:
    """The expressions with operations that occur more than once."""
    counts: Counter[Expr] = Counter()
    stack = expressions_of(kernel)
    while stack:
        part = stack.pop()
        counts[part] += 1
        if counts[part] == 1 and variable(part) is None:
            stack += children(part)
    return frozenset(e for e, count in counts.items() if count > 1 and not isinstance(e, Const))


def _used(kernel: Kernel) -> set[Index]:
    """The tiled indices whose values the code of a kernel mentions."""
    preds = [acc.pred for acc in kernel.accumulators] + conditions(*expressions_of(kernel))
    return {i for p in preds for q in conjuncts(p) if not isinstance(q, Related) for i in over(q)}
