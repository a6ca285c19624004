(** Dead code, sharing, and simplified predicates: what the package does with statements besides the paper's rules.
    Values stay, and the cost does not rise.

    Statements keep their places, so variables keep their names: a dead statement becomes an empty sum, a repeated one
    a copy, neither of which costs anything. *)
Require Import List Bool ZArith Lia Ring.
Import ListNotations.
Require Import TL.Sums TL.SSA.

Section Sharing.
  Context {K : Type} (rO rI : K) (radd rmul rsub : K -> K -> K) (ropp : K -> K).
  Hypothesis Rth : ring_theory rO rI radd rmul rsub ropp eq.
  Add Ring SharingRing : Rth.
  Context {fn : Type} (fval : fn -> list K -> K) (fcost : fn -> Z).
  Hypothesis fcost_nonneg : forall f, (0 <= fcost f)%Z.
  Notation rhs := (rhs K fn). Notation prog := (prog K fn). Notation stmt := (stmt K fn).
  Notation eval := (eval rO radd rmul ropp fval). Notation solves := (solves rO radd rmul ropp fval).
  Notation run := (run rO radd rmul ropp fval). Notation env := (env (K := K)).
  Notation cost1 := (cost1 (K := K) fcost). Notation cost := (cost (K := K) fcost).

  (** * Dead code
      What is chosen is looked up by predicates, so choices stay. *)
  Definition is_choice (r : rhs) : bool := match r with Choice _ _ => true | _ => false end.
  Fixpoint prune (need : list var) (S : prog) : prog :=
    match S with
    | [] => []
    | (sh, r) :: S' =>
        if is_choice r || among need (Var (length S') sh) then (sh, r) :: prune (ops r ++ need) S'
        else (sh, Add []) :: prune need S'
    end.
  Lemma prune_length S : forall need, length (prune need S) = length S.
  Proof. induction S as [|[sh r] S IH]; intros need; [reflexivity|]. cbn [prune]. destruct (_ || _); cbn [length]; now rewrite IH. Qed.
  Lemma prune_declared S : forall need, declared (prune need S) = declared S.
  Proof.
    induction S as [|[sh r] S IH]; intros need; [reflexivity|].
    cbn [prune]. destruct (_ || _); cbn [declared]; now rewrite IH, prune_length.
  Qed.
  Theorem prune_wf S : forall need, wf S -> wf (prune need S).
  Proof.
    induction S as [|[sh r] S IH]; intros need W; [exact I|]. cbn [wf] in W. destruct W as [HD [Wr W]].
    cbn [prune]. destruct (_ || _); cbn [wf]; rewrite prune_declared; repeat split; auto; intros x [].
  Qed.
  Theorem prune_cost S : forall need, (cost (prune need S) <= cost S)%Z.
  Proof.
    unfold SSA.cost. induction S as [|[sh r] S IH]; intros need; [reflexivity|]. cbn [prune zsum].
    pose proof (cost1_nonneg fcost fcost_nonneg (sh, r)).
    assert (cost1 (sh, Add []) = 0)%Z by (cbn [SSA.cost1 zsum]; unfold num, positive; cbn [existsb b2z]; rewrite zsum_0; reflexivity).
    destruct (_ || _); cbn [zsum]; [specialize (IH (ops r ++ need))|specialize (IH need)]; lia.
  Qed.
  Lemma prune_agree inp E E' : forall S need, wf S -> solves inp E S -> solves inp E' (prune need S) ->
    forall x, In x need -> In x (declared S) -> forall i, In i (box (shp x)) -> E' x i = E x i.
  Proof.
    induction S as [|[sh r] S IH]; intros need W So So' x Hx Dx i Hi; [destruct Dx|].
    cbn [wf SSA.solves declared prune] in *. destruct W as [HD [Wr W]], So as [H1 H2].
    destruct (is_choice r || among need (Var (length S) sh)) eqn:A; cbn [SSA.solves] in So'; destruct So' as [H1' H2']; rewrite prune_length in H1'.
    - destruct Dx as [<-|Dx]; [|apply (IH (ops r ++ need)); auto; apply in_or_app; auto]. cbn [shp] in Hi.
      rewrite H1, H1' by exact Hi. apply (eval_ext rO radd rmul ropp fval inp E' E sh); auto.
      intros y Hy j Hj. apply (IH (ops r ++ need)); auto. apply in_or_app; auto.
    - destruct Dx as [<-|Dx]; [|apply (IH need); auto].
      apply orb_false_elim in A. destruct A as [_ A]. apply among_in in Hx. congruence.
  Qed.
  Theorem prune_run inp S need x : wf S -> In x need -> In x (declared S) ->
    forall i, In i (box (shp x)) -> run inp (prune need S) x i = run inp S x i.
  Proof.
    intros W Hx Dx. apply (prune_agree inp (run inp S) (run inp (prune need S)) S need); auto; apply run_solves; [|apply prune_wf]; exact W.
  Qed.

  (** * Simplified predicates: within the ranges of their indices, predicates may be replaced by equal ones *)
  Definition alike (sh : shape) (r r' : rhs) : Prop :=
    match r, r' with
    | Add l, Add l' => Forall2 (fun t t' => minus t = minus t' /\ operand t = operand t' /\ forall i, In i (box sh) -> bracket t i = bracket t' i) l l'
    | Map p f xs, Map p' f' xs' => f = f' /\ xs = xs' /\ forall i, In i (box sh) -> p i = p' i
    | C1 s p x, C1 s' p' x' => s = s' /\ x = x' /\ forall g i z, In g (box sh) -> In i (box (shp x)) -> In z (box s) -> p g i z = p' g i z
    | C2 s p x y, C2 s' p' x' y' =>
        s = s' /\ x = x' /\ y = y' /\
        forall g i j z, In g (box sh) -> In i (box (shp x)) -> In j (box (shp y)) -> In z (box s) -> p g i j z = p' g i j z
    | _, _ => r = r'
    end.
  Theorem alike_value sh r r' inp E : alike sh r r' -> forall i, In i (box sh) -> eval inp E r i = eval inp E r' i.
  Proof.
    intros H i Hi. destruct r, r'; cbn [alike] in H; try congruence; cbn [SSA.eval].
    - induction H as [|t t' l l' [H1 [H2 H3]] HF IH]; [reflexivity|]. cbn [Sums.sum]. now rewrite H1, H2, H3, IH.
    - destruct H as [<- [<- H]]. now rewrite H.
    - destruct H as [<- [<- H]]. unfold sum1. apply sum_ext. intros j Hj. apply sum_ext. intros z Hz. now rewrite H.
    - destruct H as [<- [<- [<- H]]]. unfold sum2. apply sum_ext. intros j Hj. apply sum_ext. intros k Hk. apply sum_ext. intros z Hz. now rewrite H.
  Qed.
  Theorem alike_cost sh r r' : alike sh r r' -> cost1 (sh, r) = cost1 (sh, r').
  Proof.
    intros H. destruct r, r'; cbn [alike] in H; try congruence; cbn [SSA.cost1].
    - assert (P : forall i, In i (box sh) -> positive l i = positive l0 i).
      { intros i Hi. unfold positive. induction H as [|t t' l l' [H1 [H2 H3]] HF IH]; [reflexivity|]. cbn [existsb]. now rewrite H1, H3, IH. }
      f_equal; [|apply num_ext, P]. clear P. induction H as [|t t' l l' [H1 [H2 H3]] HF IH]; [reflexivity|].
      cbn [zsum]. rewrite IH. f_equal. apply num_ext, H3.
    - destruct H as [<- [<- H]]. f_equal. apply num_ext, H.
    - destruct H as [<- [<- H]]. f_equal.
      + apply zsum_ext. intros g Hg. unfold cnt1. apply zsum_ext. intros i Hi. apply zsum_ext. intros z Hz. now rewrite H.
      + apply num_ext. intros g Hg. unfold ex1. apply existsb_ext. intros i Hi. apply existsb_ext. auto.
    - destruct H as [<- [<- [<- H]]]. f_equal; [f_equal|].
      + apply zsum_ext. intros g Hg. unfold cnt2. apply zsum_ext. intros i Hi. apply zsum_ext. intros j Hj. apply zsum_ext. intros z Hz. now rewrite H.
      + apply num_ext. intros g Hg. unfold ex2. apply existsb_ext. intros i Hi. apply existsb_ext. intros j Hj. apply existsb_ext. auto.
  Qed.

  (** * Sharing: [same] finds statements that are equal; the package interns them *)
  Variable same : stmt -> stmt -> bool.
  Hypothesis same_alike : forall st st', same st st' = true -> fst st = fst st' /\ alike (fst st) (snd st) (snd st').
  Definition rename (rho : var -> var) (r : rhs) : rhs :=
    match r with
    | Input x => Input x
    | Const c => Const c
    | Add l => Add (map (fun t => Term (minus t) (bracket t) (rho (operand t))) l)
    | Map p f xs => Map p f (map rho xs)
    | C1 s p x => C1 s p (rho x)
    | C2 s p x y => C2 s p (rho x) (rho y)
    | Choice p x => Choice p (rho x)
    end.
  Fixpoint earlier (st : stmt) (T : prog) : option var :=
    match T with
    | [] => None
    | (sh, r) :: T' => if same st (sh, r) then Some (Var (length T') sh) else earlier st T'
    end.
  (** the program, and the variable that each variable is now read as *)
  Fixpoint share (S : prog) : prog * (var -> var) :=
    match S with
    | [] => ([], fun x => x)
    | (sh, r) :: S' =>
        let (T, rho) := share S' in
        let x := Var (length S') sh in
        let r' := rename rho r in
        let (r'', y) := match (if is_choice r then None else earlier (sh, r') T) with
                        | Some y => (Add [Term false any y], y)
                        | None => (r', x)
                        end in
        ((sh, r'') :: T, fun v => if var_eqb v x then y else rho v)
    end.

  Lemma share_length S : length (fst (share S)) = length S.
  Proof.
    induction S as [|[sh r] S IH]; [reflexivity|]. cbn [share]. destruct (share S) as [T rho]. cbn [fst] in IH.
    destruct (is_choice r); [|destruct (earlier _ T)]; cbn [fst length]; now rewrite IH.
  Qed.
  Lemma share_declared S : declared (fst (share S)) = declared S.
  Proof.
    induction S as [|[sh r] S IH]; [reflexivity|]. pose proof (share_length S) as L. cbn [share]. destruct (share S) as [T rho]. cbn [fst] in *.
    destruct (is_choice r); [|destruct (earlier _ T)]; cbn [fst declared]; now rewrite IH, L.
  Qed.
  Lemma earlier_in st T y : earlier st T = Some y -> In y (declared T) /\ shp y = fst st.
  Proof.
    induction T as [|[sh r] T IH]; cbn [earlier declared]; [discriminate|]. destruct (same st (sh, r)) eqn:E.
    - intros H. inversion H; subst. apply same_alike in E. split; [left; reflexivity|]. cbn in *. now destruct E.
    - intros H. apply IH in H. destruct H. split; [right|]; assumption.
  Qed.
  Lemma earlier_value inp E st T y : earlier st T = Some y -> solves inp E T ->
    forall i, In i (box (fst st)) -> E y i = eval inp E (snd st) i.
  Proof.
    induction T as [|[sh r] T IH]; cbn [earlier]; [discriminate|]. destruct (same st (sh, r)) eqn:Es.
    - intros H [H1 _] i Hi. inversion H; subst. apply same_alike in Es. cbn [fst snd] in Es. destruct Es as [<- A].
      rewrite H1 by exact Hi. symmetry. now apply (alike_value (fst st)).
    - intros H [_ H2]. apply IH; assumption.
  Qed.
  Lemma share_shp S : forall x, shp (snd (share S) x) = shp x.
  Proof.
    induction S as [|[sh r] S IH]; intros x; [reflexivity|]. cbn [share]. destruct (share S) as [T rho]. cbn [snd] in IH.
    destruct (is_choice r); [|destruct (earlier _ T) as [y|] eqn:Ey]; cbn [snd];
      (destruct (var_eqb x (Var (length S) sh)) eqn:E; [|apply IH]); apply var_eqb_eq in E; subst; auto.
    apply earlier_in in Ey. now destruct Ey.
  Qed.
  Lemma share_known S : forall x, In x (declared S) -> In (snd (share S) x) (declared S).
  Proof.
    induction S as [|[sh r] S IH]; intros x Hx; [destruct Hx|]. cbn [share]. pose proof (share_declared S) as L.
    destruct (share S) as [T rho]. cbn [fst snd] in *. cbn [declared] in *.
    assert (R : var_eqb x (Var (length S) sh) = false -> In x (declared S)).
    { intros E. destruct Hx as [<-|Hx]; [rewrite var_eqb_refl in E; discriminate|exact Hx]. }
    destruct (is_choice r); [|destruct (earlier _ T) as [y|] eqn:Ey]; cbn [snd];
      (destruct (var_eqb x (Var (length S) sh)) eqn:E; [|right; apply IH, R; reflexivity]); try (left; reflexivity).
    right. apply earlier_in in Ey. rewrite L in Ey. now destruct Ey.
  Qed.
  Lemma ops_rename rho r : ops (rename rho r) = map rho (ops r).
  Proof. destruct r; cbn [rename ops map]; try reflexivity. rewrite !map_map. reflexivity. Qed.
  Theorem share_wf S : wf S -> wf (fst (share S)).
  Proof.
    induction S as [|[sh r] S IH]; [auto|]. cbn [wf share]. intros [HD [Wr W]].
    pose proof (share_declared S) as L. pose proof (share_known S) as KN. pose proof (share_shp S) as SH. specialize (IH W).
    destruct (share S) as [T rho]. cbn [fst snd] in *.
    assert (A : (forall x, In x (ops (rename rho r)) -> In x (declared T)) /\ pointwise sh (rename rho r)).
    { rewrite L. split.
      - rewrite ops_rename. intros x Hx. apply in_map_iff in Hx. destruct Hx as [y [<- Hy]]. apply KN, HD, Hy.
      - destruct r; cbn [rename pointwise ops] in *; auto; rewrite ?map_map; intros x Hx; apply in_map_iff in Hx;
        destruct Hx as [y [<- Hy]]; cbn; rewrite SH; apply Wr; [apply in_map|]; exact Hy. }
    destruct (is_choice r); [|destruct (earlier (sh, rename rho r) T) as [y|] eqn:Ey]; cbn [fst wf]; destruct A as [A1 A2]; try (split; [exact A1|split; [exact A2|exact IH]]).
    apply earlier_in in Ey. destruct Ey as [Dy Sy]. repeat split; auto; intros x [<-|[]]; assumption.
  Qed.
  Lemma cost_rename rho sh r : (forall x, shp (rho x) = shp x) -> cost1 (sh, rename rho r) = cost1 (sh, r).
  Proof.
    intros H. destruct r; cbn [rename SSA.cost1]; unfold cnt1, cnt2, ex1, ex2; rewrite ?H; try reflexivity.
    rewrite zsum_map. cbn [bracket]. f_equal. apply num_ext. intros i _. unfold positive.
    induction l as [|t l IH]; [reflexivity|]. cbn [map existsb minus bracket]. now rewrite IH.
  Qed.
  Theorem share_cost S : (cost (fst (share S)) <= cost S)%Z.
  Proof.
    unfold SSA.cost. induction S as [|[sh r] S IH]; [reflexivity|]. cbn [share zsum]. pose proof (share_shp S) as SH.
    destruct (share S) as [T rho]. cbn [fst snd] in *. pose proof (cost_rename rho sh r SH) as CR.
    pose proof (cost1_nonneg fcost fcost_nonneg (sh, r)).
    destruct (is_choice r); [|destruct (earlier (sh, rename rho r) T) as [y|]]; cbn [fst zsum]; rewrite ?CR, ?cost_copy; lia.
  Qed.
  Lemma eval_rename inp E rho sh r : pointwise sh r ->
    (forall x, shp (rho x) = shp x) -> (forall x, In x (ops r) -> forall i, In i (box (shp x)) -> E (rho x) i = E x i) ->
    forall i, In i (box sh) -> eval inp E (rename rho r) i = eval inp E r i.
  Proof.
    intros W SH H i Hi. rewrite <- (eval_ext rO radd rmul ropp fval inp (fun x => E (rho x)) E sh r W H i Hi).
    destruct r; cbn [rename SSA.eval]; unfold sum1, sum2; rewrite ?SH; try reflexivity.
    - rewrite sum_map. reflexivity.
    - now rewrite map_map.
  Qed.
  Theorem share_value inp E : forall S, wf S -> solves inp E (fst (share S)) ->
    solves inp E S /\ forall x, In x (declared S) -> forall i, In i (box (shp x)) -> E (snd (share S) x) i = E x i.
  Proof.
    induction S as [|[sh r] S IH]; intros W So; [split; [exact I|intros x []]|]. cbn [wf share] in *. destruct W as [HD [Wr W]].
    pose proof (share_length S) as L. pose proof (share_shp S) as SH. specialize (IH W).
    destruct (share S) as [T rho]. cbn [fst snd] in *.
    assert (R : solves inp E T -> forall i, In i (box sh) -> eval inp E (rename rho r) i = eval inp E r i).
    { intros ST. apply eval_rename; auto. intros x Hx. apply IH; auto. }
    destruct (is_choice r); [|destruct (earlier (sh, rename rho r) T) as [y|] eqn:Ey]; cbn [fst snd SSA.solves] in *; rewrite L in So;
    destruct So as [H1 H2]; specialize (IH H2); specialize (R H2); destruct IH as [IH1 IH2].
    1, 3: split; [split; [intros i Hi; rewrite H1, R by exact Hi; reflexivity|exact IH1]|];
      intros x Hx i Hi; destruct (var_eqb x (Var (length S) sh)) eqn:Ex;
      [apply var_eqb_eq in Ex; now subst|destruct Hx as [<-|Hx]; [rewrite var_eqb_refl in Ex; discriminate|apply IH2; assumption]].
    assert (V : forall i, In i (box sh) -> E (Var (length S) sh) i = E y i).
    { intros i Hi. rewrite H1 by exact Hi. cbn [SSA.eval Sums.sum bracket minus operand ind signed any]. ring. }
    split; [split; [|exact IH1]|].
    - intros i Hi. rewrite V, (earlier_value inp E _ _ _ Ey H2) by exact Hi. apply R, Hi.
    - intros x Hx i Hi. destruct (var_eqb x (Var (length S) sh)) eqn:Ex.
      + apply var_eqb_eq in Ex. subst. symmetry. apply V, Hi.
      + destruct Hx as [<-|Hx]; [rewrite var_eqb_refl in Ex; discriminate|apply IH2; assumption].
  Qed.
End Sharing.
