"""Recurrences of several states, and backwards ones, by those of one state that go forwards.

    word t:n with s0 = e0, s1 = e1 . e         word t:n with s = (e0, e1) . [s0 := fst s, s1 := snd s] e
    fold reversed t:n with s = e0 . e          fold t:n with s = e0 . [t := n - 1 - t] e
    scan reversed t:n with s = e0 . e          let h = scan t:n with s = e0 . [t := n - 1 - t] e in gen t:n. h[n - 1 - t]
    trace reversed t:n with s = e0 . e         let h = trace t:n with s = e0 . [t := n - 1 - t] e in gen t:n + 1. h[n - t]
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorlang.language.affine import Affine, Index, atom_affine
from tensorlang.language.grammar import Expr, Gen, Let, MakePair, Proj, Recur, Var, access
from tensorlang.language.rebuilt import replaced, with_atoms
from tensorlang.recursion import run


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
        step = run(replaced(step, dict(zip(states, parted(state, len(states)), strict=True)), {}))
    if not backwards:
        return Recur(word, index, size, state, init, step)
    turned = with_atoms(step, {index: size - 1 - atom_affine(index)}, {})
    e = Recur(word, index, size, state, init, run(turned))
    if word == "fold":
        return e
    at, whole = Index(index.name), Var(state.name, e.type)
    count = size + 1 if word == "trace" else size
    return Let(whole, e, Gen(at, count, access(whole, count - 1 - atom_affine(at))))


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

