(** Recurrences over the real numbers (../Recurrence.v): for every number of steps the adjoint of a recurrence is its
    gradient, wherever its steps apply scalar functions that are differentiable, and within the bound of 4. *)
Require Import List Bool ZArith Reals Lia.
From Coquelicot Require Import Coquelicot.
Import ListNotations.
Require Import TL.Sums TL.SSA TL.Adjoint TL.Bound TL.Transpose TL.Recurrence TL.Functions.
Require Import TL.reals.Gradient TL.reals.Functions.
Open Scope R_scope.

Section Recurrence.
  Context {fn : Type} (fval : fn -> list R -> R) (partial : fn -> nat -> list R -> R) (DT : fn -> nat -> fn) (fcost : fn -> Z).
  Hypothesis fcost_nonneg : forall f, (0 <= fcost f)%Z.
  Hypothesis DT_val : forall f j xs dy, fval (DT f j) (xs ++ [fval f xs; dy]) = partial f j xs * dy.
  Notation prog := (SSA.prog R fn).
  Notation env := (SSA.env (K := R)).
  Notation cost := (SSA.cost (K := R) fcost).
  Notation run := (SSA.run 0 Rplus Rmult Ropp fval). Notation solves := (SSA.solves 0 Rplus Rmult Ropp fval).
  Notation dot := (Transpose.dot 0 Rplus Rmult).
  Notation differentiable := (Gradient.differentiable fval partial).
  Notation smooth_at := (Gradient.smooth_at fval partial).
  Notation seen := (Gradient.seen fval).
  Notation step := (@Recurrence.step R fn). Notation loop := (@Recurrence.loop R fn). Notation added := (@Recurrence.added R fn).
  Notation keeps := (@Recurrence.keeps R fn).

  (** ** What a step makes does not depend on the steps after it *)
  Lemma wf_tail (ss S : prog) : wf (ss ++ S) -> wf S.
  Proof. induction ss as [|[sh r] ss IH]; [auto|]. intros [_ [_ W]]. auto. Qed.
  Lemma solves_tail inp E (ss S : prog) : solves inp E (ss ++ S) -> solves inp E S.
  Proof. induction ss as [|[sh r] ss IH]; [auto|]. intros [_ H]. auto. Qed.
  Lemma run_tail inp (ss S : prog) : wf (ss ++ S) -> agree (declared S) (run inp (ss ++ S)) (run inp S).
  Proof.
    intros W. apply (solves_unique 0 Rplus Rmult Ropp fval inp); [exact (wf_tail ss S W)|apply (solves_tail inp _ ss)|];
      apply run_solves; [exact W|exact (wf_tail ss S W)].
  Qed.
  Lemma declared_tail (ss S : prog) : incl (declared S) (declared (ss ++ S)).
  Proof. induction ss as [|[sh r] ss IH]; [apply incl_refl|]. cbn. apply incl_tl, IH. Qed.
  Lemma declared_loop (f : step) S st k T : (k <= T)%nat -> incl (declared (fst (loop f k S st))) (declared (fst (loop f T S st))).
  Proof.
    induction 1 as [|T _ IH]; [apply incl_refl|]. rewrite loop_step. eapply incl_tran; [exact IH|apply declared_tail].
  Qed.
  Theorem steps_before shapes f S st : keeps shapes f -> wf S -> incl st (declared S) -> map shp st = shapes ->
    forall T k inp, (k <= T)%nat -> agree (declared (fst (loop f k S st))) (run inp (fst (loop f T S st))) (run inp (fst (loop f k S st))).
  Proof.
    intros Kp W I Sh. induction T as [|T IH]; intros k inp L; [inversion L; intros x _ i _; reflexivity|].
    destruct (Nat.eq_dec k (Datatypes.S T)) as [->|N]; [intros x _ i _; reflexivity|].
    pose proof (loop_wf shapes f Kp (Datatypes.S T) S st W I Sh) as [W' _]. rewrite loop_step in *.
    assert (A := declared_loop f S st k T ltac:(lia)).
    intros x Hx i Hi. rewrite (run_tail inp _ _ W' x (A x Hx) i Hi). apply IH; [lia|exact Hx|exact Hi].
  Qed.

  (** ** The gradient *)
  (** the program before the recurrence, and each of its steps, apply scalar functions where they are differentiable *)
  Definition smooth_steps (inp : env) (f : step) (T : nat) (S : prog) (st : list var) : Prop :=
    smooth_at inp S /\ forall k, (k < T)%nat -> maps_at differentiable (run inp (fst (loop f (Datatypes.S k) S st))) (added f S st k).

  Lemma applies_agree E E' D (s : stmt R fn) : agree D E E' -> (forall x, In x (ops (snd s)) -> In x D) -> pointwise (fst s) (snd s) ->
    applies differentiable E s -> applies differentiable E' s.
  Proof.
    destruct s as [sh r]. unfold applies. cbn [fst snd]. intros A I P H. destruct r; auto. intros i Hi Hp.
    rewrite <- (map_ext_in (fun x => E x i)); [apply H; auto|]. intros x Hx. apply A; [apply I, Hx|]. rewrite (P x Hx). exact Hi.
  Qed.
  Lemma maps_agree E E' (ss S : prog) : wf (ss ++ S) -> agree (declared (ss ++ S)) E E' ->
    maps_at differentiable E ss -> maps_at differentiable E' ss.
  Proof.
    induction ss as [|[sh r] ss IH]; intros W A H; [constructor|]. inversion H as [|s l H0 H1]; subst. cbn [app wf declared] in *.
    destruct W as [HO [P W]]. assert (A' : agree (declared (ss ++ S)) E E') by (apply (agree_incl _ _ _ _ (incl_tl _ (incl_refl _)) A)).
    constructor; [|apply IH; assumption]. eapply applies_agree; [exact A'|exact HO|exact P|exact H0].
  Qed.
  Lemma smooth_loop shapes f S st inp : keeps shapes f -> wf S -> incl st (declared S) -> map shp st = shapes ->
    forall T, smooth_steps inp f T S st -> smooth_at inp (fst (loop f T S st)).
  Proof.
    intros Kp W I Sh. induction T as [|T IH]; intros [H0 H]; [exact H0|].
    pose proof (loop_wf shapes f Kp (Datatypes.S T) S st W I Sh) as [W' _].
    assert (Q : smooth_at inp (fst (loop f T S st))) by (apply IH; split; [exact H0|intros k Hk; apply H; lia]).
    assert (HT : maps_at differentiable (run inp (fst (loop f (Datatypes.S T) S st))) (added f S st T)) by (apply H; lia).
    unfold Gradient.smooth_at in *. rewrite loop_step in *. apply Forall_app. split; [exact HT|].
    refine (maps_agree _ _ _ [] _ _ Q); rewrite app_nil_r; [exact (wf_tail _ _ W')|].
    intros x Hx i Hi. symmetry. apply (run_tail inp _ _ W' x Hx i Hi).
  Qed.

  (** The recurrence of T steps f after the program S, whose state st is made of variables of S: t is it with its adjoint,
      for every T. *)
  Theorem recurrence_has_gradient shapes f T S st outs dys leaves t grads (inp : R -> env) dinp u0 :
    keeps shapes f -> wf S -> incl st (declared S) -> map shp st = shapes ->
    cheap_maps DT fcost S -> (forall k S' st', cheap_maps DT fcost (fst (f k S' st'))) ->
    let P := fst (loop f T S st) in
    good_outs P outs dys -> NoDup leaves -> adjoint DT P outs dys leaves = (t, grads) -> smooth_steps (inp u0) f T S st ->
    (forall sh y, In (sh, Input y) P -> forall i, In i (box (shp y)) -> is_derive (fun u => inp u y i) u0 (dinp y i)) ->
    (forall sh y, In (sh, Input y) P -> In y leaves \/ forall i, dinp y i = 0) ->
    is_derive (fun u => seen P outs dys (inp u0) (inp u)) u0 (Rsum grads (fun c => dot (shp (tgt c)) (run (inp u0) t (lhs c)) (dinp (tgt c))))
    /\ (cost t + outsize leaves + outsize outs
        <= 4 * (cost S + zsum (seq 0 T) (fun k => cost (added f S st k)) + outsize leaves + outsize outs))%Z.
  Proof.
    intros Kp W I Sh C Ch P GO ND H Sm HI HL. split.
    - apply (adjoint_is_gradient fval partial DT DT_val P outs dys leaves); auto; [apply (loop_wf shapes f Kp T S st W I Sh)|].
      apply (smooth_loop shapes); assumption.
    - eapply (loop_bound DT fcost fcost_nonneg shapes f Kp Ch T S st); try eassumption.
  Qed.
End Recurrence.

(** * For the built-in scalar functions, and an example: s <- sin(s), any number of times, at every number *)
Definition sines : @Recurrence.step R symbol := fun _ S st =>
  ([([], Map (fun _ => true) (Function Sin) (firstn 1 st))], [Var (length S) []]).
Lemma sines_keep : Recurrence.keeps [[]] sines.
Proof.
  intros k S st W I Sh. destruct st as [|x [|y st]]; try discriminate. injection Sh as Sh. cbn.
  split; [split; [|split; [|exact W]]|split; [|reflexivity]]; intros y [<-|[]]; [apply I; now left|exact Sh|now left].
Qed.
Lemma sines_cheap k S st : cheap_maps DT fcost (fst (sines k S st)).
Proof.
  intros sh p f xs [E|[]]. injection E as _ _ <- <-. destruct st; vm_compute; discriminate.
Qed.
Lemma sines_smooth inp T S st : length st = 1%nat -> smooth_at fval partial inp S -> smooth_steps fval partial inp sines T S st.
Proof.
  intros L Sm. split; [exact Sm|]. intros k _. unfold Recurrence.added, sines. cbn [fst]. constructor; [|constructor].
  intros i _ _. apply builtin_differentiable.
  assert (Q : length (snd (Recurrence.loop sines k S st)) = 1%nat).
  { destruct k; [exact L|]. cbn [Recurrence.loop]. destruct (Recurrence.loop _ k S st). reflexivity. }
  unfold sines in Q. destruct (snd _) as [|x [|]] eqn:E; try discriminate. exact I.
Qed.
