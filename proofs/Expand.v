(** Functions taken apart: a map of a function that is an expression of others is as good as statements for these. So
    the adjoint, whose maps are of components of D^T f (6.27), becomes a program of the functions that the table has, of
    the same value and cost, and may be differentiated again. *)
Require Import List Bool ZArith Ring Lia.
Import ListNotations.
Require Import TL.Sums TL.SSA TL.Adjoint TL.Compile.

Inductive term (K fn : Type) :=
| TArg (k : nat) | TConst (c : K) | TSum (minus : bool) (a b : term K fn) | TTimes (a b : term K fn) | TCall (f : fn) (l : list (term K fn)).
Arguments TArg {K fn}. Arguments TConst {K fn}. Arguments TSum {K fn}. Arguments TTimes {K fn}. Arguments TCall {K fn}.

Section Expand.
  Context {K : Type} (rO rI : K) (radd rmul rsub : K -> K -> K) (ropp : K -> K).
  Hypothesis Rth : ring_theory rO rI radd rmul rsub ropp eq.
  Add Ring ExpandRing : Rth.
  Context {fn : Type} (fval : fn -> list K -> K) (fcost : fn -> Z).
  Notation prog := (SSA.prog K fn). Notation rhs := (SSA.rhs K fn). Notation term := (term K fn).
  Notation eval := (SSA.eval rO radd rmul ropp fval). Notation solves := (SSA.solves rO radd rmul ropp fval).
  Notation run := (SSA.run rO radd rmul ropp fval). Notation env := (SSA.env (K := K)).
  Notation cost1 := (SSA.cost1 (K := K) fcost). Notation cost := (SSA.cost (K := K) fcost).
  Notation extends_solves := (SSA.extends_solves rO radd rmul ropp fval).
  Implicit Types (e : term) (Q : fn -> nat -> Prop).

  Fixpoint tval (xs : list K) e : K :=
    match e with
    | TArg k => nth k xs rO | TConst c => c
    | TSum m a b => radd (tval xs a) (signed ropp m (tval xs b)) | TTimes a b => rmul (tval xs a) (tval xs b)
    | TCall f l => fval f (map (tval xs) l)
    end.
  Fixpoint tcost e : Z :=
    match e with
    | TArg _ | TConst _ => 0 | TSum _ a b | TTimes a b => 1 + tcost a + tcost b
    | TCall f l => fcost f + fold_right Z.add 0 (map tcost l)
    end%Z.
  (** e has n arguments, and Q holds of the functions in it and their numbers of arguments *)
  Fixpoint scoped (Q : fn -> nat -> Prop) (n : nat) e : Prop :=
    match e with
    | TArg k => k < n | TConst _ => True | TSum _ a b | TTimes a b => scoped Q n a /\ scoped Q n b
    | TCall f l => Q f (length l) /\ (fix all l := match l with [] => True | a :: l' => scoped Q n a /\ all l' end) l
    end.
  Lemma term_ind2 (P : term -> Prop) : (forall k, P (TArg k)) -> (forall c, P (TConst c)) ->
    (forall m a b, P a -> P b -> P (TSum m a b)) -> (forall a b, P a -> P b -> P (TTimes a b)) ->
    (forall f l, Forall P l -> P (TCall f l)) -> forall e, P e.
  Proof.
    intros H0 H1 H2 H3 H4. fix IH 1. intros [k|c|m a b|a b|f l]; [apply H0|apply H1|apply H2; apply IH|apply H3; apply IH|].
    apply H4. induction l as [|a l IHl]; constructor; [apply IH|exact IHl].
  Qed.

  (** * Statements for an expression, at the points p of the shape sh *)
  Section Unfold.
    Variables (sh : shape) (p : pred) (xs : list var).
    Fixpoint unfolded (u : prog) e : prog * var :=
      match e with
      | TArg k => (u, nth k xs (Var 0 []))
      | TConst c => ((sh, Const c) :: u, Var (length u) sh)
      | TSum m a b =>
          let (u1, A) := unfolded u a in let (u2, B) := unfolded u1 b in
          ((sh, Add [Term false p A; Term m p B]) :: u2, Var (length u2) sh)
      | TTimes a b =>
          let (u1, A) := unfolded u a in let (u2, B) := unfolded u1 b in ((sh, times p A B) :: u2, Var (length u2) sh)
      | TCall f l =>
          let (u1, As) := (fix chain (u : prog) (l : list term) : prog * list var :=
            match l with
            | [] => (u, [])
            | a :: l' => let (u1, A) := unfolded u a in let (u2, As) := chain u1 l' in (u2, A :: As)
            end) u l in
          ((sh, Map p f As) :: u1, Var (length u1) sh)
      end.
    Definition maps_ok (Q : fn -> nat -> Prop) (u : prog) : Prop := forall s q f ys, In (s, Map q f ys) u -> Q f (length ys).
    Definition held_at (u : prog) (v : var) : Prop := shp v = sh /\ In v (declared u).
    Lemma held_at_extends u u' v : extends u u' -> held_at u v -> held_at u' v.
    Proof. intros X [S D]. split; [exact S|]. eapply extends_declared; eassumption. Qed.
    (** what holds after statements for e have been added to u, whose value is in v *)
    Definition good (Q : fn -> nat -> Prop) (u u' : prog) (c : Z) : Prop :=
      wf u' /\ extends u u' /\ cost u' = (cost u + num sh p * c)%Z /\ (maps_ok Q u -> maps_ok Q u').
    Lemma good_trans Q u u1 u2 c d : good Q u u1 c -> good Q u1 u2 d -> good Q u u2 (c + d).
    Proof.
      intros [W1 [X1 [C1 M1]]] [W2 [X2 [C2 M2]]]. split; [exact W2|]. split; [eapply extends_trans; eassumption|].
      split; [rewrite C2, C1; ring|auto].
    Qed.
    Lemma good_statement Q u r c : wf u -> (forall v, In v (ops r) -> held_at u v) -> pointwise sh r -> cost1 (sh, r) = (num sh p * c)%Z ->
      (forall q f ys, r = Map q f ys -> Q f (length ys)) -> good Q u ((sh, r) :: u) c /\ held_at ((sh, r) :: u) (Var (length u) sh).
    Proof.
      intros W O P C M. split; [|split; [reflexivity|left; reflexivity]]. split; [cbn; repeat split; auto; intros v Hv; apply O, Hv|].
      split; [apply extends_cons|]. split; [unfold SSA.cost; cbn [zsum]; rewrite C; ring|].
      intros H s q f ys [E|E]; [inversion E; subst; eapply M; reflexivity|eapply H, E].
    Qed.
    Definition sound_at Q e : Prop := forall u u' v, unfolded u e = (u', v) -> wf u -> (forall x, In x xs -> held_at u x) ->
      scoped Q (length xs) e ->
      good Q u u' (tcost e) /\ held_at u' v
      /\ forall inp E, solves inp E u' -> forall i, In i (box sh) -> p i = true -> E v i = tval (map (fun x => E x i) xs) e.
    Lemma two_at Q a b u u1 A u2 B : sound_at Q a -> sound_at Q b -> unfolded u a = (u1, A) -> unfolded u1 b = (u2, B) -> wf u ->
      (forall x, In x xs -> held_at u x) -> scoped Q (length xs) a -> scoped Q (length xs) b ->
      good Q u u2 (tcost a + tcost b) /\ held_at u2 A /\ held_at u2 B
      /\ forall inp E, solves inp E u2 -> forall i, In i (box sh) -> p i = true ->
         E A i = tval (map (fun x => E x i) xs) a /\ E B i = tval (map (fun x => E x i) xs) b.
    Proof.
      intros Ha Hb Ea Eb W Hx Sa Sb. destruct (Ha _ _ _ Ea W Hx Sa) as [G1 [H1 V1]].
      destruct (Hb _ _ _ Eb (proj1 G1) (fun x h => held_at_extends _ _ _ (proj1 (proj2 G1)) (Hx x h)) Sb) as [G2 [H2 V2]].
      split; [eapply good_trans; eassumption|]. pose proof (proj1 (proj2 G2)) as X2.
      split; [eapply held_at_extends; eassumption|]. split; [exact H2|]. intros inp E So i Hi Pi.
      split; [apply (V1 inp E (extends_solves _ _ _ _ X2 So) i Hi Pi)|apply (V2 inp E So i Hi Pi)].
    Qed.
    Lemma unfolded_sound Q e : sound_at Q e.
    Proof.
      induction e as [k|c|m a b IHa IHb|a b IHa IHb|f l IH] using term_ind2; intros u u' v H W Hx S; cbn [unfolded scoped tcost] in *.
      - inversion H; subst. assert (Hv : In (nth k xs (Var 0 [])) xs) by (apply nth_In, S).
        split; [split; [exact W|]; split; [apply extends_refl|]; split; [ring|auto]|]. split; [apply Hx, Hv|].
        intros inp E _ i _ _. cbn [tval]. rewrite (nth_indep _ rO (E (Var 0 []) i)) by (rewrite map_length; exact S).
        symmetry. exact (map_nth (fun x => E x i) xs (Var 0 []) k).
      - inversion H; subst. destruct (good_statement Q u (Const c) 0 W) as [G D]; try (cbn; auto; fail); [intros v []|cbn; ring|discriminate|].
        split; [exact G|]. split; [exact D|]. intros inp E [HE _] i Hi _. now rewrite HE.
      - destruct (unfolded u a) as [u1 A] eqn:Ea. destruct (unfolded u1 b) as [u2 B] eqn:Eb. inversion H; subst; clear H.
        destruct (two_at Q a b u u1 A u2 B IHa IHb Ea Eb W Hx (proj1 S) (proj2 S)) as [G [HA [HB V]]].
        destruct (good_statement Q u2 (Add [Term false p A; Term m p B]) 1 (proj1 G)) as [G' D].
        + intros v [<-|[<-|[]]]; assumption.
        + intros v [<-|[<-|[]]]; [apply HA|apply HB].
        + destruct m; [rewrite cost_subtract|rewrite cost_add2, (num_ext sh _ p) by (intros; apply andb_diag)]; ring.
        + discriminate.
        + split; [replace (1 + tcost a + tcost b)%Z with (tcost a + tcost b + 1)%Z by ring; eapply good_trans; eassumption|].
          split; [exact D|]. intros inp E [HE So] i Hi Pi. destruct (V inp E So i Hi Pi) as [VA VB]. rewrite HE by exact Hi.
          cbn [SSA.eval Sums.sum bracket SSA.minus operand signed tval]. rewrite Pi, <- VA, <- VB. cbn [Sums.ind]. destruct m; cbn; ring.
      - destruct (unfolded u a) as [u1 A] eqn:Ea. destruct (unfolded u1 b) as [u2 B] eqn:Eb. inversion H; subst; clear H.
        destruct (two_at Q a b u u1 A u2 B IHa IHb Ea Eb W Hx (proj1 S) (proj2 S)) as [G [HA [HB V]]].
        destruct (good_statement Q u2 (times p A B) 1 (proj1 G)) as [G' D].
        + intros v [<-|[<-|[]]]; assumption.
        + exact I.
        + rewrite (times_cost fcost sh) by (apply HA || apply HB). ring.
        + discriminate.
        + split; [replace (1 + tcost a + tcost b)%Z with (tcost a + tcost b + 1)%Z by ring; eapply good_trans; eassumption|].
          split; [exact D|]. intros inp E [HE So] i Hi Pi. destruct (V inp E So i Hi Pi) as [VA VB]. rewrite HE by exact Hi.
          rewrite (times_value rO rI radd rmul rsub ropp Rth fval inp E sh p A B i (proj1 HA) (proj1 HB) Hi Pi). cbn [tval]. now rewrite VA, VB.
      - set (chain := fix chain (u : prog) (l : list term) : prog * list var :=
            match l with
            | [] => (u, [])
            | a :: l' => let (u1, A) := unfolded u a in let (u2, As) := chain u1 l' in (u2, A :: As)
            end) in *.
        destruct (chain u l) as [u1 As] eqn:El. inversion H; subst; clear H. destruct S as [Qf S].
        assert (L : good Q u u1 (fold_right Z.add 0%Z (map tcost l)) /\ (forall v, In v As -> held_at u1 v) /\ length As = length l
          /\ forall inp E, solves inp E u1 -> forall i, In i (box sh) -> p i = true ->
             map (fun v => E v i) As = map (tval (map (fun x => E x i) xs)) l).
        { clear Qf f. revert u u1 As El W Hx S. induction IH as [|a l Ha Hl IHl]; intros u u1 As El W Hx S; cbn [chain] in El.
          - inversion El; subst. split; [split; [exact W|]; split; [apply extends_refl|]; split; [cbn; ring|auto]|].
            split; [intros v []|]. split; [reflexivity|]. reflexivity.
          - destruct (unfolded u a) as [u0 A] eqn:Ea. fold chain in El. destruct (chain u0 l) as [u2 Bs] eqn:Eb. inversion El; subst; clear El.
            destruct S as [Sa S]. destruct (Ha _ _ _ Ea W Hx Sa) as [G1 [H1 V1]].
            destruct (IHl _ _ _ Eb (proj1 G1) (fun x h => held_at_extends _ _ _ (proj1 (proj2 G1)) (Hx x h)) S) as [G2 [H2 [L2 V2]]].
            pose proof (proj1 (proj2 G2)) as X2. split; [eapply good_trans; eassumption|].
            split; [intros v [<-|Hv]; [eapply held_at_extends; eassumption|auto]|]. split; [cbn; congruence|].
            intros inp E So i Hi Pi. cbn [map]. rewrite (V2 inp E So i Hi Pi). f_equal. apply (V1 inp E (extends_solves _ _ _ _ X2 So) i Hi Pi). }
        destruct L as [G [HA [LA V]]].
        destruct (good_statement Q u1 (Map p f As) (fcost f) (proj1 G)) as [G' D].
        + exact HA.
        + intros v Hv. apply HA, Hv.
        + reflexivity.
        + intros q g ys E. inversion E; subst. now rewrite LA.
        + split; [rewrite Z.add_comm; eapply good_trans; eassumption|]. split; [exact D|].
          intros inp E [HE So] i Hi Pi. rewrite HE by exact Hi. cbn [SSA.eval tval]. now rewrite Pi, (V inp E So i Hi Pi).
    Qed.
  End Unfold.

  (** * All statements; variables move *)
  Variable body : fn -> option term.
  Definition moved (h : var -> var) (r : rhs) : rhs :=
    match r with
    | Input y => Input y | Const c => Const c
    | Add l => Add (map (fun t => Term (minus t) (bracket t) (h (operand t))) l)
    | Map p f xs => Map p f (map h xs) | C1 s p x => C1 s p (h x) | C2 s p x y => C2 s p (h x) (h y) | Choice p x => Choice p (h x)
    end.
  Definition put (u : prog) (h : var -> var) (sh : shape) (r : rhs) : prog * var :=
    match r with
    | Map p f xs =>
        match body f with
        | Some e => let (u1, y) := unfolded sh p (map h xs) u e in ((sh, Add [Term false p y]) :: u1, Var (length u1) sh)
        | None => ((sh, moved h r) :: u, Var (length u) sh)
        end
    | _ => ((sh, moved h r) :: u, Var (length u) sh)
    end.
  Fixpoint expand (t : prog) : prog * (var -> var) :=
    match t with
    | [] => ([], fun v => v)
    | (sh, r) :: t' =>
        let (u, h) := expand t' in let (u', y) := put u h sh r in (u', fun v => if var_eqb v (Var (length t') sh) then y else h v)
    end.

  (** functions that are expressions: these have the value and the cost of the function *)
  Definition opened (Q : fn -> nat -> Prop) (f : fn) (n : nat) : Prop :=
    match body f with
    | None => Q f n
    | Some e => scoped Q n e /\ fcost f = tcost e /\ forall xs, length xs = n -> fval f xs = tval xs e
    end.
  Lemma moved_eval inp E h r i : (forall x, In x (ops r) -> shp (h x) = shp x) -> eval inp E (moved h r) i = eval inp (fun v => E (h v)) r i.
  Proof.
    intros H. destruct r; cbn [SSA.eval moved ops] in *; try reflexivity.
    - rewrite sum_map. reflexivity.
    - now rewrite map_map.
    - unfold sum1. rewrite H by (left; reflexivity). reflexivity.
    - unfold sum2. rewrite !H by (cbn; auto). reflexivity.
  Qed.
  Lemma moved_ops h r : ops (moved h r) = map h (ops r).
  Proof. destruct r; cbn; try reflexivity. now rewrite !map_map. Qed.
  Lemma moved_cost sh h r : (forall x, In x (ops r) -> shp (h x) = shp x) -> cost1 (sh, moved h r) = cost1 (sh, r).
  Proof.
    intros H. destruct r; cbn [SSA.cost1 moved ops] in *; try reflexivity.
    - rewrite zsum_map. f_equal. apply num_ext. intros i _. unfold positive. apply existsb_map.
    - unfold cnt1, ex1. now rewrite H by (left; reflexivity).
    - unfold cnt2, ex2. now rewrite !H by (cbn; auto).
    - now rewrite H by (left; reflexivity).
  Qed.
  Definition carried (D : list var) (u : prog) (h : var -> var) : Prop := forall x, In x D -> shp (h x) = shp x /\ In (h x) (declared u).
  Lemma put_sound Q u h sh r D u' y : put u h sh r = (u', y) -> wf u -> carried D u h -> incl (ops r) D -> pointwise sh r ->
    (forall p f xs, r = Map p f xs -> opened Q f (length xs)) ->
    wf u' /\ extends u u' /\ shp y = sh /\ In y (declared u') /\ cost u' = (cost u + cost1 (sh, r))%Z /\ (maps_ok Q u -> maps_ok Q u')
    /\ forall inp E, solves inp E u' -> forall i, In i (box sh) -> E y i = eval inp (fun v => E (h v)) r i.
  Proof.
    intros H W C IO Pw Op.
    assert (Plain : (forall p f xs, r = Map p f xs -> Q f (length xs)) -> (u', y) = ((sh, moved h r) :: u, Var (length u) sh) ->
      wf u' /\ extends u u' /\ shp y = sh /\ In y (declared u') /\ cost u' = (cost u + cost1 (sh, r))%Z /\ (maps_ok Q u -> maps_ok Q u')
      /\ forall inp E, solves inp E u' -> forall i, In i (box sh) -> E y i = eval inp (fun v => E (h v)) r i).
    { intros Qr E. inversion E; subst; clear E H. assert (SH : forall x, In x (ops r) -> shp (h x) = shp x) by (intros x Hx; apply C, IO, Hx).
      split; [|split; [apply extends_cons|split; [reflexivity|split; [left; reflexivity|split; [|split]]]]].
      - cbn [wf]. rewrite moved_ops. split; [intros v Hv; apply in_map_iff in Hv; destruct Hv as [x [<- Hx]]; apply C, IO, Hx|].
        split; [|exact W]. destruct r; cbn [pointwise moved ops] in *; auto; intros v Hv; rewrite ?map_map in Hv; apply in_map_iff in Hv;
        destruct Hv as [x' [<- Hx]]; cbn [operand].
        + rewrite SH by (apply in_map, Hx). apply Pw, in_map, Hx.
        + rewrite SH by exact Hx. apply Pw, Hx.
      - unfold SSA.cost. cbn [zsum]. rewrite moved_cost by exact SH. ring.
      - intros M s q f ys [E|E]; [|eapply M, E]. destruct r; inversion E; subst. rewrite map_length. eapply Qr. reflexivity.
      - intros inp E [HE _] i Hi. rewrite HE by exact Hi. apply moved_eval, SH. }
    destruct r; try (apply Plain; [discriminate|symmetry; exact H]; fail). cbn [put] in H. specialize (Op p f xs eq_refl). unfold opened in Op.
    destruct (body f) as [e|]; [|apply Plain; [intros q g ys E; inversion E; subst; exact Op|symmetry; exact H]].
    destruct Op as [Sc [Fc Fv]]. destruct (unfolded sh p (map h xs) u e) as [u1 v] eqn:Eu. inversion H; subst; clear H Plain. cbn [ops pointwise] in *.
    destruct (unfolded_sound sh p (map h xs) Q e u u1 v Eu W) as [G [Hv V]].
    { intros x Hx. apply in_map_iff in Hx. destruct Hx as [x' [<- Hx]]. destruct (C x' (IO x' Hx)) as [S I]. split; [rewrite S; auto|exact I]. }
    { now rewrite map_length. }
    destruct (good_statement sh p Q u1 (Add [Term false p v]) 0 (proj1 G)) as [G' Dy];
      [intros x [<-|[]]; exact Hv|intros x [<-|[]]; apply Hv|rewrite cost_copy; ring|discriminate|].
    destruct (good_trans _ _ _ _ _ _ _ _ G G') as [W' [X' [C' M']]].
    split; [exact W'|]. split; [exact X'|]. split; [reflexivity|]. split; [apply Dy|].
    split; [rewrite C'; cbn [SSA.cost1]; rewrite Fc; ring|]. split; [exact M'|].
    intros inp E [HE So] i Hi. rewrite HE by exact Hi. cbn [SSA.eval Sums.sum bracket minus operand signed].
    destruct (p i) eqn:Pi; cbn [Sums.ind]; [|ring]. rewrite (V inp E So i Hi Pi), map_map, Fv by apply map_length. ring.
  Qed.
  (** the same value and cost, and maps of functions that are not taken apart *)
  Theorem expand_sound Q : forall t u h, expand t = (u, h) -> wf t -> maps_ok (opened Q) t ->
    wf u /\ carried (declared t) u h /\ cost u = cost t /\ maps_ok Q u
    /\ forall inp E, solves inp E u -> solves inp (fun v => E (h v)) t.
  Proof.
    induction t as [|[sh r] t IH]; cbn [expand]; intros u h H W Op.
    - inversion H; subst. split; [exact I|]. split; [intros x []|]. split; [reflexivity|]. split; [intros s q f ys []|auto].
    - cbn [wf] in W. destruct W as [HD [Wp W]]. destruct (expand t) as [u0 h0] eqn:E0. destruct (put u0 h0 sh r) as [u1 y] eqn:Ep.
      inversion H; subst; clear H.
      destruct (IH _ _ eq_refl W (fun s q f ys Hs => Op s q f ys (or_intror Hs))) as [W0 [C0 [K0 [M0 S0]]]].
      destruct (put_sound Q u0 h0 sh r _ u y Ep W0 C0 HD Wp) as [W1 [X1 [Sy [Dy [K1 [M1 V1]]]]]].
      { intros p f xs ->. eapply Op. left. reflexivity. }
      split; [exact W1|]. split; [|split; [unfold SSA.cost in *; cbn [zsum]; rewrite K1, K0; ring|split; [auto|]]].
      + intros x [<-|Hx]; [rewrite var_eqb_refl; auto|]. rewrite (fresh_neq sh t x Hx). destruct (C0 x Hx) as [S D].
        split; [exact S|]. eapply extends_declared; eassumption.
      + intros inp E So. pose proof (S0 inp E (extends_solves inp E _ _ X1 So)) as St.
        assert (A : SSA.agree (declared t) (fun v => E (h0 v)) (fun v => E (if var_eqb v (Var (length t) sh) then y else h0 v)))
          by (intros x Hx i _; now rewrite (fresh_neq sh t x Hx)).
        cbn [SSA.solves]. split.
        * intros i Hi. rewrite var_eqb_refl, (V1 inp E So i Hi). apply (eval_ext rO radd rmul ropp fval inp _ _ sh); auto.
          intros x Hx. apply A, HD, Hx.
        * apply (solves_ext rO radd rmul ropp fval inp (fun v => E (h0 v))); auto.
  Qed.
  Theorem expand_run Q t u h inp : expand t = (u, h) -> wf t -> maps_ok (opened Q) t ->
    forall x, In x (declared t) -> forall i, In i (box (shp x)) -> run inp u (h x) i = run inp t x i.
  Proof.
    intros H W Op. destruct (expand_sound Q t u h H W Op) as [Wu [_ [_ [_ S]]]].
    pose proof (S inp _ (run_solves rO radd rmul ropp fval inp u Wu)) as So.
    exact (solves_unique rO radd rmul ropp fval inp _ _ t W So (run_solves rO radd rmul ropp fval inp t W)).
  Qed.
End Expand.

(** * The maps of an adjoint: those of the program, and of the components of their transposed derivatives *)
Section AdjointMaps.
  Context {K fn : Type} (DT : fn -> nat -> fn).
  Notation prog := (SSA.prog K fn).
  Variable Q : fn -> nat -> Prop.
  Definition or_component (f : fn) (n : nat) : Prop :=
    Q f n \/ exists g j m, Q g m /\ j < m /\ f = DT g j /\ n = m + 2.
  Notation good u := (maps_ok (K := K) or_component u).
  Lemma good_cons sh (r : SSA.rhs K fn) u : good u -> (forall p f xs, r = Map p f xs -> or_component f (length xs)) -> good ((sh, r) :: u).
  Proof. intros H N s q f ys [E|E]; [inversion E; subst; eapply N; reflexivity|eapply H, E]. Qed.
  Lemma emit_maps t sh (em : emission K fn) t' v : emit t sh em = (t', v) -> good t ->
    (forall p f xs, em = Emit (Map p f xs) -> or_component f (length xs)) -> good t'.
  Proof.
    destruct em as [y|r]; cbn [emit]; intros H G N; inversion H; subst; [exact G|]. apply good_cons; [exact G|].
    intros p f xs ->. eapply N. reflexivity.
  Qed.
  Lemma emits_maps (cs : list (contribution K fn)) : forall t t' l, emits t cs = (t', l) -> good t ->
    (forall c p f xs, In c cs -> what c = Emit (Map p f xs) -> or_component f (length xs)) -> good t'.
  Proof.
    induction cs as [|c cs IH]; cbn [emits]; intros t t' l H G N; [inversion H; subst; exact G|].
    destruct (emit t _ _) as [t1 e] eqn:E1. destruct (emits t1 cs) as [t2 l2] eqn:E2. inversion H; subst.
    apply (IH _ _ _ E2); [|intros; eapply N; [right|]; eassumption].
    apply (emit_maps _ _ _ _ _ E1 G). intros p f xs E. eapply N; [left; reflexivity|exact E].
  Qed.
  Lemma rule_maps x (r : SSA.rhs K fn) dY P : (forall p f xs, r = Map p f xs -> Q f (length xs)) ->
    forall c p f xs, In c (rule DT x r dY P) -> what c = Emit (Map p f xs) -> or_component f (length xs).
  Proof.
    intros Hr c q g zs Hc Hw. destruct r; cbn [rule] in Hc; try (destruct Hc; fail).
    - apply in_map_iff in Hc. destruct Hc as [t [<- _]]. discriminate.
    - specialize (Hr p f xs eq_refl). assert (A : forall ys j, j + length ys = length xs ->
        In c (rule_6_27 DT x p f xs j ys dY P) -> or_component g (length zs)); [|apply (A xs 0); [reflexivity|exact Hc]].
      induction ys as [|y ys IH]; cbn [rule_6_27 length]; intros j L H; [destruct H|]. destruct H as [<-|H]; [|apply (IH (S j)); [lia|exact H]].
      cbn [what] in Hw. inversion Hw; subst. right. exists f, j, (length xs). rewrite app_length. cbn. repeat split; [exact Hr|lia].
    - destruct Hc as [<-|[]]. discriminate.
    - destruct Hc as [<-|[<-|[]]]; discriminate.
  Qed.
  Lemma turn_maps act x (r : SSA.rhs K fn) t m t' new : turn DT act x r t m = (t', new) -> good t ->
    (forall p f xs, r = Map p f xs -> Q f (length xs)) -> good t'.
  Proof.
    unfold turn. intros H G Hr. destruct m as [|c m]; [inversion H; subst; exact G|].
    destruct (rule_6_25 (c :: m)) as [em P] eqn:E. destruct (emit t (shp x) em) as [t1 dY] eqn:E1.
    apply (emits_maps _ _ _ _ H); [|intros c' p f xs Hc; apply filter_In in Hc; apply (rule_maps x r dY (memo P) Hr), Hc].
    apply (emit_maps _ _ _ _ _ E1 G). intros p f xs ->. exfalso. unfold rule_6_25 in E.
    destruct m as [|c' m]; [destruct (neg c)|]; inversion E.
  Qed.
  Lemma bwd_maps act : forall (ss t : prog) l gl t' gl', bwd DT act ss t l gl = (t', gl') -> good t -> maps_ok Q ss -> good t'.
  Proof.
    induction ss as [|[sh r] ss IH]; cbn [bwd]; intros t l gl t' gl' H G M; [inversion H; subst; exact G|].
    assert (M' : maps_ok Q ss) by (intros s q f ys Hs; apply (M s q f ys); right; exact Hs).
    destruct (source r); [eapply IH; eassumption|]. destruct (turn DT act _ r t _) as [t1 new] eqn:Et.
    apply (IH _ _ _ _ _ H); [|exact M']. apply (turn_maps _ _ _ _ _ _ _ Et G). intros p f xs ->. eapply M. left. reflexivity.
  Qed.
  Theorem adjoint_maps S outs dys leaves t grads : adjoint DT S outs dys leaves = (t, grads) -> maps_ok Q S -> good t.
  Proof.
    unfold adjoint, adjoint_for. intros H M. destruct (emits S _) as [t0 l] eqn:E0. destruct (bwd DT _ S t0 l []) as [t1 gl] eqn:E1.
    assert (G0 : good t0).
    { apply (emits_maps _ _ _ _ E0).
      - intros s q f ys Hs. left. eapply M, Hs.
      - intros c p f xs Hc Hw. apply filter_In in Hc. destruct Hc as [Hc _]. apply in_map_iff in Hc. destruct Hc as [xy [<- _]]. discriminate. }
    apply (emits_maps _ _ _ _ H); [exact (bwd_maps _ _ _ _ _ _ _ E1 G0 M)|].
    intros c p f xs Hc Hw. apply in_map_iff in Hc. destruct Hc as [y [<- _]]. discriminate.
  Qed.
End AdjointMaps.
