"""Python functions with data-dependent loops, read as the SSA form of `tensorlang.scalars`.

A `return`, `break` or `continue` sets a flag, and the following statements run where it is not set; so a function has
one end. Names assigned in a side of a branch or the body of a loop become phis or carried values; a call of itself in
tail position becomes a loop. Numbers of the caller become constants of the form, and values of a program its
parameters, including those that the function closes over.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tensorlang.scalars.code import Code, Stmt, Value, While, renamed
from tensorlang.scalars.flags import with_flags, without_flags
from tensorlang.surface.known import FromSource
from tensorlang.surface.loop_expressions import MISSING, MOST_STATEMENTS, OVER, Env, Missing
from tensorlang.surface.loop_paths import FLAGS, LEFT, NEXT, RETURNED, Paths, assigned, exits_by, told
from tensorlang.surface.tail_calls import calls_itself, without_tail_calls
from tensorlang.surface.terms import Idx, Term, as_term

_UNROLLED = 64
_MOST_INLINED = 40


@dataclass(frozen=True)
class ReadFunction:
    """A function as code, and the values of the program that are its arguments."""

    code: Code
    arguments: tuple[Term, ...]


def read(function: FromSource, arguments: dict[str, Any], bound: int | None) -> ReadFunction:
    """The code of `function` called with these arguments. Raises `TypeMismatch` at the line of a refused construct."""
    return _Reader(function, bound).read(arguments)


class _Reader(Paths):
    def read(self, arguments: dict[str, Any]) -> ReadFunction:
        env: Env = {}
        given: list[Term] = []
        for name, v in arguments.items():
            if isinstance(v, Term | Idx):
                param = self.new_parameter(name, name in self.function.whole or isinstance(v, Idx))
                env[name] = param
                given.append(as_term(v))
            else:
                env[name] = v
        out: list[Stmt] = []
        env[OVER] = False
        result = self.call(self.function, env, out, self.function.tree)
        results = result if isinstance(result, tuple) else (result,)
        for v in results:
            if not isinstance(v, str | int | float):
                self.function.refuse(self.function.tree, "it returns something that is no number", "return numbers")
        numbers = tuple(self.number(v, out) for v in results)
        code = Code(
            self.function.name,
            tuple(self.params),
            tuple(out),
            numbers,
            frozenset(self.whole),
            self.over,
        )
        code = with_flags(without_flags(code))
        return ReadFunction(code, (*given, *self.lifted.values()))

    # statements

    def call(self, function: FromSource, env: Env, out: list[Stmt], at: ast.AST) -> Any:
        """What `function` returns for the arguments in `env`."""
        if self.depth > _MOST_INLINED:
            function.refuse(at, "functions that call one another without end", "a loop")
        self.depth += 1
        before = self.function, self.names
        self.function, self.names = function, function.outside()
        tree = function.tree
        if calls_itself(tree):
            tree = without_tail_calls(tree, function.refuse)
        over = env.pop(OVER, False)
        own: Env = {**env, RETURNED: False, LEFT: False, NEXT: False, OVER: over}
        self.block(tree.body, own, out)
        if own[RETURNED] is not True:
            function.refuse(tree, "a path through it returns nothing", "return a number at its end")
        self.function, self.names = before
        self.depth -= 1
        self.over = own[OVER]
        return own["$result"]

    def block(self, statements: Sequence[ast.stmt], env: Env, out: list[Stmt]) -> None:
        """Read statements up to one by which control leaves; `env` is changed."""
        for k, s in enumerate(statements):
            self.count()
            match s:
                case ast.Return(value=None):
                    self.function.refuse(s, "it returns nothing", "return a number")
                case ast.Return(value=e) if e is not None:
                    env["$result"] = self.value(e, env, out)
                    env[RETURNED] = True
                    return
                case ast.Break():
                    env[LEFT] = True
                    return
                case ast.Continue():
                    env[NEXT] = True
                    return
                case ast.Assign(targets=targets, value=e):
                    made = self.value(e, env, out)
                    for target in targets:
                        self._assign(target, made, env)
                case ast.AnnAssign(target=target, value=e) if e is not None:
                    self._assign(target, self.value(e, env, out), env)
                case ast.AugAssign(target=ast.Name(id=name) as target, op=op, value=e):
                    old = self.value(ast.copy_location(ast.Name(name, ast.Load()), target), env, out)
                    env[name] = self.binary(op, old, self.value(e, env, out), s, out)
                case ast.Expr(value=ast.Constant()) | ast.Pass():
                    pass
                case ast.If(test=test, body=body, orelse=orelse):
                    p = self.truth(self.value(test, env, out), out)
                    if isinstance(p, bool):
                        self.block(body if p else orelse, env, out)
                        if self.gone(env) is True:
                            return
                        if self.gone(env) is not False:
                            self._rest(statements[k + 1 :], env, out)
                            return
                        continue
                    if self._branch(p, body, orelse, statements[k + 1 :], env, out):
                        return
                case ast.While(test=test, body=body, orelse=[]):
                    self._while(s, test, body, env, out)
                    if self._after(statements[k + 1 :], env, out):
                        return
                case ast.For(target=target, iter=iterated, body=body, orelse=[]):
                    self._for(s, target, iterated, body, env, out)
                    if self._after(statements[k + 1 :], env, out):
                        return
                case _:
                    hint = "assignments, if, for, while, break, continue and return"
                    if isinstance(s, ast.Raise):
                        hint = "return math.nan where there is no value"
                    self.function.refuse(s, f"{type(s).__name__} is no statement on numbers", hint)

    def _after(self, rest: Sequence[ast.stmt], env: Env, out: list[Stmt]) -> bool:
        gone = self.gone(env)
        if gone is False:
            return False
        if gone is not True:
            self._rest(rest, env, out)
        return True

    def _rest(self, rest: Sequence[ast.stmt], env: Env, out: list[Stmt]) -> None:
        """Read the statements of `rest`, to be run where control has not left."""
        flags = self.gone(env)
        gone = functools.reduce(lambda a, b: self.op("or", (a, b), out), flags)
        one, other = dict(env), dict(env)
        then, otherwise = list[Stmt](), list[Stmt]()
        other.update(dict.fromkeys(FLAGS, False))
        told(one)
        self.block(rest, other, otherwise)
        self.join(gone, one, other, then, otherwise, env, out, left=(True, self.gone(other) is True))

    def _branch(
        self,
        p: Value,
        body: Sequence[ast.stmt],
        orelse: Sequence[ast.stmt],
        rest: Sequence[ast.stmt],
        env: Env,
        out: list[Stmt],
    ) -> bool:
        """Read an `if` on a value; return whether `rest` has been read along with it."""
        one, other = dict(env), dict(env)
        then: list[Stmt] = []
        otherwise: list[Stmt] = []
        self.block(body, one, then)
        self.block(orelse, other, otherwise)
        gone = self.gone(one), self.gone(other)
        done = False
        if gone[0] is True and gone[1] is False:
            self.block(rest, other, otherwise)
            done = True
        elif gone[1] is True and gone[0] is False:
            self.block(rest, one, then)
            done = True
        left = self.gone(one) is True, self.gone(other) is True
        self.join(p, one, other, then, otherwise, env, out, left)
        if done:
            return True
        return self._after(rest, env, out)

    def _for(
        self,
        at: ast.For,
        target: ast.expr,
        iterated: ast.expr,
        body: Sequence[ast.stmt],
        env: Env,
        out: list[Stmt],
    ) -> None:
        data = isinstance(iterated, ast.Call) and isinstance(iterated.func, ast.Name) and iterated.func.id == "range"
        if data and isinstance(iterated, ast.Call) and self.names.get("range") is range and "range" not in env:
            parts = [self.value(a, env, out) for a in iterated.args]
            if any(isinstance(v, str) for v in parts):
                self._counted(at, target, parts, body, env, out)
                return
            if any(not isinstance(v, int) for v in parts) or not parts:
                self.function.refuse(at, "a range is of whole numbers", "for k in range(5): ..")
            values: Any = range(*parts)
        else:
            values = self.value(iterated, env, out)
        if not isinstance(values, range | tuple | list):
            self.function.refuse(at, "a loop is over a range of whole numbers", "for k in range(5): ..")
        nodes = sum(1 for s in body for _ in ast.walk(s))
        exits = exits_by(body, (ast.Return, ast.Break, ast.Continue))
        subscripts = any(isinstance(n, ast.Subscript) for s in body for n in ast.walk(s))
        few = len(values) <= 2 or (not exits and len(values) * nodes <= 40 * _UNROLLED)
        if isinstance(values, range) and not few and not subscripts:
            self._counted(at, target, [values.start, values.stop, values.step], body, env, out, len(values))
            return
        self._unrolled(target, list(values), body, env, out)
        env[LEFT] = False

    def _unrolled(
        self, target: ast.expr, values: list[Any], body: Sequence[ast.stmt], env: Env, out: list[Stmt]
    ) -> None:
        for k, v in enumerate(values):
            self._assign(target, v, env)
            self.block(body, env, out)
            env[NEXT] = False
            gone = self.gone(env)
            if gone is True:
                return
            if gone is not False:
                flag = functools.reduce(lambda a, b: self.op("or", (a, b), out), gone)
                other, otherwise = {**env, **dict.fromkeys(FLAGS, False)}, list[Stmt]()
                self._unrolled(target, values[k + 1 :], body, other, otherwise)
                one = dict(env)
                told(one)
                self.join(flag, one, other, [], otherwise, env, out, (True, self.gone(other) is True))
                return

    def _counted(
        self,
        at: ast.For,
        target: ast.expr,
        parts: Sequence[Value],
        body: Sequence[ast.stmt],
        env: Env,
        out: list[Stmt],
        trips: int | None = None,
    ) -> None:
        """Read a loop over a range that is data-dependent or long."""
        low, high, step = (0, parts[0], 1) if len(parts) == 1 else (*parts, 1) if len(parts) == 2 else parts
        if isinstance(step, str) or not step:
            self.function.refuse(at, "the step of a range is a number other than 0", "range(0, n, 2)")
        for v in (low, high):
            if self.kind(v) is not int:
                self.function.refuse(
                    at,
                    "a range is of whole numbers, found a number that data may make anything",
                    "int(x), or a parameter that is annotated: n: int",
                )
        index = "$index" + str(self.size)
        env[index] = low
        names = [ast.Name(index, ast.Load()), ast.Constant(step)]
        env["$high" + index] = high
        compare: ast.cmpop = ast.Lt() if step > 0 else ast.Gt()
        test = ast.Compare(ast.Name(index, ast.Load()), [compare], [ast.Name("$high" + index, ast.Load())])
        first = ast.Assign([target], ast.Name(index, ast.Load()))
        second = ast.Assign([ast.Name(index, ast.Store())], ast.BinOp(names[0], ast.Add(), names[1]))
        for node in (test, first, second):
            ast.copy_location(node, at)
            ast.fix_missing_locations(node)
        self._while(at, test, [first, second, *body], env, out, trips)
        env.pop(index, None)
        env.pop("$high" + index, None)

    def _while(
        self,
        at: ast.AST,
        test: ast.expr,
        body: Sequence[ast.stmt],
        env: Env,
        out: list[Stmt],
        trips: int | None = None,
    ) -> None:
        exits = exits_by(body, (ast.Return, ast.Break, ast.Continue))
        if not exits and trips is None:
            done = 0
            while True:  # as long as the condition is known
                scratch: list[Stmt] = []
                p = self.truth(self.value(test, dict(env), scratch), scratch)
                if p is False:
                    return
                if not isinstance(p, bool) or done > MOST_STATEMENTS // 10:
                    break
                if p is True and isinstance(test, ast.Constant):
                    self.function.refuse(at, "a loop without an end", "while with a condition, break or return")
                self.block(body, env, out)
                done += 1
        names = [*assigned(body), OVER]
        if exits_by(body):
            names += [RETURNED, "$result"]
        if exits_by(body, (ast.Break,)):
            names.append(LEFT)
        kinds: dict[str, type] = {}
        arity = self._arity()
        if "$result" in names and "$result" not in env:
            env["$result"] = tuple(0.0 for _ in range(arity)) if arity > 1 else 0.0
        while True:
            found = self._loop(test, body, names, dict(env), kinds, trips)
            if found is not None:
                break
        loop, after, broken = found
        out.append(loop)
        env.update(after)
        if loop.over:
            env[OVER] = self.op("or", (env[OVER], loop.over), out)
        env[NEXT] = False
        # an endless loop without break is left by return alone
        endless = isinstance(test, ast.Constant) and bool(test.value) and not broken
        if endless and exits_by(body):
            env[RETURNED] = True
        env[LEFT] = False
        for name in assigned(body):
            if name not in after:
                env[name] = MISSING

    def _arity(self) -> int:
        for node in ast.walk(self.function.tree):
            if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
                return len(node.value.elts)
        return 1

    def _loop(
        self,
        test: ast.expr,
        body: Sequence[ast.stmt],
        names: Sequence[str],
        env: Env,
        kinds: dict[str, type],
        trips: int | None,
    ) -> tuple[While, Env, bool] | None:
        """The loop, the values of names after it, and whether a `break` can be reached; None if the type of a carried
        value changes, which is then noted in `kinds`."""
        flat: list[tuple[str, int | None]] = []
        for name in dict.fromkeys(names):
            v = env.get(name, MISSING)
            if isinstance(v, tuple):
                flat += [(name, k) for k in range(len(v))]
            elif isinstance(v, str | int | float):
                flat.append((name, None))

        def part(e: Env, name: str, k: int | None) -> Any:
            v = e.get(name, MISSING)
            return v if k is None else v[k]

        def key(name: str, k: int | None) -> str:
            return name if k is None else f"{name},{k}"

        inits: list[Value] = [part(env, name, k) for name, k in flat]
        carried: list[str] = []
        for (name, k), v in zip(flat, inits, strict=True):
            made = self.fresh.new(name.strip("$_") or "v")
            self.kinds[made] = kinds.get(key(name, k), self.kind(v))
            carried.append(made)
        inner = dict(env)

        def put(e: Env, values: Sequence[Value]) -> None:
            for name in dict.fromkeys(n for n, _ in flat):
                own = [v for (n, _), v in zip(flat, values, strict=True) if n == name]
                e[name] = tuple(own) if isinstance(env[name], tuple) else own[0]

        put(inner, carried)
        head: list[Stmt] = []
        p = self.truth(self.value(test, dict(inner), head), head)
        for flag in (RETURNED, LEFT):
            if flag in names:
                holds = self.op("not", (inner[flag],), head)
                p = holds if p is True else self.op("and", (holds, p), head)
        start = dict(inner)
        for flag in FLAGS:
            start[flag] = False
        made_body: list[Stmt] = []
        self.block(body, start, made_body)
        broken = start[LEFT] is not False
        nexts: list[Value] = []
        for (name, k), c in zip(flat, carried, strict=True):
            v = part(start, name, k)
            if isinstance(v, Missing) or not isinstance(v, str | int | float):
                if self.gone(start) is True or name == "$result":
                    v = c
                else:
                    self.function.refuse(
                        self.function.tree,
                        f"{name.strip('$')} has no value on every path of a loop",
                        f"give {name} one",
                    )
            kind = self.kind(v)
            if kind is not self.kinds[c]:
                order = [bool, int, float]
                wider = max(kind, self.kinds[c], key=order.index)
                if wider is not self.kinds[c]:
                    kinds[key(name, k)] = wider
                    return None
                if kind is bool:
                    v = self.number(v, made_body)
            nexts.append(v)
        # names that a loop does not change are not carried
        keep = [j for j, v in enumerate(nexts) if v != carried[j] and not _same(v, inits[j])]
        outs = [self.fresh.new(carried[j]) for j in keep]
        for j, name_out in zip(keep, outs, strict=True):
            self.kinds[name_out] = self.kinds[carried[j]]
        bound = trips if trips is not None else self.bound
        over = self.fresh.new("over") if trips is None and self.bound is not None else ""
        same = {carried[j]: inits[j] for j in range(len(carried)) if j not in keep}
        loop = While(
            tuple(outs),
            tuple(carried[j] for j in keep),
            tuple(inits[j] for j in keep),
            renamed(head, same),
            same.get(p, p) if isinstance(p, str) else p,
            renamed(made_body, same),
            tuple(same.get(v, v) if isinstance(v, str) else v for v in (nexts[j] for j in keep)),
            bound,
            over,
        )
        values = [inits[j] for j in range(len(carried))]
        for j, name_out in zip(keep, outs, strict=True):
            values[j] = name_out
        after: Env = {}
        put(after, values)
        if over:
            self.kinds[over] = bool
        return loop, after, broken

    def _assign(self, target: ast.expr, value: Any, env: Env) -> None:
        match target:
            case ast.Name(id=name):
                env[name] = value
            case ast.Tuple(elts=targets) if isinstance(value, tuple | list) and len(value) == len(targets):
                for one, part in zip(targets, value, strict=True):
                    self._assign(one, part, env)
            case _:
                self.function.refuse(target, "only names are assigned to", "a, b = b, a assigns to several")


def _same(v: Value, w: Value) -> bool:
    """Whether both are the same constant."""
    return not isinstance(v, str) and not isinstance(w, str) and type(v) is type(w) and v == w
