(* Bounds of a quadratic form from any factor L: Q less a diagonal is L L^T up to eps in every entry. L is not trusted. *)
From Coq Require Import Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
From Wideproof Require Import Statement theories.Vectors.
Open Scope R_scope.

Lemma form_lower n (Q : mat) (s2 : vec) eps (Lf : mat) : 0 <= eps ->
  (forall i k, (i < n)%nat -> (k < n)%nat -> Rabs (Q i k - (if Nat.eqb i k then s2 i else 0) - sum n (fun l => Lf i l * Lf k l)) <= eps) ->
  forall v, sum n (fun i => s2 i * (v i * v i)) - INR n * eps * ip n v v <= sum n (fun i => v i * sum n (fun k => Q i k * v k)).
Proof.
  intros He HE v.
  set (E := fun i k => Q i k - (if Nat.eqb i k then s2 i else 0) - sum n (fun l => Lf i l * Lf k l)) in *.
  assert (I : forall k, sum n (fun i => (if Nat.eqb k i then s2 k else 0) * v i) = if Nat.ltb k n then s2 k * v k else 0).
  { clear. intros k. induction n as [|q IH]; simpl sum; auto. rewrite IH.
    destruct (Nat.ltb_spec k q); destruct (Nat.ltb_spec k (S q)); destruct (Nat.eqb_spec k q); try lia; subst; lra. }
  assert (D : sum n (fun i => v i * sum n (fun k => Q i k * v k)) =
     sum n (fun i => s2 i * (v i * v i)) + sum n (fun l => mtv n Lf v l * mtv n Lf v l) + sum n (fun i => v i * sum n (fun k => E i k * v k))).
  { transitivity (sum n (fun i => s2 i * (v i * v i) + v i * sum n (fun k => sum n (fun l => Lf i l * Lf k l) * v k) + v i * sum n (fun k => E i k * v k))).
    - apply sum_ext. intros i Hi.
      rewrite (sum_ext n (fun k => Q i k * v k) (fun k => (if Nat.eqb i k then s2 i else 0) * v k + sum n (fun l => Lf i l * Lf k l) * v k + E i k * v k)).
      + rewrite !sum_plus, I. destruct (Nat.ltb_spec i n); [|lia]. ring.
      + intros k Hk. unfold E. ring.
    - rewrite !sum_plus. f_equal. f_equal.
      rewrite (sum_ext n _ (fun i => sum n (fun l => sum n (fun k => v i * Lf i l * (Lf k l * v k))))).
      + rewrite sum_exch. apply sum_ext. intros l Hl. unfold mtv.
        rewrite (sum_ext n _ (fun i => sum n (fun k => Lf k l * v k) * (Lf i l * v i))).
        * rewrite sum_scal. reflexivity.
        * intros i Hi. rewrite sum_scal. ring.
      + intros i Hi. rewrite sum_exch, <- sum_scal. apply sum_ext. intros k Hk.
        rewrite (sum_ext n (fun j => v i * Lf i j * (Lf k j * v k)) (fun j => (v i * v k) * (Lf i j * Lf k j))) by (intros; ring).
        rewrite sum_scal. ring. }
  rewrite D.
  assert (P : 0 <= sum n (fun l => mtv n Lf v l * mtv n Lf v l)) by (apply sum_pos; intros; apply Rle_0_sqr).
  assert (QQ : - (INR n * eps * ip n v v) <= sum n (fun i => v i * sum n (fun k => E i k * v k))).
  { apply Rle_trans with (sum n (fun i => sum n (fun k => - (eps / 2) * (v i * v i + v k * v k)))).
    - right. rewrite (sum_ext n _ (fun i => - (eps / 2) * (INR n * (v i * v i) + ip n v v))).
      + rewrite sum_scal, sum_plus, sum_scal. 
        assert (K : forall q c, sum q (fun _ => c) = INR q * c). { clear. intros q c. induction q; [simpl; lra|]. rewrite S_INR. simpl sum. rewrite IHq. lra. }
        rewrite K. unfold ip. field.
      + intros i Hi. rewrite sum_scal, sum_plus. 
        assert (K : forall q c, sum q (fun _ => c) = INR q * c). { clear. intros q c. induction q; [simpl; lra|]. rewrite S_INR. simpl sum. rewrite IHq. lra. }
        rewrite K. reflexivity.
    - apply sum_le. intros i Hi. rewrite <- sum_scal. apply sum_le. intros k Hk.
      pose proof (HE i k Hi Hk) as H. fold (E i k) in H. apply Rabs_le_between in H.
      pose proof (Rle_0_sqr (v i - v k)) as A1. pose proof (Rle_0_sqr (v i + v k)) as A2. unfold Rsqr in A1, A2.
      destruct (Rle_dec 0 (v i * v k)).
      + assert (- eps * (v i * v k) <= E i k * (v i * v k)) by (apply Rmult_le_compat_r; lra).
        assert (eps * (2 * (v i * v k)) <= eps * (v i * v i + v k * v k)) by (apply Rmult_le_compat_l; lra). lra.
      + assert (eps * (v i * v k) <= E i k * (v i * v k)) by (rewrite (Rmult_comm eps), (Rmult_comm (E i k)); apply Rmult_le_compat_neg_l; lra).
        assert (eps * (- 2 * (v i * v k)) <= eps * (v i * v i + v k * v k)) by (apply Rmult_le_compat_l; lra). lra. }
  lra.
Qed.

Lemma form_neg n (Q : mat) v : sum n (fun i => v i * sum n (fun k => - Q i k * v k)) = - sum n (fun i => v i * sum n (fun k => Q i k * v k)).
Proof.
  replace (- sum n (fun i => v i * sum n (fun k => Q i k * v k))) with (-1 * sum n (fun i => v i * sum n (fun k => Q i k * v k))) by ring.
  rewrite <- sum_scal. apply sum_ext. intros i Hi.
  rewrite (sum_ext n (fun k => - Q i k * v k) (fun k => -1 * (Q i k * v k))) by (intros; ring). rewrite sum_scal. ring.
Qed.

Lemma form_upper n (Q : mat) (s2 : vec) eps (Lf : mat) : 0 <= eps ->
  (forall i k, (i < n)%nat -> (k < n)%nat -> Rabs (- Q i k - (if Nat.eqb i k then - s2 i else 0) - sum n (fun l => Lf i l * Lf k l)) <= eps) ->
  forall v, sum n (fun i => v i * sum n (fun k => Q i k * v k)) <= sum n (fun i => s2 i * (v i * v i)) + INR n * eps * ip n v v.
Proof.
  intros He HE v. pose proof (form_lower n (fun i k => - Q i k) (fun i => - s2 i) eps Lf He HE v) as H. cbv beta in H. rewrite form_neg in H.
  rewrite (sum_ext n (fun i => - s2 i * (v i * v i)) (fun i => -1 * (s2 i * (v i * v i)))), sum_scal in H by (intros; ring). lra.
Qed.
