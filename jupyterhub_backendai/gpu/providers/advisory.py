"""Shares that nothing holds: programs are told how much is theirs (`FGPU_*`), and that is all."""

from __future__ import annotations

from .whole import TimeSliced


class Advisory(TimeSliced):
    """Shares by agreement."""

    name = "advisory"
