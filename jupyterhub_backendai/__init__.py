"""Compute sessions for JupyterHub: environments, presets, shares of a GPU, folders, a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .hub_setup import setup

__all__ = ["__version__", "setup"]


def __getattr__(name: str) -> Any:
    """`setup`, when it is asked for: in an image that has this package installed a session's server
    imports `singleuser` alone, and none of the Hub's side with it."""
    if name != "setup":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .hub_setup import setup

    globals()["setup"] = setup
    return setup
