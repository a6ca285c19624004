(** A program of Figure 3 checked at given sizes: its type, and whether all accesses are in bounds wherever they are
    evaluated. This decides whether it is well-formed, which the theorems about programs have as their premise; the
    extracted program asks it of every random program. *)
Require Import String List Bool ZArith Arith Lia.
Import ListNotations.
Require Import TL.Sums TL.Boxes TL.Core TL.Typing TL.Program.
Open Scope list_scope.

Fixpoint ty_eqb (T T' : ty) : bool :=
  match T, T' with
  | TReal, TReal => true
  | TArray n T, TArray n' T' => Nat.eqb n n' && ty_eqb T T'
  | TPair T0 T1, TPair T0' T1' => ty_eqb T0 T0' && ty_eqb T1 T1'
  | _, _ => false
  end.
Lemma ty_eqb_eq T : forall T', ty_eqb T T' = true <-> T = T'.
Proof.
  induction T as [|n T IH|T0 IH0 T1 IH1]; intros [|n' T'|T0' T1']; cbn; split; try discriminate; auto; rewrite andb_true_iff.
  - rewrite Nat.eqb_eq, IH. intros [-> ->]. reflexivity.
  - rewrite Nat.eqb_eq, IH. intros H. inversion H. auto.
  - rewrite IH0, IH1. intros [-> ->]. reflexivity.
  - rewrite IH0, IH1. intros H. inversion H. auto.
Qed.

Section Check.
  Context {K fn : Type} (takes : fn -> nat -> bool) (R : data).
  Notation expr := (@Core.expr K fn).
  Notation checks := (Typing.checks (K := K) (fun f n => takes f n = true) R).

  Definition is_real (T : option ty) : bool := match T with Some TReal => true | _ => false end.
  (** the type of e, if its accesses are in bounds for the values l of the indices *)
  Fixpoint type_of (C : context) (l : list ienv) (e : expr) : option ty :=
    let below i n := flat_map (fun s => map (upd s i) (zrange n)) l in
    match e with
    | EVar x => C x
    | ECst _ => Some TReal
    | EAdd a b | ESub a b | EMul a b => if is_real (type_of C l a) && is_real (type_of C l b) then Some TReal else None
    | EFn f es => if takes f (List.length es) && forallb (fun a => is_real (type_of C l a)) es then Some TReal else None
    | EPair a b => match type_of C l a, type_of C l b with Some T0, Some T1 => Some (TPair T0 T1) | _, _ => None end
    | EFst a => match type_of C l a with Some (TPair T0 _) => Some T0 | _ => None end
    | ESnd a => match type_of C l a with Some (TPair _ T1) => Some T1 | _ => None end
    | EGen i n a => option_map (TArray n) (type_of C (below i n) a)
    | ESum i n a => if is_real (type_of C (below i n) a) then Some TReal else None
    | EAcc a k =>
        match type_of C l a with
        | Some (TArray n T) => if forallb (fun s => inside n (aval R s k)) l then Some T else None
        | _ => None
        end
    | EInd p a => type_of C (filter (fun s => pval R s p) l) a
    | ELet x a b => match type_of C l a with Some T0 => type_of (upd C x (Some T0)) l b | None => None end
    end.

  Lemma checks_less C P e T : checks C P e T -> forall Q : ienv -> Prop, (forall s, Q s -> P s) -> checks C Q e T.
  Proof.
    induction 1; intros Q I; try (econstructor; eauto; fail).
    - apply check_gen, IHchecks. intros s [s' [z [Hs Hz]]]. exists s', z. auto.
    - apply check_sum, IHchecks. intros s [s' [z [Hs Hz]]]. exists s', z. auto.
    - apply check_ind, IHchecks. intros s [Hs Hp]. auto.
  Qed.
  Lemma below_in l i n s :
    In s (flat_map (fun s => map (upd s i) (zrange n)) l) <-> exists s' z, In s' l /\ inside n z = true /\ s = upd s' i z.
  Proof.
    rewrite in_flat_map. split.
    - intros [s' [Hs H]]. apply in_map_iff in H. destruct H as [z [<- Hz]]. exists s', z. repeat split; [exact Hs|]. now apply zrange_inside.
    - intros [s' [z [Hs [Hz ->]]]]. exists s'. split; [exact Hs|]. apply in_map, zrange_inside, Hz.
  Qed.
  Lemma is_real_eq T : is_real T = true -> T = Some TReal.
  Proof. destruct T as [[]|]; cbn; congruence. Qed.
  Theorem type_of_sound : forall e C l T, type_of C l e = Some T -> checks C (fun s => In s l) e T.
  Proof.
    fix IH 1. intros [x|c|a b|a b|a b|f es|a b|a|a|i n a|i n a|a k|p a|x a b] C l T; cbn [type_of]; intros H.
    - now apply check_var.
    - inversion H. apply check_cst.
    - destruct (is_real (type_of C l a)) eqn:Ea; [|discriminate]. destruct (is_real (type_of C l b)) eqn:Eb; inversion H.
      apply is_real_eq in Ea. apply is_real_eq in Eb. now apply check_add; apply IH.
    - destruct (is_real (type_of C l a)) eqn:Ea; [|discriminate]. destruct (is_real (type_of C l b)) eqn:Eb; inversion H.
      apply is_real_eq in Ea. apply is_real_eq in Eb. now apply check_sub; apply IH.
    - destruct (is_real (type_of C l a)) eqn:Ea; [|discriminate]. destruct (is_real (type_of C l b)) eqn:Eb; inversion H.
      apply is_real_eq in Ea. apply is_real_eq in Eb. now apply check_mul; apply IH.
    - destruct (takes f (List.length es)) eqn:Et; [|discriminate].
      destruct (forallb (fun a => is_real (type_of C l a)) es) eqn:Ee; inversion H. apply check_fn; [exact Et|].
      clear H H1 Et. induction es as [|a es IHes]; [intros b []|]. cbn [forallb] in Ee. apply andb_prop in Ee. destruct Ee as [Ea Ee].
      intros b [<-|Hb]; [apply IH, is_real_eq, Ea|apply IHes; assumption].
    - destruct (type_of C l a) as [T0|] eqn:Ea; [|discriminate]. destruct (type_of C l b) as [T1|] eqn:Eb; inversion H.
      now apply check_pair; apply IH.
    - destruct (type_of C l a) as [[| |T0 T1]|] eqn:Ea; inversion H; subst. apply check_fst with T1. now apply IH.
    - destruct (type_of C l a) as [[| |T0 T1]|] eqn:Ea; inversion H; subst. apply check_snd with T0. now apply IH.
    - destruct (type_of C _ a) as [T'|] eqn:Ea; inversion H. apply check_gen. apply (checks_less _ _ _ _ (IH a _ _ _ Ea)).
      intros s Hs. now apply below_in.
    - destruct (is_real (type_of C _ a)) eqn:Ea; inversion H. apply is_real_eq in Ea. apply check_sum.
      apply (checks_less _ _ _ _ (IH a _ _ _ Ea)). intros s Hs. now apply below_in.
    - destruct (type_of C l a) as [[|n T'|]|] eqn:Ea; try discriminate.
      destruct (forallb (fun s => inside n (aval R s k)) l) eqn:Eb; inversion H; subst. apply check_acc with n; [now apply IH|].
      intros s Hs. rewrite forallb_forall in Eb. now apply Eb.
    - apply check_ind. apply (checks_less _ _ _ _ (IH a _ _ _ H)). intros s Hs. now apply filter_In.
    - destruct (type_of C l a) as [T0|] eqn:Ea; [|discriminate]. apply check_let with T0; now apply IH.
  Qed.
  Theorem type_of_complete C P e T : checks C P e T -> forall l, (forall s, In s l -> P s) -> type_of C l e = Some T.
  Proof.
    induction 1 as [C P x T Hx|C P c|C P a b _ IHa _ IHb|C P a b _ IHa _ IHb|C P a b _ IHa _ IHb|C P f es L _ IH|C P a b T0 T1 _ IHa _ IHb
                   |C P a T0 T1 _ IH|C P a T0 T1 _ IH|C P i n a T _ IH|C P i n a _ IH|C P a n T k _ IH B|C P p a T _ IH|C P x a b T0 T1 _ IHa _ IHb];
    intros l Hl; cbn [type_of].
    - exact Hx.
    - reflexivity.
    - now rewrite (IHa l Hl), (IHb l Hl).
    - now rewrite (IHa l Hl), (IHb l Hl).
    - now rewrite (IHa l Hl), (IHb l Hl).
    - rewrite L. assert (forallb (fun a => is_real (type_of C l a)) es = true) as ->; [|reflexivity].
      apply forallb_forall. intros a Ha. now rewrite (IH a Ha l Hl).
    - now rewrite (IHa l Hl), (IHb l Hl).
    - now rewrite (IH l Hl).
    - now rewrite (IH l Hl).
    - rewrite IH; [reflexivity|]. intros s Hs. apply below_in in Hs. destruct Hs as [s' [z [Hs Hz]]]. exists s', z. auto.
    - rewrite IH; [reflexivity|]. intros s Hs. apply below_in in Hs. destruct Hs as [s' [z [Hs Hz]]]. exists s', z. auto.
    - rewrite (IH l Hl). assert (forallb (fun s => inside n (aval R s k)) l = true) as ->; [|reflexivity].
      apply forallb_forall. intros s Hs. apply B, Hl, Hs.
    - apply IH. intros s Hs. apply filter_In in Hs. destruct Hs. auto.
    - rewrite (IHa l Hl). apply IHb, Hl.
  Qed.
  (** whether e is a well-formed program of the parameters ps, with a value of type T *)
  Definition accepts (ps : parameters) (e : expr) (T : ty) : bool :=
    match type_of (context_of ps) [s0] e with Some T' => ty_eqb T' T | None => false end.
  Theorem accepts_well_formed ps e T : accepts ps e T = true <-> well_formed (fun f n => takes f n = true) R ps e T.
  Proof.
    unfold accepts, well_formed. split.
    - destruct (type_of (context_of ps) [s0] e) as [T'|] eqn:E; [|discriminate]. intros H. apply ty_eqb_eq in H. subst.
      apply (checks_less _ _ _ _ (type_of_sound _ _ _ _ E)). intros s ->. left. reflexivity.
    - intros H. rewrite (type_of_complete _ _ _ _ H) by (intros s [<-|[]]; reflexivity). now apply ty_eqb_eq.
  Qed.
End Check.
