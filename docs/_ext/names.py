"""What the packages give to the public; nothing of Sphinx, so that tests can ask."""

import importlib
import inspect
import re
from types import ModuleType
from typing import Any

PACKAGES = (
    "wideproof", "wideproof.data", "wideproof.networks", "wideproof.networks.exchange", "wideproof.kernels",
    "wideproof.training", "wideproof.certificates", "wideproof.planning", "wideproof.proving", "wideproof.theorems",
    "wideproof.report", "wideproof.estimators", "wideproof.sweeps", "wideproof.papers", "wideproof.monitors",
    "wideproof.adapters", "wideproof.lab", "wideproof_verify",
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
