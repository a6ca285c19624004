"""Statements of one form, which only differ in what they read, are written once, and copied with other names.

    x1 = gen i:n. sum j:n. A[i, j] * x0[j]          x2 = gen i:n. sum j:n. A[i, j] * x1[j]

Two have one form if they are equal once their variables are numbered, and these are held in the same way, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from operator import is_
from typing import Any

from tensorlang.language.affine import Affine, Atom, atom_affine
from tensorlang.language.grammar import (
    Access,
    Add,
    Bracket,
    Call,
    Choice,
    Compared,
    Const,
    Expr,
    Extremum,
    Gen,
    Integer,
    Mul,
    Proj,
    Sum,
    Var,
    children,
)
from tensorlang.language.predicates import substitute
from tensorlang.language.rebuilt import with_values
from tensorlang.language.types import Pair
from tensorlang.lowering.arrays.context import Held
from tensorlang.lowering.arrays.decisions import Decision
from tensorlang.lowering.arrays.ir import (
    Assign,
    Block,
    Define,
    IntegerRange,
    Lambda,
    Name,
    Node,
    Position,
    Return,
    Slice,
    Statement,
    StaticInteger,
    Volume,
    When,
    named,
)
from tensorlang.lowering.arrays.names import Names
from tensorlang.lowering.plan.triangular import Cut
from tensorlang.normal.pattern import axes, axis

_MOST_SAID = 400
"""The most words by which a statement is described: about two for each node."""


@dataclass(frozen=True)
class StatementForm:
    """The key that statements of one form share, and the variables that this one reads, in the same order."""

    key: Hashable
    variables: tuple[Var, ...]


@dataclass(frozen=True)
class Written:
    """A statement that is written: its name, the variables that it reads and their names, its code and decisions,
    whether its array is cut, and the names of blocks of arrays in its code, each with the array's."""

    name: str
    variables: tuple[Var, ...]
    read: tuple[str, ...]
    statements: tuple[Statement, ...]
    decisions: tuple[Decision, ...]
    is_cut: bool
    blocks: Mapping[str, str]

    @cached_property
    def bound(self) -> tuple[str, ...]:
        """The names that its code binds."""
        return tuple(_bound(self.statements))

    def again(self, name: str, read: tuple[str, ...], names: Names) -> list[Statement]:
        """The code of a statement of this form called `name` that reads `read`; what it binds gets fresh `names`."""
        arrays = dict(zip(self.read, read, strict=True))
        new = {**arrays, self.name: name}
        for bound in self.bound:
            if bound not in new:
                of = arrays.get(self.blocks.get(bound, ""))
                new[bound] = names.fresh_local(bound) if of is None else names.fresh_block(of)
        return [_renamed(s, new) for s in self.statements]

    def decided(self, variables: tuple[Var, ...]) -> tuple[Decision, ...]:
        """The decisions about the statement of this form that reads `variables`."""
        values: dict[Var, Expr] = dict(zip(self.variables, variables, strict=True))
        return tuple(_decided(d, values) for d in self.decisions)


def form_of(e: Expr, held: Callable[[Var], Held | None], further: Hashable) -> StatementForm | None:
    """The form of the statement of `e`, `further` being what else its code depends on.

    None if it is too large to be compared, or reads arrays that are held at points, or pairs of arrays.
    """
    numbered = _numbered(e)
    if numbered is None:
        return None
    said, variables = numbered
    arrays = [held(x) for x in variables]
    if any(isinstance(x.type, Pair) for x in variables) or any(h is None or h.points is not None for h in arrays):
        return None
    facts = tuple((x.type, _fact(h)) for x, h in zip(variables, arrays, strict=True) if h is not None)
    return StatementForm((said, facts, further), variables)


def _numbered(e: Expr) -> tuple[Hashable, tuple[Var, ...]] | None:
    """The nodes of `e` from the root on, variables and bound indices numbered, and these variables in their order.

    None if it is large, or anything but a right-hand side.
    """
    variables: dict[Var, int] = {}
    at: dict[Atom, Affine] = {}
    said: list[Any] = []
    stack = [e]
    while stack:
        part = stack.pop()
        if len(said) > _MOST_SAID:
            return None
        said.append(type(part))
        match part:
            case Var():
                said.append(variables.setdefault(part, len(variables)))
            case Const():
                said.append(part)
            case Integer(a) | Access(_, a, _):
                said.append(a.substitute(at))
            case Bracket(p, _):
                said.append(substitute(p, at))
            case Gen(i, n, _) | Sum(i, n, _):
                said += (i.name, n.substitute(at))
                at[i] = atom_affine(axis(len(said)))
            case Extremum(sign, i, n, p, _) | Choice(sign, i, n, p, _):
                said += (sign, i.name, n.substitute(at))
                at[i] = atom_affine(axis(len(said)))
                said.append(substitute(p, at))
            case Mul():
                pass
            case Add(_, _, of) | Call(of, _) | Compared(of, _, _) | Proj(of, _):
                said.append(of)
            case _:
                return None
        stack += reversed(children(part))
    return tuple(said), tuple(variables)


def _fact(held: Held) -> Hashable:
    return held.shape, held.required, held.cut and positional(held.cut)


def positional(cut: Cut) -> Hashable:
    """How an array is cut, whatever its indices are called."""
    return cut.dimension, cut.limits_at(map(atom_affine, axes(0, len(cut.axes))))


def _bound(statements: Collection[Statement]) -> dict[str, None]:
    """The names bound in `statements`, those of functions and their parameters included."""
    block = Block(list(statements))
    found: dict[str, None] = {}
    for s in block.walk():
        if isinstance(s, Assign):
            found.update(dict.fromkeys(s.names))
        elif isinstance(s, Define):
            found.update(dict.fromkeys((s.name, *s.parameters)))
    for node in block.nodes():
        if isinstance(node, Lambda):
            found.update(dict.fromkeys(node.parameters))
    return found


def _decided(d: Decision, values: Mapping[Var, Expr]) -> Decision:
    return replace(d, body=with_values(d.body, values), within=[_decided(inner, values) for inner in d.within])


def _renamed(s: Statement, new: Mapping[str, str]) -> Statement:
    """`s` with these names replaced by `new` ones."""

    def block(b: Block) -> Block:
        return Block([_renamed(inner, new) for inner in b.statements])

    match s:
        case Assign(names, value, unpacked):
            return Assign(tuple(new.get(x, x) for x in names), _node(value, new), unpacked)
        case Define(name, parameters, body):
            return Define(new.get(name, name), tuple(new.get(x, x) for x in parameters), block(body))
        case When(test, then, otherwise):
            return When(_node(test, new), block(then), block(otherwise))
        case Return(value):
            return Return(_node(value, new))
        case _:
            return s


def _node(node: Node, new: Mapping[str, str]) -> Node:
    match node:
        case Name(name):
            return Name(new[name]) if name in new else node
        case StaticInteger(a):
            return StaticInteger(_affine(a, new))
        case Position(at, arrays):
            own = [atom for atom, _ in arrays]
            return Position(_affine(at, new, own), tuple((atom, _node(x, new)) for atom, x in arrays))
        case Volume(factor, extents):
            return Volume(factor, tuple(_affine(a, new) for a in extents))
        case Slice(start, stop, step):
            return Slice(start and _affine(start, new), stop and _affine(stop, new), step)
        case IntegerRange(start, stop):
            return IntegerRange(_affine(start, new), _affine(stop, new))
        case Lambda(parameters, body):
            return Lambda(tuple(new.get(x, x) for x in parameters), _node(body, new))
        case _:
            parts = node.parts()
            made = [_part(x, new) for x in parts]
            return node if all(map(is_, made, parts)) else type(node)(*made)


def _part(x: Any, new: Mapping[str, str]) -> Any:
    if isinstance(x, Node):
        return _node(x, new)
    if type(x) is not tuple:
        return x
    made = [_part(y, new) for y in x]
    return x if all(map(is_, made, x)) else tuple(made)


def _affine(a: Affine, new: Mapping[str, str], but: Collection[Any] = ()) -> Affine:
    if not any([atom.name in new and atom not in but for atom, _ in a.terms]):
        return a
    terms = ((named(new[x.name]) if x not in but and x.name in new else x, k) for x, k in a.terms)
    return Affine(tuple(terms), a.constant)
