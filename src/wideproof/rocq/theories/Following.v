(* Steps from a start, in intervals: every weight is enclosed, and so is one step of gradient descent. *)
From Coq Require Import Reals Lra Lia ZArith QArith Qreals List Bool.
From Coquelicot Require Import Coquelicot.
From Interval Require Import Interval.Float_full Interval.Interval Interval.Float Real.Xreal Float.Basic Float.Sig.
From Wideproof Require Import Statement theories.Vectors theories.Descent theories.Network theories.Activations theories.Integers
  theories.Certificate theories.Enclosures theories.Checker.
Import ListNotations.
Open Scope R_scope.

Fixpoint zip {A B C} (f : A -> B -> C) (u : list A) (v : list B) : list C :=
  match u, v with a :: u', b :: v' => f a b :: zip f u' v' | _, _ => [] end.
Lemma zip_nth {A B C} (f : A -> B -> C) u : forall v i a b c, (i < length u)%nat -> (i < length v)%nat ->
  nth i (zip f u v) c = f (nth i u a) (nth i v b).
Proof.
  induction u as [|x u IH]; intros [|y v] [|i] a b c Hu Hv; simpl in *; try lia; auto. apply IH; lia.
Qed.
Lemma zip_length {A B C} (f : A -> B -> C) u : forall v k, length u = k -> length v = k -> length (zip f u v) = k.
Proof. induction u as [|x u IH]; intros [|y v] [|k]; simpl; intros; try lia. f_equal. apply IH; lia. Qed.

Module Following (F : FO).
Module K := Checker F.
Module I := K.I.
Section Following.
Variable prec : F.precision.
Notation cont := K.cont.
Definition zero := I.fromZ prec 0.
(* k numbers, and n rows of k numbers, enclosed *)
Definition vector k (v : list I.type) (f : nat -> R) := length v = k /\ forall i, (i < k)%nat -> cont (nth i v zero) (f i).
Definition matrix n k (M : list (list I.type)) (f : nat -> nat -> R) := length M = n /\ forall i, (i < n)%nat -> vector k (nth i M []) (f i).

Fixpoint idot (acc : I.type) (u v : list I.type) : I.type :=
  match u, v with a :: u', b :: v' => idot (I.add prec acc (I.mul prec a b)) u' v' | _, _ => acc end.
Lemma cidot u : forall acc x v k f g, cont acc x -> vector k u f -> vector k v g -> cont (idot acc u v) (x + sum k (fun i => f i * g i)).
Proof.
  induction u as [|a u IH]; intros acc x v k f g Ha [Lu Hu] [Lv Hv]; simpl in Lu; subst k.
  - simpl. rewrite Rplus_0_r. exact Ha.
  - destruct v as [|b v]; simpl in Lv; [lia|]. simpl idot. rewrite sum_first, <- Rplus_assoc.
    apply (IH _ (x + f O * g O) v (length u) (fun i => f (S i)) (fun i => g (S i))).
    + apply K.cadd; auto. apply K.cmul; [apply (Hu O); lia|apply (Hv O); lia].
    + split; auto. intros i Hi. apply (Hu (S i)). lia.
    + split; [lia|]. intros i Hi. apply (Hv (S i)). simpl; lia.
Qed.
Lemma cdot u v k f g : vector k u f -> vector k v g -> cont (idot zero u v) (sum k (fun i => f i * g i)).
Proof. intros H1 H2. rewrite <- (Rplus_0_l (sum _ _)). apply cidot; auto. apply K.cZ. Qed.
Lemma czip h u v k f g r : vector k u f -> vector k v g -> (forall a b i, (i < k)%nat -> cont a (f i) -> cont b (g i) -> cont (h a b) (r i)) ->
  vector k (zip h u v) r.
Proof.
  intros [Lu Hu] [Lv Hv] H. split; [apply zip_length; auto|]. intros i Hi. rewrite (zip_nth h u v i zero zero) by lia. apply H; auto.
Qed.

Fixpoint transpose (k : nat) (M : list (list I.type)) : list (list I.type) :=
  match M with [] => repeat [] k | row :: more => zip cons row (transpose k more) end.
Lemma ctranspose k M : forall n f, matrix n k M f -> matrix k n (transpose k M) (fun j i => f i j).
Proof.
  induction M as [|row more IH]; intros n f [Ln Hn]; simpl in Ln; subst n.
  - split; [apply repeat_length|]. intros j Hj. simpl. split; [|intros; lia].
    assert (E : forall q j, nth j (repeat (@nil I.type) q) [] = []) by (induction q; intros [|j']; simpl; auto). rewrite E. reflexivity.
  - destruct (IH (length more) (fun i => f (S i))) as [L1 H1].
    { split; auto. intros i Hi. apply (Hn (S i)). lia. }
    destruct (Hn O ltac:(lia)) as [L0 H0]. simpl in L0, H0.
    split; [apply zip_length; auto|]. intros j Hj. simpl. rewrite (zip_nth cons row _ j zero []) by lia.
    destruct (H1 j Hj) as [L2 H2]. split; [simpl; lia|]. intros [|i] Hi; simpl; [apply H0; auto|apply H2; lia].
Qed.

Variable c : certificate.
Let P := problem_of c.
Let n := length (data c). Let m := length (cells c). Let d := width_of_inputs c.
Let dsg := slope (activation_of c).

Definition numbers (dn : positive) (l : list Z) : list I.type := map (fun k => K.ratio prec k dn) l.
Lemma cnumbers dn l k : length l = k -> vector k (numbers dn l) (fun i => over (nth i l 0%Z) dn).
Proof.
  intros Hl. unfold numbers. split; [rewrite map_length; auto|]. intros i Hi. rewrite (nth_map _ _ _ 0%Z) by lia. apply K.cratio.
Qed.

Definition step (eta sc : I.type) (X XT : list (list I.type)) (Y : list I.type) (w : list I.type * list (list I.type)) : list I.type * list (list I.type) :=
  let (A, W) := w in
  let g := K.both prec (activation_of c) in
  let VS := map (fun x => map (fun u => g (idot zero u x)) W) X in
  let FM := map (map (fun p => I.mul prec sc (fst p))) VS in
  let ST := transpose m (map (map (fun p => I.mul prec sc (snd p))) VS) in
  let R := zip (fun f y => I.sub prec (idot zero A f) y) FM Y in
  let A' := if trained_read_out c then zip (fun a f => I.sub prec a (I.mul prec eta (idot zero f R))) A (transpose m FM) else A in
  let W' := zip (fun u q => let g := zip (fun s r => I.mul prec (I.mul prec (fst q) s) r) (snd q) R in
                            zip (fun v x => I.sub prec v (I.mul prec eta (idot zero g x))) u XT) W (zip pair A ST) in
  (A', W').

(* the weights of a vector, and their enclosure *)
Definition state (w : list I.type * list (list I.type)) (th : vec) : Prop :=
  vector m (fst w) (fun j => th (m * d + j)%nat) /\ matrix m d (snd w) (fun j l => th (j * d + l)%nat) /\
  forall j, (j < m)%nat -> read_out P th j = th (m * d + j)%nat.

(* lengths are compared up to conversion: the types of intervals have two names *)
Ltac len := first [lia | eapply Nat.lt_le_trans; [eassumption|apply Nat.eq_le_incl; symmetry; eassumption]].
Lemma cstep eta sc X Y e w th : cont eta e -> cont sc (scale P) -> matrix n d X (input P) -> vector n Y (target P) -> state w th ->
  state (step eta sc X (transpose d X) Y w) (vsub th (vsc e (grad n (residual P) (jac P dsg) th))).
Proof.
  intros He Hs HX HY. destruct w as [A W]. intros [HA [HW HR]]. simpl fst in HA. simpl snd in HW.
  pose proof (ctranspose d X n _ HX) as HXT.
  assert (B : forall i j, (i < n)%nat -> (j < m)%nat -> cont (idot zero (nth j W []) (nth i X [])) (hidden P th i j)).
  { intros i j Hi Hj. apply cdot; [apply HW; auto|apply HX; auto]. }
  unfold step. set (VS := map _ X).
  assert (V : forall g i j, (i < n)%nat -> (j < m)%nat -> nth j (nth i (map (map g) VS) []) zero = g (K.both prec (activation_of c) (idot zero (nth j W []) (nth i X [])))).
  { intros g i j Hi Hj. destruct HX as [LX _]. destruct HW as [LW _]. unfold VS. rewrite map_map.
    rewrite (nth_map _ _ _ []) by len. rewrite map_map, (nth_map _ _ _ []) by len. reflexivity. }
  assert (VL : forall g, length (map (map g) VS) = n /\ forall i, (i < n)%nat -> length (nth i (map (map g) VS) (@nil I.type)) = m).
  { intros g. destruct HX as [LX _]. destruct HW as [LW _]. split; [unfold VS; rewrite !map_length; auto|].
    intros i Hi. unfold VS. rewrite map_map, (nth_map _ _ _ []), !map_length by len. auto. }
  set (FM := map (map (fun p => I.mul prec sc (fst p))) VS).
  set (SM := map (map (fun p => I.mul prec sc (snd p))) VS).
  assert (HF : matrix n m FM (features P th)).
  { split; [apply VL|]. intros i Hi. split; [apply VL; auto|]. intros j Hj. unfold FM. rewrite V by auto.
    apply K.cmul; auto. apply K.cboth. apply B; auto. }
  assert (HS : matrix n m SM (fun i j => scale P * dsg (hidden P th i j))).
  { split; [apply VL|]. intros i Hi. split; [apply VL; auto|]. intros j Hj. unfold SM. rewrite V by auto.
    apply K.cmul; auto. apply K.cboth. apply B; auto. }
  pose proof (ctranspose m FM n _ HF) as HFT. pose proof (ctranspose m SM n _ HS) as HST.
  set (Rs := zip (fun f y => I.sub prec (idot zero A f) y) FM Y).
  assert (HRs : vector n Rs (residual P th)).
  { destruct HF as [LF HF]. destruct HY as [LY HY]. split; [apply zip_length; auto|]. intros i Hi. unfold Rs.
    rewrite (zip_nth _ FM Y i [] zero); [|exact (eq_ind_r (fun q => (i < q)%nat) Hi LF)|exact (eq_ind_r (fun q => (i < q)%nat) Hi LY)]. apply K.csub; [|apply HY; auto].
    change (cont (idot zero A (nth i FM [])) (sum m (fun j => read_out P th j * features P th i j))).
    rewrite (sum_ext m _ (fun j => th (m * d + j)%nat * features P th i j)) by (intros j Hj; rewrite HR by auto; reflexivity).
    apply cdot; auto. }
  assert (GH : forall j l, (j < m)%nat -> (l < d)%nat -> grad n (residual P) (jac P dsg) th (j * d + l)%nat =
    sum n (fun i => th (m * d + j)%nat * (scale P * dsg (hidden P th i j)) * residual P th i * input P i l)).
  { intros j l Hj Hl. unfold grad, mtv. apply sum_ext. intros i Hi. unfold jac.
    rewrite (shaped_hidden P _ _ i j l Hj Hl). unfold slopes. rewrite HR by auto. ring. }
  assert (GO : forall j, (j < m)%nat -> grad n (residual P) (jac P dsg) th (m * d + j)%nat =
    sum n (fun i => free P (features P th) i j * residual P th i)).
  { intros j Hj. unfold grad, mtv. apply sum_ext. intros i Hi. unfold jac. rewrite (shaped_out P _ _ i j). reflexivity. }
  assert (Still : forall j, (j < m)%nat -> trained_read_out c = false ->
    vsub th (vsc e (grad n (residual P) (jac P dsg) th)) (m * d + j)%nat = th (m * d + j)%nat).
  { intros j Hj Ht. unfold vsub, vsc. rewrite GO by auto. rewrite (sum_ext n _ (fun _ => 0)), sum_0; [ring|].
    intros i Hi. unfold free. change (read_out_trained P) with (trained_read_out c). rewrite Ht. ring. }
  assert (W1 : matrix m d (zip (fun u q => let g := zip (fun s r => I.mul prec (I.mul prec (fst q) s) r) (snd q) Rs in
      zip (fun v x => I.sub prec v (I.mul prec eta (idot zero g x))) u (transpose d X)) W (zip pair A (transpose m SM)))
      (fun j l => vsub th (vsc e (grad n (residual P) (jac P dsg) th)) (j * d + l)%nat)).
  { destruct HW as [LW HW]. destruct HA as [LA HA]. destruct HST as [LS HST].
    assert (LP : length (zip pair A (transpose m SM)) = m) by (apply zip_length; auto).
    split; [apply zip_length; auto|]. intros j Hj. rewrite (zip_nth _ W _ j [] (zero, [])) by len.
    rewrite (zip_nth pair A _ j zero []) by len. cbv zeta. simpl fst. simpl snd.
    set (g := zip (fun s r => I.mul prec (I.mul prec (nth j A zero) s) r) (nth j (transpose m SM) []) Rs).
    assert (Hg : vector n g (fun i => th (m * d + j)%nat * (scale P * dsg (hidden P th i j)) * residual P th i)).
    { apply (czip _ _ _ n _ _ _ (HST j Hj) HRs). intros a b i Hi Ha Hb. apply K.cmul; auto. apply K.cmul; auto. }
    destruct HXT as [LXT HXT].
    split; [apply zip_length; [apply HW; auto|auto]|]. intros l Hl.
    rewrite (zip_nth _ (nth j W []) _ l zero []); [|destruct (HW j Hj) as [-> _]; auto|len].
    unfold vsub, vsc. rewrite GH by auto. apply K.csub; [apply (HW j Hj); auto|]. apply K.cmul; auto. apply cdot; auto. }
  destruct (trained_read_out c) eqn:Tr.
  - split; [|split; [exact W1|]].
    + simpl fst. destruct HA as [LA HA]. destruct HFT as [LF HFT]. split; [apply zip_length; auto|]. intros j Hj.
      rewrite (zip_nth _ A _ j zero []) by len. unfold vsub, vsc. rewrite GO by auto.
      apply K.csub; [apply HA; auto|]. apply K.cmul; auto.
      rewrite (sum_ext n _ (fun i => features P th i j * residual P th i)).
      * apply cdot; auto.
      * intros i Hi. unfold free. change (read_out_trained P) with (trained_read_out c). rewrite Tr. reflexivity.
    + intros j Hj. unfold read_out. change (read_out_trained P) with (trained_read_out c). rewrite Tr. reflexivity.
  - split; [|split; [exact W1|]].
    + simpl fst. destruct HA as [LA HA]. split; auto. intros j Hj. rewrite Still by auto. apply HA; auto.
    + intros j Hj. rewrite Still by auto. rewrite <- HR by auto. unfold read_out.
      change (read_out_trained P) with (trained_read_out c). rewrite Tr. reflexivity.
Qed.

Fixpoint steps (k : nat) (f : list I.type * list (list I.type) -> list I.type * list (list I.type)) (w : list I.type * list (list I.type)) :=
  match k with O => w | S k => steps k f (f w) end.
Definition enclosed (cs : list (Z * list Z)) : list I.type * list (list I.type) :=
  (numbers (over_a c) (map fst cs), map (fun u => numbers (over_w c) (snd u)) cs).
(* after k steps: the square of the distance from the anchor *)
Definition far (cs : list (Z * list Z)) (k : nat) : I.type :=
  let X := map (fun r => numbers (over_x c) (snd r)) (data c) in
  let Y := numbers (over_y c) (map fst (data c)) in
  let XT := transpose d X in
  let eta := K.irational prec (c_eta c) in let sc := K.irational prec (scale_of c) in
  let w := steps k (step eta sc X XT Y) (enclosed cs) in
  let w0 := enclosed (cells c) in
  let da := zip (I.sub prec) (fst w) (fst w0) in
  let dw := zip (fun u v => let e := zip (I.sub prec) u v in idot zero e e) (snd w) (snd w0) in
  fold_right (I.add prec) (idot zero da da) dw.
Definition same_heads (cs : list (Z * list Z)) : bool := forallb (fun p => Z.eqb (fst p) (snd p)) (combine (map fst cs) (map fst (cells c))).
Definition follow (cs : list (Z * list Z)) (k : nat) : bool :=
  Nat.eqb (length cs) m && forallb (fun u => Nat.eqb (length (snd u)) d) cs && forallb (fun u => Nat.eqb (length (snd u)) d) (cells c)
  && forallb (fun r => Nat.eqb (length (snd r)) d) (data c) && (trained_read_out c || same_heads cs)
  && K.le 0 (c_distance c)
  && K.nonneg (I.sub prec (K.irational prec (c_distance c * c_distance c)) (far cs k)).

Lemma enclosed_ok cs : length cs = m -> (forall j, (j < m)%nat -> length (snd (nth j cs row0)) = d) ->
  vector m (fst (enclosed cs)) (fun j => weights_of c cs (m * d + j)%nat) /\ matrix m d (snd (enclosed cs)) (fun j l => weights_of c cs (j * d + l)%nat).
Proof.
  intros Hl Hd. split.
  - simpl. destruct (cnumbers (over_a c) (map fst cs) m) as [L H]; [rewrite map_length; auto|]. split; auto. intros j Hj.
    specialize (H j Hj). unfold weights_of. fold d. rewrite <- Hl, pack_out. rewrite (nth_map fst cs j row0) in H by len. exact H.
  - simpl. split; [rewrite map_length; auto|]. intros j Hj. rewrite (nth_map _ _ _ row0) by len.
    destruct (cnumbers (over_w c) (snd (nth j cs row0)) d (Hd j Hj)) as [L H]. split; auto. intros l Hl'.
    unfold weights_of. fold d. rewrite pack_hidden by (auto; lia). apply H; auto.
Qed.
Lemma csum l : forall acc x f k, length l = k -> cont acc x -> (forall i, (i < k)%nat -> cont (nth i l zero) (f i)) -> cont (fold_right (I.add prec) acc l) (sum k f + x).
Proof.
  induction l as [|a l IH]; intros acc x f k Hk Ha H; simpl in Hk; subst k; [simpl; rewrite Rplus_0_l; auto|].
  rewrite sum_first, Rplus_assoc. simpl fold_right. apply K.cadd; [apply (H O); simpl; lia|].
  apply IH; auto. intros i Hi. apply (H (S i)). simpl; lia.
Qed.

Theorem follow_sound cs k : follow cs k = true ->
  norm (size P) (vsub (gd (rows P) (residual P) (jac P dsg) (weights_of c cs) (Q2R (c_eta c)) k) (anchor c)) <= Q2R (c_distance c).
Proof.
  unfold follow. rewrite !andb_true_iff. intros [[[[[[H1 H2] H3] H4] H5] H6] H7].
  apply Nat.eqb_eq in H1.
  assert (L2 : forall j, (j < m)%nat -> length (snd (nth j cs row0)) = d) by (intros j Hj; apply Nat.eqb_eq; apply (forallb_nth _ _ j row0 H2); lia).
  assert (L3 : forall j, (j < m)%nat -> length (snd (nth j (cells c) row0)) = d) by (intros j Hj; apply Nat.eqb_eq; apply (forallb_nth _ _ j row0 H3); exact Hj).
  assert (L4 : forall i, (i < n)%nat -> length (snd (nth i (data c) row0)) = d) by (intros i Hi; apply Nat.eqb_eq; apply (forallb_nth _ _ i row0 H4); exact Hi).
  change (rows P) with n.
  set (X := map (fun r => numbers (over_x c) (snd r)) (data c)). set (Y := numbers (over_y c) (map fst (data c))).
  assert (HX : matrix n d X (input P)).
  { split; [unfold X; rewrite map_length; auto|]. intros i Hi. unfold X. rewrite (nth_map _ _ _ row0) by exact Hi.
    destruct (cnumbers (over_x c) (snd (nth i (data c) row0)) d (L4 i Hi)) as [L H]. split; auto. }
  assert (HY : vector n Y (target P)).
  { destruct (cnumbers (over_y c) (map fst (data c)) n) as [L H]; [rewrite map_length; auto|]. split; auto. intros i Hi.
    specialize (H i Hi). rewrite (nth_map fst (data c) i row0) in H by exact Hi. exact H. }
  pose proof (K.crational prec (c_eta c)) as He. pose proof (K.crational prec (scale_of c)) as Hs.
  set (eta := K.irational prec (c_eta c)) in *. set (sc := K.irational prec (scale_of c)) in *.
  destruct (enclosed_ok cs H1 L2) as [E1 E2]. destruct (enclosed_ok (cells c) eq_refl L3) as [E3 E4].
  assert (S0 : state (enclosed cs) (weights_of c cs)).
  { split; [exact E1|]. split; [exact E2|]. intros j Hj. unfold read_out. change (read_out_trained P) with (trained_read_out c).
    destruct (trained_read_out c) eqn:Tr; [reflexivity|]. simpl in H5.
    unfold weights_of. fold d. rewrite <- H1, pack_out. simpl. f_equal. symmetry.
    unfold same_heads in H5. pose proof (forallb_nth _ _ j (fst row0, fst row0) H5) as Q.
    rewrite combine_length, !map_length, H1 in Q. fold m in Q. rewrite Nat.min_id in Q. specialize (Q Hj).
    rewrite combine_nth in Q by (rewrite !map_length; exact H1). simpl in Q. apply Z.eqb_eq in Q.
    change 0%Z with (fst row0) in Q. rewrite !map_nth in Q. exact Q. }
  assert (Run : forall k w th, state w th -> state (steps k (step eta sc X (transpose d X) Y) w) (gd n (residual P) (jac P dsg) th (Q2R (c_eta c)) k)).
  { clear -He Hs HX HY. induction k; intros w th H; simpl; auto.
    pose proof (IHk _ _ (cstep eta sc X Y _ w th He Hs HX HY H)) as Q.
    assert (E : forall k th, gd n (residual P) (jac P dsg) (vsub th (vsc (Q2R (c_eta c)) (grad n (residual P) (jac P dsg) th))) (Q2R (c_eta c)) k
       = vsub (gd n (residual P) (jac P dsg) th (Q2R (c_eta c)) k) (vsc (Q2R (c_eta c)) (grad n (residual P) (jac P dsg) (gd n (residual P) (jac P dsg) th (Q2R (c_eta c)) k)))).
    { clear. induction k; intros th; simpl; auto. rewrite IHk. reflexivity. }
    rewrite E in Q. exact Q. }
  specialize (Run k _ _ S0). set (w := steps k _ _) in *. set (th := gd n _ _ _ _ k) in *. destruct Run as [R1 [R2 _]].
  apply K.le_ok in H6. rewrite K.Q_0 in H6. apply norm_le; auto.
  assert (FarC : cont (far cs k) (ip (size P) (vsub th (anchor c)) (vsub th (anchor c)))).
  { unfold far. fold X Y eta sc. change (steps k (step eta sc X (transpose d X) Y) (enclosed cs)) with w.
    unfold ip, size. change (units P * inputs P + units P)%nat with (m * d + m)%nat. rewrite sum_split, sum_blocks.
    destruct R2 as [LW R2]. destruct E4 as [LW0 E4].
    apply csum.
    - apply zip_length; auto.
    - apply (cdot _ _ m (fun j => vsub th (anchor c) (m * d + j)%nat) (fun j => vsub th (anchor c) (m * d + j)%nat));
      apply (czip _ _ _ m _ _ _ R1 E3); intros a b i Hi Ha Hb; apply K.csub; auto.
    - intros j Hj. rewrite (zip_nth _ (snd w) _ j [] []) by len. cbv zeta.
      apply (cdot _ _ d (fun l => vsub th (anchor c) (j * d + l)%nat) (fun l => vsub th (anchor c) (j * d + l)%nat));
      apply (czip _ _ _ d _ _ _ (R2 j Hj) (E4 j Hj)); intros a b i Hi Ha Hb; apply K.csub; auto. }
  eapply K.nonneg_ok in H7; [|apply K.csub; [apply K.crational|exact FarC]]. rewrite Q2R_mult in H7. lra.
Qed.
End Following.

(* Theorem 8 and Theorem 1: from the stored initial weights *)
Corollary check_from fine prec N c cs k : K.check prec N c = true /\ follow fine c cs k = true ->
  trains (problem_of c) (Q2R (c_eta c)) (weights_of c cs) (anchor c) k (1 - Q2R (c_rate c)) (Q2R (radius c)) (c_further c) (Q2R (c_epsilon c)).
Proof. intros [H1 H2]. apply (K.check_sound prec N c H1). apply (follow_sound fine c cs k H2). Qed.
End Following.
