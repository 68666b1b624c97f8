"""The version: what was installed says it."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("wideproof")
except PackageNotFoundError:  # a source tree that nobody installed
    __version__ = "0+source"
