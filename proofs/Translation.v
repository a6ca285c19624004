(** Figs. 11 and 12: from flattened tensor code to tensor SSA (tensorlang/normal/to_ssa.py).

    S(i, p, e) stands for a translation of gen i. [p]*e.
      Here it is a relation: [translates G m is p sh e t] says that t
    is such a translation, for a reader that reads it only where m holds.
      Each rule makes a translation of an expression
    from translations of its parts, so what the rules derive together means what the program means and costs no more.
    The rules are in ToSSA.v and Operations.v. *)
Require Import String List Bool ZArith Ring Lia Arith.
Import ListNotations.
Require Import TL.Sums TL.Boxes TL.Core TL.Free TL.Subst.
Open Scope list_scope.

(** i0 = a0 and i1 = a1 and .. *)
Fixpoint eqs (is : list ix) (l : list aff) : prd :=
  match is, l with
  | i :: is', a :: l' => PAnd (PEq (AVar i) a) (eqs is' l')
  | _, _ => PTrue
  end.
Lemma eqs_val R s is : forall l, length is = length l -> pval R s (eqs is l) = leqb (map s is) (map (aval R s) l).
Proof. induction is as [|i is IH]; intros [|a l] L; simpl in *; try discriminate; auto. rewrite IH by congruence.
  reflexivity. Qed.
Lemma leqb_sym a : forall b, leqb a b = leqb b a.
Proof. induction a as [|x a IH]; intros [|y b]; simpl; auto. now rewrite Z.eqb_sym, IH. Qed.
Lemma leqb_refl a : leqb a a = true.
Proof. now apply leqb_eq. Qed.
Lemma existsb_false {A} (l : list A) : existsb (fun _ => false) l = false.
Proof. induction l; auto. Qed.
Lemma app_inj_length {A} (a : list A) : forall a' b b', a ++ b = a' ++ b' -> length a = length a' -> a = a' /\ b = b'.
Proof.
  induction a as [|x a IH]; intros [|x' a'] b b' E L; try discriminate; [auto|]. inversion E; subst.
  destruct (IH a' b b') as [-> ->]; auto.
Qed.
(** i = j *)
Definition diagonal (is js : binders) : prd := eqs (bnames is) (map AVar (bnames js)).
(** the indices js are new: they are not those of [others] *)
Definition fresh (js : binders) (others : list ix) := NoDup (bnames js) /\ forall j, In j (bnames js) -> ~ In j others.

Section Translation.
  Context {K : Type} (rO rI : K) (radd rmul rsub : K -> K -> K) (ropp : K -> K).
  Hypothesis Rth : ring_theory rO rI radd rmul rsub ropp eq.
  Add Ring KRing6 : Rth.
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
  Implicit Types e t : expr.

  (** * Translations
      The arrays that variables (after a path of projections) hold have shapes; beyond them nothing is read. *)
  Definition shapes := string -> list bool -> option shape.
  Definition same_in (G : shapes) (r r' : @venv K) :=
    forall x d sh w, G x d = Some sh -> In w (box sh) -> r' x d w = r x d w.
  Record translates (G : shapes) (m : prd) (is : binders) (p : prd) (sh : shape) (e t : expr) : Prop := {
    means : forall r r' s zs w, same_in G r r' -> In zs (bbox is) -> pval R (upds s is zs) m = true -> In w (box sh) ->
      eval r' s t [] (zs ++ w) = eval r s (gens is (EInd p e)) [] (zs ++ w);
    costs : forall s, (cost s t <= cost s (gens is (EInd p e)))%Z }.

  Lemma means_at G m is p sh e t r r' s zs w : translates G m is p sh e t ->
    same_in G r r' -> In zs (bbox is) -> pval R (upds s is zs) m = true -> In w (box sh) ->
    eval r' s t [] (zs ++ w) = ind (pval R (upds s is zs) p) (eval r (upds s is zs) e [] w).
  Proof. intros T E Hz Hm Hw. rewrite (means _ _ _ _ _ _ _ T r r') by assumption. now rewrite eval_gens. Qed.
  Lemma costs_at G m is p sh e t s : translates G m is p sh e t ->
    (cost s t <= zsum (bbox is) (fun zs => if pval R (upds s is zs) p then cost (upds s is zs) e else 0))%Z.
  Proof. intros T. pose proof (costs _ _ _ _ _ _ _ T s) as C. rewrite cost_gens in C. exact C. Qed.

  (** who reads less is content with more *)
  Lemma translates_less G m m' is p sh e t : (forall s, pval R s m' = true -> pval R s m = true) ->
    translates G m is p sh e t -> translates G m' is p sh e t.
  Proof. intros H [M C]. split; auto. Qed.

  (** * One point of a contraction: sum i. [q and i = a] * e, with a in the range of i where q holds *)
  Section Point.
    Variables (s : ienv) (is : binders) (l : list aff) (q : prd) (e : expr).
    Let vs := map (aval R s) l.
    Hypothesis F : fresh is (pfv q ++ flat_map afv l).
    Hypothesis L : length l = length is.
    Hypothesis B : pval R s q = true -> In vs (bbox is).
    Lemma point_pred ys : length ys = length is -> pval R (upds s is ys) (PAnd q (eqs (bnames is) l)) =
      pval R s q && leqb vs ys.
    Proof.
      intros Ly. cbn [pval]. rewrite eqs_val by (unfold bnames; rewrite map_length; auto). destruct F as [N D].
      rewrite upds_vals by auto. f_equal.
      - apply pval_ext, upds_agree. intros i Hi Hq. apply (D i Hi), in_or_app. auto.
      - rewrite leqb_sym. f_equal. unfold vs. apply map_ext_in. intros a Ha. apply aval_ext, upds_agree. intros i Hi Hq.
        apply (D i Hi), in_or_app. right. apply in_flat_map. eauto.
    Qed.
    Lemma point_value r d w : eval r s (sums is (EInd (PAnd q (eqs (bnames is) l)) e)) d w
      = ind (pval R s q) (eval r (upds s is vs) e d w).
    Proof.
      rewrite eval_sums. transitivity (sum (bbox is) (fun ys => ind (pval R s q && leqb vs ys) (eval r (upds s is ys) e
        d w))).
      - apply sum_ext. intros ys Hy. cbn [Core.eval]. now rewrite point_pred by (eapply bbox_length; eassumption).
      - destruct (pval R s q) eqn:Q; cbn [andb Sums.ind]; [|apply (sum_0 _ _ _ _ _ _ Rth)].
        apply (sum_point _ _ _ _ _ _ Rth leqb (bbox is) vs (fun ys => eval r (upds s is ys) e d w));
          [apply leqb_eq|apply box_nodup|auto].
    Qed.
    Lemma point_cost : (forall s, reach s e = true) -> cost s (sums is (EInd (PAnd q (eqs (bnames is) l)) e))
      = (if pval R s q then cost (upds s is vs) e else 0)%Z.
    Proof.
      intros E. rewrite cost_sums, reach_sums.
      assert (T : forall ys : list Z, In ys (bbox is) -> reach (upds s is ys) (EInd (PAnd q (eqs (bnames is) l)) e) =
        pval R s q && leqb vs ys).
      { intros ys Hy. cbn [Core.reach]. now rewrite E, andb_true_r, point_pred by (eapply bbox_length; eassumption). }
      rewrite (existsb_ext _ _ _ T).
      rewrite (zsum_ext _ _ (fun ys => if leqb vs ys then if pval R s q then cost (upds s is ys) e + 1 else 0 else
        0)%Z).
      - destruct (pval R s q) eqn:Q; cbn [andb].
        + rewrite (zsum_point leqb (bbox is) vs (fun ys => cost (upds s is ys) e + 1)%Z) by (auto using leqb_eq;
          apply box_nodup).
          assert (existsb (fun ys => leqb vs ys) (bbox is) = true) as ->; [|cbn [b2z]; lia].
          apply existsb_exists. exists vs. split; [auto|apply leqb_refl].
        + rewrite (zsum_ext _ _ (fun _ => 0%Z)), zsum_0 by (intros ys _; destruct (leqb vs ys); reflexivity).
          now rewrite existsb_false.
      - intros ys Hy. rewrite (T ys Hy). cbn [Core.cost]. rewrite point_pred by (eapply bbox_length; eassumption).
        destruct (pval R s q), (leqb vs ys); cbn [andb b2z]; lia.
    Qed.
  End Point.

  Lemma upds_at bs s zs : NoDup (bnames bs) -> In zs (bbox bs) ->
    map (aval R (upds s bs zs)) (map AVar (bnames bs)) = zs.
  Proof. intros N H. rewrite map_map. cbn [aval]. apply upds_vals; [assumption|eapply bbox_length; eassumption]. Qed.
  Lemma afv_vars l : flat_map afv (map AVar l) = l.
  Proof. induction l; simpl; congruence. Qed.
  Lemma cost_at s e bs : cost s (at_ e bs) = cost s e.
  Proof. apply cost_accs. Qed.
  Notation read x bs := (@at_ K fn (EVar x) bs).
  Lemma at_closed s x bs : guard s (read x bs) = true /\ live s (read x bs) = true /\ reach s (read x bs) = true.
  Proof.
    unfold at_. assert (H : forall l e, guard s e = true /\ live s e = true /\ reach s e = true ->
      guard s (accs e l) = true /\ live s (accs e l) = true /\ reach s (accs e l) = true).
    { induction l as [|a l IH]; intros e H; [exact H|]. apply IH. repeat split. }
    apply H. repeat split.
  Qed.
  Lemma guard_at s x bs : guard s (read x bs) = true.
  Proof. apply at_closed. Qed.
  Lemma reach_at s x bs : reach s (read x bs) = true.
  Proof. apply at_closed. Qed.
  (** the value of X at the indices is *)
  Lemma read_at r s x bs w : eval r s (read x bs) [] w = r x [] (map s (bnames bs) ++ w).
  Proof. apply eval_at. Qed.

  Lemma gens_scalar r s is e d zs : In zs (bbox is) -> eval r s (gens is e) d zs = eval r (upds s is zs) e d [].
  Proof. intros H. pose proof (eval_gens r is e d [] zs s H) as E. now rewrite app_nil_r in E. Qed.

  (** gen i. sum j. [p and j = i] * X[j] *)
  Definition copy (X : string) (p : prd) (is js : binders) : expr :=
    <{ GEN is, SUM js, [PAnd p (diagonal js is)] * {read X js} }>.
  Lemma copy_means X p is js r s zs : NoDup (bnames is) -> fresh js (pfv p ++ bnames is) -> bsizes js = bsizes is ->
    In zs (bbox is) -> eval r s (copy X p is js) [] zs = ind (pval R (upds s is zs) p) (r X [] zs).
  Proof.
    intros N F S Hz. assert (L : length js = length is) by (rewrite <- (map_length snd js), <- (map_length snd is);
      unfold bsizes in S; congruence).
    unfold copy, diagonal. rewrite gens_scalar by assumption.
    rewrite point_value; rewrite ?upds_at by assumption; rewrite ?afv_vars; auto.
    - f_equal. rewrite read_at, app_nil_r. f_equal. apply upds_vals; [apply F|]. apply bbox_length in Hz. congruence.
    - rewrite map_length. unfold bnames. now rewrite map_length.
    - intros _. unfold bbox in *. now rewrite S.
  Qed.
  Lemma copy_cost X p is js s : NoDup (bnames is) -> fresh js (pfv p ++ bnames is) -> bsizes js = bsizes is ->
    cost s (copy X p is js) = 0%Z.
  Proof.
    intros N F S. assert (L : length js = length is) by (rewrite <- (map_length snd js), <- (map_length snd is);
      unfold bsizes in S; congruence).
    unfold copy, diagonal. rewrite cost_gens. transitivity (zsum (bbox is) (fun _ => 0%Z)); [|apply zsum_0].
    apply zsum_ext. intros zs Hz. rewrite point_cost; rewrite ?upds_at by assumption; rewrite ?afv_vars;
      auto using reach_at.
    - rewrite cost_at. destruct (pval R _ p); reflexivity.
    - rewrite map_length. unfold bnames. now rewrite map_length.
    - intros _. unfold bbox in *. now rewrite S.
  Qed.

  Lemma box_nil w : In w (box []) -> w = [].
  Proof. intros [<-|[]]. reflexivity. Qed.
  Lemma means_scalar G m is p e t r r' s zs : translates G m is p [] e t ->
    same_in G r r' -> In zs (bbox is) -> pval R (upds s is zs) m = true ->
    eval r' s t [] zs = ind (pval R (upds s is zs) p) (eval r (upds s is zs) e [] []).
  Proof.
    intros T E Hz Hm. pose proof (means_at _ _ _ _ _ _ _ r r' s zs [] T E Hz Hm (or_introl eq_refl)) as V.
      now rewrite app_nil_r in V.
  Qed.
End Translation.
