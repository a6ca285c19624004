"""Conditions without quantifiers and data, as nodes: where they hold of numbers, or of arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce

from tensorlang.errors import NormalFormError
from tensorlang.language.affine import Affine, Size
from tensorlang.language.comparisons import chains
from tensorlang.language.predicates import And, Equal, NonNegative, Or, Predicate
from tensorlang.lowering.arrays.ir import Infix, Name, Node


def sides(p: Equal | NonNegative) -> tuple[Affine, str, Affine]:
    """A comparison as it reads best."""
    (chain,) = chains([p], lambda atom: (isinstance(atom, Size), atom.name))
    return chain.sides[0], "==" if chain.operators[0] == "=" else chain.operators[0], chain.sides[1]


def condition(p: Predicate, integer: Callable[[Affine], Node]) -> Node:
    """Where `p` holds, with affine expressions as `integer` writes them."""
    match p:
        case Equal() | NonNegative():
            left, operator, right = sides(p)
            return Infix(integer(left), operator, integer(right))
        case And(parts) | Or(parts):
            return joined((condition(q, integer) for q in parts), isinstance(p, And))
    raise NormalFormError("which tiles are visited is said without quantifiers and data")


def joined(conditions: Iterable[Node], every: bool) -> Node:
    """Whether all of them hold, or if not `every`, one of them."""
    found = list(conditions)
    operator = "&" if every else "|"
    return reduce(lambda a, b: Infix(a, operator, b), found) if found else Name(str(every))
