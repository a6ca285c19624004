(** The logarithm of the absolute value of Euler's gamma function, and its derivatives. The definition is Euler's limit
    (1729), written as a series; it has a value wherever gamma has one: at all real numbers except 0, -1, -2, .. *)
Require Import Reals Lra Lia PSeries_reg.
From Coquelicot Require Import Coquelicot.
Open Scope R_scope.

(** * Definitions *)
Definition lgamma (x : R) : R := - ln (Rabs x) + Series (fun k => x * ln (1 + / INR (S k)) - ln (Rabs (1 + x / INR (S k)))).
Definition digamma (x : R) : R := - / x + Series (fun k => ln (1 + / INR (S k)) - / (x + INR (S k))).
(** the m-th derivative of digamma, where 1 <= m *)
Definition polygamma (m : nat) (x : R) : R := (-1) ^ S m * INR (fact m) * Series (fun k => / (x + INR k) ^ S m).
(** not 0, -1, -2, .. *)
Definition no_pole (x : R) : Prop := forall k, x + INR k <> 0.

Lemma derive_eq (g : R -> R) t (a b : R) : is_derive g t a -> a = b -> is_derive g t b.
Proof. now intros H <-. Qed.

(** * Series differentiated term by term *)
Lemma inverses_vanish : is_lim_seq (fun n => / INR (S n)) 0.
Proof. apply (is_lim_seq_incr_1 (fun n => / INR n) 0), (is_lim_seq_inv _ p_infty); [exact is_lim_seq_INR|discriminate]. Qed.
Lemma squares_converge : ex_series (fun k => / INR (S k) ^ 2).
Proof.
  apply (ex_series_le (K := R_AbsRing) (V := R_CompleteNormedModule) _ (fun k => 2 * (/ INR (S k) - / INR (S (S k))))).
  - intros k. pose proof (pos_INR k). change (norm (/ INR (S k) ^ 2)) with (Rabs (/ INR (S k) ^ 2)). rewrite !S_INR.
    assert (P : 0 < / (INR k + 1) ^ 2) by (apply Rinv_0_lt_compat; nra). rewrite Rabs_pos_eq by lra.
    replace (2 * (/ (INR k + 1) - / (INR k + 1 + 1))) with (/ (INR k + 1) ^ 2 * (2 * (INR k + 1) / (INR k + 1 + 1))) by (field; lra).
    rewrite <- (Rmult_1_r (/ _)) at 1. apply Rmult_le_compat_l; [lra|]. apply Rle_div_r; lra.
  - apply (ex_series_scal (K := R_AbsRing) (V := R_NormedModule) 2). exists 1.
    assert (E : forall n, sum_n (fun k => / INR (S k) - / INR (S (S k))) n = 1 - / INR (S (S n))).
    { induction n as [|n IH]; [rewrite sum_O; cbn; field|]. rewrite sum_Sn, IH. unfold plus. cbn -[INR]. ring. }
    apply (is_lim_seq_ext (fun n => 1 - / INR (S (S n))) _ 1); [intros n; symmetry; apply E|].
    replace 1 with (1 - 0) at 1 by ring. apply is_lim_seq_minus'; [apply is_lim_seq_const|].
    apply (is_lim_seq_incr_1 (fun n => / INR (S n)) 0), inverses_vanish.
Qed.
Lemma dominated (a : nat -> R) C : (forall k, Rabs (a k) <= C * / INR (S k) ^ 2) -> ex_series a.
Proof.
  intros H. apply (ex_series_le (K := R_AbsRing) (V := R_CompleteNormedModule) a (fun k => C * / INR (S k) ^ 2)); [exact H|].
  exact (ex_series_scal (K := R_AbsRing) (V := R_NormedModule) C _ squares_converge).
Qed.
(** where derivatives are at most C / k^2 nearby *)
Lemma termwise (u v : nat -> R -> R) C x (r : posreal) :
  (forall k y, Boule x r y -> is_derive (u k) y (v k y)) -> (forall k y, Boule x r y -> Rabs (v k y) <= C * / INR (S k) ^ 2) ->
  (forall y, Boule x r y -> ex_series (fun k => u k y)) ->
  is_derive (fun y => Series (fun k => u k y)) x (Series (fun k => v k x)).
Proof.
  intros D B Ex. set (M := fun k => C * / INR (S k) ^ 2).
  assert (EM : ex_series M) by exact (ex_series_scal (K := R_AbsRing) (V := R_NormedModule) C _ squares_converge).
  apply is_derive_Reals. apply (CVU_derivable (fun n y => sum_n (fun k => u k y) n) (fun n y => sum_n (fun k => v k y) n)
    (fun y => Series (fun k => u k y)) (fun y => Series (fun k => v k y)) x r).
  - intros eps He. pose proof (Series_correct _ EM) as L. apply is_lim_seq_Reals in L. destruct (L eps He) as [N HN]. exists N.
    intros n y Hn Hy. specialize (HN n Hn). unfold R_dist in HN.
    assert (A : forall k, 0 <= Rabs (v (S n + k)%nat y) <= M (S n + k)%nat) by (intros k; split; [apply Rabs_pos|apply B, Hy]).
    assert (EMn : ex_series (fun k => M (S n + k)%nat)) by apply (ex_series_incr_n M), EM.
    assert (Ev : ex_series (fun k => v k y)) by (apply (dominated _ C); intros k; apply B, Hy).
    rewrite (Series_incr_n (fun k => v k y) (S n)) by (auto; lia). rewrite (Series_incr_n M (S n)) in HN by (auto; lia).
    cbn [pred] in *. rewrite sum_n_Reals in *. rewrite Rabs_minus_sym in HN.
    match goal with |- Rabs ?a < _ => replace a with (Series (fun k => v (S n + k)%nat y)) by ring end.
    apply (Rle_lt_trans _ (Series (fun k => M (S n + k)%nat))).
    + eapply Rle_trans; [apply Series_Rabs|apply Series_le; [exact A|exact EMn]].
      apply (ex_series_le (K := R_AbsRing) (V := R_CompleteNormedModule) _ (fun k => M (S n + k)%nat)); [|exact EMn].
      intros k. change (norm (Rabs (v (S n + k)%nat y))) with (Rabs (Rabs (v (S n + k)%nat y))). rewrite Rabs_Rabsolu. apply A.
    + eapply Rle_lt_trans; [|exact HN]. eapply Rle_trans; [apply Rle_abs|right; f_equal; ring].
  - intros y Hy. apply is_lim_seq_Reals. exact (Series_correct _ (Ex y Hy)).
  - intros n y Hy. apply is_derive_Reals. apply (is_derive_sum_n (K := R_AbsRing) (V := R_NormedModule)). intros k _. apply D, Hy.
  - unfold Boule. rewrite Rminus_eq_0, Rabs_R0. apply cond_pos.
Qed.

(** * Poles are at a distance that grows as k *)
Lemma clear x : no_pole x -> exists c : posreal, forall k y, Boule x c y -> c * INR (S k) <= Rabs (y + INR k).
Proof.
  intros H. destruct (nfloor_ex (2 * Rabs x + 2)) as [N [_ HN]]; [pose proof (Rabs_pos x); lra|].
  assert (F : forall n, exists c, 0 < c <= / 4 /\ forall k, (k < n)%nat -> 2 * c * (INR N + 2) <= Rabs (x + INR k)).
  { pose proof (pos_INR N). induction n as [|n [c [Hc IH]]]; [exists (/ 4); split; [lra|lia]|].
    pose proof (Rabs_pos_lt _ (H n)) as P. exists (Rmin c (Rabs (x + INR n) * / (2 * (INR N + 2)))). split; [split|].
    - apply Rmin_pos; [lra|]. apply Rmult_lt_0_compat; [exact P|]. apply Rinv_0_lt_compat. lra.
    - eapply Rle_trans; [apply Rmin_l|lra].
    - intros k Hk. destruct (Nat.eq_dec k n) as [->|Ne].
      + apply (Rle_trans _ (2 * (Rabs (x + INR n) * / (2 * (INR N + 2))) * (INR N + 2))).
        * apply Rmult_le_compat_r; [lra|]. apply Rmult_le_compat_l; [lra|]. apply Rmin_r.
        * right. field. lra.
      + eapply Rle_trans; [|apply (IH k); lia]. apply Rmult_le_compat_r; [lra|]. apply Rmult_le_compat_l; [lra|]. apply Rmin_l. }
  destruct (F (S N)) as [c [[Hc Hc4] A]].
  assert (B : forall k, 2 * c * INR (S k) <= Rabs (x + INR k)).
  { intros k. pose proof (pos_INR k). rewrite S_INR. destruct (Nat.le_gt_cases k N) as [L|L].
    - apply le_INR in L as L'. eapply Rle_trans; [|apply (A k); lia]. apply Rmult_le_compat_l; lra.
    - apply (le_INR (S N)) in L. rewrite S_INR in L. pose proof (Rabs_triang_inv (INR k) (- x)) as T.
      replace (INR k - - x) with (x + INR k) in T by ring. rewrite Rabs_Ropp, (Rabs_pos_eq (INR k)) in T by lra. nra. }
  exists (mkposreal c Hc). cbn [pos]. intros k y Hy. unfold Boule in Hy. cbn [pos] in Hy. specialize (B k).
  pose proof (Rabs_triang_inv (x + INR k) (x - y)) as T. replace (x + INR k - (x - y)) with (y + INR k) in T by ring.
  rewrite (Rabs_minus_sym x y) in T. pose proof (pos_INR k). rewrite S_INR in *. nra.
Qed.
Lemma at_center x (c : posreal) : Boule x c x.
Proof. unfold Boule. rewrite Rminus_eq_0, Rabs_R0. apply cond_pos. Qed.
Lemma INR_S_positive k : 0 < INR (S k).
Proof. apply lt_0_INR. lia. Qed.
Lemma clear_no_pole (c : posreal) y : (forall k, c * INR (S k) <= Rabs (y + INR k)) -> no_pole y.
Proof.
  intros H k E. specialize (H k). rewrite E, Rabs_R0 in H. pose proof (cond_pos c). pose proof (INR_S_positive k). nra.
Qed.

(** * The series converge *)
Lemma ln_bounds s : 0 < s -> 1 - / s <= ln s <= s - 1.
Proof.
  intros H. pose proof (exp_ineq1_le (ln s)) as U. rewrite exp_ln in U by exact H. pose proof (exp_ineq1_le (- ln s)) as L.
  rewrite exp_Ropp, exp_ln in L by exact H. lra.
Qed.
Lemma near_one c t : 0 < c -> c <= Rabs (1 + t) -> Rabs (ln (Rabs (1 + t)) - t) <= (2 + / c) * (t * t).
Proof.
  intros Hc H. pose proof (Rinv_0_lt_compat c Hc) as Ic. apply Rabs_le.
  assert (Is : forall s, c <= s -> 0 < / s <= / c) by (intros s Hs; split; [apply Rinv_0_lt_compat; lra|apply Rinv_le_contravar; lra]).
  unfold Rabs in H |- *. destruct (Rcase_abs (1 + t)) as [L|L].
  - destruct (ln_bounds (- (1 + t)) ltac:(lra)) as [B0 B1]. pose proof (Is _ H). assert (T : 1 <= t * t) by nra.
    assert (/ c <= t * t * / c) by nra. assert (- 1 - t <= t * t) by nra. lra.
  - destruct (ln_bounds (1 + t) ltac:(lra)) as [B0 B1]. pose proof (Is _ H). assert (E : (1 + t) * / (1 + t) = 1) by (field; lra).
    assert (t * t * / (1 + t) <= t * t * / c) by nra. assert (1 - / (1 + t) - t = - (t * t * / (1 + t))) by (field; lra). nra.
Qed.
Lemma over_square a n : n <> 0 -> (a / n) * (a / n) = a * a * / n ^ 2.
Proof. intros H. field. exact H. Qed.
Lemma log_step k : Rabs (ln (1 + / INR (S k)) - / INR (S k)) <= 3 * / INR (S k) ^ 2.
Proof.
  pose proof (INR_S_positive k) as P. pose proof (Rinv_0_lt_compat _ P) as Q.
  pose proof (near_one 1 (/ INR (S k)) ltac:(lra)) as H. rewrite (Rabs_pos_eq (1 + _)) in H by lra.
  eapply Rle_trans; [apply H; lra|]. right. field. lra.
Qed.
Lemma lgamma_converges x : no_pole x -> ex_series (fun k => x * ln (1 + / INR (S k)) - ln (Rabs (1 + x / INR (S k)))).
Proof.
  intros H. destruct (clear x H) as [c Hc]. apply (dominated _ (Rabs x * 3 + (2 + / c) * (x * x))). intros k.
  pose proof (INR_S_positive k) as P. pose proof (cond_pos c). specialize (Hc (S k) x (at_center x c)).
  pose proof (log_step k) as A. pose proof (near_one c (x / INR (S k)) (cond_pos c)) as B.
  rewrite over_square in B by lra. set (n := INR (S k)) in *.
  replace (x * ln (1 + / n) - ln (Rabs (1 + x / n))) with (x * (ln (1 + / n) - / n) - (ln (Rabs (1 + x / n)) - x / n)) by (field; lra).
  eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_Ropp, Rabs_mult, Rmult_plus_distr_r, Rmult_assoc, Rmult_assoc.
  apply Rplus_le_compat; [apply Rmult_le_compat_l; [apply Rabs_pos|exact A]|]. apply B.
  replace (1 + x / n) with ((x + n) * / n) by (field; lra). rewrite Rabs_mult, (Rabs_pos_eq (/ n)) by (left; apply Rinv_0_lt_compat, P).
  apply Rle_div_r; [exact P|]. eapply Rle_trans; [|exact Hc]. apply Rmult_le_compat_l; [lra|]. unfold n. rewrite (S_INR (S k)). lra.
Qed.
(** what is shared by the terms of digamma and those of the derivative of lgamma *)
Lemma digamma_terms x c k : 0 < c -> c * INR (S k) <= Rabs (x + INR (S k)) ->
  Rabs (ln (1 + / INR (S k)) - / (x + INR (S k))) <= (3 + Rabs x * / c) * / INR (S k) ^ 2.
Proof.
  intros Hc H. pose proof (INR_S_positive k) as P. pose proof (log_step k) as A. set (n := INR (S k)) in *.
  assert (Q : 0 < Rabs (x + n)) by nra. assert (N : x + n <> 0) by (intros E; rewrite E, Rabs_R0 in Q; lra).
  replace (ln (1 + / n) - / (x + n)) with (ln (1 + / n) - / n + x * (/ n * / (x + n))) by (field; split; lra).
  eapply Rle_trans; [apply Rabs_triang|]. rewrite Rmult_plus_distr_r. apply Rplus_le_compat; [exact A|].
  rewrite !Rabs_mult, Rmult_assoc. apply Rmult_le_compat_l; [apply Rabs_pos|].
  rewrite (Rabs_pos_eq (/ n)) by (left; apply Rinv_0_lt_compat, P). rewrite Rabs_inv.
  replace (/ c * / n ^ 2) with (/ n * / (c * n)) by (field; split; lra). apply Rmult_le_compat_l; [left; apply Rinv_0_lt_compat, P|].
  apply Rinv_le_contravar; [nra|exact H].
Qed.
Lemma digamma_converges x : no_pole x -> ex_series (fun k => ln (1 + / INR (S k)) - / (x + INR (S k))).
Proof.
  intros H. destruct (clear x H) as [c Hc]. apply (dominated _ (3 + Rabs x * / c)). intros k. apply digamma_terms; [apply cond_pos|].
  eapply Rle_trans; [|exact (Hc (S k) x (at_center x c))]. apply Rmult_le_compat_l; [left; apply cond_pos|]. rewrite (S_INR (S k)). lra.
Qed.
Lemma polygamma_terms z (c : posreal) m k : c * INR (S k) <= Rabs z ->
  Rabs (/ z ^ S (S m)) <= / c ^ S (S m) * / INR (S k) ^ 2.
Proof.
  intros H. pose proof (cond_pos c) as Pc. pose proof (INR_S_positive k) as P. assert (L : 1 <= INR (S k)) by (rewrite S_INR; pose proof (pos_INR k); lra).
  assert (Q : 0 < Rabs z) by nra. assert (N : z <> 0) by (intros E; rewrite E, Rabs_R0 in Q; lra).
  rewrite Rabs_inv, <- RPow_abs, <- Rinv_mult.
  apply Rinv_le_contravar.
  - apply Rmult_lt_0_compat; apply pow_lt; lra.
  - eapply Rle_trans; [|apply pow_incr; split; [|exact H]; nra]. rewrite Rpow_mult_distr. apply Rmult_le_compat_l; [left; apply pow_lt, Pc|].
    apply Rle_pow; [exact L|lia].
Qed.
Lemma polygamma_converges m x : no_pole x -> ex_series (fun k => / (x + INR k) ^ S (S m)).
Proof.
  intros H. destruct (clear x H) as [c Hc]. apply (dominated _ (/ c ^ S (S m))). intros k. apply polygamma_terms, Hc, at_center.
Qed.

(** * The derivatives *)
Lemma derive_ln_abs (g : R -> R) x d : is_derive g x d -> g x <> 0 -> is_derive (fun y => ln (Rabs (g y))) x (d * / g x).
Proof.
  intros H N. pose proof (Rabs_pos_lt _ N) as P. pose proof (is_derive_Rabs g x d H N) as A.
  pose proof (is_derive_comp ln (fun y => Rabs (g y)) x _ _ (is_derive_ln _ P) A) as Q.
  apply (derive_eq _ _ _ _ Q). unfold scal. cbn. unfold mult. cbn. unfold Rabs in *. destruct (Rcase_abs (g x)) as [L|L].
  - rewrite sign_eq_m1 by exact L. field. lra.
  - rewrite sign_eq_1 by lra. field. lra.
Qed.
Theorem derive_lgamma x : no_pole x -> is_derive lgamma x (digamma x).
Proof.
  intros H. destruct (clear x H) as [c Hc]. pose proof (cond_pos c) as Pc. pose proof (H O) as Nx. cbn in Nx.
  apply (is_derive_plus (K := R_AbsRing) (V := R_NormedModule) (fun y => - ln (Rabs y))).
  - apply (is_derive_opp (K := R_AbsRing) (V := R_NormedModule) (fun y => ln (Rabs y)) x (/ x)). rewrite <- (Rmult_1_l (/ x)).
    apply (derive_ln_abs (fun y => y)); [apply (is_derive_id (K := R_AbsRing))|lra].
  - assert (Hc' : forall k y, Boule x c y -> c * INR (S k) <= Rabs (y + INR (S k))).
    { intros k y Hy. eapply Rle_trans; [|exact (Hc (S k) y Hy)]. apply Rmult_le_compat_l; [lra|]. rewrite (S_INR (S k)). lra. }
    apply (termwise (fun k y => y * ln (1 + / INR (S k)) - ln (Rabs (1 + y / INR (S k))))
      (fun k y => ln (1 + / INR (S k)) - / (y + INR (S k))) (3 + (Rabs x + c) * / c) x c).
    + intros k y Hy. pose proof (INR_S_positive k) as P. set (n := INR (S k)) in *. assert (N : y + n <> 0).
      { intros E. specialize (Hc' k y Hy). fold n in Hc'. rewrite E, Rabs_R0 in Hc'. nra. }
      assert (M : 1 + y / n <> 0) by (intros E; apply N; replace (y + n) with ((1 + y / n) * n) by (field; lra); rewrite E; ring).
      apply (is_derive_minus (K := R_AbsRing) (V := R_NormedModule) (fun y => y * ln (1 + / n)) (fun y => ln (Rabs (1 + y / n)))).
      * auto_derive; [exact I|ring].
      * replace (/ (y + n)) with (/ n * / (1 + y / n)) by (field; repeat split; lra).
        apply (derive_ln_abs (fun y => 1 + y / n)); [|exact M]. auto_derive; [exact I|field; lra].
    + intros k y Hy. eapply Rle_trans; [exact (digamma_terms y c k Pc (Hc' k y Hy))|].
      apply Rmult_le_compat_r; [left; apply Rinv_0_lt_compat, pow_lt, INR_S_positive|]. apply Rplus_le_compat_l.
      apply Rmult_le_compat_r; [left; apply Rinv_0_lt_compat, Pc|]. unfold Boule in Hy. pose proof (Rabs_triang x (y - x)) as T.
      replace (x + (y - x)) with y in T by ring. lra.
    + intros y Hy. apply lgamma_converges, (clear_no_pole c). intros k. apply Hc, Hy.
Qed.
(** the series of a polygamma from its second term on *)
Lemma derive_powers m x : no_pole x ->
  is_derive (fun y => Series (fun k => / (y + INR k) ^ S (S m))) x (- INR (S (S m)) * Series (fun k => / (x + INR k) ^ S (S (S m)))).
Proof.
  intros H. destruct (clear x H) as [c Hc]. rewrite <- Series_scal_l.
  apply (termwise (fun k y => / (y + INR k) ^ S (S m)) (fun k y => - INR (S (S m)) * / (y + INR k) ^ S (S (S m)))
    (INR (S (S m)) * / c ^ S (S (S m))) x c).
  - intros k y Hy. assert (N : y + INR k <> 0) by (apply (clear_no_pole c); intros j; apply Hc, Hy).
    pose proof (pow_nonzero _ (S (S m)) N). auto_derive; [exact H0|]. change (match m with O => 1 | S _ => INR m + 1 end) with (INR (S m)).
    rewrite !S_INR. cbn [pow]. field. split; [apply pow_nonzero|]; exact N.
  - intros k y Hy. rewrite Rabs_mult, Rabs_Ropp, (Rabs_pos_eq (INR _)), Rmult_assoc by apply pos_INR.
    apply Rmult_le_compat_l; [apply pos_INR|]. apply polygamma_terms, Hc, Hy.
  - intros y Hy. apply polygamma_converges, (clear_no_pole c). intros k. apply Hc, Hy.
Qed.
Theorem derive_digamma x : no_pole x -> is_derive digamma x (polygamma 1 x).
Proof.
  intros H. destruct (clear x H) as [c Hc]. pose proof (cond_pos c) as Pc. pose proof (H O) as Nx. cbn in Nx.
  assert (E : polygamma 1 x = / x ^ 2 + Series (fun k => / (x + INR (S k)) ^ 2)).
  { unfold polygamma. rewrite Series_incr_1 by apply (polygamma_converges 0), H. rewrite Rplus_0_r. cbn [fact INR pow Nat.mul Nat.add]. ring. }
  rewrite E. apply (is_derive_plus (K := R_AbsRing) (V := R_NormedModule) (fun y => - / y)).
  - auto_derive; [lra|field; lra].
  - apply (termwise (fun k y => ln (1 + / INR (S k)) - / (y + INR (S k))) (fun k y => / (y + INR (S k)) ^ 2) (/ c ^ 2) x c).
    + intros k y Hy. assert (N : y + INR (S k) <> 0) by (apply (clear_no_pole c); intros j; apply Hc, Hy). set (n := INR (S k)) in *.
      auto_derive; [exact N|field; exact N].
    + intros k y Hy. apply (polygamma_terms _ _ 0). eapply Rle_trans; [|exact (Hc (S k) y Hy)]. apply Rmult_le_compat_l; [lra|].
      rewrite (S_INR (S k)). lra.
    + intros y Hy. apply digamma_converges, (clear_no_pole c). intros k. apply Hc, Hy.
Qed.
Theorem derive_polygamma m x : (1 <= m)%nat -> no_pole x -> is_derive (polygamma m) x (polygamma (S m) x).
Proof.
  intros L H. destruct m as [|m]; [lia|]. unfold polygamma.
  pose proof (is_derive_scal _ x ((-1) ^ S (S m) * INR (fact (S m))) _ (derive_powers m x H)) as D.
  apply (derive_eq _ _ _ _ D). change (fact (S (S m))) with (S (S m) * fact (S m))%nat. rewrite mult_INR. cbn [pow]. ring.
Qed.

(** * It is gamma's: 0 at 1, and the functional equation; so the logarithm of a factorial at each natural number *)
Lemma telescope x n : no_pole x ->
  sum_n (fun k => x * ln (1 + / INR (S k)) - ln (Rabs (1 + x / INR (S k)))) n
  = x * ln (INR (S (S n))) + ln (INR (fact (S n))) + ln (Rabs x) - sum_n (fun k => ln (Rabs (x + INR k))) (S n).
Proof.
  intros H. assert (St : forall k, x * ln (1 + / INR (S k)) - ln (Rabs (1 + x / INR (S k)))
    = x * (ln (INR (S (S k))) - ln (INR (S k))) - ln (Rabs (x + INR (S k))) + ln (INR (S k))).
  { intros k. pose proof (INR_S_positive k) as P. pose proof (INR_S_positive (S k)) as P'. pose proof (Rabs_pos_lt _ (H (S k))) as Q.
    replace (1 + / INR (S k)) with (INR (S (S k)) / INR (S k)) by (rewrite (S_INR (S k)); field; lra).
    replace (1 + x / INR (S k)) with ((x + INR (S k)) / INR (S k)) by (field; lra).
    rewrite Rabs_div, (Rabs_pos_eq (INR _)) by lra. rewrite !ln_div by assumption. ring. }
  induction n as [|n IH].
  - rewrite sum_O, St, sum_Sn, sum_O. unfold plus. cbn -[INR]. change (INR 1) with 1. change (INR 0) with 0. rewrite ln_1, !Rplus_0_r. ring.
  - rewrite sum_Sn, IH, St, (sum_Sn _ (S n)). unfold plus. cbn [AbelianGroup.plus Hierarchy.plus].
    change (fact (S (S n))) with (S (S n) * fact (S n))%nat. rewrite mult_INR, ln_mult; [cbn -[INR fact sum_n]; ring|apply INR_S_positive|].
    apply lt_0_INR, lt_O_fact.
Qed.
(** Euler's limit: of (n + 1)^x n! / (x (x + 1) .. (x + n)) *)
Theorem euler x : no_pole x ->
  is_lim_seq (fun n => x * ln (INR (S n)) + ln (INR (fact n)) - sum_n (fun k => ln (Rabs (x + INR k))) n) (lgamma x).
Proof.
  intros H. apply is_lim_seq_incr_1. pose proof (Series_correct _ (lgamma_converges x H)) as L.
  apply (is_lim_seq_ext (fun n => - ln (Rabs x) + sum_n (fun k => x * ln (1 + / INR (S k)) - ln (Rabs (1 + x / INR (S k)))) n)).
  - intros n. rewrite telescope by exact H. ring.
  - apply (is_lim_seq_plus' (fun _ => - ln (Rabs x))); [apply is_lim_seq_const|exact L].
Qed.
Theorem lgamma_1 : lgamma 1 = 0.
Proof.
  unfold lgamma. rewrite Rabs_R1, ln_1, Ropp_0, Rplus_0_l, (Series_ext _ (fun _ => 0 * 0)); [rewrite (Series_scal_l 0 (fun _ => 0)); ring|]. intros k.
  pose proof (INR_S_positive k) as P. pose proof (Rinv_0_lt_compat _ P). unfold Rdiv. rewrite !Rmult_1_l, Rabs_pos_eq by lra. ring.
Qed.
Lemma logs_vanish x : is_lim_seq (fun n => ln (Rabs (1 + x * / INR (S n)))) 0.
Proof.
  set (f := fun t => ln (Rabs (1 + t))). assert (C : is_lim_seq (fun n => f (x * / INR (S n))) (f 0)).
  { apply is_lim_seq_continuous.
    - apply derivable_continuous_pt. exists (1 * / (1 + 0)). apply is_derive_Reals, (derive_ln_abs (fun t => 1 + t)); [|lra].
      auto_derive; [exact I|ring].
    - replace 0 with (x * 0) by ring. apply (is_lim_seq_scal_l _ x 0), inverses_vanish. }
  unfold f at 2 in C. rewrite Rplus_0_r, Rabs_R1, ln_1 in C. exact C.
Qed.
Theorem lgamma_next x : no_pole x -> lgamma (x + 1) = lgamma x + ln (Rabs x).
Proof.
  intros H. assert (H' : no_pole (x + 1)) by (intros k E; apply (H (S k)); rewrite S_INR; lra).
  pose proof (is_lim_seq_minus' _ _ _ _ (is_lim_seq_plus' _ _ _ _ (euler x H) (is_lim_seq_const (ln (Rabs x)))) (logs_vanish x)) as L.
  assert (E : forall n, sum_f_R0 (fun k => ln (Rabs (x + 1 + INR k))) n
    = sum_f_R0 (fun k => ln (Rabs (x + INR k))) n + ln (Rabs (x + INR (S n))) - ln (Rabs x)).
  { induction n as [|n IH]; cbn [sum_f_R0].
    - cbn [INR]. rewrite !Rplus_0_r. ring.
    - rewrite IH, (S_INR (S n)). replace (x + 1 + INR (S n)) with (x + (INR (S n) + 1)) by ring. ring. }
  apply (is_lim_seq_ext _ (fun n => (x + 1) * ln (INR (S n)) + ln (INR (fact n)) - sum_n (fun k => ln (Rabs (x + 1 + INR k))) n)) in L.
  - apply is_lim_seq_unique in L. pose proof (is_lim_seq_unique _ _ (euler (x + 1) H')) as L'. rewrite L in L'. injection L' as <-. ring.
  - intros n. rewrite !sum_n_Reals, E. pose proof (INR_S_positive n) as P. pose proof (Rabs_pos_lt _ (H (S n))) as Q.
    replace (1 + x * / INR (S n)) with ((x + INR (S n)) / INR (S n)) by (field; lra).
    rewrite Rabs_div, (Rabs_pos_eq (INR _)), ln_div by (assumption || lra). ring.
Qed.
Corollary lgamma_factorial n : lgamma (INR (S n)) = ln (INR (fact n)).
Proof.
  induction n as [|n IH]; [cbn [fact INR]; rewrite ln_1; exact lgamma_1|]. pose proof (INR_S_positive n) as P.
  rewrite S_INR, lgamma_next, IH by (intros k E; pose proof (pos_INR k); lra).
  change (fact (S n)) with (S n * fact n)%nat. rewrite mult_INR, ln_mult, Rabs_pos_eq by (try apply lt_0_INR, lt_O_fact; lra). ring.
Qed.

(** * Bohr and Mollerup (1922): on the positive numbers it is the only such function that is convex *)
Definition convex (f : R -> R) : Prop :=
  forall a b c, 0 < a -> a < b -> b < c -> (f b - f a) * (c - b) <= (f c - f b) * (b - a).
Lemma positive_no_pole x : 0 < x -> no_pole x.
Proof. intros H k E. pose proof (pos_INR k). lra. Qed.
Lemma slope_of (f g : R -> R) a b : 0 < a -> a < b -> (forall x, 0 < x -> is_derive f x (g x)) ->
  exists x, a <= x <= b /\ f b - f a = g x * (b - a).
Proof.
  intros Ha L D. pose proof (MVT_gen f a b g) as M. rewrite Rmin_left, Rmax_right in M by lra. apply M; intros x Hx.
  - apply D. lra.
  - apply derivable_continuous_pt. exists (g x). apply is_derive_Reals, D. lra.
Qed.
Lemma digamma_increases a b : 0 < a -> a <= b -> digamma a <= digamma b.
Proof.
  intros Ha [L| ->]; [|lra]. destruct (slope_of digamma (polygamma 1) a b Ha L) as [x [Hx E]]; [intros; apply derive_digamma, positive_no_pole; lra|].
  assert (0 <= polygamma 1 x); [|nra]. unfold polygamma. cbn [pow fact INR Nat.mul Nat.add].
  assert (P : forall k, 0 <= 0 * 0 <= / (x + INR k) ^ 2).
  { intros k. pose proof (pos_INR k). split; [lra|]. rewrite Rmult_0_l. left. apply Rinv_0_lt_compat, pow_lt. lra. }
  pose proof (Series_le _ _ P (polygamma_converges 0 x (positive_no_pole x ltac:(lra)))) as Q. rewrite (Series_scal_l 0 (fun _ => 0)) in Q.
  cbn [pow] in Q. lra.
Qed.
Theorem lgamma_convex : convex lgamma.
Proof.
  intros a b c Ha Hab Hbc. assert (D : forall x, 0 < x -> is_derive lgamma x (digamma x)) by (intros; apply derive_lgamma, positive_no_pole; lra).
  destruct (slope_of lgamma digamma a b Ha Hab D) as [x [Hx ->]]. destruct (slope_of lgamma digamma b c ltac:(lra) Hbc D) as [y [Hy ->]].
  pose proof (digamma_increases x y ltac:(lra) ltac:(lra)). assert (0 <= (b - a) * (c - b)) by nra. nra.
Qed.
Theorem only_lgamma f : convex f -> f 1 = 0 -> (forall x, 0 < x -> f (x + 1) = f x + ln x) -> forall x, 0 < x -> f x = lgamma x.
Proof.
  intros Cv F1 Next. assert (Fact : forall n, f (INR (S n)) = ln (INR (fact n))).
  { induction n as [|n IH]; [cbn [INR fact]; now rewrite ln_1|]. rewrite S_INR, Next, IH by apply INR_S_positive.
    change (fact (S n)) with (S n * fact n)%nat. rewrite mult_INR, ln_mult by (try apply INR_S_positive; apply lt_0_INR, lt_O_fact). ring. }
  assert (Far : forall x n, 0 < x -> f (x + INR (S n)) = f x + sum_f_R0 (fun k => ln (Rabs (x + INR k))) n).
  { intros x n Hx. induction n as [|n IH]; cbn [sum_f_R0].
    - cbn [INR]. rewrite Rplus_0_r, Rabs_pos_eq by lra. now apply Next.
    - pose proof (INR_S_positive n). rewrite (S_INR (S n)), Rabs_pos_eq by lra.
      replace (x + (INR (S n) + 1)) with (x + INR (S n) + 1) by ring. rewrite Next, IH by lra. ring. }
  assert (Unit : forall x, 0 < x < 1 -> f x = lgamma x).
  { intros x Hx. pose proof (euler x (positive_no_pole x (proj1 Hx))) as L. apply is_lim_seq_incr_1 in L.
    pose proof (is_lim_seq_minus' _ _ _ _ L (is_lim_seq_scal_l _ x _ (logs_vanish 1))) as L'. cbn [Rbar_mult] in L'.
    assert (B : forall n, let e := x * ln (INR (S (S n))) + ln (INR (fact (S n))) - sum_n (fun k => ln (Rabs (x + INR k))) (S n) in
      e - x * ln (Rabs (1 + 1 * / INR (S n))) <= f x <= e).
    { intros n. cbv zeta. rewrite sum_n_Reals. pose proof (Far x (S n) (proj1 Hx)) as A. set (s := sum_f_R0 _ (S n)) in *.
      pose proof (INR_S_positive n) as P. pose proof (Rinv_0_lt_compat _ P). pose proof (Fact (S n)) as F.
      pose proof (Fact n) as G. pose proof (Next _ (INR_S_positive n)) as G'. rewrite <- S_INR, G, F in G'.
      pose proof (Next _ (INR_S_positive (S n))) as H'. rewrite F in H'.
      pose proof (Cv (INR (S n)) (INR (S (S n))) (x + INR (S (S n)))) as C0. pose proof (Cv (INR (S (S n))) (x + INR (S (S n))) (INR (S (S n)) + 1)) as C1.
      rewrite F, G in C0. rewrite F, H' in C1. rewrite Rabs_pos_eq by lra.
      replace (ln (1 + 1 * / INR (S n))) with (ln (INR (S (S n))) - ln (INR (S n)))
        by (rewrite <- ln_div by (apply INR_S_positive); f_equal; rewrite (S_INR (S n)); field; lra).
      rewrite (S_INR (S n)) in *. set (N := INR (S n)) in *. specialize (C0 P ltac:(lra) ltac:(lra)). specialize (C1 ltac:(lra) ltac:(lra) ltac:(lra)). nra. }
    apply Rle_antisym.
    - apply (is_lim_seq_le (fun _ => f x) _ (f x) (lgamma x) (fun n => proj2 (B n))); [apply is_lim_seq_const|exact L].
    - apply (is_lim_seq_le _ (fun _ => f x) (lgamma x) (f x) (fun n => proj1 (B n))); [|apply is_lim_seq_const].
      replace (lgamma x) with (lgamma x - x * 0) by ring. exact L'. }
  assert (All : forall n x, 0 < x <= INR (S n) -> f x = lgamma x).
  { induction n as [|n IH]; intros x Hx.
    - cbn [INR] in Hx. destruct (Req_dec x 1) as [->|N]; [now rewrite F1, lgamma_1|]. apply Unit. lra.
    - destruct (Rle_or_lt x (INR (S n))) as [L|L]; [now apply IH|]. rewrite (S_INR (S n)) in Hx. rewrite S_INR in L. pose proof (pos_INR n).
      replace x with (x - 1 + 1) by ring. rewrite Next, lgamma_next, IH, Rabs_pos_eq by (try apply positive_no_pole; lra). reflexivity. }
  intros x Hx. destruct (nfloor_ex x ltac:(lra)) as [n Hn]. apply (All n). rewrite S_INR. lra.
Qed.
