"""Recurrences of several states, and backward ones, in terms of forward recurrences of one state.

word t:n with s0 = e0, s1 = e1 . e         word t:n with s = (e0, e1) . let s0 = fst s in let s1 = snd s in e
fold reversed t:n with s = e0 . e          fold t:n with s = e0 . [t := n - 1 - t] e
scan reversed t:n with s = e0 . e          let h = scan t:n with s = e0 . [t := n - 1 - t] e in gen t:n. h[n - 1 - t]
word t:n with s = e0 until c . e           word t:n with s = e0 . [c] * s + [not c] * e, element by element
states reversed t:n with s = e0 . e         let h = states t:n with s = e0 . [t := n - 1 - t] e in gen t:n + 1. h[n - t]
"""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakSet

from tensorlang.errors import TypeMismatch
from tensorlang.language.affine import Affine, Index, atom_affine
from tensorlang.language.grammar import (
    Access,
    Add,
    Apply,
    Bracket,
    Expr,
    Gen,
    Let,
    MakePair,
    Proj,
    Recur,
    Var,
    access,
    bracket,
)
from tensorlang.language.lets import under
from tensorlang.language.predicates import Predicate
from tensorlang.language.rebuilt import rewrite, with_atoms
from tensorlang.language.types import Array, Pair, R, Type


def recurrence(
    word: str, index: Index, size: Affine, states: Sequence[Var], inits: Sequence[Expr], step: Expr, backwards: bool
) -> Expr:
    """word index:size with these states . step, from the last step to the first if `backwards`.

    Several states, and the value for them, are pairs nested to the right. Raises `TypeMismatch` for a step whose value
    does not have the type of the states.
    """
    if len(states) == 1:
        (state,), (init,) = states, inits
    else:
        init = paired(inits)
        state = Var("_".join(s.name for s in states), init.type)
        step = under(zip(states, parted(state, len(states)), strict=True), step)
    if not backwards:
        return Recur(word, index, size, state, init, step)
    # the values compared in a condition are not in `step` yet, so nothing can be substituted
    _turned.add(index)
    turn = Index(index.name)
    e = Recur(word, turn, size, state, init, access(Gen(index, size, step), size - 1 - atom_affine(turn)))
    if word == "fold":
        return e
    at, whole = Index(index.name), Var(state.name, e.type)
    count = size + 1 if word == "states" else size
    return Let(whole, e, Gen(at, count, access(whole, count - 1 - atom_affine(at))))


def kept_where(states: Sequence[Var], p: Predicate, q: Predicate, step: Expr) -> Expr:
    """The `states` unchanged where `p` holds, and the next ones from `step` where its opposite `q` holds.

    Only the alternative that is taken is evaluated.
    """
    if len(states) == 1 and states[0].type is R:
        return Add(bracket(p, states[0]), bracket(q, step), 1)
    new = Var("next", step.type)
    if len(states) > 1:
        _require_parts(step.type, len(states))
    parts = [_kept(p, q, old, e) for old, e in zip(states, parted(new, len(states)), strict=True)]
    return Let(new, Bracket(q, step), paired(parts))


def _require_parts(kind: Type, count: int) -> None:
    """Raise `TypeMismatch` unless `kind` has that many parts."""
    whole = kind
    for _ in range(count - 1):
        if not isinstance(kind, Pair):
            raise TypeMismatch(f"a recurrence with {count} states is made as many by a step, found {whole}")
        kind = kind.second


def _kept(p: Predicate, q: Predicate, old: Expr, new: Expr) -> Expr:
    match old.type:
        case Array(size, _):
            i = Index("i")
            at = atom_affine(i)
            return Gen(i, size, _kept(p, q, access(old, at), access(new, at)))
        case Pair():
            return MakePair(*(_kept(p, q, Proj(k, old), Proj(k, new)) for k in range(2)))
        case _:
            return Add(bracket(p, old), bracket(q, new), 1)


WHOLE = "tl.normalize makes all passes together, and in the steps of recurrences, too"
"""The hint if a single pass of the normal form meets a recurrence."""


def whole_word(e: Recur | Apply) -> str:
    """The name, in messages, of a construct that a single pass can't handle."""
    return f"a {e.word}" if isinstance(e, Recur) else f"a call of {e.routine.name}"


_turned: WeakSet[Index] = WeakSet()
"""The indices of recurrences that go backwards."""


def straight(e: Expr) -> Expr:
    """`e`, a whole program, with accesses to the turned arrays of backward recurrences reduced."""

    def made(_: Expr, new: Expr) -> Expr:
        if isinstance(new, Access) and isinstance(new.body, Gen) and new.body.index in _turned:
            return with_atoms(new.body.body, {new.body.index: new.at})
        return new

    return rewrite(e, lambda _: None, made) if _turned else e


def paired(parts: Sequence[Expr]) -> Expr:
    """The parts as pairs nested to the right."""
    whole = parts[-1]
    for part in reversed(parts[:-1]):
        whole = MakePair(part, whole)
    return whole


def parted(e: Expr, count: int) -> list[Expr]:
    """The parts of pairs nested to the right."""
    found: list[Expr] = []
    for _ in range(count - 1):
        found.append(Proj(0, e))
        e = Proj(1, e)
    return [*found, e]
