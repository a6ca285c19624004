"""Random programs on graphs: index arrays, relations, segments, extrema and several uses of everything.

Every program does work in proportion to nodes and edges, so its adjoint must, too. Arrays are over nodes (`n`), over
edges (`e`), or over nodes and a few channels; index arrays lead from edges to nodes, from edges to edges, and from
nodes to classes.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tensorlang as tl

PARAMS = {
    "x": "[n]R",
    "z": "[n]R",
    "w": "[e]R",
    "T": "[n][3]R",
    "a": "[e]idx(n)",
    "b": "[e]idx(n)",
    "c": "[e]idx(e)",
    "d": "[n][2]idx(n)",
    "y": "[n]idx(m)",
    "E": "rel(n, n)",
}
_NODE, _EDGE, _CLASS, _CHANNEL = "n", "e", "m", "3"


@dataclass
class _Writer:
    rng: random.Random
    edges: bool
    lets: list[tuple[str, str, str]] = field(default_factory=list)
    names: int = 0

    def index(self) -> str:
        self.names += 1
        return f"i{self.names}"

    def pick(self, *options: str) -> str:
        return self.rng.choice(options)

    def arrays(self, *kind: str) -> list[str]:
        given = {(_NODE,): ["x", "z"], (_EDGE,): ["w"], (_NODE, _CHANNEL): ["T"]}.get(kind, [])
        # new arrays are read more often
        return given + 3 * [name for name, of, _ in self.lets if of == ",".join(kind)]

    def node_at(self, p: str) -> str:
        """A node, at an edge."""
        return self.pick(f"a[{p}]", f"b[{p}]", f"a[c[{p}]]", f"b[{p}]", f"a[{p}]")

    def at_edge(self, p: str, depth: int) -> str:
        """A number at the edge `p`."""
        choice = self.rng.randrange(14 if depth else 5)
        match choice:
            case 0:
                return f"w[{p}]"
            case 1 | 2 | 3:
                return f"{self.pick(*self.arrays(_NODE))}[{self.node_at(p)}]"
            case 4:
                at = self.pick(p, p, f"c[{p}]")
                return f"{self.pick(*self.arrays(_EDGE))}[{at}]"
            case 5 | 6:
                return f"({self.at_edge(p, depth - 1)} {self.pick('+', '-')} {self.at_edge(p, depth - 1)})"
            case 7 | 8:
                return f"{self.at_edge(p, depth - 1)} * {self.at_edge(p, depth - 1)}"
            case 9:
                return self.function(self.at_edge(p, depth - 1))
            case 10:
                return f"([{self.edge_condition(p)}] * {self.at_edge(p, depth - 1)})"
            case 11:
                k, table = self.index(), self.pick("T", *self.arrays(_NODE, _CHANNEL))
                return f"(sum {k}:3. {table}[{self.node_at(p)}, {k}] * {table}[{self.node_at(p)}, {k}])"
            case 12:
                k = self.index()
                return f"(max {k}:2. {self.pick(*self.arrays(_NODE))}[d[a[{p}], {k}]])"
            case _:
                classes = self.arrays(_CLASS)
                return f"{self.pick(*classes)}[y[{self.node_at(p)}]]" if classes else self.at_edge(p, depth - 1)

    def edge_condition(self, p: str) -> str:
        k = self.index()
        options = [
            f"{self.node_at(p)} = {self.node_at(p)}",
            f"{self.node_at(p)} < {self.node_at(p)}",
            f"exists {k}:e. b[{k}] = {self.node_at(p)}",
            f"exists {k}:e. c[{k}] = {p}",
            f"exists {k}:e. b[{k}] = a[{p}] and a[{k}] < b[{k}]",
            f"y[a[{p}]] = y[b[{p}]]",
            f"exists {k}:e. b[{k}] <= {self.node_at(p)}",
            f"exists {k}:e. b[{k}] + 2 <= a[{p}] and a[{k}] <= b[{k}]",
        ]
        if self.edges:
            options.append(f"exists {k}:n. E(a[{p}], {k})")
        return self.rng.choice(options)

    def at_node(self, i: str, depth: int) -> str:
        """A number at the node `i`."""
        choice = self.rng.randrange(16 if depth else 3)
        match choice:
            case 0 | 1:
                return f"{self.pick(*self.arrays(_NODE))}[{i}]"
            case 2:
                return f"{self.pick(*self.arrays(_NODE))}[d[{i}, {self.pick('0', '1')}]]"
            case 3 | 4:
                return f"({self.at_node(i, depth - 1)} {self.pick('+', '-')} {self.at_node(i, depth - 1)})"
            case 5:
                return f"{self.at_node(i, depth - 1)} * {self.at_node(i, depth - 1)}"
            case 6:
                return self.function(self.at_node(i, depth - 1))
            case 7 | 8 | 9:
                p = self.index()
                more = f" and {self.edge_condition(p)}" if self.rng.random() < 0.2 else ""
                return f"(sum {p}:e. [{self.node_at(p)} = {i}{more}] * ({self.at_edge(p, depth - 1)}))"
            case 10:
                k = self.index()
                return f"([exists {k}:e. {self.node_at(k)} = {i}] * {self.at_node(i, depth - 1)})"
            case 11:
                p, k, at = self.index(), self.index(), self.pick("a", "b")
                which, value = self.pick("max", "min"), self.at_edge(p, depth - 1)
                return f"([exists {k}:e. {at}[{k}] = {i}] * ({which} {p}:e where {at}[{p}] = {i}. {value}))"
            case 12:
                k = self.index()
                return f"(sum {k}:2. {self.pick(*self.arrays(_NODE))}[d[{i}, {k}]])"
            case 13 if self.edges:
                j = self.index()
                at = self.pick(f"E({i}, {j})", f"E({j}, {i})")
                return f"(sum {j}:n. [{at}] * ({self.at_node(i, 0)} - {self.at_node(j, 0)}) * {self.at_node(j, 0)})"
            case 14:
                k = self.index()
                return f"(max {k}:3 where {k} <= {i}. {self.pick('T', *self.arrays(_NODE, _CHANNEL))}[{i}, {k}])"
            case _:
                classes = self.arrays(_CLASS)
                return f"{self.pick(*classes)}[y[{i}]]" if classes else self.at_node(i, depth - 1)

    def function(self, e: str) -> str:
        return self.pick(f"sin({e})", f"tanh({e})", f"({e})^2", f"relu({e})", f"exp(-1 * ({e})^2)")

    def let(self) -> None:
        name, p = f"u{len(self.lets)}", self.index()
        kind = self.pick(_NODE, _NODE, _EDGE, _EDGE, _CLASS, f"{_NODE},{_CHANNEL}")
        if kind == _NODE:
            value = f"gen {p}:n. {self.at_node(p, 2)}"
        elif kind == _EDGE:
            value = f"gen {p}:e. {self.at_edge(p, 3)}"
        elif kind == _CLASS:
            i = self.index()
            value = f"gen {p}:m. sum {i}:n. [y[{i}] = {p}] * {self.at_node(i, 1)}"
        else:
            k = self.index()
            tables = self.arrays(_NODE, _CHANNEL)
            value = f"gen {p}:n, {k}:3. {self.pick(*tables)}[{p}, {k}] * {self.at_node(p, 1)}"
        self.lets.append((name, kind, value))

    def program(self) -> str:
        for _ in range(self.rng.randint(1, 4)):
            self.let()
        terms = []
        for _ in range(self.rng.randint(1, 3)):
            p = self.index()
            terms.append(
                f"(sum {p}:e. {self.at_edge(p, 2)})"
                if self.rng.random() < 0.6
                else f"(sum {p}:n. {self.at_node(p, 2)})"
            )
        body = " + ".join(terms)
        for name, _, value in reversed(self.lets):
            body = f"let {name} = {value} in {body}"
        params = ", ".join(f"{name}: {kind}" for name, kind in PARAMS.items() if name != "E" or self.edges)
        return f"f({params}) = {body}"


def random_program(rng: random.Random) -> tl.Function:
    """A program whose value is a number, with all of `PARAMS` (the relation in some)."""
    return tl.parse(_Writer(rng, edges=rng.random() < 0.3).program())


def arguments(f: tl.Function, sizes: Mapping[str, int], seed: int = 0) -> dict[str, Any]:
    """Random arguments of a program or its adjoint at these sizes; a relation has as many points as there are edges."""
    rng = np.random.default_rng(seed)
    n, e, m = sizes["n"], sizes["e"], sizes["m"]
    dense = np.zeros((n, n), bool)
    if n:
        dense[rng.integers(0, n, e), rng.integers(0, n, e)] = True
    made = {
        "x": rng.standard_normal(n),
        "z": rng.standard_normal(n),
        "w": rng.standard_normal(e),
        "T": rng.standard_normal((n, 3)),
        "a": rng.integers(0, n, e),
        "b": rng.integers(0, n, e),
        "c": rng.integers(0, e, e) if e else np.zeros(0, int),
        "d": rng.integers(0, n, (n, 2)),
        "y": rng.integers(0, m, n),
        "E": dense,
        "f_bar": np.array(1.7),
    }
    return {p.name: made[p.name] for p in f.params}
