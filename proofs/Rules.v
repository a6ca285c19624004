(** Rules of Figs. 7-9 that need no substitution: value kept, cost not increased. *)
Require Import String List Bool ZArith Ring Lia.
Import ListNotations.
Require Import TL.Sums TL.SSA TL.Core.
Open Scope list_scope.

Section Rules.
  Context {K : Type} (rO rI : K) (radd rmul rsub : K -> K -> K) (ropp : K -> K).
  Hypothesis Rth : ring_theory rO rI radd rmul rsub ropp eq.
  Add Ring KRing5 : Rth.
  Notation sum := (sum rO radd).
  Context {fn : Type} (fval : fn -> list K -> K) (fcost : fn -> Z) (R : rels).
  Hypothesis fcost_nonneg : forall f, (0 <= fcost f)%Z.
  Notation expr := (@expr K fn).
  Notation eval := (eval rO radd rmul fval R).
  Notation cost := (cost fcost R).
  Notation cost_ := (cost_ fcost R).

  (** induction principle that reaches under the argument list of a black box *)
  Fixpoint expr_ind2 (P : expr -> Prop)
    (hVar : forall x, P (EVar x)) (hCst : forall c, P (ECst c))
    (hAdd : forall a b, P a -> P b -> P (EAdd a b)) (hMul : forall a b, P a -> P b -> P (EMul a b))
    (hFn : forall f es, Forall P es -> P (EFn f es)) (hPair : forall a b, P a -> P b -> P (EPair a b))
    (hFst : forall a, P a -> P (EFst a)) (hSnd : forall a, P a -> P (ESnd a))
    (hGen : forall i n a, P a -> P (EGen i n a)) (hSum : forall i n a, P a -> P (ESum i n a))
    (hAcc : forall a k, P a -> P (EAcc a k)) (hInd : forall p a, P a -> P (EInd p a))
    (hLet : forall x a b, P a -> P b -> P (ELet x a b)) (e : expr) : P e :=
    let rec := expr_ind2 P hVar hCst hAdd hMul hFn hPair hFst hSnd hGen hSum hAcc hInd hLet in
    match e with
    | EVar x => hVar x | ECst c => hCst c
    | EAdd a b => hAdd a b (rec a) (rec b) | EMul a b => hMul a b (rec a) (rec b)
    | EFn f es => hFn f es ((fix go l : Forall P l := match l with [] => Forall_nil _ | a :: l' => Forall_cons _ (rec a) (go l') end) es)
    | EPair a b => hPair a b (rec a) (rec b) | EFst a => hFst a (rec a) | ESnd a => hSnd a (rec a)
    | EGen i n a => hGen i n a (rec a) | ESum i n a => hSum i n a (rec a)
    | EAcc a k => hAcc a k (rec a) | EInd p a => hInd p a (rec a)
    | ELet x a b => hLet x a b (rec a) (rec b)
    end.

  (** free variables *)
  Fixpoint efv (e : expr) : list string :=
    match e with
    | EVar x => [x] | ECst _ => []
    | EAdd a b | EMul a b | EPair a b => efv a ++ efv b
    | EFn _ es => flat_map efv es
    | EFst a | ESnd a | EGen _ _ a | ESum _ _ a | EAcc a _ | EInd _ a => efv a
    | ELet x a b => efv a ++ filter (fun y => negb (String.eqb x y)) (efv b)
    end.
  Definition same_val (v v' : list bool -> list Z -> K) := forall d w, v d w = v' d w.
  Lemma eval_ext e : forall r r' s, (forall x, In x (efv e) -> same_val (r x) (r' x)) -> same_val (eval r s e) (eval r' s e).
  Proof.
    induction e using expr_ind2; intros r r' s HV d w; cbn [efv] in HV; cbn [Core.eval].
    - apply HV; left; auto.
    - reflexivity.
    - rewrite (IHe1 r r'), (IHe2 r r'); auto; intros; apply HV, in_or_app; auto.
    - rewrite (IHe1 r r'), (IHe2 r r'); auto; intros; apply HV, in_or_app; auto.
    - f_equal. apply map_ext_in. intros a Ha. rewrite Forall_forall in H. apply H; auto. intros x Hx. apply HV, in_flat_map. eauto.
    - destruct d as [|[|] d]; [reflexivity|apply IHe1|apply IHe2]; intros; apply HV, in_or_app; auto.
    - apply IHe; auto.
    - apply IHe; auto.
    - destruct w; [reflexivity|]. apply IHe; auto.
    - apply sum_ext. intros z _. apply IHe; auto.
    - apply IHe; auto.
    - f_equal. apply IHe; auto.
    - apply IHe2. intros y Hy d' w'. unfold upd. destruct (String.eqb x y) eqn:E.
      + apply IHe1. intros; apply HV, in_or_app; auto.
      + apply HV, in_or_app. right. apply filter_In. rewrite E. auto.
  Qed.
  Lemma eval_weaken x v e r s : ~ In x (efv e) -> same_val (eval (upd r x v) s e) (eval r s e).
  Proof.
    intros N. apply eval_ext. intros y Hy d w. unfold upd. destruct (String.eqb_spec x y); [subst; contradiction|reflexivity].
  Qed.
  Open Scope Z_scope.
  Lemma cnt_nonneg (e : expr) : forall s, 0 <= cnt R s e.
  Proof.
    induction e using expr_ind2; intros s; cbn [cnt]; try apply b2z_range. apply zsum_nonneg; auto.
  Qed.
  Lemma cost_nonneg (e : expr) : forall j s, 0 <= cost_ j s e.
  Proof.
    induction e using expr_ind2; intros j s; cbn [Core.cost_]; try lia.
    - specialize (IHe1 false s); specialize (IHe2 false s). pose proof (b2z_range (live R s e1 && live R s e2)). lia.
    - specialize (IHe1 false s); specialize (IHe2 false s). lia.
    - assert (0 <= fold_right (fun e c => cost_ false s e + c) 0 es); [|specialize (fcost_nonneg f); lia].
      induction H as [|a l Ha Hl IH]; simpl; [lia|]. specialize (Ha false s). lia.
    - specialize (IHe1 false s); specialize (IHe2 false s). lia.
    - apply IHe.
    - apply IHe.
    - apply zsum_nonneg; auto.
    - assert (0 <= zsum (zrange n) (fun z => cost_ true (upd s i z) e)) by (apply zsum_nonneg; auto).
      destruct j; [lia|]. pose proof (cnt_nonneg (ESum i n e) s). set (c := cnt R s _) in *.
      destruct (0 <? c) eqn:E; cbn [b2z]; [apply Z.ltb_lt in E|]; lia.
    - apply IHe.
    - destruct (pval R s p); [apply IHe|lia].
    - specialize (IHe1 false s); specialize (IHe2 false s). lia.
  Qed.

  (** a rule is sound when it keeps the value and does not raise the cost *)
  Definition sound (l r : expr) : Prop :=
    (forall rho s, same_val (eval rho s r) (eval rho s l)) /\ (forall s, cost s r <= cost s l).
  Definition neutral (l r : expr) : Prop :=
    (forall rho s, same_val (eval rho s r) (eval rho s l)) /\ (forall s, cost s r = cost s l).
  Ltac start := split; [intros rho s d w; cbn [Core.eval]|intros s; unfold Core.cost; cbn [Core.cost_]].

  Theorem rule_5_1 x a b c : ~ In x (efv c) -> sound (EAdd (ELet x a b) c) (ELet x a (EAdd b c)).
  Proof.
    intros N. start; [now rewrite (eval_weaken x _ c _ s N)|]. cbn [live andb].
    destruct (live R s b), (live R s c); cbn [b2z andb]; lia.
  Qed.
  Theorem rule_5_1' x a b c : ~ In x (efv c) -> sound (EAdd c (ELet x a b)) (ELet x a (EAdd c b)).
  Proof.
    intros N. start; [now rewrite (eval_weaken x _ c _ s N)|]. cbn [live].
    destruct (live R s b), (live R s c); cbn [b2z andb]; lia.
  Qed.
  Theorem rule_5_2 x a b c : ~ In x (efv c) -> neutral (EMul (ELet x a b) c) (ELet x a (EMul b c)).
  Proof. intros N. start; [now rewrite (eval_weaken x _ c _ s N)|lia]. Qed.
  Theorem rule_5_2' x a b c : ~ In x (efv c) -> neutral (EMul c (ELet x a b)) (ELet x a (EMul c b)).
  Proof. intros N. start; [now rewrite (eval_weaken x _ c _ s N)|lia]. Qed.
  Theorem rule_5_3 x f l1 a b l2 : ~ In x (flat_map efv (l1 ++ l2)) ->
    neutral (EFn f (l1 ++ ELet x a b :: l2)) (ELet x a (EFn f (l1 ++ b :: l2))).
  Proof.
    intros N. rewrite flat_map_app in N. start.
    - f_equal. rewrite !map_app. cbn [map Core.eval].
      assert (M : forall l, ~ In x (flat_map efv l) -> map (fun e => eval (upd rho x (eval rho s a)) s e d w) l = map (fun e => eval rho s e d w) l).
      { intros l Nl. apply map_ext_in. intros e He. apply eval_weaken. intros Hx. apply Nl, in_flat_map; eauto. }
      rewrite !M; [reflexivity|intros H; apply N, in_or_app; auto|intros H; apply N, in_or_app; auto].
    - rewrite !fold_right_app. cbn [fold_right Core.cost_]. set (t := fold_right _ 0 l2).
      assert (M : forall l u v, fold_right (fun (e : expr) c => cost_ false s e + c) (u + v) l = u + fold_right (fun (e : expr) c => cost_ false s e + c) v l).
      { induction l as [|e l IH]; intros; simpl; [lia|]. rewrite IH. lia. }
      rewrite <- Z.add_assoc, (M l1 (cost_ false s a)). lia.
  Qed.
  Theorem rule_5_4 x a b c : ~ In x (efv c) -> neutral (EPair (ELet x a b) c) (ELet x a (EPair b c)).
  Proof. intros N. start; [destruct d as [|[|] d]; try reflexivity; now rewrite (eval_weaken x _ c _ s N)|lia]. Qed.
  Theorem rule_5_5 x a b : neutral (EFst (ELet x a b)) (ELet x a (EFst b)).
  Proof. start; reflexivity. Qed.
  Theorem rule_5_8 x a b k : neutral (EAcc (ELet x a b) k) (ELet x a (EAcc b k)).
  Proof. start; reflexivity. Qed.
  Theorem rule_5_9 x p a b : neutral (EInd p (ELet x a b)) (ELet x (EInd p a) (EInd p b)).
  Proof. start; destruct (pval R s p); reflexivity. Qed.
  Theorem rule_5_10 x y a b c : ~ In y (efv c) -> x <> y ->
    neutral (ELet x (ELet y a b) c) (ELet y a (ELet x b c)).
  Proof.
    intros N D. start; [|lia]. apply eval_ext. intros z Hz d' w'. unfold upd.
    destruct (String.eqb x z) eqn:E; [reflexivity|]. destruct (String.eqb_spec y z); [subst; contradiction|reflexivity].
  Qed.
  Theorem rule_5_11_fst a b : sound (EFst (EPair a b)) a.
  Proof. start; [reflexivity|]. pose proof (cost_nonneg b false s). lia. Qed.
  Theorem rule_5_11_snd a b : sound (ESnd (EPair a b)) b.
  Proof. start; [reflexivity|]. pose proof (cost_nonneg a false s). lia. Qed.
  Theorem rule_5_12 i n a : neutral (EFst (EGen i n a)) (EGen i n (EFst a)).
  Proof. start; reflexivity. Qed.
  Theorem rule_5_13 i n a b : neutral (EGen i n (EPair a b)) (EPair (EGen i n a) (EGen i n b)).
  Proof. start; [destruct d as [|[|] d], w; reflexivity|]. now rewrite <- zsum_add. Qed.
  Theorem rule_5_14 a k : neutral (EFst (EAcc a k)) (EAcc (EFst a) k).
  Proof. start; reflexivity. Qed.
  Theorem rule_5_15 a b k : neutral (EAcc (EPair a b) k) (EPair (EAcc a k) (EAcc b k)).
  Proof. start; [destruct d as [|[|] d]|]; reflexivity. Qed.
  Theorem rule_5_16 p a : neutral (EFst (EInd p a)) (EInd p (EFst a)).
  Proof. start; reflexivity. Qed.
  Theorem rule_5_17 p a b : neutral (EInd p (EPair a b)) (EPair (EInd p a) (EInd p b)).
  Proof. start; [destruct d as [|[|] d]|]; destruct (pval R s p); reflexivity. Qed.
  Theorem rule_5_22 p a k : neutral (EAcc (EInd p a) k) (EInd p (EAcc a k)).
  Proof. start; reflexivity. Qed.
  Theorem rule_5_23 i n p a : ~ In i (pfv p) -> neutral (EInd p (EGen i n a)) (EGen i n (EInd p a)).
  Proof.
    intros N. assert (E : forall s z, pval R (upd s i z) p = pval R s p).
    { intros s z. apply pval_ext. intros j Hj. unfold upd. destruct (String.eqb_spec i j); [subst; contradiction|reflexivity]. }
    start.
    - destruct w; [destruct (pval R s p); reflexivity|]. now rewrite E.
    - destruct (pval R s p) eqn:Ep.
      + apply zsum_ext. intros z _. now rewrite E, Ep.
      + transitivity (zsum (zrange n) (fun _ => 0)); [|apply zsum_0]. apply zsum_ext. intros z _. now rewrite E, Ep.
  Qed.
  Theorem rule_5_24 p q a : neutral (EInd p (EInd q a)) (EInd (PAnd p q) a).
  Proof. start; cbn [pval]; destruct (pval R s p), (pval R s q); reflexivity. Qed.
End Rules.
