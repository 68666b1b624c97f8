"""The bench for a notebook: the page's modules and styles as one module, which needs nothing beside itself."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path

STATIC = Path(__file__).parent / "static"
MODULES = ("uplot.js", "protocol.js", "state.js", "tour.js", "draw.js", "bench.js", "widget.js")
STYLES = ("uplot.css", "lab.css")

_IMPORT = re.compile(r'^import .*? from "\./[\w.]+";\n', re.MULTILINE)
_DEFAULT = re.compile(r"^export default \w+;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const|let)\b)", re.MULTILINE)


@functools.cache
def module() -> str:
    """Return the text of the module: its only export is what anywidget asks for.

    >>> module().count("export ")
    1
    """
    texts = [(STATIC / name).read_text(encoding="utf-8") for name in MODULES]
    texts = [*map(plain, texts[:-1]), _IMPORT.sub("", texts[-1])]
    styles = "\n".join((STATIC / name).read_text(encoding="utf-8") for name in STYLES)
    return "\n".join([f"const STYLES = {json.dumps(styles, ensure_ascii=False)};", *texts])


def plain(text: str) -> str:
    r"""Return a module without its imports from beside it and without exports.

    >>> plain('import { a } from "./a.js";\nexport const b = a;\n')
    'const b = a;\n'
    """
    return _EXPORT.sub("", _DEFAULT.sub("", _IMPORT.sub("", text)))
