(* The error function: its slope, how fast that changes, a series with its remainder, and its tail. *)
From Coq Require Import Reals Lra Lia Psatz ZArith.
From Coquelicot Require Import Coquelicot.
From Interval Require Import Interval.Float_full Interval.Interval Float.Specific_stdz Float.Specific_ops Float.Basic Float.Sig Real.Xreal.
From Wideproof Require Import Statement theories.Vectors.
Open Scope R_scope.

Definition gauss (x : R) : R := exp (- (x * x)).
Definition area_of_gauss (x : R) : R := RInt (fun t => exp (- (t * t))) 0 x.
Definition derf (x : R) : R := 2 / sqrt PI * gauss x.
Ltac real := match goal with |- @eq _ ?a ?b => change (@eq R a b) end.
(* two numbers, in intervals over plain whole numbers: no axioms but those of the reals *)
Module Constants.
Module F := SpecificFloat StdZRadix2.
Module I := FloatIntervalFull F.
Definition prec : F.precision := F.PtoP 60.
Lemma positive d x : contains (I.convert d) (Xreal x) -> match I.sign_large d with Xgt => true | _ => false end = true -> 0 <= x.
Proof.
  intros C H. pose proof (I.sign_large_correct d) as S. destruct (I.sign_large d); try discriminate.
  apply S in C. apply C.
Qed.
Lemma contains_ratio a b : b <> 0%Z -> contains (I.convert (I.div prec (I.fromZ prec a) (I.fromZ prec b))) (Xreal (IZR a / IZR b)).
Proof.
  intros H. pose proof (I.div_correct prec _ _ _ _ (I.fromZ_correct prec a) (I.fromZ_correct prec b)) as C.
  simpl in C. unfold Xdiv' in C. rewrite is_zero_false in C by (apply IZR_neq; auto). exact C.
Qed.
Lemma pi_low : 314159265 / 100000000 <= PI.
Proof.
  apply Rminus_le_0.
  apply (positive (I.sub prec (I.pi prec) (I.div prec (I.fromZ prec 314159265) (I.fromZ prec 100000000)))); [|vm_compute; reflexivity].
  apply (I.sub_correct prec _ _ (Xreal PI) (Xreal (314159265 / 100000000))); [apply I.pi_correct|apply contains_ratio; lia].
Qed.
Lemma e_low : exp (-1) <= 367879442 / 1000000000.
Proof.
  apply Rminus_le_0.
  apply (positive (I.sub prec (I.div prec (I.fromZ prec 367879442) (I.fromZ prec 1000000000)) (I.exp prec (I.fromZ prec (-1))))); [|vm_compute; reflexivity].
  apply (I.sub_correct prec _ _ (Xreal (367879442 / 1000000000)) (Xreal (exp (-1)))); [apply contains_ratio; lia|].
  apply (I.exp_correct prec _ (Xreal (-1))). apply I.fromZ_correct.
Qed.
End Constants.
Lemma root_pi : 0 < 2 / sqrt PI <= 112837917 / 100000000.
Proof.
  pose proof Constants.pi_low. assert (P : 0 < sqrt PI) by (apply sqrt_lt_R0; lra). split; [apply Rdiv_lt_0_compat; lra|].
  apply Rmult_le_reg_r with (sqrt PI); auto. unfold Rdiv at 1. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra.
  apply Rsqr_incr_0; unfold Rsqr; [|lra|lra].
  replace (112837917 / 100000000 * sqrt PI * (112837917 / 100000000 * sqrt PI)) with (112837917 / 100000000 * (112837917 / 100000000) * (sqrt PI * sqrt PI)) by ring.
  rewrite sqrt_def; lra.
Qed.
Lemma root_pi_square : 2 / sqrt PI * (2 / sqrt PI) * PI = 4.
Proof.
  pose proof Constants.pi_low. assert (P : 0 < sqrt PI) by (apply sqrt_lt_R0; lra).
  rewrite <- (sqrt_def PI) at 3 by lra. field. lra.
Qed.
Lemma gauss_bound x : 0 < gauss x <= 1.
Proof.
  split; [apply exp_pos|]. unfold gauss. rewrite <- exp_0. destruct (Req_dec x 0) as [->|N]; [right; f_equal; ring|].
  left. apply exp_increasing. nra.
Qed.
Lemma gauss_derive x : is_derive gauss x (- (2 * x) * gauss x).
Proof. unfold gauss. auto_derive; auto. ring. Qed.
Lemma area_derive x : is_derive area_of_gauss x (gauss x).
Proof.
  assert (C : forall t, continuous (fun t => exp (- (t * t))) t).
  { intros t. apply (ex_derive_continuous (fun t => exp (- (t * t)))). auto_derive; auto. }
  apply (is_derive_RInt (fun t => exp (- (t * t))) area_of_gauss 0 x); [|apply C].
  exists posreal_one. intros y _. apply (@RInt_correct R_CompleteNormedModule). apply (@ex_RInt_continuous R_CompleteNormedModule). intros; apply C.
Qed.
Lemma area_0 : area_of_gauss 0 = 0.
Proof. unfold area_of_gauss. rewrite RInt_point. reflexivity. Qed.
Lemma erf_area x : erf x = 2 / sqrt PI * area_of_gauss x.
Proof. reflexivity. Qed.
Lemma erf_derive x : is_derive erf x (derf x).
Proof. apply (is_derive_scal area_of_gauss x (2 / sqrt PI)), area_derive. Qed.
Lemma derf_bound x : Rabs (derf x) <= 112837917 / 100000000.
Proof. unfold derf. pose proof root_pi. pose proof (gauss_bound x). rewrite Rabs_right by nra. nra. Qed.
Lemma derf_derive x : is_derive derf x (2 / sqrt PI * (- (2 * x) * gauss x)).
Proof. apply is_derive_scal, gauss_derive. Qed.
(* |x| exp (-x^2) is largest at 1/sqrt 2: exp (2 x^2 - 1) >= 2 x^2 *)
Lemma derf_slope_bound x : Rabs (2 / sqrt PI * (- (2 * x) * gauss x)) <= 96788290 / 100000000.
Proof.
  assert (G : 2 * (x * x) * (gauss x * gauss x) <= exp (-1)).
  { pose proof (exp_ineq1_le (2 * (x * x) - 1)) as Q. replace (1 + (2 * (x * x) - 1)) with (2 * (x * x)) in Q by ring.
    unfold gauss. rewrite <- exp_plus.
    replace (exp (-1)) with (exp (2 * (x * x) - 1) * exp (- (x * x) + - (x * x))) by (rewrite <- exp_plus; f_equal; ring).
    apply Rmult_le_compat_r; [apply Rlt_le, exp_pos|exact Q]. }
  assert (E : (2 / sqrt PI) * (2 / sqrt PI) * (2 * exp (-1)) <= (96788290 / 100000000) * (96788290 / 100000000)).
  { pose proof Constants.pi_low. pose proof Constants.e_low. pose proof (exp_pos (-1)). apply Rmult_le_reg_r with PI; [lra|].
    replace (2 / sqrt PI * (2 / sqrt PI) * (2 * exp (-1)) * PI) with (2 / sqrt PI * (2 / sqrt PI) * PI * (2 * exp (-1))) by ring. rewrite root_pi_square. lra. }
  set (k := 2 / sqrt PI) in *. rewrite <- (Rabs_right (96788290 / 100000000)) by lra. apply Rsqr_le_abs_0. unfold Rsqr.
  replace (k * (- (2 * x) * gauss x) * (k * (- (2 * x) * gauss x))) with (k * k * (2 * (2 * (x * x) * (gauss x * gauss x)))) by ring.
  eapply Rle_trans; [|exact E]. apply Rmult_le_compat_l; [nra|lra].
Qed.

(* The series exp (-x^2) (x + 2 x^3 / 3 + 4 x^5 / 15 + ...): coefficient k is 2^k / (1 3 ... (2 k + 1)). *)
Fixpoint coefficient (k : nat) : R := match k with O => 1 | S j => coefficient j * (2 / (2 * INR k + 1)) end.
Lemma coefficient_pos k : 0 < coefficient k.
Proof.
  induction k; [simpl; lra|]. change (0 < coefficient k * (2 / (2 * INR (S k) + 1))). apply Rmult_lt_0_compat; auto.
  pose proof (pos_INR (S k)). apply Rdiv_lt_0_compat; lra.
Qed.
Definition series (n : nat) (x : R) : R := sum n (fun k => coefficient k * (x * x) ^ k).
Lemma coefficient_next k : coefficient (S k) * (2 * INR (S k) + 1) = 2 * coefficient k.
Proof. change (coefficient (S k)) with (coefficient k * (2 / (2 * INR (S k) + 1))). pose proof (pos_INR (S k)). field. lra. Qed.
Lemma power_derive k x : is_derive (fun x => x * (x * x) ^ k) x ((2 * INR k + 1) * (x * x) ^ k).
Proof.
  apply (is_derive_ext (fun x => x ^ (2 * k + 1))); [intros t; rewrite pow_add, pow_mult; simpl; rewrite !Rmult_1_r; apply Rmult_comm|].
  evar_last; [apply is_derive_pow; apply @is_derive_id|]. replace (pred (2 * k + 1)) with (2 * k)%nat by lia.
  replace (INR (2 * k + 1)) with (2 * INR k + 1) by (rewrite plus_INR, mult_INR; simpl; ring).
  rewrite pow_mult. replace (x ^ 2) with (x * x) by ring. unfold one; simpl. ring.
Qed.
Lemma series_derive n x : is_derive (fun x => gauss x * (x * series n x)) x
  (gauss x * (1 - coefficient n * (2 * INR n + 1) * (x * x) ^ n)).
Proof.
  induction n as [|n IH].
  - simpl coefficient. simpl INR. simpl pow. apply (is_derive_ext (fun _ => 0)); [intros; unfold series; simpl; symmetry; ring|].
    replace (gauss x * (1 - 1 * (2 * 0 + 1) * 1)) with 0 by ring. apply @is_derive_const.
  - apply (is_derive_ext (fun x => gauss x * (x * series n x) + coefficient n * (gauss x * (x * (x * x) ^ n)))).
    { intros t. unfold series. simpl sum. real. ring. }
    evar_last; [apply @is_derive_plus; [exact IH|]; apply is_derive_scal; apply is_derive_Reals;
      apply (derivable_pt_lim_mult gauss (fun x => x * (x * x) ^ n)); apply is_derive_Reals; [apply gauss_derive|apply power_derive]|].
    rewrite coefficient_next. unfold plus; simpl. ring.
Qed.
(* the remainder is between 0 and the next term, as soon as 4 x^2 <= 2 n + 1 *)
Lemma remainder n x : 4 * (x * x) <= 2 * INR n + 1 -> 0 <= x ->
  0 <= area_of_gauss x - gauss x * (x * series n x) <= 2 * (coefficient n * (gauss x * (x * (x * x) ^ n))).
Proof.
  intros Hn Hx.
  set (D := fun t => area_of_gauss t - gauss t * (t * series n t)).
  set (c := coefficient n) in *. pose proof (coefficient_pos n) as Pc. fold c in Pc.
  set (D' := fun t => c * (2 * INR n + 1) * (gauss t * (t * t) ^ n)).
  assert (H : forall t, is_derive D t (D' t)).
  { intros t. unfold D, D'. evar_last; [apply @is_derive_minus; [apply area_derive|apply series_derive]|].
    unfold minus, plus, opp; simpl. fold c. ring. }
  assert (P : forall t, 0 <= D' t).
  { intros t. unfold D'. pose proof (pos_INR n). pose proof (gauss_bound t). assert (0 <= (t * t) ^ n) by (apply pow_le; nra).
    repeat apply Rmult_le_pos; lra. }
  assert (Z : D 0 = 0) by (unfold D; rewrite area_0; ring).
  set (B := fun t => 2 * (c * (gauss t * (t * (t * t) ^ n)))).
  set (B' := fun t => 2 * (c * (gauss t * ((2 * INR n + 1 - 2 * (t * t)) * (t * t) ^ n)))).
  assert (HB : forall t, is_derive B t (B' t)).
  { intros t. unfold B, B'. evar_last; [apply is_derive_scal, is_derive_scal; apply is_derive_Reals;
      apply (derivable_pt_lim_mult gauss (fun x => x * (x * x) ^ n)); apply is_derive_Reals; [apply gauss_derive|apply power_derive]|]. ring. }
  assert (Up : forall t, 0 <= t <= x -> D' t <= B' t).
  { intros t Ht. unfold D', B'. pose proof (gauss_bound t). assert (0 <= (t * t) ^ n) by (apply pow_le; nra).
    assert (t * t <= x * x) by (apply Rmult_le_compat; lra).
    replace (2 * (c * (gauss t * ((2 * INR n + 1 - 2 * (t * t)) * (t * t) ^ n)))) with (c * (2 * (2 * INR n + 1 - 2 * (t * t))) * (gauss t * (t * t) ^ n)) by ring.
    apply Rmult_le_compat_r; [apply Rmult_le_pos; lra|]. apply Rmult_le_compat_l; lra. }
  change (0 <= D x <= B x).
  destruct (Req_dec x 0) as [->|Nx]; [rewrite Z; unfold B; lra|].
  destruct (MVT_cor2 D D' 0 x) as [z [E _]]; [lra|intros; apply is_derive_Reals; apply H|].
  destruct (MVT_cor2 (fun t => B t - D t) (fun t => B' t - D' t) 0 x) as [y [E2 Hy]]; [lra|intros; apply is_derive_Reals; apply @is_derive_minus; auto|].
  pose proof (P z). pose proof (Up y ltac:(lra)). rewrite Z in *.
  assert (B0 : B 0 = 0) by (unfold B; ring). rewrite B0 in E2.
  assert (0 <= D' z * (x - 0)) by (apply Rmult_le_pos; lra). assert (0 <= (B' y - D' y) * (x - 0)) by (apply Rmult_le_pos; lra). lra.
Qed.
Lemma area_odd x : area_of_gauss (- x) = - area_of_gauss x.
Proof.
  set (f := fun t => area_of_gauss (- t) + area_of_gauss t).
  assert (H : forall t, is_derive f t 0).
  { intros t. unfold f. evar_last; [apply @is_derive_plus; [|apply area_derive]; apply (is_derive_comp area_of_gauss (fun t => - t)); [apply area_derive|]; auto_derive; auto|].
    unfold plus, scal; simpl; unfold mult; simpl. unfold gauss. replace (- t * - t) with (t * t) by ring. ring. }
  assert (E : f x = f 0).
  { destruct (MVT_gen f 0 x (fun _ => 0)) as [z [_ E]]; [intros; apply H| |lra].
    intros z _. apply derivable_continuous_pt. exists 0. apply is_derive_Reals. apply H. }
  unfold f in E. rewrite Ropp_0, area_0 in E. lra.
Qed.
(* the remainder as a share of the next term *)
Lemma erf_series n x : 4 * (x * x) <= 2 * INR n + 1 ->
  exists share, 0 <= share <= 2 /\ erf x = 2 / sqrt PI * (gauss x * (x * (series n x + (x * x) ^ n * (coefficient n * share)))).
Proof.
  assert (Pos : forall x, 0 < x -> 4 * (x * x) <= 2 * INR n + 1 ->
    exists share, 0 <= share <= 2 /\ erf x = 2 / sqrt PI * (gauss x * (x * (series n x + (x * x) ^ n * (coefficient n * share))))).
  { clear x. intros x Hx Hn. pose proof (remainder n x Hn ltac:(lra)) as Q.
    set (k := coefficient n * (gauss x * (x * (x * x) ^ n))) in *.
    assert (K : 0 < k). { unfold k. pose proof (coefficient_pos n). pose proof (gauss_bound x). repeat apply Rmult_lt_0_compat; try tauto. apply pow_lt. nra. }
    set (r := area_of_gauss x - gauss x * (x * series n x)) in *. exists (r / k). split.
    - split; [apply Rdiv_le_0_compat; tauto|]. apply Rmult_le_reg_r with k; auto. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra.
    - rewrite erf_area. f_equal. apply Rminus_diag_uniq. replace (area_of_gauss x) with (r + gauss x * (x * series n x)) by (unfold r; ring).
      transitivity (r - r / k * k); [unfold k; ring|]. field. lra. }
  intros Hn. destruct (Rtotal_order x 0) as [L|[->|G]]; [|exists 0; split; [lra|rewrite erf_area, area_0; ring]|auto].
  destruct (Pos (- x)) as [share [S E]]; [lra|replace (- x * - x) with (x * x) by ring; auto|].
  exists share. split; auto. rewrite erf_area in E. rewrite area_odd in E. rewrite erf_area.
  unfold series, gauss in *. replace (- x * - x) with (x * x) in E by ring.
  transitivity (- (2 / sqrt PI * - area_of_gauss x)); [ring|]. rewrite E. ring.
Qed.
(* beyond a the error function grows by less than exp (-a^2) / (a sqrt pi) *)
Lemma erf_tail a x : 1 <= a -> a <= x -> 0 <= erf x - erf a <= 2 / sqrt PI * gauss a.
Proof.
  intros Ha Hx. rewrite !erf_area. pose proof root_pi. set (k := 2 / sqrt PI) in *.
  destruct (Req_dec a x) as [<-|N]; [rewrite Rminus_diag_eq by reflexivity; pose proof (gauss_bound a); nra|].
  destruct (MVT_cor2 area_of_gauss gauss a x) as [z [E1 Hz]]; [lra|intros; apply is_derive_Reals, area_derive|].
  destruct (MVT_cor2 (fun t => area_of_gauss t + gauss t) (fun t => gauss t + - (2 * t) * gauss t) a x) as [y [E2 Hy]];
    [lra|intros; apply is_derive_Reals; apply @is_derive_plus; [apply area_derive|apply gauss_derive]|].
  pose proof (gauss_bound z). pose proof (gauss_bound y). pose proof (gauss_bound x).
  assert (0 <= (2 * y - 1) * gauss y * (x - a)) by (repeat apply Rmult_le_pos; lra).
  assert (0 <= gauss z * (x - a)) by (apply Rmult_le_pos; lra).
  rewrite <- Rmult_minus_distr_l. split; [apply Rmult_le_pos; lra|]. apply Rmult_le_compat_l; lra.
Qed.
Lemma erf_odd x : erf (- x) = - erf x.
Proof. rewrite !erf_area, area_odd. ring. Qed.
