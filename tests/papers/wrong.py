"""Deliberately wrong networks, put where the laboratories of the papers take theirs from.

Each is a class of its own: a program compiled for the right network is never used for a wrong one.
"""

from dataclasses import replace
from types import ModuleType
from typing import Any

import jax.numpy as jnp

from wideproof.networks import ConvResidual, DeepReLU, ElmanRNN, Gaussian, Residual, ResidualReLU
from wideproof.networks.base import Constant
from wideproof.networks.graph import Recurrent, bias
from wideproof.papers.allenzhu2018 import lab as recurrent
from wideproof.papers.du2019 import lab as smooth
from wideproof.papers.frei2019 import lab as residual
from wideproof.papers.statement import laboratory
from wideproof.papers.zou2018 import lab as deep


def wider(kind: type, factor: float) -> type:
    """The variance of every weight at the start is multiplied."""

    def laws(self):
        drawn = kind.laws(self)
        return {n: replace(a, variance=factor * a.variance) if isinstance(a, Gaussian) else a for n, a in drawn.items()}

    return type(f"Wider{kind.__name__}{factor}", (kind,), {"laws": laws})


def one_sided(kind: type) -> type:
    """All output signs are +1."""

    def laws(self):
        return {n: Constant(a.shape, 1.0) if n == "v" else a for n, a in kind.laws(self).items()}

    return type(f"OneSided{kind.__name__}", (kind,), {"laws": laws})


def without_depth(kind: type) -> type:
    """The residual branches have c_res/√m in place of c_res/(H√m)."""

    def describe(self):
        graph = kind.describe(self)
        nodes = (replace(n, scale=n.scale * self.depth) if n.skip is not None else n for n in graph.nodes)
        return replace(graph, nodes=tuple(nodes))

    return type(f"NoDepth{kind.__name__}", (kind,), {"describe": describe})


def biased(kind: type) -> type:
    """Every hidden layer has a bias with the law of its weights, which stays as it is drawn."""

    def describe(self):
        graph = kind.describe(self)
        nodes = (replace(n, terms=(*n.terms, bias(f"b{k}"))) for k, n in enumerate(graph.nodes, 1))
        return replace(graph, nodes=tuple(nodes))

    def laws(self):
        return {f"b{k}": Gaussian((1, m), 2 / m) for k, m in enumerate(self.widths, 1)} | kind.laws(self)

    names = property(lambda self: tuple(f"W{k}" for k in range(1, self.depth + 1)))
    return type(f"Biased{kind.__name__}", (kind,), {"describe": describe, "laws": laws, "trained_names": names})


class Untied(Recurrent):
    """W, with its columns moved on by one at every time: another matrix at each."""

    def run(self, linear, values):
        drive = linear(self.incoming, values[self.source])
        steps = [self.activation(drive[:, 0])]
        for t in range(1, drive.shape[1]):
            steps.append(self.activation(linear(self.recurrent, jnp.roll(steps[-1], t, axis=-1)) + drive[:, t]))
        return jnp.stack(steps, axis=1)


class UntiedRNN(ElmanRNN):  # pyright: ignore[reportGeneralTypeIssues]
    """A recurrent network whose matrix differs from time to time."""

    def describe(self):
        graph = super().describe()
        old: Any = graph.nodes[0]
        return replace(graph, nodes=(Untied(old.recurrent, old.incoming, old.source, old.activation),))


class WithInputs(ElmanRNN):  # pyright: ignore[reportGeneralTypeIssues]
    """A recurrent network that trains its input matrix too."""

    @property
    def trained_names(self):
        return ("W", "A")


def _put(monkeypatch, module: ModuleType, right: type, wrong: type) -> None:
    monkeypatch.setattr(module, right.__name__, wrong)


PLACES = {
    "zou2018": (deep, DeepReLU), "allenzhu2018": (recurrent, ElmanRNN), "frei2019": (residual, ResidualReLU),
}  # fmt: skip


def planted(monkeypatch, fault: str, paper: str) -> Any:
    """Return a quick laboratory of the paper whose networks have the fault."""
    if paper == "du2019":
        for kind in (Residual, ConvResidual):
            _put(monkeypatch, smooth, kind, {"no 1/H": without_depth}[fault](kind))
        return laboratory(paper)
    module, right = PLACES[paper]
    if fault == "θL = 5":
        monkeypatch.setattr(residual.Lab, "theta_depth", 5.0)
    else:
        wrong = {
            "variance × 1/2": lambda: wider(right, 0.5), "variance × 1.3": lambda: wider(right, 1.3),
            "v all +1": lambda: one_sided(right), "bias": lambda: biased(right), "untied weights": lambda: UntiedRNN,
            "first layer trained": lambda: WithInputs,
        }[fault]()  # fmt: skip
        _put(monkeypatch, module, right, wrong)
    return laboratory(paper)
