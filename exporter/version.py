"""The version of the installed package."""

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("inferlog")
except PackageNotFoundError:  # a source tree on the path, not installed
    VERSION = "0+unknown"
