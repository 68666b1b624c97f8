"""`wideproof follow`: a training run proved from its first step, in the terminal."""

import json

import pytest

TRAIN = ("train", "sphere:n=6,d=4,separation=0.5,seed=1", "--width", 16, "--depth", 2, "--steps", 8, "--out", "run")


@pytest.mark.parametrize("more", [("--batch", 3), pytest.param((), marks=pytest.mark.slow)])
def test_a_run_of_sgd_is_followed(cli, tmp_path, more):
    assert cli(*TRAIN, "--network", "deep-relu", "--loss", "logistic", "--step-size", 0.1, *more).code == 0
    answer = cli("follow", "run", "--json")
    assert answer.code == 0, answer
    found = json.loads(answer.out)
    assert found["theorem"] == "finite"
    assert found["start"]["steps"] == 8
    assert (tmp_path / "run-certificate" / "certificate.json").exists()
    again = cli("verify", "run-certificate")
    assert again.code == 0
    assert again.out.startswith("proved: Stochastic gradient" if more else "proved: Gradient descent")


def test_nothing_to_follow(cli):
    answer = cli("follow", "nowhere")
    assert answer.code == 2
    assert "nowhere" in answer.err
