"""The lab: watch networks become provable, in the browser or in a notebook.

The package can be called: `wp.lab(data, network)` shows the bench in a notebook, as `wideproof.lab.widget.lab` does.
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from wideproof.lab.serving import serve as serve

if TYPE_CHECKING:
    from wideproof.lab.widget import View


class _Lab(ModuleType):
    """A package that is a function, too."""

    def __call__(self, data: Any = None, network: Any = None, **options: Any) -> "View":
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
