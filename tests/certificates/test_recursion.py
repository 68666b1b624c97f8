r"""The recursions of the theory written out once more, for layered networks with one output, in plain loops.

$z_h = W_h x_{h-1}$, $x_h = e_h x_{h-1} + s_h \sigma(z_h)$, $f = a^\top x_H$: per example, for all examples together,
and with the norms of whole products of layers at the anchor. The prover's bounds are these numbers, no looser.
"""

import math

import numpy as np
import pytest

from tests.certificates.making import at, problem
from wideproof.certificates.lipschitz import lipschitz
from wideproof.networks import DeepReLU, FullyConnected, Residual, ResidualReLU, get_activation

NETWORKS = {
    "softplus": FullyConnected(5, 8, 3),
    "hidden only": FullyConnected(5, 8, 2, trained=("hidden",)),
    "tanh": FullyConnected(5, 8, 4, get_activation("tanh")),
    "gelu": FullyConnected(5, 8, 2, get_activation("gelu")),
    "residual": Residual(5, 8, 3, c_res=0.7),
    "residual, hidden only": Residual(5, 8, 3, get_activation("tanh"), trained=("hidden",)),
    "deep ReLU": DeepReLU(5, (7, 9, 8), 3),
    "residual ReLU": ResidualReLU(5, 8, 3, trained=("hidden", "output")),
}


def layers(network, params):
    """Matrices with one row per unit, scales, skips, output weights."""
    nodes = network.graph.layers
    signed = network.units == "columns"
    w = [params[f"W{h + 1}"].T if signed else params[f"W{h + 1}"] for h in range(len(nodes))]
    return w, [node.scale for node in nodes], [node.skip is not None for node in nodes], params["v" if signed else "a"]


def theory(network, params, x, radius, sharp):
    """Per example, and for all examples together."""
    w, s, e, a = layers(network, params)
    f = network.graph.layers[0].activation.known
    first, second = f.lipschitz, f.smoothness
    H, R = len(w), radius
    with_output = "output" in network.trained
    K = H + with_output
    omega = [np.linalg.norm(m, 2) for m in w]
    unit = np.eye(K)

    z, xs = [], [x]
    for h in range(H):
        z.append(xs[-1] @ w[h].T)
        xs.append(e[h] * xs[-1] + s[h] * f.value(z[-1]) if e[h] else s[h] * f.value(z[-1]))
    slope = [f.slope(v) for v in z]
    b, g = [np.zeros(0)] * H, [np.zeros(0)] * H
    b[H - 1] = np.tile(a, (len(x), 1))
    for h in reversed(range(H)):
        g[h] = b[h] * slope[h]
        if h:
            b[h - 1] = e[h] * b[h] + s[h] * g[h] @ w[h] if e[h] else s[h] * g[h] @ w[h]

    def ball(sizes):
        TP, ZP, N = [np.zeros(K)], [], [sizes[0]]
        for h in range(H):
            ZP.append(omega[h] * TP[-1] + N[-1] * unit[h])
            TP.append(e[h] * TP[-1] + s[h] * first * ZP[-1])
            N.append((sizes[h + 1] if h + 1 < H else 0.0) + R * np.linalg.norm(TP[-1]))
        return ZP, TP, N

    def plain(N, d, far):
        """Layer by layer; slopes in the ball are at most L1, and at most `far` above those at the anchor."""
        T, Z = [np.zeros(K)], []
        for h in range(H):
            Z.append((omega[h] + R) * T[-1] + N[h] * unit[h])
            T.append(e[h] * T[-1] + s[h] * min(first, d[h] + far[h]) * Z[-1])
        return Z, T

    def whole_products(norms, TP, d, far):
        """From the norms at the anchor; what is added grows with the radius."""
        (zeta, tau), T, Z, off = norms, [np.zeros(K)], [], np.zeros(K)
        for h in range(H):
            more = omega[h] * off + R * T[-1] + R * np.linalg.norm(TP[h]) * unit[h]
            Z.append(zeta[h] + more)
            off = e[h] * off + s[h] * (d[h] * more + far[h] * Z[-1])
            T.append(tau[h] + off)
        return Z, T

    def products(i):
        """The norms of ∂z_h/∂z_j and ∂x_h/∂z_j."""
        a, c = np.zeros((H, K)), np.zeros((H, K))
        for j in range(H):
            z_by = np.eye(len(w[j]))
            x_by = s[j] * slope[j][i][:, None] * z_by
            a[j, j], c[j, j] = 1.0, np.linalg.norm(x_by, 2)
            for h in range(j + 1, H):
                z_by = w[h] @ x_by
                x_by = s[h] * slope[h][i][:, None] * z_by + (x_by if e[h] else 0)
                a[h, j], c[h, j] = np.linalg.norm(z_by, 2), np.linalg.norm(x_by, 2)
        return a, c

    def cross(u, v):
        return np.outer(u, v) + np.outer(v, u)

    def form(NB, NG, Z, other, T):
        q = np.zeros((K, K))
        for h in range(H):
            q += s[h] * (second * NB[h] * cross(Z[h], other[h]) / 2 + NG[h] * cross(unit[h], T[h]))
        return q + cross(unit[H], T[H]) if with_output else q

    def lengths(i):
        return np.array([np.linalg.norm(v[i]) for v in xs[:H]] + [0.0] * with_output)

    betas, seen = [], []
    gains = [products(i) for i in range(len(x))]
    for i in range(len(x)):
        ZP, TP, N = ball([np.linalg.norm(v[i]) for v in xs])
        far = [second * R * np.linalg.norm(v) for v in ZP]
        d = [np.abs(slope[h][i]).max() for h in range(H)]
        DB = [np.zeros(K)] * H
        DB[H - 1] = unit[H] if with_output else np.zeros(K)
        NB, NG = [0.0] * H, [0.0] * H
        for h in reversed(range(H)):
            top, size, length = np.abs(b[h][i]).max(), np.linalg.norm(b[h][i]), np.linalg.norm(g[h][i])
            gp = second * top * ZP[h] + first * DB[h]
            far_b = R * np.linalg.norm(DB[h])
            NB[h] = top + far_b
            NG[h] = min(first * (size + far_b), length + R * np.linalg.norm(gp))
            if h:
                DB[h - 1] = e[h] * DB[h] + s[h] * (NG[h] * unit[h] + omega[h] * gp)
        Z, T = whole_products([a * lengths(i) for a in gains[i]], TP, d, far) if sharp else plain(N, d, far)
        betas.append(np.linalg.eigvalsh(form(NB, NG, Z, Z, T))[-1])
        seen.append((NB, NG, Z, d, far))
    _, TP, N = ball([np.linalg.norm(v, 2) for v in xs])
    NB, NG, widest, d, far = (np.max([one[k] for one in seen], axis=0) for k in range(5))
    if sharp:
        spectral = np.array([np.linalg.norm(v, 2) for v in xs[:H]] + [0.0] * with_output)
        each = [np.array([pair[k] * lengths(i) for i, pair in enumerate(gains)]) for k in (0, 1)]
        most = [np.max([pair[k] for pair in gains], axis=0) * spectral for k in (0, 1)]
        norms = [np.minimum(m, np.sqrt((v**2).sum(axis=0))) for m, v in zip(most, each, strict=True)]
        Z, T = whole_products(norms, TP, d, far)
    else:
        Z, T = plain(N, d, far)
    return math.hypot(*betas), np.linalg.eigvalsh(form(NB, NG, list(widest), Z, T))[-1]


@pytest.mark.parametrize("sharp", [False, True])
@pytest.mark.parametrize("radius", [0.0, 0.02, 0.5])
@pytest.mark.parametrize("name", NETWORKS)
def test_the_bounds_are_those_of_the_theory(name, radius, sharp):
    network = NETWORKS[name]
    params, x, y = problem(network)
    ways = [theory(network, params, x, radius, way) for way in ((False, True) if sharp else (False,))]
    per_example, batch = np.min(ways, axis=0)
    found = lipschitz(at(network, params, x, y, sharp, "float64"), radius)
    assert found.per_example == pytest.approx(per_example, rel=1e-8)
    assert found.batch == pytest.approx(batch, rel=1e-8)
    enclosed = lipschitz(at(network, params, x, y, sharp), radius)
    assert np.all(np.array(enclosed) >= np.array(found) * (1 - 1e-12))
    assert np.all(np.array(enclosed) <= np.array(found) * (1 + 1e-4))


def test_another_network_gives_other_numbers():
    """The comparison can fail."""
    network = NETWORKS["softplus"]
    params, x, y = problem(network)
    _, batch = theory(network, params | {"W2": 1.001 * params["W2"]}, x, 0.1, False)
    assert lipschitz(at(network, params, x, y, level="float64"), 0.1).batch != pytest.approx(batch, rel=1e-6)
