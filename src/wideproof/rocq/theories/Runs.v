(* From the iteration of Theorem 1 to every run that the statement means: gradients are unique. *)
From Coq Require Import Reals ZArith Lra Lia FunctionalExtensionality.
From Coquelicot Require Import Coquelicot.
From Wideproof Require Import Statement theories.Vectors theories.Descent.
Open Scope R_scope.

Section Runs.
Variables (n p : nat) (F : vec -> vec) (J : vec -> mat).
Hypothesis HJ : jacobian n p F J.
Hypothesis Floc : local n p F.
Hypothesis Jloc : local_jacobian n p J.
Definition half_squares (w : vec) := / 2 * sum n (fun i => F w i ^ 2).

Lemma half_squares_norm w : half_squares w = / 2 * (norm n (F w) * norm n (F w)).
Proof. rewrite norm_sq. unfold half_squares, ip. f_equal. apply sum_ext; intros; ring. Qed.

Lemma grad_is_gradient w : is_gradient p half_squares w (grad n F J w).
Proof.
  intros u. change (sum p (fun q => u q * grad n F J w q)) with (ip p u (grad n F J w)). unfold half_squares, grad. rewrite <- adj.
  assert (E : vadd w (vsc 0 u) = w) by (apply functional_extensionality; intros; unfold vadd, vsc; ring).
  evar_last.
  - apply is_derive_scal. apply (is_derive_sum n (fun i t => F (vadd w (vsc t u)) i ^ 2)).
    intros i Hi. assert (D := HJ w u 0 i Hi). rewrite E in D.
    apply (is_derive_ext (fun t => F (vadd w (vsc t u)) i * F (vadd w (vsc t u)) i)); [intros t; simpl; rewrite Rmult_1_r; reflexivity|].
    apply is_derive_Reals. apply is_derive_Reals in D.
    apply (derivable_pt_lim_mult (fun t => F (vadd w (vsc t u)) i) (fun t => F (vadd w (vsc t u)) i)); exact D.
  - rewrite E. unfold ip. rewrite <- sum_scal. apply sum_ext. intros i Hi. field.
Qed.

Definition unit_vector (q : nat) : vec := fun j => if Nat.eqb j q then 1 else 0.
Lemma sum_unit m q (g : vec) : (q < m)%nat -> sum m (fun j => unit_vector q j * g j) = g q.
Proof.
  intros H. induction m as [|m IH]; [lia|]. simpl. unfold unit_vector at 2.
  destruct (Nat.eqb_spec m q) as [->|N].
  - rewrite (sum_ext q _ (fun _ => 0)), sum_0; [ring|]. intros i Hi. unfold unit_vector. destruct (Nat.eqb_spec i q); [lia|ring].
  - rewrite IH by lia. ring.
Qed.
Lemma gradient_unique w g : is_gradient p half_squares w g -> forall q, (q < p)%nat -> g q = grad n F J w q.
Proof.
  intros H q Hq. pose proof (H (unit_vector q)) as A. pose proof (grad_is_gradient w (unit_vector q)) as B.
  apply is_derive_unique in A. apply is_derive_unique in B. rewrite A in B. rewrite !sum_unit in B; auto.
Qed.
Lemma grad_local w v : (forall q, (q < p)%nat -> w q = v q) -> forall q, (q < p)%nat -> grad n F J w q = grad n F J v q.
Proof.
  intros H q Hq. unfold grad, mtv. apply sum_ext. intros i Hi. rewrite (Jloc w v), (Floc w v); auto.
Qed.

Variables (eta : R) (start : vec).
Let run := gd n F J start eta.
Lemma run_is_descent : gradient_descent p half_squares eta start run.
Proof. split; auto. intros k. exists (grad n F J (run k)). split; [apply grad_is_gradient|]. reflexivity. Qed.
Lemma descent_is_run w : gradient_descent p half_squares eta start w -> forall k q, (q < p)%nat -> w k q = run k q.
Proof.
  intros [H0 H] k. induction k; intros q Hq; [apply H0; auto|].
  destruct (H k) as [g [G1 G2]]. rewrite G2, IHk, (gradient_unique _ _ G1) by auto.
  rewrite (grad_local (w k) (run k)) by auto. reflexivity.
Qed.
Lemma run_later K k : gd n F J (run K) eta k = run (K + k).
Proof. induction k; [rewrite Nat.add_0_r; reflexivity|]. rewrite Nat.add_succ_r. simpl. rewrite IHk. reflexivity. Qed.
Lemma half_squares_local w v : (forall q, (q < p)%nat -> w q = v q) -> half_squares w = half_squares v.
Proof. intros H. unfold half_squares. f_equal. apply sum_ext. intros. rewrite (Floc w v); auto. Qed.
End Runs.

Theorem conclude (P : problem) (J : vec -> mat) eta start centre K q Rad further epsilon rho :
  let n := rows P in let p := size P in let F := fun w i => network P w i - target P i in
  let run := gd n F J (gd n F J start eta K) eta in
  jacobian n p F J -> local n p F -> local_jacobian n p J ->
  (forall k, norm p (vsub (run k) centre) < Rad) ->
  (forall k, norm n (F (run (S k))) <= q * norm n (F (run k))) ->
  0 <= q <= 1 -> (0 <= further)%Z -> norm n (F (run O)) <= rho -> q ^ (2 * Z.to_nat further) * (rho * rho) <= 2 * epsilon ->
  (exists th : vec, (forall j, (j < p)%nat -> is_lim_seq (fun k => run k j) (th j)) /\ forall i, (i < n)%nat -> F th i = 0) ->
  trains P eta start centre K q Rad further epsilon.
Proof.
  intros n p F run HJ Fl Jl B Rt Hq Hf Hr Heps [th [L Z]].
  assert (E : forall w, loss P w = half_squares n F w) by reflexivity.
  split.
  - exists (gd n F J start eta). apply (run_is_descent n p F J HJ).
  - intros w Hw. pose proof (descent_is_run n p F J HJ Fl Jl eta start w Hw) as A.
    assert (A2 : forall k, (K <= k)%nat -> forall q, (q < p)%nat -> w k q = run (k - K)%nat q).
    { intros k Hk j Hj. rewrite (A k j Hj). unfold run. rewrite run_later. f_equal. lia. }
    split; [|split; [|split]].
    + intros k Hk. rewrite !E, (half_squares_local n p F Fl (w (S k)) (run (S (k - K)%nat))), (half_squares_local n p F Fl (w k) (run (k - K)%nat)), !half_squares_norm.
      * pose proof (Rt (k - K)%nat) as H. pose proof (norm_pos n (F (run (S (k - K)%nat)))) as H1.
        assert (norm n (F (run (S (k - K)%nat))) * norm n (F (run (S (k - K)%nat))) <= q * norm n (F (run (k - K)%nat)) * (q * norm n (F (run (k - K)%nat)))) by (apply Rmult_le_compat; auto). lra.
      * apply A2; auto.
      * intros j Hj. rewrite A2 by (auto; lia). f_equal. lia.
    + intros k Hk. specialize (B (k - K)%nat). rewrite (norm_ext p _ (vsub (run (k - K)%nat) centre)); auto.
      intros j Hj. unfold vsub. rewrite A2; auto.
    + intros k Hk. assert (Hk' : (K <= k)%nat) by lia.
      rewrite E, (half_squares_local n p F Fl (w k) (run (k - K)%nat)), half_squares_norm by (apply A2; auto).
      assert (G : forall j, norm n (F (run j)) <= q ^ j * rho).
      { induction j; [rewrite pow_O, Rmult_1_l; exact Hr|]. eapply Rle_trans; [apply Rt|]. change (q ^ S j) with (q * q ^ j). rewrite Rmult_assoc. apply Rmult_le_compat_l; lra. }
      pose proof (norm_pos n (F (run O))) as R0. pose proof (norm_pos n (F (run (k - K)%nat))) as R1. specialize (G (k - K)%nat).
      assert (Q : q ^ (k - K) <= q ^ Z.to_nat further).
      { replace (k - K)%nat with (Z.to_nat further + (k - K - Z.to_nat further))%nat by lia. rewrite pow_add.
        pose proof (pow_le q (Z.to_nat further) ltac:(lra)). rewrite <- (Rmult_1_r (q ^ Z.to_nat further)) at 2.
        apply Rmult_le_compat_l; auto. rewrite <- (pow1 (k - K - Z.to_nat further)). apply pow_incr; lra. }
      pose proof (pow_le q (k - K) ltac:(lra)).
      assert (G2 : norm n (F (run (k - K)%nat)) <= q ^ Z.to_nat further * rho) by (eapply Rle_trans; [exact G|]; apply Rmult_le_compat_r; lra).
      assert (G3 : norm n (F (run (k - K)%nat)) * norm n (F (run (k - K)%nat)) <= q ^ Z.to_nat further * rho * (q ^ Z.to_nat further * rho)) by (apply Rmult_le_compat; auto).
      replace (2 * Z.to_nat further)%nat with (Z.to_nat further + Z.to_nat further)%nat in Heps by lia. rewrite pow_add in Heps. lra.
    + exists th. split; [|split].
      * intros j Hj. apply (is_lim_seq_incr_n _ K). apply (is_lim_seq_ext (fun k => run k j)); [|auto].
        intros k. rewrite A2 by (auto; lia). f_equal. lia.
      * rewrite E. unfold half_squares. rewrite (sum_ext n _ (fun _ => 0)), sum_0 by (intros; rewrite Z; auto; ring). ring.
      * intros v. rewrite !E. unfold half_squares at 1. rewrite (sum_ext n _ (fun _ => 0)), sum_0 by (intros; rewrite Z; auto; ring).
        unfold half_squares. assert (0 <= sum n (fun i => F v i ^ 2)) by (apply sum_pos; intros; apply pow2_ge_0). lra.
Qed.
