"""Rocq's kernel accepts what is exported, and nothing that was spoilt; these tests are skipped where it is missing."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import scipy.special
from typer.testing import CliRunner

from tests.rocq.conftest import X, Y, network
from wideproof.certificates import Certificate, Problem, certify
from wideproof.cli import app
from wideproof.data import Dataset
from wideproof.rocq import check, export, find_rocq, kernel

needs_rocq = pytest.mark.skipif(find_rocq() is None, reason="coqc is not installed")


def test_without_rocq_nothing_is_judged(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    said = check(export(folder).text, "bigz")
    assert not said.accepted
    assert not said.judged
    assert "coqc is not installed" in said.reason


def test_the_command_ends_with_the_codes_of_verify(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    run, file = CliRunner().invoke, tmp_path / "xor.v"
    done = run(app, ["rocq", str(folder), "--out", str(file)])
    assert done.exit_code == 0, done.output
    assert "Gradient descent with step size" in done.output
    assert "Theorem certificate_holds" in file.read_text()
    assert run(app, ["rocq", str(folder), "--out", str(file), "--check"]).exit_code == 3
    (folder / "certificate.json").write_text((folder / "certificate.json").read_text().replace("tanh", "sinh"))
    done = run(app, ["rocq", str(folder)])
    assert done.exit_code == 2
    assert "Malformed" in done.output


def test_the_axioms_of_each_arithmetic() -> None:
    real, whole, floating = "Classical_Prop.classic", "Uint63.add_spec", "FloatAxioms.add_spec"
    found = {kind: [kernel.allowed(name, kind) for name in (real, whole, floating)] for kind in ("z", "bigz", "float")}
    assert found == {"z": [True, False, False], "bigz": [True, True, False], "float": [True, True, True]}
    assert not any(kernel.allowed("certificate_holds", kind) for kind in found)


def test_the_theories_assume_nothing_and_say_what_is_believed_in_sixty_lines() -> None:
    for name in kernel.ORDER:
        text = re.sub(r"\(\*.*?\*\)", "", (kernel.THEORIES / name).read_text(), flags=re.DOTALL)
        assert kernel.WORDS.search(text) is None, name
    assert len((kernel.THEORIES / "Statement.v").read_text().splitlines()) <= 60
    assert kernel.WORDS.search("Lemma a : False. Admitted.")
    assert kernel.WORDS.search("Axiom a : False.")
    assert {f"theories/{path.name}" for path in (kernel.THEORIES / "theories").glob("*.v")} == set(kernel.ORDER[1:])


def test_every_lemma_that_the_page_names_is_in_its_theory() -> None:
    page = Path(__file__).parents[2] / "docs" / "theory" / "formal.md"
    named = re.findall(r"`(\w+\.v)`: ((?:`\w+`(?:, )?)+)", page.read_text(encoding="utf-8"))
    assert len(named) > 10
    for file, listed in named:
        text = (kernel.THEORIES / "theories" / file).read_text()
        for name in re.findall(r"`(\w+)`", listed):
            assert re.search(rf"^(Lemma|Theorem|Corollary) {name}\b", text, re.MULTILINE), (file, name)


@needs_rocq
@pytest.mark.slow
@pytest.mark.parametrize("arithmetic", ["bigz", "float", "z"])
def test_the_kernel_accepts_what_is_exported(folder: Path, arithmetic: str) -> None:
    said = check(export(folder, arithmetic).text, arithmetic)
    assert said.accepted, said.reason
    assert set(said.axioms) >= {"ClassicalDedekindReals.sig_forall_dec"}


@needs_rocq
@pytest.mark.slow
@pytest.mark.parametrize("arithmetic", ["bigz", "float", "z"])
def test_the_kernel_accepts_several_outputs_and_equal_inputs(
    thrice: Certificate, tmp_path: Path, arithmetic: str
) -> None:
    said = check(export(thrice.save(tmp_path / "thrice"), arithmetic).text, arithmetic)
    assert said.accepted, said.reason


@needs_rocq
@pytest.mark.slow
@pytest.mark.parametrize("arithmetic", ["bigz", "float", "z"])
def test_the_kernel_accepts_the_error_function(tmp_path: Path, arithmetic: str) -> None:
    net = network(activation="erf", width=64)
    found = certify(Problem(net, Dataset(X, Y, "binary")).at(net.init(0))).certificate
    assert found is not None
    text = export(found.save(tmp_path / "erf"), arithmetic).text
    assert "activation := erf;" in text
    said = check(text, arithmetic)
    assert said.accepted, said.reason


@needs_rocq
@pytest.mark.slow
def test_the_enclosures_of_the_error_function_hold_it_and_are_narrow(tmp_path: Path) -> None:
    points = [0, 1, -37, 64, 200, -315, 384, -385, 1000]  # over 64
    (tmp_path / "erf.v").write_text(
        "From Coq Require Import ZArith List. Import ListNotations.\n"
        "From Interval Require Import Float.Basic Float.Specific_stdz Float.Specific_ops.\n"
        "From Wideproof Require Import theories.Activations theories.Enclosures.\n"
        "Module F := SpecificFloat StdZRadix2. Module E := Enclosures F. Definition p := F.PtoP 70.\n"
        "Definition whole x := let k := E.guess x (2 ^ 60) in (k, E.close p x k (E.ratio p 1 (2 ^ 44)) (2 ^ 60)).\n"
        "Definition at_point k := let v := E.both p Erf (E.ratio p k 64) in (whole (fst v), whole (snd v)).\n"
        f"Eval vm_compute in map at_point {str(points).replace(',', ';')}%Z.\n"
    )
    command = ["coqc", "-q", "-w", "none", "-Q", str(kernel.theories()), "Wideproof", "erf.v"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    found = re.findall(r"(-?\d+)\)?,\s*(true|false)", said.replace("%Z", ""))
    numbers = [int(b) / 2**60 for b, near in found if near == "true"]
    assert len(numbers) == 2 * len(points)
    x = np.array(points) / 64
    np.testing.assert_allclose(numbers[::2], scipy.special.erf(x), rtol=0, atol=2**-44)
    np.testing.assert_allclose(numbers[1::2], 2 / np.sqrt(np.pi) * np.exp(-x * x), rtol=0, atol=2**-44)


# Twice as much is too much, and half of the others too little.
UP = ("c_s", "c_sigma", "c_eta", "c_rate", "c_kappa", "w_low")
DOWN = ("c_S", "c_rho", "c_b", "c_epsilon", "c_least", "w_high", "w_span", "w_most", "w_err", "w_erho", "w_rho0", "w_A",
        "w_X1", "w_X2")  # fmt: skip
FIRST = {
    "factor_low": r"factors_of_gram[^[]*\[\[\(\[", "factor_high": r"factors_of_gram[^[]*\[\[\(\[[^[]*\[",
    "factor_x": r"factor_of_inputs[^[]*\[\[", "label": r"rows_of_table[^[]*\[\(\[",
    "input": r"rows_of_table[^[]*\[\(\[[^[]*\[",
    "weight": r"anchor_weights : [^[]*\[\(\[[^[]*\[", "output_weight": r"anchor_weights : [^[]*\[\(\[",
}  # fmt: skip
LINES = (*UP, *DOWN, *FIRST, "c_steps", "c_lipschitz", "c_further", "groups", "firsts")


def spoiled(text: str, line: str) -> str:
    """One number of an exported file is changed, and in the theorem too where it stands there by its value."""
    if line == "groups":  # the last row in a group of other inputs
        return text.replace("groups := [0; 1; 2; 3; 3]%nat", "groups := [0; 1; 2; 3; 2]%nat")
    if line == "firsts":
        return text.replace("firsts := seq 0 4", "firsts := [1; 0; 2; 3]%nat")
    if line == "c_steps":  # the first radius
        return re.sub(r"c_steps := \[\(\((\d+)", lambda m: f"c_steps := [(({int(m[1]) // 2}", text)
    if line == "c_lipschitz":
        return re.sub(r"(c_steps := \[\(\(\d+ # \d+\), \()(\d+)", lambda m: m[1] + str(int(m[2]) // 2), text)
    if line == "c_further":
        text = re.sub(r"c_further := \d+", "c_further := 9", text)
        return re.sub(r" \d+%Z \(IZR", " 9%Z (IZR", text)
    if line in FIRST:  # one number
        return re.sub(rf"({FIRST[line]})(-?0x[0-9a-f]+)", lambda m: f"{m[1]}{hex(int(m[2], 16) * 2)}", text, count=1)
    whole = re.search(rf"{line} := (\d+);", text)
    if whole is not None:
        return text.replace(whole[0], f"{line} := {int(whole[1]) * 2 if line in UP else int(whole[1]) // 2};")
    value = re.search(rf"{line} := \((\d+) # (\d+)\)", text)
    assert value is not None, line
    top, bottom = int(value[1]) * (2 if line in UP else 1), int(value[2]) * (1 if line in UP else 2)
    text = text.replace(value[0], f"{line} := ({top} # {bottom})")
    return text.replace(f"(IZR {value[1]} / IZR {value[2]})", f"(IZR {top} / IZR {bottom})")


@needs_rocq
@pytest.mark.slow
def test_the_checker_refuses_every_spoilt_number(thrice: Certificate, tmp_path: Path) -> None:
    text = export(thrice.save(tmp_path / "thrice")).text
    head = text[text.index("From Coq") : text.index("(* every row")]
    floats, parts = "Module F := SpecificFloat BigIntRadix2.\nModule K := Checker F.\n", []
    for line in ("as it is", *LINES):
        changed = text if line == "as it is" else spoiled(text, line)
        assert (changed == text) == (line == "as it is"), line
        definitions = changed[changed.index("(* every row") : changed.index("Module F :=")]
        name = f"C{len(parts)}"
        evaluated = f"Eval vm_compute in K.check (F.PtoP 60) big {name}.c.\n"
        parts.append(f"Module {name}.\n{definitions}End {name}.\n{evaluated}")
    (tmp_path / "all.v").write_text(head + floats + "".join(parts))
    command = ["coqc", "-q", "-w", "none", "-Q", str(kernel.theories()), "Wideproof", "all.v"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    verdicts = dict(zip(("as it is", *LINES), re.findall(r"= (true|false)", said), strict=True))
    assert [line for line, verdict in verdicts.items() if verdict == "true"] == ["as it is"]


@needs_rocq
@pytest.mark.slow
@pytest.mark.parametrize("line", ["c_rate", "label", "factor_low"])
def test_the_kernel_refuses_a_spoilt_file(thrice: Certificate, tmp_path: Path, line: str) -> None:
    text = export(thrice.save(tmp_path / "thrice")).text
    said = check(spoiled(text, line), "bigz")
    assert said.judged
    assert not said.accepted


@needs_rocq
@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "weaker"),
    [
        ("le (c_S c + q_M) (c_b c);", "le (c_S c) (c_b c);"),
        ("Z.leb (b_n b) (w_most c)", "Z.leb (b_n b) (w_most c + 1)"),
        ("(length (firsts c)) && same (snd (snd p))", "(length (firsts c)) || same (snd (snd p))"),
        ("le ((c_s c + w_err c) * (c_s c + w_err c))", "le (c_s c * c_s c)"),
        ("lt 0 (c_sigma c) && le (c_sigma c) (c_s c - q_M)", "lt 0 (c_sigma c) && le (c_sigma c) (c_s c)"),
    ],
)
def test_a_weaker_checker_is_not_sound(tmp_path: Path, part: str, weaker: str) -> None:
    library = shutil.copytree(kernel.theories(), tmp_path / "theories")
    text = (library / "theories" / "Checker.v").read_text()
    assert text.count(part) == 1
    (library / "theories" / "Checker.v").write_text(text.replace(part, weaker))
    command = ["coqc", "-q", "-w", "none", "-Q", ".", "Wideproof", "theories/Checker.v"]
    done = subprocess.run(command, cwd=library, capture_output=True, text=True)
    assert done.returncode != 0
    assert "Error" in done.stderr + done.stdout
