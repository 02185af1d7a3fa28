"""Compute sessions for JupyterHub: environments, presets, shares of a GPU, folders, a queue."""

from ._version import __version__
from .setup import setup

__all__ = ["__version__", "setup"]
