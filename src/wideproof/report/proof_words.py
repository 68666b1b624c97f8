"""A proof in words and numbers, for the report and for the terminal."""

from __future__ import annotations

import platform
import re
import shlex
from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from wideproof.certificates import ASSUMPTIONS
from wideproof.titles import PAPERS
from wideproof.training import Status

if TYPE_CHECKING:
    from wideproof.certificates import Certificate
    from wideproof.proving import Proof

Outcome = Literal["proved", "impossible", "not proved"]
# What the verifier relies on, whoever wrote the certificate and however.
TRUST = (
    "the proofs of the theorems, the verifier's own source, Python, NumPy, the ball arithmetic of Arb, and that "
    "float64 rounds as IEEE 754 says; the prover is not trusted",
    "the statement is about gradient descent in exact arithmetic: a computer that rounds stalls at its rounding level",
)
# symbol, name in words; in the order of the table.
_NAMES = {
    "rho": ("ρ", "error left at the anchor, ‖f − y‖, at most"),
    "s": ("s", "smallest singular value of the Jacobian, at least"),
    "S": ("S", "largest singular value of the Jacobian, at most"),
    "lipschitz": ("Λ", "how fast the Jacobian can change in the radius, at most"),
    "jump": ("D", "how far the Jacobian can jump within the radius, where units switch, at most"),
    "radii": ("R", "certified radius: how far the weights can still move"),
    "h": ("h", "proof ratio Λρ/s²; one constant Λ suffices below ½"),
    "sigma": ("σ", "smallest singular value on the whole way, at least"),
    "b": ("b", "largest singular value on the whole way, at most"),
    "eta": ("η", "step size; any smaller one works too"),
    "kappa": ("κ", "share of s that counts, since the step size is above 1/b²"),
    "rate": ("ησ²", "share of the error that every step removes, at least"),
    "epsilon": ("ε", "loss above the least possible one that is reached"),
    "steps": ("k", "steps from the anchor until then"),
    "D": ("D", "length of the first Newton step, at most"),
    "newton_h": ("h′", "ratio ΛD/s; below ½ weights with the least loss exist"),
    "newton_radius": ("R′", "how far away weights with the least loss are, at most"),
    "margin": ("γ", "least margin, at least; above 0 every example is on the right side"),
    "loss": ("L", "loss at the anchor, at most"),
    "distinct": ("", "different inputs among the rows"),
    "least_loss": ("L*", "loss of every function of the inputs, at least"),
    "least_loss_at_most": ("", "the same least loss, at most"),
    "groups": ("", "groups of equal inputs with different targets"),
}
ABOVE = "distance left to the best outputs at the anchor, at most"  # instead, where labels contradict
NO_ESTIMATE = "No estimate on unseen rows was made. The proof says nothing about them."
# What each obstacle is about, and how its value would have to compare with the needed one.
OBSTACLES = {
    "ratio": ("the network is still too far from a perfect fit for the theorem to apply", "proof ratio h", "below"),
    "eigenvalue": ("some examples cannot be told apart well enough", "smallest eigenvalue", "above"),
    "parameters": ("the network has too few trained weights for so many examples", "trained weights", "at least"),
    "kink": ("a unit of the network could switch on or off on the way", "closest pre-activation", ""),
    "contradiction": ("zero loss does not exist, because equal inputs have different targets", "least loss", "exactly"),
    "step size": ("the step size is larger than the theorem allows", "step size", "at most"),
    "divergence": ("training diverged", "step size", "at most"),
    "polishing": ("polishing would move the weights farther than was allowed", "share of their length", "at most"),
    "growth": ("the steps from the start cannot be followed", "growth of errors in bits", "at most"),
    "rows": ("the steps from the start cannot be followed", "rows of a step", "at most"),
}
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def shown(value: float, digits: int = 6, rounding: str = ROUND_HALF_EVEN) -> str:
    """Return a number as people write it, rounded to the side on which the sentence about it stays true.

    >>> shown(4.65e-09, 3), shown(0.25), shown(1500000.0, 2), shown(1e-12)
    ('4.65×10⁻⁹', '0.25', '1.5×10⁶', '10⁻¹²')
    >>> shown(0.038867, 3, ROUND_FLOOR), shown(4.9411e-05, 3, ROUND_CEILING), shown(5e-324, 6, ROUND_FLOOR)
    ('0.0388', '4.95×10⁻⁵', '4.94065×10⁻³²⁴')
    """
    if isinstance(value, int) or not np.isfinite(value):
        return str(value)
    near = Context(prec=digits, rounding=rounding).create_decimal(value)
    power = near.adjusted() if near else 0
    plain = -5 < power < digits
    text = f"{near if plain else near.scaleb(-power):f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    raised = f"10{str(power).translate(RAISED)}"
    return text if plain else raised if text == "1" else f"{text}×{raised}"


# Claims that are lower bounds are rounded down, upper bounds up.
_ROUNDED = {
    **dict.fromkeys(("rho", "S", "lipschitz", "jump", "radii", "h", "b", "epsilon", "D", "newton_h", "newton_radius",
                     "loss", "least_loss_at_most"), ROUND_CEILING),
    **dict.fromkeys(("s", "sigma", "eta", "rate", "margin", "least_loss", "kappa"), ROUND_FLOOR),
}  # fmt: skip


def counted(count: int, noun: str) -> str:
    """Return a count with its noun.

    >>> counted(1, "step"), counted(20, "step")
    ('1 step', '20 steps')
    """
    return f"{count} {noun}{'' if count == 1 else 's'}"


def paper(key: str) -> str:
    """Return a paper's authors and year.

    Parameters
    ----------
    key
        The paper's key, such as `"du2019"`.

    Returns
    -------
    str
        Authors and year, such as `"Du et al. 2019"`.
    """
    return PAPERS.get(key, key)


def squares(proof: Proof) -> str:
    """Return what the loss of a proof is the sum of, and in which units."""
    data = proof.data
    later = ", from the second time on" if proof.network.data_kind == "sequences" else ""
    if data.task != "regression":
        return f"half the sum of squares{later}, labels -1 and +1"
    scaled = any(step.name == "scale_targets" for step in data.preparation)
    units = ", targets scaled to standard deviation 1" if scaled else ""
    return f"half the sum of squares{later}{units}"


class Number(NamedTuple):
    """A row of the table: what is claimed, and what the verifier found itself."""

    symbol: str
    name: str
    claimed: str
    found: str


class Row(NamedTuple):
    """An inequality that the verifier checked; `count` like it are represented by the tightest one."""

    name: str
    left: float
    right: float | None  # `None` where the two were compared without it
    count: int


def outcome(proof: Proof) -> Outcome:
    """Return which of the three answers the proof came to."""
    return "proved" if proof.proved else "impossible" if proof.impossible else "not proved"


class Clash(NamedTuple):
    """Rows with one input and several targets, as they are numbered in the source."""

    rows: tuple[int, ...]
    targets: tuple[str, ...]


def clashes(proof: Proof) -> list[Clash]:
    """Return the groups of rows that contradict each other, in the order of the source."""
    data, groups = proof.data, proof.groups
    numbers = data.rows if data.rows is not None else np.arange(data.n)
    labels, found = data.labels, []
    for g in np.flatnonzero(groups.clashing):
        members = np.flatnonzero(groups.place == g)
        if labels is not None:
            plain = ("-1", "1") if data.task == "binary" else tuple(map(str, range(data.y.shape[-1])))
            targets = [str((data.classes or plain)[labels[i]]) for i in members]
        else:
            targets = [", ".join(f"{v:.6g}" for v in np.ravel(data.y[i])) for i in members]
        found.append(Clash(tuple(int(numbers[i]) for i in members), tuple(targets)))
    return found


def row_word(proof: Proof) -> str:
    """Return what the numbers of rows count: lines of a text file, or rows from 0."""
    encoding, rows = proof.data.encoding, proof.data.rows
    return "line" if encoding is not None and rows is not None and len(rows) and rows.min() > 0 else "row"


def obstacle(proof: Proof) -> dict[str, Any] | None:
    """Return what is in the way, its value, what is needed, and what would change it; `None` if nothing is."""
    found, verdict = proof.attempt.obstacle, proof.verdict
    if proof.proved:
        return None
    if found is not None:
        _, name, compared = OBSTACLES.get(found.quantity, ("", found.quantity, ""))
        needed = f"{compared} {shown(found.needed, 4)}" if compared else ""
        return {
            "reason": found.reason,
            "name": name,
            "value": shown(found.value, 4, ROUND_FLOOR),
            "needed": needed,
            "advice": list(found.advice),
        }
    answer = "was not asked" if verdict is None else f"answered “{verdict.answer}”: {verdict.reason}"
    return {"reason": f"the verifier {answer}", "name": "", "value": "", "needed": "", "advice": []}


def numbers(proof: Proof) -> list[Number]:
    """Return the claims of the certificate with the verifier's values; without one, the numbers at the anchor."""
    certificate, at = proof.attempt.certificate, proof.attempt.anchor
    if certificate is not None:
        checks = [] if proof.verdict is None else proof.verdict.checks
        claims = certificate.claims
        names = [name for name in _NAMES if name in claims]
        names += [name for name in claims if name not in _NAMES and _is_number(claims[name])]
        rows = [_number(name, claims, checks) for name in names]
        return [_as_here(row, proof, certificate) for row in rows]
    if at is None:
        return []
    values = {"rho": at.residual, "s": at.s, "S": at.S, "h": proof.attempt.h}
    return [Number(*_NAMES[name], shown(value, 6, _ROUNDED[name]), "") for name, value in values.items()]


def _as_here(row: Number, proof: Proof, certificate: Certificate) -> Number:
    """Return a row in the words of this proof: labels may contradict each other, steps may be large, or followed."""
    start = certificate.start
    if row.symbol == "ρ" and proof.groups.least > 0:
        return row._replace(name=ABOVE)
    if row.symbol == "h":
        name = row.name.replace("s²", "(κs)²") if "kappa" in certificate.claims else row.name
        return row._replace(
            name=name if start is None else f"{name.partition(';')[0]}, ρ with room for the steps' error"
        )
    if row.symbol == "η" and start is not None and start.batches is None:
        return Number("η", "step size, of every step", repr(start.step_size), "")
    return row


def checks(proof: Proof) -> list[Row]:
    """Return the inequalities that the verifier checked; of those that differ in an index only, the tightest."""
    grouped: dict[str, list[tuple[str, float, float | None]]] = {}
    for row in [] if proof.verdict is None else proof.verdict.checks:
        grouped.setdefault(re.sub(r"_\d+", "_j", row[0]), []).append(row)
    found = []
    for rows in grouped.values():
        found.append(Row(*min(rows, key=lambda row: _room(row[1], row[2])), len(rows)))
    return found


def _room(left: float, right: float | None) -> float:
    """How far apart two sides are, relative to the larger one; one that is not known counts as far away."""
    return float("inf") if right is None else abs(left - right) / max(abs(left), abs(right), 1e-300)


def commands(proof: Proof) -> list[str]:
    """Return the commands that verify the certificate again; none where there is no certificate."""
    if proof.attempt.certificate is None:
        return []
    where = "FOLDER/certificate" if proof.folder is None else shlex.quote(str(proof.folder / "certificate"))
    return [f"wideproof verify {where}", f"python -m wideproof_verify {where}"]


def training(proof: Proof) -> list[tuple[str, str]]:
    """Return how the weights came about, as pairs of a name and a value."""
    run = proof.run
    if run is None:
        return []
    if proof.given:
        return [("weights", proof.given), *_polished(proof)]
    recipe = run.recipe
    rows = [
        ("method", recipe.method),
        ("loss", f"{recipe.loss}, {recipe.objective.reduction.replace('_', ' ')}"),
        ("steps", str(run.step) if run.status is Status.LIMIT else f"{run.step} ({run.ending})"),
        ("step size", shown(run.step_size)),
        ("seed", str(recipe.seed)),
        ("precision", recipe.precision),
        ("loss at the end", shown(run.loss)),
    ]  # fmt: skip
    if proof.ratios:
        rows.append(("distance moved", shown(proof.ratios[-1].moved)))
    return rows + _polished(proof)


def _polished(proof: Proof) -> list[tuple[str, str]]:
    polished = proof.polished
    if polished is None:
        return []
    return [
        ("polishing steps", str(polished.steps)),
        ("moved by polishing", shown(polished.moved)),
        ("error before and after", f"{shown(polished.residuals[0], 3)} → {shown(polished.residuals[-1], 3)}"),
    ]


def assumptions(proof: Proof) -> list[str]:
    """Return what has to be believed: for the certificate's numbers, and for the verifier's answer."""
    certificate = proof.attempt.certificate
    made = () if certificate is None else ASSUMPTIONS.get(certificate.level, ())
    return [f"prover: {line}" for line in made] + [f"verifier: {line}" for line in TRUST if proof.verdict is not None]


def versions() -> dict[str, str]:
    """Return the versions of the programs that took part."""
    found = {}
    for name in ("wideproof", "jax", "numpy", "scipy", "python-flint"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return {**found, "python": platform.python_version()}


def _number(name: str, claims: Mapping[str, Any], checked: Iterable[tuple[str, float, float | None]]) -> Number:
    symbol, words = _NAMES.get(name, (name, ""))
    value = claims[name]
    key = name
    if name == "groups":
        return Number(symbol, words, str(len(value)), "")
    if isinstance(value, list | tuple):
        value, key = value[-1], f"Λ_{len(value)}" if name == "lipschitz" else f"t_{len(value)}"
    side = _ROUNDED.get(name, ROUND_HALF_EVEN)
    found = (shown(row[2], 6, side) for row in checked if row[2] is not None and _bounds(row[0], key))
    return Number(symbol, words, shown(value, 6, side) if _is_number(value) else str(value), next(found, ""))


def _bounds(check: str, key: str) -> bool:
    """Whether a check compares the claim `key` itself with a recomputed value, not a constant or a neighbour.

    >>> _bounds("rho ≥ ‖r‖", "rho"), _bounds("rho", "rho"), _bounds("s > 0", "s"), _bounds("h < 1/2", "h")
    (True, True, False, False)
    >>> _bounds("Λ_2 ≥ Λ(t_2)", "Λ_2"), _bounds("Λ_2 ≥ Λ_1", "Λ_2")
    (True, False)
    >>> _bounds("rate ≤ 1", "rate"), _bounds("rate ≤ eta sigma (s − M_J)", "rate")
    (False, True)
    """
    return check == key or re.match(rf"{re.escape(key)} [≥≤] (?!(\w+_)?\d+$)", check) is not None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
