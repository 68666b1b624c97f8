"""The bench in a notebook (Jupyter, marimo, VS Code): `wp.lab(data, network)`."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import anywidget

from wideproof.data import AnyDataset, load
from wideproof.errors import InputError
from wideproof.lab.frames import frame, parse
from wideproof.lab.given import NAME, Given, kind_of
from wideproof.lab.joined import module
from wideproof.lab.keeping import keep
from wideproof.lab.pipes import Worker
from wideproof.lab.settings import build_network, read, ready_data
from wideproof.lab.still import still
from wideproof.networks import Network

USUAL = {"vectors": "fully-connected", "images": "conv-residual", "sequences": "elman-rnn"}
FIRST = 300  # examples of a larger data set that are on the bench until somebody asks for more
MOST = 5000
MOST_COMMAND = 1 << 17  # characters of a message from a page
PATIENCE = 60.0  # seconds that a worker waits while nobody looks at its bench


def lab(
    data: Any = None,
    network: Network | str | None = None,
    *,
    target: str | int | None = None,
    classes: Sequence[Any] | None = None,
    limit: int | None = None,
    prepare: str = "auto",
    width: int | None = None,
    depth: int | None = None,
    activation: str | None = None,
    trained: str = "all",
    scale: float = 1.0,
    step: float = 0.5,
    batch: int = 0,
    order: str = "subsets",
    momentum: float = 0.0,
    seed: int = 0,
    folder: str | Path = "proofs",
) -> View:
    """Show the bench in a notebook, with your data and your network on it.

    Training runs in a process of its own, so the notebook stays free. The result shows itself; `view.proof` is the
    folder of the newest proof.

    Parameters
    ----------
    data
        Anything that `load` takes; without it the page offers data of its own.
    network
        A network for these data as they are, or the name of one.
    target, classes, limit
        As for `load`; of a large data set the first 300 examples are taken.
    prepare
        Steps as for `prepare`, `none`, or `auto` for steps that suit the data. A network that is given, and data that
        are prepared already, get none.
    width, depth, activation, trained
        Of the network; by default its own, or 256, 2, tanh and all parts.
    scale
        Multiplies the read-out weights at the start.
    step
        The step size as a multiple of 2/λmax of the Gram matrix at the start.
    batch
        Examples per step; 0 takes all.
    order
        `"subsets"`: a random subset for every step; `"epochs"`: every example once an epoch.
    momentum
        The coefficient of the momentum; 0 for none.
    seed
        Of the start and the batches.
    folder
        Where kept proofs are put.

    Examples
    --------
    >>> view = lab("iris", classes=("setosa", "virginica"), width=512)
    >>> view.settings["networks"][0]["width"], view.proof
    (512, None)
    >>> view.close()
    """
    wanted = {"width": width, "depth": depth, "activation": activation}
    asked = {"trained": trained, "scale": scale, "step": step, "batch": batch, "order": order,
             "momentum": momentum, "seed": seed}  # fmt: skip
    asked |= {key: value for key, value in wanted.items() if value is not None}
    if data is None and (target is not None or classes is not None):
        raise InputError("`target` and `classes` are about data: give some, or choose them on the bench")
    if data is None and isinstance(network, Network):
        raise InputError("a network is built for its data: give both, or the name of the network only")
    found = None if data is None else _loaded(data, target, classes, limit)
    own = network if isinstance(network, Network) else None
    examples: dict[str, Any] = {"prepare": prepare}
    if found is not None:
        examples |= {"kind": NAME, "name": found.name[:200], "n": min(found.n, limit or FIRST, MOST)}
        asked = {"name": network or USUAL[kind_of(found)]} | asked
    elif network is not None:
        asked = {"name": network} | asked
    if own is not None:
        asked = asked | {"name": NAME} | {key: wanted[key] or _own(own, key) for key in wanted if _own(own, key)}
    settings = read({"data": examples, "networks": [asked]})
    given = Given(found, own, settings.model_dump())
    if found is not None:  # what does not fit is said here, and not on the page
        _, ready = ready_data(settings.data, settings.networks[0].name, given=given)
        build_network(settings.networks[0], ready, given)
    return View(given, Path(folder))


class View(anywidget.AnyWidget):
    """The bench in a cell. `close` ends its worker and removes what was not kept."""

    _esm = module()

    def __init__(self, given: Given, folder: Path = Path("proofs")):
        super().__init__()
        self._folder, self._given = folder, given
        self._work = Path(tempfile.mkdtemp(prefix="view-", dir=_workshop()))
        self._proof: Path | None = None
        self._views: set[str] = set()
        self._resting: threading.Timer | None = None
        self._lock = threading.RLock()
        self._worker: Worker | None = None
        self._closed = False
        _OPEN.add(self)
        self._wake()  # already: it takes seconds to be ready
        self._rest_soon()
        self.on_msg(self._hear)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """Add a picture of the start, which is what a saved notebook shows where nothing runs."""
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is not None:
            with contextlib.suppress(Exception):  # without a picture the bench is still there
                bundle[0]["text/html"] = still(read(self.settings), self._given)
        return bundle

    @property
    def proof(self) -> Path | None:
        """The folder of the newest proof, with certificate, report and run, or `None`; the kept one if it was kept."""
        return self._proof

    @property
    def settings(self) -> dict[str, Any]:
        """What the bench is set to: its data and networks."""
        return dict(self._given.settings)

    def close(self) -> None:
        """Take the bench away."""
        if not getattr(self, "_closed", True):
            self._closed = True
            _OPEN.discard(self)
            self._rest()
            shutil.rmtree(self._work, ignore_errors=True)
        super().close()

    def _wake(self) -> Worker:
        """Return the worker; start one if there is none."""
        with self._lock:
            if self._resting is not None:
                self._resting.cancel()
                self._resting = None
            if self._worker is None:
                self._given.save(self._work / "given")
                paths = [*(self._work / name for name in ("uploads", "proofs", "given")), _workshop()]
                self._worker = Worker(self._tell, self._lost, paths, _workshop())
            return self._worker

    def _rest_soon(self) -> None:
        """End the worker in a while, unless somebody looks on by then."""

        def rest() -> None:
            if not self._views:
                self._rest()

        self._resting = threading.Timer(PATIENCE, rest)
        self._resting.daemon = True
        self._resting.start()

    def _rest(self) -> None:
        """End the worker; the next command starts another one."""
        with self._lock:
            worker, self._worker = self._worker, None
            if self._resting is not None:
                self._resting.cancel()
                self._resting = None
        if worker is not None:
            worker.end()

    def _tell(self, message: bytes) -> None:
        if message[4:21] == b'{"kind": "proof",':
            fields = parse(message)[1]
            if fields.get("state") == "proved":
                self._proof = Path(fields["path"])
        if not self._closed:
            self.send({}, [message])

    def _lost(self, how: str) -> None:
        with self._lock:
            self._worker = None  # the next command starts another one
        self._tell(frame("lost", text=f"the process that trained was lost ({how}): press reset to begin anew"))

    def _hear(self, _: Any, command: Any, buffers: Any) -> None:
        """Carry out what a page asks for."""
        if self._closed:
            return
        if not isinstance(command, Mapping) or len(json.dumps(command)) > MOST_COMMAND:
            self._tell(frame("error", text="this message was no command: ignored"))
            return
        doing: dict[Any, Callable[[Mapping[str, Any]], None]] = {"leave": self._leave, "keep": self._keep}
        doing.get(command.get("do"), self._pass_on)(command)

    def _pass_on(self, command: Mapping[str, Any]) -> None:
        if command.get("do") == "hello":
            self._views.add(str(command.get("view")))
        elif command.get("do") == "configure" and isinstance(command.get("settings"), Mapping):
            self._given = replace(self._given, settings=command["settings"])
        elif command.get("do") == "reset":  # of a worker that is new, too
            command = {"do": "configure", "settings": dict(self._given.settings)}
        self._wake().do(command)

    def _leave(self, command: Mapping[str, Any]) -> None:
        self._views.discard(str(command.get("view")))
        if not self._views and self._worker is not None:
            self._worker.do({"do": "pause"})
            self._rest_soon()

    def _keep(self, command: Mapping[str, Any]) -> None:
        place = next((path for path in self._work.glob("proofs/*") if path.name == command.get("folder")), None)
        if place is None:
            self._tell(frame("error", text="this proof is no longer there"))
            return
        try:
            kept = keep(place, self._folder)
        except OSError as error:
            self._tell(frame("error", text=f"the proof cannot be kept in {self._folder}: {error.strerror or error}"))
            return
        if self._proof == place:
            self._proof = kept
        self._tell(frame("kept", lane=command.get("lane", 0), folder=str(kept)))


_OPEN: set[View] = set()


@functools.cache
def _workshop() -> Path:
    """Return the folder of this process for what its benches write; it goes when the process does."""
    folder = Path(tempfile.mkdtemp(prefix="wideproof-lab-"))

    def leave() -> None:
        for view in list(_OPEN):
            view._rest()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(leave)
    return folder


def _loaded(data: Any, target: str | int | None, classes: Sequence[Any] | None, limit: int | None) -> AnyDataset:
    return load(data, target, classes=classes) if limit is None else load(data, target, classes=classes, limit=limit)


def _own(network: Network, key: str) -> Any:
    value = getattr(network, key, None)
    return getattr(value, "name", value)
