"""Questions about predicates as sets of integer points, answered by isl. Nothing else imports islpy.

Indices range over the integers unless a context says otherwise; sizes are never negative. A data relation holds
wherever it may (inside its declared range) if that makes a set larger, and is otherwise a condition that only itself
implies. An element of an index array may be anything in its range. Every answer below is exact for predicates without
relations and such elements, and safe with them.

Each question is asked of isl once, whatever the names in it: see `encode`. Questions that isl can't answer in
reasonable time get the safe answer, which each function states.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from threading import RLock
from typing import Any, TypeVar

import islpy

from tensorlang.budget import spend
from tensorlang.language.affine import Affine, Atom, Index, Lookup, Size, atom_affine, constant
from tensorlang.language.predicates import (
    FALSE,
    TRUE,
    Equal,
    Exists,
    NonNegative,
    Or,
    Predicate,
    Related,
    at_most,
    conjunction,
    conjuncts,
    disjunction,
    less,
    lookups,
    within,
)
from tensorlang.memory import cached
from tensorlang.sets.encode import MAX_PIECES, Encoder, Formula, Row, TooHard, needs_data, pieces
from tensorlang.sets.match import instances_in
from tensorlang.sets.rows import has_point
from tensorlang.sets.witness import asked, equal_reads, instances, necessary, opened

_context = islpy.Context()
_lock = RLock()
"""Held while isl works, since only one thread at a time may use its context and the operation count in it."""
DIM = islpy.dim_type
"""isl's kinds of dimensions."""
_order = (DIM.cst, DIM.set, DIM.param, DIM.div)
_OPERATIONS = (2_000, 60_000)
"""The number of isl operations allowed for a question, and the number for a second try if these don't suffice."""
_STEPS = (400, 2)
"""The steps of work that a question takes, and those for each isl operation allowed in a try that failed."""
_HUGE = 2**40
_CANDIDATES = 20
_CASES = 4

T = TypeVar("T")


@cached
def is_empty(p: Predicate, context: Predicate = TRUE) -> bool:
    """Whether no point of `context` is in `p`, whatever the data; False if that is too hard to say."""
    both = conjunction([p, context])
    if both is FALSE:
        return True
    if both is TRUE:
        return False
    encoder = Encoder(marks=False)
    try:
        formula = encoder.formula(both)
        return _empty(len(encoder.free), encoder.bound, both_of(formula, encoder.surroundings()))
    except TooHard:
        return False


@cached
def implies(p: Predicate, q: Predicate) -> bool:
    """Whether every point of `p` is in `q`, whatever the data; False if that is too hard to say."""
    if p is FALSE:
        return True
    facts = conjuncts(p)
    return all(obvious(facts, part) or _implies(p, part) for part in conjuncts(q))


def obvious(facts: Collection[Predicate], q: Predicate) -> bool:
    """Whether one of `facts` alone implies `q`, given that sizes are not negative; isl is not asked."""
    if q in facts:
        return True
    if not isinstance(q, NonNegative):
        return False
    known = [fact.value for fact in facts if isinstance(fact, NonNegative) and fact.value.indices == q.value.indices]
    differences = [q.value, *(q.value - a for a in known)]
    return any(d.constant >= 0 and all(k > 0 and isinstance(a, Size) for a, k in d.terms) for d in differences)


def not_implied(parts: Iterable[Predicate], context: Predicate) -> list[Predicate]:
    """The `parts` that remain when each in turn is dropped if `context` and the others that are left imply it.

    Each is encoded as rows only once.
    """
    kept = dict.fromkeys(parts)
    if not kept:
        return []
    encoder = Encoder(marks=False)
    try:
        formulas = {q: encoder.formula(q) for q in kept}
        around = encoder.formula(context)
        around = both_of(around, encoder.surroundings())
    except TooHard:
        formulas = {}
    facts = conjuncts(context)
    for q in tuple(kept):
        del kept[q]
        if obvious((*facts, *kept), q):
            continue
        if q in formulas and isinstance(q, Equal | NonNegative):
            (row, *elements), _ = formulas[q]
            small: Formula = (tuple(elements), ())
            for formula in (around, *(formulas[other] for other in kept)):
                small = both_of(small, formula)
            redundant = _none_fails(len(encoder.free), encoder.bound, small, row)
        else:
            redundant = _implies(conjunction([context, *kept]), q)
        if not redundant:
            kept[q] = None
    return list(kept)


def unanswered(parts: Iterable[Predicate], facts: Predicate) -> tuple[Predicate, ...]:
    """`parts` without conditions on data that follow from the others where `facts` hold, and without comparisons that
    another part obviously implies."""
    kept = list(parts)
    for q in tuple(kept):
        others = [other for other in kept if other is not q]
        asks = isinstance(q, Exists) and needs_data(q)
        if obvious(others, q) if not asks else implies(conjunction([facts, *others]), q):
            kept = others
    return tuple(kept)


def _none_fails(free: int, bound: int, formula: Formula, row: Row) -> bool:
    """Whether `row` holds at all points of `formula`; False if that is too hard to say."""
    equality, value, terms = row
    failures = [(False, -value - 1, tuple((d, -k) for d, k in terms))]
    if equality:
        failures.append((False, value - 1, terms))
    try:
        return all(_empty(free, bound, (formula[0] + (failure,), formula[1])) for failure in failures)
    except TooHard:
        return False


def _implies(p: Predicate, q: Predicate) -> bool:
    if needs_data(q) and not asked(p) >= necessary(q):
        return is_empty(p)
    match q:
        case NonNegative() | Equal():
            return _implies_comparison(p, q) or _implies_equal_read(p, q)
        case Related(_, _) if not needs_data(p):
            return is_empty(p)
        case Related(_, _) if _implies_equal_read(p, q):
            return True
        case Or(parts) if needs_data(q) and (any(implies(p, part) for part in parts) or _in_each_case(p, q)):
            return True
        case Exists() if needs_data(q):  # marks can't express more about data at bound places
            return _has_witness(p, q)
    encoder = Encoder(marks=needs_data(q))
    try:
        small, large = encoder.formula(p), encoder.formula(q, ranged=False)
        if isinstance(q, Or):  # an element that exists is in one of the cases, as 0 or 1 if it is below 2
            small = both_of(small, encoder.formula(conjunction(within(x, n) for x, n in _there(p, q))))
        small = both_of(small, encoder.surroundings())
        return _subset(len(encoder.free), encoder.bound, small, large)
    except TooHard:
        return False


def _there(p: Predicate, q: Predicate) -> list[tuple[Affine, Affine]]:
    """The elements of index arrays that `q` reads and `p` does not, if they exist wherever `p` holds, each with its
    upper bound. Those without a place are left out: they mostly belong to comparisons or choices in a step, where the
    checker of certificates would have to find the same."""
    known = asked(p)
    return [
        (atom_affine(x), x.array.size)
        for x in lookups(q)
        if x.at
        and x.array not in known
        and not x.array.partial
        and implies(p, less(constant(0), x.array.size))
        and all(implies(p, within(a, n)) for a, n in zip(x.at, x.array.sizes, strict=True))
    ]


def _implies_comparison(p: Predicate, q: NonNegative | Equal) -> bool:
    if isinstance(q, NonNegative):
        return is_empty(at_most(q.value, constant(-1)), p)
    a = q.difference
    return is_empty(at_most(a, constant(-1)), p) and is_empty(at_most(constant(1), a), p)


def _implies_equal_read(p: Predicate, q: NonNegative | Equal | Related) -> bool:
    """Whether `p` implies `q`, as an array has equal elements, and a relation equal truth values, at places that `p`
    equates."""
    facts = set(conjuncts(p))
    others = (other for places, other in equal_reads(q, p) if facts.issuperset(conjuncts(places)))
    return any(
        r is TRUE or r in facts or (isinstance(r, NonNegative | Equal) and _implies_comparison(p, r)) for r in others
    )


def _has_witness(p: Predicate, q: Exists) -> bool:
    """Whether reads in `p` provide a witness that `q` is true wherever `p` holds."""
    _, parts = opened(p)
    facts = conjunction(parts)
    if any(all(implies(facts, part) for part in left) for left in instances_in(q, parts)):
        return True
    if any(implies(facts, instance) for instance in instances(q, facts)):
        return True
    return _in_each_case(p, q)


def _in_each_case(p: Predicate, q: Predicate) -> bool:
    """Whether `p` has a disjunction of a few conditions on data, and `q` is true in each of its cases."""
    _, parts = opened(p)
    union = next((part for part in parts if isinstance(part, Or) and asked(part)), None)
    if union is None or len(union.parts) > _CASES:
        return False
    rest = [part for part in parts if part is not union]
    return all(implies(conjunction([*rest, case]), q) for case in union.parts)


def sample(p: Predicate) -> dict[Atom, int] | None:
    """A point of `p`: small values of its free indices, sizes and elements, sizes of at least 1 where they can be.

    Relations hold in it wherever they may; equal places may have different elements. None if there is no point, or
    finding one is too hard.
    """
    encoder = Encoder(marks=False)
    try:
        formula = both_of(encoder.formula(p), encoder.surroundings())
        sizes = tuple(d for atom, d in encoder.free.items() if isinstance(atom, Size))
        point = _point(len(encoder.free), encoder.bound, formula, sizes)
    except TooHard:
        return None
    atoms = [atom for atom in encoder.free if isinstance(atom, Index | Size | Lookup)]
    return None if point is None else dict(zip(atoms, point, strict=True))


def forced_equalities(p: Predicate, context: Predicate = TRUE) -> list[Affine]:
    """Affine expressions that are 0 on all of `p` within `context`, though no conjunct of these is that equality.

    Empty if `p` has no point within `context`, or if it is too hard to say.
    """
    both = conjunction([p, context])
    encoder = Encoder(marks=False)
    try:
        formula = both_of(encoder.formula(both), encoder.surroundings())
        said = tuple(encoder.formula(q, ranged=False)[0][0] for q in conjuncts(both) if isinstance(q, Equal))
        rows = _hull(len(encoder.free), encoder.bound, formula, said)
    except TooHard:
        return []
    found = [encoder.decode(row) for row in rows]
    return [q.difference for q in found if isinstance(q, Equal)]


def gist(p: Predicate, context: Predicate) -> Predicate | None:
    """isl's own short form of `p` within `context`, a union of conjunctions; None if it can't be written as one."""
    encoder = Encoder(marks=True)
    try:
        inner, outer = encoder.formula(p, ranged=False), encoder.formula(context)
        outer = both_of(outer, encoder.surroundings())
        union = _gist(len(encoder.free), encoder.bound, inner, outer)
    except TooHard:
        return None
    if union is None:
        return None
    options = []
    for rows in union:
        parts = [encoder.decode(row) for row in rows]
        if None in parts:
            return None
        options.append(conjunction(part for part in parts if part is not None))
    found = disjunction(options)
    # decoding forgets that data marked 0 could exclude points, so the result is compared with the question
    same = implies(conjunction([p, context]), found) and implies(conjunction([found, context]), p)
    return found if same else None


def counts_everything() -> bool:
    """Whether this islpy was built with barvinok, which counts the points of any polyhedra."""
    return hasattr(islpy.Set, "card")


def both_of(f: Formula, g: Formula) -> Formula:
    """Both formulas."""
    return tuple(dict.fromkeys(f[0] + g[0])), f[1] + g[1]


# The code below talks to isl. Its questions and answers are plain tuples, cached by value.


def remembered(question: Callable[..., T]) -> Callable[..., T]:
    """`question`, asked once for each value of its arguments, and given up after a fixed amount of isl's work.

    The work is counted from here, so a question must not ask another: the answer would depend on what is cached.
    """

    @cached
    def answer(*arguments: Any) -> tuple[T] | None:
        spend(_STEPS[0], "integer sets")
        for operations in _OPERATIONS:
            with _lock:
                _context.set_max_operations(operations)
                _context.reset_operations()
                try:
                    return (question(*arguments),)
                except TooHard:
                    return None
                except (islpy.Error, TypeError):  # a value that isl could not write is None
                    if not _is_spent():
                        raise
            spend(_STEPS[1] * operations, "integer sets")
        return None

    def ask(*arguments: Any) -> T:
        found = answer(*arguments)
        if found is None:
            raise TooHard
        return found[0]

    return ask


def _is_spent() -> bool:
    """Whether isl has no operations left. Its own error message depends on what it was doing."""
    try:
        islpy.Val("1", _context)
    except islpy.Error:
        return True
    return False


@remembered
def _empty(free: int, bound: int, formula: Formula) -> bool:
    return next(_conjunctions(free, bound, formula), None) is None


@remembered
def _subset(free: int, bound: int, small: Formula, large: Formula) -> bool:
    whole = union_of(free, bound, large)
    return all(_project(free, bound, leaf).to_set().is_subset(whole) for leaf in _leaves(free, bound, small))


@remembered
def _point(free: int, bound: int, formula: Formula, sizes: tuple[int, ...]) -> tuple[int, ...] | None:
    """The free dimensions of a point whose sizes have the least sum, from the first box that has one at all."""
    if next(_conjunctions(free, bound, formula), None) is None:
        return None
    total_size = tuple((d, 1) for d in sizes)
    aims = [total_size, *(((d, 1),) for d in range(free))]
    boxes = [(least, below, most) for most in (8, 64, _HUGE) for below in (0, -1, -most) for least in (1, 0)]
    for least, below, most in boxes:
        box: list[Row] = []
        for d in range(free):
            box += [(False, -(least if d in sizes else below), ((d, 1),)), (False, most, ((d, -1),))]
        leaves = islice(_leaves(free, bound, (formula[0] + tuple(box), formula[1])), _CANDIDATES)
        reach = most * (len(sizes) + 1)
        found = [_lowest(free, bound, leaf, aims, reach) for leaf in leaves]
        if found:
            return min(found)[1:]
    return None


def _lowest(free: int, bound: int, points: Any, aims: list[tuple[tuple[int, int], ...]], reach: int) -> tuple[int, ...]:
    """The lexicographic minimum of `aims` over a basic set that is not empty.

    It is found by bisection, since isl's own lexicographic minimum is empty for some orders of the rows.
    """
    values = []
    for terms in aims:
        low, high = -reach, reach
        while low < high:
            middle = (low + high) // 2
            at_most_middle = (False, middle, tuple((d, -k) for d, k in terms))
            if points.intersect(_basic(free, bound, (at_most_middle,))).is_empty():
                low = middle + 1
            else:
                high = middle
        points = points.intersect(_basic(free, bound, ((True, -low, terms),)))
        values.append(low)
    return tuple(values)


@remembered
def _hull(free: int, bound: int, formula: Formula, said: tuple[Row, ...]) -> tuple[Row, ...]:
    union = islpy.Set.empty(_space(free))
    for leaf in _leaves(free, bound, formula):
        union = union.union(_project(free, bound, leaf).to_set())
    if union.is_empty():
        return ()
    hull = union.affine_hull().gist(_basic(free, 0, said))
    return tuple(row for row in _rows(hull, free) or () if row[0])


@remembered
def _gist(free: int, bound: int, inner: Formula, outer: Formula) -> tuple[tuple[Row, ...], ...] | None:
    context = union_of(free, bound, outer)
    union = union_of(free, bound, inner).compute_divs().gist(context).coalesce()
    options = [_rows(basic, free) for basic in union.get_basic_sets()]
    return None if None in options else tuple(option for option in options if option is not None)


def _leaves(free: int, bound: int, formula: Formula) -> Iterator[Any]:
    """The nonempty conjunctions whose union is `formula`, as basic sets over its free and bound dimensions."""
    return (_basic(free, bound, rows) for rows in _conjunctions(free, bound, formula))


def _conjunctions(free: int, bound: int, formula: Formula) -> Iterator[tuple[Row, ...]]:
    """The nonempty conjunctions whose union is `formula`; isl is asked only if elimination can't decide."""
    stack = [formula]
    steps = 0
    while stack:
        rows, choices = stack.pop()
        steps += 1
        if steps > MAX_PIECES:
            raise TooHard
        some = has_point(rows)
        if some is False or (some is not True and _basic(_dimensions(some), 0, some).is_empty()):
            continue
        if not choices:
            yield rows
            continue
        for more_rows, more_choices in reversed(choices[0]):
            stack.append((rows + more_rows, more_choices + choices[1:]))


def _dimensions(rows: tuple[Row, ...]) -> int:
    return 1 + max(d for _, _, terms in rows for d, _ in terms)


def union_of(free: int, bound: int, formula: Formula) -> Any:
    """The projection of a formula to its free dimensions, as an isl set. Raises `TooHard`."""
    if pieces(formula) > MAX_PIECES:
        raise TooHard
    return _project(free, bound, _whole(free, bound, formula))


def _whole(free: int, bound: int, formula: Formula) -> Any:
    rows, choices = formula
    whole = _basic(free, bound, rows).to_set()
    for options in choices:
        union = islpy.Set.empty(_space(free + bound))
        for option in options:
            union = union.union(_whole(free, bound, option))
        whole = whole.intersect(union)
    return whole


def _project(free: int, bound: int, points: Any) -> Any:
    return points.project_out(DIM.set, free, bound) if bound else points


def _space(dimensions: int) -> Any:
    return islpy.Space.set_alloc(_context, 0, dimensions)


@cached
def _value(k: int) -> Any:
    return islpy.Val(str(k), _context)


def _basic(free: int, bound: int, rows: tuple[Row, ...]) -> Any:
    """The points where `rows` hold; a matrix is built seven times faster than isl parses text."""
    width = 1 + free + bound
    matrices = []
    for kind in (True, False):
        chosen = [row for row in rows if row[0] is kind]
        matrix = islpy.Mat.alloc(_context, len(chosen), width)
        for r, (_, value, terms) in enumerate(chosen):
            dense = [0] * width
            dense[0] = value
            for d, k in terms:
                dense[1 + d if d >= 0 else free - d] += k
            for c, k in enumerate(dense):
                matrix = matrix.set_element_val(r, c, _value(k))
        matrices.append(matrix)
    return islpy.BasicSet.from_constraint_matrices(_space(width - 1), matrices[0], matrices[1], *_order)


def _rows(basic: Any, free: int) -> tuple[Row, ...] | None:
    """The rows of a basic set, equalities first; None if they need quotients or remainders."""
    found = all_rows(basic)
    if any(d >= free for _, _, terms in found for d, _ in terms):
        return None
    return tuple(sorted(found, key=lambda row: (not row[0], [d for d, _ in row[2]], [-k for _, k in row[2]], row[1])))


def all_rows(basic: Any) -> list[Row]:
    """The rows of a basic set; its integer divisions come after its dimensions."""
    _context.set_max_operations(0)  # an answer that is there is read in full: isl has no error for half a number
    found: list[Row] = []
    for equality, matrix in ((True, basic.equalities_matrix(*_order)), (False, basic.inequalities_matrix(*_order))):
        for r in range(matrix.rows()):
            dense = [matrix.get_element_val(r, c).to_python() for c in range(matrix.cols())]
            found.append((equality, dense[0], tuple((d, k) for d, k in enumerate(dense[1:]) if k)))
    return found
