"""Sharing: a value that a Python program uses twice is computed once.

The embedding gives a graph in which a Python value is one node, however often it is used. `share` turns it into a
program with lets for shared nodes:

    e * e                                  ->  let t = e in t * t
    y made outside:  sum k:n. f(y[k])      ->  let y = .. in sum k:n. f(y[k])
    [p]*f(e) + [q]*g(e)                    ->  let t = [p or q] * e in [p]*f(t) + [q]*g(t)

A let goes as far inside as its uses allow. It computes nothing that the uses would not have computed: its value is
bracketed by the condition under which some use is reached, with the indices between the let and the use quantified. So
neither the bounds of an access, nor the domain of a logarithm, nor the cost gets worse.

Chosen indices are looked up by name, so they get a let even for one use. A bracket that looks one up may have lets
directly under it, since its condition can't be expressed further outside; a value that is used under several such
brackets is computed regardless of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tensorlang.language.affine import Affine, Index, IndexArray, constant
from tensorlang.language.grammar import (
    Access,
    Add,
    Apply,
    Bracket,
    Call,
    Choice,
    Compared,
    Expr,
    Extremum,
    Gen,
    Integer,
    Let,
    Mul,
    Proj,
    Recur,
    Sum,
    Var,
    bracket,
    children,
)
from tensorlang.language.lets import under
from tensorlang.language.predicates import (
    TRUE,
    Exists,
    Or,
    Predicate,
    at_most,
    conjunction,
    conjuncts,
    disjunction,
    lookups,
)
from tensorlang.language.rebuilt import with_children
from tensorlang.language.types import of_indices
from tensorlang.sets.simplify import simplify
from tensorlang.sets.solve import project, ranges_predicate
from tensorlang.surface.guards import guard

Binding = Index | Var | IndexArray
_ARITHMETIC = (Add, Mul, Call, Sum, Extremum, Choice, Compared, Recur, Apply)
Path = tuple["Path", Predicate] | None
"""The brackets between the top of a scope and a place in it, innermost first."""


@dataclass(eq=False, slots=True)
class _Scope:
    """The inside of a binder, below the brackets that directly follow it; lets of the scope are written there.

    `given` holds in it without being stated there.
    """

    parent: _Scope | None
    path: Path
    binding: Binding | None
    size: Affine | None
    given: Predicate
    lead: Predicate
    core: Expr
    sums: bool
    depth: int = 0
    state: Var | None = None
    support: Predicate | None = None
    lets: list[tuple[Var | IndexArray, Expr]] = field(default_factory=list)


def share(
    e: Expr,
    names: Mapping[Expr, str] | None = None,
    made_under: Mapping[Expr, tuple[Index | Var, ...]] | None = None,
    choices: Mapping[IndexArray, Expr] | None = None,
    shared: tuple[type[Expr], ...] = _ARITHMETIC,
) -> Expr:
    """`e` with a let for each value with arithmetic in it that is reached more than once.

    `made_under` has the binders inside which a value was made. A value used under further binders is computed outside
    of them, so that a loop does not repeat it. `names` has names for the lets, where known. `choices` are the values of
    index arrays that nothing binds yet. With `shared`, only values that contain such nodes are shared.
    """
    return _Sharing(e, names or {}, made_under or {}, choices or {}, shared).result()


class _Sharing:
    def __init__(
        self,
        e: Expr,
        names: Mapping[Expr, str],
        made_under: Mapping[Expr, tuple[Index | Var, ...]],
        choices: Mapping[IndexArray, Expr],
        arithmetic: tuple[type[Expr], ...],
    ) -> None:
        self.arithmetic = arithmetic
        self.root, self.names, self.made_under, self.choices = e, names, made_under, choices
        self.chosen: dict[Expr, IndexArray] = {}
        self.bound: set[IndexArray] = set(choices)
        self.order = self._with_arithmetic(e)
        self.uses: dict[Expr, list[tuple[_Scope, Path]]] = {node: [] for node in self.order}
        self.scopes: dict[Expr, _Scope] = {}
        self.shared: dict[Expr, tuple[_Scope, Predicate]] = {}
        self.new: dict[Expr, Expr] = {}
        self.light: set[Expr] = set()

    def result(self) -> Expr:
        top = self._enter(None, None, None, None, TRUE, self.root, False)
        for node in reversed(self.order):  # every use of a node comes before it
            self._place(node)
        for node in self.order:  # every part of a node comes before it
            self._rebuild(node)
        return self._close(top, self.root)

    def _with_arithmetic(self, e: Expr) -> list[Expr]:
        """The nodes under `e` with arithmetic or choices in them, each after its parts.

        Brackets are left out, except for those that look up a choice.
        """
        order: list[Expr] = []
        heavy: dict[Expr, bool] = {}
        stack = [(e, False)]
        while stack:
            node, finished = stack.pop()
            if finished:
                parts = self._parts(node)
                opaque = self._looks_up_choices(node)
                heavy[node] = opaque or isinstance(node, self.arithmetic) or any(heavy[part] for part in parts)
                if heavy[node] and (opaque or not isinstance(node, Bracket)):
                    order.append(node)
            elif node not in heavy:
                heavy[node] = False
                if isinstance(node, Let) and isinstance(node.var, IndexArray):
                    self.bound.add(node.var)
                stack.append((node, True))
                stack += [(part, False) for part in reversed(self._parts(node)) if part not in heavy]
        return order

    def _parts(self, e: Expr) -> list[Expr]:
        """The expressions that `e` needs: those under it, and the choices that it looks up."""
        found = list(children(e))
        for array in _looked_up(e) if self.choices else ():
            if array in self.choices:
                self.chosen[self.choices[array]] = array
                found.append(self.choices[array])
        return found

    def _looks_up_choices(self, e: Expr) -> bool:
        return bool(self.bound) and any(array in self.bound for array in _looked_up(e))

    def _sayable(self, p: Predicate) -> Predicate:
        """The conjuncts of `p` that don't look up choices."""
        return conjunction(filter(self._is_sayable, conjuncts(p))) if self.bound else p

    def _is_sayable(self, p: Predicate) -> bool:
        return not any(lookup.array in self.bound for lookup in lookups(p))

    def _strip(self, e: Expr) -> tuple[Predicate, Expr]:
        """The brackets at the head of `e` that don't look up choices, and what is under them."""
        if not isinstance(e, Bracket):
            return TRUE, e
        parts: list[Predicate] = []
        while isinstance(e, Bracket) and not self._looks_up_choices(e):
            parts.append(e.pred)
            e = e.body
        return conjunction(parts), e

    def _use(self, e: Expr, scope: _Scope, path: Path) -> None:
        p, e = self._strip(e)
        if e in self.uses:
            self.uses[e].append((scope, path if p is TRUE else (path, p)))

    def _enter(
        self,
        parent: _Scope | None,
        path: Path,
        binding: Binding | None,
        size: Affine | None,
        given: Predicate,
        body: Expr,
        sums: bool,
    ) -> _Scope:
        lead, core = self._strip(body)
        depth = 0 if parent is None else parent.depth + 1
        scope = _Scope(parent, path, binding, size, self._sayable(given), lead, core, sums, depth)
        self._use(core, scope, None)
        return scope

    def _place(self, e: Expr) -> None:
        uses = self.uses[e]
        scope, path = uses[0]
        for other, _ in uses[1:]:
            scope = _common(scope, other)
        outer = self._outside_of_loops(e, scope)
        if len(uses) > 1 or outer is not scope or e in self.chosen:
            reached = _not_known(_either([_condition(*use, outer) for use in uses]), outer, e)
            scope, path = outer, (None, reached)
            said = conjuncts(self._summed_support(outer))
            self.shared[e] = (outer, conjunction([p for p in conjuncts(reached) if p not in said]))
        for array in _looked_up(e) if self.choices else ():
            if array in self.choices:
                # the other parts of the condition guard the choice that it looks up
                where = guard(e.pred, array, self._is_sayable) if isinstance(e, Bracket) else TRUE
                self._use(self.choices[array], scope, path if where is TRUE else (path, where))
        match e:
            case Gen(i, size, body) | Sum(i, size, body):
                self.scopes[e] = self._enter(scope, path, i, size, TRUE, body, isinstance(e, Sum))
            case Extremum(_, i, size, p, body) | Choice(_, i, size, p, body):
                self.scopes[e] = self._enter(scope, path, i, size, p, body, False)
            case Recur(_, t, size, state, init, step):
                self._use(init, scope, path)
                self.scopes[e] = self._enter(scope, path, t, size, TRUE, step, False)
                self.scopes[e].state = state
            case Let(x, value, body):
                self._use(value, scope, path)
                self.scopes[e] = self._enter(scope, path, x, None, TRUE, body, False)
            case Bracket(p, body):
                self.scopes[e] = self._enter(scope, path, None, None, p, body, False)
            case _:
                for part in children(e):
                    self._use(part, scope, path)

    def _outside_of_loops(self, e: Expr, scope: _Scope) -> _Scope:
        """The scope around the outermost loop between the place where `e` was made and `scope`; else `scope`."""
        if e not in self.made_under:
            return scope
        opened = self.made_under[e]
        outer = scope
        while scope.parent is not None and scope.binding not in opened and scope.state not in opened:
            if scope.size is not None:
                outer = scope.parent
            scope = scope.parent
        return outer

    def _rebuild(self, e: Expr) -> None:
        new = self._with_new_parts(e)
        if e in self.chosen:
            scope, guard = self.shared[e]
            scope.lets.append((self.chosen[e], bracket(guard, new)))
        elif not (isinstance(e, self.arithmetic) or self._has_lets(e) or any(map(self._heavy, children(e)))):
            self.light.add(e)
        elif of_indices(e.type):
            pass  # an element of a gen; only the array as a whole gets a name
        elif e in self.shared:
            scope, guard = self.shared[e]
            var = Var(self.names.get(e, "t"), e.type)
            scope.lets.append((var, bracket(guard, new)))
            self.light.add(e)
            new = var
        self.new[e] = new

    def _has_lets(self, e: Expr) -> bool:
        return e in self.scopes and bool(self.scopes[e].lets)

    def _heavy(self, e: Expr) -> bool:
        core = self._strip(e)[1]
        return core in self.new and core not in self.light

    def _with_new_parts(self, e: Expr) -> Expr:
        match e:
            case Gen(_, _, body) | Sum(_, _, body) | Extremum(_, _, _, _, body) | Choice(_, _, _, _, body):
                return with_children(e, [self._close(self.scopes[e], body)])
            case Recur(_, _, _, _, init, step):
                return with_children(e, [self._ref(init), self._close(self.scopes[e], step)])
            case Let(x, value, body):
                return Let(x, self._ref(value), self._close(self.scopes[e], body))
            case Bracket(p, body):
                return bracket(p, self._close(self.scopes[e], body))
            case _:
                return with_children(e, [self._ref(part) for part in children(e)])

    def _ref(self, e: Expr) -> Expr:
        p, core = self._strip(e)
        new = self.new.get(core, core)
        return e if new is core else bracket(p, new)

    def _summed_support(self, scope: _Scope) -> Predicate:
        """If the scope's core is a sum directly under a sum, where it is not empty; else true.

        Directly nested sums are counted together (rule (**)): a let between them costs nothing only if the outer sum
        skips the points at which the inner one is empty.
        """
        if scope.support is None:
            scope.support = self._support(scope.core) if scope.sums and isinstance(scope.core, Sum) else TRUE
        return scope.support

    def _support(self, e: Expr) -> Predicate:
        """Where the directly nested sums `e` have a point."""
        binders: dict[Index, Affine] = {}
        parts: list[Predicate] = []
        while isinstance(e, Sum):
            binders[e.index] = e.size
            p, e = self._strip(e.body)
            parts.append(p)
        return project(binders, conjunction(parts), {})

    def _close(self, scope: _Scope, body: Expr) -> Expr:
        """The new `body` of a scope, with its lets."""
        core = self.new.get(scope.core, scope.core)
        if core is scope.core and not scope.lets:
            return body
        lead = scope.lead
        if scope.lets or not isinstance(core, Sum):
            lead = conjunction([lead, self._summed_support(scope)])
        return bracket(lead, under(scope.lets, core))


def _looked_up(e: Expr) -> tuple[IndexArray, ...]:
    """The index arrays in which `e` itself, apart from its parts, looks up elements."""
    match e:
        case Access(_, at, _) | Integer(at):
            return at.arrays
        case Bracket(p, _) | Extremum(_, _, _, p, _) | Choice(_, _, _, p, _):
            return tuple(dict.fromkeys(lookup.array for lookup in lookups(p)))
        case _:
            return ()


def _common(a: _Scope, b: _Scope) -> _Scope:
    """The innermost scope around both."""
    while a is not b:
        if a.depth < b.depth:
            a, b = b, a
        if a.parent is not None:
            a = a.parent
    return a


def _condition(scope: _Scope, path: Path, outer: _Scope) -> Predicate:
    """The condition, seen from `outer`, under which the place at `path` in `scope` is reached for some value of each
    index between them."""
    p = _along(path)
    while scope is not outer and scope.parent is not None:
        p = conjunction([scope.given, scope.lead, p])
        if isinstance(scope.binding, Index) and scope.size is not None:
            p = project({scope.binding: scope.size}, p, _ranges(scope.parent))
        p = conjunction([_along(scope.path), p])
        scope = scope.parent
    return p


def _along(path: Path) -> Predicate:
    parts: list[Predicate] = []
    while path is not None:
        path, p = path
        parts.append(p)
    return conjunction(reversed(parts))


def _ranges(scope: _Scope | None) -> dict[Index, Affine]:
    found: dict[Index, Affine] = {}
    while scope is not None:
        if isinstance(scope.binding, Index) and scope.size is not None:
            found[scope.binding] = scope.size
        scope = scope.parent
    return found


def _either(conditions: list[Predicate]) -> Predicate:
    """The disjunction of the conditions, with common conjuncts factored out."""
    sets = [dict.fromkeys(conjuncts(p)) for p in dict.fromkeys(conditions)]
    common = [p for p in sets[0] if all(p in s for s in sets)]
    rest = disjunction([conjunction([p for p in s if p not in common]) for s in sets])
    return conjunction([*common, rest])


def _not_known(p: Predicate, scope: _Scope, e: Expr) -> Predicate:
    """`p` without conjuncts that hold everywhere in `scope`, and without those that ranges of `e` are not empty."""
    known: set[Predicate] = set()
    outer: _Scope | None = scope
    while outer is not None:
        known.update(conjuncts(outer.given))
        known.update(conjuncts(outer.lead))
        if outer.size is not None:
            known.add(at_most(constant(1), outer.size))
        outer = outer.parent
    while isinstance(e, Gen | Sum | Bracket | Proj):
        if isinstance(e, Gen | Sum):
            known.add(at_most(constant(1), e.size))
        e = e.body
    rest = conjunction([q for q in conjuncts(p) if q not in known])
    if any(isinstance(q, Or | Exists) for q in conjuncts(rest)):
        return simplify(rest, conjunction([*known, ranges_predicate(_ranges(scope))]))
    return rest
