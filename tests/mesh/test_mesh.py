"""Programs on a mesh: mappings, the communication that they need, and the source, on meshes without devices."""

from __future__ import annotations

from typing import Any

import pytest
from jax.sharding import AbstractMesh
from jax.sharding import PartitionSpec as P

import tensorlang as tl
from tensorlang.errors import ArgumentError
from tensorlang.measure.collectives import sent_by
from tests.support.mesh_cases import ATTENTION, CORRELATION, LAYER, MATMUL, STENCIL, TRANSPOSED
from tests.support.mesh_partitioned import GREATEST, RNN

MESH = AbstractMesh((4, 2), ("x", "y"))


def on_mesh(f: str | tl.Function, **sharding: Any) -> Any:
    return tl.lower(tl.parse(f) if isinstance(f, str) else f, mesh=MESH, sharding=sharding)


# -- names


def test_arrays_lie_as_the_indices_do_that_make_and_read_them() -> None:
    f = on_mesh(MATMUL, i="x", k="y")
    assert f.in_specs == (P("x", "y"), P("y"))
    assert f.out_specs == P("x")


def test_indices_keep_their_names_though_simplification_gives_others() -> None:
    f = on_mesh(ATTENTION, c="y", e="x")
    assert f.in_specs == (P(None, "y", None, "x"),) * 3


def test_the_name_of_a_size_stands_for_all_indices_over_it() -> None:
    f = on_mesh(tl.adjoint(tl.parse(MATMUL)), n="x", p="y")
    assert f.in_specs == (P("x"), P(None, "y"), P("x", "y"))
    assert f.out_specs == (P("x"), P(None, "y"))


def test_pairs_lie_part_by_part() -> None:
    f = on_mesh(TRANSPOSED, i="x")
    assert f.in_specs == (P("x"), (P("x"), P()))
    assert f.out_specs == (P("x"), P("x"))


def test_an_array_lies_along_an_axis_of_the_mesh_once() -> None:
    f = on_mesh("square(a: [n][n]R) = gen i:n, j:n. a[i, j]^2", n="x")
    assert f.in_specs == (P("x"),)


@pytest.mark.parametrize(
    ("sharding", "message"),
    [
        ({"q": "x"}, "mm has no index or size called 'q'"),
        ({"i": "z"}, "the mesh has no axis 'z'; its axes are x, y"),
        ({"i": ("x", "x")}, "names the axis 'x' twice"),
    ],
)
def test_names_that_there_are_none_of_are_refused(sharding: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        on_mesh(MATMUL, **sharding)


def test_a_mesh_and_a_sharding_come_together() -> None:
    with pytest.raises(ArgumentError, match="neither"):
        tl.lower(tl.parse(MATMUL), sharding={"i": "x"})  # type: ignore[call-overload]


# -- communication


@pytest.mark.parametrize(
    ("text", "sharding", "sent"),
    [
        (MATMUL, {"i": "x"}, ["nothing is sent"]),
        (MATMUL, {"k": "x"}, ["psum along x: 4*n*p bytes of result"]),
        (MATMUL, {"i": "x", "k": "x"}, ["all_gather along x: 4*m*p bytes of b"]),
        (LAYER, {"b": ("x", "y")}, ["psum along x, y: 4 bytes of result"]),
        (
            LAYER,
            {"b": "x", "v": "y"},
            ["psum along y: 4*(batch/4)*e bytes of h_sum", "psum along x: 4 bytes of result"],
        ),
        (STENCIL, {"i": "x"}, ["ppermute along x: 4*(1 + 1) bytes of x"]),
        (
            "shift(x: [n][m]R) = gen i:n, j:m. [i + 2 < n] * x[i + 2, j]",
            {"i": "x"},
            ["ppermute along x: 4*2*m bytes of x"],
        ),
        (
            "smooth(x: [n]R, w: [m]R) = gen i:n. sum j:m. [i + j < n] * x[i + j] * w[j]",
            {"i": "y"},
            ["ppermute along y: 4*max(0, m - 1) bytes of x"],
        ),
    ],
)  # fmt: skip
def test_what_is_sent_follows_from_the_indices(text: str, sharding: dict[str, Any], sent: list[str]) -> None:
    assert str(on_mesh(text, **sharding).collectives).splitlines() == sent


def test_an_adjoint_sends_each_gradient_once() -> None:
    f = on_mesh(tl.value_and_grad(tl.parse(LAYER), "w"), batch="x")
    assert [(s.kind, s.array, s.elements) for s in f.collectives.at(batch=8, d=4, e=6)] == [
        ("psum", "w_bar", 24),
        ("psum", "result", 1),
    ]


def test_weights_in_blocks_are_gathered_and_their_gradients_scattered() -> None:
    f = on_mesh(tl.value_and_grad(tl.parse(LAYER), "w"), batch="x", d="x")
    assert str(f.collectives).splitlines() == [
        "all_gather along x: 4*d*e bytes of w",
        "psum_scatter along x: 4*(d/4)*e bytes of w_bar",
        "psum along x: 4 bytes of result",
    ]


def test_what_is_wider_than_a_block_is_gathered() -> None:
    f = on_mesh("smooth(x: [n]R, w: [m]R) = gen i:n. sum j:m. [i + j < n] * x[i + j] * w[j]", i="x")
    assert [(s.kind, s.elements) for s in f.collectives.at(n=16, m=5)] == [("ppermute", 4)]
    assert [(s.kind, s.elements) for s in f.collectives.at(n=16, m=6)] == [("all_gather", 16)]


def test_formulas_need_all_sizes() -> None:
    with pytest.raises(ArgumentError, match="the size p is needed"):
        on_mesh(MATMUL, k="x").collectives.at(n=8, m=8)


# -- source


def test_the_source_is_what_one_would_write() -> None:
    assert on_mesh(tl.adjoint(tl.parse(MATMUL)), n="x").source.endswith(
        """
    # a_bar = gen i:n_x, j:m. sum k:p. mm_bar[i, k] * b[j, k] : [n_x][m]R
    a_bar = mm_bar @ b.T

    # b_bar = gen i:m, j:p. sum k:n_x. mm_bar[k, j] * a[k, i] : [m][p]R
    b_bar = a.T @ mm_bar
    return (a_bar, b_bar)


def mm_adjoint(a, b, mm_bar, *, mesh):
    dtype = jnp.result_type(float, a, b, mm_bar)
    a = jnp.asarray(a, dtype)
    b = jnp.asarray(b, dtype)
    mm_bar = jnp.asarray(mm_bar, dtype)
    n = a.shape[0]
    m = a.shape[1]
    p = b.shape[1]

    def on_device(a, b, mm_bar):
        a_bar, b_bar = mm_adjoint_part1(mm_bar, b, a)
        b_bar = lax.psum(b_bar, "x")
        return (a_bar, b_bar)

    in_specs = (jax.P("x"), jax.P(), jax.P("x"))
    out_specs = (jax.P("x"), jax.P())
    run = jax.shard_map(
        on_device,
        mesh=mesh,
        in_specs=in_specs,
        out_specs=out_specs,
        check_vma=False,
    )
    a_bar, b_bar = run(a, b, mm_bar)
    return (a_bar, b_bar)
"""
    )


def test_the_source_says_what_every_device_computes_alike() -> None:
    f = on_mesh("f(x: [n]R, c: [m]R) = let s = sum j:m. sin(c[j]) in gen i:n. x[i] * s^2", i="x")
    assert "# the same on every device: s" not in f.source  # in one function with what devices compute differently
    g = on_mesh("f(x: [n]R, y: [n]R) = let s = max j:n. y[j] in gen i:n. x[i] * s^2", i="x", j="x")
    assert 'y_all = lax.all_gather(y, "x", axis=0, tiled=True)' in g.source


def test_a_correlation_on_blocks_is_one() -> None:
    f = on_mesh(CORRELATION, i="x")
    assert "sum j:m. x[i + j] * w[j] : [n_x]R" in f.source


# -- compiled programs

COMPILED = """HloModule jit_f

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}

ENTRY %main (p: f32[8,4]) -> f32[8,4] {
  %p = f32[8,4]{1,0} parameter(0)
  %r = f32[8,4]{1,0} all-reduce(%p), channel_id=1, replica_groups={{0,2,4,6},{1,3,5,7}}, to_apply=%add
  %s = (f32[], f32[4]{0}) all-reduce(%q, %u), channel_id=2, replica_groups=[4,2]<=[8], to_apply=%add
  %g = (bf16[4]{0}, bf16[16]{0}) all-gather-start(%v), channel_id=3, replica_groups=[2,4]<=[4,2]T(1,0), dimensions={0}
  %d = bf16[16]{0} all-gather-done(%g)
  %n = f32[2]{0} all-reduce(%w), channel_id=6, replica_groups=mesh['x'=4,'y'=2] {'y'}, to_apply=%add
  %c = f32[3]{0} collective-permute(%w), channel_id=4, source_target_pairs={{0,1},{1,2},{2,3}}
  %e = f32[5]{0} all-gather(%w), channel_id=5, replica_groups=[1,8]<=[8], frontend_attributes={chain_id="0"}
  ROOT %f = f32[5]{0} all-gather(%w), channel_id=5, replica_groups=[1,8]<=[8], frontend_attributes={chain_id="0"}
}
"""


def test_collectives_of_compiled_programs_are_read() -> None:
    assert [(s.kind, s.along, s.elements, s.bytes) for s in sent_by(COMPILED, {"x": 4, "y": 2})] == [
        ("psum", ("x",), 32, 128),
        ("psum", ("y",), 1, 4),
        ("psum", ("y",), 4, 16),
        ("all_gather", ("x",), 16, 32),
        ("psum", ("y",), 2, 8),
        ("ppermute", ("x", "y"), 3, 12),
        ("all_gather", ("x", "y"), 5, 20),
    ]


# -- programs that XLA partitions


def test_recurrences_have_parameters_and_results_that_lie_as_asked() -> None:
    f = on_mesh(tl.value_and_grad(tl.parse(RNN), "w"), batch="x", h="y")
    assert f.in_specs == (P(None, "x"), P("y"), P("y"), P("x", "y"))
    assert f.out_specs == (P(), P("y"))
    assert "def rnn_value_and_grad_on_mesh(x, w, u, y, *, mesh):" in f.source
    assert "w lies as " in str(f.explain())


def test_indices_lay_out_what_recurrences_read_and_make() -> None:
    f = on_mesh("f(x: [n][T]R) = gen i:n. scan t:T with s = 0. s + x[i, t]", i="x")
    assert (f.in_specs, f.out_specs) == ((P("x"),), P("x"))
    f = on_mesh("f(x: ([n]R, R)) = fold t:T with s = fst(x). gen i:n. cos(s[i]) + snd(x)", n="x")
    assert (f.in_specs, f.out_specs) == (((P("x"), P()),), P("x"))


def test_times_are_not_cut() -> None:
    with pytest.raises(ArgumentError, match="t of fold t:T would be cut along x") as caught:
        on_mesh(RNN, T="x")
    assert "no times" in str(caught.value.hint)


def test_choices_that_other_devices_look_up_are_left_to_xla() -> None:
    greatest = tl.parse(GREATEST)
    assert "on_device" in on_mesh(greatest, i="x").source
    f = on_mesh(tl.adjoint(greatest), i="x")
    assert (f.in_specs, f.out_specs) == ((P(), P(), P()), P("x"))
    assert "on_device" not in f.source


def test_numbers_of_indices_are_left_to_xla() -> None:
    f = on_mesh("f(x: [n]R) = gen i:n. x[i] * real(i)", i="x")
    assert (f.in_specs, f.out_specs) == ((P("x"),), P("x"))


# -- what each device computes


def each_computes(f: Any, **sizes: int) -> int:
    """The operations of one device, as `explain` tells them."""
    (note,) = [n for n in f.explain(**sizes).notes if n.startswith("On each of 8 devices: ")]
    return int(note.split(" all of it takes ")[1].split(" ")[0].replace(",", ""))


def test_each_device_computes_its_part_and_what_no_axis_divides() -> None:
    sizes = {"n": 64, "m": 32, "p": 16}
    whole = 2 * 64 * 32 * 16  # of the one sum of products
    names = {size.name for size in tl.parse(MATMUL).sizes}
    sizes = {name: sizes[name] for name in names}
    assert each_computes(on_mesh(MATMUL, i="x"), **sizes) == whole // 4
    assert each_computes(on_mesh(MATMUL, i="x", k="y"), **sizes) == whole // 8
    assert each_computes(on_mesh(MATMUL, i=("x", "y")), **sizes) == whole // 8
    assert each_computes(on_mesh(MATMUL, i="x"), **sizes | {"n": 66}) == 2 * 17 * 32 * 16  # of blocks, the largest
    note = on_mesh(MATMUL, i="x", k="y").explain().notes[-1]
    assert "at all sizes that are multiples of 4, from 32 on all of it takes m*n*p/4 operations" in note
    with pytest.raises(ArgumentError, match="the cost depends on"):
        on_mesh(MATMUL, i="x").explain(n=3)


def test_what_each_device_computes_is_not_guessed_for_blocks_of_sums() -> None:
    f = on_mesh("f(x: [n + 1]R) = gen i:n. x[i] + x[i + 1]", n="x")
    assert f.explain().notes[-1].startswith("What each device computes is not known for all sizes")
