"""The cost model of Figure 6: additions, multiplications and scalar functions, and nothing for indexing.

What an expression costs is first written down as charges, (weight, domain): so much for every point of that domain.
Counting the points at given sizes is a second step, in which domains fall apart into factors that share no
index; so `gen i:n, j:m. x[i]*y[j]` takes no time to count, however large n and m are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from tensorlang.errors import ArgumentError
from tensorlang.interning import Interned
from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Lookup, Size, atom_affine, constant
from tensorlang.language.arguments import Bound, bind, size_values, to_leaves
from tensorlang.language.evaluate import Evaluator, nest, setting
from tensorlang.language.function import Function
from tensorlang.language.grammar import (
    Add,
    Bracket,
    Call,
    Choice,
    Expr,
    Extremum,
    Gen,
    Let,
    Mul,
    Sum,
    children,
)
from tensorlang.language.grid import Setting, count, indices_of
from tensorlang.language.points import ORIGIN
from tensorlang.language.predicates import (
    FALSE,
    TRUE,
    Equal,
    NonNegative,
    Or,
    Predicate,
    conjunction,
    conjuncts,
    disjunction,
    lookups,
    substitute,
    within,
)
from tensorlang.recursion import run
from tensorlang.sets.solve import project, solve


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Domain(metaclass=Interned):
    """The points of the ranges of some indices, given with their sizes, at which `pred` is true."""

    binders: tuple[tuple[Index, Affine], ...]
    pred: Predicate

    def under(self, p: Predicate) -> Domain:
        """The points at which `p` is true too."""
        return self if p is TRUE else Domain(self.binders, _both(self.pred, p))

    def over(self, *binders: tuple[Index, Affine]) -> Domain:
        """The points of more indices; an outer one that is bound again is renamed."""
        hidden = {i: Index(i.name) for i, _ in self.binders if any(i is j for j, _ in binders)}
        if not hidden:
            return Domain((*self.binders, *binders), self.pred)
        outer = tuple((hidden.get(i, i), n) for i, n in self.binders)
        return Domain((*outer, *binders), substitute(self.pred, {i: atom_affine(j) for i, j in hidden.items()}))


EVERYWHERE = Domain((), TRUE)
Charges = dict[Domain, int]


def cost(f: Function, /, relations: Mapping[str, Any] | None = None, **sizes: Any) -> int:
    """What `f` costs at the given sizes (Figure 6), exactly. A greatest or least value costs the points less one.

    Relations and index arrays are given like sizes, each under its name; sizes that their shapes tell may be left out,
    and so may index arrays that the cost does not depend on. Where it depends on the points that an argmax of `f`
    chooses, the arrays of all parameters are needed. `relations` takes the same by name, for names that are no keywords
    of Python's. Raises `ArgumentError`, and `LimitError` if too many points must be looked at one by one.
    """
    counter = Counter(known(f, {**(relations or {}), **sizes}))
    return sum(weight * counter.points(domain) for domain, weight in charges(f.body).items())


def known(f: Function, given: Mapping[str, Any]) -> Setting:
    """What the points of `f` are counted under, given its sizes and data by name, as for `cost`."""
    names = {p.name for p in f.params}
    if any(isinstance(e, Let) and isinstance(e.var, IndexArray) for e in _uses_first(f.body)) and names <= set(given):
        return _chosen(f, bind(f, (), given))
    return setting(size_values(f, **given))


def _chosen(f: Function, bound: Bound) -> Setting:
    """The setting at these arguments, with the index arrays that outermost lets of `f` bind."""
    leaves = [leaf for x in f.variables for leaf in to_leaves(x.type, bound.values[x])]
    evaluator = Evaluator(
        f, bound, exact=any(isinstance(leaf, np.ndarray) and leaf.dtype.kind == "O" for leaf in leaves)
    )
    with np.errstate(all="ignore"):
        run(evaluator.at(f.body, ORIGIN))
    made = setting(bound)
    body = f.body
    while isinstance(body, Let):
        if isinstance(body.var, IndexArray):
            made.arrays[body.var] = evaluator.setting.arrays[body.var]
        body = body.body
    return made


def charges(e: Expr) -> Charges:
    """What `e` costs as weights and domains: the sum of weight * points of the domain is Figure 6 (4.22 to 4.34).

    Each node is charged for every use of it, so for the tree that the graph stands for.
    """
    total: Charges = {}
    brackets = _brackets(_uses_first(e))
    for node, domain, weight in visits(e):
        for where, amount in _charge(node, domain, brackets):
            if where.pred is not FALSE:
                total[where] = total.get(where, 0) + weight * amount
    return {domain: weight for domain, weight in total.items() if weight}


def visits(e: Expr) -> Iterator[tuple[Expr, Domain, int]]:
    """Each expression in `e` with the points at which it is evaluated, and how often it is at each."""
    reached: dict[Expr, Charges] = {e: {EVERYWHERE: 1}}
    for node in _uses_first(e):
        for domain, weight in reached.pop(node, {}).items():
            yield node, domain, weight
            for child, inner in _parts(node, domain):
                at = reached.setdefault(child, {})
                at[inner] = at.get(inner, 0) + weight


def _parts(e: Expr, domain: Domain) -> list[tuple[Expr, Domain]]:
    """The parts of `e`, and where they are evaluated if it is on `domain`."""
    match e:
        case Gen(index, size, body):
            return [(body, domain.over((index, size)))]
        case Sum():
            binders, p, body = nest(e)
            return [(body, domain.over(*binders).under(p))]
        case Extremum(_, index, size, p, body) | Choice(_, index, size, p, body):
            return [(body, domain.over((index, size)).under(p))]
        case Bracket(p, body):
            return [(body, domain.under(p))]
    return [(child, domain) for child in children(e)]


def _charge(e: Expr, domain: Domain, brackets: Mapping[Expr, Predicate]) -> list[tuple[Domain, int]]:
    """What `e` itself, without its parts, costs on `domain`."""
    match e:
        case Add(left, right, sign):  # 4.24
            p, q = brackets.get(left, TRUE), brackets.get(right, TRUE)
            if sign < 0:
                return [(domain.under(q), 1)]
            if isinstance(p, Or) or isinstance(q, Or):
                # p, q less p or q: in a sum of many terms the unions cancel out, but for the last
                return [(domain.under(p), 1), (domain.under(q), 1), (domain.under(disjunction([p, q])), -1)]
            return [(domain.under(p).under(q), 1)]
        case Mul():  # 4.25
            return [(domain, 1)]
        case Call(f, _):  # 4.26
            return [(domain, f.cost)]
        case Sum():  # 4.30
            binders, p, _ = nest(e)
            return _reduction(domain, binders, p)
        case Extremum(_, index, size, p, _) | Choice(_, index, size, p, _):
            return _reduction(domain, [(index, size)], p)
        case _:  # 4.22, 4.23, 4.27 to 4.29, 4.31 to 4.34
            return []


def _reduction(domain: Domain, binders: list[tuple[Index, Affine]], p: Predicate) -> list[tuple[Domain, int]]:
    """The points of `p` less one, where there are any."""
    inner = domain.over(*binders)
    outer = Domain(inner.binders[: len(domain.binders)], inner.pred)
    return [(inner.under(p), 1), (outer.under(project(dict(binders), p, dict(outer.binders))), -1)]


def _both(p: Predicate, q: Predicate) -> Predicate:
    """p and q. Of bounds on the same terms only the tightest stays, so that shared parts reached under many
    combinations of brackets are reached on few domains."""
    parts: dict[object, Predicate] = {}
    for part in conjuncts(conjunction([p, q])):
        key: object = part
        if isinstance(part, NonNegative):
            key = part.value.terms
            known = parts.get(key)
            if isinstance(known, NonNegative) and known.value.constant <= part.value.constant:
                continue
        parts[key] = part
    return conjunction(parts.values())


def _brackets(uses_first: list[Expr]) -> dict[Expr, Predicate]:
    """Where expressions are not 0 by their outermost brackets: of a sum, where one of its terms is not.

    The terms of a sum under a bracket say nothing more, else predicates would grow with the depth of the program.
    """
    found: dict[Expr, Predicate] = {}
    for e in reversed(uses_first):
        match e:
            case Bracket(p, body):
                found[e] = conjunction([p, found[body]]) if isinstance(body, Bracket) else p
            case Add(left, right, _) if left in found and right in found:
                found[e] = disjunction([found[left], found[right]])
    return found


def _uses_first(root: Expr) -> list[Expr]:
    """Every expression in `root`, after all those that it is a part of."""
    order: list[Expr] = []
    seen: set[Expr] = set()
    stack: list[tuple[Expr, bool]] = [(root, False)]
    while stack:
        e, done = stack.pop()
        if done:
            order.append(e)
        elif e not in seen:
            seen.add(e)
            stack.append((e, True))
            stack += [(child, False) for child in children(e)]
    return order[::-1]


class Counter:
    """Counts the points of domains at given sizes and relations."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.values: dict[Atom, Affine] = {size: constant(n) for size, n in setting.sizes.items()}
        self.counted: dict[Domain, int] = {}

    def points(self, domain: Domain) -> int:
        """The number of points of `domain`. Raises `LimitError` if it can't be found within memory."""
        ranges = {i: size.substitute(self.values) for i, size in domain.binders}
        if any(size.constant <= 0 for size in ranges.values()):
            return 0
        p = substitute(domain.pred, self.values)
        # the indices that have one value are settled together: `solve` takes one after the other
        fixed: dict[Atom, Affine] = {}
        inside: list[Predicate] = []
        for i, a in map(_value, conjuncts(p)):
            if i is not None and i in ranges:
                fixed[i] = a
                inside.append(within(a, ranges.pop(i)))
        solution = solve(conjunction([substitute(p, fixed), *inside]), ranges, {})
        boxes = {i: ranges[i].constant for i in solution.free}
        parts: list[Predicate] = []
        for p in conjuncts(solution.rest):
            truth = _truth(p, boxes, self.setting.sizes)
            if truth is False:
                return 0
            if truth is None:
                parts.append(p)
        result = 1
        for indices, group in _factors(parts):
            if result:
                result *= self._count(tuple((i, boxes.pop(i)) for i in indices), group)
        return result * math.prod(boxes.values())

    def _count(self, ranges: tuple[tuple[Index, int], ...], parts: list[Predicate]) -> int:
        canonical = {i: _place(k) for k, (i, _) in enumerate(ranges)}
        p = substitute(conjunction(parts), {i: atom_affine(j) for i, j in canonical.items()})
        key = Domain(tuple((canonical[i], constant(n)) for i, n in ranges), p)
        if key not in self.counted:
            self._need_elements(p)
            self.counted[key] = count(key.binders, p, self.setting)
        return self.counted[key]

    def _need_elements(self, p: Predicate) -> None:
        for lookup in lookups(p):
            if lookup.array not in self.setting.arrays:
                raise ArgumentError(
                    f"the cost depends on the elements of {lookup.array.name}",
                    hint="pass the index array by its name; for what an argmax chooses, the arrays of all parameters, "
                    "and where it is inside of a gen or sum, lift it out by let_lift",
                )


def _value(p: Predicate) -> tuple[Index | None, Affine]:
    """The index of which `p` says that it is a certain number, and the number."""
    match p:
        case Equal(Affine(((Index() as index, 1),), k)):
            return index, constant(-k)
    return None, constant(0)


def _truth(p: Predicate, boxes: Mapping[Index, int], sizes: Mapping[Size, int]) -> bool | None:
    """Whether a comparison is true, or false, in all of a box; None if neither."""
    if not isinstance(p, Equal | NonNegative):
        return False if p is FALSE else None
    a = p.difference if isinstance(p, Equal) else p.value
    ends = [k * (_count_of(atom, boxes, sizes) - 1) for atom, k in a.terms]
    low = a.constant + sum(min(0, end) for end in ends)
    high = a.constant + sum(max(0, end) for end in ends)
    if isinstance(p, Equal):
        return False if low > 0 or high < 0 else True if low == high else None
    return True if low >= 0 else False if high < 0 else None


def _count_of(atom: Atom, boxes: Mapping[Index, int], sizes: Mapping[Size, int]) -> int:
    """How many values an index or an element has, from 0 on."""
    assert isinstance(atom, Index | Lookup), "sizes are known"
    return boxes[atom] if isinstance(atom, Index) else atom.array.size.value(sizes)  # type: ignore[arg-type]


def _factors(parts: list[Predicate]) -> list[tuple[tuple[Index, ...], list[Predicate]]]:
    """The conjuncts in groups that share no index, each group with its indices."""
    leader: dict[Index, Index] = {}

    def find(i: Index) -> Index:
        while leader.setdefault(i, i) is not i:
            leader[i] = i = leader[leader[i]]
        return i

    for p in parts:
        for i in indices_of(p):
            leader[find(i)] = find(indices_of(p)[0])
    groups: dict[Index | None, list[Predicate]] = {}
    for p in parts:
        groups.setdefault(find(indices_of(p)[0]) if indices_of(p) else None, []).append(p)
    return [(tuple(i for i in leader if find(i) is first), group) for first, group in groups.items()]


@cache
def _place(k: int) -> Index:
    """A name for the k-th index of a domain, so that equal domains of different programs are counted once."""
    return Index(f"i{k}")
