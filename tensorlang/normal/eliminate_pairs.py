"""Figure 8: pairs remain only as projections of inputs and around the outputs.

    Le ::= let x = e in Le | Oe           Oe ::= (Oe, Oe) | e           Ie ::= fst Ie | snd Ie | x

    5.11  fst (e0, e1)   ->  e0                       5.14  fst (e[a])     ->  (fst e)[a]
    5.12  fst (gen i. e) ->  gen i. fst e             5.15  (e0, e1)[a]    ->  (e0[a], e1[a])
    5.13  gen i. (e0, e1) -> (gen i. e0, gen i. e1)   5.16  fst ([p]*e)    ->  [p] * fst e
                                                      5.17  [p]*(e0, e1)   ->  ([p]*e0, [p]*e1)
    5.18  let x = (a, b) in e  ->  let x0 = a in let x1 = b in [x := (x0, x1)] e

Read from the outside: a projection moves inwards (5.12, 5.14, 5.16) until it meets a pair (5.11) or an input. So
one function, `_part`, returns the part of an expression that a path of projections leads to; a value of pair type
is the tuple of its parts (5.13, 5.15, 5.17), and a let of such a value becomes one let for each part (5.18). An input
or output of type [n](T0, T1) becomes a pair of arrays, which is how its value is held anyway.
"""

from __future__ import annotations

from dataclasses import replace

from tensorlang.budget import limited
from tensorlang.errors import NormalFormError
from tensorlang.language.affine import IndexArray
from tensorlang.language.function import Function, Parameter
from tensorlang.language.grammar import (
    Access,
    Add,
    Apply,
    Bracket,
    Call,
    Choice,
    Compared,
    Const,
    Expr,
    Extremum,
    Gen,
    Integer,
    Let,
    MakePair,
    Mul,
    Proj,
    Recur,
    Sum,
    Var,
)
from tensorlang.language.lets import Binding, bindings, under
from tensorlang.language.recurrence import WHOLE, whole_word
from tensorlang.language.types import leaves, struct_of_arrays
from tensorlang.recursion import Deep, call, run

Path = tuple[int, ...]


@limited
def eliminate_pairs(f: Function) -> Function:
    """`f`, whose lets must be outermost, without pairs inside (5.11 to 5.18); the same meaning, at no more cost.

    Raises `NormalFormError` if a let is inside an expression.

    >>> f = tl.parse("f(x: R) = fst((x, x * x))")
    >>> print(tl.eliminate_pairs(f))
    f(x: R) = x
    """
    split = _Split()
    params: list[Parameter] = []
    for p in f.params:
        if not isinstance(p, Var):
            params.append(p)
            continue
        held = p if struct_of_arrays(p.type) is p.type else Var(p.name, struct_of_arrays(p.type))
        split.parts[p] = {path: _project(held, path) for path, _ in leaves(p.type)}
        params.append(held)
    made: list[Binding] = []
    given, body = bindings(f.body)
    for x, value in given:
        if isinstance(x, IndexArray):
            made.append((x, split.part(value, ())))
            continue
        split.parts[x] = {}
        for path, kind in leaves(x.type):
            part = Var(x.name + "".join(f"_{k}" for k in path), kind) if path else x
            made.append((part, split.part(value, path)))
            split.parts[x][path] = part
    return replace(f, params=tuple(params), body=under(made, split.tree(body)))


class _Split:
    def __init__(self) -> None:
        self.parts: dict[Var, dict[Path, Expr]] = {}
        self.done: dict[tuple[Expr, Path], Expr] = {}

    def part(self, e: Expr, path: Path) -> Expr:
        return run(self._part(e, path))

    def tree(self, e: Expr) -> Expr:
        """The pairs of the parts of an output (5.13, 5.15, 5.17)."""
        return run(self._tree(e))

    def _tree(self, e: Expr) -> Deep[Expr]:
        if isinstance(e, MakePair):  # by its sides: the paths to the leaves of a long tuple are as long
            return MakePair((yield from call(self._tree(e.first))), (yield from call(self._tree(e.second))))
        return _pairs([(path, self.part(e, path)) for path, _ in leaves(e.type)])

    def _part(self, e: Expr, path: Path) -> Deep[Expr]:
        if (e, path) not in self.done:
            self.done[e, path] = yield from call(self._rebuild(e, path))
        return self.done[e, path]

    def _rebuild(self, e: Expr, path: Path) -> Deep[Expr]:
        match e:
            case Var():
                return self.parts[e][path]
            case Const() | Integer():
                return e
            case Add(a, b, sign):
                return Add((yield from call(self._part(a, ()))), (yield from call(self._part(b, ()))), sign)
            case Mul(a, b):
                return Mul((yield from call(self._part(a, ()))), (yield from call(self._part(b, ()))))
            case Compared(op, a, b):
                return Compared(op, (yield from call(self._part(a, ()))), (yield from call(self._part(b, ()))))
            case Call(f, arguments):
                new = []
                for argument in arguments:
                    new.append((yield from call(self._part(argument, ()))))
                return Call(f, tuple(new))
            case MakePair(a, b):  # 5.11
                return (yield from call(self._part(b if path[0] else a, path[1:])))
            case Proj(which, a):
                return (yield from call(self._part(a, (which, *path))))
            case Gen(i, n, a):  # 5.12, 5.13
                return Gen(i, n, (yield from call(self._part(a, path))))
            case Sum(i, n, a):
                return Sum(i, n, (yield from call(self._part(a, path))))
            case Extremum(sign, i, n, p, a):
                return Extremum(sign, i, n, p, (yield from call(self._part(a, path))))
            case Choice(sign, i, n, p, a):
                return Choice(sign, i, n, p, (yield from call(self._part(a, path))))
            case Access(a, at, _):  # 5.14, 5.15
                return Access((yield from call(self._part(a, path))), at, None)
            case Bracket(p, a):  # 5.16, 5.17
                return Bracket(p, (yield from call(self._part(a, path))))
            case Recur() | Apply():
                raise NormalFormError(
                    f"pairs are eliminated in steps and between recurrences, found {whole_word(e)}", hint=WHOLE
                )
            case Let():
                raise NormalFormError("pairs are eliminated once lets are lifted; found a let inside an expression")


def _project(e: Expr, path: Path) -> Expr:
    for which in path:
        e = Proj(which, e)
    return e


def _pairs(parts: list[tuple[Path, Expr]]) -> Expr:
    """The tree of pairs with these leaves, in order."""
    stack: list[tuple[Path, Expr]] = []
    for leaf in parts:
        path, e = leaf
        while path and path[-1] == 1:
            _, first = stack.pop()
            path, e = path[:-1], MakePair(first, e)
        stack.append((path, e))
    return stack[-1][1]
