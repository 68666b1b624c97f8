(* Intervals around activations and their slopes, and comparisons of intervals. *)
From Coq Require Import Reals Lra Lia Psatz ZArith QArith Qreals List Bool.
From Coquelicot Require Import Coquelicot.
From Interval Require Import Interval.Float_full Interval.Interval Interval.Float Real.Xreal Float.Basic Float.Sig.
From Wideproof Require Import Statement theories.Vectors theories.Erf theories.Activations theories.Integers theories.Certificate.
Import ListNotations.
Open Scope R_scope.

Module Type FO := FloatOps with Definition sensible_format := true.
Module Enclosures (F : FO).
Module I := FloatIntervalFull F.

Section Intervals.
Variable prec : F.precision.
Definition cont xi x := contains (I.convert xi) (Xreal x).
Lemma cZ k : cont (I.fromZ prec k) (IZR k). Proof. apply I.fromZ_correct. Qed.
Lemma cadd a b x y : cont a x -> cont b y -> cont (I.add prec a b) (x + y).
Proof. intros H1 H2. exact (I.add_correct prec _ _ _ _ H1 H2). Qed.
Lemma csub a b x y : cont a x -> cont b y -> cont (I.sub prec a b) (x - y).
Proof. intros H1 H2. exact (I.sub_correct prec _ _ _ _ H1 H2). Qed.
Lemma cmul a b x y : cont a x -> cont b y -> cont (I.mul prec a b) (x * y).
Proof. intros H1 H2. exact (I.mul_correct prec _ _ _ _ H1 H2). Qed.
Lemma cneg a x : cont a x -> cont (I.neg a) (- x).
Proof. intros H. exact (I.neg_correct _ _ H). Qed.
Lemma cdiv a b x y : y <> 0 -> cont a x -> cont b y -> cont (I.div prec a b) (x / y).
Proof. intros H0 H1 H2. pose proof (I.div_correct prec _ _ _ _ H1 H2) as H. unfold cont. simpl in H. unfold Xdiv' in H. rewrite is_zero_false in H by auto. exact H. Qed.
Lemma cexp a x : cont a x -> cont (I.exp prec a) (exp x).
Proof. intros H. exact (I.exp_correct prec _ _ H). Qed.
Lemma cln a x : 0 < x -> cont a x -> cont (I.ln prec a) (ln x).
Proof. intros H0 H. pose proof (I.ln_correct prec _ _ H) as Q. simpl in Q. unfold Xln' in Q. rewrite is_positive_true in Q by auto. exact Q. Qed.
Lemma csin a x : cont a x -> cont (I.sin prec a) (sin x).
Proof. intros H. exact (I.sin_correct prec _ _ H). Qed.
Lemma ccos a x : cont a x -> cont (I.cos prec a) (cos x).
Proof. intros H. exact (I.cos_correct prec _ _ H). Qed.
Definition nonneg xi := match I.sign_large xi with Xgt | Xeq => true | _ => false end.
Lemma nonneg_ok xi x : cont xi x -> nonneg xi = true -> 0 <= x.
Proof.
  unfold nonneg, cont. pose proof (I.sign_large_correct xi) as H. destruct (I.sign_large xi); intros C E; try discriminate.
  - apply H in C. injection C as ->. lra.
  - apply H in C. destruct C as [_ C]. exact C.
Qed.
Definition ratio k d := I.div prec (I.fromZ prec k) (I.fromZ prec (Zpos d)).
Lemma cratio k d : cont (ratio k d) (over k d).
Proof. apply cdiv; try apply cZ. apply IZR_neq; lia. Qed.

Let one := I.fromZ prec 1.
Let two := I.fromZ prec 2.
Definition itanh xi := I.sub prec one (I.div prec two (I.add prec (I.exp prec (I.add prec xi xi)) one)).
Lemma ctanh xi x : cont xi x -> cont (itanh xi) (tanh x).
Proof.
  intros H. rewrite tanh_exp. apply csub; [apply cZ|]. apply cdiv; [pose proof (exp_pos (x + x)); lra|apply cZ|].
  apply cadd; [|apply cZ]. apply cexp, cadd; auto.
Qed.
Definition isigmoid xi := I.div prec one (I.add prec one (I.exp prec (I.neg xi))).
Lemma csigmoid xi x : cont xi x -> cont (isigmoid xi) (sigmoid x).
Proof.
  intros H. unfold sigmoid. replace (/ (1 + exp (- x))) with (1 / (1 + exp (- x))) by (unfold Rdiv; ring).
  apply cdiv; [pose proof (exp_pos (- x)); lra|apply cZ|]. apply cadd; [apply cZ|]. apply cexp, cneg; auto.
Qed.
(* a whole number near an interval times d: a guess, which is checked *)
Definition guess (xi : I.type) (d : positive) : Z :=
  match F.toF (I.midpoint xi) with
  | Basic.Float s m e =>
    let k := (Zpos m * Zpos d)%Z in
    let k := match e with
             | Z0 => k
             | Zpos q => (k * Z.pow_pos (Zaux.radix_val F.radix) q)%Z
             | Zneg q => (k / Z.pow_pos (Zaux.radix_val F.radix) q)%Z
             end in
    if s then Z.opp k else k
  | _ => 0%Z
  end.
(* The error function: 2/sqrt pi exp (-u) x (c_0 + c_1 u + ... + c_(n-1) u^(n-1) + share c_n u^n) with u = x^2 and a share between 0 and 2. *)
Fixpoint coefficients (left : nat) (j : Z) (c : I.type) : list I.type :=
  match left with O => [] | S l => c :: coefficients l (j + 1) (I.div prec (I.mul prec two c) (I.fromZ prec (2 * j + 3))) end.
Fixpoint horner (n : nat) (share u : I.type) (cs : list I.type) {struct cs} : I.type :=
  match cs, n with
  | [], _ => I.nai
  | c :: _, O => I.mul prec c share
  | c :: more, S k => I.add prec c (I.mul prec u (horner k share u more))
  end.
Lemma cnai x : cont I.nai x. Proof. unfold cont. rewrite I.nai_correct. exact Logic.I. Qed.
Lemma choner share s u y : cont share s -> cont u y -> forall left n j c, cont c (coefficient j) ->
  cont (horner n share u (coefficients left (Z.of_nat j) c)) (sum n (fun k => coefficient (j + k) * y ^ k) + y ^ n * (coefficient (j + n) * s)).
Proof.
  intros Hs Hu. induction left as [|left IH]; intros n j c Hc; [apply cnai|].
  destruct n as [|n].
  - change (horner 0 share u _) with (I.mul prec c share). simpl sum. rewrite Nat.add_0_r, Rplus_0_l, pow_O, Rmult_1_l. apply cmul; auto.
  - change (horner (S n) share u _) with (I.add prec c (I.mul prec u (horner n share u (coefficients left (Z.of_nat j + 1)
      (I.div prec (I.mul prec two c) (I.fromZ prec (2 * Z.of_nat j + 3))))))).
    rewrite sum_first, Nat.add_0_r, pow_O, Rmult_1_r.
    replace (coefficient j + _ + _) with (coefficient j + y * (sum n (fun k => coefficient (S j + k) * y ^ k) + y ^ n * (coefficient (S j + n) * s))).
    + apply cadd; auto. apply cmul; auto. replace (Z.of_nat j + 1)%Z with (Z.of_nat (S j)) by lia. apply IH.
      change (coefficient (S j)) with (coefficient j * (2 / (2 * INR (S j) + 1))). pose proof (pos_INR (S j)).
      replace (coefficient j * (2 / (2 * INR (S j) + 1))) with (2 * coefficient j / (2 * INR (S j) + 1)) by (field; lra).
      apply cdiv; [lra|apply cmul; [apply cZ|exact Hc]|].
      replace (2 * INR (S j) + 1) with (IZR (2 * Z.of_nat j + 3)); [apply cZ|].
      rewrite INR_IZR_INZ, Nat2Z.inj_succ, plus_IZR, mult_IZR, succ_IZR. ring.
    + rewrite Rmult_plus_distr_l, <- sum_scal. rewrite Rplus_assoc. f_equal. f_equal.
      * apply sum_ext. intros k Hk. rewrite Nat.add_succ_r. simpl. ring.
      * rewrite Nat.add_succ_r. simpl. ring.
Qed.
Definition between (k : Z) := I.join (I.fromZ prec 0) (I.fromZ prec k).
Lemma cbetween k x : 0 <= x <= IZR k -> cont (between k) x.
Proof.
  intros H. unfold cont, between.
  apply contains_connected with 0 (IZR k); auto.
  - apply I.join_correct. left. apply (cZ 0).
  - apply I.join_correct. right. apply (cZ k).
Qed.
Definition iroot := I.div prec two (I.sqrt prec (I.pi prec)).
Lemma croot : cont iroot (2 / sqrt PI).
Proof.
  pose proof Constants.pi_low. assert (P : 0 < sqrt PI) by (apply sqrt_lt_R0; lra).
  apply cdiv; [lra|apply cZ|]. unfold cont.
  pose proof (I.sqrt_correct prec _ _ (I.pi_correct prec)) as C. simpl in C. unfold Xsqrt' in C. exact C.
Qed.
Definition igauss xi := I.exp prec (I.neg (I.mul prec xi xi)).
Lemma cgauss xi x : cont xi x -> cont (igauss xi) (gauss x).
Proof. intros H. apply cexp, cneg, cmul; auto. Qed.
(* the series, where it has enough terms *)
Definition summed (cs : list I.type) (root share e xi : I.type) : I.type :=
  let u := I.mul prec xi xi in let n := Z.to_nat (Zpos (F.prec prec) / 3 + guess u 4) in
  if nonneg (I.sub prec (I.fromZ prec (2 * Z.of_nat n + 1)) (I.mul prec (I.fromZ prec 4) u))
  then I.mul prec root (I.mul prec e (I.mul prec xi (horner n share u cs))) else I.nai.
Definition length_of_table := Z.to_nat (160 + Zpos (F.prec prec) / 3).
Definition table_of_coefficients := coefficients length_of_table 0 one.
Lemma csummed xi x : cont xi x -> cont (summed table_of_coefficients iroot (between 2) (igauss xi) xi) (erf x).
Proof.
  intros H. unfold summed. set (u := I.mul prec xi xi). set (n := Z.to_nat _). assert (Hu : cont u (x * x)) by (apply cmul; auto).
  destruct (nonneg _) eqn:E; [|apply cnai].
  eapply nonneg_ok in E; [|apply csub; [apply cZ|apply cmul; [apply cZ|exact Hu]]].
  rewrite plus_IZR, mult_IZR, <- INR_IZR_INZ in E.
  destruct (erf_series n x ltac:(lra)) as [s [Hs ->]].
  apply cmul; [apply croot|]. apply cmul; [apply cgauss; auto|]. apply cmul; auto.
  apply (choner _ _ _ _ (cbetween 2 s Hs) Hu length_of_table n 0 one). apply cZ.
Qed.
(* from 6 on, the value at 6 and the tail *)
Definition ierf (cs : list I.type) (root share six tail e xi : I.type) : I.type :=
  if nonneg (I.sub prec xi six) then tail else if nonneg (I.sub prec (I.neg xi) six) then I.neg tail else summed cs root share e xi.
Definition itail := let six := I.fromZ prec 6 in
  I.add prec (summed table_of_coefficients iroot (between 2) (igauss six) six) (I.mul prec (I.mul prec iroot (igauss six)) (between 1)).
Lemma ctail x : 6 <= x -> cont itail (erf x).
Proof.
  intros H. destruct (erf_tail 6 x) as [A B]; [lra|auto|]. pose proof root_pi. pose proof (gauss_bound 6).
  set (k := 2 / sqrt PI * gauss 6) in *. assert (K : 0 < k) by (unfold k; apply Rmult_lt_0_compat; lra).
  replace (erf x) with (erf 6 + k * ((erf x - erf 6) / k)) by (field; lra).
  apply cadd; [apply csummed, cZ|]. apply cmul; [apply cmul; [apply croot|apply cgauss, cZ]|].
  apply cbetween. split; [apply Rdiv_le_0_compat; auto|].
  apply Rmult_le_reg_r with k; auto. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. simpl. lra.
Qed.
Lemma cerf xi x : cont xi x -> cont (ierf table_of_coefficients iroot (between 2) (I.fromZ prec 6) itail (igauss xi) xi) (erf x).
Proof.
  intros H. unfold ierf. destruct (nonneg (I.sub prec xi _)) eqn:E1.
  - eapply nonneg_ok in E1; [|apply csub; [exact H|apply (cZ 6)]]. apply ctail. lra.
  - destruct (nonneg (I.sub prec (I.neg xi) _)) eqn:E2; [|apply csummed; auto].
    eapply nonneg_ok in E2; [|apply csub; [apply cneg, H|apply (cZ 6)]].
    replace (erf x) with (- erf (- x)) by (rewrite erf_odd; ring). apply cneg, ctail. lra.
Qed.

(* value and slope together; what does not depend on the argument is computed before it comes *)
Definition both (a : act) : I.type -> I.type * I.type :=
  match a with
  | Erf =>
    let cs := table_of_coefficients in let root := iroot in let share := between 2 in let six := I.fromZ prec 6 in let tail := itail in
    fun xi => let e := igauss xi in (ierf cs root share six tail e xi, I.mul prec root e)
  | Tanh => fun xi => let t := itanh xi in (t, I.sub prec one (I.mul prec t t))
  | Sigmoid => fun xi => let t := isigmoid xi in (t, I.mul prec t (I.sub prec one t))
  | Softplus => fun xi => (I.ln prec (I.add prec one (I.exp prec xi)), isigmoid xi)
  | Sin => fun xi => (I.sin prec xi, I.cos prec xi)
  end.
Lemma dsigmoid_own x : dsigmoid x = sigmoid x * (1 - sigmoid x).
Proof. unfold dsigmoid, dtanh. rewrite sigmoid_tanh. ring_simplify. set (t := tanh _). lra. Qed.
Lemma cboth a xi x : cont xi x -> cont (fst (both a xi)) (value a x) /\ cont (snd (both a xi)) (slope a x).
Proof.
  intros H. destruct a; unfold both; cbn [fst snd value slope]; split.
  - apply cerf; auto.
  - apply cmul; [apply croot|apply cgauss; auto].
  - apply ctanh; auto.
  - unfold dtanh. apply csub; [apply cZ|]. apply cmul; apply ctanh; auto.
  - apply csigmoid; auto.
  - rewrite dsigmoid_own. apply cmul; [apply csigmoid; auto|]. apply csub; [apply cZ|apply csigmoid; auto].
  - unfold softplus. apply cln; [pose proof (exp_pos x); lra|]. apply cadd; [apply cZ|apply cexp; auto].
  - apply csigmoid; auto.
  - apply csin; auto.
  - apply ccos; auto.
Qed.

Definition close (xi : I.type) (k : Z) (delta : I.type) (d : positive) : bool :=
  let e := I.sub prec xi (ratio k d) in nonneg (I.sub prec delta e) && nonneg (I.add prec delta e).
Lemma close_ok xi k delta d x y : cont xi x -> cont delta y -> close xi k delta d = true -> Rabs (x - over k d) <= y.
Proof.
  unfold close. rewrite andb_true_iff. intros H1 H2 [A B].
  assert (E : cont (I.sub prec xi (ratio k d)) (x - over k d)) by (apply csub; auto; apply cratio).
  apply (nonneg_ok _ (y - (x - over k d))) in A; [|apply csub; auto]. apply (nonneg_ok _ (y + (x - over k d))) in B; [|apply cadd; auto].
  apply Rabs_le. lra.
Qed.

Definition irational (q : Q) : I.type := ratio (Qnum q) (Qden q).
Lemma crational q : cont (irational q) (Q2R q).
Proof. apply cratio. Qed.
(* q^(2 further) rho^2 <= 2 epsilon *)
Definition reaches (q : Q) (further : Z) (rho epsilon : Q) : bool :=
  nonneg (I.sub prec (irational ((2 # 1) * epsilon)) (I.mul prec (I.power_int prec (irational q) (2 * further)) (irational (rho * rho)))).
Lemma reaches_ok q further rho epsilon : (0 <= further)%Z -> reaches q further rho epsilon = true ->
  Q2R q ^ (2 * Z.to_nat further) * (Q2R rho * Q2R rho) <= 2 * Q2R epsilon.
Proof.
  intros Hf H. assert (Pw : cont (I.power_int prec (irational q) (2 * further)) (Q2R q ^ (2 * Z.to_nat further))).
  { pose proof (I.power_int_correct prec (2 * further) _ _ (crational q)) as C. unfold cont.
    replace (Xreal (Q2R q ^ (2 * Z.to_nat further))) with (Xpower_int (Xreal (Q2R q)) (2 * further)); [exact C|].
    destruct further as [|k|k]; try reflexivity; [|lia]. simpl Xpower_int.
    unfold Xpower_int. f_equal. simpl. unfold Xpower_int'. f_equal.
    change (k~0)%positive with (2 * k)%positive. rewrite Pos2Nat.inj_mul. simpl. f_equal. }
  unfold reaches in H. eapply nonneg_ok in H; [|apply csub; [apply crational|apply cmul; [exact Pw|apply crational]]].
  rewrite !Q2R_mult in H. replace (Q2R (2 # 1)) with 2 in H by (unfold Q2R; simpl; lra). lra.
Qed.
End Intervals.
End Enclosures.
