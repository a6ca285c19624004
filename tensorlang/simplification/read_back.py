"""From tensor SSA back to a program that one would write.

The equalities in a contraction's predicate are solved, so shifts, strides and diagonals are accesses again and only
indices that are really summed over remain. A statement without arithmetic is inlined into its readers; so is one
with arithmetic if each of its elements is read at most once, unless its author named it. Predicates are simplified by
what is known where they occur. A selection that is only used for its extremum becomes that. None of this raises the
cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, count

from tensorlang.language.affine import Affine, Atom, Index, atom_affine, bound_index
from tensorlang.language.function import Function
from tensorlang.language.grammar import (
    Call,
    Choice,
    Compared,
    Const,
    Expr,
    Extremum,
    MakePair,
    Mul,
    Proj,
    Var,
    access,
    bracket,
    gen,
    number,
    sums,
)
from tensorlang.language.lets import Binding, under
from tensorlang.language.names import free_names
from tensorlang.language.predicates import FALSE, TRUE, Equal, Predicate, conjunction, conjuncts, substitute
from tensorlang.language.types import R, array
from tensorlang.normal.as_program import element, sum_of_terms
from tensorlang.normal.contraction import inner_solution, reads_each_once
from tensorlang.normal.put_together import put_together
from tensorlang.normal.recurrences import apart
from tensorlang.normal.ssa import (
    SSA,
    Addition,
    Comparison,
    Constant,
    Contraction,
    Defining,
    Input,
    Integers,
    Map,
    Outputs,
    Selection,
    Statement,
    factor_indices,
    inner_ranges,
    live,
    operands,
    output_list,
    own_indices,
    own_ranges,
    selections,
)
from tensorlang.normal.tidy import is_index_only
from tensorlang.recursion import Deep, call, run
from tensorlang.sets.isl import implies
from tensorlang.sets.simplify import simplify
from tensorlang.sets.solve import Ranges, ranges_predicate, simplify_in, solve
from tensorlang.simplification.chosen import Choices, what_was_chosen
from tensorlang.simplification.extrema import Extrema, with_extrema

_MANY = 2


def read_back(s: SSA) -> Function:
    """The program of `s` as a function of the core language, with a let for each statement that is stored."""
    d = apart(s)
    if d.loops:
        return put_together(read_back(d.s), d, read_back)
    s, extrema = with_extrema(live(s))
    taken = {p.name for p in s.params} | {size.name for x in s.statements for a in x.shape for size in a.sizes}
    taken |= {x.array.name for x in s.statements if isinstance(x, Defining)}
    choices = {k: x for k, x in selections(s.statements).items() if isinstance(x, Selection)}
    reader = _Reader(_inlined(s, extrema), extrema, choices, taken | set(s.names.values()))
    bindings: list[Binding] = []
    for x in s.statements:
        if isinstance(x, Defining):
            bindings.append((x.array, reader.whole(x)))
        elif x not in reader.inlined:
            variable = Var(s.names.get(x, f"t{len(bindings)}"), array(x.shape, R))
            bindings.append((variable, reader.whole(x)))
            reader.stored[x] = variable

    def tree(outputs: Outputs) -> Deep[Expr]:
        if isinstance(outputs, tuple):
            return MakePair((yield from call(tree(outputs[0]))), (yield from call(tree(outputs[1]))))
        return reader.whole(outputs)

    body = run(tree(s.outputs))
    if choices:
        bindings = _read(bindings, body)
    return Function(s.name, s.params, under(bindings, body), s.results)


def _read(bindings: list[Binding], body: Expr) -> list[Binding]:
    """The bindings that are read: a choice need not be, where any of the values to choose from is the same."""
    wanted, kept = {*free_names(body)}, []
    for x, e in reversed(bindings):
        if x in wanted:
            kept.append((x, e))
            wanted.update(free_names(e))
    return kept[::-1]


def _inlined(s: SSA, extrema: Extrema) -> set[Statement]:
    """The statements that are not stored."""
    reads = dict.fromkeys(s.statements, 0)
    outputs = output_list(s.outputs)
    for x in outputs:
        reads[x] += 1
    named = set(s.names).difference(outputs if len(outputs) == 1 else ())
    inlined: set[Statement] = set()
    for x in reversed(s.statements):
        stays = isinstance(x, Defining) or x in named or reads[x] >= _MANY
        if not stays or (is_index_only(x) and x not in extrema):
            inlined.add(x)
        times = reads[x] if x in inlined else 1
        for k, y in enumerate(operands(extrema.get(x, x) if isinstance(x, Input) else x)):
            reads[y] += times if _reads_each_once(x, k) else _MANY
    return inlined


def _reads_each_once(x: Statement, k: int) -> bool:
    """Whether `x` reads each element of its k-th operand at most once."""
    return not isinstance(x, Contraction) or reads_each_once(x.pattern, k)


class _Reader:
    def __init__(self, inlined: set[Statement], extrema: Extrema, choices: Choices, taken: set[str]) -> None:
        self.inlined = inlined
        self.extrema = extrema
        self.choices = choices
        self.taken = taken
        self.stored: dict[Statement, Var] = {}

    def whole(self, x: Statement) -> Expr:
        """gen g. the element of `x` at g."""
        if x in self.stored:
            return self.stored[x]
        if isinstance(x, Input) and x not in self.extrema and not isinstance(x, Integers):
            return _input(x)
        names = self._names()
        g = [(bound_index(next(names)), size) for size in x.shape]
        body = run(self.element(x, tuple(atom_affine(i) for i, _ in g), dict(g), TRUE))
        return gen(g, body)

    def _names(self) -> Iterator[str]:
        """Names for indices that differ from those of sizes, parameters and variables."""
        return (name for name in chain("ijklpqrs", (f"i{k}" for k in count())) if name not in self.taken)

    def _read(self, x: Statement, at: tuple[Affine, ...]) -> Expr | None:
        """The element of `x` at `at` if it can be read from an array, as most can; else None."""
        if x in self.stored:
            return access(self.stored[x], *at)
        if type(x) is Input and x not in self.extrema:
            return access(_input(x), *at)
        return None

    def element(self, x: Statement, at: tuple[Affine, ...], ranges: Ranges, known: Predicate) -> Deep[Expr]:
        """The element of `x` at `at`, where the indices have these ranges and the predicate `known` holds."""
        read = self._read(x, at)
        if read is not None:
            return read
        here: dict[Atom, Affine] = dict(zip(own_indices(x), at, strict=True))
        seen = (lookup for a in at for lookup in a.lookups if lookup.array in self.choices)
        known = conjunction(
            [known, *(q for lookup in seen for q in what_was_chosen(lookup, self.choices[lookup.array]))]
        )
        match x:
            case Integers():
                return element(x, at)
            case Input():
                if x in self.extrema:
                    return (yield from call(self._chosen(self.extrema[x], Extremum, here, at, ranges, known)))
                return access(_input(x), *at)
            case Selection():
                return (yield from call(self._chosen(x, Choice, here, at, ranges, known)))
            case Comparison(_, op, guard, _, _):
                guard = _reduced(guard, own_ranges(x), here, ranges, known)
                known = conjunction([known, guard])
                left = yield from call(self.element(x.left, at, ranges, known))
                right = yield from call(self.element(x.right, at, ranges, known))
                return bracket(guard, Compared(op, left, right))
            case Constant(value, _):
                return number(value)
            case Addition(terms, _):
                parts = []
                for t in terms:
                    p = _reduced(t.pred, own_ranges(x), here, ranges, known)
                    if p is not FALSE:
                        part = yield from call(self.element(t.operand, at, ranges, conjunction([known, p])))
                        parts.append((t.sign, p, part))
                return sum_of_terms(parts)
            case Map(p, f, arguments, _):
                p = _reduced(p, own_ranges(x), here, ranges, known)
                if p is FALSE:
                    return number(0)
                new = []
                for y in arguments:
                    read = self._read(y, at)
                    new.append(read or (yield from call(self.element(y, at, ranges, conjunction([known, p])))))
                return bracket(p, Call(f, tuple(new)))
            case Contraction():
                return (yield from call(self._contraction(x, here, ranges, known)))

    def _contraction(self, x: Contraction, here: dict[Atom, Affine], ranges: Ranges, known: Predicate) -> Deep[Expr]:
        inner, own = inner_ranges(x), own_ranges(x)
        solution = inner_solution(x)
        rest, values, free = solution.rest, solution.values, solution.free
        if any(isinstance(q, Equal) for q in conjuncts(substitute(rest, here))):  # places that `here` makes equal
            again = solve(substitute(rest, here), {i: inner[i] for i in free}, ranges)
            values = {i: a.substitute(here).substitute(again.values) for i, a in values.items()} | again.values
            rest, free = again.rest, again.free
        used = {i.name for i in ranges}
        names = (name for name in self._names() if name not in used)
        binders = [(bound_index(next(names)), inner[i]) for i in free]
        named = dict(here)
        named.update((i, atom_affine(j)) for i, (j, _) in zip(free, binders, strict=True))
        ranges = {**ranges, **dict(binders)}
        p = _reduced(rest, {**own, **{i: inner[i] for i in free}}, named, ranges, known)
        if p is FALSE:
            return number(0)
        parts = []
        for y, indices in zip(x.factors, factor_indices(x), strict=True):
            at = tuple((values.get(i) or atom_affine(i)).substitute(named) for i in indices)
            if not binders and len(x.factors) == 1 and self._is_within(y, at, ranges, known, p):
                p = TRUE
            read = self._read(y, at)
            parts.append(read or (yield from call(self.element(y, at, ranges, conjunction([known, p])))))
        return sums(binders, bracket(p, _product(parts)))

    def _is_within(self, y: Statement, at: tuple[Affine, ...], ranges: Ranges, known: Predicate, p: Predicate) -> bool:
        """Whether each term of an addition that is not stored is hidden where `p` is false."""
        if p is TRUE or not isinstance(y, Addition) or y in self.stored:
            return False
        here: dict[Atom, Affine] = dict(zip(own_indices(y), at, strict=True))
        given = conjunction([ranges_predicate(ranges), known])
        return all(implies(conjunction([given, substitute(t.pred, here)]), p) for t in y.terms)

    def _chosen(
        self,
        x: Selection,
        kind: type[Extremum | Choice],
        here: Mapping[Atom, Affine],
        at: tuple[Affine, ...],
        ranges: Ranges,
        known: Predicate,
    ) -> Deep[Expr]:
        """The extremum or the choice of `x` at `at`."""
        guard = _reduced(x.guard, own_ranges(x), here, ranges, known)
        known = conjunction([known, guard])
        s = own_indices(x.operand)[-1]
        used = {i.name for i in ranges}
        index = bound_index(next(name for name in self._names() if name not in used))
        ranges = {**ranges, index: x.array.size}
        p = _reduced(x.pred, own_ranges(x.operand), {**here, s: atom_affine(index)}, ranges, known)
        body = yield from call(self.element(x.operand, (*at, atom_affine(index)), ranges, conjunction([known, p])))
        return bracket(guard, kind(x.sign, index, x.array.size, p, body))


def _reduced(p: Predicate, own: Ranges, here: Mapping[Atom, Affine], ranges: Ranges, known: Predicate) -> Predicate:
    """[i := here] p, for p over the ranges `own`, simplified by what is known where it occurs."""
    p = substitute(simplify_in(p, own), here)
    if p is TRUE or p is FALSE:
        return p
    if known is TRUE and _only_renames(here, own, ranges):
        return p
    return simplify(p, conjunction([ranges_predicate(ranges), known]))


def _only_renames(here: Mapping[Atom, Affine], own: Ranges, ranges: Ranges) -> bool:
    """Whether `here` maps to distinct indices with the same ranges."""
    for i, a in here.items():
        if len(a.indices) != 1 or a is not atom_affine(a.indices[0]):
            return False
        if isinstance(i, Index) and i in own and ranges.get(a.indices[0]) is not own[i]:
            return False
    return len(set(here.values())) == len(here)


def _product(parts: list[Expr]) -> Expr:
    if len(parts) == 1:
        return parts[0]
    a, b = parts
    return Mul(b, a) if isinstance(b, Const) and not isinstance(a, Const) else Mul(a, b)


def _input(x: Input) -> Expr:
    e: Expr = x.param
    for which in x.path:
        e = Proj(which, e)
    return e
