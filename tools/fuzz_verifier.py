"""Change certificates at random, verify them, and judge every sentence that is called proved: a fuzzer of the verifier.

    python tools/fuzz_verifier.py CORPUS --mutants 30000 --seed 0 --time 20 --out results.jsonl --workers 2

CORPUS is a folder of certificates, each a folder of its own. A mutant is decided by the certificate's name, the seed
and its number (`fuzz_mutants`). What is called proved is judged by code that shares nothing with verifier and prover
(`fuzz_judge`), from the words of the verdict and the arrays of the file. Found are false sentences, exceptions,
answers that are none of the known ones, verdicts that come later than the limit of time and 2 seconds, and verdicts
that say that the verifier itself `failed`. Of what is judged, `faint` are sentences about weights that fit to rounding:
that a step lowers what is left there cannot be seen. Every twentieth sentence about steps is judged a `second` time, in
300 bits (`fuzz_exact`). Mutant 0 of a certificate is the certificate as it is.

Each result is a line of the file `--out`; mutants that are there already are skipped, so a run can be taken up again.
`--verifier FOLDER` takes the package `wideproof_verify` from another folder. `--more EXPRESSION` makes two mutants more
of certificates with such names where there is one of others, and may be given again. `--show NAME:NUMBER FOLDER` writes
one mutant into a folder, verifies and judges it. The exit code is 1 if anything false, raised, failed or too late was
found.
"""

from __future__ import annotations

import argparse
import collections
import importlib
import json
import multiprocessing
import multiprocessing.connection
import re
import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from fuzz_exact import judge_exactly
from fuzz_judge import FAINT, Judgement, judge
from fuzz_mutants import ARRAYS, DOCUMENT, load_parts, mutate, write

ROOT = Path(__file__).parents[1]
ANSWERS = ("proved", "not proved", "malformed", "not judged")
GRACE, MAKING, JUDGING = 2.0, 120.0, 120.0  # seconds: beyond the limit of time; to write a mutant; for a judgement
SECOND = 20  # of so many sentences one is judged a second time
FAILED = "the verifier failed"
COLUMNS = (
    "mutants", "proved", "judged", "faint", "second", "false", "undecided", "unread", "not proved", "malformed",
    "not judged", "failed", "raised", "other", "too long", "slowest",
)  # fmt: skip
WRONG = ("false", "failed", "raised", "other", "too long")


def verifier(folder: str | None, limit: float, memory: int) -> Callable[[Path], Any]:
    """Return the function `verify` of the package in `folder`, with limits of time and memory."""
    sys.path.insert(0, folder or str(ROOT / "verifier"))
    package = importlib.import_module("wideproof_verify")
    found = Path(str(package.__file__)).parents[1].resolve()
    if found != Path(folder or ROOT / "verifier").resolve():
        raise ImportError(f"wideproof_verify was found in {found}")
    return lambda place: package.verify(place, time=limit, memory=memory)


def attempt(
    folder: Path, seed: int, index: int, verify: Callable[[Path], Any], scratch: Path, limit: float,
    told: Callable[[str, dict[str, Any]], None] = lambda what, record: None,
) -> dict[str, Any]:  # fmt: skip
    """Make one mutant, verify it, and judge what is called proved; `told` hears when it begins, and of the verdict."""
    original = load_parts(folder)
    mutant = mutate(original, folder.name, seed, index)
    record: dict[str, Any] = {
        "certificate": folder.name, "seed": seed, "index": index, "theorem": original.document["theorem"],
        "mutations": mutant.did, "answer": "", "judged": "", "why": "", "seconds": 0.0,
    }  # fmt: skip
    try:
        write(scratch, mutant)
    except (TypeError, ValueError, AttributeError) as error:  # an array that has no place in the format
        return record | {"answer": "not written", "why": str(error)[:200]}
    told("written", record)
    begun, work, peak = time.perf_counter(), time.process_time(), most_memory()
    statement, digests = "", {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            verdict = verify(scratch)
        record |= {"answer": verdict.answer, "why": verdict.reason[:200]}
        statement, digests = verdict.statement, verdict.digests
    except BaseException as error:  # whatever comes out of it
        if isinstance(error, KeyboardInterrupt):
            raise
        record |= {"answer": "raised", "why": "".join(traceback.format_exception(error))[-2000:]}
    record["seconds"] = round(time.perf_counter() - begun, 3)
    record["work"] = round(time.process_time() - work, 3)  # less where others use the machine
    if record["seconds"] > limit + GRACE:
        record["late"] = True
    if most_memory() > peak:
        record["memory"] = most_memory()
    told("verified", record)
    if record["answer"] == "proved":
        twice = zlib.crc32(f"{seed} {folder.name} {index}".encode()) % SECOND == 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found, second = judged(scratch, statement, digests, twice)
        record |= {"judged": found.answer, "why": found.why}
        if second is not None and second.answer != "none":
            record |= {"second": second.answer, "second_why": second.why}
        if found.answer != "holds" or (second is not None and second.answer not in ("none", "holds")):
            record["statement"] = statement
    return record


def most_memory() -> int:
    """Return the most bytes that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def judged(
    folder: Path, statement: str, digests: dict[str, str], twice: bool = False
) -> tuple[Judgement, Judgement | None]:
    """Judge a sentence about files, maybe twice; of files that cannot be read every sentence is false."""
    try:
        document = json.loads((folder / DOCUMENT).read_text(encoding="utf-8"))
        arrays = unpacked((folder / ARRAYS).read_bytes())
    except Exception as error:  # whatever the libraries that read it raise
        return Judgement("violated", f"the files cannot be read: {error}"), None
    found = judge(document, arrays, statement, digests)
    if not twice or found.answer == "violated":
        return found, None
    second = judge_exactly(document, arrays, statement)
    if second.answer == "violated":
        found = Judgement("violated", f"in 300 bits: {second.why}")
    return found, second


def unpacked(data: bytes) -> dict[str, np.ndarray]:
    """Read arrays of float64 and int64 numbers, without the library that the verifier reads them with."""
    size = int.from_bytes(data[:8], "little")
    stated, data = json.loads(data[8 : 8 + size].decode()), data[8 + size :]
    arrays, end = {}, 0
    stated.pop("__metadata__", None)
    for name, one in sorted(stated.items(), key=lambda item: item[1]["data_offsets"]):
        begin, after = one["data_offsets"]
        kind = {"F64": "<f8", "I64": "<i8"}[one["dtype"]]
        if begin != end or after > len(data):
            raise ValueError(f"{name} does not lie where it should")
        arrays[name], end = np.frombuffer(data[begin:after], kind).reshape(one["shape"]).copy(), after
    if end != len(data):
        raise ValueError("there is something behind the arrays")
    return arrays


def serve(connection: Any, options: argparse.Namespace) -> None:
    """Verify mutants, one after the other, as they are asked for; in a process of its own."""
    resource.setrlimit(resource.RLIMIT_AS, (options.memory * 2 + 2**31, options.memory * 2 + 2**31))
    verify = verifier(options.verifier, options.time, options.memory)
    scratch = Path(tempfile.mkdtemp(dir=options.scratch))
    try:
        while (task := connection.recv()) is not None:
            name, index = task
            place = scratch / "mutant"
            shutil.rmtree(place, ignore_errors=True)
            folder = Path(options.corpus, name)
            record = attempt(
                folder, options.seed, index, verify, place, options.time, lambda what, r: connection.send((what, r))
            )
            connection.send(("done", record))
    except (EOFError, BrokenPipeError):
        pass


@dataclass
class Worker:
    """A process that verifies mutants, what it works on, and since when."""

    process: Any
    connection: Any
    task: tuple[str, int] | None = None
    since: float = 0.0
    written: bool = False
    known: dict[str, Any] | None = None


def hire(options: argparse.Namespace) -> Worker:
    """Start a process."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs, options), daemon=True)
    process.start()
    theirs.close()
    return Worker(process, ours)


def run(options: argparse.Namespace, tasks: Iterator[tuple[str, int]], note: Callable[[dict[str, Any]], None]) -> None:
    """Give tasks to workers until there are none; whoever takes too long is ended and replaced."""
    workers = [hire(options) for _ in range(options.workers)]
    kinds = {name: json.loads(Path(options.corpus, name, DOCUMENT).read_text())["theorem"] for name in names(options)}
    try:
        while True:
            for worker in workers:
                if worker.task is None and (task := next(tasks, None)) is not None:
                    worker.task, worker.since, worker.known, worker.written = task, time.monotonic(), None, False
                    worker.connection.send(task)
            busy = [worker for worker in workers if worker.task is not None]
            if not busy:
                return
            multiprocessing.connection.wait([worker.connection for worker in busy], timeout=0.5)
            for k, worker in enumerate(workers):
                if worker.task is None:
                    continue
                end, lost = "", False
                try:
                    while worker.task is not None and worker.connection.poll():
                        said, record = worker.connection.recv()
                        if said == "written":
                            worker.written, worker.since = True, time.monotonic()
                        elif said == "verified":
                            worker.known, worker.since = record, time.monotonic()
                        else:
                            note(record)
                            worker.task = None
                except (EOFError, OSError):
                    end, lost = "the process ended", True
                if worker.task is None:
                    continue
                spent = time.monotonic() - worker.since
                allowed = options.time + GRACE + 3 if worker.written else MAKING
                if worker.known is None and spent > allowed + 10 * (not worker.process.is_alive()):
                    end = "no verdict in time" if worker.written else "the mutant was not written in time"
                elif worker.known is not None and spent > JUDGING:
                    end = "no judgement in time"
                if end:
                    name, index = worker.task
                    blank = {"certificate": name, "seed": options.seed, "index": index, "theorem": kinds[name]}
                    did = mutate(load_parts(Path(options.corpus, name)), name, options.seed, index).did
                    blank |= {"mutations": did, "answer": "raised" if lost else "no answer", "seconds": round(spent, 1)}
                    record = dict(worker.known or blank | {"judged": "", "why": end})
                    if worker.known is None and not lost and worker.written:
                        record["late"] = True
                    elif worker.known is not None:
                        record |= {"judged": "undecided", "why": end}
                    note(record)
                    worker.process.kill()
                    worker.process.join()
                    workers[k] = hire(options)
    finally:
        for worker in workers:
            if worker.process.is_alive():
                worker.process.kill()


def names(options: argparse.Namespace) -> list[str]:
    """Return the certificates of the corpus that are asked for."""
    found = sorted(path.parent.name for path in Path(options.corpus).glob(f"*/{DOCUMENT}"))
    return [name for name in found if re.search(options.match, name) and readable(Path(options.corpus, name))]


def readable(folder: Path) -> bool:
    """Return whether a folder holds what can be changed: objects and arrays that may be wrong in any other way."""
    try:
        parts = load_parts(folder)
    except Exception:  # whatever the libraries that read it raise
        return False
    document = parts.document
    inner = isinstance(document, dict) and [document.get(key) for key in ("claims", "network", "loss")]
    return bool(inner) and all(isinstance(part, dict) for part in inner) and isinstance(document.get("theorem"), str)


def count(records: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return what was found, for each theorem and in all.

    >>> one = {"theorem": "fit", "answer": "proved", "judged": "violated", "seconds": 1.5}
    >>> count([one, {**one, "judged": "holds"}])["all"]["false"]
    1
    """
    table: dict[str, dict[str, float]] = collections.defaultdict(lambda: dict.fromkeys(COLUMNS, 0))
    for record in records:
        for row in (table[record["theorem"]], table["all"]):
            row["mutants"] += 1
            answer = record["answer"]
            if answer in (*ANSWERS, "raised"):
                row[answer] += 1
            elif answer not in ("not written", "no answer"):
                row["other"] += 1
            row["failed"] += answer == "not judged" and record.get("why", "").startswith(FAILED)
            row["second"] += record.get("second") in ("holds", "violated")
            row["judged"] += record["judged"] in ("holds", "violated")
            row["faint"] += record["judged"] == "holds" and record.get("why") == FAINT
            row["false"] += record["judged"] == "violated"
            row["undecided"] += record["judged"] == "undecided"
            row["unread"] += record["judged"] == "unread"
            row["too long"] += bool(record.get("late"))
            row["slowest"] = max(row["slowest"], record["seconds"])
    rest = sorted(set(table) - {"all"})
    return {name: table[name] for name in [*rest, "all"] if name in table}


def shown(table: dict[str, dict[str, float]]) -> str:
    """Return the table as text."""
    lines = [f"{'theorem':<12}" + "".join(f"{name:>11}" for name in COLUMNS)]
    for name, row in table.items():
        cells = [f"{row[key]:>11.1f}" if key == "slowest" else f"{int(row[key]):>11}" for key in COLUMNS]
        lines.append(f"{name:<12}" + "".join(cells))
    return "\n".join(lines)


def read_results(path: Path) -> list[dict[str, Any]]:
    """Return the results of earlier runs; a last line that was cut off is left out."""
    records = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            records.append(json.loads(line))
        except ValueError:
            continue
    return records


def main(arguments: list[str] | None = None) -> int:
    """Run the fuzzer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", help="a folder of certificates, each a folder of its own")
    parser.add_argument("--mutants", type=int, default=1000, help="how many, those in --out counted")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--time", type=float, default=20.0, help="seconds for one verdict")
    parser.add_argument("--memory", type=int, default=2 * 2**30, help="bytes for one verdict")
    parser.add_argument("--out", type=Path, default=Path("results.jsonl"))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--verifier", help="a folder with another package wideproof_verify")
    parser.add_argument("--match", default="", help="only certificates whose name fits this regular expression")
    parser.add_argument("--more", action="append", default=[], help="two more mutants where the name fits this")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no mutant after so long")
    parser.add_argument("--show", nargs=2, metavar=("NAME:NUMBER", "FOLDER"), help="write, verify and judge one mutant")
    options = parser.parse_args(arguments)
    if options.show:
        name, _, index = options.show[0].rpartition(":")
        verify = verifier(options.verifier, options.time, options.memory)
        folder, place = Path(options.corpus, name), Path(options.show[1])
        record = attempt(folder, options.seed, int(index), verify, place, options.time)
        print(json.dumps(record, indent=1, ensure_ascii=False))
        return 0
    known = names(options)
    if not known:
        parser.error(f"there are no certificates in {options.corpus}")
    verifier(options.verifier, options.time, options.memory)
    print(f"{len(known)} certificates; the verifier is {sys.modules['wideproof_verify'].__file__}", flush=True)
    wanted = {(record["certificate"], record["seed"], record["index"]): record for record in read_results(options.out)}
    records = list(wanted.values())
    began, before = time.monotonic(), len(records)

    def tasks() -> Iterator[tuple[str, int]]:
        order = [*known, *(name for name in known for more in options.more * 2 if re.search(more, name))]
        numbers = dict.fromkeys(known, 0)
        for k in range(options.mutants):
            name = order[k % len(order)]
            index, numbers[name] = numbers[name], numbers[name] + 1
            if time.monotonic() - began > 60 * options.minutes:
                return
            if (name, options.seed, index) not in wanted:
                yield name, index

    options.out.parent.mkdir(parents=True, exist_ok=True)
    last = began
    torn = options.out.exists() and not options.out.read_bytes().endswith(b"\n")
    with options.out.open("a", encoding="utf-8") as out:
        out.write("\n" * torn)

        def note(record: dict[str, Any]) -> None:
            nonlocal last
            records.append(record)
            out.write(json.dumps(record, ensure_ascii=True) + "\n")
            out.flush()
            if time.monotonic() - last > 5:
                last = time.monotonic()
                row, speed = count(records)["all"], (len(records) - before) / (last - began)
                wrong = ", ".join(f"{int(row[key])} {key}" for key in WRONG)
                done = f"{len(records)} of {options.mutants}, {speed:.1f}/s, {int(row['proved'])} proved"
                print(f"{done}, {wrong}", flush=True)

        with tempfile.TemporaryDirectory(prefix="fuzz-") as options.scratch:
            run(options, tasks(), note)
    table = count(records)
    print(shown(table))
    over = sum(record.get("memory", 0) > options.memory for record in records)
    print(f"{over} times a verdict took more memory than allowed; seconds of all verdicts: "
          f"{sum(record['seconds'] for record in records):.0f}")  # fmt: skip
    for record in records:
        failed = record["answer"] == "not judged" and record["why"].startswith(FAILED)
        lost = failed or record["answer"] in ("raised", "no answer")
        if record["judged"] == "violated" or record.get("late") or lost:
            why = record["why"].strip().splitlines()[-1] if record["why"] else ""
            name, spent = f"{record['certificate']}:{record['index']}", f"{record['seconds']} s"
            spent += f", {record['work']} s of work" if "work" in record else ""
            print(f"{name} {record['answer']} {record['judged']} ({spent}): {why[:160]}")
    if unread := sum(record["judged"] == "unread" for record in records):
        print(f"{unread} sentences were not understood by the judge: teach it their words")
    return int(any(table["all"][key] for key in WRONG)) if table else 0


if __name__ == "__main__":
    sys.exit(main())
