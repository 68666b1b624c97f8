r"""Certificates about a training run from its first step: where its exact steps lead, and what is proved from there.

The weights that a run computed are near those of gradient descent without rounding: an error grows by a known factor a
step (`growth`), so enough bits keep a verifier, which repeats the steps, as near as it needs. Where it arrives, Theorem
1 (or 3, for the logistic loss) holds for every start within `distance`; or the loss after the last step is all that is
claimed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from wideproof.certificates import growth, lengths
from wideproof.certificates.arguments import checked
from wideproof.certificates.attempt import Attempt, Obstacle
from wideproof.certificates.certificate import Certificate, Start
from wideproof.certificates.certifying import certify
from wideproof.certificates.classify import certify_classifier, no_lower_loss
from wideproof.certificates.obstacles import no_eigenvalue
from wideproof.errors import InputError
from wideproof.training import LOGISTIC, Objective, Run, SquaredLoss, Status

ROOMS = (0.25, 0.1, 0.02, 1e-3, 1e-5)  # shares of the residual that are left for the distance, the largest first
LOSS_ROOM = 1e-3  # the same of the logistic loss
CLOSER = 0.9999  # a basin of d is entered to this share of it, so that both numbers can be rounded
SPARE = 4.0  # bits beyond the estimate
FOLLOWED = ("squared", "logistic", "exp_linear", "squared_hinge", "half_squared_hinge", "huber_hinge")
MOST_BITS, MOST_STEPS = 3000, 100_000
MOST_ROWS = 2000
MOST_WORK, STEP_WORK = 10**15, 10**6  # of a verifier: bits times (10^6 + rows times weights) summed over the steps


def batches_of(run: Run) -> Int[np.ndarray, "steps batch"] | None:
    """Return the rows that every step of a run used, `steps x batch`; `None` for gradient descent.

    >>> from wideproof.data import Dataset
    >>> from wideproof.networks import FullyConnected
    >>> from wideproof.training import Recipe, train
    >>> data = Dataset(np.eye(3), np.array([1.0, -1.0, 1.0]), "binary")
    >>> batches_of(train(FullyConnected(3, 8, 1), data, Recipe(steps=5, batch=2))).shape
    (5, 2)
    """
    from wideproof.training import minibatch

    n, batch = run.data.n, run.recipe.batch
    if batch is None or batch >= n:
        return None
    key, steps = jax.random.key(run.recipe.seed), jnp.arange(run.step)
    return np.asarray(jax.vmap(lambda step: minibatch(key, step, n, batch))(steps), np.int64)


@checked
def certify_from_start(run: Run, **options: Any) -> Attempt:
    r"""Certify that the run's method, started at its initial weights, reaches a global minimum of the squared loss.

    Theorem 1 has to hold at the run's end with $\rho + (b + s)\,\epsilon$ in place of the residual $\rho$: then it does
    for every start within $\epsilon$, the claimed `distance`, which the exact steps have to reach. The mean logistic
    loss of one output has no minimum: Theorem 3, with the loss $L_0 + b\,\epsilon/\sqrt n$ in place of $L_0$, says how
    far gradient descent takes it from there.

    Parameters
    ----------
    run
        Gradient descent, or stochastic gradient descent, after which gradient descent takes over.
    options
        Of `certify`, or for the logistic loss of `certify_classifier`.

    Examples
    --------
    >>> from wideproof.data import Dataset
    >>> from wideproof.networks import FullyConnected, get_activation
    >>> from wideproof.training import Recipe, train
    >>> data = Dataset(np.eye(3), np.array([1.0, -1.0, 1.0]), "binary")
    >>> run = train(FullyConnected(3, 32, 1, get_activation("tanh")), data, Recipe(steps=20))
    >>> certify_from_start(run).certificate.start.steps
    20
    """
    _require_followable(run)
    own = sorted(options.keys() & {"step_size", "room", "rooms"})
    if own:
        raise InputError(f"{', '.join(own)} come{'s' * (len(own) == 1)} from the run: leave that out")
    batches = batches_of(run)
    if lowers(run):
        return _lower(run, batches, options)
    if run.recipe.objective != Objective(SquaredLoss(), "half_sum"):
        raise InputError(
            "a global minimum is certified for half the sum of squares, a lower loss for the logistic loss of one "
            "output: use `certify_run` for other losses"
        )
    step_size = run.step_size if batches is None else None
    tried = certify(run.network, run.params, run.data, rooms=ROOMS, step_size=step_size, **options)
    made, found, anchor = tried.certificate, tried.descent, tried.anchor
    if made is None or found is None or anchor is None:
        return tried
    distance = (found.rho - anchor.residual) / (found.b + found.s) * (1 - 1e-9)
    start, obstacle = _start(run, batches, distance)
    if start is None:
        return dataclasses.replace(tried, certificate=None, descent=None, obstacle=obstacle)
    return dataclasses.replace(tried, certificate=_begun(run, made, start))


def lowers(run: Run) -> bool:
    """Return whether Theorem 3 is about the run's loss: the mean logistic loss of one output for each example."""
    one = run.data.task == "binary" and run.network.graph.outputs == 1 and run.network.data_kind != "sequences"
    return one and run.recipe.objective == Objective(LOGISTIC, "mean")


def _lower(run: Run, batches: Int[np.ndarray, "steps batch"] | None, options: Mapping[str, Any]) -> Attempt:
    """Let Theorem 3 at the run's end begin at its start; or say why it does not hold there.

    After SGD gradient descent may have another step size; the same one is tried first.
    """
    network, data, size = run.network, run.data, run.step_size
    found = certify_classifier(network, run.params, data, step_size=size, room=LOSS_ROOM, **options)
    if found.descent is None and batches is not None:
        size = None
        found = certify_classifier(network, run.params, data, room=LOSS_ROOM, **options)
    made, descent, anchor = found.certificate, found.descent, found.anchor
    if made is None or descent is None:
        return Attempt(anchor, None, no_eigenvalue(anchor, data.x) or no_lower_loss(found, data.n, size))
    start, obstacle = _start(run, batches, descent.distance)
    if start is None:
        return Attempt(anchor, None, obstacle)
    return Attempt(anchor, _begun(run, _with_margin(made, found.margin, found.loss), start), None)


def _with_margin(made: Certificate, margin: float, loss: float) -> Certificate:
    """Claim that every example is on the right side after the steps, where that is so by more than they may be off."""
    slack = _slack(loss)
    return dataclasses.replace(made, claims={**made.claims, "margin": margin - slack}) if margin > 2 * slack else made


def _begun(run: Run, made: Certificate, start: Start) -> Certificate:
    """Let a certificate begin at the start."""
    summary = (
        f"Claim: {_method(run, start.batches)}, started at the weights that are stored as the start, comes within "
        f"{start.distance:.3g} of these weights in {run.step} steps; from there: "
        f"{made.summary.removeprefix('Claim: ')}"
    )
    return dataclasses.replace(made, summary=summary, start=start)


def _slack(loss: float) -> float:
    """Return what the ball around the end of the steps may add to the loss, or take from a margin."""
    return 1e-6 + 1e-4 * abs(loss)


def enter(run: Run, attempt: Attempt) -> Attempt:
    r"""Let a certificate about all starts within d of its weights begin at the run's own start.

    The exact steps have to end within $d$ of these weights: $\|\hat\theta_K - \tilde z\| + \varepsilon_K \le d$.

    Parameters
    ----------
    run
        Gradient descent or stochastic gradient descent whose end is within d of the weights of `attempt`.
    attempt
        Of `certify_basin`, `certify_epochs` or `certify_sampling`, at the polished end of the run.

    Examples
    --------
    >>> import wideproof as wp
    >>> from wideproof.certificates import certify_epochs, polish
    >>> data = wp.prepare(wp.load("digits", classes=(0, 1), limit=12), "whiten,unit")
    >>> network = wp.build("fully-connected", data.input_shape, data.target_shape, width=64, depth=1)
    >>> run = wp.train(network, data, wp.Recipe(steps=100, batch=4, step_size=0.1))
    >>> near = polish(network, run.params, data.x, data.y).params
    >>> enter(run, certify_epochs(network, near, data, batch=4)).certificate.start.steps
    100
    """
    _require_followable(run)
    made = attempt.certificate
    if made is None or made.theorem not in ("basin", "epochs", "sampling"):
        return attempt
    apart, d = lengths.distance(run.network.trained_names, run.params, made.params), float(made.claims["d"])
    if not apart < 0.999 * CLOSER * d:
        reason = f"the run ends {apart:.3g} from the fit, and the theorem is about starts within {d:.3g}"
        return dataclasses.replace(
            attempt, certificate=None, obstacle=Obstacle("distance", apart, d, reason, ("train longer",))
        )
    batches = batches_of(run)
    start, obstacle = _start(run, batches, CLOSER * d - apart)
    if start is None:
        return dataclasses.replace(attempt, certificate=None, obstacle=obstacle)
    start = dataclasses.replace(start, distance=CLOSER * d)
    return dataclasses.replace(attempt, certificate=_begun(run, made, start))


@checked
def certify_run(run: Run, about: Mapping[str, Any] | None = None) -> Attempt:
    r"""Certify what a run has reached: the loss after its last step, and that every example is on the right side.

    It is about the exact steps from the initial weights, $\theta_{k+1} = \theta_k - \eta_k \nabla \sum_{i \in B_k}
    \ell(f_i)$, for every network and these losses: squared, logistic, exp_linear, squared_hinge, half_squared_hinge,
    huber_hinge.

    Examples
    --------
    >>> import wideproof as wp
    >>> data = wp.prepare(wp.load("iris", classes=("setosa", "versicolor"), limit=12), "standardize,sphere")
    >>> network = wp.build("deep-relu", data.input_shape, data.target_shape, width=16, depth=2)
    >>> run = wp.train(network, data, wp.Recipe(loss="logistic", steps=50, step_size=0.5, batch=4))
    >>> certify_run(run).certificate.theorem
    'finite'
    """
    _require_followable(run)
    network, data, objective = run.network, run.data, run.recipe.objective
    weights = {name: np.asarray(weight, np.float64) for name, weight in run.params.items()}
    outputs = np.asarray(network.scored(jnp.asarray(network(weights, data.x))), np.float64).reshape(data.n, -1)
    y = network.scored(data.y).reshape(data.n, -1)
    batches = batches_of(run)
    loss = float(objective.value(jnp.asarray(outputs), jnp.asarray(y)))
    slack = _slack(loss)
    steep = float(np.abs(growth.slopes(objective, outputs, y)).sum()) / (data.n if objective.reduction == "mean" else 1)
    start, obstacle = _start(run, batches, 1e-7, slack / max(steep, 1e-300))
    if start is None:
        return Attempt(None, None, obstacle)
    claims: dict[str, Any] = {"loss": loss + slack}
    margin = _margin(outputs, y) if data.task != "regression" and network.data_kind != "sequences" else -math.inf
    if margin > 2 * slack:
        claims["margin"] = margin - slack
    summary = (
        f"Claim: {_method(run, batches)}, started at the weights that are stored as the start, has a loss of at most "
        f"{claims['loss']:.6g} on {data.name} ({data.n} examples) after {run.step} steps"
        f"{', and every example is on the right side' if 'margin' in claims else ''}."
    )
    note = {"data": data.name, "digest": data.digest, "anchor": "the trained weights", "seed": run.recipe.seed,
            "steps": run.step, "step_size": run.step_size, **(about or {})}  # fmt: skip
    said = {"name": objective.loss.name, "reduction": objective.reduction}
    made = Certificate(
        summary, "finite", "float64", network.graph, claims, weights, data.x, data.y, False, note, said, start
    )
    return Attempt(None, made, None)


def _method(run: Run, batches: Int[np.ndarray, "steps batch"] | None) -> str:
    if batches is None:
        return f"gradient descent with step size {run.step_size:.4g}"
    return (
        f"stochastic gradient descent with step size {run.step_size:.4g} and the stored batches of {run.recipe.batch}"
    )


def _margin(outputs: Float[np.ndarray, "n c"], y: Float[np.ndarray, "n c"]) -> float:
    if y.shape[1] == 1:
        return float((outputs * y).min())
    own = np.where(y > 0, outputs, 0).sum(axis=1)
    return float((own - np.where(y > 0, -np.inf, outputs).max(axis=1)).min())


def _require_followable(run: Run) -> None:
    """Say in a sentence why the steps of a run cannot be followed."""
    recipe = run.recipe
    if run.step < 1:
        raise InputError("the run has taken no step: its start is its end, which `certify` is about")
    if run.status is Status.DIVERGED:
        raise InputError(
            f"the run diverged after {run.step} steps: use a smaller step size, such as {run.smaller_step_size():.4g}"
        )
    if recipe.optimizer != "plain":
        raise InputError(f"the steps of {recipe.optimizer!r} are not followed: train with the optimizer 'plain'")
    if recipe.loss not in FOLLOWED:
        raise InputError(f"the loss {recipe.loss!r} is not followed: use one of {', '.join(FOLLOWED)}")
    if recipe.precision != "float64":
        raise InputError("the steps of a float32 run are not close enough to exact ones: train in float64")
    if run.step > MOST_STEPS:
        raise InputError(
            f"the run has {run.step} steps, and at most {MOST_STEPS} are followed: certify its end instead"
        )


def _start(
    run: Run, batches: Int[np.ndarray, "steps batch"] | None, distance: float, outputs: float = math.inf
) -> tuple[Start | None, Obstacle | None]:
    """Return the start with its hints, or what is in the way; outputs at the end may be off by `outputs`."""
    network, data = run.network, run.data
    y = network.scored(data.y)
    rows = y.size if batches is None else y.size // data.n * batches.shape[1]
    if rows > MOST_ROWS:
        reason = f"the Jacobian of a step has {rows} rows, and at most {MOST_ROWS} are followed"
        return None, Obstacle("rows", rows, MOST_ROWS, reason, ("use smaller batches", "use fewer examples"))
    initial = {name: np.asarray(weight, np.float64) for name, weight in run.initial.items()}
    found = growth.follow(
        network.graph, initial, data.x, y, run.recipe.objective, run.step_size, run.step, batches
    )  # fmt: skip
    room = min(distance, found.nearest / 16, outputs / found.reach)
    bits = found.to_go() + math.log2(2 * run.step / room) + SPARE if room > 0 else np.array([math.inf])
    if not bits.max() <= MOST_BITS:
        reason = f"an error may grow by {found.bits:.0f} bits in {run.step} steps, and at most {MOST_BITS} are followed"
        steep = found.steepest.max()
        advice = (f"use a smaller step size, such as {run.step_size * 1.5 / steep:.4g}",) if steep > 2 else ()
        return None, Obstacle("growth", found.bits, MOST_BITS, reason, (*advice, "use fewer steps", "use fewer layers"))
    each = STEP_WORK + rows * sum(weight.size for weight in initial.values())
    work = each * float(np.maximum(np.ceil(bits), 53).sum())
    if work > MOST_WORK:
        reason = f"to follow {run.step} steps is {work:.0e} of work for a verifier, which does at most {MOST_WORK:.0e}"
        return None, Obstacle("work", work, MOST_WORK, reason, ("use fewer steps", "use smaller batches"))
    return Start(initial, run.step_size, run.step, batches, tuple(np.ceil(bits).tolist()), distance), None
