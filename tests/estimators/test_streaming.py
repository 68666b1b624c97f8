"""Conjugate gradients without the matrix against the matrix solved directly; what is kept on disk; the stated bound."""

import os
import signal
import subprocess
import sys
import textwrap
import time
import warnings

import numpy as np
import pytest

from wideproof.errors import InputError
from wideproof.estimators import NTKClassifier, NTKRegressor, checkpoint, streaming
from wideproof.estimators.checkpoint import Checkpoint, digest_of
from wideproof.estimators.limit_kernel import LimitKernel
from wideproof.estimators.nystrom import Nystrom, StreamedNystrom
from wideproof.estimators.solvers import ConjugateGradients


@pytest.fixture
def problem(rng):
    x = rng.normal(size=(150, 4))
    x /= np.linalg.norm(x, axis=1)[:, None]
    return x, rng.normal(size=(150, 2)), rng.uniform(0.5, 2, size=150)


@pytest.mark.parametrize("activation", ["relu", "erf"])
def test_both_preconditioners_are_the_approximation_and_below_the_matrix(problem, activation):
    x, y, weight = problem
    kernel, root, marks, ridge = LimitKernel(activation=activation), np.sqrt(weight), np.arange(0, 150, 7), 0.3
    matrix = root[:, None] * kernel(x) * root
    corner = matrix[np.ix_(marks, marks)]
    near = matrix[:, marks] @ np.linalg.solve(corner, matrix[marks])
    wanted = np.linalg.solve(near + ridge * np.eye(150), y)
    assert np.linalg.eigvalsh(matrix - near)[0] > -1e-9
    np.testing.assert_allclose(Nystrom.build(matrix[:, marks], marks).solve(ridge, y), wanted, atol=1e-8)
    made = StreamedNystrom.build(kernel.streamed(x).columns(marks), marks, root, ridge)
    np.testing.assert_allclose(made.solve(ridge, y), wanted, atol=1e-8)
    with pytest.raises(ValueError, match="built for the ridge"):
        made.solve(0.1, y)


@pytest.mark.parametrize("rough", [False, True])
def test_the_solution_and_the_bound(problem, rough):
    x, y, _ = problem
    kernel, marks, ridge = LimitKernel(activation="erf"), np.arange(0, 150, 10), 0.05
    matrix = kernel(x)
    single = matrix.astype(np.float32)
    solver = ConjugateGradients(
        lambda v: matrix @ v, Nystrom.build(matrix[:, marks], marks), ridge, 1e-9, 200,
        (lambda v: (single @ v.astype(np.float32)).astype(float)) if rough else None,
    )  # fmt: skip
    seen = list(solver.iterates(y))
    wanted = np.linalg.solve(matrix + ridge * np.eye(150), y)
    np.testing.assert_allclose(seen[-1].beta, wanted, atol=1e-6)
    assert any(here.rough for here in seen) == rough
    new = kernel(np.random.default_rng(1).normal(size=(30, 4)), x)
    size = np.sqrt(np.max(kernel.diagonal(x)))
    for here in (seen[0], seen[len(seen) // 2], seen[-1]):
        residual = y - matrix @ here.beta - ridge * here.beta
        true = np.abs(kernel(x) @ (here.beta - wanted)).max() / size
        assert true <= solver.error(residual) * (1 + 1e-9)
        # The preconditioner's half of the bound is what makes it sharper than the plain one.
        assert solver.error(residual) <= np.linalg.norm(residual, axis=0).max() / (2 * np.sqrt(ridge))
    assert new.shape == (30, 150)


def test_steps_in_float32_that_do_not_help_are_given_up(problem):
    x, y, _ = problem
    matrix, ridge, marks = LimitKernel(activation="erf")(x), 0.05, np.arange(0, 150, 10)
    noise = np.random.default_rng(0).normal(size=matrix.shape)
    solver = ConjugateGradients(
        lambda v: matrix @ v, Nystrom.build(matrix[:, marks], marks), ridge, 1e-9, 300, lambda v: (matrix + noise) @ v
    )
    seen = list(solver.iterates(y))
    assert seen[0].rough
    assert not seen[-1].rough
    np.testing.assert_allclose(seen[-1].beta, np.linalg.solve(matrix + ridge * np.eye(150), y), atol=1e-6)


@pytest.mark.parametrize("streamed", [pytest.param(False, marks=pytest.mark.slow), True])
def test_estimators_agree_with_cholesky(problem, streamed, monkeypatch):
    monkeypatch.setattr(streaming, "FEWEST_FOR_ROUGH", 10)
    x, y, weight = problem
    settings = {"activation": "erf", "ridge": 0.01, "rank": 20, "tol": 1e-10}
    memory = 4 * 8 * 150 * 20 - 1 if streamed else 1 << 30
    iterated = NTKRegressor(solver="cg", memory=memory, **settings).fit(x, y, weight)
    direct = NTKRegressor(solver="cholesky", **settings).fit(x, y, weight)
    assert iterated.n_iter_ > 0
    off = np.abs(iterated.predict(x) - direct.predict(x)).max()
    assert off <= iterated.error_ * np.sqrt(iterated._limit_kernel().diagonal(iterated.X_fit_).max()) + 1e-10
    assert off < 1e-6


def test_a_checkpoint_goes_on_with_the_same_bits(problem, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "SECONDS", 0.0)
    monkeypatch.setattr(streaming, "FEWEST_FOR_ROUGH", 10)
    x, y, _ = problem
    settings = {"activation": "erf", "ridge": 1e-3, "rank": 10, "tol": 1e-10, "solver": "cg"}
    whole = NTKRegressor(**settings).fit(x, y)
    folder = tmp_path / "deep" / "kept"
    steps = []
    saved = Checkpoint.save

    def stops(self, here):
        self.every = 0.0
        saved(self, here)
        steps.append(here.step)
        if here.step == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "save", stops)
    with pytest.raises(KeyboardInterrupt):
        NTKRegressor(**settings, checkpoint=folder).fit(x, y)
    monkeypatch.setattr(Checkpoint, "save", saved)
    assert (folder / checkpoint.NAME).exists()
    with pytest.raises(InputError, match="belongs to another problem"):
        NTKRegressor(**{**settings, "ridge": 2e-3}, checkpoint=folder).fit(x, y)
    resumed = NTKRegressor(**settings, checkpoint=folder).fit(x, y)
    np.testing.assert_array_equal(resumed.dual_coef_, whole.dual_coef_)
    assert resumed.n_iter_ == whole.n_iter_ > 5
    assert list(folder.iterdir()) == []


@pytest.mark.slow  # the same without a process of its own is above
def test_a_killed_fit_resumes_to_the_same_bits(tmp_path, monkeypatch):
    kept = tmp_path / "kept"
    script = f"""
        import time
        from tests.estimators.test_streaming import KILLED, killed_problem
        from wideproof.estimators import NTKRegressor, checkpoint, solvers

        step = solvers.ConjugateGradients._step
        solvers.ConjugateGradients._step = lambda self, here: time.sleep(0.1) or step(self, here)
        begin = checkpoint.Checkpoint.__init__
        checkpoint.Checkpoint.__init__ = lambda self, folder, digest: begin(self, folder, digest, every=0.0)
        NTKRegressor(**KILLED, checkpoint={str(kept)!r}).fit(*killed_problem())
    """
    child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)])
    file, end = kept / checkpoint.NAME, time.monotonic() + 100
    while not file.exists() and child.poll() is None and time.monotonic() < end:
        time.sleep(0.02)
    assert child.poll() is None
    time.sleep(0.5)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    assert file.exists()
    resumed = NTKRegressor(**KILLED, checkpoint=kept).fit(*killed_problem())
    whole = NTKRegressor(**KILLED).fit(*killed_problem())
    np.testing.assert_array_equal(resumed.dual_coef_, whole.dual_coef_)
    assert resumed.n_iter_ == whole.n_iter_ > 20


KILLED = {"activation": "erf", "ridge": 1e-3, "rank": 10, "tol": 1e-9, "solver": "cg"}


def killed_problem():
    rng = np.random.default_rng(3)
    return rng.normal(size=(200, 3)), rng.normal(size=200)


def test_a_full_disk_is_told_and_the_solve_goes_on(problem, tmp_path, monkeypatch):
    def full(path, arrays, told):
        raise InputError(f"cannot write {path}: No space left on device; free some space or choose another folder")

    monkeypatch.setattr(checkpoint, "write_tensors", full)
    x, y, _ = problem
    monkeypatch.setattr(Checkpoint, "every", 0.0)
    kept = Checkpoint(tmp_path / "kept", "digest", every=0.0)
    solver = NTKRegressor(activation="erf", ridge=1e-3, rank=10, solver="cg")
    here = next(iter(_iterates(x, y)))
    with pytest.warns(RuntimeWarning, match="goes on without checkpoints.*No space left on device"):
        kept.save(here)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept.save(here)
    assert not kept.path.exists()
    assert solver.fit(x, y).n_iter_ > 0


def _iterates(x, y):
    matrix = LimitKernel(activation="erf")(x)
    marks = np.arange(0, 150, 10)
    yield from ConjugateGradients(lambda v: matrix @ v, Nystrom.build(matrix[:, marks], marks), 0.1, 1e-6, 9).iterates(
        y
    )


def test_digests_tell_problems_apart():
    x = np.arange(6.0)
    assert digest_of(x, 1) == digest_of(x.copy(), 1)
    assert len({digest_of(x, 1), digest_of(x, 2), digest_of(x.reshape(2, 3), 1), digest_of(x.astype("f4"), 1)}) == 4


def test_the_course_is_shown_if_asked(problem, capsys):
    x, y, _ = problem
    NTKClassifier(activation="erf", ridge=0.1, rank=10, solver="cg", verbose=1).fit(x, y[:, 0] > 0)
    assert "residual" in capsys.readouterr().err
