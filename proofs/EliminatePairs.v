(** Fig. 8: pairs remain only around the outputs and as projections of inputs (tensorlang/normal/eliminate_pairs.py).
    Rules given for fst hold for snd alike. *)
Require Import String List Bool ZArith Lia.
Import ListNotations.
Require Import TL.Sums TL.Boxes TL.Core TL.Free TL.Improve TL.Subst.
Open Scope list_scope.

Section EliminatePairs.
  Context {K : Type} (rO rI : K) (radd rmul rsub : K -> K -> K).
  Context {fn : Type} (fval : fn -> list K -> K) (fcost : fn -> Z) (R : data).
  Hypothesis fcost_nonneg : forall f, (0 <= fcost f)%Z.
  Notation expr := (@expr K fn).
  Notation cost := (cost fcost R).
  Notation keeps := (keeps rO radd rmul rsub fval fcost R).
  Notation "l --> r" := (improves rO radd rmul rsub fval fcost R l r) (at level 70).
  Notation "l <--> r" := (equivalent rO radd rmul rsub fval fcost R l r) (at level 70).
  Notation eval_ext := (eval_ext rO radd rmul rsub fval R).
  Implicit Types e : expr.

  Ltac opaque := intros s; repeat split.
  Ltac improve := apply improves_intro; [opaque|intros rho s d w; cbn [Core.eval]|intros s; cbn [Core.cost]].
  Ltac equate := apply equivalent_closed; [opaque|opaque|intros rho s d w; cbn [Core.eval]|intros s; cbn [Core.cost]].

  (** 5.11, projection of a pair: fst (e0, e1)  ->  e0 *)
  Theorem rule_5_11 e0 e1 : <{ Fst (e0, e1) }> --> e0 /\ <{ Snd (e0, e1) }> --> e1.
  Proof.
    split; improve; try reflexivity.
    - pose proof (cost_nonneg fcost R fcost_nonneg e1 s). lia.
    - pose proof (cost_nonneg fcost R fcost_nonneg e0 s). lia.
  Qed.

  (** 5.12, projection of a gen's elements: fst (gen i. e)  ->  gen i. fst e, where types are [n](T0, T1) *)
  Theorem rule_5_12 i n e : 
    <{ Fst (Gen i : n, e) }> <--> <{ Gen i : n, Fst e }> /\ <{ Snd (Gen i : n, e) }> <--> <{ Gen i : n, Snd e }>.
  Proof. split; equate; reflexivity. Qed.

  (** 5.13, gen of a pair: gen i. (e0, e1)  ->  (gen i. e0, gen i. e1) *)
  Theorem rule_5_13 i n e0 e1 : <{ Gen i : n, (e0, e1) }> <--> <{ (Gen i : n, e0, Gen i : n, e1) }>.
  Proof.
    equate; [|now rewrite <- zsum_add]. destruct d as [|[|] d], w as [|z w]; try reflexivity.
      destruct (inside n z); reflexivity.
  Qed.

  (** 5.14, projection of an element: fst (e[a])  ->  (fst e)[a] *)
  Theorem rule_5_14 e k : <{ Fst (e[k]) }> <--> <{ (Fst e)[k] }> /\ <{ Snd (e[k]) }> <--> <{ (Snd e)[k] }>.
  Proof. split; equate; reflexivity. Qed.

  (** 5.15, element of a pair of arrays: (e0, e1)[a]  ->  (e0[a], e1[a]) *)
  Theorem rule_5_15 e0 e1 k : <{ (e0, e1)[k] }> <--> <{ (e0[k], e1[k]) }>.
  Proof. equate; [destruct d as [|[|] d]|]; reflexivity. Qed.

  (** 5.16, projection of a bracket: fst ([p]*e)  ->  [p] * fst e *)
  Theorem rule_5_16 p e : <{ Fst ([p] * e) }> --> <{ [p] * Fst e }> /\ <{ Snd ([p] * e) }> --> <{ [p] * Snd e }>.
  Proof. split; improve; reflexivity. Qed.

  (** 5.17, bracket over a pair: [p]*(e0, e1)  ->  ([p]*e0, [p]*e1).
      A pair is no operand of + or sum, so what [sealed] asks for is always so. *)
  Theorem rule_5_17 p e0 e1 : let l := <{ [p] * (e0, e1) }> in let r := <{ ([p] * e0, [p] * e1) }> in
    keeps l r /\ keeps r l.
  Proof.
    split; intros s; (split; [intros rho d w|]); cbn [Core.eval Core.cost]; destruct (pval R s p); try lia;
      destruct d as [|[|] d]; reflexivity.
  Qed.

  (** eta: a variable or input of pair type is the pair of its projections, at no cost *)
  Theorem eta_pair e s : cost s e = 0%Z ->
    cost s <{ (Fst e, Snd e) }> = 0%Z /\
    forall rho b d w, Core.eval rO radd rmul rsub fval R rho s <{ (Fst e, Snd e) }> (b :: d) w
                      = Core.eval rO radd rmul rsub fval R rho s e (b :: d) w.
  Proof. intros H. split; [cbn [Core.cost]; lia|]. intros rho [|] d w; reflexivity. Qed.

  (** 5.18, let of a pair: let x = (a, b) in e1  ->  let x0 = a in let x1 = b in [x := (x0, x1)] e1.
      It is 5.18 to 5.20 of the paper, whose x0 = fst e0, x1 = snd e0 would compute e0 twice (Examples.v): 5.11 to 5.17
      and eta bring e0 to a pair first. *)
  Theorem rule_5_18 x x0 x1 a b e1 :
    ~ In x0 (efv b) -> x0 <> x1 -> ~ In x0 (efv e1) -> ~ In x1 (efv e1) -> vok x <{ ({EVar x0}, {EVar x1}) }> e1 ->
    <{ let x := (a, b) in e1 }> <--> <{ let x0 := a in let x1 := b in {vsub x <{ ({EVar x0}, {EVar x1}) }> e1} }>.
  Proof.
    intros Nb D N0 N1 V. equate.
    - rewrite vsub_val by assumption. apply eval_ext; [|apply agree_refl]. intros y Hy d' w'.
      destruct (string_dec x y) as [<-|Dy].
      + rewrite !upd_same. cbn [Core.eval]. rewrite (upd_other _ x1 _ x0) by congruence. rewrite !upd_same.
        destruct d' as [|[|] d']; [reflexivity|reflexivity|]. now apply eval_weaken.
      + rewrite !upd_other; congruence.
    - rewrite (vsub_cost fcost R) by (intros s'; repeat split). lia.
  Qed.
End EliminatePairs.
