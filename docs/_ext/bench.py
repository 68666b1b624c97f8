"""The lab's bench as one page of the site, `bench.html`: nothing is installed for it."""

from pathlib import Path

from sphinx.application import Sphinx

from wideproof.lab.alone import main


def _write(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        main([str(Path(app.outdir) / "bench.html")])


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the page when all others are there."""
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
