(** Conditions on values (Compared in tensorlang/language/grammar.py, Comparison in tensorlang/normal/ssa.py).

    A program with conditions is a list of lets, and what is made of them. A let may [Ask] a question about numbers: it
    makes an index array of zeros and ones, gen bs. [p] * (a < b), which predicates look up from then on. Lets stand
    outermost, as let-lifting (Figure 7) leaves them.

    What an index array holds is data, and all other theorems hold for any data. So a program with conditions is, for the
    answers to its questions, a program of Figure 3, [erased]: there the question is the product of the numbers that are
    compared, of which nothing is read. It costs what a comparison costs, an operation at each point that is asked about,
    and has no differential to give. [erased_value]: it computes what the program with conditions does. *)
Require Import String List Bool ZArith Lia.
Import ListNotations.
Require Import TL.Sums TL.Boxes TL.Core TL.Free TL.Typing TL.Program.
Open Scope list_scope.

Inductive question := Less | AtMost | Same.

(** * The index arrays that are looked up *)
Fixpoint looked_a (a : aff) : list string :=
  match a with
  | AVar _ | ACst _ => [] | AAdd a b => looked_a a ++ looked_a b | AScl _ a => looked_a a
  | ALook y l => y :: flat_map looked_a l
  end.
Fixpoint looked_p (p : prd) : list string :=
  match p with
  | PTrue => [] | PLt a b | PLe a b | PEq a b => looked_a a ++ looked_a b
  | PRel _ l => flat_map looked_a l
  | PAnd p q | POr p q => looked_p p ++ looked_p q
  | PEx _ _ p => looked_p p
  end.
(** R and R' are the same but for index arrays that are not in l *)
Definition alike (l : list string) (R R' : data) : Prop :=
  (forall r w, holds R r w = holds R' r w) /\ forall y, In y l -> forall w, entry R y w = entry R' y w.
Lemma alike_incl l m R R' : incl m l -> alike l R R' -> alike m R R'.
Proof. intros I [H E]. split; [exact H|]. intros y Hy. apply E, I, Hy. Qed.
Lemma alike_l l m R R' : alike (l ++ m) R R' -> alike l R R'.
Proof. apply alike_incl. apply incl_appl, incl_refl. Qed.
Lemma alike_r l m R R' : alike (l ++ m) R R' -> alike m R R'.
Proof. apply alike_incl. apply incl_appr, incl_refl. Qed.
Lemma alike_sym l R R' : alike l R R' -> alike l R' R.
Proof. intros [H E]. split; [intros; symmetry; apply H|intros; symmetry; now apply E]. Qed.
Lemma aval_alike R R' s : forall a, alike (looked_a a) R R' -> aval R s a = aval R' s a.
Proof.
  apply (aff_ind2 (fun a => alike (looked_a a) R R' -> aval R s a = aval R' s a)); cbn [looked_a aval]; intros; auto.
  - now rewrite (H (alike_l _ _ _ _ H1)), (H0 (alike_r _ _ _ _ H1)).
  - now rewrite H.
  - assert (map (aval R s) l = map (aval R' s) l) as ->; [|apply H0; left; reflexivity].
    rewrite Forall_forall in H. apply map_ext_in. intros a Ha. apply H; [exact Ha|]. eapply alike_incl; [|exact H0].
    intros z Hz. right. apply in_flat_map. eauto.
Qed.
Lemma avals_alike R R' s l : alike (flat_map looked_a l) R R' -> map (aval R s) l = map (aval R' s) l.
Proof.
  intros H. apply map_ext_in. intros a Ha. apply aval_alike. eapply alike_incl; [|exact H]. intros z Hz. apply in_flat_map. eauto.
Qed.
Lemma pval_alike R R' : forall p s, alike (looked_p p) R R' -> pval R s p = pval R' s p.
Proof.
  induction p; cbn [looked_p pval]; intros s H; auto;
  try (rewrite (aval_alike R R' s a), (aval_alike R R' s b) by eauto using alike_l, alike_r; reflexivity);
  try (rewrite IHp1, IHp2 by eauto using alike_l, alike_r; reflexivity).
  - rewrite (avals_alike _ _ _ _ H). apply H.
  - induction (zrange n) as [|z l IHl]; [reflexivity|]. cbn [existsb]. now rewrite IHp, IHl.
Qed.

Section Conditions.
  Context {K : Type} (rO : K) (radd rmul rsub : K -> K -> K).
  Context {fn : Type} (fval : fn -> list K -> K) (ask : question -> K -> K -> bool).
  Notation expr := (@Core.expr K fn).
  Notation venv := (@Core.venv K).
  Notation value := (Core.eval rO radd rmul rsub fval).

  Fixpoint looked (e : expr) : list string :=
    match e with
    | EVar _ | ECst _ => []
    | EAdd a b | ESub a b | EMul a b | EPair a b | ELet _ a b => looked a ++ looked b
    | EFn _ es => flat_map looked es
    | EFst a | ESnd a | EGen _ _ a | ESum _ _ a => looked a
    | EAcc a k => looked_a k ++ looked a
    | EInd p a => looked_p p ++ looked a
    end.
  Lemma value_alike R R' : forall e r r' s, alike (looked e) R R' -> (forall x d w, r x d w = r' x d w) ->
    forall d w, value R r s e d w = value R' r' s e d w.
  Proof.
    fix IH 1. intros [x|c|a b|a b|a b|f es|a b|a|a|i n a|i n a|a k|p a|x a b] r r' s H Hr d w; cbn [looked] in H; cbn [Core.eval]; auto.
    - now rewrite (IH a r r' s (alike_l _ _ _ _ H) Hr), (IH b r r' s (alike_r _ _ _ _ H) Hr).
    - now rewrite (IH a r r' s (alike_l _ _ _ _ H) Hr), (IH b r r' s (alike_r _ _ _ _ H) Hr).
    - now rewrite (IH a r r' s (alike_l _ _ _ _ H) Hr), (IH b r r' s (alike_r _ _ _ _ H) Hr).
    - f_equal. induction es as [|a es IHes]; [reflexivity|]. cbn [flat_map] in H. cbn [map].
      rewrite (IH a r r' s (alike_l _ _ _ _ H) Hr). f_equal. apply IHes, (alike_r _ _ _ _ H).
    - destruct d as [|[|] d]; [reflexivity| |].
      + apply (IH a r r' s (alike_l _ _ _ _ H) Hr).
      + apply (IH b r r' s (alike_r _ _ _ _ H) Hr).
    - destruct w as [|z w]; [reflexivity|]. now rewrite (IH a r r' _ H Hr).
    - apply sum_ext. intros z _. apply (IH a r r' _ H Hr).
    - rewrite (aval_alike R R' s k (alike_l _ _ _ _ H)). apply (IH a r r' s (alike_r _ _ _ _ H) Hr).
    - rewrite (pval_alike R R' p s (alike_l _ _ _ _ H)). now rewrite (IH a r r' s (alike_r _ _ _ _ H) Hr).
    - apply (IH b _ _ s (alike_r _ _ _ _ H)). intros y d' w'. unfold upd. destruct (String.eqb x y); [|apply Hr].
      apply (IH a r r' s (alike_l _ _ _ _ H) Hr).
  Qed.

  (** * Programs with conditions *)
  Inductive item :=
  | Bind (x : string) (e : expr)                                                       (** let x = e *)
  | Ask (c : string) (bs : binders) (p : prd) (o : question) (a b : expr).             (** let c = gen bs. [p] * (a < b) *)

  (** the answers: 1 or 0, and 0 where nothing is asked *)
  Definition answer (R : data) (r : venv) (bs : binders) (p : prd) (o : question) (a b : expr) (zs : list Z) : Z :=
    let s := upds s0 bs zs in
    if existsb (leqb zs) (bbox bs) && (pval R s p && ask o (value R r s a [] []) (value R r s b [] [])) then 1%Z else 0%Z.
  Definition with_entry (R : data) (c : string) (f : list Z -> Z) : data :=
    Data (holds R) (fun y l => if String.eqb c y then f l else entry R y l).
  (** one let after the other: what is known after them, *)
  Fixpoint follow (R : data) (r : venv) (l : list item) : data * venv :=
    match l with
    | [] => (R, r)
    | Bind x e :: l' => follow R (upd r x (value R r s0 e)) l'
    | Ask c bs p o a b :: l' => follow (with_entry R c (answer R r bs p o a b)) r l'
    end.
  (** and what the program means *)
  Definition conditional (R : data) (r : venv) (l : list item) (e : expr) : @Core.val K :=
    let (R', r') := follow R r l in value R' r' s0 e.
  Definition decided (R : data) (r : venv) (l : list item) : data := fst (follow R r l).

  (** ** Without conditions *)
  Definition compared (bs : binders) (p : prd) (a b : expr) : expr := gens bs (EInd p (EMul a b)).
  Fixpoint erased (l : list item) (e : expr) : expr :=
    match l with
    | [] => e
    | Bind x a :: l' => ELet x a (erased l' e)
    | Ask _ bs p _ a b :: l' => EFst (EPair (erased l' e) (compared bs p a b))
    end.
  (** the lets alone *)
  Fixpoint after (R : data) (r : venv) (l : list item) : venv :=
    match l with [] => r | Bind x e :: l' => after R (upd r x (value R r s0 e)) l' | Ask _ _ _ _ _ _ :: l' => after R r l' end.
  Lemma value_erased R e : forall l r d w, value R r s0 (erased l e) d w = value R (after R r l) s0 e d w.
  Proof. induction l as [|[x a|c bs p o a b] l IH]; intros r d w; cbn [erased after Core.eval]; auto. Qed.

  (** ** Each question has a name of its own, which nothing before it looks up *)
  Definition asked (l : list item) : list string := flat_map (fun i => match i with Bind _ _ => [] | Ask c _ _ _ _ _ => [c] end) l.
  Definition apart (l m : list string) : Prop := forall y, In y l -> ~ In y m.
  Fixpoint scoped (l : list item) : Prop :=
    match l with
    | [] => True
    | Bind _ e :: l' => apart (looked e) (asked l') /\ scoped l'
    | Ask c _ p _ a b :: l' => apart (looked_p p ++ looked a ++ looked b) (c :: asked l') /\ ~ In c (asked l') /\ scoped l'
    end.
  (** R holds the answers to the questions of l *)
  Fixpoint fits (R : data) (r : venv) (l : list item) : Prop :=
    match l with
    | [] => True
    | Bind x e :: l' => fits R (upd r x (value R r s0 e)) l'
    | Ask c bs p o a b :: l' => (forall zs, entry R c zs = answer R r bs p o a b zs) /\ fits R r l'
    end.
  (** nothing but the answers is new *)
  Definition beyond (m : list string) (R R' : data) : Prop :=
    (forall r w, holds R r w = holds R' r w) /\ forall y, ~ In y m -> forall w, entry R y w = entry R' y w.
  Lemma beyond_alike m l R R' : beyond m R R' -> apart l m -> alike l R R'.
  Proof. intros [H E] A. split; [exact H|]. intros y Hy. apply E, A, Hy. Qed.
  Lemma beyond_trans m R R' R'' : beyond m R R' -> beyond m R' R'' -> beyond m R R''.
  Proof. intros [H E] [H' E']. split; [intros; now rewrite H|]. intros y Hy w. rewrite E by exact Hy. now apply E'. Qed.
  Lemma apart_l l l' m : apart (l ++ l') m -> apart l m.
  Proof. intros A y Hy. apply A, in_or_app. auto. Qed.
  Lemma apart_r l l' m : apart (l ++ l') m -> apart l' m.
  Proof. intros A y Hy. apply A, in_or_app. auto. Qed.
  Lemma answer_alike R R' r r' bs p o a b zs : alike (looked_p p ++ looked a ++ looked b) R R' -> (forall x d w, r x d w = r' x d w) ->
    answer R r bs p o a b zs = answer R' r' bs p o a b zs.
  Proof.
    intros H Hr. unfold answer. rewrite (pval_alike R R' p _ (alike_l _ _ _ _ H)).
    rewrite (value_alike R R' a r r' _ (alike_l _ _ _ _ (alike_r _ _ _ _ H)) Hr).
    now rewrite (value_alike R R' b r r' _ (alike_r _ _ _ _ (alike_r _ _ _ _ H)) Hr).
  Qed.
  Lemma fits_ext R : forall l r r', (forall x d w, r x d w = r' x d w) -> fits R r l -> fits R r' l.
  Proof.
    assert (A : forall m, alike m R R) by (intros m; split; reflexivity).
    induction l as [|[x e|c bs p o a b] l IH]; intros r r' Hr; cbn [fits]; auto.
    - apply IH. intros y d w. unfold upd. destruct (String.eqb x y); [|apply Hr]. now apply value_alike.
    - intros [H F]. split; [intros zs; rewrite H; now apply answer_alike|]. now apply (IH r).
  Qed.
  Lemma follow_beyond : forall l R r, beyond (asked l) R (fst (follow R r l)).
  Proof.
    induction l as [|[x e|c bs p o a b] l IH]; intros R r; cbn [follow asked flat_map].
    - split; reflexivity.
    - apply IH.
    - eapply beyond_trans; [|destruct (IH (with_entry R c (answer R r bs p o a b)) r) as [H E]; split; [exact H|]; intros y Hy; apply E;
        intros Q; apply Hy; right; exact Q].
      split; [reflexivity|]. intros y Hy w. cbn. destruct (String.eqb_spec c y); [|reflexivity]. elim Hy. left. assumption.
  Qed.
  (** the answers that are found one after the other are those of the data at the end *)
  Theorem decided_fits : forall l R r, scoped l -> fits (decided R r l) r l.
  Proof.
    unfold decided. induction l as [|[x e|c bs p o a b] l IH]; intros R r; cbn [scoped follow fits]; auto.
    - intros [A S]. eapply fits_ext; [|apply (IH R _ S)]. intros y d w. unfold upd. destruct (String.eqb x y); [|reflexivity].
      apply value_alike; [|reflexivity]. apply (beyond_alike (asked l)); [|exact A]. apply follow_beyond.
    - intros [A [N S]]. split; [|apply IH, S]. intros zs. pose proof (follow_beyond l (with_entry R c (answer R r bs p o a b)) r) as [H E].
      rewrite <- E by exact N. cbn [with_entry entry]. rewrite String.eqb_refl. apply answer_alike; [|reflexivity].
      apply (beyond_alike (c :: asked l)); [|exact A]. split; [exact H|]. intros y Hy w. rewrite <- E by (intros Q; apply Hy; right; exact Q).
      cbn. destruct (String.eqb_spec c y); [|reflexivity]. elim Hy. left. assumption.
  Qed.
  (** and there is only one such *)
  Theorem fits_unique : forall l R R' r r', scoped l -> (forall x d w, r x d w = r' x d w) -> beyond (asked l) R R' ->
    fits R r l -> fits R' r' l -> beyond [] R R'.
  Proof.
    induction l as [|[x e|c bs p o a b] l IH]; intros R R' r r' S Hr B F F'; cbn [scoped fits asked flat_map] in *; auto.
    - destruct S as [A S]. apply (IH R R' (upd r x (value R r s0 e)) (upd r' x (value R' r' s0 e)) S); auto.
      intros y d w. unfold upd. destruct (String.eqb x y); [|apply Hr]. apply value_alike; [|exact Hr]. eapply beyond_alike; eauto.
    - destruct S as [A [N S]]. destruct F as [H F], F' as [H' F']. apply (IH R R' r r' S Hr); auto.
      destruct B as [Bh Be]. split; [exact Bh|]. intros y Hy w. destruct (String.eqb_spec c y) as [<-|Ne].
      + rewrite H, H'. apply answer_alike; [|exact Hr]. apply (beyond_alike (c :: asked l)); [split; [exact Bh|]; exact Be|exact A].
      + apply Be. intros [Q|Q]; [congruence|contradiction].
  Qed.
  (** a program with conditions means what its erasure means for the answers *)
  Theorem erased_value R r l e : scoped l ->
    forall d w, value (decided R r l) r s0 (erased l e) d w = conditional R r l e d w.
  Proof.
    intros S d w. rewrite value_erased. unfold decided, conditional. revert R r S d w.
    assert (Q : forall l R r, scoped l -> forall x d w, after (fst (follow R r l)) r l x d w = snd (follow R r l) x d w).
    { assert (X : forall l R r r', (forall x d w, r x d w = r' x d w) -> forall x d w, after R r l x d w = after R r' l x d w).
      { assert (A : forall R m, alike m R R) by (intros R m; split; reflexivity).
        induction l0 as [|[x a|c bs p o a b] l0 IH]; intros R r r' Hr; cbn [after]; auto. apply IH. intros y d w. unfold upd.
        destruct (String.eqb x y); [|apply Hr]. now apply value_alike. }
      induction l0 as [|[x a|c bs p o a b] l0 IH]; intros R r S y d w; cbn [scoped after follow] in *; auto.
      - destruct S as [A S]. rewrite <- (IH _ _ S). apply X. intros z d' w'. unfold upd. destruct (String.eqb x z); [|reflexivity].
        apply value_alike; [|reflexivity]. apply alike_sym, (beyond_alike (asked l0)); [apply follow_beyond|exact A].
      - apply IH, S. }
    intros R r S d w. destruct (follow R r l) as [R' r'] eqn:E. pose proof (Q l R r S) as H. rewrite E in H. cbn [fst snd] in *.
    apply value_alike; [split; reflexivity|exact H].
  Qed.

  (** ** What is compared is well-formed *)
  Context (takes : fn -> nat -> Prop).
  Notation checks := (Typing.checks (K := K) takes).
  Lemma checks_gens R : forall bs C P e T, checks R C P (gens bs e) T ->
    forall e', (forall P' T', checks R C P' e T' -> checks R C P' e' TReal) -> exists T', checks R C P (gens bs e') T' /\ flat T' = Leaf (bsizes bs).
  Proof.
    induction bs as [|[i n] bs IH]; cbn [gens]; intros C P e T H e' He.
    - exists TReal. split; [eapply He; exact H|reflexivity].
    - inversion H as [| | | | | | | | |? ? ? ? ? T0 Hc| | | |]; subst. destruct (IH _ _ _ _ Hc e' He) as [T' [H' F]]. exists (TArray n T').
      split; [now apply check_gen|]. cbn [flat]. now rewrite F.
  Qed.
  (** so each number that is compared is, as a program that makes the arrays of them *)
  Lemma checks_erased R P c bs p o a b l' e : forall l C T, checks R C P (erased (l ++ Ask c bs p o a b :: l') e) T ->
    forall n, In n [a; b] -> exists T', checks R C P (erased l (gens bs (EInd p n))) T' /\ flat T' = Leaf (bsizes bs).
  Proof.
    induction l as [|[x d|c' bs' p' o' a' b'] l IH]; intros C T H n Hn; cbn [app erased] in H |- *.
    - inversion H as [| | | | | | |? ? ? ? T1 Hp| | | | | |]; subst. inversion Hp as [| | | | | |? ? ? ? ? ? _ Hq| | | | | | |]; subst.
      eapply checks_gens; [exact Hq|]. intros P' T' Hc. inversion Hc as [| | | | | | | | | | | |? ? ? ? ? Hm|]; subst.
      inversion Hm as [| | | |? ? ? ? Ha Hb| | | | | | | | |]; subst. destruct Hn as [<-|[<-|[]]]; apply check_ind; assumption.
    - inversion H as [| | | | | | | | | | | | |? ? ? ? ? T0 ? Hd He]; subst. destruct (IH _ _ He n Hn) as [T' [H' F]]. exists T'.
      split; [|exact F]. eapply check_let; eauto.
    - inversion H as [| | | | | | |? ? ? ? T1 Hp| | | | | |]; subst. inversion Hp as [| | | | | |? ? ? ? ? ? Hd Hq| | | | | | |]; subst.
      destruct (IH _ _ Hd n Hn) as [T' [H' F]]. exists T'. split; [|exact F]. eapply check_fst, check_pair; eauto.
  Qed.
End Conditions.
