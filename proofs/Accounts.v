(** Bookkeeping for bounds on adjoints. Statements are paid when they are emitted, by the inner products that turning
    a statement around uses up and a budget for that statement; what is left at the end is owed by the gradients.
    Cost.v counts arithmetic, Storage.v the points executed. *)
Require Import List Bool ZArith Lia.
Import ListNotations.
Require Import TL.Sums TL.SSA TL.Adjoint.

Section Accounts.
  Local Open Scope Z_scope.
  Context {K fn : Type} (DT : fn -> nat -> fn).
  Notation rhs := (rhs K fn). Notation prog := (prog K fn). Notation stmt := (stmt K fn).
  Notation emission := (emission K fn). Notation contribution := (contribution K fn).
  (** what a statement costs, and what an inner product owes *)
  Variables (w : stmt -> Z) (v : bool -> shape -> pred -> Z).
  Hypothesis w_nonneg : forall st, 0 <= w st.
  Hypothesis v_nonneg : forall m sh p, 0 <= v m sh p.
  Definition total (S : prog) : Z := zsum S w.
  Definition owed (l : list ip) : Z := zsum l (fun c => v (neg c) (shp (tgt c)) (on c)).
  Definition spent (sh : shape) (em : emission) : Z := match em with Reuse _ => 0 | Emit r => w (sh, r) end.
  Definition charge (cs : list contribution) : Z :=
    zsum cs (fun c => spent (shp (into c)) (what c) + v (cneg c) (shp (into c)) (con c)).

  Lemma emit_total t sh em t1 e : emit t sh em = (t1, e) -> total t1 = total t + spent sh em.
  Proof. destruct em; simpl; intros H; inversion H; subst; unfold total; simpl; lia. Qed.
  Lemma emits_total cs : forall t t' l, emits t cs = (t', l) -> total t' + owed l = total t + charge cs.
  Proof.
    induction cs as [|c cs IH]; simpl; intros t t' l H.
    - inversion H; subst. unfold owed, charge; simpl; lia.
    - destruct (emit t (shp (into c)) (what c)) as [t1 e] eqn:E1. destruct (emits t1 cs) as [t2 l2] eqn:E2.
      inversion H; subst. apply IH in E2. apply emit_total in E1. unfold owed, charge in *. cbn [zsum neg tgt on]. lia.
  Qed.
  Lemma zsum_filter_le {A} (f : A -> Z) (p : A -> bool) l : (forall a, 0 <= f a) -> zsum (filter p l) f <= zsum l f.
  Proof. intros H. induction l as [|a l IH]; simpl; [lia|]. specialize (H a). destruct (p a); simpl; lia. Qed.
  Lemma charge_only act cs : charge (only act cs) <= charge cs.
  Proof.
    apply zsum_filter_le. intros c. pose proof (v_nonneg (cneg c) (shp (into c)) (con c)).
    destruct (what c) as [e|r]; cbn [spent]; [|pose proof (w_nonneg (shp (into c), r))]; lia.
  Qed.
  Lemma owed_nonneg l : 0 <= owed l.
  Proof. apply zsum_nonneg. intros; apply v_nonneg. Qed.
  Lemma owed_app l l' : owed (l ++ l') = owed l + owed l'.
  Proof. apply zsum_app. Qed.
  Lemma owed_split x l : owed l = owed (mine x l) + owed (rest x l).
  Proof. apply zsum_filter. Qed.

  (** turning a statement around stays within the budget d *)
  Definition within (act : var -> bool) (d : stmt -> Z) : Prop :=
    forall x r t m t' new, turn DT act x r t m = (t', new) -> pointwise (shp x) r -> source r = None ->
      (forall c, In c m -> tgt c = x /\ shp (lhs c) = shp x) ->
      total t' + owed new <= total t + owed m + d (shp x, r).
  Lemma bwd_total act d : within act d -> (forall st, 0 <= d st) ->
    forall ss t l gl t' gl', wf ss -> Forall (okip (declared ss)) l -> bwd DT act ss t l gl = (t', gl') ->
    total t' + owed gl' <= total t + owed l + owed gl + zsum ss d.
  Proof.
    intros HD Hd. induction ss as [|[sh r] ss IH]; intros t l gl t' gl' W F H.
    - simpl in H. inversion H; subst. pose proof (owed_nonneg l). simpl. lia.
    - cbn [bwd] in H. set (x := Var (length ss) sh) in *. simpl in W. destruct W as [HO [Wp W]].
      cbn [declared] in F. fold x in F.
      pose proof (rest_ok x _ _ F) as FR. pose proof (owed_split x l) as CS. cbn [zsum].
      assert (HM : forall c, In c (mine x l) -> tgt c = x /\ shp (lhs c) = shp x)
        by (intros c Hc; split; [exact (mine_tgt x l c Hc)|exact (mine_shp x _ l c F Hc)]).
      destruct (source r) as [y|] eqn:Hr.
      + assert (r = Input y) by (destruct r; inversion Hr; reflexivity). subst r. cbn in Wp.
        apply IH in H; [|assumption|assumption]. rewrite owed_app in H.
        assert (owed (map (retarget y) (mine x l)) = owed (mine x l)).
        { unfold owed. rewrite zsum_map. apply zsum_ext. intros c Hc. cbn [retarget neg tgt on].
          destruct (HM c Hc) as [-> _]. now rewrite Wp. }
        specialize (Hd (sh, Input y)). lia.
      + destruct (turn DT act x r t (mine x l)) as [t1 new] eqn:ET.
        pose proof (HD x r _ _ _ _ ET Wp Hr HM) as HT. cbn [shp x] in HT.
        apply IH in H; [|assumption|].
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
  (** all together: the gradients are made from inner products gl with what the budget leaves *)
  Lemma adjoint_total act d S outs dys leaves t grads :
    within act d -> (forall st, 0 <= d st) -> wf S -> good_outs S outs dys -> NoDup leaves ->
    adjoint_for DT act S outs dys leaves = (t, grads) ->
    exists gl, total t + owed grads <= total S + zsum S d + charge (start outs dys) + (charge (finish leaves gl) - owed gl)
               /\ zsum leaves (fun y => owed (mine y gl)) <= owed gl.
  Proof.
    intros HD Hd W GO ND H. unfold adjoint_for in H.
    destruct (emits S (only act (start outs dys))) as [t0 l] eqn:E0. destruct (bwd DT act S t0 l []) as [t1 gl] eqn:E1.
    pose proof (emits_ok _ _ _ _ _ E0 (only_ok _ act _ (start_ok S outs dys GO))) as F.
    apply (bwd_total act d HD Hd) in E1; [|assumption|assumption]. apply emits_total in E0. apply emits_total in H.
    pose proof (charge_only act (start outs dys)). assert (owed [] = 0) by reflexivity.
    exists gl. split; [lia|]. apply zsum_leaves; auto.
  Qed.
End Accounts.
