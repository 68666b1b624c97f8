"""Every network, every start, small and large scales of the outputs: exact steps end in the proved tube."""

from __future__ import annotations

import copy
import dataclasses
from functools import cache
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx  # pyright: ignore[reportAttributeAccessIssue]

from tests.cases import each
from tests.verify import exact, making, stated
from tests.verify.test_following import distance
from wideproof.networks import (
    ConvResidual,
    DeepReLU,
    DeepRNN,
    ElmanRNN,
    FullyConnected,
    Network,
    Residual,
    ResidualReLU,
    Sketch,
    get_activation,
)
from wideproof_verify.arithmetic import FLOATS, PURE
from wideproof_verify.certificate import Start
from wideproof_verify.following import follow
from wideproof_verify.losses import Loss
from wideproof_verify.refusals import NotProvedError

TANH, EVERY = get_activation("tanh"), ("recurrent", "input", "output")
NETWORKS: dict[str, Any] = {
    "fully-connected": FullyConnected(3, 6, 2, TANH),
    "fully-connected-erf": FullyConnected(3, 6, 1, get_activation("erf"), outputs=2),
    "residual": Residual(3, 6, 3),
    "conv-residual": ConvResidual(2, 3, 4, 2, activation=TANH),
    "deep-relu": DeepReLU(3, 6, 3, trained=("hidden", "output")),
    "residual-relu": ResidualReLU(3, 6, 2, trained=("hidden", "output")),
    "elman-rnn": ElmanRNN(3, 6, 3, outputs=2, trained=EVERY),
    "deep-rnn": DeepRNN(3, 4, 3, depth=2, trained=("recurrent", "input", "between", "output")),
}


def sketch(start: str, alpha: float) -> Network:
    """A convolution, a skip and a dense layer."""
    made = Sketch((1, 4))
    first = made.conv(made.input, 4, 3, "tanh")
    second = made.conv(first, 4, 3, "softplus", skip=first)
    return made.read_out(made.dense(second, 4, "tanh"), 1, bias=False, start=start, alpha=alpha)


def drawn(name: str, start: str, alpha: float) -> Network:
    if name == "sketch":
        return sketch(start, alpha)
    return dataclasses.replace(NETWORKS[name], start=start, alpha=alpha)


@cache
def initial(name: str, start: str, seed: int) -> dict[str, np.ndarray]:
    return {key: np.asarray(weight) for key, weight in drawn(name, start, 1.0).init(seed).items()}


class Course:
    """A network with its outputs scaled, a start, targets, and how many steps of what."""

    def __init__(self, name: str, seed: int) -> None:
        rng = np.random.default_rng(seed)
        start, alpha = str(rng.choice(["normal", "doubled", "zero"])), float(10 ** rng.uniform(-2, 6))
        self.alpha = alpha = float(rng.choice([1.0, alpha, 2.0 ** rng.integers(-6, 20), 2.0 ** rng.integers(-6, 20)]))
        network, plain = drawn(name, start, alpha), drawn(name, start, 1.0)
        self.weights, self.config, self.plain = initial(name, start, seed % 16), making.config(network), plain
        self.net, self.matrices = making.read(self.config, self.weights)
        n = 3
        self.x = rng.standard_normal((n, *network.input_shape))
        found = stated.evaluate(self.config, self.weights, self.x)
        self.y = found.outputs.T + 10 ** rng.uniform(-2, 0.5, n) * rng.standard_normal(found.outputs.T.shape)
        self.eta = float(rng.uniform(0.1, 1)) / (float(np.linalg.norm(found.jacobian, 2)) ** 2 or 1.0)
        self.steps = int(rng.integers(1, 5))
        batched = rng.random() < 0.4
        self.batches = np.array([rng.permutation(n)[:2] for _ in range(self.steps)]) if batched else None
        self.bits, self.ops = float(rng.choice([-1000, 20, 60, 120])), PURE if rng.random() < 0.1 else FLOATS

    def tube(self, config: dict[str, Any] | None = None) -> Any:
        net, matrices = (self.net, self.matrices) if config is None else making.read(config, self.weights)
        trained = {name: matrices[name] for name in net.trained}
        start = Start(trained, self.eta, self.steps, self.batches, [self.bits] * self.steps, 1.0)
        return follow(net, matrices, start, self.x, self.y, Loss("squared", "half_sum"), self.ops)

    def exact(self) -> dict[str, Any]:
        """By the network without a scale, which stands in front of it, where the product is no rounded number."""
        config, alpha = (making.config(self.plain), self.alpha) if np.log2(self.alpha) % 1 == 0 else (self.config, 1.0)
        return exact.descend(config, self.matrices, self.x, self.y, self.eta, self.steps, self.batches, alpha)


def outside(name: str, seed: int) -> bool | None:
    """Whether the exact steps end outside the proved tube; `None` where none is proved."""
    with ctx.workprec(128), np.errstate(all="ignore"):
        course = Course(name, seed)
        try:
            tube = course.tube()
        except NotProvedError:
            return None
        return not distance(tube.point, course.exact()) <= tube.off


ALL = [*NETWORKS, "sketch"]


@pytest.mark.parametrize("name", each(ALL, slow=["conv-residual", "deep-rnn", "sketch"]))
def test_exact_steps_end_in_the_tube(name):
    found = [outside(name, seed) for seed in range(3)]
    assert not any(found)
    assert False in found


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_a_hundred_courses_end_in_the_tube(name):
    """`python -m tests.verify.test_exact_steps COUNT` takes more of them."""
    found = [outside(name, seed) for seed in range(112)]
    assert not any(found)
    assert found.count(False) > 60


@pytest.mark.parametrize("name", ["fully-connected", "residual", "elman-rnn"])
def test_a_lie_about_the_scale_or_the_start_leaves_the_tube(name):
    """A certificate's graph with another scale, or a start with a weight changed: the exact steps are elsewhere."""
    caught = 0
    for seed in range(100, 106):
        with ctx.workprec(128), np.errstate(all="ignore"):
            course = Course(name, seed)
            there = course.exact()
            lie = copy.deepcopy(course.config)
            for node in lie["nodes"][-len(lie["sites"]) :]:
                node["scale"] *= 1 + 1e-6
            try:
                assert not distance(course.tube(lie).point, there) <= course.tube(lie).off
                away = {**course.matrices, course.net.read_out: course.matrices[course.net.read_out] + 1e-6}
                course.matrices = away
                assert not distance(course.tube().point, there) <= course.tube().off
                caught += 1
            except NotProvedError:
                continue
    assert caught > 2


def test_the_exact_steps_are_those_of_floats():
    """Backpropagation by hand against derivatives that go forward, at the precision of floats."""
    for name in ALL:
        course = Course(name, 1)
        with ctx.workprec(exact.BITS):
            weights = {key: exact.ball(weight) for key, weight in course.matrices.items()}
            found = exact.gradient(making.config(course.plain), weights, course.x, course.y, arb(course.alpha))
        here = stated.evaluate(course.config, course.weights, course.x)
        slope = here.jacobian.T @ (here.outputs - course.y.T).ravel()
        flat = np.concatenate([np.vectorize(float)(found[key]).ravel() for key in course.net.trained])
        np.testing.assert_allclose(flat, slope, rtol=1e-8, atol=1e-8 * np.abs(slope).max())


def main() -> None:
    """Follow so many courses of every network, and say how many end where."""
    import sys
    import time

    count, first = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    for name in ALL:
        began = time.perf_counter()
        found = [outside(name, first + seed) for seed in range(count)]
        told = f"{found.count(False)} inside, {found.count(True)} outside, {found.count(None)} not proved"
        print(f"{name:20} {told}, {time.perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
