(* What a certificate stores, as whole numbers over common denominators, and the real numbers that they stand for. *)
From Coq Require Import Reals Lra Lia ZArith QArith Qreals List.
From Coquelicot Require Import Coquelicot.
From Wideproof Require Import Statement theories.Vectors theories.Network theories.Activations theories.Integers.
Import ListNotations.
Open Scope R_scope.

Record certificate := {
  activation_of : act; trained_read_out : bool; width_of_inputs : nat;
  over_x : positive; over_y : positive; over_w : positive; over_a : positive;
  scale_of : Q;
  data : list (Z * list Z);                (* for every row its target and its inputs *)
  cells : list (Z * list Z);               (* for every unit its output weight and its weights: the anchor *)
  (* the claims of the certificate *)
  c_s : Q; c_S : Q; c_rho : Q; c_steps : list (Q * Q); c_sigma : Q; c_b : Q; c_eta : Q; c_rate : Q; c_kappa : Q; c_distance : Q; c_further : Z; c_epsilon : Q;
  (* what the checker needs besides, from any program: bounds, and factors of the Gram matrix *)
  over_t : positive; w_delta : Z; w_err : Q; w_erho : Q; w_rho0 : Q; w_A : Q; w_X1 : Q; w_X2 : Q; w_beta : Q;
  over_l : positive; w_low : Z; w_high : Z; w_span : Z; w_eps : Z; w_eps_x : Z;
  factors : list (list Z * (list Z * list Z)) }.

Definition over (k : Z) (d : positive) : R := IZR k / IZR (Zpos d).
Lemma over_pos d : 0 < IZR (Zpos d). Proof. apply IZR_lt. reflexivity. Qed.
Lemma over_Q k d : Q2R (k # d) = over k d.
Proof. reflexivity. Qed.

Definition row0 : Z * list Z := (0%Z, []).
Definition pack (d : nat) (dw da : positive) (cells : list (Z * list Z)) : vec := fun q =>
  if Nat.ltb q (length cells * d) then over (nth (q mod d) (snd (nth (q / d) cells row0)) 0%Z) dw
  else over (fst (nth (q - length cells * d) cells row0)) da.
Definition problem_of (c : certificate) : problem := {|
  rows := length (data c); units := length (cells c); inputs := width_of_inputs c;
  input := fun i l => over (nth l (snd (nth i (data c) row0)) 0%Z) (over_x c);
  target := fun i => over (fst (nth i (data c) row0)) (over_y c);
  activation := value (activation_of c); scale := Q2R (scale_of c); read_out_trained := trained_read_out c;
  fixed := fun j => over (fst (nth j (cells c) row0)) (over_a c) |}.
Definition weights_of (c : certificate) (cells : list (Z * list Z)) : vec := pack (width_of_inputs c) (over_w c) (over_a c) cells.
Definition anchor (c : certificate) : vec := weights_of c (cells c).
Definition radius (c : certificate) : Q := fold_left (fun _ s => fst s) (c_steps c) 0%Q.

Lemma pack_hidden d dw da cs j l : (j < length cs)%nat -> (l < d)%nat ->
  pack d dw da cs (j * d + l)%nat = over (nth l (snd (nth j cs row0)) 0%Z) dw.
Proof.
  intros Hj Hl. unfold pack. destruct (Nat.ltb_spec (j * d + l) (length cs * d)); [|nia].
  rewrite Nat.div_add_l, Nat.div_small, Nat.add_0_r by lia. rewrite (Nat.add_comm (j * d)), Nat.mod_add, Nat.mod_small by lia. reflexivity.
Qed.
Lemma pack_out d dw da cs j : pack d dw da cs (length cs * d + j)%nat = over (fst (nth j cs row0)) da.
Proof. unfold pack. destruct (Nat.ltb_spec (length cs * d + j) (length cs * d)); [lia|]. do 3 f_equal. lia. Qed.
