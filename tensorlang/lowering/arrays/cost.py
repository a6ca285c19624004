"""The cost of an array program for all sizes, beside the model's count for the program that it was made of.

Operations and bytes are counted on shapes (`work`) before any code exists, with relations as boolean arrays or as their
points. Where they grow faster with the sizes than the model's count does, inputs and outputs included, lowering has
lost the bound of the derivative's cost. Here the model's count is for the worst data: relations hold everywhere, or at
as many points as are given, and an equality with an element of an index array leaves one choice of an index.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, partial
from math import prod
from typing import cast

from tensorlang.costs.cost import charges, with_arrays_outside
from tensorlang.costs.counting import Cell, gathered, number_of_points
from tensorlang.costs.domains import Domain
from tensorlang.costs.growth import in_terms, order, outgrown
from tensorlang.costs.loops import has_loops
from tensorlang.costs.polynomial import affine, unknown
from tensorlang.costs.symbolic import CostPolynomial, cost_polynomial, polynomial
from tensorlang.errors import CountingError
from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Size, atom_affine, constant
from tensorlang.language.function import Function
from tensorlang.language.grammar import Var, gen
from tensorlang.language.grammar import number as literal
from tensorlang.language.lets import bindings
from tensorlang.language.predicates import (
    TRUE,
    And,
    Equal,
    NonNegative,
    Or,
    Predicate,
    Related,
    Relation,
    at_most,
    conjunction,
    conjuncts,
    disjunction,
    equal,
    free_atoms,
    lookups,
    relations,
    substitute,
)
from tensorlang.language.types import Pair, R, Type, array, shape, struct_of_arrays
from tensorlang.lowering.arrays.program import ArrayProgram
from tensorlang.lowering.arrays.shapes import Shaped, Value
from tensorlang.lowering.arrays.work import BYTES, Box, Work, cells_of, number_in, work
from tensorlang.sets.encode import TooHard

_NONE: Mapping[Relation, int] = {}
_MANY = 8
"""From this number of tiles on, a polynomial needs no cases."""
_MOST_CASES = 16
_SEVERAL = 4
_LONG = 1000
"""The value assumed for symbolic sizes."""


@dataclass(frozen=True)
class Repeated:
    """The work of an array program that runs `times` times, or of one that runs for each `window` of that many times of
    a recurrence, in which the size stands for the length of the window."""

    work: Work
    times: tuple[Affine, ...] = ()
    window: tuple[Size, Affine] | None = None

    def again(self, n: Affine, time: IndexArray) -> Iterator[Repeated]:
        """The same, n times, each of which the work knows as `time`."""
        same, other = self.work.again(n, time)
        yield Repeated(same, (*self.times, n), self.window)
        if other.operations or other.written:
            yield Repeated(other, self.times, self.window)

    def under(self, p: Predicate) -> Repeated:
        """The same, if the condition `p` holds."""
        return replace(self, work=self.work.under(p))

    def at(self, values: Mapping[Size, Affine]) -> Repeated:
        """The same where sizes have these values, except the length of a window."""
        inside = {s: a for s, a in values.items() if self.window is None or s is not self.window[0]}
        atoms = cast(Mapping[Atom, Affine], values)
        window = None if self.window is None else (self.window[0], self.window[1].substitute(atoms))
        return Repeated(self.work.at(inside), tuple(n.substitute(atoms) for n in self.times), window)

    def cells(self, of: Callable[[Work], Mapping[Box, int]], at_once: bool) -> Iterator[Cell]:
        """The number that boxes of its work stand for, with one window for all times if `at_once`, and otherwise one
        for each. Raises `TooHard`."""
        times, found = self.times, cells_of(of(self.work))
        if self.window is not None:
            size, count = self.window
            length, times = (count, times) if at_once else (constant(1), (*times, count))
            found = tuple((substitute(p, {size: length}), a.substitute({size: affine(length)})) for p, a in found)
        for p, a in found:
            yield p, prod(map(affine, times), start=a)


@dataclass(frozen=True)
class ArrayCost:
    """The cost of the array programs of `function` for all sizes of at least 1.

    Windows of the times of a recurrence are counted as one, or as one for each time, whichever grows more slowly.

    Each part raises `CountingError` if no closed form is found.
    """

    function: Function
    parts: tuple[Repeated, ...]
    counts: Mapping[Relation, Size] = field(default_factory=dict)
    """The numbers of points of relations that are given by these."""
    extents: tuple[Affine, ...] = ()
    """Lengths of axes that are at least 1, too."""
    tile: int = 1
    """If it is more than 1, the cost is that at sizes that are multiples of it, from `_MANY` times it on."""
    blocks: Mapping[Size, tuple[Size, int]] = field(default_factory=dict)
    """Sizes of blocks, with the size that is cut into blocks, and their number, of which `tile` is a multiple."""

    @property
    def domain(self) -> str:
        """For which sizes it is, as text."""
        if self.tile == 1:
            return "all sizes of at least 1"
        return f"all sizes that are multiples of {self.tile}, from {_MANY * self.tile} on"

    def at(self, values: Mapping[Size, int]) -> ArrayCost:
        """The same cost, to be counted at sizes that have these values."""
        numbers = {s: constant(n) for s, n in values.items()}
        numbers |= {b: constant(-(-values[s] // count)) for b, (s, count) in self.blocks.items()}
        return ArrayCost(self.function, tuple(part.at(numbers) for part in self.parts), self.counts)

    @cached_property
    def operations(self) -> CostPolynomial:
        """Additions, multiplications, comparisons, what scalar functions cost, and real numbers that are moved."""
        return self._total(lambda work: work.operations)

    @cached_property
    def written(self) -> CostPolynomial:
        """The bytes of all arrays that have names, in double precision."""
        return self._total(lambda work: work.written)

    @cached_property
    def read(self) -> CostPolynomial:
        """The bytes that kernels read."""
        return self._total(lambda work: work.read)

    @cached_property
    def model(self) -> CostPolynomial:
        """The model's count for the worst data, and one for each element of the inputs and outputs."""
        cells = [*self.given.cells]
        for domain, weight in charges(with_arrays_outside(self.function).body).items():
            for d in at_worst(domain, self.counts) if weight > 0 or not _has_data(domain.pred) else ():
                cells += ((p, a * weight) for p, a in _found(partial(number_of_points, dict(d.binders), d.pred)))
        return polynomial(self._of_sizes, gathered(cells))

    @cached_property
    def given(self) -> CostPolynomial:
        """The elements of the inputs and outputs."""
        result = _given(struct_of_arrays(self.function.body.type))
        arrays = _leaves((*(parameter(p, self.counts) for p in self.function.params), result))
        return polynomial(self._of_sizes, gathered(cell for x in arrays for cell in number_in(Box((), TRUE, x.shape))))

    @cached_property
    def named(self) -> CostPolynomial:
        """The elements of the arrays that the program itself names."""
        values = (e for _, e in bindings(self.function.body)[0])
        arrays = [x for e in values for x in _leaves(_given(struct_of_arrays(e.type)))]
        return polynomial(self._of_sizes, gathered(cell for x in arrays for cell in number_in(Box((), TRUE, x.shape))))

    def of_step(self, name: str) -> CostPolynomial:
        """The operations of the step that makes the array of this name."""
        return self._total(lambda work: work.by_step.get(name, {}))

    def has_step(self, name: str) -> bool:
        """Whether the operations of a step are counted apart."""
        return any(name in part.work.by_step for part in self.parts)

    @property
    def excess(self) -> str | None:
        """Which of its terms outgrow the model's count, as text; None if none do. Bytes are compared with the arrays
        that the program names, too."""
        context = self.model.context
        growth = in_terms(order(self.model.cells, context))
        beyond = outgrown(self.operations.cells, self.model.cells, context)
        if beyond:
            return f"operations grow as {in_terms(beyond)}, the model's count as {growth}"
        beyond = outgrown(self.written.cells, (*self.model.cells, *self.named.cells), context)
        if beyond:
            return f"bytes grow as {in_terms(beyond)}, the model's count as {growth}"
        return None

    @cached_property
    def _of_sizes(self) -> Function:
        """A program of the same sizes, each of at least 1, that takes no data."""
        f = self.function
        sizes = [*f.sizes, *(s for p, s in self.counts.items() if p in f.params)]
        params = [p if isinstance(p, Var) else Var(p.name, array(p.sizes, R)) for p in f.params]
        least = 1 if self.tile == 1 else _MANY * self.tile
        held = [atom_affine(s) - least for s in sizes] + [a - 1 for a in self.extents]
        params += [Var(f"{a}, not negative", array((a,), R)) for a in held]
        return Function(f.name, tuple(params), gen([(Index("i"), atom_affine(s)) for s in sizes], literal(0)))

    def _total(self, of: Callable[[Work], Mapping[Box, int]]) -> CostPolynomial:
        parts = self.parts
        if self.tile > 1:
            longer = {s: atom_affine(s) * self.tile for s in self._of_sizes.sizes}
            longer |= {b: atom_affine(s) * (self.tile // count) for b, (s, count) in self.blocks.items()}
            parts = tuple(part.at(longer) for part in parts)

        def counted(at_once: bool) -> CostPolynomial:
            cells = _found(lambda: gathered(cell for part in parts for cell in part.cells(of, at_once)))
            return polynomial(self._of_sizes, cells if self.tile == 1 else _found(lambda: _in_units(cells, self.tile)))

        found = counted(True)
        if all(part.window is None for part in self.parts):
            return found
        other = counted(False)
        return other if outgrown(found.cells, other.cells, found.context) else found


def cost_of(f: Function, program: ArrayProgram) -> ArrayCost:
    """The cost of `program`, which `f` was lowered to."""
    return ArrayCost(f, (Repeated(work_of(f, program)),), program.counts)


def work_of(f: Function, program: ArrayProgram, widths: Mapping[str, int] = BYTES) -> Work:
    """The work of `program`, which `f` was lowered to, where elements take as many bytes as `widths` says."""
    orders = {p: len(orders) for p, orders in program.orders.items()}
    return work(program.definition, [parameter(p, program.counts, orders) for p in f.params], program.sizes, widths)


def storing(arrays: Iterable[Var], widths: Mapping[str, int] = BYTES) -> Work:
    """The work of keeping arrays, where elements take as many bytes as `widths` says."""
    written = Counter[Box]()
    for x in (x for v in arrays for x in _leaves(_given(struct_of_arrays(v.type)))):
        written[Box((), TRUE, x.shape)] += widths["f"]
    return Work(written=written)


def grows_more_slowly(a: ArrayCost, b: ArrayCost) -> bool:
    """Whether `a` costs less than `b`, of the same sizes: operations or bytes of `b` outgrow those of `a`, and not the
    other way round, or only where not all sizes grow together. Where neither outgrows the other, as where sizes are
    numbers, whether `b` takes several times as many. False if that is unknown."""

    def beyond(p: ArrayCost, q: ArrayCost) -> bool:
        pairs = ((p.operations, q.operations), (p.written, q.written))
        return any(outgrown(x.cells, y.cells, x.context) for x, y in pairs)

    def several_times(p: ArrayCost, q: ArrayCost) -> bool:
        long = {s.name: _LONG for s in p.function.sizes}
        return any(x(long) > _SEVERAL * y(long) for x, y in ((p.operations, q.operations), (p.written, q.written)))

    def degree(p: ArrayCost) -> int:
        return max((len(m) for x in (p.operations, p.written) for m in order(x.cells, x.context)), default=0)

    try:
        if beyond(b, a):
            return not beyond(a, b) or degree(a) < degree(b)
        return not beyond(a, b) and several_times(b, a) and not several_times(a, b)
    except CountingError:
        return False


def parameter(
    p: Var | Relation | IndexArray, counts: Mapping[Relation, Size], orders: Mapping[Relation, int] = _NONE
) -> Value:
    """The shape of a parameter as the array program takes it: a relation of which the count of points is known as a
    column for each argument, and the further orders of these."""
    match p:
        case Relation() if p in counts:
            return (Shaped((atom_affine(counts[p]),), "i"),) * (len(p.sizes) + orders.get(p, 0))
        case Relation():
            return Shaped(p.sizes, "b")
        case IndexArray():
            return Shaped(p.sizes, "i")
        case Var():
            return _given(struct_of_arrays(p.type))


def _given(kind: Type) -> Value:
    if isinstance(kind, Pair):
        return _given(kind.first), _given(kind.second)
    return Shaped(shape(kind)[0])


def _leaves(value: Value) -> Iterator[Shaped]:
    stack = [value]
    while stack:
        x = stack.pop()
        if isinstance(x, Shaped):
            yield x
        else:
            stack += x


def _in_units(cells: Iterable[Cell], unit: int) -> tuple[Cell, ...]:
    """Cells over numbers of units, in terms of the sizes that these make. Raises `TooHard` for quotients."""

    def condition(p: Predicate) -> Predicate:
        match p:
            case And(parts):
                return conjunction(map(condition, parts))
            case Or(parts):
                return disjunction(map(condition, parts))
            case Equal(a):
                return equal(long(a), constant(0))
            case NonNegative(a):
                return at_most(constant(0), long(a))
        raise TooHard

    def long(a: Affine) -> Affine:
        if not all(isinstance(atom, Size) for atom in a.atoms):
            raise TooHard
        return Affine(a.terms, a.constant * unit)

    found: list[Cell] = []
    for p, a in cells:
        if not all(isinstance(x, Size) for x in a.unknowns):
            raise TooHard
        found.append((condition(p), a.substitute({x: unknown(x) * Fraction(1, unit) for x in a.unknowns})))
    return tuple(found)


def _found(count: Callable[[], tuple[Cell, ...]]) -> tuple[Cell, ...]:
    try:
        return count()
    except TooHard:
        raise CountingError("no closed form was found for what the array program costs") from None


def at_worst(domain: Domain, counts: Mapping[Relation, Size]) -> list[Domain]:
    """Domains without conditions on data that together have at least as many points, whatever the data, with relations
    of that many points."""
    parts = conjuncts(domain.pred)
    for q in parts:
        if not _has_data(q):
            continue
        rest = [p for p in parts if p is not q]
        if isinstance(q, Or) and counts.keys() >= {*relations(q)} and len(q.parts) <= _MOST_CASES:
            cases = (Domain(domain.binders, conjunction([*rest, part])) for part in q.parts)
            return [d for case in cases for d in at_worst(case, counts)]
        if isinstance(q, Related) and q.relation in counts:
            return at_worst(_at_points(q, domain, atom_affine(counts[q.relation])), counts)
        i = _determined(q, domain)
        if i is not None:
            rest = [p for p in rest if i not in free_atoms(p)]
        return at_worst(Domain(tuple(b for b in domain.binders if b[0] is not i), conjunction(rest)), counts)
    return [domain]


def _at_points(q: Related, domain: Domain, count: Affine) -> Domain:
    """The domain with one index for the points of a relation in place of the indices that it is asked for."""
    own = {i for i, _ in domain.binders if any(a is atom_affine(i) for a in q.arguments)}
    rest = [p for p in conjuncts(domain.pred) if p is not q and own.isdisjoint(free_atoms(p))]
    binders = [b for b in domain.binders if b[0] not in own]
    return Domain((*binders, *([(Index("point"), count)] if own else [])), conjunction(rest))


def _has_data(p: Predicate) -> bool:
    return bool(relations(p) or lookups(p))


def _determined(q: Predicate, domain: Domain) -> Index | None:
    """An index of which an equality leaves one choice."""
    if not isinstance(q, Equal):
        return None
    own = {i for i, _ in domain.binders} - {i for lookup in q.difference.lookups for a in lookup.at for i in a.indices}
    return next((x for x in q.difference.atoms if isinstance(x, Index) and x in own), None)


def step_cost(cost: ArrayCost, name: str, sizes: Mapping[str, int]) -> str:
    """The cost of the step of that name, at these sizes if there are any, as text."""
    try:
        return f"{_at(cost.of_step(name), sizes)} operations"
    except CountingError:
        return ""


def cost_notes(cost: ArrayCost, sizes: Mapping[str, int]) -> list[str]:
    """Remarks on the cost of a whole program, at these sizes if there are any."""
    where = ", ".join(f"{name} = {n}" for name, n in sizes.items()) or cost.domain
    try:
        operations, written, model = (_at(p, sizes) for p in (cost.operations, cost.written, cost.model))
        read = _at(cost.read, sizes)
        excess = cost.excess
    except CountingError as error:
        return [f"What all of it takes for all sizes is not known: {error.message}."]
    moved = f"writes {written} bytes" if read == "0" else f"reads {read} and writes {written} bytes"
    notes = [
        f"At {where} all of it takes {operations} operations and {moved}; the model counts {model}, inputs and outputs "
        "included, for the worst data."
    ]
    if has_loops(cost.function):
        told = _at(cost_polynomial(cost.function), {})
        notes.append(f"Loops that data end are counted with one trip each; with all trips the program costs {told}.")
    return notes if excess is None else [*notes, f"The bound does not hold in what runs: {excess}."]


def _at(p: CostPolynomial, sizes: Mapping[str, int]) -> str:
    return f"{p(**sizes):,}" if sizes else " ".join(str(p).split())
