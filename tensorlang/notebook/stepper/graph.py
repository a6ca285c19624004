"""The program of a derivation as a graph beside its steps: a script marks the statements of the current step, and
those that have been reversed."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape, unescape
from itertools import pairwise

from tensorlang.normal.ssa import Statement
from tensorlang.notebook.stepper.view import View
from tensorlang.pictures.graphs import Edge, Graph, GraphNode, Item, description, graph_of, legend, roomy
from tensorlang.pictures.layers import GraphLayout, label_place, layered
from tensorlang.pictures.palette import BLUE, GREEN, ORANGE, PURPLE
from tensorlang.pictures.vector import painted

_INCH = 82
_LETTER = 8.2
_SMALL = 7.0
_HALF = 21
_LAYER = 84
_EDGE = 10
_KEY = 19
_COLOURS = {"input": BLUE, "data": BLUE, "map": PURPLE, "addition": GREEN, "contraction": ORANGE, "choice": PURPLE}


def graph_html(view: View) -> str:
    """The graph with a legend, as HTML."""
    d = view.derivation

    def called(x: Statement) -> str:
        return unescape(view.names.of(x))

    graph = graph_of(d.program, called)
    widths = {x: _width(n) / _INCH for x, n in graph.nodes.items()}
    layout = layered(list(graph.nodes), graph.edges, roomy(graph, widths, _SMALL / _INCH))
    note = f"<figcaption>{graph.note}</figcaption>" if graph.note else ""
    words = f"From the parameters down to the result. {description(graph)}"
    return f'<figure class="graph">{_svg(view, graph, layout, words)}{note}</figure>'


def _width(n: GraphNode) -> float:
    return max(_LETTER * len(n.name), _SMALL * len(n.detail), 34) + 14


def _svg(view: View, graph: Graph, layout: GraphLayout[Item], words: str) -> str:
    at = {x: (across * _INCH, -level * _LAYER) for x, (across, level) in layout.places.items()}
    ends = [side for x, n in graph.nodes.items() for side in _ends(at[x][0], n)]
    bends = [x * _INCH for arrow in layout.arrows.values() for x, _ in arrow]
    parts, said = [], []
    for (x, y), text in graph.edges.items():
        path, label, reach = _arrow(graph, layout, (x, y), text)
        parts.append(path)
        parts.append(label)
        said += reach
    parts += [_node(view, n, *at[x]) for x, n in graph.nodes.items()]
    left, right = min([*ends, *bends, *said], default=0) - _EDGE, max([*ends, *bends, *said], default=0) + _EDGE
    height = max((y for _, y in at.values()), default=0) + 2 * (_HALF + _EDGE)
    name = escape(view.derivation.function.name)
    told = f"<title>The statements of {name}</title><desc>{escape(words, quote=False)}</desc>"
    drawn = _element((left, -_HALF - _EDGE, right - left, height), told + "".join(parts))
    key = _key(graph)
    marks = _element((0, 0, 250, _KEY * len(key) + 8), f"<title>What the marks mean</title>{''.join(key)}")
    return f'<div class="drawn">{drawn}</div>{marks}'


def _element(box: tuple[float, float, float, float], content: str) -> str:
    """A picture that scales down, but stays legible."""
    view = " ".join(f"{x:.0f}" for x in box)
    return (
        f'<svg role="img" viewBox="{view}" fill="currentColor" style="width: 100%; max-width: {box[2]:.0f}px; '
        f'min-width: {0.85 * box[2]:.0f}px; height: auto">{content}</svg>'
    )


def _ends(x: float, n: GraphNode) -> tuple[float, float]:
    return x - _width(n) / 2, x + _width(n) / 2


def _arrow(graph: Graph, layout: GraphLayout[Item], edge: Edge, text: str) -> tuple[str, str, list[float]]:
    """An arrow, its label, and how far the label extends to the sides."""
    points = [(x * _INCH, -y * _LAYER) for x, y in layout.arrows[edge]]
    points[0] = (points[0][0], points[0][1] + _HALF)
    points[-1] = (points[-1][0], points[-1][1] - _HALF - 1)
    curve = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x0, y0), (x1, y1) in pairwise(points):
        middle = (y0 + y1) / 2
        curve += f"C{x0:.1f} {middle:.1f} {x1:.1f} {middle:.1f} {x1:.1f} {y1:.1f}"
    x, y = points[-1]
    head = f"M{x - 4:.1f} {y - 8:.1f}L{x:.1f} {y:.1f}L{x + 4:.1f} {y - 8:.1f}Z"
    path = f'<path d="{curve}" fill="none" stroke="currentColor"/><path d="{head}"/>'
    if not text:
        return path, "", []
    is_only = sum(x is edge[0] for x, _ in graph.edges) == 1
    across, down, side = label_place([(x / _INCH, y / _INCH) for x, y in points], is_only)
    across, down = across * _INCH, down * _INCH + 4
    anchor = "start" if side == "left" else "end"
    reach = across + (1 if side == "left" else -1) * _SMALL * len(text)
    label = f'<text class="small" x="{across:.1f}" y="{down:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
    return path, label, [reach]


def _node(view: View, n: GraphNode, x: float, y: float) -> str:
    names = dict.fromkeys(name for part in n.of for name in view.related(part))
    done = max((view.completed(part) for part in n.of), default=0)
    reversed_ = f' data-reversed="{done}"' if done else ""
    width = _width(n)
    return (
        f'<g class="node" data-names="{escape(" ".join(names))}"{reversed_}>'
        f'<rect {_paint(n.kind)} x="{x - width / 2:.1f}" y="{y - _HALF:.1f}" width="{width:.1f}" '
        f'height="{2 * _HALF}" rx="7"/>'
        f'<text x="{x:.1f}" y="{y - 2 if n.detail else y + 5:.1f}" text-anchor="middle">{escape(n.name)}</text>'
        + (
            f'<text class="small" x="{x:.1f}" y="{y + 14:.1f}" text-anchor="middle">{escape(n.detail)}</text>'
            if n.detail
            else ""
        )
        + "</g>"
    )


def _paint(kind: str) -> str:
    dashes = ' stroke-dasharray="4 3"' if kind in ("data", "choice") else ""
    return f'style="stroke: {painted(_COLOURS[kind])}"{dashes}'


def _key(graph: Graph) -> list[str]:
    """The legend, a line for each kind, and for the marks that a script makes."""
    kinds: Mapping[str, str] = legend(n.kind for n in graph.nodes.values())
    rows = [(text, _paint(kind), "") for kind, text in kinds.items()]
    rows += [("what this step is about", "", " now"), ("reversed: its cotangent is known", "", " done")]
    return [
        f'<g class="key{mark}">'
        f'<rect {paint} x="2" y="{_KEY * k + 3}" width="18" height="11" rx="3"/>'
        f'<text class="small" x="28" y="{_KEY * k + 13}">{escape(text)}</text></g>'
        for k, (text, paint, mark) in enumerate(rows)
    ]
