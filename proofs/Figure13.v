(** Figure 13 on the language: D[e] is the derivative of e. Evaluating e over the dual numbers gives the value of e and,
    beside it, the value of D[e] (tensorlang/derivatives/total.py does the same to tensor SSA; see Dual.v). *)
Require Import String List Bool ZArith Ring.
Import ListNotations.
Require Import TL.Sums TL.Boxes TL.SSA TL.Dual TL.Core TL.Free TL.InnerProducts.
Open Scope list_scope.

Section Figure13.
  Context {K : Type} (rO rI : K) (radd rmul rsub : K -> K -> K) (ropp : K -> K).
  Hypothesis Rth : ring_theory rO rI radd rmul rsub ropp eq.
  Add Ring Figure13Ring : Rth.
  Context {fn : Type} (fval : fn -> list K -> K) (partial : fn -> nat -> list K -> K) (DT : fn -> nat -> fn) (R : data).
  Hypothesis DT_val : forall f j xs dx, fval (DT f j) (xs ++ [fval f xs; dx]) = rmul (partial f j xs) dx.
  Notation expr := (@Core.expr K fn).
  Notation eval := (Core.eval rO radd rmul rsub fval R).
  Notation eval_dual := (Core.eval (dO rO) (dadd radd) (dmul radd rmul) (dsub rsub) (dfval rO radd rmul fval partial) R).
  Notation dual := (dual (K := K)).
  (** the differential of x is called dname x, which is the name of no variable of the program *)
  Variable dname : string -> string.
  Hypothesis dname_inj : forall x y, dname x = dname y -> x = y.

  (** * Figure 13; sigma is given by the variables that are differentiated *)
  Fixpoint D (act : string -> bool) (e : expr) : expr :=
    match e with
    | EVar x => if act x then EVar (dname x) else ECst rO                                    (* 6.1, 6.2 *)
    | ECst _ => ECst rO                                                                      (* 6.3 *)
    | EAdd a b => EAdd (D act a) (D act b)                                                   (* 6.4 *)
    | ESub a b => ESub (D act a) (D act b)
    | EMul a b => EAdd (EMul (D act a) b) (EMul a (D act b))                                 (* 6.5 *)
    | EFn f es =>                                                                            (* 6.6 *)
        (fix components (j : nat) (l : list expr) : expr :=
           match l with
           | [] => ECst rO
           | a :: l' => EAdd (EFn (DT f j) (es ++ [EFn f es; D act a])) (components (S j) l')
           end) 0 es
    | EPair a b => EPair (D act a) (D act b)                                                 (* 6.7 *)
    | EFst a => EFst (D act a)                                                               (* 6.8 *)
    | ESnd a => ESnd (D act a)
    | EGen i n a => EGen i n (D act a)                                                       (* 6.9 *)
    | ESum i n a => ESum i n (D act a)                                                       (* 6.10 *)
    | EAcc a k => EAcc (D act a) k                                                           (* 6.11 *)
    | EInd p a => EInd p (D act a)                                                           (* 6.12 *)
    | ELet x a b => ELet x a (ELet (dname x) (D act a) (D (also x act) b))                    (* 6.13 *)
    end.

  (** a program over the numbers as one over the dual numbers *)
  Fixpoint lift_expr (e : expr) : @Core.expr dual fn :=
    match e with
    | EVar x => EVar x | ECst c => ECst (c, rO)
    | EAdd a b => EAdd (lift_expr a) (lift_expr b) | ESub a b => ESub (lift_expr a) (lift_expr b)
    | EMul a b => EMul (lift_expr a) (lift_expr b) | EFn f es => EFn f (map lift_expr es)
    | EPair a b => EPair (lift_expr a) (lift_expr b) | EFst a => EFst (lift_expr a) | ESnd a => ESnd (lift_expr a)
    | EGen i n a => EGen i n (lift_expr a) | ESum i n a => ESum i n (lift_expr a)
    | EAcc a k => EAcc (lift_expr a) k | EInd p a => EInd p (lift_expr a)
    | ELet x a b => ELet x (lift_expr a) (lift_expr b)
    end.
  (** no variable is bound twice, and none has the name of a differential *)
  Definition plain (l : list string) : Prop := forall x, In x l -> forall y, x <> dname y.
  Fixpoint named (e : expr) : Prop :=
    match e with
    | EVar _ | ECst _ => True
    | EAdd a b | ESub a b | EMul a b | EPair a b => named a /\ named b
    | EFn _ es => (fix all (l : list expr) : Prop := match l with [] => True | a :: l' => named a /\ all l' end) es
    | EFst a | ESnd a | EGen _ _ a | ESum _ _ a | EAcc a _ | EInd _ a => named a
    | ELet x a b => named a /\ named b /\ ~ In x (efv a) /\ forall y, x <> dname y
    end.
  (** the dual values of variables are their values and those of their differentials *)
  Definition carries (act : string -> bool) (l : list string) (r : @venv K) (rr : @venv dual) : Prop :=
    forall x, In x l -> forall d w, rr x d w = (r x d w, if act x then r (dname x) d w else rO).
  Lemma carries_l act l m r rr : carries act (l ++ m) r rr -> carries act l r rr.
  Proof. intros H x Hx. apply H, in_or_app. auto. Qed.
  Lemma carries_r act l m r rr : carries act (l ++ m) r rr -> carries act m r rr.
  Proof. intros H x Hx. apply H, in_or_app. auto. Qed.
  Lemma plain_l l m : plain (l ++ m) -> plain l.
  Proof. intros H x Hx. apply H, in_or_app. auto. Qed.
  Lemma plain_r l m : plain (l ++ m) -> plain m.
  Proof. intros H x Hx. apply H, in_or_app. auto. Qed.
  Local Hint Resolve carries_l carries_r plain_l plain_r : carry.

  (** D[e] is linear in the differentials, and the derivative *)
  Theorem D_is_dual e : forall act r rr s, named e -> plain (efv e) -> carries act (efv e) r rr ->
    forall d w, eval_dual rr s (lift_expr e) d w = (eval r s e d w, eval r s (D act e) d w).
  Proof.
    induction e using expr_ind2; intros act r rr s N P C d w; cbn [named efv] in *; cbn [lift_expr D Core.eval].
    - rewrite C by (left; reflexivity). destruct (act x); reflexivity.
    - reflexivity.
    - destruct N. rewrite (IHe1 act r), (IHe2 act r); eauto with carry.
    - destruct N. rewrite (IHe1 act r), (IHe2 act r); eauto with carry.
    - destruct N. rewrite (IHe1 act r), (IHe2 act r); eauto with carry.
    - assert (V : map (fun e => eval_dual rr s e d w) (map lift_expr es)
                  = map (fun e => (eval r s e d w, eval r s (D act e) d w)) es).
      { rewrite map_map. induction H as [|a l Ha Hl IH]; [reflexivity|]. destruct N. cbn [map flat_map] in *.
        rewrite (Ha act r), IH; eauto with carry. }
      rewrite V. unfold dfval. rewrite !map_map. cbn [fst snd]. f_equal.
      set (xs := map (fun x => eval r s x d w) es).
      assert (G : forall l j, dmap rO radd rmul partial f xs j (map (fun x => eval r s (D act x) d w) l)
        = eval r s ((fix components (j : nat) (l : list expr) : expr :=
             match l with [] => ECst rO | a :: l' => EAdd (EFn (DT f j) (es ++ [EFn f es; D act a])) (components (S j) l') end) j l) d w).
      { induction l as [|a l IH]; intros j; cbn [map dmap Core.eval]; [reflexivity|]. rewrite IH. f_equal.
        rewrite map_app. cbn [map Core.eval]. fold xs. now rewrite DT_val. }
      apply G.
    - destruct N. destruct d as [|[|] d]; [reflexivity|apply IHe1|apply IHe2]; eauto with carry.
    - now apply IHe.
    - now apply IHe.
    - destruct w as [|z w]; [reflexivity|]. rewrite (dind rO), (IHe act r) by assumption. reflexivity.
    - rewrite (dsum rO radd). f_equal; apply sum_ext; intros z _; now rewrite (IHe act r).
    - now apply IHe.
    - rewrite (dind rO), (IHe act r) by assumption. reflexivity.
    - destruct N as [N1 [N2 [Nx Nd]]]. set (va := eval r s e1).
      assert (C1 : carries act (efv e1) (upd r x va) rr).
      { intros y Hy d' w'. rewrite (C y) by (apply in_or_app; left; exact Hy).
        rewrite (upd_other r x), (upd_other r x) by (apply Nd || (intros ->; contradiction)). reflexivity. }
      assert (A1 : forall d w, eval_dual rr s (lift_expr e1) d w = (va d w, eval r s (D act e1) d w))
        by (intros; apply IHe1; eauto with carry).
      assert (A2 : forall d w, eval_dual rr s (lift_expr e1) d w = (eval (upd r x va) s e1 d w, eval (upd r x va) s (D act e1) d w))
        by (intros; apply IHe1; eauto with carry).
      assert (Pb : forall y, In y (efv e2) -> y = x \/ In y (without x (efv e2))).
      { intros y Hy. destruct (string_dec y x) as [->|Ny]; [left; reflexivity|right]. apply filter_In. split; [exact Hy|].
        destruct (String.eqb_spec x y); [congruence|reflexivity]. }
      assert (P2 : plain (efv e2)).
      { intros y Hy. destruct (Pb y Hy) as [->|Hy']; [exact Nd|]. apply (plain_r _ _ P y Hy'). }
      set (dv := eval (upd r x va) s (D act e1)).
      rewrite (IHe2 (also x act) (upd (upd r x va) (dname x) dv)); [|exact N2|exact P2|].
      + f_equal. apply eval_weaken. intros Hd. exact (P2 _ Hd x eq_refl).
      + intros y Hy d' w'. rewrite (upd_other _ (dname x)) by (intros E; exact (P2 y Hy x (eq_sym E))).
        unfold also. destruct (String.eqb_spec x y) as [<-|Ny]; cbn [orb].
        * rewrite !upd_same, A1. f_equal. pose proof (A2 d' w') as Q. rewrite A1 in Q. unfold dv. congruence.
        * rewrite !(upd_other _ x) by assumption.
          destruct (Pb y Hy) as [->|Hy']; [contradiction|]. rewrite (C y) by (apply in_or_app; right; exact Hy'). f_equal.
          destruct (act y); [|reflexivity].
          rewrite (upd_other _ (dname x)) by (intros E; apply Ny, dname_inj, E). now rewrite upd_other by apply Nd.
  Qed.

  (** it has the equations of Figure 13 that the rules of Figure 15 have as premises, all of them at once *)
  Theorem D_equations :
    D_let D dname /\ D_pair D /\ D_fst D /\ D_var D dname /\ D_inactive rO D /\ D_constant rO D.
  Proof. repeat split; intros act; intros; cbn [D]; try reflexivity; now rewrite H. Qed.
End Figure13.
