"""Recurrences in Python: fold, scan, prescan and states, each of a size, first states and a step as a function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from tensorlang.language.affine import Index, atom_affine
from tensorlang.language.grammar import Expr, Gen, Var, access
from tensorlang.language.recurrence import kept_where, parted, recurrence
from tensorlang.surface.binders import parameter_names
from tensorlang.surface.refusals import described
from tensorlang.surface.scope import Surface, built, opened, refuse
from tensorlang.surface.terms import Term, as_cond, as_size, as_term, index_term, term

Step = Callable[..., Any]


def fold(size: Any, init: Any, step: Step, *, reverse: bool = False, until: Any = None) -> Any:
    """The state after the last of `size` steps: s = init, and then s = step(t, s) for each 0 <= t < size.

    A state is a number, an array or a pair. Several are a tuple `init`: `step` takes them one by one, step(t, r, s), or
    as a tuple, step(t, states), and gives as many; so does `fold`. With `reverse` it goes from size - 1 to 0. The
    number of steps is a size, so a derivative holds for all of them. Raises `TypeMismatch` if a step gives states of
    other types, or `step` is not a function of a step and states.

    The states are kept as they are once until(s) holds of them, with several states until(r, s): steps that would come
    later are not made, and cost nothing. It is a condition on the states, not on the time.

    >>> n = tl.sizes("n")
    >>> print(tl.function(lambda a, x: tl.fold(n, x, lambda t, s: a[t] * s), a=tl.R[n], x=tl.R)([2.0, 3.0], 1.0))
    6.0
    """
    return _recurrence("fold", size, init, step, reverse, until)


def scan(size: Any, init: Any, step: Step, *, reverse: bool = False, until: Any = None) -> Any:
    """The array of the states after each step, the state after step t at place t; in everything else as `fold`.

    >>> n = tl.sizes("n")
    >>> print(tl.function(lambda a, x: tl.scan(n, x, lambda t, s: a[t] * s), a=tl.R[n], x=tl.R)([2.0, 3.0], 1.0))
    [2. 6.]
    """
    return _recurrence("scan", size, init, step, reverse, until)


def prescan(size: Any, init: Any, step: Step, *, reverse: bool = False, until: Any = None) -> Any:
    """The array of the states before each step, the first of them `init`; in everything else as `fold`.

    >>> n = tl.sizes("n")
    >>> print(tl.function(lambda a, x: tl.prescan(n, x, lambda t, s: a[t] * s), a=tl.R[n], x=tl.R)([2.0, 3.0], 1.0))
    [1. 2.]
    """
    return _recurrence("prescan", size, init, step, reverse, until)


def states(size: Any, init: Any, step: Step, *, reverse: bool = False, until: Any = None) -> Any:
    """The array of all states, `init` and those after each step: size + 1 of them; in everything else as `fold`.

    With `reverse`, the state before step t is at place t + 1, and the last one at place 0.

    >>> n = tl.sizes("n")
    >>> print(tl.function(lambda a, x: tl.states(n, x, lambda t, s: a[t] * s), a=tl.R[n], x=tl.R)([2.0, 3.0], 1.0))
    [1. 2. 6.]
    """
    return _recurrence("states", size, init, step, reverse, until)


def _recurrence(word: str, size: Any, init: Any, step: Step, reverse: bool, until: Any) -> Any:
    steps = as_size(size)
    several = isinstance(init, tuple) and len(init) > 1
    inits = [as_term(part) for part in (init if several else (init,))]
    names = _names(word, step, len(inits))
    index = Index(names[0], size=steps)
    states = [Var(name, e.expr.type) for name, e in zip(names[1:], inits, strict=True)]
    with ExitStack() as stack:
        live = [stack.enter_context(opened(index, "an index"))]
        live += [stack.enter_context(opened(state, "a state")) for state in states]
        t = index_term(index, live[0])
        given = [Term(state, frozenset({binder})) for state, binder in zip(states, live[1:], strict=True)]
        made = step(t, *given) if not several or _takes(step, len(inits) + 1) else step(t, tuple(given))
        if several and not (isinstance(made, tuple) and len(made) == len(inits)):
            refuse(
                f"the step of a {word} with {len(inits)} states must give as many, found {described(made)}",
                "a tuple of the next states, in their order",
            )
        result = as_term(made)
        if until is not None:
            result = _kept(states, given, until, result, several)
    e = built(recurrence, word, index, steps, states, [part.expr for part in inits], result.expr, reverse)
    whole = term(e, *inits, result.without(live))
    if not several:
        return whole
    return tuple(_part(whole, e, k, len(inits), word) for k in range(len(inits)))


def _kept(states: list[Var], given: list[Term], until: Any, step: Term, several: bool) -> Term:
    """The states after a step that leaves them unchanged where `until` holds."""
    held = until(*given) if not several or _takes(until, len(given)) else until(tuple(given))
    p = as_cond(held, "what a recurrence goes on until")
    return term(built(kept_where, states, p.pred, (~p).pred, step.expr), p, step)


def _part(whole: Term, e: Expr, k: int, count: int, word: str) -> Term:
    """The k-th state of `count`, or the array of it."""
    if word == "fold":
        return term(parted(e, count)[k], whole)
    assert hasattr(e.type, "size")
    t = Index("t", size=e.type.size)
    return term(Gen(t, e.type.size, parted(access(e, atom_affine(t)), count)[k]), whole)


def _names(word: str, step: Step, count: int) -> list[str]:
    """The names of the index and the states."""
    if count > 1 and callable(step) and not isinstance(step, Surface) and not _takes(step, count + 1):
        index, states = parameter_names(step, 2, word, "t")
        return [index, *(f"{states}{k}" for k in range(count))]
    return parameter_names(step, count + 1, word, "s")


def _takes(step: Step, count: int) -> bool:
    """Whether `step` can be called with that many arguments."""
    try:
        inspect.signature(step).bind(*[None] * count)
    except (TypeError, ValueError):
        return False
    return True
