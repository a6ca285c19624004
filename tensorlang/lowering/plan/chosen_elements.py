"""Elements at places that a program has chosen, stored once where windows read them.

    sum q. h[2*i + 2*q + k[i + q]] * w[q]   ->   let t = gen j. h[2*j + k[j]] in sum q. t[i + q] * w[q]

So the next layer reads what was pooled. In normal form a pooled element is h, read where its greatest element is, and
would be looked up again in each window that contains it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from tensorlang.language.affine import Affine, Atom, Index, IndexArray, atom_affine
from tensorlang.language.function import Function
from tensorlang.language.grammar import Expr, Var, access, gen
from tensorlang.language.lets import bindings, under
from tensorlang.language.predicates import within
from tensorlang.language.rebuilt import rewrite
from tensorlang.language.types import R, array, shape
from tensorlang.lowering.plan.dependence import places, reads, variable
from tensorlang.normal.pattern import axes
from tensorlang.sets.isl import implies
from tensorlang.sets.solve import ranges_predicate


@dataclass(frozen=True)
class _Element:
    """The element of `x` at `at`, whose indices are those of the axes of an array `k` of chosen places."""

    x: Var
    k: IndexArray
    at: tuple[Affine, ...]

    @property
    def needs(self) -> set[Var | IndexArray]:
        """The arrays that must exist before it."""
        return {self.x, *(array for a in self.at for array in a.arrays)}


def store_chosen_elements(f: Function) -> Function:
    """`f` with arrays of the chosen elements that windows read."""
    statements, outputs = bindings(f.body)
    chosen = {x for x, _ in statements if isinstance(x, IndexArray)}
    if not chosen:
        return f
    found: dict[Expr, tuple[_Element, tuple[Affine, ...]]] = {}
    for e in (*(e for _, e in statements), outputs):
        for read in reads(e):
            known = found.get(read) or _element(read, chosen)
            if known is not None:
                found[read] = known
    there = {*f.params, *(x for x, _ in statements)}
    windows = [element for element, at in found.values() if any(len(a.indices) > 1 for a in at)]
    stored = {
        element: Var("chosen", array(element.k.sizes, R))
        for element in windows
        if element.needs <= there and _is_there(element)
    }
    if not stored:
        return f
    values: dict[Expr, Expr] = {
        read: access(stored[element], *at) for read, (element, at) in found.items() if element in stored
    }
    made: list[tuple[Var | IndexArray, Expr]] = []
    waiting = {element: set(element.needs) - set(f.params) for element in stored}
    for x, e in statements:
        made.append((x, rewrite(e, values.get)))
        for element in [element for element, needs in waiting.items() if x in needs]:
            waiting[element].remove(x)
            if not waiting[element]:
                own = _axes(element.k)
                body = access(element.x, *element.at)
                made.append((stored[element], gen(list(zip(own, element.k.sizes, strict=True)), body)))
    return replace(f, body=under(made, rewrite(outputs, values.get)))


def _element(read: Expr, chosen: Collection[IndexArray]) -> tuple[_Element, tuple[Affine, ...]] | None:
    """The chosen element that `read` is, and where its array of choices is read; None if it is none."""
    x, at = variable(read), tuple(places(read))
    if x is None or len(at) != len(shape(x.type)[0]) or access(x, *at) is not read:
        return None
    looked_up = [lookup for a in at for lookup in a.lookups if lookup.array in chosen and lookup.depth == 1]
    if not looked_up:
        return None
    base = looked_up[0]
    own = _axes(base.array)
    values: dict[Atom, Affine] = {}
    for i, place in zip(own, base.at, strict=True):
        a = place.substitute(values)
        free = [j for j in a.indices if j not in own and abs(a.coefficient(j)) == 1]
        if not free:
            return None
        j = free[0]
        value = atom_affine(j) + (atom_affine(i) - a) * a.coefficient(j)
        values = {**{k: v.substitute({j: value}) for k, v in values.items()}, j: value}
    moved = tuple(a.substitute(values) for a in at)
    if any(i not in own for a in moved for i in a.indices):
        return None
    return _Element(x, base.array, moved), base.at


def _axes(k: IndexArray) -> tuple[Index, ...]:
    return axes(0, len(k.sizes))


def _is_there(element: _Element) -> bool:
    """Whether it is within bounds for every place of its array of choices."""
    ranges = ranges_predicate(dict(zip(_axes(element.k), element.k.sizes, strict=True)))
    sizes = shape(element.x.type)[0]
    looked_up = {lookup for a in element.at for lookup in a.lookups}
    inside = [within(a, n) for a, n in zip(element.at, sizes, strict=True)]
    inside += [within(a, n) for x in looked_up for a, n in zip(x.at, x.array.sizes, strict=True)]
    return all(implies(ranges, p) for p in inside)
