"""Static integers of generated code: affine expressions of sizes, which are known whenever the code is traced.

Others, such as max(0, n - 1), become named integers: atoms of their own, with the bounds that are known of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tensorlang.language.affine import Affine, Atom, Index, Size, atom_affine, constant
from tensorlang.lowering.arrays.ir import Block, Infix, Node, Position, StaticInteger, Volume, named
from tensorlang.lowering.arrays.names import Names
from tensorlang.lowering.arrays.values import apply, integer

ZERO = constant(0)
_STEPS = 60  # of a proof; a failed proof only costs a padding that does nothing


@dataclass(frozen=True)
class Range:
    """start <= i < stop, where start <= stop whatever the sizes are."""

    start: Affine
    stop: Affine

    @property
    def extent(self) -> Affine:
        """The number of values."""
        return self.stop - self.start

    @property
    def last(self) -> Affine:
        """The greatest value, if there is one."""
        return self.stop - 1


@dataclass
class StaticIntegers:
    """The names of sizes and other static integers, and the bounds that are known of these."""

    names: Names
    spelled: dict[Atom, str] = field(default_factory=dict)
    nonnegative: list[Affine] = field(default_factory=list)
    lower: dict[Atom, list[Affine]] = field(default_factory=dict)
    upper: dict[Atom, list[Affine]] = field(default_factory=dict)
    made: dict[tuple[int, Node], Affine] = field(default_factory=dict)
    proved: dict[Affine, bool] = field(default_factory=dict)
    """Whether these were proved nonnegative; forgotten where more becomes known of an integer than at its naming."""

    def spell(self, names: Mapping[Index, str] | Mapping[Size, str]) -> None:
        """Say what indices or sizes are called."""
        for atom, name in names.items():
            self.spelled[atom] = name

    def named_in(self, a: Affine, but: Collection[Atom] = ()) -> Affine:
        """`a` over the names of its atoms, except those of `but`."""
        return Affine(tuple((atom if atom in but else self._atom(atom), k) for atom, k in a.terms), a.constant)

    def node(self, a: Affine) -> StaticInteger:
        """`a` as a static integer of an array program."""
        return StaticInteger(self.named_in(a))

    def nodes(self, several: Iterable[Affine]) -> tuple[StaticInteger, ...]:
        """Several of them."""
        return tuple(map(self.node, several))

    def parameters(self, *several: Affine) -> tuple[str, ...]:
        """The names of parameters."""
        return tuple(self.spelled[a.atoms[0]] for a in several)

    def volume(self, extents: Iterable[Affine], factor: int = 1) -> Volume:
        """factor times the product of static integers."""
        moving = []
        for a in extents:
            if a.is_constant:
                factor *= a.constant
            else:
                moving.append(self.named_in(a))
        return Volume(factor, tuple(moving))

    def position(self, a: Affine, arrays: Mapping[Atom, Node]) -> Node:
        """`a` where `arrays` stand for some of its atoms."""
        own = {atom: array for atom, array in arrays.items() if atom in a.atoms}
        return Position(self.named_in(a, own), tuple(own.items())) if own else self.node(a)

    def _atom(self, atom: Atom) -> Atom:
        name = self.spelled[atom]
        return Size(name) if isinstance(atom, Size) else named(name)

    def end_statement(self) -> None:
        """Forget the integers named in the statement."""
        for table in (self.lower, self.upper):
            for atom in table:
                self.spelled.pop(atom, None)
            table.clear()
        self.made.clear()
        self.proved.clear()

    def is_nonnegative(self, a: Affine, facts: Collection[Affine] = ()) -> bool:
        """Whether a >= 0 is easily proved, given that each of `facts` is at least 0."""
        if facts:
            return self._is_nonnegative(a, [*facts, *self.nonnegative])
        if a not in self.proved:
            self.proved[a] = self._is_nonnegative(a, self.nonnegative)
        return self.proved[a]

    def _is_nonnegative(self, a: Affine, known: Sequence[Affine]) -> bool:
        stack, seen = [a], {a}
        for _ in range(_STEPS):
            if not stack:
                return False
            b = stack.pop()
            if self._plainly(b) or any(self._plainly(b - fact) for fact in known):
                return True
            for atom, k in b.terms:
                for bound in (self.upper if k < 0 else self.lower).get(atom, ()):
                    weaker = b.substitute({atom: bound})
                    if weaker not in seen:
                        seen.add(weaker)
                        stack.append(weaker)
        return False

    def _plainly(self, a: Affine) -> bool:
        return a.constant >= 0 and all(k >= 0 and isinstance(atom, Size) for atom, k in a.terms)

    def range_of(self, index: Index, size: Affine, block: Block) -> Range:
        """0 <= index < size; empty if the size is negative."""
        if self.is_nonnegative(size):
            return Range(ZERO, size)
        return Range(ZERO, self.greatest(f"{index.name}_stop", [ZERO, size], block, [size]))

    def between(self, low: Affine, high: Affine, block: Block) -> Range:
        """From `low` to `high`, or empty: they are bounds of something that has no value where some index has none."""
        return Range(low, self.greatest("stop", [low, high + 1], block, [high + 1]))

    def restricted(self, index: Index, r: Range, starts: list[Affine], stops: list[Affine], block: Block) -> Range:
        """The part of `r` from all of `starts` on and before all of `stops`."""
        starts = self.undominated([r.start, *starts], 1)
        stops = self.undominated([r.stop, *stops], -1)
        proper = all(self.is_nonnegative(b - a) for a in starts for b in stops)
        start = self.greatest(f"{index.name}_start", starts, block, [])
        stop = self.least(f"{index.name}_stop", stops, block)
        if not proper:
            # without a point a range is empty, and not of negative length
            stop = self.greatest(f"{index.name}_stop", [start, stop], block, [stop])
        return Range(start, stop)

    def greatest(self, name: str, values: list[Affine], block: Block, upper: list[Affine]) -> Affine:
        """max(values); `upper` are bounds that hold wherever the range that it ends is not empty."""
        values = self.undominated(values, 1)
        if len(values) == 1:
            return values[0]
        return self.named(name, apply("greatest", *self.nodes(values)), block, values, upper)

    def least(self, name: str, values: list[Affine], block: Block) -> Affine:
        """min(values)."""
        values = self.undominated(values, -1)
        if len(values) == 1:
            return values[0]
        return self.named(name, apply("least", *self.nodes(values)), block, [], values)

    def quotient(self, a: Affine, divisor: int, name: str, block: Block) -> Affine:
        """floor(a / divisor), for a positive divisor."""
        if a.constant % divisor == 0 and all(k % divisor == 0 for _, k in a.terms):
            return Affine(tuple((atom, k // divisor) for atom, k in a.terms), a.constant // divisor)
        if a.is_constant:
            return constant(a.constant // divisor)
        return self.named(name, Infix(self.node(a), "//", integer(divisor)), block, [], [])

    def named(self, wanted: str, value: Node, block: Block, lower: list[Affine], upper: list[Affine]) -> Affine:
        """A new integer of that value."""
        key = (id(block), value)
        if key not in self.made:
            atom = Index(wanted)
            self.spelled[atom] = self.names.fresh_local(wanted)
            self.lower[atom], self.upper[atom] = lower, upper
            block.assign(self.spelled[atom], value)
            self.made[key] = atom_affine(atom)
        return self.made[key]

    def parameter(self, wanted: str, lower: list[Affine], upper: list[Affine]) -> Affine:
        """A new integer that a function of the generated code is given, with the bounds that hold for it."""
        atom = Index(wanted)
        self.spelled[atom] = self.names.fresh_local(wanted)
        self.lower[atom], self.upper[atom] = lower, upper
        return atom_affine(atom)

    def part_of(self, index: Index, r: Range) -> Range:
        """A part of `r` that is not empty, as two parameters."""
        start = self.parameter(f"{index.name}_start", [r.start], [r.last])
        stop = self.parameter(f"{index.name}_stop", [r.start + 1, start + 1], [r.stop])
        self.upper[start.atoms[0]].append(stop - 1)
        self.proved.clear()
        return Range(start, stop)

    def undominated(
        self, values: Iterable[Affine], sign: int, low: Callable[[Affine], Affine] = lambda a: a
    ) -> list[Affine]:
        """Some of `values` with the same greatest one as all of them, or least if `sign` is -1; `low`: lower bounds."""

        def is_further(a: Affine, b: Affine) -> bool:
            return self.is_nonnegative(low((a - b) * sign))

        kept: list[Affine] = []
        for a in dict.fromkeys(values):
            if not any(is_further(b, a) for b in kept):
                kept = [b for b in kept if not is_further(a, b)] + [a]
        return kept
