"""The network of a verdict is written as formulas: what another network would change is seen in the sentence."""

import copy
import json
import math
import random
import re
from typing import Any

import numpy as np
import pytest

from tests.certificates.rewriting import parts, put
from tests.verify import corpus, making, stated
from tests.verify.test_mutated_graphs import mutate
from wideproof.networks import (
    ConvResidual,
    DeepReLU,
    DeepRNN,
    ElmanRNN,
    FullyConnected,
    Network,
    Residual,
    ResidualReLU,
)
from wideproof_verify import verify
from wideproof_verify.graphs import MOST_LINES
from wideproof_verify.refusals import MalformedError

FAMILIES: dict[str, Network] = {
    "fully-connected": FullyConnected(5, 8, 3),
    "residual": Residual(5, 7, 3, c_res=0.7),
    "conv-residual": ConvResidual(2, 4, 5, 3),
    "deep-relu": DeepReLU(5, (8, 6, 8), 3),
    "residual-relu": ResidualReLU(5, 8, 3, residual_scale=0.4),
    "elman-rnn": ElmanRNN(4, 9, 4, outputs=2),
    "deep-rnn": DeepRNN(4, 8, 3, depth=2),
}
EVERY = FAMILIES | {name: network for name, network in making.SMALL.items() if name.startswith("own")}


def words(config: dict[str, Any], params: dict[str, Any]) -> str:
    return str(making.read(config, params)[0])


def case(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    return making.config(EVERY[name]), making.problem(EVERY[name], n=1)[0]


def test_a_network_of_one_layer():
    config, params = making.config(FullyConnected(3, 8, 1)), making.problem(FullyConnected(3, 8, 1), n=1)[0]
    config["nodes"][0]["scale"] = 0.35
    assert words(config, params) == (
        "the network x1 = 0.35 softplus(W1 u); f = a x1 (1 hidden layer of 8 units, 1 output, all weights trained)"
    )


def test_skips_maps_biases_and_means():
    assert words(*case("own-image")) == (
        "the network x1 = softplus(W1 windows(u; size 3x3, stride 1x1, padding 1x1) + b1); "
        "x2 = x1 + tanh(W2 windows(x1; size 3x3, stride 1x1, padding 1x1) + b2); "
        "x3 = means(x2; size 2x2, stride 2x2, padding 0x0); x4 = sigmoid(W3 flat(x3) + b3); f = W4 x4 + b4 "
        "(hidden layers: 3 of 2, 1 of 3 units, 1 output, all weights trained)"
    )


def test_several_inputs_and_sites():
    assert words(*case("elman-rnn")) == (
        "the network x1 = relu(A u1); x2 = relu(W x1 + A u2); x3 = relu(W x2 + A u3); x4 = relu(W x3 + A u4); "
        "f = B x at x2, x3, x4 (4 hidden layers of 9 units, 2 outputs, trained: W)"
    )


def test_shared_weights_one_sided_padding_and_sums_without_weights():
    text = words(*case("own-tied"))
    assert text.count("U windows(") == 2
    assert "size 2, stride 1, padding 1+0" in text
    assert "x5 = T x3 + x3" in text
    assert "0.5 (V windows(" in text  # a scale of a sum is a scale of all of it


@pytest.mark.parametrize("name", EVERY)
def test_scales_are_printed_exactly(name):
    """Every float64 number comes back from the sentence, and another one in the last place is another sentence."""
    config, params = case(name)
    for k, node in enumerate(config["nodes"]):
        for scale in (math.nextafter(node["scale"], 0.0), math.nextafter(node["scale"], math.inf), 1 / 3, 1e-300):
            changed = copy.deepcopy(config)
            changed["nodes"][k]["scale"] = scale
            text = words(changed, params)
            assert text != words(config, params)
            [formula] = re.findall(rf"x{k + 1} = ([^;]*(?:;[^;x]*\))?)", text)
            assert scale in [float(number) for number in re.findall(r"\d[\d.]*(?:e[+-]\d+)?", formula)]


@pytest.mark.parametrize("name", EVERY)
def test_nothing_is_said_about_whose_network_it_is(name):
    assert not re.search(r"et al|Du|Zou|Frei|Allen", words(*case(name)))


@pytest.mark.parametrize("name", EVERY)
def test_other_functions_have_other_words(name):
    """Of random changes those that are read in the same words compute the same, with the same weights trained."""
    config, params = case(name)
    x = np.random.default_rng(0).standard_normal((2, *EVERY[name].input_shape))
    rng, seen, same = random.Random(name), 0, 0
    true, first = words(config, params), stated.evaluate(config, params, x)
    for _ in range(400):
        other = mutate(rng, config)
        try:
            text = words(other, params)
        except (MalformedError, TypeError, KeyError, ValueError, AttributeError, OverflowError):
            continue
        seen += 1
        if text != true or other["columns"] != config["columns"]:
            continue
        same += 1
        again = stated.evaluate(other, params, x)
        np.testing.assert_allclose(again.outputs, first.outputs, rtol=1e-12, atol=1e-13)
        assert sorted(other["trained"]) == sorted(config["trained"])
    assert seen > 15
    assert same < seen / 2


def deep(depth: int, tied: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
    """Many layers, of one weight or of one each."""
    config = making.config(FullyConnected(4, 4, depth))
    params = {name: np.array(w) for name, w in FullyConnected(4, 4, depth).init(0).items()}
    if tied:
        for node in config["nodes"][1:]:
            node["terms"][0]["weight"] = "W1"
        config["trained"], params = ["W1", "a"], {name: params[name] for name in ("W1", "a")}
    return config, params


def test_long_graphs_are_abbreviated():
    assert "x12 = " in words(*deep(MOST_LINES))
    text = words(*deep(40))
    assert len(text) < 1000
    assert f"; and {40 - MOST_LINES + 1} more formulas; f = a x40 (40 hidden layers of 4 units" in text
    text = words(*deep(40, tied=True))
    scale = deep(40)[0]["nodes"][0]["scale"]
    assert f"x1 = {scale!r} softplus(W1 u); x[k] = {scale!r} softplus(W1 x[k-1]) for k = 2 to 40; f = a x40" in text


def test_an_odd_one_of_many_equal_layers_stands_alone():
    config, params = deep(40, tied=True)
    config["nodes"][20]["scale"] = odd = math.nextafter(config["nodes"][20]["scale"], 0.0)
    text = words(config, params)
    assert "for k = 2 to 20; " in text
    assert f"x21 = {odd!r} softplus(W1 x20); " in text
    assert "for k = 22 to 40; " in text


def test_what_is_not_written_out_is_in_the_digest(tmp_path):
    """Beyond the first formulas a scale is not printed: the digest of the graph tells two of them apart."""
    network = FullyConnected(4, 4, 20)
    params, x, y = making.problem(network, n=2)
    found = []
    for scale in (0.5, math.nextafter(0.5, 1.0)):
        document = making.statement(network, "fit", {"margin": -1e300, "loss_name": "logistic", "loss": 1e3})
        document["network"]["nodes"][15]["scale"] = scale
        found.append(verify(making.write(tmp_path, document, params, x, np.sign(y))))
    first, second = found
    assert first.answer == second.answer == "proved"
    assert first.statement == second.statement
    assert first.digests.pop("graph") != second.digests.pop("graph")
    assert first.digests == second.digests


def test_a_factor_off_by_one_bit_is_proved_by_its_numbers_and_printed(tmp_path):
    for name in ("fully-connected", "residual", "deep-relu", "elman-rnn"):
        network = making.SMALL[name]
        params, x, y = making.problem(network)
        document = making.statement(network, "descent", making.claims(network, params, x, y, sharp=False))
        true = verify(making.write(tmp_path / name, document, params, x, y))
        assert true.answer == "proved"
        assert words(document["network"], params) in true.statement
        scale = document["network"]["nodes"][0]["scale"]
        for k, forged in enumerate((math.nextafter(scale, 0.0), 1.01 * scale)):
            other = json.loads(json.dumps(document))
            other["network"]["nodes"][0]["scale"] = forged
            verdict = verify(making.write(tmp_path / f"{name}-{k}", other, params, x, y))
            assert verdict.answer == ("not proved" if k else "proved"), verdict.reason
            assert k or f"x1 = {forged!r} " in verdict.statement


def test_recurrent_verdicts_say_which_times_count(tmp_path):
    network = making.SMALL["elman-rnn-all"]
    params, x, y = making.problem(network)
    document = making.statement(network, "descent", making.claims(network, params, x, y, sharp=False))
    verdict = verify(making.write(tmp_path, document, params, x, y))
    later = "from the second time on (the targets at the first time are not used)."
    assert verdict.statement.endswith(f"and half the sum of squares {later}")
    y[:, 0] = 1e9  # indeed they are not
    again = verify(making.write(tmp_path, document, params, x, y))
    assert again.answer == "proved"
    assert again.digests["data"] != verdict.digests["data"]


def test_the_sentence_names_the_data_by_its_whole_digest(tmp_path):
    network = making.SMALL["fully-connected-one"]
    params, x, y = making.problem(network)
    document = making.statement(network, "descent", making.claims(network, params, x, y, sharp=False))
    verdict = verify(making.write(tmp_path, document, params, x, y))
    [digest] = re.findall(r"SHA-256 of the data ([0-9a-f]+)\)", verdict.statement)
    assert digest == verdict.digests["data"]
    assert all(re.fullmatch("[0-9a-f]{64}", found) for found in verdict.digests.values())
    assert set(verdict.digests) == {"data", "graph", "x", "y", "weights/W1", "weights/a"}


def test_updates_of_sgd_are_written_out():
    """With the factor as it is: H n/B where the loss is a sum, H/B where it is a mean, eta alone for all batches."""
    document, _ = parts(corpus.folder("descent-from-start-batches"))
    size, steps = document["start"]["step_size"], document["start"]["steps"]
    said = verify(corpus.folder("descent-from-start-batches")).statement
    assert said.startswith(
        f"Stochastic gradient descent θ ← θ − {size} · 3/2 · (sum over the batch of the gradients of ½‖f − y‖²), with "
        f"the stored batches of 2 in their order, started at the start weights, comes within "
    )
    assert f" of these weights in {steps} steps, and from there gradient descent with step size " in said
    document, _ = parts(corpus.folder("finite"))
    assert verify(corpus.folder("finite")).statement.startswith(
        f"Stochastic gradient descent θ ← θ − {document['start']['step_size']} · 1/2 · (sum over the batch of the "
        "gradients of ℓ(y f), ℓ being the logistic loss), with the stored batches of 2 in their order, started at"
    )
    for name in ("epochs", "epochs-partition", "sampling", "orders"):
        eta = parts(corpus.folder(name))[0]["claims"]["eta"]
        assert verify(corpus.folder(name)).statement.startswith(
            f"Stochastic gradient descent θ ← θ − {eta} · (sum over the batch of the gradients of ½‖f − y‖²), from "
        )


@pytest.mark.parametrize("name", ["descent-from-start", "descent-from-start-batches", "logistic", "epochs-from-start"])
def test_steps_after_those_from_a_start_are_more_steps(name):
    claims, unit = parts(corpus.folder(name))[0]["claims"], "epoch" if name.startswith("epochs") else "step"
    said = verify(corpus.folder(name)).statement
    assert re.search(rf" {claims['steps']} more {unit}{'s' * (claims['steps'] != 1)}\b", said)
    assert len(re.findall(r" more (?:step|epoch)s?\b", said)) == 1


def test_without_a_start_there_are_no_more_steps():
    for name in ("descent", "epochs", "basin", "ridge", "momentum", "newton", "sampling", "orders"):
        assert not re.search(r" more (?:step|epoch)", verify(corpus.folder(name)).statement)


def test_one_step_is_one(tmp_path):
    document, arrays = parts(corpus.folder("orders"))
    document["claims"]["steps"] = 1
    assert " for 1 step, whatever batches " in verify(put(tmp_path, document, arrays, digests=True)).statement


@pytest.mark.parametrize(("failure", "late", "answer"), [
    (0.5, 0.499, "proved"), (0.5, 0.5, "not proved"), (1e-3, 1.0, "not proved"), (2.0, 1e-3, "not proved"),
])  # fmt: skip
def test_a_probability_that_says_nothing_is_refused(tmp_path, failure, late, answer):
    document, arrays = parts(corpus.folder("sampling"))
    document["claims"] |= {"failure": failure, "late": late}
    verdict = verify(put(tmp_path, document, arrays, digests=True))
    assert verdict.answer == answer, verdict.reason
    assert answer == "proved" or verdict.reason.startswith("failure + late < 1 ")
