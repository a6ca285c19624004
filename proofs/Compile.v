(** From the language to tensor SSA, in one step. Sound.v has the theorem: every well-typed expression whose accesses are
    in bounds has a list of statements of the same value and the same cost; here is the translation, and what each kind of
    statement means and costs.

    The rules of Figures 7 to 12 take many steps to it, and need names for what is bound. Here an expression is
    translated for all points of the gens and sums around it at once, and a variable is a tree of arrays over those
    points, a leaf for each component of a pair. So gens, pairs, projections and lets make no statement; accesses and
    brackets make one that costs nothing. *)
Require Import String List Bool ZArith Ring Lia Arith.
Import ListNotations.
Require Import TL.Sums TL.Boxes TL.SSA TL.Core TL.Choice TL.Typing.
Open Scope list_scope.

Section Compile.
  Context {K : Type} (rO rI : K) (radd rmul rsub : K -> K -> K) (ropp : K -> K).
  Hypothesis Rth : ring_theory rO rI radd rmul rsub ropp eq.
  Add Ring CompileRing : Rth.
  Context {fn : Type} (fval : fn -> list K -> K) (fcost : fn -> Z) (takes : fn -> nat -> Prop) (R : data).
  Notation expr := (@Core.expr K fn).
  Notation prog := (SSA.prog K fn). Notation rhs := (SSA.rhs K fn).
  Notation sum := (Sums.sum rO radd). Notation ind := (Sums.ind rO).
  Notation value := (Core.eval rO radd rmul rsub fval R).
  Notation ecost := (Core.cost (K := K) fcost R).
  Notation live := (Core.live (K := K) (fn := fn) R). Notation reach := (Core.reach (K := K) (fn := fn) R).
  Notation eval := (SSA.eval rO radd rmul ropp fval). Notation solves := (SSA.solves rO radd rmul ropp fval).
  Notation cost1 := (SSA.cost1 (K := K) fcost). Notation cost := (SSA.cost (K := K) fcost).
  Notation env := (SSA.env (K := K)).

  (** * The translation *)
  Fixpoint emit_tree (f : var -> shape * rhs) (t : prog) (tr : tree var) : prog * tree var :=
    match tr with
    | Leaf x => (f x :: t, Leaf (Var (List.length t) (fst (f x))))
    | Both l r => let (t1, l') := emit_tree f t l in let (t2, r') := emit_tree f t1 r in (t2, Both l' r')
    end.
  Definition emit1 (t : prog) (sh : shape) (r : rhs) : prog * tree var := ((sh, r) :: t, Leaf (Var (List.length t) sh)).
  Definition reindex (h : index -> index) (x : var) : rhs := C1 [] (fun o i _ => leqb (h o) i) x.
  (** the array of a number at each point, and the parts of a pair *)
  Definition scal (tr : tree var) : var := match tr with Leaf x => x | Both _ _ => Var 0 [] end.
  Definition left (tr : tree var) : tree var := match tr with Both l _ => l | _ => tr end.
  Definition right (tr : tree var) : tree var := match tr with Both _ r => r | _ => tr end.

  Section Points.
    (** G: the sizes of the gens and sums around an expression; s: the values of the indices at each of its points;
        m: the points at which it is evaluated *)
    Variables (G : shape) (s : index -> ienv) (m : pred).
    Notation k := (List.length G).
    Definition inner_s (i : ix) : index -> ienv := fun g => upd (s (firstn k g)) i (nth k g 0%Z).
    Definition inner_m : pred := fun g => m (firstn k g).
    (** an array over the first j indices, over all of them; an element of an array; a bracket *)
    Definition spread (j : nat) (x : var) : shape * rhs :=
      (G ++ skipn j (shp x), reindex (fun o => firstn j o ++ skipn k o) x).
    Definition element (a : aff) (x : var) : shape * rhs :=
      (G ++ skipn (S k) (shp x), reindex (fun o => firstn k o ++ aval R (s (firstn k o)) a :: skipn k o) x).
    Definition masked (p : prd) (x : var) : shape * rhs :=
      (shp x, Add [Term false (fun o => pval R (s (firstn k o)) p) x]).
    Definition sum_of (live : pred) (a : var) (minus : bool) (live' : pred) (b : var) : rhs :=
      Add [Term false (fun o => m o && live o) a; Term minus (fun o => m o && live' o) b].
    Definition times (a b : var) : rhs := C2 [] (fun o i j _ => m o && (leqb o i && leqb o j)) a b.
    Definition total (reached : pred) (a : var) : rhs := C1 [] (fun o j _ => m o && leqb o (firstn k j) && reached j) a.
  End Points.

  Definition chain (f : prog -> expr -> prog * tree var) : prog -> list expr -> prog * list var :=
    fix chain (t : prog) (l : list expr) : prog * list var :=
      match l with
      | [] => (t, [])
      | a :: l' => let (t1, A) := f t a in let (t2, xs) := chain t1 l' in (t2, scal A :: xs)
      end.
  (** what variables are: over how many indices, and where *)
  Definition places := string -> nat * tree var.
  (** t with statements for e, and its value: e is below gens and sums of the sizes G, the indices have the values s, and
      it is evaluated at the points m *)
  Fixpoint comp (v : places) (G : shape) (s : index -> ienv) (m : pred) (t : prog) (e : expr) : prog * tree var :=
    match e with
    | EVar x => emit_tree (spread G (fst (v x))) t (snd (v x))
    | ECst c => emit1 t G (Const c)
    | EAdd a b =>
        let (t1, A) := comp v G s m t a in let (t2, B) := comp v G s m t1 b in
        emit1 t2 G (sum_of m (fun o => live (s o) a) (scal A) false (fun o => live (s o) b) (scal B))
    | ESub a b =>
        let (t1, A) := comp v G s m t a in let (t2, B) := comp v G s m t1 b in
        emit1 t2 G (sum_of m (fun o => live (s o) a) (scal A) true (fun o => live (s o) b) (scal B))
    | EMul a b =>
        let (t1, A) := comp v G s m t a in let (t2, B) := comp v G s m t1 b in emit1 t2 G (times m (scal A) (scal B))
    | EFn f es =>
        let (t1, xs) := chain (comp v G s m) t es in emit1 t1 G (Map m f xs)
    | EPair a b => let (t1, A) := comp v G s m t a in let (t2, B) := comp v G s m t1 b in (t2, Both A B)
    | EFst a => let (t1, A) := comp v G s m t a in (t1, left A)
    | ESnd a => let (t1, A) := comp v G s m t a in (t1, right A)
    | EGen i n a => comp v (G ++ [n]) (inner_s G s i) (inner_m G m) t a
    | ESum i n a =>
        let (t1, A) := comp v (G ++ [n]) (inner_s G s i) (inner_m G m) t a in
        emit1 t1 G (total G m (fun j => reach (inner_s G s i j) a) (scal A))
    | EAcc a k => let (t1, A) := comp v G s m t a in emit_tree (element G s k) t1 A
    | EInd p a => let (t1, A) := comp v G s (fun o => m o && pval R (s o) p) t a in emit_tree (masked G s p) t1 A
    | ELet x a b => let (t1, A) := comp v G s m t a in comp (upd v x (List.length G, A)) G s m t1 b
    end.

  (** * What trees of variables stand for *)
  Fixpoint shaped (G : shape) (D : list var) (S : tree shape) (tr : tree var) : Prop :=
    match S, tr with
    | Leaf sh, Leaf x => shp x = G ++ sh /\ In x D
    | Both S0 S1, Both l r => shaped G D S0 l /\ shaped G D S1 r
    | _, _ => False
    end.
  Definition points (G : shape) (m : pred) (g : index) : Prop := In g (box G) /\ m g = true.
  (** at the points Q, of which an array reads the part h *)
  Fixpoint means (h : index -> index) (Q : index -> Prop) (E : env) (S : tree shape) (tr : tree var) (V : index -> @val K) : Prop :=
    match S, tr with
    | Leaf sh, Leaf x => forall g, Q g -> forall w, In w (box sh) -> E x (h g ++ w) = V g [] w
    | Both S0 S1, Both l r =>
        means h Q E S0 l (fun g d w => V g (true :: d) w) /\ means h Q E S1 r (fun g d w => V g (false :: d) w)
    | _, _ => False
    end.
  Lemma shaped_incl G D D' : incl D D' -> forall S tr, shaped G D S tr -> shaped G D' S tr.
  Proof. intros I. induction S as [sh|S0 IH0 S1 IH1]; intros [x|l r]; cbn; try tauto; intros [H0 H1]; auto. Qed.
  Lemma means_imp h (Q Q' : index -> Prop) E : (forall g, Q' g -> Q g) -> forall S tr V, means h Q E S tr V -> means h Q' E S tr V.
  Proof.
    intros I. induction S as [sh|S0 IH0 S1 IH1]; intros [x|l r] V; cbn; try tauto; [auto|]. intros [H0 H1]. auto.
  Qed.
  Lemma means_ext h (Q : index -> Prop) E : forall S tr V V', (forall g, Q g -> forall d w, V g d w = V' g d w) -> means h Q E S tr V -> means h Q E S tr V'.
  Proof.
    induction S as [sh|S0 IH0 S1 IH1]; intros [x|l r] V V' H; cbn; try tauto.
    - intros M g Hg w Hw. rewrite <- H by exact Hg. auto.
    - intros [M0 M1]. split; [eapply IH0; [|exact M0]|eapply IH1; [|exact M1]]; intros; cbn; auto.
  Qed.

  (** ** Statements for each leaf of a tree *)
  Definition quiet (r : rhs) : Prop := match r with Map _ _ _ | Input _ => False | _ => True end.
  (** functions have as many arguments as they take, and inputs are given *)
  Definition proper (given : var -> Prop) (r : rhs) : Prop := match r with Map _ f xs => takes f (List.length xs) | Input y => given y | _ => True end.
  Definition all_proper (given : var -> Prop) (t : prog) : Prop := forall sh r, In (sh, r) t -> proper given r.
  Lemma quiet_proper given r : quiet r -> proper given r.
  Proof. destruct r; intros Q; solve [exact I|destruct Q]. Qed.
  (** what a statement that only moves elements does: its shape, and its value in terms of its operand's, of shape c sh *)
  Definition moves (f : var -> shape * rhs) (G0 G : shape) (c : shape -> shape) (h : index -> index) (Q Q' : index -> Prop)
    (tau : (index -> list Z -> K) -> index -> list Z -> K) (OK : shape -> Prop) : Prop :=
    forall sh x, OK sh -> shp x = G0 ++ c sh ->
      fst (f x) = G ++ sh /\ ops (snd (f x)) = [x] /\ pointwise (fst (f x)) (snd (f x)) /\ cost1 (f x) = 0%Z
      /\ quiet (snd (f x))
      /\ forall inp E v, (forall g, Q g -> forall w, In w (box (c sh)) -> E x (h g ++ w) = v g w) ->
         forall g, Q' g -> forall w, In w (box sh) -> eval inp E (snd (f x)) (g ++ w) = tau v g w.
  Lemma quiet_applies (A : fn -> list K -> Prop) (E : env) st : quiet (snd st) -> applies A E st.
  Proof. destruct st as [sh r]. unfold applies. cbn [snd fst]. destruct r; intros Q; solve [exact I|destruct Q]. Qed.
  Lemma emit_tree_sound f G0 G c h Q Q' tau : moves f G0 G c h Q Q' tau (fun _ => True) ->
    (forall g, Q' g -> In g (box G)) ->
    forall S tr t t' tr', emit_tree f t tr = (t', tr') -> wf t -> shaped G0 (declared t) (tmap c S) tr ->
    wf t' /\ extends t t' /\ cost t' = cost t /\ shaped G (declared t') S tr' /\ (forall given, all_proper given t -> all_proper given t')
    /\ forall inp E, solves inp E t' ->
       (forall A, maps_at A E t -> maps_at A E t')
       /\ forall V, means h Q E (tmap c S) tr V -> means (fun g => g) Q' E S tr' (fun g d w => tau (fun g w => V g d w) g w).
  Proof.
    intros M QG. induction S as [sh|S0 IH0 S1 IH1]; intros [x|l r] t t' tr' H W Sh; cbn [tmap shaped emit_tree] in *; try tauto.
    - destruct Sh as [Sx Dx]. destruct (M sh x I Sx) as [F [O [P [C [N V]]]]]. inversion H; subst t' tr'; clear H.
      destruct (f x) as [s r] eqn:Ef. cbn [fst snd] in *. subst s. repeat split.
      + intros y Hy. rewrite O in Hy. destruct Hy as [<-|[]]. exact Dx.
      + exact P.
      + exact W.
      + apply extends_cons.
      + unfold SSA.cost. cbn [zsum]. rewrite C. lia.
      + left. reflexivity.
      + intros given Ar sh' r' [E|E]; [inversion E; subst; apply quiet_proper, N|eapply Ar, E].
      + intros A MA. constructor; [apply quiet_applies; exact N|exact MA].
      + intros V0 MV. cbn [means] in *. intros g Hg w Hw. destruct H as [HE _]. rewrite HE.
        * apply (V inp E (fun g w => V0 g [] w) MV g Hg w Hw).
        * apply box_app; [apply box_length, QG, Hg|]. split; [apply QG, Hg|exact Hw].
    - destruct Sh as [Sl Sr]. destruct (emit_tree f t l) as [t1 l'] eqn:E1. destruct (emit_tree f t1 r) as [t2 r'] eqn:E2.
      inversion H; subst t' tr'; clear H. destruct (IH0 _ _ _ _ E1 W Sl) as [W1 [X1 [C1 [S1' [A1 V1]]]]].
      destruct (IH1 _ _ _ _ E2 W1 (shaped_incl _ _ _ (extends_declared _ _ X1) _ _ Sr)) as [W2 [X2 [C2 [S2' [A2 V2]]]]].
      repeat split.
      + exact W2.
      + eapply extends_trans; eassumption.
      + congruence.
      + eapply shaped_incl; [apply extends_declared, X2|exact S1'].
      + exact S2'.
      + auto.
      + intros A MA. apply (V2 inp E H), (V1 inp E (extends_solves _ _ _ _ _ _ _ _ _ X2 H)), MA.
      + destruct H0 as [M0 M1]. apply (V1 inp E (extends_solves _ _ _ _ _ _ _ _ _ X2 H)). exact M0.
      + destruct H0 as [M0 M1]. apply (V2 inp E H). exact M1.
  Qed.

  (** ** The moves: what they read, and that they cost nothing *)
  Lemma box_firstn G j g : In g (box G) -> In (firstn j g) (box (firstn j G)).
  Proof.
    intros H. pose proof (box_length _ _ H) as L. rewrite <- (firstn_skipn j G), <- (firstn_skipn j g) in H.
    apply box_app in H; [apply H|]. rewrite !firstn_length. lia.
  Qed.
  Lemma firstn_prefix (g w : index) j k : List.length g = k -> (j <= k)%nat -> firstn j (g ++ w) = firstn j g.
  Proof. intros L H. rewrite firstn_app. replace (j - List.length g)%nat with 0%nat by lia. apply app_nil_r. Qed.
  Lemma firstn_whole (g w : index) k : List.length g = k -> firstn k (g ++ w) = g.
  Proof. intros L. rewrite (firstn_prefix g w k k L) by lia. rewrite <- L. apply firstn_all. Qed.
  Lemma skipn_whole {A} (g w : list A) k : List.length g = k -> skipn k (g ++ w) = w.
  Proof. intros L. rewrite skipn_app, <- L, skipn_all, Nat.sub_diag. reflexivity. Qed.
  Lemma reindex_cost sh h x : cost1 (sh, reindex h x) = 0%Z.
  Proof. exact (greatest_cost fcost sh (fun _ _ => true) x h). Qed.
  Lemma reindex_value inp E h x o : In (h o) (box (shp x)) -> eval inp E (reindex h x) o = E x (h o).
  Proof.
    intros H. cbn [SSA.eval reindex]. unfold sum1. cbn [box Sums.sum].
    rewrite <- (sum_point _ _ _ _ _ _ Rth leqb (box (shp x)) (h o) (E x) leqb_eq (box_nodup _) H).
    apply sum_ext. intros i _. destruct (leqb (h o) i); cbn; ring.
  Qed.
  Lemma spread_moves G j (Q : index -> Prop) : (j <= List.length G)%nat -> (forall g, Q g -> In g (box G)) ->
    moves (spread G j) (firstn j G) G (fun sh => sh) (firstn j) Q Q (fun v => v) (fun _ => True).
  Proof.
    intros J QG sh x _ Sx. unfold spread. cbn [fst snd]. assert (LF : List.length (firstn j G) = j) by (apply firstn_length_le, J).
    rewrite Sx, (skipn_whole _ sh j LF). split; [reflexivity|]. split; [reflexivity|]. split; [exact I|].
    split; [apply reindex_cost|]. split; [exact I|]. intros inp E v Hv g Hg w Hw. pose proof (box_length _ _ (QG g Hg)) as Lg.
    assert (Hr : firstn j (g ++ w) ++ skipn (List.length G) (g ++ w) = firstn j g ++ w)
      by (rewrite (firstn_prefix g w j _ Lg J), (skipn_whole g w _ Lg); reflexivity).
    rewrite reindex_value; rewrite Hr; [apply Hv; assumption|]. rewrite Sx. apply box_app.
    - rewrite LF. apply firstn_length_le. lia.
    - split; [apply box_firstn, QG, Hg|exact Hw].
  Qed.
  Lemma element_moves G s a n (Q : index -> Prop) : (forall g, Q g -> In g (box G)) -> (forall g, Q g -> inside n (aval R (s g) a) = true) ->
    moves (element G s a) G G (cons n) (fun g => g) Q Q (fun v g w => v g (aval R (s g) a :: w)) (fun _ => True).
  Proof.
    intros QG B sh x _ Sx. unfold element. cbn [fst snd].
    assert (skipn (S (List.length G)) (shp x) = sh) as ->.
    { rewrite Sx. change (n :: sh) with ([n] ++ sh). rewrite app_assoc. apply skipn_whole. rewrite app_length. cbn. lia. }
    split; [reflexivity|]. split; [reflexivity|]. split; [exact I|]. split; [apply reindex_cost|]. split; [exact I|].
    intros inp E v Hv g Hg w Hw. pose proof (box_length _ _ (QG g Hg)) as Lg.
    assert (Hw' : In (aval R (s g) a :: w) (box (n :: sh))) by (apply box_cons; auto).
    rewrite reindex_value; rewrite (firstn_whole g w _ Lg), (skipn_whole g w _ Lg); [apply Hv; assumption|].
    rewrite Sx. apply box_app; [exact Lg|]. split; [apply QG, Hg|exact Hw'].
  Qed.
  Lemma masked_moves G s m p :
    moves (masked G s p) G G (fun sh => sh) (fun g => g) (points G (fun g => m g && pval R (s g) p)) (points G m)
      (fun v g w => ind (pval R (s g) p) (v g w)) (fun _ => True).
  Proof.
    intros sh x _ Sx. unfold masked. cbn [fst snd]. split; [exact Sx|]. split; [reflexivity|].
    split; [intros y [<-|[]]; reflexivity|]. split; [apply cost_copy|]. split; [exact I|].
    intros inp E v Hv g [Hg Mg] w Hw. pose proof (box_length _ _ Hg) as Lg.
    cbn [SSA.eval Sums.sum bracket minus operand signed]. rewrite (firstn_whole g w _ Lg).
    destruct (pval R (s g) p) eqn:Ep; cbn [Sums.ind]; [|ring]. rewrite Hv; [ring| |exact Hw]. split; [exact Hg|]. now rewrite Mg, Ep.
  Qed.

  (** ** Statements for numbers *)
  Lemma points2 G (m : pred) g : In g (box G) ->
    zsum (box G) (fun i => zsum (box G) (fun j => b2z (m g && (leqb g i && leqb g j)))) = b2z (m g)
    /\ existsb (fun i => existsb (fun j => m g && (leqb g i && leqb g j)) (box G)) (box G) = m g.
  Proof.
    intros Hg. assert (Rf : leqb g g = true) by now apply leqb_eq. split.
    - transitivity (zsum (box G) (fun i => if leqb g i then b2z (m g) else 0)%Z).
      + apply zsum_ext. intros i _. transitivity (zsum (box G) (fun j => if leqb g j then b2z (m g && leqb g i) else 0)%Z).
        * apply zsum_ext. intros j _. destruct (m g), (leqb g i), (leqb g j); reflexivity.
        * etransitivity; [exact (zsum_point leqb (box G) g (fun _ => b2z (m g && leqb g i)) leqb_eq (box_nodup G) Hg)|].
          destruct (m g), (leqb g i); reflexivity.
      + apply (zsum_point leqb (box G) g (fun _ => b2z (m g)) (leqb_eq) (box_nodup G) Hg).
    - destruct (m g) eqn:M.
      + apply existsb_exists. exists g. split; [exact Hg|]. apply existsb_exists. exists g. now rewrite Rf.
      + apply not_true_is_false. intros H. apply existsb_exists in H. destruct H as [i [_ H]]. apply existsb_exists in H.
        destruct H as [j [_ H]]. discriminate.
  Qed.
  Lemma times_cost G m a b : shp a = G -> shp b = G -> cost1 (G, times m a b) = num G m.
  Proof.
    intros Ha Hb. cbn [SSA.cost1 times].
    assert (zsum (box G) (fun g => cnt2 [] a b (fun i j _ => m g && (leqb g i && leqb g j))) = num G m) as ->.
    { apply zsum_ext. intros g Hg. unfold cnt2. rewrite Ha, Hb. rewrite <- (proj1 (points2 G m g Hg)).
      apply zsum_ext. intros i _. apply zsum_ext. intros j _. cbn. lia. }
    assert (num G (fun g => ex2 [] a b (fun i j _ => m g && (leqb g i && leqb g j))) = num G m) as ->; [|lia].
    apply num_ext. intros g Hg. unfold ex2. rewrite Ha, Hb. etransitivity; [|exact (proj2 (points2 G m g Hg))].
    apply existsb_ext. intros i _. apply existsb_ext. intros j _. cbn. apply orb_false_r.
  Qed.
  Lemma times_value inp E G m a b g : shp a = G -> shp b = G -> In g (box G) -> m g = true ->
    eval inp E (times m a b) g = rmul (E a g) (E b g).
  Proof.
    intros Ha Hb Hg Mg. cbn [SSA.eval times]. unfold sum2. rewrite Ha, Hb, Mg. cbn [box Sums.sum andb].
    transitivity (sum (box G) (fun i => ind (leqb g i) (rmul (E a i) (E b g)))).
    - apply sum_ext. intros i _. rewrite <- (sum_point _ _ _ _ _ _ Rth leqb (box G) g (fun j => rmul (E a i) (E b j)) leqb_eq (box_nodup G) Hg).
      rewrite (ind_sum _ _ _ _ _ _ Rth). apply sum_ext. intros j _. destruct (leqb g i), (leqb g j); cbn; ring.
    - apply (sum_point _ _ _ _ _ _ Rth leqb (box G) g (fun i => rmul (E a i) (E b g)) leqb_eq (box_nodup G) Hg).
  Qed.
  Lemma box_split G n : box (G ++ [n]) = flat_map (fun g => map (fun z => g ++ [z]) (zrange n)) (box G).
  Proof.
    induction G as [|k G IH].
    - cbn [app box flat_map]. rewrite app_nil_r. induction (zrange n) as [|z l IHl]; cbn; [reflexivity|]. apply f_equal, IHl.
    - cbn [app box]. rewrite IH. induction (zrange k) as [|y l IHl]; [reflexivity|]. cbn [flat_map]. rewrite IHl, flat_map_app. f_equal.
      clear. induction (box G) as [|g l' IH]; [reflexivity|]. cbn [flat_map map]. rewrite map_app, IH, map_map. reflexivity.
  Qed.
  Lemma zsum_split G n f : zsum (box (G ++ [n])) f = zsum (box G) (fun g => zsum (zrange n) (fun z => f (g ++ [z]))).
  Proof. rewrite box_split, zsum_flat_map. apply zsum_ext. intros g _. apply zsum_map. Qed.
  Lemma sum_split G n f : sum (box (G ++ [n])) f = sum (box G) (fun g => sum (zrange n) (fun z => f (g ++ [z]))).
  Proof. rewrite box_split, (sum_flat_map _ _ _ _ _ _ Rth). apply sum_ext. intros g _. apply sum_map. Qed.
  Lemma existsb_flat_map {A B} (f : B -> bool) (h : A -> list B) l : existsb f (flat_map h l) = existsb (fun a => existsb f (h a)) l.
  Proof. induction l; cbn; [reflexivity|]. now rewrite existsb_app, IHl. Qed.
  Lemma total_points G n (m reached : pred) g : In g (box G) ->
    zsum (box (G ++ [n])) (fun j => b2z (m g && leqb g (firstn (List.length G) j) && reached j))
      = (if m g then zsum (zrange n) (fun z => b2z (reached (g ++ [z]))) else 0)%Z
    /\ existsb (fun j => m g && leqb g (firstn (List.length G) j) && reached j) (box (G ++ [n]))
       = m g && existsb (fun z => reached (g ++ [z])) (zrange n).
  Proof.
    intros Hg. split.
    - rewrite zsum_split. transitivity (zsum (box G) (fun g' => if leqb g g' then (if m g then zsum (zrange n) (fun z => b2z (reached (g' ++ [z]))) else 0) else 0)%Z).
      + apply zsum_ext. intros g' Hg'. transitivity (zsum (zrange n) (fun z => if leqb g g' then (if m g then b2z (reached (g' ++ [z])) else 0) else 0)%Z).
        * apply zsum_ext. intros z _. rewrite (firstn_whole g' [z] _ (box_length _ _ Hg')). destruct (m g), (leqb g g'); cbn; lia.
        * destruct (leqb g g'), (m g); cbn; try apply zsum_0; reflexivity.
      + apply (zsum_point leqb (box G) g (fun g' => if m g then zsum (zrange n) (fun z => b2z (reached (g' ++ [z]))) else 0)%Z leqb_eq (box_nodup G) Hg).
    - rewrite box_split, existsb_flat_map. apply eq_true_iff_eq. rewrite existsb_exists, andb_true_iff, existsb_exists. split.
      + intros [g' [Hg' H]]. rewrite existsb_map in H. apply existsb_exists in H. destruct H as [z [Hz H]].
        rewrite (firstn_whole g' [z] _ (box_length _ _ Hg')) in H. apply andb_prop in H. destruct H as [H Hr]. apply andb_prop in H.
        destruct H as [Hm He]. apply leqb_eq in He. subst g'. eauto.
      + intros [Hm [z [Hz Hr]]]. exists g. split; [exact Hg|]. rewrite existsb_map. apply existsb_exists. exists z. split; [exact Hz|].
        rewrite (firstn_whole g [z] _ (box_length _ _ Hg)), Hm, Hr. now assert (leqb g g = true) as -> by now apply leqb_eq.
  Qed.
  Lemma total_cost G n m reached a : shp a = G ++ [n] ->
    cost1 (G, total G m reached a) = zsum (box G) (fun g => if m g then zsum (zrange n) (fun z => b2z (reached (g ++ [z])))
      - b2z (existsb (fun z => reached (g ++ [z])) (zrange n)) else 0)%Z.
  Proof.
    intros Ha. cbn [SSA.cost1 total]. unfold num. rewrite <- zsum_sub. apply zsum_ext. intros g Hg.
    destruct (total_points G n m reached g Hg) as [Z X]. unfold cnt1, ex1. rewrite Ha.
    transitivity (zsum (box (G ++ [n])) (fun j => b2z (m g && leqb g (firstn (List.length G) j) && reached j))
                  - b2z (existsb (fun j => m g && leqb g (firstn (List.length G) j) && reached j) (box (G ++ [n]))))%Z.
    { f_equal; [apply zsum_ext; intros; cbn; lia|]. f_equal. apply existsb_ext. intros. cbn. apply orb_false_r. }
    rewrite Z, X. destruct (m g); reflexivity.
  Qed.
  Lemma total_value inp E G n m reached a g : shp a = G ++ [n] -> In g (box G) -> m g = true ->
    (forall z, In z (zrange n) -> reached (g ++ [z]) = false -> E a (g ++ [z]) = rO) ->
    eval inp E (total G m reached a) g = sum (zrange n) (fun z => E a (g ++ [z])).
  Proof.
    intros Ha Hg Mg Z. cbn [SSA.eval total]. unfold sum1. rewrite Ha, sum_split, Mg. cbn [box Sums.sum andb].
    rewrite <- (sum_point _ _ _ _ _ _ Rth leqb (box G) g (fun g' => sum (zrange n) (fun z => E a (g' ++ [z]))) leqb_eq (box_nodup G) Hg).
    apply sum_ext. intros g' Hg'. rewrite (ind_sum _ _ _ _ _ _ Rth). apply sum_ext. intros z Hz.
    rewrite (firstn_whole g' [z] _ (box_length _ _ Hg')). destruct (leqb g g') eqn:Eg; cbn [Sums.ind andb]; [|ring].
    apply leqb_eq in Eg. subst g'. destruct (reached (g ++ [z])) eqn:Er; cbn [Sums.ind]; [ring|]. rewrite Z by assumption. ring.
  Qed.

  Lemma sum_of_value inp E m l0 a minus l1 b g : m g = true -> (l0 g = false -> E a g = rO) -> (l1 g = false -> E b g = rO) ->
    eval inp E (sum_of m l0 a minus l1 b) g = radd (E a g) (signed ropp minus (E b g)).
  Proof.
    intros Mg Z0 Z1. cbn [SSA.eval sum_of Sums.sum bracket SSA.minus operand signed]. rewrite Mg. cbn [andb].
    destruct (l0 g); [|rewrite Z0 by reflexivity]; (destruct (l1 g); [|rewrite Z1 by reflexivity]); destruct minus; cbn; ring.
  Qed.
  (** a sum has nothing to add for what is not reached *)
  Lemma value_unreached e : forall r s, reach s e = false -> forall d w, value r s e d w = rO.
  Proof.
    induction e; intros r s; cbn [Core.reach]; try discriminate; intros H d w; cbn [Core.eval].
    - transitivity (sum (zrange n) (fun _ => rO)); [|apply (sum_0 _ _ _ _ _ _ Rth)]. apply sum_ext. intros z Hz. apply IHe.
      apply not_true_is_false. intros Q. apply not_true_iff_false in H. apply H. apply existsb_exists. eauto.
    - apply andb_false_iff in H. destruct (pval R s p); cbn; [|reflexivity]. apply IHe. destruct H; [discriminate|assumption].
  Qed.

  Lemma scal_shaped G D tr : shaped G D (Leaf []) tr -> shp (scal tr) = G /\ In (scal tr) D.
  Proof. destruct tr as [x|l r]; cbn; [|tauto]. rewrite app_nil_r. auto. Qed.
  Lemma scal_means (Q : index -> Prop) E tr V : means (fun g => g) Q E (Leaf []) tr V -> forall g, Q g -> E (scal tr) g = V g [] [].
  Proof.
    destruct tr as [x|l r]; cbn; [|tauto]. intros M g Hg. rewrite <- (app_nil_r g) at 1. apply M; [exact Hg|left; reflexivity].
  Qed.
  Lemma emit1_sound t G r t' tr : emit1 t G r = (t', tr) -> wf t -> (forall x, In x (ops r) -> In x (declared t)) -> pointwise G r ->
    wf t' /\ extends t t' /\ shaped G (declared t') (Leaf []) tr /\ cost t' = (cost t + cost1 (G, r))%Z
    /\ forall m inp E V, solves inp E t' -> (forall g, points G m g -> eval inp E r g = V g [] []) ->
       means (fun g => g) (points G m) E (Leaf []) tr V.
  Proof.
    intros H W O P. inversion H; subst; clear H. split; [cbn; auto|]. split; [apply extends_cons|].
    split; [cbn; split; [now rewrite app_nil_r|auto]|]. split; [unfold SSA.cost; cbn [zsum]; lia|].
    intros m inp E V [HE _] HV g Hg w [<-|[]]. rewrite app_nil_r, HE by apply Hg. auto.
  Qed.

  (** ** Below a binder *)
  Lemma in_inner G n g' : In g' (box (G ++ [n])) <-> exists g z, g' = g ++ [z] /\ In g (box G) /\ inside n z = true.
  Proof.
    rewrite box_split, in_flat_map. split.
    - intros [g [Hg H]]. apply in_map_iff in H. destruct H as [z [<- Hz]]. apply zrange_inside in Hz. eauto.
    - intros [g [z [-> [Hg Hz]]]]. exists g. split; [exact Hg|]. apply in_map_iff. exists z. split; [reflexivity|]. now apply zrange_inside.
  Qed.
  Lemma inner_s_at G s i g z : In g (box G) -> inner_s G s i (g ++ [z]) = upd (s g) i z.
  Proof.
    intros Hg. unfold inner_s. rewrite (firstn_whole g [z] _ (box_length _ _ Hg)), <- (box_length _ _ Hg), app_nth2, Nat.sub_diag by lia.
    reflexivity.
  Qed.
  Lemma inner_m_at G m g z : In g (box G) -> inner_m G m (g ++ [z]) = m g.
  Proof. intros Hg. unfold inner_m. now rewrite (firstn_whole g [z] _ (box_length _ _ Hg)). Qed.
  Lemma points_inner G n m g' : points (G ++ [n]) (inner_m G m) g' -> exists g z, g' = g ++ [z] /\ points G m g /\ inside n z = true.
  Proof.
    intros [H Mg]. apply in_inner in H. destruct H as [g [z [-> [Hg Hz]]]]. rewrite inner_m_at in Mg by exact Hg.
    exists g, z. repeat split; assumption.
  Qed.
  Lemma inner_cost G n s i m a :
    zsum (box (G ++ [n])) (fun g' => if inner_m G m g' then ecost (inner_s G s i g') a else 0)%Z
    = zsum (box G) (fun g => if m g then zsum (zrange n) (fun z => ecost (upd (s g) i z) a) else 0)%Z.
  Proof.
    rewrite zsum_split. apply zsum_ext. intros g Hg.
    transitivity (zsum (zrange n) (fun z => if m g then ecost (upd (s g) i z) a else 0)%Z).
    - apply zsum_ext. intros z _. now rewrite inner_m_at, inner_s_at.
    - destruct (m g); [reflexivity|apply zsum_0].
  Qed.
  Lemma shaped_inner G n D : forall S tr, shaped (G ++ [n]) D S tr -> shaped G D (tmap (cons n) S) tr.
  Proof.
    induction S as [sh|S0 IH0 S1 IH1]; intros [x|l r]; cbn; try tauto; intros [H0 H1]; auto. rewrite <- app_assoc in H0. auto.
  Qed.
  Lemma means_inner G n m E : forall S tr V, means (fun g => g) (points (G ++ [n]) (inner_m G m)) E S tr V ->
    means (fun g => g) (points G m) E (tmap (cons n) S) tr
      (fun g d w => match w with z :: w' => ind (inside n z) (V (g ++ [z]) d w') | [] => rO end).
  Proof.
    induction S as [sh|S0 IH0 S1 IH1]; intros [x|l r] V; cbn [means tmap]; try tauto.
    - intros M g [Hg Mg] [|z w] Hw; [apply box_length in Hw; discriminate|]. apply box_cons in Hw. destruct Hw as [Hz Hw].
      rewrite Hz. cbn [Sums.ind]. change (z :: w) with ([z] ++ w). rewrite app_assoc. apply M; [|exact Hw].
      split; [apply in_inner; eauto|]. now rewrite inner_m_at.
    - intros [M0 M1]. split; [apply (IH0 _ _ M0)|apply (IH1 _ _ M1)].
  Qed.
  Lemma means_along (f : index -> index) h h' (Q Q' : index -> Prop) E : (forall g, Q' g -> Q (f g) /\ h' g = h (f g)) ->
    forall S tr V, means h Q E S tr V -> means h' Q' E S tr (fun g => V (f g)).
  Proof.
    intros H. induction S as [sh|S0 IH0 S1 IH1]; intros [x|l r] V; cbn [means]; try tauto.
    - intros M g Hg w Hw. destruct (H g Hg) as [Hq ->]. apply M; assumption.
    - intros [M0 M1]. split; [apply (IH0 _ _ M0)|apply (IH1 _ _ M1)].
  Qed.
End Compile.
