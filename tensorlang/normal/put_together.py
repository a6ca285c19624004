"""A program's recurrences back in the core language.

    H = States(Loop(n, Step, S(e0), frees))    ->    let h = fold t:n with s = e0 . e1 in ..
    Y = Result(Application(r, b, S(gen b. e0), ..))    ->    let y = gen b. r(e0, ..) in ..

A recurrence that is read by more than one word (fold, scan, ..) becomes a trace.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tensorlang.errors import NormalFormError
from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Lookup, atom_affine, constant
from tensorlang.language.function import Function, taken_names, unused_name
from tensorlang.language.grammar import (
    Access,
    Apply,
    Bracket,
    Choice,
    Expr,
    Gen,
    MakePair,
    Proj,
    Recur,
    Var,
    access,
    bracket,
    gen,
)
from tensorlang.language.lets import Binding, bindings, under
from tensorlang.language.names import Named, free_names
from tensorlang.language.predicates import Predicate, less
from tensorlang.language.rebuilt import rewrite, with_atoms, with_values
from tensorlang.language.recurrence import paired, parted
from tensorlang.language.types import leaves
from tensorlang.normal.recurrences import (
    Apart,
    step_ssa,
)
from tensorlang.normal.ssa import (
    SSA,
    Application,
    Loop,
)
from tensorlang.sets.solve import simplify_in


def put_together(g: Function, d: Apart, program: Callable[[SSA], Function]) -> Function:
    """`g`, a transformed `d.s`, with the recurrences of `d` put back; `program` turns their steps into programs.

    A recurrence that is read by more than one word becomes a trace.
    """
    if not d.loops:
        return g
    bound, body = bindings(g.body)
    assert isinstance(body, MakePair)
    held = {x.name: x for x in g.params if isinstance(x, Var)}
    read = _leaves(body.second, sum(len(loop.operands) for loop in d.loops))
    words: dict[int, set[str]] = {}
    for k, _, word in d.given.values():
        words.setdefault(k, set()).add(word)
    taken = taken_names(g) | {x.name for x, _ in bound}
    named: list[tuple[Var, Expr]] = []
    for k, loop in enumerate(d.loops):
        own, read = read[: len(loop.operands)], read[len(loop.operands) :]
        if isinstance(loop, Application):
            value, lets = _application(loop, own)
            x = Var(unused_name(loop.routine.name, taken), value.type)
            taken.add(x.name)
            named.append((x, value))
            bound += [*lets, (x, value)]
            continue
        word = next(iter(words[k])) if len(words[k]) == 1 else "states"
        recur, lets = _recur(loop, word, own, program)
        x = Var(unused_name(recur.state.name, taken), recur.type)
        taken.add(x.name)
        named.append((x, recur))
        bound += [*lets, (x, recur)]
    values: dict[Var, Expr] = {}
    for stands, (k, place, word) in d.given.items():
        x, value = named[k]
        whole = d.loops[k]
        if isinstance(whole, Loop):
            assert isinstance(value, Recur)
            values[held[stands.param.name]] = _states_of(x, value, place, word, len(whole.inits))
        else:
            values[held[stands.param.name]] = _result_of(x, whole, place)
    memo: dict[Expr, Expr] = {}
    ordered = in_order([(x, _reading(e, values, memo)) for x, e in bound])
    result = _choosing_once(ordered, _reading(body.first, values, memo))
    return replace(g, params=tuple(p for p in g.params if p not in values), body=result)


_MOST_NAMED = 3
"""How many states of a recurrence give it its name."""


def _recur(
    loop: Loop, word: str, read: Sequence[Expr], program: Callable[[SSA], Function]
) -> tuple[Recur, list[Binding]]:
    """The recurrence, and the lets that it needs before it."""
    step = loop.step
    count = len(loop.inits)
    init = paired(read[:count])
    stems = list(dict.fromkeys(re.sub(r"_?\d+$", "", x.name) or x.name for x in step.states))
    state = Var("_".join(stems[:_MOST_NAMED]), init.type)
    lets: list[Binding] = []
    values: dict[Var, Expr] = dict(zip(step.states, parted(state, count), strict=True))
    for x, e in zip(step.frees, read[count:], strict=True):
        values[x] = e
        if not _is_name(e):
            values[x] = named = Var(x.name, e.type)
            lets.append((named, e))
    index = Index(step.time.name)
    body = with_values(program(step_ssa(step)).body, values)
    body = with_atoms(body, {Lookup(step.time, ()): atom_affine(index)})
    chosen, body = _chosen_once(body, {state, index}, less(constant(0), loop.size))
    return Recur(word, index, loop.size, state, init, body), [*lets, *chosen]


def _chosen_once(step: Expr, own: set[Named], some: Predicate) -> tuple[list[Binding], Expr]:
    """The choices of a step that don't depend on its `own` state and time, with what they read, and the step without
    them: they are made once, if there are `some` steps."""
    inside, body = bindings(step)
    free: list[Binding] = []
    for x, e in inside:
        if own.isdisjoint(free_names(e)):
            free.append((x, e))
        else:
            own.add(x)
    wanted: set[Named] = set()
    once: list[Binding] = []
    for x, e in reversed(free):
        if x in wanted or isinstance(_element(e), Choice):
            wanted.update(free_names(e))
            once.append((x, _under(some, e, {})))
    left = [(x, e) for x, e in inside if all(x is not y for y, _ in once)]
    return once[::-1], under(left, body)


def _choosing_once(lets: Sequence[Binding], body: Expr) -> Expr:
    """`body` under the `lets`, of which equal choices are one."""
    first: dict[Expr, IndexArray] = {}
    alike: dict[Atom, Affine] = {}
    kept: list[Binding] = []
    for x, e in lets:
        value = with_atoms(e, alike) if alike else e
        if isinstance(x, IndexArray) and (same := first.setdefault(value, x)) is not x:
            alike[Lookup(x, ())] = atom_affine(Lookup(same, ()))
        else:
            kept.append((x, value))
    return under(kept, with_atoms(body, alike) if alike else body)


def _element(e: Expr) -> Expr:
    """The elements of an array of choices."""
    while isinstance(e, Gen | Bracket):
        e = e.body
    return e


def _under(p: Predicate, e: Expr, ranges: dict[Index, Affine]) -> Expr:
    """`e`, whose elements, for indices with these ranges, are 0 unless `p` holds."""
    if isinstance(e, Gen):
        return Gen(e.index, e.size, _under(p, e.body, {**ranges, e.index: e.size}))
    return bracket(simplify_in(p, ranges), e)


def _application(a: Application, read: Sequence[Expr]) -> tuple[Expr, list[Binding]]:
    """gen b. r(x0[b], x1, ..), and the lets that it needs before it."""
    binders = [(Index(f"b{k}" if k else "b"), size) for k, size in enumerate(a.batch)]
    places = [atom_affine(index) for index, _ in binders]
    lets: list[Binding] = []
    arguments: list[Expr] = []
    for p, e, along in zip(a.routine.params, read, a.mapped, strict=True):
        held = e
        if along and not _is_name(e):
            held = Var(p.name, e.type)
            lets.append((held, e))
        arguments.append(access(held, *places) if along else e)
    return gen(binders, Apply(a.routine, tuple(arguments))), lets


def _result_of(x: Var, a: Application, place: int) -> Expr:
    """The array in one `place` of the result of the application that `x` names."""
    binders = [(Index(f"b{k}" if k else "b"), size) for k, size in enumerate(a.batch)]
    path, _ = leaves(a.type)[place]
    if not path:
        return x
    part = access(x, *(atom_affine(index) for index, _ in binders))
    for which in path:
        part = Proj(which, part)
    return gen(binders, part)


def _is_name(e: Expr) -> bool:
    while isinstance(e, Proj):
        e = e.body
    return isinstance(e, Var)


def _leaves(e: Expr, count: int) -> list[Expr]:
    found: list[Expr] = []
    for _ in range(count - 1):
        assert isinstance(e, MakePair)
        found.append(e.first)
        e = e.second
    return [*found, e]


def _states_of(x: Var, recur: Recur, place: int, word: str, count: int) -> Expr:
    """The states in one `place` of the recurrence that `x` names, read as `word` says; a gen unless `x` has them
    alone."""
    if word == "fold":
        return parted(access(x, recur.size) if recur.word == "states" else x, count)[place]
    if recur.word == word and count == 1:
        return x
    t = Index(recur.index.name)
    at = atom_affine(t) + (1 if recur.word == "states" and word == "scan" else 0)
    size = recur.size + 1 if word == "states" else recur.size
    return Gen(t, size, parted(access(x, at), count)[place])


def _reading(e: Expr, values: Mapping[Var, Expr], memo: dict[Expr, Expr]) -> Expr:
    """`e` with variables replaced by these values, and accesses to gens that this creates reduced."""

    def made(old: Expr, new: Expr) -> Expr:
        if new is not old and isinstance(new, Access) and isinstance(new.body, Gen):
            return with_atoms(new.body.body, {new.body.index: new.at})
        return new

    return rewrite(e, lambda old: values.get(old) if isinstance(old, Var) else None, made, memo)


def in_order(lets: Sequence[Binding]) -> list[Binding]:
    """The bindings, reordered so that each comes after those that it reads."""
    bound = {x for x, _ in lets}
    found: list[tuple[Var | IndexArray, Expr]] = []
    done: set[object] = set()
    left = [(x, e, [y for y in free_names(e) if y in bound]) for x, e in lets]
    while left:
        later = []
        for x, e, before in left:
            if all(y in done for y in before):
                found.append((x, e))
                done.add(x)
            else:
                later.append((x, e, before))
        if len(later) == len(left):
            raise NormalFormError("a value depends on itself")
        left = later
    return found
