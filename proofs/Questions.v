(** Conditions on values anywhere in a program: in sums and gens, in lets' values, in what is compared, in what is looked up.

    The language is that of Figure 3 with one more expression, [CAsk], let c = gen bs. [p] * (a < b) in e, which makes an
    index array of zeros and ones that predicates in e look up. Under a gen or a sum there is one such array for each
    value of its index. So a program with conditions is, for the answers to its questions, a program of Figure 3,
    [erase]d: all questions' arrays are data, which are looked up at the indices that are bound around the question as well,
    as in what let-lifting makes of them. [erase_value]: it means the same wherever the data are the answers ([fits]), and
    there are such data ([decided_fits]). Rules of let-lifting for questions are at the end. *)
Require Import String List Bool ZArith Lia.
Import ListNotations.
Require Import TL.Sums TL.Boxes TL.Core TL.Free TL.Typing TL.Program TL.Conditions.
Open Scope list_scope.

(** * Names *)
(** [L] are the index arrays that may be looked up, [D] the indices that are bound around: no index is bound twice *)
Definition fresh (D is : list ix) : Prop := NoDup (D ++ is).
Fixpoint neat_p (L : list string) (D : list ix) (p : prd) : Prop :=
  match p with
  | PTrue => True
  | PLt a b | PLe a b | PEq a b => incl (looked_a a ++ looked_a b) L
  | PRel _ l => incl (flat_map looked_a l) L
  | PAnd p q | POr p q => neat_p L D p /\ neat_p L D q
  | PEx i _ p => ~ In i D /\ neat_p L D p
  end.
(** the index arrays of questions are looked up at the indices around them, too *)
Section Places.
  Variable dims : string -> list ix.
  Fixpoint placed_a (a : aff) : aff :=
    match a with
    | AVar i => AVar i | ACst k => ACst k | AAdd a b => AAdd (placed_a a) (placed_a b) | AScl k a => AScl k (placed_a a)
    | ALook y l => ALook y (map AVar (dims y) ++ map placed_a l)
    end.
  Fixpoint placed_p (p : prd) : prd :=
    match p with
    | PTrue => PTrue
    | PLt a b => PLt (placed_a a) (placed_a b) | PLe a b => PLe (placed_a a) (placed_a b) | PEq a b => PEq (placed_a a) (placed_a b)
    | PRel r l => PRel r (map placed_a l)
    | PAnd p q => PAnd (placed_p p) (placed_p q) | POr p q => POr (placed_p p) (placed_p q)
    | PEx i n p => PEx i n (placed_p p)
    end.
End Places.
(** R' holds at the indices s what R does *)
Definition linked (L : list string) (dims : string -> list ix) (s : ienv) (R R' : data) : Prop :=
  (forall r w, holds R r w = holds R' r w) /\ forall y, In y L -> forall l, entry R y l = entry R' y (map s (dims y) ++ l).
Definition inner (L : list string) (dims : string -> list ix) (D : list ix) : Prop := forall y, In y L -> incl (dims y) D.

Definition every {A} (q : A -> Prop) : list A -> Prop :=
  fix every (l : list A) : Prop := match l with [] => True | a :: l' => q a /\ every l' end.
Lemma map_apart (s : ienv) i z l : ~ In i l -> map (upd s i z) l = map s l.
Proof. intros N. apply map_ext_in. intros j Hj. unfold upd. destruct (String.eqb_spec i j); [subst; contradiction|reflexivity]. Qed.
Lemma linked_upd L dims D s i z R R' : inner L dims D -> ~ In i D -> linked L dims s R R' -> linked L dims (upd s i z) R R'.
Proof. intros I N [H E]. split; [exact H|]. intros y Hy l. rewrite map_apart by (intros Q; apply N, (I y Hy), Q). now apply E. Qed.
Lemma upds_apart bs : forall zs (s : ienv) l, (forall i, In i (bnames bs) -> ~ In i l) -> map (upds s bs zs) l = map s l.
Proof.
  induction bs as [|[i n] bs IH]; intros [|z zs] s l N; try reflexivity. cbn [upds]. rewrite IH by (intros j Hj; apply N; right; exact Hj).
  apply map_apart, N. left. reflexivity.
Qed.
Lemma fresh_apart D is : fresh D is -> forall i, In i is -> ~ In i D.
Proof. unfold fresh. induction D as [|j D IH]; cbn; intros H i Hi; [tauto|]. inversion H; subst. intros [<-|Q]; [apply H2, in_or_app; auto|exact (IH H3 i Hi Q)]. Qed.
Lemma linked_upds L dims D s bs zs R R' : inner L dims D -> fresh D (bnames bs) -> linked L dims s R R' -> linked L dims (upds s bs zs) R R'.
Proof.
  intros I N [H E]. split; [exact H|]. intros y Hy l. rewrite upds_apart; [now apply E|].
  intros i Hi Q. apply (fresh_apart _ _ N i Hi), (I y Hy), Q.
Qed.
Lemma inner_more L dims D is : inner L dims D -> inner L dims (D ++ is).
Proof. intros I y Hy i Hi. apply in_or_app. left. apply (I y Hy), Hi. Qed.
Lemma inner_ask L dims D c : inner L dims D -> inner (c :: L) (upd dims c D) D.
Proof. intros I y Hy i Hi. unfold upd in Hi. destruct (String.eqb_spec c y); [exact Hi|]. destruct Hy as [Hy|Hy]; [congruence|]. exact (I y Hy i Hi). Qed.
Lemma placed_aval L dims s R R' : linked L dims s R R' -> forall a, incl (looked_a a) L -> aval R s a = aval R' s (placed_a dims a).
Proof.
  intros [Hh He]. apply (aff_ind2 (fun a => incl (looked_a a) L -> aval R s a = aval R' s (placed_a dims a))); cbn [looked_a aval placed_a]; intros; auto.
  - rewrite H, H0; [reflexivity| |]; intros y Hy; apply H1, in_or_app; auto.
  - now rewrite H.
  - rewrite He by (apply H0; left; reflexivity). rewrite map_app, !map_map. cbn [aval]. f_equal. f_equal.
    rewrite Forall_forall in H. apply map_ext_in. intros a Ha. apply H; [exact Ha|]. intros z Hz. apply H0. right. apply in_flat_map. eauto.
Qed.
Lemma placed_avals L dims s R R' l : linked L dims s R R' -> incl (flat_map looked_a l) L ->
  map (aval R s) l = map (aval R' s) (map (placed_a dims) l).
Proof.
  intros H I. rewrite map_map. apply map_ext_in. intros a Ha. apply (placed_aval L); [exact H|]. intros z Hz. apply I, in_flat_map. eauto.
Qed.
Lemma placed_pval L dims D R R' : inner L dims D -> forall p s, linked L dims s R R' -> neat_p L D p -> pval R s p = pval R' s (placed_p dims p).
Proof.
  intros I. induction p; cbn [neat_p pval placed_p]; intros s H N; auto;
  try (rewrite (placed_aval L dims s R R' H a), (placed_aval L dims s R R' H b); [reflexivity| |]; intros y Hy; apply N, in_or_app; auto; fail);
  try (destruct N; rewrite (IHp1 s), (IHp2 s); auto; fail).
  - rewrite (placed_avals L dims s R R' l H N). apply H.
  - destruct N as [Ni N]. assert (A : forall z, pval R (upd s i z) p = pval R' (upd s i z) (placed_p dims p))
      by (intros z; apply IHp; [eapply linked_upd; eassumption|exact N]).
    induction (zrange n) as [|z l IHl]; [reflexivity|]. cbn [existsb]. now rewrite A, IHl.
Qed.

Section Questions.
  Context {K : Type} (rO : K) (radd rmul rsub : K -> K -> K).
  Context {fn : Type} (fval : fn -> list K -> K) (ask : question -> K -> K -> bool).
  Notation expr := (@Core.expr K fn).
  Notation venv := (@Core.venv K).
  Notation val := (@Core.val K).
  Notation value := (Core.eval rO radd rmul rsub fval).

  (** * The language *)
  Inductive cexpr :=
  | CVar (x : string) | CCst (c : K)
  | CAdd (e0 e1 : cexpr) | CSub (e0 e1 : cexpr) | CMul (e0 e1 : cexpr) | CFn (f : fn) (es : list cexpr)
  | CPair (e0 e1 : cexpr) | CFst (e : cexpr) | CSnd (e : cexpr)
  | CGen (i : ix) (n : nat) (e : cexpr) | CSum (i : ix) (n : nat) (e : cexpr)
  | CAcc (e : cexpr) (a : aff) | CInd (p : prd) (e : cexpr)
  | CLet (x : string) (e0 e1 : cexpr)
  | CAsk (c : string) (bs : binders) (p : prd) (o : question) (a b e : cexpr).   (** let c = gen bs. [p] * (a < b) in e *)

  (** the array that a question makes: 1 or 0, and 0 where nothing is asked *)
  Definition reply (R : data) (s : ienv) (bs : binders) (p : prd) (o : question) (a b : ienv -> val) (zs : list Z) : Z :=
    if existsb (leqb zs) (bbox bs) && (pval R (upds s bs zs) p && ask o (a (upds s bs zs) [] []) (b (upds s bs zs) [] [])) then 1%Z else 0%Z.
  (** what a program means *)
  Fixpoint ceval (R : data) (r : venv) (s : ienv) (e : cexpr) : val :=
    match e with
    | CVar x => r x
    | CCst c => fun _ _ => c
    | CAdd a b => fun d w => radd (ceval R r s a d w) (ceval R r s b d w)
    | CSub a b => fun d w => rsub (ceval R r s a d w) (ceval R r s b d w)
    | CMul a b => fun d w => rmul (ceval R r s a d w) (ceval R r s b d w)
    | CFn f es => fun d w => fval f (map (fun e => ceval R r s e d w) es)
    | CPair a b => fun d w => match d with true :: d' => ceval R r s a d' w | false :: d' => ceval R r s b d' w | [] => rO end
    | CFst a => fun d w => ceval R r s a (true :: d) w
    | CSnd a => fun d w => ceval R r s a (false :: d) w
    | CGen i n a => fun d w => match w with z :: w' => ind rO (inside n z) (ceval R r (upd s i z) a d w') | [] => rO end
    | CSum i n a => fun d w => Sums.sum rO radd (zrange n) (fun z => ceval R r (upd s i z) a d w)
    | CAcc a k => fun d w => ceval R r s a d (aval R s k :: w)
    | CInd p a => fun d w => ind rO (pval R s p) (ceval R r s a d w)
    | CLet x a b => ceval R (upd r x (ceval R r s a)) s b
    | CAsk c bs p o a b e => ceval (with_entry R c (reply R s bs p o (fun s => ceval R r s a) (fun s => ceval R r s b))) r s e
    end.

  (** * Without conditions: D are the indices around, [dims] those around the questions that may be looked up *)
  Fixpoint erase (dims : string -> list ix) (D : list ix) (e : cexpr) : expr :=
    match e with
    | CVar x => EVar x | CCst c => ECst c
    | CAdd a b => EAdd (erase dims D a) (erase dims D b)
    | CSub a b => ESub (erase dims D a) (erase dims D b)
    | CMul a b => EMul (erase dims D a) (erase dims D b)
    | CFn f es => EFn f (map (erase dims D) es)
    | CPair a b => EPair (erase dims D a) (erase dims D b)
    | CFst a => EFst (erase dims D a) | CSnd a => ESnd (erase dims D a)
    | CGen i n a => EGen i n (erase dims (D ++ [i]) a)
    | CSum i n a => ESum i n (erase dims (D ++ [i]) a)
    | CAcc a k => EAcc (erase dims D a) (placed_a dims k)
    | CInd p a => EInd (placed_p dims p) (erase dims D a)
    | CLet x a b => ELet x (erase dims D a) (erase dims D b)
    | CAsk c bs p _ a b e =>
        EFst (EPair (erase (upd dims c D) D e)
                    (compared bs (placed_p dims p) (erase dims (D ++ bnames bs) a) (erase dims (D ++ bnames bs) b)))
    end.

  (** names: what is looked up is in L, questions have names of their own, and indices are bound once *)
  Fixpoint neat (L : list string) (D : list ix) (e : cexpr) : Prop :=
    match e with
    | CVar _ | CCst _ => True
    | CAdd a b | CSub a b | CMul a b | CPair a b | CLet _ a b => neat L D a /\ neat L D b
    | CFn _ es => every (neat L D) es
    | CFst a | CSnd a => neat L D a
    | CGen i _ a | CSum i _ a => fresh D [i] /\ neat L (D ++ [i]) a
    | CAcc a k => incl (looked_a k) L /\ neat L D a
    | CInd p a => neat_p L D p /\ neat L D a
    | CAsk c bs p _ a b e =>
        fresh D (bnames bs) /\ neat_p L (D ++ bnames bs) p /\ neat L (D ++ bnames bs) a /\ neat L (D ++ bnames bs) b
        /\ ~ In c L /\ neat (c :: L) D e
    end.

  (** R holds the answers to the questions of e, wherever they are asked *)
  Fixpoint fits (R : data) (dims : string -> list ix) (D : list ix) (r : venv) (s : ienv) (e : cexpr) : Prop :=
    match e with
    | CVar _ | CCst _ => True
    | CAdd a b | CSub a b | CMul a b | CPair a b => fits R dims D r s a /\ fits R dims D r s b
    | CFn _ es => every (fits R dims D r s) es
    | CFst a | CSnd a | CAcc a _ => fits R dims D r s a
    | CGen i n a | CSum i n a => forall z, inside n z = true -> fits R dims (D ++ [i]) r (upd s i z) a
    | CInd p a => pval R s (placed_p dims p) = true -> fits R dims D r s a
    | CLet x a b => fits R dims D r s a /\ fits R dims D (upd r x (value R r s (erase dims D a))) s b
    | CAsk c bs p o a b e =>
        let D' := D ++ bnames bs in
        (forall zs, In zs (bbox bs) -> pval R (upds s bs zs) (placed_p dims p) = true ->
           fits R dims D' r (upds s bs zs) a /\ fits R dims D' r (upds s bs zs) b)
        /\ (forall zs, entry R c (map s D ++ zs)
              = reply R s bs (placed_p dims p) o (fun s => value R r s (erase dims D' a)) (fun s => value R r s (erase dims D' b)) zs)
        /\ fits R (upd dims c D) D r s e
    end.

  Lemma value_ext R r r' s e d w : (forall x d w, r x d w = r' x d w) -> value R r s e d w = value R r' s e d w.
  Proof. intros H. apply (value_alike rO radd rmul rsub fval R R); [split; reflexivity|exact H]. Qed.
  Lemma fits_ext R : forall e dims D r r' s, (forall x d w, r x d w = r' x d w) -> fits R dims D r s e -> fits R dims D r' s e.
  Proof.
    fix IH 1. intros [x|c|a b|a b|a b|f es|a b|a|a|i n a|i n a|a k|p a|x a b|c bs p o a b e] dims D r r' s Hr; cbn [fits]; auto;
    try (intros [H0 H1]; split; eapply IH; eassumption); try (intros H; eapply IH; eassumption).
    - induction es as [|a es IHes]; cbn; [auto|]. intros [H0 H1]. split; [eapply IH; eassumption|apply IHes, H1].
    - intros H z Hz. eapply IH; [exact Hr|apply H, Hz].
    - intros H z Hz. eapply IH; [exact Hr|apply H, Hz].
    - intros H Hp. eapply IH; [exact Hr|apply H, Hp].
    - intros [H0 H1]. split; [eapply IH; eassumption|]. eapply IH; [|exact H1]. intros y d w. unfold upd.
      destruct (String.eqb x y); [now apply value_ext|apply Hr].
    - intros [H0 [H1 H2]]. split; [|split].
      + intros zs Hz Hp. destruct (H0 zs Hz Hp). split; eapply IH; eassumption.
      + intros zs. rewrite H1. unfold reply.
        now rewrite (value_ext R r r' _ (erase dims (D ++ bnames bs) a) [] [] Hr), (value_ext R r r' _ (erase dims (D ++ bnames bs) b) [] [] Hr).
      + eapply IH; [exact Hr|exact H2].
  Qed.

  (** a program with conditions means what its erasure means for the answers *)
  Theorem erase_value R' : forall e L D dims R r r' s, neat L D e -> inner L dims D -> linked L dims s R R' ->
    (forall x d w, r x d w = r' x d w) -> fits R' dims D r' s e -> forall d w, ceval R r s e d w = value R' r' s (erase dims D e) d w.
  Proof.
    fix IH 1. intros [x|c|a b|a b|a b|f es|a b|a|a|i n a|i n a|a k|p a|x a b|c bs p o a b e] L D dims R r r' s N I Li Hr F d w;
    cbn [neat fits ceval erase Core.eval] in *; auto.
    - destruct N as [N0 N1], F as [F0 F1]. now rewrite (IH a L D dims R r r' s N0 I Li Hr F0), (IH b L D dims R r r' s N1 I Li Hr F1).
    - destruct N as [N0 N1], F as [F0 F1]. now rewrite (IH a L D dims R r r' s N0 I Li Hr F0), (IH b L D dims R r r' s N1 I Li Hr F1).
    - destruct N as [N0 N1], F as [F0 F1]. now rewrite (IH a L D dims R r r' s N0 I Li Hr F0), (IH b L D dims R r r' s N1 I Li Hr F1).
    - f_equal. rewrite map_map. induction es as [|a es IHes]; [reflexivity|]. cbn in N, F |- *. destruct N as [N0 N1], F as [F0 F1].
      now rewrite (IH a L D dims R r r' s N0 I Li Hr F0), (IHes N1 F1).
    - destruct N as [N0 N1], F as [F0 F1]. destruct d as [|[|] d]; [reflexivity| |]; eapply IH; eassumption.
    - eapply IH; eassumption.
    - eapply IH; eassumption.
    - destruct w as [|z w]; [reflexivity|]. destruct (inside n z) eqn:Hz; [|reflexivity]. cbn [ind]. destruct N as [Nf N].
      assert (Ni : ~ In i D) by (apply (fresh_apart _ _ Nf); left; reflexivity).
      eapply IH; [exact N|now apply inner_more|eapply linked_upd; eassumption|exact Hr|apply F, Hz].
    - apply sum_ext. intros z Hz. apply zrange_inside in Hz. destruct N as [Nf N].
      assert (Ni : ~ In i D) by (apply (fresh_apart _ _ Nf); left; reflexivity).
      eapply IH; [exact N|now apply inner_more|eapply linked_upd; eassumption|exact Hr|apply F, Hz].
    - destruct N as [Nk N]. rewrite (placed_aval L dims s R R' Li k Nk). eapply IH; eassumption.
    - destruct N as [Np N]. rewrite (placed_pval L dims D R R' I p s Li Np). destruct (pval R' s (placed_p dims p)) eqn:Hp; [|reflexivity].
      cbn [ind]. eapply IH; [exact N|exact I|exact Li|exact Hr|now apply F].
    - destruct N as [N0 N1], F as [F0 F1]. eapply IH; [exact N1|exact I|exact Li| |exact F1]. intros y d' w'. unfold upd.
      destruct (String.eqb x y); [|apply Hr]. eapply IH; eassumption.
    - destruct N as [Nf [Np [Na [Nb [Nc Ne]]]]], F as [F0 [F1 F2]]. eapply IH; [exact Ne|now apply inner_ask| |exact Hr|exact F2].
      destruct Li as [Lh Le]. split; [exact Lh|]. intros y Hy l. cbn [with_entry entry]. unfold upd. destruct (String.eqb_spec c y) as [<-|Ny].
      + rewrite F1. unfold reply. destruct (existsb (leqb l) (bbox bs)) eqn:El; cbn [andb]; [|reflexivity].
        apply existsb_exists in El. destruct El as [zs [Hz El]]. apply leqb_eq in El. subst zs.
        assert (Lz : linked L dims (upds s bs l) R R') by (apply (linked_upds L dims D); [exact I|exact Nf|split; assumption]).
        rewrite (placed_pval L dims (D ++ bnames bs) R R' (inner_more _ _ _ _ I) p _ Lz Np).
        destruct (pval R' (upds s bs l) (placed_p dims p)) eqn:Hp; cbn [andb]; [|reflexivity]. destruct (F0 l Hz Hp) as [Fa Fb].
        rewrite (IH a L (D ++ bnames bs) dims R r r' (upds s bs l) Na (inner_more _ _ _ _ I) Lz Hr Fa).
        now rewrite (IH b L (D ++ bnames bs) dims R r r' (upds s bs l) Nb (inner_more _ _ _ _ I) Lz Hr Fb).
      + destruct Hy as [Hy|Hy]; [congruence|]. now apply Le.
  Qed.

  (** * The answers *)
  Fixpoint asked (e : cexpr) : list string :=
    match e with
    | CVar _ | CCst _ => []
    | CAdd a b | CSub a b | CMul a b | CPair a b | CLet _ a b => asked a ++ asked b
    | CFn _ es => flat_map asked es
    | CFst a | CSnd a | CGen _ _ a | CSum _ _ a | CAcc a _ | CInd _ a => asked a
    | CAsk c _ _ _ a b e => c :: asked a ++ asked b ++ asked e
    end.
  Definition has (l : list string) (c : string) : bool := existsb (String.eqb c) l.
  Lemma has_in l c : has l c = true <-> In c l.
  Proof. unfold has. rewrite existsb_exists. split; [intros [x [Hx E]]; apply String.eqb_eq in E; now subst|intros H; exists c; split; [exact H|apply String.eqb_refl]]. Qed.
  (** what question c of e answers at vs, the indices around it and its own *)
  Fixpoint found (R : data) (r : venv) (s : ienv) (e : cexpr) (c : string) (vs : list Z) : Z :=
    match e with
    | CVar _ | CCst _ => 0%Z
    | CAdd a b | CSub a b | CMul a b | CPair a b => if has (asked a) c then found R r s a c vs else found R r s b c vs
    | CLet x a b => if has (asked a) c then found R r s a c vs else found R (upd r x (ceval R r s a)) s b c vs
    | CFn _ es => (fix among (l : list cexpr) : Z := match l with [] => 0%Z | a :: l' => if has (asked a) c then found R r s a c vs else among l' end) es
    | CFst a | CSnd a | CAcc a _ | CInd _ a => found R r s a c vs
    | CGen i _ a | CSum i _ a => match vs with z :: vs' => found R r (upd s i z) a c vs' | [] => 0%Z end
    | CAsk c' bs p o a b e =>
        let rep := reply R s bs p o (fun s => ceval R r s a) (fun s => ceval R r s b) in
        let zs := firstn (List.length bs) vs in let rest := skipn (List.length bs) vs in
        if String.eqb c' c then rep vs
        else if has (asked a) c then found R r (upds s bs zs) a c rest
        else if has (asked b) c then found R r (upds s bs zs) b c rest
        else found (with_entry R c' rep) r s e c vs
    end.
  Definition decided (R : data) (r : venv) (e : cexpr) : data :=
    Data (holds R) (fun y vs => if has (asked e) y then found R r s0 e y vs else entry R y vs).

  Lemma nodup_app {A} (l m : list A) : NoDup (l ++ m) -> NoDup l /\ NoDup m /\ forall x, In x l -> ~ In x m.
  Proof.
    induction l as [|a l IH]; cbn; intros H; [split; [constructor|split; [exact H|intros x []]]|]. inversion H as [|? ? Ha Hl]; subst.
    destruct (IH Hl) as [H0 [H1 H2]]. split; [constructor; [intros Q; apply Ha, in_or_app; auto|exact H0]|]. split; [exact H1|].
    intros x [<-|Hx]; [intros Q; apply Ha, in_or_app; auto|apply H2, Hx].
  Qed.
  Lemma has_not l c : ~ In c l -> has l c = false.
  Proof. intros N. destruct (has l c) eqn:E; [|reflexivity]. apply has_in in E. contradiction. Qed.
  Lemma map_upds s bs zs : NoDup (bnames bs) -> List.length zs = List.length bs -> map (upds s bs zs) (bnames bs) = zs.
  Proof.
    revert s zs. induction bs as [|[i n] bs IH]; intros s [|z zs] N L; try discriminate; [reflexivity|]. inversion N; subst.
    cbn [bnames map fst upds]. f_equal; [|apply IH; [assumption|now injection L]].
    assert (E : map (upds (upd s i z) bs zs) [i] = map (upd s i z) [i]) by (apply upds_apart; intros j Hj [<-|[]]; contradiction).
    injection E as E. rewrite E. unfold upd. now rewrite String.eqb_refl.
  Qed.
  Lemma found_fits R' : forall e L D dims R r r' s, neat L D e -> inner L dims D -> linked L dims s R R' ->
    (forall x d w, r x d w = r' x d w) -> NoDup (asked e) ->
    (forall c, In c (asked e) -> forall vs, entry R' c (map s D ++ vs) = found R r s e c vs) -> fits R' dims D r' s e.
  Proof.
    fix IH 1. intros [x|c|a b|a b|a b|f es|a b|a|a|i n a|i n a|a k|p a|x a b|c bs p o a b e] L D dims R r r' s N I Li Hr U E;
    cbn [neat fits asked found] in *; auto;
    try (destruct N as [N0 N1]; destruct (nodup_app _ _ U) as [U0 [U1 U2]];
      assert (E0 : forall c, In c (asked a) -> forall vs, entry R' c (map s D ++ vs) = found R r s a c vs)
        by (intros c Hc vs; rewrite E by (apply in_or_app; auto); now rewrite (proj2 (has_in _ _) Hc));
      assert (H : forall c, In c (asked b) -> has (asked a) c = false) by (intros c Hc; apply has_not; intros Q; exact (U2 c Q Hc))).
    - split; [exact (IH a L D dims R r r' s N0 I Li Hr U0 E0)|]. apply (IH b L D dims R r r' s N1 I Li Hr U1). intros c Hc vs.
      rewrite E by (apply in_or_app; auto). now rewrite (H c Hc).
    - split; [exact (IH a L D dims R r r' s N0 I Li Hr U0 E0)|]. apply (IH b L D dims R r r' s N1 I Li Hr U1). intros c Hc vs.
      rewrite E by (apply in_or_app; auto). now rewrite (H c Hc).
    - split; [exact (IH a L D dims R r r' s N0 I Li Hr U0 E0)|]. apply (IH b L D dims R r r' s N1 I Li Hr U1). intros c Hc vs.
      rewrite E by (apply in_or_app; auto). now rewrite (H c Hc).
    - induction es as [|a es IHes]; [exact Logic.I|]. cbn [flat_map] in *. cbn in N |- *. destruct N as [N0 N1]. destruct (nodup_app _ _ U) as [U0 [U1 U2]].
      split.
      + apply (IH a L D dims R r r' s N0 I Li Hr U0). intros c Hc vs. rewrite E by (apply in_or_app; auto). now rewrite (proj2 (has_in _ _) Hc).
      + apply (IHes N1 U1). intros c Hc vs. rewrite E by (apply in_or_app; auto). now rewrite (has_not (asked a) c) by (intros Q; exact (U2 c Q Hc)).
    - split; [exact (IH a L D dims R r r' s N0 I Li Hr U0 E0)|]. apply (IH b L D dims R r r' s N1 I Li Hr U1). intros c Hc vs.
      rewrite E by (apply in_or_app; auto). now rewrite (H c Hc).
    - exact (IH a L D dims R r r' s N I Li Hr U E).
    - exact (IH a L D dims R r r' s N I Li Hr U E).
    - intros z Hz. destruct N as [Nf N]. assert (Ni : ~ In i D) by (apply (fresh_apart _ _ Nf); left; reflexivity).
      apply (IH a L (D ++ [i]) dims R r r' (upd s i z) N (inner_more _ _ _ _ I) (linked_upd _ _ _ _ _ _ _ _ I Ni Li) Hr U).
      intros c Hc vs. rewrite map_app, map_apart by exact Ni. cbn [map]. unfold upd at 1. rewrite String.eqb_refl, <- app_assoc. exact (E c Hc (z :: vs)).
    - intros z Hz. destruct N as [Nf N]. assert (Ni : ~ In i D) by (apply (fresh_apart _ _ Nf); left; reflexivity).
      apply (IH a L (D ++ [i]) dims R r r' (upd s i z) N (inner_more _ _ _ _ I) (linked_upd _ _ _ _ _ _ _ _ I Ni Li) Hr U).
      intros c Hc vs. rewrite map_app, map_apart by exact Ni. cbn [map]. unfold upd at 1. rewrite String.eqb_refl, <- app_assoc. exact (E c Hc (z :: vs)).
    - destruct N as [_ N]. exact (IH a L D dims R r r' s N I Li Hr U E).
    - intros _. destruct N as [_ N]. exact (IH a L D dims R r r' s N I Li Hr U E).
    - pose proof (IH a L D dims R r r' s N0 I Li Hr U0 E0) as F0. split; [exact F0|].
      apply (IH b L D dims R (upd r x (ceval R r s a)) _ s N1 I Li); [|exact U1|].
      + intros y d w. unfold upd. destruct (String.eqb x y); [|apply Hr]. eapply erase_value; eassumption.
      + intros c Hc vs. rewrite E by (apply in_or_app; auto). now rewrite (H c Hc).
    - destruct N as [Nf [Np [Na [Nb [Nc Ne]]]]]. inversion U as [|? ? Uc Ur]; subst. destruct (nodup_app _ _ Ur) as [Ua [Ur' Ux]].
      destruct (nodup_app _ _ Ur') as [Ub [Ue Uy]]. set (D' := D ++ bnames bs).
      assert (Lz : forall zs, linked L dims (upds s bs zs) R R') by (intros zs; eapply linked_upds; eassumption).
      assert (Nb' : NoDup (bnames bs)) by (apply (nodup_app _ _ Nf)).
      assert (M : forall zs vs, In zs (bbox bs) -> map (upds s bs zs) D' ++ vs = map s D ++ (zs ++ vs)).
      { intros zs vs Hz. unfold D'. rewrite map_app, upds_apart by (apply fresh_apart, Nf). rewrite map_upds; [now rewrite app_assoc|exact Nb'|].
        now apply bbox_length. }
      assert (Cut : forall zs vs, In zs (bbox bs) -> firstn (List.length bs) (zs ++ vs) = zs /\ skipn (List.length bs) (zs ++ vs) = vs).
      { intros zs vs Hz. apply bbox_length in Hz. rewrite <- Hz. split; [now rewrite firstn_app, Nat.sub_diag, firstn_all, app_nil_r|].
        now rewrite skipn_app, Nat.sub_diag, skipn_all. }
      assert (Fa : forall zs, In zs (bbox bs) -> fits R' dims D' r' (upds s bs zs) a).
      { intros zs Hz. apply (IH a L D' dims R r r' (upds s bs zs) Na (inner_more _ _ _ _ I) (Lz zs) Hr Ua). intros q Hq vs.
        rewrite (M zs vs Hz), E by (right; apply in_or_app; auto). destruct (Cut zs vs Hz) as [-> ->].
        destruct (String.eqb_spec c q) as [<-|_]; [elim Uc; apply in_or_app; auto|]. now rewrite (proj2 (has_in _ _) Hq). }
      assert (Fb : forall zs, In zs (bbox bs) -> fits R' dims D' r' (upds s bs zs) b).
      { intros zs Hz. apply (IH b L D' dims R r r' (upds s bs zs) Nb (inner_more _ _ _ _ I) (Lz zs) Hr Ub). intros q Hq vs.
        rewrite (M zs vs Hz), E by (right; apply in_or_app; right; apply in_or_app; auto). destruct (Cut zs vs Hz) as [-> ->].
        destruct (String.eqb_spec c q) as [<-|_]; [elim Uc; apply in_or_app; right; apply in_or_app; auto|].
        rewrite (has_not (asked a) q) by (intros Q; apply (Ux q Q), in_or_app; auto). now rewrite (proj2 (has_in _ _) Hq). }
      assert (Rep : forall zs, reply R s bs p o (fun s => ceval R r s a) (fun s => ceval R r s b) zs
        = reply R' s bs (placed_p dims p) o (fun s => value R' r' s (erase dims D' a)) (fun s => value R' r' s (erase dims D' b)) zs).
      { intros zs. unfold reply. destruct (existsb (leqb zs) (bbox bs)) eqn:El; cbn [andb]; [|reflexivity].
        apply existsb_exists in El. destruct El as [ws [Hz El]]. apply leqb_eq in El. subst ws.
        rewrite (placed_pval L dims D' R R' (inner_more _ _ _ _ I) p _ (Lz zs) Np).
        rewrite (erase_value R' a L D' dims R r r' (upds s bs zs) Na (inner_more _ _ _ _ I) (Lz zs) Hr (Fa zs Hz)).
        now rewrite (erase_value R' b L D' dims R r r' (upds s bs zs) Nb (inner_more _ _ _ _ I) (Lz zs) Hr (Fb zs Hz)). }
      assert (Ec : forall zs, entry R' c (map s D ++ zs) = reply R s bs p o (fun s => ceval R r s a) (fun s => ceval R r s b) zs).
      { intros zs. rewrite E by (left; reflexivity). now rewrite String.eqb_refl. }
      split; [intros zs Hz _; split; auto|]. split; [intros zs; rewrite Ec; apply Rep|].
      apply (IH e (c :: L) D (upd dims c D) (with_entry R c (reply R s bs p o (fun s => ceval R r s a) (fun s => ceval R r s b))) r r' s Ne (inner_ask _ _ _ _ I)); [|exact Hr|exact Ue|].
      + destruct Li as [Lh Le]. split; [exact Lh|]. intros y Hy l. cbn [with_entry entry]. unfold upd.
        destruct (String.eqb_spec c y) as [<-|Ny]; [symmetry; apply Ec|]. destruct Hy as [Hy|Hy]; [congruence|]. now apply Le.
      + intros q Hq vs. rewrite E by (right; apply in_or_app; right; apply in_or_app; auto).
        destruct (String.eqb_spec c q) as [<-|_]; [elim Uc; apply in_or_app; right; apply in_or_app; auto|].
        rewrite (has_not (asked a) q) by (intros Q; apply (Ux q Q), in_or_app; auto).
        rewrite (has_not (asked b) q) by (intros Q; exact (Uy q Q Hq)). reflexivity.
  Qed.

  (** ** A whole program: L are the index arrays that are given *)
  Definition nowhere : string -> list ix := fun _ => [].
  Definition plain (e : cexpr) : expr := erase nowhere [] e.
  Definition unasked (L : list string) (e : cexpr) : Prop := forall y, In y L -> ~ In y (asked e).
  Lemma decided_linked L R r e : unasked L e -> linked L nowhere s0 R (decided R r e).
  Proof. intros A. split; [reflexivity|]. intros y Hy l. cbn. now rewrite (has_not _ _ (A y Hy)). Qed.
  Theorem decided_fits L R r e : neat L [] e -> unasked L e -> NoDup (asked e) -> fits (decided R r e) nowhere [] r s0 e.
  Proof.
    intros N A U. apply (found_fits (decided R r e) e L [] nowhere R r r s0 N); auto; [intros y _ i []|now apply decided_linked|].
    intros c Hc vs. cbn. now rewrite (proj2 (has_in _ _) Hc).
  Qed.
  (** it means what its erasure means for the answers *)
  Theorem plain_value L R r e : neat L [] e -> unasked L e -> NoDup (asked e) ->
    forall d w, ceval R r s0 e d w = value (decided R r e) r s0 (plain e) d w.
  Proof.
    intros N A U. apply (erase_value (decided R r e) e L [] nowhere R r r s0 N); auto; [intros y _ i []|now apply decided_linked|].
    now apply (decided_fits L).
  Qed.

  (** * Let-lifting (Figure 7) of questions, which move outwards as lets of values do *)
  (** ** What a program looks up *)
  Fixpoint looks (e : cexpr) : list string :=
    match e with
    | CVar _ | CCst _ => []
    | CAdd a b | CSub a b | CMul a b | CPair a b | CLet _ a b => looks a ++ looks b
    | CFn _ es => flat_map looks es
    | CFst a | CSnd a | CGen _ _ a | CSum _ _ a => looks a
    | CAcc a k => looked_a k ++ looks a
    | CInd p a => looked_p p ++ looks a
    | CAsk _ _ p _ a b e => looked_p p ++ looks a ++ looks b ++ looks e
    end.
  Lemma reply_ext R R' s bs p o a a' b b' zs : alike (looked_p p) R R' ->
    (forall s, a s [] [] = a' s [] []) -> (forall s, b s [] [] = b' s [] []) -> reply R s bs p o a b zs = reply R' s bs p o a' b' zs.
  Proof. intros H Ha Hb. unfold reply. now rewrite (pval_alike R R' p _ H), Ha, Hb. Qed.
  Lemma reply_same R R' s bs p o a a' b b' zs : (forall zs, In zs (bbox bs) -> pval R (upds s bs zs) p = pval R' (upds s bs zs) p
    /\ a (upds s bs zs) [] [] = a' (upds s bs zs) [] [] /\ b (upds s bs zs) [] [] = b' (upds s bs zs) [] []) ->
    reply R s bs p o a b zs = reply R' s bs p o a' b' zs.
  Proof.
    intros H. unfold reply. destruct (existsb (leqb zs) (bbox bs)) eqn:E; [|reflexivity]. apply existsb_exists in E.
    destruct E as [l [Hl E]]. apply leqb_eq in E. subst l. destruct (H zs Hl) as [-> [-> ->]]. reflexivity.
  Qed.
  Lemma ceval_alike : forall e R R' r r' s d w, alike (looks e) R R' -> (forall x d w, r x d w = r' x d w) ->
    ceval R r s e d w = ceval R' r' s e d w.
  Proof.
    fix IH 1. intros [x|c|a b|a b|a b|f es|a b|a|a|i n a|i n a|a k|p a|x a b|c bs p o a b e] R R' r r' s d w H Hr; cbn [looks ceval] in *; auto.
    - now rewrite (IH a R R' r r' s d w (alike_l _ _ _ _ H) Hr), (IH b R R' r r' s d w (alike_r _ _ _ _ H) Hr).
    - now rewrite (IH a R R' r r' s d w (alike_l _ _ _ _ H) Hr), (IH b R R' r r' s d w (alike_r _ _ _ _ H) Hr).
    - now rewrite (IH a R R' r r' s d w (alike_l _ _ _ _ H) Hr), (IH b R R' r r' s d w (alike_r _ _ _ _ H) Hr).
    - f_equal. induction es as [|a es IHes]; [reflexivity|]. cbn [flat_map] in H. cbn [map].
      rewrite (IH a R R' r r' s d w (alike_l _ _ _ _ H) Hr). f_equal. apply IHes, (alike_r _ _ _ _ H).
    - destruct d as [|[|] d]; [reflexivity|apply (IH a); [exact (alike_l _ _ _ _ H)|exact Hr]|apply (IH b); [exact (alike_r _ _ _ _ H)|exact Hr]].
    - destruct w as [|z w]; [reflexivity|]. now rewrite (IH a R R' r r' _ d w H Hr).
    - apply sum_ext. intros z _. apply (IH a); assumption.
    - rewrite (aval_alike R R' s k (alike_l _ _ _ _ H)). apply (IH a); [exact (alike_r _ _ _ _ H)|exact Hr].
    - rewrite (pval_alike R R' p s (alike_l _ _ _ _ H)). now rewrite (IH a R R' r r' s d w (alike_r _ _ _ _ H) Hr).
    - apply (IH b); [exact (alike_r _ _ _ _ H)|]. intros y d' w'. unfold upd. destruct (String.eqb x y); [|apply Hr].
      apply (IH a); [exact (alike_l _ _ _ _ H)|exact Hr].
    - pose proof (alike_l _ _ _ _ (alike_r _ _ _ _ H)) as Ha. pose proof (alike_l _ _ _ _ (alike_r _ _ _ _ (alike_r _ _ _ _ H))) as Hb.
      pose proof (alike_r _ _ _ _ (alike_r _ _ _ _ (alike_r _ _ _ _ H))) as He. apply (IH e); [|exact Hr]. destruct He as [Hh He].
      split; [exact Hh|]. intros y Hy l. cbn [with_entry entry]. destruct (String.eqb c y); [|now apply He].
      apply reply_ext; [exact (alike_l _ _ _ _ H)| |]; intros s'; [apply (IH a)|apply (IH b)]; assumption.
  Qed.
  Lemma unread R c f e r s d w : ~ In c (looks e) -> ceval (with_entry R c f) r s e d w = ceval R r s e d w.
  Proof.
    intros N. apply ceval_alike; [|reflexivity]. split; [reflexivity|]. intros y Hy l. cbn. destruct (String.eqb_spec c y); [subst; contradiction|reflexivity].
  Qed.

  (** ** A question inside of what is neither a binder nor a bracket: 5.1 to 5.5, 5.8 and 5.10 *)
  Notation means l r := (forall R rho s d w, ceval R rho s l d w = ceval R rho s r d w).
  Section Rules.
    Variables (c : string) (bs : binders) (p : prd) (o : question) (a b : cexpr).
    Notation question e := (CAsk c bs p o a b e).
    Theorem asked_5_1 e1 e2 : ~ In c (looks e2) ->
      means (CAdd (question e1) e2) (question (CAdd e1 e2)) /\ means (CAdd e2 (question e1)) (question (CAdd e2 e1)).
    Proof. intros N. split; intros; cbn [ceval]; now rewrite (unread _ c _ e2) by exact N. Qed.
    Theorem asked_5_1_sub e1 e2 : ~ In c (looks e2) ->
      means (CSub (question e1) e2) (question (CSub e1 e2)) /\ means (CSub e2 (question e1)) (question (CSub e2 e1)).
    Proof. intros N. split; intros; cbn [ceval]; now rewrite (unread _ c _ e2) by exact N. Qed.
    Theorem asked_5_2 e1 e2 : ~ In c (looks e2) ->
      means (CMul (question e1) e2) (question (CMul e1 e2)) /\ means (CMul e2 (question e1)) (question (CMul e2 e1)).
    Proof. intros N. split; intros; cbn [ceval]; now rewrite (unread _ c _ e2) by exact N. Qed.
    Theorem asked_5_3 f before e1 after : ~ In c (flat_map looks (before ++ after)) ->
      means (CFn f (before ++ question e1 :: after)) (question (CFn f (before ++ e1 :: after))).
    Proof.
      intros N R rho s d w. rewrite flat_map_app in N. cbn [ceval]. f_equal. rewrite !map_app. cbn [map ceval].
      assert (M : forall l g, ~ In c (flat_map looks l) -> map (fun e => ceval (with_entry R c g) rho s e d w) l = map (fun e => ceval R rho s e d w) l).
      { intros l g Nl. apply map_ext_in. intros e He. apply unread. intros Hx. apply Nl, in_flat_map. eauto. }
      rewrite !M; [reflexivity|intros H; apply N, in_or_app; auto|intros H; apply N, in_or_app; auto].
    Qed.
    Theorem asked_5_4 e1 e2 : ~ In c (looks e2) ->
      means (CPair (question e1) e2) (question (CPair e1 e2)) /\ means (CPair e2 (question e1)) (question (CPair e2 e1)).
    Proof. intros N. split; intros; cbn [ceval]; destruct d as [|[|] d]; try reflexivity; now rewrite (unread _ c _ e2) by exact N. Qed.
    Theorem asked_5_5 e1 : means (CFst (question e1)) (question (CFst e1)) /\ means (CSnd (question e1)) (question (CSnd e1)).
    Proof. split; reflexivity. Qed.
    Theorem asked_5_8 e1 k : ~ In c (looked_a k) -> means (CAcc (question e1) k) (question (CAcc e1 k)).
    Proof.
      intros N R rho s d w. cbn [ceval]. rewrite (aval_alike (with_entry R c _) R s k); [reflexivity|]. split; [reflexivity|]. intros y Hy l. cbn.
      destruct (String.eqb_spec c y); [subst; contradiction|reflexivity].
    Qed.
    Theorem asked_5_10 x e1 e2 : ~ In c (looks e2) -> means (CLet x (question e1) e2) (question (CLet x e1 e2)).
    Proof. intros N R rho s d w. cbn [ceval]. symmetry. now apply unread. Qed.
  End Rules.

  (** ** Out of a bracket: [q] * let c = gen bs. [p] * (a < b) in e  ->  let c = gen bs. [q and p] * (a < b) in [q] * e *)
  (** the indices of q are not among those of bs *)
  Theorem asked_5_9 c bs p o a b q e : ~ In c (looked_p q) -> (forall R s zs, pval R (upds s bs zs) q = pval R s q) ->
    means (CInd q (CAsk c bs p o a b e)) (CAsk c bs (PAnd q p) o a b (CInd q e)).
  Proof.
    intros N A R rho s d w. cbn [ceval]. set (rep := reply R s bs (PAnd q p) o _ _).
    assert (Q : pval (with_entry R c rep) s q = pval R s q).
    { apply pval_alike. split; [reflexivity|]. intros y Hy l. cbn. destruct (String.eqb_spec c y); [subst; contradiction|reflexivity]. }
    rewrite Q. destruct (pval R s q) eqn:E; [|reflexivity]. cbn [ind]. apply ceval_alike; [|reflexivity]. split; [reflexivity|].
    intros y _ l. cbn. destruct (String.eqb c y); [|reflexivity]. unfold rep, reply. cbn [pval]. now rewrite A, E.
  Qed.

  (** ** Out of a binder: its index array gets the binder's index, and is looked up at it *)
  Fixpoint cplaced (dims : string -> list ix) (e : cexpr) : cexpr :=
    match e with
    | CVar x => CVar x | CCst c => CCst c
    | CAdd a b => CAdd (cplaced dims a) (cplaced dims b) | CSub a b => CSub (cplaced dims a) (cplaced dims b)
    | CMul a b => CMul (cplaced dims a) (cplaced dims b) | CFn f es => CFn f (map (cplaced dims) es)
    | CPair a b => CPair (cplaced dims a) (cplaced dims b) | CFst a => CFst (cplaced dims a) | CSnd a => CSnd (cplaced dims a)
    | CGen i n a => CGen i n (cplaced dims a) | CSum i n a => CSum i n (cplaced dims a)
    | CAcc a k => CAcc (cplaced dims a) (placed_a dims k) | CInd p a => CInd (placed_p dims p) (cplaced dims a)
    | CLet x a b => CLet x (cplaced dims a) (cplaced dims b)
    | CAsk c bs p o a b e => CAsk c bs (placed_p dims p) o (cplaced dims a) (cplaced dims b) (cplaced (upd dims c []) e)
    end.
  Lemma cplaced_value : forall e L D dims R R' r r' s, neat L D e -> inner L dims D -> linked L dims s R R' ->
    (forall x d w, r x d w = r' x d w) -> forall d w, ceval R r s e d w = ceval R' r' s (cplaced dims e) d w.
  Proof.
    fix IH 1. intros [x|c|a b|a b|a b|f es|a b|a|a|i n a|i n a|a k|p a|x a b|c bs p o a b e] L D dims R R' r r' s N I Li Hr d w;
    cbn [neat ceval cplaced] in *; auto.
    - destruct N as [N0 N1]. now rewrite (IH a L D dims R R' r r' s N0 I Li Hr), (IH b L D dims R R' r r' s N1 I Li Hr).
    - destruct N as [N0 N1]. now rewrite (IH a L D dims R R' r r' s N0 I Li Hr), (IH b L D dims R R' r r' s N1 I Li Hr).
    - destruct N as [N0 N1]. now rewrite (IH a L D dims R R' r r' s N0 I Li Hr), (IH b L D dims R R' r r' s N1 I Li Hr).
    - f_equal. rewrite map_map. induction es as [|a es IHes]; [reflexivity|]. cbn in N |- *. destruct N as [N0 N1].
      now rewrite (IH a L D dims R R' r r' s N0 I Li Hr), (IHes N1).
    - destruct N as [N0 N1]. destruct d as [|[|] d]; [reflexivity| |]; eapply IH; eassumption.
    - eapply IH; eassumption.
    - eapply IH; eassumption.
    - destruct w as [|z w]; [reflexivity|]. f_equal. destruct N as [Nf N].
      assert (Ni : ~ In i D) by (apply (fresh_apart _ _ Nf); left; reflexivity).
      eapply IH; [exact N|now apply inner_more|eapply linked_upd; eassumption|exact Hr].
    - apply sum_ext. intros z _. destruct N as [Nf N].
      assert (Ni : ~ In i D) by (apply (fresh_apart _ _ Nf); left; reflexivity).
      eapply IH; [exact N|now apply inner_more|eapply linked_upd; eassumption|exact Hr].
    - destruct N as [Nk N]. rewrite (placed_aval L dims s R R' Li k Nk). eapply IH; eassumption.
    - destruct N as [Np N]. rewrite (placed_pval L dims D R R' I p s Li Np). f_equal. eapply IH; eassumption.
    - destruct N as [N0 N1]. eapply IH; [exact N1|exact I|exact Li|]. intros y d' w'. unfold upd.
      destruct (String.eqb x y); [|apply Hr]. eapply IH; eassumption.
    - destruct N as [Nf [Np [Na [Nb [Nc Ne]]]]].
      assert (Lz : forall zs, linked L dims (upds s bs zs) R R') by (intros zs; eapply linked_upds; eassumption).
      eapply (IH e (c :: L) D (upd dims c [])); [exact Ne| | |exact Hr].
      + intros y Hy i Hi. unfold upd in Hi. destruct (String.eqb_spec c y); [destruct Hi|]. destruct Hy as [Hy|Hy]; [congruence|]. exact (I y Hy i Hi).
      + destruct Li as [Lh Le]. split; [exact Lh|]. intros y Hy l. cbn [with_entry entry]. unfold upd. destruct (String.eqb_spec c y) as [<-|Ny].
        * cbn [map app]. unfold reply. rewrite (placed_pval L dims (D ++ bnames bs) R R' (inner_more _ _ _ _ I) p _ (Lz l) Np).
          rewrite (IH a L (D ++ bnames bs) dims R R' r r' (upds s bs l) Na (inner_more _ _ _ _ I) (Lz l) Hr).
          now rewrite (IH b L (D ++ bnames bs) dims R R' r r' (upds s bs l) Nb (inner_more _ _ _ _ I) (Lz l) Hr).
        * destruct Hy as [Hy|Hy]; [congruence|]. now apply Le.
  Qed.
  (** c[..] becomes c[i, ..] *)
  Definition sliced (c : string) (i : ix) (e : cexpr) : cexpr := cplaced (upd nowhere c [i]) e.
  Lemma reply_within R s i n bs p o a b z l : inside n z = true ->
    reply R (upd s i z) bs p o a b l = reply R s ((i, n) :: bs) p o a b (z :: l).
  Proof.
    intros Hz. unfold reply. cbn [upds].
    assert (existsb (leqb l) (bbox bs) = existsb (leqb (z :: l)) (bbox ((i, n) :: bs))) as ->; [|reflexivity].
    apply eq_true_iff_eq. rewrite !existsb_exists. split.
    - intros [x [Hx E]]. apply leqb_eq in E. subst x. exists (z :: l). split; [apply box_cons; auto|now apply leqb_eq].
    - intros [x [Hx E]]. apply leqb_eq in E. subst x. apply box_cons in Hx. exists l. split; [apply Hx|now apply leqb_eq].
  Qed.
  Lemma sliced_value L c i n bs p o a b e R r s z d w : neat (c :: L) [i] e -> inside n z = true ->
    ceval (with_entry R c (reply R (upd s i z) bs p o (fun s => ceval R r s a) (fun s => ceval R r s b))) r (upd s i z) e d w
    = ceval (with_entry R c (reply R s ((i, n) :: bs) p o (fun s => ceval R r s a) (fun s => ceval R r s b))) r (upd s i z) (sliced c i e) d w.
  Proof.
    intros N Hz. apply (cplaced_value e (c :: L) [i]); [exact N| | |reflexivity].
    - intros y Hy j Hj. unfold upd in Hj. destruct (String.eqb c y); [exact Hj|destruct Hj].
    - split; [reflexivity|]. intros y Hy l. cbn [with_entry entry].
      change (upd nowhere c [i] y) with (if String.eqb c y then [i] else []). destruct (String.eqb c y); [|reflexivity].
      cbn [map app]. replace (upd s i z i) with z by (unfold upd; now rewrite String.eqb_refl). now apply reply_within.
  Qed.
  (** 5.6: gen i:n. let c = gen bs. q in e  ->  let c = gen i:n, bs. q in gen i:n. [c := c[i]] e; 5.7, of a sum, alike *)
  Theorem asked_5_6 L c i n bs p o a b e : neat (c :: L) [i] e ->
    means (CGen i n (CAsk c bs p o a b e)) (CAsk c ((i, n) :: bs) p o a b (CGen i n (sliced c i e))).
  Proof.
    intros N R rho s d w. cbn [ceval]. destruct w as [|z w]; [reflexivity|]. destruct (inside n z) eqn:Hz; [|reflexivity]. cbn [ind].
    now apply (sliced_value L).
  Qed.
  Theorem asked_5_7 L c i n bs p o a b e : neat (c :: L) [i] e ->
    means (CSum i n (CAsk c bs p o a b e)) (CAsk c ((i, n) :: bs) p o a b (CSum i n (sliced c i e))).
  Proof. intros N R rho s d w. cbn [ceval]. apply sum_ext. intros z Hz. apply (sliced_value L); [exact N|now apply zrange_inside]. Qed.
  (** out of what is compared, which is such an inside of binders and of a bracket: of a question without indices *)
  Theorem asked_in_a_question L c c' i n p o o' a b a' b' e : c <> c' -> ~ In c (looks b') -> ~ In c (looks e) -> ~ In c (looked_p p) ->
    neat (c :: L) [i] a' ->
    means (CAsk c' [(i, n)] p o' (CAsk c [] PTrue o a b a') b' e)
          (CAsk c [(i, n)] PTrue o a b (CAsk c' [(i, n)] p o' (sliced c i a') b' e)).
  Proof.
    intros Ne Nb N Np Na R rho s d w. cbn [ceval].
    set (rep := reply R s [(i, n)] PTrue o (fun s => ceval R rho s a) (fun s => ceval R rho s b)).
    apply ceval_alike; [|reflexivity]. split; [reflexivity|]. intros y Hy l. cbn [with_entry entry].
    destruct (String.eqb c' y) eqn:E; [|destruct (String.eqb_spec c y); [subst; contradiction|reflexivity]].
    apply reply_same. intros zs Hz. destruct zs as [|z [|z' zs]]; [apply bbox_length in Hz; discriminate| |apply bbox_length in Hz; discriminate].
    apply box_cons in Hz. destruct Hz as [Hz _]. cbn [upds]. split; [|split].
    - symmetry. apply pval_alike. split; [reflexivity|]. intros q Hq v. cbn. destruct (String.eqb_spec c q); [subst; contradiction|reflexivity].
    - apply (sliced_value L c i n [] PTrue o a b a' R rho s z [] [] Na Hz).
    - now rewrite (unread R c _ b') by exact Nb.
  Qed.

  (** * Programs whose outermost lets ask (Conditions.v) are such programs *)
  Fixpoint whole (e : expr) : cexpr :=
    match e with
    | EVar x => CVar x | ECst c => CCst c
    | EAdd a b => CAdd (whole a) (whole b) | ESub a b => CSub (whole a) (whole b) | EMul a b => CMul (whole a) (whole b)
    | EFn f es => CFn f (map whole es)
    | EPair a b => CPair (whole a) (whole b) | EFst a => CFst (whole a) | ESnd a => CSnd (whole a)
    | EGen i n a => CGen i n (whole a) | ESum i n a => CSum i n (whole a)
    | EAcc a k => CAcc (whole a) k | EInd p a => CInd p (whole a) | ELet x a b => CLet x (whole a) (whole b)
    end.
  Fixpoint nested (l : list (@item K fn)) (e : expr) : cexpr :=
    match l with
    | [] => whole e
    | Bind x a :: l' => CLet x (whole a) (nested l' e)
    | Ask c bs p o a b :: l' => CAsk c bs p o (whole a) (whole b) (nested l' e)
    end.
  Lemma whole_value R : forall e r r' s d w, (forall x d w, r x d w = r' x d w) -> ceval R r s (whole e) d w = value R r' s e d w.
  Proof.
    fix IH 1. intros [x|c|a b|a b|a b|f es|a b|a|a|i n a|i n a|a k|p a|x a b] r r' s d w H; cbn [whole ceval Core.eval]; auto;
    try (now rewrite (IH a r r' s d w H), (IH b r r' s d w H)).
    - f_equal. rewrite map_map. induction es as [|a es IHes]; [reflexivity|]. cbn [map]. now rewrite (IH a r r' s d w H), IHes.
    - destruct d as [|[|] d]; [reflexivity|now apply (IH a)|now apply (IH b)].
    - destruct w as [|z w]; [reflexivity|]. f_equal. now apply (IH a).
    - apply sum_ext. intros z _. now apply (IH a).
    - f_equal. now apply (IH a).
    - apply (IH b). intros y d' w'. unfold upd. destruct (String.eqb x y); [now apply (IH a)|apply H].
  Qed.
  Theorem nested_value : forall l R r r' e d w, (forall x d w, r x d w = r' x d w) ->
    ceval R r s0 (nested l e) d w = conditional rO radd rmul rsub fval ask R r' l e d w.
  Proof.
    induction l as [|[x a|c bs p o a b] l IH]; intros R r r' e d w H; unfold conditional; cbn [nested ceval follow].
    - now apply whole_value.
    - apply IH. intros y d' w'. unfold upd. destruct (String.eqb x y); [now apply whole_value|apply H].
    - rewrite (ceval_alike _ _ (with_entry R c (answer rO radd rmul rsub fval ask R r' bs p o a b)) r r); [now apply IH| |reflexivity].
      split; [reflexivity|]. intros y _ v. cbn. destruct (String.eqb c y); [|reflexivity]. unfold reply, answer.
      now rewrite (whole_value R a r r' _ [] [] H), (whole_value R b r r' _ [] [] H).
  Qed.
End Questions.
