"""Networks from elsewhere, and back: ONNX files, PyTorch modules, safetensors."""

from wideproof.networks.exchange.agreement import agreement as agreement
from wideproof.networks.exchange.agreement import require_agreement as require_agreement
from wideproof.networks.exchange.heads import Head as Head
from wideproof.networks.exchange.heads import cut_head as cut_head
from wideproof.networks.exchange.model import Model as Model
from wideproof.networks.exchange.onnx_in import from_onnx as from_onnx
from wideproof.networks.exchange.onnx_out import to_onnx as to_onnx
from wideproof.networks.exchange.overview import Overview as Overview
from wideproof.networks.exchange.overview import overview as overview
from wideproof.networks.exchange.torch_in import from_torch as from_torch
from wideproof.networks.exchange.torch_out import to_safetensors as to_safetensors
from wideproof.networks.exchange.torch_out import to_torch as to_torch
from wideproof.networks.exchange.torch_runs import require_torch as require_torch
