"""Simplification of tensor SSA, and reading it back as a program."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial, wraps
from inspect import signature
from typing import ParamSpec
from weakref import WeakSet

from tensorlang.budget import limited, limits
from tensorlang.errors import ArgumentError, LimitError
from tensorlang.language.affine import IndexArray, Size
from tensorlang.language.function import Function, derived
from tensorlang.language.given import together
from tensorlang.language.grammar import Add, Bracket, Call, Choice, Expr, Extremum, children
from tensorlang.language.predicates import Or, conjuncts
from tensorlang.language.recall import recall
from tensorlang.normal import normal_ssa
from tensorlang.normal.recurrences import apart, has_recurrences, step_ssa, with_outputs
from tensorlang.normal.ssa import SSA, LoopStep, States
from tensorlang.normal.tidy import tidy
from tensorlang.sets.scopes import postorder
from tensorlang.simplification.assemble import assemble
from tensorlang.simplification.cancel import cancel
from tensorlang.simplification.cases import in_cases
from tensorlang.simplification.chosen import without_chosen_conditions
from tensorlang.simplification.compact import compact
from tensorlang.simplification.compact_choices import compact_choices
from tensorlang.simplification.distribute import distribute
from tensorlang.simplification.factorise import factorise
from tensorlang.simplification.fills import in_fills
from tensorlang.simplification.hoist import hoist
from tensorlang.simplification.listed import at_listed_places
from tensorlang.simplification.narrow import narrow
from tensorlang.simplification.read_back import read_back
from tensorlang.simplification.recurrences import tidy_recurrences
from tensorlang.simplification.ring import apply_ring_laws
from tensorlang.simplification.same import same
from tensorlang.simplification.supports import is_zero_at_zero, on_supports

__all__ = [
    "STEPS_OF_A_FORM",
    "is_simple",
    "other_forms",
    "passes",
    "read_simplified",
    "recalled",
    "simplify",
    "simplify_ssa",
]

P = ParamSpec("P")

STEPS_OF_A_FORM = 3_000_000
"""The most steps of work for another form of a program, and for its code; a form that takes more is left out."""

_simple: WeakSet[Expr] = WeakSet()
"""The bodies of simplified programs, which are not simplified again."""


def is_simple(f: Function) -> bool:
    """Whether `simplify` returned `f`, and so leaves it as it is."""
    return f.body in _simple


def recalled(function: Callable[P, Function]) -> Callable[P, Function]:
    """`function`, of programs and options, with its results kept; simplified ones are still marked as such."""
    parameters = signature(function)
    what = f"{function.__module__}.{function.__qualname__}"

    def tell(made: Function) -> tuple[Function, bool]:
        return made, is_simple(made)

    def read(kept: tuple[Function, bool]) -> Function:
        made, simple = kept
        if simple:
            _simple.add(made.body)
        return made

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Function:
        given = parameters.bind(*args, **kwargs)
        given.apply_defaults()
        asked = tuple(given.arguments.values())
        simple = tuple(is_simple(x) for x in asked if isinstance(x, Function))
        return recall(what, (*asked, simple), lambda: function(*args, **kwargs), tell, read)

    return call


@limited
def simplify(f: Function, given: Mapping[str, int] | None = None, /, **sizes: int | Mapping[str, int]) -> Function:
    """`f` as one would write it: no copies, no idle sums, everything stored on its support, and products of several
    factors in the cheapest order.

    The cost never rises, as long as all sizes are at least 1. With `sizes`, keywords or a mapping, it is the cost there
    that is never higher, whatever the sizes that are not given. Raises `ArgumentError` for a name that is not a size of
    `f`.

    >>> f = tl.parse("f(x: [n]R) = gen i:n. sum j:n. [i = j] * x[j]")
    >>> print(tl.simplify(f))
    f(x: [n]R) = x
    """
    numbers: dict[str, int] = together(given, sizes)
    known = {size.name: size for size in (*f.sizes, *f.further)}
    for name in numbers:
        if name not in known:
            raise ArgumentError(f"{f.name} has no size {name}; its sizes are {', '.join(known) or 'none'}")
    if not numbers and f.body in _simple:
        return f
    return derived(read_simplified(normal_ssa(f), {known[name]: n for name, n in numbers.items()}), f)


def _same_loops(s: SSA, t: SSA) -> bool:
    """Whether both have the same recurrences."""
    return {x.loop for x in s.statements if isinstance(x, States)} == {
        x.loop for x in t.statements if isinstance(x, States)
    }


def read_simplified(s: SSA, sizes: Mapping[Size, int] | None = None) -> Function:
    """The program of `s`, simplified. `simplify` leaves it as it is."""
    f = read_back(simplify_ssa(s, sizes))
    if not sizes:
        _simple.add(f.body)
    return f


def simplify_ssa(s: SSA, sizes: Mapping[Size, int] | None = None) -> SSA:
    """`s` without copies, zeros and terms that cancel, with statements narrowed to what is read and stored on their
    supports, and sums of products factorised and ordered by cost: at `sizes`, or for all sizes."""
    d = apart(s)
    if d.loops:

        def simpler(step: LoopStep) -> LoopStep:
            return with_outputs(step, simplify_ssa(step_ssa(step), sizes))

        joined = tidy_recurrences(d.joined(simplify_ssa(d.s, sizes), simpler))
        return joined if _same_loops(joined, s) else simplify_ssa(joined, sizes)
    s = tidy(s)
    for change in passes(sizes):
        changed = change(s)
        s = s if changed.statements == s.statements else tidy(changed)
    return s


def other_forms(f: Function) -> Iterator[Function]:
    """Other forms of the simplified `f` that may have cheaper code: with statements under thin alternatives split into
    one part each; and with arrays that are only read at listed places computed only there.

    A program with recurrences has none; their steps, and the programs between them, have their own.
    """
    if has_recurrences(f):
        return
    forms = [f]
    if _has_alternatives(f):
        forms += _in_form(f, in_cases)
    if has_fills(f):
        forms += _in_form(f, lambda s: s if (t := in_fills(s)) is s else in_cases(simplify_ssa(t)))
    yield from forms[1:]
    if any(isinstance(p, IndexArray) for p in f.params):
        for form in forms:
            yield from _in_form(form, lambda s: s if (t := at_listed_places(s)) is s else simplify_ssa(t))


def _in_form(f: Function, change: Callable[[SSA], SSA]) -> Iterator[Function]:
    s = tidy(normal_ssa(f))
    try:
        with limits(steps=STEPS_OF_A_FORM):
            t = change(s)
            made = derived(read_back(t), f) if t.statements != s.statements else None
    except LimitError:
        return
    if made is not None:
        _simple.add(made.body)
        yield made


def _has_alternatives(f: Function) -> bool:
    """Whether `f` has a disjunction somewhere, or a sum of terms under two conditions."""
    for e in postorder(f.body):
        match e:
            case Bracket(p, _) | Extremum(pred=p) | Choice(pred=p) if any(isinstance(q, Or) for q in conjuncts(p)):
                return True
            case Add(Bracket(), Bracket(), _):
                return True
    return False


def has_fills(f: Function) -> bool:
    """Whether `f` adds up somewhere what is under a condition and something else, or takes a function of it that is not
    0 at 0."""
    several = (e for e in postorder(f.body) if isinstance(e, Add) or _is_filling(e))
    return any(isinstance(part, Bracket) for e in several for part in children(e))


def is_filled(f: Function) -> bool:
    """Whether the simplified `f` has an array that is the same along an axis, except at few places."""
    if not has_fills(f):
        return False
    s = tidy(normal_ssa(f))
    return in_fills(s) is not s


def _is_filling(e: Expr) -> bool:
    return isinstance(e, Call) and not is_zero_at_zero(e.function)


def passes(sizes: Mapping[Size, int] | None = None) -> tuple[Callable[[SSA], SSA], ...]:
    """The passes of simplification, in order, for `sizes` or for all sizes. The result of each is tidied."""

    def cheapest(change: Callable[..., SSA]) -> Callable[[SSA], SSA]:
        return wraps(change)(partial(change, sizes=sizes))

    return (
        assemble,
        cancel,
        same,
        apply_ring_laws,
        on_supports,
        narrow,
        compact,
        compact_choices,
        cheapest(distribute),
        cheapest(factorise),
        hoist,
        compact,
        same,
        assemble,
        without_chosen_conditions,
    )
