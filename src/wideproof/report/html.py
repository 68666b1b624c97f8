"""The report of a proof as one HTML file that needs nothing else: figures and style inside, no scripts, no network."""

from __future__ import annotations

import csv
import io
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from wideproof.report import proof_sentences
from wideproof.report import proof_words as words
from wideproof.report.figures import save_figure
from wideproof.report.proof_figures import EXPECTED, POLISHED, PROVEN, RUN, TEXT, Drawn, draw
from wideproof.storage import write_bytes

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup
    from matplotlib.figure import Figure

    from wideproof.proving import Proof

# The figures' colours, by the names that the template's light and dark styles give them.
THEMED = {RUN: "run", EXPECTED: "expected", POLISHED: "polished", PROVEN: "proven", TEXT: "text"}
REPORT, FIGURES, CONTRADICTIONS = "report.html", "figures", "contradictions.csv"


def proof_html(proof: Proof) -> str:
    """Return the whole report as one HTML document.

    Parameters
    ----------
    proof
        The result of `wp.prove`.

    Returns
    -------
    str
        The document.
    """
    figures = draw(proof)
    return _render(proof, figures, {name: svg_text(drawn.figure, name) for name, drawn in figures.items()})


def save_report(proof: Proof, folder: str | Path) -> Path:
    """Write `report.html` to a folder, and every figure as SVG and PNG to its subfolder `figures`.

    The page is written last, so that its figures exist whenever it does.

    Parameters
    ----------
    proof
        The result of `wp.prove`.
    folder
        The folder to write to.

    Returns
    -------
    Path
        The path of the page.
    """
    folder = Path(folder)
    figures = draw(proof)
    texts = {name: svg_text(drawn.figure, name) for name, drawn in figures.items()}
    page = _render(proof, figures, texts)
    (folder / FIGURES).mkdir(parents=True, exist_ok=True)
    for name, drawn in figures.items():
        write_bytes(folder / FIGURES / f"{name}.svg", texts[name].encode())
        save_figure(drawn.figure, folder / FIGURES / f"{name}.png")
    if rows := words.clashes(proof):
        write_bytes(folder / CONTRADICTIONS, _contradictions(rows, words.row_word(proof)).encode())
    write_bytes(folder / REPORT, page.encode())
    return folder / REPORT


def _contradictions(clashes: list[words.Clash], word: str) -> str:
    sink = io.StringIO()
    table = csv.writer(sink, lineterminator="\n")
    table.writerow(["group", word, "target"])
    for k, clash in enumerate(clashes, 1):
        table.writerows([k, number, target] for number, target in zip(clash.rows, clash.targets, strict=True))
    return sink.getvalue()


def proof_card(proof: Proof) -> str:
    """Return the verdict and the loss as a piece of HTML for notebooks.

    Parameters
    ----------
    proof
        The result of `wp.prove`.

    Returns
    -------
    str
        HTML without a head.
    """
    from markupsafe import escape

    drawn = draw(proof).get("loss")
    picture = inline_svg(drawn.figure, "loss", drawn.title) if drawn is not None else ""
    for name, colour in {name: colour for colour, name in THEMED.items()}.items():
        picture = picture.replace(f"var(--{name})", colour)
    lines = "".join(f"<p>{escape(str(estimate))}</p>" for estimate in proof.estimates)
    said = escape(proof_sentences.headline(proof))
    return f'<div style="max-width: 40em"><p><strong>{said}</strong></p>{lines}{picture}</div>'


def _render(proof: Proof, figures: dict[str, Drawn], texts: dict[str, str]) -> str:
    numbers = words.numbers(proof)
    return (
        environment()
        .get_template("proof.html")
        .render(
            proof=proof,
            outcome=words.outcome(proof),
            no_estimate=words.NO_ESTIMATE,
            headline=proof_sentences.headline(proof),
            meaning=proof_sentences.meaning(proof),
            obstacle=words.obstacle(proof),
            clashes=words.clashes(proof),
            row_word=words.row_word(proof),
            figures=[(name, drawn, _inline(texts[name], name, drawn.title)) for name, drawn in figures.items()],
            numbers=numbers,
            verified=any(row.found for row in numbers),
            checks=words.checks(proof),
            commands=words.commands(proof),
            training=words.training(proof),
            assumptions=words.assumptions(proof),
            versions=words.versions(),
        )
    )


@cache
def environment() -> Environment:
    """Return what the pages' templates are found and filled with."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    places = PackageLoader("wideproof.report", "templates")
    made = Environment(loader=places, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters |= {"shown": words.shown, "paper": words.paper, "code": with_code}
    return made


def with_code(text: str) -> Markup:
    """Return a sentence as HTML, with what stands in backticks as code.

    >>> print(with_code("prepare with `unit` if a < b"))
    prepare with <code>unit</code> if a &lt; b
    """
    from markupsafe import Markup, escape

    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def inline_svg(figure: Figure, name: str, title: str) -> str:
    """Return a figure as an `<svg>` element to stand inside HTML: text as text, colours by name, no metadata.

    `name` begins every identifier, so that several figures can stand in one document.
    """
    return _inline(svg_text(figure, name), name, title)


def svg_text(figure: Figure, name: str) -> str:
    """Return a figure as an SVG document, with text as text; the same bytes for the same figure.

    Parameters
    ----------
    figure
        A matplotlib figure.
    name
        Prefix of the identifiers in the file.

    Returns
    -------
    str
        The SVG document.
    """
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    return buffer.getvalue()


def _inline(text: str, name: str, title: str) -> str:
    from markupsafe import Markup, escape

    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\b(id="|url\(#|href="#)', rf"\g<1>{name}-", text)
    for colour, variable in THEMED.items():
        text = text.replace(colour, f"var(--{variable})")
    size = re.search(r'<svg[^>]*?viewBox="([^"]*)"', text)
    assert size is not None
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="{size[1]}" '
        f'role="img" aria-label="{escape(title)}">'
    )
    return Markup(head + text[text.index(">", size.end()) + 1 :])
