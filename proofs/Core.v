(** The core language (Figs. 3-5), its cost (Fig. 6), and normalisation rules.
    A value of type T is a function from a path to numbers; a path is a list of
    projections (true = pi_0) and a list of indices.  Keeping the two apart makes
    [n](T0*T1) and [n]T0 * [n]T1 the same space, as Fig. 8 needs.  0_T is the
    constant 0 and every construct is total (an access out of bounds has some
    value; in-bounds programs agree with Fig. 4). *)
Require Import String List Bool ZArith Ring Lia Arith FinFun.
Import ListNotations.
Require Import TL.Sums TL.SSA.
Open Scope list_scope.

Definition ix := string.

Inductive aff := AVar (i : ix) | ACst (k : Z) | AAdd (a b : aff) | AScl (k : Z) (a : aff).
Inductive prd :=
| PTrue | PLt (a b : aff) | PLe (a b : aff) | PEq (a b : aff) | PRel (R : string) (l : list aff)
| PAnd (p q : prd) | POr (p q : prd) | PEx (i : ix) (n : nat) (p : prd).

Definition ienv := ix -> Z.
Definition upd {V} (s : string -> V) (i : string) (v : V) : string -> V := fun j => if String.eqb i j then v else s j.
Definition rels := string -> list Z -> bool.

(** * Fig. 5 *)
Fixpoint aval (s : ienv) (a : aff) : Z :=
  match a with
  | AVar i => s i | ACst k => k | AAdd a b => aval s a + aval s b | AScl k a => k * aval s a
  end%Z.
Fixpoint pval (R : rels) (s : ienv) (p : prd) : bool :=
  match p with
  | PTrue => true
  | PLt a b => (aval s a <? aval s b)%Z
  | PLe a b => (aval s a <=? aval s b)%Z
  | PEq a b => (aval s a =? aval s b)%Z
  | PRel r l => R r (map (aval s) l)
  | PAnd p q => pval R s p && pval R s q
  | POr p q => pval R s p || pval R s q
  | PEx i n p => existsb (fun z => pval R (upd s i z) p) (zrange n)
  end.
Fixpoint afv (a : aff) : list ix :=
  match a with AVar i => [i] | ACst _ => [] | AAdd a b => afv a ++ afv b | AScl _ a => afv a end.
Fixpoint pfv (p : prd) : list ix :=
  match p with
  | PTrue => [] | PLt a b | PLe a b | PEq a b => afv a ++ afv b
  | PRel _ l => flat_map afv l
  | PAnd p q | POr p q => pfv p ++ pfv q
  | PEx i _ p => filter (fun j => negb (String.eqb i j)) (pfv p)
  end.
Lemma aval_ext s s' a : (forall i, In i (afv a) -> s i = s' i) -> aval s a = aval s' a.
Proof.
  induction a; simpl; intros H; auto.
  - rewrite IHa1, IHa2; auto; intros; apply H, in_or_app; auto.
  - rewrite IHa; auto.
Qed.
Lemma pval_ext R p : forall s s', (forall i, In i (pfv p) -> s i = s' i) -> pval R s p = pval R s' p.
Proof.
  induction p; simpl; intros s s' H; auto.
  1-3: rewrite (aval_ext s s' a), (aval_ext s s' b); auto; intros; apply H, in_or_app; auto.
  - f_equal. apply map_ext_in. intros a Ha. apply aval_ext. intros i Hi. apply H, in_flat_map; eauto.
  - rewrite (IHp1 s s'), (IHp2 s s'); auto; intros; apply H, in_or_app; auto.
  - rewrite (IHp1 s s'), (IHp2 s s'); auto; intros; apply H, in_or_app; auto.
  - induction (zrange n) as [|z l IH]; simpl; [reflexivity|]. rewrite IH. f_equal. apply IHp.
    intros j Hj. unfold upd. destruct (String.eqb i j) eqn:E; [reflexivity|]. apply H, filter_In. rewrite E. auto.
Qed.

(** * Vectors of index variables *)
Definition binders := list (ix * nat).
Definition bnames (bs : binders) := map fst bs.
Definition bbox (bs : binders) := box (map snd bs).
Fixpoint upds (s : ienv) (bs : binders) (zs : list Z) : ienv :=
  match bs, zs with
  | (i, _) :: bs', z :: zs' => upds (upd s i z) bs' zs'
  | _, _ => s
  end.
Lemma upds_other bs : forall s zs i, ~ In i (bnames bs) -> upds s bs zs i = s i.
Proof.
  induction bs as [|[j n] bs IH]; intros s [|z zs] i H; simpl; auto. simpl in H. rewrite IH by tauto.
  unfold upd. destruct (String.eqb_spec j i); [subst; tauto|reflexivity].
Qed.
Lemma upds_same bs : forall s s' zs i, length zs = length bs -> In i (bnames bs) -> upds s bs zs i = upds s' bs zs i.
Proof.
  induction bs as [|[j n] bs IH]; intros s s' [|z zs] i L H; simpl in *; try discriminate; [tauto|].
  destruct (in_dec string_dec i (bnames bs)) as [Hi|Hn]; [apply IH; auto|].
  rewrite !upds_other by assumption. destruct H as [->|]; [|contradiction]. unfold upd. now rewrite String.eqb_refl.
Qed.
Lemma upds_vals bs : forall s zs, NoDup (bnames bs) -> length zs = length bs -> map (upds s bs zs) (bnames bs) = zs.
Proof.
  induction bs as [|[j n] bs IH]; intros s [|z zs] N L; simpl in *; try discriminate; [reflexivity|].
  inversion N; subst. f_equal; [|apply IH; auto]. rewrite upds_other by assumption. unfold upd. now rewrite String.eqb_refl.
Qed.
Lemma upds_app bs bs' : forall s zs zs', length zs = length bs -> upds s (bs ++ bs') (zs ++ zs') = upds (upds s bs zs) bs' zs'.
Proof. induction bs as [|[j n] bs IH]; intros s [|z zs] zs' L; simpl in *; try discriminate; auto. Qed.
Lemma box_length sh : forall zs, In zs (box sh) -> length zs = length sh.
Proof.
  induction sh as [|n sh IH]; simpl; intros zs H; [destruct H as [<-|[]]; reflexivity|].
  apply in_flat_map in H. destruct H as [z [_ H]]. apply in_map_iff in H. destruct H as [ys [<- H]]. simpl. f_equal; auto.
Qed.
Lemma bbox_length bs zs : In zs (bbox bs) -> length zs = length bs.
Proof. intros H. apply box_length in H. now rewrite map_length in H. Qed.
Lemma nodup_app_l {A} (a b : list A) : NoDup (a ++ b) -> NoDup a.
Proof.
  induction a as [|x a IH]; simpl; intros N; [constructor|]. inversion N; subst. constructor; [|auto].
  intros H. apply H1, in_or_app; auto.
Qed.
Lemma nodup_app_r {A} (a b : list A) : NoDup (a ++ b) -> NoDup b.
Proof. induction a as [|x a IH]; simpl; intros N; [assumption|]. inversion N; auto. Qed.
Lemma nodup_app_disj {A} (a b : list A) x : NoDup (a ++ b) -> In x a -> ~ In x b.
Proof.
  induction a as [|y a IH]; simpl; intros N H H'; [tauto|]. inversion N; subst.
  destruct H as [->|H]; [apply H2, in_or_app; auto|eapply IH; eauto].
Qed.
Lemma zrange_nodup n : NoDup (zrange n).
Proof. apply Injective_map_NoDup; [intros a b; apply Nat2Z.inj|apply seq_NoDup]. Qed.
Lemma box_nodup sh : NoDup (box sh).
Proof.
  induction sh as [|n sh IH]; simpl; [repeat constructor; auto|].
  generalize (zrange_nodup n). induction (zrange n) as [|z l IHl]; simpl; intros N; [constructor|].
  inversion N; subst.
  assert (A : NoDup (map (cons z) (box sh))) by (apply Injective_map_NoDup; [intros a b; congruence|assumption]).
  assert (B : NoDup (flat_map (fun z => map (cons z) (box sh)) l)) by auto.
  assert (D : forall y, In y (map (cons z) (box sh)) -> ~ In y (flat_map (fun z => map (cons z) (box sh)) l)).
  { intros y Hy Hy'. apply in_map_iff in Hy. destruct Hy as [a [<- _]]. apply in_flat_map in Hy'.
    destruct Hy' as [z' [Hz' Hy']]. apply in_map_iff in Hy'. destruct Hy' as [b [E _]]. congruence. }
  revert A D. generalize (map (cons z) (box sh)) as m. clear - B. induction m as [|y m IHm]; simpl; intros A D; [assumption|].
  inversion A; subst. constructor; [|apply IHm; auto]. intros H. apply in_app_or in H. destruct H; [contradiction|].
  apply (D y); auto.
Qed.
Lemma zsum_box_app s1 s2 (f : list Z -> Z) :
  zsum (box (s1 ++ s2)) f = zsum (box s1) (fun a => zsum (box s2) (fun b => f (a ++ b))).
Proof.
  revert f. induction s1 as [|n s1 IH]; intros f; simpl; [rewrite Z.add_0_r; apply zsum_ext; reflexivity|].
  rewrite !zsum_flat_map. apply zsum_ext. intros z _. rewrite !zsum_map. apply (IH (fun l => f (z :: l))).
Qed.
Fixpoint leqb (a b : list Z) : bool :=
  match a, b with
  | [], [] => true | x :: a', y :: b' => (x =? y)%Z && leqb a' b' | _, _ => false
  end.
Lemma leqb_eq a : forall b, leqb a b = true <-> a = b.
Proof.
  induction a as [|x a IH]; intros [|y b]; simpl; split; intros H; try congruence; auto.
  - apply andb_true_iff in H. destruct H as [H1 H2]. apply Z.eqb_eq in H1. apply IH in H2. congruence.
  - inversion H; subst. rewrite Z.eqb_refl. apply IH. reflexivity.
Qed.
(** g0 = i0 and g1 = i1 and .. *)
Fixpoint eqs (gs is : list ix) : prd :=
  match gs, is with
  | g :: gs', i :: is' => PAnd (PEq (AVar g) (AVar i)) (eqs gs' is')
  | _, _ => PTrue
  end.
Lemma eqs_val R s gs : forall is, length gs = length is -> pval R s (eqs gs is) = leqb (map s gs) (map s is).
Proof. induction gs as [|g gs IH]; intros [|i is] L; simpl in *; try discriminate; auto. rewrite IH by congruence. reflexivity. Qed.

Section Core.
  Context {K : Type} (rO rI : K) (radd rmul rsub : K -> K -> K) (ropp : K -> K).
  Hypothesis Rth : ring_theory rO rI radd rmul rsub ropp eq.
  Add Ring KRing3 : Rth.
  Infix "+" := radd. Infix "*" := rmul.
  Notation sum := (sum rO radd).
  Notation ind := (ind rO).
  Context {fn : Type} (fval : fn -> list K -> K) (fcost : fn -> Z) (R : rels).

  (** * Fig. 3 *)
  Inductive expr :=
  | EVar (x : string) | ECst (c : K)
  | EAdd (e0 e1 : expr) | EMul (e0 e1 : expr) | EFn (f : fn) (es : list expr)
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
    | EMul a b => fun d w => eval r s a d w * eval r s b d w
    | EFn f es => fun d w => fval f (map (fun e => eval r s e d w) es)
    | EPair a b => fun d w => match d with true :: d' => eval r s a d' w | false :: d' => eval r s b d' w | [] => rO end
    | EFst a => fun d w => eval r s a (true :: d) w
    | ESnd a => fun d w => eval r s a (false :: d) w
    | EGen i n a => fun d w => match w with z :: w' => eval r (upd s i z) a d w' | [] => rO end
    | ESum i n a => fun d w => sum (zrange n) (fun z => eval r (upd s i z) a d w)
    | EAcc a k => fun d w => eval r s a d (aval s k :: w)
    | EInd p a => fun d w => ind (pval R s p) (eval r s a d w)
    | ELet x a b => eval (upd r x (eval r s a)) s b
    end.

  (** * Fig. 6.  live: all immediately nested brackets are true; cnt: the number of
      points of directly nested sums at which the brackets below are true *)
  Open Scope Z_scope.
  Fixpoint live (s : ienv) (e : expr) : bool :=
    match e with EInd p a => pval R s p && live s a | _ => true end.
  Fixpoint cnt (s : ienv) (e : expr) : Z :=
    match e with
    | ESum i n a => zsum (zrange n) (fun z => cnt (upd s i z) a)
    | _ => b2z (live s e)
    end.
  (** j: are we directly below a sum (then the sums are charged jointly, at the top) *)
  Fixpoint cost_ (j : bool) (s : ienv) (e : expr) : Z :=
    match e with
    | EVar _ | ECst _ => 0
    | EAdd a b => cost_ false s a + cost_ false s b + b2z (live s a && live s b)      (* 4.24 *)
    | EMul a b => 1 + cost_ false s a + cost_ false s b
    | EFn f es => fcost f + fold_right (fun e c => cost_ false s e + c) 0 es
    | EPair a b => cost_ false s a + cost_ false s b
    | EFst a | ESnd a => cost_ false s a
    | EGen i n a => zsum (zrange n) (fun z => cost_ false (upd s i z) a)
    | ESum i n a => zsum (zrange n) (fun z => cost_ true (upd s i z) a)               (* 4.30 *)
                    + (if j then 0 else cnt s e - b2z (0 <? cnt s e))
    | EAcc a _ => cost_ false s a
    | EInd p a => if pval R s p then cost_ false s a else 0
    | ELet _ a b => cost_ false s a + cost_ false s b
    end.
  Definition cost := cost_ false.

  Fixpoint gens (bs : binders) (e : expr) : expr := match bs with [] => e | (i, n) :: bs' => EGen i n (gens bs' e) end.
  Fixpoint sums (bs : binders) (e : expr) : expr := match bs with [] => e | (i, n) :: bs' => ESum i n (sums bs' e) end.
  Fixpoint accs (e : expr) (l : list ix) : expr := match l with [] => e | i :: l' => accs (EAcc e (AVar i)) l' end.

  Lemma sums_app bs bs' e : sums (bs ++ bs') e = sums bs (sums bs' e).
  Proof. induction bs as [|[i n] bs IH]; simpl; congruence. Qed.
  Lemma eval_gens r bs e d w : forall zs s, length zs = length bs ->
    eval r s (gens bs e) d (zs ++ w) = eval r (upds s bs zs) e d w.
  Proof. induction bs as [|[i n] bs IH]; intros [|z zs] s L; simpl in *; try discriminate; auto. Qed.
  Lemma eval_sums r e d w : forall bs s, eval r s (sums bs e) d w = sum (bbox bs) (fun zs => eval r (upds s bs zs) e d w).
  Proof.
    unfold bbox. induction bs as [|[i n] bs IH]; intros s; simpl; [ring|].
    rewrite (sum_flat_map _ _ _ _ _ _ Rth). apply sum_ext. intros z _. rewrite sum_map. apply IH.
  Qed.
  Lemma eval_accs r s d l : forall e w, eval r s (accs e l) d w = eval r s e d (map s l ++ w).
  Proof. induction l as [|i l IH]; intros e w; simpl; [reflexivity|]. rewrite IH. reflexivity. Qed.
  Lemma cost_gens e : forall bs s, cost s (gens bs e) = zsum (bbox bs) (fun zs => cost (upds s bs zs) e).
  Proof.
    unfold cost, bbox. induction bs as [|[i n] bs IH]; intros s; simpl; [lia|].
    rewrite zsum_flat_map. apply zsum_ext. intros z _. rewrite zsum_map. apply IH.
  Qed.
  Lemma cost_true_sums p e : forall bs s, cost_ true s (sums bs (EInd p e)) = zsum (bbox bs) (fun zs => cost (upds s bs zs) (EInd p e)).
  Proof.
    unfold cost, bbox. induction bs as [|[i n] bs IH]; intros s; [simpl; lia|].
    cbn [sums cost_ map snd box]. rewrite Z.add_0_r, zsum_flat_map. apply zsum_ext. intros z _. rewrite zsum_map. apply IH.
  Qed.
  Lemma cnt_sums p e : forall bs s, cnt s (sums bs (EInd p e)) = zsum (bbox bs) (fun zs => b2z (live (upds s bs zs) (EInd p e))).
  Proof.
    unfold bbox. induction bs as [|[i n] bs IH]; intros s; [cbn; lia|].
    cbn [sums cnt map snd box]. rewrite zsum_flat_map. apply zsum_ext. intros z _. rewrite zsum_map. apply IH.
  Qed.
  Definition excess (n : Z) : Z := n - b2z (0 <? n).
  (** 4.30 for any number of sums *)
  Lemma cost_sums p e bs s : cost s (sums bs (EInd p e)) =
    zsum (bbox bs) (fun zs => cost (upds s bs zs) (EInd p e)) + excess (zsum (bbox bs) (fun zs => b2z (live (upds s bs zs) (EInd p e)))).
  Proof.
    destruct bs as [|[i n] bs].
    - unfold bbox. cbn [sums map box zsum upds]. unfold excess. rewrite Z.add_0_r. destruct (live s (EInd p e)); cbn; lia.
    - rewrite <- cnt_sums, <- cost_true_sums. unfold cost, excess. cbn [sums cost_]. rewrite Z.add_0_r. reflexivity.
  Qed.

  (** * Rule 5.34, corrected:  S(i, p, sum_j..sum_k [q] e)
        -> let X = S(i j..k, p & q, e) in gen_g sum_{i,j..k} [p & q & g=i] X[i,j..k] *)
  Definition lhs_5_34 (bi bj : binders) (p q : prd) (e : expr) : expr :=
    gens bi (EInd p (sums bj (EInd q e))).
  Definition rhs_5_34 (X : string) (gs : list ix) (bi bj : binders) (p q : prd) (e : expr) : expr :=
    ELet X (gens bi (gens bj (EInd (PAnd p q) e)))
      (gens (combine gs (map snd bi))
         (sums (bi ++ bj) (EInd (PAnd (PAnd p q) (eqs gs (bnames bi))) (accs (EVar X) (bnames (bi ++ bj)))))).
  (** unique binders *)
  Record fresh_5_34 (gs : list ix) (bi bj : binders) (p q : prd) : Prop := {
    fr_len : length gs = length bi;
    fr_nodup : NoDup (gs ++ bnames bi ++ bnames bj);
    fr_gp : forall g, In g gs -> ~ In g (pfv p);
    fr_gq : forall g, In g gs -> ~ In g (pfv q);
    fr_jp : forall j, In j (bnames bj) -> ~ In j (pfv p) }.

  Lemma upd_same {V} (r : string -> V) x v : upd r x v x = v.
  Proof. unfold upd. now rewrite String.eqb_refl. Qed.
  Lemma bnames_combine gs : forall ns : list nat, length gs = length ns -> bnames (combine gs ns) = gs.
  Proof. induction gs as [|g gs IH]; intros [|n ns] L; simpl in *; try discriminate; auto. unfold bnames in *. simpl. f_equal. auto. Qed.
  Lemma bsizes_combine : forall (gs : list ix) (ns : list nat), length gs = length ns -> map snd (combine gs ns) = ns.
  Proof. induction gs as [|g gs IH]; intros [|n ns] L; simpl in *; try discriminate; auto. f_equal. auto. Qed.

  (** the environments of the right-hand side: g := zs, i := ys, j := ws *)
  Section Rule_5_34.
    Variables (X : string) (gs : list ix) (bi bj : binders) (p q : prd) (e : expr).
    Hypothesis F : fresh_5_34 gs bi bj p q.
    Let bg := combine gs (map snd bi).
    Local Lemma bg_names : bnames bg = gs.
    Proof. apply bnames_combine. rewrite map_length. apply F. Qed.
    Local Lemma bg_box : bbox bg = bbox bi.
    Proof. unfold bbox, bg. rewrite bsizes_combine; [reflexivity|]. rewrite map_length. apply F. Qed.
    Local Lemma nd_i : NoDup (bnames bi).
    Proof. pose proof (fr_nodup _ _ _ _ _ F) as N. apply nodup_app_r in N. apply nodup_app_l in N. exact N. Qed.
    Local Lemma nd_ij : NoDup (bnames (bi ++ bj)).
    Proof. pose proof (fr_nodup _ _ _ _ _ F) as N. apply nodup_app_r in N. unfold bnames in *. rewrite map_app. exact N. Qed.
    Local Lemma disj_g i : In i gs -> ~ In i (bnames bi) /\ ~ In i (bnames bj).
    Proof.
      intros H. pose proof (nodup_app_disj _ _ _ (fr_nodup _ _ _ _ _ F) H) as N. split; intros H'; apply N, in_or_app; auto.
    Qed.
    Local Lemma disj_i i : In i (bnames bi) -> ~ In i (bnames bj).
    Proof.
      intros H. exact (nodup_app_disj _ _ _ (nodup_app_r _ _ (fr_nodup _ _ _ _ _ F)) H).
    Qed.

    Definition s3 s zs ys ws := upds (upds (upds s bg zs) bi ys) bj ws.
    Definition s2 s ys ws := upds (upds s bi ys) bj ws.
    Context (s : ienv) (zs ys ws : list Z).
    Hypotheses (Lz : length zs = length bi) (Ly : length ys = length bi) (Lw : length ws = length bj).
    Local Lemma s3_s2 i : ~ In i gs -> s3 s zs ys ws i = s2 s ys ws i.
    Proof.
      intros H. unfold s3, s2.
      destruct (in_dec string_dec i (bnames bj)); [now apply upds_same|]. rewrite !(upds_other bj) by assumption.
      destruct (in_dec string_dec i (bnames bi)); [now apply upds_same|]. rewrite !(upds_other bi) by assumption.
      apply upds_other. now rewrite bg_names.
    Qed.
    Local Lemma p3 : pval R (s3 s zs ys ws) p = pval R (upds s bi ys) p.
    Proof.
      apply pval_ext. intros i Hi. rewrite s3_s2 by (intros H; exact (fr_gp _ _ _ _ _ F i H Hi)).
      apply upds_other. intros H. exact (fr_jp _ _ _ _ _ F i H Hi).
    Qed.
    Local Lemma p2 : pval R (s2 s ys ws) p = pval R (upds s bi ys) p.
    Proof. apply pval_ext. intros i Hi. apply upds_other. intros H. exact (fr_jp _ _ _ _ _ F i H Hi). Qed.
    Local Lemma q3 : pval R (s3 s zs ys ws) q = pval R (s2 s ys ws) q.
    Proof. apply pval_ext. intros i Hi. apply s3_s2. intros H; exact (fr_gq _ _ _ _ _ F i H Hi). Qed.
    Local Lemma i3 : map (s3 s zs ys ws) (bnames bi) = ys.
    Proof.
      rewrite <- (upds_vals bi (upds s bg zs) ys nd_i Ly) at 2. apply map_ext_in. intros i Hi.
      apply upds_other, disj_i, Hi.
    Qed.
    Local Lemma g3 : map (s3 s zs ys ws) gs = zs.
    Proof.
      transitivity (map (upds s bg zs) (bnames bg)).
      - rewrite bg_names. apply map_ext_in. intros i Hi. destruct (disj_g i Hi). unfold s3. rewrite (upds_other bj), (upds_other bi) by assumption. reflexivity.
      - apply upds_vals; [rewrite bg_names; pose proof (fr_nodup _ _ _ _ _ F) as N; apply nodup_app_l in N; exact N|].
        unfold bg. rewrite combine_length, map_length, (fr_len _ _ _ _ _ F), Nat.min_id. exact Lz.
    Qed.
    Local Lemma eqs3 : pval R (s3 s zs ys ws) (eqs gs (bnames bi)) = leqb zs ys.
    Proof. rewrite eqs_val; [now rewrite g3, i3|]. unfold bnames. rewrite map_length. apply F. Qed.
    Local Lemma ij3 : map (s3 s zs ys ws) (bnames (bi ++ bj)) = ys ++ ws.
    Proof.
      unfold s3. rewrite <- upds_app by assumption. apply upds_vals; [exact nd_ij|]. rewrite !app_length. lia.
    Qed.
  End Rule_5_34.

  Theorem value_5_34 X gs bi bj p q e r s d zs :
    fresh_5_34 gs bi bj p q -> In zs (bbox bi) ->
    eval r s (rhs_5_34 X gs bi bj p q e) d zs = eval r s (lhs_5_34 bi bj p q e) d zs.
  Proof.
    intros F Hz. pose proof (bbox_length _ _ Hz) as Lz.
    unfold rhs_5_34, lhs_5_34. cbn [eval]. set (v := eval r s (gens bi (gens bj _))).
    rewrite <- (app_nil_r zs) at 1 2. rewrite !eval_gens; [|assumption|].
    2:{ rewrite combine_length, map_length, (fr_len _ _ _ _ _ F), Nat.min_id. exact Lz. }
    rewrite sums_app, eval_sums.
    transitivity (sum (bbox bi) (fun ys => ind (leqb zs ys) (sum (bbox bj) (fun ws =>
        ind (pval R (upds s bi ys) p && pval R (s2 bi bj s ys ws) q) (eval r (s2 bi bj s ys ws) e d []))))).
    - apply sum_ext. intros ys Hy. pose proof (bbox_length _ _ Hy) as Ly. rewrite eval_sums, (ind_sum _ _ _ _ _ _ Rth).
      apply sum_ext. intros ws Hw. pose proof (bbox_length _ _ Hw) as Lw. cbn [eval pval].
      fold (s3 gs bi bj s zs ys ws).
      rewrite (p3 gs bi bj p q F), (q3 gs bi bj p q F) by assumption.
      rewrite (eqs3 gs bi bj p q F) by assumption.
      rewrite andb_comm, ind_and. f_equal. rewrite eval_accs. cbn [eval]. rewrite upd_same.
      rewrite (ij3 gs bi bj p q F) by assumption. unfold v. rewrite <- app_assoc.
      rewrite !eval_gens by assumption.
      fold (s2 bi bj s ys ws). cbn [eval pval]. rewrite (p2 gs bi bj p q F) by assumption.
      destruct (pval R (upds s bi ys) p), (pval R (s2 bi bj s ys ws) q); reflexivity.
    - rewrite (sum_point _ _ _ _ _ _ Rth leqb (bbox bi) zs); [|intros; apply leqb_eq|apply box_nodup|exact Hz].
      cbn [eval]. rewrite eval_sums, (ind_sum _ _ _ _ _ _ Rth). apply sum_ext. intros ws _. cbn [eval].
      now rewrite ind_and.
  Qed.

  (** 5.34 [C] keeps the cost exactly *)
  Theorem cost_5_34 X gs bi bj p q e s :
    fresh_5_34 gs bi bj p q -> (forall s, live s e = true) ->                (* brackets already merged by 5.24 *)
    cost s (rhs_5_34 X gs bi bj p q e) = cost s (lhs_5_34 bi bj p q e).
  Proof.
    intros F Le.
    assert (CA : forall l s e, cost s (accs e l) = cost s e).
    { induction l as [|i l IH]; intros s0 e0; [reflexivity|]. cbn [accs]. rewrite IH. reflexivity. }
    unfold rhs_5_34, lhs_5_34. unfold cost at 1. cbn [cost_]. fold cost. rewrite !cost_gens.
    unfold bbox at 2. rewrite bsizes_combine by (rewrite map_length; apply F). fold (bbox bi).
    rewrite <- zsum_add. apply zsum_ext. intros zs Hz. pose proof (bbox_length _ _ Hz) as Lz.
    rewrite cost_gens, cost_sums.
    assert (Z0 : zsum (bbox (bi ++ bj)) (fun ys => cost (upds (upds s (combine gs (map snd bi)) zs) (bi ++ bj) ys)
               (EInd (PAnd (PAnd p q) (eqs gs (bnames bi))) (accs (EVar X) (bnames (bi ++ bj))))) = 0).
    { transitivity (zsum (bbox (bi ++ bj)) (fun _ => 0)); [|apply zsum_0]. apply zsum_ext. intros ys _. unfold cost. cbn [cost_]. fold cost.
      rewrite CA. destruct (pval _ _ _); reflexivity. }
    rewrite Z0, Z.add_0_l. clear Z0.
    assert (N' : zsum (bbox (bi ++ bj)) (fun ys => b2z (live (upds (upds s (combine gs (map snd bi)) zs) (bi ++ bj) ys)
               (EInd (PAnd (PAnd p q) (eqs gs (bnames bi))) (accs (EVar X) (bnames (bi ++ bj)))))) =
             if pval R (upds s bi zs) p then zsum (bbox bj) (fun ws => b2z (pval R (s2 bi bj s zs ws) q)) else 0).
    { unfold bbox. rewrite map_app, zsum_box_app. fold (bbox bi). fold (bbox bj).
      transitivity (zsum (bbox bi) (fun ys => if leqb zs ys then
          (if pval R (upds s bi ys) p then zsum (bbox bj) (fun ws => b2z (pval R (s2 bi bj s ys ws) q)) else 0) else 0)).
      - apply zsum_ext. intros ys Hy. pose proof (bbox_length _ _ Hy) as Ly.
        transitivity (zsum (bbox bj) (fun ws => b2z (leqb zs ys && (pval R (upds s bi ys) p && pval R (s2 bi bj s ys ws) q)))).
        + apply zsum_ext. intros ws Hw. pose proof (bbox_length _ _ Hw) as Lw. f_equal. cbn [live].
          rewrite upds_app by assumption. fold (s3 gs bi bj s zs ys ws).
          assert (LA : forall l e s, live s e = true -> live s (accs e l) = true).
          { induction l as [|i l IH]; intros e0 s0 H; [assumption|]. apply IH. reflexivity. }
          rewrite LA by reflexivity. cbn [pval].
          rewrite (p3 gs bi bj p q F), (q3 gs bi bj p q F), (eqs3 gs bi bj p q F) by assumption.
          rewrite andb_true_r, andb_comm. reflexivity.
        + destruct (leqb zs ys); cbn [andb]; [|apply zsum_0]. destruct (pval R (upds s bi ys) p); cbn [andb]; [reflexivity|apply zsum_0].
      - apply (zsum_point leqb (bbox bi) zs (fun ys => if pval R (upds s bi ys) p then zsum (bbox bj) (fun ws => b2z (pval R (s2 bi bj s ys ws) q)) else 0));
          [intros; apply leqb_eq|apply box_nodup|exact Hz]. }
    rewrite N'. clear N'. unfold cost at 2. cbn [cost_]. fold cost.
    assert (PJ : zsum (bbox bj) (fun ws => cost (upds (upds s bi zs) bj ws) (EInd (PAnd p q) e)) =
                 if pval R (upds s bi zs) p then zsum (bbox bj) (fun ws => cost (upds (upds s bi zs) bj ws) (EInd q e)) else 0).
    { transitivity (zsum (bbox bj) (fun ws => if pval R (upds s bi zs) p then cost (upds (upds s bi zs) bj ws) (EInd q e) else 0)).
      - apply zsum_ext. intros ws _. unfold cost. cbn [cost_ pval]. fold (s2 bi bj s zs ws). rewrite (p2 gs bi bj p q F).
        destruct (pval R (upds s bi zs) p); reflexivity.
      - destruct (pval R (upds s bi zs) p); [reflexivity|apply zsum_0]. }
    rewrite PJ. destruct (pval R (upds s bi zs) p); [|reflexivity].
    rewrite cost_sums. f_equal. f_equal. apply zsum_ext. intros ws _. cbn [live]. rewrite Le, andb_true_r. reflexivity.
  Qed.
End Core.
