(** Bookkeeping for bounds on adjoints. Statements are paid for when they are emitted: by the inner products that
    turning a statement around uses up, and by a budget for that statement. What is left is owed by the inner products
    with differentials of inputs, of which the gradients are made. Bound.v counts arithmetic, Storage.v the points
    executed. *)
Require Import List Bool ZArith Lia.
Import ListNotations.
Require Import TL.Sums TL.SSA TL.Adjoint.

Section Accounts.
  Local Open Scope Z_scope.
  Context {K fn : Type} (DT : fn -> nat -> fn).
  Notation rhs := (rhs K fn). Notation prog := (prog K fn). Notation stmt := (stmt K fn).
  Notation emission := (emission K fn). Notation contribution := (contribution K fn).
  (** what a statement costs, and what an inner product owes: negated or not, of which variable, with which predicate *)
  Variable w : stmt -> Z.
  Notation debt := (bool -> var -> pred -> Z).
  Definition total (S : prog) : Z := zsum S w.
  Definition owed (v : debt) (l : list ip) : Z := zsum l (fun c => v (neg c) (tgt c) (on c)).
  Definition spent (sh : shape) (em : emission) : Z := match em with Reuse _ => 0 | Emit r => w (sh, r) end.
  Definition charge (v : debt) (cs : list contribution) : Z :=
    zsum cs (fun c => spent (shp (into c)) (what c) + v (cneg c) (into c) (con c)).

  Lemma emit_total t sh em t1 e : emit t sh em = (t1, e) -> total t1 = total t + spent sh em.
  Proof. destruct em; simpl; intros H; inversion H; subst; unfold total; simpl; lia. Qed.
  Lemma emits_total v cs : forall t t' l, emits t cs = (t', l) -> total t' + owed v l = total t + charge v cs.
  Proof.
    induction cs as [|c cs IH]; simpl; intros t t' l H.
    - inversion H; subst. unfold owed, charge; simpl; lia.
    - destruct (emit t (shp (into c)) (what c)) as [t1 e] eqn:E1. destruct (emits t1 cs) as [t2 l2] eqn:E2.
      inversion H; subst. apply IH in E2. apply emit_total in E1. unfold owed, charge in *. cbn [zsum neg tgt on]. lia.
  Qed.
  Lemma emits_owed v (cs : list contribution) : forall t t' l, emits t cs = (t', l) -> owed v l = zsum cs (fun c => v (cneg c) (into c) (con c)).
  Proof.
    induction cs as [|c cs IH]; simpl; intros t t' l H; [inversion H; reflexivity|].
    destruct (emit t _ _) as [t1 e]. destruct (emits t1 cs) as [t2 l2] eqn:E2. inversion H; subst. apply IH in E2.
    unfold owed in *. cbn [zsum neg tgt on]. lia.
  Qed.

  Hypothesis w_nonneg : forall st, 0 <= w st.
  (** u: what an inner product with the differential of an input owes, no more than v of the variable that holds it *)
  Variables (u : bool -> shape -> pred -> Z) (v : debt).
  Hypothesis u_nonneg : forall m sh p, 0 <= u m sh p.
  Hypothesis u_v : forall m x p, u m (shp x) p <= v m x p.
  Notation at_inputs := (fun m y p => u m (shp y) p).

  Lemma v_nonneg m x p : 0 <= v m x p.
  Proof. eapply Z.le_trans; [apply u_nonneg|apply u_v]. Qed.
  Lemma zsum_filter_le {A} (f : A -> Z) (p : A -> bool) l : (forall a, 0 <= f a) -> zsum (filter p l) f <= zsum l f.
  Proof. intros H. induction l as [|a l IH]; simpl; [lia|]. specialize (H a). destruct (p a); simpl; lia. Qed.
  Lemma charge_only act cs : charge v (only act cs) <= charge v cs.
  Proof.
    apply zsum_filter_le. intros c. pose proof (v_nonneg (cneg c) (into c) (con c)).
    destruct (what c) as [e|r]; cbn [spent]; [|pose proof (w_nonneg (shp (into c), r))]; lia.
  Qed.
  Lemma owed_nonneg l : 0 <= owed v l.
  Proof. apply zsum_nonneg. intros; apply v_nonneg. Qed.
  Lemma owed_app q l l' : owed q (l ++ l') = owed q l + owed q l'.
  Proof. apply zsum_app. Qed.
  Lemma owed_split q x l : owed q l = owed q (mine x l) + owed q (rest x l).
  Proof. apply zsum_filter. Qed.

  (** d: the budgets; turning a statement of S around stays within its budget *)
  Variable d : var -> rhs -> Z.
  Hypothesis d_nonneg : forall x r, 0 <= d x r.
  Fixpoint budget (S : prog) : Z := match S with [] => 0 | (sh, r) :: S' => d (Var (length S') sh) r + budget S' end.
  Fixpoint defines (S : prog) (x : var) (r : rhs) : Prop :=
    match S with [] => False | (sh, r') :: S' => (x = Var (length S') sh /\ r = r') \/ defines S' x r end.
  Definition within (act : var -> bool) (S : prog) : Prop :=
    forall x r t m t' new, defines S x r -> turn DT act x r t m = (t', new) -> pointwise (shp x) r -> source r = None ->
      (forall c, In c m -> tgt c = x /\ shp (lhs c) = shp x) ->
      total t' + owed v new <= total t + owed v m + d x r.
  Lemma bwd_total act : forall ss t l gl t' gl', within act ss -> wf ss -> Forall (okip (declared ss)) l ->
    bwd DT act ss t l gl = (t', gl') ->
    total t' + owed at_inputs gl' <= total t + owed v l + owed at_inputs gl + budget ss.
  Proof.
    induction ss as [|[sh r] ss IH]; intros t l gl t' gl' HD W F H.
    - simpl in H. inversion H; subst. pose proof (owed_nonneg l). simpl. lia.
    - cbn [bwd] in H. set (x := Var (length ss) sh) in *. simpl in W. destruct W as [HO [Wp W]].
      cbn [declared] in F. fold x in F. cbn [budget]. fold x.
      assert (HD' : within act ss) by (intros x' r' t0 m t0' new Hx; apply HD; right; exact Hx).
      pose proof (rest_ok x _ _ F) as FR. pose proof (owed_split v x l) as CS. pose proof (d_nonneg x r) as Dx.
      assert (HM : forall c, In c (mine x l) -> tgt c = x /\ shp (lhs c) = shp x)
        by (intros c Hc; split; [exact (mine_tgt x l c Hc)|exact (mine_shp x _ l c F Hc)]).
      destruct (source r) as [y|] eqn:Hr.
      + assert (r = Input y) by (destruct r; inversion Hr; reflexivity). subst r. cbn in Wp.
        apply IH in H; [|assumption..]. rewrite owed_app in H.
        assert (owed at_inputs (map (retarget y) (mine x l)) <= owed v (mine x l)).
        { unfold owed. rewrite zsum_map. apply zsum_le. intros c Hc. cbn [retarget neg tgt on].
          destruct (HM c Hc) as [-> _]. rewrite Wp. apply (u_v (neg c) x). }
        lia.
      + destruct (turn DT act x r t (mine x l)) as [t1 new] eqn:ET.
        assert (Hx : defines ((sh, r) :: ss) x r) by (left; split; reflexivity).
        pose proof (HD x r _ _ _ _ Hx ET Wp Hr HM) as HT.
        apply IH in H; [|assumption|assumption|].
        * rewrite owed_app in H. lia.
        * apply Forall_app. split; [|assumption]. eapply turn_ok; eauto. intros c Hc. apply HM, Hc.
  Qed.

  Lemma zsum_leaves (f : ip -> Z) : (forall c, 0 <= f c) -> forall leaves gl, NoDup leaves ->
    zsum leaves (fun y => zsum (mine y gl) f) <= zsum gl f.
  Proof.
    intros Hf. induction leaves as [|y ls IH]; intros gl N; simpl.
    - apply zsum_nonneg; auto.
    - inversion N; subst. rewrite (zsum_filter gl (to y)). fold (mine y gl). fold (rest y gl).
      apply Z.add_le_mono_l. eapply Z.le_trans; [|apply (IH (rest y gl)); assumption].
      apply Z.eq_le_incl, zsum_ext. intros y' Hy'. rewrite mine_rest; [reflexivity|]. intros ->. contradiction.
  Qed.
  (** all together; e: what a gradient owes at the end, after its inner products have been collected *)
  Lemma adjoint_total act (e : list ip -> var -> Z) S outs dys leaves t grads :
    within act S -> wf S -> good_outs S outs dys -> NoDup leaves -> adjoint_for DT act S outs dys leaves = (t, grads) ->
    (forall y l, (forall c, In c l -> tgt c = y) -> w (shp y, accum l) + e l y <= owed at_inputs l) ->
    exists gl, total t + zsum leaves (fun y => e (mine y gl) y) <= total S + budget S + charge v (start outs dys)
               /\ forall q, owed q grads = zsum leaves (fun y => q false y (union (mine y gl))).
  Proof.
    intros HD W GO ND H HE. unfold adjoint_for in H.
    destruct (emits S (only act (start outs dys))) as [t0 l] eqn:E0. destruct (bwd DT act S t0 l []) as [t1 gl] eqn:E1.
    pose proof (emits_ok _ _ _ _ _ E0 (only_ok _ act _ (start_ok S outs dys GO))) as F.
    exists gl. split; [|intros q; rewrite (emits_owed q _ _ _ _ H); unfold finish; rewrite zsum_map; reflexivity].
    pose proof (bwd_total act _ _ _ _ _ _ HD W F E1) as B. apply (emits_total v) in E0.
    pose proof (emits_total (fun _ _ _ => 0) _ _ _ _ H) as T. pose proof (charge_only act (start outs dys)).
    assert (owed at_inputs [] = 0) by reflexivity.
    assert (owed (fun _ _ _ => 0) grads = 0) by apply zsum_0.
    pose proof (zsum_leaves (fun c => u (neg c) (shp (tgt c)) (on c)) (fun c => u_nonneg _ _ _) leaves gl ND) as L.
    assert (zsum leaves (fun y => w (shp y, accum (mine y gl)) + e (mine y gl) y)
            <= zsum leaves (fun y => owed at_inputs (mine y gl)))
      by (apply zsum_le; intros y _; apply HE; intros c; apply mine_tgt).
    assert (charge (fun _ _ _ => 0) (finish leaves gl) = zsum leaves (fun y => w (shp y, accum (mine y gl)))).
    { unfold charge, finish. rewrite zsum_map. apply zsum_ext. intros y _. cbn [into what spent]. lia. }
    rewrite zsum_add in *. unfold owed in *. lia.
  Qed.
End Accounts.
