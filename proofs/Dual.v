(** The forward derivative of SSA.v is the derivative: it is evaluation in the ring of dual numbers K[eps]/(eps^2), to
    which black boxes are extended by their partial derivatives. *)
Require Import List Bool ZArith Ring.
Import ListNotations.
Require Import TL.Sums TL.SSA.

Section Dual.
  Context {K : Type} (rO rI : K) (radd rmul rsub : K -> K -> K) (ropp : K -> K).
  Hypothesis Rth : ring_theory rO rI radd rmul rsub ropp eq.
  Add Ring DualRing : Rth.
  Context {fn : Type} (fval : fn -> list K -> K) (partial : fn -> nat -> list K -> K).

  (** value + tangent * eps *)
  Definition dual : Type := K * K.
  Definition dO : dual := (rO, rO).
  Definition dI : dual := (rI, rO).
  Definition dadd (a b : dual) : dual := (radd (fst a) (fst b), radd (snd a) (snd b)).
  Definition dmul (a b : dual) : dual :=
    (rmul (fst a) (fst b), radd (rmul (snd a) (fst b)) (rmul (fst a) (snd b))).
  Definition dsub (a b : dual) : dual := (rsub (fst a) (fst b), rsub (snd a) (snd b)).
  Definition dopp (a : dual) : dual := (ropp (fst a), ropp (snd a)).
  Theorem dual_ring : ring_theory dO dI dadd dmul dsub dopp eq.
  Proof.
    constructor; intros; unfold dO, dI, dadd, dmul, dsub, dopp; try destruct x; try destruct y; try destruct z; cbn; f_equal; ring.
  Qed.
  Definition dfval (f : fn) (xs : list dual) : dual :=
    (fval f (map fst xs), dmap rO radd rmul partial f (map fst xs) 0 (map snd xs)).

  (** a program over the numbers as one over the dual numbers *)
  Definition lift (r : rhs K fn) : rhs dual fn :=
    match r with
    | Input x => Input x | Const c => Const (c, rO) | Add l => Add l | Map p f xs => Map p f xs
    | C1 s p x => C1 s p x | C2 s p x0 x1 => C2 s p x0 x1 | Choice p x => Choice p x
    end.
  Definition pair_env (E dE : env (K := K)) : env (K := dual) := fun x i => (E x i, dE x i).
  Lemma dsum {A} (l : list A) (f : A -> dual) :
    sum dO dadd l f = (sum rO radd l (fun a => fst (f a)), sum rO radd l (fun a => snd (f a))).
  Proof. induction l; simpl; [reflexivity|]. rewrite IHl. reflexivity. Qed.
  Lemma dind b (x : dual) : ind dO b x = (ind rO b (fst x), ind rO b (snd x)).
  Proof. destruct b; [destruct x|]; reflexivity. Qed.
  Lemma dsigned m (x : dual) : signed dopp m x = (signed ropp m (fst x), signed ropp m (snd x)).
  Proof. destruct m; [|destruct x]; reflexivity. Qed.

  Theorem deval_is_dual inp dinp E dE r i :
    eval dO dadd dmul dopp dfval (pair_env inp dinp) (pair_env E dE) (lift r) i
    = (eval rO radd rmul ropp fval inp E r i, deval rO radd rmul ropp partial inp dinp E dE r i).
  Proof.
    destruct r; cbn [eval deval lift]; try reflexivity.
    - rewrite dsum. f_equal; apply sum_ext; intros t _; rewrite dind, dsigned; reflexivity.
    - rewrite dind. unfold dfval. cbn [fst snd]. rewrite !map_map. reflexivity.
    - unfold sum1. rewrite dsum. f_equal; apply sum_ext; intros j _; rewrite dsum; cbn [fst snd]; apply sum_ext;
      intros z _; rewrite dind; reflexivity.
    - unfold sum2. rewrite dsum. f_equal; apply sum_ext; intros j _; rewrite dsum; cbn [fst snd]; apply sum_ext; intros k _;
      rewrite dsum; cbn [fst snd]; apply sum_ext; intros z _; rewrite dind; reflexivity.
  Qed.
End Dual.
