"""Linearisation: a program as its value and a linear program of its differentials, which share what they store.

    P(x)  and  adjoint P(x, y_bar)        one program, simplified as a whole
      ->  K(x) = (y, r)                   the part that does not depend on y_bar; r are its values that the rest reads
          B(x, r; y_bar) = x_bar          the part that does, linear in y_bar
          T(x, r; dx) = dy                the adjoint of B with respect to y_bar: the total derivative of P

The value, the reverse and the forward derivative read the same r, so nothing is computed twice, however the three are
scheduled. A statement that does not depend on y_bar stays in B if it is inlined into a statement that does: nothing
else reads it, so it would only be stored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from functools import wraps
from threading import RLock
from typing import Any, TypeVar

from tensorlang.derivatives.adjoint import adjoint_steps
from tensorlang.errors import TypeMismatch
from tensorlang.language.affine import Affine, Atom, IndexArray, Size
from tensorlang.language.function import Function, Parameter, taken_names
from tensorlang.language.grammar import Apply, Call, Expr, Extremum, Sum, Var, zero
from tensorlang.language.lets import bindings
from tensorlang.language.predicates import Relation
from tensorlang.language.types import Pair, Type, leaves, shape
from tensorlang.lowering.emit.module import best_form
from tensorlang.lowering.plan.passes import computed_where_read
from tensorlang.memory import cached_whole
from tensorlang.normal import normal_ssa
from tensorlang.normal.ssa import SSA, Input, Outputs, output_list
from tensorlang.normal.ssa import Statement as SSAStatement
from tensorlang.normal.tidy import replaced, tidy
from tensorlang.sets.scopes import postorder
from tensorlang.simplification import read_simplified, recalled, simplify, simplify_ssa
from tensorlang.simplification.read_back import read_back
from tensorlang.transforms.flat import Parts, Statement, is_zero, like, put_together, reads, result_shapes, taken_apart

F = TypeVar("F", bound=Callable[..., Any])
Sizes = tuple[tuple[Size, int], ...]
"""The value of each size."""

_lock = RLock()


def once(function: F) -> F:
    """`function`, memoised: equal arguments give the same value in all threads."""
    remembered = cached_whole(function)

    @wraps(function)
    def call(*args: Any) -> Any:
        with _lock:
            return remembered(*args)

    return call  # type: ignore[return-value]


@dataclass(frozen=True, eq=False, repr=False)
class FlatProgram:
    """A flat program that need not be linear in anything."""

    function: Function

    def __repr__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        """Its name in compiled code."""
        return self.function.name

    @property
    def params(self) -> tuple[Parameter, ...]:
        """Its parameters, in order."""
        return self.function.params

    @property
    def shapes(self) -> list[tuple[Affine, ...]]:
        """The shapes of its results."""
        return result_shapes(self.function)

    @property
    def sizes(self) -> tuple[Size, ...]:
        """The sizes that it must be given."""
        return self.function.sizes


@dataclass(frozen=True, eq=False, repr=False)
class Linear:
    """A flat program that is linear in `inputs`, given `known`; its results have the shapes of `outputs`.

    It is written down forwards, as a function of `known` and `inputs`, or backwards, as its adjoint, a function of
    `known` and `outputs`; the other of the two is derived on demand. `names` are its own and its adjoint's.
    """

    names: tuple[str, str]
    known: tuple[Parameter, ...]
    inputs: tuple[Var, ...]
    outputs: tuple[Var, ...]
    written: Function
    is_forward: bool

    def __repr__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        """Its name in compiled code."""
        return self.names[0]

    @property
    def function(self) -> Function:
        """The program as a function of `known` and `inputs`."""
        if self.is_forward:
            return self.written
        return _transposed(self.written, self.known, self.outputs, self.inputs)

    @property
    def transposed(self) -> Linear:
        """Its adjoint, a function of `known` and `outputs`."""
        return _turned(self)

    @property
    def params(self) -> tuple[Parameter, ...]:
        """Its parameters, in order."""
        return (*self.known, *self.inputs)

    @property
    def shapes(self) -> list[tuple[Affine, ...]]:
        """The shapes of its results."""
        return [shape(x.type)[0] for x in self.outputs]

    @property
    def sizes(self) -> tuple[Size, ...]:
        """The sizes that it must be given."""
        found = dict.fromkeys(self.written.sizes)
        for sizes in (*self.shapes, *(shape(x.type)[0] for x in self.inputs)):
            found.update((s, None) for a in sizes for s in a.sizes)
        return tuple(found)

    def restricted(self, inputs: tuple[bool, ...], outputs: tuple[bool, ...]) -> Linear:
        """The program with only these inputs, the others being zero, and only these outputs, as nobody reads the
        others."""
        return self if all(inputs) and all(outputs) else _restricted(self, inputs, outputs)


@dataclass(frozen=True, eq=False)
class Linearized:
    """A program's value, followed by the values of its statements that `linear` reads; and its derivative `linear`.

    `linear` is with respect to the parameters in `by`, for the results in `of` (places). It reads `known`: places of
    parameters or, numbered after these, of values that `value` stores.
    """

    value: FlatProgram
    linear: Linear
    by: tuple[int, ...]
    of: tuple[int, ...]
    known: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class _Joint:
    """A program and its adjoint in one: its statements and results, and the cotangents of the parameters `by`.

    `outputs` are the cotangents of the results `of`, without those on which nothing depends.
    """

    parts: Parts
    cotangents: tuple[Expr, ...]
    outputs: tuple[Var, ...]
    by: tuple[int, ...]
    of: tuple[int, ...]


@once
def linearized(
    program: FlatProgram, by: tuple[int, ...], of: tuple[int, ...], sizes: Sizes, on_points: frozenset[Relation]
) -> Linearized | None:
    """`program` linearised with respect to the parameters in the places `by`, for the results in the places `of`.

    None if these results do not depend on those parameters. Not stored are arrays of a negative size at `sizes`, and
    arrays that value and derivative as one program would not hold whole, but compute where they are read or hold only
    at the points of one of the relations `on_points`. Nor are arrays computed by sums and products that the derivative
    by itself would not hold, or whose elements are each a few operations on smaller arrays.
    """
    joint = _joint(program, by, of)
    if not joint.by:
        return None
    values: dict[Atom, int] = dict(sizes)
    f, parts = program.function, joint.parts
    whole, alone = (
        put_together(f.name, (*f.params, *joint.outputs), replace(parts, results=results))
        for results in ((*parts.results, *joint.cotangents), joint.cotangents)
    )
    cheap = {x: e for x, e in parts.statements if not any(isinstance(part, Call) for part in postorder(e))}
    outer = {x for x, e in cheap.items() if isinstance(x, Var) and _is_outer(x, e)}
    unfit = computed_where_read(whole, on_points) | (computed_where_read(alone, on_points) & cheap.keys()) | outer
    negative = (
        x for x, _ in parts.statements if not isinstance(x, Var) or any(a.value(values) < 0 for a in shape(x.type)[0])
    )
    return _split(program, joint, unfit.union(negative))


def _is_outer(x: Var, e: Expr) -> bool:
    """Whether `e`, the value of `x`, has no sums, and reads only arrays with fewer axes of variable length than `x`."""
    nodes = postorder(e)
    return not any(isinstance(part, Sum | Extremum | Apply) for part in nodes) and all(
        _axes(part) < _axes(x) for part in nodes if isinstance(part, Var)
    )


def _axes(x: Var) -> int:
    """The number of axes of `x` with a variable length."""
    return sum(not n.is_constant for n in shape(x.type)[0])


@once
def transposable(program: FlatProgram, by: tuple[int, ...]) -> Linear:
    """`program`, which must be linear in the parameters in the places `by`, as a linear program in these.

    Raises `TypeMismatch` if it is not linear in them.
    """
    f = program.function
    inputs = tuple(variable(f.params[k]) for k in by)
    known = tuple(p for p in f.params if p not in inputs)
    outputs = like([f"{f.name}_bar"] * len(program.shapes), program.shapes, taken_names(f))
    linear = Linear(
        (f.name, f"{f.name}_adjoint"), known, inputs, outputs, Function(f.name, (*known, *inputs), f.body), True
    )
    read = reads([linear.transposed.function.body])
    for x in inputs:
        if x in read:
            raise TypeMismatch(f"{f.name} is not linear in {x.name}, so it can't be transposed")
    return linear


@once
def _joint(program: FlatProgram, by: tuple[int, ...], of: tuple[int, ...]) -> _Joint:
    f = program.function
    shapes = program.shapes
    outputs = like([f"{f.name}_bar"] * len(of), [shapes[k] for k in of], taken_names(f))
    parts = taken_apart(_with_adjoint(f, by, of, outputs))
    cotangents = parts.results[len(shapes) :]
    active = [k for k, e in enumerate(cotangents) if not is_zero(e)]
    read = _behind(parts.statements, cotangents)
    return _Joint(
        replace(parts, results=parts.results[: len(shapes)]),
        tuple(cotangents[k] for k in active),
        tuple(x for x in outputs if x in read),
        tuple(by[k] for k in active),
        tuple(k for k, x in zip(of, outputs, strict=True) if x in read),
    )


@recalled
def _with_adjoint(f: Function, by: tuple[int, ...], of: tuple[int, ...], outputs: tuple[Var, ...]) -> Function:
    """The results of `f`, then its adjoint with respect to the parameters `by`, for the results `of` with the
    cotangents `outputs`."""
    s = tidy(normal_ssa(f))
    results = output_list(s.outputs)
    a = _adjoint(s, [results[k] for k in of], tuple(variable(f.params[k]) for k in by), outputs)
    return best_form(
        read_simplified(replace(a, statements=(*s.statements, *a.statements), outputs=(s.outputs, a.outputs)))
    )


@once
def _split(program: FlatProgram, joint: _Joint, unfit: frozenset[Var | IndexArray]) -> Linearized:
    f = program.function
    linear: set[Any] = set(joint.outputs)
    for x, value in joint.parts.statements:
        if linear & reads([value]):
            linear.add(x)
    later: list[Statement] = []
    stored: list[Var] = []
    needed = reads(joint.cotangents)
    for x, value in reversed(joint.parts.statements):
        if x in needed and isinstance(x, Var) and x not in linear and x not in unfit:
            stored.append(x)
        elif x in needed:
            later.append((x, value))
            needed |= reads([value])
    stored.reverse()
    known = tuple(k for k, p in enumerate(f.params) if p in needed)
    params = (*(f.params[k] for k in known), *stored)
    inputs = like(
        [f"d{f.params[k].name}" for k in joint.by],
        [shape(variable(f.params[k]).type)[0] for k in joint.by],
        taken_names(f),
    )
    backward = put_together(
        f"{f.name}_adjoint", (*params, *joint.outputs), Parts(tuple(reversed(later)), joint.cotangents)
    )
    whole = put_together(f.name, f.params, replace(joint.parts, results=(*joint.parts.results, *stored)))
    if any(isinstance(x, Var) and x in unfit for x, _ in later):  # fewer read it in each of the two
        own = {x.name for x, _ in bindings(f.body)[0]}
        whole, backward = _again(whole, own), _again(backward, own)
    return Linearized(
        FlatProgram(whole),
        Linear((f"{f.name}_derivative", f"{f.name}_adjoint"), params, inputs, joint.outputs, backward, False),
        joint.by,
        joint.of,
        (*known, *range(len(f.params), len(f.params) + len(stored))),
    )


def _again(f: Function, named: Collection[str]) -> Function:
    """`f`, simplified again as if its author had named only these statements."""
    s = normal_ssa(f)
    return read_simplified(replace(s, names={x: name for x, name in s.names.items() if name in named}))


@once
def _turned(op: Linear) -> Linear:
    return Linear(op.names[::-1], op.known, op.outputs, op.inputs, op.written, not op.is_forward)


@once
@recalled
def _transposed(
    f: Function, known: tuple[Parameter, ...], inputs: tuple[Var, ...], outputs: tuple[Var, ...]
) -> Function:
    s = tidy(normal_ssa(f))
    a = _adjoint(s, output_list(s.outputs), inputs, outputs)
    return read_back(simplify_ssa(replace(a, params=(*known, *outputs))))


@once
def _restricted(op: Linear, inputs: tuple[bool, ...], outputs: tuple[bool, ...]) -> Linear:
    taken, given = (inputs, outputs) if op.is_forward else (outputs, inputs)
    old = op.inputs if op.is_forward else op.outputs
    parts = taken_apart(op.written)
    left = tuple(x for x, is_kept in zip(old, taken, strict=True) if is_kept)
    zeros = tuple((x, zero(x.type)) for x, is_kept in zip(old, taken, strict=True) if not is_kept)
    results = tuple(e for e, is_kept in zip(parts.results, given, strict=True) if is_kept)
    f = put_together(op.written.name, (*op.known, *left), Parts((*zeros, *parts.statements), results))
    return replace(
        op,
        inputs=tuple(x for x, is_kept in zip(op.inputs, inputs, strict=True) if is_kept),
        outputs=tuple(x for x, is_kept in zip(op.outputs, outputs, strict=True) if is_kept),
        written=simplify(f) if zeros else f,
    )


def _adjoint(s: SSA, results: list[SSAStatement], wrt: tuple[Var, ...], outputs: tuple[Var, ...]) -> SSA:
    """The adjoint for these results of `s`: a program of the parameters of `s` and the results' cotangents
    `outputs`."""
    kind: Type = outputs[-1].type
    nested: Outputs = results[-1]
    for x, y in zip(outputs[-2::-1], results[-2::-1], strict=True):
        kind, nested = Pair(x.type, kind), (y, nested)
    a, _ = adjoint_steps(replace(s, outputs=nested), wrt, kind)
    cotangent = variable(a.params[-1])
    named: dict[SSAStatement, SSAStatement] = {}
    for (path, part), x in zip(leaves(kind), outputs, strict=True):
        sizes = shape(part)[0]
        named[Input(cotangent, path, sizes)] = Input(x, (), sizes)
    return replace(replaced(a, named), params=(*s.params, *outputs), results=None)


def _behind(statements: Iterable[Statement], results: Iterable[Expr]) -> set[Any]:
    """All names on which the results depend, directly or through statements."""
    found = reads(results)
    for x, value in reversed(list(statements)):
        if x in found:
            found |= reads([value])
    return found


def variable(p: Parameter) -> Var:
    """`p` as a variable, which it is since it is differentiated."""
    assert isinstance(p, Var), "only real values are differentiated"
    return p
