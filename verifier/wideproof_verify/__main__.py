"""`python -m wideproof_verify FOLDER`: exit code 0 proved, 1 not proved, 2 malformed, 3 not judged, 64 bad usage."""

import argparse
import dataclasses
import io
import json
import re
import sys
from functools import partial
from pathlib import Path
from typing import NoReturn

from wideproof_verify import Verdict, verify
from wideproof_verify.costs import HOUR, Cost

CODES = {"proved": 0, "not proved": 1, "malformed": 2, "not judged": 3}
USAGE = 64  # EX_USAGE: the command line was not understood, and nothing is said about a certificate


def amount(units: dict[str, int], examples: str, text: str) -> float:
    """Return a number with a unit."""
    found = re.fullmatch(r"(\d+(?:\.\d*)?)\s*([a-zA-Z]*)", text)
    if found is None or found[2] not in units or not float(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number, with a unit if need be: {examples}")
    return float(found[1]) * units[found[2]]


seconds = partial(amount, {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}, "90, 10m, 2h")
size = partial(amount, {"": 1, "MB": 10**6, "GB": 10**9, "MiB": 2**20, "GiB": 2**30}, "512MB, 4GB, 4GiB")


class Parser(argparse.ArgumentParser):
    """A parser whose errors are not taken for the exit code of a malformed certificate."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and end."""
        self.exit(USAGE, f"{self.format_usage()}{self.prog}: error: {message}\n")


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


def proofs_in(folder: Path) -> list[Path]:
    """Return the folders of proofs in a folder, by name, numbers in their order."""
    found = [one for one in folder.iterdir() if (one / "certificate").is_dir()] if folder.is_dir() else []
    return sorted(
        found, key=lambda one: [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", one.name)]
    )


def judged(verdicts: list[tuple[Path, Verdict]], as_json: bool) -> int:
    """Print a line for each of several verdicts and how many are proved; return the code of the worst."""
    if as_json:
        print(json.dumps({one.name: dataclasses.asdict(verdict) for one, verdict in verdicts}, ensure_ascii=False))
    else:
        for one, verdict in verdicts:
            print(f"{one.name}: {verdict.answer}: {verdict.statement or verdict.reason}")
        proved = sum(verdict.answer == "proved" for _, verdict in verdicts)
        print(f"{proved} of {len(verdicts)} certificates are proved, {sum(v.seconds for _, v in verdicts):.1f} s")
    return max(CODES[verdict.answer] for _, verdict in verdicts)


def main(arguments: list[str] | None = None) -> int:
    """Verify one certificate, or all of a folder with several proofs, and print the verdict."""
    parser = Parser(prog="wideproof_verify", description="Verify a certificate with rigorous bounds.")
    parser.add_argument("folder", help="the folder of a certificate, of the proof that holds one, or of several proofs")
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")
    parser.add_argument("--time", type=seconds, default=HOUR, help="how long it may take: 90, 10m, 2h (one hour)")
    parser.add_argument("--memory", type=size, help="how much memory it may use: 4GB (three quarters of all)")
    parser.add_argument("--balls", action="store_true", help="no decision by float64, all in ball arithmetic; slow")
    options = parser.parse_args(arguments)
    folder, inside = Path(options.folder), Path(options.folder, "certificate")
    several = [] if inside.is_dir() or (folder / "certificate.json").exists() else proofs_in(folder)

    def tell(cost: Cost) -> None:
        if cost.seconds > 20:
            print(f"this takes {cost}", file=sys.stderr)

    judge = partial(verify, time=options.time, memory=options.memory, balls=options.balls, tell=tell)
    if several:
        return judged([(one, judge(one / "certificate")) for one in several], options.json)
    verdict = verify(
        inside if inside.is_dir() and not (folder / "certificate.json").exists() else folder,
        time=options.time, memory=options.memory, balls=options.balls, tell=tell,
    )  # fmt: skip
    print(json.dumps(dataclasses.asdict(verdict), ensure_ascii=False) if options.json else shown(verdict))
    return CODES[verdict.answer]


def run() -> None:
    """Run as a command; what a terminal cannot show is written as its number."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.exit(main())


if __name__ == "__main__":
    run()
