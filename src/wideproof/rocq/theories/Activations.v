(* Activations with their slopes and the constants of the format: |g'| <= L1, and g' is L2-Lipschitz. *)
From Coq Require Import Reals Lra Lia Psatz ZArith.
From Coquelicot Require Import Coquelicot.
From Wideproof Require Import Statement theories.Vectors theories.Erf.
Open Scope R_scope.

Lemma by_slope (f df : R -> R) c : (forall t, is_derive f t (df t)) -> (forall t, Rabs (df t) <= c) ->
  forall t u, Rabs (f t - f u) <= c * Rabs (t - u).
Proof.
  intros D B t u. destruct (MVT_gen f u t df) as [z [_ E]].
  - intros; apply D.
  - intros z _. apply derivable_continuous_pt. exists (df z). apply is_derive_Reals. apply D.
  - rewrite E, Rabs_mult. apply Rmult_le_compat_r; [apply Rabs_pos|apply B].
Qed.

Definition dtanh x := 1 - tanh x * tanh x.
Lemma tanh_exp x : tanh x = 1 - 2 / (exp (x + x) + 1).
Proof.
  unfold tanh, sinh, cosh. rewrite exp_plus, exp_Ropp. pose proof (exp_pos x). field. split; [apply Rgt_not_eq; assert (0 < exp x * exp x) by (apply Rmult_lt_0_compat; auto); lra|apply Rgt_not_eq; auto].
Qed.
Lemma tanh_bound x : -1 < tanh x < 1.
Proof.
  rewrite tanh_exp. pose proof (exp_pos (x + x)).
  assert (0 < 2 / (exp (x + x) + 1)) by (apply Rdiv_lt_0_compat; lra).
  assert (2 / (exp (x + x) + 1) < 2). { apply Rmult_lt_reg_r with (exp (x + x) + 1); [lra|]. field_simplify; lra. }
  lra.
Qed.
Lemma tanh_derive x : is_derive tanh x (dtanh x).
Proof.
  unfold dtanh. rewrite tanh_exp.
  apply (is_derive_ext (fun x => 1 - 2 / (exp (x + x) + 1))); [intros; rewrite tanh_exp; auto|].
  pose proof (exp_pos (x + x)). auto_derive; [lra|]. field. lra.
Qed.
Lemma dtanh_bound x : Rabs (dtanh x) <= 1.
Proof. unfold dtanh. pose proof (tanh_bound x). apply Rabs_le. nra. Qed.
Lemma dtanh_lipschitz x y : Rabs (dtanh x - dtanh y) <= 7698004 / 10000000 * Rabs (x - y).
Proof.
  apply (by_slope dtanh (fun t => - 2 * tanh t * dtanh t)).
  - intros t. apply is_derive_Reals. unfold dtanh at 1.
    replace (- 2 * tanh t * dtanh t) with (0 - (dtanh t * tanh t + tanh t * dtanh t)) by ring.
    pose proof (proj1 (is_derive_Reals _ _ _) (tanh_derive t)) as T.
    apply (derivable_pt_lim_minus (fun _ => 1) (fun x => tanh x * tanh x)); [apply derivable_pt_lim_const|].
    apply (derivable_pt_lim_mult tanh tanh); exact T.
  - intros z. unfold dtanh. pose proof (tanh_bound z). set (t := tanh z) in *. apply Rabs_le.
    (* tangents of the cubic at +-1/sqrt 3, nearly *)
    set (a := 57735027 / 100000000).
    assert (0 <= (t - a) * (t - a) * (t + 2 * a)) by (apply Rmult_le_pos; [apply Rle_0_sqr|unfold a; lra]).
    assert (0 <= (t + a) * (t + a) * (2 * a - t)) by (apply Rmult_le_pos; [apply Rle_0_sqr|unfold a; lra]).
    unfold a in *. split; lra.
Qed.

Definition sigmoid x := / (1 + exp (- x)).
Definition dsigmoid x := / 4 * dtanh (/ 2 * x).
Lemma sigmoid_tanh x : sigmoid x = / 2 + / 2 * tanh (/ 2 * x).
Proof.
  rewrite tanh_exp. replace (/ 2 * x + / 2 * x) with x by field. unfold sigmoid. rewrite exp_Ropp. pose proof (exp_pos x).
  field. split; lra.
Qed.
Lemma half_derive f df x : is_derive f (/ 2 * x) df -> is_derive (fun x => f (/ 2 * x)) x (/ 2 * df).
Proof.
  intros H. evar_last; [apply (is_derive_comp f (fun x => / 2 * x)); [exact H|]; apply is_derive_scal; apply @is_derive_id|].
  unfold scal, one; simpl; unfold mult; simpl. ring.
Qed.
Lemma sigmoid_derive x : is_derive sigmoid x (dsigmoid x).
Proof.
  apply (is_derive_ext (fun x => / 2 + / 2 * tanh (/ 2 * x))); [intros; rewrite sigmoid_tanh; auto|].
  evar_last.
  - apply @is_derive_plus; [apply @is_derive_const|]. apply is_derive_scal. apply (half_derive tanh). apply tanh_derive.
  - unfold plus, zero, dsigmoid; simpl. field.
Qed.
Lemma dsigmoid_bound x : Rabs (dsigmoid x) <= / 4.
Proof. unfold dsigmoid. rewrite Rabs_mult, (Rabs_right (/ 4)) by lra. pose proof (dtanh_bound (/ 2 * x)). lra. Qed.
Lemma dsigmoid_lipschitz x y : Rabs (dsigmoid x - dsigmoid y) <= 9622505 / 100000000 * Rabs (x - y).
Proof.
  unfold dsigmoid. replace (/ 4 * dtanh (/ 2 * x) - / 4 * dtanh (/ 2 * y)) with (/ 4 * (dtanh (/ 2 * x) - dtanh (/ 2 * y))) by ring.
  rewrite Rabs_mult, (Rabs_right (/ 4)) by lra. pose proof (dtanh_lipschitz (/ 2 * x) (/ 2 * y)) as H.
  replace (/ 2 * x - / 2 * y) with (/ 2 * (x - y)) in H by ring. rewrite Rabs_mult, (Rabs_right (/ 2)) in H by lra. lra.
Qed.

Definition softplus x := ln (1 + exp x).
Lemma softplus_derive x : is_derive softplus x (sigmoid x).
Proof.
  unfold softplus, sigmoid. pose proof (exp_pos x). rewrite exp_Ropp.
  auto_derive; [lra|]. field. split; lra.
Qed.
Lemma sigmoid_bound x : Rabs (sigmoid x) <= 1.
Proof. rewrite sigmoid_tanh. pose proof (tanh_bound (/ 2 * x)). apply Rabs_le; lra. Qed.

Inductive act := Erf | Tanh | Sigmoid | Softplus | Sin.
Definition value (a : act) : R -> R := match a with Erf => erf | Tanh => tanh | Sigmoid => sigmoid | Softplus => softplus | Sin => sin end.
Definition slope (a : act) : R -> R := match a with Erf => derf | Tanh => dtanh | Sigmoid => dsigmoid | Softplus => sigmoid | Sin => cos end.
(* the constants, as numerators over 10^8 *)
Definition bound_1 (a : act) : Z := match a with Erf => 112837917 | Tanh => 100000000 | Sigmoid => 25000000 | Softplus => 100000000 | Sin => 100000000 end.
Definition bound_2 (a : act) : Z := match a with Erf => 96788290 | Tanh => 76980040 | Sigmoid => 9622505 | Softplus => 25000000 | Sin => 100000000 end.
Definition bound (k : Z) : R := IZR k / 100000000.

Lemma value_derive a t : is_derive (value a) t (slope a t).
Proof. destruct a; [apply erf_derive|apply tanh_derive|apply sigmoid_derive|apply softplus_derive|apply is_derive_Reals, derivable_pt_lim_sin]. Qed.
Lemma slope_bound a t : Rabs (slope a t) <= bound (bound_1 a).
Proof.
  unfold bound; destruct a; simpl.
  - apply derf_bound.
  - pose proof (dtanh_bound t); lra.
  - pose proof (dsigmoid_bound t); lra.
  - pose proof (sigmoid_bound t); lra.
  - pose proof (COS_bound t). apply Rabs_le; lra.
Qed.
Lemma slope_lipschitz a t u : Rabs (slope a t - slope a u) <= bound (bound_2 a) * Rabs (t - u).
Proof.
  unfold bound; destruct a; simpl slope; simpl bound_2; pose proof (Rabs_pos (t - u)).
  - apply (by_slope derf (fun x => 2 / sqrt PI * (- (2 * x) * gauss x))); [apply derf_derive|apply derf_slope_bound].
  - pose proof (dtanh_lipschitz t u); lra.
  - pose proof (dsigmoid_lipschitz t u); lra.
  - pose proof (by_slope sigmoid dsigmoid (/ 4) sigmoid_derive dsigmoid_bound t u). lra.
  - assert (D : forall z, is_derive cos z (- sin z)) by (intros; apply is_derive_Reals, derivable_pt_lim_cos).
    assert (B : forall z, Rabs (- sin z) <= 1) by (intros z; pose proof (SIN_bound z); apply Rabs_le; lra).
    pose proof (by_slope cos (fun z => - sin z) 1 D B t u). lra.
Qed.
