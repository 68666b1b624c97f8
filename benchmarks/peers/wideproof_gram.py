"""One Gram matrix by wideproof; started by ../gram.py."""

from __future__ import annotations

import numpy as np
from common import gram_sample, load_job, measure, report, versions

from wideproof.kernels import gram
from wideproof.networks import ConvResidual, ElmanRNN, FullyConnected

KINDS = {"fc": FullyConnected, "rnn": ElmanRNN, "conv": ConvResidual}


def main() -> None:
    job, arrays = load_job()
    network = KINDS[job["kind"]](**job["sizes"])
    x, k = arrays.pop("x"), job["count"]
    matrix, times = measure(
        lambda: np.asarray(gram(network, arrays, x, precision=job["precision"])), job["rounds"], job["budget"]
    )

    def block(i: int, j: int) -> np.ndarray:
        return matrix[i * k : (i + 1) * k, j * k : (j + 1) * k]

    trace = float(np.sum(np.diagonal(matrix), dtype=np.float64))
    report(**times, **gram_sample(block, trace, job), versions=versions("wideproof", "jax", "jaxlib", "numpy"))


if __name__ == "__main__":
    main()
