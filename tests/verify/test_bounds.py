"""Λ(R) is above exact Hessians at the stored weights and in the ball, for every family; closed forms come out."""

import numpy as np
import pytest
from flint import arb, ctx  # pyright: ignore[reportAttributeAccessIssue]

from tests.cases import OWN, each
from tests.certificates.making import Reference
from tests.verify import making
from wideproof.certificates.anchor import measure
from wideproof.certificates.lipschitz import lipschitz
from wideproof.networks import (
    ConvResidual,
    DeepReLU,
    DeepRNN,
    ElmanRNN,
    FullyConnected,
    Network,
    Residual,
    ResidualReLU,
    get_activation,
)
from wideproof_verify.arithmetic import BALLS, balls

TINY: dict[str, Network] = {
    "fully-connected": FullyConnected(2, 4, 3),
    "fully-connected-outputs": FullyConnected(2, 4, 2, get_activation("tanh"), outputs=2),
    "residual": Residual(2, 4, 3, get_activation("sin"), c_res=0.9),
    "conv-residual": ConvResidual(1, 3, 3, 2, activation=get_activation("gelu")),
    "conv-residual-outputs": ConvResidual(1, 3, 3, 2, outputs=2),
    "deep-relu": DeepReLU(2, 4, 3, trained=("hidden", "output")),
    "residual-relu": ResidualReLU(2, 4, 2),
    "elman-rnn": ElmanRNN(2, 4, 3, outputs=2, trained=("recurrent", "input", "output")),
    "deep-rnn": DeepRNN(2, 3, 3, depth=2, trained=("recurrent", "between")),
    **OWN,
}
N = 3


def second_order(hessians: np.ndarray) -> float:
    """A lower bound of sup |(uᵀ H_o u)_o| over unit u, by alternating maximization."""
    best = 0.0
    for start in np.eye(len(hessians))[:4]:
        weights = start
        for _ in range(5):
            values, vectors = np.linalg.eigh(np.tensordot(weights, hessians, 1))
            u = vectors[:, np.abs(values).argmax()]
            forms = np.einsum("opq,p,q->o", hessians, u, u)
            best = max(best, float(np.linalg.norm(forms)))
            weights = forms / max(np.linalg.norm(forms), 1e-300)
    return best


@pytest.mark.parametrize("name", each(list(TINY), slow=["conv-residual-outputs"]))
def test_above_exact_hessians(name):
    network = TINY[name]
    params, x, y = making.problem(network, n=N)
    ref = Reference(network, params, x)
    rng = np.random.default_rng(1)
    with ctx.workprec(128):
        for sharp in (False, True):
            bounds = making.bounds(network, params, x, y, sharp)
            radius = 0.2
            while any(z is not None for z in bounds.anchor.pre) and bounds.sign(arb(radius))[0] is not True:
                radius /= 2
            for r in (0.0, radius):
                forms = bounds.forms(arb(r))
                assert len(forms) == 1 + sharp
                per_example = [min(float(BALLS.spectral_norm(form[:, i])) for form, _ in forms) for i in range(N)]
                total = float(bounds.lipschitz(arb(r)))
                assert total <= min(float(BALLS.spectral_norm(whole[:, 0])) for _, whole in forms)
                for _ in range(2 if r else 1):
                    step = rng.standard_normal(ref.theta.size)
                    hessians = ref.hessians(ref.theta + r * step / np.linalg.norm(step))
                    assert second_order(hessians) <= total * (1 + 1e-10)
                    for i, rows in enumerate(hessians.reshape(N, -1, *hessians.shape[1:])):
                        assert second_order(rows) <= per_example[i] * (1 + 1e-10)
                assert total > 0


@pytest.mark.parametrize("name", [name for name in TINY if "relu" not in name and "rnn" not in name])
def test_not_decreasing_in_the_radius(name):
    bounds = making.bounds(TINY[name], *making.problem(TINY[name], n=N), sharp=True)
    found = [float(bounds.lipschitz(arb(r))) for r in (0, 0.01, 0.1, 1.0)]
    assert found == sorted(found)


@pytest.mark.parametrize("sharp", [False, True])
def test_one_layer_with_fixed_outputs_has_the_closed_form(sharp):
    network = making.SMALL["fully-connected-fixed"]
    params, x, y = making.problem(network, n=5)
    [scale] = making.scales(network)
    closed = 0.25 * scale * np.abs(params["a"]).max() * np.linalg.norm(x, axis=1).max() * np.linalg.norm(x, 2)
    bounds = making.bounds(network, params, x, y, sharp)
    for radius in (0.0, 0.5, 100.0):
        assert float(bounds.lipschitz(arb(radius))) == pytest.approx(closed, rel=1e-8)


def test_one_layer_with_both_trained_has_the_closed_form():
    network = making.SMALL["fully-connected-one"]
    params, x, y = making.problem(network, n=5)
    [scale] = making.scales(network)
    whole, longest, bend = np.linalg.norm(x, 2), np.linalg.norm(x, axis=1).max(), 4 / (3 * np.sqrt(3))
    steepest = (1 - np.tanh(x @ params["W1"].T) ** 2).max()
    bounds = making.bounds(network, params, x, y, False)
    for radius in (0.0, 0.01, 0.3):
        p = scale * whole * longest * bend * (np.abs(params["a"]).max() + radius)
        q = scale * whole * min(1.0, steepest + bend * radius * longest)
        assert float(bounds.lipschitz(arb(radius))) == pytest.approx(p / 2 + np.sqrt(p**2 / 4 + q**2), rel=1e-8)


def test_relu_layer_with_fixed_outputs_is_affine():
    network = DeepReLU(5, 8, 1)
    assert making.bounds(network, *making.problem(network), sharp=False).lipschitz(arb(0.1)).is_zero()


def test_two_steps_of_an_rnn_are_affine():
    network = ElmanRNN(4, 8, 2)
    assert making.bounds(network, *making.problem(network), sharp=False).lipschitz(arb(0.1)).is_zero()


@pytest.mark.parametrize("name", ["fully-connected", "conv-residual"])
def test_order_of_the_examples_does_not_matter(name):
    params, x, y = making.problem(TINY[name], n=N)
    one, two = (making.bounds(TINY[name], params, x[order], y, True) for order in ([0, 1, 2], [2, 0, 1]))
    assert float(one.lipschitz(arb(0.1))) == pytest.approx(float(two.lipschitz(arb(0.1))), rel=1e-8)


@pytest.mark.parametrize("sharp", [False, True])
@pytest.mark.parametrize("name", TINY)
def test_the_prover_claims_no_less_and_hardly_more(name, sharp):
    """Two programs and one recursion: a claim that is below would be refused, one that is far above would be loose."""
    params, x, y = making.problem(TINY[name], n=N)
    anchor = measure(TINY[name].graph, params, x, TINY[name].scored(y), sharp=sharp)
    with ctx.workprec(128):
        bounds = making.bounds(TINY[name], params, x, y, sharp)
        for radius in (0.0, 1e-3, 0.1, 3.0):
            least = float(bounds.lipschitz(arb(radius)).upper())
            assert least < lipschitz(anchor, radius).value < least * (1 + 1e-6)


@pytest.mark.parametrize(("window", "pixels"), [(3, 6), (3, 3), (5, 4), (3, 1)])
def test_norm_of_a_convolution(window, pixels):
    """Above the norm of the matrix that the convolution is, written out, and not above √q ‖M‖."""
    network = ConvResidual(2, pixels, 3, 2, filter_size=window)
    params, x, y = making.problem(network, n=N)
    bounds = making.bounds(network, params, x, y, False)
    for k, (name, channels) in enumerate((("W1", 2), ("W2", 3))):
        [term] = bounds.net.nodes[k].terms
        images = np.eye(channels * pixels).reshape(-1, channels, pixels).transpose(1, 0, 2)
        columns = BALLS.middle(term.phi.gather(balls(images), BALLS))
        written = np.tensordot(params[name], columns, 1).transpose(1, 0, 2).reshape(channels * pixels, -1)
        truth, found = np.linalg.norm(written, 2), float(bounds.omega[k, term])
        assert truth * (1 - 1e-12) <= found <= np.sqrt(window) * np.linalg.norm(params[name], 2) * (1 + 1e-8)
        assert pixels < window or found < 1.6 * truth  # half of it would be too little


@pytest.mark.parametrize("name", each(["deep-relu", "residual-relu"], slow=["deep-relu"]))
def test_halved_norms_of_products_are_caught(name):
    """Then Λ is below a second derivative: the comparison above can fail."""
    network = TINY[name]
    params, x, y = making.problem(network, n=N)
    ref = Reference(network, params, x)
    truth = second_order(ref.hessians(ref.theta))
    bounds = making.bounds(network, params, x, y, True)
    assert float(bounds.lipschitz(arb(0))) >= truth
    bounds.ways[1] = [([z / 2 for z in at_z], [x / 2 for x in at_x]) for at_z, at_x in bounds.ways[1]]
    assert float(bounds.lipschitz(arb(0))) < truth


@pytest.mark.parametrize("name", making.CASES)
def test_outputs_and_gram_matrix_against_jax_and_numpy(name):
    network = making.SMALL[name]
    params, x, y = making.problem(network)
    anchor = making.bounds(network, params, x, y, False).anchor
    f = network.scored(np.asarray(network(params, x))).reshape(len(x), -1)
    np.testing.assert_allclose(BALLS.middle(anchor.outputs).T, f, rtol=1e-12, atol=1e-12)
    j = making.jacobian(network, params, x)
    order = np.arange(f.size).reshape(f.shape).T.ravel()  # theirs is example first, the verifier's is output first
    np.testing.assert_allclose(
        BALLS.middle(anchor.gram(BALLS.product)), (j @ j.T)[np.ix_(order, order)], rtol=1e-9, atol=1e-9
    )
