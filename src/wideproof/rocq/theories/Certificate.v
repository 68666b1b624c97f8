(* What a certificate stores, as whole numbers over common denominators, and the real numbers that they stand for. *)
From Coq Require Import Reals Lra Lia ZArith QArith Qreals List.
From Coquelicot Require Import Coquelicot.
From Wideproof Require Import Statement theories.Vectors theories.Network theories.Activations theories.Integers.
Import ListNotations.
Open Scope R_scope.

Record certificate := {
  activation_of : act; trained_read_out : bool; width_of_inputs : nat; width_of_outputs : nat;
  over_x : positive; over_y : positive; over_w : positive; over_a : positive;
  scale_of : Q;
  data : list (list Z * list Z);           (* for every row its targets and its inputs *)
  cells : list (list Z * list Z);          (* for every unit its output weights and its weights: the anchor *)
  (* rows with equal inputs: the group of every row, and one row of every group; half the sum of squares that no function can avoid *)
  groups : list nat; firsts : list nat; c_least : Q;
  (* the claims of the certificate *)
  c_s : Q; c_S : Q; c_rho : Q; c_steps : list (Q * Q); c_sigma : Q; c_b : Q; c_eta : Q; c_rate : Q; c_kappa : Q; c_distance : Q; c_further : Z; c_epsilon : Q;
  (* what the checker needs besides, from any program: bounds, and factors of the Gram matrix *)
  over_t : positive; w_delta : Z; w_err : Q; w_erho : Q; w_rho0 : Q; w_A : Q; w_X1 : Q; w_X2 : Q; w_beta : Q;
  over_l : positive; w_low : Z; w_high : Z; w_span : Z; w_most : Z; w_eps : Z; w_eps_x : Z;
  factors : list (list (list Z * list Z)); (* for every group and output a row of both factors of the Gram matrix *)
  spans : list (list Z) }.                 (* for every group a row of the factor of the matrix of the inputs *)

Definition over (k : Z) (d : positive) : R := IZR k / IZR (Zpos d).
Lemma over_pos d : 0 < IZR (Zpos d). Proof. apply IZR_lt. reflexivity. Qed.
Lemma over_Q k d : Q2R (k # d) = over k d.
Proof. reflexivity. Qed.

Definition row0 : list Z * list Z := ([], []).
Definition head (cells : list (list Z * list Z)) (j o : nat) : Z := nth o (fst (nth j cells row0)) 0%Z.
Definition pack (d k : nat) (dw da : positive) (cells : list (list Z * list Z)) : vec := fun q =>
  if Nat.ltb q (length cells * d) then over (nth (q mod d) (snd (nth (q / d) cells row0)) 0%Z) dw
  else over (head cells ((q - length cells * d) / k) ((q - length cells * d) mod k)) da.
Definition problem_of (c : certificate) : problem := {|
  rows := length (data c); units := length (cells c); inputs := width_of_inputs c; outputs := width_of_outputs c;
  input := fun i l => over (nth l (snd (nth i (data c) row0)) 0%Z) (over_x c);
  target := fun i o => over (head (data c) i o) (over_y c);
  activation := value (activation_of c); scale := Q2R (scale_of c); read_out_trained := trained_read_out c;
  fixed := fun q => over (head (cells c) (q / width_of_outputs c) (q mod width_of_outputs c)) (over_a c) |}.
Definition weights_of (c : certificate) (cells : list (list Z * list Z)) : vec := pack (width_of_inputs c) (width_of_outputs c) (over_w c) (over_a c) cells.
Definition anchor (c : certificate) : vec := weights_of c (cells c).
Definition radius (c : certificate) : Q := fold_left (fun _ s => fst s) (c_steps c) 0%Q.

Lemma pack_hidden d k dw da cs j l : (j < length cs)%nat -> (l < d)%nat ->
  pack d k dw da cs (j * d + l)%nat = over (nth l (snd (nth j cs row0)) 0%Z) dw.
Proof.
  intros Hj Hl. unfold pack. destruct (Nat.ltb_spec (j * d + l) (length cs * d)); [|nia].
  destruct (idx d j l Hl) as [-> ->]. reflexivity.
Qed.
Lemma pack_out d k dw da cs j o : (o < k)%nat -> pack d k dw da cs (length cs * d + (j * k + o))%nat = over (head cs j o) da.
Proof.
  intros Ho. unfold pack. destruct (Nat.ltb_spec (length cs * d + (j * k + o)) (length cs * d)); [lia|].
  replace (length cs * d + (j * k + o) - length cs * d)%nat with (j * k + o)%nat by lia. destruct (idx k j o Ho) as [-> ->]. reflexivity.
Qed.

(* what belongs to a group: how many rows, and the sums of their targets, as whole numbers *)
Definition total {A} (f : A -> Z) (l : list A) : Z := fold_right (fun a s => (f a + s)%Z) 0%Z l.
Definition count_of (c : certificate) (g : nat) : Z := total (fun i => if Nat.eqb i g then 1 else 0)%Z (groups c).
Definition target_of (c : certificate) (g o : nat) : Z :=
  total (fun p => if Nat.eqb (fst p) g then nth o (fst (snd p)) 0 else 0)%Z (combine (groups c) (data c)).
Definition first_of (c : certificate) (g : nat) : nat := nth g (firsts c) O.
Definition counts_of (c : certificate) (g : nat) : R := IZR (count_of c g).
Definition mean_of (c : certificate) (g : nat) : vec := fun o => over (target_of c g o) (over_y c) / counts_of c g.
Lemma sum_list {A} (f : A -> Z) l dflt : IZR (total f l) = sum (length l) (fun i => IZR (f (nth i l dflt))).
Proof. induction l as [|a l IH]; simpl length; [reflexivity|]. rewrite sum_first. simpl. rewrite plus_IZR, IH. reflexivity. Qed.
