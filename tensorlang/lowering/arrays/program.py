"""The array program of a whole function: sizes inferred from shapes, statements for each step of its plan, results.

A function must be simplified: lets outermost, pairs only as projections of parameters and around the outputs, gens
outermost in each right-hand side, and nothing stored beyond its support.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property, partial
from itertools import count, pairwise
from typing import Any

from tensorlang.errors import NormalFormError
from tensorlang.language.affine import Affine, Atom, IndexArray, Size, atom_affine, constant
from tensorlang.language.arguments import unpack
from tensorlang.language.function import Function
from tensorlang.language.grammar import Expr, MakePair, Proj, Var, children
from tensorlang.language.predicates import Relation
from tensorlang.language.show import expr_text
from tensorlang.language.types import Pair, shape, struct_of_arrays
from tensorlang.lowering.arrays.concatenate import alone
from tensorlang.lowering.arrays.context import Context, Held
from tensorlang.lowering.arrays.decisions import Decision
from tensorlang.lowering.arrays.expressions import Compiler
from tensorlang.lowering.arrays.fold import used_twice
from tensorlang.lowering.arrays.forms import Written, form_of, positional
from tensorlang.lowering.arrays.integers import ZERO, Range, StaticIntegers
from tensorlang.lowering.arrays.ir import (
    Assign,
    Blank,
    Block,
    Define,
    Infix,
    Item,
    Length,
    List,
    Name,
    Node,
    Number,
    Return,
    Statement,
    Transpose,
)
from tensorlang.lowering.arrays.names import Names
from tensorlang.lowering.arrays.points import RelationPoints
from tensorlang.lowering.arrays.printer import program_lines
from tensorlang.lowering.arrays.scope import Scope
from tensorlang.lowering.arrays.signature import Signature, result_of, signature
from tensorlang.lowering.arrays.sums.loop import whole
from tensorlang.lowering.arrays.sums.row_blocks import in_blocks, joined
from tensorlang.lowering.arrays.sums.sparse import on_points
from tensorlang.lowering.arrays.updates import is_write, updated, write_last
from tensorlang.lowering.arrays.values import DTYPE, INT32, apply, cast, dtype_of, integer, ordered
from tensorlang.lowering.explain import Explained
from tensorlang.lowering.plan.dependence import is_condition, read_both_ways, read_by
from tensorlang.lowering.plan.guards import Conditions, Required, at_places, of_elements
from tensorlang.lowering.plan.ir import DENSE, AtPoints, FusedSums, Given, Quotients, RowBlocks, Storage
from tensorlang.lowering.plan.numbers import elements_of
from tensorlang.lowering.plan.passes import plan
from tensorlang.lowering.plan.statements import eta
from tensorlang.recursion import Deep, call, run
from tensorlang.shown import Shown

_LONG_COMMENT = 100
_LARGE = 60  # nodes beyond which a statement is not written out in its comment

Path = tuple[int, ...]


class ArrayProgram(Shown):
    """The array program of `f`: a function of its `parameters`, and then of the sizes `told` that no shape determines.
    `sizes` has all of them by their names in it. The first `head` statements, for its `signature`, are about shapes and
    dtypes alone.

    `definition` is that function; `plan` says which arrays it makes, and `explained` how each is computed. The
    relations `sparse` come as their points: tuples of index arrays, one for each argument, and for each of the further
    `orders` one with the places of the points in it. In `strict` programs what brackets hide has no influence, whatever
    it is. No array is called by one of the names `reserved`; `width` is how long an expression is on a line. A program
    that is `in_step` runs at each time of a recurrence. Of its results those at the places `indices`, the elements of
    index arrays as numbers, are the index arrays themselves; its results are `called` so, where they have no names.
    """

    def __init__(
        self,
        f: Function,
        sparse: Collection[Relation],
        strict: bool,
        reserved: Collection[str],
        width: Callable[[Node], int],
        in_step: bool = False,
        indices: frozenset[int] = frozenset(),
        called: Sequence[str] = (),
    ) -> None:
        names = Names(frozenset(reserved))
        self.name = names.fresh_global(f.name)
        self._compiler = Compiler(Context(names, StaticIntegers(names)))
        self._ctx = self._compiler.ctx
        self._ctx.strict, self._ctx.in_step = strict, in_step
        self._ctx.width = width
        self._ctx.joined = lambda key: joined(self._ctx, key)
        self._body = Block()
        self.signature = signed = self._parameters(f, sparse)
        self.parameters, self.told = list(signed.parameters.values()), signed.told
        self.sizes = {name: x for x, name in self._ctx.integers.spelled.items() if isinstance(x, Size)}
        # the states, which a step may change, are parameters
        self._states = frozenset(self._ctx.held) if in_step else frozenset()
        self.head = head = len(self._body.statements)
        self.plan = plan(f, sparse, in_step, strict)
        for g in self.plan.given:
            self._given(g)
        self._explained: list[Callable[[Mapping[str, str]], Explained]] = []
        self._forms: dict[Hashable, Written] = {}
        self._cut_work: Mapping[Affine, Sequence[Sequence[Affine]]] = self.plan.row_work
        for step in self.plan.steps:
            if isinstance(step, FusedSums):
                self._fused(step)
                continue
            x = step.variable
            self._ctx.held[x, ()] = self._statement(x.name, step.value, step.storage, step.forced, step.certain)
            if isinstance(x, IndexArray):
                self._ranged(x)
                if is_condition(step.value):
                    self._ctx.conditions.add(x)
        results = unpack(run(self._outputs(self.plan.outputs, indices, called, count())), f.results)
        self.orders = {relation: tuple(p.orders) for relation, p in self._ctx.sparse.items()}
        self.counts = {relation: p.size for relation, p in self._ctx.sparse.items()}
        for p in self._ctx.sparse.values():
            self._body.statements[head:head] = _unpacked(self._ctx, p)
        if in_step:
            write_last(self._body, head, list(_names_in(results)), names.fresh_global)
        self._body.statements.append(Return(run(result_of(results, names, self._body, width))))
        if indices:  # their elements as numbers
            self.head = self._body.eliminate_dead_assignments(None, head)
        told = ("*", *self.told.values()) if self.told else ()
        self.definition = Define(self.name, (*self.parameters, *told), self._body)

    @cached_property
    def explained(self) -> list[Explained]:
        """How each of its arrays is computed, which is written when somebody asks."""
        return self.explained_as({})

    def explained_as(self, names: Mapping[str, str]) -> list[Explained]:
        """The same where arrays have other `names`."""
        return [made(names) for made in self._explained]

    def __str__(self) -> str:
        return "\n".join(program_lines(self.definition))

    def _parameters(self, f: Function, sparse: Collection[Relation]) -> Signature:
        """The arrays that the parameters are made of, and the points of those of `sparse`."""
        ctx = self._ctx
        apart = [p for p in f.params if p in sparse]
        found = signature(f, ctx.integers, self._body, apart)
        ctx.held.update({key: Held(name, found.shapes[key]) for key, name in found.arrays.items()})
        for p in apart:
            assert isinstance(p, Relation)
            count = Size(f"{p.name}.points")
            ctx.integers.spelled[count] = ctx.names.fresh_global(f"{p.name}_count")
            points = ctx.sparse[p] = RelationPoints.of(ctx.names, p, found.parameters[p], count)
            ctx.held.update({(column, ()): Held(column.name, column.sizes) for column in points.columns})
        return found

    def _given(self, g: Given) -> None:
        """Assign an array that depends on parameters alone."""
        ctx = self._ctx
        name = ctx.names.fresh_global(g.variable.name)
        match g.value:
            case Size():
                ctx.held[g.variable, ()] = Held(name, ())
                self._body.assign(name, cast(ctx.integers.node(atom_affine(g.value))))
            case IndexArray(sizes=shape):
                ctx.held[g.variable, ()] = Held(name, shape)
                self._body.assign(name, cast(Name(ctx.held[g.value, ()].name)))
            case Affine():
                ctx.held[g.variable, ()] = Held(name, (g.value,))
                self._body.assign(name, apply("arange", ctx.integers.node(g.value), dtype=DTYPE))
            case Quotients(size, divisor):
                assert isinstance(g.variable, IndexArray)
                ctx.held[g.variable, ()] = Held(name, (size,))
                ctx.divisors[g.variable] = divisor
                below = apply("arange", ctx.integers.node(size), dtype=INT32)
                self._body.assign(name, Infix(below, "//", integer(divisor)))
            case values:
                ctx.held[g.variable, ()] = Held(name, (constant(len(values)),))
                listed = List(tuple(Number(Fraction(v)) for v in values))
                self._body.assign(name, cast(listed, INT32 if isinstance(g.variable, IndexArray) else DTYPE))
                if isinstance(g.variable, IndexArray) and all(a < b for a, b in pairwise(values)):
                    ctx.increasing.add(g.variable)

    def _ranged(self, x: IndexArray) -> None:
        """Note if the range of `x`, which the program chooses, may be empty at some sizes."""
        if not self._ctx.integers.is_nonnegative(x.size - 1):
            self._ctx.possibly_empty.add(x)

    def _statement(
        self, wanted: str, e: Expr, storage: Storage = DENSE, forced: bool = False, certain: bool = False
    ) -> Held:
        """The array of `e`, stored as `storage` says, and if it is `forced`, in memory by XLA, too; `certain` if it is
        an extremum that is only read where it is not empty."""
        ctx = self._ctx
        name = ctx.names.fresh_global(wanted)
        conditions = Required(self._required)
        e = run(conditions.guarded(e) if ctx.strict else conditions.drop_implied_guards(e))
        binders, scalar = eta(e)
        conditions.ranges.update(binders)
        needs = of_elements(run(conditions.of(scalar)), [i for i, _ in binders])
        held = Held(name, shape(e.type)[0], required=needs)
        self._body.statements.append(Blank())
        self._body.note(partial(_comment, e), name)
        ctx.certain = eta(e)[1] if certain else None
        form = None if ctx.sparse else form_of(e, lambda x: ctx.held.get((x, ())), self._further(storage, forced))
        known = self._forms.get(form.key) if form else None
        if form and known:
            read = self._names_of(form.variables)
            statements = known.again(name, read, ctx.names)
            decided = partial(known.decided, form.variables)
            held = replace(held, cut=storage.cut if known.is_cut and isinstance(storage, RowBlocks) else None)
        else:
            before = ctx.names.count
            held, statements = self._written(held, e, storage, forced)
            decided = partial(tuple, ctx.decisions.end_statement())
            if form and ctx.names.count == before:  # no array was put together for it
                read = self._names_of(form.variables)
                blocks = dict(ctx.names.blocks)
                self._forms[form.key] = Written(
                    name, form.variables, read, tuple(statements), decided(), held.cut is not None, blocks
                )
        self._body.statements += statements
        in_place = any(isinstance(x, Assign) and x.names == (name,) and is_write(x) for x in statements)
        self._explained.append(lambda new: _explained(new.get(name, name), e, storage, forced, in_place, decided()))
        ctx.end_statement()
        return held

    def _further(self, storage: Storage, forced: bool) -> Hashable:
        """All that the code of an expression depends on, besides the expression and what it reads."""
        return (
            forced,
            self._ctx.certain is not None,
            positional(storage.cut) if isinstance(storage, RowBlocks) else None,
            tuple(self._ctx.rows),
        )

    def _names_of(self, variables: Iterable[Var]) -> tuple[str, ...]:
        return tuple(self._ctx.held[x, ()].name for x in variables)

    def _written(self, held: Held, e: Expr, storage: Storage, forced: bool) -> tuple[Held, list[Statement]]:
        """How the array `held` of `e` is held, and the statements that make it."""
        ctx, name = self._ctx, held.name
        binders, scalar = eta(e)
        block = Block()
        domain = {i: ctx.integers.range_of(i, n, block) for i, n in binders}
        env: dict[Atom, Affine] = {}
        if isinstance(storage, AtPoints):
            held, domain, env = on_points(ctx, held, storage.relation, domain)
        scope = ctx.scope(Scope({}, {}, {}, (), block, block), domain=domain, env=env)
        self._compiler.shared = used_twice(scalar)
        self._compiler.both_ways = read_both_ways(scalar) if len(binders) > 1 else frozenset()
        cut = storage.cut if isinstance(storage, RowBlocks) else None
        if cut is not None and all(r == Range(ZERO, n) for r, n in zip(domain.values(), held.shape, strict=True)):
            held = replace(held, cut=cut)
            self._cut_rows(domain[cut.row].extent)
            block.assign(name, run(in_blocks(ctx, scope, scalar, cut)))
        else:
            ctx.target = name
            found = run(updated(ctx, scope, scalar, self._states)) if self._states else None
            found = run(alone(ctx, scope, scalar)) if found is None else found
            v = ordered(run(self._compiler.value(scalar, scope)) if found is None else found, tuple(domain))
            node = whole(ctx, scope, v, scope.order, dtype_of(scalar))
            if forced:
                node = apply("_stored", node)
            if node != Name(name):
                block.give(node, name)
        block.eliminate_dead_assignments(name)
        return held, [*ctx.before.statements, *block.statements]

    def _fused(self, step: FusedSums) -> None:
        """Sums, each of the elements of an array, in one pass."""
        ctx = self._ctx
        sums = ctx.names.fresh_local("sums")
        terms = [ctx.held[y, ()].name for _, y in step.pairs]
        self._body.statements.append(Blank())
        self._body.assign(sums, apply("_sums", *map(Name, terms)))
        conditions = Required(self._required)
        for k, ((x, _), e) in enumerate(zip(step.pairs, step.values, strict=True)):
            name = ctx.names.fresh_global(x.name)
            self._body.assign(name, Item(Name(sums), k))
            ctx.held[x, ()] = Held(name, (), required=run(conditions.of(e)))
            self._explained.append(partial(_fused, name, e, len(step.pairs) - 1))
        ctx.end_statement()

    def _required(self, read: Expr) -> Conditions:
        """The conditions without which an element that is read is zero."""
        key, at = read_by(read)
        held = self._ctx.held[key]
        return at_places(held.required, len(held.shape), at)

    def _cut_rows(self, rows: Affine) -> None:
        """Assign the bounds of the blocks into which `rows` rows are cut, unless they are there."""
        ctx = self._ctx
        if rows not in ctx.rows:
            ctx.rows[rows] = ctx.names.fresh_global("rows")
            work = tuple(dict.fromkeys(ctx.integers.volume(extents) for extents in self._cut_work.get(rows, ())))
            most = apply("greatest", *work) if len(work) > 1 else work[0] if work else integer(1)
            self._body.assign(ctx.rows[rows], apply("_cut_rows", ctx.integers.node(rows), most))

    def _outputs(self, e: Expr, indices: frozenset[int], called: Sequence[str], place: Iterator[int]) -> Deep[Any]:
        """The names of the results, in pairs as the program gives them; each takes the next `place`."""
        if isinstance(e, MakePair):
            first = yield from call(self._outputs(e.first, indices, called, place))
            return first, (yield from call(self._outputs(e.second, indices, called, place)))
        if isinstance(struct_of_arrays(e.type), Pair):
            if not isinstance(e, Var | Proj):
                raise NormalFormError("pairs may only be around outputs and in parameters")
            first = yield from call(self._outputs(Proj(0, e), indices, called, place))
            return first, (yield from call(self._outputs(Proj(1, e), indices, called, place)))
        k = next(place)
        if k in indices:
            array, axes = elements_of(e)
            name = self._ctx.held[array, ()].name
            if axes == tuple(sorted(axes)):
                return name
            turned = self._ctx.names.fresh_global(array.name)  # as the program has it
            self._body.assign(turned, Transpose(Name(name), axes))
            return turned
        if isinstance(e, Var | Proj):
            return self._ctx.held_by(e)[0].name
        return self._statement(called[k] if called else "result", e).name


def _unpacked(ctx: Context, points: RelationPoints) -> list[Statement]:
    """The names of the points' columns and orders, and how many points there are."""
    names = (*(column.name for column in points.columns), *points.orders.values())
    count = ctx.integers.spelled[points.size]
    return [Assign(names, Name(points.name), True), Assign((count,), Length(Name(names[0]), 0))]


def _names_in(results: Any) -> Iterator[str]:
    """The names of results in tuples."""
    if isinstance(results, str):
        yield results
    else:
        for part in results:
            yield from _names_in(part)


def _explained(
    name: str, e: Expr, storage: Storage, forced: bool, in_place: bool, decisions: tuple[Decision, ...]
) -> Explained:
    axes = [i.name for i, _ in eta(e)[0]]
    order = f", its axes in the order ({', '.join(axes)})" if len(axes) > 1 else ""
    lies = f"{storage}{order}" if axes else "a number"
    kept = "written to memory, since several read it" if forced else "XLA may fuse it with what reads it"
    kept = "what changes is written into the state" if in_place else kept
    return Explained(name, lambda: _comment(e, name), lies, kept if axes else "", decisions)


def _fused(name: str, e: Expr, others: int, new: Mapping[str, str]) -> Explained:
    name = new.get(name, name)
    return Explained(name, lambda: _comment(e, name), "a number", f"added up in one pass with {others} others")


def _comment(e: Expr, name: str) -> str:
    """The statement as it was written, unless it is long."""
    text = expr_text(e) if _is_small(e) else "..."
    text = f"{name} = {' '.join(text.split())} : {e.type}"
    if not text.isprintable():
        text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= _LONG_COMMENT else text[: _LONG_COMMENT - 3] + "..."


def _is_small(e: Expr) -> bool:
    """Whether `e` written out as a tree has few nodes."""
    stack, count = [e], 0
    while stack and count <= _LARGE:
        stack += children(stack.pop())
        count += 1
    return count <= _LARGE
