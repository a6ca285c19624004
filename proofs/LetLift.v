(** Fig. 7: lets move to the outermost level (tensorlang/normal/let_lift.py). *)
Require Import String List Bool ZArith Ring Lia.
Import ListNotations.
Require Import TL.Sums TL.Boxes TL.Core TL.Free TL.Improve TL.Subst.
Open Scope list_scope.

Section LetLift.
  Context {K : Type} (rO rI : K) (radd rmul rsub : K -> K -> K).
  Context {fn : Type} (fval : fn -> list K -> K) (fcost : fn -> Z) (R : data).
  Notation expr := (@expr K fn).
  Notation eval := (eval rO radd rmul rsub fval R).
  Notation cost := (cost fcost R).
  Notation live := (live R). Notation reach := (reach R).
  Notation keeps := (keeps rO radd rmul rsub fval fcost R).
  Notation "l --> r" := (improves rO radd rmul rsub fval fcost R l r) (at level 70).
  Notation "l <--> r" := (equivalent rO radd rmul rsub fval fcost R l r) (at level 70).
  Notation weaken := (eval_weaken rO radd rmul rsub fval R).
  Notation eval_ext := (eval_ext rO radd rmul rsub fval R).
  Implicit Types e : expr.

  (** nothing but value and cost matters: lets, products, pairs and so on on both sides *)
  Ltac opaque := intros s; repeat split; cbn [Core.live guard]; rewrite ?orb_true_r; reflexivity.
  Ltac improve := apply improves_intro; [opaque|intros rho s d w; cbn [Core.eval]|intros s;
    cbn [Core.cost Core.live guard andb]].
  Ltac equate := apply equivalent_closed; [opaque|opaque|intros rho s d w; cbn [Core.eval]|intros s; cbn [Core.cost]].

  (** 5.1, let in a sum: (let x = e0 in e1) + e2  ->  let x = e0 in e1 + e2; both sides.
      The cost may drop, for a bracket around e1 is seen now. *)
  Theorem rule_5_1 x e0 e1 e2 : ~ In x (efv e2) ->
    <{ (let x := e0 in e1) + e2 }> --> <{ let x := e0 in e1 + e2 }> /\
    <{ e2 + (let x := e0 in e1) }> --> <{ let x := e0 in e2 + e1 }>.
  Proof.
    intros N. split; improve.
    - now rewrite (weaken x _ e2 _ s N).
    - destruct (live s e1), (live s e2); cbn [b2z andb]; lia.
    - now rewrite (weaken x _ e2 _ s N).
    - destruct (live s e1), (live s e2); cbn [b2z andb]; lia.
  Qed.
  Theorem rule_5_1_sub x e0 e1 e2 : ~ In x (efv e2) ->
    <{ (let x := e0 in e1) - e2 }> --> <{ let x := e0 in e1 - e2 }> /\
    <{ e2 - (let x := e0 in e1) }> --> <{ let x := e0 in e2 - e1 }>.
  Proof.
    intros N. split; improve.
    - now rewrite (weaken x _ e2 _ s N).
    - lia.
    - now rewrite (weaken x _ e2 _ s N).
    - pose proof (b2z_range (live s e1)). cbn [b2z]. lia.
  Qed.

  (** 5.2, let in a product: (let x = e0 in e1) * e2  ->  let x = e0 in e1 * e2; both sides *)
  Theorem rule_5_2 x e0 e1 e2 : ~ In x (efv e2) ->
    <{ (let x := e0 in e1) * e2 }> <--> <{ let x := e0 in e1 * e2 }> /\
    <{ e2 * (let x := e0 in e1) }> <--> <{ let x := e0 in e2 * e1 }>.
  Proof. intros N. split; equate; try lia; now rewrite (weaken x _ e2 _ s N). Qed.

  (** 5.3, let in an argument: f(.., let x = e0 in e1, ..)  ->  let x = e0 in f(.., e1, ..) *)
  Theorem rule_5_3 x f before e0 e1 after : ~ In x (flat_map efv (before ++ after)) ->
    EFn f (before ++ <{ let x := e0 in e1 }> :: after) <--> <{ let x := e0 in {EFn f (before ++ e1 :: after)} }>.
  Proof.
    intros N. rewrite flat_map_app in N. equate.
    - f_equal. rewrite !map_app. cbn [map Core.eval].
      assert (M : forall l, ~ In x (flat_map efv l) ->
        map (fun e => eval (upd rho x (eval rho s e0)) s e d w) l = map (fun e => eval rho s e d w) l).
      { intros l Nl. apply map_ext_in. intros e He. apply weaken. intros Hx. apply Nl, in_flat_map; eauto. }
      rewrite !M; [reflexivity|intros H; apply N, in_or_app; auto|intros H; apply N, in_or_app; auto].
    - induction before as [|e l IH]; cbn [app map fold_right Core.cost]; [lia|].
      cbn [flat_map] in N. rewrite <- app_assoc, in_app_iff in N. specialize (IH (fun H => N (or_intror H))). lia.
  Qed.

  (** 5.4, let in a pair: (let x = e0 in e1, e2)  ->  let x = e0 in (e1, e2); both sides *)
  Theorem rule_5_4 x e0 e1 e2 : ~ In x (efv e2) ->
    <{ (let x := e0 in e1, e2) }> <--> <{ let x := e0 in (e1, e2) }> /\
    <{ (e2, let x := e0 in e1) }> <--> <{ let x := e0 in (e2, e1) }>.
  Proof.
    intros N. split; equate; try lia; destruct d as [|[|] d]; try reflexivity; now rewrite (weaken x _ e2 _ s N).
  Qed.

  (** 5.5, let under a projection: fst (let x = e0 in e1)  ->  let x = e0 in fst e1; snd alike *)
  Theorem rule_5_5 x e0 e1 :
    <{ Fst (let x := e0 in e1) }> <--> <{ let x := e0 in Fst e1 }> /\
    <{ Snd (let x := e0 in e1) }> <--> <{ let x := e0 in Snd e1 }>.
  Proof. split; equate; reflexivity. Qed.

  (** x[i], which takes the place of a variable x that moves out of a binder of i *)
  Definition slice x i : expr := <{ {EVar x}[AVar i] }>.
  Lemma slice_plain x i : plain fcost R (slice x i).
  Proof. intros s. repeat split. Qed.
  Lemma slice_val x i n e0 e1 rho s z : inside n z = true -> vok x (slice x i) e1 ->
    same_val (eval (upd rho x (eval rho s (EGen i n e0))) (upd s i z) (vsub x (slice x i) e1))
             (eval (upd rho x (eval rho (upd s i z) e0)) (upd s i z) e1).
  Proof.
    intros Hz V d w. rewrite vsub_val by assumption. apply eval_ext; [|apply agree_refl].
    intros y _ d' w'. destruct (string_dec x y) as [<-|D]; [|now rewrite !upd_other].
    rewrite !upd_same. cbn [slice Core.eval aval]. now rewrite !upd_same, Hz.
  Qed.

  (** 5.6, let in a gen: gen i:n. let x = e0 in e1  ->  let x = gen i:n. e0 in gen i:n. [x := x[i]] e1 *)
  Theorem rule_5_6 i n x e0 e1 : vok x (slice x i) e1 ->
    <{ Gen i : n, let x := e0 in e1 }> <--> <{ let x := Gen i : n, e0 in Gen i : n, {vsub x (slice x i) e1} }>.
  Proof.
    intros V. equate.
    - destruct w as [|z w]; [reflexivity|]. destruct (inside n z) eqn:Hz; [|reflexivity]. cbn [ind].
      apply (slice_val x i n); assumption.
    - rewrite <- zsum_add. apply zsum_ext. intros z _. now rewrite (vsub_cost fcost R _ _ _ (slice_plain x i)).
  Qed.

  Lemma existsb_true n : existsb (fun _ => true) (zrange n) = Nat.ltb 0 n.
  Proof. destruct n; reflexivity. Qed.
  (** what a sum costs over its body: less, if the body is a bracket or sum that it can look into *)
  Lemma joint_cheap n (f : Z -> Z) (g : Z -> bool) :
    (zsum (zrange n) (fun z => f z + b2z (g z)) - b2z (existsb g (zrange n))
     <= zsum (zrange n) (fun z => f z + b2z true) - b2z (existsb (fun _ => true) (zrange n)))%Z.
  Proof. apply existsb_pos; intros z _; [|lia]. pose proof (b2z_range (g z)). cbn [b2z]. lia. Qed.

  (** 5.7, let in a sum over an index:
      sum i:n. let x = e0 in e1  ->  let x = gen i:n. e0 in sum i:n. [x := x[i]] e1
      The cost may drop, for a bracket or sum that is e1 is seen now.  (A sum over nothing, n = 0, costs nothing in a
      sum; the let that takes its place does.) *)
  Lemma sum_slice s i n x e :
    (zsum (zrange n) (fun z => cost (upd s i z) (vsub x (slice x i) e) + b2z (reach (upd s i z) (vsub x (slice x i) e)))
     - b2z (existsb (fun z => reach (upd s i z) (vsub x (slice x i) e)) (zrange n))
     = zsum (zrange n) (fun z => cost (upd s i z) e + b2z (reach (upd s i z) e))
     - b2z (existsb (fun z => reach (upd s i z) e) (zrange n)))%Z.
  Proof.
    f_equal; [apply zsum_ext|f_equal; apply existsb_ext]; intros z _;
      rewrite ?(vsub_cost fcost R _ _ _ (slice_plain x i)), (vsub_reach fcost R _ _ _ (slice_plain x i)); reflexivity.
  Qed.
  Theorem rule_5_7 i n x e0 e1 : vok x (slice x i) e1 ->
    let l := <{ Sum i : n, let x := e0 in e1 }> in
    let r := <{ let x := Gen i : n, e0 in Sum i : n, {vsub x (slice x i) e1} }> in
    keeps l r /\ ((0 < n)%nat -> l --> r).
  Proof.
    intros V l r. assert (Kp : keeps l r).
    { intros s. split; [intros rho d w|]; unfold l, r.
      - cbn [Core.eval]. apply sum_ext. intros z Hz. apply (slice_val x i n); [now apply zrange_inside|assumption].
      - pose proof (joint_cheap n (fun z => cost (upd s i z) e1) (fun z => reach (upd s i z) e1)) as J.
        cbn [Core.cost Core.reach]. rewrite sum_slice.
        rewrite (zsum_ext _ (fun z => cost (upd s i z) e0 + cost (upd s i z) e1 + b2z true)%Z
          (fun z => cost (upd s i z) e0 + (cost (upd s i z) e1 + b2z true))%Z) by (intros; lia).
        rewrite (zsum_add _ (fun z => cost (upd s i z) e0)). cbv beta in J. lia. }
    split; [exact Kp|]. intros Hn s. split; auto. unfold l, r. destruct (Kp s) as [_ C]. fold l r.
    assert (reach s l = true) as -> by (unfold l; cbn [Core.reach]; rewrite existsb_true; now apply Nat.ltb_lt).
    change (reach s r) with true. lia.
  Qed.

  (** 5.8, let under an access: (let x = e0 in e1)[a]  ->  let x = e0 in e1[a] *)
  Theorem rule_5_8 x e0 e1 k : <{ (let x := e0 in e1)[k] }> <--> <{ let x := e0 in e1[k] }>.
  Proof. equate; reflexivity. Qed.

  (** 5.9, let under a bracket: [p] * let x = e0 in e1  ->  let x = [p]*e0 in [p]*e1.
      It hides p from a + or sum outside, until 5.1 or 5.7 brings the let outside of that too: see below. *)
  Theorem rule_5_9 x p e0 e1 s : let l := <{ [p] * (let x := e0 in e1) }> in let r := <{ let x := [p] * e0 in [p] * e1
    }> in
    keeps_at rO radd rmul rsub fval fcost R s l r /\ cost s r = cost s l.
  Proof.
    intros l r. unfold l, r. split; [split; [intros rho d w|]|]; cbn [Core.eval Core.cost]; destruct (pval R s p);
      reflexivity || lia.
  Qed.
  (** 5.9, then 5.1 *)
  Theorem rule_5_9_5_1 x p e0 e1 e2 : ~ In x (efv e2) ->
    keeps <{ [p] * (let x := e0 in e1) + e2 }> <{ let x := [p] * e0 in [p] * e1 + e2 }>.
  Proof.
    intros N s. split; [intros rho d w|]; cbn [Core.eval Core.cost Core.live guard].
    - rewrite (weaken x _ e2 _ s N). destruct (pval R s p); reflexivity.
    - destruct (pval R s p), (guard R s e1), (live s e2); cbn [andb b2z]; lia.
  Qed.
  (** 5.9, then 5.7 *)
  Theorem rule_5_9_5_7 i n x p e0 e1 : vok x (slice x i) e1 ->
    keeps <{ Sum i : n, [p] * (let x := e0 in e1) }>
      <{ let x := Gen i : n, [p] * e0 in Sum i : n, [p] * {vsub x (slice x i) e1} }>.
  Proof.
    intros V s. split; [intros rho d w|].
    - destruct (proj1 (rule_5_7 i n x (EInd p e0) (EInd p e1) V) s) as [E _]. etransitivity; [apply (E rho d w)|].
      cbn [Core.eval]. apply sum_ext. intros z _. destruct (pval R (upd s i z) p); reflexivity.
    - set (e := EInd p e1). change (EInd p (vsub x (slice x i) e1)) with (vsub x (slice x i) e).
      assert (J : (zsum (zrange n) (fun z => cost (upd s i z) e + b2z (reach (upd s i z) e))
          - b2z (existsb (fun z => reach (upd s i z) e) (zrange n))
        <= zsum (zrange n) (fun z => cost (upd s i z) e + b2z (pval R (upd s i z) p && true))
          - b2z (existsb (fun z => pval R (upd s i z) p && true) (zrange n)))%Z).
      { apply existsb_pos; intros z _; [|lia]. unfold e. cbn [Core.reach].
        destruct (pval R (upd s i z) p), (reach (upd s i z) e1); cbn [andb b2z]; lia. }
      assert (L : cost s (ESum i n (EInd p (ELet x e0 e1))) = (zsum (zrange n) (fun z => cost (upd s i z) (EInd p e0))
          + zsum (zrange n) (fun z => cost (upd s i z) e + b2z (pval R (upd s i z) p && true))
          - b2z (existsb (fun z => pval R (upd s i z) p && true) (zrange n)))%Z).
      { cbn [Core.cost Core.reach]. rewrite <- zsum_add. f_equal. apply zsum_ext. intros z _. unfold e. cbn [Core.cost].
        destruct (pval R (upd s i z) p); lia. }
      rewrite L. pose proof (sum_slice s i n x e) as S. cbn [Core.cost Core.reach] in *. lia.
  Qed.

  (** 5.10, let in a let's value: let x = (let y = e0 in e1) in e2  ->  let y = e0 in let x = e1 in e2 *)
  Theorem rule_5_10 x y e0 e1 e2 : ~ In y (efv e2) -> x <> y ->
    <{ let x := let y := e0 in e1 in e2 }> <--> <{ let y := e0 in let x := e1 in e2 }>.
  Proof.
    intros N D. equate; [|lia]. apply eval_ext; [|apply agree_refl]. intros z Hz d' w'. unfold upd.
    destruct (String.eqb x z) eqn:E; [reflexivity|]. destruct (String.eqb_spec y z); [subst; contradiction|reflexivity].
  Qed.
End LetLift.
