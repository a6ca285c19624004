(** Normal forms of values, as the checker compares them: why what it does with sums of brackets is sound.

    A value is a sum of terms, each a coefficient times a product that is added up over the points at which a predicate
    holds. [sum_times], [sum_pinned] and [sum_narrowed] are the laws by which one gets there; [aligned] says that a term
    may be seen as one over the points of another that reads the same; [group_is_zero] that terms so seen add up to 0 if
    their weights do at each point, however the coefficient of a term is split between the ways to see it;
    [sum_times_recip] is the one law of division. Numbers are any commutative ring. *)
Require Import List Bool ZArith Ring Lia.
Import ListNotations.
Require Import TL.Sums TL.Boxes.

Section Normal.
  Context {K : Type} (rO rI : K) (radd rmul rsub : K -> K -> K) (ropp : K -> K).
  Hypothesis Rth : ring_theory rO rI radd rmul rsub ropp eq.
  Add Ring KNormal : Rth.
  Infix "+" := radd. Infix "*" := rmul.
  Notation sum := (sum rO radd).
  Notation ind := (ind rO).
  Arguments Sums.sum {K} rO radd {A}.

  (** ** Getting to normal forms *)

  (** products are multiplied out, over the points of both *)
  Theorem sum_times {A B} (l : list A) (m : list B) (p : A -> bool) (q : B -> bool) (f : A -> K) (g : B -> K) :
    sum l (fun a => ind (p a) (f a)) * sum m (fun b => ind (q b) (g b))
    = sum l (fun a => sum m (fun b => ind (p a && q b) (f a * g b))).
  Proof.
    rewrite <- (sum_scale_r rO rI radd rmul rsub ropp Rth). apply (sum_ext rO radd). intros a _.
    rewrite <- (sum_scale rO rI radd rmul rsub ropp Rth). apply (sum_ext rO radd). intros b _.
    destruct (p a), (q b); simpl; ring.
  Qed.

  (** an index that an equality determines is put in its place *)
  Theorem sum_pinned {A} (eqb : A -> A -> bool) (l : list A) (c : A) (f : A -> K) :
    (forall x y, eqb x y = true <-> x = y) -> NoDup l ->
    sum l (fun b => ind (eqb c b) (f b)) = ind (existsb (eqb c) l) (f c).
  Proof.
    intros He N. destruct (existsb (eqb c) l) eqn:E.
    - apply existsb_exists in E. destruct E as [b [Hb E]]. apply He in E. subst b.
      transitivity (f c); [|reflexivity].
      apply (sum_point rO rI radd rmul rsub ropp Rth eqb l c f); assumption.
    - simpl. transitivity (sum l (fun _ => rO)); [|apply (sum_0 rO rI radd rmul rsub ropp Rth)].
      apply (sum_ext rO radd). intros b Hb. destruct (eqb c b) eqn:E'; [|reflexivity].
      assert (existsb (eqb c) l = true) by (apply existsb_exists; eauto). congruence.
  Qed.

  (** a predicate may be exchanged for one that is equal where the term is read *)
  Theorem sum_narrowed {A} (l : list A) (p q : A -> bool) (f : A -> K) :
    (forall a, In a l -> p a = q a) -> sum l (fun a => ind (p a) (f a)) = sum l (fun a => ind (q a) (f a)).
  Proof. intros H. apply (sum_ext rO radd). intros a Ha. now rewrite H. Qed.

  (** (sum of e) * recip (sum of e) = 1, where the reciprocal is one *)
  Theorem sum_times_recip {A} (l : list A) (e : A -> K) (recip : K -> K) :
    sum l e * recip (sum l e) = rI ->
    forall x, x * sum l (fun a => e a * recip (sum l e)) = x.
  Proof.
    intros H x. rewrite (sum_scale_r rO rI radd rmul rsub ropp Rth), H. ring.
  Qed.

  (** ** Terms that read the same *)

  (** a product [value] at those of [points] where [where_] holds *)
  Record term := { points : list index; where_ : index -> bool; value : index -> K }.
  Definition total (t : term) : K := sum (points t) (fun b => ind (where_ t b) (value t b)).

  (** a way to see a term as one over the points of the reference: there, and back *)
  Record view := { there : index -> index; back : index -> index }.

  Section Reference.
    (** the reference's points, at least those that any term is seen at, and what it reads there *)
    Variables (universe : list index) (reads : index -> K).
    Hypothesis universe_nodup : NoDup universe.

    (** what the checker asks: wherever the term has a point b, the reference reads at f(b) what the term reads at b, and
        g(f(b)) = b *)
    Definition fits (t : term) (v : view) : Prop :=
      forall b, In b (points t) -> where_ t b = true ->
        In (there v b) universe /\ value t b = reads (there v b) /\ back v (there v b) = b.

    (** the points of the reference at which the term is seen *)
    Definition seen (t : term) (v : view) (r : index) : bool :=
      existsb (leqb (back v r)) (points t) && where_ t (back v r) && leqb (there v (back v r)) r.

    Theorem aligned t v : NoDup (points t) -> fits t v ->
      total t = sum universe (fun r => ind (seen t v r) (reads r)).
    Proof.
      intros N F. unfold total.
      transitivity (sum (points t) (fun b => sum universe (fun r =>
        ind (leqb (there v b) r) (ind (where_ t b) (reads r))))).
      { apply (sum_ext rO radd). intros b Hb. destruct (where_ t b) eqn:W; simpl.
        - destruct (F b Hb W) as [Hin [E _]]. rewrite E. symmetry.
          apply (sum_point rO rI radd rmul rsub ropp Rth leqb universe (there v b) reads);
            auto using leqb_eq.
        - symmetry. transitivity (sum universe (fun _ => rO)); [|apply (sum_0 rO rI radd rmul rsub ropp Rth)].
          apply (sum_ext rO radd). intros r _. destruct (leqb (there v b) r); reflexivity. }
      rewrite (sum_swap rO rI radd rmul rsub ropp Rth). apply (sum_ext rO radd). intros r _.
      transitivity (sum (points t) (fun b => ind (leqb (back v r) b)
        (ind (where_ t b && leqb (there v b) r) (reads r)))).
      { apply (sum_ext rO radd). intros b Hb.
        destruct (leqb (there v b) r) eqn:E, (where_ t b) eqn:W; simpl;
          try (destruct (leqb (back v r) b); reflexivity).
        apply leqb_eq in E. destruct (F b Hb W) as [_ [_ G]]. rewrite E in G. subst b.
        assert (leqb (back v r) (back v r) = true) as -> by now apply leqb_eq. reflexivity. }
      rewrite sum_pinned; [|intros; apply leqb_eq|assumption].
      unfold seen. destruct (existsb _ _), (where_ t (back v r)), (leqb (there v (back v r)) r); reflexivity.
    Qed.

    (** a term with its coefficient split between several views *)
    Definition weighted := (term * list (K * view))%type.
    Definition coefficient (ws : list (K * view)) : K := sum ws fst.
    Definition weight (ts : list weighted) (r : index) : K :=
      sum ts (fun tw => sum (snd tw) (fun wv => ind (seen (fst tw) (snd wv) r) (fst wv))).

    Theorem group_is_sum (ts : list weighted) :
      (forall t ws, In (t, ws) ts -> NoDup (points t) /\ forall w v, In (w, v) ws -> fits t v) ->
      sum ts (fun tw => coefficient (snd tw) * total (fst tw)) = sum universe (fun r => weight ts r * reads r).
    Proof.
      induction ts as [|[t ws] ts IH]; intros H.
      - simpl. symmetry. transitivity (sum universe (fun _ => rO)); [|apply (sum_0 rO rI radd rmul rsub ropp Rth)].
        apply (sum_ext rO radd). intros r _. unfold weight. simpl. ring.
      - simpl. rewrite IH by (intros t' ws' H'; apply H; right; assumption).
        assert (coefficient ws * total t =
          sum universe (fun r => sum ws (fun wv => ind (seen t (snd wv) r) (fst wv)) * reads r)) as ->.
        { destruct (H t ws (or_introl eq_refl)) as [N F]. clear H IH. unfold coefficient.
          induction ws as [|[w v] ws IH]; simpl.
          - transitivity rO; [ring|]. symmetry.
            transitivity (sum universe (fun _ => rO)); [|apply (sum_0 rO rI radd rmul rsub ropp Rth)].
            apply (sum_ext rO radd). intros r _. ring.
          - transitivity (w * total t + sum ws fst * total t); [ring|].
            rewrite IH by (intros w' v' H'; apply (F w' v'); right; assumption).
            rewrite (aligned t v N (F w v (or_introl eq_refl))), <- (sum_scale rO rI radd rmul rsub ropp Rth),
              <- (sum_add rO rI radd rmul rsub ropp Rth).
            apply (sum_ext rO radd). intros r _. destruct (seen t v r); simpl; ring. }
        rewrite <- (sum_add rO rI radd rmul rsub ropp Rth). apply (sum_ext rO radd). intros r _.
        unfold weight. simpl. ring.
    Qed.

    (** terms add up to 0 if their weights do at each point: what isl decides *)
    Theorem group_is_zero (ts : list weighted) :
      (forall t ws, In (t, ws) ts -> NoDup (points t) /\ forall w v, In (w, v) ws -> fits t v) ->
      (forall r, In r universe -> weight ts r = rO) ->
      sum ts (fun tw => coefficient (snd tw) * total (fst tw)) = rO.
    Proof.
      intros H Z. rewrite (group_is_sum ts H).
      transitivity (sum universe (fun _ => rO)); [|apply (sum_0 rO rI radd rmul rsub ropp Rth)].
      apply (sum_ext rO radd). intros r Hr. rewrite (Z r Hr). ring.
    Qed.
  End Reference.
End Normal.
