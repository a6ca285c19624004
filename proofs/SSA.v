(** Tensor SSA (Figure 10): what a program means, what it costs (Figure 6), and its forward derivative (Figure 13).

    A program is a list of statements, the last one first; the k-th from the end binds [Var k]. So a statement is
    added by [cons], and the fresh name is the length of the list. *)
Require Import List Bool ZArith Ring Lia Arith.
Import ListNotations.
Require Import TL.Sums.
Require Export TL.Points.

(** a variable, or an input leaf; it carries its shape *)
Record var := Var { name : nat; shp : shape }.
Definition var_eq_dec (x y : var) : {x = y} + {x <> y}.
Proof. decide equality; [apply (list_eq_dec Nat.eq_dec)|apply Nat.eq_dec]. Defined.
Definition var_eqb x y := if var_eq_dec x y then true else false.
Lemma var_eqb_eq x y : var_eqb x y = true <-> x = y.
Proof. unfold var_eqb; destruct (var_eq_dec x y); split; congruence. Qed.
Lemma var_eqb_refl x : var_eqb x x = true.
Proof. now apply var_eqb_eq. Qed.
Definition among (l : list var) (x : var) : bool := existsb (var_eqb x) l.
Lemma among_in l x : among l x = true <-> In x l.
Proof.
  unfold among. rewrite existsb_exists. split.
  - intros [y [Hy E]]. apply var_eqb_eq in E. now subst.
  - intros H. exists x. split; [exact H|apply var_eqb_refl].
Qed.

(** * Figure 10: right-hand sides

    Additions have any number of terms, each with a sign: [p0]*X0 + [p1]*X1 is the case of two (see [cost_add2]), a
    lone term is a masked copy, none is 0. All accesses are at plain indices: shifts, strides and diagonals live in
    the predicates, and so do lookups in index arrays, since a predicate may be any set of points. *)
Record term := Term { minus : bool; bracket : pred; operand : var }.
Inductive rhs {K fn : Type} :=
| Input (x : var)                                                         (** a projection of a parameter *)
| Const (c : K)                                                           (** gen g. c *)
| Add (l : list term)                                                     (** gen g. [p0]*X0[g] + [p1]*X1[g] - .. *)
| Map (p : pred) (f : fn) (xs : list var)                                 (** gen g. [p]*f(X0[g], ..) *)
| C1 (s : shape) (p : index -> index -> index -> bool) (x : var)          (** gen g. sum i, s. [p g i s]*X[i] *)
| C2 (s : shape) (p : index -> index -> index -> index -> bool) (x0 x1 : var)
                                                        (** gen g. sum i0, i1, s. [p g i0 i1 s]*X0[i0]*X1[i1] *)
| Choice (p : index -> index -> bool) (x : var).       (** gen g. the i with p g i at which X[i] is greatest: Choice.v *)
Arguments rhs : clear implicits.
Definition stmt K fn : Type := shape * rhs K fn.
Definition prog K fn : Type := list (stmt K fn).

Definition ops {K fn} (r : rhs K fn) : list var :=
  match r with
  | Input _ | Const _ => []
  | Add l => map operand l
  | Map _ _ xs => xs
  | C1 _ _ x | Choice _ x => [x]
  | C2 _ _ x0 x1 => [x0; x1]
  end.
Fixpoint declared {K fn} (S : prog K fn) : list var :=
  match S with [] => [] | (sh, _) :: S' => Var (length S') sh :: declared S' end.
(** additions and maps are point-wise *)
Definition pointwise {K fn} (sh : shape) (r : rhs K fn) : Prop :=
  match r with
  | Input x => shp x = sh
  | Add _ | Map _ _ _ => forall x, In x (ops r) -> shp x = sh
  | _ => True
  end.
(** a statement reads earlier ones *)
Fixpoint wf {K fn} (S : prog K fn) : Prop :=
  match S with
  | [] => True
  | (sh, r) :: S' => (forall x, In x (ops r) -> In x (declared S')) /\ pointwise sh r /\ wf S'
  end.

Lemma declared_name {K fn} (t : prog K fn) : forall x, In x (declared t) -> (name x < length t)%nat.
Proof.
  induction t as [|[sh r] t IH]; simpl; intros x H; [tauto|]. destruct H as [<-|H]; simpl; [lia|]. specialize (IH x H). lia.
Qed.
Lemma fresh_neq {K fn} sh (t : prog K fn) v : In v (declared t) -> var_eqb v (Var (length t) sh) = false.
Proof.
  intros H. apply declared_name in H. destruct (var_eqb v _) eqn:E; [|reflexivity].
  apply var_eqb_eq in E. subst. simpl in H. lia.
Qed.

(** t' is t with more statements *)
Definition extends {K fn} (t t' : prog K fn) : Prop := exists l, t' = l ++ t.
Lemma extends_refl {K fn} (t : prog K fn) : extends t t.
Proof. now exists []. Qed.
Lemma extends_cons {K fn} st (t : prog K fn) : extends t (st :: t).
Proof. now exists [st]. Qed.
Lemma extends_trans {K fn} (t t' t'' : prog K fn) : extends t t' -> extends t' t'' -> extends t t''.
Proof. intros [l ->] [l' ->]. exists (l' ++ l). apply app_assoc. Qed.
Lemma extends_declared {K fn} (t t' : prog K fn) : extends t t' -> incl (declared t) (declared t').
Proof. intros [l ->]. induction l as [|[sh r] l IH]; cbn; [apply incl_refl|]. intros v Hv. right. apply IH, Hv. Qed.

(** the points of the bound indices of contractions, and whether there are any *)
Definition cnt1 s x (p : index -> index -> bool) : Z :=
  zsum (box (shp x)) (fun i => zsum (box s) (fun z => b2z (p i z))).
Definition cnt2 s x0 x1 (p : index -> index -> index -> bool) : Z :=
  zsum (box (shp x0)) (fun i0 => zsum (box (shp x1)) (fun i1 => zsum (box s) (fun z => b2z (p i0 i1 z)))).
Definition ex1 s x (p : index -> index -> bool) : bool :=
  existsb (fun i => existsb (fun z => p i z) (box s)) (box (shp x)).
Definition ex2 s x0 x1 (p : index -> index -> index -> bool) : bool :=
  existsb (fun i0 => existsb (fun i1 => existsb (fun z => p i0 i1 z) (box s)) (box (shp x1))) (box (shp x0)).
(** where an addition has a term that is not subtracted *)
Definition positive (l : list term) : pred := fun i => existsb (fun t => negb (minus t) && bracket t i) l.

(** * Figure 6: N points of the predicate, at G elements, cost 2N - G for a product, N - G for a sum *)
Section Cost.
  Open Scope Z_scope.
  Context {K fn : Type} (fcost : fn -> Z).
  Definition cost1 (st : stmt K fn) : Z :=
    let (sh, r) := st in
    match r with
    | Input _ | Const _ => 0
    | Add l => zsum l (fun t => num sh (bracket t)) - num sh (positive l)
    | Map p f _ => num sh p * fcost f
    | C1 s p x => zsum (box sh) (fun g => cnt1 s x (p g)) - num sh (fun g => ex1 s x (p g))
    | C2 s p x0 x1 => 2 * zsum (box sh) (fun g => cnt2 s x0 x1 (p g)) - num sh (fun g => ex2 s x0 x1 (p g))
    | Choice p x => zsum (box sh) (fun g => num (shp x) (p g)) - num sh (fun g => existsb (p g) (box (shp x)))
    end.
  Definition cost (S : prog K fn) : Z := zsum S cost1.

  Lemma cnt1_nonneg s x p : 0 <= cnt1 s x p.
  Proof. do 2 (apply zsum_nonneg; intros). apply b2z_range. Qed.
  Lemma cnt2_nonneg s x y p : 0 <= cnt2 s x y p.
  Proof. do 3 (apply zsum_nonneg; intros). apply b2z_range. Qed.
  Lemma ex1_le s x p : b2z (ex1 s x p) <= cnt1 s x p.
  Proof.
    unfold ex1, cnt1. eapply Z.le_trans; [apply zsum_existsb|]. apply zsum_le; intros. apply zsum_existsb.
  Qed.
  Lemma ex2_le s x y p : b2z (ex2 s x y p) <= cnt2 s x y p.
  Proof.
    unfold ex2, cnt2. eapply Z.le_trans; [apply zsum_existsb|]. apply zsum_le; intros.
    eapply Z.le_trans; [apply zsum_existsb|]. apply zsum_le; intros. apply zsum_existsb.
  Qed.
  Lemma positive_le sh l : num sh (positive l) <= zsum l (fun t => num sh (bracket t)).
  Proof.
    eapply Z.le_trans; [apply (num_le_sum sh l (fun t i => negb (minus t) && bracket t i))|].
    apply zsum_le. intros t _. apply num_le. intros i H. now apply andb_prop in H.
  Qed.
  (** two terms cost the points of both: (4.24); a difference costs the points of what is subtracted *)
  Lemma cost_add2 sh p0 x0 p1 x1 :
    cost1 (sh, Add [Term false p0 x0; Term false p1 x1]) = num sh (fun i => p0 i && p1 i).
  Proof.
    cbn [cost1 zsum bracket]. unfold num, positive. cbn [existsb minus bracket negb andb]. rewrite Z.add_0_r, <- zsum_add, <- zsum_sub.
    apply zsum_ext. intros i _. destruct (p0 i), (p1 i); reflexivity.
  Qed.
  Lemma cost_subtract sh p0 x0 p1 x1 : cost1 (sh, Add [Term false p0 x0; Term true p1 x1]) = num sh p1.
  Proof.
    cbn [cost1 zsum bracket]. unfold num, positive. cbn [existsb minus bracket negb andb]. rewrite Z.add_0_r, <- zsum_add, <- zsum_sub.
    apply zsum_ext. intros i _. destruct (p0 i), (p1 i); reflexivity.
  Qed.
  (** a lone term is a masked copy *)
  Lemma cost_copy sh p x : cost1 (sh, Add [Term false p x]) = 0.
  Proof.
    cbn [cost1 zsum bracket]. unfold num, positive. cbn [existsb minus bracket negb andb]. rewrite Z.add_0_r, <- zsum_sub.
    transitivity (zsum (box sh) (fun _ => 0)); [|apply zsum_0]. apply zsum_ext. intros i _. destruct (p i); reflexivity.
  Qed.

  Hypothesis fcost_nonneg : forall f, 0 <= fcost f.
  Lemma cost1_nonneg st : 0 <= cost1 st.
  Proof.
    destruct st as [sh r]. destruct r; cbn [cost1]; try lia.
    - pose proof (positive_le sh l). lia.
    - pose proof (num_nonneg sh p). specialize (fcost_nonneg f). nia.
    - assert (num sh (fun g => ex1 s x (p g)) <= zsum (box sh) (fun g => cnt1 s x (p g)))
        by (apply zsum_le; intros; apply ex1_le). lia.
    - assert (num sh (fun g => ex2 s x0 x1 (p g)) <= zsum (box sh) (fun g => cnt2 s x0 x1 (p g)))
        by (apply zsum_le; intros; apply ex2_le).
      assert (0 <= zsum (box sh) (fun g => cnt2 s x0 x1 (p g))) by (apply zsum_nonneg; intros; apply cnt2_nonneg). lia.
    - assert (num sh (fun g => existsb (p g) (box (shp x))) <= zsum (box sh) (fun g => num (shp x) (p g)))
        by (apply zsum_le; intros; apply zsum_existsb). lia.
  Qed.
  Lemma cost_nonneg S : 0 <= cost S.
  Proof. apply zsum_nonneg. intros; apply cost1_nonneg. Qed.
End Cost.

(** * Figures 4 and 13: values, and the forward derivative *)
Section Value.
  Context {K : Type} (rO : K) (radd rmul : K -> K -> K) (ropp : K -> K).
  Context {fn : Type} (fval : fn -> list K -> K) (partial : fn -> nat -> list K -> K).
  Infix "+" := radd. Infix "*" := rmul.
  Notation sum := (sum rO radd).
  Notation ind := (ind rO).
  Definition tensor : Type := index -> K.
  Definition env : Type := var -> tensor.
  Definition signed (m : bool) (a : K) : K := if m then ropp a else a.
  Definition sum1 s x (f : index -> index -> K) : K :=
    sum (box (shp x)) (fun i => sum (box s) (fun z => f i z)).
  Definition sum2 s x0 x1 (f : index -> index -> index -> K) : K :=
    sum (box (shp x0)) (fun i0 => sum (box (shp x1)) (fun i1 => sum (box s) (fun z => f i0 i1 z))).

  (** inp: the values of the inputs, E: those of the variables *)
  Definition eval (inp E : env) (r : rhs K fn) : tensor :=
    match r with
    | Input x => inp x
    | Const c => fun _ => c
    | Add l => fun i => sum l (fun t => ind (bracket t i) (signed (minus t) (E (operand t) i)))
    | Map p f xs => fun i => ind (p i) (fval f (map (fun x => E x i) xs))
    | C1 s p x => fun g => sum1 s x (fun i z => ind (p g i z) (E x i))
    | C2 s p x0 x1 => fun g => sum2 s x0 x1 (fun i0 i1 z => ind (p g i0 i1 z) (E x0 i0 * E x1 i1))
    | Choice _ _ => fun _ => rO                                              (** looked up by predicates, never read *)
    end.
  (** (6.1) to (6.13); dinp, dE: the differentials *)
  Fixpoint dmap (f : fn) (a : list K) (j : nat) (ds : list K) : K :=
    match ds with [] => rO | d :: ds' => partial f j a * d + dmap f a (S j) ds' end.
  Definition deval (inp dinp E dE : env) (r : rhs K fn) : tensor :=
    match r with
    | Input x => dinp x
    | Const _ | Choice _ _ => fun _ => rO
    | Add l => fun i => sum l (fun t => ind (bracket t i) (signed (minus t) (dE (operand t) i)))
    | Map p f xs => fun i => ind (p i) (dmap f (map (fun x => E x i) xs) 0 (map (fun x => dE x i) xs))
    | C1 s p x => fun g => sum1 s x (fun i z => ind (p g i z) (dE x i))
    | C2 s p x0 x1 => fun g => sum2 s x0 x1 (fun i0 i1 z => ind (p g i0 i1 z) (dE x0 i0 * E x1 i1 + E x0 i0 * dE x1 i1))
    end.

  (** E satisfies the equations of S: each variable has the value of its right-hand side *)
  Fixpoint solves (inp E : env) (S : prog K fn) : Prop :=
    match S with
    | [] => True
    | (sh, r) :: S' => (forall i, In i (box sh) -> E (Var (length S') sh) i = eval inp E r i) /\ solves inp E S'
    end.
  Fixpoint dsolves (inp dinp E dE : env) (S : prog K fn) : Prop :=
    match S with
    | [] => True
    | (sh, r) :: S' => (forall i, In i (box sh) -> dE (Var (length S') sh) i = deval inp dinp E dE r i)
                       /\ dsolves inp dinp E dE S'
    end.
  (** there is exactly one such E: running the program *)
  Fixpoint run (inp : env) (S : prog K fn) : env :=
    match S with
    | [] => fun _ _ => rO
    | (sh, r) :: S' => let E := run inp S' in fun v => if var_eqb v (Var (length S') sh) then eval inp E r else E v
    end.
  Fixpoint drun (inp dinp E : env) (S : prog K fn) : env :=
    match S with
    | [] => fun _ _ => rO
    | (sh, r) :: S' => let dE := drun inp dinp E S' in
        fun v => if var_eqb v (Var (length S') sh) then deval inp dinp E dE r else dE v
    end.
  Definition D (S : prog K fn) (inp dinp : env) : env := drun inp dinp (run inp S) S.

  Notation sum_ext' := (Sums.sum_ext rO radd).
  Lemma sum1_ext s x f g : (forall i z, In i (box (shp x)) -> In z (box s) -> f i z = g i z) -> sum1 s x f = sum1 s x g.
  Proof. intros H. apply sum_ext'. intros i Hi. apply sum_ext'. auto. Qed.
  Lemma sum2_ext s x y f g :
    (forall i j z, In i (box (shp x)) -> In j (box (shp y)) -> f i j z = g i j z) -> sum2 s x y f = sum2 s x y g.
  Proof. intros H. apply sum_ext'. intros i Hi. apply sum1_ext. auto. Qed.

  Definition agree (D : list var) (E E' : env) : Prop :=
    forall x, In x D -> forall i, In i (box (shp x)) -> E x i = E' x i.
  Lemma agree_incl D D' E E' : incl D D' -> agree D' E E' -> agree D E E'.
  Proof. intros I A x Hx. apply A, I, Hx. Qed.
  Lemma eval_ext inp E E' sh r : pointwise sh r -> agree (ops r) E E' ->
    forall i, In i (box sh) -> eval inp E r i = eval inp E' r i.
  Proof.
    intros W A i Hi. destruct r; cbn [eval pointwise ops] in *; auto.
    - apply sum_ext'. intros t Ht. assert (In (operand t) (map operand l)) by (apply in_map, Ht).
      rewrite (A (operand t)); auto. now rewrite W.
    - f_equal. f_equal. apply map_ext_in. intros x Hx. apply A; [exact Hx|]. now rewrite W.
    - apply sum1_ext. intros j z Hj _. rewrite (A x); auto. left; auto.
    - apply sum2_ext. intros j k z Hj Hk. rewrite (A x0), (A x1); auto; simpl; auto.
  Qed.
  Lemma deval_ext inp dinp E E' dE dE' sh r : pointwise sh r -> agree (ops r) E E' -> agree (ops r) dE dE' ->
    forall i, In i (box sh) -> deval inp dinp E dE r i = deval inp dinp E' dE' r i.
  Proof.
    intros W A B i Hi. destruct r; cbn [deval pointwise ops] in *; auto.
    - apply sum_ext'. intros t Ht. assert (In (operand t) (map operand l)) by (apply in_map, Ht).
      rewrite (B (operand t)); auto. now rewrite W.
    - f_equal. f_equal; apply map_ext_in; intros x Hx; [apply A|apply B]; auto; now rewrite W.
    - apply sum1_ext. intros j z Hj _. rewrite (B x); auto. left; auto.
    - apply sum2_ext. intros j k z Hj Hk. rewrite (A x0), (A x1), (B x0), (B x1); auto; simpl; auto.
  Qed.
  Lemma solves_ext inp E E' : forall t, wf t -> agree (declared t) E E' -> solves inp E t -> solves inp E' t.
  Proof.
    induction t as [|[sh r] t IH]; [auto|]. cbn [wf declared solves]. intros [HD [Wr W]] A [H1 H2]. split.
    - intros i Hi. rewrite <- (A _ (or_introl eq_refl)), H1 by exact Hi. apply (eval_ext inp E E' sh); auto.
      intros x Hx. apply A. right. apply HD, Hx.
    - apply IH; auto. intros x Hx. apply A. right. exact Hx.
  Qed.
  Lemma dsolves_ext inp dinp E E' dE dE' : forall t, wf t -> agree (declared t) E E' -> agree (declared t) dE dE' ->
    dsolves inp dinp E dE t -> dsolves inp dinp E' dE' t.
  Proof.
    induction t as [|[sh r] t IH]; [auto|]. cbn [wf declared dsolves]. intros [HD [Wr W]] A B [H1 H2]. split.
    - intros i Hi. rewrite <- (B _ (or_introl eq_refl)), H1 by exact Hi.
      apply (deval_ext inp dinp E E' dE dE' sh); auto; intros x Hx; [apply A|apply B]; right; apply HD, Hx.
    - apply IH; auto; intros x Hx; [apply A|apply B]; right; exact Hx.
  Qed.
  Lemma extends_solves inp E t t' : extends t t' -> solves inp E t' -> solves inp E t.
  Proof. intros [l ->]. induction l as [|[sh r] l IH]; cbn; [auto|]. intros [_ H]. auto. Qed.
  Theorem run_solves inp t : wf t -> solves inp (run inp t) t.
  Proof.
    induction t as [|[sh r] t IH]; [simpl; auto|]. cbn [wf solves run]. intros [HD [Wr W]].
    assert (A : agree (declared t) (run inp t)
                  (fun v => if var_eqb v (Var (length t) sh) then eval inp (run inp t) r else run inp t v)).
    { intros x Hx i _. now rewrite (fresh_neq sh t x Hx). }
    split; [|apply (solves_ext inp (run inp t)); auto].
    intros i Hi. rewrite var_eqb_refl. apply (eval_ext inp _ _ sh); auto. intros x Hx. apply A, HD, Hx.
  Qed.
  Theorem drun_solves inp dinp E t : wf t -> dsolves inp dinp E (drun inp dinp E t) t.
  Proof.
    induction t as [|[sh r] t IH]; [simpl; auto|]. cbn [wf dsolves drun]. intros [HD [Wr W]].
    set (dE := fun v => if var_eqb v (Var (length t) sh) then deval inp dinp E (drun inp dinp E t) r else drun inp dinp E t v).
    assert (A : agree (declared t) (drun inp dinp E t) dE).
    { intros x Hx i _. unfold dE. now rewrite (fresh_neq sh t x Hx). }
    assert (R : forall D, agree D E E) by (intros D x _ i _; reflexivity).
    split; [|apply (dsolves_ext inp dinp E E (drun inp dinp E t)); auto].
    intros i Hi. unfold dE at 1. rewrite var_eqb_refl. apply (deval_ext inp dinp E E _ _ sh); auto. intros x Hx. apply A, HD, Hx.
  Qed.
  Theorem solves_unique inp E E' : forall t, wf t -> solves inp E t -> solves inp E' t -> agree (declared t) E E'.
  Proof.
    induction t as [|[sh r] t IH]; intros W H H' x Hx i Hi; [destruct Hx|].
    cbn [wf solves declared] in *. destruct W as [HD [Wr W]], H as [H1 H2], H' as [H1' H2'].
    destruct Hx as [<-|Hx]; [|apply IH; auto]. cbn [shp] in Hi.
    rewrite H1, H1' by exact Hi. apply (eval_ext inp E E' sh); auto. intros y Hy j Hj. apply IH; auto.
  Qed.

  (** every scalar function is applied to numbers of which Q holds, such as: f is differentiable there *)
  Definition applies (Q : fn -> list K -> Prop) (E : env) (st : stmt K fn) : Prop :=
    match snd st with
    | Map p f xs => forall i, In i (box (fst st)) -> p i = true -> Q f (map (fun x => E x i) xs)
    | _ => True
    end.
  Definition maps_at (Q : fn -> list K -> Prop) (E : env) (S : prog K fn) : Prop := Forall (applies Q E) S.
End Value.
