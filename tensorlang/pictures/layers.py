"""Directed graphs drawn in layers, arrows pointing down: Sugiyama's method, in its simplest form.

A node's layer is the length of the longest path to it from above; sources move down to their first readers. An arrow
that crosses layers has a bend in each of them. Nodes of a layer are ordered by the mean places of their neighbours, in
a few passes down and up, and then spaced in the same way, each as wide as its label.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, TypeVar

_SWEEPS = 8
_RELAXATIONS = 80
_BEND = 0.5
_GAP = 0.4

T = TypeVar("T", bound=Hashable)
Point = tuple[float, float]


@dataclass(frozen=True)
class GraphLayout(Generic[T]):
    """The places of nodes, and the points of arrows in each layer, including their ends.

    Layers are 1 apart, the first at 0 and the others below it.
    """

    places: Mapping[T, Point]
    arrows: Mapping[tuple[T, T], tuple[Point, ...]]


def layered(nodes: Sequence[T], edges: Collection[tuple[T, T]], widths: Mapping[T, float]) -> GraphLayout[T]:
    """Places for `nodes`, each after those from which `edges` lead to it."""
    rank = _ranks(nodes, edges)
    number = {x: k for k, x in enumerate(nodes)}
    width = [widths[x] for x in nodes]
    layers: list[list[int]] = [[] for _ in range(1 + max(rank.values(), default=-1))]
    for x in nodes:
        layers[rank[x]].append(number[x])
    chains: dict[tuple[T, T], list[int]] = {}
    for x, y in edges:
        chain = [number[x]]
        for layer in layers[rank[x] + 1 : rank[y]]:
            chain.append(len(width))
            layer.append(len(width))
            width.append(_BEND)
        chains[x, y] = [*chain, number[y]]
    above: list[list[int]] = [[] for _ in width]
    below: list[list[int]] = [[] for _ in width]
    for chain in chains.values():
        for u, v in pairwise(chain):
            below[u].append(v)
            above[v].append(u)
    _order(layers, above, below)
    across = _spread(layers, above, below, width)
    level = {v: -float(k) for k, layer in enumerate(layers) for v in layer}
    places = {x: (across[k], level[k]) for x, k in number.items()}
    arrows = {edge: tuple((across[v], level[v]) for v in chain) for edge, chain in chains.items()}
    return GraphLayout(places, arrows)


def _ranks(nodes: Sequence[T], edges: Collection[tuple[T, T]]) -> dict[T, int]:
    rank = dict.fromkeys(nodes, 0)
    readers: dict[T, list[T]] = {x: [] for x in nodes}
    sources = set(nodes)
    for x, y in edges:
        readers[x].append(y)
        sources.discard(y)
    for x in nodes:
        for y in readers[x]:
            rank[y] = max(rank[y], rank[x] + 1)
    for x in sources:
        rank[x] = min((rank[y] - 1 for y in readers[x]), default=0)
    return rank


def _order(layers: list[list[int]], above: list[list[int]], below: list[list[int]]) -> None:
    """Order each layer by the mean places of the neighbours in the previous layer, going down and up in turn."""
    place: dict[int, float] = {}
    for layer in layers:
        place.update((v, float(k)) for k, v in enumerate(layer))
    for sweep in range(_SWEEPS):
        links, passes = (above, layers) if sweep % 2 == 0 else (below, layers[::-1])
        for layer in passes:
            layer.sort(key=lambda v: _mean([place[u] for u in links[v]], place[v]))
            place.update((v, float(k)) for k, v in enumerate(layer))


def _spread(layers: list[list[int]], above: list[list[int]], below: list[list[int]], width: list[float]) -> list[float]:
    """The horizontal place of each node: near the nodes linked to it, and apart from others in its layer."""
    across = [0.0] * len(width)
    for sweep in range(_RELAXATIONS):
        for layer in layers if sweep % 2 == 0 else layers[::-1]:
            wanted = [_mean([across[u] for u in (*above[v], *below[v])], across[v]) for v in layer]
            apart = [(width[u] + width[v]) / 2 + _GAP for u, v in pairwise(layer)]
            right = _pushed(wanted, apart)
            left = [-x for x in _pushed([-x for x in wanted[::-1]], apart[::-1])][::-1]
            for v, a, b in zip(layer, left, right, strict=True):
                across[v] = (a + b) / 2
    return across


def _pushed(wanted: list[float], apart: list[float]) -> list[float]:
    """Each place as wanted, or as far to the right as the one before requires."""
    found = wanted[:1]
    for x, distance in zip(wanted[1:], apart, strict=True):
        found.append(max(x, found[-1] + distance))
    return found


def _mean(values: list[float], default: float) -> float:
    return sum(values) / len(values) if values else default


def label_place(arrow: Sequence[Point], is_only: bool) -> tuple[float, float, str]:
    """The place of an arrow's label, and which end of the label is there: near the arrow's start if no other arrow
    starts there, else near its end, on the side away from the arrow."""
    (x0, y0), (x1, y1) = (arrow[0], arrow[1]) if is_only else (arrow[-1], arrow[-2])
    side = "left" if (x1 <= x0) == is_only else "right"
    return x0 + (0.07 if side == "left" else -0.07), y0 + 0.22 * (y1 - y0), side
