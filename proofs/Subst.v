(** Index substitution [i |-> a]e and rule 5.21. *)
Require Import String List Bool ZArith Ring Lia.
Import ListNotations.
Require Import TL.Sums TL.SSA TL.Core TL.Rules.
Open Scope list_scope.

Fixpoint asub (i : ix) (u : aff) (a : aff) : aff :=
  match a with
  | AVar j => if String.eqb i j then u else AVar j
  | ACst k => ACst k | AAdd a b => AAdd (asub i u a) (asub i u b) | AScl k a => AScl k (asub i u a)
  end.
Fixpoint psub (i : ix) (u : aff) (p : prd) : prd :=
  match p with
  | PTrue => PTrue | PLt a b => PLt (asub i u a) (asub i u b) | PLe a b => PLe (asub i u a) (asub i u b)
  | PEq a b => PEq (asub i u a) (asub i u b) | PRel r l => PRel r (map (asub i u) l)
  | PAnd p q => PAnd (psub i u p) (psub i u q) | POr p q => POr (psub i u p) (psub i u q)
  | PEx j n p => if String.eqb i j then PEx j n p else PEx j n (psub i u p)
  end.
(** binders do not capture the variables of u *)
Fixpoint pok (u : aff) (p : prd) : Prop :=
  match p with PAnd p q | POr p q => pok u p /\ pok u q | PEx j _ p => ~ In j (afv u) /\ pok u p | _ => True end.
Lemma asub_val s i u a : aval s (asub i u a) = aval (upd s i (aval s u)) a.
Proof. induction a; simpl; auto; [|congruence|congruence]. unfold upd. destruct (String.eqb i i0); reflexivity. Qed.
Lemma existsb_ext' {A} (l : list A) f g : (forall a, f a = g a) -> existsb f l = existsb g l.
Proof. intros H. induction l; simpl; congruence. Qed.
Lemma aval_upd s j z u : ~ In j (afv u) -> aval (upd s j z) u = aval s u.
Proof. intros N. apply aval_ext. intros k Hk. unfold upd. destruct (String.eqb_spec j k); [subst; contradiction|reflexivity]. Qed.
Lemma psub_val R i u p : forall s, pok u p -> pval R s (psub i u p) = pval R (upd s i (aval s u)) p.
Proof.
  induction p; intros s H; cbn [psub pval pok] in *; auto.
  1-3: now rewrite !asub_val.
  - rewrite map_map. f_equal. apply map_ext. intros a. apply asub_val.
  - destruct H. rewrite IHp1, IHp2; auto.
  - destruct H. rewrite IHp1, IHp2; auto.
  - destruct H as [Hj H]. destruct (String.eqb_spec i i0) as [->|N]; cbn [pval]; apply existsb_ext'; intros z.
    + apply pval_ext. intros k _. unfold upd. destruct (String.eqb i0 k); reflexivity.
    + rewrite IHp, aval_upd by assumption. apply pval_ext. intros k _. unfold upd.
      destruct (String.eqb_spec i k), (String.eqb_spec i0 k); subst; try reflexivity. congruence.
Qed.

Section Subst.
  Context {K : Type} (rO rI : K) (radd rmul rsub : K -> K -> K) (ropp : K -> K).
  Hypothesis Rth : ring_theory rO rI radd rmul rsub ropp eq.
  Context {fn : Type} (fval : fn -> list K -> K) (fcost : fn -> Z) (R : rels).
  Hypothesis fcost_nonneg : forall f, (0 <= fcost f)%Z.
  Notation expr := (@expr K fn).
  Notation eval := (eval rO radd rmul fval R).
  Notation cost_ := (cost_ fcost R).

  Fixpoint esub (i : ix) (u : aff) (e : expr) : expr :=
    match e with
    | EVar x => EVar x | ECst c => ECst c
    | EAdd a b => EAdd (esub i u a) (esub i u b) | EMul a b => EMul (esub i u a) (esub i u b)
    | EFn f es => EFn f (map (esub i u) es)
    | EPair a b => EPair (esub i u a) (esub i u b) | EFst a => EFst (esub i u a) | ESnd a => ESnd (esub i u a)
    | EGen j n a => if String.eqb i j then EGen j n a else EGen j n (esub i u a)
    | ESum j n a => if String.eqb i j then ESum j n a else ESum j n (esub i u a)
    | EAcc a k => EAcc (esub i u a) (asub i u k) | EInd p a => EInd (psub i u p) (esub i u a)
    | ELet x a b => ELet x (esub i u a) (esub i u b)
    end.
  Fixpoint eok (u : aff) (e : expr) : Prop :=
    match e with
    | EVar _ | ECst _ => True
    | EAdd a b | EMul a b | EPair a b | ELet _ a b => eok u a /\ eok u b
    | EFn _ es => fold_right (fun e P => eok u e /\ P) True es
    | EFst a | ESnd a | EAcc a _ => eok u a
    | EGen j _ a | ESum j _ a => ~ In j (afv u) /\ eok u a
    | EInd p a => pok u p /\ eok u a
    end.
  Definition same_env (s s' : ienv) := forall i, s i = s' i.
  Lemma upd_env s s' i z : same_env s s' -> same_env (upd s i z) (upd s' i z).
  Proof. intros H j. unfold upd. destruct (String.eqb i j); auto. Qed.
  Lemma eval_env (e : expr) : forall r r' s s', (forall x, same_val (r x) (r' x)) -> same_env s s' -> same_val (eval r s e) (eval r' s' e).
  Proof.
    induction e using expr_ind2; intros r r' s s' HR HS d w; cbn [Core.eval]; auto.
    - apply HR.
    - rewrite (IHe1 r r' s s'), (IHe2 r r' s s'); auto.
    - rewrite (IHe1 r r' s s'), (IHe2 r r' s s'); auto.
    - f_equal. apply map_ext_in. intros a Ha. rewrite Forall_forall in H. apply H; auto.
    - destruct d as [|[|] d]; [reflexivity|apply IHe1|apply IHe2]; auto.
    - apply IHe; auto.
    - apply IHe; auto.
    - destruct w; [reflexivity|]. apply IHe; auto using upd_env.
    - apply sum_ext. intros z _. apply IHe; auto using upd_env.
    - rewrite (aval_ext s s') by auto. apply IHe; auto.
    - rewrite (pval_ext R p s s') by auto. f_equal. apply IHe; auto.
    - apply IHe2; auto. intros y d' w'. unfold upd. destruct (String.eqb x y); [apply IHe1; auto|apply HR].
  Qed.
  Lemma upd_shadow s i v z : same_env (upd s i z) (upd (upd s i v) i z).
  Proof. intros k. unfold upd. destruct (String.eqb i k); reflexivity. Qed.
  Lemma upd_swap s i j v z : i <> j -> same_env (upd (upd s j z) i v) (upd (upd s i v) j z).
  Proof. intros N k. unfold upd. destruct (String.eqb_spec i k), (String.eqb_spec j k); subst; try reflexivity. congruence. Qed.
  Lemma esub_val i u (e : expr) : forall r s, eok u e -> same_val (eval r s (esub i u e)) (eval r (upd s i (aval s u)) e).
  Proof.
    induction e using expr_ind2; intros r s H0 d w; cbn [esub Core.eval eok] in *; auto.
    - destruct H0. rewrite IHe1, IHe2; auto.
    - destruct H0. rewrite IHe1, IHe2; auto.
    - f_equal. rewrite map_map. induction es as [|a l IH]; [reflexivity|]. inversion H; subst. destruct H0. cbn [map]. f_equal; auto. apply H3; auto.
    - destruct H0. destruct d as [|[|] d]; [reflexivity|apply IHe1|apply IHe2]; auto.
    - apply IHe; auto.
    - apply IHe; auto.
    - destruct H0 as [N H0]. destruct (String.eqb_spec i i0) as [->|D]; cbn [Core.eval]; (destruct w as [|z w]; [reflexivity|]).
      + apply eval_env; [intros ? ? ?; reflexivity|]. apply upd_shadow.
      + rewrite IHe by assumption. apply eval_env; [intros ? ? ?; reflexivity|]. rewrite aval_upd by assumption. apply upd_swap, D.
    - destruct H0 as [N H0]. destruct (String.eqb_spec i i0) as [->|D]; cbn [Core.eval]; apply sum_ext; intros z _.
      + apply eval_env; [intros ? ? ?; reflexivity|]. apply upd_shadow.
      + rewrite IHe by assumption. apply eval_env; [intros ? ? ?; reflexivity|]. rewrite aval_upd by assumption. apply upd_swap, D.
    - rewrite asub_val. apply IHe; auto.
    - destruct H0. rewrite psub_val by assumption. f_equal. apply IHe; auto.
    - destruct H0. rewrite IHe2 by assumption. apply eval_env; [|intros ?; reflexivity].
      intros y d' w'. change ((if String.eqb x y then eval r s (esub i u e1) else r y) d' w' =
        (if String.eqb x y then eval r (upd s i (aval s u)) e1 else r y) d' w').
      destruct (String.eqb x y); [|reflexivity]. apply IHe1; auto.
  Qed.
  (** 5.21, value: (gen_i e)[a] = [i |-> a] e *)
  Theorem value_5_21 i n a (e : expr) r s : eok a e -> same_val (eval r s (esub i a e)) (eval r s (EAcc (EGen i n e) a)).
  Proof. intros H d w. cbn [Core.eval]. apply esub_val, H. Qed.

  Open Scope Z_scope.
  Lemma live_env (e : expr) s s' : same_env s s' -> live R s e = live R s' e.
  Proof. intros H. induction e; cbn [live]; auto. rewrite IHe, (pval_ext R p s s') by auto. reflexivity. Qed.
  Lemma cnt_env (e : expr) : forall s s', same_env s s' -> cnt R s e = cnt R s' e.
  Proof.
    induction e using expr_ind2; intros s s' HS; cbn [cnt]; try (f_equal; apply live_env; assumption).
    apply zsum_ext. intros z _. apply IHe, upd_env, HS.
  Qed.
  Lemma cost_env (e : expr) : forall j s s', same_env s s' -> cost_ j s e = cost_ j s' e.
  Proof.
    induction e using expr_ind2; intros j s s' HS; cbn [Core.cost_]; auto.
    - rewrite (IHe1 _ s s'), (IHe2 _ s s'), (live_env e1 s s'), (live_env e2 s s') by auto. reflexivity.
    - rewrite (IHe1 _ s s'), (IHe2 _ s s') by auto. reflexivity.
    - f_equal. induction H as [|a l Ha Hl IH]; [reflexivity|]. cbn [fold_right]. rewrite IH, (Ha _ s s') by auto. reflexivity.
    - rewrite (IHe1 _ s s'), (IHe2 _ s s') by auto. reflexivity.
    - apply zsum_ext. intros z _. apply IHe, upd_env, HS.
    - rewrite (cnt_env (ESum i n e) s s') by assumption. f_equal. apply zsum_ext. intros z _. apply IHe, upd_env, HS.
    - rewrite (pval_ext R p s s') by auto. rewrite (IHe _ s s') by auto. reflexivity.
    - rewrite (IHe1 _ s s'), (IHe2 _ s s') by auto. reflexivity.
  Qed.
  Lemma esub_live i u (e : expr) s : eok u e -> live R s (esub i u e) = live R (upd s i (aval s u)) e.
  Proof.
    induction e using expr_ind2; cbn [esub live eok]; auto; intros H.
    - destruct (String.eqb i i0); reflexivity.
    - destruct (String.eqb i i0); reflexivity.
    - destruct H. rewrite psub_val, IHe by assumption. reflexivity.
  Qed.
  Lemma esub_cnt i u (e : expr) : forall s, eok u e -> cnt R s (esub i u e) = cnt R (upd s i (aval s u)) e.
  Proof.
    induction e using expr_ind2; intros s H0; try (cbn [cnt]; rewrite <- esub_live by assumption; reflexivity).
    - cbn [esub eok cnt] in *. destruct (String.eqb i i0); reflexivity.
    - cbn [esub eok] in *. destruct H0 as [N H0]. destruct (String.eqb_spec i i0) as [->|D]; cbn [cnt]; apply zsum_ext; intros z _.
      + apply cnt_env, upd_shadow.
      + rewrite IHe by assumption. apply cnt_env. rewrite aval_upd by assumption. apply upd_swap, D.
  Qed.
  Lemma esub_cost i u (e : expr) : forall j s, eok u e -> cost_ j s (esub i u e) = cost_ j (upd s i (aval s u)) e.
  Proof.
    induction e using expr_ind2; intros j s H0; cbn [eok] in H0.
    - reflexivity.
    - reflexivity.
    - destruct H0. cbn [esub Core.cost_]. rewrite IHe1, IHe2, !esub_live by assumption. reflexivity.
    - destruct H0. cbn [esub Core.cost_]. rewrite IHe1, IHe2 by assumption. reflexivity.
    - cbn [esub Core.cost_]. f_equal. induction H as [|a l Ha Hl IH]; [reflexivity|]. destruct H0. cbn [map fold_right]. rewrite IH, Ha by assumption. reflexivity.
    - destruct H0. cbn [esub Core.cost_]. rewrite IHe1, IHe2 by assumption. reflexivity.
    - apply IHe; assumption.
    - apply IHe; assumption.
    - destruct H0 as [N H0]. cbn [esub]. destruct (String.eqb_spec i i0) as [->|D]; cbn [Core.cost_]; apply zsum_ext; intros z _.
      + apply cost_env, upd_shadow.
      + rewrite IHe by assumption. apply cost_env. rewrite aval_upd by assumption. apply upd_swap, D.
    - pose proof (esub_cnt i u (ESum i0 n e) s H0) as C. destruct H0 as [N H0].
      cbn [esub] in *. destruct (String.eqb_spec i i0) as [->|D]; cbn [Core.cost_]; rewrite C; f_equal; apply zsum_ext; intros z _.
      + apply cost_env, upd_shadow.
      + rewrite IHe by assumption. apply cost_env. rewrite aval_upd by assumption. apply upd_swap, D.
    - apply IHe; assumption.
    - destruct H0. cbn [esub Core.cost_]. rewrite psub_val, IHe by assumption. reflexivity.
    - destruct H0. cbn [esub Core.cost_]. rewrite IHe1, IHe2 by assumption. reflexivity.
  Qed.
  Lemma zsum_member {A} (l : list A) (f : A -> Z) a : (forall b, 0 <= f b) -> In a l -> f a <= zsum l f.
  Proof.
    intros H. induction l as [|b l IH]; intros HI; [destruct HI|]. cbn [zsum]. destruct HI as [->|HI].
    - assert (0 <= zsum l f) by (apply zsum_nonneg; auto). lia.
    - specialize (IH HI). specialize (H b). lia.
  Qed.
  (** 5.21: an access in bounds; the cost can only drop *)
  Theorem cost_5_21 i n a (e : expr) s : eok a e -> 0 <= aval s a < Z.of_nat n ->
    Core.cost fcost R s (esub i a e) <= Core.cost fcost R s (EAcc (EGen i n e) a).
  Proof.
    intros H B. unfold Core.cost. rewrite esub_cost by assumption. cbn [Core.cost_].
    apply (zsum_member (zrange n) (fun z => cost_ false (upd s i z) e)).
    - intros z. apply (cost_nonneg fcost R fcost_nonneg).
    - unfold zrange. apply in_map_iff. exists (Z.to_nat (aval s a)). split; [lia|]. apply in_seq. lia.
  Qed.
End Subst.
