"""Index variables, sizes, elements of index arrays, and affine combinations of them: the `a` of Figure 3."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count

from tensorlang.budget import spend
from tensorlang.errors import LimitError
from tensorlang.interning import interned, shared
from tensorlang.memory import cached

serials = count()

_DEEPEST = 64
"""The deepest nesting of lookups, so that recursion over them is harmless."""


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Index:
    """An index variable. Two are the same only if they are the same object, whatever they are called.

    `size` is the range with which a user's program binds it, where that is known. `written` is what the program says
    for it, where it does not bind it: i // 2.
    """

    name: str
    serial: int = field(default_factory=lambda: next(serials))
    size: Affine | None = None
    written: str = ""

    def __repr__(self) -> str:
        return self.name


CANONICAL = 1 << 62


def canonical(name: str, place: int = 0) -> Index:
    """A new index that is ordered before all indices of its name bound by programs; canonical ones are ordered by
    place.

    So the order of terms does not depend on earlier computations. Callers make each only once (`interning.shared`).
    """
    return Index(name, place - CANONICAL)


@cached
@shared
def bound_index(name: str) -> Index:
    """The index of this name; one is enough, since programs that are read back never bind a name within itself."""
    return canonical(name)


@interned
class Size:
    """A size, known by its name and never negative."""

    name: str

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class IndexArray:
    """An array of the shape `sizes` whose elements are indices: integers from 0 to `size` - 1.

    A parameter, or the name that a `let` gives to chosen points. It is data, so nothing is known of its elements but
    their range; only its elements are ever used (`Lookup`). If it is `partial`, some are of choices under brackets
    that may be false and are never looked at, so their range may be empty.
    """

    name: str
    sizes: tuple[Affine, ...]
    size: Affine
    serial: int = field(default_factory=lambda: next(serials))
    partial: bool = False

    def __repr__(self) -> str:
        return self.name


@interned
class Lookup:
    """array[at], an element of an index array; it may stand wherever an index may.

    A comparison or a relation of an element that is not there, of a place outside of the array, is false; where a
    bracket hides that none was chosen, the element is 0. With fewer places than the array has axes, it stands for a
    part of the array, or all of it, in substitutions, and nowhere else.

    Raises `LimitError` if lookups are nested too deep.
    """

    array: IndexArray
    at: tuple[Affine, ...]
    depth: int = field(init=False)

    def __post_init__(self) -> None:
        inner = (atom.depth for a in self.at for atom, _ in a.terms if isinstance(atom, Lookup))
        object.__setattr__(self, "depth", 1 + max(inner, default=0))
        if self.depth > _DEEPEST:
            raise LimitError(f"elements of index arrays are nested at most {_DEEPEST} deep: {self.array.name}[..]")

    @property
    def name(self) -> str:
        """Its text."""
        return self.array.name + (f"[{', '.join(map(str, self.at))}]" if self.at else "")

    def __repr__(self) -> str:
        return self.name


Atom = Index | Size | Lookup


def _order(atom: Atom) -> tuple[object, ...]:
    match atom:
        case Index(name, serial):
            return (0, name, serial)
        case Lookup(array, at):
            inner = tuple((tuple((_order(x), k) for x, k in a.terms), a.constant) for a in at)
            return (1, array.name, array.serial, inner)
        case Size(name):
            return (2, name)


@interned
class Affine:
    """constant + the sum of coefficient * atom; the atoms are ordered and the coefficients not zero."""

    terms: tuple[tuple[Atom, int], ...]
    constant: int
    free: tuple[Index | Size, ...] = field(init=False)
    """The index variables and sizes that occur in it, including those in the places of lookups."""
    indices: tuple[Index, ...] = field(init=False)
    """The index variables on which it depends."""
    lookups: tuple[Lookup, ...] = field(init=False)
    """The elements of index arrays that occur in it, including those in the places of others."""

    def __post_init__(self) -> None:
        atoms = tuple([atom for atom, _ in self.terms])
        if not any([isinstance(atom, Lookup) for atom in atoms]):  # as in most, which need no more
            object.__setattr__(self, "free", atoms)
            object.__setattr__(self, "indices", tuple([a for a in atoms if isinstance(a, Index)]))
            object.__setattr__(self, "lookups", ())
            return
        free: dict[Index | Size, None] = {}
        lookups: dict[Lookup, None] = {}
        for atom, _ in self.terms:
            if isinstance(atom, Lookup):
                lookups[atom] = None
                for a in atom.at:
                    free.update(dict.fromkeys(a.free))
                    lookups.update(dict.fromkeys(a.lookups))
            else:
                free[atom] = None
        object.__setattr__(self, "free", tuple(free))
        object.__setattr__(self, "indices", tuple([a for a in free if isinstance(a, Index)]))
        object.__setattr__(self, "lookups", tuple(lookups))

    def __add__(self, other: Affine | int) -> Affine:
        if isinstance(other, int):
            return Affine(self.terms, self.constant + other)
        if not other.terms:
            return Affine(self.terms, self.constant + other.constant)
        return total([(self, 1), (other, 1)])

    def __sub__(self, other: Affine | int) -> Affine:
        if isinstance(other, int):
            return Affine(self.terms, self.constant - other)
        if not other.terms:
            return Affine(self.terms, self.constant - other.constant)
        return total([(self, 1), (other, -1)])

    def __mul__(self, factor: int) -> Affine:
        if factor == 0:
            return constant(0)
        return Affine(tuple((atom, factor * k) for atom, k in self.terms), factor * self.constant)

    def __neg__(self) -> Affine:
        return self * -1

    def coefficient(self, atom: Atom) -> int:
        """The coefficient of `atom`, 0 if it does not occur."""
        return next((k for a, k in self.terms if a is atom), 0)

    @property
    def atoms(self) -> tuple[Atom, ...]:
        """Its terms without their coefficients."""
        return tuple(atom for atom, _ in self.terms)

    @property
    def sizes(self) -> tuple[Size, ...]:
        """The sizes on which it depends."""
        return tuple(a for a in self.free if isinstance(a, Size))

    @property
    def is_constant(self) -> bool:
        """Whether it is a plain integer."""
        return not self.terms

    @property
    def arrays(self) -> tuple[IndexArray, ...]:
        """The index arrays in which it looks up elements."""
        return tuple(dict.fromkeys(lookup.array for lookup in self.lookups))

    def substitute(self, values: Mapping[Atom, Affine]) -> Affine:
        """[i := a] for each atom i that `values` maps to an a.

        Where i is a whole index array, Lookup(y, ()), a is another one or a part of one: with z[i], y[j] becomes
        z[i, j].
        """
        if not any([atom in values or isinstance(atom, Lookup) for atom, _ in self.terms]):
            return self
        new = [(_substituted(atom, values), k) for atom, k in self.terms]
        if len(new) == 1 and new[0][1] == 1:
            return new[0][0] + self.constant if self.constant else new[0][0]
        return total(new, self.constant)

    def value(self, atoms: Mapping[Atom, int]) -> int:
        """Its value (4.13 to 4.17) where each atom has the value that `atoms` gives."""
        return self.constant + sum(k * atoms[atom] for atom, k in self.terms)

    def __str__(self) -> str:
        return render(self, lambda atom: atom.name)

    __repr__ = __str__


def _substituted(atom: Atom, values: Mapping[Atom, Affine]) -> Affine:
    if atom in values:
        return values[atom]
    if not isinstance(atom, Lookup):
        return atom_affine(atom)
    at = tuple(a.substitute(values) for a in atom.at)
    whole = values.get(Lookup(atom.array, ()))
    if whole is None:
        return atom_affine(Lookup(atom.array, at))
    (part,) = whole.atoms
    assert isinstance(part, Lookup), "an array is replaced by an array"
    return atom_affine(Lookup(part.array, part.at + at))


def render(a: Affine, name: Callable[[Atom], str], times: str = "*") -> str:
    """`a` as text: 2*i - j + n - 1. A positive term comes first if there is one, then indices and sizes by name."""
    terms = sorted((isinstance(atom, Size), name(atom), k) for atom, k in a.terms)
    lead = next((k for k, term in enumerate(terms) if term[2] > 0), 0)
    terms = [*terms[lead : lead + 1], *terms[:lead], *terms[lead + 1 :]]
    parts = [(k, f"{abs(k)}{times}{text}" if abs(k) != 1 else text) for _, text, k in terms]
    if a.constant or not parts:
        parts.append((a.constant, str(abs(a.constant))))
        if len(parts) == 2 and parts[0][0] < 0 < a.constant:
            parts.reverse()
    text = "".join(f" {'-' if k < 0 else '+'} {part}" for k, part in parts)
    return text[3:] if text.startswith(" + ") else "-" + text[3:]


@cached
def constant(value: int) -> Affine:
    """The affine expression that is the integer `value`."""
    return Affine((), int(value))


_SEVERAL = 4
SHORT = 128
"""Axes, ranges and windows of at most as many places are not long."""


def is_long(extent: Affine) -> bool:
    """Whether an axis of this extent is long: a size, which may be any number, or a number above `SHORT`."""
    return not extent.is_constant or extent.constant > SHORT


def is_narrow(width: Affine, extent: Affine) -> bool:
    """Whether a window is narrow in an axis of this extent: it has a fixed number of places, and the axis a symbolic
    size or several times as many."""
    return width.is_constant and (not extent.is_constant or _SEVERAL * width.constant <= extent.constant)


@cached
def atom_affine(atom: Atom) -> Affine:
    """The affine expression that is one index, size or lookup."""
    return Affine(((atom, 1),), 0)


def total(parts: Iterable[tuple[Affine, int]], value: int = 0) -> Affine:
    """The sum of factor * part, and of `value`."""
    spend(1, "sums of indices")
    coefficients: dict[Atom, int] = {}
    runs = 0  # parts with terms that no part before has: the terms of one part are in order
    for part, factor in parts:
        value += factor * part.constant
        before = len(coefficients)
        for atom, k in part.terms:
            coefficients[atom] = coefficients.get(atom, 0) + factor * k
        runs += len(coefficients) > before
    terms = [(atom, k) for atom, k in coefficients.items() if k]
    if runs > 1 and len(terms) > 1:
        terms.sort(key=lambda term: _order(term[0]))
    return Affine(tuple(terms), value)
