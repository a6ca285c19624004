(** The language: its grammar (Fig. 3), its meaning (Figs. 4 and 5), and its cost (Fig. 6), at given sizes.

    A value of type T is a function from a path to numbers, where a path is a list of projections (true = fst) and a
    list of indices.  Keeping the two apart makes [n](T0, T1) and ([n]T0, [n]T1) the same space, as Fig. 8 needs, and
    makes the zero of every type the constant 0.  Everything is total: beyond its range a gen is 0.

    Numbers are an arbitrary commutative ring; black-box functions, relations and index arrays are abstract. *)
Require Import String List Bool ZArith Ring Lia Arith.
Import ListNotations.
Require Import TL.Sums TL.Boxes.
Open Scope list_scope.

Definition ix := string.

(** * Fig. 3: affine indices, in which [ALook y l] looks the index array y up at l, and predicates *)
Inductive aff := AVar (i : ix) | ACst (k : Z) | AAdd (a b : aff) | AScl (k : Z) (a : aff) | ALook (y : string) (l : list aff).
Inductive prd :=
| PTrue | PLt (a b : aff) | PLe (a b : aff) | PEq (a b : aff) | PRel (r : string) (l : list aff)
| PAnd (p q : prd) | POr (p q : prd) | PEx (i : ix) (n : nat) (p : prd).

(** what relations hold of, and what index arrays hold *)
Record data := Data { holds : string -> list Z -> bool; entry : string -> list Z -> Z }.
Definition ienv := ix -> Z.
Definition upd {V} (s : string -> V) (i : string) (v : V) : string -> V := fun j => if String.eqb i j then v else s j.

(** * Fig. 5: their meaning *)
Fixpoint aval (R : data) (s : ienv) (a : aff) : Z :=
  match a with
  | AVar i => s i | ACst k => k | AAdd a b => aval R s a + aval R s b | AScl k a => k * aval R s a
  | ALook y l => entry R y (map (aval R s) l)
  end%Z.
Fixpoint pval (R : data) (s : ienv) (p : prd) : bool :=
  match p with
  | PTrue => true
  | PLt a b => (aval R s a <? aval R s b)%Z
  | PLe a b => (aval R s a <=? aval R s b)%Z
  | PEq a b => (aval R s a =? aval R s b)%Z
  | PRel r l => holds R r (map (aval R s) l)
  | PAnd p q => pval R s p && pval R s q
  | POr p q => pval R s p || pval R s q
  | PEx i n p => existsb (fun z => pval R (upd s i z) p) (zrange n)
  end.

Section Core.
  Context {K : Type} (rO rI : K) (radd rmul rsub : K -> K -> K) (ropp : K -> K).
  Hypothesis Rth : ring_theory rO rI radd rmul rsub ropp eq.
  Add Ring KRing3 : Rth.
  Infix "+" := radd. Infix "*" := rmul. Infix "-" := rsub.
  Notation sum := (sum rO radd).
  Notation ind := (ind rO).
  Context {fn : Type} (fval : fn -> list K -> K) (fcost : fn -> Z) (R : data).

  (** * Fig. 3: expressions *)
  Inductive expr :=
  | EVar (x : string) | ECst (c : K)
  | EAdd (e0 e1 : expr) | ESub (e0 e1 : expr) | EMul (e0 e1 : expr) | EFn (f : fn) (es : list expr)
  | EPair (e0 e1 : expr) | EFst (e : expr) | ESnd (e : expr)
  | EGen (i : ix) (n : nat) (e : expr) | ESum (i : ix) (n : nat) (e : expr)
  | EAcc (e : expr) (a : aff) | EInd (p : prd) (e : expr)
  | ELet (x : string) (e0 e1 : expr).

  Definition val := list bool -> list Z -> K.
  Definition venv := string -> val.

  (** * Fig. 4 *)
  Fixpoint eval (r : venv) (s : ienv) (e : expr) : val :=
    match e with
    | EVar x => r x
    | ECst c => fun _ _ => c
    | EAdd a b => fun d w => eval r s a d w + eval r s b d w
    | ESub a b => fun d w => eval r s a d w - eval r s b d w
    | EMul a b => fun d w => eval r s a d w * eval r s b d w
    | EFn f es => fun d w => fval f (map (fun e => eval r s e d w) es)
    | EPair a b => fun d w => match d with true :: d' => eval r s a d' w | false :: d' => eval r s b d' w | [] => rO end
    | EFst a => fun d w => eval r s a (true :: d) w
    | ESnd a => fun d w => eval r s a (false :: d) w
    | EGen i n a => fun d w => match w with z :: w' => ind (inside n z) (eval r (upd s i z) a d w') | [] => rO end
    | ESum i n a => fun d w => sum (zrange n) (fun z => eval r (upd s i z) a d w)
    | EAcc a k => fun d w => eval r s a d (aval R s k :: w)
    | EInd p a => fun d w => ind (pval R s p) (eval r s a d w)
    | ELet x a b => eval (upd r x (eval r s a)) s b
    end.

  (** * Fig. 6
      The brackets that stand around e are true. *)
  Fixpoint guard (s : ienv) (e : expr) : bool := match e with EInd p a => pval R s p && guard s a | _ => true end.
  (** What the p of an operand [p]*e is in (4.24); of an addition's, it is the two sides' p0 or p1. *)
  Fixpoint live (s : ienv) (e : expr) : bool :=
    match e with EAdd a b | ESub a b => live s a || live s b | _ => guard s e end.
  (** A sum has something to add for the body e: a true bracket, or a point of a directly nested sum. *)
  Fixpoint reach (s : ienv) (e : expr) : bool :=
    match e with
    | EInd p a => pval R s p && reach s a
    | ESum i n a => existsb (fun z => reach (upd s i z) a) (zrange n)
    | _ => true
    end.
  Open Scope Z_scope.
  Fixpoint cost (s : ienv) (e : expr) : Z :=
    match e with
    | EVar _ | ECst _ => 0
    | EAdd a b => cost s a + cost s b + b2z (live s a && live s b)      (* 4.24 *)
    | ESub a b => cost s a + cost s b + b2z (live s b)
    | EMul a b => 1 + cost s a + cost s b
    | EFn f es => fcost f + fold_right Z.add 0 (map (cost s) es)
    | EPair a b => cost s a + cost s b
    | EFst a | ESnd a => cost s a
    | EGen i n a => zsum (zrange n) (fun z => cost (upd s i z) a)
    | ESum i n a =>                                                     (* 4.30; nested sums jointly, see cost_sums *)
        zsum (zrange n) (fun z => cost (upd s i z) a + b2z (reach (upd s i z) a))
        - b2z (existsb (fun z => reach (upd s i z) a) (zrange n))
    | EAcc a _ => cost s a
    | EInd p a => if pval R s p then cost s a else 0
    | ELet _ a b => cost s a + cost s b
    end.
  Close Scope Z_scope.

  (** ** Several binders, accesses and sums at once *)
  Definition binders := list (ix * nat).
  Definition bnames (bs : binders) : list ix := map fst bs.
  Definition bsizes (bs : binders) : shape := map snd bs.
  Definition bbox (bs : binders) := box (bsizes bs).
  Fixpoint upds (s : ienv) (bs : binders) (zs : list Z) : ienv :=
    match bs, zs with
    | (i, _) :: bs', z :: zs' => upds (upd s i z) bs' zs'
    | _, _ => s
    end.
  Fixpoint gens (bs : binders) (e : expr) : expr := match bs with [] => e | (i, n) :: bs' => EGen i n (gens bs' e) end.
  Fixpoint sums (bs : binders) (e : expr) : expr := match bs with [] => e | (i, n) :: bs' => ESum i n (sums bs' e) end.
  Fixpoint accs (e : expr) (l : list aff) : expr := match l with [] => e | a :: l' => accs (EAcc e a) l' end.
  (** e[i0, .., ik] *)
  Definition at_ (e : expr) (bs : binders) : expr := accs e (map AVar (bnames bs)).

  Lemma bbox_length bs zs : In zs (bbox bs) -> length zs = length bs.
  Proof. intros H. apply box_length in H. unfold bsizes in H. now rewrite map_length in H. Qed.
  Lemma sums_app bs bs' e : sums (bs ++ bs') e = sums bs (sums bs' e).
  Proof. induction bs as [|[i n] bs IH]; simpl; congruence. Qed.
  Lemma gens_app bs bs' e : gens (bs ++ bs') e = gens bs (gens bs' e).
  Proof. induction bs as [|[i n] bs IH]; simpl; congruence. Qed.

  Lemma eval_gens r bs e d w : forall zs s, In zs (bbox bs) -> eval r s (gens bs e) d (zs ++ w) = eval r (upds s bs zs) e d w.
  Proof.
    induction bs as [|[i n] bs IH]; intros [|z zs] s H; try (apply bbox_length in H; discriminate); [reflexivity|].
    apply box_cons in H. destruct H as [Hz H]. cbn [gens eval app upds fst snd] in *. rewrite Hz. apply IH, H.
  Qed.
  Lemma eval_sums r e d w : forall bs s, eval r s (sums bs e) d w = sum (bbox bs) (fun zs => eval r (upds s bs zs) e d w).
  Proof.
    unfold bbox. induction bs as [|[i n] bs IH]; intros s; simpl; [ring|].
    rewrite (sum_flat_map _ _ _ _ _ _ Rth). apply sum_ext. intros z _. rewrite sum_map. apply IH.
  Qed.
  Lemma eval_accs r s d l : forall e w, eval r s (accs e l) d w = eval r s e d (map (aval R s) l ++ w).
  Proof. induction l as [|i l IH]; intros e w; simpl; [reflexivity|]. rewrite IH. reflexivity. Qed.
  Lemma eval_at r s d e bs w : eval r s (at_ e bs) d w = eval r s e d (map s (bnames bs) ++ w).
  Proof. unfold at_. rewrite eval_accs, map_map. reflexivity. Qed.

  Open Scope Z_scope.
  Lemma cost_gens e : forall bs s, cost s (gens bs e) = zsum (bbox bs) (fun zs => cost (upds s bs zs) e).
  Proof.
    unfold bbox. induction bs as [|[i n] bs IH]; intros s; simpl; [lia|].
    rewrite zsum_flat_map. apply zsum_ext. intros z _. rewrite zsum_map. apply IH.
  Qed.
  Lemma reach_sums e : forall bs s, reach s (sums bs e) = existsb (fun zs => reach (upds s bs zs) e) (bbox bs).
  Proof.
    unfold bbox. induction bs as [|[i n] bs IH]; intros s; [simpl; now rewrite orb_false_r|].
    cbn [sums reach bsizes map snd box]. induction (zrange n) as [|z l IHl]; [reflexivity|].
    cbn [existsb flat_map]. rewrite existsb_app, existsb_map, IHl, IH. reflexivity.
  Qed.
  (** 4.30 for any number of sums: 1 + cost for each point, less 1 if there is a point *)
  Lemma cost_sums e : forall bs s, cost s (sums bs e) =
    zsum (bbox bs) (fun zs => cost (upds s bs zs) e + b2z (reach (upds s bs zs) e)) - b2z (reach s (sums bs e)).
  Proof.
    unfold bbox. induction bs as [|[i n] bs IH]; intros s; [simpl; lia|].
    cbn [sums cost reach bsizes map snd box upds]. f_equal. rewrite zsum_flat_map. apply zsum_ext. intros z _.
    rewrite zsum_map, IH. apply Z.sub_add.
  Qed.
  Lemma cost_accs s l : forall e, cost s (accs e l) = cost s e.
  Proof. induction l as [|a l IH]; intros e; [reflexivity|]. cbn [accs]. now rewrite IH. Qed.
  Lemma guard_live s e : guard s e = false -> live s e = false.
  Proof. destruct e; auto; discriminate. Qed.
  (** an operand whose brackets are false is 0 *)
  Lemma eval_dead r s e : live s e = false -> forall d w, eval r s e d w = rO.
  Proof.
    assert (G : forall e, guard s e = false -> forall d w, eval r s e d w = rO).
    { induction e0; try discriminate. cbn [guard eval]. intros H d w. destruct (pval R s p); [|reflexivity]. apply IHe0, H. }
    induction e; cbn [live]; try discriminate.
    - intros H d w. apply orb_false_iff in H. destruct H. cbn [eval]. rewrite IHe1, IHe2 by assumption. ring.
    - intros H d w. apply orb_false_iff in H. destruct H. cbn [eval]. rewrite IHe1, IHe2 by assumption. ring.
    - intros H. apply G, H.
  Qed.
End Core.

(** * Notation: <{ e }> is an expression as one writes it, with Coq terms in braces; GEN and SUM bind several indices *)
Declare Custom Entry tl.
Notation "<{ e }>" := e (e custom tl at level 99).
Notation "( e )" := e (in custom tl, e at level 99).
Notation "x" := x (in custom tl at level 0, x ident).
Notation "{ e }" := e (in custom tl at level 0, e constr at level 200).
Notation "a + b" := (EAdd a b) (in custom tl at level 50, left associativity).
Notation "a - b" := (ESub a b) (in custom tl at level 50, left associativity).
Notation "[ p ] * e" := (EInd p e) (in custom tl at level 41, p constr at level 200, e custom tl at level 41).
Notation "a * b" := (EMul a b) (in custom tl at level 40, left associativity).
Notation "'Fst' e" := (EFst e) (in custom tl at level 20, e custom tl at level 20).
Notation "'Snd' e" := (ESnd e) (in custom tl at level 20, e custom tl at level 20).
Notation "e [ a ]" := (EAcc e a) (in custom tl at level 10, left associativity, a constr at level 200).
Notation "( a , b )" := (EPair a b) (in custom tl, a at level 99, b at level 99).
Notation "'Gen' i : n , e" := (EGen i n e)
  (in custom tl at level 99, i constr at level 0, n constr at level 0, e custom tl at level 99).
Notation "'Sum' i : n , e" := (ESum i n e)
  (in custom tl at level 99, i constr at level 0, n constr at level 0, e custom tl at level 99).
Notation "'GEN' is , e" := (gens is e) (in custom tl at level 99, is constr at level 0, e custom tl at level 99).
Notation "'SUM' is , e" := (sums is e) (in custom tl at level 99, is constr at level 0, e custom tl at level 99).
Notation "'let' x := a 'in' b" := (ELet x a b)
  (in custom tl at level 99, x constr at level 0, a custom tl at level 99, b custom tl at level 99).
