(* One hidden layer: its Jacobian, how fast it changes, and its singular values from tables of rounded numbers. *)
From Coq Require Import Reals Lra Lia Psatz.
From Coquelicot Require Import Coquelicot.
From Wideproof Require Import Statement theories.Vectors theories.Descent theories.Staircase.
Open Scope R_scope.

(* l bounds the bilinear form of ((h, q), (q, 0)) as soon as it is at least the larger root of l (l - h) = q^2 *)
Lemma form_bound h q l x w y v : 0 <= h <= l -> 0 <= q -> q * q <= l * (l - h) ->
  0 <= x -> 0 <= w -> 0 <= y -> 0 <= v ->
  h * x * y + q * (w * y + x * v) <= l * (sqrt (x * x + w * w) * sqrt (y * y + v * v)).
Proof.
  intros Hh Hq H Hx Hw Hy Hv.
  rewrite <- sqrt_mult_alt by nra.
  apply Rle_trans with (sqrt (l * l * ((x * x + w * w) * (y * y + v * v)))).
  2: { right. rewrite sqrt_mult_alt by nra. rewrite sqrt_square; lra. }
  assert (P : 0 <= h * x * y + q * (w * y + x * v)).
  { assert (0 <= h * x * y) by (repeat apply Rmult_le_pos; lra).
    assert (0 <= q * (w * y + x * v)) by (apply Rmult_le_pos; auto; nra). lra. }
  rewrite <- (sqrt_square _ P) at 1. apply sqrt_le_1_alt.
  set (a := h * y + q * v). set (b := q * y).
  apply Rle_trans with ((x * x + w * w) * (a * a + b * b)).
  - replace (h * x * y + q * (w * y + x * v)) with (x * a + w * b) by (unfold a, b; ring).
    pose proof (Rle_0_sqr (x * b - w * a)) as Q. unfold Rsqr in Q. lra.
  - replace (l * l * ((x * x + w * w) * (y * y + v * v))) with ((x * x + w * w) * (l * l * (y * y + v * v))) by ring.
    apply Rmult_le_compat_l; [nra|].
    assert (Q : 0 <= h * (l - h) * (y * y) - 2 * h * q * y * v + l * h * (v * v)).
    { destruct (Req_dec l 0) as [Z|Z].
      - assert (h = 0) by lra. subst. lra.
      - assert (L0 : 0 < l) by lra. apply Rmult_le_reg_l with l; auto. rewrite Rmult_0_r.
        pose proof (Rle_0_sqr (l * v - q * y)) as S1. unfold Rsqr in S1.
        assert (0 <= h * ((l * v - q * y) * (l * v - q * y))) by (apply Rmult_le_pos; lra).
        assert (h * (q * q) * (y * y) <= h * (l * (l - h)) * (y * y)) by (apply Rmult_le_compat_r; [nra|apply Rmult_le_compat_l; lra]).
        lra. }
    assert (h * (l - h) * (y * y) <= (l * l - h * h - q * q) * (y * y)) by (apply Rmult_le_compat_r; nra).
    assert (l * h * (v * v) <= (l * l - q * q) * (v * v)) by (apply Rmult_le_compat_r; nra).
    unfold a, b. lra.
Qed.

(* J^T J in coordinates *)
Lemma gram n p (A : mat) v : ip p (mtv n A v) (mtv n A v) = sum n (fun i => v i * sum n (fun k => sum p (fun q => A i q * A k q) * v k)).
Proof.
  rewrite <- adj. unfold ip. apply sum_ext. intros i Hi. rewrite Rmult_comm. f_equal. unfold mv, mtv.
  rewrite (sum_ext p _ (fun q => sum n (fun k => A i q * A k q * v k))).
  - rewrite sum_exch. apply sum_ext. intros k Hk. rewrite Rmult_comm, <- sum_scal. apply sum_ext; intros; ring.
  - intros q Hq. rewrite <- sum_scal. apply sum_ext; intros; ring.
Qed.

Section Network.
Variables (P : problem) (dsg : R -> R) (L1 L2 : R).
Let n := rows P. Let m := units P. Let d := inputs P. Let x := input P. Let c := scale P.
Let sg := activation P.
Let p := (m * d + m)%nat.
Hypothesis Dsg : forall t, is_derive sg t (dsg t).
Hypothesis L1p : forall t, Rabs (dsg t) <= L1.
Hypothesis L2p : forall t u, Rabs (dsg t - dsg u) <= L2 * Rabs (t - u).
Hypothesis HL1 : 0 <= L1.
Hypothesis HL2 : 0 <= L2.
Hypothesis Hc : 0 <= c.

Definition residual (w : vec) : vec := fun i => network P w i - target P i.
(* a matrix of the shape of the Jacobian: B i j x i l for the hidden weights, C i j for the read-out *)
Definition shaped (B C : mat) : mat := fun i q =>
  if Nat.ltb q (units P * inputs P) then B i (q / inputs P)%nat * input P i (q mod inputs P)%nat else C i (q - units P * inputs P)%nat.
Definition slopes (w : vec) : mat := fun i j => read_out P w j * (scale P * dsg (hidden P w i j)).
Definition features (w : vec) : mat := fun i j => scale P * activation P (hidden P w i j).
Definition free (C : mat) : mat := fun i j => if read_out_trained P then C i j else 0.
Definition jac (w : vec) : mat := shaped (slopes w) (free (features w)).

Lemma idx j l : (l < d)%nat -> ((j * d + l) / d = j /\ (j * d + l) mod d = l)%nat.
Proof.
  intros H. split.
  - rewrite Nat.div_add_l by lia. rewrite Nat.div_small; lia.
  - rewrite Nat.add_comm, Nat.mod_add by lia. apply Nat.mod_small; auto.
Qed.
Lemma shaped_hidden B C i j l : (j < m)%nat -> (l < d)%nat -> shaped B C i (j * d + l)%nat = B i j * x i l.
Proof.
  intros Hj Hl. unfold shaped. fold m d. destruct (Nat.ltb_spec (j * d + l) (m * d)); [|nia].
  destruct (idx j l Hl) as [-> ->]. reflexivity.
Qed.
Lemma shaped_out B C i j : shaped B C i (m * d + j)%nat = C i j.
Proof. unfold shaped. fold m d. destruct (Nat.ltb_spec (m * d + j) (m * d)); [lia|]. f_equal. lia. Qed.
Lemma sum_shaped B C i (f : R -> nat -> R) :
  sum p (fun q => f (shaped B C i q) q) = sum m (fun j => sum d (fun l => f (B i j * x i l) (j * d + l)%nat)) + sum m (fun j => f (C i j) (m * d + j)%nat).
Proof.
  unfold p. rewrite sum_split, sum_blocks. f_equal; apply sum_ext; intros j Hj; [apply sum_ext; intros l Hl; rewrite shaped_hidden; auto|].
  rewrite shaped_out. reflexivity.
Qed.

(* x_i . u_j as a vector over the units *)
Definition drive (u : vec) i : vec := fun j => sum d (fun l => x i l * u (j * d + l)%nat).
Lemma mv_shaped B C u i : mv p (shaped B C) u i = sum m (fun j => B i j * drive u i j) + sum m (fun j => C i j * u (m * d + j)%nat).
Proof.
  unfold mv. rewrite (sum_shaped B C i (fun s q => s * u q)). f_equal. apply sum_ext. intros j Hj.
  unfold drive. rewrite <- sum_scal. apply sum_ext; intros; ring.
Qed.

Lemma is_derive_line th u q t : is_derive (fun t => vadd th (vsc t u) q) t (u q).
Proof.
  unfold vadd, vsc. evar_last.
  - apply @is_derive_plus; [apply @is_derive_const|]. apply @is_derive_scal_l. apply @is_derive_id.
  - unfold scal, plus, zero, one; simpl; unfold mult; simpl. ring.
Qed.
Lemma hidden_derive th u i j t : is_derive (fun t => hidden P (vadd th (vsc t u)) i j) t (drive u i j).
Proof.
  unfold hidden, drive. fold d x. apply (is_derive_sum d (fun l t => vadd th (vsc t u) (j * d + l)%nat * x i l)).
  intros l Hl. evar_last; [apply @is_derive_scal_l; apply is_derive_line|].
  unfold scal; simpl; unfold mult; simpl. ring.
Qed.
Lemma net_jacobian : jacobian n p residual jac.
Proof.
  intros th u t i Hi. unfold jac. rewrite mv_shaped. unfold residual, network. fold m c. evar_last.
  - apply @is_derive_minus; [|apply @is_derive_const].
    apply (is_derive_sum m (fun j t => read_out P (vadd th (vsc t u)) j * (c * activation P (hidden P (vadd th (vsc t u)) i j)))
      (fun j => (if read_out_trained P then u (m * d + j)%nat else 0) * (c * sg (hidden P (vadd th (vsc t u)) i j))
        + read_out P (vadd th (vsc t u)) j * (c * (dsg (hidden P (vadd th (vsc t u)) i j) * drive u i j)))).
    intros j Hj.
    assert (D1 : is_derive (fun t => read_out P (vadd th (vsc t u)) j) t (if read_out_trained P then u (m * d + j)%nat else 0)).
    { unfold read_out. destruct (read_out_trained P); [apply is_derive_line|apply @is_derive_const]. }
    assert (D2 : is_derive (fun t => c * activation P (hidden P (vadd th (vsc t u)) i j)) t (c * (dsg (hidden P (vadd th (vsc t u)) i j) * drive u i j))).
    { evar_last; [apply is_derive_scal; apply (is_derive_comp sg (fun t => hidden P (vadd th (vsc t u)) i j)); [apply Dsg|apply hidden_derive]|].
      unfold scal; simpl; unfold mult; simpl. ring. }
    apply is_derive_Reals. apply is_derive_Reals in D1. apply is_derive_Reals in D2.
    apply (derivable_pt_lim_mult (fun t => read_out P (vadd th (vsc t u)) j) (fun t => c * activation P (hidden P (vadd th (vsc t u)) i j))); auto.
  - unfold minus, plus, opp, zero; simpl. rewrite Ropp_0, Rplus_0_r, sum_plus, Rplus_comm. f_equal; apply sum_ext; intros j Hj.
    + unfold slopes. fold c. ring.
    + unfold free, features. fold c sg. destruct (read_out_trained P); ring.
Qed.
Lemma hidden_local th th' i j : (forall q, (q < p)%nat -> th q = th' q) -> (j < m)%nat -> hidden P th i j = hidden P th' i j.
Proof. intros H Hj. unfold hidden. apply sum_ext. intros l Hl. rewrite H; auto. unfold p, d in *. nia. Qed.
Lemma read_out_local th th' j : (forall q, (q < p)%nat -> th q = th' q) -> (j < m)%nat -> read_out P th j = read_out P th' j.
Proof. intros H Hj. unfold read_out. destruct (read_out_trained P); auto. apply H. unfold p. fold m d. lia. Qed.
Lemma net_local : local n p residual.
Proof.
  intros t1 t2 H i Hi. unfold residual, network. f_equal. apply sum_ext. intros j Hj.
  rewrite (read_out_local t1 t2), (hidden_local t1 t2); auto.
Qed.
Lemma jac_local : local_jacobian n p jac.
Proof.
  intros t1 t2 H i q Hi Hq. unfold jac, shaped, slopes, free, features. fold m d.
  destruct (Nat.ltb_spec q (m * d)) as [Q|Q].
  - assert (0 < d)%nat by (destruct d; lia). assert (q / d < m)%nat by (apply Nat.div_lt_upper_bound; lia).
    rewrite (read_out_local t1 t2), (hidden_local t1 t2); auto.
  - destruct (read_out_trained P); auto. rewrite (hidden_local t1 t2); auto. unfold p in Hq. lia.
Qed.

(* norms of hidden weights, unit by unit, and of both parts *)
Definition unit_norm (u : vec) : vec := fun j => norm d (fun l => u (j * d + l)%nat).
Lemma unit_norm_all u : norm m (unit_norm u) = norm (m * d) u.
Proof.
  assert (E : ip m (unit_norm u) (unit_norm u) = ip (m * d) u u).
  { unfold ip at 2. rewrite sum_blocks. apply sum_ext. intros j Hj. unfold unit_norm. rewrite norm_sq. reflexivity. }
  rewrite !norm_ip. rewrite E. reflexivity.
Qed.
Definition outs (u : vec) : vec := fun j => u (m * d + j)%nat.
Lemma norm_parts u : norm p u = sqrt (norm (m * d) u * norm (m * d) u + norm m (outs u) * norm m (outs u)).
Proof. rewrite !norm_sq. rewrite norm_ip. f_equal. unfold ip, p. rewrite sum_split. reflexivity. Qed.
Lemma outs_le u : norm m (outs u) <= norm p u.
Proof.
  rewrite norm_parts. pose proof (norm_pos m (outs u)) as Q. rewrite <- (sqrt_square _ Q) at 1. apply sqrt_le_1_alt.
  pose proof (Rle_0_sqr (norm (m * d) u)) as Z. unfold Rsqr in Z. lra.
Qed.

Variables (A X1 X2 : R).
Hypothesis HX1 : 0 <= X1.
Hypothesis HX2 : 0 <= X2.
Hypothesis HXi : forall i, (i < n)%nat -> ip d (x i) (x i) <= X1 * X1.
Hypothesis HXo : forall u, norm n (mv d x u) <= X2 * norm d u.

Lemma drive_row u i : (i < n)%nat -> norm m (drive u i) <= X1 * norm (m * d) u.
Proof.
  intros Hi. pose proof (norm_pos (m * d) u). apply norm_le; [apply Rmult_le_pos; auto|].
  apply Rle_trans with (sum m (fun j => X1 * X1 * (unit_norm u j * unit_norm u j))).
  - apply sum_le. intros j Hj. pose proof (CS2 d (x i) (fun l => u (j * d + l)%nat)) as Q. unfold drive.
    unfold ip in Q at 1 2. eapply Rle_trans; [exact Q|]. unfold unit_norm. rewrite norm_sq. apply Rmult_le_compat_r; auto using ip_pos.
  - rewrite sum_scal. change (sum m (fun j => unit_norm u j * unit_norm u j)) with (ip m (unit_norm u) (unit_norm u)). rewrite <- norm_sq, unit_norm_all. right; ring.
Qed.
Lemma drive_all u : sum n (fun i => ip m (drive u i) (drive u i)) <= X2 * norm (m * d) u * (X2 * norm (m * d) u).
Proof.
  unfold ip. rewrite sum_exch. apply Rle_trans with (sum m (fun j => X2 * X2 * (unit_norm u j * unit_norm u j))).
  - apply sum_le. intros j Hj. pose proof (HXo (fun l => u (j * d + l)%nat)) as Q. fold (unit_norm u j) in Q.
    set (q := mv d x (fun l => u (j * d + l)%nat)) in *. change (ip n q q <= X2 * X2 * (unit_norm u j * unit_norm u j)). rewrite <- norm_sq.
    apply Rle_trans with (X2 * unit_norm u j * (X2 * unit_norm u j)); [|right; ring]. apply Rmult_le_compat; auto using norm_pos.
  - rewrite sum_scal. change (sum m (fun j => unit_norm u j * unit_norm u j)) with (ip m (unit_norm u) (unit_norm u)). rewrite <- norm_sq, unit_norm_all. right; ring.
Qed.
Lemma by_drive (v u : vec) K : 0 <= K -> (forall i, (i < n)%nat -> Rabs (v i) <= K * norm m (drive u i)) -> norm n v <= K * X2 * norm (m * d) u.
Proof.
  intros HK H. pose proof (norm_pos (m * d) u). apply norm_le; [repeat apply Rmult_le_pos; auto|].
  apply Rle_trans with (sum n (fun i => K * K * ip m (drive u i) (drive u i))).
  - apply sum_le. intros i Hi. rewrite <- norm_sq. pose proof (H i Hi) as Q. pose proof (Rabs_pos (v i)).
    apply Rle_trans with (Rabs (v i) * Rabs (v i)); [rewrite <- Rabs_mult; apply Rle_abs|].
    apply Rle_trans with (K * norm m (drive u i) * (K * norm m (drive u i))); [apply Rmult_le_compat; auto|right; ring].
  - rewrite sum_scal. pose proof (drive_all u). assert (0 <= K * K) by nra.
    apply Rle_trans with (K * K * (X2 * norm (m * d) u * (X2 * norm (m * d) u))); [apply Rmult_le_compat_l; auto|right; ring].
Qed.
(* sums over the units of products of three factors, the first of them bounded *)
Lemma three (f g h : vec) K : 0 <= K -> (forall j, (j < m)%nat -> Rabs (f j) <= K * Rabs (g j)) ->
  Rabs (sum m (fun j => f j * h j)) <= K * (norm m g * norm m h).
Proof.
  intros HK H. eapply Rle_trans; [apply sum_abs|].
  apply Rle_trans with (sum m (fun j => K * (Rabs (g j) * Rabs (h j)))).
  - apply sum_le. intros j Hj. rewrite Rabs_mult. pose proof (H j Hj). pose proof (Rabs_pos (h j)). rewrite <- Rmult_assoc. apply Rmult_le_compat_r; auto.
  - rewrite sum_scal. apply Rmult_le_compat_l; auto.
    assert (E : forall u, norm m (fun j => Rabs (u j)) = norm m u).
    { intros u. rewrite !norm_ip. f_equal. apply sum_ext. intros j Hj. rewrite <- Rabs_mult. apply Rabs_right. nra. }
    rewrite <- (E g), <- (E h). apply (CS m (fun j => Rabs (g j)) (fun j => Rabs (h j))).
Qed.

Variable theta0 : vec.
Hypothesis HA : forall j, (j < m)%nat -> Rabs (read_out P theta0 j) <= A.
Definition reach (t : R) := if read_out_trained P then A + t else A.
Definition cross : R := if read_out_trained P then c * L1 * X2 else 0.
Lemma read_out_ball th t j : norm p (vsub th theta0) <= t -> (j < m)%nat -> Rabs (read_out P th j) <= reach t.
Proof.
  intros H Hj. pose proof (HA j Hj) as Q. unfold reach, read_out in *. destruct (read_out_trained P); auto.
  change (Rabs (th (m * d + j)%nat) <= A + t). change (Rabs (theta0 (m * d + j)%nat) <= A) in Q.
  replace (th (m * d + j)%nat) with (theta0 (m * d + j)%nat + vsub th theta0 (m * d + j)%nat) by (unfold vsub; ring).
  eapply Rle_trans; [apply Rabs_triang|]. apply Rplus_le_compat; auto.
  eapply Rle_trans; [|exact H]. apply norm_coord. unfold p. lia.
Qed.
Lemma hidden_diff t1 t2 i j : hidden P t1 i j - hidden P t2 i j = drive (vsub t1 t2) i j.
Proof. unfold hidden, drive, vsub. fold d x. rewrite <- sum_minus. apply sum_ext; intros; ring. Qed.

Theorem net_lipschitz t l : 0 <= A -> 0 <= t -> c * reach t * L2 * X1 * X2 <= l -> cross * cross <= l * (l - c * reach t * L2 * X1 * X2) ->
  lipschitz_on n p jac theta0 t l.
Proof.
  intros HA0 Ht Hl Hq t1 t2 B1 B2. set (D := vsub t1 t2). set (h := c * reach t * L2 * X1 * X2) in *.
  assert (HR : 0 <= reach t) by (unfold reach; destruct (read_out_trained P); lra).
  assert (H0 : 0 <= h) by (unfold h; repeat apply Rmult_le_pos; auto).
  assert (Q0 : 0 <= cross) by (unfold cross; destruct (read_out_trained P); [repeat apply Rmult_le_pos; auto|lra]).
  assert (CL : 0 <= c * L1) by (apply Rmult_le_pos; auto).
  pose proof (norm_pos p D) as PD.
  apply op_leT; [apply Rmult_le_pos; lra|]. intros u.
  set (v1 := fun i => sum m (fun j => read_out P t1 j * (c * (dsg (hidden P t1 i j) - dsg (hidden P t2 i j))) * drive u i j)).
  set (v2 := fun i => sum m (fun j => (read_out P t1 j - read_out P t2 j) * (c * dsg (hidden P t2 i j)) * drive u i j)).
  set (v3 := fun i => if read_out_trained P then sum m (fun j => c * (sg (hidden P t1 i j) - sg (hidden P t2 i j)) * outs u j) else 0).
  rewrite (norm_ext n _ (vadd v1 (vadd v2 v3))).
  2: { intros i Hi. rewrite mv_msub. unfold jac. rewrite !mv_shaped. unfold vadd, v1, v2, v3, slopes, free, features, outs. fold c sg.
       destruct (read_out_trained P).
       - rewrite <- !sum_plus, <- sum_minus. apply sum_ext. intros j Hj. ring.
       - rewrite !(sum_ext m (fun j => 0 * _) (fun _ => 0)), !sum_0 by (intros; ring).
         rewrite !Rplus_0_r, <- sum_plus, <- sum_minus. apply sum_ext. intros j Hj. ring. }
  pose proof (norm_pos (m * d) u) as Pu. pose proof (norm_pos (m * d) D) as Pd. pose proof (norm_pos m (outs u)) as Po. pose proof (norm_pos m (outs D)) as Pq.
  assert (N1 : norm n v1 <= h * norm (m * d) D * norm (m * d) u).
  { set (K := c * reach t * L2 * (X1 * norm (m * d) D)).
    assert (K0 : 0 <= c * reach t * L2) by (repeat apply Rmult_le_pos; auto).
    replace (h * norm (m * d) D * norm (m * d) u) with (K * X2 * norm (m * d) u) by (unfold K, h; ring).
    apply by_drive; [unfold K; repeat apply Rmult_le_pos; auto|]. intros i Hi. unfold K.
    apply Rle_trans with (c * reach t * L2 * (norm m (drive D i) * norm m (drive u i))).
    - apply (three (fun j => read_out P t1 j * (c * (dsg (hidden P t1 i j) - dsg (hidden P t2 i j)))) (drive D i) (drive u i)); auto.
      intros j Hj. rewrite !Rabs_mult, (Rabs_right c) by lra. unfold D. rewrite <- hidden_diff.
      pose proof (L2p (hidden P t1 i j) (hidden P t2 i j)) as Z. pose proof (read_out_ball t1 t j B1 Hj) as Z2.
      replace (c * reach t * L2 * Rabs (hidden P t1 i j - hidden P t2 i j)) with (reach t * (c * (L2 * Rabs (hidden P t1 i j - hidden P t2 i j)))) by ring.
      apply Rmult_le_compat; auto using Rabs_pos. apply Rmult_le_pos; auto using Rabs_pos. apply Rmult_le_compat_l; auto.
    - rewrite <- Rmult_assoc. apply Rmult_le_compat_r; [apply norm_pos|]. apply Rmult_le_compat_l; auto. apply drive_row; auto. }
  assert (OD : norm m (fun j => read_out P t1 j - read_out P t2 j) <= (if read_out_trained P then 1 else 0) * norm m (outs D)).
  { unfold read_out, outs, D, vsub. fold m d. destruct (read_out_trained P); [right; rewrite Rmult_1_l; reflexivity|].
    rewrite (norm_ext m _ (vsc 0 (fun _ => 0))) by (intros; unfold vsc; ring). rewrite norm0. lra. }
  assert (N2 : norm n v2 <= cross * (norm m (outs D) * norm (m * d) u)).
  { set (K := c * L1 * norm m (fun j => read_out P t1 j - read_out P t2 j)).
    assert (K0 : 0 <= K) by (unfold K; apply Rmult_le_pos; auto using norm_pos).
    apply Rle_trans with (K * X2 * norm (m * d) u).
    - apply by_drive; auto. intros i Hi. unfold K. rewrite Rmult_assoc.
      apply (three (fun j => (read_out P t1 j - read_out P t2 j) * (c * dsg (hidden P t2 i j))) (fun j => read_out P t1 j - read_out P t2 j) (drive u i)); auto.
      intros j Hj. rewrite !Rabs_mult, (Rabs_right c) by lra. rewrite Rmult_comm. apply Rmult_le_compat_r; [apply Rabs_pos|]. apply Rmult_le_compat_l; auto.
    - unfold K, cross. destruct (read_out_trained P).
      + rewrite Rmult_1_l in OD.
        apply Rle_trans with (c * L1 * norm m (outs D) * X2 * norm (m * d) u); [|right; ring].
        apply Rmult_le_compat_r; auto. apply Rmult_le_compat_r; auto. apply Rmult_le_compat_l; auto.
      + pose proof (norm_pos m (fun j => read_out P t1 j - read_out P t2 j)). assert (Z : norm m (fun j => read_out P t1 j - read_out P t2 j) = 0) by lra.
        rewrite Z. lra. }
  assert (N3 : norm n v3 <= cross * (norm (m * d) D * norm m (outs u))).
  { unfold v3, cross. destruct (read_out_trained P).
    - apply Rle_trans with (c * L1 * norm m (outs u) * X2 * norm (m * d) D); [|right; ring].
      apply by_drive; [apply Rmult_le_pos; auto|]. intros i Hi.
      apply Rle_trans with (c * L1 * (norm m (drive D i) * norm m (outs u))); [|right; ring].
      apply (three (fun j => c * (sg (hidden P t1 i j) - sg (hidden P t2 i j))) (drive D i) (outs u)); auto.
      intros j Hj. rewrite Rabs_mult, (Rabs_right c), Rmult_assoc by lra. apply Rmult_le_compat_l; auto. unfold D. rewrite <- hidden_diff.
      destruct (MVT_gen sg (hidden P t2 i j) (hidden P t1 i j) dsg) as [z [_ E]].
      + intros; apply Dsg.
      + intros z _. apply derivable_continuous_pt. exists (dsg z). apply is_derive_Reals. apply Dsg.
      + rewrite E, Rabs_mult. apply Rmult_le_compat_r; [apply Rabs_pos|apply L1p].
    - rewrite (norm_ext n _ (vsc 0 (fun _ => 0))) by (intros; unfold vsc; ring). rewrite norm0. lra. }
  eapply Rle_trans; [apply norm_tri|]. eapply Rle_trans; [apply Rplus_le_compat_l; apply norm_tri|].
  rewrite (norm_parts u), (norm_parts D), Rmult_assoc.
  eapply Rle_trans; [|apply (form_bound h cross l (norm (m * d) D) (norm m (outs D)) (norm (m * d) u) (norm m (outs u))); auto]. lra.
Qed.

(* tables of rounded slopes and features *)
Variables (B C : mat) (delta err na2 nx2 : R).
Hypothesis HB : forall i j, (i < n)%nat -> (j < m)%nat -> Rabs (slopes theta0 i j - B i j) <= delta.
Hypothesis HC : forall i j, (i < n)%nat -> (j < m)%nat -> Rabs (features theta0 i j - C i j) <= delta.
Hypothesis Hd : 0 <= delta.
Hypothesis Herr : 0 <= err.
Hypothesis Hnx : sum n (fun i => ip d (x i) (x i)) <= nx2.
Hypothesis Hfro : delta * delta * (INR m * (nx2 + INR n)) <= err * err.

Definition gram_of (B C : mat) : mat := fun i k => ip d (x i) (x k) * ip m (B i) (B k) + ip m (C i) (C k).
Lemma shaped_gram i k : sum p (fun q => shaped B C i q * shaped B C k q) = gram_of B C i k.
Proof.
  unfold p. rewrite sum_split, sum_blocks. unfold gram_of, ip. f_equal.
  - rewrite Rmult_comm, <- (Rmult_comm (sum d _)), <- sum_scal. apply sum_ext. intros j Hj.
    rewrite (sum_ext d _ (fun l => B i j * B k j * (x i l * x k l))) by (intros; rewrite !shaped_hidden by auto; ring).
    rewrite sum_scal. ring.
  - apply sum_ext. intros. rewrite !shaped_out. reflexivity.
Qed.
Lemma square_le a b : Rabs a <= b -> a * a <= b * b.
Proof. intros H. pose proof (Rabs_pos a). apply Rle_trans with (Rabs a * Rabs a); [rewrite <- Rabs_mult; apply Rle_abs|]. apply Rmult_le_compat; auto. Qed.
Lemma rounding v : norm p (vsub (mtv n (jac theta0) v) (mtv n (shaped B (free C)) v)) <= err * norm n v.
Proof.
  rewrite (norm_ext p _ (mtv n (msub (jac theta0) (shaped B (free C))) v)) by (intros; rewrite mtv_msub; reflexivity).
  apply frobenius; auto.
  apply Rle_trans with (sum n (fun i => delta * delta * INR m * ip d (x i) (x i) + delta * delta * INR m)).
  - apply sum_le. intros i Hi. unfold p. rewrite sum_split, sum_blocks. apply Rplus_le_compat.
    + replace (delta * delta * INR m * ip d (x i) (x i)) with (INR m * (delta * delta * ip d (x i) (x i))) by ring.
      rewrite <- sum_const. apply sum_le. intros j Hj.
      rewrite (sum_ext d _ (fun l => (slopes theta0 i j - B i j) * (slopes theta0 i j - B i j) * (x i l * x i l))).
      * rewrite sum_scal. apply Rmult_le_compat_r; [apply ip_pos|]. apply square_le. auto.
      * intros l Hl. unfold msub, jac. rewrite !shaped_hidden by auto. ring.
    + replace (delta * delta * INR m) with (INR m * (delta * delta)) by ring.
      rewrite <- sum_const. apply sum_le. intros j Hj. apply square_le. unfold msub, jac. rewrite !shaped_out. unfold free.
      destruct (read_out_trained P); [apply HC; auto|]. rewrite Rminus_0_r, Rabs_R0. auto.
  - rewrite sum_plus, sum_scal, sum_const.
    eapply Rle_trans; [|exact Hfro]. pose proof (pos_INR m). pose proof (pos_INR n).
    assert (delta * delta * INR m * sum n (fun i => ip d (x i) (x i)) <= delta * delta * INR m * nx2) by (apply Rmult_le_compat_l; auto; apply Rmult_le_pos; nra).
    lra.
Qed.

(* the residual *)
Hypothesis Hna : sum m (fun j => read_out P theta0 j * read_out P theta0 j) <= na2.
Variables (rho rho0 erho : R).
Hypothesis Hrho0 : 0 <= rho0.
Hypothesis Herho : 0 <= erho.
Hypothesis Hr0 : sum n (fun i => (sum m (fun j => read_out P theta0 j * C i j) - target P i) * (sum m (fun j => read_out P theta0 j * C i j) - target P i)) <= rho0 * rho0.
Hypothesis Hr1 : delta * delta * na2 * (INR n * INR m) <= erho * erho.
Hypothesis Hr2 : rho0 + erho <= rho.
Theorem residual_norm : norm n (residual theta0) <= rho.
Proof.
  set (r := fun i => sum m (fun j => read_out P theta0 j * C i j) - target P i).
  set (e := fun i => sum m (fun j => read_out P theta0 j * (features theta0 i j - C i j))).
  rewrite (norm_ext n _ (vadd r e)).
  - eapply Rle_trans; [apply norm_tri|]. eapply Rle_trans; [|exact Hr2]. apply Rplus_le_compat; [apply norm_le; auto|].
    apply norm_le; auto. eapply Rle_trans; [|exact Hr1].
    apply Rle_trans with (sum n (fun _ => na2 * (INR m * (delta * delta)))).
    + apply sum_le. intros i Hi. unfold e.
      eapply Rle_trans; [apply (CS2 m (read_out P theta0) (fun j => features theta0 i j - C i j))|].
      apply Rmult_le_compat; auto using ip_pos. rewrite <- sum_const. apply sum_le. intros j Hj. apply square_le. auto.
    + rewrite sum_const. right; ring.
  - intros i Hi. unfold residual, network, vadd, r, e. fold m. rewrite (sum_ext m _ (fun j => read_out P theta0 j * C i j + read_out P theta0 j * (features theta0 i j - C i j))), sum_plus; [ring|].
    intros j Hj. unfold features. ring.
Qed.
End Network.
