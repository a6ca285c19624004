"""Which elements of its inputs a program reads under brackets that are all true, and arguments poisoned elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorlang.language.arguments import bind, from_leaves, leaf_shapes, to_leaves
from tensorlang.language.evaluate import Evaluator
from tensorlang.language.function import Function
from tensorlang.language.grammar import Access, Expr, Proj, Var
from tensorlang.language.grid import affine_at
from tensorlang.language.points import ORIGIN, Points
from tensorlang.language.types import struct_of_arrays
from tensorlang.language.values import Value
from tensorlang.recursion import Deep, run


class _Recorder(Evaluator):
    """The reference evaluator, noting which elements of the real inputs it reads."""

    def __init__(self, f: Function, bound: Any, exact: bool = False) -> None:
        super().__init__(f, bound, exact)
        self.inputs = {v: self.bound[v] for v in f.variables}
        self.seen = {v: [np.zeros(leaf.array.shape[1:], bool) for leaf in self.bound[v]] for v in f.variables}

    def _compute(self, e: Expr, points: Points) -> Deep[Value]:
        found = self._input_of(e)
        if found is not None and points.count:
            x, parts = found
            for k in parts:
                self.seen[x][k][...] = True
        return (yield super()._compute(e, points))

    def _access(self, e: Access, points: Points) -> Deep[Value]:
        path = [e]
        while isinstance(path[-1].body, Access):
            path.append(path[-1].body)
        path.reverse()
        found = self._input_of(path[0].body)
        if found is None:
            return (yield super()._access(e, points))
        x, parts = found
        at = [affine_at(step.at, points, self.setting).astype(np.int64) for step in path]
        start = np.zeros(points.count, np.int64)
        for k in parts:
            self.seen[x][k][tuple(at)] = True
        return tuple(self.inputs[x][k].take(start).select(at) for k in parts)

    def _input_of(self, e: Expr) -> tuple[Var, range] | None:
        """The input that `e` is, or of whose pairs it is a part, and the range of its arrays in that part."""
        which = []
        while isinstance(e, Proj):
            which.append(e.which)
            e = e.body
        if not isinstance(e, Var) or e not in self.inputs:
            return None
        parts = range(len(leaf_shapes(e.type)))
        whole: Any = struct_of_arrays(e.type)
        for k in reversed(which):
            first = len(leaf_shapes(whole.first))
            parts = parts[:first] if k == 0 else parts[first:]
            whole = whole.first if k == 0 else whole.second
        return e, parts


def read_elements(f: Function, arguments: dict[str, Any]) -> dict[str, list[np.ndarray]]:
    """For each real parameter, by name, the elements of its arrays that the reference evaluator reads."""
    bound = bind(f, (), arguments)
    recorder = _Recorder(f, bound)
    with np.errstate(all="ignore"):
        value = run(recorder.at(f.body, ORIGIN))
        for leaf in value:
            leaf.read()
    return {v.name: marks for v, marks in recorder.seen.items()}


def poisoned(
    f: Function, arguments: dict[str, Any], where: dict[str, list[np.ndarray]], value: float
) -> dict[str, Any]:
    """`arguments` with `value` at the elements that `where` marks."""
    bound = bind(f, (), arguments)
    new = dict(arguments)
    for v in f.variables:
        leaves = []
        for leaf, marks in zip(to_leaves(v.type, bound.values[v]), where[v.name], strict=True):
            leaves.append(np.where(marks, value, np.asarray(leaf, float)))
        new[v.name] = from_leaves(v.type, iter(leaves))
    return new


def anywhere(where: dict[str, list[np.ndarray]], rng: np.random.Generator) -> dict[str, list[np.ndarray]]:
    """One or two random elements of each array."""
    return {name: [rng.random(m.shape) < 1.5 / max(m.size, 1) for m in each] for name, each in where.items()}


def hidden(f: Function, arguments: dict[str, Any]) -> dict[str, list[np.ndarray]]:
    """The elements that no true bracket reads."""
    return {name: [~marks for marks in each] for name, each in read_elements(f, arguments).items()}
