"""Docstrings are written for people who read code, in Markdown; here they become what Sphinx reads."""

import re
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.ext.napoleon.docstring import NumpyDocstring

_BLOCK = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)
_INLINE = re.compile(r"(?<![\w$])\$([^$\n]+(?:\n[^$\n]+)?)\$(?!\w)")
_LONG = "jaxlib._jax.Array"
_LINK = re.compile(r"\[([^\]]+)\]\((https?://[^)]+)\)")


def rewritten(text: str) -> str:
    """Return a docstring with formulas, code and links as reStructuredText writes them.

    >>> rewritten("The norm $x^2$ of `x`.")
    'The norm :math:`x^2` of ``x``.'
    """
    text = _BLOCK.sub(lambda found: _indented(found, text), text)
    text = re.sub(r"(?<![:`\w])`([^`\n]+)`(?!`)", r"``\1``", text)
    text = _INLINE.sub(lambda found: f":math:`{' '.join(found[1].split())}`", text)
    return _LINK.sub(r"`\1 <\2>`__", text)


def _indented(found: re.Match[str], text: str) -> str:
    line = text.rfind("\n", 0, found.start()) + 1
    before = text[line : found.start()]
    space = before if not before.strip() else re.match(r"\s*", before)[0]  # pyright: ignore[reportOptionalSubscript]
    formula = " ".join(found[1].split())
    return f"\n\n{space}.. math:: {formula}\n\n{space}"


def _process(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    if what == "attribute" and re.fullmatch(r"Alias for field number \d+", "\n".join(lines).strip()):
        lines.clear()  # what Python says of every field of a named tuple
        return
    lines[:] = rewritten("\n".join(lines)).split("\n")


def readable(signature: str) -> str:
    """Return a signature that Sphinx can parse, and so shorten: no `<factory>`, no limits of a field beside its type.

    >>> readable("(name: ~typing.Annotated[str, Pattern(pattern='[a-z]')], tasks: list[int] = <factory>)")
    '(name: str, tasks: list[int] = ...)'
    """
    plain = re.sub(r"~?typing\.Annotated\[(.+?), ~?(?:\w+\.)*\w+\(.*?\)\]", r"\1", signature)
    return plain.replace("<factory>", "...")


def _process_signature(
    app: Sphinx, what: str, name: str, obj: object, options: object, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    return None if signature is None else readable(signature), returned


def _shorten(app: Sphinx, document: nodes.document) -> None:
    """Write types of JAX by the name that people import."""
    for node in document.findall(addnodes.desc_signature):
        for text in list(node.findall(nodes.Text)):
            if _LONG in text:
                text.parent.replace(text, nodes.Text(text.replace(_LONG, "Array")))


def _whole(docstring: Any) -> tuple[str, list[str]]:
    """Return no type and all lines: a colon in the first line of a property separates no type from a description."""
    return "", type(docstring)(docstring._consume_to_end(), docstring._config).lines()


def setup(app: Sphinx) -> dict[str, bool]:
    """Rewrite before the sections are read."""
    setattr(NumpyDocstring, "_consume_inline_attribute", _whole)  # noqa: B010
    app.connect("autodoc-process-docstring", _process, priority=100)
    app.connect("autodoc-process-signature", _process_signature)
    app.connect("doctree-read", _shorten)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
