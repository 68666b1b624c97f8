"""`.. public:: PACKAGE` documents every name that a package (or a module that a package names) gives to the public."""

import importlib
import inspect
import re
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

PACKAGES = (
    "wideproof", "wideproof.data", "wideproof.networks", "wideproof.networks.exchange", "wideproof.kernels",
    "wideproof.training", "wideproof.certificates", "wideproof.planning", "wideproof.proving", "wideproof.report",
    "wideproof.estimators", "wideproof.sweeps", "wideproof.papers", "wideproof.monitors", "wideproof.lab",
    "wideproof_verify",
)  # fmt: skip


def names_of(package: str) -> list[str]:
    """Return the names that a package gives to the public: those in `__all__`, or what its `__init__` imports.

    >>> "load" in names_of("wideproof.data")
    True
    """
    module = importlib.import_module(package)
    if hasattr(module, "__all__"):
        return sorted(module.__all__)
    found = []
    for name in dir(module):
        value = getattr(module, name)
        private = name.startswith("_") or isinstance(value, ModuleType)
        if not private and name != "annotations" and _belongs(name, value, module):
            found.append(name)
    return sorted(found)


def _belongs(name: str, value: Any, module: ModuleType) -> bool:
    """Whether a package gives a name, or a module makes it."""
    package = hasattr(module, "__path__")
    own = getattr(value, "__module__", module.__name__ if package else "") or ""
    if package:
        return own.startswith("wideproof") or not callable(value)
    if callable(value):
        return own == module.__name__
    return re.search(rf"^(\w+, )*{name}\b.* = ", inspect.getsource(module), re.MULTILINE) is not None


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
                lines += [
                    "   :members:",
                    "   :exclude-members: set_fit_request, set_predict_request, set_score_request",
                ]
            lines.append("")
        holder = nodes.section()
        holder.document = self.state.document
        self.state.nested_parse(StringList(lines, source=f"{package} (public names)"), self.content_offset, holder)
        return holder.children


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("public", Public)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
