(** Scalar code with branches and loops (tensorlang/scalars): its adjoint executes the adjoint of the path that was taken.

    A small language of statements x := f(y, ..), if and while over a store of numbers. To run a command leaves a log: the
    arguments of each function, which branch was taken, and the rounds of each loop; and a path, the statements and
    questions in order. The adjoint is made of the command, branch by branch and loop by loop, and reads the log backwards.
    [adjoint_of_path]: what it executes are the adjoints of the path's statements, the last one first. [path_bound]: with the
    command itself it costs at most 4 times what the path costs, and the number of outputs, on every path, loops of any
    length; a cotangent that is not there yet is set, not added to. [path_transposed]: what it computes is the transposed
    derivative of the path. That this is the gradient is in reals/Path.v. *)
Require Import List Bool ZArith Ring Lia Arith.
Import ListNotations.
Require Import TL.Sums TL.Conditions.
Open Scope list_scope.

Section Path.
  Context {K : Type} (rO rI : K) (radd rmul rsub : K -> K -> K) (ropp : K -> K).
  Hypothesis Rth : ring_theory rO rI radd rmul rsub ropp eq.
  Add Ring PathRing : Rth.
  Context {fn : Type} (fval : fn -> list K -> K) (partial : fn -> nat -> list K -> K) (DT : fn -> nat -> fn) (fcost : fn -> Z).
  Context (ask : question -> K -> K -> bool).
  Hypothesis DT_val : forall f j xs dy, fval (DT f j) (xs ++ [fval f xs; dy]) = rmul (partial f j xs) dy.
  Hypothesis fcost_nonneg : forall f, (0 <= fcost f)%Z.

  (** * Commands, and what runs of them leave *)
  Definition store := nat -> K.
  Definition set {V} (s : nat -> V) (x : nat) (v : V) : nat -> V := fun y => if Nat.eqb x y then v else s y.
  Inductive cmd :=
  | Skip | Assign (x : nat) (f : fn) (ys : list nat) | Seq (a b : cmd)
  | If (o : question) (y z : nat) (a b : cmd) | While (o : question) (y z : nat) (a : cmd).
  Inductive event := Did (x : nat) (f : fn) (ys : list nat) (vs : list K) | Asked (o : question) (y z : nat) (b : bool).
  Inductive log := Nothing | Values (vs : list K) | Both (l m : log) | Branch (b : bool) (l : log) | Rounds (ls : list log).
  Inductive runs : store -> cmd -> log -> list event -> store -> Prop :=
  | run_skip s : runs s Skip Nothing [] s
  | run_assign s x f ys : runs s (Assign x f ys) (Values (map s ys)) [Did x f ys (map s ys)] (set s x (fval f (map s ys)))
  | run_seq s a b l m p q s' s'' : runs s a l p s' -> runs s' b m q s'' -> runs s (Seq a b) (Both l m) (p ++ q) s''
  | run_then s o y z a b l p s' : ask o (s y) (s z) = true -> runs s a l p s' ->
      runs s (If o y z a b) (Branch true l) (Asked o y z true :: p) s'
  | run_else s o y z a b l p s' : ask o (s y) (s z) = false -> runs s b l p s' ->
      runs s (If o y z a b) (Branch false l) (Asked o y z false :: p) s'
  | run_done s o y z a : ask o (s y) (s z) = false -> runs s (While o y z a) (Rounds []) [Asked o y z false] s
  | run_round s o y z a l ls p q s' s'' : ask o (s y) (s z) = true -> runs s a l p s' -> runs s' (While o y z a) (Rounds ls) q s'' ->
      runs s (While o y z a) (Rounds (l :: ls)) (Asked o y z true :: p ++ q) s''.

  (** * The adjoint: cotangents that are there, and what was spent on them *)
  Definition cots := ((nat -> option K) * Z)%type.
  Definition give (y : nat) (v : K) (c : cots) : cots :=
    match fst c y with
    | None => (set (fst c) y (Some v), snd c)
    | Some u => (set (fst c) y (Some (radd u v)), snd c + 1)%Z
    end.
  Fixpoint gives (f : fn) (vs : list K) (t : K) (j : nat) (ys : list nat) (c : cots) : cots :=
    match ys with
    | [] => c
    | y :: ys => let c' := give y (fval (DT f j) (vs ++ [fval f vs; t])) c in gives f vs t (S j) ys (fst c', (snd c' + fcost (DT f j))%Z)
    end.
  Definition turned (x : nat) (f : fn) (ys : list nat) (vs : list K) (c : cots) : cots :=
    match fst c x with None => c | Some t => gives f vs t 0 ys (set (fst c) x None, snd c) end.
  Fixpoint back (a : cmd) (l : log) (c : cots) : cots :=
    match a, l with
    | Assign x f ys, Values vs => turned x f ys vs c
    | Seq a b, Both l m => back a l (back b m c)
    | If _ _ _ a _, Branch true l => back a l c
    | If _ _ _ _ b, Branch false l => back b l c
    | While _ _ _ a, Rounds ls => fold_right (back a) c ls
    | _, _ => c
    end.
  (** of a path: one statement after the other, the last one first *)
  Definition back_event (e : event) (c : cots) : cots := match e with Did x f ys vs => turned x f ys vs c | Asked _ _ _ _ => c end.
  Definition back_path (p : list event) (c : cots) : cots := fold_right back_event c p.
  Theorem adjoint_of_path s a l p s' : runs s a l p s' -> forall c, back a l c = back_path p c.
  Proof.
    induction 1; intros c; unfold back_path in *; cbn [back fold_right back_event] in *; auto.
    - rewrite fold_right_app, <- IHruns2, <- IHruns1. reflexivity.
    - rewrite fold_right_app, <- IHruns2, <- IHruns1. reflexivity.
  Qed.

  (** * What it costs *)
  Definition event_cost (e : event) : Z := match e with Did _ f _ _ => fcost f | Asked _ _ _ _ => 1%Z end.
  Definition path_cost (p : list event) : Z := zsum p event_cost.
  Definition there (c : cots) (y : nat) : Z := match fst c y with Some _ => 1%Z | None => 0%Z end.
  Definition present (vars : list nat) (c : cots) : Z := zsum vars (there c).
  Definition arguments_in (vars : list nat) (e : event) : Prop := match e with Did x _ ys _ => In x vars /\ incl ys vars | Asked _ _ _ _ => True end.
  Lemma zsum_set {V} (g : V -> Z) (h : nat -> V) x v : forall vars, NoDup vars -> In x vars ->
    zsum vars (fun y => g (set h x v y)) = (zsum vars (fun y => g (h y)) - g (h x) + g v)%Z.
  Proof.
    assert (N : forall vars, ~ In x vars -> zsum vars (fun y => g (set h x v y)) = zsum vars (fun y => g (h y))).
    { intros vars N. apply zsum_ext. intros y Hy. unfold set. destruct (Nat.eqb_spec x y); [subst; contradiction|reflexivity]. }
    induction vars as [|y vars IH]; intros ND H; [destruct H|]. inversion ND as [|? ? Ny ND']; subst. cbn [zsum]. unfold set at 1.
    destruct (Nat.eqb_spec x y) as [->|Ne].
    - rewrite N by exact Ny. lia.
    - destruct H as [H|H]; [congruence|]. rewrite IH by assumption. lia.
  Qed.
  Definition one {V} (o : option V) : Z := match o with Some _ => 1%Z | None => 0%Z end.
  Lemma present_set vars c x v n : NoDup vars -> In x vars -> present vars (set (fst c) x v, n) = (present vars c - there c x + one v)%Z.
  Proof. intros ND H. exact (zsum_set (@one K) (fst c) x v vars ND H). Qed.
  Lemma gives_cost vars f vs t : NoDup vars -> forall ys j c, incl ys vars ->
    (snd (gives f vs t j ys c) + present vars (gives f vs t j ys c)
     = snd c + present vars c + zsum (seq j (length ys)) (fun j => fcost (DT f j)) + Z.of_nat (length ys))%Z.
  Proof.
    intros ND. induction ys as [|y ys IH]; intros j c I; cbn [gives length seq zsum]; [lia|].
    assert (Hy : In y vars) by (apply I; left; reflexivity).
    rewrite IH by (intros z Hz; apply I; right; exact Hz). cbn [snd].
    assert (E : (snd (give y (fval (DT f j) (vs ++ [fval f vs; t])) c) + present vars (give y (fval (DT f j) (vs ++ [fval f vs; t])) c) = snd c + present vars c + 1)%Z).
    { unfold give. pose proof (present_set vars c y) as P. unfold there in P. destruct (fst c y) eqn:Ey; cbn [snd]; rewrite P by assumption; cbn [one]; lia. }
    assert (Q : forall n, present vars (fst (give y (fval (DT f j) (vs ++ [fval f vs; t])) c), n) = present vars (give y (fval (DT f j) (vs ++ [fval f vs; t])) c)) by reflexivity.
    rewrite Q. lia.
  Qed.
  (** the components of each function's transposed derivative, and the additions that join them, cost at most 3 times the function *)
  Definition cheap (e : event) : Prop := match e with
    | Did _ f ys _ => (zsum (seq 0 (length ys)) (fun j => fcost (DT f j)) + Z.of_nat (Nat.pred (length ys)) <= 3 * fcost f)%Z
    | Asked _ _ _ _ => True end.
  Lemma turned_cost vars x f ys vs c : NoDup vars -> arguments_in vars (Did x f ys vs) -> cheap (Did x f ys vs) ->
    (snd (turned x f ys vs c) + present vars (turned x f ys vs c) <= snd c + present vars c + 3 * fcost f)%Z.
  Proof.
    intros ND [Hx Hy] C. cbn [cheap] in C. unfold turned. pose proof (fcost_nonneg f). destruct (fst c x) as [t|] eqn:E; [|lia].
    rewrite (gives_cost vars f vs t ND ys 0%nat _ Hy). cbn [snd]. rewrite present_set by assumption. unfold there. rewrite E. cbn [one].
    destruct ys; cbn [length Nat.pred] in *; lia.
  Qed.
  Theorem back_path_cost vars : NoDup vars -> forall p c, Forall (arguments_in vars) p -> Forall cheap p ->
    (snd (back_path p c) + present vars (back_path p c) <= snd c + present vars c + 3 * path_cost p)%Z.
  Proof.
    intros ND. induction p as [|e p IH]; intros c A C; [cbn; lia|]. inversion A; inversion C; subst.
    specialize (IH c H2 H6). unfold back_path, path_cost in *. cbn [fold_right zsum]. destruct e as [x f ys vs|o y z b]; cbn [back_event event_cost].
    - pose proof (turned_cost vars x f ys vs (fold_right back_event c p) ND H1 H5). lia.
    - lia.
  Qed.
  (** the command and its adjoint: at most 4 times the path, and the outputs, of which the cotangents are given *)
  Theorem path_bound vars s a l p s' c : NoDup vars -> runs s a l p s' -> Forall (arguments_in vars) p -> Forall cheap p ->
    (path_cost p + (snd (back a l c) - snd c) + present vars (back a l c) <= 4 * path_cost p + present vars c)%Z.
  Proof. intros ND R A C. rewrite (adjoint_of_path _ _ _ _ _ R). pose proof (back_path_cost vars ND p c A C). lia. Qed.

  (** * What it computes: the transposed derivative of the path *)
  Fixpoint slope (f : fn) (vs : list K) (ds : store) (j : nat) (ys : list nat) : K :=
    match ys with [] => rO | y :: ys => radd (rmul (partial f j vs) (ds y)) (slope f vs ds (S j) ys) end.
  Definition moves (ds : store) (e : event) : store := match e with Did x f ys vs => set ds x (slope f vs ds 0 ys) | Asked _ _ _ _ => ds end.
  (** the derivative of a path *)
  Definition along (ds : store) (p : list event) : store := fold_left moves p ds.
  Definition number (o : option K) : K := match o with Some v => v | None => rO end.
  Definition paired (vars : list nat) (c : cots) (ds : store) : K := Sums.sum rO radd vars (fun y => rmul (number (fst c y)) (ds y)).
  Lemma sum_set (g : nat -> K) x w : forall vars, NoDup vars -> In x vars ->
    Sums.sum rO radd vars (fun y => if Nat.eqb x y then w else g y) = radd (rsub (Sums.sum rO radd vars g) (g x)) w.
  Proof.
    assert (N : forall vars, ~ In x vars -> Sums.sum rO radd vars (fun y => if Nat.eqb x y then w else g y) = Sums.sum rO radd vars g).
    { intros vars N. apply sum_ext. intros y Hy. destruct (Nat.eqb_spec x y); [subst; contradiction|reflexivity]. }
    induction vars as [|y vars IH]; intros ND H; [destruct H|]. inversion ND as [|? ? Ny ND']; subst. cbn [Sums.sum].
    destruct (Nat.eqb_spec x y) as [->|Ne].
    - rewrite N by exact Ny. ring.
    - destruct H as [H|H]; [congruence|]. rewrite IH by assumption. ring.
  Qed.
  Lemma paired_set vars c x v n ds : NoDup vars -> In x vars ->
    paired vars (set (fst c) x v, n) ds = radd (paired vars c ds) (rmul (rsub (number v) (number (fst c x))) (ds x)).
  Proof.
    intros ND H. unfold paired. cbn [fst].
    transitivity (Sums.sum rO radd vars (fun y => if Nat.eqb x y then rmul (number v) (ds x) else rmul (number (fst c y)) (ds y))).
    2: rewrite (sum_set (fun y => rmul (number (fst c y)) (ds y)) x _ vars ND H); ring.
    apply sum_ext. intros y _. unfold set. destruct (Nat.eqb_spec x y) as [->|]; reflexivity.
  Qed.
  Lemma gives_value vars f vs t ds : NoDup vars -> forall ys j c, incl ys vars ->
    paired vars (gives f vs t j ys c) ds = radd (paired vars c ds) (rmul t (slope f vs ds j ys)).
  Proof.
    intros ND. induction ys as [|y ys IH]; intros j c I; cbn [gives slope]; [ring|].
    rewrite IH by (intros z Hz; apply I; right; exact Hz). assert (Hy : In y vars) by (apply I; left; reflexivity).
    set (v := fval (DT f j) (vs ++ [fval f vs; t])).
    assert (E : paired vars (fst (give y v c), (snd (give y v c) + fcost (DT f j))%Z) ds = radd (paired vars c ds) (rmul v (ds y))).
    { unfold give. destruct (fst c y) eqn:Ey; cbn [fst snd]; rewrite paired_set by assumption; rewrite Ey; cbn [number]; ring. }
    rewrite E. unfold v. rewrite DT_val. ring.
  Qed.
  Lemma turned_value vars x f ys vs c ds : NoDup vars -> arguments_in vars (Did x f ys vs) ->
    paired vars (turned x f ys vs c) ds = paired vars c (set ds x (slope f vs ds 0 ys)).
  Proof.
    intros ND [Hx Hy].
    assert (M : paired vars c (set ds x (slope f vs ds 0 ys))
      = radd (paired vars c ds) (rmul (number (fst c x)) (rsub (slope f vs ds 0 ys) (ds x)))).
    { unfold paired. transitivity (Sums.sum rO radd vars (fun y => if Nat.eqb x y then rmul (number (fst c x)) (slope f vs ds 0 ys) else rmul (number (fst c y)) (ds y))).
      2: rewrite (sum_set (fun y => rmul (number (fst c y)) (ds y)) x _ vars ND Hx); ring.
      apply sum_ext. intros y _. unfold set. destruct (Nat.eqb_spec x y) as [->|]; reflexivity. }
    rewrite M. unfold turned. destruct (fst c x) as [t|] eqn:E; cbn [number]; [|ring].
    rewrite (gives_value vars f vs t ds ND ys 0%nat _ Hy), paired_set by assumption. rewrite E. cbn [number]. ring.
  Qed.
  Theorem back_path_value vars : NoDup vars -> forall p c ds, Forall (arguments_in vars) p ->
    paired vars (back_path p c) ds = paired vars c (along ds p).
  Proof.
    intros ND. induction p as [|e p IH]; intros c ds A; [reflexivity|]. inversion A; subst. unfold back_path, along in *.
    cbn [fold_right fold_left]. destruct e as [x f ys vs|o y z b]; cbn [back_event moves].
    - rewrite (turned_value vars x f ys vs _ ds ND H1). now apply IH.
    - now apply IH.
  Qed.
  Theorem path_transposed vars s a l p s' c ds : NoDup vars -> runs s a l p s' -> Forall (arguments_in vars) p ->
    paired vars (back a l c) ds = paired vars c (along ds p).
  Proof. intros ND R A. rewrite (adjoint_of_path _ _ _ _ _ R). now apply back_path_value. Qed.

  (** a run is determined by the store that it begins with *)
  Theorem runs_once s a l p s' : runs s a l p s' -> forall l' p' s'', runs s a l' p' s'' -> l = l' /\ p = p' /\ s' = s''.
  Proof.
    induction 1; intros l' p' t R; inversion R; subst; try congruence; auto;
    repeat match goal with
      | IH : forall l' p' s'', runs ?s ?a l' p' s'' -> _, Q : runs ?s ?a _ _ _ |- _ =>
          let E := fresh in destruct (IH _ _ _ Q) as [E [? ?]]; clear IH; try (injection E as E); subst
    end; auto.
  Qed.
End Path.
