"""The source of a program with recurrences: functions for its stages and steps, and one that calls them in order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Protocol

from tensorlang.language.affine import IndexArray, Size
from tensorlang.language.function import Function, Parameter
from tensorlang.language.grammar import Var
from tensorlang.language.predicates import Relation
from tensorlang.language.types import shape
from tensorlang.lowering import costs
from tensorlang.lowering.arrays.cost import ArrayCost, Repeated, storing, work_of
from tensorlang.lowering.arrays.integers import StaticIntegers
from tensorlang.lowering.arrays.ir import (
    Block,
    Define,
    Infix,
    Item,
    Lambda,
    Name,
    Node,
    Return,
    Text,
    Tuple,
)
from tensorlang.lowering.arrays.names import Names
from tensorlang.lowering.arrays.points import Order
from tensorlang.lowering.arrays.program import ArrayProgram
from tensorlang.lowering.arrays.rename import inlined
from tensorlang.lowering.arrays.signature import signature
from tensorlang.lowering.arrays.values import apply, integer, tuple_of
from tensorlang.lowering.arrays.work import BYTES, IN_SINGLE, Work
from tensorlang.lowering.emit.helpers import HELPERS
from tensorlang.lowering.emit.module import IMPORTS, Source, WrittenFunction, assembled, source_of
from tensorlang.lowering.emit.turns import (
    Given,
    is_chosen,
    makes,
    outputs_read,
    places_given,
    reversed_if,
    with_axis_at,
)
from tensorlang.lowering.explain import Explained
from tensorlang.lowering.plan.recurrences import staged
from tensorlang.lowering.plan.stages import Called, Rest, Stage, Staged, Turn
from tensorlang.lowering.plan.windows import WINDOW
from tensorlang.normal.recurrences import has_recurrences
from tensorlang.simplification import simplify
from tensorlang.surface.inline import opened

Repeat = Callable[[Repeated], Iterable[Repeated]]
"""How often the work of a part is done."""

DTYPE, NONE = Name("dtype"), Name("None")


def once(work: Repeated) -> Iterable[Repeated]:
    """What is not repeated."""
    return (work,)


def source(
    f: Function, sparse: Iterable[Relation] = (), exact: bool = False, strict: bool = False, store: str = "needed"
) -> Source | Recurrent:
    """The source of `f`, a simplified program, whose recurrences keep of their steps what `store` says. Routines that
    are programs are parts of it."""
    plain = opened(f)
    f = f if plain is f else simplify(plain)
    make = partial(Recurrent, store=store) if has_recurrences(f) else source_of
    return make(f, tuple(sparse), exact, strict)


def names_of(names: Iterable[str]) -> Tuple:
    """The values of these names."""
    return tuple_of(map(Name, names))


class Costed(Protocol):
    """A part of which it is known what it takes."""

    @property
    def cost(self) -> ArrayCost:
        """What it takes for all sizes."""


class Recurrent:
    """The generated source of a program with recurrences, as `Source` is.

    It is one function, whose `definition` has a function for each step and each window of times within it. A program
    that is `in_step` is a step of another one. Its results are `called` so in it.
    """

    takes_masks = False
    """Whether relations come as boolean arrays even if their points are known."""
    is_single = False
    """Whether it computes in single precision."""

    def __init__(
        self,
        f: Function,
        sparse: Collection[Relation] = (),
        exact: bool = False,
        strict: bool = False,
        store: str = "needed",
        names: Names | None = None,
        parts: Staged | None = None,
        in_step: bool = False,
        called: Sequence[str] = (),
    ) -> None:
        self._integers = StaticIntegers(names or Names(frozenset({*HELPERS, *IMPORTS})))
        self._names = self._integers.names
        self.name = self._names.fresh_global(f.name)
        self._sparse = sparse
        self.orders: dict[Relation, tuple[Order, ...]] = {p: () for p in sparse if p in f.params}
        self._exact, self._strict, self._store = exact, strict, store
        self._called = called
        self._kept: dict[Var, tuple[str, int, int]] = {}
        self._function = f
        self._body = Block()
        self._explained: list[Callable[[Mapping[str, str]], Iterable[Explained]]] = []
        self.not_counted: dict[str, None] = {}
        """What `cost` leaves out, in words."""
        self._parts: list[tuple[Costed | Work, Repeat]] = []
        self.signature = signature(f, self._integers, self._body, list(self.orders), single=self.is_single)
        self.head = len(self._body.statements)
        self.told = self.signature.told
        self._spelled: dict[Parameter, str] = dict(self.signature.parameters)
        self._sizes = {size: self._integers.spelled[size] for size in f.sizes}
        self.sizes = {name: size for size, name in self._sizes.items()}
        # steps are small, so that windows cost more than they gain, and they read values that need not be finite
        self._in_step = in_step
        for part in (parts or staged(f, not in_step, strict or in_step, store, in_step)).parts:
            match part:
                case Stage():
                    self._stage(part)
                case Turn():
                    self._turn(part)
                case Called():
                    self.not_counted["What functions of arrays from outside take is not counted."] = None
                    self._routine(part)
        self.head = self._body.eliminate_dead_assignments(None, self.head)
        options = ("*", *self._options()) if self._options() else ()
        self.definition = Define(self.name, (*self.signature.parameters.values(), *options), self._body)
        self._table = costs.exact(costs.load()) if exact or strict else costs.load()

    @cached_property
    def explained(self) -> list[Explained]:
        """How each of its arrays is computed, and each of its recurrences."""
        return self.explained_as({})

    def explained_as(self, names: Mapping[str, str]) -> list[Explained]:
        """The same where arrays have other `names`."""
        return [step for made in self._explained for step in made(names)]

    @cached_property
    def _written(self) -> WrittenFunction:
        return WrittenFunction(self.definition)

    @property
    def helpers(self) -> tuple[str, ...]:
        """The parts of the library, and modules, that it reads."""
        return self._written.helpers

    @cached_property
    def runnable(self) -> str:
        """The Python without comments."""
        return assembled([self._written.runnable], self.helpers, self._table)

    @cached_property
    def text(self) -> str:
        """The Python, with comments."""
        return self.text_with(())

    def text_with(self, definitions: Sequence[str], names: Iterable[str] = ()) -> str:
        """The text with further functions, which read the helpers and modules `names`."""
        return assembled([self._written.text, *definitions], [*self.helpers, *names], self._table)

    def _options(self) -> tuple[str, ...]:
        """What the function takes by keyword."""
        return tuple(self.told.values())

    @cached_property
    def cost(self) -> ArrayCost:
        """What all of it takes, with each step done as often as there are times, and windows of times at once. Routines
        are not counted."""
        counts: dict[Relation, Size] = {}
        for made, _ in self._parts:
            counts.update({} if isinstance(made, Work) else made.cost.counts)
        return ArrayCost(self._function, tuple(self._works()), counts)

    def _works(self) -> Iterator[Repeated]:
        """What its parts take, in order."""
        for made, repeat in self._parts:
            match made:
                case Work():
                    yield from repeat(Repeated(made))
                case Source() if self.is_single:
                    yield from repeat(Repeated(work_of(made.function, made.program, IN_SINGLE)))
                case _:
                    yield from (work for part in made.cost.parts for work in repeat(part))

    def _part(
        self,
        f: Function,
        body: Block,
        fresh: Callable[[str], str],
        called: Sequence[str] = (),
        own: Mapping[Parameter, str] | None = None,
        in_step: bool = False,
        repeat: Repeat = once,
        indices: frozenset[int] = frozenset(),
        window: str | None = None,
    ) -> tuple[Node, ...]:
        """Write a part of the program into `body`, under `fresh` names, and return what it gives, which is `called` so.

        Its parameters are arrays of the program, or `own` ones by name; `window` has the length of a window's times.
        """
        source: Source | Recurrent
        program: ArrayProgram | Recurrent
        if has_recurrences(f):
            reserved = Names(frozenset({*HELPERS, *IMPORTS}))
            source = program = Recurrent(
                f, self._sparse, self._exact, self._strict, self._store, reserved, in_step=True, called=called
            )
            self.not_counted.update(source.not_counted)
        else:
            sparse = [p for p in f.params if p in self.orders]
            source = source_of(f, sparse, self._exact, self._strict, in_step, indices, called)
            program = source.program
        self._parts.append((source, repeat))
        given: dict[str, str] = {}
        for p in f.params:
            if isinstance(p, Relation) and p in self.orders:
                given[program.signature.parameters[p]] = name = fresh(p.name)
                body.assign(name, self._points(p, program.orders[p]))
        for (p, path), name in program.signature.arrays.items():
            if own and p in own:
                given[name] = own[p]
            else:
                given[name] = self.signature.arrays.get((p, path)) or self._spelled[p]
        sizes = self._sizes if window is None else {**self._sizes, WINDOW: window}
        given.update((name, sizes[size]) for name, size in program.sizes.items() if size in sizes)
        made = inlined(program.definition, program.head, given, fresh)
        body.statements += made.statements
        names = made.names
        self._explained.append(lambda new: program.explained_as({x: new.get(y, y) for x, y in names.items()}))
        return made.values

    def _points(self, p: Relation, orders: Sequence[Order]) -> Node:
        """The points of a relation, and their places in these orders, of all that the program is given."""
        self.orders[p] += tuple(order for order in orders if order not in self.orders[p])
        count = len(p.sizes)
        places = [*range(count), *(count + self.orders[p].index(order) for order in orders)]
        return tuple_of(Item(Name(self._spelled[p]), k) for k in places)

    def _values(self, several: Iterable[Parameter]) -> list[Node]:
        return [Name(self._spelled[p]) for p in several]

    def _named(self, v: Var | IndexArray) -> str:
        if v not in self._spelled:
            self._spelled[v] = self._names.fresh_global(v.name)
        return self._spelled[v]

    def _stage(self, stage: Stage) -> None:
        called = [v.name for v in stage.gives] or self._called
        values = self._part(
            stage.function, self._body, self._names.fresh_global, called, in_step=self._in_step, indices=stage.indices
        )
        if not stage.gives:
            self._body.statements.append(Return(values[0] if len(values) == 1 else tuple_of(values)))
            return
        for v, value in zip(stage.gives, values, strict=True):
            if isinstance(value, Name):
                self._spelled[v] = value.name
            else:
                self._body.assign(self._named(v), value)

    def _routine(self, call: Called) -> None:
        """`y = _called("key", (x0, ..), in_axes, batch, dtype)`"""
        made = self._names.fresh_global(f"{call.routine.name}_value")
        arguments = tuple_of(self._values(call.arguments))
        axes = tuple_of(integer(0) if along else NONE for along in call.mapped)
        self._body.assign(made, apply("_called", Text(call.routine.key), arguments, axes, integer(call.batch), DTYPE))
        for v, place in call.gives:
            self._body.assign(self._named(v), Item(Name(made), place))
        explained = Explained(
            call.routine.name,
            f"{call.routine.name}: a function of its own",
            "its adjoint is declared, and so is its cost",
            "",
            computed="by the function that was given",
        )
        self._explained.append(lambda new: [explained])

    def _turn(self, turn: Turn) -> None:
        keeps = self._store != "needed" and bool(turn.again)
        stored = turn.stored if keeps else turn.stored | turn.again
        read = outputs_read(turn, stored, keeps)
        step = self._step(turn, read)
        first = tuple_of(self._values(turn.inits[k] for k in turn.carried))
        last = self._names.fresh_global("last")
        arrays: dict[Given, Node] = {}
        if keeps:
            self.not_counted["Steps that are made again count once."] = None
            # values that are stored, too, take a run of their own
            kept = self._names.fresh_global("kept")
            size = self._integers.node(turn.size)
            self._body.unpack([last, kept], apply("_keep", Text(self._store), Name(step), first, size, DTYPE))
            again = [(k, word) for v, k, word in turn.gives if v in turn.again]
            self._kept.update(
                {v: (kept, read.index((k, word)), len(read)) for v, k, word in turn.gives if v in turn.again}
            )
            if turn.rest is not None or (
                set(read) - set(again) and turn.stored & {v for v, _, w in turn.gives if w != "fold"}
            ):
                last = self._names.fresh_global("last")
                arrays = self._run(turn, step, read, stored, last, first)
        else:
            arrays = self._run(turn, step, read, stored, last, first)
        widths = IN_SINGLE if self.is_single else BYTES
        self._parts.append((storing((v for v, _, word in turn.gives if v in stored and word != "fold"), widths), once))
        for v, place, word in turn.gives:
            if v not in stored:
                continue
            value: Node
            if word == "fold":
                value = Item(Name(last), turn.carried.index(place))
            elif (place, word) in arrays:
                value = arrays[place, word]
            else:
                helper = "_before" if word == "prescan" else "_all_states"
                value = apply(helper, *self._values([turn.inits[place]]), arrays[place, "scan"])
            self._body.assign(self._named(v), value)
            if v in turn.chosen:
                self._spelled[turn.chosen[v]] = self._named(v)
        count = len(arrays)
        self._explained.append(lambda new: [self._explained_turn(turn, new.get(step, step), keeps, count)])

    def _step(self, turn: Turn, read: Sequence[Given]) -> str:
        """Define the function of the carried states and the time that returns the next ones and what is `read`; return
        its name."""
        step = self._names.fresh_global(turn.step.name)
        held = self._names.fresh_local("states")
        params = iter(turn.step.params)
        own: dict[Parameter, str] = {next(params): self._spelled[v] for v in turn.frees}
        own.update({next(params): self._names.fresh_local(v.name) for v in turn.local})
        slices = [own[p] for p in turn.step.params[len(turn.frees) : len(own)]]
        states: list[str] = []
        following = []
        for k, v in enumerate(turn.inits):
            state = next(params)
            own[state] = self._names.fresh_local(state.name) if k in turn.carried else self._spelled[v]
            states.append(own[state])
            following.append(f"{state.name}_next")
        time = next(params)
        own[time] = self._names.fresh_local(time.name)
        body = Block()
        if turn.carried:
            body.unpack([states[k] for k in turn.carried], Name(held))
        following += ["done"] * turn.until
        repeat = lambda work: (part.under(turn.due) for part in work.again(turn.size, time))
        indices = frozenset(place for v, place, _ in turn.gives if v in turn.chosen)
        values = self._part(turn.step, body, self._names.fresh_local, following, own, True, repeat, indices)
        given = [values[k] if word == "scan" else Name(states[k]) for k, word in read]
        if turn.until:
            given = [values[-1]]
        body.statements.append(Return(tuple_of((tuple_of(values[k] for k in turn.carried), tuple_of(given)))))
        self._body.blank()
        self._body.statements.append(Define(step, (held, own[time], *slices), body))
        self._body.blank()
        self._names.end_statement()
        return step

    def _explained_turn(self, turn: Turn, step: str, keeps: bool, count: int) -> Explained:
        how = f"{len(turn.carried)} of {len(turn.inits)} states are carried, "
        if keeps:
            how += {"states": "all of them kept", "sqrt": "kept at the start of each window of times"}.get(
                self._store, "kept at halves of the time"
            )
            how += f", and {len(turn.again)} values of each step computed again"
        else:
            how += f"{count} values stored at each step"
        if turn.rest is not None and turn.rest.sums:
            how += "; sums over the time are added up window by window"
        by = "one step after the other, by " + ("lax.while_loop" if turn.until else "lax.scan")
        return Explained(step, f"{step}: {turn.size} steps", how, "", computed=by)

    def _run(
        self, turn: Turn, step: str, read: list[Given], stored: frozenset[Var], last: str, first: Node
    ) -> dict[Given, Node]:
        """Run the recurrence; return the arrays of the outputs of its steps."""
        if turn.local or turn.rest is not None:
            return self._sweep(turn, step, read, stored, last, first)
        if turn.until:
            self._body.assign(last, self._if_due(turn, apply("_recur_until", *self._steps(turn, step, first))))
            return {}
        each = self._names.fresh_global("each")
        run = apply("_recur", *self._steps(turn, step, first), *places_given(turn, read))
        self._body.unpack([last, each], self._if_due(turn, run))
        return {key: Item(Name(each), k) for k, key in enumerate(read)}

    def _if_due(self, turn: Turn, run: Node) -> Node:
        """What a recurrence gives, which runs only if it is due."""
        if turn.asked is None:
            return run
        return apply("_only_if", Infix(Name(self._spelled[turn.asked]), ">", integer(0)), Lambda((), run))

    def _steps(self, turn: Turn, step: str, first: Node) -> tuple[Node, ...]:
        return Name(step), first, self._integers.node(turn.size), DTYPE

    def _sweep(
        self, turn: Turn, step: str, read: list[Given], stored: frozenset[Var], last: str, first: Node
    ) -> dict[Given, Node]:
        """Run it by windows of its times, with the computations of each window; return arrays as `_run` does."""
        whole = [v for v in turn.reads if v not in self._kept]
        groups: dict[str, dict[int, Var]] = {}
        for v in turn.reads:
            if v in self._kept:
                group, place, _ = self._kept[v]
                groups.setdefault(group, {})[place] = v
        lengths = {self._kept[v][0]: self._kept[v][2] for v in turn.reads if v in self._kept}
        # the sequences that are read: those that are stored, and all that is computed again together with them
        sequences: list[Var | None] = list(whole)
        for group, at in groups.items():
            sequences += [at.get(place) for place in range(lengths[group])]
        local = tuple_of(integer(sequences.index(v)) for v in turn.local)
        rest = self._names.fresh_global(f"{step}_window")
        start, length = self._names.fresh_local("start"), self._names.fresh_local("length")
        windows = [self._names.fresh_local("_" if v is None else v.name) for v in sequences]
        spelled = {v: name for v, name in zip(sequences, windows, strict=True) if v is not None}
        named = {(p, w): v.name for v, p, w in turn.gives}
        values = [self._names.fresh_local(named.get(key, f"given{k}")) for k, key in enumerate(read)]
        body = Block()
        sums: list[Node] = []
        rows: list[Node] = []
        if turn.rest is not None:
            own = {v: values[read.index((p, w))] for v, p, w in turn.gives if (p, w) in read}
            inside: dict[Parameter, str] = {v: own[w] if w in own else spelled[w] for w, v in turn.rest.windows.items()}
            sums, rows = self._window(turn, turn.rest, body, {**inside, turn.rest.start: start}, length)
        wanted = [key for key in read if any(makes(p, w, key, read) for v, p, w in turn.gives if v in stored)]
        rows += [Name(values[read.index(key)]) for key in wanted]
        body.give(tuple_of((tuple_of(sums), tuple_of(rows))))
        self._body.statements.append(Define(rest, (start, length, *windows, *values), body))
        self._body.blank()
        self._names.end_statement()
        added, listed = self._names.fresh_global("sums"), self._names.fresh_global("rows")
        arrays, kept = tuple_of(self._values(whole)), names_of(groups)
        turned = Name(str(turn.turned))
        size = self._integers.node(turn.size)
        given = places_given(turn, read)
        if given:
            count = len(rows) - len(wanted)
            given.append(tuple_of(integer(k) for k, key in enumerate(wanted, count) if is_chosen(turn, key)))
        run = apply("_sweep", Name(step), Name(rest), local, first, arrays, kept, size, turned, DTYPE, *given)
        self._body.unpack([last, added, listed], run)
        count = 0
        if turn.rest is not None:
            for k, v in enumerate(turn.rest.sums):
                self._body.assign(self._named(v), Item(Name(added), k))
            count = len(turn.rest.rows)
            for k, (v, along) in enumerate(zip(turn.rest.rows, turn.rest.along, strict=True)):
                row = reversed_if(Item(Name(listed), k), along.turned)
                self._body.assign(self._named(v), with_axis_at(row, 0, along.axis, len(shape(v.type)[0])))
        return {key: reversed_if(Item(Name(listed), k), turn.turned) for k, key in enumerate(wanted, count)}

    def _window(
        self, turn: Turn, rest: Rest, body: Block, inside: Mapping[Parameter, str], length: str
    ) -> tuple[list[Node], list[Node]]:
        """Write what is computed in a window of that length; return the sums, and the rows by time."""
        called = [v.name for v in (*rest.sums, *rest.rows)]
        repeat = lambda work: (replace(work, window=(WINDOW, turn.size)),)
        fresh = self._names.fresh_local
        found = self._part(rest.function, body, fresh, called, inside, repeat=repeat, window=length)
        count = len(rest.sums)
        rows = [
            with_axis_at(x, along.axis, 0, len(shape(v.type)[0]))
            for x, v, along in zip(found[count:], rest.rows, rest.along, strict=True)
        ]
        return list(found[:count]), rows
