"""Which indices of each statement are mapped, how each array lies on the mesh, and what has to be sent for it.

An index is mapped like the axis that it makes if the layout of that is asked for, else as `sharding` says of its size,
else like the axes that it reads. Of several indices of one statement that would be mapped along the same axes only one
is: that for which the least has to be sent. Sums over a mapped index are added up over the devices; if an index of the
result is to be mapped along the same axes, each device only gets its block of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice, product

from tensorlang.language.affine import Affine, IndexArray, atom_affine
from tensorlang.language.function import Function
from tensorlang.language.grammar import Sum
from tensorlang.lowering.mesh.asked import Along, Asked, wanted
from tensorlang.lowering.mesh.hoist import hoisted
from tensorlang.lowering.mesh.needs import Merged, Needs, needed, stored
from tensorlang.lowering.mesh.statements import IndexBinder, MeshProgram, MeshStatement, Read, Scan, program
from tensorlang.lowering.plan.dependence import Key
from tensorlang.lowering.plan.statements import leaves_of
from tensorlang.simplification import simplify

_CHOICES = 64
"""The most ways to map the indices of a statement that are compared."""


@dataclass(frozen=True)
class MeshStep:
    """A statement, which of its indices are mapped, and what it needs of arrays.

    Its value on a device is a part of a sum over devices along `reduced`; along the axes of the result that are
    `scattered`, each device only gets the block that it stores. All arrays that the statements of a stage read are
    there before any of these is computed.
    """

    statement: MeshStatement
    scan: Scan
    mapped: Mapping[IndexBinder, Along]
    needs: Merged
    reduced: Along
    scattered: Mapping[int, Along]
    stage: int


@dataclass
class MeshPlan:
    """How a program runs on a mesh: its statements in order, and for each array the axes along which it is stored."""

    program: MeshProgram
    asked: Asked
    steps: list[MeshStep] = field(default_factory=list)
    shapes: dict[Key, tuple[Affine, ...]] = field(default_factory=dict)
    along: dict[Key, tuple[Along, ...]] = field(default_factory=dict)

    def stored(self, array: Key) -> Needs:
        """The part of an array that each device stores."""
        return stored(self.along[array], self.shapes[array])

    @property
    def stages(self) -> list[list[MeshStep]]:
        """The steps of each stage."""
        count = 1 + max((step.stage for step in self.steps), default=-1)
        return [[step for step in self.steps if step.stage == k] for k in range(count)]

    @property
    def sends_choices(self) -> bool:
        """Whether a stage looks up indices that an earlier one chooses, although devices only send real numbers."""
        made = {step.statement.key: step.stage for step in self.steps if isinstance(step.statement.array, IndexArray)}
        return any(made.get(array, step.stage) < step.stage for step in self.steps for array in step.needs.found)


def plan(f: Function, asked: Asked, sizes: Mapping[str, int] | None = None) -> MeshPlan:
    """`f` on a mesh as `asked`; its products are ordered by what they cost at `sizes`, as by `simplify`."""
    simplified = simplify(f, **(sizes or {}))
    return _Planner(program(simplified), asked, f).plan


class _Planner:
    def __init__(self, p: MeshProgram, asked: Asked, f: Function) -> None:
        self.plan = MeshPlan(p, asked, shapes=dict(p.shapes))
        lying = wanted(f, asked)
        for (x, path), sizes in p.shapes.items():
            self.plan.along[x, path] = lying.parameters.get((x.name, path)) or ((),) * len(sizes)
        self.made: dict[Key, int] = {key: 0 for key in p.shapes}  # the stage from which on an array is there
        self.reduced: set[Key] = set()
        self.seeds: dict[Key, tuple[Along, ...]] = {}
        for s in p.statements:
            sizes = tuple(b.size for b in s.own)
            self.seeds[s.key] = lying.named.get((s.array.name, sizes)) or ((),) * len(sizes)
        for key, along in zip(leaves_of(p.results), lying.results, strict=True):
            if key in self.seeds:
                self.seeds[key] = tuple(a or b for a, b in zip(along, self.seeds[key], strict=True))
        waiting = list(reversed(p.statements))
        while waiting:
            s = waiting.pop()
            scan = Scan(s)
            axes = self._wanted(scan)
            several = hoisted(scan, {binder for binder, along in axes.items() if along})
            if several[-1] is s:
                self._add(scan, axes)
            else:
                waiting += reversed(several)

    def _wanted(self, scan: Scan) -> dict[IndexBinder, Along]:
        """The axes along which each index of a gen or a sum would be mapped."""
        s, asked = scan.statement, self.plan.asked
        seeds = self.seeds.get(s.key) or ((),) * len(s.own)
        found: dict[IndexBinder, Along] = {}
        for binder, along in zip(s.own, seeds, strict=True):
            found[binder] = along or asked.of_size(binder.size)
        for e, binder in scan.binders.items():
            if isinstance(e, Sum):
                found[binder] = asked.of_size(binder.size)
        for plain in (True, False):
            for read in scan.reads:
                for a, along in zip(read.at, self.plan.along[read.array], strict=True):
                    moved = self._follows(a, along, read, found, plain)
                    if moved is not None:
                        found[moved] = along
        return found

    def _follows(
        self, a: Affine, along: Along, read: Read, found: Mapping[IndexBinder, Along], plain: bool
    ) -> IndexBinder | None:
        """The index that is to be mapped along `along`, since an axis that lies so is read at `a`."""
        if not along or (plain and (len(a.indices) != 1 or a is not atom_affine(a.indices[0]))):
            return None
        at = [read.scope[i] for i in a.indices if i in read.scope and a.coefficient(i)]
        if any(found.get(binder) == along for binder in at):
            return None
        return next((binder for binder in at if binder in found and not found[binder]), None)

    def _add(self, scan: Scan, axes: Mapping[IndexBinder, Along]) -> None:
        s = scan.statement
        mapped = self._chosen(scan, axes)
        needs = self._needs(scan, mapped)
        own = {binder: mapped[binder] for binder in s.own if binder in mapped}
        summed = [along for binder, along in mapped.items() if binder not in own]
        scattered: dict[int, Along] = {}
        for k, binder in enumerate(s.own):
            if axes[binder] in summed and axes[binder] not in scattered.values():
                scattered[k] = axes[binder]
        reduced = tuple(name for along in summed if along not in scattered.values() for name in along)
        stage = max((self._there(array, n) for array, several in needs.found.items() for n in several), default=0)
        self.plan.steps.append(MeshStep(s, scan, mapped, needs, reduced, scattered, stage))
        self.plan.shapes[s.key] = tuple(b.size for b in s.own)
        self.plan.along[s.key] = tuple(own.get(b, scattered.get(k, ())) for k, b in enumerate(s.own))
        self.made[s.key] = stage
        if summed:
            self.reduced.add(s.key)

    def _there(self, array: Key, needs: Needs) -> int:
        """The first stage at which this part of an array can be there."""
        if array in self.plan.program.shapes:
            return 0
        return self.made[array] + (array in self.reduced or needs != self.plan.stored(array))

    def _chosen(self, scan: Scan, axes: Mapping[IndexBinder, Along]) -> dict[IndexBinder, Along]:
        """The indices that are mapped: no two along the same axis."""
        groups: dict[Along, list[IndexBinder]] = {}
        for binder, along in axes.items():
            if along:
                groups.setdefault(along, []).append(binder)
        ways = []
        for way in islice(product(*groups.values()), _CHOICES):
            mapped: dict[IndexBinder, Along] = {}
            for binder, along in zip(way, groups, strict=True):
                if not any(set(along) & set(other) for other in mapped.values()):
                    mapped[binder] = along
            ways.append(mapped)
        return min(ways, key=lambda mapped: self._sent(scan, mapped))

    def _sent(self, scan: Scan, mapped: Mapping[IndexBinder, Along]) -> int:
        """A measure of what has to be sent: for each array its number of axes, doubled unless only neighbours send
        it."""
        total = 0
        for array, several in self._needs(scan, mapped).found.items():
            for needs in several:
                for here, there in zip(self.plan.stored(array), needs, strict=True):
                    if here is not None and here != there:
                        near = there is not None and there.along == here.along and there.size is here.size
                        total += len(needs) * (1 if near else 2)
        summed = [binder for binder in mapped if binder not in scan.statement.own]
        return total + 2 * len(scan.statement.own) * len(summed) + len(summed)

    def _needs(self, scan: Scan, mapped: Mapping[IndexBinder, Along]) -> Merged:
        merged = Merged()
        for read in scan.reads:
            merged.add(read.array, needed(read, mapped))
        return merged
