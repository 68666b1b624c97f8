"""Jobs over several processes and devices: the same matrix as one process computes, and one sentence when one dies."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from wideproof.errors import InputError, JobError
from wideproof.kernels import sharded
from wideproof.processes import PLACE, launch, stop, watch

# Rows that no number of processes divides, so that shares are padded.
DATA = ("gram", "sphere:n=37,d=5,separation=0.1", "--prepare", "unit", "--depth", "2", "--quiet")
RING = """
import numpy as np, jax, sys
from tests.cases import NETWORKS
from wideproof.kernels import gram, limit_gram
assert jax.device_count() == 3
rng = np.random.default_rng(0)
out = {}
for name in ("fully-connected-tanh-outputs", "elman-rnn"):
    network = NETWORKS[name]
    x = rng.normal(size=(7, *network.input_shape))
    out[f"{name}/finite"] = gram(network, network.init(0), x).matrix
    out[f"{name}/between"] = gram(network, network.init(0), x, x[:3]).matrix
    out[f"{name}/limit"] = limit_gram(network, x).matrix
    out[f"{name}/x"] = x
np.savez(sys.argv[1], **out)
"""


def wideproof(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "wideproof", *arguments], capture_output=True, text=True, timeout=240, **options
    )


def matrix(path):
    with np.load(path) as stored:
        return stored["matrix"]


@pytest.mark.slow
@pytest.mark.parametrize(("count", "width"), [(2, ()), (4, ()), (4, ("--width", "16"))])
def test_processes_on_loopback_give_the_matrix_of_one(tmp_path, count, width):
    alone, shared = tmp_path / "alone.npz", tmp_path / "shared.npz"
    assert wideproof(*DATA, *width, "--save", str(alone)).returncode == 0
    job = wideproof(*DATA, *width, "--save", str(shared), "--processes", str(count))
    assert (job.returncode, job.stderr) == (0, "")
    np.testing.assert_allclose(matrix(shared), matrix(alone), rtol=0, atol=1e-12 * np.abs(matrix(alone)).max())


def test_a_process_that_dies_ends_the_job_with_a_sentence(tmp_path):
    """The second process is killed while the first waits for it."""
    saved = tmp_path / "gram.npz"
    command = [sys.executable, "-m", "wideproof", *DATA, "--save", str(saved), "--processes", "2"]
    job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    children = []
    while len(children) < 2 and job.poll() is None:
        time.sleep(0.1)
        children = [int(pid) for pid in Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()]
    os.kill(max(children), signal.SIGKILL)
    killed = time.monotonic()
    _, errors = job.communicate(timeout=120)
    assert time.monotonic() - killed < 30
    assert job.returncode == 3
    assert "process 1 of 2 ended (killed by SIGKILL), so the job cannot be finished" in " ".join(errors.split())
    assert not saved.exists()


def test_watch_and_stop():
    sleeper, broken = ("import time; time.sleep(60)", "raise SystemExit(7)")
    running = [subprocess.Popen([sys.executable, "-c", code]) for code in (sleeper, broken)]
    with pytest.raises(JobError, match=r"process 1 of 2 ended \(exit code 7\)"):
        watch(running)
    stop(running)
    assert running[0].returncode == -signal.SIGKILL
    done = [subprocess.Popen([sys.executable, "-c", f"raise SystemExit({code})"]) for code in (0, 1)]
    assert watch(done) == 1


def test_one_process_is_no_job():
    with pytest.raises(InputError, match="needs at least 2 of them, got 1"):
        launch(["gram"], 1)


@pytest.mark.slow
def test_ring_of_three_devices(tmp_path):
    """Three devices in one process: padded shares, an odd ring, several outputs, two sets."""
    from tests.cases import NETWORKS
    from wideproof.kernels import gram, limit_gram

    path = tmp_path / "ring.npz"
    flags = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=3"}
    subprocess.run([sys.executable, "-c", RING, str(path)], check=True, env=flags, timeout=240)
    with np.load(path) as stored:
        found = dict(stored)
    for name in ("fully-connected-tanh-outputs", "elman-rnn"):
        network, x = NETWORKS[name], found[f"{name}/x"]
        expected = {
            "finite": gram(network, network.init(0), x),
            "between": gram(network, network.init(0), x, x[:3]),
            "limit": limit_gram(network, x),
        }
        for kind, one in expected.items():
            np.testing.assert_allclose(
                found[f"{name}/{kind}"], one.matrix, rtol=0, atol=1e-12 * np.abs(one.matrix).max()
            )


def test_rows_in_another_order_are_other_data(monkeypatch):
    x = np.arange(6.0).reshape(3, 2)
    gathered = []

    def gather(mine):
        gathered.append(mine)
        return np.stack([gathered[0], mine])

    monkeypatch.setattr(sharded.multihost_utils, "process_allgather", gather)
    sharded._require_same((x, None))
    sharded._require_same((x.copy(), None))
    for other in (x[::-1], x.reshape(2, 3), x.astype(np.float32)):
        with pytest.raises(InputError, match="different data or weights"):
            sharded._require_same((other, None))


SOLVE = """
import sys
import numpy as np
from wideproof.processes import join, leave
speaks = join()
import jax
from wideproof.estimators import NTKRegressor
rng = np.random.default_rng(0)
x = rng.normal(size=(200, 4))
how = dict(depth=1, preparation="sphere", bias=1.0, ridge=1e-3, solver="cg", rank=16, tol=1e-10)
model = NTKRegressor(**how).fit(x, np.sin(x[:, 0]) + x[:, 1])
if speaks:
    np.savez(sys.argv[1], matrix=model.predict(x[:50] + 0.1), count=jax.process_count(), error=model.error_)
leave()
"""


@pytest.mark.slow
def test_two_processes_solve_together(tmp_path):
    """Conjugate gradients over tiles of a kernel matrix that no process holds: the answer of one process."""
    alone, shared = tmp_path / "alone.npz", tmp_path / "shared.npz"
    subprocess.run([sys.executable, "-c", SOLVE, str(alone)], check=True, timeout=240)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    running = [
        subprocess.Popen([sys.executable, "-c", SOLVE, str(shared)], env=os.environ | {PLACE: f"{k}/2@{address}"})
        for k in range(2)
    ]
    try:
        assert [process.wait(240) for process in running] == [0, 0]
    finally:
        stop(running)
    with np.load(shared) as stored:
        assert stored["count"] == 2
        assert stored["error"] < 1e-6
    np.testing.assert_allclose(matrix(shared), matrix(alone), rtol=0, atol=1e-7)
