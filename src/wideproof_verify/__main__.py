"""`python -m wideproof_verify FOLDER [--json]`: exit code 0 proved, 1 not proved, 2 malformed."""

import argparse
import dataclasses
import json
import sys
from pathlib import Path

from wideproof_verify import verify


def main(arguments: list[str] | None = None) -> int:
    """Verify one certificate and print the verdict."""
    parser = argparse.ArgumentParser(prog="wideproof_verify", description="Verify a certificate with rigorous bounds.")
    parser.add_argument("folder", help="the folder of a certificate, or of the proof that holds one")
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")
    options = parser.parse_args(arguments)
    folder, inside = Path(options.folder), Path(options.folder, "certificate")
    verdict = verify(inside if inside.is_dir() and not (folder / "certificate.json").exists() else folder)
    if options.json:
        print(json.dumps(dataclasses.asdict(verdict), ensure_ascii=False))
    else:
        print(f"{verdict.answer}: {verdict.statement or verdict.reason}")
        if rows := [f"{name:<58}{left:>22.12g}{right:>22.12g}" for name, left, right in verdict.checks]:
            head = f"{'inequality':<58}{'left side':>22}{'right side':>22}"
            print("", head, *rows, "", f"{verdict.precision} bits, {verdict.seconds:.1f} s", sep="\n")
    return {"proved": 0, "not proved": 1, "malformed": 2}[verdict.answer]


if __name__ == "__main__":
    sys.exit(main())
