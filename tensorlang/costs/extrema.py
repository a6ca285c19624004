"""Extrema over no point at given sizes, found before anything runs."""

from __future__ import annotations

from collections.abc import Mapping

from tensorlang.costs.cost import visits
from tensorlang.costs.counter import Counter
from tensorlang.costs.domains import Domain
from tensorlang.language.affine import Size, constant
from tensorlang.language.function import Function
from tensorlang.language.grammar import Choice, Extremum
from tensorlang.language.grid import Setting, expand, holds
from tensorlang.language.points import ORIGIN
from tensorlang.language.predicates import TRUE, Predicate, conjunction, conjuncts, less, lookups, relations
from tensorlang.language.show import predicate_text
from tensorlang.memory import cached
from tensorlang.sets.solve import project

_SEARCHED = 1_000_000


def empty_extremum(f: Function, sizes: Mapping[Size, int]) -> str | None:
    """The error message if at these sizes an extremum or choice of `f` has no point where it is evaluated; else None.

    Only parts of conditions that read no data are considered, so it is None if the answer depends on data. Raises
    `LimitError` if too many points would have to be enumerated.
    """
    return _empty_extremum(f, tuple(sizes.items()))


@cached
def _empty_extremum(f: Function, sizes: tuple[tuple[Size, int], ...]) -> str | None:
    if not f.census.has(Extremum, Choice):
        return None  # without the domains of everything in it
    setting = Setting(dict(sizes))
    counter = Counter(setting)
    for e, domain, _ in visits(f.body):
        if isinstance(e, Extremum | Choice):
            ranges = dict(domain.binders)
            known = conjunction(p for p in conjuncts(e.pred) if not _has_data(p))
            some = less(constant(0), e.size) if known is TRUE else project({e.index: e.size}, known, ranges)
            if _has_data(domain.pred) or _has_data(some):
                continue
            if counter.points(domain) > counter.points(domain.under(some)):
                condition = "" if e.pred is TRUE else f" where {predicate_text(e.pred)}"
                return f"{e.word} {e.index.name}:{e.size}{condition} is over no point{_where(domain, some, counter)}"
    return None


def _has_data(p: Predicate) -> bool:
    return bool(relations(p) or lookups(p))


def _where(domain: Domain, some: Predicate, counter: Counter) -> str:
    """The first point of `domain` at which `some` is false, and the sizes, as text."""
    told = {size.name: n for size, n in counter.setting.sizes.items()}
    if counter.points(domain) <= _SEARCHED:
        points, _ = expand(ORIGIN, domain.binders, domain.pred, counter.setting)
        first = int((~holds(some, points, counter.setting)).argmax())
        told = {index.name: int(points.columns[index][first]) for index, _ in domain.binders} | told
    return f" at {', '.join(f'{name} = {value}' for name, value in told.items())}" if told else ""
