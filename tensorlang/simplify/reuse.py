"""Sums of products of which the program computes a part anyway: that part costs nothing.

let m = gen i, k. sum j. y[i, j] * v[k, j] in  .. gen i. sum j. y[i, j] * sum k. p[i, k] * v[k, j] ..
                                           ->  .. gen i. sum k. p[i, k] * m[i, k] ..
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import replace
from functools import partial

from tensorlang.cost.polynomial import total
from tensorlang.language.affine import Affine, Atom, Size, atom_affine
from tensorlang.language.predicates import conjuncts, substitute
from tensorlang.normal.contraction import Factors
from tensorlang.normal.pattern import axes
from tensorlang.normal.ssa import SSA, Contraction, Statement, live, operands, output_list
from tensorlang.normal.tidy import is_index_only, map_outputs, with_operands
from tensorlang.recursion import Deep, run
from tensorlang.simplify.plans import MOST_FACTORS, Tree, cheaper, plans, usual_sizes, written_cost
from tensorlang.simplify.summation import Summation, inlined, scheme, summation


def reuse(s: SSA, sizes: Mapping[Size, int] | None = None) -> SSA:
    """`s` with sums of several factors made of what it computes anyway; never dearer at any size of at least 1.

    With `sizes` it is the cost there that counts, and what is never dearer whatever the sizes that are not given.
    """
    uses = Counter(y for x in s.statements for y in operands(x))
    uses.update(output_list(s.outputs))
    sums = [x for x in s.statements if isinstance(x, Contraction)]
    private = {y for y in sums if uses[y] == 1 and not is_index_only(y)}
    there: dict[Hashable, Contraction] = {}
    change: dict[Statement, Statement] = {}
    for x in sums:
        whole, own = _whole(x, private)
        if own and len(whole.factors) > 2:
            there = there or {_content(y): y for y in sums if len(y.factors) > 1}
            made = _made_of(whole, [x, *own], there, dict(sizes or {}), partial(_needs, x, change))
            if made is not None:
                change[x] = made
                # what was for `x` alone may be gone, and what `x` is made of stays
                for y in (x, *own):
                    there.pop(_content(y), None)
                private -= _parts(made, uses.keys())
    return _changed(s, change) if change else s


def _parts(x: Statement, program: Collection[Statement]) -> set[Statement]:
    """The statements of the program that `x`, which is not one of them, is made of."""
    found: set[Statement] = set()
    stack = [x]
    while stack:
        for y in operands(stack.pop()):
            if y in program:
                found.add(y)
            else:
                stack.append(y)
    return found


def _needs(x: Statement, change: Mapping[Statement, Statement], y: Statement) -> bool:
    """Whether `y` needs `x`."""
    seen, stack = {y}, [y]
    while stack:
        z = stack.pop()
        fresh = [o for o in operands(change.get(z, z)) if o not in seen]
        seen.update(fresh)
        stack += fresh
    return x in seen


def _changed(s: SSA, change: Mapping[Statement, Statement]) -> SSA:
    """`s` with others in the places of some statements, made of those of `s` in any order."""
    new: dict[Statement, Statement] = {}

    def made(x: Statement) -> Deep[Statement]:
        if x not in new:
            y = change.get(x, x)
            for z in operands(y):
                yield made(z)
            new[x] = with_operands(y, new)
        return new[x]

    for x in s.statements:
        run(made(x))
    names = {new[x]: name for x, name in s.names.items()}
    return live(replace(s, statements=tuple(new.values()), outputs=map_outputs(s.outputs, new), names=names))


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
    whole: Summation,
    written: list[Contraction],
    there: Mapping[Hashable, Contraction],
    sizes: dict[Size, int],
    needs_it: Callable[[Statement], bool],
) -> Statement | None:
    """`whole` of parts that are `there` and don't need it themselves, if that is cheaper than what is written."""
    ways = plans(whole.pattern)
    free: dict[frozenset[int], Tree] = {}
    sides: dict[frozenset[int], Tree] = {frozenset((k,)): k for k in ways.every}
    known: dict[Statement, Statement] = {}
    for size in range(2, len(ways.every)):
        for left, right in [(a, b) for a in sides for b in sides if len(a) + len(b) == size and a.isdisjoint(b)]:
            tree = sides[left], sides[right]
            part = _with_parts(ways.part(tree, whole.factors), whole.factors, known)
            found = there.get(_content(part)) if isinstance(part, Contraction) else None
            if found in written or left | right in free:
                continue
            if found is not None and not needs_it(found):
                known[part] = found
                free[left | right] = tree
        sides |= {part: tree for part, tree in free.items() if len(part) == size}
    if not free:
        return None
    cost = total(written_cost(y.pattern) for y in written)
    best = ways.cheapest(usual_sizes(cost, sizes), free)
    if not cheaper(ways.cost(best, free.values()), cost, sizes):
        return None
    return _with_parts(ways.build(best, whole.factors), whole.factors, known)


def _with_parts(x: Statement, factors: Factors, known: Mapping[Statement, Statement]) -> Statement:
    """`x`, a product of these factors, made of what is known to say the same as parts of it."""
    if x in factors:
        return x
    x = with_operands(x, {y: _with_parts(y, factors, known) for y in operands(x)})
    return known.get(x, x)
