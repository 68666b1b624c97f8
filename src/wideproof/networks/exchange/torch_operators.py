"""PyTorch's operators in ONNX's words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wideproof.errors import InputError

Rule = Callable[..., None]


def _same(kind: str) -> Rule:
    return lambda r, node, self, **rest: r.put(kind, node, self)


def _linear(r: Any, node: Any, *, input: Any, weight: Any, bias: Any = None, **rest: Any) -> None:  # noqa: A002
    r.put("Gemm", node, input, weight, *([] if bias is None else [bias]), transB=1)


def _addmm(r: Any, node: Any, *, self: Any, mat1: Any, mat2: Any, beta: Any = 1, alpha: Any = 1, **rest: Any) -> None:
    r.put("Gemm", node, mat1, mat2, self, alpha=float(alpha), beta=float(beta))


def _matmul(r: Any, node: Any, *, self: Any, other: Any = None, mat2: Any = None, **rest: Any) -> None:
    r.put("MatMul", node, self, other if mat2 is None else mat2)


def _conv(
    r: Any, node: Any, *, input: Any, weight: Any, bias: Any = None, stride: Any = (1,), padding: Any = (0,),  # noqa: A002
    dilation: Any = (1,), groups: int = 1, transposed: bool = False, **rest: Any,
) -> None:  # fmt: skip
    n = len(weight.meta["val"].shape) - 2
    if transposed:
        raise InputError(f"{node.name} is a transposed convolution, which is not supported")
    options: dict[str, Any] = {"strides": _spread(stride, n), "dilations": _spread(dilation, n), "group": groups}
    if isinstance(padding, str):
        options["auto_pad"] = {"same": "SAME_UPPER", "valid": "VALID"}[padding]
    else:
        options["pads"] = _spread(padding, n) * 2
    r.put("Conv", node, input, weight, *([] if bias is None else [bias]), **options)


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
    if scale != 1 or input_scale != 1:
        raise InputError(f"{node.name} is SELU, which is not supported: use ELU")
    r.put("Elu", node, self, alpha=float(alpha))


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
    kind = "Identity" if args[1] == 0 and "batch_norm" in args[0].name else "aten.getitem"
    r.put(kind, node, args[0])


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


def _mean(r: Any, node: Any, *, self: Any, dim: Any = None, keepdim: bool = False, **rest: Any) -> None:
    axes = list(range(len(self.meta["val"].shape))) if dim is None else _spread(dim, 1)
    r.put("ReduceMean", node, self, axes=axes, keepdims=int(keepdim))


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
    **dict.fromkeys(("adaptive_avg_pool1d", "adaptive_avg_pool2d"), _adaptive), "mean": _mean,
    **dict.fromkeys(("view", "reshape", "flatten", "squeeze", "unsqueeze", "_unsafe_view", "unflatten"), _shaped),
    **dict.fromkeys(("t", "transpose", "permute", "numpy_T"), _turned),
    **dict.fromkeys(
        ("clone", "detach", "alias", "contiguous", "dropout", "feature_dropout", "lift_fresh_copy"), _same("Identity")
    ),
}  # fmt: skip
