"""Derivatives of recurrences.

    6.R0    D(fold t:n with s = e0 . e1)  =  second part of  fold t:n with s, ds = e0, D e0 . e1, D e1

    6.R1    <dY | D(fold t:n with s = e0 . e1)>_[P]  ->
        let c = fold r:n with c = dY . Dt_s e1(t; c)  in  <c | D e0>_[Q(0)] + <sum t. Dt_w e1(t; c[t]) | D w>_[..] + ..

where t = n - 1 - r, and Dt_s and Dt_w are the results of 6.26 to 6.29 for <c | D e1>, with respect to the state s and
to a value w that doesn't change. Only the cotangent of the state is a recurrence: all others are sums over t of stored
values. The forward recurrence stores the values of its steps that the cotangents read (`recurrence_stores`), as further
states that no step reads. So no part of a step is computed twice.

`recurrence_supports` finds Q(t), where the cotangent of the state before step t is not 0. If it finds none, Q is always
true: the adjoint is right, but its cost is not bounded by Theorem 6.35.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tensorlang.derivatives.derivation import InnerProduct, Side
from tensorlang.derivatives.recurrence_stores import ancestors, depending, frontier, not_made_again, within
from tensorlang.derivatives.recurrence_supports import Cotangents, ExternalProduct, Rewritten, active_states
from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Lookup, atom_affine, constant
from tensorlang.language.function import Function, Parameter
from tensorlang.language.grammar import Expr, Gen, Let, MakePair, Recur, Var, access, bracket, gen, zero
from tensorlang.language.grammar import sums as sums_of
from tensorlang.language.lets import bindings, under
from tensorlang.language.names import Named, free_names
from tensorlang.language.predicates import FALSE, TRUE, Predicate, at_most, conjunction, substitute
from tensorlang.language.rebuilt import with_atoms, with_values
from tensorlang.language.recurrence import paired, parted
from tensorlang.language.types import Pair, R, Type, array, shape
from tensorlang.normal import function_of, normal_ssa
from tensorlang.normal.as_program import sum_of_terms
from tensorlang.normal.pattern import Shape, axes
from tensorlang.normal.recurrences import choices_of, made_step, merged, step_ssa
from tensorlang.normal.ssa import (
    SSA,
    Addend,
    Addition,
    Constant,
    Input,
    Loop,
    Outputs,
    Statement,
    live,
    looked_up,
    output_list,
    own_ranges,
    selections,
    states,
)
from tensorlang.normal.take_recurrences import step_of
from tensorlang.normal.tidy import replaced
from tensorlang.normal.to_ssa import StatementBuilder
from tensorlang.sets.solve import project, simplify_in

_ZERO = constant(0)


@dataclass(frozen=True, eq=False)
class Backwards:
    """The result of 6.R1: inner products with the operands of the recurrence, and the recurrence with more stored.

    `supports` has Q for each state that has a cotangent, and `exact` tells whether they are proved to be exact.
    """

    products: tuple[InnerProduct, ...]
    stored: Loop
    supports: Mapping[int, Predicate]
    exact: bool


# forwards


def differential(
    loop: Loop,
    d: Mapping[Statement, Statement],
    places: Sequence[int],
    differentials: Callable[
        [SSA, tuple[Var, ...]], tuple[Sequence[Var], Mapping[Statement, Statement], Mapping[Statement, Statement]]
    ],
) -> Loop:
    """6.R0: the recurrence of the states and then of the differentials of those in `places`."""
    step = loop.step
    frees = [k for k, x in enumerate(loop.frees) if x in d]
    wrt = (*(step.frees[k] for k in frees), *(step.states[k] for k in places))
    variables, dx, new = differentials(step_ssa(step), wrt)
    outputs = [new[x] for x in step.outputs]
    outputs += [dx.get(x, Constant(Fraction(0), x.shape)) for x in (step.outputs[k] for k in places)]
    own_frees = (*step.frees, *variables[: len(frees)])
    own_states = (*step.states, *variables[len(frees) :])
    inits = (*loop.inits, *(d.get(x, Constant(Fraction(0), x.shape)) for x in (loop.inits[k] for k in places)))
    made = made_step(own_states, own_frees, step.time, outputs, choices_of(new.values()))
    return Loop(loop.size, made, inits, (*loop.frees, *(d[loop.frees[k]] for k in frees)))


# backwards


def backwards(
    builder: StatementBuilder,
    loop: Loop,
    external: Sequence[ExternalProduct],
    active: set[Statement],
    reached: Callable[..., set[Statement]],
    rewritten: Rewritten,
    late: set[IndexArray],
) -> Backwards:
    """6.R1, with its statements emitted to `builder`; statements that look up `late` arrays are left to the backward
    steps."""
    return _Backwards(builder, loop, external, active, reached, rewritten, late).result()


class _Backwards:
    def __init__(
        self,
        builder: StatementBuilder,
        loop: Loop,
        external: Sequence[ExternalProduct],
        active: set[Statement],
        reached: Callable[..., set[Statement]],
        rewritten: Rewritten,
        late: set[IndexArray],
    ) -> None:
        self.builder, self.loop, self.external, self.late = builder, loop, external, late
        self.step, self.program = loop.step, step_ssa(loop.step)
        self.places = active_states(loop, active.__contains__, reached)
        self.frees = [k for k, x in enumerate(loop.frees) if x in active]
        variables = [*(self.step.states[k] for k in self.places), *(self.step.frees[k] for k in self.frees)]
        self.cotangents = Cotangents(loop, external, self.places, tuple(variables), rewritten)

    def result(self) -> Backwards:
        supports, exact = self.cotangents.supports()
        places = [k for k in self.places if supports[k] is not FALSE]
        if not places:
            return Backwards((), self.loop, supports, exact)
        bars = {k: Var(f"{self.step.states[k].name}_bar", self.step.states[k].type) for k in places}
        inner, products, loops = self.cotangents.through(supports, bars)
        new = merged(inner.statements, loops)
        lefts = {x.param: _masked(new[q.left], q.pred) for x, q in products.items()}
        preds = {x.param: self.cotangents.outside(q.pred) for x, q in products.items()}
        on_states = [v for v in (self.step.states[k] for k in self.places) if v in lefts]
        on_frees = [v for v in (self.step.frees[k] for k in self.frees) if v in lefts]
        statements = list(dict.fromkeys([*new.values(), *lefts.values()]))
        defined = selections(statements)
        bars_read = {Input(v, (), _shape(v)) for v in bars.values()}
        later = {x for x in statements if not self.late.isdisjoint(looked_up(x))}
        dependent = depending(statements, bars_read | later, defined)

        # the values that the forward and the backward recurrence store
        stored = frontier(lefts.values(), defined, lambda x: x not in dependent)
        inside = within([lefts[v] for v in on_states], defined, dependent)
        kept = frontier([lefts[v] for v in on_frees], defined, inside.__contains__)
        outputs = [new[x] for x in self.step.outputs]
        sides = [
            ancestors([lefts[v] for v in on_states], defined, set()),
            ancestors([lefts[v] for v in on_frees if lefts[v] not in kept], defined, set(kept)),
        ]
        stored = not_made_again(self.loop, stored, outputs, sides, defined, dependent)
        extra = [x for x in stored if x not in outputs]
        held = self._stored(outputs, extra, choices_of(x for x in statements if x not in dependent))
        cut = {x: Var(f"v{k}", array(x.shape, R)) for k, x in enumerate(stored)}
        place_of = {x: outputs.index(x) if x in outputs else len(outputs) + extra.index(x) for x in stored}

        # the recurrence of the cotangents
        size, r = self.loop.size, Index("r")
        t = size - 1 - atom_affine(r)
        sequences: dict[Var, Statement] = {}
        before = {v: self._sequence(sequences, v, states(held, k, "prescan")) for k, v in enumerate(self.step.states)}
        values = {cut[x]: self._sequence(sequences, cut[x], states(held, place_of[x], "scan")) for x in stored}
        outside = [Var(f"y{k}", array(x.left.shape, R)) for k, x in enumerate(self.external)]
        sequences.update(zip(outside, (x.left for x in self.external), strict=True))
        sequences.update(zip(self.step.frees, self.loop.frees, strict=True))
        lets, parts = self._expressions(statements, [*(lefts[v] for v in on_states), *kept], cut)
        kinds = [*(bars[k].type for k in places), *(array(x.shape, R) for x in kept)]
        state = Var("bar", _paired_type(kinds))
        at = {**{v: access(x, t) for v, x in before.items()}, **{v: access(x, t) for v, x in values.items()}}
        at.update(zip(bars.values(), parted(state, len(kinds)), strict=False))
        own = dict(zip(on_states, parts, strict=False))
        following: list[Expr] = []
        first: list[Expr] = []
        for k in places:
            v = self.step.states[k]
            terms = [(preds[v], own[v])] if v in own else []
            following.append(self._cotangent(k, terms, outside, t))
            first.append(self._cotangent(k, [], outside, size, last=True))
        following += parts[len(on_states) :]
        first += [zero(array(x.shape, R)) for x in kept]
        body = under(lets, paired(following))
        body = with_values(body, at)
        body = with_atoms(body, {Lookup(self.step.time, ()): t})
        recur = Recur("fold", r, size, state, paired(first), body)
        frees = [v for v in sequences if v in _variables(body)]
        given = [v for v in outside if v in _variables(recur.init)]
        inits = output_list(self._spliced("first", given, recur.init, sequences))
        for v in frees:
            self.builder.include(sequences[v])
        back = Loop(size, step_of(recur, frees, normal_ssa), tuple(inits), tuple(sequences[v] for v in frees))

        # everything else, as sums over t
        after: list[InnerProduct] = []
        for k, place in enumerate(places):
            x = self.loop.inits[place]
            where = simplify_in(substitute(supports[place], {self.cotangents.tau: _ZERO}), own_ranges(x))
            if x in self._active_inits() and where is not FALSE:
                left = self.builder.include(states(back, k, "fold"))
                after.append(InnerProduct(left, x, Side.VARIABLE, where))
        after += self._on_frees(
            statements, back, places, bars, kept, cut, before, values, sequences, on_frees, lefts, preds
        )
        return Backwards(tuple(after), held, supports, exact)

    def _active_inits(self) -> set[Statement]:
        return {self.loop.inits[k] for k in self.places}

    def _on_frees(
        self,
        statements: list[Statement],
        back: Loop,
        places: list[int],
        bars: Mapping[int, Var],
        kept: list[Statement],
        cut: Mapping[Statement, Var],
        before: Mapping[Var, Var],
        values: Mapping[Var, Var],
        sequences: dict[Var, Statement],
        on_frees: list[Var],
        lefts: Mapping[Var, Statement],
        preds: Mapping[Var, Predicate],
    ) -> list[InnerProduct]:
        """The cotangents of the values that don't change, each the sum over t of the contributions of step t."""
        if not on_frees:
            return []
        size, t = self.loop.size, Index("t")
        now, turned = atom_affine(t), self.loop.size - 1 - atom_affine(t)
        cut = {**cut, **{x: Var(f"z{k}", array(x.shape, R)) for k, x in enumerate(kept)}}
        at = {v: access(x, now) for v, x in (*before.items(), *values.items())}
        for k, place in enumerate(places):
            at[bars[place]] = access(self._sequence(sequences, bars[place], states(back, k, "prescan")), turned)
        for k, x in enumerate(kept, len(places)):
            at[cut[x]] = access(self._sequence(sequences, cut[x], states(back, k, "scan")), turned)
        lets, parts = self._expressions(statements, [lefts[v] for v in on_frees], cut)
        each = under(lets, paired(parts))
        each = with_values(each, at)
        each = with_atoms(each, {Lookup(self.step.time, ()): now})
        whole = Var("each", Gen(t, size, each).type)
        here = Index("t")
        outputs: list[Expr] = []
        where: list[Predicate] = []
        for v, part in zip(on_frees, parted(access(whole, atom_affine(here)), len(on_frees)), strict=True):
            sizes = _shape(v)
            g = [Index(i.name) for i in axes(0, len(sizes))]
            p = self._at(preds[v], atom_affine(here), g)
            p = simplify_in(p, {**dict(zip(g, sizes, strict=True)), here: size})
            element = bracket(p, access(part, *map(atom_affine, g)))
            outputs.append(gen(list(zip(g, sizes, strict=True)), sums_of([(here, size)], element)))
            own = dict(zip(axes(0, len(sizes)), sizes, strict=True))
            moved = substitute(preds[v], {Lookup(self.step.time, ()): atom_affine(here)})
            where.append(simplify_in(project({here: size}, moved, own), own))
        body = Let(whole, Gen(t, size, each), paired(outputs))
        read = _variables(body)
        lefts_now = output_list(self._spliced("rest", [v for v in sequences if v in read], body, sequences))
        found: list[InnerProduct] = []
        for v, left, p in zip(on_frees, lefts_now, where, strict=True):
            operand = self.loop.frees[self.step.frees.index(v)]
            if p is not FALSE:
                found.append(InnerProduct(left, operand, Side.VARIABLE, p))
        return found

    # expressions

    def _cotangent(
        self, k: int, terms: list[tuple[Predicate, Expr]], outside: Sequence[Var], tau: Affine, last: bool = False
    ) -> Expr:
        """gen g. the sum of `terms` and of the cotangents given from outside for the state before step `tau`."""
        x = self.loop.inits[k]
        g = [Index(i.name) for i in axes(0, len(x.shape))]
        here = tuple(map(atom_affine, g))
        parts = [(1, self._at(p, tau, g), access(e, *here)) for p, e in terms]
        for given, v in zip(self.external, outside, strict=True):
            if given.place != k:
                continue
            if given.word == "fold":
                if last:
                    parts.append((1, self._at(given.pred, tau, g), access(v, *here)))
                continue
            if given.word == "prescan" and last:
                continue
            at = tau - 1 if given.word == "scan" else tau
            old = axes(0, len(g) + 1)
            moved: dict[Atom, Affine] = {old[0]: at}
            moved.update(zip(old[1:], here, strict=True))
            p = substitute(given.pred, moved)
            if given.word == "scan":
                p = conjunction([at_most(_ZERO, at), p])
            parts.append((1, p, access(v, at, *here)))
        known = {**dict(zip(g, x.shape, strict=True)), **dict.fromkeys(tau.indices, self.loop.size)}
        reduced = ((sign, simplify_in(p, known), e) for sign, p, e in parts)
        return gen(list(zip(g, x.shape, strict=True)), sum_of_terms(part for part in reduced if part[1] is not FALSE))

    def _at(self, p: Predicate, t: Affine, g: Sequence[Index]) -> Predicate:
        """A predicate of a step at time `t`, over indices of its own."""
        moved: dict[Atom, Affine] = {Lookup(self.step.time, ()): t}
        moved.update((i, atom_affine(j)) for i, j in zip(axes(0, len(g)), g, strict=True))
        return substitute(p, moved)

    def _expressions(
        self, statements: list[Statement], outputs: Sequence[Statement], cut: Mapping[Statement, Var]
    ) -> tuple[list[tuple[Var | IndexArray, Expr]], list[Expr]]:
        """Statements as lets, and the values of the outputs; variables replace the statements in `cut`."""
        if not outputs:
            return [], []
        change: dict[Statement, Statement] = {x: Input(v, (), x.shape) for x, v in cut.items()}
        tree: Outputs = outputs[-1]
        for x in reversed(outputs[:-1]):
            tree = (x, tree)
        params: tuple[Parameter, ...] = (*self.program.params, *cut.values())
        s = live(replaced(SSA("step", params, tuple(statements), tree), change))
        lets, body = bindings(function_of(s).body)
        parts: list[Expr] = []
        for _ in outputs[:-1]:
            assert isinstance(body, MakePair)
            parts.append(body.first)
            body = body.second
        return lets, [*parts, body]

    def _spliced(self, name: str, params: Sequence[Var], body: Expr, values: Mapping[Var, Statement]) -> Outputs:
        """Emit the statements of `body`, with `values` for the `params`; return its outputs."""
        s = normal_ssa(Function(name, tuple(params), body))
        given: dict[Statement, Statement] = {Input(v, (), _shape(v)): values[v] for v in params}
        for x in given.values():
            self.builder.include(x)
        made = replaced(s, given)
        for x in made.statements:
            self.builder.include(x)
        return made.outputs

    def _sequence(self, sequences: dict[Var, Statement], v: Var, x: Statement) -> Var:
        """A variable for the values of `v` at all times, which `x` has."""
        made = Var(v.name, array(x.shape, R))
        sequences[made] = x
        return made

    def _stored(self, outputs: Sequence[Statement], extra: Sequence[Statement], choices: Iterable[Statement]) -> Loop:
        """The recurrence whose further states are the values `extra` of its steps."""
        if not extra and list(outputs) == list(self.step.outputs):
            return self.loop
        further = [Var(f"v{k}", array(x.shape, R)) for k, x in enumerate(extra)]
        own = (*self.step.states, *further)
        step = made_step(own, self.step.frees, self.step.time, [*outputs, *extra], choices)
        inits = (*self.loop.inits, *(Constant(Fraction(0), x.shape) for x in extra))
        return Loop(self.loop.size, step, inits, self.loop.frees)


def _paired_type(kinds: Sequence[Type]) -> Type:
    whole = kinds[-1]
    for kind in reversed(kinds[:-1]):
        whole = Pair(kind, whole)
    return whole


def _shape(v: Var) -> Shape:
    return shape(v.type)[0]


def _masked(x: Statement, p: Predicate) -> Statement:
    return x if p is TRUE else Addition((Addend(1, p, x),), x.shape)


def _variables(e: Expr) -> set[Named]:
    return set(free_names(e))
