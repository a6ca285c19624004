"""A function of numbers as one function of JAX on whole arrays.

A branch is a choice at its join: both sides are computed, and what is taken is chosen, in values and in derivatives,
so no nan of the other side is seen. A loop runs until it has ended everywhere; where it has ended, nothing changes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from tensorlang.language.functions import function, power
from tensorlang.scalars.code import ABSENT, Back, Code, If, Op, Stmt, Value, While
from tensorlang.scalars.ops import COMPARISONS, types

_INFIX = {**{op: op for op in COMPARISONS}, "+": "+", "-": "-", "*": "*", "/": "/", "//": "//", "%": "%"}
_INFIX |= {"and": "&", "or": "|", "acc": "+", "less": "-"}


class _Writer:
    def __init__(self, code: Code) -> None:
        self.code = code
        self.kinds = types(code)
        self.dims = _dims(code.body, {})
        self.lines: list[str] = []
        self.level = 1
        self.serial = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.level + text)

    def new(self, like: str) -> str:
        self.serial += 1
        return f"{like}{self.serial}"

    def value(self, v: Value) -> str:
        if isinstance(v, str):
            return "0.0" if v == ABSENT else v
        if isinstance(v, float) and not math.isfinite(v):
            return "jnp.nan" if math.isnan(v) else "jnp.inf" if v > 0 else "-jnp.inf"
        return repr(v) if not isinstance(v, int | float) or v >= 0 else f"({v!r})"

    def block(self, statements: Sequence[Stmt], on: str) -> None:
        for s in statements:
            match s:
                case Op():
                    self.line(f"{s.out} = {self._op(s)}")
                case If():
                    self._if(s, on)
                case While():
                    self._while(s, on)
                case Back():
                    self._back(s, on)

    def _op(self, s: Op) -> str:
        a = [self.value(v) for v in s.args]
        if s.f in ("acc", "less") and s.args[0] == ABSENT:
            return a[1] if s.f == "acc" else f"-{a[1]}"
        if s.f == "copy":
            return a[0]
        if s.f == "neg":
            return f"-{a[0]}"
        if s.f == "not":
            return f"jnp.logical_not({a[0]})"
        if s.f in ("and", "or"):
            return f"jnp.logical_{s.f}({a[0]}, {a[1]})"
        if s.f in _INFIX:
            return f"{a[0]} {_INFIX[s.f]} {a[1]}"
        if s.f == "select":
            return f"jnp.where({', '.join(a)})"
        if s.f == "trunc":
            return f"jnp.trunc({a[0]}).astype(int)"
        if s.f == "pow":
            exponent = s.args[1]
            assert isinstance(exponent, int | float)
            f = power(Fraction(repr(exponent)) if isinstance(exponent, float) else exponent)
            return f.source.format(a[0])
        f = function(s.f)
        return f.source.format(*a)

    def _if(self, s: If, on: str) -> None:
        for statements, sign in ((s.then, ""), (s.otherwise, "~")):
            if any(isinstance(x, While | Back | If) for x in statements):
                side = self.new("on")
                test = self.value(s.test)
                self.line(f"{side} = {on} & {test if not sign else f'jnp.logical_not({test})'}")
                self.block(statements, side)
            else:
                self.block(statements, on)
        for out, a, b in zip(s.outs, s.thens, s.otherwises, strict=True):
            if out in self.dims:
                # the trips of the other side are none, and what it has stored is not read
                self.line(f"{out} = {self.value(a) if isinstance(a, str) else self.value(b)}")
            else:
                self.line(f"{out} = jnp.where({self.value(s.test)}, {self.value(a)}, {self.value(b)})")

    def _full(self, v: Value, name: str) -> str:
        kind = self.kinds.get(name, float)
        dtype = {float: "real", int: "int", bool: "bool"}[kind]
        return f"jnp.full_like(one, {self.value(v)}, {dtype})"

    def _while(self, s: While, on: str) -> None:
        run, trips = self.new("run"), s.trips or self.new("trips")
        head, body = self.new("holds"), self.new("step")
        counted = bool(s.trips or s.bound is not None)
        start = [self._full(v, c) for c, v in zip(s.carried, s.inits, strict=True)]
        bound = s.bound
        stacks = [self._stack(name, bound) for name in s.saves]
        self.line(f"def {head}({', '.join(s.carried)}):")
        self.level += 1
        self.block(s.head, on)
        self.line(f"return jnp.full_like(one, {self.value(s.test)}, bool)")
        self.level -= 1
        state = [run, *([trips] if counted else []), *s.carried, *s.stacks]
        self.line(f"def {body}(state):")
        self.level += 1
        self.line(f"{self._tuple(state)} = state")
        self.line(f"{run} = {run} > 0")
        self._truths(s.carried, s.carried)
        self.block(s.body, run)
        for stack, name in zip(s.stacks, s.saves, strict=True):
            # all points take their trips together until they end
            self.line(
                f"{stack} = lax.dynamic_update_index_in_dim({stack}, jnp.full_like({stack}[0], {name}), "
                f"jnp.minimum(jnp.max({trips} * {run}), {(bound or 1) - 1}), 0)"
            )
        following = [self.new("next") for _ in s.carried]
        for new, c, n in zip(following, s.carried, s.nexts, strict=True):
            self.line(f"{new} = jnp.where({run}, {self.value(n)}, {c}).astype({c}.dtype)")
        if counted:
            self.line(f"{trips} = {trips} + {run}")
        limit = f" & ({trips} < {bound})" if bound is not None else ""
        self.line(f"{run} = {run} & {head}({', '.join(following)}){limit}")
        kept = [self._number(c, new) for c, new in zip(s.carried, following, strict=True)]
        self.line(f"return {self._tuple([f'{run}.astype(int)', *([trips] if counted else []), *kept, *s.stacks])}")
        self.level -= 1
        first = [self.new("start") for _ in s.carried]
        for name, code in zip(first, start, strict=True):
            self.line(f"{name} = {code}")
        limit = f" & (0 < {bound})" if bound is not None else ""
        initial = [f"({on} & {head}({', '.join(first)}){limit}).astype(int)"]
        initial += ["jnp.zeros_like(one, int)"] if counted else []
        kept_first = [self._number(c, name) for c, name in zip(s.carried, first, strict=True)]
        self.line(
            f"{self._tuple([run, *([trips] if counted else []), *s.outs, *s.stacks])} = lax.while_loop("
            f"lambda state: jnp.max(state[0], initial=0) > 0, {body}, ({', '.join([*initial, *kept_first, *stacks])},))"
        )
        self._truths(s.outs, s.carried)
        if s.over:
            self.line(f"{s.over} = {on} & ({trips} >= {bound}) & {head}({', '.join(s.outs)})")

    def _number(self, name: str, value: str) -> str:
        """What a loop carries, truths as 1 and 0: kernels have no masks in the state of a loop, and no `jnp.any`."""
        return f"{value}.astype(int)" if self.kinds.get(name) is bool else value

    def _truths(self, names: Sequence[str], carried: Sequence[str]) -> None:
        """Truths again, of what a loop carries for them."""
        for name, like in zip(names, carried, strict=True):
            if self.kinds.get(like) is bool:
                self.line(f"{name} = {name} > 0")

    def _stack(self, name: str, bound: int | None) -> str:
        dtype = {float: "real", int: "int", bool: "bool"}[self.kinds.get(name, float)]
        dims = ", ".join(map(str, (bound, *self.dims.get(name, ()))))
        return f"jnp.zeros(({dims}, *one.shape), {dtype})"

    @staticmethod
    def _tuple(parts: Sequence[str]) -> str:
        return f"({', '.join(parts)}{',' * (len(parts) == 1)})"

    def _back(self, s: Back, on: str) -> None:
        step, left = self.new("step"), self.new("left")
        start = [self._full(v, c) for c, v in zip(s.carried, s.inits, strict=True)]
        self.line(f"def {step}(state):")
        self.level += 1
        self.line(f"{self._tuple([left, *s.carried])} = state")
        run = self.new("run")
        self.line(f"{run} = {on} & ({left} <= {s.trips})")
        for name, stack in zip(s.popped, s.stacks, strict=True):
            self.line(f"{name} = lax.dynamic_index_in_dim({stack}, {left} - 1, 0, False)")
        self.block(s.body, run)
        following = [f"jnp.where({run}, {self.value(n)}, {c})" for c, n in zip(s.carried, s.nexts, strict=True)]
        self.line(f"return {self._tuple([f'{left} - 1', *following])}")
        self.level -= 1
        most = f"jnp.max(jnp.where({on}, {s.trips}, 0))"
        self.line(
            f"{self._tuple([self.new('left'), *s.outs])} = lax.while_loop("
            f"lambda state: state[0] > 0, {step}, ({', '.join([most, *start])},))"
        )


def _dims(block: Sequence[Stmt], known: dict[str, tuple[int | None, ...]]) -> dict[str, tuple[int | None, ...]]:
    """The names that stand for what loops have stored, and for how many trips of which loops, the outermost first."""
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


def source(code: Code, name: str) -> str:
    """A function of JAX called `name` that gives the results of `code` as a tuple, elementwise on arrays; loops make
    no trips where it is not `on`."""
    w = _Writer(code)
    params = list(code.params)
    w.line(f"real = jnp.result_type(float, {', '.join(params)})")
    w.line(f"{w._tuple(params)} = jnp.broadcast_arrays({', '.join(params)})")
    w.line(f"one = jnp.ones({params[0]}.shape, real)")
    for p in params:
        w.line(f"{p} = {f'{p}.astype(int)' if p in code.whole else f'{p}.astype(real)'}")
    w.line("on = jnp.full_like(one, on, bool)")
    w.block(code.body, "on")
    results = [f"jnp.full_like(one, {w.value(v)})" for v in code.results]
    if code.over is not False:
        # 0 / 0, so that checkify sees where it comes from
        w.line(f"kept = jnp.where({w.value(code.over)}, 0.0, one)")
        results = [f"{r} * (kept / kept)" for r in results]
    w.line(f"return {w._tuple(results)}")
    return "\n".join([f"def {name}({', '.join(params)}, on=True):", *w.lines])
