"""Loops of known length, `lax.scan`: recurrences of the language, or unrolled if they are short."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from jax.extend import core

from tensorlang.jaxprs.axes import flat, is_flat, whole
from tensorlang.jaxprs.builder import Builder
from tensorlang.jaxprs.fission import increment
from tensorlang.jaxprs.flatten import flatten, inner_jaxpr, scanned
from tensorlang.jaxprs.refusal import Unsupported
from tensorlang.jaxprs.rules.structure import shape_of
from tensorlang.jaxprs.rules.table import rule
from tensorlang.jaxprs.sizes import affine
from tensorlang.jaxprs.terms import plus, when
from tensorlang.jaxprs.values import Case, Datum, Int, Place, RealNumbers, flat_place, plain, viewed
from tensorlang.language.affine import Affine, atom_affine, constant
from tensorlang.language.grammar import Expr, Var, access, number
from tensorlang.language.lets import under
from tensorlang.language.predicates import equal
from tensorlang.language.recurrence import paired, parted, recurrence

SHORT = 4
"""Loops of at most this many steps are unrolled, so that laws apply across their steps."""

LONGEST = 600
"""Loops that can't be recurrences are unrolled up to this many operations."""

_WORDS = {"last": "fold", "after": "scan", "before": "prescan"}


@rule("scan")
def _scan(b: Builder, eqn: Any, *xs: Any) -> Any:
    loop = _Loop(b, eqn, xs)
    if isinstance(loop.steps, int) and loop.steps <= SHORT:
        return loop.written_out()
    mark = b.mark()
    try:
        return loop.recurrence()
    except Unsupported as why:
        if not isinstance(loop.steps, int) or loop.steps * len(loop.body.equations) > LONGEST:
            raise
        b.back_to(mark)
        try:
            return loop.written_out()
        except Unsupported:
            raise why from None


class _Loop:
    """A scan: its body, the fixed values that steps read, its first states, its sequences."""

    def __init__(self, b: Builder, eqn: Any, xs: tuple[Any, ...]) -> None:
        self.b, self.eqn = b, eqn
        self.steps = eqn.params["length"]
        self.reverse = eqn.params["reverse"]
        self.body = flatten(inner_jaxpr(eqn))
        constants, self.carried = scanned(eqn)
        self.fixed = list(xs[:constants])
        self.first = list(xs[constants : constants + self.carried])
        self.sequences = [
            x if is_flat(x) or len(x.axes[0]) == 1 else flat(b, x) for x in xs[constants + self.carried :]
        ]
        self.states = self.body.inputs[constants : constants + self.carried]

    def run(self, states: list[Any], t: Affine) -> list[Any]:
        """The next states, and the further outputs, of the step at the time `t`."""
        from tensorlang.jaxprs.importer import interpret

        now = [viewed(x, x.axes[1:], lambda ix: ((t,), *ix)) for x in self.sequences]
        return interpret(self.b, self.body, [*self.fixed, *states, *now])

    def _turned(self, t: Affine) -> Affine:
        """The time of the step that comes after `t` others; also the number of steps before the one at time `t`."""
        return affine(self.steps) - 1 - t if self.reverse else t

    def written_out(self) -> list[Any]:
        """The last states and the outputs of steps, unrolled."""
        state = self.first
        rows: list[list[Any]] = [[] for _ in range(self.steps)]
        for t in reversed(range(self.steps)) if self.reverse else range(self.steps):
            found = self.run(state, constant(t))
            state, rows[t] = [_stated(self.b, x) for x in found[: self.carried]], found[self.carried :]
        given = range(len(self.eqn.outvars) - self.carried)
        return [*state, *(self._stacked([row[k] for row in rows], self.carried + k) for k in given)]

    def _stacked(self, rows: list[Any], k: int) -> Any:
        if any(isinstance(x, Int) for x in rows):
            raise Unsupported("a loop that gives integers")
        parts = [flat(self.b, self.b.real(x)) for x in rows]

        def at(ix: Place) -> Expr:
            e: Expr = number(0)
            for t, part in enumerate(parts):
                e = plus(e, when(equal(ix[0][0], constant(t)), part.at(ix[1:])))
            return e

        return RealNumbers(axes=plain(shape_of(self.eqn, k)), at=at)

    def recurrence(self) -> list[Any]:
        """The last states and the outputs of steps, from a recurrence whose states are the numbers that change.

        An output of steps becomes a state that no step reads, unless it is one already. Raises `Unsupported` for states
        that are no numbers.
        """
        b, size = self.b, affine(self.steps)
        counted = self._counted()
        own, found = self._states(counted)
        unread = b.uniform((), Fraction(0))
        results = [counted[k](size) if k in counted and v in b.read else unread for k, v in enumerate(self.eqn.outvars)]
        if not found:
            return results
        first = [
            flat(b, _number(self.first[k]))
            if k < self.carried
            else b.uniform(plain(shape_of(self.eqn, k)[1:]), Fraction(0))
            for k in own
        ]
        inits = [whole(b, x) for x in first]
        states = [Var(b.name("state" if k < self.carried else "row"), e.type) for k, e in zip(own, inits, strict=True)]
        t = b.index(size, "t")
        done = atom_affine(t)
        before = {k: at(done) for k, at in counted.items()}
        before.update((k, _read(s, x)) for k, s, x in zip(own, states, first, strict=True))
        with b.inner() as statements:
            made = self.run([before[k] for k in range(self.carried)], self._turned(done))
            parts = [whole(b, flat(b, _number(made[k]))) for k in own]
        for s, e in zip(states, parts, strict=True):
            if e.type is not s.type:
                raise Unsupported(f"a loop whose state has the type {s.type} before a step, and {e.type} after it")
        step = under(statements, paired(parts))
        wanted = {which for which, _ in found.values()}
        word = _WORDS[wanted.pop()] if len(wanted) == 1 else "states"
        h = b.named(recurrence(word, t, size, states, inits, step, backwards=False), "loop")
        for k, (which, n) in found.items():
            results[k] = self._result(h, word, which, n, len(own), first[n].axes)
        return results

    def _states(self, counted: dict[int, Any]) -> tuple[list[int], dict[int, tuple[str, int]]]:
        """The outputs that are states of the recurrence; and for each output that is read, the state that it is, and
        whether after the last step, or before or after each."""
        outputs = self.body.outputs
        read = [k for k, v in enumerate(self.eqn.outvars) if v in self.b.read and k not in counted]
        own = [k for k in range(self.carried) if k not in counted]
        found = {k: ("last", n) for n, k in enumerate(own) if k in read}
        known = {_key(outputs, k): ("after", n) for n, k in enumerate(own)}
        known.update((self.states[k], ("before", n)) for n, k in enumerate(own))
        for k in read:
            if k >= self.carried:
                if _key(outputs, k) not in known:
                    known[_key(outputs, k)] = ("after", len(own))
                    own.append(k)
                found[k] = known[_key(outputs, k)]
        return own, found

    def _counted(self) -> dict[int, Any]:
        """The states that are known functions of the number of steps done: unchanged ones, and counters."""
        found: dict[int, Any] = {}
        for k, (v, x, after) in enumerate(zip(self.states, self.first, self.body.outputs, strict=False)):
            if after is v:
                found[k] = lambda done, x=x: x
            elif isinstance(x, Int):
                step = increment(self.body, v, after)
                if step is None:
                    raise Unsupported("a loop that carries integers which are no counters")
                found[k] = lambda done, x=x, step=step: Int(
                    axes=x.axes, cases=lambda ix: [_moved(case, done * step) for case in x.cases(ix)]
                )
        return found

    def _result(self, h: Var, word: str, which: str, n: int, count: int, axes: Any) -> RealNumbers:
        """The last value of the n-th of `count` states, or those before or after each step, from the recurrence `h`."""
        size = affine(self.steps)
        later = int(word == "states" and which == "after")

        def part(states: Expr, place: Place) -> Expr:
            return access(parted(states, count)[n], *flat_place(place))

        if which == "last":
            return RealNumbers(axes=axes, at=lambda ix: part(h if word == "fold" else access(h, size), ix))
        return RealNumbers(axes=((size,), *axes), at=lambda ix: part(access(h, self._turned(ix[0][0]) + later), ix[1:]))


def _key(outputs: list[Any], k: int) -> Any:
    """The variable of the k-th output, or k if that is a literal."""
    return k if isinstance(outputs[k], core.Literal) else outputs[k]


def _read(state: Var, first: RealNumbers) -> RealNumbers:
    return RealNumbers(axes=first.axes, at=lambda ix: access(state, *flat_place(ix)), variable=state)


def _number(x: Any) -> RealNumbers:
    if not isinstance(x, RealNumbers):
        raise Unsupported("a loop that carries or gives integers or conditions")
    return x


def _moved(case: Case, by: Affine) -> Case:
    p, a = case
    if isinstance(a, Datum):
        raise Unsupported("a loop that counts from where data say")
    return p, a + by


def _stated(b: Builder, x: Any) -> Any:
    """`x` under a name, so that the next step does not duplicate its work."""
    if not isinstance(x, RealNumbers) or x.variable is not None or x.constant is not None or x.infinite:
        return x
    if x.support is not None:
        raise Unsupported("a loop that carries numbers that are -inf under a mask")
    return b.state(x.axes, x.at, "carry")
