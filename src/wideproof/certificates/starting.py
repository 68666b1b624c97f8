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
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from wideproof.certificates import costs, growth, lengths, tables
from wideproof.certificates.arguments import ALONE, instance_of
from wideproof.certificates.attempt import Attempt, Level, Obstacle
from wideproof.certificates.certificate import Certificate, Start
from wideproof.certificates.obstacles import no_eigenvalue
from wideproof.certificates.problem import Problem
from wideproof.certificates.setting import Setting
from wideproof.certificates.squared_loss import Convergence
from wideproof.certificates.theorems.descent import Descent
from wideproof.certificates.theorems.finite import Finite, claims_of, margin_of, slack
from wideproof.certificates.theorems.logistic import Classified, Logistic, no_lower_loss
from wideproof.errors import InputError
from wideproof.training import LOGISTIC, Objective, Run, SquaredLoss, Status, epoch_batch, minibatch

ROOMS = (0.25, 0.1, 0.02, 1e-3, 1e-5)  # shares of the residual that are left for the distance, the largest first
LOSS_ROOM = 1e-3  # the same of the logistic loss
CLOSER = 0.9999  # a basin of d is entered to this share of it, so that both numbers can be rounded
SPARE = 4.0  # bits beyond the estimate
FOLLOWED = ("squared", "logistic", "exp_linear", "squared_hinge", "half_squared_hinge", "huber_hinge")
MOST_BITS, MOST_STEPS = 3000, 100_000
MOST_ROWS = 4000
BLOCK = 64  # steps whose batches are drawn at once
MOST_WORK, STEP_WORK = 10**15, 10**6  # of a verifier: bits times (10^6 + rows times weights) summed over the steps

THEOREM = instance_of(Descent | Logistic | Finite, "`Descent()`, `Logistic()` or `Finite()`")
_OF_THE_RUN = {"step_size": None, "room": 0.0, "rooms": (0.0,)}


def batches_of(run: Run) -> Int[np.ndarray, "steps batch"] | None:
    """Return the rows that every step of a run used, `steps x batch`; `None` for gradient descent.

    >>> from wideproof.data import Dataset
    >>> from wideproof.networks import FullyConnected
    >>> from wideproof.training import Recipe, train
    >>> data = Dataset(np.eye(3), np.array([1.0, -1.0, 1.0]), "binary")
    >>> batches_of(train(FullyConnected(3, 8, 1), data, Recipe(steps=5, batch=2))).shape
    (5, 2)
    """
    n, batch = run.data.n, run.recipe.batch
    if run.batches is not None:
        return np.asarray(run.batches, np.int64)
    if batch is None or batch >= n:
        return None
    key = jax.random.key(run.recipe.seed)
    blocks = [_batches(key, first, n, batch, run.recipe.shuffle) for first in range(0, max(run.step, 1), BLOCK)]
    return np.concatenate([np.asarray(block, np.int64) for block in blocks])[: run.step]


# One program for runs of any length; operation by operation there were six for every length, a second to compile.
@partial(jax.jit, static_argnums=(2, 3, 4))
def _batches(key: jax.Array, first: int, n: int, batch: int, shuffle: bool) -> jax.Array:
    """Return the rows of `BLOCK` steps, from the step `first` on."""

    def rows(step: jax.Array) -> jax.Array:
        return epoch_batch(key, step, n, batch)[0] if shuffle else minibatch(key, step, n, batch)

    return jax.vmap(rows)(first + jnp.arange(BLOCK))


def certify_from_start(
    run: Run,
    theorem: Descent | Logistic | Finite | None = None,
    *,
    careful: bool = False,
    level: Level = "enclosed",
    sharp: bool = False,
    about: Mapping[str, Any] | None = None,
) -> Attempt[Any]:
    r"""Certify what the run's method reaches, started at its initial weights: its steps are followed one by one.

    Theorem 1 has to hold at the run's end with $\rho + (b + s)\,\epsilon$ in place of the residual $\rho$: then it does
    for every start within $\epsilon$, the claimed `distance`, which the exact steps have to reach. The mean logistic
    loss of one output has no minimum: Theorem 3, with the loss $L_0 + b\,\epsilon/\sqrt n$ in place of $L_0$, says how
    far gradient descent takes it from there. With `Finite` only the loss after the last step is claimed, and that every
    example is on the right side, for all networks and the losses squared, logistic, exp_linear, squared_hinge,
    half_squared_hinge and huber_hinge: the distance to the exact steps obeys
    $\varepsilon_{k+1} = G_k \varepsilon_k + \delta_k$.

    Parameters
    ----------
    run
        A run in float64 of gradient descent, or of stochastic gradient descent that gradient descent continues.
    theorem
        What is to hold at the end of the steps: `Descent` or `Logistic`, without the step size and the room, which come
        from the run; or `Finite`. By default what the run's loss says.
    careful
        Ask for more bits: the verifier's growth factors hold on a ball, which must be small enough that they are nearly
        those of its centre (`Growth.flat`). Most runs are verified without it.
    level
        `"enclosed"` bounds every rounding error; `"float64"` is faster and proves nothing. `Finite` needs neither.
    sharp
        Use sharper Lipschitz constants, at the cost of one more pass and some spectral norms for each example.
    about
        Where the run comes from; it is written into the certificate.

    Returns
    -------
    Attempt
        A certificate, or the obstacle.

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
    ALONE["run"]("run", run)
    require_followable(run)
    careful = ALONE["careful"]("careful", careful)
    if theorem is None:
        theorem = Logistic() if lowers(run) else Descent()
    THEOREM("theorem", theorem)
    setting = Setting(Problem(run.network, run.data).at(run.params), level, sharp, {} if about is None else about)
    if isinstance(theorem, Finite):
        return _finish(run, setting, careful)
    given = [name for name, usual in _OF_THE_RUN.items() if getattr(theorem, name, usual) != usual]
    if given:
        raise InputError(f"{', '.join(given)} come{'s' * (len(given) == 1)} from the run: leave that out")
    if isinstance(theorem, Logistic):
        return _lower(run, setting, theorem, careful)
    return _descend(run, setting, theorem, careful)


def _descend(run: Run, setting: Setting, theorem: Descent, careful: bool) -> Attempt[Convergence]:
    """Let Theorem 1 at the run's end begin at its start; or say why it does not hold there."""
    if run.recipe.objective != Objective(SquaredLoss(), "half_sum"):
        raise InputError(
            "a global minimum is certified for half the sum of squares, a lower loss for the logistic loss of one "
            "output: use `Finite` for other losses"
        )
    batches = batches_of(run)
    step_size = run.step_size if batches is None else None
    tried = dataclasses.replace(theorem, step_size=step_size, rooms=ROOMS).prove(setting)
    made, found, anchor = tried.certificate, tried.conclusion, tried.anchor
    if made is None or found is None or anchor is None:
        return tried
    distance = (found.rho - anchor.residual) / (found.b + found.s) * (1 - 1e-9)
    start, obstacle = _start(run, batches, distance, careful=careful)
    if start is None:
        return dataclasses.replace(tried, certificate=None, conclusion=None, obstacle=obstacle)
    return dataclasses.replace(tried, certificate=_begun(run, made, start))


def lowers(run: Run) -> bool:
    """Return whether Theorem 3 covers a run's loss: the mean logistic loss of one output for each example.

    Parameters
    ----------
    run
        The training run.

    Returns
    -------
    bool
        Whether it does.
    """
    one = run.data.task == "binary" and run.network.graph.outputs == 1 and run.network.data_kind != "sequences"
    return one and run.recipe.objective == Objective(LOGISTIC, "mean")


def _lower(run: Run, setting: Setting, theorem: Logistic, careful: bool) -> Attempt[Classified]:
    """Let Theorem 3 at the run's end begin at its start; or say why it does not hold there.

    After SGD gradient descent may have another step size; the same one is tried first.
    """
    if not lowers(run):
        raise InputError("Theorem 3 lowers the mean logistic loss of one output: use `Finite` for other losses")
    batches, size = batches_of(run), run.step_size
    tried = dataclasses.replace(theorem, step_size=size, room=LOSS_ROOM).prove(setting)
    if (tried.conclusion is None or tried.conclusion.descent is None) and batches is not None:
        size = None
        tried = dataclasses.replace(theorem, room=LOSS_ROOM).prove(setting)
    made, found, anchor = tried.certificate, tried.conclusion, tried.anchor
    assert found is not None
    assert anchor is not None
    if made is None or found.descent is None:
        obstacle = no_eigenvalue(anchor, run.data.x) or no_lower_loss(anchor, found.loss, run.data.n, size)
        return Attempt(anchor, None, obstacle)
    start, obstacle = _start(run, batches, found.descent.distance, careful=careful)
    if start is None:
        return Attempt(anchor, None, obstacle)
    return Attempt(anchor, _begun(run, _with_margin(made, found.margin, found.loss), start), None)


def _with_margin(made: Certificate, margin: float, loss: float) -> Certificate:
    """Claim that every example is on the right side after the steps, where that is so by more than they may be off."""
    room = slack(loss)
    return dataclasses.replace(made, claims={**made.claims, "margin": margin - room}) if margin > 2 * room else made


def _begun(run: Run, made: Certificate, start: Start) -> Certificate:
    """Let a certificate begin at the start."""
    summary = (
        f"Claim: {_method(run, start.batches)}, started at the weights that are stored as the start, comes within "
        f"{start.distance:.3g} of these weights in {run.step} steps; from there: "
        f"{made.summary.removeprefix('Claim: ')}"
    )
    return dataclasses.replace(made, summary=summary, start=start)


def enter(run: Run, attempt: Attempt) -> Attempt:
    r"""Extend a certificate about all starts within $d$ of its weights to the initial weights of a run.

    The exact steps have to end within $d$ of these weights: $\|\hat\theta_K - \tilde z\| + \varepsilon_K \le d$.

    Parameters
    ----------
    run
        A run of (stochastic) gradient descent whose end is within $d$ of the weights of `attempt`.
    attempt
        The result of `certify` with `Basin`, `Epochs` or `Sampling` at the polished end of the run.

    Returns
    -------
    Attempt
        The certificate from the run's start, or the obstacle.

    Examples
    --------
    >>> import wideproof as wp
    >>> from wideproof.certificates import Epochs, Problem, certify, polish
    >>> data = wp.prepare(wp.load("digits", classes=(0, 1), limit=12), "whiten,unit")
    >>> network = wp.build("fully-connected", data.input_shape, data.target_shape, width=64, depth=1)
    >>> run = wp.train(network, data, wp.Recipe(steps=100, batch=4, step_size=0.1))
    >>> near = polish(network, run.params, data.x, data.y).params
    >>> enter(run, certify(Problem(network, data).at(near), Epochs(4))).certificate.start.steps
    100
    """
    require_followable(run)
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


def _finish(run: Run, setting: Setting, careful: bool) -> Attempt[None]:
    """Claim the loss after the run's last step."""
    network, data, objective, weights = run.network, run.data, run.recipe.objective, setting.params
    outputs = network.scored(np.asarray(network(weights, data.x), np.float64)).reshape(data.n, -1)
    y = network.scored(data.y).reshape(data.n, -1)
    batches = batches_of(run)
    loss = float(objective.value(jnp.asarray(outputs), jnp.asarray(y)))
    steep = float(np.abs(growth.slopes(objective, outputs, y)).sum()) / (data.n if objective.reduction == "mean" else 1)
    start, obstacle = _start(run, batches, 1e-7, slack(loss) / max(steep, 1e-300), careful)
    if start is None:
        return Attempt(None, None, obstacle)
    labelled = data.task != "regression" and network.data_kind != "sequences"
    claims = claims_of(loss, margin_of(outputs, y) if labelled else -math.inf)
    summary = (
        f"Claim: {_method(run, batches)}, started at the weights that are stored as the start, has a loss of at most "
        f"{claims['loss']:.6g} on {data.name} ({data.n} examples) after {run.step} steps"
        f"{', and every example is on the right side' if 'margin' in claims else ''}."
    )
    here = {"anchor": "the trained weights", "seed": run.recipe.seed, "steps": run.step, "step_size": run.step_size}
    if run.batches is not None:  # no seed made them
        del here["seed"]
    known = {key: value for key, value in setting.about.items() if key in ("data", "digest")}
    made = setting.certificate(
        "finite", claims, summary, level="float64", sharp=False, about={**known, **here, **setting.about},
        loss={"name": objective.loss.name, "reduction": objective.reduction}, start=start,
    )  # fmt: skip
    return Attempt(None, made, None)


def _method(run: Run, batches: Int[np.ndarray, "steps batch"] | None) -> str:
    if batches is None:
        return f"gradient descent with step size {run.step_size:.4g}"
    return (
        f"stochastic gradient descent with step size {run.step_size:.4g} and the stored batches of {run.recipe.batch}"
    )


def require_followable(run: Run) -> None:
    """Raise an error if the steps of a run cannot be followed.

    Parameters
    ----------
    run
        The training run.
    """
    recipe = run.recipe
    if run.step < 1:
        raise InputError("the run has taken no step: its start is its end, which `certify` is about")
    if run.status is Status.DIVERGED:
        raise InputError(
            f"the run diverged after {run.step} steps: use a smaller step size, such as {run.smaller_step_size():.4g}"
        )
    if reason := _other_method(run):
        raise InputError(reason)
    if recipe.loss not in FOLLOWED:
        raise InputError(f"the loss {recipe.loss!r} is not followed: use one of {', '.join(FOLLOWED)}")
    if recipe.precision != "float64":
        raise InputError("the steps of a float32 run are not close enough to exact ones: train in float64")
    if run.step > MOST_STEPS:
        raise InputError(
            f"the run has {run.step} steps, and at most {MOST_STEPS} are followed: certify its end instead"
        )


def _other_method(run: Run) -> str | None:
    """Say what of a run's method no theorem covers; `None` if it is all covered."""
    recipe, n = run.recipe, run.data.n
    if recipe.optimizer != "plain":
        return f"the steps of {recipe.optimizer!r} are not followed: train with the optimizer 'plain'"
    if recipe.decay:
        return "the steps of a run with weight decay are not followed: train with weight_decay=0"
    if recipe.weighted:
        return "the steps of a run with weights of examples or classes are not followed: train without them"
    factors = recipe.factors
    if factors is not None and (factors[: run.step] != 1).any():
        first = int(np.flatnonzero(factors != 1)[0])
        return (
            "a certificate holds one step size for all steps, and the schedule of this run changes it at step "
            f"{first}: train with schedule='constant', or stop before"
        )
    if run.batches is None and recipe.shuffle and recipe.batch is not None and recipe.batch < n and n % recipe.batch:
        return (
            f"a certificate holds batches of one size, and with {n} examples in batches of {recipe.batch} the last "
            "batch of every epoch is shorter: train with a batch size that divides the number of examples"
        )
    return None


def _start(
    run: Run,
    batches: Int[np.ndarray, "steps batch"] | None,
    distance: float,
    outputs: float = math.inf,
    careful: bool = False,
) -> tuple[Start | None, Obstacle | None]:
    """Return the start with its hints, or what is in the way; outputs at the end may be off by `outputs`."""
    network, data = run.network, run.data
    y = network.scored(data.y)
    rows = y.size if batches is None else y.size // data.n * batches.shape[1]
    if rows > MOST_ROWS:
        reason = f"the Jacobian of a step has {rows} rows, and at most {MOST_ROWS} are followed"
        return None, Obstacle("rows", rows, MOST_ROWS, reason, ("use smaller batches", "use fewer examples"))
    initial = {name: np.asarray(weight, np.float64) for name, weight in run.initial.items()}
    args = (network.graph, initial, data.x, y, run.recipe.objective, run.step_size, run.step, batches)
    found = growth.follow(*args)

    def needed(found: growth.Growth) -> Float[np.ndarray, "steps"]:
        room = min(distance, found.nearest / 16, outputs / found.reach, found.flat if careful else math.inf)
        return found.to_go() + math.log2(2 * run.step / room) + SPARE if room > 0 else np.full(run.step, math.inf)

    bits = needed(found)
    if bits.max() > costs.DOUBLED and not network.graph.kinked and len(tables.begins(network.graph.unrolled)) > 1:
        used = data.n if batches is None else batches.shape[1]
        taken = costs.seconds_to_follow(network.graph, initial, used, bits)
        if costs.table_seconds(network.graph, initial, used) < taken:  # one at least
            closer = growth.follow(*args, tabled=True)
            less = needed(closer)
            other = costs.seconds_to_follow(network.graph, initial, used, less)
            other += costs.tables_seconds(network.graph, initial, closer.tables, run.step, data.n, batches)
            found, bits = (closer, less) if other < taken else (found, bits)
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
    return Start(initial, run.step_size, run.step, batches, tuple(np.ceil(bits).tolist()), distance, found.tables), None
