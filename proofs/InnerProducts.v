(** Figs. 14 and 15: inner products, and the rules about lets, pairs and variables that stand around those of Fig. 16
    (tensorlang/derivatives/derivation.py, adjoint.py).  6.25 to 6.29 are in Transpose.v (values) and Bound.v (costs).

    The total derivative D act, where act says which variables are differentiated, is any transformation with the
    equations of Fig. 13 that a rule uses; a rule that uses one has it as a premise. Figure13.v has one with all. *)
Require Import String List Bool ZArith Ring Lia.
Import ListNotations.
Require Import TL.Sums TL.Boxes TL.Core TL.Free.
Open Scope list_scope.

Section InnerProducts.
  Context {K : Type} (rO rI : K) (radd rmul rsub : K -> K -> K) (ropp : K -> K).
  Hypothesis Rth : ring_theory rO rI radd rmul rsub ropp eq.
  Add Ring KRing7 : Rth.
  Infix "+" := radd. Infix "*" := rmul.
  Notation sum := (sum rO radd).
  Notation ind := (ind rO).
  Context {fn : Type} (fval : fn -> list K -> K) (fcost : fn -> Z) (R : data).
  Hypothesis fcost_nonneg : forall f, (0 <= fcost f)%Z.
  Notation expr := (@expr K fn).
  Notation venv := (@venv K).
  Notation eval := (eval rO radd rmul rsub fval R).
  Notation cost := (cost fcost R).
  Implicit Types e : expr.

  (** * Fig. 14
      What an inner product ranges over: the arrays in a value of some type, each with its path, its indices, and the
      predicate outside of which it isn't read. *)
  Record part := Part { path : list bool; own : binders; where_ : prd }.
  Definition space := list part.
  Definition under (b : bool) (t : space) : space := map (fun c => Part (b :: path c) (own c) (where_ c)) t.
  (** of type (T0, T1) *)
  Definition both (t0 t1 : space) : space := under true t0 ++ under false t1.
  Definition array (is : binders) (P : prd) : space := [Part [] is P].
  (** the same arrays, nothing of which is read *)
  Definition none (t : space) : space := map (fun c => Part (path c) (own c) (PLt (ACst 0) (ACst 0))) t.

  Inductive products :=
  | SLet (x : string) (e : expr) (S : products)
  | SInner (t : space) (e0 e1 : expr)               (* <e0 | e1>_[P] *)
  | SPlus (S0 S1 : products)
  | SZero.

  Definition inner (s : ienv) (t : space) (v0 v1 : @val K) : K :=
    sum t (fun c => sum (bbox (own c)) (fun zs => ind (pval R (upds s (own c) zs) (where_ c)) (v0 (path c) zs * v1
      (path c) zs))).
  Fixpoint value (r : venv) (s : ienv) (S : products) : K :=
    match S with
    | SLet x e T => value (upd r x (eval r s e)) s T
    | SInner t e0 e1 => inner s t (eval r s e0) (eval r s e1)
    | SPlus T0 T1 => value r s T0 + value r s T1
    | SZero => rO
    end.

  (** * Fig. 17: the extended cost; of an inner product, 6.33 and 6.34 *)
  Open Scope Z_scope.
  Definition points (s : ienv) (t : space) : Z :=
    zsum t (fun c => zsum (bbox (own c)) (fun zs => b2z (pval R (upds s (own c) zs) (where_ c)))).
  Fixpoint spent (s : ienv) (S : products) : Z :=
    match S with
    | SLet _ e T => cost s e + spent s T
    | SInner t e0 e1 => cost s e0 + cost s e1 + points s t
    | SPlus T0 T1 => spent s T0 + spent s T1
    | SZero => 0
    end.
  Close Scope Z_scope.

  Fixpoint sfv (S : products) : list string :=
    match S with
    | SLet x e T => efv e ++ without x (sfv T)
    | SInner _ e0 e1 => efv e0 ++ efv e1
    | SPlus T0 T1 => sfv T0 ++ sfv T1
    | SZero => []
    end.
  Notation eval_ext := (eval_ext rO radd rmul rsub fval R).
  Notation weaken := (eval_weaken rO radd rmul rsub fval R).
  Lemma inner_ext s t v0 v1 w0 w1 : same_val v0 w0 -> same_val v1 w1 -> inner s t v0 v1 = inner s t w0 w1.
  Proof. intros H0 H1. apply sum_ext. intros c _. apply sum_ext. intros zs _. now rewrite H0, H1. Qed.
  Lemma value_ext s : forall S r r', same_vals (sfv S) r r' -> value r s S = value r' s S.
  Proof.
    induction S as [x e S IH|t e0 e1|S0 IH0 S1 IH1|]; intros r r' H; cbn [value sfv] in *; [..|reflexivity].
    - apply IH, same_vals_upd; [|eapply same_vals_r, H]. apply eval_ext; [eapply same_vals_l, H|apply agree_refl].
    - apply inner_ext; (apply eval_ext; [|apply agree_refl]); [eapply same_vals_l, H|eapply same_vals_r, H].
    - rewrite (IH0 r r'), (IH1 r r'); eauto using same_vals_l, same_vals_r.
  Qed.
  Lemma value_weaken s S r x v : ~ In x (sfv S) -> value (upd r x v) s S = value r s S.
  Proof. intros N. apply value_ext. now apply same_vals_fresh. Qed.
  Lemma points_nonneg s t : (0 <= points s t)%Z.
  Proof. apply zsum_nonneg. intros c _. apply zsum_nonneg. intros zs _. apply b2z_range. Qed.
  Lemma spent_nonneg s S : (0 <= spent s S)%Z.
  Proof.
    induction S; cbn [spent]; try lia.
    - pose proof (cost_nonneg fcost R fcost_nonneg e s). lia.
    - pose proof (cost_nonneg fcost R fcost_nonneg e0 s). pose proof (cost_nonneg fcost R fcost_nonneg e1 s).
      pose proof (points_nonneg s t). lia.
  Qed.

  (** an inner product of pairs is that of their parts *)
  Lemma inner_app s t0 t1 v w : inner s (t0 ++ t1) v w = inner s t0 v w + inner s t1 v w.
  Proof. apply (sum_app _ _ _ _ _ _ Rth). Qed.
  Lemma inner_under s b t v w : inner s (under b t) v w = inner s t (fun d => v (b :: d)) (fun d => w (b :: d)).
  Proof. unfold inner, under. rewrite sum_map. reflexivity. Qed.
  Lemma inner_both s t0 t1 v w : inner s (both t0 t1) v w
    = inner s t0 (fun d => v (true :: d)) (fun d => w (true :: d)) + inner s t1 (fun d => v (false :: d)) (fun d => w
      (false :: d)).
  Proof. unfold both. now rewrite inner_app, !inner_under. Qed.
  Lemma inner_none s t v w : inner s (none t) v w = rO.
  Proof.
    unfold inner, none. rewrite sum_map. transitivity (sum t (fun _ => rO)); [|apply (sum_0 _ _ _ _ _ _ Rth)].
    apply sum_ext. intros c _. apply (sum_0 _ _ _ _ _ _ Rth).
  Qed.
  Lemma inner_0 s t (v w : @val K) : (forall d zs, v d zs = rO) -> inner s t v w = rO.
  Proof.
    intros H. transitivity (sum t (fun _ => rO)); [|apply (sum_0 _ _ _ _ _ _ Rth)]. apply sum_ext. intros c _.
    transitivity (sum (bbox (own c)) (fun _ => rO)); [|apply (sum_0 _ _ _ _ _ _ Rth)]. apply sum_ext. intros zs _.
    rewrite H. destruct (pval R _ _); cbn; ring.
  Qed.
  Lemma inner_comm s t v w : inner s t v w = inner s t w v.
  Proof. apply sum_ext. intros c _. apply sum_ext. intros zs _. f_equal. ring. Qed.
  Lemma points_both s t0 t1 : points s (both t0 t1) = (points s t0 + points s t1)%Z.
  Proof. unfold points, both, under. rewrite zsum_app, !zsum_map. reflexivity. Qed.
  Lemma points_none s t : points s (none t) = 0%Z.
  Proof.
    unfold points, none. rewrite zsum_map. transitivity (zsum t (fun _ => 0%Z)); [|apply zsum_0]. apply zsum_ext.
      intros c _. apply zsum_0.
  Qed.

  (** * Fig. 15 *)
  Variable D : (string -> bool) -> expr -> expr.
  Variable dname : string -> string.
  Implicit Types act : string -> bool.
  (** x is differentiated too *)
  Definition also (x : string) act : string -> bool := fun y => String.eqb x y || act y.

  (** 6.14, let: <dY | D(let X = e0 in e1)>  ->  let X = e0 in let dX = D e0 in <dY | D e1>, by 6.13 *)
  Definition D_let := forall act x e0 e1,
    D act (ELet x e0 e1) = ELet x e0 (ELet (dname x) (D act e0) (D (also x act) e1)).
  Theorem value_6_14 : D_let -> forall act t dY x e0 e1 r s, ~ In x (efv dY) -> ~ In (dname x) (efv dY) ->
    value r s (SLet x e0 (SLet (dname x) (D act e0) (SInner t dY (D (also x act) e1)))) =
      value r s (SInner t dY (D act (ELet x e0 e1))).
  Proof.
    intros H act t dY x e0 e1 r s N N'. rewrite H. cbn [value Core.eval]. apply inner_ext; intros d w; [|reflexivity].
    rewrite weaken by assumption. now apply weaken.
  Qed.
  Theorem cost_6_14 : D_let -> forall act t dY x e0 e1 s,
    spent s (SLet x e0 (SLet (dname x) (D act e0) (SInner t dY (D (also x act) e1)))) =
      spent s (SInner t dY (D act (ELet x e0 e1))).
  Proof. intros H act t dY x e0 e1 s. rewrite H. cbn [spent Core.cost]. lia. Qed.

  (** 6.15, order of lets: let dX = D e0 in let X = e1 in S  ->  let X = e1 in let dX = D e0 in S *)
  Theorem value_6_15 x dx d0 e1 S r s : x <> dx -> ~ In dx (efv e1) -> ~ In x (efv d0) ->
    value r s (SLet x e1 (SLet dx d0 S)) = value r s (SLet dx d0 (SLet x e1 S)).
  Proof.
    intros Dx N1 N0. cbn [value]. apply value_ext. intros y _ d w. destruct (string_dec dx y) as [<-|Dy].
    - rewrite upd_same, (upd_other _ x) by assumption. rewrite upd_same. now apply weaken.
    - rewrite (upd_other _ dx) by assumption. destruct (string_dec x y) as [<-|D'].
      + rewrite !upd_same. symmetry. now apply weaken.
      + now rewrite !upd_other.
  Qed.
  Theorem cost_6_15 x dx d0 e1 S s : spent s (SLet x e1 (SLet dx d0 S)) = spent s (SLet dx d0 (SLet x e1 S)).
  Proof. cbn [spent]. lia. Qed.

  (** 6.16, pair: <dY | D(e0, e1)>  ->  <fst dY | D e0> + <snd dY | D e1>, by 6.7; dY is a variable *)
  Definition D_pair := forall act e0 e1, D act (EPair e0 e1) = EPair (D act e0) (D act e1).
  Theorem value_6_16 : D_pair -> forall act t0 t1 dY e0 e1 r s,
    value r s (SPlus (SInner t0 (EFst dY) (D act e0)) (SInner t1 (ESnd dY) (D act e1))) =
      value r s (SInner (both t0 t1) dY (D act (EPair e0 e1))).
  Proof. intros H act t0 t1 dY e0 e1 r s. rewrite H. cbn [value]. now rewrite inner_both. Qed.
  Theorem cost_6_16 : D_pair -> forall act t0 t1 dY e0 e1 s, cost s dY = 0%Z ->
    spent s (SPlus (SInner t0 (EFst dY) (D act e0)) (SInner t1 (ESnd dY) (D act e1))) =
      spent s (SInner (both t0 t1) dY (D act (EPair e0 e1))).
  Proof. intros H act t0 t1 dY e0 e1 s C. rewrite H. cbn [spent Core.cost]. rewrite points_both. lia. Qed.

  (** 6.17, projection: <dY | D(fst x)>_[P]  ->  <([P]*dY, 0) | D x>, by 6.8.
      As P is applied, it may be dropped (any Q that P implies will do); dropping it counts the whole input, which the
      $(T_I) of Theorem 6.35 pays for, and keeping it costs nothing, which is what (B) counts. *)
  Definition D_fst := forall act e, D act (EFst e) = EFst (D act e).
  Definition masked (is : binders) (P : prd) (dY : expr) : expr := gens is (EInd P (at_ dY is)).
  Theorem value_6_17 : D_fst -> forall act is P Q t1 dY e r s, NoDup (bnames is) -> (forall i, In i (bnames is) ->
    ~ In i (eix dY)) ->
    (forall zs, In zs (bbox is) -> pval R (upds s is zs) P = true -> pval R (upds s is zs) Q = true) ->
    value r s (SInner (both (array is Q) t1) (EPair (masked is P dY) (ECst rO)) (D act e)) =
      value r s (SInner (array is P) dY (D act (EFst e))).
  Proof.
    intros H act is P Q t1 dY e r s N Nd PQ. rewrite H. cbn [value]. rewrite inner_both.
    rewrite (inner_0 s t1) by reflexivity. unfold inner at 1, array, inner. cbn [Sums.sum path own where_ Core.eval].
    assert (A : forall a b : K, a = b -> a + rO + rO = b + rO) by (intros a b ->; ring). apply A. apply sum_ext.
      intros zs Hz.
    pose proof (eval_gens rO radd rmul rsub fval R r is (EInd P (at_ dY is)) [] [] zs s Hz) as E.
      rewrite app_nil_r in E.
    unfold masked. rewrite E. cbn [Core.eval]. rewrite eval_at, app_nil_r, upds_vals by (auto; eapply bbox_length;
      eassumption).
    rewrite (eval_ext dY r r (upds s is zs) s (same_vals_refl _ _) (upds_agree _ _ _ _ Nd)).
    specialize (PQ zs Hz). destruct (pval R _ P); [rewrite PQ by reflexivity; reflexivity|].
    destruct (pval R _ Q); cbn [Sums.ind]; ring.
  Qed.
  Theorem cost_6_17 : D_fst -> forall act is P t1 dY e s, cost s dY = 0%Z -> (forall i, In i (bnames is) ->
    ~ In i (eix dY)) ->
    spent s (SInner (both (array is P) (none t1)) (EPair (masked is P dY) (ECst rO)) (D act e)) =
      spent s (SInner (array is P) dY (D act (EFst e))).
  Proof.
    intros H act is P t1 dY e s C Nd. rewrite H. cbn [spent Core.cost]. rewrite points_both, points_none, C.
    assert (M : cost s (masked is P dY) = 0%Z); [|lia]. unfold masked. rewrite cost_gens.
    transitivity (zsum (bbox is) (fun _ => 0%Z)); [|apply zsum_0]. apply zsum_ext. intros zs _. cbn [Core.cost].
      unfold at_.
    rewrite cost_accs, (cost_ext fcost R dY _ s (upds_agree _ _ _ _ Nd)), C. destruct (pval R _ P); reflexivity.
  Qed.

  (** 6.18, pairing: <(dY0, 0) | e> + <(0, dY1) | e>  ->  <(dY0, dY1) | e> *)
  Theorem value_6_18 t0 t1 dY0 dY1 e r s :
    value r s (SInner (both t0 t1) (EPair dY0 dY1) e)
    = value r s (SPlus (SInner (both t0 t1) (EPair dY0 (ECst rO)) e) (SInner (both t0 t1) (EPair (ECst rO) dY1) e)).
  Proof. cbn [value]. rewrite !inner_both. cbn [Core.eval].
    rewrite (inner_0 s t1 (fun d w => rO)), (inner_0 s t0 (fun d w => rO)) by reflexivity. ring. Qed.
  Theorem cost_6_18 t0 t1 dY0 dY1 e s :
    (spent s (SInner (both t0 t1) (EPair dY0 dY1) e)
     <= spent s (SPlus (SInner (both t0 (none t1)) (EPair dY0 (ECst rO)) e) (SInner (both (none t0) t1) (EPair (ECst
       rO) dY1) e)))%Z.
  Proof. cbn [spent Core.cost]. rewrite !points_both, !points_none. pose proof (cost_nonneg fcost R fcost_nonneg e s).
    lia. Qed.

  (** 6.19, reversal: let dX = D e0 in <e1 | dX>_[P] + S  ->  let dX = e1 in <dX | D e0>_[P] + S,
      where S and e1 don't read dX.  This is what turns the program around. *)
  Theorem value_6_19 dx t d0 e1 S r s : ~ In dx (efv d0) -> ~ In dx (efv e1) -> ~ In dx (sfv S) ->
    value r s (SLet dx e1 (SPlus (SInner t (EVar dx) d0) S)) = value r s (SLet dx d0 (SPlus (SInner t e1 (EVar dx)) S)).
  Proof.
    intros N0 N1 NS. cbn [value]. rewrite !value_weaken by assumption. f_equal. cbn [Core.eval]. rewrite !upd_same.
    apply inner_ext; intros d w; [symmetry|]; now apply weaken.
  Qed.
  Theorem cost_6_19 dx t d0 e1 S s :
    spent s (SLet dx e1 (SPlus (SInner t (EVar dx) d0) S)) = spent s (SLet dx d0 (SPlus (SInner t e1 (EVar dx)) S)).
  Proof. cbn [spent Core.cost]. lia. Qed.

  (** 6.20, unused differential: let dX = D e0 in S  ->  S *)
  Theorem value_6_20 dx d0 S r s : ~ In dx (sfv S) -> value r s S = value r s (SLet dx d0 S).
  Proof. intros N. cbn [value]. now rewrite value_weaken. Qed.
  Theorem cost_6_20 dx d0 S s : (spent s S <= spent s (SLet dx d0 S))%Z.
  Proof. cbn [spent]. pose proof (cost_nonneg fcost R fcost_nonneg d0 s). lia. Qed.

  (** 6.21, variable: <e | D X>_[P]  ->  <e | dX>_[P], by 6.1 *)
  Definition D_var := forall act x, act x = true -> D act (EVar x) = EVar (dname x).
  Theorem value_6_21 : D_var -> forall act x t e r s, act x = true ->
    value r s (SInner t e (EVar (dname x))) = value r s (SInner t e (D act (EVar x))).
  Proof. intros H act x t e r s A. now rewrite H. Qed.
  Theorem cost_6_21 : D_var -> forall act x t e s, act x = true ->
    spent s (SInner t e (EVar (dname x))) = spent s (SInner t e (D act (EVar x))).
  Proof. intros H act x t e s A. now rewrite H. Qed.

  (** 6.22, inactive variable, and 6.23, constant: <e | D X>_[P]  ->  0 and <e | D c>_[P]  ->  0, by 6.2 and 6.3 *)
  Definition D_inactive := forall act x, act x = false -> D act (EVar x) = ECst rO.
  Theorem value_6_22 : D_inactive -> forall act x t e r s, act x = false ->
    value r s SZero = value r s (SInner t e (D act (EVar x))).
  Proof. intros H act x t e r s A. rewrite H by exact A. cbn [value]. rewrite inner_comm. symmetry. now apply inner_0. Qed.
  Theorem cost_6_22 act x t e s : (spent s SZero <= spent s (SInner t e (D act (EVar x))))%Z.
  Proof. apply spent_nonneg. Qed.
  Definition D_constant := forall act c, D act (ECst c) = ECst rO.
  Theorem value_6_23 : D_constant -> forall act c t e r s, value r s SZero = value r s (SInner t e (D act (ECst c))).
  Proof. intros H act c t e r s. rewrite H. cbn [value]. rewrite inner_comm. symmetry. now apply inner_0. Qed.
  Theorem cost_6_23 act c t e s : (spent s SZero <= spent s (SInner t e (D act (ECst c))))%Z.
  Proof. apply spent_nonneg. Qed.

  (** 6.24, zero: S + 0  ->  S *)
  Theorem value_6_24 S r s : value r s S = value r s (SPlus S SZero).
  Proof. cbn [value]. ring. Qed.
  Theorem cost_6_24 S s : spent s S = spent s (SPlus S SZero).
  Proof. cbn [spent]. lia. Qed.
End InnerProducts.
