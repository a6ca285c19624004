"""The source of a program on a mesh that XLA partitions: as on one device, between arrays that are laid out."""

from __future__ import annotations

from typing import Any

import jax

from tensorlang.language.arguments import from_leaves, unpack
from tensorlang.language.function import Function
from tensorlang.language.grammar import Var
from tensorlang.lowering.arrays.ir import Assign, Block, Define, Name, Node
from tensorlang.lowering.arrays.names import Names
from tensorlang.lowering.arrays.values import apply, tuple_of
from tensorlang.lowering.emit.helpers import HELPERS, with_called
from tensorlang.lowering.emit.mesh import spec_node, spec_of
from tensorlang.lowering.emit.module import IMPORTS
from tensorlang.lowering.emit.python import lines
from tensorlang.lowering.emit.recurrences import Recurrent, source
from tensorlang.lowering.mesh.partition import Partition
from tensorlang.lowering.mesh.statements import parts
from tensorlang.recursion import Deep, call, run

_ITS_OWN = {
    "_add_in_order": ("_adding_its_own", "_add_in_order"),
    "_add_at": ("_adding_its_own", "_add_at"),
    "_put_in_order": ("_adding_its_own", "_add_in_order"),  # into zeros, at different places
    "_put_at": ("_adding_its_own", "_add_at"),
    "_greatest_at": ("_choosing_its_own", "_greatest_at"),
    "_greatest_at_or": ("_choosing_its_own", "_greatest_at_or"),
    "_first_greatest_at": ("_choosing_its_own", "_first_greatest_at"),
}
"""What the parts of the library that put values at places are made of where XLA partitions them."""


class PartitionedSource:
    """The source of `f`, a simplified program, whose parameters and results lie on a mesh as `partition` says.

    `text` defines the function `name` of the program's parameters, of the mesh, and of the sizes `told` which no shape
    determines. XLA distributes all that lies between parameters and results.
    """

    takes_masks = True  # as of those, relations come as masks

    def __init__(self, f: Function, partition: Partition, exact: bool, store: str) -> None:
        whole = source(f, (), exact, False, store)
        self.told, self.orders = whole.told, whole.orders
        along = partition.parameters
        self.in_specs = tuple(
            from_leaves(p.type, iter([spec_of(along[p.name, path]) for path, _ in parts(p)]))
            if isinstance(p, Var)
            else spec_of(along[p.name, ()])
            for p in f.params
        )
        self.out_specs = unpack(from_leaves(f.body.type, map(spec_of, partition.results)), f.results)
        self.explained = tuple(whole.explained if isinstance(whole, Recurrent) else whole.program.explained)
        names = Names(frozenset({*HELPERS, *IMPORTS, whole.name, "mesh", "in_specs", "out_specs"}))
        self.name = names.fresh_global(f"{f.name}_on_mesh")
        given = [names.fresh_global(p.name) for p in f.params]
        sizes = {name: Name(name) for name in self.told.values()}
        body = Block()
        body.assign("in_specs", run(_node(self.in_specs)))
        body.assign("out_specs", run(_node(self.out_specs)))
        if given:
            body.unpack(given, apply("_laid_out", tuple_of(map(Name, given)), Name("mesh"), Name("in_specs")))
        value = apply(whole.name, *map(Name, given), **sizes)
        body.give(apply("_laid_out", value, Name("mesh"), Name("out_specs")))
        main = Block([Define(self.name, (*given, "*", "mesh", *sizes), body)])
        read = with_called(whole.helpers)
        made = {name: parts for name, parts in _ITS_OWN.items() if name in read}
        again = Block([Assign((name,), apply(own, Name(part))) for name, (own, part) in made.items()])
        called = ["_laid_out", "jax", *(name for parts in made.values() for name in parts)]
        definitions = ["\n".join(lines(part)) for part in (again, main) if part.statements]
        self.runnable = self.text = whole.text_with(definitions, called)


def _node(specs: Any) -> Deep[Node]:
    """The code for a tree of specs."""
    if isinstance(specs, jax.P):
        return spec_node(specs)
    found = []
    for part in specs:
        found.append((yield from call(_node(part))))
    return tuple_of(found)
