"""PyTorch's operators in ONNX's words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wideproof.errors import InputError

Rule = Callable[..., None]


def _same(kind: str) -> Rule:
    return lambda r, node, self, **rest: r.put(kind, node, self)


def _linear(r: Any, node: Any, *, input: Any, weight: Any, bias: Any = None, **rest: Any) -> None:  # noqa: A002
    tokens = int(len(input.meta["val"].shape) != 2)
    r.put("Gemm", node, input, weight, *([] if bias is None else [bias]), transB=1, tokens=tokens)


def _addmm(r: Any, node: Any, *, self: Any, mat1: Any, mat2: Any, beta: Any = 1, alpha: Any = 1, **rest: Any) -> None:
    r.put("Gemm", node, mat1, mat2, self, alpha=float(alpha), beta=float(beta))


def _matmul(r: Any, node: Any, *, self: Any, other: Any = None, mat2: Any = None, **rest: Any) -> None:
    r.put("MatMul", node, self, other if mat2 is None else mat2)


def _conv(
    r: Any, node: Any, *, input: Any, weight: Any, bias: Any = None, stride: Any = (1,), padding: Any = (0,),  # noqa: A002
    dilation: Any = (1,), groups: int = 1, transposed: bool = False, **rest: Any,
) -> None:  # fmt: skip
    n = len(weight.meta["val"].shape) - 2
    options: dict[str, Any] = {"strides": _spread(stride, n), "dilations": _spread(dilation, n), "group": groups}
    if isinstance(padding, str):
        options["auto_pad"] = {"same": "SAME_UPPER", "valid": "VALID"}[padding]
    else:
        options["pads"] = _spread(padding, n) * 2
    if transposed:
        options["output_padding"] = _spread(rest.get("output_padding", (0,)), n)
    r.put("ConvTranspose" if transposed else "Conv", node, input, weight, *([] if bias is None else [bias]), **options)


def _conv_transposed(r: Any, node: Any, **rest: Any) -> None:
    _conv(r, node, **rest, transposed=True)


def _spread(value: Any, n: int) -> list[int]:
    given = list(value) if isinstance(value, Sequence) else [value]
    return [int(v) for v in (given * n if len(given) == 1 else given)]


def _sum(kind: str) -> Rule:
    def rule(r: Any, node: Any, *, self: Any, other: Any, alpha: Any = 1, **rest: Any) -> None:
        if alpha != 1:
            r.put("Mul", node, other, alpha, output=f"{node.name}/scaled")
            other = f"{node.name}/scaled"
        r.put(kind, node, self, other)

    return rule


def _rsub(r: Any, node: Any, *, self: Any, other: Any, alpha: Any = 1, **rest: Any) -> None:
    if alpha != 1:
        raise InputError(f"{node.name} is rsub with alpha = {alpha}: only 1 is supported")
    r.put("Sub", node, other, self)


def _product(kind: str) -> Rule:
    def rule(r: Any, node: Any, *, self: Any, other: Any, rounding_mode: Any = None, **rest: Any) -> None:
        if rounding_mode is not None:
            raise InputError(f"{node.name} divides and rounds, which is not supported")
        r.put(kind, node, self, other)

    return rule


def _gelu(r: Any, node: Any, *, self: Any, approximate: str = "none", **rest: Any) -> None:
    r.put("Gelu", node, self, approximate=approximate)


def _elu(r: Any, node: Any, *, self: Any, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1, **rest: Any) -> None:
    if scale != 1 and input_scale == 1:
        r.put("Selu", node, self, alpha=float(alpha), gamma=float(scale))
    elif input_scale != 1 and abs(alpha * input_scale - 1) < 1e-15 and scale == 1:
        r.put("Celu", node, self, alpha=float(alpha))
    elif input_scale != 1:
        raise InputError(f"{node.name} is ELU with a scale of its input: only CELU is supported")
    else:
        r.put("Elu", node, self, alpha=float(alpha))


def _leaky(r: Any, node: Any, *, self: Any, negative_slope: Any = 0.01, **rest: Any) -> None:
    r.put("LeakyRelu", node, self, alpha=float(negative_slope))


def _prelu(r: Any, node: Any, *, self: Any, weight: Any, **rest: Any) -> None:
    r.put("PRelu", node, self, weight)


def _clamp(r: Any, node: Any, *, self: Any, min: Any = None, max: Any = None, **rest: Any) -> None:  # noqa: A002
    low, high = rest.get("min_val", min), rest.get("max_val", max)
    limits = {key: float(v) for key, v in (("min", low), ("max", high)) if v is not None}
    r.put("Clip", node, self, **limits)


def _relu6(r: Any, node: Any, *, self: Any, **rest: Any) -> None:
    r.put("Clip", node, self, min=0.0, max=6.0)


def _hard_sigmoid(r: Any, node: Any, *, self: Any, **rest: Any) -> None:
    r.put("HardSigmoid", node, self, alpha=1 / 6, beta=0.5)


def _celu(r: Any, node: Any, *, self: Any, alpha: Any = 1.0, **rest: Any) -> None:
    r.put("Celu", node, self, alpha=float(alpha))


def _selu(r: Any, node: Any, *, self: Any, **rest: Any) -> None:
    r.put("Selu", node, self, alpha=1.6732632423543772848170429916717, gamma=1.0507009873554804934193349852946)


def _softplus(r: Any, node: Any, *, self: Any, beta: Any = 1, **rest: Any) -> None:
    if beta != 1:
        raise InputError(f"{node.name} is softplus with beta = {beta}: only 1 is supported")
    r.put("Softplus", node, self)


def _batch_norm(
    r: Any, node: Any, *, input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, eps: float,  # noqa: A002
    **rest: Any,
) -> None:  # fmt: skip
    size = running_mean.meta["val"].shape[0]
    scale, shift = ([1.0] * size if weight is None else weight), ([0.0] * size if bias is None else bias)
    r.put("BatchNormalization", node, input, scale, shift, running_mean, running_var, epsilon=eps)


def _getitem(r: Any, node: Any, *, args: Any) -> None:
    source, part = args
    split = r.splits.get(source.name)
    if split is not None:
        r.put("Split", node, split[0], axis=split[1], split=split[2], part=part, parts=len(split[2]))
        return
    first = part == 0 and ("batch_norm" in source.name or "max_pool" in source.name or "max_dim" in source.name)
    r.put("Identity" if first else "aten.getitem", node, source)


def _divided(r: Any, node: Any, *, self: Any, dim: int = 0, **rest: Any) -> None:
    parts = [int(part.shape[dim]) for part in node.meta["val"]]
    r.splits[node.name] = self, dim % len(self.meta["val"].shape), parts


def _max_pool(
    r: Any, node: Any, *, self: Any, kernel_size: Any, stride: Any = (), padding: Any = (0,), dilation: Any = (1,),
    ceil_mode: bool = False, **rest: Any,
) -> None:  # fmt: skip
    n = len(self.meta["val"].shape) - 2
    size = _spread(kernel_size, n)
    r.put("MaxPool", node, self, kernel_shape=size, strides=_spread(stride, n) if stride else size,
          pads=_spread(padding, n) * 2, dilations=_spread(dilation, n), ceil_mode=int(ceil_mode))  # fmt: skip


def _joined(r: Any, node: Any, *, tensors: Any, dim: int = 0, **rest: Any) -> None:
    r.put("Concat", node, *tensors, axis=dim % len(node.meta["val"].shape))


def _cut(r: Any, node: Any, *, self: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1,
         **rest: Any) -> None:  # fmt: skip
    last = 2**31 if end is None else int(end)
    r.put("Slice", node, self, starts=[int(start or 0)], ends=[min(last, 2**31)], axes=[dim], steps=[int(step)])


def _one(r: Any, node: Any, *, self: Any, dim: int, index: int, **rest: Any) -> None:
    size = self.meta["val"].shape[dim]
    r.put("Slice", node, self, starts=[index % size], ends=[index % size + 1], axes=[dim], output=f"{node.name}/cut")
    r.put("Reshape", node, f"{node.name}/cut", [int(s) for s in node.meta["val"].shape])


def _padded(r: Any, node: Any, *, self: Any, pad: Any, value: Any = 0.0, mode: str = "constant", **rest: Any) -> None:
    n, sides = len(self.meta["val"].shape), [int(p) for p in pad]
    before, behind = [0] * n, [0] * n
    for k in range(len(sides) // 2):
        before[n - 1 - k], behind[n - 1 - k] = sides[2 * k : 2 * k + 2]
    kind = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}.get(mode, mode)
    r.put("Pad", node, self, pads=[*before, *behind], value=float(value or 0), mode=kind)


def _expanded(r: Any, node: Any, *, self: Any, **rest: Any) -> None:
    r.put("Expand", node, self, [int(s) for s in node.meta["val"].shape])


def _enlarged(r: Any, node: Any, *, self: Any = None, **rest: Any) -> None:
    source = rest.get("input", self)
    old, new = source.meta["val"].shape, node.meta["val"].shape
    r.put("Upsample", node, source, scales=[b / a for a, b in zip(old, new, strict=True)])


def _total(kind: str) -> Rule:
    def rule(r: Any, node: Any, *, self: Any, dim: Any = None, keepdim: bool = False, **rest: Any) -> None:
        axes = list(range(len(self.meta["val"].shape))) if dim is None else _spread(dim, 1)
        r.put(kind, node, self, axes=axes, keepdims=int(keepdim))

    return rule


def _average(
    r: Any, node: Any, *, self: Any, kernel_size: Any, stride: Any = (), padding: Any = (0,), ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: Any = None, **rest: Any,
) -> None:  # fmt: skip
    n = len(self.meta["val"].shape) - 2
    if divisor_override is not None:
        raise InputError(f"{node.name} divides its averages by {divisor_override}, which is not supported")
    size = _spread(kernel_size, n)
    r.put("AveragePool", node, self, kernel_shape=size, strides=_spread(stride, n) if stride else size,
          pads=_spread(padding, n) * 2, ceil_mode=int(ceil_mode), count_include_pad=int(count_include_pad))  # fmt: skip


def _adaptive(r: Any, node: Any, *, self: Any, output_size: Any, **rest: Any) -> None:
    grid = [int(s) for s in self.meta["val"].shape[2:]]
    wanted = [g if w is None else w for g, w in zip(grid, _spread(output_size, len(grid)), strict=True)]
    if any(g % w for g, w in zip(grid, wanted, strict=True)):
        raise InputError(f"{node.name} pools {grid} to {wanted} with windows of different sizes: use AvgPool")
    size = [g // w for g, w in zip(grid, wanted, strict=True)]
    r.put("AveragePool", node, self, kernel_shape=size, strides=size)


def _shaped(r: Any, node: Any, *, self: Any, **rest: Any) -> None:
    r.put("Reshape", node, self, [int(s) for s in node.meta["val"].shape])


def _turned(r: Any, node: Any, *, self: Any, dims: Any = None, dim0: Any = 0, dim1: Any = 1, **rest: Any) -> None:
    n = len(self.meta["val"].shape)
    order = list(range(n)) if dims is None else [d % n for d in dims]
    if dims is None and n > 1:
        order[dim0], order[dim1] = order[dim1], order[dim0]
    r.put("Transpose", node, self, perm=order)


OPERATORS: dict[str, Rule] = {
    "linear": _linear, "addmm": _addmm, "matmul": _matmul, "mm": _matmul, "mv": _matmul, "getitem": _getitem,
    **dict.fromkeys(("conv1d", "conv2d", "convolution"), _conv),
    "add": _sum("Add"), "sub": _sum("Sub"), "rsub": _rsub, "mul": _product("Mul"), "div": _product("Div"),
    "neg": _same("Neg"), "abs": _same("Abs"), "exp": _same("Exp"), "log": _same("Log"),
    "relu": _same("Relu"), "sigmoid": _same("Sigmoid"), "tanh": _same("Tanh"), "erf": _same("Erf"), "sin": _same("Sin"),
    "atan": _same("Atan"), "silu": _same("Swish"), "mish": _same("Mish"), "softsign": _same("Softsign"),
    **dict.fromkeys(("softmax", "_softmax"), _same("Softmax")),
    **dict.fromkeys(("log_softmax", "_log_softmax"), _same("LogSoftmax")),
    "gelu": _gelu, "elu": _elu, "softplus": _softplus,
    **dict.fromkeys(("batch_norm", "_native_batch_norm_legit_no_training"), _batch_norm),
    **dict.fromkeys(("avg_pool1d", "avg_pool2d"), _average),
    **dict.fromkeys(("adaptive_avg_pool1d", "adaptive_avg_pool2d"), _adaptive), "mean": _total("ReduceMean"),
    "sum": _total("ReduceSum"), "amax": _total("ReduceMax"), "maximum": _sum("Max"), "minimum": _sum("Min"),
    "leaky_relu": _leaky, "prelu": _prelu, "_prelu_kernel": _prelu, "clamp": _clamp, "hardtanh": _clamp,
    "relu6": _relu6, "hardsigmoid": _hard_sigmoid, "hardswish": _same("HardSwish"), "celu": _celu, "selu": _selu,
    "log_sigmoid": _same("LogSigmoid"), "log_sigmoid_forward": _same("LogSigmoid"),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d"), _conv_transposed),
    **dict.fromkeys(
        ("max_pool1d", "max_pool2d", "max_pool1d_with_indices", "max_pool2d_with_indices"), _max_pool
    ),
    **dict.fromkeys(("split", "split_with_sizes", "chunk", "unbind_copy", "tensor_split"), _divided),
    "cat": _joined, "slice": _cut, "select": _one, "pad": _padded, "constant_pad_nd": _padded, "expand": _expanded,
    **dict.fromkeys(("upsample_nearest1d", "upsample_nearest2d"), _enlarged),
    **dict.fromkeys(("view", "reshape", "flatten", "squeeze", "unsqueeze", "_unsafe_view", "unflatten"), _shaped),
    **dict.fromkeys(("t", "transpose", "permute", "numpy_T"), _turned),
    **dict.fromkeys(
        ("clone", "detach", "alias", "contiguous", "dropout", "feature_dropout", "lift_fresh_copy"), _same("Identity")
    ),
}  # fmt: skip
