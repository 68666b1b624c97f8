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
Let m := length (cells c). Let d := width_of_inputs c. Let k := width_of_outputs c. Let ng := length (firsts c).
Let dsg := slope (activation_of c).
Let F := K.residual_of c.
Let J := K.jacobian_of c.

Definition numbers (dn : positive) (l : list Z) : list I.type := map (fun k => K.ratio prec k dn) l.
Lemma cnumbers dn l q : length l = q -> vector q (numbers dn l) (fun i => over (nth i l 0%Z) dn).
Proof.
  intros Hl. unfold numbers. split; [rewrite map_length; auto|]. intros i Hi. rewrite (nth_map _ _ _ 0%Z) by lia. apply K.cratio.
Qed.

Definition step (eta sc : I.type) (X XT : list (list I.type)) (NY : list (I.type * list I.type)) (w : list (list I.type) * list (list I.type)) : list (list I.type) * list (list I.type) :=
  let (A, W) := w in
  let g := K.both prec (activation_of c) in
  let VS := map (fun x => map (fun u => g (idot zero u x)) W) X in
  let FM := map (map (fun p => I.mul prec sc (fst p))) VS in
  let ST := transpose m (map (map (fun p => I.mul prec sc (snd p))) VS) in
  let AT := transpose k A in
  let R := zip (fun f ny => zip (fun a y => I.sub prec (I.mul prec (fst ny) (idot zero a f)) y) AT (snd ny)) FM NY in
  let RT := transpose k R in
  let A' := if trained_read_out c then zip (fun a f => zip (fun v r => I.sub prec v (I.mul prec eta (idot zero f r))) a RT) A (transpose m FM) else A in
  let W' := zip (fun u q => let g := zip (fun s r => I.mul prec s (idot zero (fst q) r)) (snd q) R in
                            zip (fun v x => I.sub prec v (I.mul prec eta (idot zero g x))) u XT) W (zip pair A ST) in
  (A', W').

(* the weights of a vector, and their enclosure *)
Definition state (w : list (list I.type) * list (list I.type)) (th : vec) : Prop :=
  matrix m k (fst w) (fun j o => th (m * d + (j * k + o))%nat) /\ matrix m d (snd w) (fun j l => th (j * d + l)%nat) /\
  forall j o, (j < m)%nat -> (o < k)%nat -> read_out P th o j = th (m * d + (j * k + o))%nat.

Hypothesis Counts : forall g, (g < ng)%nat -> (0 < count_of c g)%Z.
Let x (g : nat) : vec := input P (first_of c g).
Let sums (g o : nat) : R := over (target_of c g o) (over_y c).
(* the residual of a group times its count *)
Definition raw (th : vec) (g o : nat) : R := counts_of c g * network P th (first_of c g) o - over (target_of c g o) (over_y c).
Definition feature (th : vec) (g j : nat) : R := scale P * activation P (hidden P th (first_of c g) j).
Lemma gradient_raw th q : grad (ng * k) F J th q =
  sum ng (fun g => sum k (fun o => shaped P (first_of c) (slopes P dsg (first_of c) th) (free P (features P (first_of c) th)) (g * k + o)%nat q * raw th g o)).
Proof.
  unfold grad, mtv. rewrite sum_blocks. apply sum_ext. intros g Hg. apply sum_ext. intros o Ho.
  unfold J, F, K.jacobian_of, K.residual_of, jac, weighed, residual. change (outputs (problem_of c)) with k. destruct (idx k g o Ho) as [-> ->].
  pose proof (Counts g Hg) as C. apply IZR_lt in C. fold (counts_of c g) in C.
  assert (E : root (counts_of c) g * root (counts_of c) g = counts_of c g) by (apply sqrt_sqrt; lra).
  unfold raw. replace (over (target_of c g o) (over_y c)) with (counts_of c g * mean_of c g o) by (unfold mean_of; field; lra).
  fold P dsg. rewrite <- Rmult_minus_distr_l, <- E. ring.
Qed.

(* lengths are compared up to conversion: the types of intervals have two names *)
Ltac len := first [lia | eapply Nat.lt_le_trans; [eassumption|apply Nat.eq_le_incl; symmetry; eassumption]].
Lemma cstep eta sc X NY e w th : cont eta e -> cont sc (scale P) -> matrix ng d X x ->
  (length NY = ng /\ forall g, (g < ng)%nat -> cont (fst (nth g NY (zero, []))) (counts_of c g) /\ vector k (snd (nth g NY (zero, []))) (sums g)) ->
  state w th -> state (step eta sc X (transpose d X) NY w) (vsub th (vsc e (grad (ng * k) F J th))).
Proof.
  intros He Hs HX [LN HN]. destruct w as [A W]. intros [HA [HW HR]]. simpl fst in HA. simpl snd in HW.
  pose proof (ctranspose d X ng _ HX) as HXT. pose proof (ctranspose k A m _ HA) as HAT.
  assert (B : forall g j, (g < ng)%nat -> (j < m)%nat -> cont (idot zero (nth j W []) (nth g X [])) (hidden P th (first_of c g) j)).
  { intros g j Hg Hj. apply cdot; [apply HW; auto|apply HX; auto]. }
  unfold step. set (VS := map _ X).
  assert (V : forall f g j, (g < ng)%nat -> (j < m)%nat -> nth j (nth g (map (map f) VS) []) zero = f (K.both prec (activation_of c) (idot zero (nth j W []) (nth g X [])))).
  { intros f g j Hg Hj. destruct HX as [LX _]. destruct HW as [LW _]. unfold VS. rewrite map_map.
    rewrite (nth_map _ _ _ []) by len. rewrite map_map, (nth_map _ _ _ []) by len. reflexivity. }
  assert (VL : forall f, length (map (map f) VS) = ng /\ forall g, (g < ng)%nat -> length (nth g (map (map f) VS) (@nil I.type)) = m).
  { intros f. destruct HX as [LX _]. destruct HW as [LW _]. split; [unfold VS; rewrite !map_length; auto|].
    intros g Hg. unfold VS. rewrite map_map, (nth_map _ _ _ []), !map_length by len. auto. }
  set (FM := map (map (fun p => I.mul prec sc (fst p))) VS).
  set (SM := map (map (fun p => I.mul prec sc (snd p))) VS).
  assert (HF : matrix ng m FM (feature th)).
  { split; [apply VL|]. intros g Hg. split; [apply VL; auto|]. intros j Hj. unfold FM. rewrite V by auto.
    apply K.cmul; auto. apply K.cboth. apply B; auto. }
  assert (HS : matrix ng m SM (fun g j => scale P * dsg (hidden P th (first_of c g) j))).
  { split; [apply VL|]. intros g Hg. split; [apply VL; auto|]. intros j Hj. unfold SM. rewrite V by auto.
    apply K.cmul; auto. apply K.cboth. apply B; auto. }
  pose proof (ctranspose m FM ng _ HF) as HFT. pose proof (ctranspose m SM ng _ HS) as HST.
  set (Rs := zip (fun f ny => zip (fun a y => I.sub prec (I.mul prec (fst ny) (idot zero a f)) y) (transpose k A) (snd ny)) FM NY).
  assert (HRs : matrix ng k Rs (raw th)).
  { destruct HF as [LF HF]. split; [apply zip_length; auto|]. intros g Hg. unfold Rs.
    rewrite (zip_nth _ FM NY g [] (zero, [])); [|exact (eq_ind_r (fun q => (g < q)%nat) Hg LF)|exact (eq_ind_r (fun q => (g < q)%nat) Hg LN)].
    destruct (HN g Hg) as [N1 N2]. destruct HAT as [LAT HAT].
    split; [apply zip_length; [exact LAT|apply N2]|]. intros o Ho.
    rewrite (zip_nth _ (transpose k A) _ o [] zero); [|exact (eq_ind_r (fun q => (o < q)%nat) Ho LAT)|exact (eq_ind_r (fun q => (o < q)%nat) Ho (proj1 N2))].
    unfold raw. apply K.csub; [|apply N2; auto]. apply K.cmul; [exact N1|].
    change (cont (idot zero (nth o (transpose k A) []) (nth g FM [])) (sum m (fun j => read_out P th o j * feature th g j))).
    rewrite (sum_ext m _ (fun j => th (m * d + (j * k + o))%nat * feature th g j)) by (intros j Hj; rewrite HR by auto; reflexivity).
    apply (cdot _ _ m (fun j => th (m * d + (j * k + o))%nat) (feature th g)); auto. }
  pose proof (ctranspose k Rs ng _ HRs) as HRT.
  assert (GH : forall j l, (j < m)%nat -> (l < d)%nat -> grad (ng * k) F J th (j * d + l)%nat =
    sum ng (fun g => (scale P * dsg (hidden P th (first_of c g) j)) * sum k (fun o => th (m * d + (j * k + o))%nat * raw th g o) * x g l)).
  { intros j l Hj Hl. rewrite gradient_raw. apply sum_ext. intros g Hg.
    rewrite (Rmult_comm (_ * _) (x g l)), <- Rmult_assoc, <- sum_scal. apply sum_ext. intros o Ho.
    rewrite (shaped_hidden P ng (first_of c) _ _ (g * k + o) j l Hj Hl). unfold slopes. change (outputs P) with k. destruct (idx k g o Ho) as [-> ->]. rewrite HR by auto. fold (x g). ring. }
  assert (GO : forall j o, (j < m)%nat -> (o < k)%nat -> grad (ng * k) F J th (m * d + (j * k + o))%nat =
    sum ng (fun g => (if trained_read_out c then feature th g j else 0) * raw th g o)).
  { intros j o Hj Ho. rewrite gradient_raw. apply sum_ext. intros g Hg.
    rewrite <- (sum_pick k o (fun o' => (if trained_read_out c then feature th g j else 0) * raw th g o')) by auto. apply sum_ext. intros o' Ho'.
    rewrite (shaped_out P ng (first_of c) _ _ (g * k + o') j o Ho). unfold free, features. change (outputs P) with k. change (read_out_trained P) with (trained_read_out c).
    destruct (idx k g o' Ho') as [-> ->]. rewrite (Nat.eqb_sym o' o). destruct (Nat.eqb o o'); [reflexivity|ring]. }
  assert (Still : forall j o, (j < m)%nat -> (o < k)%nat -> trained_read_out c = false ->
    vsub th (vsc e (grad (ng * k) F J th)) (m * d + (j * k + o))%nat = th (m * d + (j * k + o))%nat).
  { intros j o Hj Ho Ht. unfold vsub, vsc. rewrite GO, Ht by auto. rewrite (sum_ext ng _ (fun _ => 0)), sum_0 by (intros; ring). ring. }
  assert (W1 : matrix m d (zip (fun u q => let g := zip (fun s r => I.mul prec s (idot zero (fst q) r)) (snd q) Rs in
      zip (fun v x => I.sub prec v (I.mul prec eta (idot zero g x))) u (transpose d X)) W (zip pair A (transpose m SM)))
      (fun j l => vsub th (vsc e (grad (ng * k) F J th)) (j * d + l)%nat)).
  { destruct HW as [LW HW]. destruct HA as [LA HA]. destruct HST as [LS HST].
    assert (LP : length (zip pair A (transpose m SM)) = m) by (apply zip_length; auto).
    split; [apply zip_length; auto|]. intros j Hj. rewrite (zip_nth _ W _ j [] ([], [])) by len.
    rewrite (zip_nth pair A _ j [] []) by len. cbv zeta. simpl fst. simpl snd.
    set (gv := zip (fun s r => I.mul prec s (idot zero (nth j A []) r)) (nth j (transpose m SM) []) Rs).
    assert (Hg : vector ng gv (fun g => scale P * dsg (hidden P th (first_of c g) j) * sum k (fun o => th (m * d + (j * k + o))%nat * raw th g o))).
    { destruct HRs as [LR HRs]. destruct (HST j Hj) as [LS1 HS1]. split; [apply zip_length; auto|]. intros g Hg. unfold gv.
      rewrite (zip_nth _ (nth j (transpose m SM) []) Rs g zero []); [|exact (eq_ind_r (fun q => (g < q)%nat) Hg LS1)|exact (eq_ind_r (fun q => (g < q)%nat) Hg LR)].
      apply K.cmul; [apply HS1; auto|]. apply (cdot _ _ k (fun o => th (m * d + (j * k + o))%nat) (raw th g)); auto. }
    destruct HXT as [LXT HXT].
    split; [apply zip_length; [apply HW; auto|auto]|]. intros l Hl.
    rewrite (zip_nth _ (nth j W []) _ l zero []); [|destruct (HW j Hj) as [-> _]; auto|len].
    unfold vsub, vsc. rewrite GH by auto. apply K.csub; [apply (HW j Hj); auto|]. apply K.cmul; auto. apply cdot; auto. }
  destruct (trained_read_out c) eqn:Tr.
  - split; [|split; [exact W1|]].
    + simpl fst. destruct HA as [LA HA]. destruct HFT as [LF HFT]. destruct HRT as [LRT HRT]. split; [apply zip_length; auto|]. intros j Hj.
      rewrite (zip_nth _ A _ j [] []) by len. destruct (HA j Hj) as [LA1 HA1]. split; [apply zip_length; auto|]. intros o Ho.
      rewrite (zip_nth _ (nth j A []) _ o zero []); [|exact (eq_ind_r (fun q => (o < q)%nat) Ho LA1)|exact (eq_ind_r (fun q => (o < q)%nat) Ho LRT)].
      unfold vsub, vsc. rewrite GO by auto. apply K.csub; [apply HA1; auto|]. apply K.cmul; auto.
      apply (cdot _ _ ng (fun g => feature th g j) (fun g => raw th g o)); auto.
    + intros j o Hj Ho. unfold read_out. change (read_out_trained P) with (trained_read_out c). rewrite Tr. reflexivity.
  - split; [|split; [exact W1|]].
    + simpl fst. destruct HA as [LA HA]. split; auto. intros j Hj. destruct (HA j Hj) as [LA1 HA1]. split; auto. intros o Ho. rewrite Still by auto. apply HA1; auto.
    + intros j o Hj Ho. rewrite Still by auto. rewrite <- HR by auto. unfold read_out.
      change (read_out_trained P) with (trained_read_out c). rewrite Tr. reflexivity.
Qed.

Fixpoint steps (q : nat) (f : list (list I.type) * list (list I.type) -> list (list I.type) * list (list I.type)) (w : list (list I.type) * list (list I.type)) :=
  match q with O => w | S q => steps q f (f w) end.
Definition enclosed (cs : list (list Z * list Z)) : list (list I.type) * list (list I.type) :=
  (map (fun u => numbers (over_a c) (fst u)) cs, map (fun u => numbers (over_w c) (snd u)) cs).
Definition distances (A B : list (list I.type)) : list I.type := zip (fun u v => let e := zip (I.sub prec) u v in idot zero e e) A B.
(* after so many steps: the square of the distance from the anchor *)
Definition far (cs : list (list Z * list Z)) (q : nat) : I.type :=
  let X := map (fun f => numbers (over_x c) (snd (nth f (data c) row0))) (firsts c) in
  let NY := map (fun g => (I.fromZ prec (count_of c g), map (fun o => K.ratio prec (target_of c g o) (over_y c)) (seq 0 k))) (seq 0 ng) in
  let XT := transpose d X in
  let eta := K.irational prec (c_eta c) in let sc := K.irational prec (scale_of c) in
  let w := steps q (step eta sc X XT NY) (enclosed cs) in
  let w0 := enclosed (cells c) in
  fold_right (I.add prec) (fold_right (I.add prec) zero (distances (fst w) (fst w0))) (distances (snd w) (snd w0)).
Definition same_heads (cs : list (list Z * list Z)) : bool := forallb (fun p => K.same (fst (fst p)) (fst (snd p))) (combine cs (cells c)).
Definition long (l : list (list Z * list Z)) : bool := forallb (fun u => Nat.eqb (length (snd u)) d && Nat.eqb (length (fst u)) k) l.
Definition follow (cs : list (list Z * list Z)) (q : nat) : bool :=
  Nat.eqb (length cs) m && long cs && long (cells c) && long (data c)
  && forallb (fun f => Nat.ltb f (length (data c))) (firsts c) && forallb (fun g => Z.ltb 0 (count_of c g)) (seq 0 ng)
  && (trained_read_out c || same_heads cs)
  && K.le 0 (c_distance c)
  && K.nonneg (I.sub prec (K.irational prec (c_distance c * c_distance c)) (far cs q)).

Lemma long_ok l i : long l = true -> (i < length l)%nat -> length (snd (nth i l row0)) = d /\ length (fst (nth i l row0)) = k.
Proof. intros H Hi. pose proof (forallb_nth _ _ i row0 H Hi) as Q. cbv beta in Q. rewrite andb_true_iff, !Nat.eqb_eq in Q. exact Q. Qed.
Lemma enclosed_ok cs : length cs = m -> long cs = true ->
  matrix m k (fst (enclosed cs)) (fun j o => weights_of c cs (m * d + (j * k + o))%nat) /\ matrix m d (snd (enclosed cs)) (fun j l => weights_of c cs (j * d + l)%nat).
Proof.
  intros Hl Hd. split; (split; [simpl; rewrite map_length; auto|]); intros j Hj; simpl; rewrite (nth_map _ _ _ row0) by len;
    destruct (long_ok cs j Hd ltac:(lia)) as [D1 D2].
  - destruct (cnumbers (over_a c) (fst (nth j cs row0)) k D2) as [L H]. split; auto. intros o Ho.
    unfold weights_of. fold d k. rewrite <- Hl, pack_out by auto. apply H; auto.
  - destruct (cnumbers (over_w c) (snd (nth j cs row0)) d D1) as [L H]. split; auto. intros l Hl'.
    unfold weights_of. fold d k. rewrite pack_hidden by (auto; lia). apply H; auto.
Qed.
Lemma csum l : forall acc y f q, length l = q -> cont acc y -> (forall i, (i < q)%nat -> cont (nth i l zero) (f i)) -> cont (fold_right (I.add prec) acc l) (sum q f + y).
Proof.
  induction l as [|a l IH]; intros acc y f q Hk Ha H; simpl in Hk; subst q; [simpl; rewrite Rplus_0_l; auto|].
  rewrite sum_first, Rplus_assoc. simpl fold_right. apply K.cadd; [apply (H O); simpl; lia|].
  apply IH; auto. intros i Hi. apply (H (S i)). simpl; lia.
Qed.
Lemma cdistances q r A B f g : matrix q r A f -> matrix q r B g -> length (distances A B) = q /\
  forall i, (i < q)%nat -> cont (nth i (distances A B) zero) (sum r (fun l => (f i l - g i l) * (f i l - g i l))).
Proof.
  intros [LA HA] [LB HB]. split; [apply zip_length; auto|]. intros i Hi. unfold distances. rewrite (zip_nth _ A B i [] []) by len. cbv zeta.
  apply (cdot _ _ r (fun l => f i l - g i l) (fun l => f i l - g i l)); apply (czip _ _ _ r _ _ _ (HA i Hi) (HB i Hi)); intros a b l Hl Ha Hb; apply K.csub; auto.
Qed.
End Following.

Theorem follow_sound prec c cs q : follow prec c cs q = true -> let P := problem_of c in
  norm (size P) (vsub (gd (K.cases_of c) (K.residual_of c) (K.jacobian_of c) (weights_of c cs) (Q2R (c_eta c)) q) (anchor c)) <= Q2R (c_distance c).
Proof.
  set (m := length (cells c)). set (d := width_of_inputs c). set (k := width_of_outputs c). set (ng := length (firsts c)).
  unfold follow. rewrite !andb_true_iff. cbv zeta. intros [[[[[[[[H1 H2] H3] H4] H5] H6] H7] H8] H9]. set (P := problem_of c).
  apply Nat.eqb_eq in H1. fold m in H1.
  assert (Counts : forall g, (g < ng)%nat -> (0 < count_of c g)%Z).
  { intros g Hg. apply Z.ltb_lt. pose proof (forallb_nth _ _ g O H6 ltac:(rewrite seq_length; exact Hg)) as Q. cbv beta in Q. rewrite seq_nth in Q by exact Hg. exact Q. }
  change (K.cases_of c) with (ng * k)%nat. set (F := K.residual_of c). set (J := K.jacobian_of c).
  set (X := map (fun f => numbers prec (over_x c) (snd (nth f (data c) row0))) (firsts c)).
  set (NY := map (fun g => (I.fromZ prec (count_of c g), map (fun o => K.ratio prec (target_of c g o) (over_y c)) (seq 0 k))) (seq 0 ng)).
  assert (HX : matrix prec ng d X (fun g => input P (first_of c g))).
  { split; [unfold X; rewrite map_length; auto|]. intros g Hg. unfold X. rewrite (nth_map _ _ _ O) by exact Hg. fold (first_of c g).
    assert (Hf : (first_of c g < length (data c))%nat) by (apply Nat.ltb_lt; apply (forallb_nth (fun f => Nat.ltb f (length (data c))) (firsts c) g O H5 Hg)).
    destruct (cnumbers prec c (over_x c) (snd (nth (first_of c g) (data c) row0)) d (proj1 (long_ok c _ _ H4 Hf))) as [L H]. split; auto. }
  assert (HY : length NY = ng /\ forall g, (g < ng)%nat -> K.cont (fst (nth g NY (zero prec, []))) (counts_of c g) /\ vector prec k (snd (nth g NY (zero prec, []))) (fun o => over (target_of c g o) (over_y c))).
  { split; [unfold NY; rewrite map_length, seq_length; auto|]. intros g Hg. unfold NY. rewrite (nth_map _ _ _ O), seq_nth by (rewrite ?seq_length; exact Hg). simpl fst. simpl snd.
    split; [apply K.cZ|]. split; [rewrite map_length, seq_length; auto|]. intros o Ho. rewrite (nth_map _ _ _ O), seq_nth by (rewrite ?seq_length; exact Ho). apply K.cratio. }
  pose proof (K.crational prec (c_eta c)) as He. pose proof (K.crational prec (scale_of c)) as Hs.
  set (eta := K.irational prec (c_eta c)) in *. set (sc := K.irational prec (scale_of c)) in *.
  destruct (enclosed_ok prec c cs H1 H2) as [E1 E2]. destruct (enclosed_ok prec c (cells c) eq_refl H3) as [E3 E4].
  assert (S0 : state prec c (enclosed prec c cs) (weights_of c cs)).
  { split; [exact E1|]. split; [exact E2|]. intros j o Hj Ho. unfold read_out. change (read_out_trained (problem_of c)) with (trained_read_out c).
    destruct (trained_read_out c) eqn:Tr; [reflexivity|]. simpl in H7.
    pose proof (pack_out d k (over_w c) (over_a c) cs j o Ho) as E. rewrite H1 in E.
    transitivity (over (head cs j o) (over_a c)); [|symmetry; exact E].
    change (over (head (cells c) ((j * k + o) / k) ((j * k + o) mod k)) (over_a c) = over (head cs j o) (over_a c)). destruct (idx k j o Ho) as [-> ->]. f_equal.
    unfold same_heads in H7. pose proof (forallb_nth _ _ j (row0, row0) H7) as Q.
    rewrite combine_length, H1 in Q. fold m in Q. rewrite Nat.min_id in Q. specialize (Q Hj).
    rewrite combine_nth in Q by exact H1. cbn [fst snd] in Q. apply K.same_ok in Q. unfold head. rewrite Q. reflexivity. }
  assert (Run : forall q w th, state prec c w th -> state prec c (steps q (step prec c eta sc X (transpose d X) NY) w) (gd (ng * k) F J th (Q2R (c_eta c)) q)).
  { clear -He Hs HX HY Counts. induction q; intros w th H; simpl; auto.
    pose proof (IHq _ _ (cstep prec c Counts eta sc X NY _ w th He Hs HX HY H)) as Q.
    assert (E : forall q th, gd (ng * k) F J (vsub th (vsc (Q2R (c_eta c)) (grad (ng * k) F J th))) (Q2R (c_eta c)) q
       = vsub (gd (ng * k) F J th (Q2R (c_eta c)) q) (vsc (Q2R (c_eta c)) (grad (ng * k) F J (gd (ng * k) F J th (Q2R (c_eta c)) q)))).
    { clear. induction q; intros th; simpl; auto. rewrite IHq. reflexivity. }
    rewrite <- E. exact Q. }
  specialize (Run q _ _ S0). set (w := steps q _ _) in *. set (th := gd _ _ _ _ _ q) in *. destruct Run as [R1 [R2 _]].
  apply K.le_ok in H8. rewrite K.Q_0 in H8. apply norm_le; auto.
  assert (FarC : K.cont (far prec c cs q) (ip (size P) (vsub th (anchor c)) (vsub th (anchor c)))).
  { unfold far. change (steps q _ _) with w.
    unfold ip, size. change (units P * inputs P + units P * outputs P)%nat with (m * d + m * k)%nat. rewrite sum_split, !sum_blocks.
    destruct (cdistances prec c m d _ _ _ _ R2 E4) as [D1 D2]. destruct (cdistances prec c m k _ _ _ _ R1 E3) as [D3 D4].
    apply (csum prec c); [exact D1| |exact D2]. rewrite <- (Rplus_0_r (sum m _)). apply (csum prec c); [exact D3|apply K.cZ|exact D4]. }
  eapply K.nonneg_ok in H9; [|apply K.csub; [apply K.crational|exact FarC]]. rewrite Q2R_mult in H9. lra.
Qed.

(* Theorem 8 and Theorem 1: from the stored initial weights *)
Corollary check_from fine prec N c cs q : K.check prec N c = true /\ follow fine c cs q = true ->
  trains (problem_of c) (Q2R (c_eta c)) (weights_of c cs) (anchor c) q (1 - Q2R (c_rate c)) (Q2R (radius c)) (c_further c) (Q2R (c_epsilon c)) (Q2R (c_least c)).
Proof. intros [H1 H2]. apply (K.check_sound prec N c H1). apply (follow_sound fine c cs q H2). Qed.
End Following.
