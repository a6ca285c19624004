"""Statements of one form, which only differ in what they read, are written once, and copied with other names.

    x1 = gen i:n. sum j:n. A[i, j] * x0[j]          x2 = gen i:n. sum j:n. A[i, j] * x1[j]

Two have one form if they are equal once their variables are numbered, and these are held in the same way, too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
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
from tensorlang.lowering.arrays.ir import Statement
from tensorlang.lowering.arrays.names import Names
from tensorlang.lowering.arrays.rename import bound_in, renamed
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
        return tuple(bound_in(self.statements))

    def again(self, name: str, read: tuple[str, ...], names: Names) -> list[Statement]:
        """The code of a statement of this form called `name` that reads `read`; what it binds gets fresh `names`."""
        arrays = dict(zip(self.read, read, strict=True))
        new = {**arrays, self.name: name}
        for bound in self.bound:
            if bound not in new:
                of = arrays.get(self.blocks.get(bound, ""))
                new[bound] = names.fresh_local(bound) if of is None else names.fresh_block(of)
        return [renamed(s, new) for s in self.statements]

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


def _decided(d: Decision, values: Mapping[Var, Expr]) -> Decision:
    return replace(d, body=with_values(d.body, values), within=[_decided(inner, values) for inner in d.within])
