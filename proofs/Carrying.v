(** Charges carried into others, as the checker does it: why low charges then add up to no more than high ones.

    A piece is a weight at each point of a list. A step goes from a low piece to a high one, by a map g from the points of
    the high one to those of the low one: each point b that g reaches is carried to the first point above it. Then what is
    low beside what is high stays what it was ([carry_balance]); to exchange a low piece for one of no fewer points, such
    as one that is mapped onto it ([onto_length]), or for several, its parts, makes it no less ([open_balance],
    [split_balance]). So if nothing low is left, there was no more of it than of the high
    ([carried_sound]). [carried] can be run: extracted, it checks the steps that certificates have at given sizes. *)
Require Import List Bool ZArith Lia.
Import ListNotations.
Require Import TL.Sums TL.Boxes.
Open Scope Z_scope.

Definition piece := (Z * list index)%type.
Definition amount (p : piece) : Z := fst p * Z.of_nat (length (snd p)).
Definition amounts (ps : list piece) : Z := zsum ps amount.

(** an affine map of indices: for each index of the image coefficients and a constant *)
Definition affine_map := list (list Z * Z).
Fixpoint dot (cs t : list Z) : Z :=
  match cs, t with c :: cs', x :: t' => c * x + dot cs' t' | _, _ => 0 end.
Definition image (g : affine_map) (t : index) : index := map (fun e => dot (fst e) t + snd e) g.

(** the first point above b *)
Definition above (g : index -> index) (high : list index) (b : index) : option index :=
  find (fun t => leqb (g t) b) high.
Definition is_some {A} (o : option A) : bool := match o with Some _ => true | None => false end.
Definition reached g high low : list index := filter (fun b => is_some (above g high b)) low.
Definition missed g high low : list index := filter (fun b => negb (is_some (above g high b))) low.
Definition taken g high low : list index :=
  flat_map (fun b => match above g high b with Some t => [t] | None => [] end) low.
Definition member (t : index) (l : list index) : bool := existsb (leqb t) l.
Definition remaining g high low : list index := filter (fun t => negb (member t (taken g high low))) high.

Lemma member_In t l : member t l = true <-> In t l.
Proof.
  unfold member. rewrite existsb_exists. split.
  - intros [x [H E]]. apply leqb_eq in E. now subst.
  - intros H. exists t. split; [assumption|]. now apply leqb_eq.
Qed.
Lemma above_Some g high b t : above g high b = Some t -> In t high /\ g t = b.
Proof. unfold above. intros H. apply find_some in H. destruct H as [H E]. apply leqb_eq in E. auto. Qed.
Lemma taken_In g high low t : In t (taken g high low) -> In t high /\ In (g t) low.
Proof.
  unfold taken. rewrite in_flat_map. intros [b [Hb H]]. destruct (above g high b) eqn:E; [|destruct H].
  destruct H as [<-|[]]. apply above_Some in E. destruct E as [E <-]. auto.
Qed.
Lemma taken_nodup g high low : NoDup low -> NoDup (taken g high low).
Proof.
  induction low as [|b low IH]; intros N; [constructor|]. inversion N; subst.
  change (taken g high (b :: low)) with
    ((match above g high b with Some t => [t] | None => [] end) ++ taken g high low).
  destruct (above g high b) as [t|] eqn:E; [|apply IH; assumption]. simpl. constructor; [|auto].
  intros H. apply taken_In in H. apply above_Some in E. destruct E as [_ <-]. tauto.
Qed.
Lemma taken_length g high low : length (taken g high low) = length (reached g high low).
Proof.
  induction low as [|b low IH]; [reflexivity|].
  change (taken g high (b :: low)) with
    ((match above g high b with Some t => [t] | None => [] end) ++ taken g high low).
  unfold reached. simpl. destruct (above g high b); simpl; [f_equal|]; exact IH.
Qed.
Lemma filter_length_split {A} (p : A -> bool) l :
  (length (filter p l) + length (filter (fun a => negb (p a)) l) = length l)%nat.
Proof. induction l as [|a l IH]; simpl; [reflexivity|]. destruct (p a); simpl; lia. Qed.
Lemma filter_member_length (t h : list index) : NoDup h -> NoDup t -> incl t h ->
  length (filter (fun x => member x t) h) = length t.
Proof.
  intros Nh Nt I. apply Nat.le_antisymm.
  - apply NoDup_incl_length; [apply NoDup_filter, Nh|]. intros x Hx. apply filter_In in Hx.
    now apply member_In.
  - apply NoDup_incl_length; [exact Nt|]. intros x Hx. apply filter_In. split; [apply I, Hx|]. now apply member_In.
Qed.

(** what is left of the high piece, and of the low one, differ by as much as the pieces did *)
Theorem carry_counts g high low : NoDup high -> NoDup low ->
  Z.of_nat (length low) - Z.of_nat (length high)
  = Z.of_nat (length (missed g high low)) - Z.of_nat (length (remaining g high low)).
Proof.
  intros Nh Nl.
  pose proof (filter_length_split (fun b => is_some (above g high b)) low) as L.
  pose proof (filter_length_split (fun t => member t (taken g high low)) high) as H.
  rewrite filter_member_length in H; auto using taken_nodup.
  2:{ intros t Ht. apply (taken_In g high low t Ht). }
  rewrite taken_length in H. unfold missed, remaining, reached in *. lia.
Qed.

(** ** Steps *)
Inductive step :=
| Carry (low high : nat) (g : affine_map)
| Open (low : nat) (wider : list index)
| Split (low : nat) (parts : list (list index)).

Fixpoint replace_nth {A} (n : nat) (l : list A) (a : A) : list A :=
  match l, n with
  | [], _ => [] | _ :: l', O => a :: l' | b :: l', S n' => b :: replace_nth n' l' a
  end.
Lemma amounts_replace n l p q : nth_error l n = Some p -> amounts (replace_nth n l q) = amounts l - amount p + amount q.
Proof.
  revert n. induction l as [|x l IH]; intros [|n] H; simpl in *; try discriminate.
  - inversion H; subst. unfold amounts. simpl. lia.
  - unfold amounts in *. simpl. rewrite (IH n H). lia.
Qed.
Lemma amounts_app a b : amounts (a ++ b) = amounts a + amounts b.
Proof. unfold amounts. apply zsum_app. Qed.

Definition distinct (l : list index) : bool :=
  (fix go (l : list index) := match l with [] => true | t :: l' => negb (member t l') && go l' end) l.
Lemma distinct_nodup l : distinct l = true -> NoDup l.
Proof.
  induction l as [|t l IH]; simpl; intros H; [constructor|]. apply andb_true_iff in H. destruct H as [H1 H2].
  constructor; [|apply IH, H2]. intros H. apply member_In in H. rewrite H in H1. discriminate.
Qed.
Definition good (p : piece) : bool := (0 <=? fst p) && distinct (snd p).

Definition state := (list piece * list piece)%type.
Definition balance (s : state) : Z := amounts (fst s) - amounts (snd s).

Definition follow (s : state) (st : step) : option state :=
  let '(lows, highs) := s in
  match st with
  | Carry a h g =>
      match nth_error lows a, nth_error highs h with
      | Some (v, low), Some (w, high) =>
          let m := Z.min v w in
          Some (replace_nth a lows (v - m, low) ++ [(m, missed (image g) high low)],
                replace_nth h highs (w - m, high) ++ [(m, remaining (image g) high low)])
      | _, _ => None
      end
  | Open a wider =>
      match nth_error lows a with
      | Some (v, low) =>
          if (length low <=? length wider)%nat && distinct wider
          then Some (replace_nth a lows (0, low) ++ [(v, wider)], highs) else None
      | None => None
      end
  | Split a parts =>
      match nth_error lows a with
      | Some (v, low) =>
          if (length low <=? length (concat parts))%nat && forallb distinct parts
          then Some (replace_nth a lows (0, low) ++ map (pair v) parts, highs) else None
      | None => None
      end
  end.

Definition all_good (s : state) : bool := forallb good (fst s) && forallb good (snd s).

Lemma good_nodup p : good p = true -> NoDup (snd p) /\ 0 <= fst p.
Proof. unfold good. rewrite andb_true_iff, Z.leb_le. intros [H D]. auto using distinct_nodup. Qed.
Lemma nodup_distinct l : NoDup l -> distinct l = true.
Proof.
  induction 1 as [|t l H N IH]; [reflexivity|]. simpl. apply andb_true_iff. split; [|exact IH].
  destruct (member t l) eqn:E; [|reflexivity]. apply member_In in E. contradiction.
Qed.
Lemma forallb_replace {A} (p : A -> bool) n l a : forallb p l = true -> p a = true -> forallb p (replace_nth n l a) = true.
Proof.
  revert n. induction l as [|b l IH]; intros [|n] H Ha; simpl in *; auto; apply andb_true_iff in H; destruct H as [H1 H2];
    apply andb_true_iff; auto.
Qed.
Lemma forallb_nth {A} (p : A -> bool) n l a : forallb p l = true -> nth_error l n = Some a -> p a = true.
Proof. intros H E. apply nth_error_In in E. exact (proj1 (forallb_forall p l) H a E). Qed.

Theorem carry_balance lows highs a h g s :
  all_good (lows, highs) = true -> follow (lows, highs) (Carry a h g) = Some s ->
  balance s = balance (lows, highs) /\ all_good s = true.
Proof.
  unfold all_good, balance. cbn [fst snd follow]. rewrite andb_true_iff. intros [Gl Gh].
  destruct (nth_error lows a) as [[v low]|] eqn:El; [|discriminate].
  destruct (nth_error highs h) as [[w high]|] eqn:Eh; [|discriminate]. intros E. injection E as <-. cbn [fst snd].
  destruct (good_nodup _ (forallb_nth _ _ _ _ Gl El)) as [Nl Vl].
  destruct (good_nodup _ (forallb_nth _ _ _ _ Gh Eh)) as [Nh Vh]. cbn [fst snd] in *.
  split.
  - rewrite !amounts_app, (amounts_replace _ _ _ _ El), (amounts_replace _ _ _ _ Eh).
    unfold amounts, amount. cbn [zsum fst snd]. pose proof (carry_counts (image g) high low Nh Nl) as C. nia.
  - assert (M : 0 <= Z.min v w) by lia.
    rewrite !forallb_app, !forallb_replace; auto; cbn [forallb]; unfold good; cbn [fst snd];
      rewrite ?andb_true_iff, ?Z.leb_le; repeat split; try lia; try reflexivity; apply nodup_distinct; auto;
      unfold missed, remaining; auto using NoDup_filter.
Qed.

(** what is mapped onto a piece has no fewer points: why a piece may be opened *)
Theorem onto_length (g : index -> index) wider low : NoDup low -> (forall b, In b low -> exists t, In t wider /\ g t = b) ->
  (length low <= length wider)%nat.
Proof.
  intros N F. rewrite <- (map_length g wider). apply NoDup_incl_length; [exact N|]. intros b Hb.
  destruct (F b Hb) as [t [Ht <-]]. now apply in_map.
Qed.

Theorem open_balance lows highs a wider s :
  all_good (lows, highs) = true -> follow (lows, highs) (Open a wider) = Some s ->
  balance (lows, highs) <= balance s /\ all_good s = true.
Proof.
  unfold all_good, balance. cbn [fst snd follow]. rewrite andb_true_iff. intros [Gl Gh].
  destruct (nth_error lows a) as [[v low]|] eqn:El; [|discriminate].
  destruct ((length low <=? length wider)%nat && distinct wider) eqn:F; [|discriminate]. intros E. injection E as <-. cbn [fst snd].
  apply andb_true_iff in F. destruct F as [F D].
  destruct (good_nodup _ (forallb_nth _ _ _ _ Gl El)) as [Nl Vl]. cbn [fst snd] in *. split.
  - rewrite amounts_app, (amounts_replace _ _ _ _ El). unfold amounts, amount. cbn [zsum fst snd].
    apply Nat.leb_le in F. nia.
  - apply andb_true_iff. split; [|exact Gh]. rewrite forallb_app. apply andb_true_iff. split.
    + apply forallb_replace; [exact Gl|]. unfold good. cbn [fst snd]. now rewrite (nodup_distinct _ Nl).
    + cbn [forallb]. unfold good. cbn [fst snd]. rewrite D. now apply Z.leb_le in Vl as ->.
Qed.

(** a piece becomes several that have no fewer points together: why it may be split by an index *)
Lemma amounts_parts v parts : amounts (map (pair v) parts) = v * Z.of_nat (length (concat parts)).
Proof.
  induction parts as [|p parts IH]; [unfold amounts; simpl; lia|].
  change (amounts (map (pair v) (p :: parts))) with (amount (v, p) + amounts (map (pair v) parts)).
  rewrite IH. unfold amount. cbn [fst snd concat]. rewrite app_length. nia.
Qed.

Theorem split_balance lows highs a parts s :
  all_good (lows, highs) = true -> follow (lows, highs) (Split a parts) = Some s ->
  balance (lows, highs) <= balance s /\ all_good s = true.
Proof.
  unfold all_good, balance. cbn [fst snd follow]. rewrite andb_true_iff. intros [Gl Gh].
  destruct (nth_error lows a) as [[v low]|] eqn:El; [|discriminate].
  destruct ((length low <=? length (concat parts))%nat && forallb distinct parts) eqn:F; [|discriminate].
  intros E. injection E as <-. cbn [fst snd]. apply andb_true_iff in F. destruct F as [F D].
  destruct (good_nodup _ (forallb_nth _ _ _ _ Gl El)) as [Nl Vl]. cbn [fst snd] in *. split.
  - rewrite amounts_app, (amounts_replace _ _ _ _ El), amounts_parts. unfold amount. cbn [fst snd].
    apply Nat.leb_le in F. nia.
  - apply andb_true_iff. split; [|exact Gh]. rewrite forallb_app. apply andb_true_iff. split.
    + apply forallb_replace; [exact Gl|]. unfold good. cbn [fst snd]. now rewrite (nodup_distinct _ Nl).
    + apply forallb_forall. intros p Hp. apply in_map_iff in Hp. destruct Hp as [q [<- Hq]]. unfold good. cbn [fst snd].
      rewrite (proj1 (forallb_forall _ _) D q Hq). now apply Z.leb_le in Vl as ->.
Qed.

Fixpoint followed (s : state) (steps : list step) : option state :=
  match steps with
  | [] => Some s
  | st :: rest => match follow s st with Some s' => followed s' rest | None => None end
  end.

(** whether the steps carry everything *)
Definition carried (s : state) (steps : list step) : bool :=
  all_good s &&
  match followed s steps with
  | Some s' => forallb (fun p => (fst p =? 0) || match snd p with [] => true | _ => false end) (fst s')
  | None => false
  end.

Lemma followed_balance steps : forall s s', all_good s = true -> followed s steps = Some s' ->
  balance s <= balance s' /\ all_good s' = true.
Proof.
  induction steps as [|st steps IH]; intros [lows highs] s' G E; simpl in E.
  - injection E as <-. split; [lia|assumption].
  - destruct (follow (lows, highs) st) as [s1|] eqn:E1; [|simpl in E1; rewrite E1 in E; discriminate].
    simpl in E1. rewrite E1 in E.
    assert (balance (lows, highs) <= balance s1 /\ all_good s1 = true) as [B1 G1].
    { destruct st as [a h g|a wider|a parts].
      - destruct (carry_balance lows highs a h g s1 G E1). split; [lia|assumption].
      - exact (open_balance lows highs a wider s1 G E1).
      - exact (split_balance lows highs a parts s1 G E1). }
    destruct (IH s1 s' G1 E) as [B2 G2]. split; [lia|assumption].
Qed.

(** what is carried was no more than what it is carried into *)
Theorem carried_sound lows highs steps : carried (lows, highs) steps = true -> amounts lows <= amounts highs.
Proof.
  unfold carried. rewrite andb_true_iff. intros [G H].
  destruct (followed (lows, highs) steps) as [[l h]|] eqn:E; [|discriminate].
  destruct (followed_balance steps _ _ G E) as [B G']. unfold balance in B. cbn [fst snd] in *.
  assert (amounts l = 0) as L.
  { clear -H. induction l as [|[w ps] l IH]; [reflexivity|]. cbn [forallb fst snd] in H. apply andb_true_iff in H.
    destruct H as [H1 H2]. unfold amounts in *. cbn [zsum]. rewrite (IH H2). unfold amount. cbn [fst snd].
    apply orb_true_iff in H1. destruct H1 as [H1|H1]; [apply Z.eqb_eq in H1; subst; lia|].
    destruct ps; [simpl; lia|discriminate]. }
  assert (0 <= amounts h) as P.
  { unfold all_good in G'. cbn [fst snd] in G'. apply andb_true_iff in G'. destruct G' as [_ G'].
    clear -G'. unfold amounts. apply zsum_nonneg. intros p Hp.
    pose proof (proj1 (forallb_forall _ _) G' p Hp) as Q. apply good_nodup in Q. unfold amount. nia. }
  lia.
Qed.
