(** (R), the bound at run time: the adjoint executes at most 5 times the points of its program, and those of the output.

    A statement executes the points of its predicate; Figure 6 counts what is done at them, less the first term of
    each sum, and so leaves to the compiler what (R) counts. A statement without arithmetic (a shift, a broadcast, a
    bracket) may be put into its readers and then executes nothing of its own: [free] says which are. With none free the
    bound holds for every program; with some it holds where products and sums read through them, as simplified
    programs do. *)
Require Import List Bool ZArith Lia.
Import ListNotations.
Require Import TL.Sums TL.SSA TL.Adjoint TL.Accounts TL.Bound.

Section Storage.
  Local Open Scope Z_scope.
  Context {K fn : Type} (DT : fn -> nat -> fn).
  (** the points of work of one call *)
  Variable work : fn -> Z.
  Hypothesis work_nonneg : forall f, 0 <= work f.
  Notation rhs := (rhs K fn). Notation prog := (prog K fn). Notation stmt := (stmt K fn).

  Definition touch1 (st : stmt) : Z :=
    let (sh, r) := st in
    match r with
    | Input _ | Const _ => 0
    | Add l => zsum l (fun t => num sh (bracket t))
    | Map p f _ => num sh p * work f
    | C1 s p x => points1 sh s x p
    | C2 s p x0 x1 => points2 sh s x0 x1 p
    | Choice p x => zsum (box sh) (fun g => num (shp x) (p g))
    end.
  Lemma touch1_nonneg st : 0 <= touch1 st.
  Proof.
    destruct st as [sh r]. destruct r; cbn [touch1]; try lia.
    - apply zsum_nonneg. intros; apply num_nonneg.
    - pose proof (num_nonneg sh p). specialize (work_nonneg f). nia.
    - apply zsum_nonneg. intros; apply cnt1_nonneg.
    - apply zsum_nonneg. intros; apply cnt2_nonneg.
    - apply zsum_nonneg. intros; apply num_nonneg.
  Qed.

  (** * Statements that are put into their readers *)
  Variable free : var -> bool.
  Fixpoint touch (S : prog) : Z :=
    match S with
    | [] => 0
    | (sh, r) :: S' => (if free (Var (length S') sh) then 0 else touch1 (sh, r)) + touch S'
    end.
  (** an inner product with a free variable is collected, moved to where the variable comes from, and collected there *)
  Definition times (x : var) : Z := if free x then 3 else 1.
  Fixpoint joined (xs : list var) : Z := match xs with [] => 0 | x :: xs' => times x + joined xs' end.
  (** a free statement reads at most one element, of what is not free, for each of its own; products and sums read
      nothing free; scalar functions are cheap *)
  Definition in_place (x : var) (r : rhs) : Prop :=
    if free x
    then match r with
         | Input _ | Const _ => True
         | Add [t] => minus t = false /\ free (operand t) = false
         | C1 s p y => free y = false /\ forall g, cnt1 s y (p g) <= 1
         | _ => False
         end
    else match r with
         | C1 _ _ y => free y = false
         | C2 _ _ y0 y1 => free y0 = false /\ free y1 = false
         | Map _ f xs => csum DT work every f 0 xs + joined xs <= 4 * work f
         | _ => True
         end.
  Definition all_in_place (S : prog) : Prop := forall x r, defines S x r -> in_place x r.

  Definition debt (m : bool) (x : var) (p : pred) : Z := times x * num (shp x) p.
  Notation charge := (charge touch1 debt).
  Lemma times_range x : 1 <= times x <= 3.
  Proof. unfold times. destruct (free x); lia. Qed.
  Lemma debt_at_least m x p : num (shp x) p <= debt m x p.
  Proof. unfold debt. pose proof (times_range x). pose proof (num_nonneg (shp x) p). nia. Qed.

  (** ** What the rules execute and leave to be collected *)
  Lemma touch_6_26 sh l dY P : (forall t, In t l -> shp (operand t) = sh) ->
    charge (rule_6_26 l dY P) <= 3 * zsum l (fun t => num sh (bracket t)).
  Proof.
    intros W. unfold Accounts.charge, rule_6_26. rewrite zsum_map, <- zsum_scale. apply zsum_le. intros t Ht.
    cbn [into what cneg con Accounts.spent]. unfold debt. rewrite (W t Ht). pose proof (times_range (operand t)).
    assert (num sh (fun i => bracket t i && P i) <= num sh (bracket t)) by (apply num_le; intros i Hi; now apply andb_prop in Hi).
    pose proof (num_nonneg sh (fun i => bracket t i && P i)). nia.
  Qed.
  Lemma touch_6_27 sh x p f args dY P : forall ys j, (forall y, In y ys -> shp y = sh) ->
    charge (rule_6_27 DT x p f args j ys dY P) = num sh (fun i => p i && P i) * (csum DT work every f j ys + joined ys).
  Proof.
    induction ys as [|y ys IH]; intros j W; [unfold Accounts.charge; simpl; lia|].
    specialize (IH (S j) (fun z Hz => W z (or_intror Hz))). unfold Accounts.charge in *.
    cbn [rule_6_27 zsum into what cneg con Accounts.spent touch1 csum joined]. change (every y) with true. rewrite IH. unfold debt.
    rewrite (W y) by (left; auto). ring.
  Qed.
  Lemma points_debt x p n : free x = false -> num (shp x) p <= n -> debt false x p <= n.
  Proof. intros F H. unfold debt, times. rewrite F. lia. Qed.
  Lemma touch_6_29 sh s p x dY P : shp dY = sh -> free x = false ->
    charge (rule_6_29 s p x dY P) <= 2 * zsum (box sh) (fun g => b2z (P g) * cnt1 s x (p g)).
  Proof.
    intros W F. unfold Accounts.charge, rule_6_29. cbn [zsum into what cneg con Accounts.spent touch1].
    pose proof (transposed1 sh s x p dY P W) as T. rewrite T.
    assert (debt false x (fun i => ex1 s dY (fun g z => p g i z && P g)) <= zsum (box sh) (fun g => b2z (P g) * cnt1 s x (p g))).
    { apply (points_debt _ _ _ F). rewrite <- T. apply zsum_le. intros i _. apply ex1_le. }
    lia.
  Qed.
  Lemma touch_6_28 sh s p x0 x1 dY P : shp dY = sh -> free x0 = false -> free x1 = false ->
    charge (rule_6_28 s p x0 x1 dY P) <= 4 * points2 sh s x0 x1 p.
  Proof.
    intros W F0 F1. unfold Accounts.charge, rule_6_28. cbn [zsum into what cneg con Accounts.spent touch1].
    pose proof (transposed2_left sh s x0 x1 p dY P W) as T0. pose proof (transposed2_right sh s x0 x1 p dY P W) as T1.
    pose proof (points2_and sh s x0 x1 p P). rewrite T0, T1.
    assert (debt false x0 (fun i0 => ex2 s dY x1 (fun g i1 z => p g i0 i1 z && P g)) <= zsum (box sh) (fun g => b2z (P g) * cnt2 s x0 x1 (p g))).
    { apply (points_debt _ _ _ F0). rewrite <- T0. apply zsum_le. intros i _. apply ex2_le. }
    assert (debt false x1 (fun i1 => ex2 s x0 dY (fun i0 g z => p g i0 i1 z && P g)) <= zsum (box sh) (fun g => b2z (P g) * cnt2 s x0 x1 (p g))).
    { apply (points_debt _ _ _ F1). rewrite <- T1. apply zsum_le. intros i _. apply ex2_le. }
    lia.
  Qed.
  Lemma touch_rule x r dY P : in_place x r -> shp dY = shp x -> pointwise (shp x) r -> source r = None ->
    charge (rule DT x r dY P) <= (if free x then 2 * num (shp x) P else 4 * touch1 (shp x, r)).
  Proof.
    unfold in_place. intros H W Wr HI.
    assert (M1 : forall s y p, zsum (box (shp x)) (fun g => b2z (P g) * cnt1 s y (p g)) <= points1 (shp x) s y p)
      by (intros s y p; apply zsum_le; intros g _; pose proof (cnt1_nonneg s y (p g)); destruct (P g); cbn [b2z]; lia).
    destruct (free x).
    - pose proof (num_nonneg (shp x) P). destruct r; try contradiction; cbn [rule]; try discriminate HI.
      + unfold Accounts.charge; cbn [zsum]; lia.
      + destruct l as [|t [|t' l]]; try contradiction. destruct H as [_ F]. unfold Accounts.charge, rule_6_26.
        cbn [map zsum into what cneg con Accounts.spent]. unfold debt, times. rewrite F, (Wr (operand t)) by (left; reflexivity).
        assert (num (shp x) (fun i => bracket t i && P i) <= num (shp x) P) by (apply num_le; intros i Hi; now apply andb_prop in Hi). lia.
      + destruct H as [F N]. eapply Z.le_trans; [apply (touch_6_29 (shp x)); assumption|].
        apply Z.mul_le_mono_nonneg_l; [lia|]. apply zsum_le. intros g _. specialize (N g). pose proof (cnt1_nonneg s x0 (p g)). destruct (P g); cbn [b2z]; lia.
    - pose proof (touch1_nonneg (shp x, r)) as T0. destruct r; cbn [rule]; try discriminate HI;
      try (unfold Accounts.charge; cbn [zsum]; lia); cbn [touch1] in *.
      + eapply Z.le_trans; [apply (touch_6_26 (shp x)); intros t Ht; apply Wr; apply in_map, Ht|]. lia.
      + rewrite (touch_6_27 (shp x)) by exact Wr.
        assert (num (shp x) (fun i => p i && P i) <= num (shp x) p) by (apply num_le; intros i Hi; now apply andb_prop in Hi).
        pose proof (num_nonneg (shp x) (fun i => p i && P i)). pose proof (work_nonneg f). nia.
      + eapply Z.le_trans; [apply (touch_6_29 (shp x)); assumption|]. specialize (M1 s x0 p). lia.
      + destruct H. apply touch_6_28; assumption.
  Qed.

  Definition budgets (x : var) (r : rhs) : Z := if free x then 0 else 4 * touch1 (shp x, r).
  Lemma budgets_nonneg x r : 0 <= budgets x r.
  Proof. unfold budgets. pose proof (touch1_nonneg (shp x, r)). destruct (free x); lia. Qed.
  Lemma budget_touch S : budget budgets S = 4 * touch S.
  Proof.
    induction S as [|[sh r] S IH]; [reflexivity|]. cbn [budget touch]. rewrite IH. unfold budgets. cbn [shp].
    destruct (free (Var (length S) sh)); lia.
  Qed.
  Lemma turn_touch act S : all_in_place S -> within DT touch1 debt budgets act S.
  Proof.
    intros HS x r t m t' new Hx H Wr Hr HM. unfold turn in H. pose proof (budgets_nonneg x r) as D0.
    destruct m as [|c m]; [inversion H; subst; lia|].
    destruct (rule_6_25 (c :: m)) as [em P] eqn:E. destruct (emit t (shp x) em) as [t1 dY] eqn:E1.
    assert (SY : shp dY = shp x) by (eapply emit_shp; [exact E1|]; eapply fits_6_25; [|exact E]; intros a Ha; apply HM, Ha).
    apply (emits_total touch1 debt) in H. apply (emit_total touch1) in E1.
    pose proof (touch_rule x r dY (memo P) (HS x r Hx) SY Wr Hr) as TR.
    pose proof (charge_only touch1 touch1_nonneg (fun _ sh p => num sh p) debt (fun _ sh p => num_nonneg sh p)
                  debt_at_least act (rule DT x r dY (memo P))) as CO.
    set (m' := c :: m) in *.
    assert (O : owed debt m' = times x * zsum m' (fun c => num (shp x) (on c))).
    { unfold owed. rewrite <- zsum_scale. apply zsum_ext. intros a Ha. destruct (HM a Ha) as [-> _]. reflexivity. }
    assert (A : spent touch1 (shp x) em <= zsum m' (fun c => num (shp x) (on c)) /\ num (shp x) P <= zsum m' (fun c => num (shp x) (on c))).
    { assert (G : touch1 (shp x, accum m') <= zsum m' (fun c => num (shp x) (on c)) /\ num (shp x) (union m') <= zsum m' (fun c => num (shp x) (on c))).
      { unfold accum. cbn [touch1]. rewrite zsum_map. split; [apply Z.le_refl|apply num_le_sum]. }
      unfold m', rule_6_25 in E, G |- *. destruct m as [|c' m]; [|inversion E; subst; exact G].
      destruct (neg c); inversion E; subst; [exact G|]. cbn [spent zsum]. pose proof (num_nonneg (shp x) (on c)). cbn. lia. }
    unfold memo, budgets, times in *. destruct (free x); lia.
  Qed.

  (** ** The adjoint is the program with statements added *)
  Lemma emits_extends (cs : list (contribution K fn)) : forall t t' l, emits t cs = (t', l) -> exists pre, t' = pre ++ t.
  Proof.
    induction cs as [|c cs IH]; simpl; intros t t' l H; [inversion H; exists []; reflexivity|].
    destruct (emit t (shp (into c)) (what c)) as [t1 e] eqn:E1. destruct (emits t1 cs) as [t2 l2] eqn:E2.
    inversion H; subst. destruct (IH _ _ _ E2) as [pre ->]. destruct (what c); simpl in E1; inversion E1; subst; eauto.
    eexists (pre ++ [_]). rewrite <- app_assoc. reflexivity.
  Qed.
  Lemma bwd_extends act : forall (ss t : prog) l gl t' gl', bwd DT act ss t l gl = (t', gl') -> exists pre, t' = pre ++ t.
  Proof.
    induction ss as [|[sh r] ss IH]; intros t l gl t' gl' H; [inversion H; exists []; reflexivity|].
    cbn [bwd] in H. destruct (source r); [eapply IH; exact H|].
    destruct (turn DT act (Var (length ss) sh) r t (mine (Var (length ss) sh) l)) as [t1 new] eqn:E.
    destruct (IH _ _ _ _ _ H) as [pre ->].
    unfold turn in E. destruct (mine _ l) as [|c m]; [inversion E; subst; eauto|].
    destruct (rule_6_25 _) as [em P]. destruct (emit t _ em) as [t2 dY] eqn:E2. apply emits_extends in E. destruct E as [pre' ->].
    destruct em; simpl in E2; inversion E2; subst; [exists (pre ++ pre')|eexists (pre ++ pre' ++ [_])]; rewrite <- !app_assoc; reflexivity.
  Qed.
  Lemma adjoint_extends act (S : prog) outs dys leaves t grads :
    adjoint_for DT act S outs dys leaves = (t, grads) -> exists pre, t = pre ++ S.
  Proof.
    unfold adjoint_for. intros H. destruct (emits S _) as [t0 l] eqn:E0. destruct (bwd DT act S t0 l []) as [t1 gl] eqn:E1.
    apply emits_extends in H. apply bwd_extends in E1. apply emits_extends in E0.
    destruct H as [a ->], E1 as [b ->], E0 as [c ->]. exists (a ++ b ++ c). now rewrite <- !app_assoc.
  Qed.

  (** * (R) *)
  Theorem adjoint_touch act S outs dys leaves t grads :
    all_in_place S -> (forall x, In x outs -> free x = false) -> wf S -> good_outs S outs dys -> NoDup leaves ->
    adjoint_for DT act S outs dys leaves = (t, grads) ->
    exists new, t = new ++ S /\ touch S + total touch1 new <= 5 * touch S + outsize outs.
  Proof.
    intros HS HO W GO ND H. destruct (adjoint_extends _ _ _ _ _ _ _ H) as [new EQ]. exists new. split; [exact EQ|].
    destruct (adjoint_total DT touch1 touch1_nonneg (fun _ sh p => num sh p) debt (fun _ sh p => num_nonneg sh p) debt_at_least
                budgets budgets_nonneg act (fun _ _ => 0) S outs dys leaves t grads (turn_touch act S HS) W GO ND H) as [gl [H1 _]].
    - intros y l Hl. unfold accum. cbn [touch1]. rewrite zsum_map, Z.add_0_r. apply zsum_le. intros c Hc. cbn [bracket]. rewrite (Hl c Hc). lia.
    - rewrite budget_touch, zsum_0 in H1. rewrite EQ in H1. unfold total in *. rewrite zsum_app in H1.
      assert (charge (start outs dys) = outsize outs); [|lia].
      pose proof (good_length S outs dys GO) as L. clear - HO L. revert dys L.
      unfold Accounts.charge, start, outsize. induction outs as [|x outs IH]; intros [|y dys] L; try discriminate; [reflexivity|].
      cbn [combine map zsum fst snd into what cneg con Accounts.spent touch1]. rewrite IH by (simpl in *; auto).
      unfold debt, times. rewrite (HO x) by (left; reflexivity). rewrite num_any. lia.
  Qed.
End Storage.

(** With nothing free: every program whose scalar functions cost at least 1, a call taken as the work of its cost. *)
Section Plain.
  Local Open Scope Z_scope.
  Context {K fn : Type} (DT : fn -> nat -> fn) (fcost : fn -> Z).
  Hypothesis fcost_pos : forall f, 0 <= fcost f.
  Definition none : var -> bool := fun _ => false.
  Lemma cheap_in_place (S : prog K fn) : cheap_maps DT fcost S -> (forall sh p f xs, In (sh, Map p f xs) S -> 1 <= fcost f) ->
    all_in_place DT fcost none S.
  Proof.
    intros HC H1 x r Hx. unfold in_place, none. destruct r; auto.
    assert (In (shp x, Map p f xs) S).
    { clear - Hx. induction S as [|[sh r] S IH]; [destruct Hx|]. destruct Hx as [[-> ->]|Hx]; [left; reflexivity|right; apply IH, Hx]. }
    specialize (HC _ _ _ _ H). specialize (H1 _ _ _ _ H).
    assert (joined none xs <= joins every xs + 1); [|fold none; lia].
    clear. unfold joins. rewrite filter_all by reflexivity. assert (joined none xs = Z.of_nat (length xs)) as ->; [|lia].
    induction xs as [|y xs IH]; [reflexivity|]. cbn [joined length]. rewrite IH. unfold times, none. lia.
  Qed.
  Theorem adjoint_touch_5 act (S : prog K fn) outs dys leaves t grads :
    cheap_maps DT fcost S -> (forall sh p f xs, In (sh, Map p f xs) S -> 1 <= fcost f) ->
    wf S -> good_outs S outs dys -> NoDup leaves -> adjoint_for DT act S outs dys leaves = (t, grads) ->
    touch fcost none t <= 5 * touch fcost none S + outsize outs.
  Proof.
    intros HC H1 W GO ND H.
    destruct (adjoint_touch DT fcost fcost_pos none act S outs dys leaves t grads (cheap_in_place S HC H1) (fun _ _ => eq_refl) W GO ND H)
      as [new [-> HT]].
    assert (T : forall P : prog K fn, touch fcost none P = total (touch1 fcost) P).
    { induction P as [|[sh r] P IH]; [reflexivity|]. cbn [touch]. rewrite IH. reflexivity. }
    rewrite !T in *. unfold total in *. rewrite zsum_app. lia.
  Qed.
End Plain.
