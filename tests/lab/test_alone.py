"""The page without an installation: its arithmetic, run by Node, against the library; the page itself in Chromium."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.special

from tests.lab.tools import until
from wideproof.certificates import Problem, certify
from wideproof.certificates.lipschitz import lipschitz, sign_slack
from wideproof.data import Dataset, apply, distinct, prepare
from wideproof.kernels import gram, predict
from wideproof.lab.alone import main, page, worker
from wideproof.lab.joined import STATIC
from wideproof.networks import ACTIVATIONS, FullyConnected
from wideproof.training import Recipe, Stepper, begin

NODE = shutil.which("node")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_node = pytest.mark.skipif(NODE is None, reason="no node here: install Node.js to test the page's arithmetic")
CLOSE = 1e-10  # of the largest number of its kind


def ask(fault: Callable[[str], str] | None = None, /, **questions):
    """Ask functions of `alone_asked.js`, `name=(function, given)`; `fault` may plant one in what the page runs."""
    assert NODE is not None
    text = worker() if fault is None else fault(worker())
    program = text + (Path(__file__).parent / "alone_asked.js").read_text(encoding="utf-8")
    done = subprocess.run([NODE, "-e", program], input=json.dumps(questions), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def case(activation, width, depth, n=9, scale=1.0, repeat=False):
    """Return a network of the library with its weights and data, and the same as the page gets it."""
    rng = np.random.default_rng(0)
    points = rng.uniform(-1, 1, (n, 2))
    labels = np.where(points[:, 0] * points[:, 1] > 0, 1.0, -1.0)
    if repeat:  # one row again, and one with the other label
        points[-1], points[-2] = points[0], points[1]
        labels[-1], labels[-2] = -labels[0], labels[1]
    data = prepare(Dataset(points, labels, "binary", "points"), "sphere(4)")
    network = FullyConnected(input_dim=3, width=width, depth=depth, activation=activation)
    params = {name: np.asarray(weight, np.float64) for name, weight in network.init(0).items()}
    params["a"] = params["a"] * scale
    given = {
        "network": {"dim": 3, "width": width, "depth": depth, "activation": activation},
        "x": data.x.tolist(), "y": data.y.tolist(), "a": params["a"].tolist(),
        "W": [params[f"W{k + 1}"].tolist() for k in range(depth)],
    }  # fmt: skip
    return network, params, data, given


def agree(found, expected):
    """Compare within `CLOSE` of the largest entry."""
    expected = np.asarray(expected, float)
    found = np.asarray(found, float).reshape(expected.shape)
    np.testing.assert_allclose(found, expected, rtol=0, atol=CLOSE * float(np.abs(expected).max()))


def anchored(network, params, data):
    """Return the library's float64 attempt, and what it is made of."""
    attempt = certify(Problem(network, data).at(params), level="float64")
    assert attempt.anchor is not None
    return attempt, attempt.anchor


def agree_on_look(found, attempt):
    """Compare what the page shows of a network with a float64 attempt of the library."""
    anchor = attempt.anchor
    agree(found["gram"], anchor.gram.mid)
    agree(found["eigenvalues"], np.linalg.eigvalsh(anchor.gram.mid)[::-1])
    agree(found["residual"], anchor.residual)
    agree(found["s"], anchor.s)
    radius = 2 * anchor.residual / anchor.s
    for constant, at in zip(found["constants"], (0.0, 1e-3, radius), strict=True):
        agree(constant, lipschitz(anchor, at).value)
    if anchor.clearance:
        agree(found["slack"], sign_slack(anchor, radius))
    agree(found["h"], attempt.h)
    assert ("radius" in found) == (attempt.descent is not None)
    if attempt.descent is not None:
        agree(found["radius"], attempt.descent.radius)


@needs_node
@pytest.mark.parametrize(
    "options",
    [
        ("tanh", 256, 1), ("tanh", 48, 3), ("softplus", 64, 2, 9, 0.3), ("relu", 64, 2),
        pytest.param(("erf", 64, 2, 9, 1.0, True), id="erf, with equal rows"),
    ],
)  # fmt: skip
def test_its_numbers_are_the_librarys(options):
    """Outputs, losses and weights after steps, the curve foretold, Gram matrix, eigenvalues, proof ratio and parts."""
    network, params, data, given = case(*options)
    eta = 0.3 / float(np.linalg.eigvalsh(np.asarray(gram(network, params, data.x).matrix))[-1])
    asked = {**given, "eta": eta, "steps": 40}
    found = ask(outputs=("outputs", given), steps=("steps", asked), look=("look", given), curve=("curve", asked))
    agree(found["outputs"], network(params, data.x))
    stepper = Stepper(begin(network, data, Recipe(step_size=eta, steps=40, record_every=1), params))
    _, seen = stepper.advance(40)
    agree(found["steps"]["loss"], seen["loss"][:40])
    for k, weight in enumerate(found["steps"]["W"]):
        agree(weight, stepper.run.params[f"W{k + 1}"])
    agree(found["steps"]["a"], stepper.run.params["a"])
    attempt, anchor = anchored(network, params, data)
    agree_on_look(found["look"], attempt)
    errors = anchor.errors.mid
    course = predict(anchor.gram.mid, np.zeros(errors.shape), errors, eta)
    agree(found["curve"], course.loss(np.array([0, 1, 7, 100])) + distinct(data).least_loss[0])


def trained(steps, *options):
    """Return the library's attempt after steps that the page took, and what the page sees there."""
    network, params, data, given = case(*options)
    eta = 1 / anchored(network, params, data)[1].S ** 2
    after = ask(steps=("steps", {**given, "eta": eta, "steps": steps}))["steps"]
    arrays = {**{f"W{k + 1}": weight for k, weight in enumerate(after["W"])}, "a": after["a"]}
    weights = {name: np.reshape(array, params[name].shape) for name, array in arrays.items()}
    found = ask(look=("look", {**given, "W": after["W"], "a": after["a"]}))["look"]
    return certify(Problem(network, data).at(weights), level="float64"), found


@needs_node
@pytest.mark.parametrize(
    ("way", "steps", "options"),
    [
        ("one constant", 8, ("tanh", 64, 1, 3, 0.3)), ("a staircase", 6, ("tanh", 64, 1, 3, 0.3)),
        ("nested sets", 4, ("tanh", 1024, 1, 3, 0.3)), ("one constant", 60, ("relu", 8, 1, 3)),
    ],
)  # fmt: skip
def test_where_there_is_a_proof_the_ratio_is_that_at_its_radius(way, steps, options):
    attempt, found = trained(steps, *options)
    assert attempt.descent is not None
    stairs = attempt.descent.staircase
    assert way == ("nested sets" if stairs.caps else "one constant" if len(stairs.radii) == 1 else "a staircase")
    agree_on_look(found, attempt)


@needs_node
def test_what_prevents_a_proof_is_said():
    """A unit that could switch; a Gram matrix without rank."""
    attempt, found = trained(150, "relu", 128, 1, 5)
    assert attempt.obstacle is not None
    assert attempt.obstacle.quantity == "kink"
    agree_on_look(found, attempt)
    assert "could switch" in found["obstacle"]
    *_, given = case("relu", 2, 1, 4)
    dead = {**given, "W": [[[0.0, 0.0, -1.0]] * 2]}  # the last coordinate of every example is positive
    found = ask(x=("ratio", dead))["x"]
    assert found == {"h": "inf", "obstacle": "the Gram matrix is singular to working precision"}


@needs_node
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("square * u[at]", "u[at]"), ("at.bMax[k].map((v) => at.smoothness * v)", "at.bMax[k]"),
        ("smoothness: 4 / (3", "smoothness: 3 / (3"), ("Math.min(at.lipschitz *", "Math.max(at.lipschitz *"),
    ],
)  # fmt: skip
def test_a_planted_fault_is_noticed(right, wrong):
    network, params, data, given = case("tanh", 16, 2, 4)
    attempt = certify(Problem(network, data).at(params), level="float64")
    agree_on_look(ask(look=("look", given))["look"], attempt)

    def plant(text):
        assert text.count(right) == 1
        return text.replace(right, wrong)

    found = ask(plant, look=("look", given))["look"]
    with pytest.raises(AssertionError):
        agree_on_look(found, attempt)


@needs_node
def test_functions_and_eigenvalues():
    """The error function against SciPy, eigenvalues, vectors and norms against NumPy, singular matrices too."""
    rng = np.random.default_rng(0)
    z = np.concatenate([np.linspace(-7, 7, 141), [1e-300, 0.0, 2.4999999, 2.5, 1e-9]])
    matrices = [a @ a.T for a in (rng.standard_normal((7, 7)), rng.standard_normal((12, 3)), np.zeros((4, 4)))]
    matrices.append(np.diag([3.0, 1.0, 2.0]))
    wide = rng.standard_normal((5, 9))
    given = [matrix.tolist() for matrix in matrices]
    found = ask(erf=("erf", z.tolist()), eigen=("eigen", given), norms=("norms", wide.tolist()))
    np.testing.assert_allclose(found["erf"], scipy.special.erf(z), rtol=4e-15, atol=0)
    for matrix, (values, vectors, again) in zip(matrices, found["eigen"], strict=True):
        rows, size = np.reshape(vectors, matrix.shape), 1e-13 * max(float(np.abs(matrix).max()), 1.0)
        np.testing.assert_allclose(values, np.linalg.eigvalsh(matrix)[::-1], rtol=0, atol=size)
        np.testing.assert_allclose(again, values, rtol=0, atol=size)
        np.testing.assert_allclose(rows @ rows.T, np.eye(len(matrix)), rtol=0, atol=1e-13)
        np.testing.assert_allclose(rows @ matrix, np.array(values)[:, None] * rows, rtol=0, atol=size)
    expected = [np.linalg.norm(wide, 2), np.linalg.norm(wide.reshape(9, 5), 2)]
    np.testing.assert_allclose(found["norms"], expected, rtol=1e-13)


@needs_node
def test_sets_of_points():
    """Both labels, inside the frame, the same for the same seed; the preparation is the library's sphere(4)."""
    found = ask(sets=("sets", 0), small=("small", 0), normal=("normal", 20_000))
    for first, again, other in found["sets"]:
        rows = np.array(first)
        assert first == again != other
        assert (np.abs(rows[:, :2]) <= 1).all()
        assert set(rows[:, 2]) == {-1.0, 1.0}
    assert all(len(rows) == 2 for rows in found["small"])
    normal = np.array(found["normal"])
    assert abs(normal.mean()) < 4 / np.sqrt(len(normal))
    assert abs(np.square(normal).mean() - 1) < 4 * np.sqrt(2 / len(normal))
    rows = np.array(found["sets"][0][0])
    data = prepare(Dataset(rows[:, :2], rows[:, 2], "binary", "points"), "sphere(4)")
    found = ask(x=("prepared", rows.tolist()))["x"]
    agree(found["x"], data.x)
    agree(found["y"], data.y)
    plane = np.array([[a, b] for b in (-1.0, 0.0, 1.0) for a in (-1.0, 0.0, 1.0)])
    agree(found["grid"], apply(data.preparation, plane))


@needs_node
def test_the_bench_answers_as_the_labs():
    """Its first messages are those of the lab's bench; steps, points that move, a step size that changes, the end."""
    found = ask(**{name: (name, 0) for name in ("messages", "seven", "moved", "run", "blown", "paced")})
    kinds, h = found["messages"]
    assert kinds == ["data", "network", "forecast", "look", "field", "ready"]
    assert h > 0.5
    at, losses, looked, cells = found["seven"]
    assert (at, len(losses), looked, cells) == (7, 7, 7, 41 * 41)
    assert losses == sorted(losses, reverse=True)
    moved = found["moved"]
    assert (moved["step"], moved["origin"], moved["n"], moved["again"]) == (3, 3, 7, 0)
    assert moved["eigenvalues"][-1] == 0.0 < moved["eigenvalues"][-2]  # equal inputs: the matrix has one row less
    assert moved["slower"] == pytest.approx(0.5, rel=1e-12)
    run = found["run"]
    assert run["owed"] == run["sent"] == 4  # a page that draws nothing gets no more
    assert (run["over"], run["state"]) == (["fitted"], "fitted")
    assert run["h"] < 1e-6
    assert found["blown"] == ["diverged"]
    assert 0 < found["paced"]["steps"] <= found["paced"]["milliseconds"] / 100 + 1


@needs_node
@pytest.mark.parametrize(
    ("data", "network", "said"),
    [
        ({}, {"width": 257}, "the width must be a whole number from 1 to 256 on this page, got 257"),
        ({}, {"depth": 4}, "the depth must be a whole number from 1 to 3"),
        ({"n": 101}, {}, "the number of examples must be a whole number from 2 to 100"),
        ({"name": "digits"}, {}, "this page has no data set digits: choose one of circles, moons, blobs, xor, spirals"),
        ({}, {"activation": "swish"}, "choose one of tanh, softplus, erf, relu"),
        ({}, {"step": -1}, "the step size must lie from 0 to 8"),
    ],
)
def test_what_the_page_cannot_do_is_said(data, network, said):
    kinds, text = ask(x=("refused", {"data": data, "network": network}))["x"]
    assert kinds == ["error", "ready"]
    assert said in text


def test_the_file_needs_nothing_else(tmp_path, capsys):
    """All of it is one file, made by Python alone; nothing in it is loaded from elsewhere."""
    main([str(tmp_path / "deep" / "page.html")])
    assert "open it in a browser" in capsys.readouterr().out
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["page.html"]
    text = (tmp_path / "deep" / "page.html").read_text(encoding="utf-8")
    assert text == page()
    assert not re.search(r'^\s*(import|export) |\bsrc="(?!data:)|\bhref="(?!data:|#)', text, re.MULTILINE)
    named = set(re.findall(r"https?://[^\s\"'`)]+", text))
    assert named == {"https://github.com/leeoniya/uPlot"}  # where uPlot comes from, in its licence
    assert not re.search(r"\{(icon|styles|script)\}", text)
    assert "default-src 'none'" in text
    check = "import sys, wideproof.lab.alone; sys.exit(bool({'numpy', 'jax', 'anywidget'} & set(sys.modules)))"
    bare = subprocess.run([sys.executable, "-S", "-c", check], env={"PYTHONPATH": str(STATIC.parents[2])})
    assert bare.returncode == 0


@needs_node
@pytest.mark.slow
@pytest.mark.xdist_group("lab")
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: install one to test the page")
def test_it_opens_from_a_file_and_shows_the_librarys_numbers(tmp_path):
    """In Chromium, from file://, wide and narrow: no request to any host, and what it says before training is so."""
    from playwright.sync_api import sync_playwright

    main([str(tmp_path / "page.html")])
    wrong: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        tab = browser.new_page(viewport={"width": 1280, "height": 900})
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        tab.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        tab.on("request", lambda asked: None if re.match("file:|blob:|data:", asked.url) else wrong.append(asked.url))
        tab.goto(f"file://{tmp_path / 'page.html'}#name=xor&n=8&a.width=32&a.depth=1&a.activation=erf")
        until(lambda: tab.inner_text(".meter .value").startswith("h ="), "the page shows a proof ratio")
        shown = [tab.inner_text(".meter .value")[4:], *tab.locator(".meter .parts b").all_inner_texts()]
        tab.get_by_role("button", name="Run", exact=True).click()
        until(lambda: tab.inner_text(".meter .verdict").startswith("below"), "the meter falls below a half")
        tab.set_viewport_size({"width": 400, "height": 900})
        until(lambda: tab.evaluate("document.documentElement.scrollWidth") == 400, "the page is no wider than 400 px")
        assert "nothing here is proved" in tab.inner_text(".meter .actions")
        assert not wrong
        tab.evaluate("() => { new Image().src = 'http://127.0.0.1:9/x.png'; }")  # it would be noticed, and is refused
        until(lambda: any("Content Security Policy" in one for one in wrong), "a request is refused")
        browser.close()
    network = FullyConnected(input_dim=3, width=32, depth=1, activation=ACTIVATIONS["erf"])
    sizes = {"dim": 3, "width": 32, "depth": 1, "activation": "erf"}
    points, weights = ask(x=("begun", {"network": sizes, "name": "xor", "n": 8}))["x"]
    rows = np.array(points)
    data = prepare(Dataset(rows[:, :2], rows[:, 2], "binary", "points"), "sphere(4)")
    params = {"W1": np.reshape(weights["W"][0], (32, 3)), "a": np.array(weights["a"])}
    attempt, anchor = anchored(network, params, data)
    expected = [attempt.h, anchor.residual, anchor.s, attempt.h * anchor.s**2 / anchor.residual]
    for text, value in zip(shown, expected, strict=True):
        assert number(text) == pytest.approx(value, rel=0.06 if "·" in text else 0.006)  # two digits or three are shown


def number(text):
    """Read a number as the page writes it: 1,234 or 1.2·10⁻³."""
    digits, _, power = text.replace(",", "").partition("·10")
    return float(digits) * 10.0 ** int(power.translate(str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")) or 0)
