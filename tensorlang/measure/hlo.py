"""The text of XLA's compiled modules, read into computations and instructions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\) -> .*\{$")
_INSTRUCTION = re.compile(r"^\s+(ROOT )?%?([\w.\-]+) = ")
_ARRAY = re.compile(r"(\w+)\[([\d,<=]*)\]")
_COMMENT = re.compile(r"/\*.*?\*/")
_NAME = re.compile(r"%([\w.\-]+)")
_BITS = {"pred": 8, "token": 0, "opaque": 0}


@dataclass(frozen=True)
class Shape:
    """An array's type in HLO: the element type as XLA spells it (f32, s32, pred), and the extents."""

    dtype: str
    dims: tuple[int, ...]

    @property
    def elements(self) -> int:
        """The number of elements."""
        return prod(self.dims)

    @property
    def bytes(self) -> int:
        """The memory that the elements take."""
        digits = re.search(r"\d+", self.dtype)
        bits = _BITS[self.dtype] if self.dtype in _BITS else int(digits[0]) if digits else 8
        return (self.elements * bits + 7) // 8

    @property
    def is_complex(self) -> bool:
        """Whether the elements are complex numbers."""
        return self.dtype.startswith("c")

    @property
    def is_real(self) -> bool:
        """Whether the elements are floating-point numbers, including complex ones, not indices or truth values."""
        return self.dtype.startswith(("f", "bf", "c"))


@dataclass(frozen=True)
class Instruction:
    """One line of a computation: `name = shapes opcode(operands), attributes`; several shapes are those of a tuple."""

    name: str
    opcode: str
    shapes: tuple[Shape, ...]
    operands: tuple[str, ...]
    attributes: str
    is_root: bool

    @property
    def elements(self) -> int:
        """Elements of the (first) result."""
        return self.shapes[0].elements if self.shapes else 0

    @property
    def bytes(self) -> int:
        """Memory of all results."""
        return sum(s.bytes for s in self.shapes)

    def numbers(self, attribute: str) -> tuple[int, ...]:
        """The integers of an attribute such as `dimensions={0,2}`; none if it is absent."""
        found = re.search(rf"\b{attribute}=\{{([\d,]*)\}}", self.attributes)
        return tuple(int(n) for n in found[1].split(",") if n) if found else ()

    def word(self, attribute: str) -> str | None:
        """The text of an attribute such as `kind=kLoop` or `dim_labels=b0f_0io->b0f`."""
        found = re.search(rf"\b{attribute}=([^,\s]+)", self.attributes)
        return found[1] if found else None

    def called(self, attribute: str) -> tuple[str, ...]:
        """The computations that an attribute names, as in `calls=%fused` or `branch_computations={%a, %b}`."""
        found = re.search(rf"\b{attribute}=(\{{[^}}]*\}}|%[\w.\-]+)", self.attributes)
        return tuple(_NAME.findall(found[1])) if found else ()

    def window(self, key: str) -> tuple[int, ...]:
        """The extents of one entry of a window such as `window={size=1x16 stride=1x2}`; none if it is absent."""
        found = re.search(rf"window=\{{[^}}]*\b{key}=([\dx]+)", self.attributes)
        return tuple(int(n) for n in found[1].split("x")) if found else ()

    def padding(self, d: int) -> int:
        """The padding in front of dimension `d`, as in `window={size=1x16 pad=0_0x15_0}`."""
        found = re.search(r"window=\{[^}]*\bpad=([\d_x\-]+)", self.attributes)
        return int(found[1].split("x")[d].split("_")[0]) if found else 0


@dataclass(frozen=True)
class Module:
    """The computations of a module by name, each a dict of its instructions by name, in order."""

    entry: str
    computations: dict[str, dict[str, Instruction]]


def read_module(text: str) -> Module:
    """The module that `text` shows, as `Compiled.as_text()` of JAX prints it.

    Raises `ValueError` if there is no entry computation.
    """
    entry = None
    computations: dict[str, dict[str, Instruction]] = {}
    current: dict[str, Instruction] = {}
    for line in text.splitlines():
        if head := _COMPUTATION.match(line):
            current = computations[head[2]] = {}
            entry = head[2] if head[1] else entry
        elif start := _INSTRUCTION.match(line):
            current[start[2]] = _instruction(start[2], bool(start[1]), _COMMENT.sub("", line[start.end() :]))
    if entry is None:
        raise ValueError("expected the text of a compiled HLO module, found no entry computation")
    return Module(entry, computations)


def _instruction(name: str, is_root: bool, rest: str) -> Instruction:
    end = _closing(rest) if rest.startswith("(") else rest.index(" ")
    shapes = tuple(
        Shape(dtype, tuple(int(d.lstrip("<=")) for d in dims.split(",") if d))
        for dtype, dims in _ARRAY.findall(rest[:end])
    )
    rest = rest[end:].lstrip()
    opcode, rest = rest.split("(", 1)
    end = _closing("(" + rest) - 1
    return Instruction(name, opcode, shapes, tuple(_NAME.findall(rest[:end])), rest[end:], is_root)


def _closing(text: str) -> int:
    """The place after the parenthesis that closes the one at the start of `text`."""
    depth = 0
    for place, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if not depth:
            return place + 1
    return len(text)
