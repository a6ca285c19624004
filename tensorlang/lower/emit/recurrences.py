"""The source of a program with recurrences: functions for its stages and steps, and one that calls them in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

from tensorlang.language.affine import Affine, Size
from tensorlang.language.function import Function
from tensorlang.language.grammar import Var
from tensorlang.language.predicates import Relation
from tensorlang.language.types import Pair, Type, shape, struct_of_arrays
from tensorlang.lower import costs
from tensorlang.lower.arrays.ir import Length, Name
from tensorlang.lower.arrays.names import Names
from tensorlang.lower.arrays.sizes import Axis, infer_sizes
from tensorlang.lower.emit.helpers import HELPERS
from tensorlang.lower.emit.module import Source, assembled
from tensorlang.lower.emit.python import affine, text
from tensorlang.lower.explain import Explained
from tensorlang.lower.plan.recurrences import Called, Stage, Turn, staged
from tensorlang.normal.recurrences import has_recurrences
from tensorlang.simplify import simplify
from tensorlang.surface.inline import opened


def source(
    f: Function, sparse: Iterable[Relation] = (), exact: bool = False, strict: bool = False
) -> Source | Recurrent:
    """The source of `f`, a simplified program. Routines that are programs are parts of it."""
    plain = opened(f)
    f = f if plain is f else simplify(plain)
    return Recurrent(f, exact, strict) if has_recurrences(f) else Source(f, tuple(sparse), exact, strict)


class Recurrent:
    """The generated source of a program with recurrences, as `Source` is; relations come as masks."""

    def __init__(self, f: Function, exact: bool = False, strict: bool = False, names: Names | None = None) -> None:
        self._names = names or Names(frozenset(HELPERS))
        self.name = self._names.fresh_global(f.name)
        self.orders: dict[Relation, tuple[tuple[int, ...], ...]] = {}
        self._exact, self._strict = exact, strict
        self._function = f
        self._spelled: dict[Any, str] = {p: self._names.fresh_global(p.name) for p in f.params}
        self._lines: list[str] = []
        self.helpers: dict[str, None] = {}
        self.definitions: list[tuple[str, str]] = []
        self.explained: list[Explained] = []
        self.told = self._sizes()
        for part in staged(f).parts:
            match part:
                case Stage():
                    self._stage(part)
                case Turn():
                    self._turn(part)
                case Called():
                    self._routine(part)
        told = f", *, {', '.join(self.told.values())}" if self.told else ""
        head = f"def {self.name}({', '.join(self._spelled[p] for p in f.params)}{told}):"
        own = "\n".join([head, *(f"    {line}".rstrip() for line in self._lines)])
        self.definitions.append((own, own))
        self._table = costs.exact(costs.load()) if exact or strict else costs.load()

    @cached_property
    def runnable(self) -> str:
        """The Python without comments."""
        return assembled([code for code, _ in self.definitions], self.helpers, self._table)

    @cached_property
    def text(self) -> str:
        """The Python, with comments."""
        return assembled([code for _, code in self.definitions], self.helpers, self._table)

    def _sizes(self) -> dict[Size, str]:
        """Read the sizes off the shapes; gives the names of those that no shape determines."""
        f = self._function
        names = {size: self._names.fresh_global(size.name) for size in f.sizes}
        self._spelled.update(names)
        axes: list[Axis] = []
        arrays: list[str] = []
        for p in f.params:
            if not isinstance(p, Var):
                own = [p.sizes]
                axes += [Axis(a, Length(Name(self._spelled[p]), k)) for k, a in enumerate(own[0])]
                continue
            stack: list[tuple[str, Type]] = [(self._spelled[p], struct_of_arrays(p.type))]
            while stack:
                name, kind = stack.pop()
                if isinstance(kind, Pair):
                    parts = [self._names.fresh_global(f"{name}_{k}") for k in range(2)]
                    self._lines.append(f"{parts[0]}, {parts[1]} = {name}")
                    stack += [(parts[1], kind.second), (parts[0], kind.first)]
                else:
                    arrays.append(name)
                    axes += [Axis(a, Length(Name(name), k)) for k, a in enumerate(shape(kind)[0])]
        lines = [f"{name} = jnp.asarray({name})" for name in arrays]
        lines += [f"{self._spelled[p]} = jnp.asarray({self._spelled[p]})" for p in f.params if not isinstance(p, Var)]
        known = infer_sizes(axes, lambda s: names[s])
        self._lines += lines
        self._lines += [f"{names[s]} = {text(node)}" for s, node in known.items()]
        self._lines.append(f"dtype = jnp.result_type({', '.join(['float', *arrays])})")
        return {s: names[s] for s in f.sizes if s not in known}

    def _integer(self, a: Affine) -> str:
        return affine(a, {s: self._spelled[s] for s in a.sizes})

    def _made(self, f: Function) -> Source | Recurrent:
        """The source of a part, whose definitions are listed."""
        name = self._names.fresh_global(f.name)
        called = Function(name, f.params, f.body, f.results, f.further)
        made: Source | Recurrent
        if has_recurrences(f):
            made = Recurrent(called, self._exact, self._strict, Names(frozenset(HELPERS)))
            self.definitions += made.definitions
        else:
            made = Source(called, (), self._exact, self._strict)
            self.definitions.append((made.runnable_definition, made.definition))
            self.explained += made.program.explained
        self.helpers.update(dict.fromkeys(made.helpers))
        return made

    def _call(self, made: Source | Recurrent, arguments: Sequence[str]) -> str:
        told = [f"{name}={self._spelled[size]}" for size, name in made.told.items()]
        return f"{made.name}({', '.join([*arguments, *told])})"

    def _stage(self, stage: Stage) -> None:
        made = self._made(stage.function)
        call = self._call(made, [self._spelled[p] for p in stage.function.params])
        if not stage.gives:
            self._lines.append(f"return {call}")
            return
        names = [self._named(v) for v in stage.gives]
        self._lines.append(f"{', '.join(names)} = {call}")

    def _routine(self, call: Called) -> None:
        """`y, = _called("key", (x0, ..), in_axes, batch, dtype)`"""
        self.helpers["_called"] = None
        arguments = "".join(f"{self._spelled[v]}, " for v in call.arguments)
        axes = "".join(f"{0 if along else None}, " for along in call.mapped)
        made = self._names.fresh_global(f"{call.routine.name}_value")
        self._lines.append(f'{made} = _called("{call.routine.key}", ({arguments}), ({axes}), {call.batch}, dtype)')
        for v, place in call.gives:
            self._lines.append(f"{self._named(v)} = {made}[{place}]")
        self.explained.append(
            Explained(
                call.routine.name,
                f"{call.routine.name}: a function of its own",
                "its adjoint is declared, and so is its cost",
                "",
                computed="by the function that was given",
            )
        )

    def _turn(self, turn: Turn) -> None:
        made = self._made(turn.step)
        count = len(turn.inits)
        states = [self._names.fresh_local(f"s{k}") for k in range(count)]
        following = [self._names.fresh_local(f"n{k}") for k in range(count)]
        step = self._names.fresh_global(f"{turn.step.name}_all")
        held, time = self._names.fresh_local("states"), self._names.fresh_local("t")
        words: dict[int, set[str]] = {}
        for _, place, word in turn.gives:
            words.setdefault(place, set()).add(word)
        after = [k for k in range(count) if words.get(k, set()) & {"scan", "states"}]
        before = [k for k in range(count) if "prescan" in words.get(k, set()) and k not in after]
        arguments = [self._spelled[v] for v in turn.frees]
        own = [states[k] if k in turn.carried else self._spelled[turn.inits[k]] for k in range(count)]
        call = self._call(made, [*arguments, *own, time, *(self._spelled[p] for p in turn.others)])
        carried = "".join(f"{states[k]}, " for k in turn.carried)
        nexts = "".join(f"{following[k]}, " for k in turn.carried)
        given = "".join([*(f"{following[k]}, " for k in after), *(f"{states[k]}, " for k in before)])
        self._lines += [
            "",
            f"def {step}({held}, {time}):",
            *([f"    ({carried}) = {held}"] if turn.carried else []),
            f"    {', '.join(following)} = {call}",
            f"    return ({nexts}), ({given})",
            "",
        ]
        self._names.end_statement()
        first = "".join(f"{self._spelled[turn.inits[k]]}, " for k in turn.carried)
        last, each = (self._names.fresh_global(name) for name in ("last", "each"))
        self._lines.append(f"{last}, {each} = _recur({step}, ({first}), {self._integer(turn.size)}, dtype)")
        self.helpers["_recur"] = None
        arrays = {("scan", k): f"{each}[{place}]" for place, k in enumerate(after)}
        arrays |= {("prescan", k): f"{each}[{place}]" for place, k in enumerate(before, len(after))}
        for v, place, word in turn.gives:
            init = self._spelled[turn.inits[place]]
            if word == "fold":
                code = f"{last}[{turn.carried.index(place)}]"
            elif (word, place) in arrays:
                code = arrays[word, place]
            else:
                helper = "_before" if word == "prescan" else "_all_states"
                self.helpers[helper] = None
                code = f"{helper}({init}, {arrays['scan', place]})"
            self._lines.append(f"{self._named(v)} = {code}")
        self.explained.append(
            Explained(
                turn.step.name,
                f"{turn.step.name}: {turn.size} steps",
                f"{len(turn.carried)} of {count} states are carried, {len(after) + len(before)} stored at each step",
                "",
                computed="one step after the other, by lax.scan",
            )
        )

    def _named(self, v: Var) -> str:
        if v not in self._spelled:
            self._spelled[v] = self._names.fresh_global(v.name)
        return self._spelled[v]
