"""The collectives of a program that XLA has compiled, read from its text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import combinations
from math import prod

import numpy as np

from tensorlang.lowering.mesh.asked import Along
from tensorlang.lowering.mesh.collectives import Sent
from tensorlang.measure.hlo import Instruction, Shape, read_module

_KINDS = {
    "all-gather": "all_gather",
    "all-reduce": "psum",
    "all-to-all": "all_to_all",
    "collective-permute": "ppermute",
    "reduce-scatter": "psum_scatter",
}
_LISTED = re.compile(r"(?:replica_groups|source_target_pairs)=\{(\{[\d,{} ]*\})\}")
_COUNTED = re.compile(r"replica_groups=\[(\d+),(\d+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_NAMED = re.compile(r"replica_groups=mesh\[([^\]]*)\] \{([^}]*)\}")
_CHAIN = re.compile(r'\bchain_id="(\d+)"')

Group = tuple[int, ...]


def sent_by(text: str, devices: Mapping[str, int]) -> list[Sent]:
    """The collectives in the text of a compiled program, as returned by `Compiled.as_text()` of JAX, for a mesh with
    these numbers of `devices` along its axes, in the order of the devices for which it was compiled.

    The axes of a collective are empty if its groups don't differ in a proper set of axes. Raises `ValueError` if it is
    no such text.
    """
    found = []
    chains: set[str] = set()  # asynchronous ones are written where they start, continue and end
    for instructions in read_module(text).computations.values():
        for instruction in instructions.values():
            kind = _KINDS.get(instruction.opcode.removesuffix("-start"))
            chain = _CHAIN.search(instruction.attributes)
            if kind is not None and (chain is None or chain[1] not in chains):
                chains.update([chain[1]] if chain else [])
                along = _along(list(_groups(instruction.attributes)), devices)
                found += [Sent(kind, along, instruction.name, s.elements, s.bytes) for s in _results(instruction)]
    return found


def _results(instruction: Instruction) -> tuple[Shape, ...]:
    """The arrays that a device receives; the result of a start instruction contains its operands as well."""
    shapes, operands = instruction.shapes, len(instruction.operands)
    if instruction.opcode.endswith("-start") and len(shapes) >= 2 * operands:
        return shapes[operands : 2 * operands]
    return shapes


def _groups(attributes: str) -> Iterator[Group]:
    """The devices that take part together, as numbers."""
    if listed := _LISTED.search(attributes):
        for group in re.findall(r"\{([\d,]+)\}", listed[1]):
            yield tuple(int(d) for d in group.split(","))
    elif counted := _COUNTED.search(attributes):
        dims = [int(n) for n in counted[3].split(",")]
        order = [int(k) for k in counted[4].split(",")] if counted[4] else list(range(len(dims)))
        ids = np.arange(prod(dims)).reshape(dims).transpose(order).reshape(int(counted[1]), int(counted[2]))
        yield from (tuple(map(int, row)) for row in ids)
    elif named := _NAMED.search(attributes):  # from JAX 0.12 on: mesh['x'=4,'y'=2] {'y'}
        extents = {name: int(n) for name, n in re.findall(r"'(\w+)'=(\d+)", named[1])}
        chosen = re.findall(r"'(\w+)'", named[2])
        order = [k for k, name in enumerate(extents) if name not in chosen]
        order += [k for k, name in enumerate(extents) if name in chosen]
        grid = np.arange(prod(extents.values())).reshape(tuple(extents.values())).transpose(order)
        yield from (tuple(map(int, row)) for row in grid.reshape(-1, prod(extents[name] for name in chosen)))


def _along(groups: list[Group], devices: Mapping[str, int]) -> Along:
    """The fewest axes of the mesh in which the devices of each group differ."""
    places = np.stack(np.unravel_index(np.arange(prod(devices.values())), tuple(devices.values())), 1)
    names = list(devices)
    for count in range(1, len(names) + 1):
        for axes in combinations(range(len(names)), count):
            others = [k for k in range(len(names)) if k not in axes]
            if all((places[list(group)][:, others] == places[group[0], others]).all() for group in groups):
                return tuple(names[k] for k in axes)
    return ()
