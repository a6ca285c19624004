(** The translation of Compile.v is sound: a well-typed expression, in bounds where it is evaluated, and its statements
    have equal values and equal costs. *)
Require Import String List Bool ZArith Ring Lia Arith.
Import ListNotations.
Require Import TL.Sums TL.Boxes TL.SSA TL.Core TL.Choice TL.Typing TL.Compile.
Open Scope list_scope.

Section Sound.
  Context {K : Type} (rO rI : K) (radd rmul rsub : K -> K -> K) (ropp : K -> K).
  Hypothesis Rth : ring_theory rO rI radd rmul rsub ropp eq.
  Add Ring SoundRing : Rth.
  Context {fn : Type} (fval : fn -> list K -> K) (fcost : fn -> Z) (takes : fn -> nat -> Prop) (R : data).
  Notation expr := (@Core.expr K fn).
  Notation prog := (SSA.prog K fn). Notation rhs := (SSA.rhs K fn).
  Notation sum := (Sums.sum rO radd). Notation ind := (Sums.ind rO).
  Notation value := (Core.eval rO radd rmul rsub fval R).
  Notation ecost := (Core.cost (K := K) fcost R).
  Notation live := (Core.live (K := K) (fn := fn) R). Notation reach := (Core.reach (K := K) (fn := fn) R).
  Notation eval := (SSA.eval rO radd rmul ropp fval). Notation solves := (SSA.solves rO radd rmul ropp fval).
  Notation cost1 := (SSA.cost1 (K := K) fcost). Notation cost := (SSA.cost (K := K) fcost).
  Notation env := (SSA.env (K := K)).
  Variable given : var -> Prop.                                             (** the inputs *)
  Notation checks := (Typing.checks (K := K) takes R).
  Notation applied := (Typing.applied rO radd rmul rsub fval R).
  Notation comp := (Compile.comp (K := K) (fn := fn) R).
  Notation all_proper := (Compile.all_proper (K := K) takes given). Notation proper := (Compile.proper (K := K) takes given).
  Notation emit_tree_sound := (Compile.emit_tree_sound rO radd rmul ropp fval fcost takes).
  Notation spread_moves := (Compile.spread_moves rO rI radd rmul rsub ropp Rth fval fcost).
  Notation element_moves := (Compile.element_moves rO rI radd rmul rsub ropp Rth fval fcost R).
  Notation masked_moves := (Compile.masked_moves rO rI radd rmul rsub ropp Rth fval fcost R).
  Notation means_inner := (Compile.means_inner rO).
  Notation total_cost := (Compile.total_cost (K := K) fcost).
  Notation times_value := (Compile.times_value rO rI radd rmul rsub ropp Rth fval).
  Notation total_value := (Compile.total_value rO rI radd rmul rsub ropp Rth fval).
  Notation sum_of_value := (Compile.sum_of_value rO rI radd rmul rsub ropp Rth fval).
  Notation value_unreached := (Compile.value_unreached rO rI radd rmul rsub ropp Rth fval R).
  Notation emit1_sound := (Compile.emit1_sound rO radd rmul ropp fval fcost).

  (** variables are arrays over some of the indices around an expression, and have the values of r there *)
  Definition placed (C : context) (v : places) (G : shape) (D : list var) : Prop :=
    forall x T, C x = Some T -> (fst (v x) <= List.length G)%nat /\ shaped (firstn (fst (v x)) G) D (flat T) (snd (v x)).
  Definition holds (C : context) (v : places) (G : shape) (m : pred) (E : env) (r : index -> @venv K) : Prop :=
    forall x T, C x = Some T -> means (firstn (fst (v x))) (points G m) E (flat T) (snd (v x)) (fun g => r g x).
  Lemma placed_incl C v G D D' : incl D D' -> placed C v G D -> placed C v G D'.
  Proof. intros I H x T Hx. destruct (H x T Hx) as [L S]. split; [exact L|]. eapply shaped_incl; eauto. Qed.
  Lemma placed_inner C v G n D : placed C v G D -> placed C v (G ++ [n]) D.
  Proof.
    intros H x T Hx. destruct (H x T Hx) as [L S]. split; [rewrite app_length; cbn; lia|].
    rewrite firstn_app. replace (fst (v x) - List.length G)%nat with 0%nat by lia. now rewrite app_nil_r.
  Qed.
  Lemma holds_inner C v G n m E r D : placed C v G D -> holds C v G m E r ->
    holds C v (G ++ [n]) (inner_m G m) E (fun g => r (firstn (List.length G) g)).
  Proof.
    intros P H x T Hx. destruct (P x T Hx) as [L _].
    apply (means_along (firstn (List.length G)) (firstn (fst (v x))) (firstn (fst (v x))) (points G m)
             (points (G ++ [n]) (inner_m G m)) E) with (V := fun g => r g x); [|apply H, Hx].
    intros g' Hg'. apply points_inner in Hg'. destruct Hg' as [g [z [-> [Hg Hz]]]].
    rewrite (firstn_whole g [z] _ (box_length _ _ (proj1 Hg))). split; [exact Hg|].
    apply (firstn_prefix g [z] _ _ (box_length _ _ (proj1 Hg)) L).
  Qed.
  Lemma holds_less C v G (m m' : pred) E r : (forall g, m' g = true -> m g = true) -> holds C v G m E r -> holds C v G m' E r.
  Proof. intros I H x T Hx. eapply means_imp; [|apply (H x T Hx)]. intros g [Hg Mg]. split; auto. Qed.

  (** what comp promises of e *)
  Definition sound (C : context) (P : ienv -> Prop) (e : expr) (T : ty) : Prop :=
    forall v G s m t t' tr, comp v G s m t e = (t', tr) -> wf t -> placed C v G (declared t) ->
    (forall g, points G m g -> P (s g)) ->
    wf t' /\ extends t t' /\ shaped G (declared t') (flat T) tr
    /\ cost t' = (cost t + zsum (box G) (fun g => if m g then ecost (s g) e else 0))%Z
    /\ (all_proper t -> all_proper t')
    /\ forall inp E r, solves inp E t' -> holds C v G m E r ->
       means (fun g => g) (points G m) E (flat T) tr (fun g => value (r g) (s g) e)
       /\ forall A, maps_at A E t -> (forall g, points G m g -> applied A (r g) (s g) e) -> maps_at A E t'.

  Lemma two_sound C P a b T0 T1 : sound C P a T0 -> sound C P b T1 ->
    forall v G s m t t1 A t2 B, comp v G s m t a = (t1, A) -> comp v G s m t1 b = (t2, B) -> wf t -> placed C v G (declared t) ->
    (forall g, points G m g -> P (s g)) ->
    wf t2 /\ extends t t2 /\ shaped G (declared t2) (flat T0) A /\ shaped G (declared t2) (flat T1) B
    /\ cost t2 = (cost t + zsum (box G) (fun g => if m g then ecost (s g) a + ecost (s g) b else 0))%Z
    /\ (all_proper t -> all_proper t2)
    /\ forall inp E r, solves inp E t2 -> holds C v G m E r ->
       means (fun g => g) (points G m) E (flat T0) A (fun g => value (r g) (s g) a)
       /\ means (fun g => g) (points G m) E (flat T1) B (fun g => value (r g) (s g) b)
       /\ forall M, maps_at M E t -> (forall g, points G m g -> applied M (r g) (s g) a /\ applied M (r g) (s g) b) -> maps_at M E t2.
  Proof.
    intros Ha Hb v G s m t t1 A t2 B Ea Eb W Pl HP.
    destruct (Ha v G s m t t1 A Ea W Pl HP) as [W1 [X1 [S1 [C1 [A1 V1]]]]].
    destruct (Hb v G s m t1 t2 B Eb W1 (placed_incl _ _ _ _ _ (extends_declared _ _ X1) Pl) HP) as [W2 [X2 [S2 [C2 [A2 V2]]]]].
    split; [exact W2|]. split; [eapply extends_trans; eassumption|].
    split; [eapply shaped_incl; [apply extends_declared, X2|exact S1]|]. split; [exact S2|].
    split; [rewrite C2, C1, <- Z.add_assoc, <- zsum_add; f_equal; apply zsum_ext; intros g _; destruct (m g); lia|].
    split; [auto|]. intros inp E r So Ho. pose proof (extends_solves rO radd rmul ropp fval inp E _ _ X2 So) as So1.
    destruct (V1 inp E r So1 Ho) as [M1 P1]. destruct (V2 inp E r So Ho) as [M2 P2]. split; [exact M1|]. split; [exact M2|].
    intros M Mt Ap. apply P2; [apply P1; [exact Mt|]|]; intros g Hg; apply Ap, Hg.
  Qed.
  Lemma proper_cons t G r : all_proper t -> proper r -> all_proper ((G, r) :: t).
  Proof. intros H N sh r' [E|E]; [inversion E; subst; exact N|eapply H, E]. Qed.
  (** a statement of two numbers *)
  Lemma binary_sound C P a b e (r : pred -> (index -> ienv) -> var -> var -> rhs) : sound C P a TReal -> sound C P b TReal ->
    (forall v G s m t, comp v G s m t e
       = let (t1, A) := comp v G s m t a in let (t2, B) := comp v G s m t1 b in emit1 t2 G (r m s (scal A) (scal B))) ->
    (forall m s x y, ops (r m s x y) = [x; y]) -> (forall m s x y, quiet (r m s x y)) ->
    (forall G m s x y, shp x = G -> shp y = G -> pointwise G (r m s x y)) ->
    (forall G m s x y, shp x = G -> shp y = G -> (cost1 (G, r m s x y)
       + zsum (box G) (fun g => if m g then ecost (s g) a + ecost (s g) b else 0)
       = zsum (box G) (fun g => if m g then ecost (s g) e else 0))%Z) ->
    (forall inp E G m s x y rr g, shp x = G -> shp y = G -> points G m g ->
       E x g = value rr (s g) a [] [] -> E y g = value rr (s g) b [] [] -> eval inp E (r m s x y) g = value rr (s g) e [] []) ->
    (forall A rr s, applied A rr s e -> applied A rr s a /\ applied A rr s b) -> sound C P e TReal.
  Proof.
    intros Ha Hb Ec Op NM Pw Co Va Ap v G s m t t' tr H W Pl HP. rewrite Ec in H.
    destruct (comp v G s m t a) as [t1 A] eqn:Ea. destruct (comp v G s m t1 b) as [t2 B] eqn:Eb.
    destruct (two_sound C P a b TReal TReal Ha Hb v G s m t t1 A t2 B Ea Eb W Pl HP) as [W2 [X2 [S1 [S2 [C2 [A2 V2]]]]]].
    apply scal_shaped in S1. apply scal_shaped in S2. destruct S1 as [SA DA], S2 as [SB DB].
    assert (t' = (G, r m s (scal A) (scal B)) :: t2) by (inversion H; reflexivity).
    apply emit1_sound in H; [|exact W2|rewrite Op; intros x [<-|[<-|[]]]; assumption|apply Pw; assumption].
    destruct H as [W' [X' [S' [C' V']]]]. split; [exact W'|]. split; [eapply extends_trans; eassumption|]. split; [exact S'|].
    split; [rewrite C', C2, <- (Co G m s (scal A) (scal B) SA SB); lia|].
    split; [intros Ar; subst t'; apply proper_cons; [auto|apply quiet_proper, NM]|].
    intros inp E rr So Ho. pose proof (extends_solves rO radd rmul ropp fval inp E _ _ X' So) as So2.
    destruct (V2 inp E rr So2 Ho) as [M1 [M2 P2]]. split.
    - apply (V' m inp E _ So). intros g Hg. apply (Va inp E G); auto; [apply (scal_means _ _ _ _ M1 g Hg)|apply (scal_means _ _ _ _ M2 g Hg)].
    - intros M Mt Hap. subst t'. constructor; [|apply P2; [exact Mt|]; intros g Hg; apply Ap, Hap, Hg].
      apply quiet_applies, NM.
  Qed.

  Lemma list_sound C P es : (forall a, In a es -> sound C P a TReal) -> forall v G s m t t' xs,
    chain (comp v G s m) t es = (t', xs) -> wf t -> placed C v G (declared t) -> (forall g, points G m g -> P (s g)) ->
    wf t' /\ extends t t' /\ (forall x, In x xs -> shp x = G /\ In x (declared t')) /\ List.length xs = List.length es
    /\ cost t' = (cost t + zsum (box G) (fun g => if m g then fold_right Z.add 0 (map (ecost (s g)) es) else 0))%Z
    /\ (all_proper t -> all_proper t')
    /\ forall inp E r, solves inp E t' -> holds C v G m E r ->
       (forall g, points G m g -> map (fun x => E x g) xs = map (fun a => value (r g) (s g) a [] []) es)
       /\ forall M, maps_at M E t ->
          (forall g, points G m g -> all_of (applied M (r g) (s g)) es) ->
          maps_at M E t'.
  Proof.
    induction es as [|a es IH]; intros Hs v G s m t t' xs H W Pl HP.
    - inversion H; subst; clear H. split; [exact W|]. split; [apply extends_refl|]. split; [intros x []|]. split; [reflexivity|].
      split; [cbn [map fold_right]; rewrite (zsum_ext _ _ (fun _ => 0%Z)) by (intros g _; destruct (m g); reflexivity); rewrite zsum_0; lia|].
      split; [auto|]. intros inp E r So Ho. split; auto.
    - cbn [chain] in H. destruct (comp v G s m t a) as [t1 A] eqn:Ea.
      destruct (chain (comp v G s m) t1 es) as [t2 ys] eqn:Es. inversion H; subst; clear H.
      destruct (Hs a (or_introl eq_refl) v G s m t t1 A Ea W Pl HP) as [W1 [X1 [S1 [C1 [A1 V1]]]]].
      destruct (IH (fun b Hb => Hs b (or_intror Hb)) v G s m t1 t' ys Es W1 (placed_incl _ _ _ _ _ (extends_declared _ _ X1) Pl) HP)
        as [W2 [X2 [S2 [L2 [C2 [A2 V2]]]]]].
      apply scal_shaped in S1. destruct S1 as [SA DA].
      split; [exact W2|]. split; [eapply extends_trans; eassumption|].
      split; [intros x [<-|Hx]; [split; [exact SA|apply (extends_declared _ _ X2), DA]|apply S2, Hx]|]. split; [cbn; congruence|].
      split; [rewrite C2, C1, <- Z.add_assoc, <- zsum_add; f_equal; apply zsum_ext; intros g _; destruct (m g); cbn [map fold_right]; lia|].
      split; [auto|]. intros inp E r So Ho. pose proof (extends_solves rO radd rmul ropp fval inp E _ _ X2 So) as So1.
      destruct (V1 inp E r So1 Ho) as [M1 P1]. destruct (V2 inp E r So Ho) as [M2 P2]. split.
      + intros g Hg. cbn [map]. rewrite (M2 g Hg). f_equal. apply (scal_means _ _ _ _ M1 g Hg).
      + intros M Mt Ap. apply P2; [apply P1; [exact Mt|]|]; intros g Hg; apply (Ap g Hg).
  Qed.

  Theorem compile_sound C P e T : checks C P e T -> sound C P e T.
  Proof.
    induction 1 as [C P x T Hx|C P c|C P a b _ IHa _ IHb|C P a b _ IHa _ IHb|C P a b _ IHa _ IHb|C P f es L _ IH|C P a b T0 T1 _ IHa _ IHb
                   |C P a T0 T1 _ IH|C P a T0 T1 _ IH|C P i n a T _ IH|C P i n a _ IH|C P a n T k _ IH B|C P p a T _ IH|C P x a b T0 T1 _ IHa _ IHb].
    - intros v G s m t t' tr H W Pl HP. cbn [Compile.comp] in H. destruct (Pl x T Hx) as [J Sh].
      rewrite <- (tmap_id (flat T)) in Sh.
      destruct (emit_tree_sound _ _ _ _ _ _ _ _ (spread_moves G (fst (v x)) (points G m) J (fun g Hg => proj1 Hg)) (fun g Hg => proj1 Hg)
                  _ _ _ _ _ H W Sh) as [W' [X' [C' [S' [A' V']]]]].
      split; [exact W'|]. split; [exact X'|]. split; [exact S'|].
      split; [rewrite C', (zsum_ext _ _ (fun _ => 0%Z)) by (intros g _; destruct (m g); reflexivity); rewrite zsum_0; lia|].
      split; [exact (A' given)|]. intros inp E r So Ho. destruct (V' inp E So) as [VM VV]. split; [|intros A MA _; apply VM, MA].
      specialize (VV (fun g => r g x)). rewrite tmap_id in VV. apply VV, Ho, Hx.
    - intros v G s m t t' tr H W Pl HP. cbn [Compile.comp] in H. assert (t' = (G, Const c) :: t) by (inversion H; reflexivity).
      apply emit1_sound in H; [|exact W|intros x []|exact I]. destruct H as [W' [X' [S' [C' V']]]].
      split; [exact W'|]. split; [exact X'|]. split; [exact S'|].
      split; [rewrite C', (zsum_ext (box G) _ (fun _ => 0%Z)) by (intros g _; destruct (m g); reflexivity); rewrite zsum_0; reflexivity|].
      split; [intros Ar; subst t'; apply proper_cons; [auto|exact I]|].
      intros inp E r So Ho. split; [apply (V' m inp E _ So); reflexivity|]. intros M Mt _. subst t'. constructor; [exact I|exact Mt].
    - apply (binary_sound C P a b (EAdd a b) (fun m s x y => sum_of m (fun o => live (s o) a) x false (fun o => live (s o) b) y) IHa IHb); auto; try (intros; exact I).
      + intros G m s x y Hx Hy z [<-|[<-|[]]]; assumption.
      + intros G m s x y Hx Hy. unfold sum_of. rewrite cost_add2. unfold num. rewrite <- zsum_add. apply zsum_ext. intros g _. cbn [Core.cost].
        destruct (m g), (live (s g) a), (live (s g) b); cbn [andb b2z]; lia.
      + intros inp E G m s x y rr g Hx Hy [Hg Mg] Ex Ey.
        rewrite sum_of_value; [cbn [signed Core.eval]; now rewrite Ex, Ey|exact Mg| |]; intros D.
        * rewrite Ex. apply (eval_dead rO rI radd rmul rsub ropp Rth fval R _ _ _ D).
        * rewrite Ey. apply (eval_dead rO rI radd rmul rsub ropp Rth fval R _ _ _ D).
    - apply (binary_sound C P a b (ESub a b) (fun m s x y => sum_of m (fun o => live (s o) a) x true (fun o => live (s o) b) y) IHa IHb); auto; try (intros; exact I).
      + intros G m s x y Hx Hy z [<-|[<-|[]]]; assumption.
      + intros G m s x y Hx Hy. unfold sum_of. rewrite cost_subtract. unfold num. rewrite <- zsum_add. apply zsum_ext. intros g _. cbn [Core.cost].
        destruct (m g), (live (s g) b); cbn [andb b2z]; lia.
      + intros inp E G m s x y rr g Hx Hy [Hg Mg] Ex Ey.
        rewrite sum_of_value; [cbn [signed Core.eval]; rewrite Ex, Ey; ring|exact Mg| |]; intros D.
        * rewrite Ex. apply (eval_dead rO rI radd rmul rsub ropp Rth fval R _ _ _ D).
        * rewrite Ey. apply (eval_dead rO rI radd rmul rsub ropp Rth fval R _ _ _ D).
    - apply (binary_sound C P a b (EMul a b) (fun m _ x y => times m x y) IHa IHb); auto; try (intros; exact I).
      + intros G m s x y Hx Hy. rewrite times_cost by assumption. unfold num. rewrite <- zsum_add. apply zsum_ext. intros g _. cbn [Core.cost].
        destruct (m g); cbn [b2z]; lia.
      + intros inp E G m s x y rr g Hx Hy [Hg Mg] Ex Ey. rewrite (times_value inp E G) by assumption. cbn [Core.eval]. now rewrite Ex, Ey.
    - intros v G s m t t' tr H W Pl HP. cbn [Compile.comp] in H.
      destruct (chain (comp v G s m) t es) as [t1 xs] eqn:Es.
      destruct (list_sound C P es IH v G s m t t1 xs Es W Pl HP) as [W1 [X1 [S1 [L1 [C1 [A1 V1]]]]]].
      assert (t' = (G, Map m f xs) :: t1) by (inversion H; reflexivity).
      apply emit1_sound in H; [|exact W1|intros x Hx; apply S1, Hx|intros x Hx; apply S1, Hx]. destruct H as [W' [X' [S' [C' V']]]].
      split; [exact W'|]. split; [eapply extends_trans; eassumption|]. split; [exact S'|]. split; [|split].
      + rewrite C', C1. cbn [SSA.cost1]. unfold num. rewrite <- Z.add_assoc. f_equal.
        rewrite (Z.mul_comm (zsum _ _)), <- zsum_scale, <- zsum_add. apply zsum_ext. intros g _. cbn [Core.cost]. destruct (m g); cbn [b2z]; lia.
      + intros Ar. subst t'. apply proper_cons; [auto|]. cbn. now rewrite L1.
      + intros inp E r So Ho. pose proof (extends_solves rO radd rmul ropp fval inp E _ _ X' So) as So1.
        destruct (V1 inp E r So1 Ho) as [M1 P1]. split.
        * apply (V' m inp E _ So). intros g Hg. cbn [SSA.eval Core.eval]. rewrite (M1 g Hg), (proj2 Hg). reflexivity.
        * intros M Mt Ap. subst t'. constructor.
          -- cbn [applies fst snd]. intros g Hg Mg. rewrite (M1 g (conj Hg Mg)). apply (Ap g (conj Hg Mg)).
          -- apply P1; [exact Mt|]. intros g Hg. apply (Ap g Hg).
    - intros v G s m t t' tr H W Pl HP. cbn [Compile.comp] in H.
      destruct (comp v G s m t a) as [t1 A] eqn:Ea. destruct (comp v G s m t1 b) as [t2 B] eqn:Eb. inversion H; subst; clear H.
      destruct (two_sound C P a b T0 T1 IHa IHb v G s m t t1 A t' B Ea Eb W Pl HP) as [W2 [X2 [S1 [S2 [C2 [A2 V2]]]]]].
      split; [exact W2|]. split; [exact X2|]. split; [cbn; auto|]. split; [exact C2|]. split; [exact A2|].
      intros inp E r So Ho. destruct (V2 inp E r So Ho) as [M1 [M2 P2]]. split; [split; [exact M1|exact M2]|exact P2].
    - intros v G s m t t' tr H W Pl HP. cbn [Compile.comp] in H. destruct (comp v G s m t a) as [t1 A] eqn:Ea. inversion H; subst; clear H.
      destruct (IH v G s m t t' A Ea W Pl HP) as [W1 [X1 [S1 [C1 [A1 V1]]]]]. destruct A as [x|l r]; cbn [flat shaped] in S1; [destruct S1|].
      split; [exact W1|]. split; [exact X1|]. split; [apply S1|]. split; [exact C1|]. split; [exact A1|].
      intros inp E rr So Ho. destruct (V1 inp E rr So Ho) as [[M1 M2] P1]. split; [exact M1|exact P1].
    - intros v G s m t t' tr H W Pl HP. cbn [Compile.comp] in H. destruct (comp v G s m t a) as [t1 A] eqn:Ea. inversion H; subst; clear H.
      destruct (IH v G s m t t' A Ea W Pl HP) as [W1 [X1 [S1 [C1 [A1 V1]]]]]. destruct A as [x|l r]; cbn [flat shaped] in S1; [destruct S1|].
      split; [exact W1|]. split; [exact X1|]. split; [apply S1|]. split; [exact C1|]. split; [exact A1|].
      intros inp E rr So Ho. destruct (V1 inp E rr So Ho) as [[M1 M2] P1]. split; [exact M2|exact P1].
    - intros v G s m t t' tr H W Pl HP. cbn [Compile.comp] in H.
      destruct (IH v (G ++ [n]) (inner_s G s i) (inner_m G m) t t' tr H W (placed_inner _ _ _ n _ Pl)) as [W1 [X1 [S1 [C1 [A1 V1]]]]].
      { intros g' Hg'. apply points_inner in Hg'. destruct Hg' as [g [z [-> [Hg Hz]]]]. rewrite inner_s_at by apply Hg.
        exists (s g), z. repeat split; auto. }
      split; [exact W1|]. split; [exact X1|]. split; [apply shaped_inner, S1|]. split; [rewrite C1, inner_cost; reflexivity|]. split; [exact A1|].
      intros inp E r So Ho. destruct (V1 inp E _ So (holds_inner _ _ _ n _ _ _ _ Pl Ho)) as [M1 P1]. split.
      + apply (means_ext _ _ _ _ _ _ _) with (2 := means_inner G n m E _ _ _ M1). intros g Hg d [|z w]; cbn [Core.eval]; [reflexivity|].
        destruct (inside n z) eqn:Hz; cbn [Sums.ind]; [|reflexivity].
        now rewrite inner_s_at, (firstn_whole g [z] _ (box_length _ _ (proj1 Hg))) by apply Hg.
      + intros A MA Ap. apply P1; [exact MA|]. intros g' Hg'. apply points_inner in Hg'. destruct Hg' as [g [z [-> [Hg Hz]]]].
        rewrite inner_s_at, (firstn_whole g [z] _ (box_length _ _ (proj1 Hg))) by apply Hg. apply (Ap g Hg z Hz).
    - intros v G s m t t' tr H W Pl HP. cbn [Compile.comp] in H.
      destruct (comp v (G ++ [n]) (inner_s G s i) (inner_m G m) t a) as [t1 A] eqn:Ea.
      destruct (IH v (G ++ [n]) (inner_s G s i) (inner_m G m) t t1 A Ea W (placed_inner _ _ _ n _ Pl)) as [W1 [X1 [S1 [C1 [A1 V1]]]]].
      { intros g' Hg'. apply points_inner in Hg'. destruct Hg' as [g [z [-> [Hg Hz]]]]. rewrite inner_s_at by apply Hg.
        exists (s g), z. repeat split; auto. }
      apply scal_shaped in S1. destruct S1 as [SA DA].
      set (rhs1 := total G m (fun j => reach (inner_s G s i j) a) (scal A)) in *.
      assert (t' = (G, rhs1) :: t1) by (inversion H; reflexivity).
      apply emit1_sound in H; [|exact W1|intros x [<-|[]]; exact DA|exact I]. destruct H as [W' [X' [S' [C' V']]]].
      split; [exact W'|]. split; [eapply extends_trans; eassumption|]. split; [exact S'|]. split; [|split].
      + rewrite C', C1, inner_cost. unfold rhs1. rewrite (total_cost G n) by exact SA. rewrite <- Z.add_assoc, <- zsum_add. f_equal.
        apply zsum_ext. intros g Hg. cbn [Core.cost]. destruct (m g); [|reflexivity].
        rewrite zsum_add. rewrite (zsum_ext (zrange n) (fun z => b2z (reach (inner_s G s i (g ++ [z])) a)) (fun z => b2z (reach (upd (s g) i z) a)))
          by (intros z _; now rewrite inner_s_at).
        rewrite (existsb_ext (fun z => reach (inner_s G s i (g ++ [z])) a) (fun z => reach (upd (s g) i z) a)) by (intros z _; now rewrite inner_s_at).
        lia.
      + intros Ar. subst t'. apply proper_cons; [auto|exact I].
      + intros inp E r So Ho. pose proof (extends_solves rO radd rmul ropp fval inp E _ _ X' So) as So1.
        destruct (V1 inp E _ So1 (holds_inner _ _ _ n _ _ _ _ Pl Ho)) as [M1 P1].
        assert (EA : forall g z, points G m g -> In z (zrange n) -> E (scal A) (g ++ [z]) = value (r g) (upd (s g) i z) a [] []).
        { intros g z [Hg Mg] Hz. apply zrange_inside in Hz. rewrite (scal_means _ _ _ _ M1 (g ++ [z])).
          - now rewrite inner_s_at, (firstn_whole g [z] _ (box_length _ _ Hg)).
          - split; [apply in_inner; eauto|now rewrite inner_m_at]. }
        split.
        * apply (V' m inp E _ So). intros g Hg. unfold rhs1. rewrite (total_value inp E G n m _ (scal A) g SA (proj1 Hg) (proj2 Hg)).
          2: { intros z Hz Hr. rewrite EA by assumption. rewrite inner_s_at in Hr by apply Hg. now apply value_unreached. }
          cbn [Core.eval]. apply sum_ext. intros z Hz. now apply EA.
        * intros M Mt Ap. subst t'. constructor; [exact I|]. apply P1; [exact Mt|].
          intros g' Hg'. apply points_inner in Hg'. destruct Hg' as [g [z [-> [Hg Hz]]]].
          rewrite inner_s_at, (firstn_whole g [z] _ (box_length _ _ (proj1 Hg))) by apply Hg. apply (Ap g Hg z Hz).
    - intros v G s m t t' tr H W Pl HP. cbn [Compile.comp] in H. destruct (comp v G s m t a) as [t1 A] eqn:Ea.
      destruct (IH v G s m t t1 A Ea W Pl HP) as [W1 [X1 [S1 [C1 [A1 V1]]]]]. cbn [flat] in S1.
      destruct (emit_tree_sound _ _ _ _ _ _ _ _ (element_moves G s k n (points G m) (fun g Hg => proj1 Hg) (fun g Hg => B _ (HP g Hg)))
                  (fun g Hg => proj1 Hg) _ _ _ _ _ H W1 S1) as [W' [X' [C' [S' [A' V']]]]].
      split; [exact W'|]. split; [eapply extends_trans; eassumption|]. split; [exact S'|]. split; [rewrite C', C1; reflexivity|]. split; [auto|].
      intros inp E r So Ho. destruct (V' inp E So) as [VM VV].
      destruct (V1 inp E r (extends_solves rO radd rmul ropp fval inp E _ _ X' So) Ho) as [M1 P1].
      split; [apply (VV _ M1)|]. intros M Mt Ap. apply VM, P1; assumption.
    - intros v G s m t t' tr H W Pl HP. cbn [Compile.comp] in H.
      destruct (comp v G s (fun o => m o && pval R (s o) p) t a) as [t1 A] eqn:Ea.
      destruct (IH v G s (fun o => m o && pval R (s o) p) t t1 A Ea W Pl) as [W1 [X1 [S1 [C1 [A1 V1]]]]].
      { intros g [Hg Mg]. apply andb_prop in Mg. destruct Mg as [Mg Mp]. split; [apply HP; split|]; assumption. }
      rewrite <- (tmap_id (flat T)) in S1.
      destruct (emit_tree_sound _ _ _ _ _ _ _ _ (masked_moves G s m p) (fun g Hg => proj1 Hg) _ _ _ _ _ H W1 S1) as [W' [X' [C' [S' [A' V']]]]].
      split; [exact W'|]. split; [eapply extends_trans; eassumption|]. split; [exact S'|].
      split; [rewrite C', C1; f_equal; apply zsum_ext; intros g _; cbn [Core.cost]; destruct (m g), (pval R (s g) p); reflexivity|].
      split; [auto|]. intros inp E r So Ho. destruct (V' inp E So) as [VM VV].
      destruct (V1 inp E r (extends_solves rO radd rmul ropp fval inp E _ _ X' So)) as [M1 P1].
      { apply (holds_less C v G m); [|exact Ho]. intros g Mg. now apply andb_prop in Mg. }
      split.
      + specialize (VV (fun g => value (r g) (s g) a)). rewrite tmap_id in VV. apply (VV M1).
      + intros M Mt Ap. apply VM, P1; [exact Mt|]. intros g [Hg Mg]. apply andb_prop in Mg. destruct Mg as [Mg Mp].
        apply (Ap g (conj Hg Mg) Mp).
    - intros v G s m t t' tr H W Pl HP. cbn [Compile.comp] in H. destruct (comp v G s m t a) as [t1 A] eqn:Ea.
      destruct (IHa v G s m t t1 A Ea W Pl HP) as [W1 [X1 [S1 [C1 [A1 V1]]]]].
      assert (Pl' : placed (upd C x (Some T0)) (upd v x (List.length G, A)) G (declared t1)).
      { intros y T Hy. unfold upd in *. destruct (String.eqb x y).
        - inversion Hy; subst. cbn [fst snd]. split; [lia|]. now rewrite firstn_all.
        - destruct (Pl y T Hy) as [L S]. split; [exact L|]. eapply shaped_incl; [apply extends_declared, X1|exact S]. }
      destruct (IHb _ G s m t1 t' tr H W1 Pl' HP) as [W2 [X2 [S2 [C2 [A2 V2]]]]].
      split; [exact W2|]. split; [eapply extends_trans; eassumption|]. split; [exact S2|].
      split; [rewrite C2, C1, <- Z.add_assoc, <- zsum_add; f_equal; apply zsum_ext; intros g _; cbn [Core.cost]; destruct (m g); lia|].
      split; [auto|]. intros inp E r So Ho. pose proof (extends_solves rO radd rmul ropp fval inp E _ _ X2 So) as So1.
      destruct (V1 inp E r So1 Ho) as [M1 P1].
      destruct (V2 inp E (fun g => upd (r g) x (value (r g) (s g) a)) So) as [M2 P2].
      { intros y T Hy. unfold upd in *. destruct (String.eqb x y); [|apply Ho, Hy]. inversion Hy; subst. cbn [fst snd].
        apply (means_along (fun g => g) (fun g => g) (firstn (List.length G)) (points G m) (points G m) E) with (V := fun g => value (r g) (s g) a); [|exact M1].
        intros g Hg. split; [exact Hg|]. rewrite <- (box_length _ _ (proj1 Hg)). apply firstn_all. }
      split; [exact M2|]. intros M Mt Ap. apply P2; [apply P1; [exact Mt|]|]; intros g Hg; apply (Ap g Hg).
  Qed.
End Sound.
