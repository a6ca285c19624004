"""A function of numbers as one function of JAX on whole arrays.

A branch is a selection where its sides join: both are computed, and one is selected, in values and in derivatives, so
that no nan of the other side gets through. A loop runs until it has ended everywhere; where it has ended, nothing
changes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

from tensorlang.lowering.arrays.ir import (
    Block,
    Define,
    Elementwise,
    Infix,
    Item,
    Lambda,
    Name,
    Negative,
    Node,
    Number,
    Return,
)
from tensorlang.lowering.arrays.values import apply, integer, tuple_of
from tensorlang.lowering.emit.nodes import Attribute, PythonCall
from tensorlang.lowering.kernels.functions import spelled
from tensorlang.scalars.code import ABSENT, Back, Code, If, Op, Stmt, Value, While
from tensorlang.scalars.ops import COMPARISONS, called, types

_INFIX = {**{op: op for op in COMPARISONS}, "+": "+", "-": "-", "*": "*", "/": "/", "//": "//", "%": "%"}
_INFIX |= {"acc": "+", "less": "-"}
_DTYPES = {float: Name("real"), int: Name("int"), bool: Name("bool")}
_ONE, _ON, _STATE = Name("one"), "on", Name("state")


def definition(code: Code, name: str, on_gpus: bool = False) -> Define:
    """A function called `name` that returns the results of `code` as a tuple, elementwise on arrays; loops make no
    trips where it is not `on`. For GPUs it only uses what these have (`kernels/functions.py`)."""
    params = [Name(p) for p in code.params]
    body = Block()
    body.assign("real", apply("result_type", Name("float"), *params))
    body.unpack(code.params, apply("jnp.broadcast_arrays", *params))
    body.assign(_ONE.name, apply("jnp.ones", Attribute(params[0], "shape"), Name("real")))
    for p in params:
        body.assign(p.name, _as(p, Name("int") if p.name in code.whole else Name("real")))
    body.assign(_ON, _full(Name(_ON), Name("bool")))
    w = _Writer(code, on_gpus)
    w.block(body, code.body, _ON)
    results: list[Node] = [_full(_value(v)) for v in code.results]
    if code.over is not False:
        # 0 / 0, so that checkify sees where it comes from
        body.assign("kept", apply("where", _value(code.over), Number(Fraction(0), real=True), _ONE))
        results = [Infix(r, "*", Infix(Name("kept"), "/", Name("kept"))) for r in results]
    body.give(tuple_of(results))
    return Define(name, (*code.params, f"{_ON}=True"), body)


class _Writer:
    def __init__(self, code: Code, on_gpus: bool) -> None:
        self.kinds = types(code)
        self.dims = _dims(code.body, {})
        self.on_gpus = on_gpus
        self.serial = 0

    def new(self, like: str) -> str:
        self.serial += 1
        return f"{like}{self.serial}"

    def block(self, body: Block, statements: Sequence[Stmt], on: str) -> None:
        """Put the statements into `body`; loops run where it is `on`."""
        for s in statements:
            match s:
                case Op():
                    body.assign(s.out, self._op(s))
                case If():
                    self._if(body, s, on)
                case While():
                    self._while(body, s, on)
                case Back():
                    self._back(body, s, on)

    def _op(self, s: Op) -> Node:
        a = [_value(v) for v in s.args]
        match s.f:
            case "acc" if s.args[0] == ABSENT:
                return a[1]
            case "less" if s.args[0] == ABSENT:
                return Negative(a[1])
            case "copy":
                return a[0]
            case "neg":
                return Negative(a[0])
            case "not":
                return self._not(a[0])
            case "and" | "or":
                return apply(f"jnp.logical_{s.f}", *a)
            case "select":
                return apply("where", *a)
            case "trunc":
                return _as(apply("jnp.trunc", a[0]), Name("int"))
            case op if op in _INFIX:
                return Infix(a[0], _INFIX[op], a[1])
        f = called(s)
        assert f is not None
        return Elementwise(spelled(f) if self.on_gpus else f, tuple(a[: f.arity]))

    def _not(self, condition: Node) -> Node:
        return apply("_no" if self.on_gpus else "jnp.logical_not", condition)

    def _if(self, body: Block, s: If, on: str) -> None:
        test = _value(s.test)
        for statements, holds in ((s.then, test), (s.otherwise, self._not(test))):
            if any(isinstance(x, While | Back | If) for x in statements):
                side = self.new("on")
                body.assign(side, _and(Name(on), holds))
                self.block(body, statements, side)
            else:
                self.block(body, statements, on)
        for out, a, b in zip(s.outs, s.thens, s.otherwises, strict=True):
            if out in self.dims:
                # the other side makes no trips, and what it has stored is not read
                body.assign(out, _value(a if isinstance(a, str) else b))
            else:
                body.assign(out, apply("where", test, _value(a), _value(b)))

    def _while(self, body: Block, s: While, on: str) -> None:
        run, trips = self.new("run"), s.trips or self.new("trips")
        head, step = self.new("holds"), self.new("step")
        counter = [trips] if s.trips or s.bound is not None else []
        starts = [self._start(v, c) for c, v in zip(s.carried, s.inits, strict=True)]
        stacks = [self._stack(name, s.bound) for name in s.saves]
        holds = Block()
        self.block(holds, s.head, on)
        holds.statements.append(Return(_full(_value(s.test), Name("bool"))))
        body.statements.append(Define(head, s.carried, holds))
        state = [run, *counter, *s.carried, *s.stacks]
        body.statements.append(Define(step, (_STATE.name,), self._trip(s, run, trips, counter, head, state)))
        first = [self.new("start") for _ in s.carried]
        for name, start in zip(first, starts, strict=True):
            body.assign(name, start)
        runs = _and(Name(on), apply(head, *map(Name, first)))
        if s.bound is not None:
            runs = _and(runs, Infix(integer(0), "<", integer(s.bound)))
        initial = [_as(runs, Name("int")), *(apply("jnp.zeros_like", _ONE, Name("int")) for _ in counter)]
        initial += [self._number(c, name) for c, name in zip(s.carried, first, strict=True)]
        body.unpack([run, *counter, *s.outs, *s.stacks], _loop(self._somewhere(), step, [*initial, *stacks]))
        self._truths(body, s.outs, s.carried)
        if s.over:
            passed = _and(Name(on), Infix(Name(trips), ">=", integer(s.bound or 0)))
            body.assign(s.over, _and(passed, apply(head, *map(Name, s.outs))))

    def _trip(self, s: While, run: str, trips: str, counter: list[str], head: str, state: list[str]) -> Block:
        """One trip of a loop, from its state to the next."""
        body = Block()
        body.unpack(state, _STATE)
        body.assign(run, Infix(Name(run), ">", integer(0)))
        self._truths(body, s.carried, s.carried)
        self.block(body, s.body, run)
        if s.stacks:
            # all points take their trips together until they end
            place, latest = self.new("at"), apply("jnp.max", Infix(Name(trips), "*", Name(run)), initial=integer(0))
            body.assign(place, apply("minimum", latest, integer((s.bound or 1) - 1)))
        for stack, name in zip(s.stacks, s.saves, strict=True):
            row = apply("jnp.full_like", Item(Name(stack), 0), Name(name))
            body.assign(stack, apply("lax.dynamic_update_index_in_dim", Name(stack), row, Name(place), integer(0)))
        following = [self.new("next") for _ in s.carried]
        for new, c, n in zip(following, s.carried, s.nexts, strict=True):
            body.assign(new, _as(apply("where", Name(run), _value(n), Name(c)), Attribute(Name(c), "dtype")))
        if counter:
            body.assign(trips, Infix(Name(trips), "+", Name(run)))
        runs = _and(Name(run), apply(head, *map(Name, following)))
        body.assign(run, runs if s.bound is None else _and(runs, Infix(Name(trips), "<", integer(s.bound))))
        kept = [self._number(c, new) for c, new in zip(s.carried, following, strict=True)]
        after = [_as(Name(run), Name("int")), *map(Name, counter), *kept, *map(Name, s.stacks)]
        body.statements.append(Return(tuple_of(after)))
        return body

    def _somewhere(self) -> Node:
        """Whether a loop runs at some point. Mosaic GPU reduces a tile to a number one axis after the other."""
        runs = Item(_STATE, 0)
        if self.on_gpus:
            return apply("_in_some_place", Infix(runs, ">", integer(0)))
        return Infix(apply("jnp.max", runs, initial=integer(0)), ">", integer(0))

    def _start(self, v: Value, name: str) -> Node:
        return _full(_value(v), _DTYPES[self.kinds.get(name, float)])

    def _number(self, name: str, value: str) -> Node:
        """A value that a loop carries, truths as 1 and 0: in kernels loops carry no masks, and there is no
        `jnp.any`."""
        return _as(Name(value), Name("int")) if self.kinds.get(name) is bool else Name(value)

    def _truths(self, body: Block, names: Sequence[str], carried: Sequence[str]) -> None:
        """Turn the numbers that a loop carries for truths back into these."""
        for name, like in zip(names, carried, strict=True):
            if self.kinds.get(like) is bool:
                body.assign(name, Infix(Name(name), ">", integer(0)))

    def _stack(self, name: str, bound: int | None) -> Node:
        dims = tuple_of(integer(n or 0) for n in (bound, *self.dims.get(name, ())))
        return apply("jnp.zeros", Infix(dims, "+", Attribute(_ONE, "shape")), _DTYPES[self.kinds.get(name, float)])

    def _back(self, body: Block, s: Back, on: str) -> None:
        step, left = self.new("step"), self.new("left")
        starts = [self._start(v, c) for c, v in zip(s.carried, s.inits, strict=True)]
        run = self.new("run")
        trip = Block()
        trip.unpack([left, *s.carried], _STATE)
        trip.assign(run, _and(Name(on), Infix(Name(left), "<=", Name(s.trips))))
        before = Infix(Name(left), "-", integer(1))
        for name, stack in zip(s.popped, s.stacks, strict=True):
            row = apply("lax.dynamic_index_in_dim", Name(stack), before, integer(0), Name("False"))
            trip.assign(name, row)
        self.block(trip, s.body, run)
        following = [apply("where", Name(run), _value(n), Name(c)) for c, n in zip(s.carried, s.nexts, strict=True)]
        trip.statements.append(Return(tuple_of([before, *following])))
        body.statements.append(Define(step, (_STATE.name,), trip))
        most = apply("jnp.max", apply("where", Name(on), Name(s.trips), integer(0)), initial=integer(0))
        body.unpack([self.new("left"), *s.outs], _loop(Infix(Item(_STATE, 0), ">", integer(0)), step, [most, *starts]))


def _value(v: Value) -> Node:
    match v:
        case str():
            return Number(Fraction(0), real=True) if v == ABSENT else Name(v)
        case bool():
            return Name(repr(v))
        case int():
            return integer(v)
        case _ if math.isnan(v):
            return Name("jnp.nan")
        case _ if math.copysign(1.0, v) < 0:
            return Negative(_value(-v))
        case _:
            return Name("jnp.inf") if math.isinf(v) else Number(Fraction(v), real=True)


def _as(of: Node, dtype: Node) -> Node:
    return PythonCall(Attribute(of, "astype"), (dtype,))


def _and(a: Node, b: Node) -> Node:
    return Infix(a, "&", b)


def _full(value: Node, *dtype: Node) -> Node:
    """An array like the arguments."""
    return apply("jnp.full_like", _ONE, value, *dtype)


def _loop(runs: Node, step: str, initial: Iterable[Node]) -> Node:
    return apply("lax.while_loop", Lambda((_STATE.name,), runs), Name(step), tuple_of(initial))


def _dims(block: Sequence[Stmt], known: dict[str, tuple[int | None, ...]]) -> dict[str, tuple[int | None, ...]]:
    """The names of values that loops have stored, with how many trips of which loops, the outermost first."""
    for s in block:
        match s:
            case If():
                _dims((*s.then, *s.otherwise), known)
                for out, a, b in zip(s.outs, s.thens, s.otherwises, strict=True):
                    for v in (a, b):
                        if isinstance(v, str) and v in known:
                            known[out] = known[v]
            case While():
                _dims(s.body, known)
                for stack, save in zip(s.stacks, s.saves, strict=True):
                    known[stack] = (s.bound, *known.get(save, ()))
            case Back():
                for name, stack in zip(s.popped, s.stacks, strict=True):
                    if known[stack][1:]:
                        known[name] = known[stack][1:]
                _dims(s.body, known)
            case _:
                pass
    return known
