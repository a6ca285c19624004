"""A simplified program as few statements: what kernels store, each an expression of inputs and of others stored.

    let s = gen i:n, j:n. sum a:d. Q[i, a] * K[j, a] in                    is inlined where it is read: it is larger
    let p = gen i:n, j:n. exp(s[i, j] - m[i]) in                           than anything that is in memory anyway
    let z = gen i:n. sum j:n. p[i, j] in                                   is stored
    let r = gen i:n. recip(z[i]) in                                        is inlined where it is read: no sum

Arrays without a sum are inlined. So is a sum whose array would be larger than every parameter and result: computed
tile by tile, it is never in memory. And so is an array stored along a slant, as simplification stores a band, if each
element is read once: sums over the band's width become sums over the columns that are read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Size, atom_affine, constant
from tensorlang.language.function import Function
from tensorlang.language.grammar import (
    Bracket,
    Compared,
    Expr,
    Extremum,
    Let,
    Sum,
    Var,
    access,
    bracket,
    children,
    gen,
)
from tensorlang.language.lets import bindings
from tensorlang.language.names import free_names
from tensorlang.language.predicates import TRUE, Predicate, conjunction, equal, less, within
from tensorlang.language.rebuilt import rewrite, with_atoms, with_children
from tensorlang.language.types import leaves, shape
from tensorlang.lowering.kernels.ir import Results, leaves_of
from tensorlang.lowering.kernels.masks import Conditions, ValueCondition, with_masks
from tensorlang.lowering.kernels.terms import (
    Made,
    Reduction,
    nodes,
    reads,
    rebuilt,
    reduction,
    renamed,
    renamed_bound,
    whole,
)
from tensorlang.lowering.plan import statements
from tensorlang.lowering.plan.dependence import Key, are_apart, is_condition, places, read_by, variable
from tensorlang.lowering.plan.numbers import numbers_of
from tensorlang.recursion import Deep, call, run
from tensorlang.sets.isl import implies
from tensorlang.sets.simplify import simplify
from tensorlang.sets.solve import Ranges, ranges_predicate

Place = tuple[str, tuple[int, ...]]


@dataclass(frozen=True)
class StoredStatement:
    """var = gen axes. body, where the body reads parameters and other statements' variables; `plain` is the same, as an
    array, without masks, and as it is written: in `body`, what is greatest of nothing is less than anything."""

    var: Var
    axes: tuple[tuple[Index, Affine], ...]
    body: Expr
    plain: Expr


@dataclass(frozen=True)
class ChosenPoints:
    """var := the points that a let of the program chooses; `numbers` has their indices as numbers, within the lets that
    it needs of arrays that are not stored."""

    var: IndexArray
    numbers: Expr


@dataclass(frozen=True)
class StoredStatements:
    """A program as statements in order; `parts` and `results` as those of `ir.KernelProgram`."""

    parts: dict[Var, Place]
    stored: tuple[StoredStatement | ChosenPoints, ...]
    results: Results
    memory: Memory


@dataclass(frozen=True)
class Memory:
    """The shapes of the arrays that are in memory anyway."""

    shapes: tuple[tuple[Affine, ...], ...]

    def holds(self, extents: Iterable[Affine]) -> bool:
        """Whether an array of these extents is at most as large as one of `shapes`, up to a constant factor.

        Each extent that is no number is matched with one that is at least as long, again up to a constant.
        """
        wanted = [n for n in extents if not n.is_constant]
        return any(_matched(wanted, list(sizes)) for sizes in self.shapes)


def _matched(wanted: list[Affine], sizes: list[Affine]) -> bool:
    for n in sorted(wanted, key=lambda n: -len(n.terms)):
        found = next((m for m in sizes if m is n), None) or next((m for m in sizes if _covers(m, n)), None)
        if found is None:
            return False
        sizes.remove(found)
    return True


def _covers(m: Affine, n: Affine) -> bool:
    return all(k > 0 and isinstance(atom, Size) for atom, k in (m - n).terms)


def takes_apart(f: Function) -> bool:
    """Whether no let of a program chooses points, except by comparing values."""
    return all(is_condition(e) for x, e in bindings(f.body)[0] if isinstance(x, IndexArray))


def stored_statements(f: Function, sums_alone: bool = True) -> StoredStatements:
    """The statements of `f`, which is simplified, for sizes of at least 1.

    Statements without sums are stored, too, where memory holds them, unless it is for `sums_alone`.
    """
    by_key: dict[Key, Var] = {
        (v, path): Var(_named(v, path), kind) for v in f.variables for path, kind in leaves(v.type)
    }
    parts = {var: (v.name, path) for (v, path), var in by_key.items()}
    lets, tree = statements.statements_of(f)
    results = run(_variables(tree, lambda key: by_key.get(key) or _let(key)))
    wanted = set(leaves_of(results))
    memory = Memory(tuple(shape(v.type)[0] for v in (*parts, *wanted)))
    skewed = _skewed([scalar for _, _, scalar in lets])
    reader, plain_reader, names = _Reader(by_key), _Reader(by_key), _Reader(by_key)
    written: dict[Var | IndexArray, Expr] = {}
    present = conjunction(less(constant(0), atom_affine(s)) for s in f.sizes)
    stored: list[StoredStatement | ChosenPoints] = []
    conditions: dict[IndexArray, ValueCondition] = {}
    for var, axes, element in lets:
        binders, scalar = _with_own_indices(axes, element)
        written[var] = gen(list(axes), names.read(element))
        ranges = dict(binders)
        plain = plain_reader.read(scalar)
        made = run(_settled(reader.read(scalar), ranges, conjunction([present, ranges_predicate(ranges)]), {}))
        made = _without_lookups(made)
        if isinstance(var, IndexArray):
            if is_condition(element):
                conditions[var] = _condition(binders, made)
            else:
                stored.append(ChosenPoints(var, _chosen(var, written, {s.var for s in stored})))
            continue
        sums = any(isinstance(e, Sum | Extremum) for e in nodes(made))
        if (
            (not sums and sums_alone)
            or not memory.holds(n for _, n in binders)
            or var in skewed
            or _slanted(binders, made)
        ):
            own = tuple(i for i, _ in binders)
            reader.inlined[var], plain_reader.inlined[var] = (own, made), (own, plain)
        if var in wanted or var not in reader.inlined:
            as_written = _bound(gen(binders, plain), conditions)
            stored.append(StoredStatement(var, tuple(binders), with_masks(made, conditions), as_written))
    return StoredStatements(parts, tuple(stored), results, memory)


def _condition(binders: Sequence[tuple[Index, Affine]], e: Expr) -> ValueCondition:
    guard: Predicate = TRUE
    while isinstance(e, Bracket):
        guard, e = conjunction([guard, e.pred]), e.body
    assert isinstance(e, Compared)
    return ValueCondition(tuple(binders), guard, e)


def _bound(e: Expr, conditions: Conditions) -> Expr:
    """`e` with lets for those conditions that it mentions."""
    for x, c in reversed(list(conditions.items())):
        if any(x is y for y in free_names(e)):
            e = Let(x, gen(list(c.binders), bracket(c.guard, c.compared)), e)
    return e


def _chosen(k: IndexArray, written: Mapping[Var | IndexArray, Expr], stored: Collection[Var | IndexArray]) -> Expr:
    """The elements of `k` as numbers, with the lets `written` that they need, except those that are `stored`."""
    needed: set[Var | IndexArray] = {k}
    stack: list[Var | IndexArray] = [k]
    while stack:
        for x in free_names(written[stack.pop()]):
            if isinstance(x, Var | IndexArray) and x in written and x not in stored and x not in needed:
                needed.add(x)
                stack.append(x)
    e = numbers_of(k)
    for x, value in reversed(list(written.items())):
        e = Let(x, value, e) if x in needed else e
    return e


def _let(key: Key) -> Var:
    assert isinstance(key[0], Var)
    return key[0]


def _with_own_indices(binders: Sequence[tuple[Index, Affine]], e: Expr) -> tuple[list[tuple[Index, Affine]], Expr]:
    """A statement whose indices occur in no other one, so that it can be inlined in others."""
    names = {i: Index(i.name) for i, _ in binders}
    bound: dict[tuple[Index, Affine], Index] = {}

    def made(_: Expr, new: Expr) -> Expr:
        if not isinstance(new, Sum | Extremum):
            return new
        return renamed_bound(new, bound.setdefault((new.index, new.size), Index(new.index.name)))

    apart = rewrite(e, lambda old: old if variable(old) is not None else None, made)
    return [(names[i], n) for i, n in binders], renamed(apart, names)


def _slanted(binders: list[tuple[Index, Affine]], e: Expr) -> bool:
    """Whether something is read at a place with two of the indices `binders`."""
    own = {i for i, _ in binders}
    return any(len(own.intersection(a.indices)) > 1 for _, at_ in reads(e) for a in at_)


def _named(v: Var, path: tuple[int, ...]) -> str:
    return "_".join([v.name, *map(str, path)])


def _variables(results: statements.Results, of: Callable[[Key], Var]) -> Deep[Results]:
    """The results as variables, where `of` says what an array is called."""
    if isinstance(results, statements.ProgramResult):
        return of(results.key)
    first = yield from call(_variables(results[0], of))
    return first, (yield from call(_variables(results[1], of)))


class _Reader:
    """Rewrites expressions: parts of parameters become variables, and arrays that are not stored are inlined."""

    def __init__(self, parts: Mapping[Key, Var]) -> None:
        self._parts = parts
        self.inlined: dict[Var, Made] = {}

    def read(self, e: Expr) -> Expr:
        """`e` in terms of variables that are in memory."""

        def given(old: Expr) -> Expr | None:
            x = variable(old)
            if x is None:
                return None
            if x not in self.inlined:
                return access(self._parts.get(read_by(old)[0], x), *places(old))
            own, body = self.inlined[x]
            return with_atoms(body, dict(zip(own, places(old), strict=True)))

        return rewrite(e, given)


def _skewed(scalars: list[Expr]) -> frozenset[Var]:
    """The variables that are read at places with several indices, and always at places that determine these: along a
    slant, each element once."""
    found: dict[Var, bool] = {}
    for x, at_ in reads(*scalars):
        slanted = any(len(a.indices) > 1 for a in at_)
        if not are_apart(at_, {i for a in at_ for i in a.indices}):
            found[x] = False
        elif slanted:
            found.setdefault(x, True)
    return frozenset(x for x, skewed in found.items() if skewed)


def _settled(e: Expr, ranges: Ranges, context: Predicate, memo: dict[Expr, Expr]) -> Deep[Expr]:
    """`e` with sums over what is read, where that makes places plain: x[i + j - 8] summed over j is x[k] over k.

    Predicates are simplified by `context` and by those around them.
    """
    if e in memo:
        return memo[e]
    parts: list[Expr] = []
    match e:
        case Sum() | Extremum():
            r = _over_what_is_read(reduction(e), ranges)
            inner = {**ranges, **dict(r.binders)}
            known = conjunction([context, ranges_predicate(dict(r.binders))])
            pred = simplify(r.pred, known)
            for factor in r.factors:
                parts.append((yield from call(_settled(factor, inner, conjunction([known, pred]), {}))))
            memo[e] = rebuilt(Reduction(r.sign, r.binders, pred, tuple(parts)))
        case Bracket(p, body):
            p = simplify(p, context)
            part = yield from call(_settled(body, ranges, conjunction([context, p]), {}))
            memo[e] = _bracket(p, part)
        case _ if variable(e) is not None:
            memo[e] = e
        case _:
            for child in children(e):
                parts.append((yield from call(_settled(child, ranges, context, memo))))
            memo[e] = with_children(e, parts)
    return memo[e]


def _without_lookups(e: Expr) -> Expr:
    """`e`, where an element of a row at a place that data choose, x[i, y[i]], is a sum along it with one term."""

    def given(old: Expr) -> Expr | None:
        x = variable(old)
        if x is None:
            return None
        at = places(old)
        for k, a in enumerate(at):
            others = {i for b in at[:k] + at[k + 1 :] for i in b.indices}
            if a.lookups and others.issuperset(a.indices) and len(a.terms) == 1 and a.constant == 0:
                j, n = Index("j"), shape(x.type)[0][k]
                element = access(whole(old), *at[:k], atom_affine(j), *at[k + 1 :])
                return Sum(j, n, Bracket(equal(atom_affine(j), a), element))
        return old

    return rewrite(e, given)


def _bracket(p: Predicate, e: Expr) -> Expr:
    """[p] * e, for a sum within it: where p is false there is nothing to add."""
    if not isinstance(e, Sum) or p is TRUE:
        return bracket(p, e)
    r = reduction(e)
    return rebuilt(replace(r, pred=conjunction([p, r.pred])))


def _over_what_is_read(r: Reduction, ranges: Ranges) -> Reduction:
    for i, n in r.binders:
        best, fewest = r, _mixed(r, i)
        for x, places_ in reads(*r.factors):
            for a, size in zip(places_, shape(x.type)[0], strict=True):
                k = a.coefficient(i)
                if fewest and abs(k) == 1 and len(a.indices) > 1 and all(j in ranges for j in a.indices if j is not i):
                    changed = _summed_over(r, i, n, a, size, ranges)
                    if changed is not None and _mixed(*changed) < fewest:
                        best, fewest = changed[0], _mixed(*changed)
        r = best
    return r


def _mixed(r: Reduction, i: Index) -> int:
    """The number of places at which `r` reads something with `i` and another index in one place."""
    return sum(i in a.indices and len(a.indices) > 1 for _, at_ in reads(*r.factors) for a in at_)


def _summed_over(
    r: Reduction, i: Index, n: Affine, a: Affine, size: Affine, ranges: Ranges
) -> tuple[Reduction, Index] | None:
    """`r` over the value of the place `a` instead of i, if it is in its range wherever there is something to sum."""
    known = conjunction([r.pred, ranges_predicate({**ranges, **dict(r.binders)})])
    if not implies(known, within(a, size)):
        return None
    new = Index(i.name)
    k = a.coefficient(i)
    value = atom_affine(i) + (atom_affine(new) - a) * k
    values: dict[Atom, Affine] = {i: value}
    made = with_atoms(rebuilt(Reduction(r.sign, (), TRUE, r.factors)), values)
    rest = with_atoms(rebuilt(Reduction(1, ((new, size),), r.pred, (made,))), values)
    assert isinstance(rest, Extremum)
    pred = conjunction([rest.pred, within(value, n)])
    factors = tuple(with_atoms(factor, values) for factor in r.factors)
    binders = tuple((new, size) if j is i else (j, m) for j, m in r.binders)
    return Reduction(r.sign, binders, pred, factors), new
