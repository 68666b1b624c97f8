(* Theorem 1, with larger steps and from a start near the anchor: gradient descent on |F|^2/2 for F : R^p -> R^n. *)
From Coq Require Import Reals Lra Lia Psatz.
From Coquelicot Require Import Coquelicot.
From Wideproof Require Import Statement theories.Vectors theories.Contraction.
Open Scope R_scope.

Section Descent.
Variables (n p : nat) (F : vec -> vec) (J : vec -> mat) (theta0 start : vec).
Variables (rho s Sn kap beta b Rad eta dist sigma rate : R) (M I : R -> R).

(* J is the Jacobian of F: derivative along every line. F looks at the first p weights only. *)
Definition jacobian := forall th d t i, (i < n)%nat ->
  is_derive (fun t => F (vadd th (vsc t d)) i) t (mv p (J (vadd th (vsc t d))) d i).
Definition local := forall th th', (forall j, (j < p)%nat -> th j = th' j) -> forall i, (i < n)%nat -> F th i = F th' i.
Definition local_jacobian := forall th th', (forall j, (j < p)%nat -> th j = th' j) ->
  forall i q, (i < n)%nat -> (q < p)%nat -> J th i q = J th' i q.
(* M bounds how far J moves along a segment that begins within l of the anchor and is no longer than what is left. *)
Definition stairs := forall th d l, norm p (vsub th theta0) <= l -> l + norm p d <= Rad ->
  opT_le n p (msub (J (vadd th d)) (J th)) (M (l + norm p d) - M l).

Hypothesis HJ : jacobian.
Hypothesis Floc : local.
Hypothesis Jloc : local_jacobian.
Hypothesis HL : stairs.
Hypothesis HM0 : M 0 = 0.
Hypothesis HMi : forall x y, 0 <= x <= y -> M x <= M y.
Hypothesis HI0 : I 0 = 0.
Hypothesis HI : forall t, is_derive I t (M t).
Hypothesis Hrho : norm n (F theta0) <= rho.
Hypothesis Hs : forall v, s * norm n v <= norm p (mtv n (J theta0) v).
Hypothesis HS : opT_le n p (J theta0) Sn.
Hypothesis HS0 : 0 <= Sn.
Hypothesis Hb : Sn + M Rad <= b.
Hypothesis Heta : 0 < eta.
Hypothesis Hkap : 0 < kap <= 1.
Hypothesis Hbeta0 : 0 < beta.
Hypothesis Hbeta : eta * (b * b) <= beta.
Hypothesis Hbeta2 : beta + eta * (s * s) <= 2.
Hypothesis Hkap2 : kap * kap * (1 - beta * (eta * (s * s))) <= beta * (2 - beta - eta * (s * s)).
Hypothesis Hdist0 : 0 <= dist.
Hypothesis Hstart : norm p (vsub start theta0) <= dist.
Hypothesis Hdist : dist < Rad.
Hypothesis Hphi : rho + (b + s) * dist - kap * s * Rad + I Rad < 0.
Hypothesis Hsigma : 0 < sigma <= s - M Rad.
Hypothesis Hrate : 0 < rate <= eta * sigma * (kap * s - M Rad).

Definition grad (th : vec) : vec := mtv n (J th) (F th).
Fixpoint gd (k : nat) : vec := match k with O => start | S k => vsub (gd k) (vsc eta (grad (gd k))) end.
Definition stepl k := norm p (vsc eta (grad (gd k))).
Definition len k := dist + sum k stepl.
Definition phi l := rho + (b + s) * dist - kap * s * l + I l.

Lemma M_pos t : 0 <= t -> 0 <= M t.
Proof. intros H. rewrite <- HM0. apply HMi. lra. Qed.
Lemma R_pos : 0 < Rad. Proof. lra. Qed.
Lemma kms : 0 < kap * s - M Rad.
Proof.
  destruct Hsigma, Hrate. assert (0 < eta * sigma) by (apply Rmult_lt_0_compat; auto).
  destruct (Rlt_dec 0 (kap * s - M Rad)) as [|N]; auto. exfalso.
  assert (eta * sigma * (kap * s - M Rad) <= 0) by nra. lra.
Qed.
Lemma s_pos : 0 < s. Proof. pose proof (M_pos Rad). destruct Hsigma. lra. Qed.
(* I grows by at most its slope at the right end, and by at least that at the left end *)
Lemma I_up l m : 0 <= l <= m -> I m - I l <= M m * (m - l).
Proof.
  intros H. destruct (Req_dec l m) as [->|N]; [lra|].
  destruct (MVT_cor2 I M l m) as [c [E Hc]]; [lra|intros; apply is_derive_Reals, HI|].
  rewrite E. apply Rmult_le_compat_r; [lra|]. apply HMi; lra.
Qed.
Lemma I_pos l : 0 <= l -> 0 <= I l.
Proof.
  intros H. destruct (Req_dec l 0) as [->|N]; [lra|].
  destruct (MVT_cor2 I M 0 l) as [c [E Hc]]; [lra|intros; apply is_derive_Reals, HI|].
  rewrite HI0 in E. assert (0 <= M c) by (apply M_pos; lra). nra.
Qed.

Lemma near_add th d : norm p (vsub (vadd th d) theta0) <= norm p (vsub th theta0) + norm p d.
Proof. rewrite (norm_ext p _ (vadd (vsub th theta0) d)) by (intros; unfold vsub, vadd; ring). apply norm_tri. Qed.
Lemma norm0 m : norm m (vsc 0 (fun _ => 0)) = 0.
Proof. rewrite norm_sc_pos; lra. Qed.
Lemma near_self : norm p (vsub theta0 theta0) <= 0.
Proof. rewrite (norm_ext p _ (vsc 0 (fun _ => 0))) by (intros; unfold vsub, vsc; ring). rewrite norm0. lra. Qed.
Lemma near_diff th l : norm p (vsub th theta0) <= l -> l <= Rad ->
  forall v, norm p (vsub (mtv n (J th) v) (mtv n (J theta0) v)) <= M l * norm n v.
Proof.
  intros A B v. pose proof (norm_pos n v). pose proof (norm_pos p (vsub th theta0)) as P0.
  assert (Q := HL theta0 (vsub th theta0) 0 near_self).
  assert (Q1 := Q ltac:(lra) v). rewrite HM0, Rplus_0_l, Rminus_0_r in Q1.
  rewrite (norm_ext p _ (mtv n (msub (J (vadd theta0 (vsub th theta0))) (J theta0)) v)).
  - eapply Rle_trans; [exact Q1|]. apply Rmult_le_compat_r; auto.
  - intros q Hq. rewrite mtv_msub. unfold vsub at 1. f_equal. unfold mtv. apply sum_ext. intros i Hi. f_equal.
    apply Jloc; auto. intros; unfold vadd, vsub; ring.
Qed.
Lemma sing_up th l : norm p (vsub th theta0) <= l -> l <= Rad -> opT_le n p (J th) b.
Proof.
  intros A B v. pose proof (norm_pos n v). pose proof (near_diff th l A B v).
  pose proof (norm_sub_tri p (mtv n (J th) v) (mtv n (J theta0) v)). pose proof (HS v).
  pose proof (norm_pos p (vsub th theta0)). assert (M l <= M Rad) by (apply HMi; lra).
  assert (M l * norm n v <= M Rad * norm n v) by (apply Rmult_le_compat_r; auto).
  assert ((Sn + M Rad) * norm n v <= b * norm n v) by (apply Rmult_le_compat_r; auto). lra.
Qed.
Lemma sing_lo th l : norm p (vsub th theta0) <= l -> l <= Rad -> forall v, (s - M l) * norm n v <= norm p (mtv n (J th) v).
Proof.
  intros A B v. pose proof (near_diff th l A B v) as Q. rewrite norm_sub_sym in Q.
  pose proof (norm_sub_tri p (mtv n (J theta0) v) (mtv n (J th) v)). pose proof (Hs v). lra.
Qed.
Lemma b_pos : 0 <= b.
Proof. pose proof (M_pos Rad). lra. Qed.

(* a curve F(th + t d), shifted by a linear one, along which the slopes are bounded by the derivative of h *)
Lemma along th d (w : vec) (h dh : R -> R) :
  (forall t, 0 <= t <= 1 -> is_derive h t (dh t)) ->
  (forall t, 0 <= t <= 1 -> norm n (fun i => mv p (J (vadd th (vsc t d))) d i - w i) <= dh t) ->
  norm n (vsub (vsub (F (vadd th d)) (F th)) w) <= h 1 - h 0.
Proof.
  intros Dh B. set (v := vsub _ _). pose proof (norm_pos n v) as Pv.
  set (g := fun t => sum n (fun i => (F (vadd th (vsc t d)) i - t * w i) * v i)).
  set (dg := fun t => sum n (fun i => (mv p (J (vadd th (vsc t d))) d i - w i) * v i)).
  assert (D : g 1 - g 0 <= h 1 * norm n v - h 0 * norm n v).
  { apply (grow g dg (fun t => h t * norm n v) (fun t => dh t * norm n v)).
    - intros t Ht. unfold g, dg. apply (is_derive_sum n (fun i t => (F (vadd th (vsc t d)) i - t * w i) * v i)).
      intros i Hi. evar_last.
      + apply @is_derive_scal_l. apply @is_derive_minus; [apply HJ; auto|].
        apply @is_derive_scal_l. apply @is_derive_id.
      + unfold scal, minus, plus, opp, one; simpl; unfold mult; simpl. ring.
    - intros t Ht. evar_last; [apply @is_derive_scal_l; apply Dh; auto|]. reflexivity.
    - intros t Ht. unfold dg.
      change (ip n (fun i => mv p (J (vadd th (vsc t d))) d i - w i) v <= dh t * norm n v).
      eapply Rle_trans; [apply CS|]. apply Rmult_le_compat_r; auto. }
  assert (E : g 1 - g 0 = ip n v v).
  { unfold g, ip. rewrite <- sum_minus. apply sum_ext. intros i Hi.
    rewrite (Floc (vadd th (vsc 1 d)) (vadd th d)), (Floc (vadd th (vsc 0 d)) th); auto; try (intros; unfold vadd, vsc; ring).
    unfold v, vsub. ring. }
  rewrite E, <- norm_sq in D.
  destruct (Req_dec (norm n v) 0) as [Z|Z].
  - rewrite Z. assert (H0 := grow (fun _ => 0) (fun _ => 0) h dh). 
    assert (0 - 0 <= h 1 - h 0). { apply H0; auto. intros; apply @is_derive_const. intros t Ht. eapply Rle_trans; [|apply B; auto]. apply norm_pos. } lra.
  - apply Rmult_le_reg_r with (norm n v); lra.
Qed.
Lemma norm_seg (d : vec) t : 0 <= t -> norm p (vsc t d) = t * norm p d.
Proof. apply norm_sc_pos. Qed.

(* Taylor's formula on a segment that begins within l of the anchor *)
Lemma taylor th d l : norm p (vsub th theta0) <= l -> l + norm p d <= Rad ->
  norm n (vsub (vsub (F (vadd th d)) (F th)) (mv p (J th) d)) <= I (l + norm p d) - I l - M l * norm p d.
Proof.
  intros A B. pose proof (norm_pos p d) as Pd. pose proof (norm_pos p (vsub th theta0)).
  set (h := fun t => I (l + t * norm p d) - t * (M l * norm p d)).
  replace (I (l + norm p d) - I l - M l * norm p d) with (h 1 - h 0).
  2: unfold h; rewrite !Rmult_1_l, !Rmult_0_l, Rplus_0_r; ring.
  apply (along th d (mv p (J th) d) h (fun t => (M (l + t * norm p d) - M l) * norm p d)).
  - intros t Ht. unfold h. evar_last.
    + apply @is_derive_minus; [|apply @is_derive_scal_l; apply @is_derive_id].
      apply (is_derive_comp I (fun t => l + t * norm p d)); [apply HI|].
      apply @is_derive_plus; [apply @is_derive_const|apply @is_derive_scal_l; apply @is_derive_id].
    + unfold scal, minus, plus, opp, one, zero; simpl; unfold mult; simpl. ring.
  - intros t Ht.
    rewrite (norm_ext n _ (mv p (msub (J (vadd th (vsc t d))) (J th)) d)) by (intros; rewrite mv_msub; auto).
    assert (E : norm p (vsc t d) = t * norm p d) by (apply norm_sc_pos; lra).
    assert (t * norm p d <= 1 * norm p d) by (apply Rmult_le_compat_r; lra). assert (0 <= t * norm p d) by nra.
    apply op_le; [assert (M l <= M (l + t * norm p d)) by (apply HMi; lra); lra|].
    rewrite <- E. apply HL; auto. lra.
Qed.
(* the mean value inequality *)
Lemma mean_value th d : norm p (vsub th theta0) + norm p d <= Rad -> norm n (vsub (F (vadd th d)) (F th)) <= b * norm p d.
Proof.
  intros B. pose proof (norm_pos p d) as Pd. pose proof b_pos.
  set (h := fun t => t * (b * norm p d)).
  replace (b * norm p d) with (h 1 - h 0) by (unfold h; ring).
  rewrite (norm_ext n _ (vsub (vsub (F (vadd th d)) (F th)) (fun _ => 0))) by (intros; unfold vsub; ring).
  apply (along th d (fun _ => 0) h (fun _ => b * norm p d)).
  - intros t Ht. unfold h. evar_last; [apply @is_derive_scal_l; apply @is_derive_id|].
    unfold scal, one; simpl; unfold mult; simpl. ring.
  - intros t Ht. rewrite (norm_ext n _ (mv p (J (vadd th (vsc t d))) d)) by (intros; ring).
    apply op_le; auto. apply (sing_up _ Rad); [|lra].
    eapply Rle_trans; [apply near_add|]. rewrite norm_sc_pos by lra.
    assert (t * norm p d <= 1 * norm p d) by (apply Rmult_le_compat_r; lra). lra.
Qed.

(* along the segment of one step: a share h <= eta of the step, while its end is within Rad *)
Lemma segment th l h : norm p (vsub th theta0) <= l -> 0 <= l -> 0 <= h <= eta ->
  l + h * norm p (grad th) <= Rad ->
  norm n (F (vsub th (vsc h (grad th)))) <= norm n (F th) - kap * s * (h * norm p (grad th)) + I (l + h * norm p (grad th)) - I l.
Proof.
  intros A Hl Hh B. set (gr := grad th) in *. pose proof (norm_pos p gr) as Pg.
  assert (HG : 0 <= h * norm p gr) by (apply Rmult_le_pos; lra).
  assert (LR : l <= Rad) by lra.
  set (d := vsc (- h) gr).
  assert (Nd : norm p d = h * norm p gr). { unfold d. rewrite norm_sc, Rabs_Ropp, Rabs_right; lra. }
  pose proof (taylor th d l A) as T. rewrite Nd in T. specialize (T B).
  assert (Ml : 0 <= M l <= M Rad) by (split; [apply M_pos; auto|apply HMi; lra]).
  assert (Sm : 0 <= s - M l) by (destruct Hsigma; lra).
  assert (C : norm n (vsub (F th) (vsc h (mv p (J th) (mtv n (J th) (F th))))) <= norm n (F th) - h * kap * (s - M l) * norm p (mtv n (J th) (F th))).
  { assert (E1 : h * ((s - M l) * (s - M l)) <= eta * (s * s)).
    { apply Rmult_le_compat; try lra; [apply Rmult_le_pos; lra|]. apply Rmult_le_compat; lra. }
    assert (E0 : 0 <= h * ((s - M l) * (s - M l))) by (apply Rmult_le_pos; [lra|apply Rmult_le_pos; lra]).
    apply contraction with (beta := beta); try lra.
    - assert (K1 : kap * kap <= 1) by nra.
      set (e := h * ((s - M l) * (s - M l))) in *. set (e1 := eta * (s * s)) in *.
      assert (beta * (1 - kap * kap) * e <= beta * (1 - kap * kap) * e1) by (apply Rmult_le_compat_l; [apply Rmult_le_pos; lra|auto]).
      lra.
    - apply sing_lo; auto.
    - intros x. pose proof (sing_up th l A LR x) as U. pose proof (norm_pos p (mtv n (J th) x)). pose proof (norm_pos n x).
      pose proof b_pos.
      assert (norm p (mtv n (J th) x) * norm p (mtv n (J th) x) <= b * norm n x * (b * norm n x)) by (apply Rmult_le_compat; auto).
      apply Rle_trans with (eta * (b * norm n x * (b * norm n x))).
      + apply Rmult_le_compat; nra.
      + replace (eta * (b * norm n x * (b * norm n x))) with (eta * (b * b) * (norm n x * norm n x)) by ring.
        apply Rmult_le_compat_r; [nra|auto]. }
  fold (grad th) in C. fold gr in C.
  assert (Kl : h * kap * (s - M l) * norm p gr >= (kap * s - M l) * (h * norm p gr)).
  { assert (0 <= (1 - kap) * M l * (h * norm p gr)) by (repeat apply Rmult_le_pos; lra). lra. }
  apply Rle_trans with (I (l + h * norm p gr) - I l - M l * (h * norm p gr) + (norm n (F th) - h * kap * (s - M l) * norm p gr)); [|lra].
  rewrite (norm_ext n (F (vsub th (vsc h gr))) (vadd (vsub (vsub (F (vadd th d)) (F th)) (mv p (J th) d)) (vsub (F th) (vsc h (mv p (J th) gr))))).
  - eapply Rle_trans; [apply norm_tri|]. apply Rplus_le_compat; auto.
  - intros i Hi. rewrite (Floc _ (vadd th d)) by (auto; intros; unfold d, vsub, vadd, vsc; ring).
    assert (Mi : mv p (J th) d i = - h * mv p (J th) gr i) by (unfold d; apply mv_sc).
    set (f1 := F (vadd th d)). unfold vsub, vadd, vsc in *. rewrite Mi. ring.
Qed.

Lemma stepl_eq k : stepl k = eta * norm p (grad (gd k)).
Proof. unfold stepl. apply norm_sc_pos; lra. Qed.
Lemma len_S k : len (S k) = len k + stepl k.
Proof. unfold len; simpl. ring. Qed.
Lemma len_pos k : 0 <= len k.
Proof. unfold len. assert (0 <= sum k stepl) by (apply sum_pos; intros; apply norm_pos). lra. Qed.
Lemma dist_len k : norm p (vsub (gd k) theta0) <= len k.
Proof.
  induction k; [unfold len; simpl; lra|]. rewrite len_S.
  change (gd (S k)) with (vsub (gd k) (vsc eta (grad (gd k)))).
  rewrite (norm_ext p _ (vsub (vadd (gd k) (vsc (- eta) (grad (gd k)))) theta0)) by (intros; unfold vsub, vadd, vsc; ring).
  eapply Rle_trans; [apply near_add|]. apply Rplus_le_compat; auto.
  rewrite norm_sc, Rabs_Ropp, Rabs_right, stepl_eq; lra.
Qed.

Lemma at_start : norm n (F start) <= rho + b * dist.
Proof.
  assert (Q : norm n (vsub (F (vadd theta0 (vsub start theta0))) (F theta0)) <= b * norm p (vsub start theta0)).
  { apply mean_value. pose proof near_self. lra. }
  pose proof b_pos. assert (b * norm p (vsub start theta0) <= b * dist) by (apply Rmult_le_compat_l; auto).
  rewrite (norm_ext n (F start) (vadd (vsub (F (vadd theta0 (vsub start theta0))) (F theta0)) (F theta0))).
  - eapply Rle_trans; [apply norm_tri|]. lra.
  - intros i Hi. rewrite (Floc start (vadd theta0 (vsub start theta0))) by (auto; intros; unfold vadd, vsub; ring).
    set (f1 := F (vadd theta0 (vsub start theta0))). unfold vadd, vsub. ring.
Qed.

Lemma invariant k : len k < Rad /\ norm n (F (gd k)) <= phi (len k).
Proof.
  induction k as [|k [A B]].
  - unfold len, phi; simpl. rewrite Rplus_0_r. split; [auto|]. pose proof s_pos. pose proof (I_pos dist Hdist0).
    assert (kap * s * dist <= s * dist) by (assert (0 <= s * dist) by nra; nra).
    pose proof at_start. lra.
  - pose proof (dist_len k) as D. pose proof (len_pos k) as P. pose proof (norm_pos p (grad (gd k))) as G.
    assert (L : len (S k) < Rad).
    { destruct (Rlt_dec (len (S k)) Rad) as [|H]; auto. exfalso.
      rewrite len_S, stepl_eq in H.
      assert (N0 : 0 < norm p (grad (gd k))) by (destruct (Req_dec (norm p (grad (gd k))) 0) as [E|]; [rewrite E in H|]; lra).
      set (h := (Rad - len k) / norm p (grad (gd k))).
      assert (Hh : h * norm p (grad (gd k)) = Rad - len k) by (unfold h; field; lra).
      assert (H1 : 0 <= h) by (apply Rmult_le_reg_r with (norm p (grad (gd k))); lra).
      assert (H2 : h <= eta) by (apply Rmult_le_reg_r with (norm p (grad (gd k))); lra).
      pose proof (segment (gd k) (len k) h D P (conj H1 H2)) as T. rewrite Hh in T.
      specialize (T ltac:(lra)). replace (len k + (Rad - len k)) with Rad in T by ring.
      pose proof (norm_pos n (F (vsub (gd k) (vsc h (grad (gd k)))))). unfold phi in B. lra. }
    split; auto. rewrite len_S, stepl_eq in L |- *.
    pose proof (segment (gd k) (len k) eta D P (conj (Rlt_le _ _ Heta) (Rle_refl _)) ltac:(lra)) as T.
    change (gd (S k)) with (vsub (gd k) (vsc eta (grad (gd k)))). unfold phi in *. lra.
Qed.

Lemma descent k : norm n (F (gd (S k))) <= norm n (F (gd k)) - (kap * s - M Rad) * stepl k.
Proof.
  destruct (invariant k) as [A _]. destruct (invariant (S k)) as [A' _].
  rewrite len_S, stepl_eq in *. pose proof (norm_pos p (grad (gd k))) as G. pose proof (len_pos k).
  assert (D0 : 0 <= eta * norm p (grad (gd k))) by (apply Rmult_le_pos; lra).
  pose proof (segment (gd k) (len k) eta (dist_len k) (len_pos k) (conj (Rlt_le _ _ Heta) (Rle_refl _)) ltac:(lra)) as T.
  change (gd (S k)) with (vsub (gd k) (vsc eta (grad (gd k)))). eapply Rle_trans; [exact T|].
  set (dl := eta * norm p (grad (gd k))) in *.
  pose proof (I_up (len k) (len k + dl) ltac:(lra)) as U.
  assert (M (len k + dl) * (len k + dl - len k) <= M Rad * dl).
  { replace (len k + dl - len k) with dl by ring. apply Rmult_le_compat_r; auto. apply HMi; lra. }
  lra.
Qed.

Theorem one_step k : norm n (F (gd (S k))) <= (1 - rate) * norm n (F (gd k)).
Proof.
  destruct (invariant k) as [A _]. pose proof (descent k) as D. rewrite stepl_eq in D. pose proof kms as K.
  pose proof (norm_pos n (F (gd k))) as P.
  pose proof (sing_lo (gd k) Rad (Rlt_le _ _ (Rle_lt_trans _ _ _ (dist_len k) A)) (Rle_refl _) (F (gd k))) as Q.
  fold (grad (gd k)) in Q. destruct Hsigma as [S1 S2], Hrate as [R1 R2].
  assert (Q1 : sigma * norm n (F (gd k)) <= norm p (grad (gd k))).
  { eapply Rle_trans; [|exact Q]. apply Rmult_le_compat_r; auto. }
  assert (Q2 : (kap * s - M Rad) * (eta * (sigma * norm n (F (gd k)))) <= (kap * s - M Rad) * (eta * norm p (grad (gd k))))
    by (apply Rmult_le_compat_l; [lra|]; apply Rmult_le_compat_l; lra).
  assert (Q3 : rate * norm n (F (gd k)) <= eta * sigma * (kap * s - M Rad) * norm n (F (gd k))) by (apply Rmult_le_compat_r; auto).
  lra.
Qed.

Lemma rate_range (k : nat) : 0 < norm n (F (gd k)) -> 0 <= 1 - rate < 1.
Proof.
  intros H. pose proof (one_step k). pose proof (norm_pos n (F (gd (S k)))). destruct Hrate. split; [|lra].
  apply Rmult_le_reg_r with (norm n (F (gd k))); lra.
Qed.
Lemma still k j : norm n (F (gd k)) = 0 -> norm n (F (gd (k + j))) = 0.
Proof.
  intros H. induction j; [rewrite Nat.add_0_r; auto|]. rewrite Nat.add_succ_r.
  pose proof (one_step (k + j)) as D. rewrite IHj in D. pose proof (norm_pos n (F (gd (S (k + j))))). lra.
Qed.
Lemma to_zero : is_lim_seq (fun k => norm n (F (gd k))) 0.
Proof.
  assert (P : forall k, 0 <= norm n (F (gd k))) by (intros; apply norm_pos).
  destruct (Req_dec (norm n (F (gd 0))) 0) as [Z|Z].
  - apply (is_lim_seq_ext (fun _ => 0)); [|apply is_lim_seq_const]. intros k. symmetry. apply (still 0 k Z).
  - assert (Q : 0 <= 1 - rate < 1) by (apply (rate_range 0); specialize (P O); lra).
    assert (G : forall k, norm n (F (gd k)) <= (1 - rate) ^ k * norm n (F (gd 0))).
    { induction k; [simpl; lra|]. eapply Rle_trans; [apply one_step|].
      change ((1 - rate) ^ S k) with ((1 - rate) * (1 - rate) ^ k). rewrite Rmult_assoc. apply Rmult_le_compat_l; lra. }
    apply (is_lim_seq_le_le (fun _ => 0) _ (fun k => (1 - rate) ^ k * norm n (F (gd 0)))); [intros; split; auto|apply is_lim_seq_const|].
    replace (Finite 0) with (Rbar_mult 0 (norm n (F (gd 0)))) by (simpl; f_equal; ring).
    apply is_lim_seq_mult'; [|apply is_lim_seq_const]. apply is_lim_seq_geom. rewrite Rabs_right; lra.
Qed.

Lemma len_incr k : len k <= len (S k).
Proof. rewrite len_S. pose proof (norm_pos p (vsc eta (grad (gd k)))). unfold stepl. lra. Qed.
Lemma dist_km k m : (k <= m)%nat -> norm p (vsub (gd m) (gd k)) <= len m - len k.
Proof.
  induction 1; [rewrite (norm_ext p _ (vsc 0 (fun _ => 0))) by (intros; unfold vsub, vsc; ring); rewrite norm0; lra|].
  rewrite len_S. change (gd (S m)) with (vsub (gd m) (vsc eta (grad (gd m)))).
  rewrite (norm_ext p _ (vadd (vsub (gd m) (gd k)) (vsc (-1) (vsc eta (grad (gd m)))))) by (intros; unfold vsub, vadd, vsc; ring).
  eapply Rle_trans; [apply norm_tri|]. rewrite (norm_sc p (-1)), Rabs_left by lra. fold (stepl m). lra.
Qed.

Theorem theorem_1 :
  norm n (F start) <= rho + b * dist /\
  (forall k, norm p (vsub (gd k) theta0) < Rad) /\
  (forall k, norm n (F (gd (S k))) <= (1 - rate) * norm n (F (gd k))) /\
  exists th : vec, (forall j, (j < p)%nat -> is_lim_seq (fun k => gd k j) (th j)) /\ forall i, (i < n)%nat -> F th i = 0.
Proof.
  split; [exact at_start|]. split; [intros k; destruct (invariant k); pose proof (dist_len k); lra|]. split; [apply one_step|].
  destruct (ex_finite_lim_seq_incr len Rad len_incr) as [Li HLi]. { intros k. destruct (invariant k). lra. }
  assert (LB : forall k, len k <= Li). { intros k. apply (is_lim_seq_incr_compare len Li HLi len_incr). }
  assert (LR : Li <= Rad). { apply (is_lim_seq_le len (fun _ => Rad) Li Rad); auto using is_lim_seq_const. intros k. destruct (invariant k); lra. }
  assert (Cv : forall j, (j < p)%nat -> ex_finite_lim_seq (fun k => gd k j)).
  { intros j Hj. apply ex_lim_seq_cauchy_corr. intros eps.
    assert (C : ex_lim_seq_cauchy len) by (apply ex_lim_seq_cauchy_corr; exists Li; auto).
    destruct (C eps) as [N HN]. exists N. intros a c Ha Hc.
    assert (Z : forall a b, (N <= a)%nat -> (a <= b)%nat -> Rabs (gd b j - gd a j) < eps).
    { intros a' b' H1 H2. eapply Rle_lt_trans; [apply (norm_coord p (vsub (gd b') (gd a')) j Hj)|].
      eapply Rle_lt_trans; [apply dist_km; auto|]. eapply Rle_lt_trans; [apply Rle_abs|]. apply HN; lia. }
    destruct (Nat.le_ge_cases a c); [rewrite Rabs_minus_sym|]; apply Z; auto. }
  exists (fun j => real (Lim_seq (fun k => gd k j))). set (th := fun j => _).
  assert (Cv' : forall j, (j < p)%nat -> is_lim_seq (fun k => gd k j) (th j)).
  { intros j Hj. apply Lim_seq_correct'. auto. }
  assert (Dk : forall k, norm p (vsub th (gd k)) <= Li - len k).
  { intros k. apply norm_le; [pose proof (LB k); lra|].
    apply (is_lim_seq_le (fun m => ip p (vsub (gd (m + k)%nat) (gd k)) (vsub (gd (m + k)%nat) (gd k))) (fun _ => (Li - len k) * (Li - len k)) (ip p (vsub th (gd k)) (vsub th (gd k))) ((Li - len k) * (Li - len k))).
    - intros m. rewrite <- norm_sq. pose proof (dist_km k (m + k) ltac:(lia)). pose proof (LB (m + k)%nat). pose proof (norm_pos p (vsub (gd (m + k)%nat) (gd k))).
      apply Rmult_le_compat; lra.
    - unfold ip. apply (is_lim_seq_sum p (fun j m => vsub (gd (m + k)%nat) (gd k) j * vsub (gd (m + k)%nat) (gd k) j)).
      intros j Hj. assert (is_lim_seq (fun m => vsub (gd (m + k)%nat) (gd k) j) (vsub th (gd k) j)).
      { unfold vsub. apply is_lim_seq_minus'; [|apply is_lim_seq_const]. apply (is_lim_seq_incr_n (fun m => gd m j)). auto. }
      apply is_lim_seq_mult'; auto.
    - apply is_lim_seq_const. }
  split; auto.
  assert (Z : norm n (F th) <= 0).
  { apply (is_lim_seq_le (fun _ => norm n (F th)) (fun k => norm n (F (gd k)) + b * (Li - len k)) (norm n (F th)) 0).
    - intros k. pose proof (Dk k) as D. set (d := vsub th (gd k)) in *.
      assert (T : norm n (vsub (F (vadd (gd k) d)) (F (gd k))) <= b * norm p d).
      { apply mean_value. pose proof (dist_len k). lra. }
      pose proof b_pos. assert (b * norm p d <= b * (Li - len k)) by (apply Rmult_le_compat_l; auto).
      rewrite (norm_ext n (F th) (vadd (vsub (F (vadd (gd k) d)) (F (gd k))) (F (gd k)))).
      + eapply Rle_trans; [apply norm_tri|]. lra.
      + intros i Hi. rewrite (Floc th (vadd (gd k) d)) by (auto; intros; unfold d, vsub, vadd; ring).
        set (f1 := F (vadd (gd k) d)). unfold vadd, vsub. ring.
    - apply is_lim_seq_const.
    - replace (Finite 0) with (Finite (0 + b * (Li - Li))) by (f_equal; ring).
      apply is_lim_seq_plus'; [apply to_zero|]. apply is_lim_seq_mult'; [apply is_lim_seq_const|].
      apply is_lim_seq_minus'; auto using is_lim_seq_const. }
  intros i Hi. pose proof (norm_coord n (F th) i Hi). pose proof (Rabs_pos (F th i)).
  assert (A : Rabs (F th i) = 0) by lra. destruct (Req_dec (F th i) 0) as [|N]; auto. apply Rabs_no_R0 in N. contradiction.
Qed.
End Descent.
