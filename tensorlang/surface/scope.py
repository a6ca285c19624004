"""The state of a Python program being run: the definition being made, its open binders, and the user's line."""

from __future__ import annotations

import dis
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass, field
from itertools import pairwise
from types import CodeType
from typing import Any, NoReturn, Self, TypeVar

from tensorlang.errors import ScopeError, TensorlangError, TypeMismatch, UnknownAttribute, here, user_frame
from tensorlang.language import functions
from tensorlang.language.affine import Index, IndexArray
from tensorlang.language.grammar import Bracket, Expr, Var
from tensorlang.memory import cached
from tensorlang.shown import Shown
from tensorlang.surface import foreign

T = TypeVar("T")


@dataclass(eq=False)
class Definition:
    """A function that is being defined: its open binders, and facts about the values made in it."""

    name: str
    opened: tuple[Index | Var, ...] = ()
    made_under: dict[Expr, tuple[Index | Var, ...]] = field(default_factory=dict)
    names: dict[Expr, str] = field(default_factory=dict)
    choices: dict[IndexArray, Expr] = field(default_factory=dict)
    conditions: dict[Expr, IndexArray] = field(default_factory=dict)


@dataclass(eq=False)
class Binder:
    """The binder of an index or a variable. It is `live` while its Python function runs."""

    name: str
    kind: str
    definition: Definition | None
    live: bool = True


Binders = frozenset[Binder]
NO_BINDERS: Binders = frozenset()

current: ContextVar[Definition | None] = ContextVar("current", default=None)


@cached
def _stored_names(code: CodeType) -> dict[int, str]:
    """The variables to which the results of instructions are assigned at once, by the offsets of these."""
    found: dict[int, str] = {}
    instructions = list(dis.get_instructions(code))
    for before, after in pairwise(instructions):
        if after.opname.startswith("STORE_") and after.opname not in {"STORE_SUBSCR", "STORE_ATTR", "STORE_SLICE"}:
            name = after.argval[0] if isinstance(after.argval, tuple) else after.argval
            # during a call the frame points into the space between the two instructions
            found.update(dict.fromkeys(range(before.offset, after.offset), str(name)))
    return found


def valid_name(name: str) -> bool:
    """Whether a program can bind `name`."""
    return bool(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)) and name not in functions.KEYWORDS


@contextmanager
def opened(binding: Index | Var, kind: str) -> Iterator[Binder]:
    """The binder of `binding`, live inside the `with` statement."""
    definition = current.get()
    binder = Binder(binding.name, kind, definition)
    before = () if definition is None else definition.opened
    if definition is not None:
        definition.opened = (*before, binding)
    try:
        yield binder
    finally:
        binder.live = False
        if definition is not None:
            definition.opened = before


def together(*parts: Surface) -> Binders:
    """The binders that the parts depend on. Raises `ScopeError` if one of them can't be used here."""
    binders = parts[0].binders if parts else NO_BINDERS
    for part in parts[1:]:
        if not part.binders <= binders:
            binders |= part.binders
    definition = current.get()
    for binder in binders:
        if binder.definition is not definition:
            owner = "a definition that is over" if binder.definition is None else binder.definition.name
            inside = "outside of it" if definition is None else f"inside {definition.name}"
            raise ScopeError(
                f"{binder.name} is {binder.kind} of {owner} and can't be used {inside}",
                here(),
                "pass it as an argument" if definition is not None else None,
            )
        if not binder.live:
            raise ScopeError(
                f"{binder.name} is {binder.kind} whose scope has ended",
                here(),
                "use what depends on it inside the function that has it as its parameter",
            )
    return binders


def built(make: Callable[..., T], *parts: Any) -> T:
    """make(*parts), whose error, if any, is placed at the user's line."""
    try:
        return make(*parts)
    except TensorlangError as error:
        raise error.at(here()) from None


def refuse(message: str, hint: str | None = None) -> NoReturn:
    """Raise `TypeMismatch` at the user's line."""
    raise TypeMismatch(message, here(), hint)


class Surface(Shown):
    """The common base of indices, conditions, terms and relations."""

    __slots__ = ("binders",)

    binders: Binders

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Apply an elementwise NumPy function; those that the language or Python also has give terms."""
        return foreign.applied(self, ufunc, method, inputs, options)

    def __array_function__(self, f: Any, _: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if f.__name__ == "where" and len(arguments) == 3 and not named:
            return foreign.where(*arguments)
        foreign.refused(self, f"np.{f.__name__}", f.__name__)

    @classmethod
    def __torch_function__(cls, f: Any, *_: Any) -> NoReturn:
        name = str(getattr(f, "__name__", "a function"))
        refuse(f"torch.{name} takes tensors, found a value of a program that is being written", foreign.mend(name))

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        refuse(*self._outside())

    @property
    def __jax_array__(self) -> NoReturn:
        asking = sys._getframe(1).f_code
        if "__jax_array__" not in (*asking.co_names, *asking.co_consts):
            # JAX's C++ looks for it before its Python does; there Python from 3.13 on prints other errors and goes on
            raise AttributeError("__jax_array__")
        refuse(*self._outside())

    def _outside(self) -> tuple[str, str]:
        """The message and the hint when a library wants its numbers."""
        return f"functions of NumPy and JAX take arrays, found {self.described()}", foreign.OUTSIDE

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise UnknownAttribute(f"{self.described()} has no attribute {name}", here(), self._attribute_hint(name))

    def _attribute_hint(self, name: str) -> str | None:
        return foreign.mend(name)

    def __len__(self) -> int:  # noqa: PLE0303 - it has no length
        refuse(f"len is for Python's own lists, found {self.described()}", foreign.mend("len"))

    def __setitem__(self, *_: object) -> NoReturn:
        refuse("values do not change while a program is written", foreign.mend("at"))

    __delitem__ = __setitem__

    def without(self, binders: Iterable[Binder]) -> Self:
        """The same object outside of `binders`."""
        made = copy(self)
        made.binders = self.binders.difference(binders)
        return made

    def described(self) -> str:
        """A description, for a message."""
        raise NotImplementedError

    __hash__ = object.__hash__  # `==` makes a condition or is refused, so it can't be trusted to compare


def remember(e: Expr) -> None:
    """Note where the value `e` was made, and the Python variable that it is about to be assigned to."""
    definition = current.get()
    if definition is None:
        return
    while isinstance(e, Bracket):
        e = e.body
    definition.made_under.setdefault(e, definition.opened)
    frame = user_frame()
    name = None if frame is None else _stored_names(frame.f_code).get(frame.f_lasti)
    if name is not None and valid_name(name):
        definition.names.setdefault(e, name)
