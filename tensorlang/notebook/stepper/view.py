"""The reader's view of a derivation: one frame for each step, made on demand.

A frame has the expression, with the parts that the step rewrites marked before and after, the rule, the ledger of
Figure 17, and the sets involved. Texts are HTML, in the paper's notation in Unicode, and don't depend on the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from html import escape
from itertools import accumulate, groupby
from typing import NamedTuple, assert_never

from tensorlang.derivatives.derivation import Derivation, InnerProduct, Rule, Side
from tensorlang.derivatives.ledger import Ledger
from tensorlang.derivatives.transcript import DerivationNames, Style
from tensorlang.errors import ArgumentError, LimitError
from tensorlang.language.affine import IndexArray
from tensorlang.language.grammar import Proj
from tensorlang.language.notation import UNICODE
from tensorlang.language.predicates import Relation
from tensorlang.language.show import expr_lines, function_lines, predicate_unicode
from tensorlang.normal.ssa import Defining, Outputs, Statement, operands, output_list
from tensorlang.notebook.stepper.rows import (
    Closing,
    Differential,
    LetRow,
    Opening,
    Paired,
    Row,
    Rows,
    Split,
    Under,
    Zero,
    cotangent,
)
from tensorlang.notebook.stepper.sets import PointSet, count_text, involved, picture, set_text
from tensorlang.notebook.stepper.settings import chosen
from tensorlang.notebook.stepper.worked import Worked, array_text, worked
from tensorlang.pictures.graphs import Item
from tensorlang.recursion import Deep, call, run

_MOST_ROWS = 18
"""The most rows of an expression that are all shown; of a longer one only those that concern the step."""
_MOST_MARKED = 24
_MOST_SETS = 6
_LONGEST = 1_500
_MOST_COUNTED = 600
"""The most steps with a running ledger, which adds up all earlier steps; in longer derivations, only the change by each
step is counted."""


def _shown(lines: Iterable[str]) -> str:
    return escape("\n".join(lines), quote=False)


HTML = Style(
    lambda f: _shown(function_lines(f, UNICODE)),
    lambda e: _shown(expr_lines(e, UNICODE, _LONGEST)),
    lambda p: escape(predicate_unicode(p), quote=False),
    "⟨{0} | {1}⟩",
    "⟨{0} | {1}⟩<sub>[{2}]</sub>",
    {Side.VARIABLE: "<b>D</b> {0}", Side.DIFFERENTIAL: "d{0}", Side.DEFINITION: "<b>D</b>[{0}]"},
)
"""The style in which a derivation is shown."""


class Amount(NamedTuple):
    """The cost of an expression in mid-derivation (Figure 17): of its lets, differentials and inner products."""

    lets: int
    differentials: int
    products: int

    @property
    def total(self) -> int:
        """The extended cost."""
        return sum(self)


def _sum(amounts: Iterable[Amount]) -> Amount:
    return Amount(*map(sum, zip(Amount(0, 0, 0), *amounts, strict=True)))


@dataclass(frozen=True)
class Line:
    """A row as shown: "before" the step, "after" it, or "" for both; with its cost, if counted, and its value, if it
    has one."""

    mark: str
    text: str
    cost: int | None
    value: str = ""


@dataclass(frozen=True)
class Gap:
    """A number of rows that are not shown, all with the same mark."""

    mark: str
    count: int


@dataclass(frozen=True)
class ShownSet:
    """A set: its subject, its text, and if available the numbers of its points, for all sizes and here, and a
    picture."""

    of: str
    text: str
    count: str | None
    here: int | None
    picture: str | None


@dataclass(frozen=True)
class Frame:
    """Step `number`, from 1: its rule, its subject, the expression, the sets involved; and before and after the step,
    the cost of what it rewrites and of the whole expression, and the sum of all inner products."""

    number: int
    rule: Rule
    about: tuple[str, ...]
    lines: tuple[Line | Gap, ...]
    own: tuple[Amount, Amount] | None
    running: tuple[Amount, Amount] | None
    sets: tuple[ShownSet, ...]
    sums: tuple[float, float] | None = None


class Origin(NamedTuple):
    """The step that made the object of a name, and the names that belong together: a statement of the program, its
    cotangent, and the name of that in the adjoint."""

    step: int
    names: tuple[str, ...]


class View:
    """A derivation to be viewed step by step, counted at its own data or at small sizes; perhaps with the code
    generated for the adjoint."""

    def __init__(self, derivation: Derivation, has_code: bool = True) -> None:
        self.derivation = derivation
        self.has_code = has_code
        self.rows = Rows(derivation)
        self.names = DerivationNames(derivation, HTML)
        self._texts: dict[Row, str] = {}
        self._amounts: dict[Row, Amount] = {}
        self.setting = chosen(derivation)
        self.ledger: Ledger | None = None
        self.trouble: str | None = None
        """Why costs can't be counted."""
        self.totals: tuple[Amount, ...] = ()
        """The extended cost before each step and after the last; empty if that is not counted."""
        try:
            self.ledger = Ledger(derivation, self.setting.data)
            if len(derivation.steps) <= _MOST_COUNTED:
                self.totals = self._added_up()
            elif any(isinstance(x, Defining) for x in derivation.program.statements):
                raise LimitError("steps can be counted only where no points are chosen")
        except (ArgumentError, LimitError) as error:
            self.ledger, self.trouble = None, str(error)

    @cached_property
    def key(self) -> str:
        """The prefix of ids on a page, which differs from those of other derivations there."""
        d = self.derivation
        by = ",".join(x.name for x in d.wrt)
        return f"d{sha256(f'{d.function.name} {by} {len(d.steps)}'.encode()).hexdigest()[:6]}"

    def title(self, number: int) -> str:
        """The rule of step `number`."""
        rule = self.derivation.steps[number - 1].rule
        return f"{rule.number} {rule.name}"

    def about(self, number: int) -> tuple[str, ...]:
        """The names of the subject of step `number`, and of the statements that it makes."""
        step = self.derivation.steps[number - 1]
        own = [] if step.subject is None else [step.subject]
        change = self.rows.changes[number - 1]
        made = [row.part.statement for row in change.given if isinstance(row.part, LetRow)]
        return tuple(dict.fromkeys(map(self.names.of, (*own, *made))))

    @cached_property
    def made(self) -> dict[str, tuple[int, Statement]]:
        """The statements that steps make, by name, each with its first step: first the program's, then cotangents."""
        found: dict[str, tuple[int, Statement]] = {}
        for number, change in enumerate(self.rows.changes, 1):
            for row in change.given:
                if isinstance(row.part, LetRow):
                    found.setdefault(self.names.of(row.part.statement), (number, row.part.statement))
        return found

    @cached_property
    def cotangents(self) -> dict[Item, tuple[int, Statement]]:
        """The cotangent of each statement of the program that has one, and the step that completes it."""
        found: dict[Item, tuple[int, Statement]] = {}
        for number, step in enumerate(self.derivation.steps, 1):
            if step.rule.number in ("6.17", "6.19"):
                found.update((product.right, (number, product.left)) for product in step.before)
        for row in self.rows.alive(len(self.derivation.steps)):
            parts = row.part.parts if isinstance(row.part, Paired) else (row.part,)
            products = [part for part in parts if isinstance(part, InnerProduct)]
            found.update((product.right, (row.born, product.left)) for product in products)
        return found

    @cached_property
    def origins(self) -> dict[str, Origin]:
        """The origins of names: those of statements that steps make, and the adjoint's names for these."""
        found = {name: Origin(step, (name,)) for name, (step, _) in self.made.items()}
        for x, (step, left) in self.cotangents.items():
            own = self.names.of(x)  # type: ignore[arg-type]
            bar, alias = self.names.of(left), f"{own}_bar"
            for name in (own, bar, alias):
                before = found.get(name, Origin(step, ()))
                if name in found or name == alias:
                    found[name] = Origin(before.step, tuple(dict.fromkeys((*before.names, own, bar, alias))))
        return found

    def related(self, x: Item) -> tuple[str, ...]:
        """The names that go with `x`: its own, and its cotangent's."""
        own = self.names.of(x) if not isinstance(x, IndexArray | Relation) else x.name
        bar = [self.names.of(self.cotangents[x][1]), f"{own}_bar"] if x in self.cotangents else []
        return tuple(dict.fromkeys((own, *bar)))

    def completed(self, x: Item) -> int:
        """The step that completes the cotangent of `x`; 0 if there is none."""
        return self.cotangents[x][0] if x in self.cotangents else 0

    @cached_property
    def worked(self) -> Worked | None:
        """The values of all statements, if there are any."""
        return worked(self.derivation, self.setting)

    def frame(self, number: int) -> Frame:
        """Step `number`."""
        change = self.rows.changes[number - 1]
        own = running = None
        if self.ledger is not None:
            own = self._cost(change.taken), self._cost(change.given)
            if self.totals:
                running = self.totals[number - 1], self.totals[number]
        return Frame(
            number,
            self.derivation.steps[number - 1].rule,
            self.about(number),
            tuple(self._lines(number)),
            own,
            running,
            tuple(self._sets(number)),
            self._sums(number),
        )

    def _sums(self, number: int) -> tuple[float, float] | None:
        """The sum of the inner products before and after the step; None if one has no value."""
        if self.worked is None:
            return None
        found = []
        for time in (number - 1, number):
            terms = [row.part for row in self.rows.alive(time) if row.group == 2]
            values = [self.worked.row(part) for part in terms if not isinstance(part, Under | Closing)]
            numbers = [float(value) for value in values if value is not None]
            if len(numbers) < len(values):
                return None
            found.append(sum(numbers))
        return found[0], found[1]

    def _added_up(self) -> tuple[Amount, ...]:
        changes = (
            Amount(*(b - a for a, b in zip(self._cost(c.taken), self._cost(c.given), strict=True)))
            for c in self.rows.changes
        )
        return tuple(accumulate(changes, lambda a, b: _sum((a, b)), initial=self._cost(self.rows.alive(0))))

    def _cost(self, rows: Iterable[Row]) -> Amount:
        assert self.ledger is not None
        return _sum([self._counted(self.ledger, row) for row in rows])

    def _counted(self, ledger: Ledger, row: Row) -> Amount:
        if row not in self._amounts:
            self._amounts[row] = self._count(ledger, row)
        return self._amounts[row]

    def _count(self, ledger: Ledger, row: Row) -> Amount:
        match row.part:
            case LetRow(x):
                return Amount(ledger.statement(x), 0, 0)
            case Differential(x):
                return Amount(0, ledger.differential(x), 0)
            case Under(x):
                return Amount(0, ledger.statement(x) + (ledger.differential(x) if x in self.rows.active else 0), 0)
            case Opening(outputs) | Split(outputs, _):
                products = (InnerProduct(x, x, Side.VARIABLE) for x in output_list(outputs))
                return Amount(0, 0, sum(map(ledger.inner_product, products)))
            case InnerProduct() as product:
                whole = ledger.inner_product(product)
                inside = ledger.differential(product.right) if product.side is Side.DEFINITION else 0
                return Amount(0, inside, whole - inside)
            case Paired(_, _, parts):
                return Amount(0, 0, sum(map(ledger.inner_product, parts)))
            case Closing() | Zero():
                return Amount(0, 0, 0)
        assert_never(row.part)

    def text(self, row: Row) -> str:
        """A row as HTML."""
        if row not in self._texts:
            self._texts[row] = self._text(row)
        return self._texts[row]

    def _text(self, row: Row) -> str:
        match row.part:
            case LetRow(x):
                return f"let {self.names.definition(x)} in"
            case Differential(x):
                name = self.names.of(x)
                return f"let d{name} = <b>D</b>[{name}] in"
            case Opening():
                return f"+ ⟨{self._cotangent(())} | <b>D</b>("
            case Under(x):
                return f"    let {self.names.definition(x)} in"
            case Closing(outputs):
                return f"    {self._pairs(outputs)})⟩"
            case Split(outputs, path):
                return f"+ ⟨{self._cotangent(path)} | <b>D</b>{self._pairs(outputs)}⟩"
            case InnerProduct(sign=sign) as product:
                text = self.names.product(product)
                return f"− {text.removeprefix('-')}" if sign < 0 else f"+ {text}"
            case Paired(cotangents, x, _):
                return f"+ ⟨{self._pairs(cotangents)} | d{escape(x.name)}⟩"
            case Zero():
                return "+ 0"
        assert_never(row.part)

    def _cotangent(self, path: tuple[int, ...]) -> str:
        e = cotangent(self.derivation)
        part = e
        for which in path:
            part = Proj(which, part)  # type: ignore[assignment]
        return HTML.expr(part)

    def _pairs(self, outputs: Outputs) -> str:
        def visit(part: Outputs) -> Deep[str]:
            if isinstance(part, tuple):
                first: str = yield from call(visit(part[0]))
                second: str = yield from call(visit(part[1]))
                return f"({first}, {second})"
            return self.names.of(part)

        return run(visit(outputs))

    def _lines(self, number: int) -> Iterator[Line | Gap]:
        """The expression before and after the step in one: common rows, and those that the step removes and adds."""
        change = self.rows.changes[number - 1]
        marks = {**dict.fromkeys(change.taken, "before"), **dict.fromkeys(change.given, "after")}
        shown = [row for row in self.rows.all if row in marks or row.is_alive(number)]
        kept = set(shown) if len(shown) <= _MOST_ROWS else self._kept(shown, marks)
        for (is_kept, mark), group in groupby(shown, lambda row: (row in kept, marks.get(row, ""))):
            if is_kept:
                for row in group:
                    cost = None if self.ledger is None else self._counted(self.ledger, row).total
                    value = None if self.worked is None else self.worked.row(row.part)
                    yield Line(mark, self.text(row), cost, "" if value is None else array_text(value))
            else:
                yield Gap(mark, sum(1 for _ in group))

    def _kept(self, shown: list[Row], marks: dict[Row, str]) -> set[Row]:
        """The rows to show if there are many: those that the step rewrites or mentions, and their neighbours."""
        kept = dict.fromkeys(list(marks)[:_MOST_MARKED])
        mentioned = {x for row in kept for x in _mentioned(row)}
        kept |= dict.fromkeys(
            [row for row in shown if isinstance(row.part, LetRow) and row.part.statement in mentioned]
        )
        places = [k for k, row in enumerate(shown) if row in marks][:_MOST_MARKED]
        for away in range(1, _MOST_ROWS):
            for k in (j for place in places for j in (place - away, place + away)):
                if 0 <= k < len(shown) and shown[k] not in marks and len(kept) < _MOST_ROWS:
                    kept[shown[k]] = None
        return set(list(kept)[: _MOST_ROWS + _MOST_MARKED])

    def _sets(self, number: int) -> Iterator[ShownSet]:
        change = self.rows.changes[number - 1]
        found: dict[object, PointSet] = {}
        for row in (*change.taken, *change.given)[:_MOST_MARKED]:
            if not isinstance(row.part, LetRow | InnerProduct):
                continue
            of = (
                self.names.of(row.part.statement) if isinstance(row.part, LetRow) else self.text(row).removeprefix("+ ")
            )
            for points in involved(row, of):
                found.setdefault((points.pred, tuple(points.ranges.items())), points)
        for points in list(found.values())[:_MOST_SETS]:
            here = drawn = None
            if self.ledger is not None:
                here = self.ledger.points(points.pred, points.ranges)
                drawn = picture(self.ledger, points)
            yield ShownSet(points.of, set_text(points), count_text(self.derivation, points), here, drawn)


def _mentioned(row: Row) -> tuple[Statement, ...]:
    match row.part:
        case LetRow(x) | Under(x):
            return operands(x)
        case Differential(x):
            return (x,)
        case InnerProduct(left=left, right=right):
            return (left, right)
    return ()
