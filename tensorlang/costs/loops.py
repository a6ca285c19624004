"""The cost of scalar functions with data-dependent loops: amounts times visits, which only data determine.

    cost(f(e..)) = base + sum over the loops and branches of f: amount * visits        in the place of (4.26)

`trips(i0:n. f(x[i0]))` is the number of trips of its loop, for the calls at all these points together, `trips(f(x), 2)`
that of its second loop, and `taken(.., k)` the number of times that the condition of its k-th branch held. Calls with
the same arguments at the same points have the same visits, so a function and its derivatives share one unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorlang.costs.domains import Domain, place
from tensorlang.errors import ArgumentError, CountingError
from tensorlang.interning import Alive
from tensorlang.language.affine import Affine, Atom, IndexArray, atom_affine
from tensorlang.language.arguments import Bound
from tensorlang.language.evaluate import Evaluator
from tensorlang.language.function import Function
from tensorlang.language.grammar import Call, Expr, Let, ScalarFunction, Var, bracket, children, sums
from tensorlang.language.names import free_names
from tensorlang.language.points import ORIGIN
from tensorlang.language.predicates import TRUE, substitute
from tensorlang.language.rebuilt import with_atoms
from tensorlang.language.scalar_code import Loops
from tensorlang.language.show import expr_text, predicate_text
from tensorlang.recursion import run


@dataclass(frozen=True, eq=False)
class Visits:
    """The number of visits of a loop or branch of a function, by its calls at all points of a domain. `name` describes
    it as text, and equal ones are one object."""

    name: str
    site: int
    loops: Loops
    arguments: tuple[Expr, ...]
    domain: Domain


_known: Alive[tuple[object, ...], Visits] = Alive()


def of_call(e: Call, domain: Domain) -> tuple[int, list[tuple[Visits, int]]]:
    """The cost of a call at each point of a domain, and its visits there with the cost of each."""
    loops = e.function.loops
    assert loops is not None
    arguments = e.arguments[: loops.arity]
    return loops.base, [(_visits(loops, site, arguments, domain), k) for site, k in loops.each]


def _visits(loops: Loops, site: int, arguments: tuple[Expr, ...], domain: Domain) -> Visits:
    names: dict[Atom, Affine] = {i: atom_affine(place(k)) for k, (i, _) in enumerate(domain.binders)}
    binders = tuple((place(k), size.substitute(names)) for k, (_, size) in enumerate(domain.binders))
    where = Domain(binders, substitute(domain.pred, names))
    held = tuple(with_atoms(e, names) for e in arguments)
    text = _text(loops.labels[site], held, where)
    free = tuple(x for e in held for x in free_names(e) if isinstance(x, Var | IndexArray))
    key = (text, where, free)
    return _known.get(key) or _known.enter(key, Visits(text, site, loops, held, where))


def _text(label: str, arguments: Sequence[Expr], domain: Domain) -> str:
    """`trips(i0:n. f(x[i0]))` for the label `trips(f)`, or `trips(f, 2)`."""
    word, _, rest = label.removesuffix(")").partition("(")
    name, comma, number = rest.partition(",")
    ranges = ", ".join(f"{i.name}:{size}" for i, size in domain.binders)
    condition = "" if domain.pred is TRUE else f" where {predicate_text(domain.pred)}"
    before = f"{ranges}{condition}. " if ranges or condition else ""
    return f"{word}({before}{name}({', '.join(map(expr_text, arguments))}){comma}{number})"


def has_loops(f: Function) -> bool:
    """Whether `f` calls a function with data-dependent loops."""
    return any(isinstance(e, Call) and e.function.loops is not None for e in _nodes(f.body))


def _nodes(root: Expr) -> Iterator[Expr]:
    seen: set[Expr] = set()
    stack = [root]
    while stack:
        e = stack.pop()
        if e not in seen:
            seen.add(e)
            stack += children(e)
            yield e


def counted(f: Function, bound: Bound) -> Callable[[Visits], int]:
    """A function that counts visits at these arguments of `f`."""
    values = {e.var: e.value for e in _nodes(f.body) if isinstance(e, Let)}
    found: dict[Visits, int] = {}

    def count(x: Visits) -> int:
        if x not in found:
            found[x] = _count(f, values, bound, x)
        return found[x]

    return count


def _count(f: Function, values: dict[Var | IndexArray, Expr], bound: Bound, x: Visits) -> int:
    def one(*numbers: float) -> float:
        return x.loops.count(*numbers).get(x.site, 0)

    def evaluate(*arrays: Any) -> Any:
        return np.vectorize(one, otypes=[float])(*arrays) if np.size(arrays[0]) else np.zeros(np.shape(arrays[0]))

    visited = ScalarFunction("visits", len(x.arguments), 0, lambda xs, y, t: (), evaluate, None, "", "")
    body: Expr = bracket(x.domain.pred, Call(visited, x.arguments))
    for var, value in _needed(body, values, set(f.params)):
        body = Let(var, value, body)
    total = Function(f.name, f.params, sums(list(x.domain.binders), body))
    with np.errstate(all="ignore"):
        made = run(Evaluator(total, bound, exact=False).at(total.body, ORIGIN))
    return round(float(made[0].read()[0]))


def _needed(e: Expr, values: dict[Var | IndexArray, Expr], given: set[Any]) -> list[tuple[Var | IndexArray, Expr]]:
    """The lets that `e` needs, the innermost first."""
    found: dict[Var | IndexArray, Expr] = {}
    stack = [e]
    while stack:
        for x in free_names(stack.pop()):
            if isinstance(x, Var | IndexArray) and x not in given:
                if x not in values:
                    raise CountingError(
                        f"the trips of a loop depend on {x.name}, which the steps of a recurrence make",
                        hint="tl.cost_polynomial leaves their number as an unknown",
                    )
                found.pop(x, None)
                found[x] = values[x]
                stack.append(values[x])
    return list(found.items())


def unknown_visits(f: Function, x: Visits) -> ArgumentError:
    """The error for visits whose number no data determine."""
    given = ", ".join(f"{p.name}=.." for p in f.params)
    return ArgumentError(
        f"what {f.name} costs depends on {x.name}, which its arguments decide",
        hint=f"tl.cost({f.name}, {given}) counts them; tl.cost_polynomial leaves them as unknowns",
    )
