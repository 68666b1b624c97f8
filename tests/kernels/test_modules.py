"""Gram matrices of PyTorch modules: against formulas, against one backward pass a number, and what is refused."""

import math

import numpy as np
import pytest

import wideproof as wp
from wideproof.errors import InputError
from wideproof.kernels import gram, predict, spectrum
from wideproof.kernels.modules import Rows

torch = pytest.importorskip("torch")
nn = torch.nn
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def mlp(outputs=1):
    return nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, outputs))


class Encoder(nn.Module):
    """Tokens, attention, layer norms, a mean over positions: and integers as inputs."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(7, 8)
        self.block = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.1, activation="gelu", batch_first=True)
        self.head = nn.Linear(8, 2)

    def forward(self, tokens):
        return self.head(self.block(self.embed(tokens)).mean(1))


class Branches(nn.Module):
    """A way through it that depends on the example: `vmap` cannot take it."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 2), nn.Linear(3, 2)

    def forward(self, x):
        return self.first(x) if float(x.sum()) > 0 else self.second(x).tanh()


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.LSTM(2, 4, batch_first=True), nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.cell(x)[0][:, -1])


class Two(nn.Module):
    """Two arguments, weights that are used twice, a parameter that is not trained and one that is not used."""

    def __init__(self):
        super().__init__()
        self.inner, self.frozen = nn.Linear(3, 3), nn.Parameter(torch.ones(3), requires_grad=False)
        self.unused = nn.Parameter(torch.ones(2))

    def forward(self, x, y):
        return (self.inner(torch.tanh(self.inner(x))) * self.frozen).sum(1, keepdim=True) * y.sum(1, keepdim=True)


def convolutions():
    return nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1, groups=1), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Dropout(0.5), nn.Linear(12, 2),
    )  # fmt: skip


def by_backward(module, x, names=None):
    """One backward pass for each output of each example, and the product of everything."""
    module = module.double().eval()
    weights = [p for n, p in module.named_parameters() if (p.requires_grad if names is None else n in names)]
    args = x if isinstance(x, tuple) else (x,)
    args = [torch.as_tensor(a) for a in args]
    rows = []
    for i in range(len(args[0])):
        for value in module(*(a[i : i + 1] for a in args)).reshape(-1):
            grads = torch.autograd.grad(value, weights, retain_graph=True, allow_unused=True)
            rows.append(np.concatenate(
                [np.zeros(w.numel()) if g is None else g.numpy().ravel() for g, w in zip(grads, weights, strict=True)]
            ))  # fmt: skip
    return np.array(rows)


CASES = {
    "mlp": (mlp, lambda rng: rng.normal(size=(6, 3))),
    "outputs": (lambda: mlp(3), lambda rng: rng.normal(size=(5, 3))),
    "convolutions": (convolutions, lambda rng: rng.normal(size=(4, 1, 4, 4))),
    "encoder": (Encoder, lambda rng: rng.integers(0, 7, size=(4, 5))),
    "recurrent": (Recurrent, lambda rng: rng.normal(size=(4, 5, 2))),
    "branches": (Branches, lambda rng: rng.normal(size=(6, 3))),
    "two": (Two, lambda rng: (rng.normal(size=(5, 3)), rng.normal(size=(5, 2)))),
}


@pytest.mark.parametrize("name", CASES)
def test_the_product_of_all_gradients(name):
    make, draw = CASES[name]
    module, x = make(), draw(np.random.default_rng(1))
    before = {key: value.clone() for key, value in module.state_dict().items()}
    mode = [part.training for part in module.modules()]
    found = wp.gram(module, x)
    assert all(value.dtype == before[key].dtype and torch.equal(value, before[key])
               for key, value in module.state_dict().items())  # fmt: skip
    assert mode == [part.training for part in module.modules()]  # what was given is as it was
    rows = by_backward(module, x)
    assert found.shape == (len(rows), len(rows))
    np.testing.assert_allclose(found.matrix, rows @ rows.T, rtol=0, atol=1e-12 * np.abs(rows @ rows.T).max())
    np.testing.assert_array_equal(found.matrix, found.matrix.T)


def test_a_layer_by_its_formula():
    """One hidden layer of tanh: every derivative is written out."""
    module, x = mlp(), np.random.default_rng(2).normal(size=(7, 3))
    w, b, a, _ = (p.detach().double().numpy() for p in module.parameters())
    h = np.tanh(x @ w.T + b)
    back = a * (1 - h**2)
    expected = (back @ back.T) * (x @ x.T + 1) + h @ h.T + 1
    found = gram(module, x, by_weight=True)
    np.testing.assert_allclose(found.matrix, expected, rtol=1e-13)
    assert found.names == ("0.weight", "0.bias", "2.weight", "2.bias")
    np.testing.assert_allclose(found.blocks["2.weight"], h @ h.T, rtol=1e-13)
    np.testing.assert_allclose(gram(module, x, names="0").matrix, (back @ back.T) * (x @ x.T + 1), rtol=1e-13)
    np.testing.assert_allclose(gram(module, x, names=["*.bias"]).matrix, back @ back.T + 1, rtol=1e-13)


def test_the_matrix_of_the_network_that_is_read(rng):
    """Layer by layer without a Jacobian, by way of `from_torch`."""
    module, x = nn.Sequential(nn.Linear(4, 9), nn.GELU(), nn.Linear(9, 5), nn.Softplus(), nn.Linear(5, 2)), (
        rng.normal(size=(6, 4)))  # fmt: skip
    model = wp.from_torch(module, x)
    other = np.asarray(gram(model.network, model.params, x))
    np.testing.assert_allclose(np.asarray(gram(module, x)), other, atol=1e-12 * np.abs(other).max())


def test_between_two_sets_and_one_at_a_time(rng):
    module, x, y = mlp(2), rng.normal(size=(6, 3)), rng.normal(size=(4, 3))
    left, right = by_backward(module, x), by_backward(module, y)
    for found in (gram(module, x, y), gram(module, x, other=torch.as_tensor(y)), gram(module, {"input": x}, y)):
        np.testing.assert_allclose(found.matrix, left @ right.T, atol=1e-13 * np.abs(left @ right.T).max())
    single = nn.Sequential(nn.Linear(3, 2), nn.Flatten(0))
    np.testing.assert_allclose(
        gram(single, x, batched=False).matrix, np.kron(x @ x.T + 1, np.eye(2)), rtol=1e-13, atol=1e-14
    )


def test_little_memory_gives_the_same_matrix(rng):
    module, x = mlp(2), rng.normal(size=(9, 3))
    whole, each = gram(module, x), 2 * sum(p.numel() for p in module.parameters()) * 8
    np.testing.assert_allclose(gram(module, x, memory=9 * each).matrix, whole.matrix, rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(
        gram(module, x, x[:5], memory=9 * each).matrix, whole.matrix[:, :10], rtol=1e-14, atol=1e-15
    )
    with pytest.raises(InputError, match=f"memory=8 bytes is too small.*take {each} for one example"):
        gram(module, x, memory=8)


def test_the_error_covers_the_products(rng):
    """Against products in extended precision, from the same rows."""
    module, x = mlp(), rng.normal(size=(8, 3))
    rows = by_backward(module, x).astype(np.longdouble)
    found = gram(module, x)
    off = np.linalg.norm((found.matrix - rows @ rows.T).astype(float), 2)
    assert off <= found.error < 1e-12 * np.linalg.norm(found.matrix, 2)
    seen = spectrum(found)
    exact = float(np.linalg.eigvalsh((rows @ rows.T).astype(float))[0])
    assert abs(seen.smallest.value - exact) <= seen.smallest.radius + 8 * 1.2e-16 * np.linalg.norm(found.matrix, 2)
    assert seen.positive_definite
    assert predict(found, np.ones(8), 0.0, seen.stable_step / 2).steps_to(1e-3)


def test_a_singular_one_says_why(rng):
    x = rng.normal(size=(4, 3))
    equal = gram(mlp(), np.concatenate([x, x[:1]]))
    assert "examples 0 and 4 are equal" in equal.singular
    assert not spectrum(equal).positive_definite
    assert "rank is at most 3" in gram(nn.Linear(3, 1, bias=False), x).singular


@pytest.mark.parametrize(
    ("name", "together"), [("mlp", True), ("convolutions", True), ("encoder", True), ("branches", False)]
)
def test_what_passes_side_by_side(name, together):
    module, x = CASES[name][0](), CASES[name][1](np.random.default_rng(1))
    rows = Rows(module, None, batched=True)
    side = rows.examples(x)
    rows.jacobian(side, range(side.n), rows.count(side), 3)
    assert rows.together is together


def test_side_by_side_and_one_by_one_are_the_same(rng):
    module, x = mlp(3), rng.normal(size=(5, 3))
    rows = Rows(module, None, batched=True)
    side = rows.examples(x)
    fast = rows.jacobian(side, range(5), 3, 2)
    assert rows.together
    rows.together = False
    for one, other in zip(fast, rows.jacobian(side, range(5), 3, 2), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-15)


class Mixing(nn.Linear):
    def forward(self, x):
        return super().forward(x - x.mean(0))


class Single(nn.Linear):
    def forward(self, x):
        return super().forward(x).float()


class Pair(nn.Linear):
    def forward(self, x):
        return super().forward(x), x


class Root(nn.Linear):
    def forward(self, x):
        return super().forward(x).abs().mul(0).sqrt() + super().forward(x)


class Noisy(nn.Linear):
    def forward(self, x):
        return super().forward(x) * torch.rand_like(x[:, :1])


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (lambda: Mixing(3, 1), "change by .* when they are in one batch"),
        (lambda: Noisy(3, 1), "no random numbers"),
        (lambda: Single(3, 1), "in float64 the module returns float32"),
        (lambda: Pair(3, 1), "must return one tensor, got tuple"),
        (lambda: Root(3, 1), "gradient of example 0 is not finite"),
        (lambda: nn.Linear(4, 1), r"does not take examples of shape \(3,\)"),
        (lambda: nn.Linear(3, 1).requires_grad_(False), "no parameter of the module requires a gradient"),
        (lambda: nn.Flatten(0), "no parameter"),
        (lambda: nn.Sequential(nn.Linear(3, 1), nn.Flatten(0, -1)), None),
    ],
)
def test_what_cannot_be_taken_is_said(module, words, rng):
    if words is None:  # one number for each example, in a vector
        assert gram(module(), rng.normal(size=(4, 3))).shape == (4, 4)
        return
    with pytest.raises(InputError, match=words):
        gram(module(), rng.normal(size=(4, 3)))


def test_what_does_not_fit_is_said(rng):
    module, x = mlp(), rng.normal(size=(4, 3))
    nan = x.copy()
    nan[2, 1] = math.nan
    huge = nn.Linear(3, 1)
    nn.init.constant_(huge.weight, math.inf)
    for call, words in (
        (lambda: gram(module, x, names="5.weight"), "leaves 0.weight, .*; got 5.weight"),
        (lambda: gram(module, nan), "example 2 has an entry"), (lambda: gram(huge, x), "outputs of example 0 are not"),
        (lambda: gram(module, (x, x[:2])), "the first axis of x counts the examples"),
        (lambda: gram(module), "has its own parameters: gram"), (lambda: gram(module, x, x, x), "got 3 further"),
        (lambda: gram(module, x, precision="float32"), "computed in float64"),
        (lambda: gram(lambda p, x: x, {"w": x}), "give x"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=words):
            call()


def test_torch_is_imported_by_nobody_else():
    """Importing Wideproof and a Gram matrix of a JAX function leave PyTorch where it is."""
    import subprocess
    import sys

    code = (
        "import sys, numpy as np, wideproof as wp; wp.gram(lambda p, x: x @ p, np.ones(2), np.eye(2)); "
        "assert 'torch' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
