"""Programs in tensor SSA as graphs, and beside them their adjoints, with the arrows turned round."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tensorlang.derivative.derivation import Derivation
from tensorlang.derivative.transcript import Names
from tensorlang.language.function import Function
from tensorlang.language.grammar import Add, Call, Expr, Mul, Var
from tensorlang.language.grammar import number as literal
from tensorlang.language.show import expr_text, expr_unicode
from tensorlang.language.types import R
from tensorlang.normal import normal_ssa
from tensorlang.normal.ssa import (
    SSA,
    Addition,
    Comparison,
    Constant,
    Contraction,
    Defining,
    Input,
    Map,
    Selection,
    Statement,
    inner_ranges,
    needs,
    operands,
    output_list,
    read,
    selections,
)
from tensorlang.pictures.canvas import BLUE, GREEN, INK, ORANGE, PURPLE, SMALL, cut, dress, head, new_axes, new_figure
from tensorlang.pictures.layers import Layout, Point, layered
from tensorlang.pipeline import Wrt, derive
from tensorlang.sets.solve import determines
from tensorlang.simplify import simplify_ssa

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST = 40
_LETTER = 0.085
_HALF = 0.27
_LAYER = 0.95
_DETAIL = 26

Edge = tuple[Statement, Statement]


@dataclass(frozen=True)
class _Node:
    """What is written at a statement."""

    name: str
    detail: str
    colour: str

    @property
    def width(self) -> float:
        return max(_LETTER * max(len(self.name) + 1, 0.85 * len(self.detail)), 0.5)


def program_graph(f: Function, /, ax: Axes | None = None) -> Axes:
    """The statements of `f`, simplified and in tensor SSA, with an arrow from each to those that read it.

    Constants are not drawn. Of more than 40 statements those nearest the result are.
    """
    s = simplify_ssa(normal_ssa(f))
    numbers = {x: f"X{k}" for k, x in enumerate(s.statements)}

    def called(x: Statement) -> str:
        return expr_text(read(x, {})) if isinstance(x, Input) else s.names.get(x, numbers[x])

    drawn, edges = _chosen(s)
    nodes = {x: _node(x, called) for x in drawn}
    layout = layered(drawn, edges, {x: n.width for x, n in nodes.items()})
    ax = ax or new_axes(*_inches(layout, nodes))
    _draw(ax, layout, nodes, edges, turned=False)
    head(ax, f.name, _left_out(s, drawn))
    return ax


def adjoint_graphs(f: Function, wrt: Wrt = None, /, ax: tuple[Axes, Axes] | None = None) -> Figure:
    """The graph of `f`, and beside it that of its adjoint: each statement's cotangent in the statement's place, and an
    arrow wherever the derivation passes a cotangent on, the same arrows turned round.

    A cotangent says which values of the program it reads. What does not depend on `wrt` has none, and is grey on the
    left. Raises `ScopeError` if `wrt` names anything but a real-valued parameter.
    """
    d = derive(f, wrt)
    names = Names(d)

    def called(x: Statement) -> str:
        return expr_text(names.expr(x))

    cotangents, passed = _backwards(d)
    drawn, edges = _chosen(d.program)
    back = [(x, y) for x, y in edges if (y, x) in passed and x in cotangents]
    nodes = {x: _node(x, called) for x in drawn}
    nodes = {x: n if x in cotangents else replace(n, colour=INK) for x, n in nodes.items()}
    turned = {x: _cotangent(d, x, cotangents, called, nodes[x].colour) for x in drawn if x in cotangents}
    widths = {x: max(n.width, turned[x].width if x in turned else 0) for x, n in nodes.items()}
    layout = layered(drawn, edges, widths)
    if ax is None:
        width, height = _inches(layout, nodes)
        figure = new_figure(2 * width, height)
        ax = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
        for made in ax:
            dress(made)
    left, right = ax
    _draw(left, layout, nodes, edges, turned=False)
    _draw(right, layout, turned, back, turned=True)
    note = _left_out(d.program, drawn)
    head(left, f.name, note)
    head(right, f"its adjoint by {', '.join(x.name for x in d.wrt)}", " " if note else "")
    return left.get_figure(root=True)  # type: ignore[return-value]


def _chosen(s: SSA) -> tuple[list[Statement], list[Edge]]:
    """The statements nearest the outputs, in order, and the arrows among them."""
    defined = selections(s.statements)
    order: dict[Statement, None] = {}
    front = output_list(s.outputs)
    while front and len(order) < _MOST:
        order.update(dict.fromkeys(x for x in front if not isinstance(x, Constant)))
        front = list(dict.fromkeys(y for x in front for y in needs(x, defined) if y not in order))
    kept = set(list(order)[:_MOST])
    drawn = [x for x in s.statements if x in kept]
    return drawn, list(dict.fromkeys((y, x) for x in drawn for y in needs(x, defined) if y in kept))


def _left_out(s: SSA, drawn: Collection[Statement]) -> str:
    whole = sum(not isinstance(x, Constant) for x in s.statements)
    return f"the {len(drawn)} statements nearest the result, of {whole:,}" if len(drawn) < whole else ""


def _backwards(d: Derivation) -> tuple[dict[Statement, Statement], set[Edge]]:
    """The cotangent of each statement that has one, and from which statement to which cotangents were passed on."""
    cotangents: dict[Statement, Statement] = {}
    passed: set[Edge] = set()
    for step in d.steps:
        if step.rule.number in ("6.17", "6.19"):
            cotangents.update((product.right, product.left) for product in step.before)
        if step.rule.number in ("6.26", "6.27", "6.28", "6.29"):
            passed.update((product.right, after.right) for product in step.before for after in step.after)
    return cotangents, passed


def _cotangent(
    d: Derivation,
    x: Statement,
    cotangents: Mapping[Statement, Statement],
    called: Callable[[Statement], str],
    colour: str,
) -> _Node:
    """What is written at the cotangent of `x`: its name, and which values of the program it is made of."""
    value = cotangents[x]
    name = called(value) if isinstance(value, Input) else cut(f"{called(x)}_bar", _DETAIL)
    first = next(y for y, other in cotangents.items() if other is value)
    if first is not x:
        return _Node(name, f"= {called(value) if isinstance(value, Input) else called(first) + '_bar'}", colour)
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
    detail = f"reads {', '.join(sorted(values))}" if values else ""
    return _Node(name, cut(detail, _DETAIL), colour)


def _node(x: Statement, called: Callable[[Statement], str]) -> _Node:
    colour = {Input: BLUE, Addition: GREEN, Map: PURPLE}.get(type(x), ORANGE)
    return _Node(cut(x.array.name if isinstance(x, Defining) else called(x), _DETAIL), _formula(x, called), colour)


def _formula(x: Statement, called: Callable[[Statement], str]) -> str:
    """What `x` makes of its operands, without indices and brackets."""

    def scalar(y: Statement) -> Expr:
        return literal(y.value) if isinstance(y, Constant) else Var(called(y), R)

    match x:
        case Input() | Constant():
            return "".join(f"[{n}]" for n in x.shape)
        case Addition(terms, _):
            first, *rest = (scalar(t.operand) for t in terms[:4])
            found = first if terms[0].sign > 0 else Mul(literal(-1), first)
            for t, e in zip(terms[1:], rest, strict=False):
                found = Add(found, e, t.sign)
            text = expr_unicode(found) + (" + …" if len(terms) > 4 else "")
        case Map(_, f, arguments, _):
            text = expr_unicode(Call(f, tuple(map(scalar, arguments))))
        case Contraction(p, factors, _, _):
            product = scalar(factors[0]) if len(factors) == 1 else Mul(scalar(factors[0]), scalar(factors[1]))
            text = ("" if determines(p, inner_ranges(x)) else "Σ ") + expr_unicode(product)
        case Selection(_, sign, _, _, operand):
            text = f"{'argmax' if sign > 0 else 'argmin'} {called(operand)}"
        case Comparison(_, op, _, left, right):
            text = f"{expr_unicode(scalar(left))} {op} {expr_unicode(scalar(right))}"
    return cut(text, _DETAIL)


def _inches(layout: Layout[Statement], nodes: Mapping[Statement, _Node]) -> tuple[float, float]:
    left, right, depth = _extent(layout, nodes)
    return min(max(right - left + 0.3, 2.2), 14), min(_LAYER * (depth + 1) + 0.4, 20)


def _extent(layout: Layout[Statement], nodes: Mapping[Statement, _Node]) -> tuple[float, float, float]:
    places = layout.places
    left = min((places[x][0] - n.width / 2 for x, n in nodes.items()), default=0)
    right = max((places[x][0] + n.width / 2 for x, n in nodes.items()), default=1)
    bends = [x for points in layout.arrows.values() for x, _ in points]
    return min([left, *bends]), max([right, *bends]), max((-y for _, y in places.values()), default=0)


def _draw(
    ax: Axes, layout: Layout[Statement], nodes: Mapping[Statement, _Node], edges: Collection[Edge], turned: bool
) -> None:
    """Boxes and arrows; the id of an arrow says from where to where it leads."""
    from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
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
    for x, n in nodes.items():
        across, level = layout.places[x]
        corner = (across - n.width / 2, level - _HALF + 0.05)
        box = FancyBboxPatch(
            corner,
            n.width,
            2 * _HALF - 0.1,
            boxstyle="round,pad=0.03,rounding_size=0.1",
            edgecolor=n.colour,
            facecolor=n.colour + "22",
            linewidth=1.3,
        )
        box.set_gid(n.name)
        ax.add_patch(box)
        centre: dict[str, Any] = {"ha": "center", "va": "center"}
        ax.text(across, level + (0.09 if n.detail else 0), n.name, color=n.colour, fontsize=10, weight="bold", **centre)
        if n.detail:
            ax.text(across, level - 0.12, n.detail, color=INK, fontsize=SMALL - 1, **centre)
    left, right, depth = _extent(layout, nodes)
    ax.set(xlim=(left - 0.15, right + 0.15), ylim=(-depth - 0.45, 0.45))
    ax.set_axis_off()


def _curve(points: list[Point]) -> tuple[list[Point], list[int]]:
    """A smooth path through `points` that is upright in each of them."""
    from matplotlib.path import Path

    vertices: list[Point] = [points[0]]
    codes = [int(Path.MOVETO)]
    for (x0, y0), (x1, y1) in pairwise(points):
        middle = (y0 + y1) / 2
        vertices += [(x0, middle), (x1, middle), (x1, y1)]
        codes += [int(Path.CURVE4)] * 3
    return vertices, codes
