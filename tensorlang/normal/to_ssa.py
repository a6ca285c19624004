"""Figures 11 and 12: from flattened tensor code to tensor SSA.

S(i, p, e) translates gen i. [p] * e; its value is 0 wherever p is false.

    5.25, 5.26  let x = e0 in e1             ->  let X = S(e0) in [x := X] S(e1)
    5.27   S(i, p, gen j. e)                 ->  S(i j, p, e)
    5.28   S(i, p0, [p1]*e)                  ->  S(i, p0 and p1, e)
    5.29   S(i, p, c)                        ->  C = gen i. c;  gen g. sum i. [p and g = i] * C[i]
    5.30   S(g, p, x[a0..ak])                ->  gen g. sum i0..ik. [p and i0 = a0 and .. and ik = ak] * X[i0..ik]
    5.31   S(i, p, [p0]*e0 + [p1]*e1)        ->  X0 = S(i, p and p0, e0);  X1 = S(i, p and p1, e1);
                                                 gen i. [p and p0]*X0[i] + [p and p1]*X1[i]
    5.32   S(i, p, e0 * e1)                  ->  X0 = S(i, p, e0);  X1 = S(i, p, e1);
                                                 gen g. sum i0, i1. [p and g = i0 = i1] * X0[i0] * X1[i1]
    5.33   S(i, p, f(e..))                   ->  Xk = S(i, p, ek);  gen g. [p] * f(X0[g], ..)
    5.34   S(i, p, sum j..k. [q]*e)          ->  X = S(i j..k, p and q, e);
                                                 gen g. sum i, j..k. [p and q and g = i] * X[i, j..k]
    S(i, p, e0 < e1)                 ->  Xk = S(i, p, ek);  K = gen g. [p] * (X0[g] < X1[g])        for a let alone
    S(i, p, max j where q. e)                ->  X = S(i j, p and q, e);  K = gen g. [p] * argmax j where q. X[g, j];
                                                 gen g. sum i, j. [p and g = i and j = K[g]] * X[i, j]

An operand that is read under the predicate under which it was made need not be masked, and then a plain access X[i] is
X itself (the paper's fix-up for extraneous variables); a constant factor is a number, not an array.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tensorlang.budget import limited
from tensorlang.errors import NormalFormError
from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Lookup, atom_affine
from tensorlang.language.function import Function
from tensorlang.language.grammar import (
    Access,
    Add,
    Apply,
    Bracket,
    Call,
    Choice,
    Compared,
    Const,
    Expr,
    Extremum,
    Gen,
    Integer,
    Let,
    MakePair,
    Mul,
    Proj,
    Recur,
    Sum,
    Var,
)
from tensorlang.language.lets import bindings
from tensorlang.language.predicates import TRUE, Predicate, conjunction, disjunction, equal, substitute
from tensorlang.language.recurrence import WHOLE, whole_word
from tensorlang.language.types import shape
from tensorlang.normal.as_program import to_function
from tensorlang.normal.pattern import axes, renamed, renamed_affine
from tensorlang.normal.ssa import (
    SSA,
    Addend,
    Addition,
    Comparison,
    Constant,
    Contraction,
    Defining,
    Input,
    Map,
    Outputs,
    Selection,
    Statement,
    comparison,
    integers,
    operands,
    selection,
)
from tensorlang.recursion import Deep, call, run


@limited
def to_ssa(f: Function) -> Function:
    """`f`, whose gens must be outermost, in tensor SSA (5.25 to 5.34); the same meaning, at no more cost.

    Raises `NormalFormError` if `f` is not in the form that `push_out_gen` gives.

    >>> f = tl.parse("f(x: [n]R) = sum i:n. x[i]^2")
    >>> print(tl.to_ssa(f))
    f(x: [n]R) =
      let X0 = gen i:n. x[i] ^ 2 in
      let X1 = sum i:n. X0[i] in
      X1
    """
    return to_function(ssa_of(f))


def ssa_of(f: Function) -> SSA:
    """`to_ssa(f)` as a list of statements.

    Raises `NormalFormError` if `f` is not in the form that `push_out_gen` gives.
    """
    builder = StatementBuilder({p for p in f.params if isinstance(p, Var)})
    given, body = bindings(f.body)
    for x, value in given:
        builder.bind(x, value)
    outputs = run(_outputs(builder, body))
    return SSA(f.name, f.params, tuple(builder.statements), outputs, builder.names, f.results)


def _outputs(builder: StatementBuilder, e: Expr) -> Deep[Outputs]:
    if isinstance(e, MakePair):
        return (yield from call(_outputs(builder, e.first))), (yield from call(_outputs(builder, e.second)))
    return builder.translate(e)


@dataclass(frozen=True, eq=False)
class _Scope:
    """The i and p of S(i, p, e): each index of the program in terms of the canonical axes, and p."""

    env: dict[Atom, Affine]
    sizes: tuple[Affine, ...]
    pred: Predicate
    siblings: dict[Predicate, _Scope] = field(default_factory=dict)

    def under(self, p: Predicate) -> _Scope:
        """The scope with `p` as its predicate; one object for each `p`, since it is a part of memo keys."""
        if p is self.pred:
            return self
        if p not in self.siblings:
            self.siblings[p] = _Scope(self.env, self.sizes, p, self.siblings)
        return self.siblings[p]


_Done = dict[tuple[Expr, _Scope, Predicate], Statement]
"""S(i, p, e) for readers that read it only where a further predicate holds."""


class StatementBuilder:
    """Translates expressions to statements, in order; each statement is listed once."""

    def __init__(self, params: set[Var]) -> None:
        self.params = params
        self.statements: dict[Statement, None] = {}
        self.names: dict[Statement, str] = {}
        self.values: dict[Var, Statement] = {}
        self.arrays: dict[Atom, Affine] = {}

    def emit(self, x: Statement) -> Statement:
        """List `x`, unless it is listed already."""
        self.statements.setdefault(x)
        return x

    def include(self, x: Statement) -> Statement:
        """List `x` after all statements that it reads."""
        stack = [x]
        while stack:
            y = stack[-1]
            missing = [z for z in operands(y) if z not in self.statements]
            if missing and y not in self.statements:
                stack += missing
            else:
                self.emit(stack.pop())
        return x

    def bind(self, x: Var | IndexArray, e: Expr) -> None:
        """let x = e (5.25)."""
        if isinstance(x, IndexArray):
            self.arrays[Lookup(x, ())] = atom_affine(Lookup(self._choice(e, x.name).array, ()))
            return
        made = self.values[x] = self.translate(e)
        if not isinstance(made, Input | Constant):
            self.names.setdefault(made, x.name)

    def translate(self, e: Expr) -> Statement:
        """S(i, true, e) for e = gen i. e' (5.27)."""
        e, scope = self._under_gens(e)
        return run(self._translate(e, scope, TRUE, {}))

    def translate_element(self, e: Expr, sizes: tuple[Affine, ...], pred: Predicate) -> Statement:
        """S(i, p, e) for a scalar e over the canonical axes, to be read only where `pred` holds."""
        return run(self._translate(e, _Scope({}, sizes, pred), pred, {}))

    def _under_gens(self, e: Expr) -> tuple[Expr, _Scope]:
        env = dict(self.arrays)
        sizes: list[Affine] = []
        while isinstance(e, Gen):
            env[e.index] = atom_affine(axes(len(sizes), 1)[0])
            sizes.append(e.size)
            e = e.body
        if not sizes:
            sizes = list(shape(e.type)[0])  # eta: an array that is no gen is gen j. e[j]
            e = _elements(e, len(sizes))
        return e, _Scope(env, tuple(sizes), TRUE)

    def _choice(self, e: Expr, name: str) -> Defining:
        """The statement for gen i. [p] * argmax j where q. e, or for gen i. [p] * (e0 < e1)."""
        e, scope = self._under_gens(e)
        if isinstance(e, Bracket):
            scope = scope.under(substitute(e.pred, scope.env))
            e = e.body
        if isinstance(e, Compared):
            return run(self._comparison(e, scope, name))
        if not isinstance(e, Choice):
            raise NormalFormError(
                f"{name} is bound to indices, so to a choice or a comparison under gens and a bracket; found none"
            )
        return run(self._selection(e, scope, {}, name))

    def _comparison(self, e: Compared, scope: _Scope, name: str) -> Deep[Comparison]:
        left = yield from call(self._translate(e.left, scope, scope.pred, {}))
        right = yield from call(self._translate(e.right, scope, scope.pred, {}))
        made = comparison(e.op, scope.pred, left, right, name)
        self.emit(made)
        return made

    def _selection(self, e: Choice | Extremum, scope: _Scope, done: _Done, name: str = "k") -> Deep[Selection]:
        env = {**scope.env, e.index: atom_affine(axes(len(scope.sizes), 1)[0])}
        q = substitute(e.pred, env)
        both = conjunction([scope.pred, q])
        operand = yield from call(self._translate(e.body, _Scope(env, (*scope.sizes, e.size), both), both, done))
        made = selection(e.sign, scope.pred, q, operand, name)
        self.emit(made)
        return made

    def _translate(self, e: Expr, scope: _Scope, mask: Predicate, done: _Done) -> Deep[Statement]:
        """S(i, p, e), for a reader that reads it only where `mask` holds."""
        key = (e, scope, mask)
        if key not in done:
            done[key] = yield from call(self._statement(e, scope, mask, done))
        return done[key]

    def _statement(self, e: Expr, scope: _Scope, mask: Predicate, done: _Done) -> Deep[Statement]:
        p, sizes = scope.pred, scope.sizes
        g = axes(0, len(sizes))
        match e:
            case Const(value):  # 5.29
                made = self.emit(Constant(value, sizes))
                return made if p is mask else self._copied(made, g, p, sizes)
            case Integer() | Var() | Proj() | Access():  # 5.30
                source, at = self._integers(e.value, scope) if isinstance(e, Integer) else self._access(e, scope)
                identity = source.shape == sizes and all(a is atom_affine(i) for a, i in zip(at, g, strict=True))
                if identity and p is mask:
                    return source
                inner = axes(len(sizes), len(at))
                places = conjunction([p, *(equal(atom_affine(i), a) for i, a in zip(inner, at, strict=True))])
                return self.emit(Contraction(places, (source,), (), sizes))
            case Bracket(q, body):  # 5.28
                both = conjunction([p, substitute(q, scope.env)])
                return (yield from call(self._translate(body, scope.under(both), mask, done)))
            case Add(left, right, sign):  # 5.31
                terms = []
                for side, s in ((left, 1), (right, sign)):
                    part, q = (side.body, substitute(side.pred, scope.env)) if isinstance(side, Bracket) else (side, p)
                    both = conjunction([p, q])
                    operand = yield from call(self._translate(part, scope.under(both), both, done))
                    where = _read_of(operand, both) if isinstance(side, Add) else both
                    terms.append(Addend(s, where, operand))
                return self.emit(Addition(tuple(terms), sizes))
            case Mul(left, right):  # 5.32
                factors = []
                places = p
                start = len(sizes)
                for side in (left, right):
                    if isinstance(side, Const):
                        factors.append(self.emit(Constant(side.value, ())))
                        continue
                    factors.append((yield from call(self._translate(side, scope, p, done))))
                    inner = axes(start, len(g))
                    start += len(g)
                    pairs = zip(g, inner, strict=True)
                    places = conjunction([places, *(equal(atom_affine(i), atom_affine(j)) for i, j in pairs)])
                return self.emit(Contraction(places, tuple(factors), (), sizes))
            case Call(f, arguments):  # 5.33
                made_arguments = []
                for argument in arguments:
                    made_arguments.append((yield from call(self._translate(argument, scope, p, done))))
                return self.emit(Map(p, f, tuple(made_arguments), sizes))
            case Sum():  # 5.34
                env, inner_sizes = dict(scope.env), list(sizes)
                summand: Expr = e
                while isinstance(summand, Sum):
                    env[summand.index] = atom_affine(axes(len(inner_sizes), 1)[0])
                    inner_sizes.append(summand.size)
                    summand = summand.body
                q = TRUE
                if isinstance(summand, Bracket):
                    q, summand = summand.pred, summand.body
                both = conjunction([p, substitute(q, env)])
                x = yield from call(self._translate(summand, _Scope(env, tuple(inner_sizes), both), both, done))
                return self._copied(x, g, both, sizes)
            case Extremum():
                chosen: Selection = yield from call(self._selection(e, scope, done))
                inner = axes(len(sizes), len(sizes) + 1)
                here = tuple(map(atom_affine, g))
                chosen_at = (*here, atom_affine(Lookup(chosen.array, here)))
                places = conjunction([p, *(equal(atom_affine(i), a) for i, a in zip(inner, chosen_at, strict=True))])
                return self.emit(Contraction(places, (chosen.operand,), (), sizes))
            case Recur() | Apply():
                raise NormalFormError(
                    f"SSA is made of steps and between recurrences, found {whole_word(e)}", hint=WHOLE
                )
            case Gen() | MakePair() | Let() | Choice() | Compared():
                raise NormalFormError(
                    "SSA is made once gens are outermost; found a gen, pair or let inside an expression"
                )

    def _copied(self, x: Statement, g: tuple[Index, ...], p: Predicate, sizes: tuple[Affine, ...]) -> Statement:
        """gen g. sum i, j.. [p and g = i] * x[i, j..], for `p` over the axes of `x`."""
        own = axes(0, len(x.shape))
        inner = axes(len(sizes), len(x.shape))
        diagonal = [equal(atom_affine(i), atom_affine(j)) for i, j in zip(g, inner, strict=False)]
        return self.emit(Contraction(conjunction([renamed(p, own, inner), *diagonal]), (x,), (), sizes))

    def _integers(self, a: Affine, scope: _Scope) -> tuple[Statement, list[Affine]]:
        """The array of real(a) over the axes on which `a` depends, and the places at which to read it."""
        a = a.substitute(scope.env)
        used = [(i, size) for i, size in zip(axes(0, len(scope.sizes)), scope.sizes, strict=True) if i in a.indices]
        at: list[Affine] = [atom_affine(i) for i, _ in used]
        value = renamed_affine(a, tuple(i for i, _ in used), axes(0, len(used)))
        return self.emit(integers(value, tuple(size for _, size in used))), at

    def _access(self, e: Expr, scope: _Scope) -> tuple[Statement, list[Affine]]:
        at: list[Affine] = []
        while isinstance(e, Access):
            at.append(e.at.substitute(scope.env))
            e = e.body
        path: list[int] = []
        kind = e.type
        while isinstance(e, Proj):
            path.append(e.which)
            e = e.body
        if not isinstance(e, Var):
            raise NormalFormError("SSA is made once gens are outermost; found an access to what is no variable")
        if e in self.params:
            return self.emit(Input(e, tuple(reversed(path)), shape(kind)[0])), at[::-1]
        if path or e not in self.values:
            raise NormalFormError(f"{e.name} is neither a parameter nor bound by a let before its use")
        return self.values[e], at[::-1]


def _read_of(x: Statement, p: Predicate) -> Predicate:
    """Where a term [p] * X may be other than 0: where p holds and, if X is a sum, one of its terms does."""
    return conjunction([p, disjunction(t.pred for t in x.terms)]) if isinstance(x, Addition) else p


def _elements(e: Expr, rank: int) -> Expr:
    for i in axes(0, rank):
        e = Access(e, atom_affine(i), None)
    return e
