"""Programs in tensor SSA as graphs: what each statement computes from its operands, and where and when it reads them.

Nodes are statements, and the given index arrays and relations; constants are left out. An arrow leads to a reader, and
is labelled with the indices and the bracket of the read:

    Z = gen g. sum i, j. [i = g + j and p] * X[i] * Y[j]        X --[g + j] if p--> Z,  Y --[j] if p--> Z

Statements of the same form, with operands and readers of the same form, are one node.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass

from tensorlang.language.affine import Index, IndexArray
from tensorlang.language.grammar import Add, Call, Expr, Mul, Var
from tensorlang.language.grammar import number as literal
from tensorlang.language.layout import render
from tensorlang.language.notation import UNICODE
from tensorlang.language.predicates import TRUE, Predicate, Relation, lookups, relations
from tensorlang.language.printer import Printer
from tensorlang.language.show import WIDTH, expr_unicode
from tensorlang.language.types import R
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
    factor_indices,
    inner_ranges,
    is_given,
    looked_up,
    operands,
    output_list,
    own_indices,
    own_ranges,
    predicates,
    selections,
)
from tensorlang.pictures.canvas import cut
from tensorlang.sets.solve import determines, solve

MOST = 40
DETAIL = 26
_LABEL = 22
_LEAST = 4
"""The fewest equal siblings that are drawn as one."""
_NAMED = 3

Item = Statement | IndexArray | Relation
Edge = tuple[Item, Item]
Called = Callable[[Statement], str]


@dataclass(frozen=True)
class GraphNode:
    """The text at a node: its name, a formula, and its kind; `of` are all the statements that it represents."""

    name: str
    detail: str
    kind: str
    of: tuple[Item, ...]


@dataclass(frozen=True)
class Graph:
    """Nodes by the first statement of each, ordered so that readers come later; and the labels of arrows."""

    nodes: Mapping[Item, GraphNode]
    edges: Mapping[Edge, str]
    note: str


KINDS = {
    "input": "parameter",
    "data": "index array or relation",
    "map": "scalar function",
    "addition": "addition",
    "contraction": "product or sum",
    "choice": "choice",
}
"""The kinds of nodes, with their names in a legend."""


def kind_of(x: Item) -> str:
    """The kind of a node."""
    match x:
        case IndexArray() | Relation():
            return "data"
        case Input():
            return "input" if is_given(x) else "map"
        case Addition():
            return "addition"
        case Map():
            return "map"
        case Selection() | Comparison():
            return "choice"
        case _:
            return "contraction"


def graph_of(s: SSA, called: Called) -> Graph:
    """The graph of `s`; a large one is cut to the nodes nearest the result."""
    defined = selections(s.statements)
    reads: dict[Item, tuple[Item, ...]] = {}
    for x in s.statements:
        if isinstance(x, Constant):
            continue
        data: list[Item] = [*(y for y in looked_up(x) if y not in defined), *_related(x)]
        for given in data:
            reads.setdefault(given, ())
        chosen = [defined[y] for y in looked_up(x) if y in defined]
        own = [y for y in (*operands(x), *chosen) if not isinstance(y, Constant)]
        reads[x] = tuple(dict.fromkeys((*own, *data)))
    groups = _groups(reads, set(output_list(s.outputs)))
    first = {x: group[0] for group in groups for x in group}
    drawn = _nearest([first[x] for x in output_list(s.outputs) if x in first], reads, first)
    nodes = {group[0]: _node(group[0], group, called) for group in groups if group[0] in drawn}
    edges: dict[Edge, str] = {}
    for reader in nodes:
        for y in reads[reader]:
            if first[y] in drawn:
                edges.setdefault((first[y], reader), _reading(reader, y))
    note = f"the {len(drawn)} statements nearest the result, of {len(groups):,}" if len(drawn) < len(groups) else ""
    return Graph(nodes, edges, note)


def _related(x: Statement) -> Iterable[Relation]:
    return sorted((r for p in predicates(x) for r in relations(p)), key=lambda r: r.name)


def _nearest(front: list[Item], reads: Mapping[Item, tuple[Item, ...]], first: Mapping[Item, Item]) -> dict[Item, None]:
    """The nodes nearest the result."""
    order: dict[Item, None] = {}
    while front and len(order) < MOST:
        order.update(dict.fromkeys(front))
        front = list(dict.fromkeys(first[y] for x in front for y in reads[x] if first[y] not in order))
    return dict.fromkeys(list(order)[:MOST])


def _groups(reads: Mapping[Item, tuple[Item, ...]], outputs: set[Statement]) -> list[list[Item]]:
    """The items in order, with equal siblings grouped if there are many."""
    numbers: dict[Hashable, int] = {}

    def number(key: Hashable) -> int:
        return numbers.setdefault(key, len(numbers))

    above: dict[Item, int] = {}
    readers: dict[Item, list[Item]] = defaultdict(list)
    for x, operands_ in reads.items():
        above[x] = number((_form(x), x in outputs, tuple(above[y] for y in operands_)))
        for y in operands_:
            readers[y].append(x)
    below: dict[Item, int] = {}
    found: dict[int, list[Item]] = {}
    for x in reversed(list(reads)):
        below[x] = number(("below", above[x], frozenset(below[y] for y in readers[x])))
    for x in reads:
        found.setdefault(below[x], []).append(x)
    return [part for group in found.values() for part in ([group] if len(group) >= _LEAST else [[x] for x in group])]


def _form(x: Item) -> Hashable:
    """`x` without its own name and those of its operands."""
    match x:
        case IndexArray():
            return x.sizes, x.size
        case Relation():
            return x.sizes
        case Addition(terms, shape):
            return tuple((t.sign, t.pred) for t in terms), shape
        case Map(p, f, _, shape):
            return p, f, shape
        case Contraction(p, factors, summed, shape):
            return p, tuple(y.shape for y in factors), summed, shape
        case Input() if is_given(x) and not looked_up(x):
            return x.path, x.shape
    return x


def _node(x: Item, group: list[Item], called: Called) -> GraphNode:
    names = [_name(y, called) for y in group[:_NAMED]]
    if len(group) > 1:
        names = [*names[: _NAMED - 1], "…", _name(group[-1], called), f"×{len(group)}"]
    return GraphNode(cut(" ".join(names), DETAIL), _detail(x, called), kind_of(x), tuple(group))


def _name(x: Item, called: Called) -> str:
    if isinstance(x, IndexArray | Relation):
        return x.name
    return cut(x.array.name if isinstance(x, Defining) else called(x), DETAIL)


def _detail(x: Item, called: Called) -> str:
    if isinstance(x, IndexArray):
        return "".join(f"[{n}]" for n in x.sizes) + f"idx({x.size})"
    if isinstance(x, Relation):
        return f"rel({', '.join(map(str, x.sizes))})"
    return _formula(x, called)


def _formula(x: Statement, called: Called) -> str:
    """The formula of `x` in terms of its operands, without indices and brackets."""

    variables: dict[Statement, Expr] = {}

    def scalar(y: Statement) -> Expr:
        return variables.setdefault(y, literal(y.value) if isinstance(y, Constant) else Var(called(y), R))

    match x:
        case Input() | Constant():
            text = "".join(f"[{n}]" for n in x.shape)
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
    return cut(text, DETAIL)


def _reading(x: Item, y: Item) -> str:
    """Where and when `x` reads `y`: the indices unless they are those of `x`, and the bracket unless it is true."""
    printer = Printer(UNICODE)
    for i in [] if isinstance(x, IndexArray | Relation) else own_indices(x):
        printer.name(i)
    array = y.array if isinstance(y, Defining) else y
    if isinstance(array, IndexArray) and not isinstance(x, IndexArray | Relation):
        ats = [lookup.at for p in predicates(x) for lookup in lookups(p) if lookup.array is array]
        texts = [f"[{', '.join(map(printer.affine, at))}]" for at in ats if at]
        return cut(" ".join(dict.fromkeys(texts)), _LABEL)
    match x:
        case Contraction(p, factors, _, _):
            solved = solve(p, inner_ranges(x), own_ranges(x))
            places: dict[Index, str] = {
                i: printer.affine(solved.values[i]) if i in solved.values else printer.name(i)
                for indices in factor_indices(x)
                for i in indices
            }
            read = [indices for factor, indices in zip(factors, factor_indices(x), strict=True) if factor is y]
            plain = [printer.name(i) for i in own_indices(x)]
            texts = [f"[{', '.join(places[i] for i in indices)}]" for indices in read if indices]
            texts = [text for text in dict.fromkeys(texts) if text != f"[{', '.join(plain)}]"]
            return cut(" ".join([*texts, *_condition(solved.rest, printer)]), _LABEL)
        case Addition(terms, _):
            found = dict.fromkeys(t.pred for t in terms if t.operand is y)
            return cut(" ".join(text for p in found for text in _condition(p, printer)), _LABEL)
        case Map(p, _, _, _):
            return cut(" ".join(_condition(p, printer)), _LABEL)
        case Selection(_, _, guard, p, _):
            return cut(" ".join([*_condition(guard, printer), *_condition(p, printer)]), _LABEL)
        case Comparison():
            return cut(" ".join(_condition(x.guard, printer)), _LABEL)
    return ""


def _condition(p: Predicate, printer: Printer) -> list[str]:
    return [] if p is TRUE else [f"if {render([(0, printer.whole_predicate(p))], WIDTH)}"]


def legend(kinds: Iterable[str]) -> dict[str, str]:
    """The names of the kinds that occur, in order."""
    there = set(kinds)
    return {kind: text for kind, text in KINDS.items() if kind in there}


def description(graph: Graph) -> str:
    """A description of the graph for people who can't see it."""
    read: dict[str, list[str]] = defaultdict(list)
    for x, y in graph.edges:
        read[graph.nodes[y].name].append(graph.nodes[x].name)
    parts = [f"{name} reads {', '.join(names)}" for name, names in read.items()]
    return f"{len(graph.nodes)} nodes. {'; '.join(parts)}." if parts else f"{len(graph.nodes)} nodes, no arrows."


def roomy(graph: Graph, widths: Mapping[Item, float], letter: float = 0.08) -> dict[Item, float]:
    """`widths` of nodes, with room for labels of arrows to the right of their starts or ends."""
    found = dict(widths)
    starts = Counter(x for x, _ in graph.edges)
    for (x, y), text in graph.edges.items():
        at = x if starts[x] == 1 else y
        found[at] = max(found[at], 2 * letter * len(text) - 0.3)
    return found
