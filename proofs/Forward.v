(** The forward derivative as a program: Figure 13 on tensor SSA (tensorlang/derivatives/total.py).

    For each statement let X = E that depends on the leaves that are differentiated, let dX = D[E] is added. Its value
    is [D] of SSA.v, and the program with its derivative costs at most 4 times the program: Theorem 6.1. *)
Require Import List Bool ZArith Ring Lia.
Import ListNotations.
Require Import TL.Sums TL.SSA TL.Adjoint TL.Bound TL.Transpose.

Section Forward.
  Context {K fn : Type} (DT : fn -> nat -> fn).
  Notation rhs := (rhs K fn). Notation prog := (prog K fn).
  (** the leaves that are differentiated, the leaves that hold their differentials, and the variables that have one *)
  Variables (leaves : list var) (dleaf : var -> var) (act : var -> bool).

  (** 6.6: a part for each argument that has a differential; x is the value of f *)
  Fixpoint components (d : var -> var) (x : var) (p : pred) (f : fn) (args : list var) (j : nat) (ys : list var) : list rhs :=
    match ys with
    | [] => []
    | y :: ys' =>
        let rest := components d x p f args (S j) ys' in if act y then Map p (DT f j) (args ++ [x; d y]) :: rest else rest
    end.
  (** D[r] is the sum of these, where [d y] is the differential of y *)
  Definition parts (d : var -> var) (x : var) (r : rhs) : list rhs :=
    match r with
    | Input y => if among leaves y then [Input (dleaf y)] else []                                      (** 6.1, 6.2 *)
    | Const _ | Choice _ _ => []                                                                      (** 6.3 *)
    | Add l =>                                                                                        (** 6.4 *)
        [Add (map (fun t => Term (minus t) (bracket t) (d (operand t))) (filter (fun t => act (operand t)) l))]
    | Map p f xs => components d x p f xs 0 xs                                                        (** 6.6 *)
    | C1 s p y => if act y then [C1 s p (d y)] else []                                                (** 6.9 to 6.12 *)
    | C2 s p y0 y1 =>                                                                                 (** 6.5 *)
        (if act y0 then [C2 s p (d y0) y1] else []) ++ (if act y1 then [C2 s p y0 (d y1)] else [])
    end.
  (** where the parts may be other than 0 *)
  Definition support (r : rhs) : pred :=
    match r with Map p _ _ => p | C2 s p y0 y1 => fun g => ex2 s y0 y1 (p g) | _ => any end.
  Fixpoint emit_all (t : prog) (sh : shape) (l : list rhs) : prog * list var :=
    match l with
    | [] => (t, [])
    | r :: l' => let (t', vs) := emit_all ((sh, r) :: t) sh l' in (t', Var (length t) sh :: vs)
    end.
  Definition differential (t : prog) (d : var -> var) (x : var) (r : rhs) : prog * var :=
    match parts d x r with
    | [r'] => emit t (shp x) (Emit r')
    | l => let (t', vs) := emit_all t (shp x) l in emit t' (shp x) (Emit (Add (map (Term false (support r)) vs)))
    end.
  (** 6.13: t with the differentials of the statements of S, and where they are *)
  Fixpoint differentials (S t : prog) : prog * (var -> var) :=
    match S with
    | [] => (t, fun v => v)
    | (sh, r) :: S' =>
        let x := Var (length S') sh in
        let (t1, d) := differentials S' t in
        if act x then let (t2, dx) := differential t1 d x r in (t2, fun v => if var_eqb v x then dx else d v)
        else (t1, d)
    end.

  (** * It is well-formed SSA again, with the program as its first part *)
  Definition keeps_shape (d : var -> var) : Prop := forall v, shp (d v) = shp v.
  Lemma emit_all_extends sh l : forall t t' vs, emit_all t sh l = (t', vs) -> extends t t'.
  Proof.
    induction l as [|r l IH]; cbn; intros t t' vs H; [inversion H; apply extends_refl|].
    destruct (emit_all _ sh l) as [t1 vs1] eqn:E. inversion H; subst. eapply extends_trans; [apply extends_cons|eapply IH, E].
  Qed.
  Lemma differential_extends t d x r t' dx : differential t d x r = (t', dx) -> extends t t'.
  Proof.
    unfold differential. destruct (parts d x r) as [|r0 [|r1 l]].
    - cbn. intros H. inversion H. apply extends_cons.
    - cbn. intros H. inversion H. apply extends_cons.
    - destruct (emit_all t (shp x) _) as [t1 vs] eqn:E. cbn. intros H. inversion H.
      eapply extends_trans; [eapply emit_all_extends, E|apply extends_cons].
  Qed.
  Lemma differentials_extends : forall S t t' d, differentials S t = (t', d) -> extends t t'.
  Proof.
    induction S as [|[sh r] S IH]; cbn; intros t t' d H; [inversion H; apply extends_refl|].
    destruct (differentials S t) as [t1 d1] eqn:E. destruct (act _); [|inversion H; subst; eapply IH, E].
    destruct (differential _ _ _ _) as [t2 dx] eqn:Ed. inversion H; subst.
    eapply extends_trans; [eapply IH, E|eapply differential_extends, Ed].
  Qed.
  Lemma emit_all_vars sh l : forall t t' vs, emit_all t sh l = (t', vs) ->
    forall v, In v vs -> shp v = sh /\ In v (declared t').
  Proof.
    induction l as [|r l IH]; cbn; intros t t' vs H v Hv; [inversion H; subst; destruct Hv|].
    destruct (emit_all _ sh l) as [t1 vs1] eqn:E. inversion H; subst. destruct Hv as [<-|Hv]; [|eapply IH; eauto].
    split; [reflexivity|]. eapply extends_declared; [eapply emit_all_extends, E|]. left. reflexivity.
  Qed.
  Lemma differential_shape t d x r t' dx : differential t d x r = (t', dx) -> shp dx = shp x /\ In dx (declared t').
  Proof.
    unfold differential. destruct (parts d x r) as [|r0 [|r1 l]].
    - cbn. intros H. inversion H. cbn. auto.
    - cbn. intros H. inversion H. cbn. auto.
    - destruct (emit_all t (shp x) _) as [t1 vs]. cbn. intros H. inversion H. cbn. auto.
  Qed.
  Lemma differentials_shape : forall S t t' d, differentials S t = (t', d) -> keeps_shape d.
  Proof.
    induction S as [|[sh r] S IH]; cbn; intros t t' d H; [inversion H; intros v; reflexivity|].
    destruct (differentials S t) as [t1 d1] eqn:E. specialize (IH _ _ _ E). destruct (act _); [|inversion H; subst; exact IH].
    destruct (differential _ _ _ _) as [t2 dx] eqn:Ed. inversion H; subst. intros v.
    destruct (var_eqb v _) eqn:Ev; [|apply IH]. apply var_eqb_eq in Ev. subst v. apply (differential_shape _ _ _ _ _ _ Ed).
  Qed.
  Lemma differentials_declared : forall S t t' d, differentials S t = (t', d) ->
    forall v, In v (declared S) -> act v = true -> In (d v) (declared t').
  Proof.
    induction S as [|[sh r] S IH]; cbn; intros t t' d H v Hv A; [destruct Hv|].
    destruct (differentials S t) as [t1 d1] eqn:E. specialize (IH _ _ _ E).
    destruct Hv as [<-|Hv].
    - rewrite A in H. destruct (differential _ _ _ _) as [t2 dx] eqn:Ed. inversion H; subst. rewrite var_eqb_refl.
      apply (differential_shape _ _ _ _ _ _ Ed).
    - destruct (act (Var (length S) sh)); [|inversion H; subst; auto].
      destruct (differential _ _ _ _) as [t2 dx] eqn:Ed. inversion H; subst. rewrite (fresh_neq sh S v Hv).
      eapply extends_declared; [eapply differential_extends, Ed|]. auto.
  Qed.

  Hypothesis dleaf_shape : forall y, shp (dleaf y) = shp y.
  (** a part reads what is declared *)
  Definition part_ok (D : list var) (sh : shape) (r : rhs) : Prop := incl (ops r) D /\ pointwise sh r.
  Lemma components_ok D d x p f args : keeps_shape d -> incl args D -> In x D -> (forall y, In y args -> shp y = shp x) ->
    forall ys j, (forall y, In y ys -> shp y = shp x /\ (act y = true -> In (d y) D)) ->
    Forall (part_ok D (shp x)) (components d x p f args j ys).
  Proof.
    intros Kd IA HX SA. induction ys as [|y ys IH]; cbn [components]; intros j H; [constructor|].
    specialize (IH (S j) (fun z Hz => H z (or_intror Hz))). destruct (H y (or_introl eq_refl)) as [Sy Dy].
    destruct (act y); [|exact IH]. constructor; [|exact IH].
    split; cbn [ops pointwise]; intros v Hv; apply in_app_or in Hv; destruct Hv as [Hv|[<-|[<-|[]]]]; auto.
    now rewrite Kd.
  Qed.
  Lemma parts_ok D d x r : keeps_shape d -> incl (ops r) D -> In x D -> pointwise (shp x) r ->
    (forall y, In y (ops r) -> act y = true -> In (d y) D) -> Forall (part_ok D (shp x)) (parts d x r).
  Proof.
    intros Kd I HX W Hd. destruct r; cbn [parts ops pointwise] in *.
    - destruct (among leaves x0); constructor; [|constructor]. split; cbn; [intros v []|]. now rewrite dleaf_shape.
    - constructor.
    - constructor; [|constructor].
      split; cbn [ops pointwise]; rewrite map_map; cbn [operand]; intros v Hv; apply in_map_iff in Hv;
      destruct Hv as [t [<- Ht]]; apply filter_In in Ht; destruct Ht as [Ht A].
      + apply Hd; [apply in_map, Ht|exact A].
      + rewrite Kd. apply W, in_map, Ht.
    - apply components_ok; auto.
    - destruct (act x0) eqn:A; constructor; [|constructor]. split; cbn; [|exact Logic.I]. intros v [<-|[]].
      apply Hd; [left; reflexivity|exact A].
    - apply Forall_app. split; [destruct (act x0) eqn:A|destruct (act x1) eqn:A]; repeat constructor;
      intros v [<-|[<-|[]]]; try (apply Hd; simpl; auto; fail); apply I; simpl; auto.
    - constructor.
  Qed.
  Lemma emit_all_wf sh l : forall t t' vs, emit_all t sh l = (t', vs) -> wf t -> Forall (part_ok (declared t) sh) l -> wf t'.
  Proof.
    induction l as [|r l IH]; cbn; intros t t' vs H W F; [inversion H; subst; exact W|].
    destruct (emit_all _ sh l) as [t1 vs1] eqn:E. inversion H; subst. inversion F as [|r' l' [I P] F']; subst.
    apply (IH _ _ _ E); [cbn; auto|]. eapply Forall_impl; [|exact F']. intros r'' [I' P']. split; [|exact P'].
    intros v Hv. right. apply I', Hv.
  Qed.
  Lemma differential_wf t d x r t' dx : differential t d x r = (t', dx) -> wf t -> Forall (part_ok (declared t) (shp x)) (parts d x r) -> wf t'.
  Proof.
    unfold differential. intros H W F. destruct (parts d x r) as [|r0 [|r1 l]].
    - cbn in H. inversion H; subst. cbn. repeat split; auto; intros v [].
    - cbn in H. inversion H; subst. inversion F as [|r' l' [I P] F']; subst. cbn. auto.
    - destruct (emit_all t (shp x) _) as [t1 vs] eqn:E. cbn in H. inversion H; subst.
      pose proof (emit_all_wf _ _ _ _ _ E W F). pose proof (emit_all_vars _ _ _ _ _ E) as V.
      cbn [wf ops pointwise]. rewrite map_map. cbn [operand]. rewrite map_id. repeat split; auto; intros v Hv; apply V, Hv.
  Qed.
  Theorem differentials_wf : forall S t t' d, differentials S t = (t', d) -> wf S -> wf t -> incl (declared S) (declared t) -> wf t'.
  Proof.
    induction S as [|[sh r] S IH]; cbn; intros t t' d H W Wt I; [inversion H; subst; exact Wt|].
    destruct W as [HD [Wp W]]. destruct (differentials S t) as [t1 d1] eqn:E.
    assert (I' : incl (declared S) (declared t)) by (intros v Hv; apply I; right; exact Hv).
    pose proof (IH _ _ _ E W Wt I') as W1. destruct (act _) eqn:A; [|inversion H; subst; exact W1].
    destruct (differential _ _ _ _) as [t2 dx] eqn:Ed. inversion H; subst.
    pose proof (extends_declared _ _ (differentials_extends _ _ _ _ E)) as Ix.
    apply (differential_wf _ _ _ _ _ _ Ed W1). apply parts_ok; [eapply differentials_shape, E| | |exact Wp|].
    - intros v Hv. apply Ix, I', HD, Hv.
    - apply Ix, I. left. reflexivity.
    - intros v Hv Av. apply (differentials_declared _ _ _ _ E); auto.
  Qed.

  (** * What it costs *)
  Section Cost.
    Local Open Scope Z_scope.
    Variable fcost : fn -> Z.
    Hypothesis fcost_nonneg : forall f, 0 <= fcost f.
    Notation cost1 := (cost1 (K := K) fcost). Notation cost := (cost (K := K) fcost).
    Notation dcost1 := (dcost1 (K := K) DT fcost). Notation dcost := (dcost (K := K) DT fcost).

    Lemma emit_all_cost sh l : forall t t' vs, emit_all t sh l = (t', vs) ->
      cost t' = cost t + zsum l (fun r => cost1 (sh, r)) /\ length vs = length l.
    Proof.
      induction l as [|r l IH]; cbn [emit_all]; intros t t' vs H; [inversion H; subst; cbn; split; [lia|reflexivity]|].
      destruct (emit_all _ sh l) as [t1 vs1] eqn:E. inversion H; subst. destruct (IH _ _ _ E) as [-> L].
      split; [|cbn; congruence]. unfold SSA.cost. cbn [zsum]. lia.
    Qed.
    Lemma cost_join sh P (vs : list var) : vs <> [] -> cost1 (sh, Add (map (Term false P) vs)) = Z.of_nat (Nat.pred (length vs)) * num sh P.
    Proof.
      intros N. cbn [SSA.cost1]. rewrite zsum_map. cbn [bracket].
      assert (num sh (positive (map (Term false P) vs)) = num sh P) as ->.
      { apply num_ext. intros i _. unfold positive. destruct vs as [|v vs]; [congruence|]. cbn [map existsb minus bracket negb andb].
        destruct (P i) eqn:E; [reflexivity|]. clear N. induction vs as [|u vs IH]; cbn; [reflexivity|]. now rewrite E. }
      assert (zsum vs (fun _ => num sh P) = Z.of_nat (length vs) * num sh P) as ->.
      { clear N. induction vs as [|u vs IH]; [reflexivity|]. cbn [zsum length]. rewrite IH, Nat2Z.inj_succ. ring. }
      destruct vs as [|v vs]; [congruence|]. cbn [length Nat.pred]. rewrite Nat2Z.inj_succ. ring.
    Qed.
    Lemma components_cost sh d x p f args : forall ys j,
      zsum (components d x p f args j ys) (fun r => cost1 (sh, r)) = num sh p * csum DT fcost act f j ys
      /\ length (components d x p f args j ys) = length (filter act ys).
    Proof.
      induction ys as [|y ys IH]; intros j; cbn [components csum filter]; [cbn; split; [ring|reflexivity]|].
      destruct (IH (S j)) as [C L].
      destruct (act y); cbn [zsum length]; rewrite ?C, ?L; cbn [SSA.cost1]; (split; [ring|reflexivity]).
    Qed.
    (** what a statement's differential costs: no more than its budget in (B) *)
    Theorem differential_cost t d x r t' dx : differential t d x r = (t', dx) -> keeps_shape d ->
      cost t' <= cost t + dcost1 act (shp x, r).
    Proof.
      intros H Kd. pose proof (proj1 (dcost1_every DT fcost fcost_nonneg act (shp x, r))) as D0.
      assert (J : zsum (parts d x r) (fun r' => cost1 (shp x, r')) + Z.of_nat (Nat.pred (length (parts d x r))) * num (shp x) (support r)
                  <= dcost1 act (shp x, r)).
      { clear H. destruct r; cbn [parts support Bound.dcost1] in *.
        - destruct (among leaves x0); cbn; lia.
        - cbn; lia.
        - cbn [zsum length Nat.pred]. change (Z.of_nat 0) with 0. rewrite Z.mul_0_l, !Z.add_0_r.
          cbn [SSA.cost1]. rewrite zsum_map. cbn [bracket].
          assert (P : num (shp x) (positive (map (fun t0 => Term (minus t0) (bracket t0) (d (operand t0))) (filter (fun t0 => act (operand t0)) l)))
                      = num (shp x) (positive (filter (fun t0 => act (operand t0)) l))).
          { apply num_ext. intros i _. unfold positive. apply existsb_map. }
          rewrite P. apply Z.sub_le_mono_r. apply zsum_le. intros a _.
          pose proof (num_nonneg (shp x) (bracket a)). destruct (minus a); unfold weight; lia.
        - destruct (components_cost (shp x) d x p f xs xs 0) as [-> ->]. unfold joins. lia.
        - destruct (act x0); cbn [zsum length Nat.pred]; [|lia]. cbn [SSA.cost1]. unfold cnt1, ex1. rewrite Kd. lia.
        - assert (C0 : cost1 (shp x, C2 s p (d x0) x1) = cost1 (shp x, C2 (K := K) (fn := fn) s p x0 x1))
            by (cbn [SSA.cost1]; unfold cnt2, ex2; now rewrite Kd).
          assert (C1 : cost1 (shp x, C2 s p x0 (d x1)) = cost1 (shp x, C2 (K := K) (fn := fn) s p x0 x1))
            by (cbn [SSA.cost1]; unfold cnt2, ex2; now rewrite Kd).
          destruct (act x0), (act x1); cbn [app zsum length Nat.pred]; rewrite ?C0, ?C1; cbn [SSA.cost1 b2z];
          cbn [Z.add Z.ltb Z.compare Pos.compare Pos.add Pos.succ Z.of_nat Pos.of_succ_nat]; lia.
        - cbn; lia. }
      unfold differential in H. destruct (parts d x r) as [|r0 [|r1 l]].
      - cbn [emit emit_all] in H. inversion H; subst. unfold SSA.cost. cbn [zsum map]. cbn [SSA.cost1 zsum].
        assert (num (shp x) (positive []) = 0) by apply zsum_0. cbn in J. lia.
      - cbn [emit] in H. inversion H; subst. unfold SSA.cost. cbn [zsum] in *. cbn [length Nat.pred] in J. lia.
      - destruct (emit_all t (shp x) (r0 :: r1 :: l)) as [t1 vs] eqn:E. cbn [emit] in H. inversion H; subst.
        destruct (emit_all_cost _ _ _ _ _ E) as [C L]. unfold SSA.cost in *. cbn [zsum] in *.
        rewrite cost_join; [|intros ->; discriminate L]. rewrite L. lia.
    Qed.
    Theorem differentials_cost : forall S t t' d, differentials S t = (t', d) -> cost t' <= cost t + dcost act S.
    Proof.
      induction S as [|[sh r] S IH]; cbn [differentials]; intros t t' d H; [inversion H; subst; cbn; lia|].
      destruct (differentials S t) as [t1 d1] eqn:E. specialize (IH _ _ _ E). unfold Bound.dcost in *. cbn [zsum].
      pose proof (proj1 (dcost1_every DT fcost fcost_nonneg act (sh, r))).
      destruct (act _); [|inversion H; subst; lia].
      destruct (differential _ _ _ _) as [t2 dx] eqn:Ed. inversion H; subst.
      pose proof (differential_cost _ _ _ _ _ _ Ed (differentials_shape _ _ _ _ E)). cbn [shp] in *. lia.
    Qed.
  End Cost.

  (** * What it means *)
  Section Value.
    Context (rO rI : K) (radd rmul rsub : K -> K -> K) (ropp : K -> K).
    Hypothesis Rth : ring_theory rO rI radd rmul rsub ropp eq.
    Add Ring ForwardRing : Rth.
    Infix "+" := radd. Infix "*" := rmul.
    Notation sum := (Sums.sum rO radd). Notation ind := (Sums.ind rO).
    Context (fval : fn -> list K -> K) (partial : fn -> nat -> list K -> K).
    Hypothesis DT_val : forall f j xs dx, fval (DT f j) (xs ++ [fval f xs; dx]) = partial f j xs * dx.
    Notation env := (env (K := K)).
    Notation eval := (eval rO radd rmul ropp fval). Notation deval := (deval rO radd rmul ropp partial).
    Notation solves := (solves rO radd rmul ropp fval). Notation dsolves := (dsolves rO radd rmul ropp partial).
    Notation dmap := (dmap rO radd rmul partial).

    Notation extends_solves := (SSA.extends_solves rO radd rmul ropp fval).
    Lemma emit_all_val inp E sh l : forall t t' vs, emit_all t sh l = (t', vs) -> solves inp E t' ->
      forall i, In i (box sh) -> map (fun v => E v i) vs = map (fun r => eval inp E r i) l.
    Proof.
      induction l as [|r l IH]; cbn [emit_all]; intros t t' vs H So i Hi; [inversion H; reflexivity|].
      destruct (emit_all _ sh l) as [t1 vs1] eqn:E1. inversion H; subst. cbn [map]. rewrite (IH _ _ _ E1 So i Hi). f_equal.
      pose proof (extends_solves _ _ _ _ (emit_all_extends _ _ _ _ _ E1) So) as [V _]. apply V, Hi.
    Qed.
    (** where the variables have their differentials *)
    Variables (inp E dE : env).
    Definition dinp : env := fun y => if among leaves y then inp (dleaf y) else fun _ => rO.
    Definition carries (d : var -> var) (D : list var) : Prop :=
      forall y, In y D -> forall i, In i (box (shp y)) -> if act y then E (d y) i = dE y i else dE y i = rO.

    Lemma components_val d x p f args i : (forall y, In y args -> shp y = shp x) ->
      E x i = ind (p i) (fval f (map (fun y => E y i) args)) -> In i (box (shp x)) ->
      forall ys j, (forall y, In y ys -> shp y = shp x) -> carries d ys ->
      sum (components d x p f args j ys) (fun r => eval inp E r i)
      = ind (p i) (dmap f (map (fun y => E y i) args) j (map (fun y => dE y i) ys)).
    Proof.
      intros SA HX Hi. induction ys as [|y ys IH]; intros j SY C; cbn [components map SSA.dmap]; [destruct (p i); reflexivity|].
      specialize (IH (S j) (fun z Hz => SY z (or_intror Hz)) (fun z Hz => C z (or_intror Hz))).
      pose proof (C y (or_introl eq_refl) i) as Cy. rewrite (SY y) in Cy by (left; auto). specialize (Cy Hi).
      destruct (act y); cbn [Sums.sum].
      - rewrite IH. cbn [SSA.eval]. rewrite map_app. cbn [map]. rewrite HX.
        destruct (p i); cbn [Sums.ind]; [rewrite DT_val, Cy; reflexivity|ring].
      - rewrite IH, Cy. destruct (p i); cbn [Sums.ind]; ring.
    Qed.
    Lemma parts_val d x r i : keeps_shape d -> pointwise (shp x) r -> carries d (ops r) ->
      (forall i, In i (box (shp x)) -> E x i = eval inp E r i) -> In i (box (shp x)) ->
      sum (parts d x r) (fun r' => eval inp E r' i) = deval inp dinp E dE r i.
    Proof.
      intros Kd W C HX Hi. destruct r; cbn [parts pointwise ops] in *.
      - cbn [SSA.deval]. unfold dinp. destruct (among leaves x0); cbn; [ring|reflexivity].
      - reflexivity.
      - cbn [Sums.sum SSA.eval SSA.deval]. rewrite sum_map. cbn [bracket minus operand].
        assert (Z : sum (filter (fun t => negb (act (operand t))) l) (fun t => ind (bracket t i) (signed ropp (minus t) (dE (operand t) i))) = rO).
        { transitivity (sum (filter (fun t => negb (act (operand t))) l) (fun _ => rO)); [|apply (sum_0 _ _ _ _ _ _ Rth)].
          apply sum_ext. intros a Ha. apply filter_In in Ha. destruct Ha as [Ha A]. apply in_map with (f := operand) in Ha.
          pose proof (C _ Ha i) as Ca. rewrite (W _ Ha) in Ca. specialize (Ca Hi). destruct (act (operand a)); [discriminate|].
          rewrite Ca. destruct (bracket a i), (minus a); cbn; ring. }
        rewrite (sum_filter _ _ _ _ _ _ Rth l (fun t => act (operand t))), Z, !(Radd_comm Rth _ rO), !(Radd_0_l Rth).
        apply sum_ext. intros a Ha. apply filter_In in Ha. destruct Ha as [Ha A]. apply in_map with (f := operand) in Ha.
        pose proof (C _ Ha i) as Ca. rewrite (W _ Ha), A in Ca. now rewrite Ca.
      - cbn [SSA.deval]. apply components_val; auto. exact (HX i Hi).
      - cbn [SSA.deval]. pose proof (C x0 (or_introl eq_refl)) as Cx. destruct (act x0); cbn [Sums.sum SSA.eval].
        + rewrite (Radd_comm Rth), (Radd_0_l Rth). unfold sum1. rewrite Kd. apply sum_ext. intros j Hj. apply sum_ext.
          intros z _. now rewrite Cx.
        + symmetry. apply (sum1_0 rO rI radd rmul rsub ropp Rth). intros j z Hj _. rewrite Cx by exact Hj. now destruct (p i j z).
      - pose proof (C x0 (or_introl eq_refl)) as C0. pose proof (C x1 (or_intror (or_introl eq_refl))) as C1.
        rewrite (sum_app _ _ _ _ _ _ Rth). cbn [SSA.deval].
        transitivity (sum2 rO radd s x0 x1 (fun i0 i1 z => ind (p i i0 i1 z) (dE x0 i0 * E x1 i1))
                      + sum2 rO radd s x0 x1 (fun i0 i1 z => ind (p i i0 i1 z) (E x0 i0 * dE x1 i1))).
        + f_equal.
          * destruct (act x0); cbn [Sums.sum SSA.eval].
            -- rewrite (Radd_comm Rth), (Radd_0_l Rth). unfold sum2. rewrite Kd. apply sum_ext. intros j Hj.
               apply sum_ext. intros k _. apply sum_ext. intros z _. now rewrite C0.
            -- symmetry. unfold sum2. transitivity (sum (box (shp x0)) (fun _ => rO)); [|apply (sum_0 _ _ _ _ _ _ Rth)].
               apply sum_ext. intros j Hj. apply (sum1_0 rO rI radd rmul rsub ropp Rth s x1 (fun k z => ind (p i j k z) (dE x0 j * E x1 k))).
               intros k z _ _. rewrite C0 by exact Hj. destruct (p i j k z); cbn; ring.
          * destruct (act x1); cbn [Sums.sum SSA.eval].
            -- rewrite (Radd_comm Rth), (Radd_0_l Rth). unfold sum2. rewrite Kd. apply sum_ext. intros j _.
               apply sum_ext. intros k Hk. apply sum_ext. intros z _. now rewrite C1.
            -- symmetry. unfold sum2. transitivity (sum (box (shp x0)) (fun _ => rO)); [|apply (sum_0 _ _ _ _ _ _ Rth)].
               apply sum_ext. intros j Hj. apply (sum1_0 rO rI radd rmul rsub ropp Rth s x1 (fun k z => ind (p i j k z) (E x0 j * dE x1 k))).
               intros k z Hk _. rewrite C1 by exact Hk. destruct (p i j k z); cbn; ring.
        + rewrite <- (sum2_add _ _ _ _ _ _ Rth). apply sum2_ext. intros i0 i1 z _ _. symmetry. apply (ind_add _ _ _ _ _ _ Rth).
      - reflexivity.
    Qed.
    (** outside of its support each part is 0 *)
    Lemma parts_support d x r r' i : keeps_shape d -> In r' (parts d x r) -> length (parts d x r) <> 1%nat ->
      ind (support r i) (eval inp E r' i) = eval inp E r' i.
    Proof.
      intros Kd H N. destruct r; cbn [parts support] in *; try (destruct H; fail); try reflexivity.
      - assert (Q : forall ys j, In r' (components d x p f xs j ys) -> exists g vs, r' = Map p g vs).
        { induction ys as [|y ys IH]; cbn [components]; intros j Hj; [destruct Hj|].
          destruct (act y); [destruct Hj as [<-|Hj]; [eauto|]|]; eapply IH; eauto. }
        destruct (Q _ _ H) as [g [vs ->]]. cbn [SSA.eval]. now destruct (p i).
      - apply in_app_or in H. destruct H as [H|H].
        + destruct (act x0); [|destruct H]. destruct H as [<-|[]]. cbn [SSA.eval].
          pose proof (ind_ex2 rO rI radd rmul rsub ropp Rth s (d x0) x1 (p i) (fun i0 i1 _ => E (d x0) i0 * E x1 i1)) as Q.
          unfold ex2 at 1 in Q. rewrite Kd in Q. exact Q.
        + destruct (act x1); [|destruct H]. destruct H as [<-|[]]. cbn [SSA.eval].
          pose proof (ind_ex2 rO rI radd rmul rsub ropp Rth s x0 (d x1) (p i) (fun i0 i1 _ => E x0 i0 * E (d x1) i1)) as Q.
          unfold ex2 at 1 in Q. rewrite Kd in Q. exact Q.
    Qed.
    Lemma differential_val t d x r t' dx : differential t d x r = (t', dx) -> solves inp E t' -> keeps_shape d ->
      pointwise (shp x) r -> carries d (ops r) -> (forall i, In i (box (shp x)) -> E x i = eval inp E r i) ->
      forall i, In i (box (shp x)) -> E dx i = deval inp dinp E dE r i.
    Proof.
      intros H So Kd W C HX i Hi. rewrite <- (parts_val d x r i) by assumption.
      pose proof (parts_support d x r) as PS. unfold differential in H. destruct (parts d x r) as [|r0 [|r1 l]].
      - cbn [emit emit_all map] in H. inversion H; subst. destruct So as [V _]. rewrite V by exact Hi. reflexivity.
      - cbn [emit] in H. inversion H; subst. destruct So as [V _]. rewrite V by exact Hi. cbn. ring.
      - destruct (emit_all t (shp x) (r0 :: r1 :: l)) as [t1 vs] eqn:E1. cbn [emit] in H. inversion H; subst. destruct So as [V So].
        rewrite V by exact Hi. cbn [SSA.eval]. rewrite sum_map. cbn [bracket minus operand signed].
        pose proof (emit_all_val inp E _ _ _ _ _ E1 So i Hi) as M.
        assert (PS' : forall r', In r' (r0 :: r1 :: l) -> ind (support r i) (eval inp E r' i) = eval inp E r' i)
          by (intros r' Hr; apply PS; [exact Kd|exact Hr|discriminate]).
        clear - M PS'. revert M PS'. generalize (r0 :: r1 :: l) as rs. revert vs.
        intros vs rs. revert vs. induction rs as [|r' rs IH]; intros [|v vs] M P; try discriminate; [reflexivity|].
        cbn [map Sums.sum] in *. injection M as M0 M. rewrite M0, P by (left; auto). f_equal.
        apply IH; [exact M|]. intros; apply P; right; auto.
    Qed.
    Theorem differentials_val : forall S t t' d, differentials S t = (t', d) -> solves inp E t' -> wf S ->
      solves inp E S -> dsolves inp dinp E dE S ->
      (forall x, In x (declared S) -> act x = false -> forall i, In i (box (shp x)) -> dE x i = rO) ->
      carries d (declared S).
    Proof.
      induction S as [|[sh r] S IH]; cbn [differentials]; intros t t' d H So W SS DS HA; [intros y []|].
      cbn [wf SSA.solves SSA.dsolves declared] in *. destruct W as [HD [Wp W]], SS as [SX SS], DS as [DX DS].
      destruct (differentials S t) as [t1 d1] eqn:E1. set (x := Var (length S) sh) in *.
      assert (C : extends t1 t' -> carries d1 (declared S)).
      { intros X. apply (IH _ _ _ E1); auto; [eapply extends_solves; eassumption|]. intros y Hy. apply HA. right. exact Hy. }
      intros y [<-|Hy] i Hi.
      - destruct (act x) eqn:A; [|apply (HA x); [left; reflexivity|exact A|exact Hi]].
        destruct (differential t1 d1 x r) as [t2 dx] eqn:Ed. inversion H; subst. rewrite var_eqb_refl, DX by exact Hi.
        pose proof (C (differential_extends _ _ _ _ _ _ Ed)) as C'.
        apply (differential_val _ _ _ _ _ _ Ed So (differentials_shape _ _ _ _ E1) Wp); auto.
        intros z Hz. apply C', HD, Hz.
      - destruct (act x).
        + destruct (differential t1 d1 x r) as [t2 dx] eqn:Ed. inversion H; subst. unfold x. rewrite (fresh_neq sh S y Hy).
          apply (C (differential_extends _ _ _ _ _ _ Ed)); assumption.
        + inversion H; subst. apply (C (extends_refl _)); assumption.
    Qed.
  End Value.
End Forward.

(** * The whole: the program with its forward derivative, and where the differential of a variable is *)
Section Theorems.
  Context {K fn : Type} (DT : fn -> nat -> fn).
  Notation prog := (prog K fn).
  Definition forward (leaves : list var) (dleaf : var -> var) (S : prog) : prog * (var -> var) :=
    differentials DT leaves dleaf (among (active leaves S)) S S.

  Theorem forward_wf leaves dleaf S t d : (forall y, shp (dleaf y) = shp y) -> wf S -> forward leaves dleaf S = (t, d) ->
    wf t /\ forall x, In x (active leaves S) -> In x (declared S) -> shp (d x) = shp x /\ In (d x) (declared t).
  Proof.
    intros Hs W H. split; [eapply differentials_wf; eauto; apply incl_refl|]. intros x A Hx.
    split; [eapply differentials_shape, H|]. eapply differentials_declared; [exact H|exact Hx|]. now apply among_in.
  Qed.

  (** its value: D S of SSA.v, for the differentials that its inputs hold *)
  Section Value.
    Context (rO rI : K) (radd rmul rsub : K -> K -> K) (ropp : K -> K).
    Hypothesis Rth : ring_theory rO rI radd rmul rsub ropp eq.
    Context (fval : fn -> list K -> K) (partial : fn -> nat -> list K -> K).
    Hypothesis DT_val : forall f j xs dx, fval (DT f j) (xs ++ [fval f xs; dx]) = rmul (partial f j xs) dx.
    Notation run := (run rO radd rmul ropp fval).
    Theorem forward_run leaves dleaf S t d inp : (forall y, shp (dleaf y) = shp y) -> wf S ->
      forward leaves dleaf S = (t, d) ->
      forall x, In x (declared S) -> forall i, In i (box (shp x)) ->
      D rO radd rmul ropp fval partial S inp (dinp leaves dleaf rO inp) x i
      = if among (active leaves S) x then run inp t (d x) i else rO.
    Proof.
      intros Hs W H x Hx i Hi. destruct (forward_wf _ _ _ _ _ Hs W H) as [Wt _]. set (di := dinp leaves dleaf rO inp).
      pose proof (run_solves rO radd rmul ropp fval inp t Wt) as So.
      pose proof (extends_solves rO radd rmul ropp fval inp _ _ _ (differentials_extends _ _ _ _ _ _ _ _ H) So) as SS.
      assert (DS : dsolves rO radd rmul ropp partial inp di (run inp t) (D rO radd rmul ropp fval partial S inp di) S).
      { unfold D. apply (dsolves_ext rO radd rmul ropp partial inp di (run inp S) (run inp t)
                           (drun rO radd rmul ropp partial inp di (run inp S) S)); auto.
        - apply (solves_unique rO radd rmul ropp fval inp); auto. apply run_solves, W.
        - intros y _ j _; reflexivity.
        - apply drun_solves, W. }
      pose proof (differentials_val DT leaves dleaf _ rO rI radd rmul rsub ropp Rth fval partial DT_val inp (run inp t)
        (D rO radd rmul ropp fval partial S inp di) S S t d H So W SS DS) as C.
      assert (Z : forall y, In y (declared S) -> among (active leaves S) y = false ->
                  forall j, In j (box (shp y)) -> D rO radd rmul ropp fval partial S inp di y j = rO).
      { apply (inactive_zero rO rI radd rmul rsub ropp Rth partial inp di (run inp t) _ leaves S W DS).
        intros sh y _. unfold di, dinp. destruct (among leaves y) eqn:A; [left; now apply among_in|right; reflexivity]. }
      specialize (C Z x Hx i Hi). destruct (among _ x); [symmetry|]; exact C.
    Qed.
  End Value.

  Section Cost.
    Local Open Scope Z_scope.
    Variable fcost : fn -> Z.
    Hypothesis fcost_nonneg : forall f, 0 <= fcost f.
    Notation cost := (cost (K := K) fcost). Notation dcost := (dcost (K := K) DT fcost).
    Theorem forward_cost leaves dleaf S t d : forward leaves dleaf S = (t, d) ->
      cost t <= cost S + dcost (among (active leaves S)) S.
    Proof. apply differentials_cost, fcost_nonneg. Qed.
    (** 6.1: the forward derivative, together with the program, costs at most 4 times the program *)
    Theorem theorem_6_1 leaves dleaf S t d : cheap_maps DT fcost S -> forward leaves dleaf S = (t, d) -> cost t <= 4 * cost S.
    Proof.
      intros Hf H. pose proof (forward_cost _ _ _ _ _ H).
      pose proof (dcost_3cost DT fcost fcost_nonneg (among (active leaves S)) S Hf). lia.
    Qed.
  End Cost.
End Theorems.
