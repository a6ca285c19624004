"""The adjoint of each path: cotangents are handed into the branches and loops that made the values.

The adjoint of a path is that of the path as straight-line code, so it costs at most 4 times the path. The values that
it reads are stored: those of a loop once for each trip, at most as many times as its bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tensorlang.scalars.code import (
    ABSENT,
    Back,
    Code,
    FreshNames,
    If,
    Op,
    Stmt,
    Value,
    While,
    defined,
    names,
    renamed,
    uses,
    without_unused,
)
from tensorlang.scalars.dual import active
from tensorlang.scalars.ops import partials

Bars = dict[str, Value]


class _Adjoint:
    def __init__(self, act: set[str], kinds: dict[str, type], fresh: FreshNames) -> None:
        self.active = act
        self.kinds = dict(kinds)
        self.fresh = fresh

    def add(self, made: list[Stmt], bars: Bars, v: Value, t: Value, sign: int = 1) -> None:
        """Let `t` contribute to the cotangent of `v`."""
        if not isinstance(v, str) or v not in self.active or t == ABSENT:
            return
        before = bars.get(v, ABSENT)
        if before == ABSENT and sign > 0:
            bars[v] = t
            return
        bars[v] = self.fresh.new("b")
        made.append(Op(str(bars[v]), "acc" if sign > 0 else "less", (before, t)))

    def block(self, statements: Sequence[Stmt], bars: Bars) -> tuple[tuple[Stmt, ...], tuple[Stmt, ...]]:
        """The statements, with loops that store the values read later, and the statements of their adjoint, which
        change `bars`."""
        forward: list[Stmt] = []
        backward: list[Stmt] = []
        for s in reversed(statements):
            match s:
                case If():
                    forward.append(self._if(s, bars, backward))
                case While():
                    forward.append(self._while(s, bars, backward))
                case Op():
                    self._op(s, bars, backward)
                    forward.append(s)
        return tuple(reversed(forward)), tuple(backward)

    def _op(self, s: Op, bars: Bars, made: list[Stmt]) -> None:
        t = bars.pop(s.out, ABSENT)
        if t == ABSENT or s.out not in self.active:
            return

        def emit(f: str, args: tuple[Value, ...]) -> Value:
            name = self.fresh.new("b")
            made.append(Op(name, f, args))
            return name

        for at, product, sign in partials(s, emit):
            v = s.args[at]
            if isinstance(v, str) and v in self.active:
                self.add(made, bars, v, product(t), sign)

    def _if(self, s: If, bars: Bars, made: list[Stmt]) -> If:
        told = {out: bars.pop(out) for out in s.outs if out in bars}
        told = {out: t for out, t in told.items() if t != ABSENT}
        if not told:
            return s
        sides = []
        for statements, values in ((s.then, s.thens), (s.otherwise, s.otherwises)):
            own, first = dict(bars), list[Stmt]()
            for out, v in zip(s.outs, values, strict=True):
                if out in told:
                    self.add(first, own, v, told[out])
            forward, backward = self.block(statements, own)
            sides.append((own, forward, (*first, *backward)))
        (one, then, back), (other, otherwise, back2) = sides
        inner = defined(s.then, True) | defined(s.otherwise, True)
        changed = [v for v in {**one, **other} if one.get(v) != other.get(v) and v not in inner]
        for v in {**one, **other}:
            if v not in inner and v not in changed:
                bars[v] = one[v]
        outs = tuple(self.fresh.new("b") for _ in changed)
        read = (uses(b) | names(own.get(v, ABSENT) for v in changed) for b, own in ((back, one), (back2, other)))
        kept1, kept2 = (sorted(defined(side) & here) for side, here in zip((then, otherwise), read, strict=True))
        after = self._copies((*kept1, *kept2))
        made.append(
            If(
                s.test,
                renamed(back, after),
                renamed(back2, after),
                outs,
                tuple(_new(one.get(v, ABSENT), after) for v in changed),
                tuple(_new(other.get(v, ABSENT), after) for v in changed),
                s.site,
            )
        )
        bars.update(zip(changed, outs, strict=True))
        stays = (*(x for x in kept1), *map(self._nothing, kept2))
        stays2 = (*map(self._nothing, kept1), *(x for x in kept2))
        places = tuple(after.values())
        return If(s.test, then, otherwise, (*s.outs, *places), (*s.thens, *stays), (*s.otherwises, *stays2), s.site)

    def _copies(self, names: Sequence[str]) -> dict[str, str]:
        found = {x: self.fresh.new(x) for x in names}
        self.kinds.update((new, self.kinds[x]) for x, new in found.items() if x in self.kinds)
        return found

    def _nothing(self, name: str) -> Value:
        """A placeholder for `name` where nobody reads it."""
        kind = int if name.startswith("_trips") else self.kinds.get(name, float)
        return kind() if kind is not float else 0.0

    def _while(self, s: While, bars: Bars, made: list[Stmt]) -> While:
        if all(bars.get(out, ABSENT) == ABSENT for out in s.outs):
            for out in s.outs:
                bars.pop(out, None)
            return s
        own = defined(s.body, True) | set(s.carried)
        free = sorted(x for x in uses(s.body) | names(s.nexts) if x in self.active and x not in own)
        places = [k for k, c in enumerate(s.carried) if c in self.active]
        carried = {k: self.fresh.new("b") for k in places}
        passed = {x: self.fresh.new("b") for x in free}
        inner: Bars = dict(passed)
        first: list[Stmt] = []
        for k in places:
            self.add(first, inner, s.nexts[k], carried[k])
        forward, backward = self.block(s.body, inner)
        backward = (*first, *backward)
        nexts = [inner.get(s.carried[k], ABSENT) for k in places] + [inner[x] for x in free]
        read = uses(backward) | names(nexts)
        need = sorted((defined(forward) | set(s.carried)) & read)
        popped = self._copies(need)
        stacks, trips = tuple(self.fresh.new("_stack") for _ in need), self.fresh.new("_trips")
        outs = {k: self.fresh.new("b") for k in places}
        after = {x: self.fresh.new("b") for x in free}
        made.append(
            Back(
                (*outs.values(), *after.values()),
                (*carried.values(), *passed.values()),
                (*(bars.get(s.outs[k], ABSENT) for k in places), *(bars.get(x, ABSENT) for x in free)),
                tuple(popped.values()),
                stacks,
                trips,
                renamed(backward, popped),
                tuple(_new(v, popped) for v in nexts),
                s.site,
            )
        )
        for out in s.outs:
            bars.pop(out, None)
        bars.update(after)
        for k in places:
            self.add(made, bars, s.inits[k], outs[k])
        return replace(s, body=forward, saves=tuple(need), stacks=stacks, trips=trips)


def _new(v: Value, names: dict[str, str]) -> Value:
    return names.get(v, v) if isinstance(v, str) else v


def adjoint(code: Code, wrt: Sequence[str], kinds: dict[str, type], fresh: FreshNames) -> Code:
    """`code` with the partial derivatives of its first result by `wrt` as further results, computed by its adjoint."""
    act = active(code, wrt, kinds)
    made = _Adjoint(act, kinds, fresh)
    bars: Bars = {}
    first: list[Stmt] = []
    made.add(first, bars, code.results[0], 1.0)
    forward, backward = made.block(code.body, bars)
    slopes = tuple(0.0 if bars.get(x, ABSENT) == ABSENT else bars[x] for x in wrt)
    return without_unused(replace(code, body=(*forward, *first, *backward), results=(code.results[0], *slopes)))
