"""Write docs/reference/benchmarks.md from the figures in benchmarks/results: one table for each topic.

    python benchmarks/page.py [--check]

With `--check` nothing is written, and the exit code says whether the page is that of the figures.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "reference" / "benchmarks.md"
INTRODUCTION = """# Benchmarks

Every table is made from a file in `benchmarks/results/` by `python benchmarks/page.py`; the script that measured it is
named above it. Peers and the machine's own limit are measured in the same run as our figure. Machines were shared, and
repeated runs differ by ten per cent and more.

| script | what it measures |
|---|---|
"""
SCRIPTS = {
    "training.py": "steps per second, against PyTorch, a plain JAX loop, and the machine's rate of products",
    "seeds.py": "many seeds at once, on CPU and GPU",
    "gram.py": "Gram matrices of finite networks, against neural-tangents and nngeometry",
    "gram_device.py": "the same on a GPU, against its rate of matrix products",
    "limits.py": "Gram matrices at infinite width, against neural-tangents and mpmath",
    "functions.py": "Gram matrices of any JAX function",
    "dynamics.py": "predicted training curves against real ones, by width",
    "certificates.py": "which networks are proved after training, how wide they must be before it, and what that costs",
    "own_loss.py": "default scikit-learn networks in their own loss, proved at their very weights",
    "torch_models.py": "nine PyTorch models as people train them: what loads, what is proved",
    "onnx_zoo.py": "which share of a folder of ONNX files can be read, and how well it agrees",
    "certificates_large.py": "certificates for thousands of rows: stages, memory, the verifier's seconds",
    "from_start.py": "proofs from the initial weights: all networks, and the cost of following steps",
    "sgd.py": "SGD from weights that fit: from how far, for which batches, in hostile orders; the positive start",
    "stages.py": "seconds by stage of one proof, on every device",
    "tables.py": "`prove` on every table of a folder",
    "estimates.py": "the estimate on unseen rows against rows kept out, and coin tosses",
    "uci.py": "infinitely wide networks as classifiers, against support vectors and forests",
    "classifiers.py": "`NTKClassifier()` against scikit-learn's classifiers, nothing tuned",
    "scale.py": "infinitely wide networks on a GPU: 60,000 and 100,000 images",
    "scale_peers.py": "thousands of images on a processor, against scikit-learn and GPyTorch",
    "scale_streamed.py": "a million images without the matrix, and how far predictions are off",
    "sweeps.py": "what a sweep costs besides its tasks, and how it scales over workers",
    "sweep_batches.py": "seeds of a sweep one by one, side by side and batched",
    "lab.py": "the page of `wideproof lab`: points and frames per second, bytes, memory",
}  # fmt: skip


def read(name: str) -> Any:
    """Return the figures of a file, or `None` where it is not there."""
    path = HERE / "results" / name
    return json.loads(path.read_text()) if path.exists() else None


def table(heads: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


def short(value: float | None, digits: int = 3) -> str:
    """Return a number in a few characters."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.{digits}g}"


def spread(values: list[int]) -> str:
    """Return the smallest and the largest of some numbers."""
    if not values:
        return "–"
    return f"{values[0]:,}" if len(set(values)) == 1 else f"{min(values):,} to {max(values):,}"


def machine(found: dict[str, Any]) -> str:
    """Return where figures come from."""
    where = found.get("device") or ""
    if "machine" in found:
        where = f"{found['machine']['cores']} cores of an {found['machine']['processor']}" + (
            f", {where}" if where else ""
        )
    versions = ", ".join(f"{name} {number}" for name, number in found.get("versions", {}).items() if name != "python")
    return f"Measured on {where}{', with ' + versions if versions else ''}.\n" if where else ""


def training() -> str:
    """Steps per second."""
    found = read("cpu-training.json")
    rows = []
    for row in found["rows"]:
        ours = row["ours_steps_per_second"]
        rows.append([
            row["case"], row["precision"], row["activation"], short(ours),
            f"{ours / row['torch_steps_per_second']:.2f}",
            f"{ours / row['jax_steps_per_second']:.2f}", f"{row['gflops']:.0f}", f"{row['of_gemm']:.2f}",
        ])  # fmt: skip
    heads = ["case", "dtype", "activation", "steps/s", "× PyTorch", "× JAX loop", "GFLOP/s", "of the rate of products"]
    text = "tiny: 20 examples, width 64, depth 2; small: 100, 256, 3; large: 500, 2048, 3. Two cores.\n\n" + table(
        heads, rows
    )
    for name, where in (("h200-seeds.json", "an H200"),):
        seeds = read(name)
        took = [seeds[precision]["seconds"] for precision in ("float32", "float64")]
        ratios = [t["one by one"] / t["batch"] for t in took]
        text += f"\n32 seeds of the tiny case in one call take {ratios[0]:.0f} (float32) and {ratios[1]:.0f} (float64) "
        text += f"times less time than one after another on {where}.\n"
    return text


def grams() -> str:
    """Finite Gram matrices."""
    rows = []
    names = {
        "fc-1000-1": "fully-connected, n 1000, width 1024, depth 3", "fc-4000-1": "the same, n 4000",
        "fc-1000-10": "the same, n 1000, 10 outputs", "fc-4000-10": "the same, n 4000, 10 outputs",
        "conv": "convolutional residual, 300 digits, width 128, depth 4", "rnn": "Elman, n 200, length 16, width 512",
    }  # fmt: skip
    for file in ("gram-float64.json", "gram-float32.json", "gram-float32-4000-10.json"):
        found = read(file)
        for case in found["sizes"]:
            own = {row["method"]: row for row in found["rows"] if row["case"] == case}
            ours = own["wideproof"]
            peers = []
            for key in ("neural-tangents", "nngeometry"):
                other = next((row for name, row in own.items() if name.startswith(key) and row.get("seconds")), None)
                failed = next((row["status"] for name, row in own.items() if name.startswith(key)), "–")
                peers.append(f"{other['seconds'] / ours['seconds']:.2g}" if other else failed or "–")
            rows.append([names.get(case, case), found["precision"], short(ours["seconds"]), *peers,
                         f"{ours['seconds'] / ours['floor_seconds']:.2g}"])  # fmt: skip
    text = machine(read("gram-float64.json")) + "\n"
    text += table(["case", "dtype", "seconds", "× neural-tangents", "× nngeometry", "× floor"], rows)
    found = read("gram-h200.json")
    known = [row for row in found["rows"] if "width" in row and "fraction of floor" in row]
    rows = [[short(row["n"]), str(row["width"]), row["precision"], short(row["seconds"]),
             f"{row['fraction of floor']:.2f}"] for row in known]  # fmt: skip
    return text + f"\nOn an {found['device']}:\n\n" + table(["n", "width", "dtype", "seconds", "floor / seconds"], rows)


def certificates() -> str:
    """Proofs after and before training."""
    found = read("certificates-after.json")
    rows = [[f"`{row['network']}`", str(row["n"]), short(row["h"]), row["verdict"], short(row["certify_seconds"]),
             short(row["verify_seconds"])] for row in found["rows"]]  # fmt: skip
    text = "After training:\n\n" + machine(found) + "\n"
    text += table(["network", "examples", "h", "verdict", "certify, s", "verify, s"], rows)
    found = read("certificates-before.json")
    rows = []
    for row in found["rows"]:
        rows.append([row["data"], row["activation"], " and ".join(row["trained"]), str(row["depth"]),
                     *(spread(row[key]) for key in ("widths", "widths_with_theorem_4"))])  # fmt: skip
    heads = ["data", "activation", "trained", "depth", "smallest width, Theorem 1", "with Theorem 4"]
    return (
        text + "\nBefore training, the smallest width that is proved:\n\n" + machine(found) + "\n" + table(heads, rows)
    )


def thousands() -> str:
    """Certificates for thousands of rows."""
    found, rows, gib = read("certificates-large.json"), [], 2.0**30
    for row in found["rows"]:
        took, checked = row["seconds"], row.get("verified") or {}
        rows.append([
            f"{row['n']:,}", str(row["outputs"]), f"{row['width']:,}", row["device"].replace("cpu", "CPU"),
            short(row["claims"]["h"]), short(row["claims"]["rate"]),
            *(short(took[name]) for name in ("training", "polishing", "certifying")),
            short((row["device_peak_bytes"] or row["peak_bytes"]) / gib), checked.get("answer", "–"),
            short(checked.get("seconds")), short(checked.get("processor_seconds")),
            short(checked["peak_bytes"] / gib) if checked else "–",
        ])  # fmt: skip
    heads = ["digits", "outputs", "width", "made on", "h", "rate", "training, s", "polishing, s",
             "certifying, s", "GiB there", "verdict", "verified in, s", "of processor time, s", "GiB"]  # fmt: skip
    return (
        "The first digits of MNIST, even against odd, or each class against the others; one hidden layer of erf units, "
        "all weights trained. With as many units as digits the part of the read-out alone was bounded, which gives a "
        "smaller rate. CPU and verifier: two cores, which other programs used as well.\n\n" + table(heads, rows)
    )


def from_start() -> str:
    """Proofs from the initial weights."""
    found = read("from-start-networks.json")
    rows = []
    for row in found["rows"]:
        batch = "GD" if row.get("batch") is None else f"SGD, {row['batch']}"
        said = row["said"]
        if said == "the loss":
            said = f"{row['share']:.2g} of the initial loss" if "share" in row else f"a loss of {row['loss']:.2g}"
        bits = "" if math.isnan(row["true_bits"]) else f" ({row['true_bits']:.1f})"
        rows.append([
            row["network"], str(row.get("depth", "")), row.get("activation") or "relu", str(row["n"]), batch,
            row["start"], f"{row['alpha']:g}", str(row["steps"]), f"{row['growth_bits']:.1f}{bits}", said,
            f"{row['train_seconds'] + row['certify_seconds']:.1f}", short(row.get("verify_seconds")),
            short(row.get("processor_seconds")), ", ".join(map(str, row.get("tables") or [])),
        ])  # fmt: skip
    heads = ["network", "depth", "activation", "n", "batches", "start", "alpha", "K", "growth (true), bits", "proved",
             "prover, s", "verifier, s", "processor, s", "tables at"]  # fmt: skip
    text = (
        "`normal` is the papers' start; from `zero`, units in pairs, outputs begin at 0 and are multiplied by `alpha`, "
        "by the rule that the script states. K steps are followed; *growth* is by how many bits the bound of a small "
        "change of the start grows in them, and *true* a direct estimate of it. Other programs ran on the same cores: "
        "seconds are upper bounds. *processor*: seconds of processor time of the certificate that is shown and its "
        "verdict, where it was measured. *tables at*: the steps at which norms of products of layers were taken. "
        "Proofs that begin at the initial weights themselves have K = 0.\n\n"
    )
    return text + machine(found) + "\n" + table(heads, rows)


def own_losses() -> str:
    """Networks of scikit-learn in their own loss."""
    found = read("own-loss.json")
    rows = []
    for row in found["rows"]:
        exact = row["theorem"] == "descent"
        taken = row["true steps"]
        rows.append([
            row["table"], f"{row['activation']}, {row['ran']:,}",
            "–" if row["right"] is None else f"{row['right']} of 60", short(row["loss now"]),
            "0" if exact else short(row["loss reached"]) + " → 0" * row["to zero"],
            short(row["loss reached"]) if exact else "–", f"{row['steps']:,}" + " growing" * row["growing"],
            "–" if taken is None else f"{taken:,}", "1" if exact else "11",
            "yes" if row["proved"] and row["same weights"] else "no", f"{row['seconds']:.1f}, {row['verifier']:.2f}",
        ])  # fmt: skip
    heads = ["table", "network, iterations it ran", "rows right", "loss now", "loss reached", "after these steps",
             "steps proved", "in fact", "theorem", "at its very weights", "seconds, the verifier's"]  # fmt: skip
    total, proved = len(rows), sum(row["proved"] and row["same weights"] for row in found["rows"])
    return (
        f"{machine(found)}\n"
        "`MLPClassifier` and `MLPRegressor` with their defaults (100 units, Adam, L2 penalty), 60 rows, "
        f"200 and up to 3,000 iterations, written to ONNX and given to `wp.certify`: {proved} of {total} "
        "are proved at their very weights. Losses: mean cross-entropy (iris, wine), mean logistic loss "
        "(breast cancer), half the sum of squares (diabetes). Gradient descent is on the last layer, from "
        "the weights as they are; 0 stands where it converges to an exact fit, and the next column then "
        "has the loss after the proved steps; an arrow where the loss tends to 0. Steps in fact are those "
        "of the same gradient descent in float64, or by eigenvalues. Other jobs shared the machine, and "
        "the first proof of each kind compiles.\n\n" + table(heads, rows)
    )


def pytorch() -> str:
    """PyTorch models as people train them."""
    found = read("torch-models.json")
    rows = []
    for row in found["rows"]:
        after = short(row["loss_reached"]) + " → 0" * row["to_zero"]
        rows.append([
            f"({row['model']}) {row['said']}", f"{row['weights']:,}",
            "whole" if row["loads"] else f"head `{row['head']}`", f"{row['agreement']:.0e}",
            "yes" if row["proved"] else "no", f"{row['moved']:g}",
            "–" if row["right"] is None else f"{row['right']} of {row['rows']}", short(row["loss_now"]), after,
            f"{row['steps']:,}", f"{row['processor_seconds']:.1f}, {row['verifier_seconds']:.2f}",
            f"{row['peak_bytes'] / 2**30:.2f}",
        ])  # fmt: skip
    refused = [row for row in found["rows"] if not row["loads"]]
    names = {"MultiheadAttention": "attention", "LayerNorm": "LayerNorm"}
    ways = []
    for row in refused:
        kinds = list(dict.fromkeys(said.split(" ")[0] for said in row["obstacles"]))
        ways.append(f"({row['model']}) {', '.join(str(names.get(kind, kind)) for kind in kinds)}")
    heads = ["model; optimizer", "weights", "read", "difference", "proved", "moved", "rows right", "loss now",
             "loss reached", "steps", "seconds, the verifier's", "GiB"]  # fmt: skip
    return (
        f"{machine(found)}\n"
        "300 of scikit-learn's digits with cross-entropy, and of its diabetes table 200 rows with squares (e); trained "
        "in float32, then given to `wp.certify` as they are, in float64. What is proved is the loss at these weights "
        "and what gradient descent on the last layer reaches from there after so many steps (an arrow: in the end 0). "
        "A model with a layer that cannot be read is refused with every such layer named, and the head is proved "
        f"instead: {'; '.join(ways)}. The difference is that of the outputs on all rows, over the largest; moved is "
        "how far the weights of the proof are from those that were read. Seconds are the processor's, with "
        "compiling, the verifier's those on the clock of a machine in use; the memory is that "
        "of PyTorch and JAX too, whose import alone takes "
        f"{found['rows'][0]['imports_bytes'] / 2**30:.2f} GiB.\n\n" + table(heads, rows)
    )


def zoo() -> str:
    """ONNX files of the VNN-COMP benchmarks."""
    found = read("onnx-zoo.json")
    families: dict[str, list[dict[str, Any]]] = {}
    for row in found["rows"]:
        families.setdefault(row["family"], []).append(row)
    rows = []
    for name, own in sorted(families.items()):
        loaded = [row for row in own if row["result"] == "loaded"]
        ways = sorted({way for row in own for way in row["obstacles"]})
        large = sum(row["result"] == "too large" for row in own)
        ways += [f"{large} above {found['largest']:g} MB"] * (large > 0)
        far = max((row["difference"] for row in loaded if "difference" in row), default=None)
        rows.append([name, f"{len(loaded)} of {len(own)}", "–" if far is None else f"{far:.0e}", ", ".join(ways)])
    total = len(found["rows"])
    loaded = [row for row in found["rows"] if row["result"] == "loaded"]
    crashed = sum(row["result"] == "crashed" for row in found["rows"])
    damaged = sum("damaged" in row["obstacles"] for row in found["rows"])
    compared = [row["difference"] for row in loaded if "difference" in row]
    heads = ["family", "load", "largest difference", "in the way"]
    return (
        f"{machine(found)}\n"
        "The networks of the VNN-COMP benchmark sets of 2021 to 2026, as far as the copies that were at hand hold them "
        "(405 distinct files were missing there, 357 of them of `metaroom`): of distinct files at most "
        f"{found['most']} of each family and year. {len(loaded)} of {total} load ({len(loaded) / total:.0%}), "
        f"{crashed} crashed; "
        f"{damaged} files are cut off there. All that load agree with ONNX's reference evaluator in float64 to "
        f"{max(compared):.0e} of the largest output.\n\n" + table(heads, rows)
    )


def stochastic() -> str:
    """SGD from weights that fit, and before training from the positive start."""
    found = read("sgd-theorems.json")
    rows = [[row["what"], short(row.get("d")), short(row.get("eta")), short(row.get("rate"), 2),
             short(row.get("failure"), 2), row["verdict"], short(row.get("verify_seconds"))]
            for row in found["rows"]]  # fmt: skip
    heads = ["what", "every start within", "factor of a batch's sum", "rate", "failure", "verdict", "verify, s"]
    text = (
        "200 digits, one hidden layer of 256 erf units, all weights trained by SGD and polished: from how far away "
        "convergence is proved. The rate is a step's, for Theorem 5 an epoch's.\n\n" + machine(found) + "\n"
    ) + table(heads, rows)
    rows = [[row["order"], short(row["epochs"]), short(row["bound_used"]), short(row["radius_used"]),
             f"{row['left']:.1g}"] for row in read("sgd-hostile.json")["rows"]]  # fmt: skip
    heads = ["order", "epochs", "of the residual's bound", "of the radius", "residual at the end"]
    text += "\nRuns from the border of Theorem 5's starts, in orders chosen against them:\n\n" + table(heads, rows)
    rows = [[str(row["width"]), str(row["depth"]), short(row["scale"]), short(row.get("h")), row["verdict"]]
            for row in read("sgd-positive.json")["rows"]]  # fmt: skip
    text += "\nThe positive start before training, 20 digits, tanh: the smallest scale of the outputs with a proof:\n\n"
    return text + table(["width", "depth", "scale", "h", "verdict"], rows)


def stages() -> str:
    """Seconds by stage of a proof."""
    rows = []
    for where, name in (("two cores", "stages-cpu.json"), ("16 cores and an H200", "stages-h200.json")):
        found = read(name)
        names = list(found["runs"][0]["stages"])
        for row in found["runs"]:
            if name == "stages-h200.json" or row["device"] == "cpu":
                device = where if name == "stages-cpu.json" else f"{where}, {row['device'].replace('default', 'GPU')}"
                figures = [f"{row['stages'][key]:.2f}" for key in names if key != "loading"]
                rows.append([device, row["programs"], *figures, f"{row['rest']:.1f}", f"{row['seconds']:.1f}"])
    heads = ["where", "compiled programs", *(key for key in names if key != "loading"), "the rest", "all"]
    return (
        "Seconds of `wideproof prove pima`, 768 rows; the median of three where compiled programs are kept. The rest "
        "is Python's start, imports and the report.\n\n" + table(heads, rows)
    )


def tables() -> str:
    """Tables of the UCI collection."""
    found = read("tables-uci.json")
    known = found["rows"]
    proved = {name: row for name, row in known.items() if row["outcome"] in ("proved", "least loss")}
    first = [row for row in proved.values() if row["proved_from"] == "initial weights"]
    seconds = sorted(row["seconds"] for row in known.values())
    zero, none = sum(row["outcome"] == "proved" for row in proved.values()), len(known) - len(proved)
    most = max(row["rows"] for row in known.values() if "rows" in row)
    steps = [row["followed"] for row in first if row["followed"]]
    at = [sum(row["alpha"] <= alpha for row in first) for alpha in (1, 10, 100)]
    text = (
        f"`wideproof prove TABLE`, nothing else said, on {len(known)} sets of the UCI collection with up to {most:,} "
        f"rows: {len(proved)} are proved, {zero} to zero loss and {len(proved) - zero} to the least loss that "
        f"contradicting labels leave; {len(first)} from the initial weights, none of them polished. Outputs are not "
        f"multiplied (alpha = 1) on {at[0]}, by at most 10 on {at[1]}, by at most 100 on {at[2]}. {len(steps)} follow "
        f"steps, {min(steps)} to {max(steps)} of them, the others none. "
        + (f"{none} have no answer. " if none else "")
        + f"Median {statistics.median(seconds):.0f} s, the longest {seconds[-1]:.0f} s, prover and verifier together, "
        "while other programs ran on the same cores. *Moved*: by how much of their length the weights move on their "
        "way, at most.\n\n"
    )
    rows = []
    for name, row in sorted(known.items()):
        moved = row.get("share_moved")
        rows.append([
            name, short(row.get("rows")), row["outcome"], row.get("proved_from") or "", short(row.get("alpha")),
            short(row.get("followed")), "" if moved is None else f"{100 * moved:.2g} %", short(row["seconds"]),
            short(row["memory_gb"]),
        ])  # fmt: skip
    heads = ["table", "rows", "outcome", "proved from", "alpha", "steps followed", "moved", "seconds", "GB"]
    return text + machine(found) + "\n" + table(heads, rows)


def estimates() -> str:
    """Estimates on unseen rows, against rows kept out."""
    found = read("estimates.json")
    told = found["summary"]

    def pair(values: list[float]) -> str:
        return f"{100 * values[0]:.1f} ± {100 * values[1]:.1f}"

    proofs, proved, limits = told["proofs"]
    far = ", ".join(told["far"]) or "none"
    text = (
        f"{len(told['tables'])} tables of the UCI collection, the smallest with 60 rows or more, {told['splits']} "
        "splits: a random 60 % of the rows, equal rows together, for the proof and its estimate, the rest to see what "
        "comes true. In percent, with standard errors. Steps are not followed, so outputs are multiplied by more than "
        f"by default; {proofs} splits are proved in full ({proved} proved, {limits} predicted with the weights that "
        "gradient descent tends to), of the others only these weights are found. The estimate less what came out: mean "
        f"over the tables {pair(told['off'])}; off by more than 5 beyond two standard errors: {far}. Support vectors "
        f"with settings chosen by folds are better than the networks by {pair(told['svc'])}, random forests by "
        f"{pair(told['forest'])}.\n\n"
    )
    rows = [
        [name, *(f"{100 * row[key]:.1f}" for key in ("estimate", "accuracy")), pair([row["off"], row["error"]]),
         *(f"{100 * row[key]:.1f}" for key in ("svc", "forest"))]
        for name, row in told["tables"].items()
    ]  # fmt: skip
    heads = ["table", "estimate", "came out", "difference", "support vectors", "forest"]
    text += machine(found) + "\n" + table(heads, rows)
    text += (
        "\nCoin tosses, 100 normal rows, labels that have nothing to do with them. A network that fits them answers "
        "the rarer side too, so that with unequal sides it does worse on fresh tosses than always answering the "
        "other:\n\n"
    )
    names = {"0.5": "half and half", "0.7": "70 to 30"}
    rows = []
    for key, row in told["tosses"].items():
        majority, columns = key.split()
        rows.append([names[majority], columns, *(pair(row[what]) for what in ("estimate", "accuracy", "off"))])
    return text + table(["labels", "columns", "estimate", "on fresh tosses", "difference"], rows)


def limits() -> str:
    """Infinite width."""
    found = read("limits.json")
    rows = [[row["activation"], short(row["n"]), str(row["depth"]), short(row["seconds"]), f"{row['error']:.1e}"]
            for row in found["rows"]]  # fmt: skip
    text = machine(found) + "\n" + table(["activation", "n", "depth", "seconds", "error against mpmath"], rows)
    growth = [[short(row["n"]), short(row["seconds"]), short(row["peak_gb"])] for row in found["growth"]]
    return text + "\n" + table(["n", "seconds", "GB"], growth)


def dynamics() -> str:
    """Predicted training curves against real ones."""
    found = read("dynamics-h200.json")
    widths = sorted({row["width"] for row in found["rows"] if "width" in row})
    off = {(row["network"], row["width"]): row["deviation"] for row in found["rows"] if "deviation" in row}
    slopes = {row["network"]: row["slope"] for row in found["rows"] if "slope" in row}
    rows = [[f"`{name}`", *(f"{100 * off[name, width]:.2g} %" for width in widths), short(slope)]
            for name, slope in slopes.items()]  # fmt: skip
    text = machine(found) + (
        "\nLargest relative deviation of the loss from its prediction, until it has fallen to a tenth; step size "
        "$0.5/\\lambda_{\\max}$, mean over seeds. The last column is the exponent fitted in the width.\n\n"
    )
    return text + table(["network", *(f"width {width}" for width in widths), "exponent"], rows)


def sweeping() -> str:
    """Seeds of a sweep in three ways, and what a sweep costs besides its tasks."""
    ways = ("one by one", "side by side", "batched")
    rows = []
    for name, where in (("sweep-batches-cpu.json", "two cores"), ("sweep-batches-h200.json", "NVIDIA H200")):
        for row in read(name)["rows"]:
            rows.append([where, str(row["width"]), *(f"{row[way]:.1f}" for way in ways)])
    found = read("sweeps.json")
    cost = found["overhead"]
    per = {
        n: statistics.median(row["per_second"] for row in found["throughput"] if row["workers"] == n) for n in (1, 2)
    }
    text = "Seconds for a whole sweep of 32 seeds and 2,000 steps:\n\n" + table(["where", "width", *ways], rows)
    return text + (
        f"\nBesides the task itself, each of {cost['tasks']:,} small tasks costs {cost['here']['overhead_ms']:.1f} ms "
        f"here and {cost['cluster']['overhead_ms']:.1f} ms on a Dask cluster (`benchmarks/sweeps.py`). Two Dask "
        f"workers finish {per[2] / per[1]:.1f} times as many tasks per second as one.\n"
    )


def classifiers() -> str:
    """Infinitely wide networks as classifiers."""
    found = read("uci.json")
    names = {"ntk": "infinitely wide networks", "rbf": "support vectors, Gaussian kernel", "forest": "random forests"}
    rows = [[names[key], f"{row['mean']:.1f} %", f"{row['PMA']:.1f} %", f"{row['P90']:.1f} %", f"{row['P95']:.1f} %",
             short(row["seconds"])] for key, row in found["summary"].items()]  # fmt: skip
    text = machine(found) + (
        f"\n{len(found['sets'])} small classification sets of the UCI collection: settings are chosen on one split, "
        "accuracy is the mean over four folds. P90 and P95 are the shares of sets with at least 90 and 95 % of the "
        "best accuracy of the three.\n\n"
    )
    return text + table(["method", "mean accuracy", "of the best accuracy", "P90", "P95", "seconds"], rows)


def as_they_come() -> str:
    """Classifiers with their defaults."""
    found = read("classifiers.json")
    names = {
        "NTK": "`NTKClassifier()`", "SVC": "`SVC`", "forest": "random forest", "boosting": "`HistGradientBoosting`",
        "MLP": "`MLPClassifier`",
    }  # fmt: skip
    rows, digits = [], found["sets"]["digits"]["results"]
    for key, row in found["summary"].items():
        better, worse = row["better than NTK"]
        rows.append([
            names[key.removesuffix("+")] + (" after a scaler" if key.endswith("+") else ""),
            f"{row['accuracy']:.1f} %", f"{row['rank']:.2f}", f"{row['wins']}",
            "–" if key == "NTK" else f"{better} / {worse}", f"{row['seconds']:.3f}",
            f"{100 * digits[key]['accuracy']:.1f} % in {digits[key]['seconds']:.2f} s",
        ])  # fmt: skip
    sets = [one for name, one in found["sets"].items() if name != "digits"]
    least, most = (kind(one["n"] for one in sets) for kind in (min, max))
    text = (
        "Nothing is tuned: `NTKClassifier()`, which chooses its preparation and its ridge itself, against four "
        f"classifiers of scikit-learn with their defaults, as they are and after `StandardScaler`. {len(sets)} sets of "
        f"the UCI collection, the smallest with {least} rows or more ({least} to {most} rows; most are standardized "
        "already), and the digits; five folds, the same for all. Ranks are means over the "
        f"{len(sets) + 1} sets, 1 is best; a set is won by each of the best. Seconds are the median of processor "
        f"seconds of a fit on one core. {machine(found)}\n"
    )
    heads = ["classifier", "accuracy", "rank", "won", "better / worse than `NTKClassifier()`", "fit, s", "digits"]
    times = found["summary"]["NTK"]["seconds"] / found["summary"]["SVC"]["seconds"]
    return (
        text
        + table(heads, rows)
        + (f"\nA support vector machine is fitted {times:.0f} times as quickly, without choosing anything.\n")
    )


def images() -> str:
    """Images by the tens of thousands."""
    found = read("scale.json")
    rows = [[short(row["n"]), f"{row['activation']}, depth {row['depth']}", short(row["first_fit"]), short(row["fit"]),
             short(row["predict"]), f"{100 * row['error']:.2f} %", short(row["left_out"]), short(row["peak_gb"])]
            for row in found["rows"] if "search" not in row]  # fmt: skip
    (best,) = (row for row in found["rows"] if "search" in row)
    text = (
        f"MNIST's images, each divided by its norm, on an {found['device']} in float64; the first fit, which compiles "
        "what was not compiled before it, and the best of three others, the ridge chosen by leaving examples out (the "
        "row of 100,000 has a given ridge, and 40,000 of its images are others moved by a pixel). The last column but "
        "one is the squared error of examples left out, by which a setting is chosen without the test images.\n\n"
    )
    heads = ["images", "network", "first fit, s", "fit, s", "predict 10,000, s", "errors", "left out", "GB"]
    return text + table(heads, rows) + (
        f"\n`NTKClassifierCV` over {best['search']} settings takes {best['fit']:.0f} s ({best['first_fit']:.0f} s the "
        f"first time) and chooses {best['activation']}, depth {best['depth']}: {100 * best['error']:.2f} % errors on "
        "the test images, which it has not seen.\n"
    )  # fmt: skip


def on_a_processor() -> str:
    """Thousands of images on a processor."""
    found = read("scale-peers.json")
    rows = []
    for row in found["rows"]:
        figures = [row.get("failed", ""), "", ""]
        if "fit" in row:
            figures = [short(row["fit"]), short(row["predict"]), f"{100 * row['error']:.2f} %"]
        rows.append([row["method"], short(row["n"]), *figures])
    text = (
        "MNIST's images, each divided by its norm; every method chooses its settings without the 10,000 test images: "
        "by leaving out in closed form here, by three folds in scikit-learn, by the likelihood in GPyTorch. "
    )
    heads = ["method", "images", "choose and fit, s", "predict 10,000, s", "errors"]
    text += machine(found) + "\n" + table(heads, rows)
    rows = [[short(row["n"]), f"{row['activation']}, depth {row['depth']}", short(row["fit"]), short(row["predict"]),
             f"{100 * row['error']:.2f} %"] for row in read("scale-cpu.json")["rows"]]  # fmt: skip
    heads = ["images", "network", "choose and fit, s", "predict 10,000, s", "errors"]
    return text + "\nMore images on the same two cores (`benchmarks/scale.py --only 20000`):\n\n" + table(heads, rows)


def streamed() -> str:
    """A million images without the matrix."""
    found = read("scale-streamed.json")
    rows = [[short(row["n"]), short(row["ridge"]), short(row["tol"], 1), str(row["steps"]), short(row["fit"]),
             f"{100 * row['error']:.2f} %", short(row["stated"], 2), short(row["true"], 2) if "true" in row else ""]
            for row in found["rows"] if row["part"] != "ridge"]  # fmt: skip
    tried = ", ".join(f"{row['ridge']:g}: {100 * row['held_out_error']:.2f} %"
                      for row in found["rows"] if row["part"] == "ridge")  # fmt: skip
    text = (
        f"MNIST's images, turned by up to 10 degrees and moved by up to 1.5 pixels beyond the first 60,000, on an "
        f"{found['device']}; conjugate gradients with steps in float32 and residuals in float64; first calls, "
        "compilation included. `stated` is the bound on the difference of any prediction from the exact solution's, "
        "`true` the largest difference on the 10,000 test images where the exact solution was computed too. "
        f"Errors by ridge on 5,000 images kept out of 100,000, solved exactly: {tried}; rows of more images take 0.1, "
        "the largest within a standard error of the best, in proportion to their number.\n\n"
    )
    heads = ["images", "ridge", "tolerance", "steps", "fit, s", "errors", "stated", "true"]
    sizes = [row for row in found["rows"] if row["part"] == "sizes"][1:]  # the first one compiles
    first, last = sizes[0], sizes[-1]
    slope = math.log(last["fit"] / first["fit"]) / math.log(last["n"] / first["n"])
    return text + table(heads, rows) + (
        f"\nSeconds grow like $n^{{{slope:.2f}}}$ from {first['n']:,} to {last['n']:,} images.\n"
    )  # fmt: skip


def lab() -> str:
    """The lab's page."""
    found = read("lab.json")
    cold, run, last = found["cold"], found["running_at_the_end"], found["memory_mb"][-1]
    rows = [
        ["first paint, first picture of a network", f"{cold['seconds_to_first_paint']:.2f} s, "
         f"{cold['seconds_to_first_look']:.1f} s"],
        ["loaded", f"{cold['bytes'] / 1000:.0f} kB in {cold['requests']} requests, none to another host"],
        ["points, frames a second, tiny network", f"{run['points_per_second']:,.0f}, {run['frames_per_second']:.0f}"],
        ["steps a second with the page, without", f"{run['steps_per_second']:,.0f}, "
         f"{found['steps_per_second_without_a_page']:,.0f}"],
        [f"memory after {last['minutes']:.0f} minutes: server, worker, page's heap",
         f"{last['server']:.0f} MB, {last['workers'][0]:.0f} MB, {last['tab_heap']:.0f} MB"],
    ]  # fmt: skip
    return "Two cores, Chromium on the same machine.\n\n" + table(["what", "figure"], rows)


TOPICS: dict[str, tuple[str, Callable[[], str]]] = {
    "Tables": ("tables.py", tables),
    "From the initial weights": ("from_start.py", from_start),
    "SGD and basins": ("sgd.py", stochastic),
    "Stages of a proof": ("stages.py", stages),
    "Certificates": ("certificates.py", certificates),
    "Models in their own loss": ("own_loss.py", own_losses),
    "PyTorch models": ("torch_models.py", pytorch),
    "ONNX files": ("onnx_zoo.py", zoo),
    "Thousands of rows": ("certificates_large.py", thousands),
    "Training": ("training.py", training),
    "Gram matrices": ("gram.py", grams),
    "Infinite width": ("limits.py", limits),
    "Predicted training curves": ("dynamics.py", dynamics),
    "Estimates on unseen rows": ("estimates.py", estimates),
    "Classifiers": ("uci.py", classifiers),
    "Classifiers as they come": ("classifiers.py", as_they_come),
    "Images on a GPU": ("scale.py", images),
    "Sweeps": ("sweep_batches.py", sweeping),
    "Images on a processor": ("scale_peers.py", on_a_processor),
    "A million images": ("scale_streamed.py", streamed),
    "The lab": ("lab.py", lab),
}


def page() -> str:
    """Return the whole page."""
    listed = "".join(f"| `{name}` | {what} |\n" for name, what in SCRIPTS.items() if (HERE / name).exists())
    parts = [f"## {title}\n\nBy `benchmarks/{script}`. {make()}" for title, (script, make) in TOPICS.items()]
    return INTRODUCTION + listed + "\n" + "\n".join(parts)


def main() -> int:
    """Write the page, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    made = page()
    if parser.parse_args().check:
        return 0 if PAGE.exists() and PAGE.read_text() == made else 1
    PAGE.write_text(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
