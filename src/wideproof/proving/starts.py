"""The same problem from many random starts, each proved by itself: how often a proof is found, with a probability.

What is counted has to be independent of what was chosen: preparation, network, width, scale and step size come from one
start, the pilot, which is not counted. Then the starts that are counted are independent draws of the initial weights of
one fixed network, each has a proof or has none, and the number of those that have one is binomial.

The folder has `starts.json` (what is counted), `pilot/` (the proof of the pilot), and for each start `start-N/` with
its certificate and, once it is finished, `start.json`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from wideproof.answers import Answer
from wideproof.arguments import refusal
from wideproof.cards import Told
from wideproof.data import AnyDataset
from wideproof.errors import InputError
from wideproof.networks import Network, from_config, to_config
from wideproof.progress import Progress, Watch, shown, unwatched
from wideproof.proving import folders
from wideproof.proving.beginning import NOT_BEGUN
from wideproof.proving.predictor import CERTIFICATE, RUN
from wideproof.proving.ranges import Ranges
from wideproof.statistics import at_least_share
from wideproof.storage import plain, read_json, write_json
from wideproof.training import Run

if TYPE_CHECKING:
    from wideproof.proving.proof import Proof

STARTS, START, PILOT = "starts.json", "start.json", "pilot/proof"
SETTINGS = ("budget", "sharp", "batch", "from_start")  # of the pilot that all starts share
ROOM = 0.9  # of the pilot's step size, if it was chosen: other starts have another largest eigenvalue


class Fixed(NamedTuple):
    """What all starts have in common: the prepared table, the network, and the ranges of the table as it was loaded."""

    data: AnyDataset
    network: Network
    ranges: Ranges | None


@dataclass(frozen=True)
class OneStart:
    """What came out of one start.

    Attributes
    ----------
    seed
        Its seed.
    proved
        Whether the independent verifier confirmed a proof from its initial weights.
    why
        What prevents a proof; empty where there is one.
    followed
        Number of steps that were followed until the theorem applied; `None` without a proof.
    moved
        How far gradient descent gets from the initial weights at most, relative to their length; `None` without a
        proof.
    seconds
        Time that it took.
    """

    seed: int
    proved: bool
    why: str
    followed: int | None
    moved: float | None
    seconds: float


@dataclass(frozen=True)
class Starts(Told):
    """What came out of many random starts of one network on one table: the result of `prove` with `seeds`.

    Attributes
    ----------
    network
        The network, which was chosen with another start than those that are counted.
    table
        The name of the table and the number of its rows.
    preparation
        Its preparation.
    step_size
        The step size of all starts.
    pilot
        The seed of the start with which network, preparation and step size were chosen.
    starts
        What came out of each start.
    folder
        The folder with a folder for each start; `None` if nothing was kept.
    batch
        Rows per step of SGD; `None` for gradient descent.
    """

    network: Network
    table: tuple[str, int]
    preparation: tuple[str, ...]
    step_size: float
    pilot: int
    starts: tuple[OneStart, ...]
    folder: Path | None
    batch: int | None = None

    @property
    def answer(self) -> Answer:
        """That all starts are proved holds, or is undecided: where one has no proof, nothing is refuted."""
        return Answer.HOLDS if self.proved == len(self.starts) else Answer.UNDECIDED

    @property
    def proved(self) -> int:
        """The number of starts with a proof."""
        return sum(one.proved for one in self.starts)

    @property
    def least(self) -> float:
        """The share of all starts that have a proof, at least, with 95 % confidence."""
        return at_least_share(self.proved, len(self.starts))

    @property
    def seconds(self) -> float:
        """Time that all starts took."""
        return sum(one.seconds for one in self.starts)

    @property
    def headline(self) -> str:
        """How many starts were proved, and what that says of all of them."""
        return sentence(self.proved, len(self.starts))

    @property
    def meaning(self) -> str:
        """What a start is, and what was fixed before any was counted."""
        count, (name, n) = len(self.starts), self.table
        draws = "initial weights" if self.batch is None else f"initial weights and of batches of {self.batch} rows"
        seeds = f"seeds {self.pilot + 1} to {self.pilot + count}" if count > 1 else f"seed {self.pilot + 1}"
        then = "" if self.batch is None else " After the steps of SGD that were followed, gradient descent goes on."
        prepared = f" (prepared by {', '.join(self.preparation)})" if self.preparation else ""
        return (
            f"A start is a draw of the {draws} of {self.network} for the {n} rows of {name}{prepared}, by a "
            f"pseudo-random generator ({seeds}); the step size is {self.step_size:.4g}. All of this was fixed with "
            f"seed {self.pilot}, which is not counted.{then}"
        )

    def save_report(self, folder: str | Path | None = None) -> Path:
        """Write the report as one HTML file.

        Parameters
        ----------
        folder
            The folder; by default that of the starts.

        Returns
        -------
        Path
            The path of the report.
        """
        from wideproof.report import save_starts_page

        if folder is None and self.folder is None:
            raise ValueError("these starts have no folder: give one")
        return save_starts_page(self, Path(folder or self.folder or "."))

    def __str__(self) -> str:
        lines = [self.headline, "", self.meaning]
        lines += [f"start {one.seed}: {one.why}" for one in self.starts if one.why]
        if self.folder is not None:
            lines += ["", f"all certificates: wideproof verify {self.folder}"]
        return "\n".join([*lines, f"{self.seconds:.1f} s"])

    def _repr_html_(self) -> str:
        from wideproof.cards import card

        steps = [one.followed for one in self.starts if one.followed is not None]
        followed = {"steps followed": f"{min(steps)} to {max(steps)}"} if steps else {}
        return card(self.headline, {"what is counted": self.meaning, **followed, "seconds": self.seconds})

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON.

        Returns
        -------
        dict[str, Any]
            The counts, the bound and the starts.
        """
        return {
            "headline": self.headline, "meaning": self.meaning, "network": str(self.network), "table": self.table[0],
            "n": self.table[1], "preparation": list(self.preparation), "step_size": self.step_size,
            "pilot": self.pilot, "starts": len(self.starts), "proved": self.proved, "least": self.least,
            "confidence": 0.95, "seconds": self.seconds,
            "folder": None if self.folder is None else str(self.folder),
            "by_seed": [dataclasses.asdict(one) for one in self.starts],
        }  # fmt: skip


def sentence(proved: int, count: int) -> str:
    """Return what the number of proved starts says of all starts, the share rounded down to a tenth of a percent.

    >>> sentence(60, 60).partition(": ")[2]
    'with 95 % confidence at least 95.1 % of all starts do.'
    """
    whose = "random start was" if count == 1 else "random starts were"
    begun = f"{proved} of {count} {whose} proved to reach a global minimum"
    share = int(1000 * at_least_share(proved, count)) / 10
    return f"{begun}: with 95 % confidence at least {share:.1f} % of all starts do." if proved else f"{begun}."


@shown
def prove_starts(
    source: Any,
    target: str | int | None,
    *,
    seeds: int,
    seed: int,
    folder: str | Path | None,
    progress: Watch | None,
    **options: Any,
) -> Starts:
    """Prove the same problem from many independent random starts; see `prove`, whose options these are.

    Network, preparation and step size are chosen with the start `seed`; the `seeds` starts after it are counted.
    """
    _require_countable(seeds, options)
    if folder is None:
        with tempfile.TemporaryDirectory() as kept:
            place = Path(kept) / "starts"
            made = prove_starts(
                source, target, seeds=seeds, seed=seed, folder=place, progress=progress, **options
            )  # fmt: skip
            return dataclasses.replace(made, folder=None)
    place, tell = Path(folder), progress or unwatched
    counted = range(seed + 1, seed + 1 + seeds)
    first, about = begin_starts(
        source, target, seeds=seeds, seed=seed, folder=place, progress=progress, **options
    )  # fmt: skip
    found = "is proved" if not _why(first) else f"has no proof: {_why(first)}"
    tell(Progress("starts", text=f"start {seed}, with which all was chosen, {found}; now the starts that are counted"))
    made, fixed = [], Fixed(first.data, first.network, first.ranges)
    for k, one in enumerate(counted, 1):
        made.append(_finished(place, one) or _one(place, one, fixed, about, options))
        said = "proved" if made[-1].proved else made[-1].why
        tell(Progress("starts", k, seeds, f"start {one}: {said}"))
    return starts_of(about, first.network, tuple(made), place)


def begin_starts(
    source: Any,
    target: str | int | None,
    *,
    seeds: int,
    seed: int,
    folder: str | Path,
    progress: Watch | None,
    **options: Any,
) -> tuple[Proof, dict[str, Any]]:
    """Prove the pilot and write down what is the same for all starts; `prove_part` does the rest, start by start.

    Parameters
    ----------
    source
        The table, as for `prove`.
    target
        The column to predict.
    seeds
        Number of starts that are counted.
    seed
        The pilot's seed.
    folder
        A new folder, or one that was begun in the same way.
    progress
        Callback; receives a `Progress` at every stage of the pilot.
    **options
        Further options of `prove`.

    Returns
    -------
    tuple
        The proof of the pilot, and what was written down.
    """
    _require_countable(seeds, options)
    place = Path(folder)
    _require_place(place, seeds)
    first = _pilot(place, source, target, seed, progress, options)
    return first, _fixed(place, first, seeds, seed, options)


def prove_part(folder: str | Path, number: int, parts: int) -> OneStart:
    """Prove one of the starts of a folder that `prove` began with `seeds`, as one of many jobs on a cluster.

    Parts may run in any order, at the same time, and repeatedly: a start that is finished is kept.

    Parameters
    ----------
    folder
        The folder that was begun.
    number
        Number of the start, counted from 1.
    parts
        Number of starts.

    Returns
    -------
    OneStart
        What came out of it.
    """
    place = Path(folder)
    if not (place / STARTS).exists():
        raise InputError(f"{place} holds no proofs of random starts: begin them with `wideproof prove --seeds --slurm`")
    about = read_json(place / STARTS)
    if "settings" not in about:
        raise InputError(f"{place} was begun by an older version, and not for several jobs: choose another folder")
    if parts != about["seeds"] or not 1 <= number <= parts:
        raise InputError(f"{place} was begun for {about['seeds']} starts, so parts are 1/{about['seeds']} to "
                         f"{about['seeds']}/{about['seeds']}, got {number}/{parts}")  # fmt: skip
    seed = about["pilot"] + number
    found = _finished(place, seed)
    if found is not None:
        return found
    run = Run.load(place / PILOT / RUN)
    fixed = Fixed(run.data, from_config(about["network"]), Ranges.read(place / PILOT))
    if run.data.digest != about["digest"] or run.network != fixed.network:
        raise InputError(f"{place / PILOT} holds another problem than {place / STARTS}: choose another folder")
    return _one(place, seed, fixed, about, about["settings"])


def unfinished(folder: str | Path) -> tuple[list[int], int]:
    """Return the numbers of the starts of a folder that have no result, counted from 1, and how many starts there are.

    Parameters
    ----------
    folder
        The folder that was begun.

    Returns
    -------
    tuple
        The numbers, and how many starts were asked for.
    """
    about = read_json(Path(folder) / STARTS)
    found = range(1, about["seeds"] + 1)
    return [k for k in found if read_start(place_of(Path(folder), about["pilot"] + k)) is None], about["seeds"]


def starts_of(about: Mapping[str, Any], network: Network, made: tuple[OneStart, ...], folder: Path) -> Starts:
    """Return the starts of a folder, with what was written down about all of them."""
    return Starts(
        network, (about["name"], about["n"]), tuple(about["preparation"]), about["step_size"], about["pilot"], made,
        folder, about["batch"],
    )  # fmt: skip


def place_of(folder: Path, seed: int) -> Path:
    """Return the folder of one start."""
    return folder / f"start-{seed}"


def read_start(place: Path) -> tuple[OneStart, dict[str, str]] | None:
    """Return what came of a start and the digests of its certificate's files; nothing where it is not finished."""
    if not (place / START).exists():
        return None
    kept = read_json(place / START)
    files = kept.pop("files")
    return OneStart(**kept), files


def _require_countable(seeds: int, options: Mapping[str, Any]) -> None:
    """Refuse what does not go with counting proofs from random initial weights."""
    if not isinstance(seeds, int) or isinstance(seeds, bool) or seeds < 1:
        raise refusal("seeds", "a whole number of at least 1", seeds)
    for name, nothing in (("require_zero", False), ("holdout", 0.0), ("polish", False)):
        if options.get(name, nothing) != nothing:
            raise InputError(f"with seeds, proofs from the initial weights are counted: leave {name} out")
    if options.get("from_start") is False:
        raise InputError("with seeds, proofs from the initial weights are counted: leave from_start (--from-here) out")
    begins = (options.get("options") or {}).get("start") or getattr(options.get("network"), "start", None)
    if str(begins).startswith("positive"):
        raise InputError("the positive start is not random, so there is one start only: leave seeds out")


def _require_place(folder: Path, seeds: int) -> None:
    """Refuse a folder with something else, and another number of starts than it was begun with."""
    if not (folder / STARTS).exists():
        if folder.is_dir() and any(one.name != PILOT.partition("/")[0] for one in folder.iterdir()):
            raise InputError(f"{folder} is not empty and holds no proofs of random starts: choose another folder")
        return
    before = read_json(folder / STARTS)["seeds"]
    if before != seeds:
        raise InputError(
            f"{folder} was begun for {before} starts, now {seeds}: the number is fixed before any is counted, since "
            "the confidence is not 95 % if it depends on what was found; choose another folder, and another seed "
            "for starts that are not among these"
        )


def _pilot(
    folder: Path, source: Any, target: str | int | None, seed: int, progress: Watch | None, options: dict[str, Any]
) -> Proof:
    """Choose network, preparation and step size with a start that is not counted."""
    from wideproof.proving.stages import prove

    first = prove(source, target, seed=seed, folder=folder / PILOT, progress=progress, **options)
    if first.run is None:
        raise InputError(f"nothing was trained, so there are no starts to count: {first.headline}")
    return first


def _fixed(folder: Path, first: Proof, seeds: int, seed: int, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is the same for all starts, and write it down; one that was written down before is kept."""
    assert first.run is not None
    about = plain({"network": to_config(first.network), "digest": first.data.digest, "pilot": seed, "seeds": seeds})
    if (folder / STARTS).exists():
        before = read_json(folder / STARTS)
        if any(before[name] != value for name, value in about.items()):
            raise InputError(f"{folder} holds the starts of another problem: choose another folder")
        return before
    given = options.get("step_size", "auto") not in ("auto", "safe")
    chosen = folder / PILOT / folders.CHOICE
    limit = read_json(chosen)["steps"] if chosen.exists() else options.get("steps")
    about |= {
        "name": first.data.name, "n": first.data.n, "preparation": [str(step) for step in first.data.preparation],
        "step_size": first.run.step_size * (1 if given else ROOM), "steps": limit, "batch": options.get("batch"),
        "settings": {name: options[name] for name in SETTINGS if name in options},
    }  # fmt: skip
    write_json(folder / STARTS, about)
    return about


def _one(folder: Path, seed: int, fixed: Fixed, about: Mapping[str, Any], options: Mapping[str, Any]) -> OneStart:
    """Train, certify and verify one start, and write down what came of it."""
    from wideproof.proving.stages import prove

    place, began = place_of(folder, seed), time.perf_counter()
    same = {name: options[name] for name in SETTINGS if name in options}
    proof = prove(
        fixed.data, network=fixed.network, prepare="none", seed=seed, step_size=about["step_size"],
        steps=about["steps"], folder=place, **same,
    )  # fmt: skip
    if fixed.ranges is not None:  # of the table as it was loaded; the start's own are of the prepared one
        fixed.ranges.put(place)
    why = _why(proof)
    moved = None if why else proof.share_moved
    found = OneStart(seed, not why, why, proof.followed, moved, time.perf_counter() - began)
    write_json(place / START, {**dataclasses.asdict(found), "files": _digests(place)})
    return found


def _finished(folder: Path, seed: int) -> OneStart | None:
    """Return what came of a start that is finished; remove it if its certificate is not the one that was verified."""
    place = place_of(folder, seed)
    kept = read_start(place)
    if kept is None or kept[1] == _digests(place):
        return None if kept is None else kept[0]
    shutil.rmtree(place)
    return None


def _digests(place: Path) -> dict[str, str]:
    files = sorted((place / CERTIFICATE).glob("*"))
    return {one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in files}


def _why(proof: Proof) -> str:
    """Return what prevents a proof from the initial weights; empty where there is one."""
    if proof.proved_from == "initial weights":
        return ""
    noted = next((note for note in proof.notes if note.startswith(NOT_BEGUN)), "")
    if noted or proof.proved:
        return noted or f"proved from its {proof.proved_from} only"
    return str(proof.attempt.obstacle) if proof.attempt.obstacle is not None else "not confirmed by the verifier"
