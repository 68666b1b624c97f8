(* Lipschitz constants of J on balls of growing radius, and the bounds M and I = int M that Theorem 1 takes from them. *)
From Coq Require Import Reals Lra Lia List.
From Coquelicot Require Import Coquelicot.
From Wideproof Require Import Statement theories.Vectors theories.Descent.
Import ListNotations.
Open Scope R_scope.

Definition pos (x : R) := Rmax x 0.
Lemma pos_ge x : 0 <= x -> pos x = x.
Proof. intros; unfold pos. apply Rmax_left; auto. Qed.
Lemma pos_le x : x <= 0 -> pos x = 0.
Proof. intros; unfold pos. apply Rmax_right; auto. Qed.
Lemma pos_square c t : is_derive (fun t => / 2 * (pos (t - c) * pos (t - c))) t (pos (t - c)).
Proof.
  apply is_derive_Reals. intros eps He. exists (mkposreal eps He). intros h Hh H. simpl in H.
  set (x := t - c). replace (t + h - c) with (x + h) by (unfold x; ring).
  assert (B : Rabs (/ 2 * (pos (x + h) * pos (x + h)) - / 2 * (pos x * pos x) - h * pos x) <= / 2 * (h * h)).
  { destruct (Rle_dec 0 x); destruct (Rle_dec 0 (x + h));
    repeat first [rewrite (pos_ge x) by lra | rewrite (pos_le x) by lra | rewrite (pos_ge (x + h)) by lra | rewrite (pos_le (x + h)) by lra];
    apply Rabs_le; split; nra. }
  replace ((/ 2 * (pos (x + h) * pos (x + h)) - / 2 * (pos x * pos x)) / h - pos x)
    with ((/ 2 * (pos (x + h) * pos (x + h)) - / 2 * (pos x * pos x) - h * pos x) / h) by (field; auto).
  unfold Rdiv. rewrite Rabs_mult, Rabs_inv. pose proof (Rabs_pos_lt h Hh).
  apply Rle_lt_trans with (/ 2 * (h * h) * / Rabs h).
  - apply Rmult_le_compat_r; auto. apply Rlt_le, Rinv_0_lt_compat; auto.
  - rewrite <- (Rabs_right (h * h)) by nra. rewrite Rabs_mult. field_simplify; lra.
Qed.

(* steps: (t_1, L_1), (t_2, L_2), ...; every step adds L_j - L_(j-1) from t_(j-1) on *)
Fixpoint stair (c prev : R) (steps : list (R * R)) (t : R) : R :=
  match steps with [] => 0 | (e, l) :: more => (l - prev) * pos (t - c) + stair e l more t end.
Fixpoint area (c prev : R) (steps : list (R * R)) (t : R) : R :=
  match steps with [] => 0 | (e, l) :: more => (l - prev) * (/ 2 * (pos (t - c) * pos (t - c))) + area e l more t end.
Fixpoint rising (c prev : R) (steps : list (R * R)) : Prop :=
  match steps with [] => True | (e, l) :: more => c < e /\ prev <= l /\ rising e l more end.
Fixpoint last_end (c : R) (steps : list (R * R)) : R :=
  match steps with [] => c | (e, _) :: more => last_end e more end.

Lemma area_derive steps : forall c prev t, is_derive (area c prev steps) t (stair c prev steps t).
Proof.
  induction steps as [|[e l] more IH]; intros c prev t; simpl; [apply @is_derive_const|].
  apply @is_derive_plus; [|apply IH]. apply is_derive_scal. apply pos_square.
Qed.
Lemma stair_mono steps : forall c prev x y, rising c prev steps -> x <= y -> stair c prev steps x <= stair c prev steps y.
Proof.
  induction steps as [|[e l] more IH]; intros c prev x y; simpl; [lra|]. intros [H1 [H2 H3]] H.
  apply Rplus_le_compat; [|apply IH; auto]. apply Rmult_le_compat_l; [lra|]. unfold pos. apply Rle_max_compat_r. lra.
Qed.
Lemma stair_0 steps : forall c prev t, rising c prev steps -> t <= c -> stair c prev steps t = 0.
Proof.
  induction steps as [|[e l] more IH]; intros c prev t; simpl; auto. intros [H1 [H2 H3]] H.
  rewrite pos_le, IH by (auto; lra). ring.
Qed.
Lemma area_0 steps : forall c prev t, rising c prev steps -> t <= c -> area c prev steps t = 0.
Proof.
  induction steps as [|[e l] more IH]; intros c prev t; simpl; auto. intros [H1 [H2 H3]] H.
  rewrite pos_le, IH by (auto; lra). ring.
Qed.

Section Stairs.
Variables (n p : nat) (J : vec -> mat) (theta0 : vec).
Definition lipschitz_on (t l : R) := forall th th', norm p (vsub th theta0) <= t -> norm p (vsub th' theta0) <= t ->
  opT_le n p (msub (J th) (J th')) (l * norm p (vsub th th')).
Hypothesis Jloc : local_jacobian n p J.

Lemma op_split (A B C : mat) x y : opT_le n p (msub A B) x -> opT_le n p (msub B C) y -> opT_le n p (msub A C) (x + y).
Proof.
  intros H1 H2 v. rewrite (norm_ext p _ (vadd (mtv n (msub A B) v) (mtv n (msub B C) v))).
  - eapply Rle_trans; [apply norm_tri|]. specialize (H1 v). specialize (H2 v). lra.
  - intros q Hq. unfold vadd. rewrite !mtv_msub. ring.
Qed.
Lemma op_ext (A B : mat) x y : x = y -> (forall i q, (i < n)%nat -> (q < p)%nat -> A i q = B i q) -> opT_le n p A x -> opT_le n p B y.
Proof.
  intros -> E H v. rewrite (norm_ext p _ (mtv n A v)); [apply H|]. intros q Hq. unfold mtv. apply sum_ext. intros. rewrite E; auto.
Qed.

Lemma climb steps : forall c prev th d a, rising c prev steps -> 0 <= c ->
  List.Forall (fun s : R * R => lipschitz_on (fst s) (snd s)) steps ->
  norm p (vsub th theta0) <= a -> c <= a -> a + norm p d <= last_end c steps ->
  opT_le n p (msub (J (vadd th d)) (J th))
    (prev * norm p d + stair c prev steps (a + norm p d) - stair c prev steps a).
Proof.
  induction steps as [|[e l] more IH]; intros c prev th d a HR Hc HF Ha Hca Hend; simpl in *.
  - pose proof (norm_pos p d). assert (Z : norm p d = 0) by lra.
    assert (Zd : forall q, (q < p)%nat -> d q = 0).
    { intros q Hq. pose proof (norm_coord p d q Hq) as Q. rewrite Z in Q. pose proof (Rabs_pos (d q)).
      destruct (Req_dec (d q) 0) as [|N]; auto. apply Rabs_no_R0 in N. lra. }
    intros v. rewrite (norm_ext p _ (vsc 0 (fun _ => 0))).
    + rewrite norm0. rewrite Z. pose proof (norm_pos n v). lra.
    + intros q Hq. rewrite mtv_msub. unfold vsc, mtv. rewrite <- sum_minus, (sum_ext n _ (fun _ => 0)), sum_0; [ring|].
      intros i Hi. rewrite (Jloc (vadd th d) th); auto; [ring|]. intros j Hj. unfold vadd. rewrite Zd; auto. ring.
  - destruct HR as [R1 [R2 R3]]. inversion HF as [|? ? L1 L2]; subst. simpl in L1. pose proof (norm_pos p d) as Pd.
    assert (Near : norm p (vsub (vadd th d) theta0) <= a + norm p d) by (eapply Rle_trans; [apply near_add|]; lra).
    destruct (Rle_dec (a + norm p d) e) as [H1|H1].
    + rewrite !(stair_0 more e l) by (auto; lra). rewrite !pos_ge by lra.
      apply (op_ext (msub (J (vadd th d)) (J th)) _ (l * norm p (vsub (vadd th d) th))); auto.
      * rewrite (norm_ext p _ d) by (intros; unfold vsub, vadd; ring). ring.
      * apply L1; lra.
    + rewrite !pos_ge by lra. destruct (Rle_dec e a) as [H2|H2].
      * apply (op_ext (msub (J (vadd th d)) (J th)) _ (l * norm p d + stair e l more (a + norm p d) - stair e l more a)); auto; [ring|].
        apply IH; auto; lra.
      * (* the segment crosses the radius e: cut it there *)
        assert (D0 : 0 < norm p d) by lra. set (u := (e - a) / norm p d).
        assert (U : u * norm p d = e - a) by (unfold u; field; lra).
        assert (U0 : 0 <= u) by (apply Rmult_le_reg_r with (norm p d); lra).
        assert (U1 : u <= 1) by (apply Rmult_le_reg_r with (norm p d); lra).
        set (mid := vadd th (vsc u d)).
        assert (N1 : norm p (vsc u d) = e - a) by (rewrite norm_sc_pos; auto).
        assert (N2 : norm p (vsc (1 - u) d) = a + norm p d - e) by (rewrite norm_sc_pos by lra; lra).
        assert (NM : norm p (vsub mid theta0) <= e) by (unfold mid; eapply Rle_trans; [apply near_add|]; lra).
        assert (Q2 := IH e l mid (vsc (1 - u) d) e R3 ltac:(lra) L2 NM ltac:(lra)).
        rewrite N2 in Q2. specialize (Q2 ltac:(lra)). rewrite (stair_0 more e l e) in Q2 by (auto; lra).
        replace (e + (a + norm p d - e)) with (a + norm p d) in Q2 by ring.
        assert (Q1 : opT_le n p (msub (J mid) (J th)) (l * norm p (vsub mid th))) by (apply L1; lra).
        rewrite (norm_ext p _ (vsc u d)), N1 in Q1 by (intros; unfold mid, vsub, vadd, vsc; ring).
        rewrite (stair_0 more e l a) by (auto; lra).
        apply (op_ext (msub (J (vadd mid (vsc (1 - u) d))) (J th)) _ (l * (a + norm p d - e) + stair e l more (a + norm p d) - 0 + l * (e - a))); [ring| |].
        -- intros i q Hi Hq. unfold msub. f_equal. apply Jloc; auto. intros; unfold mid, vadd, vsc; ring.
        -- eapply op_split; eauto.
Qed.
End Stairs.
