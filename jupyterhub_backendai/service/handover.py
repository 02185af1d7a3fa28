"""The configuration's way from the Hub into the service's process.

It goes in the environment: the command line can be read by every user of the machine, a file would
need a place. Packed, because the kernel bounds a variable and a site may name thousands of users.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any

from traitlets.config import Config

from ..model.errors import ConfigurationError

VARIABLE = "BACKENDAI_CONFIGURATION"
LOOK = "Hub"  # the section that says how the Hub's own pages look
MOST = 120 * 1024  # bytes; Linux takes 128 KiB in one variable


def pack(sections: Mapping[str, Mapping[str, Any]]) -> str:
    """Sections of a configuration as one variable. Raises `ConfigurationError`."""
    try:
        plain = json.dumps(sections, default=_listed)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            "BackendAI", "...", f"The sessions service cannot be told of it: {error}.",
            "Write it with text, numbers, lists and dicts only.",
        ) from None  # fmt: skip
    packed = base64.b64encode(zlib.compress(plain.encode(), 9)).decode()
    if len(packed) > MOST:
        raise ConfigurationError(
            "BackendAI", "...", "It is too large to be handed to the sessions service.",
            "Give policies to groups instead of to single users.",
        )  # fmt: skip
    return packed


def unpack(packed: str) -> Config:
    """The configuration that was packed. Raises `ConfigurationError`."""
    try:
        sections = json.loads(zlib.decompress(base64.b64decode(packed, validate=True)))
        return Config({name: Config(values) for name, values in sections.items()})
    except (ValueError, zlib.error, AttributeError) as error:
        raise ConfigurationError(
            "BackendAI", "", f"The service was given no configuration it can read: {error}.",
            f"Let setup(c) start it: that sets {VARIABLE}.",
        ) from None  # fmt: skip


def _listed(value: object) -> list[Any]:
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if isinstance(value, tuple):
        return list(value)
    raise TypeError(f"{type(value).__name__} is no JSON")
