"""Loops of PyTorch, followed from their initial weights; skipped where PyTorch is not installed."""

import numpy as np
import pytest

import wideproof as wp
from wideproof.certificates.starting import batches_of
from wideproof.errors import InputError
from wideproof.training import Run, resume

torch = pytest.importorskip("torch")
nn = torch.nn
pytestmark = pytest.mark.filterwarnings("ignore")


def module(*more):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 24), nn.Tanh(), *more, nn.Linear(24, 1)).double()


def table(n=8, bits=False):
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, (n, 1)).astype(float) if bits else rng.normal(size=(n, 1))
    return torch.as_tensor(rng.normal(size=(n, 3))), torch.as_tensor(y)


def sgd(model, lr=0.05, **more):
    return torch.optim.SGD(model.parameters(), lr=lr, **more)


def by_hand(model, pairs, rates, mean=True):
    """Take the steps of half the sum of squares in NumPy: one tanh layer, a read-out."""
    w, b, v, c = (p.detach().numpy().copy() for p in model.parameters())
    for (x, y), rate in zip(pairs, rates, strict=True):
        x, y = x.numpy(), y.numpy()
        h = np.tanh(x @ w.T + b)
        slope = 2 * (h @ v.T + c - y) / (y.size if mean else 1)
        back = (slope @ v) * (1 - h**2)
        w, b, v, c = w - rate * back.T @ x, b - rate * back.sum(0), v - rate * slope.T @ h, c - rate * slope.sum(0)
    return w, b, v, c


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_batches_of_squares_are_followed(tmp_path, reduction):
    model, (x, y) = module(), table()
    lr = 0.05 if reduction == "mean" else 0.01
    order = [torch.arange(8).roll(k)[:4] for k in range(12)]
    pairs = [(x[rows], y[rows]) for rows in order]
    expected = by_hand(model, pairs, [lr] * 12, reduction == "mean")
    found = wp.follow_torch(
        model, sgd(model, lr), iter(pairs), nn.MSELoss(reduction=reduction), folder=tmp_path / "proof"
    )
    assert found.proved, str(found)
    for ours, theirs in zip(model.parameters(), expected, strict=True):
        np.testing.assert_allclose(ours.detach().numpy(), theirs, rtol=1e-9, atol=1e-12)
    run = found.run
    np.testing.assert_array_equal(run.params["0.weight"], model[0].weight.detach().numpy())
    place = {x[k].numpy().tobytes(): k for k in range(8)}
    names = [place[row.tobytes()] for row in run.data.x]
    np.testing.assert_array_equal(
        np.sort(np.array(names)[batches_of(run)], axis=1), [sorted(rows.tolist()) for rows in order]
    )
    assert wp.verify(tmp_path / "proof").answer == "proved"
    end = float(0.5 * np.square(model(x).detach().numpy() - y.numpy()).sum())
    assert run.loss == pytest.approx(end, rel=1e-9)
    assert "PyTorch took 12 steps of SGD" in str(found)
    assert str(found).startswith("Proved: ")


def test_all_rows_at_once_reach_a_minimum():
    model, (x, y) = module(), table(4)
    found = wp.follow_torch(model, sgd(model, 0.1), [(x, y)] * 150)
    assert found.proved
    assert found.minimum, str(found)
    assert found.run.batches is None
    assert found.run.step_size == pytest.approx(2 * 0.1 / 4)


@pytest.mark.parametrize("kind", [nn.BCEWithLogitsLoss, nn.SoftMarginLoss])
def test_the_logistic_loss(kind, tmp_path):
    model, (x, y) = module(), table(bits=True)
    given = y if kind is nn.BCEWithLogitsLoss else 2 * y - 1
    pairs = [(x[k % 2 :: 2], given[k % 2 :: 2]) for k in range(10)]
    found = wp.follow_torch(model, sgd(model, 0.2), pairs, kind())
    assert found.proved, str(found)
    assert found.run.step_size == pytest.approx(0.2, rel=1e-15)
    assert found.run.loss == pytest.approx(float(kind()(model(x), given).detach()), rel=1e-12)
    found.run.save(tmp_path / "run")
    again = Run.load(tmp_path / "run")
    np.testing.assert_array_equal(batches_of(again), batches_of(found.run))
    assert wp.follow(again).proved
    with pytest.raises(InputError, match="came from elsewhere"):
        resume(tmp_path / "run", steps=20)


def test_a_part_of_the_weights():
    model, (x, y) = module(), table(5)
    found = wp.follow_torch(model, torch.optim.SGD(model[2].parameters(), lr=0.05), [(x, y)] * 6)
    assert found.proved, str(found)
    assert found.run.network.trained_names == ("2.weight", "2.bias")


def adam(model):
    return torch.optim.Adam(model.parameters(), lr=0.05)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (adam, "the steps of Adam are not followed"),
        (lambda model: sgd(model, momentum=0.9), "momentum 0.9 of SGD is not followed"),
        (lambda model: sgd(model, weight_decay=0.01), "weight decay 0.01 of SGD is not followed"),
        (lambda model: torch.optim.SGD([{"params": model[0].parameters()},
                                        {"params": model[2].parameters(), "lr": 0.1}], lr=0.2), "one for all weights"),
    ],
)  # fmt: skip
def test_other_methods_are_refused_by_name(made, said):
    model, (x, y) = module(), table()
    before = model[0].weight.detach().clone()
    with pytest.raises(InputError, match=said):
        wp.follow_torch(model, made(model), [(x, y)] * 3)
    assert torch.equal(before, model[0].weight)


def test_what_a_loop_must_not_have():
    x, y = table()
    for model, pairs, loss, said in (
        (module().float(), [(x, y)], None, "not in float64"),
        (module(), [(x.float(), y)], None, "must be in float64"),
        (module(), [(x, y), (x[:3], y[:3])], None, "batches of one size"),
        (module(), [(x, y[:, 0])], None, "compare every output with every target"),
        (module(), [(x[[0, 0]], y[[0, 0]])], None, "the same example twice"),
        (module(), [], None, "no batches"),
        (module(), [(x, y)], nn.CrossEntropyLoss(), "softmax cross-entropy"),
        (module(), [(x, y)], nn.HuberLoss(), "the steps of HuberLoss are not followed"),
        (module(), [(x, y)], nn.BCEWithLogitsLoss(), "0 or 1"),
        (module(nn.Dropout(0.5)), [(x, y)], None, "Dropout '2' in training mode"),
        (module(nn.BatchNorm1d(24)), [(x, y)], None, "BatchNorm1d '2' in training mode"),
        (module(nn.BatchNorm1d(24)).eval(), [(x, y)], None, "no weight of the network"),
    ):
        with pytest.raises(InputError, match=said):
            wp.follow_torch(model, sgd(model), pairs, loss)


def test_a_step_size_that_changes_is_refused():
    model, (x, y) = module(), table()
    optimizer = sgd(model)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    optimizer.register_step_post_hook(lambda *_: schedule.step())
    with pytest.raises(InputError, match="the step size changed at step 1"):
        wp.follow_torch(model, optimizer, [(x, y)] * 4)


def test_what_else_moves_the_weights_is_caught():
    model, (x, y) = module(), table()
    model[0].weight.register_hook(lambda gradient: gradient.clamp(-1e-3, 1e-3))
    with pytest.raises(InputError, match="something else moves them"):
        wp.follow_torch(model, sgd(model), [(x, y)] * 4)
