"""The source of a whole function: sizes read off shapes, one piece of code for each statement, and the results.

A function must be simplified: lets outermost, pairs only as projections of parameters and around the outputs, gens
outermost in each right-hand side, and nothing stored beyond its support.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

from tensorlang.errors import NormalFormError
from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Size, atom_affine, constant
from tensorlang.language.arguments import unpack
from tensorlang.language.function import Function
from tensorlang.language.grammar import Bracket, Expr, Gen, Let, MakePair, Proj, Var, access, children
from tensorlang.language.predicates import Related, Relation
from tensorlang.language.show import expr_text
from tensorlang.language.types import Pair, Type, shape, struct_of_arrays
from tensorlang.lower import costs
from tensorlang.lower.assembly import Rolled, rolled
from tensorlang.lower.code import Block, Comment, Value, dtype_of, literal, ordered
from tensorlang.lower.cut import Cut, cut_arrays
from tensorlang.lower.expressions import Compiler, used_twice
from tensorlang.lower.helpers import HELPERS, NEEDS
from tensorlang.lower.integers import ZERO, Integers, Range
from tensorlang.lower.joint import joint_sums
from tensorlang.lower.loops import expanded, extents_product
from tensorlang.lower.names import Names
from tensorlang.lower.numbered import Numbered, numbered
from tensorlang.lower.points import Points
from tensorlang.lower.profile import is_condition
from tensorlang.lower.recomputed import recomputed
from tensorlang.lower.relations import held_on_points, on_points
from tensorlang.lower.required import Required
from tensorlang.lower.rows import in_blocks, joined
from tensorlang.lower.scope import Context, Held, Scope
from tensorlang.lower.sizes import Axis, read_sizes
from tensorlang.lower.stored import stored
from tensorlang.lower.turned import turned
from tensorlang.recursion import Deep, run

_LONG_COMMENT = 100
_LARGE = 60  # nodes beyond which a statement is not written out in its comment

Path = tuple[int, ...]


class Source:
    """The generated source of `f`: its text, the function's name, and the sizes that it must be told.

    The text is that of the function's `definition`, and of the `helpers` that it calls.

    The relations `sparse` come as their points: tuples of index arrays, the points' arguments, and for each of the
    further `orders` which of the points comes when. `exact` keeps to sums of products where a Fourier transform would
    be faster; so does `strict`, by which what brackets hide has no influence, whatever it is.
    """

    def __init__(
        self, f: Function, sparse: Collection[Relation] = (), exact: bool = False, strict: bool = False
    ) -> None:
        names = Names(frozenset(HELPERS))
        self.name = names.lasting(f.name)
        self._compiler = Compiler(Context(names, Integers(names)))
        self._ctx = self._compiler.ctx
        self._ctx.strict = strict
        self._ctx.joined = lambda key: joined(self._ctx, key)
        self._body = Block()
        arguments = self._parameters(f, sparse)
        self.told = self._sizes(f)
        head = len(self._body.parts)
        numbers = numbered(f)
        self._numbers(numbers)
        f = numbers.function
        constants = rolled(f)
        self._constants(constants)
        joint = joint_sums(turned(recomputed(constants.function)))
        f = joint.function
        held = held_on_points(f, sparse)
        to_store, self._cuts = stored(f, held), cut_arrays(f)
        body = f.body
        while isinstance(body, Let):
            if body.var in joint.groups:
                body = self._joint(body, joint.groups[body.var])
                continue
            held_at = held.get(body.var) if isinstance(body.var, Var) else None
            cut = self._cuts.arrays.get(body.var) if isinstance(body.var, Var) else None
            made = self._statement(body.var.name, body.value, held_at, cut, body.var in to_store)
            self._ctx.held[body.var, ()] = made
            if isinstance(body.var, IndexArray):
                self._ranged(body.var)
                if is_condition(body.value):
                    self._ctx.conditions.add(body.var)
            body = body.body
        results = unpack(run(self._outputs(body)), f.results)
        self.orders = {relation: tuple(p.orders) for relation, p in self._ctx.sparse.items()}
        for p in self._ctx.sparse.values():
            self._body.parts[head:head] = _unpacked(self._ctx, p)
        self._body.line(f"return {run(self._tuple(results))}")
        told = ["*", *self.told.values()] if self.told else []
        self._table = costs.exact(costs.load()) if exact or strict else costs.load()
        self._signature = f"def {self.name}({', '.join([*arguments, *told])}):"
        self.helpers = tuple(self._ctx.helpers)
        lines = [self._signature, *self._body.lines(1, told=False)]
        self.runnable = assembled(["\n".join(lines)], self.helpers, self._table)

    @cached_property
    def definition(self) -> str:
        """The function alone, to be read."""
        return "\n".join([self._signature, *self._body.lines(1)])

    @cached_property
    def text(self) -> str:
        """`runnable` with comments."""
        return assembled([self.definition], self.helpers, self._table)

    def _parameters(self, f: Function, sparse: Collection[Relation]) -> list[str]:
        """Name the arrays of each parameter, take pairs apart, and bring all numbers to one dtype."""
        names = {p: self._ctx.names.lasting(p.name) for p in f.params}
        arrays: list[str] = []
        unpacked: list[str] = []
        for p in f.params:
            if p in sparse and isinstance(p, Relation):
                count = Size(f"{p.name} points")
                self._ctx.integers.spelled[count] = self._ctx.names.lasting(f"{p.name}_count")
                self._ctx.sparse[p] = Points.of(self._ctx, p, names[p], atom_affine(count))
            elif isinstance(p, Relation | IndexArray):
                self._ctx.held[p, ()] = Held(names[p], p.sizes)
            else:
                self._parts(p, names[p], arrays, unpacked)
        for line in unpacked:
            self._body.line(line)
        self._body.line(f"dtype = jnp.result_type({', '.join(['float', *arrays])})")
        for name in arrays:
            self._body.line(f"{name} = jnp.asarray({name}, dtype)")
        for p in f.params:
            if isinstance(p, IndexArray) or (isinstance(p, Relation) and p not in sparse):
                dtype = "jnp.int32" if isinstance(p, IndexArray) else "bool"
                self._body.line(f"{names[p]} = jnp.asarray({names[p]}, {dtype})")
        return list(names.values())

    def _parts(self, p: Var, name: str, arrays: list[str], unpacked: list[str]) -> None:
        stack: list[tuple[Path, str, Type]] = [((), name, struct_of_arrays(p.type))]
        while stack:
            path, here, kind = stack.pop()
            if isinstance(kind, Pair):
                first, second = (self._ctx.names.lasting(f"{here}_{k}") for k in range(2))
                unpacked.append(f"{first}, {second} = {here}")
                stack += [((*path, 1), second, kind.second), ((*path, 0), first, kind.first)]
            else:
                arrays.append(here)
                self._ctx.held[p, path] = Held(here, shape(kind)[0])

    def _sizes(self, f: Function) -> dict[Size, str]:
        """Read the sizes off the shapes; gives the names of those that no shape determines."""
        integers = self._ctx.integers
        for size in f.sizes:
            integers.spelled[size] = self._ctx.names.lasting(size.name)
        held = [h for (p, _), h in self._ctx.held.items() if p in f.params]
        axes = [Axis(a, f"{h.name}.shape[{k}]") for h in held for k, a in enumerate(h.shape)]
        known = read_sizes(axes, lambda s: integers.spelled[s])
        for size, code in known.items():
            self._body.line(f"{integers.spelled[size]} = {code}")
        integers.nonnegative += dict.fromkeys(axis.size for axis in axes if len(axis.size.terms) > 1)
        integers.nonnegative += dict.fromkeys(a.size for a in axes if len(a.size.terms) == 1 and a.size.constant < 0)
        return {s: integers.spelled[s] for s in f.sizes if s not in known}

    def _numbers(self, made: Numbered) -> None:
        """The numbers below sizes, and sizes as numbers, that the program reads."""
        ctx = self._ctx
        for size, x in made.below.items():
            name = ctx.names.lasting(x.name)
            ctx.held[x, ()] = Held(name, (size,))
            self._body.line(f"{name} = jnp.arange({ctx.integers.code(size)}, dtype=dtype)")
        for s, x in made.sizes.items():
            name = ctx.names.lasting(x.name)
            ctx.held[x, ()] = Held(name, ())
            self._body.line(f"{name} = jnp.asarray({ctx.integers.code(atom_affine(s))}, dtype)")

    def _constants(self, made: Rolled) -> None:
        """The arrays of constants that the program reads."""
        ctx = self._ctx
        constants: list[tuple[IndexArray | Var, Sequence[int | Fraction]]] = [
            *made.places.items(),
            *made.numbers.items(),
        ]
        for x, values in constants:
            name = ctx.names.lasting(x.name)
            ctx.held[x, ()] = Held(name, (constant(len(values)),))
            kind = "jnp.int32" if isinstance(x, IndexArray) else "dtype"
            self._body.line(f"{name} = jnp.asarray([{', '.join(literal(Fraction(v)).code for v in values)}], {kind})")
        ctx.increasing |= {x for x, at in made.places.items() if all(a < b for a, b in pairwise(at))}

    def _ranged(self, x: IndexArray) -> None:
        """Note whether there is something in the range of what the program chooses, at all sizes."""
        if not self._ctx.integers.is_nonnegative(x.size - 1):
            self._ctx.uncertain.add(x)

    def _statement(
        self, wanted: str, e: Expr, at: Related | None = None, cut: Cut | None = None, to_store: bool = False
    ) -> Held:
        """Code that gives the array of `e`, or of its elements at the points where the relation `at` holds, or the
        blocks into which it is `cut`; `to_store` says that XLA must store it."""
        ctx = self._ctx
        name = ctx.names.lasting(wanted)
        conditions = self._conditions()
        e = run(conditions.guarded(e) if ctx.strict else conditions.unguarded(e))
        needs = run(conditions.of(e))
        held = Held(name, shape(e.type)[0], required=needs)
        self._body.line("")
        self._body.parts.append(Comment(make=partial(_comment, name, e)))
        binders, scalar = eta(e)
        block = Block()
        domain = {i: ctx.integers.range_of(i, n, block) for i, n in binders}
        env: dict[Atom, Affine] = {}
        if at is not None:
            held, domain, env = on_points(ctx, held, at, domain)
        scope = ctx.scope(Scope({}, {}, {}, (), block, block), domain=domain, env=env)
        self._compiler.shared = used_twice(scalar)
        if cut is not None and all(r == Range(ZERO, n) for r, n in zip(domain.values(), held.shape, strict=True)):
            held = replace(held, cut=cut)
            self._cut_rows(domain[cut.row].extent)
            block.line(f"{name} = {run(in_blocks(ctx, scope, scalar, cut, self._whole))}")
        else:
            ctx.target = name
            v = ordered(run(self._compiler.value(scalar, scope)), tuple(domain))
            code = self._whole(v, scope, dtype_of(scalar))
            if to_store:
                code = f"{ctx.helper('_stored')}({code})"
            if code != name:
                block.give(f"{name} = ", code)
        block.without_idle(name)
        self._body.parts += [*ctx.before.parts, *block.parts]
        ctx.end_statement()
        return held

    def _joint(self, body: Expr, group: Sequence[tuple[Var, Var]]) -> Expr:
        """The sums of a group, with which the statements of `body` begin, each of the elements of an array. Gives what
        is left of `body`."""
        ctx = self._ctx
        sums = ctx.names.passing("sums")
        terms = [ctx.held[y, ()].name for _, y in group]
        self._body.line("")
        self._body.line(f"{sums} = {ctx.helper('_sums')}({', '.join(terms)})")
        conditions = self._conditions()
        for k, (x, _) in enumerate(group):
            assert isinstance(body, Let)
            name = ctx.names.lasting(x.name)
            self._body.line(f"{name} = {sums}[{k}]")
            ctx.held[x, ()] = Held(name, (), required=run(conditions.of(body.value)))
            body = body.body
        ctx.end_statement()
        return body

    def _conditions(self) -> Required:
        return Required(lambda read: self._ctx.held[self._ctx.read_by(read)[0]].required)

    def _cut_rows(self, rows: Affine) -> None:
        """The bounds of the blocks into which so many rows are cut, if they aren't there yet."""
        ctx = self._ctx
        if rows not in ctx.rows:
            ctx.rows[rows] = ctx.names.lasting("rows")
            work = dict.fromkeys(extents_product(ctx, extents) for extents in self._cuts.work.get(rows, ()))
            most = f"max({', '.join(work)})" if len(work) > 1 else "".join(work) or "1"
            self._body.line(f"{ctx.rows[rows]} = {ctx.helper('_cut_rows')}({ctx.integers.code(rows)}, {most})")

    def _whole(self, v: Value, scope: Scope, dtype: str = "dtype") -> str:
        """`v` as an array of that dtype, the computation's, with all axes of `scope`."""
        ctx = self._ctx
        if v.weak and not v.axes:
            return f"jnp.full({ctx.extents(scope, scope.order)}, {v.code}, {dtype})"
        code = expanded(ctx, scope, v, scope.order)
        return f"jnp.asarray({code}, {dtype})" if v.weak else code

    def _outputs(self, e: Expr) -> Deep[Any]:
        """The names of the results, in pairs as the program gives them."""
        if isinstance(e, MakePair):
            return (yield self._outputs(e.first)), (yield self._outputs(e.second))
        if isinstance(struct_of_arrays(e.type), Pair):
            if not isinstance(e, Var | Proj):
                raise NormalFormError("pairs may only be around outputs and in parameters")
            return (yield self._outputs(Proj(0, e))), (yield self._outputs(Proj(1, e)))
        if isinstance(e, Var | Proj):
            return self._ctx.held_by(e)[0].name
        return self._statement("result", e).name

    def _tuple(self, tree: Any) -> Deep[str]:
        """A tuple of names as code; a deep one is put together in steps."""
        if isinstance(tree, str):
            return tree
        parts = []
        for part in tree:
            code = yield self._tuple(part)
            parts.append(code)
        code = f"({', '.join(parts)}{',' * (len(parts) == 1)})"
        if len(code) < _LONG_COMMENT:
            return code
        name: str = self._ctx.names.lasting("results")
        self._body.line(f"{name} = {code}")
        return name


def assembled(definitions: Sequence[str], called: Iterable[str], table: dict[str, int]) -> str:
    """A module of these functions, which call those helpers and are written for the costs in `table`."""
    wanted = dict.fromkeys(called)
    for helper in tuple(wanted):
        wanted.update(dict.fromkeys(NEEDS.get(helper, ())))
    helpers = [HELPERS[name].strip("\n") for name in HELPERS if name in wanted]
    text = "\n".join(["\n\n\n".join([*helpers, *definitions]), ""])
    if "COSTS[" in text:
        text = "\n".join([*costs.code(table, text), "", "", text])
    imports = ["import jax"] if "jax." in text else []
    imports += ["import jax.numpy as jnp"]
    imports += ["from jax import lax"] if "lax." in text else []
    metadata = "from jax.experimental.xla_metadata import set_xla_metadata"
    imports += [metadata] if "set_xla_metadata" in text else []
    return "\n".join([*imports, "", "", text])


def eta(e: Expr) -> tuple[list[tuple[Index, Affine]], Expr]:
    """The binders of an array's axes and the scalar under them: an array that is no gen is one of its elements."""
    binders: list[tuple[Index, Affine]] = []
    while isinstance(e, Gen):
        binders.append((e.index, e.size))
        e = e.body
    sizes, _ = shape(e.type)
    further = [(Index(f"k{k}"), n) for k, n in enumerate(sizes)]
    at = [atom_affine(i) for i, _ in further]
    scalar = Bracket(e.pred, access(e.body, *at)) if isinstance(e, Bracket) else access(e, *at)
    return [*binders, *further], scalar


def _unpacked(ctx: Context, points: Points) -> list[str]:
    """The names of the points' columns and orders, and how many points there are."""
    names = [*(column.name for column in points.columns), *points.orders.values()]
    return [
        f"{', '.join(names)}{',' * (len(names) == 1)} = {points.name}",
        f"{ctx.integers.code(points.count)} = {names[0]}.shape[0]",
    ]


def _comment(name: str, e: Expr) -> str:
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
