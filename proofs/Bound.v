(** The cost bound: (B), and Theorem 6.35, which it implies; Theorem 6.1 is in Forward.v.

    Extended cost (Figure 17): an inner product <e | dX>_[P] counts the points of P, twice if it is negated, since its
    negation is still to be made. No rule raises it. *)
Require Import List Bool ZArith Lia.
Import ListNotations.
Require Import TL.Sums TL.SSA TL.Adjoint TL.Accounts.

Section Cost.
  Local Open Scope Z_scope.
  Context {K fn : Type} (DT : fn -> nat -> fn) (fcost : fn -> Z).
  Hypothesis fcost_nonneg : forall f, 0 <= fcost f.
  Notation rhs := (rhs K fn). Notation prog := (prog K fn). Notation stmt := (stmt K fn).
  Notation cost1 := (cost1 (K := K) fcost). Notation cost := (cost (K := K) fcost).

  (** * What the forward derivative of a statement costs, where the variables [act] are differentiated *)
  Definition weight (m : bool) : Z := if m then 2 else 1.
  (** the components of D^T f, and the additions that join them *)
  Fixpoint csum (act : var -> bool) (f : fn) (j : nat) (xs : list var) : Z :=
    match xs with [] => 0 | x :: xs' => (if act x then fcost (DT f j) else 0) + csum act f (S j) xs' end.
  Definition joins (act : var -> bool) (xs : list var) : Z := Z.of_nat (Nat.pred (length (filter act xs))).
  Definition dcost1 (act : var -> bool) (st : stmt) : Z :=
    let (sh, r) := st in
    match r with
    | Input _ | Const _ | Choice _ _ => 0
    | Add l => let l := filter (fun t => act (operand t)) l in
               zsum l (fun t => weight (minus t) * num sh (bracket t)) - num sh (positive l)
    | Map p f xs => num sh p * (csum act f 0 xs + joins act xs)
    | C1 s p x => if act x then zsum (box sh) (fun g => cnt1 s x (p g)) - num sh (fun g => ex1 s x (p g)) else 0
    | C2 s p x0 x1 =>
        let times := b2z (act x0) + b2z (act x1) in
        if 0 <? times
        then 2 * times * zsum (box sh) (fun g => cnt2 s x0 x1 (p g)) - num sh (fun g => ex2 s x0 x1 (p g)) else 0
    end.
  Definition dcost (act : var -> bool) (S : prog) : Z := zsum S (dcost1 act).
  Definition every : var -> bool := fun _ => true.

  Definition points (m : bool) (x : var) (p : pred) : Z := weight m * num (shp x) p.
  Definition ipcost (l : list ip) : Z := owed points l.                                          (** (6.34) *)
  Notation charge := (charge cost1 points).
  Notation spent := (spent cost1).

  Lemma weight_nonneg m sh p : 0 <= weight m * num sh p.
  Proof. pose proof (num_nonneg sh p). destruct m; unfold weight; lia. Qed.

  (** * 6.26: additions *)
  Lemma positive_weight l i : b2z (positive l i) <= zsum l (fun t => weight (minus t) * b2z (bracket t i)).
  Proof.
    unfold positive. eapply Z.le_trans; [apply zsum_existsb|]. apply zsum_le. intros t _.
    destruct (minus t), (bracket t i); cbn; lia.
  Qed.
  Lemma zsum_num {A} sh (l : list A) (k : A -> Z) (p : A -> pred) :
    zsum l (fun a => k a * num sh (p a)) = zsum (box sh) (fun i => zsum l (fun a => k a * b2z (p a i))).
  Proof. rewrite <- zsum_swap. apply zsum_ext. intros a _. symmetry. apply zsum_scale. Qed.
  Theorem cost_6_26 sh l dY P : (forall t, In t l -> shp (operand t) = sh) ->
    charge (rule_6_26 l dY P) <= num sh P + (zsum l (fun t => weight (minus t) * num sh (bracket t)) - num sh (positive l)).
  Proof.
    intros W. unfold Accounts.charge, rule_6_26, points. rewrite zsum_map. cbn [into what cneg con Accounts.spent].
    rewrite (zsum_num sh l (fun t => weight (minus t)) bracket).
    eapply Z.le_trans; [|rewrite Z.add_sub_assoc; apply key; intros; apply positive_weight].
    apply Z.eq_le_incl. rewrite zsum_ext with (g := fun t => weight (minus t) * num sh (fun i => bracket t i && P i)).
    - rewrite (zsum_num sh l (fun t => weight (minus t)) (fun t i => bracket t i && P i)). apply zsum_ext. intros i _.
      rewrite <- zsum_scale. apply zsum_ext. intros t _. rewrite b2z_and. ring.
    - intros t Ht. now rewrite (W t Ht).
  Qed.
  Lemma only_6_26 act l dY P : only act (rule_6_26 (K := K) (fn := fn) l dY P) = rule_6_26 (filter (fun t => act (operand t)) l) dY P.
  Proof.
    unfold only, rule_6_26. induction l as [|t l IH]; [reflexivity|]. cbn [map filter into].
    destruct (act (operand t)); cbn [map]; now rewrite IH.
  Qed.

  (** * 6.27: scalar functions *)
  Lemma charge_6_27 act sh x p f args dY P : forall ys j, (forall y, In y ys -> shp y = sh) ->
    charge (only act (rule_6_27 DT x p f args j ys dY P)) =
    num sh (fun i => p i && P i) * (csum act f j ys + Z.of_nat (length (filter act ys))).
  Proof.
    induction ys as [|y ys IH]; intros j W; [unfold Accounts.charge; simpl; lia|].
    cbn [rule_6_27 csum filter]. rewrite only_cons. cbn [into].
    specialize (IH (S j) (fun z Hz => W z (or_intror Hz))).
    destruct (act y); cbn [length]; [|rewrite IH; ring].
    unfold Accounts.charge, points in *. cbn [zsum into what cneg con Accounts.spent SSA.cost1 weight]. rewrite IH.
    rewrite (W y) by (left; auto). rewrite Nat2Z.inj_succ. ring.
  Qed.
  Lemma csum_nonneg act f xs : forall j, 0 <= csum act f j xs.
  Proof.
    induction xs as [|x xs IH]; intros j; cbn [csum]; [lia|]. specialize (IH (S j)).
    pose proof (fcost_nonneg (DT f j)). destruct (act x); lia.
  Qed.
  Theorem cost_6_27 act sh x p f xs dY P : (forall y, In y xs -> shp y = sh) ->
    charge (only act (rule_6_27 DT x p f xs 0 xs dY P)) <= num sh P + num sh p * (csum act f 0 xs + joins act xs).
  Proof.
    intros W. rewrite (charge_6_27 act sh) by exact W. unfold joins.
    pose proof (csum_nonneg act f xs 0). set (c := csum _ _ _ _) in *.
    assert (A : num sh (fun i => p i && P i) <= num sh P) by (apply num_le; intros i H'; now apply andb_prop in H').
    assert (B : num sh (fun i => p i && P i) <= num sh p) by (apply num_le; intros i H'; now apply andb_prop in H').
    pose proof (num_nonneg sh (fun i => p i && P i)). pose proof (num_nonneg sh P). pose proof (num_nonneg sh p).
    destruct (length (filter act xs)) as [|k]; simpl Nat.pred.
    - change (Z.of_nat 0) with 0. rewrite !Z.add_0_r. nia.
    - rewrite Nat2Z.inj_succ. set (k' := Z.of_nat k) in *. assert (0 <= k') by lia. nia.
  Qed.

  (** * 6.28 and 6.29: contractions *)
  Lemma cnt1_and s x p (c : bool) : cnt1 s x (fun i z => p i z && c) = b2z c * cnt1 s x p.
  Proof.
    unfold cnt1. rewrite <- zsum_scale. apply zsum_ext. intros i _. rewrite <- zsum_scale. apply zsum_ext. intros z _.
    rewrite b2z_and. ring.
  Qed.
  Lemma cnt2_and s x y p (c : bool) : cnt2 s x y (fun i j z => p i j z && c) = b2z c * cnt2 s x y p.
  Proof.
    unfold cnt2. rewrite <- zsum_scale. apply zsum_ext. intros i _. rewrite <- zsum_scale. apply zsum_ext. intros j _.
    rewrite <- zsum_scale. apply zsum_ext. intros z _. rewrite b2z_and. ring.
  Qed.
  (** the points of a contraction at which P holds, counted from the side of the contraction and of a factor *)
  Definition points1 sh s x (p : index -> index -> index -> bool) : Z := zsum (box sh) (fun g => cnt1 s x (p g)).
  Definition points2 sh s x0 x1 (p : index -> index -> index -> index -> bool) : Z := zsum (box sh) (fun g => cnt2 s x0 x1 (p g)).
  Lemma transposed1 sh s x p dY P : shp dY = sh ->
    points1 (shp x) s dY (fun i g z => p g i z && P g) = zsum (box sh) (fun g => b2z (P g) * cnt1 s x (p g)).
  Proof.
    intros W. unfold points1, cnt1 at 1. rewrite W, zsum_swap. apply zsum_ext. intros g _. rewrite <- cnt1_and. reflexivity.
  Qed.
  Lemma transposed2_left sh s x0 x1 p dY P : shp dY = sh ->
    points2 (shp x0) s dY x1 (fun i0 g i1 z => p g i0 i1 z && P g) = zsum (box sh) (fun g => b2z (P g) * cnt2 s x0 x1 (p g)).
  Proof.
    intros W. unfold points2, cnt2 at 1. rewrite W, zsum_swap. apply zsum_ext. intros g _. rewrite <- cnt2_and. reflexivity.
  Qed.
  Lemma transposed2_right sh s x0 x1 p dY P : shp dY = sh ->
    points2 (shp x1) s x0 dY (fun i1 i0 g z => p g i0 i1 z && P g) = zsum (box sh) (fun g => b2z (P g) * cnt2 s x0 x1 (p g)).
  Proof.
    intros W. unfold points2, cnt2 at 1. rewrite W, zsum_swap.
    transitivity (zsum (box (shp x0)) (fun i0 => zsum (box sh) (fun g => zsum (box (shp x1)) (fun i1 =>
                  zsum (box s) (fun z => b2z (p g i0 i1 z && P g)))))).
    - apply zsum_ext. intros i0 _. apply zsum_swap.
    - rewrite zsum_swap. apply zsum_ext. intros g _. rewrite <- cnt2_and. reflexivity.
  Qed.
  Lemma points1_key sh s x p (P : pred) :
    zsum (box sh) (fun g => b2z (P g) * cnt1 s x (p g)) <= num sh P + points1 sh s x p - num sh (fun g => ex1 s x (p g)).
  Proof. apply key. intros; apply ex1_le. Qed.
  Lemma points2_key sh s x0 x1 p (P : pred) :
    zsum (box sh) (fun g => b2z (P g) * cnt2 s x0 x1 (p g)) <= num sh P + points2 sh s x0 x1 p - num sh (fun g => ex2 s x0 x1 (p g)).
  Proof. apply key. intros; apply ex2_le. Qed.
  Lemma points2_and sh s x0 x1 p (P : pred) :
    zsum (box sh) (fun g => b2z (P g) * cnt2 s x0 x1 (p g)) <= points2 sh s x0 x1 p.
  Proof. apply zsum_le. intros g _. pose proof (cnt2_nonneg s x0 x1 (p g)). destruct (P g); cbn [b2z]; lia. Qed.

  Theorem cost_6_29 act sh s p x dY P : shp dY = sh ->
    charge (only act (rule_6_29 s p x dY P)) <= num sh P + dcost1 act (sh, C1 s p x).
  Proof.
    intros W. pose proof (num_nonneg sh P). cbn [rule_6_29 only filter into dcost1]. destruct (act x); [|unfold Accounts.charge; simpl; lia].
    unfold Accounts.charge, points. cbn [zsum into what cneg con Accounts.spent SSA.cost1 weight].
    rewrite Z.mul_1_l, Z.sub_add, Z.add_0_r, Z.add_sub_assoc.
    pose proof (transposed1 sh s x p dY P W). pose proof (points1_key sh s x p P). unfold points1 in *. lia.
  Qed.
  Theorem cost_6_28 act sh s p x0 x1 dY P : shp dY = sh ->
    charge (only act (rule_6_28 s p x0 x1 dY P)) <= num sh P + dcost1 act (sh, C2 s p x0 x1).
  Proof.
    intros W. pose proof (num_nonneg sh P).
    pose proof (transposed2_left sh s x0 x1 p dY P W). pose proof (transposed2_right sh s x0 x1 p dY P W).
    pose proof (points2_key sh s x0 x1 p P). pose proof (points2_and sh s x0 x1 p P). unfold points2 in *.
    cbn [rule_6_28 only filter into dcost1]. destruct (act x0), (act x1); cbn [filter b2z];
    unfold Accounts.charge, points; cbn [zsum into what cneg con Accounts.spent SSA.cost1 weight]; cbn [Z.add Z.ltb Z.compare Pos.compare Pos.add Pos.succ]; lia.
  Qed.

  Theorem cost_rule act x r dY P : shp dY = shp x -> pointwise (shp x) r -> source r = None ->
    charge (only act (rule DT x r dY P)) <= num (shp x) P + dcost1 act (shp x, r).
  Proof.
    intros W Wr HI. pose proof (num_nonneg (shp x) P). destruct r; cbn [rule].
    - discriminate HI.
    - unfold Accounts.charge; simpl. lia.
    - rewrite only_6_26. apply cost_6_26. intros t Ht. apply filter_In in Ht. apply Wr. apply in_map, Ht.
    - apply cost_6_27. exact Wr.
    - apply cost_6_29; assumption.
    - apply cost_6_28; assumption.
    - unfold Accounts.charge; simpl. lia.
  Qed.

  (** * 6.25 *)
  Lemma accum_at (l : list ip) i :
    zsum l (fun c => b2z (on c i)) - b2z (existsb (fun c => negb (neg c) && on c i) l) + b2z (union l i)
    <= zsum l (fun c => weight (neg c) * b2z (on c i))
    /\ zsum l (fun c => b2z (on c i)) <= zsum l (fun c => weight (neg c) * b2z (on c i)).
  Proof.
    unfold union. induction l as [|c l [IH1 IH2]]; [cbn; lia|]. cbn [zsum existsb].
    pose proof (b2z_range (existsb (fun c => on c i) l)). pose proof (b2z_range (existsb (fun c => negb (neg c) && on c i) l)).
    destruct (neg c), (on c i); cbn [negb andb orb weight b2z] in *; lia.
  Qed.
  Lemma cost_accum sh l : (forall c, In c l -> shp (tgt c) = sh) -> cost1 (sh, accum l) + num sh (union l) <= ipcost l.
  Proof.
    intros H. unfold accum, ipcost, owed, points. cbn [SSA.cost1]. rewrite zsum_map. cbn [bracket].
    rewrite (zsum_ext l (fun c => weight (neg c) * num (shp (tgt c)) (on c)) (fun c => weight (neg c) * num sh (on c)))
      by (intros c Hc; now rewrite (H c Hc)).
    rewrite (zsum_num sh l (fun c => weight (neg c)) on), (num_swap sh l on).
    unfold num. rewrite <- zsum_sub, <- zsum_add. apply zsum_le. intros i _.
    assert (positive (map (fun c => Term (neg c) (on c) (lhs c)) l) i = existsb (fun c => negb (neg c) && on c i) l) as ->
      by (unfold positive; clear; induction l as [|c l IH]; cbn; [reflexivity|now rewrite IH]).
    apply accum_at.
  Qed.
  Theorem cost_6_25 sh l em P : (forall c, In c l -> shp (tgt c) = sh) -> rule_6_25 l = (em, P) ->
    spent sh em + num sh P <= ipcost l.
  Proof.
    intros H. unfold rule_6_25. destruct l as [|c [|c' l]]; intros E; try (inversion E; subst; apply cost_accum; assumption).
    destruct (neg c) eqn:N; inversion E; subst; [apply cost_accum; assumption|].
    unfold ipcost, owed, points. cbn [zsum Accounts.spent]. rewrite N, (H c) by (left; auto). cbn [weight]. lia.
  Qed.

  (** * (B) *)
  Lemma positive_filter (f : term -> bool) l i :
    zsum (filter f l) (fun t => weight (minus t) * b2z (bracket t i)) - b2z (positive (filter f l) i)
    <= zsum l (fun t => weight (minus t) * b2z (bracket t i)) - b2z (positive l i)
    /\ zsum (filter f l) (fun t => weight (minus t) * b2z (bracket t i)) <= zsum l (fun t => weight (minus t) * b2z (bracket t i)).
  Proof.
    unfold positive. induction l as [|t l [IH1 IH2]]; [cbn; lia|]. cbn [filter]. destruct (f t); cbn [zsum existsb];
    pose proof (b2z_range (existsb (fun t => negb (minus t) && bracket t i) l));
    pose proof (b2z_range (existsb (fun t => negb (minus t) && bracket t i) (filter f l)));
    destruct (minus t), (bracket t i); cbn [negb andb orb weight b2z] in *; lia.
  Qed.
  Lemma filter_all {A} (f : A -> bool) l : (forall a, f a = true) -> filter f l = l.
  Proof. intros H. induction l as [|a l IH]; cbn; [reflexivity|]. now rewrite H, IH. Qed.
  (** differentiating by fewer variables costs no more *)
  Lemma dcost1_every act st : 0 <= dcost1 act st <= dcost1 every st.
  Proof.
    destruct st as [sh r]. destruct r; cbn [dcost1]; try lia.
    - assert (Q : forall k : list term, zsum k (fun t => weight (minus t) * num sh (bracket t)) - num sh (positive k)
                = zsum (box sh) (fun i => zsum k (fun t => weight (minus t) * b2z (bracket t i)) - b2z (positive k i))).
      { intros k. rewrite (zsum_num sh k (fun t => weight (minus t)) bracket), zsum_sub. reflexivity. }
      rewrite (filter_all (fun t => every (operand t))) by reflexivity. rewrite !Q. split.
      + apply zsum_nonneg. intros i _. pose proof (positive_weight (filter (fun t => act (operand t)) l) i). lia.
      + apply zsum_le. intros i _. apply positive_filter.
    - pose proof (num_nonneg sh p). pose proof (csum_nonneg act f xs 0).
      assert (J : 0 <= joins act xs <= joins every xs).
      { unfold joins. rewrite (filter_all every) by reflexivity. split; [lia|]. apply Nat2Z.inj_le, Nat.pred_le_mono.
        clear. induction xs as [|x xs IH]; cbn; [lia|]. destruct (act x); cbn; lia. }
      assert (C : forall j, csum act f j xs <= csum every f j xs).
      { clear - fcost_nonneg. induction xs as [|x xs IH]; intros j; cbn [csum]; [lia|]. specialize (IH (S j)).
        pose proof (fcost_nonneg (DT f j)). unfold every at 1. destruct (act x); lia. }
      specialize (C 0%nat). nia.
    - assert (num sh (fun g => ex1 s x (p g)) <= zsum (box sh) (fun g => cnt1 s x (p g)))
        by (apply zsum_le; intros; apply ex1_le). unfold every. destruct (act x); lia.
    - assert (num sh (fun g => ex2 s x0 x1 (p g)) <= zsum (box sh) (fun g => cnt2 s x0 x1 (p g)))
        by (apply zsum_le; intros; apply ex2_le).
      pose proof (num_nonneg sh (fun g => ex2 s x0 x1 (p g))).
      unfold every. destruct (act x0), (act x1); cbn [b2z]; cbn [Z.add Z.ltb Z.compare Pos.compare Pos.add Pos.succ]; lia.
  Qed.
  Lemma dcost_every act S : dcost act S <= dcost every S.
  Proof. apply zsum_le. intros st _. apply dcost1_every. Qed.

  Lemma turn_cost act S : within DT cost1 points (fun x r => dcost1 act (shp x, r)) act S.
  Proof.
    intros x r t m t' new _ H Wr HS HM. unfold turn in H. pose proof (dcost1_every act (shp x, r)) as [D0 _].
    destruct m as [|c m]; [inversion H; subst; lia|].
    destruct (rule_6_25 (c :: m)) as [em P] eqn:E. destruct (emit t (shp x) em) as [t1 dY] eqn:E1.
    assert (SY : shp dY = shp x) by (eapply emit_shp; [exact E1|]; eapply fits_6_25; [|exact E]; intros a Ha; apply HM, Ha).
    apply (emits_total cost1 points) in H. apply (emit_total cost1) in E1.
    pose proof (cost_6_25 (shp x) (c :: m) em P (fun a Ha => f_equal shp (proj1 (HM a Ha))) E).
    pose proof (cost_rule act x r dY (memo P) SY Wr HS). unfold memo, ipcost in *. lia.
  Qed.

  Definition outsize (outs : list var) : Z := zsum outs (fun x => size (shp x)).                  (** |output| *)
  Lemma outsize_nonneg l : 0 <= outsize l.
  Proof. apply zsum_nonneg. intros x _. unfold size. lia. Qed.
  Lemma start_cost : forall outs dys, length dys = length outs -> charge (start outs dys) = outsize outs.
  Proof.
    unfold Accounts.charge, start, outsize, points. induction outs as [|x outs IH]; intros [|y dys] H; try discriminate; [reflexivity|].
    cbn [combine map zsum fst snd into what cneg con Accounts.spent SSA.cost1 weight]. rewrite IH by (simpl in H; congruence).
    rewrite num_any. lia.
  Qed.
  Lemma good_length S outs dys : good_outs (K := K) (fn := fn) S outs dys -> length dys = length outs.
  Proof. intros [G _]. rewrite <- (map_length shp dys), G. apply map_length. Qed.

  (** (B): the adjoint, with the points of the gradients' predicates *)
  Theorem adjoint_cost act S outs dys leaves t grads :
    wf S -> good_outs S outs dys -> NoDup leaves -> adjoint_for DT act S outs dys leaves = (t, grads) ->
    cost t + ipcost grads <= cost S + dcost act S + outsize outs.
  Proof.
    intros W GO ND H.
    destruct (adjoint_total DT cost1 (cost1_nonneg fcost fcost_nonneg) (fun m sh p => weight m * num sh p) points
                weight_nonneg (fun _ _ _ => Z.le_refl _) (fun x r => dcost1 act (shp x, r)) (fun _ _ => proj1 (dcost1_every act _))
                act (fun l y => num (shp y) (union l)) S outs dys leaves t grads (turn_cost act S) W GO ND H) as [gl [H1 H2]].
    - intros y l Hl. eapply Z.le_trans; [apply cost_accum; intros c Hc; now rewrite (Hl c Hc)|]. apply Z.le_refl.
    - rewrite start_cost in H1 by (eapply good_length; exact GO). unfold ipcost. rewrite H2. unfold points at 1.
      rewrite (zsum_ext leaves _ (fun y => num (shp y) (union (mine y gl)))) by (intros; cbn [weight]; lia).
      assert (budget (fun x r => dcost1 act (shp x, r)) S = dcost act S) as <-; [|unfold SSA.cost, Accounts.total in *; lia].
      clear. unfold dcost. induction S as [|[sh r] S IH]; [reflexivity|]. cbn [budget zsum shp]. now rewrite IH.
  Qed.

  (** the components of D^T f, joined, cost at most 3 times f *)
  Definition cheap_maps (S : prog) : Prop :=
    forall sh p f xs, In (sh, Map p f xs) S -> csum every f 0 xs + joins every xs <= 3 * fcost f.
  Lemma dcost_3cost act S : cheap_maps S -> dcost act S <= 3 * cost S.
  Proof.
    intros Hf. eapply Z.le_trans; [apply dcost_every|]. unfold dcost, SSA.cost. rewrite <- zsum_scale. apply zsum_le. intros [sh r] Hr.
    pose proof (cost1_nonneg fcost fcost_nonneg (sh, r)) as C0. destruct r; cbn [dcost1 SSA.cost1] in *; try lia.
    - rewrite (filter_all (fun t => every (operand t))) by reflexivity.
      assert (zsum l (fun t => weight (minus t) * num sh (bracket t)) - num sh (positive l)
              <= 3 * (zsum l (fun t => num sh (bracket t)) - num sh (positive l))); [|lia].
      rewrite (zsum_num sh l (fun t => weight (minus t)) bracket), (num_swap sh l bracket).
      unfold num. rewrite <- !zsum_sub, <- zsum_scale. apply zsum_le. intros i _. unfold positive.
      assert (b2z (existsb (fun t => negb (minus t) && bracket t i) l) <= zsum l (fun t => (2 - weight (minus t)) * b2z (bracket t i))).
      { eapply Z.le_trans; [apply zsum_existsb|]. apply zsum_le. intros t _. destruct (minus t), (bracket t i); cbn; lia. }
      assert (E : zsum l (fun t => (2 - weight (minus t)) * b2z (bracket t i))
                  = 2 * zsum l (fun t => b2z (bracket t i)) - zsum l (fun t => weight (minus t) * b2z (bracket t i))).
      { rewrite <- zsum_scale, <- zsum_sub. apply zsum_ext. intros t _. ring. }
      assert (zsum l (fun t => b2z (bracket t i)) <= zsum l (fun t => weight (minus t) * b2z (bracket t i)))
        by (apply zsum_le; intros t _; destruct (minus t), (bracket t i); cbn; lia).
      lia.
    - pose proof (num_nonneg sh p). specialize (Hf _ _ _ _ Hr). nia.
    - unfold every. lia.
    - assert (num sh (fun g => ex2 s x0 x1 (p g)) <= zsum (box sh) (fun g => cnt2 s x0 x1 (p g)))
        by (apply zsum_le; intros; apply ex2_le). unfold every. cbn [b2z]. cbn [Z.add Z.ltb Z.compare Pos.compare Pos.add Pos.succ]. lia.
  Qed.
  (** (B), its second half: at most four times the cost, and the size of the output *)
  Theorem adjoint_cost_4 act S outs dys leaves t grads :
    cheap_maps S -> wf S -> good_outs S outs dys -> NoDup leaves -> adjoint_for DT act S outs dys leaves = (t, grads) ->
    cost t + ipcost grads <= 4 * cost S + outsize outs.
  Proof.
    intros Hf W GO ND H. pose proof (adjoint_cost _ _ _ _ _ _ _ W GO ND H). pose proof (dcost_3cost act S Hf). lia.
  Qed.
  (** 6.35 as printed, but with inputs and outputs counted on both sides *)
  Theorem theorem_6_35 act S outs dys leaves t grads :
    cheap_maps S -> wf S -> good_outs S outs dys -> NoDup leaves -> adjoint_for DT act S outs dys leaves = (t, grads) ->
    cost t + outsize leaves + outsize outs <= 4 * (cost S + outsize leaves + outsize outs).
  Proof.
    intros Hf W GO ND H. pose proof (adjoint_cost_4 _ _ _ _ _ _ _ Hf W GO ND H).
    pose proof (outsize_nonneg leaves). pose proof (outsize_nonneg outs).
    assert (0 <= ipcost grads) by (apply zsum_nonneg; intros; apply weight_nonneg). lia.
  Qed.
End Cost.
