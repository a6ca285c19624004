"""The cost model of Figure 6: additions, multiplications and scalar functions, and nothing for indexing.

The cost of an expression is first written down as charges (weight, domain): that weight for every point of the domain.
Counting the points at given sizes is a second step, in which domains split into factors that share no index; so
`gen i:n, j:m. x[i]*y[j]` takes no time to count, however large n and m are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tensorlang.budget import limited
from tensorlang.costs.chosen import facts_of, settled
from tensorlang.costs.counter import Counter
from tensorlang.costs.domains import EVERYWHERE, Charges, Domain
from tensorlang.costs.loops import Visits, counted, has_loops, of_call, unknown_visits
from tensorlang.errors import ArgumentError, CountingError
from tensorlang.language.affine import Affine, Index, IndexArray
from tensorlang.language.arguments import Bound, bind, size_values, to_leaves
from tensorlang.language.evaluate import Evaluator, nest, setting
from tensorlang.language.function import Function
from tensorlang.language.given import require_clear, together
from tensorlang.language.grammar import (
    Add,
    Apply,
    Bracket,
    Call,
    Choice,
    Compared,
    Expr,
    Extremum,
    Gen,
    Let,
    Mul,
    Recur,
    Sum,
    children,
)
from tensorlang.language.grid import Setting
from tensorlang.language.lets import bindings
from tensorlang.language.points import ORIGIN
from tensorlang.language.predicates import FALSE, TRUE, Or, Predicate, conjunction, disjunction, lookups
from tensorlang.language.rebuilt import height
from tensorlang.memory import cached_whole
from tensorlang.normal.let_lift import let_lift
from tensorlang.recursion import run
from tensorlang.sets.solve import project
from tensorlang.surface.inline import opened_expr


@limited
def cost(
    f: Function, given: Mapping[str, Any] | None = None, /, relations: Mapping[str, Any] | None = None, **sizes: Any
) -> int:
    """The cost of `f` at the given sizes (Figure 6), exactly, in scalar operations: an addition or multiplication is 1,
    a scalar function what it is registered with, indexing 0. A greatest or least value costs the points less one.

    Relations and index arrays are given like sizes, each under its name; sizes that their shapes determine may be left
    out, and so may index arrays that the cost does not depend on. Where it depends on the points that an argmax of `f`
    chooses, the arrays of all parameters are needed. A mapping by position, or as `sizes` or `relations`, gives the
    same by name: any name, such as `lambda` or `relations`. Raises `ArgumentError`, and `LimitError` if too many points
    must be looked at one by one, `CountingError` where it depends on what the steps of a recurrence choose.

    >>> f = tl.parse("f(A: [n][m]R, x: [m]R) = gen i:n. sum j:m. A[i, j] * x[j]")
    >>> tl.cost(f, n=3, m=4)
    21
    """
    if relations is not None:
        require_clear(f, "cost", given, relations=relations)
    for mapping in (given, relations):
        if mapping is not None and not isinstance(mapping, Mapping):
            hint = f"tl.cost({f.name}, {', '.join(f'{s.name}=3' for s in f.sizes)})"
            raise ArgumentError(f"expected what is given by name, a mapping or keywords, found {mapping!r}", hint=hint)
    f = with_arrays_outside(f)
    found = known(f, together(given, together(relations, sizes)))
    if height(f.body):
        _require_known_choices(f, found)
    counter = Counter(found)
    charged, visited = charges_and_visits(f.body)
    total = sum(weight * counter.points(domain) for domain, weight in charged.items())
    for x, k in visited.items():
        if found.visits is None:
            raise unknown_visits(f, x)
        total += k * found.visits(x)
    return total


def cost_of_one_trip(f: Function, given: Mapping[str, Any]) -> int:
    """The cost of `f` if each data-dependent loop has one trip, in which each branch takes the cheaper side."""
    f = with_arrays_outside(f)
    found = known(f, given)
    if height(f.body):
        _require_known_choices(f, found)
    counter = Counter(found)
    return sum(weight * counter.points(domain) for domain, weight in charges(f.body).items())


def _require_known_choices(f: Function, found: Setting) -> None:
    """Raise `CountingError` if the cost depends on what the steps of a recurrence choose."""
    made = {e.var for e in _uses_first(f.body) if isinstance(e, Let) and isinstance(e.var, IndexArray)}
    for domain in charges(f.body):
        for lookup in lookups(domain.pred):
            if lookup.array in made and lookup.array not in found.arrays:
                hint = "tl.cost_polynomial leaves the numbers of such points as unknowns"
                message = f"what {f.name} costs depends on {lookup.array.name}, which is chosen inside of its steps"
                raise CountingError(message, hint=hint)


def with_arrays_outside(f: Function) -> Function:
    """`f`, at the same cost, with its lets outermost if a let inside of a gen or sum binds a condition on values.

    The points at which conditions hold can only be described for an array of conditions bound outermost.
    """
    inside = any(isinstance(e, Compared) for e in _uses_first(bindings(f.body)[1]))
    return let_lift(f) if inside else f


def known(f: Function, given: Mapping[str, Any]) -> Setting:
    """The setting in which points of `f` are counted, given its sizes and data by name, as for `cost`."""
    names = {p.name for p in f.params}
    if names <= set(given) and has_loops(f):
        bound = bind(f, (), given)
        return replace(_chosen(f, bound), visits=counted(f, bound))
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
    for x, _ in bindings(f.body)[0]:
        if isinstance(x, IndexArray):
            made.arrays[x] = evaluator.setting.arrays[x]
    return made


def charges(e: Expr) -> Charges:
    """The cost of `e` as weights and domains: the sum of weight * points of the domain is Figure 6 (4.22 to 4.34).

    Each node is charged for each of its uses, so this is the cost of the tree that the graph stands for.
    """
    return dict(_charges(run(opened_expr(e, {}))))


def charges_and_visits(e: Expr) -> tuple[Charges, dict[Visits, int]]:
    """The cost of `e` as weights and domains, and as weights and visits of data-dependent loops."""
    total = charges(e)
    visited: dict[Visits, int] = {}
    for node, domain, weight in visits(run(opened_expr(e, {}))):
        if isinstance(node, Call) and node.function.loops is not None:
            base, found = of_call(node, domain)
            total[domain] = total.get(domain, 0) + weight * (base - node.function.cost)
            for x, k in found:
                visited[x] = visited.get(x, 0) + weight * k
    return {where: k for where, k in total.items() if k}, visited


@cached_whole
def _charges(e: Expr) -> Charges:
    total: Charges = {}
    order = _uses_first(e)
    brackets, facts = _brackets(order), facts_of(order)
    for node, domain, weight in visits(e):
        for raw, amount in _charge(node, domain, brackets):
            where = settled(raw, facts)
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
    """The parts of `e`, and the domains on which they are evaluated if `e` is evaluated on `domain`."""
    match e:
        case Gen(index, size, body):
            return [(body, domain.over((index, size)))]
        case Recur(_, index, size, _, init, step):  # (4.36)
            return [(init, domain), (step, domain.over((index, size)))]
        case Sum():
            binders, p, body = nest(e)
            return [(body, domain.over(*binders).under(p))]
        case Extremum(_, index, size, p, body) | Choice(_, index, size, p, body):
            return [(body, domain.over((index, size)).under(p))]
        case Bracket(p, body):
            return [(body, domain.under(p))]
    return [(child, domain) for child in children(e)]


def _charge(e: Expr, domain: Domain, brackets: Mapping[Expr, Predicate]) -> list[tuple[Domain, int]]:
    """The cost of `e` itself, without its parts, on `domain`."""
    match e:
        case Add(left, right, sign):  # 4.24
            p, q = brackets.get(left, TRUE), brackets.get(right, TRUE)
            if sign < 0:
                return [(domain.under(q), 1)]
            if isinstance(p, Or) or isinstance(q, Or):
                # p, q less p or q: in a sum of many terms the unions cancel out, except the last
                return [(domain.under(p), 1), (domain.under(q), 1), (domain.under(disjunction([p, q])), -1)]
            return [(domain.under(p).under(q), 1)]
        case Mul() | Compared():  # 4.25
            return [(domain, 1)]
        case Call(f, _):  # 4.26
            return [(domain, f.cost)]
        case Apply(routine, arguments):  # as it is declared
            sizes = routine.sizes_at(tuple(argument.type for argument in arguments))
            return [
                (domain.over(*((Index("c"), n.substitute(sizes)) for n in product)), weight)
                for weight, product in routine.cost
            ]
        case Sum():  # 4.30
            binders, p, _ = nest(e)
            return _reduction(domain, binders, p)
        case Extremum(_, index, size, p, _) | Choice(_, index, size, p, _):
            return _reduction(domain, [(index, size)], p)
        case _:  # 4.22, 4.23, 4.27 to 4.29, 4.31 to 4.34
            return []


def _reduction(domain: Domain, binders: list[tuple[Index, Affine]], p: Predicate) -> list[tuple[Domain, int]]:
    """The number of points of `p` minus one, or 0 if there are none."""
    inner = domain.over(*binders)
    outer = Domain(inner.binders[: len(domain.binders)], inner.pred)
    return [(inner.under(p), 1), (outer.under(project(dict(binders), p, dict(outer.binders))), -1)]


def _brackets(uses_first: list[Expr]) -> dict[Expr, Predicate]:
    """Where expressions may be other than 0 by their outermost brackets; a sum where one of its terms may.

    Terms of a sum under a bracket are not considered, else predicates would grow with the depth of the program.
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
    """Every expression in `root`, after all expressions of which it is a part."""
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
