"""All certificates of many random starts, verified again, and whether they are of the starts that are counted."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wideproof.cards import Told
from wideproof.certificates import Certificate, load_certificate
from wideproof.errors import InputError
from wideproof.networks import Network, from_config
from wideproof.proving.predictor import CERTIFICATE
from wideproof.proving.starts import STARTS, OneStart, Starts, place_of, read_start, starts_of
from wideproof.storage import read_json

if TYPE_CHECKING:
    from wideproof_verify import Verdict

NEAR = 1e-9  # initial weights that are drawn again on another machine differ by rounding
UNFINISHED = "not finished"


@dataclass(frozen=True)
class VerifiedStarts(Told):
    """What the verifier says of the certificates of many starts.

    Attributes
    ----------
    starts
        The starts, as they were counted.
    verdicts
        The verifier's answer for the certificate of each start that has one, by seed.
    wrong
        By seed, what is wrong with a start that was counted as proved.
    """

    starts: Starts
    verdicts: Mapping[int, Verdict]
    wrong: Mapping[int, str]

    @property
    def unfinished(self) -> int:
        """The number of starts that are not finished."""
        return sum(one.why == UNFINISHED for one in self.starts.starts)

    @property
    def confirmed(self) -> bool:
        """Whether all starts are finished, and all that were counted as proved are."""
        return not self.wrong and not self.unfinished

    def __str__(self) -> str:
        proved, took = (one.answer == "proved" for one in self.verdicts.values()), self.verdicts.values()
        lines = [
            f"{sum(proved)} of {len(self.verdicts)} certificates are proved, {sum(one.seconds for one in took):.1f} s"
        ]
        lines += [f"start {seed}: {why}" for seed, why in self.wrong.items()]
        if self.unfinished:
            count = f"{self.unfinished} of {len(self.starts.starts)}"
            lines.append(f"{count} starts are not finished: run the same `wideproof prove` again")
        return "\n".join([*lines, *([self.starts.headline, self.starts.meaning] if self.confirmed else [])])

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON.

        Returns
        -------
        dict[str, Any]
            The verdicts by seed, what is wrong, and the starts.
        """
        return {
            "confirmed": self.confirmed, "wrong": dict(self.wrong), "unfinished": self.unfinished,
            "certificates": {str(seed): dataclasses.asdict(one) for seed, one in self.verdicts.items()},
            "starts": self.starts.to_dict(),
        }  # fmt: skip


def is_of_starts(folder: str | Path) -> bool:
    """Return whether a folder holds the proofs of many starts.

    Parameters
    ----------
    folder
        A folder.

    Returns
    -------
    bool
        Whether it was written by `prove` with `seeds`.
    """
    return (Path(folder) / STARTS).is_file()


def verify_starts(
    folder: str | Path, tell: Callable[[int, Verdict], None] = lambda seed, verdict: None, **limits: Any
) -> VerifiedStarts:
    """Verify the certificates of all starts in a folder, and compare them with what was fixed for all starts.

    That a certificate is proved, the independent verifier says. That it is one of these starts is compared here: its
    network and step size are those of the folder, its data are those of the other certificates, and its initial weights
    are those that its seed draws, up to rounding.

    Parameters
    ----------
    folder
        A folder that `prove` wrote with `seeds`.
    tell
        Is called with every seed and its verdict.
    **limits
        Further arguments of the verifier: `time`, `memory`, `balls`.

    Returns
    -------
    VerifiedStarts
        The verdicts, and what is wrong.
    """
    from wideproof_verify import verify

    if not is_of_starts(folder):
        raise InputError(f"{folder} holds no proofs of random starts: `wideproof prove --seeds` writes such a folder")
    folder = Path(folder)
    about = read_json(folder / STARTS)
    network, first = from_config(about["network"]), None
    made: list[OneStart] = []
    verdicts: dict[int, Verdict] = {}
    wrong: dict[int, str] = {}
    for seed in range(about["pilot"] + 1, about["pilot"] + 1 + about["seeds"]):
        place = place_of(folder, seed)
        kept = read_start(place)
        made.append(OneStart(seed, False, UNFINISHED, None, None, 0.0) if kept is None else kept[0])
        if (place / CERTIFICATE).is_dir():
            verdicts[seed] = verify(place / CERTIFICATE, **{"time": math.inf, **limits})
            tell(seed, verdicts[seed])
        if not made[-1].proved:
            continue
        if seed not in verdicts:
            wrong[seed] = "its certificate is missing"
        elif verdicts[seed].answer != "proved":
            wrong[seed] = f"its certificate is {verdicts[seed].answer}: {verdicts[seed].reason}"
        else:
            certificate = load_certificate(place / CERTIFICATE)
            first = first or certificate
            found = _odd(certificate, first, network, seed, about["step_size"])
            wrong |= {seed: found} if found else {}
    return VerifiedStarts(starts_of(about, network, tuple(made), folder), verdicts, wrong)


def _odd(made: Certificate, first: Certificate, network: Network, seed: int, step_size: float) -> str:
    """Return why a certificate is not about one of these starts; nothing where it is."""
    if made.theorem not in ("descent", "epochs"):
        return f"its certificate is about something else: {made.theorem}"
    if made.graph.to_dict() != network.graph.to_dict():
        return "its certificate is about another network"
    if not (np.array_equal(made.x, first.x) and np.array_equal(made.y, first.y)):
        return "its certificate is about other data"
    size = made.claims["eta"] if made.start is None else made.start.step_size
    if size != step_size:
        return f"its certificate is about the step size {size:.6g}, not {step_size:.6g}"
    begun = {**made.params, **({} if made.start is None else made.start.params)}
    if not all(np.allclose(begun[name], drawn, rtol=NEAR, atol=NEAR) for name, drawn in network.init(seed).items()):
        return f"its initial weights are not those that seed {seed} draws"
    return ""
