"""Batching: a program mapped over a new size is a program again.

    f(x, w) = let y = e in r      becomes      f(x', w) = let t = gen b:batch. let x = x'[b] in let y = e in r in t

for `x` mapped and `w` not. Statements that depend on nothing mapped stay outside, and so do such results, which are
then not mapped. Let-lifting and the other passes do the rest, so the derivatives of mapped programs are derived like
any others, by formulas that include the new axis.

A linear program that is written backwards stays so: mapped inputs have mapped cotangents, and the cotangent of an
input that is not mapped is the sum over the batch.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Lookup, Size, atom_affine
from tensorlang.language.function import Function, Parameter, taken_names, unused_name
from tensorlang.language.grammar import (
    Access,
    Bracket,
    Choice,
    Expr,
    Extremum,
    Gen,
    Integer,
    Proj,
    Var,
    access,
    children,
    gen,
    real,
    sums,
)
from tensorlang.language.lets import under
from tensorlang.language.predicates import (
    And,
    Exists,
    Or,
    Predicate,
    Related,
    Relation,
    conjunction,
    disjunction,
    exists,
    substitute,
)
from tensorlang.language.rebuilt import with_children
from tensorlang.language.types import Array, shape
from tensorlang.recursion import Deep, call, run
from tensorlang.simplification import simplify
from tensorlang.transforms.flat import Statement, paired, reads, taken_apart
from tensorlang.transforms.linear import FlatProgram, Linear, once, variable


@dataclass(frozen=True, eq=False)
class Batched:
    """An operation mapped over the size `batch`; `mapped` says which results have that axis."""

    op: FlatProgram | Linear
    batch: Size
    mapped: tuple[bool, ...]


@once
def batched(op: FlatProgram | Linear, mapped: tuple[bool, ...]) -> Batched:
    """`op` for many values of the parameters that are `mapped`, which get a new first axis."""
    if isinstance(op, FlatProgram):
        f, size, results = _mapped(op.function, mapped, None)
        return Batched(FlatProgram(f), size, results)
    count = len(op.known)
    inputs, outputs = mapped[count:], (True,) * len(op.outputs)
    taken, given = (inputs, outputs) if op.is_forward else (outputs, inputs)
    f, size, _ = _mapped(op.written, (*mapped[:count], *taken), given)
    read = tuple(map(variable, f.params[count:]))
    old = op.outputs if op.is_forward else op.inputs
    left = tuple(variable(_with_axis(x, size) if along else x) for x, along in zip(old, given, strict=True))
    linear = replace(
        op,
        known=f.params[:count],
        inputs=read if op.is_forward else left,
        outputs=left if op.is_forward else read,
        written=f,
    )
    return Batched(linear, size, (True,) * len(op.outputs))


def _mapped(
    f: Function, mapped: tuple[bool, ...], results: tuple[bool, ...] | None
) -> tuple[Function, Size, tuple[bool, ...]]:
    """`f` with a new axis for the parameters that are `mapped`, its size, and which results have that axis.

    `results` says which of them get it, while the others are summed over it; if None, those that depend on it get it.
    """
    size = Size(unused_name("batch", taken_names(f)))
    index = Index("b")
    params: list[Parameter] = []
    inner: list[Statement] = []
    outer: list[Statement] = []
    copy = _Copy(index)
    depending: set[Parameter] = set()
    for p, along in zip(f.params, mapped, strict=True):
        q = _with_axis(p, size) if along else p
        params.append(q)
        if not along:
            continue
        depending.add(p)
        if isinstance(q, Var) and isinstance(p, Var):
            inner.append((p, access(q, atom_affine(index))))
        elif isinstance(q, IndexArray) and isinstance(p, IndexArray):
            copy.atoms[Lookup(p, ())] = atom_affine(Lookup(q, (atom_affine(index),)))
        elif isinstance(q, Relation) and isinstance(p, Relation):
            copy.relations[p] = q
    parts = taken_apart(f)
    for x, value in parts.statements:
        if depending & reads([value]):
            depending.add(x)
            inner.append((x, run(copy.expr(value))))
        else:
            outer.append((x, value))
    found = [bool(depending & reads([e])) for e in parts.results]
    flags = tuple(found) if results is None else results
    within = [k for k, along in enumerate(found) if along]
    if within:
        each = paired([run(copy.expr(parts.results[k])) for k in within])
        value = Gen(index, atom_affine(size), under(inner, each))
        whole = Var("mapped", value.type)
        outer.append((whole, value))
    out: list[Expr] = []
    for k, e in enumerate(parts.results):
        if results is None and not found[k]:
            out.append(e)
            continue
        b = Index("b")
        binder = (b, atom_affine(size))
        one = _component(access(whole, atom_affine(b)), within.index(k), len(within)) if found[k] else e
        out.append(gen([binder], one) if flags[k] else _total(binder, one))
    return simplify(Function(f.name, tuple(params), under(outer, paired(out)))), size, flags


def _total(binder: tuple[Index, Affine], e: Expr) -> Expr:
    """The sum of the arrays `e` over an index."""
    binders = [(Index("k"), size) for size in shape(e.type)[0]]
    return gen(binders, sums([binder], access(e, *(atom_affine(i) for i, _ in binders))))


def _component(e: Expr, k: int, count: int) -> Expr:
    """The k-th of `count` values in pairs nested to the right."""
    for _ in range(k):
        e = Proj(1, e)
    return Proj(0, e) if k < count - 1 else e


def _with_axis(p: Parameter, size: Size) -> Parameter:
    along = atom_affine(size)
    match p:
        case Var():
            return Var(p.name, Array(along, p.type))
        case Relation():
            return Relation(p.name, (along, *p.sizes))
        case IndexArray():
            return IndexArray(p.name, (along, *p.sizes), p.size)


@dataclass
class _Copy:
    """Copies of expressions that read mapped index arrays and relations at `index`."""

    index: Index
    atoms: dict[Atom, Affine] = field(default_factory=dict)
    relations: dict[Relation, Relation] = field(default_factory=dict)
    done: dict[Expr, Expr] = field(default_factory=dict)

    def expr(self, e: Expr) -> Deep[Expr]:
        """The copy of `e`, which is `e` itself if no data is mapped."""
        if not self.atoms and not self.relations:
            return e
        if e not in self.done:
            self.done[e] = yield from call(self._copy(e))
        return self.done[e]

    def _copy(self, e: Expr) -> Deep[Expr]:
        parts = []
        for part in children(e):
            parts.append((yield from call(self.expr(part))))
        match with_children(e, parts):
            case Access(a, at, place):
                return Access(a, at.substitute(self.atoms), place)
            case Integer(value):
                return real(value.substitute(self.atoms))
            case Extremum(sign, i, size, p, a):
                return Extremum(sign, i, size, self._pred(p), a)
            case Choice(sign, i, size, p, a):
                return Choice(sign, i, size, self._pred(p), a)
            case Bracket(p, a):
                return Bracket(self._pred(p), a)
            case copy:
                return copy

    def _pred(self, p: Predicate) -> Predicate:
        return substitute(run(self._related(p)), self.atoms)

    def _related(self, p: Predicate) -> Deep[Predicate]:
        match p:
            case Related(relation, arguments):
                if relation not in self.relations:
                    return p
                return Related(self.relations[relation], (atom_affine(self.index), *arguments))
            case And(parts) | Or(parts):
                new = []
                for part in parts:
                    new.append((yield from call(self._related(part))))
                return conjunction(new) if isinstance(p, And) else disjunction(new)
            case Exists(index, size, body):
                return exists([(index, size)], (yield from call(self._related(body))))
            case _:
                return p
