(* Exact arithmetic of the checker: integers of two kinds, inner products of lists, all pairs of rows. *)
From Coq Require Import Reals Lra Lia ZArith List.
From Bignums Require Import BigZ.
From Wideproof Require Import Statement theories.Vectors.
Import ListNotations.
Open Scope R_scope.

Record integers := {
  int : Type; of_Z : Z -> int; to_Z : int -> Z;
  add : int -> int -> int; sub : int -> int -> int; mul : int -> int -> int; leb : int -> int -> bool;
  of_Z_ok : forall z, to_Z (of_Z z) = z;
  add_ok : forall a b, to_Z (add a b) = (to_Z a + to_Z b)%Z;
  sub_ok : forall a b, to_Z (sub a b) = (to_Z a - to_Z b)%Z;
  mul_ok : forall a b, to_Z (mul a b) = (to_Z a * to_Z b)%Z;
  leb_ok : forall a b, leb a b = true -> (to_Z a <= to_Z b)%Z }.

Definition plain : integers.
Proof. refine {| int := Z; of_Z := fun z => z; to_Z := fun z => z; add := Z.add; sub := Z.sub; mul := Z.mul; leb := Z.leb |}; auto.
  intros a b H. apply Z.leb_le. exact H. Defined.
Definition big : integers.
Proof. refine {| int := BigZ.t; of_Z := BigZ.of_Z; to_Z := BigZ.to_Z; add := BigZ.add; sub := BigZ.sub; mul := BigZ.mul; leb := BigZ.leb |}.
  - apply BigZ.spec_of_Z. - apply BigZ.spec_add. - apply BigZ.spec_sub. - apply BigZ.spec_mul.
  - intros a b H. rewrite BigZ.spec_leb in H. apply Z.leb_le. exact H. Defined.

Lemma sum_first n f : sum (S n) f = f O + sum n (fun i => f (S i)).
Proof. induction n; [simpl; lra|]. change (sum (S (S n)) f) with (sum (S n) f + f (S n)). rewrite IHn. simpl. lra. Qed.
Lemma nth_map {A B} (f : A -> B) l i d d' : (i < length l)%nat -> nth i (map f l) d' = f (nth i l d).
Proof. intros H. rewrite (nth_indep _ d' (f d)) by (rewrite map_length; auto). apply map_nth. Qed.
Lemma forallb_nth {A} (f : A -> bool) l i d : forallb f l = true -> (i < length l)%nat -> f (nth i l d) = true.
Proof. rewrite forallb_forall. intros H Hi. apply H, nth_In, Hi. Qed.

(* test i k for k < i, and test_diagonal i *)
Fixpoint pairs {A} (diagonal : A -> bool) (off : A -> A -> bool) (before rest : list A) : bool :=
  match rest with
  | [] => true
  | r :: more => diagonal r && forallb (off r) before && pairs diagonal off (r :: before) more
  end.
Lemma pairs_ok {A} (diagonal : A -> bool) off rest d : forall before, pairs diagonal off before rest = true ->
  (forall i, (i < length rest)%nat -> diagonal (nth i rest d) = true) /\
  (forall i k, (k < i < length rest)%nat -> off (nth i rest d) (nth k rest d) = true) /\
  (forall i b, (i < length rest)%nat -> In b before -> off (nth i rest d) b = true).
Proof.
  induction rest as [|r more IH]; intros before; simpl; [intros; repeat split; intros; lia|].
  rewrite !Bool.andb_true_iff, forallb_forall. intros [[H1 H2] H3]. destruct (IH _ H3) as [D [O B]].
  split; [|split].
  - intros [|i] Hi; simpl; auto. apply D; lia.
  - intros [|i] [|k] Hi; simpl; try lia; [apply B; [lia|left; auto]|apply O; lia].
  - intros [|i] b Hi Hb; simpl; auto. apply B; [lia|right; auto].
Qed.

Section Lists.
Variable N : integers.
Let zero := of_Z N 0.
Definition real (a : int N) : R := IZR (to_Z N a).
Definition entry (u : list (int N)) (l : nat) : R := real (nth l u (of_Z N 0)).
Lemma real_zero : real (of_Z N 0) = 0.
Proof. unfold real. rewrite of_Z_ok. reflexivity. Qed.
Lemma real_of z : real (of_Z N z) = IZR z.
Proof. unfold real. rewrite of_Z_ok. reflexivity. Qed.
Lemma real_add a b : real (add N a b) = real a + real b.
Proof. unfold real. rewrite add_ok, plus_IZR. reflexivity. Qed.
Lemma real_sub a b : real (sub N a b) = real a - real b.
Proof. unfold real. rewrite sub_ok, minus_IZR. reflexivity. Qed.
Lemma real_mul a b : real (mul N a b) = real a * real b.
Proof. unfold real. rewrite mul_ok, mult_IZR. reflexivity. Qed.
Lemma real_leb a b : leb N a b = true -> real a <= real b.
Proof. intros H. apply IZR_le, leb_ok, H. Qed.
Lemma entry_map (u : list Z) l : entry (map (of_Z N) u) l = IZR (nth l u 0%Z).
Proof. unfold entry. rewrite map_nth. apply real_of. Qed.
Lemma entry_beyond u l : (length u <= l)%nat -> entry u l = 0.
Proof. intros H. unfold entry. rewrite nth_overflow by auto. apply real_zero. Qed.

Fixpoint dot (acc : int N) (u v : list (int N)) : int N :=
  match u, v with a :: u', b :: v' => dot (add N acc (mul N a b)) u' v' | _, _ => acc end.
Lemma dot_ok u : forall acc v n, (length u <= n)%nat -> real (dot acc u v) = real acc + sum n (fun l => entry u l * entry v l).
Proof.
  induction u as [|a u IH]; intros acc v n Hn.
  - simpl. rewrite (sum_ext n _ (fun _ => 0)), sum_0; [ring|]. intros l Hl. rewrite (entry_beyond []) by (simpl; lia). ring.
  - destruct v as [|b v].
    + simpl. rewrite (sum_ext n _ (fun _ => 0)), sum_0; [ring|]. intros l Hl. rewrite (entry_beyond []) by (simpl; lia). ring.
    + simpl in Hn. destruct n as [|n]; [lia|]. simpl dot. rewrite (IH _ _ n) by lia. rewrite sum_first, real_add, real_mul.
      unfold entry at 3 4. simpl nth.
      rewrite (sum_ext n (fun l => entry (a :: u) (S l) * entry (b :: v) (S l)) (fun l => entry u l * entry v l)) by reflexivity. ring.
Qed.
Definition within (a b : int N) : bool := leb N (sub N (of_Z N 0) b) a && leb N a b.
Lemma within_ok a b : within a b = true -> Rabs (real a) <= real b.
Proof.
  unfold within. rewrite Bool.andb_true_iff. intros [H1 H2]. apply real_leb in H1. apply real_leb in H2.
  rewrite real_sub, real_zero in H1. apply Rabs_le. lra.
Qed.
End Lists.
