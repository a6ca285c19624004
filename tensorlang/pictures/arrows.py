"""Programs in tensor SSA as graphs, and beside them their adjoints, with the arrows reversed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from tensorlang.derivatives.derivation import Derivation
from tensorlang.derivatives.transcript import DerivationNames
from tensorlang.language.function import Function
from tensorlang.language.show import expr_text
from tensorlang.normal import normal_ssa
from tensorlang.normal.as_program import read
from tensorlang.normal.ssa import Constant, Input, Statement, operands
from tensorlang.pictures.canvas import (
    BLUE,
    GREEN,
    INK,
    ORANGE,
    PURPLE,
    SMALL,
    cut,
    described,
    dress,
    head,
    new_axes,
    new_figure,
)
from tensorlang.pictures.graphs import (
    DETAIL,
    KINDS,
    Called,
    Edge,
    Graph,
    GraphNode,
    Item,
    description,
    graph_of,
    legend,
    roomy,
)
from tensorlang.pictures.layers import GraphLayout, Point, label_place, layered
from tensorlang.pipeline import Wrt, derive
from tensorlang.simplification import simplify_ssa

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LETTER = 0.1
_HALF = 0.27
_LAYER = 0.95
_COLOURS = {"input": BLUE, "data": BLUE, "map": PURPLE, "addition": GREEN, "contraction": ORANGE, "choice": PURPLE}
_UNCHANGED = "unchanged"
_KEY = 0.24


def _width(n: GraphNode) -> float:
    return max(_LETTER * max(len(n.name) + 1, 0.75 * len(n.detail) + 1), 0.5)


def program_graph(f: Function, /, ax: Axes | None = None) -> Axes:
    """The statements of `f`, simplified and in tensor SSA, with an arrow from each to those that read it.

    An arrow says at which indices and under which bracket it is read. Constants are not drawn; four and more
    statements of the same form, with operands and readers of the same form, are one node. Of more than 40 nodes those
    nearest the result are drawn.

    >>> ax = tl.pictures.program_graph(tl.parse("f(x: [n]R) = sum i:n. sin(x[i])"))
    >>> print(ax.get_label())
    The statements of f, from its parameters down to its result. 3 nodes. X1 reads x; X2 reads X1.
    """
    s = simplify_ssa(normal_ssa(f))
    numbers = {x: f"X{k}" for k, x in enumerate(s.statements)}

    def called(x: Statement) -> str:
        return expr_text(read(x, {})) if isinstance(x, Input) else s.names.get(x, numbers[x])

    graph = graph_of(s, called)
    layout = layered(list(graph.nodes), graph.edges, roomy(graph, {x: _width(n) for x, n in graph.nodes.items()}))
    key = _key(graph.nodes)
    ax = ax or new_axes(*_inches(layout, graph.nodes, graph.edges, key))
    _draw(ax, layout, graph.nodes, graph.edges, key)
    head(ax, f.name, graph.note)
    described(ax, f"The statements of {f.name}, from its parameters down to its result. {description(graph)}")
    return ax


def adjoint_graphs(f: Function, wrt: Wrt = None, /, ax: tuple[Axes, Axes] | None = None) -> Figure:
    """The graph of `f`, and beside it that of its adjoint: each statement's cotangent in the statement's place, and an
    arrow wherever the derivation passes a cotangent on, the same arrows turned round.

    A cotangent says which values of the program it reads. What does not depend on `wrt` has none, and is grey on the
    left. Raises `ScopeError` if `wrt` names anything but a real-valued parameter.

    >>> figure = tl.pictures.adjoint_graphs(tl.parse("f(x: [n]R) = sum i:n. sin(x[i])"))
    >>> [ax.get_title(loc="left") for ax in figure.axes]
    ['f', 'its adjoint by x']
    """
    d = derive(f, wrt)
    names = DerivationNames(d)

    def called(x: Statement) -> str:
        return expr_text(names.expr(x))

    cotangents, passed = _backwards(d)
    graph = graph_of(d.program, called)
    back = {(x, y): "" for x, y in graph.edges if x in cotangents and _passed(graph, x, y, passed)}
    nodes = {x: n if x in cotangents else replace(n, kind=_UNCHANGED) for x, n in graph.nodes.items()}
    turned = {x: _cotangent(d, x, cotangents, called, n) for x, n in nodes.items() if x in cotangents}
    widths = {x: max(_width(n), _width(turned[x]) if x in turned else 0) for x, n in nodes.items()}
    layout = layered(list(nodes), graph.edges, roomy(graph, widths))
    by = ", ".join(x.name for x in d.wrt)
    key = _key(nodes) | ({f"does not depend on {by}": INK} if len(turned) < len(nodes) else {})
    if ax is None:
        width, height = _inches(layout, nodes, graph.edges, key)
        figure = new_figure(2 * width, height)
        ax = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
        for made in ax:
            dress(made)
    left, right = ax
    _draw(left, layout, nodes, graph.edges, key)
    _draw(right, layout, turned, back, key, turned=True)
    head(left, f.name, graph.note)
    head(right, f"its adjoint by {by}", " " if graph.note else "")
    described(left, f"The statements of {f.name}, from its parameters down to its result. {description(graph)}")
    described(
        right,
        f"The cotangents of the same statements by {by}, in their places, with arrows from the result's up to the "
        f"parameters': {', '.join(n.name for n in turned.values())}.",
    )
    return left.get_figure(root=True)  # type: ignore[return-value]


def _passed(graph: Graph, x: Item, y: Item, passed: Collection[tuple[Statement, Statement]]) -> bool:
    """Whether a cotangent was passed from `y` to `x`, or between siblings of these."""
    return any((b, a) in passed for a in graph.nodes[x].of for b in graph.nodes[y].of)


def _backwards(d: Derivation) -> tuple[dict[Item, Statement], set[tuple[Statement, Statement]]]:
    """The cotangent of each statement that has one, and the pairs of statements between which cotangents were
    passed."""
    cotangents: dict[Item, Statement] = {}
    passed: set[tuple[Statement, Statement]] = set()
    for step in d.steps:
        if step.rule.number in ("6.17", "6.19"):
            cotangents.update((product.right, product.left) for product in step.before)
        if step.rule.number in ("6.26", "6.27", "6.28", "6.29"):
            passed.update((product.right, after.right) for product in step.before for after in step.after)
    return cotangents, passed


def _cotangent(
    d: Derivation, x: Item, cotangents: Mapping[Item, Statement], called: Called, node: GraphNode
) -> GraphNode:
    """The text at the cotangent of `x`: its name, and the values of the program in it."""
    value = cotangents[x]
    own = node.name if len(node.of) > 1 else called(x)  # type: ignore[arg-type]
    name = called(value) if isinstance(value, Input) else cut(f"{own}_bar", DETAIL)
    first = next(y for y, other in cotangents.items() if other is value)
    if first is not x:
        detail = f"= {called(value) if isinstance(value, Input) else called(first) + '_bar'}"  # type: ignore[arg-type]
        return replace(node, name=name, detail=detail)
    program, ends = set(d.program.statements), set(cotangents.values())
    values: dict[str, None] = {}
    stack, seen = list(operands(value)), set()
    while stack:
        y = stack.pop()
        if y in seen or y in ends or isinstance(y, Constant):
            continue
        seen.add(y)
        if y in program:
            values.setdefault(called(y))
        else:
            stack += operands(y)
    return replace(node, name=name, detail=cut(f"reads {', '.join(sorted(values))}" if values else "", DETAIL))


def _line(kind: str) -> Literal["-", "--"]:
    """The line style for boxes of a kind, or its name in a legend: dashed for data, which have no differential."""
    return "--" if kind in ("data", "choice", KINDS["data"], KINDS["choice"]) else "-"


def _key(nodes: Mapping[Item, GraphNode]) -> dict[str, str]:
    """The meanings of the colours."""
    return {text: _COLOURS[kind] for kind, text in legend(n.kind for n in nodes.values()).items()}


def _inches(
    layout: GraphLayout[Item], nodes: Mapping[Item, GraphNode], edges: Mapping[Edge, str], key: Collection[str]
) -> tuple[float, float]:
    left, right, depth = _extent(layout, nodes, edges, key)
    return min(max(right - left + 0.3, 2.2), 14), min(_LAYER * (depth + 1) + _KEY * len(key) + 0.4, 20)


def _extent(
    layout: GraphLayout[Item], nodes: Mapping[Item, GraphNode], edges: Mapping[Edge, str], key: Collection[str]
) -> tuple[float, float, float]:
    places = layout.places
    left = min((places[x][0] - _width(n) / 2 for x, n in nodes.items()), default=0)
    right = max((places[x][0] + _width(n) / 2 for x, n in nodes.items()), default=1)
    bends = [x for points in layout.arrows.values() for x, _ in points]
    labels = [max(places[x][0], places[y][0]) + 0.8 * _LETTER * len(text) for (x, y), text in edges.items()]
    words = [left + 0.4 + 0.8 * _LETTER * len(text) for text in key]
    return min([left, *bends]), max([right, *bends, *labels, *words]), max((-y for _, y in places.values()), default=0)


def _draw(
    ax: Axes,
    layout: GraphLayout[Item],
    nodes: Mapping[Item, GraphNode],
    edges: Mapping[Edge, str],
    key: Mapping[str, str],
    turned: bool = False,
) -> None:
    """Draw boxes and arrows with their labels; the id of an arrow has its start and its end."""
    from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle
    from matplotlib.path import Path

    for x, y in edges:
        points = list(layout.arrows[x, y])
        points[0] = (points[0][0], points[0][1] - _HALF)
        points[-1] = (points[-1][0], points[-1][1] + _HALF)
        ends = (nodes[x].name, nodes[y].name)
        vertices, codes = _curve(points[::-1] if turned else points)
        arrow = FancyArrowPatch(
            path=Path(vertices, codes), arrowstyle="-|>", mutation_scale=10, color=INK, linewidth=1.1, shrinkA=0
        )
        arrow.set_gid(" -> ".join(ends[::-1] if turned else ends))
        ax.add_patch(arrow)
        if edges[x, y]:
            across, level, side = label_place(points, [e[0] for e in edges].count(x) == 1)
            where: dict[str, Any] = {"ha": side, "va": "center"}
            ax.text(across, level, edges[x, y], color=INK, fontsize=SMALL - 1, **where)
    for x, n in nodes.items():
        across, level = layout.places[x]
        colour = _COLOURS.get(n.kind, INK)
        corner = (across - _width(n) / 2, level - _HALF + 0.05)
        box = FancyBboxPatch(
            corner,
            _width(n),
            2 * _HALF - 0.1,
            boxstyle="round,pad=0.03,rounding_size=0.1",
            edgecolor=colour,
            facecolor=colour + "22",
            linewidth=1.3,
            linestyle=_line(n.kind),
        )
        box.set_gid(n.name)
        ax.add_patch(box)
        centre: dict[str, Any] = {"ha": "center", "va": "center"}
        ax.text(across, level + (0.09 if n.detail else 0), n.name, color=colour, fontsize=10, weight="bold", **centre)
        if n.detail:
            ax.text(across, level - 0.12, n.detail, color=INK, fontsize=SMALL - 1, **centre)
    left, right, depth = _extent(layout, nodes, edges, key)
    line = _KEY / _LAYER
    for k, (text, colour) in enumerate(key.items()):
        level = -depth - 0.55 - k * line
        mark = Rectangle((left, level - 0.06), 0.22, 0.12, edgecolor=colour, facecolor=colour + "22", linewidth=1.2)
        mark.set_linestyle(_line(text))
        ax.add_patch(mark)
        ax.text(left + 0.32, level, text, color=INK, fontsize=SMALL, va="center_baseline")
    ax.set(xlim=(left - 0.15, right + 0.15), ylim=(-depth - 0.5 - line * len(key), 0.45))
    ax.set_axis_off()


def _curve(points: list[Point]) -> tuple[list[Point], list[int]]:
    """A smooth path through `points` that is vertical at each of them."""
    from matplotlib.path import Path

    vertices: list[Point] = [points[0]]
    codes = [int(Path.MOVETO)]
    for (x0, y0), (x1, y1) in pairwise(points):
        middle = (y0 + y1) / 2
        vertices += [(x0, middle), (x1, middle), (x1, y1)]
        codes += [int(Path.CURVE4)] * 3
    return vertices, codes
