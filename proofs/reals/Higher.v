(** Derivatives of higher order. The adjoint of a program of the built-in functions has maps of components of their
    transposed derivatives; taken apart (Expand.v) these are built-in functions again, additions and products, of the
    same value and cost. So every theorem holds of the adjoint, and of its adjoint, and so on. *)
Require Import List Bool ZArith QArith Qreals Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
Import ListNotations.
Require Import TL.Sums TL.SSA TL.Adjoint TL.Bound TL.Typing TL.Compile TL.Functions TL.Expand TL.Program.
Require Import TL.reals.Gradient TL.reals.Functions TL.reals.Program.
Open Scope R_scope.
Notation term := (term R symbol).

(** * The table's expressions *)
Fixpoint opened_up (n : nat) (e : scalar) : term :=
  match e with
  | Argument k => TArg k | Value => TArg n | Cotangent => TArg (S n) | Number q => TConst (Q2R q) | Irrational c => TConst (constant c)
  | Plus a b => TSum false (opened_up n a) (opened_up n b) | Minus a b => TSum true (opened_up n a) (opened_up n b)
  | Times a b => TTimes (opened_up n a) (opened_up n b) | Call f es => TCall (Function f) (map (opened_up n) es)
  end.
Definition body (f : symbol) : option term :=
  match f with Component (Function f) j => Some (opened_up (arity f) (component f j)) | _ => None end.
(** e asks for n arguments, and each function in it has as many as it takes *)
Fixpoint closed (n : nat) (e : scalar) : Prop :=
  match e with
  | Argument k => (k < n)%nat | Value | Cotangent | Number _ | Irrational _ => True
  | Plus a b | Minus a b | Times a b => closed n a /\ closed n b
  | Call f es => length es = arity f /\ (fix all l := match l with [] => True | a :: l' => closed n a /\ all l' end) es
  end.
Lemma component_closed f j : closed (arity f) (component f j).
Proof.
  assert (N : forall k, nth k [] (Number 0) = Number 0) by (intros [|k]; reflexivity). unfold component.
  destruct f; destruct j as [|[|[|j]]]; cbn [nth transpose arity]; rewrite ?N; unfold gauss, recip, root, square;
  cbn [closed arity length]; try exact I; repeat split; auto; try (destruct j; exact I). destruct n; cbn; repeat split; auto.
Qed.
Lemma opened_up_scoped n e : closed n e -> scoped takes (n + 2) (opened_up n e).
Proof.
  revert e. fix IH 1. intros [k| | |q|c|a b|a b|a b|f es]; cbn [closed opened_up scoped]; try (intros; exact I); try lia.
  - intros [Ha Hb]. split; apply IH; assumption.
  - intros [Ha Hb]. split; apply IH; assumption.
  - intros [Ha Hb]. split; apply IH; assumption.
  - intros [L H]. rewrite map_length. split; [exact L|]. clear L. induction es as [|e es IHes]; [exact I|]. destruct H as [H0 H1].
    split; [apply IH, H0|apply IHes, H1].
Qed.
Lemma opened_up_cost n e : operations e = tcost fcost (opened_up n e).
Proof.
  revert e. fix IH 1. intros [k| | |q|c|a b|a b|a b|f es]; cbn [operations opened_up tcost]; try reflexivity; try (now rewrite !IH).
  f_equal. induction es as [|e es IHes]; [reflexivity|]. cbn [map fold_right]. now rewrite IH, IHes.
Qed.
Lemma opened_up_value n zs e : closed n e -> sval (firstn n zs) (nth n zs 0) (nth (S n) zs 0) e = tval 0 Rplus Rmult Ropp fval zs (opened_up n e).
Proof.
  assert (F : forall k n (zs : list R), (k < n)%nat -> nth k (firstn n zs) 0 = nth k zs 0).
  { induction k as [|k IHk]; intros [|m] [|z l] H; try lia; try reflexivity. cbn. apply IHk. lia. }
  revert e. fix IH 1. intros [k| | |q|c|a b|a b|a b|f es]; cbn [closed opened_up sval tval signed]; intros H; try reflexivity.
  - apply F, H.
  - destruct H. rewrite !IH by assumption. reflexivity.
  - destruct H. rewrite !IH by assumption. reflexivity.
  - destruct H. rewrite !IH by assumption. reflexivity.
  - destruct H as [_ H]. cbn [fval]. f_equal. induction es as [|e es IHes]; [reflexivity|]. destruct H as [H0 H1]. cbn [map].
    rewrite IH by exact H0. f_equal. apply IHes, H1.
Qed.
Lemma component_opened f j : (j < arity f)%nat -> opened 0 Rplus Rmult Ropp fval fcost body takes (Component (Function f) j) (arity f + 2).
Proof.
  intros _. unfold opened, body. split; [apply opened_up_scoped, component_closed|]. split; [apply opened_up_cost|].
  intros zs L. cbn [fval]. rewrite L. replace (arity f + 2 - 2)%nat with (arity f) by lia. apply opened_up_value, component_closed.
Qed.

(** * The adjoint as a program of built-in functions *)
Definition of_builtins (S : prog R symbol) : Prop := maps_ok takes S.
Lemma of_builtins_cheap S : of_builtins S -> cheap_maps DT fcost S.
Proof.
  intros M sh p f xs H. specialize (M _ _ _ _ H). rewrite csum_every. unfold joins. rewrite (filter_all Bound.every) by reflexivity.
  now apply builtins_cheap.
Qed.
(** it is one again: of the same value and cost, with gradients at h of where they were *)
Theorem adjoint_again S outs dys leaves t grads u h :
  wf S -> good_outs S outs dys -> of_builtins S -> adjoint DT S outs dys leaves = (t, grads) -> expand body t = (u, h) ->
  wf u /\ of_builtins u /\ SSA.cost fcost u = SSA.cost fcost t
  /\ forall x, In x (declared t) -> shp (h x) = shp x /\ In (h x) (declared u)
     /\ forall inp i, In i (box (shp x)) -> SSA.run 0 Rplus Rmult Ropp fval inp u (h x) i = SSA.run 0 Rplus Rmult Ropp fval inp t x i.
Proof.
  intros W GO M H E. destruct (adjoint_wf _ _ _ _ _ _ _ _ W GO H) as [Wt _].
  assert (Op : maps_ok (opened 0 Rplus Rmult Ropp fval fcost body takes) t).
  { intros sh p f xs Hx. destruct (adjoint_maps DT takes _ _ _ _ _ _ H M _ _ _ _ Hx) as [T|[g [j [m [T [J [-> ->]]]]]]].
    - destruct f as [f|]; [exact T|destruct T].
    - destruct g as [g|]; [|destruct T]. cbn in T. subst m. apply component_opened, J. }
  destruct (expand_sound 0 1 Rplus Rmult Rminus Ropp RTheory fval fcost body takes t u h E Wt Op) as [Wu [C [K [Mu _]]]].
  split; [exact Wu|]. split; [exact Mu|]. split; [exact K|]. intros x Hx. split; [apply C, Hx|]. split; [apply C, Hx|].
  intros inp. apply (expand_run 0 1 Rplus Rmult Rminus Ropp RTheory fval fcost body takes t u h inp E Wt Op x Hx).
Qed.
(** what has maps of built-in functions alone has an adjoint that is its gradient where these are in their domains, and
    keeps the bound of 4: S may be a program, its adjoint, the adjoint of that, .. *)
Theorem gradient_of_builtins S outs dys leaves t grads :
  wf S -> good_outs S outs dys -> NoDup leaves -> of_builtins S -> adjoint DT S outs dys leaves = (t, grads) ->
  (forall inp, maps_at in_domains (run inp S) S -> forall c, In c grads -> forall j, In j (box (shp (tgt c))) ->
     is_derive (fun a => seen fval S outs dys inp (replace_at inp (tgt c) j a)) (inp (tgt c) j) (run inp t (lhs c) j))
  /\ (SSA.cost fcost t + outsize leaves + outsize outs <= 4 * (SSA.cost fcost S + outsize leaves + outsize outs))%Z.
Proof.
  intros W GO ND M H. split.
  - intros inp Dm. apply (adjoint_is_partial fval partial DT DT_val S outs dys leaves t grads inp W GO ND H).
    unfold smooth_at, maps_at in *. eapply Forall_impl; [|exact Dm]. intros [sh r]. unfold applies. cbn [snd fst].
    destruct r; auto. intros A i Hi P. apply in_domains_differentiable, A; assumption.
  - apply (theorem_6_35 DT fcost fcost_nonneg _ _ _ _ _ _ _ (of_builtins_cheap S M) W GO ND H).
Qed.
(** and programs of Figure 3 are such *)
Theorem compiled_of_builtins rel ps (e : @Core.expr R symbol) T S tr :
  well_formed takes rel ps e T -> compiled rel ps e = (S, tr) -> of_builtins S.
Proof.
  intros Ck H. destruct (compiled_sound 0 1 Rplus Rmult Rminus Ropp RTheory fval fcost takes rel ps e T S tr Ck H) as [_ [_ [_ [_ [Pr _]]]]].
  intros sh p f xs Hx. exact (Pr _ _ Hx).
Qed.
