(** Choices: max, min, argmax, and lookups in what they choose (Selection in tensorlang/normal/ssa.py).

    A statement [Choice p x] stands for K = gen g. the i with p g i at which X[i] is greatest. An index array is no array
    of numbers: predicates look it up, and since predicates are any sets of points, those that look K up are the sets
    that the arrays' values at hand give. So every theorem holds with choices, for the values that they are made by, and
    the derivative is the one in which a small change of the inputs does not change them: a choice has no differential,
    and costs the adjoint nothing.

    The greatest value itself is read at the chosen point, by a sum of one point. *)
Require Import List Bool ZArith Ring Lia.
Import ListNotations.
Require Import TL.Sums TL.SSA.

Section Choice.
  Context {K : Type} (rO rI : K) (radd rmul rsub : K -> K -> K) (ropp : K -> K).
  Hypothesis Rth : ring_theory rO rI radd rmul rsub ropp eq.
  Add Ring ChoiceRing : Rth.
  Context {fn : Type} (fval : fn -> list K -> K) (fcost : fn -> Z).
  Variable le : K -> K -> Prop.
  Notation eval := (eval rO radd rmul ropp fval).
  Notation cost1 := (cost1 (K := K) fcost).

  (** k is what a choice may make: wherever there is a point, one at which X is greatest *)
  Definition chooses (E : env) (sh : shape) (p : index -> index -> bool) (x : var) (k : index -> index) : Prop :=
    forall g, In g (box sh) -> existsb (p g) (box (shp x)) = true ->
      In (k g) (box (shp x)) /\ p g (k g) = true /\ forall j, In j (box (shp x)) -> p g j = true -> le (E x j) (E x (k g)).
  (** gen g. sum i. [p g i and i = K[g]] * X[i] *)
  Definition greatest (p : index -> index -> bool) (x : var) (k : index -> index) : rhs K fn :=
    C1 [] (fun g i _ => p g i && leqb (k g) i) x.

  Lemma one_point (l : list index) (q : pred) a : NoDup l ->
    zsum l (fun i => b2z (q i && leqb a i)) = b2z (existsb (fun i => q i && leqb a i) l).
  Proof.
    induction l as [|i l IH]; intros N; [reflexivity|]. inversion N; subst. cbn [zsum existsb]. rewrite IH by assumption.
    destruct (leqb a i) eqn:E; [|rewrite andb_false_r; reflexivity]. apply leqb_eq in E. subst i.
    assert (existsb (fun i => q i && leqb a i) l = false) as ->; [|destruct (q a); reflexivity].
    apply not_true_is_false. intros H. apply existsb_exists in H. destruct H as [j [Hj Hq]].
    apply andb_prop in Hq. destruct Hq as [_ Hq]. apply leqb_eq in Hq. congruence.
  Qed.
  (** it is the greatest value, *)
  Theorem greatest_value inp E sh p x k g : chooses E sh p x k -> In g (box sh) -> existsb (p g) (box (shp x)) = true ->
    eval inp E (greatest p x k) g = E x (k g)
    /\ forall j, In j (box (shp x)) -> p g j = true -> le (E x j) (eval inp E (greatest p x k) g).
  Proof.
    intros H Hg He. destruct (H g Hg He) as [Hk [Pk M]].
    assert (V : eval inp E (greatest p x k) g = E x (k g)); [|rewrite V; auto].
    cbn [SSA.eval greatest]. unfold sum1. cbn [box Sums.sum].
    rewrite <- (sum_point _ _ _ _ _ _ Rth leqb (box (shp x)) (k g) (fun i => E x i)
                  (fun a b => leqb_eq a b) (box_nodup _) Hk).
    apply sum_ext. intros i Hi. destruct (leqb (k g) i) eqn:Ei.
    - apply leqb_eq in Ei. subst i. rewrite Pk. cbn. ring.
    - rewrite andb_false_r. cbn. ring.
  Qed.
  (** and costs nothing beyond the choice, which costs the points of p less one, where there are any *)
  Theorem greatest_cost sh p x k : cost1 (sh, greatest p x k) = 0%Z.
  Proof.
    cbn [SSA.cost1 greatest]. unfold num. rewrite <- zsum_sub. transitivity (zsum (box sh) (fun _ => 0%Z)); [|apply zsum_0].
    apply zsum_ext. intros g _. unfold cnt1, ex1. cbn [box zsum existsb].
    rewrite (zsum_ext (box (shp x)) _ (fun i => b2z (p g i && leqb (k g) i))) by (intros; lia).
    rewrite one_point by apply box_nodup.
    rewrite (existsb_ext (fun i => p g i && leqb (k g) i || false) (fun i => p g i && leqb (k g) i)) by (intros; apply orb_false_r).
    lia.
  Qed.
End Choice.
