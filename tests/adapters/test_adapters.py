"""Our kernels in other libraries for Gaussian processes: the posterior is that of our own regressor; derivatives."""

import pickle

import numpy as np
import pytest

from wideproof.adapters import gpjax_kernel, gpytorch_kernel
from wideproof.errors import InputError
from wideproof.estimators import NTKKernel, NTKRegressor

# What these libraries warn of is theirs.
pytestmark = pytest.mark.filterwarnings("ignore")
NOISE = 0.01
KERNELS = [
    {"depth": 1}, {"depth": 3, "activation": "erf"}, {"network": "residual", "activation": "gelu"},
    {"depth": 2, "kernel": "nngp"}, {"network": "deep-relu", "depth": 3, "fixed_layers": 1},
]  # fmt: skip


@pytest.fixture
def table(rng):
    x, new = rng.normal(size=(40, 3)), rng.normal(size=(15, 3))
    new[0] = x[0]  # a training row
    return x, np.sin(x[:, 0]) + x[:, 1] * x[:, 2], new


def ours(kernel, table, length=1.0):
    """The posterior mean by our own estimator, on inputs of norm 1."""
    x, y, new = table

    def ready(rows):
        whole = np.column_stack([rows / length, np.ones(len(rows))])
        return whole / np.linalg.norm(whole, axis=1, keepdims=True)

    model = NTKRegressor(**kernel, preparation=None, bias=0.0, fit_intercept=False, ridge=NOISE)
    return model.fit(ready(x), y).predict(ready(new))


def close(found, expected):
    return np.abs(np.asarray(found) - expected).max() <= 1e-9 * np.abs(expected).max()


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_gpytorch(kernel, table):
    torch, gpytorch = pytest.importorskip("torch"), pytest.importorskip("gpytorch")
    x, y, new = (torch.tensor(part, dtype=torch.float64) for part in table)

    class Model(gpytorch.models.ExactGP):
        def __init__(self, likelihood):
            super().__init__(x, y, likelihood)
            self.mean_module, self.covar_module = gpytorch.means.ZeroMean(), gpytorch_kernel(**kernel)

        def forward(self, rows):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(rows), self.covar_module(rows))

    likelihood = gpytorch.likelihoods.FixedNoiseGaussianLikelihood(torch.full((40,), NOISE, dtype=torch.float64))
    model = Model(likelihood).double()
    model.covar_module.lengthscale = 2.0
    model.eval()
    found = model(new).mean.detach().numpy()
    assert close(found, ours(kernel, table, 2.0))
    assert not close(found, ours(kernel, table, 2.001))
    matrix = model.covar_module(x).to_dense().detach().numpy()
    assert close(matrix, NTKKernel(2.0, **kernel)(table[0]))
    assert close(model.covar_module(x, diag=True).detach().numpy(), np.diag(matrix))


def test_gpytorch_derivatives_and_pickles(table):
    torch = pytest.importorskip("torch")
    pytest.importorskip("gpytorch")
    kernel = gpytorch_kernel(depth=2, ard_num_dims=3).double()
    x = torch.tensor(table[0][:4], dtype=torch.float64, requires_grad=True)
    new = torch.tensor(table[2][1:4], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda a, b: kernel.forward(a, b), (x, new))
    whole = kernel(x).to_dense()
    whole.sum().backward()  # equal inputs on the diagonal
    assert torch.isfinite(x.grad).all()
    assert torch.isfinite(kernel.raw_lengthscale.grad).all()
    again = pickle.loads(pickle.dumps(kernel))
    assert torch.equal(again(x).to_dense(), whole)
    with pytest.raises(InputError, match="all columns together"):
        kernel.forward(x, x, last_dim_is_batch=True)


def test_botorch_optimizes_an_acquisition_function(table):
    """The best point of a concave function in one dimension, by expected improvement over our kernel."""
    torch, botorch, gpytorch = (pytest.importorskip(name) for name in ("torch", "botorch", "gpytorch"))
    torch.manual_seed(0)
    x = torch.tensor([[0.0], [0.15], [0.8], [1.0]], dtype=torch.float64)
    for _ in range(3):
        y = -((x - 0.4) ** 2)
        scaled = gpytorch.kernels.ScaleKernel(gpytorch_kernel(depth=1, activation="erf"))
        model = botorch.models.SingleTaskGP(x, y, covar_module=scaled)
        botorch.fit_gpytorch_mll(gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model))
        bounds = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
        best = botorch.acquisition.LogExpectedImprovement(model, best_f=y.max())
        x = torch.cat([x, botorch.optim.optimize_acqf(best, bounds, q=1, num_restarts=4, raw_samples=32)[0]])
    assert abs(x[y.argmax()].item() - 0.4) < 0.05


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_gpjax(kernel, table):
    gpjax = pytest.importorskip("gpjax")
    import jax
    import jax.numpy as jnp

    x, y, new = (jnp.asarray(part) for part in table)
    made = gpjax_kernel(**kernel, lengthscale=2.0)
    prior = gpjax.gps.Prior(mean_function=gpjax.mean_functions.Zero(), kernel=made, jitter=0.0)
    posterior = prior * gpjax.likelihoods.Gaussian(obs_stddev=jnp.sqrt(NOISE))
    found = posterior.predict(new, train_data=gpjax.Dataset(x, y[:, None])).mean
    assert close(np.asarray(found).ravel(), ours(kernel, table, 2.0))
    assert close(made.cross_covariance(x, new), NTKKernel(2.0, **kernel)(table[0], table[2]))
    slope = jax.grad(lambda rows: made.cross_covariance(rows, rows).sum())(x)
    assert np.isfinite(slope).all()
    assert np.isfinite(jax.grad(lambda length: gpjax_kernel(**kernel, lengthscale=length)(x[0], x[1]))(2.0))


def test_without_them(monkeypatch):
    """Where a library is missing, a sentence says what to install."""
    from wideproof.adapters import for_gpjax, for_gpytorch

    for module, needed in ((for_gpytorch, "gpytorch.kernels"), (for_gpjax, "gpjax.kernels")):
        module._kernel.cache_clear()
        monkeypatch.setitem(__import__("sys").modules, needed, None)
        with pytest.raises(InputError, match="pip install"):
            getattr(module, module.NAME)
        monkeypatch.undo()
        module._kernel.cache_clear()


def test_images_have_no_angle():
    from wideproof.kernels import angular
    from wideproof.networks import ConvResidual

    with pytest.raises(InputError, match="only networks of vectors"):
        angular(ConvResidual(2, 6, 5, 3))
