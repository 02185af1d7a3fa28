"""What a container needs besides its devices to use the GPUs that its session was granted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class GpuSettings:
    """Of one session, as the provider of its GPUs says.

    `mounts`: paths of the machine that the container has at the same place, writable: sockets.
    `cgroup_parent`: as Docker's option of that name; "" is Docker's own choice.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[str, ...] = ()
    cgroup_parent: str = ""
