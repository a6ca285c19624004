"""The expression that a derivation rewrites, as rows with lifetimes.

In mid-derivation the expression consists of lets, differentials, and a sum of inner products (see
`derivatives/derivation`). Each of these parts is a row. A step removes rows and puts others in their places, so the
expression before a step consists of all rows alive then, and nothing is stored twice, however long the derivation.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tensorlang.derivatives.derivation import Derivation, InnerProduct, Side, Step
from tensorlang.derivatives.total import active
from tensorlang.language.grammar import Var
from tensorlang.language.types import leaves
from tensorlang.normal.ssa import Constant, Input, Outputs, Statement, is_given


@dataclass(frozen=True, eq=False)
class LetRow:
    """let X = E in"""

    statement: Statement


@dataclass(frozen=True, eq=False)
class Differential:
    """let dX = D[E] in"""

    statement: Statement


@dataclass(frozen=True, eq=False)
class Opening:
    """<dY | D( before lets that are still under D."""

    outputs: Outputs


@dataclass(frozen=True, eq=False)
class Under:
    """let X = E in, under D."""

    statement: Statement


@dataclass(frozen=True, eq=False)
class Closing:
    """The outputs, and )> after the lets that are under D."""

    outputs: Outputs


@dataclass(frozen=True, eq=False)
class Split:
    """<dY | D(X0, X1)>, part of <dY | D Y> for outputs in pairs; `path` leads to it."""

    outputs: tuple[Outputs, Outputs]
    path: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Paired:
    """<(e0, e1) | dx> for a parameter that is a pair, made of inner products with its parts."""

    cotangents: Outputs
    param: Var
    parts: tuple[InnerProduct, ...]


@dataclass(frozen=True, eq=False)
class Zero:
    """0"""


Part = LetRow | Differential | Opening | Under | Closing | Split | InnerProduct | Paired | Zero


@dataclass(eq=False)
class Row:
    """A part of the expression, from before step `born` until step `died - 1` removes it.

    Steps count from 0. `group` is 0 for lets, 1 for differentials that are behind them, and 2 for inner products.
    """

    part: Part
    born: int
    died: int | None = None
    group: int = 0

    def is_alive(self, time: int) -> bool:
        """Whether the row is in the expression before step `time`."""
        return self.born <= time and (self.died is None or time < self.died)


@dataclass(frozen=True)
class Change:
    """The rows that a step removes, and those that it adds."""

    taken: tuple[Row, ...]
    given: tuple[Row, ...]


class Rows:
    """All rows of a derivation, in the order in which they are written, and the changes by each step."""

    def __init__(self, derivation: Derivation) -> None:
        self.derivation = derivation
        self.active = active(derivation.program, derivation.wrt)
        self.changes: list[Change] = []
        self._lets: list[Row] = []
        self._late: list[Row] = []
        self._products = _Chain()
        self._differentials: dict[Statement, Row] = {}
        self._open: dict[InnerProduct, Row] = {}
        self._outputs: list[Row] = []
        self._zeros: list[Row] = []
        self._pairs = _pairs(derivation)
        lifted = [step.subject for step in derivation.steps if step.rule.number == "6.14" and step.subject is not None]
        self._under = deque(Row(Under(x), 0) for x in lifted)
        outputs = derivation.program.outputs
        self._ends = (Row(Opening(outputs), 0), Row(Closing(outputs), 0))
        if lifted:
            self._products.put([self._ends[0], *self._under, self._ends[1]])
        else:
            self._outputs = [self._output(outputs, (), 0)]
            self._products.put(self._outputs)
        for time, step in enumerate(derivation.steps, 1):
            taken, given = self._step(step, time)
            for row in taken:
                row.died = time
            self.changes.append(Change(tuple(taken), tuple(given)))
        groups = (self._lets, self._late, list(self._products))
        for k, group in enumerate(groups):
            for row in group:
                row.group = k
        self.all = [row for group in groups for row in group]

    def alive(self, time: int) -> list[Row]:
        """The expression before step `time`, or after the last one."""
        return [row for row in self.all if row.is_alive(time)]

    def _step(self, step: Step, time: int) -> tuple[list[Row], list[Row]]:
        """The rows that the step removes and adds; the latter are alive from `time` on."""
        match step.rule.number:
            case "6.14":
                return self._lifted(step, time)
            case "6.15":
                early = list(self._differentials.values())
                self._differentials = {x: Row(Differential(x), time) for x in self._differentials}
                self._late = list(self._differentials.values())
                return early, self._late
            case "6.16":
                row = self._outputs.pop()
                assert isinstance(row.part, Split)
                parts = [self._output(x, (*row.part.path, k), time) for k, x in enumerate(row.part.outputs)]
                self._outputs += reversed(parts)
                self._products.put(parts, row)
                return [row], parts
            case "6.18":
                x, cotangents = next(self._pairs)
                own = [q for q in self._open if isinstance(q.right, Input) and q.right.param is x]
                taken = [self._open.pop(q) for q in own]
                pair = Row(Paired(cotangents, x, tuple(own)), time)
                self._products.put([pair], taken[-1] if taken else None)
                return taken, [pair]
            case "6.20":
                assert step.subject is not None
                return [self._differentials.pop(step.subject)], []
            case "6.24":
                return [self._zeros.pop()], []
        return self._rewritten(step, time)

    def _lifted(self, step: Step, time: int) -> tuple[list[Row], list[Row]]:
        """6.14 takes a let from under D; the last to go leaves the outputs there."""
        x = step.subject
        assert x is not None
        taken, given = [self._under.popleft()], [self._let(x, time)]
        if x in self.active:
            row = self._differentials[x] = Row(Differential(x), time)
            self._lets.append(row)
            given.append(row)
        if not self._under:
            output = self._output(self.derivation.program.outputs, (), time)
            self._outputs = [output]
            self._products.put([output])
            taken += self._ends
            given.append(output)
        return taken, given

    def _rewritten(self, step: Step, time: int) -> tuple[list[Row], list[Row]]:
        """Any rule that rewrites inner products."""
        taken = [self._open.pop(q) if q in self._open else self._outputs.pop() for q in step.before]
        last = taken[-1]
        if step.rule.number == "6.19":
            assert step.subject is not None
            taken.insert(0, self._differentials.pop(step.subject))
        given = [self._let(x, time) for x in step.made if not (is_given(x) or isinstance(x, Constant))]
        products = [Row(q, time) for q in step.after]
        self._open.update(zip(step.after, products, strict=True))
        if not products:
            zero = Row(Zero(), time)
            products = [zero]
            if step.rule.number in ("6.22", "6.23"):
                self._zeros.append(zero)  # 6.24 removes it
            else:
                zero.died = time
        self._products.put(products, last)
        return taken, given + products

    def _let(self, x: Statement, time: int) -> Row:
        row = Row(LetRow(x), time)
        self._lets.append(row)
        return row

    def _output(self, outputs: Outputs, path: tuple[int, ...], time: int) -> Row:
        """<dY | D X>, an inner product of arrays if X is no pair."""
        if isinstance(outputs, tuple):
            return Row(Split(outputs, path), time)
        return Row(InnerProduct(Input(cotangent(self.derivation), path, outputs.shape), outputs, Side.VARIABLE), time)


def cotangent(derivation: Derivation) -> Var:
    """dY, the last parameter of the adjoint."""
    found = derivation.result.params[-1]
    assert isinstance(found, Var)
    return found


class _Chain:
    """An ordered sequence of rows, into which new ones are inserted behind others."""

    def __init__(self) -> None:
        self.next: dict[Row | None, Row | None] = {None: None}
        self.last: Row | None = None

    def put(self, rows: Iterable[Row], behind: Row | None = None) -> None:
        """Put `rows` behind one that is here, or at the end."""
        at = behind or self.last
        for row in rows:
            self.next[row] = self.next[at]
            self.next[at] = row
            self.last = row if self.last is at else self.last
            at = row

    def __iter__(self) -> Iterator[Row]:
        row = self.next[None]
        while row is not None:
            yield row
            row = self.next[row]


def _pairs(derivation: Derivation) -> Iterator[tuple[Var, Outputs]]:
    """The parameters for which 6.18 makes pairs, in order, each with its cotangents."""
    outputs = derivation.result.outputs
    for k, x in enumerate(derivation.wrt):
        own = outputs
        if k < len(derivation.wrt) - 1:
            assert isinstance(outputs, tuple)
            own, outputs = outputs
        if len(leaves(x.type)) > 1:
            yield x, own
