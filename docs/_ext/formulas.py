"""Formulas drawn by the KaTeX beside the pages: no other host, also where a page is opened as a file."""

import html

from docutils import nodes
from sphinx.application import Sphinx


def _visit(block: bool):
    tag = "div" if block else "span"

    def visit(self, node: nodes.math | nodes.math_block) -> None:
        self.body.append(f'<{tag} class="math">{html.escape(node.astext())}</{tag}>')
        raise nodes.SkipNode

    return visit


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer, and its script on every page."""
    app.add_html_math_renderer("katex", inline_renderers=(_visit(False), None), block_renderers=(_visit(True), None))
    app.add_css_file("katex/katex.min.css")
    app.add_js_file("katex/katex.min.js")
    app.add_js_file("formulas.js")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
