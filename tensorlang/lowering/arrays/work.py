"""The cost of an array program for all sizes: the boxes over which it works, before code exists.

It is run on shapes (`shapes`) as `interpret` runs it on arrays, and counts the same: for each operation one for each
element of real numbers that it gives or copies, or what `WORK` says; and the bytes of each array that is named. A count
is a sum of weight * points of a `Box`, whose points are counted when all are known (`points_of`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import cast

from tensorlang.costs.counting import Cell, gathered, points_of
from tensorlang.errors import NormalFormError
from tensorlang.interning import shared
from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Lookup, Size, atom_affine, canonical, constant
from tensorlang.language.predicates import (
    FALSE,
    TRUE,
    Exists,
    Predicate,
    conjunction,
    conjuncts,
    lookups,
    negation,
    relations,
    substitute,
)
from tensorlang.lowering.arrays.extents import ONE, ZERO, Static, compared, each, extreme, floored, less, plus, times
from tensorlang.lowering.arrays.ir import (
    IN_PLACE,
    All,
    Any,
    ArrayOperation,
    Assign,
    Blank,
    Block,
    Define,
    Each,
    EinsumSpec,
    Elementwise,
    Infix,
    IntegerRange,
    Item,
    Lambda,
    Length,
    List,
    Name,
    Negative,
    NewAxis,
    Node,
    Number,
    OnlyIf,
    Part,
    Position,
    Return,
    Slice,
    StaticInteger,
    Subscript,
    Text,
    Transpose,
    Tuple,
    Volume,
    When,
)
from tensorlang.lowering.arrays.operation_work import ADDED, WORK
from tensorlang.lowering.arrays.shapes import (
    SHAPES,
    LoopRange,
    Shape,
    Shaped,
    Value,
    broadcast,
    kind_of,
    number,
    subscripted,
)

_FAR = 1000
"""Sizes below this are found from their powers."""


@dataclass(frozen=True)
class Box:
    """The elements of an array of that shape at each of the integers of the loops around it, where `pred` holds."""

    loops: tuple[LoopRange, ...]
    pred: Predicate
    shape: Shape


@cache
@shared
def box_index(k: int) -> Index:
    """The index of the k-th of the loops of a box, and then of the axes of its shape, in its condition."""
    return canonical(f"place{k}")


def number_in(box: Box) -> tuple[Cell, ...]:
    """The number of points of a box, as cells whose sum is meant, for the worst data. Raises `TooHard`."""
    indices = [box_index(k) for k in range(len(box.loops) + len(box.shape))]
    ends = [*((loop.start, loop.stop) for loop in box.loops), *((ZERO, _end(n)) for n in box.shape)]
    inside = []
    for index, (start, stop) in zip(indices, ends, strict=True):
        here = atom_affine(index)
        inside += [compared(here, ">=", start), compared(here, "<", stop)]
    known = [q for q in conjuncts(box.pred) if not (isinstance(q, Exists) or lookups(q) or relations(q))]
    return points_of(indices, conjunction([*inside, *known]))


def _end(n: Static) -> Static:
    """An axis's length, which may be negative where there is no element."""
    if isinstance(n, Affine) or not n.is_greatest or ZERO not in n.parts:
        return n
    return extreme(True, (part for part in n.parts if part != ZERO))


Boxes = dict[Box, int]


@dataclass
class Work:
    """Operations of an array program and of its steps by name, and bytes of the arrays that it names; of kernels, the
    bytes of what they read and write."""

    operations: Boxes = field(default_factory=dict)
    written: Boxes = field(default_factory=dict)
    read: Boxes = field(default_factory=dict)
    by_step: dict[str, Boxes] = field(default_factory=dict)

    def at(self, values: Mapping[Size, Affine]) -> Work:
        """The work where sizes have these values."""
        atoms = cast(Mapping[Atom, Affine], values)

        def of(a: Static) -> Static:
            return each(a, lambda part: part.substitute(atoms))

        def moved(box: Box) -> Box:
            loops = tuple(LoopRange(of(loop.start), of(loop.stop)) for loop in box.loops)
            return Box(loops, substitute(box.pred, atoms), tuple(map(of, box.shape)))

        return self._with(moved)

    def under(self, p: Predicate) -> Work:
        """The work where a condition on the sizes holds, and none elsewhere."""
        return self._with(lambda box: Box(box.loops, conjunction([p, box.pred]), box.shape))

    def again(self, n: Affine, time: IndexArray) -> tuple[Work, Work]:
        """The work of one of `n` times, where it is the same at each `time`, and the rest of the work at all times."""
        now = Lookup(time, ())

        def at_all(box: Box) -> Box:
            first = len(box.loops)
            moved: dict[Atom, Affine] = {
                box_index(first + k): atom_affine(box_index(first + k + 1)) for k in range(len(box.shape))
            }
            moved[now] = atom_affine(box_index(first))
            return Box((*box.loops, LoopRange(ZERO, n)), substitute(box.pred, moved), box.shape)

        same = self._where(lambda box: now not in lookups(box.pred))
        return same, self._where(lambda box: now in lookups(box.pred))._with(at_all)

    def _where(self, chosen: Callable[[Box], bool]) -> Work:
        """The work of the boxes that are `chosen`."""

        def of(boxes: Boxes) -> Boxes:
            return {box: weight for box, weight in boxes.items() if chosen(box)}

        by_step = {name: of(boxes) for name, boxes in self.by_step.items()}
        return Work(of(self.operations), of(self.written), of(self.read), by_step)

    def _with(self, change: Callable[[Box], Box]) -> Work:
        def changed(boxes: Boxes) -> Boxes:
            found: Boxes = {}
            for box, weight in boxes.items():
                charge(found, change(box), weight)
            return found

        by_step = {name: changed(boxes) for name, boxes in self.by_step.items()}
        return Work(changed(self.operations), changed(self.written), changed(self.read), by_step)

    def of_one_step(self, name: str) -> Work:
        """The same, as that of one step of this name."""
        return Work(self.operations, self.written, self.read, {name: self.operations})


def together(several: Iterable[Work]) -> Work:
    """The work of several parts of a program."""
    found = Work()
    for w in several:
        pairs = [(found.operations, w.operations), (found.written, w.written), (found.read, w.read)]
        pairs += [(found.by_step.setdefault(name, {}), boxes) for name, boxes in w.by_step.items()]
        for into, boxes in pairs:
            for box, weight in boxes.items():
                charge(into, box, weight)
    return found


def charge(boxes: Boxes, box: Box, weight: int) -> None:
    """Count a box `weight` times more."""
    boxes[box] = boxes.get(box, 0) + weight


def cells_of(boxes: Mapping[Box, int]) -> tuple[Cell, ...]:
    """The number that boxes stand for. Raises `TooHard`."""
    return gathered((p, a * weight) for box, weight in boxes.items() for p, a in number_in(box))


BYTES = {"f": 8, "i": 8, "b": 1}
"""The bytes of an element of each kind, in double precision."""

IN_SINGLE = {"f": 4, "i": 4, "b": 1}
"""The same in single precision."""


def work(
    program: Define, parameters: Sequence[Value], sizes: Mapping[str, Size], widths: Mapping[str, int] = BYTES
) -> Work:
    """The cost of `program` for parameters of these shapes, whose `sizes` have these names in it; elements have as many
    bytes as `widths` says.

    Raises `NormalFormError` for an operation of no shape.
    """
    run = _Run(Work(), {name: atom_affine(size) for name, size in sizes.items()}, widths)
    names = [name for name in program.parameters if name != "*" and name not in sizes]
    run.steps(program.body, {**_NAMES, **run.sizes, **dict(zip(names, parameters, strict=True))})
    return run.work


Scope = dict[str, Value]

_NAMES: Scope = {
    "True": TRUE,
    "False": FALSE,
    "None": None,
    "float": Shaped(),
    "bool": Shaped((), "b"),
    "jnp.int32": Shaped((), "i"),
    "jnp.inf": Shaped(),
    "jnp.nan": Shaped(),
}


def is_free(value: Node) -> bool:
    """Whether to assign `value` takes no memory: another name for an array, an array brought to the common dtype, or a
    state that is written in place."""
    return isinstance(value, Name) or (isinstance(value, ArrayOperation) and value.operation in ("asarray", *IN_PLACE))


@dataclass
class _Run:
    work: Work
    sizes: Mapping[str, Affine]
    widths: Mapping[str, int]
    loops: tuple[LoopRange, ...] = ()
    pred: Predicate = TRUE
    step: Boxes = field(default_factory=dict)

    def charge(self, shape: Shape, weight: int = 1) -> None:
        """Charge `weight` operations for each element of an array of that shape."""
        box = Box(self.loops, self.pred, shape)
        for boxes in (self.work.operations, self.step):
            charge(boxes, box, weight)

    def counted(self, found: Shaped, each: int = 1) -> Shaped:
        """`found`, each of whose elements takes `each` operations, if they are real numbers."""
        if found.kind == "f" and not found.literal:
            self.charge(found.shape, each)
        return found

    def steps(self, block: Block, scope: Scope) -> None:
        """Count the statements of the program, in steps that are named after what they assign last."""
        name = ""
        for s in (*block.statements, Blank()):
            if isinstance(s, Blank):
                total = self.work.by_step.setdefault(name, {})
                for box, weight in self.step.items():
                    charge(total, box, weight)
                self.step = {}
                continue
            name = s.names[0] if isinstance(s, Assign) else name
            self.block(Block([s]), scope)

    def block(self, block: Block, scope: Scope) -> Value:
        """The result of a block, which assigns in `scope`."""
        for s in block.statements:
            match s:
                case Assign((name,), _, False) if name in self.sizes:
                    pass
                case Assign(names, value, unpacked):
                    found = self.value(value, scope)
                    scope.update(zip(names, found, strict=True) if unpacked else [(names[0], found)])
                    if isinstance(found, Shaped) and found.shape and not is_free(value):
                        box = Box(self.loops, self.pred, found.shape)
                        charge(self.work.written, box, self.widths[found.kind])
                case Define(name, parameters, body):
                    scope[name] = self.closure(parameters, body, scope)
                case When(test, then, otherwise):
                    p = self.value(test, scope)
                    p = p if isinstance(p, Predicate) else None  # both are counted
                    with self.within((), (p and negation(p)) or TRUE):
                        self.block(otherwise, scope)
                    with self.within((), p or TRUE):
                        self.block(then, scope)
                case Return(value):
                    return self.value(value, scope)
                case _:
                    pass
        return None

    @contextmanager
    def within(self, loops: Sequence[LoopRange], pred: Predicate = TRUE) -> Iterator[list[Affine]]:
        """Count what is done for each of the integers of some loops; yields their indices."""
        before = self.loops, self.pred
        indices = [atom_affine(box_index(len(self.loops) + k)) for k in range(len(loops))]
        self.loops, self.pred = (*self.loops, *loops), conjunction([self.pred, pred])
        yield indices
        self.loops, self.pred = before

    def closure(self, parameters: Sequence[str], body: Block | Node, scope: Scope) -> Callable[..., Value]:
        """A function of the program's."""

        def call(*arguments: Value) -> Value:
            inner = {**scope, **dict(zip(parameters, arguments, strict=True))}
            return self.block(body, inner) if isinstance(body, Block) else self.value(body, inner)

        return call

    def value(self, node: Node, scope: Scope) -> Value:
        """The shape of an expression, or its value if it is a static integer."""
        match node:
            case Number(value, real):
                return Shaped((), "f" if real or value.denominator > 1 else "i", True)
            case Name(name):
                return scope[name]
            case Part():
                return None
            case StaticInteger(a):
                return _integer(a, scope, {})
            case Volume(factor, extents):
                total: Static | None = constant(factor)
                for a in extents:
                    total = None if total is None else _product(total, _integer(a, scope, {}))
                return total or Shaped((), "i", True)
            case Position(a, arrays):
                return _integer(a, scope, {atom: self.value(array, scope) for atom, array in arrays})
            case Infix(left, "<=", right) if (found := self.of_power(left, right, scope)) is not None:
                return found
            case Infix(left, op, right):
                return self.infix(self.value(left, scope), op, self.value(right, scope))
            case Negative(of):
                x = self.value(of, scope)
                return self.counted(x) if isinstance(x, Shaped) else times(x, -1)
            case Elementwise(f, arguments):
                shape = broadcast(*(self.value(v, scope) for v in arguments))
                return self.counted(Shaped(shape), f.cost)
            case Subscript(of, at):
                return subscripted(self.value(of, scope), *(self.part(p, scope) for p in at))
            case Length(of, axis):
                return self.value(of, scope).shape[axis]
            case Item(of, place):
                return self.value(of, scope)[place]
            case Transpose(of, places):
                x = self.value(of, scope)
                return replace(x, shape=tuple(x.shape[k] for k in places))
            case Any(of, places):
                x = self.value(of, scope)
                return Shaped(tuple(n for k, n in enumerate(x.shape) if k not in places), "b")
            case Tuple(items) | List(items):
                return tuple(self.value(v, scope) for v in items)
            case IntegerRange(start, stop):
                return LoopRange(_integer(start, scope, {}), _integer(stop, scope, {}))
            case Text(text):
                return text
            case EinsumSpec():
                return node
            case Lambda(parameters, body):
                return self.closure(parameters, body, scope)
            case Each(function, of):
                return tuple(scope[function.name](*x) for x in self.value(of, scope))
            case OnlyIf(_, (holds, compute), _, condition):
                self.value(holds, scope)
                with self.within((), condition):
                    return self.value(compute, scope)()
            case ArrayOperation(operation, arguments, keywords):
                given = [self.value(v, scope) for v in arguments]
                named = {name: self.value(v, scope) for name, v in keywords}
                return self.applied(operation, given, named)
        raise NormalFormError(f"an array program has no shape for {type(node).__name__}")

    def of_power(self, left: Node, right: Node, scope: Scope) -> Predicate | None:
        """left <= right, where one is a number and the other a power of an integer, as a comparison of that integer."""
        for power, other in ((right, left), (left, right)):
            limit = self.value(other, scope) if isinstance(power, Volume) and len(power.extents) > 1 else None
            if not isinstance(power, Volume) or not isinstance(limit, Affine) or not 0 < limit.constant < _FAR:
                continue
            bases = [_integer(a, scope, {}) for a in power.extents]
            if limit.is_constant and all(base == bases[0] for base in bases):
                reached = limit.constant + (power is left)
                root = next(n for n in range(_FAR) if power.factor * n ** len(bases) >= reached)
                return compared(bases[0], "<" if power is left else ">=", constant(root))
        return None

    def infix(self, a: Value, op: str, b: Value) -> Value:
        """left op right, of arrays or of static integers."""
        if isinstance(a, Predicate) and isinstance(b, Predicate):
            return conjunction([a, b])
        comparison = op in ("==", "!=", ">=", "<=", ">", "<")
        if not isinstance(a, Shaped) and not isinstance(b, Shaped):
            if comparison:
                return compared(a, op, b)
            if op in "+-":
                return plus(a, b) if op == "+" else less(a, b)
            if op == "*":
                return _product(a, b) or Shaped((), "i", True)
            if op == "//":
                return floored(a, number(b))
        kind = "b" if comparison else "f" if op == "/" else kind_of(a, b)
        literal = all(not isinstance(x, Shaped) or x.literal for x in (a, b))
        return self.counted(Shaped(broadcast(a, b), kind, literal))

    def applied(self, operation: str, given: Sequence[Value], named: Mapping[str, Value]) -> Value:
        """An operation of some values."""
        if operation in OF_INTEGERS:
            if not any(isinstance(x, Shaped) for x in given):
                return OF_INTEGERS[operation](*given)
            return self.counted(Shaped(broadcast(*given), kind_of(*given)))
        if operation not in SHAPES:
            raise NormalFormError(f"an array program has no shape for {operation}")
        if operation in _LOOPS:
            loops, further = _LOOPS[operation]
            body = next(x for x in given if callable(x))
            with self.within(loops(*given)) as indices:
                body(*indices, *further)
                if operation in ADDED:
                    self.charge(given[-2])
        elif operation in _BY_BLOCKS:
            for cut in given[0]:
                given[1](*cut)
        found = SHAPES[operation](*given, **named)
        if operation in WORK:
            for weight, shape in WORK[operation](*given, **named):
                self.charge(shape, weight)
            return found
        return self.counted(found) if isinstance(found, Shaped) else found

    def part(self, node: Node, scope: Scope) -> Value:
        """The index of an axis."""
        match node:
            case All():
                return slice(None)
            case NewAxis():
                return None
            case Slice(start, stop, step):
                first, last = (None if a is None else _integer(a, scope, {}) for a in (start, stop))
                return slice(first, last, step)
            case _:
                return self.value(node, scope)


def _product(a: Static, b: Static) -> Static | None:
    """a * b, if one of them depends on no size."""
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Affine) and not one.terms:
            return times(other, one.constant)
    return None


def _integer(a: Affine, scope: Scope, arrays: Mapping[Atom, Value]) -> Value:
    values = {atom: arrays[atom] if atom in arrays else scope[atom.name] for atom in a.atoms}
    if any(isinstance(v, Shaped) for v in values.values()):
        return Shaped(broadcast(*values.values()), "i")
    total: Static = Affine((), a.constant)
    for atom, k in a.terms:
        total = plus(total, times(values[atom], k))
    return total


OF_INTEGERS: Mapping[str, Callable[..., Static]] = {
    "greatest": lambda *several: extreme(True, several),
    "least": lambda *several: extreme(False, several),
    "clip": lambda n, low, high: extreme(False, (extreme(True, (n, low)), high)),
    "maximum": lambda *several: extreme(True, several),
    "minimum": lambda *several: extreme(False, several),
}

_LOOPS: Mapping[str, tuple[Callable[..., Sequence[LoopRange]], tuple[Static, ...]]] = {
    **dict.fromkeys(("_sum_over", "_stack_over"), (lambda loops, *_: loops, ())),
    **dict.fromkeys(
        ("_greatest_over", "_first_greatest_over", "_first_greatest_where_over"), (lambda loop, *_: (loop,), ())
    ),
    **dict.fromkeys(
        ("_array_by_windows", "_sum_by_windows", "_band_by_windows"),
        (lambda start, stop, *_: (LoopRange(start, stop),), (ONE,)),
    ),
}
"""The loops of operations that call a function for all integers of these, and what else they give it: windows are of
one row."""

_BY_BLOCKS = frozenset(["_array_by_blocks", "_sum_by_blocks"])
"""Operations that call a function for each of some blocks of rows."""
