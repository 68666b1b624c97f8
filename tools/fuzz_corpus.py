"""Write small certificates of every theorem, network, loss and kind of start: a corpus for the fuzzer of the verifier.

    python tools/fuzz_corpus.py CORPUS --match "epochs|ridge"

Each is a folder of its own, named after theorem, kind and network; two or three rows and few units, so that a verdict
takes some hundredths of a second. What is there already is kept. A theorem that does not hold for a network is left
out, with a sentence that says why.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from wideproof.certificates import (
    Basin,
    Descent,
    Epochs,
    Finite,
    Logistic,
    Margins,
    Momentum,
    Newton,
    Orders,
    Point,
    Problem,
    ReadOut,
    Ridge,
    Sampling,
    Theorem,
    balanced,
    certify,
    certify_from_start,
    doubled,
    enter,
    polish,
    polish_ridge,
)
from wideproof.data import AnyDataset, Dataset, ImageDataset, SequenceDataset
from wideproof.errors import InputError
from wideproof.networks import (
    ConvResidual,
    DeepReLU,
    DeepRNN,
    Described,
    ElmanRNN,
    FullyConnected,
    Graph,
    Network,
    Residual,
    ResidualReLU,
    Sketch,
    get_activation,
)
from wideproof.networks.base import Gaussian, Zeros
from wideproof.networks.exchange import from_onnx, to_onnx
from wideproof.networks.graph import Node, Term, bias
from wideproof.networks.maps import Average, Patches
from wideproof.training import Recipe, Run, train
from wideproof.training.train import begin

TANH = get_activation("tanh")
ALL = ("recurrent", "input", "output")
LOSSES = ("squared", "logistic", "exp_linear", "squared_hinge", "half_squared_hinge", "huber_hinge")


def _dense() -> Described:
    """Biases, a skip, two activations."""
    sketch = Sketch(4)
    first = sketch.dense(sketch.input, 5, "tanh")
    return sketch.read_out(sketch.dense(first, 5, "gelu", skip=first, scale=0.8), 1)


def _image() -> Described:
    """Convolutions in two dimensions with a skip, average pooling, a dense layer behind."""
    sketch = Sketch((1, 4, 4))
    first = sketch.conv(sketch.input, 2, 3, "softplus")
    second = sketch.conv(first, 2, 3, "tanh", skip=first)
    return sketch.read_out(sketch.dense(sketch.average(second, 2), 3, "sigmoid"), 1)


def _strided() -> Described:
    """A convolution in one dimension with stride 2 and no padding; two outputs."""
    sketch = Sketch((2, 7))
    return sketch.read_out(sketch.conv(sketch.input, 3, 3, "erf", stride=2, padding=0), 2)


def _relu() -> Described:
    sketch = Sketch(4)
    first = sketch.dense(sketch.input, 7, "relu")
    return sketch.read_out(sketch.dense(first, 6, "relu"), 1)


def _fixed() -> Described:
    """One weight in the middle and one bias are not trained."""
    sketch = Sketch(4)
    first = sketch.dense(sketch.input, 5, "arctan")
    return sketch.read_out(sketch.dense(first, 4, "softplus", bias=False), 2).training(["W1", "W3", "b3"])


def _branching() -> Described:
    """A skip from the input, and a node that two later nodes read."""
    sketch = Sketch(4)
    first = sketch.dense(sketch.input, 4, "tanh", skip=sketch.input)
    second = sketch.dense(first, 4, "sin", bias=False)
    return sketch.read_out(sketch.dense(first, 4, "swish", skip=second), 1)


def _tied() -> Described:
    """A weight used twice, two weights in a node, a sum of values, a node that leads nowhere, uneven padding."""
    odd, pooled = Patches((5,), (2,), (1,), ((1, 0),)), Average((5,), (3,), (1,), ((0, 1),))
    nodes = (
        Node((Term("U", -1, odd), bias("b")), TANH, 0.9),
        Node((Term("V", 0, odd), Term("U", -1, odd)), get_activation("softplus"), 0.7, 0),
        Node((Term(None, 1, pooled), Term(None, 0, pooled)), get_activation("mish")),
        Node((Term("V", 1, odd), Term(None, 0)), scale=0.5),
        Node((Term("T", 2), Term(None, 2))),
    )
    shapes = {"U": (2, 2, 2), "V": (2, 2, 2), "T": (2, 2), "C": (1, 8)}
    laws = {name: Gaussian(shape, 0.5) for name, shape in shapes.items()} | {"b": Zeros((2,)), "c": Zeros((1,))}
    return Described(Graph((2, 5), nodes, "C", (4,), 1, ("V", "C", "b", "U", "c", "T"), "c"), tuple(laws.items()))


def _through_onnx(network: Network) -> Network:
    """The network that is read from the ONNX file of another."""
    with tempfile.TemporaryDirectory() as folder:
        to_onnx(network, {name: np.asarray(w) for name, w in network.init(0).items()}, Path(folder, "model.onnx"))
        return from_onnx(Path(folder, "model.onnx")).network


NETWORKS: dict[str, Callable[[], Network]] = {
    "wide": lambda: FullyConnected(4, 16, 1, TANH),
    "softplus-deep": lambda: FullyConnected(4, 6, 3),
    "hidden": lambda: FullyConnected(4, 16, 1, trained=("hidden",)),
    "outputs": lambda: FullyConnected(4, 10, 2, TANH, outputs=2),
    "gelu": lambda: FullyConnected(4, 6, 2, get_activation("gelu")),
    "sin": lambda: FullyConnected(3, 8, 1, get_activation("sin")),
    "relu": lambda: FullyConnected(4, 7, 2, get_activation("relu")),
    "residual": lambda: Residual(4, 6, 3, c_res=0.7),
    "conv-residual": lambda: ConvResidual(2, 4, 3, 2),
    "conv-residual-outputs": lambda: ConvResidual(2, 3, 4, 2, filter_size=5, activation=TANH, outputs=2),
    "deep-relu": lambda: DeepReLU(4, 8, 2),
    "residual-relu": lambda: ResidualReLU(4, 8, 2, residual_scale=0.4, trained=("hidden", "output")),
    "elman": lambda: ElmanRNN(3, 9, 3, outputs=2),
    "elman-all": lambda: ElmanRNN(3, 8, 3, outputs=1, trained=ALL),
    "deep-rnn": lambda: DeepRNN(3, 9, 3, depth=2, outputs=1),
    "deep-rnn-all": lambda: DeepRNN(3, 9, 3, depth=2, outputs=2, trained=(*ALL, "between")),
    "own-dense": _dense,
    "own-image": _image,
    "own-strided": _strided,
    "own-relu": _relu,
    "own-fixed": _fixed,
    "own-branching": _branching,
    "own-tied": _tied,
    "onnx-dense": lambda: _through_onnx(_dense()),
    "onnx-image": lambda: _through_onnx(_image()),
    "onnx-conv": lambda: _through_onnx(ConvResidual(2, 4, 3, 2)),
}


def dataset(network: Network, x: np.ndarray, y: np.ndarray, task: str = "regression") -> AnyDataset:
    """The data set of the kind that the network takes."""
    x = x.reshape(*x.shape[:2], -1) if network.data_kind == "images" else x
    kind = {"vectors": Dataset, "images": ImageDataset, "sequences": SequenceDataset}[network.data_kind]
    return kind(x, y, task)


def inputs(network: Network, n: int, seed: int = 0) -> np.ndarray:
    """Inputs of norm about 1."""
    drawn = np.random.default_rng(seed).standard_normal((n, *network.input_shape))
    return drawn / math.sqrt(network.input_shape[-1])


def reachable(network: Network, n: int = 2, size: float = 0.1) -> AnyDataset:
    """Targets near the outputs at the start."""
    x, noise = inputs(network, n), np.random.default_rng(1).standard_normal((n, *network.output_shape))
    return dataset(network, x, np.asarray(network(network.init(0), x)) + size * noise)


def signed(network: Network, n: int = 2) -> AnyDataset:
    """Targets 1 and -1."""
    y = np.where(np.arange(n * math.prod(network.output_shape)) % 2, -1.0, 1.0).reshape(n, *network.output_shape)
    return dataset(network, inputs(network, n), y, "binary" if network.output_shape == () else "multiclass")


def fitted(network: Network, n: int = 2) -> Point:
    """Weights that fit to rounding; biases are drawn, so that they matter."""
    data, rng = reachable(network, n), np.random.default_rng(2)
    first = {name: np.array(w) for name, w in network.init(0).items()}
    first |= {name: 0.3 * rng.standard_normal(w.shape) for name, w in first.items() if not w.any()}
    x = data.x.reshape(n, *network.input_shape)
    y = np.asarray(network(first, x)) + 0.1 * rng.standard_normal((n, *network.output_shape))
    return Problem(network, dataset(network, x, y)).at(polish(network, first, x, y).params)


def near_fitted(network: Network, n: int = 2, away: float = 1e-4) -> Point:
    """Weights that fit but for something that steps can be seen to lower."""
    fit, rng = fitted(network, n), np.random.default_rng(3)
    return fit.problem.at({name: w + away * rng.standard_normal(w.shape) for name, w in fit.params.items()})


def run_of(network: Network, data: AnyDataset, steps: int, **recipe: Any) -> Run:
    """A short run, from the network's own start."""
    return train(network, data, Recipe(steps=steps, **recipe))


def descent(network: Network, away: float = 1e-4, step_size: float | None = None, sharp: bool = False) -> Any:
    """Theorem 1 from weights that nearly fit."""
    return certify(near_fitted(network, away=away), Descent(step_size), sharp=sharp)


def larger_step(network: Network) -> Any:
    """A step size between 1/b² and 2/(b² + s²), which is what kappa is for."""
    found = descent(network).descent
    return descent(network, step_size=1.2 * found.eta) if found is not None else None


def existence(network: Network) -> Any:
    """Theorem 2 alone."""
    attempt = descent(network)
    made = attempt.certificate
    if made is None or "D" not in made.claims:
        return None
    names = ("s", "radii", "lipschitz", "D", "newton_h", "newton_radius")
    names += tuple(name for name in ("distinct", "least_loss", "least_loss_at_most") if name in made.claims)
    claims = {name: made.claims[name] for name in names}
    return dataclasses.replace(attempt, certificate=dataclasses.replace(made, theorem="existence", claims=claims))


def from_start(network: Network, **recipe: Any) -> Any:
    """Theorem 1 where the steps from the start lead: with as few steps as suffice."""
    attempt = None
    for steps in (4, 12, 40):
        attempt = certify_from_start(run_of(network, reachable(network, 3 if recipe else 2), steps, **recipe))
        if attempt.certificate is not None:
            break
    return attempt


def finite(network: Network, loss: str, **recipe: Any) -> Any:
    """The loss after three steps."""
    data = reachable(network, 3) if loss == "squared" else signed(network, 3)
    return certify_from_start(run_of(network, data, 3, loss=loss, step_size=0.1, **recipe), Finite())


def around(theorem: Theorem, network: Network, n: int = 3) -> Any:
    """A theorem about all starts near weights that fit."""
    return certify(fitted(network, n), theorem)


def beside(network: Network) -> Any:
    """Gauss and Newton's steps from weights at some distance from a fit: as far as there is a proof."""
    attempt = None
    for far in (0.3, 0.1, 0.03, 0.01, 0.003, 0.001):
        data = reachable(network, 4, far)
        attempt = certify(Problem(network, data).at(network.init(0)), Newton())
        if attempt.certificate is not None:
            break
    return attempt


def entered(theorem: Theorem, network: Network) -> Any:
    """Steps from the start into a neighbourhood of which a theorem is about all starts."""
    attempt = None
    for steps in (6, 20, 60):
        data = reachable(network, 4, 0.02)
        run = run_of(network, data, steps, **({} if isinstance(theorem, Basin) else {"batch": 2}))
        near = polish(network, run.params, data.x.reshape(4, *network.input_shape), data.y).params
        found = certify(Problem(network, data).at(near), theorem)
        attempt = found if found.certificate is None else enter(run, found)
        if attempt.certificate is not None:
            break
    return attempt


def fit(network: Network) -> Any:
    """All examples on the right side."""
    data = signed(network, 3)
    near = polish(network, network.init(0), data.x.reshape(3, *network.input_shape), data.y).params
    return certify(Problem(network, data).at(near), Logistic())


def logistic(network: Network, room: float = 0.0) -> Any:
    """Theorem 3 where the margins are large already, to a loss a little lower."""
    data = signed(network)
    near = polish(network, network.init(0), data.x.reshape(2, *network.input_shape), 6 * data.y).params
    best = None
    for share in (0.999, 0.99, 0.9, 0.5):
        loss = float(np.log1p(np.exp(-6.0)))
        found = certify(Problem(network, data).at(near), Logistic(share * loss, room=room))
        if found.certificate is None or found.certificate.theorem != "logistic":
            break
        best = found
    return best


def read_out(network: Network) -> Any:
    """Gradient descent on the read-out, from the initial weights."""
    return certify(Problem(network, signed(network, 3)).at(network.init(0)), ReadOut())


def margins(network: Network) -> Any:
    """Gradient descent on all weights, from where the margins are large already."""
    data = signed(network, 3)
    near = polish(network, network.init(0), data.x.reshape(3, *network.input_shape), 3 * data.y).params
    return certify(Problem(network, data).at(near), Margins())


def logistic_from_start(network: Network, **recipe: Any) -> Any:
    """Theorem 3 where steps on the logistic loss lead."""
    return certify_from_start(run_of(network, signed(network, 3), 5, loss="logistic", **recipe))


def clashing(network: Network, n: int = 3) -> AnyDataset:
    """Rows of which two are equal and contradict each other."""
    data = reachable(network, n)
    y = np.concatenate([data.y, data.y[:1] + 0.01])
    return dataset(network, np.concatenate([data.x, data.x[:1]]).reshape(n + 1, *network.input_shape), y)


def impossible(network: Network) -> Any:
    """No weights fit contradicting rows."""
    return certify(Problem(network, clashing(network)).at(network.init(0)), Descent(require_zero=True))


def repeated(network: Network) -> Any:
    """Theorem 1 to the least loss that contradicting rows leave."""
    data = clashing(network)
    x = data.x.reshape(4, *network.input_shape)
    y = data.y.copy()
    y[[0, 3]] = y[[0, 3]].mean(axis=0)
    near = polish(network, network.init(0), x[:3], y[:3]).params
    return certify(Problem(network, data).at({name: w + 1e-6 for name, w in near.items()}))


def ridge(network: Network, centred: bool, repeats: bool = False) -> Any:
    """Weight decay, towards zero or towards the first weights."""
    data = clashing(network) if repeats else reachable(network, 3, 0.3)
    first = {name: np.array(w) for name, w in network.init(0).items()}
    centre, decay = first if centred else None, 0.5
    attempt = None
    for decay in (0.5, 2.0, 8.0):
        x = data.x.reshape(len(data.y), *network.input_shape)
        near = polish_ridge(network, first, x, data.y, decay=decay, centre=centre)
        attempt = certify(Problem(network, data).at(near.params), Ridge(decay, centre=centre))
        if attempt.certificate is not None:
            break
    return attempt


def positive_basin(width: int) -> Any:
    """A basin with one start, all of whose units are equal."""
    network = FullyConnected(6, width, 1, TANH, start="positive(20)")
    begun = {name: np.array(weight) for name, weight in network.init().items()}
    data = Dataset(np.eye(6)[:3], np.array([1.0, -1.0, 1.0]), "binary")
    near = polish(network, begun, data.x, data.y).params
    return certify(Problem(network, data).at(near), Basin(start=begun, share=0.5))


def started_basin(network: Network) -> Any:
    """A basin with one start near weights that fit."""
    fit, rng = fitted(network, 3), np.random.default_rng(5)
    begun = {name: w + 1e-5 * rng.standard_normal(w.shape) for name, w in fit.params.items()}
    begun |= {name: w for name, w in fit.params.items() if name not in network.trained_names}
    return certify(fit, Basin(start=begun))


def constant_sum(rows: int, outputs: int, activation: str) -> Any:
    """Targets and outputs whose sums are constant: JJᵀ is singular, and it does not matter."""
    sketch = Sketch(4)
    network = sketch.read_out(sketch.dense(sketch.dense(sketch.input, 5, "tanh"), 5, activation), outputs)
    rng = np.random.default_rng(3)
    params = {name: np.asarray(w) + 0.4 * rng.standard_normal(w.shape) for name, w in network.init(0).items()}
    params["W3"] -= params["W3"].mean(axis=0)
    params["b3"] += (1 - params["b3"].sum()) / outputs
    x = rng.standard_normal((rows, 4))
    even = balanced(network.graph, params, np.eye(outputs)[np.arange(rows) % outputs])
    assert even is not None
    y = np.rint((np.asarray(network(even, x)) + 1e-9 * rng.standard_normal((rows, outputs))) * 2.0**40) / 2.0**40
    y[:, -1] = 1 - y[:, :-1].sum(axis=1)
    return certify(Problem(network, Dataset(x, y, "regression")).at(even))


def jumps(width: int, n: int) -> Any:
    """Hidden ReLU units that may switch on the way."""
    network = DeepReLU(6, width, 1)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, 6))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    data = Dataset(x, np.where(np.arange(n) % 2, -1.0, 1.0), "binary")
    for steps in (20, 40, 80, 160):
        run = run_of(network, data, steps)
        params = {name: np.array(w) for name, w in run.params.items()}
        params["W1"][:, 0] -= (params["W1"][:, 0] @ x[0]) * x[0]  # one unit on its kink
        attempt = certify(Problem(network, data).at(params))
        if attempt.certificate is not None and "jump" in attempt.certificate.claims:
            return attempt
    return attempt


def nested(width: int, began: bool = False, **recipe: Any) -> Any:
    """Both layers trained from weights whose outputs are zero, on sets smaller than balls; or after some steps."""
    network = FullyConnected(20, width, 1)
    rng = np.random.default_rng(1)
    x = rng.standard_normal((3, 20))
    data = Dataset(x / np.linalg.norm(x, axis=1, keepdims=True), np.array([1.0, -1.0, 1.0]), "binary")
    start = doubled(network, seed=0)
    from wideproof.certificates.theorems import descent

    climb = descent.climb
    descent.climb = lambda *given: None  # leave the prover only the nested sets
    try:
        if not began:
            return certify(Problem(network, data).at(start))
        first = begin(network, data, Recipe(steps=3, **recipe))
        even = {name: np.asarray(w) for name, w in start.items()}
        run = train(network, data, first.recipe, start=dataclasses.replace(first, initial=even, params=even))
        return certify_from_start(run)
    finally:
        descent.climb = climb


def makers() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Names and makers of all certificates."""
    for name, made in NETWORKS.items():
        network = made()
        one = network.output_shape == () and network.data_kind != "sequences"
        yield f"descent-{name}", partial(descent, network)
        yield f"descent-sharp-{name}", partial(descent, network, sharp=True)
        yield f"descent-kappa-{name}", partial(larger_step, network)
        yield f"descent-repeated-{name}", partial(repeated, network)
        yield f"descent-start-gd-{name}", partial(from_start, network)
        yield f"descent-start-sgd-{name}", partial(from_start, network, batch=2)
        yield f"existence-{name}", partial(existence, network)
        yield f"impossible-{name}", partial(impossible, network)
        yield f"fit-{name}", partial(fit, network)
        if network.data_kind != "sequences":
            yield f"read_out-{name}", partial(read_out, network)
            yield f"margins-{name}", partial(margins, network)
        if one:
            yield f"logistic-{name}", partial(logistic, network)
            yield f"logistic-start-gd-{name}", partial(logistic_from_start, network)
            yield f"logistic-start-sgd-{name}", partial(logistic_from_start, network, batch=2, step_size=0.5)
        for k, loss in enumerate(LOSSES):
            if k == 0 or (len(name) + k) % 3 == 0:  # each loss with some networks
                yield f"finite-{loss}-gd-{name}", partial(finite, network, loss)
                yield f"finite-{loss}-sgd-{name}", partial(finite, network, loss, batch=2)
        yield f"basin-{name}", partial(around, Basin(), network)
        yield f"basin-at-{name}", partial(started_basin, network)
        yield f"basin-start-{name}", partial(entered, Basin(), network)
        yield f"epochs-{name}", partial(around, Epochs(2), network, 4)
        yield f"epochs-partition-{name}", partial(around, Epochs(2, partition=(0, 1, 0, 1)), network, 4)
        yield f"epochs-start-{name}", partial(entered, Epochs(2), network)
        yield f"sampling-{name}", partial(around, Sampling(2), network)
        yield f"sampling-start-{name}", partial(entered, Sampling(2), network)
        yield f"orders-{name}", partial(around, Orders(2), network)
        yield f"ridge-{name}", partial(ridge, network, False)
        yield f"ridge-centre-{name}", partial(ridge, network, True)
        yield f"ridge-repeated-{name}", partial(ridge, network, True, True)
        yield f"momentum-{name}", partial(around, Momentum(), network)
        yield f"newton-{name}", partial(around, Newton(), network)
        yield f"newton-near-{name}", partial(beside, network)
    for width in (8, 24):
        yield f"basin-positive-{width}", partial(positive_basin, width)
    for rows, outputs, activation in ((4, 2, "gelu"), (7, 3, "gelu"), (6, 3, "softplus"), (6, 4, "sin")):
        yield f"descent-constant-sum-{rows}-{outputs}-{activation}", partial(constant_sum, rows, outputs, activation)
    for width, n in ((64, 2), (96, 3), (128, 4)):
        yield f"descent-jumps-{width}-{n}", partial(jumps, width, n)
    for width in (400, 600):
        yield f"descent-nested-{width}", partial(nested, width)
        yield f"descent-nested-start-gd-{width}", partial(nested, width, True)
        yield f"descent-nested-start-sgd-{width}", partial(nested, width, True, batch=2)


def main(arguments: list[str] | None = None) -> int:
    """Write the corpus."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path, help="a folder")
    parser.add_argument("--match", default="", help="only names that fit this regular expression")
    options = parser.parse_args(arguments)
    made = 0
    for name, maker in makers():
        folder = options.corpus / name
        if not re.search(options.match, name) or folder.exists():
            continue
        begun = time.perf_counter()
        try:
            attempt = maker()
            found = getattr(attempt, "certificate", None)
            why = str(getattr(attempt, "obstacle", "") or "there is no such certificate")
        except (InputError, ValueError) as error:
            found, why = None, f"{type(error).__name__}: {error}"
        spent = f"{time.perf_counter() - begun:.1f} s"
        if found is None or found.theorem != name.split("-")[0]:
            print(f"left out {name} ({spent}): {why if found is None else found.theorem}", flush=True)
            continue
        found.save(folder)
        made += 1
        print(f"made {name} ({spent})", flush=True)
    print(f"{made} certificates")
    return 0


if __name__ == "__main__":
    sys.exit(main())
