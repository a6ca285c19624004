"""Array programs: what runs, as values, before anything is written.

    block      ::=  statement*
    statement  ::=  x, .. := e                        names of arrays, of static integers, or of parts of a tuple
                 |  define f(x, ..): block            a function of blocks of rows, or of a loop's indices
                 |  when e: block else: block         a choice by sizes, made when the program is traced
                 |  return e  |  note                 a comment
    e          ::=  number                            a literal
                 |  x                                 what has that name
                 |  a                                 a static integer: an affine expression of sizes
                 |  volume(c, a, ..)                  c times static integers
                 |  position(a; atom: e, ..)          an affine expression some of whose atoms are arrays of integers
                 |  e op e  |  -e                     op: + - * / // % == > >= < <= & | and
                 |  f(e, ..)                          a scalar function, elementwise
                 |  e[part, ..]                       part: all | new axis | e | slice a:b:step
                 |  length(x, axis)  |  item(x, k)    a part of a tuple
                 |  transpose(e, places)
                 |  any(e, places)                    along these axes
                 |  operation(e, .., name=e)          see `emit/operations.py`: reads, gathers, pads, spreads, where,
                                                      einsum, reductions, extrema, prefix, window and segment sums,
                                                      correlations, concatenation, loops, maps over blocks
                 |  (e, ..)  |  [e, ..]  |  range(a, b)  |  "text"  |  spec        of an einsum: ij,jk->ik
                 |  function x, ..: e                the body of a loop
                 |  [f(*x) for x in e]                an array in blocks of rows

Elementwise operations broadcast as NumPy's do. The atoms of static integers are sizes and local integers, known by
their names (`named`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from tensorlang.language.affine import Affine, Atom, Index, canonical
from tensorlang.language.grammar import ScalarFunction
from tensorlang.language.predicates import TRUE, Predicate
from tensorlang.memory import cached


@cached
def named(name: str) -> Index:
    """The atom for the static integer of that name."""
    return canonical(name)


class Node:
    """An expression of an array program."""

    __slots__ = ()

    def parts(self) -> Iterable[object]:
        """The values of its fields."""
        return vars(self).values()

    def walk(self) -> Iterator[Node]:
        """It and all expressions in it."""
        stack: list[object] = [self]
        while stack:
            value = stack.pop()
            if isinstance(value, Node):
                yield value
                stack += value.parts()
            elif type(value) is tuple:
                stack += value


@dataclass(frozen=True)
class Number(Node):
    """A literal; as a float if it is `real`, even where it is whole."""

    value: Fraction
    real: bool = False


@dataclass(frozen=True)
class Name(Node):
    """An array, integer, function or dtype of this name."""

    name: str

    def __post_init__(self) -> None:
        assert self.name.replace(".", "_").isidentifier(), self.name


@dataclass(frozen=True)
class StaticInteger(Node):
    """A static integer, whose atoms are `named` integers."""

    value: Affine


@dataclass(frozen=True)
class Volume(Node):
    """factor times static integers."""

    factor: int
    extents: tuple[Affine, ...]


@dataclass(frozen=True)
class Position(Node):
    """An affine expression in which `arrays` stand for some atoms; the others are `named` integers."""

    at: Affine
    arrays: tuple[tuple[Atom, Node], ...]


@dataclass(frozen=True)
class Infix(Node):
    """left op right, elementwise or of static integers."""

    left: Node
    op: str
    right: Node


@dataclass(frozen=True)
class Negative(Node):
    """Minus an array."""

    of: Node


@dataclass(frozen=True)
class Elementwise(Node):
    """A scalar function of arrays."""

    function: ScalarFunction
    arguments: tuple[Node, ...]

    def __post_init__(self) -> None:
        assert len(self.arguments) == self.function.arity


@dataclass(frozen=True)
class All(Node):
    """All of an axis."""


@dataclass(frozen=True)
class NewAxis(Node):
    """A new axis of length 1."""


@dataclass(frozen=True)
class Slice(Node):
    """start:stop:step of an axis; from or to its end if there is no start or stop."""

    start: Affine | None = None
    stop: Affine | None = None
    step: int = 1


ALL, NEW = All(), NewAxis()


@dataclass(frozen=True)
class Subscript(Node):
    """Elements, slices, or a gather; or new axes."""

    of: Node
    at: tuple[Node, ...]


@dataclass(frozen=True)
class Length(Node):
    """The length of an array along an axis."""

    of: Name
    axis: int


@dataclass(frozen=True)
class Item(Node):
    """A part of a tuple or list."""

    of: Name
    place: int


@dataclass(frozen=True)
class Transpose(Node):
    """The axes at `places`, in that order."""

    of: Node
    places: tuple[int, ...]

    def __post_init__(self) -> None:
        assert sorted(self.places) == list(range(len(self.places)))


@dataclass(frozen=True)
class Any(Node):
    """Whether some element along the axes at `places` is true."""

    of: Node
    places: tuple[int, ...]


@dataclass(frozen=True)
class ArrayOperation(Node):
    """An operation of NumPy's or JAX's, or a part of the library."""

    operation: str
    arguments: tuple[Node, ...]
    named: tuple[tuple[str, Node], ...] = ()


@dataclass(frozen=True)
class OnlyIf(ArrayOperation):
    """What a function gives, the second argument, which is called only if the first one holds, and else zeros: in a
    step of a recurrence, of which `condition` says when that is.
    """

    condition: Predicate = TRUE


PUT_IN, ADD_TO_ALL = IN_PLACE = "_put_in", "_add_to_all"
"""Operations that write into their first argument, a state of a recurrence that nothing reads any more."""


@dataclass(frozen=True)
class Part(Node):
    """A function of the library, given to another as an argument."""

    name: str


@dataclass(frozen=True)
class Tuple(Node):
    """Several values."""

    items: tuple[Node, ...]


@dataclass(frozen=True)
class List(Node):
    """Several values, as a list."""

    items: tuple[Node, ...]


@dataclass(frozen=True)
class IntegerRange(Node):
    """start, .., stop - 1."""

    start: Affine
    stop: Affine


@dataclass(frozen=True)
class EinsumSpec(Node):
    """What an einsum does: letters for the axes of each of its `terms`, and those of the `result`."""

    terms: tuple[str, ...]
    result: str

    def __str__(self) -> str:
        """`ij,jk->ik`"""
        return f"{','.join(self.terms)}->{self.result}"


@dataclass(frozen=True)
class Text(Node):
    """A text that a function of the library takes."""

    text: str


@dataclass(frozen=True)
class Lambda(Node):
    """A function of static or traced integers: the body of a loop."""

    parameters: tuple[str, ...]
    body: Node


@dataclass(frozen=True)
class Each(Node):
    """function(*x) for each x of a list of tuples."""

    function: Name
    of: Node


# statements


class Statement:
    """A statement of an array program."""

    def expressions(self) -> tuple[Node, ...]:
        """The expressions of the statement itself."""
        return ()

    def blocks(self) -> tuple[Block, ...]:
        """The blocks inside it."""
        return ()


@dataclass(frozen=True)
class Assign(Statement):
    """names := value. Several names, or one if it is `unpacked`, are those of the parts of a tuple."""

    names: tuple[str, ...]
    value: Node
    unpacked: bool = False

    def expressions(self) -> tuple[Node, ...]:
        """The value."""
        return (self.value,)


@dataclass(frozen=True, eq=False)
class Define(Statement):
    """A function, with its body."""

    name: str
    parameters: tuple[str, ...]
    body: Block

    def blocks(self) -> tuple[Block, ...]:
        """The body."""
        return (self.body,)


@dataclass(frozen=True, eq=False)
class When(Statement):
    """A choice by sizes."""

    test: Node
    then: Block
    otherwise: Block

    def expressions(self) -> tuple[Node, ...]:
        """The test."""
        return (self.test,)

    def blocks(self) -> tuple[Block, ...]:
        """Both ways."""
        return self.then, self.otherwise


@dataclass(frozen=True)
class Return(Statement):
    """The value that a function returns."""

    value: Node

    def expressions(self) -> tuple[Node, ...]:
        """The value."""
        return (self.value,)


@dataclass(frozen=True, eq=False)
class Note(Statement):
    """A comment; one about an array is made from its name when somebody reads it."""

    text: str | Callable[[str], str]
    about: str = ""


@dataclass(frozen=True)
class Blank(Statement):
    """An empty line, between the steps of a plan."""


@dataclass
class Block:
    """Statements in order."""

    statements: list[Statement] = field(default_factory=list)

    def assign(self, name: str, value: Node) -> None:
        """name := value."""
        self.statements.append(Assign((name,), value))

    def unpack(self, names: Sequence[str], value: Node) -> None:
        """names := the parts of `value`."""
        self.statements.append(Assign(tuple(names), value, True))

    def give(self, value: Node, name: str | None = None) -> None:
        """Return `value`, or assign it to `name`; if `value` is the name assigned last, that assignment is replaced."""
        last = self.statements[-1] if self.statements else None
        if isinstance(last, Assign) and isinstance(value, Name) and last.names == (value.name,) and not last.unpacked:
            self.statements.pop()
            value = last.value
        self.statements.append(Return(value) if name is None else Assign((name,), value))

    def note(self, text: str | Callable[[str], str], about: str = "") -> None:
        """A comment."""
        self.statements.append(Note(text, about))

    def blank(self) -> None:
        """An empty line."""
        self.statements.append(Blank())

    def walk(self) -> Iterator[Statement]:
        """All statements, those within others too, in any order."""
        stack: list[Block] = [self]
        while stack:
            for s in stack.pop().statements:
                yield s
                stack += s.blocks()

    def nodes(self) -> Iterator[Node]:
        """All expressions in it, in any order."""
        for s in self.walk():
            for e in s.expressions():
                yield from e.walk()

    def eliminate_dead_assignments(self, kept: str | None, head: int = 0) -> int:
        """Leave out assignments to names, other than `kept`, that nothing reads, and comments about them; return how
        many of the first `head` statements are left."""
        while True:
            read = {name for node in self.nodes() for name in names_in(node)}
            every = [s for s in self.walk() if isinstance(s, Assign)]
            idle = {id(s) for s in every if read.isdisjoint(s.names) and kept not in s.names}
            if not idle:
                return head
            head -= sum(id(s) in idle for s in self.statements[:head])
            left = {name for s in every if id(s) not in idle for name in s.names}
            idle |= {id(s) for s in self.walk() if isinstance(s, Note) and s.about and s.about not in left}
            stack = [self]
            while stack:
                block = stack.pop()
                block.statements = [s for s in block.statements if id(s) not in idle]
                stack += [inner for s in block.statements for inner in s.blocks()]


def names_in(node: Node) -> Sequence[str]:
    """The names that `node` itself, without its children, reads: of arrays, functions and static integers."""
    match node:
        case Name(name):
            return (name,)
        case StaticInteger(a):
            return _atoms(a)
        case Position(a, arrays):
            own = {atom for atom, _ in arrays}
            return [atom.name for atom, _ in a.terms if atom not in own]
        case Volume(_, extents):
            return _atoms(*extents)
        case Slice(start, stop, _):
            return _atoms(*(a for a in (start, stop) if a is not None))
        case IntegerRange(low, high):
            return _atoms(low, high)
        case _:
            return ()


def _atoms(*several: Affine) -> list[str]:
    return [atom.name for a in several for atom, _ in a.terms]
