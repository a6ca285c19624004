"""Recurrences of several states, and backwards ones, by those of one state that go forwards.

word t:n with s0 = e0, s1 = e1 . e         word t:n with s = (e0, e1) . let s0 = fst s in let s1 = snd s in e
fold reversed t:n with s = e0 . e          fold t:n with s = e0 . [t := n - 1 - t] e
scan reversed t:n with s = e0 . e          let h = scan t:n with s = e0 . [t := n - 1 - t] e in gen t:n. h[n - 1 - t]
states reversed t:n with s = e0 . e         let h = states t:n with s = e0 . [t := n - 1 - t] e in gen t:n + 1. h[n - t]
"""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakSet

from tensorlang.language.affine import Affine, Index, atom_affine
from tensorlang.language.grammar import Access, Expr, Gen, Let, MakePair, Proj, Recur, Var, access
from tensorlang.language.rebuilt import rewrite, with_atoms


def recurrence(
    word: str, index: Index, size: Affine, states: Sequence[Var], inits: Sequence[Expr], step: Expr, backwards: bool
) -> Expr:
    """word index:size with these states . step, from the last step to the first if it goes `backwards`.

    Several states are the parts of pairs that are nested to the right; so is the value. Raises `TypeMismatch` for a
    step whose value has not the type of the states.
    """
    if len(states) == 1:
        (state,), (init,) = states, inits
    else:
        init = paired(inits)
        state = Var("_".join(s.name for s in states), init.type)
        for s, part in reversed(list(zip(states, parted(state, len(states)), strict=True))):
            step = Let(s, part, step)
    if not backwards:
        return Recur(word, index, size, state, init, step)
    # what a condition compares is not in `step` yet, so nothing can be substituted
    _turned.add(index)
    turn = Index(index.name)
    e = Recur(word, turn, size, state, init, access(Gen(index, size, step), size - 1 - atom_affine(turn)))
    if word == "fold":
        return e
    at, whole = Index(index.name), Var(state.name, e.type)
    count = size + 1 if word == "states" else size
    return Let(whole, e, Gen(at, count, access(whole, count - 1 - atom_affine(at))))


WHOLE = "tl.normalize makes all passes together, and in the steps of recurrences, too"
"""What to do where a single pass of the normal form meets a recurrence."""

_turned: WeakSet[Index] = WeakSet()
"""The indices of recurrences that go backwards."""


def straight(e: Expr) -> Expr:
    """`e`, a whole program, whose backward recurrences read their steps at the time that it is there."""

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
