"""`tl.from_jax`: a tensor program from a JAX function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tensorlang.errors import ArgumentError, ImportRefused, PythonLine
from tensorlang.jaxprs import rules  # noqa: F401  (fills the table)
from tensorlang.jaxprs.fission import fissioned
from tensorlang.jaxprs.fitted import fitted, form
from tensorlang.jaxprs.flatten import flatten, has_rule, inner_jaxpr
from tensorlang.jaxprs.importer import Program, translate
from tensorlang.jaxprs.refusal import Unsupported
from tensorlang.jaxprs.sizes import have_names
from tensorlang.jaxprs.sizes import specs as shapes_of
from tensorlang.language.function import Function
from tensorlang.shown import Shown


@dataclass(frozen=True, repr=False, eq=False)
class Imported(Shown):
    """A tensor program made of a JAX function.

    `function` is the program, `assumptions` what must hold for it to be the JAX function, `lines` the user's line of
    each parameter and statement by name, `data` the arrays of parameters that are constants of the function.
    `arguments(*args)` are the arrays of all parameters for arguments of the JAX function.

    >>> import jax.numpy as jnp
    >>> f = tl.from_jax(lambda x, k: jnp.sum(x[k]), "n", "m: int32")
    >>> print(f.function.params, f.assumptions[1])
    (x, k) k is in its range, 0 .. n - 1
    >>> float(f(np.ones(3, np.float32), np.array([0, 2])))
    2.0
    """

    function: Function
    assumptions: tuple[str, ...]
    lines: dict[str, PythonLine | None]
    data: dict[str, Any]
    fun: Callable[..., Any]
    exact: bool = False
    _program: Program | None = field(default=None, repr=False)
    _is_fitted: bool = field(default=False, repr=False)

    def arguments(self, *args: Any) -> dict[str, Any]:
        """The arrays of the program's parameters, by name, where the JAX function gets `args`.

        Raises `ArgumentError` if the program of these shapes has other parameters.

        >>> import jax.numpy as jnp
        >>> f = tl.from_jax(lambda p: jnp.sum(p["w"] * p["b"]), {"w": "n", "b": "n"})
        >>> sorted(f.arguments({"w": np.ones(2, np.float32), "b": np.zeros(2, np.float32)}))
        ['p_b', 'p_w']
        """
        leaves = jax.tree.leaves(args)
        program = self._program
        assert program is not None
        if [tuple(v.aval.shape) for v in program.flat.inputs] != [np.shape(x) for x in leaves]:
            given = jax.tree.map(lambda x: jax.typeof(jnp.asarray(x)), args)
            other = _translated(self.fun, given, self.function.name, self.exact)[0]
            if self._is_fitted and form(other.function) != form(program.function):
                message = f"at these shapes {self.function.name} is another program than where it was fitted"
                raise ArgumentError(message, hint="import it again with arrays, or shapes, of that size")
            program = other
        found = program.arguments(leaves)
        names = [p.name for p in self.function.params]
        if sorted(found) != sorted(names):
            hint = "import it again with arrays, or shapes, of that size"
            raise ArgumentError(
                f"at these shapes {self.function.name} has the parameters {', '.join(found)}", hint=hint
            )
        return {name: found[name] for name in names}

    def __call__(self, *args: Any) -> Any:
        """The value of the program where the JAX function gets `args`."""
        return self.function(**self.arguments(*args))

    def __str__(self) -> str:
        notes = "".join(f"\nassumed: {what}" for what in self.assumptions)
        return f"{self.function}{notes}"


def from_jax(fun: Callable[..., Any], *specs: Any, strict: bool = False, exact: bool = False) -> Imported:
    """The tensor program of the JAX function `fun` at arguments as in `specs`: arrays, shapes with dtypes
    (`jax.ShapeDtypeStruct`), or texts that name sizes, such as "n m" for a matrix and "n: int32" for indices; or
    pytrees of these. Texts have one meaning for the sizes they share.

    The program's parameters are the leaves of the arguments in order, named as the parameters of `fun`; integers that
    are places are index arrays, conditions are relations. Behind them stand constants of `fun`, and what is computed
    of integers and conditions alone, which `Imported.arguments` computes.

    What must hold for the program to be `fun` is listed in `assumptions`: that indices are in range, which extremum
    counts among equals, that values are finite. With `exact`, indices and ties are treated as JAX does, at the price of
    a longer program. With `strict`, nothing may be assumed. Raises `ImportRefused` for anything that is not a tensor
    program, with the primitive and the line, and `ArgumentError` for specifications that can't be read.

    >>> import jax.numpy as jnp
    >>> f = tl.from_jax(lambda x: jnp.sum(x * x), np.zeros(3, np.float32))
    >>> print(f)
    f(x: [3]R) =
      let mul = gen i:3. x[i] * x[i] in
      let total = sum r:3. mul[r] in
      total
    """
    if not callable(fun):
        raise ArgumentError(f"from_jax takes a JAX function, found {fun!r}", hint='tl.from_jax(loss, "n", "n m")')
    given = shapes_of(specs)
    name = getattr(fun, "__name__", "f")
    try:
        signature(fun).bind(*given)
    except ValueError:  # Python does not know the signature of every function
        pass
    except TypeError as why:
        hint = 'one for each argument, such as "n m" for a matrix'
        raise ArgumentError(f"{len(given)} descriptions don't fit the arguments of {name}: {why}", hint=hint) from None
    program, function = _translated(fun, given, name if name.isidentifier() else "f", exact)
    if strict and program.assumptions:
        raise ImportRefused(f"{name} is a tensor program only if {'; '.join(program.assumptions)}", hint="strict=False")
    constants = program.flat.constants
    data = {key: constants[s.var] for key, s in program.sources.items() if s.var in constants}
    is_fitted = function is not program.function
    return Imported(function, program.assumptions, program.lines, data, fun, exact, program, is_fitted)


def _translated(fun: Callable[..., Any], given: Sequence[Any], name: str, exact: bool) -> tuple[Program, Function]:
    """A program, and the function for all sizes: its own, or one fitted to it and other programs."""
    try:
        closed = jax.make_jaxpr(fun)(*given)
    except (
        TypeError,
        ValueError,
        jax.errors.InconclusiveDimensionOperation,
    ) as why:  # the function can't be traced, or not at such arguments
        refused = ImportRefused(
            f"JAX cannot trace {name}: {str(why).splitlines()[0]}", hint="numbers may do where sizes with names do not"
        )
        return _at_numbers(fun, given, name, exact, refused)
    brought: dict[str, None] = {}

    def opened(equation: Any) -> bool:
        if equation.primitive.name == "custom_jvp_call" and not has_rule(equation):
            if exact:
                return False
            brought[inner_jaxpr(equation).jaxpr.debug_info.func_name] = None
        return not has_rule(equation)

    if not closed.out_avals:
        raise ImportRefused(
            f"{name} is no tensor program: it gives no array", hint="return what is to be differentiated"
        )
    flat = fissioned(flatten(closed, opened))
    names = leaf_names(fun, given)
    try:
        made = translate(flat, name, dict(zip(flat.inputs, names, strict=True)), exact)
    except Unsupported as why:
        if "not affine" in why.what:  # named sizes may raise it
            return _at_numbers(fun, given, name, exact, why.told(name))
        raise why.told(name) from None
    notes = [f"the derivative that {f} brings is that of its code" for f in brought]
    return replace(made, assumptions=(*made.assumptions, *notes)), made.function


def _at_numbers(
    fun: Callable[..., Any], given: Sequence[Any], name: str, exact: bool, refused: ImportRefused
) -> tuple[Program, Function]:
    """The program at numbers, and the function that fits it for all sizes; `refused` is raised if there is none."""
    if not have_names(given):
        raise refused from None
    try:
        function, program, note = fitted(lambda numbers: _translated(fun, numbers, name, exact)[0], given)
    except (Unsupported, ImportRefused) as why:
        what = why.what if isinstance(why, Unsupported) else why.message
        raise ImportRefused(f"{refused.message}; at sizes that are numbers, {what}", hint=refused.hint) from None
    return replace(program, assumptions=(*program.assumptions, note)), function


def leaf_names(fun: Callable[..., Any], given: Sequence[Any]) -> list[str]:
    """A name for each leaf of the arguments: that of the parameter, and the path to the leaf."""
    try:
        parameters = list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    found = []
    for path, _ in jax.tree_util.tree_flatten_with_path(tuple(given))[0]:
        k = path[0].idx
        steps = [str(getattr(q, "key", getattr(q, "name", getattr(q, "idx", "")))) for q in path[1:]]
        found.append("_".join([positional[k] if k < len(positional) else f"x{k}", *steps]))
    return found
