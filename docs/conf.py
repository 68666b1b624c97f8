"""How the site is built: `make docs`. Nothing on a page comes from another host."""

import sys
from importlib.metadata import version as installed
from pathlib import Path

from pygments.lexers.shell import BashLexer
from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "Wideproof"
release = version = installed("wideproof")
project_copyright = "the authors of Wideproof"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "formulas", "docstrings", "public", "bench"]
myst_enable_extensions = ["dollarmath", "deflist", "colon_fence", "attrs_inline"]
myst_heading_anchors = 4
myst_dmath_double_inline = True
suppress_warnings = ["myst.header", "ref.python"]  # `Verdict` is a type of two packages
exclude_patterns = ["_build", "_ext"]
default_role = "code"
nitpicky = False

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_rtype = False

html_theme = "furo"
html_title = "Wideproof"
html_static_path = ["_static"]
html_css_files = ["wideproof.css"]
html_math_renderer = "katex"
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"sidebar_hide_name": False, "navigation_with_keys": True}
pygments_style, pygments_dark_style = "tango", "monokai"


def setup(app: Sphinx) -> None:
    """Show commands as a shell's: without a prompt, Pygments takes the lines of a console for output."""
    app.add_lexer("console", BashLexer)
