"""Recurrences in normal forms: states are atoms, read at a time and at places.

A state is given by its first value, and by a step as a function of all states. Two states are equal, for any number of
steps, if they are equal at first and their steps return equal values for equal states. So states of one recurrence are
matched with those of another by guessing that they are equal, and dropping the pairs whose steps then differ, until no
pair is dropped. A state is 0 where neither its first value nor its step has points; this is known when steps are
compared. A state whose step does not depend on it equals the result of its step, wherever there was a step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import islice, product
from typing import TYPE_CHECKING

from . import trees
from .budget import Undecided
from .facts import conjunction, fresh, is_index
from .kinds import Path, leaves, shape
from .linear import names_of
from .matchings import Atom
from .normal import CHOICE, TEST, Term, Value, Values, at, negated, node_of, normals, range_of, within_term
from .predicates import renamed, within
from .semantics import fine, names_in
from .trees import Affine, All, Compare, Element, Exists, Holds, Pred, Recur, Type, name

if TYPE_CHECKING:
    from .meaning import Meaning, Place

_GUESSES = 16
_UNROLLED = 4


@dataclass(frozen=True, eq=False)
class State:
    """One array of a recurrence's state, read at a time, the number of steps, and at the places `formal`."""

    key: str
    size: Affine
    formal: tuple[str, ...]
    around: tuple[Pred, ...]
    init: Value
    time: str
    step: Value

    def first(self, places: Sequence[Affine]) -> Value:
        """Its value before the first step."""
        return at(self.init, dict(zip(self.formal, places, strict=True)))

    def after(self, time: Affine, places: Sequence[Affine]) -> Value:
        """Its value after the step at `time`."""
        return at(self.step, {self.time: time, **dict(zip(self.formal, places, strict=True))})


Turns = tuple[Affine | None, ...]
"""For each place of a state the size n if it is reversed, n - 1 - i for i; None if it is not."""


@dataclass(frozen=True, eq=False)
class Same:
    """Another state that is equal, at places some of which are reversed."""

    state: State
    turns: Turns

    def at(self, places: Sequence[Affine]) -> tuple[Affine, ...]:
        """Its places."""
        both = zip(places, self.turns, strict=True)
        return tuple(a if n is None else n - a - trees.number(1) for a, n in both)


Swap = Mapping[str, Callable[[tuple[Affine, ...]], Value]]


class States:
    """The states of all recurrences that some programs have."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.known: dict[str, State] = {}
        self.same: dict[str, Same] = {}
        """For each state that is known by another name, that other state."""
        self.groups: list[list[State]] = []
        self._reads: dict[str, frozenset[str]] = {}
        self._added: dict[str, Value | None] = {}
        self._masks: dict[str, Pred | None] = {}
        self._many = 0

    @classmethod
    def of(cls, values: Values) -> States:
        """The states of the programs that have these values."""
        if not isinstance(values.states, cls):
            values.states = cls(values)
        return values.states

    def names(self, many: int) -> list[str]:
        """Keys for the states of a new recurrence."""
        self._many += 1
        return [f"@{self._many}.{k}" for k in range(many)]

    def called(self, key: str) -> str:
        """The name by which a state is known."""
        return self.same[key].state.key if key in self.same else key

    def atom(self, atom: Atom) -> Atom:
        """The same atom, by the name that its state is known by."""
        key, (*places,) = atom
        if key not in self.same:
            return atom
        other = self.same[key]
        return other.state.key, (places[0], *other.at(places[1:]))

    # ---- what is read

    def keys(self, v: Value) -> frozenset[str]:
        """The parameters and states that a value reads, also in functions, but not through other states."""
        found: set[str] = set()
        for t in v:
            for key, places in t.atoms:
                found |= self._keys_of(key)
                found |= self._chosen(names_of(places))
            found |= self._chosen(frozenset().union(*map(names_in, t.preds)))
        return frozenset(found)

    def _keys_of(self, key: str) -> frozenset[str]:
        node = self.values.nodes.get(node_of(key))
        if node is None:
            return frozenset([self.called(key)])
        if key not in self._reads:
            own = frozenset([key]) - self.values.nodes.keys()
            self._reads[key] = own.union(*map(self.keys, node.arguments))
        return self._reads[key]

    def _chosen(self, names: frozenset[str]) -> frozenset[str]:
        return frozenset().union(*(self._keys_of(x) for x in names if x in self.values.nodes))

    def reached(self, keys: Iterable[str]) -> set[str]:
        """The parameters and states that these depend on, also through the steps of states."""
        found: set[str] = set()
        waiting = [self.called(key) for key in keys]
        while waiting:
            key = waiting.pop()
            if key not in found:
                found.add(key)
                state = self.known.get(key)
                if state is not None:
                    waiting += [*self.keys(state.init), *self.keys(state.step)]
        return found

    def is_kept(self, key: str) -> bool:
        """Whether a state's step depends on the state."""
        return key in self.reached(self.keys(self.known[key].step))

    def added(self, state: State) -> Value | None:
        """The value that each step adds to a state, if the step does nothing else and the value does not depend on the
        state."""
        if state.key not in self._added:
            own = (state.key, tuple(map(name, (state.time, *state.formal))))
            rest = [t for t in state.step if t != Term(_ONE, (own,))]
            grows = len(rest) == len(state.step) - 1 and state.key not in self.reached(self.keys(rest))
            self._added[state.key] = rest if grows else None
        return self._added[state.key]

    # ---- reading

    def read(self, key: str, time: Affine, places: tuple[Affine, ...], context: Sequence[Pred]) -> Value:
        """The state at a time: by its first value, or by its step unless the state is kept, where it is known which one
        it is."""
        key, (time, *rest) = self.atom((key, (time, *places)))
        places = tuple(rest)
        state = self.known[key]
        if self._holds(Compare(True, time), context):
            return state.first(places)
        added = self.added(state)
        if added is not None:
            q = fresh("%")
            names = {state.time: name(q), **dict(zip(state.formal, places, strict=True))}
            more = [
                replace(t, binders=(*t.binders, q), preds=(*t.preds, Compare(False, time - name(q) - trees.number(1))))
                for t in (u.moved(names) for u in added)
            ]
            ranged = [replace(t, preds=(*t.preds, within(name(q), state.size))) for t in more]
            return [*state.first(places), *ranged]
        if not self.is_kept(key) and self._holds(Compare(False, time - trees.number(1)), context):
            return state.after(time - trees.number(1), places)
        return [Term(_ONE, ((key, (time, *places)),))]

    def _holds(self, goal: Compare, context: Sequence[Pred]) -> bool:
        """Whether `goal`, a predicate on a time, follows from the context's predicates on the same indices."""
        met, apart, known = names_in(goal), list(context), list[Pred]()
        while near := [p for p in apart if any(map(is_index, names_in(p) & met))]:
            known += near
            apart = [p for p in apart if p not in near]
            met = met.union(*map(names_in, near))
        known += [p for p in apart if not any(map(is_index, names_in(p)))]
        return self.values.facts.implies(known, goal, instances=False)

    def opened(self, v: Value, context: Sequence[Pred]) -> Value:
        """`v` with states that are not kept replaced by what is known of them, and without terms that have no
        points."""
        if not any(self.called(key) in self.known for t in v for key, _ in t.atoms):
            return v
        found: Value = []
        for t in normals(v):
            around = (*context, *t.preds)
            if self.values.facts.empty(around):
                continue
            made: Value = [replace(t, atoms=())]
            for key, places in t.atoms:
                own = self.called(key) in self.known
                inner = self.read(key, places[0], places[1:], around) if own else [Term(_ONE, ((key, places),))]
                made = [u for one in made for u in within_term(one, inner)]
            found += made
        return normals(found)

    def unrolled(self, v: Value, context: Sequence[Pred]) -> Value:
        """`v` with states that are read after a step replaced by the result of that step."""
        for _ in range(_UNROLLED):
            found: Value = []
            for t in normals(v):
                found += self._unrolled(t, context)
            if len(found) == len(v) and all(a is b for a, b in zip(found, v, strict=True)):
                return v
            v = found
        return v

    def _unrolled(self, t: Term, context: Sequence[Pred]) -> Value:
        for k, atom in enumerate(t.atoms):
            key, places = self.atom(atom)
            state = self.known.get(key)
            if state is None:
                continue
            around = (*context, *t.preds)
            if self._holds(Compare(True, places[0]), around):
                made = state.first(places[1:])
            elif self._holds(Compare(False, places[0] - trees.number(1)), around):
                made = state.after(places[0] - trees.number(1), places[1:])
            else:
                continue
            return within_term(replace(t, atoms=t.atoms[:k] + t.atoms[k + 1 :]), made)
        return [t]

    def is_zero(self, v: Value, context: Sequence[Pred]) -> bool:
        """Whether it is shown, by what is known of states, that `v` is 0 wherever `context` holds."""
        v = self.opened(v, context)
        masked = self.masked(v)
        # the result of a step has no masks inside, so the value is tried without them, too
        seen: list[Value] = []
        for unrolls, one in product((False, True), (masked, v)):
            w = self.unrolled(one, context) if unrolls else one
            if w not in seen:
                if self.values.is_zero(w, context):
                    return True
                seen.append(w)
        return False

    def masked(self, v: Value) -> Value:
        """`v` with terms restricted to where the states that they read may be nonzero; states in functions stay as they
        are."""
        return normals(replace(t, preds=(*t.preds, *map(self._where, t.atoms))) for t in v)

    def _where(self, atom: Atom) -> Pred:
        """Where an atom may be nonzero, by the mask of its state."""
        key, places = self.atom(atom)
        p = self.mask(self.known[key]) if key in self.known else None
        if p is None:
            return All()
        state = self.known[key]
        return renamed(p, {state.time: places[0], **dict(zip(state.formal, places[1:], strict=True))})

    def mask(self, state: State) -> Pred | None:
        """Where the state may be nonzero, over its time and places; None for everywhere."""
        if state.key not in self._masks:
            self._masks[state.key] = None  # meanwhile
            facts, now = self.values.facts, name(state.time)
            first = self._support(state.init, state.around)
            earlier = at(state.step, {state.time: now - trees.number(1)})
            since = Compare(False, now - trees.number(1))
            later = self._support(earlier, (*state.around, since, Compare(False, state.size - now)))
            if first is not None or later is not None:
                parts = (conjunction([Compare(True, now), first or All()]), conjunction([since, later or All()]))
                p: Pred = trees.Any(parts)
                around = (*state.around, within(now, state.size + trees.number(1)))
                self._masks[state.key] = None if facts.implies(around, p) else p
        return self._masks[state.key]

    def _support(self, v: Value, context: Sequence[Pred]) -> Pred | None:
        if not normals(v):
            return trees.Any()
        found = self.values.support(v, context)
        return conjunction(found) if found else None

    # ---- other atoms in the places of some

    def swapped(self, v: Value, swap: Swap, context: Sequence[Pred]) -> Value:
        """`v` with other values substituted for some states, also in the steps of recurrences within."""
        found: Value = []
        for t in v:
            if not self.reached(self.keys([t])) & swap.keys():
                found.append(t)
                continue
            around = (*context, *t.preds)
            made: Value = [
                Term(t.coefficient, (), t.binders, tuple(self._swapped_pred(p, swap, context) for p in t.preds))
            ]
            for key, places in t.atoms:
                now = tuple(self._swapped_affine(a, swap, around) for a in places)
                inner = self._swapped_atom((key, now), swap, around)
                made = [u for one in made for u in within_term(one, inner)]
            found += made
        return normals(found)

    def _swapped_atom(self, atom: Atom, swap: Swap, context: Sequence[Pred]) -> Value:
        key, places = self.atom(atom)
        if key in swap:
            return swap[key](places)
        if not self.reached(self._keys_of(key)) & swap.keys():
            return [Term(_ONE, ((key, places),))]
        if node_of(key) in self.values.nodes:
            return [Term(_ONE, (self._swapped_node(key, places, swap, context),))]
        return [Term(_ONE, (self.atom((self._copied(key, swap), places)),))]

    def _copied(self, key: str, swap: Swap) -> str:
        """The state of a recurrence like that of `key`, with other values substituted for some states."""
        group = next(group for group in self.groups if any(state.key == key for state in group))
        own = dict(zip((state.key for state in group), self.names(len(group)), strict=True))
        swap = {**swap, **{mine: self._renamed(other) for mine, other in own.items()}}
        made = []
        for state in group:
            inside = (*state.around, within(name(state.time), state.size))
            init, step = self.swapped(state.init, swap, state.around), self.swapped(state.step, swap, inside)
            made.append(replace(state, key=own[state.key], init=init, step=step))
        self.add(made)
        return own[key]

    def _swapped_node(self, key: str, places: tuple[Affine, ...], swap: Swap, context: Sequence[Pred]) -> Atom:
        own, dot, path = key.partition(".")  # a call is read by its elements
        node = self.values.nodes[own]
        names = dict(zip(node.params, places, strict=False))
        arguments = [self.swapped(at(v, names), swap, context) for v in node.arguments]
        made, at_node = self.values.node(node.kind, arguments, [context] * len(arguments))
        if own in self.values.calls:
            self.values.calls[made] = self.values.calls[own]
        return made + dot + path, (*at_node, *places[len(node.params) :])

    def _swapped_affine(self, a: Affine, swap: Swap, context: Sequence[Pred]) -> Affine:
        if not self.reached(self._chosen(names_in(a))) & swap.keys():
            return a
        result = trees.number(a.constant)
        for atom, k in a.terms:
            now = self._swapped_element(atom, swap, context) if isinstance(atom, Element) else name(atom)
            result = result + now.times(k)
        return result

    def _swapped_element(self, e: Element, swap: Swap, context: Sequence[Pred]) -> Affine:
        places = tuple(self._swapped_affine(a, swap, context) for a in e.at)
        node = self.values.nodes.get(e.array)
        if node is None or not self.reached(self._keys_of(e.array)) & swap.keys():
            return Affine(((Element(e.array, places), 1),))
        if node.kind.startswith(CHOICE):
            i = fresh()
            names = dict(zip(node.params, (name(i), *places), strict=True))
            given = [at(v, names) for v in node.arguments]
            arguments = [self.swapped(v, swap, context) for v in given]
            inner = [q for t in arguments[2] if len(arguments[2]) == 1 and not t.binders for q in t.preds]
            return self.values.chosen(node.kind, arguments, [context, (*context, *inner), context], i)
        if not node.kind.startswith(TEST):
            raise Undecided("an index that is made of states")
        key, places = self._swapped_node(e.array, places, swap, context)
        self.values.facts.arrays[key] = (), trees.number(2)
        return Affine(((Element(key, places), 1),))

    def _swapped_pred(self, p: Pred, swap: Swap, context: Sequence[Pred]) -> Pred:
        if not self.reached(self._chosen(names_in(p))) & swap.keys():
            return p
        match p:
            case Compare(equal, a):
                return Compare(equal, self._swapped_affine(a, swap, context))
            case Holds(relation, places):
                return Holds(relation, tuple(self._swapped_affine(a, swap, context) for a in places))
            case Exists(i, size, body):
                return Exists(i, size, self._swapped_pred(body, swap, context))
            case _:
                return replace(p, parts=tuple(self._swapped_pred(part, swap, context) for part in p.parts))

    # ---- matching

    def add(self, states: Sequence[State]) -> None:
        """Register the states of a recurrence, each by the name of an equal known state, if there is one."""
        for state in states:
            self.known[state.key] = state
        best: dict[str, Same] = {}
        seen: dict[object, bool] = {}
        for group in reversed(self.groups):
            if group and group[0].size == states[0].size:
                choices = self._choices(states, group)
                most = sum(map(bool, choices.values()))
                for guess in _guesses(choices) if most > len(best) else ():
                    found = self._refined(guess, {state.key: state for state in states}, seen)
                    if len(found) > len(best):
                        best = found
                    if len(best) == most:
                        break
            if len(best) == len(states):
                break
        for key, other in best.items():
            self.same[key] = other
            del self.known[key]
        if best:
            self._reads.clear()
            for state in states:
                if state.key not in best:
                    own = [one.key for one in states if one.key not in best]
                    inside = (*state.around, within(name(state.time), state.size))
                    step = self._named_anew(state.step, best, inside, own)
                    self.known[state.key] = replace(state, step=step)
        left = [self.known[state.key] for state in states if state.key in self.known]
        if left:
            self.groups.append(left)

    def _named_anew(
        self, v: Value, best: Mapping[str, Same], context: Sequence[Pred], own: Sequence[str] = ()
    ) -> Value:
        """`v` with states under the names by which they are known now."""
        for key in best:
            del self.same[key]
        self._reads.clear()
        try:
            swap = {key: self._renamed(key) for key in own}
            swap |= {key: self._called(other) for key, other in best.items()}
            return self.swapped(v, swap, context)
        finally:
            self.same.update(best)
            self._reads.clear()

    def current(self, v: Value, keys: Iterable[str], context: Sequence[Pred]) -> Value:
        """`v`, made before the names of states were known, with these names, where `context` holds."""
        best = {key: self.same[key] for key in keys if key in self.same}
        return self._named_anew(v, best, context) if best else v

    @staticmethod
    def _renamed(key: str) -> Callable[[tuple[Affine, ...]], Value]:
        return lambda places: [Term(_ONE, ((key, places),))]

    @staticmethod
    def _called(other: Same) -> Callable[[tuple[Affine, ...]], Value]:
        return lambda places: [Term(_ONE, ((other.state.key, (places[0], *other.at(places[1:]))),))]

    def _choices(self, states: Sequence[State], group: Sequence[State]) -> dict[str, list[Same]]:
        """For each state the states of `group` that it may equal, the likely ones first."""
        choices = {}
        for state in states:
            made_of = self._parameters(state)
            alike = [o for o in group if len(o.formal) == len(state.formal) and self._parameters(o) == made_of]
            likely = [other for other in alike if len(other.step) == len(state.step)]
            alike = [*likely, *(other for other in alike if other not in likely)]
            mine = [Same(other, turns) for other in alike for turns in self._turns(state)]
            choices[state.key] = [one for one in mine if self._starts_as(state, one)]
        return choices

    def _parameters(self, state: State) -> set[str]:
        """The parameters that a state depends on in the end; equal states have equal ones."""
        return {key for key in self.reached([state.key]) - self.known.keys() if node_of(key) not in self.values.nodes}

    @staticmethod
    def _turns(state: State) -> Iterator[Turns]:
        """No place reversed, then each place alone."""
        none: Turns = (None,) * len(state.formal)
        yield none
        for k, i in enumerate(state.formal):
            size = range_of(i, [q for p in state.around for q in fine(p)])
            if size is not None:
                yield (*none[:k], size, *none[k + 1 :])

    def _starts_as(self, state: State, other: Same) -> bool:
        theirs = other.state.first(other.at(tuple(map(name, state.formal))))
        return self.values.is_zero(self.masked([*state.init, *negated(theirs)]), state.around)

    def _refined(
        self, guess: dict[str, Same], states: Mapping[str, State], seen: dict[object, bool]
    ) -> dict[str, Same]:
        """The largest part of a guess in which the steps of each pair agree; `seen` are the comparisons made before."""
        read = {key: sorted(self.reached(self.keys(state.step)) & states.keys()) for key, state in states.items()}
        while guess:
            wrong = []
            for key, other in guess.items():
                asked = key, other, tuple((k, guess.get(k)) for k in read[key])
                if asked not in seen:
                    seen[asked] = self._goes_on_as(states[key], other, guess, states)
                if not seen[asked]:
                    wrong.append(key)
            if not wrong:
                return guess
            guess = {key: other for key, other in guess.items() if key not in wrong}
        return {}

    def _goes_on_as(self, state: State, other: Same, guess: Mapping[str, Same], states: Iterable[str]) -> bool:
        context = (*state.around, within(name(state.time), state.size))
        theirs = other.state.after(name(state.time), other.at(tuple(map(name, state.formal))))
        swap: Swap = {key: self._called(guess[key]) if key in guess else self._renamed(key) for key in states}
        try:
            mine = self.swapped(state.step, swap, context)
            return self.is_zero([*mine, *negated(theirs)], context)
        except Undecided:
            return False


def _guesses(choices: Mapping[str, Sequence[Same]]) -> Iterator[dict[str, Same]]:
    """Guesses that choose for each state one of its choices, or none."""
    for chosen in islice(product(*([*mine, None] for mine in choices.values())), _GUESSES):
        yield {key: other for key, other in zip(choices, chosen, strict=True) if other is not None}


class Recurrence:
    """The meaning of a recurrence of a program: its time, the place of its steps, and its states by their paths."""

    def __init__(self, meaning: Meaning, e: Recur, place: Place) -> None:
        self.meaning, self.e, self.place = meaning, e, place
        self.kind: Type = meaning.kinds.lets[id(e)]
        self.size = meaning.affine(e.size, place)
        self.time = fresh()
        self.paths = [path for path, _ in leaves(self.kind)]
        self.params = tuple(meaning.dependent(e, place))
        self.keys = dict(zip(self.paths, meaning.states.names(len(self.paths)), strict=True))
        self.inside = place.index(e.index, name(self.time), self.size).let(e.state, self)  # type: ignore[arg-type]

    # a step reads the state before it like the value of a let

    @property
    def expr(self) -> Recur:
        """The expression that determines its dependences."""
        return self.e

    def value(self, path: Path, places: tuple[Affine, ...]) -> Value:
        """The state before a step."""
        return [Term(_ONE, ((self.keys[path], (name(self.time), *map(name, self.params), *places)),))]

    @property
    def choice(self) -> None:
        """Raise `Undecided`: a state has no chosen index."""
        raise Undecided("a state as an index")

    @cached_property
    def states(self) -> dict[Path, str]:
        """The registered states, by path."""
        made, value = [], self.meaning.value
        for path, part in leaves(self.kind):
            sizes, _ = shape(part)
            dims = tuple(fresh() for _ in sizes)
            ranges = [within(name(i), n) for i, n in zip(dims, sizes, strict=True)]
            around = (*self.place.known, *ranges)
            at_dims = tuple(map(name, dims))
            init = value(self.e.init, path, at_dims, replace(self.place, known=around))
            step = value(self.e.step, path, at_dims, replace(self.inside, known=(*self.inside.known, *ranges)))
            formal = (*self.params, *dims)
            own = tuple(p for p in around if {x for x in names_in(p) if is_index(x)} <= set(formal))
            inside = (*self.inside.known, *ranges)
            opened = self.meaning.states.opened
            init, step = opened(normals(init), around), opened(normals(step), inside)
            made.append(State(self.keys[path], self.size, formal, own, init, self.time, step))
        self.meaning.states.add(made)
        return self.keys

    def read(self, path: Path, places: tuple[Affine, ...], context: Sequence[Pred]) -> Value:
        """The part at `path` of the recurrence's value, read at `places`."""
        key = self.states[path]
        time = self.size
        if self.e.word != "fold":
            time, places = places[0] + trees.number(int(self.e.word == "scan")), places[1:]
        return self.meaning.states.read(key, time, (*map(name, self.params), *places), context)


_ONE = Fraction(1)


def free_in(values: Iterable[Value], apart: Iterable[str]) -> list[str]:
    """The free indices of some values except those in `apart`, in the order in which they were made."""
    found = {x for v in values for t in v for x in t.free}
    return sorted(x for x in found - set(apart) if is_index(x))
