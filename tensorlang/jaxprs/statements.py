"""The statements of a program in the making: their names and lines, indices, and questions about predicates."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import Any

from tensorlang.errors import PythonLine
from tensorlang.jaxprs.refusal import line_of
from tensorlang.jaxprs.values import Axes, Bool, Case, Place, RealNumbers, extents, flat_place, volume
from tensorlang.language import functions
from tensorlang.language.affine import Affine, Index, IndexArray, Size, atom_affine, constant
from tensorlang.language.grammar import Compared, Expr, Var, access, gen, number, sums
from tensorlang.language.predicates import FALSE, TRUE, Predicate, at_most, conjunction, free_atoms, lookups, within
from tensorlang.language.types import R, array
from tensorlang.sets.isl import implies, is_empty

MOST_PIECES = 4
"""Values joined from more pieces than this get a name."""


class Statements:
    """Statements, the names and indices in them, and the assumptions made."""

    def __init__(self) -> None:
        self.statements: list[tuple[Var | IndexArray, Expr]] = []
        self.assumed: dict[str, None] = {}
        self.lines: dict[str, PythonLine | None] = {}
        self.equation: Any = None
        self.read: set[Any] = set()  # the variables that equations other than the current one read
        self._names: set[str] = set()
        self._reads: int | None = None  # the number of elements for which values are being recomputed
        self._depth = 0  # the number of loops around the current statement
        self._read_few: dict[Any, int] = {}  # the total number of recomputed elements of each variable
        self._ranges: dict[Index, Affine] = {}

    # names

    def name(self, wanted: str) -> str:
        """A new name like `wanted`."""
        wanted = re.sub(r"\W", "_", wanted, flags=re.ASCII).strip("_") or "t"
        if not wanted[0].isalpha():
            wanted = "t" + wanted
        if wanted in functions.KEYWORDS or wanted in functions.functions():
            wanted += "_"
        found, k = wanted, 0
        while found in self._names:
            k += 1
            found = f"{wanted}{k}"
        self._names.add(found)
        return found

    def index(self, size: Affine, name: str = "i") -> Index:
        """A new index from 0 to size - 1."""
        made = Index(name, size=size)
        self._ranges[made] = size
        return made

    def indices(self, axes: Axes, letters: str = "ijklabcdefgh") -> tuple[Place, list[tuple[Index, Affine]]]:
        """A place at new indices, and their ranges."""
        binders: list[tuple[Index, Affine]] = []
        place = []
        for axis in axes:
            part = []
            for size in axis:
                made = self.index(size, letters[len(binders) % len(letters)])
                binders.append((made, size))
                part.append(atom_affine(made))
            place.append(tuple(part))
        return tuple(place), binders

    def range_of(self, atom: Any) -> Affine | None:
        """The size that bounds an index."""
        return self._ranges.get(atom)

    def note(self, name: str) -> None:
        """Remember the user's line for `name`."""
        self.lines[name] = None if self.equation is None else line_of(self.equation)

    def assume(self, what: str) -> None:
        """Record the assumption `what`, under which the program equals the user's function."""
        self.assumed[what] = None

    # statements

    def state(self, axes: Axes, body: Callable[[Place], Expr], hint: str) -> RealNumbers:
        """A statement: let x = gen .. body in .."""
        place, binders = self.indices(axes)
        e = body(place)
        x = Var(self.name(hint), array(extents(axes), R))
        self.statements.append((x, gen(binders, e)))
        self.note(x.name)
        sums = self.equation is not None and self.equation.primitive.name in ("dot_general", "reduce_sum")

        def at(place: Place) -> Expr:
            reads = self._reads
            if reads is None or not reads < volume(axes):
                return access(x, *flat_place(place))
            self._reads = None if sums else reads  # what is summed is read more often
            try:
                return body(place)
            finally:
                self._reads = reads

        return RealNumbers(axes=axes, at=at, variable=x)

    def named(self, value: Expr, hint: str) -> Var:
        """Name `value`, which is not given element by element."""
        x = Var(self.name(hint), value.type)
        self.statements.append((x, value))
        self.note(x.name)
        return x

    @property
    def in_loop(self) -> bool:
        """Whether the current statement is in a step of a loop."""
        return self._depth > 0

    def outcome(self, x: Bool) -> IndexArray:
        """Name where a condition on values holds: 1 if it does, and else 0."""
        place, binders = self.indices(x.axes)
        c = IndexArray(self.name("c"), extents(x.axes), constant(2))
        value = Compared("<", number(Fraction(1, 2)), x.choose(place, number(1), number(0)))
        self.statements.append((c, gen(binders, value)))
        self.note(c.name)
        return c

    def read_few(self, x: RealNumbers, axes: Axes) -> RealNumbers:
        """`x`, recomputed where it is read, at places from data, if far fewer elements (of `axes`) are read than it
        has."""
        reads = volume(axes)
        known = self._read_few.get(x.variable, 0) + reads
        if self._depth or x.variable is None or not 0 < 2 * known <= volume(x.axes):
            return x
        self._read_few[x.variable] = known

        def at(place: Place) -> Expr:
            before, self._reads = self._reads, reads
            try:
                return x.at(place)
            finally:
                self._reads = before

        return replace(x, at=at, variable=None)

    def bounded(self, x: RealNumbers) -> RealNumbers:
        """`x`, under a name if it has many pieces, since expressions would grow otherwise."""
        if x.pieces <= MOST_PIECES or x.support is not None or x.infinite or x.constant is not None:
            return x
        return replace(x, at=self.state(x.axes, x.at, "joined").at, pieces=1)

    def mark(self) -> tuple[int, dict[str, None]]:
        """A mark of the current statements and assumptions."""
        return len(self.statements), dict(self.assumed)

    def back_to(self, mark: tuple[int, dict[str, None]]) -> None:
        """Forget the statements and assumptions made since `mark`."""
        del self.statements[mark[0] :]
        self.assumed = dict(mark[1])

    @contextmanager
    def inner(self) -> Iterator[list[tuple[Var | IndexArray, Expr]]]:
        """A context that collects the statements of a step of a loop."""
        outer, self.statements = self.statements, []
        self._depth += 1
        try:
            yield self.statements
        finally:
            self.statements = outer
            self._depth -= 1

    # predicates

    def _context(self, *predicates: Predicate) -> list[Predicate]:
        atoms = {atom for p in predicates for atom in free_atoms(p)}
        ranges = [within(atom_affine(i), self._ranges[i]) for i in atoms if isinstance(i, Index) and i in self._ranges]
        return ranges + [within(atom_affine(x), x.array.size) for p in predicates for x in lookups(p)]

    def holds(self, p: Predicate, where: Predicate = TRUE) -> bool:
        """Whether p holds wherever `where` does, for all sizes."""
        return p is TRUE or implies(conjunction([where, *self._context(p, where)]), p)

    def impossible(self, p: Predicate) -> bool:
        """Whether p holds nowhere, for all sizes of at least 1, which JAX's symbolic sizes are."""
        if p is FALSE or p is TRUE:
            return p is FALSE
        sizes = [at_most(constant(1), atom_affine(s)) for s in free_atoms(p) if isinstance(s, Size)]
        return is_empty(conjunction([p, *sizes, *self._context(p)]))

    def possible(self, cases: list[Case]) -> list[Case]:
        """The cases that can occur."""
        if len(cases) > 1:
            cases = [(p, a) for p, a in cases if not self.impossible(p)]
        return [(TRUE, cases[0][1])] if len(cases) == 1 else cases

    # sums

    def summed(self, axes: Axes, body: Callable[[Place], Expr]) -> Expr:
        """The sum of `body` over all places of these axes."""
        place, binders = self.indices(axes, "rstuvwxyz")
        return sums(binders, body(place))
