"""Figure 9: gen is outermost in every right-hand side.

    Le ::= let x = Ge in Le | Oe        Ge ::= gen i:n. Ge | e        Oe ::= (Oe, Oe) | Ge
    Ae ::= Ae[a] | x                    Ie ::= Ie[a] | fst Ie | snd Ie | x
    e has no gen, and accesses only an Ae or Ie

    5.21   (gen i:n. e)[a]  ->  [i := a] e               5.23   [p] * gen i. e   ->  gen i. [p] * e
    5.22   ([p]*e)[a]       ->  [p] * e[a]               5.24   [p0]*[p1]*e      ->  [p0 and p1] * e
    5.24'  sum i. [p] * sum j. [q] * e  ->  sum i, j. [p and q] * e

One function, `_at`, returns the element of an array expression at given places; each right-hand side then becomes the
gen of its element at fresh indices.
"""

from __future__ import annotations

from dataclasses import replace

from tensorlang.budget import limited
from tensorlang.errors import NormalFormError
from tensorlang.language.affine import Affine, Atom, Index, atom_affine
from tensorlang.language.function import Function
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
    access,
    bracket,
    gen,
    real,
)
from tensorlang.language.lets import bindings, under
from tensorlang.language.predicates import substitute
from tensorlang.language.recurrence import WHOLE, whole_word
from tensorlang.language.types import shape
from tensorlang.recursion import Deep, call, run


@limited
def push_out_gen(f: Function) -> Function:
    """`f`, which must be free of pairs inside, with gen outermost (5.21 to 5.24); the same meaning, at no more cost.

    Raises `NormalFormError` if a pair or a let is inside an expression.

    >>> f = tl.parse("f(x: [n]R) = let y = gen i:n. x[i] in sum i:n. y[i]")
    >>> print(tl.push_out_gen(f))
    f(x: [n]R) =
      let y = gen i:n. x[i] in
      sum i:n. y[i]
    """
    done: _Done = {}
    given, body = bindings(f.body)
    pushed = [(x, _pushed(value, done)) for x, value in given]
    return replace(f, body=under(pushed, run(_outputs(body, done))))


class _Env(dict[Atom, Affine]):
    """The values of indices; compared by identity, so that it can be part of a memo's key."""

    __hash__ = object.__hash__  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return self is other


_Done = dict[tuple[Expr, _Env, tuple[Affine, ...]], Expr]
_EMPTY = _Env()


def _outputs(e: Expr, done: _Done) -> Deep[Expr]:
    if isinstance(e, MakePair):
        return MakePair((yield from call(_outputs(e.first, done))), (yield from call(_outputs(e.second, done))))
    return _pushed(e, done)


def _pushed(e: Expr, done: _Done) -> Expr:
    sizes, _ = shape(e.type)
    binders = [(Index(name), size) for name, size in zip(_index_names(e, len(sizes)), sizes, strict=True)]
    return gen(binders, run(_at(e, _EMPTY, tuple(atom_affine(i) for i, _ in binders), done)))


def _index_names(e: Expr, rank: int) -> list[str]:
    names: list[str] = []
    while len(names) < rank and isinstance(e, Gen | Bracket):
        if isinstance(e, Gen):
            names.append(e.index.name)
        e = e.body
    return (
        names
        + [name for name in ("i", "j", "k", "l", *(f"i{n}" for n in range(rank))) if name not in names][
            : rank - len(names)
        ]
    )


def _at(e: Expr, env: _Env, at: tuple[Affine, ...], done: _Done) -> Deep[Expr]:
    """The element of `e` at `at`, with the values that `env` has for the indices."""
    key = (e, env, at)
    if key not in done:
        done[key] = yield from call(_element(e, env, at, done))
    return done[key]


def _element(e: Expr, env: _Env, at: tuple[Affine, ...], done: _Done) -> Deep[Expr]:
    match e:
        case Var():
            return access(e, *at)
        case Proj():
            if not _is_input(e):
                raise NormalFormError("gens are pushed out once pairs are eliminated; found a projection of no input")
            return access(e, *at)
        case Const():
            return e
        case Integer(value):
            return real(value.substitute(env))
        case Add(a, b, sign):
            return Add((yield from call(_at(a, env, (), done))), (yield from call(_at(b, env, (), done))), sign)
        case Mul(a, b):
            return Mul((yield from call(_at(a, env, (), done))), (yield from call(_at(b, env, (), done))))
        case Compared(op, a, b):
            return Compared(op, (yield from call(_at(a, env, (), done))), (yield from call(_at(b, env, (), done))))
        case Call(f, arguments):
            new = []
            for argument in arguments:
                new.append((yield from call(_at(argument, env, (), done))))
            return Call(f, tuple(new))
        case Gen(i, _, a):  # 5.21
            return (yield from call(_at(a, _extended(env, i, at[0]), at[1:], done)))
        case Sum(i, n, a):
            fresh = Index(i.name)
            body = yield from call(_at(a, _extended(env, i, atom_affine(fresh)), (), done))
            return Sum(fresh, n, _merged(body))
        case Extremum(sign, i, n, p, a) | Choice(sign, i, n, p, a):
            fresh = Index(i.name)
            inner = _extended(env, i, atom_affine(fresh))
            body = yield from call(_at(a, inner, (), done))
            made = Extremum if isinstance(e, Extremum) else Choice
            return made(sign, fresh, n, substitute(p, inner), body)
        case Access(a, place, _):
            return (yield from call(_at(a, env, (place.substitute(env), *at), done)))
        case Bracket(p, a):  # 5.22 to 5.24
            return bracket(substitute(p, env), (yield from call(_at(a, env, at, done))))
        case Recur() | Apply():
            raise NormalFormError(
                f"gens are pushed out in steps and between recurrences, found {whole_word(e)}", hint=WHOLE
            )
        case MakePair() | Let():
            raise NormalFormError("gens are pushed out once lets and pairs are gone; found one inside an expression")


def _merged(e: Expr) -> Expr:
    """5.24' for the body of a sum: a bracket over sums moves inside of them."""
    if not (isinstance(e, Bracket) and isinstance(e.body, Sum)):
        return e
    p, binders, inner = e.pred, [], e.body
    body: Expr = inner
    while isinstance(body, Sum):
        binders.append((body.index, body.size))
        body = body.body
    body = bracket(p, body)
    for index, size in reversed(binders):
        body = Sum(index, size, body)
    return body


def _extended(env: _Env, index: Index, value: Affine) -> _Env:
    extended = _Env(env)
    extended[index] = value
    return extended


def _is_input(e: Expr) -> bool:
    while isinstance(e, Proj):
        e = e.body
    return isinstance(e, Var)
