"""Take the first page's picture of the bench: `python docs/screens.py` makes docs/_static/page.png.

It needs Chromium, and playwright of the development dependencies.
"""

import re
import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from wideproof.lab.alone import main as write_page


def main() -> None:
    """Let a small network train until the meter is below a half, and take the picture."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(folder) / "page.html"
        write_page([str(path)])
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1180, "height": 760})
        tab.set_default_timeout(300_000)
        tab.goto(f"file://{path}#name=blobs&n=12&a.depth=1")
        tab.wait_for_selector(".meter .value:not(:empty)")
        tab.get_by_label("Speed").select_option("400")
        tab.get_by_role("button", name="Run", exact=True).click()
        tab.locator(".meter .verdict", has_text=re.compile("^below")).wait_for()
        tab.wait_for_timeout(1500)
        tab.screenshot(path=Path(__file__).parent / "_static" / "page.png")
        browser.close()


if __name__ == "__main__":
    main()
