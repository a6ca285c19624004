"""Whether two programs have equal values for all sizes from 1 on and whatever the data.

Plain normal forms are tried first. Where these grow too large, cut points are used: pairs of a let of one program and a
let of the other that a certificate names. Each pair is shown to be equal before it is used, and is one atom from then
on. A pair that is not shown to be equal is not used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from . import trees
from .budget import Budget, TooLarge, Undecided
from .facts import Facts, fresh
from .kinds import leaves, shape
from .meaning import ONE, Bound, Meaning, Place
from .normal import LET, LINEAR, Term, Values, negated
from .predicates import within
from .trees import Expr, Let, PairType, Pred, Program, Refused, Type, chooses, name

_PLAIN = 3.0
"""Seconds that are spent without cut points, if there are any."""


@dataclass(frozen=True)
class Side:
    """One part of a program's result: all of it for None, else the first or the second of a pair."""

    program: Program
    part: int | None = None


def equal(
    first: Side, second: Side, matches: Sequence[tuple[str, str]], budget: Budget, thorough: bool = True
) -> str | None:
    """The reason why both are not shown to be equal; None if they are. The ways that take longest are tried if
    `thorough`.

    Raises `Refused` if their types differ, and `TooLarge`.
    """
    why = None
    nodes = list(trees.walked((first.program.body, second.program.body)))
    chooses = any(isinstance(node, trees.Best) for node in nodes)
    branches = any(isinstance(node, trees.Call) and node.function in LINEAR for node in nodes)
    for how in (
        _How(),
        *([_How(chosen=True)] if chooses else []),
        *([_How(branches=True)] if branches else []),
        *([_How(chosen=chooses, zeros=True)] if thorough else []),
        *([_How(chosen=chooses, zeros=True, branches=True)] if thorough and branches else []),
    ):
        why = _equal(first, second, matches, budget, how)
        if why is None:
            return None
    return why


@dataclass(frozen=True)
class _How:
    """Whether facts are used about indices that are `chosen`, about functions that are 0 where their arguments are, and
    about functions that are the `branches` of a comparison. With them more predicates are left out or put in, which
    makes some values the same and others different."""

    chosen: bool = False
    zeros: bool = False
    branches: bool = False


def _equal(first: Side, second: Side, matches: Sequence[tuple[str, str]], budget: Budget, how: _How) -> str | None:
    if not matches:
        return _Both(first, second, budget, how).decide(())
    try:
        why = _Both(first, second, budget.part(_PLAIN), how).decide(())
    except TooLarge:
        budget.spend()
    else:
        return why and _Both(first, second, budget, how).decide(matches)
    why = _Both(first, second, budget, how).decide(matches)
    return why and _Both(first, second, budget, how).decide(())


class _Both:
    def __init__(self, first: Side, second: Side, budget: Budget, how: _How) -> None:
        self.facts = Facts(budget)
        self.facts.knows_choices = how.chosen
        for side in (first, second):
            self.facts.declare(side.program.params)
        self.values = Values(self.facts)
        self.values.zeros, self.values.branches = how.zeros, how.branches
        self.sides = [Opened(self.values, side) for side in (first, second)]

    def decide(self, matches: Iterable[tuple[str, str]]) -> str | None:
        one, two = self.sides
        mine, theirs = leaves(one.kind), leaves(two.kind)
        if [kind for _, kind in mine] != [kind for _, kind in theirs]:
            raise Refused("the results have other types")
        try:
            for x, y in matches:
                if x in one.place.lets and y in two.place.lets:
                    self._cut(one.place.lets[x], two.place.lets[y])
            for k, ((path, kind), (other, _)) in enumerate(zip(mine, theirs, strict=True)):
                sizes, _ = shape(kind)
                places = tuple(name(fresh()) for _ in sizes)
                around = [within(i, n) for i, n in zip(places, sizes, strict=True)]
                v, w = one.value(path, places, around), two.value(other, places, around)
                left = self.values.left([*v, *negated(w)], around)
                if left and self.values.zeros:
                    left = self.values.left(self.values.narrowed(left, around), around)
                if left:
                    return f"part {k} of the results"
        except Undecided as error:
            return str(error)
        return None

    def _cut(self, one: Bound, two: Bound) -> None:
        """Give the values of two lets one name, if they are shown to be equal."""
        if chooses(one.expr) or chooses(two.expr):
            return
        mine, theirs = leaves(one.kind), leaves(two.kind)
        if [kind for _, kind in mine] != [kind for _, kind in theirs]:
            return
        for (path, kind), (other, _) in zip(mine, theirs, strict=True):
            sizes, _ = shape(kind)
            params, v = one.formal(path)
            names, w = two.formal(other)
            if len(v) < 2 and len(w) < 2:
                continue
            places = tuple(map(name, params))
            around = one.context(params, sizes)
            w = two.value(other, places)
            if self.values.is_zero([*v, *negated(w)], around):
                node = self.values.named(LET, places, [v])
                one.known[path] = params, [Term(ONE, ((node.key, places),))]
                two.known[other] = names, [Term(ONE, ((node.key, tuple(map(name, names))),))]


class Opened:
    """A program's result, with its outermost lets taken off."""

    def __init__(self, values: Values, side: Side) -> None:
        self.meaning = Meaning(values, side.program)
        self.kind: Type = self.meaning.kinds.type
        self.place = Place()
        e: Expr = side.program.body
        while isinstance(e, Let):
            self.place = self.place.let(e.name, self.meaning.bound(e, e.value, self.place))
            e = e.body
        if side.part is not None:
            if not isinstance(e, trees.Pair) or not isinstance(self.kind, PairType):
                raise Refused(f"{side.program.name} gives no pair")
            e, self.kind = (e.second, self.kind.second) if side.part else (e.first, self.kind.first)
        self.expr = e

    def value(self, path: tuple[int, ...], places: tuple[trees.Affine, ...], around: list[Pred]) -> list[Term]:
        """The part at `path`, read at `places`."""
        return self.meaning.value(self.expr, path, places, replace(self.place, known=tuple(around)))
