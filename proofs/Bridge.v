(** From tensor SSA to the language: what a statement of Figure 10 is as an expression of Figure 3
    (tensorlang/normal/as_program.py: read, to_function). The value stays, and the cost is that of Figure 6, so that SSA.v's formulas, such as 2N - G for a
    product, are Figure 6's.

    In SSA.v a predicate is a set of points. Here it is syntax again, over indices that are named by their places: first
    the statement's own, then those of the factors, then those that are summed over. *)
Require Import String List Bool ZArith Ring Lia Arith.
Import ListNotations.
Require Import TL.Sums TL.Points TL.SSA TL.Core TL.Free.
Open Scope list_scope.

(** * Names by place *)
Fixpoint primed (c : string) (k : nat) : string := match k with O => c | S k' => String.append "'"%string (primed c k') end.
Definition axis (k : nat) : ix := primed "i"%string k.
Definition vname (x : var) : string := primed "X"%string (name x).
(** the indices of an array from place k on *)
Fixpoint axes (k : nat) (sh : shape) : binders := match sh with [] => [] | n :: sh' => (axis k, n) :: axes (S k) sh' end.

Lemma primed_inj c k : forall j, String.length c = 1 -> primed c k = primed c j -> k = j.
Proof.
  intros j L E. assert (A : forall m, String.length (primed c m) = S m)
    by (intros m; induction m as [|m IH]; [exact L|]; cbn; now rewrite IH).
  pose proof (A k) as H. rewrite E, A in H. lia.
Qed.
Lemma axes_sizes sh : forall k, bsizes (axes k sh) = sh.
Proof. induction sh as [|n sh IH]; intros k; [reflexivity|]. unfold bsizes in *. cbn. now rewrite IH. Qed.
Lemma axes_box k sh : bbox (axes k sh) = box sh.
Proof. unfold bbox. now rewrite axes_sizes. Qed.
Lemma axes_length k sh : length (axes k sh) = length sh.
Proof. rewrite <- (axes_sizes sh k) at 2. unfold bsizes. now rewrite map_length. Qed.
Lemma axes_app s1 : forall k s2, axes k (s1 ++ s2) = axes k s1 ++ axes (k + length s1) s2.
Proof.
  induction s1 as [|n s1 IH]; intros k s2; cbn; [now rewrite Nat.add_0_r|]. rewrite IH. now rewrite <- Nat.add_succ_comm.
Qed.
Lemma axes_names sh : forall k i, In i (bnames (axes k sh)) -> exists j, (k <= j)%nat /\ i = axis j.
Proof.
  induction sh as [|n sh IH]; intros k i H; [destruct H|]. destruct H as [<-|H]; [exists k; auto|].
  apply IH in H. destruct H as [j [H ->]]. exists j. split; [lia|reflexivity].
Qed.
Lemma axes_nodup sh : forall k, NoDup (bnames (axes k sh)).
Proof.
  induction sh as [|n sh IH]; intros k; cbn; constructor; [|apply IH]. intros H. apply axes_names in H.
  destruct H as [j [L E]]. apply primed_inj in E; [lia|reflexivity].
Qed.
(** the indices in the middle have their values *)
Lemma axes_middle s a b c za zb zc : length za = length a -> length zb = length b -> length zc = length c ->
  map (upds s (axes 0 (a ++ b ++ c)) (za ++ zb ++ zc)) (bnames (axes (length a) b)) = zb.
Proof.
  intros La Lb Lc. assert (L : length (za ++ zb ++ zc) = length (axes 0 (a ++ b ++ c))) by (rewrite axes_length, !app_length; lia).
  pose proof (upds_vals (axes 0 (a ++ b ++ c)) s (za ++ zb ++ zc) (axes_nodup _ _) L) as H.
  set (u := upds _ _ _) in *. rewrite !axes_app in H. unfold bnames in *. rewrite !map_app in H. cbn [Nat.add] in H.
  assert (E : forall (x x' y y' : list Z), length x = length x' -> x ++ y = x' ++ y' -> x = x' /\ y = y').
  { induction x as [|h x IH]; intros [|h' x'] y y' Hl Hx; try discriminate; [auto|]. inversion Hx; subst.
    destruct (IH x' y y') as [-> ->]; auto. }
  apply E in H; [|rewrite !map_length, axes_length; lia]. destruct H as [_ H].
  apply E in H; [|rewrite !map_length, axes_length; lia]. apply H.
Qed.

Section Bridge.
  Context {K : Type} (rO rI : K) (radd rmul rsub : K -> K -> K) (ropp : K -> K).
  Hypothesis Rth : ring_theory rO rI radd rmul rsub ropp eq.
  Add Ring BridgeRing : Rth.
  Context {fn : Type} (fval : fn -> list K -> K) (fcost : fn -> Z) (R : data).
  Notation expr := (@Core.expr K fn). Notation venv := (@Core.venv K). Notation env := (SSA.env (K := K)).
  Notation run_expr := (Core.eval rO radd rmul rsub fval R). Notation cost_expr := (Core.cost fcost R).
  Notation eval := (SSA.eval rO radd rmul ropp fval). Notation cost1 := (SSA.cost1 (K := K) fcost).
  Notation solves := (SSA.solves rO radd rmul ropp fval).
  Notation sum := (sum rO radd).

  (** * Figure 10 with predicates as syntax *)
  Record sterm := STerm { sminus : bool; sbracket : prd; soperand : var }.
  Inductive statement :=
  | SInput (x : var) | SConst (c : K)
  | SAdd (l : list sterm)
  | SMap (p : prd) (f : fn) (xs : list var)
  | SSum (s : shape) (p : prd) (x : var)
  | SProduct (s : shape) (p : prd) (x0 x1 : var).

  (** the points of a predicate *)
  Definition sat (sh : shape) (p : prd) (zs : index) : bool := pval R (upds (fun _ => 0%Z) (axes 0 sh) zs) p.
  Definition meaning (sh : shape) (st : statement) : rhs K fn :=
    match st with
    | SInput x => Input x
    | SConst c => Const c
    | SAdd l => Add (map (fun t => Term (sminus t) (sat sh (sbracket t)) (soperand t)) l)
    | SMap p f xs => Map (sat sh p) f xs
    | SSum s p x => C1 s (fun g i z => sat (sh ++ shp x ++ s) p (g ++ i ++ z)) x
    | SProduct s p x0 x1 => C2 s (fun g i0 i1 z => sat (sh ++ shp x0 ++ shp x1 ++ s) p (g ++ i0 ++ i1 ++ z)) x0 x1
    end.
  (** predicates speak of the statement's indices only *)
  Definition over (sh : shape) (p : prd) : Prop := forall i, In i (pfv p) -> In i (bnames (axes 0 sh)).
  Definition speaks (sh : shape) (st : statement) : Prop :=
    match st with
    | SInput _ | SConst _ => True
    | SAdd l => forall t, In t l -> over sh (sbracket t)
    | SMap p _ _ => over sh p
    | SSum s p x => over (sh ++ shp x ++ s) p
    | SProduct s p x0 x1 => over (sh ++ shp x0 ++ shp x1 ++ s) p
    end.

  (** * As an expression; an input is a projection of a parameter *)
  Variable leaf : var -> expr.
  Definition elem (x : var) (k : nat) : expr := at_ (EVar (vname x)) (axes k (shp x)).
  Definition term_expr (t : sterm) : expr := EInd (sbracket t) (elem (soperand t) 0).
  Definition nothing : expr := EInd (PLt (ACst 0) (ACst 0)) (ECst rO).
  (** one term after the other, first those that are added *)
  Definition sum_of_terms (l : list sterm) : expr :=
    fold_left (fun e t => ESub e (term_expr t)) (filter sminus l)
      (fold_left (fun e t => EAdd e (term_expr t)) (filter (fun t => negb (sminus t)) l) nothing).
  Definition read (sh : shape) (st : statement) : expr :=
    match st with
    | SInput x => leaf x
    | SConst c => gens (axes 0 sh) (ECst c)
    | SAdd l => gens (axes 0 sh) (sum_of_terms l)
    | SMap p f xs => gens (axes 0 sh) (EInd p (EFn f (map (fun x => elem x 0) xs)))
    | SSum s p x => gens (axes 0 sh) (sums (axes (length sh) (shp x ++ s)) (EInd p (elem x (length sh))))
    | SProduct s p x0 x1 =>
        gens (axes 0 sh) (sums (axes (length sh) (shp x0 ++ shp x1 ++ s))
          (EInd p (EMul (elem x0 (length sh)) (elem x1 (length sh + length (shp x0))))))
    end.

  (** ** points *)
  Lemma sat_at s sh p zs : over sh p -> length zs = length sh -> pval R (upds s (axes 0 sh) zs) p = sat sh p zs.
  Proof.
    intros H L. apply pval_ext. intros i Hi. apply (upds_ext (bnames (axes 0 sh))); [now rewrite axes_length| |apply H, Hi].
    intros j Hj N. contradiction.
  Qed.
  Lemma upds_axes s sh s' zs ws : length zs = length sh ->
    upds (upds s (axes 0 sh) zs) (axes (length sh) s') ws = upds s (axes 0 (sh ++ s')) (zs ++ ws).
  Proof. intros L. rewrite axes_app. symmetry. apply upds_app. now rewrite axes_length. Qed.
  Lemma box_len sh zs : In zs (box sh) -> length zs = length sh.
  Proof. apply box_length. Qed.
  Lemma elem_closed s x k : cost_expr s (elem x k) = 0%Z /\ guard R s (elem x k) = true /\ live R s (elem x k) = true /\ reach R s (elem x k) = true.
  Proof.
    unfold elem, at_. split; [rewrite cost_accs; reflexivity|].
    assert (A : forall l (e : expr), guard R s e = true -> live R s e = true -> reach R s e = true ->
              guard R s (accs e l) = true /\ live R s (accs e l) = true /\ reach R s (accs e l) = true).
    { induction l as [|a l IH]; intros e G L H; [auto|]. cbn [accs]. now apply IH. }
    now apply A.
  Qed.

  (** ** Values *)
  Section Values.
    Variables (r : venv) (inp E : env).
    Hypothesis leaf_val : forall s x i, In i (box (shp x)) -> run_expr r s (leaf x) [] i = inp x i.
    Definition knows (xs : list var) : Prop := forall x, In x xs -> forall i, In i (box (shp x)) -> r (vname x) [] i = E x i.
    Lemma elem_val s x k : run_expr r s (elem x k) [] [] = r (vname x) [] (map s (bnames (axes k (shp x)))).
    Proof. unfold elem. rewrite eval_at, app_nil_r. reflexivity. Qed.
    Lemma own_val s sh zs : length zs = length sh -> map (upds s (axes 0 sh) zs) (bnames (axes 0 sh)) = zs.
    Proof. intros L. apply upds_vals; [apply axes_nodup|now rewrite axes_length]. Qed.
    Lemma fold_plus s ts : forall e, run_expr r s (fold_left (fun e t => EAdd e (term_expr t)) ts e) [] []
      = radd (run_expr r s e [] []) (sum ts (fun t => run_expr r s (term_expr t) [] [])).
    Proof. induction ts as [|t ts IH]; intros e; cbn [fold_left Sums.sum]; [ring|]. rewrite IH. cbn [Core.eval]. ring. Qed.
    Lemma fold_minus s ts : forall e, run_expr r s (fold_left (fun e t => ESub e (term_expr t)) ts e) [] []
      = radd (run_expr r s e [] []) (sum ts (fun t => ropp (run_expr r s (term_expr t) [] []))).
    Proof. induction ts as [|t ts IH]; intros e; cbn [fold_left Sums.sum]; [ring|]. rewrite IH. cbn [Core.eval]. ring. Qed.

    Theorem read_value s sh st : speaks sh st -> pointwise sh (meaning sh st) -> knows (ops (meaning sh st)) ->
      forall g, In g (box sh) -> run_expr r s (read sh st) [] g = eval inp E (meaning sh st) g.
    Proof.
      intros C W HK g Hg. pose proof (box_len sh g Hg) as Lg.
      assert (G : forall e, run_expr r s (gens (axes 0 sh) e) [] g = run_expr r (upds s (axes 0 sh) g) e [] []).
      { intros e. rewrite <- (app_nil_r g) at 1. rewrite eval_gens; [reflexivity|]. now rewrite axes_box. }
      destruct st as [x|c|l|p f xs|s' p x|s' p x0 x1]; cbn [read meaning SSA.eval speaks pointwise ops] in *.
      - apply leaf_val. now rewrite W.
      - rewrite G. reflexivity.
      - rewrite G. unfold sum_of_terms. rewrite fold_minus, fold_plus. cbn [Core.eval nothing pval aval Z.ltb Z.compare Sums.ind].
        rewrite sum_map. cbn [bracket minus operand]. rewrite (sum_filter _ _ _ _ _ _ Rth l (fun t => negb (sminus t))).
        rewrite (Radd_0_l Rth). f_equal.
        + apply sum_ext. intros t Ht. apply filter_In in Ht. destruct Ht as [Ht Hm]. unfold term_expr. cbn [Core.eval].
          rewrite sat_at by auto. destruct (sminus t); [discriminate|]. cbn [signed]. f_equal.
          assert (Hx : In (soperand t) (map operand (map (fun t => Term (sminus t) (sat sh (sbracket t)) (soperand t)) l)))
            by (rewrite map_map; apply (in_map soperand), Ht).
          rewrite elem_val, <- (HK _ Hx) by (rewrite (W _ Hx); exact Hg). f_equal. rewrite (W _ Hx). now apply own_val.
        + assert (F : filter (fun a => negb (negb (sminus a))) l = filter sminus l)
            by (apply filter_ext; intros a; apply negb_involutive).
          rewrite F. apply sum_ext. intros t Ht. apply filter_In in Ht. destruct Ht as [Ht Hm]. unfold term_expr. cbn [Core.eval].
          rewrite sat_at by auto. rewrite Hm. cbn [signed].
          assert (Hx : In (soperand t) (map operand (map (fun t => Term (sminus t) (sat sh (sbracket t)) (soperand t)) l)))
            by (rewrite map_map; apply (in_map soperand), Ht).
          rewrite elem_val, <- (HK _ Hx) by (rewrite (W _ Hx); exact Hg).
          assert (O : map (upds s (axes 0 sh) g) (bnames (axes 0 (shp (soperand t)))) = g) by (rewrite (W _ Hx); now apply own_val).
          rewrite O. destruct (sat sh (sbracket t) g); cbn [Sums.ind]; ring.
      - rewrite G. cbn [Core.eval]. rewrite sat_at by auto. f_equal. f_equal. rewrite map_map. apply map_ext_in. intros x Hx.
        rewrite elem_val, <- (HK _ Hx) by (rewrite (W _ Hx); exact Hg). f_equal. rewrite (W _ Hx). now apply own_val.
      - rewrite G. rewrite axes_app, sums_app, (eval_sums rO rI radd rmul rsub ropp Rth), axes_box. apply sum_ext. intros i Hi.
        rewrite (eval_sums rO rI radd rmul rsub ropp Rth), axes_box. apply sum_ext. intros z Hz. cbn [Core.eval].
        pose proof (box_len _ _ Hi) as Li. pose proof (box_len _ _ Hz) as Lz.
        rewrite upds_axes by exact Lg. rewrite <- app_length. rewrite upds_axes by (rewrite !app_length; lia). rewrite <- !app_assoc.
        rewrite sat_at by (auto; rewrite !app_length; lia). f_equal. rewrite elem_val, axes_middle by assumption.
        apply HK; [left; reflexivity|exact Hi].
      - rewrite G. rewrite axes_app, sums_app, (eval_sums rO rI radd rmul rsub ropp Rth), axes_box. apply sum_ext. intros i0 Hi0.
        rewrite axes_app, sums_app, (eval_sums rO rI radd rmul rsub ropp Rth), axes_box. apply sum_ext. intros i1 Hi1.
        rewrite (eval_sums rO rI radd rmul rsub ropp Rth), axes_box. apply sum_ext. intros z Hz. cbn [Core.eval].
        pose proof (box_len _ _ Hi0) as Li0. pose proof (box_len _ _ Hi1) as Li1. pose proof (box_len _ _ Hz) as Lz.
        rewrite upds_axes by exact Lg. rewrite <- app_length. rewrite upds_axes by (rewrite !app_length; lia).
        rewrite <- app_length. rewrite upds_axes by (rewrite !app_length; lia). rewrite <- !app_assoc.
        rewrite sat_at by (auto; rewrite !app_length; lia). f_equal. rewrite !elem_val. f_equal.
        + rewrite axes_middle by (rewrite ?app_length; lia). apply HK; [left; reflexivity|exact Hi0].
        + assert (M : map (upds s (axes 0 (sh ++ shp x0 ++ shp x1 ++ s')) (g ++ i0 ++ i1 ++ z)) (bnames (axes (length (sh ++ shp x0)) (shp x1))) = i1).
          { rewrite !(app_assoc sh), !(app_assoc g). apply axes_middle; rewrite ?app_length; lia. }
          rewrite M. apply HK; [right; left; reflexivity|exact Hi1].
    Qed.
  End Values.

  (** * Costs *)
  Open Scope Z_scope.
  Lemma existsb_flat_map {A B} (h : A -> list B) f l : existsb f (flat_map h l) = existsb (fun a => existsb f (h a)) l.
  Proof. induction l as [|a l IH]; [reflexivity|]. cbn [flat_map existsb]. now rewrite existsb_app, IH. Qed.
  Lemma existsb_box_app s1 : forall s2 (f : index -> bool),
    existsb f (box (s1 ++ s2)) = existsb (fun a => existsb (fun b => f (a ++ b)) (box s2)) (box s1).
  Proof.
    induction s1 as [|n s1 IH]; intros s2 f; [cbn; now rewrite orb_false_r|]. cbn [app box].
    rewrite !existsb_flat_map. apply existsb_ext. intros z _. rewrite !existsb_map. apply IH.
  Qed.
  (** n operations and the addition for each point of p, less one addition if there is a point *)
  Lemma cost_points s sh s' p (e : expr) n g : over (sh ++ s') p -> length g = length sh ->
    (forall s, cost_expr s e = n /\ reach R s e = true) ->
    cost_expr (upds s (axes 0 sh) g) (sums (axes (length sh) s') (EInd p e))
    = (n + 1) * zsum (box s') (fun zs => b2z (sat (sh ++ s') p (g ++ zs))) - b2z (existsb (fun zs => sat (sh ++ s') p (g ++ zs)) (box s')).
  Proof.
    intros H L He. rewrite cost_sums, reach_sums, axes_box.
    assert (P : forall zs, In zs (box s') -> pval R (upds (upds s (axes 0 sh) g) (axes (length sh) s') zs) p = sat (sh ++ s') p (g ++ zs)).
    { intros zs Hz. rewrite upds_axes by exact L. apply sat_at; [exact H|]. rewrite !app_length. apply box_len in Hz. lia. }
    f_equal; [|f_equal; apply existsb_ext; intros zs Hz; cbn [reach]; rewrite P by exact Hz; destruct (He (upds (upds s (axes 0 sh) g) (axes (length sh) s') zs)) as [_ ->]; now rewrite andb_true_r].
    rewrite <- zsum_scale. apply zsum_ext. intros zs Hz. cbn [Core.cost reach]. rewrite P by exact Hz.
    destruct (He (upds (upds s (axes 0 sh) g) (axes (length sh) s') zs)) as [-> ->]. destruct (sat _ p _); cbn [andb b2z]; lia.
  Qed.
  Lemma term_closed s sh t g : over sh (sbracket t) -> length g = length sh ->
    cost_expr (upds s (axes 0 sh) g) (term_expr t) = 0 /\ live R (upds s (axes 0 sh) g) (term_expr t) = sat sh (sbracket t) g.
  Proof.
    intros H L. destruct (elem_closed (upds s (axes 0 sh) g) (soperand t) 0) as [C [G _]]. unfold term_expr.
    cbn [Core.cost live guard]. rewrite C, G, sat_at by assumption. rewrite andb_true_r. split; [|reflexivity]. destruct (sat _ _ _); reflexivity.
  Qed.
  (** each term that is added meets those before it; each that is subtracted costs its points *)
  Lemma cost_plus s sh g : length g = length sh -> forall ts, (forall t, In t ts -> over sh (sbracket t)) -> forall e,
    let u := upds s (axes 0 sh) g in
    cost_expr u (fold_left (fun e t => EAdd e (term_expr t)) ts e)
    = cost_expr u e + zsum ts (fun t => b2z (sat sh (sbracket t) g)) + b2z (live R u e)
      - b2z (live R u e || existsb (fun t => sat sh (sbracket t) g) ts).
  Proof.
    intros L. induction ts as [|t ts IH]; intros H e u; cbn [fold_left zsum existsb].
    - rewrite orb_false_r. lia.
    - rewrite IH by (intros a Ha; apply H; right; exact Ha). fold u.
      destruct (term_closed s sh t g (H t (or_introl eq_refl)) L) as [C V]. fold u in C, V.
      cbn [Core.cost live]. rewrite C, V. destruct (live R u e), (sat sh (sbracket t) g); cbn [orb andb b2z]; lia.
  Qed.
  Lemma cost_minus s sh g : length g = length sh -> forall ts, (forall t, In t ts -> over sh (sbracket t)) -> forall e,
    let u := upds s (axes 0 sh) g in
    cost_expr u (fold_left (fun e t => ESub e (term_expr t)) ts e) = cost_expr u e + zsum ts (fun t => b2z (sat sh (sbracket t) g)).
  Proof.
    intros L. induction ts as [|t ts IH]; intros H e u; cbn [fold_left zsum]; [lia|].
    rewrite IH by (intros a Ha; apply H; right; exact Ha). fold u.
    destruct (term_closed s sh t g (H t (or_introl eq_refl)) L) as [C V]. fold u in C, V. cbn [Core.cost]. rewrite C, V. lia.
  Qed.

  Hypothesis leaf_cost : forall s x, cost_expr s (leaf x) = 0.
  Theorem read_cost s sh st : speaks sh st -> cost_expr s (read sh st) = cost1 (sh, meaning sh st).
  Proof.
    intros C. destruct st as [x|c|l|p f xs|s' p x|s' p x0 x1]; cbn [read meaning SSA.cost1 speaks] in *; [apply leaf_cost|..];
    rewrite cost_gens, axes_box.
    - cbn [Core.cost]. apply zsum_0.
    - rewrite zsum_map. cbn [bracket]. unfold num. rewrite zsum_swap, <- zsum_sub. apply zsum_ext. intros g Hg. apply box_len in Hg.
      unfold sum_of_terms. rewrite cost_minus, cost_plus by (auto; intros t Ht; apply filter_In in Ht; apply C, Ht).
      cbn [Core.cost nothing live guard pval aval Z.ltb Z.compare andb orb b2z].
      rewrite (zsum_filter l (fun t => negb (sminus t)) (fun t => b2z (sat sh (sbracket t) g))).
      assert (F : filter (fun a => negb (negb (sminus a))) l = filter sminus l) by (apply filter_ext; intros a; apply negb_involutive).
      rewrite F. assert (P : positive (map (fun t => Term (sminus t) (sat sh (sbracket t)) (soperand t)) l) g
                            = existsb (fun t => sat sh (sbracket t) g) (filter (fun t => negb (sminus t)) l)).
      { clear. unfold positive. induction l as [|t l IH]; [reflexivity|]. cbn [map existsb minus bracket filter]. rewrite IH.
        destruct (sminus t); reflexivity. }
      rewrite P. lia.
    - transitivity (zsum (box sh) (fun g => fcost f * b2z (sat sh p g))); [|rewrite zsum_scale; apply Z.mul_comm].
      apply zsum_ext. intros g Hg. apply box_len in Hg. cbn [Core.cost]. rewrite sat_at by assumption.
      assert (A : fold_right Z.add 0 (map (cost_expr (upds s (axes 0 sh) g)) (map (fun x => elem x 0) xs)) = 0).
      { induction xs as [|x xs IH]; [reflexivity|]. cbn [map fold_right]. rewrite IH. destruct (elem_closed (upds s (axes 0 sh) g) x 0) as [-> _]. reflexivity. }
      rewrite A. destruct (sat sh p g); cbn [b2z]; lia.
    - unfold num. rewrite <- zsum_sub. apply zsum_ext. intros g Hg. apply box_len in Hg.
      rewrite (cost_points s sh _ p _ 0) by (auto; intros u; split; apply elem_closed). unfold cnt1, ex1.
      rewrite zsum_box_app, existsb_box_app. change (0 + 1) with 1. rewrite Z.mul_1_l. reflexivity.
    - unfold num. rewrite <- zsum_scale, <- zsum_sub. apply zsum_ext. intros g Hg. apply box_len in Hg.
      rewrite (cost_points s sh _ p _ 1).
      + unfold cnt2, ex2. rewrite zsum_box_app, existsb_box_app. f_equal; [f_equal; apply zsum_ext; intros i0 _; apply zsum_box_app|].
        f_equal. apply existsb_ext. intros i0 _. apply existsb_box_app.
      + exact C.
      + exact Hg.
      + intros u. cbn [Core.cost reach]. destruct (elem_closed u x0 (length sh)) as [-> _], (elem_closed u x1 (length sh + length (shp x0))) as [-> _]. auto.
  Qed.
  Close Scope Z_scope.

  (** * Programs: a let for each statement *)
  Notation program := (list (shape * statement)).
  Definition means (S : program) : prog K fn := map (fun st => (fst st, meaning (fst st) (snd st))) S.
  Fixpoint lets (S : program) (body : expr) : expr :=
    match S with
    | [] => body
    | (sh, st) :: S' => lets S' (ELet (vname (Var (length S') sh)) (read sh st) body)
    end.
  Fixpoint speak (S : program) : Prop := match S with [] => True | (sh, st) :: S' => speaks sh st /\ speak S' end.

  Theorem lets_cost s : forall S body, speak S -> cost_expr s (lets S body) = (SSA.cost fcost (means S) + cost_expr s body)%Z.
  Proof.
    unfold SSA.cost. induction S as [|[sh st] S IH]; intros body C; [reflexivity|]. destruct C as [C1 C2].
    cbn [lets means map zsum fst snd]. rewrite IH by exact C2. cbn [Core.cost]. rewrite read_cost by exact C1. unfold means. lia.
  Qed.

  (** parameters have other names than variables *)
  Definition apart (r r' : venv) : Prop := forall y, (forall k, y <> primed "X" k) -> r' y = r y.
  Theorem lets_value r s inp E :
    (forall r' s x i, apart r r' -> In i (box (shp x)) -> run_expr r' s (leaf x) [] i = inp x i) ->
    forall S body, speak S -> wf (means S) -> solves inp E (means S) ->
    exists r', apart r r' /\ run_expr r s (lets S body) = run_expr r' s body
               /\ forall x, In x (declared (means S)) -> forall i, In i (box (shp x)) -> r' (vname x) [] i = E x i.
  Proof.
    intros LV. induction S as [|[sh st] S IH]; intros body C W So.
    - exists r. split; [intros y _; reflexivity|]. split; [reflexivity|intros x []].
    - destruct C as [C1 C2]. cbn [means map fst snd wf SSA.solves declared lets] in *. destruct W as [HD [Wp W]], So as [H1 H2].
      fold (means S) in *. assert (LS : length (means S) = length S) by apply map_length. rewrite LS in *.
      destruct (IH (ELet (vname (Var (length S) sh)) (read sh st) body) C2 W H2) as [r1 [A [EQ V]]].
      set (X := vname (Var (length S) sh)) in *. exists (upd r1 X (run_expr r1 s (read sh st))). split; [|split].
      + intros y Hy. rewrite upd_other by (intros <-; exact (Hy _ eq_refl)). apply A, Hy.
      + rewrite EQ. reflexivity.
      + intros x [<-|Hx] i Hi.
        * fold X. rewrite upd_same, H1 by exact Hi. apply (read_value r1 inp E); auto.
          intros y Hy. apply V, HD, Hy.
        * rewrite upd_other; [apply V; assumption|]. intros EX. apply primed_inj in EX; [|reflexivity].
          apply declared_name in Hx. rewrite LS in Hx. cbn in EX. lia.
  Qed.
End Bridge.
