(** Fig. 9: gen is outermost in every right-hand side (tensorlang/normal/push_out_gen.py). *)
Require Import String List Bool ZArith Ring Lia.
Import ListNotations.
Require Import TL.Sums TL.Boxes TL.Core TL.Free TL.Improve TL.Subst.
Open Scope list_scope.

Section PushOutGen.
  Context {K : Type} (rO rI : K) (radd rmul rsub : K -> K -> K) (ropp : K -> K).
  Hypothesis Rth : ring_theory rO rI radd rmul rsub ropp eq.
  Context {fn : Type} (fval : fn -> list K -> K) (fcost : fn -> Z) (R : data).
  Hypothesis fcost_nonneg : forall f, (0 <= fcost f)%Z.
  Notation expr := (@expr K fn).
  Notation eval := (eval rO radd rmul rsub fval R).
  Notation cost := (cost fcost R).
  Notation reach := (reach R).
  Notation keeps := (keeps rO radd rmul rsub fval fcost R).
  Notation improves_at := (improves_at rO radd rmul rsub fval fcost R).
  Notation "l --> r" := (improves rO radd rmul rsub fval fcost R l r) (at level 70).
  Notation "l <--> r" := (equivalent rO radd rmul rsub fval fcost R l r) (at level 70).
  Implicit Types e : expr.

  Lemma zsum_member {A} (l : list A) (f : A -> Z) a : (forall b, (0 <= f b)%Z) -> In a l -> (f a <= zsum l f)%Z.
  Proof.
    intros H. induction l as [|b l IH]; intros HI; [destruct HI|]. cbn [zsum]. destruct HI as [->|HI].
    - assert (0 <= zsum l f)%Z by (apply zsum_nonneg; auto). lia.
    - specialize (IH HI). specialize (H b). lia.
  Qed.

  (** 5.21, element of a gen: (gen i. e)[a]  ->  [i := a] e, where a is in bounds.
      (An access need only be in bounds where it is evaluated, as [anywhere] says.) *)
  Theorem rule_5_21 i n a e s : iok a e -> inside n (aval R s a) = true ->
    improves_at s <{ (Gen i : n, e)[a] }> (isub i a e).
  Proof.
    intros V B. apply keeps_improves; [intros s'; repeat split|]. split; [intros rho d w|].
    - rewrite isub_val by assumption. cbn [Core.eval]. now rewrite B.
    - rewrite (isub_cost fcost R) by assumption. cbn [Core.cost].
      apply (zsum_member (zrange n) (fun z => cost (upd s i z) e)); [|now apply zrange_inside].
      intros z. apply (cost_nonneg fcost R fcost_nonneg).
  Qed.

  (** 5.22, element of a bracket: ([p]*e)[a]  ->  [p]*(e[a]) *)
  Theorem rule_5_22 p e k : <{ ([p] * e)[k] }> --> <{ [p] * (e[k]) }>.
  Proof. apply improves_intro; [intros s; repeat split|intros rho s d w|intros s]; reflexivity. Qed.

  (** 5.23, bracket over a gen: [p]*(gen i. e)  ->  gen i. [p]*e.
      An array is no operand of + or sum, so what [sealed] asks for is always so. *)
  Theorem rule_5_23 i n p e : ~ In i (pfv p) ->
    let l := <{ [p] * (Gen i : n, e) }> in let r := <{ Gen i : n, [p] * e }> in keeps l r /\ keeps r l.
  Proof.
    intros N l r. assert (E : forall s z, pval R (upd s i z) p = pval R s p) by (intros;
      apply pval_ext, agree_fresh, N).
    assert (V : forall rho s d w, eval rho s l d w = eval rho s r d w).
    { intros rho s d w. unfold l, r. cbn [Core.eval]. destruct w as [|z w]; [destruct (pval R s p); reflexivity|].
      rewrite E. destruct (inside n z), (pval R s p); reflexivity. }
    assert (C : forall s, cost s l = cost s r).
    { intros s. unfold l, r. cbn [Core.cost]. destruct (pval R s p) eqn:Ep.
      - apply zsum_ext. intros z _. now rewrite E, Ep.
      - symmetry. transitivity (zsum (zrange n) (fun _ => 0%Z)); [|apply zsum_0]. apply zsum_ext. intros z _.
        now rewrite E, Ep. }
    split; intros s; (split; [intros rho d w|]); rewrite ?V, ?C; reflexivity || lia.
  Qed.

  (** 5.24, bracket over a bracket: [p0]*[p1]*e  ->  [p0 and p1]*e *)
  Theorem rule_5_24 p0 p1 e : <{ [p0] * [p1] * e }> <--> <{ [PAnd p0 p1] * e }>.
  Proof.
    apply equivalent_intro; intros; try intros d w; cbn [Core.eval Core.cost Core.live guard Core.reach pval];
      destruct (pval R s p0), (pval R s p1); reflexivity.
  Qed.

  (** 5.24', sum over a bracket over a sum: sum i. [p]*sum j. [q]*e  ->  sum i, j. [p and q]*e *)
  Theorem rule_5_24' i n p js q e : (forall j, In j (bnames js) -> ~ In j (pfv p)) ->
    <{ Sum i : n, [p] * (SUM js, [q] * e) }> <--> <{ Sum i : n, SUM js, [PAnd p q] * e }>.
  Proof.
    intros N.
    assert (P : forall s z zs, pval R (upds (upd s i z) js zs) p = pval R (upd s i z) p)
      by (intros s z zs; apply pval_ext, upds_agree; intros j Hj; apply N, Hj).
    assert (E : forall s z, reach (upd s i z) (EInd p (sums js (EInd q e))) =
      reach (upd s i z) (sums js (EInd (PAnd p q) e))).
    { intros s z. cbn [Core.reach]. rewrite !reach_sums.
      induction (bbox js) as [|zs l IH]; cbn [existsb]; [apply andb_false_r|].
      rewrite <- IH. cbn [Core.reach pval]. rewrite P. destruct (pval R (upd s i z) p); reflexivity. }
    apply equivalent_intro; try (intros s; reflexivity).
    - intros rho s d w. cbn [sums Core.eval]. apply sum_ext. intros z _. cbn [Core.eval].
      rewrite !(eval_sums _ _ _ _ _ _ Rth), (ind_sum _ _ _ _ _ _ Rth). apply sum_ext. intros zs _. cbn [Core.eval pval].
      rewrite P. now rewrite ind_and.
    - intros s. cbn [sums Core.cost]. f_equal; [|f_equal; apply existsb_ext; intros z _; symmetry; apply E].
      apply zsum_ext. intros z _. rewrite <- E. f_equal. rewrite !cost_sums, <- (E s z). cbn [Core.reach].
      destruct (pval R (upd s i z) p) eqn:Ep; cbn [andb].
      + f_equal. apply zsum_ext. intros zs _. cbn [Core.cost Core.reach pval]. now rewrite P, Ep.
      + rewrite Z.sub_0_r. transitivity (zsum (bbox js) (fun _ => 0%Z)); [|apply zsum_0].
        apply zsum_ext. intros zs _. cbn [Core.cost Core.reach pval]. now rewrite P, Ep.
    - intros s. cbn [sums Core.reach]. apply existsb_ext. intros z _. symmetry. apply E.
  Qed.
End PushOutGen.
