"""Run a quick selection of tests on every supported Python with the oldest and the newest JAX: `make test-matrix`.

A Python is used if it is on the path or among pyenv's; one that is missing is said to be. Environments are kept under
`.matrix/` and made once. Each holds this checkout, the pinned tools of the group `test`, and its JAX.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
JAX = ("0.10.0", "newest")
# One file of most layers, and the README, which proves two tables, trains, follows and fits an estimator.
TESTS = (
    "README.md",
    "tests/data/test_dataset.py",
    "tests/networks/test_initialization.py",
    "tests/networks/test_maps.py",
    "tests/kernels/test_spectrum.py",
    "tests/training/test_losses.py",
    "tests/training/test_stepping.py",
    "tests/certificates/test_certificate_files.py",
    "tests/verify/test_arithmetic.py",
    "tests/cli/test_commands.py",
)


def main() -> None:
    """Run what is here; exit code 1 if anything failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--python", choices=PYTHONS, action="append", help="only this one; may be repeated")
    parser.add_argument("--jax", choices=JAX, action="append", help="only this one; may be repeated")
    options = parser.parse_args()
    failed = 0
    for version in options.python or PYTHONS:
        python = find(version)
        if python is None:
            print(f"Python {version}: not on this machine", flush=True)
            continue
        for jax in options.jax or JAX:
            began = time.monotonic()
            code, said = tested(environment(python, version, jax))
            failed += code != 0
            print(f"Python {version}, JAX {jax}: {said}, {time.monotonic() - began:.0f} s", flush=True)
    sys.exit(failed > 0)


def find(version: str) -> Path | None:
    """Return a Python of this version, from the path or from pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    places = [*sorted(pyenv.glob(f"{version}.*/bin/python"), reverse=True), shutil.which(f"python{version}")]
    able = "import ensurepip, ssl, venv"
    for python in filter(None, places):
        if subprocess.run([python, "-c", able], capture_output=True, check=False).returncode == 0:
            return Path(python)
    return None


def environment(python: Path, version: str, jax: str) -> Path:
    """Return the Python of an environment with this checkout and this JAX, made if it is not there."""
    folder = ROOT / ".matrix" / f"python-{version}-jax-{jax}"
    inside, stamp = folder / "bin" / "python", folder / "made"
    if not stamp.exists():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([python, "-m", "venv", folder], check=True)
        pip = [inside, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
        subprocess.run([*pip, "--upgrade", "pip>=25.1"], check=True)
        chosen = "jax" if jax == "newest" else f"jax=={jax}"
        subprocess.run([*pip, "--upgrade", chosen, "--editable", ".", "--group", "test"], cwd=ROOT, check=True)
        stamp.touch()
    return inside


def tested(python: Path) -> tuple[int, str]:
    """Run the selection, and return pytest's exit code and last line with the versions that it ran on."""
    show = "import jax, platform; print(platform.python_version(), 'with jax', jax.__version__)"
    versions = subprocess.run([python, "-c", show], capture_output=True, text=True, check=True).stdout.strip()
    command = [python, "-m", "pytest", "-q", "--no-header", "--tb=short", "-m", "not slow", "--doctest-glob=README.md"]
    done = subprocess.run([*command, *TESTS], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout, done.stderr, sep="\n", flush=True)
    last = re.sub(r" in [\d.]+s.*", "", (done.stdout.strip().splitlines() or [""])[-1]).strip("= ")
    return done.returncode, f"{last} ({versions})"


if __name__ == "__main__":
    main()
