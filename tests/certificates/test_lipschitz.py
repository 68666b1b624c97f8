r"""Bounds of $\Lambda$, s, S and $\rho$ against exact derivatives, for every network and every way of bounding."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest

from tests.certificates.making import TINY, Reference, at, problem
from wideproof.certificates.anchor import SPARE, Anchor
from wideproof.certificates.lipschitz import kink_radius, lipschitz
from wideproof.networks import Network


class Case(NamedTuple):
    """Derivatives, and the anchor without and with the norms of whole products of layers."""

    ref: Reference
    x: np.ndarray
    y: np.ndarray
    plain: Anchor
    sharp: Anchor


@pytest.fixture(scope="module", params=TINY)
def case(request) -> Case:
    network = TINY[request.param]
    params, x, y = problem(network)
    return Case(Reference(network, params, x), x, y, at(network, params, x, y), at(network, params, x, y, sharp=True))


def ball(anchor):
    """A radius that the bounds are meant for: any for a smooth network, inside the pattern for a ReLU."""
    return 0.1 if not anchor.clearance else 0.999 * kink_radius(anchor)


def test_rho_s_and_the_norm_enclose_the_truth(case):
    ref, _, y, anchor, _ = case
    out, jacobian = ref.both(ref.theta)
    values = np.linalg.svd(jacobian, compute_uv=False)
    targets = y[:, 1:] if ref.network.data_kind == "sequences" else y
    rho = float(np.linalg.norm(out - targets.ravel()))
    rounding = 1e-13 * values[0]  # of an SVD
    kept_back = 1e-7  # of every claim, for the verifier's own rounding
    assert values[-1] * (1 - 2 * kept_back) - 1e-8 * values[0] <= anchor.s <= values[-1] + rounding
    assert values[0] - rounding <= anchor.S <= values[0] * (1 + 1e-6)
    assert rho * (1 - 1e-13) <= anchor.residual <= rho * (1 + 2 * kept_back)
    step = np.linalg.norm(np.linalg.lstsq(jacobian, out - targets.ravel(), rcond=None)[0])
    assert step * (1 - 1e-8) <= anchor.newton <= step * (1 + SPARE) * (1 + 1e-5)
    np.testing.assert_allclose(anchor.gram.mid, jacobian @ jacobian.T, rtol=0, atol=1e-12 * values[0] ** 2)


def test_no_way_is_below_the_second_derivative_at_the_anchor(case):
    """Alternating maximization gives a lower bound of ‖D²F‖; all three ways, plain and sharp, are above it."""
    ref, _, _, plain, sharp = case
    truth = ref.curvature(ref.theta)
    assert truth > 0
    for found in (lipschitz(plain, 0.0), lipschitz(sharp, 0.0)):
        assert min(found) >= truth * (1 - 1e-12)
        assert found.value == min(found)
    for radius in (0.0, 0.1, 10.0):
        assert lipschitz(sharp, radius).value <= lipschitz(plain, radius).value * (1 + 1e-6)


def test_no_example_is_below_its_dense_hessian(case):
    ref, x, y, plain, _ = case
    hessians = ref.hessians(ref.theta)
    np.testing.assert_allclose(hessians, hessians.transpose(0, 2, 1), atol=1e-12 * max(1.0, np.abs(hessians).max()))
    each = hessians.reshape(len(x), -1, *hessians.shape[1:])
    bounds = []
    for i in range(len(x)):
        alone = at(ref.network, ref.params, x[i : i + 1], y[i : i + 1])
        bounds.append(lipschitz(alone, 0.0).per_example)
        for sharp in (False, True):
            found = lipschitz(at(ref.network, ref.params, x[i : i + 1], y[i : i + 1], sharp=sharp), 0.0)
            assert min(found) >= max(np.abs(np.linalg.eigvalsh(h)).max() for h in each[i]) * (1 - 1e-12)
    # What the batch calls "per example" is the root of the sum of these squares.
    assert lipschitz(plain, 0.0).per_example == pytest.approx(np.linalg.norm(bounds), rel=1e-6)


def test_the_jacobian_changes_no_faster_in_the_ball(rng, case):
    ref, _, _, plain, sharp = case
    radius = ball(plain)
    bounds = [lipschitz(plain, radius).value, lipschitz(sharp, radius).value]
    steepest = 0.0
    for k in range(12):
        u, v = rng.standard_normal((2, ref.theta.size))
        u, v = u / np.linalg.norm(u), v / np.linalg.norm(v)
        first = ref.theta + radius * u * (1.0 if k % 2 else rng.random())
        second = ref.theta + radius * v * (1.0 if k % 3 else 0.0)
        change = ref.jacobian(first) - ref.jacobian(second)
        steepest = max(steepest, np.linalg.norm(change, 2) / np.linalg.norm(first - second))
    for u in rng.standard_normal((2, ref.theta.size)):
        steepest = max(steepest, ref.curvature(ref.theta + radius * u / np.linalg.norm(u), starts=1))
    rounding = 1e-14 * plain.S / radius  # of the difference of two Jacobians
    assert min(bounds) >= steepest - rounding
    assert steepest > 0.01 * min(bounds)  # the comparison is not idle


@pytest.mark.parametrize("sharp", [False, True])
def test_it_does_not_decrease_with_the_radius(case, sharp):
    anchor = case.sharp if sharp else case.plain
    values = np.array([lipschitz(anchor, float(r)) for r in (0.0, 1e-6, 1e-3, 0.01, 0.1, 1.0, 10.0)])
    assert np.all(np.diff(values, axis=0) >= -1e-10 * values[:-1])
    assert np.isfinite(values).all()


def test_the_order_of_examples_does_not_count(case):
    ref, x, y, _, _ = case
    for sharp in (False, True):
        both = [
            at(ref.network, ref.params, x[order], y[order], sharp, "float64") for order in (slice(None), [2, 0, 3, 1])
        ]
        for radius in (0.0, 0.1):
            np.testing.assert_allclose(lipschitz(both[0], radius), lipschitz(both[1], radius), rtol=1e-9)
        assert both[0].s == pytest.approx(both[1].s, rel=1e-6, abs=1e-7 * both[0].S)
        assert both[0].residual == pytest.approx(both[1].residual, rel=1e-12)


def orders(graph, params):
    """Another order of the units of every value; values that are added to each other or share a weight have one."""
    units = {k: graph.shape[0] for k in graph.grids if k < 0}
    tied = {k: {k} for k in graph.grids}

    def tie(a, b):
        joined = tied[a] | tied[b]
        tied.update(dict.fromkeys(joined, joined))

    used = {}
    for k, node in enumerate(graph.layers):
        for t in node.terms:
            units[k] = units[t.source] if t.weight is None else len(graph.matrix(params, t.weight))
            if t.weight is None:
                tie(k, t.source)
            elif t.weight in used and t.moves:
                tie(k, used[t.weight][0])
                tie(t.source, used[t.weight][1])
            used.setdefault(t.weight, (k, t.source))
        if node.skip is not None:
            tie(k, node.skip)
    for one, other in pairwise(graph.sites):
        tie(one, other)
    return {k: np.arange(m) if min(tied[k]) < 0 else np.roll(np.arange(m), 1) for k, m in units.items()}


def permuted(network: Network, params):
    """The same function with its hidden units in another order."""
    graph, out = network.graph.unrolled, dict(params)
    order = orders(graph, params)
    for name, weight in params.items():
        matrix = graph.matrix(params, name)
        if name == graph.read_out:
            by_unit = order[graph.sites[0]]
            out[name] = matrix.reshape(len(matrix), len(by_unit), -1)[:, by_unit].reshape(weight.shape)
        elif name != graph.bias:
            k, term = graph.uses(name)[0]
            if term.moves:
                before = order[term.source]
                matrix = matrix.reshape(len(matrix), len(before), -1)[:, before].reshape(matrix.shape)
            matrix = matrix[order[k]]
            out[name] = (matrix.T if graph.columns and weight.ndim > 1 else matrix).reshape(weight.shape)
    return out


def test_the_order_of_hidden_units_does_not_count(case):
    ref, x, y, _, _ = case
    other = permuted(ref.network, ref.params)
    assert any(np.any(other[k] != ref.params[k]) for k in other)
    again = Reference(ref.network, other, x)
    np.testing.assert_allclose(again.both(again.theta)[0], ref.both(ref.theta)[0], atol=1e-12)
    for sharp in (False, True):
        both = [at(ref.network, p, x, y, sharp, "float64") for p in (ref.params, other)]
        for radius in (0.0, 0.1):
            np.testing.assert_allclose(lipschitz(both[0], radius), lipschitz(both[1], radius), rtol=1e-9)
        if both[0].clearance:
            assert kink_radius(both[0]) == pytest.approx(kink_radius(both[1]), rel=2e-3)  # found to three digits


def test_the_enclosed_bound_is_the_float_one_or_a_little_more(case):
    ref, x, y, plain, _ = case
    loose = at(ref.network, ref.params, x, y, level="float64")
    for radius in (0.0, 0.05):
        found, below = np.array(lipschitz(plain, radius)), np.array(lipschitz(loose, radius))
        assert np.all(found >= below * (1 - 1e-12))
        assert np.all(found <= below * (1 + 1e-5) + 1e-12)
