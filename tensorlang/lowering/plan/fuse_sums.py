"""Numbers that are sums over the same range, added up in one pass.

    let s = sum i:n. a[i] * b[i] in let t = f(s + sum i:n. a[i] * c[i]) in ..
        ->  let s_terms = gen i:n. a[i] * b[i] in let t_terms = gen i:n. a[i] * c[i] in
            let s = sum i:n. s_terms[i] in let t1 = sum i:n. t_terms[i] in let t = f(s + t1) in ..

Each sum on its own would be a loop, and with short arrays it is starting loops that takes the time. Statements are
reordered so that sums that don't need one another are neighbours; one loop adds up such a group.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tensorlang.language.affine import Affine, IndexArray, atom_affine, is_long
from tensorlang.language.function import Function
from tensorlang.language.grammar import (
    Access,
    Add,
    Bracket,
    Call,
    Const,
    Expr,
    Gen,
    Mul,
    Sum,
    Var,
    access,
    children,
)
from tensorlang.language.lets import bindings, under
from tensorlang.language.predicates import conjuncts
from tensorlang.language.rebuilt import rewrite
from tensorlang.language.types import R, array
from tensorlang.lowering.plan.dependence import occurring, places, variable
from tensorlang.lowering.plan.guards import is_static

FEWEST = 4
"""The fewest sums that are worth a loop of their own."""

Array = Var | IndexArray
_Binding = tuple[Array, Expr]


@dataclass
class Fused:
    """A function, and for the first sum of each group all sums of the group, each with the array of its terms."""

    function: Function
    groups: dict[Var, list[tuple[Var, Var]]] = field(default_factory=dict)


def fuse_sums(f: Function) -> Fused:
    """`f` with many sums over the same range next to each other."""
    given, body = bindings(f.body)
    found = Counter(s.size for x, e in given for s in _sums(x, e))
    sizes = {size for size, count in found.items() if count >= FEWEST}
    lifted = [b for x, e in given for b in _lifted(x, e, sizes)] if sizes else []
    sums = {x: e.size for x, e in lifted if isinstance(e, Sum) and e.size in sizes and _sums(x, e)}
    # sums in groups that are too small must not delay the others
    together = _groups(lifted, sums)
    sums = {x: sums[x] for group in together for x in group}
    together = _groups(lifted, sums)
    return _ordered(f, lifted, body, together) if together else Fused(f)


def _sums(x: Array, e: Expr) -> list[Sum]:
    """The sums in a scalar whose terms are scalar operations on elements at the summed index."""
    if not isinstance(x, Var) or x.type is not R:
        return []
    found, stack = [], [e]
    while stack:
        part = stack.pop()
        if isinstance(part, Sum):
            found += [part] if _is_plain(part) else []
        elif isinstance(part, Add | Mul | Call) or (
            isinstance(part, Bracket) and all(map(is_static, conjuncts(part.pred)))
        ):
            stack += reversed(children(part))
    return list(dict.fromkeys(found))


def _is_plain(e: Sum) -> bool:
    """Whether the range is long and the terms are scalar operations on elements of arrays at the summed index."""
    if not is_long(e.size):
        return False
    here, stack = False, [e.body]
    while stack:
        part = stack.pop()
        if variable(part) is not None:
            moving = [a for a in places(part) if a.atoms]
            if any(a is not atom_affine(e.index) for a in moving):
                return False
            here = here or bool(moving)
        elif isinstance(part, Add | Mul | Call | Const):
            stack += children(part)
        else:
            return False
    return here


def _lifted(x: Array, e: Expr, sizes: set[Affine]) -> list[_Binding]:
    """x = e with the sums in `e` as statements of their own before it."""
    found = [s for s in _sums(x, e) if s.size in sizes and s is not e]
    named = {s: Var(f"{x.name}_part", R) for s in found}
    element = rewrite(e, lambda old: named.get(old) if isinstance(old, Sum) else None)
    return [*((y, s) for s, y in named.items()), (x, element)]


def _levels(given: Sequence[_Binding], sums: Collection[Array]) -> dict[Array, int]:
    """For each binding, the most `sums` on a chain of bindings that it depends on."""
    levels: dict[Array, int] = {}
    for x, e in given:
        levels[x] = max((levels[y] + (y in sums) for y in occurring(e) if y in levels), default=0)
    return levels


def _groups(given: Sequence[_Binding], sums: Mapping[Array, Affine]) -> list[list[Array]]:
    """The groups of `FEWEST` or more `sums` that have the same range and don't need one another."""
    levels, groups = _levels(given, sums), defaultdict(list)
    for x, size in sums.items():
        groups[levels[x], size].append(x)
    return [group for group in groups.values() if len(group) >= FEWEST]


def _ordered(f: Function, given: Sequence[_Binding], body: Expr, together: Sequence[Sequence[Array]]) -> Fused:
    """`f` with these bindings level by level, in each the groups last."""
    sums = {x for group in together for x in group}
    levels, values = _levels(given, sums), dict(given)
    made = Fused(f)
    order: list[_Binding] = []
    for level in range(1 + max(levels.values())):
        order += [(x, e) for x, e in given if levels[x] == level and x not in sums]
        for group in together:
            if levels[group[0]] == level:
                pairs, new = _split(group, values)
                made.groups[pairs[0][0]] = pairs
                order += new
    return replace(made, function=replace(f, body=under(order, body)))


def _split(group: Sequence[Array], values: Mapping[Array, Expr]) -> tuple[list[tuple[Var, Var]], list[_Binding]]:
    """Each sum of a group with the array of its terms; and the bindings, of the arrays first, then of the sums."""
    pairs: list[tuple[Var, Var]] = []
    arrays: list[_Binding] = []
    totals: list[_Binding] = []
    for x in group:
        e = values[x]
        assert isinstance(x, Var) and isinstance(e, Sum)
        terms = e.body.body if isinstance(e.body, Access) else None
        if not isinstance(terms, Var):
            terms = Var(f"{x.name}_terms", array((e.size,), R))
            arrays.append((terms, Gen(e.index, e.size, e.body)))
        pairs.append((x, terms))
        totals.append((x, Sum(e.index, e.size, access(terms, atom_affine(e.index)))))
    return pairs, [*arrays, *totals]
