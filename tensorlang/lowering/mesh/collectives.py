"""What a program has to send between devices, determined from its indices alone.

all_gather     an axis that lies along the mesh is read at an index that does not
ppermute       an axis is read around an index that lies as it does: what neighbours have at the edges
psum           a sum over a mapped index: the parts of all devices are added up
psum_scatter   the same where each device keeps only its block of the result
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from tensorlang.errors import ArgumentError
from tensorlang.language.affine import Affine, Size, render
from tensorlang.language.given import together
from tensorlang.lowering.emit.library.mesh import _reach
from tensorlang.lowering.mesh.asked import Along
from tensorlang.lowering.mesh.needs import is_nonnegative


@dataclass(frozen=True)
class Sent:
    """A collective at known sizes: how much of `array` each device has received when it is done.

    >>> import jax
    >>> f = tl.parse("f(A: [n][m]R, x: [m]R) = gen i:n. sum j:m. A[i, j] * x[j]")
    >>> run = tl.lower(f, mesh=jax.sharding.AbstractMesh((4,), ("x",)), sharding={"m": "x"})
    >>> print(run.collectives.at(n=8, m=4)[0])
    Sent(kind='psum', along=('x',), array='result', elements=8, bytes=32)
    """

    kind: str
    along: Along
    array: str
    elements: int
    bytes: int


@dataclass(frozen=True)
class Collective:
    """A collective of a program, by which each device receives an array of this shape.

    An element takes `item` bytes.
    """

    kind: str
    along: Along
    array: str
    item: int
    shape: tuple[Affine, ...]

    def at(self, sizes: Mapping[Size, int], _: int) -> Iterator[Sent]:
        """What is sent at these sizes, which include those of blocks."""
        elements = _elements(self.shape, sizes)
        yield Sent(self.kind, self.along, self.array, elements, elements * self.item)

    def formula(self, spelled: Mapping[Size, str], _: int) -> str:
        """The number of bytes that each device receives."""
        return "*".join([str(self.item), *_factors(self.shape, spelled)])


@dataclass(frozen=True)
class Exchange:
    """Elements needed around the blocks of an array: on device d, `length` of them along `dim` from d * step + first.

    Each of two neighbours sends the edge of its block. Where more than a neighbour's block is needed, which only sizes
    determine, all blocks are gathered.
    """

    along: Along
    array: str
    item: int
    shape: tuple[Affine, ...]
    dim: int
    first: Affine
    length: Affine
    step: Affine

    def at(self, sizes: Mapping[Size, int], devices: int) -> Iterator[Sent]:
        """What is sent at these sizes, which include those of blocks, by that many devices."""
        block = _value(self.shape[self.dim], sizes)
        rest = _elements(self.shape, sizes) // max(block, 1)
        first, length, step = (_value(a, sizes) for a in (self.first, self.length, self.step))
        reach: tuple[int, int] = _reach(devices, block, first, length, step)  # type: ignore[no-untyped-call]
        if max(reach) > block:
            given = [("all_gather", devices * block * rest)]
        else:
            given = [("ppermute", width * rest) for width in reach if width]
        for kind, elements in given:
            yield Sent(kind, self.along, self.array, elements, elements * self.item)

    def formula(self, spelled: Mapping[Size, str], devices: int) -> str:
        """The number of bytes that each device receives if its neighbours have them."""
        last = self.first + (self.step - self.shape[self.dim]) * (devices - 1)
        beyond = self.length - self.shape[self.dim]
        left = _greatest([-self.first, -last], spelled)
        right = _greatest([self.first + beyond, last + beyond], spelled)
        sides = [side for side in (left, right) if side is not None]
        if len(sides) > 1:
            reach = f"({' + '.join(text for text, _ in sides)})"
        else:
            reach = next((f"({text})" if is_sum else text for text, is_sum in sides), "0")
        others = self.shape[: self.dim] + self.shape[self.dim + 1 :]
        return "*".join([str(self.item), reach, *_factors(others, spelled)])


@dataclass(frozen=True)
class Collectives:
    """All collectives that a program on a mesh requires, in the order in which it needs them.

    `str` says for each how many bytes every device is given, as a formula of the sizes; `at` says it for given sizes.
    Numbers are taken to be of single precision.

    >>> import jax
    >>> f = tl.parse("f(A: [n][m]R, x: [m]R) = gen i:n. sum j:m. A[i, j] * x[j]")
    >>> run = tl.lower(f, mesh=jax.sharding.AbstractMesh((4,), ("x",)), sharding={"m": "x"})
    >>> print(run.collectives)
    psum along x: 4*n bytes of result
    >>> [sent.bytes for sent in run.collectives.at(n=8, m=4)]
    [32]
    """

    parts: tuple[Collective | Exchange, ...]
    devices: Mapping[str, int]
    blocks: Mapping[Size, tuple[Along, Affine]]

    def at(self, given: Mapping[str, int] | None = None, /, **sizes: int | Mapping[str, int]) -> list[Sent]:
        """What is sent at these sizes, keywords or a mapping. Raises `ArgumentError` if one is missing."""
        known = {Size(name): n for name, n in together(given, sizes).items()}
        for block, (along, size) in self.blocks.items():
            known[block] = -(-max(_value(size, known), 1) // self._count(along))
        return [sent for part in self.parts for sent in part.at(known, self._count(part.along))]

    def __str__(self) -> str:
        spelled = {}
        for block, (along, size) in self.blocks.items():
            text = f"({size})" if size.terms and (len(size.terms) > 1 or size.constant) else str(size)
            spelled[block] = f"({text}/{self._count(along)})"
        lines = []
        for part in self.parts:
            kind = part.kind if isinstance(part, Collective) else "ppermute"
            formula = part.formula(spelled, self._count(part.along))
            lines.append(f"{kind} along {', '.join(part.along)}: {formula} bytes of {part.array}")
        return "\n".join(lines) or "nothing is sent"

    def _count(self, along: Along) -> int:
        return prod(self.devices[name] for name in along)


def _value(a: Affine, sizes: Mapping[Size, int]) -> int:
    for size in a.sizes:
        if size not in sizes:
            raise ArgumentError(f"the size {size.name} is needed: pass {size.name}=...")
    return a.value(sizes)  # type: ignore[arg-type]


def _elements(shape: tuple[Affine, ...], sizes: Mapping[Size, int]) -> int:
    return prod(max(0, _value(a, sizes)) for a in shape)


def _greatest(values: Sequence[Affine], spelled: Mapping[Size, str]) -> tuple[str, bool] | None:
    """The greatest of these and 0, and whether it is a sum; None if it is 0."""
    kept = [a for a in dict.fromkeys(values) if not is_nonnegative(-a)]
    texts = [_text(a, spelled) for a in kept]
    if len(kept) == 1 and is_nonnegative(kept[0]):
        return texts[0], _is_sum(kept[0])
    return (f"max(0, {', '.join(texts)})", False) if texts else None


def _text(a: Affine, spelled: Mapping[Size, str]) -> str:
    return render(a, lambda atom: spelled.get(atom, atom.name) if isinstance(atom, Size) else atom.name)


def _factors(shape: tuple[Affine, ...], spelled: Mapping[Size, str]) -> list[str]:
    return [f"({_text(a, spelled)})" if _is_sum(a) else _text(a, spelled) for a in shape]


def _is_sum(a: Affine) -> bool:
    return len(a.terms) + bool(a.constant) > 1
