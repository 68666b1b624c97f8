"""The page without an installation: the bench, its arithmetic in JavaScript and all styles as one file.

`python -m wideproof.lab.alone FILE` writes it, with nothing but Python; `make page` does so. The file opens from a
disk, as `file://`, or from any host, and asks nothing of another. It lies here, beside the lab, because it is the lab's
page: only what answers it is another (`alone.js`, in a worker, in place of `bench.py` behind a socket).
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

from wideproof.lab.joined import STATIC, STYLES, plain

WORKER = ("core.js", "alone.js")
PAGE = ("uplot.js", "state.js", "tour.js", "draw.js", "bench.js", "alone_page.js")


def page() -> str:
    """Return the page as one HTML text.

    >>> text = page()
    >>> "import " in worker(), text.count("</script>")
    (False, 1)
    """
    styles = "\n".join(_read(name) for name in STYLES)
    script = "\n".join(
        [f"const WORKER = {json.dumps(worker(), ensure_ascii=False)};", *(plain(_read(name)) for name in PAGE)]
    )
    parts = {
        "icon": base64.b64encode((STATIC / "icon.svg").read_bytes()).decode(),
        "styles": styles,
        "script": script.replace("</", "<\\/").replace("<!--", "<\\!--"),  # all of them stand in texts
    }
    text = _read("alone.html")
    for name, part in parts.items():
        text = text.replace(f"{{{name}}}", part)
    return text


def worker() -> str:
    """Return the script of the page's worker."""
    return "\n".join(plain(_read(name)) for name in WORKER)


def _read(name: str) -> str:
    return (STATIC / name).read_text(encoding="utf-8")


def main(arguments: list[str]) -> None:
    """Write the page to the file that is named."""
    place = Path(arguments[0] if arguments else "wideproof-page.html")
    place.parent.mkdir(parents=True, exist_ok=True)
    half = place.with_name(f"{place.name}.half")
    half.write_text(page(), encoding="utf-8")
    half.replace(place)
    print(f"{place}: open it in a browser")


if __name__ == "__main__":
    main(sys.argv[1:])
