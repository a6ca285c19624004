"""The ways by which control leaves a place in a Python function, and the values of names where paths meet.

A `return`, `break` or `continue` sets a flag. A name that two paths give different values is a phi after them.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from tensorlang.scalars.code import If, Stmt, Value
from tensorlang.surface.loop_expressions import MISSING, Env, Expressions, Missing

RETURNED, LEFT, NEXT = "$returned", "$left", "$next"
FLAGS = (RETURNED, LEFT, NEXT)


def exits_by(statements: Sequence[ast.stmt], kinds: tuple[type[ast.stmt], ...] = (ast.Return,)) -> bool:
    """Whether some statement leaves by one of `kinds`; `break` and `continue` of inner loops don't count."""
    for s in statements:
        if isinstance(s, kinds):
            return True
        inner = tuple(k for k in kinds if k is ast.Return) if isinstance(s, ast.For | ast.While) else kinds
        if inner and exits_by([*getattr(s, "body", []), *getattr(s, "orelse", [])], inner):
            return True
    return False


def assigned(statements: Sequence[ast.stmt]) -> list[str]:
    """The names that are assigned to."""
    found: dict[str, None] = {}
    for s in statements:
        for node in ast.walk(s):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found[node.id] = None
    return list(found)


def told(env: Env) -> None:
    """Set the only open flag, where control is known to have left."""
    open_ = [flag for flag in FLAGS if env.get(flag, False) is not False]
    if len(open_) == 1:
        env[open_[0]] = True


class Paths(Expressions):
    """Expressions, and the joining of their names where paths meet."""

    def gone(self, env: Env) -> Any:
        """Whether control has left this place: True, False, or the flags that decide it."""
        flags = [env.get(f, False) for f in FLAGS]
        if any(f is True for f in flags):
            return True
        open_ = [f for f in flags if f is not False]
        return open_ or False

    def join(
        self,
        p: Value,
        one: Env,
        other: Env,
        then: list[Stmt],
        otherwise: list[Stmt],
        env: Env,
        out: list[Stmt],
        left: tuple[bool, bool],
    ) -> None:
        """Make phis for the names to which the sides give different values."""
        outs: list[str] = []
        thens: list[Value] = []
        otherwises: list[Value] = []

        def phi(name: str, a: Any, b: Any) -> Any:
            if isinstance(a, tuple) or isinstance(b, tuple):
                if isinstance(a, Missing) or isinstance(b, Missing):
                    known = b if isinstance(a, Missing) else a
                    blank = tuple(MISSING for _ in known)
                    a, b = (blank if isinstance(x, Missing) else x for x in (a, b))
                if not (isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b)):
                    self.function.refuse(
                        self.function.tree, "its paths give different numbers of results", "the same number on all"
                    )
                return tuple(phi(name, x, y) for x, y in zip(a, b, strict=True))
            if isinstance(a, Missing) and isinstance(b, Missing):
                return MISSING
            # nobody reads the values of a side that has left
            if isinstance(a, Missing) or isinstance(b, Missing):
                gone = left[0] if isinstance(a, Missing) else left[1]
                known = b if isinstance(a, Missing) else a
                if not (gone or name == "$result"):
                    return MISSING
                if not isinstance(known, str | int | float):
                    return known
                nothing = self._blank(known)
                a, b = (nothing, known) if isinstance(a, Missing) else (known, nothing)
            if a is b or (type(a) is type(b) and a == b):
                return a
            if not isinstance(a, str | int | float) or not isinstance(b, str | int | float):
                return MISSING
            kinds = {self.kind(a), self.kind(b)}
            if bool in kinds and len(kinds) > 1:
                a = self.number(a, then)
                b = self.number(b, otherwise)
            made = self.fresh.new(name.strip("$_") or "v")
            self.kinds[made] = float if float in kinds else int if int in kinds else bool
            outs.append(made)
            thens.append(a)
            otherwises.append(b)
            return made

        joined = {
            name: phi(name, one.get(name, MISSING), other.get(name, MISSING)) for name in dict.fromkeys((*one, *other))
        }
        if outs:
            out.append(If(p, tuple(then), tuple(otherwise), tuple(outs), tuple(thens), tuple(otherwises)))
        env.clear()
        env.update(joined)

    def _blank(self, like: Value) -> Value:
        kind = self.kind(like)
        return False if kind is bool else 0 if kind is int else 0.0
