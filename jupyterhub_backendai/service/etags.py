"""A session's version as an entity tag of HTTP, and what `If-Match` says of it."""

from __future__ import annotations

import re

# As it is sent, as a proxy that packs answers makes it (weak), and bare, as people write it.
_TAG = r'(?:W/)?"([\x21\x23-\x7e]*)"|([0-9]+)'
_LIST = re.compile(rf"(?:{_TAG})(?:\s*,\s*(?:{_TAG}))*")


def etag(version: int) -> str:
    """The tag of a version: the very text to send back."""
    return f'"{version}"'


def matches(wanted: str, version: int) -> bool:
    """Whether an `If-Match` has this version in it. Raises `ValueError` for what is none."""
    wanted = wanted.strip()
    if not _LIST.fullmatch(wanted):
        raise ValueError("this is no entity tag")
    return any(str(version) in found for found in re.findall(_TAG, wanted))
