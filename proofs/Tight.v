(** Repeated squaring attains the bounds, and the premises of the theorems can be met: by computation over Z. *)
Require Import List Bool ZArith Lia.
Import ListNotations.
Require Import TL.Sums TL.SSA TL.Adjoint TL.Accounts TL.Bound TL.Storage.

Definition noDT (f : Empty_set) (j : nat) : Empty_set := f.
Definition nocost (f : Empty_set) : Z := match f with end.
Definition x0 := Var 0 [].
(** z := z*z, k times *)
Fixpoint squares (k : nat) : prog Z Empty_set :=
  match k with
  | O => [([], Input x0)]
  | S k' => ([], C2 [] (fun _ _ _ _ => true) (Var k' []) (Var k' [])) :: squares k'
  end.
Definition squares_adjoint (k : nat) : prog Z Empty_set * list ip := adjoint noDT (squares k) [Var k []] [Var 1000 []] [x0].
(** (B) and Theorem 6.35 hold with equality *)
Example squares_cost : forall k, In k [1; 2; 3; 5; 8]%nat ->
  let (t, grads) := squares_adjoint k in (cost nocost t + ipcost grads = 4 * cost nocost (squares k) + 1)%Z.
Proof. intros k H. repeat (destruct H as [<-|H]; [vm_compute; reflexivity|]). destruct H. Qed.
(** (R) holds with equality but for the size of the output *)
Example squares_touch : forall k, In k [1; 2; 3; 5; 8]%nat ->
  touch nocost none (fst (squares_adjoint k)) = (5 * touch nocost none (squares k))%Z.
Proof. intros k H. repeat (destruct H as [<-|H]; [vm_compute; reflexivity|]). destruct H. Qed.
Example squares_wf : forall k, In k [0; 1; 2; 5]%nat -> wf (squares k) /\ good_outs (squares k) [Var k []] [Var 1000 []].
Proof.
  intros k H.
  repeat (destruct H as [<-|H];
    [split; [cbn; repeat split; intros x Hx; cbn in *; intuition auto|split; [reflexivity|intros x [<-|[]]; left; reflexivity]]|]).
  destruct H.
Qed.
