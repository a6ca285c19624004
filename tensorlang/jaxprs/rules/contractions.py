"""Products summed over common axes: dot_general and convolutions."""

from __future__ import annotations

from typing import Any

from tensorlang.jaxprs.axes import flat, linear, refactored
from tensorlang.jaxprs.builder import Builder
from tensorlang.jaxprs.refusal import Unsupported
from tensorlang.jaxprs.rules.structure import shape_of
from tensorlang.jaxprs.rules.table import rule
from tensorlang.jaxprs.sizes import affine
from tensorlang.jaxprs.terms import times, when
from tensorlang.jaxprs.values import Int, Place, RealNumbers
from tensorlang.language.affine import Affine, atom_affine, constant
from tensorlang.language.grammar import Expr, sums
from tensorlang.language.predicates import conjunction, equal, within


def one_type(b: Builder, eqn: Any) -> None:
    """If operands or the accumulator have several types, refuse them with `exact`, else assume one type."""
    wanted = eqn.params.get("preferred_element_type")
    kinds = {v.aval.dtype for v in eqn.invars} | ({wanted} if wanted is not None else set())
    if len(kinds) > 1:
        if b.exact:
            raise Unsupported(f"a product of several types: {', '.join(sorted(map(str, kinds)))}")
        b.assume("all numbers have one floating-point type")


@rule("dot_general")
def _dot(b: Builder, eqn: Any, x: Any, y: Any) -> Any:
    if isinstance(x, Int) or isinstance(y, Int):
        raise Unsupported("a product of integers")
    one_type(b, eqn)
    x, y = b.real(x), b.real(y)
    if x.support or y.support or x.infinite or y.infinite:
        raise Unsupported("a product of infinite numbers")
    (over_x, over_y), (batch_x, batch_y) = eqn.params["dimension_numbers"]
    x, y = _matched(b, x, y, (*over_x, *batch_x), (*over_y, *batch_y))
    free_x = [d for d in range(len(x.axes)) if d not in (*over_x, *batch_x)]
    free_y = [d for d in range(len(y.axes)) if d not in (*over_y, *batch_y)]
    axes = (*(x.axes[d] for d in (*batch_x, *free_x)), *(y.axes[d] for d in free_y))

    def body(ix: Place) -> Expr:
        def term(s: Place) -> Expr:
            at_x = dict(zip((*batch_x, *free_x), ix, strict=False))
            at_y = dict(zip((*batch_y, *free_y), (*ix[: len(batch_y)], *ix[len(x_out) :]), strict=True))
            at_x.update(zip(over_x, s, strict=True))
            at_y.update(zip(over_y, s, strict=True))
            return times(
                x.at(tuple(at_x[d] for d in range(len(x.axes)))), y.at(tuple(at_y[d] for d in range(len(y.axes))))
            )

        x_out = (*batch_x, *free_x)
        return b.summed(tuple(x.axes[d] for d in over_x), term)

    return b.state(axes, body, "dot")


def _matched(
    b: Builder, x: RealNumbers, y: RealNumbers, dx: tuple[int, ...], dy: tuple[int, ...]
) -> tuple[RealNumbers, RealNumbers]:
    """Both, with the same sub-axes for the axes that they have in common."""
    for d, e in [*zip(dx, dy, strict=True)] * 2:
        if x.axes[d] != y.axes[e]:
            if len(x.axes[d]) == 1:
                x = refactored(b, x, tuple(y.axes[e] if k == d else axis for k, axis in enumerate(x.axes)))
            elif len(y.axes[e]) == 1:
                y = refactored(b, y, tuple(x.axes[d] if k == e else axis for k, axis in enumerate(y.axes)))
            else:
                x, y = flat(b, x), flat(b, y)
    return x, y


@rule("conv_general_dilated")
def _convolution(b: Builder, eqn: Any, x: Any, w: Any) -> Any:
    p = eqn.params
    one_type(b, eqn)
    lhs, rhs, out = p["dimension_numbers"].lhs_spec, p["dimension_numbers"].rhs_spec, p["dimension_numbers"].out_spec
    features, batches = p["feature_group_count"], p["batch_group_count"]
    x, w = flat(b, b.real(x)), flat(b, b.real(w))
    if x.support or w.support or x.infinite or w.infinite:
        raise Unsupported("a convolution of infinite numbers")
    shape = shape_of(eqn)
    examples, channels, outputs = x.axes[lhs[0]][0], w.axes[rhs[1]][0], w.axes[rhs[0]][0]
    groups = max(features, batches)
    if groups > 1 and not (outputs.is_constant and channels.is_constant and examples.is_constant):
        raise Unsupported("groups of channels whose number is a size")
    split = (constant(groups), constant(outputs.constant // groups)) if groups > 1 else (outputs,)
    axes: list[tuple[Affine, ...]] = [(affine(n),) for n in shape]
    axes[out[1]] = split
    spatial = range(len(lhs) - 2)

    def body(ix: Place) -> Expr:
        c = b.index(channels, "c")
        binders, conditions = [(c, channels)], []
        at_x: dict[int, tuple[Affine, ...]] = {}
        at_w: dict[int, tuple[Affine, ...]] = {rhs[0]: (linear(ix[out[1]], split),), rhs[1]: (atom_affine(c),)}
        (example,), group = ix[out[0]], ix[out[1]][0]
        at_x[lhs[0]] = (example + group * (examples.constant // batches) if batches > 1 else example,)
        at_x[lhs[1]] = (group * channels.constant + atom_affine(c) if features > 1 else atom_affine(c),)
        for k in spatial:
            width, length = w.axes[rhs[2 + k]][0], x.axes[lhs[2 + k]][0]
            t = b.index(width, "uvt"[k % 3])
            binders.append((t, width))
            a = ix[out[2 + k]][0] * int(p["window_strides"][k]) + atom_affine(t) * int(p["rhs_dilation"][k])
            a = a - affine(p["padding"][k][0])
            if p["lhs_dilation"][k] == 1:
                if not b.holds(inside := within(a, length)):
                    conditions.append(inside)
                at_x[lhs[2 + k]] = (a,)
            else:
                y = b.index(length, "y")
                binders.append((y, length))
                conditions.append(equal(a, atom_affine(y) * int(p["lhs_dilation"][k])))
                at_x[lhs[2 + k]] = (atom_affine(y),)
            at_w[rhs[2 + k]] = (atom_affine(t),)
        image = x.at(tuple(at_x[d] for d in range(len(lhs))))
        weight = w.at(tuple(at_w[d] for d in range(len(rhs))))
        return sums(binders, when(conjunction(conditions), times(image, weight)))

    return b.state(tuple(axes), body, "convolution")
