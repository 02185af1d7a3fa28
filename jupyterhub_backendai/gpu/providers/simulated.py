"""GPUs that do not exist: to try forms, queue and quotas without one."""

from __future__ import annotations

from .base import Provider


class Simulated(Provider):
    """Sessions get the variables, and no device."""

    name = "simulated"
