"""Rocq and the verifier say the same of random certificates, half of which were spoilt."""

from __future__ import annotations

import dataclasses
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from wideproof.certificates import Certificate, Problem, certify
from wideproof.data import Dataset
from wideproof.networks import FullyConnected
from wideproof.rocq import export, find_rocq, kernel
from wideproof.rocq.covered import ACTIVATIONS
from wideproof_verify import verify

COUNT = 100
FURTHER = {"s": 1.05, "S": 0.9, "rho": 0.9, "sigma": 1.5, "b": 0.8, "eta": 3.0, "rate": 1.5, "label": 2.0}
HEAD = """From Coq Require Import Reals ZArith QArith List.
From Interval Require Import Float.Specific_ops Float.Specific_bigint.
From Wideproof Require Import Statement theories.Activations theories.Integers theories.Certificate theories.Checker.
Import ListNotations.
Module F := SpecificFloat BigIntRadix2.
Module K := Checker F.
"""


def drawn(rng: np.random.Generator) -> Certificate:
    """A certificate of a random network on random rows."""
    while True:
        n, d = int(rng.integers(2, 6)), int(rng.integers(2, 5))
        kind, both = str(rng.choice(list(ACTIVATIONS))), bool(rng.integers(2))
        trained = ("hidden", "output") if both else ("hidden",)
        alpha = float(rng.choice([30, 100]))
        outputs, again = int(rng.integers(1, 4)), int(rng.integers(3))  # so many rows are there twice
        net = FullyConnected(d, outputs=outputs, width=32 * outputs, depth=1, activation=kind, trained=trained,  # pyright: ignore[reportArgumentType]
                             start="doubled", alpha=alpha)  # fmt: skip
        x, y = rng.standard_normal((n, d)), rng.choice([-1.0, 1.0], (n + again, outputs))
        data = Dataset(np.vstack([x, x[:again]]), y[:, 0] if outputs == 1 else y, "regression")
        found = certify(Problem(net, data).at(net.init(int(rng.integers(100))))).certificate
        if found is not None and "nested" not in found.claims:
            return found


def spoiled(certificate: Certificate, claim: str) -> Certificate:
    """One number of a certificate is changed."""
    if claim == "label":
        return dataclasses.replace(certificate, y=np.concatenate([certificate.y[:1] * 2, certificate.y[1:]]))
    return dataclasses.replace(
        certificate, claims={**certificate.claims, claim: certificate.claims[claim] * FURTHER[claim]}
    )


def spoiled_text(text: str, claim: str) -> str:
    """The same number of an exported file is changed."""
    if claim == "label":
        return re.sub(
            r"(rows_of_table[^[]*\[\(\[)(-?0x[0-9a-f]+)", lambda m: m[1] + hex(2 * int(m[2], 16)), text, count=1
        )
    factor = round(FURTHER[claim] * 100)
    return re.sub(rf"c_{claim} := \((\d+) # (\d+)\)", lambda m: f"c_{claim} := ({int(m[1]) * factor} # {m[2]}00)", text)


@pytest.mark.skipif(find_rocq() is None, reason="coqc is not installed")
@pytest.mark.slow
def test_rocq_and_the_verifier_agree_on_a_hundred_certificates_half_of_them_spoilt(tmp_path: Path) -> None:
    rng, parts, verdicts = np.random.default_rng(7), [HEAD], []
    for at in range(COUNT):
        found = drawn(rng)
        text, claim = export(found.save(tmp_path / f"{at}")).text, sorted(FURTHER)[at // 2 % len(FURTHER)]
        if at % 2:
            changed = spoiled_text(text, claim)
            assert changed != text
            text, found = changed, spoiled(found, claim)
        definitions = text[text.index("(* every row") : text.index("Module F :=")]
        parts.append(f"Module C{at}.\n{definitions}End C{at}.\nEval vm_compute in K.check (F.PtoP 60) big C{at}.c.\n")
        verdicts.append(verify(found.save(tmp_path / f"{at}-judged")).answer == "proved")
    (tmp_path / "all.v").write_text("".join(parts))
    command = ["coqc", "-q", "-w", "none", "-Q", str(kernel.theories()), "Wideproof", "all.v"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert [word == "true" for word in re.findall(r"= (true|false)", said)] == verdicts
    assert verdicts == [at % 2 == 0 for at in range(COUNT)]
