"""The names that a printer gives to variables, indices and sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tensorlang.language.affine import Affine, Index, IndexArray, Size
from tensorlang.language.functions import KEYWORDS, functions
from tensorlang.language.grammar import (
    Access,
    Bracket,
    Choice,
    Expr,
    Extremum,
    Gen,
    Integer,
    Let,
    Recur,
    Sum,
    Var,
    children,
)
from tensorlang.language.predicates import (
    And,
    Equal,
    Exists,
    NonNegative,
    Or,
    Predicate,
    Related,
    Relation,
)

Named = Var | Index | Size | Relation | IndexArray
Bound = tuple[Named, str | None, str, int]
"""The state that `ObjectNames.restore` needs."""


class ObjectNames:
    """A spelling for each named object: its own name, with a number if that is taken.

    Two objects in scope at once never share a spelling, and no spelling is a keyword or a scalar function.
    """

    def __init__(self, given: Mapping[Named, str] | None = None) -> None:
        self._spelling: dict[Named, str] = dict(given or {})
        self._taken: set[str] = {*KEYWORDS, *functions(), "pow", "real", *self._spelling.values()}
        self._next: dict[str, int] = {}

    def __getitem__(self, named: Named) -> str:
        """The spelling of `named`, which gets a permanent one if it has none yet."""
        if named not in self._spelling:
            self.bind(named)
        return self._spelling[named]

    def bind(self, named: Named) -> Bound:
        """Give `named` a spelling that is not taken; `restore` with the result takes it back."""
        spelling = plain_name(named.name)
        wanted = spelling.rstrip("0123456789")
        k = self._next.get(wanted, 1)
        before = k
        while spelling in self._taken:
            spelling, k = f"{wanted}{k}", k + 1
        self._next[wanted] = k
        outer = self._spelling.get(named)
        self._spelling[named] = spelling
        self._taken.add(spelling)
        return named, outer, wanted, before

    def restore(self, bound: Bound) -> None:
        """Undo `bind`."""
        named, outer, wanted, before = bound
        self._taken.discard(self._spelling.pop(named))
        self._next[wanted] = before
        if outer is not None:
            self._spelling[named] = outer


def plain_name(name: str) -> str:
    """`name` as the text syntax can spell it."""
    plain = re.sub(r"[^A-Za-z0-9_]+", "_", name)
    return plain if re.match(r"[A-Za-z_]", plain) else f"v{plain}"


def free_names(e: Expr | Predicate) -> list[Named]:
    """The names that occur in an expression or predicate and are bound nowhere in it: sizes first, then in order."""
    seen: dict[Named, None] = {}
    bound: set[Named] = set()
    done: set[Expr | Predicate] = set()
    stack: list[Expr | Predicate] = [e]
    while stack:
        node = stack.pop()
        if node in done:
            continue
        done.add(node)
        affines: tuple[Affine, ...] = ()
        match node:
            case Var():
                seen[node] = None
            case Gen(index, size, body) | Sum(index, size, body) | Exists(index, size, body):
                bound.add(index)
                affines = (size,)
                stack.append(body)
            case Extremum(_, index, size, p, body) | Choice(_, index, size, p, body):
                bound.add(index)
                affines = (size,)
                stack += [body, p]
            case Access(body, at, _):
                affines = (at,)
                stack.append(body)
            case Integer(value):
                affines = (value,)
            case Bracket(p, body):
                stack += [body, p]
            case Recur(_, index, size, state, init, step):
                bound.update((index, state))
                affines = (size,)
                stack += [step, init]
            case Let(var, value, body):
                bound.add(var)
                stack += [body, value]
            case Equal(a) | NonNegative(a):
                affines = (a,)
            case Related(relation, arguments):
                seen[relation] = None
                affines = arguments
            case And(parts) | Or(parts):
                stack += reversed(parts)
            case _:
                stack += reversed(children(node))
        for a in affines:
            seen.update(dict.fromkeys(a.free))
            seen.update(dict.fromkeys(a.arrays))
    free = [named for named in seen if named not in bound]
    return [n for n in free if isinstance(n, Size)] + [n for n in free if not isinstance(n, Size)]
