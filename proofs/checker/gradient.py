"""The gradient of a program in normal form, derived here: the reverse mode of differentiation, on values.

<dY | F> is a sum of terms. Its derivative by an element that is read is the sum, over the factors that read the
element, of the term without that factor. A scalar function passes the derivative on to its arguments by its own
derivative. A recurrence has one more recurrence that goes backwards, in which the cotangent of the state before step t
is

    c(t) = what is given for it from outside + the sum over the states, of c(t + 1) times the derivative of step t

and c at the start is passed on to the first states, c(t + 1) to everything else that step t reads. That these are the
partial derivatives is the chain rule; `../reals` proves it for programs, and `../Recurrence.v` for recurrences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

from . import trees
from .budget import Budget, Undecided
from .equal import Opened, Side
from .externals import program_at
from .facts import Facts, fresh, is_index
from .functions import derivatives
from .kinds import Path, flat_type, leaves, shape
from .linear import isolated
from .matchings import Atom
from .meaning import ONE, Bound, Meaning, Place
from .normal import (
    ARGUMENT,
    CUTS,
    REAL,
    OneCall,
    Term,
    Value,
    Values,
    at,
    element_of,
    negated,
    node_of,
    normals,
    number,
    summed,
    times,
)
from .predicates import moved, renamed, within
from .recurrences import State, States, free_in
from .semantics import Function, fine, names_in
from .trees import Add, Affine, All, Call, Compare, Expr, Mul, Name, Num, Pred, Program, Refused, Type, name

_MOST_ITEMS = 2000


def is_gradient(
    program: Program,
    adjoint: Program,
    wrt: Sequence[str],
    cotangent: str,
    functions: Mapping[str, Function],
    rules: Mapping[str, Program],
    budget: Budget,
) -> str | None:
    """The reason why `adjoint` is not shown to be the gradient of <cotangent | program>, if `rules` are the adjoints of
    external functions; None if it is shown. Terms without points are left out of arguments only where nothing is shown
    otherwise.

    Raises `Refused` if its type is wrong, and `TooLarge`.
    """
    given = program, adjoint, wrt, cotangent, functions, rules, budget
    why = _why_not(*given, closely=False)
    return why and _why_not(*given, closely=True)


def _why_not(
    program: Program,
    adjoint: Program,
    wrt: Sequence[str],
    cotangent: str,
    functions: Mapping[str, Function],
    rules: Mapping[str, Program],
    budget: Budget,
    closely: bool,
) -> str | None:
    facts = Facts(budget)
    facts.declare(adjoint.params)
    values = Values(facts)
    values.linear, values.zeros = True, closely
    theirs, mine = Opened(values, Side(adjoint)), Opened(values, Side(program))
    kinds = dict(adjoint.params)
    if flat_type(kinds[cotangent]) != mine.kind:
        raise Refused("the cotangent has another type than the program's value")
    ends = [(_leaf(x, path), part) for x in wrt for path, part in leaves(flat_type(kinds[x]))]
    results = leaves(theirs.kind)
    if [part for _, part in results] != [part for _, part in ends]:
        raise Refused("the adjoint's results have other types than the parameters")
    try:
        claimed = [_at_box(theirs, path, part) for path, part in results]
        start: Value = []
        for path, part in leaves(mine.kind):
            dims, _, v = _at_box(mine, path, part)
            v = times([Term(ONE, ((_leaf(cotangent, path), tuple(map(name, dims))),))], v)
            for i, n in zip(dims, shape(part)[0], strict=True):
                v = summed(i, n, v)
            start += v
        states = mine.meaning.states
        found = Gradient(states, functions, rules, [x for x, _ in ends]).of(start)
        for (x, _), (dims, ranges, v) in zip(ends, claimed, strict=True):
            w = found.at(x, tuple(map(name, dims)))
            if not states.is_zero([*v, *negated(w)], ranges):
                return f"the cotangent of {x}"
    except Undecided as error:
        return str(error)
    return None


def _at_box(opened: Opened, path: Path, part: Type) -> tuple[list[str], list[Pred], Value]:
    """A result with names for its places, and the predicates known of these."""
    sizes, _ = shape(part)
    dims = [fresh() for _ in sizes]
    ranges = [within(name(i), n) for i, n in zip(dims, sizes, strict=True)]
    return dims, ranges, opened.value(path, tuple(map(name, dims)), ranges)


def _leaf(x: str, path: tuple[int, ...]) -> str:
    return ".".join((x, *map(str, path)))


@dataclass(frozen=True)
class Item:
    """The sum over `binders`, where `preds` hold, of coefficient * the product of `factors` * the differential of an
    atom."""

    coefficient: Fraction
    factors: tuple[Atom, ...]
    binders: tuple[str, ...]
    preds: tuple[Pred, ...]
    atom: Atom

    def given(self, places: Sequence[str]) -> Term:
        """The cotangent, at these places, of the array that the atom reads."""
        _, read = self.atom
        there = tuple(Compare(True, a - name(i)) for a, i in zip(read, places, strict=True))
        return Term(self.coefficient, self.factors, self.binders, (*self.preds, *there))


def items(
    v: Value, binders: Sequence[str] = (), preds: Sequence[Pred] = (), factors: Sequence[Atom] = ()
) -> Iterator[Item]:
    """The differential of `v` times some factors."""
    for u in v:
        t = u.moved({})
        for k, atom in enumerate(t.atoms):
            others = t.atoms[:k] + t.atoms[k + 1 :]
            yield Item(t.coefficient, (*factors, *others), (*binders, *t.binders), (*preds, *t.preds), atom)


class Cotangents:
    """The cotangents found so far for elements of parameters and of states: values at places."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[list[str], Value]] = {}

    def add(self, key: str, item: Item) -> None:
        """A contribution."""
        places = [fresh() for _ in item.atom[1]]
        self.include(key, places, [item.given(places)])

    def include(self, key: str, places: Sequence[str], v: Value) -> None:
        """A value over `places`."""
        own, found = self.found.setdefault(key, (list(places), []))
        found += at(v, dict(zip(places, map(name, own), strict=True)))

    def at(self, key: str, places: Sequence[Affine]) -> Value:
        """The cotangent at these places."""
        if key not in self.found:
            return []
        own, v = self.found[key]
        return normals(at(v, dict(zip(own, places, strict=True))))


class Gradient:
    """Derives the cotangents of `inputs` and of everything through which they are reached."""

    def __init__(
        self, states: States, functions: Mapping[str, Function], rules: Mapping[str, Program], inputs: Iterable[str]
    ) -> None:
        self.states, self.values = states, states.values
        self.functions = functions
        self.rules = rules
        self.inputs = frozenset(inputs)

    def of(self, v: Value) -> Cotangents:
        """The cotangents of the inputs."""
        return self._of(list(items(normals(v))), frozenset(), frozenset())

    def _of(self, start: list[Item], step: frozenset[str], ends: frozenset[str]) -> Cotangents:
        """The cotangents of the inputs, of the states `ends`, and of states that don't depend on those of `step`, a
        subset of `ends`."""
        found = Cotangents()
        self._spread(start, found, ends)
        while True:
            own = {key for key in found.found if key in self.states.known and key not in ends}
            if step:
                own = {key for key in own if self.states.reached([key]) & step}
            call = self._last_call(found, own)
            if call is not None:
                self._through(call, found, ends)
                continue
            if not own:
                return found
            groups = [group for group in self.states.groups if any(state.key in own for state in group)]
            group = max(groups, key=self.states.groups.index)
            given = {state.key: found.found.pop(state.key) for state in group if state.key in found.found}
            self._backwards(group, given, found, ends)

    def _spread(self, waiting: list[Item], found: Cotangents, ends: frozenset[str]) -> None:
        """Pass differentials on to parameters and states."""
        many = 0
        while waiting:
            many += 1
            if many > _MOST_ITEMS:
                raise Undecided("a derivative of too many terms")
            self.values.facts.budget.spend()
            item = waiting.pop()
            item = replace(item, atom=self.states.atom(item.atom))
            key, places = item.atom
            if key == REAL or not self.states.reached(self.states.keys([Term(ONE, ((key, places),))])) & (
                self.inputs | ends
            ):
                continue
            node = self.values.nodes.get(key)
            if node is None:
                found.add(key, item)
            else:
                names = dict(zip(node.params, places, strict=True))
                arguments = [normals(at(v, names)) for v in node.arguments]
                slopes = [number(ONE)] if node.kind in CUTS else self._slopes(node.kind, arguments, item)
                for slope, v in zip(slopes, arguments, strict=True):
                    for s in slope:
                        t = s.moved({})
                        waiting += (
                            replace(inner, coefficient=inner.coefficient * item.coefficient * t.coefficient)
                            for inner in items(
                                v, (*item.binders, *t.binders), (*item.preds, *t.preds), (*item.factors, *t.atoms)
                            )
                        )

    def _slopes(self, f: str, arguments: Sequence[Value], item: Item) -> list[Value]:
        """The partial derivatives of a scalar function at these arguments."""
        declared = self.functions[f].components if f in self.functions else derivatives(f)
        if not declared:
            raise Undecided(f"the derivative of {f}")
        given: dict[str, Value] = {f"x{k}": v for k, v in enumerate(arguments)}
        given |= {"y": [Term(ONE, (item.atom,))], "t": number(ONE)}
        return [[] if e is None else normals(self._scalar(e, given, item.preds)) for e in declared]

    def _scalar(self, e: Expr, given: Mapping[str, Value], context: Sequence[Pred]) -> Value:
        match e:
            case Num(value):
                return number(value)
            case Name(x):
                return given[x]
            case Add(a, b, sign):
                right = self._scalar(b, given, context)
                return [*self._scalar(a, given, context), *(right if sign > 0 else negated(right))]
            case Mul(a, b):
                return times(self._scalar(a, given, context), self._scalar(b, given, context))
            case Call(f, arguments):
                return self.values.call(f, [self._scalar(a, given, context) for a in arguments], context)
        raise Undecided("a derivative of another form")

    def _last_call(self, found: Cotangents, own: Iterable[str]) -> str | None:
        """The last call of an external function that has a cotangent, unless a state with a cotangent is made of it."""
        calls = {node_of(key) for key in found.found} & self.values.calls.keys()
        last = max(calls, key=lambda key: int(key[1:]), default=None)
        return None if last in {node_of(key) for key in self.states.reached(own)} else last

    def _through(self, key: str, found: Cotangents, ends: frozenset[str]) -> None:
        """Pass the cotangents of a call's elements on to the elements of its arguments, by the declared adjoint. The
        adjoint is linear in the cotangent, so it is 0 where the cotangent is."""
        one = self.values.calls[key]
        f = one.external
        if f.name not in self.rules or trees.recurs(self.rules[f.name].body):
            raise Undecided(f"the adjoint of {f.name}")
        node, rule = self.values.nodes[key], program_at(self.rules[f.name], one.sizes)
        outer = tuple(fresh() for _ in node.params)
        at_outer = tuple(map(name, outer))
        given = {k: found.found.pop(k) for k in [*found.found] if node_of(k) == key}
        known = self._around(one, _where_given(given.values(), outer), outer)
        bars = Cotangents()
        bars.found = given

        def bar(path: Path, places: tuple[Affine, ...]) -> Value:
            ((element, _),) = element_of(key, path, (), ())[0].atoms
            return bars.at(element, (*at_outer, *places))

        arguments = [at(v, dict(zip(node.params, at_outer, strict=True))) for v in node.arguments]
        read: list[Callable[[Path, tuple[Affine, ...]], Value]] = [
            partial(_element, k, v) for k, v in enumerate(arguments)
        ]
        read += [lambda path, places: element_of(key, path, at_outer, places), bar]
        meaning = Meaning(self.values, rule)
        place = Place(known=known)
        for (x, kind), value in zip(rule.params, read, strict=True):
            place = place.let(x, Known(meaning, flat_type(kind), place, value))
        passed: list[Item] = []
        for k, (path, _) in enumerate(leaves(meaning.kinds.type)):
            for t in (t.moved({}) for t in arguments[k]):
                (places,) = (places for other, places in t.atoms if other == f"{ARGUMENT} {k}")
                atoms = [atom for atom in t.atoms if atom[0] != f"{ARGUMENT} {k}"]
                around = replace(place, known=(*known, *t.preds))
                for u in (u.moved({}) for u in normals(meaning.value(rule.body, path, places, around))):
                    for j, atom in enumerate(atoms):
                        factors = (*u.atoms, *atoms[:j], *atoms[j + 1 :])
                        binders, preds = (*outer, *t.binders, *u.binders), (*known, *t.preds, *u.preds)
                        passed.append(Item(t.coefficient * u.coefficient, factors, binders, preds, atom))
        self._spread(passed, found, ends)

    def _around(self, one: OneCall, known: tuple[Pred, ...], outer: Sequence[str]) -> tuple[Pred, ...]:
        """Where a call is passed on: where it has a cotangent, or, as in adjoints that call external functions,
        everywhere in its ranges, except for predicates that relate other indices to its own."""
        box: list[Pred] = []
        for x, n in zip(outer, one.ranges, strict=True):
            if n is None:
                return known
            box += fine(within(name(x), n))
        if not all(self.values.facts.implies(known, p) for p in box):
            return known
        return (*box, *(p for p in known if any(is_index(x) and x not in outer for x in names_in(p))))

    def _backwards(
        self,
        group: Sequence[State],
        given: Mapping[str, tuple[list[str], Value]],
        found: Cotangents,
        ends: frozenset[str],
    ) -> None:
        """Derive the recurrence of the cotangents of a recurrence's states, some of which are given from outside."""
        mine = {state.key: state for state in group}
        active: list[str] = []
        waiting = list(given)
        while waiting:
            key = waiting.pop()
            if key not in active and self.states.reached([key]) & (self.inputs | ends):
                active.append(key)
                waiting += [k for k in self.states.reached(self.states.keys(mine[key].step)) if k in mine]
        active = [state.key for state in group if state.key in active]
        if not active:
            return
        size = group[0].size
        outer = free_in([v for _, v in given.values()], [x for names, _ in given.values() for x in names])
        pin = _pinned(given, outer)
        if pin is not None:
            outer.remove(pin.outer)
        at_outer = tuple(map(name, outer))
        r = fresh()
        turned = size - name(r) - trees.number(1)
        bars = dict(zip(active, self.states.names(len(active)), strict=True))
        start: list[Item] = []
        for key in active:
            box = _Box(mine[key], pin, None if pin is None else name(pin.free))
            bar = (bars[key], (name(r), *at_outer, *box.places))
            start += items(mine[key].after(turned, box.places), box.dims, box.ranges, (bar,))
        inner = self._of(start, frozenset(mine), ends | mine.keys())
        made = []
        for key in active:
            box = _Box(mine[key], None, None)
            pinned = {} if pin is None else pin.at(box.places)
            outside = at(_given(given, key, (size, *box.places)), pinned)
            step = [*_given(given, key, (turned, *box.places)), *inner.at(key, (turned, *box.places))]
            inside = (*box.ranges, within(name(r), size))
            first = self.states.opened(normals(outside), box.ranges)
            later = self.states.opened(normals(at(step, pinned)), inside)
            made.append(State(bars[key], size, (*outer, *box.dims), box.ranges, first, r, later))
        self.states.add(made)
        for key, (places, v) in inner.found.items():
            if key not in mine:
                here = v if pin is None else at(v, {pin.free: pin.place})
                here = self.states.current(here, bars.values(), (within(name(r), size),))
                found.include(key, places, summed(r, size, here))
        rest: list[Item] = []
        for key in active:
            box = _Box(mine[key], pin, None if pin is None else pin.place)
            for t in self.states.read(bars[key], size, (*at_outer, *box.places), box.ranges):
                u = t.moved({})
                rest += (
                    replace(item, coefficient=item.coefficient * u.coefficient)
                    for item in items(
                        mine[key].first(box.places), (*box.dims, *u.binders), (*box.ranges, *u.preds), u.atoms
                    )
                )
        self._spread(rest, found, ends)


class Known(Bound):
    """A parameter of a declared adjoint, whose elements are known."""

    def __init__(
        self, meaning: Meaning, kind: Type, place: Place, read: Callable[[Path, tuple[Affine, ...]], Value]
    ) -> None:
        super().__init__(meaning, Num(Fraction(0)), place, kind)
        self.read = read

    def value(self, path: Path, places: tuple[Affine, ...]) -> Value:
        """The part at `path`, read at `places`."""
        return self.read(path, places)


def _element(k: int, argument: Value, _: Path, places: tuple[Affine, ...]) -> Value:
    """An element of the argument with number k: the cofactors of the atoms that stand for this argument."""
    found: Value = []
    for t in argument:
        (own,) = (own for key, own in t.atoms if key == f"{ARGUMENT} {k}")
        there = tuple(Compare(True, a - b) for a, b in zip(own, places, strict=True))
        rest = tuple(atom for atom in t.atoms if atom[0] != f"{ARGUMENT} {k}")
        found.append(replace(t, atoms=rest, preds=(*t.preds, *there)).moved({}))
    return normals(found)


def _where_given(given: Iterable[tuple[list[str], Value]], outer: Sequence[str]) -> tuple[Pred, ...]:
    """The places at which a call has a cotangent, and maybe more."""
    found: dict[Pred, None] = {}
    for places, v in given:
        names = dict(zip(places, map(name, outer), strict=False))
        for t in normals(v):
            hidden = {*t.binders, *places} - names.keys()
            found[All(tuple(renamed(p, names) for p in t.preds if not names_in(p) & hidden))] = None
    if len(found) == 1:
        return fine(next(iter(found)))
    return (trees.Any(tuple(found)),)


@dataclass(frozen=True)
class Pin:
    """States that the cotangents are 0 except where the place with number `which` is `place`, which determines the
    index `outer`: it is `back` where that place is `free`."""

    which: int
    outer: str
    place: Affine
    free: str
    back: Affine

    def at(self, places: Sequence[Affine]) -> dict[str, Affine]:
        """The values of the two names at these places."""
        here = places[self.which]
        return {self.free: here, self.outer: moved(self.back, {self.free: here})}


def _pinned(given: Mapping[str, tuple[list[str], Value]], outer: Sequence[str]) -> Pin | None:
    """The place that all given cotangents pin to one of the indices `outer`; None if there is none."""
    pins: list[set[tuple[int, str, Affine, Affine]]] = []
    for (_, *places), v in given.values():
        for t in normals(v):
            mine = set()
            for p in t.preds:
                if not isinstance(p, Compare) or not p.equal:
                    continue
                for k, f in enumerate(places):
                    for x in outer:
                        place, back = isolated(p.value, f), isolated(p.value, x)
                        if place is None or back is None or {i for i in names_in(p.value) if is_index(i)} != {f, x}:
                            continue
                        mine.add((k, x, place, moved(back, {f: name(_FREE)})))
            pins.append(mine)
    common = set.intersection(*pins) if pins else set()
    if not common:
        return None
    k, x, place, back = min(common, key=repr)
    free = fresh()
    return Pin(k, x, place, free, moved(back, {_FREE: name(free)}))


_FREE = "$free"


class _Box:
    """The places of a state, one of which may be pinned, with names of their own, and the predicates known of them."""

    def __init__(self, state: State, pin: Pin | None, pinned: Affine | None) -> None:
        given = {} if pin is None or pinned is None else {pin.which: pinned}
        names = [fresh() for _ in state.formal]
        self.dims = tuple(i for k, i in enumerate(names) if k not in given)
        self.places = tuple(given.get(k, name(i)) for k, i in enumerate(names))
        held = dict(zip(state.formal, self.places, strict=True))
        self.ranges = tuple(renamed(p, held) for p in state.around)


def _given(given: Mapping[str, tuple[list[str], Value]], key: str, places: Sequence[Affine]) -> Value:
    if key not in given:
        return []
    own, v = given[key]
    return normals(at(v, dict(zip(own, places, strict=True))))
