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
from tensorlang.lowering import costs
from tensorlang.lowering.arrays.cost import ArrayCost, Repeated, storing, work_of
from tensorlang.lowering.arrays.integers import StaticIntegers
from tensorlang.lowering.arrays.ir import Block, Define, Item, Name, Node, Slice, Subscript, Text, Tuple
from tensorlang.lowering.arrays.names import Names
from tensorlang.lowering.arrays.points import Order
from tensorlang.lowering.arrays.signature import signature
from tensorlang.lowering.arrays.values import apply, integer, tuple_of
from tensorlang.lowering.arrays.work import BYTES, IN_SINGLE, Work
from tensorlang.lowering.emit.helpers import HELPERS
from tensorlang.lowering.emit.module import IMPORTS, Source, assembled, source_of
from tensorlang.lowering.emit.python import lines, modules_in
from tensorlang.lowering.explain import Explained
from tensorlang.lowering.plan.recurrences import staged
from tensorlang.lowering.plan.stages import Called, Rest, Stage, Staged, Turn
from tensorlang.lowering.plan.windows import WINDOW
from tensorlang.normal.recurrences import has_recurrences
from tensorlang.simplification import simplify
from tensorlang.surface.inline import opened

Given = tuple[int, str]
"""An output of a step: the state in which place, after the step, a "scan", or before it, a "prescan"."""

Repeat = Callable[[Repeated], Repeated]
"""How often the work of a part is done."""

DTYPE, NONE = Name("dtype"), Name("None")


def once(work: Repeated) -> Repeated:
    """What is not repeated."""
    return work


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


class PartSource(Protocol):
    """The source of a part: its name, the sizes that it takes by keyword, and the orders in which it takes points."""

    name: str
    told: dict[Size, str]
    orders: dict[Relation, tuple[Order, ...]]


class Costed(Protocol):
    """A part of which it is known what it takes."""

    @property
    def cost(self) -> ArrayCost:
        """What it takes for all sizes."""


class Recurrent:
    """The generated source of a program with recurrences, as `Source` is."""

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
    ) -> None:
        self._integers = StaticIntegers(names or Names(frozenset({*HELPERS, *IMPORTS})))
        self._names = self._integers.names
        self.name = self._names.fresh_global(f.name)
        self._sparse = sparse
        self.orders: dict[Relation, tuple[Order, ...]] = {p: () for p in sparse if p in f.params}
        self._exact, self._strict, self._store = exact, strict, store
        self._in_step = names is not None
        self._kept: dict[Var, tuple[str, int, int]] = {}
        self._function = f
        self._body = Block()
        self.helpers: dict[str, None] = {}
        self.definitions: list[tuple[str, str]] = []
        self.explained: list[Explained] = []
        self.not_counted: dict[str, None] = {}
        """What `cost` leaves out, in words."""
        self._parts: list[tuple[Costed | Work, Repeat]] = []
        signed = signature(f, self._integers, self._body, list(self.orders), single=self.is_single)
        self.told = signed.told
        self._spelled: dict[Parameter, str] = dict(signed.parameters)
        self._sizes = {size: self._integers.spelled[size] for size in f.sizes}
        # steps are small, so that windows cost more than they gain, and they read values that need not be finite
        inside = self._in_step
        for part in (parts or staged(f, windows=not inside, strict=strict or inside, store=store)).parts:
            match part:
                case Stage():
                    self._stage(part)
                case Turn():
                    self._turn(part)
                case Called():
                    self.not_counted["What functions of arrays from outside take is not counted."] = None
                    self._routine(part)
        options = ("*", *self._options()) if self._options() else ()
        self._define(Define(self.name, (*signed.parameters.values(), *options), self._body))
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
        """The text with further functions, which read the helpers and modules `names`."""
        own = [code for _, code in self.definitions]
        return assembled([*own, *definitions], [*self.helpers, *names], self._table)

    def _options(self) -> tuple[str, ...]:
        """What the function takes by keyword."""
        return tuple(self.told.values())

    def _define(self, definition: Define) -> None:
        """List a function."""
        block = Block([definition])
        self.definitions.append(("\n".join(lines(block, notes=False)), "\n".join(lines(block))))
        self.helpers.update(dict.fromkeys(sorted(modules_in(block))))

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
                    yield repeat(Repeated(made))
                case Source() if self.is_single:
                    yield repeat(Repeated(work_of(made.function, made.program, IN_SINGLE)))
                case _:
                    yield from map(repeat, made.cost.parts)

    def _staged(self, stage: Stage) -> PartSource:
        """The source of a stage, whose definitions are listed."""
        return self._made(stage.function, self._in_step, indices=stage.indices)

    def _made(
        self, f: Function, in_step: bool = False, repeat: Repeat = once, indices: frozenset[int] = frozenset()
    ) -> Source | Recurrent:
        """The source of a part, whose definitions are listed, and whose work is repeated."""
        name = self._names.fresh_global(f.name)
        called = Function(name, f.params, f.body, f.results, f.further)
        made: Source | Recurrent
        if has_recurrences(f):
            own = Names(frozenset({*HELPERS, *IMPORTS}))
            made = Recurrent(called, self._sparse, self._exact, self._strict, self._store, own)
            self.definitions += made.definitions
            self.not_counted.update(made.not_counted)
        else:
            sparse = [p for p in called.params if p in self.orders]
            made = source_of(called, sparse, self._exact, self._strict, in_step, indices)
            self.definitions.append((made.runnable_definition, made.definition))
            self.explained += made.program.explained
        self.helpers.update(dict.fromkeys(made.helpers))
        self._parts.append((made, repeat))
        return made

    def _call(self, made: PartSource, arguments: Sequence[Node]) -> Node:
        return apply(made.name, *arguments, **{name: Name(self._sizes[size]) for size, name in made.told.items()})

    def _values(self, several: Iterable[Parameter], made: PartSource | None = None) -> list[Node]:
        """The values of parameters, as arguments of the part that is `made`."""
        return [self._value(p, self._spelled[p], made) for p in several]

    def _value(self, p: Parameter, name: str, made: PartSource | None) -> Node:
        """The value of that name, of a relation its points in the orders that the part takes."""
        if made is None or not isinstance(p, Relation) or p not in self.orders:
            return Name(name)
        self.orders[p] += tuple(order for order in made.orders[p] if order not in self.orders[p])
        count = len(p.sizes)
        places = [*range(count), *(count + self.orders[p].index(order) for order in made.orders[p])]
        return tuple_of(Item(Name(name), k) for k in places)

    def _named(self, v: Var | IndexArray) -> str:
        if v not in self._spelled:
            self._spelled[v] = self._names.fresh_global(v.name)
        return self._spelled[v]

    def _stage(self, stage: Stage) -> None:
        made = self._staged(stage)
        called = self._call(made, self._values(stage.function.params, made))
        if not stage.gives:
            self._body.give(called)
        else:
            _assign(self._body, [self._named(v) for v in stage.gives], called)

    def _routine(self, call: Called) -> None:
        """`y = _called("key", (x0, ..), in_axes, batch, dtype)`"""
        made = self._names.fresh_global(f"{call.routine.name}_value")
        arguments = tuple_of(self._values(call.arguments))
        axes = tuple_of(integer(0) if along else NONE for along in call.mapped)
        self._body.assign(made, apply("_called", Text(call.routine.key), arguments, axes, integer(call.batch), DTYPE))
        for v, place in call.gives:
            self._body.assign(self._named(v), Item(Name(made), place))
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
        keeps = self._store != "needed" and bool(turn.again)
        stored = turn.stored if keeps else turn.stored | turn.again
        read = _given(turn, stored, keeps)
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
        self.explained.append(self._explained(turn, keeps, len(arrays)))

    def _step(self, turn: Turn, read: Sequence[Given]) -> str:
        """Define the function of the carried states and the time that returns the next ones and what is `read`; return
        its name."""
        made = self._made(turn.step, True, lambda work: work.again(turn.size))
        count = len(turn.inits)
        states = [self._names.fresh_local(f"s{k}") for k in range(count)]
        following = [self._names.fresh_local(f"n{k}") for k in range(count)]
        step = self._names.fresh_global(f"{turn.step.name}_all")
        held, time = self._names.fresh_local("states"), self._names.fresh_local("t")
        slices = [self._names.fresh_local(v.name) for v in turn.local]
        given = [following[k] if word == "scan" else states[k] for k, word in read]
        own = [states[k] if k in turn.carried else self._spelled[turn.inits[k]] for k in range(count)]
        if turn.until:
            following.append(self._names.fresh_local("done"))
            given = [following[-1]]
        body = Block()
        if turn.carried:
            body.unpack([states[k] for k in turn.carried], Name(held))
        if turn.local:
            now = self._names.fresh_local("now")
            body.unpack([time, now], Name(time))
            body.unpack(slices, Name(now))
        arguments = [*self._values(turn.frees), *map(Name, [*slices, *own, time]), *self._values(turn.others, made)]
        _assign(body, following, self._call(made, arguments))
        body.give(tuple_of((names_of(following[k] for k in turn.carried), names_of(given))))
        self._body.blank()
        self._body.statements.append(Define(step, (held, time), body))
        self._body.blank()
        self._names.end_statement()
        return step

    def _explained(self, turn: Turn, keeps: bool, count: int) -> Explained:
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
        return Explained(turn.step.name, f"{turn.step.name}: {turn.size} steps", how, "", computed=by)

    def _run(
        self, turn: Turn, step: str, read: list[Given], stored: frozenset[Var], last: str, first: Node
    ) -> dict[Given, Node]:
        """Run the recurrence; return the arrays of the outputs of its steps."""
        if turn.local or turn.rest is not None:
            return self._sweep(turn, step, read, stored, last, first)
        if turn.until:
            self._body.assign(last, apply("_recur_until", *self._steps(turn, step, first)))
            return {}
        each = self._names.fresh_global("each")
        self._body.unpack([last, each], apply("_recur", *self._steps(turn, step, first)))
        return {key: Item(Name(each), k) for k, key in enumerate(read)}

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
        # windows of the sequences that are read, by name
        spelled = {v: self._names.fresh_local(v.name) for v in turn.reads}
        start, length, given, each = (self._names.fresh_local(name) for name in ("start", "length", "read", "each"))
        windows, again = self._names.fresh_local("windows"), self._names.fresh_local("again")

        def taken_apart() -> Block:
            """The windows by name: of stored sequences, and of sequences computed again."""
            body = Block()
            if spelled:
                body.unpack([windows, again], Name(given))
            if whole:
                body.unpack([spelled[v] for v in whole], Name(windows))
            for k, (group, at) in enumerate(groups.items()):
                body.unpack([spelled[at[j]] if j in at else "_" for j in range(lengths[group])], Item(Name(again), k))
            return body

        pick: Node = NONE
        if turn.local:
            slices = self._names.fresh_global(f"{step}_slices")
            body = taken_apart()
            body.give(names_of(spelled[v] for v in turn.local))
            self._body.statements.append(Define(slices, (given,), body))
            self._body.blank()
            pick = Name(slices)
        rest = self._names.fresh_global(f"{step}_rest")
        values = [self._names.fresh_local(f"e{k}") for k in range(len(read))]
        body = taken_apart()
        if values:
            body.unpack(values, Name(each))
        sums: list[Node] = []
        rows: list[Node] = []
        if turn.rest is not None:
            own = {v: values[read.index((p, w))] for v, p, w in turn.gives if (p, w) in read}
            inside: dict[Parameter, str] = {v: own[w] if w in own else spelled[w] for w, v in turn.rest.windows.items()}
            sums, rows = self._window(turn, turn.rest, body, {**inside, turn.rest.start: start}, length)
        wanted = [key for key in read if any(_makes(p, w, key, read) for v, p, w in turn.gives if v in stored)]
        rows += [Name(values[read.index(key)]) for key in wanted]
        body.give(tuple_of((tuple_of(sums), tuple_of(rows))))
        self._body.statements.append(Define(rest, (start, length, given, each), body))
        self._body.blank()
        self._names.end_statement()
        added, listed = self._names.fresh_global("sums"), self._names.fresh_global("rows")
        arrays, kept = tuple_of(self._values(whole)), names_of(groups)
        turned = Name(str(turn.turned))
        size = self._integers.node(turn.size)
        run = apply("_sweep", Name(step), Name(rest), pick, first, arrays, kept, size, turned, DTYPE)
        self._body.unpack([last, added, listed], run)
        count = 0
        if turn.rest is not None:
            for k, v in enumerate(turn.rest.sums):
                self._body.assign(self._named(v), Item(Name(added), k))
            count = len(turn.rest.rows)
            for k, (v, along) in enumerate(zip(turn.rest.rows, turn.rest.along, strict=True)):
                row = _turned(Item(Name(listed), k), along.turned)
                self._body.assign(self._named(v), _moved(row, 0, along.axis))
        return {key: _turned(Item(Name(listed), k), turn.turned) for k, key in enumerate(wanted, count)}

    def _window(
        self, turn: Turn, rest: Rest, body: Block, inside: Mapping[Parameter, str], length: str
    ) -> tuple[list[Node], list[Node]]:
        """Write what is computed in a window of that length; return the sums, and the rows by time."""
        made = self._made(rest.function, False, lambda work: replace(work, window=(WINDOW, turn.size)))
        names = {**self._spelled, **inside}
        sizes = {**self._sizes, WINDOW: length}
        told = {name: Name(sizes[size]) for size, name in made.told.items()}
        found = [self._names.fresh_local(v.name) for v in (*rest.sums, *rest.rows)]
        _assign(body, found, apply(made.name, *(self._value(p, names[p], made) for p in rest.function.params), **told))
        count = len(rest.sums)
        rows = [_moved(Name(x), along.axis, 0) for x, along in zip(found[count:], rest.along, strict=True)]
        return [Name(x) for x in found[:count]], rows


def _assign(body: Block, names: Sequence[str], value: Node) -> None:
    """Assign the results of a function to names: an array to one, a tuple to several."""
    if len(names) == 1:
        body.assign(names[0], value)
    else:
        body.unpack(names, value)


def _given(turn: Turn, stored: frozenset[Var], keeps: bool) -> list[Given]:
    """The outputs of steps that are wanted."""
    words: dict[int, set[str]] = {}
    windows = turn.rest.windows if turn.rest is not None else {}
    for v, place, word in turn.gives:
        if v in stored or v in windows or (keeps and v in turn.again):
            words.setdefault(place, set()).add(word)
    in_windows = {(place, word) for v, place, word in turn.gives if v in windows or (keeps and v in turn.again)}
    after = [k for k in words if words[k] & {"scan", "states"}]
    # states before steps are a copy of those after, where both are stored
    copied = {place for v, place, word in turn.gives if v in stored and word in ("scan", "states")}
    before = [k for k in words if "prescan" in words[k] and (k not in copied or (k, "prescan") in in_windows)]
    return [*((k, "scan") for k in after), *((k, "prescan") for k in before)]


def _makes(place: int, word: str, key: Given, read: Sequence[Given]) -> bool:
    """Whether the array `word` of the state in this place is made of the output `key` of steps."""
    if key[0] != place:
        return False
    return word == key[1] or (word, key[1]) == ("states", "scan") or (word == "prescan" and (place, word) not in read)


def _turned(x: Node, is_turned: bool) -> Node:
    return Subscript(x, (Slice(step=-1),)) if is_turned else x


def _moved(x: Node, axis: int, to: int) -> Node:
    return x if axis == to else apply("jnp.moveaxis", x, integer(axis), integer(to))
