"""Derivatives of recurrences.

    6.R0    D(fold t:n with s = e0 . e1)  =  second part of  fold t:n with s, ds = e0, D e0 . e1, D e1

    6.R1    <dY | D(fold t:n with s = e0 . e1)>_[P]  ->
        let c = fold r:n with c = dY . Dt_s e1(t; c)  in  <c | D e0>_[Q(0)] + <sum t. Dt_w e1(t; c[t]) | D w>_[..] + ..

where t = n - 1 - r, and Dt_s and Dt_w are what 6.26 to 6.29 make of <c | D e1> for the state s and for a value w that
doesn't change. Only the cotangent of the state is a recurrence: all other ones are sums over t of what it has stored.
The forward recurrence stores what the cotangents read of its steps: further states that no step reads. So nothing of a
step is computed twice.

Q(t), where the cotangent of the state before step t is not 0, is guessed, and believed if it fulfils

    Q(n) = P(n)      and      Q(t) = P(t) or (what step t reads of Q(t + 1))   for t < n

which say by induction that it is exact. P(t) is where the cotangent of that state is given from outside. Where no guess
fulfils them, Q is everything: the adjoint is right, but its cost is not bounded by Theorem 6.35.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tensorlang.derivative.derivation import InnerProduct, Side
from tensorlang.derivative.supports import Family, guesses
from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Lookup, atom_affine, constant
from tensorlang.language.function import Function, Parameter
from tensorlang.language.grammar import Expr, Gen, Let, MakePair, Recur, Var, access, bracket, gen, zero
from tensorlang.language.grammar import sums as sums_of
from tensorlang.language.lets import bindings, under
from tensorlang.language.names import Named, free_names
from tensorlang.language.predicates import (
    FALSE,
    TRUE,
    And,
    Exists,
    Or,
    Predicate,
    at_most,
    conjunction,
    disjunction,
    equal,
    exists,
    less,
    lookups,
    substitute,
)
from tensorlang.language.rebuilt import with_atoms, with_values
from tensorlang.language.recurrence import paired, parted
from tensorlang.language.types import Pair, R, Type, array, shape
from tensorlang.normal import function_of, normal_ssa
from tensorlang.normal.as_program import sum_of_terms
from tensorlang.normal.contraction import is_determined
from tensorlang.normal.pattern import Shape, axes
from tensorlang.normal.recurrences import choices_of, made_step, merged, step_ssa
from tensorlang.normal.ssa import (
    SSA,
    Addition,
    Constant,
    Contraction,
    Defining,
    Input,
    Integers,
    Loop,
    Map,
    Outputs,
    Statement,
    States,
    Term,
    live,
    looked_up,
    needs,
    operands,
    output_list,
    own_ranges,
    selections,
    states,
    whole_of,
)
from tensorlang.normal.take_recurrences import step_of
from tensorlang.normal.tidy import is_index_only, replaced
from tensorlang.normal.to_ssa import Builder
from tensorlang.sets.isl import implies
from tensorlang.sets.solve import project, ranges_predicate, simplify_in

_ZERO = constant(0)

Products = Mapping[Input, InnerProduct]
Rewritten = Callable[[SSA, tuple[Var, ...], list[InnerProduct]], tuple[Builder, Products, Mapping[Loop, Loop]]]
"""What 6.20 to 6.29 make of inner products with the differentials of a step's outputs: the statements, an inner product
for each variable, and what has become of the recurrences in the step."""


@dataclass(frozen=True, eq=False)
class External:
    """<left | d(a state in one place, read as `word` says)>_[pred], whose indices are those of `left`."""

    place: int
    word: str
    left: Statement
    pred: Predicate


@dataclass(frozen=True, eq=False)
class Backwards:
    """What 6.R1 gives: inner products with the operands of the recurrence, and this with what it has to store.

    `supports` has Q for each state that has a cotangent, and `exact` tells whether they are proved to be that.
    """

    products: tuple[InnerProduct, ...]
    stored: Loop
    supports: Mapping[int, Predicate]
    exact: bool


def active_states(
    loop: Loop, is_active: Callable[[Statement], bool], reached: Callable[..., set[Statement]]
) -> list[int]:
    """The states that depend on what is differentiated; `reached` is `total.active`."""
    s = step_ssa(loop.step)
    step = loop.step
    frees = [v for v, x in zip(step.frees, loop.frees, strict=True) if is_active(x)]
    found = {k for k, x in enumerate(loop.inits) if is_active(x)}
    while True:
        wrt = (*frees, *(step.states[k] for k in sorted(found)))
        on = reached(s, wrt)
        more = found | {k for k, x in enumerate(step.outputs) if x in on}
        if more == found:
            return sorted(found)
        found = more


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
    builder: Builder,
    loop: Loop,
    external: Sequence[External],
    active: set[Statement],
    reached: Callable[..., set[Statement]],
    rewritten: Rewritten,
    late: set[IndexArray],
) -> Backwards:
    """6.R1, whose statements go into `builder`; what looks `late` arrays up is left to the backward steps."""
    return _Backwards(builder, loop, external, active, reached, rewritten, late).result()


class _Backwards:
    def __init__(
        self,
        builder: Builder,
        loop: Loop,
        external: Sequence[External],
        active: set[Statement],
        reached: Callable[..., set[Statement]],
        rewritten: Rewritten,
        late: set[IndexArray],
    ) -> None:
        self.builder, self.loop, self.external, self.rewritten = builder, loop, external, rewritten
        self.late = late
        self.step, self.program = loop.step, step_ssa(loop.step)
        self.places = active_states(loop, active.__contains__, reached)
        self.frees = [k for k, x in enumerate(loop.frees) if x in active]
        variables = [*(self.step.states[k] for k in self.places), *(self.step.frees[k] for k in self.frees)]
        self.wrt = tuple(variables)
        self.now = atom_affine(Lookup(self.step.time, ()))
        self.tau = Index("tau")
        self.chosen = {x.array for x in self.step.choices if isinstance(x, Defining)}
        self.widened = False

    def result(self) -> Backwards:
        supports, exact = self._supports()
        places = [k for k in self.places if supports[k] is not FALSE]
        if not places:
            return Backwards((), self.loop, supports, exact)
        bars = {k: Var(f"{self.step.states[k].name}_bar", self.step.states[k].type) for k in places}
        inner, products, loops = self._through(supports, bars)
        new = merged(inner.statements, loops)
        lefts = {x.param: _masked(new[q.left], q.pred) for x, q in products.items()}
        preds = {x.param: self._outside(q.pred) for x, q in products.items()}
        on_states = [v for v in (self.step.states[k] for k in self.places) if v in lefts]
        on_frees = [v for v in (self.step.frees[k] for k in self.frees) if v in lefts]
        statements = list(dict.fromkeys([*new.values(), *lefts.values()]))
        defined = selections(statements)
        bars_read = {Input(v, (), _shape(v)) for v in bars.values()}
        later = {x for x in statements if not self.late.isdisjoint(looked_up(x))}
        dependent = _depending(statements, bars_read | later, defined)

        # what the forward recurrence stores, and what the backward one does
        stored = self._frontier(lefts.values(), defined, lambda x: x not in dependent)
        inside = _within([lefts[v] for v in on_states], defined, dependent)
        kept = self._frontier([lefts[v] for v in on_frees], defined, inside.__contains__)
        outputs = [new[x] for x in self.step.outputs]
        sides = [
            _ancestors([lefts[v] for v in on_states], defined, set()),
            _ancestors([lefts[v] for v in on_frees if lefts[v] not in kept], defined, set(kept)),
        ]
        stored = self._less(stored, outputs, sides, defined, dependent)
        extra = [x for x in stored if x not in outputs]
        held = self._stored(outputs, extra, choices_of(new[x] for x in self.program.statements))
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
            terms = [(preds[v], own[v], False)] if v in own else []
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
            where = simplify_in(substitute(supports[place], {self.tau: _ZERO}), own_ranges(x))
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
        """The cotangents of what doesn't change, each the sum over t of what step t contributes."""
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

    # supports

    def _supports(self) -> tuple[dict[int, Predicate], bool]:
        """Q for each state, over tau and the state's indices, and whether it is exact."""
        outside = {
            k: self._simple(k, disjunction(self._given(x) for x in self.external if x.place == k)) for k in self.places
        }
        if all(p is FALSE for p in outside.values()):
            return outside, True
        size = self.loop.size
        earlier = less(atom_affine(self.tau), size)

        def before(family: Family) -> Family:
            pulled = self._pulled(family)
            return {k: self._simple(k, disjunction([outside[k], pulled[k]])) for k in self.places}

        def same(p: Family, q: Family) -> bool:
            return all(self._same(k, p[k], q[k]) for k in self.places)

        first = {k: self._simple(k, substitute(p, {self.tau: size})) for k, p in outside.items()}
        for found in guesses(first, before, same, self.tau, size):
            guess = {k: self._simple(k, p) for k, p in found.items()}
            pulled = self._pulled(guess)
            wanted = {k: disjunction([outside[k], conjunction([earlier, pulled[k]])]) for k in self.places}
            if same(guess, wanted):
                return guess, not self.widened
        return dict.fromkeys(self.places, TRUE), False

    def _given(self, x: External) -> Predicate:
        """Where the cotangent of the state before step tau is given by `x`."""
        tau, size = atom_affine(self.tau), self.loop.size
        if x.word == "fold":
            return conjunction([equal(tau, size), x.pred])
        rank = len(self.loop.inits[x.place].shape)
        old, own = axes(0, rank + 1), axes(0, rank)
        moved: dict[Atom, Affine] = {old[0]: tau - 1 if x.word == "scan" else tau}
        moved.update((i, atom_affine(j)) for i, j in zip(old[1:], own, strict=True))
        p = substitute(x.pred, moved)
        match x.word:
            case "scan":
                return conjunction([less(_ZERO, tau), p])
            case "prescan":
                return conjunction([less(tau, size), p])
            case _:
                return p

    def _pulled(self, supports: Mapping[int, Predicate]) -> dict[int, Predicate]:
        """What a step reads of the states after it where these have cotangents: step t of Q(t + 1), for tau = t."""
        bars = {k: Var("bar", self.step.states[k].type) for k in self.places if supports[k] is not FALSE}
        _, products, _ = self._through(supports, bars)
        found = {x.param: q.pred for x, q in products.items()}
        back: dict[Atom, Affine] = {Lookup(self.step.time, ()): atom_affine(self.tau)}
        return {k: substitute(self._outside(found.get(self.step.states[k], FALSE)), back) for k in self.places}

    def _outside(self, p: Predicate) -> Predicate:
        """`p` without what it says of choices in a step, which hold where other conditions of the step do."""
        made = {lookup.array for lookup in lookups(p)} & self.chosen
        if not made:
            return p
        self.widened = True
        return _widened(p, made)

    def _through(
        self, supports: Mapping[int, Predicate], bars: Mapping[int, Var]
    ) -> tuple[Builder, Products, Mapping[Loop, Loop]]:
        """What the rules make of the cotangents `bars` of the states after a step, which are not 0 at Q(t + 1)."""
        seeds: list[InnerProduct] = []
        for k, bar in bars.items():
            x = self.step.outputs[k]
            later = substitute(supports[k], {self.tau: atom_affine(self.tau) + 1})
            p = simplify_in(later, {**own_ranges(x), self.tau: self.loop.size})
            p = substitute(p, {self.tau: self.now})
            if p is not FALSE:
                seeds.append(InnerProduct(Input(bar, (), x.shape), x, Side.VARIABLE, p))
        return self.rewritten(self.program, self.wrt, seeds)

    def _ranges(self, k: int) -> dict[Index, Affine]:
        return {**own_ranges(self.loop.inits[k]), self.tau: self.loop.size + 1}

    def _simple(self, k: int, p: Predicate) -> Predicate:
        return simplify_in(p, self._ranges(k))

    def _same(self, k: int, p: Predicate, q: Predicate) -> bool:
        known = ranges_predicate(self._ranges(k))
        p, q = conjunction([known, p]), conjunction([known, q])
        return implies(p, q) and implies(q, p)

    # expressions

    def _cotangent(
        self, k: int, terms: list[tuple[Predicate, Expr, bool]], outside: Sequence[Var], tau: Affine, last: bool = False
    ) -> Expr:
        """gen g. the sum of `terms` and of what is given from outside for the state before step `tau`."""
        x = self.loop.inits[k]
        g = [Index(i.name) for i in axes(0, len(x.shape))]
        here = tuple(map(atom_affine, g))
        parts = [(1, self._at(p, tau, g), access(e, *here)) for p, e, _ in terms]
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
        """Statements as lets, and the values of the outputs, where variables stand for statements that are known."""
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
        """The statements of `body`, in which `values` stand for the `params`, in the program."""
        s = normal_ssa(Function(name, tuple(params), body))
        given: dict[Statement, Statement] = {Input(v, (), _shape(v)): values[v] for v in params}
        for x in given.values():
            self.builder.include(x)
        made = replaced(s, given)
        for x in made.statements:
            self.builder.include(x)
        return made.outputs

    def _sequence(self, sequences: dict[Var, Statement], v: Var, x: Statement) -> Var:
        """A variable for the values of `v` at all times, which are those of `x`."""
        made = Var(v.name, array(x.shape, R))
        sequences[made] = x
        return made

    # what is stored

    def _frontier(
        self, lefts: Iterable[Statement], defined: Mapping[IndexArray, Defining], stops: Callable[[Statement], bool]
    ) -> list[Statement]:
        """What of the statements that `stops` tells is read by `lefts`, by others, through what is no arithmetic."""
        found: dict[Statement, None] = {}
        seen: set[Statement] = set()
        stack = list(lefts)
        while stack:
            x = stack.pop()
            if x in seen:
                continue
            seen.add(x)
            made = whole_of(x) is not None
            if not made and isinstance(x, Input | Constant):
                continue
            if (
                stops(x)
                and not self._is_of_indices(x)
                and not isinstance(x, Defining)
                and (made or not is_index_only(x))
            ):
                found[x] = None
            else:
                stack += needs(x, defined)
        return list(found)

    def _less(
        self,
        stored: Sequence[Statement],
        outputs: Sequence[Statement],
        sides: Sequence[set[Statement]],
        defined: Mapping[IndexArray, Defining],
        dependent: set[Statement],
    ) -> list[Statement]:
        """`stored` without what the backward steps make at the same cost as the forward ones would: what the program
        itself has no use for, elementwise of what is stored anyway, and read by one of both `sides`, under conditions
        that this side has anyway: that what is `dependent` on cotangents has."""
        own = _ancestors(outputs, defined, set())
        before = {Input(v, (), x.shape) for v, x in zip(self.step.states, self.loop.inits, strict=True)}
        found = dict.fromkeys(stored)
        known = {self.step.time}

        def leaves(x: Statement, like: Statement) -> list[Statement] | None:
            """What is to be stored for `x`; None if it is not elementwise of that."""
            if x in found or x in before or isinstance(x, Constant) or self._is_of_indices(x):
                return []
            if x in outputs and x.shape == like.shape:
                return [x]
            elementwise = isinstance(x, Map | Addition) or (isinstance(x, Contraction) and is_determined(x.pattern))
            if x in own or not elementwise or not known.issuperset(looked_up(x)):
                return None
            parts = [leaves(y, like) for y in operands(x)]
            return None if None in parts else [y for part in parts for y in part or ()]

        for x in stored:
            if x in own or isinstance(x, Input) or all(x in side for side in sides):
                continue
            del found[x]
            there = (y for side in sides if x in side for y in side & dependent)
            known = {self.step.time, *(a for y in there for a in looked_up(y))}
            more = leaves(x, x)
            if more is None or len(set(more)) > 1:
                found[x] = None
            else:
                found.update(dict.fromkeys(more))
        return list(found)

    def _is_of_indices(self, x: Statement) -> bool:
        """Whether `x` is made of indices and constants alone: it has no adjoint, so it may be computed twice."""
        if isinstance(x, Input | Constant):
            return isinstance(x, Integers | Constant)
        return not looked_up(x) and all(map(self._is_of_indices, operands(x)))

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
    return x if p is TRUE else Addition((Term(1, p, x),), x.shape)


def _widened(p: Predicate, arrays: set[IndexArray]) -> Predicate:
    """`p`, where comparisons with elements of these arrays are true."""
    match p:
        case And(parts):
            return conjunction(_widened(part, arrays) for part in parts)
        case Or(parts):
            return disjunction(_widened(part, arrays) for part in parts)
        case Exists(index, size, body):
            return exists([(index, size)], _widened(body, arrays))
        case _:
            return TRUE if any(lookup.array in arrays for lookup in lookups(p)) else p


def _variables(e: Expr) -> set[Named]:
    return set(free_names(e))


def _depending(
    statements: Sequence[Statement], on: set[Statement], defined: Mapping[IndexArray, Defining]
) -> set[Statement]:
    found = set(on)
    for x in statements:
        if any(y in found for y in needs(x, defined)):
            found.add(x)
    return found


def late_arrays(statements: Sequence[Statement], loop: Loop) -> set[IndexArray]:
    """The arrays that are defined by what `loop` gives, or a recurrence after it: its steps can't look them up."""
    defined = selections(statements)
    loops = list(dict.fromkeys(x.loop for x in statements if isinstance(x, States)))
    after = set(loops[loops.index(loop) :])
    given: set[Statement] = {x for x in statements if isinstance(x, States) and x.loop in after}
    late = _depending(statements, given, defined)
    return {array for array, x in defined.items() if x in late}


def _ancestors(
    xs: Iterable[Statement], defined: Mapping[IndexArray, Defining], known: set[Statement]
) -> set[Statement]:
    """What these statements are computed from where some are `known`, both included."""
    found: set[Statement] = set()
    stack = list(xs)
    while stack:
        x = stack.pop()
        if x not in found:
            found.add(x)
            stack += needs(x, defined) if x not in known else ()
    return found


def _within(
    lefts: Iterable[Statement], defined: Mapping[IndexArray, Defining], dependent: set[Statement]
) -> set[Statement]:
    """The statements among `dependent` that `lefts` are computed from, these included."""
    found: set[Statement] = set()
    stack = [x for x in lefts if x in dependent]
    while stack:
        x = stack.pop()
        if x not in found:
            found.add(x)
            stack += [y for y in needs(x, defined) if y in dependent]
            whole = whole_of(x)
            if whole is not None:  # all that this gives is there
                stack += [y for y in dependent if whole_of(y) is whole]
    return found
