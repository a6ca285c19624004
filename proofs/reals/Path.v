(** The path theorem over the real numbers (../Path.v): where no two numbers that are compared on the way are equal, and
    functions are applied where they are differentiable, the path stays the same nearby; so the derivative of the command
    is that of its path, and its adjoint computes the gradient. *)
Require Import List Bool ZArith Reals Lra.
From Coquelicot Require Import Coquelicot.
Import ListNotations.
Require Import TL.Sums TL.SSA TL.Conditions TL.Path TL.Functions.
Require Import TL.reals.Gradient TL.reals.Functions TL.reals.Program TL.reals.Conditions.
Open Scope R_scope.

Section Path.
  Context {fn : Type} (fval : fn -> list R -> R) (partial : fn -> nat -> list R -> R) (DT : fn -> nat -> fn) (fcost : fn -> Z).
  Hypothesis DT_val : forall f j xs dy, fval (DT f j) (xs ++ [fval f xs; dy]) = partial f j xs * dy.
  Notation differentiable := (Gradient.differentiable fval partial).
  Notation cmd := (@Path.cmd fn).
  Notation store := (@Path.store R).
  Notation runs := (Path.runs fval ask).
  Notation slope := (Path.slope 0 Rplus Rmult partial).
  Notation along := (Path.along 0 Rplus Rmult partial).
  Notation event := (@Path.event R fn).
  Notation set := (@Path.set R).

  (** functions are applied where they are differentiable, and no two numbers that are compared are equal *)
  Inductive smooth : store -> list event -> Prop :=
  | smooth_nil s : smooth s []
  | smooth_did s x f ys p : differentiable f (map s ys) -> smooth (set s x (fval f (map s ys))) p -> smooth s (Did x f ys (map s ys) :: p)
  | smooth_asked s o y z b p : s y <> s z -> smooth s p -> smooth s (Asked o y z b :: p).
  (** the same statements and answers, at other numbers *)
  Definition same (e e' : event) : Prop := match e, e' with
    | Did x f ys _, Did x' f' ys' _ => x = x' /\ f = f' /\ ys = ys'
    | Asked o y z b, Asked o' y' z' b' => o = o' /\ y = y' /\ z = z' /\ b = b'
    | _, _ => False end.
  (** where a path leads *)
  Definition leads (s : store) (e : event) : store := match e with Did x f ys _ => set s x (fval f (map s ys)) | Asked _ _ _ _ => s end.
  Definition after (s : store) (p : list event) : store := fold_left leads p s.
  Lemma runs_after s (a : cmd) l p s' : runs s a l p s' -> after s p = s'.
  Proof.
    induction 1; unfold after in *; cbn [fold_left leads]; auto; try (rewrite fold_left_app; now rewrite IHruns1).
  Qed.
  Lemma smooth_app p q : forall s, smooth s (p ++ q) -> smooth s p /\ smooth (after s p) q.
  Proof.
    induction p as [|e p IH]; intros s H; [split; [constructor|exact H]|]. cbn [app] in H. inversion H; subst.
    - match goal with Q : smooth _ (p ++ q) |- _ => destruct (IH _ Q) as [H0 H1] end. split; [now constructor|exact H1].
    - match goal with Q : smooth _ (p ++ q) |- _ => destruct (IH _ Q) as [H0 H1] end. split; [now constructor|exact H1].
  Qed.

  Lemma dmap_slope f vs ds : forall ys j, SSA.dmap 0 Rplus Rmult partial f vs j (map ds ys) = slope f vs ds j ys.
  Proof. induction ys as [|y ys IH]; intros j; cbn; [reflexivity|]. now rewrite IH. Qed.
  Notation derives S t ds := (forall x, is_derive (fun u => S u x) t (ds x)).
  Lemma assign_derives (S : R -> store) t ds x f ys : derives S t ds -> differentiable f (map (S t) ys) ->
    derives (fun u => set (S u) x (fval f (map (S u) ys))) t (set ds x (slope f (map (S t) ys) ds 0 ys)).
  Proof.
    intros D Df z. unfold Path.set. destruct (Nat.eqb x z); [|apply D]. rewrite <- dmap_slope.
    apply (is_derive_ext (fun u => fval f (map (fun g => g u) (map (fun y u => S u y) ys)))); [intros u; now rewrite map_map|].
    apply Df; [now rewrite map_map|]. clear Df. induction ys as [|y ys IH]; constructor; [apply D|exact IH].
  Qed.
  (** the derivative of where a path leads *)
  Lemma after_derives : forall p (S : R -> store) t ds, derives S t ds -> smooth (S t) p -> derives (fun u => after (S u) p) t (along ds p).
  Proof.
    induction p as [|e p IH]; intros S t ds D Sm; [exact D|]. unfold after, Path.along in *. cbn [fold_left].
    inversion Sm; subst; cbn [leads Path.moves].
    - apply (IH (fun u => set (S u) x (fval f (map (S u) ys)))); [now apply assign_derives|assumption].
    - now apply IH.
  Qed.
  Lemma asked_stays (S : R -> store) t ds o y z : derives S t ds -> S t y <> S t z ->
    locally t (fun u => ask o (S u y) (S u z) = ask o (S t y) (S t z)).
  Proof.
    intros D N. apply (ask_stays o (fun u => S u y) (fun u => S u z)); [| |exact N]; eapply derive_continuous; apply D.
  Qed.
  (** nearby the same path is taken *)
  Theorem path_stays : forall s (a : cmd) l p s', runs s a l p s' -> forall (S : R -> store) t ds, S t = s -> derives S t ds -> smooth s p ->
    locally t (fun u => exists l' p', runs (S u) a l' p' (after (S u) p) /\ Forall2 same p p').
  Proof.
    induction 1 as [s|s x f ys|s a b l m p q s' s'' R1 IH1 R2 IH2|s o y z a b l p s' E R IH|s o y z a b l p s' E R IH|s o y z a E
                   |s o y z a l ls p q s' s'' E R1 IH1 R2 IH2]; intros S t ds Es D Sm.
    - apply filter_forall. intros u. exists Nothing, []. split; [constructor|constructor].
    - apply filter_forall. intros u. exists (Values (map (S u) ys)), [Did x f ys (map (S u) ys)].
      split; [constructor|]. constructor; [cbn; auto|constructor].
    - destruct (smooth_app p q s Sm) as [S1 S2]. rewrite (runs_after _ _ _ _ _ R1) in S2.
      pose proof (IH1 S t ds Es D S1) as L1.
      assert (Q : after (S t) p = s') by (rewrite Es; eapply runs_after; exact R1).
      assert (Sp : smooth (S t) p) by (now rewrite Es).
      pose proof (IH2 (fun u => after (S u) p) t (along ds p) Q (after_derives p S t ds D Sp) S2) as L2.
      eapply filter_imp; [|exact (filter_and _ _ L1 L2)]. cbv beta. intros u [[l1 [p1 [Ra Fa]]] [l2 [p2 [Rb Fb]]]].
      exists (Both l1 l2), (p1 ++ p2). split; [|now apply Forall2_app]. unfold after in *. rewrite fold_left_app. econstructor; eassumption.
    - inversion Sm as [| |? ? ? ? ? ? Ne Sm']; subst. pose proof (IH S t ds eq_refl D Sm') as L.
      pose proof (asked_stays S t ds o y z D Ne) as A. rewrite E in A.
      eapply filter_imp; [|exact (filter_and _ _ A L)]. cbv beta. intros u [Au [l' [p' [R' F]]]].
      exists (Branch true l'), (Asked o y z true :: p'). split; [now constructor|]. constructor; [cbn; auto|exact F].
    - inversion Sm as [| |? ? ? ? ? ? Ne Sm']; subst. pose proof (IH S t ds eq_refl D Sm') as L.
      pose proof (asked_stays S t ds o y z D Ne) as A. rewrite E in A.
      eapply filter_imp; [|exact (filter_and _ _ A L)]. cbv beta. intros u [Au [l' [p' [R' F]]]].
      exists (Branch false l'), (Asked o y z false :: p'). split; [now apply run_else|]. constructor; [cbn; auto|exact F].
    - inversion Sm as [| |? ? ? ? ? ? Ne Sm']; subst. pose proof (asked_stays S t ds o y z D Ne) as A. rewrite E in A.
      eapply filter_imp; [|exact A]. cbv beta. intros u Au. exists (Rounds []), [Asked o y z false].
      split; [now apply run_done|]. constructor; [cbn; auto|constructor].
    - inversion Sm as [| |? ? ? ? ? ? Ne Sm']; subst. pose proof (asked_stays S t ds o y z D Ne) as A. rewrite E in A.
      destruct (smooth_app p q _ Sm') as [S1 S2]. rewrite (runs_after _ _ _ _ _ R1) in S2.
      pose proof (IH1 S t ds eq_refl D S1) as L1. assert (Q : after (S t) p = s') by (eapply runs_after; exact R1).
      pose proof (IH2 (fun u => after (S u) p) t (along ds p) Q (after_derives p S t ds D S1) S2) as L2.
      eapply filter_imp; [|exact (filter_and _ _ A (filter_and _ _ L1 L2))]. cbv beta.
      intros u [Au [[l1 [p1 [Ra Fa]]] [l2 [p2 [Rb Fb]]]]]. inversion Rb; subst.
      + exists (Rounds [l1]), (Asked o y z true :: p1 ++ [Asked o y z false]). split.
        * unfold after in *. cbn [fold_left leads]. rewrite fold_left_app. eapply run_round; eassumption.
        * constructor; [cbn; auto|]. now apply Forall2_app.
      + eexists (Rounds (l1 :: _ :: _)), (Asked o y z true :: p1 ++ _). split.
        * unfold after in *. cbn [fold_left leads]. rewrite fold_left_app. eapply run_round; [exact Au|exact Ra|exact Rb].
        * constructor; [cbn; auto|]. now apply Forall2_app.
  Qed.

  (** The path theorem: run from the store S t, a command leaves the log l and the path p. Then nearby it takes the same
      path, and along every differentiable curve of stores the cotangents c of its results, paired with them, have the
      derivative that the adjoint computes of the log; and the command with its adjoint costs at most 4 times the path, the
      numbers of which cotangents are given counted. *)
  Hypothesis fcost_nonneg : forall f, (0 <= fcost f)%Z.
  Notation back := (Path.back Rplus fval DT fcost).
  Definition seen (vars : list nat) (c : @cots R) (s : store) : R := Path.paired 0 Rplus Rmult vars c s.
  Theorem path_has_gradient vars (a : cmd) l p s' (S : R -> store) t ds c : NoDup vars ->
    runs (S t) a l p s' -> List.Forall (Path.arguments_in vars) p -> derives S t ds -> smooth (S t) p ->
    locally t (fun u => exists l' p', runs (S u) a l' p' (after (S u) p) /\ Forall2 same p p')
    /\ is_derive (fun u => seen vars c (after (S u) p)) t (seen vars (back a l c) ds)
    /\ (List.Forall (Path.cheap DT fcost) p ->
        (Path.path_cost fcost p + (snd (back a l c) - snd c) + Path.present vars (back a l c)
          <= 4 * Path.path_cost fcost p + Path.present vars c)%Z).
  Proof.
    intros ND Ru A D Sm. split; [exact (path_stays _ _ _ _ _ Ru S t ds eq_refl D Sm)|]. split.
    - unfold seen. rewrite (path_transposed 0 1 Rplus Rmult Rminus Ropp RTheory fval partial DT fcost ask DT_val vars _ _ _ _ _ c ds ND Ru A).
      unfold Path.paired. apply derive_sum. intros y _. apply derive_scale. apply (after_derives p S t ds D Sm).
    - intros C. eapply path_bound; eassumption.
  Qed.
End Path.

(** ** For the built-in functions nothing more is assumed than that they are applied in their domains *)
Definition in_domain_on (s : @Path.store R) (p : list (@Path.event R symbol)) : Prop := smooth fval partial s p.
Theorem builtin_path_has_gradient vars (a : @Path.cmd symbol) l p s' (S : R -> @Path.store R) t ds c : NoDup vars ->
  Path.runs fval ask (S t) a l p s' -> List.Forall (Path.arguments_in vars) p ->
  (forall x, is_derive (fun u => S u x) t (ds x)) -> in_domain_on (S t) p ->
  is_derive (fun u => seen vars c (after fval (S u) p)) t (seen vars (Path.back Rplus fval DT fcost a l c) ds).
Proof. intros ND Ru A D Sm. now apply (path_has_gradient fval partial DT fcost DT_val fcost_nonneg vars a l p s' S t ds c ND Ru A D Sm). Qed.
(** of statements that apply built-in functions to as many arguments as they take, each is cheap *)
Theorem builtins_are_cheap x (f : builtin) ys (vs : list R) : length ys = arity f -> Path.cheap DT fcost (Did x (Function f) ys vs).
Proof.
  intros L. cbn [Path.cheap]. rewrite L. pose proof (transposes_are_cheap f) as Q.
  assert (E : forall l, zsum l (fun j => fcost (DT (Function f) j)) = fold_right Z.add 0%Z (map (fun j => fcost (DT (Function f) j)) l))
    by (intros l0; induction l0 as [|j l0 IH]; [reflexivity|]; cbn [zsum map fold_right]; now rewrite IH).
  rewrite E. exact Q.
Qed.
