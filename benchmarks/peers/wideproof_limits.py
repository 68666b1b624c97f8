"""One infinite-width Gram matrix by wideproof; started by ../limits.py."""

from __future__ import annotations

import time

import numpy as np
from common import load_job, measure, memory_field, report, versions

from wideproof.kernels import limit_gram
from wideproof.kernels.spectrum import spectrum
from wideproof.networks import FullyConnected, get_activation


def main() -> None:
    job, arrays = load_job()
    x = arrays["x"]
    network = FullyConnected(x.shape[1], job.get("width", 1024), job["depth"], get_activation(job["activation"]))
    limits = {"memory": job["memory"]} if job.get("memory") else {}
    result, values = measure(lambda: limit_gram(network, x, **limits), job["rounds"], job["budget"])
    i, j = np.array(job["pairs"]).T
    values["entries"] = np.asarray(result)[i, j].tolist()
    if job.get("eigenvalue"):
        start = time.perf_counter()
        found = spectrum(result)
        values["spectrum_seconds"] = time.perf_counter() - start
        values["smallest_eigenvalue"], values["radius"] = found.smallest.value, found.smallest.radius
        values["highest_resident_gb"] = memory_field("VmHWM") / 1e9  # everything, imports too
    report(**values, versions=versions("wideproof", "jax", "jaxlib", "numpy", "scipy"))


if __name__ == "__main__":
    main()
