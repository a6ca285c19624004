"""Control flow: branches that are known; data-dependent loops and users' derivative rules, which stay JAX."""

from __future__ import annotations

from typing import Any

from tensorlang.jaxprs.builder import Builder
from tensorlang.jaxprs.flatten import flatten
from tensorlang.jaxprs.refusal import Unsupported
from tensorlang.jaxprs.rules.places import known
from tensorlang.jaxprs.rules.table import rule


@rule("cond")
def _cond(b: Builder, eqn: Any, which: Any, *xs: Any) -> Any:
    k = known(b, which)
    if k is None:
        raise Unsupported("a branch that data choose", hint="jnp.where takes both; tl.jax.grad rewrites the branches")
    branches = eqn.params["branches"]
    from tensorlang.jaxprs.importer import interpret

    return interpret(b, flatten(branches[min(max(k, 0), len(branches) - 1)]), list(xs))


@rule("while")
def _while(b: Builder, eqn: Any, *xs: Any) -> Any:
    raise Unsupported("a loop that runs until its data say so")


@rule("custom_vjp_call", "custom_vjp_call_jaxpr")
def _custom_vjp(b: Builder, eqn: Any, *xs: Any) -> Any:
    raise Unsupported(
        "a custom_vjp, whose rule is the user's", hint="tl.jax.grad keeps the rule, and imports what is around it"
    )
