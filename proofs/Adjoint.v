(** The adjoint of tensor SSA, by rewriting inner products (Figures 14 to 16, as mended).

    In mid-derivation there are a program t, the differentials of those statements ss that are not yet turned
    around, and a sum of inner products sign * <lhs | d tgt>_[on]. Turning a statement let X = E around is: collect
    all inner products with dX into one (6.25), reverse the let (6.19), apply the rule for E (6.26 to 6.29), and drop
    what does not depend on the leaves that are differentiated (6.22 to 6.24). *)
Require Import List Bool ZArith Lia.
Import ListNotations.
Require Import TL.Sums TL.SSA.

(** <lhs | d tgt>_[on], negated or not *)
Record ip := Ip { neg : bool; lhs : var; tgt : var; on : pred }.
(** what a rule contributes: an inner product whose left side is a variable that is there, or a new statement's *)
Inductive emission {K fn : Type} := Reuse (e : var) | Emit (r : rhs K fn).
Arguments emission : clear implicits.
Record contribution (K fn : Type) := Contribution { cneg : bool; what : emission K fn; into : var; con : pred }.
Arguments Contribution {K fn}. Arguments cneg {K fn}. Arguments what {K fn}. Arguments into {K fn}. Arguments con {K fn}.

Section Adjoint.
  Context {K fn : Type} (DT : fn -> nat -> fn).
  Notation rhs := (rhs K fn). Notation prog := (prog K fn).
  Notation emission := (emission K fn). Notation contribution := (contribution K fn).

  Definition emit (t : prog) (sh : shape) (em : emission) : prog * var :=
    match em with
    | Reuse e => (t, e)
    | Emit r => ((sh, r) :: t, Var (length t) sh)
    end.
  Fixpoint emits (t : prog) (cs : list contribution) : prog * list ip :=
    match cs with
    | [] => (t, [])
    | c :: cs' =>
        let (t1, e) := emit t (shp (into c)) (what c) in
        let (t2, l) := emits t1 cs' in (t2, Ip (cneg c) e (into c) (con c) :: l)
    end.

  (** * 6.26 to 6.29: <dY | D[r]>_[P], where x is the variable that r defines *)
  Definition rule_6_26 (l : list term) (dY : var) (P : pred) : list contribution :=
    map (fun t => Contribution (minus t) (Reuse dY) (operand t) (fun i => bracket t i && P i)) l.
  (** DT f j, the j-th component of D^T f, takes the arguments of f, its value, and the cotangent *)
  Fixpoint rule_6_27 (x : var) (p : pred) (f : fn) (args : list var) (j : nat) (ys : list var) (dY : var) (P : pred)
    : list contribution :=
    match ys with
    | [] => []
    | y :: ys' =>
        Contribution false (Emit (Map (fun i => p i && P i) (DT f j) (args ++ [x; dY]))) y (fun i => p i && P i)
        :: rule_6_27 x p f args (S j) ys' dY P
    end.
  Definition rule_6_28 (s : shape) (p : index -> index -> index -> index -> bool) (x0 x1 dY : var) (P : pred) : list contribution :=
    [ Contribution false (Emit (C2 s (fun i0 g i1 z => p g i0 i1 z && P g) dY x1)) x0
        (fun i0 => ex2 s dY x1 (fun g i1 z => p g i0 i1 z && P g));
      Contribution false (Emit (C2 s (fun i1 i0 g z => p g i0 i1 z && P g) x0 dY)) x1
        (fun i1 => ex2 s x0 dY (fun i0 g z => p g i0 i1 z && P g)) ].
  Definition rule_6_29 (s : shape) (p : index -> index -> index -> bool) (x dY : var) (P : pred) : list contribution :=
    [ Contribution false (Emit (C1 s (fun i g z => p g i z && P g) dY)) x
        (fun i => ex1 s dY (fun g z => p g i z && P g)) ].
  Definition rule (x : var) (r : rhs) (dY : var) (P : pred) : list contribution :=
    match r with
    | Input _ => []                                                  (** 6.21: see [bwd] *)
    | Const _ => []                                                  (** 6.23 *)
    | Choice _ _ => []                                               (** an index has no differential *)
    | Add l => rule_6_26 l dY P
    | Map p f xs => rule_6_27 x p f xs 0 xs dY P
    | C1 s p y => rule_6_29 s p y dY P
    | C2 s p x0 x1 => rule_6_28 s p x0 x1 dY P
    end.

  (** * 6.25, of any number of inner products with the same differential; a lone one is left alone, but for a sign *)
  Definition union (l : list ip) : pred := fun i => existsb (fun c => on c i) l.
  Definition accum (l : list ip) : rhs := Add (map (fun c => Term (neg c) (on c) (lhs c)) l).
  Definition rule_6_25 (l : list ip) : emission * pred :=
    match l with
    | [c] => if neg c then (Emit (accum l), union l) else (Reuse (lhs c), on c)
    | _ => (Emit (accum l), union l)
    end.

  Definition to (x : var) (c : ip) : bool := var_eqb (tgt c) x.
  Definition mine x l := filter (to x) l.
  Definition rest x l := filter (fun c => negb (to x c)) l.

  (** * Activity: the variables that depend on the leaves that are differentiated *)
  Definition depends (leaves a : list var) (r : rhs) : bool :=
    match r with
    | Input y => among leaves y
    | Const _ | Choice _ _ => false
    | _ => existsb (among a) (ops r)
    end.
  Fixpoint active (leaves : list var) (S : prog) : list var :=
    match S with
    | [] => []
    | (sh, r) :: S' =>
        let a := active leaves S' in if depends leaves a r then Var (length S') sh :: a else a
    end.
  (** 6.22 and 6.24 *)
  Definition only (act : var -> bool) (cs : list contribution) : list contribution := filter (fun c => act (into c)) cs.
  Lemma only_cons act c cs : only act (c :: cs) = if act (into c) then c :: only act cs else only act cs.
  Proof. reflexivity. Qed.

  (** * One statement, all statements, the whole *)
  Definition turn (act : var -> bool) (x : var) (r : rhs) (t : prog) (m : list ip) : prog * list ip :=
    match m with
    | [] => (t, [])                                                  (** 6.20 *)
    | _ => let (em, P) := rule_6_25 m in
           let (t1, dY) := emit t (shp x) em in
           emits t1 (only act (rule x r dY (memo P)))
    end.
  Definition source (r : rhs) : option var := match r with Input y => Some y | _ => None end.
  Definition retarget (y : var) (c : ip) : ip := Ip (neg c) (lhs c) y (on c).
  (** ss: the statements to turn around, t: the program so far, l: the inner products with differentials of ss,
      gl: those with differentials of inputs *)
  Fixpoint bwd (act : var -> bool) (ss t : prog) (l gl : list ip) : prog * list ip :=
    match ss with
    | [] => (t, gl)
    | (sh, r) :: ss' =>
        let x := Var (length ss') sh in
        match source r with
        | Some y => bwd act ss' t (rest x l) (map (retarget y) (mine x l) ++ gl)              (** 6.21 *)
        | None => let (t', new) := turn act x r t (mine x l) in bwd act ss' t' (new ++ rest x l) gl
        end
    end.
  (** 6.16: outs, the output variables; dys, the input leaves that hold their cotangents *)
  Definition start (outs dys : list var) : list contribution :=
    map (fun xy => Contribution false (Emit (Input (snd xy))) (fst xy) any) (combine outs dys).
  (** 6.25, then 6.17 as mended: the predicates are applied before they are dropped *)
  Definition finish (leaves : list var) (gl : list ip) : list contribution :=
    map (fun y => Contribution false (Emit (accum (mine y gl))) y (union (mine y gl))) leaves.
  (** the program with its adjoint, and one inner product <gradient | d leaf> for each leaf *)
  Definition adjoint_for (act : var -> bool) (S : prog) (outs dys leaves : list var) : prog * list ip :=
    let (t0, l) := emits S (only act (start outs dys)) in
    let (t1, gl) := bwd act S t0 l [] in
    emits t1 (finish leaves gl).
  Definition adjoint (S : prog) (outs dys leaves : list var) : prog * list ip :=
    adjoint_for (among (active leaves S)) S outs dys leaves.

  (** * The inner products' variables are declared, and their sides have one shape *)
  Definition okip (D : list var) (c : ip) : Prop := In (tgt c) D /\ shp (lhs c) = shp (tgt c).
  Definition fits (sh : shape) (em : emission) : Prop := match em with Reuse e => shp e = sh | Emit _ => True end.
  Definition okc (D : list var) (c : contribution) : Prop := In (into c) D /\ fits (shp (into c)) (what c).
  Lemma emit_shp t sh em t1 e : emit t sh em = (t1, e) -> fits sh em -> shp e = sh.
  Proof. destruct em; simpl; intros H; inversion H; subst; auto. Qed.
  Lemma emits_ok D cs : forall t t' l, emits t cs = (t', l) -> Forall (okc D) cs -> Forall (okip D) l.
  Proof.
    induction cs as [|c cs IH]; simpl; intros t t' l H F.
    - inversion H; constructor.
    - destruct (emit t (shp (into c)) (what c)) as [t1 e] eqn:E1. destruct (emits t1 cs) as [t2 l2] eqn:E2.
      inversion H; subst. inversion F; subst. constructor; [|eauto].
      destruct H2. split; [assumption|]. simpl. eapply emit_shp; eauto.
  Qed.
  Lemma only_ok D act cs : Forall (okc D) cs -> Forall (okc D) (only act cs).
  Proof. rewrite !Forall_forall. intros H c Hc. apply filter_In in Hc. apply H, Hc. Qed.
  Lemma ok_6_27 D x p f args dY P : forall ys j, (forall y, In y ys -> In y D) -> Forall (okc D) (rule_6_27 x p f args j ys dY P).
  Proof.
    induction ys as [|y ys IH]; simpl; intros j H; constructor; [|apply IH; auto]. split; cbn; auto.
  Qed.
  Lemma rule_ok D x r dY P : shp dY = shp x -> pointwise (shp x) r -> (forall y, In y (ops r) -> In y D) ->
    Forall (okc D) (rule x r dY P).
  Proof.
    intros W Wr HD. destruct r; cbn [rule]; try constructor.
    - apply Forall_forall. intros c Hc. apply in_map_iff in Hc. destruct Hc as [t [<- Ht]].
      assert (In (operand t) (map operand l)) by (apply in_map, Ht).
      split; [apply HD; assumption|]. cbn. rewrite W. symmetry. apply Wr; assumption.
    - apply ok_6_27. assumption.
    - split; [apply HD; simpl; auto|exact I].
    - constructor.
    - split; [apply HD; simpl; auto|exact I].
    - constructor; [|constructor]. split; [apply HD; simpl; auto|exact I].
  Qed.
  Lemma fits_6_25 sh l em P : (forall c, In c l -> shp (lhs c) = sh) -> rule_6_25 l = (em, P) -> fits sh em.
  Proof.
    intros H. unfold rule_6_25. destruct l as [|c [|c' l]]; intros E; try (inversion E; subst; exact I).
    destruct (neg c); inversion E; subst; [exact I|]. apply H. left; auto.
  Qed.
  Lemma turn_ok D act x r t m t' new : turn act x r t m = (t', new) -> pointwise (shp x) r ->
    (forall y, In y (ops r) -> In y D) -> (forall c, In c m -> shp (lhs c) = shp x) -> Forall (okip D) new.
  Proof.
    unfold turn. intros H Wr HD HM. destruct m as [|c m]; [inversion H; constructor|].
    destruct (rule_6_25 (c :: m)) as [em P] eqn:E. destruct (emit t (shp x) em) as [t1 dY] eqn:E1.
    eapply emits_ok; [exact H|]. apply only_ok, rule_ok; auto. eapply emit_shp; [exact E1|]. eapply fits_6_25; eauto.
  Qed.

  Lemma mine_tgt x l c : In c (mine x l) -> tgt c = x.
  Proof. intros H. apply filter_In in H. destruct H as [_ H]. now apply var_eqb_eq. Qed.
  Lemma rest_ok x D l : Forall (okip (x :: D)) l -> Forall (okip D) (rest x l).
  Proof.
    rewrite !Forall_forall. intros H c Hc. apply filter_In in Hc. destruct Hc as [Hc E].
    destruct (H c Hc) as [[EQ|HD] HS]; split; auto.
    exfalso. assert (T : to x c = true) by (apply var_eqb_eq; auto). cbv beta in E. rewrite T in E. discriminate.
  Qed.
  Lemma mine_shp x D l c : Forall (okip D) l -> In c (mine x l) -> shp (lhs c) = shp x.
  Proof.
    intros F Hc. rewrite <- (mine_tgt x l c Hc). apply filter_In in Hc. rewrite Forall_forall in F. apply F, Hc.
  Qed.
  Lemma mine_rest y y' l : y <> y' -> mine y' (rest y l) = mine y' l.
  Proof.
    intros N. unfold mine, rest. induction l as [|c l IH]; simpl; [reflexivity|].
    destruct (to y c) eqn:E; simpl.
    - destruct (to y' c) eqn:E'; [|assumption]. exfalso. apply N.
      apply var_eqb_eq in E. apply var_eqb_eq in E'. congruence.
    - rewrite IH. reflexivity.
  Qed.

  Definition good_outs (S : prog) (outs dys : list var) : Prop :=
    map shp dys = map shp outs /\ forall x, In x outs -> In x (declared S).
  Lemma start_ok S outs dys : good_outs S outs dys -> Forall (okc (declared S)) (start outs dys).
  Proof.
    intros [_ H]. apply Forall_forall. intros c Hc. apply in_map_iff in Hc. destruct Hc as [[x y] [<- Hxy]].
    split; [|exact I]. apply H. eapply in_combine_l; exact Hxy.
  Qed.

  (** * The adjoint is tensor SSA again *)
  Definition wfe (D : list var) (sh : shape) (em : emission) : Prop :=
    match em with Reuse e => In e D | Emit r => (forall x, In x (ops r) -> In x D) /\ pointwise sh r end.
  Definition wfc (D : list var) (c : contribution) : Prop := wfe D (shp (into c)) (what c).
  Definition lhs_in (D : list var) (l : list ip) : Prop := Forall (fun c => In (lhs c) D) l.
  Lemma wfe_incl D D' sh em : incl D D' -> wfe D sh em -> wfe D' sh em.
  Proof. destruct em; simpl; intros I H; [auto|]. destruct H; split; auto. Qed.
  Lemma lhs_incl D D' l : incl D D' -> lhs_in D l -> lhs_in D' l.
  Proof. intros I. apply Forall_impl. intros c. apply I. Qed.
  Lemma lhs_filter D f l : lhs_in D l -> lhs_in D (filter f l).
  Proof. unfold lhs_in. rewrite !Forall_forall. intros H c Hc. apply filter_In in Hc. apply H, Hc. Qed.
  Lemma wf_emit t sh em t1 e : emit t sh em = (t1, e) -> wf t -> wfe (declared t) sh em ->
    wf t1 /\ In e (declared t1) /\ incl (declared t) (declared t1).
  Proof.
    destruct em; simpl; intros H W C; inversion H; subst; simpl.
    - repeat split; auto. apply incl_refl.
    - destruct C. repeat split; auto. apply incl_tl, incl_refl.
  Qed.
  Lemma wf_emits cs : forall t t' l, emits t cs = (t', l) -> wf t -> Forall (wfc (declared t)) cs ->
    wf t' /\ lhs_in (declared t') l /\ incl (declared t) (declared t').
  Proof.
    induction cs as [|c cs IH]; simpl; intros t t' l H W C.
    - inversion H; subst. repeat split; [assumption|constructor|apply incl_refl].
    - destruct (emit t (shp (into c)) (what c)) as [t1 e] eqn:E1. destruct (emits t1 cs) as [t2 l2] eqn:E2.
      inversion H; subst. inversion C; subst. destruct (wf_emit _ _ _ _ _ E1 W H2) as [W1 [He I1]].
      assert (C1 : Forall (wfc (declared t1)) cs) by (eapply Forall_impl; [|exact H3]; intros a; apply wfe_incl, I1).
      destruct (IH _ _ _ E2 W1 C1) as [W2 [Hl I2]].
      repeat split; [assumption| |eapply incl_tran; eassumption]. constructor; [apply I2, He|exact Hl].
  Qed.
  Lemma wf_6_27 D sh x p f args dY P : incl args D -> In x D -> In dY D -> shp x = sh -> shp dY = sh ->
    (forall y, In y args -> shp y = sh) ->
    forall ys j, (forall y, In y ys -> shp y = sh) -> Forall (wfc D) (rule_6_27 x p f args j ys dY P).
  Proof.
    intros I HX HY SX SY SA. induction ys as [|y ys IH]; cbn [rule_6_27]; intros j H; constructor; [|apply IH; intros; apply H; right; auto].
    unfold wfc. cbn [into what]. rewrite (H y) by (left; auto). split; cbn [ops pointwise]; intros v Hv;
    (apply in_app_or in Hv; destruct Hv as [Hv|[<-|[<-|[]]]]; auto).
  Qed.
  Lemma wf_rule D x r dY P : shp dY = shp x -> pointwise (shp x) r -> incl (ops r) D -> In x D -> In dY D ->
    Forall (wfc D) (rule x r dY P).
  Proof.
    intros W Wr I HX HY. destruct r; cbn [rule]; try constructor.
    - apply Forall_forall. intros c Hc. apply in_map_iff in Hc. destruct Hc as [t [<- Ht]]. exact HY.
    - apply (wf_6_27 D (shp x)); auto.
    - split; simpl; [|exact Logic.I]. intros y [<-|[]]; exact HY.
    - constructor.
    - split; simpl; [|exact Logic.I]. intros y [<-|[<-|[]]]; [exact HY|apply I; simpl; auto].
    - constructor; [|constructor]. split; simpl; [|exact Logic.I]. intros y [<-|[<-|[]]]; [apply I; simpl; auto|exact HY].
  Qed.
  Lemma wf_accum D sh l : lhs_in D l -> (forall c, In c l -> shp (lhs c) = sh) -> wfe D sh (Emit (accum l)).
  Proof.
    unfold lhs_in. rewrite Forall_forall. intros H HS. unfold accum. split; cbn [ops pointwise]; rewrite map_map;
    cbn [operand]; intros y Hy; apply in_map_iff in Hy; destruct Hy as [c [<- Hc]]; auto.
  Qed.
  Lemma wf_6_25 D sh l em P : lhs_in D l -> (forall c, In c l -> shp (lhs c) = sh) -> rule_6_25 l = (em, P) -> wfe D sh em.
  Proof.
    intros H HS. unfold rule_6_25. destruct l as [|c [|c' l]]; intros E; try (inversion E; subst; apply wf_accum; assumption).
    destruct (neg c); inversion E; subst; [apply wf_accum; assumption|]. inversion H; assumption.
  Qed.
  Lemma only_wf D act cs : Forall (wfc D) cs -> Forall (wfc D) (only act cs).
  Proof. rewrite !Forall_forall. intros H c Hc. apply filter_In in Hc. apply H, Hc. Qed.
  Lemma wf_turn act x r t m t' new : turn act x r t m = (t', new) -> wf t -> pointwise (shp x) r ->
    incl (ops r) (declared t) -> In x (declared t) -> lhs_in (declared t) m -> (forall c, In c m -> shp (lhs c) = shp x) ->
    wf t' /\ lhs_in (declared t') new /\ incl (declared t) (declared t').
  Proof.
    unfold turn. intros H W Wr I HX HL HS. destruct m as [|c m].
    - inversion H; subst. repeat split; [assumption|constructor|apply incl_refl].
    - destruct (rule_6_25 (c :: m)) as [em P] eqn:E. destruct (emit t (shp x) em) as [t1 dY] eqn:E1.
      destruct (wf_emit _ _ _ _ _ E1 W (wf_6_25 _ _ _ _ _ HL HS E)) as [W1 [HY I1]].
      destruct (wf_emits _ _ _ _ H W1) as [W2 [L2 I2]].
      + apply only_wf, wf_rule; auto; [|eapply incl_tran; eassumption]. eapply emit_shp; [exact E1|]. eapply fits_6_25; eauto.
      + repeat split; auto. eapply incl_tran; eassumption.
  Qed.
  Definition same_shape (l : list ip) : Prop := forall c, In c l -> shp (lhs c) = shp (tgt c).
  Lemma bwd_wf act : forall ss t l gl t' gl', bwd act ss t l gl = (t', gl') ->
    wf ss -> Forall (okip (declared ss)) l -> same_shape gl -> wf t -> incl (declared ss) (declared t) ->
    lhs_in (declared t) l -> lhs_in (declared t) gl -> wf t' /\ lhs_in (declared t') gl' /\ same_shape gl'.
  Proof.
    induction ss as [|[sh r] ss IH]; intros t l gl t' gl' H W F SG Wt I Ll Lg; [inversion H; subst; auto|].
    cbn [bwd] in H. set (x := Var (length ss) sh) in *. simpl in W. destruct W as [HD [Wp W]].
    cbn [declared] in F, I. fold x in F, I.
    assert (I' : incl (declared ss) (declared t)) by (intros y Hy; apply I; right; exact Hy).
    assert (HX : In x (declared t)) by (apply I; left; reflexivity).
    pose proof (rest_ok x _ _ F) as FR.
    assert (HS : forall c, In c (mine x l) -> shp (lhs c) = shp x) by (intros c; apply (mine_shp x _ l c F)).
    pose proof (lhs_filter _ (to x) _ Ll) as LM. pose proof (lhs_filter _ (fun c => negb (to x c)) _ Ll) as LR.
    fold (mine x l) in LM. fold (rest x l) in LR.
    destruct (source r) as [y|] eqn:Hr.
    - assert (r = Input y) by (destruct r; inversion Hr; reflexivity). subst r. cbn in Wp.
      eapply IH; [exact H|assumption|assumption| |assumption|assumption|assumption|].
      + intros c Hc. apply in_app_or in Hc. destruct Hc as [Hc|Hc]; [|auto].
        apply in_map_iff in Hc. destruct Hc as [c' [<- Hc]]. simpl. rewrite (HS c' Hc). now rewrite Wp.
      + apply Forall_app. split; [|assumption]. apply Forall_forall. intros c Hc. apply in_map_iff in Hc.
        destruct Hc as [c' [<- Hc]]. simpl. unfold lhs_in in LM. rewrite Forall_forall in LM. auto.
    - destruct (turn act x r t (mine x l)) as [t1 new] eqn:ET.
      destruct (wf_turn _ _ _ _ _ _ _ ET Wt Wp) as [W1 [L1 I1]]; auto; [intros y Hy; apply I', HD, Hy|].
      eapply IH; [exact H|assumption| |assumption|assumption|eapply incl_tran; eassumption| |eapply lhs_incl; eassumption].
      + apply Forall_app; split; [eapply turn_ok; eauto|assumption].
      + apply Forall_app; split; [assumption|eapply lhs_incl; eassumption].
  Qed.
  Lemma emits_tgt cs : forall t t' l, emits t cs = (t', l) -> map tgt l = map into cs.
  Proof.
    induction cs as [|c cs IH]; simpl; intros t t' l H; [inversion H; reflexivity|].
    destruct (emit t _ _) as [t1 e]. destruct (emits t1 cs) as [t2 l2] eqn:E2. inversion H; subst. simpl. f_equal. eauto.
  Qed.
  Lemma start_wf S outs dys : good_outs S outs dys -> Forall (wfc (declared S)) (start outs dys).
  Proof.
    intros [GS _]. unfold start. revert dys GS. induction outs as [|x outs IH]; intros [|y dys] GS;
    simpl in *; try discriminate; constructor; [|apply IH; congruence]. unfold wfc. simpl. split; [tauto|congruence].
  Qed.
  (** so theorems about programs hold for adjoints, and their adjoints *)
  Theorem adjoint_wf act S outs dys leaves t grads :
    wf S -> good_outs S outs dys -> adjoint_for act S outs dys leaves = (t, grads) ->
    wf t /\ (forall c, In c grads -> In (lhs c) (declared t)) /\ map tgt grads = leaves.
  Proof.
    intros W GO H. unfold adjoint_for in H.
    destruct (emits S (only act (start outs dys))) as [t0 l] eqn:E0. destruct (bwd act S t0 l []) as [t1 gl] eqn:E1.
    pose proof (emits_ok _ _ _ _ _ E0 (only_ok _ act _ (start_ok S outs dys GO))) as F.
    destruct (wf_emits _ _ _ _ E0 W (only_wf _ act _ (start_wf _ _ _ GO))) as [W0 [L0 I0]].
    destruct (bwd_wf _ _ _ _ _ _ _ E1 W F (fun c h => match h with end) W0 I0 L0 (Forall_nil _)) as [W1 [L1 SG]].
    assert (C1 : Forall (wfc (declared t1)) (finish leaves gl)).
    { apply Forall_forall. intros c Hc. apply in_map_iff in Hc. destruct Hc as [y [<- _]].
      apply wf_accum; [apply lhs_filter, L1|]. intros c Hc. cbn [into].
      rewrite (SG c); [|apply filter_In in Hc; apply Hc]. now rewrite (mine_tgt _ _ _ Hc). }
    destruct (wf_emits _ _ _ _ H W1 C1) as [W2 [L2 _]]. split; [assumption|]. split.
    - unfold lhs_in in L2. rewrite Forall_forall in L2. exact L2.
    - rewrite (emits_tgt _ _ _ _ H). unfold finish. rewrite map_map. simpl. apply map_id.
  Qed.
End Adjoint.
