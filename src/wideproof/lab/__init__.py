"""The lab: watch networks become provable, in the browser (`serve`) or in a notebook.

The package can be called: `wp.lab(data, network)` shows the bench in a cell. `wideproof.lab.widget.lab` says which
options there are.
"""

import sys
from types import ModuleType
from typing import Any

from wideproof.lab.serving import serve as serve

__all__ = ["serve"]


class _Lab(ModuleType):
    """A package that is a function, too."""

    def __call__(self, data: Any = None, network: Any = None, **options: Any) -> Any:
        """Show the bench in a notebook: see `wideproof.lab.widget.lab`."""
        try:
            from wideproof.lab.widget import lab
        except ImportError as error:
            from wideproof.errors import InputError

            raise InputError(
                f"the lab in a notebook needs {error.name}, which is not installed: pip install 'wideproof[widget]'"
            ) from None
        return lab(data, network, **options)


sys.modules[__name__].__class__ = _Lab
