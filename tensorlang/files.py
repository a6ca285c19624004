"""What the command reads and writes: program text, and arrays in NumPy's `.npz` files.

A parameter of pair type is held as one array per component, named `x.0`, `x.1`, `x.1.0` and so on.
"""

from __future__ import annotations

import math
import os
import re
import struct
import sys
import tokenize
import zipfile
import zlib
from contextlib import suppress
from typing import IO, Any, BinaryIO

import numpy as np

from tensorlang.budget import memory_left
from tensorlang.errors import ArgumentError, LimitError, ParseError
from tensorlang.language.arguments import from_leaves
from tensorlang.language.function import Function
from tensorlang.language.grammar import Var
from tensorlang.language.types import leaves

Arrays = dict[str, Any]
LONGEST_TEXT = 16 * 2**20
"""Programs are written by people or printed by programs; a longer file is another kind of file."""

_DAMAGE: tuple[type[Exception], ...] = (
    *(OSError, ValueError, EOFError, KeyError, MemoryError, OverflowError, RuntimeError, SyntaxError),
    *(zipfile.BadZipFile, zlib.error, struct.error, tokenize.TokenError),
)
"""Exceptions that reading broken or forged archives has been seen to raise; RuntimeError is for encrypted ones."""


def split_name(where: str) -> tuple[str, str | None]:
    """`FILE:NAME` as its two parts; the name is None if `where` is an existing file, or no name ends it."""
    path, colon, name = where.rpartition(":")
    if colon and path and re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) and not os.path.exists(where):
        return path, name
    return where, None


def read_text(path: str) -> str:
    """The text of the file `path`, of standard input if that is `-`.

    Raises `ArgumentError` for a file that can't be read, `ParseError` for one that is not UTF-8 text, and
    `LimitError` for one of more than `LONGEST_TEXT` bytes.
    """
    try:
        if path == "-":
            data = sys.stdin.buffer.read(LONGEST_TEXT + 1)
        else:
            with open(path, "rb") as file:
                data = file.read(LONGEST_TEXT + 1)
    except (OSError, ValueError) as error:
        raise ArgumentError(f"can't read {path}: {_reason(error)}") from error
    if len(data) > LONGEST_TEXT:
        raise LimitError(f"{path} is longer than {LONGEST_TEXT} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ParseError(f"{path} is not UTF-8 text: byte 0x{data[error.start]:02x} in line {line}") from error


def read_arrays(path: str) -> Arrays:
    """All arrays of the `.npz` file `path`, by name. Nothing in the file is executed.

    Raises `ArgumentError` for a file that can't be read, is damaged, or holds something else than real numbers, and
    `LimitError` for one that unpacks to more than the memory that `tl.limits` allows.
    """
    try:
        with open(path, "rb") as file:
            if not zipfile.is_zipfile(file):
                raise ArgumentError(f"{path} is not an .npz archive, or it is damaged")
            _check_sizes(path, file)
            file.seek(0)
            with np.load(file, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
    except _DAMAGE as error:
        raise ArgumentError(f"can't read {path}: {_reason(error)}") from error
    for name, values in arrays.items():
        if not isinstance(values, np.ndarray) or values.dtype.kind not in "biuf":
            found = f"values of type {values.dtype}" if isinstance(values, np.ndarray) else "no array"
            raise ArgumentError(f"{path}: {name} holds {found}, expected real numbers")
    return arrays


def _check_sizes(path: str, file: BinaryIO) -> None:
    """Raise an error unless the arrays of the archive `file` are as large as it says, and fit in memory together."""
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        whole = sum(member.file_size for member in members)
        if whole > (most := memory_left()):
            raise LimitError(
                f"{path} unpacks to {whole:,} bytes, more than {most:,.0f}",
                hint="a larger limit: with tl.limits(memory=...)",
            )
        for member in members:
            if member.filename.endswith(".npy"):
                with archive.open(member) as part:
                    shape, _, dtype = _header(part)
                    said = math.prod(shape) * dtype.itemsize
                    if said > member.file_size and not dtype.hasobject:
                        name = member.filename.removesuffix(".npy")
                        raise ArgumentError(f"{path}: {name} of shape {shape} takes {said:,} bytes, and has fewer")


def _header(part: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(part)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    found: tuple[tuple[int, ...], bool, np.dtype[Any]] = read(part)
    return found


def write_arrays(path: str, arrays: Arrays) -> None:
    """Write `arrays` to the `.npz` file `path`: the whole of it or, on an error, nothing.

    Raises `ArgumentError` if it can't be written.
    """
    target = os.path.realpath(path)
    if os.path.exists(target) and not os.path.isfile(target):
        raise ArgumentError(f"can't write {path}: it is not a file")
    partial = f"{target}.partial-{os.getpid()}"
    try:
        with open(partial, "xb") as file:
            np.savez(file, **arrays)
        os.replace(partial, target)
    except (OSError, ValueError) as error:
        raise ArgumentError(f"can't write {path}: {_reason(error)}") from error
    finally:
        with suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(partial)


def arguments(f: Function, arrays: Arrays, path: str) -> Arrays:
    """The arguments of `f`, by name, assembled from the arrays that `path` held. Other arrays are ignored.

    Raises `ArgumentError` if one is missing.
    """
    found: Arrays = {}
    for p in f.params:
        names = [component(p.name, at) for at, _ in leaves(p.type)] if isinstance(p, Var) else [p.name]
        for name in names:
            if name not in arrays:
                known = ", ".join(sorted(arrays)) or "nothing"
                raise ArgumentError(f"{path} has no array {name!r}, needed for {f.name}; it holds {known}")
        parts = (arrays[name] for name in names)
        found[p.name] = from_leaves(p.type, parts) if isinstance(p, Var) else next(parts)
    return found


def flat(value: Any, name: str) -> Arrays:
    """The arrays and numbers of `value`, a tree of tuples, each under `name` and its path."""
    found: Arrays = {}
    stack = [(value, name)]
    while stack:
        part, label = stack.pop()
        if isinstance(part, tuple):
            stack += [(inner, f"{label}.{k}") for k, inner in reversed(list(enumerate(part)))]
        else:
            found[label] = np.asarray(part)
    return found


def component(name: str, path: tuple[int, ...]) -> str:
    """The name, in a file, of the component at `path` of the pair `name`."""
    return ".".join([name, *map(str, path)])


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
