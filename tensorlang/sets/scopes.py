"""Every variable, index, size, data relation and index array of a program is bound where it is used."""

from __future__ import annotations

from collections.abc import Iterable

from tensorlang.errors import Place, ScopeError
from tensorlang.language.affine import Affine, Index, IndexArray
from tensorlang.language.function import Function
from tensorlang.language.grammar import (
    Access,
    Bracket,
    Choice,
    Expr,
    Extremum,
    Gen,
    Integer,
    Let,
    Recur,
    Sum,
    Var,
    children,
)
from tensorlang.language.predicates import Predicate, Relation, free_atoms, lookups, relations
from tensorlang.language.types import leaves, shape

Name = Var | Index | Relation | IndexArray


def postorder(e: Expr) -> list[Expr]:
    """Every expression in `e` once, each after those in it, in the order of the text."""
    found: dict[Expr, None] = {}
    stack: list[tuple[Expr, bool]] = [(e, False)]
    while stack:
        node, entered = stack.pop()
        if node in found:
            continue
        if entered:
            found[node] = None
        else:
            stack.append((node, True))
            stack += [(child, False) for child in reversed(children(node))]
    return list(found)


def declared_sizes(f: Function) -> list[Affine]:
    """The sizes of arrays and relations among `f`'s parameters, and the ranges of indices, once each."""
    found: dict[Affine, None] = {}
    for p in f.params:
        if isinstance(p, Relation):
            found.update(dict.fromkeys(p.sizes))
        elif isinstance(p, IndexArray):
            found.update(dict.fromkeys((*p.sizes, p.size)))
        else:
            found.update(dict.fromkeys(size for _, part in leaves(p.type) for size in shape(part)[0]))
    return list(found)


def check_scopes(f: Function) -> None:
    """Raise `ScopeError` if something in `f` is not bound where it is used, or two parameters share a name."""
    names: set[str] = set()
    for p in f.params:
        if p.name in names:
            raise ScopeError(f"{f.name} has two parameters called {p.name}")
        names.add(p.name)
    nodes = postorder(f.body)
    declared = declared_sizes(f)
    for size in declared:
        _need_no_index(size, f"a size in the parameters of {f.name}")
    _check_ranges(nodes)
    unbound = _free_names(nodes) - set(f.params)
    if unbound:
        first = min(unbound, key=lambda x: (x.name, x.serial))
        raise _unbound(f, first, _place_of(first, nodes))


def _check_ranges(nodes: list[Expr]) -> None:
    """The ranges of indices are over sizes and integers."""
    for e in nodes:
        if isinstance(e, Gen | Sum | Extremum | Choice | Recur):
            _need_no_index(e.size, f"the range of {e.index.name}")


def _need_no_index(size: Affine, what: str) -> None:
    if size.lookups:
        message = f"{what} must consist of sizes and integers, found {size} with the element {size.lookups[0].name}"
        raise ScopeError(message)
    if size.indices:
        name = size.indices[0].name
        hint = f"a range over a size and a bracket for the rest, as in sum j:n. [j < {name}] * ..."
        raise ScopeError(f"{what} must consist of sizes and integers, found {size} with the index {name}", hint=hint)


def _free_names(nodes: list[Expr]) -> set[Name]:
    """The free names of the last of `nodes`, which are in postorder.

    A set that no other parent needs is reused, not copied, so a long chain of lets takes linear time.
    """
    uses: dict[Expr, int] = dict.fromkeys(nodes, 0)
    for e in nodes:
        for child in children(e):
            uses[child] += 1
    free: dict[Expr, set[Name]] = {}
    for e in nodes:
        parts: list[set[Name]] = [_own_names(e)]
        for k, child in enumerate(children(e)):
            uses[child] -= 1
            part = free[child] if uses[child] else free.pop(child)
            bound = _bound(e, k)
            if uses[child]:
                part = set(part)
            part.difference_update(bound)
            parts.append(part)
        largest = max(parts, key=len)
        for part in parts:
            if part is not largest:
                largest |= part
        free[e] = largest
    return free[nodes[-1]]


def _bound(e: Expr, k: int) -> tuple[Name, ...]:
    """The names that `e` binds in its k-th part."""
    match e:
        case Gen() | Sum() | Extremum() | Choice():
            return (e.index,)
        case Let() if k == 1:
            return (e.var,)
        case Recur() if k == 1:
            return e.index, e.state
        case _:
            return ()


def _own_names(e: Expr) -> set[Name]:
    match e:
        case Var():
            return {e}
        case Access(_, at, _) | Integer(at):
            return {*at.indices, *at.arrays}
        case Bracket(p, _):
            return _names_in(p)
        case Extremum(_, index, _, p, _) | Choice(_, index, _, p, _):
            return _names_in(p) - {index}
        case _:
            return set()


def _names_in(p: Predicate) -> set[Name]:
    indices = (a for a in free_atoms(p) if isinstance(a, Index))
    return {*relations(p), *indices, *(lookup.array for lookup in lookups(p))}


def _place_of(name: Name, nodes: Iterable[Expr]) -> Place | None:
    """The place of the first use of `name` in an access, if known."""
    for e in nodes:
        if isinstance(e, Access) and (e.body is name or name in (*e.at.indices, *e.at.arrays)):
            return e.place
    return None


def _unbound(f: Function, name: Name, place: Place | None) -> ScopeError:
    match name:
        case Var():
            what, hint = "variable", "make it a parameter, or bind it with let"
        case Index():
            what, hint = "index", f"bind it with gen {name.name}:n or sum {name.name}:n around this place"
        case Relation():
            what, hint = "relation", "make it a parameter"
        case IndexArray():
            what, hint = "index array", "make it a parameter, or bind it with let to an argmax or argmin"
    return ScopeError(f"the {what} {name.name} is used in {f.name} where nothing binds it", place, hint)
