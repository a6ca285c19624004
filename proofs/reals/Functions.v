(** The values of the built-in scalar functions over the real numbers; each is differentiable on its domain, and its
    transposed derivative in Functions.v is its derivative there. *)
Require Import List Bool ZArith QArith Qreals Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
Import ListNotations.
Require Import TL.Sums TL.SSA TL.Functions TL.reals.Gradient.
Open Scope R_scope.

(** * Values *)
Definition where_ge (a b t : R) : R := if Rle_dec b a then t else 0.
Definition where_gt (a b t : R) : R := if Rlt_dec b a then t else 0.
Definition sign (a : R) : R := if Rlt_dec 0 a then 1 else if Rlt_dec a 0 then -1 else 0.
Definition sigmoid (a : R) : R := / (1 + exp (- a)).
Definition slope : R := 2 / sqrt PI.
Definition erf (a : R) : R := slope * RInt (fun s => exp (-1 * (s * s))) 0 a.
(** 0 at the wrong number of arguments *)
Definition bval (f : builtin) (xs : list R) : R :=
  match f, xs with
  | Exp, [a] => exp a | Log, [a] => ln a | Sin, [a] => sin a | Cos, [a] => cos a | Tan, [a] => tan a
  | Tanh, [a] => tanh a | Sinh, [a] => sinh a | Cosh, [a] => cosh a | Sigmoid, [a] => sigmoid a | Sqrt, [a] => sqrt a
  | Recip, [a] => / a | WhereGe, [a; b; t] => where_ge a b t | WhereGt, [a; b; t] => where_gt a b t
  | Sign, [a] => sign a | Relu, [a] => Rmax a 0 | Abs, [a] => Rabs a | Max, [a; b] => Rmax a b | Min, [a; b] => Rmin a b
  | Erf, [a] => erf a | Softplus, [a] => ln (1 + exp a) | Logaddexp, [a; b] => ln (exp a + exp b)
  | Power n, [a] => a ^ Pos.to_nat (Pos.succ n) | RealPower q, [a] => Rpower a (Q2R q)
  | _, _ => 0
  end.
Fixpoint sval (xs : list R) (y t : R) (e : scalar) : R :=
  match e with
  | Argument k => nth k xs 0 | Value => y | Cotangent => t | Number q => Q2R q | Slope => slope
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
  destruct f; destruct j as [|[|[|j]]]; cbn [nth transpose]; rewrite ?N; cbn [nth sval map bval]; rewrite ?raised_power;
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
Lemma derive_eq (g : R -> R) t (a b : R) : is_derive g t a -> a = b -> is_derive g t b.
Proof. now intros H <-. Qed.
Ltac table := unfold partial, component; cbn [nth transpose]; cbn [nth sval map bval].
Lemma Q2R_1 : Q2R 1 = 1.
Proof. unfold Q2R. cbn. lra. Qed.
Lemma Q2R_m1 : Q2R (-1) = -1.
Proof. unfold Q2R. cbn. lra. Qed.
Lemma Q2R_half : Q2R (1 # 2) = / 2.
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
Lemma derive_power n a : is_derive (fun a => a ^ Pos.to_nat (Pos.succ n)) a (INR (Pos.to_nat (Pos.succ n)) * a ^ Pos.to_nat n).
Proof.
  rewrite Pos2Nat.inj_succ. pose proof (is_derive_pow (fun a => a) (S (Pos.to_nat n)) a 1 (is_derive_id (K := R_AbsRing) a)) as H.
  cbn [Nat.pred] in H. now rewrite Rmult_1_r in H.
Qed.
Lemma cosh_positive a : 0 < cosh a.
Proof. unfold cosh. pose proof (exp_pos a). pose proof (exp_pos (- a)). lra. Qed.
Lemma unary_derivative f a : domain f [a] -> is_derive (fun a => bval f [a]) a (partial (Function f) 0 [a]).
Proof.
  assert (EP := exp_pos). intros H. destruct f; try (destruct H; fail); table; rewrite ?Q2R_1, ?Q2R_m1, ?Q2R_half, ?Q2R_0.
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

