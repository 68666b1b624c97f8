r"""Appendix C.1: how far a recurrent network moves forward when its matrix moves by $\|W'\|_2 \le \tau_0 / \sqrt m$."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from wideproof.monitors.recurrent import Unrolled
from wideproof.papers.allenzhu2018.attacked import CHOICES, KINDS, Shift, draws, every_shift, largest, perturbation
from wideproof.papers.allenzhu2018.joint import STABLE
from wideproof.papers.allenzhu2018.lab import Lab
from wideproof.papers.check import Check, at_most, conclude, identity, scales, sides
from wideproof.papers.statement import Section, misprint
from wideproof.papers.study import kept

statement = Section("perturbation", "rnn")


@statement(
    "Perturbing W by τ0/√m in spectral norm: states, masks and flipped values change little, for every such W'", "scale"
)
def lemma_c_2(lab: Lab) -> Check:
    r"""Forward stability: changes of size $\tau_0/\sqrt m$ in $W$ move states little and flip few units."""
    return conclude(
        STABLE.check(lab, "C.2a", "C.2b", "C.2c"),
        lemma_c_2_a(lab),
        lemma_c_2_b(lab),
        lemma_c_2_c(lab),
        title="forward stability",
    )


@statement("‖g'‖ and ‖h'‖ are at most O(L⁶τ0/√m) for every sample and time", "scale")
@misprint("the proof's constants carry a further log m")
def lemma_c_2_a(lab: Lab) -> Check:
    r"""Pre-activations and states move by $\|g'_{i,\ell}\|, \|h'_{i,\ell}\| \le O(L^6 \tau_0 / \sqrt m)$."""
    printed = {"m": -0.5, "τ0": 1.0, "L": 6.0}
    return conclude(
        STABLE.check(lab, "C.2a"),
        *exponents(lab, "‖g'‖", lambda seen: seen.values, printed),
        *exponents(lab, "‖h'‖", lambda seen: seen.hidden, printed),
        title="pre-activations and states move O(L⁶τ0/√m)",
        assumptions=CHOICES,
    )


@statement("Units that change sign at one sample and time: at most O(L^(10/3)τ0^(2/3)m^(2/3))", "scale")
def lemma_c_2_b(lab: Lab) -> Check:
    r"""At most $\|D'_{i,\ell}\|_0 \le O(L^{10/3} \tau_0^{2/3}) m^{2/3}$ units change sign."""
    return conclude(
        STABLE.check(lab, "C.2b"),
        *exponents(lab, "flips", lambda seen: seen.flips, {"m": 2 / 3, "τ0": 2 / 3, "L": 10 / 3}),
        title="flips are O(L^(10/3) τ0^(2/3) m^(2/3))",
        assumptions=CHOICES,
    )


@statement("The perturbed values of units that changed sign: ‖D'g‖ at most O(L⁵τ0/√m)", "scale")
def lemma_c_2_c(lab: Lab) -> Check:
    r"""Flipped pre-activations stay small: $\|D'_{i,\ell} g_{i,\ell}\| \le O(L^5 \tau_0 / \sqrt m)$.

    A unit that changes sign is past zero by no more than it moved, so that $|(D' g)_k| \le |g'_k|$ for every $k$.
    """
    name = "‖D'g‖"
    by_width = exponents(lab, name, lambda seen: seen.flipped, {"m": -0.5, "L": 5.0})
    by_radius = exponents(lab, f"{name}, one unit pushed", lambda seen: seen.flipped, {"τ0": 1.0}, ("push",))
    excess = max(seen.excess for seen in every_shift(lab))
    return conclude(
        STABLE.check(lab, "C.2c"),
        *by_width,
        *by_radius,
        at_most("|(D'g)_k| - |g'_k| <= 0", excess, 0.0),
        title="flipped pre-activations have norm O(L⁵τ0/√m)",
        assumptions=CHOICES,
    )


@statement(
    "One time step of g': the new weights, the changed masks, and the change carried over, added up exactly", "exact"
)
def eq_c_2(lab: Lab) -> Check:
    r"""One step.

    $$ g'_\ell = W' D_{\ell-1} g_{\ell-1} + \tilde W D'_{\ell-1} g_{\ell-1} + \tilde W \tilde D_{\ell-1} g'_{\ell-1} $$
    """
    before, after, change = moved(lab)
    direct, masks = steps(before, after, change)
    carried = (before.mask * (after.g - before.g))[:, :-1] @ before.W.T
    title = "g' = W'Dg + W̃D'g + W̃D̃g'"
    return conclude(identity(title, (after.g - before.g)[:, 1:], direct + masks + carried), assumptions=(FLIPPING,))


@statement("g' unrolled over all earlier times, exactly", "exact")
@misprint(
    "a first part g'_1 stands between the two sides of the printed equation; it is defined later and is not "
    "equal to either"
)
def eq_c_3(lab: Lab) -> Check:
    r"""Unrolled.

    $$ g'_\ell = \sum_{j=1}^{\ell-1} (\tilde W \tilde D_{\ell-1} \cdots \tilde W \tilde D_{\ell-j+1}) (z_{\ell-j,1} +
       z_{\ell-j,2}) $$

    $z_{\ell,1} = W' D_\ell g_\ell$ and $z_{\ell,2} = \tilde W D'_\ell g_\ell$.
    """
    before, after, change = moved(lab)
    title = "g' at the last time, unrolled"
    return conclude(
        identity(title, (after.g - before.g)[:, -1], unrolled(before, after, change)), assumptions=(FLIPPING,)
    )


@statement("The direct term: ‖W'Dg‖ at most (τ0/√m)(4l + 8 + a small part)", "bound")
def claim_c_3(lab: Lab) -> Check:
    r"""The fresh term is short.

    $$ \|W' D_{\ell-1} g_{\ell-1}\| \le \tfrac{\tau_0}{\sqrt m} (4\ell + 8 + \tfrac{\tau_1+\tau_2}{\sqrt m}) $$
    """
    first = np.concatenate([seen.first for seen in every_shift(lab)], axis=1)
    title = "‖W'Dg‖ <= (τ0/√m)(4l + 8 + ‖g'‖)"
    return conclude(
        at_most(title, first[0], first[1]),
        assumptions=(*CHOICES, "the whole of g' is the part bounded in norm: τ1 = √m ‖g'‖, τ2 = 0"),
    )


SPLITS = (0.003, 0.01, 0.03, 0.1, 1.0)


@statement(
    "A change that is short, or small in every entry, flips at most 10τ1^(2/3)m^(2/3) units, with ‖D'g‖ at most 3τ1/√m",
    "bound",
)
def claim_c_4(lab: Lab) -> Check:
    r"""If $g'$ splits into $\|g'_1\| \le \tau_1/\sqrt m$ and $\|g'_2\|_\infty \le \tau_2/m$, then few units flip.

    $\|D' g\| \le 3 \tau_1 / \sqrt m$ and $\|D'\|_0 \le 10 \tau_1^{2/3} m^{2/3}$. The best adversary for the count moves
    the units closest to zero: those within $\tau_2/m$ for nothing, the others at $(|g_k| - \tau_2/m)^2$ each. The best
    one for the norm adds all of $g'_1$ along what $g'_2$ has flipped. Both are applied to the network's own
    pre-activations.
    """
    counts, norms, spread = [], [], []
    width = lab.widths[-1]
    for seed in draws(lab):
        values = lab.start(width, lab.length, seed).seen.g[:, 1:].reshape(-1, width)
        for tau in SPLITS:
            reach = tau ** (2 / 3) / (10 ** (1 / 3) * width ** (5 / 6))  # the ξ of the proof, the largest τ2/m
            sizes = np.sort(np.abs(values), axis=1)
            beyond = np.maximum(sizes - reach, 0)
            counts.append(((np.cumsum(beyond**2, axis=1) <= tau**2 / width).sum(axis=1), 10 * (tau * width) ** (2 / 3)))
            free = np.linalg.norm(np.maximum(reach - sizes, 0), axis=1)
            norms.append((free + tau / np.sqrt(width), 3 * tau / np.sqrt(width)))
            spread.append(((sizes <= 2 * reach).sum(axis=1), 10 * reach * width**1.5))
    return conclude(
        at_most("flips <= 10 τ1^(2/3) m^(2/3)", *sides(counts)),
        at_most("‖D'g‖ <= 3 τ1/√m", *sides(norms)),
        title="a split change flips few units",
        hypotheses=(at_most("pre-activations within 2ξ of zero <= 10 ξ m^(3/2)", *sides(spread)),),
        assumptions=(f"τ1 in {SPLITS}, τ2 as large as the proof allows",),
    )


@statement(
    "The image of a short sparse vector under the start's products: a part of small norm plus a part of small entries",
    "bound",
)
def claim_c_5(lab: Lab) -> Check:
    r"""Short sparse vectors are spread out: $y = \tilde W \tilde D_\ell \cdots \tilde D_b \tilde W x$ splits into $y_1
    + y_2$.

    For $\|x\|_0 \le \tau_4 m^{2/3}$ and $\|x\| \le \tau_5/\sqrt m$: $\|y_1\| \le 3 \tau_5 \sqrt{\tau_4} \log^2 m /
    m^{2/3}$ and $\|y_2\|_\infty \le 4 \tau_5 \log m / m$. The best split clips $y$; the worst $x$ is climbed to from
    single units, rows and random places.
    """
    found, width = [], lab.width
    for seed in draws(lab)[: lab.pick(2, 4, 8)]:
        seen = lab.start(width, lab.length, seed).seen
        for low in range(1, lab.length):
            image = seen.W @ seen.matrix(0, low, lab.length - 1)
            for share in (0.25, 1.0, 4.0):
                rest = _largest_rest(image, int(share * width ** (2 / 3)), lab.rng("sparse", seed))
                found.append((rest, 3 * np.sqrt(share) * np.log(width) ** 2 / width ** (1 / 6)))
    return conclude(
        at_most("‖y1‖ after clipping", *sides(found)),
        assumptions=("x of norm 1 with τ4 m^(2/3) entries, τ4 = 1/4, 1, 4; the largest rest is found by climbing",),
        title="short sparse vectors map to a short part and a part of small entries",
    )


@statement("That split for D'g, the values of units that changed sign", "bound")
@misprint("indices of the printed product do not match; the flipped vector of time l meets the masks from l + 1 on")
def claim_c_6(lab: Lab) -> Check:
    r"""The same split for $x = D' g$, the flipped part of the perturbed pre-activations."""
    found, width = [], lab.width
    for kind in KINDS:
        for seed in draws(lab)[:3]:
            start = lab.start(width, lab.length, seed)
            after = start.at(perturbation(lab, kind, start, 2.0, seed)).seen
            for time in range(2, lab.length):
                x = (after.mask != start.seen.mask)[0, time - 1] * after.g[0, time - 1]
                size, count = float(np.linalg.norm(x)), int(np.count_nonzero(x))
                if not count:
                    continue
                y = start.seen.W @ start.seen.product(0, time + 1, lab.length - 1, x)
                clip = 4 * size * np.log(width) / np.sqrt(width)
                limit = 3 * size * np.sqrt(count / width) * np.log(width) ** 2
                found.append((np.linalg.norm(y - np.clip(y, -clip, clip)), limit, np.abs(y).max() / clip))
    rests, limits, entries = sides(found)
    return conclude(
        at_most("‖y1‖ <= 3 ‖x‖ √(‖x‖₀/m) log²m", rests, limits),
        title="the flipped part maps to a short part and a part of small entries",
        assumptions=(
            "the split clips at 4 ‖x‖ log m/√m, with the measured ‖D'g‖ and ‖D'‖₀ for τ5/√m and τ4 m^(2/3)",
            f"largest entry over the clip {entries.max():.2f}",
        ),
    )


FLIPPING = "W' Gaussian with τ0 = 4, so that units flip at every time"


@kept
def moved(lab: Lab) -> tuple[Unrolled, Unrolled, np.ndarray]:
    """Return a start, the network after a perturbation that flips units at every time, and that perturbation."""
    start = lab.start(256, 5, 0)
    change = perturbation(lab, "random", start, 4.0, 0)
    return start.seen, start.at(change).seen, change


def steps(before: Unrolled, after: Unrolled, change: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""Return $z_{\ell,1} = W' D_\ell g_\ell$ and $z_{\ell,2} = \tilde W D'_\ell g_\ell$ for $\ell = 1..L-1$."""
    masks = after.mask.astype(float) - before.mask
    return after.h[:, :-1] @ change.T, (masks * after.g)[:, :-1] @ before.W.T


def unrolled(before: Unrolled, after: Unrolled, change: np.ndarray, masks: bool = True) -> np.ndarray:
    r"""Return the unrolled sum for $g'_L$, literally; without `masks` the terms $z_2$ are left out."""
    direct, flipped = steps(before, after, change)
    terms = direct + flipped if masks else direct
    total = np.zeros_like(before.g[:, -1])
    for back in range(1, before.length):
        z = terms[:, before.length - back - 1]
        for time in range(before.length - back + 1, before.length):
            z = (before.mask[:, time - 1] * z) @ before.W.T
        total += z
    return total


def exponents(
    lab: Lab, name: str, measure: Callable[[Shift], float], printed: dict[str, float], kinds: Sequence[str] = KINDS
) -> list[Check]:
    """Compare the exponents of a quantity, at its worst over attacks, with the printed ones."""
    found = largest(lab, measure, kinds, tuple(printed))
    return [scales(f"{name} in {variable}", variable, *found[variable], s) for variable, s in printed.items()]


def against_radius(lab: Lab, name: str, measure: Callable[[Shift], float], printed: float) -> Check:
    r"""Compare a bound $\sqrt m\, (\tau_0/\sqrt m)^s$, $\tau_0 \le \sqrt m$: the exponent of $\tau_0/\sqrt m$ is at
    least $s$.
    """
    found = largest(lab, measure, KINDS, ("m", "τ0"))
    by_width, by_radius = found["m"], found["τ0"]
    x = np.concatenate([1 / np.sqrt(by_width[0]), np.array(by_radius[0]) / np.sqrt(lab.width)])
    y = np.concatenate([by_width[1] / np.sqrt(by_width[0]), by_radius[1] / np.sqrt(lab.width)], axis=1)
    return scales(f"{name}/√m against τ0/√m", "τ0/√m", x, y, printed, sense="at least")


def _largest_rest(image: np.ndarray, count: int, rng: np.random.Generator) -> float:
    """Climb to a unit vector with `count` entries whose image has much left after clipping."""
    m = len(image)
    clip = 4 * np.log(m) / np.sqrt(m)
    top = np.linalg.norm(image, axis=1).argmax()
    best = 0.0
    for y in (image[:, 0], np.eye(m)[top], rng.standard_normal(m)):
        for _ in range(10):
            pulled = image.T @ y
            x = np.zeros(m)
            places = np.argpartition(-np.abs(pulled), count - 1)[:count]
            x[places] = pulled[places]
            y = image @ (x / np.linalg.norm(x))
            rest = y - np.clip(y, -clip, clip)
            best = max(best, float(np.linalg.norm(rest)))
            y = rest if rest.any() else y
    return best
