"""Index variables, sizes, elements of index arrays, and affine combinations of them: the `a` of Figure 3."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count

from tensorlang.interning import Interned

_serial = count()


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Index:
    """An index variable. Two are the same only if they are the same object, whatever they are called."""

    name: str
    serial: int = field(default_factory=lambda: next(_serial))

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Size(metaclass=Interned):
    """A size, known by its name and never negative."""

    name: str

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class IndexArray:
    """An array of the shape `sizes` whose elements are indices: integers from 0 to `size` - 1.

    A parameter, or the name that a `let` gives to chosen points. It is data, so nothing is known of its elements but
    their range; only its elements are ever used (`Lookup`).
    """

    name: str
    sizes: tuple[Affine, ...]
    size: Affine
    serial: int = field(default_factory=lambda: next(_serial))

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Lookup(metaclass=Interned):
    """array[at], an element of an index array; it may stand wherever an index may."""

    array: IndexArray
    at: tuple[Affine, ...]

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


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Affine(metaclass=Interned):
    """constant + the sum of coefficient * atom; the atoms are ordered and the coefficients not zero."""

    terms: tuple[tuple[Atom, int], ...]
    constant: int

    def __add__(self, other: Affine | int) -> Affine:
        if isinstance(other, int):
            return Affine(self.terms, self.constant + other)
        return total([(self, 1), (other, 1)])

    def __sub__(self, other: Affine | int) -> Affine:
        if isinstance(other, int):
            return Affine(self.terms, self.constant - other)
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
    def free(self) -> tuple[Index | Size, ...]:
        """The index variables and sizes that occur in it, within the places of lookups too."""
        found: dict[Index | Size, None] = {}
        for atom, _ in self.terms:
            if isinstance(atom, Lookup):
                found.update((x, None) for a in atom.at for x in a.free)
            else:
                found[atom] = None
        return tuple(found)

    @property
    def lookups(self) -> tuple[Lookup, ...]:
        """The elements of index arrays that occur in it, those within the places of others too."""
        found: dict[Lookup, None] = {}
        for atom, _ in self.terms:
            if isinstance(atom, Lookup):
                found[atom] = None
                found.update((x, None) for a in atom.at for x in a.lookups)
        return tuple(found)

    @property
    def indices(self) -> tuple[Index, ...]:
        """The index variables on which it depends."""
        return tuple(a for a in self.free if isinstance(a, Index))

    @property
    def sizes(self) -> tuple[Size, ...]:
        """The sizes on which it depends."""
        return tuple(a for a in self.free if isinstance(a, Size))

    @property
    def is_constant(self) -> bool:
        """Whether it is a plain integer."""
        return not self.terms

    def substitute(self, values: Mapping[Atom, Affine]) -> Affine:
        """[i := a] for each atom i that `values` maps to an a."""
        if not any(atom in values or isinstance(atom, Lookup) for atom, _ in self.terms):
            return self
        return total([(_substituted(atom, values), k) for atom, k in self.terms]) + self.constant

    def value(self, atoms: Mapping[Atom, int]) -> int:
        """Its value (4.13 to 4.17) where each atom has the value that `atoms` gives."""
        return self.constant + sum(k * atoms[atom] for atom, k in self.terms)

    def __str__(self) -> str:
        return render(self, lambda atom: atom.name)

    __repr__ = __str__


def _substituted(atom: Atom, values: Mapping[Atom, Affine]) -> Affine:
    if atom in values:
        return values[atom]
    if isinstance(atom, Lookup):
        atom = Lookup(atom.array, tuple(a.substitute(values) for a in atom.at))
    return atom_affine(atom)


def render(a: Affine, name: Callable[[Atom], str], times: str = "*") -> str:
    """`a` as text: 2*i - j + n - 1. A positive term comes first if there is one, then indices and sizes by name."""
    terms = sorted(a.terms, key=lambda term: (isinstance(term[0], Size), name(term[0])))
    lead = next((k for k, term in enumerate(terms) if term[1] > 0), 0)
    terms = [*terms[lead : lead + 1], *terms[:lead], *terms[lead + 1 :]]
    parts = [(k, f"{abs(k)}{times}{name(atom)}" if abs(k) != 1 else name(atom)) for atom, k in terms]
    if a.constant or not parts:
        parts.append((a.constant, str(abs(a.constant))))
        if len(parts) == 2 and parts[0][0] < 0 < a.constant:
            parts.reverse()
    text = "".join(f" {'-' if k < 0 else '+'} {part}" for k, part in parts)
    return text[3:] if text.startswith(" + ") else "-" + text[3:]


def constant(value: int) -> Affine:
    """The affine expression that is the integer `value`."""
    return Affine((), int(value))


def atom_affine(atom: Atom) -> Affine:
    """The affine expression that is one index, size or lookup."""
    return Affine(((atom, 1),), 0)


def total(parts: Iterable[tuple[Affine, int]]) -> Affine:
    """The sum of factor * part."""
    coefficients: dict[Atom, int] = {}
    value = 0
    for part, factor in parts:
        value += factor * part.constant
        for atom, k in part.terms:
            coefficients[atom] = coefficients.get(atom, 0) + factor * k
    terms = [(atom, k) for atom, k in coefficients.items() if k]
    return Affine(tuple(sorted(terms, key=lambda term: _order(term[0]))), value)
