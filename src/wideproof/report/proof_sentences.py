"""What a proof says, in sentences for everybody: the headline, from which weights, what it means."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import TYPE_CHECKING

from wideproof.report.proof_words import OBSTACLES, counted, shown, squares

if TYPE_CHECKING:
    from wideproof.certificates import Start
    from wideproof.proving import Proof


def headline(proof: Proof) -> str:
    """Return the verdict in two or three sentences for everybody; what exactly is in the way stands in `obstacle`."""
    found, name = proof.attempt.obstacle, proof.data.name
    if proof.proved:
        parts = [_near(proof) if proof.polished_share else _proved(proof), _least(proof), _scale(proof)]
        return " ".join(filter(None, parts))
    if proof.impossible:
        least = shown(proof.groups.least_loss[0], 4, ROUND_FLOOR)
        as_given = ", ".join(map(str, proof.data.preparation))
        given = f"{name}, prepared by {as_given}" if as_given else name
        return f"Proved impossible: no network fits {given}; the loss stays at {least} or more ({squares(proof)})."
    if proof.verdict is not None and proof.verdict.answer == "not judged":
        return f"Not proved: the independent verifier did not judge the certificate ({proof.verdict.reason})."
    if proof.verdict is not None:
        return f"Not proved: the independent verifier refused the certificate ({proof.verdict.reason})."
    if found is not None and found.quantity in OBSTACLES:
        return f"Not proved: {OBSTACLES[found.quantity][0]}."
    return f"Not proved: {found}."


def _goal_of(proof: Proof) -> str:
    n, name = proof.data.n, proof.data.name
    part = proof.data.partial or any(estimate.how == "held out" for estimate in proof.estimates)
    used = " that are used" if part else ""
    which = f"{'the' if part or proof.groups.least > 0 else 'all'} {counted(n, 'row')} of {name}{used}"
    return f"a global minimum on {which}" if proof.groups.least > 0 else f"an exact fit of {which}"


def _proved(proof: Proof) -> str:
    """Return where gradient descent begins, how it goes on and what it converges to."""
    descent, start, run = proof.attempt.descent, proof.start, proof.run
    assert descent is not None
    error = "the distance of its outputs from the best ones" if proof.groups.least > 0 else "its error"
    largest = (
        descent.eta if start is not None else float(Context(prec=3, rounding=ROUND_FLOOR).create_decimal(descent.eta))
    )
    rate = descent.rate * largest / descent.eta  # a smaller step removes proportionally less
    shrinks = f"{error} shrinks by at least {shown(100 * rate, 3, ROUND_FLOOR)} % a step"
    seed = "" if run is None or proof.given else f" (seed {run.recipe.seed})"
    size = f"with step size {rounded(largest if start is None else start.step_size)}"
    if start is not None and start.batches is not None:
        sgd = f"{counted(start.steps, 'step')} of SGD in batches of {start.batches.shape[1]}"
        return (
            f"Proved: from its initial weights{seed}, {sgd}, then gradient descent on all rows, converge to "
            f"{_goal_of(proof)}. The steps of SGD were followed one by one; from there {shrinks}."
        )
    if proof.proved_from == "initial weights":
        began = f"Proved: from its initial weights{seed}, gradient descent {size} converges to {_goal_of(proof)}."
        if start is None:
            return f"{began} From the first step on, {shrinks}."
        taken = "step was followed" if start.steps == 1 else f"{start.steps} steps were followed one by one"
        return f"{began} Its first {taken}; from there {shrinks}."
    steps = 0 if run is None else run.step
    where = proof.given or f"the weights that {counted(steps, 'step')} of training left"
    how = "with any step size up to " + shown(largest, 3)
    beyond = "" if proof.given else " The training before is not part of the proof."
    graph = proof.network.graph
    last = " on its last layer alone" if set(graph.trained) <= {graph.read_out, graph.bias} else ""
    return (
        f"Proved: from {where}, gradient descent{last} {how} converges to {_goal_of(proof)}; with that step size "
        f"{shrinks}.{beyond}"
    )


def rounded(value: float) -> str:
    """Return a number as it is if three digits say it, and otherwise rounded to three digits, the last zeros kept.

    >>> rounded(0.01), rounded(0.0100461), rounded(0.5), rounded(0.0156349)
    ('0.01', '0.0100', '0.5', '0.0156')
    """
    short = shown(value, 3)
    return short if value == float(f"{value:.3g}") or not 1e-4 <= value < 100 else f"{value:#.3g}"


def _near(proof: Proof) -> str:
    """Return what is proved where Gauss-Newton moved the weights: not that training gets there."""
    assert proof.polished is not None
    assert proof.attempt.descent is not None
    exists = "Weights with the least loss exist" if proof.groups.least > 0 else f"{_goal_of(proof)} exists"
    exists = exists[0].upper() + exists[1:]
    moved = proof.polished.moved
    away = moved + proof.attempt.descent.radius
    far, share = (shown(value, 3, ROUND_CEILING) for value in (away, 100 * proof.polished_share * away / moved))
    weights = proof.given or "the trained weights"
    return (
        f"{exists} at a distance of at most {far} from {weights} ({share} % of their length), found by Gauss-Newton; "
        "gradient descent stays there and converges to it. That training gets there is not proved."
    )


def _least(proof: Proof) -> str:
    if proof.groups.least <= 0:
        return ""
    rows = counted(len(proof.groups.contradicting), "row")
    least = shown(proof.groups.least_loss[0], 4, ROUND_FLOOR)
    left = next((note for note in proof.data.notes if note.startswith("left out ")), "")
    unseen = bool(re.search(r" \((?!empty\))", left))  # what was left out may tell these rows apart
    where, whose = (" in the columns that are used", " of these columns") if unseen else ("", "")
    has = "has" if rows.startswith("1 ") else "have"
    return (
        f"{rows} of {proof.data.n} {has} an equal row with another target{where}, so no function{whose} fits them all: "
        f"the least loss of any function{whose} is {least} ({squares(proof)}), and the loss tends to it."
        + (f" What was {left} may tell them apart." if unseen else "")
    )


def _scale(proof: Proof) -> str:
    """Say what the outputs are multiplied by, and how little weights move then."""
    alpha, share = getattr(proof.network, "alpha", 1.0), proof.share_moved
    if alpha == 1 or share is None:
        return ""
    moved = shown(100 * share, 2, ROUND_CEILING)
    lazy = " (lazy training)" if alpha > 1 else ""
    return (
        f"The network's outputs are multiplied by alpha = {shown(alpha)}{lazy}: its weights move by at most {moved} % "
        "of their length."
    )


def anchor(proof: Proof) -> str:
    """Return in words which weights the statement is about."""
    steps = 0 if proof.run is None else proof.run.step
    polished = 0 if proof.polished is None else proof.polished.steps
    if proof.start is not None:
        return f"the initial weights, and {counted(steps, 'step')} of training from there"
    if proof.before or (not steps and not polished):
        return proof.given or "the initial weights, before any training"
    if proof.given:
        return f"{proof.given} after {_polishing(proof)} (polishing)"
    parts = [f"{counted(steps, 'step')} of training"] * bool(steps)
    parts += [f"{_polishing(proof)} (polishing)"] if polished else []
    return f"the weights after {' and '.join(parts)}"


def _found(proof: Proof) -> str:
    """Say how the anchor came about, as far as the proof is concerned."""
    if proof.polished_share:
        return "That training gets there is not proved: Gauss-Newton steps went from the trained weights to them."
    if proof.proved_from == "initial weights":
        return "That a seed drew them is a note; the stored numbers are the fact."
    return "How they were found does not matter to the proof, and is not part of it."


def _polishing(proof: Proof) -> str:
    assert proof.polished is not None
    if proof.polished.kind == "read-out":
        return "the shortest step of the output layer that fits the targets"
    return counted(proof.polished.steps, "Gauss-Newton step")


def meaning(proof: Proof) -> list[tuple[str, str]]:
    """Return what the verdict means, as pairs of a short title and a sentence or two."""
    n, verdict, found = proof.data.n, proof.verdict, proof.attempt.descent
    limits = "Nothing about data that the network has not seen, and nothing about other networks, seeds or data."
    if proof.proved and verdict is not None and found is not None and proof.start is not None:
        return _meaning_from_start(proof, proof.start, limits)
    if proof.proved and verdict is not None and found is not None:
        return [
            ("What is proved", "Gradient descent on the squared training loss, with any step size up to "
             f"{shown(found.eta, 3, ROUND_FLOOR)}, drives the loss on these {n} rows to {_goal(proof)}. On the way, "
             "however long it is, the weights never move farther than "
             f"{shown(found.radius, 3, ROUND_CEILING)} from where they are.{_prepared(proof)}"),
            ("From which weights", f"From {anchor(proof)}: the “anchor”, stored in the certificate. {_found(proof)}"),
            ("How sure it is", "It is a mathematical proof, not a measurement: an independent program recomputed every "
             "number from weights and data with rigorous bounds on all rounding, in "
             f"{verdict.precision}-bit arithmetic."),
            ("What it does not say", limits),
        ]  # fmt: skip
    if proof.impossible:
        return [
            ("What is proved", "Some examples have exactly the same input and different targets. A network gives equal "
             "inputs equal outputs, so it cannot fit both: zero loss does not exist."),
            ("For which networks", "For all of them, of every width and depth, however they are trained."),
            ("How sure it is", "It is a mathematical proof: an independent program compared the inputs number by "
             "number and recomputed the least loss with rigorous bounds on all rounding."),
            ("What it does not say", "That the other examples cannot be fitted, or that the network is of no use."),
        ]  # fmt: skip
    found_out = proof.attempt.obstacle
    if found_out is not None and found_out.quantity == "contradiction":
        means = ("Zero loss does not exist: some examples agree in their inputs and differ in their targets, and no "
                 "network can fit both. The independent verifier has not confirmed it.")  # fmt: skip
    elif proof.attempt.certificate is not None:
        means = "There is a certificate, and the independent verifier has not confirmed it: it claims nothing."
    else:
        means = ("Not proved does not mean false: gradient descent may well reach zero loss. The numbers at these "
                 "weights do not suffice for the theorem.")  # fmt: skip
    return [
        ("What this means", means),
        ("About which weights", f"About {anchor(proof)}."),
        ("What it does not say", limits),
    ]  # fmt: skip


def _meaning_from_start(proof: Proof, start: Start, limits: str) -> list[tuple[str, str]]:
    found, verdict = proof.attempt.descent, proof.verdict
    assert found is not None
    assert verdict is not None
    off, bits = verdict.course[-1][0], sorted({row[1] for row in verdict.course})
    words = {53: "float64", 100: "double-double"}
    used = " and ".join(words.get(b, f"{b}-bit balls") for b in bits)
    order = "" if start.batches is None else ", with the stored batches,"
    return [
        ("What is proved", f"Gradient descent on the squared training loss, started at the initial weights{order} with "
         f"step size {start.step_size!r}, drives the loss on these {proof.data.n} rows to {_goal(proof)}. After "
         f"{counted(start.steps, 'step')} it is so near the fit that a theorem takes over (Theorem 1): from there the "
         f"weights never move farther than {shown(found.radius, 3, ROUND_CEILING)}, however long it "
         f"runs.{_prepared(proof)}"),
        ("From which weights", "From the initial weights, stored in the certificate as the start. That a seed drew "
         "them is a note; the stored numbers are the fact."),
        ("How sure it is", "It is a mathematical proof, not a measurement: an independent program took all "
         f"{counted(start.steps, 'step')} again from the stored start, in {used}, with a bound on its distance from "
         f"gradient descent without any rounding. At the end that is {shown(off, 2, ROUND_CEILING)}; the theorem "
         f"allows {shown(start.distance, 2, ROUND_FLOOR)}."),
        ("What it does not say", limits),
    ]  # fmt: skip


def _goal(proof: Proof) -> str:
    if not proof.groups.least:
        return "exactly zero, a global minimum"
    least = shown(proof.groups.least_loss[0], 6, ROUND_FLOOR)
    return f"{least}, a global minimum: contradicting rows leave no function less"


def _prepared(proof: Proof) -> str:
    steps = ", ".join(map(str, proof.data.preparation))
    return f" The rows were prepared first, by {steps}, which keeps different rows different." if steps else ""
