(** The headline: every well-typed, in-bounds program of Figure 3 over the real numbers, with the built-in scalar functions,
    has an adjoint that is its gradient wherever its scalar functions are differentiable, and that costs at most 4 times
    the program, inputs and outputs counted. *)
Require Import String List Bool ZArith Reals Lra.
From Coquelicot Require Import Coquelicot.
Import ListNotations.
Require Import TL.Sums TL.SSA TL.Adjoint TL.Transpose TL.Core TL.Typing TL.Compile TL.Program TL.Functions.
Require Import TL.reals.Gradient TL.reals.Functions.
Open Scope R_scope.

(** * For any scalar functions with a transposed derivative *)
Section Program.
  Context {fn : Type} (fval : fn -> list R -> R) (partial : fn -> nat -> list R -> R) (DT : fn -> nat -> fn).
  Hypothesis DT_val : forall f j xs dy, fval (DT f j) (xs ++ [fval f xs; dy]) = partial f j xs * dy.
  Context (fcost : fn -> Z) (takes : fn -> nat -> Prop) (rel : data).
  Hypothesis fcost_nonneg : forall f, (0 <= fcost f)%Z.
  Hypothesis cheap : forall f n, takes f n ->
    (fold_right Z.add 0 (map (fun j => fcost (DT f j)) (seq 0 n)) + Z.of_nat (Nat.pred n) <= 3 * fcost f)%Z.
  Notation expr := (@Core.expr R fn).
  Notation env := (SSA.env (K := R)).
  Notation run := (SSA.run 0 Rplus Rmult Ropp fval).
  Notation dot := (Transpose.dot 0 Rplus Rmult). Notation held := (Program.held 0). Notation paired := (Program.paired 0 Rplus Rmult).
  Notation applied := (Typing.applied 0 Rplus Rmult Rminus fval rel).
  Notation differentiable := (Gradient.differentiable fval partial).
  Notation well_formed := (Program.well_formed takes rel).
  Notation derivative := (Program.derivative DT rel).

  (** what e means for the arrays in inp, which hold its parameters *)
  Definition meaning (ps : parameters) (e : expr) (inp : env) : @Core.val R :=
    Core.eval 0 Rplus Rmult Rminus fval rel (arguments_of 0 inp (inputs ps)) s0 e.
  (** <dy | e>, where w holds dy, the cotangent *)
  Definition objective (ps : parameters) (e : expr) (T : ty) (w inp : env) : R :=
    paired (flat T) (held w (cotangent ps T)) (meaning ps e inp).
  (** the scalar functions of e are differentiable at the numbers that they are applied to *)
  Definition smooth (ps : parameters) (e : expr) (inp : env) : Prop :=
    applied differentiable (arguments_of 0 inp (inputs ps)) s0 e.

  Lemma objective_seen ps e T S tr : well_formed ps e T -> compiled rel ps e = (S, tr) -> forall w inp,
    seen fval S (leaves tr) (leaves (cotangent ps T)) w inp = objective ps e T w inp.
  Proof.
    intros Ck H w inp. destruct (compiled_sound 0 1 Rplus Rmult Rminus Ropp RTheory fval (fun _ => 0%Z) takes rel ps e T S tr Ck H)
      as [_ [Ss [_ [_ [_ V]]]]].
    unfold seen, objective. rewrite (paired_held 0 1 Rplus Rmult Rminus Ropp RTheory).
    - rewrite Ss. apply paired_ext; [reflexivity|]. intros d i Hi. apply V, Hi.
    - rewrite Ss. unfold cotangent. now rewrite number_shapes.
  Qed.
  Lemma smooth_seen ps e T S tr inp : well_formed ps e T -> compiled rel ps e = (S, tr) -> smooth ps e inp -> smooth_at fval partial inp S.
  Proof.
    intros Ck H Sm. destruct (compiled_sound 0 1 Rplus Rmult Rminus Ropp RTheory fval (fun _ => 0%Z) takes rel ps e T S tr Ck H)
      as [_ [_ [_ [_ [_ V]]]]]. apply V, Sm.
  Qed.

  (** the adjoint is the gradient along every differentiable curve of the parameters, *)
  Theorem program_gradient ps e T t grads : well_formed ps e T -> derivative ps e T = (t, grads) ->
    forall (inp : R -> env) dinp u0, smooth ps e (inp u0) ->
    (forall y, In y (input_leaves ps) -> forall i, In i (box (shp y)) -> is_derive (fun u => inp u y i) u0 (dinp y i)) ->
    is_derive (fun u => objective ps e T (inp u0) (inp u)) u0
      (Rsum grads (fun c => dot (shp (tgt c)) (run (inp u0) t (lhs c)) (dinp (tgt c)))).
  Proof.
    intros Ck H inp dinp u0 Sm HI. unfold Program.derivative in H. destruct (compiled rel ps e) as [S tr] eqn:E.
    apply (is_derive_ext (fun u => seen fval S (leaves tr) (leaves (cotangent ps T)) (inp u0) (inp u)));
      [intros u; now apply objective_seen|].
    pose proof (compiled_inputs 0 1 Rplus Rmult Rminus Ropp RTheory fval (fun _ => 0%Z) takes rel ps e T S tr Ck E) as In_.
    apply (adjoint_is_gradient fval partial DT DT_val S (leaves tr) (leaves (cotangent ps T)) (input_leaves ps) t grads inp dinp u0).
    - apply (compiled_sound 0 1 Rplus Rmult Rminus Ropp RTheory fval (fun _ => 0%Z) takes rel ps e T S tr Ck E).
    - exact (compiled_outs 0 1 Rplus Rmult Rminus Ropp RTheory fval (fun _ => 0%Z) takes rel ps e T S tr Ck E).
    - apply input_leaves_nodup.
    - exact H.
    - eapply smooth_seen; eassumption.
    - intros sh y Hy. apply HI. eapply In_; exact Hy.
    - intros sh y Hy. left. eapply In_; exact Hy.
  Qed.
  (** and its elements are the partial derivatives *)
  Theorem program_partial ps e T t grads : well_formed ps e T -> derivative ps e T = (t, grads) ->
    map tgt grads = input_leaves ps
    /\ forall inp, smooth ps e inp -> forall c, In c grads -> forall j, In j (box (shp (tgt c))) ->
       is_derive (fun a => objective ps e T inp (replace_at inp (tgt c) j a)) (inp (tgt c) j) (run inp t (lhs c) j).
  Proof.
    intros Ck H. unfold Program.derivative in H. destruct (compiled rel ps e) as [S tr] eqn:E.
    pose proof (compiled_outs 0 1 Rplus Rmult Rminus Ropp RTheory fval (fun _ => 0%Z) takes rel ps e T S tr Ck E) as GO.
    assert (W : wf S) by apply (compiled_sound 0 1 Rplus Rmult Rminus Ropp RTheory fval (fun _ => 0%Z) takes rel ps e T S tr Ck E).
    split; [apply (adjoint_wf _ _ _ _ _ _ _ _ W GO H)|]. intros inp Sm c Hc j Hj.
    apply (is_derive_ext (fun a => seen fval S (leaves tr) (leaves (cotangent ps T)) inp (replace_at inp (tgt c) j a)));
      [intros a; now apply objective_seen|].
    apply (adjoint_is_partial fval partial DT DT_val S (leaves tr) (leaves (cotangent ps T)) (input_leaves ps) t grads inp); auto.
    - apply input_leaves_nodup.
    - eapply smooth_seen; eassumption.
  Qed.
End Program.

(** * For the built-in scalar functions: nothing is assumed but that the program is well-typed and in bounds *)
Definition takes (f : symbol) (n : nat) : Prop := match f with Function f => n = arity f | Component _ _ => False end.
Lemma builtins_cheap f n : takes f n ->
  (fold_right Z.add 0 (map (fun j => fcost (DT f j)) (seq 0 n)) + Z.of_nat (Nat.pred n) <= 3 * fcost f)%Z.
Proof. destruct f as [f|]; [|intros []]. intros ->. apply transposes_are_cheap. Qed.
(** the numbers that functions are applied to are in their domains *)
Definition in_domains (f : symbol) (xs : list R) : Prop := match f with Function f => domain f xs | Component _ _ => False end.
Lemma in_domains_differentiable f xs : in_domains f xs -> differentiable f xs.
Proof. destruct f as [f|]; [apply builtin_differentiable|intros []]. Qed.
Lemma applied_imp {fn} (fval : fn -> list R -> R) rel (A B : fn -> list R -> Prop) : (forall f xs, A f xs -> B f xs) -> forall e r s,
  Typing.applied 0 Rplus Rmult Rminus fval rel A r s e -> Typing.applied 0 Rplus Rmult Rminus fval rel B r s e.
Proof.
  intros AB. fix IH 1. intros [x|c|a b|a b|a b|f es|a b|a|a|i n a|i n a|a k|p a|x a b] r s; cbn [Typing.applied]; auto;
  try (intros [H0 H1]; split; apply IH; assumption).
  intros [H0 H1]. split; [|apply AB, H1]. clear H1. induction es as [|a es IHes]; [exact I|]. destruct H0 as [H0 H1].
  split; [apply IH, H0|apply IHes, H1].
Qed.

Notation env := (SSA.env (K := R)).
Notation run := (SSA.run 0 Rplus Rmult Ropp fval).
Notation dot := (Transpose.dot 0 Rplus Rmult).
Definition inside_domains rel (ps : parameters) (e : @Core.expr R symbol) (inp : env) : Prop :=
  Typing.applied 0 Rplus Rmult Rminus fval rel in_domains (arguments_of 0 inp (inputs ps)) s0 e.

(** The headline. For a program e of the parameters ps, with a value of type T: t is e with its adjoint, grads tells which
    of its variables are the gradients of the leaves of the parameters. Then
    - t computes the value of e;
    - where scalar functions are applied in their domains, <dy | e> has a derivative along every differentiable curve of
      the parameters: the inner product of the gradients and the curve's derivative;
    - so each element of a gradient is the partial derivative;
    - t costs at most 4 times e, inputs and outputs counted. *)
Theorem program_has_gradient rel ps (e : @Core.expr R symbol) T t grads :
  well_formed takes rel ps e T -> derivative DT rel ps e T = (t, grads) ->
  (forall inp d w, within (flat T) d w -> held 0 (run inp t) (snd (compiled rel ps e)) d w = meaning fval rel ps e inp d w)
  /\ map tgt grads = input_leaves ps
  /\ (forall (inp : R -> env) dinp u0, inside_domains rel ps e (inp u0) ->
       (forall y, In y (input_leaves ps) -> forall i, In i (box (shp y)) -> is_derive (fun u => inp u y i) u0 (dinp y i)) ->
       is_derive (fun u => objective fval rel ps e T (inp u0) (inp u)) u0
         (Rsum grads (fun c => dot (shp (tgt c)) (run (inp u0) t (lhs c)) (dinp (tgt c)))))
  /\ (forall inp, inside_domains rel ps e inp -> forall c, In c grads -> forall j, In j (box (shp (tgt c))) ->
       is_derive (fun a => objective fval rel ps e T inp (replace_at inp (tgt c) j a)) (inp (tgt c) j) (run inp t (lhs c) j))
  /\ (SSA.cost fcost t + psize ps + tsize T <= 4 * (Core.cost fcost rel s0 e + psize ps + tsize T))%Z.
Proof.
  intros Ck H. assert (Sm : forall inp, inside_domains rel ps e inp -> smooth fval partial rel ps e inp)
    by (intros inp; apply applied_imp, in_domains_differentiable).
  split; [exact (program_value 0 1 Rplus Rmult Rminus Ropp RTheory fval fcost takes DT rel ps e T t grads Ck H)|].
  destruct (program_partial fval partial DT DT_val takes rel ps e T t grads Ck H) as [Ht Hp]. split; [exact Ht|]. split; [|split].
  - intros inp dinp u0 Dm. apply (program_gradient fval partial DT DT_val takes rel ps e T t grads Ck H), Sm, Dm.
  - intros inp Dm. apply Hp, Sm, Dm.
  - exact (program_cost 0 1 Rplus Rmult Rminus Ropp RTheory fval fcost takes DT rel fcost_nonneg builtins_cheap ps e T t grads Ck H).
Qed.

(** * An example: sum i:3. exp(x[i]) * log(y), at every x and every positive y *)
Definition example : @Core.expr R symbol :=
  let x := EVar "x" in let y := EVar "y" in let i := "i"%string in
  <{ Sum i : 3, {EFn (Function Exp) [ <{ x [ AVar i ] }> ]} * {EFn (Function Log) [y]} }>.
Definition example_parameters : parameters := [("x"%string, TArray 3 TReal); ("y"%string, TReal)].
Lemma example_well_formed rel : well_formed takes rel example_parameters example TReal.
Proof.
  apply check_sum, check_mul; (apply check_fn; [reflexivity|intros a [<-|[]]]).
  - apply check_acc with 3%nat; [now apply check_var|]. intros s [s' [z [_ [Hz ->]]]]. exact Hz.
  - now apply check_var.
Qed.
Lemma example_domains rel inp : 0 < arguments_of 0 inp (inputs example_parameters) "y"%string [] [] ->
  inside_domains rel example_parameters example inp.
Proof. intros H z _. cbn. repeat split; assumption. Qed.
