"""`python -m wideproof_verify FOLDER [--json]`: exit code 0 proved, 1 not proved, 2 malformed."""

import argparse
import dataclasses
import json
import sys

from wideproof_verify import verify


def main(arguments: list[str] | None = None) -> int:
    """Verify one certificate and print the verdict."""
    parser = argparse.ArgumentParser(prog="wideproof_verify", description="Verify a certificate with rigorous bounds.")
    parser.add_argument("folder", help="the folder with certificate.json and arrays.safetensors")
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")
    options = parser.parse_args(arguments)
    verdict = verify(options.folder)
    if options.json:
        print(json.dumps(dataclasses.asdict(verdict), ensure_ascii=False))
    else:
        print(f"{verdict.answer}: {verdict.statement or verdict.reason}")
        if verdict.checks:
            print(f"\n{'inequality':<58}{'claimed':>22}{'recomputed':>22}")
        for name, claimed, found in verdict.checks:
            print(f"{name:<58}{claimed:>22.12g}{found:>22.12g}")
        print(f"\n{verdict.precision} bits, {verdict.seconds:.1f} s")
    return {"proved": 0, "not proved": 1, "malformed": 2}[verdict.answer]


if __name__ == "__main__":
    sys.exit(main())
