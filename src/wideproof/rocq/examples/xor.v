(* Gradient descent with step size 0.0003782953082880581 from these weights converges to zero loss on 4 rows, in exact arithmetic: each step multiplies the residual by at most 1 - 0.231769, the weights move by less than 0.0769878, and after 54 steps the loss is at most 1e-12.

   The network: f(x) = sum over 16 units of a_j c g(w_j . x), g = tanh, on 3 inputs; the number
   of outputs is 1. Trained are the hidden weights. The loss is half the sum of squares over all rows and outputs.
   Written by wideproof rocq from xor; the claims are those of the certificate, but for b, kappa, rate, sigma.
   SHA-256 of arrays.safetensors: 9acc0041b1d2e24b3ec77b20b21f30592cb6c15183c664c8ee473d71995ade0b
   SHA-256 of certificate.json: a77f2c55ebdc43e371e90219d05072444ad9f78447a051108f1e935558a1a326 *)
From Coq Require Import Reals ZArith QArith List.
From Interval Require Import Float.Specific_stdz Float.Specific_ops Float.Specific_bigint Float.Primitive_ops.
From Wideproof Require Import Statement theories.Activations theories.Integers theories.Certificate.
From Wideproof Require Import theories.Checker theories.Following.
Import ListNotations.
Open Scope R_scope.

(* every row: its targets over 2^0, and its inputs over 2^30 *)
Definition rows_of_table : list (list Z * list Z) := [([-0x1], [-0x40000000;-0x40000000;0x40000000]);
  ([0x1], [-0x40000000;0x40000000;0x40000000]);
  ([0x1], [0x40000000;-0x40000000;0x40000000]);
  ([-0x1], [0x40000000;0x40000000;0x40000000])]%Z.
(* every unit: its output weights over 2^0, and its weights over 2^57 *)
Definition anchor_weights : list (list Z * list Z) := [([-0x1], [0x3c2934732f48680;-0xf661cf1cc7f390;0xd4b6cf5c5fe768]);
  ([0x1], [0x4c3808af0694b40;-0x12696828e3b6800;-0xbdb7e1cf5497c0]);
  ([0x1], [0x206fbeef81327a;-0xebbbd1eb31e830;-0x321c6e894e53a40]);
  ([0x1], [0x95d841fa9e6348;0x36290c41fa033e0;0x1fa92bdd2e6a610]);
  ([0x1], [0x1a1f2feeb0785f0;-0x1d854c55f13f8c0;-0xa5b8db197d9e18]);
  ([0x1], [0x178f343e9b14b20;0x1e9a4512c8c09f0;-0xc318a126a67130]);
  ([0x1], [0x16f85ec767e9ac0;0x2e7ddf4cf790600;-0x3490e8eea53b4e0]);
  ([0x1], [-0x16b378ddb3532d;-0x1341b776d657b60;0x19f8f4e24794bd0]);
  ([0x1], [0x3c2934732f48680;-0xf661cf1cc7f390;0xd4b6cf5c5fe768]);
  ([-0x1], [0x4c3808af0694b40;-0x12696828e3b6800;-0xbdb7e1cf5497c0]);
  ([-0x1], [0x206fbeef81327a;-0xebbbd1eb31e830;-0x321c6e894e53a40]);
  ([-0x1], [0x95d841fa9e6348;0x36290c41fa033e0;0x1fa92bdd2e6a610]);
  ([-0x1], [0x1a1f2feeb0785f0;-0x1d854c55f13f8c0;-0xa5b8db197d9e18]);
  ([-0x1], [0x178f343e9b14b20;0x1e9a4512c8c09f0;-0xc318a126a67130]);
  ([-0x1], [0x16f85ec767e9ac0;0x2e7ddf4cf790600;-0x3490e8eea53b4e0]);
  ([-0x1], [-0x16b378ddb3532d;-0x1341b776d657b60;0x19f8f4e24794bd0])]%Z.

Definition entry (table : list (list Z * list Z)) (i l : nat) : R := IZR (nth l (snd (nth i table ([], []))) 0%Z).
Definition head (table : list (list Z * list Z)) (i o : nat) : R := IZR (nth o (fst (nth i table ([], []))) 0%Z).
Definition P : problem := {|
  rows := 4; units := 16; inputs := 3; outputs := 1;
  input := fun i l => entry rows_of_table i l / IZR 1073741824; target := fun i o => head rows_of_table i o / IZR 1;
  activation := tanh; scale := (IZR 3361945748454991 / IZR 281474976710656);
  read_out_trained := false;
  fixed := fun q => head anchor_weights (q / 1) (q mod 1) / IZR 1 |}.
Definition weights (table : list (list Z * list Z)) : vec := fun q =>
  if Nat.ltb q (units P * inputs P) then entry table (q / inputs P) (q mod inputs P) / IZR 144115188075855872
  else head table ((q - units P * inputs P) / outputs P) ((q - units P * inputs P) mod outputs P) / IZR 1.

(* what only the proof reads *)
Definition factors_of_gram : list (list (list Z * list Z)) := [[([0x15d7e4dc58c9], [0x225a424b3943])];
  [([0x4d6a24ed744;0x1fd70b0fa197], [-0x31398320254;0x18b5ae6bcaba])];
  [([0xa364b3905d8;-0xa6a0135a0e9;0x11b04a72c583], [-0x67e51613bcb;0xa9c70a5aefe;0x1f41263ac6c7])];
  [([-0xe31359c7f1d;0x1070320a2ba9;0x1c52f94dd23b;0x30322678], [0x90633ec6d03;-0x11477862e054;0x1d3558faf08;0x283c86cf])]]%Z.
Definition factor_of_inputs : list (list Z) := [[0x100000000dc]; [-0xffffffff24;0x1daa04d]; [-0xffffffff24;0xed5026;0x19b09cf]; [0xffffffff24;-0xed5026;-0x890345;0x18387d8]]%Z.
Definition c : certificate := {|
  activation_of := Tanh;
  trained_read_out := false;
  width_of_inputs := 3;
  width_of_outputs := 1;
  over_x := 1073741824;
  over_y := 1;
  over_w := 144115188075855872;
  over_a := 1;
  over_t := 1099511627776;
  over_l := 1099511627776;
  scale_of := (3361945748454991 # 281474976710656);
  data := rows_of_table;
  cells := anchor_weights;
  groups := seq 0 4;
  firsts := seq 0 4;
  c_least := (0 # 1);
  w_most := 1;
  c_s := (957163862414275 # 35184372088832);
  c_S := (3445412153792501 # 70368744177664);
  c_rho := (35184375610807 # 17592186044416);
  c_sigma := (6967100780733129 # 281474976710656);
  c_b := (7235929370627917 # 140737488355328);
  c_eta := (436144796017179 # 1152921504606846976);
  c_rate := (1043795285397329 # 4503599627370496);
  c_kappa := (281474976429181 # 281474976710656);
  c_distance := (0 # 1);
  c_epsilon := (4951760157141521 # 4951760157141521099596496896);
  c_steps := [((1386888675809747 # 18014398509481984), (8965189652751735 # 281474976710656))];
  c_further := 54;
  w_delta := 2;
  w_err := (281474976992131 # 9671406556917033397649408);
  w_erho := (281474976992131 # 4835703278458516698824704);
  w_rho0 := (2251799816003281 # 1125899906842624);
  w_A := (281474976992131 # 281474976710656);
  w_X1 := (3900231689677213 # 2251799813685248);
  w_X2 := (2251799816050065 # 1125899906842624);
  w_beta := (4503599640881295 # 4503599627370496);
  w_low := 1031507659196372210820846495917447751982383104;
  w_high := 3341350087397001483641468673011804579580346368;
  w_eps := 7856719861114033924546240238845952;
  w_span := 4611686018888740864;
  w_eps_x := 391449;
  factors := factors_of_gram;
  spans := factor_of_inputs |}.
Module F := SpecificFloat BigIntRadix2.
Module W := Following F.

Theorem certificate_holds : trains P (IZR 436144796017179 / IZR 1152921504606846976) (weights anchor_weights) (weights anchor_weights)
  0 (1 - (IZR 1043795285397329 / IZR 4503599627370496)) (IZR 1386888675809747 / IZR 18014398509481984) 54%Z (IZR 4951760157141521 / IZR 4951760157141521099596496896)
  (IZR 0 / IZR 1).
Proof. apply (W.K.check_here (F.PtoP 60) big c). vm_cast_no_check (eq_refl true). Qed.
Print Assumptions certificate_holds.
