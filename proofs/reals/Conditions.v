(** Conditions on values over the real numbers: the headline for programs with conditions. Near a point at which no two
    numbers that are compared are equal, all answers stay as they are; so there the program has the derivative of the
    program of Figure 3 that it is for these answers, and its adjoint is its gradient. *)
Require Import String List Bool ZArith Reals Lra.
From Coquelicot Require Import Coquelicot.
Import ListNotations.
Require Import TL.Sums TL.Boxes TL.SSA TL.Adjoint TL.Transpose TL.Core TL.Typing TL.Compile TL.Program TL.Functions TL.Conditions.
Require Import TL.reals.Gradient TL.reals.Functions TL.reals.Program.
Open Scope R_scope.

Definition ask (o : question) (a b : R) : bool :=
  match o with
  | Less => if Rlt_dec a b then true else false
  | AtMost => if Rle_dec a b then true else false
  | Same => if Req_EM_T a b then true else false
  end.
(** numbers that differ go on comparing as they do *)
Lemma ask_stays o (f g : R -> R) t : continuous f t -> continuous g t -> f t <> g t ->
  locally t (fun u => ask o (f u) (g u) = ask o (f t) (g t)).
Proof.
  intros Cf Cg N. assert (L : f t < g t \/ g t < f t) by lra. destruct L as [L|L].
  - eapply filter_imp; [|exact (locally_less f g t Cf Cg L)]. cbv beta. intros u Hu.
    destruct o; cbn [ask]; repeat match goal with |- context [if ?b then _ else _] => destruct b end; try reflexivity; lra.
  - eapply filter_imp; [|exact (locally_less g f t Cg Cf L)]. cbv beta. intros u Hu.
    destruct o; cbn [ask]; repeat match goal with |- context [if ?b then _ else _] => destruct b end; try reflexivity; lra.
Qed.

Section Conditions.
  Context {fn : Type} (fval : fn -> list R -> R) (partial : fn -> nat -> list R -> R) (takes : fn -> nat -> Prop).
  Notation expr := (@Core.expr R fn).
  Notation env := (SSA.env (K := R)).
  Notation differentiable := (Gradient.differentiable fval partial).
  Notation value := (Core.eval 0 Rplus Rmult Rminus fval).
  Notation well_formed := (Program.well_formed takes).
  Notation meaning rel := (Program.meaning fval rel).
  Notation arguments ps inp := (arguments_of 0 inp (inputs ps)).
  Notation applied rel := (Typing.applied 0 Rplus Rmult Rminus fval rel).
  Notation answer := (Conditions.answer 0 Rplus Rmult Rminus fval ask).
  Notation fits := (Conditions.fits 0 Rplus Rmult Rminus fval ask).
  Notation after := (Conditions.after 0 Rplus Rmult Rminus fval).
  Notation decided := (Conditions.decided 0 Rplus Rmult Rminus fval ask).
  Notation conditional := (Conditions.conditional 0 Rplus Rmult Rminus fval ask).

  (** * In tensor SSA: a comparison gen g. [p g] * (x[g] < y[g]) *)
  Definition answers (E : env) (p : pred) (o : question) (x y : var) (g : index) : bool := p g && ask o (E x g) (E y g).
  Definition same_answers (sh : shape) (k k' : index -> bool) : Prop := forall g, In g (box sh) -> k g = k' g.
  Theorem strict_comparison_stays (E : R -> env) sh p o x y t :
    (forall z, In z [x; y] -> forall g, In g (box sh) -> p g = true -> continuous (fun u => E u z g) t) ->
    (forall g, In g (box sh) -> p g = true -> E t x g <> E t y g) ->
    locally t (fun u => same_answers sh (answers (E u) p o x y) (answers (E t) p o x y)).
  Proof.
    intros C N. apply locally_all. intros g Hg. unfold answers. destruct (p g) eqn:P; cbn [andb]; [|apply filter_forall; reflexivity].
    apply (ask_stays o (fun u => E u x g) (fun u => E u y g) t); [apply C; cbn; auto|apply C; cbn; auto|]. now apply N.
  Qed.
  (** the adjoint that is made for the answers is the gradient of the program that looks them up *)
  Theorem comparison_has_gradient (DT : fn -> nat -> fn)
    (DT_val : forall f j xs dy, fval (DT f j) (xs ++ [fval f xs; dy]) = partial f j xs * dy)
    (P : (index -> bool) -> SSA.prog R fn) (X : R -> env) sh p o x y outs dys leaves t grads (inp : R -> env) dinp u0 :
    let k u := answers (X u) p o x y in
    (forall z, In z [x; y] -> forall g, In g (box sh) -> p g = true -> continuous (fun u => X u z g) u0) ->
    (forall g, In g (box sh) -> p g = true -> X u0 x g <> X u0 y g) ->
    (forall u k', same_answers sh k' (k u0) -> seen fval (P k') outs dys (inp u0) (inp u) = seen fval (P (k u0)) outs dys (inp u0) (inp u)) ->
    wf (P (k u0)) -> good_outs (P (k u0)) outs dys -> NoDup leaves -> adjoint DT (P (k u0)) outs dys leaves = (t, grads) ->
    smooth_at fval partial (inp u0) (P (k u0)) ->
    (forall s v, In (s, Input v) (P (k u0)) -> forall i, In i (box (shp v)) -> is_derive (fun u => inp u v i) u0 (dinp v i)) ->
    (forall s v, In (s, Input v) (P (k u0)) -> In v leaves) ->
    is_derive (fun u => seen fval (P (k u)) outs dys (inp u0) (inp u)) u0
      (Rsum grads (fun c => Transpose.dot 0 Rplus Rmult (shp (tgt c)) (SSA.run 0 Rplus Rmult Ropp fval (inp u0) t (lhs c)) (dinp (tgt c)))).
  Proof.
    intros k C N Ext W GO ND H Sm HI HL.
    apply (is_derive_ext_loc (fun u => seen fval (P (k u0)) outs dys (inp u0) (inp u))).
    - eapply filter_imp; [|exact (strict_comparison_stays X sh p o x y u0 C N)]. cbv beta. intros u Hu. symmetry. apply Ext, Hu.
    - apply (adjoint_is_gradient fval partial DT DT_val _ outs dys leaves t grads inp dinp u0 W GO ND H Sm HI). intros s v Hv. left. eapply HL, Hv.
  Qed.

  (** * In programs: no two numbers that are compared are equal *)
  Fixpoint strict (rel : data) (r : @venv R) (l : list (@item R fn)) : Prop :=
    match l with
    | [] => True
    | Bind x e :: l' => strict rel (upd r x (value rel r s0 e)) l'
    | Ask c bs p o a b :: l' =>
        (forall zs, In zs (bbox bs) -> pval rel (upds s0 bs zs) p = true ->
           value rel r (upds s0 bs zs) a [] [] <> value rel r (upds s0 bs zs) b [] [])
        /\ strict rel r l'
    end.

  (** each number of a program's value is differentiable along curves of the parameters *)
  Lemma value_derive rel ps e T sh (inp : R -> env) dinp u0 : well_formed rel ps e T -> flat T = Leaf sh ->
    applied rel differentiable (arguments ps (inp u0)) s0 e ->
    (forall y, In y (input_leaves ps) -> forall i, In i (box (shp y)) -> is_derive (fun u => inp u y i) u0 (dinp y i)) ->
    forall i, In i (box sh) -> exists d, is_derive (fun u => meaning rel ps e (inp u) [] i) u0 d.
  Proof.
    intros Ck F Sm HI i Hi. destruct (compiled rel ps e) as [S tr] eqn:E.
    pose proof (compiled_inputs 0 1 Rplus Rmult Rminus Ropp RTheory fval (fun _ => 0%Z) takes rel ps e T S tr Ck E) as In_.
    pose proof (smooth_seen fval partial takes rel ps e T S tr (inp u0) Ck E Sm) as Ss.
    destruct (compiled_sound 0 1 Rplus Rmult Rminus Ropp RTheory fval (fun _ => 0%Z) takes rel ps e T S tr Ck E) as [W [Sh [Dc [_ [_ V]]]]].
    rewrite F in Sh, V. destruct tr as [x|]; [|discriminate]. injection Sh as <-.
    exists (SSA.D 0 Rplus Rmult Ropp fval partial S (inp u0) dinp x i).
    apply (is_derive_ext (fun u => SSA.run 0 Rplus Rmult Ropp fval (inp u) S x i)).
    - intros u. destruct (V (inp u)) as [H _]. apply (H [] i). exact Hi.
    - apply D_is_derivative; auto; [|apply Dc; left; reflexivity]. intros sh y Hy. apply HI. eapply In_; exact Hy.
  Qed.

  Lemma after_app rel m : forall l r, after rel r (l ++ m) = after rel (after rel r l) m.
  Proof. induction l as [|[x e|c bs p o a b] l IH]; intros r; cbn [app Conditions.after]; auto. Qed.
  Lemma applied_compared rel A p a b n : In n [a; b] -> forall bs r s,
    applied rel A r s (compared bs p a b) -> applied rel A r s (gens bs (EInd p n)).
  Proof.
    unfold compared. intros Hn. induction bs as [|[i k] bs IH]; intros r s; cbn [gens Typing.applied]; [|auto].
    intros H Hp. destruct Hn as [<-|[<-|[]]]; apply H, Hp.
  Qed.
  Lemma applied_erased rel A c bs p o a b l' e n : In n [a; b] -> forall l r,
    applied rel A r s0 (erased (l ++ Ask c bs p o a b :: l') e) -> applied rel A r s0 (erased l (gens bs (EInd p n))).
  Proof.
    intros Hn. induction l as [|[x d|c' bs' p' o' a' b'] l IH]; intros r; cbn [app erased Typing.applied].
    - intros [_ H]. eapply applied_compared; eassumption.
    - intros [H0 H1]. auto.
    - intros [H0 H1]. auto.
  Qed.

  (** answers stay *)
  Lemma fits_near rel ps e T (inp : R -> env) dinp u0 :
    (forall y, In y (input_leaves ps) -> forall i, In i (box (shp y)) -> is_derive (fun u => inp u y i) u0 (dinp y i)) ->
    forall l pre, well_formed rel ps (erased (pre ++ l) e) T ->
    applied rel differentiable (arguments ps (inp u0)) s0 (erased (pre ++ l) e) ->
    fits rel (after rel (arguments ps (inp u0)) pre) l -> strict rel (after rel (arguments ps (inp u0)) pre) l ->
    locally u0 (fun u => fits rel (after rel (arguments ps (inp u)) pre) l).
  Proof.
    intros HI. induction l as [|[x d|c bs p o a b] l IH]; intros pre Ck Sm F S; cbn [Conditions.fits strict] in *.
    - apply filter_forall. trivial.
    - specialize (IH (pre ++ [Bind x d])). rewrite <- app_assoc in IH. specialize (IH Ck Sm). rewrite after_app in IH.
      specialize (IH F S). eapply filter_imp; [|exact IH]. cbv beta. intros u Hu. rewrite after_app in Hu. exact Hu.
    - destruct F as [Fa F], S as [Sa S]. specialize (IH (pre ++ [Ask c bs p o a b])). rewrite <- app_assoc in IH. specialize (IH Ck Sm).
      rewrite after_app in IH. specialize (IH F S).
      assert (C : forall n, In n [a; b] -> forall zs, In zs (bbox bs) -> pval rel (upds s0 bs zs) p = true ->
        continuous (fun u => value rel (after rel (arguments ps (inp u)) pre) (upds s0 bs zs) n [] []) u0).
      { intros n Hn zs Hz Hp. destruct (checks_erased takes rel _ _ _ _ _ _ _ _ _ _ _ _ Ck n Hn) as [T' [Ck' F']].
        destruct (value_derive rel ps _ T' _ inp dinp u0 Ck' F' (applied_erased rel _ _ _ _ _ _ _ _ _ _ Hn _ _ Sm) HI zs Hz) as [d Hd].
        apply (derive_continuous _ _ d). apply (is_derive_ext (fun u => meaning rel ps (erased pre (gens bs (EInd p n))) (inp u) [] zs)); [|exact Hd].
        intros u. unfold Program.meaning. rewrite value_erased. rewrite <- (app_nil_r zs) at 1.
        rewrite (eval_gens 0 Rplus Rmult Rminus fval rel _ bs _ [] [] zs s0 Hz). cbn [Core.eval]. rewrite Hp. reflexivity. }
      assert (L : locally u0 (fun u => forall zs, In zs (bbox bs) ->
        answer rel (after rel (arguments ps (inp u)) pre) bs p o a b zs = entry rel c zs)).
      { apply locally_all. intros zs Hz. rewrite Fa. unfold Conditions.answer. destruct (existsb (leqb zs) (bbox bs)); cbn [andb];
          [|apply filter_forall; reflexivity]. destruct (pval rel (upds s0 bs zs) p) eqn:Hp; cbn [andb]; [|apply filter_forall; reflexivity].
        eapply filter_imp; [|apply (ask_stays o _ _ u0 (C a (or_introl eq_refl) zs Hz Hp) (C b (or_intror (or_introl eq_refl)) zs Hz Hp) (Sa zs Hz Hp))].
        cbv beta. intros u Hu. now rewrite Hu. }
      eapply filter_imp; [|exact (filter_and _ _ L IH)]. cbv beta. intros u [H0 H1]. rewrite after_app in H1. split; [|exact H1].
      intros zs. destruct (existsb (leqb zs) (bbox bs)) eqn:Ez.
      + apply existsb_exists in Ez. destruct Ez as [zs' [Hz Ez]]. apply leqb_eq in Ez. subst zs'. symmetry. apply H0, Hz.
      + rewrite Fa. unfold Conditions.answer. now rewrite Ez.
  Qed.
  (** so a program with conditions means, nearby, what it means for the answers here *)
  Theorem conditions_stay rel ps l e T (inp : R -> env) dinp u0 : scoped l ->
    let here := decided rel (arguments ps (inp u0)) l in
    well_formed here ps (erased l e) T -> applied here differentiable (arguments ps (inp u0)) s0 (erased l e) ->
    strict here (arguments ps (inp u0)) l ->
    (forall y, In y (input_leaves ps) -> forall i, In i (box (shp y)) -> is_derive (fun u => inp u y i) u0 (dinp y i)) ->
    locally u0 (fun u => forall d w, conditional rel (arguments ps (inp u)) l e d w = meaning here ps (erased l e) (inp u) d w).
  Proof.
    intros Sc here Ck Sm St HI.
    pose proof (fits_near here ps e T inp dinp u0 HI l [] Ck Sm (decided_fits 0 Rplus Rmult Rminus fval ask l rel _ Sc) St) as N.
    eapply filter_imp; [|exact N]. cbv beta. intros u Hu d w. cbn [Conditions.after] in Hu.
    rewrite <- (erased_value 0 Rplus Rmult Rminus fval ask rel _ l e Sc). unfold Program.meaning.
    assert (B : beyond [] (decided rel (arguments ps (inp u)) l) here).
    { apply (fits_unique 0 Rplus Rmult Rminus fval ask l _ _ (arguments ps (inp u)) (arguments ps (inp u)) Sc (fun _ _ _ => eq_refl)).
      - destruct (follow_beyond 0 Rplus Rmult Rminus fval ask l rel (arguments ps (inp u))) as [H E].
        destruct (follow_beyond 0 Rplus Rmult Rminus fval ask l rel (arguments ps (inp u0))) as [H' E'].
        split; [intros; unfold here, Conditions.decided; now rewrite <- H, <- H'|].
        intros y Hy v. unfold here, Conditions.decided. now rewrite <- (E y Hy), <- (E' y Hy).
      - apply decided_fits, Sc.
      - exact Hu. }
    apply value_alike; [|reflexivity]. destruct B as [H E]. split; [exact H|]. intros y _. apply E. intros [].
  Qed.
End Conditions.

(** The headline for programs with conditions: [l] are the lets and questions of the program, e what is made of them, and
    [here] the answers at the arguments inp. t is the program with its adjoint, made for these answers. Then
    - t computes the value of the program with conditions;
    - where scalar functions are applied in their domains and no two numbers that are compared are equal, the program with
      conditions, whose answers may change with its arguments, has the derivative that t computes, along every
      differentiable curve; so each element of a gradient is the partial derivative;
    - t costs at most 4 times the program with its comparisons, inputs and outputs counted. *)
Notation conditional := (Conditions.conditional 0 Rplus Rmult Rminus fval ask).
Definition conditional_objective rel (ps : parameters) (l : list (@item R symbol)) e (T : ty) (w inp : env) : R :=
  Program.paired 0 Rplus Rmult (flat T) (held 0 w (cotangent ps T)) (conditional rel (arguments_of 0 inp (inputs ps)) l e).
Theorem conditional_program_has_gradient rel ps l (e : @Core.expr R symbol) T (inp : env) t grads : scoped l ->
  let here := Conditions.decided 0 Rplus Rmult Rminus fval ask rel (arguments_of 0 inp (inputs ps)) l in
  let smooth := inside_domains here ps (erased l e) inp /\ strict fval here (arguments_of 0 inp (inputs ps)) l in
  well_formed takes here ps (erased l e) T -> derivative DT here ps (erased l e) T = (t, grads) ->
  (forall d w, within (flat T) d w ->
     held 0 (run inp t) (snd (compiled here ps (erased l e))) d w = conditional rel (arguments_of 0 inp (inputs ps)) l e d w)
  /\ map tgt grads = input_leaves ps
  /\ (smooth -> forall (along : R -> env) dinp u0, along u0 = inp ->
       (forall y, In y (input_leaves ps) -> forall i, In i (box (shp y)) -> is_derive (fun u => along u y i) u0 (dinp y i)) ->
       is_derive (fun u => conditional_objective rel ps l e T inp (along u)) u0
         (Rsum grads (fun c => dot (shp (tgt c)) (run inp t (lhs c)) (dinp (tgt c)))))
  /\ (smooth -> forall c, In c grads -> forall j, In j (box (shp (tgt c))) ->
       is_derive (fun a => conditional_objective rel ps l e T inp (replace_at inp (tgt c) j a)) (inp (tgt c) j) (run inp t (lhs c) j))
  /\ (SSA.cost fcost t + psize ps + tsize T <= 4 * (Core.cost fcost here s0 (erased l e) + psize ps + tsize T))%Z.
Proof.
  intros Sc here smooth Ck H. destruct (program_has_gradient here ps (erased l e) T t grads Ck H) as [V [Ht [G [P C]]]].
  assert (Near : smooth -> forall (along : R -> env) dinp u0, along u0 = inp ->
    (forall y, In y (input_leaves ps) -> forall i, In i (box (shp y)) -> is_derive (fun u => along u y i) u0 (dinp y i)) ->
    locally u0 (fun u => objective fval here ps (erased l e) T inp (along u) = conditional_objective rel ps l e T inp (along u))).
  { intros [Dm St] along dinp u0 E HI.
    pose proof (conditions_stay fval partial takes rel ps l e T along dinp u0 Sc) as N. rewrite E in N. cbv zeta in N.
    specialize (N Ck (applied_imp _ _ _ _ in_domains_differentiable _ _ _ Dm) St HI).
    eapply filter_imp; [|exact N]. cbv beta. intros u Hu. unfold objective, conditional_objective.
    apply paired_ext; [reflexivity|]. intros d w _. symmetry. apply Hu. }
  split; [|split; [exact Ht|split; [|split; [|exact C]]]].
  - intros d w Hw. rewrite V by exact Hw. apply (erased_value 0 Rplus Rmult Rminus fval ask rel _ l e Sc).
  - intros Sm along dinp u0 E HI. eapply is_derive_ext_loc; [exact (Near Sm along dinp u0 E HI)|].
    specialize (G along dinp u0). rewrite E in G. apply G; [apply Sm|exact HI].
  - intros Sm c Hc j Hj. eapply is_derive_ext_loc; [|apply P; [apply Sm|exact Hc|exact Hj]].
    apply (Near Sm (fun a => replace_at inp (tgt c) j a) (fun y i => if var_eqb y (tgt c) && leqb i j then 1 else 0) (inp (tgt c) j));
      [apply replace_same|]. intros y _ i _. unfold replace_at. destruct (var_eqb y (tgt c) && leqb i j).
    + apply (is_derive_id (K := R_AbsRing)).
    + apply derive_const.
Qed.

(** * An example: let c = gen i:3. 0 < x[i] in sum i:3. [c[i] = 1] * x[i] * x[i] *)
Definition positive_squares : list (@item R symbol) * @Core.expr R symbol :=
  let x := EVar "x" in let i := "i"%string in
  ([Ask "c" [(i, 3%nat)] PTrue Less (ECst 0) <{ x [ AVar i ] }>],
   <{ Sum i : 3, [ PEq (ALook "c" [AVar i]) (ACst 1) ] * ( x [ AVar i ] * x [ AVar i ] ) }>).
Definition squares_parameters : parameters := [("x"%string, TArray 3 TReal)].
Lemma squares_scoped : scoped (fst positive_squares).
Proof. split; [intros y []|]. split; [intros []|exact I]. Qed.
Lemma squares_well_formed rel : well_formed takes rel squares_parameters (erased (fst positive_squares) (snd positive_squares)) TReal.
Proof.
  assert (X : forall P : ienv -> Prop, (forall s, P s -> inside 3 (s "i"%string) = true) ->
    Typing.checks (K := R) takes rel (context_of squares_parameters) P (EAcc (EVar "x"%string) (AVar "i"%string)) TReal).
  { intros P H. apply check_acc with 3%nat; [now apply check_var|exact H]. }
  cbn [erased fst snd positive_squares]. eapply check_fst, check_pair.
  - apply check_sum, check_ind, check_mul; apply X; intros s [[s' [z [_ [Hz ->]]]] _]; exact Hz.
  - apply check_gen, check_ind, check_mul; [apply check_cst|]. apply X. intros s [[s' [z [_ [Hz ->]]]] _]. exact Hz.
Qed.
Lemma squares_smooth rel inp : (forall z, inside 3 z = true -> arguments_of 0 inp (inputs squares_parameters) "x"%string [] [z] <> 0) ->
  let here := Conditions.decided 0 Rplus Rmult Rminus fval ask rel (arguments_of 0 inp (inputs squares_parameters)) (fst positive_squares) in
  inside_domains here squares_parameters (erased (fst positive_squares) (snd positive_squares)) inp
  /\ strict fval here (arguments_of 0 inp (inputs squares_parameters)) (fst positive_squares).
Proof.
  intros H here. split; [repeat split|]. split; [|exact I]. intros zs Hz _.
  assert (L : exists z, zs = [z] /\ inside 3 z = true).
  { cbn in Hz. repeat (destruct Hz as [<-|Hz]; [eexists; split; [reflexivity|reflexivity]|]). destruct Hz. }
  destruct L as [z [-> Hi]]. intros Q. symmetry in Q. exact (H z Hi Q).
Qed.
