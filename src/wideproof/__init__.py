"""Wideproof: train wide neural networks, and prove that they reach a global minimum.

import wideproof as wp

proof = wp.prove("measurements.csv", "price")
print(proof)

Or step by step:

data = wp.prepare(wp.load("digits", classes=(0, 1), limit=200), "whiten,unit")
network = wp.build("fully-connected", data.input_shape, data.target_shape, width=256, depth=3, activation="tanh")
run = wp.train(network, data, wp.Recipe(target_loss=1e-6))
attempt = wp.certify(wp.Problem(network, data).at(run.params))
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from wideproof.doors import lazily as _lazily

if _TYPE_CHECKING:
    from wideproof import adapters as adapters
    from wideproof import certificates as certificates
    from wideproof import data as data
    from wideproof import estimators as estimators
    from wideproof import kernels as kernels
    from wideproof import monitors as monitors
    from wideproof import networks as networks
    from wideproof import papers as papers
    from wideproof import planning as planning
    from wideproof import proving as proving
    from wideproof import report as report
    from wideproof import rocq as rocq
    from wideproof import sweeps as sweeps
    from wideproof import theorems as theorems
    from wideproof import training as training
    from wideproof.answers import Answer as Answer
    from wideproof.certificates import Basin as Basin
    from wideproof.certificates import Certificate as Certificate
    from wideproof.certificates import Descent as Descent
    from wideproof.certificates import Epochs as Epochs
    from wideproof.certificates import Logistic as Logistic
    from wideproof.certificates import Margins as Margins
    from wideproof.certificates import Momentum as Momentum
    from wideproof.certificates import Newton as Newton
    from wideproof.certificates import Orders as Orders
    from wideproof.certificates import Point as Point
    from wideproof.certificates import Problem as Problem
    from wideproof.certificates import ReadOut as ReadOut
    from wideproof.certificates import Ridge as Ridge
    from wideproof.certificates import Sampling as Sampling
    from wideproof.certificates import polish as polish
    from wideproof.data import Dataset as Dataset
    from wideproof.data import ImageDataset as ImageDataset
    from wideproof.data import SequenceDataset as SequenceDataset
    from wideproof.data import apply as apply
    from wideproof.data import audit as audit
    from wideproof.data import from_labels as from_labels
    from wideproof.data import load as load
    from wideproof.data import prepare as prepare
    from wideproof.errors import InputError as InputError
    from wideproof.estimators import NTKClassifier as NTKClassifier
    from wideproof.estimators import NTKClassifierCV as NTKClassifierCV
    from wideproof.estimators import NTKKernel as NTKKernel
    from wideproof.estimators import NTKRegressor as NTKRegressor
    from wideproof.estimators import NTKRegressorCV as NTKRegressorCV
    from wideproof.estimators import WideNetClassifier as WideNetClassifier
    from wideproof.estimators import WideNetRegressor as WideNetRegressor
    from wideproof.kernels import Residuals as Residuals
    from wideproof.kernels import gram as gram
    from wideproof.kernels import limit_gram as limit_gram
    from wideproof.kernels import nngp as nngp
    from wideproof.kernels import predict as predict
    from wideproof.kernels import spectrum as spectrum
    from wideproof.lab.widget import lab as lab
    from wideproof.networks import Network as Network
    from wideproof.networks import Sketch as Sketch
    from wideproof.networks import build as build
    from wideproof.networks.exchange import Model as Model
    from wideproof.networks.exchange import from_onnx as from_onnx
    from wideproof.networks.exchange import from_torch as from_torch
    from wideproof.networks.exchange import to_onnx as to_onnx
    from wideproof.networks.exchange import to_safetensors as to_safetensors
    from wideproof.networks.exchange import to_torch as to_torch
    from wideproof.planning import choose as choose
    from wideproof.planning import plan as plan
    from wideproof.progress import Progress as Progress
    from wideproof.progress import unwatched as unwatched
    from wideproof.proving import LossProof as LossProof
    from wideproof.proving import Predictor as Predictor
    from wideproof.proving import Proof as Proof
    from wideproof.proving import certify as certify
    from wideproof.proving import follow as follow
    from wideproof.proving import follow_torch as follow_torch
    from wideproof.proving import prove as prove
    from wideproof.proving import prove_run as prove_run
    from wideproof.sweeps import sweep as sweep
    from wideproof.theorems import theorem as theorem
    from wideproof.training import Recipe as Recipe
    from wideproof.training import Run as Run
    from wideproof.training import descend as descend
    from wideproof.training import resume as resume
    from wideproof.training import train as train
    from wideproof.training import train_many as train_many
    from wideproof.version import __version__ as __version__
    from wideproof_verify import verify as verify

__getattr__, __dir__ = _lazily(
    __name__,
    {
        "wideproof.answers": "Answer",
        "wideproof.certificates": "Basin Certificate Descent Epochs Logistic Margins Momentum Newton Orders Point "
                                  "Problem ReadOut Ridge Sampling polish",
        "wideproof.data": "Dataset ImageDataset SequenceDataset apply audit from_labels load prepare",
        "wideproof.errors": "InputError",
        "wideproof.estimators": "NTKClassifier NTKClassifierCV NTKKernel NTKRegressor NTKRegressorCV "
                                "WideNetClassifier WideNetRegressor",
        "wideproof.kernels": "Residuals gram limit_gram nngp predict spectrum",
        "wideproof.networks": "Network Sketch build",
        "wideproof.networks.exchange": "Model from_onnx from_torch to_onnx to_safetensors to_torch",
        "wideproof.planning": "choose plan",
        "wideproof.progress": "Progress unwatched",
        "wideproof.proving": "LossProof Predictor Proof certify follow follow_torch prove prove_run",
        "wideproof.sweeps": "sweep",
        "wideproof.theorems": "theorem",
        "wideproof.training": "Recipe Run descend resume train train_many",
        "wideproof.version": "__version__",
        "wideproof_verify": "verify",
    },
    # `lab` is a package that can be called
    ("adapters", "certificates", "data", "estimators", "kernels", "lab", "monitors", "networks", "papers", "planning",
     "proving", "report", "rocq", "sweeps", "theorems", "training"),
)  # fmt: skip
