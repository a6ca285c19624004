(** The values of the built-in scalar functions over the real numbers; each is differentiable on its domain, and its
    transposed derivative in Functions.v is its derivative there. *)
Require Import List Bool ZArith QArith Qreals Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
Require Import Ranalysis5.
Import ListNotations.
Require Import TL.Sums TL.SSA TL.Functions TL.reals.Gradient TL.reals.Gamma.
Open Scope R_scope.

(** * Values *)
Definition where_ge (a b t : R) : R := if Rle_dec b a then t else 0.
Definition where_gt (a b t : R) : R := if Rlt_dec b a then t else 0.
Definition sign (a : R) : R := if Rlt_dec 0 a then 1 else if Rlt_dec a 0 then -1 else 0.
Definition sigmoid (a : R) : R := / (1 + exp (- a)).
Definition slope : R := 2 / sqrt PI.
Definition erf (a : R) : R := slope * RInt (fun s => exp (-1 * (s * s))) 0 a.
(** the x with erf x = a, where there is one: the least upper bound of those with erf x <= a *)
Definition erfinv (a : R) : R := real (Lub_Rbar (fun x => erf x <= a)).
Definition constant (c : irrational) : R :=
  match c with Slope => slope | MinusSlope => - slope | OverSlope => sqrt PI / 2 | OverLog2 => / ln 2 | OverLog10 => / ln 10 end.
Definition asinh (a : R) : R := ln (a + sqrt (a * a + 1)).
Definition acosh (a : R) : R := ln (a + sqrt (a * a - 1)).
Definition atanh (a : R) : R := ln ((1 + a) / (1 - a)) / 2.
Definition cbrt (a : R) : R := if Rlt_dec 0 a then Rpower a (/ 3) else if Rlt_dec a 0 then - Rpower (- a) (/ 3) else 0.
Definition floor (a : R) : R := IZR (Int_part a).
Definition ceil (a : R) : R := - floor (- a).
(** to the nearest integer, of two the even one *)
Definition round (a : R) : R :=
  let k := Int_part (a + / 2) in if Req_EM_T (IZR k) (a + / 2) then if Z.even k then IZR k else IZR (k - 1) else IZR k.
Definition modulo (a b : R) : R := a - b * floor (a * / b).
(** the angle at which (b, a) is seen from 0, from - PI to PI *)
Definition atan2 (a b : R) : R :=
  if Rlt_dec 0 b then atan (a / b) else if Rlt_dec 0 a then PI / 2 - atan (b / a)
  else if Rlt_dec a 0 then - (PI / 2) - atan (b / a) else if Rlt_dec b 0 then PI else 0.
(** 0 at the wrong number of arguments *)
Definition bval (f : builtin) (xs : list R) : R :=
  match f, xs with
  | Exp, [a] => exp a | Log, [a] => ln a | Sin, [a] => sin a | Cos, [a] => cos a | Tan, [a] => tan a
  | Tanh, [a] => tanh a | Sinh, [a] => sinh a | Cosh, [a] => cosh a | Sigmoid, [a] => sigmoid a | Sqrt, [a] => sqrt a
  | Recip, [a] => / a | WhereGe, [a; b; t] => where_ge a b t | WhereGt, [a; b; t] => where_gt a b t
  | Sign, [a] => sign a | Relu, [a] => Rmax a 0 | Abs, [a] => Rabs a | Max, [a; b] => Rmax a b | Min, [a; b] => Rmin a b
  | Erf, [a] => erf a | Softplus, [a] => ln (1 + exp a) | Logaddexp, [a; b] => ln (exp a + exp b)
  | Log1p, [a] => ln (1 + a) | Expm1, [a] => exp a - 1 | Log2, [a] => ln a / ln 2 | Log10, [a] => ln a / ln 10
  | Asin, [a] => asin a | Acos, [a] => acos a | Atan, [a] => atan a | Asinh, [a] => asinh a | Acosh, [a] => acosh a
  | Atanh, [a] => atanh a | Cbrt, [a] => cbrt a | Rsqrt, [a] => / sqrt a | Erfc, [a] => 1 - erf a | Erfinv, [a] => erfinv a
  | Lgamma, [a] => lgamma a | Digamma, [a] => digamma a | Trigamma, [a] => polygamma 1 a | Tetragamma, [a] => polygamma 2 a
  | Pentagamma, [a] => polygamma 3 a | Floor, [a] => floor a | Ceil, [a] => ceil a | Round, [a] => round a
  | Mod, [a; b] => modulo a b | Atan2, [a; b] => atan2 a b | PowerOf, [a; b] => Rpower a b
  | Power n, [a] => a ^ Pos.to_nat (Pos.succ n) | RealPower q, [a] => Rpower a (Q2R q)
  | _, _ => 0
  end.
Fixpoint sval (xs : list R) (y t : R) (e : scalar) : R :=
  match e with
  | Argument k => nth k xs 0 | Value => y | Cotangent => t | Number q => Q2R q | Irrational c => constant c
  | Plus a b => sval xs y t a + sval xs y t b
  | Minus a b => sval xs y t a - sval xs y t b
  | Times a b => sval xs y t a * sval xs y t b
  | Call f es => bval f (map (sval xs y t) es)
  end.
(** A component takes the arguments of its function, the value, and the cotangent. Of a component the partial
    derivatives are those of analysis. *)
Fixpoint changed (xs : list R) (j : nat) (a : R) : list R :=
  match xs, j with [], _ => [] | _ :: xs', O => a :: xs' | b :: xs', S j' => b :: changed xs' j' a end.
Definition by_analysis (f : list R -> R) (j : nat) (xs : list R) : R := Derive (fun a => f (changed xs j a)) (nth j xs 0).
Fixpoint fval (f : symbol) : list R -> R :=
  match f with
  | Function f => bval f
  | Component f j => fun zs =>
      let n := (length zs - 2)%nat in
      let xs := firstn n zs in
      match f with
      | Function f => sval xs (nth n zs 0) (nth (S n) zs 0) (component f j)
      | _ => by_analysis (fval f) j xs * nth (S n) zs 0
      end
  end.
Definition partial (f : symbol) (j : nat) (xs : list R) : R :=
  match f with Function f => sval xs (bval f xs) 1 (component f j) | _ => by_analysis (fval f) j xs end.

(** * The transposed derivative is linear in the cotangent: the premise of 6.27 *)
Lemma Q2R_0 : Q2R 0 = 0.
Proof. unfold Q2R. cbn. lra. Qed.
Lemma raised_power xs y t n : sval xs y t (raised n) = nth 0 xs 0 ^ Pos.to_nat n.
Proof.
  assert (A : forall m, m <> 1%positive -> bval (Power (Pos.pred m)) [nth 0 xs 0] = nth 0 xs 0 ^ Pos.to_nat m)
    by (intros m H; cbn [bval]; now rewrite Pos.succ_pred by exact H).
  destruct n; [apply A; discriminate|apply A; discriminate|]. change (Pos.to_nat 1) with 1%nat. now rewrite pow_1.
Qed.
Lemma sval_number xs y t q : sval xs y t (Number q) = Q2R q.
Proof. reflexivity. Qed.
Lemma component_linear f j xs y t : sval xs y t (component f j) = sval xs y 1 (component f j) * t.
Proof.
  assert (N : forall k, nth k [] (Number 0) = Number 0) by (intros [|k]; reflexivity). unfold component.
  destruct f; destruct j as [|[|[|j]]]; cbn [nth transpose]; rewrite ?N; unfold gauss, recip, root, square; cbn [nth sval map bval]; rewrite ?raised_power;
  unfold where_ge, where_gt; repeat match goal with |- context [if ?b then _ else _] => destruct b end; rewrite ?sval_number, ?Q2R_0; ring.
Qed.
Theorem DT_val f j xs dy : fval (DT f j) (xs ++ [fval f xs; dy]) = partial f j xs * dy.
Proof.
  assert (L : (length (xs ++ [fval f xs; dy]) - 2)%nat = length xs) by (rewrite app_length; cbn; lia).
  assert (F : firstn (length xs) (xs ++ [fval f xs; dy]) = xs) by (rewrite firstn_app, Nat.sub_diag, firstn_all; apply app_nil_r).
  assert (Y : nth (length xs) (xs ++ [fval f xs; dy]) 0 = fval f xs) by (rewrite app_nth2, Nat.sub_diag by lia; reflexivity).
  assert (T : nth (S (length xs)) (xs ++ [fval f xs; dy]) 0 = dy)
    by (rewrite app_nth2 by lia; now replace (S (length xs) - length xs)%nat with 1%nat by lia).
  unfold DT. cbn [fval]. rewrite L, F, Y, T. destruct f as [f|f k]; [apply component_linear|reflexivity].
Qed.

(** * Where the functions are differentiable *)
Definition domain (f : builtin) (xs : list R) : Prop :=
  match f, xs with
  | (Exp | Sin | Cos | Tanh | Sinh | Cosh | Sigmoid | Erf | Softplus | Power _), [_] => True
  | (Expm1 | Atan | Asinh | Erfc), [_] => True
  | Log1p, [a] => -1 < a
  | (Log2 | Log10 | Rsqrt), [a] => 0 < a
  | (Asin | Acos | Atanh), [a] => -1 < a < 1
  | Acosh, [a] => 1 < a
  | Erfinv, [a] => exists x, erf x = a
  | Cbrt, [a] => a <> 0
  | (Lgamma | Digamma | Trigamma | Tetragamma), [a] => no_pole a
  | Floor, [a] => a <> floor a
  | Ceil, [a] => - a <> floor (- a)
  | Round, [a] => a + / 2 <> floor (a + / 2)
  | Mod, [a; b] => b <> 0 /\ a * / b <> floor (a * / b)
  | Atan2, [a; b] => 0 < b \/ a <> 0
  | PowerOf, [a; _] => 0 < a
  | (Log | Sqrt | RealPower _), [a] => 0 < a
  | Tan, [a] => cos a <> 0
  | (Recip | Sign | Relu | Abs), [a] => a <> 0
  | (Max | Min), [a; b] => a <> b
  | Logaddexp, [_; _] => True
  | (WhereGe | WhereGt), [a; b; _] => a <> b
  | _, _ => False
  end.
Notation differentiable := (differentiable fval partial).

(** ** of one argument *)
Lemma by_composition f : (forall a, domain f [a] -> is_derive (fun a => bval f [a]) a (partial (Function f) 0 [a])) ->
  forall a, domain f [a] -> differentiable (Function f) [a].
Proof.
  intros H a Ha gs ds t E F. destruct F as [|g d gs ds Hg F]; [discriminate|]. destruct F; [|discriminate].
  injection E as <-. cbn [map fval]. specialize (H (g t) Ha). cbn [SSA.dmap].
  pose proof (is_derive_comp (fun a => bval f [a]) g t (partial (Function f) 0 [g t]) d H Hg) as Q.
  assert (C : forall p q : R, p * q = q * p + 0) by (intros; ring).
  exact (eq_ind _ (fun e : R => is_derive (fun u => bval f [g u]) t e) Q _ (C d (partial (Function f) 0 [g t]))).
Qed.
Ltac table := unfold partial, component; cbn [nth transpose]; unfold gauss, recip, root, square; cbn [nth sval map bval].
Lemma Q2R_1 : Q2R 1 = 1.
Proof. unfold Q2R. cbn. lra. Qed.
Lemma Q2R_m1 : Q2R (-1) = -1.
Proof. unfold Q2R. cbn. lra. Qed.
Lemma Q2R_half : Q2R (1 # 2) = / 2.
Proof. unfold Q2R. cbn. lra. Qed.
Lemma Q2R_third : Q2R (1 # 3) = / 3.
Proof. unfold Q2R. cbn. lra. Qed.
Lemma Q2R_mhalf : Q2R (-1 # 2) = - / 2.
Proof. unfold Q2R. cbn. lra. Qed.
Lemma near_left a b : a < b -> locally a (fun u => u < b).
Proof. intros H. exact (open_lt b a H). Qed.
Lemma near_right a b : b < a -> locally a (fun u => b < u).
Proof. intros H. exact (open_gt b a H). Qed.
Lemma derive_erf a : is_derive erf a (slope * exp (-1 * (a * a))).
Proof.
  apply derive_scale. apply (is_derive_RInt (fun s => exp (-1 * (s * s))) (fun u => RInt (fun s => exp (-1 * (s * s))) 0 u) 0 a).
  - apply filter_forall. intros u. apply (RInt_correct (V := R_CompleteNormedModule)). apply (ex_RInt_continuous (V := R_CompleteNormedModule)).
    intros z _. apply (ex_derive_continuous (K := R_AbsRing) (V := R_NormedModule)). auto_derive. exact I.
  - apply (ex_derive_continuous (K := R_AbsRing) (V := R_NormedModule)). auto_derive. exact I.
Qed.
Lemma slope_positive : 0 < slope.
Proof. unfold slope. apply Rdiv_lt_0_compat; [lra|]. apply sqrt_lt_R0, PI_RGT_0. Qed.
Lemma erf_increases x y : x < y -> erf x < erf y.
Proof.
  intros H. apply (incr_function erf m_infty p_infty (fun a => slope * exp (-1 * (a * a)))); try exact I; auto.
  - intros a _ _. apply derive_erf.
  - intros a _ _. apply Rmult_lt_0_compat; [exact slope_positive|apply exp_pos].
Qed.
Lemma erf_derivable a : derivable_pt erf a.
Proof. exists (slope * exp (-1 * (a * a))). apply is_derive_Reals, derive_erf. Qed.
Lemma erf_continuous a : continuity_pt erf a.
Proof. apply derivable_continuous_pt, erf_derivable. Qed.
Lemma erfinv_erf x : erfinv (erf x) = x.
Proof.
  unfold erfinv. rewrite (is_lub_Rbar_unique _ (Finite x)); [reflexivity|]. split.
  - intros u Hu. cbn. destruct (Rle_or_lt u x) as [L|L]; [exact L|]. pose proof (erf_increases x u L). lra.
  - intros b Hb. apply (Hb x). apply Rle_refl.
Qed.
(** what lies between two values of erf is one *)
Lemma erf_between x y a : x < y -> erf x <= a <= erf y -> exists z, x <= z <= y /\ erf z = a.
Proof.
  intros L H. pose proof (erf_increases x y L) as E.
  destruct (IVT_gen erf x y a erf_continuous) as [z [Hz Ez]]; [rewrite Rmin_left, Rmax_right by lra; exact H|].
  rewrite Rmin_left, Rmax_right in Hz by lra. exists z. auto.
Qed.
Lemma derive_erfinv x : is_derive erfinv (erf x) (sqrt PI / 2 * exp (x * x)).
Proof.
  pose proof (erf_increases (x - 1) x ltac:(lra)) as L. pose proof (erf_increases x (x + 1) ltac:(lra)) as M.
  assert (Inv : forall a, erf (x - 1) <= a <= erf (x + 1) -> comp erf erfinv a = id a).
  { intros a Ha. destruct (erf_between (x - 1) (x + 1) a ltac:(lra) Ha) as [z [_ <-]]. unfold comp, id. now rewrite erfinv_erf. }
  assert (In_ : forall a, erf (x - 1) <= a -> a <= erf (x + 1) -> x - 1 <= erfinv a <= x + 1).
  { intros a Ha Hb. destruct (erf_between (x - 1) (x + 1) a ltac:(lra) (conj Ha Hb)) as [z [Hz <-]]. rewrite erfinv_erf. lra. }
  assert (C : continuity_pt erfinv (erf x)).
  { apply (continuity_pt_recip_interv erf erfinv (x - 1) (x + 1)); auto; try lra.
    - intros u v _ H _. now apply erf_increases.
    - intros a _. apply erf_continuous. }
  set (prf := fun (a : R) (_ : erfinv (erf (x - 1)) <= a <= erfinv (erf (x + 1))) => erf_derivable a).
  assert (B : erfinv (erf (x - 1)) <= erfinv (erf x) <= erfinv (erf (x + 1))) by (rewrite !erfinv_erf; lra).
  assert (D : derive_pt erf (erfinv (erf x)) (prf _ B) = slope * exp (-1 * (x * x))).
  { apply derive_pt_eq_0. rewrite erfinv_erf. apply is_derive_Reals, derive_erf. }
  pose proof slope_positive as Sp. pose proof (exp_pos (-1 * (x * x))) as Ep.
  pose proof (derivable_pt_lim_recip_interv erf erfinv (erf (x - 1)) (erf (x + 1)) (erf x) prf C ltac:(lra) ltac:(lra) B Inv) as Q.
  rewrite D in Q. apply is_derive_Reals in Q; [|nra]. apply (derive_eq _ _ _ _ Q).
  replace (-1 * (x * x)) with (- (x * x)) by ring. rewrite exp_Ropp. unfold slope. pose proof (exp_pos (x * x)).
  assert (0 < sqrt PI) by apply sqrt_lt_R0, PI_RGT_0. field. split; lra.
Qed.
(** what is no integer is between two, and so is what is near *)
Lemma Int_part_between u k : IZR k < u < IZR k + 1 -> Int_part u = k.
Proof. intros [H0 H1]. unfold Int_part. rewrite <- (tech_up u (k + 1)); [ring| |]; rewrite plus_IZR; lra. Qed.
Lemma floor_near a : a <> floor a -> locally a (fun u => floor u = floor a).
Proof.
  unfold floor. intros N. destruct (base_Int_part a) as [H0 H1].
  assert (L : IZR (Int_part a) < a) by lra. assert (M : a < IZR (Int_part a) + 1) by lra.
  eapply filter_imp; [|exact (filter_and _ _ (near_right a _ L) (near_left a _ M))]. cbv beta. intros u [Hl Hr]. f_equal.
  apply Int_part_between. lra.
Qed.
Lemma derive_floor a : a <> floor a -> is_derive floor a 0.
Proof.
  intros N. apply (is_derive_ext_loc (fun _ => floor a)); [|apply derive_const].
  eapply filter_imp; [|exact (floor_near a N)]. auto.
Qed.
Lemma derive_asin a : -1 < a < 1 -> is_derive asin a (/ sqrt (1 - a * a)).
Proof.
  intros H. apply is_derive_Reals. apply (derive_pt_eq_1 asin a _ (derivable_pt_asin a H)). rewrite derive_pt_asin. unfold Rsqr. lra.
Qed.
Lemma derive_acos a : -1 < a < 1 -> is_derive acos a (-1 * / sqrt (1 - a * a)).
Proof.
  intros H. apply is_derive_Reals. apply (derive_pt_eq_1 acos a _ (derivable_pt_acos a H)). rewrite derive_pt_acos. unfold Rsqr. lra.
Qed.
Lemma derive_power n a : is_derive (fun a => a ^ Pos.to_nat (Pos.succ n)) a (INR (Pos.to_nat (Pos.succ n)) * a ^ Pos.to_nat n).
Proof.
  rewrite Pos2Nat.inj_succ. pose proof (is_derive_pow (fun a => a) (S (Pos.to_nat n)) a 1 (is_derive_id (K := R_AbsRing) a)) as H.
  cbn [Nat.pred] in H. now rewrite Rmult_1_r in H.
Qed.
Lemma cosh_positive a : 0 < cosh a.
Proof. unfold cosh. pose proof (exp_pos a). pose proof (exp_pos (- a)). lra. Qed.
Lemma unary_derivative f a : domain f [a] -> is_derive (fun a => bval f [a]) a (partial (Function f) 0 [a]).
Proof.
  assert (EP := exp_pos). intros H. destruct f; try (destruct H; fail); table;
    rewrite ?Q2R_1, ?Q2R_m1, ?Q2R_half, ?Q2R_third, ?Q2R_mhalf, ?Q2R_0.
  - auto_derive; [exact I|ring].
  - cbn in H. auto_derive; [exact H|field; lra].
  - auto_derive; [exact I|ring].
  - auto_derive; [exact I|ring].
  - cbn in H. unfold tan. auto_derive; [exact H|]. field. exact H.
  - unfold tanh. pose proof (cosh_positive a) as C. pose proof (EP a). pose proof (EP (- a)). unfold cosh, sinh in *.
    auto_derive; [lra|]. field. lra.
  - unfold sinh, cosh. auto_derive; [exact I|field].
  - unfold sinh, cosh. auto_derive; [exact I|field].
  - unfold sigmoid. pose proof (EP (- a)). auto_derive; [lra|]. field. lra.
  - cbn in H. pose proof (sqrt_lt_R0 a H). auto_derive; [exact H|field; lra].
  - cbn in H. auto_derive; [exact H|field; exact H].
  - cbn in H. apply (is_derive_ext_loc (fun _ => sign a)); [|apply derive_const]. unfold sign.
    destruct (Rlt_dec 0 a); [|destruct (Rlt_dec a 0); [|lra]].
    + eapply filter_imp; [|apply (near_right a 0); lra]. cbv beta. intros u Hu. destruct (Rlt_dec 0 u); lra.
    + eapply filter_imp; [|apply (near_left a 0); lra]. cbv beta. intros u Hu.
      destruct (Rlt_dec 0 u); [lra|]. destruct (Rlt_dec u 0); lra.
  - cbn in H. unfold where_gt. destruct (Rlt_dec 0 a).
    + apply (is_derive_ext_loc (fun u => u)); [|apply (is_derive_id (K := R_AbsRing))].
      eapply filter_imp; [|apply (near_right a 0); lra]. cbv beta. intros u Hu. now rewrite Rmax_left by lra.
    + apply (is_derive_ext_loc (fun _ => 0)); [|apply derive_const].
      eapply filter_imp; [|apply (near_left a 0); lra]. cbv beta. intros u Hu. now rewrite Rmax_right by lra.
  - cbn in H. rewrite Rmult_1_r. unfold sign. destruct (Rlt_dec 0 a); [|destruct (Rlt_dec a 0); [|lra]].
    + apply (is_derive_ext_loc (fun u => u)); [|apply (is_derive_id (K := R_AbsRing))].
      eapply filter_imp; [|apply (near_right a 0); lra]. cbv beta. intros u Hu. now rewrite Rabs_right by lra.
    + apply (is_derive_ext_loc (fun u => - u)); [|auto_derive; [exact I|ring]].
      eapply filter_imp; [|apply (near_left a 0); lra]. cbv beta. intros u Hu. now rewrite Rabs_left by lra.
  - rewrite Rmult_1_r. apply derive_erf.
  - pose proof (EP a). unfold sigmoid. rewrite exp_Ropp. auto_derive; [lra|]. field. lra.
  - cbn in H. auto_derive; [lra|field; lra].
  - auto_derive; [exact I|ring].
  - cbn in H. pose proof (ln_lt_2). cbn [constant]. auto_derive; [exact H|field; split; lra].
  - cbn in H. assert (L : 0 < ln 10) by (rewrite <- ln_1; apply ln_increasing; lra). cbn [constant].
    auto_derive; [exact H|field; split; lra].
  - cbn in H. rewrite Rmult_1_r. exact (derive_asin a H).
  - cbn in H. rewrite Rmult_1_r. exact (derive_acos a H).
  - rewrite Rmult_1_r. exact (is_derive_atan a).
  - unfold asinh. assert (P : 0 < sqrt (a * a + 1)) by (apply sqrt_lt_R0; nra). assert (S := sqrt_sqrt (a * a + 1)).
    specialize (S ltac:(nra)). assert (Q : 0 < a + sqrt (a * a + 1)) by nra. rewrite (Rplus_comm 1 (a * a)).
    auto_derive; [repeat split; [nra|exact Q]|]. field. split; lra.
  - cbn in H. unfold acosh. assert (P : 0 < sqrt (a * a - 1)) by (apply sqrt_lt_R0; nra).
    auto_derive; [repeat split; [nra|unfold Rminus in P; lra]|]. change (a * a + - (1)) with (a * a - 1). field. split; lra.
  - cbn in H. unfold atanh. assert (P : 0 < (1 + a) / (1 - a)) by (apply Rdiv_lt_0_compat; lra).
    auto_derive; [repeat split; [lra|exact P]|]. field. repeat split; nra.
  - cbn in H. unfold cbrt. destruct (Rlt_dec 0 a).
    + apply (is_derive_ext_loc (fun u => Rpower u (/ 3))).
      { eapply filter_imp; [|apply (near_right a 0); lra]. cbv beta. intros u Hu. destruct (Rlt_dec 0 u); [reflexivity|lra]. }
      unfold Rpower. auto_derive; [lra|]. set (q := exp (/ 3 * ln a)). assert (E : a = q * q * q).
      { unfold q. rewrite <- !exp_plus. replace (/ 3 * ln a + / 3 * ln a + / 3 * ln a) with (ln a) by field. now rewrite exp_ln. }
      assert (0 < q) by apply exp_pos. rewrite E at 1. field. lra.
    + destruct (Rlt_dec a 0); [|lra]. apply (is_derive_ext_loc (fun u => - Rpower (- u) (/ 3))).
      { eapply filter_imp; [|apply (near_left a 0); lra]. cbv beta. intros u Hu. destruct (Rlt_dec 0 u); [lra|]. destruct (Rlt_dec u 0); lra. }
      unfold Rpower. auto_derive; [lra|]. set (q := exp (/ 3 * ln (- a))). assert (E : - a = q * q * q).
      { unfold q. rewrite <- !exp_plus. replace (/ 3 * ln (- a) + / 3 * ln (- a) + / 3 * ln (- a)) with (ln (- a)) by field.
        now rewrite exp_ln by lra. }
      assert (0 < q) by apply exp_pos. rewrite E. field. lra.
  - cbn in H. assert (P := sqrt_lt_R0 a H).
    auto_derive; [split; [exact H|split; [lra|exact I]]|]. field. lra.
  - rewrite Rmult_1_r. apply (derive_eq _ _ (0 - slope * exp (-1 * (a * a)))); [|cbn [constant]; ring].
    apply (is_derive_minus (K := R_AbsRing) (V := R_NormedModule) (fun _ => 1) erf); [apply derive_const|apply derive_erf].
  - destruct H as [x <-]. rewrite erfinv_erf, Rmult_1_r. exact (derive_erfinv x).
  - rewrite Rmult_1_r. exact (derive_lgamma a H).
  - rewrite Rmult_1_r. exact (derive_digamma a H).
  - rewrite Rmult_1_r. apply derive_polygamma; [lia|exact H].
  - rewrite Rmult_1_r. apply derive_polygamma; [lia|exact H].
  - exact (derive_floor a H).
  - cbn in H. unfold ceil. apply (derive_eq _ _ (- (-1 * 0))); [|ring]. apply derive_opp.
    apply (is_derive_comp floor (fun u => - u)); [exact (derive_floor _ H)|]. auto_derive; [exact I|reflexivity].
  - cbn in H. apply (is_derive_ext_loc (fun _ => floor (a + / 2))); [|apply derive_const].
    unfold floor in *. set (k := Int_part (a + / 2)) in *. destruct (base_Int_part (a + / 2)) as [H0 H1]. fold k in H0, H1.
    assert (L : IZR k - / 2 < a) by lra. assert (M : a < IZR k + / 2) by lra.
    eapply filter_imp; [|exact (filter_and _ _ (near_right a _ L) (near_left a _ M))].
    cbv beta. intros u [Hl Hr]. unfold round. rewrite (Int_part_between (u + / 2) k) by lra.
    destruct (Req_EM_T (IZR k) (u + / 2)); [lra|reflexivity].
  - assert (E : Q2R (Z.pos (Pos.succ n) # 1) = INR (Pos.to_nat (Pos.succ n))).
    { unfold Q2R. cbn [Qnum Qden]. rewrite INR_IZR_INZ, positive_nat_Z. lra. }
    rewrite E, Rmult_1_r. pose proof (derive_power n a) as D.
    rewrite raised_power. exact D.
  - cbn in H. unfold Rpower. rewrite Q2R_minus, Q2R_1. auto_derive; [exact H|].
    replace ((Q2R q - 1) * ln a) with (Q2R q * ln a + - ln a) by ring. rewrite exp_plus, exp_Ropp, exp_ln by exact H. field. lra.
Qed.

(** ** of several *)
Lemma logaddexp_component a b : exp (a - ln (exp a + exp b)) = exp a / (exp a + exp b).
Proof.
  pose proof (exp_pos a). pose proof (exp_pos b). unfold Rminus. rewrite exp_plus, exp_Ropp, exp_ln by lra. reflexivity.
Qed.
Lemma atan2_above a b : 0 < a -> atan2 a b = PI / 2 - atan (b / a).
Proof.
  intros H. unfold atan2. destruct (Rlt_dec 0 b); [|destruct (Rlt_dec 0 a); [reflexivity|lra]].
  assert (P : 0 < b / a) by (apply Rdiv_lt_0_compat; lra). rewrite <- (atan_inv (b / a) P). f_equal. field. lra.
Qed.
Lemma atan2_below a b : a < 0 -> atan2 a b = - (PI / 2) - atan (b / a).
Proof.
  intros H. unfold atan2. destruct (Rlt_dec 0 b); [|destruct (Rlt_dec 0 a); [lra|destruct (Rlt_dec a 0); [reflexivity|lra]]].
  assert (P : 0 < b / - a) by (apply Rdiv_lt_0_compat; lra). pose proof (atan_inv (b / - a) P) as I.
  replace (a / b) with (- / (b / - a)) by (field; lra). rewrite atan_opp, I.
  replace (b / a) with (- (b / - a)) by (field; lra). rewrite atan_opp. ring.
Qed.
Lemma derive_atan_of (q : R -> R) t d : is_derive q t d -> is_derive (fun u => atan (q u)) t (d * / (1 + q t * q t)).
Proof. intros H. exact (is_derive_comp atan q t (/ (1 + q t * q t)) d (is_derive_atan (q t)) H). Qed.
Lemma derive_quotient (g h : R -> R) t d d' : is_derive g t d -> is_derive h t d' -> h t <> 0 ->
  is_derive (fun u => g u / h u) t ((d * h t - g t * d') / (h t * h t)).
Proof.
  intros Hg Hh N. eapply derive_eq; [exact (is_derive_div g h t d d' Hg Hh N)|].
  unfold Hierarchy.minus, plus, opp, scal, mult. cbn. unfold mult. cbn. field. exact N.
Qed.
(** each built-in function has its derivative on its domain: the chain rule along every curve *)
Theorem builtin_differentiable f xs : domain f xs -> differentiable (Function f) xs.
Proof.
  intros H. destruct xs as [|a [|b [|c [|e xs]]]]; try (destruct f; destruct H; fail).
  - apply by_composition; [apply unary_derivative|exact H].
  - intros gs ds t E F. destruct F as [|g d gs ds Hg F]; [discriminate|]. destruct F as [|h d' gs ds Hh F]; [discriminate|].
    destruct F; [|discriminate]. injection E as <- <-. cbn [SSA.dmap map fval].
    change (NormedModule.sort R_AbsRing R_NormedModule) with R in *. pose proof (derive_continuous _ _ _ Hg) as Cg. pose proof (derive_continuous _ _ _ Hh) as Ch.
    destruct f; try (destruct H; fail); table.
    + cbn in H. unfold where_ge, where_gt. destruct (Rle_dec (h t) (g t)), (Rlt_dec (g t) (h t)); try lra.
      * apply (is_derive_ext_loc g); [|apply (derive_eq _ _ d); [exact Hg|ring]].
        eapply filter_imp; [|apply (locally_less h g t Ch Cg); lra]. cbv beta. intros u Hu. now rewrite Rmax_left by lra.
      * apply (is_derive_ext_loc h); [|apply (derive_eq _ _ d'); [exact Hh|ring]].
        eapply filter_imp; [|apply (locally_less g h t Cg Ch); lra]. cbv beta. intros u Hu. now rewrite Rmax_right by lra.
    + cbn in H. unfold where_ge, where_gt. destruct (Rle_dec (g t) (h t)), (Rlt_dec (h t) (g t)); try lra.
      * apply (is_derive_ext_loc g); [|apply (derive_eq _ _ d); [exact Hg|ring]].
        eapply filter_imp; [|apply (locally_less g h t Cg Ch); lra]. cbv beta. intros u Hu. now rewrite Rmin_left by lra.
      * apply (is_derive_ext_loc h); [|apply (derive_eq _ _ d'); [exact Hh|ring]].
        eapply filter_imp; [|apply (locally_less h g t Ch Cg); lra]. cbv beta. intros u Hu. now rewrite Rmin_right by lra.
    + rewrite logaddexp_component, (Rplus_comm (exp (g t))), logaddexp_component.
      pose proof (exp_pos (g t)). pose proof (exp_pos (h t)).
      apply (derive_eq _ _ ((exp (g t) * d + exp (h t) * d') * / (exp (g t) + exp (h t)))); [|field; lra].
      apply (is_derive_comp ln (fun u => exp (g u) + exp (h u)) t (/ (exp (g t) + exp (h t))) (exp (g t) * d + exp (h t) * d'));
        [apply is_derive_ln; lra|]. apply derive_plus.
      * rewrite Rmult_comm. exact (is_derive_comp exp g t (exp (g t)) d (is_derive_exp _) Hg).
      * rewrite Rmult_comm. exact (is_derive_comp exp h t (exp (h t)) d' (is_derive_exp _) Hh).
    + destruct H as [Hb Hf]. set (q := floor (g t * / h t)) in *. rewrite Q2R_m1.
      pose proof (derive_quotient g h t d d' Hg Hh Hb) as Dq. pose proof (derive_continuous _ _ _ Dq) as Cq.
      apply (is_derive_ext_loc (fun u => g u - h u * q)).
      * pose proof (Cq _ (floor_near _ Hf)) as L. unfold filtermap in L. eapply filter_imp; [|exact L]. cbv beta. intros u Hu.
        unfold modulo, q. unfold Rdiv in Hu. now rewrite Hu.
      * apply (derive_eq _ _ (d - q * d')); [|ring]. apply (is_derive_minus (K := R_AbsRing) (V := R_NormedModule) g (fun u => h u * q)); [exact Hg|].
        apply (is_derive_ext (fun u => q * h u)); [intros u; exact (Rmult_comm q (h u))|]. now apply derive_scale.
    + rewrite Q2R_m1. assert (N : g t * g t + h t * h t <> 0) by (destruct H; nra). destruct (Rlt_dec 0 (h t)) as [P|P].
      * apply (is_derive_ext_loc (fun u => atan (g u / h u))).
        { eapply filter_imp; [|exact (Ch _ (near_right (h t) 0 P))]. cbv beta. intros u Hu. unfold atan2. destruct (Rlt_dec 0 (h u)); [reflexivity|lra]. }
        eapply derive_eq; [apply derive_atan_of, (derive_quotient g h t d d' Hg Hh); lra|]. cbv beta. field. repeat split; nra.
      * destruct H as [H|H]; [lra|]. destruct (Rlt_dec 0 (g t)) as [G|G].
        -- apply (is_derive_ext_loc (fun u => PI / 2 - atan (h u / g u))).
           { eapply filter_imp; [|exact (Cg _ (near_right (g t) 0 G))]. cbv beta. intros u Hu. symmetry. now apply atan2_above. }
           eapply derive_eq; [apply (is_derive_minus (K := R_AbsRing) (V := R_NormedModule) (fun _ => PI / 2));
             [apply derive_const|apply derive_atan_of, (derive_quotient h g t d' d Hh Hg); lra]|].
           unfold Hierarchy.minus, plus, opp, Hierarchy.zero. cbn. field. repeat split; try lra; nra.
        -- assert (G' : g t < 0) by lra. apply (is_derive_ext_loc (fun u => - (PI / 2) - atan (h u / g u))).
           { eapply filter_imp; [|exact (Cg _ (near_left (g t) 0 G'))]. cbv beta. intros u Hu. symmetry. now apply atan2_below. }
           eapply derive_eq; [apply (is_derive_minus (K := R_AbsRing) (V := R_NormedModule) (fun _ => - (PI / 2)));
             [apply derive_const|apply derive_atan_of, (derive_quotient h g t d' d Hh Hg); lra]|].
           unfold Hierarchy.minus, plus, opp, Hierarchy.zero. cbn. field. repeat split; try lra; nra.
    + cbn in H. rewrite Q2R_1, Q2R_0. unfold where_gt. destruct (Rlt_dec 0 (Rabs (g t))) as [_|N]; [|rewrite Rabs_right in N by lra; lra].
      unfold Rpower. assert (E : exp ((h t - 1) * ln (g t)) = exp (h t * ln (g t)) / g t).
      { replace ((h t - 1) * ln (g t)) with (h t * ln (g t) + - ln (g t)) by ring. now rewrite exp_plus, exp_Ropp, exp_ln by exact H. }
      rewrite E. pose proof (is_derive_comp ln g t (/ g t) d (is_derive_ln _ H) Hg) as Dl.
      pose proof (is_derive_mult h (fun u => ln (g u)) t d' _ Hh Dl Rmult_comm) as Dm.
      eapply derive_eq; [exact (is_derive_comp exp (fun u => h u * ln (g u)) t _ _ (is_derive_exp _) Dm)|].
      unfold scal, plus, mult. cbn. unfold mult. cbn. field. lra.
  - intros gs ds t E F. destruct F as [|g d gs ds Hg F]; [discriminate|]. destruct F as [|h d' gs ds Hh F]; [discriminate|].
    destruct F as [|k d'' gs ds Hk F]; [discriminate|]. destruct F; [|discriminate]. injection E as <- <- <-. cbn [SSA.dmap map fval].
    change (NormedModule.sort R_AbsRing R_NormedModule) with R in *. pose proof (derive_continuous _ _ _ Hg) as Cg. pose proof (derive_continuous _ _ _ Hh) as Ch.
    destruct f; try (destruct H; fail); table; cbn in H; rewrite Q2R_0; unfold where_ge, where_gt.
    + destruct (Rle_dec (h t) (g t)).
      * apply (is_derive_ext_loc k); [|apply (derive_eq _ _ d''); [exact Hk|ring]].
        eapply filter_imp; [|apply (locally_less h g t Ch Cg); lra]. cbv beta. intros u Hu. destruct (Rle_dec (h u) (g u)); lra.
      * apply (is_derive_ext_loc (fun _ => 0)); [|apply (derive_eq _ _ 0); [apply derive_const|ring]].
        eapply filter_imp; [|apply (locally_less g h t Cg Ch); lra]. cbv beta. intros u Hu. destruct (Rle_dec (h u) (g u)); lra.
    + destruct (Rlt_dec (h t) (g t)).
      * apply (is_derive_ext_loc k); [|apply (derive_eq _ _ d''); [exact Hk|ring]].
        eapply filter_imp; [|apply (locally_less h g t Ch Cg); lra]. cbv beta. intros u Hu. destruct (Rlt_dec (h u) (g u)); lra.
      * apply (is_derive_ext_loc (fun _ => 0)); [|apply (derive_eq _ _ 0); [apply derive_const|ring]].
        eapply filter_imp; [|apply (locally_less g h t Cg Ch); lra]. cbv beta. intros u Hu. destruct (Rlt_dec (h u) (g u)); lra.
Qed.

