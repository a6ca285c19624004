(** Programs of Figure 3 as a whole: their parameters, their tensor SSA (Compile.v, Sound.v) and their adjoint (Adjoint.v), which
    costs at most 4 times the program, inputs and outputs counted. That it is the gradient is in reals/Program.v. *)
Require Import String List Bool ZArith Ring Lia.
Import ListNotations.
Require Import TL.Sums TL.SSA TL.Adjoint TL.Transpose TL.Bound TL.Core TL.Typing TL.Compile TL.Sound.
Open Scope list_scope.

(** * Parameters, and the arrays that hold them *)
Definition parameters := list (string * ty).
Fixpoint context_of (ps : parameters) : context :=
  match ps with [] => fun _ => None | (x, T) :: ps' => upd (context_of ps') x (Some T) end.
(** an input leaf for each component, from the n-th on *)
Fixpoint number (n : nat) (S : tree shape) : tree var :=
  match S with Leaf sh => Leaf (Var n sh) | Both a b => Both (number n a) (number (n + List.length (leaves a)) b) end.
Fixpoint inputs_from (n : nat) (ps : parameters) : list (string * tree var) :=
  match ps with [] => [] | (x, T) :: ps' => (x, number n (flat T)) :: inputs_from (n + List.length (leaves (flat T))) ps' end.
Definition inputs (ps : parameters) : list (string * tree var) := inputs_from 0 ps.
Definition input_leaves (ps : parameters) : list var := flat_map (fun xt => leaves (snd xt)) (inputs ps).
(** the leaves that hold the cotangent of the output, of type T *)
Definition cotangent (ps : parameters) (T : ty) : tree var := number (List.length (input_leaves ps)) (flat T).
(** the numbers in a value of type T *)
Definition tsize (T : ty) : Z := zsum (leaves (flat T)) size.
Definition psize (ps : parameters) : Z := zsum ps (fun xT => tsize (snd xT)).

Lemma number_shapes S : forall n, tmap shp (number n S) = S.
Proof. induction S; intros n; cbn; congruence. Qed.
Lemma leaves_tmap {A B} (f : A -> B) t : leaves (tmap f t) = map f (leaves t).
Proof. induction t; cbn; [reflexivity|]. now rewrite map_app, IHt1, IHt2. Qed.
Lemma number_names S : forall n, map name (leaves (number n S)) = seq n (List.length (leaves S)).
Proof. induction S as [sh|a IHa b IHb]; intros n; cbn; [reflexivity|]. now rewrite map_app, app_length, seq_app, IHa, IHb. Qed.
Lemma inputs_names ps : forall n, exists k, map name (flat_map (fun xt => leaves (snd xt)) (inputs_from n ps)) = seq n k.
Proof.
  induction ps as [|[x T] ps IH]; intros n; cbn [inputs_from flat_map snd]; [exists 0%nat; reflexivity|].
  destruct (IH (n + List.length (leaves (flat T)))%nat) as [k E]. exists (List.length (leaves (flat T)) + k)%nat.
  now rewrite map_app, seq_app, number_names, E.
Qed.
Lemma input_leaves_nodup ps : NoDup (input_leaves ps).
Proof. destruct (inputs_names ps 0) as [k E]. apply (NoDup_map_inv name). unfold input_leaves, inputs. rewrite E. apply seq_NoDup. Qed.
Lemma sizes (tr : tree var) : outsize (leaves tr) = zsum (leaves (tmap shp tr)) size.
Proof. rewrite leaves_tmap, zsum_map. reflexivity. Qed.
Lemma input_size ps : outsize (input_leaves ps) = psize ps.
Proof.
  unfold input_leaves, inputs, psize. generalize 0%nat as n. induction ps as [|[x T] ps IH]; intros n; [reflexivity|].
  cbn [inputs_from flat_map zsum snd]. rewrite <- (IH (n + List.length (leaves (flat T)))%nat). unfold outsize, tsize.
  rewrite zsum_app. f_equal. fold (outsize (leaves (number n (flat T)))). now rewrite sizes, number_shapes.
Qed.

Section Program.
  Context {K : Type} (rO rI : K) (radd rmul rsub : K -> K -> K) (ropp : K -> K).
  Hypothesis Rth : ring_theory rO rI radd rmul rsub ropp eq.
  Add Ring ProgramRing : Rth.
  Context {fn : Type} (fval : fn -> list K -> K) (fcost : fn -> Z) (takes : fn -> nat -> Prop) (DT : fn -> nat -> fn) (R : data).
  Notation expr := (@Core.expr K fn).
  Notation prog := (SSA.prog K fn).
  Notation value := (Core.eval rO radd rmul rsub fval R).
  Notation ecost := (Core.cost (K := K) fcost R).
  Notation run := (SSA.run rO radd rmul ropp fval). Notation solves := (SSA.solves rO radd rmul ropp fval).
  Notation cost := (SSA.cost (K := K) fcost).
  Notation env := (SSA.env (K := K)). Notation val := (@Core.val K).
  Notation checks := (Typing.checks (K := K) takes R).
  Notation applied := (Typing.applied rO radd rmul rsub fval R).

  (** the value that a tree of arrays holds *)
  Fixpoint held (E : env) (tr : tree var) : val :=
    match tr with
    | Leaf y => fun _ w => E y w
    | Both l r => fun d w => match d with true :: d' => held E l d' w | false :: d' => held E r d' w | [] => rO end
    end.
  Fixpoint arguments_of (inp : env) (l : list (string * tree var)) : @venv K :=
    match l with [] => fun _ _ _ => rO | (x, tr) :: l' => upd (arguments_of inp l') x (held inp tr) end.
  (** d and w lead to a number in a value *)
  Fixpoint within (S : tree shape) (d : list bool) (w : list Z) : Prop :=
    match S, d with
    | Leaf sh, [] => In w (box sh) | Both a _, true :: d' => within a d' w | Both _ b, false :: d' => within b d' w | _, _ => False
    end.
  (** <V | W> *)
  Fixpoint paired (S : tree shape) (V W : val) : K :=
    match S with
    | Leaf sh => dot rO radd rmul sh (V []) (W [])
    | Both a b => radd (paired a (fun d => V (true :: d)) (fun d => W (true :: d))) (paired b (fun d => V (false :: d)) (fun d => W (false :: d)))
    end.

  (** * Tensor SSA *)
  Definition read (y : var) : shape * SSA.rhs K fn := (shp y, Input y).
  Fixpoint declare (l : list (string * tree var)) : prog * places :=
    match l with
    | [] => ([], fun _ => (0%nat, Leaf (Var 0 [])))
    | (x, tr) :: l' => let (t, v) := declare l' in let (t', A) := emit_tree read t tr in (t', upd v x (0%nat, A))
    end.
  (** the values of indices do not matter where none is bound *)
  Definition s0 : ienv := fun _ => 0%Z.
  Definition compiled (ps : parameters) (e : expr) : prog * tree var :=
    let (t, v) := declare (inputs ps) in comp R v [] (fun _ => s0) any t e.
  (** the program with its adjoint, and where the gradient of each leaf is *)
  Definition derivative (ps : parameters) (e : expr) (T : ty) : prog * list ip :=
    let (S, tr) := compiled ps e in adjoint DT S (leaves tr) (leaves (cotangent ps T)) (input_leaves ps).
  Definition well_formed (ps : parameters) (e : expr) (T : ty) : Prop := checks (context_of ps) (fun s => s = s0) e T.

  Section Inputs.
    Variable given : var -> Prop.
    Notation all_proper := (Compile.all_proper (K := K) takes given).
    Notation means := (Compile.means (K := K)).
    Lemma read_sound : forall tr t t' A, emit_tree read t tr = (t', A) -> wf t -> (forall y, In y (leaves tr) -> given y) ->
      wf t' /\ extends t t' /\ cost t' = cost t /\ shaped [] (declared t') (tmap shp tr) A /\ (all_proper t -> all_proper t')
      /\ forall inp E, solves inp E t' -> (forall M, maps_at M E t -> maps_at M E t')
         /\ forall m, means (firstn 0) (points [] m) E (tmap shp tr) A (fun _ => held inp tr).
    Proof.
      induction tr as [y|l IHl r IHr]; cbn [emit_tree tmap leaves]; intros t t' A H W G.
      - inversion H; subst; clear H. cbn [fst read]. split; [cbn; repeat split; auto; intros v []|]. split; [apply extends_cons|].
        split; [unfold SSA.cost; cbn; lia|]. split; [cbn; auto|].
        split; [intros Ar sh r [E|E]; [inversion E; subst; apply G; left; reflexivity|eapply Ar, E]|].
        intros inp E [HE _]. split; [intros M Mt; constructor; [exact I|exact Mt]|]. intros m g Hg w Hw. cbn [held]. apply HE, Hw.
      - destruct (emit_tree read t l) as [t1 l'] eqn:E1. destruct (emit_tree read t1 r) as [t2 r'] eqn:E2. inversion H; subst; clear H.
        destruct (IHl _ _ _ E1 W (fun y Hy => G y (in_or_app _ _ _ (or_introl Hy)))) as [W1 [X1 [C1 [S1 [A1 V1]]]]].
        destruct (IHr _ _ _ E2 W1 (fun y Hy => G y (in_or_app _ _ _ (or_intror Hy)))) as [W2 [X2 [C2 [S2 [A2 V2]]]]].
        split; [exact W2|]. split; [eapply extends_trans; eassumption|]. split; [congruence|].
        split; [split; [exact (shaped_incl _ _ _ (extends_declared _ _ X2) _ _ S1)|exact S2]|]. split; [auto|].
        intros inp E So. destruct (V1 inp E (extends_solves rO radd rmul ropp fval inp E _ _ X2 So)) as [M1 H1].
        destruct (V2 inp E So) as [M2 H2]. split; [intros M Mt; apply M2, M1, Mt|]. intros m. split; [apply H1|apply H2].
    Qed.
    Lemma declare_sound ps : forall n t v, declare (inputs_from n ps) = (t, v) ->
      (forall y, In y (flat_map (fun xt => leaves (snd xt)) (inputs_from n ps)) -> given y) ->
      wf t /\ cost t = 0%Z /\ placed (context_of ps) v [] (declared t) /\ all_proper t
      /\ forall inp E, solves inp E t -> (forall M, maps_at M E t)
         /\ forall m, holds (context_of ps) v [] m E (fun _ => arguments_of inp (inputs_from n ps)).
    Proof.
      induction ps as [|[x T] ps IH]; cbn [inputs_from declare flat_map]; intros n t v H G.
      - inversion H; subst. split; [exact I|]. split; [reflexivity|]. split; [discriminate|]. split; [intros sh r []|].
        intros inp E _. split; [intros M; constructor|]. discriminate.
      - destruct (declare (inputs_from _ ps)) as [t1 v1] eqn:E1. destruct (emit_tree read t1 (number n (flat T))) as [t2 A] eqn:E2.
        inversion H; subst; clear H.
        destruct (IH _ _ _ E1 (fun y Hy => G y (in_or_app _ _ _ (or_intror Hy)))) as [W1 [C1 [P1 [A1 V1]]]].
        destruct (read_sound _ _ _ _ E2 W1 (fun y Hy => G y (in_or_app _ _ _ (or_introl Hy)))) as [W2 [X2 [C2 [S2 [A2 V2]]]]].
        rewrite number_shapes in S2, V2. split; [exact W2|]. split; [congruence|]. split; [|split; [auto|]].
        + intros y T' Hy. cbn [context_of] in Hy. unfold upd in *. destruct (String.eqb x y).
          * inversion Hy; subst. cbn. auto.
          * destruct (P1 y T' Hy) as [L S]. split; [exact L|]. exact (shaped_incl _ _ _ (extends_declared _ _ X2) _ _ S).
        + intros inp E So. destruct (V1 inp E (extends_solves rO radd rmul ropp fval inp E _ _ X2 So)) as [M1 H1].
          destruct (V2 inp E So) as [M2 H2]. split; [intros M; apply M2, M1|]. intros m y T' Hy. cbn [context_of arguments_of] in *.
          unfold upd in *. destruct (String.eqb x y); [inversion Hy; subst; apply H2|apply H1, Hy].
    Qed.
  End Inputs.

  Lemma means_held E : forall S tr V, means (K := K) (fun g => g) (points [] any) E S tr (fun _ => V) ->
    forall d w, within S d w -> held E tr d w = V d w.
  Proof.
    induction S as [sh|a IHa b IHb]; intros [y|l r] V; cbn [means]; try tauto.
    - intros M [|c d] w H; [|destruct H]. apply (M []); [split; [left; reflexivity|reflexivity]|exact H].
    - intros [M0 M1] [|[|] d] w H; cbn in *; [destruct H|apply (IHa _ _ M0 d w H)|apply (IHb _ _ M1 d w H)].
  Qed.
  Lemma shaped_shapes D : forall S tr, shaped [] D S tr -> tmap shp tr = S /\ incl (leaves tr) D.
  Proof.
    induction S as [sh|a IHa b IHb]; intros [y|l r]; cbn; try tauto.
    - intros [<- H]. split; [reflexivity|]. intros v [<-|[]]. exact H.
    - intros [H0 H1]. destruct (IHa _ H0) as [<- I0]. destruct (IHb _ H1) as [<- I1]. split; [reflexivity|]. now apply incl_app.
  Qed.
  Notation given ps := (fun y => In y (input_leaves ps)).
  (** equal value and cost *)
  Theorem compiled_sound ps e T S tr : well_formed ps e T -> compiled ps e = (S, tr) ->
    wf S /\ tmap shp tr = flat T /\ incl (leaves tr) (declared S) /\ cost S = ecost s0 e
    /\ Compile.all_proper takes (given ps) S
    /\ forall inp,
       (forall d w, within (flat T) d w -> held (run inp S) tr d w = value (arguments_of inp (inputs ps)) s0 e d w)
       /\ forall A, applied A (arguments_of inp (inputs ps)) s0 e -> maps_at A (run inp S) S.
  Proof.
    unfold compiled. intros Ck H. destruct (declare (inputs ps)) as [t v] eqn:E1.
    destruct (declare_sound (given ps) ps 0 t v E1 (fun y Hy => Hy)) as [W1 [C1 [P1 [A1 V1]]]].
    destruct (compile_sound rO rI radd rmul rsub ropp Rth fval fcost takes R (given ps) _ _ _ _ Ck v [] (fun _ => s0) any t S tr H W1 P1
                (fun g _ => eq_refl)) as [W [X [Sh [C [Pr V]]]]].
    destruct (shaped_shapes _ _ _ Sh) as [Ss Si]. split; [exact W|]. split; [exact Ss|]. split; [exact Si|].
    split; [rewrite C, C1; cbn; lia|]. split; [apply Pr, A1|]. intros inp.
    pose proof (run_solves rO radd rmul ropp fval inp S W) as So.
    destruct (V1 inp _ (extends_solves rO radd rmul ropp fval inp _ _ _ X So)) as [M1 H1].
    destruct (V inp _ (fun _ => arguments_of inp (inputs ps)) So (H1 any)) as [M2 Ap]. split.
    - apply means_held. exact M2.
    - intros A Ha. apply Ap; [apply M1|]. intros g _. exact Ha.
  Qed.

  (** ** Pairing with the cotangent *)
  Lemma paired_ext : forall S V V' W W', (forall d w, within S d w -> V d w = V' d w) -> (forall d w, within S d w -> W d w = W' d w) ->
    paired S V W = paired S V' W'.
  Proof.
    induction S as [sh|a IHa b IHb]; intros V V' W W' HV HW; cbn [paired].
    - apply dot_ext; intros i Hi; [apply HV|apply HW]; exact Hi.
    - f_equal; [apply IHa|apply IHb]; intros d w H; (apply HV || apply HW); exact H.
  Qed.
  Lemma combine_app {A B} (l l' : list A) : forall (m m' : list B), List.length l = List.length m ->
    combine (l ++ l') (m ++ m') = combine l m ++ combine l' m'.
  Proof. induction l as [|a l IH]; intros [|b m] m' L; try discriminate; cbn; [reflexivity|]. rewrite IH by (cbn in L; lia). reflexivity. Qed.
  Lemma paired_held inp E : forall tr dt, tmap shp tr = tmap shp dt ->
    sum rO radd (combine (leaves tr) (leaves dt)) (fun xy => dot rO radd rmul (shp (fst xy)) (inp (snd xy)) (E (fst xy)))
    = paired (tmap shp tr) (held inp dt) (held E tr).
  Proof.
    induction tr as [x|l IHl r IHr]; intros [y|dl dr] H; try discriminate; cbn [leaves tmap paired] in *.
    - cbn [combine Sums.sum fst snd]. rewrite (Radd_comm Rth), (Radd_0_l Rth). reflexivity.
    - inversion H as [[Hl Hr]]. rewrite combine_app, (sum_app _ _ _ _ _ _ Rth), (IHl dl Hl), (IHr dr Hr); [reflexivity|].
      apply (f_equal leaves) in Hl. rewrite !leaves_tmap in Hl. apply (f_equal (@List.length shape)) in Hl. now rewrite !map_length in Hl.
  Qed.

  (** * The adjoint *)
  Lemma compiled_outs ps e T S tr : well_formed ps e T -> compiled ps e = (S, tr) -> good_outs S (leaves tr) (leaves (cotangent ps T)).
  Proof.
    intros Ck H. destruct (compiled_sound ps e T S tr Ck H) as [_ [Ss [Si _]]]. split; [|exact Si].
    rewrite <- !leaves_tmap, Ss. unfold cotangent. now rewrite number_shapes.
  Qed.
  Lemma compiled_inputs ps e T S tr : well_formed ps e T -> compiled ps e = (S, tr) ->
    forall sh y, In (sh, Input y) S -> In y (input_leaves ps).
  Proof. intros Ck H sh y Hy. destruct (compiled_sound ps e T S tr Ck H) as [_ [_ [_ [_ [Pr _]]]]]. exact (Pr _ _ Hy). Qed.

  (** the adjoint's program computes the program's value, too *)
  Theorem program_value ps e T t grads : well_formed ps e T -> derivative ps e T = (t, grads) -> forall inp d w,
    within (flat T) d w -> held (run inp t) (snd (compiled ps e)) d w = value (arguments_of inp (inputs ps)) s0 e d w.
  Proof.
    intros Ck H inp d w Hw. unfold derivative in H. destruct (compiled ps e) as [S tr] eqn:E. cbn [snd].
    destruct (compiled_sound ps e T S tr Ck E) as [W [Ss [Si [_ [_ V]]]]]. destruct (V inp) as [<- _]; [|exact Hw].
    destruct (adjoint_wf _ _ _ _ _ _ _ _ W (compiled_outs _ _ _ _ _ Ck E) H) as [Wt _].
    assert (So : solves inp (run inp t) S).
    { pose proof (run_solves rO radd rmul ropp fval inp t Wt) as So. unfold adjoint, adjoint_for in H.
      destruct (emits S _) as [t0 l] eqn:E0. destruct (bwd DT _ S t0 l []) as [t1 gl] eqn:E1.
      eapply emits_mono; [exact E0|]. eapply bwd_mono; [exact E1|]. eapply emits_mono; [exact H|exact So]. }
    pose proof (solves_unique rO radd rmul ropp fval inp _ _ S W So (run_solves rO radd rmul ropp fval inp S W)) as A.
    rewrite <- Ss in Hw. clear - A Si Hw. revert d Hw. induction tr as [x|l IHl r IHr]; intros [|[|] d] Hw; cbn in *; try tauto.
    - apply A; [apply Si; left; reflexivity|exact Hw].
    - apply IHl; [intros v Hv; apply Si, in_or_app; auto|exact Hw].
    - apply IHr; [intros v Hv; apply Si, in_or_app; auto|exact Hw].
  Qed.

  Hypothesis fcost_nonneg : forall f, (0 <= fcost f)%Z.
  (** the components of each function's transposed derivative, and the additions that join them, cost at most 3 times the function *)
  Hypothesis cheap : forall f n, takes f n ->
    (fold_right Z.add 0 (map (fun j => fcost (DT f j)) (seq 0 n)) + Z.of_nat (Nat.pred n) <= 3 * fcost f)%Z.
  Lemma csum_every f xs : forall j, csum DT fcost every f j xs = fold_right Z.add 0%Z (map (fun j => fcost (DT f j)) (seq j (List.length xs))).
  Proof. induction xs as [|x xs IH]; intros j; cbn; [reflexivity|]. now rewrite IH. Qed.
  Lemma proper_cheap given S : Compile.all_proper takes given S -> cheap_maps (K := K) DT fcost S.
  Proof.
    intros Pr sh p f xs H. specialize (Pr _ _ H). cbn in Pr. specialize (cheap f _ Pr). rewrite csum_every. unfold joins.
    now rewrite (filter_all every) by reflexivity.
  Qed.
  (** every well-formed program has an adjoint that costs at most 4 times the program, inputs and outputs counted *)
  Theorem program_cost ps e T t grads : well_formed ps e T -> derivative ps e T = (t, grads) ->
    (cost t + psize ps + tsize T <= 4 * (ecost s0 e + psize ps + tsize T))%Z.
  Proof.
    intros Ck H. unfold derivative in H. destruct (compiled ps e) as [S tr] eqn:E.
    destruct (compiled_sound ps e T S tr Ck E) as [W [Ss [_ [C [Pr _]]]]].
    pose proof (theorem_6_35 DT fcost fcost_nonneg _ _ _ _ _ _ _ (proper_cheap _ _ Pr) W (compiled_outs _ _ _ _ _ Ck E) (input_leaves_nodup ps) H) as Q.
    assert (outsize (leaves tr) = tsize T) as O by (unfold tsize; now rewrite sizes, Ss).
    rewrite input_size, O, C in Q. exact Q.
  Qed.
End Program.
