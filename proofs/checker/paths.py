"""A function of numbers with branches and loops on all its paths at once, and its derivative, derived from it.

A value that a loop carries is a name for its value at some trip. The derivative of a loop carries the derivatives of
these values, by dual numbers, or goes back over the trips and carries their cotangents, and sums for values that the
trips read from outside. `adjoint_of_path` in `proofs/Path.v` says that the adjoint of a path consists of the adjoints
of its branches and trips, and `path_transposed` that it is the transposed derivative.

The program of a derivative in a file is run beside that, with names of its own (`Beside`). Each of its loops must run
over the same trips as a loop here, and a value that it carries equals one carried here if both are equal at first, and
equal after a trip before which all such pairs are equal. That is induction over the trips.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from typing import Any

from .budget import Undecided
from .functions import derivatives
from .scalar_code import COMPARISONS, Back, Code, If, Loop, Op, Stmt, Value, called
from .symbols import (
    ONE,
    ZERO,
    Known,
    Number,
    Symbols,
    Test,
    chosen,
    constant,
    joined,
    less,
    opposite,
    plus,
    same,
    times,
)

Context = tuple[tuple[Any, ...], ...]
"""Where a statement stands: in which loops, and on which sides of which tests."""
_ROUNDS = 40
_MOST_ENTRIES = 60


@dataclass(frozen=True)
class Stack:
    """The values that a loop stored at its trips; `value` is the one of any trip."""

    site: int
    value: Held


@dataclass(frozen=True)
class Trips:
    """The number of trips that a loop made."""

    site: int


@dataclass(frozen=True)
class Either:
    """One of two stacks or trips, as a test decides."""

    test: Test
    first: Held
    second: Held


Held = Number | Test | Stack | Trips | Either


@dataclass
class Entry:
    """A value that a loop carries: at a trip, at first, after the trip, and in the end."""

    at: Held
    first: Held
    after: Held
    end: Held


@dataclass
class Record:
    """A loop as it was met: `entries` are the values that it carries, `slopes` and `cotangents` those that its
    derivatives carry."""

    loop: Loop
    context: Context
    known: Known
    test: Test
    entries: list[Entry]
    body: list[Met]
    slopes: list[Entry] = field(default_factory=list)
    cotangents: list[Entry] = field(default_factory=list)


@dataclass
class Met:
    """A statement as it was met: its tests or values, and for a branch the statements met on its sides."""

    statement: Stmt
    values: list[Held] = field(default_factory=list)
    out: Number = ZERO
    test: Test = False
    sides: tuple[list[Met], list[Met]] | None = None
    record: Record | None = None


class Runner:
    """Runs code on all paths, and counts the costs of the blocks of a path."""

    def __init__(self, code: Code, symbols: Symbols) -> None:
        self.code = code
        self.symbols = symbols
        self.env: dict[str, Held] = {}
        self.costs: Counter[Context] = Counter()
        for p in code.params:
            self.env[p] = symbols.atom("parameter", p)

    def held(self, v: Value, known: Known) -> Held:
        """A value, resolved as far as the outcomes of tests are known."""
        if isinstance(v, float):
            return self.symbols.atom("no number", repr(v))
        if not isinstance(v, str):
            return v if isinstance(v, bool) else constant(v or 0)
        found = self.env[v]
        while isinstance(found, Either) and isinstance(test := self.symbols.told(found.test, known), bool):
            found = found.first if test else found.second
        return found

    def number(self, v: Value, known: Known) -> Number:
        """A value that is a number; truth values are 1 and 0."""
        found = self.held(v, known)
        if isinstance(found, bool) or self.code.kind(v) == "bool":
            return self.symbols.choice(found, ONE, ZERO)  # type: ignore[arg-type]
        if isinstance(found, Stack | Trips | Either):
            raise Undecided("what a loop has stored, read as a number")
        return found

    def test(self, v: Value, known: Known) -> Test:
        """A value that is true or false."""
        if isinstance(v, bool):
            return v
        if not isinstance(v, str) or self.code.kind(v) != "bool":
            raise Undecided("a number where a test is read")
        return self.symbols.told(self.held(v, known), known)  # type: ignore[arg-type]

    def op(self, s: Op, known: Known) -> Held:
        """The result of an operation."""
        sym = self.symbols
        if s.f in COMPARISONS:
            a, b = (self.number(v, known) for v in s.args)
            if s.f in ("==", "!="):
                return same(a, b) if s.f == "==" else opposite(same(a, b))
            p = less(a, b) if s.f in ("<", ">=") else less(b, a)
            return p if s.f in ("<", ">") else opposite(p)
        if s.f == "not":
            return opposite(self.test(s.args[0], known))
        if s.f in ("and", "or"):
            return joined(s.f, self.test(s.args[0], known), self.test(s.args[1], known))
        if s.f == "select":
            return self.either(self.test(s.args[0], known), s.args[1], s.args[2], known, known, s.out)
        if s.f == "copy":
            return self.held(s.args[0], known)
        given = [self.number(v, known) for v in s.args]
        match s.f:
            case "+" | "acc":
                return plus(given[0], given[1])
            case "-" | "less":
                return plus(given[0], given[1], -1)
            case "neg":
                return times(constant(-1), given[0])
            case "*":
                return times(given[0], given[1])
            case "/":
                return times(given[0], sym.reciprocal(given[1]))
            case "//" | "%" | "trunc":
                return sym.atom("whole", s.f, tuple(given))
        return sym.apply(called(s), given[:1] if s.f == "pow" else given)

    def either(self, p: Test, a: Value, b: Value, one: Known, other: Known, out: str) -> Held:
        """The value of `out`: a where p holds, else b."""
        kind = self.code.kinds[out]
        if kind == "bool":
            return chosen(p, self.test(a, one), self.test(b, other))
        if kind in ("int", "real"):
            return self.symbols.choice(p, self.number(a, one), self.number(b, other))
        return Either(p, self.held(a, one), self.held(b, other))

    def named(self, kind: str, *name: object) -> Held:
        """The number or truth value with this name."""
        return ("name", *name) if kind == "bool" else self.symbols.atom(*name)

    def same(self, a: Held, b: Held, known: Known) -> bool:
        """Whether two values are the same."""
        if isinstance(a, Stack | Trips | Either) or isinstance(b, Stack | Trips | Either):
            return a == b
        tests = [_is_test(x) for x in (a, b)]
        if any(tests):
            return all(tests) and self.symbols.same_test(a, b, known)
        return self.symbols.equal(a, b, known)  # type: ignore[arg-type]

    def block(self, statements: Sequence[Stmt], context: Context, known: Known) -> list[Met]:
        """Run a block."""
        met: list[Met] = []
        for s in statements:
            self.symbols.budget.spend()
            match s:
                case Op():
                    self.costs[context] += self.code.cost(s)
                    out = self.op(s, known)
                    if self.code.kinds[s.out] == "real":
                        out = self.shortened(out)  # type: ignore[arg-type]
                    self.env[s.out] = out
                    met.append(Met(s, out=out if not _is_test(out) else ZERO))  # type: ignore[arg-type]
                case If():
                    met.append(self.branch(s, context, known))
                case Loop():
                    met.append(self.loop(s, context, known))
                case Back():
                    self.back(s, context, known)
        return met

    def branch(self, s: If, context: Context, known: Known) -> Met:
        """Run both sides of a branch."""
        p = self.test(s.test, known)
        if isinstance(p, bool):
            chosen_side = self.block(s.then if p else s.otherwise, context, known)
            for out, v in zip(s.outs, s.thens if p else s.otherwises, strict=True):
                self.env[out] = self.held(v, known)
            return Met(s, test=p, sides=(chosen_side, []) if p else ([], chosen_side))
        one, other = (*known, *_facts(p, True)), (*known, *_facts(p, False))
        name, flipped = (p[1], True) if p[0] == "not" else (p, False)
        sides = (
            self.block(s.then, (*context, ("if", name, not flipped)), one),
            self.block(s.otherwise, (*context, ("if", name, flipped)), other),
        )
        for out, a, b in zip(s.outs, s.thens, s.otherwises, strict=True):
            self.env[out] = self.either(p, a, b, one, other, out)
        return Met(s, test=p, sides=sides)

    def shortened(self, a: Number) -> Number:
        """A value, under its name if it has one."""
        return self.symbols.lets.get(a, a)

    def loop(self, s: Loop, context: Context, known: Known) -> Met:
        """Run a loop."""
        raise NotImplementedError

    def back(self, s: Back, context: Context, known: Known) -> None:
        """Run the way back over a loop."""
        raise NotImplementedError

    def asked(self, s: Loop, context: Context, known: Known) -> Test:
        """The test of a loop at a trip; its head is run once more than its body."""
        inner = (*context, ("loop", s.site))
        before = Counter(self.costs)
        self.block(s.head, inner, known)
        spent = self.costs - before
        if any(c != inner for c in spent):
            raise Undecided("a branch or a loop in the test of a loop")
        self.costs[context] += spent[inner]
        return self.test(s.test, known)

    def stacked(self, s: Loop, known: Known) -> None:
        """Set the stacks and trips that a loop leaves."""
        for stack, save in zip(s.stacks, s.saves, strict=True):
            self.env[stack] = Stack(s.site, self.held(save, known))
        if s.trips:
            self.env[s.trips] = Trips(s.site)


def _is_test(x: Held) -> bool:
    return isinstance(x, bool) or (isinstance(x, tuple) and bool(x) and isinstance(x[0], str))


def _facts(p: Test, holds: bool) -> Known:
    """The known outcomes that follow from the outcome of a test."""
    match p:
        case "not", q:
            return _facts(q, not holds)
        case ("and" | "or") as f, q, r if holds is (f == "and"):
            return ((p, holds), *_facts(q, holds), *_facts(r, holds))
    return ((p, holds),)


class Primal(Runner):
    """The program of the value, whose derivatives are derived."""

    def __init__(self, code: Code, symbols: Symbols) -> None:
        super().__init__(code, symbols)
        self.records: dict[int, Record] = {}
        self.met = self.block(code.body, (), ())
        self.result = self.number(code.results[0], ())

    def shortened(self, a: Number) -> Number:
        """A value under a new name if it is long."""
        return self.symbols.named(a)

    def loop(self, s: Loop, context: Context, known: Known) -> Met:
        """Run a loop."""
        if s.site in self.records or s.stacks:
            raise Undecided("a loop without a number of its own")
        kinds = [self.code.kinds[c] for c in s.carried]
        firsts = [self._as(k, v, known) for k, v in zip(kinds, s.inits, strict=True)]
        for c, kind in zip(s.carried, kinds, strict=True):
            self.env[c] = self.named(kind, "at", s.site, c)
        test = self.asked(s, context, known)
        inside = (*known, *(_facts(test, True) if not isinstance(test, bool) else ()))
        record = self.records[s.site] = Record(s, context, inside, test, [], [])
        record.body = self.block(s.body, (*context, ("loop", s.site)), inside)
        for c, out, kind, first, n in zip(s.carried, s.outs, kinds, firsts, s.nexts, strict=True):
            end = self.env[out] = self.named(kind, "end", s.site, c)
            record.entries.append(Entry(self.env[c], first, self._as(kind, n, inside), end))
        return Met(s, record=record)

    def _as(self, kind: str, v: Value, known: Known) -> Held:
        return self.test(v, known) if kind == "bool" else self.number(v, known)

    def back(self, s: Back, context: Context, known: Known) -> None:
        """Raise `Undecided`: only derivatives go back over loops."""
        raise Undecided("a way back over a loop in a function that is no derivative")

    def parts(self, met: Met, known: Known) -> Iterator[tuple[Value, Callable[[Number], Number]]]:
        """The arguments of an operation, each with the map that its derivative by it applies to a slope or
        cotangent."""
        s = met.statement
        assert isinstance(s, Op)
        if self.code.kinds[s.out] != "real":
            return
        sym = self.symbols
        match s.f:
            case "+" | "-":
                yield s.args[0], lambda t: t
                yield s.args[1], (lambda t: t) if s.f == "+" else (lambda t: times(constant(-1), t))
            case "neg":
                yield s.args[0], lambda t: times(constant(-1), t)
            case "copy":
                yield s.args[0], lambda t: t
            case "*":
                a, b = (self.number(v, known) for v in s.args)
                yield s.args[0], lambda t: times(t, b)
                yield s.args[1], lambda t: times(t, a)
            case "/":
                below = sym.reciprocal(self.number(s.args[1], known))
                yield s.args[0], lambda t: times(t, below)
                yield s.args[1], lambda t: times(times(constant(-1), t), times(below, met.out))
            case "select":
                p = self.test(s.args[0], known)
                yield s.args[1], lambda t: sym.choice(p, t, ZERO)
                yield s.args[2], lambda t: sym.choice(p, ZERO, t)
            case "//" | "%" | "trunc":
                return
            case _:
                wanted = derivatives(called(s))
                if wanted is None or s.f in ("acc", "less", "pentagamma"):
                    raise Undecided(f"the derivative of {s.f}")
                arguments = s.args[:1] if s.f == "pow" else s.args
                names = {f"x{k}": self.number(v, known) for k, v in enumerate(arguments)} | {"y": met.out}
                for v, component in zip(arguments, wanted, strict=True):
                    yield v, lambda t, e=component: sym.expression(e, {**names, "t": t})  # type: ignore[misc]

    def is_active(self, v: Value) -> bool:
        """Whether a value may have a derivative."""
        return isinstance(v, str) and self.code.kinds[v] == "real"


class Slopes:
    """The derivative of a program's result by one parameter, by dual numbers."""

    def __init__(self, own: Primal, by: str) -> None:
        self.own, self.by = own, by
        self.of: dict[str, Number] = {by: ONE}
        self.block(own.met, ())
        self.result = self.slope(own.code.results[0])

    def slope(self, v: Value) -> Number:
        """The derivative of a value."""
        return self.of.get(v, ZERO) if self.own.is_active(v) else ZERO  # type: ignore[arg-type]

    def block(self, met: Sequence[Met], known: Known) -> None:
        """The derivatives of the names of a block."""
        for m in met:
            self.own.symbols.budget.spend()
            match m.statement:
                case Op(out):
                    total = ZERO
                    for v, part in self.own.parts(m, known):
                        if t := self.slope(v):
                            total = plus(total, part(t))
                    self.of[out] = self.own.symbols.named(total)
                case If() as s:
                    assert m.sides is not None
                    for side, holds in zip(m.sides, (True, False), strict=True):
                        self.block(side, (*known, *_facts(m.test, holds)) if not isinstance(m.test, bool) else known)
                    for out, a, b in zip(s.outs, s.thens, s.otherwises, strict=True):
                        self.of[out] = self.own.symbols.choice(m.test, self.slope(a), self.slope(b))
                case Loop() as s:
                    self._loop(s, m.record)

    def _loop(self, s: Loop, record: Record | None) -> None:
        assert record is not None
        own = self.own
        firsts = {c: self.slope(v) for c, v in zip(s.carried, s.inits, strict=True) if own.is_active(c)}
        moves = {c for c, first in firsts.items() if first}
        before = [(r, len(r.slopes)) for r in own.records.values()]
        while True:  # a slope that is 0 at first and stays 0 is 0
            for r, many in before:
                del r.slopes[many:]
            for c in s.carried:
                self.of[c] = own.symbols.atom("slope", s.site, c, self.by) if c in moves else ZERO
            self.block(record.body, record.known)
            nexts = {c: self.slope(n) for c, n in zip(s.carried, s.nexts, strict=True)}
            more = {c for c in firsts if c not in moves and nexts[c]}
            if not more:
                break
            moves |= more
        for c, out in zip(s.carried, s.outs, strict=True):
            self.of[out] = own.symbols.atom("slope end", s.site, c, self.by) if c in moves else ZERO
            if c in moves:
                record.slopes.append(Entry(self.of[c], firsts[c], nexts[c], self.of[out]))


Bars = dict[str, Number]


class Cotangents:
    """The derivatives of a program's result by its parameters, by its adjoint."""

    def __init__(self, own: Primal) -> None:
        self.own = own
        bars: Bars = {}
        self.add(bars, own.code.results[0], ONE)
        self.block(own.met, bars, ())
        self.bars = bars

    def add(self, bars: Bars, v: Value, t: Number) -> None:
        """Let `t` contribute to the cotangent of a value."""
        if t and self.own.is_active(v):
            bars[v] = plus(bars.get(v, ZERO), t)  # type: ignore[index,arg-type]

    def block(self, met: Sequence[Met], bars: Bars, known: Known) -> None:
        """The adjoint of a block: the cotangents before it of those after it."""
        for m in reversed(met):
            self.own.symbols.budget.spend()
            match m.statement:
                case Op(out):
                    t = self.own.symbols.named(bars.pop(out, ZERO))
                    if t:
                        for v, part in self.own.parts(m, known):
                            self.add(bars, v, part(t))
                case If() as s:
                    self._branch(m, s, bars, known)
                case Loop() as s:
                    self._loop(m, s, bars)

    def _branch(self, m: Met, s: If, bars: Bars, known: Known) -> None:
        assert m.sides is not None
        given = {out: bars.pop(out, ZERO) for out in s.outs}
        made: list[Bars] = []
        for side, values, holds in zip(m.sides, (s.thens, s.otherwises), (True, False), strict=True):
            own = dict(bars)
            for out, v in zip(s.outs, values, strict=True):
                self.add(own, v, given[out])
            self.block(side, own, (*known, *_facts(m.test, holds)) if not isinstance(m.test, bool) else known)
            made.append(own)
        one, other = made
        for v in {**one, **other}:
            bars[v] = self.own.symbols.choice(m.test, one.get(v, ZERO), other.get(v, ZERO))

    def _loop(self, m: Met, s: Loop, bars: Bars) -> None:
        record, own = m.record, self.own
        assert record is not None
        firsts: Bars = {}
        for c, out in zip(s.carried, s.outs, strict=True):
            t = bars.pop(out, ZERO)
            if own.is_active(c):
                firsts[c] = t
        moves = {c for c, first in firsts.items() if first}
        before = [(r, len(r.cotangents)) for r in own.records.values()]
        while True:  # a cotangent that is 0 at the end and stays 0 is 0
            for r, many in before:
                del r.cotangents[many:]
            inner: Bars = {}
            at = {c: own.symbols.atom("cotangent", s.site, c) for c in moves}
            for c, n in zip(s.carried, s.nexts, strict=True):
                self.add(inner, n, at.get(c, ZERO))
            self.block(record.body, inner, record.known)
            nexts = {c: inner.pop(c, ZERO) for c in s.carried if own.is_active(c)}
            more = {c for c in nexts if c not in moves and nexts[c]}
            if not more:
                break
            moves |= more
        for x, t in sorted(inner.items()):  # values that all trips read from outside
            if t:
                summed = own.symbols.atom("sum", s.site, x)
                end = own.symbols.atom("sum end", s.site, x)
                record.cotangents.append(Entry(summed, bars.get(x, ZERO), plus(summed, t), end))
                bars[x] = end
        for c, v in zip(s.carried, s.inits, strict=True):
            if c in moves:
                end = own.symbols.atom("cotangent end", s.site, c)
                record.cotangents.append(Entry(at[c], firsts[c], nexts[c], end))
                self.add(bars, v, end)


class Beside(Runner):
    """The program of a derivative, run beside the value whose derivative was derived."""

    def __init__(self, code: Code, own: Primal) -> None:
        super().__init__(code, own.symbols)
        self.own = own
        self.fresh = 0
        self.block(code.body, (), ())
        self.results = [self.number(v, ()) for v in code.results]

    def _record(self, site: int, context: Context) -> Record:
        record = self.own.records.get(site)
        if record is None or record.context != context:
            raise Undecided(f"loop {site} of a derivative, which is not where that of the function is")
        return record

    def loop(self, s: Loop, context: Context, known: Known) -> Met:
        """Run a loop beside the function's."""
        record = self._record(s.site, context)
        if s.bound != record.loop.bound:
            raise Undecided(f"loop {s.site} of a derivative, which has another bound")
        inner, before = (*context, ("loop", s.site)), Counter(self.costs)

        def trip() -> None:
            self.costs = Counter(before)
            test = self.asked(s, context, known)
            if not self.symbols.same_test(test, record.test, known):
                raise Undecided(f"loop {s.site} of a derivative, which has another test")
            self.block(s.body, inner, record.known)

        self._carried(s, [*record.entries, *record.slopes], trip, known, record.known)
        self.stacked(s, record.known)
        return Met(s)

    def back(self, s: Back, context: Context, known: Known) -> None:
        """Run the way back over a loop beside that of the adjoint."""
        record = self._record(s.site, context)
        if self.held(s.trips, known) != Trips(s.site):
            raise Undecided(f"a way back over other trips than those of loop {s.site}")
        for name, stack in zip(s.popped, s.stacks, strict=True):
            found = self.held(stack, known)
            if not isinstance(found, Stack) or found.site != s.site:
                raise Undecided(f"a way back over what loop {s.site} has not stored")
            self.env[name] = found.value
        inner, before = (*context, ("loop", s.site)), Counter(self.costs)

        def trip() -> None:
            self.costs = Counter(before)
            self.block(s.body, inner, record.known)

        self._carried(s, record.cotangents, trip, known, record.known)

    def _carried(
        self, s: Loop | Back, entries: Sequence[Entry], trip: Callable[[], None], known: Known, inside: Known
    ) -> None:
        """Find which known entry each carried value is, by induction over the trips; any other value gets a new
        name."""
        if len(s.carried) * len(entries) > _MOST_ENTRIES**2:
            raise Undecided("a loop that carries too much")
        firsts = [self._first(c, v, known) for c, v in zip(s.carried, s.inits, strict=True)]
        # the last candidate: a carried value never changes
        fitting = [
            [*(e for e in entries if self.same(first, e.first, known)), Entry(first, first, first, first)]
            for first in firsts
        ]
        taken: list[Entry | None] = []
        for of in fitting:  # at first a different entry for each, as far as possible
            taken.append(next(e for e in of if not any(e is t for t in taken)))
        tried = {tuple(map(id, taken))}
        while True:
            for c, entry in zip(s.carried, taken, strict=True):
                self.fresh += entry is None
                self.env[c] = self.named(self.code.kinds[c], "new", self.fresh) if entry is None else entry.at
            trip()
            after = [self._first(c, n, inside) for c, n in zip(s.carried, s.nexts, strict=True)]
            wrong = [
                k
                for k, (x, entry) in enumerate(zip(after, taken, strict=True))
                if entry is not None and not self.same(x, entry.after, inside)
            ]
            if not wrong:
                break
            ways = islice(product(*(fitting[k] for k in wrong)), _ROUNDS**2)
            others = (self._with(taken, dict(zip(wrong, way, strict=True))) for way in ways if _differ(way))
            new = next((way for way in others if tuple(map(id, way)) not in tried), None)
            if new is None or len(tried) > _ROUNDS:
                new = self._with(taken, dict.fromkeys(wrong))
            taken = new
            tried.add(tuple(map(id, taken)))
        for c, out, entry in zip(s.carried, s.outs, taken, strict=True):
            self.fresh += entry is None
            self.env[out] = self.named(self.code.kinds[c], "new", self.fresh) if entry is None else entry.end

    @staticmethod
    def _with(taken: list[Entry | None], new: Mapping[int, Entry | None]) -> list[Entry | None]:
        return [new.get(k, entry) for k, entry in enumerate(taken)]

    def _first(self, c: str, v: Value, known: Known) -> Held:
        return self.test(v, known) if self.code.kinds[c] == "bool" else self.number(v, known)


def _differ(entries: Sequence[Entry]) -> bool:
    return len({id(e) for e in entries}) == len(entries)


def spared(value: Mapping[Context, int], whole: Mapping[Context, int], bound: int) -> int | None:
    """The least, over all paths, of `bound` times the cost of the value minus the cost of the whole, counted by blocks;
    None if there is no least, because a trip may exceed the bound."""
    contexts = {c[:k] for costs in (value, whole) for c in costs for k in range(len(c) + 1)}

    def of(context: Context) -> int | None:
        total = bound * value.get(context, 0) - whole.get(context, 0)
        inner = {c[-1] for c in contexts if len(c) == len(context) + 1 and c[:-1] == context}
        for kind, *what in sorted(inner, key=repr):
            if kind == "loop":
                trip = of((*context, (kind, *what)))
                if trip is None or trip < 0:
                    return None
            elif what[1] or (kind, what[0], True) not in inner:
                sides = [of((*context, (kind, what[0], holds))) for holds in (True, False)]
                if None in sides:
                    return None
                total += min(x for x in sides if x is not None)
        return total

    return of(())
