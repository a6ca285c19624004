"""Elements computed where they are read, instead of being gathered from an array in memory.

At places that data choose, where the element is cheap:

    let t = gen i, j, l. x[i, l] - c[j, l] in  .. sum l. t[i, j, l]^2 .. t[i, k[i], l] ..
                                           ->  .. sum l. t[i, j, l]^2 .. x[i, l] - c[k[i], l] ..

The sum alone would be fused with t; because of the gather XLA would store all of t. The exception is a t made of
several arrays of its own shape, one of them computed: then an element of t is gathered, rather than one of each.

Also at places that mix indices, where each element is read only once, so that nothing is computed twice:

    let t = gen k:17, j. y[k + j - 8] * x[j] in  gen i, j. [-8 <= i - j <= 8] * t[i - j + 8, j]
                                             ->  gen i, j. [-8 <= i - j <= 8] * y[i] * x[j]

Also where few of its elements are read, one column or a band for example:

    let t = gen i, j. [p] * x[i] + [q] * y[i, j - i + 3] in  gen i. sum j:7. exp(t[i, i + j - 3])
                                             ->  gen i. sum j:7. exp([p] * x[i] + [q] * y[i, j])

Also outer products that some sum reads at such places: without the array the sum is a correlation, and other readers
can sum up one factor after the other.

    let t = gen i, j. y[i] * x[j] in  gen k. sum j. t[k + j, j]  ->  gen k. sum j. y[k + j] * x[j]

Also products of vectors that are only read in sums of products of vectors, or along lines: such sums are taken apart
(`arrays.sums.factor`), and no array of pairs is needed.

    let t = gen i, j. [p] * y[i] * x[j] in  gen i. sum j, k. [q] * t[j, k] * z[k]
                                        ->  gen i. sum j, k. [q and p] * y[j] * x[k] * z[k]

Also matrices that are sums of such products and of structured matrices, where they multiply vectors:

    let t = gen i, j. y[i - j + n] + u[i] * v[j] in  gen i. sum j. t[i, j] * x[j]
                                                 ->  gen i. sum j. (y[i - j + n] + u[i] * v[j]) * x[j]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace

from tensorlang.language.affine import Affine, Index, is_long
from tensorlang.language.function import Function
from tensorlang.language.grammar import (
    Add,
    Bracket,
    Choice,
    Const,
    Expr,
    Extremum,
    Gen,
    Let,
    Mul,
    Sum,
    Var,
    bracket,
    children,
    number,
)
from tensorlang.language.lets import bindings
from tensorlang.language.predicates import FALSE, conjunction, conjuncts, free_atoms, within
from tensorlang.language.rebuilt import rewrite, with_atoms, with_children
from tensorlang.language.types import shape
from tensorlang.lowering.plan.dependence import are_apart, places, reads, results, variable
from tensorlang.recursion import Deep, call, run
from tensorlang.sets.isl import unanswered
from tensorlang.sets.scopes import postorder

_CHEAP = 4
"""The most additions and multiplications of an element that is computed again rather than gathered."""

_MANY = 16
"""The same where elements are read once, or in sums of products that are taken apart, and so summed term by term."""

_Made = tuple[tuple[Index, ...], Expr]
"""The indices of an array, and its element at these."""


def inline(f: Function) -> Function:
    """`f` with elements computed where they are read at chosen places, or once at places that mix indices."""
    return replace(f, body=run(_Rewriting(_read_once(f) | _read_little(f) | _outer_products(f)).of(f.body)))


def inline_matrices(f: Function) -> Function:
    """`f` with products of vectors, and sums of these and structured matrices, computed where they multiply vectors."""
    found = _products_of_vectors(f)
    return replace(f, body=run(_Rewriting(found).of(f.body))) if found else f


def _read_once(f: Function) -> set[Var]:
    """The variables each of whose elements is read at most once, at places that mix indices."""
    count: Counter[Var] = Counter()
    found: set[Var] = set()
    given, body = bindings(f.body)
    for whole in (*(e for _, e in given), *results(body)):
        own, e = [], whole
        while isinstance(e, Gen):
            own.append(e.index)
            e = e.body
        for read in reads(e):
            x = variable(read)
            assert x is not None
            count[x] += 1
            at = places(read)
            plain = all(not a.lookups and set(a.indices) <= set(own) for a in at)
            if plain and any(len(a.indices) > 1 for a in at) and are_apart(at, own):
                found.add(x)
    return {x for x in found if count[x] == 1}


def _read_little(f: Function) -> set[Var]:
    """The variables with more long axes than any of their readers has long indices."""
    given, body = bindings(f.body)
    long = {x: sum(map(is_long, shape(x.type)[0])) for x, _ in given if isinstance(x, Var)}
    found = {x for x, axes in long.items() if axes > 1}
    stack: list[tuple[Expr, int]] = [(e, 0) for e in (*(e for _, e in given), *results(body))] if found else []
    seen = set(stack)
    while stack:
        e, around = stack.pop()
        x = variable(e)
        if x is not None:
            if around >= long.get(x, 0) or len(places(e)) < len(shape(x.type)[0]):
                found.discard(x)
            continue
        inner = around + (isinstance(e, Gen | Sum | Extremum | Choice) and is_long(e.size))
        fresh = [(child, inner) for child in children(e) if (child, inner) not in seen]
        seen.update(fresh)
        stack += fresh
    return found


def _outer_products(f: Function) -> set[Var]:
    """The variables that are outer products of two arrays, read only element by element, some of it by a sum at places
    that mix its indices with others."""
    given, body = bindings(f.body)
    found = {x for x, e in given if isinstance(x, Var) and _is_outer_product(e)}
    if not found:
        return set()
    mixed: set[Var] = set()
    for whole in (*(e for _, e in given), *results(body)):
        stack: list[tuple[Expr, frozenset[Index]]] = [(whole, frozenset())]
        seen = set(stack)
        while stack:
            e, summed = stack.pop()
            x = variable(e)
            if x is not None:
                at = places(e)
                if len(at) < len(shape(x.type)[0]):
                    found.discard(x)
                if any(len(a.indices) > 1 and not summed.isdisjoint(a.indices) for a in at):
                    mixed.add(x)
                continue
            inner = summed | {e.index} if isinstance(e, Sum) else summed
            fresh = [(child, inner) for child in children(e) if (child, inner) not in seen]
            seen.update(fresh)
            stack += fresh
    return found & mixed


def _is_outer_product(e: Expr) -> bool:
    own: set[Index] = set()
    while isinstance(e, Gen):
        own.add(e.index)
        e = e.body
    if not isinstance(e, Mul) or variable(e.left) is None or variable(e.right) is None:
        return False
    left, right = map(_indices, (e.left, e.right))
    return bool(left and right) and left.isdisjoint(right) and left | right == own


def _products_of_vectors(f: Function) -> set[Var]:
    """The variables with at least two long axes that are products of vectors, or sums of products with arrays of one
    long axis, and that are only read in sums of products of vectors or along lines."""
    given, body = bindings(f.body)
    found: set[Var] = set()
    for x, e in given:
        if isinstance(x, Var) and _is_of_vectors(e, found):
            found.add(x)
    while found:
        wrong = _misread([e for x, e in given if x not in found] + list(results(body)), found)
        if not wrong:
            break
        found -= wrong
    return found


def _misread(several: Sequence[Expr], found: Set[Var]) -> set[Var]:
    """The variables in `found` that are also read in other ways than in sums of products of vectors or along lines."""
    stack = [(e, False) for e in several]
    seen, wrong = set(stack), set()
    short: set[Index] = set()
    while stack:
        e, is_reduced = stack.pop()
        if isinstance(e, Gen) and not is_long(e.size):
            short.add(e.index)
        if (x := variable(e)) is not None:
            wrong |= {x} & found if is_reduced or not _is_along_line(e, short) else set()
        elif not (isinstance(e, Sum) and all(_is_well(part, found) for part in _factors(e))):
            is_reduced = is_reduced or isinstance(e, Sum | Extremum)
            fresh = [(child, is_reduced) for child in children(e) if (child, is_reduced) not in seen]
            seen.update(fresh)
            stack += fresh
    return wrong


def _is_well(e: Expr, found: Set[Var]) -> bool:
    """Whether `e` is a factor of a sum of products of vectors, or a sum of terms that are such products."""
    terms = [_factors(term) for term in _terms(e)]
    return all(_is_read_well(part, found) or (len(terms) > 1 and _is_line(part)) for parts in terms for part in parts)


def _is_along_line(read: Expr, short: Set[Index]) -> bool:
    """Whether the places of `read` depend on fewer indices than it has axes, `short` ones aside, and on no data."""
    at = places(read)
    return bool(at) and len(_indices(read) - short) < len(at) and not any(a.lookups for a in at)


def _is_of_vectors(e: Expr, found: Set[Var]) -> bool:
    own: dict[Index, Affine] = {}
    while isinstance(e, Gen):
        own[e.index] = e.size
        e = e.body
    read = {i for term in _terms(e) for part in _factors(term) for i in _indices(part)}
    read |= {a for part in postorder(e) if isinstance(part, Bracket) for a in free_atoms(part.pred) if a in own}
    long = [i for i, size in own.items() if is_long(size)]
    return len(long) > 1 and own.keys() == read and _is_well(e, found)


def _terms(e: Expr) -> list[Expr]:
    """The terms of a sum, under conditions or not."""
    found: list[Expr] = []
    waiting = [e]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Add):
            waiting += (part.right, part.left)
        elif isinstance(part, Bracket):
            waiting.append(part.body)
        else:
            found.append(part)
    return found


def _is_line(e: Expr) -> bool:
    """Whether `e` is an element of an array with at most one long axis."""
    x = variable(e)
    return x is not None and sum(map(is_long, shape(x.type)[0])) <= 1


def _factors(e: Expr) -> list[Expr]:
    """The factors of a product, in a sum and under conditions or not."""
    found: list[Expr] = []
    waiting = [e]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Mul):
            waiting += (part.right, part.left)
        elif isinstance(part, Bracket | Sum):
            waiting.append(part.body)
        else:
            found.append(part)
    return found


def _indices(read: Expr) -> set[Index]:
    return {i for a in places(read) for i in a.free if isinstance(i, Index)}


def _is_vector(e: Expr) -> bool:
    """Whether `e` is a number, or an element that one index determines."""
    return isinstance(e, Const) or (variable(e) is not None and len(_indices(e)) <= 1)


def _is_read_well(e: Expr, found: Set[Var]) -> bool:
    """Whether `e` is a factor of a sum of products of vectors, one of `found` among them."""
    return _is_vector(e) or (variable(e) in found and not any(a.lookups for a in places(e)))


@dataclass
class _Rewriting:
    once: set[Var]
    cheap: dict[Var, _Made] = field(default_factory=dict)
    computed: set[Var] = field(default_factory=set)
    """The variables that are not cheap."""
    memo: dict[Expr, Expr] = field(default_factory=dict)

    def of(self, e: Expr) -> Deep[Expr]:
        if e not in self.memo:
            x = variable(e)
            if x is not None and x in self.cheap and (x in self.once or any(a.lookups for a in places(e))):
                own, body = self.cheap[x]
                at = places(e)
                element = _unguarded(with_atoms(body, dict(zip(own, at, strict=True))), at)
                self.memo[e] = rewrite(element, lambda _: None, lambda _, new: _without_zeros(new))
            elif isinstance(e, Let):
                value = yield from call(self.of(e.value))
                if isinstance(e.var, Var):
                    made = _cheap(value, _MANY if e.var in self.once else _CHEAP)
                    if made is None:
                        self.computed.add(e.var)
                    elif e.var in self.once or not self._is_of_several(made):
                        self.cheap[e.var] = made
                body = yield from call(self.of(e.body))
                self.memo[e] = body if e.var in self.once and e.var in self.cheap else Let(e.var, value, body)
            else:
                parts = []
                for part in children(e):
                    parts.append((yield from call(self.of(part))))
                self.memo[e] = _without_zeros(_with_conditions_outside(with_children(e, parts)))
        return self.memo[e]

    def _is_of_several(self, made: _Made) -> bool:
        """Whether each element reads several arrays at all its indices, one of them computed anyway: then gathering it
        takes less work than gathering an element of each."""
        own, e = made
        whole = {variable(read) for read in reads(e) if {i for a in places(read) for i in a.indices} == set(own)}
        return len(whole) > 1 and not self.computed.isdisjoint(whole)


def _unguarded(e: Expr, at: Sequence[Affine]) -> Expr:
    """`e` without conditions that hold since it is read `at` places that data choose: exists k:n. y[k] = y[i]."""
    chosen = [x for a in at for x in a.lookups]
    inside = conjunction(within(a, n) for x in chosen for a, n in zip(x.at, x.array.sizes, strict=True))

    def answered(_: Expr, new: Expr) -> Expr:
        if not isinstance(new, Bracket):
            return new
        return bracket(conjunction(unanswered(conjuncts(new.pred), inside)), new.body)

    return rewrite(e, lambda _: None, answered) if chosen else e


def _without_zeros(e: Expr) -> Expr:
    """`e` without terms and factors that are zero, where its parts are without them already."""
    match e:
        case Bracket(p, _) if p is FALSE:
            return number(0)
        case Add(a, Const(0), _) | Add(Const(0), a, 1):
            return a
        case Mul(Const(0), _) | Mul(_, Const(0)) | Sum(_, _, Const(0)):
            return number(0)
        case _:
            return e


def _with_conditions_outside(e: Expr) -> Expr:
    """`e` with the conditions of the factors of a product in one bracket around it."""
    match e:
        case Bracket(p, a):
            return bracket(p, a)
        case Mul(Bracket(p, a), Bracket(q, b)):
            return bracket(conjunction([p, q]), Mul(a, b))
        case Mul(Bracket(p, a), b) | Mul(a, Bracket(p, b)):
            return bracket(p, Mul(a, b))
        case _:
            return e


def _cheap(e: Expr, most: int) -> _Made | None:
    """The element of an array, if it takes one to `most` additions and multiplications, and no other operations."""
    own: list[Index] = []
    while isinstance(e, Gen):
        own.append(e.index)
        e = e.body
    operations = 0
    stack: list[Expr] = [e]
    while stack:
        part = stack.pop()
        if isinstance(part, Add | Mul):
            operations += 1
        elif variable(part) is not None or isinstance(part, Const):
            continue
        elif not isinstance(part, Bracket):
            return None
        stack += children(part)
    return (tuple(own), e) if own and 0 < operations <= most else None
