"""What a proof says, in sentences for everybody: the headline, from which weights, what it means."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR
from typing import TYPE_CHECKING

from wideproof.report.proof_words import OBSTACLES, counted, shown

if TYPE_CHECKING:
    from wideproof.certificates import Start
    from wideproof.proving import Proof

FAR = 0.1  # of their length: weights that polishing moved farther are not called the model's own


def headline(proof: Proof) -> str:
    """Return the verdict in one sentence or two for everybody; what exactly is in the way stands in `obstacle`."""
    found, n, name = proof.attempt.obstacle, proof.data.n, proof.data.name
    if proof.proved:
        assert proof.attempt.descent is not None
        share = f"{shown(100 * proof.attempt.descent.rate, 3, ROUND_FLOOR)} %"
        weights, start = _weights(proof), proof.start
        if start is not None:
            return _from_start(proof, start, share)
        if proof.groups.least > 0:
            return f"Proved: gradient descent reaches a global minimum from {weights}. {_least(proof)}"
        if proof.given and proof.polished_share > FAR:
            moved = shown(100 * proof.polished_share, 2, ROUND_CEILING)
            return (
                f"Proved, but not near {proof.given}: polishing moved them by {moved} % of their length. From there, "
                f"gradient descent fits all {n} rows of {name} exactly; its error shrinks by at least {share} a step."
            )
        return (
            f"Proved: from {weights}, gradient descent fits all {n} rows of {name} exactly; its error shrinks by at "
            f"least {share} a step."
        )
    if proof.impossible:
        least = shown(proof.groups.least_loss[0], 4, ROUND_FLOOR)
        as_given = ", ".join(map(str, proof.data.preparation))
        given = f"{name}, prepared by {as_given}" if as_given else name
        return f"Proved impossible: no network fits {given}; the loss stays at {least} or more."
    if proof.verdict is not None and proof.verdict.answer == "not judged":
        return f"Not proved: the independent verifier did not judge the certificate ({proof.verdict.reason})."
    if proof.verdict is not None:
        return f"Not proved: the independent verifier refused the certificate ({proof.verdict.reason})."
    if found is not None and found.quantity in OBSTACLES:
        return f"Not proved: {OBSTACLES[found.quantity][0]}."
    return f"Not proved: {found}."


def _least(proof: Proof) -> str:
    rows = counted(len(proof.groups.contradicting), "row")
    least = shown(proof.groups.least_loss[0], 4, ROUND_FLOOR)
    return (
        f"{rows} of {proof.data.n} {'has' if rows.startswith('1 ') else 'have'} an equal row with another target, so "
        f"no function fits them all: the least loss is {least}, and it is reached."
    )


def _from_start(proof: Proof, start: Start, share: str) -> str:
    """Return the verdict of a proof from the initial weights on."""
    seed = "" if proof.run is None else f" (seed {proof.run.recipe.seed})"
    method = f"gradient descent, started from these initial weights{seed} with step size {shown(start.step_size, 3)}"
    if start.batches is not None:
        size = start.batches.shape[1]
        order = f"SGD (batches of {size}) from these initial weights{seed}"
        method = f"{counted(start.steps, 'step')} of {order} and then gradient descent"
    later = f"after {counted(start.steps, 'step')} its error shrinks by at least {share} a step"
    if proof.groups.least > 0:
        return f"Proved: {method}, reaches a global minimum; {later}. {_least(proof)}"
    verb = "fits" if start.batches is None else "fit"
    return f"Proved: {method}, {verb} all {proof.data.n} rows of {proof.data.name} exactly; {later}."


def _weights(proof: Proof) -> str:
    """Say which weights, and how far polishing moved them in units of their length."""
    polished = proof.polished
    moved = proof.run is not None and proof.run.step and not proof.before
    plain = "the trained weights" if moved else "the initial weights" + ", before any training" * proof.before
    if polished is None or not polished.steps or proof.run is None:
        return proof.given or plain
    share = shown(100 * proof.polished_share, 2, ROUND_CEILING)
    return f"{proof.given or 'the trained weights'}, polished by {share} % of their length"


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
            ("From which weights", f"From {anchor(proof)}: the “anchor”, stored in the certificate. How they were "
             "found does not matter to the proof."),
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
         f"step size {shown(start.step_size)}, drives the loss on these {proof.data.n} rows to {_goal(proof)}. After "
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
