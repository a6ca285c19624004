"""Products of outputs of steps that are stored anyway, read in place of their factors.

    H = Loop(.. f, w, s = gen g. w * f[g] ..)
    L = Loop(.. w(t) * sum g. f(t)[g] * y[g] ..)    ->    L = Loop(.. sum g. s(t)[g] * y[g] ..)

where L alone reads f over the time, w is a number at each time, and s is kept for other readers. Such an L is the
adjoint of a recurrence that divides its state by a sum, as a hidden Markov model does. So f, as large as the state, is
not stored, and each such product has one factor less.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from tensorlang.language.affine import Index, atom_affine
from tensorlang.language.grammar import Var
from tensorlang.language.predicates import TRUE, conjunction, equal, less
from tensorlang.language.types import R, array
from tensorlang.lowering.plan.in_step import place_read, read_as
from tensorlang.normal.contraction import Factor, contraction, inner_solution, only_moves
from tensorlang.normal.recurrences import choices_of, made_step, merged, step_ssa, with_outputs
from tensorlang.normal.ssa import (
    SSA,
    Constant,
    Contraction,
    Input,
    Loop,
    Statement,
    States,
    factor_indices,
    live,
    operands,
    own_indices,
    own_ranges,
    states,
    summed_indices,
)
from tensorlang.normal.tidy import map_outputs, with_operands
from tensorlang.sets.isl import implies
from tensorlang.sets.solve import ranges_predicate
from tensorlang.simplification import simplify_ssa


def read_products(s: SSA) -> SSA:
    """`s`, whose recurrences read stored products of two outputs of earlier steps in place of these."""
    for x in s.statements:
        if isinstance(x, States) and x.word == "scan":
            for loop, made in _reading_products(s, x):
                new = merged(s.statements, {loop: made})
                names = {new[y]: name for y, name in s.names.items()}
                statements = tuple(dict.fromkeys(new.values()))
                changed = replace(s, statements=statements, outputs=map_outputs(s.outputs, new), names=names)
                return read_products(live(changed))
    return s


def _reading_products(s: SSA, f: States) -> Iterator[tuple[Loop, Loop]]:
    """The one recurrence that reads `f`, and its possible replacements, which read a product with `f` instead."""
    readers = [y for y in s.statements if f in operands(y)]
    loops = {y.loop for y in readers if isinstance(y, States)}
    if len(loops) != 1 or not all(isinstance(y, States) for y in readers):
        return
    (loop,) = loops
    for product in s.statements:
        if isinstance(product, States) and product.loop is f.loop and product.word in ("scan", "prescan"):
            w = _other_factor(f, product)
            made = _Reading(loop, f, w, product).result() if w is not None and w in loop.frees else None
            if made is not None:
                yield loop, made


def _other_factor(f: States, product: States) -> States | None:
    """The number w at each time for which `product` is w * f in the same step."""
    outputs = f.loop.step.outputs
    whole, part = outputs[product.place], outputs[f.place]
    if not isinstance(whole, Contraction) or len(whole.factors) != 2 or whole.factors.count(part) != 1:
        return None
    k = whole.factors.index(part)
    other, solved = whole.factors[1 - k], inner_solution(whole)
    if part.shape != whole.shape or other.shape or other not in outputs or solved.rest is not TRUE:
        return None
    there = all(
        solved.values.get(i) is atom_affine(j)
        for i, j in zip(factor_indices(whole)[k], own_indices(whole), strict=True)
    )
    return states(f.loop, outputs.index(other), "scan") if there else None


class _Reading:
    """`loop` without `f`, where each product of `f` and `w`, at one time, is read as an element of `product`."""

    def __init__(self, loop: Loop, f: States, w: States, product: States) -> None:
        self.loop, self.f, self.w, self.product = loop, f, w, product
        self.program = step_ssa(loop.step)
        self.outputs = set(loop.step.outputs)
        self.readers = {x: [y for y in self.program.statements if x in operands(y)] for x in self.program.statements}
        self.divided: dict[Contraction, int] = {}
        """For some products, the factor that is divided by w, since another one has become w times what it was."""

    def result(self) -> Loop | None:
        """The new loop; None if `f` is read in other ways, too, or an element of `product` doesn't exist."""
        inside, number = read_as(self.loop, self.f), read_as(self.loop, self.w)
        if inside is None or number is None:
            return None
        self.inside, self.number = inside, number
        now = place_read(self.readers[inside], inside, 0)
        if now is None or now is not place_read(self.readers[number], number, 0) or not self._is_in_products(inside):
            return None
        frees = dict(zip(self.loop.frees, self.loop.step.frees, strict=True))
        del frees[self.f]
        v = frees.setdefault(self.product, Var(inside.param.name, array(self.product.shape, R)))
        self.there = Input(v, (), self.product.shape)
        self.new: dict[Statement, Statement] = {inside: inside}
        for y in self.program.statements:
            made = self._made(y, self.divided.get(y) if isinstance(y, Contraction) else None)
            if made is None:
                return None
            self.new[y] = made
        step = self.loop.step
        outputs = [self.new[y] for y in step.outputs]
        again = made_step(step.states, tuple(frees.values()), step.time, outputs, choices_of(self.new.values()))
        simple = with_outputs(again, simplify_ssa(step_ssa(again)))
        return Loop(self.loop.size, simple, self.loop.inits, tuple(frees))

    def _is_in_products(self, x: Statement) -> bool:
        """Whether another factor can be divided by w wherever `x`, which has become w times as large, is read."""
        if x in self.outputs:
            return False
        for y in self.readers[x]:
            if not isinstance(y, Contraction) or y.factors.count(x) > 1:
                return False
            k = next((k for k, z in enumerate(y.factors) if z is not x and self._has_factor(z)), None)
            if k is not None:
                self.divided[y] = k
            elif not self._is_in_products(y):
                return False
        return True

    def _has_factor(self, z: Statement) -> bool:
        """Whether `z` is w times something, and is computed for one product alone."""
        if z is self.number:
            return True
        alone = only_moves(z) or (z not in self.outputs and len(self.readers[z]) == 1)
        return isinstance(z, Contraction) and alone and any(map(self._has_factor, z.factors))

    def _made(self, y: Statement, divided: int | None) -> Statement | None:
        """`y` computed from the new statements, its factor `divided` without w; None if an element doesn't exist."""
        if divided is None and self.inside not in operands(y):
            return with_operands(y, self.new)
        assert isinstance(y, Contraction)
        summed = dict(zip(summed_indices(y), y.summed, strict=True))
        known = conjunction([ranges_predicate({**own_ranges(y), **y.pattern.inner}), y.pattern.pred])
        factors: list[Factor] = []
        where = [y.pattern.pred]
        for k, (z, at) in enumerate(zip(y.factors, factor_indices(y), strict=True)):
            if z is self.inside:
                i, time = Index("t"), atom_affine(at[0]) + (1 if self.product.word == "prescan" else 0)
                if not implies(known, less(time, self.product.shape[0])):
                    return None
                summed[at[0]] = z.shape[0]
                where.append(equal(atom_affine(i), time))
                factors.append((self.there, (i, *at[1:])))
            elif k != divided:
                factors.append((self.new[z], at))
            elif z is self.number:
                factors.append((Constant(Fraction(1), z.shape), at))
            else:
                assert isinstance(z, Contraction)
                part = self._made(z, next(k for k, x in enumerate(z.factors) if self._has_factor(x)))
                assert part is not None
                factors.append((part, at))
        return contraction(y.shape, own_indices(y), factors, summed, conjunction(where))
