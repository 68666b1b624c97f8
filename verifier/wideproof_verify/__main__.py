"""`python -m wideproof_verify FOLDER`: exit code 0 proved, 1 not proved, 2 malformed, 3 not judged."""

import argparse
import dataclasses
import json
import re
import sys
from pathlib import Path

from wideproof_verify import Verdict, verify
from wideproof_verify.costs import HOUR, Cost

CODES = {"proved": 0, "not proved": 1, "malformed": 2, "not judged": 3}
UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "MB": 10**6, "GB": 10**9, "MiB": 2**20, "GiB": 2**30}


def amount(text: str) -> float:
    """Return a number with a unit, as in 90, 10m, 2h or 4GB."""
    found = re.fullmatch(r"(\d+(?:\.\d*)?)\s*([a-zA-Z]*)", text)
    if found is None or found[2] not in UNITS or not float(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number, with a unit if need be: 90, 10m, 2h, 4GB")
    return float(found[1]) * UNITS[found[2]]


def shown(verdict: Verdict) -> str:
    """Return the verdict as text: the statement or the reason, every inequality, every digest."""
    lines = [f"{verdict.answer}: {verdict.statement or verdict.reason}"]
    if verdict.checks:
        lines += ["", f"{'inequality':<58}{'left side':>22}{'right side':>22}"]
        for name, left, right in verdict.checks:
            lines.append(f"{name:<58}{left:>22.12g}{'not computed' if right is None else f'{right:.12g}':>22}")
    if verdict.digests:
        lines += ["", "SHA-256 of what was read", *(f"{d}  {name}" for name, d in verdict.digests.items())]
    return "\n".join([*lines, "", f"{verdict.precision} bits, {verdict.seconds:.1f} s"] if verdict.precision else lines)


def main(arguments: list[str] | None = None) -> int:
    """Verify one certificate and print the verdict."""
    parser = argparse.ArgumentParser(prog="wideproof_verify", description="Verify a certificate with rigorous bounds.")
    parser.add_argument("folder", help="the folder of a certificate, or of the proof that holds one")
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")
    parser.add_argument("--time", type=amount, default=HOUR, help="how long it may take: 90, 10m, 2h (one hour)")
    parser.add_argument("--memory", type=amount, help="how much memory it may use: 4GB (three quarters of all)")
    parser.add_argument("--balls", action="store_true", help="everything in ball arithmetic, nothing by float64; slow")
    options = parser.parse_args(arguments)
    folder, inside = Path(options.folder), Path(options.folder, "certificate")

    def tell(cost: Cost) -> None:
        if cost.seconds > 20:
            print(f"this takes {cost}", file=sys.stderr)

    verdict = verify(
        inside if inside.is_dir() and not (folder / "certificate.json").exists() else folder,
        time=options.time, memory=options.memory, balls=options.balls, tell=tell,
    )  # fmt: skip
    print(json.dumps(dataclasses.asdict(verdict), ensure_ascii=False) if options.json else shown(verdict))
    return CODES[verdict.answer]


def run() -> None:
    """Run as a command."""
    sys.exit(main())


if __name__ == "__main__":
    run()
