"""The four figures of a proof: loss, proof ratio, spectrum, distance.

Each function returns a figure, or `None` where the proof lacks what it shows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wideproof.report.figures import label_plainly
from wideproof.report.proof_words import counted, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from wideproof.proving import Proof

# The report's dark mode exchanges these colours by name (`html.THEMED`).
RUN, EXPECTED, POLISHED, PROVEN, TEXT = "#1f4e79", "#b5541c", "#8a4f9e", "#1b7f4b", "#3d434b"
WIDTH = 5.4  # inches; with this font readable on a phone, and not coarse on a desk
STYLE = {
    "font.size": 9.5, "axes.titlesize": 9.5, "axes.labelsize": 9.5, "legend.fontsize": 8.5, "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5, "axes.titlelocation": "left", "axes.edgecolor": TEXT, "axes.labelcolor": TEXT,
    "text.color": TEXT, "xtick.color": TEXT, "ytick.color": TEXT, "axes.titlecolor": TEXT, "grid.color": TEXT,
    "grid.alpha": 0.16, "axes.grid": True, "axes.spines.top": False, "axes.spines.right": False,
    "legend.frameon": True, "legend.framealpha": 0.0, "legend.edgecolor": "none",
}  # fmt: skip
_DECADES = 3  # of the residual, that the proven bound is drawn for
LARGEST = 1e60  # a proof ratio above this is rounding in an eigenvalue of zero


class Drawn(NamedTuple):
    """A figure with the sentence that goes below it."""

    title: str
    figure: Figure
    caption: str


def _styled(function: Callable[[Proof], Figure | None]) -> Callable[[Proof], Figure | None]:
    """Draw in the report's style, whatever the user's own one is."""

    @wraps(function)
    def drawn(proof: Proof) -> Figure | None:
        import matplotlib

        with matplotlib.rc_context(STYLE):  # pyright: ignore[reportArgumentType]
            return function(proof)

    return drawn


@_styled
def loss_figure(proof: Proof) -> Figure | None:
    """Draw the loss from the start of training to what is proven to come, a panel a stage.

    Training with the course that the Gram matrix at the start predicts; polishing, a point a Gauss-Newton step; then
    the proven bound of gradient descent from the anchor on. Polishing falls so far that training gets its own axis.
    """
    run, polished, found = proof.run, proof.polished, proof.attempt.descent
    squared = run is None or run.recipe.loss == "squared"  # another loss has another axis than the theorem's
    stages: list[tuple[float, Callable[[Axes, Proof], None]]] = []
    if run is not None and len(run.steps):
        stages.append((2.6, _draw_training))
    if squared and polished is not None and polished.steps:
        stages.append((1.2, _draw_polishing))
    if squared and found is not None:
        stages.append((2.0, _draw_bound))
    if not stages:
        return None
    figure, panels = _panels(3.2, [width for width, _ in stages])
    apart = _draw_polishing in (stage for _, stage in stages) and stages[0][1] is _draw_training
    for k, (axes, (_, stage)) in enumerate(zip(panels, stages, strict=True)):
        if k > (1 if apart else 0):
            axes.sharey(panels[k - 1])
            axes.tick_params(labelleft=False)
        axes.set_yscale("log")
        stage(axes, proof)
    if stages[0][1] is _draw_training:
        _decades(panels[0])
    if stages[-1][1] is _draw_bound:
        _fill_below(panels[-1])
    name = "squared, half sum" if squared or run is None else f"{run.recipe.loss}, mean"
    above = f" above the least, {shown(proof.groups.least_loss[0], 4)}" if proof.groups.least else f" ({name})"
    panels[0].set_ylabel(f"training loss{above}")
    return figure


@_styled
def tube_figure(proof: Proof) -> Figure | None:
    """Draw how far exact gradient descent can be from the verifier's points, step by step, and with how many bits."""
    start, verdict = proof.start, proof.verdict
    if start is None or verdict is None or not verdict.course:
        return None
    off, bits, _, _ = (np.array(column) for column in zip(*verdict.course, strict=True))
    figure, (axes,) = _panels(2.9, [1.0])
    steps = np.arange(1, len(off) + 1)
    axes.plot(*_positive(steps, off), color=PROVEN, lw=1.2)
    looks = {53: (RUN, "float64"), 100: (POLISHED, "double-double")}
    for used in np.unique(bits):
        colour, name = looks.get(int(used), (EXPECTED, f"balls of {used} bits"))
        axes.plot(steps[bits == used], off[bits == used], "o", color=colour, ms=3, label=f"followed in {name}")
    axes.axhline(start.distance, color=PROVEN, lw=1.2, ls="--", label="what the theorem allows at the end")
    axes.set_yscale("log")
    _steps(axes, len(off))
    axes.set_ylabel("distance to exact gradient descent")
    axes.legend(loc="lower right")
    return figure


@_styled
def ratio_figure(proof: Proof) -> Figure | None:
    """Draw the proof ratio h along the training, at the anchor, and the line ½ below which one constant suffices."""
    known = [ratio for ratio in proof.ratios if 0 < ratio.h < LARGEST]
    last = proof.attempt.h
    anchored = proof.attempt.anchor is not None and 0 < last < LARGEST
    if not known:
        return None
    figure, (axes,) = _panels(2.9, [1.0])
    axes.axhline(0.5, color=PROVEN, lw=1.2, ls="--", label="h = ½: provable below")
    axes.plot([r.step for r in known], [r.h for r in known], "o-", color=RUN, ms=3.5, lw=1.6, label="h during training")
    values = [0.5, *(ratio.h for ratio in known)]
    if anchored:
        moved = proof.polished is not None and proof.polished.steps > 0
        name = (
            f"h = {shown(last, 3)} {'after polishing' if moved else 'at the start' if proof.before else 'at the end'}"
        )
        end = proof.run.step if proof.run is not None else known[-1].step
        if proof.before:
            end = 0
        else:
            axes.plot([known[-1].step, end], [known[-1].h, last], color=POLISHED, lw=1.2, ls=":")
        axes.plot([end], [last], "D", color=POLISHED, ms=6, label=name, clip_on=False, zorder=4)
        values.append(last)
    _steps(axes, proof.run.step if proof.run is not None else known[-1].step)
    axes.set_yscale("log")
    axes.axhspan(min(values) / 8, 0.5, color=PROVEN, alpha=0.09, lw=0)
    axes.set_ylim(min(values) / 8, max(values) * 8)
    axes.set_ylabel("proof ratio  h = Λρ / s²")
    axes.legend(loc="best")
    return figure


@_styled
def spectrum_figure(proof: Proof) -> Figure | None:
    """Draw the eigenvalues of the Gram matrix at the start and at the end, from the largest down."""
    from matplotlib.ticker import MaxNLocator

    looks = {"start": (EXPECTED, "--", "at the start"), "end": (RUN, "-", "at the end")}
    found = [(name, np.sort(proof.eigenvalues[name])[::-1]) for name in looks if name in proof.eigenvalues]
    found = [(name, values) for name, values in found if (values > 0).any()]
    if not found:
        return None
    figure, (axes,) = _panels(2.9, [1.0])
    for name, values in found:
        colour, dash, label = looks[name]
        marker = "." if len(values) <= 100 else ""
        drawn = np.where(values > 0, values, np.nan)
        least = shown(float(values[-1]), 3) if values[-1] > 0 else "not positive"
        axes.plot(np.arange(1, len(values) + 1), drawn, color=colour, ls=dash, marker=marker, ms=4, lw=1.5,
                  label=f"{label}: smallest {least}", zorder=4 if name == "start" else 3)  # fmt: skip
    axes.set_yscale("log")
    _decades(axes)
    axes.margins(x=0.02)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("eigenvalue, from the largest")
    axes.set_ylabel("eigenvalue of G")
    axes.legend(loc="best")
    return figure


@_styled
def distance_figure(proof: Proof) -> Figure | None:
    """Draw how far the weights went from their start, beside what polishing added and what may still come."""
    moved = [(ratio.step, ratio.moved) for ratio in proof.ratios]
    lengths = _lengths(proof)
    if not lengths and len(moved) < 2:
        return None
    figure, panels = _panels(2.8, [1.0] * (len(moved) > 1) + [1.25] * bool(lengths))
    if len(moved) > 1:
        panels[0].plot(*zip(*moved, strict=True), "o-", color=RUN, ms=3.5, lw=1.6)
        _steps(panels[0], moved[-1][0])
        panels[0].set_ylim(bottom=0)
        panels[0].set_ylabel("distance from the start")
    if lengths:
        _draw_lengths(panels[-1], lengths)
    return figure


def _loss_caption(proof: Proof) -> str:
    parts = ["The training loss on a logarithmic axis."]
    if proof.groups.least:
        parts = ["The training loss above the least one that any function of these inputs has, on a logarithmic axis."]
    if proof.predicted is not None:
        parts.append("Dashed: what the Gram matrix at the start predicts for a network that barely moves.")
    polished = proof.polished is not None and proof.polished.steps > 0
    if polished:
        parts.append(
            "Polishing takes a few Gauss-Newton steps to fit the examples down to rounding; it has an axis of its own."
        )
    if proof.proved:
        told = "at every step from the first, without end, the loss is on or below the line."
        if proof.start is None and not proof.before:
            told = "from there on, with the certified step size, it stays on or below the line."
        parts.append(f"Green is a theorem: {told}")
        if polished:
            parts.append("It begins above the last point because every rounding error is allowed for.")
    return " ".join(parts)


def _ratio_caption(proof: Proof) -> str:
    stairs = " Here it holds above ½ as well, with a finer bound: Λ on many radii instead of one."
    return (
        "The proof ratio h = Λρ/s² compares the error that is left (ρ) with how well the network can still reduce it "
        "(s) and with how fast that may change (Λ). Below ½ the theorem applies."
        f"{stairs if proof.proved and proof.attempt.h >= 0.5 else ''}"
    )


def _distance_caption(proof: Proof) -> str:
    still = " The certified radius bounds all that gradient descent will ever move from there on, however long it runs."
    return f"Euclidean distances in the space of all trained weights.{still if proof.proved else ''}"


_FIGURES: dict[str, tuple[str, Callable[[Proof], Figure | None], Callable[[Proof], str]]] = {
    "loss": ("The loss, from the first step on", loss_figure, _loss_caption),
    "tube": ("Every step from the start, followed", tube_figure, lambda _: (
        "The verifier takes the steps of training again from the stored start and bounds, after each, how far gradient "
        "descent without any rounding can be from its own point. An error made at one step may grow in the later ones; "
        "early steps are computed with more bits where that is needed."
    )),
    "ratio": ("How close the proof is", ratio_figure, _ratio_caption),
    "spectrum": ("Whether every example can be fitted", spectrum_figure, lambda _: (
        "The eigenvalues of the Gram matrix G = JJᵀ say how fast each combination of errors shrinks. The proof needs "
        "the smallest one to be positive: then every example can be moved independently of the others."
    )),
    "distance": ("How far the weights move", distance_figure, _distance_caption),
}  # fmt: skip


def draw(proof: Proof) -> dict[str, Drawn]:
    """Return the figures that this proof has, by name, in the order of the report."""
    import matplotlib

    found = {}
    for name, (title, function, caption) in _FIGURES.items():
        with np.errstate(over="ignore"):  # Matplotlib tries limits far outside of a logarithmic axis
            figure = function(proof)
            if figure is None:
                continue
            label_plainly(figure)
            figure.draw_without_rendering()
            # The places of axes are found once, not for every file; no engine, or each file would be drawn twice.
            with matplotlib.rc_context({"figure.autolayout": False, "figure.constrained_layout.use": False}):
                figure.set_layout_engine(None)
        found[name] = Drawn(title, figure, caption(proof))
    return found


def _panels(height: float, widths: list[float]) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    return figure, list(figure.subplots(1, len(widths), squeeze=False, gridspec_kw={"width_ratios": widths})[0])


def _steps(axes: Axes, last: float) -> None:
    """Make the horizontal axis one of training steps, logarithmic but with a place for step 0."""
    axes.set_xscale("symlog", linthresh=1, linscale=0.4)
    axes.set_xlim(-0.15, max(last, 1) * 1.25)
    axes.xaxis.set_major_formatter(lambda value, _: shown(int(value) if value < 1e5 else value, 2))
    axes.set_xlabel("training step")


def _decades(axes: Axes) -> None:
    """Let the logarithmic axis end at powers of ten, and label nothing else."""
    from matplotlib.ticker import NullFormatter

    low, high = np.log10(axes.get_ylim())
    axes.set_ylim(10.0 ** np.floor(low), 10.0 ** np.ceil(high))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _positive(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.asarray(x, float), np.asarray(y, float)
    good = np.isfinite(y) & (y > 0)
    return x[good], y[good]


def _draw_training(axes: Axes, proof: Proof) -> None:
    run = proof.run
    assert run is not None
    # In the units of the theorem: the mean of the squared loss times n is the half sum.
    scale = proof.data.n if run.recipe.loss == "squared" and run.recipe.objective.reduction == "mean" else 1
    least = proof.groups.least_loss[0]  # what no function is below: the theorem is about the rest
    steps, losses = _positive(run.steps, scale * run.records["loss"] - least)
    axes.plot(steps, losses, color=RUN, lw=1.9, label="loss")
    if proof.proved and proof.start is not None and proof.start.batches is None and proof.verdict is not None:
        bound = 0.5 * np.square([row[3] for row in proof.verdict.course]) - least
        axes.plot(*_positive(np.arange(len(bound)), bound), color=PROVEN, lw=3.6, alpha=0.45, zorder=1,
                  label="proven bound")  # fmt: skip
    found = proof.attempt.descent
    if proof.proved and proof.before and found is not None:
        axes.plot(*_positive(run.steps, found.bound(run.steps)), color=PROVEN, lw=3.6, alpha=0.45, zorder=1,
                  label="proven bound")  # fmt: skip
    if proof.predicted is not None:
        steps, predicted = _positive(proof.predicted[0], scale * np.asarray(proof.predicted[1], float) - least)
        near = predicted > losses.min(initial=np.inf) / 1e4  # what it predicts far below the run says nothing more
        axes.plot(steps[near], predicted[near], color=EXPECTED, lw=1.3, ls="--", label="predicted at the start")
    axes.set_title(f"training, {counted(run.step, 'step')}")
    _steps(axes, run.step)
    axes.legend(loc="lower left")


def _draw_polishing(axes: Axes, proof: Proof) -> None:
    polished = proof.polished
    assert polished is not None
    steps, losses = _positive(np.arange(polished.steps + 1), 0.5 * np.square(polished.residuals))
    axes.plot(steps, losses, "o--", color=POLISHED, ms=4, lw=1.2)
    axes.set_xlim(-0.5, polished.steps + 0.5)
    axes.set_xticks([0, polished.steps])
    axes.set_title("polishing")
    axes.set_xlabel("step")


def _draw_bound(axes: Axes, proof: Proof) -> None:
    found = proof.attempt.descent
    assert found is not None
    far = float(f"{max(1.25 * found.steps, _DECADES * np.log(10) / found.rate, 1.0):.1e}")
    steps = np.linspace(0, far, 200)
    axes.plot(*_positive(steps, found.bound(steps)), color=PROVEN, lw=2.2)
    axes.set_xlim(0, far)
    axes.set_xticks([0, far], ["0", shown(int(far) if far < 1e5 else far, 2)])
    axes.get_xticklabels()[-1].set_horizontalalignment("right")
    axes.set_title("proven bound" if proof.proved else "bound, if verified")
    axes.set_xlabel("training step" if proof.before else "steps from there on")
    if found.steps:
        axes.plot([found.steps], [found.bound(found.steps)], "o", color=PROVEN, ms=5)
        text = f"≤ {shown(found.epsilon, 2)} after\n{counted(found.steps, 'step')}"
        axes.annotate(text, (found.steps, found.epsilon), (0.97, 0.97), textcoords="axes fraction", ha="right",
                      va="top", fontsize=8.5,
                      arrowprops={"arrowstyle": "-", "color": TEXT, "lw": 0.7, "shrinkB": 4})  # fmt: skip


def _fill_below(axes: Axes) -> None:
    """Fill under the first line, down to the lower end of the axis as it is."""
    low, high = axes.get_ylim()
    x, y = (np.asarray(values, float) for values in axes.lines[0].get_data())
    axes.fill_between(x, y, low, color=PROVEN, alpha=0.14, lw=0)
    axes.set_ylim(low, high)


def _lengths(proof: Proof) -> list[tuple[str, float, str]]:
    """Return the distances to compare, each with its colour."""
    found = []
    if proof.run is not None:
        trained = [proof.run.initial[name] for name in proof.network.trained_names]
        size = float(np.sqrt(sum(float(np.sum(np.square(np.asarray(weight, float)))) for weight in trained)))
        found.append((proof.given or "initial weights", size, TEXT))
    if proof.ratios:
        found.append(("moved by training", proof.ratios[-1].moved, RUN))
    if proof.polished is not None and proof.polished.steps:
        found.append(("moved by polishing", proof.polished.moved, POLISHED))
    if proof.attempt.descent is not None:
        still = "may move in all, at most" if proof.before else "may still move, at most"
        found.append((still, proof.attempt.descent.radius, PROVEN))
    return [(name, value, colour) for name, value, colour in found if 0 < value < np.inf]


def _draw_lengths(axes: Axes, lengths: list[tuple[str, float, str]]) -> None:
    low, high = min(value for _, value, _ in lengths), max(value for _, value, _ in lengths)
    places = np.arange(len(lengths))[::-1]
    floor = low / max(3.0, (high / low) ** 0.15)
    for place, (name, value, colour) in zip(places, lengths, strict=True):
        axes.plot([floor, value], [place, place], color=colour, lw=3, solid_capstyle="butt")
        axes.plot([value], [place], "o", color=colour, ms=6)
        axes.annotate(f"{name}: {shown(value, 3)}", (0, place), (3, 8), xycoords=("axes fraction", "data"),
                      textcoords="offset points", fontsize=8.5)  # fmt: skip
    axes.set_xscale("log")
    axes.set_xlim(floor, high * max(2.0, (high / low) ** 0.06))
    axes.set_ylim(-0.5, len(lengths) - 0.2)
    axes.set_yticks([])
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("length (log scale)")
