"""Scalar expressions under substitution, and sums taken apart: a predicate and factors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tensorlang.language.affine import Affine, Atom, Index, atom_affine
from tensorlang.language.grammar import Access, Bracket, Call, Expr, Extremum, Mul, Sum, Var, children
from tensorlang.language.predicates import TRUE, Predicate, conjunction, free_atoms, substitute
from tensorlang.language.rebuilt import rewrite, with_atoms
from tensorlang.lowering.kernels.masks import CHOICES, KEPT, Mask, kept, mask_of
from tensorlang.lowering.plan.dependence import places, variable
from tensorlang.recursion import Deep, call, run

Binders = tuple[tuple[Index, Affine], ...]
Made = tuple[tuple[Index, ...], Expr]
"""An array as the indices of its axes, and its element at these."""


@dataclass(frozen=True)
class Reduction:
    """The sum (`sign` 0), greatest or least value (1, -1) over `binders`, where `pred` and all `masks` hold, of the
    product of `factors`."""

    sign: int
    binders: Binders
    pred: Predicate
    factors: tuple[Expr, ...]
    masks: tuple[Expr, ...] = ()

    @property
    def parts(self) -> tuple[Expr, ...]:
        """All that it is computed from."""
        return (*self.factors, *self.masks)

    @property
    def indices(self) -> tuple[Index, ...]:
        """The indices that it is over."""
        return tuple(i for i, _ in self.binders)


def reduction(e: Sum | Extremum) -> Reduction:
    """The reduction `e`, together with reductions directly inside it; brackets of factors become one predicate.

    Nested reductions over the same index stay apart: the outer one repeats the inner one.
    """
    binders: list[tuple[Index, Affine]] = []
    preds: list[Predicate] = []
    masks: list[Expr] = []
    sign = e.sign if isinstance(e, Extremum) else 0
    body: Expr = e
    while isinstance(body, Sum) if sign == 0 else isinstance(body, Extremum) and body.sign == sign:
        assert isinstance(body, Sum | Extremum)
        if any(body.index is i for i, _ in binders):
            break
        binders.append((body.index, body.size))
        if isinstance(body, Extremum):
            preds.append(body.pred)
        body = body.body
        while sign == 0 and (isinstance(body, Bracket) or is_kept(body)):
            if isinstance(body, Bracket):
                preds.append(body.pred)
                body = body.body
            elif isinstance(body, Call):
                mask, body = body.arguments
                masks.append(mask)
    factors: list[Expr] = [body]
    if sign == 0:
        inner, more, factors = product(body)
        preds.append(inner)
        masks += more
    return Reduction(sign, tuple(binders), conjunction(preds), tuple(factors), tuple(dict.fromkeys(masks)))


def is_kept(e: Expr) -> bool:
    """Whether `e` is kept(mask, ..)."""
    return isinstance(e, Call) and e.function is KEPT


def product(e: Expr) -> tuple[Predicate, list[Expr], list[Expr]]:
    """A predicate, masks, and factors that are no products or brackets themselves: [p] * their product where the masks
    hold."""
    preds: list[Predicate] = []
    masks: list[Expr] = []
    factors: list[Expr] = []
    stack = [e]
    while stack:
        part = stack.pop()
        if isinstance(part, Mul):
            stack += [part.right, part.left]
        elif isinstance(part, Bracket):
            preds.append(part.pred)
            stack.append(part.body)
        elif isinstance(part, Call) and is_kept(part):
            mask, body = part.arguments
            masks.append(mask)
            stack.append(body)
        else:
            factors.append(part)
    return conjunction(preds), masks, factors


def multiplied(factors: Sequence[Expr], masks: Sequence[Expr] = ()) -> Expr:
    """The product, where all masks hold."""
    result = factors[0]
    for factor in factors[1:]:
        result = Mul(result, factor)
    return kept(masks, result)


def rebuilt(r: Reduction) -> Expr:
    """`r` as an expression; sums have their predicate innermost."""
    e = multiplied(r.factors, r.masks)
    if r.sign == 0 and r.pred is not TRUE:
        e = Bracket(r.pred, e)
    for depth, (i, n) in enumerate(reversed(r.binders)):
        e = Extremum(r.sign, i, n, r.pred if depth == 0 else TRUE, e) if r.sign else Sum(i, n, e)
    return e


def renamed(e: Expr, names: Mapping[Index, Index]) -> Expr:
    """`e` with other indices, bound ones too."""

    def made(_: Expr, new: Expr) -> Expr:
        match new:
            case Extremum(sign, i, n, p, a):
                return Extremum(sign, names.get(i, i), n, p, a)
            case Sum(i, n, a):
                return Sum(names.get(i, i), n, a)
            case _:
                return new

    free: dict[Atom, Affine] = {i: atom_affine(j) for i, j in names.items()}
    return rewrite(with_atoms(e, free), lambda old: old if variable(old) is not None else None, made)


def renamed_bound(e: Sum | Extremum, i: Index) -> Expr:
    """`e` with its bound index called `i`."""
    values: dict[Atom, Affine] = {e.index: atom_affine(i)}
    if isinstance(e, Sum):
        return Sum(i, e.size, with_atoms(e.body, values))
    return Extremum(e.sign, i, e.size, substitute(e.pred, values), with_atoms(e.body, values))


def whole(e: Expr) -> Expr:
    """The array that `e` is an element of."""
    while isinstance(e, Access):
        e = e.body
    return e


def reads(*expressions: Expr) -> list[tuple[Var, tuple[Affine, ...]]]:
    """The arrays that are read and their places, in order of first occurrence."""
    found: dict[tuple[Var, tuple[Affine, ...]], None] = {}
    for part in nodes(*expressions):
        x = variable(part)
        if x is not None:
            found[x, tuple(places(part))] = None
    return list(found)


def nodes(*expressions: Expr) -> list[Expr]:
    """All expressions in `expressions`, each once; an access as a whole."""
    seen: dict[Expr, None] = {}
    stack = list(reversed(expressions))
    while stack:
        part = stack.pop()
        if part not in seen:
            seen[part] = None
            if variable(part) is None:
                stack += reversed(children(part))
    return list(seen)


def paths_to(e: Expr, root: Expr) -> list[tuple[Mask, ...]]:
    """On each way from `root` to `e`, the masks without which `e` does not count."""
    found: dict[tuple[Mask, ...], None] = {}
    seen: set[tuple[Expr, tuple[Mask, ...]]] = set()
    stack: list[tuple[Expr, tuple[Mask, ...]]] = [(root, ())]
    while stack:
        part, path = stack.pop()
        if part is e:
            found[path] = None
        elif (part, path) not in seen and variable(part) is None:
            seen.add((part, path))
            match part:
                case Call(f, (mask, body)) if f in CHOICES:
                    stack += [(mask, path), (body, (*path, mask))]
                case Bracket(p, body) | Extremum(_, _, _, p, body):
                    stack.append((body, (*path, mask_of(p))))
                case _:
                    stack += [(child, path) for child in children(part)]
    return list(found)


def conditions(*expressions: Expr) -> list[Predicate]:
    """All predicates in `expressions`."""
    return [part.pred for part in nodes(*expressions) if isinstance(part, Bracket | Extremum)]


def free(e: Expr) -> frozenset[Index]:
    """The indices on which the value of `e` depends."""
    return run(_free(e, {}))


def _free(e: Expr, memo: dict[Expr, frozenset[Index]]) -> Deep[frozenset[Index]]:
    if e not in memo:
        found: set[Index] = set()
        if variable(e) is not None:
            found.update(i for a in places(e) for i in a.indices)
        else:
            for part in children(e):
                found |= yield from call(_free(part, memo))
            if isinstance(e, Bracket | Extremum):
                found |= over(e.pred)
            if isinstance(e, Sum | Extremum):
                found.discard(e.index)
        memo[e] = frozenset(found)
    return memo[e]


def over(p: Predicate) -> frozenset[Index]:
    """The indices that a predicate is over."""
    return frozenset(a for a in free_atoms(p) if isinstance(a, Index))


def vanishes(factors: Sequence[Expr], i: Index) -> bool:
    """Whether the product is 0 where `i` is beyond its end: all factors that depend on it are elements of arrays."""
    dependent = [x for x in factors if i in free(x)]
    return bool(dependent) and all(variable(x) is not None for x in dependent)
