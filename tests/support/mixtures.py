"""Random programs that mix constructs that other generators keep apart, written as text.

Recurrences whose steps have conditions on values, keep their states under some of them, and read index arrays, and
whose states are compared and chosen from later; derivatives inside of programs; programs of the library; arrays of
pairs; relations, quotients, extrema within groups and `until`. All axes are of one size n, or n + 1; whatever the data,
all accesses are in bounds, and no extremum is over nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

REALS = {"x": "[n]R", "y": "[n]R", "A": "[n][n]R", "p": "[n](R, R)", "c": "R", "e": "[n + 1]R"}
PARAMS = (
    ", ".join(f"{x}: {kind}" for x, kind in REALS.items())
    + ", k: [n]idx(n), q: [n]idx(n), w: [n]idx(n + 1), r: rel(n, n)"
)
SMOOTH = (
    "sin({})",
    "tanh({})",
    "({})^2",
    "exp(-({})^2)",
    "relu({})",
    "log(1 + ({})^2)",
    "abs({})",
    "recip(1 + ({})^2)",
)


def mixture(seed: int, depth: int = 2, lets: int | None = None) -> str:
    """The text of a random program; no more than `depth` indices are bound at once, outside of recurrences."""
    return _Writer(random.Random(seed), depth).program(lets)


def mixed_data(n: int, seed: int) -> dict[str, Any]:
    """Arguments by name."""
    rng = np.random.default_rng(seed)
    return {
        **{"x": rng.normal(size=n), "y": rng.normal(size=n), "A": rng.normal(size=(n, n)), "c": float(rng.normal())},
        **{"p": (rng.normal(size=n), rng.normal(size=n)), "e": rng.normal(size=n + 1)},
        **{
            "k": rng.integers(0, max(n, 1), n),
            "q": rng.integers(0, max(n, 1), n),
            "w": rng.integers(0, n + 1, n),
            "r": rng.random((n, n)) < 0.4,
        },
    }


class _Writer:
    """Writes expressions in the names known so far: numbers, vectors, matrices, pairs, index arrays, conditions."""

    def __init__(self, rng: random.Random, depth: int) -> None:
        self.rng, self.depth = rng, depth
        self.named, self.loops = 0, 0
        self.numbers, self.vectors, self.matrices, self.pairs = ["c"], ["x", "y"], ["A"], ["p"]
        self.indices, self.conditions = ["k", "q"], list[str]()

    def new(self, stem: str) -> str:
        self.named += 1
        return f"{stem}{self.named}"

    def chance(self, percent: int) -> bool:
        return self.rng.random() * 100 < percent

    def place(self, bound: Sequence[str]) -> str:
        i, array = self.rng.choice(bound), self.rng.choice(self.indices)
        return self.rng.choices(
            (i, f"{array}[{i}]", f"n - 1 - {i}", f"{i} // 2", f"k[{array}[{i}]]"), (12, 5, 2, 1, 1)
        )[0]

    def leaf(self, bound: Sequence[str]) -> str:
        if not bound:
            return self.rng.choice([*self.numbers, "0.5"])
        i = self.rng.choice(bound)
        vector, matrix, pair = (self.rng.choice(x[-4:]) for x in (self.vectors, self.matrices, self.pairs))
        options = {
            f"{vector}[{self.place(bound)}]": 10,
            f"{matrix}[{self.place(bound)}, {self.place(bound)}]": 3,
            f"{self.rng.choice(('fst', 'snd'))}({pair}[{self.place(bound)}])": 3,
            f"([0 < {i}] * {vector}[{i} - 1])": 1,
            f"(e[{i} + 1] - e[{i}])": 1,
            f"e[w[{i}]]": 1,
            f"{i} / 3": 1,
            self.rng.choice([*self.numbers, "0.5"]): 3,
        }
        return self.rng.choices([*options], [*options.values()])[0]

    def condition(self, bound: Sequence[str]) -> str:
        if not bound:
            return f"{self.leaf(bound)} < {self.rng.choice(self.numbers)}"
        i, j, array, b = self.rng.choice(bound), self.rng.choice(bound), self.rng.choice(self.indices), self.new("u")
        options = [f"{self.leaf(bound)} < {self.leaf(bound)}"] * 6
        options += [
            f"k[{i}] = {array}[{j}]",
            f"{array}[{i}] = {j}",
            f"w[{i}] = {j}",
            f"{i} <= {array}[{j}]",
            f"{i} % 2 = 0",
        ]
        options += [f"r({i}, {j})", f"exists {b}:n. r({b}, {i}) and {array}[{b}] = {j}", f"k[{i}] // 2 = q[{j}] // 2"]
        if i != j:
            options += [f"{i} <= {j}", f"{i} - 1 <= {j} <= {i} + 1", f"{array}[{i}] = {array}[{j}] and {i} < {j}"]
        options += [f"{self.rng.choice(('', 'not '))}{c}[{i}]" for c in self.conditions[-2:]]
        return self.rng.choice(options)

    def number(self, fuel: int, bound: Sequence[str]) -> str:
        if fuel <= 0 or self.chance(10):
            return self.leaf(bound)

        def less() -> str:
            return self.number(fuel - 1, bound)

        options: list[tuple[int, Callable[[], str]]] = [
            (6, lambda: f"({less()} {self.rng.choice('+-')} {less()})"),
            (6, lambda: f"({less()}) * ({less()})"),
            (5, lambda: self.rng.choice(SMOOTH).format(less())),
            (5, lambda: f"([{self.condition(bound)}] * ({less()}))"),
            (2, lambda: f"(if {self.leaf(bound)} < {self.leaf(bound)} then {less()} else {less()})"),
            (1, lambda: f"huber({less()}, 1)"),
        ]
        if len(bound) < self.depth:
            options += [(9, lambda: self.sum(fuel, bound)), (3, lambda: self.extremum(fuel, bound))]
            options += [(2, lambda: self.chosen(fuel, bound))]
            if self.loops < 2:
                options.append((4, lambda: self.fold(fuel, bound)))
        return self.rng.choices([make for _, make in options], [weight for weight, _ in options])[0]()

    def sum(self, fuel: int, bound: Sequence[str]) -> str:
        i = self.new("i")
        asked = f"[{self.condition([*bound, i])}] * " if self.chance(40) else ""
        return f"(sum {i}:n. {asked}{self.number(fuel - 1, [*bound, i])})"

    def extremum(self, fuel: int, bound: Sequence[str]) -> str:
        i, word, where = self.new("i"), self.rng.choice(("max", "min")), ""
        if bound and self.chance(50):
            j = self.rng.choice(bound)
            where = self.rng.choice(
                (f" where {i} <= {j}", f" where k[{i}] = k[{j}]", f" where {i} = {j} or r({i}, {j})")
            )
        return f"({'' if bound else '[0 < n] * '}{word} {i}:n{where}. {self.number(fuel - 1, [*bound, i])})"

    def chosen(self, fuel: int, bound: Sequence[str]) -> str:
        i, a, vector = self.new("i"), self.new("a"), self.rng.choice(self.vectors)
        choice = f"let {a} = argmax {i}:n. {self.number(fuel - 1, [*bound, i])} in {vector}[{a}]"
        return f"({'' if bound else '[0 < n] * '}({choice}))"

    def fold(self, fuel: int, bound: Sequence[str]) -> str:
        t, states = self.new("t"), [self.new("s") for _ in range(self.rng.choice((1, 1, 2)))]
        until = f" until {states[0]} * {states[0]} < 0.05" if self.chance(30) else ""
        inits = ", ".join(f"{s} = {self.leaf(bound)}" for s in states)

        def step(s: str) -> str:
            return self.perhaps(f"tanh({self.number(fuel - 1, [*bound, t])})", s, [*bound, t])

        steps = self.within(states, [], lambda: [step(s) for s in states])
        loop = f"fold {self.rng.choice(('', 'reversed '))}{t}:n with {inits}{until}. "
        if len(states) == 1:
            return f"({loop}{steps[0]})"
        h = self.new("h")
        return f"(let {h} = {loop}({', '.join(steps)}) in fst({h}) * snd({h}))"

    def perhaps(self, step: str, state: str, bound: Sequence[str]) -> str:
        """`step`, or else the state as it was."""
        return f"(if {self.condition(bound)} then {step} else {state})" if self.chance(25) else step

    def within(self, numbers: list[str], vectors: list[str], make: Callable[[], list[str]]) -> list[str]:
        """The text that `make` writes in a step, which may read these states."""
        before = self.numbers, self.vectors
        self.numbers, self.vectors = self.numbers + numbers * 3, self.vectors + vectors * 3
        self.loops += 1
        made = make()
        self.loops -= 1
        self.numbers, self.vectors = before
        return made

    def vector_loop(self, fuel: int) -> str:
        t, i, s, z, h = (self.new(stem) for stem in ("t", "i", "s", "z", "h"))
        word = self.rng.choice(("fold", "scan", "scan", "prescan"))
        head = f"let {h} = {word} {self.rng.choice(('', 'reversed '))}{t}:n with {s} = {self.rng.choice(self.vectors)}"
        if self.chance(60):
            new = lambda: [self.perhaps(f"(gen {i}:n. tanh({self.number(fuel, [t, i])}))", s, [t])]
            (step,) = self.within([], [s], new)
            (self.vectors if word == "fold" else self.matrices).append(h)
            return f"{head}. {step} in "
        made = lambda: f"(gen {i}:n. tanh({self.number(fuel, [t, i])}), sin({self.number(fuel, [t])}))"
        (steps,) = self.within([z], [s], lambda: [self.perhaps(made(), f"({s}, {z})", [t])])
        first, second, g = self.new("m"), self.new("v"), self.new("g")
        if word == "fold":
            self.vectors.append(first)
            self.numbers.append(second)
            return f"{head}, {z} = c. {steps} in let {first} = fst({h}) in let {second} = snd({h}) in "
        self.matrices.append(first)
        self.vectors.append(second)
        parts = f"let {first} = gen {g}:n. fst({h}[{g}]) in let {second} = gen {g}:n. snd({h}[{g}]) in "
        return f"{head}, {z} = c. {steps} in {parts}"

    def let(self) -> str:
        """A binding, whose name may be used afterwards."""
        fuel, word = self.rng.choice((1, 2, 2)), self.rng.choice(("argmax", "argmin"))
        i, j = self.new("i"), self.new("i")
        a, b = self.rng.choice(self.vectors), self.rng.choice(self.matrices)
        where = self.rng.choice(("", f" where {j} <= {i}", f" where k[{j}] = k[{i}]"))

        def e() -> str:
            return self.number(fuel, [i])

        def pair() -> str:
            return self.number(fuel - 1, [i, j])

        known = {"v": self.vectors, "m": self.matrices, "p": self.pairs, "a": self.indices, "b": self.conditions}
        options: list[tuple[int, str, Callable[[], str]]] = [
            (5, "v", lambda: f"gen {i}:n. {e()}"),
            (2, "m", lambda: f"gen {i}:n, {j}:n. {pair()}"),
            (2, "p", lambda: f"gen {i}:n. ({e()}, {e()})"),
            (2, "a", lambda: f"gen {i}:n. {word} {j}:n{where}. {pair()}"),
            (2, "b", lambda: f"gen {i}:n. {e()} {self.rng.choice(('<', '<=', '>'))} {self.number(1, [i])}"),
            (2, "v", lambda: f"if {self.condition([])} then {a} else (gen {i}:n. {e()})"),
            (1, "p", lambda: f"if {self.condition([])} then {self.rng.choice(self.pairs)} else gen {i}:n. ({e()}, 1)"),
            (2, "v", lambda: f"grad {a}. sum {i}:n. {e()}"),
            (1, "m", lambda: f"jacobian {a}. gen {i}:n. {e()}"),
            (1, "v", lambda: f"{self.rng.choice(('softmax', 'prefix_sum'))}(gen {i}:n. {e()})"),
            (1, "v", lambda: f"segment_sum({a}, {self.rng.choice(self.indices)})"),
            (1, "m", lambda: f"causal_attention({b}, {b}, {b})"),
        ]
        if self.chance(35):
            return self.vector_loop(fuel)
        _, stem, make = self.rng.choices(options, [weight for weight, _, _ in options])[0]
        value, name = make(), self.new(stem)
        known[stem].append(name)
        return f"let {name} = {value} in "

    def program(self, lets: int | None) -> str:
        before = "".join(self.let() for _ in range(self.rng.choice((1, 2, 2, 3)) if lets is None else lets))
        i = self.new("i")
        results = [f"sum {i}:n. {self.number(2, [i])}", f"gen {i}:n. {self.number(2, [i])}"]
        results.append(f"({self.number(1, [])}, gen {i}:n. {self.number(1, [i])})")
        return f"f({PARAMS}) = {before}{self.rng.choices(results, (6, 3, 1))[0]}"
