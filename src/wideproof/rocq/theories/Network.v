(* One hidden layer, with several outputs and rows that count more than once: its Jacobian, how fast it changes, and its singular values
   from tables of rounded numbers. *)
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

(* one term of a sum, and all terms sorted by a number that belongs to each *)
Lemma sum_pick k o (f : nat -> R) : (o < k)%nat -> sum k (fun i => if Nat.eqb i o then f i else 0) = f o.
Proof.
  intros H. induction k as [|k IH]; [lia|]. simpl. destruct (Nat.eqb_spec k o) as [->|N].
  - rewrite (sum_ext o _ (fun _ => 0)), sum_0; [ring|]. intros i Hi. destruct (Nat.eqb_spec i o); [lia|reflexivity].
  - rewrite IH by lia. ring.
Qed.
Lemma idx k j l : (l < k)%nat -> ((j * k + l) / k = j /\ (j * k + l) mod k = l)%nat.
Proof.
  intros H. split.
  - rewrite Nat.div_add_l by lia. rewrite Nat.div_small; lia.
  - rewrite Nat.add_comm, Nat.mod_add by lia. apply Nat.mod_small; auto.
Qed.
Lemma idx_lt m k r : (r < m * k)%nat -> (0 < k /\ r / k < m /\ r mod k < k)%nat.
Proof.
  intros H. assert (0 < k)%nat by (destruct k; lia). split; [auto|]. split.
  - apply Nat.div_lt_upper_bound; lia.
  - apply Nat.mod_upper_bound; lia.
Qed.
Lemma norm_blocks m k u : norm m (fun j => norm k (fun l => u (j * k + l)%nat)) = norm (m * k) u.
Proof.
  rewrite !norm_ip. f_equal. unfold ip at 2. rewrite sum_blocks. unfold ip at 1. apply sum_ext. intros j Hj. rewrite norm_sq. reflexivity.
Qed.
Lemma norm_abs k u v : (forall i, (i < k)%nat -> Rabs (u i) <= Rabs (v i)) -> norm k u <= norm k v.
Proof.
  intros H. apply norm_le; [apply norm_pos|]. rewrite norm_sq. apply sum_le. intros i Hi.
  pose proof (H i Hi). pose proof (Rabs_pos (u i)).
  apply Rle_trans with (Rabs (u i) * Rabs (u i)); [rewrite <- Rabs_mult; apply Rle_abs|].
  apply Rle_trans with (Rabs (v i) * Rabs (v i)); [apply Rmult_le_compat; auto|]. rewrite <- Rabs_mult, Rabs_right; nra.
Qed.
Lemma norm_sum m k (f : nat -> nat -> R) : norm k (fun o => sum m (fun j => f o j)) <= sum m (fun j => norm k (fun o => f o j)).
Proof.
  induction m as [|m IH]; simpl.
  - rewrite (norm_ext k _ (vsc 0 (fun _ => 0))) by (intros; unfold vsc; ring). rewrite norm0. lra.
  - eapply Rle_trans; [apply (norm_tri k (fun o => sum m (fun j => f o j)) (fun o => f o m))|]. lra.
Qed.
(* sums over the units of vectors over the outputs, each bounded by a product of two numbers *)
Lemma three m k (f : nat -> nat -> R) (g h : vec) K : 0 <= K -> (forall j, (j < m)%nat -> norm k (fun o => f o j) <= K * (Rabs (g j) * Rabs (h j))) ->
  norm k (fun o => sum m (fun j => f o j)) <= K * (norm m g * norm m h).
Proof.
  intros HK H. eapply Rle_trans; [apply norm_sum|].
  apply Rle_trans with (sum m (fun j => K * (Rabs (g j) * Rabs (h j)))); [apply sum_le; auto|].
  rewrite sum_scal. apply Rmult_le_compat_l; auto.
  assert (E : forall u, norm m (fun j => Rabs (u j)) = norm m u).
  { intros u. rewrite !norm_ip. f_equal. apply sum_ext. intros j Hj. rewrite <- Rabs_mult. apply Rabs_right. nra. }
  rewrite <- (E g), <- (E h). apply (CS m (fun j => Rabs (g j)) (fun j => Rabs (h j))).
Qed.
Lemma norm_mul k a (u : vec) : norm k (fun o => u o * a) = Rabs a * norm k u.
Proof. rewrite <- norm_sc. apply norm_ext. intros; unfold vsc; ring. Qed.

Section Network.
Variables (P : problem) (dsg : R -> R) (L1 L2 : R).
(* groups of rows with equal inputs: one row of each, how many they are, and the means of their targets *)
Variables (G : nat) (first : nat -> nat) (counts : nat -> R) (mean : nat -> vec).
Let m := units P. Let d := inputs P. Let k := outputs P. Let c := scale P.
Let x (g : nat) : vec := input P (first g).
Let sg := activation P.
Let p := (m * d + m * k)%nat.
Let n := (G * k)%nat.
Hypothesis Dsg : forall t, is_derive sg t (dsg t).
Hypothesis L1p : forall t, Rabs (dsg t) <= L1.
Hypothesis L2p : forall t u, Rabs (dsg t - dsg u) <= L2 * Rabs (t - u).
Hypothesis HL1 : 0 <= L1.
Hypothesis HL2 : 0 <= L2.
Hypothesis Hc : 0 <= c.
Hypothesis Hcounts : forall g, (g < G)%nat -> 0 <= counts g.

(* number g k + o: output o of group g, which counts as much as the group has rows *)
Definition root (g : nat) : R := sqrt (counts g).
Definition residual (w : vec) : vec := fun r =>
  root (r / outputs P) * (network P w (first (r / outputs P)) (r mod outputs P) - mean (r / outputs P)%nat (r mod outputs P)%nat).
(* a matrix of the shape of the Jacobian: B r j x_g l for the hidden weights, C r j for those of the read-out that lead to output o *)
Definition shaped (B C : mat) : mat := fun r q =>
  if Nat.ltb q (units P * inputs P) then B r (q / inputs P)%nat * input P (first (r / outputs P)) (q mod inputs P)%nat
  else let e := (q - units P * inputs P)%nat in if Nat.eqb (e mod outputs P) (r mod outputs P) then C r (e / outputs P)%nat else 0.
Definition weighed (A : mat) : mat := fun r q => root (r / outputs P) * A r q.
Definition slopes (w : vec) : mat := fun r j => read_out P w (r mod outputs P) j * (scale P * dsg (hidden P w (first (r / outputs P)) j)).
Definition features (w : vec) : mat := fun r j => scale P * activation P (hidden P w (first (r / outputs P)) j).
Definition free (C : mat) : mat := fun r j => if read_out_trained P then C r j else 0.
Definition jac (w : vec) : mat := weighed (shaped (slopes w) (free (features w))).

Lemma shaped_hidden B C r j l : (j < m)%nat -> (l < d)%nat -> shaped B C r (j * d + l)%nat = B r j * x (r / k) l.
Proof.
  intros Hj Hl. unfold shaped. fold m d k. destruct (Nat.ltb_spec (j * d + l) (m * d)); [|nia].
  destruct (idx d j l Hl) as [-> ->]. reflexivity.
Qed.
Lemma shaped_out B C r j o : (o < k)%nat -> shaped B C r (m * d + (j * k + o))%nat = if Nat.eqb o (r mod k) then C r j else 0.
Proof.
  intros Ho. unfold shaped. fold m d k. destruct (Nat.ltb_spec (m * d + (j * k + o)) (m * d)); [lia|]. cbv zeta.
  replace (m * d + (j * k + o) - m * d)%nat with (j * k + o)%nat by lia. destruct (idx k j o Ho) as [-> ->]. reflexivity.
Qed.
Lemma sum_shaped B C r (f : R -> nat -> R) : (forall q, f 0 q = 0) -> (r < n)%nat ->
  sum p (fun q => f (shaped B C r q) q) = sum m (fun j => sum d (fun l => f (B r j * x (r / k) l) (j * d + l)%nat))
    + sum m (fun j => f (C r j) (m * d + (j * k + r mod k))%nat).
Proof.
  intros F0 Hr. destruct (idx_lt G k r Hr) as [_ [_ Ho]].
  unfold p. rewrite sum_split, !sum_blocks. f_equal; apply sum_ext; intros j Hj; [apply sum_ext; intros l Hl; rewrite shaped_hidden; auto|].
  rewrite <- (sum_pick k (r mod k) (fun o => f (C r j) (m * d + (j * k + o))%nat)) by auto.
  apply sum_ext. intros o Hl. rewrite shaped_out by auto. destruct (Nat.eqb_spec o (r mod k)); auto.
Qed.

(* x_g . u_j as a vector over the units *)
Definition drive (u : vec) g : vec := fun j => sum d (fun l => x g l * u (j * d + l)%nat).
Lemma mv_shaped B C u r : (r < n)%nat ->
  mv p (shaped B C) u r = sum m (fun j => B r j * drive u (r / k) j) + sum m (fun j => C r j * u (m * d + (j * k + r mod k))%nat).
Proof.
  intros Hr. unfold mv. rewrite (sum_shaped B C r (fun s q => s * u q)) by (auto; intros; ring). f_equal. apply sum_ext. intros j Hj.
  unfold drive. rewrite <- sum_scal. apply sum_ext; intros; ring.
Qed.
Lemma mv_weighed A u r : mv p (weighed A) u r = root (r / k) * mv p A u r.
Proof. unfold mv, weighed. fold k. rewrite <- sum_scal. apply sum_ext; intros; ring. Qed.

Lemma is_derive_line th u q t : is_derive (fun t => vadd th (vsc t u) q) t (u q).
Proof.
  unfold vadd, vsc. evar_last.
  - apply @is_derive_plus; [apply @is_derive_const|]. apply @is_derive_scal_l. apply @is_derive_id.
  - unfold scal, plus, zero, one; simpl; unfold mult; simpl. ring.
Qed.
Lemma hidden_derive th u g j t : is_derive (fun t => hidden P (vadd th (vsc t u)) (first g) j) t (drive u g j).
Proof.
  unfold hidden, drive, x. fold d. apply (is_derive_sum d (fun l t => vadd th (vsc t u) (j * d + l)%nat * input P (first g) l)).
  intros l Hl. evar_last; [apply @is_derive_scal_l; apply is_derive_line|].
  unfold scal; simpl; unfold mult; simpl. ring.
Qed.
Lemma net_jacobian : jacobian n p residual jac.
Proof.
  intros th u t r Hr. unfold jac. rewrite mv_weighed, mv_shaped by auto. unfold residual, network. fold m c k.
  set (g := (r / k)%nat). set (o := (r mod k)%nat). apply is_derive_scal. evar_last.
  - apply @is_derive_minus; [|apply @is_derive_const].
    apply (is_derive_sum m (fun j t => read_out P (vadd th (vsc t u)) o j * (c * activation P (hidden P (vadd th (vsc t u)) (first g) j)))
      (fun j => (if read_out_trained P then u (m * d + (j * k + o))%nat else 0) * (c * sg (hidden P (vadd th (vsc t u)) (first g) j))
        + read_out P (vadd th (vsc t u)) o j * (c * (dsg (hidden P (vadd th (vsc t u)) (first g) j) * drive u g j)))).
    intros j Hj.
    assert (D1 : is_derive (fun t => read_out P (vadd th (vsc t u)) o j) t (if read_out_trained P then u (m * d + (j * k + o))%nat else 0)).
    { unfold read_out. destruct (read_out_trained P); [apply is_derive_line|apply @is_derive_const]. }
    assert (D2 : is_derive (fun t => c * activation P (hidden P (vadd th (vsc t u)) (first g) j)) t (c * (dsg (hidden P (vadd th (vsc t u)) (first g) j) * drive u g j))).
    { evar_last; [apply is_derive_scal; apply (is_derive_comp sg (fun t => hidden P (vadd th (vsc t u)) (first g) j)); [apply Dsg|apply hidden_derive]|].
      unfold scal; simpl; unfold mult; simpl. ring. }
    apply is_derive_Reals. apply is_derive_Reals in D1. apply is_derive_Reals in D2.
    apply (derivable_pt_lim_mult (fun t => read_out P (vadd th (vsc t u)) o j) (fun t => c * activation P (hidden P (vadd th (vsc t u)) (first g) j))); auto.
  - unfold minus, plus, opp, zero; simpl. rewrite Ropp_0, Rplus_0_r, sum_plus, Rplus_comm. f_equal; apply sum_ext; intros j Hj.
    + unfold slopes. fold c k g o. ring.
    + unfold free, features. fold c sg k g. destruct (read_out_trained P); ring.
Qed.
Lemma hidden_local th th' i j : (forall q, (q < p)%nat -> th q = th' q) -> (j < m)%nat -> hidden P th i j = hidden P th' i j.
Proof. intros H Hj. unfold hidden. apply sum_ext. intros l Hl. rewrite H; auto. unfold p, d in *. nia. Qed.
Lemma read_out_local th th' o j : (forall q, (q < p)%nat -> th q = th' q) -> (j < m)%nat -> (o < k)%nat -> read_out P th o j = read_out P th' o j.
Proof. intros H Hj Ho. unfold read_out. destruct (read_out_trained P); auto. apply H. unfold p. fold m d k. nia. Qed.
Lemma net_local : local n p residual.
Proof.
  intros t1 t2 H r Hr. destruct (idx_lt G k r Hr) as [_ [_ Ho]]. unfold residual, network. fold k m. do 2 f_equal. apply sum_ext. intros j Hj.
  rewrite (read_out_local t1 t2), (hidden_local t1 t2); auto.
Qed.
Lemma jac_local : local_jacobian n p jac.
Proof.
  intros t1 t2 H r q Hr Hq. destruct (idx_lt G k r Hr) as [K0 [_ Ho]]. unfold jac, weighed, shaped, slopes, free, features. fold m d k. f_equal.
  destruct (Nat.ltb_spec q (m * d)) as [Q|Q].
  - destruct (idx_lt m d q Q) as [_ [Q2 _]]. rewrite (read_out_local t1 t2), (hidden_local t1 t2); auto.
  - cbv zeta. destruct (Nat.eqb _ _); auto. destruct (read_out_trained P); auto.
    rewrite (hidden_local t1 t2); auto. apply Nat.div_lt_upper_bound; unfold p in Hq; lia.
Qed.

(* norms of hidden weights, unit by unit, and of both parts *)
Definition unit_norm (u : vec) : vec := fun j => norm d (fun l => u (j * d + l)%nat).
Lemma unit_norm_all u : norm m (unit_norm u) = norm (m * d) u.
Proof. apply norm_blocks. Qed.
Definition outs (u : vec) : vec := fun q => u (m * d + q)%nat.
Definition out_norm (u : vec) : vec := fun j => norm k (fun o => outs u (j * k + o)%nat).
Lemma out_norm_all u : norm m (out_norm u) = norm (m * k) (outs u).
Proof. apply norm_blocks. Qed.
Lemma norm_parts u : norm p u = sqrt (norm (m * d) u * norm (m * d) u + norm (m * k) (outs u) * norm (m * k) (outs u)).
Proof. rewrite !norm_sq. rewrite norm_ip. f_equal. unfold ip, p. rewrite sum_split. reflexivity. Qed.
Lemma outs_le u : norm (m * k) (outs u) <= norm p u.
Proof.
  rewrite norm_parts. pose proof (norm_pos (m * k) (outs u)) as Q. rewrite <- (sqrt_square _ Q) at 1. apply sqrt_le_1_alt.
  pose proof (Rle_0_sqr (norm (m * d) u)) as Z. unfold Rsqr in Z. lra.
Qed.
Lemma root_sq g : (g < G)%nat -> root g * root g = counts g.
Proof. intros H. apply sqrt_sqrt. auto. Qed.
Lemma root_pos g : 0 <= root g.
Proof. apply sqrt_pos. Qed.

Variables (A X1 X2 : R).
Hypothesis HX1 : 0 <= X1.
Hypothesis HX2 : 0 <= X2.
Hypothesis HXi : forall g, (g < G)%nat -> ip d (x g) (x g) <= X1 * X1.
Hypothesis HXo : forall u, norm G (fun g => root g * sum d (fun l => x g l * u l)) <= X2 * norm d u.

Lemma drive_row u g : (g < G)%nat -> norm m (drive u g) <= X1 * norm (m * d) u.
Proof.
  intros Hi. pose proof (norm_pos (m * d) u). apply norm_le; [apply Rmult_le_pos; auto|].
  apply Rle_trans with (sum m (fun j => X1 * X1 * (unit_norm u j * unit_norm u j))).
  - apply sum_le. intros j Hj. pose proof (CS2 d (x g) (fun l => u (j * d + l)%nat)) as Q. unfold drive.
    unfold ip in Q at 1 2. eapply Rle_trans; [exact Q|]. unfold unit_norm. rewrite norm_sq. apply Rmult_le_compat_r; auto using ip_pos.
  - rewrite sum_scal. change (sum m (fun j => unit_norm u j * unit_norm u j)) with (ip m (unit_norm u) (unit_norm u)). rewrite <- norm_sq, unit_norm_all. right; ring.
Qed.
Lemma drive_all u : sum G (fun g => root g * root g * ip m (drive u g) (drive u g)) <= X2 * norm (m * d) u * (X2 * norm (m * d) u).
Proof.
  rewrite (sum_ext G _ (fun g => sum m (fun j => root g * drive u g j * (root g * drive u g j)))).
  2: { intros g Hg. unfold ip. rewrite <- sum_scal. apply sum_ext; intros; ring. }
  rewrite sum_exch. apply Rle_trans with (sum m (fun j => X2 * X2 * (unit_norm u j * unit_norm u j))).
  - apply sum_le. intros j Hj. pose proof (HXo (fun l => u (j * d + l)%nat)) as Q. fold (unit_norm u j) in Q.
    set (q := fun g => root g * sum d (fun l => x g l * u (j * d + l)%nat)) in *.
    change (ip G q q <= X2 * X2 * (unit_norm u j * unit_norm u j)). rewrite <- norm_sq.
    apply Rle_trans with (X2 * unit_norm u j * (X2 * unit_norm u j)); [|right; ring]. apply Rmult_le_compat; auto using norm_pos.
  - rewrite sum_scal. change (sum m (fun j => unit_norm u j * unit_norm u j)) with (ip m (unit_norm u) (unit_norm u)). rewrite <- norm_sq, unit_norm_all. right; ring.
Qed.
Lemma by_drive (v u : vec) K : 0 <= K -> (forall g, (g < G)%nat -> norm k (fun o => v (g * k + o)%nat) <= root g * (K * norm m (drive u g))) ->
  norm n v <= K * X2 * norm (m * d) u.
Proof.
  intros HK H. pose proof (norm_pos (m * d) u). apply norm_le; [repeat apply Rmult_le_pos; auto|].
  unfold ip, n. rewrite sum_blocks. apply Rle_trans with (sum G (fun g => K * K * (root g * root g * ip m (drive u g) (drive u g)))).
  - apply sum_le. intros g Hg. pose proof (H g Hg) as Q. set (b := fun o => v (g * k + o)%nat) in *. change (ip k b b <= K * K * (root g * root g * ip m (drive u g) (drive u g))).
    rewrite <- !norm_sq. pose proof (norm_pos k b).
    apply Rle_trans with (root g * (K * norm m (drive u g)) * (root g * (K * norm m (drive u g)))); [apply Rmult_le_compat; auto|right; ring].
  - rewrite sum_scal. pose proof (drive_all u). assert (0 <= K * K) by nra.
    apply Rle_trans with (K * K * (X2 * norm (m * d) u * (X2 * norm (m * d) u))); [apply Rmult_le_compat_l; auto|right; ring].
Qed.

Variable theta0 : vec.
Definition cell (w : vec) (j : nat) : R := norm (outputs P) (fun o => read_out P w o j).
Hypothesis HA : forall j, (j < m)%nat -> cell theta0 j <= A.
Definition reach (t : R) := if read_out_trained P then A + t else A.
Definition cross : R := if read_out_trained P then c * L1 * X2 else 0.
Lemma cell_diff t1 t2 j : norm k (fun o => read_out P t1 o j - read_out P t2 o j) <= (if read_out_trained P then 1 else 0) * out_norm (vsub t1 t2) j.
Proof.
  unfold read_out, out_norm, outs, vsub. fold m d k. destruct (read_out_trained P); [right; rewrite Rmult_1_l; reflexivity|].
  rewrite (norm_ext k _ (vsc 0 (fun _ => 0))) by (intros; unfold vsc; ring). rewrite norm0. lra.
Qed.
Lemma read_out_ball th t j : norm p (vsub th theta0) <= t -> (j < m)%nat -> cell th j <= reach t.
Proof.
  intros H Hj. pose proof (HA j Hj) as Q. unfold cell in Q |- *. fold k in Q |- *.
  pose proof (norm_sub_tri k (fun o => read_out P th o j) (fun o => read_out P theta0 o j)) as T. unfold vsub in T at 1.
  pose proof (cell_diff th theta0 j) as E. unfold reach. destruct (read_out_trained P); [|lra].
  assert (out_norm (vsub th theta0) j <= t).
  { eapply Rle_trans; [|exact H]. eapply Rle_trans; [|apply outs_le]. rewrite <- out_norm_all.
    eapply Rle_trans; [|apply (norm_coord m _ j Hj)]. apply Rle_abs. }
  lra.
Qed.
Lemma hidden_diff t1 t2 g j : hidden P t1 (first g) j - hidden P t2 (first g) j = drive (vsub t1 t2) g j.
Proof. unfold hidden, drive, vsub, x. fold d. rewrite <- sum_minus. apply sum_ext; intros; ring. Qed.

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
  set (v1 := fun r => root (r / k) * sum m (fun j => read_out P t1 (r mod k) j * (c * (dsg (hidden P t1 (first (r / k)) j) - dsg (hidden P t2 (first (r / k)) j))) * drive u (r / k) j)).
  set (v2 := fun r => root (r / k) * sum m (fun j => (read_out P t1 (r mod k) j - read_out P t2 (r mod k) j) * (c * dsg (hidden P t2 (first (r / k)) j)) * drive u (r / k) j)).
  set (v3 := fun r => root (r / k) * (if read_out_trained P then sum m (fun j => c * (sg (hidden P t1 (first (r / k)) j) - sg (hidden P t2 (first (r / k)) j)) * outs u (j * k + r mod k)%nat) else 0)).
  rewrite (norm_ext n _ (vadd v1 (vadd v2 v3))).
  2: { intros r Hr. rewrite mv_msub. unfold jac. rewrite !mv_weighed, !mv_shaped by auto. unfold vadd, v1, v2, v3, slopes, free, features, outs. fold c sg k.
       rewrite <- Rmult_minus_distr_l, <- !Rmult_plus_distr_l. f_equal.
       destruct (read_out_trained P).
       - rewrite <- !sum_plus, <- sum_minus. apply sum_ext. intros j Hj. ring.
       - rewrite !(sum_ext m (fun j => 0 * _) (fun _ => 0)), !sum_0 by (intros; ring).
         rewrite !Rplus_0_r, <- sum_plus, <- sum_minus. apply sum_ext. intros j Hj. ring. }
  (* the block of a group: its root times a vector over the outputs *)
  assert (Block : forall (f : nat -> nat -> R) g a, norm k (f g) <= a ->
    norm k (fun o => root ((g * k + o) / k) * f ((g * k + o) / k)%nat ((g * k + o) mod k)%nat) <= root g * a).
  { intros f g a Ha. rewrite (norm_ext k _ (vsc (root g) (f g))).
    - rewrite norm_sc_pos by apply root_pos. apply Rmult_le_compat_l; [apply root_pos|exact Ha].
    - intros o Ho. destruct (idx k g o Ho) as [-> ->]. reflexivity. }
  pose proof (norm_pos (m * d) u) as Pu. pose proof (norm_pos (m * d) D) as Pd. pose proof (norm_pos (m * k) (outs u)) as Po. pose proof (norm_pos (m * k) (outs D)) as Pq.
  assert (N1 : norm n v1 <= h * norm (m * d) D * norm (m * d) u).
  { set (K := c * reach t * L2 * (X1 * norm (m * d) D)).
    assert (K0 : 0 <= c * reach t * L2) by (repeat apply Rmult_le_pos; auto).
    replace (h * norm (m * d) D * norm (m * d) u) with (K * X2 * norm (m * d) u) by (unfold K, h; ring).
    apply by_drive; [unfold K; repeat apply Rmult_le_pos; auto|]. intros g Hg.
    apply (Block (fun g o => sum m (fun j => read_out P t1 o j * (c * (dsg (hidden P t1 (first g) j) - dsg (hidden P t2 (first g) j))) * drive u g j))).
    unfold K. apply Rle_trans with (c * reach t * L2 * (norm m (drive D g) * norm m (drive u g))).
    - apply (three m k (fun o j => read_out P t1 o j * (c * (dsg (hidden P t1 (first g) j) - dsg (hidden P t2 (first g) j))) * drive u g j)); auto.
      intros j Hj. rewrite norm_mul, norm_mul, Rabs_mult, (Rabs_right c) by lra. unfold D. rewrite <- (hidden_diff t1 t2).
      pose proof (L2p (hidden P t1 (first g) j) (hidden P t2 (first g) j)) as Z. pose proof (read_out_ball t1 t j B1 Hj) as Z2. unfold cell in Z2. fold k in Z2.
      set (da := dsg (hidden P t1 (first g) j) - dsg (hidden P t2 (first g) j)) in *. set (dh := hidden P t1 (first g) j - hidden P t2 (first g) j) in *.
      set (nr := norm k (fun o => read_out P t1 o j)) in *. pose proof (Rabs_pos (drive u g j)) as Pw. pose proof (Rabs_pos da). pose proof (norm_pos k (fun o => read_out P t1 o j)) as Pn. fold nr in Pn.
      replace (c * reach t * L2 * (Rabs dh * Rabs (drive u g j))) with (Rabs (drive u g j) * (c * (L2 * Rabs dh) * reach t)) by ring.
      apply Rmult_le_compat_l; auto. apply Rmult_le_compat; auto; [apply Rmult_le_pos; auto|]. apply Rmult_le_compat_l; auto.
    - rewrite <- Rmult_assoc. apply Rmult_le_compat_r; [apply norm_pos|]. apply Rmult_le_compat_l; auto. apply drive_row; auto. }
  assert (N2 : norm n v2 <= cross * (norm (m * k) (outs D) * norm (m * d) u)).
  { set (tr := if read_out_trained P then 1 else 0). set (K := c * L1 * tr * norm (m * k) (outs D)).
    assert (T0 : 0 <= tr) by (unfold tr; destruct (read_out_trained P); lra).
    assert (K0 : 0 <= K) by (unfold K; repeat apply Rmult_le_pos; auto using norm_pos).
    apply Rle_trans with (K * X2 * norm (m * d) u).
    - apply by_drive; auto. intros g Hg.
      apply (Block (fun g o => sum m (fun j => (read_out P t1 o j - read_out P t2 o j) * (c * dsg (hidden P t2 (first g) j)) * drive u g j))).
      unfold K. rewrite Rmult_assoc, <- (out_norm_all D).
      apply (three m k (fun o j => (read_out P t1 o j - read_out P t2 o j) * (c * dsg (hidden P t2 (first g) j)) * drive u g j) (out_norm D) (drive u g)); [apply Rmult_le_pos; auto|].
      intros j Hj. rewrite norm_mul, norm_mul, Rabs_mult, (Rabs_right c) by lra.
      pose proof (cell_diff t1 t2 j) as Z. fold tr D in Z. pose proof (L1p (hidden P t2 (first g) j)) as Z2.
      assert (Po1 : 0 <= out_norm D j) by apply norm_pos. rewrite (Rabs_right (out_norm D j)) by lra.
      pose proof (Rabs_pos (drive u g j)) as Pw. pose proof (Rabs_pos (dsg (hidden P t2 (first g) j))). pose proof (norm_pos k (fun o => read_out P t1 o j - read_out P t2 o j)) as Pn.
      replace (c * L1 * tr * (out_norm D j * Rabs (drive u g j))) with (Rabs (drive u g j) * (c * L1 * (tr * out_norm D j))) by ring.
      apply Rmult_le_compat_l; auto. apply Rmult_le_compat; auto; [apply Rmult_le_pos; auto|]. apply Rmult_le_compat_l; auto.
    - unfold K, cross, tr. destruct (read_out_trained P); right; ring. }
  assert (N3 : norm n v3 <= cross * (norm (m * d) D * norm (m * k) (outs u))).
  { unfold v3, cross. destruct (read_out_trained P).
    - apply Rle_trans with (c * L1 * norm (m * k) (outs u) * X2 * norm (m * d) D); [|right; ring].
      apply by_drive; [apply Rmult_le_pos; auto|]. intros g Hg.
      apply (Block (fun g o => sum m (fun j => c * (sg (hidden P t1 (first g) j) - sg (hidden P t2 (first g) j)) * outs u (j * k + o)%nat))).
      apply Rle_trans with (c * L1 * (norm m (drive D g) * norm (m * k) (outs u))); [|right; ring]. rewrite <- (out_norm_all u).
      apply (three m k (fun o j => c * (sg (hidden P t1 (first g) j) - sg (hidden P t2 (first g) j)) * outs u (j * k + o)%nat) (drive D g) (out_norm u)); auto.
      intros j Hj. rewrite (norm_ext k _ (fun o => outs u (j * k + o)%nat * (c * (sg (hidden P t1 (first g) j) - sg (hidden P t2 (first g) j))))) by (intros; ring).
      rewrite norm_mul. fold (out_norm u j). assert (Po1 : 0 <= out_norm u j) by apply norm_pos. rewrite (Rabs_right (out_norm u j)) by lra.
      rewrite <- Rmult_assoc. apply Rmult_le_compat_r; auto. rewrite Rabs_mult, (Rabs_right c), Rmult_assoc by lra. apply Rmult_le_compat_l; auto. unfold D. rewrite <- hidden_diff.
      destruct (MVT_gen sg (hidden P t2 (first g) j) (hidden P t1 (first g) j) dsg) as [z [_ E]].
      + intros; apply Dsg.
      + intros z _. apply derivable_continuous_pt. exists (dsg z). apply is_derive_Reals. apply Dsg.
      + rewrite E, Rabs_mult. apply Rmult_le_compat_r; [apply Rabs_pos|apply L1p].
    - rewrite (norm_ext n _ (vsc 0 (fun _ => 0))) by (intros; unfold vsc; ring). rewrite norm0. lra. }
  eapply Rle_trans; [apply norm_tri|]. eapply Rle_trans; [apply Rplus_le_compat_l; apply norm_tri|].
  rewrite (norm_parts u), (norm_parts D), Rmult_assoc.
  eapply Rle_trans; [|apply (form_bound h cross l (norm (m * d) D) (norm (m * k) (outs D)) (norm (m * d) u) (norm (m * k) (outs u))); auto]. lra.
Qed.

(* tables of rounded slopes and features *)
Variables (B C : mat) (delta err na2 nx2 rows_in_all : R).
Hypothesis HB : forall r j, (r < n)%nat -> (j < m)%nat -> Rabs (slopes theta0 r j - B r j) <= delta.
Hypothesis HC : forall r j, (r < n)%nat -> (j < m)%nat -> Rabs (features theta0 r j - C r j) <= delta.
Hypothesis Hd : 0 <= delta.
Hypothesis Herr : 0 <= err.
Hypothesis Hall : sum G counts <= rows_in_all.
Hypothesis Hnx : sum G (fun g => counts g * ip d (x g) (x g)) <= nx2.
Hypothesis Hfro : delta * delta * (INR m * INR k * (nx2 + rows_in_all)) <= err * err.

Definition gram_of (B C : mat) : mat := fun r s => ip d (x (r / k)) (x (s / k)) * ip m (B r) (B s) + (if Nat.eqb (r mod k) (s mod k) then ip m (C r) (C s) else 0).
Lemma shaped_gram r s : (r < n)%nat -> (s < n)%nat -> sum p (fun q => shaped B C r q * shaped B C s q) = gram_of B C r s.
Proof.
  intros Hr Hs. rewrite (sum_shaped B C r (fun v q => v * shaped B C s q)) by (auto; intros; ring). unfold gram_of, ip. f_equal.
  - rewrite Rmult_comm, <- (Rmult_comm (sum d _)), <- sum_scal. apply sum_ext. intros j Hj.
    rewrite (sum_ext d _ (fun l => B r j * B s j * (x (r / k) l * x (s / k) l))) by (intros; rewrite shaped_hidden by auto; ring).
    rewrite sum_scal. ring.
  - destruct (idx_lt G k r Hr) as [_ [_ Ho]]. destruct (Nat.eqb_spec (r mod k) (s mod k)) as [E|E].
    + apply sum_ext. intros j Hj. rewrite shaped_out by auto. rewrite E, Nat.eqb_refl. reflexivity.
    + rewrite (sum_ext m _ (fun _ => 0)), sum_0; auto. intros j Hj. rewrite shaped_out by auto.
      destruct (Nat.eqb_spec (r mod k) (s mod k)); [contradiction|ring].
Qed.
Lemma square_le a b : Rabs a <= b -> a * a <= b * b.
Proof. intros H. pose proof (Rabs_pos a). apply Rle_trans with (Rabs a * Rabs a); [rewrite <- Rabs_mult; apply Rle_abs|]. apply Rmult_le_compat; auto. Qed.
Lemma sum_groups (f : nat -> R) : sum n (fun r => f (r / k)%nat) = INR k * sum G f.
Proof.
  unfold n. rewrite sum_blocks, <- sum_scal. apply sum_ext. intros g Hg. rewrite <- sum_const. apply sum_ext. intros o Ho.
  destruct (idx k g o Ho) as [-> _]. reflexivity.
Qed.
Lemma rounding v : norm p (vsub (mtv n (jac theta0) v) (mtv n (weighed (shaped B (free C))) v)) <= err * norm n v.
Proof.
  rewrite (norm_ext p _ (mtv n (msub (jac theta0) (weighed (shaped B (free C)))) v)) by (intros; rewrite mtv_msub; reflexivity).
  apply frobenius; auto.
  apply Rle_trans with (sum n (fun r => (fun g => delta * delta * INR m * (counts g * ip d (x g) (x g)) + delta * delta * INR m * counts g) (r / k)%nat)).
  - apply sum_le. intros r Hr. destruct (idx_lt G k r Hr) as [_ [Hg _]]. cbv beta. set (g := (r / k)%nat) in *.
    rewrite (sum_ext p _ (fun q => counts g * (shaped (fun r j => slopes theta0 r j - B r j) (fun r j => free (features theta0) r j - free C r j) r q
      * shaped (fun r j => slopes theta0 r j - B r j) (fun r j => free (features theta0) r j - free C r j) r q))).
    2: { intros q Hq. rewrite <- (root_sq g) by auto. unfold msub, jac, weighed. fold k g.
         replace (shaped (fun r j => slopes theta0 r j - B r j) (fun r j => free (features theta0) r j - free C r j) r q)
           with (shaped (slopes theta0) (free (features theta0)) r q - shaped B (free C) r q); [ring|].
         unfold shaped. destruct (Nat.ltb _ _); [ring|]. cbv zeta. destruct (Nat.eqb _ _); ring. }
    rewrite sum_scal, (sum_shaped _ _ r (fun s _ => s * s)) by (auto; intros; ring). fold g.
    replace (delta * delta * INR m * (counts g * ip d (x g) (x g)) + delta * delta * INR m * counts g) with (counts g * (INR m * (delta * delta * ip d (x g) (x g)) + INR m * (delta * delta))) by ring.
    apply Rmult_le_compat_l; auto. apply Rplus_le_compat; rewrite <- sum_const; apply sum_le; intros j Hj.
    + rewrite (sum_ext d _ (fun l => (slopes theta0 r j - B r j) * (slopes theta0 r j - B r j) * (x g l * x g l))) by (intros; ring).
      rewrite sum_scal. apply Rmult_le_compat_r; [apply ip_pos|]. apply square_le. auto.
    + apply square_le. unfold free. destruct (read_out_trained P); [apply HC; auto|]. rewrite Rminus_0_r, Rabs_R0. auto.
  - rewrite (sum_groups (fun g => delta * delta * INR m * (counts g * ip d (x g) (x g)) + delta * delta * INR m * counts g)), sum_plus, !sum_scal.
    eapply Rle_trans; [|exact Hfro]. pose proof (pos_INR m). pose proof (pos_INR k).
    replace (delta * delta * (INR m * INR k * (nx2 + rows_in_all))) with (delta * delta * INR m * INR k * (nx2 + rows_in_all)) by ring.
    replace (INR k * (delta * delta * INR m * sum G (fun g => counts g * ip d (x g) (x g)) + delta * delta * INR m * sum G counts))
      with (delta * delta * INR m * INR k * (sum G (fun g => counts g * ip d (x g) (x g)) + sum G counts)) by ring.
    apply Rmult_le_compat_l; [repeat apply Rmult_le_pos; auto|]. lra.
Qed.

(* the residual *)
Hypothesis Hna : sum (m * k) (fun q => read_out P theta0 (q mod k) (q / k) * read_out P theta0 (q mod k) (q / k)) <= na2.
Variables (rho rho0 erho : R).
Hypothesis Hrho0 : 0 <= rho0.
Hypothesis Herho : 0 <= erho.
Definition rest_of (r : nat) : R := sum m (fun j => read_out P theta0 (r mod k) j * C r j) - mean (r / k)%nat (r mod k)%nat.
Hypothesis Hr0 : sum n (fun r => counts (r / k) * (rest_of r * rest_of r)) <= rho0 * rho0.
Hypothesis Hr1 : delta * delta * na2 * (rows_in_all * INR m) <= erho * erho.
Hypothesis Hr2 : rho0 + erho <= rho.
Theorem residual_norm : norm n (residual theta0) <= rho.
Proof.
  set (r0 := fun r => root (r / k) * rest_of r).
  set (e := fun r => root (r / k) * sum m (fun j => read_out P theta0 (r mod k) j * (features theta0 r j - C r j))).
  rewrite (norm_ext n _ (vadd r0 e)).
  - eapply Rle_trans; [apply norm_tri|]. eapply Rle_trans; [|exact Hr2]. apply Rplus_le_compat.
    + apply norm_le; auto. eapply Rle_trans; [right|exact Hr0]. apply sum_ext. intros r Hr. destruct (idx_lt G k r Hr) as [_ [Hg _]].
      unfold r0. rewrite <- (root_sq (r / k)) by auto. ring.
    + apply norm_le; auto. eapply Rle_trans; [|exact Hr1]. unfold ip, n. rewrite sum_blocks.
      apply Rle_trans with (sum G (fun g => na2 * (INR m * (delta * delta)) * counts g)).
      * apply sum_le. intros g Hg.
        apply Rle_trans with (sum k (fun o => counts g * (INR m * (delta * delta)) * sum m (fun j => read_out P theta0 o j * read_out P theta0 o j))).
        { apply sum_le. intros o Ho. assert (Hr : (g * k + o < n)%nat) by (unfold n; nia). unfold e. destruct (idx k g o Ho) as [-> ->].
          set (q := sum m (fun j => read_out P theta0 o j * (features theta0 (g * k + o)%nat j - C (g * k + o)%nat j))).
          replace (root g * q * (root g * q)) with (counts g * (q * q)) by (rewrite <- (root_sq g) by auto; ring). rewrite Rmult_assoc. apply Rmult_le_compat_l; auto.
          eapply Rle_trans; [apply (CS2 m (fun j => read_out P theta0 o j) (fun j => features theta0 (g * k + o)%nat j - C (g * k + o)%nat j))|].
          rewrite Rmult_comm. apply Rmult_le_compat; auto using ip_pos; [|right; reflexivity]. rewrite <- sum_const. apply sum_le. intros j Hj. apply square_le. auto. }
        rewrite sum_scal, sum_exch. pose proof (pos_INR m).
        replace (na2 * (INR m * (delta * delta)) * counts g) with (counts g * (INR m * (delta * delta)) * na2) by ring.
        apply Rmult_le_compat_l; [repeat apply Rmult_le_pos; auto|]. eapply Rle_trans; [right|exact Hna]. rewrite sum_blocks. apply sum_ext. intros j Hj. apply sum_ext. intros o Ho.
        destruct (idx k j o Ho) as [-> ->]. reflexivity.
      * rewrite sum_scal. replace (delta * delta * na2 * (rows_in_all * INR m)) with (na2 * (INR m * (delta * delta)) * rows_in_all) by ring. apply Rmult_le_compat_l; auto.
        apply Rmult_le_pos; [|apply Rmult_le_pos; [apply pos_INR|apply Rmult_le_pos; auto]].
        eapply Rle_trans; [|exact Hna]. apply sum_pos. intros q Hq. apply Rle_0_sqr.
  - intros r Hr. unfold residual, network, vadd, r0, e, rest_of. fold m k.
    rewrite <- Rmult_plus_distr_l. f_equal. rewrite (sum_ext m _ (fun j => read_out P theta0 (r mod k) j * C r j + read_out P theta0 (r mod k) j * (features theta0 r j - C r j))), sum_plus; [ring|].
    intros j Hj. unfold features. fold k. ring.
Qed.
End Network.
