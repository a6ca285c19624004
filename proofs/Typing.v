(** Types, and expressions that have one (Figure 3, Section 4): well-typed, with accesses in bounds wherever they are
    evaluated. *)
Require Import String List Bool ZArith.
Import ListNotations.
Require Import TL.Sums TL.Boxes TL.Core.
Open Scope list_scope.

Inductive ty := TReal | TArray (n : nat) (T : ty) | TPair (T0 T1 : ty).

(** what a value of a type consists of: [n](T0, T1) is ([n]T0, [n]T1) *)
Inductive tree (A : Type) := Leaf (a : A) | Both (l r : tree A).
Arguments Leaf {A}. Arguments Both {A}.
Fixpoint tmap {A B} (f : A -> B) (t : tree A) : tree B :=
  match t with Leaf a => Leaf (f a) | Both l r => Both (tmap f l) (tmap f r) end.
Fixpoint leaves {A} (t : tree A) : list A := match t with Leaf a => [a] | Both l r => leaves l ++ leaves r end.
Fixpoint flat (T : ty) : tree shape :=
  match T with TReal => Leaf [] | TArray n T => tmap (cons n) (flat T) | TPair T0 T1 => Both (flat T0) (flat T1) end.
Lemma tmap_id {A} (t : tree A) : tmap (fun a => a) t = t.
Proof. induction t; cbn; congruence. Qed.

Section Typing.
  Context {K : Type} (rO : K) (radd rmul rsub : K -> K -> K).
  Context {fn : Type} (fval : fn -> list K -> K) (takes : fn -> nat -> Prop) (R : data).
  Notation expr := (@Core.expr K fn).
  Notation value := (Core.eval rO radd rmul rsub fval R).
  (** the types of variables *)
  Definition context := string -> option ty.

  (** Well-typed, and accesses are in bounds wherever they are evaluated: P holds of the values of the indices there.
      [takes f n]: f takes n arguments. *)
  Inductive checks : context -> (ienv -> Prop) -> expr -> ty -> Prop :=
  | check_var C P x T : C x = Some T -> checks C P (EVar x) T
  | check_cst C P c : checks C P (ECst c) TReal
  | check_add C P a b : checks C P a TReal -> checks C P b TReal -> checks C P (EAdd a b) TReal
  | check_sub C P a b : checks C P a TReal -> checks C P b TReal -> checks C P (ESub a b) TReal
  | check_mul C P a b : checks C P a TReal -> checks C P b TReal -> checks C P (EMul a b) TReal
  | check_fn C P f es : takes f (List.length es) -> (forall a, In a es -> checks C P a TReal) -> checks C P (EFn f es) TReal
  | check_pair C P a b T0 T1 : checks C P a T0 -> checks C P b T1 -> checks C P (EPair a b) (TPair T0 T1)
  | check_fst C P a T0 T1 : checks C P a (TPair T0 T1) -> checks C P (EFst a) T0
  | check_snd C P a T0 T1 : checks C P a (TPair T0 T1) -> checks C P (ESnd a) T1
  | check_gen C P i n a T :
      checks C (fun s => exists s' z, P s' /\ inside n z = true /\ s = upd s' i z) a T -> checks C P (EGen i n a) (TArray n T)
  | check_sum C P i n a :
      checks C (fun s => exists s' z, P s' /\ inside n z = true /\ s = upd s' i z) a TReal -> checks C P (ESum i n a) TReal
  | check_acc C P a n T k :
      checks C P a (TArray n T) -> (forall s, P s -> inside n (aval R s k) = true) -> checks C P (EAcc a k) T
  | check_ind C P p a T : checks C (fun s => P s /\ pval R s p = true) a T -> checks C P (EInd p a) T
  | check_let C P x a b T0 T1 : checks C P a T0 -> checks (upd C x (Some T0)) P b T1 -> checks C P (ELet x a b) T1.

  Definition all_of (q : expr -> Prop) : list expr -> Prop :=
    fix all_of (l : list expr) : Prop := match l with [] => True | a :: l' => q a /\ all_of l' end.
  (** scalar functions are applied where A holds, such as: where they are differentiable *)
  Fixpoint applied (A : fn -> list K -> Prop) (r : @venv K) (s : ienv) (e : expr) : Prop :=
    match e with
    | EVar _ | ECst _ => True
    | EAdd a b | ESub a b | EMul a b | EPair a b => applied A r s a /\ applied A r s b
    | EFn f es =>
        all_of (applied A r s) es /\ A f (map (fun a => value r s a [] []) es)
    | EFst a | ESnd a | EAcc a _ => applied A r s a
    | EGen i n a | ESum i n a => forall z, inside n z = true -> applied A r (upd s i z) a
    | EInd p a => pval R s p = true -> applied A r s a
    | ELet x a b => applied A r s a /\ applied A (upd r x (value r s a)) s b
    end.
End Typing.
