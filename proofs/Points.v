(** Predicates over the indices of an array, and the numbers of their points. *)
Require Import List Bool ZArith Lia.
Import ListNotations.
Require Import TL.Sums.
Require Export TL.Boxes.

(** [any] is the true predicate *)
Notation pred := (index -> bool).
Definition any : pred := fun _ => true.
(** #p: the number of points of the box where p holds *)
Definition num (sh : shape) (p : pred) : Z := zsum (box sh) (fun i => b2z (p i)).
(** The same predicate. The extracted program keeps what it has found out about it. *)
Definition memo (p : pred) : pred := p.

Local Open Scope Z_scope.
Lemma num_nonneg sh p : 0 <= num sh p.
Proof. apply zsum_nonneg; intros; apply b2z_range. Qed.
Lemma num_le sh (p q : pred) : (forall i, p i = true -> q i = true) -> num sh p <= num sh q.
Proof.
  intros H. apply zsum_le. intros i _. specialize (H i). destruct (p i); [rewrite H by reflexivity|destruct (q i)]; cbn; lia.
Qed.
Lemma num_ext sh (p q : pred) : (forall i, In i (box sh) -> p i = q i) -> num sh p = num sh q.
Proof. intros H. apply zsum_ext. intros i Hi. now rewrite H. Qed.
Lemma num_any sh : num sh any = size sh.
Proof.
  unfold num, any, size. induction (box sh) as [|i l IH]; [reflexivity|].
  change (1 + zsum l (fun _ => b2z true) = Z.of_nat (S (length l))). rewrite IH. lia.
Qed.
Lemma num_swap {A} sh (l : list A) (p : A -> pred) :
  zsum l (fun a => num sh (p a)) = zsum (box sh) (fun i => zsum l (fun a => b2z (p a i))).
Proof. apply zsum_swap. Qed.
Lemma num_le_sum {A} sh (l : list A) (p : A -> pred) :
  num sh (fun i => existsb (fun a => p a i) l) <= zsum l (fun a => num sh (p a)).
Proof. rewrite num_swap. apply zsum_le. intros i _. apply zsum_existsb. Qed.

(** The heart of 6.26, 6.28 and 6.29. At each point of an array let n summands be added, and e say that there are
    any: then [P] * n <= [P] + n - [e]. *)
Lemma key sh (P : pred) (n : index -> Z) (e : pred) :
  (forall i, b2z (e i) <= n i) ->
  zsum (box sh) (fun i => b2z (P i) * n i) <= num sh P + zsum (box sh) n - num sh e.
Proof.
  intros H. unfold num. rewrite <- zsum_add, <- zsum_sub. apply zsum_le. intros i _.
  specialize (H i). pose proof (b2z_range (e i)). destruct (P i); cbn [b2z]; lia.
Qed.
