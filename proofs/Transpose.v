(** The adjoint is the transpose of the derivative: <dy | D S dx> = <D^T S dy | dx>.

    Each rule keeps the value of the sum of inner products, so the whole does. *)
Require Import List Bool ZArith Ring Lia.
Import ListNotations.
Require Import TL.Sums TL.SSA TL.Adjoint.

Section Transpose.
  Context {K : Type} (rO rI : K) (radd rmul rsub : K -> K -> K) (ropp : K -> K).
  Hypothesis Rth : ring_theory rO rI radd rmul rsub ropp eq.
  Add Ring TransposeRing : Rth.
  Infix "+" := radd. Infix "*" := rmul.
  Notation sum := (sum rO radd).
  Notation ind := (ind rO).
  (** DT f j is the j-th component of D^T f: it takes the arguments of f, its value, and the cotangent *)
  Context {fn : Type} (fval : fn -> list K -> K) (partial : fn -> nat -> list K -> K) (DT : fn -> nat -> fn).
  Hypothesis DT_val : forall f j xs dy, fval (DT f j) (xs ++ [fval f xs; dy]) = partial f j xs * dy.
  Notation rhs := (rhs K fn). Notation prog := (prog K fn).
  Notation emission := (emission K fn). Notation contribution := (contribution K fn).
  Notation tensor := (tensor (K := K)). Notation env := (env (K := K)).
  Notation eval := (eval rO radd rmul ropp fval). Notation deval := (deval rO radd rmul ropp partial).
  Notation solves := (solves rO radd rmul ropp fval). Notation dsolves := (dsolves rO radd rmul ropp partial).
  Notation run := (run rO radd rmul ropp fval). Notation dmap := (dmap rO radd rmul partial).
  Notation sum1 := (sum1 rO radd). Notation sum2 := (sum2 rO radd). Notation signed := (signed ropp).
  Notation sum_ext' := (Sums.sum_ext rO radd).

  (** ** inner products *)
  Definition dot (sh : shape) (a b : tensor) : K := sum (box sh) (fun i => a i * b i).
  Definition dotp (sh : shape) (P : pred) (a b : tensor) : K := sum (box sh) (fun i => ind (P i) (a i * b i)).
  Lemma dotp_ext sh P a a' b b' : (forall i, In i (box sh) -> a i = a' i) -> (forall i, In i (box sh) -> b i = b' i) ->
    dotp sh P a b = dotp sh P a' b'.
  Proof. intros Ha Hb. apply sum_ext'. intros i Hi. now rewrite Ha, Hb. Qed.
  Lemma dot_ext sh a a' b b' : (forall i, In i (box sh) -> a i = a' i) -> (forall i, In i (box sh) -> b i = b' i) ->
    dot sh a b = dot sh a' b'.
  Proof. intros Ha Hb. apply sum_ext'. intros i Hi. now rewrite Ha, Hb. Qed.
  Lemma dotp_0 sh P a b : (forall i, In i (box sh) -> b i = rO) -> dotp sh P a b = rO.
  Proof.
    intros H. unfold dotp. transitivity (sum (box sh) (fun _ => rO)); [|apply (sum_0 _ _ _ _ _ _ Rth)].
    apply sum_ext'. intros i Hi. rewrite H by exact Hi. destruct (P i); simpl; ring.
  Qed.
  Lemma sum_signed {A} m (l : list A) f : sum l (fun a => signed m (f a)) = signed m (sum l f).
  Proof. destruct m; cbn; [|reflexivity]. induction l as [|a l IH]; cbn; [ring|]. rewrite IH. ring. Qed.
  (** what contributions, and inner products, stand for *)
  Definition emval (inp E : env) (em : emission) : tensor := match em with Reuse e => E e | Emit r => eval inp E r end.
  Definition cval (inp E dE : env) (cs : list contribution) : K :=
    sum cs (fun c => signed (cneg c) (dotp (shp (into c)) (con c) (emval inp E (what c)) (dE (into c)))).
  Definition ipval (E dE : env) (l : list ip) : K :=
    sum l (fun c => signed (neg c) (dotp (shp (tgt c)) (on c) (E (lhs c)) (dE (tgt c)))).

  (** ** what is emitted has its value *)
  Lemma emit_mono inp E t sh em t1 e : emit t sh em = (t1, e) -> solves inp E t1 -> solves inp E t.
  Proof. destruct em; simpl; intros H; inversion H; subst; simpl; tauto. Qed.
  Lemma emits_mono inp E cs : forall t t' l, emits t cs = (t', l) -> solves inp E t' -> solves inp E t.
  Proof.
    induction cs as [|c cs IH]; simpl; intros t t' l H So.
    - inversion H; subst; assumption.
    - destruct (emit t (shp (into c)) (what c)) as [t1 e] eqn:E1. destruct (emits t1 cs) as [t2 l2] eqn:E2.
      inversion H; subst. eapply emit_mono; eauto.
  Qed.
  Lemma emit_val inp E t sh em t1 e : emit t sh em = (t1, e) -> solves inp E t1 ->
    forall i, In i (box sh) -> E e i = emval inp E em i.
  Proof. destruct em; simpl; intros H; inversion H; subst; simpl; [reflexivity|]. intros [H1 _]. exact H1. Qed.
  Lemma emits_val inp E dE cs : forall t t' l, emits t cs = (t', l) -> solves inp E t' -> ipval E dE l = cval inp E dE cs.
  Proof.
    induction cs as [|c cs IH]; simpl; intros t t' l H So.
    - inversion H; subst; reflexivity.
    - destruct (emit t (shp (into c)) (what c)) as [t1 e] eqn:E1. destruct (emits t1 cs) as [t2 l2] eqn:E2.
      inversion H; subst. unfold ipval, cval in *. cbn [Sums.sum neg tgt on lhs]. rewrite (IH _ _ _ E2 So). f_equal. f_equal.
      apply dotp_ext; [|reflexivity]. eapply emit_val; [exact E1|]. eapply emits_mono; eauto.
  Qed.
  Lemma turn_mono inp E act x r t m t' new : turn DT act x r t m = (t', new) -> solves inp E t' -> solves inp E t.
  Proof.
    unfold turn. intros H So. destruct m as [|c m]; [inversion H; subst; assumption|].
    destruct (rule_6_25 (c :: m)) as [em P]. destruct (emit t (shp x) em) as [t1 dY] eqn:E1.
    eapply emit_mono; [exact E1|]. eapply emits_mono; [exact H|exact So].
  Qed.
  Lemma bwd_mono inp E act : forall ss t l gl t' gl', bwd DT act ss t l gl = (t', gl') -> solves inp E t' -> solves inp E t.
  Proof.
    induction ss as [|[sh r] ss IH]; intros t l gl t' gl' H So; [inversion H; subst; assumption|].
    cbn [bwd] in H. destruct (source r); [eapply IH; eassumption|].
    destruct (turn DT act _ r t _) as [t1 new] eqn:ET. eapply turn_mono; [exact ET|]. eapply IH; eassumption.
  Qed.

  (** * 6.26, addition *)
  Theorem value_6_26 inp dinp E dE sh l dY P : pointwise sh (Add (K := K) (fn := fn) l) ->
    cval inp E dE (rule_6_26 l dY P) = dotp sh P (E dY) (deval inp dinp E dE (Add l)).
  Proof.
    intros W. unfold cval, rule_6_26. rewrite sum_map. cbn [SSA.deval emval cneg what into con].
    transitivity (sum l (fun t => dotp sh (fun i => bracket t i && P i) (E dY) (fun i => signed (minus t) (dE (operand t) i)))).
    - apply sum_ext'. intros t Ht. rewrite (W (operand t)) by (apply in_map, Ht).
      unfold dotp. rewrite <- sum_signed. apply sum_ext'. intros i _. destruct (minus t), (bracket t i && P i); cbn; ring.
    - unfold dotp. rewrite (sum_swap _ _ _ _ _ _ Rth). apply sum_ext'. intros i _.
      rewrite <- (sum_scale _ _ _ _ _ _ Rth), (ind_sum _ _ _ _ _ _ Rth). apply sum_ext'. intros t _.
      rewrite andb_comm, ind_and, (ind_mul_r _ _ _ _ _ _ Rth). reflexivity.
  Qed.

  (** * 6.27, scalar function; x has the value of f where p holds *)
  Theorem value_6_27 inp E dE sh x p f args dY P : (forall i, In i (box sh) -> E x i = ind (p i) (fval f (map (fun y => E y i) args))) ->
    forall ys j, (forall y, In y ys -> shp y = sh) ->
    cval inp E dE (rule_6_27 DT x p f args j ys dY P) =
    dotp sh P (E dY) (fun i => ind (p i) (dmap f (map (fun y => E y i) args) j (map (fun y => dE y i) ys))).
  Proof.
    intros HX. induction ys as [|y ys IH]; intros j W.
    - cbn [rule_6_27]. symmetry. apply dotp_0. intros i _. cbn. destruct (p i); reflexivity.
    - unfold cval in *. cbn [rule_6_27 Sums.sum]. rewrite IH by (intros; apply W; right; auto).
      cbn [cneg what into con SSA.signed emval]. rewrite (W y) by (left; auto).
      unfold dotp. rewrite <- (sum_add _ _ _ _ _ _ Rth). apply sum_ext'. intros i Hi.
      cbn [SSA.eval map SSA.dmap]. rewrite map_app. cbn [map]. rewrite (HX i Hi).
      destruct (p i); cbn [andb Sums.ind]; [rewrite DT_val|]; destruct (P i); cbn [Sums.ind]; ring.
  Qed.

  (** ** the predicates of 6.28 and 6.29 remove nothing: outside of them the new values are 0 *)
  Lemma sum1_0 s x f : (forall i z, In i (box (shp x)) -> In z (box s) -> f i z = rO) -> sum1 s x f = rO.
  Proof.
    intros H. unfold SSA.sum1. transitivity (sum (box (shp x)) (fun _ => rO)); [|apply (sum_0 _ _ _ _ _ _ Rth)].
    apply sum_ext'. intros i Hi. transitivity (sum (box s) (fun _ => rO)); [|apply (sum_0 _ _ _ _ _ _ Rth)].
    apply sum_ext'. auto.
  Qed.
  Lemma ind_ex1 s x p f : ind (ex1 s x p) (sum1 s x (fun i z => ind (p i z) (f i z))) = sum1 s x (fun i z => ind (p i z) (f i z)).
  Proof.
    destruct (ex1 s x p) eqn:Ex; [reflexivity|]. simpl. symmetry. apply sum1_0. intros i z Hi Hz.
    destruct (p i z) eqn:Ep; [|reflexivity]. assert (ex1 s x p = true); [|congruence].
    apply existsb_exists. exists i. split; [assumption|]. apply existsb_exists. eauto.
  Qed.
  Lemma ind_ex2 s x y p f :
    ind (ex2 s x y p) (sum2 s x y (fun i j z => ind (p i j z) (f i j z))) = sum2 s x y (fun i j z => ind (p i j z) (f i j z)).
  Proof.
    destruct (ex2 s x y p) eqn:Ex; [reflexivity|]. simpl. symmetry. unfold SSA.sum2.
    transitivity (sum (box (shp x)) (fun _ => rO)); [|apply (sum_0 _ _ _ _ _ _ Rth)].
    apply sum_ext'. intros i Hi. apply (sum1_0 s y (fun j z => ind (p i j z) (f i j z))). intros j z Hj Hz.
    destruct (p i j z) eqn:Ep; [|reflexivity]. assert (ex2 s x y p = true); [|congruence].
    apply existsb_exists. exists i. split; [assumption|]. apply existsb_exists. exists j. split; [assumption|].
    apply existsb_exists. eauto.
  Qed.
  Lemma sum1_scale s x c f : sum1 s x (fun i z => c * f i z) = c * sum1 s x f.
  Proof.
    unfold SSA.sum1. rewrite <- (sum_scale _ _ _ _ _ _ Rth). apply sum_ext'. intros i _. apply (sum_scale _ _ _ _ _ _ Rth).
  Qed.
  Lemma sum1_scale_r s x c f : sum1 s x (fun i z => f i z * c) = sum1 s x f * c.
  Proof.
    unfold SSA.sum1. rewrite <- (sum_scale_r _ _ _ _ _ _ Rth). apply sum_ext'. intros i _. apply (sum_scale_r _ _ _ _ _ _ Rth).
  Qed.
  Lemma sum2_scale s x y c f : sum2 s x y (fun i j z => c * f i j z) = c * sum2 s x y f.
  Proof.
    unfold SSA.sum2. rewrite <- (sum_scale _ _ _ _ _ _ Rth). apply sum_ext'. intros i _. apply (sum1_scale s y c (f i)).
  Qed.
  Lemma sum2_scale_r s x y c f : sum2 s x y (fun i j z => f i j z * c) = sum2 s x y f * c.
  Proof.
    unfold SSA.sum2. rewrite <- (sum_scale_r _ _ _ _ _ _ Rth). apply sum_ext'. intros i _. apply (sum1_scale_r s y c (f i)).
  Qed.
  Lemma sum2_add s x y f g : sum2 s x y (fun i j z => f i j z + g i j z) = sum2 s x y f + sum2 s x y g.
  Proof.
    unfold SSA.sum2. rewrite <- (sum_add _ _ _ _ _ _ Rth). apply sum_ext'. intros i _.
    rewrite <- (sum_add _ _ _ _ _ _ Rth). apply sum_ext'. intros j _. apply (sum_add _ _ _ _ _ _ Rth).
  Qed.
  Lemma ind_scale b x : ind b x = ind b rI * x.
  Proof. destruct b; simpl; ring. Qed.

  (** * 6.29, sum *)
  Theorem value_6_29 inp dinp E dE sh s p x dY P : shp dY = sh ->
    cval inp E dE (rule_6_29 s p x dY P) = dotp sh P (E dY) (deval inp dinp E dE (C1 s p x)).
  Proof.
    intros W. unfold cval, rule_6_29. cbn [Sums.sum cneg what into con SSA.signed emval SSA.eval SSA.deval]. unfold dotp.
    transitivity (sum (box (shp x)) (fun i => sum (box sh) (fun g => sum (box s) (fun z => ind (p g i z && P g) (E dY g * dE x i))))).
    - transitivity (sum (box (shp x)) (fun i => ind (ex1 s dY (fun g z => p g i z && P g))
            (sum1 s dY (fun g z => ind (p g i z && P g) (E dY g))) * dE x i)).
      + rewrite (Radd_comm Rth), (Radd_0_l Rth). apply sum_ext'. intros i _. symmetry. apply (ind_mul_l _ _ _ _ _ _ Rth).
      + apply sum_ext'. intros i _. rewrite ind_ex1, <- sum1_scale_r. unfold SSA.sum1. rewrite W.
        apply sum_ext'. intros g _. apply sum_ext'. intros z _. apply (ind_mul_l _ _ _ _ _ _ Rth).
    - rewrite (sum_swap _ _ _ _ _ _ Rth). apply sum_ext'. intros g _.
      rewrite <- sum1_scale, ind_scale, <- sum1_scale. transitivity (sum1 s x (fun i z => ind (p g i z && P g) (E dY g * dE x i)));
        [reflexivity|]. apply sum1_ext. intros i z _ _. destruct (p g i z), (P g); simpl; ring.
  Qed.

  (** * 6.28, product *)
  Theorem value_6_28 inp dinp E dE sh s p x0 x1 dY P : shp dY = sh ->
    cval inp E dE (rule_6_28 s p x0 x1 dY P) = dotp sh P (E dY) (deval inp dinp E dE (C2 s p x0 x1)).
  Proof.
    intros W. unfold cval, rule_6_28. cbn [Sums.sum cneg what into con SSA.signed emval SSA.eval SSA.deval].
    set (A := sum (box sh) (fun g => sum2 s x0 x1 (fun i0 i1 z => ind (p g i0 i1 z && P g) (E dY g * E x1 i1 * dE x0 i0)))).
    set (B := sum (box sh) (fun g => sum2 s x0 x1 (fun i0 i1 z => ind (p g i0 i1 z && P g) (E x0 i0 * E dY g * dE x1 i1)))).
    transitivity (A + B).
    - rewrite (Radd_assoc Rth), (Radd_comm Rth _ rO), (Radd_0_l Rth). f_equal.
      + unfold dotp, A. unfold SSA.sum2 at 2. rewrite (sum_swap _ _ _ _ _ _ Rth (box sh)). apply sum_ext'. intros i0 _.
        rewrite <- (ind_mul_l _ _ _ _ _ _ Rth), ind_ex2, <- sum2_scale_r. unfold SSA.sum2, SSA.sum1. rewrite W.
        apply sum_ext'. intros g _. apply sum_ext'. intros i1 _. apply sum_ext'. intros z _. apply (ind_mul_l _ _ _ _ _ _ Rth).
      + unfold dotp, B. transitivity (sum (box (shp x1)) (fun i1 => sum (box (shp x0)) (fun i0 => sum (box sh) (fun g => sum (box s) (fun z =>
            ind (p g i0 i1 z && P g) (E x0 i0 * E dY g * dE x1 i1)))))).
        * apply sum_ext'. intros i1 _. rewrite <- (ind_mul_l _ _ _ _ _ _ Rth), ind_ex2, <- sum2_scale_r. unfold SSA.sum2, SSA.sum1. rewrite W.
          apply sum_ext'. intros i0 _. apply sum_ext'. intros g _. apply sum_ext'. intros z _. apply (ind_mul_l _ _ _ _ _ _ Rth).
        * rewrite (sum_swap _ _ _ _ _ _ Rth). unfold SSA.sum2, SSA.sum1.
          rewrite (sum_swap _ _ _ _ _ _ Rth (box sh)). apply sum_ext'. intros i0 _.
          apply (sum_swap _ _ _ _ _ _ Rth).
    - unfold A, B, dotp. rewrite <- (sum_add _ _ _ _ _ _ Rth). apply sum_ext'. intros g _.
      rewrite <- sum2_add, <- sum2_scale, ind_scale, <- sum2_scale.
      apply sum2_ext. intros i0 i1 z _ _. destruct (p g i0 i1 z), (P g); simpl; ring.
  Qed.

  Theorem value_rule inp dinp E dE x r dY P : shp dY = shp x -> pointwise (shp x) r -> source r = None ->
    (forall i, In i (box (shp x)) -> E x i = eval inp E r i) ->
    cval inp E dE (rule DT x r dY P) = dotp (shp x) P (E dY) (deval inp dinp E dE r).
  Proof.
    intros W Wr HI HX. destruct r; cbn [rule].
    - discriminate HI.
    - symmetry. apply dotp_0. reflexivity.
    - apply value_6_26; assumption.
    - apply (value_6_27 inp E dE (shp x)); assumption.
    - apply value_6_29; assumption.
    - apply value_6_28; assumption.
    - symmetry. apply dotp_0. reflexivity.
  Qed.
  (** 6.22 to 6.24: what does not depend on the leaves has no differential *)
  Theorem value_inactive inp E dE act cs :
    (forall c, In c cs -> act (into c) = false -> forall i, In i (box (shp (into c))) -> dE (into c) i = rO) ->
    cval inp E dE (only act cs) = cval inp E dE cs.
  Proof.
    intros H. induction cs as [|c cs IH]; [reflexivity|]. rewrite only_cons. unfold cval in *. cbn [Sums.sum].
    rewrite <- IH by (intros c' Hc; apply H; right; exact Hc). destruct (act (into c)) eqn:A; [reflexivity|].
    rewrite dotp_0 by (apply H; [left; reflexivity|exact A]). destruct (cneg c); cbn; ring.
  Qed.

  (** * 6.25, collection *)
  Lemma accum_masked inp E l i : ind (union l i) (eval inp E (accum l) i) = eval inp E (accum l) i.
  Proof.
    cbn [SSA.eval accum]. rewrite sum_map. cbn [bracket minus operand]. apply (ind_existsb _ _ _ _ _ _ Rth).
  Qed.
  Lemma value_accum inp E sh l d :
    dot sh (eval inp E (accum l)) d = sum l (fun c => signed (neg c) (dotp sh (on c) (E (lhs c)) d)).
  Proof.
    transitivity (sum l (fun c => sum (box sh) (fun i => ind (on c i) (signed (neg c) (E (lhs c) i)) * d i))).
    - unfold dot. rewrite (sum_swap _ _ _ _ _ _ Rth l). apply sum_ext'. intros i _. cbn [SSA.eval accum].
      rewrite sum_map. cbn [bracket minus operand]. symmetry. apply (sum_scale_r _ _ _ _ _ _ Rth).
    - apply sum_ext'. intros c _. unfold dotp. rewrite <- sum_signed. apply sum_ext'. intros i _.
      destruct (neg c), (on c i); cbn; ring.
  Qed.
  Lemma dot_masked inp E sh l d : dotp sh (union l) (eval inp E (accum l)) d = dot sh (eval inp E (accum l)) d.
  Proof. apply sum_ext'. intros i _. rewrite <- (ind_mul_l _ _ _ _ _ _ Rth), accum_masked. reflexivity. Qed.
  Theorem value_6_25 inp E sh l em P d : rule_6_25 l = (em, P) ->
    dotp sh P (emval inp E em) d = sum l (fun c => signed (neg c) (dotp sh (on c) (E (lhs c)) d)).
  Proof.
    unfold rule_6_25. destruct l as [|c [|c' l]]; intros H; try (inversion H; subst; cbn [emval]; rewrite dot_masked; apply value_accum).
    destruct (neg c) eqn:N; inversion H; subst; cbn [emval].
    - rewrite dot_masked. apply value_accum.
    - cbn [Sums.sum]. rewrite N. cbn [SSA.signed]. ring.
  Qed.

  (** * One statement, all statements *)
  Lemma ipval_app E dE l l' : ipval E dE (l ++ l') = ipval E dE l + ipval E dE l'.
  Proof. apply (sum_app _ _ _ _ _ _ Rth). Qed.
  Lemma ipval_split E dE x l : ipval E dE l = ipval E dE (mine x l) + ipval E dE (rest x l).
  Proof. apply (sum_filter _ _ _ _ _ _ Rth). Qed.
  (** 6.19: the inner products with dX are those with what the rule for its definition gives *)
  Theorem value_turn inp dinp E dE act x r t m t' new :
    turn DT act x r t m = (t', new) -> solves inp E t' -> pointwise (shp x) r -> source r = None ->
    (forall c, In c m -> tgt c = x /\ shp (lhs c) = shp x) ->
    (forall i, In i (box (shp x)) -> E x i = eval inp E r i) ->
    (forall i, In i (box (shp x)) -> dE x i = deval inp dinp E dE r i) ->
    (forall y, In y (ops r) -> act y = false -> forall i, In i (box (shp y)) -> dE y i = rO) ->
    ipval E dE new = ipval E dE m.
  Proof.
    unfold turn. intros H So Wr HS HM HX HdX HA. destruct m as [|c m]; [inversion H; reflexivity|].
    destruct (rule_6_25 (c :: m)) as [em P] eqn:E25. destruct (emit t (shp x) em) as [t1 dY] eqn:E1.
    assert (SY : shp dY = shp x) by (eapply emit_shp; [exact E1|]; eapply fits_6_25; [|exact E25]; intros a Ha; apply HM, Ha).
    pose proof (emits_mono inp E _ _ _ _ H So) as So1.
    rewrite (emits_val inp E dE _ _ _ _ H So), value_inactive.
    - rewrite (value_rule inp dinp E dE x r dY (memo P) SY Wr HS HX). unfold memo.
      rewrite (dotp_ext (shp x) P (E dY) (emval inp E em) _ (dE x) (emit_val inp E _ _ _ _ _ E1 So1)) by (intros; symmetry; auto).
      rewrite (value_6_25 inp E (shp x) _ em P _ E25). apply sum_ext'. intros a Ha. destruct (HM a Ha) as [-> _]. reflexivity.
    - intros a Ha. apply HA.
      assert (F : Forall (okc (K := K) (fn := fn) (ops r)) (rule DT x r dY (memo P))) by (apply rule_ok; auto).
      rewrite Forall_forall in F. apply F, Ha.
  Qed.
  Lemma bwd_val inp dinp E dE act : forall ss t l gl t' gl', wf ss -> Forall (okip (declared ss)) l ->
    bwd DT act ss t l gl = (t', gl') -> solves inp E t' -> solves inp E ss -> dsolves inp dinp E dE ss ->
    (forall y, In y (declared ss) -> act y = false -> forall i, In i (box (shp y)) -> dE y i = rO) ->
    ipval E dinp gl' = ipval E dE l + ipval E dinp gl.
  Proof.
    induction ss as [|[sh r] ss IH]; intros t l gl t' gl' W F H So SS DS HA.
    - simpl in H. inversion H; subst. destruct l as [|c l]; [unfold ipval at 2; simpl; ring|].
      inversion F; subst. destruct H2 as [[] _].
    - cbn [bwd] in H. set (x := Var (length ss) sh) in *. simpl in W. destruct W as [HD [Wp W]].
      cbn [declared] in F, HA. fold x in F, HA. cbn [SSA.solves SSA.dsolves] in SS, DS. fold x in SS, DS.
      destruct SS as [SX SS], DS as [DX DS].
      pose proof (rest_ok x _ _ F) as FR.
      assert (HM : forall c, In c (mine x l) -> tgt c = x /\ shp (lhs c) = shp x)
        by (intros c Hc; split; [exact (mine_tgt x l c Hc)|exact (mine_shp x _ l c F Hc)]).
      assert (HA' : forall y, In y (declared ss) -> act y = false -> forall i, In i (box (shp y)) -> dE y i = rO)
        by (intros y Hy; apply HA; right; exact Hy).
      rewrite (ipval_split E dE x l). destruct (source r) as [y|] eqn:Hr.
      + assert (r = Input y) by (destruct r; inversion Hr; reflexivity). subst r. cbn in Wp.
        apply IH in H; [|assumption..]. rewrite H, ipval_app.
        assert (ipval E dinp (map (retarget y) (mine x l)) = ipval E dE (mine x l)) as ->; [|ring].
        unfold ipval. rewrite sum_map. apply sum_ext'. intros c Hc. cbn [retarget neg tgt on lhs].
        destruct (HM c Hc) as [-> _]. rewrite Wp. f_equal. apply dotp_ext; [reflexivity|]. intros i Hi. symmetry. apply DX, Hi.
      + destruct (turn DT act x r t (mine x l)) as [t1 new] eqn:ET.
        pose proof (bwd_mono inp E _ _ _ _ _ _ _ H So) as So1.
        apply IH in H; [|assumption| |assumption..].
        * rewrite H, ipval_app, (value_turn inp dinp E dE act x r t _ _ _ ET So1 Wp Hr HM SX DX); [ring|].
          intros z Hz. apply HA', HD, Hz.
        * apply Forall_app. split; [|assumption]. eapply turn_ok; eauto. intros c Hc. apply HM, Hc.
  Qed.

  (** * The variables that do not depend on the leaves have no differential *)
  Theorem inactive_zero inp dinp E dE leaves : forall S, wf S -> dsolves inp dinp E dE S ->
    (forall sh y, In (sh, Input y) S -> In y leaves \/ forall i, dinp y i = rO) ->
    forall x, In x (declared S) -> among (active leaves S) x = false -> forall i, In i (box (shp x)) -> dE x i = rO.
  Proof.
    induction S as [|[sh r] S IH]; intros W DS HL x Hx A i Hi; [destruct Hx|].
    cbn [wf SSA.dsolves declared active] in *. destruct W as [HD [Wr W]], DS as [DX DS].
    assert (HL' : forall sh y, In (sh, Input y) S -> In y leaves \/ forall i, dinp y i = rO) by (intros; eapply HL; right; eassumption).
    destruct Hx as [<-|Hx].
    - cbn [shp] in Hi. rewrite DX by exact Hi. destruct (depends leaves (active leaves S) r) eqn:Dp.
      { unfold among in A. cbn [existsb] in A. rewrite var_eqb_refl in A. discriminate. }
      assert (HO : forall y, In y (ops r) -> among (active leaves S) y = false -> forall j, In j (box (shp y)) -> dE y j = rO)
        by (intros y Hy; apply IH; auto).
      assert (HB : forall y, existsb (among (active leaves S)) (ops r) = false -> In y (ops r) -> among (active leaves S) y = false).
      { intros y Hn Hy. destruct (among (active leaves S) y) eqn:Ay; [|reflexivity].
        assert (existsb (among (active leaves S)) (ops r) = true) by (apply existsb_exists; eauto). congruence. }
      destruct r as [y|c|l|p f xs|s p y|s p x0 x1|p y]; cbn [SSA.deval depends] in *; try reflexivity.
      + destruct (HL sh y (or_introl eq_refl)) as [Hy|Hz]; [|apply Hz]. apply among_in in Hy. congruence.
      + transitivity (sum l (fun _ => rO)); [|apply (sum_0 _ _ _ _ _ _ Rth)]. apply sum_ext'. intros t Ht.
        assert (HT : In (operand t) (map operand l)) by (apply in_map, Ht).
        rewrite (HO _ HT (HB _ Dp HT)) by (rewrite (Wr _ HT); exact Hi). destruct (bracket t i), (minus t); cbn; ring.
      + assert (Z : forall j ys, incl ys xs -> dmap f (map (fun y => E y i) xs) j (map (fun y => dE y i) ys) = rO).
        { intros j ys. revert j. induction ys as [|y ys IHy]; intros j I; cbn [map SSA.dmap]; [reflexivity|].
          rewrite IHy by (intros v Hv; apply I; right; exact Hv). assert (Hy : In y xs) by (apply I; left; reflexivity).
          rewrite (HO y Hy (HB y Dp Hy)) by (rewrite (Wr y Hy); exact Hi). ring. }
        rewrite Z by apply incl_refl. destruct (p i); reflexivity.
      + apply sum1_0. intros j z Hj _. rewrite (HO y (or_introl eq_refl) (HB y Dp (or_introl eq_refl)) j Hj). destruct (p i j z); reflexivity.
      + unfold SSA.sum2. transitivity (sum (box (shp x0)) (fun _ => rO)); [|apply (sum_0 _ _ _ _ _ _ Rth)]. apply sum_ext'. intros j Hj.
        assert (H0 : In x0 (ops (C2 (K := K) (fn := fn) s p x0 x1))) by (left; reflexivity).
        assert (H1 : In x1 (ops (C2 (K := K) (fn := fn) s p x0 x1))) by (right; left; reflexivity).
        apply sum1_0. intros k z Hk _. rewrite (HO x0 H0 (HB x0 Dp H0) j Hj), (HO x1 H1 (HB x1 Dp H1) k Hk). destruct (p i j k z); cbn; ring.
    - apply IH; auto. unfold among in *. destruct (depends leaves (active leaves S) r); [|exact A].
      cbn [existsb] in A. now apply orb_false_elim in A.
  Qed.

  (** * The whole *)
  Lemma sum_leaves (f : ip -> K) : forall leaves gl, NoDup leaves ->
    (forall c, In c gl -> In (tgt c) leaves \/ f c = rO) ->
    sum leaves (fun y => sum (mine y gl) f) = sum gl f.
  Proof.
    induction leaves as [|y ls IH]; intros gl N H; simpl.
    - symmetry. transitivity (sum gl (fun _ => rO)); [|apply (sum_0 _ _ _ _ _ _ Rth)].
      apply sum_ext'. intros c Hc. destruct (H c Hc) as [[]|]; assumption.
    - inversion N; subst. rewrite (sum_filter _ _ _ _ _ _ Rth gl (to y)). fold (mine y gl). fold (rest y gl). f_equal.
      rewrite <- (IH (rest y gl)); [|assumption|].
      + apply sum_ext'. intros y' Hy'. rewrite mine_rest; [reflexivity|]. intros ->. contradiction.
      + intros c Hc. apply filter_In in Hc. destruct Hc as [Hc Ec]. destruct (H c Hc) as [[Hy|Hl]|Hz]; auto.
        exfalso. assert (T : to y c = true) by (apply var_eqb_eq; auto). cbv beta in Ec. rewrite T in Ec. discriminate.
  Qed.
  (** inner products with inputs are with those that the program reads *)
  Lemma bwd_leaves act (Q : var -> Prop) : forall (ss t : prog) l gl t' gl', bwd DT act ss t l gl = (t', gl') ->
    (forall sh y, In (sh, Input y) ss -> Q y) -> (forall c, In c gl -> Q (tgt c)) -> forall c, In c gl' -> Q (tgt c).
  Proof.
    induction ss as [|[sh r] ss IH]; intros t l gl t' gl' H HQ HG; [inversion H; subst; assumption|].
    assert (HQ' : forall sh y, In (sh, Input y) ss -> Q y) by (intros; eapply HQ; right; eassumption).
    cbn [bwd] in H. destruct (source r) as [y|] eqn:Hr.
    - eapply IH; [exact H|exact HQ'|]. intros c Hc. apply in_app_or in Hc. destruct Hc as [Hc|Hc]; [|auto].
      apply in_map_iff in Hc. destruct Hc as [c' [<- _]]. simpl. eapply HQ. left. destruct r; inversion Hr; reflexivity.
    - destruct (turn DT act _ r t _) as [t1 new]. eapply IH; eassumption.
  Qed.
  (** for any E and dE that solve the equations *)
  Theorem adjoint_correct S outs dys leaves t grads inp dinp E dE :
    wf S -> good_outs S outs dys -> NoDup leaves -> adjoint DT S outs dys leaves = (t, grads) ->
    (forall sh y, In (sh, Input y) S -> In y leaves \/ forall i, dinp y i = rO) ->
    solves inp E t -> dsolves inp dinp E dE S ->
    sum (combine outs dys) (fun xy => dot (shp (fst xy)) (inp (snd xy)) (dE (fst xy)))
    = sum grads (fun c => dot (shp (tgt c)) (E (lhs c)) (dinp (tgt c))).
  Proof.
    intros W GO ND H HL So DS. unfold adjoint, adjoint_for in H. set (act := among (active leaves S)) in *.
    assert (HA : forall x, In x (declared S) -> act x = false -> forall i, In i (box (shp x)) -> dE x i = rO)
      by (eapply inactive_zero; eassumption).
    destruct (emits S (only act (start outs dys))) as [t0 l] eqn:E0. destruct (bwd DT act S t0 l []) as [t1 gl] eqn:E1.
    pose proof (emits_ok _ _ _ _ _ E0 (only_ok _ act _ (start_ok S outs dys GO))) as F.
    pose proof (emits_mono inp E _ _ _ _ H So) as So1. pose proof (bwd_mono inp E _ _ _ _ _ _ _ E1 So1) as So0.
    pose proof (emits_mono inp E _ _ _ _ E0 So0) as SS.
    pose proof (bwd_val inp dinp E dE act _ _ _ _ _ _ W F E1 So1 SS DS HA) as V1.
    pose proof (emits_val inp E dE _ _ _ _ E0 So0) as V0.
    transitivity (ipval E dE l).
    { rewrite V0, value_inactive.
      - unfold cval, start. rewrite sum_map. apply sum_ext'. intros [x y] _. reflexivity.
      - intros c Hc. apply HA. pose proof (start_ok (K := K) (fn := fn) S outs dys GO) as SO. rewrite Forall_forall in SO. apply SO, Hc. }
    transitivity (ipval E dinp gl); [rewrite V1; unfold ipval at 3; simpl; ring|].
    transitivity (sum leaves (fun y => sum (mine y gl) (fun c => signed (neg c) (dotp (shp (tgt c)) (on c) (E (lhs c)) (dinp (tgt c)))))).
    { symmetry. apply sum_leaves; [assumption|]. intros c Hc.
      destruct (bwd_leaves act (fun y => In y leaves \/ forall i, dinp y i = rO) _ _ _ _ _ _ E1 HL (fun c h => match h with end) c Hc) as [|Z]; [auto|].
      right. rewrite dotp_0 by auto. destruct (neg c); cbn; ring. }
    clear - H So Rth. revert t1 t grads H So. unfold finish. induction leaves as [|y ls IH]; intros t1 t grads H So.
    - simpl in H. inversion H; subst. reflexivity.
    - cbn [map emits what into cneg con] in H. destruct (emit t1 (shp y) (Emit (accum (mine y gl)))) as [t2 e] eqn:E1.
      destruct (emits t2 _) as [t3 l3] eqn:E3 in H. inversion H; subst. cbn [Sums.sum lhs tgt].
      rewrite (IH _ _ _ E3 So). f_equal.
      transitivity (dot (shp y) (eval inp E (accum (mine y gl))) (dinp y)).
      + rewrite value_accum. apply sum_ext'. intros c Hc. now rewrite (mine_tgt _ _ _ Hc).
      + apply dot_ext; [|reflexivity]. intros i Hi. symmetry.
        exact (emit_val inp E _ _ _ _ _ E1 (emits_mono inp E _ _ _ _ E3 So) i Hi).
  Qed.
  (** for the values that running the program and its adjoint gives *)
  Theorem adjoint_run S outs dys leaves t grads inp dinp :
    wf S -> good_outs S outs dys -> NoDup leaves -> adjoint DT S outs dys leaves = (t, grads) ->
    (forall sh y, In (sh, Input y) S -> In y leaves \/ forall i, dinp y i = rO) ->
    sum (combine outs dys) (fun xy => dot (shp (fst xy)) (inp (snd xy)) (D rO radd rmul ropp fval partial S inp dinp (fst xy)))
    = sum grads (fun c => dot (shp (tgt c)) (run inp t (lhs c)) (dinp (tgt c))).
  Proof.
    intros W GO ND H HL. destruct (adjoint_wf _ _ _ _ _ _ _ _ W GO H) as [Wt _].
    pose proof (run_solves rO radd rmul ropp fval inp t Wt) as So.
    assert (SS : solves inp (run inp t) S).
    { unfold adjoint, adjoint_for in H. destruct (emits S _) as [t0 l] eqn:E0. destruct (bwd DT _ S t0 l []) as [t1 gl] eqn:E1.
      eapply emits_mono; [exact E0|]. eapply bwd_mono; [exact E1|]. eapply emits_mono; [exact H|exact So]. }
    apply (adjoint_correct S outs dys leaves t grads inp dinp (run inp t) (D rO radd rmul ropp fval partial S inp dinp) W GO ND H HL So). unfold D.
    apply (dsolves_ext rO radd rmul ropp partial inp dinp (run inp S) (run inp t) (drun rO radd rmul ropp partial inp dinp (run inp S) S)); auto.
    - apply (solves_unique rO radd rmul ropp fval inp); auto. apply run_solves, W.
    - intros x _ i _; reflexivity.
    - apply drun_solves, W.
  Qed.
End Transpose.
