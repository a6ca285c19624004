(** Fig. 12: operations become tensor SSA: 5.31 to 5.34. *)
Require Import String List Bool ZArith Ring Lia Arith.
Import ListNotations.
Require Import TL.Sums TL.Boxes TL.Core TL.Free TL.Subst TL.Translation.
Open Scope list_scope.

Section Operations.
  Context {K : Type} (rO rI : K) (radd rmul rsub : K -> K -> K) (ropp : K -> K).
  Hypothesis Rth : ring_theory rO rI radd rmul rsub ropp eq.
  Add Ring KRingOperations : Rth.
  Notation sum := (sum rO radd).
  Notation ind := (ind rO).
  Context {fn : Type} (fval : fn -> list K -> K) (fcost : fn -> Z) (R : data).
  Notation expr := (@expr K fn).
  Notation eval := (eval rO radd rmul rsub fval R).
  Notation cost := (cost fcost R).
  Notation guard := (guard R). Notation live := (live R). Notation reach := (reach R).
  Notation eval_gens := (eval_gens rO radd rmul rsub fval R).
  Notation eval_sums := (eval_sums rO rI radd rmul rsub ropp Rth fval R).
  Notation eval_at := (eval_at rO radd rmul rsub fval R).
  Notation translates := (translates rO radd rmul rsub fval fcost R).
  Notation means_at := (means_at rO radd rmul rsub fval fcost R).
  Notation means_scalar := (means_scalar rO radd rmul rsub fval fcost R).
  Notation costs := (costs rO radd rmul rsub fval fcost R).
  Notation costs_at := (costs_at rO radd rmul rsub fval fcost R).
  Notation point_value := (point_value rO rI radd rmul rsub ropp Rth fval R).
  Notation copy_means := (copy_means rO rI radd rmul rsub ropp Rth fval R).
  Notation read x bs := (@at_ K fn (EVar x) bs).
  Implicit Types e t : expr.

  (** what [live] says, as a predicate: the p of an operand [p]*e, true without a bracket *)
  Fixpoint guards e : prd := match e with EInd p a => PAnd p (guards a) | _ => PTrue end.
  Fixpoint lives e : prd := match e with EAdd a b | ESub a b => POr (lives a) (lives b) | _ => guards e end.
  Lemma guards_val s e : pval R s (guards e) = guard s e.
  Proof. induction e; cbn [guards Core.guard pval]; auto. now rewrite IHe. Qed.
  Lemma lives_val s e : pval R s (lives e) = live s e.
  Proof. induction e; cbn [lives Core.live pval]; auto; try (now rewrite IHe1, IHe2). exact (guards_val s (EInd p e)).
    Qed.

  Lemma read_0 r s X0 t0 X1 t1 w : X0 <> X1 ->
    upd (upd r X0 (eval r s t0)) X1 (eval (upd r X0 (eval r s t0)) s t1) X0 [] w = eval r s t0 [] w.
  Proof. intros D. rewrite upd_other by congruence. now rewrite upd_same. Qed.
  Lemma read_1 r s X0 t0 X1 t1 w : ~ In X0 (efv t1) ->
    upd (upd r X0 (eval r s t0)) X1 (eval (upd r X0 (eval r s t0)) s t1) X1 [] w = eval r s t1 [] w.
  Proof. intros N. rewrite upd_same. now apply eval_weaken. Qed.

  (** an operand read where p holds and it is alive *)
  Lemma operand_value G is p e t r r' s zs : translates G (PAnd p (lives e)) is p [] e t -> same_in G r r' ->
    In zs (bbox is) ->
    ind (pval R (upds s is zs) (PAnd p (lives e))) (eval r' s t [] zs) =
      ind (pval R (upds s is zs) p) (eval r (upds s is zs) e [] []).
  Proof.
    intros T E Hz. cbn [pval]. rewrite lives_val. destruct (pval R (upds s is zs) p) eqn:P; [|reflexivity].
    destruct (live (upds s is zs) e) eqn:L; cbn [andb Sums.ind].
    - rewrite (means_scalar _ _ _ _ _ _ r r' s zs T E Hz); [now rewrite P|]. cbn [pval]. now rewrite lives_val, P, L.
    - symmetry. now apply (eval_dead rO rI radd rmul rsub ropp Rth fval R).
  Qed.

  (** 5.31, addition: S(i, p, [p0]*e0 + [p1]*e1)  ->  X0 = S(i, p and p0, e0);  X1 = S(i, p and p1, e1);
        gen i. [p and p0]*X0[i] + [p and p1]*X1[i]
      X0 is S(i, p, [p0]*e0), by 5.28.  An operand that is an addition itself is read where one of its terms is.
      Subtraction alike. *)
  Definition term p e X is : expr := <{ [PAnd p (lives e)] * {read X is} }>.
  Theorem rule_5_31 G m is p e0 e1 t0 t1 X0 X1 : NoDup (bnames is) -> X0 <> X1 -> ~ In X0 (efv t1) ->
    translates G (PAnd p (lives e0)) is p [] e0 t0 -> translates G (PAnd p (lives e1)) is p [] e1 t1 ->
    translates G m is p [] <{ e0 + e1 }> <{ let X0 := t0 in let X1 := t1 in GEN is,
      {term p e0 X0 is} + {term p e1 X1 is} }> /\
    translates G m is p [] <{ e0 - e1 }> <{ let X0 := t0 in let X1 := t1 in GEN is,
      {term p e0 X0 is} - {term p e1 X1 is} }>.
  Proof.
    intros N D Nx T0 T1. split; split.
    1, 3: intros r r' s zs w E Hz Hm Hw; apply box_nil in Hw; subst w; unfold term; cbn [Core.eval];
      rewrite !eval_gens by assumption;
      cbn [Core.eval]; rewrite !read_at, upds_vals, app_nil_r by (auto; eapply bbox_length; eassumption);
      rewrite read_0, read_1, !(operand_value G is p _ _ r r') by assumption; destruct (pval R (upds s is zs) p);
        cbn [Sums.ind]; ring.
    all: intros s; pose proof (costs_at _ _ _ _ _ _ _ s T0) as C0; pose proof (costs_at _ _ _ _ _ _ _ s T1) as C1;
      cbn [Core.cost]; rewrite !cost_gens.
    - assert (Z : forall zs, In zs (bbox is) -> (cost (upds s is zs) (EAdd (term p e0 X0 is) (term p e1 X1 is))
        = b2z (pval R (upds s is zs) p && live (upds s is zs) e0 && live (upds s is zs) e1))%Z).
      { intros zs _. cbn [term Core.cost Core.live Core.guard pval]. rewrite !cost_at, !guard_at, !lives_val.
        cbn [Core.cost].
        destruct (pval R _ p), (live _ e0), (live _ e1); reflexivity. }
      rewrite (zsum_ext _ _ _ Z).
      replace (zsum (bbox is) (fun zs => cost (upds s is zs) (EInd p (EAdd e0 e1)))) with
        (zsum (bbox is) (fun zs => if pval R (upds s is zs) p then cost (upds s is zs) e0 else 0) +
         zsum (bbox is) (fun zs => if pval R (upds s is zs) p then cost (upds s is zs) e1 else 0) +
         zsum (bbox is) (fun zs => b2z (pval R (upds s is zs) p && live (upds s is zs) e0 && live (upds s is zs)
           e1)))%Z; [lia|].
      rewrite <- !zsum_add. apply zsum_ext. intros zs _. cbn [Core.cost]. destruct (pval R _ p); cbn [andb b2z]; lia.
    - assert (Z : forall zs, In zs (bbox is) -> (cost (upds s is zs) (ESub (term p e0 X0 is) (term p e1 X1 is))
        = b2z (pval R (upds s is zs) p && live (upds s is zs) e1))%Z).
      { intros zs _. cbn [term Core.cost Core.live Core.guard pval]. rewrite !cost_at, !guard_at, !lives_val.
        cbn [Core.cost].
        destruct (pval R _ p), (live _ e0), (live _ e1); reflexivity. }
      rewrite (zsum_ext _ _ _ Z).
      replace (zsum (bbox is) (fun zs => cost (upds s is zs) (EInd p (ESub e0 e1)))) with
        (zsum (bbox is) (fun zs => if pval R (upds s is zs) p then cost (upds s is zs) e0 else 0) +
         zsum (bbox is) (fun zs => if pval R (upds s is zs) p then cost (upds s is zs) e1 else 0) +
         zsum (bbox is) (fun zs => b2z (pval R (upds s is zs) p && live (upds s is zs) e1)))%Z; [lia|].
      rewrite <- !zsum_add. apply zsum_ext. intros zs _. cbn [Core.cost]. destruct (pval R _ p); cbn [andb b2z]; lia.
  Qed.

  (** a factor of a product: an array, read at the indices l; or a number *)
  Inductive factor G (is : binders) p e t : binders -> list aff -> Prop :=
  | an_array js : translates G p is p [] e t -> bsizes js = bsizes is -> factor G is p e t js (map AVar (bnames is))
  | a_number c : e = ECst c -> t = ECst c -> factor G is p e t [] [].
  Lemma factor_fits G is p e t js l s zs : NoDup (bnames is) -> In zs (bbox is) -> factor G is p e t js l ->
    length l = length js /\ In (map (aval R (upds s is zs)) l) (bbox js) /\ (forall i, In i (flat_map afv l) ->
      In i (bnames is)).
  Proof.
    intros N Hz [js' T S|c _ _]; [|split; [reflexivity|split; [left; reflexivity|intros i []]]].
    assert (L : length js' = length is) by (rewrite <- (map_length snd js'), <- (map_length snd is);
      unfold bsizes in S; congruence).
    rewrite upds_at, afv_vars by assumption. repeat split; auto.
    - unfold bnames. rewrite !map_length. auto.
    - unfold bbox in *. now rewrite S.
  Qed.
  Lemma factor_value G is p e t js l r r' s zs : NoDup (bnames is) -> factor G is p e t js l -> same_in G r r' ->
    In zs (bbox is) ->
    pval R (upds s is zs) p = true -> eval r' s t [] (map (aval R (upds s is zs)) l) = eval r (upds s is zs) e [] [].
  Proof.
    intros N [js' T S|c -> ->] E Hz P; [|reflexivity]. rewrite upds_at by assumption.
    rewrite (means_scalar _ _ _ _ _ _ r r' s zs T E Hz P). now rewrite P.
  Qed.
  Lemma factor_cost G is p e t js l s : factor G is p e t js l ->
    (cost s t <= zsum (bbox is) (fun zs => if pval R (upds s is zs) p then cost (upds s is zs) e else 0))%Z.
  Proof.
    intros [js' T S|c -> ->]; [now apply (costs_at _ _ _ _ _ _ _ s T)|]. cbn [Core.cost]. apply zsum_nonneg.
    intros zs _. destruct (pval R _ p); lia.
  Qed.

  (** 5.32, product: S(i, p, e0*e1)  ->  X0 = S(i, p, e0);  X1 = S(i, p, e1);
        gen i. sum j0, j1. [p and j0 = i and j1 = i]*X0[j0]*X1[j1];  a factor that is a number stays one *)
  Theorem rule_5_32 G m is p e0 e1 t0 t1 X0 X1 j0 l0 j1 l1 : NoDup (bnames is) -> X0 <> X1 -> ~ In X0 (efv t1) ->
    factor G is p e0 t0 j0 l0 -> factor G is p e1 t1 j1 l1 -> fresh (j0 ++ j1) (pfv p ++ bnames is) ->
    translates G m is p [] <{ e0 * e1 }> <{ let X0 := t0 in let X1 := t1 in
      GEN is, SUM (j0 ++ j1), [PAnd p (eqs (bnames (j0 ++ j1)) (l0 ++ l1))] * {read X0 j0} * {read X1 j1} }>.
  Proof.
    intros N D Nx F0 F1 F.
    assert (Q : forall s zs, In zs (bbox is) -> length (l0 ++ l1) = length (j0 ++ j1) /\
      In (map (aval R (upds s is zs)) (l0 ++ l1)) (bbox (j0 ++ j1)) /\
        fresh (j0 ++ j1) (pfv p ++ flat_map afv (l0 ++ l1))).
    { intros s zs Hz. destruct (factor_fits _ _ _ _ _ _ _ s zs N Hz F0) as (A0 & B0 & C0).
      destruct (factor_fits _ _ _ _ _ _ _ s zs N Hz F1) as (A1 & B1 & C1). repeat split.
      - rewrite !app_length. lia.
      - unfold bbox, bsizes. rewrite !map_app. apply box_app; [|split; assumption]. rewrite !map_length. exact A0.
      - apply F.
      - intros j Hj H. apply (proj2 F j Hj). rewrite flat_map_app in H. rewrite !in_app_iff in *. intuition. }
    split.
    - intros r r' s zs w E Hz Hm Hw. apply box_nil in Hw. subst w. destruct (Q s zs Hz) as (L & B & Fr).
      cbn [Core.eval]. rewrite !eval_gens by assumption. rewrite point_value by auto. cbn [Core.eval].
      destruct (pval R (upds s is zs) p) eqn:P; [|reflexivity]. cbn [Sums.ind].
      destruct (factor_fits _ _ _ _ _ _ _ s zs N Hz F0) as (A0 & B0 & _).
      set (v := map (aval R (upds s is zs)) (l0 ++ l1)).
        assert (Ev : v = map (aval R (upds s is zs)) l0 ++ map (aval R (upds s is zs)) l1) by apply map_app.
      assert (V : map (upds (upds s is zs) (j0 ++ j1) v) (bnames (j0 ++ j1)) = v)
        by (apply upds_vals; [apply F|unfold v; rewrite map_length; exact L]).
      set (u := upds (upds s is zs) (j0 ++ j1) v) in *. unfold bnames in V. rewrite !map_app, Ev in V. clearbody u v.
      apply app_inj_length in V; [|now rewrite !map_length]. destruct V as [V0 V1].
      rewrite !read_at, !app_nil_r. unfold bnames. rewrite V0, V1, read_0, read_1 by assumption.
      now rewrite (factor_value _ _ _ _ _ _ _ r r' s zs N F0 E Hz P),
        (factor_value _ _ _ _ _ _ _ r r' s zs N F1 E Hz P).
    - intros s. pose proof (factor_cost _ _ _ _ _ _ _ s F0) as C0. pose proof (factor_cost _ _ _ _ _ _ _ s F1) as C1.
      cbn [Core.cost]. rewrite !cost_gens.
      rewrite (zsum_ext (bbox is) (fun zs => cost (upds s is zs) (sums _ _)) (fun zs => b2z (pval R (upds s is zs) p))).
      2:{ intros zs Hz. destruct (Q s zs Hz) as (L & B & Fr). rewrite point_cost by auto. cbn [Core.cost].
        rewrite !cost_at. cbn [Core.cost].
          destruct (pval R _ p); reflexivity. }
      replace (zsum (bbox is) (fun zs => cost (upds s is zs) (EInd p (EMul e0 e1)))) with
        (zsum (bbox is) (fun zs => b2z (pval R (upds s is zs) p)) +
         zsum (bbox is) (fun zs => if pval R (upds s is zs) p then cost (upds s is zs) e0 else 0) +
         zsum (bbox is) (fun zs => if pval R (upds s is zs) p then cost (upds s is zs) e1 else 0))%Z; [lia|].
      rewrite <- !zsum_add. apply zsum_ext. intros zs _. cbn [Core.cost]. destruct (pval R _ p); cbn [b2z]; lia.
  Qed.

  (** ** Scalar functions *)
  Fixpoint lets (l : list (string * expr)) b : expr := match l with [] => b | (X, t) :: l' => ELet X t (lets l' b) end.
  Fixpoint bound (r : @venv K) s (l : list (string * expr)) : @venv K :=
    match l with [] => r | (X, t) :: l' => bound (upd r X (eval r s t)) s l' end.
  Lemma eval_lets s b d w : forall l r, eval r s (lets l b) d w = eval (bound r s l) s b d w.
  Proof. induction l as [|[X t] l IH]; intros r; [reflexivity|]. cbn [lets Core.eval bound]. apply IH. Qed.
  Lemma cost_lets s b l : (cost s (lets l b) = fold_right Z.add 0 (map (fun q => cost s (snd q)) l) + cost s b)%Z.
  Proof. induction l as [|[X t] l IH]; cbn [lets Core.cost map fold_right snd]; lia. Qed.
  Lemma bound_other s X : forall l r, ~ In X (map fst l) -> bound r s l X = r X.
  Proof.
    induction l as [|[Y t] l IH]; intros r N; [reflexivity|]. cbn [bound].
      rewrite IH by (intros H; apply N; right; exact H).
    apply upd_other. intros ->. apply N. left. reflexivity.
  Qed.
  (** every argument has a translation, and no name is used twice *)
  Fixpoint arguments G is p (es : list expr) (l : list (string * expr)) : Prop :=
    match es, l with
    | [], [] => True
    | e :: es', (X, t) :: l' => translates G p is p [] e t /\ ~ In X (map fst l') /\
      ~ In X (flat_map efv (map snd l')) /\ arguments G is p es' l'
    | _, _ => False
    end.
  Lemma arguments_ext G is p r r1 r' s zs : In zs (bbox is) -> pval R (upds s is zs) p = true -> same_in G r r' ->
    forall es l, arguments G is p es l -> same_vals (flat_map efv (map snd l)) r1 r' ->
    map (fun X => bound r1 s l X [] zs) (map fst l) = map (fun e => eval r (upds s is zs) e [] []) es.
  Proof.
    intros Hz P E. intros es l. revert es r1. induction l as [|[X t] l IH]; intros [|e es] r1 A S;
      cbn [arguments] in A; try contradiction; [reflexivity|].
    destruct A as (T & Nx & Nf & A). cbn [map fst bound flat_map snd] in *. f_equal.
    - rewrite bound_other, upd_same by assumption.
      rewrite (eval_ext _ _ _ _ _ _ t r1 r' s s) by (eauto using agree_refl, same_vals_l).
      rewrite (means_scalar _ _ _ _ _ _ r r' s zs T E Hz P). now rewrite P.
    - apply IH; [assumption|]. intros y Hy d w. rewrite upd_other; [apply (same_vals_r _ _ _ _ S y Hy)|]. intros ->.
      contradiction.
  Qed.

  (** 5.33, scalar function: S(i, p, f(e..))  ->  Xk = S(i, p, ek);  gen i. [p]*f(X0[i], ..) *)
  Theorem rule_5_33 G m is p f es l : NoDup (bnames is) -> arguments G is p es l ->
    translates G m is p [] (EFn f es) (lets l <{ GEN is, [p] * {EFn f (map (fun X => read X is) (map fst l))} }>).
  Proof.
    intros N A. split.
    - intros r r' s zs w E Hz Hm Hw. apply box_nil in Hw. subst w. rewrite eval_lets, !eval_gens by assumption.
      cbn [Core.eval].
      destruct (pval R (upds s is zs) p) eqn:P; [|reflexivity]. cbn [Sums.ind]. f_equal. rewrite map_map.
      rewrite <- (arguments_ext _ _ _ r r' r' s zs Hz P E es l A (same_vals_refl _ _)).
      apply map_ext. intros X. now rewrite read_at, app_nil_r, upds_vals by (auto; eapply bbox_length; eassumption).
    - intros s. rewrite cost_lets, !cost_gens.
      assert (Z : forall zs, In zs (bbox is) -> (cost (upds s is zs) (EInd p (EFn f (map (fun X => read X is) (map fst
        l))))
        = if pval R (upds s is zs) p then fcost f else 0)%Z).
      { intros zs _. cbn [Core.cost]. destruct (pval R _ p); [|reflexivity]. rewrite map_map.
        induction (map fst l) as [|X k IH]; cbn [map fold_right]; [lia|]. rewrite cost_at. cbn [Core.cost]. lia. }
      rewrite (zsum_ext _ _ _ Z). clear Z.
      assert (C : (fold_right Z.add 0 (map (fun q => cost s (snd q)) l) <=
        zsum (bbox is) (fun zs => if pval R (upds s is zs) p then fold_right Z.add 0 (map (cost (upds s is zs)) es)
          else 0))%Z).
      { revert es A. induction l as [|[X t] l IH]; intros [|e es] A; cbn [arguments] in A; try contradiction.
        - cbn [map fold_right]. apply zsum_nonneg. intros zs _. destruct (pval R _ p); lia.
        - destruct A as (T & _ & _ & A). specialize (IH es A). pose proof (costs_at _ _ _ _ _ _ _ s T) as C.
          cbn [map fold_right snd].
          eapply Z.le_trans; [apply Z.add_le_mono; [exact C|exact IH]|]. rewrite <- zsum_add. apply zsum_le.
            intros zs _.
          destruct (pval R _ p); lia. }
      eapply Z.le_trans; [apply Z.add_le_mono_r; exact C|]. rewrite <- zsum_add. apply zsum_le. intros zs _.
        cbn [Core.cost].
      destruct (pval R _ p); lia.
  Qed.

  (** 5.34, sum: S(i, p, sum j..k. [q]*e)  ->  X = S(i j..k, p and q, e);
        gen i. sum i', j..k. [p and q and i' = i]*X[i', j..k]
      All directly nested sums at once, their brackets merged (5.24'): e is neither a sum nor a bracket. *)
  Definition summed X p q is is' js : expr :=
    <{ GEN is, SUM is', SUM js, [PAnd (PAnd p q) (diagonal is' is)] * {read X (is' ++ js)} }>.
  Section Rule_5_34.
    Variables (p q : prd) (is is' js : binders) (s : ienv) (zs : list Z).
    Hypotheses (N : NoDup (bnames is)) (F : fresh is' (pfv p ++ pfv q ++ bnames is ++
      bnames js)) (S : bsizes is' = bsizes is)
      (Fj : fresh js (pfv p ++ bnames is)) (Hz : In zs (bbox is)).
    Context (ys ws : list Z) (Hy : In ys (bbox is')) (Hw : In ws (bbox js)).
    Let u := upds (upds (upds s is zs) is' ys) js ws.
    Lemma sum_pred : pval R u (PAnd (PAnd p q) (diagonal is' is))
      = leqb zs ys && (pval R (upds s is zs) p && pval R (upds (upds s is zs) js ws) q).
    Proof.
      destruct F as [_ D], Fj as [_ Dj].
      assert (Lz := bbox_length _ _ Hz). assert (Ly := bbox_length _ _ Hy). assert (Lw := bbox_length _ _ Hw).
      cbn [pval]. rewrite andb_comm. f_equal; [|f_equal].
      - unfold diagonal. rewrite eqs_val.
        2:{ unfold bnames. rewrite !map_length. pose proof (f_equal (@length nat) S) as L. unfold bsizes in L.
          now rewrite !map_length in L. }
        rewrite map_map. cbn [aval]. rewrite leqb_sym. f_equal.
        + transitivity (map (upds s is zs) (bnames is)); [|now apply upds_vals]. apply map_ext_in. intros i Hi.
          unfold u.
          rewrite (upds_other js), (upds_other is'); [reflexivity|..].
          * intros H. apply (D i H). rewrite !in_app_iff. auto.
          * intros H. apply (Dj i H). rewrite in_app_iff. auto.
        + transitivity (map (upds (upds s is zs) is' ys) (bnames is')); [|apply upds_vals; [apply F|exact Ly]].
          apply map_ext_in. intros i Hi. unfold u. apply upds_other.
          intros H. apply (D i Hi). rewrite !in_app_iff. auto.
      - apply pval_ext. unfold u. eapply agree_trans; apply upds_agree; intros i Hi Hp.
        + apply (Dj i Hi). rewrite in_app_iff. auto.
        + apply (D i Hi). rewrite !in_app_iff. auto.
      - apply pval_ext. unfold u. apply upds_ext; [assumption|]. intros i Hi _. apply upds_other. intros H.
        apply (D i H).
        rewrite !in_app_iff. auto.
    Qed.
    Lemma sum_read r X w : eval r u (read X (is' ++ js)) [] w = r X [] (ys ++ ws ++ w).
    Proof.
      assert (Ly := bbox_length _ _ Hy). assert (Lw := bbox_length _ _ Hw).
      rewrite read_at. unfold u. rewrite <- upds_app by assumption. rewrite app_assoc. do 2 f_equal.
      apply upds_vals; [|rewrite !app_length; lia]. unfold bnames. rewrite map_app.
        apply nodup_app; [apply F|apply Fj|].
      intros i Hi Hj. destruct F as [_ D]. apply (D i Hi). rewrite !in_app_iff. auto.
    Qed.
  End Rule_5_34.

  Theorem rule_5_34 G m is is' js p q e t X : NoDup (bnames is) -> bsizes is' = bsizes is ->
    fresh js (pfv p ++ bnames is) -> fresh is' (pfv p ++ pfv q ++ bnames is ++ bnames js) ->
      (forall s, reach s e = true) ->
    translates G (PAnd p q) (is ++ js) (PAnd p q) [] e t ->
    translates G m is p [] <{ SUM js, [q] * e }> <{ let X := t in {summed X p q is is' js} }>.
  Proof.
    intros N S Fj F Re T.
    assert (Pp : forall s zs ws, pval R (upds (upds s is zs) js ws) p = pval R (upds s is zs) p).
    { intros s zs ws. apply pval_ext, upds_agree. intros i Hi Hp. apply (proj2 Fj i Hi). rewrite in_app_iff. auto. }
    assert (Bx : bbox is' = bbox is) by (unfold bbox; now rewrite S).
    assert (Bj : forall zs ws, In zs (bbox is) -> In ws (bbox js) -> In (zs ++ ws) (bbox (is ++ js))).
    { intros zs ws Hz Hw. unfold bbox, bsizes. rewrite map_app. apply box_app; [|split; assumption].
      rewrite map_length. eapply bbox_length; eassumption. }
    split.
    - intros r r' s zs w E Hz Hm Hw. apply box_nil in Hw. subst w. cbn [Core.eval]. unfold summed.
      rewrite !eval_gens by assumption.
      cbn [Core.eval]. rewrite !eval_sums, Bx, (ind_sum _ _ _ _ _ _ Rth).
      transitivity (sum (bbox is) (fun ys => ind (leqb zs ys) (sum (bbox js) (fun ws =>
        ind (pval R (upds s is zs) p) (eval r (upds (upds s is zs) js ws) (EInd q e) [] []))))).
      + apply sum_ext. intros ys Hy. rewrite eval_sums, (ind_sum _ _ _ _ _ _ Rth). apply sum_ext. intros ws Hws.
        cbn [Core.eval]. rewrite sum_pred by (auto; now rewrite Bx). rewrite ind_and.
          rewrite (sum_read p q is is' js s zs) by (auto; now rewrite Bx).
        destruct (leqb zs ys) eqn:Ez; [|reflexivity]. apply leqb_eq in Ez. subst ys. cbn [Sums.ind].
          rewrite upd_same, app_nil_r, ind_and.
        destruct (pval R (upds s is zs) p) eqn:P; [|reflexivity]. cbn [Sums.ind].
        destruct (pval R (upds (upds s is zs) js ws) q) eqn:Q; [|reflexivity]. cbn [Sums.ind].
        assert (Lz := bbox_length _ _ Hz). assert (U : pval R (upds s (is ++ js) (zs ++ ws)) (PAnd p q) = true)
          by (rewrite upds_app by assumption; cbn [pval]; now rewrite Pp, P, Q).
        rewrite (means_scalar _ _ _ _ _ _ r r' s (zs ++ ws) T E (Bj _ _ Hz Hws) U), U.
          now rewrite upds_app by assumption.
      + apply (sum_point _ _ _ _ _ _ Rth leqb (bbox is) zs (fun _ => _)); [apply leqb_eq|apply box_nodup|assumption].
    - intros s. pose proof (costs_at _ _ _ _ _ _ _ s T) as C. cbn [Core.cost]. unfold summed. rewrite !cost_gens.
      set (points := fun zs => zsum (bbox js) (fun ws => b2z (pval R (upds s is zs) p && pval R (upds (upds s is zs) js
        ws) q))).
      set (some := fun zs => existsb (fun ws => pval R (upds s is zs) p && pval R (upds (upds s is zs) js ws) q) (bbox
        js)).
      assert (A : forall zs, In zs (bbox is) -> (cost (upds s is zs) (sums is' (sums js
          (EInd (PAnd (PAnd p q) (diagonal is' is)) (read X (is' ++ js))))) = points zs - b2z (some zs))%Z).
      { intros zs Hz. rewrite cost_sums, reach_sums, Bx.
        rewrite (existsb_ext _ (fun ys : list Z => leqb zs ys && some zs)).
        2:{ intros ys Hy. rewrite reach_sums. unfold some. destruct (leqb zs ys) eqn:Ez; cbn [andb].
            - apply existsb_ext. intros ws Hws. cbn [Core.reach]. rewrite sum_pred by (auto; now rewrite Bx).
              now rewrite Ez, reach_at, andb_true_r.
            - rewrite (existsb_ext _ (fun _ => false)); [apply existsb_false|]. intros ws Hws. cbn [Core.reach].
              rewrite sum_pred by (auto; now rewrite Bx). now rewrite Ez. }
        rewrite (zsum_ext _ _ (fun ys => if leqb zs ys then points zs else 0%Z)).
        2:{ intros ys Hy. rewrite cost_sums, Z.sub_add. unfold points. destruct (leqb zs ys) eqn:Ez.
            - apply zsum_ext. intros ws Hws. cbn [Core.cost Core.reach]. rewrite sum_pred by (auto; now rewrite Bx).
              rewrite Ez, cost_at, reach_at, andb_true_r. cbn [andb Core.cost]. destruct (pval R _ p && _); reflexivity.
            - transitivity (zsum (bbox js) (fun _ => 0%Z)); [|apply zsum_0]. apply zsum_ext. intros ws Hws.
              cbn [Core.cost Core.reach]. rewrite sum_pred by (auto; now rewrite Bx). now rewrite Ez. }
        rewrite (zsum_point leqb (bbox is) zs (fun _ => points zs)) by (auto using leqb_eq; apply box_nodup).
        do 2 f_equal. destruct (some zs); [|rewrite (existsb_ext _ (fun _ => false)); [apply existsb_false|intros;
          apply andb_false_r]].
        apply existsb_exists. exists zs. split; [assumption|]. now rewrite leqb_refl. }
      rewrite (zsum_ext _ _ _ A). clear A.
      assert (B : forall zs, In zs (bbox is) -> (cost (upds s is zs) (EInd p (sums js (EInd q e)))
        = zsum (bbox js) (fun ws => if pval R (upds (upds s is zs) js ws) (PAnd p q) then cost (upds (upds s is zs) js
          ws) e else 0)
          + (points zs - b2z (some zs)))%Z).
      { intros zs Hz. cbn [Core.cost]. unfold points, some. destruct (pval R (upds s is zs) p) eqn:P.
        - rewrite cost_sums, reach_sums, Z.add_sub_assoc, <- zsum_add. f_equal.
          + apply zsum_ext. intros ws _. cbn [Core.cost Core.reach pval]. rewrite Pp, P, Re, andb_true_r. reflexivity.
          + f_equal. apply existsb_ext. intros ws _. cbn [Core.reach]. now rewrite Re, andb_true_r.
        - cbn [andb]. rewrite existsb_false, zsum_0. rewrite (zsum_ext _ _ (fun _ => 0%Z)), zsum_0; [reflexivity|].
          intros ws _. cbn [pval]. now rewrite Pp, P. }
      rewrite (zsum_ext (bbox is) (fun zs => cost (upds s is zs) (EInd p (sums js (EInd q e)))) _ B). clear B.
        rewrite zsum_add.
      unfold bbox, bsizes in C. rewrite map_app, zsum_box_app in C.
      apply Z.add_le_mono_r. eapply Z.le_trans; [exact C|]. apply zsum_le. intros zs Hz. apply zsum_le. intros ws Hws.
      rewrite upds_app by (eapply bbox_length; exact Hz). lia.
  Qed.

  (** without a bracket *)
  Theorem rule_5_34_plain G m is p js e t :
    translates G m is p [] <{ SUM js, [PTrue] * e }> t -> translates G m is p [] <{ SUM js, e }> t.
  Proof.
    intros [M C]. split.
    - intros r r' s zs w E Hz Hm Hw. rewrite (M r r') by assumption. rewrite !eval_gens by assumption. cbn [Core.eval].
      rewrite !eval_sums. reflexivity.
    - intros s. eapply Z.le_trans; [apply C|]. rewrite !cost_gens. apply zsum_le. intros zs _. cbn [Core.cost].
      destruct (pval R _ p); [|lia]. rewrite !cost_sums, !reach_sums. cbn [Core.cost Core.reach pval andb]. lia.
  Qed.
End Operations.
