"""States that need no sequential steps: those that no step reads, and those to which steps only add.

    scan t:n with s = e0 . e       where e does not read s    ->  gen t:n. e                (5.R5)
    fold t:n with s = e0 . s + e   where e does not read s    ->  e0 + sum t:n. e           (5.R6)

The steps must not depend on other states either; they are then computed for all times at once. The second law is for
elementwise terms, whose sum needs no more memory than one step. Neither law raises the cost. dF~ (Figure 8e) has
special cases of both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from tensorlang.language.affine import Affine, Atom, Index, Lookup, atom_affine, constant
from tensorlang.language.predicates import TRUE, Predicate, conjunction, equal, less, substitute
from tensorlang.normal.contraction import contraction, is_determined
from tensorlang.normal.pattern import axes, renamed
from tensorlang.normal.recurrences import step_ssa
from tensorlang.normal.ssa import (
    Addend,
    Addition,
    Constant,
    Contraction,
    Defining,
    Input,
    Integers,
    Loop,
    Map,
    Result,
    Statement,
    States,
    factor_indices,
    integers,
    looked_up,
    operands,
    own_indices,
    states,
    summed_indices,
)
from tensorlang.normal.tidy import with_operands


@dataclass
class AllTimes:
    """The statements of a step as statements outside of it; those that depend on the time have it as their first axis.

    With `from_states` this includes statements that depend on states, which read the states before each step.
    """

    loop: Loop
    from_states: bool = False
    made: dict[Statement, tuple[Statement, bool] | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        step = self.loop.step
        for k, (v, x) in enumerate(zip(step.states, self.loop.inits, strict=True)):
            self.made[Input(v, (), x.shape)] = (states(self.loop, k, "prescan"), True) if self.from_states else None
        for v, x in zip(step.frees, self.loop.frees, strict=True):
            self.made[Input(v, (), x.shape)] = (x, False)
        self.inside = {x.array for x in step.choices if isinstance(x, Defining)}
        self.now = Lookup(step.time, ())
        for x in step_ssa(step).statements:
            self.of(x)

    def of(self, x: Statement) -> tuple[Statement, bool] | None:
        """`x` outside of the recurrence, and whether it depends on the time; None if it isn't made."""
        if x not in self.made:
            self.made[x] = self._made(x)
        return self.made[x]

    def timed(self, x: Statement) -> Statement | None:
        """`x` with the time as its first axis; None if it isn't made."""
        found = self.of(x)
        return None if found is None else found[0] if found[1] else self._repeated(found[0])

    def _made(self, x: Statement) -> tuple[Statement, bool] | None:
        if isinstance(x, States | Result | Defining) or not self.inside.isdisjoint(looked_up(x)):
            return None
        if isinstance(x, Input) and not isinstance(x, Integers):
            return None  # of a recurrence around this one
        found = [self.made[y] for y in operands(x)]
        known = [y for y in found if y is not None]
        if len(known) < len(found):
            return None
        if not any(timed for _, timed in known) and self.loop.step.time not in looked_up(x):
            return with_operands(x, {y: z for y, (z, _) in zip(operands(x), known, strict=True)}), False
        return self._with_time(x, dict(zip(operands(x), known, strict=True))), True

    def _with_time(self, x: Statement, known: Mapping[Statement, tuple[Statement, bool]]) -> Statement:
        shape = (self.loop.size, *x.shape)
        whole = {y: z if timed else self._repeated(z) for y, (z, timed) in known.items()}
        match x:
            case Integers(value=value):
                later: dict[Atom, Affine] = dict(
                    zip(own_indices(x), map(atom_affine, axes(1, len(x.shape))), strict=True)
                )
                return integers(value.substitute({**later, self.now: atom_affine(axes(0, 1)[0])}), shape)
            case Addition(terms, _):
                return Addition(tuple(Addend(t.sign, self._later(t.pred, x), whole[t.operand]) for t in terms), shape)
            case Map(p, f, arguments, _):
                return Map(self._later(p, x), f, tuple(whole[y] for y in arguments), shape)
            case Contraction():
                return self._contraction(x, shape, known)
        raise AssertionError("other statements don't leave")

    def _later(self, p: Predicate, x: Statement) -> Predicate:
        """A predicate over the indices of `x`, shifted by one axis for the time."""
        rank = len(x.shape)
        moved = renamed(p, axes(0, rank), axes(1, rank))
        return substitute(moved, {self.now: atom_affine(axes(0, 1)[0])})

    def _contraction(
        self, x: Contraction, shape: tuple[Affine, ...], known: Mapping[Statement, tuple[Statement, bool]]
    ) -> Statement:
        t = Index("t")
        fresh = {i: Index(i.name) for i in x.pattern.indices}
        at: dict[Atom, Affine] = {i: atom_affine(j) for i, j in fresh.items()}
        where = [substitute(x.pattern.pred, {**at, self.now: atom_affine(t)})]
        factors: list[tuple[Statement, tuple[Index, ...]]] = []
        for y, places in zip(x.factors, factor_indices(x), strict=True):
            z, timed = known[y]
            read = tuple(fresh[i] for i in places)
            if timed:
                then = Index("t")
                where.append(equal(atom_affine(then), atom_affine(t)))
                read = (then, *read)
            factors.append((z, read))
        summed = {fresh[i]: size for i, size in zip(summed_indices(x), x.summed, strict=True)}
        return contraction(shape, (t, *(fresh[i] for i in own_indices(x))), factors, summed, conjunction(where))

    def _repeated(self, x: Statement) -> Statement:
        """`x` at every time."""
        shape = (self.loop.size, *x.shape)
        if isinstance(x, Constant):
            return Constant(x.value, shape)
        t, g, read = Index("t"), _fresh(x), _fresh(x)
        return contraction(shape, (t, *g), [(x, read)], {}, _alike(read, g))


def left(loop: Loop, words: Mapping[int, Collection[str]]) -> dict[tuple[int, str], Statement]:
    """The statements that replace states which leave `loop`, by place and word; `words` are those that read a state."""
    steps = AllTimes(loop)
    found: dict[tuple[int, str], Statement] = {}
    inside = step_ssa(loop.step).statements
    for k, (x, init, v) in enumerate(zip(loop.step.outputs, loop.inits, loop.step.states, strict=True)):
        before = Input(v, (), init.shape)
        readers = [y for y in inside if before in operands(y)]
        each = None if readers or before in loop.step.outputs else steps.timed(x)
        if each is not None:
            found.update({(k, word): _of_all(word, each, init, loop.size) for word in words.get(k, ())})
        elif readers == [x] and set(words.get(k, ())) == {"fold"} and not any(x in operands(y) for y in inside):
            total = _total(x, before, steps, init)
            if total is not None:
                found[k, "fold"] = total
    return found


def _total(x: Statement, before: Statement, steps: AllTimes, init: Statement) -> Statement | None:
    """The first state plus the sum of what the steps add to it, if adding is all they do; else None."""
    if not isinstance(x, Addition) or [t for t in x.terms if t.operand is before] != [Addend(1, TRUE, before)]:
        return None
    terms = [Addend(1, TRUE, init)]
    for term in x.terms:
        if term.operand is before:
            continue
        each = steps.timed(term.operand) if _is_elementwise(term.operand) else None
        if each is None or not steps.inside.isdisjoint(looked_up(x)):
            return None
        t, own = Index("t"), _fresh(x)
        read = (Index("t"), *_fresh(x))
        p = substitute(renamed(term.pred, own_indices(x), own), {steps.now: atom_affine(t)})
        where = conjunction([_alike(read, (t, *own)), p])
        terms.append(Addend(term.sign, TRUE, contraction(x.shape, own, [(each, read)], {t: steps.loop.size}, where)))
    return Addition(tuple(terms), x.shape)


def _is_elementwise(x: Statement) -> bool:
    """Whether nothing is summed in `x`, within the step."""
    stack = [x]
    while stack:
        y = stack.pop()
        if isinstance(y, Contraction) and not is_determined(y.pattern):
            return False
        stack += operands(y)
    return True


def _of_all(word: str, each: Statement, init: Statement, size: Affine) -> Statement:
    """The states of a recurrence, as `word` reads them, where `each` has the result of the step at each time."""
    rank = len(init.shape)
    if word == "scan":
        return each
    zero, one = constant(0), constant(1)
    if word == "fold":
        own, read = _fresh(init), (Index("t"), *_fresh(init))
        last = conjunction([equal(atom_affine(read[0]), size - 1), _alike(read[1:], own)])
        shape, there, first = init.shape, less(zero, size), equal(size, zero)
        steps = contraction(shape, own, [(each, read)], {}, last)
        return Addition((Addend(1, first, init), Addend(1, there, steps)), shape)
    shape = (size + 1 if word == "states" else size, *init.shape)
    t, own, read = Index("t"), _fresh(init), (Index("t"), *_fresh(init))
    before = conjunction([equal(atom_affine(read[0]) + one, atom_affine(t)), _alike(read[1:], own)])
    steps = contraction(shape, (t, *own), [(each, read)], {}, before)
    again = _fresh(init)
    starts = contraction(shape, (t, *own), [(init, again)], {}, _alike(again, own))
    now = atom_affine(axes(0, rank + 1)[0])
    return Addition((Addend(1, equal(now, zero), starts), Addend(1, less(zero, now), steps)), shape)


def _fresh(x: Statement) -> tuple[Index, ...]:
    return tuple(Index(i.name) for i in own_indices(x))


def _alike(places: Iterable[Index], others: Iterable[Index]) -> Predicate:
    return conjunction(equal(atom_affine(i), atom_affine(j)) for i, j in zip(places, others, strict=True))
