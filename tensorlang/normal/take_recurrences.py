"""A program's recurrences as statements of tensor SSA, from the core language.

    let h = fold t:n with s = e0 . e1 in ..    ->    H = States(Loop(n, Step, S(e0), frees))
    let y = gen b. r(e0, ..) in ..             ->    Y = Result(Application(r, b, S(gen b. e0), ..))

The steps are programs of canonical variables, so steps of the same form are one object.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tensorlang.language.affine import Affine, Index, IndexArray, Lookup, atom_affine
from tensorlang.language.function import Function
from tensorlang.language.grammar import (
    Apply,
    Expr,
    Gen,
    Let,
    MakePair,
    Recur,
    Var,
    access,
    gen,
)
from tensorlang.language.lets import Binding, bindings, under
from tensorlang.language.names import free_names
from tensorlang.language.predicates import Relation
from tensorlang.language.rebuilt import height, with_atoms, with_values
from tensorlang.language.recurrence import paired
from tensorlang.language.types import Pair, Type, leaves, shape
from tensorlang.normal.recurrences import (
    Maker,
    Normal,
    canonical_time,
    canonical_variable,
    choices_of,
    with_loops,
)
from tensorlang.normal.ssa import (
    SSA,
    Application,
    Input,
    Loop,
    LoopStep,
    Statement,
    output_list,
)
from tensorlang.normal.traces import without_traces


@dataclass(frozen=True, eq=False)
class Taken:
    """The recurrence, or the call of a routine, bound by the let of `var`. `read` has its operands: for a recurrence
    the first states and then the `frees`."""

    var: Var
    value: Expr
    frees: tuple[Var, ...]
    read: tuple[Expr, ...]


def normal_with_recurrences(f: Function, normal: Normal, flat: Normal) -> SSA:
    """The SSA of `f`, whose lets are outermost. `normal` makes SSA of steps, `flat` of programs without recurrences."""
    lets, body = bindings(f.body)
    taken = [_taken(x, e, lets) for x, e in lets if _is_whole(e) and isinstance(x, Var)]
    read = [e for t in taken for e in t.read]
    outer = under([(x, e) for x, e in lets if not _is_whole(e)], MakePair(body, paired(read)))
    known = [p for p in f.params if p not in {t.var for t in taken}]
    s = flat(Function(f.name, (*known, *(t.var for t in taken)), outer, None))
    held = s.params[len(known) :]
    given: dict[Input, tuple[int, int, str]] = {}
    makers: list[Maker] = []
    for k, (t, var) in enumerate(zip(taken, held, strict=True)):
        assert isinstance(var, Var)
        for place, (path, kind) in enumerate(leaves(var.type)):
            word = t.value.word if isinstance(t.value, Recur) else "fold"
            given[Input(var, path, shape(kind)[0])] = (k, place, word)
        makers.append(_maker(t, normal))
    assert isinstance(s.outputs, tuple)
    made = without_traces(with_loops(replace(s, outputs=s.outputs[0]), s.outputs[1], makers, given))
    return replace(made, params=tuple(s.params[: len(known)]), results=f.results)


def _is_whole(e: Expr) -> bool:
    """Whether `e`, the value of a let, is a recurrence or a call of a routine, perhaps within gens."""
    while isinstance(e, Gen):
        e = e.body
    return isinstance(e, Recur | Apply)


def _called(e: Expr) -> tuple[list[tuple[Index, Affine]], Apply]:
    """The gens around a call of a routine, and the call."""
    binders: list[tuple[Index, Affine]] = []
    while isinstance(e, Gen):
        binders.append((e.index, e.size))
        e = e.body
    assert isinstance(e, Apply)
    return binders, e


def _is_mapped(e: Expr, binders: Sequence[tuple[Index, Affine]]) -> bool:
    own = set(free_names(e))
    return any(index in own for index, _ in binders)


def _taken(x: Var, e: Expr, lets: Sequence[Binding]) -> Taken:
    if not isinstance(e, Recur):
        binders, call = _called(e)
        read = [gen(binders, part) if _is_mapped(part, binders) else part for part in call.arguments]
        return Taken(x, e, (), tuple(read))
    chosen = {y: value for y, value in lets if isinstance(y, IndexArray)}
    step = e.step
    while arrays := [y for y in free_names(step) if isinstance(y, IndexArray) and y in chosen]:
        own = IndexArray(arrays[0].name, arrays[0].sizes, arrays[0].size)
        at = Lookup(arrays[0], ())
        step = Let(own, chosen[arrays[0]], with_atoms(step, {at: atom_affine(Lookup(own, ()))}))
    e = Recur(e.word, e.index, e.size, e.state, e.init, step)
    frees = tuple(y for y in free_names(step) if isinstance(y, Var) and y is not e.state)
    return Taken(x, e, frees, (e.init, *frees))


def _maker(taken: Taken, normal: Normal) -> Maker:
    e = taken.value
    if not isinstance(e, Recur):
        binders, call = _called(e)
        batch = tuple(size for _, size in binders)
        mapped = tuple(_is_mapped(part, binders) for part in call.arguments)
        return len(mapped), lambda read: Application(call.routine, batch, mapped, tuple(read))
    counts = [len(leaves(part.type)) for part in taken.read]

    def make(read: Sequence[Statement]) -> Loop:
        step = step_of(e, taken.frees, normal)
        return Loop(e.size, step, tuple(read[: counts[0]]), tuple(read[counts[0] :]))

    return sum(counts), make


def step_of(e: Recur, frees: Sequence[Var], normal: Normal) -> LoopStep:
    """The step of `e` as SSA over canonical variables: one for each part of the state and of each of `frees`."""
    level = height(e.step)
    time = canonical_time(e.index.name, e.size, level)
    held: dict[Var, list[Var]] = {}
    values: dict[Var, Expr] = {}
    count = 0
    for x in (*frees, e.state):
        parts: list[Var] = []
        for _, kind in leaves(x.type):
            name = x.name if len(leaves(x.type)) == 1 else f"{x.name}_{len(parts)}"
            parts.append(canonical_variable(name, kind, count, f"{level} {x is e.state}"))
            count += 1
        held[x] = parts
        values[x] = _gathered(x.type, parts)
    body = with_values(e.step, values)
    body = with_atoms(body, {e.index: atom_affine(Lookup(time, ()))})
    others = [y for y in free_names(body) if isinstance(y, Relation | IndexArray) and y is not time]
    own = tuple(part for x in frees for part in held[x])
    params = (*own, *held[e.state], time, *others)
    s = normal(Function("step", params, body))
    return LoopStep(tuple(held[e.state]), own, time, tuple(output_list(s.outputs)), choices_of(s.statements))


def _gathered(kind: Type, parts: Sequence[Var]) -> Expr:
    """The value of type `kind` whose arrays and numbers, in a form with pairs outermost, are `parts`."""
    left = iter(parts)

    def build(kind: Type, at: tuple[Affine, ...]) -> Expr:
        sizes, element = shape(kind)
        if not isinstance(element, Pair):
            return access(next(left), *at)
        binders = [(Index(f"p{k}"), n) for k, n in enumerate(sizes)]
        here = (*at, *(atom_affine(i) for i, _ in binders))
        first = build(element.first, here)
        return gen(binders, MakePair(first, build(element.second, here)))

    return build(kind, ())
