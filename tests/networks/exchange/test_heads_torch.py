"""Heads of PyTorch modules on features of any backbone; skipped where PyTorch is not installed."""

import numpy as np
import pytest

import wideproof as wp
from wideproof.errors import InputError
from wideproof.networks.exchange import cut_head

torch = pytest.importorskip("torch")
nn = torch.nn
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


class Tuned(nn.Module):
    """Tokens through attention, and a head; nothing of ours reads what is before it."""

    def __init__(self, more=False):
        super().__init__()
        self.embed, self.more = nn.Embedding(9, 8), more
        self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.3, batch_first=True)
        self.norm, self.fc = nn.LayerNorm(8), nn.Linear(8, 3)

    def forward(self, tokens):
        found = self.fc(self.norm(self.block(self.embed(tokens)).mean(1)))
        return found.sin() if self.more else found


def recurrent():
    class Last(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.LSTM(2, 6, batch_first=True)

        def forward(self, x):
            return self.cell(x)[0][:, -1]

    return nn.Sequential(Last(), nn.Linear(6, 10), nn.Tanh(), nn.Dropout(0.5), nn.Linear(10, 2), nn.Softmax(-1))


def test_a_transformers_head_is_proved(tmp_path):
    module, x = Tuned(), np.random.default_rng(1).integers(0, 9, size=(30, 5)).astype(float)
    tokens = torch.as_tensor(x).long()
    with torch.no_grad():
        module.fc.bias -= module.eval()(tokens).mean(0)  # every class occurs
        module.train()
        exact = Tuned().double().eval()
        exact.load_state_dict(module.state_dict())
        f = exact.norm(exact.block(exact.embed(tokens)).mean(1)).numpy()
        labels = np.array(["a", "b", "c"])[exact(tokens).argmax(1).numpy()]
    assert len(set(labels)) == 3
    found = wp.certify(module, (x, labels), head="fc", loss="cross_entropy", folder=tmp_path / "p")
    assert isinstance(found, wp.LossProof)
    assert found.proved, found
    assert found.headline.startswith("Proved of the head 'fc' of Tuned, with nothing moved: the mean cross-entropy on")
    assert "all 30 rows are right" in found.headline
    np.testing.assert_allclose(found.data.x, f, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(found.params["fc.weight" if "fc.weight" in found.params else "weight"],
                                  module.fc.weight.detach().double().numpy())  # fmt: skip
    assert module.training
    assert module.fc.weight.dtype == torch.float32


def test_a_sequential_is_cut_between_its_layers(rng):
    module, x = recurrent(), rng.normal(size=(70, 8))
    found = cut_head(module, "1", x, (4, 2))
    exact = recurrent().double().eval()
    exact.load_state_dict(module.state_dict())
    with torch.no_grad():
        f = exact[0](torch.as_tensor(x.reshape(70, 4, 2)))
        y = exact[1:5](f).numpy()
    np.testing.assert_allclose(found.features, f.numpy(), rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(np.asarray(found.model.network(found.model.params, found.features)), y, rtol=1e-11)
    assert any("left out" in note for note in found.model.notes)  # the softmax
    images = nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1), nn.MaxPool2d(2), nn.Sequential(nn.Flatten(), nn.Linear(12, 2))
    )
    pair = (rng.normal(size=(9, 1, 4, 4)), rng.normal(size=(9, 2)))
    proof = wp.certify(images, pair, head="2", task="regression", loss="squared")
    assert proof.proved, proof
    assert proof.data.x.shape == (9, 12)


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return self.fc(self.fc(x))


class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Bilinear(4, 4, 2)

    def forward(self, x):
        return self.fc(x, x)


@pytest.mark.parametrize(
    ("make", "layer", "x", "words"),
    [
        (lambda: Tuned(more=True), "fc", np.ones((3, 5)), "the module goes on after 'fc'"),
        (Tuned, "head", np.ones((3, 5)), "no layer 'head': its last ones are .*norm, fc"),
        (Tuned, "fc", np.full((3, 5), 0.5), "does not take examples of shape"),
        (Twice, "fc", np.ones((3, 4)), "called 2 times"), (Both, "fc", np.ones((3, 4)), "reads 2 values"),
        (Tuned, "block", np.ones((3, 5)), "goes on after 'block'"),
    ],
)  # fmt: skip
def test_what_cannot_be_cut_is_said(make, layer, x, words):
    with pytest.raises(InputError, match=words):
        cut_head(make(), layer, x)
