"""The registry that users' images go to, as an admin says it."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from .configured import Model

_HOST = r"(?:localhost|(?=[^/]*[.:])[a-z0-9](?:[a-z0-9.\-]*[a-z0-9])?)(?::[0-9]{1,5})?"
_PLACE = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_PREFIX = re.compile(rf"{_HOST}(?:/{_PLACE})*")
LONGEST = 120  # characters; what follows in the name of an image has to have room, too


def _prefix(value: str) -> str:
    if len(value) > LONGEST or not _PREFIX.fullmatch(value):
        raise ValueError(
            "Write a registry's address and a place in it, in small letters: "
            "registry.example.org/lab"
        )
    return value


def _path(value: str | None) -> str | None:
    if value is not None and (not value.startswith("/") or value.endswith("/")):
        raise ValueError("Write the absolute path of a file.")
    return value


class ImageRegistry(Model):
    """Where users' images go, and who we are there."""

    prefix: Annotated[str, AfterValidator(_prefix)]
    user: str | None = Field(default=None, min_length=1, max_length=255)
    password_file: Annotated[str | None, AfterValidator(_path)] = None

    @model_validator(mode="after")
    def _both_or_none(self) -> ImageRegistry:
        if (self.user is None) != (self.password_file is None):
            raise ValueError("Write both user and password_file, or neither.")
        return self
