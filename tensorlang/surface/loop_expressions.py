"""Expressions of Python functions of numbers, read as operations: the part of the reader without control flow."""

from __future__ import annotations

import ast
import functools
import inspect
import math
from typing import Any

from tensorlang.errors import LimitError, here
from tensorlang.language.functions import functions
from tensorlang.scalars.code import FreshNames, Op, Stmt, Value
from tensorlang.scalars.ops import COMPARISONS, WHOLE, as_power, kind_of, value
from tensorlang.surface.known import FromSource, known_name
from tensorlang.surface.terms import Idx, Term, as_term

MOST_STATEMENTS = 20_000
OVER = "$over"
"""The name of the flag that a loop has passed its bound."""
_BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%"}
_COMPARE = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}

Env = dict[str, Any]
"""The values of names: names of the code, constants, tuples of these, and Python objects."""


class Missing:
    """The value of a name to which some path to here has assigned nothing."""


MISSING = Missing()


class Expressions:
    """Reads expressions of one function, and of those that it calls."""

    def __init__(self, function: FromSource, bound: int | None) -> None:
        self.function = function
        self.bound = bound
        self.fresh = FreshNames()
        self.kinds: dict[str, type] = {}
        self.lifted: dict[str, Term] = {}
        self.params: list[str] = []
        self.whole: set[str] = set()
        self.size = self.depth = 0
        self.names: dict[str, Any] = {}
        self.over: Value = False
        self.outer: dict[str, str] = {}

    def call(self, function: FromSource, env: Env, out: list[Stmt], at: ast.AST) -> Any:
        """What `function` returns for the arguments in `env`."""
        raise NotImplementedError

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
        """Update `env` after a branch on `p` with the sides `then` and `otherwise`, whose names are `one` and `other`;
        `left` says which of the sides control never leaves by the end."""
        raise NotImplementedError

    def new_parameter(self, name: str, whole: bool) -> str:
        """A parameter of the code, called like `name`."""
        base = name.strip("_") or "x"
        reserved = {"jnp", "jax", "lax", "real", "one", "on", "kept", "state", *functions()}
        taken = {*self.params, *reserved}
        param, k = base, 1
        while param in taken or any(param.rstrip("0123456789") == w for w in ("run", "trips", "next", "start", "step")):
            param, k = f"{base}_{k}x", k + 1
        self.params.append(param)
        self.kinds[param] = int if whole else float
        if whole:
            self.whole.add(param)
        return param

    def kind(self, v: Value) -> type:
        """float, int or bool."""
        return self.kinds[v] if isinstance(v, str) else type(v)

    def op(self, f: str, args: tuple[Any, ...], out: list[Stmt]) -> Any:
        """f(args), computed now if they are constants."""
        if not any(isinstance(a, str) for a in args):
            return value(f, list(args))
        if f == "or" and True in (args[0] is True, args[1] is True):
            return True
        if f in ("and", "or") and not isinstance(args[0], str):
            return args[1] if bool(args[0]) is (f == "and") else args[0]
        if f in ("and", "or") and not isinstance(args[1], str):
            return args[0] if bool(args[1]) is (f == "and") else args[1]
        made = self.fresh.new("c" if f in COMPARISONS else "v")
        self.kinds[made] = kind_of(f, [self.kind(a) for a in args])
        out.append(Op(made, f, args))
        return made

    def number(self, v: Any, out: list[Stmt]) -> Any:
        """`v` as a number, 1 for true and 0 for false."""
        if isinstance(v, bool):
            return int(v)
        if isinstance(v, str) and self.kinds[v] is bool:
            return self.op("select", (v, 1, 0), out)
        return v

    def truth(self, v: Any, out: list[Stmt]) -> Any:
        """The truth of a value as in Python: a number is true if it is not 0."""
        if isinstance(v, str) and self.kinds[v] is not bool:
            return self.op("!=", (v, 0), out)
        return v if isinstance(v, str) else bool(v)

    def value(self, e: ast.expr, env: Env, out: list[Stmt]) -> Any:
        """The value of an expression: a name, a constant, a tuple of these, or a Python object."""
        self.count()
        match e:
            case ast.Constant(value=bool() | int() | float() as v):
                return v
            case ast.Name(id=name):
                return self._name(e, name, env)
            case ast.Attribute(value=of, attr=name):
                return getattr(self.value(of, env, out), name)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return tuple(self.value(part, env, out) for part in parts)
            case ast.Subscript(value=of, slice=at):
                whole, place = self.value(of, env, out), self.value(at, env, out)
                if isinstance(whole, tuple | list) and isinstance(place, int):
                    return whole[place]
                self.function.refuse(e, "an element of something", "numbers alone: pass x[i] as an argument")
            case ast.UnaryOp(op=op, operand=operand):
                made = self.value(operand, env, out)
                if isinstance(op, ast.Not):
                    return self.op("not", (self.truth(made, out),), out)
                made = self.number(made, out)
                return self.op("neg", (made,), out) if isinstance(op, ast.USub) else made
            case ast.BinOp(left=left, op=op, right=right):
                return self.binary(op, self.value(left, env, out), self.value(right, env, out), e, out)
            case ast.BoolOp(op=op, values=values):
                f = "and" if isinstance(op, ast.And) else "or"
                result = self.truth(self.value(values[0], env, out), out)
                for part in values[1:]:
                    if result is (f == "or"):
                        return result
                    result = self.op(f, (result, self.truth(self.value(part, env, out), out)), out)
                return result
            case ast.Compare(left=left, ops=ops, comparators=others):
                sides = [self.number(self.value(side, env, out), out) for side in (left, *others)]
                result = None
                for compare, a, b in zip(ops, sides, sides[1:], strict=False):
                    if type(compare) not in _COMPARE:
                        self.function.refuse(
                            e, "numbers are compared by <, <=, ==, !=, > and >=", "x == 1 or x == 2 for x in (1, 2)"
                        )
                    c = self.op(_COMPARE[type(compare)], (a, b), out)
                    result = c if result is None else self.op("and", (result, c), out)
                return result
            case ast.IfExp(test=test, body=body, orelse=orelse):
                p = self.truth(self.value(test, env, out), out)
                if isinstance(p, bool):
                    return self.value(body if p else orelse, env, out)
                one, other = dict(env), dict(env)
                then, otherwise = list[Stmt](), list[Stmt]()
                one["$chosen"] = self.value(body, one, then)
                other["$chosen"] = self.value(orelse, other, otherwise)
                self.join(p, one, other, then, otherwise, env, out, (False, False))
                return env.pop("$chosen")
            case ast.Call(func=f, args=arguments, keywords=keywords) if all(k.arg for k in keywords):
                named = {str(k.arg): self.value(k.value, env, out) for k in keywords}
                return self._call(
                    e, self.value(f, env, out), [self.value(a, env, out) for a in arguments], named, env, out
                )
        self.function.refuse(
            e, f"{type(e).__name__} is no expression on numbers", "numbers, names, operators, comparisons, calls"
        )

    def _name(self, e: ast.expr, name: str, env: Env) -> Any:
        found = env[name] if name in env else self.names.get(name, MISSING)
        if isinstance(found, Missing):
            self.function.refuse(e, f"{name} has no value on every path to here", f"give {name} a value before")
        if isinstance(found, Term | Idx):
            key = f"{name} {id(found)}"
            if key not in self.outer:
                param = self.outer[key] = self.new_parameter(name, isinstance(found, Idx))
                self.lifted[param] = as_term(found)
            return self.outer[key]
        return found

    def binary(self, op: ast.operator, a: Any, b: Any, at: ast.AST, out: list[Stmt]) -> Any:
        """a op b, for a Python operator."""
        if isinstance(op, ast.Add) and isinstance(a, tuple | list) and isinstance(b, tuple | list):
            return (*a, *b)
        a, b = self.number(a, out), self.number(b, out)
        if not all(isinstance(v, str | int | float) for v in (a, b)):
            self.function.refuse(at, "an operation on what is no number", "numbers")
        whole = self.kind(a) is int and self.kind(b) is int
        if isinstance(op, ast.Pow):
            return self._power(a, b, out)
        if type(op) not in _BINARY:
            self.function.refuse(at, f"{type(op).__name__} is no operation on numbers", "+ - * / ** // and %")
        f = _BINARY[type(op)]
        if f in WHOLE and not whole:
            if f == "%":
                return self.op("mod", (a, b), out)
            return self.op("floor", (self.op("/", (a, b), out),), out)
        return self.op(f, (a, b), out)

    def _power(self, a: Any, b: Any, out: list[Stmt]) -> Any:
        if not isinstance(a, str) and not isinstance(b, str):
            return a**b
        if isinstance(b, int | float) and math.isfinite(b):
            if self.kind(a) is int and isinstance(b, int) and b >= 2:
                return self.op("pow", (a, b), out)
            return as_power(a, int(b) if b == int(b) else b, lambda f, args: self.op(f, args, out))
        return self.op("power", (a, b), out)

    def _call(self, at: ast.AST, f: Any, args: list[Any], named: dict[str, Any], env: Env, out: list[Stmt]) -> Any:
        if isinstance(f, FromSource):
            bound = inspect.signature(f.body).bind(*args, **named)
            bound.apply_defaults()
            own = {**bound.arguments, OVER: env.get(OVER, False)}
            result = self.call(f, own, out, at)
            env[OVER] = self.over
            return result
        if named:
            self.function.refuse(at, "arguments by name", "arguments by place")
        if f is range or f is enumerate or f is zip or f is len or f is reversed:
            made: Any = f(*args)
            return made if f in (range, len) else tuple(made)
        args = [self.number(a, out) for a in args]
        if not any(isinstance(a, str) for a in args):
            return f(*args)
        if f is int or f is math.trunc:
            return args[0] if self.kind(args[0]) is int else self.op("trunc", (args[0],), out)
        if f is float:
            return self.op("*", (1.0, args[0]), out) if self.kind(args[0]) is int else args[0]
        name = known_name(f)
        if f is math.log and len(args) == 2:
            return self.op("/", tuple(self.op("log", (a,), out) for a in args), out)
        if name in ("max", "min") and len(args) > 2:
            return functools.reduce(lambda a, b: self.op(name, (a, b), out), args)
        if name == "where" and len(args) == 3:
            return self.op("select", (self.truth(args[0], out), *args[1:]), out)
        if name == "power" and len(args) == 2:
            return self._power(args[0], args[1], out)
        if name == "square":
            return self._power(args[0], 2, out)
        if name in ("floor", "ceil", "round") and self.kind(args[0]) is int:
            return args[0]
        if name in ("floor", "ceil") and getattr(f, "__module__", "") == "math":
            return self.op("trunc", (self.op(name, (args[0],), out),), out)
        if name is not None and name in functions() and functions()[name].arity == len(args):
            return self.op(name, tuple(args), out)
        self.function.refuse(
            at,
            f"{getattr(f, '__name__', f)} is no function of numbers that is known",
            "@tl.scalar on its definition, or a function of tl, math, numpy or jax.numpy",
        )

    def count(self) -> None:
        """Count a step. Raises `LimitError` if there are too many."""
        self.size += 1
        if self.size > MOST_STATEMENTS:
            name = self.function.name
            raise LimitError(f"{name}: more than {MOST_STATEMENTS:,} steps, its known loops unrolled", here())
