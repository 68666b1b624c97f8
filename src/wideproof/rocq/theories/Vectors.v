(* Finite sums, inner products, norms and bounds of matrices. Vectors and matrices are functions. *)
From Coq Require Import Reals Lra Lia Psatz.
From Coquelicot Require Import Coquelicot.
From Wideproof Require Import Statement.
Open Scope R_scope.

Definition mat := nat -> nat -> R.

Lemma sum_ext n f g : (forall i, (i < n)%nat -> f i = g i) -> sum n f = sum n g.
Proof. induction n; simpl; intros H; auto. rewrite IHn, H; auto. Qed.
Lemma sum_plus n f g : sum n (fun i => f i + g i) = sum n f + sum n g.
Proof. induction n; simpl; [lra|]. rewrite IHn; lra. Qed.
Lemma sum_minus n f g : sum n (fun i => f i - g i) = sum n f - sum n g.
Proof. induction n; simpl; [lra|]. rewrite IHn; lra. Qed.
Lemma sum_scal n a f : sum n (fun i => a * f i) = a * sum n f.
Proof. induction n; simpl; [lra|]. rewrite IHn; lra. Qed.
Lemma sum_0 n : sum n (fun _ => 0) = 0.
Proof. induction n; simpl; [lra|]. rewrite IHn; lra. Qed.
Lemma sum_exch n p f : sum n (fun i => sum p (fun j => f i j)) = sum p (fun j => sum n (fun i => f i j)).
Proof. induction n; simpl; [symmetry; apply sum_0|]. rewrite IHn, <- sum_plus; auto. Qed.
Lemma sum_le n f g : (forall i, (i < n)%nat -> f i <= g i) -> sum n f <= sum n g.
Proof. induction n; simpl; intros H; [lra|]. apply Rplus_le_compat; auto. Qed.
Lemma sum_pos n f : (forall i, (i < n)%nat -> 0 <= f i) -> 0 <= sum n f.
Proof. intros H. rewrite <- (sum_0 n). apply sum_le; auto. Qed.
Lemma sum_term n f i : (forall i, (i < n)%nat -> 0 <= f i) -> (i < n)%nat -> f i <= sum n f.
Proof.
  induction n; simpl; intros H Hi; [lia|].
  assert (0 <= sum n f) by (apply sum_pos; auto). assert (0 <= f n) by auto.
  destruct (Nat.eq_dec i n) as [->|]; [lra|].
  assert (f i <= sum n f) by (apply IHn; auto; lia). lra.
Qed.

Definition vadd (u v : vec) : vec := fun i => u i + v i.
Definition vsub (u v : vec) : vec := fun i => u i - v i.
Definition vsc (a : R) (u : vec) : vec := fun i => a * u i.

Definition ip n (u v : vec) := sum n (fun i => u i * v i).
Lemma norm_ip n u : norm n u = sqrt (ip n u u).
Proof. reflexivity. Qed.

Lemma ip_sym n u v : ip n u v = ip n v u.
Proof. apply sum_ext; intros; ring. Qed.
Lemma ip_add n u v w : ip n (vadd u v) w = ip n u w + ip n v w.
Proof. unfold ip, vadd; rewrite <- sum_plus; apply sum_ext; intros; ring. Qed.
Lemma ip_sub n u v w : ip n (vsub u v) w = ip n u w - ip n v w.
Proof. unfold ip, vsub; rewrite <- sum_minus; apply sum_ext; intros; ring. Qed.
Lemma ip_sc n a u w : ip n (vsc a u) w = a * ip n u w.
Proof. unfold ip, vsc; rewrite <- sum_scal; apply sum_ext; intros; ring. Qed.
Lemma ip_add_r n u v w : ip n w (vadd u v) = ip n w u + ip n w v.
Proof. rewrite ip_sym, ip_add, (ip_sym n u), (ip_sym n v); ring. Qed.
Lemma ip_sub_r n u v w : ip n w (vsub u v) = ip n w u - ip n w v.
Proof. rewrite ip_sym, ip_sub, (ip_sym n u), (ip_sym n v); ring. Qed.
Lemma ip_sc_r n a u w : ip n w (vsc a u) = a * ip n w u.
Proof. rewrite ip_sym, ip_sc, (ip_sym n u); ring. Qed.
Lemma ip_pos n u : 0 <= ip n u u.
Proof. apply sum_pos; intros; nra. Qed.

Lemma disc a b c : 0 <= c -> (forall t, 0 <= a + 2 * t * b + t * t * c) -> b * b <= a * c.
Proof.
  intros Hc H. destruct (Req_dec c 0) as [->|Hn].
  - destruct (Req_dec b 0) as [->|Hb]; [lra|].
    specialize (H (- (a + 1) / (2 * b))).
    replace (a + 2 * (- (a + 1) / (2 * b)) * b + - (a + 1) / (2 * b) * (- (a + 1) / (2 * b)) * 0) with (-1) in H by (field; auto). lra.
  - specialize (H (- b / c)).
    replace (a + 2 * (- b / c) * b + - b / c * (- b / c) * c) with ((a * c - b * b) / c) in H by (field; auto).
    assert (0 < c) by lra.
    apply Rmult_le_compat_r with (r := c) in H; [|lra].
    replace ((a * c - b * b) / c * c) with (a * c - b * b) in H by (field; auto). lra.
Qed.

Lemma norm_pos n u : 0 <= norm n u.
Proof. apply sqrt_pos. Qed.
Lemma norm_sq n u : norm n u * norm n u = ip n u u.
Proof. apply sqrt_def, ip_pos. Qed.
Lemma norm_le n u c : 0 <= c -> ip n u u <= c * c -> norm n u <= c.
Proof. intros Hc H. rewrite norm_ip, <- (sqrt_square c) by auto. apply sqrt_le_1; auto using ip_pos; nra. Qed.
Lemma CS2 n u v : ip n u v * ip n u v <= ip n u u * ip n v v.
Proof.
  apply disc; [apply ip_pos|]. intros t.
  replace (ip n u u + 2 * t * ip n u v + t * t * ip n v v) with (ip n (vadd u (vsc t v)) (vadd u (vsc t v))); [apply ip_pos|].
  rewrite ip_add, !ip_add_r, !ip_sc, !ip_sc_r, (ip_sym n v u); ring.
Qed.
Lemma CS n u v : ip n u v <= norm n u * norm n v.
Proof.
  pose proof (CS2 n u v) as H. rewrite <- !norm_sq in H.
  pose proof (norm_pos n u); pose proof (norm_pos n v).
  destruct (Rle_dec (ip n u v) 0); [nra|].
  apply Rsqr_incr_0; unfold Rsqr; try nra.
Qed.
Lemma norm_tri n u v : norm n (vadd u v) <= norm n u + norm n v.
Proof.
  pose proof (norm_pos n u); pose proof (norm_pos n v). apply norm_le; [lra|].
  rewrite ip_add, !ip_add_r, (ip_sym n v u). pose proof (CS n u v).
  rewrite <- !norm_sq. nra.
Qed.
Lemma norm_ext n u v : (forall i, (i < n)%nat -> u i = v i) -> norm n u = norm n v.
Proof. intros H. unfold norm. f_equal. apply sum_ext; intros; rewrite H; auto. Qed.
Lemma norm_sc n a u : norm n (vsc a u) = Rabs a * norm n u.
Proof.
  rewrite !norm_ip, ip_sc, ip_sc_r. replace (a * (a * ip n u u)) with (Rsqr a * ip n u u) by (unfold Rsqr; ring).
  rewrite sqrt_mult_alt by apply Rle_0_sqr. rewrite sqrt_Rsqr_abs; auto.
Qed.
Lemma norm_sc_pos n a u : 0 <= a -> norm n (vsc a u) = a * norm n u.
Proof. intros. rewrite norm_sc, Rabs_right; lra. Qed.
Lemma norm_sub_tri n u v : norm n u <= norm n (vsub u v) + norm n v.
Proof. rewrite (norm_ext n u (vadd (vsub u v) v)). apply norm_tri. intros; unfold vadd, vsub; ring. Qed.
Lemma norm_sub_sym n u v : norm n (vsub u v) = norm n (vsub v u).
Proof. rewrite (norm_ext n (vsub u v) (vsc (-1) (vsub v u))). rewrite norm_sc, Rabs_left; lra. intros; unfold vsub, vsc; ring. Qed.
Lemma norm_coord n u i : (i < n)%nat -> Rabs (u i) <= norm n u.
Proof.
  intros Hi. unfold norm. rewrite <- sqrt_Rsqr_abs. apply sqrt_le_1_alt. unfold Rsqr, ip.
  apply (sum_term n (fun i => u i * u i)); auto. intros; nra.
Qed.

Definition mv p (A : mat) (d : vec) : vec := fun i => sum p (fun j => A i j * d j).
Definition mtv n (A : mat) (v : vec) : vec := fun j => sum n (fun i => A i j * v i).
Definition msub (A B : mat) : mat := fun i j => A i j - B i j.
Definition opT_le n p A c := forall v, norm p (mtv n A v) <= c * norm n v.

Lemma adj n p A d v : ip n (mv p A d) v = ip p d (mtv n A v).
Proof.
  unfold ip, mv, mtv.
  rewrite (sum_ext n _ (fun i => sum p (fun j => A i j * d j * v i))) by (intros; rewrite Rmult_comm, <- sum_scal; apply sum_ext; intros; ring).
  rewrite sum_exch. apply sum_ext. intros. rewrite <- sum_scal. apply sum_ext. intros; ring.
Qed.
Lemma op_le n p A c d : 0 <= c -> opT_le n p A c -> norm n (mv p A d) <= c * norm p d.
Proof.
  intros Hc H. set (u := mv p A d).
  assert (norm n u * norm n u <= (c * norm p d) * norm n u).
  { rewrite norm_sq. unfold u at 1. rewrite adj. eapply Rle_trans; [apply CS|].
    pose proof (H u). pose proof (norm_pos p d). nra. }
  pose proof (norm_pos n u). pose proof (norm_pos p d).
  destruct (Req_dec (norm n u) 0) as [E|]; [rewrite E; nra|].
  apply Rmult_le_reg_r with (norm n u); lra.
Qed.
Lemma mv_sc p A a d i : mv p A (vsc a d) i = a * mv p A d i.
Proof. unfold mv, vsc. rewrite <- sum_scal. apply sum_ext; intros; ring. Qed.
Lemma mv_msub p A B d i : mv p (msub A B) d i = mv p A d i - mv p B d i.
Proof. unfold mv, msub. rewrite <- sum_minus. apply sum_ext; intros; ring. Qed.
Lemma mtv_msub n A B v j : mtv n (msub A B) v j = mtv n A v j - mtv n B v j.
Proof. unfold mtv, msub. rewrite <- sum_minus. apply sum_ext; intros; ring. Qed.


Lemma sum_blocks m d f : sum (m * d) f = sum m (fun j => sum d (fun l => f (j * d + l)%nat)).
Proof.
  induction m; simpl; auto. rewrite <- IHm.
  assert (H : forall q r, sum (r + q) f = sum q f + sum r (fun l => f (q + l)%nat)).
  { intros q r. induction r; simpl; [lra|]. rewrite IHr, (Nat.add_comm r q). lra. }
  apply H.
Qed.
Lemma op_leT n p A c : 0 <= c -> (forall d, norm n (mv p A d) <= c * norm p d) -> opT_le n p A c.
Proof.
  intros Hc H v. set (u := mtv n A v).
  assert (norm p u * norm p u <= (c * norm n v) * norm p u).
  { rewrite norm_sq. unfold u at 2. rewrite <- adj. eapply Rle_trans; [apply CS|].
    pose proof (H u). pose proof (norm_pos n v). pose proof (norm_pos p u). nra. }
  pose proof (norm_pos p u). pose proof (norm_pos n v).
  destruct (Req_dec (norm p u) 0) as [E|]; [rewrite E; nra|].
  apply Rmult_le_reg_r with (norm p u); lra.
Qed.
Lemma sum_abs n f : Rabs (sum n f) <= sum n (fun i => Rabs (f i)).
Proof. induction n; simpl; [rewrite Rabs_R0; lra|]. eapply Rle_trans; [apply Rabs_triang|]. lra. Qed.
Lemma CS_abs n u v : Rabs (ip n u v) <= norm n u * norm n v.
Proof.
  apply Rabs_le. split; [|apply CS]. pose proof (CS n (vsc (-1) u) v) as H.
  rewrite ip_sc, norm_sc, Rabs_left in H; lra.
Qed.

Lemma sum_split a b f : sum (a + b) f = sum a f + sum b (fun l => f (a + l)%nat).
Proof. induction b; simpl; [rewrite Nat.add_0_r; lra|]. rewrite Nat.add_succ_r. simpl. rewrite IHb. lra. Qed.
Lemma sum_const n c : sum n (fun _ => c) = INR n * c.
Proof. induction n; [simpl; lra|]. rewrite S_INR. simpl sum. rewrite IHn. lra. Qed.
Lemma is_derive_sum n (f : nat -> R -> R) (df : nat -> R) t :
  (forall i, (i < n)%nat -> is_derive (f i) t (df i)) -> is_derive (fun t => sum n (fun i => f i t)) t (sum n df).
Proof.
  induction n; simpl; intros H; [apply @is_derive_const|].
  apply @is_derive_plus; [apply IHn; auto|apply H; auto].
Qed.
Lemma is_lim_seq_sum m (f : nat -> nat -> R) (l : nat -> R) :
  (forall j, (j < m)%nat -> is_lim_seq (f j) (l j)) -> is_lim_seq (fun k => sum m (fun j => f j k)) (sum m l).
Proof.
  induction m; simpl; intros H; [apply is_lim_seq_const|].
  apply is_lim_seq_plus'; auto.
Qed.
(* a function that grows no faster than another grows by no more *)
Lemma grow (g dg h dh : R -> R) :
  (forall t, 0 <= t <= 1 -> is_derive g t (dg t)) -> (forall t, 0 <= t <= 1 -> is_derive h t (dh t)) ->
  (forall t, 0 <= t <= 1 -> dg t <= dh t) -> g 1 - g 0 <= h 1 - h 0.
Proof.
  intros D E B.
  destruct (MVT_cor2 (fun t => g t - h t) (fun t => dg t - dh t) 0 1) as [c [Q Hc]]; [lra| |].
  - intros t Ht. apply is_derive_Reals. apply @is_derive_minus; auto.
  - pose proof (B c). lra.
Qed.
(* the Frobenius norm bounds the spectral norm *)
Lemma frobenius n p (E : mat) c v : 0 <= c -> sum n (fun i => sum p (fun q => E i q * E i q)) <= c * c ->
  norm p (mtv n E v) <= c * norm n v.
Proof.
  intros Hc H. pose proof (norm_pos n v). apply norm_le; [apply Rmult_le_pos; auto|].
  apply Rle_trans with (sum p (fun q => sum n (fun i => E i q * E i q) * ip n v v)).
  - apply sum_le. intros q Hq. apply (CS2 n (fun i => E i q) v).
  - rewrite (sum_ext p _ (fun q => ip n v v * sum n (fun i => E i q * E i q))) by (intros; ring).
    rewrite sum_scal, sum_exch. pose proof (ip_pos n v).
    replace (c * norm n v * (c * norm n v)) with (ip n v v * (c * c)) by (rewrite <- norm_sq; ring).
    apply Rmult_le_compat_l; auto.
Qed.
