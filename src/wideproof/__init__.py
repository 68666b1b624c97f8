"""Wideproof: train wide neural networks, and prove that they reach a global minimum.

import wideproof as wp

proof = wp.prove("measurements.csv", "price")
print(proof)

Or step by step:

data = wp.prepare(wp.load("digits", classes=(0, 1), limit=200), "whiten,unit")
network = wp.build("fully-connected", data.input_shape, data.target_shape, width=256, depth=3, activation="tanh")
run = wp.train(network, data, wp.Recipe(target_loss=1e-6))
attempt = wp.certify(network, run.params, data)
"""

__version__ = "0.1.0"

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wideproof.data import audit as audit
    from wideproof.data import load as load
    from wideproof.data import prepare as prepare
    from wideproof.errors import InputError as InputError
    from wideproof.estimators import NTKClassifier as NTKClassifier
    from wideproof.estimators import NTKKernel as NTKKernel
    from wideproof.estimators import NTKRegressor as NTKRegressor
    from wideproof.estimators import WideNetClassifier as WideNetClassifier
    from wideproof.estimators import WideNetRegressor as WideNetRegressor
    from wideproof.kernels import gram as gram
    from wideproof.kernels import limit_gram as limit_gram
    from wideproof.kernels import predict as predict
    from wideproof.kernels import spectrum as spectrum
    from wideproof.lab.widget import lab as lab
    from wideproof.networks import Sketch as Sketch
    from wideproof.networks import build as build
    from wideproof.networks.exchange import from_onnx as from_onnx
    from wideproof.networks.exchange import from_torch as from_torch
    from wideproof.networks.exchange import to_onnx as to_onnx
    from wideproof.networks.exchange import to_safetensors as to_safetensors
    from wideproof.networks.exchange import to_torch as to_torch
    from wideproof.networks.exchange.model import Model as Model
    from wideproof.planning import plan as plan
    from wideproof.proving import Proof as Proof
    from wideproof.proving import certify as certify
    from wideproof.proving import choose as choose
    from wideproof.proving import follow as follow
    from wideproof.proving import prove as prove
    from wideproof.training import Recipe as Recipe
    from wideproof.training import Run as Run
    from wideproof.training import resume as resume
    from wideproof.training import train as train
    from wideproof.training import train_many as train_many

_HOME = {
    "audit": "data", "load": "data", "prepare": "data", "InputError": "errors", "build": "networks",
    "Sketch": "networks", "Model": "networks.exchange.model", "from_onnx": "networks.exchange",
    "from_torch": "networks.exchange", "to_onnx": "networks.exchange",
    "to_safetensors": "networks.exchange", "to_torch": "networks.exchange",
    "Recipe": "training", "Run": "training", "resume": "training", "train": "training", "train_many": "training",
    "gram": "kernels", "limit_gram": "kernels", "predict": "kernels", "spectrum": "kernels",
    "plan": "planning", "certify": "proving", "follow": "proving", "prove": "proving", "choose": "proving",
    "Proof": "proving",
    "NTKClassifier": "estimators", "NTKKernel": "estimators", "NTKRegressor": "estimators",
    "WideNetClassifier": "estimators", "WideNetRegressor": "estimators",
    "lab": "lab",  # a package that can be called
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import on first use: `wideproof --help` and `wideproof.data` need no JAX."""
    if name not in _HOME:
        raise AttributeError(f"module 'wideproof' has no attribute {name!r}")
    from importlib import import_module

    home = import_module(f"wideproof.{_HOME[name]}")
    return home if _HOME[name] == name else getattr(home, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
