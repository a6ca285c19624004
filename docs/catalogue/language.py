"""The language reference: the constructs of the text syntax, the whole grammar, and the classes of nodes."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import get_args

import tensorlang as tl
from docs.catalogue.markdown import fence, table
from tensorlang.language import grammar as nodes
from tensorlang.language.affine import Affine, Atom, IndexArray
from tensorlang.language.function import Parameter
from tensorlang.language.predicates import Predicate, Relation
from tensorlang.language.types import Array, BoundedIndex, Pair, Real, Type, shape
from tensorlang.surface.syntax import SYNTAX, Category, Construct, constructs, grammar

KINDS: dict[str, tuple[type, ...]] = {
    "Expressions": tuple(node for node in get_args(nodes.Expr) if node is not nodes.Apply),
    "Predicates": get_args(Predicate),
    "Indices": (Affine, *get_args(Atom)),
    "Parameters beside variables": (Relation, IndexArray),
    "Types": get_args(Type),
}
"""The classes of nodes that programs consist of, except calls of functions that users declare with `tl.external`."""

_HIDDEN = {"serial", "type", "place", "depth", "free", "indices", "lookups", "written"}
"""Fields that are computed, or that distinguish nodes of the same spelling."""


def syntax_page() -> str:
    """Every construct: its form, its meaning, an example in text and in Python, and the nodes that it makes."""
    return "\n".join(_category(category) for category in SYNTAX)


def _category(category: Category) -> str:
    parts = [f"(syntax-{category.name})=\n### {category.title}\n"]
    others = f"; or a [*{category.tighter}*](#syntax-{category.tighter})" if category.tighter else ""
    parts.append(f"A phrase of the category *{category.name}* is one of these{others}.\n")
    return "\n".join([*parts, *map(_construct, category.constructs)])


def _construct(construct: Construct) -> str:
    made = ", ".join(f'<a href="#{target(node)}"><code>{node.__name__}</code></a>' for node in construct.nodes)
    f = tl.parse(construct.example)
    cost = f"`{tl.cost_polynomial(f)}`".replace("\n", " ")
    parts = [
        f"(construct-{construct.name.replace('_', '-')})=\n#### {_spoken(construct.name)}\n",
        fence(construct.form, "lark"),
        construct.meaning + "\n",
        fence(construct.example, "tl"),
        fence(python_program(construct), "python") if construct.python else "",
        f"{f'Nodes: {made}. ' if made else ''}Cost of the example: {cost}.\n",
    ]
    return "\n".join(part for part in parts if part)


def python_program(construct: Construct) -> str:
    """The example, written with the Python embedding."""
    f = tl.parse(construct.example)
    sizes = [s.name for s in f.sizes]
    lines = [f'{", ".join(sizes)} = tl.sizes("{" ".join(sizes)}")', ""] if sizes else []
    params = ", ".join(f"{p.name}: {annotation(p)}" for p in f.params)
    return "\n".join([*lines, "@tl.function", f"def {f.name}({params}):", f"    return {construct.python}"])


def annotation(p: Parameter) -> str:
    """The type of a parameter as one writes it in Python."""
    match p:
        case Relation():
            return f"tl.relation({', '.join(map(str, p.sizes))})"
        case IndexArray():
            return f"tl.idx({p.size})" + _axes(p.sizes)
        case nodes.Var():
            return _python_type(p.type)


def _python_type(kind: Type) -> str:
    sizes, element = shape(kind)
    match element:
        case Pair():
            text = f"tl.pair_type({_python_type(element.first)}, {_python_type(element.second)})"
        case BoundedIndex():
            text = f"tl.idx({element.size})"
        case Real() | Array():
            text = "tl.R"
    return text + _axes(sizes)


def _axes(sizes: tuple[Affine, ...]) -> str:
    return f"[{', '.join(map(str, sizes))}]" if sizes else ""


def grammar_page() -> str:
    """The whole grammar."""
    return fence(grammar(), "lark")


def nodes_page() -> str:
    """Every class of nodes, with its parts and the constructs that make it."""
    parts = []
    for title, classes in KINDS.items():
        rows = [(f'<a id="{target(c)}"></a>`{signature(c)}`', meaning(c), _makers(c)) for c in classes]
        parts += [f"### {title}\n", table(("Node", "Meaning", "Written as"), rows)]
    return "\n".join(parts)


def target(node: type) -> str:
    """The anchor of a class of nodes; its place is in a table, where only HTML can put one."""
    return f"node-{node.__name__.lower()}"


def signature(node: type) -> str:
    """The class of nodes with the names of its parts."""
    return f"{node.__name__}({', '.join(f.name for f in fields(node) if f.name not in _HIDDEN)})"


def meaning(node: type) -> str:
    """The first paragraph of its docstring."""
    return " ".join(inspect.cleandoc(node.__doc__ or "").split("\n\n")[0].split())


def _makers(node: type) -> str:
    makers = [c.name for c in constructs() if node in c.nodes]
    return ", ".join(f"[{_spoken(name).lower()}](#construct-{name.replace('_', '-')})" for name in makers)


def _spoken(name: str) -> str:
    return name.replace("_", " ").capitalize()
