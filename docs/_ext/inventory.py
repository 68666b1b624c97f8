"""Compare a built site with the library: every public name is on a page, and nothing comes from another host."""

import re
import sys
import zlib
from pathlib import Path

from public import PACKAGES, names_of

LOADED = re.compile(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=\"(https?://[^\"]+)\"")


def objects(site: Path) -> set[str]:
    """Return the names in the site's inventory."""
    content = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    return {line.split(" ", 1)[0] for line in zlib.decompress(content).decode().splitlines()}


def main(site: Path) -> int:
    """Print what is missing, and what pages load from elsewhere."""
    known = objects(site)
    missing = [f"{package}.{name}" for package in PACKAGES if package != "wideproof" for name in names_of(package)
               if not any(one.endswith(f".{name}") for one in known)]  # fmt: skip
    foreign = [f"{page.name}: {url}" for page in site.rglob("*.html") for url in LOADED.findall(page.read_text())]
    for problem in (*missing, *foreign):
        print(problem, file=sys.stderr)
    return 1 if missing or foreign else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
