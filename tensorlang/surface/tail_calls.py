"""Functions that call themselves only in tail position, as loops."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from typing import Any


def calls_itself(tree: ast.FunctionDef) -> bool:
    """Whether a function calls itself by its name."""
    return any(
        isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == tree.name for n in ast.walk(tree)
    )


def without_tail_calls(tree: ast.FunctionDef, refuse: Callable[[ast.AST, str, str], Any]) -> ast.FunctionDef:
    """A function that calls itself only in tail position, as a loop: the call assigns its arguments to the parameters
    and goes back to the start."""
    tree = copy.deepcopy(tree)
    params = [a.arg for a in tree.args.args]

    def own(e: ast.AST | None) -> bool:
        return isinstance(e, ast.Call) and isinstance(e.func, ast.Name) and e.func.id == tree.name

    def changed(statements: list[ast.stmt], in_loop: bool) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for given in statements:
            s = given
            if isinstance(s, ast.Return) and isinstance(s.value, ast.IfExp) and any(map(own, ast.walk(s.value))):
                one, other = (ast.copy_location(ast.Return(v), s) for v in (s.value.body, s.value.orelse))
                s = ast.copy_location(ast.If(s.value.test, [one], [other]), given)
            if isinstance(s, ast.Return) and isinstance(s.value, ast.Call) and own(s.value):
                if in_loop or len(s.value.args) != len(params) or s.value.keywords:
                    refuse(s, "a call of itself inside of a loop, or without all its arguments", "while instead of it")
                targets = [ast.Name(p, ast.Store()) for p in params]
                step = ast.Assign([ast.Tuple(list(targets), ast.Store())], ast.Tuple(list(s.value.args), ast.Load()))
                if len(params) == 1:
                    step = ast.Assign([targets[0]], s.value.args[0])
                made += [ast.copy_location(step, s), ast.copy_location(ast.Continue(), s)]
                continue
            if isinstance(s, ast.If | ast.For | ast.While):
                inside = in_loop or not isinstance(s, ast.If)
                s.body, s.orelse = changed(s.body, inside), changed(s.orelse, inside)
            made.append(s)
        return made

    body = changed(tree.body, False)
    for node in (n for s in body for n in ast.walk(s)):
        if own(node):
            refuse(node, "it calls itself, and goes on afterwards", "a call that is returned as it is, or a loop")
    tree.body = [ast.copy_location(ast.While(ast.Constant(True), body, []), tree.body[0])]
    return ast.fix_missing_locations(tree)
