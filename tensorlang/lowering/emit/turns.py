"""Which outputs of the steps of a recurrence its arrays are made of."""

from __future__ import annotations

from collections.abc import Sequence

from tensorlang.language.grammar import Var
from tensorlang.lowering.arrays.ir import Node, Slice, Subscript, Transpose
from tensorlang.lowering.arrays.values import integer, tuple_of
from tensorlang.lowering.plan.stages import Turn

Given = tuple[int, str]
"""An output of a step: the state in which place, after the step, a "scan", or before it, a "prescan"."""


def outputs_read(turn: Turn, stored: frozenset[Var], keeps: bool) -> list[Given]:
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


def is_chosen(turn: Turn, key: Given) -> bool:
    """Whether this output of steps has places."""
    return any((place, word) == key and v in turn.chosen for v, place, word in turn.gives)


def places_given(turn: Turn, read: Sequence[Given]) -> list[Node]:
    """Which of these outputs of steps are places, if any is."""
    found = [integer(k) for k, key in enumerate(read) if is_chosen(turn, key)]
    return [tuple_of(found)] if found else []


def makes(place: int, word: str, key: Given, read: Sequence[Given]) -> bool:
    """Whether the array `word` of the state in this place is made of the output `key` of steps."""
    if key[0] != place:
        return False
    return word == key[1] or (word, key[1]) == ("states", "scan") or (word == "prescan" and (place, word) not in read)


def reversed_if(x: Node, is_turned: bool) -> Node:
    """`x`, with its first axis reversed if `is_turned`."""
    return Subscript(x, (Slice(step=-1),)) if is_turned else x


def with_axis_at(x: Node, axis: int, to: int, rank: int) -> Node:
    """`x`, of that rank, with this axis moved to the place `to`."""
    places = [k for k in range(rank) if k != axis]
    places.insert(to, axis)
    return x if axis == to else Transpose(x, tuple(places))
