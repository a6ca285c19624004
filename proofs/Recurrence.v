(** Recurrences (rules 6.R0 and 6.R1 of tensorlang/derivatives/recurrence.py), by induction over the steps.

    A recurrence of T steps is, for each T, tensor SSA: its steps one after the other, each a list of statements that are
    added to those before. So all theorems about SSA hold of it, for every T; what is shown here is that it is well-formed
    and within the bound if its steps are ([loop_wf], [loop_bound]), that its adjoint goes through its steps from the last
    to the first, each turned around on its own ([bwd_loop]), and that each keeps the account ([back_cost], [back_loop_cost]).
    Then, without SSA: that the recurrence of cotangents that goes backwards gives the gradient ([cotangents]), that two
    equalities tell where these are not 0 ([supports_exact]), and by what the checker tells states apart ([states_same],
    [states_masked], [states_added]). *)
Require Import List Bool ZArith Ring Lia.
Import ListNotations.
Require Import TL.Sums TL.SSA TL.Adjoint TL.Accounts TL.Bound TL.Transpose.
Open Scope list_scope.
Local Notation times_ := Datatypes.S.

(** * Steps one after the other *)
Section Loop.
  Context {K fn : Type} (DT : fn -> nat -> fn) (fcost : fn -> Z).
  Hypothesis fcost_nonneg : forall f, (0 <= fcost f)%Z.
  Notation prog := (SSA.prog K fn).
  Notation cost := (SSA.cost (K := K) fcost).
  Notation ipcost := (Bound.ipcost).
  Notation dcost := (Bound.dcost (K := K) DT fcost).
  Notation turn := (Adjoint.turn (K := K) DT). Notation bwd := (Adjoint.bwd (K := K) DT).

  (** what step t adds to a program, given the variables that hold the state, and those that hold the next one *)
  Definition step := nat -> prog -> list var -> prog * list var.
  Fixpoint loop (f : step) (T : nat) (S : prog) (st : list var) : prog * list var :=
    match T with
    | O => (S, st)
    | times_ T => let (S', st') := loop f T S st in let (ss, next) := f T S' st' in (ss ++ S', next)
    end.
  Definition added (f : step) (S : prog) (st : list var) (t : nat) : prog := fst (f t (fst (loop f t S st)) (snd (loop f t S st))).
  Lemma loop_step f T S st : fst (loop f (times_ T) S st) = added f S st T ++ fst (loop f T S st).
  Proof. unfold added. cbn [loop]. destruct (loop f T S st) as [S' st']. cbn [fst snd]. destruct (f T S' st'). reflexivity. Qed.

  (** a step makes a state of the shapes of the one before, of what is declared *)
  Definition keeps (shapes : list shape) (f : step) : Prop := forall t S st, wf S -> incl st (declared S) -> map shp st = shapes ->
    wf (fst (f t S st) ++ S) /\ incl (snd (f t S st)) (declared (fst (f t S st) ++ S)) /\ map shp (snd (f t S st)) = shapes.
  Theorem loop_wf shapes f : keeps shapes f -> forall T S st, wf S -> incl st (declared S) -> map shp st = shapes ->
    wf (fst (loop f T S st)) /\ incl (snd (loop f T S st)) (declared (fst (loop f T S st))) /\ map shp (snd (loop f T S st)) = shapes.
  Proof.
    intros Kp. induction T as [|T IH]; intros S st W I Sh; [auto|]. destruct (IH S st W I Sh) as [W' [I' Sh']]. cbn [loop].
    destruct (loop f T S st) as [S' st']. cbn [fst snd] in *. pose proof (Kp T S' st' W' I' Sh') as Q. destruct (f T S' st'). exact Q.
  Qed.
  Theorem loop_cost f S st : forall T, cost (fst (loop f T S st)) = (cost S + zsum (seq 0 T) (fun t => cost (added f S st t)))%Z.
  Proof.
    induction T as [|T IH]; [cbn [loop fst seq zsum]; lia|]. rewrite loop_step, seq_S, zsum_app. unfold SSA.cost in *. rewrite zsum_app, IH. cbn [zsum Nat.add]. lia.
  Qed.
  Theorem loop_dcost act f S st : forall T, dcost act (fst (loop f T S st)) = (dcost act S + zsum (seq 0 T) (fun t => dcost act (added f S st t)))%Z.
  Proof.
    induction T as [|T IH]; [cbn [loop fst seq zsum]; lia|]. rewrite loop_step, seq_S, zsum_app. unfold Bound.dcost in *. rewrite zsum_app, IH. cbn [zsum Nat.add]. lia.
  Qed.
  (** a recurrence whose steps keep the bound keeps the bound, for every number of steps *)
  Theorem loop_bound shapes f : keeps shapes f -> (forall t S st, cheap_maps DT fcost (fst (f t S st))) ->
    forall T S st act outs dys leaves t grads, wf S -> incl st (declared S) -> map shp st = shapes -> cheap_maps DT fcost S ->
    let P := fst (loop f T S st) in
    good_outs P outs dys -> NoDup leaves -> adjoint_for DT act P outs dys leaves = (t, grads) ->
    (cost t + outsize leaves + outsize outs
      <= 4 * (cost S + zsum (seq 0 T) (fun t => cost (added f S st t)) + outsize leaves + outsize outs))%Z.
  Proof.
    intros Kp Ch T S st act outs dys leaves t grads W I Sh C P GO ND H. rewrite <- loop_cost.
    assert (M : forall T, cheap_maps DT fcost (fst (loop f T S st))).
    { induction T0 as [|T0 IH]; [exact C|]. rewrite loop_step. intros sh p g xs Hin. apply in_app_or in Hin.
      destruct Hin as [Hin|Hin]; [eapply Ch; exact Hin|eapply IH; exact Hin]. }
    refine (theorem_6_35 DT fcost fcost_nonneg act P outs dys leaves t grads (M T) _ GO ND H).
    apply (loop_wf shapes f Kp T S st W I Sh).
  Qed.

  (** ** The adjoint of the steps: those of each, from the last to the first
      ss turned around above n statements: the program so far, what is left of inner products, and those with inputs *)
  Fixpoint back (act : var -> bool) (ss : prog) (n : nat) (t : prog) (l gl : list ip) : prog * list ip * list ip :=
    match ss with
    | [] => (t, l, gl)
    | (sh, r) :: ss' =>
        let x := Var (length ss' + n) sh in
        match source r with
        | Some y => back act ss' n t (rest x l) (map (retarget y) (mine x l) ++ gl)
        | None => let (t', new) := turn act x r t (mine x l) in back act ss' n t' (new ++ rest x l) gl
        end
    end.
  Lemma bwd_app act S : forall ss t l gl,
    bwd act (ss ++ S) t l gl = let '(t', l', gl') := back act ss (length S) t l gl in bwd act S t' l' gl'.
  Proof.
    induction ss as [|[sh r] ss IH]; intros t l gl; [reflexivity|]. cbn [app Adjoint.bwd back]. rewrite app_length.
    destruct (source r); [apply IH|]. destruct (turn act _ r t _) as [t' new]. apply IH.
  Qed.
  Fixpoint back_loop (act : var -> bool) (f : step) (T : nat) (S : prog) (st : list var) (t : prog) (l gl : list ip) : prog * list ip * list ip :=
    match T with
    | O => (t, l, gl)
    | times_ T =>
        let '(t', l', gl') := back act (added f S st T) (length (fst (loop f T S st))) t l gl in
        back_loop act f T S st t' l' gl'
    end.
  Theorem bwd_loop act f S st : forall T t l gl,
    bwd act (fst (loop f T S st)) t l gl = let '(t', l', gl') := back_loop act f T S st t l gl in bwd act S t' l' gl'.
  Proof.
    induction T as [|T IH]; intros t l gl; [reflexivity|]. rewrite loop_step, bwd_app. cbn [back_loop].
    destruct (back act (added f S st T) _ t l gl) as [[t' l'] gl']. apply IH.
  Qed.
  (** the step lemma: what is spent and what is still owed grow by no more than the differentials of the step cost *)
  Theorem back_cost act S : forall ss t l gl t' l' gl', wf (ss ++ S) -> Forall (okip (declared (ss ++ S))) l ->
    back act ss (length S) t l gl = (t', l', gl') ->
    (cost t' + ipcost l' + ipcost gl' <= cost t + ipcost l + ipcost gl + dcost act ss)%Z /\ Forall (okip (declared S)) l'.
  Proof.
    induction ss as [|[sh r] ss IH]; intros t l gl t' l' gl' W F H; [inversion H; subst; split; [cbn; lia|exact F]|].
    cbn [back] in H. cbn [app] in W, F. set (x := Var (length ss + length S) sh) in *.
    assert (Ex : Var (length (ss ++ S)) sh = x) by (unfold x; now rewrite app_length).
    destruct W as [HO [Wp W]]. cbn [declared] in F. rewrite Ex in F.
    pose proof (rest_ok x _ _ F) as FR.
    pose proof (owed_split points x l) as CS.
    assert (HM : forall c, In c (mine x l) -> tgt c = x /\ shp (lhs c) = shp x)
      by (intros c Hc; split; [exact (mine_tgt x l c Hc)|exact (mine_shp x _ l c F Hc)]).
    destruct (dcost1_every DT fcost fcost_nonneg act (sh, r)) as [Dx _].
    assert (Ed : dcost act ((sh, r) :: ss) = (dcost1 DT fcost act (sh, r) + dcost act ss)%Z) by reflexivity.
    destruct (source r) as [y|] eqn:Hr.
    - assert (r = Input y) by (destruct r; inversion Hr; reflexivity). subst r. cbn in Wp.
      apply IH in H; [|assumption|exact FR]. destruct H as [H F']. split; [|exact F'].
      assert (Q : (ipcost (map (retarget y) (mine x l) ++ gl) = ipcost (mine x l) + ipcost gl)%Z).
      { unfold Bound.ipcost, owed. rewrite zsum_app, zsum_map. f_equal. apply zsum_ext. intros c Hc. destruct (HM c Hc) as [E _].
        unfold points. cbn [retarget neg tgt on]. rewrite E. cbn [x shp]. now rewrite Wp. }
      unfold Bound.ipcost, Bound.dcost in *. rewrite Q in H. cbn [zsum]. clear Ed. lia.
    - destruct (turn act x r t (mine x l)) as [t1 new] eqn:ET.
      assert (Hx : defines (K := K) (fn := fn) ((sh, r) :: ss ++ S) x r) by (left; split; [now rewrite Ex|reflexivity]).
      pose proof (turn_cost DT fcost fcost_nonneg act ((sh, r) :: ss ++ S) x r _ _ _ _ Hx ET Wp Hr HM) as HT. cbn [x shp] in HT.
      apply IH in H; [|assumption|].
      + destruct H as [H F']. split; [|exact F'].
        assert (Q : (ipcost (new ++ rest x l) = ipcost new + ipcost (rest x l))%Z) by (unfold Bound.ipcost, owed; apply zsum_app).
        unfold Bound.ipcost, Bound.dcost, SSA.cost, Accounts.total in *. rewrite Q in H. cbn [zsum]. clear Ed. lia.
      + apply Forall_app. split; [|assumption]. eapply turn_ok; eauto. intros c Hc. apply HM, Hc.
  Qed.
  (** so all steps together keep the account, for every number of steps *)
  Theorem back_loop_cost act shapes f : keeps shapes f -> forall T S st t l gl t' l' gl', wf S -> incl st (declared S) -> map shp st = shapes ->
    Forall (okip (declared (fst (loop f T S st)))) l -> back_loop act f T S st t l gl = (t', l', gl') ->
    (cost t' + ipcost l' + ipcost gl' <= cost t + ipcost l + ipcost gl + zsum (seq 0 T) (fun k => dcost act (added f S st k)))%Z
    /\ Forall (okip (declared S)) l'.
  Proof.
    intros Kp. induction T as [|T IH]; intros S st t l gl t' l' gl' W I Sh F H.
    - inversion H; subst. split; [cbn; lia|exact F].
    - cbn [back_loop] in H. destruct (back act (added f S st T) _ t l gl) as [[t1 l1] gl1] eqn:E. rewrite loop_step in F.
      assert (W1 : wf (added f S st T ++ fst (loop f T S st))) by (rewrite <- loop_step; apply (loop_wf shapes f Kp (times_ T) S st W I Sh)).
      destruct (back_cost act _ _ _ _ _ _ _ _ W1 F E) as [C1 F1]. destruct (IH S st _ _ _ _ _ _ W I Sh F1 H) as [C2 F2].
      split; [|exact F2]. rewrite seq_S, zsum_app. cbn [zsum Nat.add]. lia.
  Qed.
End Loop.

(** * The recurrence of cotangents
    ds is the differential of the state, made from that before and from dw by step t; At and Bt are that step transposed. e t is
    what is given for the state before step t from outside, and [cot n] the cotangent of the state n steps before the last. *)
Section Cotangents.
  Context {K : Type} (rO rI : K) (radd rmul rsub : K -> K -> K) (ropp : K -> K).
  Hypothesis Rth : ring_theory rO rI radd rmul rsub ropp eq.
  Add Ring RecurrenceRing : Rth.
  Context {X W : Type} (plus : X -> X -> X) (px : X -> X -> K) (pw : W -> W -> K).
  Hypothesis px_plus : forall a b x, px (plus a b) x = radd (px a x) (px b x).
  Variables (next : nat -> X -> W -> X) (At : nat -> X -> X) (Bt : nat -> X -> W) (T : nat) (e : nat -> X) (dw : W).
  Hypothesis transposed : forall t c x, px c (next t x dw) = radd (px (At t c) x) (pw (Bt t c) dw).
  Fixpoint differentials (x : X) (t : nat) : X := match t with O => x | Datatypes.S t => next t (differentials x t) dw end.
  Fixpoint cot (n : nat) : X :=
    match n with O => e T | Datatypes.S n => plus (e (T - Datatypes.S n)) (At (T - Datatypes.S n) (cot n)) end.
  (** <outside | d states> = <c | d first state> + the sum, over the steps, of <Bt c | dw> *)
  Theorem cotangents_upto x : forall n, (n <= T)%nat ->
    sum rO radd (seq 0 (Datatypes.S n)) (fun k => px (e (T - k)) (differentials x (T - k)))
    = radd (px (cot n) (differentials x (T - n))) (sum rO radd (seq 0 n) (fun k => pw (Bt (T - Datatypes.S k) (cot k)) dw)).
  Proof.
    induction n as [|n IH]; intros L; [cbn [seq Sums.sum cot]; rewrite Nat.sub_0_r; ring|].
    rewrite seq_S, (sum_app _ _ _ _ _ _ Rth), IH by lia. rewrite (seq_S n), (sum_app _ _ _ _ _ _ Rth). cbn [Sums.sum Nat.add cot].
    rewrite px_plus. assert (E : (T - n = Datatypes.S (T - Datatypes.S n))%nat) by lia. rewrite E. cbn [differentials]. rewrite transposed. ring.
  Qed.
  Theorem cotangents x :
    sum rO radd (seq 0 (Datatypes.S T)) (fun k => px (e (T - k)) (differentials x (T - k)))
    = radd (px (cot T) x) (sum rO radd (seq 0 T) (fun k => pw (Bt (T - Datatypes.S k) (cot k)) dw)).
  Proof. rewrite (cotangents_upto x T (le_n T)), Nat.sub_diag. reflexivity. Qed.
End Cotangents.

(** * Where cotangents are not 0: Q is exact if Q(T) = P(T), and Q(t) = P(t) or what step t reads of Q(t + 1) *)
Section Supports.
  Context {I : Type} (P : nat -> I -> Prop) (pulled : nat -> (I -> Prop) -> I -> Prop) (T : nat).
  Hypothesis pulled_ext : forall t A B, (forall i, A i <-> B i) -> forall i, pulled t A i <-> pulled t B i.
  (** where the cotangent n steps before the last may be other than 0, step by step *)
  Fixpoint support (n : nat) : I -> Prop :=
    match n with O => P T | Datatypes.S n => fun i => P (T - Datatypes.S n) i \/ pulled (T - Datatypes.S n) (support n) i end.
  Theorem supports_exact (Q : nat -> I -> Prop) : (forall i, Q T i <-> P T i) ->
    (forall t, (t < T)%nat -> forall i, Q t i <-> P t i \/ pulled t (Q (Datatypes.S t)) i) ->
    forall n, (n <= T)%nat -> forall i, Q (T - n)%nat i <-> support n i.
  Proof.
    intros H0 H. induction n as [|n IH]; intros L i; [rewrite Nat.sub_0_r; apply H0|]. cbn [support]. rewrite H by lia.
    replace (Datatypes.S (T - Datatypes.S n)) with (T - n)%nat by lia.
    rewrite (pulled_ext _ (Q (T - n)%nat) (support n)); [reflexivity|]. apply IH. lia.
  Qed.
End Supports.

(** * States that are the same *)
Fixpoint states {X : Type} (f : nat -> X -> X) (x : X) (t : nat) : X := match t with O => x | Datatypes.S t => f t (states f x t) end.
Theorem states_same {X Y : Type} (R : nat -> X -> Y -> Prop) f g x y T : R 0%nat x y ->
  (forall t a b, (t < T)%nat -> R t a b -> R (Datatypes.S t) (f t a) (g t b)) -> forall t, (t <= T)%nat -> R t (states f x t) (states g y t).
Proof. intros H0 H. induction t as [|t IH]; intros L; [exact H0|]. cbn [states]. apply H; [lia|]. apply IH. lia. Qed.
(** a state is 0 outside the points M t if it is so at first and what steps make is so: that is known of each step's state *)
Theorem states_masked {X I : Type} (zero : X) (f : nat -> (I -> X) -> I -> X) x (M : nat -> I -> Prop) T :
  (forall i, ~ M 0%nat i -> x i = zero) ->
  (forall t a i, (t < T)%nat -> (forall j, ~ M t j -> a j = zero) -> ~ M (Datatypes.S t) i -> f t a i = zero) ->
  forall t, (t <= T)%nat -> forall i, ~ M t i -> states f x t i = zero.
Proof.
  intros H0 H. induction t as [|t IH]; intros L i Hi; [now apply H0|]. cbn [states]. apply H; [lia|apply IH; lia|exact Hi].
Qed.
(** a state to which steps add *)
Theorem states_added {K : Type} (rO rI : K) (radd rmul rsub : K -> K -> K) (ropp : K -> K)
  (Rth : ring_theory rO rI radd rmul rsub ropp eq) (a : nat -> K) x : forall t,
  states (fun t s => radd s (a t)) x t = radd x (sum rO radd (seq 0 t) a).
Proof.
  induction t as [|t IH]; cbn [states]; [cbn; now rewrite (Radd_comm Rth), (Radd_0_l Rth)|].
  rewrite IH, seq_S, (sum_app _ _ _ _ _ _ Rth). cbn [Sums.sum Nat.add]. rewrite (Radd_comm Rth (a t) rO), (Radd_0_l Rth). now rewrite (Radd_assoc Rth).
Qed.
