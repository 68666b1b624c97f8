(* From the iteration of Theorem 1 to every run that the statement means: gradients are unique, and rows with equal inputs are one row
   that counts as often as they are. *)
From Coq Require Import Reals ZArith Lra Lia FunctionalExtensionality.
From Coquelicot Require Import Coquelicot.
From Wideproof Require Import Statement theories.Vectors theories.Descent theories.Staircase theories.Network.
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

(* a loss that is half the sum of squares but for a constant has the same gradients *)
Lemma same_gradient p (L S : vec -> R) least : (forall w, L w = S w + least) -> forall w g, is_gradient p L w g <-> is_gradient p S w g.
Proof.
  assert (H : forall (L S : vec -> R) l, (forall w, L w = S w + l) -> forall w g, is_gradient p S w g -> is_gradient p L w g).
  { intros L0 S0 l E w g H u. apply (is_derive_ext (fun t => S0 (fun q => w q + t * u q) + l)); [intros; rewrite E; reflexivity|].
    evar_last; [apply @is_derive_plus; [apply H|apply @is_derive_const]|]. unfold plus, zero; simpl. ring. }
  intros E w g. split; [|apply (H _ _ least E)]. apply (H _ _ (- least)). intros v. rewrite E. ring.
Qed.
Lemma same_descent p (L S : vec -> R) least eta start w : (forall w, L w = S w + least) ->
  gradient_descent p L eta start w <-> gradient_descent p S eta start w.
Proof.
  intros E. split; intros [H0 H]; (split; [exact H0|]); intros k; destruct (H k) as [g [G1 G2]]; exists g; (split; [|exact G2]).
  - exact (proj1 (same_gradient p L S least E (w k) g) G1).
  - exact (proj2 (same_gradient p L S least E (w k) g) G1).
Qed.

Section Groups.
Variables (P : problem) (G : nat) (first : nat -> nat) (group : nat -> nat) (counts : nat -> R) (mean : nat -> vec).
Hypothesis Hgroup : forall i, (i < rows P)%nat -> (group i < G)%nat.
Hypothesis Hfirst : forall g, (g < G)%nat -> (first g < rows P)%nat.
Hypothesis Hequal : forall i l, (i < rows P)%nat -> (l < inputs P)%nat -> input P i l = input P (first (group i)) l.
Hypothesis Hcounts : forall g, (g < G)%nat -> counts g = sum (rows P) (fun i => if Nat.eqb (group i) g then 1 else 0).
Hypothesis Hmean : forall g o, (g < G)%nat -> (o < outputs P)%nat -> counts g * mean g o = sum (rows P) (fun i => if Nat.eqb (group i) g then target P i o else 0).

(* the least loss of any function of the inputs: what the targets of equal inputs differ by *)
Definition scatter : R := / 2 * sum (rows P) (fun i => sum (outputs P) (fun o => (target P i o - mean (group i) o) ^ 2)).
Lemma by_group (f : nat -> R) : sum (rows P) f = sum G (fun g => sum (rows P) (fun i => if Nat.eqb (group i) g then f i else 0)).
Proof.
  rewrite <- sum_exch. apply sum_ext. intros i Hi. transitivity (sum G (fun g => if Nat.eqb g (group i) then (fun _ => f i) g else 0)).
  - symmetry. apply (sum_pick G (group i) (fun _ => f i)). auto.
  - apply sum_ext. intros g _. rewrite Nat.eqb_sym. reflexivity.
Qed.
Lemma grouped (f : nat -> vec) : of_inputs P f ->
  misfit P f = / 2 * sum G (fun g => sum (outputs P) (fun o => counts g * (f (first g) o - mean g o) ^ 2)) + scatter.
Proof.
  intros Hf. unfold misfit, scatter. rewrite <- Rmult_plus_distr_l. f_equal.
  rewrite (sum_ext (rows P) _ (fun i => sum (outputs P) (fun o => (f (first (group i)) o - mean (group i) o) ^ 2
    - 2 * (f (first (group i)) o - mean (group i) o) * (target P i o - mean (group i) o)) + sum (outputs P) (fun o => (target P i o - mean (group i) o) ^ 2))).
  2: { intros i Hi. rewrite <- sum_plus. apply sum_ext. intros o Ho. rewrite (Hf i (first (group i))) by auto. ring. }
  rewrite sum_plus. f_equal. rewrite by_group. apply sum_ext. intros g Hg.
  rewrite (sum_ext (rows P) _ (fun i => sum (outputs P) (fun o => ((f (first g) o - mean g o) ^ 2 + 2 * (f (first g) o - mean g o) * mean g o) * (if Nat.eqb (group i) g then 1 else 0)
    - 2 * (f (first g) o - mean g o) * (if Nat.eqb (group i) g then target P i o else 0)))).
  - rewrite sum_exch. apply sum_ext. intros o Ho. rewrite sum_minus, !sum_scal, <- Hcounts, <- Hmean by auto. ring.
  - intros i Hi. destruct (Nat.eqb_spec (group i) g) as [->|N].
    + apply sum_ext. intros; ring.
    + rewrite (sum_ext (outputs P) _ (fun _ => 0)), sum_0; auto. intros; ring.
Qed.
Lemma counts_pos g : (g < G)%nat -> 0 <= counts g.
Proof. intros H. rewrite Hcounts by auto. apply sum_pos. intros i _. destruct (Nat.eqb _ _); lra. Qed.
Lemma counts_all : sum G counts <= INR (rows P).
Proof.
  right. rewrite (sum_ext G counts (fun g => sum (rows P) (fun i => if Nat.eqb (group i) g then 1 else 0))) by auto.
  rewrite <- (by_group (fun _ => 1)), sum_const. ring.
Qed.
Lemma scatter_least f : of_inputs P f -> scatter <= misfit P f.
Proof.
  intros H. rewrite (grouped f H). assert (0 <= sum G (fun g => sum (outputs P) (fun o => counts g * (f (first g) o - mean g o) ^ 2))); [|lra].
  apply sum_pos. intros g Hg. apply sum_pos. intros o Ho. apply Rmult_le_pos; [apply counts_pos; auto|apply pow2_ge_0].
Qed.
Lemma network_of_inputs w : of_inputs P (network P w).
Proof.
  intros i k Hi Hk H o Ho. unfold network. apply sum_ext. intros j Hj. do 3 f_equal. unfold hidden. apply sum_ext. intros l Hl. rewrite H; auto.
Qed.
Let n := (G * outputs P)%nat.
Let F := residual P first counts mean.
Lemma loss_grouped w : loss P w = half_squares n F w + scatter.
Proof.
  unfold loss. rewrite (grouped _ (network_of_inputs w)). f_equal. unfold half_squares, n. f_equal. rewrite sum_blocks. apply sum_ext. intros g Hg. apply sum_ext. intros o Ho.
  unfold F, residual. destruct (idx (outputs P) g o Ho) as [-> ->]. rewrite <- (root_sq G counts counts_pos g Hg). ring.
Qed.

Theorem conclude (J : vec -> mat) eta start centre K q Rad further epsilon rho :
  let p := size P in let run := gd n F J (gd n F J start eta K) eta in
  jacobian n p F J -> local n p F -> local_jacobian n p J ->
  (forall k, norm p (vsub (run k) centre) < Rad) ->
  (forall k, norm n (F (run (S k))) <= q * norm n (F (run k))) ->
  0 <= q <= 1 -> (0 <= further)%Z -> norm n (F (run O)) <= rho -> q ^ (2 * Z.to_nat further) * (rho * rho) <= 2 * epsilon ->
  (exists th : vec, (forall j, (j < p)%nat -> is_lim_seq (fun k => run k j) (th j)) /\ forall i, (i < n)%nat -> F th i = 0) ->
  trains P eta start centre K q Rad further epsilon scatter.
Proof.
  intros p run HJ Fl Jl B Rt Hq Hf Hr Heps [th [L Z]].
  assert (E : forall w, loss P w - scatter = half_squares n F w) by (intros w; rewrite loss_grouped; ring).
  split; [|split].
  - exists (gd n F J start eta). apply (proj2 (same_descent p (loss P) (half_squares n F) scatter eta start _ loss_grouped)). apply (run_is_descent n p F J HJ).
  - exact scatter_least.
  - intros w Hw. apply (proj1 (same_descent p (loss P) (half_squares n F) scatter eta start w loss_grouped)) in Hw. pose proof (descent_is_run n p F J HJ Fl Jl eta start w Hw) as A.
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
      assert (Gr : forall j, norm n (F (run j)) <= q ^ j * rho).
      { induction j; [rewrite pow_O, Rmult_1_l; exact Hr|]. eapply Rle_trans; [apply Rt|]. change (q ^ S j) with (q * q ^ j). rewrite Rmult_assoc. apply Rmult_le_compat_l; lra. }
      pose proof (norm_pos n (F (run O))) as R0. pose proof (norm_pos n (F (run (k - K)%nat))) as R1. specialize (Gr (k - K)%nat).
      assert (Q : q ^ (k - K) <= q ^ Z.to_nat further).
      { replace (k - K)%nat with (Z.to_nat further + (k - K - Z.to_nat further))%nat by lia. rewrite pow_add.
        pose proof (pow_le q (Z.to_nat further) ltac:(lra)). rewrite <- (Rmult_1_r (q ^ Z.to_nat further)) at 2.
        apply Rmult_le_compat_l; auto. rewrite <- (pow1 (k - K - Z.to_nat further)). apply pow_incr; lra. }
      pose proof (pow_le q (k - K) ltac:(lra)).
      assert (G2 : norm n (F (run (k - K)%nat)) <= q ^ Z.to_nat further * rho) by (eapply Rle_trans; [exact Gr|]; apply Rmult_le_compat_r; lra).
      assert (G3 : norm n (F (run (k - K)%nat)) * norm n (F (run (k - K)%nat)) <= q ^ Z.to_nat further * rho * (q ^ Z.to_nat further * rho)) by (apply Rmult_le_compat; auto).
      replace (2 * Z.to_nat further)%nat with (Z.to_nat further + Z.to_nat further)%nat in Heps by lia. rewrite pow_add in Heps. lra.
    + assert (Z0 : loss P th = scatter).
      { assert (H : half_squares n F th = 0) by (unfold half_squares; rewrite (sum_ext n _ (fun _ => 0)), sum_0 by (intros; rewrite Z; auto; ring); ring).
        pose proof (E th). lra. }
      exists th. split; [|split; [exact Z0|]].
      * intros j Hj. apply (is_lim_seq_incr_n _ K). apply (is_lim_seq_ext (fun k => run k j)); [|auto].
        intros k. rewrite A2 by (auto; lia). f_equal. lia.
      * intros v. change (loss P th <= loss P v). rewrite Z0. apply scatter_least, network_of_inputs.
Qed.
End Groups.
