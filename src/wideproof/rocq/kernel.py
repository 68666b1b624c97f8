"""Running Rocq: compile the theories once, check a file, and compare the axioms that it rests on with a list."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

THEORIES = Path(__file__).parent
ORDER = tuple(
    line for line in (THEORIES / "_CoqProject").read_text(encoding="utf-8").splitlines() if line.endswith(".v")
)
CACHE = "WIDEPROOF_ROCQ"  # the folder of compiled theories, where it is not the user's
REALS = {
    "ClassicalDedekindReals.sig_forall_dec", "ClassicalDedekindReals.sig_not_dec",
    "FunctionalExtensionality.functional_extensionality_dep", "Classical_Prop.classic",
}  # fmt: skip
# Specified by axioms, and computed by the processor: integers of 63 bits, and floating point of 53.
INTEGERS, FLOATS = ("Uint63.", "PrimInt63."), ("FloatAxioms.", "PrimFloat.", "FloatOps.")
WORDS = re.compile(r"\b(Admitted|admit|Axioms?|Parameters?|Conjecture|give_up|bypass_check)\b")


@dataclass(frozen=True)
class Checked:
    """What Rocq said about a file.

    Attributes
    ----------
    accepted
        Whether its kernel accepted the theorem, with no axiom outside of the list.
    reason
        Why not, or what was not judged.
    judged
        Whether there was an answer: Rocq was there, and ended in time.
    axioms
        Everything that the theorem rests on besides the kernel.
    seconds, megabytes
        Time and memory that Rocq took, without the theories.
    """

    accepted: bool
    reason: str
    judged: bool
    axioms: tuple[str, ...] = ()
    seconds: float = 0.0
    megabytes: float = 0.0


def find_rocq() -> str | None:
    """Return the path of Rocq's compiler, `coqc`, or `None` where there is none.

    Returns
    -------
    str or None
        The path.
    """
    return shutil.which("coqc")


def allowed(axiom: str, arithmetic: str) -> bool:
    """Return whether a theorem may rest on an axiom.

    >>> allowed("Uint63.add_spec", "bigz"), allowed("Uint63.add_spec", "z")
    (True, False)
    """
    if axiom in REALS:
        return True
    return (arithmetic != "z" and axiom.startswith(INTEGERS)) or (arithmetic == "float" and axiom.startswith(FLOATS))


def axioms_of(output: str) -> tuple[str, ...]:
    r"""Return the names below `Axioms:` in what `Print Assumptions` prints.

    >>> axioms_of("Axioms:\nClassical_Prop.classic : forall P : Prop, P \\/ ~ P\n  more\n")
    ('Classical_Prop.classic',)
    """
    _, _, listed = output.rpartition("Axioms:\n")
    return tuple(line.split()[0].rstrip(":") for line in listed.splitlines() if line and not line[0].isspace())


def theories(limit: float = 600.0) -> Path:
    """Compile the theories into a folder of their own, unless they are there; return it.

    Parameters
    ----------
    limit
        Seconds for each file.

    Returns
    -------
    Path
        The folder that `coqc -Q FOLDER Wideproof` reads.
    """
    content = b"".join((THEORIES / name).read_bytes() for name in ORDER)
    version = subprocess.run(["coqc", "--print-version"], capture_output=True, check=True).stdout
    key = hashlib.sha256(content + version).hexdigest()[:16]
    home = Path(
        os.environ.get(CACHE) or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wideproof-rocq"
    )
    folder = home / key
    if (folder / "done").is_file():
        return folder
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home) as place:
        new = Path(place) / "new"
        for name in ORDER:
            (new / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(THEORIES / name, new / name)
            done, output, _ = _run(["coqc", "-q", "-w", "none", "-Q", ".", "Wideproof", name], new, limit)
            if done != 0:
                raise RuntimeError(f"the theory {name} does not compile here:\n{output}")
        (new / "done").touch()
        with contextlib.suppress(OSError):  # another process was faster
            new.rename(folder)
    return folder


def check(text: str, arithmetic: str, limit: float = 600.0) -> Checked:
    """Have Rocq's kernel check an exported file.

    Parameters
    ----------
    text
        The file.
    arithmetic
        The arithmetic that it was exported with: it says which axioms are allowed.
    limit
        Seconds that it may take.

    Returns
    -------
    Checked
        What it said.
    """
    if find_rocq() is None:
        return Checked(False, "coqc is not installed (Debian: apt-get install coq libcoq-interval)", judged=False)
    found = WORDS.search(re.sub(r"\(\*.*?\*\)", "", text, flags=re.DOTALL))
    if found:
        return Checked(False, f"the file has the word {found[0]}", judged=True)
    library, begun = theories(), time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "exported.v").write_text(text, encoding="utf-8")
        command = ["coqc", "-q", "-w", "none", "-Q", str(library), "Wideproof", "exported.v"]
        done, output, size = _run(command, Path(place), limit)
    seconds = time.monotonic() - begun
    if done is None:
        return Checked(False, f"Rocq needs more than {limit:.0f} s", judged=False, seconds=seconds, megabytes=size)
    if done != 0:
        said = " ".join(output.split())
        return Checked(False, f"Rocq refuses it: {said[:300]}", judged=True, seconds=seconds, megabytes=size)
    axioms = axioms_of(output)
    outside = [axiom for axiom in axioms if not allowed(axiom, arithmetic)]
    if outside or "Axioms:" not in output:
        named = ", ".join(outside) or "none were printed"
        return Checked(False, f"axioms outside of the list: {named}", True, axioms, seconds, size)
    return Checked(True, "", True, axioms, seconds, size)


def _run(command: list[str], place: Path, limit: float) -> tuple[int | None, str, float]:
    """Run a command; return its exit code (`None`: over the limit), what it printed, and its memory in megabytes."""
    with (place / "printed").open("w+", encoding="utf-8") as printed:
        process = subprocess.Popen(command, cwd=place, stdout=printed, stderr=subprocess.STDOUT, start_new_session=True)
        timer, late = time.monotonic() + limit, False
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > timer and not late:
                late = True
                os.killpg(process.pid, signal.SIGKILL)
            time.sleep(0.02)
        process.returncode = os.waitstatus_to_exitcode(status)
        printed.seek(0)
        return None if late else process.returncode, printed.read(), usage.ru_maxrss / 1024
