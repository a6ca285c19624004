(** The headline for programs with conditions on values anywhere (Questions.v): near a point at which no two numbers that are
    compared are equal all answers stay as they are, so the adjoint that is made for them is the gradient. *)
Require Import String List Bool ZArith Reals Lra.
From Coquelicot Require Import Coquelicot.
Import ListNotations.
Require Import TL.Sums TL.Boxes TL.SSA TL.Adjoint TL.Transpose TL.Core TL.Typing TL.Compile TL.Program TL.Functions TL.Conditions TL.Questions.
Require Import TL.reals.Gradient TL.reals.Functions TL.reals.Program TL.reals.Conditions.
Open Scope R_scope.

Section Questions.
  Context {fn : Type} (fval : fn -> list R -> R) (partial : fn -> nat -> list R -> R) (takes : fn -> nat -> Prop).
  Notation expr := (@Core.expr R fn).
  Notation cexpr := (@Questions.cexpr R fn).
  Notation venv := (@Core.venv R).
  Notation env := (SSA.env (K := R)).
  Notation differentiable := (Gradient.differentiable fval partial).
  Notation value := (Core.eval 0 Rplus Rmult Rminus fval).
  Notation checks := (Typing.checks (K := R) takes).
  Notation well_formed := (Program.well_formed takes).
  Notation meaning rel := (Program.meaning fval rel).
  Notation arguments ps inp := (arguments_of 0 inp (inputs ps)).
  Notation applied rel := (Typing.applied 0 Rplus Rmult Rminus fval rel).
  Notation reply := (Questions.reply (K := R) ask).
  Notation fits := (Questions.fits 0 Rplus Rmult Rminus fval ask).
  Notation decided := (Questions.decided 0 Rplus Rmult Rminus fval ask).
  Notation ceval := (Questions.ceval 0 Rplus Rmult Rminus fval ask).

  (** * Each number of a value is differentiable along curves of what it is made of *)
  Lemma within_cons n : forall S d w, within (tmap (cons n) S) d w -> exists z w', w = z :: w' /\ inside n z = true /\ within S d w'.
  Proof.
    induction S as [sh|a IHa b IHb]; intros d w H; cbn [tmap within] in H.
    - destruct d; [|contradiction]. destruct w as [|z w]; [apply box_length in H; discriminate|].
      apply box_cons in H. destruct H as [Hz Hw]. exists z, w. cbn. auto.
    - destruct d as [|[|] d]; [contradiction|exact (IHa _ _ H)|exact (IHb _ _ H)].
  Qed.
  Lemma within_more n z : inside n z = true -> forall S d w, within S d w -> within (tmap (cons n) S) d (z :: w).
  Proof.
    intros Hz. induction S as [sh|a IHa b IHb]; intros d w H; cbn [tmap within] in *.
    - destruct d; [|contradiction]. apply box_cons. auto.
    - destruct d as [|[|] d]; [contradiction|exact (IHa _ _ H)|exact (IHb _ _ H)].
  Qed.
  Definition curves (C : @context) (r : R -> venv) (t : R) : Prop :=
    forall x T, C x = Some T -> forall d w, within (flat T) d w -> ex_derive (fun u => r u x d w) t.
  Lemma number_only d w : within (flat TReal) d w -> d = [] /\ w = [].
  Proof. cbn. destruct d; [|contradiction]. intros [<-|[]]. auto. Qed.
  Lemma ex_ind b (g : R -> R) t : (b = true -> ex_derive g t) -> ex_derive (fun u => Rind b (g u)) t.
  Proof. intros H. destruct b; cbn; [apply H; reflexivity|]. exists 0. apply derive_const. Qed.
  Lemma ex_sum {A} (l : list A) (g : A -> R -> R) t : (forall a, In a l -> ex_derive (g a) t) -> ex_derive (fun u => Rsum l (fun a => g a u)) t.
  Proof. intros H. exists (Rsum l (fun a => Derive (g a) t)). apply derive_sum. intros a Ha. apply Derive_correct, H, Ha. Qed.
  Lemma eval_ex_derive rel C P e T : checks rel C P e T -> forall r t s, P s -> curves C r t -> applied rel differentiable (r t) s e ->
    forall d w, within (flat T) d w -> ex_derive (fun u => value rel (r u) s e d w) t.
  Proof.
    induction 1 as [C P x T Hx|C P c|C P a b _ IHa _ IHb|C P a b _ IHa _ IHb|C P a b _ IHa _ IHb|C P f es L Hc IH|C P a b T0 T1 _ IHa _ IHb
                   |C P a T0 T1 _ IH|C P a T0 T1 _ IH|C P i n a T _ IH|C P i n a _ IH|C P a n T k _ IH B|C P p a T _ IH|C P x a b T0 T1 _ IHa _ IHb];
    intros r t s Ps Cu Ap d w Hw; cbn [Core.eval Typing.applied] in *.
    - exact (Cu x T Hx d w Hw).
    - exists 0. apply derive_const.
    - destruct Ap as [A0 A1]. apply (ex_derive_plus (K := R_AbsRing) (V := R_NormedModule)); [now apply IHa|now apply IHb].
    - destruct Ap as [A0 A1]. apply (ex_derive_minus (K := R_AbsRing) (V := R_NormedModule)); [now apply IHa|now apply IHb].
    - destruct Ap as [A0 A1]. apply ex_derive_mult; [now apply IHa|now apply IHb].
    - destruct (number_only _ _ Hw) as [-> ->]. destruct Ap as [A0 A1].
      set (gs := map (fun a (u : R) => value rel (r u) s a [] []) es).
      exists (SSA.dmap 0 Rplus Rmult partial f (map (fun a => value rel (r t) s a [] []) es) 0 (map (fun g => Derive g t) gs)).
      apply (is_derive_ext (fun u => fval f (map (fun g => g u) gs))).
      { intros u. unfold gs. now rewrite map_map. }
      apply A1; [unfold gs; now rewrite map_map|]. unfold gs. clear A1 L gs. induction es as [|a es IHes]; constructor.
      + apply Derive_correct. apply IH; [left; reflexivity|exact Ps|exact Cu|apply A0|exact Hw].
      + apply IHes; [intros b Hb; apply Hc; right; exact Hb|intros b Hb; apply IH; right; exact Hb|apply A0].
    - destruct Ap as [A0 A1]. destruct d as [|[|] d]; [destruct Hw|now apply IHa|now apply IHb].
    - apply IH; auto.
    - apply IH; auto.
    - destruct (within_cons n (flat T) d w Hw) as [z [w' [-> [Hz Hw']]]]. rewrite Hz. cbn [ind]. apply IH; auto. exists s, z. auto.
    - apply ex_sum. intros z Hz. apply zrange_inside in Hz. apply IH; auto. exists s, z. auto.
    - apply IH; auto. cbn [flat]. apply within_more; [apply B, Ps|exact Hw].
    - apply ex_ind. intros Hp. apply IH; auto.
    - destruct Ap as [A0 A1]. apply (IHb (fun u => upd (r u) x (value rel (r u) s a)) t s Ps); auto.
      intros y T' Hy d' w' Hw'. unfold upd in *. destruct (String.eqb x y); [|exact (Cu y T' Hy d' w' Hw')].
      inversion Hy; subst. now apply IHa.
  Qed.

  (** * No two numbers that are compared are equal *)
  Fixpoint strict (rel : data) (dims : string -> list ix) (D : list ix) (r : venv) (s : ienv) (e : cexpr) : Prop :=
    match e with
    | CVar _ | CCst _ => True
    | CAdd a b | CSub a b | CMul a b | CPair a b => strict rel dims D r s a /\ strict rel dims D r s b
    | CFn _ es => every (strict rel dims D r s) es
    | CFst a | CSnd a | CAcc a _ => strict rel dims D r s a
    | CGen i n a | CSum i n a => forall z, inside n z = true -> strict rel dims (D ++ [i]) r (upd s i z) a
    | CInd p a => pval rel s (placed_p dims p) = true -> strict rel dims D r s a
    | CLet x a b => strict rel dims D r s a /\ strict rel dims D (upd r x (value rel r s (erase dims D a))) s b
    | CAsk c bs p o a b e =>
        let D' := D ++ bnames bs in
        (forall zs, In zs (bbox bs) -> pval rel (upds s bs zs) (placed_p dims p) = true ->
           value rel r (upds s bs zs) (erase dims D' a) [] [] <> value rel r (upds s bs zs) (erase dims D' b) [] []
           /\ strict rel dims D' r (upds s bs zs) a /\ strict rel dims D' r (upds s bs zs) b)
        /\ strict rel (upd dims c D) D r s e
    end.

  Lemma checks_inside rel e : forall bs C P T s zs, checks rel C P (gens bs e) T -> P s -> In zs (bbox bs) ->
    exists (P' : ienv -> Prop) T', checks rel C P' e T' /\ P' (upds s bs zs).
  Proof.
    induction bs as [|[i n] bs IH]; intros C P T s [|z zs] H Ps Hz; try (apply bbox_length in Hz; discriminate).
    - exists P, T. auto.
    - apply box_cons in Hz. destruct Hz as [Hn Hz]. inversion H as [| | | | | | | | |? ? ? ? ? T0 Hc| | | |]; subst.
      apply (IH _ _ _ (upd s i z) zs Hc); [|exact Hz]. exists s, z. auto.
  Qed.
  Lemma applied_inside rel A e : forall bs r s zs, applied rel A r s (gens bs e) -> In zs (bbox bs) -> applied rel A r (upds s bs zs) e.
  Proof.
    induction bs as [|[i n] bs IH]; intros r s [|z zs] H Hz; try (apply bbox_length in Hz; discriminate); [exact H|].
    apply box_cons in Hz. destruct Hz as [Hn Hz]. cbn [gens Typing.applied upds] in *. apply IH; [apply H, Hn|exact Hz].
  Qed.
  (** what is compared is well-formed where it is compared *)
  Lemma compared_parts rel C P e bs p a b T s r : checks rel C P (EFst (EPair e (compared bs p a b))) T -> P s ->
    applied rel differentiable r s (EFst (EPair e (compared bs p a b))) ->
    forall zs, In zs (bbox bs) -> pval rel (upds s bs zs) p = true -> exists P' : ienv -> Prop, P' (upds s bs zs)
      /\ (checks rel C P' a TReal /\ checks rel C P' b TReal)
      /\ (applied rel differentiable r (upds s bs zs) a /\ applied rel differentiable r (upds s bs zs) b).
  Proof.
    intros Ck Ps Ap zs Hz Hp. inversion Ck as [| | | | | | |? ? ? ? T1 Hpair| | | | | |]; subst.
    inversion Hpair as [| | | | | |? ? ? ? ? ? _ Hq| | | | | | |]; subst. unfold compared in *.
    destruct (checks_inside rel _ bs C P T1 s zs Hq Ps Hz) as [P' [T' [Hc HP]]].
    inversion Hc as [| | | | | | | | | | | |? ? ? ? ? Hm|]; subst. inversion Hm as [| | | |? ? ? ? Ha Hb| | | | | | | | |]; subst.
    exists (fun s => P' s /\ pval rel s p = true). split; [auto|]. split; [auto|].
    cbn [Typing.applied] in Ap. destruct Ap as [_ Ap]. apply (applied_inside rel _ _ _ _ _ zs) in Ap; [|exact Hz]. cbn [Typing.applied] in Ap. auto.
  Qed.

  Lemma locally_inside n (P : Z -> R -> Prop) t : (forall z, inside n z = true -> locally t (P z)) ->
    locally t (fun u => forall z, inside n z = true -> P z u).
  Proof.
    intros H. eapply filter_imp; [|apply (locally_all (zrange n) P t)].
    - cbv beta. intros u Hu z Hz. apply Hu. now apply zrange_inside.
    - intros z Hz. apply H. now apply zrange_inside.
  Qed.
  Lemma locally_when (b : bool) (P : R -> Prop) t : (b = true -> locally t P) -> locally t (fun u => b = true -> P u).
  Proof. intros H. destruct b; [eapply filter_imp; [|apply H; reflexivity]; auto|]. apply filter_forall. discriminate. Qed.

  (** answers stay *)
  Theorem fits_near rel : forall (e : cexpr) C P T dims D r t s, checks rel C P (erase dims D e) T -> P s -> curves C r t ->
    applied rel differentiable (r t) s (erase dims D e) -> fits rel dims D (r t) s e -> strict rel dims D (r t) s e ->
    locally t (fun u => fits rel dims D (r u) s e).
  Proof.
    fix IH 1. intros [x|c|a b|a b|a b|f es|a b|a|a|i n a|i n a|a k|p a|x a b|c bs p o a b e] C P T dims D r t s Ck Ps Cu Ap F S;
    cbn [erase Questions.fits strict Typing.applied] in *; try (apply filter_forall; intros u; exact Logic.I);
    try (inversion Ck; subst; destruct Ap as [A0 A1], F as [F0 F1], S as [S0 S1]; apply filter_and; eapply IH; eassumption).
    - assert (Q : forall a, In a es -> checks rel C P (erase dims D a) TReal).
      { inversion Ck as [| | | | |? ? ? ? _ Hes| | | | | | | |]; subst. intros a Ha. apply Hes, in_map, Ha. }
      clear Ck. destruct Ap as [A0 _]. induction es as [|a es IHes]; [apply filter_forall; intros u; exact Logic.I|].
      cbn in A0, F, S |- *. destruct A0 as [A0 A1], F as [F0 F1], S as [S0 S1]. apply filter_and.
      + eapply IH; try eassumption. apply Q. left. reflexivity.
      + apply IHes; auto. intros b Hb. apply Q. right. exact Hb.
    - inversion Ck; subst; eapply IH; eassumption.
    - inversion Ck; subst; eapply IH; eassumption.
    - inversion Ck as [| | | | | | | | |? ? ? ? ? T0 Hc| | | |]; subst. apply locally_inside. intros z Hz.
      eapply IH; [exact Hc|exists s, z; auto|exact Cu|apply Ap, Hz|apply F, Hz|apply S, Hz].
    - inversion Ck as [| | | | | | | | | |? ? ? ? ? Hc| | |]; subst. apply locally_inside. intros z Hz.
      eapply IH; [exact Hc|exists s, z; auto|exact Cu|apply Ap, Hz|apply F, Hz|apply S, Hz].
    - inversion Ck; subst; eapply IH; eassumption.
    - inversion Ck as [| | | | | | | | | | | |? ? ? ? ? Hc|]; subst. apply locally_when. intros Hp.
      eapply IH; [exact Hc|split; [exact Ps|exact Hp]|exact Cu|apply Ap, Hp|apply F, Hp|apply S, Hp].
    - inversion Ck as [| | | | | | | | | | | | |? ? ? ? ? T0 ? Ha Hb]; subst. destruct Ap as [A0 A1], F as [F0 F1], S as [S0 S1]. apply filter_and.
      + eapply IH; eassumption.
      + apply (IH b (upd C x (Some T0)) P T dims D (fun u => upd (r u) x (value rel (r u) s (erase dims D a))) t s); auto.
        intros y T' Hy d' w' Hw'. unfold upd in *. destruct (String.eqb x y); [|exact (Cu y T' Hy d' w' Hw')].
        inversion Hy; subst. eapply eval_ex_derive; eassumption.
    - destruct F as [F0 [F1 F2]], S as [S0 S2].
      pose proof (compared_parts rel C P _ bs _ _ _ T s (r t) Ck Ps Ap) as Q. apply filter_and; [|apply filter_and].
      + apply locally_all. intros zs Hz. apply locally_when. intros Hp. destruct (F0 zs Hz Hp) as [Fa Fb].
        destruct (S0 zs Hz Hp) as [_ [Sa Sb]]. destruct (Q zs Hz Hp) as [P' [HP [[Ca Cb] [Aa Ab]]]]. apply filter_and; eapply IH; eassumption.
      + assert (L : locally t (fun u => forall zs, In zs (bbox bs) ->
          reply rel s bs (placed_p dims p) o (fun s => value rel (r u) s (erase dims (D ++ bnames bs) a)) (fun s => value rel (r u) s (erase dims (D ++ bnames bs) b)) zs
          = entry rel c (map s D ++ zs))).
        { apply locally_all. intros zs Hz. rewrite F1. unfold Questions.reply. destruct (existsb (leqb zs) (bbox bs)); cbn [andb];
            [|apply filter_forall; reflexivity]. destruct (pval rel (upds s bs zs) (placed_p dims p)) eqn:Hp; cbn [andb]; [|apply filter_forall; reflexivity].
          destruct (S0 zs Hz Hp) as [Ne _]. destruct (Q zs Hz Hp) as [P' [HP [[Ca Cb] [Aa Ab]]]].
          assert (V : forall n, checks rel C P' n TReal -> applied rel differentiable (r t) (upds s bs zs) n ->
            continuous (fun u => value rel (r u) (upds s bs zs) n [] []) t).
          { intros n Hn An. destruct (eval_ex_derive rel C P' n TReal Hn r t (upds s bs zs) HP Cu An [] []) as [d Hd]; [left; reflexivity|].
            exact (derive_continuous _ _ d Hd). }
          eapply filter_imp; [|apply (ask_stays o _ _ t (V _ Ca Aa) (V _ Cb Ab) Ne)]. cbv beta. intros u Hu. now rewrite Hu. }
        eapply filter_imp; [|exact L]. cbv beta. intros u Hu zs. destruct (existsb (leqb zs) (bbox bs)) eqn:Ez.
        * apply existsb_exists in Ez. destruct Ez as [zs' [Hz Ez]]. apply leqb_eq in Ez. subst zs'. symmetry. apply Hu, Hz.
        * rewrite F1. unfold Questions.reply. now rewrite Ez.
      + inversion Ck as [| | | | | | |? ? ? ? T1 Hpair| | | | | |]; subst. inversion Hpair as [| | | | | |? ? ? ? ? ? He _| | | | | | |]; subst.
        destruct Ap as [Ae _]. eapply IH; eassumption.
  Qed.

  (** ** A whole program *)
  Lemma held_derive (inp : R -> env) t : forall tr, (forall y, In y (leaves tr) -> forall i, In i (box (shp y)) -> ex_derive (fun u => inp u y i) t) ->
    forall d w, within (tmap shp tr) d w -> ex_derive (fun u => held 0 (inp u) tr d w) t.
  Proof.
    induction tr as [y|l IHl q IHq]; intros H d w Hw; cbn [tmap within held leaves] in *.
    - destruct d; [|contradiction]. apply H; [left; reflexivity|exact Hw].
    - destruct d as [|[|] d]; [contradiction|apply IHl|apply IHq]; try exact Hw; intros y Hy; apply H, in_or_app; auto.
  Qed.
  Lemma arguments_curves ps (inp : R -> env) t :
    (forall y, In y (input_leaves ps) -> forall i, In i (box (shp y)) -> ex_derive (fun u => inp u y i) t) ->
    curves (context_of ps) (fun u => arguments ps (inp u)) t.
  Proof.
    unfold inputs, input_leaves, inputs. generalize 0%nat as n. induction ps as [|[x T] ps IH]; intros n H y T' Hy d w Hw; cbn [context_of] in Hy; [discriminate|].
    cbn [inputs_from arguments_of flat_map snd] in *. unfold upd in *. destruct (String.eqb x y).
    - inversion Hy; subst. apply held_derive; [|now rewrite number_shapes]. intros v Hv. apply H, in_or_app. auto.
    - eapply IH; [|exact Hy|exact Hw]. intros v Hv. apply H, in_or_app. auto.
  Qed.
  (** a program with conditions means, nearby, what it means for the answers here *)
  Theorem questions_stay rel ps L (e : cexpr) T (inp : R -> env) t : neat L [] e -> unasked L e -> NoDup (asked e) ->
    let here := decided rel (arguments ps (inp t)) e in
    well_formed here ps (plain e) T -> applied here differentiable (arguments ps (inp t)) s0 (plain e) ->
    strict here nowhere [] (arguments ps (inp t)) s0 e ->
    (forall y, In y (input_leaves ps) -> forall i, In i (box (shp y)) -> ex_derive (fun u => inp u y i) t) ->
    locally t (fun u => forall d w, ceval rel (arguments ps (inp u)) s0 e d w = meaning here ps (plain e) (inp u) d w).
  Proof.
    intros N A U here Ck Ap St HI.
    pose proof (decided_fits 0 Rplus Rmult Rminus fval ask L rel (arguments ps (inp t)) e N A U) as F.
    pose proof (fits_near here e _ _ T nowhere [] (fun u => arguments ps (inp u)) t s0 Ck eq_refl (arguments_curves ps inp t HI) Ap F St) as Q.
    eapply filter_imp; [|exact Q]. cbv beta. intros u Hu d w.
    apply (erase_value 0 Rplus Rmult Rminus fval ask here e L [] nowhere rel _ _ s0 N); auto.
    - intros y _ i [].
    - now apply decided_linked.
  Qed.
End Questions.

(** The headline for programs with conditions on values anywhere: [here] are the answers at the arguments inp, and t is the
    program with its adjoint, made for these answers. Then
    - t computes the value of the program with conditions;
    - where scalar functions are applied in their domains and no two numbers that are compared are equal, the program with
      conditions, whose answers may change with its arguments, has the derivative that t computes, along every
      differentiable curve; so each element of a gradient is the partial derivative;
    - t costs at most 4 times the program with its comparisons, inputs and outputs counted.
    Premises are that questions have names of their own, which only their scopes look up, and that no index is bound twice; and
    that the program of Figure 3 that it is for these answers is well-typed and in bounds. *)
Notation asking := (Questions.ceval 0 Rplus Rmult Rminus fval ask).
Definition asking_objective rel (ps : parameters) (e : @cexpr R symbol) (T : ty) (w inp : env) : R :=
  Program.paired 0 Rplus Rmult (flat T) (held 0 w (cotangent ps T)) (asking rel (arguments_of 0 inp (inputs ps)) s0 e).
Theorem questions_have_gradient rel ps L (e : @cexpr R symbol) T (inp : env) t grads : neat L [] e -> unasked L e -> NoDup (asked e) ->
  let here := Questions.decided 0 Rplus Rmult Rminus fval ask rel (arguments_of 0 inp (inputs ps)) e in
  let smooth := inside_domains here ps (plain e) inp /\ strict fval here nowhere [] (arguments_of 0 inp (inputs ps)) s0 e in
  well_formed takes here ps (plain e) T -> derivative DT here ps (plain e) T = (t, grads) ->
  (forall d w, within (flat T) d w ->
     held 0 (run inp t) (snd (compiled here ps (plain e))) d w = asking rel (arguments_of 0 inp (inputs ps)) s0 e d w)
  /\ map tgt grads = input_leaves ps
  /\ (smooth -> forall (along : R -> env) dinp u0, along u0 = inp ->
       (forall y, In y (input_leaves ps) -> forall i, In i (box (shp y)) -> is_derive (fun u => along u y i) u0 (dinp y i)) ->
       is_derive (fun u => asking_objective rel ps e T inp (along u)) u0
         (Rsum grads (fun c => dot (shp (tgt c)) (run inp t (lhs c)) (dinp (tgt c)))))
  /\ (smooth -> forall c, In c grads -> forall j, In j (box (shp (tgt c))) ->
       is_derive (fun a => asking_objective rel ps e T inp (replace_at inp (tgt c) j a)) (inp (tgt c) j) (run inp t (lhs c) j))
  /\ (SSA.cost fcost t + psize ps + tsize T <= 4 * (Core.cost fcost here s0 (plain e) + psize ps + tsize T))%Z.
Proof.
  intros N A U here smooth Ck H. destruct (program_has_gradient here ps (plain e) T t grads Ck H) as [V [Ht [G [P C]]]].
  assert (Near : smooth -> forall (along : R -> env) dinp u0, along u0 = inp ->
    (forall y, In y (input_leaves ps) -> forall i, In i (box (shp y)) -> is_derive (fun u => along u y i) u0 (dinp y i)) ->
    locally u0 (fun u => objective fval here ps (plain e) T inp (along u) = asking_objective rel ps e T inp (along u))).
  { intros [Dm St] along dinp u0 E HI.
    pose proof (questions_stay fval partial takes rel ps L e T along u0 N A U) as Q. rewrite E in Q. cbv zeta in Q.
    specialize (Q Ck (applied_imp _ _ _ _ in_domains_differentiable _ _ _ Dm) St (fun y Hy i Hi => ex_intro _ _ (HI y Hy i Hi))).
    eapply filter_imp; [|exact Q]. cbv beta. intros u Hu. unfold objective, asking_objective.
    apply paired_ext; [reflexivity|]. intros d w _. symmetry. apply Hu. }
  split; [|split; [exact Ht|split; [|split; [|exact C]]]].
  - intros d w Hw. rewrite V by exact Hw. symmetry. apply (plain_value 0 Rplus Rmult Rminus fval ask L rel _ e N A U).
  - intros Sm along dinp u0 E HI. eapply is_derive_ext_loc; [exact (Near Sm along dinp u0 E HI)|].
    specialize (G along dinp u0). rewrite E in G. apply G; [apply Sm|exact HI].
  - intros Sm c Hc j Hj. eapply is_derive_ext_loc; [|apply P; [apply Sm|exact Hc|exact Hj]].
    apply (Near Sm (fun a => replace_at inp (tgt c) j a) (fun y i => if var_eqb y (tgt c) && leqb i j then 1 else 0) (inp (tgt c) j));
      [apply replace_same|]. intros y _ i _. unfold replace_at. destruct (var_eqb y (tgt c) && leqb i j).
    + apply (is_derive_id (K := R_AbsRing)).
    + apply derive_const.
Qed.

(** * An example: sum i:3. let c = 0 < x[i] in [c = 1] * x[i] * x[i] *)
Definition each_square : @cexpr R symbol :=
  let i := "i"%string in let x := CAcc (CVar "x") (AVar i) in
  CSum i 3 (CAsk "c" [] PTrue Less (CCst 0) x (CInd (PEq (ALook "c" []) (ACst 1)) (CMul x x))).
Lemma each_square_neat : neat [] [] each_square /\ unasked [] each_square /\ NoDup (asked each_square).
Proof.
  split; [|split; [intros y []|repeat constructor; intros []]]. cbn. repeat split; try (intros y []; fail); auto.
  - constructor; [intros []|constructor].
  - constructor; [intros []|constructor].
  - intros y [<-|[]]. left. reflexivity.
Qed.
Lemma each_square_well_formed rel : well_formed takes rel squares_parameters (plain each_square) TReal.
Proof.
  assert (X : forall P : ienv -> Prop, (forall s, P s -> inside 3 (s "i"%string) = true) ->
    Typing.checks (K := R) takes rel (context_of squares_parameters) P (EAcc (EVar "x"%string) (AVar "i"%string)) TReal).
  { intros P H. apply check_acc with 3%nat; [now apply check_var|exact H]. }
  apply check_sum. eapply check_fst, check_pair.
  - apply check_ind, check_mul; apply X; intros s [[s' [z [_ [Hz ->]]]] _]; exact Hz.
  - apply check_ind, check_mul; [apply check_cst|]. apply X. intros s [[s' [z [_ [Hz ->]]]] _]. exact Hz.
Qed.
Lemma each_square_smooth rel inp : (forall z, inside 3 z = true -> arguments_of 0 inp (inputs squares_parameters) "x"%string [] [z] <> 0) ->
  let here := Questions.decided 0 Rplus Rmult Rminus fval ask rel (arguments_of 0 inp (inputs squares_parameters)) each_square in
  inside_domains here squares_parameters (plain each_square) inp
  /\ strict fval here nowhere [] (arguments_of 0 inp (inputs squares_parameters)) s0 each_square.
Proof.
  intros H here. split.
  - intros z _. repeat split.
  - intros z Hz. split; [|cbn; auto]. intros zs [<-|[]] _. split; [|cbn; auto]. cbn. intros Q. symmetry in Q. exact (H z Hz Q).
Qed.
