"""The certificate: claims about one network on one data set, with everything needed to check them again.

A folder with two files: `certificate.json` (a summary for people, the network, the claims, digests) and
`arrays.safetensors` (weights and prepared data). Nobody has to trust the program that wrote it: `wideproof verify`
checks every claim in ball arithmetic and shares no code with it.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from safetensors.numpy import save as to_bytes

from wideproof.errors import InputError
from wideproof.networks import Graph, graph_from_dict
from wideproof.storage import new_folder, plain, read_json, replace_folder, write_bytes

FORMAT = "wideproof-certificate-2"
DOCUMENT, ARRAYS = "certificate.json", "arrays.safetensors"
ASSUMPTIONS = {
    "float64": ("ordinary float64 arithmetic, rounding not bounded: for exploring only",),
    "enclosed": (
        "IEEE doubles, rounding to nearest, conventional matrix products and Cholesky factors",
        "elementary functions within 4 units in the last place",
    ),
}


@dataclass(frozen=True, eq=False)
class Start:
    """The start and the steps of a training run, for a claim that begins there.

    Attributes
    ----------
    params
        The initial weights, by name; weights that are not trained are those of the anchor.
    step_size
        Step size (learning rate).
    steps
        Number of steps.
    batches
        The rows of every step, `steps x batch`; `None` if every step uses all rows.
    bits
        For every step, the number of fractional bits that is enough: a hint for the verifier.
    distance
        A bound on the distance of the exact steps' end from the anchor.
    tables
        The steps at which the verifier takes norms of products of layers: a hint.
    """

    params: Mapping[str, np.ndarray] = field(repr=False)
    step_size: float
    steps: int
    batches: Int[np.ndarray, "steps batch"] | None = field(repr=False)
    bits: tuple[float, ...] = field(repr=False)
    distance: float
    tables: tuple[int, ...] = ()

    def document(self) -> dict[str, Any]:
        """Return what the JSON file says about the start."""
        document: dict[str, Any] = {
            "step_size": float(self.step_size), "steps": int(self.steps), "bits": [float(b) for b in self.bits],
            "distance": float(self.distance),
        }  # fmt: skip
        return document | {"tables": [int(k) for k in self.tables]} if self.tables else document


@dataclass(frozen=True, eq=False)
class Certificate:
    """The claims of one theorem at one anchor.

    Attributes
    ----------
    summary
        The claim in words.
    theorem
        `"descent"`, `"existence"`, `"logistic"`, `"fit"`, `"impossible"`, `"basin"`, `"epochs"`, `"sampling"`,
        `"orders"`, `"ridge"`, `"momentum"`, `"newton"`, `"finite"`, `"read_out"` or `"margins"`.
    level
        How the claims were computed: `"float64"` or `"enclosed"`. A claim is called proved only when a verifier has
        confirmed it.
    graph
        The network.
    claims
        The claimed numbers, by name.
    params
        All weights at the anchor, by name.
    x
        The prepared inputs.
    y
        The prepared targets.
    sharp
        Whether the Lipschitz constants use the norms of whole products of layers.
    about
        Where the anchor comes from: name of the data set, seed, steps, distance moved by polishing.
    loss
        Name and reduction of the loss; `None` if the theorem fixes them.
    start
        The start of training; `None` if nothing is claimed about it.
    begun
        The trained weights of the single start of a basin; `None` for a whole ball of starts.
    centre
        The trained weights towards which weight decay pulls; `None` for zero.
    goal
        The trained weights with which gradient descent on a read-out is compared; `None` elsewhere.
    direction
        A direction of the trained weights in which all margins grow; `None` where none is needed.
    """

    summary: str
    theorem: str
    level: str
    graph: Graph
    claims: Mapping[str, Any]
    params: Mapping[str, np.ndarray] = field(repr=False)
    x: Float[np.ndarray, "n ..."] = field(repr=False)
    y: Float[np.ndarray, "n ..."] = field(repr=False)
    sharp: bool = False
    about: Mapping[str, Any] = field(default_factory=dict)
    loss: Mapping[str, str] | None = None
    start: Start | None = None
    begun: Mapping[str, np.ndarray] | None = field(default=None, repr=False)
    centre: Mapping[str, np.ndarray] | None = field(default=None, repr=False)
    goal: Mapping[str, np.ndarray] | None = field(default=None, repr=False)
    direction: Mapping[str, np.ndarray] | None = field(default=None, repr=False)

    def save(self, folder: str | Path) -> Path:
        """Write the certificate to a new folder.

        Parameters
        ----------
        folder
            The folder.

        Returns
        -------
        Path
            Its path.
        """
        folder = Path(folder)
        with new_folder(folder) as new:
            _write(new, self._files())
        return folder

    def put(self, folder: Path) -> None:
        """Write the certificate to a folder unless it is already there; another certificate in it is replaced.

        Parameters
        ----------
        folder
            The folder.
        """
        files = self._files()
        if not _holds(folder, files):
            with replace_folder(folder) as new:
                _write(new, files)

    def is_in(self, folder: str | Path) -> bool:
        """Return whether a folder holds this certificate: the same claims about the same arrays.

        Parameters
        ----------
        folder
            The folder.

        Returns
        -------
        bool
            Whether it does.
        """
        return _holds(Path(folder), self._files())

    def _files(self) -> dict[str, bytes]:
        arrays = {"x": self.x, "y": self.y} | {f"weights/{name}": weight for name, weight in self.params.items()}
        kept: dict[str, np.ndarray] = {name: np.array(a, np.float64, order="C") for name, a in arrays.items()}
        if self.start is not None:
            begun = {f"start/{name}": self.start.params[name] for name in self.graph.trained}
            kept |= {name: np.array(a, np.float64, order="C") for name, a in begun.items()}
            if self.start.batches is not None:
                kept["batches"] = np.array(self.start.batches, np.int64, order="C")
        beside = {"start": self.begun, "centre": self.centre, "goal": self.goal, "direction": self.direction}
        for kind, given in beside.items():
            kept |= {f"{kind}/{name}": np.array(a, np.float64, order="C") for name, a in (given or {}).items()}
        content = to_bytes(kept)
        document = self.document()
        document["digests"] = {
            "arrays": hashlib.sha256(content).hexdigest(),
            "certificate": hashlib.sha256(canonical(document).encode()).hexdigest(),
        }
        text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        return {ARRAYS: content, DOCUMENT: text.encode()}

    def document(self) -> dict[str, Any]:
        """Return what the JSON file says, without the digests."""
        from wideproof.version import __version__

        squared = self.theorem not in ("logistic", "fit", "finite")
        usual = {"name": "squared", "reduction": "half_sum"} if squared else {"name": "logistic", "reduction": "mean"}
        document = {
            "summary": self.summary,
            "format": FORMAT,
            "theorem": self.theorem,
            "level": self.level,
            "network": json.loads(json.dumps(self.graph.to_dict())),
            "bound": {"sharp": self.sharp},
            "loss": dict(self.loss or usual),
            "claims": plain(self.claims),
            "anchor": plain(self.about),
            "assumptions": list(ASSUMPTIONS[self.level]),
            "versions": {"wideproof": __version__, "numpy": np.__version__, "python": platform.python_version()},
        }  # fmt: skip
        return document if self.start is None else document | {"start": self.start.document()}


def canonical(document: Mapping[str, Any]) -> str:
    """Return the JSON text that the digest is of: all keys but `digests`, sorted, without spaces.

    >>> canonical({"b": 1, "a": 0.5, "digests": {}})
    '{"a":0.5,"b":1}'
    """
    rest = {key: value for key, value in document.items() if key != "digests"}
    return json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def load_certificate(folder: str | Path) -> Certificate:
    """Read a certificate; only the digests and the description of the network are checked.

    Parameters
    ----------
    folder
        A folder written by `Certificate.save`.

    Returns
    -------
    Certificate
        The certificate.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"there is no certificate folder {folder}: give the folder that `prove` or `certify` wrote")
    document = read_json(folder / DOCUMENT)
    try:
        content = (folder / ARRAYS).read_bytes()
        arrays = load(content)
        digests = document["digests"]
        whole = digests["arrays"] == hashlib.sha256(content).hexdigest()
        if not whole or digests["certificate"] != hashlib.sha256(canonical(document).encode()).hexdigest():
            raise InputError(f"{folder} was altered: its digests do not match its content")
        if document["format"] != FORMAT:
            raise InputError(
                f"{folder} holds a certificate in the format {document['format']!r}, this version reads {FORMAT!r}: "
                "make it again with `wideproof prove`"
            )
        weights, begun, centre, goal, direction = (
            {name.removeprefix(kind): a for name, a in arrays.items() if name.startswith(kind)}
            for kind in ("weights/", "start/", "centre/", "goal/", "direction/")
        )
        start = document.get("start")
        if start is not None:
            start = Start(
                {**weights, **begun}, start["step_size"], start["steps"], arrays.get("batches"), tuple(start["bits"]),
                start["distance"], tuple(start.get("tables", ())),
            )  # fmt: skip
        return Certificate(
            document["summary"], document["theorem"], document["level"], graph_from_dict(document["network"]),
            document["claims"], weights, arrays["x"], arrays["y"], document["bound"]["sharp"], document["anchor"],
            document["loss"], start, begun if begun and start is None else None, centre or None,
            goal or None, direction or None,
        )  # fmt: skip
    except (OSError, KeyError, TypeError, ValueError, SafetensorError) as error:
        raise InputError(f"{folder} is not a certificate, or is damaged ({error})") from error


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        write_bytes(folder / name, content)


def _holds(folder: Path, files: Mapping[str, bytes]) -> bool:
    try:
        return all((folder / name).read_bytes() == content for name, content in files.items())
    except OSError:
        return False
