(** Tensor SSA (Fig. 10), its cost (Fig. 6), forward derivative (Fig. 13) and
    adjoint derivative (Figs. 15 and 16, corrected), with the two theorems
      adjoint_correct : <dy | D S dx> = <D^T S dy | dx>
      adjoint_cost    : cost (D^T S) + sum_leaf #P_leaf <= cost S + dcost S + |T_O|
                                                        <= 4 cost S + |T_O|.
    Numbers: an arbitrary commutative ring.  Predicates: boolean functions on
    index tuples.  Black-box functions: abstract, with abstract costs. *)
Require Import List Bool ZArith Ring Lia Arith.
Import ListNotations.
Require Import TL.Sums.
Require Export TL.Boxes.

(** * Variables and predicates *)
(** an SSA variable (or an input leaf) carries its shape *)
Record var := Var { name : nat; shp : shape }.
Definition var_eq_dec (x y : var) : {x = y} + {x <> y}.
Proof. decide equality; [apply (list_eq_dec Nat.eq_dec)|apply Nat.eq_dec]. Defined.
Definition var_eqb x y := if var_eq_dec x y then true else false.
Lemma var_eqb_eq x y : var_eqb x y = true <-> x = y.
Proof. unfold var_eqb; destruct (var_eq_dec x y); split; congruence. Qed.

(** a predicate over a variable's own indices; [any] is the true predicate *)
Notation pred := (index -> bool).
Definition any : pred := fun _ => true.
(** #p : the number of points of the box where p holds *)
Definition num (sh : shape) (p : pred) : Z := zsum (box sh) (fun i => b2z (p i)).

Section SSA.
  (** numbers *)
  Context {K : Type} (rO rI : K) (radd rmul rsub : K -> K -> K) (ropp : K -> K).
  Hypothesis Rth : ring_theory rO rI radd rmul rsub ropp eq.
  Add Ring KRing2 : Rth.
  Infix "+" := radd. Infix "*" := rmul.
  Notation sum := (sum rO radd).
  Notation ind := (ind rO).

  (** black-box functions: value, partial derivatives, the function symbol of
      the j-th component of D^T f (it takes f's arguments and dy), cost *)
  Context {fn : Type} (fval : fn -> list K -> K) (partial : fn -> nat -> list K -> K)
          (DT : fn -> nat -> fn) (fcost : fn -> Z).
  Hypothesis DT_val : forall f j xs dy, fval (DT f j) (xs ++ [dy]) = partial f j xs * dy.
  Hypothesis fcost_nonneg : forall f, (0 <= fcost f)%Z.

  Definition tensor := index -> K.
  Definition env := var -> tensor.

  (** * Fig. 10: right-hand sides.  [Add] is n-ary, [p0]X0 + [p1]X1 is the case
      of length 2 (see cost_add2); length 1 is a masked copy, length 0 is 0. *)
  Inductive rhs :=
  | Input (x : var)
  | Const (c : K)
  | Add (l : list (pred * var))
  | Map (p : pred) (f : fn) (xs : list var)
  | C1 (s : shape) (p : index -> index -> index -> bool) (x : var)                    (* p g i s *)
  | C2 (s : shape) (p : index -> index -> index -> index -> bool) (x0 x1 : var).      (* p g i0 i1 s *)
  Definition stmt := (shape * rhs)%type.
  (** the LAST statement comes first; the k-th statement from the end binds Var k *)
  Definition prog := list stmt.

  (** sums over the points of the bound indices of a contraction *)
  Definition sum1 s x (f : index -> index -> K) : K :=
    sum (box (shp x)) (fun i => sum (box s) (fun z => f i z)).
  Definition sum2 s x0 x1 (f : index -> index -> index -> K) : K :=
    sum (box (shp x0)) (fun i0 => sum (box (shp x1)) (fun i1 => sum (box s) (fun z => f i0 i1 z))).
  Definition cnt1 s x (p : index -> index -> bool) : Z :=
    zsum (box (shp x)) (fun i => zsum (box s) (fun z => b2z (p i z))).
  Definition cnt2 s x0 x1 (p : index -> index -> index -> bool) : Z :=
    zsum (box (shp x0)) (fun i0 => zsum (box (shp x1)) (fun i1 => zsum (box s) (fun z => b2z (p i0 i1 z)))).
  Definition ex1 s x (p : index -> index -> bool) : bool :=
    existsb (fun i => existsb (fun z => p i z) (box s)) (box (shp x)).
  Definition ex2 s x0 x1 (p : index -> index -> index -> bool) : bool :=
    existsb (fun i0 => existsb (fun i1 => existsb (fun z => p i0 i1 z) (box s)) (box (shp x1))) (box (shp x0)).

  (** * Values (Fig. 4 on SSA) *)
  Definition eval (inp E : env) (r : rhs) : tensor :=
    match r with
    | Input x => inp x
    | Const c => fun _ => c
    | Add l => fun i => sum l (fun q => ind (fst q i) (E (snd q) i))
    | Map p f xs => fun i => ind (p i) (fval f (map (fun x => E x i) xs))
    | C1 s p x => fun g => sum1 s x (fun i z => ind (p g i z) (E x i))
    | C2 s p x0 x1 => fun g => sum2 s x0 x1 (fun i0 i1 z => ind (p g i0 i1 z) (E x0 i0 * E x1 i1))
    end.

  (** * Forward derivative (6.1 - 6.13 on SSA) *)
  Fixpoint dmap (f : fn) (a : list K) (j : nat) (ds : list K) : K :=
    match ds with [] => rO | d :: ds' => partial f j a * d + dmap f a (S j) ds' end.
  Definition deval (inp dinp E dE : env) (r : rhs) : tensor :=
    match r with
    | Input x => dinp x
    | Const _ => fun _ => rO
    | Add l => fun i => sum l (fun q => ind (fst q i) (dE (snd q) i))
    | Map p f xs => fun i => ind (p i) (dmap f (map (fun x => E x i) xs) 0 (map (fun x => dE x i) xs))
    | C1 s p x => fun g => sum1 s x (fun i z => ind (p g i z) (dE x i))
    | C2 s p x0 x1 => fun g => sum2 s x0 x1 (fun i0 i1 z => ind (p g i0 i1 z) (dE x0 i0 * E x1 i1 + E x0 i0 * dE x1 i1))
    end.

  (** * Cost (Fig. 6 on SSA) and cost of the forward derivative *)
  Open Scope Z_scope.
  Definition cost1 (st : stmt) : Z :=
    let (sh, r) := st in
    match r with
    | Input _ | Const _ => 0
    | Add l => zsum l (fun q => num sh (fst q)) - num sh (fun i => existsb (fun q => fst q i) l)
    | Map p f _ => num sh p * fcost f
    | C1 s p x => zsum (box sh) (fun g => cnt1 s x (p g)) - num sh (fun g => ex1 s x (p g))
    | C2 s p x0 x1 => 2 * zsum (box sh) (fun g => cnt2 s x0 x1 (p g)) - num sh (fun g => ex2 s x0 x1 (p g))
    end.
  (** derivative of one call: all components of D^T f and the additions that join them *)
  Fixpoint csum (f : fn) (j : nat) (k : nat) : Z :=
    match k with O => 0 | S k' => fcost (DT f j) + csum f (S j) k' end.
  Definition dfcost (f : fn) (k : nat) : Z := csum f 0 k + Z.of_nat (Nat.pred k).
  Definition dcost1 (st : stmt) : Z :=
    let (sh, r) := st in
    match r with
    | Map p f xs => num sh p * dfcost f (length xs)
    | C2 s p x0 x1 => 4 * zsum (box sh) (fun g => cnt2 s x0 x1 (p g)) - num sh (fun g => ex2 s x0 x1 (p g))
    | _ => cost1 st
    end.
  Definition cost (S : prog) : Z := zsum S cost1.
  Definition dcost (S : prog) : Z := zsum S dcost1.

  (** * Inner products (Fig. 14): e^S is a list of <lhs | d tgt>_[ipp] *)
  Record ip := Ip { lhs : var; tgt : var; ipp : pred }.
  Definition ipcost (l : list ip) : Z := zsum l (fun c => num (shp (tgt c)) (ipp c)).      (* 6.34 *)

  (** what a rule contributes: an existing variable, or a new statement *)
  Inductive emission := Reuse (e : var) | Emit (r : rhs).
  Definition contrib := (emission * var * pred)%type.
  Definition emit1 (t : prog) (sh : shape) (em : emission) : prog * var :=
    match em with
    | Reuse e => (t, e)
    | Emit r => ((sh, r) :: t, Var (length t) sh)
    end.
  Fixpoint emits (t : prog) (cs : list contrib) : prog * list ip :=
    match cs with
    | [] => (t, [])
    | (em, x, P) :: cs' =>
        let (t1, e) := emit1 t (shp x) em in
        let (t2, l) := emits t1 cs' in (t2, Ip e x P :: l)
    end.

  (** * Figs. 15 and 16, rule by rule: <dY | D[r]>_[P] *)
  Definition rule_6_26 (l : list (pred * var)) (dY : var) (P : pred) : list contrib :=
    map (fun q => (Reuse dY, snd q, fun i => fst q i && P i)) l.
  Fixpoint rule_6_27 (p : pred) (f : fn) (args : list var) (j : nat) (xs : list var) (dY : var) (P : pred) : list contrib :=
    match xs with
    | [] => []
    | x :: xs' => (Emit (Map (fun i => p i && P i) (DT f j) (args ++ [dY])), x, fun i => p i && P i)
                  :: rule_6_27 p f args (S j) xs' dY P
    end.
  Definition rule_6_28 s p (x0 x1 dY : var) (P : pred) : list contrib :=
    [ (Emit (C2 s (fun i0 g i1 z => p g i0 i1 z && P g) dY x1), x0,
       fun i0 => ex2 s dY x1 (fun g i1 z => p g i0 i1 z && P g));
      (Emit (C2 s (fun i1 i0 g z => p g i0 i1 z && P g) x0 dY), x1,
       fun i1 => ex2 s x0 dY (fun i0 g z => p g i0 i1 z && P g)) ].
  Definition rule_6_29 s p (x dY : var) (P : pred) : list contrib :=
    [ (Emit (C1 s (fun i g z => p g i z && P g) dY), x, fun i => ex1 s dY (fun g z => p g i z && P g)) ].
  Definition adj_rule (r : rhs) (dY : var) (P : pred) : list contrib :=
    match r with
    | Input _ => []
    | Const _ => []                                                      (* 6.23 *)
    | Add l => rule_6_26 l dY P
    | Map p f xs => rule_6_27 p f xs 0 xs dY P
    | C1 s p x => rule_6_29 s p x dY P
    | C2 s p x0 x1 => rule_6_28 s p x0 x1 dY P
    end.
  (** 6.25, n-ary: all inner products with the same right-hand side become one *)
  Definition union (l : list ip) : pred := fun i => existsb (fun c => ipp c i) l.
  Definition accum (l : list ip) : rhs := Add (map (fun c => (ipp c, lhs c)) l).
  Definition rule_6_25 (l : list ip) : emission * pred :=
    match l with [c] => (Reuse (lhs c), ipp c) | _ => (Emit (accum l), union l) end.

  Definition to (x : var) (c : ip) : bool := var_eqb (tgt c) x.
  Definition mine x l := filter (to x) l.
  Definition rest x l := filter (fun c => negb (to x c)) l.
  Definition retarget (y : var) (c : ip) : ip := Ip (lhs c) y (ipp c).

  (** backward pass: ss = statements not yet turned around (6.19), t = program so far,
      l = inner products with a differential of ss, gl = those with a differential of an input *)
  Fixpoint bwd (ss t : prog) (l gl : list ip) : prog * list ip :=
    match ss with
    | [] => (t, gl)
    | (sh, r) :: ss' =>
        let x := Var (length ss') sh in
        match r with
        | Input y => bwd ss' t (rest x l) (map (retarget y) (mine x l) ++ gl)            (* 6.21 *)
        | _ => match mine x l with
               | [] => bwd ss' t (rest x l) gl                                          (* 6.20 *)
               | _ => let (em, P) := rule_6_25 (mine x l) in
                      let (t1, dY) := emit1 t sh em in
                      let (t2, new) := emits t1 (adj_rule r dY P) in
                      bwd ss' t2 (new ++ rest x l) gl
               end
        end
    end.
  (** outs: output variables; dys: the input leaves that hold their cotangents; leaves: differentiate w.r.t. these *)
  Definition start (outs dys : list var) : list contrib :=
    map (fun xy => (Emit (Input (snd xy)), fst xy, any)) (combine outs dys).            (* 6.16 *)
  Definition finish (gl : list ip) (leaves : list var) : list contrib :=
    map (fun y => (Emit (accum (mine y gl)), y, union (mine y gl))) leaves.              (* 6.25, 6.17 [C], 6.18 *)
  Definition adjoint (S : prog) (outs dys leaves : list var) : prog * list ip :=
    let (t0, l) := emits S (start outs dys) in
    let (t1, gl) := bwd S t0 l [] in
    emits t1 (finish gl leaves).

  (** * Well-formedness *)
  Definition ops (r : rhs) : list var :=
    match r with
    | Input _ | Const _ => []
    | Add l => map snd l
    | Map _ _ xs => xs
    | C1 _ _ x => [x]
    | C2 _ _ x0 x1 => [x0; x1]
    end.
  Fixpoint declared (S : prog) : list var :=
    match S with [] => [] | (sh, _) :: S' => Var (length S') sh :: declared S' end.
  (** shape discipline: [Add] and [Map] are point-wise *)
  Definition pointwise (sh : shape) (r : rhs) : Prop :=
    match r with
    | Input x => shp x = sh
    | Add _ | Map _ _ _ => forall x, In x (ops r) -> shp x = sh
    | _ => True
    end.
  Fixpoint wf (S : prog) : Prop :=
    match S with
    | [] => True
    | (sh, r) :: S' => (forall x, In x (ops r) -> In x (declared S')) /\ pointwise sh r /\ wf S'
    end.
  Definition inputs_in (leaves : list var) (S : prog) : Prop :=
    forall sh y, In (sh, Input y) S -> In y leaves.

  (** E solves S: every variable of S has the value of its right-hand side *)
  Fixpoint solves (inp E : env) (S : prog) : Prop :=
    match S with
    | [] => True
    | (sh, r) :: S' => (forall i, E (Var (length S') sh) i = eval inp E r i) /\ solves inp E S'
    end.
  Fixpoint dsolves (inp dinp E dE : env) (S : prog) : Prop :=
    match S with
    | [] => True
    | (sh, r) :: S' => (forall i, dE (Var (length S') sh) i = deval inp dinp E dE r i) /\ dsolves inp dinp E dE S'
    end.

  Definition dot (sh : shape) (a b : tensor) : K := sum (box sh) (fun i => rmul (a i) (b i)).
  Definition dotp (sh : shape) (P : pred) (a b : tensor) : K := sum (box sh) (fun i => ind (P i) (rmul (a i) (b i))).

  (** * Cost *)
  Definition ccost (cs : list contrib) : Z :=
    zsum cs (fun c => match c with (em, x, P) =>
      (match em with Reuse _ => 0 | Emit r => cost1 (shp x, r) end) + num (shp x) P end).
  Lemma emits_cost cs : forall t t' l, emits t cs = (t', l) -> cost t' + ipcost l = cost t + ccost cs.
  Proof.
    induction cs as [|[[em x] P] cs IH]; simpl; intros t t' l H.
    - inversion H; subst. unfold ipcost, ccost; simpl; lia.
    - destruct (emit1 t (shp x) em) as [t1 e] eqn:E1. destruct (emits t1 cs) as [t2 l2] eqn:E2.
      inversion H; subst. apply IH in E2. unfold ipcost, ccost in *; simpl in *.
      destruct em; simpl in E1; inversion E1; subst; simpl in *; unfold cost in *; simpl in *; lia.
  Qed.

  Lemma num_nonneg sh p : 0 <= num sh p.
  Proof. apply zsum_nonneg; intros; apply b2z_range. Qed.
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
  Lemma cnt1_and s x p (c : bool) : cnt1 s x (fun i z => p i z && c) = b2z c * cnt1 s x p.
  Proof.
    unfold cnt1. rewrite <- zsum_scale. apply zsum_ext. intros i _. rewrite <- zsum_scale. apply zsum_ext. intros z _.
    rewrite b2z_and. ring.
  Qed.
  Lemma cnt2_and s x y p (c : bool) : cnt2 s x y (fun i j z => p i j z && c) = b2z c * cnt2 s x y p.
  Proof.
    unfold cnt2. rewrite <- zsum_scale. apply zsum_ext. intros i _. rewrite <- zsum_scale. apply zsum_ext. intros j _.
    rewrite <- zsum_scale. apply zsum_ext. intros z _. rewrite b2z_and. ring.
  Qed.
  (** the heart of 6.26, 6.28, 6.29: per point, [P] + n - [exists] >= [P] n *)
  Lemma key (sh : shape) (P : pred) (n : index -> Z) (e : index -> bool) :
    (forall i, b2z (e i) <= n i) ->
    zsum (box sh) (fun i => b2z (P i) * n i) <= num sh P + zsum (box sh) n - num sh e.
  Proof.
    intros H. unfold num. rewrite <- zsum_add, <- zsum_sub. apply zsum_le. intros i _.
    specialize (H i). pose proof (b2z_range (e i)). destruct (P i); change (b2z true) with 1; change (b2z false) with 0; lia.
  Qed.

  (** n-ary addition costs #p0 + .. - #(p0 or ..); for two operands this is the paper's 4.24 *)
  Lemma cost_add2 sh p0 x0 p1 x1 : cost1 (sh, Add [(p0, x0); (p1, x1)]) = num sh (fun i => p0 i && p1 i).
  Proof.
    simpl. unfold num. rewrite Z.add_0_r, <- zsum_add, <- zsum_sub. apply zsum_ext. intros i _.
    destruct (p0 i), (p1 i); reflexivity.
  Qed.
  Lemma num_swap {A} sh (l : list A) (p : A -> pred) :
    zsum l (fun a => num sh (p a)) = zsum (box sh) (fun i => zsum l (fun a => b2z (p a i))).
  Proof. apply zsum_swap. Qed.

  Lemma cost_6_26 sh l dY P : pointwise sh (Add l) ->
    ccost (rule_6_26 l dY P) <= num sh P + dcost1 (sh, Add l).
  Proof.
    intros W. unfold ccost, rule_6_26. rewrite zsum_map. simpl.
    rewrite (num_swap sh l (fun q => fst q)).
    eapply Z.le_trans; [|rewrite Z.add_sub_assoc; apply key; intros; apply zsum_existsb].
    apply Z.eq_le_incl. rewrite zsum_ext with (g := fun q : pred * var => num sh (fun i => fst q i && P i)).
    - rewrite (num_swap sh l (fun (q : pred * var) i => fst q i && P i)). apply zsum_ext. intros i _.
      rewrite <- zsum_scale. apply zsum_ext. intros q _. rewrite b2z_and. ring.
    - intros q Hq. simpl. rewrite (W (snd q)); [reflexivity|]. apply in_map, Hq.
  Qed.

  Lemma cost_6_27_aux sh p f args dY P : forall xs j, (forall x, In x xs -> shp x = sh) ->
    ccost (rule_6_27 p f args j xs dY P) =
    num sh (fun i => p i && P i) * (csum f j (length xs) + Z.of_nat (length xs)).
  Proof.
    induction xs as [|x xs IH]; intros j W; [unfold ccost; simpl; lia|].
    unfold ccost in *. cbn [rule_6_27 zsum length]. rewrite IH by (intros; apply W; right; auto).
    rewrite (W x) by (left; auto). cbn [cost1 csum]. rewrite Nat2Z.inj_succ. ring.
  Qed.
  Lemma csum_nonneg f k : forall j, 0 <= csum f j k.
  Proof. induction k; intros; simpl; [lia|]. pose proof (fcost_nonneg (DT f j)). specialize (IHk (S j)). lia. Qed.
  Lemma cost_6_27 sh p f xs dY P : pointwise sh (Map p f xs) ->
    ccost (rule_6_27 p f xs 0 xs dY P) <= num sh P + dcost1 (sh, Map p f xs).
  Proof.
    intros W. rewrite (cost_6_27_aux sh) by exact W. simpl. unfold dfcost.
    pose proof (csum_nonneg f (length xs) 0). set (c := csum _ _ _) in *.
    assert (A : 0 <= num sh (fun i => p i && P i) <= num sh P /\ num sh (fun i => p i && P i) <= num sh p).
    { split; [split; [apply num_nonneg|]|]; apply zsum_le; intros i _; destruct (p i), (P i); simpl; lia. }
    destruct xs as [|x xs]; simpl length; [simpl; nia|].
    rewrite Nat2Z.inj_succ. simpl Nat.pred. set (k := Z.of_nat (length xs)) in *. assert (0 <= k) by lia. nia.
  Qed.

  Lemma cost_6_29 sh s p x dY P : shp dY = sh ->
    ccost (rule_6_29 s p x dY P) <= num sh P + dcost1 (sh, C1 s p x).
  Proof.
    intros W. unfold ccost, rule_6_29. simpl. rewrite Z.sub_add, Z.add_0_r, Z.add_sub_assoc.
    eapply Z.le_trans; [|apply key; intros; apply ex1_le].
    apply Z.eq_le_incl. unfold cnt1 at 1. rewrite W, zsum_swap. apply zsum_ext. intros g _. rewrite <- cnt1_and. reflexivity.
  Qed.

  Lemma cost_6_28 sh s p x0 x1 dY P : shp dY = sh ->
    ccost (rule_6_28 s p x0 x1 dY P) <= num sh P + dcost1 (sh, C2 s p x0 x1).
  Proof.
    intros W. unfold ccost, rule_6_28. cbn [zsum cost1 dcost1]. rewrite !Z.sub_add, Z.add_0_r.
    set (N := zsum (box sh) (fun g => cnt2 s x0 x1 (p g))).
    set (M := zsum (box sh) (fun g => b2z (P g) * cnt2 s x0 x1 (p g))).
    assert (M = zsum (box (shp x0)) (fun i0 => cnt2 s dY x1 (fun g i1 z => p g i0 i1 z && P g))) as <-.
    { unfold M, cnt2 at 2. rewrite W, zsum_swap. apply zsum_ext. intros g _. rewrite <- cnt2_and. reflexivity. }
    assert (M = zsum (box (shp x1)) (fun i1 => cnt2 s x0 dY (fun i0 g z => p g i0 i1 z && P g))) as <-.
    { unfold M, cnt2 at 2. rewrite W, zsum_swap.
      transitivity (zsum (box (shp x0)) (fun i0 => zsum (box sh) (fun g => zsum (box (shp x1)) (fun i1 =>
                    zsum (box s) (fun z => b2z (p g i0 i1 z && P g)))))).
      - rewrite zsum_swap. apply zsum_ext. intros g _. rewrite <- cnt2_and. reflexivity.
      - apply zsum_ext. intros i0 _. apply zsum_swap. }
    assert (M <= N).
    { apply zsum_le. intros g _. pose proof (cnt2_nonneg s x0 x1 (p g)). destruct (P g); cbn [b2z]; lia. }
    assert (M <= num sh P + N - num sh (fun g => ex2 s x0 x1 (p g))) by (apply key; intros; apply ex2_le).
    lia.
  Qed.

  (** one rule for each kind of statement *)
  Lemma cost_rule sh r dY P : shp dY = sh -> pointwise sh r -> (forall y, r <> Input y) ->
    ccost (adj_rule r dY P) <= num sh P + dcost1 (sh, r).
  Proof.
    intros W Wr HI. destruct r; cbn [adj_rule].
    - exfalso; eapply HI; reflexivity.
    - unfold ccost; simpl. pose proof (num_nonneg sh P). lia.
    - apply cost_6_26; assumption.
    - apply cost_6_27; assumption.
    - apply cost_6_29; assumption.
    - apply cost_6_28; assumption.
  Qed.

  Lemma num_le_sum {A} sh (l : list A) (p : A -> pred) :
    num sh (fun i => existsb (fun a => p a i) l) <= zsum l (fun a => num sh (p a)).
  Proof. rewrite num_swap. apply zsum_le. intros i _. apply zsum_existsb. Qed.
  Lemma dcost1_nonneg sh r : 0 <= dcost1 (sh, r).
  Proof.
    destruct r; cbn [dcost1 cost1]; try lia.
    - pose proof (num_le_sum sh l fst). lia.
    - pose proof (num_nonneg sh p). unfold dfcost. pose proof (csum_nonneg f (length xs) 0). nia.
    - assert (num sh (fun g => ex1 s x (p g)) <= zsum (box sh) (fun g => cnt1 s x (p g)))
        by (apply zsum_le; intros; apply ex1_le). lia.
    - assert (num sh (fun g => ex2 s x0 x1 (p g)) <= zsum (box sh) (fun g => cnt2 s x0 x1 (p g)))
        by (apply zsum_le; intros; apply ex2_le).
      pose proof (num_nonneg sh (fun g => ex2 s x0 x1 (p g))). lia.
  Qed.

  Definition ecost (sh : shape) (em : emission) : Z :=
    match em with Reuse _ => 0 | Emit r => cost1 (sh, r) end.
  Lemma emit1_cost t sh em t1 e : emit1 t sh em = (t1, e) -> cost t1 = cost t + ecost sh em.
  Proof. destruct em; simpl; intros H; inversion H; subst; unfold cost; simpl; lia. Qed.

  Lemma cost_accum sh l : (forall c, In c l -> shp (tgt c) = sh) ->
    cost1 (sh, accum l) + num sh (union l) = ipcost l.
  Proof.
    intros H. unfold accum, union, ipcost. cbn [cost1]. rewrite zsum_map. cbn [fst].
    replace (num sh (fun i => existsb (fun q => fst q i) (map (fun c => (ipp c, lhs c)) l)))
      with (num sh (fun i => existsb (fun c => ipp c i) l)).
    - rewrite Z.sub_add. apply zsum_ext. intros c Hc. now rewrite (H c Hc).
    - apply zsum_ext. intros i _. f_equal. clear H. induction l; simpl; [reflexivity|]. now rewrite IHl.
  Qed.
  Lemma cost_6_25 sh l em P : (forall c, In c l -> shp (tgt c) = sh) -> rule_6_25 l = (em, P) ->
    ecost sh em + num sh P = ipcost l.
  Proof.
    intros H. unfold rule_6_25. destruct l as [|c [|c' l]]; intros E; inversion E; subst.
    - apply cost_accum; assumption.
    - unfold ipcost; simpl. rewrite (H c) by (left; auto). lia.
    - apply cost_accum; assumption.
  Qed.

  (** ** invariant of the list of inner products *)
  Definition okip (D : list var) (c : ip) : Prop := In (tgt c) D /\ shp (lhs c) = shp (tgt c).
  Definition okc (D : list var) (c : contrib) : Prop :=
    match c with (em, x, _) => In x D /\ match em with Reuse e => shp e = shp x | Emit _ => True end end.
  Lemma emit1_shp t sh em t1 e : emit1 t sh em = (t1, e) ->
    match em with Reuse e => shp e = sh | Emit _ => True end -> shp e = sh.
  Proof. destruct em; simpl; intros H; inversion H; subst; auto. Qed.
  Lemma emits_ok D cs : forall t t' l, emits t cs = (t', l) -> Forall (okc D) cs -> Forall (okip D) l.
  Proof.
    induction cs as [|[[em x] P] cs IH]; simpl; intros t t' l H F.
    - inversion H; constructor.
    - destruct (emit1 t (shp x) em) as [t1 e] eqn:E1. destruct (emits t1 cs) as [t2 l2] eqn:E2.
      inversion H; subst. inversion F; subst. constructor; [|eauto].
      destruct H2. split; [assumption|]. simpl. eapply emit1_shp; eauto.
  Qed.
  Lemma ok_6_27 D p f args dY P : forall xs j, (forall x, In x xs -> In x D) -> Forall (okc D) (rule_6_27 p f args j xs dY P).
  Proof.
    induction xs as [|x xs IH]; simpl; intros j H; constructor; [|apply IH; auto]. split; auto.
  Qed.
  Lemma adj_rule_ok D sh r dY P : shp dY = sh -> pointwise sh r -> (forall x, In x (ops r) -> In x D) ->
    Forall (okc D) (adj_rule r dY P).
  Proof.
    intros W Wr HD. destruct r; cbn [adj_rule]; try constructor.
    - apply Forall_forall. intros c Hc. apply in_map_iff in Hc. destruct Hc as [q [<- Hq]].
      assert (In (snd q) (map snd l)) by (apply in_map, Hq). split; [apply HD; assumption|]. simpl. rewrite W. symmetry. apply Wr; assumption.
    - apply ok_6_27. assumption.
    - split; [apply HD; simpl; auto|exact I].
    - constructor.
    - split; [apply HD; simpl; auto|exact I].
    - constructor; [|constructor]. split; [apply HD; simpl; auto|exact I].
  Qed.

  Lemma ipcost_split x l : ipcost l = ipcost (mine x l) + ipcost (rest x l).
  Proof. apply zsum_filter. Qed.
  Lemma ipcost_app l l' : ipcost (l ++ l') = ipcost l + ipcost l'.
  Proof. apply zsum_app. Qed.
  Lemma mine_tgt x l c : In c (mine x l) -> tgt c = x.
  Proof. intros H. apply filter_In in H. destruct H as [_ H]. now apply var_eqb_eq. Qed.
  Lemma rest_ok x D l : Forall (okip (x :: D)) l -> Forall (okip D) (rest x l).
  Proof.
    rewrite !Forall_forall. intros H c Hc. apply filter_In in Hc. destruct Hc as [Hc E].
    destruct (H c Hc) as [[EQ|HD] HS]; split; auto.
    exfalso. assert (T : to x c = true) by (apply var_eqb_eq; auto). cbv beta in E. rewrite T in E. discriminate.
  Qed.
  Lemma mine_ok x D l : Forall (okip D) l -> Forall (okip D) (mine x l).
  Proof. rewrite !Forall_forall. intros H c Hc. apply filter_In in Hc. apply H, Hc. Qed.
  Lemma shp_6_25 D x l em P : Forall (okip D) l -> (forall c, In c l -> tgt c = x) -> rule_6_25 l = (em, P) ->
    match em with Reuse e => shp e = shp x | Emit _ => True end.
  Proof.
    intros F H. unfold rule_6_25. destruct l as [|c [|c' l]]; intros E; inversion E; subst; auto.
    inversion F; subst. destruct H2 as [_ H2]. rewrite H2. f_equal. apply H. left; auto.
  Qed.

  Lemma bwd_cost : forall ss t l gl t' gl', wf ss -> Forall (okip (declared ss)) l -> bwd ss t l gl = (t', gl') ->
    cost t' + ipcost gl' <= cost t + ipcost l + ipcost gl + dcost ss.
  Proof.
    induction ss as [|[sh r] ss IH]; intros t l gl t' gl' W F H.
    - simpl in H. inversion H; subst. assert (0 <= ipcost l) by (apply zsum_nonneg; intros; apply num_nonneg).
      unfold dcost; simpl; lia.
    - cbn [bwd] in H. set (x := Var (length ss) sh) in *. simpl in W. destruct W as [HD [Wp W]].
      cbn [declared] in F. fold x in F.
      pose proof (rest_ok x _ _ F) as FR. pose proof (mine_ok x _ _ F) as FM.
      pose proof (ipcost_split x l) as CS. unfold dcost in *. cbn [zsum].
      pose proof (dcost1_nonneg sh r) as DN.
      assert (HM : forall c, In c (mine x l) -> tgt c = x) by apply mine_tgt.
      assert (HI : (exists y, r = Input y) \/ (forall y, r <> Input y)).
      { destruct r; [left; eauto|right; congruence ..]. }
      destruct HI as [[y ->]|HI].
      + apply IH in H; [|assumption|assumption]. rewrite ipcost_app in H.
        assert (ipcost (map (retarget y) (mine x l)) = ipcost (mine x l)).
        { unfold ipcost. rewrite zsum_map. apply zsum_ext. intros c Hc. simpl. rewrite (HM c Hc). simpl in Wp. now rewrite Wp. }
        cbn [dcost1 cost1] in *. lia.
      + assert (H' : match mine x l with [] => bwd ss t (rest x l) gl | _ =>
                   let (em, P) := rule_6_25 (mine x l) in let (t1, dY) := emit1 t sh em in
                   let (t2, new) := emits t1 (adj_rule r dY P) in bwd ss t2 (new ++ rest x l) gl end = (t', gl')).
        { destruct r; try exact H. exfalso; eapply HI; reflexivity. }
        clear H. destruct (mine x l) as [|c0 m] eqn:EM.
        * apply IH in H'; [|assumption|assumption]. assert (ipcost [] = 0) by reflexivity. lia.
        * rewrite <- EM in *. clear EM c0 m.
          destruct (rule_6_25 (mine x l)) as [em P] eqn:E25. destruct (emit1 t sh em) as [t1 dY] eqn:E1.
          destruct (emits t1 (adj_rule r dY P)) as [t2 new] eqn:E2.
          assert (SY : shp dY = sh) by (eapply emit1_shp; [exact E1|]; apply (shp_6_25 _ x _ _ _ FM HM E25)).
          apply IH in H'; [|assumption|apply Forall_app; split; [eapply emits_ok; [exact E2|]; eapply adj_rule_ok; eauto|assumption]].
          apply emits_cost in E2. apply emit1_cost in E1.
          assert (ecost sh em + num sh P = ipcost (mine x l)).
          { apply cost_6_25; [|assumption]. intros c Hc. now rewrite (HM c Hc). }
          pose proof (cost_rule sh r dY P SY Wp HI). rewrite ipcost_app in H'. lia.
  Qed.

  (** ** all leaves together *)
  Lemma mine_rest y y' l : y <> y' -> mine y' (rest y l) = mine y' l.
  Proof.
    intros N. unfold mine, rest. induction l as [|c l IH]; simpl; [reflexivity|].
    destruct (to y c) eqn:E; simpl.
    - destruct (to y' c) eqn:E'; [|assumption]. exfalso. apply N.
      apply var_eqb_eq in E. apply var_eqb_eq in E'. congruence.
    - rewrite IH. reflexivity.
  Qed.
  Lemma zsum_leaves (f : ip -> Z) : (forall c, 0 <= f c) -> forall leaves gl, NoDup leaves ->
    zsum leaves (fun y => zsum (mine y gl) f) <= zsum gl f.
  Proof.
    intros Hf. induction leaves as [|y ls IH]; intros gl N; simpl.
    - apply zsum_nonneg; auto.
    - inversion N; subst. rewrite (zsum_filter gl (to y)). fold (mine y gl). fold (rest y gl).
      apply Z.add_le_mono_l. eapply Z.le_trans; [|apply (IH (rest y gl)); assumption].
      apply Z.eq_le_incl, zsum_ext. intros y' Hy'. rewrite mine_rest; [reflexivity|]. intros ->. contradiction.
  Qed.

  Definition outsize (outs : list var) : Z := zsum outs (fun x => num (shp x) any).     (* |T_O| *)
  Definition good_outs (S : prog) (outs dys : list var) : Prop :=
    map shp dys = map shp outs /\ forall x, In x outs -> In x (declared S).

  Lemma start_ok S outs dys : good_outs S outs dys -> Forall (okc (declared S)) (start outs dys).
  Proof.
    intros [_ H]. apply Forall_forall. intros c Hc. apply in_map_iff in Hc. destruct Hc as [[x y] [<- Hxy]].
    split; [|exact I]. apply H. eapply in_combine_l; exact Hxy.
  Qed.
  Lemma start_cost : forall outs dys, length dys = length outs -> ccost (start outs dys) = outsize outs.
  Proof.
    unfold ccost, start, outsize. induction outs as [|x outs IH]; intros [|y dys] H; try discriminate; [reflexivity|].
    cbn [combine map zsum fst snd]. rewrite IH by (simpl in H; congruence). reflexivity.
  Qed.

  (** * The cost theorem, sharpened form of 6.35 *)
  Theorem adjoint_cost S outs dys leaves t grads :
    wf S -> good_outs S outs dys -> NoDup leaves -> adjoint S outs dys leaves = (t, grads) ->
    cost t + ipcost grads <= cost S + dcost S + outsize outs.
  Proof.
    intros W GO ND H. unfold adjoint in H.
    destruct (emits S (start outs dys)) as [t0 l] eqn:E0. destruct (bwd S t0 l []) as [t1 gl] eqn:E1.
    pose proof (emits_ok _ _ _ _ _ E0 (start_ok S outs dys GO)) as F.
    apply bwd_cost in E1; [|assumption|assumption]. apply emits_cost in E0. apply emits_cost in H.
    rewrite start_cost in E0.
    2:{ destruct GO as [G _]. rewrite <- (map_length shp dys), G, map_length. reflexivity. }
    assert (ccost (finish gl leaves) <= ipcost gl).
    { eapply Z.le_trans; [|apply (zsum_leaves (fun c => num (shp (tgt c)) (ipp c)) (fun c => num_nonneg _ _) leaves gl ND)].
      unfold finish, ccost. rewrite zsum_map. apply Z.eq_le_incl, zsum_ext. intros y _.
      apply (cost_accum (shp y) (mine y gl)). intros c Hc. now rewrite (mine_tgt _ _ _ Hc). }
    assert (ipcost [] = 0) by reflexivity. lia.
  Qed.

  (** c_D <= 3, additions of the components included *)
  Definition cheap_maps (S : prog) : Prop :=
    forall sh p f xs, In (sh, Map p f xs) S -> dfcost f (length xs) <= 3 * fcost f.
  Lemma dcost_3cost S : cheap_maps S -> dcost S <= 3 * cost S.
  Proof.
    intros Hf. unfold dcost, cost. rewrite <- zsum_scale. apply zsum_le. intros [sh r] Hr.
    pose proof (dcost1_nonneg sh r). destruct r; cbn [dcost1 cost1] in *; try lia.
    - pose proof (num_nonneg sh p). specialize (Hf _ _ _ _ Hr). nia.
    - assert (num sh (fun g => ex2 s x0 x1 (p g)) <= zsum (box sh) (fun g => cnt2 s x0 x1 (p g)))
        by (apply zsum_le; intros; apply ex2_le). lia.
  Qed.
  (** Theorem 6.35: no more than four times the cost, plus the size of the output *)
  Theorem adjoint_cost_4 S outs dys leaves t grads :
    cheap_maps S -> wf S -> good_outs S outs dys -> NoDup leaves -> adjoint S outs dys leaves = (t, grads) ->
    cost t + ipcost grads <= 4 * cost S + outsize outs.
  Proof.
    intros Hf W GO ND H. pose proof (adjoint_cost _ _ _ _ _ _ W GO ND H). pose proof (dcost_3cost S Hf). lia.
  Qed.

  Lemma outsize_nonneg l : 0 <= outsize l.
  Proof. apply zsum_nonneg. intros; apply num_nonneg. Qed.
  (** 6.1: the forward derivative together with the program *)
  Theorem theorem_6_1 S : cheap_maps S -> cost S + dcost S <= 4 * cost S.
  Proof. intros H. pose proof (dcost_3cost S H). lia. Qed.
  (** 6.35 in the paper's form, inputs and outputs counted on both sides *)
  Corollary theorem_6_35 S outs dys leaves t grads :
    cheap_maps S -> wf S -> good_outs S outs dys -> NoDup leaves -> adjoint S outs dys leaves = (t, grads) ->
    cost t + outsize leaves + outsize outs <= 4 * (cost S + outsize leaves + outsize outs).
  Proof.
    intros Hf W GO ND H. pose proof (adjoint_cost_4 _ _ _ _ _ _ Hf W GO ND H).
    pose proof (outsize_nonneg leaves). pose proof (outsize_nonneg outs).
    assert (0 <= ipcost grads) by (apply zsum_nonneg; intros; apply num_nonneg). lia.
  Qed.
  Close Scope Z_scope.
  (** * Values *)
  Definition emval (inp E : env) (em : emission) : tensor :=
    match em with Reuse e => E e | Emit r => eval inp E r end.
  Definition cval (inp E dE : env) (cs : list contrib) : K :=
    sum cs (fun c => match c with (em, x, P) => dotp (shp x) P (emval inp E em) (dE x) end).
  (** value of e^S (Fig. 14) *)
  Definition ipval (E dE : env) (l : list ip) : K :=
    sum l (fun c => dotp (shp (tgt c)) (ipp c) (E (lhs c)) (dE (tgt c))).

  Lemma dotp_ext sh P a a' b b' : (forall i, a i = a' i) -> (forall i, b i = b' i) -> dotp sh P a b = dotp sh P a' b'.
  Proof. intros Ha Hb. apply sum_ext. intros i _. now rewrite Ha, Hb. Qed.

  Lemma emit1_mono inp E t sh em t1 e : emit1 t sh em = (t1, e) -> solves inp E t1 -> solves inp E t.
  Proof. destruct em; simpl; intros H; inversion H; subst; simpl; tauto. Qed.
  Lemma emits_mono inp E cs : forall t t' l, emits t cs = (t', l) -> solves inp E t' -> solves inp E t.
  Proof.
    induction cs as [|[[em x] P] cs IH]; simpl; intros t t' l H So.
    - inversion H; subst; assumption.
    - destruct (emit1 t (shp x) em) as [t1 e] eqn:E1. destruct (emits t1 cs) as [t2 l2] eqn:E2.
      inversion H; subst. eapply emit1_mono; eauto.
  Qed.
  Lemma emit1_val inp E t sh em t1 e : emit1 t sh em = (t1, e) -> solves inp E t1 -> forall i, E e i = emval inp E em i.
  Proof. destruct em; simpl; intros H; inversion H; subst; simpl; tauto. Qed.
  Lemma emits_val inp E dE cs : forall t t' l, emits t cs = (t', l) -> solves inp E t' ->
    ipval E dE l = cval inp E dE cs.
  Proof.
    induction cs as [|[[em x] P] cs IH]; simpl; intros t t' l H So.
    - inversion H; subst; reflexivity.
    - destruct (emit1 t (shp x) em) as [t1 e] eqn:E1. destruct (emits t1 cs) as [t2 l2] eqn:E2.
      inversion H; subst. unfold ipval, cval in *. cbn [Sums.sum tgt ipp lhs]. rewrite (IH _ _ _ E2 So). f_equal.
      apply dotp_ext; [|reflexivity]. eapply emit1_val; [exact E1|]. eapply emits_mono; eauto.
  Qed.
  Lemma bwd_mono inp E : forall ss t l gl t' gl', bwd ss t l gl = (t', gl') -> solves inp E t' -> solves inp E t.
  Proof.
    induction ss as [|[sh r] ss IH]; intros t l gl t' gl' H So; [inversion H; subst; assumption|].
    cbn [bwd] in H.
    destruct r; [eapply IH; eassumption|..];
    (destruct (mine _ l) as [|c0 m]; [eapply IH; eassumption|];
     destruct (rule_6_25 (c0 :: m)) as [em P]; destruct (emit1 t sh em) as [t1 dY] eqn:E1;
     match type of H with context [emits t1 ?cs] => destruct (emits t1 cs) as [t2 new] eqn:E2 end;
     eapply emit1_mono; [exact E1|]; eapply emits_mono; [exact E2|]; eapply IH; eassumption).
  Qed.

  (** ** the rules *)
  Notation sum_ext' := (Sums.sum_ext rO radd).
  Lemma dotp_sum {A} sh (l : list A) (P : A -> pred) (a : A -> tensor) b :
    sum l (fun q => dotp sh (P q) (a q) b) = sum (box sh) (fun i => sum l (fun q => ind (P q i) (a q i)) * b i).
  Proof.
    unfold dotp. rewrite (sum_swap _ _ _ _ _ _ Rth). apply sum_ext'. intros i _.
    rewrite <- (sum_scale_r _ _ _ _ _ _ Rth). apply sum_ext'. intros q _. symmetry. apply (ind_mul_l _ _ _ _ _ _ Rth).
  Qed.

  Lemma val_6_26 inp dinp E dE sh l dY P : pointwise sh (Add l) ->
    cval inp E dE (rule_6_26 l dY P) = dotp sh P (E dY) (deval inp dinp E dE (Add l)).
  Proof.
    intros W. unfold cval, rule_6_26. rewrite sum_map. cbn [deval emval].
    transitivity (sum l (fun q => dotp sh (fun i => fst q i && P i) (E dY) (dE (snd q)))).
    - apply sum_ext'. intros q Hq. rewrite (W (snd q)); [reflexivity|]. apply in_map, Hq.
    - unfold dotp. rewrite (sum_swap _ _ _ _ _ _ Rth). apply sum_ext'. intros i _.
      rewrite <- (sum_scale _ _ _ _ _ _ Rth), (ind_sum _ _ _ _ _ _ Rth). apply sum_ext'. intros q _.
      rewrite andb_comm, ind_and, (ind_mul_r _ _ _ _ _ _ Rth). reflexivity.
  Qed.

  Lemma val_6_27 inp E dE sh p f args dY P : forall xs j, (forall x, In x xs -> shp x = sh) ->
    cval inp E dE (rule_6_27 p f args j xs dY P) =
    dotp sh P (E dY) (fun i => ind (p i) (dmap f (map (fun x => E x i) args) j (map (fun x => dE x i) xs))).
  Proof.
    induction xs as [|x xs IH]; intros j W.
    - unfold cval, dotp; simpl. rewrite (sum_ext' _ _ (fun _ => rO)); [now rewrite (sum_0 _ _ _ _ _ _ Rth)|].
      intros i _. destruct (p i), (P i); simpl; ring.
    - unfold cval in *. cbn [rule_6_27 Sums.sum]. rewrite IH by (intros; apply W; right; auto).
      rewrite (W x) by (left; auto). unfold dotp. rewrite <- (sum_add _ _ _ _ _ _ Rth). apply sum_ext'. intros i _.
      cbn [emval eval map dmap]. rewrite map_app. cbn [map]. rewrite DT_val.
      destruct (p i), (P i); simpl; ring.
  Qed.

  Lemma sum1_0 s x f : (forall i z, In i (box (shp x)) -> In z (box s) -> f i z = rO) -> sum1 s x f = rO.
  Proof.
    intros H. unfold sum1. transitivity (sum (box (shp x)) (fun _ => rO)); [|apply (sum_0 _ _ _ _ _ _ Rth)].
    apply sum_ext'. intros i Hi. transitivity (sum (box s) (fun _ => rO)); [|apply (sum_0 _ _ _ _ _ _ Rth)].
    apply sum_ext'. auto.
  Qed.
  (** the predicate of 6.29 removes nothing: outside it, the new value is 0 *)
  Lemma ind_ex1 s x p f : ind (ex1 s x p) (sum1 s x (fun i z => ind (p i z) (f i z))) = sum1 s x (fun i z => ind (p i z) (f i z)).
  Proof.
    destruct (ex1 s x p) eqn:Ex; [reflexivity|]. simpl. symmetry. apply sum1_0. intros i z Hi Hz.
    destruct (p i z) eqn:Ep; [|reflexivity]. assert (ex1 s x p = true); [|congruence].
    apply existsb_exists. exists i. split; [assumption|]. apply existsb_exists. eauto.
  Qed.
  Lemma ind_ex2 s x y p f :
    ind (ex2 s x y p) (sum2 s x y (fun i j z => ind (p i j z) (f i j z))) = sum2 s x y (fun i j z => ind (p i j z) (f i j z)).
  Proof.
    destruct (ex2 s x y p) eqn:Ex; [reflexivity|]. simpl. symmetry. unfold sum2.
    transitivity (sum (box (shp x)) (fun _ => rO)); [|apply (sum_0 _ _ _ _ _ _ Rth)].
    apply sum_ext'. intros i Hi. apply (sum1_0 s y (fun j z => ind (p i j z) (f i j z))). intros j z Hj Hz.
    destruct (p i j z) eqn:Ep; [|reflexivity]. assert (ex2 s x y p = true); [|congruence].
    apply existsb_exists. exists i. split; [assumption|]. apply existsb_exists. exists j. split; [assumption|].
    apply existsb_exists. eauto.
  Qed.
  Lemma sum1_ext s x f g : (forall i z, f i z = g i z) -> sum1 s x f = sum1 s x g.
  Proof. intros H. apply sum_ext'. intros i _. apply sum_ext'. auto. Qed.
  Lemma sum2_ext s x y f g : (forall i j z, f i j z = g i j z) -> sum2 s x y f = sum2 s x y g.
  Proof. intros H. apply sum_ext'. intros i _. apply sum1_ext. auto. Qed.
  Lemma sum1_scale s x c f : sum1 s x (fun i z => c * f i z) = c * sum1 s x f.
  Proof.
    unfold sum1. rewrite <- (sum_scale _ _ _ _ _ _ Rth). apply sum_ext'. intros i _. apply (sum_scale _ _ _ _ _ _ Rth).
  Qed.
  Lemma sum2_scale s x y c f : sum2 s x y (fun i j z => c * f i j z) = c * sum2 s x y f.
  Proof.
    unfold sum2. rewrite <- (sum_scale _ _ _ _ _ _ Rth). apply sum_ext'. intros i _. apply (sum1_scale s y c (f i)).
  Qed.
  Lemma sum2_add s x y f g : sum2 s x y (fun i j z => f i j z + g i j z) = sum2 s x y f + sum2 s x y g.
  Proof.
    unfold sum2. rewrite <- (sum_add _ _ _ _ _ _ Rth). apply sum_ext'. intros i _.
    rewrite <- (sum_add _ _ _ _ _ _ Rth). apply sum_ext'. intros j _. apply (sum_add _ _ _ _ _ _ Rth).
  Qed.
  Lemma ind_scale b x : ind b x = ind b rI * x.
  Proof. destruct b; simpl; ring. Qed.

  Lemma val_6_29 inp dinp E dE sh s p x dY P : shp dY = sh ->
    cval inp E dE (rule_6_29 s p x dY P) = dotp sh P (E dY) (deval inp dinp E dE (C1 s p x)).
  Proof.
    intros W. unfold cval, rule_6_29. cbn [Sums.sum emval eval deval]. unfold dotp.
    transitivity (sum (box (shp x)) (fun i => sum (box sh) (fun g => sum (box s) (fun z => ind (p g i z && P g) (E dY g * dE x i))))).
    - transitivity (sum (box (shp x)) (fun i => ind (ex1 s dY (fun g z => p g i z && P g))
            (sum1 s dY (fun g z => ind (p g i z && P g) (E dY g))) * dE x i)).
      + rewrite (Radd_comm Rth), (Radd_0_l Rth). apply sum_ext'. intros i _. symmetry. apply (ind_mul_l _ _ _ _ _ _ Rth).
      + apply sum_ext'. intros i _. rewrite ind_ex1. unfold sum1. rewrite W.
        rewrite <- (sum_scale_r _ _ _ _ _ _ Rth). apply sum_ext'. intros g _.
        rewrite <- (sum_scale_r _ _ _ _ _ _ Rth). apply sum_ext'. intros z _. apply (ind_mul_l _ _ _ _ _ _ Rth).
    - rewrite (sum_swap _ _ _ _ _ _ Rth). apply sum_ext'. intros g _.
      rewrite <- sum1_scale. rewrite ind_scale, <- sum1_scale. apply sum1_ext. intros i z.
      destruct (p g i z), (P g); simpl; ring.
  Qed.

  Lemma val_6_28 inp dinp E dE sh s p x0 x1 dY P : shp dY = sh ->
    cval inp E dE (rule_6_28 s p x0 x1 dY P) = dotp sh P (E dY) (deval inp dinp E dE (C2 s p x0 x1)).
  Proof.
    intros W. unfold cval, rule_6_28. cbn [Sums.sum emval eval deval].
    set (A := sum (box sh) (fun g => sum2 s x0 x1 (fun i0 i1 z => ind (p g i0 i1 z && P g) (E dY g * E x1 i1 * dE x0 i0)))).
    set (B := sum (box sh) (fun g => sum2 s x0 x1 (fun i0 i1 z => ind (p g i0 i1 z && P g) (E x0 i0 * E dY g * dE x1 i1)))).
    transitivity (A + B).
    - rewrite (Radd_assoc Rth), (Radd_comm Rth _ rO), (Radd_0_l Rth). f_equal.
      + unfold dotp, A. transitivity (sum (box (shp x0)) (fun i0 => sum (box sh) (fun g => sum1 s x1 (fun i1 z =>
            ind (p g i0 i1 z && P g) (E dY g * E x1 i1 * dE x0 i0))))).
        * apply sum_ext'. intros i0 _. rewrite <- (ind_mul_l _ _ _ _ _ _ Rth), ind_ex2. unfold sum2. rewrite W.
          rewrite <- (sum_scale_r _ _ _ _ _ _ Rth). apply sum_ext'. intros g _.
          rewrite <- (sum_scale_r _ _ _ _ _ _ Rth). apply sum_ext'. intros i1 _.
          rewrite <- (sum_scale_r _ _ _ _ _ _ Rth). apply sum_ext'. intros z _. apply (ind_mul_l _ _ _ _ _ _ Rth).
        * rewrite (sum_swap _ _ _ _ _ _ Rth). reflexivity.
      + unfold dotp, B. transitivity (sum (box (shp x1)) (fun i1 => sum (box (shp x0)) (fun i0 => sum (box sh) (fun g => sum (box s) (fun z =>
            ind (p g i0 i1 z && P g) (E x0 i0 * E dY g * dE x1 i1)))))).
        * apply sum_ext'. intros i1 _. rewrite <- (ind_mul_l _ _ _ _ _ _ Rth), ind_ex2. unfold sum2. rewrite W.
          rewrite <- (sum_scale_r _ _ _ _ _ _ Rth). apply sum_ext'. intros i0 _.
          rewrite <- (sum_scale_r _ _ _ _ _ _ Rth). apply sum_ext'. intros g _.
          rewrite <- (sum_scale_r _ _ _ _ _ _ Rth). apply sum_ext'. intros z _. apply (ind_mul_l _ _ _ _ _ _ Rth).
        * rewrite (sum_swap _ _ _ _ _ _ Rth).
          transitivity (sum (box (shp x0)) (fun i0 => sum (box sh) (fun g => sum (box (shp x1)) (fun i1 => sum (box s) (fun z =>
            ind (p g i0 i1 z && P g) (E x0 i0 * E dY g * dE x1 i1)))))).
          -- apply sum_ext'. intros i0 _. apply (sum_swap _ _ _ _ _ _ Rth).
          -- apply (sum_swap _ _ _ _ _ _ Rth).
    - unfold A, B, dotp. rewrite <- (sum_add _ _ _ _ _ _ Rth). apply sum_ext'. intros g _.
      rewrite <- sum2_add, <- sum2_scale, ind_scale, <- sum2_scale. apply sum2_ext. intros i0 i1 z.
      destruct (p g i0 i1 z), (P g); simpl; ring.
  Qed.

  Lemma val_rule inp dinp E dE sh r dY P : shp dY = sh -> pointwise sh r -> (forall y, r <> Input y) ->
    cval inp E dE (adj_rule r dY P) = dotp sh P (E dY) (deval inp dinp E dE r).
  Proof.
    intros W Wr HI. destruct r; cbn [adj_rule].
    - exfalso; eapply HI; reflexivity.
    - unfold cval, dotp; simpl. rewrite (sum_ext' _ _ (fun _ => rO)); [now rewrite (sum_0 _ _ _ _ _ _ Rth)|].
      intros i _. destruct (P i); simpl; ring.
    - apply val_6_26; assumption.
    - apply (val_6_27 inp E dE sh); assumption.
    - apply val_6_29; assumption.
    - apply val_6_28; assumption.
  Qed.

  Lemma union_map l i : existsb (fun q : pred * var => fst q i) (map (fun c => (ipp c, lhs c)) l) = union l i.
  Proof. unfold union. induction l; simpl; [reflexivity|]. now rewrite IHl. Qed.
  (** the accumulated cotangent is 0 outside the union *)
  Lemma accum_masked inp E l i : ind (union l i) (eval inp E (accum l) i) = eval inp E (accum l) i.
  Proof. cbn [eval accum]. rewrite <- union_map. apply (ind_existsb _ _ _ _ _ _ Rth). Qed.
  Lemma val_accum inp E sh l d : dot sh (eval inp E (accum l)) d = sum l (fun c => dotp sh (ipp c) (E (lhs c)) d).
  Proof.
    rewrite dotp_sum. apply sum_ext'. intros i _. cbn [eval accum]. rewrite sum_map. reflexivity.
  Qed.
  Lemma dot_masked inp E sh l d : dotp sh (union l) (eval inp E (accum l)) d = dot sh (eval inp E (accum l)) d.
  Proof. apply sum_ext'. intros i _. rewrite <- (ind_mul_l _ _ _ _ _ _ Rth), accum_masked. reflexivity. Qed.
  Lemma val_6_25 inp E sh l em P d : rule_6_25 l = (em, P) ->
    dotp sh P (emval inp E em) d = sum l (fun c => dotp sh (ipp c) (E (lhs c)) d).
  Proof.
    unfold rule_6_25. destruct l as [|c [|c' l]]; intros H; inversion H; subst; cbn [emval].
    - rewrite dot_masked. apply val_accum.
    - simpl. ring.
    - rewrite dot_masked. apply val_accum.
  Qed.

  Lemma ipval_split E dE x l : ipval E dE l = ipval E dE (mine x l) + ipval E dE (rest x l).
  Proof. apply (sum_filter _ _ _ _ _ _ Rth). Qed.
  Lemma ipval_app E dE l l' : ipval E dE (l ++ l') = ipval E dE l + ipval E dE l'.
  Proof. apply (sum_app _ _ _ _ _ _ Rth). Qed.

  (** each step preserves the value of e^S; every rewriting is an equality *)
  Lemma bwd_val inp dinp E dE : forall ss t l gl t' gl', wf ss -> Forall (okip (declared ss)) l ->
    bwd ss t l gl = (t', gl') -> solves inp E t' -> dsolves inp dinp E dE ss ->
    ipval E dinp gl' = ipval E dE l + ipval E dinp gl.
  Proof.
    induction ss as [|[sh r] ss IH]; intros t l gl t' gl' W F H So DS.
    - simpl in H. inversion H; subst. destruct l as [|c l]; [unfold ipval at 2; simpl; ring|].
      inversion F; subst. destruct H2 as [[] _].
    - pose proof (bwd_mono inp E _ _ _ _ _ _ H So) as So0.
      cbn [bwd] in H. set (x := Var (length ss) sh) in *. simpl in W. destruct W as [HD [Wp W]].
      cbn [declared] in F. fold x in F. cbn [dsolves] in DS. fold x in DS. destruct DS as [DX DS].
      pose proof (rest_ok x _ _ F) as FR. pose proof (mine_ok x _ _ F) as FM.
      assert (HM : forall c, In c (mine x l) -> tgt c = x) by apply mine_tgt.
      rewrite (ipval_split E dE x l).
      assert (VM : ipval E dE (mine x l) = sum (mine x l) (fun c => dotp sh (ipp c) (E (lhs c)) (deval inp dinp E dE r))).
      { apply sum_ext'. intros c Hc. rewrite (HM c Hc). apply dotp_ext; [reflexivity|exact DX]. }
      assert (HI : (exists y, r = Input y) \/ (forall y, r <> Input y)).
      { destruct r; [left; eauto|right; congruence ..]. }
      destruct HI as [[y ->]|HI].
      + apply IH in H; [|assumption..]. rewrite H, ipval_app.
        assert (ipval E dinp (map (retarget y) (mine x l)) = ipval E dE (mine x l)) as ->; [|ring].
        rewrite VM. unfold ipval. rewrite sum_map. apply sum_ext'. intros c Hc. simpl in *. rewrite Wp. reflexivity.
      + assert (H' : match mine x l with [] => bwd ss t (rest x l) gl | _ =>
                   let (em, P) := rule_6_25 (mine x l) in let (t1, dY) := emit1 t sh em in
                   let (t2, new) := emits t1 (adj_rule r dY P) in bwd ss t2 (new ++ rest x l) gl end = (t', gl')).
        { destruct r; try exact H. exfalso; eapply HI; reflexivity. }
        clear H. destruct (mine x l) as [|c0 m] eqn:EM.
        * apply IH in H'; [|assumption..]. rewrite H'. unfold ipval at 3. simpl. ring.
        * rewrite <- EM in *. clear EM c0 m.
          destruct (rule_6_25 (mine x l)) as [em P] eqn:E25. destruct (emit1 t sh em) as [t1 dY] eqn:E1.
          destruct (emits t1 (adj_rule r dY P)) as [t2 new] eqn:E2.
          assert (SY : shp dY = sh) by (eapply emit1_shp; [exact E1|]; apply (shp_6_25 _ x _ _ _ FM HM E25)).
          pose proof (bwd_mono inp E _ _ _ _ _ _ H' So) as So2.
          pose proof (emits_mono inp E _ _ _ _ E2 So2) as So1.
          apply IH in H'; [|assumption|apply Forall_app; split; [eapply emits_ok; [exact E2|]; eapply adj_rule_ok; eauto|assumption]|assumption..].
          rewrite H', ipval_app, (emits_val inp E dE _ _ _ _ E2 So2), (val_rule inp dinp E dE sh r dY P SY Wp HI), VM.
          rewrite <- (val_6_25 inp E sh _ em P _ E25).
          rewrite (dotp_ext sh P (E dY) (emval inp E em) _ _ (emit1_val inp E _ _ _ _ _ E1 So1) (fun _ => eq_refl)). ring.
  Qed.

  (** input leaves that are reached are differentiated, or their differential is 0 *)
  Lemma bwd_leaves (Q : var -> Prop) : forall ss t l gl t' gl', bwd ss t l gl = (t', gl') ->
    (forall sh y, In (sh, Input y) ss -> Q y) -> (forall c, In c gl -> Q (tgt c)) -> forall c, In c gl' -> Q (tgt c).
  Proof.
    induction ss as [|[sh r] ss IH]; intros t l gl t' gl' H HQ HG; [inversion H; subst; assumption|].
    assert (HQ' : forall sh y, In (sh, Input y) ss -> Q y) by (intros; eapply HQ; right; eassumption).
    cbn [bwd] in H.
    destruct r; [|(destruct (mine _ l) as [|c0 m]; [eapply IH; eassumption|];
     destruct (rule_6_25 (c0 :: m)) as [em P]; destruct (emit1 t sh em) as [t1 dY] eqn:E1;
     match type of H with context [emits t1 ?cs] => destruct (emits t1 cs) as [t2 new] eqn:E2 end;
     eapply IH; eassumption) ..].
    eapply IH; [exact H|exact HQ'|]. intros c Hc. apply in_app_or in Hc. destruct Hc as [Hc|Hc]; [|auto].
    apply in_map_iff in Hc. destruct Hc as [c' [<- _]]. simpl. eapply HQ. left. reflexivity.
  Qed.
  Lemma sum_leaves (f : ip -> K) : forall leaves gl, NoDup leaves ->
    (forall c, In c gl -> In (tgt c) leaves \/ f c = rO) ->
    sum leaves (fun y => sum (mine y gl) f) = sum gl f.
  Proof.
    induction leaves as [|y ls IH]; intros gl N H; simpl.
    - symmetry. transitivity (sum gl (fun _ => rO)); [|apply (sum_0 _ _ _ _ _ _ Rth)].
      apply sum_ext'. intros c Hc. destruct (H c Hc) as [[]|]; assumption.
    - inversion N; subst. rewrite (sum_filter _ _ _ _ _ _ Rth gl (to y)). fold (mine y gl). fold (rest y gl). f_equal.
      rewrite <- (IH (rest y gl)); [|assumption|].
      + apply sum_ext'. intros y' Hy'. rewrite mine_rest; [reflexivity|]. intros ->. contradiction.
      + intros c Hc. apply filter_In in Hc. destruct Hc as [Hc Ec]. destruct (H c Hc) as [[Hy|Hl]|Hz]; auto.
        exfalso. assert (T : to y c = true) by (apply var_eqb_eq; auto). cbv beta in Ec. rewrite T in Ec. discriminate.
  Qed.

  (** * The adjoint theorem *)
  Theorem adjoint_correct S outs dys leaves t grads inp dinp E dE :
    wf S -> good_outs S outs dys -> NoDup leaves -> adjoint S outs dys leaves = (t, grads) ->
    (forall sh y, In (sh, Input y) S -> In y leaves \/ forall i, dinp y i = rO) ->
    solves inp E t -> dsolves inp dinp E dE S ->
    sum (combine outs dys) (fun xy => dot (shp (fst xy)) (inp (snd xy)) (dE (fst xy)))
    = sum grads (fun c => dot (shp (tgt c)) (E (lhs c)) (dinp (tgt c))).
  Proof.
    intros W GO ND H HL So DS. unfold adjoint in H.
    destruct (emits S (start outs dys)) as [t0 l] eqn:E0. destruct (bwd S t0 l []) as [t1 gl] eqn:E1.
    pose proof (emits_ok _ _ _ _ _ E0 (start_ok S outs dys GO)) as F.
    pose proof (emits_mono inp E _ _ _ _ H So) as So1. pose proof (bwd_mono inp E _ _ _ _ _ _ E1 So1) as So0.
    pose proof (bwd_val inp dinp E dE _ _ _ _ _ _ W F E1 So1 DS) as V1.
    pose proof (emits_val inp E dE _ _ _ _ E0 So0) as V0.
    transitivity (ipval E dE l).
    { rewrite V0. unfold cval, start. rewrite sum_map. apply sum_ext'. intros [x y] _. reflexivity. }
    transitivity (ipval E dinp gl); [rewrite V1; unfold ipval at 3; simpl; ring|].
    transitivity (sum leaves (fun y => sum (mine y gl) (fun c => dotp (shp (tgt c)) (ipp c) (E (lhs c)) (dinp (tgt c))))).
    { symmetry. apply sum_leaves; [assumption|]. intros c Hc.
      destruct (bwd_leaves (fun y => In y leaves \/ forall i, dinp y i = rO) _ _ _ _ _ _ E1 HL (fun c h => match h with end) c Hc) as [|Z]; [auto|].
      right. unfold dotp. transitivity (sum (box (shp (tgt c))) (fun _ => rO)); [|apply (sum_0 _ _ _ _ _ _ Rth)].
      apply sum_ext'. intros i _. rewrite Z. destruct (ipp c i); simpl; ring. }
    clear - H So Rth. revert t1 t grads H So. unfold finish. induction leaves as [|y ls IH]; intros t1 t grads H So.
    - simpl in H. inversion H; subst. reflexivity.
    - cbn [map emits] in H. destruct (emit1 t1 (shp y) (Emit (accum (mine y gl)))) as [t2 e] eqn:E1.
      destruct (emits t2 _) as [t3 l3] eqn:E3 in H. inversion H; subst. cbn [Sums.sum lhs tgt].
      rewrite (IH _ _ _ E3 So). f_equal.
      transitivity (dot (shp y) (eval inp E (accum (mine y gl))) (dinp y)).
      + rewrite val_accum. apply sum_ext'. intros c Hc. now rewrite (mine_tgt _ _ _ Hc).
      + apply sum_ext'. intros i _. rewrite (emit1_val inp E _ _ _ _ _ E1 (emits_mono inp E _ _ _ _ E3 So)). reflexivity.
  Qed.

  (** * The adjoint is tensor SSA again, and programs have exactly one meaning *)
  Lemma declared_app pre : forall t x, In x (declared t) -> In x (declared (pre ++ t)).
  Proof. induction pre as [|[sh r] pre IH]; simpl; auto. Qed.
  Lemma declared_name t : forall x, In x (declared t) -> (name x < length t)%nat.
  Proof.
    induction t as [|[sh r] t IH]; simpl; intros x H; [tauto|]. destruct H as [<-|H]; simpl; [lia|]. specialize (IH x H). lia.
  Qed.
  Definition wfc (D : list var) (sh : shape) (em : emission) : Prop :=
    match em with Reuse e => In e D | Emit r => (forall x, In x (ops r) -> In x D) /\ pointwise sh r end.
  Definition wfcs (D : list var) (cs : list contrib) : Prop :=
    Forall (fun c => match c with (em, x, _) => wfc D (shp x) em end) cs.
  Definition lhs_in (D : list var) (l : list ip) : Prop := Forall (fun c => In (lhs c) D) l.
  Lemma wfc_incl D D' sh em : incl D D' -> wfc D sh em -> wfc D' sh em.
  Proof. destruct em; simpl; intros I H; [auto|]. destruct H; split; auto. Qed.
  Lemma wfcs_incl D D' cs : incl D D' -> wfcs D cs -> wfcs D' cs.
  Proof. intros I. apply Forall_impl. intros [[em x] P]. apply wfc_incl, I. Qed.
  Lemma lhs_incl D D' l : incl D D' -> lhs_in D l -> lhs_in D' l.
  Proof. intros I. apply Forall_impl. intros c. apply I. Qed.
  Lemma wf_emit1 t sh em t1 e : emit1 t sh em = (t1, e) -> wf t -> wfc (declared t) sh em ->
    wf t1 /\ In e (declared t1) /\ incl (declared t) (declared t1).
  Proof.
    destruct em; simpl; intros H W C; inversion H; subst; simpl.
    - repeat split; auto. apply incl_refl.
    - destruct C. repeat split; auto. apply incl_tl, incl_refl.
  Qed.
  Lemma wf_emits cs : forall t t' l, emits t cs = (t', l) -> wf t -> wfcs (declared t) cs ->
    wf t' /\ lhs_in (declared t') l /\ incl (declared t) (declared t').
  Proof.
    induction cs as [|[[em x] P] cs IH]; simpl; intros t t' l H W C.
    - inversion H; subst. repeat split; [assumption|constructor|apply incl_refl].
    - destruct (emit1 t (shp x) em) as [t1 e] eqn:E1. destruct (emits t1 cs) as [t2 l2] eqn:E2.
      inversion H; subst. inversion C; subst. destruct (wf_emit1 _ _ _ _ _ E1 W H2) as [W1 [He I1]].
      destruct (IH _ _ _ E2 W1 (wfcs_incl _ _ _ I1 H3)) as [W2 [Hl I2]].
      repeat split; [assumption| |eapply incl_tran; eassumption]. constructor; [apply I2, He|exact Hl].
  Qed.
  Lemma wf_6_27 D sh p f args dY P : incl args D -> In dY D -> shp dY = sh -> (forall x, In x args -> shp x = sh) ->
    forall xs j, (forall x, In x xs -> shp x = sh) -> wfcs D (rule_6_27 p f args j xs dY P).
  Proof.
    intros I HY SY SA. induction xs as [|x xs IH]; simpl; intros j H; constructor; [|apply IH; auto].
    rewrite (H x) by auto. split; simpl.
    - intros y Hy. apply in_app_or in Hy. destruct Hy as [Hy|[<-|[]]]; auto.
    - intros y Hy. apply in_app_or in Hy. destruct Hy as [Hy|[<-|[]]]; auto.
  Qed.
  Lemma wf_rule D sh r dY P : shp dY = sh -> pointwise sh r -> incl (ops r) D -> In dY D -> wfcs D (adj_rule r dY P).
  Proof.
    intros W Wr I HY. destruct r; cbn [adj_rule]; try constructor.
    - apply Forall_forall. intros c Hc. apply in_map_iff in Hc. destruct Hc as [q [<- Hq]]. exact HY.
    - apply (wf_6_27 D sh); auto.
    - split; simpl; [|exact Logic.I]. intros y [<-|[]]; exact HY.
    - constructor.
    - split; simpl; [|exact Logic.I]. intros y [<-|[<-|[]]]; [exact HY|apply I; simpl; auto].
    - constructor; [|constructor]. split; simpl; [|exact Logic.I]. intros y [<-|[<-|[]]]; [apply I; simpl; auto|exact HY].
  Qed.
  Lemma wf_accum D x l : lhs_in D l -> (forall c, In c l -> shp (lhs c) = shp x) -> wfc D (shp x) (Emit (accum l)).
  Proof.
    unfold lhs_in. rewrite Forall_forall. intros H HS. unfold accum. split; cbn [ops pointwise]; rewrite map_map; cbn [snd]; intros y Hy;
    apply in_map_iff in Hy; destruct Hy as [c [<- Hc]]; auto.
  Qed.
  Lemma wf_6_25 D x l em P : lhs_in D l -> (forall c, In c l -> shp (lhs c) = shp x) -> rule_6_25 l = (em, P) -> wfc D (shp x) em.
  Proof.
    intros H HS. unfold rule_6_25. destruct l as [|c [|c' l]]; intros E; inversion E; subst.
    - apply wf_accum; assumption.
    - inversion H; assumption.
    - apply wf_accum; assumption.
  Qed.
  Lemma lhs_filter D f l : lhs_in D l -> lhs_in D (filter f l).
  Proof. unfold lhs_in. rewrite !Forall_forall. intros H c Hc. apply filter_In in Hc. apply H, Hc. Qed.
  Definition same_shape (l : list ip) : Prop := forall c, In c l -> shp (lhs c) = shp (tgt c).

  Lemma bwd_wf : forall ss t l gl t' gl', bwd ss t l gl = (t', gl') ->
    wf ss -> Forall (okip (declared ss)) l -> same_shape gl -> wf t -> incl (declared ss) (declared t) ->
    lhs_in (declared t) l -> lhs_in (declared t) gl -> wf t' /\ lhs_in (declared t') gl' /\ same_shape gl'.
  Proof.
    induction ss as [|[sh r] ss IH]; intros t l gl t' gl' H W F SG Wt I Ll Lg; [inversion H; subst; auto|].
    cbn [bwd] in H. set (x := Var (length ss) sh) in *. simpl in W. destruct W as [HD [Wp W]].
    cbn [declared] in F, I. fold x in F, I.
    assert (I' : incl (declared ss) (declared t)) by (intros y Hy; apply I; right; exact Hy).
    pose proof (rest_ok x _ _ F) as FR. pose proof (mine_ok x _ _ F) as FM.
    assert (HM : forall c, In c (mine x l) -> tgt c = x) by apply mine_tgt.
    assert (HS : forall c, In c (mine x l) -> shp (lhs c) = shp x).
    { intros c Hc. rewrite <- (HM c Hc). rewrite Forall_forall in FM. apply FM, Hc. }
    pose proof (lhs_filter _ (to x) _ Ll) as LM. pose proof (lhs_filter _ (fun c => negb (to x c)) _ Ll) as LR.
    fold (mine x l) in LM. fold (rest x l) in LR.
    assert (HI : (exists y, r = Input y) \/ (forall y, r <> Input y)).
    { destruct r; [left; eauto|right; congruence ..]. }
    destruct HI as [[y ->]|HI].
    - eapply IH; [exact H|assumption|assumption| |assumption|assumption|assumption|].
      + intros c Hc. apply in_app_or in Hc. destruct Hc as [Hc|Hc]; [|auto].
        apply in_map_iff in Hc. destruct Hc as [c' [<- Hc]]. simpl. rewrite (HS c' Hc). simpl in Wp. now rewrite Wp.
      + apply Forall_app. split; [|assumption]. apply Forall_forall. intros c Hc. apply in_map_iff in Hc.
        destruct Hc as [c' [<- Hc]]. simpl. unfold lhs_in in LM. rewrite Forall_forall in LM. auto.
    - assert (H' : match mine x l with [] => bwd ss t (rest x l) gl | _ =>
                   let (em, P) := rule_6_25 (mine x l) in let (t1, dY) := emit1 t sh em in
                   let (t2, new) := emits t1 (adj_rule r dY P) in bwd ss t2 (new ++ rest x l) gl end = (t', gl')).
      { destruct r; try exact H. exfalso; eapply HI; reflexivity. }
      clear H. destruct (mine x l) as [|c0 m] eqn:EM; [eapply IH; eassumption|].
      rewrite <- EM in *. clear EM c0 m.
      destruct (rule_6_25 (mine x l)) as [em P] eqn:E25. destruct (emit1 t sh em) as [t1 dY] eqn:E1.
      destruct (emits t1 (adj_rule r dY P)) as [t2 new] eqn:E2.
      assert (SY : shp dY = sh) by (eapply emit1_shp; [exact E1|]; apply (shp_6_25 _ x _ _ _ FM HM E25)).
      destruct (wf_emit1 _ _ _ _ _ E1 Wt (wf_6_25 _ x _ _ _ LM HS E25)) as [W1 [HY I1]].
      assert (C2' : wfcs (declared t1) (adj_rule r dY P)).
      { apply (wf_rule _ sh); auto. intros y Hy. apply I1, I', HD, Hy. }
      destruct (wf_emits _ _ _ _ E2 W1 C2') as [W2 [Ln I2]].
      assert (I02 : incl (declared t) (declared t2)) by (eapply incl_tran; eassumption).
      eapply IH; [exact H'|assumption| |assumption|assumption|eapply incl_tran; eassumption| |eapply lhs_incl; eassumption].
      + apply Forall_app; split; [eapply emits_ok; [exact E2|]; eapply adj_rule_ok; eauto|assumption].
      + apply Forall_app; split; [assumption|eapply lhs_incl; eassumption].
  Qed.

  Lemma emits_shape cs : forall t t' l, emits t cs = (t', l) -> map tgt l = map (fun c => snd (fst c)) cs.
  Proof.
    induction cs as [|[[em x] P] cs IH]; simpl; intros t t' l H; [inversion H; reflexivity|].
    destruct (emit1 t (shp x) em) as [t1 e]. destruct (emits t1 cs) as [t2 l2] eqn:E2. inversion H; subst. simpl. f_equal. eauto.
  Qed.
  Theorem adjoint_wf S outs dys leaves t grads :
    wf S -> good_outs S outs dys -> adjoint S outs dys leaves = (t, grads) ->
    wf t /\ (forall c, In c grads -> In (lhs c) (declared t)) /\ map tgt grads = leaves.
  Proof.
    intros W GO H. unfold adjoint in H.
    destruct (emits S (start outs dys)) as [t0 l] eqn:E0. destruct (bwd S t0 l []) as [t1 gl] eqn:E1.
    pose proof (emits_ok _ _ _ _ _ E0 (start_ok S outs dys GO)) as F.
    assert (C0 : wfcs (declared S) (start outs dys)).
    { destruct GO as [GS _]. clear - GS. unfold start, wfcs. revert dys GS. induction outs as [|x outs IH]; intros [|y dys] GS;
      simpl in *; try discriminate; constructor; [|apply IH; congruence]. simpl. split; [tauto|congruence]. }
    destruct (wf_emits _ _ _ _ E0 W C0) as [W0 [L0 I0]].
    destruct (bwd_wf _ _ _ _ _ _ E1 W F (fun c h => match h with end) W0 I0 L0 (Forall_nil _)) as [W1 [L1 SG]].
    assert (C1' : wfcs (declared t1) (finish gl leaves)).
    { unfold finish. apply Forall_forall. intros c Hc. apply in_map_iff in Hc. destruct Hc as [y [<- _]].
      apply wf_accum; [apply lhs_filter, L1|]. intros c Hc. rewrite (SG c); [|apply filter_In in Hc; apply Hc].
      now rewrite (mine_tgt _ _ _ Hc). }
    destruct (wf_emits _ _ _ _ H W1 C1') as [W2 [L2 _]]. split; [assumption|]. split.
    - unfold lhs_in in L2. rewrite Forall_forall in L2. exact L2.
    - rewrite (emits_shape _ _ _ _ H). unfold finish. rewrite map_map. simpl. apply map_id.
  Qed.

  (** evaluation of a whole program, forward derivative of a whole program *)
  Fixpoint run (inp : env) (S : prog) : env :=
    match S with
    | [] => fun _ _ => rO
    | (sh, r) :: S' => let E := run inp S' in fun v => if var_eqb v (Var (length S') sh) then eval inp E r else E v
    end.
  Fixpoint drun (inp dinp E : env) (S : prog) : env :=
    match S with
    | [] => fun _ _ => rO
    | (sh, r) :: S' => let dE := drun inp dinp E S' in
        fun v => if var_eqb v (Var (length S') sh) then deval inp dinp E dE r else dE v
    end.
  Definition agree (D : list var) (E E' : env) : Prop := forall x, In x D -> forall i, E x i = E' x i.
  Lemma eval_ext inp E E' r : agree (ops r) E E' -> forall i, eval inp E r i = eval inp E' r i.
  Proof.
    intros A i. destruct r; cbn [eval]; auto.
    - apply sum_ext'. intros q Hq. rewrite (A (snd q)); [reflexivity|]. apply in_map, Hq.
    - f_equal. f_equal. apply map_ext_in. intros x Hx. apply A, Hx.
    - apply sum1_ext. intros j z. rewrite (A x); [reflexivity|left; auto].
    - apply sum2_ext. intros j k z. rewrite (A x0), (A x1); [reflexivity|right; left; auto|left; auto].
  Qed.
  Lemma deval_ext inp dinp E E' dE dE' r : agree (ops r) E E' -> agree (ops r) dE dE' ->
    forall i, deval inp dinp E dE r i = deval inp dinp E' dE' r i.
  Proof.
    intros A B i. destruct r; cbn [deval]; auto.
    - apply sum_ext'. intros q Hq. rewrite (B (snd q)); [reflexivity|]. apply in_map, Hq.
    - f_equal. f_equal; apply map_ext_in; intros x Hx; [apply A|apply B]; assumption.
    - apply sum1_ext. intros j z. rewrite (B x); [reflexivity|left; auto].
    - apply sum2_ext. intros j k z. rewrite (A x0), (A x1), (B x0), (B x1); simpl; auto.
  Qed.
  Lemma solves_ext inp E E' : forall t, wf t -> agree (declared t) E E' -> solves inp E t -> solves inp E' t.
  Proof.
    induction t as [|[sh r] t IH]; [auto|]. cbn [wf declared solves]. intros [HD [_ W]] A [H1 H2]. split.
    - intros i. rewrite <- (A _ (or_introl eq_refl)), H1. apply eval_ext. intros x Hx. apply A. right. apply HD, Hx.
    - apply IH; auto. intros x Hx. apply A. right. exact Hx.
  Qed.
  Lemma dsolves_ext inp dinp E E' dE dE' : forall t, wf t -> agree (declared t) E E' -> agree (declared t) dE dE' ->
    dsolves inp dinp E dE t -> dsolves inp dinp E' dE' t.
  Proof.
    induction t as [|[sh r] t IH]; [auto|]. cbn [wf declared dsolves]. intros [HD [_ W]] A B [H1 H2]. split.
    - intros i. rewrite <- (B _ (or_introl eq_refl)), H1. apply deval_ext; intros x Hx; [apply A|apply B]; right; apply HD, Hx.
    - apply IH; auto; intros x Hx; [apply A|apply B]; right; exact Hx.
  Qed.
  Lemma fresh_neq sh (t : prog) v : In v (declared t) -> var_eqb v (Var (length t) sh) = false.
  Proof.
    intros H. apply declared_name in H. destruct (var_eqb v _) eqn:E; [|reflexivity]. apply var_eqb_eq in E. subst. simpl in H. lia.
  Qed.
  Lemma var_eqb_refl x : var_eqb x x = true.
  Proof. now apply var_eqb_eq. Qed.
  Theorem run_solves inp t : wf t -> solves inp (run inp t) t.
  Proof.
    induction t as [|[sh r] t IH]; [simpl; auto|]. cbn [wf solves run]. intros [HD [_ W]].
    assert (A : agree (declared t) (run inp t) (fun v => if var_eqb v (Var (length t) sh) then eval inp (run inp t) r else run inp t v)).
    { intros x Hx i. now rewrite (fresh_neq sh t x Hx). }
    split; [|apply (solves_ext inp (run inp t)); auto].
    intros i. rewrite var_eqb_refl. apply eval_ext. intros x Hx. apply A, HD, Hx.
  Qed.
  Theorem drun_solves inp dinp E t : wf t -> dsolves inp dinp E (drun inp dinp E t) t.
  Proof.
    induction t as [|[sh r] t IH]; [simpl; auto|]. cbn [wf dsolves drun]. intros [HD [_ W]].
    assert (A : agree (declared t) (drun inp dinp E t) (fun v => if var_eqb v (Var (length t) sh) then deval inp dinp E (drun inp dinp E t) r else drun inp dinp E t v)).
    { intros x Hx i. now rewrite (fresh_neq sh t x Hx). }
    split; [|apply (dsolves_ext inp dinp E E (drun inp dinp E t)); auto; intros x _ i; reflexivity].
    intros i. rewrite var_eqb_refl. apply deval_ext; [intros x _ j; reflexivity|]. intros x Hx. apply A, HD, Hx.
  Qed.
  Theorem solves_unique inp E E' : forall t, wf t -> solves inp E t -> solves inp E' t -> agree (declared t) E E'.
  Proof.
    induction t as [|[sh r] t IH]; intros W H H' x Hx i; [destruct Hx|].
    cbn [wf solves declared] in *. destruct W as [HD [_ W]], H as [H1 H2], H' as [H1' H2']. destruct Hx as [<-|Hx]; [|apply IH; auto].
    rewrite H1, H1'. apply eval_ext. intros x Hx j. apply IH; auto.
  Qed.

  Definition D (S : prog) (inp dinp : env) : env := drun inp dinp (run inp S) S.
  (** <dy | D S dx> = <D^T S dy | dx>, for the meanings given by running both programs *)
  Theorem adjoint_run S outs dys leaves t grads inp dinp :
    wf S -> good_outs S outs dys -> NoDup leaves -> adjoint S outs dys leaves = (t, grads) ->
    (forall sh y, In (sh, Input y) S -> In y leaves \/ forall i, dinp y i = rO) ->
    sum (combine outs dys) (fun xy => dot (shp (fst xy)) (inp (snd xy)) (D S inp dinp (fst xy)))
    = sum grads (fun c => dot (shp (tgt c)) (run inp t (lhs c)) (dinp (tgt c))).
  Proof.
    intros W GO ND H HL. destruct (adjoint_wf _ _ _ _ _ _ W GO H) as [Wt _]. pose proof (run_solves inp t Wt) as So.
    assert (SS : solves inp (run inp t) S).
    { unfold adjoint in H. destruct (emits S (start outs dys)) as [t0 l] eqn:E0. destruct (bwd S t0 l []) as [t1 gl] eqn:E1.
      eapply emits_mono; [exact E0|]. eapply bwd_mono; [exact E1|]. eapply emits_mono; [exact H|exact So]. }
    apply (adjoint_correct S outs dys leaves t grads inp dinp (run inp t) (D S inp dinp) W GO ND H HL So). unfold D.
    apply (dsolves_ext inp dinp (run inp S) (run inp t) (drun inp dinp (run inp S) S)); auto.
    - apply (solves_unique inp); auto. apply run_solves, W.
    - intros x _ i; reflexivity.
    - apply drun_solves, W.
  Qed.
End SSA.
