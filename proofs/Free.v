(** What values and costs depend on: the free variables and indices of an expression, and nothing else. *)
Require Import String List Bool ZArith Lia.
Import ListNotations.
Require Import TL.Sums TL.Boxes TL.Core.
Open Scope list_scope.

(** * Indices and predicates *)
Fixpoint aff_ind2 (P : aff -> Prop) (hVar : forall i, P (AVar i)) (hCst : forall k, P (ACst k))
  (hAdd : forall a b, P a -> P b -> P (AAdd a b)) (hScl : forall k a, P a -> P (AScl k a))
  (hLook : forall y l, Forall P l -> P (ALook y l)) (a : aff) : P a :=
  let rec := aff_ind2 P hVar hCst hAdd hScl hLook in
  match a with
  | AVar i => hVar i | ACst k => hCst k | AAdd a b => hAdd a b (rec a) (rec b) | AScl k a => hScl k a (rec a)
  | ALook y l => hLook y l ((fix go l : Forall P l :=
      match l with [] => Forall_nil _ | a :: l' => Forall_cons _ (rec a) (go l') end) l)
  end.

Definition without (i : string) (l : list string) : list string := filter (fun j => negb (String.eqb i j)) l.
Fixpoint afv (a : aff) : list ix :=
  match a with
  | AVar i => [i] | ACst _ => [] | AAdd a b => afv a ++ afv b | AScl _ a => afv a | ALook _ l => flat_map afv l
  end.
Fixpoint pfv (p : prd) : list ix :=
  match p with
  | PTrue => [] | PLt a b | PLe a b | PEq a b => afv a ++ afv b
  | PRel _ l => flat_map afv l
  | PAnd p q | POr p q => pfv p ++ pfv q
  | PEx i _ p => without i (pfv p)
  end.
(** s and s' are the same on l *)
Definition agree {V} (l : list string) (s s' : string -> V) := forall i, In i l -> s i = s' i.

Section Agree.
  Context {V : Type}.
  Implicit Types s : string -> V.
  Lemma agree_refl l s : agree l s s.
  Proof. intros i _. reflexivity. Qed.
  Lemma agree_l l m s s' : agree (l ++ m) s s' -> agree l s s'.
  Proof. intros H i Hi. apply H, in_or_app. auto. Qed.
  Lemma agree_r l m s s' : agree (l ++ m) s s' -> agree m s s'.
  Proof. intros H i Hi. apply H, in_or_app. auto. Qed.
  Lemma agree_in {A} (f : A -> list string) a l s s' : agree (flat_map f l) s s' -> In a l -> agree (f a) s s'.
  Proof. intros H Ha i Hi. apply H, in_flat_map. eauto. Qed.
  Lemma agree_upd i l s s' v : agree (without i l) s s' -> agree l (upd s i v) (upd s' i v).
  Proof.
    intros H j Hj. unfold upd. destruct (String.eqb i j) eqn:E; [reflexivity|]. apply H, filter_In. rewrite E. auto.
  Qed.
  Lemma agree_fresh i l s v : ~ In i l -> agree l (upd s i v) s.
  Proof. intros N j Hj. unfold upd. destruct (String.eqb_spec i j); [subst; contradiction|reflexivity]. Qed.
  Lemma agree_trans l s s' s'' : agree l s s' -> agree l s' s'' -> agree l s s''.
  Proof. intros H H' i Hi. rewrite H, H' by assumption. reflexivity. Qed.
  Lemma agree_sym l s s' : agree l s s' -> agree l s' s.
  Proof. intros H i Hi. now rewrite H. Qed.
  Lemma upd_same s x v : upd s x v x = v.
  Proof. unfold upd. now rewrite String.eqb_refl. Qed.
  Lemma upd_other s x v y : x <> y -> upd s x v y = s y.
  Proof. intros N. unfold upd. destruct (String.eqb_spec x y); [contradiction|reflexivity]. Qed.
  Lemma upd_shadow l s i v z : agree l (upd (upd s i v) i z) (upd s i z).
  Proof. intros k _. unfold upd. destruct (String.eqb i k); reflexivity. Qed.
  Lemma upd_swap l s i j v z : i <> j -> agree l (upd (upd s j z) i v) (upd (upd s i v) j z).
  Proof. intros N k _. unfold upd. destruct (String.eqb_spec i k), (String.eqb_spec j k); subst; congruence. Qed.
End Agree.

Lemma aval_ext R a : forall s s', agree (afv a) s s' -> aval R s a = aval R s' a.
Proof.
  induction a using aff_ind2; intros s s' HS; cbn [aval afv] in *.
  - apply HS. left. reflexivity.
  - reflexivity.
  - rewrite (IHa1 s s'), (IHa2 s s'); eauto using agree_l, agree_r.
  - now rewrite (IHa s s').
  - f_equal. apply map_ext_in. intros a Ha. rewrite Forall_forall in H. apply H; [assumption|].
    eapply agree_in; eassumption.
Qed.
Lemma pval_ext R p : forall s s', agree (pfv p) s s' -> pval R s p = pval R s' p.
Proof.
  induction p; intros s s' H; cbn [pval pfv] in *; [reflexivity|..].
  1-3: rewrite (aval_ext R a s s'), (aval_ext R b s s'); eauto using agree_l, agree_r.
  - f_equal. apply map_ext_in. intros a Ha. apply aval_ext. eapply agree_in; eassumption.
  - rewrite (IHp1 s s'), (IHp2 s s'); eauto using agree_l, agree_r.
  - rewrite (IHp1 s s'), (IHp2 s s'); eauto using agree_l, agree_r.
  - apply existsb_ext. intros z _. apply IHp, agree_upd, H.
Qed.

(** * Vectors of indices *)
Lemma upds_other bs : forall s zs i, ~ In i (bnames bs) -> upds s bs zs i = s i.
Proof.
  induction bs as [|[j n] bs IH]; intros s [|z zs] i H; simpl; auto. simpl in H. rewrite IH by tauto. apply upd_other.
    tauto.
Qed.
Lemma upds_agree l bs s zs : (forall i, In i (bnames bs) -> ~ In i l) -> agree l (upds s bs zs) s.
Proof. intros H i Hi. apply upds_other. intros Hb. exact (H i Hb Hi). Qed.
(** what bs binds doesn't depend on s *)
Lemma upds_ext l bs : forall s s' zs, length zs = length bs -> (forall i, In i l -> ~ In i (bnames bs) -> s i = s' i) ->
  agree l (upds s bs zs) (upds s' bs zs).
Proof.
  induction bs as [|[j n] bs IH]; intros s s' [|z zs] L H; simpl in *; try discriminate; [intros i Hi; apply H; auto|].
  apply IH; [auto|]. intros i Hi Hn. unfold upd. destruct (String.eqb_spec j i); [reflexivity|]. apply H; tauto.
Qed.
Lemma upds_vals bs : forall s zs, NoDup (bnames bs) -> length zs = length bs -> map (upds s bs zs) (bnames bs) = zs.
Proof.
  induction bs as [|[j n] bs IH]; intros s [|z zs] N L; simpl in *; try discriminate; [reflexivity|].
  inversion N; subst. f_equal; [|apply IH; auto]. rewrite upds_other by assumption. apply upd_same.
Qed.
Lemma upds_app bs bs' : forall s zs zs', length zs = length bs ->
  upds s (bs ++ bs') (zs ++ zs') = upds (upds s bs zs) bs' zs'.
Proof. induction bs as [|[j n] bs IH]; intros s [|z zs] zs' L; simpl in *; try discriminate; auto. Qed.

Section Free.
  Context {K : Type} (rO rI : K) (radd rmul rsub : K -> K -> K).
  Context {fn : Type} (fval : fn -> list K -> K) (fcost : fn -> Z) (R : data).
  Hypothesis fcost_nonneg : forall f, (0 <= fcost f)%Z.
  Notation expr := (@expr K fn).
  Notation val := (@val K).
  Notation eval := (eval rO radd rmul rsub fval R).
  Notation cost := (cost fcost R).
  Notation guard := (guard R). Notation live := (live R). Notation reach := (reach R).

  (** * Expressions *)
  Fixpoint expr_ind2 (P : expr -> Prop)
    (hVar : forall x, P (EVar x)) (hCst : forall c, P (ECst c))
    (hAdd : forall a b, P a -> P b -> P (EAdd a b)) (hSub : forall a b, P a -> P b -> P (ESub a b))
    (hMul : forall a b, P a -> P b -> P (EMul a b))
    (hFn : forall f es, Forall P es -> P (EFn f es)) (hPair : forall a b, P a -> P b -> P (EPair a b))
    (hFst : forall a, P a -> P (EFst a)) (hSnd : forall a, P a -> P (ESnd a))
    (hGen : forall i n a, P a -> P (EGen i n a)) (hSum : forall i n a, P a -> P (ESum i n a))
    (hAcc : forall a k, P a -> P (EAcc a k)) (hInd : forall p a, P a -> P (EInd p a))
    (hLet : forall x a b, P a -> P b -> P (ELet x a b)) (e : expr) : P e :=
    let rec := expr_ind2 P hVar hCst hAdd hSub hMul hFn hPair hFst hSnd hGen hSum hAcc hInd hLet in
    match e with
    | EVar x => hVar x | ECst c => hCst c
    | EAdd a b => hAdd a b (rec a) (rec b) | ESub a b => hSub a b (rec a) (rec b) | EMul a b => hMul a b (rec a) (rec b)
    | EFn f es => hFn f es ((fix go l : Forall P l :=
        match l with [] => Forall_nil _ | a :: l' => Forall_cons _ (rec a) (go l') end) es)
    | EPair a b => hPair a b (rec a) (rec b) | EFst a => hFst a (rec a) | ESnd a => hSnd a (rec a)
    | EGen i n a => hGen i n a (rec a) | ESum i n a => hSum i n a (rec a)
    | EAcc a k => hAcc a k (rec a) | EInd p a => hInd p a (rec a)
    | ELet x a b => hLet x a b (rec a) (rec b)
    end.

  (** free variables, and free indices *)
  Fixpoint efv (e : expr) : list string :=
    match e with
    | EVar x => [x] | ECst _ => []
    | EAdd a b | ESub a b | EMul a b | EPair a b => efv a ++ efv b
    | EFn _ es => flat_map efv es
    | EFst a | ESnd a | EGen _ _ a | ESum _ _ a | EAcc a _ | EInd _ a => efv a
    | ELet x a b => efv a ++ without x (efv b)
    end.
  Fixpoint eix (e : expr) : list ix :=
    match e with
    | EVar _ | ECst _ => []
    | EAdd a b | ESub a b | EMul a b | EPair a b | ELet _ a b => eix a ++ eix b
    | EFn _ es => flat_map eix es
    | EFst a | ESnd a => eix a
    | EGen i _ a | ESum i _ a => without i (eix a)
    | EAcc a k => eix a ++ afv k
    | EInd p a => pfv p ++ eix a
    end.
  Definition same_val (v v' : val) := forall d w, v d w = v' d w.
  Definition same_vals (l : list string) (r r' : string -> val) := forall x, In x l -> same_val (r x) (r' x).
  Lemma same_vals_l l m r r' : same_vals (l ++ m) r r' -> same_vals l r r'.
  Proof. intros H i Hi. apply H, in_or_app. auto. Qed.
  Lemma same_vals_r l m r r' : same_vals (l ++ m) r r' -> same_vals m r r'.
  Proof. intros H i Hi. apply H, in_or_app. auto. Qed.
  Lemma same_vals_refl l r : same_vals l r r.
  Proof. intros x _ d w. reflexivity. Qed.
  Lemma same_vals_upd x l r r' v v' : same_val v v' -> same_vals (without x l) r r' ->
    same_vals l (upd r x v) (upd r' x v').
  Proof.
    intros Hv H y Hy. unfold upd. destruct (String.eqb x y) eqn:E; [exact Hv|]. apply H, filter_In. rewrite E. auto.
  Qed.
  Lemma same_vals_fresh x l r v : ~ In x l -> same_vals l (upd r x v) r.
  Proof. intros N y Hy d w. rewrite upd_other; [reflexivity|]. intros ->. contradiction. Qed.
  Lemma agree_same l r r' : agree l r r' -> same_vals l r r'.
  Proof. intros H x Hx d w. now rewrite (H x Hx). Qed.
  Hint Resolve agree_l agree_r same_vals_l same_vals_r : ext.

  Lemma eval_ext e : forall r r' s s', same_vals (efv e) r r' -> agree (eix e) s s' ->
    same_val (eval r s e) (eval r' s' e).
  Proof.
    induction e using expr_ind2; intros r r' s s' HV HS d w; cbn [efv eix] in *; cbn [Core.eval].
    - apply HV. left. reflexivity.
    - reflexivity.
    - rewrite (IHe1 r r' s s'), (IHe2 r r' s s'); eauto with ext.
    - rewrite (IHe1 r r' s s'), (IHe2 r r' s s'); eauto with ext.
    - rewrite (IHe1 r r' s s'), (IHe2 r r' s s'); eauto with ext.
    - f_equal. apply map_ext_in. intros a Ha. rewrite Forall_forall in H. apply H; [assumption|..].
      + intros x Hx. apply HV, in_flat_map. eauto.
      + eapply agree_in; eassumption.
    - destruct d as [|[|] d]; [reflexivity|apply IHe1|apply IHe2]; eauto with ext.
    - apply IHe; auto.
    - apply IHe; auto.
    - destruct w; [reflexivity|]. f_equal. apply IHe; [assumption|]. apply agree_upd, HS.
    - apply sum_ext. intros z _. apply IHe; [assumption|]. apply agree_upd, HS.
    - rewrite (aval_ext R k s s') by eauto with ext. apply IHe; eauto with ext.
    - rewrite (pval_ext R p s s') by eauto with ext. f_equal. apply IHe; eauto with ext.
    - apply IHe2; [|eauto with ext]. apply same_vals_upd; [|eauto with ext]. apply IHe1; eauto with ext.
  Qed.
  (** a variable, or an index, that doesn't occur may be bound to anything *)
  Lemma eval_weaken x v e r s : ~ In x (efv e) -> same_val (eval (upd r x v) s e) (eval r s e).
  Proof. intros N. apply eval_ext; [now apply same_vals_fresh|apply agree_refl]. Qed.
  Lemma eval_at_index i z e r s : ~ In i (eix e) -> same_val (eval r (upd s i z) e) (eval r s e).
  Proof. intros N. apply eval_ext; [apply same_vals_refl|now apply agree_fresh]. Qed.

  Lemma guard_ext e : forall s s', agree (eix e) s s' -> guard s e = guard s' e.
  Proof.
    induction e using expr_ind2; intros s s' HS; cbn [Core.guard eix] in *; auto.
    rewrite (pval_ext R p s s'), (IHe s s'); eauto with ext.
  Qed.
  Lemma live_ext e : forall s s', agree (eix e) s s' -> live s e = live s' e.
  Proof.
    induction e using expr_ind2; intros s s' HS; cbn [Core.live]; try (apply guard_ext; assumption); cbn [eix] in HS;
      rewrite (IHe1 s s'), (IHe2 s s'); eauto with ext.
  Qed.
  Lemma reach_ext e : forall s s', agree (eix e) s s' -> reach s e = reach s' e.
  Proof.
    induction e using expr_ind2; intros s s' HS; cbn [Core.reach eix] in *; auto.
    - apply existsb_ext. intros z _. apply IHe, agree_upd, HS.
    - rewrite (pval_ext R p s s'), (IHe s s'); eauto with ext.
  Qed.
  Lemma cost_ext e : forall s s', agree (eix e) s s' -> cost s e = cost s' e.
  Proof.
    induction e using expr_ind2; intros s s' HS; cbn [Core.cost]; pose proof HS as HS'; cbn [eix] in HS; auto.
    - rewrite (IHe1 s s'), (IHe2 s s'), (live_ext e1 s s'), (live_ext e2 s s'); eauto with ext.
    - rewrite (IHe1 s s'), (IHe2 s s'), (live_ext e2 s s'); eauto with ext.
    - rewrite (IHe1 s s'), (IHe2 s s'); eauto with ext.
    - do 2 f_equal. apply map_ext_in. intros a Ha. rewrite Forall_forall in H. apply H; [assumption|].
      eapply agree_in; eassumption.
    - rewrite (IHe1 s s'), (IHe2 s s'); eauto with ext.
    - apply zsum_ext. intros z _. apply IHe, agree_upd, HS.
    - change (existsb _ _) with (reach s (ESum i n e)) at 1. rewrite (reach_ext _ s s' HS').
      f_equal. apply zsum_ext. intros z _. rewrite (IHe _ (upd s' i z)), (reach_ext e _ (upd s' i z))
        by apply agree_upd, HS.
      reflexivity.
    - apply IHe; eauto with ext.
    - rewrite (pval_ext R p s s'), (IHe s s'); eauto with ext.
    - rewrite (IHe1 s s'), (IHe2 s s'); eauto with ext.
  Qed.

  Open Scope Z_scope.
  Lemma b2z_reach (l : list Z) (f : Z -> bool) (c : Z -> Z) : (forall z, 0 <= c z) ->
    b2z (existsb f l) <= zsum l (fun z => c z + b2z (f z)).
  Proof.
    intros H. eapply Z.le_trans; [apply zsum_existsb|]. apply zsum_le. intros z _. specialize (H z). lia.
  Qed.
  Lemma fold_nonneg l : Forall (fun c => 0 <= c) l -> 0 <= fold_right Z.add 0 l.
  Proof. induction 1; simpl; lia. Qed.
  Lemma cost_nonneg (e : expr) : forall s, 0 <= cost s e.
  Proof.
    induction e using expr_ind2; intros s; cbn [Core.cost]; auto; try lia;
      try (specialize (IHe1 s); specialize (IHe2 s)); try lia.
    - pose proof (b2z_range (live s e1 && live s e2)). lia.
    - pose proof (b2z_range (live s e2)). lia.
    - assert (0 <= fold_right Z.add 0 (map (cost s) es)); [|specialize (fcost_nonneg f); lia].
      apply fold_nonneg, Forall_map. eapply Forall_impl; [|exact H]. auto.
    - apply zsum_nonneg; auto.
    - apply Z.le_0_sub. apply (b2z_reach (zrange n) (fun z => reach (upd s i z) e) (fun z => cost (upd s i z) e)). auto.
    - destruct (pval R s p); [apply IHe|lia].
  Qed.
End Free.
