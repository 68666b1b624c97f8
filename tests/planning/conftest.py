"""Networks that are not drawn: most of a plan needs none, and each one is compiled anew."""

from importlib import import_module

import pytest

from wideproof.planning.width import Measured


@pytest.fixture
def undrawn(monkeypatch):
    """Take the first width for granted."""
    taken = (Measured(width=64, share=0.75, largest=2.0, limit_largest=1.0, steps=10, outputs=1),)
    module = import_module("wideproof.planning.plan")  # the package's own `plan` is the function
    monkeypatch.setattr(module, "find_width", lambda *arguments, **options: taken)
    return taken
