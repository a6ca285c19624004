"""Arguments matched to parameters, sizes read from shapes, and results as Python values."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse

import tensorlang as tl
from tensorlang.errors import ArgumentError
from tensorlang.language.arguments import Bound, bind, size_values, unpack
from tensorlang.language.function import Function
from tensorlang.surface.parse import parse

LOSS = parse("""
loss(x: [n + m - 1]R, w: [m]R, z: [n]R) =
  let y = gen i:n. sum j:m. x[i + j] * w[j] in
  sum k:n. (y[k] - z[k])^2
""")


def sizes(bound: Bound) -> dict[str, int]:
    return {size.name: value for size, value in bound.sizes.items()}


def one(types: str) -> Function:
    return parse(f"f({types}) = 0")


def refusal(f: Function, *args: object, **kwargs: object) -> str:
    with pytest.raises(ArgumentError) as caught:
        bind(f, args, kwargs)
    return caught.value.message


def test_sizes_are_read_off_the_shapes_that_name_them_alone() -> None:
    assert sizes(bind(LOSS, (np.zeros(5), np.zeros(3)), {"z": np.zeros(3)})) == {"n": 3, "m": 3}


def test_sizes_are_solved_for_when_no_shape_names_them_alone() -> None:
    f = one("x: [n + m]R, y: [n - m]R, z: [2*k + n]R")
    assert sizes(bind(f, (np.zeros(5), np.zeros(1), np.zeros(3)), {})) == {"n": 3, "m": 2, "k": 0}


def test_a_size_that_only_a_relation_has_is_read_off_its_data() -> None:
    f = one("r: rel(n, m)")
    assert sizes(bind(f, (np.ones((2, 3), bool),), {})) == {"n": 2, "m": 3}
    assert sizes(bind(f, (scipy.sparse.csr_matrix((4, 5)),), {})) == {"n": 4, "m": 5}


def test_a_size_may_be_given_by_name() -> None:
    f = one("x: [n + m]R")
    assert sizes(bind(f, (np.zeros(5),), {"n": np.int64(2)})) == {"n": 2, "m": 3}


def test_numbers_and_lists_become_arrays_and_arrays_stay_what_they_are() -> None:
    f = one("x: R, y: [n]R, z: [n]R")
    array = np.zeros(2, np.float32)
    x, y, z = bind(f, (Fraction(1, 2), [1, 2], array), {}).values.values()
    assert x.shape == () and y.shape == (2,) and z is array


def test_an_object_with_a_shape_and_a_dtype_passes_through_unconverted() -> None:
    class Tracer:
        shape = (4,)
        dtype = np.dtype(np.float32)

    tracer = Tracer()
    bound = bind(one("x: [n]R"), (tracer,), {})
    assert sizes(bound) == {"n": 4} and list(bound.values.values()) == [tracer]


def test_an_array_of_pairs_is_a_pair_of_arrays() -> None:
    f = one("x: [n](R, [m](R, R))")
    value = (np.zeros(2), (np.zeros((2, 3)), np.ones((2, 3))))
    bound = bind(f, (value,), {})
    assert sizes(bound) == {"n": 2, "m": 3}
    message = refusal(f, (np.zeros(2), (np.zeros((2, 3)), np.ones((1, 3)))))
    assert message == "snd(snd(x)) has shape (1, 3), expected [n] = 2 for axis 0 with n = 2 (from fst(x))"


def test_pairs_nested_to_the_right_may_come_as_one_tuple() -> None:
    f = one("x: (R, (R, [n]R))")
    bound = bind(f, ((1, 2, [3, 4]),), {})
    (value,) = bound.values.values()
    assert value[0] == 1 and value[1][0] == 2 and list(value[1][1]) == [3, 4]


@pytest.mark.parametrize(
    ("f", "args", "kwargs", "message"),
    [
        (
            LOSS,
            (np.zeros(4), np.zeros(3), np.zeros(3)),
            {},
            "x has shape (4,), expected [m + n - 1] = 5 with m = 3 (from w), n = 3 (from z)",
        ),
        (
            one("x: [n][m]R, y: [m]R"),
            (np.zeros((2, 3)), np.zeros(4)),
            {},
            "y has shape (4,), expected [m] = 3 with m = 3 (from x)",
        ),
        (
            one("x: [n][3]R"),
            (np.zeros((2, 4)),),
            {},
            "x has shape (2, 4), expected [3] for axis 1",
        ),
        (one("x: [n][m]R"), (np.zeros(4),), {}, "x has shape (4,), expected 2 axes, [n][m]"),
        (one("x: R"), (np.zeros(4),), {}, "x has shape (4,), expected a number"),
        (
            one("x: [2*n]R"),
            (np.zeros(5),),
            {},
            "x has shape (5,), expected [2*n]; so n would be 5/2, which is not a whole number",
        ),
        (
            one("x: [n + 3]R"),
            (np.zeros(1),),
            {},
            "x has shape (1,), expected [n + 3]; so n would be -2, which is negative",
        ),
        (
            one("x: [n + m]R, y: [2*n + 2*m]R"),
            (np.zeros(4), np.zeros(4)),
            {},
            "y has shape (4,), which [2*m + 2*n] can't have: the shapes of x, y disagree",
        ),
        (one("x: [n + m]R"), (np.zeros(4),), {}, "m and n can't be read off the arguments: pass m=..., n=..."),
        (one("x: [n]R"), (np.zeros(4),), {"n": 5}, "x has shape (4,), expected [n] = 5 with n = 5"),
        (one("x: [n]R"), (np.zeros(4),), {"n": 2.0}, "the size n must be a whole number from 0 on, found 2.0"),
        (one("x: [n]R"), (np.zeros(4),), {"n": -1}, "the size n must be a whole number from 0 on, found -1"),
        (one("x: [n]R"), (np.zeros(4),), {"n": True}, "the size n must be a whole number from 0 on, found True"),
        (one("x: R, y: R"), (1,), {}, "f(x, y) needs y too"),
        (one("x: R"), (1, 2), {}, "f(x) takes 1 argument, found 2"),
        (one("x: R"), (1,), {"x": 2}, "x is given twice, by position and by name"),
        (
            one("x: [n]R"),
            (np.zeros(1),),
            {"y": 2},
            "f(x) has no parameter or size called y",
        ),
        (one("x: (R, R)"), (np.zeros(2),), {}, "x must be a tuple of 2 for the type (R, R), found a ndarray"),
        (one("x: (R, R)"), ((1, 2, 3),), {}, "x must be a tuple of 2 for the type (R, R), found a tuple of 3"),
        (one("x: R"), ("1",), {}, "x must be an array or a number, found a str"),
        (one("x: [n]R"), (["1"],), {}, "x must be an array or a number, found a list"),
        (one("r: rel(n, m)"), (np.ones(3),), {}, "r has shape (3,), expected 2 axes, [n][m]"),
    ],
)
def test_arguments_that_do_not_fit_are_explained(
    f: Function, args: tuple[object, ...], kwargs: dict[str, object], message: str
) -> None:
    assert refusal(f, *args, **kwargs) == message


def test_a_ragged_list_is_no_array() -> None:
    assert refusal(one("x: [n][m]R"), [[1], [1, 2]]).startswith("x must be an array: ")


def test_a_size_of_the_body_alone_must_be_given() -> None:
    f = LOSS
    with pytest.raises(ArgumentError, match=r"n can't be read off the arguments: pass n=\.\.\."):
        size_values(f, m=3)


def test_the_sizes_for_counting_come_from_keywords_and_relations() -> None:
    f = parse("f(x: [n]R, r: rel(n, m)) = sum i:n, j:m. [r(i, j)] * x[i]")
    bound = size_values(f, r=np.ones((2, 3), bool))
    assert sizes(bound) == {"n": 2, "m": 3} and [p.name for p in bound.values] == ["r"]
    with pytest.raises(ArgumentError, match=r"needs the data of the relation r: pass r=\.\.\."):
        size_values(f, n=2, m=3)
    with pytest.raises(ArgumentError, match="x is an array; only sizes, relations and index arrays are needed here"):
        size_values(f, x=np.zeros(2), r=np.ones((2, 3), bool))


def test_sizes_for_which_an_array_would_have_a_negative_length_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"x has an axis \[n - 3\], which is negative with n = 2"):
        size_values(one("x: [n - 3]R"), n=2)


def test_results_unpack_pairs_nested_to_the_right() -> None:
    value = (1, ((2, (3, 4)), 5))
    results = (None, (None, None), None)
    assert unpack(value, results) == (1, (2, (3, 4)), 5)
    assert unpack(7, None) == 7 and unpack(7, (None,)) == (7,)


def test_ten_thousand_results_unpack() -> None:
    value: object = 0
    for k in range(1, 10_000):
        value = (k, value)
    flat = unpack(value, (None,) * 10_000)
    assert flat == (*range(9_999, 0, -1), 0)


@pytest.mark.parametrize("name", tl.passes.__all__)
def test_a_pass_says_that_it_takes_a_program(name: str) -> None:
    with pytest.raises(ArgumentError, match=f"tl.passes.{name} takes a program, found int"):
        getattr(tl.passes, name)(1)
