"""Functions of numbers with branches and loops, as a certificate holds them: lists of JSON, checked for scopes.

    code   = {"params": [name, ..], "whole": [name, ..], "body": block, "results": [value, ..]}
    block  = [["op", name, f, [value, ..]]
            | ["if", value, block, block, names, values, values]
            | ["loop", site, names, carried, inits, head, value, body, nexts, bound or null, saves, stacks, trips]
            | ["back", site, names, carried, inits, popped, stacks, trips, body, nexts], ..]
    value  = name | integer | [real] | true | false | null

A real number is a text, "0.5", "inf" or "nan"; null is the cotangent to which nothing has contributed. A name is bound
once. `if` gives its names the values of the side that is taken; `loop` the carried ones when its test fails. A loop of
an adjoint puts `saves` on `stacks` at each trip, and counts `trips`; `back` takes them off, the last trip first. Loops
have numbers, their sites; a loop of a derivative has the site of the loop that it is the derivative of.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from .semantics import FUNCTIONS, known_cost
from .trees import Refused

Value = str | int | bool | Fraction | float | None
Kind = str
"""real, int or bool; for what loops leave for their adjoints, trips, or stack with the kind of its elements."""

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_NUMBER = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,40})?(e[-+]?[0-9]{1,3})?")
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
LOGIC = ("and", "or", "not")
_ARITY = {**dict.fromkeys(("+", "-", "*", "/", "acc", "less", "pow", "//", "%", "and", "or", *COMPARISONS), 2)}
_ARITY |= {**dict.fromkeys(("neg", "copy", "trunc", "not"), 1), "select": 3}
_COSTS = {"+": 1, "-": 1, "*": 1, "neg": 1, "/": 2, "acc": 1, "less": 1}


@dataclass(frozen=True)
class Op:
    """out = f(args)"""

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


@dataclass(frozen=True)
class Loop:
    """outs = carried, first `inits`, and `nexts` after `body`, as long as `test` holds after `head`."""

    site: int
    outs: tuple[str, ...]
    carried: tuple[str, ...]
    inits: tuple[Value, ...]
    head: tuple[Stmt, ...]
    test: Value
    body: tuple[Stmt, ...]
    nexts: tuple[Value, ...]
    bound: int | None
    saves: tuple[str, ...]
    stacks: tuple[str, ...]
    trips: str


@dataclass(frozen=True)
class Back:
    """outs = carried, first `inits`, and `nexts` after `body`, once for each trip of a loop, the last trip first."""

    site: int
    outs: tuple[str, ...]
    carried: tuple[str, ...]
    inits: tuple[Value, ...]
    popped: tuple[str, ...]
    stacks: tuple[str, ...]
    trips: str
    body: tuple[Stmt, ...]
    nexts: tuple[Value, ...]


Stmt = Op | If | Loop | Back


@dataclass(frozen=True)
class Code:
    """A function of numbers, and the kinds of its names."""

    params: tuple[str, ...]
    whole: frozenset[str]
    body: tuple[Stmt, ...]
    results: tuple[Value, ...]
    kinds: dict[str, Kind]

    def kind(self, v: Value) -> Kind:
        """The kind of a value."""
        return self.kinds[v] if isinstance(v, str) else _kind_of(v)

    def cost(self, s: Op) -> int:
        """The cost of an operation; operations on integers and truth values alone cost nothing."""
        kinds = [self.kind(a) for a in s.args]
        if s.f in ("copy", "select", "//", "%", "trunc", *LOGIC) or "real" not in kinds:
            return 0
        if s.f in ("acc", "less") and None in s.args:
            return 0
        if s.f in COMPARISONS:
            return 1
        return _COSTS[s.f] if s.f in _COSTS else known_cost(called(s))

    def one_trip(self, block: Sequence[Stmt]) -> int:
        """The operations of a block with one trip of each loop and the cheaper side of each branch."""
        total = 0
        for s in block:
            match s:
                case Op():
                    total += self.cost(s)
                case If():
                    total += min(self.one_trip(s.then), self.one_trip(s.otherwise))
                case Loop():
                    total += 2 * self.one_trip(s.head) + self.one_trip(s.body)
                case Back():
                    total += self.one_trip(s.body)
        return total


def called(s: Op) -> str:
    """The name of the scalar function that an operation applies; that of a power includes the exponent."""
    if s.f != "pow":
        return s.f
    exponent = s.args[1]
    _need(isinstance(exponent, int | Fraction) and not isinstance(exponent, bool), "a number as exponent")
    assert isinstance(exponent, int | Fraction)
    return f"pow {Fraction(exponent)}"


def read(held: Any) -> Code:
    """The code that the JSON value `held` represents. Raises `Refused` if it represents none."""
    _need(isinstance(held, dict) and held.keys() == {"params", "whole", "body", "results"}, "the keys of code")
    reader = _Reader()
    params, whole = reader.names(held["params"]), frozenset(reader.names(held["whole"]))
    _need(whole <= set(params), "whole to name parameters")
    scope = frozenset(reader.bind(params))
    body, inside = reader.block(held["body"], scope)
    results = reader.values(held["results"], inside)
    kinds = {p: "int" if p in whole else "real" for p in params}
    code = Code(params, whole, body, results, kinds)
    while _kinds(code, body):
        pass
    _need(all(x in kinds for x in reader.bound), "every name to have a value")
    _check_kinds(code, body)
    _need(all(code.kind(v) in ("real", "int", "bool") for v in results), "numbers as results")
    return code


class _Reader:
    def __init__(self) -> None:
        self.bound: set[str] = set()

    def bind(self, names: Iterable[str]) -> list[str]:
        found = list(names)
        _need(len(set(found)) == len(found) and self.bound.isdisjoint(found), "each name to be bound once")
        self.bound |= set(found)
        return found

    def names(self, held: Any) -> tuple[str, ...]:
        _need(isinstance(held, list) and all(isinstance(x, str) and _NAME.fullmatch(x) for x in held), "names")
        return tuple(held)

    def value(self, held: Any, scope: frozenset[str]) -> Value:
        if isinstance(held, str):
            _need(held in scope, f"{held} to be bound where it is read")
            return held
        if isinstance(held, list):
            _need(len(held) == 1 and isinstance(held[0], str), "a number")
            if held[0] in ("inf", "-inf", "nan"):
                return float(held[0])
            _need(_NUMBER.fullmatch(held[0]) is not None, "a number")
            return Fraction(held[0])
        _need(held is None or (isinstance(held, bool | int) and abs(held) < 10**40), "a value")
        return held  # type: ignore[no-any-return]

    def values(self, held: Any, scope: frozenset[str]) -> tuple[Value, ...]:
        _need(isinstance(held, list), "values")
        return tuple(self.value(v, scope) for v in held)

    def block(self, held: Any, scope: frozenset[str]) -> tuple[tuple[Stmt, ...], frozenset[str]]:
        """The statements, and the names bound after them."""
        _need(isinstance(held, list), "a block")
        made: list[Stmt] = []
        for s in held:
            _need(isinstance(s, list) and bool(s) and s[0] in _LENGTHS and len(s) == _LENGTHS[s[0]], "a statement")
            new = getattr(self, f"_{s[0]}")(s[1:], scope)
            made.append(new)
            bound = [new.out] if isinstance(new, Op) else list(new.outs)
            if isinstance(new, Loop):
                bound += [*new.stacks, *([new.trips] if new.trips else [])]
            scope |= set(self.bind(bound))
        return tuple(made), scope

    def _op(self, s: Any, scope: frozenset[str]) -> Op:
        (out,), f, args = self.names([s[0]]), s[1], self.values(s[2], scope)
        _need(isinstance(f, str) and (f in _ARITY or f in FUNCTIONS), "an operation that is known")
        _need(f not in _ARITY or len(args) == _ARITY[f], f"the arguments of {f}")
        _need(None not in args or f in ("acc", "less", "select", "copy"), f"the arguments of {f}")
        op = Op(out, f, args)
        if f not in _ARITY or f == "pow":
            called(op)
        return op

    def _if(self, s: Any, scope: frozenset[str]) -> If:
        test = self.value(s[0], scope)
        then, one = self.block(s[1], scope)
        otherwise, other = self.block(s[2], scope)
        outs, thens, otherwises = self.names(s[3]), self.values(s[4], one), self.values(s[5], other)
        _need(len(outs) == len(thens) == len(otherwises), "as many values as names")
        return If(test, then, otherwise, outs, thens, otherwises)

    def _loop(self, s: Any, scope: frozenset[str]) -> Loop:
        site, outs, carried, inits = s[0], self.names(s[1]), self.names(s[2]), self.values(s[3], scope)
        inside = scope | set(self.bind(carried))
        head, asked = self.block(s[4], inside)
        test = self.value(s[5], asked)
        body, after = self.block(s[6], inside)
        nexts, bound, saves, stacks = self.values(s[7], after), s[8], self.names(s[9]), self.names(s[10])
        _need(type(site) is int and len(outs) == len(carried) == len(inits) == len(nexts), "what a loop carries")
        _need(bound is None or (type(bound) is int and bound >= 0), "a bound")
        _need(len(saves) == len(stacks) and all(x in after for x in saves), "what a loop saves")
        _need(isinstance(s[11], str), "the name of trips")
        trips = self.names([s[11]])[0] if s[11] else ""
        return Loop(site, outs, carried, inits, head, test, body, nexts, bound, saves, stacks, trips)

    def _back(self, s: Any, scope: frozenset[str]) -> Back:
        site, outs, carried, inits = s[0], self.names(s[1]), self.names(s[2]), self.values(s[3], scope)
        popped, stacks, (trips,) = self.names(s[4]), self.names(s[5]), self.names([s[6]])
        _need(len(popped) == len(stacks) and all(x in scope for x in (*stacks, trips)), "what a loop has saved")
        inside = scope | set(self.bind((*carried, *popped)))
        body, after = self.block(s[7], inside)
        nexts = self.values(s[8], after)
        _need(type(site) is int and len(outs) == len(carried) == len(inits) == len(nexts), "what a loop carries")
        return Back(site, outs, carried, inits, popped, stacks, trips, body, nexts)


_LENGTHS = {"op": 4, "if": 7, "loop": 13, "back": 10}


def _kind_of(v: Value) -> Kind:
    return "bool" if isinstance(v, bool) else "int" if isinstance(v, int) else "real"


_ORDER = {"bool": 0, "int": 1, "real": 2, "trips": 3, "stack": 4}


def _rank(kind: Kind) -> tuple[int, ...]:
    return tuple(_ORDER[word] for word in kind.split())


def _kinds(code: Code, block: Sequence[Stmt]) -> bool:
    """Add to the known kinds of names. Return whether any was added."""
    found, changed = code.kinds, False

    def of(v: Value) -> Kind | None:
        return found.get(v) if isinstance(v, str) else _kind_of(v)

    def put(x: str, *kinds: Kind | None) -> None:
        nonlocal changed
        known = [k for k in (found.get(x), *kinds) if k is not None]
        widest = max(known, key=_rank, default=None)
        if widest is not None and found.get(x) != widest:
            found[x], changed = widest, True

    for s in block:
        match s:
            case Op(out, f, args):
                put(out, _result(f, [of(a) for a in args]))
            case If():
                changed |= _kinds(code, s.then) | _kinds(code, s.otherwise)
                for out, a, b in zip(s.outs, s.thens, s.otherwises, strict=True):
                    put(out, of(a), of(b))
            case Loop():
                for out, c, i, n in zip(s.outs, s.carried, s.inits, s.nexts, strict=True):
                    put(c, of(i), of(n))
                    put(out, found.get(c))
                changed |= _kinds(code, s.head) | _kinds(code, s.body)
                for stack, save in zip(s.stacks, s.saves, strict=True):
                    put(stack, f"stack {found[save]}" if save in found else None)
                if s.trips:
                    put(s.trips, "trips")
            case Back():
                for out, c in zip(s.outs, s.carried, strict=True):
                    put(c, "real")
                    put(out, "real")
                for p, stack in zip(s.popped, s.stacks, strict=True):
                    put(p, (found.get(stack) or "").removeprefix("stack ") or None)
                changed |= _kinds(code, s.body)
    return changed


def _result(f: str, kinds: list[Kind | None]) -> Kind | None:
    if f in COMPARISONS or f in LOGIC:
        return "bool"
    if f in ("//", "%", "trunc"):
        return "int"
    known = [k for k in (kinds[1:] if f == "select" else kinds) if k is not None]
    if f in ("+", "-", "*", "neg", "copy", "select", "abs", "max", "min", "pow"):
        widest = max(known, key=_rank, default=None)
        return "int" if widest == "bool" and f not in ("select", "copy") else widest
    return "real"


def _check_kinds(code: Code, block: Sequence[Stmt]) -> None:
    """Check that stacks and trips are read only by `back`, by saves and by branches, and that none are carried."""
    for s in block:
        match s:
            case Op():
                _need(not any(_is_left(code.kind(a)) for a in s.args), "operations on numbers")
            case If():
                _check_kinds(code, s.then)
                _check_kinds(code, s.otherwise)
            case Loop() | Back():
                _need(not any(_is_left(code.kind(a)) for a in (*s.inits, *s.nexts)), "loops that carry numbers")
                _check_kinds(code, s.body)


def _is_left(kind: Kind) -> bool:
    return kind.startswith(("stack", "trips"))


def _need(holds: bool, what: str) -> None:
    if not holds:
        raise Refused(f"expected {what} in the code of a function")
