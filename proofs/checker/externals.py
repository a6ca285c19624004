"""External functions: what a certificate says about functions that are not programs, all of which is assumed.

For each function the file has its signature, its declared cost, and the program that is declared to be its adjoint, if
one is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

from . import syntax, trees
from .budget import Budget
from .facts import Facts, fresh
from .kinds import Kinds, flat_type, shape, type_at
from .predicates import moved
from .trees import Affine, Apply, Exists, External, PairType, Program, Refused, Type

_KEYS = {"signature", "cost", "adjoint"}
_LARGE = 3
"""A cost is at least 0 if it is where each size is either a number below this, or anything from this on."""
_MOST_TERMS = 12


def read_externals(held: Any) -> tuple[dict[str, External], dict[str, Program], list[str]]:
    """The external functions of a certificate, the adjoints of those that have one, by name, and everything that has to
    be assumed of them."""
    _need(isinstance(held, list), "a list of external functions")
    found: dict[str, External] = {}
    for f in held:
        _need(isinstance(f, dict) and f.keys() == _KEYS, f"the keys {sorted(_KEYS)} of an external function")
        _need(isinstance(f["signature"], str) and isinstance(f["adjoint"], str | None), "texts")
        title, params, kind = syntax.signature(f["signature"])
        _need(title not in found, f"{title} once")
        cost = _cost(title, f["cost"])
        found[title] = External(title, params, kind, cost)
        _require_plain(found[title])
    adjoints = {
        title: syntax.program(f["adjoint"], found)
        for title, f in zip(found, held, strict=True)
        if f["adjoint"] is not None
    }
    return found, adjoints, [what for f, told in zip(found.values(), held, strict=True) for what in _assumed(f, told)]


def check_externals(
    externals: Mapping[str, External], adjoints: Mapping[str, Program], programs: Collection[Program], budget: Budget
) -> None:
    """Raise `Refused` unless each of these functions is called, and their adjoints have the types of adjoints."""
    for title, rule in adjoints.items():
        f = externals[title]
        kinds = [flat_type(kind) for _, kind in rule.params]
        own = [flat_type(kind) for _, kind in f.params]
        _need(not rule.sizes, f"no parameters of the adjoint of {title} that are sizes")
        _need(kinds == [*own, flat_type(f.kind), flat_type(f.kind)], f"the adjoint of {title} to take what it has to")
        wanted = own[-1]
        for kind in reversed(own[:-1]):
            wanted = PairType(kind, wanted)
        _need(Kinds.of(Facts(budget), rule).type == wanted, f"the adjoint of {title} to give the cotangents of {title}")
    called: set[str] = set()
    waiting = [f.name for program in programs for f in _called(program.body)]
    while waiting:
        title = waiting.pop()
        if title not in called and title in adjoints:
            waiting += [f.name for f in _called(adjoints[title].body)]
        called.add(title)
    _need(called == externals.keys(), f"the external functions that are called, {sorted(called)}")


def program_at(program: Program, sizes: Mapping[str, Affine]) -> Program:
    """`program` with index expressions substituted for its sizes; bound names are renamed, so nothing is captured."""
    params = tuple((x, type_at(kind, sizes)) for x, kind in program.params)
    return Program(program.name, params, _moved(program.body, sizes))


def _moved(node: Any, names: Mapping[str, Affine]) -> Any:
    if isinstance(node, Affine):
        return moved(node, names)
    if isinstance(node, tuple):
        return tuple(_moved(part, names) for part in node)
    if not hasattr(node, "__dataclass_fields__"):
        return node
    if isinstance(node, trees.Gen | trees.Sum | trees.Best | Exists | trees.Recur):
        size, own = moved(node.size, names), fresh()
        inner = {**names, node.index: trees.name(own)}
        kept = {"index", "size", "init"}
        parts = {key: _moved(getattr(node, key), inner) for key in node.__dataclass_fields__.keys() - kept}
        if isinstance(node, trees.Recur):
            parts["init"] = _moved(node.init, names)
        return replace(node, index=own, size=size, **parts)
    return replace(node, **{key: _moved(getattr(node, key), names) for key in node.__dataclass_fields__})


def _cost(title: str, held: Any) -> tuple[tuple[int, tuple[str, ...]], ...]:
    what = f"the cost of {title} as weights and names of sizes"
    _need(isinstance(held, list) and len(held) <= _MOST_TERMS, what)
    for term in held:
        _need(isinstance(term, list) and len(term) == 2 and type(term[0]) is int and isinstance(term[1], list), what)
        _need(all(isinstance(x, str) for x in term[1]) and abs(term[0]) < 10**12 and len(term[1]) <= _MOST_TERMS, what)
    return tuple((weight, tuple(names)) for weight, names in held)


def _require_plain(f: External) -> None:
    """Refuse `f` unless its parameters are arrays and numbers whose axes determine all sizes, it returns such, and it
    costs no less than 0."""
    told: set[str] = set()
    named: set[str] = {x for _, names in f.cost for x in names}
    _need(bool(f.params) and len({x for x, _ in f.params}) == len(f.params), f"parameters of {f.name}")
    for _, kind in f.params:
        for size in _axes(kind, f.name, pairs=False):
            own = {str(atom) for atom, _ in size.terms}
            named |= own
            told |= {x for x in own if size == trees.name(x)}
    for size in _axes(f.kind, f.name, pairs=True):
        named |= {str(atom) for atom, _ in size.terms}
    _need(named <= told, f"the axes of the parameters of {f.name} to tell {sorted(named - told)}")
    order = sorted({x for _, names in f.cost for x in names})
    _need(len(order) <= 4, f"a cost of {f.name} in a few sizes")
    for values in product((*range(1, _LARGE), None), repeat=len(order)):
        small = {x: value for x, value in zip(order, values, strict=True) if value is not None}
        _need(all(k >= 0 for k in _shifted(f.cost, small).values()), f"{f.name} to cost at least 0 at all sizes")


def _shifted(cost: Iterable[tuple[int, tuple[str, ...]]], small: Mapping[str, int]) -> Counter[tuple[str, ...]]:
    """A cost at these sizes as a polynomial in the amounts by which the other sizes exceed `_LARGE`: monomials, and
    their coefficients."""
    total: Counter[tuple[str, ...]] = Counter()
    for weight, names in cost:
        found: Counter[tuple[str, ...]] = Counter({(): weight})
        for x in sorted(names):
            grown: Counter[tuple[str, ...]] = Counter()
            for monomial, k in found.items():
                grown[monomial] += k * small.get(x, _LARGE)
                if x not in small:
                    grown[*monomial, x] += k
            found = grown
        total.update(found)
    return total


def _axes(kind: Type, title: str, pairs: bool) -> Iterator[Affine]:
    if pairs and isinstance(kind, PairType):
        yield from _axes(kind.first, title, pairs)
        yield from _axes(kind.second, title, pairs)
        return
    sizes, element = shape(kind)
    _need(isinstance(element, trees.Real), f"{title} to be of arrays and numbers")
    yield from sizes


def _called(e: Any) -> Iterator[External]:
    for node in trees.walked(e):
        if isinstance(node, Apply):
            yield node.external


def _assumed(f: External, held: Mapping[str, Any]) -> Iterator[str]:
    """Everything that is assumed, in the words of the file, so a change there changes the report."""
    cost = " + ".join(_term(weight, names) for weight, names in f.cost).replace("+ -", "- ") or "0"
    if held["adjoint"] is not None:
        yield f"the adjoint of {' '.join(held['signature'].split())}, an external function: {_line(held['adjoint'])}"
    yield f"that a call of {f.name} costs {cost}"


def _line(text: str) -> str:
    return " ".join(word for line in text.splitlines() for word in line.partition("--")[0].split())


def _term(weight: int, names: tuple[str, ...]) -> str:
    powers = [x if names.count(x) == 1 else f"{x}^{names.count(x)}" for x in dict.fromkeys(names)]
    return "*".join([*([str(weight)] if weight != 1 or not powers else []), *powers])


def _need(holds: bool, what: str) -> None:
    if not holds:
        raise Refused(f"expected {what}")
