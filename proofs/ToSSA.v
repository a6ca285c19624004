(** Fig. 11: lets, brackets, constants and accesses become tensor SSA: 5.25 to 5.30. *)
Require Import String List Bool ZArith Ring Lia Arith.
Import ListNotations.
Require Import TL.Sums TL.Boxes TL.Core TL.Free TL.Subst TL.Translation.
Open Scope list_scope.

Section ToSSA.
  Context {K : Type} (rO rI : K) (radd rmul rsub : K -> K -> K) (ropp : K -> K).
  Hypothesis Rth : ring_theory rO rI radd rmul rsub ropp eq.
  Add Ring KRingToSSA : Rth.
  Notation sum := (sum rO radd).
  Notation ind := (ind rO).
  Context {fn : Type} (fval : fn -> list K -> K) (fcost : fn -> Z) (R : data).
  Notation expr := (@expr K fn).
  Notation eval := (eval rO radd rmul rsub fval R).
  Notation cost := (cost fcost R).
  Notation guard := (guard R). Notation live := (live R). Notation reach := (reach R).
  Notation eval_gens := (eval_gens rO radd rmul rsub fval R).
  Notation eval_sums := (eval_sums rO rI radd rmul rsub ropp Rth fval R).
  Notation eval_at := (eval_at rO radd rmul rsub fval R).
  Notation translates := (translates rO radd rmul rsub fval fcost R).
  Notation means_at := (means_at rO radd rmul rsub fval fcost R).
  Notation means_scalar := (means_scalar rO radd rmul rsub fval fcost R).
  Notation costs := (costs rO radd rmul rsub fval fcost R).
  Notation costs_at := (costs_at rO radd rmul rsub fval fcost R).
  Notation point_value := (point_value rO rI radd rmul rsub ropp Rth fval R).
  Notation copy_means := (copy_means rO rI radd rmul rsub ropp Rth fval R).
  Notation read x bs := (@at_ K fn (EVar x) bs).
  Implicit Types e t : expr.

  (** 5.25, let: let x = e0 in e1  ->  let X = S(e0) in [x := X] S(e1) *)
  Theorem rule_5_25 G m x X sh0 sh e0 e1 t0 t1 : vok x (EVar X) e1 -> ~ In X (efv e1) \/ X = x ->
    translates G PTrue [] PTrue sh0 e0 t0 ->
    translates (upd G X (fun d => match d with [] => Some sh0 | _ => None end)) m [] PTrue sh (vsub x (EVar X) e1) t1 ->
    translates G m [] PTrue sh <{ let x := e0 in e1 }> <{ let X := t0 in t1 }>.
  Proof.
    intros V N T0 T1. split.
    - intros r r' s zs w E Hz Hm Hw. destruct Hz as [<-|[]]. cbn [app gens Core.eval Sums.ind pval] in *.
      etransitivity; [apply (means_at _ _ _ _ _ _ _ (upd r X (eval r s e0)) (upd r' X (eval r' s t0)) s [] w T1)|];
        try assumption; [| |].
      + intros y d sy wy. destruct (string_dec X y) as [<-|D].
        * rewrite !upd_same. destruct d; [|discriminate]. intros [= <-] Hw'.
          apply (means_at _ _ _ _ _ _ _ r r' s [] wy T0 E); auto. left; reflexivity.
        * rewrite !upd_other by assumption. apply E.
      + left; reflexivity.
      + cbn [pval Sums.ind upds]. rewrite vsub_val by assumption. apply eval_ext; [|apply agree_refl].
        intros y Hy d' w'. cbn [Core.eval]. rewrite !upd_same.
          destruct (string_dec x y) as [<-|D]; [now rewrite !upd_same|].
        rewrite !upd_other; [reflexivity|..]; intros ->; auto. destruct N as [N|N]; [contradiction|congruence].
    - intros s. pose proof (costs _ _ _ _ _ _ _ T0 s) as C0. pose proof (costs _ _ _ _ _ _ _ T1 s) as C1.
      cbn [gens Core.cost pval] in *. rewrite (vsub_cost fcost R) in C1 by (intros s'; repeat split). lia.
  Qed.

  Fixpoint projs (d : list bool) e : expr :=
    match d with [] => e | true :: d' => EFst (projs d' e) | false :: d' => ESnd (projs d' e) end.
  Lemma eval_projs r s e : forall d d' w, eval r s (projs d e) d' w = eval r s e (rev d ++ d') w.
  Proof.
    induction d as [|b d IH]; intros d' w; [reflexivity|]. cbn [rev]. rewrite <- app_assoc. cbn [app].
    destruct b; cbn [projs Core.eval]; apply IH.
  Qed.
  Lemma cost_projs s x d : cost s (projs d (EVar x)) = 0%Z.
  Proof. induction d as [|[|] d IH]; auto. Qed.

  (** 5.26, variable: S(X)  ->  X, also under a predicate, for one who reads it only there *)
  Theorem rule_5_26 G is p x d : NoDup (bnames is) -> G x (rev d) = Some (bsizes is) ->
    translates G p is p [] (at_ (projs d (EVar x)) is) (projs d (EVar x)).
  Proof.
    intros N Gx. split.
    - intros r r' s zs w E Hz Hm Hw. apply box_nil in Hw. subst w. rewrite eval_gens by assumption. cbn [Core.eval].
      rewrite Hm.
      cbn [Sums.ind]. rewrite eval_at, !eval_projs, upds_vals by (auto; eapply bbox_length; eassumption).
      rewrite !app_nil_r. cbn [Core.eval]. eapply E; eassumption.
    - intros s. rewrite cost_projs. rewrite cost_gens. apply zsum_nonneg. intros zs _. cbn [Core.cost].
      rewrite cost_at, cost_projs. destruct (pval R _ p); lia.
  Qed.

  (** 5.27, gen: S(i, p, gen j. e)  ->  S(ij, p, e) *)
  Theorem rule_5_27 G m is p j n sh e t : ~ In j (pfv p) -> ~ In j (pfv m) ->
    translates G m (is ++ [(j, n)]) p sh e t -> translates G m is p (n :: sh) <{ Gen j : n, e }> t.
  Proof.
    intros Np Nm T. split.
    - intros r r' s zs w E Hz Hm Hw. destruct w as [|z w]; [apply box_length in Hw; discriminate|].
      apply box_cons in Hw. destruct Hw as [Hi Hw]. pose proof (bbox_length _ _ Hz) as Lz.
      assert (Hz' : In (zs ++ [z]) (bbox (is ++ [(j, n)]))).
      { unfold bbox, bsizes. rewrite map_app. apply box_app; [now rewrite map_length|]. split; [assumption|].
        apply box_cons. split; [assumption|left; reflexivity]. }
      change (zs ++ z :: w) with (zs ++ [z] ++ w). rewrite app_assoc.
        rewrite (means_at _ _ _ _ _ _ _ r r' s _ w T); auto.
      + rewrite <- app_assoc, eval_gens by assumption. cbn [app Core.eval]. rewrite Hi, !upds_app by assumption.
        cbn [upds Sums.ind].
        rewrite (pval_ext R p (upd (upds s is zs) j z) (upds s is zs)) by (apply agree_fresh; assumption). reflexivity.
      + rewrite upds_app by assumption. cbn [upds]. rewrite <- Hm. apply pval_ext, agree_fresh, Nm.
    - intros s. eapply Z.le_trans; [apply (costs _ _ _ _ _ _ _ T)|]. rewrite gens_app, !cost_gens. apply zsum_le.
      intros zs _. cbn [gens Core.cost]. apply Z.eq_le_incl. destruct (pval R (upds s is zs) p) eqn:P.
      + apply zsum_ext. intros z _. now rewrite (pval_ext R p _ (upds s is zs)), P by (apply agree_fresh; assumption).
      + transitivity (zsum (zrange n) (fun _ => 0%Z)); [|apply zsum_0]. apply zsum_ext. intros z _.
        now rewrite (pval_ext R p _ (upds s is zs)), P by (apply agree_fresh; assumption).
  Qed.
  (** eta: an array that is no gen is gen j. e[j] *)
  Theorem eta_gen G m is p j n sh e t : ~ In j (eix e) -> (forall s, cost s e = 0%Z) ->
    translates G m is p (n :: sh) <{ Gen j : n, e[AVar j] }> t -> translates G m is p (n :: sh) e t.
  Proof.
    intros N C T. split.
    - intros r r' s zs w E Hz Hm Hw. rewrite (means_at _ _ _ _ _ _ _ r r' s zs w T), eval_gens by auto.
      destruct w as [|z w]; [apply box_length in Hw; discriminate|]. apply box_cons in Hw. destruct Hw as [Hi Hw].
      cbn [Core.eval aval]. rewrite Hi, upd_same. cbn [Sums.ind]. now rewrite eval_at_index.
    - intros s. eapply Z.le_trans; [apply (costs _ _ _ _ _ _ _ T)|]. rewrite !cost_gens. apply zsum_le. intros zs _.
      cbn [Core.cost]. rewrite C. rewrite (zsum_ext _ _ (fun _ => 0%Z)) by (intros; apply C). rewrite zsum_0. lia.
  Qed.

  (** 5.28, bracket: S(i, p0, [p1]*e)  ->  S(i, p0 and p1, e) *)
  Theorem rule_5_28 G m is p0 p1 sh e t : translates G m is (PAnd p0 p1) sh e t ->
    translates G m is p0 sh <{ [p1] * e }> t.
  Proof.
    intros T. split.
    - intros r r' s zs w E Hz Hm Hw. rewrite (means_at _ _ _ _ _ _ _ r r' s zs w T), eval_gens by auto.
      cbn [Core.eval pval].
      now rewrite ind_and.
    - intros s. eapply Z.le_trans; [apply (costs _ _ _ _ _ _ _ T)|]. rewrite !cost_gens. apply zsum_le. intros zs _.
      cbn [Core.cost pval]. destruct (pval R _ p0), (pval R _ p1); cbn [andb]; lia.
  Qed.

  (** 5.29, constant: S(i, p, c)  ->  C = gen i. c;  gen i. sum j. [p and j = i]*C[j];
      who reads it only where p holds needs no mask: C alone *)
  Theorem rule_5_29 G m is js p c C : NoDup (bnames is) -> fresh js (pfv p ++ bnames is) -> bsizes js = bsizes is ->
    translates G m is p [] (ECst c) <{ let C := GEN is, {ECst c} in {copy C p is js} }>.
  Proof.
    intros N F S. split.
    - intros r r' s zs w E Hz Hm Hw. apply box_nil in Hw. subst w. rewrite eval_gens by assumption. rewrite app_nil_r.
      cbn [Core.eval].
      rewrite copy_means by assumption. now rewrite upd_same, gens_scalar.
    - intros s. cbn [Core.cost]. rewrite copy_cost, !cost_gens by assumption. cbn [Core.cost]. rewrite zsum_0.
      apply zsum_nonneg. intros zs _. destruct (pval R _ p); lia.
  Qed.
  Theorem rule_5_29_unmasked G is p c : translates G p is p [] (ECst c) (gens is (ECst c)).
  Proof.
    split.
    - intros r r' s zs w E Hz Hm Hw. rewrite !eval_gens by assumption. cbn [Core.eval]. now rewrite Hm.
    - intros s. rewrite !cost_gens. apply zsum_le. intros zs _. cbn [Core.cost]. destruct (pval R _ p); lia.
  Qed.

  (** 5.30, access: S(i, p, x[a0..ak])  ->  X = x;  gen i. sum j0..jk. [p and j0 = a0 and .. and jk = ak]*X[j0..jk],
      where the access is in bounds (at least where p holds) *)
  Theorem rule_5_30 G m is js p x d l X : G x (rev d) = Some (bsizes js) -> length l = length js ->
    fresh js (pfv p ++ flat_map afv l) ->
    (forall s zs, In zs (bbox is) -> pval R (upds s is zs) p = true -> In (map (aval R (upds s is zs)) l) (bbox js)) ->
    translates G m is p [] (accs (projs d (EVar x)) l)
      <{ let X := {projs d (EVar x)} in GEN is, SUM js, [PAnd p (eqs (bnames js) l)] * {read X js} }>.
  Proof.
    intros Gx L F B. split.
    - intros r r' s zs w E Hz Hm Hw. apply box_nil in Hw. subst w. cbn [Core.eval]. rewrite !eval_gens by assumption.
      rewrite point_value by auto. cbn [Core.eval]. destruct (pval R (upds s is zs) p) eqn:P; [|reflexivity].
        cbn [Sums.ind].
      specialize (B s zs Hz P). rewrite read_at, upd_same, upds_vals by (apply F || (rewrite map_length; assumption)).
      rewrite eval_accs, !eval_projs, !app_nil_r. cbn [Core.eval]. eapply E; eassumption.
    - intros s. cbn [Core.cost]. rewrite cost_projs, !cost_gens. apply zsum_le. intros zs Hz.
      rewrite point_cost by auto using reach_at.
      cbn [Core.cost]. rewrite cost_at, cost_accs, cost_projs. cbn [Core.cost]. destruct (pval R _ p); lia.
  Qed.
End ToSSA.
