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

(* tables of slopes a_j c g'(z) and features c g(z), rounded and compared with intervals *)
Definition iscale := I.div prec (I.fromZ prec (Qnum (scale_of c))) (I.fromZ prec (Zpos (Qden (scale_of c)))).
Definition idelta := ratio prec (w_delta c) (over_t c).
Definition unit_of (cell : Z * list Z) : I.type * lst :=
  (I.mul prec (ratio prec (fst cell) (over_a c)) iscale, map (of_Z N) (snd cell)).
Record element := { slope_of : int N; feature_of : int N; fine : bool }.
Definition functions := both prec (activation_of c).
Definition element_of (g : I.type -> I.type * I.type) (sc delta : I.type) (x : lst) (u : I.type * lst) : element :=
  let vs := g (ratio prec (to_Z N (dot N (of_Z N 0) x (snd u))) (over_x c * over_w c)) in
  let f := I.mul prec sc (fst vs) in let s := I.mul prec (fst u) (snd vs) in
  let kf := guess f (over_t c) in let ks := guess s (over_t c) in
  {| slope_of := of_Z N ks; feature_of := of_Z N kf; fine := close prec f kf delta (over_t c) && close prec s ks delta (over_t c) |}.
Record line := { l_y : Z; l_x : lst; l_b : lst; l_c : lst; l_low : lst; l_high : lst; l_span : lst; l_fine : bool }.
Definition line_of (us : list (I.type * lst)) (g : I.type -> I.type * I.type) (sc delta : I.type) (row : (Z * list Z) * (list Z * (list Z * list Z))) : line :=
  let x := map (of_Z N) (snd (fst row)) in let e := map (element_of g sc delta x) us in let w := snd row in
  {| l_y := fst (fst row); l_x := x; l_b := map slope_of e; l_c := map feature_of e;
     l_low := map (of_Z N) (fst w); l_high := map (of_Z N) (fst (snd w)); l_span := map (of_Z N) (snd (snd w));
     l_fine := forallb fine e |}.
Definition lines : list line := map (line_of (map unit_of (cells c)) functions iscale idelta) (combine (data c) (factors c)).

(* one entry of each of the three matrices: G - s2 I, S2 I - G and the same for the inputs, against their factors *)
Definition near (ll g2 x2 el ex lo hi sp : int N) (diagonal : bool) (a b : line) : bool :=
  let xx := dot N (of_Z N 0) (l_x a) (l_x b) in
  let cc := if trained_read_out c then mul N x2 (dot N (of_Z N 0) (l_c a) (l_c b)) else of_Z N 0 in
  let g := mul N (add N (mul N xx (dot N (of_Z N 0) (l_b a) (l_b b))) cc) ll in
  let on k := if diagonal then k else of_Z N 0 in
  within N (sub N (sub N g (on lo)) (mul N (dot N (of_Z N 0) (l_low a) (l_low b)) g2)) el &&
  within N (sub N (sub N (on hi) g) (mul N (dot N (of_Z N 0) (l_high a) (l_high b)) g2)) el &&
  within N (sub N (sub N (on sp) (mul N xx ll)) (mul N (dot N (of_Z N 0) (l_span a) (l_span b)) x2)) ex.

Definition total {A} (f : A -> Z) (l : list A) : Z := fold_right (fun a s => (f a + s)%Z) 0%Z l.
Definition p_l := (over_l c * over_l c)%positive.
Definition p_x := (over_x c * over_x c)%positive.
Definition p_g := (p_x * (over_t c * over_t c))%positive.
Definition p_r := (over_a c * over_t c * over_y c)%positive.
Definition all_near (ls : list line) : bool :=
  let test := near (of_Z N (Zpos p_l)) (of_Z N (Zpos p_g)) (of_Z N (Zpos p_x)) (of_Z N (w_eps c * Zpos p_l)) (of_Z N (w_eps_x c * Zpos p_l))
    (of_Z N (w_low c * Zpos p_l)) (of_Z N (w_high c * Zpos p_l)) (of_Z N (w_span c * Zpos p_l)) in
  pairs (fun a => test true a a) (test false) [] ls.
Definition own (l : line) : Z := to_Z N (dot N (of_Z N 0) (l_x l) (l_x l)).
Definition rest (av : lst) (l : line) : Z := (to_Z N (dot N (of_Z N 0) av (l_c l)) * Zpos (over_y c) - l_y l * Zpos (over_a c * over_t c))%Z.

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
Definition checks_of (ls : list line) (av : lst) : list bool :=
  [ (* 0: shapes *)
    (Nat.eqb (length (factors c)) (length (data c)) && forallb (fun r => Nat.leb (length (snd r)) (width_of_inputs c)) (data c)
      && forallb (fun f => Nat.leb (length (fst f)) (length (data c)) && Nat.leb (length (fst (snd f))) (length (data c))
           && Nat.leb (length (snd (snd f))) (length (data c))) (factors c));
    (* 1: tables *) forallb l_fine ls;
    (* 2: factors *) all_near ls;
    (* 3: signs *) le 0 (scale_of c) && le 0 q_delta && le 0 (w_err c) && le 0 (w_erho c) && le 0 (w_rho0 c) && le 0 (w_A c)
      && le 0 (w_X1 c) && le 0 (w_X2 c) && le 0 (w_eps c # p_g) && le 0 (w_eps_x c # p_x);
    (* 4: sizes of the output weights *) forallb (fun cell => le (Z.abs (fst cell) # over_a c) (w_A c)) (cells c);
    (* 5: sizes of the inputs *) forallb (fun l => le (own l # p_x) (w_X1 c * w_X1 c)) ls;
    (* 6: spectral norm of the inputs *) le ((w_span c # p_x) + q_n * (w_eps_x c # p_x)) (w_X2 c * w_X2 c);
    (* 7: rounding of the tables *) le (q_delta * q_delta * (q_m * ((total own ls # p_x) + q_n))) (w_err c * w_err c);
    (* 8: rho *) le (total (fun l => rest av l * rest av l)%Z ls # (p_r * p_r)) (w_rho0 c * w_rho0 c)
      && le (q_delta * q_delta * (total (fun cell => fst cell * fst cell)%Z (cells c) # (over_a c * over_a c)) * (q_n * q_m)) (w_erho c * w_erho c)
      && le (w_rho0 c + w_erho c) (c_rho c);
    (* 9: s *) le 0 (c_s c) && le ((c_s c + w_err c) * (c_s c + w_err c)) ((w_low c # p_g) - q_n * (w_eps c # p_g));
    (* 10: S *) le (w_err c) (c_S c) && le ((w_high c # p_g) + q_n * (w_eps c # p_g)) ((c_S c - w_err c) * (c_S c - w_err c));
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
    (* 19: steps until epsilon *) Z.leb 0 (c_further c) && reaches prec (1 - c_rate c) (c_further c) (c_rho c + c_b c * c_distance c) (c_epsilon c) ].
Definition checks : list bool := checks_of lines (map (fun cell => of_Z N (fst cell)) (cells c)).
Definition check : bool := forallb (fun b => b) checks.

(* from here on: check is sound *)
Let n := length (data c). Let m := length (cells c). Let d := width_of_inputs c.
Let theta0 := anchor c.
Let blank : (Z * list Z) * (list Z * (list Z * list Z)) := (row0, ([], ([], []))).
Let us := map unit_of (cells c).
Let L (i : nat) : line := nth i lines (line_of us functions iscale idelta blank).
Let dt := over_t c.
Definition table (f : line -> lst) (k : positive) : mat := fun i j => entry N (f (L i)) j / IZR (Zpos k).

Lemma Q_inject z : Q2R (inject_Z z) = IZR z.
Proof. unfold Q2R, inject_Z. simpl. field. Qed.
Lemma Q_n : Q2R q_n = INR n. Proof. unfold q_n. rewrite Q_inject, INR_IZR_INZ. reflexivity. Qed.
Lemma Q_m : Q2R q_m = INR m. Proof. unfold q_m. rewrite Q_inject, INR_IZR_INZ. reflexivity. Qed.
Lemma Q_0 : Q2R 0 = 0. Proof. unfold Q2R; simpl; lra. Qed.
Lemma Q_1 : Q2R 1 = 1. Proof. unfold Q2R; simpl; lra. Qed.
Lemma Q_2 : Q2R (2 # 1) = 2. Proof. unfold Q2R; simpl; lra. Qed.
Lemma Q_half : Q2R (1 # 2) = / 2. Proof. unfold Q2R; simpl; lra. Qed.
Lemma sum_list {A} (f : A -> Z) l dflt : IZR (total f l) = sum (length l) (fun i => IZR (f (nth i l dflt))).
Proof. induction l as [|a l IH]; simpl length; [reflexivity|]. rewrite sum_first. simpl. rewrite plus_IZR, IH. reflexivity. Qed.

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

Hypothesis Shape : length (factors c) = length (data c).
Hypothesis Wide : forall i, (i < n)%nat -> (length (snd (nth i (data c) row0)) <= d)%nat.

Lemma length_lines : length lines = n.
Proof. unfold lines. rewrite map_length, combine_length, Shape, Nat.min_id. reflexivity. Qed.
Lemma L_is i : (i < n)%nat -> L i = line_of us functions iscale idelta (nth i (data c) row0, nth i (factors c) ([], ([], []))).
Proof.
  intros Hi. unfold L, lines. fold us. rewrite (nth_map _ _ _ blank) by (rewrite combine_length, Shape, Nat.min_id; auto).
  unfold blank. rewrite combine_nth; auto.
Qed.
Lemma L_x i l : (i < n)%nat -> entry N (l_x (L i)) l = IZR (nth l (snd (nth i (data c) row0)) 0%Z).
Proof. intros Hi. rewrite L_is by auto. simpl. apply entry_map. Qed.
Lemma L_x_length i : (i < n)%nat -> (length (l_x (L i)) <= d)%nat.
Proof. intros Hi. rewrite L_is by auto. simpl. rewrite map_length. auto. Qed.
Lemma L_x_input i l : (i < n)%nat -> input P i l = entry N (l_x (L i)) l / IZR (Zpos (over_x c)).
Proof. intros Hi. rewrite L_x by auto. reflexivity. Qed.
Lemma hidden_is i j : (i < n)%nat -> (j < m)%nat -> hidden P theta0 i j =
  over (to_Z N (dot N (of_Z N 0) (l_x (L i)) (map (of_Z N) (snd (nth j (cells c) row0))))) (over_x c * over_w c).
Proof.
  intros Hi Hj. unfold over. change (IZR (to_Z N ?a)) with (real N a). rewrite (dot_ok N _ _ _ d) by (apply L_x_length; auto).
  rewrite real_zero, Rplus_0_l, Pos2Z.inj_mul, mult_IZR. unfold hidden. change (inputs P) with d.
  pose proof (over_pos (over_x c)). pose proof (over_pos (over_w c)).
  replace (sum d (fun l => entry N (l_x (L i)) l * entry N (map (of_Z N) (snd (nth j (cells c) row0))) l) / (IZR (Zpos (over_x c)) * IZR (Zpos (over_w c))))
    with (/ (IZR (Zpos (over_x c)) * IZR (Zpos (over_w c))) * sum d (fun l => entry N (l_x (L i)) l * entry N (map (of_Z N) (snd (nth j (cells c) row0))) l)) by (field; lra).
  rewrite <- sum_scal. apply sum_ext. intros l Hl. rewrite L_x_input, entry_map by auto.
  unfold theta0, anchor, weights_of. fold d. rewrite pack_hidden by auto. unfold over. field. lra.
Qed.
Lemma read_out_is j : (j < m)%nat -> read_out P theta0 j = over (fst (nth j (cells c) row0)) (over_a c).
Proof.
  intros Hj. unfold read_out. simpl. destruct (trained_read_out c); auto. unfold theta0, anchor, weights_of. apply pack_out.
Qed.

Hypothesis Fine : forallb l_fine lines = true.
Lemma element_fine i j : (i < n)%nat -> (j < m)%nat ->
  let e := element_of functions iscale idelta (l_x (L i)) (unit_of (nth j (cells c) row0)) in
  fine e = true /\ entry N (l_b (L i)) j = real N (slope_of e) /\ entry N (l_c (L i)) j = real N (feature_of e).
Proof.
  intros Hi Hj e. assert (F0 : l_fine (L i) = true) by (apply forallb_nth; auto; rewrite length_lines; auto).
  revert F0. unfold e. rewrite (L_is i Hi). simpl l_fine. simpl l_b. simpl l_c. simpl l_x.
  set (es := map (element_of functions iscale idelta (map (of_Z N) (snd (nth i (data c) row0)))) us).
  assert (Le : length es = m) by (unfold es, us; rewrite !map_length; reflexivity).
  set (e0 := element_of functions iscale idelta (map (of_Z N) (snd (nth i (data c) row0))) (unit_of row0)).
  assert (E : nth j es e0 = element_of functions iscale idelta (map (of_Z N) (snd (nth i (data c) row0))) (unit_of (nth j (cells c) row0))).
  { unfold es, us. rewrite (nth_map _ _ _ (unit_of row0)) by (rewrite map_length; auto). f_equal. apply nth_map; auto. }
  intros F0. split; [|split].
  - rewrite <- E. apply forallb_nth; auto. rewrite Le; auto.
  - unfold entry. rewrite (nth_map _ _ _ e0), E by (rewrite Le; auto). reflexivity.
  - unfold entry. rewrite (nth_map _ _ _ e0), E by (rewrite Le; auto). reflexivity.
Qed.
Lemma tables_ok i j : (i < n)%nat -> (j < m)%nat ->
  Rabs (slopes P (slope (activation_of c)) theta0 i j - table l_b dt i j) <= Q2R q_delta /\
  Rabs (features P theta0 i j - table l_c dt i j) <= Q2R q_delta.
Proof.
  intros Hi Hj. destruct (element_fine i j Hi Hj) as [E1 [E2 E3]]. unfold table. rewrite E2, E3. clear E2 E3.
  unfold element_of in *. simpl slope_of. simpl feature_of. simpl fine in E1. rewrite !real_of.
  apply andb_true_iff in E1. destruct E1 as [C1 C2].
  set (zi := ratio prec _ _) in *.
  assert (Z : cont zi (hidden P theta0 i j)) by (unfold zi; rewrite hidden_is by auto; apply cratio).
  destruct (cboth prec (activation_of c) _ _ Z) as [V S].
  assert (D : cont idelta (Q2R q_delta)) by (apply cratio).
  eapply close_ok in C1; [|apply cmul; [apply ciscale|exact V]|exact D].
  eapply close_ok in C2; [|apply cmul; [apply cmul; [apply cratio|apply ciscale]|exact S]|exact D].
  split; [|exact C1].
  unfold slopes. rewrite read_out_is by auto. change (scale P) with (Q2R (scale_of c)). rewrite <- Rmult_assoc. exact C2.
Qed.

Lemma ip_table (f : line -> lst) k i j r : (length (f (L i)) <= r)%nat ->
  ip r (table f k i) (table f k j) = real N (dot N (of_Z N 0) (f (L i)) (f (L j))) / (IZR (Zpos k) * IZR (Zpos k)).
Proof.
  intros Hl. rewrite (dot_ok N _ _ _ r Hl), real_zero, Rplus_0_l. pose proof (over_pos k).
  unfold Rdiv. rewrite Rmult_comm, <- sum_scal. apply sum_ext. intros l Hl'. unfold table. field. lra.
Qed.
Lemma length_b i : (i < n)%nat -> (length (l_b (L i)) <= m)%nat /\ (length (l_c (L i)) <= m)%nat.
Proof. intros Hi. rewrite L_is by auto. simpl. unfold us. rewrite !map_length. auto. Qed.
Lemma ip_x i k : (i < n)%nat -> (k < n)%nat ->
  ip d (input P i) (input P k) = real N (dot N (of_Z N 0) (l_x (L i)) (l_x (L k))) / IZR (Zpos p_x).
Proof.
  intros Hi Hk. unfold p_x. rewrite Pos2Z.inj_mul, mult_IZR, <- (ip_table l_x _ i k d) by (apply L_x_length; auto).
  apply sum_ext. intros l Hl. rewrite !L_x_input by auto. reflexivity.
Qed.

Hypothesis Near : all_near lines = true.
Hypothesis Short : forall i, (i < n)%nat -> (length (l_low (L i)) <= n /\ length (l_high (L i)) <= n /\ length (l_span (L i)) <= n)%nat.

Lemma ip_free_c i k : (i < n)%nat -> (k < n)%nat ->
  ip m (free P (table l_c dt) i) (free P (table l_c dt) k) =
  (if trained_read_out c then real N (dot N (of_Z N 0) (l_c (L i)) (l_c (L k))) / (IZR (Zpos dt) * IZR (Zpos dt)) else 0).
Proof.
  intros Hi Hk. unfold free. simpl. destruct (trained_read_out c).
  - apply (ip_table l_c dt i k m). apply length_b; auto.
  - unfold ip. rewrite (sum_ext m _ (fun _ => 0)), sum_0; auto. intros; ring.
Qed.
Let G := gram_of P (table l_b dt) (free P (table l_c dt)).
Let eqb_R (i k : nat) (s : R) := if Nat.eqb i k then s else 0.
Lemma scaled a b s : 0 < s -> Rabs (a * s) <= b * s -> Rabs a <= b.
Proof. intros Hs H. rewrite Rabs_mult, (Rabs_right s) in H by lra. apply Rmult_le_reg_r with s; auto. Qed.
Lemma near_real i k diagonal : (i < n)%nat -> (k < n)%nat -> diagonal = Nat.eqb i k ->
  near (of_Z N (Zpos p_l)) (of_Z N (Zpos p_g)) (of_Z N (Zpos p_x)) (of_Z N (w_eps c * Zpos p_l)) (of_Z N (w_eps_x c * Zpos p_l))
    (of_Z N (w_low c * Zpos p_l)) (of_Z N (w_high c * Zpos p_l)) (of_Z N (w_span c * Zpos p_l)) diagonal (L i) (L k) = true ->
  Rabs (G i k - eqb_R i k (over (w_low c) p_g) - ip n (table l_low (over_l c) i) (table l_low (over_l c) k)) <= over (w_eps c) p_g /\
  Rabs (- G i k - eqb_R i k (- over (w_high c) p_g) - ip n (table l_high (over_l c) i) (table l_high (over_l c) k)) <= over (w_eps c) p_g /\
  Rabs (- ip d (input P i) (input P k) - eqb_R i k (- over (w_span c) p_x) - ip n (table l_span (over_l c) i) (table l_span (over_l c) k)) <= over (w_eps_x c) p_x.
Proof.
  intros Hi Hk Ed H. unfold near in H. rewrite !andb_true_iff in H. destruct H as [[H1 H2] H3].
  apply within_ok in H1. apply within_ok in H2. apply within_ok in H3.
  destruct (Short i Hi) as [S1 [S2 S3]].
  rewrite !(ip_table _ _ i k n) by auto. unfold G, gram_of, eqb_R. change (inputs P) with d. change (units P) with m.
  rewrite ip_x, ip_free_c, (ip_table l_b dt i k m) by (auto; apply length_b; auto). rewrite <- Ed.
  set (xx := dot N (of_Z N 0) (l_x (L i)) (l_x (L k))) in *. set (bb := dot N (of_Z N 0) (l_b (L i)) (l_b (L k))) in *.
  set (cc := dot N (of_Z N 0) (l_c (L i)) (l_c (L k))) in *. set (lw := dot N (of_Z N 0) (l_low (L i)) (l_low (L k))) in *.
  set (hg := dot N (of_Z N 0) (l_high (L i)) (l_high (L k))) in *. set (sp := dot N (of_Z N 0) (l_span (L i)) (l_span (L k))) in *.
  assert (Pl : IZR (Zpos p_l) = IZR (Zpos (over_l c)) * IZR (Zpos (over_l c))) by (unfold p_l; rewrite Pos2Z.inj_mul, mult_IZR; auto).
  assert (Px : IZR (Zpos p_x) = IZR (Zpos (over_x c)) * IZR (Zpos (over_x c))) by (unfold p_x; rewrite Pos2Z.inj_mul, mult_IZR; auto).
  assert (Pg : IZR (Zpos p_g) = IZR (Zpos p_x) * (IZR (Zpos dt) * IZR (Zpos dt))) by (unfold p_g, dt; rewrite !Pos2Z.inj_mul, !mult_IZR; auto).
  pose proof (over_pos (over_l c)) as Ql. pose proof (over_pos p_x) as Qx. pose proof (over_pos dt) as Qt.
  unfold over in *. split; [|split].
  - apply (scaled _ _ (IZR (Zpos p_g) * IZR (Zpos p_l))); [apply Rmult_lt_0_compat; apply over_pos|].
    rewrite real_of, mult_IZR in H1.
    replace (IZR (w_eps c) / IZR (Zpos p_g) * (IZR (Zpos p_g) * IZR (Zpos p_l))) with (IZR (w_eps c) * IZR (Zpos p_l)) by (field; apply Rgt_not_eq, over_pos).
    eapply Rle_trans; [right|exact H1]. rewrite !real_sub, !real_mul, real_add, real_mul, real_of.
    destruct diagonal; destruct (trained_read_out c); rewrite ?real_mul, ?real_zero, ?real_of, ?mult_IZR, Pg, Pl; apply f_equal; field; repeat split; lra.
  - apply (scaled _ _ (IZR (Zpos p_g) * IZR (Zpos p_l))); [apply Rmult_lt_0_compat; apply over_pos|].
    rewrite real_of, mult_IZR in H2.
    replace (IZR (w_eps c) / IZR (Zpos p_g) * (IZR (Zpos p_g) * IZR (Zpos p_l))) with (IZR (w_eps c) * IZR (Zpos p_l)) by (field; apply Rgt_not_eq, over_pos).
    eapply Rle_trans; [right|exact H2]. rewrite !real_sub, !real_mul, real_add, real_mul, real_of.
    destruct diagonal; destruct (trained_read_out c); rewrite ?real_mul, ?real_zero, ?real_of, ?mult_IZR, Pg, Pl; apply f_equal; field; repeat split; lra.
  - apply (scaled _ _ (IZR (Zpos p_x) * IZR (Zpos p_l))); [apply Rmult_lt_0_compat; apply over_pos|].
    rewrite real_of, mult_IZR in H3.
    replace (IZR (w_eps_x c) / IZR (Zpos p_x) * (IZR (Zpos p_x) * IZR (Zpos p_l))) with (IZR (w_eps_x c) * IZR (Zpos p_l)) by (field; apply Rgt_not_eq, over_pos).
    eapply Rle_trans; [right|exact H3]. rewrite !real_sub, !real_mul, real_of.
    destruct diagonal; rewrite ?real_zero, ?real_of, ?mult_IZR, Pl; apply f_equal; field; repeat split; lra.
Qed.
Lemma ip_swap r u v : ip r u v = ip r v u. Proof. apply ip_sym. Qed.
Lemma G_sym i k : G i k = G k i.
Proof. unfold G, gram_of. rewrite (ip_swap _ (input P i)), (ip_swap _ (table l_b dt i)), (ip_swap _ (free P _ i)). reflexivity. Qed.
Lemma near_all i k : (i < n)%nat -> (k < n)%nat ->
  Rabs (G i k - (if Nat.eqb i k then over (w_low c) p_g else 0) - ip n (table l_low (over_l c) i) (table l_low (over_l c) k)) <= over (w_eps c) p_g /\
  Rabs (- G i k - (if Nat.eqb i k then - over (w_high c) p_g else 0) - ip n (table l_high (over_l c) i) (table l_high (over_l c) k)) <= over (w_eps c) p_g /\
  Rabs (- ip d (input P i) (input P k) - (if Nat.eqb i k then - over (w_span c) p_x else 0) - ip n (table l_span (over_l c) i) (table l_span (over_l c) k)) <= over (w_eps_x c) p_x.
Proof.
  intros Hi Hk. pose proof (pairs_ok _ _ lines (line_of us functions iscale idelta blank) [] Near) as [D [O _]].
  rewrite length_lines in D, O.
  destruct (Nat.lt_trichotomy i k) as [Q|[Q|Q]].
  - destruct (near_real k i false Hk Hi) as [A [B C]].
    + symmetry. apply Nat.eqb_neq. lia.
    + apply O. lia.
    + unfold eqb_R in *. rewrite (Nat.eqb_sym k i) in *. rewrite (G_sym k i), (ip_swap _ (table l_low _ k)) in A.
      rewrite (G_sym k i), (ip_swap _ (table l_high _ k)) in B. rewrite (ip_swap _ (input P k)), (ip_swap _ (table l_span _ k)) in C. auto.
  - subst. apply (near_real k k true); auto. symmetry; apply Nat.eqb_refl. apply D; auto.
  - apply (near_real i k false); auto. symmetry. apply Nat.eqb_neq. lia. apply O. lia.
Qed.
End Check.

Ltac toR := repeat first [rewrite Q2R_plus | rewrite Q2R_minus | rewrite Q2R_mult | rewrite Q_0 | rewrite Q_1 | rewrite Q_2 | rewrite Q_n | rewrite Q_m | rewrite over_Q].
Ltac toR_in H := repeat first [rewrite Q2R_plus in H | rewrite Q2R_minus in H | rewrite Q2R_mult in H | rewrite Q_0 in H | rewrite Q_1 in H | rewrite Q_2 in H | rewrite Q_n in H | rewrite Q_m in H | rewrite over_Q in H].
Ltac split_all := repeat match goal with H : _ /\ _ |- _ => destruct H end.
Theorem check_sound prec N c : check prec N c = true ->
  forall start K, let P := problem_of c in
  norm (size P) (vsub (gd (rows P) (residual P) (jac P (slope (activation_of c))) start (Q2R (c_eta c)) K) (anchor c)) <= Q2R (c_distance c) ->
  trains P (Q2R (c_eta c)) start (anchor c) K (1 - Q2R (c_rate c)) (Q2R (radius c)) (c_further c) (Q2R (c_epsilon c)).
Proof.
  unfold check, checks, checks_of. cbn [forallb]. cbv beta. rewrite !andb_true_iff.
  intros [[[C0a C0b] C0c] [C1 [C2 [C3 [C4 [C5 [C6 [C7 [C8 [C9 [C10 [C11 [C12 [C13 [C14 [C15 [C16 [C17 [C18 [C19 _]]]]]]]]]]]]]]]]]]]] start K. set (P := problem_of c). intros Hstart.
  set (n := length (data c)) in *. set (m := length (cells c)) in *. set (d := width_of_inputs c) in *.
  apply Nat.eqb_eq in C0a.
  assert (Wide : forall i, (i < n)%nat -> (length (snd (nth i (data c) row0)) <= d)%nat).
  { intros i Hi. apply Nat.leb_le. apply (forallb_nth _ _ i row0 C0b). exact Hi. }
  assert (Shape : length (factors c) = length (data c)) by exact C0a.
  set (L := fun i => nth i (lines prec N c) (line_of prec N c (map (unit_of prec N c) (cells c)) (functions prec c) (iscale prec c) (idelta prec c) (row0, ([], ([], []))))).
  assert (Short : forall i, (i < n)%nat -> (length (l_low N (L i)) <= n /\ length (l_high N (L i)) <= n /\ length (l_span N (L i)) <= n)%nat).
  { intros i Hi. pose proof (forallb_nth _ _ i ([], ([], [])) C0c ltac:(rewrite C0a; exact Hi)) as Q.
    rewrite !andb_true_iff, !Nat.leb_le in Q. unfold L. rewrite (L_is prec N c Shape i Hi). simpl. rewrite !map_length. tauto. }
  assert (LL : length (lines prec N c) = n) by (apply length_lines; auto).
  assert (Tab := fun i j Hi Hj => tables_ok prec N c Shape Wide C1 i j Hi Hj).
  assert (Nr := fun i k Hi Hk => near_all prec N c Shape Wide C2 Short i k Hi Hk).
  split_all.
  repeat match goal with H : le _ _ = true |- _ => apply le_ok in H; toR_in H | H : lt _ _ = true |- _ => apply lt_ok in H; toR_in H end.
  set (steps := map (fun s => (Q2R (fst s), Q2R (snd s))) (c_steps c)).
  assert (Rising : rising 0 0 steps) by (rewrite <- Q_0; apply rising_ok; exact C11).
  assert (End : last_end 0 steps = Q2R (q_R c)) by (rewrite <- Q_0; apply last_ok).
  destruct (stair_ok (q_R c) (c_steps c) 0 0) as [EM EI]; [rewrite Q_0; exact Rising|right; reflexivity|].
  rewrite Q_0 in EM, EI. fold steps in EM, EI. fold (q_M c) in EM. fold (q_I c) in EI.
  assert (RR : Q2R (radius c) = Q2R (q_R c)) by (unfold radius, q_R; rewrite radius_ok; reflexivity). rewrite RR.
  set (dsg := slope (activation_of c)). set (theta0 := anchor c) in *.
  set (B := table prec N c (l_b N) (over_t c)). set (Cm := table prec N c (l_c N) (over_t c)).
  assert (INRn : IZR (Z.of_nat n) = INR n) by (rewrite INR_IZR_INZ; reflexivity).
  assert (Own : forall i, (i < n)%nat -> ip d (input P i) (input P i) = over (own N (L i)) (p_x c)).
  { intros i Hi. apply (ip_x prec N c Shape Wide); auto. }
  assert (X1i : forall i, (i < n)%nat -> ip d (input P i) (input P i) <= Q2R (w_X1 c) * Q2R (w_X1 c)).
  { intros i Hi. rewrite Own by auto. rewrite <- Q2R_mult, <- over_Q. apply le_ok.
    apply (forallb_nth (fun l => le (own N l # p_x c) (w_X1 c * w_X1 c)) (lines prec N c) i); auto. rewrite LL; auto. }
  assert (NX : sum n (fun i => ip d (input P i) (input P i)) <= Q2R (total (own N) (lines prec N c) # p_x c)).
  { right. rewrite over_Q. unfold over. rewrite (sum_list (own N) _ (line_of prec N c (map (unit_of prec N c) (cells c)) (functions prec c) (iscale prec c) (idelta prec c) (row0, ([], ([], []))))), LL.
    unfold Rdiv. rewrite Rmult_comm, <- sum_scal. apply sum_ext. intros i Hi. rewrite Own by auto. unfold over, L. field. apply Rgt_not_eq, over_pos. }
  assert (X2u : forall u, norm n (mv d (input P) u) <= Q2R (w_X2 c) * norm d u).
  { intros u. apply op_le; auto. intros v. apply norm_le; [apply Rmult_le_pos; auto using norm_pos|]. rewrite gram.
    rewrite (sum_ext n _ (fun i => v i * sum n (fun k => ip d (input P i) (input P k) * v k))) by reflexivity.
    pose proof (form_upper n (fun i k => ip d (input P i) (input P k)) (over (w_span c) (p_x c)) (over (w_eps_x c) (p_x c)) (table prec N c (l_span N) (over_l c)) ltac:(auto) (fun i k Hi Hk => proj2 (proj2 (Nr i k Hi Hk))) v) as Q.
    replace (Q2R (w_X2 c) * norm n v * (Q2R (w_X2 c) * norm n v)) with (Q2R (w_X2 c) * Q2R (w_X2 c) * ip n v v) by (rewrite <- norm_sq; ring).
    eapply Rle_trans; [exact Q|]. apply Rmult_le_compat_r; [apply ip_pos|exact C6]. }
  assert (Ai : forall j, (j < m)%nat -> Rabs (read_out P theta0 j) <= Q2R (w_A c)).
  { intros j Hj. unfold theta0, P. rewrite (read_out_is c) by auto. pose proof (forallb_nth _ _ j row0 C4 Hj) as Q. cbv beta in Q. apply le_ok in Q.
    eapply Rle_trans; [|exact Q]. rewrite over_Q. unfold over, Rdiv. rewrite Rabs_mult, <- abs_IZR, (Rabs_right (/ _)); [lra|].
    apply Rle_ge, Rlt_le, Rinv_0_lt_compat, over_pos. }
  assert (NA : sum m (fun j => read_out P theta0 j * read_out P theta0 j) <= Q2R (total (fun cell => (fst cell * fst cell)%Z) (cells c) # over_a c * over_a c)).
  { right. rewrite over_Q. unfold over. rewrite (sum_list _ _ row0). unfold Rdiv. rewrite Rmult_comm, <- sum_scal. apply sum_ext. intros j Hj.
    unfold theta0, P. rewrite (read_out_is c) by auto. unfold over. rewrite mult_IZR, Pos2Z.inj_mul, mult_IZR. field. apply Rgt_not_eq, over_pos. }
  assert (Dsg : forall t, is_derive (activation P) t (dsg t)) by (intros; apply value_derive).
  assert (B1 : forall t, Rabs (dsg t) <= bound (bound_1 (activation_of c))) by (intros; apply slope_bound).
  assert (B2 : forall t u, Rabs (dsg t - dsg u) <= bound (bound_2 (activation_of c)) * Rabs (t - u)) by (intros; apply slope_lipschitz).
  assert (P1 : 0 <= bound (bound_1 (activation_of c))) by (unfold bound; destruct (activation_of c); simpl; lra).
  assert (P2 : 0 <= bound (bound_2 (activation_of c))) by (unfold bound; destruct (activation_of c); simpl; lra).
  assert (Delta0 : 0 <= Q2R (q_delta c)) by auto. assert (Err0 : 0 <= Q2R (w_err c)) by auto.
  assert (Round : forall v, norm (size P) (vsub (mtv n (jac P dsg theta0) v) (mtv n (shaped P B (free P Cm)) v)) <= Q2R (w_err c) * norm n v).
  { intros v. apply (rounding P dsg theta0 B Cm (Q2R (q_delta c)) (Q2R (w_err c)) (Q2R (total (own N) (lines prec N c) # p_x c))); auto.
    - intros i j Hi Hj. apply (Tab i j Hi Hj).
    - intros i j Hi Hj. apply (Tab i j Hi Hj). }
  assert (Form : forall v, ip (size P) (mtv n (shaped P B (free P Cm)) v) (mtv n (shaped P B (free P Cm)) v)
    = sum n (fun i => v i * sum n (fun k => gram_of P B (free P Cm) i k * v k))).
  { intros v. rewrite gram. apply sum_ext. intros i Hi. f_equal. apply sum_ext. intros k Hk. f_equal. apply shaped_gram. }
  assert (Low : forall v, Q2R (c_s c) * norm n v <= norm (size P) (mtv n (jac P dsg theta0) v)).
  { intros v. pose proof (form_lower n (gram_of P B (free P Cm)) (over (w_low c) (p_g c)) (over (w_eps c) (p_g c)) (table prec N c (l_low N) (over_l c)) ltac:(assumption) (fun i k Hi Hk => proj1 (Nr i k Hi Hk)) v) as Q.
    rewrite <- Form, <- !norm_sq in Q. pose proof (Round v) as Rv. rewrite norm_sub_sym in Rv.
    pose proof (norm_sub_tri (size P) (mtv n (shaped P B (free P Cm)) v) (mtv n (jac P dsg theta0) v)) as T.
    pose proof (norm_pos n v) as Pv. pose proof (norm_pos (size P) (mtv n (shaped P B (free P Cm)) v)) as Pj.
    assert (S1 : (Q2R (c_s c) + Q2R (w_err c)) * (Q2R (c_s c) + Q2R (w_err c)) <= over (w_low c) (p_g c) - INR n * over (w_eps c) (p_g c)) by assumption.
    assert (S2 : (Q2R (c_s c) + Q2R (w_err c)) * norm n v <= norm (size P) (mtv n (shaped P B (free P Cm)) v)).
    { assert (0 <= Q2R (c_s c)) by assumption. apply Rsqr_incr_0; unfold Rsqr; auto; [|apply Rmult_le_pos; lra].
      eapply Rle_trans; [|exact Q].
      replace ((Q2R (c_s c) + Q2R (w_err c)) * norm n v * ((Q2R (c_s c) + Q2R (w_err c)) * norm n v)) with ((Q2R (c_s c) + Q2R (w_err c)) * (Q2R (c_s c) + Q2R (w_err c)) * (norm n v * norm n v)) by ring.
      apply Rmult_le_compat_r; [apply Rmult_le_pos; auto|exact S1]. }
    lra. }
  assert (High : opT_le n (size P) (jac P dsg theta0) (Q2R (c_S c))).
  { intros v. pose proof (form_upper n (gram_of P B (free P Cm)) (over (w_high c) (p_g c)) (over (w_eps c) (p_g c)) (table prec N c (l_high N) (over_l c)) ltac:(assumption) (fun i k Hi Hk => proj1 (proj2 (Nr i k Hi Hk))) v) as Q.
    rewrite <- Form, <- !norm_sq in Q. pose proof (Round v) as Rv.
    pose proof (norm_sub_tri (size P) (mtv n (jac P dsg theta0) v) (mtv n (shaped P B (free P Cm)) v)) as T.
    pose proof (norm_pos n v) as Pv. pose proof (norm_pos (size P) (mtv n (shaped P B (free P Cm)) v)) as Pj.
    assert (S0 : Q2R (w_err c) <= Q2R (c_S c)) by assumption.
    assert (S1 : over (w_high c) (p_g c) + INR n * over (w_eps c) (p_g c) <= (Q2R (c_S c) - Q2R (w_err c)) * (Q2R (c_S c) - Q2R (w_err c))) by assumption.
    assert (S2 : norm (size P) (mtv n (shaped P B (free P Cm)) v) <= (Q2R (c_S c) - Q2R (w_err c)) * norm n v).
    { apply Rsqr_incr_0; unfold Rsqr; auto; [|apply Rmult_le_pos; lra].
      eapply Rle_trans; [exact Q|].
      replace ((Q2R (c_S c) - Q2R (w_err c)) * norm n v * ((Q2R (c_S c) - Q2R (w_err c)) * norm n v)) with ((Q2R (c_S c) - Q2R (w_err c)) * (Q2R (c_S c) - Q2R (w_err c)) * (norm n v * norm n v)) by ring.
      apply Rmult_le_compat_r; [apply Rmult_le_pos; auto|exact S1]. }
    lra. }
  assert (Lip : List.Forall (fun s : R * R => lipschitz_on n (size P) (jac P dsg) theta0 (fst s) (snd s)) steps).
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
    rewrite Hh in K1, K2. rewrite Hq in K2.
    apply (net_lipschitz P dsg (bound (bound_1 (activation_of c))) (bound (bound_2 (activation_of c))) Dsg B1 B2 P1 P2 ltac:(assumption)
      (Q2R (w_A c)) (Q2R (w_X1 c)) (Q2R (w_X2 c)) ltac:(assumption) ltac:(assumption) X1i X2u theta0 Ai); auto. }
  assert (Res : norm n (residual P theta0) <= Q2R (c_rho c)).
  { apply (residual_norm P theta0 Cm (Q2R (q_delta c)) (Q2R (total (fun cell => (fst cell * fst cell)%Z) (cells c) # over_a c * over_a c)) (fun i j Hi Hj => proj2 (Tab i j Hi Hj)) NA _ (Q2R (w_rho0 c)) (Q2R (w_erho c))); auto.
    set (av := map (fun cell => of_Z N (fst cell)) (cells c)) in *.
    assert (Av : forall j, entry N av j = IZR (fst (nth j (cells c) row0))).
    { intros j. unfold av. rewrite <- (map_map fst (of_Z N)), entry_map. f_equal. change 0%Z with (fst row0). apply map_nth. }
    apply Rle_trans with (over (total (fun l => (rest N c av l * rest N c av l)%Z) (lines prec N c)) (p_r c * p_r c)); [|assumption].
    right. unfold over. rewrite (sum_list _ _ (line_of prec N c (map (unit_of prec N c) (cells c)) (functions prec c) (iscale prec c) (idelta prec c) (row0, ([], ([], []))))), LL.
    unfold Rdiv. rewrite Rmult_comm, <- sum_scal. apply sum_ext. intros i Hi. fold (L i).
    assert (E : sum (units P) (fun j => read_out P theta0 j * Cm i j) - target P i = IZR (rest N c av (L i)) / IZR (Zpos (p_r c))).
    { assert (Pr : IZR (Zpos (p_r c)) = IZR (Zpos (over_a c)) * IZR (Zpos (over_t c)) * IZR (Zpos (over_y c))) by (unfold p_r; rewrite !Pos2Z.inj_mul, !mult_IZR; reflexivity).
      pose proof (over_pos (over_a c)). pose proof (over_pos (over_t c)). pose proof (over_pos (over_y c)).
      unfold rest. rewrite minus_IZR, !mult_IZR, Pos2Z.inj_mul, mult_IZR.
      change (IZR (to_Z N ?b)) with (real N b). rewrite (dot_ok N _ _ _ m) by (unfold av; rewrite map_length; auto).
      rewrite real_zero, Rplus_0_l, Pr.
      assert (Y : target P i = IZR (l_y N (L i)) / IZR (Zpos (over_y c))) by (unfold L; rewrite (L_is prec N c Shape i Hi); reflexivity).
      rewrite Y.
      rewrite (sum_ext (units P) _ (fun j => / (IZR (Zpos (over_a c)) * IZR (Zpos (over_t c))) * (entry N av j * entry N (l_c N (L i)) j))).
      - rewrite sum_scal. change (units P) with m. field. lra.
      - intros j Hj. unfold theta0, P. rewrite (read_out_is c) by exact Hj. rewrite Av. unfold Cm, table, over. fold (L i). field. lra. }
    rewrite E, mult_IZR, Pos2Z.inj_mul, mult_IZR. field. apply Rgt_not_eq, over_pos. }
  assert (S0 : 0 < Q2R (c_sigma c) <= Q2R (c_s c) - Q2R (q_M c)) by (split; assumption).
  assert (Es : Q2R (q_es c) = Q2R (c_eta c) * (Q2R (c_s c) * Q2R (c_s c))) by (unfold q_es; toR; reflexivity).
  rewrite !Es in *.
  assert (T1 := theorem_1 n (size P) (residual P) (jac P dsg) theta0 (gd n (residual P) (jac P dsg) start (Q2R (c_eta c)) K)
    (Q2R (c_rho c)) (Q2R (c_s c)) (Q2R (c_S c)) (Q2R (c_kappa c)) (Q2R (w_beta c)) (Q2R (c_b c)) (Q2R (q_R c)) (Q2R (c_eta c))
    (Q2R (c_distance c)) (Q2R (c_sigma c)) (Q2R (c_rate c)) (stair 0 0 steps) (area 0 0 steps)).
  assert (T2 : stairs n (size P) (jac P dsg) theta0 (Q2R (q_R c)) (stair 0 0 steps)).
  { intros th v l A1 A2. pose proof (norm_pos (size P) (vsub th theta0)).
    apply (op_ext n (size P) (msub (jac P dsg (vadd th v)) (jac P dsg th)) _ (0 * norm (size P) v + stair 0 0 steps (l + norm (size P) v) - stair 0 0 steps l)); auto; [ring|].
    apply climb with (theta0 := theta0); auto; try lra; try exact (jac_local P dsg); rewrite End; exact A2. }
  lapply T1; [clear T1; intros T1|exact (net_jacobian P dsg Dsg)].
  lapply T1; [clear T1; intros T1|exact (net_local P)].
  lapply T1; [clear T1; intros T1|exact (jac_local P dsg)].
  lapply T1; [clear T1; intros T1|exact T2].
  lapply T1; [clear T1; intros T1|apply stair_0; auto; lra].
  lapply T1; [clear T1; intros T1|intros x y Hxy; apply stair_mono; auto; lra].
  lapply T1; [clear T1; intros T1|apply area_0; auto; lra].
  lapply T1; [clear T1; intros T1|intros t; apply area_derive].
  rewrite EM, EI in T1.
  repeat (lapply T1; [clear T1; intros T1|first [assumption | split; assumption | lra]]).
  eapply (conclude P (jac P dsg)).
  - exact (net_jacobian P dsg Dsg).
  - exact (net_local P).
  - exact (jac_local P dsg).
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
  trains (problem_of c) (Q2R (c_eta c)) (anchor c) (anchor c) 0 (1 - Q2R (c_rate c)) (Q2R (radius c)) (c_further c) (Q2R (c_epsilon c)).
Proof.
  intros H. apply (check_sound prec N c H).
  assert (D : 0 <= Q2R (c_distance c)).
  { unfold check, checks, checks_of in H. cbn [forallb] in H. rewrite !andb_true_iff in H. split_all.
    rewrite <- Q_0. apply le_ok. assumption. }
  simpl. rewrite (norm_ext _ _ (vsc 0 (fun _ => 0))) by (intros; unfold vsub, vsc; ring). rewrite norm0. exact D.
Qed.
End Checker.
