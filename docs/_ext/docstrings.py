"""Docstrings are written for people who read code, in Markdown; here they become what Sphinx reads."""

import re

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

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
    if what in ("attribute", "property"):
        lines.insert(0, "")  # or what stands before a colon in the first line would be read as a type


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


def setup(app: Sphinx) -> dict[str, bool]:
    """Rewrite before the sections are read."""
    app.connect("autodoc-process-docstring", _process, priority=100)
    app.connect("autodoc-process-signature", _process_signature)
    app.connect("doctree-read", _shorten)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
