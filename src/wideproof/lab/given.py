"""What a notebook puts on the bench: somebody's own data and network, handed to a worker by files without pickle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wideproof.data import AnyDataset, Dataset, ImageDataset, pack, unpack
from wideproof.networks import Network, from_config, to_config
from wideproof.storage import read_json, read_tensors, write_json, write_tensors

NAME = "given"  # the kind of data, and the name of the network, that the settings mean these by


@dataclass(frozen=True, eq=False)
class Given:
    """Data, a network, and the settings that the bench opens with, each of them optional.

    >>> import tempfile
    >>> from wideproof.data import load
    >>> data = load("iris", limit=6)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Given(data).save(Path(folder))
    ...     Given.load(Path(folder)).data.digest == data.digest
    True
    """

    data: AnyDataset | None = None
    network: Network | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def save(self, folder: Path) -> None:
        """Write to a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        if self.data is not None:
            write_tensors(folder / "data.safetensors", *pack(self.data))
        network = None if self.network is None else to_config(self.network)
        write_json(folder / "given.json", {"network": network, "settings": dict(self.settings)})

    @classmethod
    def load(cls, folder: Path) -> Given:
        """Read what `save` wrote."""
        found = read_json(folder / "given.json")
        path = folder / "data.safetensors"
        data = unpack(*read_tensors(path)) if path.exists() else None
        return cls(data, None if found["network"] is None else from_config(found["network"]), found["settings"])

    def summary(self) -> dict[str, Any] | None:
        """Return what a page says of the data."""
        return None if self.data is None else {"name": self.data.name, "n": self.data.n, "kind": kind_of(self.data)}


def kind_of(data: AnyDataset) -> str:
    """Return `vectors`, `images` or `sequences`.

    >>> kind_of(Dataset([[1.0], [2.0]], [1, -1], "binary"))
    'vectors'
    """
    return "vectors" if isinstance(data, Dataset) else "images" if isinstance(data, ImageDataset) else "sequences"
