"""Check that what would be released works elsewhere: `make release-check`.

Builds the sdist, and the wheel from it; compares their files with what git knows; installs the wheel in a fresh
environment and runs the demo outside of the checkout; then verifies the demo's certificate in a second one without JAX.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERIFIER = ("numpy", "python-flint", "safetensors")  # all that wideproof_verify imports


def main() -> None:
    """Run every check, each with its seconds; the first that fails ends the script."""
    began = time.monotonic()

    def done(text: str) -> None:
        nonlocal began
        print(f"{time.monotonic() - began:6.1f} s  {text}", flush=True)
        began = time.monotonic()

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tag", default="", help="the tag that is to be released, as in v1.2.3")
    version = stated_version()
    require_tag(parser.parse_args().tag, version)
    done(f"version {version} in pyproject.toml, CITATION.cff, README.md and CHANGELOG.md")
    with tempfile.TemporaryDirectory(prefix="release-") as folder:
        place = Path(folder)
        sdist, wheel = built(place / "dist", version)
        sizes = [f"{path.name} ({path.stat().st_size >> 10} KiB)" for path in (sdist, wheel)]
        done(f"built {' and '.join(sizes)}")
        done(f"contents: {check_sdist(sdist)} files in the sdist, {check_wheel(wheel)} in the wheel, as git has them")

        whole = environment(place / "whole", str(wheel))
        done("the wheel in a fresh environment")
        run(whole, "-c", f"import wideproof as wp; assert wp.__version__ == {version!r}, wp.__version__", at=place)
        run(whole, "-m", "wideproof", "prove", "--out", "demo", at=place)
        assert (place / "demo" / "report.html").stat().st_size > 0
        done("make demo, from the wheel")

        alone = environment(place / "alone", "--no-deps", str(wheel), then=VERIFIER)
        done(f"the verifier alone: the wheel without its dependencies, and {', '.join(VERIFIER)}")
        run(alone, "-c", "import importlib.util as u; assert u.find_spec('jax') is None", at=place)
        verdict = verified(alone, place / "demo" / "certificate")
        assert verdict["answer"] == "proved", verdict
        tampered = shutil.copytree(place / "demo" / "certificate", place / "tampered")
        arrays = bytearray((tampered / "arrays.safetensors").read_bytes())
        arrays[-1] ^= 1  # the sign or exponent of one stored number
        (tampered / "arrays.safetensors").write_bytes(arrays)
        assert verified(alone, tampered)["answer"] != "proved"
        done("the demo's certificate is proved without JAX, and refused with one byte changed")
    print(verdict["statement"])


def stated_version() -> str:
    """Return the version, which must be the same wherever it is written."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    for name, pattern in {
        "CHANGELOG.md": rf"\A(?:(?!^## \[)[\s\S])*^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$",
        "CITATION.cff": rf"^version: {re.escape(version)}\ndate-released: {day(version)}$",
        "README.md": rf"^Version {re.escape(version.rpartition('.')[0])}\b",
    }.items():
        if not re.search(pattern, (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE):
            sys.exit(f"{name} does not say version {version}.")
    return version


def require_tag(tag: str, version: str) -> None:
    """End the script unless a tag, if there is one, is that of this version."""
    if tag and tag != f"v{version}":
        sys.exit(f"The tag {tag} is not v{version}, the version that is stated: change one of the two.")


def day(version: str) -> str:
    """Return the day that the changelog gives a version."""
    found = re.search(
        rf"^## \[{re.escape(version)}\] - (\S+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    return found[1] if found else "a day that CHANGELOG.md does not give"


def built(folder: Path, version: str) -> tuple[Path, Path]:
    """Build the sdist, and the wheel from the sdist."""
    subprocess.run([sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)], check=True, capture_output=True)
    return folder / f"wideproof-{version}.tar.gz", folder / f"wideproof-{version}-py3-none-any.whl"


def tracked(under: str = "") -> set[str]:
    """Return the files that git knows."""
    command = ["git", "ls-files", "-z", "--", under or "."]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return set(filter(None, listed.stdout.split("\0")))


def check_sdist(path: Path) -> int:
    """Compare the sdist with git: the same files, and PKG-INFO."""
    with tarfile.open(path) as archive:
        found = {member.name.partition("/")[2] for member in archive if member.isfile()}
    return same(path, found, tracked() | {"PKG-INFO"})


def check_wheel(path: Path) -> int:
    """Compare the wheel with git: both packages with their templates, pages, tables and py.typed, and nothing else."""
    with zipfile.ZipFile(path) as archive:
        found = {name for name in archive.namelist() if ".dist-info/" not in name}
        assert any(name.endswith("licenses/LICENSE") for name in archive.namelist()), "no license in the wheel"
    wanted = {name.removeprefix("src/") for name in tracked("src")}
    wanted |= {name.removeprefix("verifier/") for name in tracked("verifier/wideproof_verify")}
    assert {"wideproof/py.typed", "wideproof_verify/py.typed", "wideproof/lab/static/index.html"} <= wanted
    return same(path, found, wanted)


def same(path: Path, found: set[str], wanted: set[str]) -> int:
    """Return the number of files if they are the wanted ones."""
    if found != wanted:
        sys.exit(f"{path.name}: missing {sorted(wanted - found)[:9]}, too many {sorted(found - wanted)[:9]}.")
    return len(found)


def environment(folder: Path, *install: str, then: tuple[str, ...] = ()) -> Path:
    """Make a fresh environment, install into it, and return its Python."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    for names in filter(None, (install, then)):
        run(python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", *names, at=folder)
    return python


def run(python: Path, *arguments: str, at: Path) -> None:
    """Run Python without a word from this checkout or its environment."""
    done = subprocess.run([python, "-P", *arguments], cwd=at, env=clean(), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"python {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")


def verified(python: Path, certificate: Path) -> dict:
    """Return the verdict of the verifier alone."""
    command = [python, "-P", "-m", "wideproof_verify", str(certificate), "--json"]
    done = subprocess.run(command, cwd=certificate, env=clean(), capture_output=True, text=True, check=False)
    return json.loads(done.stdout)


def clean() -> dict[str, str]:
    """Return the environment variables without Python's own."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


if __name__ == "__main__":
    main()
