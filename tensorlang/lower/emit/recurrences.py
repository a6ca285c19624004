"""The source of a program with recurrences: functions for its stages and steps, and one that calls them in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Protocol

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
from tensorlang.lower.plan.recurrences import Called, Stage, Staged, Turn, staged
from tensorlang.lower.plan.windows import WINDOW
from tensorlang.normal.recurrences import has_recurrences
from tensorlang.simplify import simplify
from tensorlang.surface.inline import opened


def source(
    f: Function, sparse: Iterable[Relation] = (), exact: bool = False, strict: bool = False, store: str = "needed"
) -> Source | Recurrent:
    """The source of `f`, a simplified program, whose recurrences keep of their steps what `store` says. Routines that
    are programs are parts of it."""
    plain = opened(f)
    f = f if plain is f else simplify(plain)
    return Recurrent(f, exact, strict, store) if has_recurrences(f) else Source(f, tuple(sparse), exact, strict)


def _listed(names: Sequence[str]) -> str:
    """The names as they are in a tuple."""
    return "".join(f"{name}, " for name in names)


class Made(Protocol):
    """The source of a part: its name, and the sizes that it takes by keyword."""

    name: str
    told: dict[Size, str]


class Recurrent:
    """The generated source of a program with recurrences, as `Source` is; relations come as masks."""

    is_recurrent = True

    def __init__(
        self,
        f: Function,
        exact: bool = False,
        strict: bool = False,
        store: str = "needed",
        names: Names | None = None,
        parts: Staged | None = None,
    ) -> None:
        self._names = names or Names(frozenset(HELPERS))
        self.name = self._names.fresh_global(f.name)
        self.orders: dict[Relation, tuple[tuple[int, ...], ...]] = {}
        self._exact, self._strict, self._store = exact, strict, store
        self._kept: dict[Var, tuple[str, int, int]] = {}
        self._function = f
        self._spelled: dict[Any, str] = {p: self._names.fresh_global(p.name) for p in f.params}
        self._lines: list[str] = []
        self.helpers: dict[str, None] = {}
        self.definitions: list[tuple[str, str]] = []
        self.explained: list[Explained] = []
        self.told = self._sizes()
        # what is in a step is small: less is gained by windows than lost
        for part in (parts or staged(f, windows=names is None)).parts:
            match part:
                case Stage():
                    self._stage(part)
                case Turn():
                    self._turn(part)
                case Called():
                    self._routine(part)
        told = f", *, {', '.join(self._options())}" if self._options() else ""
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
        return self.text_with(())

    def text_with(self, definitions: Sequence[str], names: Iterable[str] = ()) -> str:
        """The text with further functions, which read those names, of helpers and modules."""
        own = [code for _, code in self.definitions]
        return assembled([*own, *definitions], [*self.helpers, *names], self._table)

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
        self._numbers(arrays)
        return {s: names[s] for s in f.sizes if s not in known}

    def _options(self) -> tuple[str, ...]:
        """What the function takes by keyword."""
        return tuple(self.told.values())

    def _numbers(self, arrays: Sequence[str]) -> None:
        """Say which dtype these have together."""
        self._lines.append(f"dtype = jnp.result_type({', '.join(['float', *arrays])})")

    def _integer(self, a: Affine) -> str:
        return affine(a, {s: self._spelled[s] for s in a.sizes})

    def _staged(self, stage: Stage) -> Made:
        """The source of a stage, whose definitions are listed."""
        return self._made(stage.function)

    def _made(self, f: Function) -> Source | Recurrent:
        """The source of a part, whose definitions are listed."""
        name = self._names.fresh_global(f.name)
        called = Function(name, f.params, f.body, f.results, f.further)
        made: Source | Recurrent
        if has_recurrences(f):
            made = Recurrent(called, self._exact, self._strict, self._store, Names(frozenset(HELPERS)))
            self.definitions += made.definitions
        else:
            made = Source(called, (), self._exact, self._strict)
            self.definitions.append((made.runnable_definition, made.definition))
            self.explained += made.program.explained
        self.helpers.update(dict.fromkeys(made.helpers))
        return made

    def _call(self, made: Made, arguments: Sequence[str]) -> str:
        told = [f"{name}={self._spelled[size]}" for size, name in made.told.items()]
        return f"{made.name}({', '.join([*arguments, *told])})"

    def _stage(self, stage: Stage) -> None:
        made = self._staged(stage)
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
        slices = [self._names.fresh_local(v.name) for v in turn.local]
        swept = bool(turn.local) or turn.rest is not None
        keeps = self._store != "needed" and bool(turn.again)
        stored = turn.stored if keeps else turn.stored | turn.again
        read = self._values(turn, stored, keeps)
        given = [following[k] if word == "scan" else states[k] for k, word in read]
        arguments = [*(self._spelled[v] for v in turn.frees), *slices]
        own = [states[k] if k in turn.carried else self._spelled[turn.inits[k]] for k in range(count)]
        call = self._call(made, [*arguments, *own, time, *(self._spelled[p] for p in turn.others)])
        if turn.until:
            following.append(self._names.fresh_local("done"))
            given = [following[-1]]
        carried = "".join(f"{states[k]}, " for k in turn.carried)
        nexts = "".join(f"{following[k]}, " for k in turn.carried)
        self._lines += [
            "",
            f"def {step}({held}, {time}):",
            *([f"    ({carried}) = {held}"] if turn.carried else []),
            *([f"    {time}, ({_listed(slices)}) = {time}"] if turn.local else []),
            f"    {', '.join(following)} = {call}",
            f"    return ({nexts}), ({_listed(given)})",
            "",
        ]
        self._names.end_statement()
        first = "".join(f"{self._spelled[turn.inits[k]]}, " for k in turn.carried)
        size = self._integer(turn.size)
        last = self._names.fresh_global("last")
        arrays: dict[tuple[int, str], str] = {}
        if keeps:
            # what is stored besides has a run of its own
            kept = self._names.fresh_global("kept")
            self.helpers["_keep"] = None
            self._lines.append(f'{last}, {kept} = _keep("{self._store}", {step}, ({first}), {size}, dtype)')
            again = [(k, word) for v, k, word in turn.gives if v in turn.again]
            self._kept.update(
                {v: (kept, read.index((k, word)), len(read)) for v, k, word in turn.gives if v in turn.again}
            )
            if turn.rest is not None or (
                set(read) - set(again) and turn.stored & {v for v, _, w in turn.gives if w != "fold"}
            ):
                last = self._names.fresh_global("last")
                arrays = self._run(turn, step, read, stored, last, first, size, swept)
        else:
            arrays = self._run(turn, step, read, stored, last, first, size, swept)
        for v, place, word in turn.gives:
            if v not in stored:
                continue
            init = self._spelled[turn.inits[place]]
            if word == "fold":
                code = f"{last}[{turn.carried.index(place)}]"
            elif (place, word) in arrays:
                code = arrays[place, word]
            else:
                helper = "_before" if word == "prescan" else "_all_states"
                self.helpers[helper] = None
                code = f"{helper}({init}, {arrays[place, 'scan']})"
            self._lines.append(f"{self._named(v)} = {code}")
        how = f"{len(turn.carried)} of {count} states are carried, "
        if keeps:
            how += {"states": "all of them kept", "sqrt": "kept at the start of each window of times"}.get(
                self._store, "kept at halves of the time"
            )
            how += f", and {len(turn.again)} values of each step computed again"
        else:
            how += f"{len(arrays)} values stored at each step"
        if turn.rest is not None and turn.rest.sums:
            how += "; sums over the time are added up window by window"
        self.explained.append(
            Explained(
                turn.step.name,
                f"{turn.step.name}: {turn.size} steps",
                how,
                "",
                computed="one step after the other, by " + ("lax.while_loop" if turn.until else "lax.scan"),
            )
        )

    def _values(self, turn: Turn, stored: frozenset[Var], keeps: bool) -> list[tuple[int, str]]:
        """What steps give of their states, by place: after the step, a "scan", or before it, a "prescan"."""
        words: dict[int, set[str]] = {}
        windows = turn.rest.windows if turn.rest is not None else {}
        for v, place, word in turn.gives:
            if v in stored or v in windows or (keeps and v in turn.again):
                words.setdefault(place, set()).add(word)
        in_windows = {(place, word) for v, place, word in turn.gives if v in windows or (keeps and v in turn.again)}
        after = [k for k in words if words[k] & {"scan", "states"}]
        # those before are a copy of those after the steps, where these are there together
        copied = {place for v, place, word in turn.gives if v in stored and word in ("scan", "states")}
        before = [k for k in words if "prescan" in words[k] and (k not in copied or (k, "prescan") in in_windows)]
        return [*((k, "scan") for k in after), *((k, "prescan") for k in before)]

    def _run(
        self,
        turn: Turn,
        step: str,
        read: list[tuple[int, str]],
        stored: frozenset[Var],
        last: str,
        first: str,
        size: str,
        swept: bool,
    ) -> dict[tuple[int, str], str]:
        """Run the recurrence; gives the arrays of what its steps give."""
        if not swept:
            if turn.until:
                self._lines.append(f"{last} = _recur_until({step}, ({first}), {size}, dtype)")
                self.helpers["_recur_until"] = None
                return {}
            each = self._names.fresh_global("each")
            self._lines.append(f"{last}, {each} = _recur({step}, ({first}), {size}, dtype)")
            self.helpers["_recur"] = None
            return {key: f"{each}[{k}]" for k, key in enumerate(read)}
        whole = [v for v in turn.reads if v not in self._kept]
        groups: dict[str, dict[int, Var]] = {}
        lengths: dict[str, int] = {}
        for v in turn.reads:
            if v in self._kept:
                group, place, count = self._kept[v]
                groups.setdefault(group, {})[place] = v
                lengths[group] = count
        # windows of what is read, by name
        spelled = {v: self._names.fresh_local(v.name) for v in turn.reads}
        unpacked = f"({_listed([spelled[v] for v in whole])}), ("
        for group, at in groups.items():
            unpacked += f"({_listed([spelled[at[k]] if k in at else '_' for k in range(lengths[group])])}), "
        unpacked += ")"
        pick, rest = (self._names.fresh_global(f"{step}_{name}") for name in ("slices", "rest"))
        start, length, given, each = (self._names.fresh_local(name) for name in ("start", "length", "read", "each"))
        wanted = [
            key
            for key in read
            if any(
                (p, w) == key
                or (p == key[0] and w == "states" and key[1] == "scan")
                or (p == key[0] and w == "prescan" and (p, "prescan") not in read)
                for v, p, w in turn.gives
                if v in stored
            )
        ]
        if turn.local:
            picked = _listed([spelled[v] for v in turn.local])
            lines = [f"def {pick}({given}):", f"    {unpacked} = {given}", f"    return ({picked})"]
            self._lines += ["", *lines, ""]
        else:
            pick = "None"
        values = [self._names.fresh_local(f"e{k}") for k in range(len(read))]
        lines = [f"{unpacked} = {given}", f"({_listed(values)}) = {each}"]
        sums: list[str] = []
        rows: list[str] = []
        if turn.rest is not None:
            made = self._made(turn.rest.function)
            own = {v: values[read.index((p, w))] for v, p, w in turn.gives if (p, w) in read}
            inside = {v: own[w] if w in own else spelled[w] for w, v in turn.rest.windows.items()}
            names = {**self._spelled, **inside, turn.rest.start: start, WINDOW: length}
            arguments = [names[p] for p in turn.rest.function.params]
            told = [f"{name}={names[a]}" for a, name in made.told.items()]
            found = [self._names.fresh_local(v.name) for v in (*turn.rest.sums, *turn.rest.rows)]
            lines.append(f"{', '.join(found)} = {made.name}({', '.join([*arguments, *told])})")
            sums = found[: len(turn.rest.sums)]
            for name, along in zip(found[len(sums) :], turn.rest.along, strict=True):
                rows.append(f"jnp.moveaxis({name}, {along.axis}, 0)" if along.axis else name)
        rows += [values[read.index(key)] for key in wanted]
        self._lines += [f"def {rest}({start}, {length}, {given}, {each}):", *(f"    {line}" for line in lines)]
        self._lines += [f"    return ({_listed(sums)}), ({_listed(rows)})", ""]
        self._names.end_statement()
        added, listed = self._names.fresh_global("sums"), self._names.fresh_global("rows")
        arrays = "".join(f"{self._spelled[v]}, " for v in whole)
        kept = "".join(f"{group}, " for group in groups)
        self.helpers["_sweep"] = None
        self._lines.append(
            f"{last}, {added}, {listed} = _sweep({step}, {rest}, {pick}, ({first}), ({arrays}), ({kept}), {size}, "
            f"{turn.turned}, dtype)"
        )
        count = 0
        if turn.rest is not None:
            for k, v in enumerate(turn.rest.sums):
                self._lines.append(f"{self._named(v)} = {added}[{k}]")
            for v, along in zip(turn.rest.rows, turn.rest.along, strict=True):
                code = f"{listed}[{count}]" + ("[::-1]" if along.turned else "")
                self._lines.append(
                    f"{self._named(v)} = " + (f"jnp.moveaxis({code}, 0, {along.axis})" if along.axis else code)
                )
                count += 1
        turn_back = "[::-1]" if turn.turned else ""
        return {key: f"{listed}[{k}]{turn_back}" for k, key in enumerate(wanted, count)}

    def _named(self, v: Var) -> str:
        if v not in self._spelled:
            self._spelled[v] = self._names.fresh_global(v.name)
        return self._spelled[v]
