"""Verify that some charges never add up to more than others, for all sizes from 1 on and whatever the data: pieces of
the former are carried into pieces of the latter, step by step, each step verified on its own.

A step names a low piece, a high piece, and each index of the low one in terms of the indices of the high one: a map g
from points of the high piece to points of the low one. Each point b of the low piece that g reaches goes to the least
point of the high piece that g sends to b, so different points go to different points. The points used are removed from
the high piece; points of the low one that g does not reach are left to other steps. Nothing is counted, so no
polynomial is needed, and every step holds at all sizes.

`carrying` finds the steps. Soundness rests on `carry` alone, whatever the steps are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice, permutations
from typing import Any

import islpy

from .charges import Charge, Domain
from .facts import Facts, Hidden, Question, fresh, has_data, is_index, places
from .linear import names_of, solve
from .normal import range_of
from .predicates import moved, renamed, told, within
from .semantics import fine, names_in
from .trees import Affine, All, Compare, Element, Exists, Pred, affine, name, number
from .trees import Any as Either

_PARAM = islpy.dim_type.param
_SET = islpy.dim_type.set
_MOST_DIMS = 9
_ORDERS = 24
_FEW = 9
_FEW_DIMS = 3
_SAMPLED = 5

Map = tuple[Affine, ...]
"""Each index of a low piece in terms of those of a high one, $d0, $d1, .."""


@dataclass(frozen=True)
class Step:
    """A step from a low piece to a high one, given by their numbers."""

    low: int
    high: int
    at: Map

    def plain(self) -> list[Any]:
        """The step as a certificate has it."""
        told_at = [
            {**{str(x).removeprefix("$d"): k for x, k in a.terms}, **({"": a.constant} if a.constant else {})}
            for a in self.at
        ]
        return [self.low, self.high, told_at]


@dataclass(frozen=True)
class Open:
    """A low piece with an `exists`, its predicate of number `which`, becomes the piece of its points with their
    witnesses: there are no fewer of these."""

    low: int
    which: int

    def plain(self) -> list[Any]:
        """The step as a certificate has it."""
        return [self.low, "open", self.which]


@dataclass(frozen=True)
class Split:
    """A low piece with an index of few values, the one of number `which`, becomes one piece for each value."""

    low: int
    which: int

    def plain(self) -> list[Any]:
        """The step as a certificate has it."""
        return [self.low, "split", self.which]


Carried = Step | Open | Split


def read_step(held: Any) -> Carried | None:
    """A step from its form in a certificate; None if that is not a step."""
    match held:
        case [int() as low, "open", int() as which]:
            return Open(low, which)
        case [int() as low, "split", int() as which]:
            return Split(low, which)
        case [int() as low, int() as high, list() as at] if all(isinstance(a, dict) for a in at):
            if all(type(k) is int and abs(k) < 1 << 31 for a in at for k in a.values()):
                return Step(low, high, tuple(map(_affine, at)))
    return None


def _affine(held: dict[str, int]) -> Affine:
    """A linear combination: indices by their numbers, sizes by their names, and "" for 1."""
    terms = [(f"$d{x}" if x.isdigit() else x, k) for x, k in held.items() if x]
    return affine([*terms, ("$", 0)], held.get("", 0))


def pieces_of(low: Iterable[Charge], high: Iterable[Charge], facts: Facts, quotients: bool = True) -> list[Charge]:
    """Low charges, and high ones with negative weights, each domain once and in a short form; unless `quotients`,
    without indices that are quotients of others."""
    written = _total(((weight, domain) for weight, domain in (*low, *((-w, d) for w, d in high))), _as_written)
    kept = written if quotients else ((weight, domain.without_quotients(facts)) for weight, domain in written)
    shorter = ((weight, domain.simplified(facts)) for weight, domain in kept)
    return _total(((weight, domain) for weight, domain in shorter if domain is not None), _text)


def without_data(pieces: Iterable[Charge], facts: Facts) -> list[Charge]:
    """The pieces, where low ones have all points that they have for some data, and high ones that depend on data are
    left out: if the low ones then add up to no more, they do so for any data."""
    found = []
    for weight, d in pieces:
        simple = d if not d.has_data else None
        if d.has_data and weight > 0:
            simple = Domain(d.dims, tuple(_weaker(p, facts) for p in d.preds)).simplified(facts)
            simple = simple and Domain(simple.dims, tuple(map(_quotient, simple.preds))).simplified(facts)
        if simple is not None:
            found.append((weight, simple))
    return _total(found, _text)


def witnessed(pieces: Sequence[Charge], facts: Facts) -> list[Charge]:
    """The pieces, where a low piece whose points are each part of a point of a high piece with data gets a predicate
    that says so: then it can be opened."""
    high = [d for weight, d in pieces if weight < 0 and d.has_data]
    return [(weight, _witnessed(d, high, facts) if weight > 0 and not d.has_data else d) for weight, d in pieces]


def _witnessed(d: Domain, high: Iterable[Domain], facts: Facts) -> Domain:
    for h in high:
        for own in permutations(h.dims, len(d.dims)) if len(d.dims) < len(h.dims) <= _FEW_DIMS else ():
            names = {x: name(y) for x, y in zip(own, d.dims, strict=True)}
            some: Pred = All(tuple(renamed(p, names) for p in h.preds))
            for x in (x for x in h.dims if x not in own):
                size = range_of(x, h.preds)
                if size is None:
                    break
                some = Exists(x, size, some)
            else:
                if facts.implies(d.preds, some):
                    return Domain(d.dims, (*d.preds, some))
    return d


def _weaker(p: Pred, facts: Facts) -> Pred:
    """A predicate that holds wherever `p` does, with arbitrary numbers of their ranges for data."""
    match p:
        case Exists(i, size, body):
            return Exists(i, size, _weaker(body, facts))
        case All(parts) | Either(parts):
            return replace(p, parts=tuple(_weaker(part, facts) for part in parts))
        case Compare(equal, value):
            ranges: list[tuple[str, Affine]] = []
            for atom, k in value.terms:
                if isinstance(atom, Element):
                    params, size = facts.arrays[atom.array]
                    ranges.append((fresh("%"), moved(size, dict(zip(params, atom.at, strict=True)) if params else {})))
                    value = value - Affine(((atom, k),)) + name(ranges[-1][0]).times(k)
            found: Pred = Compare(equal, value)
            for own, size in ranges:
                found = Exists(own, size, found)
            return All() if has_data(found) else found
    return All()


def _quotient(p: Pred) -> Pred:
    """exists k:n. 0 <= a - c*k < c, which says that k is the quotient of a, as 0 <= a < c*n."""
    match p:
        case Exists(k, size, All((Compare(False, first), Compare(False, second)))):
            for above, below in ((first, second), (second, first)):
                c = next((-factor for x, factor in above.terms if x == k), 0)
                a = above + name(k).times(c)
                if c > 0 and above + below == number(c - 1) and k not in names_in(a):
                    return within(a, size.times(c))
    return p


def _total(charges: Iterable[Charge], text: Callable[[Domain], object]) -> list[Charge]:
    """The charges of domains that read the same, added up."""
    found: dict[object, Charge] = {}
    for weight, domain in charges:
        key = text(domain)
        before, first = found.get(key, (Fraction(0), domain))
        found[key] = before + weight, first
    return [(weight, domain) for weight, domain in found.values() if weight]


def _as_written(d: Domain) -> object:
    """An object that is the same for domains that differ only in the names of their indices."""
    names = {x: name(f"$d{k}") for k, x in enumerate(d.dims)}
    return len(d.dims), frozenset(told(p, names) for p in d.preds)


def _text(d: Domain) -> object:
    """An object that is the same for domains that differ only in the names and the order of their indices, if these are
    few."""
    orders = permutations(d.dims) if len(d.dims) <= 4 else [d.dims]
    texts = []
    for order in orders:
        names = {x: name(f"$d{k}") for k, x in enumerate(order)}
        texts.append(sorted(repr(told(p, names)) for p in d.preds))
    return len(d.dims), tuple(min(texts))


@dataclass(eq=False)
class Piece:
    """A weight at each point of a set, whose indices are the first of the common ones. The remainder of a piece has no
    domain."""

    weight: Fraction
    dims: int
    points: Any
    domain: Domain | None


class Ledger:
    """The pieces that are to be carried, and the pieces into which. Pieces that are left over get the next numbers."""

    def __init__(self, facts: Facts, pieces: Sequence[Charge]) -> None:
        self.facts = facts
        self.most = max((len(domain.dims) for _, domain in pieces), default=0)
        self.dims = [f"$d{k}" for k in range(self.most)]
        self.question = Question(facts)
        for x in self.dims:
            self.question.text([Compare(False, name(x))])
        self.low: list[Piece] = []
        self.high: list[Piece] = []
        self.steps: list[Carried] = []
        self._mine: dict[tuple[int, int, Map], Any] = {}
        self._samples: dict[Piece, dict[str, int] | None] = {}
        self._around_sample: dict[tuple[Piece, Piece], Any] = {}
        self.is_too_large = self.most > _MOST_DIMS
        if self.is_too_large:
            return
        for _, domain in pieces:
            for order in islice(permutations(domain.dims), _ORDERS) if domain.has_data else [domain.dims]:
                self.question.text(self._placed(order, domain.preds))
        for weight, domain in pieces:
            points = self._set(self._placed(domain.dims, domain.preds))
            if not points.is_empty():
                side = self.low if weight > 0 else self.high
                side.append(Piece(abs(weight), len(domain.dims), points, domain))

    @property
    def is_done(self) -> bool:
        """Whether everything low was carried."""
        return not any(a.weight for a in self.low)

    def follow(self, steps: Iterable[Carried]) -> None:
        """Carry by the steps that a certificate has; wrong steps are skipped."""
        for step in steps:
            match step:
                case Open():
                    self.open(step)
                case Split():
                    self.split(step)
                case Step():
                    self.carry(step)

    def open(self, step: Open) -> bool:
        """Replace a low piece by one that has no fewer points. Return whether that was possible."""
        d = self._waiting(step.low)
        if d is None or not 0 <= step.which < len(d.preds):
            return False
        preds = list(d.preds)
        some = preds.pop(step.which)
        if not isinstance(some, Exists):
            return False
        own = fresh()
        inside = [*fine(within(name(own), some.size)), *fine(renamed(some.body, {some.index: name(own)}))]
        return self._exchange(step, [Domain((*d.dims, own), (*preds, *inside))])

    def split(self, step: Split) -> bool:
        """Replace a low piece by the pieces that it consists of. Return whether that was possible."""
        d = self._waiting(step.low)
        if d is None or not 0 <= step.which < len(d.dims):
            return False
        x = d.dims[step.which]
        values = few_values(x, d.preds)
        if values is None:
            return False
        others = tuple(y for y in d.dims if y != x)
        parts = [Domain(others, tuple(renamed(p, {x: number(k)}) for p in d.preds)) for k in values]
        return self._exchange(step, parts)

    def _waiting(self, low: int) -> Domain | None:
        """The domain of a low piece that is still to be carried as a whole."""
        return self.low[low].domain if 0 <= low < len(self.low) and self.low[low].weight else None

    def _exchange(self, step: Open | Split, domains: Iterable[Domain]) -> bool:
        """Replace a low piece by pieces with these domains, if they can be written."""
        a = self.low[step.low]
        made = []
        for d in domains:
            simple = d.simplified(self.facts)
            if simple is None:
                continue
            if len(simple.dims) > self.most:
                return False
            try:
                points = self._set(self._placed(simple.dims, simple.preds))
            except Hidden:
                return False
            made.append(Piece(a.weight, len(simple.dims), points, simple))
        self.low += made
        a.weight = Fraction(0)
        self.steps.append(step)
        return True

    def carry(self, step: Step, whole: bool = False) -> bool:
        """Carry as `step` says, if `whole` only where that carries all of the low piece. Return whether anything was
        carried."""
        self.facts.budget.spend()
        if not (0 <= step.low < len(self.low) and 0 <= step.high < len(self.high)):
            return False
        a, h = self.low[step.low], self.high[step.high]
        weight = min(a.weight, h.weight)
        if not weight or len(step.at) != a.dims:
            return False
        try:
            found = self._taken(step, a, h, whole)
        except Hidden:
            return False
        if found is None:
            return False
        taken, missed, dims = found
        a.weight -= weight
        h.weight -= weight
        rest = h.points.subtract(taken)
        if not rest.is_empty():
            self.high.append(Piece(weight, h.dims, rest, None))
        if not missed.is_empty():
            self.low.append(Piece(weight, dims, missed, None))
        self.steps.append(step)
        return True

    def _taken(self, step: Step, a: Piece, h: Piece, whole: bool) -> tuple[Any, Any, int] | None:
        """The points of h that are used up, and the points of a that are not reached, with the number of their
        indices."""
        own = self.dims[: h.dims]
        read = names_of(step.at)
        if any(is_index(x) and x not in own for x in read):
            return None
        used = [x for x in own if x in read]
        others = [k for k, x in enumerate(own) if x not in read]
        if not self._is_injective(step.at, used, a):
            return None
        if others and (self._reads_data(h.points) if h.domain is None else self._data_at(h.domain, others)):
            return None
        mine = self._seen(step, a, h)
        if mine is None:
            return None
        if not others:
            taken = mine.intersect(h.points)
            missed = mine.subtract(taken)
            return None if taken.is_empty() or (whole and not missed.is_empty()) else (taken, missed, h.dims)
        for k in (*others, *range(h.dims, self.most)):
            mine = mine.project_out(_PARAM, mine.find_dim_by_name(_PARAM, self._own(k)), 1)
        above = self._with_set_dims(h, others)
        shadow = above.params()
        reached = mine.intersect(shadow)
        missed = mine.subtract(shadow)
        if reached.is_empty() or (not missed.is_empty() and (whole or self._reads_data(missed))):
            return None
        taken = self._without_set_dims(above.intersect_params(reached).lexmin(), others)
        if not missed.is_empty():
            missed = self._first(missed, [self.dims.index(x) for x in used])
        return self._pinned(taken, h.dims), missed, len(used)

    def _is_injective(self, at: Map, used: Sequence[str], a: Piece) -> bool:
        """Whether g, which reads only the indices `used`, sends points that differ in these to different points, and
        reaches all points of a."""
        solved = solve([(e, name(f"$f{k}")) for k, e in enumerate(at)], used)
        if solved is None or solved[0].keys() != set(used) or names_of(solved[0].values()) & set(used):
            return False
        values, rest = solved
        back = [moved(e, values) - name(f"$f{k}") for k, e in enumerate(at)]
        own = {f"$f{k}": name(x) for k, x in enumerate(self.dims)}
        needed = [Compare(True, moved(e, own)) for e in (*rest, *back) if e != Affine(())]
        return not needed or a.points.is_subset(self._set(needed))

    def _seen(self, step: Step, a: Piece, h: Piece) -> Any:
        """The points of the space of h that g sends to points of a; None if they can't be written."""
        key = step.low, h.dims, step.at
        if key not in self._mine:
            self._mine[key] = self._sent(step.at, a, h.dims)
        return self._mine[key]

    def _sent(self, at: Map, a: Piece, dims: int) -> Any:
        zeros = [Compare(True, name(x)) for x in self.dims[dims:]]
        if a.domain is not None:
            names = dict(zip(a.domain.dims, at, strict=True))
            return self._set([*(renamed(p, names) for p in a.domain.preds), *zeros])
        if at == tuple(map(name, self.dims[:dims])):
            return a.points
        if self._reads_data(a.points):
            return None
        points = a.points
        for k in range(self.most):
            own = self._own(k)
            if k < a.dims:
                points = points.set_dim_name(_PARAM, points.find_dim_by_name(_PARAM, own), f"tmp{k}")
            else:
                points = points.project_out(_PARAM, points.find_dim_by_name(_PARAM, own), 1)
        space = ", ".join([*self.question.names.values(), *(f"tmp{k}" for k in range(a.dims))])
        equal = [f"tmp{k} = {self.question.written(e)}" for k, e in enumerate(at)]
        points = points.intersect(islpy.Set(f"[{space}] -> {{ : {' and '.join(equal) or '0 = 0'} }}"))
        for k in range(a.dims):
            points = points.project_out(_PARAM, points.find_dim_by_name(_PARAM, f"tmp{k}"), 1)
        return points.intersect(self._set(zeros))

    # ---- a quick look

    def may_reach_all(self, a: Piece, h: Piece, at: Map) -> bool:
        """Whether g reaches one sample point of a, or this is not easy to decide. Otherwise it doesn't reach all of
        a."""
        sample = self._sample(a)
        if sample is None:
            return True
        own = {self._own(k) for k in range(self.most)}
        if (a, h) not in self._around_sample:
            around = {x: k for x, k in sample.items() if x not in own}
            self._around_sample[a, h] = _fixed(h.points, around)
        found: dict[str, int] = {}
        for k, e in enumerate(at):
            value, signs = sample[self._own(k)] - e.constant, {}
            for x, c in e.terms:
                if isinstance(x, Element) or (is_index(x) and abs(c) != 1):
                    return True
                own_name = self.question.names[x]
                if is_index(x):
                    signs[own_name] = c
                else:
                    value -= c * sample[own_name]
            if len(signs) > 1:
                return True
            if not signs and value:
                return False
            for x, c in signs.items():
                if found.setdefault(x, c * value) != c * value:
                    return False
        return not _fixed(self._around_sample[a, h], found).is_empty()

    def _sample(self, a: Piece) -> dict[str, int] | None:
        """The last point of `a` at some sizes that are not small, as a number for each name in isl; None if there is
        none."""
        if a not in self._samples:
            sizes = (own for x, own in self.question.names.items() if not is_index(x))
            points = _fixed(a.points, {x: _SAMPLED + k for k, x in enumerate(sizes)})
            names = [points.get_dim_name(_PARAM, k) for k in range(points.dim(_PARAM))]
            points = points.move_dims(_SET, 0, _PARAM, 0, len(names))
            self._samples[a] = None
            if not points.is_empty() and points.is_bounded():
                point = points.lexmax().sample_point()
                values = (point.get_coordinate_val(_SET, k).to_python() for k in range(len(names)))
                self._samples[a] = dict(zip(names, values, strict=True))
        return self._samples[a]

    # ---- sets

    def _set(self, preds: Iterable[Pred]) -> Any:
        return self.question.set(self.question.text(preds))

    def _placed(self, dims: tuple[str, ...], preds: Iterable[Pred]) -> list[Pred]:
        """`preds` on `dims` as predicates on the common indices, where the other common indices are 0."""
        names = {x: name(y) for x, y in zip(dims, self.dims, strict=False)}
        return [*(renamed(p, names) for p in preds), *(Compare(True, name(x)) for x in self.dims[len(dims) :])]

    def _own(self, k: int) -> str:
        return self.question.names[self.dims[k]]

    def _pinned(self, points: Any, dims: int) -> Any:
        """`points` with 0 for the indices from `dims` on."""
        for k in range(dims, self.most):
            own = self._own(k)
            points = points.intersect(islpy.Set(f"[{own}] -> {{ : {own} = 0 }}"))
        return points

    def _first(self, points: Any, used: Sequence[int]) -> Any:
        """`points` with the indices `used` in the first places, and 0 for all others."""
        for k in range(self.most):
            at = points.find_dim_by_name(_PARAM, self._own(k))
            if k in used:
                points = points.set_dim_name(_PARAM, at, f"tmp{used.index(k)}")
            elif at >= 0:
                points = points.project_out(_PARAM, at, 1)
        for k in range(len(used)):
            points = points.set_dim_name(_PARAM, points.find_dim_by_name(_PARAM, f"tmp{k}"), self._own(k))
        return self._pinned(points, len(used))

    def _with_set_dims(self, h: Piece, others: Sequence[int]) -> Any:
        """The points of h, with `others` as the indices of the set, and no index beyond those of h."""
        points = h.points
        for k in range(h.dims, self.most):
            points = points.project_out(_PARAM, points.find_dim_by_name(_PARAM, self._own(k)), 1)
        for n, k in enumerate(others):
            points = points.move_dims(_SET, n, _PARAM, points.find_dim_by_name(_PARAM, self._own(k)), 1)
        return points

    def _without_set_dims(self, points: Any, others: Sequence[int]) -> Any:
        for k in others:
            if points.find_dim_by_name(_PARAM, self._own(k)) >= 0:
                raise AssertionError("an index of a section is free")
            points = points.set_dim_name(_SET, 0, self._own(k))
            points = points.move_dims(_PARAM, points.dim(_PARAM), _SET, 0, 1)
        return points.params()

    # ---- data

    def _data_at(self, d: Domain, others: Sequence[int]) -> bool:
        """Whether the points depend on data at places that contain these indices."""
        own = {d.dims[k] for k in others}
        return any(_read_by_data(p) & own for p in d.preds)

    def _reads_data(self, points: Any) -> bool:
        return any(
            points.involves_dims(_PARAM, at, 1)
            for own in self.question.data.values()
            if (at := points.find_dim_by_name(_PARAM, own)) >= 0
        )


def _fixed(points: Any, values: Mapping[str, int]) -> Any:
    """The points at which these names have these values."""
    for x, value in values.items():
        at = points.find_dim_by_name(_PARAM, x)
        if at >= 0:
            points = points.fix_val(_PARAM, at, islpy.Val(value))
    return points


def few_values(x: str, preds: Iterable[Pred]) -> range | None:
    """The values of an index, if some of `preds` say that it is one of a few numbers."""
    least, most = [], []
    for p in preds:
        match p:
            case Compare(False, Affine(((y, 1),), k)) if y == x:
                least.append(-k)
            case Compare(False, Affine(((y, -1),), k)) if y == x:
                most.append(k)
    values = range(max(least), min(most) + 1) if least and most else None
    return values if values is not None and len(values) <= _FEW else None


def _read_by_data(p: Pred) -> frozenset[str]:
    """The names on which data that `p` reads depend."""
    match p:
        case Exists():
            return names_in(p) if has_data(p) else frozenset()
        case All(parts) | Either(parts):
            return frozenset().union(*map(_read_by_data, parts))
    return frozenset().union(*(names_of(r.at) for r in places(p)))
