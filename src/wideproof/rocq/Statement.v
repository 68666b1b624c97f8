(* Everything that a reader has to believe: what the theorems about certificates say, in ordinary real analysis. *)
From Coq Require Import Reals ZArith.
From Coquelicot Require Import Coquelicot.
Open Scope R_scope.

(* Vectors are functions; of a vector of size n only the entries 0, ..., n - 1 count. *)
Definition vec := nat -> R.
Fixpoint sum (n : nat) (f : nat -> R) : R := match n with O => 0 | S m => sum m f + f m end.
Definition norm (n : nat) (v : vec) : R := sqrt (sum n (fun i => v i * v i)).

(* the error function *)
Definition erf (x : R) : R := 2 / sqrt PI * RInt (fun t => exp (- (t * t))) 0 x.

(* A network with one hidden layer of m units on d inputs, with k outputs, and a table of n rows:
   f_o(x) = sum_j a_jo c g(w_j . x).  The weights are one vector: entry j d + l is entry l of w_j, entry m d + j k + o is a_jo.
   Where the read-out is not trained, a_jo is a fixed number. *)
Record problem := {
  rows : nat; units : nat; inputs : nat; outputs : nat;
  input : nat -> vec; target : nat -> vec;
  activation : R -> R; scale : R; read_out_trained : bool; fixed : vec }.

Definition size (P : problem) : nat := (units P * inputs P + units P * outputs P)%nat.
Definition read_out (P : problem) (w : vec) (o j : nat) : R :=
  if read_out_trained P then w (units P * inputs P + (j * outputs P + o))%nat else fixed P (j * outputs P + o)%nat.
Definition hidden (P : problem) (w : vec) (i j : nat) : R :=
  sum (inputs P) (fun l => w (j * inputs P + l)%nat * input P i l).
Definition network (P : problem) (w : vec) (i o : nat) : R :=
  sum (units P) (fun j => read_out P w o j * (scale P * activation P (hidden P w i j))).
(* half the sum of squares, over all rows and outputs, of values f i o at row i, and of the network *)
Definition misfit (P : problem) (f : nat -> vec) : R :=
  / 2 * sum (rows P) (fun i => sum (outputs P) (fun o => (f i o - target P i o) ^ 2)).
Definition loss (P : problem) (w : vec) : R := misfit P (network P w).
(* values that depend on the inputs only: the same in rows with equal inputs *)
Definition of_inputs (P : problem) (f : nat -> vec) : Prop := forall i k, (i < rows P)%nat -> (k < rows P)%nat ->
  (forall l, (l < inputs P)%nat -> input P i l = input P k l) -> forall o, (o < outputs P)%nat -> f i o = f k o.

(* g is the gradient of L at w: the derivative along every direction u is the inner product of u and g. *)
Definition is_gradient (p : nat) (L : vec -> R) (w g : vec) : Prop :=
  forall u : vec, is_derive (fun t => L (fun q => w q + t * u q)) 0 (sum p (fun q => u q * g q)).
(* w(0), w(1), ... is gradient descent on L with step size eta from start, in exact arithmetic. *)
Definition gradient_descent (p : nat) (L : vec -> R) (eta : R) (start : vec) (w : nat -> vec) : Prop :=
  (forall q, (q < p)%nat -> w O q = start q) /\
  forall k, exists g, is_gradient p L (w k) g /\ forall q, (q < p)%nat -> w (S k) q = w k q - eta * g q.
Definition global_minimum (L : vec -> R) (w : vec) : Prop := forall v, L w <= L v.

(* No function of the inputs has a loss below the least one, which is 0 unless equal inputs have different targets. From step K on
   every step multiplies the residual, the root of twice what the loss is above the least one, by at most q; the weights stay within
   the radius around the centre; after further steps the loss is at most epsilon above the least one; and the weights converge to
   weights that have it, which is a global minimum. There is such a run. *)
Definition trains (P : problem) (eta : R) (start centre : vec) (K : nat) (q radius : R) (further : Z) (epsilon least : R) : Prop :=
  let p := size P in let L := loss P in
  (exists w, gradient_descent p L eta start w) /\ (forall f, of_inputs P f -> least <= misfit P f) /\
  forall w, gradient_descent p L eta start w ->
    (forall k, (K <= k)%nat -> L (w (S k)) - least <= q ^ 2 * (L (w k) - least)) /\
    (forall k, (K <= k)%nat -> norm p (fun j => w k j - centre j) < radius) /\
    (forall k, (Z.of_nat K + further <= Z.of_nat k)%Z -> L (w k) - least <= epsilon) /\
    exists v, (forall j, (j < p)%nat -> is_lim_seq (fun k => w k j) (v j)) /\ L v = least /\ global_minimum L v.
