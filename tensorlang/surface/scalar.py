"""Python functions of numbers, read from their source: `@tl.scalar`.

    @tl.scalar
    def huber(x, width):
        if abs(x) <= width:
            return 0.5 * x * x
        return width * (abs(x) - 0.5 * width)

    tl.gen(n, lambda i: huber(x[i], 1))

Called with numbers, it is the Python function. Called with values of a program, its body is written into the program:
an `if` on values becomes one side under the condition plus the other under its opposite, so only the side that is taken
is evaluated, has to exist, and has a derivative. Loops over known ranges are unrolled. A function with data-dependent
loops is read as a whole, and becomes one scalar function of the language.
"""

from __future__ import annotations

import ast
import functools
import inspect
import math
import operator
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, overload

from tensorlang.errors import LimitError, TypeMismatch, here, python_line
from tensorlang.language.functions import functions
from tensorlang.language.grammar import Var
from tensorlang.language.types import R
from tensorlang.scalars.black_box import ScalarPlan, plan_of
from tensorlang.scalars.text import code_text
from tensorlang.surface import scope
from tensorlang.surface.known import FromSource, home, known_name
from tensorlang.surface.loop_terms import as_terms
from tensorlang.surface.loops import read
from tensorlang.surface.operations import where
from tensorlang.surface.tail_calls import calls_itself
from tensorlang.surface.terms import Cond, Idx, Term, apply, as_term

MOST_STEPS = 10_000
"""The most statements and expressions that one call writes, loops unrolled."""

_BINARY: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.Mod: operator.mod,
    ast.FloorDiv: operator.floordiv,
}
_COMPARE: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_Env = dict[str, Any]


class _DataLoop(Exception):
    """A loop with a data-dependent range."""


class _Returned:
    """The value that a block returns; `None` instead of it for a block that runs to its end."""

    def __init__(self, value: Any) -> None:
        self.value = value


class ScalarCode(FromSource):
    """A function of numbers that programs call, too.

    `str` is its text in the language, which has loops that data end.

    >>> @tl.scalar
    ... def root(a):
    ...     x = a
    ...     while x * x - a > 0.001:
    ...         x = (x + a / x) / 2
    ...     return x
    >>> root(4.0) - 2 < 0.001, str(root).splitlines()[0]
    (True, 'scalar root(a) =')
    """

    def __init__(self, body: Callable[..., Any], bound: int | None = None, mode: str = "auto") -> None:
        functools.update_wrapper(self, body)
        self.body = body
        self.name = body.__name__
        self.bound, self.mode = bound, mode
        self._place = python_line(body.__code__.co_filename, body.__code__.co_firstlineno)
        try:
            lines, self._first = inspect.getsourcelines(body)
        except (OSError, TypeError):
            raise TypeMismatch(
                f"the source of {body.__name__} can't be read",
                self._place,
                "write it in a file or a notebook cell; without branches on values, a plain function does",
            ) from None
        tree = ast.parse(textwrap.dedent("".join(lines))).body[0]
        if not isinstance(tree, ast.FunctionDef):
            raise TypeMismatch("tl.scalar takes a function that def defines", self._place, "def f(x): return ..")
        self.tree = tree
        arguments = tree.args
        if arguments.vararg or arguments.kwarg:
            self._refuse(tree, "a function of numbers has a fixed number of parameters", "no * and no **")
        for node in ast.walk(tree):
            self._check(node)
        annotated = inspect.get_annotations(body)
        self.whole = frozenset(name for name, of in annotated.items() if of in (int, "int"))
        self._loops = calls_itself(tree) or any(
            isinstance(node, ast.While | ast.Break | ast.Continue) for node in ast.walk(tree)
        )

    def outside(self) -> dict[str, Any]:
        """The names that it reads from outside, as they are now."""
        closure = inspect.getclosurevars(self.body)
        return {**closure.builtins, **closure.globals, **closure.nonlocals}

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """The value at these numbers, or at these values of a program."""
        if not any(isinstance(a, Term | Idx | Cond) for a in (*arguments, *named.values())):
            return self.body(*arguments, **named)
        try:
            bound = inspect.signature(self.body).bind(*arguments, **named)
        except TypeError as error:
            raise TypeMismatch(f"{self.body.__name__}: {error}", here()) from None
        bound.apply_defaults()
        if not self._loops and self.mode == "auto":
            try:
                return _Run(self, self.outside()).call(dict(bound.arguments))
            except _DataLoop:
                pass
        return as_terms(read(self, dict(bound.arguments), self.bound), self.mode)

    def __str__(self) -> str:
        """The function as text of the language, which `tl.parse_module` reads."""
        return code_text(self.plan.code, self.mode)

    @property
    def plan(self) -> ScalarPlan:
        """The plan for it if all its parameters are values of a program: its code, the way to its derivatives, and the
        costs of both.

        >>> @tl.scalar
        ... def root(a):
        ...     x = a
        ...     while x * x - a > 0.001:
        ...         x = (x + a / x) / 2
        ...     return x
        >>> print(str(root.plan).splitlines()[-3])
        on every path: value 3 + 8*trips(root), with derivatives 3 + 17*trips(root)
        """
        binders = {name: Term(Var(name, R)) for name in inspect.signature(self.body).parameters}
        return plan_of(read(self, binders, self.bound).code, self.mode)

    def refuse(self, node: ast.AST, message: str, hint: str) -> NoReturn:
        """Raise `TypeMismatch` at the line of `node`."""
        self._refuse(node, message, hint)

    def _refuse(self, node: ast.AST, message: str, hint: str) -> NoReturn:
        line = self._first + getattr(node, "lineno", 1) - 1
        raise TypeMismatch(f"{self.body.__name__}: {message}", python_line(self.body.__code__.co_filename, line), hint)

    def _check(self, node: ast.AST) -> None:
        refused: dict[type[ast.AST], tuple[str, str]] = {
            ast.Try: ("try", "a condition in front: if x > 0: .."),
            ast.With: ("with", "plain statements"),
            ast.Yield: ("yield", "return"),
            ast.Global: ("global", "a parameter"),
            ast.Nonlocal: ("nonlocal", "a parameter"),
            ast.ListComp: ("a comprehension", "for k in range(..): .."),
            ast.GeneratorExp: ("a comprehension", "for k in range(..): .."),
            ast.Lambda: ("a lambda", "a function of its own with tl.scalar"),
        }
        if type(node) in refused:
            what, hint = refused[type(node)]
            self._refuse(node, f"a function of numbers can't have {what}", hint)


class _Run:
    """One call, in which names stand for values of a program."""

    def __init__(self, code: ScalarCode, names: _Env) -> None:
        self.code = code
        self.names = names
        self.steps = 0

    def call(self, env: _Env) -> Any:
        result = self.block(self.code.tree.body, env)
        if result is None:
            self.code.refuse(self.code.tree, "a path through it returns nothing", "return a number at its end")
        return result.value

    def block(self, statements: Sequence[ast.stmt], env: _Env) -> _Returned | None:
        """Run the statements, which changes `env`."""
        for k, statement in enumerate(statements):
            self._step()
            match statement:
                case ast.Return(value=None):
                    self.code.refuse(statement, "it returns nothing", "return a number")
                case ast.Return(value=value) if value is not None:
                    return _Returned(self.value(value, env))
                case ast.Assign(targets=targets, value=value):
                    made = self.value(value, env)
                    for target in targets:
                        self._assign(target, made, env)
                case ast.AnnAssign(target=target, value=value) if value is not None:
                    self._assign(target, self.value(value, env), env)
                case ast.AugAssign(target=ast.Name(id=name) as target, op=op, value=value):
                    old = self.value(ast.Name(id=name, ctx=ast.Load(), lineno=target.lineno), env)
                    env[name] = self._binary(op, old, self.value(value, env), statement)
                case ast.Expr(value=ast.Constant()) | ast.Pass():
                    pass
                case ast.If(test=test, body=body, orelse=orelse):
                    p = self.value(test, env)
                    if not isinstance(p, Cond):
                        result = self.block(body if p else orelse, env)
                        if result is not None:
                            return result
                        continue
                    if any(isinstance(node, ast.Return) for part in (*body, *orelse) for node in ast.walk(part)):
                        rest = statements[k + 1 :]
                        return self._returned(
                            p, self.block([*body, *rest], dict(env)), self.block([*orelse, *rest], env), statement
                        )
                    self._joined(p, body, orelse, env, statement)
                case ast.For(target=target, iter=iterated, body=body, orelse=[]):
                    result = self._loop(statement, target, iterated, body, statements[k + 1 :], env)
                    if result is not None:
                        return result
                case _:
                    self.code.refuse(
                        statement,
                        f"{type(statement).__name__} is no statement on numbers",
                        "assignments, if, for and return",
                    )
        return None

    def _returned(self, p: Cond, a: _Returned | None, b: _Returned | None, at: ast.AST) -> _Returned | None:
        if a is None or b is None:
            self.code.refuse(
                at, "one side of it returns a number and the other runs to the end", "return a number there, too"
            )
        return _Returned(self._chosen(p, a.value, b.value, at))

    def _chosen(self, p: Cond, a: Any, b: Any, at: ast.AST) -> Any:
        if a is b:
            return a
        if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
            return tuple(self._chosen(p, x, y, at) for x, y in zip(a, b, strict=True))
        if isinstance(a, tuple) or isinstance(b, tuple):
            self.code.refuse(at, "its sides give different numbers of results", "the same number on both sides")
        if isinstance(a, Cond | bool) and isinstance(b, Cond | bool):
            return (p & a) | (~p & b)
        return where(p, a, b)

    def _joined(self, p: Cond, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt], env: _Env, at: ast.AST) -> None:
        one, other = dict(env), dict(env)
        self.block(body, one)
        self.block(orelse, other)
        for name in {**one, **other}:
            if name in one and name in other:
                env[name] = self._chosen(p, one[name], other[name], at)
            else:
                env[name] = _Missing(name)

    def _loop(
        self,
        at: ast.For,
        target: ast.expr,
        iterated: ast.expr,
        body: Sequence[ast.stmt],
        rest: Sequence[ast.stmt],
        env: _Env,
    ) -> _Returned | None:
        values = self.value(iterated, env)
        if not isinstance(values, range | tuple | list):
            self.code.refuse(at, "a loop is over a range of whole numbers", "for k in range(5): ..")
        if any(isinstance(node, ast.Return) for part in body for node in ast.walk(part)):
            assigned = [ast.Assign(targets=[target], value=ast.Constant(value=v), lineno=at.lineno) for v in values]
            unrolled = [s for first in assigned for s in (first, *body)]
            return self.block([*unrolled, *rest], env)
        for v in values:
            self._assign(target, v, env)
            self.block(body, env)
        return None

    def _assign(self, target: ast.expr, value: Any, env: _Env) -> None:
        match target:
            case ast.Name(id=name):
                env[name] = value
            case ast.Tuple(elts=targets) if isinstance(value, tuple) and len(value) == len(targets):
                for one, part in zip(targets, value, strict=True):
                    self._assign(one, part, env)
            case _:
                self.code.refuse(target, "only names are assigned to", "a, b = b, a assigns to several")

    def value(self, e: ast.expr, env: _Env) -> Any:
        """The value of an expression."""
        self._step()
        match e:
            case ast.Constant(value=bool() | int() | float() as value):
                return value
            case ast.Name(id=name):
                found = env[name] if name in env else self.names.get(name, _Missing(name))
                if isinstance(found, _Missing):
                    self.code.refuse(e, f"{name} has no value on every path to here", f"give {name} a value before")
                return found
            case ast.Attribute(value=of, attr=name):
                return getattr(self.value(of, env), name)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return tuple(self.value(part, env) for part in parts)
            case ast.Subscript(value=of, slice=place):
                whole, k = self.value(of, env), self.value(place, env)
                if isinstance(whole, tuple | list) and isinstance(k, int):
                    return whole[k]
                self.code.refuse(e, "an element of something", "numbers alone: pass x[i] as an argument")
            case ast.UnaryOp(op=op, operand=operand):
                made = self.value(operand, env)
                if isinstance(op, ast.Not):
                    return ~made if isinstance(made, Cond) else not made
                return -made if isinstance(op, ast.USub) else +made
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(op, self.value(left, env), self.value(right, env), e)
            case ast.BoolOp(op=op, values=values):
                return self._logic(isinstance(op, ast.And), [self.value(v, env) for v in values])
            case ast.Compare(left=left, ops=ops, comparators=others):
                sides = [self.value(side, env) for side in (left, *others)]
                tests = []
                for compare, a, b in zip(ops, sides, sides[1:], strict=False):
                    if type(compare) not in _COMPARE:
                        self.code.refuse(
                            e, "numbers are compared by <, <=, ==, !=, > and >=", "x == 1 or x == 2 for x in (1, 2)"
                        )
                    tests.append(_COMPARE[type(compare)](a, b))
                return self._logic(True, tests)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                p = self.value(test, env)
                if not isinstance(p, Cond):
                    return self.value(body if p else orelse, env)
                return self._chosen(p, self.value(body, env), self.value(orelse, env), e)
            case ast.Call(func=f, args=arguments, keywords=[]):
                return self._call(e, self.value(f, env), [self.value(a, env) for a in arguments])
        self.code.refuse(
            e, f"{type(e).__name__} is no expression on numbers", "numbers, names, operators, comparisons, calls"
        )

    def _logic(self, every: bool, parts: Sequence[Any]) -> Any:
        result = parts[0]
        for part in parts[1:]:
            if not isinstance(result, Cond) and not isinstance(part, Cond):
                result = (result and part) if every else (result or part)
            else:
                result = Cond.__and__(*_conditions(result, part)) if every else Cond.__or__(*_conditions(result, part))
        return result

    def _binary(self, op: ast.operator, a: Any, b: Any, at: ast.AST) -> Any:
        if type(op) not in _BINARY:
            self.code.refuse(at, f"{type(op).__name__} is no operation on numbers", "+ - * / ** and %")
        of_program = isinstance(a, Term | Idx) or isinstance(b, Term | Idx)
        if of_program and isinstance(op, ast.Pow) and isinstance(b, Term | Idx):
            return apply("power", a, b)
        if of_program and isinstance(op, ast.Mod):
            return apply("mod", a, b)
        if of_program and isinstance(op, ast.FloorDiv):
            return apply("floor", as_term(a) / b)
        return _BINARY[type(op)](a, b)

    def _call(self, at: ast.AST, f: Any, arguments: list[Any]) -> Any:
        of_program = any(isinstance(a, Term | Idx | Cond) for a in arguments)
        if f is range and of_program:
            raise _DataLoop
        if f is int and of_program:
            raise _DataLoop
        if f is range or not of_program:
            return f(*arguments)
        if isinstance(f, ScalarCode):
            return f(*arguments)
        if home(f) == "tensorlang":
            return f(*arguments)
        name = known_name(f)
        if f is math.log and len(arguments) == 2:
            return apply("log", arguments[0]) / apply("log", arguments[1])
        if name in ("max", "min") and len(arguments) > 2:
            return functools.reduce(lambda a, b: apply(name, a, b), arguments)
        if name == "where" and len(arguments) == 3:
            return where(*arguments)
        if name is not None and name in functions():
            return apply(name, *arguments)
        self.code.refuse(
            at,
            f"{getattr(f, '__name__', f)} is no function of numbers that is known",
            "@tl.scalar on its definition, or a function of tl, math, numpy or jax.numpy",
        )

    def _step(self) -> None:
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise LimitError(f"{self.code.body.__name__}: more than {MOST_STEPS:,} steps, its loops unrolled", here())


class _Missing:
    """The value of a name to which some path to here has assigned nothing."""

    def __init__(self, name: str) -> None:
        self.name = name


def _conditions(*parts: Any) -> tuple[Cond, Cond]:
    from tensorlang.surface.terms import as_cond

    a, b = (as_cond(part, "a part of `and` or `or`") for part in parts)
    return a, b


@overload
def scalar(body: Callable[..., Any], *, bound: int | None = None, mode: str = "auto") -> ScalarCode: ...
@overload
def scalar(*, bound: int | None = None, mode: str = "auto") -> Callable[[Callable[..., Any]], ScalarCode]: ...


def scalar(
    body: Callable[..., Any] | None = None, *, bound: int | None = None, mode: str = "auto"
) -> ScalarCode | Callable[[Callable[..., Any]], ScalarCode]:
    """The Python function `body` of numbers, to be called on values of programs, too: branches become conditions.

    It has assignments, if, elif and else, conditional expressions, and, or, not, comparisons and their chains, for
    loops over ranges, while, break, continue, early returns, several results as a tuple, calls of itself in tail
    position, and calls of other such functions and of functions of math, numpy and jax.numpy that the language has.
    What it closes over is read when it is called. A parameter that is annotated as `int` is a whole number, without a
    derivative.

    A loop over a range that is known is unrolled. With loops that data decide the function becomes one scalar function
    of the language, `plan` says how: `mode` "dual" carries all partial derivatives along with the value, "reverse"
    stores what the adjoint reads, for which every loop needs a bound; "auto" takes what costs less. With `bound`, the
    most trips of a loop, a result after more trips is nan, and so are its derivatives.

    Raises `TypeMismatch` at the line of anything else, `LimitError` if it gets too long.

    >>> @tl.scalar
    ... def cube(x):
    ...     return x * x * x
    >>> print(tl.function(lambda x: cube(x), x=tl.R).body)
    x * x * x
    """
    if body is None:
        return functools.partial(scalar, bound=bound, mode=mode)
    if mode not in ("auto", "dual", "reverse"):
        scope.refuse(f'mode is "auto", "dual" or "reverse", found {mode!r}', 'tl.scalar(mode="dual")')
    if bound is not None and (not isinstance(bound, int) or isinstance(bound, bool) or bound < 1):
        scope.refuse(f"bound is the most trips of a loop, found {bound!r}", "tl.scalar(bound=64)")
    if isinstance(body, ScalarCode):
        return body
    if not inspect.isfunction(body):
        scope.refuse(f"tl.scalar takes a Python function, found {body!r}", "@tl.scalar above def f(x): ..")
    return ScalarCode(body, bound, mode)
