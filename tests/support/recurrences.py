"""Random programs with a recurrence, each with the same program unrolled, made from the same text."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

import tensorlang as tl

Values = dict[str, Any]


@dataclass(frozen=True)
class Recurrent:
    """`text` has a recurrence of T steps, `unrolled` has one let for each of `steps` steps instead."""

    text: str
    unrolled: str
    steps: int
    arguments: Values


PARAMS = "x: [T]R, A: [n][n]R, u: [T][n]R, b: [n]R, c: R, k: [T]idx(n), r: rel(T, n)"


def recurrent(random: Random, steps: int | None = None, n: int | None = None) -> Recurrent:
    """A random program whose states are numbers and vectors."""
    steps = random.choice((0, 1, 2, 3, 4)) if steps is None else steps
    n = random.choice((1, 2, 3)) if n is None else n
    states = random.choice((("number",), ("vector",), ("vector",), ("number", "vector"), ("vector", "vector")))
    names = [f"s{i}" for i in range(len(states))]
    writer = _Writer(random, dict(zip(names, states, strict=True)))
    inits = [random.choice(("c", "0", "1", "b[0]")) if kind == "number" else _vector_init(random) for kind in states]
    nexts = [writer.number(2) if kind == "number" else writer.vector(2) for kind in states]
    word = random.choice(("fold", "fold", "scan", "prescan", "states"))
    backwards = random.random() < 0.3
    bound = ", ".join(f"{name} = {init}" for name, init in zip(names, inits, strict=True))
    body = nexts[0] if len(nexts) == 1 else f"({', '.join(nexts)})"
    body = _named(body, names, "now")
    until = ""
    if states == ("number",) and len(body) % 2:
        until = " until s0 * s0 < 0.25"
        nexts = [f"(if <s0> * <s0> < 0.25 then <s0> else {nexts[0]})"]
    loop = f"{word} {'reversed ' * backwards}now:T with {bound}{until}. {body}"
    text = f"f({PARAMS}) = let h = {loop} in {_outputs(random, word, states, 'h')}"
    return Recurrent(
        _sized(text),
        _unrolled(text, word, backwards, names, inits, nexts, steps, states),
        steps,
        _data(random, steps, n),
    )


def _vector_init(random: Random) -> str:
    return random.choice(("b", "gen i:n. 0", "gen i:n. c * b[i]", "gen i:n. [i = 0] * c"))


def _named(body: str, names: list[str], now: str) -> str:
    for name in names:
        body = body.replace(f"<{name}>", name)
    return body.replace("<t>", now)


def _outputs(random: Random, word: str, states: tuple[str, ...], h: str) -> str:
    """The result: the states, or an expression that reads a part of them."""
    choice = random.random()
    if len(states) == 1 and choice < 0.3 and states[0] == "vector":
        return f"sum i:n. {h}[i] * b[i]" if word == "fold" else f"gen i:n. c * {h}"[:0] + h
    return h


def _unrolled(
    text: str,
    word: str,
    backwards: bool,
    names: list[str],
    inits: list[str],
    nexts: list[str],
    steps: int,
    states: tuple[str, ...],
) -> str:
    head, _, tail = text.partition(" = let h = ")
    result = tail.rsplit(" in ", 1)[1]
    lets = [f"let {name}_0 = {init} in" for name, init in zip(names, inits, strict=True)]
    for t in range(steps):
        now = steps - 1 - t if backwards else t
        for name, step in zip(names, nexts, strict=True):
            e = step.replace("<t>", str(now))
            for other in names:
                e = e.replace(f"<{other}>", f"{other}_{t}")
            lets.append(f"let {name}_{t + 1} = {e} in")
    places = {"fold": [steps], "scan": range(1, steps + 1), "prescan": range(steps), "states": range(steps + 1)}[word]
    order = list(places)
    if backwards and word != "fold":
        order.reverse()
    wholes = []
    for name, kind in zip(names, states, strict=True):
        if word == "fold":
            wholes.append(f"{name}_{steps}")
            continue
        at = "" if kind == "number" else "[j]"
        terms = " + ".join(f"[q = {q}] * {name}_{place}{at}" for q, place in enumerate(order)) or "0"
        inner = terms if kind == "number" else f"gen j:n. {terms}"
        wholes.append(f"gen q:{len(order)}. {inner}")
    whole = wholes[0] if len(wholes) == 1 else _array_pair(word, states, wholes, len(order))
    head = head.replace("[T]", f"[{steps}]").replace("rel(T", f"rel({steps}")
    return _sized(f"{head} = {' '.join(lets)} let h = {whole} in {result}")


def _sized(text: str) -> str:
    """The text with n + 1, which is at least 1, for n."""
    text = (
        text.replace("n - 1", "@").replace(":n.", ":n + 1.").replace(":n with", ":n + 1 with").replace("[n]", "[n + 1]")
    )
    return text.replace("idx(n)", "idx(n + 1)").replace(", n)", ", n + 1)").replace("@", "n")


def _array_pair(word: str, states: tuple[str, ...], wholes: list[str], count: int) -> str:
    if word == "fold":
        return f"({', '.join(wholes)})"
    return f"gen q2:{count}. ({', '.join(f'({whole})[q2]' for whole in wholes)})"


class _Writer:
    """Writes expressions of a step, in which <t> is the time, and <s0> a state."""

    def __init__(self, random: Random, states: dict[str, str]) -> None:
        self.random, self.states = random, states
        self.count = 0

    def index(self) -> str:
        self.count += 1
        return f"i{self.count}"

    def number(self, depth: int, indices: tuple[str, ...] = ()) -> str:
        r = self.random
        if depth <= 0 or r.random() < 0.15:
            return self.leaf(indices)
        e = lambda: self.number(depth - 1, indices)
        i = self.index()
        choices = [
            lambda: f"({e()} + {e()})",
            lambda: f"({e()} - {e()})",
            lambda: f"{e()} * {e()}",
            lambda: f"sin({e()})",
            lambda: f"tanh({e()})",
            lambda: f"(sum {i}:n. {self.number(depth - 1, (*indices, i))})",
            lambda: f"({self.condition(indices)} * {e()})",
            lambda: f"({self.condition(indices)} * {e()} + {e()})",
            lambda: f"(if {self.leaf(indices)} < {self.leaf(indices)} then {e()} else {e()})",
            lambda: f"(max {i}:n. {self.number(depth - 1, (*indices, i))})",
            lambda: f"(fold {i}:n with z = {e()}. z * u[<t>, {i}] + {self.leaf((*indices, i))})",
        ]
        weights = (4, 3, 4, 3, 2, 3, 3, 3, 1, 1, 1)
        return r.choices(choices, weights)[0]()

    def leaf(self, indices: tuple[str, ...]) -> str:
        r = self.random
        found = ["c", "x[<t>]", "0.5", f"b[{self.place(indices)}]", "u[<t>, k[<t>]]", f"u[<t>, {self.place(indices)}]"]
        found += ["<t> / 3", f"A[{self.place(indices)}, {self.place(indices)}]"]
        found += ["([0 < <t>] * x[<t> - 1])", "x[T - 1 - <t>]"]
        for name, kind in self.states.items():
            found += [f"<{name}>"] * 4 if kind == "number" else [f"<{name}>[{self.place(indices)}]"] * 4
        if indices:
            shifted = r.choice([f"([0 < {indices[-1]}] * <s>[{indices[-1]} - 1])", f"<s>[n - 1 - {indices[-1]}]"])
            found += [shifted.replace("<s>", f"<{name}>") for name, kind in self.states.items() if kind == "vector"]
        return r.choice(found)

    def place(self, indices: tuple[str, ...]) -> str:
        return self.random.choice((*indices, *indices, *indices, "0", "n - 1", "k[<t>]"))

    def condition(self, indices: tuple[str, ...]) -> str:
        i = self.random.choice(indices) if indices else "0"
        choices = [f"[{i} = <t>]", f"[{i} < <t>]", "[0 < <t>]", f"[r(<t>, {i})]", f"[{i} != k[<t>]]", "[<t> + 1 < T]"]
        return self.random.choice(choices if indices else ["[0 < <t>]", "[r(<t>, 0)]", "[k[<t>] = 0]"])

    def vector(self, depth: int) -> str:
        r = self.random
        i = self.index()
        if r.random() < 0.1:
            name = r.choice([name for name, kind in self.states.items() if kind == "vector"])
            return f"<{name}>"
        if r.random() < 0.15:
            return f"gen {i}:n. {self.condition((i,))} * {self.number(depth, (i,))}"
        return f"gen {i}:n. {self.number(depth, (i,))}"


def _data(random: Random, steps: int, n: int) -> Values:
    rng = np.random.default_rng(random.randrange(1 << 30))
    return {
        "x": rng.normal(size=steps),
        "A": rng.normal(size=(n, n)) * 0.6,
        "u": rng.normal(size=(steps, n)),
        "b": rng.normal(size=n),
        "c": float(rng.normal()),
        "k": rng.integers(0, n, size=steps),
        "r": rng.random((steps, n)) < 0.5,
    }


def parsed(p: Recurrent) -> tuple[tl.Function, tl.Function]:
    """The program, and its unrolled form."""
    return tl.parse(p.text), tl.parse(
        p.unrolled.replace("T - 1 -", f"{p.steps - 1} -").replace("< T]", f"< {p.steps}]")
    )
