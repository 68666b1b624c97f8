"""PyTorch modules as networks and back; skipped where PyTorch is not installed."""

import copy
import warnings

import numpy as np
import pytest

import wideproof as wp
from wideproof.errors import InputError
from wideproof.networks.exchange import Model, agreement, from_onnx, from_torch, to_safetensors, to_torch, torch_in

torch = pytest.importorskip("torch")
nn = torch.nn
pytestmark = pytest.mark.filterwarnings("ignore")


class Residual(nn.Module):
    """A normalised input, a convolution with batch norm, a residual block, average pooling."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.second, self.pool = nn.Conv2d(4, 4, 3, padding="same", bias=False), nn.AvgPool2d(2)
        self.last, self.drop = nn.Linear(16, 3), nn.Dropout(0.5)
        self.register_buffer("mean", torch.full((1, 1, 1, 1), 0.1))

    def forward(self, x):
        x = (x - self.mean) / 0.3
        x = nn.functional.relu(self.norm(self.first(x)), inplace=True)
        x = nn.functional.softplus(x + self.second(x))
        x = self.pool(x)
        return self.last(self.drop(x.view(x.size(0), -1)))


class Raw(nn.Module):
    """Products that are written by hand."""

    def __init__(self):
        super().__init__()
        self.w, self.b, self.v = (nn.Parameter(torch.randn(*s)) for s in ((4, 6), (6,), (6,)))
        self.shift = nn.Parameter(torch.randn(4))
        self.frozen = nn.Parameter(torch.randn(6), requires_grad=False)

    def forward(self, x):
        h = torch.sub(x, self.shift * 0 + 1, alpha=2) + self.shift
        return torch.sin(h @ self.w + self.b + self.frozen) @ self.v


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 5), nn.Linear(5, 5), nn.Linear(5, 1)

    def forward(self, x):
        h = torch.tanh(self.a(x))
        return self.c(h + 0.5 * torch.tanh(self.b(torch.tanh(self.b(h))))).squeeze(1)


class ByHand(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 3), nn.Linear(3, 1)

    def forward(self, x):
        return self.last(nn.functional.leaky_relu(self.first(x)))


def sequence(*layers):
    return nn.Sequential(*layers)


class Tokens(nn.Module):
    """Positions are added to tokens, a layer acts on each of them, two halves go different ways."""

    def __init__(self):
        super().__init__()
        self.embed, self.places = nn.Linear(4, 6), nn.Parameter(torch.randn(1, 5, 6))
        self.mix, self.last = nn.Linear(6, 6), nn.Linear(12, 2)

    def forward(self, x):
        x = self.embed(x) + self.places
        left, right = self.mix(torch.tanh(x)).chunk(2, dim=-1)
        x = torch.cat([nn.functional.gelu(right, approximate="tanh"), left], dim=-1)
        return self.last(torch.cat([x[:, 0], x.mean(dim=1)], dim=1))


class Depthwise(nn.Module):
    """A pointwise, a depthwise dilated and a transposed convolution, padding, nearest neighbours."""

    def __init__(self):
        super().__init__()
        self.point, self.depth = nn.Conv2d(2, 4, 1), nn.Conv2d(4, 4, 3, groups=4, dilation=2, padding=2)
        self.norm, self.up = nn.BatchNorm2d(4), nn.ConvTranspose2d(4, 2, 2, stride=2)

    def forward(self, x):
        x = nn.functional.hardswish(self.norm(self.depth(nn.functional.relu6(self.point(x)))))
        x = nn.functional.interpolate(nn.functional.pad(self.up(x), (1, 0, 0, 1)), scale_factor=2)
        return x.amax(dim=(2, 3))


SUMS = [nn.LeakyReLU(0.1), nn.PReLU(8), nn.ReLU6(), nn.Hardtanh(-0.5, 2.0), nn.SELU(), nn.CELU(0.5), nn.Hardswish(),
        nn.Hardsigmoid(), nn.LogSigmoid(), nn.ELU(0.7), nn.GELU(approximate="tanh")]  # fmt: skip
KINDS = [nn.ReLU, nn.GELU, nn.SiLU, nn.Mish, nn.Softplus, nn.ELU, nn.Softsign, nn.Tanh, nn.Sigmoid]
MODULES = {
    "mlp-relu": (lambda: sequence(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)), (4,)),
    "mlp-gelu": (lambda: sequence(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 2)), (4,)),
    "residual": (Residual, (1, 4, 4)),
    "raw": (Raw, (4,)),
    "shared": (Shared, (4,)),
    "signals": (
        lambda: sequence(
            nn.Conv1d(2, 3, 3, stride=2), nn.Tanh(), nn.AdaptiveAvgPool1d(3), nn.Flatten(), nn.Linear(9, 2)
        ),
        (2, 7),
    ),
    "pooled": (
        lambda: sequence(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2)),
        (1, 5, 5),
    ),
    "batch-norm-1d": (lambda: sequence(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)), (4,)),
    "leaky-by-hand": (lambda: sequence(ByHand()), (4,)),
    "tokens": (Tokens, (5, 4)),
    "depthwise": (Depthwise, (2, 4, 4)),
    "max-pooled": (
        lambda: sequence(
            nn.Conv2d(1, 3, 3, padding=1),
            nn.BatchNorm2d(3),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
            nn.Conv2d(3, 2, 2),
            nn.Flatten(),
            nn.LogSoftmax(1),
            nn.Identity(),
        )[:6],
        (1, 6, 6),
    ),
    "batch-norm-first": (lambda: sequence(nn.BatchNorm1d(4), nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), (4,)),
    **{
        type(kind).__name__ + "-sum": (lambda kind=kind: sequence(nn.Linear(4, 8), kind, nn.Linear(8, 2)), (4,))
        for kind in SUMS
    },
    **{kind.__name__: (lambda kind=kind: sequence(nn.Linear(4, 8), kind(), nn.Linear(8, 2)), (4,)) for kind in KINDS},
}


def made(name):
    torch.manual_seed(0)
    build, shape = MODULES[name]
    module, x = build(), torch.randn(5, *shape)
    module.train()
    for _ in range(3):
        module(torch.randn(16, *shape))  # so that batch norms have seen something
    return module, x


@pytest.mark.parametrize("name", MODULES)
def test_modules(name):
    module, x = made(name)
    training = module.training
    model = from_torch(module, x)
    assert module.training == training
    assert next(module.parameters()).dtype == torch.float32
    with torch.no_grad():
        wanted = module.eval().double()(x.double()).numpy()
    found = np.asarray(model.network(model.params, x.numpy())).reshape(wanted.shape)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12 * np.abs(wanted).max())


def test_names_and_exact_weights():
    module, x = made("mlp-gelu")
    model = from_torch(module, x.numpy())
    assert list(model.params) == list(module.state_dict())
    assert model.network.trained_names == tuple(module.state_dict())
    for name, weight in module.state_dict().items():
        np.testing.assert_array_equal(model.params[name], weight.double().numpy())
    assert [node.activation.name for node in model.network.graph.nodes] == ["gelu", "gelu"]


def test_what_is_trained():
    model = from_torch(*made("raw"))
    assert set(model.network.trained_names) == {"w", "b", "v", "shift"}
    model = from_torch(*made("residual"))
    assert set(model.network.trained_names) == {
        "first.weight",
        "first.bias",
        "second.weight",
        "last.weight",
        "last.bias",
    }
    assert any("folded into first.weight" in note for note in model.notes)


def test_weights_go_back():
    module, x = made("mlp-relu")
    model = from_torch(module, x)
    moved = {name: array + 0.25 for name, array in model.params.items()}
    to_torch(model.network, moved, module)
    for name, weight in module.state_dict().items():
        assert weight.dtype == torch.float32
        np.testing.assert_array_equal(weight.numpy(), moved[name].astype(np.float32))
    again = from_torch(module, x)
    np.testing.assert_allclose(
        np.asarray(again.network(again.params, x.numpy())), np.asarray(model.network(moved, x.numpy())), rtol=1e-5
    )


def test_weights_that_do_not_fit_change_nothing():
    module, x = made("batch-norm-1d")
    model = from_torch(module, x)
    before = {name: weight.clone() for name, weight in module.state_dict().items()}
    with pytest.raises(InputError, match="something was folded on the way"):
        to_torch(model.network, model.params, module)
    other, _ = made("mlp-gelu")
    with pytest.raises(InputError, match=r"no weight 1\.bias|3\.weight"):
        to_torch(model.network, model.params, other)
    wider, _ = made("mlp-relu")
    narrow = from_torch(sequence(nn.Linear(4, 7), nn.ReLU(), nn.Linear(7, 8), nn.ReLU(), nn.Linear(8, 1)), x)
    with pytest.raises(InputError, match=r"'0\.weight' has the shape \(7, 4\), in the module \(8, 4\)"):
        to_torch(narrow.network, narrow.params, wider)
    assert all(torch.equal(weight, before[name]) for name, weight in module.state_dict().items())


def test_safetensors_load(tmp_path):
    from safetensors.torch import load_file

    module, x = made("mlp-relu")
    to_safetensors(from_torch(module, x).params, tmp_path / "weights.safetensors")
    module.load_state_dict(load_file(tmp_path / "weights.safetensors"))


class Branches(nn.Module):
    def forward(self, x):
        return x.sum(dim=1) if x.sum() > 0 else -x.sum(dim=1)


class TwoInputs(nn.Module):
    def forward(self, x):
        return x, x


class Attending(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.last = nn.MultiheadAttention(4, 2, batch_first=True), nn.Linear(4, 1)

    def forward(self, x):
        x = x.unsqueeze(1)
        return self.last(self.attention(x, x, x)[0][:, 0])


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.recurrent, self.last = kind(4, 3, batch_first=True), nn.Linear(3, 1)

    def forward(self, x):
        return self.last(self.recurrent(x.unsqueeze(1))[0][:, -1])


def between(layer):
    return [nn.Linear(4, 3), layer, nn.Linear(3, 1)]


@pytest.mark.parametrize(
    ("layers", "shape", "sentence"),
    [
        *(
            (between(layer), (4,), f"{type(layer).__name__} '1' is not supported: use {other} instead, and train again")
            for layer, other in (
                (nn.Threshold(0.1, 0.0), "ReLU or GELU"),
                (nn.LayerNorm(3), "BatchNorm"),
            )
        ),
        ([Attending()], (4,), r"MultiheadAttention '0\.attention' is not supported: only feed-forward"),
        ([Recurrent(nn.LSTM)], (4,), r"LSTM '0\.recurrent' is not supported: only feed-forward"),
        ([Recurrent(nn.GRU)], (4,), r"GRU '0\.recurrent' is not supported: only feed-forward"),
        (between(nn.Softmax(1)), (4,), "Softmax '1' is not supported: it can only stand at the end"),
        (between(nn.Softshrink()), (4,), "Softshrink '1' is not supported: what can be read are linear layers"),
        ([nn.Linear(4, 3), nn.Softmax(dim=1)], (4,), "ends in Softmax '1': with `logits=True`"),
        ([nn.AdaptiveAvgPool1d(3), nn.Flatten(), nn.Linear(6, 1)], (2, 7), "windows of different sizes"),
        ([Branches()], (4,), r"torch\.export cannot export the module"),
        ([TwoInputs()], (4,), "1 inputs and 2 outputs"),
    ],
)
def test_refused(layers, shape, sentence):
    with pytest.raises(InputError, match=sentence) as caught:
        from_torch(sequence(*layers), torch.randn(3, *shape))
    assert "\n" not in str(caught.value)


def test_what_is_no_module():
    with pytest.raises(InputError, match=r"takes a torch\.nn\.Module, got int"):
        from_torch(3, torch.zeros(1, 2))
    with pytest.raises(InputError, match="an example has the shape"):
        from_torch(nn.Linear(2, 1), torch.zeros(2))
    broken = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    broken[0].weight.data[0, 0] = float("nan")
    with pytest.raises(InputError, match=r"'0\.weight' holds numbers that are not finite"):
        from_torch(broken, torch.zeros(1, 2))


def labelled(end, outputs=3):
    torch.manual_seed(0)
    return sequence(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, outputs), *end), torch.randn(5, 4)


@pytest.mark.parametrize("end", [nn.Softmax(1), nn.LogSoftmax(-1), nn.Sigmoid()], ids=lambda end: type(end).__name__)
def test_logits(end):
    """The end is left out, and what is compared is PyTorch's value before it."""
    module, x = labelled([end, nn.Dropout()])
    model = from_torch(module, x, logits=True)
    assert model.notes == (f"{type(end).__name__} '3' at the end is left out: the outputs are logits",)
    with torch.no_grad():
        wanted = copy.deepcopy(module)[:3].double()(x.double()).numpy()
    np.testing.assert_allclose(np.asarray(model.network(model.params, x.numpy())), wanted, rtol=0, atol=1e-12)
    moved = {name: array + 0.25 for name, array in model.params.items()}
    to_torch(model.network, moved, module)
    np.testing.assert_array_equal(module[0].weight.detach().numpy(), moved["0.weight"].astype(np.float32))
    assert from_torch(*made("mlp-relu"), logits=True).notes == ()


def test_logits_that_were_read_wrongly_are_noticed(monkeypatch):
    """Probabilities are 0 and 1 at such weights, whatever the first bias is: only the logits tell."""
    module, x = labelled([nn.Softmax(1)])
    module[2].bias.data = torch.tensor([1e6, 0.0, 0.0])
    read = torch_in.build

    def wrong(program):
        model = read(program)
        return Model(model.network, {**model.params, "2.bias": model.params["2.bias"] * (1 + 1e-6)}, model.notes)

    monkeypatch.setattr(torch_in, "build", wrong)
    with pytest.raises(InputError, match="differs from the module"):
        from_torch(module, x, logits=True)


def test_a_module_is_certified_up_to_its_softmax():
    module, _ = labelled([nn.Softmax(1)])
    proof = wp.certify(module, "iris", limit=12, prepare="standardize")
    assert "Softmax '3' at the end is left out: the outputs are logits" in proof.notes
    assert proof.proved
    assert proof.network.output_shape == (3,)


class Scaled(nn.Module):
    """Weights of its own, behind a shift."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(5))
        self.w = nn.Parameter(torch.ones(5, 3))

    def forward(self, x):
        return (x - self.mean) @ self.w


@pytest.mark.parametrize("build", [lambda: nn.Sequential(nn.Linear(5, 8), nn.GELU(), nn.Linear(8, 1)),
                                   Scaled, lambda: nn.Linear(5, 4)])  # fmt: skip
def test_rows_of_another_width(build):
    said = "^the module takes 5 features and the rows have 4: give it the columns that it was trained on$"
    with pytest.raises(InputError, match=said):
        from_torch(build(), torch.zeros(3, 4))
    with pytest.raises(InputError, match=said):
        wp.certify(build(), (np.eye(4), np.arange(4.0)), task="regression")


def test_examples_of_another_shape():
    images = sequence(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 1))
    with pytest.raises(InputError, match=r"does not take rows of 16 features: .*; give images, .*from_torch\(module"):
        from_torch(images, torch.zeros(2, 16))
    with pytest.raises(InputError, match=r"does not take examples of shape \(3, 4, 4\): .*channels"):
        from_torch(images, torch.zeros(2, 3, 4, 4))


@pytest.mark.parametrize("dynamo", [True, False])
@pytest.mark.parametrize("name", ["mlp-gelu", "mlp-relu", "residual", "pooled", "shared", "SiLU", "Softsign"])
def test_exported_files(name, dynamo, tmp_path):
    pytest.importorskip("onnxscript")
    module, x = made(name)
    path = tmp_path / "model.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = {"dynamic_shapes": ({0: "N"},)} if dynamo else {"dynamic_axes": {"x": {0: "N"}}}
        torch.onnx.export(module.eval(), (x,), path, dynamo=dynamo, input_names=["x"], verbose=False, **options)
    model = from_onnx(path, check=x.numpy())
    assert agreement(path, model, x.numpy()) < 1e-12
