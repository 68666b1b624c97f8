"""Theorem 1 with jumps: ReLU units that switch on and off on the way, with weights on kinks; and what is refused."""

import copy
import math

import numpy as np
import pytest

from tests.certificates.making import dataset, signs, sphere
from tests.certificates.rewriting import parts, put
from wideproof.certificates import Descent, Problem, certify
from wideproof.certificates.anchor import measure
from wideproof.certificates.jumps import Jumps, has_jumps
from wideproof.certificates.squared_loss import descent
from wideproof.certificates.staircase import Staircase
from wideproof.networks import DeepReLU, FullyConnected, Sketch, get_activation
from wideproof_verify import verify

RELU = get_activation("relu")


def with_biases(outputs=1):
    sketch = Sketch(8)
    return sketch.read_out(sketch.dense(sketch.input, 120, "relu", scale=0.5), outputs).training(["W1", "b1", "b2"])


class Layer:
    """One hidden ReLU layer in plain NumPy: inputs with a 1 behind them where there are biases, no shared code."""

    def __init__(self, x, hidden, read, scale=1.0, sigma_at_zero=0.0):
        self.x, self.w, self.c, self.scale, self.at_zero = x, hidden, np.atleast_2d(read), scale, sigma_at_zero

    def pre(self, w):
        return w @ self.x.T

    def outputs(self, w):
        return self.scale * self.c @ np.maximum(self.pre(w), 0)

    def slopes(self, w):
        z = self.pre(w)
        return np.where(z == 0, self.at_zero, (z > 0).astype(float))

    def jacobian(self, slopes):
        """Rows (output, example)."""
        rows = self.scale * self.c[:, None, :, None] * slopes.T[None, :, :, None] * self.x[None, :, None, :]
        return rows.reshape(self.c.shape[0] * len(self.x), -1)


def trained(width=256, n=12, seed=0, steps=80, share=0.9, d=12):
    """A run of gradient descent whose units are being pushed onto their kinks."""
    x, y = sphere(n, d, seed), signs(n, seed)
    rng = np.random.default_rng(seed)
    layer = Layer(x, math.sqrt(2 / width) * rng.standard_normal((width, d)), np.repeat([1.0, -1.0], width // 2))
    w = layer.w
    eta = share / float(np.linalg.norm(layer.jacobian(layer.slopes(w)), 2)) ** 2
    for _ in range(steps):
        r = layer.outputs(w)[0] - y
        w = w - eta * (layer.c[0][:, None] * layer.slopes(w) * r) @ x
    network = DeepReLU(d, width, 1)
    return network, {"W1": w.T.copy(), "v": layer.c[0]}, dataset(network, x, y), eta


@pytest.fixture(scope="module")
def passing(tmp_path_factory):
    network, params, data, eta = trained()
    attempt = certify(Problem(network, data).at(params), Descent(step_size=eta))
    assert attempt.certificate is not None, str(attempt)
    return attempt, attempt.certificate.save(tmp_path_factory.mktemp("jumps") / "certificate")


def test_a_trained_network_with_units_on_kinks_is_proved(passing):
    attempt, folder = passing
    claims = attempt.certificate.claims
    assert claims["jump"] > 0
    assert claims["lipschitz"] == [0.0]
    z = attempt.certificate.x @ attempt.certificate.params["W1"]
    assert (np.abs(z) < claims["radii"][0]).sum() > 3  # without jumps there is no proof
    verdict = verify(folder)
    assert verdict.answer == "proved", verdict.reason
    assert any(name.startswith("jump²") for name, _, _ in verdict.checks)
    assert "zero loss" in verdict.statement


@pytest.mark.parametrize("sigma_at_zero", [0.0, 0.5, 1.0])
def test_gradient_descent_stays_within_what_is_proved_while_units_switch(passing, sigma_at_zero):
    attempt, _ = passing
    c, found = attempt.certificate, attempt.descent
    w = c.params["W1"].T.copy()
    layer = Layer(c.x, w, c.params["v"], sigma_at_zero=sigma_at_zero)
    path, switched, start = 0.0, 0, w
    for k in range(60):
        r = layer.outputs(w)[0] - c.y
        assert np.linalg.norm(r) <= found.rho * (1 - found.rate) ** k + 1e-13
        jacobian = layer.jacobian(layer.slopes(w))
        values = np.linalg.svd(jacobian, compute_uv=False)
        assert found.sigma <= values[-1]
        assert values[0] <= found.b
        move = found.eta * (jacobian.T @ r).reshape(w.shape)
        path += np.linalg.norm(move)
        switched += int((layer.slopes(w) != layer.slopes(w - move)).sum())
        w = w - move
    assert path < found.radius
    assert np.linalg.norm(w - start) < found.radius
    assert switched > 5


def test_the_theorem_on_small_layers_with_planted_zeros(rng):
    """Random layers with pre-activations at zero or next to it: where the conditions hold, so do rate and radius."""
    held = switched = 0
    for trial in range(300):
        n, d, units = int(rng.integers(1, 4)), 6, int(rng.integers(20, 80))
        x = np.eye(d)[:n] + 0.3 * rng.standard_normal((n, d))
        w, a = rng.standard_normal((units, d)), rng.choice([-1.0, 1.0], units)
        rho = 10 ** rng.uniform(-4, -1)
        radius = rho * 10 ** rng.uniform(-0.7, 0.3)
        for j in range(int(rng.integers(1, 4))):
            i, z = rng.integers(n), radius * rng.choice([0.0, 0.0, rng.uniform(-0.3, 0.3)])
            w[j] += (z - w[j] @ x[i]) * x[i] / (x[i] @ x[i])
        layer = Layer(x, w, a, sigma_at_zero=float(rng.choice([0.0, 0.3, 1.0])))
        error = rng.standard_normal(n)
        y = layer.outputs(w)[0] - rho * error / np.linalg.norm(error)
        open_ = np.abs(layer.pre(w)) <= radius * np.linalg.norm(x, axis=1)
        b = np.abs(a)[:, None] * open_
        jump = math.sqrt(np.linalg.eigvalsh((b.T @ b) * np.abs(x @ x.T))[-1].clip(0))
        values = np.linalg.svd(layer.jacobian(np.where(open_, 0.5, layer.slopes(w))), compute_uv=False)
        stairs, eta = Staircase((radius,), (0.0,)), None
        found = descent(rho, values[-1], values[0], stairs, jump=jump)
        if found is None:
            continue
        if trial % 2:
            eta = found.eta * float(rng.uniform(1, 1.8))
            found = descent(rho, values[-1], values[0], stairs, jump=jump, eta=eta) or found
        held, v, path = held + 1, w, 0.0
        for _ in range(40):
            before = layer.outputs(v)[0] - y
            move = found.eta * (layer.jacobian(layer.slopes(v)).T @ before).reshape(v.shape)
            switched += int((layer.slopes(v) != layer.slopes(v - move)).sum())
            v, path = v - move, path + np.linalg.norm(move)
            after = np.linalg.norm(layer.outputs(v)[0] - y)
            assert after <= (1 - found.rate) * np.linalg.norm(before) + 1e-12
            assert path < radius
    assert held > 60
    assert switched > 60


@pytest.mark.parametrize("outputs", [1, 3])
def test_no_two_patterns_are_farther_apart_than_the_bound(rng, outputs):
    network = FullyConnected(5, 30, 1, RELU, outputs=outputs, trained=("hidden",))
    x = rng.standard_normal((6, 5))
    params = {"W1": rng.standard_normal((30, 5)), "a": rng.standard_normal((outputs, 30) if outputs > 1 else 30)}
    counts = np.array([1, 2, 1, 1, 3, 1])
    y = np.zeros((6, outputs) if outputs > 1 else 6)
    anchor = measure(network.graph, params, x, y, counts=counts)
    known = Jumps(anchor, params, x, counts)
    layer = Layer(x, params["W1"], params["a"], network.graph.layers[0].scale)
    open_ = np.abs(layer.pre(layer.w)) <= 0.3 * np.linalg.norm(x, axis=1)
    np.testing.assert_array_equal(known.open(0.3), open_.T)
    jump, (s, largest) = known.distance(open_.T), known.ends(open_.T)
    roots = np.sqrt(np.tile(counts, outputs))[:, None]
    half = roots * layer.jacobian(np.where(open_, 0.5, layer.slopes(layer.w)))
    values = np.linalg.svd(half, compute_uv=False)
    assert s == pytest.approx(values[-1], rel=1e-6)
    assert largest == pytest.approx(values[0], rel=1e-6)
    most = 0.0
    for _ in range(300):
        one, two = (np.where(open_, rng.integers(0, 2, open_.shape), layer.slopes(layer.w)) for _ in range(2))
        one, two = (roots * layer.jacobian(slopes) for slopes in (one, two))
        most = max(most, np.linalg.norm(one - two, 2))
        assert np.linalg.norm(one - half, 2) <= jump / 2
    assert 0.3 * jump < most <= jump


def test_several_outputs_biases_and_repeated_rows(rng, tmp_path):
    """Four rows with two inputs each there twice, once with another target; biases and the outputs' biases move too."""
    network = with_biases(outputs=2)
    x = sphere(5, 8, 3)
    params = {"W1": rng.standard_normal((120, 8)), "b1": rng.standard_normal(120), "b2": np.zeros(2)}
    params["W2"] = rng.choice([-1.0, 1.0], (2, 120))
    params["b1"][7] = -float(params["W1"][7] @ x[2])  # on its kink, up to rounding
    data = dataset(network, x[[0, 1, 2, 3, 4, 1, 2]], np.zeros((7, 2)))
    y = np.asarray(network(params, data.x), np.float64) + 1e-3 * rng.standard_normal((7, 2))
    y[5] = y[1]
    attempt = certify(Problem(network, dataset(network, data.x, y)).at(params))
    assert attempt.certificate is not None, str(attempt)
    claims = attempt.certificate.claims
    assert claims["jump"] > 0
    assert claims["distinct"] == 5
    assert claims["least_loss"] > 0
    verdict = verify(attempt.certificate.save(tmp_path / "certificate"))
    assert verdict.answer == "proved", verdict.reason
    assert "a global minimum" in verdict.statement


@pytest.mark.parametrize(
    ("name", "factor"),
    [("jump", 1 - 1e-5), ("jump", 0.5), ("radii", 0.8), ("radii", 30), ("s", 1 + 1e-5), ("S", 1 - 1e-5),
     ("rho", 1 - 1e-5), ("sigma", 1 + 1e-9), ("b", 1 - 1e-9), ("eta", 1.5), ("eta", -1), ("rate", 1 + 1e-9),
     ("jump", -1), ("kappa", 1.01)],
)  # fmt: skip
def test_lies_are_refused(passing, tmp_path, name, factor):
    document, arrays = parts(passing[1])
    document = copy.deepcopy(document)
    claims = document["claims"]
    claims.setdefault("kappa", 1.0)
    value = claims[name]
    claims[name] = [v * factor for v in value] if isinstance(value, list) else value * factor
    verdict = verify(put(tmp_path / "lie", document, arrays, digests=True))
    assert verdict.answer == "not proved", name


def test_without_the_claim_signs_have_to_be_kept(passing, tmp_path):
    document, arrays = parts(passing[1])
    del document["claims"]["jump"]
    verdict = verify(put(tmp_path / "lie", document, arrays, digests=True))
    assert verdict.answer == "not proved"


def test_a_weight_on_the_wrong_side_of_its_kink_is_noticed(passing, tmp_path):
    document, arrays = parts(passing[1])
    arrays["weights/W1"] = arrays["weights/W1"].copy()
    arrays["weights/W1"][:, :6] *= -1
    verdict = verify(put(tmp_path / "lie", document, arrays, digests=True))
    assert verdict.answer == "not proved"


def test_other_networks_have_no_such_claim(tmp_path):
    for network in (
        DeepReLU(4, 12, 2), DeepReLU(4, 12, 1, trained=("hidden", "output")), FullyConnected(4, 12, 1),
    ):  # fmt: skip
        assert not has_jumps(network.graph)
        x = sphere(2, 4, 0)
        params = {name: np.asarray(weight) for name, weight in network.init(0).items()}
        y = np.asarray(network(params, x), np.float64) + 1e-9
        attempt = certify(Problem(network, dataset(network, x, y)).at(params))
        assert attempt.certificate is not None
        folder = attempt.certificate.save(tmp_path / f"{type(network).__name__}-{network.depth}-{len(network.trained)}")
        document, arrays = parts(folder)
        for name in ("D", "newton_h", "newton_radius", "nested"):
            document["claims"].pop(name, None)
        document["claims"]["jump"] = 0.0
        verdict = verify(put(folder, document, arrays, digests=True))
        assert (verdict.answer, "one hidden layer" in verdict.reason) == ("malformed", True)
    assert has_jumps(with_biases().graph)


def test_too_many_open_pairs_are_an_obstacle_that_says_so():
    network, params, data, eta = trained(width=24, steps=120)
    attempt = certify(Problem(network, data).at(params), Descent(step_size=eta))
    assert not attempt.passed
    assert attempt.certificate is None
    assert attempt.obstacle is not None
    assert attempt.obstacle.quantity == "kink"
    assert "must be below s" in attempt.obstacle.reason
    assert "use a wider network" in attempt.obstacle.advice


def test_a_residual_that_is_too_large_is_one_too():
    network, params, data, _ = trained(steps=3)
    attempt = certify(Problem(network, data).at(params))
    assert attempt.obstacle is not None
    assert attempt.obstacle.quantity == "kink"
