"""The text of the exported file: the stored numbers, exactly, the theorem, and a proof that is a computation."""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from fractions import Fraction

import numpy as np

from wideproof.rocq.covered import ACTIVATIONS, Subject
from wideproof.rocq.numbers import BITS, DELTA, Numbers

NAMES = {
    "erf": "erf",
    "tanh": "tanh",
    "sin": "sin",
    "sigmoid": "(fun z => / (1 + exp (- z)))",
    "softplus": "(fun z => ln (1 + exp z))",
}
CLAIMS = ("s", "S", "rho", "sigma", "b", "eta", "rate", "kappa", "distance", "epsilon")
FINE = 30  # bits of inputs, at least: bounds of their squares are over their denominator too
# Kind of whole numbers, kind of floating point, its precision for tables of 40 bits.
ARITHMETICS = {
    "z": ("plain", "SpecificFloat StdZRadix2", 60),
    "bigz": ("big", "SpecificFloat BigIntRadix2", 60),
    "float": ("big", "PrimitiveFloat", 53),
}


def power(*arrays: np.ndarray | float) -> int:
    """Return the least k for which all entries times 2^k are whole numbers.

    >>> power(np.array([0.5, 3.0]), 0.125)
    3
    """
    numbers = {abs(float(v)) for a in arrays for v in np.unique(np.asarray(a, np.float64))}
    return max((v.as_integer_ratio()[1].bit_length() - 1 for v in numbers), default=0)


def whole(value: float, k: int) -> int:
    """Return value times 2^k, which is a whole number."""
    top, bottom = float(value).as_integer_ratio()
    return top * 2**k // bottom


def listed(numbers: Iterable[int]) -> str:
    """Return a list of whole numbers as Rocq writes it, to base 16, which it reads in half the time.

    >>> listed([1, -26])
    '[0x1;-0x1a]'
    """
    return f"[{';'.join(map(hex, numbers))}]"


def naturals(numbers: np.ndarray) -> str:
    """Return a list of natural numbers; 0, 1, 2, ... is `seq 0`, which is faster to read.

    >>> naturals(np.arange(5)), naturals(np.array([0, 1, 0]))
    ('seq 0 5', '[0; 1; 0]%nat')
    """
    if np.array_equal(numbers, np.arange(len(numbers))):
        return f"seq 0 {len(numbers)}"
    return f"[{'; '.join(map(str, numbers))}]%nat"


def rational(value: float | Fraction) -> str:
    """Return a number as a quotient of whole numbers.

    >>> rational(-0.75)
    '(-3 # 4)'
    """
    top, bottom = Fraction(value).as_integer_ratio()
    return f"({top} # {bottom})"


def real(value: float | Fraction) -> str:
    """Return a number as a quotient of whole numbers, in the reals."""
    top, bottom = Fraction(value).as_integer_ratio()
    return f"(IZR {f'({top})' if top < 0 else top} / IZR {bottom})"


def cells(weights: np.ndarray, outputs: np.ndarray, kw: int, ka: int) -> str:
    """Return pairs of a row of output weights (or of targets) and a row of weights (or of inputs)."""
    rows = (
        f"({listed(whole(v, ka) for v in a)}, {listed(whole(v, kw) for v in row)})"
        for a, row in zip(outputs, weights, strict=True)
    )
    return "[" + ";\n  ".join(rows) + "]"


def rounded(value: float, up: bool) -> str:
    """Return six significant digits, on the side on which the sentence stays true.

    >>> rounded(0.1234567, up=True)
    '0.123457'
    """
    direction = ROUND_CEILING if up else ROUND_FLOOR
    return f"{Context(prec=6, rounding=direction).create_decimal(value).normalize():.6g}"


def sentence(subject: Subject, found: Numbers) -> str:
    """Return the theorem of the exported file in words."""
    c, n = found.claims, len(subject.x)
    begin = f"Gradient descent with step size {c['eta']!r} from these weights"
    if subject.begun is not None:
        begin = (
            f"Gradient descent with step size {c['eta']!r}, started at the start weights, comes within "
            f"{rounded(c['distance'], up=True)} of the anchor in {subject.steps} steps, and from there it"
        )
    to, above = "zero loss", ""
    if found.least:
        about = "" if float(rounded(float(found.least), up=True)) == found.least else "about "
        to = f"the least loss that any function of the inputs has, {about}{rounded(float(found.least), up=True)},"
        above = " above it"
    reached, radius = rounded(c["epsilon"], up=True), rounded(found.radii[-1], up=True)
    return (
        f"{begin} converges to {to} on {n} rows, in exact arithmetic: each step multiplies the residual by at "
        f"most 1 - {rounded(c['rate'], up=False)}, the weights move by less than {radius}, and after "
        f"{subject.claims['steps']}{' more' if subject.begun is not None else ''} steps the loss is at most "
        f"{reached}{above}."
    )


def source(subject: Subject, found: Numbers, arithmetic: str, name: str) -> str:
    """Return the whole file."""
    kind, floats, least = ARITHMETICS[arithmetic]
    precision = f"F.PtoP {least + found.bits - BITS}"
    begun = (subject.weights, subject.outputs) if subject.begun is None else subject.begun
    kx, ky = max(power(subject.x), FINE), power(subject.y)
    kw, ka = power(subject.weights, begun[0]), power(subject.outputs, begun[1])
    n, m, d, outs = len(subject.x), len(subject.weights), subject.x.shape[1], subject.y.shape[1]
    c, b = found.claims, found.bounds
    kg = 2 * (kx + found.bits)
    scaled = {
        "low": math.floor(Fraction(b["low"]) * 2**kg), "high": math.ceil(Fraction(b["high"]) * 2**kg),
        "eps": math.ceil(Fraction(b["eps"]) * 2**kg), "span": math.ceil(Fraction(b["span"]) * 2 ** (2 * kx)),
        "eps_x": math.ceil(Fraction(b["eps_x"]) * 2 ** (2 * kx)),
    }  # fmt: skip
    steps = "; ".join(f"({rational(t)}, {rational(v)})" for t, v in zip(found.radii, found.lipschitz, strict=True))
    triangles = [[listed(map(int, row[: i + 1])) for i, row in enumerate(factor)] for factor in found.factors]
    pairs = [f"({low}, {high})" for low, high in zip(*triangles[:2], strict=True)]
    factors = ";\n  ".join(f"[{'; '.join(pairs[i : i + outs])}]" for i in range(0, len(pairs), outs))
    cons = {"x": 2**kx, "y": 2**ky, "w": 2**kw, "a": 2**ka, "t": 2**found.bits, "l": 2**BITS}
    fields = [
        f"activation_of := {ACTIVATIONS[subject.activation]}", f"trained_read_out := {str(subject.both).lower()}",
        f"width_of_inputs := {d}", f"width_of_outputs := {outs}",
        *(f"over_{key} := {value}" for key, value in cons.items()),
        f"scale_of := {rational(subject.scale)}", "data := rows_of_table", "cells := anchor_weights",
        f"groups := {naturals(subject.place)}", f"firsts := {naturals(subject.first)}",
        f"c_least := {rational(found.least)}", f"w_most := {np.bincount(subject.place).max()}",
        *(f"c_{key} := {rational(c[key])}" for key in CLAIMS),
        f"c_steps := [{steps}]", f"c_further := {subject.claims['steps']}", f"w_delta := {DELTA[arithmetic]}",
        *(f"w_{key} := {rational(b[key])}" for key in ("err", "erho", "rho0", "A", "X1", "X2", "beta")),
        *(f"w_{key} := {value}" for key, value in scaled.items()), "factors := factors_of_gram",
        "spans := factor_of_inputs",
    ]  # fmt: skip
    words = sentence(subject, found)
    files = "\n".join(f"   SHA-256 of {file}: {digest}" for file, digest in sorted(subject.digests.items()))
    same = (
        "of the certificate"
        if not found.weakened
        else f"of the certificate, but for {', '.join(sorted(set(found.weakened)))}"
    )
    first = subject.begun is None
    begin_name = "anchor_weights" if first else "start_weights"
    followed = "" if first else f"Definition start_weights : list (list Z * list Z) := {cells(*begun, kw, ka)}%Z.\n"
    proof = f"apply (W.K.check_here ({precision}) {kind} c). vm_cast_no_check (eq_refl true)."
    if not first:  # enclosures widen at every step, and a step loses some bits
        fine = f"F.PtoP {80 + 8 * subject.steps}"
        proof = (
            f"apply (W.check_from ({fine}) ({precision}) {kind} c start_weights {subject.steps}).\n"
            "  split; vm_cast_no_check (eq_refl true)."
        )
    layers = f"hidden weights{' and the output weights' if subject.both else ''}"
    return f"""(* {words}

   The network: f(x) = sum over {m} units of a_j c g(w_j . x), g = {subject.activation}, on {d} inputs; the number
   of outputs is {outs}. Trained are the {layers}. The loss is half the sum of squares over all rows and outputs.
   Written by wideproof rocq from {name}; the claims are those {same}.
{files} *)
From Coq Require Import Reals ZArith QArith List.
From Interval Require Import Float.Specific_stdz Float.Specific_ops Float.Specific_bigint Float.Primitive_ops.
From Wideproof Require Import Statement theories.Activations theories.Integers theories.Certificate.
From Wideproof Require Import theories.Checker theories.Following.
Import ListNotations.
Open Scope R_scope.

(* every row: its targets over 2^{ky}, and its inputs over 2^{kx} *)
Definition rows_of_table : list (list Z * list Z) := {cells(subject.x, subject.y, kx, ky)}%Z.
(* every unit: its output weights over 2^{ka}, and its weights over 2^{kw} *)
Definition anchor_weights : list (list Z * list Z) := {cells(subject.weights, subject.outputs, kw, ka)}%Z.
{followed}
Definition entry (table : list (list Z * list Z)) (i l : nat) : R := IZR (nth l (snd (nth i table ([], []))) 0%Z).
Definition head (table : list (list Z * list Z)) (i o : nat) : R := IZR (nth o (fst (nth i table ([], []))) 0%Z).
Definition P : problem := {{|
  rows := {n}; units := {m}; inputs := {d}; outputs := {outs};
  input := fun i l => entry rows_of_table i l / IZR {2**kx}; target := fun i o => head rows_of_table i o / IZR {2**ky};
  activation := {NAMES[subject.activation]}; scale := {real(subject.scale)};
  read_out_trained := {str(subject.both).lower()};
  fixed := fun q => head anchor_weights (q / {outs}) (q mod {outs}) / IZR {2**ka} |}}.
Definition weights (table : list (list Z * list Z)) : vec := fun q =>
  if Nat.ltb q (units P * inputs P) then entry table (q / inputs P) (q mod inputs P) / IZR {2**kw}
  else head table ((q - units P * inputs P) / outputs P) ((q - units P * inputs P) mod outputs P) / IZR {2**ka}.

(* what only the proof reads *)
Definition factors_of_gram : list (list (list Z * list Z)) := [{factors}]%Z.
Definition factor_of_inputs : list (list Z) := [{"; ".join(triangles[2])}]%Z.
Definition c : certificate := {{|
  {(";" + chr(10) + "  ").join(fields)} |}}.
Module F := {floats}.
Module W := Following F.

Theorem certificate_holds : trains P {real(c["eta"])} (weights {begin_name}) (weights anchor_weights)
  {subject.steps} (1 - {real(c["rate"])}) {real(found.radii[-1])} {subject.claims["steps"]}%Z {real(c["epsilon"])}
  {real(found.least)}.
Proof. {proof} Qed.
Print Assumptions certificate_holds.
"""
