(** When may a rule be applied?  [improves l r]: r means what l means and costs no more, wherever it stands in a program
    (theorem [anywhere]).  [keeps l r]: the same, except directly in a sum or next to a + or -, which look at the
    brackets of what they are given (theorem [sealed]). *)
Require Import String List Bool ZArith Lia.
Import ListNotations.
Require Import TL.Sums TL.Boxes TL.Core TL.Free.
Open Scope list_scope.

Lemma b2z_le a b : (a = true -> b = true) -> (b2z a <= b2z b)%Z.
Proof. destruct a, b; simpl; intros H; lia. Qed.

Section Improve.
  Context {K : Type} (rO rI : K) (radd rmul rsub : K -> K -> K).
  Context {fn : Type} (fval : fn -> list K -> K) (fcost : fn -> Z) (R : data).
  Notation expr := (@expr K fn).
  Notation eval := (eval rO radd rmul rsub fval R).
  Notation cost := (cost fcost R).
  Notation guard := (guard R). Notation live := (live R). Notation reach := (reach R).
  Open Scope Z_scope.

  Record keeps_at (s : ienv) (l r : expr) : Prop := {
    same : forall rho, same_val (eval rho s r) (eval rho s l);
    cheap : cost s r <= cost s l }.
  Record improves_at (s : ienv) (l r : expr) : Prop := {
    kept : keeps_at s l r;
    guarded : guard s r = true -> guard s l = true;
    lively : live s r = true -> live s l = true;
    reached : cost s r + b2z (reach s r) <= cost s l + b2z (reach s l) }.
  Definition keeps l r := forall s, keeps_at s l r.
  Definition improves l r := forall s, improves_at s l r.
  (** each may be replaced by the other *)
  Definition equivalent l r := improves l r /\ improves r l.

  Lemma keeps_trans s a b c : keeps_at s a b -> keeps_at s b c -> keeps_at s a c.
  Proof.
    intros [V C] [V' C']. split; [|lia]. intros rho d w. rewrite V'. apply V.
  Qed.
  Lemma improves_refl s e : improves_at s e e.
  Proof. repeat split; auto; try lia; intros rho d w; reflexivity. Qed.
  Lemma improves_trans s a b c : improves_at s a b -> improves_at s b c -> improves_at s a c.
  Proof.
    intros [K1 G1 L1 R1] [K2 G2 L2 R2]. split; auto; [eapply keeps_trans; eassumption|lia].
  Qed.
  (** where no bracket, sum, + or - is outermost, nothing but value and cost matters *)
  Definition closed (e : expr) := forall s, guard s e = true /\ live s e = true /\ reach s e = true.
  Lemma keeps_improves s l r : closed l -> keeps_at s l r -> improves_at s l r.
  Proof.
    intros C [V H]. destruct (C s) as (G & L & E). split; auto; [now split|]. rewrite E.
    pose proof (b2z_range (reach s r)). cbn [b2z]. lia.
  Qed.
  Lemma equivalent_intro l r :
    (forall rho s, same_val (eval rho s r) (eval rho s l)) -> (forall s, cost s r = cost s l) ->
    (forall s, guard s r = guard s l) -> (forall s, live s r = live s l) -> (forall s, reach s r = reach s l) ->
    equivalent l r.
  Proof.
    intros V C G L E. split; intros s; (split; [split|..]); rewrite ?C, ?G, ?L, ?E; auto; try lia.
    intros rho d w. symmetry. apply V.
  Qed.

  Lemma improves_intro l r : closed l ->
    (forall rho s, same_val (eval rho s r) (eval rho s l)) -> (forall s, cost s r <= cost s l) -> improves l r.
  Proof. intros C V H s. apply keeps_improves; [assumption|]. now split. Qed.
  Lemma equivalent_closed l r : closed l -> closed r ->
    (forall rho s, same_val (eval rho s r) (eval rho s l)) -> (forall s, cost s r = cost s l) -> equivalent l r.
  Proof.
    intros Cl Cr V H. apply equivalent_intro; auto; intros s;
      destruct (Cl s) as (G & L & E), (Cr s) as (G' & L' & E'); congruence.
  Qed.

  (** * Contexts *)
  Inductive frame :=
  | FAddL (e : expr) | FAddR (e : expr) | FSubL (e : expr) | FSubR (e : expr) | FMulL (e : expr) | FMulR (e : expr)
  | FFn (f : fn) (before after : list expr) | FPairL (e : expr) | FPairR (e : expr) | FFst | FSnd
  | FGen (i : ix) (n : nat) | FSum (i : ix) (n : nat) | FAcc (a : aff) | FInd (p : prd)
  | FLetL (x : string) (e : expr) | FLetR (x : string) (e : expr).
  Definition plug (f : frame) (h : expr) : expr :=
    match f with
    | FAddL e => EAdd h e | FAddR e => EAdd e h | FSubL e => ESub h e | FSubR e => ESub e h
    | FMulL e => EMul h e | FMulR e => EMul e h | FFn f l l' => EFn f (l ++ h :: l')
    | FPairL e => EPair h e | FPairR e => EPair e h | FFst => EFst h | FSnd => ESnd h
    | FGen i n => EGen i n h | FSum i n => ESum i n h | FAcc a => EAcc h a | FInd p => EInd p h
    | FLetL x e => ELet x h e | FLetR x e => ELet x e h
    end.
  (** the index environments in which the hole is evaluated *)
  Inductive enters : frame -> ienv -> ienv -> Prop :=
  | enters_gen i n s z : inside n z = true -> enters (FGen i n) s (upd s i z)
  | enters_sum i n s z : inside n z = true -> enters (FSum i n) s (upd s i z)
  | enters_bracket p s : pval R s p = true -> enters (FInd p) s s
  | enters_other f s : match f with FGen _ _ | FSum _ _ | FInd _ => False | _ => True end -> enters f s s.
  (** outermost frame first *)
  Definition fill (c : list frame) (h : expr) : expr := fold_right plug h c.
  Fixpoint enters_all (c : list frame) (s s' : ienv) : Prop :=
    match c with [] => s' = s | f :: c' => exists t, enters f s t /\ enters_all c' t s' end.

  Lemma fold_le (l : list expr) s h h' m : cost s h' <= cost s h ->
    fold_right Z.add 0 (map (cost s) (l ++ h' :: m)) <= fold_right Z.add 0 (map (cost s) (l ++ h :: m)).
  Proof. intros H. induction l; cbn [app map fold_right]; lia. Qed.
  (** brackets apart, value and cost in a frame come from the hole's value and cost *)
  Definition seals (f : frame) : Prop :=
    match f with FAddL _ | FAddR _ | FSubL _ | FSubR _ | FSum _ _ | FInd _ => False | _ => True end.
  Lemma seals_closed f h : seals f -> closed (plug f h).
  Proof. intros H s. destruct f; try destruct H; repeat split. Qed.
  Lemma keeps_frame f s l r : seals f \/ (exists p, f = FInd p) ->
    (forall s', enters f s s' -> keeps_at s' l r) -> keeps_at s (plug f l) (plug f r).
  Proof.
    intros Sf H.
    assert (O : match f with FGen _ _ | FSum _ _ | FInd _ => True | _ => keeps_at s l r end)
      by (destruct f; auto; apply H; constructor; exact I).
    destruct f; try (destruct Sf as [[]|[? [=]]]); cbn [plug];
      try match type of O with keeps_at _ _ _ =>
        destruct O as [V C]; split; [intros rho d w; cbn [Core.eval]|cbn [Core.cost]] end; try lia; try apply V.
    - now rewrite V.
    - now rewrite V.
    - f_equal. rewrite !map_app. cbn [map]. now rewrite V.
    - pose proof (fold_le before s _ _ after C). lia.
    - destruct d as [|[|] d]; [reflexivity|apply V|reflexivity].
    - destruct d as [|[|] d]; [reflexivity|reflexivity|apply V].
    - split; [intros rho d w|]; cbn [Core.eval Core.cost].
      + destruct w as [|z w]; [reflexivity|]. destruct (inside n z) eqn:E; [|reflexivity]. apply H. now constructor.
      + apply zsum_le. intros z Hz. apply H. constructor. now apply zrange_inside.
    - split; [intros rho d w|]; cbn [Core.eval Core.cost].
      + destruct (pval R s p) eqn:E; [|reflexivity]. apply H. now constructor.
      + destruct (pval R s p) eqn:E; [|lia]. apply H. now constructor.
    - apply eval_ext; [|apply agree_refl]. apply same_vals_upd; [intros d' w'; apply V|apply same_vals_refl].
  Qed.

  Lemma and_mono a a' b : (a = true -> a' = true) -> b2z (a && b) <= b2z (a' && b).
  Proof. destruct a, a', b; simpl; intros H; lia. Qed.
  Lemma and_mono' a a' b : (a = true -> a' = true) -> b2z (b && a) <= b2z (b && a').
  Proof. destruct a, a', b; simpl; intros H; lia. Qed.
  Lemma or_mono a a' b : (a = true -> a' = true) -> a || b = true -> a' || b = true.
  Proof. destruct a, a', b; simpl; auto. Qed.
  Lemma or_mono' a a' b : (a = true -> a' = true) -> b || a = true -> b || a' = true.
  Proof. destruct a, a', b; simpl; auto. Qed.

  (** a sum is improved by improving its body; [existsb_pos] says that dropping every point saves one operation *)
  Lemma existsb_pos {A} (l : list A) f g c d :
    (forall a, In a l -> c a + b2z (f a) <= d a + b2z (g a)) -> (forall a, In a l -> c a <= d a) ->
    zsum l (fun a => c a + b2z (f a)) - b2z (existsb f l) <= zsum l (fun a => d a + b2z (g a)) - b2z (existsb g l).
  Proof.
    intros H1 H2. assert (T : zsum l (fun a => c a + b2z (f a)) <= zsum l (fun a => d a + b2z (g a)))
      by now apply zsum_le.
    destruct (existsb f l) eqn:Ef; [pose proof (b2z_range (existsb g l)); cbn [b2z]; lia|].
    destruct (existsb g l) eqn:Eg; [|lia]. cbn [b2z].
    assert (F : forall a, In a l -> f a = false).
    { intros a Ha. destruct (f a) eqn:E; [|reflexivity]. rewrite <- Ef. symmetry. apply existsb_exists. eauto. }
    apply existsb_exists in Eg. destruct Eg as [a [Ha Ga]]. clear T Ef. revert Ha H1 H2 F.
    induction l as [|b l IH]; intros Ha H1 H2 F; [destruct Ha|]. cbn [zsum].
    pose proof (H1 b (or_introl eq_refl)). pose proof (H2 b (or_introl eq_refl)).
      rewrite (F b (or_introl eq_refl)) in *.
    destruct Ha as [->|Ha].
    - rewrite Ga. assert (zsum l (fun a => c a + b2z (f a)) <= zsum l (fun a => d a + b2z (g a))).
      { apply zsum_le. intros x Hx. apply H1. right; assumption. }
      cbn [b2z] in *. lia.
    - assert (zsum l (fun a => c a + b2z (f a)) - 0 <= zsum l (fun a => d a + b2z (g a)) - 1)
        by (apply IH; auto; intros; [apply H1|apply H2|apply F]; right; assumption).
      lia.
  Qed.

  Lemma improves_frame f s l r :
    (forall s', enters f s s' -> improves_at s' l r) -> improves_at s (plug f l) (plug f r).
  Proof.
    intros H.
    assert (O : match f with FGen _ _ | FSum _ _ | FInd _ => True | _ => improves_at s l r end)
      by (destruct f; auto; apply H; constructor; exact I).
    assert (Q : seals f \/ (exists p, f = FInd p) -> keeps_at s (plug f l) (plug f r)).
    { intros Sf. apply keeps_frame; [assumption|]. intros s' Hs. apply (kept _ _ _ (H s' Hs)). }
    destruct f; try (apply keeps_improves; [now apply seals_closed|apply Q; left; exact I]); cbn [plug].
    - destruct O as [[V C] G L E]. split; [split|..]; cbn [Core.guard Core.live Core.reach Core.cost]; auto.
      + intros rho d w. cbn [Core.eval]. now rewrite V.
      + pose proof (and_mono _ _ (live s e) L). lia.
      + apply or_mono, L.
      + pose proof (and_mono _ _ (live s e) L). lia.
    - destruct O as [[V C] G L E]. split; [split|..]; cbn [Core.guard Core.live Core.reach Core.cost]; auto.
      + intros rho d w. cbn [Core.eval]. now rewrite V.
      + pose proof (and_mono' _ _ (live s e) L). lia.
      + apply or_mono', L.
      + pose proof (and_mono' _ _ (live s e) L). lia.
    - destruct O as [[V C] G L E]. split; [split|..]; cbn [Core.guard Core.live Core.reach Core.cost]; auto.
      + intros rho d w. cbn [Core.eval]. now rewrite V.
      + lia.
      + apply or_mono, L.
      + lia.
    - destruct O as [[V C] G L E]. pose proof (b2z_le _ _ L).
      split; [split|..]; cbn [Core.guard Core.live Core.reach Core.cost]; auto; try lia.
      + intros rho d w. cbn [Core.eval]. now rewrite V.
      + apply or_mono', L.
    - assert (C : cost s (ESum i n r) <= cost s (ESum i n l)).
      { cbn [Core.cost]. apply existsb_pos; intros z Hz; apply H; constructor; now apply zrange_inside. }
      split; [split|..]; auto.
      + intros rho d w. cbn [Core.eval]. apply sum_ext. intros z Hz. apply H. constructor. now apply zrange_inside.
      + cbn [Core.cost Core.reach]. rewrite !Z.sub_add. apply zsum_le. intros z Hz. apply H. constructor.
        now apply zrange_inside.
    - split; [apply Q; right; eauto|..]; cbn [Core.guard Core.live Core.reach Core.cost];
        (destruct (pval R s p) eqn:E; cbn [andb]; [|easy]); apply H; now constructor.
  Qed.

  (** A rule that improves may be applied anywhere: it need only hold where the program evaluates its place. *)
  Theorem anywhere c : forall s l r,
    (forall s', enters_all c s s' -> improves_at s' l r) -> improves_at s (fill c l) (fill c r).
  Proof.
    induction c as [|f c IH]; intros s l r H; [now apply H|]. apply improves_frame. intros t Ht. apply IH.
    intros s' Hs. apply H. exists t. auto.
  Qed.
  (** A rule that keeps may be applied within any frame that seals, brackets in between. *)
  Theorem sealed f ps s l r : seals f ->
    (forall s', enters_all (f :: map FInd ps) s s' -> keeps_at s' l r) ->
    improves_at s (plug f (fill (map FInd ps) l)) (plug f (fill (map FInd ps) r)).
  Proof.
    intros Sf H. apply keeps_improves; [now apply seals_closed|]. apply keeps_frame; [now left|].
    intros t Ht. assert (H' : forall s', enters_all (map FInd ps) t s' -> keeps_at s' l r) by (intros s' Hs; apply H;
      exists t; auto).
    clear H Ht. revert t H'. induction ps as [|p ps IH]; intros t H'; [now apply H'|].
    apply (keeps_frame (FInd p)); [right; eauto|]. intros t' Ht'. apply IH. intros s' Hs. apply H'. exists t'. auto.
  Qed.
End Improve.
