"""The command `tensorlang`: programs in `.tl` files, from a shell.

Exit status: 0 when all went well, 1 for an error in a program or its arguments, 2 for a wrong command line.
Errors go to standard error, as `error: ...`.
"""

from __future__ import annotations

import math
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import tensorlang as tl
from tensorlang import shown
from tensorlang.console import (
    Commands,
    data_of,
    format_option,
    inputs,
    print_function,
    print_json,
    program,
    read_program,
    read_programs,
    refuse_unknown_sizes,
    size,
    write_text,
    wrt,
)
from tensorlang.errors import ArgumentError, CertificateError, CostBoundExceeded, TensorlangError

if TYPE_CHECKING:
    from tensorlang.checks import Checked
    from tensorlang.language.function import Function
    from tensorlang.lowering.explain import Explained


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(tl.__version__, prog_name="tensorlang")
def main() -> None:
    """Differentiate tensor programs by rewriting, count what they cost, and run them.

    FILE is a text of definitions, - for standard input. NAME picks one definition of several: FILE:NAME.

    \b
    Example:
      tensorlang adjoint examples/deblur.tl --wrt x
    """


@main.command()
@program
@wrt
@format_option("text", "unicode", "latex", "json")
def adjoint(program: str, wrt: tuple[str, ...] | None, style: str) -> None:
    """Print the adjoint (reverse derivative), a program like any other.

    It takes the parameters, then the cotangent of the result. Its text can be read back:

    \b
    Example:
      tensorlang adjoint loss.tl --wrt x | tensorlang cost - --size n=100 --size m=5
    """
    print_function(tl.adjoint(read_program(program), wrt=wrt), style)


@main.command()
@program
@wrt
@size
@inputs
@format_option("text", "unicode", "latex", "json")
@click.option("--html", "page", metavar="OUT.html", help="Write a page to step through instead of printing.")
def derive(
    program: str,
    wrt: tuple[str, ...] | None,
    sizes: dict[str, int],
    inputs: str | None,
    style: str,
    page: str | None,
) -> None:
    """Print how the adjoint is derived, step by step.

    Each step names its rule, what it rewrites, and to what. With sizes, also what that costs before and after, and
    what the program and its adjoint cost.

    \b
    Example:
      tensorlang derive loss.tl --wrt x --size n=100 --size m=5
      tensorlang derive loss.tl --html loss.html
    """
    from tensorlang import checks
    from tensorlang.derivatives.transcript import tell, transcript

    f = read_program(program)
    refuse_unknown_sizes(sizes, [f])
    derivation = tl.derive(f, wrt=wrt)
    given = data_of(f, inputs)
    counted = bool(sizes or given or not f.sizes)
    data = {**given, **sizes} if counted else None
    if page is not None:
        write_text(Path(page), shown.page(derivation.at(**data) if data else derivation))
        return
    charge = checks.charge(f, derivation.adjoint, sizes, given) if counted else None
    if style == "json":
        steps = [
            {
                "number": step.rule.number,
                "name": step.rule.name,
                "law": step.rule.law,
                "before": step.before,
                "made": step.made,
                "after": step.after,
                "cost": step.cost,
            }
            for step in tell(derivation, data)
        ]
        costs = charge.as_json() if charge else {}
        print_json({"program": str(f), "steps": steps, "adjoint": str(derivation.adjoint), **costs})
        return
    click.echo(transcript(derivation, data, style).rstrip())
    if charge:
        click.echo(f"\n{'% ' if style == 'latex' else ''}{charge}")


@main.command()
@click.argument("programs", metavar="FILE[:NAME]...", nargs=-1, required=True)
@wrt
@size
@inputs
@click.option(
    "--bound", metavar="B", type=click.FloatRange(min=0), help="Fail if an adjoint costs more than B times its program."
)
@click.option("--certificates", metavar="FOLDER", help="Write a certificate NAME.json for each definition.")
@click.option("--accept-sampled", is_flag=True, help="End with status 0 where a bound was counted at small sizes only.")
@click.option("--compiled", is_flag=True, help="Also count what XLA makes of the program and its adjoint.")
@format_option("text", "json")
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
def check(
    programs: tuple[str, ...],
    wrt: tuple[str, ...] | None,
    sizes: dict[str, int],
    inputs: str | None,
    bound: float | None,
    certificates: str | None,
    accept_sampled: bool,
    compiled: bool,
    style: str,
    as_json: bool,
) -> None:
    """Check every definition of some files, and what its adjoint costs.

    Names, types and sizes are checked, and that no access leaves its array. With sizes, also count what each
    definition costs, what its adjoint costs, and their ratio; with --compiled also the operations and temporaries of
    the compiled programs there, beside what the cost model counts.

    With --bound B and no sizes, it is proved that at all sizes the adjoint costs at most B times its program, inputs
    and outputs counted; with sizes, it is counted that there it costs at most B times its program and one more for
    each number of the result. Status 1 if one costs more, 3 if a bound could not be decided for all sizes, but only
    be counted at small ones, unless --accept-sampled is given.

    \b
    Example:
      tensorlang check loss.tl model.tl --bound 4
      tensorlang check loss.tl --compiled --size n=100 --size m=5
    """
    functions = [f for program in programs for f in read_programs(program)]
    refuse_unknown_sizes(sizes, functions)
    if certificates is not None and bound is None:
        raise click.UsageError("--certificates goes with --bound")
    if compiled and not sizes and any(f.sizes for f in functions):
        raise click.UsageError("--compiled needs sizes")
    reports = [_checked(f, _present(wrt, f), sizes, inputs, bound, compiled) for f in functions]
    for report in reports:
        if certificates is not None and report.certificate is not None:
            write_text(Path(certificates) / f"{report.function.name}.json", report.certificate.to_json())
    if style == "json" or as_json:
        print_json([report.as_json() for report in reports])
    else:
        click.echo("\n".join(map(str, reports)))
    excesses = [report.excess for report in reports if report.excess is not None]
    if excesses:
        raise TensorlangError("\n".join(excesses))
    certified = [report.certificate for report in reports if report.certificate is not None]
    if not accept_sampled and not all(certificate.is_decided for certificate in certified):
        click.get_current_context().exit(3)


def _checked(
    f: Function,
    wrt: tuple[str, ...] | None,
    sizes: dict[str, int],
    inputs: str | None,
    bound: float | None,
    compiled: bool,
) -> Checked:
    from tensorlang import checks

    if not f.variables:
        return checks.Checked(f)
    data = data_of(f, inputs)
    found = checks.Checked(f)
    if sizes or inputs is not None or not f.sizes:
        found = replace(found, charge=checks.charge(f, tl.adjoint(f, wrt=wrt), sizes, data))
        if bound is not None and found.charge is not None and found.charge.exceeds(bound):
            allowed = f"{bound:g} * {found.charge.program} + {found.charge.results}"
            excess = f"{f.name}: the adjoint costs {found.charge.adjoint}, more than {allowed}"
            return replace(found, excess=excess)
    if bound is not None and not sizes:
        try:
            found = replace(found, certificate=tl.certify(f, bound, wrt))
        except (CertificateError, CostBoundExceeded) as error:
            return replace(found, excess=f"{f.name}: {error.told()}")
    return replace(found, compiled=checks.compiled(f, wrt, sizes, data)) if compiled else found


@main.command()
@program
@size
@inputs
@click.option("--polynomial", is_flag=True, help="Count for all sizes: exactly, as a piecewise polynomial in them.")
@format_option("text", "json")
def cost(program: str, sizes: dict[str, int], inputs: str | None, polynomial: bool, style: str) -> None:
    """Count what a program costs at given sizes, or for all sizes.

    That is the number of its additions, multiplications and scalar functions (Figure 6). Relations and
    index arrays are read from --inputs.

    \b
    Example:
      tensorlang cost loss.tl --size n=100 --size m=5
      tensorlang cost loss.tl --polynomial
    """
    if polynomial and (sizes or inputs is not None):
        raise click.UsageError("--polynomial is for all sizes, and goes with neither --size nor --inputs")
    f = read_program(program)
    if polynomial:
        found = tl.cost_polynomial(f)
        if style == "json":
            print_json({"name": f.name, "cost": str(found), "growth": found.growth})
        else:
            click.echo(f"{found}\n{found.growth}")
        return
    refuse_unknown_sizes(sizes, [f])
    counted = tl.cost(f, {**data_of(f, inputs), **sizes})
    if style == "json":
        print_json({"name": f.name, "sizes": sizes, "cost": counted})
    else:
        click.echo(counted)


@main.command()
@program
@click.option("--adjoint", "of_adjoint", is_flag=True, help="Lower the adjoint instead of the program.")
@wrt
@click.option("--target", default="jax", show_default=True, help="What to generate code for.")
@click.option("--exact", is_flag=True, help="Keep to sums of products where Fourier transforms would be faster.")
@click.option("--strict", is_flag=True, help="What brackets hide has no influence, even if it is nan or inf.")
@click.option(
    "--stage",
    type=click.Choice(["plan", "arrays", "definition", "source"]),
    default="source",
    show_default=True,
    help="What to print: which arrays there are, which operations compute them, the function, or all of its module.",
)
@click.option("--explain", is_flag=True, help="Print how each array is stored and computed, and why, not the source.")
@size
@format_option("text", "json")
def lower(
    program: str,
    of_adjoint: bool,
    wrt: tuple[str, ...] | None,
    target: str,
    exact: bool,
    strict: bool,
    stage: str,
    explain: bool,
    sizes: dict[str, int],
    style: str,
) -> None:
    """Print the Python source that runs a program, or its adjoint.

    \b
    Example:
      tensorlang lower loss.tl --adjoint --wrt x > loss_adjoint.py
    """
    if wrt is not None and not of_adjoint:
        raise click.UsageError("--wrt goes with --adjoint")
    f = read_program(program)
    if of_adjoint:
        f = tl.adjoint(f, wrt=wrt)
    if sizes and not explain:
        raise click.UsageError("--size goes with --explain")
    lowered = tl.lower(f, target=target, exact=exact, strict=strict)
    if explain:
        explanation = lowered.explain(sizes)
        if style == "json":
            steps = [*map(_step_data, explanation.steps)]
            print_json({"name": f.name, "target": target, "steps": steps, "notes": [*explanation.notes]})
        else:
            click.echo(str(explanation))
        return
    text = str(getattr(lowered, {"arrays": "array_program"}.get(stage, stage)))
    if style == "json":
        print_json({"name": f.name, "target": target, stage: text})
    else:
        click.echo(text.rstrip("\n"))


def _step_data(step: Explained) -> dict[str, Any]:
    decisions = [
        {"depth": depth, "of": d.text, "chosen": d.chosen, "law": d.law, "rejected": dict(d.rejected)}
        for root in step.decisions
        for depth, d in root.walk()
    ]
    about = {"name": step.name, "statement": step.text, "stored": step.storage, "kept": step.kept, "cost": step.cost}
    return {**about, "decisions": decisions}


@main.command()
@format_option("text", "json")
def tune(style: str) -> None:
    """Measure on this machine where one way of computing overtakes another.

    It takes about a minute, in which nothing else should run. The thresholds are written to a file in the user's
    configuration directory, or to that which the environment variable TENSORLANG_COSTS names; code that is generated
    from then on goes by it.
    """
    from tensorlang.lowering import costs
    from tensorlang.measure import tuning

    with click.progressbar(length=tuning.STEPS, label="measuring", file=sys.stderr) as bar:
        table = tuning.measured(lambda: bar.update(1))
    where = costs.save(table)
    if style == "json":
        print_json({"file": str(where), "thresholds": table})
    else:
        click.echo(f"{tuning.report(table)}\nwritten to {where}")


@main.command()
@click.option("--clear", is_flag=True, help="Remove all of it.")
@format_option("text", "json")
def cache(clear: bool, style: str) -> None:
    """Say what is kept on disk so that a later process need not derive it again, and where.

    It is in the user's cache directory, or in that which the environment variable TENSORLANG_CACHE names; with
    TENSORLANG_CACHE=off nothing is kept.
    """
    from tensorlang import disk

    if clear:
        disk.clear()
    where = disk.place()
    entries, taken = disk.usage()
    used = disk.directory() is not None
    if style == "json":
        about = {"directory": where and str(where), "used": used, "entries": entries, "bytes": taken, "most": disk.MOST}
        print_json(about)
    elif where is None:
        click.echo("nothing is kept on disk")
    elif not used:
        click.echo(f"{where} is not used: it must be a directory of this user's that nobody else may write to")
    else:
        click.echo(f"{where}\n{entries} entries, {taken:,} of at most {disk.MOST:,} bytes")


@main.command()
@program
@inputs
@size
@click.option("--out", metavar="Y.npz", help="Write the result there, as `result`, or `result.0`, `result.1`, ...")
@click.option(
    "--reference", is_flag=True, help="Use the reference evaluator (NumPy, float64) instead of compiled code."
)
@format_option("text", "json")
def run(program: str, inputs: str | None, sizes: dict[str, int], out: str | None, reference: bool, style: str) -> None:
    """Run a program on arrays, and print or write its result.

    \b
    Example:
      tensorlang run loss.tl --inputs x.npz --out y.npz
    """
    import numpy as np

    from tensorlang.files import arguments, flat, read_arrays, write_arrays

    f = read_program(program)
    refuse_unknown_sizes(sizes, [f])
    given = arguments(f, read_arrays(inputs) if inputs is not None else {}, inputs or "an empty set of inputs")
    given.update(sizes)
    results = flat(tl.evaluate(f, **given), "result") if reference else _compiled(f, given)
    if out is not None:
        write_arrays(out, results)
    elif style == "json":
        print_json({name: _plain(values) for name, values in results.items()})
    else:
        for name, values in results.items():
            shown = np.array2string(values, separator=", ")
            click.echo(shown if len(results) == 1 else f"{name} = {shown}")


@main.command()
@click.option("--port", type=click.IntRange(0, 65535), default=8123, show_default=True, help="0 is any that is free.")
@click.option("--open/--no-open", "opens", default=True, show_default=True, help="Whether to open a browser.")
def play(port: int, opens: bool) -> None:
    """Write programs on a page, with all that is known of them beside.

    The page shows the adjoint, costs, the derivation step by step, the certificate and the source while you type, and
    runs programs. It is for this machine alone, and ends with Ctrl-C.
    """
    import webbrowser

    from tensorlang.play.server import serve

    def started(address: str) -> None:
        click.echo(address)
        if opens:
            webbrowser.open(address)

    serve(port, started)


@main.command()
@click.argument("where", metavar="FILE.py[::FUNCTION] | FOLDER | MODULE")
@click.option("--shapes", metavar='"x: n, A: n n"', help="The arguments' shapes, where no comment says them.")
@click.option("--wrt", metavar="0,1,...", help="The numbers of the arguments that are differentiated, by default all.")
@click.option("--at", "sizes", type=int, nargs=2, help="What the sizes are; by default 48 and 192, then 192 and 1536.")
@click.option(
    "--factor", type=float, default=4, show_default=True, help="Report factors that do not grow from here on."
)
@click.option("--compiled", is_flag=True, help="Report what XLA's operations confirm only.")
@format_option("text", "json", "github", "sarif")
def lint(
    where: str,
    shapes: str | None,
    wrt: str | None,
    sizes: tuple[int, int] | None,
    factor: float,
    compiled: bool,
    style: str,
) -> None:
    """Tell which gradients of JAX functions do more work than they need, and where.

    JAX's gradient is counted beside the derived one, at two sizes, and if it is fine there, at larger ones. WHERE is
    FILE.py::function, or a file, a folder, or the name of a module or package, of which every function is looked at
    above which a comment gives the shapes: # lint: x: n, A: n n. The exit status is 1 if there is a finding.

    \b
    Example:
      tensorlang lint model.py::loss --shapes "x: n, A: n n" --compiled
    """
    from tensorlang.jaxprs import formats
    from tensorlang.jaxprs.lint import lint as linted

    if wrt is not None and not re.fullmatch(r"\s*\d+\s*(,\s*\d+\s*)*", wrt, re.ASCII):
        raise click.BadParameter(f"{wrt!r} is no list of argument numbers, such as 0,2")
    argnums = None if wrt is None else tuple(map(int, wrt.split(",")))
    reports = [
        linted(fun, *given, argnums=argnums, sizes=sizes, compiled=compiled, factor=factor)
        for fun, given in formats.functions_in(where, shapes)
    ]
    if style == "text":
        click.echo(formats.as_text(reports))
    elif style == "github":
        click.echo(formats.as_github(reports))
    else:
        print_json(formats.as_json(reports) if style == "json" else formats.as_sarif(reports))
    if any(report.findings for report in reports):
        sys.exit(1)


def _present(wrt: tuple[str, ...] | None, f: Function) -> tuple[str, ...] | None:
    """Those names of `wrt` that are parameters of `f`; all of `wrt` if none is, for the error that this causes."""
    if wrt is None:
        return None
    return tuple(name for name in wrt if any(v.name == name for v in f.variables)) or wrt


def _compiled(f: Function, given: dict[str, Any]) -> dict[str, Any]:
    """What compiled code gives, in double precision where the arrays are."""
    import jax

    from tensorlang.files import flat

    try:
        with jax.enable_x64(True):
            value = f(**given)
            for part in jax.tree.leaves(value):
                part.block_until_ready()  # reading an array that could not be made would end the process
            return flat(value, "result")
    except jax.errors.JaxRuntimeError as error:
        raise ArgumentError(f"{f.name} can't be run: {str(error).splitlines()[0]}") from error


def _plain(values: Any) -> Any:
    """Nested lists of numbers; what JSON has no number for is spelt as text: "nan", "inf", "-inf"."""
    if values.ndim:
        return [_plain(part) for part in values]
    number = values.item()
    return number if math.isfinite(number) else str(number)
