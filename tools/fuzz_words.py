"""What the last sentence of a verdict says its claims are about, read back and compared with the files.

The formulas of the network are read into nodes, as the file states them; numbers, sizes, digests and the loss are
compared one by one. Nothing of the verifier is used.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import numpy as np

ACTIVATIONS = (
    "softplus", "sigmoid", "tanh", "erf", "arctan", "sin", "swish", "gelu", "mish", "elu", "softsign", "relu",
)  # fmt: skip
NUMBER = r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?"
VALUE = r"(?:u|[ux]\d+|[ux]\[k(?:[-+]\d+)?\])"
LINES = 12  # formulas that a sentence may have
Term = tuple[str | None, int | None, str, tuple[Any, ...]]  # weight, source, map, its windows


class WordsError(Exception):
    """The words say something else than the files, or cannot be read (`unread`)."""

    def __init__(self, what: str, unread: bool = False):
        super().__init__(what)
        self.unread = unread


def same(said: Any, stored: Any, what: str) -> None:
    """Raise `WordsError` unless what is said is what is stored."""
    if said != stored:
        raise WordsError(f"{what}: said is {str(said)[:80]}, stored {str(stored)[:80]}")


def digest(*arrays: np.ndarray) -> str:
    """Return the SHA-256 over type, shape and entries of arrays."""
    total = hashlib.sha256()
    for array in arrays:
        sizes = ", ".join(map(str, array.shape)) + "," * (array.ndim == 1)
        kind = {"f": "<f8", "i": "<i8"}[array.dtype.kind]
        total.update(f"{kind}({sizes})".encode() + array.astype(kind).tobytes(order="C"))
    return total.hexdigest()


def canonical(value: Any) -> str:
    """Return canonical JSON, as the description of the format has it.

    >>> canonical({"b": [1, 2.0, None, True], "a": "x"})
    '{"a":"x","b":[1,2.0,null,true]}'
    """
    if isinstance(value, dict):
        return "{" + ",".join(f"{canonical(key)}:{canonical(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return repr(value)


def digests_fit(document: dict[str, Any], arrays: dict[str, np.ndarray], said: dict[str, str]) -> None:
    """Compare the digests of a verdict: of every array, of the data, of the graph."""
    found = {name: digest(array) for name, array in arrays.items()}
    found["data"] = digest(arrays["x"], arrays["y"])
    found["graph"] = hashlib.sha256(canonical(document["network"]).encode()).hexdigest()
    same(sorted(said), sorted(found), "what has a digest")
    for name, value in found.items():
        same(said[name], value, f"the digest of {name}")


def counts_fit(body: str) -> None:
    """One step, two steps."""
    for count, unit, many in re.findall(r"(?<![\d.e·-])(\d+)(?: more)? (step|epoch)(s?)\b(?! size)", body):
        same(bool(many), int(count) != 1, f"{count} {unit}{many}")


def subject_fits(
    words: str, document: dict[str, Any], arrays: dict[str, np.ndarray], sizes: list[tuple[tuple[int, ...], int]]
) -> None:
    """Compare the words behind "This is about"; `sizes` are grid and units of every node."""
    found = re.fullmatch(
        r"(\d+) rows? of (.*?) prepared inputs \(SHA-256 of the data ([0-9a-f]{64})\), (.*), and (.*)\.", words
    )
    if not found:
        raise WordsError("the words about the subject are not understood", unread=True)
    rows, shape, data, network, loss = found.groups()
    config, x = document["network"], arrays["x"]
    same(int(rows), len(x), "the number of rows")
    same(shape, " x ".join(map(str, x.shape[1:])), "the shape of the inputs")
    same(data, digest(x, arrays["y"]), "the digest of the data")
    name, mean = document["loss"]["name"], document["loss"]["reduction"] == "mean"
    wanted = "half the mean over the rows of ‖f − y‖²" if mean else "half the sum of squares"
    own = "the mean softmax cross-entropy" if name == "cross_entropy" else f"the mean {name} loss"
    if name not in ("squared", "cross_entropy") and config["outputs"] * len(config["sites"]) > 1:
        own = f"the mean over the rows of the sum of the {name} losses of all outputs"
    wanted = wanted if name == "squared" else own
    later = " from the second time on (the targets at the first time are not used)"
    same(loss, wanted + later * (config["times"] > 0), "the loss")
    anything = network == "any function of them"
    same(anything, document["theorem"] == "impossible", "whether it is about any function")
    if not anything:
        network_fits(network, config, sizes)


def network_fits(words: str, config: dict[str, Any], sizes: list[tuple[tuple[int, ...], int]]) -> None:
    """Compare the formulas of a network with the graph."""
    opening, _, tail = words.rpartition(" (")
    if not opening.startswith("the network ") or not tail.endswith(")"):
        raise WordsError("the words about the network are not understood", unread=True)
    *lines, out = split(opening.removeprefix("the network "), "; ")
    reader, nodes = Reader(config), config["nodes"]
    more = re.fullmatch(r"and (\d+) more formulas?", lines[-1])
    k = 0
    for line in lines[: len(lines) - bool(more)]:
        one, many = re.fullmatch(r"x(\d+) = (.*)", line), re.fullmatch(r"x\[k\] = (.*) for k = (\d+) to (\d+)", line)
        if not one and not many:
            raise WordsError(f"not understood: {line[:80]}", unread=True)
        first, last, text = (one[1], one[1], one[2]) if one else (many[2], many[3], many[1]) if many else ("", "", "")
        same(int(first), k + 1, "the number of a formula")
        text = text.replace("ᵀ ", " ") if config["columns"] else text  # units are columns of what is stored
        for number in range(int(first), int(last) + 1):
            same(reader.node(text, number), reader.stated(nodes[number - 1]), f"the formula of x{number}")
        k = int(last)
    if more:
        same(len(lines), LINES, "how many formulas are written out")
        same(0 < int(more[1]) <= len(nodes) - k, True, f"{more[1]} more formulas")
    else:
        same(k, len(nodes), "the number of nodes")
    ends = [site + 1 for site in config["sites"]]
    level = "" if config["bias"] is None else f" + {quoted(config['bias'])}"
    where = ", ".join(f"x{e}" for e in ends) if len(ends) <= LINES else f"x{ends[0]}, ..., x{ends[-1]}"
    at = f"x{ends[0]}{level}" if len(ends) == 1 else f"x{level} at {where}"
    same(out, f"f = {quoted(config['read_out'])} {at}", "the read-out")
    found = re.fullmatch(r"(.*?), (\d+) outputs?, (.*)\)", tail)
    if not found:
        raise WordsError(f"not understood: {tail[:80]}", unread=True)
    same(int(found[2]), config["outputs"], "the number of outputs")
    used = {t["weight"] for node in nodes for t in node["terms"]} | {config["read_out"], config["bias"]}
    whole = set(config["trained"]) == used - {None}
    same(
        found[3],
        "all weights trained" if whole else f"trained: {', '.join(map(quoted, config['trained']))}",
        "what is trained",
    )
    widths_fit(found[1], [units for _, units in sizes])


def widths_fit(words: str, widths: list[int]) -> None:
    """Compare how many layers have how many units."""
    alike = re.fullmatch(r"(\d+) hidden layers? of (\d+) units", words)
    each = re.fullmatch(r"hidden layers: (.*?)( \.\.\.)? units", words)
    if alike:
        same([int(alike[2])] * int(alike[1]), widths, "the hidden layers")
    elif each:
        parts = [part.split(" of ") for part in each[1].split(", ")]
        said = [int(units) for count, units in parts for _ in range(int(count))]
        same(said, widths[: len(said)] if each[2] else widths, "the hidden layers")
    else:
        raise WordsError(f"not understood: {words[:80]}", unread=True)


def quoted(name: str) -> str:
    """Return a name as the sentence has it: in quotation marks where it is no plain name."""
    return name if re.fullmatch(r"[A-Za-z_][\w.]*", name) and name not in ACTIVATIONS else f'"{name}"'


def bare(text: str) -> str:
    """Return the name that a sentence has, which must be quoted as it should be."""
    name = text.replace('"', "")
    if text != quoted(name):
        raise WordsError(f"not understood: {text[:80]}", unread=True)
    return name


def split(text: str, by: str) -> list[str]:
    """Split at what is in no brackets.

    >>> split("a b(u; v) + c + d", " + ")
    ['a b(u; v)', 'c', 'd']
    """
    parts, depth, begun, k = [], 0, 0, 0
    while k < len(text):
        depth += (text[k] == "(") - (text[k] == ")")
        if depth == 0 and text.startswith(by, k):
            parts.append(text[begun:k])
            begun = k = k + len(by)
            continue
        k += 1
    return [*parts, text[begun:]]


class Reader:
    """Nodes of a graph, from formulas and from the file, in one form: terms, activation, scale, skip."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.inputs = config["times"] or 1

    def stated(self, node: dict[str, Any]) -> tuple[Any, ...]:
        """Return a node of the file; what is added behind the identity is one more term."""
        terms: list[Term] = []
        for t in node["terms"]:
            phi = t["map"]
            windows = tuple(tuple(map(tuple, v)) if k == "padding" else tuple(v)
                            for k, v in ((k, phi[k]) for k in ("size", "stride", "padding")) if k in phi
                            ) if "size" in phi else ()  # fmt: skip
            constant = phi["kind"] == "ones"
            terms.append((t["weight"], None if constant else t["source"], phi["kind"], windows))
        return self._one(terms, node["activation"], float(node["scale"]), node["skip"])

    def node(self, text: str, number: int) -> tuple[Any, ...]:
        """Return the node that a formula says; `number` counts from 1."""
        skip = None
        first, *others = split(text, " + ")
        found = re.fullmatch(rf"(?:({NUMBER}) )?(?:({'|'.join(ACTIVATIONS)})\((.*)\)|\((.*)\))", text)
        if not found and others and re.fullmatch(VALUE, first):
            rest = text[len(first) + 3 :]
            found = re.fullmatch(rf"(?:({NUMBER}) )?(?:({'|'.join(ACTIVATIONS)})\((.*)\)|\((.*)\))", rest)
            skip = self.value(first, number) if found else None
        scale, name, inside = 1.0, "identity", text
        if found:
            scale, name, inside = float(found[1] or 1), found[2] or "identity", found[3] or found[4]
        return self._one([self.term(part, number) for part in split(inside, " + ")], name, scale, skip)

    def _one(self, terms: list[Term], name: str, scale: float, skip: int | None) -> tuple[Any, ...]:
        if name == "identity" and scale == 1 and skip is not None:
            terms, skip = [(None, skip, "identity", ()), *terms], None
        return terms, name, scale, skip

    def term(self, text: str, number: int) -> Term:
        """Return a term: a weight, what it multiplies, or both."""
        parts = split(text, " ")
        if len(parts) == 1 and not re.fullmatch(VALUE, text) and not text.endswith(")"):
            return bare(text), None, "ones", ()
        name, phi = (bare(parts[0]), parts[1]) if len(parts) == 2 else (None, text)
        found = re.fullmatch(
            rf"({VALUE})|flat\(({VALUE})\)|(windows|means)\(({VALUE}); size (\S+), stride (\S+), padding (\S+)\)", phi
        )
        if not found or len(parts) > 2:
            raise WordsError(f"not understood: {text[:80]}", unread=True)
        if not found[3]:
            return name, self.value(found[1] or found[2], number), "identity" if found[1] else "flat", ()
        size, stride = (tuple(map(int, found[k].split("x"))) for k in (5, 6))
        pads = [tuple(map(int, side.split("+"))) for side in found[7].split("x")]
        padding = tuple(side if len(side) == 2 else side * 2 for side in pads)
        kind = "patches" if found[3] == "windows" else "average"
        return name, self.value(found[4], number), kind, (size, stride, padding)

    def value(self, text: str, number: int) -> int:
        """Return the number that the file has for an input or a node."""
        found = re.fullmatch(r"([ux])(\d+)?(?:\[k([-+]\d+)?\])?", text)
        assert found is not None
        count = int(found[2] or 1) if "[" not in text else number + int(found[3] or 0)
        return -count if found[1] == "u" else count - 1
