"""Pictures show the points that they should: the drawing is read back from matplotlib's artists."""

from __future__ import annotations

import functools
import itertools
import random
import re
import sys
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import pictures
from tensorlang.language.affine import Index, Size, atom_affine
from tensorlang.language.predicates import less
from tensorlang.language.types import R, shape
from tensorlang.pictures.layers import layered
from tensorlang.pictures.supports import dependence, statement_of, supports
from tests.support.promises import random_case

matplotlib = pytest.importorskip("matplotlib", reason="pictures are drawn by matplotlib")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")

CONVOLUTION = tl.parse("conv(x: [n + m - 1]R, w: [m]R) = gen i:n. sum j:m. x[i + j] * w[j]")
LOSS = tl.parse(
    """
    loss(x: [n + m - 1]R, w: [m]R, z: [n]R) =
      let y = gen i:n. sum j:m. x[i + j] * w[j] in
      sum k:n. (y[k] - z[k])^2
    """
)


@functools.cache
def certificate_of_the_loss() -> tl.Certificate:
    return tl.certify(LOSS)


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    plt.close("all")


def points(ax: Any) -> set[tuple[int, ...]]:
    """The discs of a lattice plot of two axes, as (row, column); of one axis, as (column,)."""
    (discs,) = [c for c in ax.collections if c.get_label() == "points"]
    (dots,) = [c for c in ax.collections if c.get_label() == "outside"]
    found = {(int(y), int(x)) for x, y in discs.get_offsets()}
    assert found.isdisjoint({(int(y), int(x)) for x, y in dots.get_offsets()})
    return found


def contrast(colour: Any, page: str) -> float:
    """The contrast of two colours, as defined by the guidelines for accessible pages."""
    from matplotlib.colors import to_rgb

    def luminance(colour: Any) -> float:
        parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
        return float(np.dot(parts, [0.2126, 0.7152, 0.0722]))

    dark, light = sorted([luminance(colour), luminance(page)])
    return (light + 0.05) / (dark + 0.05)


def texts(ax: Any) -> str:
    return "\n".join([ax.get_title(loc="left"), *(text.get_text() for text in ax.texts)])


@pytest.mark.parametrize(
    ("pred", "wanted"),
    [
        ("0 <= i - j <= 1", lambda i, j: 0 <= i - j <= 1),
        ("i + j = n - 1", lambda i, j: i + j == 4),
        ("2*i < j or j = 0", lambda i, j: 2 * i < j or j == 0),
        ("exists k:n. i = 2*k and j <= k", lambda i, j: i % 2 == 0 and j <= i // 2),
    ],
)
def test_a_predicate_is_drawn_at_its_points(pred: str, wanted: Any) -> None:
    ax = pictures.support(tl.parse(f"p() = gen i:n, j:n. [{pred}]"), n=5)
    assert points(ax) == {(i, j) for i in range(5) for j in range(5) if wanted(i, j)}
    assert f"{len(points(ax))} of 25 points" in texts(ax)


def test_one_index_is_drawn_on_a_line() -> None:
    ax = pictures.support(tl.parse("odd(x: [2*n]R) = gen i:2*n. [exists k:n. i = 2*k + 1] * x[i]"), n=4)
    assert points(ax) == {(0, 1), (0, 3), (0, 5), (0, 7)}


def test_three_indices_are_drawn_in_slices() -> None:
    ax = pictures.support(tl.parse("p() = gen i:n, j:n, k:n. [i <= j < k]"), n=4)
    slices = ax.child_axes
    assert [s.get_title(loc="left") for s in slices] == ["i = 0", "i = 1", "i = 2", "i = 3"]
    for i, part in enumerate(slices):
        assert points(part) == {(j, k) for j in range(4) for k in range(4) if i <= j < k}


def test_a_bare_predicate_is_drawn_with_its_indices_in_the_order_that_is_given() -> None:
    i, j, n = Index("i"), Index("j"), atom_affine(Size("n"))
    p = less(atom_affine(i), atom_affine(j))
    assert points(pictures.lattice(p, {j: n, i: n}, n=3)) == {(1, 0), (2, 0), (2, 1)}
    with pytest.raises(tl.ArgumentError, match=r"needs n=\.\.\."):
        pictures.lattice(p, {i: n, j: n})


def test_a_statement_is_drawn_where_its_operands_can_be_other_than_0() -> None:
    f = tl.parse(
        """
        f(x: [n]R) =
          let d = gen i:n, j:n. [i = j] * x[i] in
          let e = gen i:n, j:n. d[i, j] * d[i, j] in
          gen i:n. sum j:n. [j < i] * e[i, j]
        """
    )
    assert points(pictures.support(f, "d", n=4)) == {(i, i) for i in range(4)}
    assert points(pictures.support(f, "e", n=4)) == {(i, i) for i in range(4)}
    assert points(pictures.support(f, n=4)) == set()


def test_a_relation_is_drawn_from_its_data() -> None:
    f = tl.parse("f(E: rel(n, m), x: [m]R) = gen i:n, j:m. [E(i, j) and j <= i] * x[j]")
    related = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]], bool)
    wanted = {(int(i), int(j)) for i, j in np.argwhere(np.tril(related))}
    assert points(pictures.support(f, E=related)) == wanted


def test_what_is_too_large_is_drawn_in_part_and_says_so() -> None:
    n = 10**12
    ax = pictures.support(tl.parse("p() = gen i:n, j:n, k:n, l:n. [i <= l]"), n=n)
    assert len(ax.child_axes) == 12
    assert sum(len(c.get_offsets()) for part in ax.child_axes for c in part.collections) == 12 * 48 * 48
    assert f"a part of {n:,} × {n:,} × {n:,} × {n:,}: 48 × 48 of 12 of {n * n:,} slices" in texts(ax)


@pytest.mark.parametrize("n", [0, 1])
def test_the_smallest_sizes_are_drawn(n: int) -> None:
    assert len(points(pictures.support(tl.parse("p() = gen i:n, j:n. [i = j]"), n=n))) == n
    assert len(pictures.support(tl.parse("p() = gen i:n, j:n, k:n. [i = j]"), n=n).child_axes) == n
    assert len(arrows(pictures.access_map(tl.parse("f(x: [n]R) = gen i:n. x[i]"), "x", n=n))) == n
    assert cells(pictures.sparsity(tl.parse("f(x: [n]R) = gen i:n. x[i]^2"), n=n)) == {(i, i) for i in range(n)}


def arrows(ax: Any) -> set[tuple[int, int]]:
    """The arrows of an access map, as numbers of an upper and a lower element."""
    upper, lower = (np.sort(c.get_offsets()[:, 0]) for c in ax.collections[:2])
    (quiver,) = [c for c in ax.collections if type(c).__name__ == "Quiver"]
    if not len(quiver.U):
        return set()
    # an arrow starts and ends a little off the elements that it joins
    scale = 1 / np.ptp([quiver.Y[0], quiver.Y[0] + quiver.V[0]])
    start = quiver.X - (scale - 1) / 2 * quiver.U
    ends = start + scale * quiver.U
    return {
        (int(np.abs(upper - a).argmin()), int(np.abs(lower - b).argmin())) for a, b in zip(start, ends, strict=True)
    }


def test_an_access_map_has_an_arrow_for_each_element_that_is_read() -> None:
    assert arrows(pictures.access_map(CONVOLUTION, "x", n=4, m=3)) == {(i + j, i) for i in range(4) for j in range(3)}
    assert arrows(pictures.access_map(CONVOLUTION, "w", n=4, m=3)) == {(j, i) for i in range(4) for j in range(3)}


def test_an_access_map_of_a_matrix_stands_row_by_row() -> None:
    f = tl.parse("f(A: [n][m]R) = gen j:m. [n >= 1] * A[n - 1, j]")
    assert arrows(pictures.access_map(f, "A", n=2, m=3)) == {(3, 0), (4, 1), (5, 2)}


def test_an_access_map_goes_through_statements_between() -> None:
    ax = pictures.access_map(LOSS, "x", "y", n=3, m=2)
    assert arrows(ax) == {(0, 0), (1, 0), (1, 1), (2, 1), (2, 2), (3, 2)}
    assert arrows(pictures.access_map(LOSS, "x", n=3, m=2)) == {(k, 0) for k in range(4)}


def test_an_access_map_of_many_elements_is_of_the_first_and_says_so() -> None:
    ax = pictures.access_map(CONVOLUTION, "x", n=10**9, m=2)
    assert len(ax.collections[0].get_offsets()) == 40
    assert "among the first 40 of 1,000,000,001 and 40 of 1,000,000,000 elements" in texts(ax)


def cells(ax: Any) -> set[tuple[int, int]]:
    """The filled cells of a sparsity picture."""
    (image,) = ax.images
    return {(int(i), int(j)) for i, j in np.argwhere(image.get_array())}


def jacobian_of(f: tl.Function, wrt: str, arguments: dict[str, Any]) -> Any:
    """The Jacobian, rows and columns flattened, by the reference evaluator: a column for each unit vector."""
    x = np.asarray(arguments[wrt], float)
    columns = []
    for k in range(x.size):
        unit = np.zeros(x.size)
        unit[k] = 1
        derivative = tl.derivative(f, wrt)
        given = {**arguments, derivative.params[-1].name: unit.reshape(x.shape)}
        columns.append(np.ravel(tl.evaluate(derivative, **given)))
    return np.stack(columns, 1)


@pytest.mark.parametrize(
    ("text", "wrt", "sizes"),
    [
        ("conv(x: [n + m - 1]R, w: [m]R) = gen i:n. sum j:m. x[i + j] * w[j]", "x", {"n": 5, "m": 3}),
        ("tri(x: [n]R) = gen i:n, j:n. [j <= i] * x[i] * x[j]", "x", {"n": 4}),
        ("prefix(x: [n]R) = gen i:n. sum j:n. [j <= i] * x[j]^3", "x", {"n": 6}),
        ("up(x: [n]R) = gen i:2*n. sum j:n. [0 <= i - 2*j < 2] * x[j]", "x", {"n": 4}),
        ("transpose(A: [n][m]R) = gen j:m, i:n. exp(A[i, j])", "A", {"n": 3, "m": 4}),
        ("trace(A: [n][n]R) = sum i:n. A[i, i]^2", "A", {"n": 4}),
    ],
)
def test_the_sparsity_of_a_jacobian_is_where_its_numbers_are_not_0(text: str, wrt: str, sizes: dict[str, int]) -> None:
    f = tl.parse(text)
    rng = np.random.default_rng(0)
    dims = {x.name: tuple(n.value({s: sizes[s.name] for s in n.sizes}) for n in shape(x.type)[0]) for x in f.variables}
    arguments = {name: rng.uniform(1, 2, extents) for name, extents in dims.items()}
    wanted = {(int(i), int(j)) for i, j in np.argwhere(jacobian_of(f, wrt, arguments))}
    ax = pictures.sparsity(f, wrt, **sizes)
    assert cells(ax) == wanted
    assert arrows(pictures.access_map(f, wrt, **sizes)) == {(j, i) for i, j in wanted}
    assert f"{len(wanted)} of " in texts(ax)


def test_the_sparsity_of_a_large_jacobian_is_of_its_corner_and_says_so() -> None:
    ax = pictures.sparsity(CONVOLUTION, "x", n=10**9, m=3)
    assert cells(ax) == {(i, j) for i in range(256) for j in range(256) if 0 <= j - i < 3}
    assert "in the first 256 × 256 of 1,000,000,000 × 1,000,000,002" in texts(ax)


def test_supports_and_dependence_of_random_programs_miss_nothing() -> None:
    rng = random.Random(0)
    checked = 0
    for _ in range(40):
        case = random_case(rng, scalars="smooth", fuel=10, exact=False)
        f = case.f
        for x in f.variables:
            if shape(f.type)[1] is not R or shape(x.type)[1] is not R:
                continue
            data = {**case.sizes, **{k: v for k, v in case.values.items() if k not in {v.name for v in f.variables}}}
            value, support = np.asarray(tl.evaluate(f, **case.values), float), _support(f, data)
            assert not (np.nan_to_num(value)[~support]).any(), f
            checked += 1
    assert checked > 20


def _support(f: tl.Function, data: dict[str, Any]) -> Any:
    from tensorlang.costs.cost import known
    from tensorlang.language.grid import holds, size_of
    from tensorlang.language.points import Points
    from tensorlang.normal.as_program import to_function
    from tensorlang.normal.ssa import own_ranges

    s, x = statement_of(f, None)
    setting = known(to_function(s), data)
    extents = [size_of(n, setting) for n in own_ranges(x).values()]
    at = np.indices(extents, dtype=np.int64).reshape(len(extents), -1) if extents else np.zeros((0, 1), np.int64)
    table = Points(dict(zip(own_ranges(x), at, strict=True)), at.shape[1])
    return holds(supports(s)[x], table, setting).reshape(extents)


def test_a_product_depends_only_on_what_is_not_multiplied_by_0() -> None:
    f = tl.parse(
        """
        f(x: [n]R) =
          let eye = gen i:n, j:n. [i = j] in
          gen i:n. sum j:n. eye[i, j] * x[j]
        """
    )
    assert arrows(pictures.access_map(f, "x", n=3)) == {(0, 0), (1, 1), (2, 2)}


def boxes(ax: Any) -> set[str]:
    return {p.get_gid() for p in ax.patches if type(p).__name__ == "FancyBboxPatch"}


def links(ax: Any) -> set[str]:
    return {p.get_gid() for p in ax.patches if type(p).__name__ == "FancyArrowPatch"}


def test_a_program_s_graph_has_its_statements_and_what_they_read() -> None:
    ax = pictures.program_graph(LOSS)
    assert boxes(ax) == {"x", "w", "z", "y", "X4", "X5", "X6"}
    assert links(ax) == {"x -> y", "w -> y", "y -> X4", "z -> X4", "X4 -> X5", "X5 -> X6"}


def test_an_adjoint_s_graph_has_the_arrows_turned_round() -> None:
    figure = pictures.adjoint_graphs(LOSS, "x")
    program, adjoint = figure.axes
    assert boxes(adjoint) == {"x_bar", "y_bar", "X4_bar", "X5_bar", "loss_bar"}
    assert links(adjoint) == {"loss_bar -> X5_bar", "X5_bar -> X4_bar", "X4_bar -> y_bar", "y_bar -> x_bar"}
    assert boxes(program) == {"x", "w", "z", "y", "X4", "X5", "X6"}
    assert {"reads w", "reads X4"} <= set(texts(adjoint).splitlines())


def test_arrows_of_the_adjoint_lie_where_those_of_the_program_do() -> None:
    program, adjoint = pictures.adjoint_graphs(LOSS).axes
    down = {tuple(map(tuple, p.get_path().vertices)) for p in program.patches if p.get_gid() == "y -> X4"}
    assert len(down) == 1
    places = [
        {
            p.get_gid().removesuffix("_bar"): (p.get_x() + p.get_width() / 2, p.get_y())
            for p in ax.patches
            if p.get_gid() is not None and hasattr(p, "get_x")
        }
        for ax in (program, adjoint)
    ]
    for name in ("x", "w", "z", "y", "X4", "X5"):
        assert places[0][name] == pytest.approx(places[1][name])


def test_the_graph_of_a_long_program_is_of_what_is_nearest_the_result() -> None:
    lets = "\n".join(f"let y{k + 1} = gen i:n. sin(y{k}[i]) in" for k in range(500))
    f = tl.parse(f"f(x: [n]R) = let y0 = gen i:n. x[i] * x[i] in {lets} y500")
    ax = pictures.program_graph(f)
    assert boxes(ax) == {f"y{k}" for k in range(461, 501)}
    assert "the 40 statements nearest the result, of 502" in texts(ax)


def test_layers_go_down_and_long_arrows_bend_in_each() -> None:
    layout = layered("abcd", [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")], dict.fromkeys("abcd", 1.0))
    assert [layout.places[x][1] for x in "abcd"] == [0, -1, -2, -3]
    assert len(layout.arrows["a", "d"]) == 4
    assert layout.arrows["a", "d"][1] != layout.places["b"]


def test_neighbours_in_a_layer_do_not_overlap() -> None:
    nodes = [*range(30)]
    edges = [(u, v) for u, v in itertools.product(range(10), range(10, 30)) if (u * v) % 3 == 0]
    layout = layered(nodes, edges, {x: 1 + x % 4 for x in nodes})
    for level in {y for _, y in layout.places.values()}:
        row = sorted((x, node) for node, (x, y) in layout.places.items() if y == level)
        for (x0, u), (x1, v) in itertools.pairwise(row):
            assert x1 - x0 >= (1 + u % 4) / 2 + (1 + v % 4) / 2


def curves(ax: Any) -> dict[str, tuple[list[int], list[int]]]:
    return {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in ax.lines}


def test_cost_curves_are_the_counted_costs_with_inputs_and_outputs() -> None:
    sizes = [1, 2, 5, 30]
    drawn = curves(pictures.cost_curves(LOSS, "n", sizes, m=3))
    adjoint = tl.adjoint(LOSS)
    others = [(n + 2) + 3 + n + 1 for n in sizes]
    wanted = [tl.cost(LOSS, n=n, m=3) + k for n, k in zip(sizes, others, strict=True)]
    assert drawn["program"] == (sizes, wanted)
    assert drawn["adjoint"][1] == [tl.cost(adjoint, n=n, m=3) + k for n, k in zip(sizes, others, strict=True)]
    assert drawn["4 × program"][1] == [4 * c for c in wanted]


def test_cost_curves_count_the_points_of_relations() -> None:
    f = tl.parse("f(E: rel(m, m), x: [m]R, a: [n]R) = sum k:n. a[k] * sum i:m, j:m. [E(i, j)] * x[i] * x[j]")
    drawn = curves(pictures.cost_curves(f, "n", [2, 3], wrt="x", E=np.eye(4, dtype=bool)))
    assert drawn["program"][1] == [tl.cost(f, n=n, E=np.eye(4, dtype=bool)) + 4 + 1 for n in (2, 3)]


def test_cost_curves_of_many_values_take_some_of_them() -> None:
    (values, costs) = curves(pictures.cost_curves(LOSS, "n", range(1, 10**5), m=3))["program"]
    assert (values[0], values[-1]) == (1, 10**5 - 1)
    assert len(values) == len(costs) == 200


def test_a_certificate_is_a_page_with_all_that_it_says() -> None:
    certificate = certificate_of_the_loss()
    figure = pictures.certificate_page(certificate)
    written = "\n".join(text.get_text() for text in figure.texts)
    assert "costs at most 4 times the program" in written
    for f in (LOSS, certificate.derivation.adjoint):
        for line in tl.unicode_text(f).splitlines():
            assert line in written
    assert "Largest ratio: 3, approached as m grows, n grows" in written
    ratio, rules, decided = figure.axes
    drawn = curves(ratio)
    adjoint = certificate.derivation.adjoint
    for n, found in zip(*drawn["n grows, the others 8"], strict=True):
        others = (n + 7) + 8 + n + 1
        assert found == (tl.cost(adjoint, n=n, m=8) + others) / (tl.cost(LOSS, n=n, m=8) + others)
    assert list(drawn["bound 4"][1]) == [4, 4]
    assert sum(bar.get_width() for bar in rules.patches) == len(certificate.derivation.steps)
    assert sum(bar.get_width() for bar in decided.patches) == len(certificate.obligations)


def test_a_certificate_whose_costs_are_up_to_the_data_says_so() -> None:
    f = tl.parse("f(E: rel(n, n), x: [n]R) = sum i:n, j:n. [E(i, j)] * x[i] * x[j]")
    ratio = pictures.certificate_page(tl.certify(f)).axes[0]
    assert "up to the data" in texts(ratio)
    assert set(curves(ratio)) == {"bound 4"}


def test_nothing_of_a_long_program_is_cut_off_on_the_page_of_its_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    lets = "\n".join(f"let y{k + 1} = gen i:n. sin(y{k}[i]) * x[i] + exp(y{k}[i]) - cos(x[i]) in" for k in range(8))
    certificate = tl.certify(tl.parse(f"f(x: [n]R) = let y0 = gen i:n. x[i] * x[i] in {lets} sum i:n. y8[i]"))
    figure = pictures.certificate_page(certificate)
    written = " ".join(" ".join(text.get_text() for text in figure.texts).split())
    d = certificate.derivation
    for f in (d.function, d.adjoint):
        assert " ".join(tl.unicode_text(f).split()) in written
    assert "…" not in written
    figure.canvas.draw()
    height, width = figure.bbox.height, figure.bbox.width
    for text in figure.findobj(matplotlib.text.Text):
        if text.get_text().strip() and text.get_visible():
            box = text.get_window_extent()
            assert 0 <= box.x0 <= box.x1 <= width, text.get_text()
            assert 0 <= box.y0 <= box.y1 <= height, text.get_text()
    monkeypatch.setattr("tensorlang.pictures.pages._LINES", 4)
    written = "\n".join(text.get_text() for text in pictures.certificate_page(certificate).texts)
    assert f"… and {len(tl.unicode_text(d.function).splitlines()) - 4:,} lines more" in written


@pytest.mark.parametrize("suffix", ["pdf", "png", "svg"])
def test_pages_can_be_saved(suffix: str, tmp_path: Any) -> None:
    path = tmp_path / f"loss.{suffix}"
    pictures.certificate_page(certificate_of_the_loss()).savefig(path)
    assert path.stat().st_size > 1000


def test_pictures_are_drawn_into_axes_that_are_given() -> None:
    figure, axes = plt.subplots(2, 3)
    a, b, c, d, e, f = axes.flat
    pairs = tl.parse("p() = gen i:n, j:n, k:n. [i = j]")
    assert pictures.support(pairs, ax=a, n=3) is a
    assert pictures.access_map(CONVOLUTION, "x", ax=b, n=3, m=2) is b
    assert pictures.sparsity(CONVOLUTION, "x", ax=c, n=3, m=2) is c
    assert pictures.cost_curves(LOSS, "n", [1, 2], ax=d, m=2) is d
    assert pictures.adjoint_graphs(LOSS, ax=(e, f)) is figure
    figure.canvas.draw()


@pytest.mark.parametrize(
    "drawn",
    [
        lambda: pictures.support(tl.parse("p() = gen i:n, j:n. [i <= j]"), n=4),
        lambda: pictures.access_map(CONVOLUTION, "x", n=4, m=2),
        lambda: pictures.sparsity(CONVOLUTION, "x", n=4, m=2),
        lambda: pictures.adjoint_graphs(LOSS).axes[0],
        lambda: pictures.cost_curves(LOSS, "n", [1, 2], m=2),
    ],
)
def test_backgrounds_are_transparent_and_colours_contrast_with_light_and_dark(drawn: Any) -> None:
    ax = drawn()
    assert ax.get_figure().patch.get_alpha() == 0
    assert ax.patch.get_alpha() == 0 or not ax.axison
    labels = [*ax.get_xticklabels(), *ax.get_yticklabels()] if ax.axison else []
    ink = {text.get_color() for text in (*ax.texts, *labels) if text.get_text()}
    for colour in ink:
        assert contrast(colour, "white") >= 3, colour
        assert contrast(colour, "#111111") >= 3, colour


def test_pictures_are_shown_in_the_page_s_colours_with_a_contrast_of_4_5_in_light_and_dark() -> None:
    from matplotlib.colors import to_rgb

    from tensorlang.pictures.palette import BLUE, GREEN, ORANGE, PURPLE
    from tensorlang.pictures.vector import HUE

    for page, ink in (("#ffffff", "#000000"), ("#ffffff", "#333333"), ("#111111", "#dddddd"), ("#181a1f", "#cfd0d0")):
        for colour in (BLUE, GREEN, ORANGE, PURPLE):
            mixed = HUE / 100 * np.array(to_rgb(colour)) + (1 - HUE / 100) * np.array(to_rgb(ink))
            assert contrast(mixed, page) >= 4.5, (colour, page)


def test_every_picture_is_an_svg_with_a_title_a_description_and_no_colour_of_its_own() -> None:
    for drawn in (
        pictures.support(tl.parse("p() = gen i:n, j:n. [i <= j]"), n=4),
        pictures.access_map(CONVOLUTION, "x", n=4, m=2),
        pictures.sparsity(CONVOLUTION, "x", n=4, m=2),
        pictures.program_graph(LOSS),
        pictures.adjoint_graphs(LOSS),
        pictures.cost_curves(LOSS, "n", [1, 2], m=2),
    ):
        text = pictures.svg(drawn)
        assert drawn.get_figure(root=True)._repr_html_().count("<svg") == 1
        root = ElementTree.fromstring(text)
        title, words = root[0], root[1]
        assert root.get("role") == "img"
        assert "height" not in root.attrib
        assert root.get("viewBox")
        assert [title.get("id"), words.get("id")] == [root.get("aria-labelledby"), root.get("aria-describedby")]
        assert title.text
        assert words.text is not None and len(words.text) > 20
        paints = re.findall(r"(?:fill|stroke): ([^;\"]+)", text)
        assert paints and all(re.match(r"none|currentColor|color-mix", paint) for paint in paints), set(paints)
        ids = re.findall(r'\bid="([^"]*)"', text)
        assert len(ids) == len(set(ids))
        assert set(re.findall(r'(?:url\(#|href="#)([^)"]*)', text)) <= set(ids)
    assert "where i ≤ j" in pictures.svg(pictures.support(tl.parse("p() = gen i:n, j:n. [i <= j]"), n=4))
    assert "X4 reads y, z" in pictures.svg(pictures.program_graph(LOSS))


def test_graphs_say_at_which_indices_and_under_which_bracket_is_read() -> None:
    words = set(texts(pictures.program_graph(LOSS)).splitlines())
    assert {"[i + k]", "[k]", "parameter", "scalar function", "addition", "product or sum"} <= words
    f = tl.parse("g(x: [n][m]R, y: [n]idx(m), e: rel(n, m)) = sum i:n, j:m. [e(i, j)] * x[i, y[i]] * x[i, j]")
    ax = pictures.program_graph(f)
    assert links(ax) == {"x -> X1", "y -> X1", "e -> X1"}
    assert {"[n]idx(m)", "rel(n, m)", "[k]", "if e(k, l)", "index array or relation"} <= set(texts(ax).splitlines())
    masked = tl.parse("f(x: [n]R) = gen i:n. [i < 3] * sin(x[i])")
    assert "if i < 3" in texts(pictures.program_graph(masked))


def test_equal_siblings_are_one_box_and_others_are_not() -> None:
    many = ", ".join(f"x{k}: [n]R" for k in range(40))
    whole = " + ".join(f"sin(x{k}[i])" for k in range(40))
    assert boxes(pictures.program_graph(tl.parse(f"f({many}) = sum i:n. {whole}"))) == {
        "x0 x1 … x39 ×40", "X1 X3 … X79 ×40", "X80", "X81",
    }  # fmt: skip
    other = whole.replace("sin(x7", "cos(x7")
    found = boxes(pictures.program_graph(tl.parse(f"f({many}) = sum i:n. {other}")))
    assert {"x0 x1 … x39 ×39", "x7"} <= found
    three = tl.parse("f(x: [n]R, y: [n]R, z: [n]R) = sum i:n. sin(x[i]) + sin(y[i]) + sin(z[i])")
    assert {"x", "y", "z"} <= boxes(pictures.program_graph(three))


def test_the_adjoint_of_siblings_is_drawn_of_siblings() -> None:
    many = ", ".join(f"x{k}: [n]R" for k in range(9))
    f = tl.parse(f"f({many}) = sum i:n. {' + '.join(f'sin(x{k}[i])' for k in range(9))}")
    program, adjoint = pictures.adjoint_graphs(f).axes
    assert len(boxes(adjoint)) == len(boxes(program))
    assert any("×9" in name for name in boxes(adjoint))


ERRORS: list[tuple[Any, type[tl.TensorlangError], str]] = [
    (lambda: pictures.support(LOSS, "y", n=3), tl.ArgumentError, "m can't be read off"),
    (lambda: pictures.support(LOSS, "q", n=3, m=2), tl.ScopeError, "no statement called 'q'; it has y"),
    (lambda: pictures.support(LOSS, n=3, m=2), tl.ArgumentError, "loss is a number"),
    (lambda: pictures.support(tl.adjoint(LOSS), n=3, m=2), tl.ArgumentError, "gives a pair"),
    (lambda: pictures.access_map(CONVOLUTION, "q", n=3, m=2), tl.ScopeError, "no real-valued parameter 'q'"),
    (lambda: pictures.access_map(LOSS, "z", "y", n=3, m=2), tl.ArgumentError, "y does not depend on z"),
    (lambda: pictures.access_map(CONVOLUTION, "x", n=3), tl.ArgumentError, "m can't be read off"),
    (lambda: pictures.sparsity(CONVOLUTION, n=3, m=2), tl.ArgumentError, "name one of x, w"),
    (lambda: pictures.sparsity(CONVOLUTION, "q", n=3, m=2), tl.ScopeError, "no real-valued parameter 'q'"),
    (lambda: pictures.adjoint_graphs(LOSS, "q"), tl.ScopeError, "no real-valued parameter 'q'"),
    (lambda: pictures.cost_curves(LOSS, "q", [1], n=1, m=1), tl.ArgumentError, "no size q; its sizes are m, n"),
    (lambda: pictures.cost_curves(LOSS, "n", [], m=1), tl.ArgumentError, "found none"),
    (lambda: pictures.cost_curves(LOSS, "n", [1]), tl.ArgumentError, "m can't be read off"),
    (
        lambda: pictures.access_map(tl.parse("f(p: ([n]R, [n]R)) = gen i:n. fst(p)[i]"), "p", n=2),
        tl.ArgumentError,
        "drawn from one array",
    ),
]


@pytest.mark.parametrize(("drawn", "kind", "message"), ERRORS, ids=[message for _, _, message in ERRORS])
def test_mistakes_are_told(drawn: Any, kind: type[tl.TensorlangError], message: str) -> None:
    with pytest.raises(kind, match=message):
        drawn()


def test_a_support_that_takes_too_long_a_predicate_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    f = tl.parse("f() = gen i:n, j:n. [2*i < j or 3*j < i or i = j]")
    assert points(pictures.support(f, n=3)) == {(0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 0), (2, 0)}
    monkeypatch.setattr("tensorlang.pictures.supports._MOST_PARTS", 3)
    with pytest.raises(tl.LimitError, match="more than 3 parts"):
        pictures.support(f, n=3)


def test_dependence_without_matplotlib_needs_nothing_else() -> None:
    s, x = statement_of(CONVOLUTION, None)
    p, ranges = dependence(s, x, s.statements[0])
    assert len(ranges) == 2
    assert "m" in str(p)


def test_without_matplotlib_the_package_to_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(tl.MissingPackage, match=r"matplotlib.*\n.*tensorlang\[demo\]"):
        pictures.sparsity(CONVOLUTION, "x", n=3, m=2)


def test_chosen_points_are_drawn_where_all_arrays_are_given() -> None:
    f = tl.parse("f(x: [n][m + 1]R) = gen i:n. max j:m + 1. x[i, j]")
    x = np.array([[1.0, 3.0, 2.0], [5.0, 4.0, 0.0]])
    assert arrows(pictures.access_map(f, "x", x=x)) == {(1, 0), (3, 1)}
    with pytest.raises(tl.ArgumentError, match="elements of the index array"):
        pictures.access_map(f, "x", n=2, m=2)
