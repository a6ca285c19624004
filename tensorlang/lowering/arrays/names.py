"""Names of generated code: only checked identifiers get into it, each with one meaning."""

from __future__ import annotations

import builtins
import keyword
import re

RESERVED = frozenset(keyword.kwlist) | frozenset(keyword.softkwlist) | frozenset(dir(builtins))
MODULES = frozenset(["jax", "jnp", "lax", "np", "pl", "pltpu", "plgpu", "set_xla_metadata", "dtype", "COSTS"])


def identifier(wanted: str) -> str:
    """A Python identifier like `wanted` that is no keyword, builtin or imported module, and not `__x__`."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", wanted) or "_"
    if name[0].isdigit():
        name = "_" + name
    return name + "_" if name in RESERVED or name in MODULES or name.startswith("__") else name


class Names:
    """The names in use, in two layers: those of the whole function and those of the statement being written."""

    def __init__(self, taken: frozenset[str] = frozenset()) -> None:
        self._global = set(taken)
        self._local: set[str] = set()
        self.blocks: dict[str, str] = {}
        """The names that the statement has for blocks of arrays, each with the array's name."""
        self._numbers: dict[str, int] = {}

    @property
    def count(self) -> int:
        """How many names the whole function has."""
        return len(self._global)

    def fresh_global(self, wanted: str) -> str:
        """A new name like `wanted` for the whole function."""
        name = self._new(wanted)
        self._global.add(name)
        return name

    def fresh_local(self, wanted: str) -> str:
        """A new name like `wanted` until the statement ends."""
        name = self._new(wanted)
        self._local.add(name)
        return name

    def fresh_block(self, array: str) -> str:
        """A new name for a block of the array of this name until the statement ends."""
        name = self.fresh_local(f"{array}_block")
        self.blocks[name] = array
        return name

    def end_statement(self) -> None:
        """Free the names of the statement."""
        self._local.clear()
        self.blocks.clear()

    def _new(self, wanted: str) -> str:
        base = name = identifier(wanted)
        while name in self._global or name in self._local:
            # the counter only grows, so that many equal wishes cost one step each
            k = self._numbers[base] = self._numbers.get(base, 0) + 1
            name = f"{base}{k}"
        return name
