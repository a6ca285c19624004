(** Index tuples, and the boxes that they range over. *)
Require Import List Bool ZArith Arith FinFun Lia.
Import ListNotations.
Require Import TL.Sums.

Definition shape := list nat.
Definition index := list Z.
Definition zrange (n : nat) : list Z := map Z.of_nat (seq 0 n).
Fixpoint box (sh : shape) : list index :=
  match sh with
  | [] => [[]]
  | n :: sh' => flat_map (fun z => map (cons z) (box sh')) (zrange n)
  end.
Definition size (sh : shape) : Z := Z.of_nat (length (box sh)).
(** z is in 0 .. n-1 *)
Definition inside (n : nat) (z : Z) : bool := (0 <=? z)%Z && (z <? Z.of_nat n)%Z.

Lemma zrange_inside n z : In z (zrange n) <-> inside n z = true.
Proof.
  unfold zrange, inside. rewrite in_map_iff, andb_true_iff, Z.leb_le, Z.ltb_lt. split.
  - intros [k [<- Hk]]. apply in_seq in Hk. lia.
  - intros H. exists (Z.to_nat z). rewrite in_seq. lia.
Qed.
Lemma zrange_nodup n : NoDup (zrange n).
Proof. apply Injective_map_NoDup; [intros a b; apply Nat2Z.inj|apply seq_NoDup]. Qed.
Lemma box_cons n sh z zs : In (z :: zs) (box (n :: sh)) <-> inside n z = true /\ In zs (box sh).
Proof.
  cbn [box]. rewrite in_flat_map, <- zrange_inside. split.
  - intros [y [Hy H]]. apply in_map_iff in H. destruct H as [ys [E H]]. inversion E; subst. auto.
  - intros [Hz H]. exists z. split; [assumption|]. apply in_map, H.
Qed.
Lemma box_length sh : forall zs, In zs (box sh) -> length zs = length sh.
Proof.
  induction sh as [|n sh IH]; intros zs H; [destruct H as [<-|[]]; reflexivity|].
  destruct zs as [|z zs]; [|apply box_cons in H; simpl; f_equal; apply IH, H].
  cbn [box] in H. apply in_flat_map in H. destruct H as [y [_ H]]. apply in_map_iff in H. destruct H as [ys [E _]]. discriminate.
Qed.
Lemma box_app s1 : forall s2 a b, length a = length s1 -> In (a ++ b) (box (s1 ++ s2)) <-> In a (box s1) /\ In b (box s2).
Proof.
  induction s1 as [|n s1 IH]; intros s2 [|z a] b L; try discriminate; cbn [app].
  - simpl. tauto.
  - rewrite !box_cons, IH by (simpl in L; lia). tauto.
Qed.

(** ** Lists without repetition *)
Lemma nodup_app_l {A} (a b : list A) : NoDup (a ++ b) -> NoDup a.
Proof.
  induction a as [|x a IH]; simpl; intros N; [constructor|]. inversion N; subst. constructor; [|auto].
  intros H. apply H1, in_or_app; auto.
Qed.
Lemma nodup_app_r {A} (a b : list A) : NoDup (a ++ b) -> NoDup b.
Proof. induction a as [|x a IH]; simpl; intros N; [assumption|]. inversion N; auto. Qed.
Lemma nodup_app_disj {A} (a b : list A) x : NoDup (a ++ b) -> In x a -> ~ In x b.
Proof.
  induction a as [|y a IH]; simpl; intros N H H'; [tauto|]. inversion N; subst.
  destruct H as [->|H]; [apply H2, in_or_app; auto|eapply IH; eauto].
Qed.
Lemma nodup_app {A} (a b : list A) : NoDup a -> NoDup b -> (forall x, In x a -> ~ In x b) -> NoDup (a ++ b).
Proof.
  induction a as [|x a IH]; simpl; intros Na Nb D; [assumption|]. inversion Na; subst. constructor.
  - intros H. apply in_app_or in H. destruct H; [contradiction|]. apply (D x); auto.
  - apply IH; auto.
Qed.
Lemma box_nodup sh : NoDup (box sh).
Proof.
  induction sh as [|n sh IH]; simpl; [repeat constructor; auto|].
  generalize (zrange_nodup n). induction (zrange n) as [|z l IHl]; simpl; intros N; [constructor|].
  inversion N; subst. apply nodup_app; auto.
  - apply Injective_map_NoDup; [intros a b; congruence|assumption].
  - intros y Hy Hy'. apply in_map_iff in Hy. destruct Hy as [a [<- _]]. apply in_flat_map in Hy'.
    destruct Hy' as [z' [Hz' Hy']]. apply in_map_iff in Hy'. destruct Hy' as [b [E _]]. congruence.
Qed.
Lemma zsum_box_app s1 s2 (f : list Z -> Z) :
  zsum (box (s1 ++ s2)) f = zsum (box s1) (fun a => zsum (box s2) (fun b => f (a ++ b))).
Proof.
  revert f. induction s1 as [|n s1 IH]; intros f; simpl; [rewrite Z.add_0_r; apply zsum_ext; reflexivity|].
  rewrite !zsum_flat_map. apply zsum_ext. intros z _. rewrite !zsum_map. apply (IH (fun l => f (z :: l))).
Qed.

Lemma existsb_map {A B} (g : A -> B) (f : B -> bool) l : existsb f (map g l) = existsb (fun a => f (g a)) l.
Proof. induction l; simpl; congruence. Qed.
Lemma existsb_ext {A} (f g : A -> bool) l : (forall a, In a l -> f a = g a) -> existsb f l = existsb g l.
Proof. induction l as [|a l IH]; simpl; intros H; [reflexivity|]. rewrite (H a), IH; auto. Qed.

(** ** Equality of tuples *)
Fixpoint leqb (a b : list Z) : bool :=
  match a, b with
  | [], [] => true | x :: a', y :: b' => (x =? y)%Z && leqb a' b' | _, _ => false
  end.
Lemma leqb_eq a : forall b, leqb a b = true <-> a = b.
Proof.
  induction a as [|x a IH]; intros [|y b]; simpl; split; intros H; try congruence; auto.
  - apply andb_true_iff in H. destruct H as [H1 H2]. apply Z.eqb_eq in H1. apply IH in H2. congruence.
  - inversion H; subst. rewrite Z.eqb_refl. apply IH. reflexivity.
Qed.
