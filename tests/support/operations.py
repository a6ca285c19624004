"""The operations that array programs consist of, for tests of what was chosen."""

from __future__ import annotations

from collections import Counter

from tensorlang.lowering.arrays.ir import ArrayOperation
from tensorlang.lowering.arrays.meaning import MEANING
from tensorlang.lowering.arrays.program import ArrayProgram
from tensorlang.lowering.plan.ir import RowBlocks, Step, StoredArray
from tensorlang.lowering.run import Lowered


def operations(made: Lowered | ArrayProgram) -> Counter[str]:
    """How often each operation is in the array program."""
    program = made if isinstance(made, ArrayProgram) else made.array_program
    return Counter(node.operation for node in program.definition.body.nodes() if isinstance(node, ArrayOperation))


def count_of(made: Lowered | ArrayProgram, *names: str) -> int:
    """How often the array program has one of these operations, which must be known: no test passes for a name that
    nothing has any more."""
    assert MEANING.keys() >= {*names}, names
    found = operations(made)
    return sum(found[name] for name in names)


def is_cut(step: Step) -> bool:
    """Whether a step of a plan makes an array in blocks of rows."""
    return isinstance(step, StoredArray) and isinstance(step.storage, RowBlocks)
