"""Flags for loops that have passed their bounds, carried through branches and loops up to `Code.over`.

    Y = loop at most k times ..       ->     Y, over = ..          over: whether there would have been more trips
    if c then B1 else B2              ->     .., over = if c then (.., over of B1) else (.., over of B2)
    loop .. do B                      ->     loop .., f = false .. do (.., f or over of B)

Loops that no result needs are removed, so they can't make it nan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from tensorlang.scalars.code import Code, FreshNames, If, Op, Stmt, Value, While, defined, without_unused


def without_flags(code: Code) -> Code:
    """`code` without flags for loops that have passed their bounds, and without statements that no result needs."""
    return without_unused(replace(code, over=False, body=_plain(code.body)))


def _plain(block: Sequence[Stmt]) -> tuple[Stmt, ...]:
    made: list[Stmt] = []
    for s in block:
        match s:
            case If():
                made.append(replace(s, then=_plain(s.then), otherwise=_plain(s.otherwise)))
            case While():
                made.append(replace(s, over="", head=_plain(s.head), body=_plain(s.body)))
            case _:
                made.append(s)
    return tuple(made)


def with_flags(code: Code) -> Code:
    """`code`, which has no flags, with flags added."""
    numbers = (name.rpartition("_")[2] for name in defined(code.body, True))
    fresh = FreshNames(count(1 + max((int(k) for k in numbers if k.isdigit()), default=-1)))

    def either(a: Value, b: Value, made: list[Stmt]) -> Value:
        if a is False or b is False:
            return b if a is False else a
        name = fresh.new("v")
        made.append(Op(name, "or", (a, b)))
        return name

    def block(statements: Sequence[Stmt]) -> tuple[tuple[Stmt, ...], Value]:
        made: list[Stmt] = []
        over: Value = False
        for s in statements:
            new, flags = flagged(s)
            made.append(new)
            for flag in flags:
                over = either(over, flag, made)
        return tuple(made), over

    def flagged(s: Stmt) -> tuple[Stmt, list[str]]:
        if isinstance(s, If):
            (then, one), (otherwise, other) = block(s.then), block(s.otherwise)
            if one is False and other is False:
                return replace(s, then=then, otherwise=otherwise), []
            flag = fresh.new("over")
            outs, thens, otherwises = (*s.outs, flag), (*s.thens, one), (*s.otherwises, other)
            return If(s.test, then, otherwise, outs, thens, otherwises, s.site), [flag]
        if not isinstance(s, While):
            return s, []
        body, inner = block(s.body)
        new, flags = replace(s, body=body), []
        if inner is not False:
            carried, flag = fresh.new("over"), fresh.new("over")
            last = list(body)
            nexts = (*s.nexts, either(carried, inner, last))
            held = (*s.carried, carried)
            new = replace(
                new, outs=(*s.outs, flag), carried=held, inits=(*s.inits, False), body=tuple(last), nexts=nexts
            )
            flags.append(flag)
        if s.bound is not None:
            new = replace(new, over=fresh.new("over"))
            flags.append(new.over)
        return new, flags

    body, over = block(code.body)
    return replace(code, body=body, over=over)
