"""Control flow: branches that are known, or chosen in a loop; data-dependent loops and users' derivative rules, which
stay JAX.

A branch that a step of a loop chooses is taken at some times only. What runs keeps that: `lowering/arrays/only_if.py`.
"""

from __future__ import annotations

from typing import Any

from tensorlang.jaxprs.builder import Builder
from tensorlang.jaxprs.flatten import flatten
from tensorlang.jaxprs.refusal import Unsupported
from tensorlang.jaxprs.rules.conditions import select_by_index
from tensorlang.jaxprs.rules.places import known
from tensorlang.jaxprs.rules.table import rule
from tensorlang.jaxprs.values import Int


@rule("cond")
def _cond(b: Builder, eqn: Any, which: Any, *xs: Any) -> Any:
    from tensorlang.jaxprs.importer import interpret

    k, branches = known(b, which), eqn.params["branches"]
    if k is not None:
        return interpret(b, flatten(branches[min(max(k, 0), len(branches) - 1)]), list(xs))
    if not b.in_loop:
        raise Unsupported("a branch that data choose", hint="jnp.where takes both; tl.jax.grad rewrites the branches")
    if not isinstance(which, Int):
        raise Unsupported("a branch that no index chooses")
    taken = [interpret(b, flatten(branch), list(xs)) for branch in branches]
    return [select_by_index(b, which, values) for values in zip(*taken, strict=True)]


@rule("while")
def _while(b: Builder, eqn: Any, *xs: Any) -> Any:
    raise Unsupported("a loop that runs until its data say so")


@rule("custom_vjp_call", "custom_vjp_call_jaxpr")
def _custom_vjp(b: Builder, eqn: Any, *xs: Any) -> Any:
    raise Unsupported(
        "a custom_vjp, whose rule is the user's", hint="tl.jax.grad keeps the rule, and imports what is around it"
    )
