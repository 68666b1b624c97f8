"""Compile the theories in Rocq and have its kernel check the examples: `make rocq`.

Fails on a theory or an example that does not compile, on an axiom outside of the list of its arithmetic, and on
`Admitted`, `admit`, `Axiom` or `Parameter` anywhere.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1] / "src" / "wideproof" / "rocq"


def main() -> int:
    """Check everything; return the exit code."""
    if shutil.which("coqc") is None:
        print("No coqc here: install Rocq and CoqInterval (Debian: apt-get install coq libcoq-interval).")
        return 1
    kernel, began = loaded(), time.monotonic()
    listed = {ROOT / name for name in kernel.ORDER}
    if left := set(ROOT.glob("theories/*.v")) - listed:
        print(f"not in _CoqProject: {', '.join(sorted(path.name for path in left))}")
        return 1
    for path in sorted(listed):
        text = re.sub(r"\(\*.*?\*\)", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        if found := kernel.WORDS.search(text):
            print(f"{path.name} has the word {found[0]}")
            return 1
    kernel.theories()
    print(f"{time.monotonic() - began:6.1f} s  {len(listed)} files compiled", flush=True)
    for path in sorted(ROOT.glob("examples/*.v")):
        text = path.read_text(encoding="utf-8")
        print(f"{path.name}: {' '.join(text[2 : text.index(chr(10) * 2)].split())}")
        said = kernel.check(text, "z" if path.stem.endswith("_z") else "bigz")
        print(f"{said.seconds:6.1f} s  {'accepted' if said.accepted else said.reason}, {said.megabytes:.0f} MB")
        print("".join(f"          {axiom}\n" for axiom in said.axioms), end="")
        if not said.accepted:
            return 1
    return 0


def loaded():
    """Return the module that runs Rocq, without the package around it."""
    spec = importlib.util.spec_from_file_location("wideproof_rocq_kernel", ROOT / "kernel.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    sys.exit(main())
