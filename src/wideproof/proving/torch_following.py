r"""A training loop of PyTorch, from its initial weights: what the same steps reach without any rounding."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from wideproof.data import Dataset
from wideproof.errors import InputError
from wideproof.networks import Network
from wideproof.networks.exchange import from_torch, require_torch
from wideproof.precision import double
from wideproof.progress import Watch, shown
from wideproof.proving.following import Followed, follow
from wideproof.training import Recipe, Run, Status, begin, training_error

CLOSE = 1e-6  # how far PyTorch's end may be from that of the same steps computed here, over the weights' length
LOSSES = "torch.nn.MSELoss, BCEWithLogitsLoss or SoftMarginLoss"


class _Loss(NamedTuple):
    """A loss of PyTorch: its name here, the factor of the step size for a batch, and whether targets are 0 and 1."""

    name: str
    mean: bool
    bits: bool = False


@shown
@double
def follow_torch(
    module: Any,
    optimizer: Any,
    batches: Iterable[tuple[Any, Any]],
    loss: Any = None,
    *,
    folder: str | Path | None = None,
    sharp: bool = False,
    progress: Watch | None = None,
) -> Followed:
    r"""Train a PyTorch module by plain SGD, and prove what these steps reach in exact arithmetic.

    PyTorch takes the steps, one for each batch, in float64: `optimizer.zero_grad()`, the loss, `backward()`,
    `optimizer.step()`. The initial weights, the batches and the step size are stored; the verifier then takes every
    step again with a bound on all rounding, as `follow` has it. Nothing but `torch.optim.SGD` with one step size is
    covered: momentum, weight decay, Adam and other methods are refused by name, and so are layers that behave otherwise
    in training, such as dropout and batch normalization in training mode.

    Parameters
    ----------
    module
        A module in float64 that `from_torch` can read, with its initial weights. It is trained in place.
    optimizer
        A `torch.optim.SGD` of its parameters; those that it does not have stay fixed.
    batches
        Pairs of inputs and targets in the order of the steps, such as `batch for _ in range(20) for batch in loader`.
        All of one size; equal rows of different batches are one example.
    loss
        A `torch.nn.MSELoss` (by default), or for one output a `torch.nn.BCEWithLogitsLoss` or `SoftMarginLoss`.
    folder
        The folder for the certificate; by default it is not kept.
    sharp
        Use sharper Lipschitz constants, which take longer.
    progress
        Callback; receives a `Progress` at every stage.

    Returns
    -------
    Followed
        The certificate or the obstacle, and the verifier's answer. Its `run` holds the weights that PyTorch found.

    Examples
    --------
    >>> import torch  # doctest: +SKIP
    >>> x, y = torch.eye(4).double(), torch.ones(4, 1).double()  # doctest: +SKIP
    >>> module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))  # doctest: +SKIP
    >>> optimizer = torch.optim.SGD(module.double().parameters(), lr=0.1)  # doctest: +SKIP
    >>> print(follow_torch(module, optimizer, [(x, y)] * 20))  # doctest: +SKIP
    """
    torch = require_torch()
    loss = torch.nn.MSELoss() if loss is None else loss
    taken = _read_loss(torch, loss)
    rate, moving = _read_optimizer(torch, module, optimizer)
    _require_plain(torch, module)
    pairs = [_pair(torch, *pair) for pair in batches]
    if not pairs:
        raise InputError("there are no batches: give one pair of inputs and targets for each step")
    data, rows = _table(pairs, taken)
    before = _read(module, pairs[0][0], moving)
    began = time.perf_counter()
    for step, (inputs, targets) in enumerate(pairs):
        optimizer.zero_grad()
        outputs = module(inputs)
        if outputs.shape != targets.shape:
            raise InputError(
                f"the module gives the shape {tuple(outputs.shape)} and the targets of batch {step} have "
                f"{tuple(targets.shape)}: PyTorch would compare every output with every target; give both one shape"
            )
        loss(outputs, targets).backward()
        optimizer.step()
        if _rates(optimizer) != {rate}:
            raise InputError(f"the step size changed at step {step}: a certificate holds one for all steps")
    after = _read(module, pairs[0][0], moving)
    network, initial, weights = before[0], before[1], after[1]
    size, n = rows.shape[1], data.n
    # The loss of a batch is a mean over its entries or their sum; ours are half the sum over all rows and the mean.
    per_row = rate / (size * data.y[0].size if taken.mean else 1)
    eta = 2 * per_row * size / n if taken.name == "squared" else per_row * size
    recipe = Recipe(
        loss=taken.name, step_size=eta, steps=len(rows), batch=size if size < n else None, precision="float64"
    )
    run = begin(network, data, recipe, initial)
    _require_same(run, rows, weights)
    run = _ended(run, weights, rows if size < n else None, time.perf_counter() - began)
    found = follow(run, folder, sharp=sharp, progress=progress)
    ours = "half the sum of squares over all rows" if taken.name == "squared" else "the mean logistic loss"
    note = (
        f"PyTorch took {len(rows)} steps of SGD with lr={rate:g} on {type(loss).__name__}(reduction={loss.reduction!r})"
        f"{f' in batches of {size}' if size < n else ''}: for {ours} that is the step size {eta:.6g}, rounded to "
        "float64. The proof is about these steps in exact arithmetic; PyTorch's own weights after them are stored as "
        "the run's."
    )
    return dataclasses.replace(found, notes=(note,))


def _read_loss(torch: Any, loss: Any) -> _Loss:
    """Return what a loss of PyTorch is here, or refuse it by name."""
    name = type(loss).__name__
    if not isinstance(loss, torch.nn.MSELoss | torch.nn.BCEWithLogitsLoss | torch.nn.SoftMarginLoss):
        more = ": no theorem that follows steps covers softmax cross-entropy yet" if "CrossEntropy" in name else ""
        raise InputError(f"the steps of {name} are not followed{more}; the losses are {LOSSES}")
    if loss.reduction not in ("mean", "sum"):
        raise InputError(f"{name} has the reduction {loss.reduction!r}: use 'mean' or 'sum'")
    if getattr(loss, "weight", None) is not None or getattr(loss, "pos_weight", None) is not None:
        raise InputError(f"{name} has weights of examples or classes, whose steps are not followed: leave them out")
    squared = isinstance(loss, torch.nn.MSELoss)
    bits = isinstance(loss, torch.nn.BCEWithLogitsLoss)
    return _Loss("squared" if squared else "logistic", loss.reduction == "mean", bits)


def _rates(optimizer: Any) -> set[float]:
    return {float(group["lr"]) for group in optimizer.param_groups}


def _read_optimizer(torch: Any, module: Any, optimizer: Any) -> tuple[float, frozenset[str]]:
    """Return the step size of plain SGD and the names of the parameters that it moves, or name what is not followed."""
    if not isinstance(module, torch.nn.Module):
        raise InputError(f"follow_torch takes a torch.nn.Module, got {type(module).__name__}")
    kind = type(optimizer).__name__
    if type(optimizer) is not torch.optim.SGD:
        raise InputError(f"the steps of {kind} are not followed: use torch.optim.SGD with one step size")
    for group in optimizer.param_groups:
        for key, words in (("momentum", "momentum"), ("weight_decay", "weight decay"), ("maximize", "maximize")):
            if group.get(key):
                raise InputError(f"{words} {group[key]:g} of SGD is not followed: use SGD with the step size alone")
    if optimizer.state:
        raise InputError("the optimizer has taken steps before: give a new one, with the initial weights in the module")
    rates = _rates(optimizer)
    if len(rates) != 1:
        raise InputError(f"the optimizer has the step sizes {sorted(rates)}: a certificate holds one for all weights")
    names = {id(p): name for name, p in module.named_parameters()}
    moved = [p for group in optimizer.param_groups for p in group["params"]]
    strange = [p for p in moved if id(p) not in names]
    if strange:
        raise InputError("the optimizer moves parameters that are not the module's: give it module.parameters()")
    wrong = [name for name, p in module.named_parameters() if p.dtype != torch.float64]
    if wrong:
        raise InputError(f"{wrong[0]} is not in float64: call module.double() before the optimizer is made")
    return rates.pop(), frozenset(names[id(p)] for p in moved if p.requires_grad)


def _require_plain(torch: Any, module: Any) -> None:
    """Refuse layers whose steps depend on chance or on the batch, while they are in training mode."""
    kinds = (torch.nn.modules.batchnorm._BatchNorm, torch.nn.modules.dropout._DropoutNd)
    for name, part in module.named_modules():
        if isinstance(part, kinds) and part.training and getattr(part, "p", 1) != 0:
            raise InputError(
                f"{type(part).__name__} {name!r} in training mode is not followed: leave it out, or call "
                "module.eval() before training"
            )


def _pair(torch: Any, inputs: Any, targets: Any) -> tuple[Any, Any]:
    x, y = (torch.as_tensor(part) for part in (inputs, targets))
    if x.dtype != torch.float64 or y.dtype != torch.float64:
        raise InputError("inputs and targets must be in float64, as the module is: call .double() on both")
    if x.ndim != 2 or not len(x) or len(x) != len(y):
        raise InputError(
            f"a batch has inputs of shape {tuple(x.shape)} and targets of shape {tuple(y.shape)}: rows are vectors, "
            "with a target for each; for images put torch.nn.Unflatten in front of the module"
        )
    return x.detach(), y.detach()


def _table(pairs: list[tuple[Any, Any]], taken: _Loss) -> tuple[Dataset, np.ndarray]:
    """Return all examples once, in the order in which they came, and the rows of every step."""
    sizes = {len(x) for x, _ in pairs}
    if len(sizes) > 1:
        raise InputError(
            f"the batches have {', '.join(map(str, sorted(sizes)))} rows: a certificate holds batches of one size, so "
            "use drop_last=True, or a size that divides the number of examples"
        )
    place: dict[bytes, int] = {}
    first, rows = [], []
    for step, (x, y) in enumerate(pairs):
        step_rows = []
        for one, target in zip(x.numpy(), y.numpy(), strict=True):
            key = one.tobytes() + b"|" + target.tobytes()
            if key not in place:
                place[key] = len(place)
                first.append((one, target))
            step_rows.append(place[key])
        if len(set(step_rows)) < len(step_rows):
            raise InputError(f"batch {step} has the same example twice, which is not followed: keep each row once")
        rows.append(sorted(step_rows))
    x, y = (np.stack(parts) for parts in zip(*first, strict=True))
    y = y.reshape(len(y), -1)
    y = y[:, 0] if y.shape[1] == 1 else y
    task, values = "regression", ()
    if taken.name == "logistic":
        task, values = "binary", (0.0, 1.0) if taken.bits else (-1.0, 1.0)
        if y.ndim > 1 or not np.isin(y, values).all():
            low, high = (f"{v:g}" for v in values)
            raise InputError(f"with this loss there is one target for each row, {low} or {high}")
        y = 2 * y - 1 if taken.bits else y
    classes = tuple(f"{v:g}" for v in values) if values else ()
    return Dataset(x, y, task, "the rows of the batches", classes), np.array(rows)


def _read(module: Any, example: Any, moving: frozenset[str]) -> tuple[Network, dict[str, np.ndarray]]:
    """Return the network with the weights as they are; what the optimizer moves must be weights of it, unchanged."""
    model = from_torch(module, example[:2])
    given = {name: p.detach().numpy() for name, p in module.named_parameters()}
    for name in sorted(moving):
        held = model.params.get(name)
        if held is None or held.shape != given[name].shape or not np.array_equal(held, given[name]):
            raise InputError(
                f"the parameter {name!r} is no weight of the network that was read, but part of one, or laid "
                "otherwise: its own steps cannot be followed; leave it out of the optimizer"
            )
    chosen = [name for name in model.params if name in moving]
    return model.network.training(chosen), {name: np.asarray(a) for name, a in model.params.items()}


def _require_same(run: Run, rows: np.ndarray, weights: Mapping[str, np.ndarray]) -> None:
    """Refuse where PyTorch's end is not that of plain SGD on this loss: something else has moved the weights."""
    network, data, objective = run.network, run.data, run.recipe.objective
    fixed = {name: a for name, a in run.initial.items() if name not in network.trained_names}
    moving = {name: jnp.asarray(run.initial[name]) for name in network.trained_names}
    x, y, scale = jnp.asarray(data.x), jnp.asarray(data.y), objective.batch_scale(data.n, rows.shape[1])

    @jax.jit
    def stepped(trained: dict[str, Any], chosen: Any) -> dict[str, Any]:
        def value(trained: dict[str, Any]) -> Any:
            outputs = network({**fixed, **trained}, x[chosen])
            return scale * objective.value(network.scored(outputs), network.scored(y[chosen]))

        return jax.tree.map(lambda w, g: w - run.step_size * g, trained, jax.grad(value)(trained))

    for chosen in rows:
        moving = stepped(moving, jnp.asarray(chosen))
    gap = np.sqrt(sum(float(np.sum(np.square(weights[k] - np.asarray(a)))) for k, a in moving.items()))
    length = np.sqrt(sum(float(np.sum(np.square(np.asarray(a)))) for a in moving.values()))
    if not gap <= CLOSE * length:
        raise InputError(
            f"PyTorch's weights end {gap / length:.1e} of their length from plain SGD on these batches: something else "
            "moves them, such as a hook, or the steps are unstable; use a smaller step size"
        )


def _ended(run: Run, weights: Mapping[str, np.ndarray], rows: np.ndarray | None, seconds: float) -> Run:
    """Return the run as it is after PyTorch's steps."""
    network, data = run.network, run.data
    seen = {"loss": [], "error": []}
    for params in (run.initial, weights):
        outputs, targets = network.scored(jnp.asarray(network(params, data.x))), network.scored(jnp.asarray(data.y))
        seen["loss"].append(float(run.recipe.objective.value(outputs, targets)))
        seen["error"].append(float(training_error(outputs, targets, data.task)))
    return dataclasses.replace(
        run, status=Status.LIMIT, step=run.recipe.steps, params=dict(weights), steps=np.array([0, run.recipe.steps]),
        records={name: np.array(values) for name, values in seen.items()}, seconds=seconds, batches=rows,
    )  # fmt: skip
