(** Over the real numbers, the forward derivative of SSA.v is the derivative, so the adjoint is the gradient.

    Differentiable means here: along every differentiable curve of arguments the value has a derivative, which the
    partial derivatives give. In finitely many dimensions that is to be differentiable (Fréchet); Coquelicot's
    [is_derive f t d] says that f has the derivative d at t. *)
Require Import List Bool ZArith Reals Lra.
From Coquelicot Require Import Coquelicot.
Import ListNotations.
Require Import TL.Sums TL.SSA TL.Adjoint TL.Transpose TL.Choice.
Open Scope R_scope.

Notation derive_const := (is_derive_const (K := R_AbsRing) (V := R_NormedModule)).
Notation derive_plus := (is_derive_plus (K := R_AbsRing) (V := R_NormedModule)).
Notation derive_opp := (is_derive_opp (K := R_AbsRing) (V := R_NormedModule)).
Notation Rsum := (Sums.sum 0 Rplus).
Notation Rind := (Sums.ind 0).

(** * Sums and brackets *)
Lemma derive_ind b (g : R -> R) t d : (b = true -> is_derive g t d) -> is_derive (fun u => Rind b (g u)) t (Rind b d).
Proof. destruct b; intros H; cbn; [auto|]. apply derive_const. Qed.
Lemma derive_sum {A} (l : list A) (g : A -> R -> R) d t : (forall a, In a l -> is_derive (g a) t (d a)) ->
  is_derive (fun u => Rsum l (fun a => g a u)) t (Rsum l d).
Proof.
  induction l as [|a l IH]; intros H; cbn; [apply derive_const|].
  apply derive_plus; [apply H; left; auto|apply IH; intros; apply H; right; auto].
Qed.
Lemma derive_scale c (g : R -> R) t d : is_derive g t d -> is_derive (fun u => c * g u) t (c * d).
Proof. intros H. exact (is_derive_scal g t c d H). Qed.

(** * What holds near a point *)
Lemma locally_all {A} (l : list A) (P : A -> R -> Prop) t :
  (forall a, In a l -> locally t (P a)) -> locally t (fun u => forall a, In a l -> P a u).
Proof.
  induction l as [|a l IH]; intros H; [apply filter_forall; intros u b []|].
  pose proof (filter_and _ _ (H a (or_introl eq_refl)) (IH (fun b Hb => H b (or_intror Hb)))) as F.
  eapply filter_imp; [|exact F]. cbv beta. intros u [H0 H1] b [<-|Hb]; auto.
Qed.
Lemma derive_continuous (g : R -> R) t d : is_derive g t d -> continuous g t.
Proof. intros H. apply (ex_derive_continuous (K := R_AbsRing) (V := R_NormedModule)). now exists d. Qed.
Lemma locally_less (f g : R -> R) t : continuous f t -> continuous g t -> f t < g t -> locally t (fun u => f u < g u).
Proof.
  intros Hf Hg L. set (m := (f t + g t) / 2).
  assert (F : locally t (fun u => f u < m)) by (apply (Hf (fun y => y < m)), (open_lt m (f t)); unfold m; lra).
  assert (G : locally t (fun u => m < g u)) by (apply (Hg (fun y => m < y)), (open_gt m (g t)); unfold m; lra).
  eapply filter_imp; [|exact (filter_and _ _ F G)]. cbv beta. intros u [H0 H1]. lra.
Qed.

Section Gradient.
  Context {fn : Type} (fval : fn -> list R -> R) (partial : fn -> nat -> list R -> R).
  Notation dmap := (dmap 0 Rplus Rmult partial).
  Notation eval := (SSA.eval 0 Rplus Rmult Ropp fval). Notation deval := (SSA.deval 0 Rplus Rmult Ropp partial).
  Notation solves := (SSA.solves 0 Rplus Rmult Ropp fval). Notation dsolves := (SSA.dsolves 0 Rplus Rmult Ropp partial).
  Notation run := (SSA.run 0 Rplus Rmult Ropp fval). Notation D := (SSA.D 0 Rplus Rmult Ropp fval partial).
  Notation env := (SSA.env (K := R)). Notation prog := (SSA.prog R fn).
  Notation dot := (Transpose.dot 0 Rplus Rmult).

  (** f is differentiable at xs, and [partial f] are its partial derivatives there *)
  Definition differentiable (f : fn) (xs : list R) : Prop :=
    forall (gs : list (R -> R)) ds t, map (fun g => g t) gs = xs -> Forall2 (fun g d => is_derive g t d) gs ds ->
      is_derive (fun u => fval f (map (fun g => g u) gs)) t (dmap f xs 0 ds).
  (** the program's scalar functions are differentiable at the values that reach them *)
  Definition smooth_at (inp : env) (S : prog) : Prop := maps_at differentiable (run inp S) S.

  Lemma eval_derive (inp E : R -> env) dinp dE t sh r : pointwise sh r -> applies differentiable (E t) (sh, r) ->
    (forall x, source r = Some x -> forall i, In i (box (shp x)) -> is_derive (fun u => inp u x i) t (dinp x i)) ->
    (forall x, In x (ops r) -> forall i, In i (box (shp x)) -> is_derive (fun u => E u x i) t (dE x i)) ->
    forall i, In i (box sh) -> is_derive (fun u => eval (inp u) (E u) r i) t (deval (inp t) dinp (E t) dE r i).
  Proof.
    intros W Sm HI HE i Hi. destruct r; cbn [SSA.eval SSA.deval ops pointwise source applies fst snd] in *.
    - apply HI; [reflexivity|]. now rewrite W.
    - apply derive_const.
    - apply derive_sum. intros a Ha. apply derive_ind. intros _.
      assert (In (operand a) (map operand l)) by (apply in_map, Ha).
      assert (H' : is_derive (fun u => E u (operand a) i) t (dE (operand a) i)) by (apply HE; [|rewrite W]; auto).
      destruct (minus a); cbn; [|exact H']. apply derive_opp, H'.
    - apply derive_ind. intros P. specialize (Sm i Hi P).
      apply (is_derive_ext (fun u => fval f (map (fun g => g u) (map (fun x u => E u x i) xs)))); [intros u; now rewrite map_map|].
      apply Sm; [now rewrite map_map|]. clear - HE W Hi. induction xs as [|x xs IH]; constructor.
      + apply HE; [left; auto|]. rewrite W; [exact Hi|left; auto].
      + apply IH; [intros y Hy; apply W; right; exact Hy|intros y Hy; apply HE; right; exact Hy].
    - unfold sum1. apply derive_sum. intros j Hj. apply derive_sum. intros z _. apply derive_ind. intros _.
      apply HE; [left; auto|exact Hj].
    - unfold sum2. apply derive_sum. intros j Hj. apply derive_sum. intros k Hk. apply derive_sum. intros z _.
      apply derive_ind. intros _.
      pose proof (HE x0 (or_introl eq_refl) j Hj) as H0. pose proof (HE x1 (or_intror (or_introl eq_refl)) k Hk) as H1.
      apply (is_derive_mult (fun u => E u x0 j) (fun u => E u x1 k)); auto. intros; apply Rmult_comm.
    - apply derive_const.
  Qed.
  Lemma solution_derive (inp E : R -> env) dinp dE t : forall S, wf S ->
    (forall sh x, In (sh, Input x) S -> forall i, In i (box (shp x)) -> is_derive (fun u => inp u x i) t (dinp x i)) ->
    (forall u, solves (inp u) (E u) S) -> dsolves (inp t) dinp (E t) dE S -> maps_at differentiable (E t) S ->
    forall x, In x (declared S) -> forall i, In i (box (shp x)) -> is_derive (fun u => E u x i) t (dE x i).
  Proof.
    induction S as [|[sh r] S IH]; intros W HI So DS Sm x Hx i Hi; [destruct Hx|].
    cbn [wf SSA.dsolves declared] in *. destruct W as [HD [Wr W]], DS as [DX DS].
    inversion Sm as [|st l Sm1 Sm']; subst.
    assert (IH' : forall y, In y (declared S) -> forall j, In j (box (shp y)) -> is_derive (fun u => E u y j) t (dE y j)).
    { apply IH; auto; [intros s y Hy; apply (HI s y); right; exact Hy|intros u; apply (So u)]. }
    destruct Hx as [<-|Hx]; [|apply IH'; auto]. cbn [shp] in Hi. rewrite DX by exact Hi.
    apply (is_derive_ext (fun u => eval (inp u) (E u) r i)); [intros u; symmetry; apply (So u), Hi|].
    apply (eval_derive inp E dinp dE t sh); auto. intros y Hy. apply (HI sh). left. destruct r; inversion Hy; reflexivity.
  Qed.

  (** D S is the derivative of S along every differentiable curve of inputs *)
  Theorem D_is_derivative (inp : R -> env) dinp t S : wf S -> smooth_at (inp t) S ->
    (forall sh x, In (sh, Input x) S -> forall i, In i (box (shp x)) -> is_derive (fun u => inp u x i) t (dinp x i)) ->
    forall x, In x (declared S) -> forall i, In i (box (shp x)) ->
    is_derive (fun u => run (inp u) S x i) t (D S (inp t) dinp x i).
  Proof.
    intros W Sm HI. apply (solution_derive inp (fun u => run (inp u) S) dinp (D S (inp t) dinp) t S W HI); [|apply drun_solves, W|exact Sm].
    intros u. apply run_solves, W.
  Qed.

  (** ** The adjoint is the gradient *)
  Context (DT : fn -> nat -> fn).
  Hypothesis DT_val : forall f j xs dy, fval (DT f j) (xs ++ [fval f xs; dy]) = partial f j xs * dy.
  (** <dy | outputs of S>, where w holds the cotangents dy *)
  Definition seen (S : prog) (outs dys : list var) (w inp : env) : R :=
    Rsum (combine outs dys) (fun xy => dot (shp (fst xy)) (w (snd xy)) (run inp S (fst xy))).

  (** along every differentiable curve of the leaves, the derivative of <dy | S> is <adjoint of S at dy | that of the leaves> *)
  Theorem adjoint_is_gradient S outs dys leaves t grads (inp : R -> env) dinp u0 :
    wf S -> good_outs S outs dys -> NoDup leaves -> adjoint DT S outs dys leaves = (t, grads) -> smooth_at (inp u0) S ->
    (forall sh y, In (sh, Input y) S -> forall i, In i (box (shp y)) -> is_derive (fun u => inp u y i) u0 (dinp y i)) ->
    (forall sh y, In (sh, Input y) S -> In y leaves \/ forall i, dinp y i = 0) ->
    is_derive (fun u => seen S outs dys (inp u0) (inp u)) u0
      (Rsum grads (fun c => dot (shp (tgt c)) (run (inp u0) t (lhs c)) (dinp (tgt c)))).
  Proof.
    intros W GO ND H Sm HI HL.
    rewrite <- (adjoint_run 0 1 Rplus Rmult Rminus Ropp RTheory fval partial DT DT_val S outs dys leaves t grads (inp u0) dinp W GO ND H HL).
    apply derive_sum. intros [x y] Hxy. cbn [fst snd]. unfold Transpose.dot. apply derive_sum. intros i Hi.
    apply derive_scale, D_is_derivative; auto. apply GO. eapply in_combine_l. exact Hxy.
  Qed.

  (** so each of its elements is a partial derivative *)
  Definition replace_at (inp : env) (y : var) (j : index) (a : R) : env :=
    fun x i => if var_eqb x y && leqb i j then a else inp x i.
  Lemma replace_same inp y j : replace_at inp y j (inp y j) = inp.
  Proof.
    apply FunctionalExtensionality.functional_extensionality. intros x. apply FunctionalExtensionality.functional_extensionality. intros i.
    unfold replace_at. destruct (var_eqb x y && leqb i j) eqn:E; [|reflexivity].
    apply andb_prop in E. destruct E as [Ex Ei]. apply var_eqb_eq in Ex. apply leqb_eq in Ei. now subst.
  Qed.
  Theorem adjoint_is_partial S outs dys leaves t grads (inp : env) :
    wf S -> good_outs S outs dys -> NoDup leaves -> adjoint DT S outs dys leaves = (t, grads) -> smooth_at inp S ->
    forall c, In c grads -> forall j, In j (box (shp (tgt c))) ->
    is_derive (fun a => seen S outs dys inp (replace_at inp (tgt c) j a)) (inp (tgt c) j) (run inp t (lhs c) j).
  Proof.
    intros W GO ND H Sm c Hc j Hj. set (y := tgt c) in *.
    destruct (adjoint_wf _ _ _ _ _ _ _ _ W GO H) as [_ [_ HT]].
    assert (Hy : In y leaves) by (rewrite <- HT; apply in_map, Hc).
    pose (dinp := fun (x : var) (i : index) => if var_eqb x y && leqb i j then 1 else 0).
    pose proof (adjoint_is_gradient S outs dys leaves t grads (replace_at inp y j) dinp (inp y j) W GO ND H) as G.
    rewrite replace_same in G. specialize (G Sm).
    assert (V : Rsum grads (fun c => dot (shp (tgt c)) (run inp t (lhs c)) (dinp (tgt c))) = run inp t (lhs c) j); [|rewrite <- V; apply G].
    - transitivity (Rsum grads (fun c' => Rind (var_eqb y (tgt c')) (run inp t (lhs c') j))).
      + apply sum_ext. intros c' _. unfold Transpose.dot, dinp. destruct (var_eqb y (tgt c')) eqn:E.
        * apply var_eqb_eq in E. rewrite <- E, var_eqb_refl. cbn [andb Sums.ind].
          rewrite <- (sum_point 0 1 Rplus Rmult Rminus Ropp RTheory leqb (box (shp y)) j (run inp t (lhs c')) leqb_eq (box_nodup _) Hj).
          apply sum_ext. intros i _. assert (leqb i j = leqb j i) as ->; [|destruct (leqb j i); cbn; ring].
          apply eq_true_iff_eq. rewrite !leqb_eq. split; congruence.
        * assert (var_eqb (tgt c') y = false) as ->
            by (apply not_true_is_false; intros Q; apply var_eqb_eq in Q; rewrite Q, var_eqb_refl in E; discriminate).
          cbn [andb Sums.ind]. transitivity (Rsum (box (shp (tgt c'))) (fun _ => 0)); [apply sum_ext; intros; ring|].
          apply (sum_0 _ _ _ _ _ _ RTheory).
      + rewrite <- HT in ND. unfold y. clear - ND Hc. induction grads as [|a l IH]; [destruct Hc|]. cbn [map Sums.sum] in *. inversion ND; subst.
        destruct Hc as [->|Hc].
        * rewrite var_eqb_refl. cbn [Sums.ind].
          assert (Rsum l (fun c' => Rind (var_eqb (tgt c) (tgt c')) (run inp t (lhs c') j)) = 0) as ->; [|ring].
          transitivity (Rsum l (fun _ => 0)); [|apply (sum_0 _ _ _ _ _ _ RTheory)]. apply sum_ext. intros b Hb.
          destruct (var_eqb (tgt c) (tgt b)) eqn:E; [|reflexivity]. apply var_eqb_eq in E. exfalso. apply H1. rewrite E. now apply in_map.
        * rewrite IH by assumption. destruct (var_eqb (tgt c) (tgt a)) eqn:E; cbn; [|ring].
          apply var_eqb_eq in E. exfalso. apply H1. rewrite <- E. now apply in_map.
    - intros sh x _ i _. unfold replace_at, dinp. destruct (var_eqb x y && leqb i j).
      + apply (is_derive_id (K := R_AbsRing)).
      + apply derive_const.
    - intros sh x _. unfold dinp. destruct (var_eqb x y) eqn:E; cbn [andb]; [left|right; reflexivity].
      apply var_eqb_eq in E. now subst.
  Qed.

  (** * Choices: where each is strict, small changes of the inputs leave them as they are *)
  Definition strict (E : env) (sh : shape) (p : index -> index -> bool) (x : var) (k : index -> index) : Prop :=
    forall g, In g (box sh) -> existsb (p g) (box (shp x)) = true ->
      In (k g) (box (shp x)) /\ p g (k g) = true
      /\ forall j, In j (box (shp x)) -> p g j = true -> j <> k g -> E x j < E x (k g).
  Definition same_choice (sh : shape) (p : index -> index -> bool) (x : var) (k k' : index -> index) : Prop :=
    forall g, In g (box sh) -> existsb (p g) (box (shp x)) = true -> k' g = k g.
  Theorem strict_choice_stays (E : R -> env) sh p x k t :
    (forall i, In i (box (shp x)) -> continuous (fun u => E u x i) t) -> strict (E t) sh p x k ->
    locally t (fun u => forall k', chooses Rle (E u) sh p x k' -> same_choice sh p x k k').
  Proof.
    intros C H.
    assert (L : locally t (fun u => forall g, In g (box sh) -> forall j, In j (box (shp x)) ->
      existsb (p g) (box (shp x)) = true -> p g j = true -> j <> k g -> E u x j < E u x (k g))).
    { apply locally_all. intros g Hg. apply locally_all. intros j Hj.
      destruct (existsb (p g) (box (shp x))) eqn:Ex; [|apply filter_forall; discriminate].
      destruct (p g j) eqn:Pj; [|apply filter_forall; discriminate]. destruct (H g Hg Ex) as [Hk [_ S]].
      destruct (list_eq_dec Z.eq_dec j (k g)) as [->|N]; [apply filter_forall; intros u _ _ N; now elim N|].
      eapply filter_imp; [|apply (locally_less (fun u => E u x j) (fun u => E u x (k g)) t); auto]. auto. }
    eapply filter_imp; [|exact L]. cbv beta. intros u Lu k' Hk' g Hg Ex. destruct (Hk' g Hg Ex) as [Ik [Pk M]].
    destruct (list_eq_dec Z.eq_dec (k' g) (k g)) as [|N]; [assumption|]. exfalso.
    specialize (Lu g Hg (k' g) Ik Ex Pk N). destruct (H g Hg Ex) as [Hk [Pkg _]]. specialize (M _ Hk Pkg). lra.
  Qed.
  (** the greatest value has the derivative of the element that is chosen *)
  Theorem greatest_is_derivative (E : R -> env) dE inp sh p x (k : R -> index -> index) t :
    (forall i, In i (box (shp x)) -> is_derive (fun u => E u x i) t (dE x i)) ->
    (forall u, chooses Rle (E u) sh p x (k u)) -> strict (E t) sh p x (k t) ->
    forall g, In g (box sh) -> existsb (p g) (box (shp x)) = true ->
    is_derive (fun u => eval inp (E u) (greatest p x (k u)) g) t (dE x (k t g)).
  Proof.
    intros HE Hk S g Hg Ex.
    pose proof (strict_choice_stays E sh p x (k t) t (fun i Hi => derive_continuous _ _ _ (HE i Hi)) S) as L.
    apply (is_derive_ext_loc (fun u => E u x (k t g))); [|apply HE, (S g Hg Ex)].
    eapply filter_imp; [|exact L]. cbv beta. intros u Lu.
    destruct (greatest_value 0 1 Rplus Rmult Rminus Ropp RTheory fval Rle inp (E u) sh p x (k u) g (Hk u) Hg Ex) as [-> _].
    now rewrite (Lu (k u) (Hk u) g Hg Ex).
  Qed.
  (** a program that looks a choice up has the derivative of the program in which the choice is fixed *)
  Theorem choice_is_derivative (P : (index -> index) -> prog) (X : R -> env) sh p y (k : R -> index -> index) (inp : R -> env) dinp t :
    (forall i, In i (box (shp y)) -> continuous (fun u => X u y i) t) ->
    (forall u, chooses Rle (X u) sh p y (k u)) -> strict (X t) sh p y (k t) ->
    (forall u k', same_choice sh p y (k t) k' -> forall x i, run (inp u) (P k') x i = run (inp u) (P (k t)) x i) ->
    wf (P (k t)) -> smooth_at (inp t) (P (k t)) ->
    (forall sh x, In (sh, Input x) (P (k t)) -> forall i, In i (box (shp x)) -> is_derive (fun u => inp u x i) t (dinp x i)) ->
    forall x, In x (declared (P (k t))) -> forall i, In i (box (shp x)) ->
    is_derive (fun u => run (inp u) (P (k u)) x i) t (D (P (k t)) (inp t) dinp x i).
  Proof.
    intros C Hk S Ext W Sm HI x Hx i Hi.
    apply (is_derive_ext_loc (fun u => run (inp u) (P (k t)) x i)); [|apply D_is_derivative; auto].
    eapply filter_imp; [|exact (strict_choice_stays X sh p y (k t) t C S)]. cbv beta. intros u Lu.
    symmetry. apply Ext, Lu, Hk.
  Qed.
End Gradient.
