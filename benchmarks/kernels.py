"""The command for kernels on a GPU: whether they are right, and how they compare with XLA and with the card's limits.

    python -m benchmarks.kernels [--only NAME] [--quick] [--out FOLDER]

For each program of `benchmarks.programs.kernels` and its adjoint, in bfloat16 and float32, the results are compared
with double precision, at an odd size and at the timed sizes. Then these are timed, in turns: the kernels; our
`jax.numpy` code for the same program; and XLA's own code for the natural program under its mask, differentiated by
`jax.vjp`. The card's bandwidth and rate are measured beforehand. Without a GPU, kernels are interpreted and lowered for
an H100 at the smallest sizes, and nothing is timed.
"""

from __future__ import annotations

import json
import random
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click
import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

import tensorlang as tl
from benchmarks.case import Case, Sizes
from benchmarks.measure import FAILURES, reason
from benchmarks.peers import NotApplicable
from benchmarks.programs.kernels import KERNELS
from benchmarks.reference import as_tuple, gradient
from benchmarks.report import environment

OURS, PLAIN, XLA = "kernels", "our jax.numpy", "XLA, mask"
BOUNDS = {"float32": 1e-4, "bfloat16": 3e-2}
"""How far a result may be from that in double precision: the relative norm of the difference."""

TARGETS = {
    ("triangle times matrix", "bfloat16"): (XLA, 1.7),
    ("band times matrix", "bfloat16"): (XLA, 1.7),
    ("causal attention", "bfloat16"): (XLA, 1.7),
    ("sliding-window attention", "bfloat16"): (XLA, 1.7),
    ("matrix product", "bfloat16"): (XLA, 0.9),
    ("HM-LSTM cell", "float32"): (XLA, 1.0),
}
"""How many times as fast as each peer the kernels should be, at the largest size."""

_LEAST = 5e-3  # seconds that a peer runs in a round
_ROUNDS = 15
_SETS = 3  # of inputs, in turns, so that caches don't hold them from one run to the next
_POINTS = 10**6
_LARGEST = 2**31  # bytes of inputs in double precision beyond which answers aren't compared at a size that is timed


@dataclass
class Limits:
    """What the card can do, measured: bytes moved, and operations of matrix products, in a second."""

    device: str
    bandwidth: float
    rates: dict[str, float]


@dataclass
class Row:
    """A program, or its adjoint, at a size: seconds of each round, errors, and the reasons for missing figures."""

    case: str
    of: str
    dtype: str
    sizes: Sizes
    seconds: dict[str, list[float]] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    operations: int | None = None
    moved: int | None = None

    def faster(self, than: str) -> float | None:
        """How many times as fast as a peer the kernels are: the median over the rounds."""
        if not self.seconds.get(OURS) or not self.seconds.get(than):
            return None
        return statistics.median(b / a for a, b in zip(self.seconds[OURS], self.seconds[than], strict=True))

    @property
    def is_right(self) -> bool:
        """Whether everything compared agrees."""
        return bool(self.errors) and all(error <= BOUNDS[self.dtype] for error in self.errors.values())


@dataclass(frozen=True)
class Subject:
    """The computation for a case: the program itself, or its derivative."""

    case: Case
    of: str

    @property
    def function(self) -> tl.Function:
        """As one of ours."""
        return self.case.function if self.of == "program" else self.case.derived

    @property
    def natural(self) -> Callable[..., Any]:
        """As one would write it in JAX."""
        return (lambda *args: self.case.program(jnp, *args)) if self.of == "program" else gradient(self.case)

    def arguments(self, sizes: Sizes, seed: int) -> list[Any]:
        """Random arguments, in single precision."""
        found = self.case.arguments(sizes, seed)
        return found[:-1] if self.of == "program" and self.case.takes_cotangent else found


def cast(arguments: Sequence[Any], dtype: Any) -> list[Any]:
    """The arguments on the device, real ones in `dtype`."""
    return [jnp.asarray(a, dtype if np.asarray(a).dtype == np.float32 else None) for a in arguments]


@contextmanager
def exact_products() -> Iterator[None]:
    """A context in which float32 means float32, in XLA's products, too, which would otherwise use TF32 on a GPU."""
    with jax.default_matmul_precision("highest"):
        yield


def error(found: Any, wanted: Any) -> float:
    """The largest of the relative errors, by norms, of the arrays of a result; infinite if one isn't finite."""
    worst = 0.0
    for made, right in zip(as_tuple(found), as_tuple(wanted), strict=True):
        a, b = np.asarray(made, np.float64), np.asarray(right, np.float64)
        if a.shape != b.shape:
            return float("inf")
        distance = np.linalg.norm((a - b).ravel()) / max(np.linalg.norm(b.ravel()), 1e-30)
        worst = max(worst, float(distance)) if np.isfinite(distance) else float("inf")
    return worst


def answer(subject: Subject, arguments: Sequence[Any]) -> Any:
    """The result in double precision, of the arguments as they are after rounding."""
    with jax.enable_x64(True):
        wide = [np.asarray(a, np.float64 if jnp.issubdtype(a.dtype, jnp.floating) else None) for a in arguments]
        return jax.tree.map(np.asarray, jax.jit(subject.natural)(*wide))


def compare(subject: Subject, sizes: Sizes, dtype: str, seed: int = 1) -> float:
    """The error of the kernels at these sizes."""
    arguments = cast(subject.arguments(sizes, seed), dtype)
    found = tl.lower(subject.function, target="pallas-gpu")(*arguments)
    return error(found, answer(subject, arguments))


def peers(subject: Subject) -> dict[str, Callable[..., Any]]:
    """The functions that are timed."""
    kernels, plain = tl.lower(subject.function, target="pallas-gpu"), tl.lower(subject.function)
    return {OURS: kernels, PLAIN: plain, XLA: subject.natural}


def measure(subject: Subject, sizes: Sizes, dtype: str, budget: float) -> Row:
    """The row of a subject at a size, with every peer compiled for that size."""
    row = Row(subject.case.name, subject.of, dtype, dict(sizes))
    try:
        sets = [cast(subject.arguments(sizes, seed), dtype) for seed in range(_SETS)]
    except FAILURES as failure:
        row.missing = dict.fromkeys((OURS, PLAIN, XLA), reason(failure))
        return row
    row.moved = sum(a.nbytes for a in sets[0])
    ready: dict[str, Callable[..., Any]] = {}
    for name, fn in peers(subject).items():
        try:
            with exact_products():
                compiled = jax.jit(fn).lower(*sets[0]).compile()
            result = jax.block_until_ready(compiled(*sets[0]))
            ready[name] = compiled
        except FAILURES as failure:
            row.missing[name] = reason(failure)
            continue
        if name == OURS:
            row.moved += sum(a.nbytes for a in jax.tree.leaves(result))
    with _failures(row, "operations"):
        row.operations = _operations(subject, sizes, sets[0])
    _take_turns(ready, sets, row, budget)
    return row


def _operations(subject: Subject, sizes: Sizes, arguments: Sequence[Any]) -> int:
    """The operations by the cost model, at the points that predicates leave."""
    if sum(a.size for a in arguments if not jnp.issubdtype(a.dtype, jnp.floating)) > _POINTS:
        raise NotApplicable("its relations have too many points to count")
    params = subject.function.params
    data = {p.name: np.asarray(a) for p, a in zip(params, arguments, strict=True) if a.dtype in (bool, jnp.int32)}
    return tl.cost(subject.function, **{**sizes, **data})


@contextmanager
def _failures(row: Row, what: str) -> Iterator[None]:
    try:
        yield
    except FAILURES as failure:
        row.missing[what] = reason(failure)


def _take_turns(ready: dict[str, Callable[..., Any]], sets: list[list[Any]], row: Row, budget: float) -> None:
    names = list(ready)
    once = {name: min(_timed(ready[name], sets, len(sets)) for _ in range(2)) for name in names}
    repeats = {name: max(len(sets), min(1000, int(_LEAST / once[name]))) for name in names}
    row.seconds = {name: [] for name in names}
    order, start = random.Random(0), time.perf_counter()
    for _ in range(_ROUNDS):
        for name in order.sample(names, len(names)):
            row.seconds[name].append(_timed(ready[name], sets, repeats[name]))
        if time.perf_counter() - start > budget:
            break


def _timed(run: Callable[..., Any], sets: list[list[Any]], repeats: int) -> float:
    """Seconds of one run among several, of which only the last is waited for: a device runs them in order."""
    start = time.perf_counter()
    for k in range(repeats):
        result = run(*sets[k % len(sets)])
    jax.block_until_ready(result)
    return (time.perf_counter() - start) / repeats


def limits(largest: int = 8192) -> Limits:
    """Measure the card: a large copy, and a large product of matrices."""
    device = jax.devices()[0].device_kind
    x = jnp.ones((4 * largest, largest), jnp.float32)
    bandwidth = 2 * x.nbytes / _best(jax.jit(lambda a: a + 1), x)
    rates = {}
    for dtype in BOUNDS:
        a = jax.random.normal(jax.random.key(0), (largest, largest), dtype)
        with exact_products():
            rates[dtype] = 2 * largest**3 / _best(jax.jit(lambda p, q: p @ q), a, a)
    return Limits(device, bandwidth, rates)


def _best(run: Callable[..., Any], *arguments: Any) -> float:
    jax.block_until_ready(run(*arguments))
    return min(_timed(run, [list(arguments)], 5) for _ in range(5))


def table(rows: Sequence[Row], card: Limits | None) -> str:
    """The rows in Markdown, and the targets for the kernels."""
    head = [
        "program",
        "",
        "dtype",
        "sizes",
        "error",
        "kernels, ms",
        f"{PLAIN} / kernels",
        f"{XLA} / kernels",
        "of limit",
    ]
    lines = ["# Kernels", ""]
    if card is None:
        lines += ["There was no GPU: kernels were interpreted and lowered for an H100, nothing was timed.", ""]
    else:
        rates = ", ".join(f"{rate / 1e12:.0f} TFLOP/s in {dtype}" for dtype, rate in card.rates.items())
        lines += [f"{card.device}: {card.bandwidth / 1e12:.2f} TB/s; {rates}, as measured.", ""]
    lines += [_cells(head), _cells(["---"] * len(head))]
    for row in rows:
        sizes = " ".join(f"{k}={v}" for k, v in row.sizes.items())
        worst = f"{max(row.errors.values()):.1e}{'' if row.is_right else ' WRONG'}" if row.errors else ""
        ours = f"{statistics.median(row.seconds[OURS]) * 1e3:.3f}" if row.seconds.get(OURS) else ""
        ratios = [_number(row.faster(PLAIN)), _number(row.faster(XLA))]
        lines.append(_cells([row.case, row.of, row.dtype, sizes, worst, ours, *ratios, _number(_reached(row, card))]))
    lines += ["", *_verdicts(rows), ""]
    lines += [f"- {row.case}, {row.of}, {row.dtype}: {who}: {why}" for row in rows for who, why in row.missing.items()]
    return "\n".join(lines) + "\n"


def _reached(row: Row, card: Limits | None) -> float | None:
    """The least time that the card's limits allow, divided by the time taken."""
    if card is None or not row.seconds.get(OURS):
        return None
    least = max((row.moved or 0) / card.bandwidth, (row.operations or 0) / card.rates[row.dtype])
    return least / statistics.median(row.seconds[OURS])


def _verdicts(rows: Sequence[Row]) -> list[str]:
    """Whether each target is met: at the largest size, by the program and by its adjoint."""
    lines = []
    for (case, dtype), (rival, wanted) in TARGETS.items():
        for of in ("program", "adjoint"):
            timed = [row for row in rows if (row.case, row.dtype, row.of) == (case, dtype, of)]
            found = timed[-1].faster(rival) if timed else None
            if found is not None:
                says = "met" if found >= wanted else "MISSED"
                lines.append(f"- {case}, {of}, {dtype}: {found:.2f} times as fast as {rival}, wanted {wanted}: {says}")
    return lines


def _cells(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def has_gpu() -> bool:
    """Whether JAX computes on a GPU."""
    return jax.default_backend() == "gpu"


def check(subject: Subject, dtype: str) -> Row:
    """The checks that need no GPU: numbers in the interpreter, and that code for GPUs is made."""
    sizes = subject.case.odd
    row = Row(subject.case.name, subject.of, dtype, dict(sizes))
    with _failures(row, OURS):
        row.errors["odd"] = compare(subject, sizes, dtype)
        code = for_gpu(subject, cast(subject.arguments(sizes, 0), dtype))
        if "mosaic_gpu" not in code and "triton" not in code:
            row.missing[OURS] = "no kernel is left of it"
    return row


def for_gpu(subject: Subject, arguments: Sequence[Any]) -> str:
    """The kernels for these arguments as XLA for GPUs gets them, with their code in it; no GPU is needed."""
    f = subject.function
    namespace: dict[str, Any] = {}
    exec(compile(tl.lower(f, target="pallas-gpu").source, f"<{f.name}>", "exec"), namespace)
    return lowered_for_gpu(namespace[f.name], arguments).as_text()


def lowered_for_gpu(fn: Callable[..., Any], arguments: Sequence[Any], card: str = "NVIDIA H100") -> Any:
    """`fn` for these arguments, or arrays like them, as JAX lowers it for a GPU; no GPU is needed."""
    with as_if_on(card):
        return jax.jit(fn).trace(*arguments).lower(lowering_platforms=("cuda",))


CARDS = {"NVIDIA H100": "9.0", "NVIDIA B200": "10.0"}
"""The GPUs for which kernels can be made without having one, and their compute capabilities."""


def as_if_on(card: str) -> AbstractContextManager[Any]:
    """A context in which kernels are made, and lowered, for one of `CARDS`."""
    if jax.__version_info__ < (0, 11):  # JAX has no kind of GPU to lower for
        return nullcontext()

    class Card(jax.sharding.AbstractDevice):  # type: ignore[misc]
        compute_capability = CARDS[card]

    device = Card(device_kind=card, num_cores=None, platform="gpu")
    return jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), (), abstract_device=device))


@click.command()
@click.option("--only", default="", help="Only the programs whose names contain this.")
@click.option("--quick", is_flag=True, help="Of the sizes for GPUs only the smallest; without a GPU: float32 alone.")
@click.option("--budget", default=3.0, show_default=True, help="Seconds of rounds for each row; 15 rounds at most.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("out/benchmarks"), show_default=True)
def main(only: str, quick: bool, budget: float, out: Path) -> None:
    """Check kernels, and on a GPU time them beside XLA."""
    chosen = [case for case in KERNELS if only in case.name]
    if not chosen:
        raise click.BadParameter(f"no program's name contains {only!r}", param_hint="--only")
    out.mkdir(parents=True, exist_ok=True)
    subjects = [Subject(case, of) for case in chosen for of in ("program", "adjoint")]
    rows: list[Row] = []
    card = None
    if has_gpu():
        card = limits()
        for subject in tqdm(subjects, desc="kernels"):
            rows += _on_gpu(subject, quick, budget)
            _save(rows, card, out)
    else:
        click.echo("There is no GPU here: kernels are interpreted at small sizes, and nothing is timed.")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that they are interpreted
            for subject in tqdm(subjects, desc="kernels, interpreted"):
                rows += [check(subject, dtype) for dtype in (["float32"] if quick else BOUNDS)]
    click.echo(_save(rows, card, out))
    if not all(row.is_right for row in rows):
        raise SystemExit(1)


def _on_gpu(subject: Subject, quick: bool, budget: float) -> Iterator[Row]:
    sizes = subject.case.sizes[1:2] if quick else subject.case.sizes[1:]
    for dtype in BOUNDS:
        for at in sizes:
            row = measure(subject, at, dtype, budget)
            with _failures(row, "odd sizes"):
                row.errors["odd"] = compare(subject, subject.case.odd, dtype)
            if (row.moved or 0) * 8 // jnp.dtype(dtype).itemsize < _LARGEST:
                with _failures(row, "the size that is timed"):
                    row.errors["timed"] = compare(subject, at, dtype)
            yield row


def _save(rows: Sequence[Row], card: Limits | None, out: Path) -> str:
    text = table(rows, card)
    data = {"environment": environment(), "card": asdict(card) if card else None, "rows": [asdict(r) for r in rows]}
    (out / "kernels.json").write_text(json.dumps(data, indent=1))
    (out / "kernels.md").write_text(text)
    return text


if __name__ == "__main__":
    main()
