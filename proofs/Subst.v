(** Substitution: [i := a] e for an index (Fig. 9), [x := u] e for a variable (Figs. 7 and 8).  No binder of e may
    capture what is put in (bound names are distinct). *)
Require Import String List Bool ZArith Lia.
Import ListNotations.
Require Import TL.Sums TL.Boxes TL.Core TL.Free.
Open Scope list_scope.

(** * Of an index in indices and predicates *)
Fixpoint asub (i : ix) (u : aff) (a : aff) : aff :=
  match a with
  | AVar j => if String.eqb i j then u else AVar j
  | ACst k => ACst k | AAdd a b => AAdd (asub i u a) (asub i u b) | AScl k a => AScl k (asub i u a)
  | ALook y l => ALook y (map (asub i u) l)
  end.
Fixpoint psub (i : ix) (u : aff) (p : prd) : prd :=
  match p with
  | PTrue => PTrue | PLt a b => PLt (asub i u a) (asub i u b) | PLe a b => PLe (asub i u a) (asub i u b)
  | PEq a b => PEq (asub i u a) (asub i u b) | PRel r l => PRel r (map (asub i u) l)
  | PAnd p q => PAnd (psub i u p) (psub i u q) | POr p q => POr (psub i u p) (psub i u q)
  | PEx j n p => if String.eqb i j then PEx j n p else PEx j n (psub i u p)
  end.
Fixpoint pok (u : aff) (p : prd) : Prop :=
  match p with PAnd p q | POr p q => pok u p /\ pok u q | PEx j _ p => ~ In j (afv u) /\ pok u p | _ => True end.

Lemma asub_val R s i u a : aval R s (asub i u a) = aval R (upd s i (aval R s u)) a.
Proof.
  induction a using aff_ind2; cbn [asub aval]; try congruence.
  - unfold upd. destruct (String.eqb i i0); reflexivity.
  - f_equal. rewrite map_map. apply map_ext_in. intros a Ha. rewrite Forall_forall in H. apply H, Ha.
Qed.
Lemma aval_upd R s j z u : ~ In j (afv u) -> aval R (upd s j z) u = aval R s u.
Proof. intros N. now apply aval_ext, agree_fresh. Qed.
Lemma without_notin i l : ~ In i (without i l).
Proof. unfold without. rewrite filter_In, String.eqb_refl. intros [_ H]. discriminate. Qed.
Lemma psub_val R i u p : forall s, pok u p -> pval R s (psub i u p) = pval R (upd s i (aval R s u)) p.
Proof.
  induction p; intros s H; cbn [psub pval pok] in *; auto.
  1-3: now rewrite !asub_val.
  - rewrite map_map. f_equal. apply map_ext. intros a. apply asub_val.
  - destruct H. rewrite IHp1, IHp2; auto.
  - destruct H. rewrite IHp1, IHp2; auto.
  - destruct H as [Hj H]. destruct (String.eqb_spec i i0) as [->|N].
    + apply (pval_ext R (PEx i0 n p)), agree_sym, agree_fresh. apply without_notin.
    + cbn [pval]. apply existsb_ext; intros z _. rewrite IHp, aval_upd by assumption. apply pval_ext, upd_swap, N.
Qed.

Section Subst.
  Context {K : Type} (rO rI : K) (radd rmul rsub : K -> K -> K).
  Context {fn : Type} (fval : fn -> list K -> K) (fcost : fn -> Z) (R : data).
  Notation expr := (@expr K fn).
  Notation eval := (eval rO radd rmul rsub fval R).
  Notation cost := (cost fcost R).
  Notation guard := (guard R). Notation live := (live R). Notation reach := (reach R).
  Notation eval_ext := (eval_ext rO radd rmul rsub fval R).

  (** * Of an index: [isub i a e] is [i := a] e *)
  Fixpoint isub (i : ix) (u : aff) (e : expr) : expr :=
    match e with
    | EVar x => EVar x | ECst c => ECst c
    | EAdd a b => EAdd (isub i u a) (isub i u b) | ESub a b => ESub (isub i u a) (isub i u b)
    | EMul a b => EMul (isub i u a) (isub i u b)
    | EFn f es => EFn f (map (isub i u) es)
    | EPair a b => EPair (isub i u a) (isub i u b) | EFst a => EFst (isub i u a) | ESnd a => ESnd (isub i u a)
    | EGen j n a => if String.eqb i j then EGen j n a else EGen j n (isub i u a)
    | ESum j n a => if String.eqb i j then ESum j n a else ESum j n (isub i u a)
    | EAcc a k => EAcc (isub i u a) (asub i u k) | EInd p a => EInd (psub i u p) (isub i u a)
    | ELet x a b => ELet x (isub i u a) (isub i u b)
    end.
  Fixpoint iok (u : aff) (e : expr) : Prop :=
    match e with
    | EVar _ | ECst _ => True
    | EAdd a b | ESub a b | EMul a b | EPair a b | ELet _ a b => iok u a /\ iok u b
    | EFn _ es => fold_right (fun e P => iok u e /\ P) True es
    | EFst a | ESnd a | EAcc a _ => iok u a
    | EGen j _ a | ESum j _ a => ~ In j (afv u) /\ iok u a
    | EInd p a => pok u p /\ iok u a
    end.
  Lemma same_index e r s s' : agree (eix e) s s' -> same_val (eval r s e) (eval r s' e).
  Proof. intros H. apply eval_ext; [apply same_vals_refl|exact H]. Qed.
  Lemma isub_val i u e : forall r s, iok u e -> same_val (eval r s (isub i u e)) (eval r (upd s i (aval R s u)) e).
  Proof.
    induction e using expr_ind2; intros r s H0 d w; cbn [isub iok] in H0 |- *; cbn [Core.eval]; auto.
    - destruct H0. rewrite IHe1, IHe2; auto.
    - destruct H0. rewrite IHe1, IHe2; auto.
    - destruct H0. rewrite IHe1, IHe2; auto.
    - f_equal. rewrite map_map. induction es as [|a l IH]; [reflexivity|]. inversion H; subst. destruct H0. cbn [map].
      f_equal; auto. apply H3; auto.
    - destruct H0. destruct d as [|[|] d]; [reflexivity|apply IHe1|apply IHe2]; auto.
    - apply IHe; auto.
    - apply IHe; auto.
    - destruct H0 as [N H0]. destruct (String.eqb_spec i i0) as [->|D].
      + apply (same_index (EGen i0 n e)), agree_sym, agree_fresh. apply without_notin.
      + cbn [Core.eval]. destruct w as [|z w]; [reflexivity|]. f_equal. rewrite IHe by assumption.
        apply same_index. rewrite aval_upd by assumption. apply upd_swap, D.
    - destruct H0 as [N H0]. destruct (String.eqb_spec i i0) as [->|D].
      + apply (same_index (ESum i0 n e)), agree_sym, agree_fresh. apply without_notin.
      + cbn [Core.eval]. apply sum_ext. intros z _. rewrite IHe by assumption.
        apply same_index. rewrite aval_upd by assumption. apply upd_swap, D.
    - rewrite asub_val. apply IHe; auto.
    - destruct H0. rewrite psub_val by assumption. f_equal. apply IHe; auto.
    - destruct H0. rewrite IHe2 by assumption. apply eval_ext; [|apply agree_refl].
      apply same_vals_upd; [|apply same_vals_refl]. intros d' w'. apply IHe1; auto.
  Qed.
  Lemma isub_guard i u e s : iok u e -> guard s (isub i u e) = guard (upd s i (aval R s u)) e.
  Proof.
    induction e using expr_ind2; cbn [isub Core.guard iok]; auto; intros H.
    - destruct (String.eqb i i0); reflexivity.
    - destruct (String.eqb i i0); reflexivity.
    - destruct H. rewrite psub_val, IHe by assumption. reflexivity.
  Qed.
  Lemma isub_live i u e s : iok u e -> live s (isub i u e) = live (upd s i (aval R s u)) e.
  Proof.
    induction e using expr_ind2; intros H0; try exact (isub_guard i u _ s H0).
    - destruct H0. cbn [isub Core.live]. rewrite IHe1, IHe2 by assumption. reflexivity.
    - destruct H0. cbn [isub Core.live]. rewrite IHe1, IHe2 by assumption. reflexivity.
    - cbn [isub Core.live]. destruct (String.eqb i i0); reflexivity.
    - cbn [isub Core.live]. destruct (String.eqb i i0); reflexivity.
  Qed.
  Lemma isub_reach i u e : forall s, iok u e -> reach s (isub i u e) = reach (upd s i (aval R s u)) e.
  Proof.
    induction e using expr_ind2; intros s H0; cbn [isub Core.reach iok] in *; auto.
    - destruct (String.eqb i i0); reflexivity.
    - destruct H0 as [N H0]. destruct (String.eqb_spec i i0) as [->|D].
      + apply (reach_ext R (ESum i0 n e)), agree_sym, agree_fresh. apply without_notin.
      + cbn [Core.reach]. apply existsb_ext. intros z _. rewrite IHe by assumption. apply reach_ext.
        rewrite aval_upd by assumption. apply upd_swap, D.
    - destruct H0. rewrite psub_val, IHe by assumption. reflexivity.
  Qed.
  Lemma isub_cost i u e : forall s, iok u e -> cost s (isub i u e) = cost (upd s i (aval R s u)) e.
  Proof.
    induction e using expr_ind2; intros s H0; cbn [isub Core.cost iok] in *; auto.
    - destruct H0. rewrite IHe1, IHe2, !isub_live by assumption. reflexivity.
    - destruct H0. rewrite IHe1, IHe2, !isub_live by assumption. reflexivity.
    - destruct H0. rewrite IHe1, IHe2 by assumption. reflexivity.
    - do 2 f_equal. rewrite map_map. induction es as [|a l IH]; [reflexivity|]. inversion H; subst. destruct H0.
      cbn [map].
      f_equal; auto.
    - destruct H0. rewrite IHe1, IHe2 by assumption. reflexivity.
    - destruct H0 as [N H0]. destruct (String.eqb_spec i i0) as [->|D].
      + apply (cost_ext fcost R (EGen i0 n e)), agree_sym, agree_fresh. apply without_notin.
      + cbn [Core.cost]. apply zsum_ext. intros z _. rewrite IHe by assumption. apply cost_ext.
        rewrite aval_upd by assumption. apply upd_swap, D.
    - destruct H0 as [N H0]. destruct (String.eqb_spec i i0) as [->|D].
      + apply (cost_ext fcost R (ESum i0 n e)), agree_sym, agree_fresh. apply without_notin.
      + assert (A : forall z, agree (eix e) (upd (upd s i0 z) i (aval R (upd s i0 z) u)) (upd (upd s i (aval R s u)) i0
        z))
          by (intros z; rewrite aval_upd by assumption; apply upd_swap, D).
        cbn [Core.cost]. f_equal; [|f_equal; apply existsb_ext; intros z _].
        * apply zsum_ext. intros z _. rewrite IHe, isub_reach by assumption.
          rewrite (cost_ext _ _ _ _ _ (A z)), (reach_ext _ _ _ _ (A z)). reflexivity.
        * rewrite isub_reach by assumption. apply reach_ext, A.
    - destruct H0. rewrite psub_val, IHe by assumption. reflexivity.
    - destruct H0. rewrite IHe1, IHe2 by assumption. reflexivity.
  Qed.

  (** * Of a variable: [vsub x u e] is [x := u] e *)
  Fixpoint vsub (x : string) (u e : expr) : expr :=
    match e with
    | EVar y => if String.eqb x y then u else EVar y
    | ECst c => ECst c
    | EAdd a b => EAdd (vsub x u a) (vsub x u b) | ESub a b => ESub (vsub x u a) (vsub x u b)
    | EMul a b => EMul (vsub x u a) (vsub x u b)
    | EFn f es => EFn f (map (vsub x u) es)
    | EPair a b => EPair (vsub x u a) (vsub x u b) | EFst a => EFst (vsub x u a) | ESnd a => ESnd (vsub x u a)
    | EGen j n a => EGen j n (vsub x u a) | ESum j n a => ESum j n (vsub x u a)
    | EAcc a k => EAcc (vsub x u a) k | EInd p a => EInd p (vsub x u a)
    | ELet y a b => ELet y (vsub x u a) (if String.eqb x y then b else vsub x u b)
    end.
  Fixpoint vok (x : string) (u e : expr) : Prop :=
    match e with
    | EVar _ | ECst _ => True
    | EAdd a b | ESub a b | EMul a b | EPair a b => vok x u a /\ vok x u b
    | EFn _ es => fold_right (fun e P => vok x u e /\ P) True es
    | EFst a | ESnd a | EAcc a _ | EInd _ a => vok x u a
    | EGen j _ a | ESum j _ a => ~ In j (eix u) /\ vok x u a
    | ELet y a b => vok x u a /\ (x = y \/ ~ In y (efv u) /\ vok x u b)
    end.
  Lemma vsub_val x u e : forall r s, vok x u e -> same_val (eval r s (vsub x u e)) (eval (upd r x (eval r s u)) s e).
  Proof.
    induction e using expr_ind2; intros r s H0 d w; cbn [vsub vok] in H0 |- *; cbn [Core.eval]; auto.
    - unfold upd. destruct (String.eqb x x0); reflexivity.
    - destruct H0. rewrite IHe1, IHe2; auto.
    - destruct H0. rewrite IHe1, IHe2; auto.
    - destruct H0. rewrite IHe1, IHe2; auto.
    - f_equal. rewrite map_map. induction es as [|a l IH]; [reflexivity|]. inversion H; subst. destruct H0. cbn [map].
      f_equal; auto. apply H3; auto.
    - destruct H0. destruct d as [|[|] d]; [reflexivity|apply IHe1|apply IHe2]; auto.
    - apply IHe; auto.
    - apply IHe; auto.
    - destruct H0 as [N H0]. destruct w as [|z w]; [reflexivity|]. f_equal. rewrite IHe by assumption.
      apply eval_ext; [|apply agree_refl]. apply same_vals_upd; [|apply same_vals_refl]. apply eval_at_index, N.
    - destruct H0 as [N H0]. apply sum_ext. intros z _. rewrite IHe by assumption.
      apply eval_ext; [|apply agree_refl]. apply same_vals_upd; [|apply same_vals_refl]. apply eval_at_index, N.
    - apply IHe; auto.
    - f_equal. apply IHe; auto.
    - destruct H0 as [H1 H2]. destruct (String.eqb_spec x x0) as [->|D].
      + apply eval_ext; [|apply agree_refl]. intros y _ d' w'. destruct (string_dec x0 y) as [<-|D].
        * rewrite !upd_same. apply IHe1, H1.
        * now rewrite !upd_other.
      + destruct H2 as [->|[N H2]]; [contradiction|]. rewrite IHe2 by assumption. apply eval_ext; [|apply agree_refl].
        intros y _ d' w'. destruct (string_dec x y) as [<-|Dx].
        * rewrite upd_same, (upd_other _ x0 _ x) by congruence. rewrite upd_same. now apply eval_weaken.
        * rewrite (upd_other _ x _ y) by assumption. destruct (string_dec x0 y) as [<-|D0].
          -- rewrite !upd_same. apply IHe1, H1.
          -- now rewrite !upd_other.
  Qed.

  (** a variable, an access or a pair of them: without a cost, and no bracket *)
  Definition plain (u : expr) := forall s, cost s u = 0%Z /\ guard s u = true /\ live s u = true /\ reach s u = true.
  Lemma vsub_guard x u e s : plain u -> guard s (vsub x u e) = guard s e.
  Proof.
    intros P. induction e using expr_ind2; cbn [vsub Core.guard]; auto.
    - destruct (String.eqb x x0); [apply P|reflexivity].
    - now rewrite IHe.
  Qed.
  Lemma vsub_live x u e s : plain u -> live s (vsub x u e) = live s e.
  Proof.
    intros P. induction e using expr_ind2; cbn [vsub Core.live]; auto.
    - destruct (String.eqb x x0); [apply P|reflexivity].
    - now rewrite IHe1, IHe2.
    - now rewrite IHe1, IHe2.
    - exact (vsub_guard x u (EInd p e) s P).
  Qed.
  Lemma vsub_reach x u e : plain u -> forall s, reach s (vsub x u e) = reach s e.
  Proof.
    intros P. induction e using expr_ind2; intros s; cbn [vsub Core.reach]; auto.
    - destruct (String.eqb x x0); [apply P|reflexivity].
    - apply existsb_ext. auto.
    - now rewrite IHe.
  Qed.
  Lemma vsub_cost x u e : plain u -> forall s, cost s (vsub x u e) = cost s e.
  Proof.
    intros P. induction e using expr_ind2; intros s; cbn [vsub Core.cost]; auto.
    - destruct (String.eqb x x0); [apply P|reflexivity].
    - now rewrite IHe1, IHe2, !vsub_live.
    - now rewrite IHe1, IHe2, !vsub_live.
    - now rewrite IHe1, IHe2.
    - do 2 f_equal. rewrite map_map. apply map_ext_in. intros a Ha. rewrite Forall_forall in H. apply H, Ha.
    - now rewrite IHe1, IHe2.
    - apply zsum_ext. auto.
    - f_equal; [|f_equal; apply existsb_ext; intros; now apply vsub_reach].
      apply zsum_ext. intros z _. now rewrite IHe, vsub_reach.
    - now rewrite IHe.
    - rewrite IHe1. destruct (String.eqb x x0); [|rewrite IHe2]; reflexivity.
  Qed.
End Subst.
