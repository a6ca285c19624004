"""The SSA form of functions of numbers: straight lines, branches with phis, loops with carried values.

    block  = {op | if | while | back} ;
    op     = name "=" f(value, ..) ;
    if     = names "=" if value then block, values else block, values ;
    while  = names "=" loop carried = values while block, value do block, values ;
    back   = names "=" the trips of a loop again, the last first, with what it stored ;
    value  = name | number ;

Each name is defined once. `If` gives its names the values of the side that is taken; `While` those of what is carried
when the condition fails. A loop of an adjoint's program stores `saves` in `stacks`, which its `Back` reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count

Value = str | int | float | bool
"""A name or a constant."""

ABSENT = "_0"
"""A cotangent without contributions so far; adding to it costs nothing (4.24, where p0 is false)."""


@dataclass(frozen=True)
class Op:
    """out = f(args)."""

    out: str
    f: str
    args: tuple[Value, ...]


@dataclass(frozen=True)
class If:
    """outs = thens after `then` where `test` holds, else otherwises after `otherwise`."""

    test: Value
    then: tuple[Stmt, ...]
    otherwise: tuple[Stmt, ...]
    outs: tuple[str, ...]
    thens: tuple[Value, ...]
    otherwises: tuple[Value, ...]
    site: int = 0
    """Its number among the branches and loops of a function; that of its adjoint has the same."""


@dataclass(frozen=True)
class While:
    """outs = carried, which starts as `inits`, and is `nexts` after `body`, as long as `test` holds after `head`."""

    outs: tuple[str, ...]
    carried: tuple[str, ...]
    inits: tuple[Value, ...]
    head: tuple[Stmt, ...]
    test: Value
    body: tuple[Stmt, ...]
    nexts: tuple[Value, ...]
    bound: int | None = None
    """The most trips; with more, `over` is true."""
    over: str = ""
    saves: tuple[str, ...] = ()
    stacks: tuple[str, ...] = ()
    trips: str = ""
    site: int = 0


@dataclass(frozen=True)
class Back:
    """outs = carried, which is `nexts` after `body`, once for each trip of a loop, in the opposite order."""

    outs: tuple[str, ...]
    carried: tuple[str, ...]
    inits: tuple[Value, ...]
    popped: tuple[str, ...]
    stacks: tuple[str, ...]
    trips: str
    body: tuple[Stmt, ...]
    nexts: tuple[Value, ...]
    site: int = 0


Stmt = Op | If | While | Back


@dataclass(frozen=True)
class Code:
    """A function of numbers: parameters, of which `whole` are integers, statements, and the values of its results.

    Where `over` is true, a loop has passed its bound, and all results are nan.
    """

    name: str
    params: tuple[str, ...]
    body: tuple[Stmt, ...]
    results: tuple[Value, ...]
    whole: frozenset[str] = frozenset()
    over: Value = False


@dataclass
class FreshNames:
    """Names that are not taken."""

    numbers: Iterator[int] = field(default_factory=lambda: count(0))

    def new(self, like: str = "v") -> str:
        """`like` with a number."""
        return f"{like.rstrip('0123456789').rstrip('_') or 'v'}_{next(self.numbers)}"


def names(values: Iterable[Value]) -> set[str]:
    """The names among `values`."""
    return {v for v in values if isinstance(v, str)}


def uses(block: Iterable[Stmt]) -> set[str]:
    """The names that a block reads, its own included."""
    found: set[str] = set()
    for s in block:
        match s:
            case Op(_, _, args):
                found |= names(args)
            case If(test, then, otherwise, _, thens, otherwises):
                found |= names((test, *thens, *otherwises)) | uses(then) | uses(otherwise)
            case While():
                found |= names((*s.inits, *s.nexts, s.test, *s.saves)) | uses(s.head) | uses(s.body)
            case Back():
                found |= names((*s.inits, *s.nexts, *s.stacks, s.trips)) | uses(s.body)
    return found


def defined(block: Iterable[Stmt], inner: bool = False) -> set[str]:
    """The names that a block defines, with `inner` those in its branches and loops, too."""
    found: set[str] = set()
    for s in block:
        match s:
            case Op(out, _, _):
                found.add(out)
            case If():
                found |= set(s.outs)
                if inner:
                    found |= defined(s.then, True) | defined(s.otherwise, True)
            case While():
                found |= {*s.outs, *s.stacks, s.trips, s.over} - {""}
                if inner:
                    found |= set(s.carried) | defined(s.head, True) | defined(s.body, True)
            case Back():
                found |= set(s.outs)
                if inner:
                    found |= {*s.carried, *s.popped} | defined(s.body, True)
    return found


def renamed(block: Iterable[Stmt], new: Mapping[str, Value]) -> tuple[Stmt, ...]:
    """A block that reads the values of `new` in place of its keys."""

    def v(x: Value) -> Value:
        return new.get(x, x) if isinstance(x, str) else x

    def vs(xs: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple(map(v, xs))

    def name(x: str) -> str:
        found = v(x)
        assert isinstance(found, str)
        return found

    made: list[Stmt] = []
    for s in block:
        match s:
            case Op(out, f, args):
                made.append(Op(out, f, vs(args)))
            case If():
                then, otherwise = renamed(s.then, new), renamed(s.otherwise, new)
                made.append(If(v(s.test), then, otherwise, s.outs, vs(s.thens), vs(s.otherwises), s.site))
            case While():
                made.append(
                    replace(
                        s,
                        inits=vs(s.inits),
                        head=renamed(s.head, new),
                        test=v(s.test),
                        body=renamed(s.body, new),
                        nexts=vs(s.nexts),
                        saves=tuple(map(name, s.saves)),
                    )
                )
            case Back():
                made.append(
                    replace(
                        s,
                        inits=vs(s.inits),
                        stacks=tuple(map(name, s.stacks)),
                        trips=name(s.trips),
                        body=renamed(s.body, new),
                        nexts=vs(s.nexts),
                    )
                )
    return tuple(made)


def numbered(code: Code) -> Code:
    """`code` with a number for each branch and each loop, from 1 on, as they are written."""
    numbers = count(1)

    def block(statements: Iterable[Stmt]) -> tuple[Stmt, ...]:
        made: list[Stmt] = []
        for s in statements:
            match s:
                case If():
                    site = next(numbers)
                    made.append(replace(s, then=block(s.then), otherwise=block(s.otherwise), site=site))
                case While():
                    site = next(numbers)
                    made.append(replace(s, head=block(s.head), body=block(s.body), site=site))
                case _:
                    made.append(s)
        return tuple(made)

    return replace(code, body=block(code.body))


def loop_sites(block: Iterable[Stmt]) -> tuple[int, ...]:
    """The numbers of the loops in a block, in order."""
    return tuple(s.site for s in _structured(block) if isinstance(s, While))


def branch_sites(block: Iterable[Stmt]) -> tuple[int, ...]:
    """The numbers of the branches in a block, in order."""
    return tuple(s.site for s in _structured(block) if isinstance(s, If))


def _structured(block: Iterable[Stmt]) -> Iterator[If | While]:
    for s in block:
        match s:
            case If():
                yield s
                yield from _structured((*s.then, *s.otherwise))
            case While():
                yield s
                yield from _structured((*s.head, *s.body))
            case _:
                pass


def operations(block: Iterable[Stmt]) -> Iterator[Op]:
    """All operations in a block."""
    for s in block:
        match s:
            case Op():
                yield s
            case If():
                yield from operations((*s.then, *s.otherwise))
            case While():
                yield from operations((*s.head, *s.body))
            case Back():
                yield from operations(s.body)


def without_unused(code: Code) -> Code:
    """`code` without the operations, phis and carried values that no result needs."""
    before = None
    while before != code:
        before = code
        code = replace(code, body=_needed(code.body, names((*code.results, code.over))))
    return code


def _needed(block: tuple[Stmt, ...], wanted: set[str]) -> tuple[Stmt, ...]:
    """The statements of `block` that `wanted` needs, given that no other names are read after the block."""
    wanted = set(wanted)
    kept: list[Stmt] = []
    for s in reversed(block):
        match s:
            case Op(out, _, args):
                if out in wanted:
                    kept.append(s)
                    wanted |= names(args)
            case If():
                places = [k for k, out in enumerate(s.outs) if out in wanted]
                if places:
                    thens, otherwises = (tuple(vs[k] for k in places) for vs in (s.thens, s.otherwises))
                    then, otherwise = _needed(s.then, names(thens)), _needed(s.otherwise, names(otherwises))
                    kept.append(
                        If(s.test, then, otherwise, tuple(s.outs[k] for k in places), thens, otherwises, s.site)
                    )
                    wanted |= uses(kept[-1:])
            case While():
                if wanted & {*s.outs, *s.stacks, s.trips, s.over}:
                    kept.append(_loop_needed(s, wanted))
                    wanted |= uses(kept[-1:])
            case Back():
                if wanted & set(s.outs):
                    kept.append(_back_needed(s, wanted))
                    wanted |= uses(kept[-1:])
    return tuple(reversed(kept))


def _closure(start: set[str], carried: tuple[str, ...], nexts: tuple[Value, ...], body: tuple[Stmt, ...]) -> set[str]:
    """The names in `carried` that `start` needs over any number of trips."""
    keep = {c for c in carried if c in start}
    while True:
        roots = names(n for c, n in zip(carried, nexts, strict=True) if c in keep)
        read = uses(_needed(body, roots | start)) | roots
        more = keep | {c for c in carried if c in read}
        if more == keep:
            return keep
        keep = more


def _loop_needed(s: While, wanted: set[str]) -> While:
    stacked = [k for k, stack in enumerate(s.stacks) if stack in wanted]
    saves = tuple(s.saves[k] for k in stacked)
    start = {c for c, out in zip(s.carried, s.outs, strict=True) if out in wanted} | uses(s.head) | names([s.test])
    keep = _closure(start | set(saves), s.carried, s.nexts, s.body)
    places = [k for k, c in enumerate(s.carried) if c in keep]
    nexts = tuple(s.nexts[k] for k in places)
    return replace(
        s,
        outs=tuple(s.outs[k] for k in places),
        carried=tuple(s.carried[k] for k in places),
        inits=tuple(s.inits[k] for k in places),
        head=_needed(s.head, names([s.test])),
        body=_needed(s.body, names(nexts) | set(saves)),
        nexts=nexts,
        saves=saves,
        stacks=tuple(s.stacks[k] for k in stacked),
    )


def _back_needed(s: Back, wanted: set[str]) -> Back:
    keep = _closure({c for c, out in zip(s.carried, s.outs, strict=True) if out in wanted}, s.carried, s.nexts, s.body)
    places = [k for k, c in enumerate(s.carried) if c in keep]
    nexts = tuple(s.nexts[k] for k in places)
    body = _needed(s.body, names(nexts))
    read = uses(body) | names(nexts)
    popped = [k for k, p in enumerate(s.popped) if p in read]
    return replace(
        s,
        outs=tuple(s.outs[k] for k in places),
        carried=tuple(s.carried[k] for k in places),
        inits=tuple(s.inits[k] for k in places),
        popped=tuple(s.popped[k] for k in popped),
        stacks=tuple(s.stacks[k] for k in popped),
        body=body,
        nexts=nexts,
    )
