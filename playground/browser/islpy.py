"""As much of islpy as tensorlang asks for, answered by isl as a WebAssembly module of its own: see `isl.c`.

Numbers and matrices are Python's and cross as text; sets live in isl's memory, and go when Python forgets them.
"""

from __future__ import annotations

from enum import IntEnum

from isl_module import isl, taken, written  # the module's functions; a text out of its memory, and into it


class Error(RuntimeError):
    """isl refused."""


class dim_type(IntEnum):
    """isl's kinds of dimensions."""

    cst = 0
    param = 1
    in_ = 2
    set = 3
    div = 4


def _refused(what):
    return Error(f"call to isl_{what} failed: {taken(isl.said(), False)}")


def _text(pointer, what):
    if not pointer:
        raise _refused(what)
    return taken(pointer, True)


def _truth(found, what):
    if found < 0:
        raise _refused(what)
    return bool(found)


class Context:
    """isl's only context, and how much it may do."""

    def set_max_operations(self, most):
        isl.limit(most)

    def reset_operations(self):
        isl.restart()


class Val:
    """A whole number."""

    def __init__(self, text, context=None):
        _truth(isl.number_is_written(written(text)), "val_read_from_str")
        self.text = text

    @classmethod
    def of(cls, text):
        """The number that isl has written."""
        made = object.__new__(cls)
        made.text = text
        return made

    def to_python(self):
        return int(self.text)

    def to_str(self):
        return self.text


class Space:
    """A number of dimensions."""

    def __init__(self, dims):
        self.dims = dims

    @staticmethod
    def set_alloc(context, parameters, dims):
        return Space(dims)


class Mat:
    """A matrix of numbers."""

    def __init__(self, entries, columns):
        self.entries, self.columns = entries, columns

    @staticmethod
    def alloc(context, rows, columns):
        return Mat([[None] * columns for _ in range(rows)], columns)

    def set_element_val(self, r, c, value):
        self.entries[r][c] = value
        return self

    def get_element_val(self, r, c):
        return self.entries[r][c]

    def rows(self):
        return len(self.entries)

    def cols(self):
        return self.columns


class _Held:
    """What lies in isl's memory at `pointer`."""

    release = ""

    def __init__(self, pointer, what):
        self.pointer = pointer
        if not pointer:
            raise _refused(what)

    def __del__(self):
        if self.pointer:
            getattr(isl, self.release)(self.pointer)


class Aff(_Held):
    """An integer division."""

    release = "division_free"

    def get_denominator_val(self):
        return self._number(0, 0)

    def get_constant_val(self):
        return self._number(1, 0)

    def get_coefficient_val(self, kind, k):
        return self._number(2 if kind == dim_type.in_ else 3, k)

    def _number(self, part, k):
        return Val.of(_text(isl.of_division(self.pointer, part, k), "aff_get_val"))


class LocalSpace:
    """The integer divisions of a conjunction."""

    def __init__(self, basic):
        self.basic = basic

    def dim(self, kind):
        return isl.divisions(self.basic.pointer)

    def get_div(self, k):
        return Aff(isl.division(self.basic.pointer, k), "local_space_get_div")


class BasicSet(_Held):
    """A conjunction."""

    release = "basic_free"

    @staticmethod
    def from_constraint_matrices(space, equalities, inequalities, *order):
        numbers = " ".join(v.text for matrix in (equalities, inequalities) for row in matrix.entries for v in row)
        pointer = isl.basic(space.dims, equalities.rows(), inequalities.rows(), written(numbers))
        return BasicSet(pointer, "basic_set_from_constraint_matrices")

    def to_set(self):
        return Set(isl.basic_to_set(self.pointer), "set_from_basic_set")

    def is_empty(self):
        return _truth(isl.basic_is_empty(self.pointer), "basic_set_is_empty")

    def intersect(self, other):
        return BasicSet(isl.basic_intersect(self.pointer, other.pointer), "basic_set_intersect")

    def gist(self, other):
        return BasicSet(isl.basic_gist(self.pointer, other.pointer), "basic_set_gist")

    def project_out(self, kind, first, n):
        return BasicSet(isl.basic_project(self.pointer, first, n), "basic_set_project_out")

    def equalities_matrix(self, *order):
        return self._matrix(1)

    def inequalities_matrix(self, *order):
        return self._matrix(0)

    def _matrix(self, equalities):
        rows, columns, *numbers = _text(isl.rows(self.pointer, equalities), "basic_set_matrix").split()
        width, values = int(columns), [Val.of(digits) for digits in numbers]
        return Mat([values[r * width : (r + 1) * width] for r in range(int(rows))], width)

    def get_local_space(self):
        return LocalSpace(self)


class Set(_Held):
    """A union of conjunctions."""

    release = "set_free"

    @staticmethod
    def empty(space):
        return Set(isl.empty(space.dims), "set_empty")

    def is_empty(self):
        return _truth(isl.set_is_empty(self.pointer), "set_is_empty")

    def is_subset(self, other):
        return _truth(isl.is_subset(self.pointer, other.pointer), "set_is_subset")

    def intersect(self, other):
        return Set(isl.set_intersect(self.pointer, other.pointer), "set_intersect")

    def union(self, other):
        return Set(isl.set_union(self.pointer, other.pointer), "set_union")

    def gist(self, other):
        return Set(isl.set_gist(self.pointer, other.pointer), "set_gist")

    def project_out(self, kind, first, n):
        return Set(isl.set_project(self.pointer, first, n), "set_project_out")

    def affine_hull(self):
        return BasicSet(isl.affine_hull(self.pointer), "set_affine_hull")

    def compute_divs(self):
        return Set(isl.compute_divs(self.pointer), "set_compute_divs")

    def coalesce(self):
        return Set(isl.coalesce(self.pointer), "set_coalesce")

    def make_disjoint(self):
        return Set(isl.make_disjoint(self.pointer), "set_make_disjoint")

    def get_basic_sets(self):
        return [BasicSet(isl.piece(self.pointer, k), "set_get_basic_set") for k in range(isl.count(self.pointer))]
