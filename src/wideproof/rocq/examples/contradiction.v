(* Gradient descent with step size 0.00010309848371662697 from these weights converges to the least loss that any function of the inputs has, 2, on 5 rows, in exact arithmetic: each step multiplies the residual by at most 1 - 0.067181, the weights move by less than 0.11781, and after 211 steps the loss is at most 1e-12 above it.

   The network: f(x) = sum over 64 units of a_j c g(w_j . x), g = tanh, on 3 inputs; the number
   of outputs is 3. Trained are the hidden weights and the output weights. The loss is half the sum of squares over all rows and outputs.
   Written by wideproof rocq from t; the claims are those of the certificate, but for b, kappa, rate, sigma.
   SHA-256 of arrays.safetensors: 0bdabf1a20814fc9af112c356f926b30506d3959e4f8134dd6f4ab511061ab83
   SHA-256 of certificate.json: bd27e1980052cd94339d43cd1aab9865e6c768b7c92fb1d21146cc7ac1242be2 *)
From Coq Require Import Reals ZArith QArith List.
From Interval Require Import Float.Specific_stdz Float.Specific_ops Float.Specific_bigint Float.Primitive_ops.
From Wideproof Require Import Statement theories.Activations theories.Integers theories.Certificate.
From Wideproof Require Import theories.Checker theories.Following.
Import ListNotations.
Open Scope R_scope.

(* every row: its targets over 2^0, and its inputs over 2^30 *)
Definition rows_of_table : list (list Z * list Z) := [([0x1;-0x1;-0x1], [-0x40000000;-0x40000000;0x40000000]);
  ([-0x1;0x1;-0x1], [-0x40000000;0x40000000;0x40000000]);
  ([-0x1;-0x1;0x1], [0x40000000;-0x40000000;0x40000000]);
  ([0x1;-0x1;-0x1], [0x40000000;0x40000000;0x40000000]);
  ([-0x1;0x1;-0x1], [0x40000000;0x40000000;0x40000000])]%Z.
(* every unit: its output weights over 2^0, and its weights over 2^59 *)
Definition anchor_weights : list (list Z * list Z) := [([-0x1;-0x1;0x1], [0xf0a4d1ccbd21a00;-0x3d9873c731fce40;0x352db3d717f9da0]);
  ([0x1;0x1;0x1], [0x130e022bc1a52d00;-0x49a5a0a38eda000;-0x2f6df873d525f00]);
  ([0x1;-0x1;0x1], [0x81befbbe04c9e8;-0x3aeef47acc7a0c0;-0xc871ba25394e900]);
  ([0x1;-0x1;0x1], [0x2576107ea798d20;0xd8a43107e80cf80;0x7ea4af74b9a9840]);
  ([0x1;0x1;0x1], [0x687cbfbac1e17c0;-0x76153157c4fe300;-0x296e36c65f67860]);
  ([0x1;0x1;0x1], [0x5e3cd0fa6c52c80;0x7a69144b23027c0;-0x30c62849a99c4c0]);
  ([0x1;-0x1;-0x1], [0x5be17b1d9fa6b00;0xb9f77d33de41800;-0xd243a3ba94ed380]);
  ([0x1;-0x1;-0x1], [-0x5acde376cd4cb4;-0x4d06dddb595ed80;0x67e3d3891e52f40]);
  ([-0x1;0x1;-0x1], [-0x36404e0380dc2a0;0xb14459fa6f30280;-0x4be70b1af188600]);
  ([0x1;0x1;-0x1], [-0x96eac31f54cd280;0x46915fb6a7ebac0;0x55063c7422f85c0]);
  ([-0x1;0x1;-0x1], [-0x270c4bcdbf77360;-0x2bf8bbb53b75400;-0x2e16c17291d0e60]);
  ([0x1;0x1;-0x1], [0x5c0fb77f7399e40;0x7f8b2b1912272c0;-0x1696310b7608a00]);
  ([-0x1;-0x1;-0x1], [-0x3cf2a96f18f1c80;-0xa14b0118d411e00;0x1dab29098a570e0]);
  ([0x1;-0x1;-0x1], [0x2e1bf138bdde620;0x20647600298f0c0;0x191e14d2cd71010]);
  ([0x1;-0x1;-0x1], [-0xa4ea82b95ad4c00;0x245fd8b5b354900;0xac4fda0deba4a00]);
  ([-0x1;-0x1;0x1], [0x1df49628f569fa0;0x8d2ceedb500d800;0x2d4ee60910f65e0]);
  ([0x1;0x1;0x1], [-0x1dedca77603ce40;0x189fb25d6403580;-0x5cb23712400eb80]);
  ([0x1;-0x1;0x1], [0xdf169261bbe4c00;-0x5c9cbf0e4f99100;-0xb3d946129e6b300]);
  ([0x1;0x1;0x1], [-0x2e5ebcbdf5eb28;-0x1e76f9bb285db70;-0xda675319a29d80]);
  ([0x1;0x1;0x1], [-0x12c84fb23c499800;0x648634718574700;0x1b497fbd78a7570]);
  ([0x1;0x1;0x1], [-0x4c79592f3af0ac0;0x284be91077e53e0;0x85e7523f4b48880]);
  ([0x1;-0x1;0x1], [0xe5ac31d1e698c8;-0x4a79a645d193000;0xb4694e832320b80]);
  ([0x1;0x1;-0x1], [-0x1d82bd7db8067000;0x1117ebffe3226500;0x7c9f210a18257c0]);
  ([0x1;-0x1;0x1], [-0x67c98c69a5ac800;0x5205f5a4e947f80;0x747f9d4e0ed9ac0]);
  ([0x1;-0x1;-0x1], [0x90b68eb9010ca00;0x614b59569b61e40;0x18f59dfa85b665]);
  ([0x1;-0x1;0x1], [0xa53f6b9549a5580;0x965a5822a4d9980;0x4973018f9542940]);
  ([0x1;0x1;0x1], [0x1b28a2231525ab0;0xa4553c74f237880;-0x90ee6badb95ed00]);
  ([0x1;-0x1;-0x1], [-0x56eac9d1b8a96c0;0x865dc356fd84380;-0x5203f7e11ab65c0]);
  ([0x1;0x1;-0x1], [-0x25421ee6f6c89e0;0xabf28d5245b5580;-0xa269ae4d15e1a00]);
  ([0x1;0x1;0x1], [-0xd7e963df685e880;0x41cc9ac021cf980;-0x7030ff1752dce00]);
  ([-0x1;-0x1;0x1], [0x20b214cd12180e0;-0x53593b5eec0d400;0x5b49d082f52cd40]);
  ([-0x1;0x1;-0x1], [-0x31878087b93c100;-0x3b649c7240371c0;-0xc95844c64711e00]);
  ([0x1;0x1;-0x1], [0xf0a4d1ccbd21a00;-0x3d9873c731fce40;0x352db3d717f9da0]);
  ([-0x1;-0x1;-0x1], [0x130e022bc1a52d00;-0x49a5a0a38eda000;-0x2f6df873d525f00]);
  ([-0x1;0x1;-0x1], [0x81befbbe04c9e8;-0x3aeef47acc7a0c0;-0xc871ba25394e900]);
  ([-0x1;0x1;-0x1], [0x2576107ea798d20;0xd8a43107e80cf80;0x7ea4af74b9a9840]);
  ([-0x1;-0x1;-0x1], [0x687cbfbac1e17c0;-0x76153157c4fe300;-0x296e36c65f67860]);
  ([-0x1;-0x1;-0x1], [0x5e3cd0fa6c52c80;0x7a69144b23027c0;-0x30c62849a99c4c0]);
  ([-0x1;0x1;0x1], [0x5be17b1d9fa6b00;0xb9f77d33de41800;-0xd243a3ba94ed380]);
  ([-0x1;0x1;0x1], [-0x5acde376cd4cb4;-0x4d06dddb595ed80;0x67e3d3891e52f40]);
  ([0x1;-0x1;0x1], [-0x36404e0380dc2a0;0xb14459fa6f30280;-0x4be70b1af188600]);
  ([-0x1;-0x1;0x1], [-0x96eac31f54cd280;0x46915fb6a7ebac0;0x55063c7422f85c0]);
  ([0x1;-0x1;0x1], [-0x270c4bcdbf77360;-0x2bf8bbb53b75400;-0x2e16c17291d0e60]);
  ([-0x1;-0x1;0x1], [0x5c0fb77f7399e40;0x7f8b2b1912272c0;-0x1696310b7608a00]);
  ([0x1;0x1;0x1], [-0x3cf2a96f18f1c80;-0xa14b0118d411e00;0x1dab29098a570e0]);
  ([-0x1;0x1;0x1], [0x2e1bf138bdde620;0x20647600298f0c0;0x191e14d2cd71010]);
  ([-0x1;0x1;0x1], [-0xa4ea82b95ad4c00;0x245fd8b5b354900;0xac4fda0deba4a00]);
  ([0x1;0x1;-0x1], [0x1df49628f569fa0;0x8d2ceedb500d800;0x2d4ee60910f65e0]);
  ([-0x1;-0x1;-0x1], [-0x1dedca77603ce40;0x189fb25d6403580;-0x5cb23712400eb80]);
  ([-0x1;0x1;-0x1], [0xdf169261bbe4c00;-0x5c9cbf0e4f99100;-0xb3d946129e6b300]);
  ([-0x1;-0x1;-0x1], [-0x2e5ebcbdf5eb28;-0x1e76f9bb285db70;-0xda675319a29d80]);
  ([-0x1;-0x1;-0x1], [-0x12c84fb23c499800;0x648634718574700;0x1b497fbd78a7570]);
  ([-0x1;-0x1;-0x1], [-0x4c79592f3af0ac0;0x284be91077e53e0;0x85e7523f4b48880]);
  ([-0x1;0x1;-0x1], [0xe5ac31d1e698c8;-0x4a79a645d193000;0xb4694e832320b80]);
  ([-0x1;-0x1;0x1], [-0x1d82bd7db8067000;0x1117ebffe3226500;0x7c9f210a18257c0]);
  ([-0x1;0x1;-0x1], [-0x67c98c69a5ac800;0x5205f5a4e947f80;0x747f9d4e0ed9ac0]);
  ([-0x1;0x1;0x1], [0x90b68eb9010ca00;0x614b59569b61e40;0x18f59dfa85b665]);
  ([-0x1;0x1;-0x1], [0xa53f6b9549a5580;0x965a5822a4d9980;0x4973018f9542940]);
  ([-0x1;-0x1;-0x1], [0x1b28a2231525ab0;0xa4553c74f237880;-0x90ee6badb95ed00]);
  ([-0x1;0x1;0x1], [-0x56eac9d1b8a96c0;0x865dc356fd84380;-0x5203f7e11ab65c0]);
  ([-0x1;-0x1;0x1], [-0x25421ee6f6c89e0;0xabf28d5245b5580;-0xa269ae4d15e1a00]);
  ([-0x1;-0x1;-0x1], [-0xd7e963df685e880;0x41cc9ac021cf980;-0x7030ff1752dce00]);
  ([0x1;0x1;-0x1], [0x20b214cd12180e0;-0x53593b5eec0d400;0x5b49d082f52cd40]);
  ([0x1;-0x1;0x1], [-0x31878087b93c100;-0x3b649c7240371c0;-0xc95844c64711e00])]%Z.

Definition entry (table : list (list Z * list Z)) (i l : nat) : R := IZR (nth l (snd (nth i table ([], []))) 0%Z).
Definition head (table : list (list Z * list Z)) (i o : nat) : R := IZR (nth o (fst (nth i table ([], []))) 0%Z).
Definition P : problem := {|
  rows := 5; units := 64; inputs := 3; outputs := 3;
  input := fun i l => entry rows_of_table i l / IZR 1073741824; target := fun i o => head rows_of_table i o / IZR 1;
  activation := tanh; scale := (IZR 3361945748454991 / IZR 562949953421312);
  read_out_trained := true;
  fixed := fun q => head anchor_weights (q / 3) (q mod 3) / IZR 1 |}.
Definition weights (table : list (list Z * list Z)) : vec := fun q =>
  if Nat.ltb q (units P * inputs P) then entry table (q / inputs P) (q mod inputs P) / IZR 576460752303423488
  else head table ((q - units P * inputs P) / outputs P) ((q - units P * inputs P) mod outputs P) / IZR 1.

(* what only the proof reads *)
Definition factors_of_gram : list (list (list Z * list Z)) := [[([0x2c69fde1679c], [0x4bfaa8b90905]); ([0x5972ba0fa47;0x2c0f8f3ca2b6], [-0x3449943b132;0x4be8a8bd03c1]); ([0x105e3abaeb6c;0x704d4ab9f61;0x28afdb8842a0], [-0x9916c0d41fc;-0x5b1028309b0;0x4b28ba394715])];
  [([0x14347c1ffa85;-0x23d572f127a;-0x5c1f6fda11f;0x30dfb0edf27f], [-0xbcf9ae1699b;-0xb251cbb82a;-0x2a16a3836ea;0x450497078ebc]); ([0x524b2e11e1;0x1453834f5bb4;-0x11a19e92f0e;0x9d0c6423cbd;0x3035dabbb0ff], [-0x301af024bd;-0xbd47a0716ae;-0x24a9a9874ec;-0x6b74d8c173a;0x44b3d97cc4ab]); ([0x1d15b283883;0x21bf1af91d0;0x14f5f3422d7b;0x35864a39de7;0xa44de6a134a;0x2fa882640ace], [-0x11006c905a7;-0x16763f541ad;-0xc2e70a0f5f0;-0x1be8acd248b;-0x8cd3e897252;0x44660f65f32e])];
  [([0xe3e2123ce72;-0x28d32e2f43b;-0x1ccc6d83356;-0x1b175e8bbe08;0x63686b1896c;-0xdabeaef8e;0x2660bb715b33], [-0x8535d8aa063;0x12dbb0d500;-0x2f183ed7418;0xd3ed915483b;0x15b4dc749a6;0x8a9f3b3edb;0x46ef86b1f447]); ([-0xbd0e42d71c;0xe7359776e8e;-0x1acd8c4a3a1;0x87f1f6cd6f;-0x1b654204ad13;0x395dfafd190;-0xace0766f34;0x267e426f33f2], [0x6e83798220;-0x85094f64edd;-0xdb435b284c;0x206b2f3561;0xd671f17d76e;0x3167061f389;0x350ecc5cb9c;0x46d506f13e41]); ([0x33262e9f4b6;0x1339dc75fc;0xe3f94dbe346;-0x97c7b9668a;-0x1fc15a67c1a;-0x1b544983c16c;0x88b86b8c3a7;0x79ae75d03c2;0x24ea4aa63e9e], [-0x1de6470accd;-0x5c06f8b058;-0x8ae7d8785f1;0x54f76abe9;0x1507282e889;0xd80ac017a7e;-0x5af6568c701;-0x3c88120c996;0x468d9f05c098])];
  [([-0x111c39c33ed6;0x5b8cabc518;0x472cafd1bf1;0x17aec2c5a0fa;-0x29a2030d86a;-0x346e0222f67;0x2b77827ce6dc;-0x18fb7566d83;-0xa6496403454;0x13551b8c1b74], [0xa007c454db4;0x17bafa2e03e;0x2ab9af1e8e3;-0x98ce3d5134c;-0x212e43c200b;0xbf3f8e181d;-0x795b54ab2f5;0xf9e56209bb;-0xfc0ed200b2;0x1286ad94a1f2]); ([-0x1cc876f4d38;-0x1104e9243f4c;0x880aa1a622;0x226e03ac9d5;0x170d23a1b8b5;-0x1731f8a1956;-0x2d601597de3;0x2a879cf05e10;-0x4742f371cc7;0xd85b6543581;0x1457cc761d9d], [0x10d346fd3d7;0xa0e725c6921;0x296bf806cda;-0x11ffe47a90d;-0x9b8561b525e;-0x2bdeadfd5c5;0xbc61a16f13;-0x791b383968b;-0x10e589b642a;-0xa42bc93b6c8;0xf3881114221]); ([-0x22c90cc5c40;-0x29ce4bc349a;-0x115a2dcfeb1e;-0x2197088495a;0x4311ae87540;0x178d8d16916d;-0x9b829d02e3;0x450b51845ad;0x2c4dc447d14f;0x12f78af3bee9;-0x5cda9d58405;0x5e2f54c4], [0x14557f2e3dc;0x1bb4043bea8;0xa6767bcd4fc;0x138e3ac2580;-0x15e5bb309dd;-0x9b7f0684804;-0x781681b18b;-0xc84cd94566;-0x79d78f62d01;0xe7c9a7154b3;-0xb58b928c548;0x3ae1714f])]]%Z.
Definition factor_of_inputs : list (list Z) := [[0x200000000c0]; [-0x7fffffffd0;0x1efbdeb15c8]; [-0x7fffffffd0;0x6325fbd0ec;0x1e5b9d137a2]; [0x7fffffffd0;-0x6325fbd0ec;-0x50f44d891d;0x15316b3]]%Z.
Definition c : certificate := {|
  activation_of := Tanh;
  trained_read_out := true;
  width_of_inputs := 3;
  width_of_outputs := 3;
  over_x := 1073741824;
  over_y := 1;
  over_w := 576460752303423488;
  over_a := 1;
  over_t := 1099511627776;
  over_l := 1099511627776;
  scale_of := (3361945748454991 # 562949953421312);
  data := rows_of_table;
  cells := anchor_weights;
  groups := [0; 1; 2; 3; 3]%nat;
  firsts := seq 0 4;
  c_least := (2 # 1);
  w_most := 2;
  c_s := (541451436802737 # 17592186044416);
  c_S := (6560813271377575 # 70368744177664);
  c_rho := (7468375832578147 # 2251799813685248);
  c_sigma := (1796293059145191 # 70368744177664);
  c_b := (3465162982288683 # 35184372088832);
  c_eta := (7607325374032517 # 73786976294838206464);
  c_rate := (2420453934075141 # 36028797018963968);
  c_kappa := (9007199245733793 # 9007199254740992);
  c_distance := (0 # 1);
  c_epsilon := (4951760157141521 # 4951760157141521099596496896);
  c_steps := [((1061135990043317 # 9007199254740992), (3136520129006079 # 70368744177664))];
  c_further := 211;
  w_delta := 2;
  w_err := (4360591593058557 # 38685626227668133590597632);
  w_erho := (4360591593058557 # 9671406556917033397649408);
  w_rho0 := (29173340208887 # 8796093022208);
  w_A := (3900231689677213 # 2251799813685248);
  w_X1 := (3900231689677213 # 2251799813685248);
  w_X2 := (5957702315581665 # 2251799813685248);
  w_beta := (281474977555081 # 281474976710656);
  w_low := 1320319028338467074658055442161117093259378688;
  w_high := 12115880269504851970683465685500272195869343744;
  w_eps := 18075382907743544394880610912436224;
  w_span := 8070450533055295488;
  w_eps_x := 4474523;
  factors := factors_of_gram;
  spans := factor_of_inputs |}.
Module F := SpecificFloat BigIntRadix2.
Module W := Following F.

Theorem certificate_holds : trains P (IZR 7607325374032517 / IZR 73786976294838206464) (weights anchor_weights) (weights anchor_weights)
  0 (1 - (IZR 2420453934075141 / IZR 36028797018963968)) (IZR 1061135990043317 / IZR 9007199254740992) 211%Z (IZR 4951760157141521 / IZR 4951760157141521099596496896)
  (IZR 2 / IZR 1).
Proof. apply (W.K.check_here (F.PtoP 60) big c). vm_cast_no_check (eq_refl true). Qed.
Print Assumptions certificate_holds.
