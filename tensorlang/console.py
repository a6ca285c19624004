"""What the commands of `tensorlang` share: options, reading programs, and printing results."""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import tensorlang as tl
from tensorlang.errors import ArgumentError, ScopeError, TensorlangError

if TYPE_CHECKING:
    from tensorlang.language.function import Function


class Commands(click.Group):
    """A group of commands that reports the errors users cause in one line each, without a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; end with status 1 on an error that a user can cause."""
        try:
            return super().invoke(ctx)
        except TensorlangError as error:
            message = error.told()
        except UnicodeEncodeError as error:
            message = f"the output's encoding, {error.encoding}, can't hold {error.object[error.start]!a}"
        except MemoryError:
            message = "not enough memory"
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise
            message = f"can't write the output: {error.strerror}"
        click.echo(f"error: {message}", err=True)
        ctx.exit(1)


def _sizes(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for text in texts:
        found = re.fullmatch(r"\s*([A-Za-z_]\w*)\s*=\s*(\d{1,18})\s*", text, re.ASCII)
        if not found:
            raise click.BadParameter(f"{text!r} is not a size: expected NAME=NUMBER, such as n=100", ctx, param)
        name, value = found[1], int(found[2])
        if sizes.setdefault(name, value) != value:
            raise click.BadParameter(f"{name} is given twice, as {sizes[name]} and {value}", ctx, param)
    return sizes


def _names(ctx: click.Context, param: click.Parameter, text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(name.strip() for name in text.split(","))


def format_option(*choices: str) -> Callable[[Any], Any]:
    """The option that says how a command prints what it has found."""
    return click.option(
        "--format", "style", type=click.Choice(choices), default="text", show_default=True, help="How to print it."
    )


program = click.argument("program", metavar="FILE[:NAME]")
wrt = click.option(
    "--wrt", metavar="A,B,...", callback=_names, help="Differentiate by these parameters, by default by all."
)
size = click.option(
    "--size", "sizes", metavar="NAME=NUMBER", multiple=True, callback=_sizes, help="A size. Give it once for each."
)
inputs = click.option(
    "--inputs", metavar="X.npz", help="Arrays, named as the parameters; a pair x is held as x.0 and x.1."
)


def data_of(f: Function, path: str | None) -> dict[str, Any]:
    """The data of `f`'s relations and index arrays, from the archive `path`."""
    from tensorlang.files import read_arrays

    names = [p.name for p in f.params if p not in f.variables]
    if not names or path is None:
        return {}
    arrays = read_arrays(path)
    return {name: arrays[name] for name in names if name in arrays}


def read_programs(where: str) -> list[Function]:
    """The definition that FILE:NAME names, or all of FILE's."""
    from tensorlang.files import read_text, split_name

    path, name = split_name(where)
    source = "<stdin>" if path == "-" else path
    functions: dict[str, Function] = tl.parse_module(read_text(path), source)
    known = ", ".join(functions) or "none"
    if name is None:
        return list(functions.values())
    if name not in functions:
        raise ScopeError(f"{source} has no definition {name!r}; it has {known}")
    return [functions[name]]


def read_program(where: str) -> Function:
    """The definition that FILE:NAME names, or the only one of FILE."""
    functions = read_programs(where)
    if not functions:
        raise ScopeError(f"{where} has no definition")
    if len(functions) > 1:
        known = ", ".join(f.name for f in functions)
        hint = f"name one of them, such as {where}:{functions[0].name}"
        raise ScopeError(f"{where} has several definitions: {known}", hint=hint)
    return functions[0]


def refuse_unknown_sizes(sizes: dict[str, int], functions: list[Function]) -> None:
    """Raise `ArgumentError` for a size that no function has."""
    known = list(dict.fromkeys(s.name for f in functions for s in f.sizes))
    for name in sizes:
        if name not in known:
            raise ArgumentError(f"there is no size {name}; the program's sizes are {', '.join(known) or 'none'}")


def write_text(path: Path, text: str) -> None:
    """Write a file, and the folder that it is in."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ArgumentError(f"can't write {path}: {error.strerror}") from None


def print_function(f: Function, style: str) -> None:
    """Print a program, as `style` says."""
    from tensorlang.language.grammar import type_of
    from tensorlang.language.latex import function_latex
    from tensorlang.language.predicates import Relation

    if style != "json":
        printers: dict[str, Callable[[Function], str]] = {
            "text": str,
            "unicode": tl.unicode_text,
            "latex": function_latex,
        }
        click.echo(printers[style](f))
        return
    params = [
        {"name": p.name, "type": f"rel({', '.join(map(str, p.sizes))})" if isinstance(p, Relation) else str(type_of(p))}
        for p in f.params
    ]
    print_json({"name": f.name, "params": params, "type": str(f.type), "text": str(f)})


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    click.echo(json.dumps(value, indent=2, allow_nan=False))
