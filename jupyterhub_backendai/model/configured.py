"""The base of everything that an admin configures."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """Base of all configured things: immutable, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")
