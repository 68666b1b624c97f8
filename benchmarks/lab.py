"""The lab's page in a browser: how soon it is there, how fast it follows a network, what it takes over time.

    python benchmarks/lab.py [--minutes 1] [--json benchmarks/results/lab.json]

Needs Chromium and Playwright. The network is too small for its data, so it trains for as long as it is asked to. The
same bench is then driven without a page, for as long as one sample; a cold start compiles everything, a warm one is a
second tab of the same server.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from wideproof.lab.bench import Bench
from wideproof.lab.frames import parse

STATE = "name=circles&n=40&a.width=8&a.depth=1"
SETTINGS = {"data": {"name": "circles", "n": 40}, "networks": [{"width": 8, "depth": 1}]}
SAMPLE = 10  # seconds
COUNT = """
window.counted = { frames: 0, points: 0, messages: 0, bytes: 0, step: 0, look: null };
const tick = () => { counted.frames++; requestAnimationFrame(tick); };
requestAnimationFrame(tick);
const Own = WebSocket;
window.WebSocket = class extends Own {
  constructor(...given) {
    super(...given);
    this.addEventListener("message", ({ data }) => {
      if (typeof data === "string") return;
      const head = new Uint8Array(data, 4, new DataView(data).getUint32(0, true));
      const message = JSON.parse(new TextDecoder().decode(head));
      counted.messages++;
      counted.bytes += data.byteLength;
      if (message.kind === "points") { counted.points += message.arrays[0][2][0]; counted.step = message.at; }
      if (message.kind === "look") counted.look ??= performance.now();
    });
  }
};
"""
LOADED = """() => {
  const all = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
  const paint = performance.getEntriesByType("paint").find((p) => p.name === "first-contentful-paint");
  return { requests: all.length, bytes: all.reduce((sum, one) => sum + one.transferSize, 0), paint: paint?.startTime };
}"""


def resident(pid: int) -> float:
    """MB of memory that a process has."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


def below(pid: int, word: str) -> list[int]:
    """The processes below a process whose command holds a word."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            command = (entry / "cmdline").read_text()
        except OSError:
            continue
        if parent == pid:
            found += [int(entry.name)] * (word in command) + below(int(entry.name), word)
    return found


def open_tab(browser: Browser, address: str, foreign: list[str]) -> tuple[Page, dict[str, float]]:
    page = browser.new_context(viewport={"width": 1300, "height": 900}).new_page()
    host = address.partition("/?")[0]
    page.on("request", lambda request: None if request.url.startswith(host) else foreign.append(request.url))
    page.add_init_script(COUNT)
    page.goto(f"{address}#{STATE}")
    while page.evaluate("counted.look") is None:
        time.sleep(0.02)
    loaded = page.evaluate(LOADED)
    return page, {
        "seconds_to_first_paint": loaded["paint"] / 1000,
        "seconds_to_first_look": page.evaluate("counted.look") / 1000,
        "requests": loaded["requests"],
        "bytes": loaded["bytes"],
    }


def rates(page: Page, seconds: float) -> dict[str, float]:
    """What happens in a second, on average over some."""
    first = page.evaluate("({ ...counted, at: performance.now() })")
    time.sleep(seconds)
    last = page.evaluate("({ ...counted, at: performance.now() })")
    took = (last["at"] - first["at"]) / 1000
    names = {"step": "steps", "points": "points", "frames": "frames", "messages": "messages", "bytes": "bytes"}
    return {f"{name}_per_second": (last[key] - first[key]) / took for key, name in names.items()}


def alone(seconds: float) -> float:
    """Steps a second of the same bench with nobody who looks on."""
    with tempfile.TemporaryDirectory() as folder:
        steps = 0

        def hear(message: bytes) -> None:
            nonlocal steps
            kind, fields, _ = parse(message)
            if kind == "points":
                steps, bench.owed = fields["at"], 0

        bench = Bench(hear, None, Path(folder))
        bench.do({"do": "configure", "settings": SETTINGS})
        bench.do({"do": "run"})
        end = time.perf_counter() + seconds / 2  # warm, as the page's is when it is measured
        while time.perf_counter() < end:
            bench.turn()
        first, began = steps, time.perf_counter()
        while time.perf_counter() < began + seconds:
            bench.turn()
        took = time.perf_counter() - began
        bench.close()
    return (steps - first) / took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "results" / "lab.json")
    options = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("no Chromium here: install one to measure the lab's page")
    environment = {key: value for key, value in os.environ.items() if key != "JAX_COMPILATION_CACHE_DIR"}
    found: dict[str, Any] = {"machine": {"cores": os.cpu_count(), "python": platform.python_version()}}
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        server = subprocess.Popen([sys.executable, "-m", "wideproof", "lab", "--no-browser", "--folder", folder],
                                  stdout=subprocess.PIPE, text=True, env=environment)  # fmt: skip
        try:
            assert server.stdout is not None
            said = "".join(iter(server.stdout.readline, "Ctrl-C ends it.\n"))
            address = said.split()[-1]
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            foreign: list[str] = []
            page, found["cold"] = open_tab(browser, address, foreign)
            time.sleep(10)  # a worker is kept ready for the next tab
            second, found["warm"] = open_tab(browser, address, foreign)
            second.close()
            found["requests_to_other_hosts"] = len(foreign)
            page.get_by_label("Speed").select_option("0")
            page.get_by_role("button", name="Run", exact=True).click()
            time.sleep(SAMPLE / 2)
            found["running"] = rates(page, SAMPLE)
            began, found["memory_mb"] = time.perf_counter(), []
            while True:
                minutes = (time.perf_counter() - began) / 60
                found["memory_mb"].append({
                    "minutes": minutes, "step": page.evaluate("counted.step"), "server": resident(server.pid),
                    "workers": [resident(pid) for pid in below(server.pid, "wideproof.lab.worker")],
                    "tab_heap": page.evaluate("performance.memory.usedJSHeapSize") / 2**20,
                    "renderers": [resident(pid) for pid in below(os.getpid(), "--type=renderer")],
                })  # fmt: skip
                if minutes >= options.minutes:
                    break
                time.sleep(min(60.0, 60 * options.minutes))
            found["running_at_the_end"] = rates(page, SAMPLE)
            browser.close()
        finally:
            server.terminate()
            server.wait()
    found["steps_per_second_without_a_page"] = alone(SAMPLE)
    share = found["running"]["steps_per_second"] / found["steps_per_second_without_a_page"]
    found["share_of_the_speed_without_a_page"] = share
    options.json.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
