"""`.. public:: PACKAGE` documents every name that a package (or a module that a package names) gives to the public."""

import importlib
import inspect
from collections.abc import Iterable
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from names import names_of
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


def directive_for(value: Any) -> str:
    """Return the directive of autodoc that fits."""
    if inspect.isclass(value):
        return "autoclass"
    return "autofunction" if callable(value) else "data"


class Public(SphinxDirective):
    """The public names of a package."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return what autodoc makes of every name."""
        package = self.arguments[0]
        module, lines = importlib.import_module(package), []
        for name in names_of(package):
            value = getattr(module, name)
            kind = directive_for(value)
            if kind == "data":  # a table: its keys say what there is
                listed = isinstance(value, Iterable) and not isinstance(value, str)
                keys = ", ".join(f"``{key}``" for key in value) if listed else f"``{value!r}``"
                lines += [f".. py:data:: {package}.{name}", "", f"   {keys}", ""]
                continue
            lines.append(f".. {kind}:: {package}.{name}")
            if package == "wideproof":  # described where they live; here is what they are for
                lines += ["   :no-index:"]
            elif kind == "autoclass":
                fields = getattr(value, "_fields", ())  # of a named tuple: its docstring describes them
                left_out = ["set_fit_request", "set_predict_request", "set_score_request", *fields]
                lines += ["   :members:", f"   :exclude-members: {', '.join(left_out)}"]
            lines.append("")
        holder = nodes.section()
        holder.document = self.state.document
        self.state.nested_parse(StringList(lines, source=f"{package} (public names)"), self.content_offset, holder)
        return holder.children


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("public", Public)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
