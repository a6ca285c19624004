"""Answers that are kept on disk, so that later processes need not compute them again.

An entry is a file that holds the whole question and the answer; its name is a digest of the question. The question
includes everything that the answer depends on: `versions`, and what the caller adds. Reading an entry compares the
question, so a wrong answer is never given; a damaged entry is ignored and written anew.

Entries become programs and code, so whoever can write them could run code as this user. They are only used from a
directory that belongs to the user and that nobody else may write to. An entry is written to a temporary file, which is
then renamed: other processes see all of it or nothing. The oldest are removed when there are too many.

    TENSORLANG_CACHE      a directory in place of the user's cache directory, or `off`
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from threading import get_ident

VARIABLE = "TENSORLANG_CACHE"
"""The environment variable that names a directory for entries instead of the user's cache directory, or is `off`."""

MOST = 256 * 2**20
"""All entries together take at most this many bytes."""

_OFF = ("off", "0", "no", "false")
_SHARDS = "0123456789abcdef"
_MAGIC = b"tensorlang 1 "
_PACKAGE = Path(__file__).parent


def place() -> Path | None:
    """The directory of the entries, which need not exist; None if none are kept."""
    given = os.environ.get(VARIABLE, "")
    if given.lower() in _OFF:
        return None
    if given:
        return Path(given)
    with suppress(RuntimeError):  # of a user without a home
        match sys.platform:
            case "darwin":
                base = Path.home() / "Library" / "Caches"
            case "win32":
                base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
            case _:
                base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return base / "tensorlang"
    return None


def directory() -> Path | None:
    """The same as `place`, but None also if the entries can't be trusted, since others may write there."""
    where = place()
    if where is None:
        return None
    try:
        found = os.lstat(where)
    except FileNotFoundError:
        return where
    except OSError:
        return None
    return where if stat.S_ISDIR(found.st_mode) and _is_own(found) else None


def versions() -> tuple[str, ...] | None:
    """What answers depend on besides programs and options: the package's version and files, and the versions of the
    packages that it uses, as they were when this process began to use them. None if that is unknown."""
    return _begun


def is_unchanged() -> bool:
    """Whether the package's files are still those of `versions`; if not, an answer may mix old and new code."""
    return _begun is not None and _sources() == _begun[-1]


def read(question: bytes) -> bytes | None:
    """The answer to `question` that is on disk, or None."""
    where = directory()
    if where is None:
        return None
    path = _path(where, question)
    try:
        file = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0))
        with open(file, "rb") as opened:
            found = os.fstat(file)
            if not (stat.S_ISREG(found.st_mode) and _is_own(found) and found.st_size <= MOST):
                return None
            head, body = opened.readline(200), opened.read()
        os.utime(path)  # entries in use don't count as old
    except OSError:
        return None
    if head != _head(body, question) or not body.startswith(question):
        return None
    return body[len(question) :]


def write(question: bytes, answer: bytes) -> None:
    """Keep `answer`, if that can be done."""
    where = directory()
    if where is None or len(question) + len(answer) > MOST // len(_SHARDS):
        return
    path = _path(where, question)
    body = question + answer
    with suppress(OSError):
        if not path.parent.exists():
            where.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.parent.mkdir(mode=0o700, exist_ok=True)
        if directory() is None:
            return
        partial = path.with_name(f"partial-{os.getpid()}-{get_ident()}")
        try:
            file = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
            with open(file, "wb") as opened:
                opened.write(_head(body, question) + body)
            os.replace(partial, path)
        except OSError:
            with suppress(OSError):
                partial.unlink()
            return
        _prune(path.parent, MOST // len(_SHARDS))


def clear() -> None:
    """Remove all entries."""
    where = directory()
    if where is not None:
        for path, _ in _entries(where):
            with suppress(OSError):
                path.unlink()


def usage() -> tuple[int, int]:
    """The number of entries, and their bytes."""
    where = directory()
    sizes = [] if where is None else [found.st_size for _, found in _entries(where)]
    return len(sizes), sum(sizes)


def _is_own(found: os.stat_result) -> bool:
    """Whether only this user owns a file and may write to it; true on systems without such owners."""
    return not hasattr(os, "geteuid") or (found.st_uid == os.geteuid() and not found.st_mode & 0o022)


def _path(where: Path, question: bytes) -> Path:
    name = sha256(question).hexdigest()
    return where / name[0] / name


def _head(body: bytes, question: bytes) -> bytes:
    return _MAGIC + f"{len(question)} {sha256(body).hexdigest()}\n".encode()


def _entries(where: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for shard in _SHARDS:
        yield from _files(where / shard)


def _files(shard: Path) -> Iterator[tuple[Path, os.stat_result]]:
    with suppress(OSError), os.scandir(shard) as found:
        for entry in found:
            with suppress(OSError):  # another process may have removed it
                if entry.is_file(follow_symlinks=False):
                    yield Path(entry.path), entry.stat(follow_symlinks=False)


def _prune(shard: Path, most: int) -> None:
    """Remove the least recently used files of a shard until the rest take at most `most` bytes."""
    files = list(_files(shard))
    taken = sum(found.st_size for _, found in files)
    if taken <= most:
        return
    for path, found in sorted(files, key=lambda each: each[1].st_mtime_ns):
        with suppress(OSError):
            path.unlink()
        taken -= found.st_size
        if taken <= most * 3 // 4:
            return


def _sources() -> str | None:
    """A digest of the sizes and times of the package's files, which a developer may have changed; None if no files
    are found."""
    found: list[str] = []
    folders = [str(_PACKAGE)]
    try:
        while folders:
            folder = folders.pop()
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name.endswith(".py"):
                        state = entry.stat()
                        found.append(f"{entry.path} {state.st_size} {state.st_mtime_ns}")
                    elif entry.name != "__pycache__" and entry.is_dir():
                        folders.append(entry.path)
    except OSError:
        return None
    return sha256("\n".join(sorted(found)).encode()).hexdigest() if found else None


def _installed(package: str) -> str | None:
    """A digest of a package's version, found without importing the package."""
    found = find_spec(package)
    try:
        return sha256(Path(found.origin or "").with_name("version.py").read_bytes()).hexdigest() if found else None
    except (OSError, ValueError):  # a package without files, such as a stand-in, has no version
        return None


def _starting() -> tuple[str, ...] | None:
    found = (sys.modules["tensorlang"].__version__, _installed("islpy"), _installed("jax"), _sources())
    return tuple(map(str, found)) if None not in found else None


_begun = _starting()
