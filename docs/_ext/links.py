"""Links of a built site: every one leads to a file that is there, and to an anchor on it."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links and anchors of a page."""

    def __init__(self, text: str):
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what a tag refers to and what it can be referred to by."""
        for name, value in attrs:
            if value and name == "id":
                self.anchors.add(value)
            elif value and name in ("href", "src"):
                self.links.append(value)


def broken(site: Path) -> tuple[list[str], int]:
    """Return the links inside a site that lead nowhere, and how many were followed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = '<a id="here" href="#here">x</a><a href="b.html">y</a><a href="#there">z</a><img src="//host/a.png">'
    ...     _ = (Path(folder) / "a.html").write_text(page)
    ...     broken(Path(folder))
    (['a.html: b.html', 'a.html: #there'], 3)
    """
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    wrong, count = [], 0
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            count += 1
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            there = pages[target].anchors if target in pages else set()
            if not target.exists() or (anchor and target.suffix == ".html" and anchor not in there):
                wrong.append(f"{path.relative_to(site.resolve())}: {link}")
    return wrong, count
