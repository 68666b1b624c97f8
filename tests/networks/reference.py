"""The networks and their gradients in plain NumPy, one example and one loop at a time, from the papers' formulas.

Nothing here is shared with the package but the names of the parameters. Each function returns the outputs and, for a
cotangent of them, the gradient of their inner product with respect to every parameter, by the printed backward
recursions (not by automatic differentiation).
"""

import numpy as np
from scipy.special import erf, expit, ndtr

PHI = {
    "softplus": (lambda z: np.logaddexp(0, z), expit),
    "tanh": (np.tanh, lambda z: 1 - np.tanh(z) ** 2),
    "swish": (lambda z: z * expit(z), lambda z: expit(z) + z * expit(z) * expit(-z)),
}
C_SIGMA = {"softplus": 1.0854865029883434, "tanh": 2.5361754332174535, "swish": 2.810761124074471}


def inner(z):
    return np.sqrt(8 / np.pi) * (z + 0.044715 * z**3)


def gelu_tanh_slope(z):
    s, t = expit(inner(z)), expit(-inner(z))
    return s + z * s * t * np.sqrt(8 / np.pi) * (1 + 0.134145 * z**2)


VALUES = {
    "softplus": (lambda z: np.logaddexp(0, z), expit),
    "sigmoid": (expit, lambda z: expit(z) * expit(-z)),
    "tanh": PHI["tanh"],
    "erf": (erf, lambda z: 2 / np.sqrt(np.pi) * np.exp(-z * z)),
    "arctan": (np.arctan, lambda z: 1 / (1 + z * z)),
    "sin": (np.sin, np.cos),
    "swish": PHI["swish"],
    "gelu": (lambda z: z * ndtr(z), lambda z: ndtr(z) + z * np.exp(-z * z / 2) / np.sqrt(2 * np.pi)),
    "mish": (
        lambda z: z * np.tanh(np.log1p(np.exp(z))),
        lambda z: np.tanh(np.log1p(np.exp(z))) + z * expit(z) / np.cosh(np.log1p(np.exp(z))) ** 2,
    ),
    "elu": (lambda z: np.where(z > 0, z, np.expm1(z)), lambda z: np.where(z > 0, 1, np.exp(z))),
    "gelu_tanh": (lambda z: z * expit(inner(z)), gelu_tanh_slope),
    "ramp": (
        lambda z: np.where(z > 1, z, np.where(z < -1, 0.0, (z + 1) ** 2 / 4)),
        lambda z: np.clip((z + 1) / 2, 0, 1),
    ),
    "softsign": (lambda z: z / (1 + abs(z)), lambda z: 1 / (1 + abs(z)) ** 2),
    "identity": (lambda z: z, lambda z: np.ones_like(z)),
    "relu": (lambda z: z * (z > 0), lambda z: 1.0 * (z > 0)),
}


def fully_connected(params, x, c, activation, depth):
    """Du et al. (2019), eq. (2); backward as in Section 5: delta^(h-1) = W^T gvec."""
    sigma, slope = PHI[activation]
    m = params["W1"].shape[0]
    scale = np.sqrt(C_SIGMA[activation] / m)
    layers, zs = [x], []
    for h in range(1, depth + 1):
        zs.append(params[f"W{h}"] @ layers[-1])
        layers.append(scale * sigma(zs[-1]))
    a = np.atleast_2d(params["a"])
    c = np.atleast_1d(c)
    grad = {"a": np.outer(c, layers[-1]).reshape(params["a"].shape)}
    delta = a.T @ c
    for h in range(depth, 0, -1):
        gvec = scale * slope(zs[h - 1]) * delta
        grad[f"W{h}"] = np.outer(gvec, layers[h - 1])
        delta = params[f"W{h}"].T @ gvec
    return (a @ layers[-1]), layers[1:], grad


def residual(params, x, c, activation, depth, c_res):
    """Du et al. (2019), eq. (3)."""
    sigma, slope = PHI[activation]
    m = params["W1"].shape[0]
    scales = [np.sqrt(C_SIGMA[activation] / m)] + [c_res / (depth * np.sqrt(m))] * (depth - 1)
    layers, zs = [x], []
    for h in range(1, depth + 1):
        zs.append(params[f"W{h}"] @ layers[-1])
        skip = layers[-1] if h > 1 else 0
        layers.append(skip + scales[h - 1] * sigma(zs[-1]))
    a, c = np.atleast_2d(params["a"]), np.atleast_1d(c)
    grad = {"a": np.outer(c, layers[-1]).reshape(params["a"].shape)}
    delta = a.T @ c
    for h in range(depth, 0, -1):
        gvec = scales[h - 1] * slope(zs[h - 1]) * delta
        grad[f"W{h}"] = np.outer(gvec, layers[h - 1])
        delta = (delta if h > 1 else 0) + params[f"W{h}"].T @ gvec
    return a @ layers[-1], layers[1:], grad


def im2col(x, q):
    """Column l stacks the q pixels around pixel l, channel by channel; outside is zero."""
    channels, pixels = x.shape
    out = np.zeros((channels * q, pixels))
    for pixel in range(pixels):
        for channel in range(channels):
            for o in range(q):
                source = pixel + o - q // 2
                if 0 <= source < pixels:
                    out[channel * q + o, pixel] = x[channel, source]
    return out


def col2im(columns, channels, q):
    """The adjoint of `im2col`: fold and add."""
    pixels = columns.shape[1]
    out = np.zeros((channels, pixels))
    for pixel in range(pixels):
        for channel in range(channels):
            for o in range(q):
                source = pixel + o - q // 2
                if 0 <= source < pixels:
                    out[channel, source] += columns[channel * q + o, pixel]
    return out


def conv_residual(params, x, c, activation, depth, c_res, q):
    """Du et al. (2019), Section 7: maps are channels x pixels."""
    sigma, slope = PHI[activation]
    m = params["W1"].shape[0]
    scales = [np.sqrt(C_SIGMA[activation] / m)] + [c_res / (depth * np.sqrt(m))] * (depth - 1)
    maps, zs, cols = [x], [], []
    for h in range(1, depth + 1):
        cols.append(im2col(maps[-1], q))
        zs.append(params[f"W{h}"] @ cols[-1])
        skip = maps[-1] if h > 1 else 0
        maps.append(skip + scales[h - 1] * sigma(zs[-1]))
    a = params["a"] if params["a"].ndim == 3 else params["a"][None]
    c = np.atleast_1d(c)
    grad = {"a": np.einsum("k,rl->krl", c, maps[-1]).reshape(params["a"].shape)}
    delta = np.einsum("krl,k->rl", a, c)
    for h in range(depth, 0, -1):
        gvec = scales[h - 1] * slope(zs[h - 1]) * delta
        grad[f"W{h}"] = gvec @ cols[h - 1].T
        back = col2im(params[f"W{h}"].T @ gvec, maps[h - 1].shape[0], q)
        delta = (delta if h > 1 else 0) + back
    return np.einsum("krl,rl->k", a, maps[-1]), maps[1:], grad


def deep_relu(params, x, c, depth):
    """Zou et al. (2018), Section 3: b_l = Sigma_l W_{l+1} ... Sigma_L v, gradient x_{l-1} b_l^T; 1{z > 0}."""
    layers, masks = [x], []
    for i in range(1, depth + 1):
        z = params[f"W{i}"].T @ layers[-1]
        masks.append((z > 0).astype(float))
        layers.append(masks[-1] * z)
    grad = {"v": c * layers[-1]}
    b = masks[-1] * params["v"] * c
    for i in range(depth, 0, -1):
        grad[f"W{i}"] = np.outer(layers[i - 1], b)
        if i > 1:
            b = masks[i - 2] * (params[f"W{i}"] @ b)
    return params["v"] @ layers[-1], layers[1:], grad


def residual_relu(params, x, c, depth, theta):
    """Frei et al. (2019): q_{l-1} = q_l + theta W_l Sigma_l q_l, gradient theta x_{l-1} (Sigma_l q_l)^T; 1{z >= 0}."""
    layers, masks = [x], []
    for i in range(1, depth + 2):
        z = params[f"W{i}"].T @ layers[-1]
        masks.append((z >= 0).astype(float))
        branch = masks[-1] * z
        layers.append(layers[-1] + theta * branch if 2 <= i <= depth else branch)
    grad = {"v": c * layers[-1]}
    q = params["v"] * c
    for i in range(depth + 1, 0, -1):
        inside = 2 <= i <= depth
        factor = theta if inside else 1
        grad[f"W{i}"] = factor * np.outer(layers[i - 1], masks[i - 1] * q)
        q = (q if inside else 0) + factor * params[f"W{i}"] @ (masks[i - 1] * q)
    return params["v"] @ layers[-1], layers[1:], grad


def deep_rnn(weights, x, c):
    """Allen-Zhu et al. (2018), layers `[(A, W), ...]` and `B`: e_l = D_l (B^T c_l + W^T e_{l+1}); 1{g >= 0}."""
    layers, b = weights
    inputs, hidden, masks = x, [], []
    for a, w in layers:
        h, mask, state = [], [], np.zeros(w.shape[0])
        for token in inputs:
            g = w @ state + a @ token
            mask.append((g >= 0).astype(float))
            state = mask[-1] * g
            h.append(state)
        hidden.append(np.array(h))
        masks.append(np.array(mask))
        inputs = hidden[-1]
    outputs = hidden[-1] @ b.T
    grad_b = c.T @ hidden[-1]
    above = c @ b
    grads = []
    for j in range(len(layers) - 1, -1, -1):
        a, w = layers[j]
        below = x if j == 0 else hidden[j - 1]
        e = np.zeros_like(hidden[j])
        later = np.zeros(w.shape[0])
        for step in range(len(x) - 1, -1, -1):
            e[step] = masks[j][step] * (above[step] + w.T @ later)
            later = e[step]
        grads.append((e.T @ below, e[1:].T @ hidden[j][:-1]))
        above = e @ a
    return outputs, hidden, grads[::-1], grad_b


def fact_2_5(w, a, b, x, c):
    """Allen-Zhu et al. (2018), Fact 2.5, literally: the triple sum over samples' times with Back matrices."""
    h, d = [np.zeros(len(w))], [None]
    for token in x:
        g = w @ h[-1] + a @ token
        d.append((g >= 0).astype(float))
        h.append(d[-1] * g)
    grad = np.zeros_like(w)
    length = len(x)
    for end in range(2, length + 1):
        for step in range(1, end):
            back = b.copy()
            for t in range(end, step + 1, -1):
                back = (back * d[t]) @ w
            grad += np.outer(d[step + 1] * (back.T @ c[end - 1]), h[step])
    return grad
