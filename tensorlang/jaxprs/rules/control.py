"""Control: branches that are known, short loops written out."""

from __future__ import annotations

from typing import Any

from tensorlang.jaxprs.axes import flat, is_flat
from tensorlang.jaxprs.builder import Builder, plain
from tensorlang.jaxprs.flatten import inner_jaxpr, scanned
from tensorlang.jaxprs.refusal import Unsupported
from tensorlang.jaxprs.rules.places import known
from tensorlang.jaxprs.rules.structure import shape_of
from tensorlang.jaxprs.rules.table import rule
from tensorlang.jaxprs.terms import plus, when
from tensorlang.jaxprs.values import Int, Place, Real, viewed
from tensorlang.language.affine import constant
from tensorlang.language.grammar import Expr, number
from tensorlang.language.predicates import equal

LONGEST_SCAN = 64
"""Loops of at most this many steps are written out."""


def _run(b: Builder, closed: Any, arguments: list[Any]) -> list[Any]:
    from tensorlang.jaxprs.importer import interpret

    return interpret(b, closed, arguments)


@rule("cond")
def _cond(b: Builder, eqn: Any, which: Any, *xs: Any) -> Any:
    k = known(b, which)
    if k is None:
        raise Unsupported("a branch that data choose", hint="jnp.where takes both; tl.jax.grad rewrites the branches")
    branches = eqn.params["branches"]
    return _run(b, branches[min(max(k, 0), len(branches) - 1)], list(xs))


@rule("scan")
def _scan(b: Builder, eqn: Any, *xs: Any) -> Any:
    p = eqn.params
    steps, closed, (constants, carried) = p["length"], inner_jaxpr(eqn), scanned(eqn)
    if not isinstance(steps, int) or steps > LONGEST_SCAN:
        raise Unsupported(f"a loop of {steps} steps", hint="tl.jax.grad keeps the loop and rewrites its body")
    fixed, state, sequences = list(xs[:constants]), list(xs[constants : constants + carried]), xs[constants + carried :]
    sequences = tuple(x if is_flat(x) or len(x.axes[0]) == 1 else flat(b, x) for x in sequences)
    rows: list[list[Any]] = [[] for _ in range(steps)]
    for t in reversed(range(steps)) if p["reverse"] else range(steps):
        cut = [viewed(x, x.axes[1:], lambda ix, t=t: ((constant(t),), *ix)) for x in sequences]  # type: ignore[misc]
        found = _run(b, closed, [*fixed, *state, *cut])
        state, rows[t] = [_stated(b, x) for x in found[:carried]], found[carried:]
    return [*state, *(_stacked(b, eqn, rows, carried + k, k) for k in range(len(eqn.outvars) - carried))]


def _stated(b: Builder, x: Any) -> Any:
    """`x` under a name, so that the next step does not copy its work."""
    if not isinstance(x, Real) or x.variable is not None or x.constant is not None or x.infinite:
        return x
    if x.support is not None:
        raise Unsupported("a loop that carries numbers that are -inf under a mask")
    return b.state(x.axes, x.at, "carry")


def _stacked(b: Builder, eqn: Any, rows: list[list[Any]], out: int, k: int) -> Any:
    if any(isinstance(row[k], Int) for row in rows):
        raise Unsupported("a loop that gives integers")
    parts = [flat(b, b.real(row[k])) for row in rows]

    def at(ix: Place) -> Expr:
        e: Expr = number(0)
        for t, part in enumerate(parts):
            e = plus(e, when(equal(ix[0][0], constant(t)), part.at(ix[1:])))
        return e

    return Real(axes=plain(shape_of(eqn, out)), at=at)


@rule("while")
def _while(b: Builder, eqn: Any, *xs: Any) -> Any:
    raise Unsupported("a loop that runs until its data say so")


@rule("custom_vjp_call", "custom_vjp_call_jaxpr")
def _custom_vjp(b: Builder, eqn: Any, *xs: Any) -> Any:
    raise Unsupported(
        "a custom_vjp, whose rule is the user's", hint="tl.jax.grad keeps the rule, and imports what is around it"
    )
