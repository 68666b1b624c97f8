(* The checker: whole numbers exactly, activations in intervals. check = true implies the theorem about these numbers. *)
From Coq Require Import Reals Lra Lia Psatz ZArith QArith Qreals List Bool.
From Coquelicot Require Import Coquelicot.
From Interval Require Import Interval.Float_full Interval.Interval Interval.Float Real.Xreal Float.Basic Float.Sig.
From Wideproof Require Import Statement theories.Vectors theories.Descent theories.Staircase theories.Runs theories.Network
  theories.Factors theories.Activations theories.Enclosures theories.Integers theories.Certificate.
Import ListNotations.
Open Scope R_scope.

Module Checker (F : FO).
Include Enclosures F.

Section Check.
Variables (prec : F.precision) (N : integers) (c : certificate).
Notation lst := (list (int N)).
Let Z_ := of_Z N.
Let P := problem_of c.

(* tables of slopes a_jo c g'(z) and features c g(z), rounded and compared with intervals *)
Definition iscale := I.div prec (I.fromZ prec (Qnum (scale_of c))) (I.fromZ prec (Zpos (Qden (scale_of c)))).
Definition idelta := ratio prec (w_delta c) (over_t c).
Definition unit_of (cell : list Z * list Z) : list I.type * lst :=
  (map (fun a => I.mul prec (ratio prec a (over_a c)) iscale) (fst cell), map (of_Z N) (snd cell)).
Definition functions := both prec (activation_of c).
Definition element_of (g : I.type -> I.type * I.type) (x : lst) (u : list I.type * lst) : list I.type * (I.type * I.type) :=
  (fst u, g (ratio prec (to_Z N (dot N (of_Z N 0) x (snd u))) (over_x c * over_w c))).
Definition rounded (delta : I.type) (xi : I.type) : int N * bool :=
  let k := guess xi (over_t c) in (of_Z N k, close prec xi k delta (over_t c)).
Definition feature_of (sc delta : I.type) (e : list I.type * (I.type * I.type)) := rounded delta (I.mul prec sc (fst (snd e))).
Definition slope_of (delta : I.type) (o : nat) (e : list I.type * (I.type * I.type)) := rounded delta (I.mul prec (nth o (fst e) I.nai) (snd (snd e))).
(* a line for every group of rows with equal inputs and every output *)
Record line := { l_n : Z; l_y : Z; l_o : nat; l_x : lst; l_b : lst; l_c : lst; l_low : lst; l_high : lst; l_fine : bool }.
Definition line_of (g : nat) (n : Z) (x : lst) (delta : I.type) (es : list (list I.type * (I.type * I.type))) (fs : list (int N * bool)) (w : nat * (list Z * list Z)) : line :=
  let bs := map (slope_of delta (fst w)) es in
  {| l_n := n; l_y := target_of c g (fst w); l_o := fst w; l_x := x; l_b := map fst bs; l_c := map fst fs;
     l_low := map (of_Z N) (fst (snd w)); l_high := map (of_Z N) (snd (snd w)); l_fine := forallb snd bs && forallb snd fs |}.
Definition inputs_of (g : nat) : lst := map (of_Z N) (snd (nth (first_of c g) (data c) row0)).
Definition block (us : list (list I.type * lst)) (f : I.type -> I.type * I.type) (sc delta : I.type) (w : nat * list (list Z * list Z)) : list line :=
  let x := inputs_of (fst w) in let es := map (element_of f x) us in
  map (line_of (fst w) (count_of c (fst w)) x delta es (map (feature_of sc delta) es)) (combine (seq 0 (width_of_outputs c)) (snd w)).
Definition lines : list line := flat_map (block (map unit_of (cells c)) functions iscale idelta) (combine (seq 0 (length (firsts c))) (factors c)).
(* and one for every group *)
Record brief := { b_n : Z; b_x : lst; b_span : lst }.
Definition brief_of (w : nat * list Z) : brief := {| b_n := count_of c (fst w); b_x := inputs_of (fst w); b_span := map (of_Z N) (snd w) |}.
Definition briefs : list brief := map brief_of (combine (seq 0 (length (firsts c))) (spans c)).

(* one entry of each of the three matrices: G - s2 D, S2 D - G and the same for the inputs, against their factors; D divides by the counts *)
Definition p_l := (over_l c * over_l c)%positive.
Definition p_x := (over_x c * over_x c)%positive.
Definition p_g := (p_x * (over_t c * over_t c))%positive.
Definition p_r := (over_a c * over_t c * over_y c)%positive.
Definition lower (n : Z) : Z := (w_low c / n + 1)%Z.
Definition upper (k n : Z) : Z := (k / n)%Z.
Definition near (ll g2 x2 el : int N) (diagonal : bool) (a b : line) : bool :=
  let xx := dot N (of_Z N 0) (l_x a) (l_x b) in
  let cc := if trained_read_out c && Nat.eqb (l_o a) (l_o b) then mul N x2 (dot N (of_Z N 0) (l_c a) (l_c b)) else of_Z N 0 in
  let g := mul N (add N (mul N xx (dot N (of_Z N 0) (l_b a) (l_b b))) cc) ll in
  let on k := if diagonal then of_Z N (k (l_n a) * Zpos p_l) else of_Z N 0 in
  within N (sub N (sub N g (on lower)) (mul N (dot N (of_Z N 0) (l_low a) (l_low b)) g2)) el &&
  within N (sub N (sub N (on (upper (w_high c))) g) (mul N (dot N (of_Z N 0) (l_high a) (l_high b)) g2)) el.
Definition near_x (ll x2 ex : int N) (diagonal : bool) (a b : brief) : bool :=
  let on := if diagonal then of_Z N (upper (w_span c) (b_n a) * Zpos p_l) else of_Z N 0 in
  within N (sub N (sub N on (mul N (dot N (of_Z N 0) (b_x a) (b_x b)) ll)) (mul N (dot N (of_Z N 0) (b_span a) (b_span b)) x2)) ex.
Definition all_near (ls : list line) : bool :=
  let test := near (of_Z N (Zpos p_l)) (of_Z N (Zpos p_g)) (of_Z N (Zpos p_x)) (of_Z N (w_eps c * Zpos p_l)) in
  pairs (fun a => test true a a) (test false) [] ls.
Definition all_near_x (bs : list brief) : bool :=
  let test := near_x (of_Z N (Zpos p_l)) (of_Z N (Zpos p_x)) (of_Z N (w_eps_x c * Zpos p_l)) in
  pairs (fun a => test true a a) (test false) [] bs.
Definition own (b : brief) : Z := to_Z N (dot N (of_Z N 0) (b_x b) (b_x b)).
(* the residual times the count *)
Definition rest (av : list lst) (l : line) : Z :=
  (l_n l * to_Z N (dot N (of_Z N 0) (nth (l_o l) av []) (l_c l)) * Zpos (over_y c) - l_y l * Zpos (over_a c * over_t c))%Z.
Definition outgoing : list lst := map (fun o => map (fun cell => of_Z N (nth o (fst cell) 0%Z)) (cells c)) (seq 0 (width_of_outputs c)).
Definition squares (l : list Z) : Z := total (fun a => a * a)%Z l.
(* twice the least loss *)
Definition avoided (ls : list line) : Q := fold_right (fun l q => Qred ((l_y l * l_y l # Z.to_pos (l_n l)) + q)) 0%Q ls.
Fixpoint same (u v : list Z) : bool := match u, v with [], [] => true | a :: u', b :: v' => Z.eqb a b && same u' v' | _, _ => false end.

Definition le (a b : Q) : bool := Qle_bool a b.
Definition lt (a b : Q) : bool := negb (Qle_bool b a).
Lemma le_ok a b : le a b = true -> Q2R a <= Q2R b.
Proof. intros H. apply Qle_Rle, Qle_bool_iff, H. Qed.
Lemma lt_ok a b : lt a b = true -> Q2R a < Q2R b.
Proof.
  unfold lt. intros H. apply Qlt_Rlt. apply Qnot_le_lt. intros E. apply Qle_bool_iff in E. rewrite E in H. discriminate.
Qed.

Fixpoint end_q (e : Q) (steps : list (Q * Q)) : Q := match steps with [] => e | s :: more => end_q (fst s) more end.
Fixpoint stair_q (R e prev : Q) (steps : list (Q * Q)) : Q :=
  match steps with [] => 0 | s :: more => (snd s - prev) * (R - e) + stair_q R (fst s) (snd s) more end.
Fixpoint area_q (R e prev : Q) (steps : list (Q * Q)) : Q :=
  match steps with [] => 0 | s :: more => (snd s - prev) * ((1 # 2) * ((R - e) * (R - e))) + area_q R (fst s) (snd s) more end.
Fixpoint rising_q (e prev : Q) (steps : list (Q * Q)) : bool :=
  match steps with [] => true | s :: more => lt e (fst s) && le prev (snd s) && rising_q (fst s) (snd s) more end.

Definition q_n : Q := inject_Z (Z.of_nat (length (data c))).
Definition q_N : Q := inject_Z (Z.of_nat (length (firsts c) * width_of_outputs c)).
Definition q_G : Q := inject_Z (Z.of_nat (length (firsts c))).
Definition q_k : Q := inject_Z (Z.of_nat (width_of_outputs c)).
Definition q_most : Q := inject_Z (w_most c).
Definition q_m : Q := inject_Z (Z.of_nat (length (cells c))).
Definition q_delta : Q := w_delta c # over_t c.
Definition q_bound (k : Z) : Q := k # 100000000.
Definition q_reach (t : Q) : Q := if trained_read_out c then w_A c + t else w_A c.
Definition q_cross : Q := if trained_read_out c then scale_of c * q_bound (bound_1 (activation_of c)) * w_X2 c else 0.
Definition q_hidden (t : Q) : Q := scale_of c * q_reach t * q_bound (bound_2 (activation_of c)) * w_X1 c * w_X2 c.
Definition q_R : Q := end_q 0 (c_steps c).
Definition q_M : Q := stair_q q_R 0 0 (c_steps c).
Definition q_I : Q := area_q q_R 0 0 (c_steps c).
Definition q_es : Q := c_eta c * (c_s c * c_s c).

(* every comparison with its name *)
Definition checks_of (ls : list line) (bs : list brief) (av : list lst) : list bool :=
  [ (* 0: shapes *)
    (Nat.eqb (length (factors c)) (length (firsts c)) && Nat.eqb (length (spans c)) (length (firsts c))
      && forallb (fun r => Nat.leb (length (snd r)) (width_of_inputs c) && Nat.eqb (length (fst r)) (width_of_outputs c)) (data c)
      && forallb (fun r => Nat.eqb (length (fst r)) (width_of_outputs c)) (cells c)
      && forallb (fun f => Nat.eqb (length f) (width_of_outputs c) && forallb (fun w => Nat.leb (length (fst w)) (length (firsts c) * width_of_outputs c)
           && Nat.leb (length (snd w)) (length (firsts c) * width_of_outputs c)) f) (factors c)
      && forallb (fun w => Nat.leb (length w) (length (firsts c))) (spans c));
    (* 1: tables *) forallb l_fine ls;
    (* 2: factors *) all_near ls && all_near_x bs;
    (* 3: signs *) le 0 (scale_of c) && le 0 q_delta && le 0 (w_err c) && le 0 (w_erho c) && le 0 (w_rho0 c) && le 0 (w_A c)
      && le 0 (w_X1 c) && le 0 (w_X2 c) && le 0 (w_eps c # p_g) && le 0 (w_eps_x c # p_x);
    (* 4: sizes of the output weights *) forallb (fun cell => le (squares (fst cell) # (over_a c * over_a c)) (w_A c * w_A c)) (cells c);
    (* 5: sizes of the inputs *) forallb (fun b => le (own b # p_x) (w_X1 c * w_X1 c)) bs;
    (* 6: spectral norm of the inputs *) le ((w_span c # p_x) + q_G * q_most * (w_eps_x c # p_x)) (w_X2 c * w_X2 c);
    (* 7: rounding of the tables *) le (q_delta * q_delta * (q_m * q_k * ((total (fun b => b_n b * own b)%Z bs # p_x) + q_n))) (w_err c * w_err c);
    (* 8: rho *) le (total (fun l => rest av l * rest av l / l_n l + 1)%Z ls # (p_r * p_r)) (w_rho0 c * w_rho0 c)
      && le (q_delta * q_delta * (total (fun cell => squares (fst cell)) (cells c) # (over_a c * over_a c)) * (q_n * q_m)) (w_erho c * w_erho c)
      && le (w_rho0 c + w_erho c) (c_rho c);
    (* 9: s *) le 0 (c_s c) && le ((c_s c + w_err c) * (c_s c + w_err c)) ((w_low c # p_g) - q_N * q_most * (w_eps c # p_g));
    (* 10: S *) le (w_err c) (c_S c) && le ((w_high c # p_g) + q_N * q_most * (w_eps c # p_g)) ((c_S c - w_err c) * (c_S c - w_err c));
    (* 11: radii *) rising_q 0 0 (c_steps c);
    (* 12: lipschitz *) forallb (fun s => le (q_hidden (fst s)) (snd s) && le (q_cross * q_cross) (snd s * (snd s - q_hidden (fst s)))) (c_steps c);
    (* 13: b *) le (c_S c + q_M) (c_b c);
    (* 14: eta and kappa *) lt 0 (c_eta c) && lt 0 (c_kappa c) && le (c_kappa c) 1 && lt 0 (w_beta c)
      && le (c_eta c * (c_b c * c_b c)) (w_beta c) && le (w_beta c + q_es) (2 # 1)
      && le (c_kappa c * c_kappa c * (1 - w_beta c * q_es)) (w_beta c * ((2 # 1) - w_beta c - q_es));
    (* 15: distance *) le 0 (c_distance c) && lt (c_distance c) q_R;
    (* 16: the residual falls below zero before the radius *)
    lt (c_rho c + (c_b c + c_s c) * c_distance c - c_kappa c * c_s c * q_R + q_I) 0;
    (* 17: sigma *) lt 0 (c_sigma c) && le (c_sigma c) (c_s c - q_M);
    (* 18: rate *) lt 0 (c_rate c) && le (c_rate c) 1 && le (c_rate c) (c_eta c * c_sigma c * (c_kappa c * c_s c - q_M));
    (* 19: steps until epsilon *) Z.leb 0 (c_further c) && reaches prec (1 - c_rate c) (c_further c) (c_rho c + c_b c * c_distance c) (c_epsilon c);
    (* 20: groups *) Nat.eqb (length (groups c)) (length (data c)) && forallb (fun f => Nat.ltb f (length (data c))) (firsts c)
      && forallb (fun p => Nat.ltb (fst p) (length (firsts c)) && same (snd (snd p)) (snd (nth (first_of c (fst p)) (data c) row0))) (combine (groups c) (data c))
      && forallb (fun b => Z.ltb 0 (b_n b) && Z.leb (b_n b) (w_most c)) bs;
    (* 21: the least loss *) Qeq_bool ((2 # 1) * c_least c * inject_Z (Zpos (over_y c * over_y c))) (inject_Z (total (fun r => squares (fst r)) (data c)) - avoided ls) ].
Definition checks : list bool := checks_of lines briefs outgoing.
Definition check : bool := forallb (fun b => b) checks.

(* from here on: check is sound *)
Let n := length (data c). Let m := length (cells c). Let d := width_of_inputs c. Let k := width_of_outputs c. Let ng := length (firsts c).
Let theta0 := anchor c.
Let us := map unit_of (cells c).
Let no_line : line := {| l_n := 0; l_y := 0; l_o := 0; l_x := []; l_b := []; l_c := []; l_low := []; l_high := []; l_fine := false |}.
Let no_brief : brief := {| b_n := 0; b_x := []; b_span := [] |}.
Definition L (r : nat) : line := nth r lines {| l_n := 0; l_y := 0; l_o := 0; l_x := []; l_b := []; l_c := []; l_low := []; l_high := []; l_fine := false |}.
Definition Br (g : nat) : brief := nth g briefs {| b_n := 0; b_x := []; b_span := [] |}.
Let dt := over_t c.
Definition table (f : line -> lst) (k : positive) : mat := fun r j => entry N (f (L r)) j / IZR (Zpos k).
Definition table_x : mat := fun g j => entry N (b_span (Br g)) j / IZR (Zpos (over_l c)).

Lemma Q_inject z : Q2R (inject_Z z) = IZR z.
Proof. unfold Q2R, inject_Z. simpl. field. Qed.
Lemma Q_n : Q2R q_n = INR n. Proof. unfold q_n. rewrite Q_inject, INR_IZR_INZ. reflexivity. Qed.
Lemma Q_m : Q2R q_m = INR m. Proof. unfold q_m. rewrite Q_inject, INR_IZR_INZ. reflexivity. Qed.
Lemma Q_N : Q2R q_N = INR (ng * k). Proof. unfold q_N. rewrite Q_inject, INR_IZR_INZ. reflexivity. Qed.
Lemma Q_G : Q2R q_G = INR ng. Proof. unfold q_G. rewrite Q_inject, INR_IZR_INZ. reflexivity. Qed.
Lemma Q_k : Q2R q_k = INR k. Proof. unfold q_k. rewrite Q_inject, INR_IZR_INZ. reflexivity. Qed.
Lemma Q_most : Q2R q_most = IZR (w_most c). Proof. apply Q_inject. Qed.
Lemma Q_0 : Q2R 0 = 0. Proof. unfold Q2R; simpl; lra. Qed.
Lemma Q_1 : Q2R 1 = 1. Proof. unfold Q2R; simpl; lra. Qed.
Lemma Q_2 : Q2R (2 # 1) = 2. Proof. unfold Q2R; simpl; lra. Qed.
Lemma Q_half : Q2R (1 # 2) = / 2. Proof. unfold Q2R; simpl; lra. Qed.
Lemma rising_ok steps : forall e prev, rising_q e prev steps = true -> rising (Q2R e) (Q2R prev) (map (fun s => (Q2R (fst s), Q2R (snd s))) steps).
Proof.
  induction steps as [|s more IH]; intros e prev; simpl; auto. rewrite !andb_true_iff. intros [[H1 H2] H3].
  apply lt_ok in H1. apply le_ok in H2. auto.
Qed.
Lemma last_ok steps : forall e, last_end (Q2R e) (map (fun s => (Q2R (fst s), Q2R (snd s))) steps) = Q2R (end_q e steps).
Proof. induction steps as [|s more IH]; intros e; simpl; auto. Qed.
Lemma last_ge steps : forall e prev, rising e prev steps -> e <= last_end e steps.
Proof. induction steps as [|[e' l] more IH]; intros e prev; simpl; [lra|]. intros [H1 [H2 H3]]. specialize (IH _ _ H3). lra. Qed.
Lemma stair_ok R steps : forall e prev, rising (Q2R e) (Q2R prev) (map (fun s => (Q2R (fst s), Q2R (snd s))) steps) ->
  Q2R (end_q e steps) <= Q2R R -> stair (Q2R e) (Q2R prev) (map (fun s => (Q2R (fst s), Q2R (snd s))) steps) (Q2R R) = Q2R (stair_q R e prev steps) /\
  area (Q2R e) (Q2R prev) (map (fun s => (Q2R (fst s), Q2R (snd s))) steps) (Q2R R) = Q2R (area_q R e prev steps).
Proof.
  induction steps as [|s more IH]; intros e prev; simpl; [rewrite Q_0; auto|]. intros [H1 [H2 H3]] H.
  destruct (IH _ _ H3 H) as [E1 E2]. pose proof (last_ge _ _ _ H3) as G. rewrite last_ok in G.
  rewrite E1, E2, pos_ge by lra. split; repeat first [rewrite Q2R_plus | rewrite Q2R_minus | rewrite Q2R_mult | rewrite Q_half]; ring.
Qed.

Lemma radius_ok e steps : fold_left (fun _ s => fst s) steps e = end_q e steps.
Proof. revert e. induction steps as [|s more IH]; intros e; simpl; auto. Qed.

Lemma ciscale : cont iscale (Q2R (scale_of c)).
Proof. apply (cdiv prec); try apply cZ. apply IZR_neq. lia. Qed.

Hypothesis Shape : length (factors c) = ng.
Hypothesis Shape_x : length (spans c) = ng.
Hypothesis Shape_k : forall g, (g < ng)%nat -> length (nth g (factors c) []) = k.
Hypothesis Wide : forall i, (i < n)%nat -> (length (snd (nth i (data c) row0)) <= d)%nat.
Hypothesis First : forall g, (g < ng)%nat -> (first_of c g < n)%nat.
Hypothesis Heads : forall j, (j < m)%nat -> length (fst (nth j (cells c) row0)) = k.

Lemma nth_flat {A B} (f : A -> list B) q a0 b0 l : (forall i, (i < length l)%nat -> length (f (nth i l a0)) = q) ->
  length (flat_map f l) = (length l * q)%nat /\ forall i j, (i < length l)%nat -> (j < q)%nat -> nth (i * q + j) (flat_map f l) b0 = nth j (f (nth i l a0)) b0.
Proof.
  induction l as [|a l IH]; simpl; intros H; [split; [auto|intros; lia]|].
  pose proof (H O ltac:(lia)) as H0. simpl in H0. destruct IH as [I1 I2]; [intros i Hi; apply (H (S i)); lia|].
  split; [rewrite app_length, H0, I1; reflexivity|]. intros [|i] j Hi Hj; simpl.
  - apply app_nth1. lia.
  - rewrite app_nth2 by lia. rewrite H0. replace (q + i * q + j - q)%nat with (i * q + j)%nat by lia. apply I2; lia.
Qed.
Let es (g : nat) := map (element_of functions (inputs_of g)) us.
Let witness (g o : nat) := nth o (nth g (factors c) []) ([], []).
Lemma length_rows : length (combine (seq 0 ng) (factors c)) = ng.
Proof. rewrite combine_length, seq_length, Shape. apply Nat.min_id. Qed.
Lemma length_block g : (g < length (combine (seq 0 ng) (factors c)))%nat -> length (block us functions iscale idelta (nth g (combine (seq 0 ng) (factors c)) (O, []))) = k.
Proof.
  rewrite length_rows. intros Hg. rewrite combine_nth by (rewrite seq_length; auto).
  unfold block. rewrite map_length, combine_length, seq_length. simpl snd. fold k. rewrite Shape_k by auto. apply Nat.min_id.
Qed.
Lemma length_lines : length lines = (ng * k)%nat.
Proof. destruct (nth_flat _ k (O, []) no_line _ length_block) as [E _]. rewrite length_rows in E. exact E. Qed.
Lemma L_is g o : (g < ng)%nat -> (o < k)%nat ->
  L (g * k + o) = line_of g (count_of c g) (inputs_of g) idelta (es g) (map (feature_of iscale idelta) (es g)) (o, witness g o).
Proof.
  intros Hg Ho. destruct (nth_flat _ k (O, []) no_line _ length_block) as [_ H].
  transitivity (nth o (block us functions iscale idelta (nth g (combine (seq 0 ng) (factors c)) (O, []))) no_line).
  - apply (H g o); auto. rewrite length_rows. exact Hg.
  - rewrite combine_nth by (rewrite seq_length; auto). rewrite seq_nth by auto. unfold block. cbn [fst snd]. fold k.
    rewrite (nth_map _ _ _ (O, ([], []))) by (rewrite combine_length, seq_length; rewrite Shape_k by auto; rewrite Nat.min_id; auto).
    rewrite combine_nth by (rewrite seq_length; rewrite Shape_k by auto; auto). rewrite seq_nth by auto. reflexivity.
Qed.
Lemma length_briefs : length briefs = ng.
Proof. unfold briefs. rewrite map_length, combine_length, seq_length, Shape_x. apply Nat.min_id. Qed.
Lemma Br_is g : (g < ng)%nat -> Br g = brief_of (g, nth g (spans c) []).
Proof.
  intros Hg. unfold Br, briefs. rewrite (nth_map _ _ _ (O, [])) by (rewrite combine_length, seq_length, Shape_x, Nat.min_id; auto).
  rewrite combine_nth by (rewrite seq_length; auto). rewrite seq_nth by auto. reflexivity.
Qed.
Lemma inputs_entry g l : entry N (inputs_of g) l = IZR (nth l (snd (nth (first_of c g) (data c) row0)) 0%Z).
Proof. apply entry_map. Qed.
Lemma inputs_length g : (g < ng)%nat -> (length (inputs_of g) <= d)%nat.
Proof. intros Hg. unfold inputs_of. rewrite map_length. apply Wide, First, Hg. Qed.
Lemma inputs_is g l : input P (first_of c g) l = entry N (inputs_of g) l / IZR (Zpos (over_x c)).
Proof. rewrite inputs_entry. reflexivity. Qed.
Lemma hidden_is g j : (g < ng)%nat -> (j < m)%nat -> hidden P theta0 (first_of c g) j =
  over (to_Z N (dot N (of_Z N 0) (inputs_of g) (map (of_Z N) (snd (nth j (cells c) row0))))) (over_x c * over_w c).
Proof.
  intros Hg Hj. unfold over. change (IZR (to_Z N ?a)) with (real N a). rewrite (dot_ok N _ _ _ d) by (apply inputs_length; auto).
  rewrite real_zero, Rplus_0_l, Pos2Z.inj_mul, mult_IZR. unfold hidden. change (inputs P) with d.
  pose proof (over_pos (over_x c)). pose proof (over_pos (over_w c)).
  replace (sum d (fun l => entry N (inputs_of g) l * entry N (map (of_Z N) (snd (nth j (cells c) row0))) l) / (IZR (Zpos (over_x c)) * IZR (Zpos (over_w c))))
    with (/ (IZR (Zpos (over_x c)) * IZR (Zpos (over_w c))) * sum d (fun l => entry N (inputs_of g) l * entry N (map (of_Z N) (snd (nth j (cells c) row0))) l)) by (field; lra).
  rewrite <- sum_scal. apply sum_ext. intros l Hl. rewrite inputs_is, entry_map.
  unfold theta0, anchor, weights_of. fold d. rewrite pack_hidden by auto. unfold over. field. lra.
Qed.
Lemma read_out_is j o : (j < m)%nat -> (o < k)%nat -> read_out P theta0 o j = over (head (cells c) j o) (over_a c).
Proof.
  intros Hj Ho. unfold read_out. simpl. fold k. destruct (trained_read_out c).
  - unfold theta0, anchor, weights_of. fold d k. apply pack_out. auto.
  - destruct (idx k j o Ho) as [-> ->]. reflexivity.
Qed.

Hypothesis Fine : forallb l_fine lines = true.
Lemma rounded_ok xi x delta y : cont xi x -> cont delta y -> snd (rounded delta xi) = true -> Rabs (x - real N (fst (rounded delta xi)) / IZR (Zpos dt)) <= y.
Proof.
  intros Hx Hy H. unfold rounded in *. cbn [fst snd] in *. rewrite real_of. exact (close_ok prec _ _ _ _ _ _ Hx Hy H).
Qed.
Lemma tables_ok r j : (r < ng * k)%nat -> (j < m)%nat ->
  Rabs (slopes P (slope (activation_of c)) (first_of c) theta0 r j - table l_b dt r j) <= Q2R q_delta /\
  Rabs (features P (first_of c) theta0 r j - table l_c dt r j) <= Q2R q_delta.
Proof.
  intros Hr Hj. destruct (idx_lt ng k r Hr) as [K0 [Hg Ho]].
  assert (Er : r = (r / k * k + r mod k)%nat) by (rewrite Nat.mul_comm; apply Nat.div_mod; lia).
  unfold slopes, features. change (outputs P) with k. set (g := (r / k)%nat) in *. set (o := (r mod k)%nat) in *.
  assert (F0 : l_fine (L r) = true) by (apply forallb_nth; auto; rewrite length_lines; auto).
  unfold table. rewrite Er, L_is in * by auto. clearbody g o. clear r Hr Er. simpl l_fine in F0. simpl l_b. simpl l_c. apply andb_true_iff in F0. destruct F0 as [F1 F2].
  set (e0 := element_of functions (inputs_of g) (unit_of row0)).
  assert (Le : length (es g) = m) by (unfold es, us; rewrite !map_length; reflexivity).
  assert (Ej : nth j (es g) e0 = element_of functions (inputs_of g) (unit_of (nth j (cells c) row0))).
  { unfold es, us, e0. rewrite (nth_map _ _ _ (unit_of row0)) by (rewrite map_length; auto). f_equal. apply nth_map; auto. }
  assert (Z : cont (ratio prec (to_Z N (dot N (of_Z N 0) (inputs_of g) (snd (unit_of (nth j (cells c) row0))))) (over_x c * over_w c)) (hidden P theta0 (first_of c g) j))
    by (rewrite hidden_is by auto; apply cratio).
  destruct (cboth prec (activation_of c) _ _ Z) as [V S].
  assert (D : cont idelta (Q2R q_delta)) by (apply cratio).
  split; unfold entry.
  - rewrite (nth_map _ _ _ (slope_of idelta o e0)) by (rewrite map_length, Le; auto). rewrite (nth_map _ _ _ e0), Ej by (rewrite Le; auto).
    pose proof (forallb_nth snd _ j (slope_of idelta o e0) F1 ltac:(rewrite map_length, Le; auto)) as Q. rewrite (nth_map _ _ _ e0), Ej in Q by (rewrite Le; auto).
    unfold slope_of in *. apply rounded_ok; auto. rewrite read_out_is by auto. change (scale P) with (Q2R (scale_of c)). rewrite <- Rmult_assoc. apply cmul; [|exact S].
    unfold element_of, unit_of. simpl fst. rewrite (nth_map _ _ _ 0%Z) by (rewrite Heads; auto). apply cmul; [apply cratio|apply ciscale].
  - rewrite (nth_map _ _ _ (feature_of iscale idelta e0)) by (rewrite map_length, Le; auto). rewrite (nth_map _ _ _ e0), Ej by (rewrite Le; auto).
    pose proof (forallb_nth snd _ j (feature_of iscale idelta e0) F2 ltac:(rewrite map_length, Le; auto)) as Q. rewrite (nth_map _ _ _ e0), Ej in Q by (rewrite Le; auto).
    unfold feature_of in *. apply rounded_ok; auto. change (scale P) with (Q2R (scale_of c)). apply cmul; [apply ciscale|exact V].
Qed.

Lemma ip_dot (u v : lst) q r : (length u <= r)%nat ->
  ip r (fun l => entry N u l / IZR (Zpos q)) (fun l => entry N v l / IZR (Zpos q)) = real N (dot N (of_Z N 0) u v) / (IZR (Zpos q) * IZR (Zpos q)).
Proof.
  intros Hl. rewrite (dot_ok N _ _ _ r Hl), real_zero, Rplus_0_l. pose proof (over_pos q).
  unfold Rdiv. rewrite Rmult_comm, <- sum_scal. apply sum_ext. intros l Hl'. field. lra.
Qed.
Lemma ip_x g h : (g < ng)%nat ->
  ip d (input P (first_of c g)) (input P (first_of c h)) = real N (dot N (of_Z N 0) (inputs_of g) (inputs_of h)) / IZR (Zpos p_x).
Proof.
  intros Hg. unfold p_x. rewrite Pos2Z.inj_mul, mult_IZR, <- (ip_dot _ _ _ d) by (apply inputs_length; auto).
  apply sum_ext. intros l Hl. rewrite !inputs_is. reflexivity.
Qed.

Hypothesis Near : all_near lines = true.
Hypothesis Near_x : all_near_x briefs = true.
Hypothesis Short : forall g o, (g < ng)%nat -> (o < k)%nat -> (length (fst (witness g o)) <= ng * k /\ length (snd (witness g o)) <= ng * k)%nat.
Hypothesis Short_x : forall g, (g < ng)%nat -> (length (nth g (spans c) []) <= ng)%nat.

Let G := gram_of P (first_of c) (table l_b dt) (free P (table l_c dt)).
Lemma scaled a b s : 0 < s -> Rabs (a * s) <= b * s -> Rabs a <= b.
Proof. intros Hs H. rewrite Rabs_mult, (Rabs_right s) in H by lra. apply Rmult_le_reg_r with s; auto. Qed.
Lemma free_c r s : ip m (free P (table l_c dt) r) (free P (table l_c dt) s) = if trained_read_out c then ip m (table l_c dt r) (table l_c dt s) else 0.
Proof.
  unfold free. simpl. destruct (trained_read_out c); auto. unfold ip. rewrite (sum_ext m _ (fun _ => 0)), sum_0; auto. intros; ring.
Qed.
Let low_at (r : nat) : R := over (lower (count_of c (r / k))) p_g.
Let high_at (r : nat) : R := over (upper (w_high c) (count_of c (r / k))) p_g.
Let span_at (g : nat) : R := over (upper (w_span c) (count_of c g)) p_x.
Lemma near_real r s diagonal : (r < ng * k)%nat -> (s < ng * k)%nat -> diagonal = Nat.eqb r s ->
  near (of_Z N (Zpos p_l)) (of_Z N (Zpos p_g)) (of_Z N (Zpos p_x)) (of_Z N (w_eps c * Zpos p_l)) diagonal (L r) (L s) = true ->
  Rabs (G r s - (if Nat.eqb r s then low_at r else 0) - ip (ng * k) (table l_low (over_l c) r) (table l_low (over_l c) s)) <= over (w_eps c) p_g /\
  Rabs (- G r s - (if Nat.eqb r s then - high_at r else 0) - ip (ng * k) (table l_high (over_l c) r) (table l_high (over_l c) s)) <= over (w_eps c) p_g.
Proof.
  intros Hr Hs Ed H. destruct (idx_lt ng k r Hr) as [K0 [Hg Ho]]. destruct (idx_lt ng k s Hs) as [_ [Hg' Ho']].
  assert (Er : L r = line_of (r / k) (count_of c (r / k)) (inputs_of (r / k)) idelta (es (r / k)) (map (feature_of iscale idelta) (es (r / k))) (r mod k, witness (r / k) (r mod k))).
  { rewrite <- L_is by auto. f_equal. rewrite Nat.mul_comm. apply Nat.div_mod. lia. }
  assert (Es : L s = line_of (s / k) (count_of c (s / k)) (inputs_of (s / k)) idelta (es (s / k)) (map (feature_of iscale idelta) (es (s / k))) (s mod k, witness (s / k) (s mod k))).
  { rewrite <- L_is by auto. f_equal. rewrite Nat.mul_comm. apply Nat.div_mod. lia. }
  assert (X1 : l_x (L r) = inputs_of (r / k)) by (rewrite Er; reflexivity). assert (X2 : l_x (L s) = inputs_of (s / k)) by (rewrite Es; reflexivity).
  assert (O1 : l_o (L r) = (r mod k)%nat) by (rewrite Er; reflexivity). assert (O2 : l_o (L s) = (s mod k)%nat) by (rewrite Es; reflexivity).
  assert (C1 : l_n (L r) = count_of c (r / k)) by (rewrite Er; reflexivity).
  assert (B1 : (length (l_b (L r)) <= m)%nat) by (rewrite Er; simpl; unfold es, us; rewrite !map_length; auto).
  assert (F1 : (length (l_c (L r)) <= m)%nat) by (rewrite Er; simpl; unfold es, us; rewrite !map_length; auto).
  destruct (Short _ _ Hg Ho) as [S1 S2].
  assert (W1 : (length (l_low (L r)) <= ng * k)%nat) by (rewrite Er; simpl; rewrite map_length; auto).
  assert (W2 : (length (l_high (L r)) <= ng * k)%nat) by (rewrite Er; simpl; rewrite map_length; auto).
  clear Er Es. unfold near in H. rewrite !andb_true_iff in H. destruct H as [H1 H2].
  apply within_ok in H1. apply within_ok in H2. rewrite X1, X2, O1, O2, C1 in *.
  unfold G, gram_of. change (inputs P) with d. change (units P) with m. change (outputs P) with k.
  rewrite ip_x by auto. rewrite free_c.
  unfold table. rewrite !ip_dot by auto. rewrite <- Ed.
  set (xx := dot N (of_Z N 0) (inputs_of (r / k)) (inputs_of (s / k))) in *. set (bb := dot N (of_Z N 0) (l_b (L r)) (l_b (L s))) in *.
  set (cc := dot N (of_Z N 0) (l_c (L r)) (l_c (L s))) in *. set (lw := dot N (of_Z N 0) (l_low (L r)) (l_low (L s))) in *.
  set (hg := dot N (of_Z N 0) (l_high (L r)) (l_high (L s))) in *.
  assert (Pl : IZR (Zpos p_l) = IZR (Zpos (over_l c)) * IZR (Zpos (over_l c))) by (unfold p_l; rewrite Pos2Z.inj_mul, mult_IZR; auto).
  assert (Pg : IZR (Zpos p_g) = IZR (Zpos p_x) * (IZR (Zpos dt) * IZR (Zpos dt))) by (unfold p_g, dt; rewrite !Pos2Z.inj_mul, !mult_IZR; auto).
  pose proof (over_pos (over_l c)) as Ql. pose proof (over_pos p_x) as Qx. pose proof (over_pos dt) as Qt.
  unfold low_at, high_at, over in *. split; apply (scaled _ _ (IZR (Zpos p_g) * IZR (Zpos p_l))); try (apply Rmult_lt_0_compat; apply over_pos);
    replace (IZR (w_eps c) / IZR (Zpos p_g) * (IZR (Zpos p_g) * IZR (Zpos p_l))) with (IZR (w_eps c) * IZR (Zpos p_l)) by (field; apply Rgt_not_eq, over_pos).
  - rewrite real_of, mult_IZR in H1. eapply Rle_trans; [right|exact H1]. rewrite !real_sub, !real_mul, real_add, real_mul, real_of.
    destruct diagonal; destruct (trained_read_out c); destruct (Nat.eqb (r mod k) (s mod k)); cbn [andb]; rewrite ?real_mul, ?real_zero, ?real_of, ?mult_IZR, Pg, Pl; apply f_equal; field; repeat split; lra.
  - rewrite real_of, mult_IZR in H2. eapply Rle_trans; [right|exact H2]. rewrite !real_sub, !real_mul, real_add, real_mul, real_of.
    destruct diagonal; destruct (trained_read_out c); destruct (Nat.eqb (r mod k) (s mod k)); cbn [andb]; rewrite ?real_mul, ?real_zero, ?real_of, ?mult_IZR, Pg, Pl; apply f_equal; field; repeat split; lra.
Qed.
Lemma ip_swap r u v : ip r u v = ip r v u. Proof. apply ip_sym. Qed.
Lemma G_sym r s : G r s = G s r.
Proof.
  unfold G, gram_of. rewrite (ip_swap _ (input P _)), (ip_swap _ (table l_b dt r)), (ip_swap _ (free P _ r)), (Nat.eqb_sym (r mod _)). reflexivity.
Qed.
Lemma near_all r s : (r < ng * k)%nat -> (s < ng * k)%nat ->
  Rabs (G r s - (if Nat.eqb r s then low_at r else 0) - ip (ng * k) (table l_low (over_l c) r) (table l_low (over_l c) s)) <= over (w_eps c) p_g /\
  Rabs (- G r s - (if Nat.eqb r s then - high_at r else 0) - ip (ng * k) (table l_high (over_l c) r) (table l_high (over_l c) s)) <= over (w_eps c) p_g.
Proof.
  intros Hr Hs. pose proof (pairs_ok _ _ lines no_line [] Near) as [D [O _]]. rewrite length_lines in D, O.
  destruct (Nat.lt_trichotomy r s) as [Q|[Q|Q]].
  - destruct (near_real s r false Hs Hr) as [A B].
    + symmetry. apply Nat.eqb_neq. lia.
    + apply O. lia.
    + rewrite (proj2 (Nat.eqb_neq s r)) in A, B by lia. rewrite (proj2 (Nat.eqb_neq r s)) by lia.
      rewrite (G_sym s r), (ip_swap _ (table l_low _ s)) in A. rewrite (G_sym s r), (ip_swap _ (table l_high _ s)) in B. auto.
  - subst. apply (near_real s s true); auto. symmetry; apply Nat.eqb_refl. apply D; auto.
  - apply (near_real r s false); auto. symmetry. apply Nat.eqb_neq. lia. apply O. lia.
Qed.
Lemma near_x_real g h diagonal : (g < ng)%nat -> (h < ng)%nat -> diagonal = Nat.eqb g h ->
  near_x (of_Z N (Zpos p_l)) (of_Z N (Zpos p_x)) (of_Z N (w_eps_x c * Zpos p_l)) diagonal (Br g) (Br h) = true ->
  Rabs (- ip d (input P (first_of c g)) (input P (first_of c h)) - (if Nat.eqb g h then - span_at g else 0) - ip ng (table_x g) (table_x h)) <= over (w_eps_x c) p_x.
Proof.
  intros Hg Hh Ed H. unfold near_x in H. apply within_ok in H.
  assert (W : (length (b_span (Br g)) <= ng)%nat) by (rewrite Br_is by auto; simpl; rewrite map_length; auto).
  rewrite ip_x by auto. unfold table_x. rewrite ip_dot by auto.
  assert (X1 : b_x (Br g) = inputs_of g) by (rewrite Br_is by auto; reflexivity). assert (X2 : b_x (Br h) = inputs_of h) by (rewrite Br_is by auto; reflexivity).
  assert (C1 : b_n (Br g) = count_of c g) by (rewrite Br_is by auto; reflexivity). rewrite X1, X2, C1 in H. rewrite <- Ed.
  set (xx := dot N (of_Z N 0) (inputs_of g) (inputs_of h)) in *. set (sp := dot N (of_Z N 0) (b_span (Br g)) (b_span (Br h))) in *.
  assert (Pl : IZR (Zpos p_l) = IZR (Zpos (over_l c)) * IZR (Zpos (over_l c))) by (unfold p_l; rewrite Pos2Z.inj_mul, mult_IZR; auto).
  pose proof (over_pos (over_l c)) as Ql. pose proof (over_pos p_x) as Qx. unfold span_at, over in *.
  apply (scaled _ _ (IZR (Zpos p_x) * IZR (Zpos p_l))); [apply Rmult_lt_0_compat; apply over_pos|]. rewrite real_of, mult_IZR in H.
  replace (IZR (w_eps_x c) / IZR (Zpos p_x) * (IZR (Zpos p_x) * IZR (Zpos p_l))) with (IZR (w_eps_x c) * IZR (Zpos p_l)) by (field; apply Rgt_not_eq, over_pos).
  eapply Rle_trans; [right|exact H]. rewrite !real_sub, !real_mul, real_of.
  destruct diagonal; rewrite ?real_zero, ?real_of, ?mult_IZR, Pl; apply f_equal; field; repeat split; lra.
Qed.
Lemma near_x_all g h : (g < ng)%nat -> (h < ng)%nat ->
  Rabs (- ip d (input P (first_of c g)) (input P (first_of c h)) - (if Nat.eqb g h then - span_at g else 0) - ip ng (table_x g) (table_x h)) <= over (w_eps_x c) p_x.
Proof.
  intros Hg Hh. pose proof (pairs_ok _ _ briefs no_brief [] Near_x) as [D [O _]]. rewrite length_briefs in D, O.
  destruct (Nat.lt_trichotomy g h) as [Q|[Q|Q]].
  - pose proof (near_x_real h g false Hh Hg) as A. rewrite (proj2 (Nat.eqb_neq h g)) in A by lia. rewrite (proj2 (Nat.eqb_neq g h)) by lia.
    rewrite (ip_swap _ (input P _)), (ip_swap _ (table_x g)). apply A; auto. apply O. lia.
  - subst. apply (near_x_real h h true); auto. symmetry; apply Nat.eqb_refl. apply D; auto.
  - apply (near_x_real g h false); auto. symmetry. apply Nat.eqb_neq. lia. apply O. lia.
Qed.

(* the forms of the weighed matrices: what is divided by the counts on the diagonal is divided by nothing there *)
Hypothesis Counts : forall g, (g < ng)%nat -> (0 < count_of c g <= w_most c)%Z.
Hypothesis Eps : 0 <= over (w_eps c) p_g.
Hypothesis Eps_x : 0 <= over (w_eps_x c) p_x.
Lemma counts_pos_of g : (g < ng)%nat -> 0 < counts_of c g <= IZR (w_most c).
Proof. intros H. destruct (Counts g H). unfold counts_of. split; [apply IZR_lt; auto|apply IZR_le; auto]. Qed.
Lemma over_le a b q : (a <= b)%Z -> over a q <= over b q.
Proof. intros H. unfold over, Rdiv. apply Rmult_le_compat_r; [apply Rlt_le, Rinv_0_lt_compat, over_pos|apply IZR_le; auto]. Qed.
Lemma over_mul a b q : over a q * IZR b = over (a * b) q.
Proof. unfold over. rewrite mult_IZR. unfold Rdiv. ring. Qed.
Lemma by_counts q (gr : nat -> nat) (t u v : vec) a : (forall r, (r < q)%nat -> (gr r < ng)%nat) -> (forall r, u r = root (counts_of c) (gr r) * v r) ->
  ip q u u <= IZR (w_most c) * ip q v v /\
  ((forall r, (r < q)%nat -> a <= t r * counts_of c (gr r)) -> a * ip q v v <= sum q (fun r => t r * (u r * u r))) /\
  ((forall r, (r < q)%nat -> t r * counts_of c (gr r) <= a) -> sum q (fun r => t r * (u r * u r)) <= a * ip q v v).
Proof.
  intros H E. assert (U : forall r, (r < q)%nat -> u r * u r = counts_of c (gr r) * (v r * v r)).
  { intros r Hr. rewrite E. pose proof (counts_pos_of _ (H r Hr)) as C. rewrite <- (sqrt_sqrt (counts_of c (gr r))) by lra. unfold root. ring. }
  assert (V : forall r, 0 <= v r * v r) by (intros; apply Rle_0_sqr).
  split; [|split; intros B]; unfold ip; rewrite <- sum_scal; apply sum_le; intros r Hr; rewrite U by auto; pose proof (counts_pos_of _ (H r Hr)) as C.
  - apply Rmult_le_compat_r; auto. lra.
  - apply Rle_trans with (t r * counts_of c (gr r) * (v r * v r)); [apply Rmult_le_compat_r; auto|right; ring].
  - apply Rle_trans with (t r * counts_of c (gr r) * (v r * v r)); [right; ring|apply Rmult_le_compat_r; auto].
Qed.
Let Jr := shaped P (first_of c) (table l_b dt) (free P (table l_c dt)).
Let J := weighed P (counts_of c) Jr.
Lemma form_J u v : (forall r, u r = root (counts_of c) (r / k) * v r) ->
  ip (size P) (mtv (ng * k) J v) (mtv (ng * k) J v) = sum (ng * k) (fun r => u r * sum (ng * k) (fun s => G r s * u s)).
Proof.
  intros E. rewrite gram. apply sum_ext. intros r Hr. rewrite E, (Rmult_comm (root _ _)), Rmult_assoc. f_equal. rewrite <- sum_scal. apply sum_ext. intros s Hs.
  rewrite E. unfold J, weighed. change (outputs P) with k.
  rewrite (sum_ext (size P) _ (fun q => root (counts_of c) (r / k) * root (counts_of c) (s / k) * (Jr r q * Jr s q))) by (intros; ring).
  rewrite sum_scal. unfold Jr. rewrite (shaped_gram P ng (first_of c)) by auto. unfold G. ring.
Qed.
Lemma lower_form v : (over (w_low c) p_g - INR (ng * k) * IZR (w_most c) * over (w_eps c) p_g) * ip (ng * k) v v <= ip (size P) (mtv (ng * k) J v) (mtv (ng * k) J v).
Proof.
  set (u := fun r => root (counts_of c) (r / k) * v r). rewrite (form_J u v) by reflexivity.
  pose proof (form_lower (ng * k) G low_at _ (table l_low (over_l c)) Eps (fun r s Hr Hs => proj1 (near_all r s Hr Hs)) u) as Q.
  destruct (by_counts (ng * k) (fun r => r / k)%nat low_at u v (over (w_low c) p_g) (fun r Hr => proj1 (proj2 (idx_lt ng k r Hr))) (fun r => eq_refl)) as [A [B _]].
  assert (B' : forall r, (r < ng * k)%nat -> over (w_low c) p_g <= low_at r * counts_of c (r / k)).
  { intros r Hr. destruct (Counts _ (proj1 (proj2 (idx_lt ng k r Hr)))) as [C _]. unfold low_at, counts_of. rewrite over_mul. apply over_le. unfold lower.
    pose proof (Z.mul_succ_div_gt (w_low c) _ C). nia. }
  specialize (B B'). pose proof (pos_INR (ng * k)).
  assert (INR (ng * k) * over (w_eps c) p_g * ip (ng * k) u u <= INR (ng * k) * over (w_eps c) p_g * (IZR (w_most c) * ip (ng * k) v v)) by (apply Rmult_le_compat_l; auto; apply Rmult_le_pos; auto).
  lra.
Qed.
Lemma upper_form v : ip (size P) (mtv (ng * k) J v) (mtv (ng * k) J v) <= (over (w_high c) p_g + INR (ng * k) * IZR (w_most c) * over (w_eps c) p_g) * ip (ng * k) v v.
Proof.
  set (u := fun r => root (counts_of c) (r / k) * v r). rewrite (form_J u v) by reflexivity.
  pose proof (form_upper (ng * k) G high_at _ (table l_high (over_l c)) Eps (fun r s Hr Hs => proj2 (near_all r s Hr Hs)) u) as Q.
  destruct (by_counts (ng * k) (fun r => r / k)%nat high_at u v (over (w_high c) p_g) (fun r Hr => proj1 (proj2 (idx_lt ng k r Hr))) (fun r => eq_refl)) as [A [_ B]].
  assert (B' : forall r, (r < ng * k)%nat -> high_at r * counts_of c (r / k) <= over (w_high c) p_g).
  { intros r Hr. destruct (Counts _ (proj1 (proj2 (idx_lt ng k r Hr)))) as [C _]. unfold high_at, counts_of. rewrite over_mul. apply over_le. unfold upper.
    rewrite Z.mul_comm. apply Z.mul_div_le. exact C. }
  specialize (B B'). pose proof (pos_INR (ng * k)).
  assert (INR (ng * k) * over (w_eps c) p_g * ip (ng * k) u u <= INR (ng * k) * over (w_eps c) p_g * (IZR (w_most c) * ip (ng * k) v v)) by (apply Rmult_le_compat_l; auto; apply Rmult_le_pos; auto).
  lra.
Qed.
Lemma span_form (X2 : R) u : 0 <= X2 -> over (w_span c) p_x + INR ng * IZR (w_most c) * over (w_eps_x c) p_x <= X2 * X2 ->
  norm ng (fun g => root (counts_of c) g * sum d (fun l => input P (first_of c g) l * u l)) <= X2 * norm d u.
Proof.
  intros H0 H. set (A := fun g l => root (counts_of c) g * input P (first_of c g) l).
  rewrite (norm_ext ng _ (mv d A u)) by (intros g Hg; unfold mv, A; rewrite <- sum_scal; apply sum_ext; intros; ring).
  apply op_le; auto. intros v. apply norm_le; [apply Rmult_le_pos; auto using norm_pos|]. rewrite gram.
  set (w := fun g => root (counts_of c) g * v g).
  rewrite (sum_ext ng _ (fun g => w g * sum ng (fun h => ip d (input P (first_of c g)) (input P (first_of c h)) * w h))).
  2: { intros g Hg. unfold w at 1. rewrite (Rmult_comm (root _ _)), Rmult_assoc. f_equal. rewrite <- sum_scal. apply sum_ext. intros h Hh. unfold w, A, ip.
       rewrite (sum_ext d _ (fun l => root (counts_of c) g * root (counts_of c) h * (input P (first_of c g) l * input P (first_of c h) l))), sum_scal by (intros; ring). ring. }
  pose proof (form_upper ng (fun g h => ip d (input P (first_of c g)) (input P (first_of c h))) span_at _ table_x Eps_x near_x_all w) as Q.
  destruct (by_counts ng (fun g => g) span_at w v (over (w_span c) p_x) ltac:(auto) (fun g => eq_refl)) as [B1 [_ B]].
  assert (B' : forall g, (g < ng)%nat -> span_at g * counts_of c g <= over (w_span c) p_x).
  { intros g Hg. destruct (Counts g Hg) as [C _]. unfold span_at, counts_of. rewrite over_mul. apply over_le. unfold upper. rewrite Z.mul_comm. apply Z.mul_div_le. exact C. }
  specialize (B B'). pose proof (pos_INR ng).
  assert (INR ng * over (w_eps_x c) p_x * ip ng w w <= INR ng * over (w_eps_x c) p_x * (IZR (w_most c) * ip ng v v)) by (apply Rmult_le_compat_l; auto; apply Rmult_le_pos; auto).
  replace (X2 * norm ng v * (X2 * norm ng v)) with (X2 * X2 * ip ng v v) by (rewrite <- norm_sq; ring).
  apply Rle_trans with ((over (w_span c) p_x + INR ng * IZR (w_most c) * over (w_eps_x c) p_x) * ip ng v v); [lra|]. apply Rmult_le_compat_r; auto using ip_pos.
Qed.
End Check.

Ltac toR := repeat first [rewrite Q2R_plus | rewrite Q2R_minus | rewrite Q2R_mult | rewrite Q_0 | rewrite Q_1 | rewrite Q_2 | rewrite Q_n | rewrite Q_m | rewrite Q_N | rewrite Q_G | rewrite Q_k | rewrite Q_most | rewrite over_Q].
Ltac toR_in H := repeat first [rewrite Q2R_plus in H | rewrite Q2R_minus in H | rewrite Q2R_mult in H | rewrite Q_0 in H | rewrite Q_1 in H | rewrite Q_2 in H | rewrite Q_n in H | rewrite Q_m in H
  | rewrite Q_N in H | rewrite Q_G in H | rewrite Q_k in H | rewrite Q_most in H | rewrite over_Q in H].
Ltac split_all := repeat match goal with H : _ /\ _ |- _ => destruct H end.
Lemma same_ok u : forall v, same u v = true -> u = v.
Proof.
  induction u as [|a u IH]; intros [|b v]; simpl; try discriminate; auto. rewrite andb_true_iff. intros [H1 H2]. apply Z.eqb_eq in H1. f_equal; auto.
Qed.
Lemma total_plus {A} (f g : A -> Z) l : total (fun a => f a + g a)%Z l = (total f l + total g l)%Z.
Proof. induction l; simpl; [reflexivity|]. lia. Qed.
Lemma squares_sum l k : length l = k -> IZR (squares l) = sum k (fun o => IZR (nth o l 0%Z) * IZR (nth o l 0%Z)).
Proof. intros <-. unfold squares. rewrite (sum_list _ _ 0%Z). apply sum_ext. intros. apply mult_IZR. Qed.
Lemma avoided_sum N ls dflt : (forall r, (r < length ls)%nat -> (0 < l_n N (nth r ls dflt))%Z) ->
  Q2R (avoided N ls) = sum (length ls) (fun r => IZR (l_y N (nth r ls dflt)) * IZR (l_y N (nth r ls dflt)) / IZR (l_n N (nth r ls dflt))).
Proof.
  induction ls as [|l ls IH]; intros H; simpl length; [apply Q_0|]. rewrite sum_first.
  change (avoided N (l :: ls)) with (Qred ((l_y N l * l_y N l # Z.to_pos (l_n N l)) + avoided N ls)).
  rewrite (Qeq_eqR _ _ (Qred_correct _)), Q2R_plus, IH by (intros r Hr; apply (H (S r)); simpl; lia). f_equal.
  rewrite over_Q. unfold over. rewrite mult_IZR, Z2Pos.id by (apply (H O); simpl; lia). reflexivity.
Qed.
(* the certificate's own groups, residual and Jacobian *)
Definition residual_of (c : certificate) : vec -> vec := residual (problem_of c) (first_of c) (counts_of c) (mean_of c).
Definition jacobian_of (c : certificate) : vec -> mat := jac (problem_of c) (slope (activation_of c)) (first_of c) (counts_of c).
Definition cases_of (c : certificate) : nat := (length (firsts c) * width_of_outputs c)%nat.

(* rows with equal inputs, and what they cannot avoid *)
Section Grouped.
Variables (N : integers) (c : certificate).
Let n := length (data c). Let k := width_of_outputs c. Let ng := length (firsts c). Let P := problem_of c.
Hypothesis HG : length (groups c) = n.
Hypothesis Hfirst : forallb (fun f => Nat.ltb f n) (firsts c) = true.
Hypothesis Hsame : forallb (fun p => Nat.ltb (fst p) ng && same (snd (snd p)) (snd (nth (first_of c (fst p)) (data c) row0))) (combine (groups c) (data c)) = true.
Hypothesis Counts : forall g, (g < ng)%nat -> (0 < count_of c g)%Z.
Let group (i : nat) := nth i (groups c) O.
Lemma group_same i : (i < n)%nat -> (group i < ng)%nat /\ snd (nth i (data c) row0) = snd (nth (first_of c (group i)) (data c) row0).
Proof.
  intros Hi. pose proof (forallb_nth _ _ i (O, row0) Hsame ltac:(rewrite combine_length, HG, Nat.min_id; exact Hi)) as Q.
  rewrite combine_nth in Q by exact HG. cbv beta in Q. rewrite andb_true_iff in Q. destruct Q as [Q1 Q2]. split; [apply Nat.ltb_lt; exact Q1|apply same_ok; exact Q2].
Qed.
Lemma first_ok g : (g < ng)%nat -> (first_of c g < n)%nat.
Proof. intros Hg. apply Nat.ltb_lt. apply (forallb_nth (fun f => Nat.ltb f n) (firsts c) g O Hfirst Hg). Qed.
Lemma equal_ok i l : (i < n)%nat -> (l < inputs P)%nat -> input P i l = input P (first_of c (group i)) l.
Proof. intros Hi _. destruct (group_same i Hi) as [_ E]. unfold P, problem_of, input. rewrite <- E. reflexivity. Qed.
Lemma counts_ok g : (g < ng)%nat -> counts_of c g = sum n (fun i => if Nat.eqb (group i) g then 1 else 0).
Proof.
  intros _. unfold counts_of, count_of. rewrite (sum_list _ _ O), HG. apply sum_ext. intros i Hi. unfold group. destruct (Nat.eqb _ _); reflexivity.
Qed.
Lemma mean_ok g o : (g < ng)%nat -> (o < k)%nat -> counts_of c g * mean_of c g o = sum n (fun i => if Nat.eqb (group i) g then target P i o else 0).
Proof.
  intros Hg _. pose proof (Counts g Hg) as C. unfold mean_of. assert (0 < counts_of c g) by (apply IZR_lt; exact C).
  replace (counts_of c g * (over (target_of c g o) (over_y c) / counts_of c g)) with (/ IZR (Zpos (over_y c)) * IZR (target_of c g o)) by (unfold over; field; split; [|apply Rgt_not_eq]; auto using over_pos, Rgt_not_eq).
  unfold target_of. rewrite (sum_list _ _ (O, row0)), combine_length, HG. fold n. rewrite Nat.min_id, <- sum_scal. apply sum_ext. intros i Hi.
  rewrite combine_nth by exact HG. unfold group. cbn [fst snd]. destruct (Nat.eqb _ _); [|ring]. unfold P, problem_of, target, head, over, Rdiv. ring.
Qed.
Lemma least_ok (ls : list (line N)) dflt : length ls = (ng * k)%nat ->
  (forall g o, (g < ng)%nat -> (o < k)%nat -> l_n N (nth (g * k + o) ls dflt) = count_of c g /\ l_y N (nth (g * k + o) ls dflt) = target_of c g o) ->
  (forall i, (i < n)%nat -> length (fst (nth i (data c) row0)) = k) ->
  Qeq_bool ((2 # 1) * c_least c * inject_Z (Zpos (over_y c * over_y c))) (inject_Z (total (fun r => squares (fst r)) (data c)) - avoided N ls) = true ->
  Q2R (c_least c) = scatter P group (mean_of c).
Proof.
  intros Ll Hl Hk H. apply Qeq_bool_eq, Qeq_eqR in H. rewrite Q2R_minus, !Q2R_mult, !Q_inject, Q_2, Pos2Z.inj_mul, mult_IZR in H.
  assert (Lp : forall r, (r < ng * k)%nat -> l_n N (nth r ls dflt) = count_of c (r / k) /\ l_y N (nth r ls dflt) = target_of c (r / k) (r mod k)).
  { intros r Hr. destruct (idx_lt ng k r Hr) as [K0 [A B]]. pose proof (Hl (r / k)%nat (r mod k)%nat A B) as Q.
    replace (r / k * k + r mod k)%nat with r in Q by (rewrite Nat.mul_comm; apply Nat.div_mod; lia). exact Q. }
  rewrite (avoided_sum N ls dflt) in H.
  2: { intros r Hr. rewrite Ll in Hr. rewrite (proj1 (Lp r Hr)). apply Counts, (idx_lt ng k r Hr). }
  rewrite Ll in H. pose proof (over_pos (over_y c)) as Y0. set (y := IZR (Zpos (over_y c))) in *.
  pose proof (grouped P ng (first_of c) group (counts_of c) (mean_of c) (fun i Hi => proj1 (group_same i Hi)) first_ok equal_ok counts_ok mean_ok (fun _ _ => 0) (fun _ _ _ _ _ _ _ => eq_refl)) as E.
  assert (E1 : misfit P (fun _ _ => 0) = / 2 * (IZR (total (fun r => squares (fst r)) (data c)) / (y * y))).
  { unfold misfit. f_equal. rewrite (sum_list _ _ row0). unfold Rdiv. rewrite Rmult_comm, <- sum_scal. apply sum_ext. intros i Hi.
    rewrite (squares_sum _ k (Hk i Hi)), <- sum_scal. apply sum_ext. intros o Ho. unfold P, problem_of, target, head, over. fold y. field. lra. }
  assert (E2 : sum ng (fun g => sum (outputs P) (fun o => counts_of c g * (0 - mean_of c g o) ^ 2)) =
    sum (ng * k) (fun r => IZR (l_y N (nth r ls dflt)) * IZR (l_y N (nth r ls dflt)) / IZR (l_n N (nth r ls dflt))) / (y * y)).
  { unfold Rdiv at 1. rewrite Rmult_comm, <- sum_scal, sum_blocks. apply sum_ext. intros g Hg. apply sum_ext. intros o Ho.
    destruct (Hl g o Hg Ho) as [-> ->]. pose proof (Counts g Hg) as C. apply IZR_lt in C. unfold mean_of, counts_of, over. fold y. field. lra. }
  rewrite E1, E2 in E. set (S2 := sum (ng * k) _) in *. set (T := IZR (total _ _)) in *.
  apply Rmult_eq_reg_l with (2 * (y * y)); [|apply Rgt_not_eq; assert (0 < y * y) by (apply Rmult_lt_0_compat; auto); lra].
  replace (2 * (y * y) * Q2R (c_least c)) with (2 * Q2R (c_least c) * (y * y)) by ring. rewrite H.
  replace (scatter P group (mean_of c)) with (/ 2 * (T / (y * y)) - / 2 * (S2 / (y * y))) by lra. field. lra.
Qed.
End Grouped.

Theorem check_sound prec N c : check prec N c = true ->
  forall start K, let P := problem_of c in
  norm (size P) (vsub (gd (cases_of c) (residual_of c) (jacobian_of c) start (Q2R (c_eta c)) K) (anchor c)) <= Q2R (c_distance c) ->
  trains P (Q2R (c_eta c)) start (anchor c) K (1 - Q2R (c_rate c)) (Q2R (radius c)) (c_further c) (Q2R (c_epsilon c)) (Q2R (c_least c)).
Proof.
  unfold check, checks, checks_of. cbn [forallb]. cbv beta. rewrite !andb_true_iff.
  intros [[[[[[C0a C0b] C0c] C0d] C0e] C0f] [C1 [[C2 C2x] [C3 [C4 [C5 [C6 [C7 [C8 [C9 [C10 [C11 [C12 [C13 [C14 [C15 [C16 [C17 [C18 [C19 [[[[CG1 CG2] CG3] CG4] [CL _]]]]]]]]]]]]]]]]]]]]]] start K. set (P := problem_of c). intros Hstart.
  set (n := length (data c)) in *. set (m := length (cells c)) in *. set (d := width_of_inputs c) in *. set (k := width_of_outputs c) in *. set (ng := length (firsts c)) in *.
  apply Nat.eqb_eq in C0a. apply Nat.eqb_eq in C0b. apply Nat.eqb_eq in CG1.
  assert (Wide : forall i, (i < n)%nat -> (length (snd (nth i (data c) row0)) <= d)%nat /\ length (fst (nth i (data c) row0)) = k).
  { intros i Hi. pose proof (forallb_nth _ _ i row0 C0c Hi) as Q. cbv beta in Q. rewrite andb_true_iff, Nat.leb_le, Nat.eqb_eq in Q. exact Q. }
  assert (Heads : forall j, (j < m)%nat -> length (fst (nth j (cells c) row0)) = k).
  { intros j Hj. apply Nat.eqb_eq. apply (forallb_nth _ _ j row0 C0d Hj). }
  assert (Shape_k : forall g, (g < ng)%nat -> length (nth g (factors c) []) = k).
  { intros g Hg. pose proof (forallb_nth _ _ g [] C0e ltac:(rewrite C0a; exact Hg)) as Q. cbv beta in Q. rewrite andb_true_iff, Nat.eqb_eq in Q. apply Q. }
  assert (Short : forall g o, (g < ng)%nat -> (o < k)%nat -> (length (fst (nth o (nth g (factors c) []) ([], []))) <= ng * k /\ length (snd (nth o (nth g (factors c) []) ([], []))) <= ng * k)%nat).
  { intros g o Hg Ho. pose proof (forallb_nth _ _ g [] C0e ltac:(rewrite C0a; exact Hg)) as Q. cbv beta in Q. rewrite andb_true_iff in Q. destruct Q as [_ Q].
    pose proof (forallb_nth _ _ o ([], []) Q ltac:(rewrite Shape_k; auto)) as Q'. cbv beta in Q'. rewrite andb_true_iff, !Nat.leb_le in Q'. exact Q'. }
  assert (Short_x : forall g, (g < ng)%nat -> (length (nth g (spans c) []) <= ng)%nat).
  { intros g Hg. apply Nat.leb_le. apply (forallb_nth _ _ g [] C0f). rewrite C0b. exact Hg. }
  assert (First : forall g, (g < ng)%nat -> (first_of c g < n)%nat) by (apply first_ok; exact CG2).
  assert (Counts : forall g, (g < ng)%nat -> (0 < count_of c g <= w_most c)%Z).
  { intros g Hg. pose proof (forallb_nth _ _ g {| b_n := 0; b_x := []; b_span := [] |} CG4 ltac:(rewrite (length_briefs N c C0b); exact Hg)) as Q. fold (Br N c g) in Q.
    rewrite (Br_is N c C0b g Hg) in Q. cbv beta in Q. rewrite andb_true_iff, Z.ltb_lt, Z.leb_le in Q. exact Q. }
  assert (Counts0 : forall g, (g < ng)%nat -> (0 < count_of c g)%Z) by (intros g Hg; apply Counts; auto).
  assert (Wide' : forall i, (i < n)%nat -> (length (snd (nth i (data c) row0)) <= d)%nat) by (intros i Hi; apply Wide; auto).
  set (group := fun i => nth i (groups c) O).
  assert (G1 : forall i, (i < n)%nat -> (group i < ng)%nat) by (intros i Hi; apply (group_same c CG1 CG3 i Hi)).
  assert (G2 := equal_ok c CG1 CG3). assert (G3 := counts_ok c CG1). assert (G4 := mean_ok c CG1 Counts0).
  assert (LL : length (lines prec N c) = (ng * k)%nat) by (apply length_lines; assumption).
  assert (LB : length (briefs N c) = ng) by (apply length_briefs; auto).
  assert (Tab : forall r j, (r < ng * k)%nat -> (j < m)%nat ->
    Rabs (slopes P (slope (activation_of c)) (first_of c) (anchor c) r j - table prec N c (l_b N) (over_t c) r j) <= Q2R (q_delta c) /\
    Rabs (features P (first_of c) (anchor c) r j - table prec N c (l_c N) (over_t c) r j) <= Q2R (q_delta c)) by (intros r j Hr Hj; apply tables_ok; assumption).
  pose proof (L_is prec N c C0a C0b Shape_k) as Lis. fold ng k in Lis.
  assert (Least : Q2R (c_least c) = scatter P group (mean_of c)).
  { apply (least_ok N c CG1 CG2 CG3 Counts0 (lines prec N c) {| l_n := 0; l_y := 0; l_o := 0; l_x := []; l_b := []; l_c := []; l_low := []; l_high := []; l_fine := false |}); auto.
    - intros g o Hg Ho. split; [change (l_n N (L prec N c (g * k + o)) = count_of c g)|change (l_y N (L prec N c (g * k + o)) = target_of c g o)];
      rewrite (Lis g o Hg Ho); reflexivity.
    - intros i Hi. apply Wide; auto. }
  split_all.
  repeat match goal with H : le _ _ = true |- _ => apply le_ok in H; toR_in H | H : lt _ _ = true |- _ => apply lt_ok in H; toR_in H end.
  set (steps := map (fun s => (Q2R (fst s), Q2R (snd s))) (c_steps c)).
  assert (Rising : rising 0 0 steps) by (rewrite <- Q_0; apply rising_ok; exact C11).
  assert (End : last_end 0 steps = Q2R (q_R c)) by (rewrite <- Q_0; apply last_ok).
  destruct (stair_ok (q_R c) (c_steps c) 0 0) as [EM EI]; [rewrite Q_0; exact Rising|right; reflexivity|].
  rewrite Q_0 in EM, EI. fold steps in EM, EI. fold (q_M c) in EM. fold (q_I c) in EI.
  assert (RR : Q2R (radius c) = Q2R (q_R c)) by (unfold radius, q_R; rewrite radius_ok; reflexivity). rewrite RR.
  set (dsg := slope (activation_of c)). set (theta0 := anchor c) in *. set (J := jacobian_of c) in *. set (F := residual_of c) in *.
  set (B := table prec N c (l_b N) (over_t c)). set (Cm := table prec N c (l_c N) (over_t c)).
  assert (Cpos : forall g, (g < ng)%nat -> 0 <= counts_of c g) by (intros g Hg; apply (IZR_le 0); pose proof (Counts g Hg); lia).
  assert (Own : forall g, (g < ng)%nat -> ip d (input P (first_of c g)) (input P (first_of c g)) = over (own N (Br N c g)) (p_x c)).
  { intros g Hg. rewrite (Br_is N c C0b g Hg). apply (ip_x N c); assumption. }
  assert (X1i : forall g, (g < ng)%nat -> ip d (input P (first_of c g)) (input P (first_of c g)) <= Q2R (w_X1 c) * Q2R (w_X1 c)).
  { intros g Hg. rewrite Own by auto. rewrite <- Q2R_mult, <- over_Q. apply le_ok.
    apply (forallb_nth (fun l => le (own N l # p_x c) (w_X1 c * w_X1 c)) (briefs N c) g); auto. rewrite LB; auto. }
  assert (NX : sum ng (fun g => counts_of c g * ip d (input P (first_of c g)) (input P (first_of c g))) <= over (total (fun b => b_n N b * own N b)%Z (briefs N c)) (p_x c)).
  { right. unfold over. rewrite (sum_list _ _ {| b_n := 0; b_x := []; b_span := [] |}), LB.
    unfold Rdiv. rewrite Rmult_comm, <- sum_scal. apply sum_ext. intros g Hg. rewrite Own by auto. fold (Br N c g).
    replace (b_n N (Br N c g)) with (count_of c g) by (rewrite (Br_is N c C0b g Hg); reflexivity). rewrite mult_IZR. unfold over, counts_of. field. apply Rgt_not_eq, over_pos. }
  assert (X2u : forall u, norm ng (fun g => root (counts_of c) g * sum d (fun l => input P (first_of c g) l * u l)) <= Q2R (w_X2 c) * norm d u).
  { intros u. apply (span_form N c); assumption. }
  assert (Ai : forall j, (j < m)%nat -> cell P theta0 j <= Q2R (w_A c)).
  { intros j Hj. unfold cell. apply norm_le; auto. pose proof (forallb_nth _ _ j row0 C4 Hj) as Q. cbv beta in Q. apply le_ok in Q. toR_in Q.
    eapply Rle_trans; [right|exact Q]. unfold over. rewrite (squares_sum _ k (Heads j Hj)). unfold Rdiv. rewrite Rmult_comm, <- sum_scal. apply sum_ext. intros o Ho.
    unfold theta0, P. rewrite (read_out_is c) by auto. rewrite Pos2Z.inj_mul, mult_IZR. unfold over, head. field. apply Rgt_not_eq, over_pos. }
  assert (NA : sum (m * k) (fun q => read_out P theta0 (q mod k) (q / k) * read_out P theta0 (q mod k) (q / k)) <= over (total (fun cell => squares (fst cell)) (cells c)) (over_a c * over_a c)).
  { right. unfold over. rewrite (sum_list _ _ row0), sum_blocks. unfold Rdiv. rewrite Rmult_comm, <- sum_scal. apply sum_ext. intros j Hj.
    rewrite (squares_sum _ k (Heads j Hj)), <- sum_scal. apply sum_ext. intros o Ho. destruct (idx k j o Ho) as [-> ->].
    unfold theta0, P. rewrite (read_out_is c) by auto. rewrite Pos2Z.inj_mul, mult_IZR. unfold over, head. field. apply Rgt_not_eq, over_pos. }
  assert (Dsg : forall t, is_derive (activation P) t (dsg t)) by (intros; apply value_derive).
  assert (B1 : forall t, Rabs (dsg t) <= bound (bound_1 (activation_of c))) by (intros; apply slope_bound).
  assert (B2 : forall t u, Rabs (dsg t - dsg u) <= bound (bound_2 (activation_of c)) * Rabs (t - u)) by (intros; apply slope_lipschitz).
  assert (P1 : 0 <= bound (bound_1 (activation_of c))) by (unfold bound; destruct (activation_of c); simpl; lra).
  assert (P2 : 0 <= bound (bound_2 (activation_of c))) by (unfold bound; destruct (activation_of c); simpl; lra).
  assert (Delta0 : 0 <= Q2R (q_delta c)) by auto. assert (Err0 : 0 <= Q2R (w_err c)) by auto.
  assert (All : sum ng (counts_of c) <= INR n) by (apply (counts_all P ng group (counts_of c) G1 G3)).
  set (Jr := weighed P (counts_of c) (shaped P (first_of c) B (free P Cm))).
  assert (Round : forall v, norm (size P) (vsub (mtv (ng * k) (J theta0) v) (mtv (ng * k) Jr v)) <= Q2R (w_err c) * norm (ng * k) v).
  { intros v. eapply (rounding P dsg ng (first_of c) (counts_of c));
      first [exact Cpos | intros r j Hr Hj; apply (Tab r j Hr Hj) | exact Delta0 | exact Err0 | exact All | exact NX | eassumption]. }
  assert (Low : forall v, Q2R (c_s c) * norm (ng * k) v <= norm (size P) (mtv (ng * k) (J theta0) v)).
  { intros v. assert (Q : (over (w_low c) (p_g c) - INR (ng * k) * IZR (w_most c) * over (w_eps c) (p_g c)) * ip (ng * k) v v <= ip (size P) (mtv (ng * k) Jr v) (mtv (ng * k) Jr v))
      by (apply (lower_form prec N c); assumption).
    rewrite <- !norm_sq in Q. pose proof (Round v) as Rv. rewrite norm_sub_sym in Rv.
    pose proof (norm_sub_tri (size P) (mtv (ng * k) Jr v) (mtv (ng * k) (J theta0) v)) as T.
    pose proof (norm_pos (ng * k) v) as Pv. pose proof (norm_pos (size P) (mtv (ng * k) Jr v)) as Pj.
    assert (S1 : (Q2R (c_s c) + Q2R (w_err c)) * (Q2R (c_s c) + Q2R (w_err c)) <= over (w_low c) (p_g c) - INR (ng * k) * IZR (w_most c) * over (w_eps c) (p_g c)) by assumption.
    assert (S2 : (Q2R (c_s c) + Q2R (w_err c)) * norm (ng * k) v <= norm (size P) (mtv (ng * k) Jr v)).
    { assert (0 <= Q2R (c_s c)) by assumption. apply Rsqr_incr_0; unfold Rsqr; auto; [|apply Rmult_le_pos; lra].
      eapply Rle_trans; [|exact Q].
      replace ((Q2R (c_s c) + Q2R (w_err c)) * norm (ng * k) v * ((Q2R (c_s c) + Q2R (w_err c)) * norm (ng * k) v)) with ((Q2R (c_s c) + Q2R (w_err c)) * (Q2R (c_s c) + Q2R (w_err c)) * (norm (ng * k) v * norm (ng * k) v)) by ring.
      apply Rmult_le_compat_r; [apply Rmult_le_pos; auto|exact S1]. }
    lra. }
  assert (High : opT_le (ng * k) (size P) (J theta0) (Q2R (c_S c))).
  { intros v. assert (Q : ip (size P) (mtv (ng * k) Jr v) (mtv (ng * k) Jr v) <= (over (w_high c) (p_g c) + INR (ng * k) * IZR (w_most c) * over (w_eps c) (p_g c)) * ip (ng * k) v v)
      by (apply (upper_form prec N c); assumption).
    rewrite <- !norm_sq in Q. pose proof (Round v) as Rv.
    pose proof (norm_sub_tri (size P) (mtv (ng * k) (J theta0) v) (mtv (ng * k) Jr v)) as T.
    pose proof (norm_pos (ng * k) v) as Pv. pose proof (norm_pos (size P) (mtv (ng * k) Jr v)) as Pj.
    assert (S0 : Q2R (w_err c) <= Q2R (c_S c)) by assumption.
    assert (S1 : over (w_high c) (p_g c) + INR (ng * k) * IZR (w_most c) * over (w_eps c) (p_g c) <= (Q2R (c_S c) - Q2R (w_err c)) * (Q2R (c_S c) - Q2R (w_err c))) by assumption.
    assert (S2 : norm (size P) (mtv (ng * k) Jr v) <= (Q2R (c_S c) - Q2R (w_err c)) * norm (ng * k) v).
    { apply Rsqr_incr_0; unfold Rsqr; auto; [|apply Rmult_le_pos; lra].
      eapply Rle_trans; [exact Q|].
      replace ((Q2R (c_S c) - Q2R (w_err c)) * norm (ng * k) v * ((Q2R (c_S c) - Q2R (w_err c)) * norm (ng * k) v)) with ((Q2R (c_S c) - Q2R (w_err c)) * (Q2R (c_S c) - Q2R (w_err c)) * (norm (ng * k) v * norm (ng * k) v)) by ring.
      apply Rmult_le_compat_r; [apply Rmult_le_pos; auto|exact S1]. }
    lra. }
  assert (Lip : List.Forall (fun s : R * R => lipschitz_on (ng * k) (size P) J theta0 (fst s) (snd s)) steps).
  { assert (Pos : List.Forall (fun s => 0 <= fst s) steps).
    { clear -Rising. unfold steps in *. assert (G : forall e prev l, 0 <= e -> rising e prev l -> List.Forall (fun s => 0 <= fst s) l).
      { intros e prev l. revert e prev. induction l as [|[e' l'] more IH]; intros e prev He; simpl; [constructor|]. intros [H1 [H2 H3]].
        constructor; [simpl; lra|]. apply (IH e' l'); auto. lra. }
      apply (G 0 0); auto. lra. }
    apply List.Forall_forall. intros [t l] Hin. rewrite List.Forall_forall in Pos. specialize (Pos _ Hin). simpl in *.
    unfold steps in Hin. apply in_map_iff in Hin. destruct Hin as [[tq lq] [E Hin]]. simpl in E. injection E as <- <-.
    rewrite forallb_forall in C12. specialize (C12 _ Hin). simpl in C12. rewrite andb_true_iff in C12. destruct C12 as [K1 K2].
    apply le_ok in K1. apply le_ok in K2. toR_in K2.
    assert (Hh : Q2R (q_hidden c tq) = scale P * reach P (Q2R (w_A c)) (Q2R tq) * bound (bound_2 (activation_of c)) * Q2R (w_X1 c) * Q2R (w_X2 c)).
    { unfold q_hidden, q_reach, reach. simpl read_out_trained. destruct (trained_read_out c); toR; reflexivity. }
    assert (Hq : Q2R (q_cross c) = cross P (bound (bound_1 (activation_of c))) (Q2R (w_X2 c))).
    { unfold q_cross, cross. simpl read_out_trained. destruct (trained_read_out c); toR; reflexivity. }
    rewrite Hh in K1, K2. rewrite Hq in K2. assert (Sc : 0 <= scale P) by (change (scale P) with (Q2R (scale_of c)); assumption).
    apply (net_lipschitz P dsg _ _ ng (first_of c) (counts_of c) Dsg B1 B2 P1 P2 Sc (Q2R (w_A c)) (Q2R (w_X1 c)) (Q2R (w_X2 c))); assumption. }
  assert (Res : norm (ng * k) (F theta0) <= Q2R (c_rho c)).
  { eapply (residual_norm P ng (first_of c) (counts_of c) (mean_of c) Cpos theta0 Cm (Q2R (q_delta c)) _ _ (fun r j Hr Hj => proj2 (Tab r j Hr Hj)) Delta0 All NA _ (Q2R (w_rho0 c)) (Q2R (w_erho c))); auto.
    eapply Rle_trans; [|eassumption]. unfold over at 1. rewrite (sum_list _ _ {| l_n := 0; l_y := 0; l_o := 0; l_x := []; l_b := []; l_c := []; l_low := []; l_high := []; l_fine := false |}), LL.
    unfold Rdiv. rewrite Rmult_comm, <- sum_scal. apply sum_le. intros r Hr. fold (L prec N c r).
    destruct (idx_lt ng k r Hr) as [K0 [Hg Ho]]. assert (Er : r = (r / k * k + r mod k)%nat) by (rewrite Nat.mul_comm; apply Nat.div_mod; lia).
    pose proof (Lis _ _ Hg Ho) as El. rewrite <- Er in El. pose proof (Counts0 _ Hg) as C0. apply IZR_lt in C0.
    assert (E : rest_of P (mean_of c) theta0 Cm r = IZR (rest N c (outgoing N c) (L prec N c r)) / (IZR (Zpos (p_r c)) * counts_of c (r / k))).
    { assert (Pr : IZR (Zpos (p_r c)) = IZR (Zpos (over_a c)) * IZR (Zpos (over_t c)) * IZR (Zpos (over_y c))) by (unfold p_r; rewrite !Pos2Z.inj_mul, !mult_IZR; reflexivity).
      pose proof (over_pos (over_a c)). pose proof (over_pos (over_t c)). pose proof (over_pos (over_y c)).
      assert (Ln : l_n N (L prec N c r) = count_of c (r / k)) by (rewrite El; reflexivity). assert (Ly : l_y N (L prec N c r) = target_of c (r / k) (r mod k)) by (rewrite El; reflexivity).
      assert (Lo : l_o N (L prec N c r) = (r mod k)%nat) by (rewrite El; reflexivity).
      unfold rest. rewrite Ln, Ly, Lo, minus_IZR, !mult_IZR, Pos2Z.inj_mul, mult_IZR.
      set (av := nth (r mod k) (outgoing N c) []).
      assert (Ea : av = map (fun cell => of_Z N (nth (r mod k) (fst cell) 0%Z)) (cells c)).
      { unfold av, outgoing. fold k. rewrite (nth_map _ _ _ O) by (rewrite seq_length; auto). rewrite seq_nth by auto. reflexivity. }
      assert (Av : forall j, (j < m)%nat -> entry N av j = IZR (head (cells c) j (r mod k))).
      { intros j Hj. rewrite Ea. unfold entry, head. rewrite (nth_map _ _ _ row0) by auto. apply real_of. }
      change (IZR (to_Z N ?b)) with (real N b). rewrite (dot_ok N _ _ _ m) by (rewrite Ea, map_length; auto).
      rewrite real_zero, Rplus_0_l, Pr. unfold rest_of. change (outputs P) with k. unfold mean_of, counts_of, over. fold (counts_of c (r / k)).
      rewrite (sum_ext (units P) _ (fun j => / (IZR (Zpos (over_a c)) * IZR (Zpos (over_t c))) * (entry N av j * entry N (l_c N (L prec N c r)) j))).
      - rewrite sum_scal. change (units P) with m. unfold counts_of. field. lra.
      - intros j Hj. unfold theta0, P. rewrite (read_out_is c) by auto. rewrite Av by auto. unfold Cm, table, over. field. lra. }
    change (outputs P) with k. rewrite E. set (z := rest N c (outgoing N c) (L prec N c r)).
    replace (l_n N (L prec N c r)) with (count_of c (r / k)) by (rewrite El; reflexivity).
    pose proof (over_pos (p_r c)) as R0. rewrite Pos2Z.inj_mul, mult_IZR. unfold counts_of in *. set (q := IZR (Zpos (p_r c))) in *. set (cnt := count_of c (r / k)) in *.
    replace (IZR cnt * (IZR z / (q * IZR cnt) * (IZR z / (q * IZR cnt)))) with (/ (q * q) * (IZR (z * z) / IZR cnt)) by (rewrite mult_IZR; field; lra).
    apply Rmult_le_compat_l; [apply Rlt_le, Rinv_0_lt_compat, Rmult_lt_0_compat; auto|].
    apply Rmult_le_reg_r with (IZR cnt); auto. unfold Rdiv. rewrite Rmult_assoc, Rinv_l, Rmult_1_r, <- mult_IZR by lra. apply IZR_le.
    pose proof (Z.mul_succ_div_gt (z * z) cnt (Counts0 _ Hg)). nia. }
  assert (S0 : 0 < Q2R (c_sigma c) <= Q2R (c_s c) - Q2R (q_M c)) by (split; assumption).
  assert (Es : Q2R (q_es c) = Q2R (c_eta c) * (Q2R (c_s c) * Q2R (c_s c))) by (unfold q_es; toR; reflexivity).
  rewrite !Es in *.
  assert (Jac : jacobian (ng * k) (size P) F J) by exact (net_jacobian P dsg ng (first_of c) (counts_of c) (mean_of c) Dsg).
  assert (Floc : local (ng * k) (size P) F) by exact (net_local P ng (first_of c) (counts_of c) (mean_of c)).
  assert (Jloc : local_jacobian (ng * k) (size P) J) by exact (jac_local P dsg ng (first_of c) (counts_of c)).
  assert (T1 := theorem_1 (ng * k) (size P) F J theta0 (gd (ng * k) F J start (Q2R (c_eta c)) K)
    (Q2R (c_rho c)) (Q2R (c_s c)) (Q2R (c_S c)) (Q2R (c_kappa c)) (Q2R (w_beta c)) (Q2R (c_b c)) (Q2R (q_R c)) (Q2R (c_eta c))
    (Q2R (c_distance c)) (Q2R (c_sigma c)) (Q2R (c_rate c)) (stair 0 0 steps) (area 0 0 steps)).
  assert (T2 : stairs (ng * k) (size P) J theta0 (Q2R (q_R c)) (stair 0 0 steps)).
  { intros th v l A1 A2. pose proof (norm_pos (size P) (vsub th theta0)).
    apply (op_ext (ng * k) (size P) (msub (J (vadd th v)) (J th)) _ (0 * norm (size P) v + stair 0 0 steps (l + norm (size P) v) - stair 0 0 steps l)); auto; [ring|].
    apply climb with (theta0 := theta0); auto; try lra; try exact Jloc; rewrite End; exact A2. }
  lapply T1; [clear T1; intros T1|exact Jac].
  lapply T1; [clear T1; intros T1|exact Floc].
  lapply T1; [clear T1; intros T1|exact Jloc].
  lapply T1; [clear T1; intros T1|exact T2].
  lapply T1; [clear T1; intros T1|apply stair_0; auto; lra].
  lapply T1; [clear T1; intros T1|intros x y Hxy; apply stair_mono; auto; lra].
  lapply T1; [clear T1; intros T1|apply area_0; auto; lra].
  lapply T1; [clear T1; intros T1|intros t; apply area_derive].
  rewrite EM, EI in T1.
  repeat (lapply T1; [clear T1; intros T1|first [assumption | split; assumption | lra]]).
  rewrite Least.
  eapply (conclude P ng (first_of c) group (counts_of c) (mean_of c) G1 First G2 G3 G4 J).
  - exact Jac.
  - exact Floc.
  - exact Jloc.
  - apply T1.
  - apply T1.
  - lra.
  - match goal with H : Z.leb 0 _ = true |- _ => apply Z.leb_le, H end.
  - apply T1.
  - match goal with H : reaches _ _ _ _ _ = true |- _ => apply reaches_ok in H; [toR_in H; exact H|] end.
    match goal with H : Z.leb 0 _ = true |- _ => apply Z.leb_le, H end.
  - apply T1.
Qed.

(* no steps before: the run begins at the anchor *)
Corollary check_here prec N c : check prec N c = true ->
  trains (problem_of c) (Q2R (c_eta c)) (anchor c) (anchor c) 0 (1 - Q2R (c_rate c)) (Q2R (radius c)) (c_further c) (Q2R (c_epsilon c)) (Q2R (c_least c)).
Proof.
  intros H. apply (check_sound prec N c H).
  assert (D : 0 <= Q2R (c_distance c)).
  { unfold check, checks, checks_of in H. cbn [forallb] in H. rewrite !andb_true_iff in H. split_all.
    rewrite <- Q_0. apply le_ok. assumption. }
  simpl. rewrite (norm_ext _ _ (vsc 0 (fun _ => 0))) by (intros; unfold vsub, vsc; ring). rewrite norm0. exact D.
Qed.
End Checker.
