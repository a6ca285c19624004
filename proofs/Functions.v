(** The built-in scalar functions (tensorlang/language/functions.py): how many arguments each has, what it costs, and its
    transposed derivative, an expression of its arguments, its value and a cotangent. Their values, and that these
    expressions are their derivatives, are in reals/Functions.v. *)
Require Import List Bool ZArith QArith String Lia.
Import ListNotations.

Inductive builtin :=
| Exp | Log | Sin | Cos | Tan | Tanh | Sinh | Cosh | Sigmoid | Sqrt | Recip | WhereGe | WhereGt | Sign | Relu | Abs | Max | Min
| Erf | Softplus | Logaddexp
| Log1p | Expm1 | Log2 | Log10 | Asin | Acos | Atan | Asinh | Acosh | Atanh | Cbrt | Rsqrt | Erfc | Erfinv
| Lgamma | Digamma | Trigamma | Tetragamma | Pentagamma | Floor | Ceil | Round
| Mod | Atan2
| PowerOf                     (** x ^ y *)
| Power (n : positive)        (** x ^ (n + 1) *)
| RealPower (q : Q).          (** x ^ q, where x is positive *)

(** 2 / sqrt pi and minus it, sqrt pi / 2, 1 / log 2, 1 / log 10, of which the package has 17 digits *)
Inductive irrational := Slope | MinusSlope | OverSlope | OverLog2 | OverLog10.
Inductive scalar :=
| Argument (k : nat) | Value | Cotangent | Number (q : Q) | Irrational (c : irrational)
| Plus (a b : scalar) | Minus (a b : scalar) | Times (a b : scalar) | Call (f : builtin) (es : list scalar).

Definition arity (f : builtin) : nat := match f with WhereGe | WhereGt => 3 | Max | Min | Logaddexp | Mod | Atan2 | PowerOf => 2 | _ => 1 end.
Open Scope Z_scope.
(** the multiplications of x ^ n by repeated squaring *)
Fixpoint squarings (n : positive) : Z :=
  match n with xH => 0 | xO n => squarings n + 1 | xI n => squarings n + 2 end.
Definition bcost (f : builtin) : Z := 
  match f with
  | Erf | Asin | Acos | Atan | Asinh | Acosh | Atanh | Cbrt | Rsqrt | Erfc | Erfinv | Mod => 2
  | Atan2 | PowerOf => 5 | Logaddexp => 7
  | Power n => squarings (Pos.succ n) | _ => 1
  end.
Fixpoint operations (e : scalar) : Z :=
  match e with
  | Argument _ | Value | Cotangent | Number _ | Irrational _ => 0
  | Plus a b | Minus a b | Times a b => 1 + operations a + operations b
  | Call f es => bcost f + fold_right Z.add 0 (map operations es)
  end.

Local Notation x := (Argument 0). Local Notation x1 := (Argument 1).
Local Notation one := (Number 1). Local Notation zero := (Number 0).
(** x ^ n *)
Definition raised (n : positive) : scalar := match n with xH => x | _ => Call (Power (Pos.pred n)) [x] end.
Definition square (e : scalar) : scalar := Times e e.
Definition recip (e : scalar) : scalar := Call Recip [e].
Definition root (e : scalar) : scalar := Call Sqrt [e].
Definition gauss : scalar := Call Exp [Times (Number (-1)) (square x)].
(** the components of D^T f: the cotangent of each argument *)
Definition transpose (f : builtin) : list scalar :=
  match f with
  | Exp => [Times Value Cotangent]
  | Log => [Times (Call Recip [x]) Cotangent]
  | Sin => [Times (Call Cos [x]) Cotangent]
  | Cos => [Times (Times (Number (-1)) (Call Sin [x])) Cotangent]
  | Tan => [Times (Plus one (Times Value Value)) Cotangent]
  | Tanh => [Times (Minus one (Times Value Value)) Cotangent]
  | Sinh => [Times (Call Cosh [x]) Cotangent]
  | Cosh => [Times (Call Sinh [x]) Cotangent]
  | Sigmoid => [Times (Times Value (Minus one Value)) Cotangent]
  | Sqrt => [Times (Times (Number (1 # 2)) (Call Recip [Value])) Cotangent]
  | Recip => [Times (Times (Number (-1)) (Times Value Value)) Cotangent]
  | WhereGe => [zero; zero; Call WhereGe [x; x1; Cotangent]]
  | WhereGt => [zero; zero; Call WhereGt [x; x1; Cotangent]]
  | Sign => [zero]
  | Relu => [Call WhereGt [x; zero; Cotangent]]
  | Abs => [Times (Call Sign [x]) Cotangent]
  | Max => [Call WhereGe [x; x1; Cotangent]; Call WhereGt [x1; x; Cotangent]]
  | Min => [Call WhereGe [x1; x; Cotangent]; Call WhereGt [x; x1; Cotangent]]
  | Erf => [Times (Times (Irrational Slope) gauss) Cotangent]
  | Softplus => [Times (Call Sigmoid [x]) Cotangent]
  | Logaddexp => [Times (Call Exp [Minus x Value]) Cotangent; Times (Call Exp [Minus x1 Value]) Cotangent]
  | Log1p => [Times (recip (Plus one x)) Cotangent]
  | Expm1 => [Times (Plus Value one) Cotangent]
  | Log2 => [Times (Times (Irrational OverLog2) (recip x)) Cotangent]
  | Log10 => [Times (Times (Irrational OverLog10) (recip x)) Cotangent]
  | Asin => [Times (recip (root (Minus one (square x)))) Cotangent]
  | Acos => [Times (Times (Number (-1)) (recip (root (Minus one (square x))))) Cotangent]
  | Atan => [Times (recip (Plus one (square x))) Cotangent]
  | Asinh => [Times (recip (root (Plus one (square x)))) Cotangent]
  | Acosh => [Times (recip (root (Minus (square x) one))) Cotangent]
  | Atanh => [Times (recip (Minus one (square x))) Cotangent]
  | Cbrt => [Times (Times (Number (1 # 3)) (recip (square Value))) Cotangent]
  | Rsqrt => [Times (Times (Number (-1 # 2)) (Times Value (square Value))) Cotangent]
  | Erfc => [Times (Times (Irrational MinusSlope) gauss) Cotangent]
  | Erfinv => [Times (Times (Irrational OverSlope) (Call Exp [square Value])) Cotangent]
  | Lgamma => [Times (Call Digamma [x]) Cotangent]
  | Digamma => [Times (Call Trigamma [x]) Cotangent]
  | Trigamma => [Times (Call Tetragamma [x]) Cotangent]
  | Tetragamma => [Times (Call Pentagamma [x]) Cotangent]
  | Pentagamma => [Times (Call Log [Number (-1)]) Cotangent]   (** no number: the package has no derivative of it *)
  | Floor | Ceil | Round => [zero]
  | Mod => [Cotangent; Times (Number (-1)) (Times (Call Floor [Times x (recip x1)]) Cotangent)]
  | Atan2 => let over e := Times e (recip (Plus (square x) (square x1))) in
      [Times (over x1) Cotangent; Times (Number (-1)) (Times (over x) Cotangent)]
  | PowerOf => [Times (Times x1 (Call PowerOf [x; Minus x1 one])) Cotangent;
                Call WhereGt [Call Abs [x]; zero; Times (Times Value (Call Log [x])) Cotangent]]
  | Power n => [Times (Times (Number (Zpos (Pos.succ n) # 1)) (raised n)) Cotangent]
  | RealPower q => [Times (Times (Number q) (Call (RealPower (q - 1)) [x])) Cotangent]
  end.

(** a function symbol of a program: a function, or the j-th component of its transposed derivative *)
Inductive symbol := Function (f : builtin) | Component (f : symbol) (j : nat).
Definition DT (f : symbol) (j : nat) : symbol := Component f j.
Definition component (f : builtin) (j : nat) : scalar := nth j (transpose f) zero.
(** Only the first derivatives of functions have a cost of their own here, which is all that the bound needs. *)
Definition fcost (f : symbol) : Z :=
  match f with Function f => bcost f | Component (Function f) j => operations (component f j) | Component _ _ => 0 end.

Lemma squarings_nonneg n : 0 <= squarings n.
Proof. induction n; cbn; lia. Qed.
Lemma bcost_nonneg f : 0 <= bcost f.
Proof. destruct f; cbn [bcost]; try lia. apply squarings_nonneg. Qed.
Lemma operations_nonneg : forall e, 0 <= operations e.
Proof.
  fix IH 1. intros [k| | |q|c|a b|a b|a b|f es]; cbn [operations]; try lia; try (pose proof (IH a); pose proof (IH b); lia).
  pose proof (bcost_nonneg f). assert (0 <= fold_right Z.add 0 (map operations es)); [|lia].
  induction es as [|e es IHes]; cbn; [lia|]. pose proof (IH e). lia.
Qed.
Lemma fcost_nonneg f : 0 <= fcost f.
Proof. destruct f as [f|[f|f k] j]; [apply bcost_nonneg|apply operations_nonneg|cbn; lia]. Qed.

(** one less than an exponent costs little more: with k zeros at the end of the exponent, k - 1 *)
Lemma squarings_succ n : squarings n + 2 <= 3 * squarings (Pos.succ n).
Proof. induction n; cbn [Pos.succ squarings]; [lia| |lia]. pose proof (squarings_nonneg n). lia. Qed.
Lemma operations_raised n : operations (raised n) = squarings n.
Proof.
  assert (A : forall m, m <> 1%positive -> squarings (Pos.succ (Pos.pred m)) + 0 = squarings m)
    by (intros m H; rewrite Pos.succ_pred by exact H; lia).
  destruct n; [apply A; discriminate|apply A; discriminate|reflexivity].
Qed.
(** the components of each function, and the additions that join them, cost at most 3 times the function *)
Theorem transposes_are_cheap f :
  fold_right Z.add 0 (map (fun j => fcost (DT (Function f) j)) (seq 0 (arity f))) + Z.of_nat (Nat.pred (arity f)) <= 3 * fcost (Function f).
Proof.
  destruct f; unfold DT, fcost, component;
  cbn [arity seq map fold_right nth transpose operations bcost Nat.pred recip root square gauss];
  cbn [Z.of_nat Pos.of_succ_nat Pos.succ]; try lia. pose proof (squarings_succ n). rewrite operations_raised. lia.
Qed.
