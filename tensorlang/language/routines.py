"""The registry of routines, whole functions of arrays whose adjoints are declared, and their rules.

The rule of a routine y = r(x0, ..) is a program of x0, .., y and the cotangent of y that gives those of x0, .., as one
value or as pairs nested to the right. It is checked where it is declared (`tensorlang.surface.routines`).
"""

from __future__ import annotations

from dataclasses import replace
from weakref import WeakKeyDictionary

from tensorlang.errors import AdjointError
from tensorlang.language.function import Function
from tensorlang.language.grammar import Apply, Routine

_by_key: dict[str, Routine] = {}
_by_name: dict[str, Routine] = {}
_of_programs: WeakKeyDictionary[Function, Routine] = WeakKeyDictionary()
_rules: WeakKeyDictionary[Routine, Function] = WeakKeyDictionary()


def add(made: Routine) -> Routine:
    """Register `made` under its name; generated code finds it by a unique key."""
    key, k = made.name, 1
    while key in _by_key:
        k += 1
        key = f"{made.name}_{k}"
    made = replace(made, key=key)
    _by_key[key] = _by_name[made.name] = made
    return made


def known(name: str) -> Routine | None:
    """The routine that was last declared under `name`."""
    return _by_name.get(name)


def names() -> list[str]:
    """The names of all routines."""
    return list(_by_name)


def by_key(key: str) -> Routine:
    """The routine that is `key` in generated code."""
    return _by_key[key]


def of_program(f: Function) -> Routine | None:
    """The routine for `f`, if an adjoint of `f` has been declared."""
    return _of_programs.get(f)


def make_routine(f: Function, made: Routine) -> None:
    """Make calls of `f` calls of a routine."""
    _of_programs[f] = made


def with_rule(f: Function) -> Function:
    """`f`, as a call of its routine if its adjoint is declared."""
    made = of_program(f)
    if made is None:
        return f
    return Function(f.name, f.params, Apply(made, tuple(f.variables)), f.results, f.further)


def declare(made: Routine, rule: Function) -> None:
    """Declare the adjoint of a routine."""
    _rules[made] = rule


def is_declared(made: Routine) -> bool:
    """Whether an adjoint of a routine is declared."""
    return made in _rules


def rule_of(made: Routine) -> Function:
    """The adjoint that is declared for a routine. Raises `AdjointError` if none is."""
    rule = _rules.get(made)
    if rule is None:
        raise AdjointError(
            f"{made.name} has no adjoint: the language does not know how it is computed",
            hint=f"declare one: @tl.adjoint_of({made.name}), a function of its arguments, its value and the cotangent "
            "of that",
        )
    return rule
