"""Sums of products of which the program computes a part anyway: that part costs nothing.

let m = gen i, k. sum j. y[i, j] * v[k, j] in  .. gen i. sum j. y[i, j] * sum k. p[i, k] * v[k, j] ..
                                           ->  .. gen i. sum k. p[i, k] * m[i, k] ..
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Mapping

from tensorlang.cost.polynomial import total
from tensorlang.language.affine import Affine, Atom, Size, atom_affine
from tensorlang.language.predicates import conjuncts, substitute
from tensorlang.normal.pattern import axes
from tensorlang.normal.ssa import SSA, Contraction, Statement, live, operands, output_list
from tensorlang.normal.tidy import is_index_only, replaced, with_operands
from tensorlang.simplify.plans import MOST_FACTORS, Tree, cheaper, plans, usual_sizes, written_cost
from tensorlang.simplify.summation import Summation, inlined, scheme, summation


def reuse(s: SSA, sizes: Mapping[Size, int] | None = None) -> SSA:
    """`s` with sums of several factors made of what it computes anyway; never dearer at any size of at least 1.

    With `sizes` it is the cost there that counts, and what is never dearer whatever the sizes that are not given.
    """
    done: set[Statement] = set()
    while (found := _first(s, done, dict(sizes or {}))) is not None:
        s = live(replaced(s, dict([found])))
        done.add(found[1])
    return s


def _first(s: SSA, done: set[Statement], sizes: dict[Size, int]) -> tuple[Statement, Statement] | None:
    """The first statement that is better made of others, and what it becomes."""
    uses = Counter(y for x in s.statements for y in operands(x))
    uses.update(output_list(s.outputs))
    private = {y for y in s.statements if isinstance(y, Contraction) and uses[y] == 1 and not is_index_only(y)}
    for x in s.statements:
        if isinstance(x, Contraction) and x not in done and any(y in private for y in x.factors):
            done.add(x)
            whole, own = _whole(x, private)
            if len(whole.factors) > 2:
                there = {_content(y): y for y in _apart(s, x) if isinstance(y, Contraction) and y not in own}
                made = _made_of(whole, [x, *own], there, sizes)
                if made is not None:
                    return x, made
    return None


def _whole(x: Contraction, private: Collection[Statement]) -> tuple[Summation, list[Contraction]]:
    """`x` with those in the places of its factors that it alone reads, and which these are."""
    whole, own, k = summation(x), list[Contraction](), 0
    while k < len(whole.factors) < MOST_FACTORS:
        y = whole.factors[k]
        if isinstance(y, Contraction) and y in private:
            own.append(y)
            whole, k = inlined(whole, k), 0
        else:
            k += 1
    return whole, own


def _apart(s: SSA, x: Statement) -> list[Statement]:
    """The statements that don't need `x`."""
    need = {x}
    for y in s.statements:
        if not need.isdisjoint(operands(y)):
            need.add(y)
    return [y for y in s.statements if y not in need]


def _content(x: Contraction) -> Hashable:
    """What two contractions have in common that say the same, whatever the order of their factors."""
    s = scheme(x.pattern)
    reads = sorted(zip(map(id, x.factors), s.reads, strict=True), key=lambda read: read[0])
    inner = dict.fromkeys(i for _, r in reads for i in r.indices if i not in s.own)
    names: dict[Atom, Affine] = {
        i: atom_affine(j) for i, j in zip((*s.own, *inner), axes(0, len(s.own) + len(inner)), strict=True)
    }
    at = tuple((y, tuple(a.substitute(names) for a in r.at)) for y, r in reads)
    ranges = tuple(s.ranges[i] for i in inner)
    return x.shape, ranges, len(s.ranges), at, frozenset(conjuncts(substitute(s.pred, names)))


def _made_of(
    whole: Summation, written: list[Contraction], there: Mapping[Hashable, Contraction], sizes: dict[Size, int]
) -> Statement | None:
    """`whole` of parts that are `there`, if that is cheaper than what is written."""
    ways = plans(whole.pattern)
    free: dict[frozenset[int], Tree] = {}
    sides: dict[frozenset[int], Tree] = {frozenset((k,)): k for k in ways.every}
    known: dict[Statement, Statement] = {}
    for size in range(2, len(ways.every)):
        for left, right in [(a, b) for a in sides for b in sides if len(a) + len(b) == size and a.isdisjoint(b)]:
            tree = sides[left], sides[right]
            part = _with_parts(ways.part(tree, whole.factors), known)
            found = there.get(_content(part)) if isinstance(part, Contraction) else None
            if found is not None and left | right not in free:
                known[part] = found
                free[left | right] = tree
        sides |= {part: tree for part, tree in free.items() if len(part) == size}
    if not free:
        return None
    cost = total(written_cost(y.pattern) for y in written)
    best = ways.cheapest(usual_sizes(cost, sizes), free)
    if not cheaper(ways.cost(best, free.values()), cost, sizes):
        return None
    return _with_parts(ways.build(best, whole.factors), known)


def _with_parts(x: Statement, known: Mapping[Statement, Statement]) -> Statement:
    """`x` made of what is known to say the same as parts of it."""
    new = {y: _with_parts(y, known) for y in operands(x) if isinstance(y, Contraction)}
    x = with_operands(x, {y: new.get(y, y) for y in operands(x)})
    return known.get(x, x)
