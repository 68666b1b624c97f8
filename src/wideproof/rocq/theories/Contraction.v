(* Lemma 0: what one step of gradient descent takes from a linear residual, without the spectral theorem. *)
From Coq Require Import Reals Lra Lia Psatz.
From Wideproof Require Import Statement theories.Vectors.
Open Scope R_scope.

(* A = h J J^T lies between e = h m^2 and beta; kappa^2 (1 - beta e) <= beta (2 - beta - e), so kappa = 1 for beta = 1. *)
Lemma contraction n p (J : mat) (r : vec) h m beta kap :
  0 <= h -> 0 <= m -> 0 < beta -> 0 <= kap <= 1 -> beta + h * (m * m) <= 2 ->
  kap * kap * (1 - beta * (h * (m * m))) <= beta * (2 - beta - h * (m * m)) ->
  (forall x, m * norm n x <= norm p (mtv n J x)) ->
  (forall x, h * (norm p (mtv n J x) * norm p (mtv n J x)) <= beta * (norm n x * norm n x)) ->
  norm n (vsub r (vsc h (mv p J (mtv n J r)))) <= norm n r - h * kap * m * norm p (mtv n J r).
Proof.
  intros Hh Hm Hb Hk H2 Hkap Hlo Hup.
  set (g := mtv n J r). set (w := mv p J g).
  set (e := h * (m * m)) in *.
  pose proof (norm_pos n r) as Pr. pose proof (norm_pos p g) as Pg.
  assert (G : ip p g g = ip n w r). { unfold w. rewrite adj. fold g. reflexivity. }
  destruct (Req_dec (norm n r) 0) as [E|E].
  { assert (Eg : norm p g = 0).
    { rewrite <- norm_sq in G. pose proof (CS n w r) as C. rewrite E in C. nra. }
    assert (Ew : ip n w w = 0).
    { pose proof (CS p g (mtv n J w)) as C. rewrite <- adj in C. fold w in C. rewrite Eg in C. pose proof (ip_pos n w). lra. }
    rewrite Eg, E. replace (0 - h * kap * m * 0) with 0 by ring. apply norm_le; [lra|].
    rewrite ip_sub, !ip_sub_r, !ip_sc, !ip_sc_r, (ip_sym n r w), <- G, Ew, <- !norm_sq, E, Eg. lra. }
  assert (Pr' : 0 < norm n r) by lra.
  assert (He0 : 0 <= e) by (unfold e; apply Rmult_le_pos; auto; nra).
  assert (Lo : forall x, e * ip n x x <= h * ip p (mtv n J x) (mtv n J x)).
  { intros x. rewrite <- !norm_sq. unfold e. pose proof (Hlo x). pose proof (norm_pos n x).
    assert (m * norm n x * (m * norm n x) <= norm p (mtv n J x) * norm p (mtv n J x)) by (apply Rmult_le_compat; nra).
    assert (h * (m * norm n x * (m * norm n x)) <= h * (norm p (mtv n J x) * norm p (mtv n J x))) by (apply Rmult_le_compat_l; auto).
    lra. }
  assert (He1 : e <= beta).
  { pose proof (Lo r) as H. pose proof (Hup r) as H0. rewrite <- !norm_sq in H.
    apply Rmult_le_reg_r with (norm n r * norm n r); nra. }
  assert (Heb : beta * e <= 1) by (pose proof (Rle_0_sqr (beta - e)) as Q; unfold Rsqr in Q; nra).
  set (u := vsub (vsc h w) (vsc e r)).
  assert (Bform : forall x, ip n u x = h * ip p g (mtv n J x) - e * ip n r x).
  { intros x. unfold u. rewrite ip_sub, !ip_sc. unfold w. rewrite adj. reflexivity. }
  assert (Bpos : forall x, 0 <= h * ip p (mtv n J x) (mtv n J x) - e * ip n x x) by (intros x; pose proof (Lo x); lra).
  assert (Bup : forall x, h * ip p (mtv n J x) (mtv n J x) - e * ip n x x <= (beta - e) * ip n x x).
  { intros x. rewrite <- !norm_sq. pose proof (Hup x). lra. }
  assert (Lin : forall t j, mtv n J (vadd r (vsc t u)) j = vadd g (vsc t (mtv n J u)) j).
  { intros t j. unfold vadd, vsc, g, mtv. rewrite <- sum_scal, <- sum_plus. apply sum_ext; intros; ring. }
  assert (C : ip n u u * ip n u u <= (h * ip p g g - e * ip n r r) * (h * ip p (mtv n J u) (mtv n J u) - e * ip n u u)).
  { rewrite (Bform u) at 1 2. apply disc; [apply Bpos|]. intros t. pose proof (Bpos (vadd r (vsc t u))) as Q.
    assert (Q2 : ip p (mtv n J (vadd r (vsc t u))) (mtv n J (vadd r (vsc t u))) = ip p (vadd g (vsc t (mtv n J u))) (vadd g (vsc t (mtv n J u)))).
    { unfold ip. apply sum_ext; intros. rewrite !Lin. reflexivity. }
    rewrite Q2 in Q. rewrite !ip_add, !ip_add_r, !ip_sc, !ip_sc_r in Q.
    rewrite (ip_sym p (mtv n J u) g), (ip_sym n u r) in Q.
    eapply Rle_trans; [exact Q|]. right. ring. }
  set (uu := ip n u u) in *. set (q := h * ip p g g - e * ip n r r) in *.
  assert (Q0 : 0 <= q) by apply Bpos. assert (U0 : 0 <= uu) by apply ip_pos.
  assert (K : uu <= (beta - e) * q).
  { pose proof (Bup u) as Q. fold uu in Q.
    assert (uu * uu <= q * ((beta - e) * uu)) by (eapply Rle_trans; [exact C|]; apply Rmult_le_compat_l; auto).
    destruct (Req_dec uu 0) as [Z|Z]; [rewrite Z; apply Rmult_le_pos; lra|].
    apply Rmult_le_reg_r with uu; nra. }
  assert (UU : uu = h * h * ip n w w - 2 * e * h * ip p g g + e * e * ip n r r).
  { unfold uu, u. rewrite ip_sub, !ip_sub_r, !ip_sc, !ip_sc_r, (ip_sym n r w), <- G. ring. }
  (* the chord above the parabola *)
  assert (Chord : h * h * ip n w w <= (beta + e) * (h * ip p g g) - beta * e * ip n r r) by (clear -K UU; unfold q in K; rewrite UU in K; lra).
  assert (Hgr : h * kap * m * norm p g <= norm n r).
  { pose proof (Hup r) as H0. fold g in H0.
    assert (P : 0 <= h * m * norm p g) by (repeat apply Rmult_le_pos; auto).
    assert (Q : h * m * norm p g <= norm n r).
    { apply Rsqr_incr_0; unfold Rsqr; auto.
      apply Rle_trans with (e * (h * (norm p g * norm p g))); [unfold e; right; ring|].
      apply Rle_trans with (e * (beta * (norm n r * norm n r))); [apply Rmult_le_compat_l; auto|].
      assert (0 <= norm n r * norm n r) by nra. nra. }
    replace (h * kap * m * norm p g) with (kap * (h * m * norm p g)) by ring. nra. }
  apply norm_le; [lra|].
  rewrite ip_sub, !ip_sub_r, !ip_sc, !ip_sc_r, (ip_sym n r w), <- G.
  rewrite <- (norm_sq n r), <- (norm_sq p g) in *.
  set (a := norm n r) in *. set (b := norm p g) in *.
  set (c := 2 - beta - e + kap * kap * e).
  assert (Hc : kap * kap <= beta * c) by (unfold c; lra).
  assert (Quad : 0 <= c * (b * b) - 2 * kap * m * b * a + beta * (m * m) * (a * a)).
  { apply Rmult_le_reg_l with beta; [exact Hb|]. rewrite Rmult_0_r.
    apply Rle_trans with ((kap * b - beta * m * a) * (kap * b - beta * m * a)); [apply Rle_0_sqr|].
    assert (kap * kap * (b * b) <= beta * c * (b * b)) by (apply Rmult_le_compat_r; [apply Rle_0_sqr|auto]). lra. }
  assert (Quad2 : 0 <= h * (c * (b * b) - 2 * kap * m * b * a + beta * (m * m) * (a * a))) by (apply Rmult_le_pos; auto).
  unfold c, e in *. clear -Quad2 Chord. lra.
Qed.
