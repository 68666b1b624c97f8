"""Check a built site: every public name is on a page, every link leads somewhere, nothing comes from another host."""

import re
import sys
import zlib
from pathlib import Path

from links import broken
from names import PACKAGES, names_of

LOADED = re.compile(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=\"(https?://[^\"]+)\"")


def objects(site: Path) -> set[str]:
    """Return the names in the site's inventory."""
    content = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    return {line.split(" ", 1)[0] for line in zlib.decompress(content).decode().splitlines()}


def main(site: Path) -> int:
    """Print what is missing, what leads nowhere, and what pages load from elsewhere."""
    known = objects(site)
    missing = [f"{package}.{name}" for package in PACKAGES if package != "wideproof" for name in names_of(package)
               if not any(one.endswith(f".{name}") for one in known)]  # fmt: skip
    foreign = [f"{page.name}: {url}" for page in site.rglob("*.html") for url in LOADED.findall(page.read_text())]
    lost, followed = broken(site)
    for problem in (*missing, *foreign, *(f"broken link in {one}" for one in lost)):
        print(problem, file=sys.stderr)
    print(f"{len(known)} names, {followed} links inside the site, {len(lost)} broken")
    return 1 if missing or foreign or lost else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
