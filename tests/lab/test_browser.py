"""The lab in a real browser: what people click, drag and read, against what the library computes."""

import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from tests.lab.benching import library_run
from tests.lab.tools import PATIENCE, command_of, until
from wideproof.certificates import Problem, certify
from wideproof.kernels import gram, predict
from wideproof.lab.planes import plane

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.xdist_group("lab"),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: install one to test the lab's page"),
]
SMALL = "name=blobs&n=8&a.width=32&a.depth=1"
SETTINGS = {"data": {"name": "blobs", "n": 8}, "networks": [{"width": 32, "depth": 1}]}
# Counts the messages that come in, whatever the page makes of them.
LISTEN = """
window.heard = {};
const Own = WebSocket;
window.WebSocket = class extends Own {
  constructor(...given) {
    super(...given);
    this.addEventListener("message", ({ data }) => {
      const head = () => new Uint8Array(data, 4, new DataView(data).getUint32(0, true));
      const { kind } = JSON.parse(typeof data === "string" ? data : new TextDecoder().decode(head()));
      window.heard[kind] = (window.heard[kind] ?? 0) + 1;
    });
  }
};
"""


class Page:
    """A page of the lab, and all that went wrong on it."""

    def __init__(self, context, server):
        self.server, self.wrong = server, []
        self.page = context.new_page()
        self.page.set_default_timeout(PATIENCE * 1000)
        self.page.add_init_script(LISTEN)
        self.page.on("pageerror", lambda error: self.wrong.append(f"exception: {error}"))
        self.page.on("console", lambda said: said.type == "error" and self.wrong.append(f"console: {said.text}"))
        self.page.on("websocket", lambda line: self._own(line.url) or self.wrong.append(f"socket to {line.url}"))
        self.page.on("dialog", lambda dialog: (self.wrong.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        self.page.route("**/*", self._pass)
        self.open(server.address)

    def _own(self, address):
        return re.match(rf"(http|ws)://{re.escape(self.server.host)}/", address) is not None

    def _pass(self, route):
        if self._own(route.request.url) or route.request.url.startswith(("data:", "blob:")):
            route.continue_()
        else:
            self.wrong.append(f"request to {route.request.url}")
            route.abort()

    def open(self, address):
        self.page.goto(address)
        until(lambda: self.count("ready"), "the bench is ready")

    def count(self, kind):
        return self.page.evaluate("(kind) => window.heard[kind] ?? 0", kind)

    def after(self, kind, act):
        """Do something, and wait for the next message of a kind, and for the page to have drawn it."""
        before = self.count(kind)
        act()
        until(lambda: self.count(kind) > before, f"the page hears {kind!r}")
        self.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def set(self, state):
        """Open a state of the bench, in the tab that is there."""
        if self.page.evaluate("location.hash") != f"#{state}":
            self.after("ready", lambda: self.page.evaluate("(state) => { location.hash = state; }", state))
        else:
            self.after("ready", lambda: self.button("Reset").click())

    def button(self, name):
        return self.page.get_by_role("button", name=name, exact=True)

    def text(self, selector):
        return self.page.locator(selector).first.text_content() or ""

    def curves(self, title):
        return self.page.evaluate("(t) => document.querySelector(`[aria-label='${t}'] .chart`).curves.data", title)

    def slider(self, name):
        return self.page.locator("label.row", has_text=name).locator("input")

    @property
    def steps(self):
        return int(re.findall(r"step ([\d,]+)", self.text(".count"))[0].replace(",", ""))

    @property
    def least(self):
        """The smallest eigenvalue, as the caption of the Gram matrix says it."""
        return number(re.findall(r"λ from (\S+) to", self.text(".gram-card figcaption"))[0])

    @property
    def side(self):
        """How many examples the Gram matrix is drawn for."""
        return self.page.locator("canvas.matrix").first.evaluate("(canvas) => canvas.width")


def number(text):
    """Read a number as the page writes it."""
    raised = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
    head, _, power = text.replace(",", "").partition("·10")
    return float(head) * 10.0 ** int(power.translate(raised) or 0)


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def tab(browser, lab):
    context = browser.new_context(viewport={"width": 1300, "height": 900}, accept_downloads=True)
    yield Page(context, lab)
    context.close()


@pytest.fixture
def lab_page(tab):
    """The one tab, at rest; a test fails where anything went wrong on the page meanwhile."""
    if tab.button("Pause").count():
        tab.after("paused", lambda: tab.button("Pause").click())
    yield tab
    wrong, tab.wrong = tab.wrong, []
    assert wrong == []


def test_it_opens(lab_page):
    assert lab_page.page.title() == "Wideproof lab"
    assert "token" not in lab_page.page.url
    assert lab_page.button("Run").is_enabled()
    assert lab_page.text("[role=alert]") == ""
    assert lab_page.side == 40
    assert lab_page.text(".meter .value").startswith("h = ")


def test_the_numbers_are_the_librarys(lab_page):
    lab_page.set(SMALL)
    assert lab_page.steps == 0
    for _ in range(3):
        lab_page.after("look", lambda: lab_page.button("Step").click())
    run = library_run(3, SETTINGS)
    assert lab_page.steps == 3
    assert number(lab_page.text(".count").split("loss ")[1]) == pytest.approx(run.records["loss"][2], rel=5e-3)
    found = certify(Problem(run.network, run.data).at(run.params), level="float64")
    assert number(lab_page.text(".meter .value").removeprefix("h = ")) == pytest.approx(found.h, rel=5e-2)
    x, measured, forecast, *_ = lab_page.curves("Loss")
    assert x[:3] == [1, 2, 3]
    np.testing.assert_array_equal(np.float32(measured[:3]), np.float32(run.records["loss"][:3]))
    assert measured[3:] == [None] * (len(x) - 3)
    start = np.asarray(run.network(run.initial, run.data.x))
    course = predict(gram(run.network, run.initial, run.data.x).matrix, run.data.y, start, run.step_size)
    np.testing.assert_allclose(forecast[:50], course.loss(np.arange(50)), rtol=1e-5)
    assert lab_page.curves("Proof ratio h")[1][-1] == found.h
    lab_page.after("ready", lambda: lab_page.button("Reset").click())
    assert lab_page.steps == 0
    assert lab_page.curves("Loss")[1][:3] == [None] * 3


def test_run_and_pause(lab_page):
    lab_page.set(SMALL)
    lab_page.page.get_by_label("Speed").select_option("400")
    lab_page.after("points", lambda: lab_page.button("Run").click())
    until(lambda: lab_page.steps > 20, "steps are taken")
    lab_page.after("paused", lambda: lab_page.button("Pause").click())
    stood = lab_page.steps
    lab_page.after("look", lambda: lab_page.button("Step").click())
    assert lab_page.steps == stood + 1


@pytest.mark.slow  # the archive and its verification are in test_rooms
def test_a_proof_that_somebody_else_can_check(lab_page, tmp_path):
    lab_page.set("name=blobs&n=6&a.width=256&a.depth=1")
    lab_page.page.get_by_label("Speed").select_option("0")
    lab_page.button("Run").click()
    until(lambda: lab_page.page.locator(".verdict.yes", has_text="Proved at step").count(), "it is proved")
    with lab_page.page.expect_download() as coming:
        lab_page.page.get_by_text("Certificate", exact=True).click()
    coming.value.save_as(tmp_path / "certificate.zip")
    with zipfile.ZipFile(tmp_path / "certificate.zip") as archive:
        archive.extractall(tmp_path)
    checked = subprocess.run(
        [sys.executable, "-m", "wideproof_verify", str(tmp_path / "certificate")], capture_output=True, text=True
    )
    assert checked.returncode == 0, checked
    assert checked.stdout.startswith("proved")


def test_points_that_meet(lab_page):
    lab_page.set("name=squares&n=12&noise=0&a.depth=1&a.width=64")
    points = plane("squares", 12, 0.0)
    first, other = 0, int(np.flatnonzero(points[:, 2] != points[0, 2])[0])
    before = lab_page.least
    canvas = lab_page.page.locator("canvas.plane").first
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()

    def at(i):
        return box["x"] + (points[i, 0] + 1) / 2 * box["width"], box["y"] + (1 - points[i, 1]) / 2 * box["height"]

    mouse = lab_page.page.mouse
    mouse.move(*at(first))
    mouse.down()
    mouse.move(*at(other), steps=4)
    lab_page.after("look", mouse.up)
    until(lambda: lab_page.least < before / 10, "the smallest eigenvalue falls")
    assert "points=" in lab_page.page.url


def test_points_by_keyboard(lab_page):
    lab_page.set(SMALL)
    canvas, keyboard = lab_page.page.locator("canvas.plane").first, lab_page.page.keyboard
    canvas.focus()
    lab_page.after("ready", lambda: keyboard.press("a"))
    assert lab_page.side == 9
    was = lab_page.page.url
    lab_page.after("data", lambda: keyboard.press("Space"))
    flipped = lab_page.page.url
    lab_page.after("data", lambda: keyboard.press("ArrowLeft"))
    assert len({was, flipped, lab_page.page.url}) == 3
    lab_page.after("ready", lambda: keyboard.press("Delete"))
    assert lab_page.side == 8


def test_a_second_network(lab_page):
    lab_page.set(SMALL)
    lab_page.after("ready", lambda: lab_page.button("Compare with a second network").click())
    assert lab_page.page.locator(".meter").count() == 2
    assert lab_page.page.locator("canvas.matrix").count() == 2
    lab_page.after("points", lambda: lab_page.button("Step").click())
    until(lambda: lab_page.text(".count").count("step 1,") == 2, "both take a step")
    lab_page.after("ready", lambda: lab_page.button("Remove the second network").click())
    assert lab_page.page.locator(".meter").count() == 1


def test_the_step_size_acts_while_it_runs(lab_page):
    lab_page.set(SMALL)
    lab_page.page.get_by_label("Speed").select_option("10")
    lab_page.after("points", lambda: lab_page.button("Run").click())
    lab_page.after("look", lambda: lab_page.slider("step size").fill("21"))
    until(lambda: lab_page.curves("Step size × λmax")[1][-1] > 2, "the step size is above the edge")
    assert lab_page.button("Pause").count() == 1
    lab_page.after("look", lambda: lab_page.slider("step size").fill("1"))
    until(lambda: lab_page.curves("Step size × λmax")[1][-1] < 2, "and below it again")


def test_the_state_survives_a_reload(lab_page):
    lab_page.set("name=moons&n=10&a.width=64&a.depth=1")
    lab_page.after("ready", lambda: lab_page.slider("width").fill("1"))
    assert "a.width=8" in lab_page.page.url
    h = lab_page.text(".meter .value")
    lab_page.page.reload()
    until(lambda: lab_page.count("ready"), "the bench is ready again")
    until(lambda: lab_page.text(".meter .value") == h, "the same proof ratio")
    assert lab_page.side == 10
    assert lab_page.page.locator("label.row", has_text="width").locator("output").text_content() == "8"


def test_a_table_with_code_in_it(lab_page, tmp_path):
    code = "<script>alert(1)</script>"
    rows = "".join(
        f"{i / 7:.3f},{(i * i) % 5},{code if i % 2 else '<img src=x onerror=alert(2)>'}\n" for i in range(12)
    )
    (tmp_path / "<b>bad.csv").write_text(f"a,<img src=x onerror=alert(3)>,{code}\n{rows}")
    lab_page.set("a.width=32&a.depth=1")
    choose = lab_page.page.locator("input[type=file]")
    lab_page.after("ready", lambda: choose.set_input_files(tmp_path / "<b>bad.csv"))
    assert lab_page.text("[role=alert]") == ""
    predicted = lab_page.page.locator("label.row", has_text="predict").locator("select")
    assert predicted.input_value() == code
    assert predicted.locator("option").all_text_contents()[1:] == ["<img src=x onerror=alert(3)>", code]
    assert lab_page.page.locator("main script, main img").count() == 0
    assert lab_page.side == 12


@pytest.mark.parametrize("media", ["light", "dark"])
def test_narrow_light_and_dark(lab_page, media):
    page = lab_page.page
    lab_page.set(SMALL)
    page.emulate_media(color_scheme=media, reduced_motion="reduce")
    page.set_viewport_size({"width": 400, "height": 800})
    lab_page.after("look", lambda: lab_page.button("Step").click())
    try:
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == {"light": "rgb(244, 245, 247)", "dark": "rgb(20, 23, 27)"}[media]
        assert page.evaluate("getComputedStyle(document.querySelector('.needle')).transitionDuration") == "0s"
    finally:
        page.emulate_media(color_scheme="light", reduced_motion="no-preference")
        page.set_viewport_size({"width": 1300, "height": 900})
    assert page.evaluate("getComputedStyle(document.querySelector('.needle')).transitionDuration") == "0.25s"


def test_without_a_mouse(lab_page):
    lab_page.set(SMALL)
    page = lab_page.page
    page.evaluate("document.activeElement.blur()")
    names = []
    for _ in range(60):
        page.keyboard.press("Tab")
        names.append(page.evaluate("document.activeElement.textContent.trim()"))
        if names[-1] == "Run":
            break
    assert names[-1] == "Run", names
    lab_page.after("points", lambda: page.keyboard.press("Enter"))
    assert page.evaluate("document.activeElement.textContent") == "Pause"


def test_a_lost_worker_is_said(lab_page):
    lab_page.set(SMALL)
    workers = [pid for pid in lab_page.server.workers() if "wideproof.lab.worker" in command_of(pid)]
    assert workers
    for pid in workers:
        os.kill(pid, signal.SIGKILL)
    until(lambda: "killed by SIGKILL" in lab_page.text("[role=alert]"), "the page says so")
    until(lambda: lab_page.count("hello") > 1, "another worker answers")
    lab_page.after("ready", lambda: lab_page.button("Reset").click())
    lab_page.after("points", lambda: lab_page.button("Step").click())
    assert lab_page.steps == 1
