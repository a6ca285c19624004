"""Values and partial derivatives in one pass: each number carries its partial derivatives, if it has any.

A branch returns the derivatives of the side that is taken, which the other side does not affect; a loop carries them
along. Nothing is stored, and trips need no bound. A value costs at most 3 more for each parameter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tensorlang.scalars.code import ABSENT, Code, FreshNames, If, Op, Stmt, Value, While, names, without_unused
from tensorlang.scalars.ops import is_number, partials


def active(code: Code, wrt: Sequence[str], kinds: dict[str, type]) -> set[str]:
    """The names whose values depend on `wrt` other than by steps."""
    found = set(wrt)

    def put(name: str, *of: Value) -> bool:
        changed = name not in found and kinds.get(name) is float and not found.isdisjoint(names(of))
        if changed:
            found.add(name)
        return changed

    def block(statements: Sequence[Stmt]) -> bool:
        changed = False
        for s in statements:
            match s:
                case Op(out, f, args):
                    changed |= is_number(f) and put(out, *args)
                case If():
                    changed |= block(s.then) | block(s.otherwise)
                    for out, a, b in zip(s.outs, s.thens, s.otherwises, strict=True):
                        changed |= put(out, a, b)
                case While():
                    for out, c, i, n in zip(s.outs, s.carried, s.inits, s.nexts, strict=True):
                        changed |= put(c, i, n) | put(out, c)
                    changed |= block(s.head) | block(s.body)
        return changed

    while block(code.body):
        pass
    return found


class _Dual:
    def __init__(self, code: Code, wrt: Sequence[str], kinds: dict[str, type], fresh: FreshNames) -> None:
        self.fresh = fresh
        self.of: list[dict[str, Value]] = [{x: 1.0} for x in wrt]
        self.active = [active(code, [x], kinds) for x in wrt]

    def tangent(self, v: Value, k: int) -> Value:
        return self.of[k].get(v, 0.0) if isinstance(v, str) else 0.0

    def block(self, statements: Sequence[Stmt]) -> tuple[Stmt, ...]:
        made: list[Stmt] = []
        for s in statements:
            match s:
                case Op():
                    made.append(s)
                    self._op(s, made)
                case If():
                    made.append(self._if(s))
                case While():
                    made.append(self._while(s))
        return tuple(made)

    def _op(self, s: Op, made: list[Stmt]) -> None:
        known: dict[tuple[str, tuple[Value, ...]], Value] = {}

        def emit(f: str, args: tuple[Value, ...]) -> Value:
            if (f, args) not in known:
                name = known[f, args] = self.fresh.new("d")
                made.append(Op(name, f, args))
            return known[f, args]

        if not any(s.out in act for act in self.active):
            return
        parts = partials(s, emit)
        for k, act in enumerate(self.active):
            if s.out not in act:
                continue
            if s.f == "*" and s.args[0] == s.args[1] and s.args[0] in act:
                # x * x: half of the additions, and one multiplication less than with the product rule
                t = self.tangent(s.args[0], k)
                self.of[k][s.out] = emit("*", (2.0, s.args[0]) if t == 1.0 else (emit("*", (2.0, s.args[0])), t))
                continue
            total: Value | None = None
            for at, product, sign in parts:
                t = self.tangent(s.args[at], k)
                if t == 0.0 and not isinstance(t, str):
                    continue
                term = product(t)
                if total is None:
                    total = term if sign > 0 else emit("neg", (term,))
                else:
                    total = emit("+" if sign > 0 else "-", (total, term))
            self.of[k][s.out] = 0.0 if total is None else total

    def _if(self, s: If) -> If:
        then, otherwise = self.block(s.then), self.block(s.otherwise)
        outs, thens, otherwises = list(s.outs), list(s.thens), list(s.otherwises)
        for out, a, b in zip(s.outs, s.thens, s.otherwises, strict=True):
            for k, act in enumerate(self.active):
                if out in act:
                    one, other = self.tangent(a, k), self.tangent(b, k)
                    if one == other:
                        self.of[k][out] = one
                        continue
                    name = self.of[k][out] = self.fresh.new("d")
                    assert isinstance(name, str)
                    outs.append(name)
                    thens.append(one)
                    otherwises.append(other)
        return If(s.test, then, otherwise, tuple(outs), tuple(thens), tuple(otherwises), s.site)

    def _while(self, s: While) -> While:
        outs, carried, inits = list(s.outs), list(s.carried), list(s.inits)
        further: list[tuple[str, int]] = []
        for out, c, i, n in zip(s.outs, s.carried, s.inits, s.nexts, strict=True):
            for k, act in enumerate(self.active):
                if c in act:
                    inits.append(self.tangent(i, k))
                    name, after = self.fresh.new("d"), self.fresh.new("d")
                    self.of[k][c], self.of[k][out] = name, after
                    carried.append(name)
                    outs.append(after)
                    assert isinstance(n, str) or n is not None
                    further.append((n if isinstance(n, str) else "", k))
        head, body = s.head, self.block(s.body)
        nexts = [*s.nexts, *(self.tangent(n, k) if n else 0.0 for n, k in further)]
        return replace(
            s,
            outs=tuple(outs),
            carried=tuple(carried),
            inits=tuple(inits),
            head=head,
            body=body,
            nexts=tuple(nexts),
        )


def dual(code: Code, wrt: Sequence[str], kinds: dict[str, type], fresh: FreshNames) -> Code:
    """`code` with the partial derivatives of its first result with respect to `wrt` as further results."""
    made = _Dual(code, wrt, kinds, fresh)
    body = made.block(code.body)
    slopes = tuple(made.tangent(code.results[0], k) for k in range(len(wrt)))
    return without_unused(replace(code, body=body, results=(code.results[0], *slopes)))


__all__ = ["ABSENT", "active", "dual"]
